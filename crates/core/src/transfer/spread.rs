//! A message's data in flight over several rails, counted in units: those still to be sent, and those
//! received.

use crate::ids::Rail;
use crate::link::{Carrying, Part, Run, UnitsReceived};
use crate::wire::Keys;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// The units of a message that have come.
#[derive(Default)]
pub(super) struct Come {
    /// A bit for each.
    words: Vec<u64>,
    /// How many have not.
    left: u32,
}

impl Come {
    /// None yet.
    fn new(count: u32) -> Self {
        Self { words: vec![0; (count as usize).div_ceil(64)], left: count }
    }

    fn contains(&self, unit: u32) -> bool {
        self.words[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// How many of these units have come.
    pub(super) fn count_in(&self, run: Run) -> u32 {
        run.units().map(|unit| u32::from(self.contains(unit))).sum()
    }

    /// Units have come. Whether all have.
    pub(super) fn add(&mut self, run: Run) -> bool {
        for unit in run.units() {
            let (word, bit) = (&mut self.words[unit as usize / 64], 1 << (unit % 64));
            self.left -= u32::from(*word & bit == 0);
            *word |= bit;
        }
        self.left == 0
    }
}

/// How many units a message has; `None`: more than can be counted, or the unit is nothing.
fn unit_count(total: u64, unit_bytes: u32) -> Option<u32> {
    if unit_bytes == 0 {
        return None;
    }
    u32::try_from(total.div_ceil(u64::from(unit_bytes))).ok()
}

/// The sender's side.
pub(crate) struct Spread {
    pub(crate) total: u64,
    pub(crate) unit_bytes: u32,
    /// Where rails may put.
    pub(crate) keys: Keys,
    /// Units never sent, by the rail that begins with them; together the whole message at first.
    parts: Vec<Part>,
    /// Whether each rail carries its part itself.
    are_fixed: bool,
    /// Whether it has waited for room before.
    pub(crate) waited: bool,
    /// Whether units have been put.
    pub(crate) has_put: bool,
    /// Lost.
    again: VecDeque<Run>,
    /// Known to have come.
    pub(super) come: Come,
    unsent: u32,
}

impl Spread {
    /// For `total` bytes, at least one. `None`: too many units.
    pub(crate) fn new(
        total: u64,
        unit_bytes: u32,
        keys: Keys,
        divide: impl FnOnce(u32) -> (Vec<Part>, bool),
    ) -> Option<Self> {
        let count = unit_count(total, unit_bytes)?;
        let (mut parts, are_fixed) = divide(count);
        if parts.is_empty() {
            // Any rail takes from it, when one works again.
            parts.push(Part { rail: Rail(0), rest: Run { first: 0, count } });
        }
        Some(Self {
            total,
            unit_bytes,
            keys,
            parts,
            are_fixed,
            waited: false,
            has_put: false,
            again: VecDeque::new(),
            come: Come::new(count),
            unsent: count,
        })
    }

    /// Rest of each rail's own part; empty if pieces are given out one by one.
    pub(crate) fn fixed(&self) -> &[Part] {
        if self.are_fixed { &self.parts } else { &[] }
    }

    /// Bytes still to be sent (the last unit counted whole).
    pub(crate) fn unsent_bytes(&self) -> u64 {
        u64::from(self.unsent) * u64::from(self.unit_bytes)
    }

    /// Whether there are units to send.
    pub(crate) fn has_next(&mut self) -> bool {
        while let Some(run) = self.again.front_mut() {
            if run.count == 0 {
                self.again.pop_front();
            } else if self.come.contains(run.first) {
                *run = Run { first: run.first + 1, count: run.count - 1 };
                self.unsent -= 1;
            } else {
                return true;
            }
        }
        self.unsent > 0
    }

    /// The part from which a rail takes: its own, or the end of the longest.
    fn part_for(&self, rail: Rail) -> Option<&Part> {
        let left = || self.parts.iter().filter(|part| part.rest.count > 0);
        left().find(|part| part.rail == rail).or_else(|| left().max_by_key(|part| part.rest.count))
    }

    /// How many neighbouring units [`next`](Self::next) has for a rail.
    pub(crate) fn neighbours(&self, rail: Rail) -> u32 {
        let run = self.again.front().copied().or_else(|| Some(self.part_for(rail)?.rest));
        run.map_or(0, |run| run.count)
    }

    /// The next units for a rail to send, at most `count_max`, after [`has_next`](Self::has_next);
    /// [`sent`](Self::sent) removes them.
    pub(crate) fn next(&self, rail: Rail, count_max: u32) -> Option<Run> {
        if let Some(run) = self.again.front() {
            return Some(Run { first: run.first, count: run.count.min(count_max) });
        }
        let Part { rail: owner, rest } = *self.part_for(rail)?;
        let count = rest.count.min(count_max);
        let first = if owner == rail { rest.first } else { rest.first + rest.count - count };
        Some(Run { first, count })
    }

    /// Whether the units that [`next`](Self::next) gives were sent before. The receiver may have them, and
    /// its receive may be over: they must not be put into its memory any more, only packets, which it checks,
    /// may carry them.
    pub(crate) fn is_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// The units that [`next`](Self::next) gave have been sent.
    pub(crate) fn sent(&mut self, run: Run) {
        self.unsent -= run.count;
        if let Some(front) = self.again.front_mut() {
            *front = Run { first: front.first + run.count, count: front.count - run.count };
            return;
        }
        let contains = |part: &&mut Part| run.first.wrapping_sub(part.rest.first) < part.rest.count;
        let part =
            self.parts.iter_mut().find(contains).expect("what is sent for the first time is of a part");
        if run.first == part.rest.first {
            part.rest.first += run.count;
        }
        part.rest.count -= run.count;
    }

    /// They are lost. Whether there is anything to send again.
    pub(crate) fn on_lost(&mut self, run: Run) -> bool {
        let lost = self.come.count_in(run) < run.count;
        if lost {
            self.again.push_back(run);
            self.unsent += run.count;
        }
        lost
    }
}

/// The receiver's side.
pub(crate) struct Gather {
    total: u64,
    /// 0: not known yet.
    unit_bytes: u32,
    pub(super) come: Come,
    /// Bytes that came in order, without units.
    received: u64,
}

impl Gather {
    /// For `total` bytes.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, unit_bytes: 0, come: Come::default(), received: 0 }
    }

    /// Checks that `length` bytes at an offset belong to the message.
    pub(crate) fn check_bytes(&self, offset: u64, length: u64) -> Result<(), &'static str> {
        let is_inside =
            self.unit_bytes == 0 && offset.checked_add(length).is_some_and(|end| end <= self.total);
        if is_inside { Ok(()) } else { Err("data outside the message") }
    }

    /// Whether the data comes in units.
    pub(crate) fn counts_units(&self) -> bool {
        self.unit_bytes != 0
    }

    /// Bytes have come, each once. Whether all have.
    pub(crate) fn on_bytes(&mut self, length: u64) -> bool {
        self.received += length;
        self.received >= self.total
    }

    /// Checks what a peer says of units: where they go, or what is wrong.
    pub(crate) fn locate(&mut self, units: &UnitsReceived) -> Result<(Run, u64), &'static str> {
        let UnitsReceived { first, unit_bytes, carrying, unit_bytes_min: unit_min, .. } = *units;
        if self.unit_bytes == 0 {
            if unit_bytes < unit_min {
                return Err("a unit too small");
            }
            let count = unit_count(self.total, unit_bytes).ok_or("too many units")?;
            (self.unit_bytes, self.come) = (unit_bytes, Come::new(count));
        }
        if unit_bytes != self.unit_bytes {
            return Err("units of two sizes in one message");
        }
        let count = match carrying {
            Carrying::Units(count) => count,
            Carrying::Bytes(bytes) => {
                u32::try_from(bytes.div_ceil(u64::from(unit_bytes))).map_err(|_| "too much data")?
            }
        };
        let run = Run { first, count };
        let all = unit_count(self.total, unit_bytes).unwrap_or(0);
        if count == 0 || first.checked_add(count).is_none_or(|end| end > all) {
            return Err("data outside the message");
        }
        let (offset, length) = run.range(unit_bytes, self.total);
        match carrying {
            Carrying::Bytes(bytes) if bytes != length => Err("a fragment of the wrong length"),
            _ => Ok((run, offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use proptest::prelude::*;

    fn units(first: u32, unit_bytes: u32, carrying: Carrying) -> UnitsReceived {
        let receiver = RequestId::from_bits(0);
        UnitsReceived { receiver, first, unit_bytes, carrying, unit_bytes_min: 100 }
    }

    /// Alike parts for rails 0, 1, …
    fn divide(count: u32, rails: u8) -> (Vec<Part>, bool) {
        let bound = |rail: u8| count * u32::from(rail) / u32::from(rails);
        let rest = |rail| Run { first: bound(rail), count: bound(rail + 1) - bound(rail) };
        ((0..rails).map(|rail| Part { rail: Rail(rail), rest: rest(rail) }).collect(), false)
    }

    #[test]
    fn each_rail_begins_with_its_part_and_takes_ends_after() {
        let mut spread = Spread::new(12, 1, Keys::default(), |count| divide(count, 3)).unwrap();
        let mut take = |rail, count_max| {
            assert!(spread.has_next());
            let run = spread.next(Rail(rail), count_max).unwrap();
            spread.sent(run);
            (run.first, run.count)
        };
        assert_eq!([take(0, 1), take(1, 2), take(2, 1)], [(0, 1), (4, 2), (8, 1)]);
        assert_eq!(take(1, 5), (6, 2), "the end of its own part");
        assert_eq!(take(1, 2), (10, 2), "the end of the longest rest");
        assert_eq!([take(2, 9), take(2, 2), take(0, 9)], [(9, 1), (2, 2), (1, 1)]);
        assert!(!spread.has_next());
    }

    #[test]
    fn units_that_have_come_after_all_are_not_sent_again() {
        let mut spread = Spread::new(4, 1, Keys::default(), |count| divide(count, 1)).unwrap();
        let all = Run { first: 0, count: 4 };
        assert!(spread.has_next());
        spread.sent(all);
        assert!(spread.on_lost(all));
        assert!(!spread.come.add(Run { first: 0, count: 2 }));
        assert!(spread.has_next());
        let again = spread.next(Rail(0), 9).unwrap();
        assert_eq!((again.first, again.count, spread.unsent_bytes()), (2, 2, 2));
    }

    #[test]
    fn a_peer_that_lies_about_units_is_found_out() {
        let bad = |first, unit, bytes| {
            Gather::new(1000).locate(&units(first, unit, Carrying::Bytes(bytes))).is_err()
        };
        assert!(!bad(0, 300, 300) && !bad(3, 300, 100) && !bad(1, 300, 600));
        assert!(bad(0, 0, 0) && bad(0, 99, 99) && bad(0, 300, 0) && bad(0, 300, 299));
        assert!(bad(3, 300, 300) && bad(4, 300, 300) && bad(u32::MAX, 300, 300) && bad(0, 300, u64::MAX));
        let mut gather = Gather::new(1000);
        gather.locate(&units(0, 300, Carrying::Bytes(300))).unwrap();
        assert!(gather.locate(&units(0, 200, Carrying::Bytes(200))).is_err());
        assert!(gather.locate(&units(0, 300, Carrying::Units(5))).is_err());
        assert!(Gather::new(1 << 50).locate(&units(0, 100, Carrying::Bytes(100))).is_err());
    }

    proptest! {
        #[test]
        fn everything_comes_whatever_is_lost_or_doubled(
            total in 1..5_000u64, unit in 1..700u32, rails in 0..4u8,
            steps in proptest::collection::vec((0..4u32, 1..4u32, 0..5u8), 0..200),
        ) {
            let mut spread = Spread::new(total, unit, Keys::default(), |count| divide(count, rails)).unwrap();
            let mut gather = Gather::new(total);
            let (mut under_way, mut done) = (VecDeque::new(), false);
            let mut steps = steps.into_iter();
            let mut received = vec![0u32; total as usize];
            while !done {
                // When the random steps are over everything goes through.
                let (what, count, rail) = steps.next().unwrap_or((4, 2, 1));
                if spread.has_next() {
                    let run = spread.next(Rail(rail), count).expect("there is something to send");
                    spread.sent(run);
                    under_way.push_back(run);
                }
                let Some(run) = under_way.pop_front() else { continue };
                if what == 0 {
                    spread.on_lost(run);
                    continue;
                }
                let (offset, length) = run.range(unit, total);
                let packet = UnitsReceived { unit_bytes_min: 1, ..units(run.first, unit, Carrying::Bytes(length)) };
                let located = gather.locate(&packet);
                prop_assert_eq!(located, Ok((run, offset)));
                gather.come.add(run);
                received[offset as usize..(offset + length) as usize].iter_mut().for_each(|count| *count += 1);
                match what {
                    // The acknowledgement is lost: it counts as lost although it has come.
                    1 => { spread.on_lost(run); }
                    // Lost, said the sender; then the acknowledgement comes after all.
                    2 => { spread.on_lost(run); done = spread.come.add(run); }
                    _ => done = spread.come.add(run),
                }
            }
            prop_assert!(received.iter().all(|count| *count > 0));
            prop_assert_eq!(gather.come.left, 0);
            prop_assert!(!spread.has_next(), "something left to send");
            prop_assert_eq!(spread.unsent_bytes(), 0);
        }
    }
}
