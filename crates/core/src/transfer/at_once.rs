//! Whether a message that may go eagerly does, or is announced and got: learnt by its sender while running.
//!
//! An eager message is copied twice, side by side, a message that is got once, by the receiver alone, and
//! after a round trip. Which is quicker depends on the machine, on the length, and on the caches that hold
//! the memory. The receiver cannot compare the two, as an eager message's copy begins before it sees
//! anything. So the sender does, by its own clock, from its call to the word that the message is in place:
//! FIN of one that was got, and of an eager one the answer that synchronous ones have. For each peer and
//! power of two of lengths one way is held, eager at first. After some messages there is a *trial*: of eight
//! messages that go the held way three are timed, and then of up to twelve that go the other one six, of
//! which the first three are not counted, for they find the caches as the held way has left them. All others
//! read no clock. Then the quicker way is held. Two processes that both send begin their trials together
//! ([`schedule`](super::schedule)), and change to the other way together.
//! Trials become rarer, to at most twelve messages of the other way in 256, and in 512 where it takes twice
//! as long.
//!
//! Only a receiver that waits is worth the sender's waiting: where the word that a message is in place takes
//! [`LATE_FACTOR`] times as long as the copy of an eager one, whichever way it goes, eager is held, which
//! lets the sender go on.

use super::choose::{Learnt, Way};
use super::learn::{LEFT_OUT_COUNT, TIMES_COUNT, is_quicker, median_ns, ns};
use super::schedule::{PAUSE_MAX, Schedule};
use crate::ids::RequestId;
use crate::time::{Duration, Instant};

/// Messages of a trial that go the held way, and after them at most so many the other way.
const HELD_COUNT: u32 = 8;
const OTHER_COUNT: u32 = 12;
/// Messages within which a trial must have all its times.
const TRIAL_MESSAGES_MAX: u32 = 32;
/// Trials begin at multiples of so many messages at first, when a ring's memory has been touched, and after a
/// change.
const PAUSE_FIRST: u32 = 32;
const _: () = assert!(PAUSE_FIRST >= HELD_COUNT + OTHER_COUNT);
/// A receiver is late if the word takes so many times as long as the sender's copy, by both ways. One that
/// waits copies at the same time; of one that sends as much itself before it receives, and by the other way,
/// the answer to an eager message may take so long, but what is got does not.
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
    /// This way, and nothing is to be reported.
    Plain(Way),
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
        let is_eager = class.held == 0 && class.trial.is_none() && !class.schedule.is_due();
        if is_eager {
            class.schedule.count_one();
        }
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
    schedule: Schedule,
    trial: Option<Trial>,
    /// What the copy of the last eager message in a trial took, in ns.
    copied_ns: u32,
    /// The number of the last message in a trial.
    number: u32,
}

/// A trial under way.
#[derive(Default)]
struct Trial {
    /// Messages so far.
    count: u32,
    /// Since when a message that is timed is under way.
    since: Option<Instant>,
    /// Times of the held and of the other way, in ns, and how many there are.
    times: [[u32; TIMES_COUNT]; 2],
    times_counts: [usize; 2],
    /// Times of the other way that were left out.
    left_out: u32,
}

impl Default for Class {
    fn default() -> Self {
        Self { held: 0, schedule: Schedule::new(PAUSE_FIRST), trial: None, copied_ns: 0, number: 0 }
    }
}

impl Class {
    fn pick(&mut self) -> Pick {
        let (held, other) = (WAYS[self.held], WAYS[1 - self.held]);
        if self.trial.is_none() && self.schedule.is_due() {
            self.trial = Some(Trial::default());
        }
        self.schedule.count_one();
        let Some(trial) = &mut self.trial else { return Pick::Plain(held) };
        let at = trial.count;
        trial.count += 1;
        if at == HELD_COUNT {
            // Both processes change now, whatever has not been answered.
            trial.since = None;
        }
        let is_timed = trial.since.is_none();
        if at < HELD_COUNT {
            let is_timed = is_timed && trial.times_counts[0] < TIMES_COUNT;
            return if is_timed { Pick::Timed(Learnt::Held(held)) } else { Pick::Plain(held) };
        }
        if at < HELD_COUNT + OTHER_COUNT {
            return if is_timed { Pick::Timed(Learnt::Looked(other)) } else { Pick::Plain(other) };
        }
        if at == TRIAL_MESSAGES_MAX {
            // Times are missing: messages failed, or wait unmatched.
            self.end_trial(PAUSE_MAX);
        }
        Pick::Plain(held)
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
        let is_other = trial.count > HELD_COUNT;
        if is_other && trial.left_out < LEFT_OUT_COUNT {
            trial.left_out += 1;
            return;
        }
        let way = usize::from(is_other);
        let count = &mut trial.times_counts[way];
        trial.times[way][*count] = took_ns;
        *count += 1;
        if trial.times_counts[1] == TIMES_COUNT {
            self.compare();
        }
    }

    /// The trial is over.
    fn compare(&mut self) {
        let Some(Trial { times, times_counts: [held_count, _], .. }) = self.trial else { return };
        if held_count < TIMES_COUNT {
            return self.end_trial(self.schedule.pause());
        }
        let [held_ns, other_ns] = times.map(median_ns);
        let is_late = held_ns.min(other_ns) / LATE_FACTOR > self.copied_ns;
        let is_other = if is_late { self.held != 0 } else { is_quicker(other_ns, held_ns) };
        if is_other {
            self.held = 1 - self.held;
            return self.end_trial(PAUSE_FIRST);
        }
        self.trial = None;
        self.schedule.end_unchanged([other_ns, held_ns]);
    }

    fn end_trial(&mut self, pause: u32) {
        self.trial = None;
        self.schedule.end(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::PAUSE_FAR_MAX;
    use super::*;
    use alloc::vec::Vec;

    /// Sends messages on a model of what each way takes, in ns: an eager message's copy, the word that it is
    /// in place, and the same word of one that is got. How many were got.
    fn run(at_once: &mut AtOnce, count: u32, bytes: usize, [copied, eager, got]: [u64; 3]) -> u32 {
        let (mut now, mut gets_count) = (Instant(0), 0);
        for _ in 0..count {
            let (way, is_timed) = match at_once.pick(bytes) {
                Pick::Plain(way) => (way, false),
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
        assert_eq!(run(&mut at_once, PAUSE_FIRST, 16_000, [900, 1_100, 600]), 0);
        let got = run(&mut at_once, 1_000, 16_000, [900, 1_100, 600]);
        assert!(got >= 960, "{got} of 1000");
        let got = run(&mut at_once, 1_000, 16_000, [900, 1_100, 2_300]);
        assert!(got <= PAUSE_MAX + 2 * OTHER_COUNT, "{got} of 1000 when it has become slow");
    }

    #[test]
    fn trials_become_rare() {
        for (got_ns, one_in) in [(1_200, PAUSE_MAX), (2_500, PAUSE_FAR_MAX)] {
            let mut at_once = AtOnce::default();
            run(&mut at_once, 4 * PAUSE_FAR_MAX, 16_000, [900, 1_100, got_ns]);
            let got = run(&mut at_once, 4 * PAUSE_FAR_MAX, 16_000, [900, 1_100, got_ns]);
            assert_eq!(got, 6 * 4 * PAUSE_FAR_MAX / one_in, "{got_ns}");
        }
    }

    #[test]
    fn two_that_began_at_different_times_try_the_other_way_together() {
        // One whose trials have become rare, and one that has changed its way just now.
        let mut each = [(); 2].map(|()| AtOnce::default());
        run(&mut each[0], 8 * PAUSE_MAX, 16_000, [900, 1_100, 1_200]);
        run(&mut each[1], 7 * PAUSE_MAX, 16_000, [900, 1_100, 1_200]);
        run(&mut each[1], PAUSE_MAX, 16_000, [900, 1_100, 600]);
        each.iter_mut().for_each(|at_once| _ = run(at_once, 32, 16_000, [900, 1_100, 1_200]));
        let mut gets = [(); 2].map(|()| Vec::new());
        for message in 0..2 * PAUSE_MAX {
            for (at_once, gets) in each.iter_mut().zip(&mut gets) {
                if run(at_once, 1, 16_000, [900, 1_100, 1_200]) == 1 {
                    gets.push(message);
                }
            }
        }
        assert!(gets[0].len() == 12 && gets[1].len() > 20, "{gets:?}");
        assert!(gets[0].iter().all(|message| gets[1].contains(message)), "{gets:?}");
    }

    #[test]
    fn a_trial_is_eight_messages_of_one_way_and_six_of_the_other() {
        let mut at_once = AtOnce::default();
        run(&mut at_once, PAUSE_FIRST, 16_000, [900, 1_100, 1_200]);
        let picks: Vec<Pick> = (0..15)
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
        assert_eq!(picks[3..8], [Pick::Plain(Way::Eager); 5]);
        assert_eq!(picks[8..14], [Pick::Timed(other); 6]);
        assert_eq!(picks[14], Pick::Plain(Way::Eager));
    }

    #[test]
    fn after_a_change_the_next_trial_comes_soon() {
        let mut at_once = AtOnce::default();
        run(&mut at_once, 2 * PAUSE_FAR_MAX, 16_000, [900, 1_100, 2_500]);
        assert_eq!(at_once.classes[class_of(16_000)].schedule.pause(), PAUSE_FAR_MAX);
        let mut messages = 0;
        while at_once.classes[class_of(16_000)].held == 0 {
            run(&mut at_once, 1, 16_000, [900, 1_100, 600]);
            messages += 1;
        }
        assert!(messages <= PAUSE_FAR_MAX + HELD_COUNT + OTHER_COUNT, "{messages}");
        assert_eq!(at_once.classes[class_of(16_000)].schedule.pause(), PAUSE_FIRST);
    }

    #[test]
    fn a_receiver_that_does_not_wait_is_sent_to_eagerly() {
        let mut at_once = AtOnce::default();
        assert!(run(&mut at_once, 1_000, 16_000, [900, 9_000, 9_000]) <= 60);
        run(&mut at_once, PAUSE_MAX + TRIAL_MESSAGES_MAX, 16_000, [900, 1_100, 600]);
        assert!(run(&mut at_once, 100, 16_000, [900, 1_100, 600]) >= 90);
        run(&mut at_once, PAUSE_MAX + TRIAL_MESSAGES_MAX, 16_000, [900, 9_000, 9_000]);
        assert!(run(&mut at_once, 100, 16_000, [900, 9_000, 9_000]) <= 8, "it has ceased to wait");
    }

    #[test]
    fn a_trial_whose_times_do_not_come_ends() {
        let mut class = Class::default();
        let timed = |class: &mut Class| matches!(class.pick(), Pick::Timed(_));
        assert_eq!((0..PAUSE_FIRST).filter(|_| timed(&mut class)).count(), 0);
        assert!(timed(&mut class));
        let number = class.begin(Instant(0));
        assert!((1..HELD_COUNT).all(|_| !timed(&mut class)), "one is under way");
        assert!(timed(&mut class), "the other way is tried in time");
        class.begin(Instant(5));
        let others = (1..OTHER_COUNT).filter(|_| class.pick() == Pick::Plain(Way::Get)).count();
        assert_eq!(others as u32, OTHER_COUNT - 1);
        let left = TRIAL_MESSAGES_MAX - HELD_COUNT - OTHER_COUNT;
        assert!((0..left).all(|_| class.pick() == Pick::Plain(Way::Eager)));
        assert!(class.trial.is_some() && !timed(&mut class) && class.trial.is_none());
        let mut messages = PAUSE_FIRST + TRIAL_MESSAGES_MAX + 1;
        while !timed(&mut class) {
            messages += 1;
        }
        assert_eq!(messages, PAUSE_MAX, "the next trial");
        class.begin(Instant(7));
        class.note(number, Instant(9));
        assert_eq!(
            class.trial.map(|trial| trial.times_counts),
            Some([0, 0]),
            "an answer of an earlier trial"
        );
    }

    #[test]
    fn only_what_is_held_and_not_timed_leaves_by_the_short_way() {
        let mut at_once = AtOnce::default();
        let at_once_count = (0..100).filter(|_| at_once.pick_eager(16_000)).count();
        assert_eq!(at_once_count, PAUSE_FIRST as usize);
        run(&mut at_once, 100, 16_000, [900, 1_100, 600]);
        assert!(!at_once.pick_eager(16_000));
    }

    #[test]
    fn lengths_of_one_power_of_two_are_a_class() {
        assert_eq!([0, 8192, 8193, 16384, 16385].map(class_of), [0, 0, 0, 0, 1]);
        assert_eq!([65_536, 65_537, usize::MAX].map(class_of), [2, 3, 3]);
    }

    #[test]
    fn a_receiver_is_late_if_it_is_by_both_ways() {
        for (eager, got, expected) in [
            ([9_000, 9_000, 600], [9_000; TIMES_COUNT], Way::Eager),
            ([9_000; TIMES_COUNT], [9_000, 600, 600], Way::Get),
            ([9_000; TIMES_COUNT], [3_000; TIMES_COUNT], Way::Get),
            ([9_000; TIMES_COUNT], [4_004; TIMES_COUNT], Way::Eager),
            ([9_000, 600, 600], [9_000; TIMES_COUNT], Way::Eager),
        ] {
            for held in [0, 1] {
                let times = if held == 0 { [eager, got] } else { [got, eager] };
                let trial = Trial { times, times_counts: [TIMES_COUNT; 2], ..Trial::default() };
                let mut class = Class { held, trial: Some(trial), copied_ns: 1_000, ..Class::default() };
                class.compare();
                assert_eq!(WAYS[class.held], expected, "{eager:?} {got:?}, {held} held");
            }
        }
    }
}
