//! Which way of a long message is quicker, learnt while running.
//!
//! Where the receiver may read the sender's memory or have it sent in packets, the quicker way depends on the
//! machine, on the length, and on the caches that hold the memory; nothing of it is known beforehand, and a
//! program may change it. So the receiver measures, from the match of a message to its last byte, for each
//! peer and each power of two of lengths. It holds one way, at first that of the next shorter messages that
//! were compared, and after some messages (more, if those were half as long) *looks* at the other: some
//! messages in a row go that way, of which the first [`LEFT_OUT_COUNT`] are not counted. Then the quicker one
//! is held. A time of the other way that is twice that of the held one ends a look at once, but for the first
//! one. All of it depends on nothing but the times that come in.
//!
//! Looks become rarer ([`compare`](super::compare)), to at most six messages in 256, and two in 512 where the
//! other way takes twice as long; a held way that becomes slower than the other one was brings the next look
//! forward.

use super::choose::Way;
use super::compare::{Held, LEFT_OUT_COUNT, PAUSE_FAR, TIMES_COUNT, Times, class_of, is_quicker, ns};
use crate::time::Duration;

/// The first look begins after so many messages.
pub(super) const PAUSE_FIRST: u32 = 4;
/// The same where messages half as long were compared: a look at 4 MiB takes as long as all other messages of
/// a short program.
const PAUSE_BEGUN: u32 = 64;
/// Messages after a look before a slower way brings the next one forward; and the next look after that, or
/// after a change, begins at a multiple of so many.
const PAUSE_SLOWER: u32 = 16;

/// The classes: up to 8 KiB, and so on to those above 32 MiB.
const CLASS_FIRST_BYTES: u64 = 8 << 10;
const CLASSES_COUNT: usize = 14;

/// The measured choice for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learnt {
    /// This way was quicker when both were compared, or was not compared yet.
    Held(Way),
    /// This way is compared with the one held.
    Looked(Way),
}

impl Learnt {
    /// The way to take.
    pub fn way(self) -> Way {
        match self {
            Self::Held(way) | Self::Looked(way) => way,
        }
    }
}

/// Measurements with one peer.
pub(crate) struct Learner {
    classes: [Class; CLASSES_COUNT],
    /// How many times of a look are not counted.
    left_out_count: u32,
    /// When the first look begins where messages half as long were compared.
    pause_begun: u32,
}

impl Default for Learner {
    fn default() -> Self {
        Self::new([Way::Stream, Way::Get], LEFT_OUT_COUNT, PAUSE_BEGUN)
    }
}

impl Learner {
    /// Holds the first of both ways at first, and leaves so many times of a look out.
    pub(super) fn new(ways: [Way; 2], left_out_count: u32, pause_begun: u32) -> Self {
        Self { classes: core::array::from_fn(|_| Class::new(ways)), left_out_count, pause_begun }
    }

    /// The way of the next message of this length, [`Way::Get`] or [`Way::Stream`].
    pub(crate) fn pick(&mut self, length_bytes: u64) -> Learnt {
        let (shorter, from) = self.classes.split_at_mut(class(length_bytes));
        let class = &mut from[0];
        if class.held.is_new()
            && let Some(nearest) = shorter.iter().rposition(|class| class.compared_ns > 0)
        {
            class.held.begin_as(&shorter[nearest].held);
            if nearest + 1 == shorter.len() {
                class.expect(shorter[nearest].compared_ns.saturating_mul(2), 0);
                class.held.end(self.pause_begun);
            }
        }
        class.pick(self.left_out_count)
    }

    /// A message took `took`.
    pub(crate) fn note(&mut self, length_bytes: u64, way: Way, took: Duration) {
        self.classes[class(length_bytes)].note(way, ns(took), self.left_out_count);
    }
}

fn class(length_bytes: u64) -> usize {
    class_of(length_bytes, CLASS_FIRST_BYTES, CLASSES_COUNT)
}

/// Messages of similar length.
struct Class {
    held: Held,
    /// The last times of the held way.
    times: Times,
    look: Option<Look>,
    /// What the held way took when it was compared, in ns, or is to take by what the next shorter class took;
    /// 0: neither is known.
    compared_ns: u32,
    /// A held way that takes more is compared soon.
    slow_ns: u32,
}

/// A look under way.
#[derive(Default)]
struct Look {
    /// Messages so far.
    count: u32,
    /// Times that were left out.
    left_out: u32,
    /// The others.
    times: Times,
}

impl Class {
    fn new(ways: [Way; 2]) -> Self {
        Self {
            held: Held::new(ways, PAUSE_FIRST),
            times: Times::default(),
            look: None,
            compared_ns: 0,
            slow_ns: u32::MAX,
        }
    }

    fn pick(&mut self, left_out_count: u32) -> Learnt {
        let look_count = left_out_count + TIMES_COUNT as u32;
        if self.look.as_ref().is_some_and(|look| look.count == look_count) {
            // Not all messages sent the other way have reported their times: they failed, or are still in
            // flight.
            self.end_look(self.held.pause());
        }
        if self.look.is_none() && self.held.is_due() {
            self.look = Some(Look::default());
        }
        self.held.count_one();
        match &mut self.look {
            Some(look) => {
                look.count += 1;
                Learnt::Looked(self.held.other)
            }
            None => Learnt::Held(self.held.way),
        }
    }

    fn note(&mut self, way: Way, ns: u32, left_out_count: u32) {
        if way == self.held.way {
            return self.note_held(ns);
        }
        let is_far = self.times.median_ns().is_some_and(|held_ns| ns / 2 >= held_ns);
        // None: it is late.
        let Some(look) = &mut self.look else { return };
        let other_ns = if look.left_out < left_out_count {
            look.left_out += 1;
            // The first finds the caches as the held way has left them; of the next ones that much is told.
            (is_far && look.left_out > 1).then_some(ns)
        } else {
            look.times.add(ns);
            if is_far { Some(ns) } else { look.times.median_ns() }
        };
        if let Some(other_ns) = other_ns {
            self.compare(other_ns);
        }
    }

    fn note_held(&mut self, ns: u32) {
        self.times.add(ns);
        if let Some(median_ns) = self.times.median_ns()
            && median_ns > self.slow_ns
            && self.held.since_last() >= PAUSE_SLOWER
            && self.look.is_none()
        {
            self.expect(median_ns, 0);
            self.held.bring_forward(PAUSE_SLOWER);
        }
    }

    /// The held way is to take so long, the other one took `other_ns` (0: unknown). Slow is what takes half
    /// as long again and longer than the other way did, or twice as long.
    fn expect(&mut self, held_ns: u32, other_ns: u32) {
        self.compared_ns = held_ns;
        self.slow_ns = other_ns.clamp(held_ns.saturating_mul(3) / 2, held_ns.saturating_mul(2));
    }

    /// The look is over, in which the other way took so long.
    fn compare(&mut self, other_ns: u32) {
        let Some(held_ns) = self.times.median_ns() else { return self.end_look(PAUSE_FIRST) };
        let look = self.look.take();
        let changes = is_quicker(other_ns, held_ns);
        self.held.end_measured(changes, [held_ns, other_ns], [PAUSE_FAR, PAUSE_SLOWER]);
        if changes {
            self.times = look.map_or(Times::default(), |look| look.times);
            self.expect(other_ns, held_ns);
        } else {
            self.expect(held_ns, other_ns);
        }
    }

    fn end_look(&mut self, pause: u32) {
        self.look = None;
        self.held.end(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Runs messages of a length on a model of what each way takes, in ns; how many went by get.
    fn run(learner: &mut Learner, count: u32, bytes: u64, model: impl Fn(u32, Way) -> u64) -> u32 {
        let mut got_count = 0;
        for n in 0..count {
            let way = learner.pick(bytes).way();
            got_count += u32::from(way == Way::Get);
            learner.note(bytes, way, Duration::from_ns(model(n, way)));
        }
        got_count
    }

    fn model_ns(way: Way, stream: u64, get: u64) -> u64 {
        if way == Way::Get { get } else { stream }
    }

    #[test]
    fn the_quicker_way_is_held_and_the_other_looked_at_soon() {
        let mut learner = Learner::default();
        assert_eq!(runs(&mut learner, 22, 140, 80), [4, 6, 6, 6], "at the next multiple of 16");
        let got = run(&mut learner, 1_000, 1 << 20, |_, way| model_ns(way, 140, 80));
        assert!(got >= 960, "{got} of 1000");
    }

    #[test]
    fn longer_messages_begin_with_the_way_of_the_next_shorter_ones() {
        let mut learner = Learner::default();
        let first = |learner: &mut Learner, bytes| learner.pick(bytes).way();
        assert_eq!(first(&mut learner, 1 << 14), Way::Stream, "nothing was compared");
        run(&mut learner, 20, 1 << 16, |_, way| model_ns(way, 100, 50));
        run(&mut learner, 20, 1 << 18, |_, way| model_ns(way, 50, 100));
        let ways = [1 << 15, 1 << 17, 1 << 19, 1 << 26].map(|bytes| first(&mut learner, bytes));
        assert_eq!(ways, [Way::Stream, Way::Get, Way::Stream, Way::Stream]);
        // One that was used keeps its own way.
        run(&mut learner, 20, 1 << 14, |_, way| model_ns(way, 100, 50));
        assert_eq!(first(&mut learner, 1 << 15), Way::Stream);
    }

    #[test]
    fn who_begins_with_a_way_looks_later_unless_it_is_slow() {
        // Times of messages twice as long, by the way that is held: as expected, and just more than that.
        for (takes, first) in [(300, 64), (301, 16)] {
            let mut learner = Learner::default();
            runs(&mut learner, 20, 100, 200);
            assert_eq!(run(&mut learner, first, 1 << 21, |_, way| model_ns(way, takes, 1)), 0, "{takes}");
            assert_eq!(learner.pick(1 << 21), Learnt::Looked(Way::Get), "{takes}");
        }
        // What is four times as long says nothing of it.
        let mut learner = Learner::default();
        runs(&mut learner, 20, 100, 200);
        run(&mut learner, PAUSE_FIRST, 1 << 22, |_, _| 400);
        assert_eq!(learner.pick(1 << 22), Learnt::Looked(Way::Get));
    }

    #[test]
    fn a_way_that_was_changed_to_takes_what_it_took_in_the_look() {
        let mut learner = Learner::default();
        // Four, and a look of six, which shows that 50 ns beat 90.
        runs(&mut learner, 10, 90, 50);
        let of = &learner.classes[class(1 << 20)];
        assert_eq!((of.times.median_ns(), of.compared_ns, of.slow_ns), (Some(50), 50, 90));
        assert_eq!(learner.pick(1 << 21).way(), Way::Get, "longer ones begin with it");
    }

    #[test]
    fn what_has_become_slow_is_expected_to_stay_so() {
        let mut learner = Learner::default();
        runs(&mut learner, 10, 100, 150);
        let slow_ns = |learner: &Learner| learner.classes[class(1 << 20)].slow_ns;
        assert_eq!(slow_ns(&learner), 150);
        for _ in 0..PAUSE_SLOWER {
            let way = learner.pick(1 << 20).way();
            learner.note(1 << 20, way, Duration::from_ns(400));
        }
        // By the half, as nothing is known of the other way now.
        assert_eq!(slow_ns(&learner), 600);
    }

    #[test]
    fn a_look_ends_though_its_times_come_late_or_never() {
        for tells_held in [false, true] {
            let mut learner = Learner::default();
            let looks: Vec<bool> = (0..99)
                .map(|_| match learner.pick(1 << 20) {
                    Learnt::Held(way) if tells_held => {
                        learner.note(1 << 20, way, Duration::from_ns(100));
                        false
                    }
                    learnt => matches!(learnt, Learnt::Looked(_)),
                })
                .collect();
            let lengths: Vec<usize> = looks.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
            assert_eq!((lengths[0], &lengths[1..16], lengths[16]), (4, &[6; 15][..], 5), "{tells_held}");
            (0..4).for_each(|_| learner.note(1 << 20, Way::Get, Duration::from_ns(1)));
            assert_eq!(learner.pick(1 << 20), Learnt::Held(Way::Stream), "{tells_held}");
        }
    }

    /// Lengths of the runs of messages by the held way and of looks, in turn, with times in ns.
    fn runs(learner: &mut Learner, count: usize, stream: u64, get: u64) -> Vec<usize> {
        let picked: Vec<bool> = (0..count)
            .map(|_| {
                let learnt = learner.pick(1 << 20);
                learner.note(1 << 20, learnt.way(), Duration::from_ns(model_ns(learnt.way(), stream, get)));
                matches!(learnt, Learnt::Looked(_))
            })
            .collect();
        picked.chunk_by(|a, b| a == b).map(<[bool]>::len).collect()
    }

    #[test]
    fn looks_become_rarer_as_far_as_the_other_way_allows() {
        // Slower, and twice as slow, which the first time that counts says.
        for (get, most, look) in [(110, 256, 6), (199, 256, 6), (200, 512, 2), (400, 512, 2)] {
            // From the end of a look to the next multiple of what the pause is then.
            let pauses = core::iter::successors(Some(16), |pause: &usize| Some((pause * 4).min(most)));
            let mut at = 4;
            let mut expected = Vec::from([4]);
            for pause in pauses.take(7) {
                let next = (at + look + 4_usize).next_multiple_of(pause);
                expected.extend([look, next - at - look]);
                at = next;
            }
            let mut learner = Learner::default();
            let count = expected.iter().sum();
            assert_eq!(runs(&mut learner, count, 100, get), expected, "{get}");
        }
    }

    #[test]
    fn a_gain_of_less_than_a_sixteenth_changes_nothing() {
        for (get, changes) in [(149, true), (150, false), (160, false)] {
            let mut learner = Learner::default();
            runs(&mut learner, 10, 160, get);
            let held = learner.pick(1 << 20);
            let expected = Learnt::Held(if changes { Way::Get } else { Way::Stream });
            assert_eq!(held, expected, "{get}");
        }
    }

    #[test]
    fn a_held_way_slower_than_the_other_was_is_compared_soon() {
        // Packets are held, or got ones are after the first look. Half as long again at least, and twice
        // at most.
        for (stream, get, held, slow, at) in [
            (100, 120, Way::Stream, 150, 26),
            (150, 100, Way::Get, 150, 26),
            (180, 100, Way::Get, 180, 26),
            (100, 190, Way::Stream, 190, 26),
            (100, 900, Way::Stream, 200, 30),
        ] {
            for (slower, is_soon) in [(slow, false), (slow + 1, true)] {
                let mut learner = Learner::default();
                runs(&mut learner, 4 + 6, stream, get);
                // A pause long enough for a look to be brought forward.
                while learner.classes[class(1 << 20)].held.pause() < 128 {
                    runs(&mut learner, 1, stream, get);
                }
                let now = |of| if of == held { slower } else { 1_000 };
                let first = runs(&mut learner, 40, now(Way::Stream), now(Way::Get))[0];
                assert_eq!(first < 40, is_soon, "{held:?} {slower}: {first}");
                // At the next multiple of 16 after 16 of the held way.
                assert!(!is_soon || first == at, "{first}");
            }
        }
    }

    #[test]
    fn a_crossover_that_moves_is_followed() {
        // Packets cost little to begin and much a byte; where they cross moves between 64 KiB and 4 MiB.
        let cost = |crossover: u64, bytes: u64, way| model_ns(way, bytes / 10, crossover / 20 + bytes / 20);
        let mut learner = Learner::default();
        for crossover in [1 << 16, 1 << 22, 1 << 18, 1 << 20] {
            for bits in 15..=24 {
                let bytes = 1 << bits;
                run(&mut learner, 600, bytes, |_, way| cost(crossover, bytes, way));
                let got = run(&mut learner, 100, bytes, |_, way| cost(crossover, bytes, way));
                let is_right = if bytes >= 2 * crossover { got >= 80 } else { got <= 20 };
                assert!(
                    is_right || bytes == crossover,
                    "{bytes} B, crossover at {crossover}: {got} of 100 by get"
                );
            }
        }
    }

    #[test]
    fn a_way_that_becomes_slower_is_left_within_22_messages() {
        let mut learner = Learner::default();
        run(&mut learner, 2_000, 1 << 20, |_, way| model_ns(way, 80, 140));
        run(&mut learner, 22, 1 << 20, |_, way| model_ns(way, 150, 100));
        assert_eq!(run(&mut learner, 10, 1 << 20, |_, way| model_ns(way, 150, 100)), 10);
    }

    #[test]
    fn single_slow_messages_change_nothing() {
        let mut learner = Learner::default();
        run(&mut learner, 100, 1 << 20, |_, way| model_ns(way, 80, 140));
        let got = run(&mut learner, 1_000, 1 << 20, |n, way| {
            model_ns(way, if n % 7 == 0 { 5_000 } else { 80 }, 140)
        });
        assert!(got <= 60, "{got} of 1000 by get");
    }
}
