//! The ring that carries packets from one process to one other through memory both have mapped.
//!
//! One writer, one reader. A packet takes one *slot* (a cache line), or a *pair* of slots that processors
//! fetch together, or a slot and a run of *data lines*, in one of two areas: *near* lines, few, so that they
//! stay near the processor, and for longer packets *bulk* lines, so many that writer and reader do not wait
//! for each other. The smallest message (core header and 8 bytes of payload) is one line in all: the word
//! that the reader polls, header and payload come over together, and there is no head or tail line beside it.
//!
//! ```text
//! slots   | word  header payload.. | header payload..  word | ...     power of two, one line each
//! near    | payload ............ | payload ........ |  (rest unused)  power of two lines
//! bulk    | payload ............................................ |    power of two lines, or none
//! blocks  | payload ............ | payload ........ |             one packet each, or none
//! released| slots, near lines | bulk lines | : written by the reader, seldom
//! filled  | near lines | bulk lines | blocks | areas | : written by the writer, with packets in pieces; the
//!                                                 last once
//!
//! word:  bits 63..32 sequence number   31..24 header bytes   23 in pieces   22 placed   21 in a block
//!        20..0 payload bytes
//! ```
//!
//! # Ownership protocol
//!
//! 1. Slots are used in order, round and round, counted from 0; the n-th is slot n mod `slots` and gets the
//!    sequence number n+1 (mod 2^32). Memory starts as zero, so that no slot holds a false number. A packet
//!    that takes a pair begins at an even slot and has the first one's word. The second's word also gets its
//!    number, because it could otherwise be so old that the count has wrapped, but the reader does not look
//!    at it. An odd next slot is *skipped*: its word says so, and is stored after that of the packet. The
//!    words of a pair are at its outer ends, so that what is between them is one run of bytes.
//! 2. A slot belongs to the writer until it stores, with *release*, a word with the slot's next sequence
//!    number; from then on to the reader, which sees that number with an *acquire* load. A stale word always
//!    has the number of an earlier round, and only words are ever stored at a word's place: payload cannot
//!    look like a word.
//! 3. The data lines of a packet are one run, in near lines up to a length, else in bulk lines. That length,
//!    at most a quarter of the near lines, and how many lines of each area it uses, the writer says before
//!    its first packet ([`Areas`]). Where the run would cross the end of its area (a short one: the middle),
//!    the lines up to the end stay unused and the run starts at 0: both sides compute this from the lengths
//!    alone. But where the word says *placed*, the slot says behind the header where the run starts. So short
//!    runs in near lines go back to the first lines when these are used and the writer knows that the
//!    reader has released them: both go on with lines that are in their nearest caches (`ring_lines.rs`), and
//!    those too short for that go on behind the middle. The run changes hands together with its slot, by
//!    the same word; but where the word says *in pieces* it does so line by line: those before `filled`
//!    are the reader's, which the writer stores, with *release*, after each piece. So the reader copies a
//!    piece out while the writer copies the next one in.
//! 4. The reader has the packet (slot and run) until [`Receiver::release`]; it releases in order. From time
//!    to time (a quarter of the slots or of an area's lines, in near lines half of the first ones) it stores
//!    the counts of released slots and lines in `released`, with *release*; the writer reads them with
//!    *acquire*, and only when its own last knowledge says the ring is full, or that the first lines are not
//!    released. It also learns the count of near lines from the ring the other way: the slot of a packet
//!    whose run is one of those that go back has it behind a header that leaves room. Then those slots and
//!    runs are the writer's again.
//! 5. No packet is longer than a quarter of its area. So a writer finds room once the reader has released
//!    everything: less than a quarter is not yet published, less than a quarter lies unused at the end
//!    (half of it before a short run, which is much less than a quarter). One that has gone back to the
//!    first lines has those behind, too, which the round before has not used.
//! 6. Each side counts by itself; it believes of the other side's words no more than it checks. A word or a
//!    count that no correct peer writes is an error ([`Seen::Corrupt`]), never an access out of bounds.
//! 7. The *blocks* of both rings of a pair are one set. Each block is one rank's, at first that of the
//!    writer of its ring. A packet whose word says *in a block* has its data at the beginning of one, and
//!    none in lines; the slot says behind the header which. The block changes hands as a run does, in
//!    `filled` with a count of its own (all lines of packets in blocks, one after the other), and it does not
//!    go back: who has released the packet writes a next one of its own there, in lines that are in its own
//!    caches, where those of its ring are still in the other's. Who has no block left, since less comes than
//!    goes, uses lines ([`Blocks`]).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

use self::areas::Areas;
pub(crate) use self::blocks::{BLOCKS_COUNT_MAX, Backing, Blocks};
pub(crate) use self::receiver::{Receiver, Seen};
pub(crate) use self::sender::Sender;
use self::word::{IN_BLOCK, is_odd};
const _: () = assert!(PACKET_BYTES_MAX < IN_BLOCK);

/// Near and bulk lines: indices of an area.
pub(crate) const AREAS_COUNT: usize = 2;
pub(crate) const NEAR: usize = 0;
pub(crate) const BULK: usize = 1;
/// The same where blocks are counted, too.
const BLOCKS: usize = 2;

/// After these bulk lines, 128 KiB, the memory of all others is provided at once.
const PROVIDED_FIRST_LINES: u64 = 2048;

/// A cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// Payload bytes of a slot beside its word.
pub(crate) const SLOT_BYTES: usize = LINE_BYTES - 8;
/// Payload bytes of a pair of slots, in one run. With a slot and a data line a message of 64 bytes took 0.40
/// µs, in a pair it takes 0.33: the lines of a pair come over together.
const PAIR_BYTES: usize = 2 * SLOT_BYTES;
/// Payload bytes of the longest packet. Between two cores of a Zen 5 messages of 256 KiB to 4 MiB take a
/// fourteenth to a sixth longer in packets of 128 KiB.
const PACKET_BYTES_MAX: usize = 512 << 10;

/// Data begin so far behind the beginning of a block, which begins a page, in lines (2 KiB). Buffers begin
/// pages or, from `malloc`, 16 bytes behind; where what is written lies up to a line further in its page than
/// what is read, reads wait for writes (`buffer/copy.rs` of the core): 128 KiB took a Zen 5 2.3 µs, not 2.0.
const BLOCK_BEGIN_LINES: usize = if cfg!(loom) { 0 } else { 32 };

/// Lines of a block beside so many bulk lines: any packet has room, and 16 KiB more, so that the beginnings
/// of all blocks do not have the same few places in a cache.
pub(crate) const fn block_lines(bulk_count: usize) -> usize {
    let (longest, most) = (bulk_count / 4, PACKET_BYTES_MAX / LINE_BYTES);
    let longest = if longest < most { longest } else { most };
    if cfg!(loom) { 4 } else { longest + (16 << 10) / LINE_BYTES }
}

/// Where the slot of a packet that is placed, in a block or in a `SHORT_RUN` has, behind a header that
/// leaves room, the start of its run, or which block, and the count of near lines that its writer has
/// released in the ring the other way.
const START_AT: usize = SLOT_BYTES - 16;

/// Two slots: a word each, and header and payload if all that fits.
#[repr(C, align(128))]
pub(crate) struct Pair {
    even: AtomicU64,
    bytes: [cell::Cell<[u8; SLOT_BYTES]>; 2],
    odd: AtomicU64,
}

/// A line of payload.
#[repr(C, align(64))]
pub(crate) struct Line(cell::Cell<[u8; LINE_BYTES]>);

/// Counts that the reader has released: of near lines the low half of the count, and in the low half slots;
/// bulk lines. Two lines wide, because processors fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct Released([AtomicU64; AREAS_COUNT]);

impl Released {
    fn load(&self) -> [u64; AREAS_COUNT] {
        self.0.each_ref().map(|count| count.load(Ordering::Acquire))
    }
}

/// What the writer says beside its packets.
#[repr(C, align(128))]
pub(crate) struct Filled {
    /// Lines of each area and of blocks up to which it has written, of a packet in pieces, counted as the
    /// reader counts.
    lines: [AtomicU64; AREAS_COUNT + 1],
    /// How it uses the lines ([`Areas::word`]), before its first packet.
    areas: AtomicU64,
}

/// Both counts of a ring.
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) released: Released,
    pub(crate) filled: Filled,
}

impl Pair {
    #[inline(always)]
    fn word(&self, n: u32) -> &AtomicU64 {
        if is_odd(n) { &self.odd } else { &self.even }
    }

    #[inline(always)]
    fn half(&self, n: u32) -> &cell::Cell<[u8; SLOT_BYTES]> {
        &self.bytes[(n & 1) as usize]
    }
}

// SAFETY: the cells are handed from one side to the other by the protocol above.
unsafe impl Sync for Pair {}
// SAFETY: as for `Pair`.
unsafe impl Sync for Line {}

/// The memory of one ring.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) pairs: &'static [Pair],
    pub(crate) areas: [&'static [Line]; AREAS_COUNT],
    pub(crate) blocks: &'static [Line],
    pub(crate) counts: &'static Counts,
}

impl Ring {
    /// The ring, if its numbers of pairs and lines are powers of two, as rule 1 has them, or no bulk lines.
    ///
    /// # Panics
    /// If they are not: our bug.
    fn checked(self) -> Self {
        let [near, bulk] = self.areas.map(<[Line]>::len);
        assert!(self.pairs.len().is_power_of_two() && near.is_power_of_two());
        assert!(bulk == 0 || bulk.is_power_of_two());
        assert!(self.blocks.len().is_multiple_of(self.block_lines()));
        self
    }

    /// Lines of a block.
    fn block_lines(&self) -> usize {
        block_lines(self.areas[BULK].len())
    }

    /// The lines of a run.
    #[inline]
    fn run(&self, areas: &Areas, area: usize, start: u64, need: u64) -> &'static [Line] {
        let first = areas.each[area].index_of(start) as usize;
        &self.areas[area][first..first + need as usize]
    }

    #[inline(always)]
    fn slots_count(&self) -> u32 {
        self.pairs.len() as u32 * 2
    }

    /// The pair of the n-th slot.
    #[inline(always)]
    fn pair(&self, n: u32) -> &'static Pair {
        let index = ((n / 2) & (self.pairs.len() as u32 - 1)) as usize;
        // SAFETY: less than their number, which is a power of two (`checked`).
        unsafe { self.pairs.get_unchecked(index) }
    }

    /// The word of the n-th slot.
    #[inline(always)]
    fn word(&self, n: u32) -> &'static AtomicU64 {
        self.pair(n).word(n)
    }

    /// Content of the n-th slot.
    #[inline(always)]
    fn bytes(&self, n: u32) -> &'static cell::Cell<[u8; SLOT_BYTES]> {
        self.pair(n).half(n)
    }
}

#[path = "ring_sender.rs"]
mod sender;

#[path = "ring_receiver.rs"]
mod receiver;

#[path = "ring_areas.rs"]
mod areas;

#[path = "ring_blocks.rs"]
mod blocks;

#[path = "ring_lines.rs"]
mod lines;

#[path = "ring_manner.rs"]
mod manner;

#[path = "ring_word.rs"]
mod word;

#[cfg(not(loom))]
#[path = "ring_cell.rs"]
mod cell;

#[cfg(loom)]
#[path = "ring_loom.rs"]
mod cell;

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
pub(crate) mod tests;
