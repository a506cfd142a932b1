//! How a writer uses a ring's lines, and where a run of them starts (`ring.rs`, rule 3).

use super::{AREAS_COUNT, BULK, LINE_BYTES, Line, NEAR, PACKET_BYTES_MAX, Ring};
use crate::shm::processor::Processor;

/// Runs up to the first length (2 KiB) stay in the near lines' first 64 KiB, which stay in nearer caches
/// because they are reused sooner: 1 KiB takes 0.46 µs with them and 0.65 in 128 KiB; 4 KiB 1.03 and 0.97.
const NEAR_RUN_LINES_MAX: u64 = 32;
const NEAR_LINES: u64 = 1024;

impl Ring {
    /// Maximum bytes of a packet in data lines, where such a processor writes it.
    pub(crate) fn data_bytes_max(&self, processor: &Processor) -> usize {
        Areas::of(self, processor).data_bytes_max()
    }
}

/// The lines of an area: a power of two, or none.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) count: u64,
    /// Where runs of up to [`NEAR_RUN_LINES_MAX`] end.
    short_end: u64,
}

impl Area {
    pub(super) fn new(count: usize) -> Self {
        let count = count as u64;
        Self { count, short_end: NEAR_LINES.clamp(count / 2, count) }
    }

    /// Where a run of `need` lines starts in turn, counted in lines since the beginning, if the next free
    /// line is `next` (rule 3).
    #[inline]
    pub(super) fn start_in_turn(self, next: u64, need: u64) -> u64 {
        let end = if need <= NEAR_RUN_LINES_MAX { self.short_end } else { self.count };
        if self.ends_before(next, need, end) { next } else { self.round_from(next) }
    }

    /// Whether a run that starts there ends before the `end`-th line of the area.
    #[inline]
    pub(super) fn ends_before(self, start: u64, need: u64, end: u64) -> bool {
        self.index_of(start) + need <= end
    }

    /// The line of the area that is the `n`-th since the beginning.
    #[inline]
    pub(super) fn index_of(self, n: u64) -> u64 {
        n & (self.count - 1)
    }

    /// The first line of the first round that begins at `next` or behind it.
    #[inline]
    pub(super) fn round_from(self, next: u64) -> u64 {
        (next + self.count - 1) & !(self.count - 1)
    }
}

/// How the writer uses a ring's lines.
#[derive(Clone, Copy)]
pub(super) struct Areas {
    pub(super) each: [Area; AREAS_COUNT],
    /// The longest run in near lines.
    near_run_max: u64,
}

impl Areas {
    /// As suits the processor.
    pub(super) fn of(ring: &Ring, processor: &Processor) -> Self {
        let [near, bulk] = ring.areas.map(<[Line]>::len);
        let bulk = bulk.min(processor.bulk_count_max);
        let near_run_max = if bulk == 0 { near / 4 } else { (near / 4).min(processor.near_run_max) };
        Self { each: [Area::new(near), Area::new(bulk)], near_run_max: near_run_max as u64 }
    }

    /// Maximum bytes of a packet: it takes a quarter of its area at most (rule 5).
    pub(super) fn data_bytes_max(&self) -> usize {
        let bulk_count = self.each[BULK].count;
        let longest = if bulk_count == 0 { self.near_run_max } else { bulk_count / 4 };
        (longest as usize * LINE_BYTES).min(PACKET_BYTES_MAX)
    }

    /// The area of a run of `need` lines.
    #[inline]
    pub(super) fn area_of(&self, need: u64) -> usize {
        if need > self.near_run_max { BULK } else { NEAR }
    }

    /// What the reader is told, never 0: the exponents of the areas' counts, and the longest run.
    pub(super) fn word(&self) -> u64 {
        let [near, bulk] = self.each.map(|area| u64::from(area.count.checked_ilog2().unwrap_or(0)));
        self.near_run_max << 16 | bulk << 8 | near
    }

    /// What such a word says; `None`: no correct writer says so of this ring.
    pub(super) fn of_word(word: u64, ring: &Ring) -> Option<Self> {
        let count_of = |exponent: u64| 1usize.checked_shl(exponent as u32 & 0xff);
        let near = count_of(word)?;
        let bulk = if word >> 8 & 0xff == 0 { 0 } else { count_of(word >> 8)? };
        let areas = Self { each: [Area::new(near), Area::new(bulk)], near_run_max: word >> 16 };
        let is_possible = near <= ring.areas[NEAR].len()
            && bulk <= ring.areas[BULK].len()
            && areas.near_run_max <= near as u64 / 4;
        is_possible.then_some(areas)
    }
}
