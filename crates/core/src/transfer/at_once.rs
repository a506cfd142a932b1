//! Whether a message that may go eagerly does, or is announced and got: learnt by its sender while running.
//!
//! An eager message is copied twice, side by side, a message that is got once, by the receiver alone, and
//! after a round trip. Which is quicker depends on the machine, on the length, and on the caches that hold
//! the memory. The receiver cannot compare the two, as an eager message's copy begins before it sees
//! anything. So the sender does, for each peer and power of two of lengths: one way is held, at first that of
//! messages half as long, which is eager if there were none, and after some messages there is a *trial*: ten
//! messages go eagerly, and then ten are got. Then the quicker way is held, which is to get them only if that
//! gains enough. All other messages read no clock. Two processes that both send begin their trials
//! together ([`schedule`](super::schedule)); both send eagerly in them and then both by get, whatever
//! they hold, and by one rule: so they find the same, and hold the same. (`MPI_Sendrecv` of 16 KiB takes
//! longer where one sends eagerly and one is got than by either way.) Trials become rarer, to one in 256
//! messages, and in 512 where the way that is not held takes twice as long.
//!
//! What is compared is the time from message to message, which is what a program waits for: of two ranks
//! that exchange messages it is a turn of both, and a sender that may go on before its receiver comes goes on
//! sooner. A message of a trial is timed when the last timed one is in place, which FIN says of one that was
//! got, and of an eager one the answer that synchronous ones have: so a sender cannot run ahead of the time.
//! The time from one timed message to the next, by the number of messages from one to the other, is one
//! time. Three of each way count; those that begin with its first three messages do not where there are
//! others, for these find the caches as the other way has left them.

use super::choose::{Learnt, Way};
use super::learn::{LEFT_OUT_COUNT, TIMES_COUNT, is_quicker, median_ns, ns};
use super::schedule::{PAUSE_MAX, Schedule};
use crate::ids::RequestId;
use crate::time::Instant;

/// Messages of a trial that go one way.
const ONE_WAY_COUNT: u32 = 10;
/// Trials begin at multiples of so many messages at first, when a ring's memory has been touched, and after a
/// change.
const PAUSE_FIRST: u32 = 32;

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
    /// This way, and its beginning and end are to be told: [`AtOnce::begin`].
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
        self.class(length_bytes).pick()
    }

    /// Whether the next message goes eagerly and nothing is to be reported; then it counts as sent.
    pub(crate) fn pick_eager(&mut self, length_bytes: usize) -> bool {
        let class = self.class(length_bytes);
        let is_eager = class.held == 0 && class.trial.is_none() && !class.schedule.is_due();
        if is_eager {
            class.count_one();
        }
        is_eager
    }

    /// The class of a message that goes now: a new one begins with the way of the next shorter one.
    fn class(&mut self, length_bytes: usize) -> &mut Class {
        let at = class_of(length_bytes);
        if at > 0 && self.classes[at].schedule.is_new() {
            self.classes[at].held = self.classes[at - 1].held;
        }
        &mut self.classes[at]
    }

    /// A message of this length goes as it must.
    pub(crate) fn pass(&mut self, length_bytes: usize) {
        let class = &mut self.classes[class_of(length_bytes)];
        class.sent_count = class.sent_count.wrapping_add(1);
    }

    /// A message of a trial begins. Names it.
    pub(crate) fn begin(&mut self, length_bytes: usize, since: Instant) -> RequestId {
        let class = class_of(length_bytes);
        let number = self.classes[class].begin(since);
        RequestId { index: TRIAL_INDEX, generation: (number << CLASS_BITS) | class as u32 }
    }

    /// The message of this name is in place.
    pub(crate) fn end(&mut self, name: RequestId) {
        let class = (name.generation & ((1 << CLASS_BITS) - 1)) as usize;
        if let Some(class) = self.classes.get_mut(class) {
            class.end(name.generation >> CLASS_BITS);
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
    /// All messages, those that pass, too; wraps.
    sent_count: u32,
    trial: Option<Trial>,
    /// The number of the last message in a trial.
    number: u32,
}

/// A trial under way.
#[derive(Default)]
struct Trial {
    /// The number of the way that messages go now.
    way: usize,
    /// Messages of that way so far.
    count: u32,
    /// Of the last one that is timed: its number, how many had been sent, and when it began.
    begun: Option<(u32, u32, Instant)>,
    /// It is not known to be in place.
    is_under_way: bool,
    /// The last time that began too early, in ns; 0: there is none.
    early_ns: u32,
    /// Times in ns, and how many there are.
    times: [u32; TIMES_COUNT],
    times_count: usize,
    /// What an eager message takes, in ns, when those that are got are timed.
    eager_ns: u32,
}

impl Default for Class {
    fn default() -> Self {
        Self { held: 0, schedule: Schedule::new(PAUSE_FIRST), sent_count: 0, trial: None, number: 0 }
    }
}

impl Trial {
    /// A time of this way.
    fn note(&mut self, is_early: bool, took_ns: u32) {
        if is_early {
            self.early_ns = took_ns;
        } else if let Some(time) = self.times.get_mut(self.times_count) {
            *time = took_ns;
            self.times_count += 1;
        }
    }

    /// What a message of this way takes, in ns; 0: nothing is known.
    fn took_ns(&self) -> u32 {
        match self.times_count {
            0 => self.early_ns,
            TIMES_COUNT => median_ns(self.times),
            count => self.times[..count].iter().copied().min().unwrap_or(0),
        }
    }
}

impl Class {
    fn count_one(&mut self) {
        self.schedule.count_one();
        self.sent_count = self.sent_count.wrapping_add(1);
    }

    fn pick(&mut self) -> Pick {
        if self.trial.is_none() && self.schedule.is_due() {
            self.trial = Some(Trial::default());
        }
        self.count_one();
        if self.trial.as_ref().is_some_and(|trial| trial.count == ONE_WAY_COUNT) {
            self.end_one_way();
        }
        let Some(trial) = &mut self.trial else { return Pick::Plain(WAYS[self.held]) };
        trial.count += 1;
        let way = WAYS[trial.way];
        match trial.is_under_way || trial.times_count == TIMES_COUNT {
            true => Pick::Plain(way),
            false if trial.way == self.held => Pick::Timed(Learnt::Held(way)),
            false => Pick::Timed(Learnt::Looked(way)),
        }
    }

    fn begin(&mut self, since: Instant) -> u32 {
        self.number = self.number.wrapping_add(1) & (u32::MAX >> CLASS_BITS);
        if let Some(trial) = &mut self.trial {
            trial.is_under_way = true;
            if let Some((at, sent_count, begun)) = trial.begun.replace((trial.count, self.sent_count, since))
            {
                let count = self.sent_count.wrapping_sub(sent_count).max(1);
                trial.note(at <= LEFT_OUT_COUNT, ns(since.since(begun)) / count);
            }
        }
        self.number
    }

    fn end(&mut self, number: u32) {
        if let Some(trial) = self.trial.as_mut().filter(|_| number == self.number) {
            trial.is_under_way = false;
        }
    }

    /// All messages of a trial that go one way have been sent.
    fn end_one_way(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        match (trial.took_ns(), trial.way) {
            // Messages failed, or wait unmatched.
            (0, _) => self.end_trial(PAUSE_MAX),
            (eager_ns, 0) => *trial = Trial { way: 1, eager_ns, ..Trial::default() },
            (got_ns, _) => {
                let eager_ns = trial.eager_ns;
                self.compare(eager_ns, got_ns);
            }
        }
    }

    /// The trial is over.
    fn compare(&mut self, eager_ns: u32, got_ns: u32) {
        let held = usize::from(is_quicker(got_ns, eager_ns));
        if held != self.held {
            self.held = held;
            return self.end_trial(PAUSE_FIRST);
        }
        self.trial = None;
        let times = if held == 0 { [got_ns, eager_ns] } else { [eager_ns, got_ns] };
        self.schedule.end_unchanged(times);
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
    use crate::time::Duration;
    use alloc::vec::Vec;

    /// A sender and its clock.
    #[derive(Default)]
    struct Sender {
        at_once: AtOnce,
        now: Instant,
    }

    impl Sender {
        /// Sends messages on a model of what each way takes from message to message, in ns: eager ones, and
        /// those that are got. How many were got.
        fn run(&mut self, count: u32, bytes: usize, [eager, got]: [u64; 2]) -> u32 {
            let mut gets_count = 0;
            for _ in 0..count {
                let (way, name) = match self.at_once.pick(bytes) {
                    Pick::Plain(way) => (way, None),
                    Pick::Timed(learnt) => (learnt.way(), Some(self.at_once.begin(bytes, self.now))),
                };
                gets_count += u32::from(way == Way::Get);
                self.now += Duration::from_ns(if way == Way::Get { got } else { eager });
                name.into_iter().for_each(|name| self.at_once.end(name));
            }
            gets_count
        }
    }

    #[test]
    fn the_quicker_way_is_held_after_a_first_trial() {
        let mut at_once = Sender::default();
        assert_eq!(at_once.run(PAUSE_FIRST, 16_000, [1_100, 600]), 0);
        let got = at_once.run(1_000, 16_000, [1_100, 600]);
        assert_eq!(got, 1_000 - 6 * 10 - 8, "but for six trials and the beginning of one");
        let got = at_once.run(1_000, 16_000, [1_100, 2_300]);
        assert!(got <= PAUSE_MAX + 40, "{got} of 1000 when it has become slow");
    }

    #[test]
    fn messages_twice_as_long_begin_with_the_same_way() {
        let mut at_once = Sender::default();
        at_once.run(100, 16_000, [1_100, 600]);
        assert_eq!(at_once.run(PAUSE_FIRST, 32_000, [1_100, 600]), PAUSE_FIRST, "by get");
        // One that was used keeps its own.
        at_once.run(1_000, 16_000, [600, 1_100]);
        assert_eq!(at_once.run(1, 32_000, [1_100, 600]), 0, "a trial, which begins eagerly");
        at_once.run(2 * ONE_WAY_COUNT, 32_000, [1_100, 600]);
        assert_eq!(at_once.run(1, 32_000, [1_100, 600]), 1);
    }

    #[test]
    fn trials_become_rare() {
        for (got_ns, one_in) in [(1_200, PAUSE_MAX), (2_500, PAUSE_FAR_MAX)] {
            let mut at_once = Sender::default();
            at_once.run(4 * PAUSE_FAR_MAX, 16_000, [1_100, got_ns]);
            let got = at_once.run(4 * PAUSE_FAR_MAX, 16_000, [1_100, got_ns]);
            assert_eq!(got, 10 * 4 * PAUSE_FAR_MAX / one_in, "{got_ns}");
        }
    }

    #[test]
    fn two_that_began_at_different_times_try_the_other_way_together() {
        // One whose trials have become rare, and one that has changed its way just now.
        let mut each = [(); 2].map(|()| Sender::default());
        each[0].run(8 * PAUSE_MAX, 16_000, [1_100, 1_200]);
        each[1].run(7 * PAUSE_MAX, 16_000, [1_100, 1_200]);
        each[1].run(PAUSE_MAX, 16_000, [1_100, 600]);
        each.iter_mut().for_each(|at_once| _ = at_once.run(32, 16_000, [1_100, 1_200]));
        let mut gets = [(); 2].map(|()| Vec::new());
        for message in 0..2 * PAUSE_MAX {
            for (at_once, gets) in each.iter_mut().zip(&mut gets) {
                if at_once.run(1, 16_000, [1_100, 1_200]) == 1 {
                    gets.push(message);
                }
            }
        }
        assert_eq!(gets.each_ref().map(Vec::len), [20, 40], "{gets:?}");
        assert!(gets[0].iter().all(|message| gets[1].contains(message)), "{gets:?}");
    }

    #[test]
    fn a_trial_is_ten_eager_messages_and_ten_that_are_got() {
        for held in [0, 1] {
            let mut class = Class { held, ..Class::default() };
            (0..PAUSE_FIRST).for_each(|_| _ = class.pick());
            let picks: Vec<Pick> = (0..22)
                .map(|n| {
                    let pick = class.pick();
                    if matches!(pick, Pick::Timed(_)) {
                        let number = class.begin(Instant(n * 1_000_000));
                        class.end(number);
                    }
                    pick
                })
                .collect();
            let timed = |way| {
                let learnt = if way == held { Learnt::Held(WAYS[way]) } else { Learnt::Looked(WAYS[way]) };
                Pick::Timed(learnt)
            };
            for way in [0, 1] {
                let picks = &picks[10 * way..10 * way + 10];
                assert_eq!(
                    (&picks[..7], &picks[7..]),
                    (&[timed(way); 7][..], &[Pick::Plain(WAYS[way]); 3][..])
                );
            }
            assert_eq!(picks[20..], [Pick::Plain(WAYS[0]); 2], "gets gain nothing");
        }
    }

    #[test]
    fn two_that_hold_different_ways_hold_the_same_after_a_trial() {
        // What they have from message to message, which one does not change alone.
        let turn_ns = |ways: [Way; 2]| match ways {
            [Way::Get, Way::Get] => 2_500,
            [Way::Eager, Way::Eager] => 2_800,
            _ => 3_400,
        };
        for helds in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let mut each = helds.map(|held| Class { held, ..Class::default() });
            let mut now = Instant(0);
            for _ in 0..2 * PAUSE_FIRST {
                let picks = each.each_mut().map(Class::pick);
                let numbers = [0, 1].map(|at| match picks[at] {
                    Pick::Timed(_) => Some(each[at].begin(now)),
                    Pick::Plain(_) => None,
                });
                now += Duration::from_ns(turn_ns(picks.map(|pick| match pick {
                    Pick::Plain(way) => way,
                    Pick::Timed(learnt) => learnt.way(),
                })));
                for (class, number) in each.iter_mut().zip(numbers) {
                    number.into_iter().for_each(|number| class.end(number));
                }
            }
            assert_eq!(each.map(|class| class.held), [1; 2], "from {helds:?}");
        }
    }

    #[test]
    fn a_time_is_that_from_message_to_message_by_all_between() {
        // Of a window of 16 the first is timed; the others of one that is got pass.
        for (got, is_quicker) in [(1_000, true), (1_070, false)] {
            let (mut at_once, mut now) = (AtOnce::default(), Instant(0));
            for _ in 0..PAUSE_FIRST + 2 * ONE_WAY_COUNT + 1 {
                let name = match at_once.pick(16_000) {
                    Pick::Timed(Learnt::Looked(_)) => {
                        let name = at_once.begin(16_000, now);
                        (0..15).for_each(|_| at_once.pass(16_000));
                        now += Duration::from_ns(16 * got);
                        Some(name)
                    }
                    pick => {
                        now += Duration::from_ns(1_100);
                        let begun = now;
                        matches!(pick, Pick::Timed(_)).then(|| at_once.begin(16_000, begun))
                    }
                };
                name.into_iter().for_each(|name| at_once.end(name));
            }
            assert_eq!(at_once.classes[class_of(16_000)].held == 1, is_quicker, "{got}");
        }
    }

    #[test]
    fn ways_that_take_the_same_time_are_not_changed() {
        // A receiver that comes when it has computed.
        let mut at_once = Sender::default();
        assert_eq!(at_once.run(300, 16_000, [9_000, 9_000]), 3 * 10, "trials at 32, 128, 256");
        let (count, times) = (PAUSE_MAX + 2 * ONE_WAY_COUNT + 1, [1_100, 600]);
        at_once.run(count, 16_000, times);
        assert!(at_once.run(100, 16_000, times) >= 90, "it waits now");
    }

    #[test]
    fn after_a_change_the_next_trial_comes_soon() {
        let mut at_once = Sender::default();
        at_once.run(2 * PAUSE_FAR_MAX, 16_000, [1_100, 2_500]);
        assert_eq!(at_once.at_once.classes[class_of(16_000)].schedule.pause(), PAUSE_FAR_MAX);
        let mut messages = 0;
        while at_once.at_once.classes[class_of(16_000)].held == 0 {
            at_once.run(1, 16_000, [1_100, 600]);
            messages += 1;
        }
        assert!(messages <= PAUSE_FAR_MAX + 2 * ONE_WAY_COUNT + 1, "{messages}");
        assert_eq!(at_once.at_once.classes[class_of(16_000)].schedule.pause(), PAUSE_FIRST);
    }

    #[test]
    fn a_trial_whose_times_do_not_come_ends() {
        let mut class = Class::default();
        let timed = |class: &mut Class| matches!(class.pick(), Pick::Timed(_));
        assert_eq!((0..PAUSE_FIRST).filter(|_| timed(&mut class)).count(), 0);
        assert!(timed(&mut class));
        let number = class.begin(Instant(0));
        assert!((1..ONE_WAY_COUNT).all(|_| class.pick() == Pick::Plain(Way::Eager)), "one is under way");
        assert!(class.trial.is_some() && !timed(&mut class) && class.trial.is_none());
        let mut messages = PAUSE_FIRST + ONE_WAY_COUNT + 1;
        while !timed(&mut class) {
            messages += 1;
        }
        assert_eq!(messages, PAUSE_MAX, "the next trial");
        class.begin(Instant(7));
        class.end(number);
        assert!(class.trial.is_some_and(|trial| trial.is_under_way), "an answer of an earlier trial");
    }

    #[test]
    fn only_what_is_held_and_not_timed_leaves_by_the_short_way() {
        let mut at_once = Sender::default();
        let at_once_count = (0..100).filter(|_| at_once.at_once.pick_eager(16_000)).count();
        assert_eq!(at_once_count, PAUSE_FIRST as usize);
        at_once.run(100, 16_000, [1_100, 600]);
        assert!(!at_once.at_once.pick_eager(16_000));
    }

    #[test]
    fn lengths_of_one_power_of_two_are_a_class() {
        assert_eq!([0, 8192, 8193, 16384, 16385].map(class_of), [0, 0, 0, 0, 1]);
        assert_eq!([65_536, 65_537, usize::MAX].map(class_of), [2, 3, 3]);
    }
}
