//! What a slot's word says, and where a run of lines starts (`ring.rs`, rules 1 to 3).

use super::{LINE_BYTES, SLOT_BYTES};
use ayatori_core::device::HEADER_BYTES_MAX;

/// In a word of a slot that is skipped: header bytes that no packet has.
pub(super) const SKIPPED: usize = 0xff;
const _: () = assert!(SKIPPED > HEADER_BYTES_MAX);

/// Runs up to the first length (2 KiB) stay in the near lines' first 64 KiB, which stay in nearer caches
/// because they are reused sooner: 1 KiB takes 0.46 µs with them and 0.65 in 128 KiB; 4 KiB 1.03 and 0.97.
const NEAR_RUN_LINES_MAX: u64 = 32;
const NEAR_LINES: u64 = 1024;

/// The lines of an area: a power of two, or none.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) count: u64,
    /// Where runs of up to [`NEAR_RUN_LINES_MAX`] end.
    short_end: u64,
}

impl Area {
    pub(super) fn new(count: usize) -> Self {
        let count = count as u64;
        Self { count, short_end: NEAR_LINES.clamp(count / 2, count) }
    }

    /// Where a run of `need` lines starts in turn, counted in lines since the beginning, if the next free
    /// line is `next` (rule 3).
    #[inline]
    pub(super) fn start_in_turn(self, next: u64, need: u64) -> u64 {
        let end = if need <= NEAR_RUN_LINES_MAX { self.short_end } else { self.count };
        if self.ends_before(next, need, end) { next } else { self.round_from(next) }
    }

    /// Whether a run that starts there ends before the `end`-th line of the area.
    #[inline]
    pub(super) fn ends_before(self, start: u64, need: u64, end: u64) -> bool {
        self.index_of(start) + need <= end
    }

    /// The line of the area that is the `n`-th since the beginning.
    #[inline]
    pub(super) fn index_of(self, n: u64) -> u64 {
        n & (self.count - 1)
    }

    /// The first line of the first round that begins at `next` or behind it.
    #[inline]
    pub(super) fn round_from(self, next: u64) -> u64 {
        (next + self.count - 1) & !(self.count - 1)
    }
}

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
    ((word >> 24) as usize & 0xff, word as usize & (PLACED - 1))
}

/// In a word: the payload comes in pieces.
pub(super) const IN_PIECES: usize = 1 << 23;
/// The same: the slot says where the run starts.
pub(super) const PLACED: usize = 1 << 22;
