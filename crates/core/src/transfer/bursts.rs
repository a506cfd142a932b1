//! Which way is quicker for messages that come several at a time, learnt while running.
//!
//! A sender with several messages under way waits for all of them, and so has time to send packets. What one
//! of them takes says little: it waits for those before it, and while the kernel copies one the sender writes
//! the next. So a *burst* is measured, from the match of a message with none of the peer's under way to the
//! end of the last one that was matched meanwhile. All messages of a burst go the same way; its time for a
//! message is what [`Learner`] compares.

use super::choose::Way;
use super::learn::{Learner, Learnt, PAUSE_FIRST};
use crate::time::{Duration, Instant};

/// Bursts of a look that are not counted. Each has several messages.
const LEFT_OUT_COUNT: u32 = 1;
/// Messages of a burst, at most: where there is always another one, too, ways are compared.
const MESSAGES_MAX: u32 = 64;

/// Names a burst among those of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BurstId(u32);

/// Messages of one peer.
pub(super) struct Bursts {
    learner: Learner,
    current: Option<Burst>,
    /// Of the last burst.
    number: u32,
    /// Whether the last burst had more than one message.
    had_several: bool,
    /// How many bursts of several messages were measured, by the number of their way: stream, get.
    measured_counts: [u64; 2],
}

/// One that is under way.
struct Burst {
    way: Way,
    is_fixed: bool,
    since: Instant,
    /// Length of its first message.
    length_bytes: u64,
    /// Of all that have ended.
    ended_bytes: u64,
    messages_count: u32,
    under_way_count: u32,
}

impl Default for Bursts {
    fn default() -> Self {
        // It takes none of the sender's time, and no memory of a ring that was not used before. A look is a
        // small part of bursts, whatever their length.
        Self {
            learner: Learner::new([Way::Get, Way::Stream], LEFT_OUT_COUNT, PAUSE_FIRST),
            current: None,
            number: 0,
            had_several: false,
            measured_counts: [0; 2],
        }
    }
}

impl Bursts {
    /// Whether the next message is presumably one of several: others are under way, or the last burst had
    /// several.
    pub(super) fn are_several(&self) -> bool {
        self.current.is_some() || self.had_several
    }

    /// A message is matched: its way, [`Way::Get`] or [`Way::Stream`], and its burst. `None`: the burst under
    /// way has as many as it may, and the message goes the same way, unmeasured. `fixed`: a burst that begins
    /// goes this way and says nothing of it.
    pub(super) fn join(
        &mut self,
        length_bytes: u64,
        fixed: Option<Way>,
        now: Instant,
    ) -> (Learnt, Option<BurstId>) {
        if let Some(burst) = &mut self.current {
            let learnt = Learnt::Held(burst.way);
            if burst.messages_count == MESSAGES_MAX {
                return (learnt, None);
            }
            burst.messages_count += 1;
            burst.under_way_count += 1;
            return (learnt, Some(BurstId(self.number)));
        }
        let learnt = fixed.map_or_else(|| self.learner.pick(length_bytes), Learnt::Held);
        self.number = self.number.wrapping_add(1);
        self.current = Some(Burst {
            way: learnt.way(),
            is_fixed: fixed.is_some(),
            since: now,
            length_bytes,
            ended_bytes: 0,
            messages_count: 1,
            under_way_count: 1,
        });
        (learnt, Some(BurstId(self.number)))
    }

    /// A message of a burst has ended. `time` is asked if it was the last.
    pub(super) fn end_one(&mut self, id: BurstId, bytes: u64, time: impl FnOnce() -> Option<Instant>) {
        let Some(burst) = self.current.as_mut().filter(|_| id.0 == self.number) else { return };
        burst.ended_bytes += bytes;
        burst.under_way_count -= 1;
        if burst.under_way_count > 0 {
            return;
        }
        let Burst { way, is_fixed, since, length_bytes, ended_bytes, messages_count, .. } = *burst;
        self.current = None;
        self.had_several = messages_count > 1;
        if is_fixed {
            return;
        }
        if let Some(now) = time() {
            let took_ps = u128::from(now.since(since).as_ps()) * u128::from(length_bytes);
            let one_ps = took_ps / u128::from(ended_bytes.max(1));
            self.learner.note(length_bytes, way, Duration(u64::try_from(one_ps).unwrap_or(u64::MAX)));
            self.measured_counts[usize::from(way == Way::Get)] += u64::from(self.had_several);
        }
    }

    /// How many bursts of several messages were measured that went a way.
    pub(super) fn measured_count(&self, way: Way) -> u64 {
        self.measured_counts[usize::from(way == Way::Get)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const BYTES: u64 = 1 << 16;

    /// A burst of so many messages that takes so long in all; its way.
    fn run(bursts: &mut Bursts, count: u32, took: impl Fn(Way) -> Duration) -> Way {
        let begin = Instant(1);
        let joined: Vec<_> = (0..count).map(|_| bursts.join(BYTES, None, begin)).collect();
        let way = joined[0].0.way();
        assert!(joined.iter().all(|(learnt, _)| learnt.way() == way));
        let ids: Vec<_> = joined.iter().filter_map(|(_, id)| *id).collect();
        for (ended, &id) in ids.iter().enumerate() {
            bursts.end_one(id, BYTES, || {
                assert_eq!(ended + 1, ids.len(), "only the last one's end is timed");
                Some(begin + took(way))
            });
        }
        way
    }

    #[test]
    fn the_way_that_takes_a_burst_less_time_is_held() {
        for (stream_us, get_us, expected) in [(100, 60, Way::Get), (60, 100, Way::Stream)] {
            let mut bursts = Bursts::default();
            let took = |way| Duration::from_us(if way == Way::Get { get_us } else { stream_us });
            (0..100).for_each(|_| _ = run(&mut bursts, 16, took));
            let held = (0..100).filter(|_| run(&mut bursts, 16, took) == expected).count();
            assert!(held >= 90, "{held} of 100 by {expected:?}");
        }
    }

    #[test]
    fn a_look_is_four_bursts() {
        let mut bursts = Bursts::default();
        let took = |way| Duration::from_us(if way == Way::Get { 60 } else { 70 });
        let ways: Vec<_> = (0..20).map(|_| run(&mut bursts, 16, took)).collect();
        let lengths: Vec<_> = ways.chunk_by(|a, b| a == b).map(<[Way]>::len).collect();
        assert_eq!(lengths, [4, 4, 8, 4]);
    }

    #[test]
    fn a_burst_of_a_fixed_way_teaches_nothing() {
        let mut bursts = Bursts::default();
        for _ in 0..100 {
            let ids = [0; 2].map(|_| {
                let (learnt, id) = bursts.join(BYTES, Some(Way::Stream), Instant(1));
                assert_eq!(learnt, Learnt::Held(Way::Stream));
                id.unwrap()
            });
            ids.into_iter().for_each(|id| bursts.end_one(id, BYTES, || panic!("a time is of no use")));
            assert!(bursts.are_several());
        }
        assert_eq!(bursts.join(BYTES, None, Instant(1)).0.way(), Way::Get, "as at the beginning");
    }

    #[test]
    fn bursts_of_different_length_compare_by_message() {
        // Gets take less time a message, and come in longer bursts.
        let mut bursts = Bursts::default();
        let mut got_count = 0;
        let mut count = 4;
        for _ in 0..200 {
            let took = |way| Duration::from_us(u64::from(count) * if way == Way::Get { 6 } else { 10 });
            let way = run(&mut bursts, count, took);
            count = if way == Way::Get { 40 } else { 4 };
            got_count += u32::from(way == Way::Get);
        }
        assert!(got_count >= 150, "{got_count} of 200");
    }

    #[test]
    fn a_burst_ends_though_there_is_always_another_message() {
        let mut bursts = Bursts::default();
        let joined: Vec<_> = (0..MESSAGES_MAX + 2).map(|_| bursts.join(BYTES, None, Instant(1)).1).collect();
        assert!(joined[..MESSAGES_MAX as usize].iter().all(|id| *id == joined[0]));
        assert_eq!(joined[MESSAGES_MAX as usize..], [None; 2]);
        for id in joined.iter().flatten() {
            bursts.end_one(*id, BYTES, || Some(Instant(2)));
        }
        let next = bursts.join(BYTES, None, Instant(3)).1;
        assert!(next.is_some() && next != joined[0]);
    }

    #[test]
    fn several_are_expected_until_one_comes_alone() {
        let mut bursts = Bursts::default();
        assert!(!bursts.are_several());
        for (count, had_several) in [(2, true), (1, false), (3, true)] {
            let ids: Vec<_> = (0..count).map(|_| bursts.join(BYTES, None, Instant(1)).1.unwrap()).collect();
            assert!(bursts.are_several(), "they are under way");
            ids.into_iter().for_each(|id| bursts.end_one(id, BYTES, || Some(Instant(2))));
            assert_eq!(bursts.are_several(), had_several);
        }
    }

    #[test]
    fn messages_of_which_nothing_is_taken_are_a_burst() {
        let mut bursts = Bursts::default();
        let ids = [0; 2].map(|bytes| bursts.join(bytes, None, Instant(1)).1.unwrap());
        ids.into_iter().for_each(|id| bursts.end_one(id, 0, || Some(Instant(2))));
        assert_eq!(bursts.measured_count(Way::Get), 1);
    }

    #[test]
    fn a_late_end_of_an_older_burst_counts_for_nothing() {
        let mut bursts = Bursts::default();
        let old = bursts.join(BYTES, None, Instant(1)).1.unwrap();
        bursts.end_one(old, BYTES, || Some(Instant(2)));
        let new = bursts.join(BYTES, None, Instant(2)).1.unwrap();
        bursts.end_one(old, BYTES, || panic!("not the last of the burst under way"));
        let mut is_timed = false;
        bursts.end_one(new, BYTES, || {
            is_timed = true;
            None
        });
        assert!(is_timed);
    }
}
