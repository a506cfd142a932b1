//! Room in the lanes ahead: credits on their way back, and who waits for them.
//!
//! Credits of a lane come back in the order in which its packets leave. Two of them stand in the lane, the
//! rest, which is rare where packets are long, in a ring of records. The first two are taken and put
//! without a branch: whether a credit is back when a port is looked at is as good as random.

use std::hint::select_unpredictable;

use super::{LaneState, Network, Probe, STARVED};
use crate::slab::{NONE, Slab};

/// In place of the second credit's delay: there is none.
pub(super) const NO_SECOND: u32 = u32::MAX;

/// A credit on its way back behind two others, or long after the one before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Return {
    time_ps: u64,
    bytes: u32,
    next: u32,
}

impl LaneState {
    /// Adds the first credit if it is back by now. Whether there is more to do: the next one may be back
    /// too, or its place may be empty.
    #[inline(always)]
    fn take_first(&mut self, now_ps: u64) -> bool {
        let is_back = self.return_ps <= now_ps;
        let second_ps = self.return_ps.wrapping_add(self.second_later_ps.into());
        let second_ps = select_unpredictable(self.second_later_ps == NO_SECOND, u64::MAX, second_ps);
        self.credit_bytes += select_unpredictable(is_back, self.return_bytes, 0);
        self.return_ps = select_unpredictable(is_back, second_ps, self.return_ps);
        self.return_bytes = select_unpredictable(is_back, self.second_bytes, self.return_bytes);
        self.second_later_ps = select_unpredictable(is_back, NO_SECOND, self.second_later_ps);
        (self.return_ps <= now_ps) | (is_back & (self.returns_tail != NONE))
    }

    /// Adds the credits that are back by now, and moves up those behind.
    #[inline(never)]
    fn take_all(&mut self, returns: &mut Slab<Return>, now_ps: u64) {
        loop {
            if self.return_ps == u64::MAX {
                let Some(Return { time_ps, bytes, .. }) = self.first_return(returns) else { return };
                (self.return_ps, self.return_bytes) = (time_ps, bytes);
                self.pop_return(returns);
            }
            if self.second_later_ps == NO_SECOND
                && let Some(Return { time_ps, bytes, .. }) = self.first_return(returns)
                && time_ps - self.return_ps < NO_SECOND.into()
            {
                (self.second_later_ps, self.second_bytes) = ((time_ps - self.return_ps) as u32, bytes);
                self.pop_return(returns);
            }
            if self.return_ps > now_ps {
                return;
            }
            let _ = self.take_first(now_ps);
        }
    }

    fn first_return(&self, returns: &Slab<Return>) -> Option<Return> {
        returns.get(self.returns_tail).map(|last| returns[last.next])
    }

    fn pop_return(&mut self, returns: &mut Slab<Return>) {
        let first = returns[self.returns_tail].next;
        if first == self.returns_tail {
            self.returns_tail = NONE;
        } else {
            returns[self.returns_tail].next = returns[first].next;
        }
        returns.remove(first);
    }

    fn push_return(&mut self, returns: &mut Slab<Return>, time_ps: u64, bytes: u32) {
        let last = returns.insert(Return { time_ps, bytes, next: NONE });
        let first = match self.returns_tail {
            NONE => last,
            before => std::mem::replace(&mut returns[before].next, last),
        };
        returns[last].next = first;
        self.returns_tail = last;
    }

    /// A credit will be back at a time, later than all that are on their way. Nobody will ask for the room
    /// at a time before `past_ps`, so what is back by then is added now: credits that are not asked for do
    /// not pile up.
    #[inline(always)]
    fn put(&mut self, returns: &mut Slab<Return>, past_ps: u64, time_ps: u64, bytes: u32) {
        if self.take_first(past_ps) {
            self.take_all(returns, past_ps);
        }
        let is_first = self.return_ps == u64::MAX;
        let later_ps = time_ps.wrapping_sub(self.return_ps);
        let is_second = (self.second_later_ps == NO_SECOND)
            & (self.returns_tail == NONE)
            & (later_ps < u64::from(NO_SECOND));
        if is_first | is_second {
            self.return_ps = select_unpredictable(is_first, time_ps, self.return_ps);
            self.return_bytes = select_unpredictable(is_first, bytes, self.return_bytes);
            self.second_later_ps = select_unpredictable(is_first, NO_SECOND, later_ps as u32);
            self.second_bytes = bytes;
        } else {
            self.push_return(returns, time_ps, bytes);
        }
    }

    /// The credits on their way, earliest first.
    pub(super) fn on_their_way(&self, returns: &Slab<Return>) -> impl Iterator<Item = (u64, u32)> {
        let first = (self.return_ps != u64::MAX).then_some((self.return_ps, self.return_bytes));
        let second = (self.second_later_ps != NO_SECOND)
            .then(|| (self.return_ps + u64::from(self.second_later_ps), self.second_bytes));
        let last = self.returns_tail;
        let ring = std::iter::successors(returns.get(last).map(|last| last.next), move |&at| {
            (at != last).then(|| returns[at].next)
        });
        let more = ring.map(|at| (returns[at].time_ps, returns[at].bytes));
        first.into_iter().chain(second).chain(more)
    }
}

impl<P: Probe> Network<P> {
    /// Whether `target` has room for a packet now.
    #[inline(always)]
    pub(super) fn has_room(&mut self, target: u32, bytes: u32, now_ps: u64) -> bool {
        let lane = &mut self.lanes[target as usize];
        if lane.take_first(now_ps) {
            lane.take_all(&mut self.returns, now_ps);
        }
        lane.credit_bytes >= bytes
    }

    /// When there will be room where there is none. `u64::MAX`: not before a packet leaves the lane that has
    /// not yet begun to; then the feeder is woken.
    #[inline(never)]
    pub(super) fn wait_for_room(&mut self, target: u32, bytes: u32) -> u64 {
        let later = self.room_later(target, bytes);
        if later.is_none() {
            self.lanes[target as usize].flags |= STARVED;
        }
        later.unwrap_or(u64::MAX)
    }

    /// `None`: nobody knows yet.
    fn room_later(&self, target: u32, bytes: u32) -> Option<u64> {
        let lane = &self.lanes[target as usize];
        let mut promised = lane.credit_bytes;
        lane.on_their_way(&self.returns).find_map(|(time_ps, returned)| {
            promised += returned;
            (promised >= bytes).then_some(time_ps)
        })
    }

    /// As `has_room` for a NIC: `None` if there is room now, else the time to look again, if that is known.
    pub(super) fn room_for_injection(&mut self, target: u32, bytes: u32) -> Option<u64> {
        if self.has_room(target, bytes, self.now_ps) { None } else { Some(self.wait_for_room(target, bytes)) }
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
    use crate::random::Random;

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
                    if lane.take_first(now_ps) {
                        lane.take_all(&mut returns, now_ps);
                    }
                    assert_eq!(lane.credit_bytes, bytes, "seed {seed}");
                } else {
                    last_ps = last_ps.max(now_ps) + 1 + random.below(reach_ps);
                    let returned = 1 + random.below(100) as u32;
                    model.push_back((last_ps, returned));
                    lane.put(&mut returns, now_ps, last_ps, returned);
                }
                assert!(lane.on_their_way(&returns).eq(model.iter().copied()), "seed {seed}");
            }
        }
    }
}
