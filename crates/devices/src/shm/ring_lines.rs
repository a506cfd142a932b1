//! Which lines of its area a writer's next run takes (`ring.rs`, rule 3). Lines are counted since the
//! beginning, with those that were skipped: a *round* is once through the area.

use super::areas::Area;
use crate::shm::processor::{FIRST_COUNT, SHORT_RUN};

/// A writer's account of an area.
pub(super) struct Lines {
    area: Area,
    /// Lines used.
    pub(super) next: u64,
    /// Lines that the reader has released, as far as is known.
    pub(super) released: u64,
    /// Where the round of the last run began, and where the last run of the round before ended.
    round: u64,
    last_end: u64,
    /// Whether short runs go back to the first lines.
    pub(super) reuses: bool,
    /// `next` at the last look for the sake of the first lines, and after how many lines the next one is due:
    /// twice as many after each that was in vain.
    looked_at: u64,
    look_after: u64,
}

impl Lines {
    pub(super) fn new(area: Area, reuses: bool) -> Self {
        Self {
            area,
            next: 0,
            released: 0,
            round: 0,
            last_end: 0,
            reuses,
            looked_at: 0,
            look_after: FIRST_COUNT,
        }
    }

    /// Where a run of `need` lines starts if the reader is told nothing.
    #[inline]
    pub(super) fn in_turn(&self, need: u64) -> u64 {
        self.area.start_in_turn(self.next, need)
    }

    /// Where a run starts, as far as is known, if it would start at `in_turn` in turn. `None`:
    /// [`look`](Self::look) first.
    #[inline]
    pub(super) fn known_start(&self, need: u64, in_turn: u64) -> Option<u64> {
        if !self.reuses {
            return Some(in_turn);
        }
        if need >= *SHORT_RUN.start() {
            return self.known_start_of_longer(need, in_turn);
        }
        // Those too short to gain from the first lines go round the whole area.
        let is_next = self.area.ends_before(self.next, need, self.area.count);
        Some(if is_next { self.next } else { in_turn })
    }

    fn known_start_of_longer(&self, need: u64, in_turn: u64) -> Option<u64> {
        if SHORT_RUN.contains(&need) && !self.area.ends_before(self.next, need, FIRST_COUNT) {
            if self.is_first_free(need) {
                return Some(self.first());
            }
            if self.next - self.looked_at >= self.look_after {
                return None;
            }
        }
        Some(self.free_start(need, in_turn))
    }

    /// The same once `released` is up to date.
    #[cold]
    pub(super) fn look(&mut self, need: u64, in_turn: u64) -> u64 {
        let is_free = self.is_first_free(need);
        self.looked_at = self.next;
        self.look_after = if is_free { FIRST_COUNT } else { (2 * self.look_after).min(self.area.count) };
        if is_free { self.first() } else { self.free_start(need, in_turn) }
    }

    /// The first line of the next round.
    fn first(&self) -> u64 {
        self.area.round_from(self.next)
    }

    fn is_first_free(&self, need: u64) -> bool {
        self.first() + need <= self.released + self.area.count
    }

    /// In turn; but who went back to the first lines and meets such as are not released goes on behind those
    /// that the round before has used.
    fn free_start(&self, need: u64, in_turn: u64) -> u64 {
        if in_turn != self.next || in_turn + need <= self.released + self.area.count {
            return in_turn;
        }
        let behind = self.last_end + self.area.count;
        if behind > self.next && self.is_in_round(behind, need) { behind } else { in_turn }
    }

    fn round_of(&self, start: u64) -> u64 {
        start & !(self.area.count - 1)
    }

    /// Whether such a run is one of the last run's round.
    fn is_in_round(&self, start: u64, need: u64) -> bool {
        self.round_of(start) == self.round && self.area.start_in_turn(start, need) == start
    }

    /// Whether the reader has released the lines of such a run: those of the last round, or it has not used
    /// them. All earlier rounds are released.
    #[inline]
    pub(super) fn is_free(&self, start: u64, need: u64) -> bool {
        start + need <= self.released + self.area.count
            || self.is_in_round(start, need) && start >= self.last_end + self.area.count
    }

    pub(super) fn take(&mut self, start: u64, need: u64) {
        if self.round_of(start) != self.round {
            (self.round, self.last_end) = (self.round_of(start), self.next);
        }
        self.next = start + need;
    }

    /// The reader has released so many lines. A count beyond those used is ignored (rule 6).
    #[inline]
    pub(super) fn learn(&mut self, count: u64) {
        if count > self.released && count <= self.next {
            self.released = count;
        }
    }
}
