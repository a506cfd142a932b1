//! Whether a message that may go eagerly does, or is announced and got: learnt by its sender while running.
//!
//! An eager message is copied twice, side by side, a message that is got once, by the receiver alone, and
//! after a round trip. Which is quicker depends on the machine, on the length, and on the caches that hold
//! the memory. The receiver cannot compare the two, as an eager message's copy begins before it sees
//! anything. So the sender does, by its own clock, from its call to the word that the message is in place:
//! FIN of one that was got, and of an eager one the answer that synchronous ones have. For each peer and
//! power of two of lengths one way is held, eager at first. After some messages there is a *trial*: three
//! messages go the held way and four the other one, of which the first is not counted, for it finds the
//! caches as the held way has left them. All others read no clock. Then the quicker way is held. Trials
//! become rarer, to at most four messages of the other way in 128, and in 256 where it takes twice as long.
//!
//! Only a receiver that waits is worth the sender's waiting: where the answer to eager messages takes
//! [`LATE_FACTOR`] times as long as their copy, eager is held, which lets the sender go on.

use super::choose::{Learnt, Way};
use super::learn::{TIMES_COUNT, is_quicker, longer_pause, median_ns, ns};
use crate::ids::RequestId;
use crate::time::{Duration, Instant};

/// Times of a trial: those of each way that count, and the first of the other way.
const TRIAL_COUNT: u32 = 2 * TIMES_COUNT as u32 + 1;
/// Messages within which a trial must have all its times.
const TRIAL_MESSAGES_MAX: u32 = 32;
/// Messages between two trials: at first, when a ring's memory has been touched, and after a change; at most;
/// and where the other way takes twice as long.
const PAUSE_MIN: u32 = 16;
const PAUSE_MAX: u32 = 120;
const PAUSE_FAR_MAX: u32 = 248;
/// A receiver is late if the answer takes so many times as long as the sender's copy. One that waits copies
/// at the same time; one that sends as much itself before it receives takes up to three times as long.
const LATE_FACTOR: u32 = 4;

/// The classes: (8 KiB, 16 KiB] and so on; what is beside them belongs to the nearest.
const CLASS_BITS_MIN: u32 = 13;
const CLASSES_COUNT: usize = 4;

/// No request: the answer to an eager message of a trial names it. A table of requests never has as many.
const TRIAL_INDEX: u32 = u32::MAX;
/// In the generation of such a name: bits of the class, below the number of the message.
const CLASS_BITS: u32 = 2;
const _: () = assert!(CLASSES_COUNT <= 1 << CLASS_BITS);

/// How a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// This way was quicker, or was not compared yet.
    Held(Way),
    /// This way, and its time is to be reported: [`AtOnce::begin`].
    Timed(Learnt),
}

/// What was learnt about one peer.
#[derive(Default)]
pub(crate) struct AtOnce {
    classes: [Class; CLASSES_COUNT],
}

impl AtOnce {
    /// The way of the next message of this length, [`Way::Eager`] or [`Way::Get`].
    pub(crate) fn pick(&mut self, length_bytes: usize) -> Pick {
        self.classes[class_of(length_bytes)].pick()
    }

    /// Whether the next message goes eagerly and nothing is to be reported; then it counts as sent.
    pub(crate) fn pick_eager(&mut self, length_bytes: usize) -> bool {
        let class = &mut self.classes[class_of(length_bytes)];
        let is_eager = class.held == 0 && class.trial.is_none() && class.count < class.pause;
        class.count += u32::from(is_eager);
        is_eager
    }

    /// A message of a trial begins. Names it.
    pub(crate) fn begin(&mut self, length_bytes: usize, since: Instant) -> RequestId {
        let class = class_of(length_bytes);
        let number = self.classes[class].begin(since);
        RequestId { index: TRIAL_INDEX, generation: (number << CLASS_BITS) | class as u32 }
    }

    /// The copy of an eager message of a trial took so long.
    pub(crate) fn copied(&mut self, length_bytes: usize, took: Duration) {
        self.classes[class_of(length_bytes)].copied_ns = ns(took);
    }

    /// The message of this name is in place.
    pub(crate) fn note(&mut self, name: RequestId, now: Instant) {
        let class = (name.generation & ((1 << CLASS_BITS) - 1)) as usize;
        if let Some(class) = self.classes.get_mut(class) {
            class.note(name.generation >> CLASS_BITS, now);
        }
    }
}

/// Whether a name is that of a message of a trial.
pub(crate) fn is_of_trial(name: RequestId) -> bool {
    name.index == TRIAL_INDEX
}

fn class_of(length_bytes: usize) -> usize {
    let bits = length_bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    (bits.saturating_sub(CLASS_BITS_MIN) as usize).min(CLASSES_COUNT - 1)
}

/// Ways by their number.
const WAYS: [Way; 2] = [Way::Eager, Way::Get];

/// Messages of similar length.
struct Class {
    held: usize,
    /// Messages since the last trial, or in this one.
    count: u32,
    /// Messages until the next trial.
    pause: u32,
    trial: Option<Trial>,
    /// What the copy of the last eager message in a trial took, in ns.
    copied_ns: u32,
    /// The number of the last message in a trial.
    number: u32,
}

/// A trial under way.
#[derive(Default)]
struct Trial {
    /// Since when a message is under way.
    since: Option<Instant>,
    /// Times so far.
    count: u32,
    /// Those of the held and of the other way, in ns.
    times: [[u32; TIMES_COUNT]; 2],
    /// Eager messages whose receiver was late.
    late_count: u32,
}

impl Default for Class {
    fn default() -> Self {
        Self { held: 0, count: 0, pause: PAUSE_MIN, trial: None, copied_ns: 0, number: 0 }
    }
}

impl Class {
    fn pick(&mut self) -> Pick {
        self.count = self.count.saturating_add(1);
        if self.trial.is_none() && self.count > self.pause {
            self.trial = Some(Trial::default());
            self.count = 1;
        }
        let Some(trial) = &self.trial else { return Pick::Held(WAYS[self.held]) };
        if self.count > TRIAL_MESSAGES_MAX {
            // Times are missing: messages failed, or wait unmatched.
            self.end_trial(PAUSE_MAX);
        } else if trial.since.is_none() {
            let is_held = trial.count < TIMES_COUNT as u32;
            return Pick::Timed(match is_held {
                true => Learnt::Held(WAYS[self.held]),
                false => Learnt::Looked(WAYS[1 - self.held]),
            });
        }
        Pick::Held(WAYS[self.held])
    }

    fn begin(&mut self, since: Instant) -> u32 {
        self.number = self.number.wrapping_add(1) & (u32::MAX >> CLASS_BITS);
        if let Some(trial) = &mut self.trial {
            trial.since = Some(since);
        }
        self.number
    }

    fn note(&mut self, number: u32, now: Instant) {
        let Some(trial) = self.trial.as_mut().filter(|_| number == self.number) else { return };
        let Some(since) = trial.since.take() else { return };
        let took_ns = ns(now.since(since));
        let at = trial.count as usize;
        trial.count += 1;
        let is_held = at < TIMES_COUNT;
        match (is_held, at.checked_sub(TIMES_COUNT + 1)) {
            (true, _) => trial.times[0][at] = took_ns,
            (false, Some(at)) => trial.times[1][at] = took_ns,
            (false, None) => return,
        }
        let is_eager = is_held == (self.held == 0);
        trial.late_count += u32::from(is_eager && took_ns / LATE_FACTOR > self.copied_ns);
        if trial.count == TRIAL_COUNT {
            self.compare();
        }
    }

    /// The trial is over.
    fn compare(&mut self) {
        let Some(Trial { times, late_count, .. }) = self.trial else { return };
        let [held_ns, other_ns] = times.map(median_ns);
        let is_late = late_count as usize > TIMES_COUNT / 2;
        let is_other = if is_late { self.held != 0 } else { is_quicker(other_ns, held_ns) };
        if is_other {
            self.held = 1 - self.held;
            return self.end_trial(PAUSE_MIN);
        }
        self.end_trial(longer_pause(self.pause, [other_ns, held_ns], [PAUSE_MAX, PAUSE_FAR_MAX]));
    }

    fn end_trial(&mut self, pause: u32) {
        self.trial = None;
        self.count = 0;
        self.pause = pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Sends messages on a model of what each way takes, in ns: an eager message's copy, the word that it is
    /// in place, and the same word of one that is got. How many were got.
    fn run(at_once: &mut AtOnce, count: u32, bytes: usize, [copied, eager, got]: [u64; 3]) -> u32 {
        let (mut now, mut gets_count) = (Instant(0), 0);
        for _ in 0..count {
            let (way, is_timed) = match at_once.pick(bytes) {
                Pick::Held(way) => (way, false),
                Pick::Timed(learnt) => (learnt.way(), true),
            };
            gets_count += u32::from(way == Way::Get);
            if is_timed {
                let name = at_once.begin(bytes, now);
                assert!(is_of_trial(name));
                now += Duration::from_ns(if way == Way::Get { got } else { eager });
                if way == Way::Eager {
                    at_once.copied(bytes, Duration::from_ns(copied));
                }
                at_once.note(name, now);
            }
        }
        gets_count
    }

    #[test]
    fn the_quicker_way_is_held_after_a_first_trial() {
        let mut at_once = AtOnce::default();
        assert_eq!(run(&mut at_once, PAUSE_MIN, 16_000, [900, 1_100, 600]), 0);
        let got = run(&mut at_once, 1_000, 16_000, [900, 1_100, 600]);
        assert!(got >= 960, "{got} of 1000");
        let got = run(&mut at_once, 1_000, 16_000, [900, 1_100, 2_300]);
        assert!(got <= 200, "{got} of 1000 when it has become slow");
    }

    #[test]
    fn trials_cost_at_most_one_message_in_32() {
        for (got_ns, most) in [(1_200, 1_000 / 32 + 4), (2_500, 1_000 / 64 + 4)] {
            let mut at_once = AtOnce::default();
            run(&mut at_once, 1_000, 16_000, [900, 1_100, got_ns]);
            let got = run(&mut at_once, 1_000, 16_000, [900, 1_100, got_ns]);
            assert!(got > 0 && got <= most, "{got} of 1000");
        }
    }

    #[test]
    fn a_trial_is_three_messages_of_one_way_and_four_of_the_other() {
        let mut at_once = AtOnce::default();
        run(&mut at_once, PAUSE_MIN, 16_000, [900, 1_100, 1_200]);
        let picks: Vec<Pick> = (0..8)
            .map(|n| {
                let pick = at_once.pick(16_000);
                if matches!(pick, Pick::Timed(_)) {
                    let name = at_once.begin(16_000, Instant(n));
                    at_once.note(name, Instant(n + 1_000_000));
                }
                pick
            })
            .collect();
        let (held, other) = (Learnt::Held(Way::Eager), Learnt::Looked(Way::Get));
        assert_eq!(picks[..3], [Pick::Timed(held); 3]);
        assert_eq!(picks[3..7], [Pick::Timed(other); 4]);
        assert_eq!(picks[7], Pick::Held(Way::Eager));
    }

    #[test]
    fn after_a_change_the_next_trial_comes_soon() {
        let mut at_once = AtOnce::default();
        run(&mut at_once, 1_000, 16_000, [900, 1_100, 2_500]);
        assert_eq!(at_once.classes[class_of(16_000)].pause, PAUSE_FAR_MAX);
        let mut messages = 0;
        while at_once.classes[class_of(16_000)].held == 0 {
            run(&mut at_once, 1, 16_000, [900, 1_100, 600]);
            messages += 1;
        }
        assert!(messages <= PAUSE_FAR_MAX + TRIAL_COUNT, "{messages}");
        assert_eq!(at_once.classes[class_of(16_000)].pause, PAUSE_MIN);
    }

    #[test]
    fn a_receiver_that_does_not_wait_is_sent_to_eagerly() {
        let mut at_once = AtOnce::default();
        assert!(run(&mut at_once, 1_000, 16_000, [900, 9_000, 600]) <= 60);
        run(&mut at_once, 200, 16_000, [900, 1_100, 600]);
        assert!(run(&mut at_once, 100, 16_000, [900, 1_100, 600]) >= 90);
        run(&mut at_once, 200, 16_000, [900, 9_000, 600]);
        assert!(run(&mut at_once, 100, 16_000, [900, 9_000, 600]) <= 8, "it has ceased to wait");
    }

    #[test]
    fn a_trial_whose_times_do_not_come_ends() {
        let mut class = Class::default();
        let timed = |class: &mut Class| matches!(class.pick(), Pick::Timed(_));
        assert_eq!((0..PAUSE_MIN).filter(|_| timed(&mut class)).count(), 0);
        assert!(timed(&mut class));
        let number = class.begin(Instant(0));
        assert!((0..TRIAL_MESSAGES_MAX + PAUSE_MAX).all(|_| !timed(&mut class)), "one is under way");
        assert!(timed(&mut class), "the next trial");
        class.begin(Instant(7));
        class.note(number, Instant(9));
        assert_eq!(class.trial.map(|trial| trial.count), Some(0), "an answer of an earlier trial");
    }

    #[test]
    fn only_what_is_held_and_not_timed_leaves_by_the_short_way() {
        let mut at_once = AtOnce::default();
        let at_once_count = (0..100).filter(|_| at_once.pick_eager(16_000)).count();
        assert_eq!(at_once_count, PAUSE_MIN as usize);
        run(&mut at_once, 100, 16_000, [900, 1_100, 600]);
        assert!(!at_once.pick_eager(16_000));
    }

    #[test]
    fn lengths_of_one_power_of_two_are_a_class() {
        assert_eq!([0, 8192, 8193, 16384, 16385].map(class_of), [0, 0, 0, 0, 1]);
        assert_eq!([65_536, 65_537, usize::MAX].map(class_of), [2, 3, 3]);
    }

    #[test]
    fn one_late_word_of_three_says_nothing_of_the_receiver() {
        for (late_count, got) in [(1, true), (2, false)] {
            let times = [[9_000; TIMES_COUNT], [600; TIMES_COUNT]];
            let trial = Trial { count: TRIAL_COUNT, since: None, times, late_count };
            let mut class = Class { trial: Some(trial), ..Class::default() };
            class.compare();
            assert_eq!(class.held == 1, got, "{late_count}");
        }
    }
}
