//! Packets of links in trunk mode: what goes before the packets of `wire`, and fragments.
//!
//! ```text
//! every packet   kind u8 | flags u8 | delay u16 | number u32 | largest u32 | seen u32              16 bytes
//! Stream         a packet of `wire` with its own prefix, whose sequence orders it                   16 + its
//! Fragment       receiver's request u64 | first unit u32 | unit u32          payload: whole units   32
//! Placed         receiver's request u64 | first unit u32 | unit u32 | units u32                     36
//! Ack, Probe     nothing more                                                                       16
//! Bye            nothing more                                                                       16
//! ```
//!
//! `number` counts the sender's packets on this rail and is never used again: a lost packet is sent again
//! under a new number, maybe on another rail. Every packet acknowledges those received the other way on the
//! *same* rail: `largest` is the highest number seen, `delay` how long ago that was (in 8 µs), `seen` which
//! others were (a bit each, the lowest for `largest` − 1), or with flag `RUN`: how many up to `largest` have
//! come without a gap. An Ack and a Bye have no number of their own; a Bye says that its sender has given the
//! link up. A *unit* is a fragment's size: a message's data is counted in units, whose size the sender
//! chooses.

use super::{Malformed, Reader};
use crate::device::HEADER_BYTES_MAX;
use crate::ids::RequestId;
use crate::time::Duration;

/// Length of what every packet begins with, in bytes. With it the longest header of `wire` is just
/// [`HEADER_BYTES_MAX`]: 16 + 112 = 128.
pub const TRUNK_PREFIX_BYTES: usize = 16;
/// Length of the header of a Fragment in bytes.
pub const FRAGMENT_HEADER_BYTES: usize = 32;

const _: () = assert!(TRUNK_PREFIX_BYTES + super::LONGEST_HEADER_BYTES <= HEADER_BYTES_MAX);

/// Flag: acknowledge at once.
const FLAG_ACK_NOW: u8 = 1;
/// Flag: `seen` is a count.
const FLAG_RUN: u8 = 2;
/// Unit of `delay`: 8 µs in picoseconds, so that 16 bits hold half a second.
const DELAY_UNIT_PS: u64 = 8_000_000;

/// Which numbers below the largest have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Number of packets up to and including the largest, without a gap.
    Run(u32),
    /// Bit i: `largest - 1 - i`.
    Bits(u32),
}

/// An acknowledgement of the packets of one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The highest number that has come.
    pub largest: u32,
    /// Which others.
    pub seen: Seen,
    /// How long `largest` waited for this acknowledgement; at most about half a second.
    pub delay: Duration,
}

impl Ack {
    /// Whether it says that `number` has come.
    pub fn covers(&self, number: u32) -> bool {
        let below = self.largest.wrapping_sub(number);
        match self.seen {
            _ if below == 0 => true,
            Seen::Run(count) => below < count,
            Seen::Bits(bits) => below <= 32 && bits >> (below - 1) & 1 == 1,
        }
    }
}

/// Content after the prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A packet of `wire`.
    Stream,
    /// Units of a message's data, in the payload.
    Fragment {
        /// The receiver's request.
        receiver: RequestId,
        /// Index of the first unit.
        first: u32,
        /// Size of a unit in bytes.
        unit_bytes: u32,
    },
    /// Units of a message's data have been put to their place by this rail.
    Placed {
        /// The receiver's request.
        receiver: RequestId,
        /// Index of the first unit.
        first: u32,
        /// Size of a unit in bytes.
        unit_bytes: u32,
        /// How many.
        count: u32,
    },
    /// Only acknowledges.
    Ack,
    /// Asks for an acknowledgement.
    Probe,
    /// The sender has given this link up, and takes nothing by it any more.
    Bye,
}

/// The header of a trunk's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrunkHeader {
    /// Its number on its rail.
    pub number: u32,
    /// Whether the receiver shall acknowledge at once.
    pub ack_now: bool,
    /// Acknowledges the other way.
    pub ack: Ack,
    /// Content after the header.
    pub body: Body,
}

mod kind {
    pub(super) const STREAM: u8 = 0x41;
    pub(super) const FRAGMENT: u8 = 0x42;
    pub(super) const PLACED: u8 = 0x43;
    pub(super) const ACK: u8 = 0x44;
    pub(super) const PROBE: u8 = 0x45;
    pub(super) const BYE: u8 = 0x46;
}

/// A header in bytes, with room for a packet of `wire` behind it.
#[derive(Clone, Copy)]
pub struct TrunkHeaderBytes {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl TrunkHeaderBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds bytes behind; there must be room.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl TrunkHeader {
    /// As it goes over the wire.
    pub fn emit(&self) -> TrunkHeaderBytes {
        let kind = match self.body {
            Body::Stream => kind::STREAM,
            Body::Fragment { .. } => kind::FRAGMENT,
            Body::Placed { .. } => kind::PLACED,
            Body::Ack => kind::ACK,
            Body::Probe => kind::PROBE,
            Body::Bye => kind::BYE,
        };
        let (run, seen) = match self.ack.seen {
            Seen::Run(count) => (FLAG_RUN, count),
            Seen::Bits(bits) => (0, bits),
        };
        let flags = run | if self.ack_now { FLAG_ACK_NOW } else { 0 };
        let delay = (self.ack.delay.0 / DELAY_UNIT_PS).min(u64::from(u16::MAX)) as u16;
        let mut out = TrunkHeaderBytes { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        out.put(&[kind, flags]);
        out.put(&delay.to_le_bytes());
        out.put(&self.number.to_le_bytes());
        out.put(&self.ack.largest.to_le_bytes());
        out.put(&seen.to_le_bytes());
        match self.body {
            Body::Fragment { receiver, first, unit_bytes } => {
                out.put(&receiver.to_bits().to_le_bytes());
                out.put(&first.to_le_bytes());
                out.put(&unit_bytes.to_le_bytes());
            }
            Body::Placed { receiver, first, unit_bytes, count } => {
                out.put(&receiver.to_bits().to_le_bytes());
                out.put(&first.to_le_bytes());
                out.put(&unit_bytes.to_le_bytes());
                out.put(&count.to_le_bytes());
            }
            Body::Stream | Body::Ack | Body::Probe | Body::Bye => {}
        }
        out
    }
}

/// Reads a header off the front of `bytes`, and how many bytes it took.
pub fn parse(bytes: &[u8]) -> Result<(TrunkHeader, usize), Malformed> {
    let mut reader = Reader(bytes);
    let [kind, flags] = reader.take()?;
    let delay = u16::from_le_bytes(reader.take()?);
    let mut word = || Ok(u32::from_le_bytes(reader.take()?));
    let (number, largest, seen) = (word()?, word()?, word()?);
    if flags & !(FLAG_ACK_NOW | FLAG_RUN) != 0 {
        return Err(Malformed("unknown flags"));
    }
    let body = match kind {
        kind::STREAM => Body::Stream,
        kind::FRAGMENT | kind::PLACED => {
            let receiver = reader.request()?;
            let first = u32::from_le_bytes(reader.take()?);
            let unit_bytes = u32::from_le_bytes(reader.take()?);
            if kind == kind::FRAGMENT {
                Body::Fragment { receiver, first, unit_bytes }
            } else {
                Body::Placed { receiver, first, unit_bytes, count: u32::from_le_bytes(reader.take()?) }
            }
        }
        kind::ACK => Body::Ack,
        kind::PROBE => Body::Probe,
        kind::BYE => Body::Bye,
        _ => return Err(Malformed("unknown kind of trunk packet")),
    };
    let seen = if flags & FLAG_RUN != 0 { Seen::Run(seen) } else { Seen::Bits(seen) };
    let ack = Ack { largest, seen, delay: Duration(u64::from(delay) * DELAY_UNIT_PS) };
    let header = TrunkHeader { number, ack_now: flags & FLAG_ACK_NOW != 0, ack, body };
    Ok((header, bytes.len() - reader.0.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body() -> impl Strategy<Value = Body> {
        let request = || any::<u64>().prop_map(RequestId::from_bits);
        prop_oneof![
            Just(Body::Stream),
            Just(Body::Ack),
            Just(Body::Probe),
            Just(Body::Bye),
            (request(), any::<u32>(), any::<u32>())
                .prop_map(|(receiver, first, unit_bytes)| Body::Fragment { receiver, first, unit_bytes }),
            (request(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
                |(receiver, first, unit_bytes, count)| Body::Placed { receiver, first, unit_bytes, count }
            ),
        ]
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(body in body(), number: u32, largest: u32, seen: u32, run: bool, now: bool, delay: u16) {
            let seen = if run { Seen::Run(seen) } else { Seen::Bits(seen) };
            let ack = Ack { largest, seen, delay: Duration(u64::from(delay) * DELAY_UNIT_PS) };
            let header = TrunkHeader { number, ack_now: now, ack, body };
            let bytes = header.emit();
            let len = bytes.as_slice().len();
            prop_assert_eq!(parse(bytes.as_slice()), Ok((header, len)));
            for cut in 0..len {
                prop_assert!(parse(&bytes.as_slice()[..cut]).is_err());
            }
        }

        #[test]
        fn what_is_read_from_damaged_bytes_is_what_they_say(body in body(), bit: prop::sample::Index) {
            let ack = Ack { largest: 1, seen: Seen::Bits(7), delay: Duration(0) };
            let header = TrunkHeader { number: 2, ack_now: true, ack, body };
            let mut bytes = header.emit().as_slice().to_vec();
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes.resize(bytes.len() + 40, 0);
            if let Ok((header, len)) = parse(&bytes) {
                let emitted = header.emit();
                prop_assert_eq!(emitted.as_slice(), &bytes[..len]);
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_run_names_as_many_packets_as_it_says() {
        let ack = Ack { largest: 42, seen: Seen::Run(40), delay: Duration::ZERO };
        assert_eq!([2, 3, 42, 43].map(|number| ack.covers(number)), [false, true, true, false]);
    }
}
