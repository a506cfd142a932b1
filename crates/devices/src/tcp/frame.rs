//! Frames: how packets lie in the byte stream of a connection.
//!
//! ```text
//!  0  length of the body in bytes         u32
//!  4  kind                                u8       1 packet, 2 goodbye
//!  5  flags                               u8       bit 0: the sums of header and payload are there
//!                                                  bit 1: the payload's sum is behind it
//!  6  length of the packet's header       u16
//!  8  sum of the bytes above              u32
//! 12  sum of the packet's header          u32      (0 without the flag)
//! 16  sum of the payload                  u32      (0 without the flag, or with bit 1)
//! 20  body: the packet's header, then its payload
//!     tail: sum of the payload            u32      (with bit 1 only)
//! ```
//!
//! All little-endian; sums are those of `sum.rs`. The head has a checksum of its own, so that the receiver
//! trusts a length only if it arrived undamaged. With a damaged body the next frame can still be found and
//! the packet is dropped; with a damaged head it cannot, and the connection is given up. The packet's header
//! has a checksum too, so that it can be trusted before the payload has arrived. The payload checksum of a
//! long packet follows in a *tail*, so that the sender computes it after the kernel has copied the payload,
//! which is then in the cache. A checksum computed before that reads the payload from memory once more, and
//! costs a fifth of the bandwidth over a veth pair; and who refuses a packet has it summed again (windows of
//! 1 and 4 MiB went at 1.4 and 1.1 GB/s so, and at 2.1 and 2.5 with tails).

use super::sum::sum;
use ayatori_core::device::{HEADER_BYTES_MAX, profiles};

/// Length of a frame's head in bytes.
pub(super) const HEAD_BYTES: usize = profiles::TCP_HEAD_BYTES;
/// Longest payload of an ordinary packet in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = profiles::TCP_PAYLOAD_BYTES_MAX;
/// Longest payload of a packet of a long message's data in bytes.
pub(super) const LONG_PAYLOAD_BYTES_MAX: usize = profiles::TCP_LONG_PAYLOAD_BYTES_MAX;
/// Longest body in bytes.
pub(super) const BODY_BYTES_MAX: usize = LONG_PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;

/// Length of a frame's tail in bytes, where there is one.
pub(super) const TAIL_BYTES: usize = 4;

const FLAG_SUM: u8 = 1;
const FLAG_TAIL: u8 = 2;
const BOTH_FLAGS: u8 = FLAG_SUM | FLAG_TAIL;

/// Kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A packet.
    Packet,
    /// The process takes leave: nothing follows, and that it goes is no accident.
    Goodbye,
}

/// Sums of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sums {
    pub(super) header: u32,
    /// `None`: it is in the tail.
    pub(super) payload: Option<u32>,
}

/// A frame's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// Header and payload.
    pub(super) body_bytes: usize,
    pub(super) header_bytes: usize,
    /// Where they are sent.
    pub(super) sums: Option<Sums>,
}

/// The bytes are not a frame's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damaged;

impl Head {
    /// The head in bytes. The body is at most [`BODY_BYTES_MAX`] long.
    #[inline]
    pub(super) fn emit(&self) -> [u8; HEAD_BYTES] {
        let kind: u8 = match self.kind {
            Kind::Packet => 1,
            Kind::Goodbye => 2,
        };
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[4] = kind;
        bytes[5] = match self.sums {
            None => 0,
            Some(Sums { payload: Some(_), .. }) => FLAG_SUM,
            Some(Sums { payload: None, .. }) => BOTH_FLAGS,
        };
        bytes[6..8].copy_from_slice(&(self.header_bytes as u16).to_le_bytes());
        let own = sum(&bytes[..8]);
        bytes[8..12].copy_from_slice(&own.to_le_bytes());
        if let Some(Sums { header, payload }) = self.sums {
            bytes[12..16].copy_from_slice(&header.to_le_bytes());
            bytes[16..].copy_from_slice(&payload.unwrap_or(0).to_le_bytes());
        }
        bytes
    }

    /// Reads a head.
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Damaged> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (kind, flags, body_bytes) = (bytes[4], bytes[5], word(0) as usize);
        let header_bytes = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
        let is_sound = word(8) == sum(&bytes[..8]) || cfg!(fuzzing);
        if !is_sound
            || !matches!(flags, 0 | FLAG_SUM | BOTH_FLAGS)
            || body_bytes > BODY_BYTES_MAX
            || header_bytes > body_bytes.min(HEADER_BYTES_MAX)
        {
            return Err(Damaged);
        }
        let kind = match kind {
            1 => Kind::Packet,
            2 => Kind::Goodbye,
            _ => return Err(Damaged),
        };
        let payload = (flags & FLAG_TAIL == 0).then(|| word(16));
        let sums = (flags & FLAG_SUM != 0).then(|| Sums { header: word(12), payload });
        Ok(Self { kind, body_bytes, header_bytes, sums })
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.body_bytes - self.header_bytes
    }

    /// Length of what follows the body.
    #[inline]
    pub(super) fn tail_bytes(&self) -> usize {
        if matches!(self.sums, Some(Sums { payload: None, .. })) { TAIL_BYTES } else { 0 }
    }

    /// Whether a payload with this sum is what was sent; `tail`: what followed it.
    #[inline]
    pub(super) fn fits_sum(&self, sum: impl FnOnce() -> u32, tail: &[u8]) -> bool {
        match self.sums {
            None => true,
            Some(Sums { payload: Some(said), .. }) => said == sum(),
            Some(Sums { payload: None, .. }) => tail == sum().to_le_bytes(),
        }
    }

    /// Whether this is the packet's header.
    #[inline]
    pub(super) fn fits_header(&self, header: &[u8]) -> bool {
        self.sums.is_none_or(|sums| sums.header == sum(header))
    }

    /// Whether these are header and payload, and the tail.
    #[inline]
    pub(super) fn fits_body(&self, body: &[u8]) -> bool {
        let (header, rest) = body.split_at(self.header_bytes);
        let (payload, tail) = rest.split_at(self.payload_bytes());
        self.fits_header(header) && self.fits_sum(|| sum(payload), tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(is_packet: bool, header_bytes in 0..=HEADER_BYTES_MAX, payload_bytes in 0..=LONG_PAYLOAD_BYTES_MAX, sums: Option<(u32, Option<u32>)>) {
            let kind = if is_packet { Kind::Packet } else { Kind::Goodbye };
            let sums = sums.map(|(header, payload)| Sums { header, payload });
            let head = Head { kind, body_bytes: header_bytes + payload_bytes, header_bytes, sums };
            prop_assert_eq!(Head::parse(&head.emit()), Ok(head));
        }

        #[test]
        fn any_flipped_bit_of_the_head_but_of_the_others_sums_is_found(body_bytes in 40..=BODY_BYTES_MAX, bit in 0usize..96) {
            let sums = Some(Sums { header: 7, payload: Some(8) });
            let mut bytes = Head { kind: Kind::Packet, body_bytes, header_bytes: 40, sums }.emit();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::parse(&bytes), Err(Damaged));
        }

        #[test]
        fn no_bytes_make_the_parser_panic_or_believe_a_long_body(bytes: [u8; HEAD_BYTES]) {
            if let Ok(head) = Head::parse(&bytes) {
                prop_assert!(head.body_bytes <= BODY_BYTES_MAX && head.header_bytes <= head.body_bytes);
            }
        }
    }

    #[test]
    fn a_packet_fills_whole_segments_and_is_never_too_long() {
        assert_eq!(profiles::tcp_packet_bytes(Some(1500)), 45 * 1448 - HEAD_BYTES);
        assert_eq!(profiles::tcp_packet_bytes(Some(9000)), 7 * 8948 - HEAD_BYTES);
        let usual_bytes_max = PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;
        for mtu in [0, 1, 60, 576, 20_000, 65_535, 65_536, u32::MAX] {
            assert!((30_000..=usual_bytes_max).contains(&profiles::tcp_packet_bytes(Some(mtu))), "{mtu}");
        }
    }

    #[test]
    fn lengths_beyond_the_bounds_are_damage_even_with_a_right_sum() {
        let head =
            |body_bytes, header_bytes| Head { kind: Kind::Packet, body_bytes, header_bytes, sums: None };
        assert!(Head::parse(&head(BODY_BYTES_MAX, HEADER_BYTES_MAX).emit()).is_ok());
        for bad in [head(BODY_BYTES_MAX + 1, 0), head(BODY_BYTES_MAX, HEADER_BYTES_MAX + 1), head(9, 10)] {
            assert_eq!(Head::parse(&bad.emit()), Err(Damaged));
        }
    }

    #[test]
    fn the_benchmark_sends_as_long_packets_are_sent() {
        let text = include_str!("../../../../bench/sockets.c");
        let expected = format!("#define SEND_MAX ((size_t){} << 10)", LONG_PAYLOAD_BYTES_MAX >> 10);
        assert!(text.contains(&expected), "{expected}");
    }
}
