//! The packets of one rail that have arrived, and the acknowledgement owed for them.

use crate::time::{Duration, Instant};
use crate::wire::trunk::{Ack, Seen};

/// Bytes that are acknowledged without waiting for more, if the last acknowledgement was [`ACK_INTERVAL`]
/// ago: at most two packets of 1500-byte frames.
const ACK_BYTES: u64 = 96 << 10;
/// The same when a message has come, whose sender does not wait: more than the longest eager one over TCP, so
/// that its answer takes the acknowledgement along.
const ACK_MESSAGE_BYTES: u64 = 288 << 10;
/// Bytes that are acknowledged in any case: on a rail of GB/s an acknowledgement for every 64 KiB would cost
/// a sixth of the receiver's time, and each costs the sender some, too.
const ACK_BYTES_MOST: u64 = 1 << 20;
const ACK_INTERVAL: Duration = Duration::from_us(100);
/// Packets that are acknowledged without waiting for more: half of what an acknowledgement can name when
/// there are gaps.
const ACK_PACKETS: u32 = 16;
/// How long an acknowledgement waits for a packet that takes it along.
pub(super) const ACK_DELAY: Duration = Duration::from_ms(2);

/// The receiving side of a rail.
#[derive(Default, Debug)]
pub(super) struct Arrived {
    largest: u32,
    /// Bit i: `largest - 1 - i` has come.
    bits: u32,
    /// How many up to `largest` have come without a gap.
    run: u32,
    largest_at: Instant,
    owed_packets: u32,
    owed_bytes: u64,
    /// When the acknowledgement is due; `None`: none is owed.
    pub(super) due: Option<Instant>,
    acked_at: Instant,
}

impl Arrived {
    pub(super) fn new() -> Self {
        // Numbers begin at 1; those below have never been, so they may count as seen.
        Self { bits: u32::MAX, run: 1, ..Self::default() }
    }

    /// A numbered packet has come. `is_message`: of those in order, and not of a long message's data.
    pub(super) fn note(
        &mut self,
        number: u32,
        bytes: u64,
        (ack_now, is_message): (bool, bool),
        now: Instant,
    ) {
        let above = number.wrapping_sub(self.largest);
        let mut gap = false;
        if above == 1 {
            self.bits = self.bits << 1 | 1;
            self.run = self.run.saturating_add(1);
            (self.largest, self.largest_at) = (number, now);
        } else if above != 0 && above < 1 << 31 {
            gap = true;
            self.bits =
                if above > 32 { 0 } else { (((u64::from(self.bits) << 1) | 1) << (above - 1)) as u32 };
            self.run = 1;
            (self.largest, self.largest_at) = (number, now);
        } else if above != 0 {
            let below = self.largest.wrapping_sub(number);
            if below <= 32 {
                self.bits |= 1 << (below - 1);
                if self.run <= 32 {
                    self.run = 1 + self.bits.trailing_ones();
                }
            }
        }
        self.owed_packets += 1;
        self.owed_bytes += bytes;
        let enough = if is_message { ACK_MESSAGE_BYTES } else { ACK_BYTES };
        let much = self.owed_bytes >= ACK_BYTES_MOST
            || self.owed_bytes >= enough && now.since(self.acked_at) >= ACK_INTERVAL;
        let at_once = ack_now || gap || much || self.owed_packets >= ACK_PACKETS;
        let due = if at_once { now } else { now + ACK_DELAY };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// A sender waits for the acknowledgement that is due.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.due.map(|due| due.min(now));
    }

    /// Whether an acknowledgement has to go now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The acknowledgement to put on a packet.
    pub(super) fn ack(&self, now: Instant) -> Ack {
        // With gaps in sight they are named; else the whole run, so that a lost acknowledgement does no harm.
        let seen = if self.run > 32 { Seen::Run(self.run) } else { Seen::Bits(self.bits) };
        Ack { largest: self.largest, seen, delay: now.since(self.largest_at) }
    }

    /// A packet with the acknowledgement has gone.
    pub(super) fn acked(&mut self, now: Instant) {
        self.acked_at = now;
        self.owed_packets = 0;
        self.owed_bytes = 0;
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Instant = Instant(1_000_000_000);
    const DATA: (bool, bool) = (false, false);

    #[test]
    fn what_comes_in_order_is_one_run() {
        let ack = noted(1..=100).ack(NOW);
        assert_eq!((ack.largest, ack.seen), (100, Seen::Run(101)));
        assert!((1..=100).all(|number| ack.covers(number)) && !ack.covers(101));
    }

    #[test]
    fn a_gap_is_told_at_once_and_small_things_wait() {
        let mut arrived = noted([1]);
        assert_eq!(arrived.due, Some(NOW + ACK_DELAY));
        arrived.acked(NOW);
        assert_eq!(arrived.due, None);
        arrived.note(3, 10, DATA, NOW);
        assert_eq!(arrived.due, Some(NOW));
        let ack = arrived.ack(NOW);
        assert!(ack.covers(3) && !ack.covers(2) && ack.covers(1));
        // So are much data, many packets and requests.
        for (packets, bytes, ack_now) in [(1, ACK_BYTES, false), (ACK_PACKETS, 1, false), (1, 1, true)] {
            let mut arrived = Arrived::new();
            (1..=packets).for_each(|number| arrived.note(number, bytes, (ack_now, false), NOW));
            assert_eq!(arrived.due, Some(NOW));
        }
    }

    #[test]
    fn on_a_quick_rail_acknowledgements_are_fewer() {
        let mut arrived = Arrived::new();
        arrived.acked(NOW);
        let at_once = |arrived: &mut Arrived, number, bytes, now| {
            arrived.note(number, bytes, DATA, now);
            arrived.is_due(now)
        };
        const PACKET_BYTES: u64 = 64 << 10;
        assert!((1..15).all(|number| !at_once(&mut arrived, number, PACKET_BYTES, NOW)));
        assert!(at_once(&mut arrived, 15, ACK_BYTES_MOST - 14 * PACKET_BYTES, NOW), "1 MiB");
        arrived.acked(NOW);
        let later = NOW + ACK_INTERVAL;
        assert!(!at_once(&mut arrived, 16, PACKET_BYTES, later), "an answer takes it along");
        assert!(at_once(&mut arrived, 17, PACKET_BYTES, later), "two, and a while ago");
    }

    #[test]
    fn an_answer_takes_along_what_is_owed_for_the_longest_message() {
        use crate::device::profiles::TCP_EAGER_BYTES_MAX;
        assert!(TCP_EAGER_BYTES_MAX + crate::device::HEADER_BYTES_MAX < ACK_MESSAGE_BYTES as usize);
        assert!(crate::link::cells_of(TCP_EAGER_BYTES_MAX) < crate::link::TRUNK_CREDIT_CELLS / 4);
    }

    #[test]
    fn messages_are_acknowledged_later_than_data() {
        const PACKET_BYTES: u64 = 256 << 10;
        let mut arrived = Arrived::new();
        arrived.note(1, PACKET_BYTES, (false, true), NOW);
        assert!(!arrived.is_due(NOW), "an answer takes it along");
        arrived.note(2, 32 << 10, (false, true), NOW);
        assert!(arrived.is_due(NOW));
        let mut arrived = Arrived::new();
        arrived.note(1, PACKET_BYTES, (false, true), NOW);
        arrived.note(2, 1, DATA, NOW);
        assert!(arrived.is_due(NOW), "the sender of data waits");
        let mut arrived = Arrived::new();
        arrived.note(1, 1, (true, true), NOW);
        assert!(arrived.is_due(NOW), "so does one that says so");
    }

    fn noted(numbers: impl IntoIterator<Item = u32>) -> Arrived {
        let mut arrived = Arrived::new();
        numbers.into_iter().for_each(|number| arrived.note(number, 1, DATA, NOW));
        arrived
    }

    #[test]
    fn a_packet_that_comes_twice_changes_nothing() {
        for number in [1, 4, 5] {
            let before = noted([1, 2, 4, 5]);
            let after = noted([1, 2, 4, 5, number]);
            assert_eq!(after.ack(NOW), before.ack(NOW), "{number}");
        }
    }

    #[test]
    fn a_jump_keeps_what_an_acknowledgement_can_name() {
        for (jump, is_named) in [(32, true), (33, false), (34, false), (64, false), (1_000, false)] {
            let ack = noted([1, 1 + jump]).ack(NOW);
            assert_eq!((ack.covers(1), ack.covers(1 + jump)), (is_named, true), "{jump}");
            assert!((2..=jump).all(|number| !ack.covers(number)), "{jump}");
        }
    }

    /// So that a lost acknowledgement does no harm.
    #[test]
    fn a_run_grows_over_gaps_that_are_filled() {
        // What comes after a gap is a run of its own.
        assert_eq!(noted([1].into_iter().chain(3..=42)).ack(NOW).seen, Seen::Run(40));
        let ack = noted([1, 3, 2].into_iter().chain(4..=80)).ack(NOW);
        assert!((1..=80).all(|number| ack.covers(number)), "{ack:?}");
        // Filled where bits just tell of it.
        let ack = noted([1].into_iter().chain(3..=34).chain([2]).chain(35..=50)).ack(NOW);
        assert!((2..=50).all(|number| ack.covers(number)), "{ack:?}");
    }

    #[test]
    fn what_an_acknowledgement_told_is_owed_no_more() {
        let mut arrived = noted([1, 2]);
        arrived.note(3, ACK_BYTES - 10, DATA, NOW);
        arrived.acked(Instant(NOW.0 - ACK_INTERVAL.0));
        for number in 4..3 + ACK_PACKETS {
            arrived.note(number, 1, DATA, NOW);
            assert_eq!(arrived.due, Some(NOW + ACK_DELAY), "{number}");
        }
        arrived.note(3 + ACK_PACKETS, 1, DATA, NOW);
        assert_eq!(arrived.due, Some(NOW), "as many packets as before the first");
        arrived.acked(Instant(NOW.0 - ACK_INTERVAL.0));
        arrived.note(4 + ACK_PACKETS, ACK_BYTES - 1, DATA, NOW);
        assert_eq!(arrived.due, Some(NOW + ACK_DELAY));
        arrived.note(5 + ACK_PACKETS, 1, DATA, NOW);
        assert_eq!(arrived.due, Some(NOW), "as many bytes");
    }

    proptest! {
        #[test]
        fn an_acknowledgement_never_names_what_has_not_come(
            start in prop_oneof![Just(0u32), Just(u32::MAX - 20)],
            order in Just((1..60u32).collect::<std::vec::Vec<_>>()).prop_shuffle(),
            take in 1..59usize,
        ) {
            let mut arrived = Arrived::new();
            (arrived.largest, arrived.largest_at) = (start, NOW);
            for &step in &order[..take] {
                arrived.note(start.wrapping_add(step), 1, DATA, NOW);
            }
            let ack = arrived.ack(NOW);
            let come = |step: u32| order[..take].contains(&step);
            let largest = *order[..take].iter().max().unwrap();
            prop_assert_eq!(ack.largest, start.wrapping_add(largest));
            for step in 1..60 {
                let named = ack.covers(start.wrapping_add(step));
                prop_assert!(!named || come(step), "named {}", step);
                // Within the 32 below the largest nothing that had come in time is left out.
                prop_assert!(named || !come(step) || step + 32 < largest, "not named {}", step);
            }
        }
    }
}
