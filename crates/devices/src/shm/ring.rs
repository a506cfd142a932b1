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
//! released| slots, near lines | bulk lines | : written by the reader, seldom
//! filled  | near lines | bulk lines |         : written by the writer, with packets in pieces
//!
//! word:  bits 63..32 sequence number   31..24 header bytes   23 in pieces   22 placed   21..0 payload bytes
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
//! 3. The data lines of a packet are one run, in near lines if it is no longer than a quarter of them, else
//!    in bulk lines. Where the run would cross the end of its area (a short one: the middle), the lines
//!    up to the end stay unused and the run starts at 0: both sides compute this from the lengths alone.
//!    But where the word says *placed*, the slot says behind the header where the run starts. So short
//!    runs in near lines go back to the first lines when these are used and the writer knows that the
//!    reader has released them: both go on with lines that are in their nearest caches ([`Lines`]), and
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

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

use self::lines::Lines;
use self::word::{Area, IN_PIECES, PLACED, SKIPPED, data_bytes, is_odd, lengths, lines_for, word_of};
use super::active::Announcement;
use super::processor::{FIRST_COUNT, Processor, SHORT_RUN};
use super::sys;
use ayatori_core::device::{Full, HEADER_BYTES_MAX};

/// Near and bulk lines: indices of an area.
pub(crate) const AREAS_COUNT: usize = 2;
const NEAR: usize = 0;
const BULK: usize = 1;

/// A cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// Payload bytes of a slot beside its word.
pub(crate) const SLOT_BYTES: usize = LINE_BYTES - 8;
/// Payload bytes of a pair of slots, in one run. With a slot and a data line a message of 64 bytes took 0.40
/// µs, in a pair it takes 0.33: the lines of a pair come over together.
const PAIR_BYTES: usize = 2 * SLOT_BYTES;
/// 32 KiB: the longest packet in near lines, and the beginning of one in bulk lines.
const PREFETCH_LINES_MAX: u64 = 512;

/// Where the slot of a packet that is placed or in a [`SHORT_RUN`] has, behind a header that leaves room,
/// the start of its run and the count of near lines that its writer has released in the ring the other way.
const START_AT: usize = SLOT_BYTES - 16;

/// Shortest payload that is written in pieces; the next constants are the pieces in near and in bulk lines.
/// Measured (µs one way, whole / pieces of 1, 4 and 8 KiB): 16 KiB 3.9 / 5.3, 2.7, 2.7; 8 KiB 1.64 / -, 1.69,
/// 1.67: each piece moves the count that both sides read to and fro. In bulk lines 64, 128, 256, 512 KiB take
/// 6.6, 9.7, 18.0, 34.3 µs in pieces of 16 KiB and 6.0, 9.1, 16.5, 31.1 in pieces of 32: both sides copy
/// these page by page side by side ([`sys::copy_in`]).
const IN_PIECES_BYTES_MIN: usize = if cfg!(loom) { 110 } else { 10 << 10 };
const PIECE_LINES: [usize; AREAS_COUNT] = if cfg!(loom) { [1, 2] } else { [64, 512] };

/// In a burst the writer fetches the slot this many packets ahead, whose line the reader used last: 27 ns a
/// message, not 58.
const WRITE_AHEAD_SLOTS: u32 = 4;

/// In a burst the reader fetches the slot this many packets ahead while it works on this one.
const AHEAD_SLOTS: u32 = 2;

/// After this many empty polls the reader fetches the second line of a pair with each look at the first, so
/// that a packet in both is transferred at once; earlier it would take that line from the writer while it
/// fills it. Measured (medians of 48 interleaved runs, µs one way of 64 and 88 bytes): 0.35 and 0.35; from
/// the first poll on 0.38 and 0.37; never 0.39 and 0.39. 8 bytes take 0.28 in each of the three ways, and the
/// message rate is the same (10.8 million a second).
const EARLY_POLLS: u32 = 4;

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

/// Lines of each area up to which the writer has written, of a packet in pieces, counted as the reader
/// counts.
#[repr(C, align(128))]
pub(crate) struct Filled([AtomicU64; AREAS_COUNT]);

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
    pub(crate) counts: &'static Counts,
}

impl Ring {
    /// Maximum bytes of a packet in data lines (rule 5).
    pub(crate) fn data_bytes_max(&self) -> usize {
        let longest = self.areas.iter().map(|lines| lines.len() / 4 * LINE_BYTES).max();
        longest.unwrap_or(0).min(PLACED - 1)
    }

    /// The area of a run of `need` lines (rule 3).
    fn area_of(&self, need: u64) -> usize {
        if need > self.lines_count(NEAR) / 4 { BULK } else { NEAR }
    }

    fn lines_count(&self, area: usize) -> u64 {
        self.areas[area].len() as u64
    }

    /// The lines of a run.
    #[inline]
    fn run(&self, area: usize, start: u64, need: u64) -> &'static [Line] {
        let first = (start & (self.lines_count(area) - 1)) as usize;
        &self.areas[area][first..first + need as usize]
    }

    #[inline(always)]
    fn slots_count(&self) -> u32 {
        self.pairs.len() as u32 * 2
    }

    /// The pair of the n-th slot.
    #[inline(always)]
    fn pair(&self, n: u32) -> &'static Pair {
        &self.pairs[((n / 2) & (self.pairs.len() as u32 - 1)) as usize]
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

/// The writing side.
pub(crate) struct Sender {
    ring: Ring,
    /// Packets sent.
    next: u32,
    lines: [Lines; AREAS_COUNT],
    /// Slots that the reader has released, as far as is known.
    released_slots: u32,
    /// `released` at the last look.
    seen: [u64; AREAS_COUNT],
    /// Area and first of the lines to fetch when there is time, and how many.
    unfetched: (usize, u64, u64),
    /// Lines of a next packet that are fetched at once.
    prefetch_count: u64,
    /// Shortest payload of packets that go in pieces, in bytes.
    in_pieces_bytes_min: usize,
    /// Pieces are copied page by page side by side ([`sys::copy_in`]): the reader's CPU is of another core.
    pub(crate) is_page_wise: bool,
    /// The announcement to make before the first packet.
    announcement: Option<Announcement>,
}

impl Sender {
    /// `is_watched`: the reader has a CPU of its own, and so may copy while we do.
    pub(crate) fn new(ring: Ring, is_watched: bool) -> Self {
        let [near, bulk] = ring.areas.map(<[Line]>::len);
        assert!(ring.pairs.len().is_power_of_two() && near.is_power_of_two());
        assert!(bulk == 0 || bulk.is_power_of_two());
        let processor = Processor::here();
        let in_pieces_bytes_min = if is_watched { IN_PIECES_BYTES_MIN } else { usize::MAX };
        Self {
            ring,
            next: 0,
            lines: [Lines::new(Area::new(near), processor.reuses_first), Lines::new(Area::new(bulk), false)],
            released_slots: 0,
            seen: [0; AREAS_COUNT],
            unfetched: (NEAR, 0, 0),
            prefetch_count: processor.prefetch_count,
            in_pieces_bytes_min,
            is_page_wise: false,
            announcement: None,
        }
    }

    /// Says this before its first packet. The ring is full as long as that has not been said, so that packets
    /// after the first do not ask.
    pub(crate) fn announcing(mut self, announcement: Announcement) -> Self {
        self.announcement = Some(announcement);
        self.released_slots = self.next.wrapping_sub(self.ring.slots_count());
        self
    }

    /// Appends a packet. `back` is the reading side of the ring the other way.
    ///
    /// # Panics
    /// If the header is longer than [`HEADER_BYTES_MAX`] or the packet than the ring takes: our bug.
    #[inline]
    pub(crate) fn push(
        &mut self,
        header: &[u8],
        payload: [&[u8]; 2],
        back: &mut Receiver,
    ) -> Result<(), Full> {
        let payload_bytes = payload[0].len() + payload[1].len();
        if header.len() + payload_bytes > SLOT_BYTES {
            return self.push_longer(header, payload, payload_bytes, back);
        }
        if !self.has_slots(1) {
            return Err(Full);
        }
        let pair = self.ring.pair(self.next);
        pair.half(self.next).write(|to| {
            // SAFETY: the slot is ours (rule 4) and the three parts fit in it (checked above).
            unsafe { sys::copy_parts(header, payload, to) }
        });
        self.publish(pair, header.len(), payload_bytes);
        sys::prefetch_for_write(self.ring.bytes(self.next.wrapping_add(WRITE_AHEAD_SLOTS)));
        Ok(())
    }

    /// Whether `count` slots are ours.
    #[inline(always)]
    fn has_slots(&mut self, count: u32) -> bool {
        let used = self.next.wrapping_sub(self.released_slots) + count;
        used <= self.ring.slots_count() || self.has_slots_now(count)
    }

    #[cold]
    fn has_slots_now(&mut self, count: u32) -> bool {
        self.refresh();
        self.next.wrapping_sub(self.released_slots) + count <= self.ring.slots_count()
    }

    #[inline(never)]
    fn push_longer(
        &mut self,
        header: &[u8],
        payload: [&[u8]; 2],
        payload_bytes: usize,
        back: &mut Receiver,
    ) -> Result<(), Full> {
        if header.len() + payload_bytes > PAIR_BYTES {
            return self.push_long(header, payload, payload_bytes, back);
        }
        let skipped = self.next;
        let is_skipping = is_odd(skipped);
        if !self.has_slots(2 + u32::from(is_skipping)) {
            return Err(Full);
        }
        self.next = skipped.wrapping_add(is_skipping.into());
        let pair = self.ring.pair(self.next);
        pair.odd.store(word_of(self.next.wrapping_add(2), SKIPPED, 0), Ordering::Relaxed);
        cell::write_pair(&pair.bytes, header, payload);
        self.publish(pair, header.len(), payload_bytes);
        self.next = self.next.wrapping_add(1);
        if is_skipping {
            let word = word_of(skipped.wrapping_add(1), SKIPPED, 0);
            self.ring.word(skipped).store(word, Ordering::Release);
        }
        let ahead = self.ring.pair(self.next.wrapping_add(WRITE_AHEAD_SLOTS));
        for half in &ahead.bytes {
            sys::prefetch_for_write(half);
        }
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self, pair: &Pair, header_bytes: usize, payload_bytes: usize) {
        let word = pair.word(self.next);
        self.next = self.next.wrapping_add(1);
        word.store(word_of(self.next, header_bytes, payload_bytes), Ordering::Release);
    }

    /// A packet with data lines: the header in the slot and the payload in the lines, so that the payload is
    /// aligned; a header too long for a slot goes before the payload.
    fn push_long(
        &mut self,
        header: &[u8],
        payload: [&[u8]; 2],
        payload_bytes: usize,
        back: &mut Receiver,
    ) -> Result<(), Full> {
        assert!(header.len() <= HEADER_BYTES_MAX, "header of {} bytes", header.len());
        let header_in_slot = header.len() <= SLOT_BYTES;
        let data_bytes = data_bytes(header.len(), payload_bytes);
        let data_bytes_max = self.ring.data_bytes_max();
        assert!(
            data_bytes <= data_bytes_max,
            "packet with {data_bytes} bytes of data, at most {data_bytes_max}"
        );
        if let Some(said) = back.heard.take() {
            self.lines[NEAR].learn(said);
        }
        let need = lines_for(data_bytes);
        let area = self.ring.area_of(need);
        let in_turn = self.lines[area].in_turn(need);
        let has_place = header.len() <= START_AT;
        let start = if has_place { self.place(area, need, in_turn) } else { in_turn };
        if !self.has_room(area, start, need) {
            self.refresh();
            if !self.has_room(area, start, need) {
                return Err(Full);
            }
        }
        let flag = if start == in_turn { 0 } else { PLACED };
        let lines = self.ring.run(area, start, need);
        self.lines[area].take(start, need);
        let pair = self.ring.pair(self.next);
        if header_in_slot {
            let half = pair.half(self.next);
            let said = back.next_line[NEAR];
            let write_header = || {
                // SAFETY: the slot is ours (rule 4); the header fits, and what is behind it where it is told.
                half.write(|to| unsafe {
                    sys::copy_short(header, to);
                    if has_place && (flag != 0 || SHORT_RUN.contains(&need)) {
                        to.add(START_AT).cast::<[u64; 2]>().write_unaligned([start, said]);
                    }
                });
            };
            if payload[0].len() >= self.in_pieces_bytes_min && payload[1].is_empty() {
                write_header();
                self.write_in_pieces(header.len(), (area, start, flag), lines, payload[0]);
                self.prefetch_next(area, need);
                return Ok(());
            }
            // Before the header, as in a pair.
            cell::write_run(lines, [payload[0], payload[1], &[]], false);
            write_header();
        } else {
            cell::write_run(lines, [header, payload[0], payload[1]], false);
        }
        self.publish(pair, header.len(), payload_bytes | flag);
        self.prefetch_next(area, need);
        Ok(())
    }

    /// Where a run of `need` lines starts (rule 3), if the reader can be told.
    #[inline]
    fn place(&mut self, area: usize, need: u64, in_turn: u64) -> u64 {
        if let Some(start) = self.lines[area].known_start(need, in_turn) {
            return start;
        }
        self.refresh();
        self.lines[area].look(need, in_turn)
    }

    /// The slot first, then the payload, piece by piece (rule 3).
    fn write_in_pieces(
        &mut self,
        header_bytes: usize,
        (area, start, flag): (usize, u64, usize),
        lines: &[Line],
        payload: &[u8],
    ) {
        let filled = &self.ring.counts.filled.0[area];
        self.publish(self.ring.pair(self.next), header_bytes, payload.len() | IN_PIECES | flag);
        let (count, mut end) = (PIECE_LINES[area], start);
        for (lines, piece) in lines.chunks(count).zip(payload.chunks(count * LINE_BYTES)) {
            cell::write_run(lines, [piece, &[], &[]], self.is_page_wise);
            end += lines.len() as u64;
            filled.store(end, Ordering::Release);
        }
    }

    /// Fetches the lines of a next packet of the same length while the reader does not wait for us. The
    /// reader's cache still has them from the last round, and fetching 4 KiB of them one by one while writing
    /// costs a tenth to a fifth of the latency. Bulk lines later ([`prefetch_rest`](Self::prefetch_rest)):
    /// the next packet may be of the same message, for which the reader does wait. 256 KiB take 16.7 µs so,
    /// and 17.8 where lines are fetched between its packets.
    fn prefetch_next(&mut self, area: usize, need: u64) {
        let lines = &self.lines[area];
        let Some(start) = lines.known_start(need, lines.in_turn(need)) else { return };
        let count = need.min(PREFETCH_LINES_MAX);
        let now = if area == BULK { 0 } else { count.min(self.prefetch_count) };
        self.prefetch(area, start, now);
        self.unfetched = (area, start + now, count - now);
    }

    /// Does what `prefetch_next` has put off: this rank has nothing else to do.
    #[inline]
    pub(crate) fn prefetch_rest(&mut self) {
        let (area, start, count) = self.unfetched;
        if count > 0 {
            self.unfetched.2 = 0;
            self.prefetch(area, start, count);
        }
    }

    fn prefetch(&self, area: usize, start: u64, count: u64) {
        for line in self.ring.run(area, start, count) {
            sys::prefetch_for_write(line);
        }
    }

    fn has_room(&self, area: usize, start: u64, need: u64) -> bool {
        self.next.wrapping_sub(self.released_slots) < self.ring.slots_count()
            && self.lines[area].is_free(start, need)
    }

    /// Reads what the reader has released. A count beyond the slots sent is ignored (rule 6).
    #[cold]
    fn refresh(&mut self) {
        if let Some(announcement) = self.announcement.take() {
            announcement.make();
            self.released_slots = self.next;
            return;
        }
        self.seen = self.ring.counts.released.load();
        let [near, bulk] = self.seen;
        self.lines[BULK].learn(bulk);
        // So many near lines less than were used.
        let used = self.lines[NEAR].next;
        let behind = (used as u32).wrapping_sub((near >> 32) as u32);
        let is_possible = self.next.wrapping_sub(near as u32) <= self.ring.slots_count();
        if let Some(count) = used.checked_sub(behind.into()).filter(|_| is_possible) {
            self.lines[NEAR].learn(count);
            self.released_slots = near as u32;
        }
    }

    /// Whether the reader has released something since [`push`](Self::push) last answered [`Full`].
    pub(crate) fn has_news(&self) -> bool {
        self.ring.counts.released.load() != self.seen
    }
}

/// The reading side.
pub(crate) struct Receiver {
    ring: Ring,
    /// Packets released.
    next: u32,
    /// Lines released of each area, with those skipped.
    next_line: [u64; AREAS_COUNT],
    areas: [Area; AREAS_COUNT],
    /// As published in `released` when the writer was to be woken, if it sleeps for want of room.
    published_slots: u32,
    published_lines: [u64; AREAS_COUNT],
    /// Near lines as published last.
    published_near: u64,
    /// Where the run of the packet at the front starts, if its word says that it was placed.
    start: u64,
    /// Near lines of the ring the other way that its reader has released, as the last packet said.
    heard: Option<u64>,
    /// The word of the packet at the front, once seen.
    word: u64,
    /// Polls since the last packet that found none.
    idle_polls: u32,
    /// The packet at the front has been reported as one in pieces.
    is_announced: bool,
}

/// Content of the ring's front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// Nothing, or pieces of a packet of which this was said before.
    Nothing,
    /// A packet: [`Receiver::front`] has it.
    Packet,
    /// The header of one that is still being written, and the length of its payload in bytes.
    Front(usize),
    /// Bytes that no correct peer writes: the ring must not be used any more.
    Corrupt,
}

impl Receiver {
    pub(crate) fn new(ring: Ring) -> Self {
        Self {
            ring,
            next: 0,
            next_line: [0; AREAS_COUNT],
            areas: ring.areas.map(|lines| Area::new(lines.len())),
            published_slots: 0,
            published_lines: [0; AREAS_COUNT],
            published_near: 0,
            start: 0,
            heard: None,
            word: 0,
            idle_polls: 0,
            is_announced: false,
        }
    }

    /// Looks whether a packet is there.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Seen {
        if !self.sees_word() {
            return Seen::Nothing;
        }
        let (header_bytes, payload_bytes) = lengths(self.word);
        if header_bytes + payload_bytes > SLOT_BYTES { self.see_longer() } else { Seen::Packet }
    }

    /// Whether a word that the next slot's place holds is that slot's, not one of an earlier round (rule 2).
    #[inline(always)]
    fn is_next(&self, word: u64) -> bool {
        (word >> 32) as u32 == self.next.wrapping_add(1)
    }

    /// Whether the next slot's word has come.
    #[inline(always)]
    fn sees_word(&mut self) -> bool {
        let word = self.ring.word(self.next).load(Ordering::Acquire);
        if !self.is_next(word) {
            self.idle_polls = self.idle_polls.saturating_add(1);
            if self.idle_polls > EARLY_POLLS {
                sys::prefetch(&self.ring.pair(self.next).bytes[1]);
            }
            return false;
        }
        self.idle_polls = 0;
        self.word = word;
        sys::prefetch(self.ring.bytes(self.next.wrapping_add(AHEAD_SLOTS)));
        true
    }

    /// The same for a packet in more than a slot, or a slot that is skipped, of which the word has come.
    #[inline(never)]
    fn see_longer(&mut self) -> Seen {
        if is_odd(self.next) && lengths(self.word) == (SKIPPED, 0) {
            // The next slot was written before the skip.
            self.next = self.next.wrapping_add(1);
            if !self.sees_word() {
                return Seen::Corrupt;
            }
        }
        let (header_bytes, payload_bytes) = lengths(self.word);
        let packet_bytes = header_bytes + payload_bytes;
        if packet_bytes > PAIR_BYTES {
            return self.see_long();
        }
        // A pair never begins at an odd slot and never holds a packet that fits one slot.
        if is_odd(self.next) || packet_bytes <= SLOT_BYTES {
            return Seen::Corrupt;
        }
        sys::prefetch(&self.ring.pair(self.next).bytes[1]);
        Seen::Packet
    }

    /// The same for a packet with data lines.
    fn see_long(&mut self) -> Seen {
        let (header_bytes, payload_bytes) = lengths(self.word);
        if header_bytes > HEADER_BYTES_MAX
            || data_bytes(header_bytes, payload_bytes) > self.ring.data_bytes_max()
        {
            return Seen::Corrupt;
        }
        let is_placed = self.word as usize & PLACED != 0;
        if header_bytes <= START_AT && (is_placed || SHORT_RUN.contains(&lines_for(payload_bytes))) {
            // SAFETY: the slot is ours until `release` (rules 2, 4).
            let [start, said] = unsafe { cell::words_in(self.ring.bytes(self.next), START_AT) };
            (self.start, self.heard) = (start, Some(said));
        }
        if is_placed && !self.is_place(header_bytes, payload_bytes) {
            return Seen::Corrupt;
        }
        if self.word as usize & IN_PIECES == 0 || self.is_whole() {
            return Seen::Packet;
        }
        if std::mem::replace(&mut self.is_announced, true) {
            Seen::Nothing
        } else {
            Seen::Front(payload_bytes)
        }
    }

    /// Whether the run of the packet at the front starts where one can (rule 6).
    fn is_place(&self, header_bytes: usize, payload_bytes: usize) -> bool {
        let need = lines_for(payload_bytes);
        let (next, lines) = (self.next_line[NEAR], self.ring.lines_count(NEAR));
        header_bytes <= START_AT
            && self.ring.area_of(need) == NEAR
            && (next..next + 2 * lines).contains(&self.start)
            && self.areas[NEAR].ends_before(self.start, need, lines)
    }

    /// Whether [`poll`](Self::poll) would say something.
    pub(crate) fn is_ready(&self) -> bool {
        let word = self.ring.word(self.next).load(Ordering::Acquire);
        self.is_next(word) && (!self.is_announced || self.is_whole())
    }

    /// Lines of the packet in pieces at the front that are written, and how many it has. The writer may be at
    /// the next packet already; a count that no correct writer stores is none (rule 6).
    fn filled_lines(&self) -> (u64, u64) {
        let (area, start, need) = self.run_counts();
        let filled = self.ring.counts.filled.0[area].load(Ordering::Acquire);
        let count = filled.wrapping_sub(start);
        // Packets that are not read yet are of two rounds at most.
        (if count <= 2 * self.ring.lines_count(area) { count.min(need) } else { 0 }, need)
    }

    fn is_whole(&self) -> bool {
        let (filled, need) = self.filled_lines();
        filled == need
    }

    /// The payload of the packet in pieces at the front from byte `from` on, as far as it is written.
    #[cfg(not(loom))]
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        let (_, payload_bytes) = lengths(self.word);
        let (filled, _) = self.filled_lines();
        // SAFETY: lines before `filled` are ours from `poll` to `release` (rules 3, 4).
        let data = unsafe { cell::run_bytes(&self.run()[..filled as usize]) };
        &data[from.min(data.len())..data.len().min(payload_bytes)]
    }

    /// The packet at the front, as header and payload. Only after [`poll`](Self::poll) said yes and before
    /// [`release`](Self::release). A packet still being written has the header only.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn front(&self) -> (&[u8], &[u8]) {
        let (header_bytes, payload_bytes) = lengths(self.word);
        // SAFETY: the packet is ours from `poll` to `release` (rules 2, 4), and `&self` keeps both away.
        let slot_bytes: &[u8; SLOT_BYTES] = unsafe { &*self.ring.bytes(self.next).as_ptr() };
        if header_bytes + payload_bytes <= SLOT_BYTES {
            let (header, rest) = slot_bytes.split_at(header_bytes);
            return (header, &rest[..payload_bytes]);
        }
        if header_bytes + payload_bytes <= PAIR_BYTES {
            // SAFETY: as above, for both slots.
            let bytes = unsafe { cell::pair_bytes(&self.ring.pair(self.next).bytes) };
            let (header, rest) = bytes.split_at(header_bytes);
            return (header, &rest[..payload_bytes]);
        }
        if self.is_announced && !self.is_whole() {
            return (&slot_bytes[..header_bytes.min(SLOT_BYTES)], &[]);
        }
        // SAFETY: as above.
        let data = unsafe { cell::run_bytes(self.run()) };
        if header_bytes <= SLOT_BYTES {
            (&slot_bytes[..header_bytes], &data[..payload_bytes])
        } else {
            let (header, rest) = data.split_at(header_bytes);
            (header, &rest[..payload_bytes])
        }
    }

    /// The lines of the packet at the front (rule 3).
    #[inline]
    fn run(&self) -> &'static [Line] {
        let (area, start, need) = self.run_counts();
        self.ring.run(area, start, need)
    }

    /// Their area, the first, counted in lines since the beginning, and how many.
    #[inline]
    fn run_counts(&self) -> (usize, u64, u64) {
        let (header_bytes, payload_bytes) = lengths(self.word);
        if header_bytes + payload_bytes <= PAIR_BYTES {
            return (NEAR, self.next_line[NEAR], 0);
        }
        let need = lines_for(data_bytes(header_bytes, payload_bytes));
        let area = self.ring.area_of(need);
        let start = match self.word as usize & PLACED {
            0 => self.areas[area].start_in_turn(self.next_line[area], need),
            _ => self.start,
        };
        (area, start, need)
    }

    /// Gives the packet at the front back to the writer. Returns whether this was published to the writer (a
    /// writer that sleeps for want of room should then be woken).
    #[inline(always)]
    pub(crate) fn release(&mut self) -> bool {
        let (header_bytes, payload_bytes) = lengths(self.word);
        self.next = self.next.wrapping_add(1);
        let slots = self.next.wrapping_sub(self.published_slots);
        if header_bytes + payload_bytes <= SLOT_BYTES && slots < self.ring.slots_count() / 4 {
            return false;
        }
        self.release_more(header_bytes + payload_bytes)
    }

    #[inline(never)]
    fn release_more(&mut self, packet_bytes: usize) -> bool {
        self.is_announced = false;
        let is_in_pair = packet_bytes > SLOT_BYTES && packet_bytes <= PAIR_BYTES;
        self.next = self.next.wrapping_add(is_in_pair.into());
        let (area, start, need) = self.run_counts();
        if need > 0 {
            self.next_line[area] = start + need;
        }
        let slots = self.next.wrapping_sub(self.published_slots);
        let is_many = self.next_line[area] - self.published_lines[area] >= self.ring.lines_count(area) / 4;
        if is_many && area == BULK {
            self.published_lines[BULK] = self.next_line[BULK];
            self.ring.counts.released.0[BULK].store(self.next_line[BULK], Ordering::Release);
        }
        if is_many && area == NEAR || slots >= self.ring.slots_count() / 4 {
            (self.published_slots, self.published_lines[NEAR]) = (self.next, self.next_line[NEAR]);
            self.publish_near();
            return true;
        }
        if self.next_line[NEAR] - self.published_near >= FIRST_COUNT / 2 {
            self.publish_near();
        }
        is_many
    }

    fn publish_near(&mut self) {
        self.published_near = self.next_line[NEAR];
        let released = self.published_near << 32 | u64::from(self.next);
        self.ring.counts.released.0[NEAR].store(released, Ordering::Release);
    }
}

#[path = "ring_lines.rs"]
mod lines;

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
