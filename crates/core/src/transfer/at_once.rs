//! Whether a message that may go eagerly does, or is announced and got: learnt by its sender while running.
//!
//! An eager message is copied twice, side by side, a message that is got once, by the receiver alone, and
//! after a round trip. Which is quicker depends on the machine, on the length, and on the caches that hold
//! the memory. The receiver cannot compare the two, as an eager message's copy begins before it sees
//! anything. So the sender does, for each peer and power of two of lengths: one way is held, at first that of
//! messages half as long, which is eager if there were none, and after some messages there is a *trial*: ten
//! messages go eagerly, and then ten are got. Then the quicker way is held, which is to get them only if that
//! gains enough. All other messages read no clock. Two processes that both send begin their trials
//! together ([`compare`](super::compare)); both send eagerly in them and then both by get, whatever
//! they hold, and by one rule: so they find the same, and hold the same. (`MPI_Sendrecv` of 16 KiB takes
//! longer where one sends eagerly and one is got than by either way.) A trial ends after three messages that
//! are got if the last of them took four times as long as an eager one. Trials become rarer, to one in 256
//! messages, and the rarer the longer the other way takes ([`compare`](super::compare)).
//!
//! What is compared is the time from message to message, which is what a program waits for: of two ranks
//! that exchange messages it is a turn of both, and a sender that may go on before its receiver comes goes on
//! sooner. A message of a trial is timed when the last timed one is in place, which FIN says of one that was
//! got, and of an eager one the answer that synchronous ones have: so a sender cannot run ahead of the time.
//! The time from one timed message to the next, by the number of messages from one to the other, is one
//! time. Three of each way count; those that begin with its first three messages do so only where there are
//! no others.

use super::choose::{Learnt, Way};
use super::compare::{Held, LEFT_OUT_COUNT, PAUSE_FAR, PAUSE_MAX, Times, class_of, is_quicker, ns};
use crate::ids::RequestId;
use crate::time::Instant;

/// Messages of a trial that go one way.
const ONE_WAY_COUNT: u32 = 10;
/// Trials begin at multiples of so many messages at first, when a ring's memory has been touched, and after a
/// change.
const PAUSE_FIRST: u32 = 32;

/// So many times as long as an eager message: three that are got show it.
const FAR_TIMES: u32 = 4;
/// Where the way that is not held takes twice as long and more, the messages that go it take one of so many
/// parts of the time, from [`PAUSE_FAR`] on to the other one. With 512 in all ten messages that take eight
/// times as long are a seventh of the time. The first trials, until the pause is so long, are not rarer.
const SHARE_PARTS: u32 = 64;
const PAUSE_FAR_MAX: u32 = 8192;

/// The classes: up to 16 KiB, and so on to those above 64 KiB.
const CLASS_FIRST_BYTES: u64 = 16 << 10;
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

    /// Whether the next message would go eagerly, with nothing to report.
    pub(crate) fn is_plainly_eager(&mut self, length_bytes: usize) -> bool {
        let class = self.class(length_bytes);
        class.held.way == Way::Eager && class.trial.is_none() && !class.held.is_due()
    }

    /// The class of a message that goes now.
    fn class(&mut self, length_bytes: usize) -> &mut Class {
        let (shorter, from) = self.classes.split_at_mut(class(length_bytes));
        if let Some(next) = shorter.last() {
            from[0].held.begin_as(&next.held);
        }
        &mut from[0]
    }

    /// A message of this length went without [`pick`](Self::pick). One that could be measured counts among
    /// those between trials.
    pub(crate) fn pass(&mut self, length_bytes: usize, is_learnt: bool) {
        let class = &mut self.classes[class(length_bytes)];
        match is_learnt {
            true => class.count_one(),
            false => class.sent_count = class.sent_count.wrapping_add(1),
        }
    }

    /// A message of a trial begins. Names it.
    pub(crate) fn begin(&mut self, length_bytes: usize, since: Instant) -> RequestId {
        let class = class(length_bytes);
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

fn class(length_bytes: usize) -> usize {
    class_of(length_bytes as u64, CLASS_FIRST_BYTES, CLASSES_COUNT)
}

/// Messages of similar length.
struct Class {
    held: Held,
    /// All messages, those that pass, too; wraps.
    sent_count: u32,
    trial: Option<Trial>,
    /// The number of the last message in a trial.
    number: u32,
}

/// A trial under way.
#[derive(Default)]
struct Trial {
    /// What an eager message takes, in ns; 0: they go now.
    eager_ns: u32,
    /// Messages of the way that they go now so far.
    count: u32,
    /// Of the last one that is timed: its number, how many had been sent, and when it began.
    begun: Option<(u32, u32, Instant)>,
    /// It is not known to be in place.
    is_under_way: bool,
    /// The last time that began too early, in ns; 0: there is none.
    early_ns: u32,
    times: Times,
}

impl Default for Class {
    fn default() -> Self {
        let held = Held::new([Way::Eager, Way::Get], PAUSE_FIRST);
        Self { held, sent_count: 0, trial: None, number: 0 }
    }
}

impl Trial {
    /// How messages go now.
    fn way(&self) -> Way {
        if self.eager_ns == 0 { Way::Eager } else { Way::Get }
    }

    /// Whether enough messages have gone the way that they go now.
    fn has_shown(&self) -> bool {
        let is_far = || self.eager_ns > 0 && self.took_ns() / FAR_TIMES >= self.eager_ns;
        self.count == ONE_WAY_COUNT || self.count == LEFT_OUT_COUNT && is_far()
    }

    /// What a message of this way takes, in ns; 0: nothing is known.
    fn took_ns(&self) -> u32 {
        self.times.median_ns().or(self.times.least_ns()).unwrap_or(self.early_ns)
    }
}

impl Class {
    fn count_one(&mut self) {
        self.held.count_one();
        self.sent_count = self.sent_count.wrapping_add(1);
    }

    fn pick(&mut self) -> Pick {
        if self.trial.is_none() && self.held.is_due() {
            self.trial = Some(Trial::default());
        }
        self.count_one();
        if self.trial.as_ref().is_some_and(Trial::has_shown) {
            self.end_one_way();
        }
        let Some(trial) = &mut self.trial else { return Pick::Plain(self.held.way) };
        trial.count += 1;
        let way = trial.way();
        if trial.is_under_way || trial.times.median_ns().is_some() {
            return Pick::Plain(way);
        }
        Pick::Timed(if way == self.held.way { Learnt::Held(way) } else { Learnt::Looked(way) })
    }

    fn begin(&mut self, since: Instant) -> u32 {
        self.number = self.number.wrapping_add(1) & (u32::MAX >> CLASS_BITS);
        if let Some(trial) = &mut self.trial {
            trial.is_under_way = true;
            let begun = trial.begun.replace((trial.count, self.sent_count, since));
            if let Some((at, sent_count, begun)) = begun {
                let took_ns = ns(since.since(begun)) / self.sent_count.wrapping_sub(sent_count).max(1);
                match at <= LEFT_OUT_COUNT {
                    true => trial.early_ns = took_ns,
                    false => trial.times.add(took_ns),
                }
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
        match (trial.took_ns(), trial.eager_ns) {
            // Messages failed, or wait unmatched.
            (0, _) => {
                self.trial = None;
                self.held.end(PAUSE_MAX);
            }
            (eager_ns, 0) => *trial = Trial { eager_ns, ..Trial::default() },
            (got_ns, eager_ns) => {
                // Eager ones have all gone.
                let tried_count = if self.held.way == Way::Get { ONE_WAY_COUNT } else { trial.count };
                self.compare(eager_ns, got_ns, tried_count);
            }
        }
    }

    /// The trial is over, with so many messages of the way that is not held.
    fn compare(&mut self, eager_ns: u32, got_ns: u32, tried_count: u32) {
        self.trial = None;
        let (is_got, gains) = (self.held.way == Way::Get, is_quicker(got_ns, eager_ns));
        let times = if is_got { [got_ns, eager_ns] } else { [eager_ns, got_ns] };
        self.held.end_measured(is_got != gains, times, [pause_far(tried_count, times), PAUSE_FIRST]);
    }
}

/// The longest pause after a trial with so many messages of the way that is not held, which takes `other_ns`.
fn pause_far(tried_count: u32, [held_ns, other_ns]: [u32; 2]) -> u32 {
    let more_times = (other_ns / held_ns.max(1)).saturating_sub(1);
    let pause = tried_count.saturating_mul(more_times).saturating_mul(SHARE_PARTS);
    pause.clamp(PAUSE_FAR, PAUSE_FAR_MAX).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use alloc::vec::Vec;

    const WAYS: [Way; 2] = [Way::Eager, Way::Get];

    /// One that holds a way.
    fn holding(way: Way) -> Class {
        let mut class = Class::default();
        if way == Way::Get {
            class.held.begin_as(&Held::new([Way::Get, Way::Eager], PAUSE_FIRST));
        }
        class
    }

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
    fn trials_become_rare_and_begin_at_powers_of_two() {
        // What a message that is got takes, how many are got in a trial, and when trials begin.
        for (got_ns, gets_count, begins) in [
            (1_200, 10, &[32, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048][..]),
            (2_500, 10, &[32, 128, 512, 1024, 2048]),
            (3_500, 10, &[32, 128, 512, 2048]),
            (4_400, 3, &[32, 128, 512, 1024, 2048]),
            (11_000, 3, &[32, 128, 512, 2048]),
        ] {
            let mut at_once = Sender::default();
            let is_got = |_: &u32| at_once.run(1, 16_000, [1_100, got_ns]) == 1;
            let gets: Vec<u32> = (0..2_100).filter(is_got).collect();
            let expected: Vec<u32> = begins.iter().flat_map(|at| at + 10..at + 10 + gets_count).collect();
            assert_eq!(gets, expected, "{got_ns}");
            // In the long run they take a sixtieth of the time.
            let got = at_once.run(1 << 20, 16_000, [1_100, got_ns]);
            let more_ns = u64::from(got) * (got_ns - 1_100);
            assert!(got_ns < 2_200 || more_ns < (1_100 << 20) / 60, "{got} took {got_ns}");
        }
    }

    #[test]
    fn a_trial_is_ten_eager_messages_and_ten_that_are_got() {
        for held in WAYS {
            let mut class = holding(held);
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
            let timed = |way| Pick::Timed(if way == held { Learnt::Held(way) } else { Learnt::Looked(way) });
            for (way, picks) in WAYS.into_iter().zip(picks.chunks(10)) {
                let expected = (&[timed(way); 7][..], &[Pick::Plain(way); 3][..]);
                assert_eq!((&picks[..7], &picks[7..]), expected);
            }
            assert_eq!(picks[20..], [Pick::Plain(Way::Eager); 2], "gets gain nothing");
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
        for helds in WAYS.iter().flat_map(|a| WAYS.map(|b| [*a, b])) {
            let mut each = helds.map(holding);
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
            assert_eq!(each.map(|class| class.held.way), [Way::Get; 2], "from {helds:?}");
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
                        (0..15).for_each(|_| at_once.pass(16_000, false));
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
            assert_eq!(at_once.classes[0].held.way == Way::Get, is_quicker, "{got}");
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
        at_once.run(2 * PAUSE_FAR_MAX, 16_000, [1_100, 60_000]);
        assert_eq!(at_once.at_once.classes[0].held.pause(), PAUSE_FAR_MAX);
        let mut messages = 0;
        while at_once.at_once.classes[0].held.way == Way::Eager {
            at_once.run(1, 16_000, [1_100, 600]);
            messages += 1;
        }
        assert!(messages <= PAUSE_FAR_MAX + 2 * ONE_WAY_COUNT + 1, "{messages}");
        assert_eq!(at_once.at_once.classes[0].held.pause(), PAUSE_FIRST);
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
        let mut at_once_count = 0;
        while at_once.at_once.is_plainly_eager(16_000) {
            at_once.at_once.pass(16_000, true);
            at_once_count += 1;
        }
        assert_eq!(at_once_count, PAUSE_FIRST);
        at_once.run(100, 16_000, [1_100, 600]);
        assert!(!at_once.at_once.is_plainly_eager(16_000));
    }
}
