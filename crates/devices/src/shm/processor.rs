//! What processors differ in when two cores hand lines to and fro. See `ring.rs`.

use super::ring::{AREAS_COUNT, BULK, NEAR};
use ayatori_core::buffer;
use ayatori_core::coll::shared_memory::Occupancy;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The *first lines* (8 KiB), which short runs take again and again where that is quicker: those of 512 B to
/// 4 KiB that are in near lines, which on AMD's processors end at 2 KiB where there are bulk lines.
pub(super) const FIRST_COUNT: u64 = if cfg!(loom) { 4 } else { 128 };
pub(super) const SHORT_RUN: RangeInclusive<u64> = if cfg!(loom) { 1..=2 } else { 8..=64 };

/// Shortest payload that is written in pieces; the next constants are the pieces in near and in bulk lines.
/// Measured (µs one way, whole / pieces of 1, 4 and 8 KiB): 16 KiB 3.9 / 5.3, 2.7, 2.7; 8 KiB 1.64 / -,
/// 1.69, 1.67: each piece moves the count that both sides read to and fro. In bulk lines 64, 128, 256 and
/// 512 KiB take 6.6, 9.7, 18.0, 34.3 µs in pieces of 16 KiB and 6.0, 9.1, 16.5, 31.1 in pieces of 32: both
/// sides copy these page by page side by side ([`Manner`](super::sys::Manner)).
const IN_PIECES_BYTES_MIN: usize = if cfg!(loom) { 110 } else { 10 << 10 };
const PIECE_LINES: [(usize, usize); AREAS_COUNT] =
    if cfg!(loom) { [(1, 1), (2, 2)] } else { [(64, 64), (512, 512)] };

/// Lines of a piece, where that is an eighth of the packet, at most (16 KiB; with pieces of 64 KiB messages
/// of 512 KiB take a twentieth longer between two cores of a Zen 5).
const EIGHTH_LINES_MAX: usize = 256;

const BLOCK_LINES_MIN: u64 = if cfg!(loom) { 1 } else { 9 }; // above 512 B

/// What processors differ in. Measured against rings of which runs of up to 2 KiB take the first 64 KiB in
/// turn, those of up to 32 KiB 128 KiB, and longer ones 512 KiB (medians of interleaved runs of two ranks):
///
/// - An AMD EPYC (Zen 4). Lines that another core has read are written over slowly: between cores of one
///   cache at 14 GB/s while they are in the first caches and at 9 after that, between others at 2. So runs up
///   to 2 KiB go back to the first lines: 1 KiB takes 0.19 µs, not 0.26. Shorter ones than 512 B would not
///   gain; they go round 128 KiB. Longer ones go round 2 MiB: when a line is used again it has left the
///   cores' own caches (1 MiB each) for the one they share, from where both have it at 30 GB/s: 8 and 32 KiB
///   take 0.5 and 1.6 µs, not 1.1 and 4.1. 1 MiB gains half of that. Between cores of different caches that
///   does not help, but lines written past the caches are written at 35 GB/s, and read at 17: 8 and 32 KiB
///   take 1.2 and 2.9 µs, not 4.3 and 15.5. To fetch all lines of the next 4 KiB at once keeps the packet's
///   own stores waiting. Windows both ways of short packets lose a tenth to a fifth where nothing is read
///   between the sends, else they win up to a tenth.
/// - An AMD EPYC (Zen 5). As Zen 4, but for what is copied with `rep movsb`: 32 and 64 KiB take 0.69 and
///   1.2 µs in pieces of 16 KiB, and in those of 4 to 8 by a loop 0.80 and 1.4; 16 KiB between cores of
///   different caches 1.0 µs in pieces of 8 KiB, 1.2 in one. Windows of 1 and 4 MiB one way, for which the
///   writer has no blocks, go at 28 and 18 GB/s where what is in lines is copied out by a loop, else at 15
///   and 10; shorter ones gain nothing, and ping-pong through blocks loses a tenth to a fifth so.
/// - An Intel Xeon (model 207). Windows of 1 to 4 KiB lose a fifth to a quarter with first lines, and windows
///   both ways a fifth to a third where packets are read between the sends. 1 KiB to and fro would gain a
///   sixth. In blocks 1, 4 and 8 KiB take 0.46, 0.89 and 1.41 µs, not 0.55, 0.94 and 1.51, both ways at once
///   0.47, 0.90 and 1.47, not 0.64, 1.13 and 1.91; 32 to 128 KiB lose a tenth where one buffer is sent from
///   and received into. More lines, and stores past the caches, were not measured there.
#[derive(Clone, Copy)]
pub(super) struct Processor {
    /// Short runs go back to the first lines as soon as the reader has released them.
    pub(super) reuses_first: bool,
    /// The longest run in near lines where there are bulk lines, and how many of these are used.
    pub(super) near_run_max: usize,
    pub(super) bulk_count_max: usize,
    /// Lines of the shortest and the longest packets that go into a block, if the writer has one.
    pub(super) block_lines_min: u64,
    pub(super) block_lines_max: u64,
    /// Shortest payload of packets that go in pieces, in bytes, and lines of a piece in either area: half of
    /// the packet, within these, or an eighth ([`EIGHTH_LINES_MAX`]).
    pub(super) in_pieces_bytes_min: usize,
    pub(super) piece_lines: [(usize, usize); AREAS_COUNT],
    /// Pieces are copied several pages side by side.
    pub(super) copies_page_wise: bool,
    /// Long payloads may go past the caches, if that is quicker (`ring_manner.rs`).
    pub(super) may_stream: bool,
    /// Lines of a next packet that are fetched at once; the others when there is time.
    pub(super) prefetch_count: u64,
    /// Packets are to be read between sends for which nobody waits.
    pub(super) reads_between: bool,
    /// `rep movsb`, by which the kernel copies, is slow to a place in a page just behind the source's
    /// (`buffer/copy.rs` of the core).
    rep_is_slow_behind: bool,
    /// Long packets are quicker than the kernel's copy between any two cores.
    pub(super) packets_beat_kernel: bool,
    /// Packets in lines with more payload are copied out by a loop, in bytes.
    pub(super) loop_out_above_bytes: usize,
}

/// So many ranks on so many of this host's CPUs.
pub fn occupancy(ranks_count: u32, cpus_count: u32) -> Occupancy {
    let has_long_blocks = Processor::here().has_long_blocks();
    Occupancy { has_long_blocks, ..Occupancy::new(ranks_count, cpus_count) }
}

impl Processor {
    /// What was measured on Intel's, and is right on others until it is measured there.
    pub(super) const ANY: Self = Self {
        reuses_first: false,
        near_run_max: 512,
        bulk_count_max: 8192,
        block_lines_min: BLOCK_LINES_MIN,
        block_lines_max: 256, // 16 KiB
        in_pieces_bytes_min: IN_PIECES_BYTES_MIN,
        piece_lines: PIECE_LINES,
        copies_page_wise: true,
        may_stream: false,
        prefetch_count: u64::MAX,
        reads_between: false,
        rep_is_slow_behind: false,
        packets_beat_kernel: false,
        loop_out_above_bytes: usize::MAX,
    };

    pub(super) const AMD: Self = Self {
        reuses_first: true,
        near_run_max: 32, // 2 KiB
        bulk_count_max: usize::MAX,
        block_lines_min: BLOCK_LINES_MIN,
        block_lines_max: u64::MAX,
        in_pieces_bytes_min: if cfg!(loom) { IN_PIECES_BYTES_MIN } else { 4 << 10 },
        piece_lines: if cfg!(loom) { PIECE_LINES } else { [(32, 64); 2] },
        copies_page_wise: false,
        may_stream: true,
        prefetch_count: 32,
        reads_between: true,
        rep_is_slow_behind: true,
        packets_beat_kernel: false,
        loop_out_above_bytes: usize::MAX,
    };

    /// AMD's since Zen 5: as those before, but `rep movsb`, by which long pieces are copied, is quicker with
    /// longer ones.
    pub(super) const ZEN_5: Self = Self {
        piece_lines: if cfg!(loom) { PIECE_LINES } else { [(128, 256); 2] }, // 8 to 16 KiB
        loop_out_above_bytes: 128 << 10,
        rep_is_slow_behind: false,
        packets_beat_kernel: true,
        ..Self::AMD
    };

    /// Whether a packet of so many lines goes in a block.
    #[inline]
    pub(super) fn takes_block(&self, need: u64) -> bool {
        need >= self.block_lines_min && need <= self.block_lines_max
    }

    /// Whether the kernel copies from one address to the other slowly, whichever process' these are.
    #[inline]
    pub(super) fn is_slow_by_kernel(&self, from: u64, to: u64) -> bool {
        self.rep_is_slow_behind && (1..32).contains(&(to.wrapping_sub(from) % 4096))
    }

    /// Whether the longest packets do.
    pub(super) fn has_long_blocks(&self) -> bool {
        self.block_lines_max == u64::MAX
    }

    /// Lines of a piece of a packet.
    pub(super) fn piece_lines(&self, area: usize, lines_count: usize) -> usize {
        // Blocks stay in near caches, as near lines do.
        let (min, max) = self.piece_lines[if area == BULK { BULK } else { NEAR }];
        (lines_count / 2).clamp(min, max).max((lines_count / 8).min(EIGHTH_LINES_MAX))
    }

    /// This machine's.
    pub(super) fn here() -> Self {
        // A hypervisor is asked each time.
        static FAMILY: LazyLock<Option<u32>> = LazyLock::new(buffer::amd_family);
        match *FAMILY {
            _ if cfg!(loom) => Self::AMD,
            None => Self::ANY,
            Some(..buffer::AMD_FAMILY_ZEN_5) => Self::AMD,
            Some(_) => Self::ZEN_5,
        }
    }
}
