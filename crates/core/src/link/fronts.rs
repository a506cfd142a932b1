//! Packets whose payload is taken to its place while it comes: at most one a rail.
//!
//! A device finds damage when all of a packet has come, and by then has written it. Nothing else may rely on
//! what stands there: what comes a second time, by another rail, waits until it is whole.

use super::UnitsReceived;
use super::intake::Carrying;
use crate::ids::{Rail, RequestId};
use alloc::vec::Vec;
use core::ops::Range;

/// The packets of which a part has been taken: the rail, the receiver, and which bytes of its message.
#[derive(Default)]
pub(super) struct Fronts(Vec<(Rail, RequestId, Range<u64>)>);

/// Whose memory the payload of a packet in turn goes to. A receive that is cancelled in between is another
/// one than that which its user begins with the same memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taker {
    /// A request's.
    Request(RequestId),
    /// That of the receive past the request table. If it ends without its message, the communicator has been
    /// revoked or the peer lost, so no other one matches the message.
    Direct,
}

/// A packet in turn of which a part has been taken.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) rail: Rail,
    pub(super) sequence: u32,
    pub(super) taker: Taker,
}

/// Which bytes of a message units are.
fn bytes_of(units: &UnitsReceived) -> Range<u64> {
    let begin = u64::from(units.first) * u64::from(units.unit_bytes);
    let length = match units.carrying {
        Carrying::Bytes(bytes) => bytes,
        Carrying::Units(count) => u64::from(count) * u64::from(units.unit_bytes),
    };
    begin..begin.saturating_add(length)
}

impl Fronts {
    /// Whether units may be taken to their place by a rail: no other is taking them there.
    pub(super) fn allow(&self, rail: Rail, units: &UnitsReceived) -> bool {
        let bytes = bytes_of(units);
        self.0.iter().all(|(other, receiver, taken)| {
            let is_apart = taken.end <= bytes.start || bytes.end <= taken.start;
            *other == rail || *receiver != units.receiver || is_apart
        })
    }

    /// A part has been taken.
    pub(super) fn begin(&mut self, rail: Rail, units: &UnitsReceived) {
        self.end(rail);
        self.0.push((rail, units.receiver, bytes_of(units)));
    }

    /// The packet is whole, lost, or no longer wanted.
    pub(super) fn end(&mut self, rail: Rail) {
        self.0.retain(|(other, ..)| *other != rail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(receiver: u32, first: u32, bytes: u64) -> UnitsReceived {
        let receiver = RequestId { index: receiver, generation: 0 };
        let carrying = Carrying::Bytes(bytes);
        UnitsReceived { receiver, first, unit_bytes: 100, carrying, unit_bytes_min: 1 }
    }

    #[test]
    fn units_are_taken_by_one_rail_at_a_time() {
        let (mut fronts, [a, b]) = (Fronts::default(), [Rail(0), Rail(1)]);
        fronts.begin(a, &units(7, 2, 150));
        assert!(fronts.allow(a, &units(7, 2, 150)), "more of it");
        assert!(!fronts.allow(b, &units(7, 2, 100)) && !fronts.allow(b, &units(7, 3, 100)));
        assert!(!fronts.allow(b, &units(7, 0, 400)));
        assert!(fronts.allow(b, &units(7, 0, 200)) && fronts.allow(b, &units(7, 4, 100)), "beside it");
        assert!(fronts.allow(b, &units(8, 2, 100)), "of another message");
        fronts.begin(a, &units(7, 9, 100));
        assert!(fronts.allow(b, &units(7, 2, 100)), "the rail has gone on");
        fronts.end(a);
        assert!(fronts.allow(b, &units(7, 9, 100)));
        // A count of units stands for their bytes.
        fronts.begin(a, &UnitsReceived { carrying: Carrying::Units(3), ..units(7, 2, 0) });
        assert!(!fronts.allow(b, &units(7, 4, 100)));
        assert!(fronts.allow(b, &units(7, 5, 100)) && fronts.allow(b, &units(7, 1, 100)));
    }
}
