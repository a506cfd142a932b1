//! Room in the lanes ahead: credits on their way back, and who waits for them.
//!
//! Credits of a lane come back in the order in which its packets leave. A lane counts them when they are
//! sent, and knows of the last two when they are back: in a router with short links the one before them is
//! back by then. What is not, is in a ring of records and not yet counted. So nothing is to be done when a
//! credit is back, and what is asked is answered without a branch: whether one is back when a port is looked
//! at is as good as random.

use std::hint::select_unpredictable;

use super::{LaneState, Network, Probe, STARVED};
use crate::slab::{NONE, Slab};

/// A credit on its way back before the last two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Return {
    time_ps: u64,
    bytes: u32,
    next: u32,
}

impl LaneState {
    /// When the last credit but one is back.
    #[inline(always)]
    fn earlier_ps(&self) -> u64 {
        self.return_ps - u64::from(self.earlier_by_ps)
    }

    /// The room at a time, no earlier than any that was asked about.
    #[inline(always)]
    fn room_bytes(&mut self, returns: &mut Slab<Return>, now_ps: u64) -> u32 {
        if self.returns_tail != NONE {
            self.count_returned(returns, now_ps);
        }
        let last = select_unpredictable(self.return_ps > now_ps, self.return_bytes, 0);
        let earlier = select_unpredictable(self.earlier_ps() > now_ps, self.earlier_bytes, 0);
        self.credit_bytes - last - earlier
    }

    /// Counts the records that are back by now.
    #[inline(never)]
    fn count_returned(&mut self, returns: &mut Slab<Return>, now_ps: u64) {
        while let Some(last) = returns.get(self.returns_tail) {
            let (tail, at) = (self.returns_tail, last.next);
            let first = returns[at];
            if first.time_ps > now_ps {
                return;
            }
            self.credit_bytes = self.credit_bytes.wrapping_add(first.bytes);
            if at == tail {
                self.returns_tail = NONE;
            } else {
                returns[tail].next = first.next;
            }
            returns.remove(at);
        }
    }

    fn push_return(&mut self, returns: &mut Slab<Return>, time_ps: u64, bytes: u32) {
        // Below 0 if the feeder has used it already, at a time later than `past_ps` in the same slice; by the
        // time it asks again this is counted.
        self.credit_bytes = self.credit_bytes.wrapping_sub(bytes);
        let last = returns.insert(Return { time_ps, bytes, next: NONE });
        let first = match self.returns_tail {
            NONE => last,
            before => std::mem::replace(&mut returns[before].next, last),
        };
        returns[last].next = first;
        self.returns_tail = last;
    }

    /// A credit will be back at a time, later than all that are on their way. Nobody will ask for the room
    /// at a time before `past_ps`.
    #[inline(always)]
    pub(super) fn put(&mut self, returns: &mut Slab<Return>, past_ps: u64, time_ps: u64, bytes: u32) {
        let later_ps = time_ps - self.return_ps;
        if (self.earlier_ps() > past_ps) | (later_ps > u32::MAX.into()) {
            self.make_place(returns, past_ps, later_ps);
        }
        (self.earlier_by_ps, self.earlier_bytes) = (later_ps as u32, self.return_bytes);
        (self.return_ps, self.return_bytes) = (time_ps, bytes);
        self.credit_bytes = self.credit_bytes.wrapping_add(bytes);
    }

    /// Takes out of the lane what it can no longer hold when it gets another credit, that much after the
    /// last: what is not yet back goes to the records.
    #[cold]
    fn make_place(&mut self, returns: &mut Slab<Return>, past_ps: u64, later_ps: u64) {
        self.count_returned(returns, past_ps);
        if self.earlier_bytes > 0 && self.earlier_ps() > past_ps {
            self.push_return(returns, self.earlier_ps(), self.earlier_bytes);
        }
        if later_ps > u32::MAX.into() {
            if self.return_ps > past_ps {
                self.push_return(returns, self.return_ps, self.return_bytes);
            }
            self.return_bytes = 0;
        }
    }

    /// The records, earliest first.
    fn records(&self, returns: &Slab<Return>) -> impl Iterator<Item = (u64, u32)> {
        let last = self.returns_tail;
        let first = returns.get(last).map(|last| last.next);
        let ring = std::iter::successors(first, move |&at| (at != last).then(|| returns[at].next));
        ring.map(|at| (returns[at].time_ps, returns[at].bytes))
    }

    /// The credits on their way after a time for which the room was asked, earliest first.
    fn on_their_way(&self, returns: &Slab<Return>, now_ps: u64) -> impl Iterator<Item = (u64, u32)> {
        let here = [(self.earlier_ps(), self.earlier_bytes), (self.return_ps, self.return_bytes)];
        let here = here.into_iter().filter(move |&(time_ps, bytes)| time_ps > now_ps && bytes > 0);
        self.records(returns).chain(here)
    }

    /// The room when all credits are back.
    pub(super) fn promised_bytes(&self, returns: &Slab<Return>) -> u32 {
        self.credit_bytes + self.records(returns).map(|(_, bytes)| bytes).sum::<u32>()
    }

    /// Whether there is room for a packet at a time, no earlier than any that was asked about.
    #[inline(always)]
    pub(super) fn has_room(&mut self, returns: &mut Slab<Return>, bytes: u32, now_ps: u64) -> bool {
        self.room_bytes(returns, now_ps) >= bytes
    }

    /// The room at a time before which the feeder sends nothing; if not even the shortest packet fits, when
    /// to look again.
    #[inline(always)]
    pub(super) fn room_at(
        &mut self,
        returns: &mut Slab<Return>,
        shortest_bytes: u32,
        time_ps: u64,
    ) -> Result<u32, u64> {
        let room_bytes = self.room_bytes(returns, time_ps);
        if room_bytes >= shortest_bytes {
            return Ok(room_bytes);
        }
        Err(self.wait_for_room(returns, shortest_bytes, time_ps))
    }

    /// When there will be room where there is none at a time. `u64::MAX`: not before a packet leaves the lane
    /// that has not yet begun to; then the feeder is woken.
    #[inline(never)]
    pub(super) fn wait_for_room(&mut self, returns: &mut Slab<Return>, bytes: u32, now_ps: u64) -> u64 {
        let mut promised = self.room_bytes(returns, now_ps);
        let later = self.on_their_way(returns, now_ps).find_map(|(time_ps, returned)| {
            promised += returned;
            (promised >= bytes).then_some(time_ps)
        });
        // Nobody knows yet.
        if later.is_none() {
            self.flags |= STARVED;
        }
        later.unwrap_or(u64::MAX)
    }
}

impl<P: Probe> Network<P> {
    /// `None` if there is room in a lane for a packet now, else the time to look again; `u64::MAX` if that
    /// is not known.
    #[inline(always)]
    pub(super) fn wait_in_vain(&mut self, target: u32, bytes: u32, now_ps: u64) -> Option<u64> {
        let lane = &mut self.lanes[target as usize];
        if lane.has_room(&mut self.returns, bytes, now_ps) {
            return None;
        }
        Some(lane.wait_for_room(&mut self.returns, bytes, now_ps))
    }

    /// Sends the room of a packet that will have left `lane_id` at `done_ps` back to the port that feeds the
    /// lane.
    #[inline(always)]
    pub(super) fn return_credit(&mut self, lane_id: u32, bytes: u32, done_ps: u64) {
        let lane = &mut self.lanes[lane_id as usize];
        let time_ps = done_ps + self.links[usize::from(lane.link)].latency_ps;
        // Other ports may still be looked at for an earlier time, but of the same slice.
        let past_ps = self.wheel.bounds_ps(self.wheel.slice()).0;
        lane.put(&mut self.returns, past_ps, time_ps, bytes);
        if lane.flags & STARVED != 0 {
            lane.flags &= !STARVED;
            let feeder = self.ports[(lane.first + u32::from(lane.port)) as usize].far;
            let look_ps = time_ps.max(self.ports[feeder as usize].free_ps);
            self.wake(feeder, look_ps);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::machine::nsim_torus;
    use crate::network::NoProbe;
    use ayatori_random::Random;

    #[test]
    fn credits_come_back_when_and_as_a_plain_queue_says() {
        let fresh = nsim_torus(&[2], NoProbe).unwrap().lanes[0].clone();
        for seed in 0..200 {
            let mut random = Random::new(seed);
            // From several on their way at once to more than a second's delay can say between two.
            let reach_ps = 1 << (4 + random.below(32));
            let (mut lane, mut returns) = (fresh.clone(), Slab::default());
            let mut model: VecDeque<(u64, u32)> = VecDeque::new();
            let (mut now_ps, mut last_ps, mut bytes) = (0, 0, lane.credit_bytes);
            for _ in 0..400 {
                if random.below(3) == 0 {
                    now_ps += random.below(reach_ps);
                    while let Some(&(time_ps, returned)) = model.front()
                        && time_ps <= now_ps
                    {
                        model.pop_front();
                        bytes += returned;
                    }
                    assert_eq!(lane.room_bytes(&mut returns, now_ps), bytes, "seed {seed}");
                    assert!(lane.on_their_way(&returns, now_ps).eq(model.iter().copied()), "seed {seed}");
                } else {
                    last_ps = last_ps.max(now_ps) + 1 + random.below(reach_ps);
                    let returned = 1 + random.below(100) as u32;
                    model.push_back((last_ps, returned));
                    lane.put(&mut returns, now_ps, last_ps, returned);
                }
            }
            lane.count_returned(&mut returns, last_ps);
            assert_eq!(returns.len(), 0, "seed {seed}");
        }
    }
}
