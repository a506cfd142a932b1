//! Frames: how packets lie in the byte stream of a connection.
//!
//! ```text
//!  0  length of the body in bytes   u32
//!  4  kind                          u8       1 packet, 2 goodbye
//!  5  flags                         u8       bit 0: the body's sum is there
//!  6  zero                          u16
//!  8  CRC32C of the bytes above     u32
//! 12  CRC32C of the body            u32      (0 without the flag)
//! 16  body: the packet, header and payload as the protocols gave them
//! ```
//!
//! All little-endian. The head has a sum of its own, so that a length is believed only if it is what was sent: with
//! a damaged body the next frame can still be found and the packet is dropped; with a damaged head it cannot, and
//! the connection is given up.

use ayatori_core::device::HEADER_BYTES_MAX;

/// Length of a frame's head in bytes.
pub(super) const HEAD_BYTES: usize = 16;
/// Longest payload of a packet in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Longest body in bytes.
pub(super) const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX;

const FLAG_SUM: u8 = 1;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A packet.
    Packet,
    /// The process takes leave: nothing follows, and that it goes is no accident.
    Goodbye,
}

/// A frame's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) body_bytes: usize,
    /// CRC32C of the body, where it is sent.
    pub(super) sum: Option<u32>,
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
        let flags = if self.sum.is_some() { FLAG_SUM } else { 0 };
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[4] = kind;
        bytes[5] = flags;
        let own = crc32c::crc32c(&bytes[..8]);
        bytes[8..12].copy_from_slice(&own.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sum.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Reads a head.
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Damaged> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (kind, flags, body_bytes) = (bytes[4], bytes[5], word(0) as usize);
        let is_sound = word(8) == crc32c::crc32c(&bytes[..8]);
        if !is_sound
            || flags & !FLAG_SUM != 0
            || bytes[6] != 0
            || bytes[7] != 0
            || body_bytes > BODY_BYTES_MAX
        {
            return Err(Damaged);
        }
        let kind = match kind {
            1 => Kind::Packet,
            2 => Kind::Goodbye,
            _ => return Err(Damaged),
        };
        Ok(Self { kind, body_bytes, sum: (flags & FLAG_SUM != 0).then(|| word(12)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(is_packet: bool, body_bytes in 0..=BODY_BYTES_MAX, sum: Option<u32>) {
            let kind = if is_packet { Kind::Packet } else { Kind::Goodbye };
            let head = Head { kind, body_bytes, sum };
            prop_assert_eq!(Head::parse(&head.emit()), Ok(head));
        }

        #[test]
        fn any_flipped_bit_of_the_head_but_its_body_sum_is_found(body_bytes in 0..=BODY_BYTES_MAX, bit in 0usize..96) {
            let mut bytes = Head { kind: Kind::Packet, body_bytes, sum: Some(7) }.emit();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::parse(&bytes), Err(Damaged));
        }

        #[test]
        fn no_bytes_make_the_parser_panic_or_believe_a_long_body(bytes: [u8; HEAD_BYTES]) {
            if let Ok(head) = Head::parse(&bytes) {
                prop_assert!(head.body_bytes <= BODY_BYTES_MAX);
            }
        }
    }

    #[test]
    fn a_length_beyond_the_bound_is_damage_even_with_a_right_sum() {
        let head = Head { kind: Kind::Packet, body_bytes: BODY_BYTES_MAX + 1, sum: None };
        assert_eq!(Head::parse(&head.emit()), Err(Damaged));
    }
}
