//! What a slot's word says (`ring.rs`, rules 1 to 3).

use super::{LINE_BYTES, SLOT_BYTES};
use ayatori_core::device::HEADER_BYTES_MAX;

/// In a word of a slot that is skipped: header bytes that no packet has.
pub(super) const SKIPPED: usize = 0xff;
const _: () = assert!(SKIPPED > HEADER_BYTES_MAX);

#[inline(always)]
pub(super) fn is_odd(n: u32) -> bool {
    n & 1 != 0
}

#[inline]
pub(super) fn lines_for(bytes: usize) -> u64 {
    bytes.div_ceil(LINE_BYTES) as u64
}

/// Bytes in data lines of a packet that fits no pair: the payload, and also a header too long for a slot.
#[inline]
pub(super) fn data_bytes(header_bytes: usize, payload_bytes: usize) -> usize {
    if header_bytes <= SLOT_BYTES { payload_bytes } else { header_bytes + payload_bytes }
}

#[inline]
pub(super) fn word_of(sequence: u32, header_bytes: usize, payload_bytes: usize) -> u64 {
    ((sequence as u64) << 32) | ((header_bytes as u64) << 24) | payload_bytes as u64
}

#[inline(always)]
pub(super) fn lengths(word: u64) -> (usize, usize) {
    ((word >> 24) as usize & 0xff, word as usize & (IN_BLOCK - 1))
}

/// In a word: the payload comes in pieces.
pub(super) const IN_PIECES: usize = 1 << 23;
/// The same: the slot says where the run starts.
pub(super) const PLACED: usize = 1 << 22;
/// The same: the data are in a block, and the slot says in which.
pub(super) const IN_BLOCK: usize = 1 << 21;
