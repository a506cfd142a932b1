//! The writing side of a ring (`ring.rs`).

use super::areas::Areas;
use super::lines::Lines;
use super::manner::Trials;
use super::word::{IN_BLOCK, IN_PIECES, PLACED, SKIPPED, data_bytes, is_odd, lines_for, word_of};
use super::{
    AREAS_COUNT, BLOCKS, BULK, Backing, LINE_BYTES, Line, NEAR, Ordering, PAIR_BYTES, PROVIDED_FIRST_LINES,
    Pair, Receiver, Ring, SLOT_BYTES, START_AT, cell,
};
use crate::shm::active::Announcement;
use crate::shm::processor::{Processor, SHORT_RUN};
use crate::shm::sys::{self, Manner};
use ayatori_core::device::{Full, HEADER_BYTES_MAX};
use std::time::Instant;

/// 32 KiB: the most that is fetched of a next packet's lines.
const PREFETCH_LINES_MAX: u64 = 512;

/// Runs up to this (2 KiB) always go through the caches.
const UNSTREAMED_LINES_MAX: u64 = if cfg!(loom) { 0 } else { 32 };
/// Lines of a piece of what does not (16 KiB; of 8 they take a tenth longer).
const STREAMED_PIECE_LINES: usize = 256;
/// Longest payload that goes whole past the caches or in a block, in bytes.
pub(super) const WHOLE_BYTES_MAX: usize = 8 << 10;

/// Bulk lines that get their memory at once: what the system maps at a fault.
const BACKED_LINES: u64 = (sys::ZEROS_BYTES / LINE_BYTES) as u64;

/// In a burst the writer fetches the slot this many packets ahead, whose line the reader used last: 27 ns a
/// message, not 58.
const WRITE_AHEAD_SLOTS: u32 = 4;

/// The writing side.
pub(crate) struct Sender {
    pub(super) ring: Ring,
    /// Packets sent.
    pub(super) next: u32,
    areas: Areas,
    pub(super) lines: [Lines; AREAS_COUNT],
    /// Slots that the reader has released, as far as is known.
    pub(super) released_slots: u32,
    /// `released` at the last look.
    seen: [u64; AREAS_COUNT],
    /// Area and first of the lines to fetch when there is time, and how many.
    unfetched: (usize, u64, u64),
    processor: Processor,
    /// The reader has a CPU of its own, and so may copy while we do.
    is_watched: bool,
    /// The reader's CPU is of another core: long data are copied as suits that.
    pub(crate) is_of_other_core: bool,
    trials: Trials,
    /// Lines of the packets in blocks.
    block_lines: u64,
    /// Of the bulk lines, those whose memory is there, and where there is more.
    backed_count: u64,
    backing: Option<Backing>,
    /// The announcement to make before the first packet.
    announcement: Option<Announcement>,
    /// The first packet, or what is said before it, has been sent.
    has_begun: bool,
}

impl Sender {
    /// `is_watched`: the reader has a CPU of its own, and so may copy while we do.
    pub(crate) fn new(ring: Ring, is_watched: bool) -> Self {
        Self::on(Processor::here(), ring, is_watched)
    }

    pub(super) fn on(processor: Processor, ring: Ring, is_watched: bool) -> Self {
        let ring = ring.checked();
        let areas = Areas::of(&ring, &processor);
        let [near, bulk] = areas.each;
        Self {
            ring,
            next: 0,
            areas,
            lines: [Lines::new(near, processor.reuses_first), Lines::new(bulk, false)],
            // Full, so that the first packet makes us begin and those after it do not ask.
            released_slots: 0u32.wrapping_sub(ring.slots_count()),
            seen: [0; AREAS_COUNT],
            unfetched: (NEAR, 0, 0),
            trials: Trials::new(processor.may_stream),
            processor,
            is_watched,
            is_of_other_core: false,
            block_lines: 0,
            backed_count: 0,
            backing: None,
            announcement: None,
            has_begun: false,
        }
    }

    /// Whether the reader's CPU is of another core than ours.
    pub(crate) fn reader_on_other_core(mut self, is_so: bool) -> Self {
        self.is_of_other_core = is_so;
        self
    }

    /// Where the memory of the bulk lines lies.
    pub(crate) fn backed_by(mut self, backing: Backing) -> Self {
        self.backing = Some(backing);
        self
    }

    /// Says this before its first packet.
    pub(crate) fn announcing(mut self, announcement: Announcement) -> Self {
        self.announcement = Some(announcement);
        self
    }

    #[cold]
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        self.ring.counts.filled.areas.store(self.areas.word(), Ordering::Relaxed);
        if let Some(announcement) = self.announcement.take() {
            announcement.make();
        }
        self.released_slots = self.next;
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
            return self.push_longer(header, payload, back);
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
    fn push_longer(&mut self, header: &[u8], payload: [&[u8]; 2], back: &mut Receiver) -> Result<(), Full> {
        let payload_bytes = payload[0].len() + payload[1].len();
        if header.len() + payload_bytes > PAIR_BYTES {
            return self.push_long(header, payload, back);
        }
        let skipped = self.next;
        let is_skipping = is_odd(skipped);
        if !self.has_slots(2 + u32::from(is_skipping)) {
            return Err(Full);
        }
        self.next = skipped.wrapping_add(is_skipping.into());
        let pair = self.ring.pair(self.next);
        let odd = word_of(self.next.wrapping_add(2), SKIPPED, 0);
        cell::write_pair(&pair.bytes, header, payload, || pair.odd.store(odd, Ordering::Relaxed));
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
    fn push_long(&mut self, header: &[u8], payload: [&[u8]; 2], back: &mut Receiver) -> Result<(), Full> {
        assert!(header.len() <= HEADER_BYTES_MAX, "header of {} bytes", header.len());
        let payload_bytes = payload[0].len() + payload[1].len();
        let data_bytes = data_bytes(header.len(), payload_bytes);
        let data_bytes_max = self.areas.data_bytes_max();
        assert!(
            data_bytes <= data_bytes_max,
            "packet with {data_bytes} bytes of data, at most {data_bytes_max}"
        );
        if let Some(said) = back.heard.take() {
            self.lines[NEAR].learn(said);
        }
        let need = lines_for(data_bytes);
        if header.len() <= START_AT && self.processor.takes_block(need) && self.is_of_other_core {
            if !self.has_slots(1) {
                return Err(Full);
            }
            if let Some(block) = back.blocks.take(need) {
                self.push_in_block(header, payload, block, back);
                return Ok(());
            }
        }
        self.push_in_lines(header, payload, need, back)
    }

    fn push_in_lines(
        &mut self,
        header: &[u8],
        payload: [&[u8]; 2],
        need: u64,
        back: &Receiver,
    ) -> Result<(), Full> {
        let payload_bytes = payload[0].len() + payload[1].len();
        let area = self.areas.area_of(need);
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
        let lines = self.ring.run(&self.areas, area, start, need);
        self.lines[area].take(start, need);
        let end = self.areas.each[area].index_of(start) + need;
        if area == BULK && end > self.backed_count {
            self.back(end);
        }
        let pair = self.ring.pair(self.next);
        if header.len() <= SLOT_BYTES {
            let is_told = has_place && (flag != 0 || SHORT_RUN.contains(&need));
            let told = is_told.then_some([start, back.next_line[NEAR]]);
            let is_longer = need > UNSTREAMED_LINES_MAX;
            if is_longer && payload_bytes >= self.in_pieces_bytes_min() && payload[1].is_empty() {
                self.write_header(header, told);
                let way = self.manner(area);
                self.write_in_pieces(header.len(), (area, start, flag), lines, payload[0], way);
            } else {
                // Before the header, as in a pair.
                if is_longer {
                    self.write_longer(area, lines, payload);
                } else {
                    cell::write_run(lines, [payload[0], payload[1], &[]], Manner::Plain);
                }
                self.write_header(header, told);
                self.publish(pair, header.len(), payload_bytes | flag);
            }
        } else {
            cell::write_run(lines, [header, payload[0], payload[1]], Manner::Plain);
            self.publish(pair, header.len(), payload_bytes | flag);
        }
        self.prefetch_next(area, need);
        Ok(())
    }

    /// Writes a header that fits the next slot, and behind one that leaves room what is told.
    #[inline]
    fn write_header(&self, header: &[u8], told: Option<[u64; 2]>) {
        // SAFETY: the slot is ours (rule 4); the header fits, and what is behind it where it is told.
        self.ring.bytes(self.next).write(|to| unsafe {
            sys::copy_short(header, to);
            if let Some(words) = told {
                to.add(START_AT).cast::<[u64; 2]>().write_unaligned(words);
            }
        });
    }

    /// A packet of which the data go into a block that the reader gets with it (rule 7).
    fn push_in_block(&mut self, header: &[u8], payload: [&[u8]; 2], block: usize, back: &Receiver) {
        let payload_bytes = payload[0].len() + payload[1].len();
        let need = lines_for(payload_bytes);
        let lines = back.blocks.run(block, need);
        let told = Some([block as u64, back.next_line[NEAR]]);
        let start = self.block_lines;
        self.block_lines += need;
        if self.is_watched && payload_bytes > WHOLE_BYTES_MAX && payload[1].is_empty() {
            self.write_header(header, told);
            let run = (BLOCKS, start, IN_BLOCK);
            self.write_in_pieces(header.len(), run, lines, payload[0], (false, false));
        } else {
            cell::write_run(lines, [payload[0], payload[1], &[]], Manner::Plain);
            self.write_header(header, told);
            self.publish(self.ring.pair(self.next), header.len(), payload_bytes | IN_BLOCK);
        }
    }

    /// Has the system provide the memory of the bulk lines before the `end`-th, in stretches: so that takes
    /// 1.5 µs a page on both sides, and where each page is provided when it is used 3.5. Where it is
    /// refused, it is provided so. After the first lines that of all others at once, 1 ms for 2 MiB: who
    /// measures which way messages are quicker would else find each of the next 64 of 32 KiB slow.
    #[cold]
    fn back(&mut self, end: u64) {
        let all = self.areas.each[BULK].count;
        let end = if end > PROVIDED_FIRST_LINES { all } else { end };
        while self.backed_count < end {
            let begin = self.backed_count as usize;
            self.backed_count = (self.backed_count + BACKED_LINES).min(all);
            let lines = &self.ring.areas[BULK][begin..self.backed_count as usize];
            if let Some(backing) = &self.backing {
                backing.provide(begin, lines);
            }
        }
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
    #[inline(never)]
    fn write_in_pieces(
        &mut self,
        header_bytes: usize,
        (area, start, flag): (usize, u64, usize),
        lines: &[Line],
        payload: &[u8],
        (is_streamed, is_trial): (bool, bool),
    ) {
        let filled = &self.ring.counts.filled.lines[area];
        self.publish(self.ring.pair(self.next), header_bytes, payload.len() | IN_PIECES | flag);
        let through = self.processor.piece_lines(area, lines.len());
        let (count, manner) = match is_streamed {
            true => (STREAMED_PIECE_LINES, Manner::Streaming),
            false if self.copies_page_wise() => (through, Manner::PageWise),
            false => (through, Manner::Plain),
        };
        let began = is_trial.then(Instant::now);
        let mut end = start;
        for (lines, piece) in lines.chunks(count).zip(payload.chunks(count * LINE_BYTES)) {
            cell::write_run(lines, [piece, &[], &[]], manner);
            end += lines.len() as u64;
            filled.store(end, Ordering::Release);
        }
        self.trials.learn(is_streamed, lines.len(), began.map(|began| began.elapsed()));
    }

    /// Whether the reader's core is a near one. `None`: trials will show.
    pub(crate) fn is_near(&self) -> Option<bool> {
        match self.is_of_other_core {
            true if self.processor.packets_beat_kernel => Some(true),
            true => self.trials.are_near(),
            false => Some(false),
        }
    }

    /// How pieces of a packet that comes from the same rank with so many bytes in lines are copied out.
    pub(crate) fn manner_out(&self, bytes_in_lines: usize) -> Manner {
        match bytes_in_lines > self.processor.loop_out_above_bytes {
            _ if self.copies_page_wise() => Manner::PageWise,
            true => Manner::InLoop,
            false => Manner::Plain,
        }
    }

    /// Whether pieces are copied several pages side by side.
    fn copies_page_wise(&self) -> bool {
        self.is_of_other_core && self.processor.copies_page_wise
    }

    /// Shortest payload that goes in pieces, in bytes.
    fn in_pieces_bytes_min(&self) -> usize {
        match self.is_watched {
            true if self.trials.streams() => WHOLE_BYTES_MAX + 1,
            true => self.processor.in_pieces_bytes_min,
            false => usize::MAX,
        }
    }

    /// A longer payload that is not in pieces.
    #[inline(never)]
    fn write_longer(&mut self, area: usize, lines: &[Line], payload: [&[u8]; 2]) {
        let (is_streamed, is_trial) = self.manner(area);
        let began = is_trial.then(Instant::now);
        let manner = if is_streamed { Manner::Streaming } else { Manner::Plain };
        cell::write_run(lines, [payload[0], payload[1], &[]], manner);
        self.trials.learn(is_streamed, lines.len(), began.map(|began| began.elapsed()));
    }

    /// Whether a longer packet is written past the caches, and whether to measure how long it takes.
    /// Lines that the reader has not read yet are in this rank's own caches and tell nothing.
    pub(super) fn manner(&mut self, area: usize) -> (bool, bool) {
        let is_first_round = self.lines[area].next <= self.areas.each[area].count;
        if is_first_round || !self.is_of_other_core { (false, false) } else { self.trials.next() }
    }

    /// Fetches the lines of a next packet of the same length while the reader does not wait for us. The
    /// reader's cache still has them from the last round, and fetching 4 KiB of them one by one while writing
    /// costs a tenth to a fifth of the latency. Bulk lines later ([`prefetch_rest`](Self::prefetch_rest)):
    /// the next packet may be of the same message, for which the reader does wait. 256 KiB take 16.7 µs so,
    /// and 17.8 where lines are fetched between its packets.
    fn prefetch_next(&mut self, area: usize, need: u64) {
        // For a trial neither: it is to see what lines take that nobody had time to fetch.
        if need > UNSTREAMED_LINES_MAX && (self.trials.streams() || self.trials.is_due()) {
            return;
        }
        let lines = &self.lines[area];
        let Some(start) = lines.known_start(need, lines.in_turn(need)) else { return };
        let count = need.min(PREFETCH_LINES_MAX);
        let now = if area == BULK { 0 } else { count.min(self.processor.prefetch_count) };
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
        for line in self.ring.run(&self.areas, area, start, count) {
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
        if !self.has_begun {
            return self.begin();
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{BLOCK_BEGIN_LINES, BLOCKS_COUNT_MAX, PACKET_BYTES_MAX, block_lines};
    use super::*;

    #[test]
    fn copies_out_and_near_cores_depend_on_the_processor() {
        let to = |processor, is_of_other_core| {
            let sender = Sender::on(processor, super::super::tests::ring(16, [1024, 8192]), true);
            sender.reader_on_other_core(is_of_other_core)
        };
        let long = (128 << 10) + 1;
        for (processor, manners, is_near) in [
            (Processor::ANY, [Manner::PageWise; 2], Some(false)),
            (Processor::AMD, [Manner::Plain; 2], None),
            (Processor::ZEN_5, [Manner::Plain, Manner::InLoop], Some(true)),
        ] {
            let sender = to(processor, true);
            assert_eq!([0, long].map(|bytes| sender.manner_out(bytes)), manners);
            assert_eq!(sender.manner_out(long - 1), manners[0]);
            assert_eq!((sender.is_near(), to(processor, false).is_near()), (is_near, Some(false)));
        }
    }

    /// `bench/past.h` copies as this does, without the library.
    #[test]
    fn the_benchmarks_copy_in_the_same_pieces() {
        let text = include_str!("../../../../bench/past.h");
        let kib = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("#define {name}_KIB ")));
            let value = value.and_then(|value| value.split(' ').next());
            1_024 * value.and_then(|value| value.parse::<usize>().ok()).expect(name)
        };
        let lines = |name| kib(name) / LINE_BYTES;
        let (any, amd) = (Processor::ANY, Processor::AMD);
        assert_eq!(any.in_pieces_bytes_min, kib("PIECES_FROM"));
        assert_eq!(any.piece_lines[NEAR], (lines("PIECE_MIN"), lines("PIECE_MAX")));
        assert_eq!(any.piece_lines[BULK], (lines("BULK_PIECE"), lines("BULK_PIECE")));
        assert_eq!(any.near_run_max, lines("BULK_FROM"));
        assert_eq!(amd.in_pieces_bytes_min, kib("AMD_PIECES_FROM"));
        assert_eq!(amd.piece_lines, [(lines("AMD_PIECE_MIN"), lines("AMD_PIECE_MAX")); 2]);
        assert_eq!(Processor::ZEN_5.piece_lines, [(lines("ZEN_5_PIECE_MIN"), lines("ZEN_5_PIECE_MAX")); 2]);
        assert_eq!(STREAMED_PIECE_LINES, lines("PAST_PIECE"));
        assert_eq!(amd.piece_lines(BULK, usize::MAX), lines("EIGHTH_MAX"));
        assert_eq!(WHOLE_BYTES_MAX, kib("PAST_PIECES_ABOVE"));
        assert_eq!(Processor::ZEN_5.loop_out_above_bytes, kib("ZEN_5_LOOP_OUT_ABOVE"));
        assert_eq!(any.block_lines_min, amd.block_lines_min);
        let in_lines = [WHOLE_BYTES_MAX + 1, 16 << 10].map(|bytes| lines_for(bytes) as usize);
        for lines_count in in_lines {
            let [in_block, in_near] = [BLOCKS, NEAR].map(|area| any.piece_lines(area, lines_count));
            assert_eq!(in_block, in_near);
        }
        assert_eq!(any.block_lines_max, lines("NO_BLOCK_ABOVE") as u64);
        assert_eq!(amd.block_lines_max, u64::MAX);
        let no_block = format!("#define NO_BLOCK_BYTES {}\n", (amd.block_lines_min - 1) * LINE_BYTES as u64);
        assert!(text.contains(&no_block) && text.contains("#define BLOCKS 8\n"), "{no_block}");
        assert_eq!(PACKET_BYTES_MAX, kib("AMD_PACKET"));
        assert!(text.contains("#define BLOCK_BYTES ((size_t)(AMD_PACKET_KIB + 16) << 10)\n"));
        let block_bytes = block_lines(4 * PACKET_BYTES_MAX / LINE_BYTES) * LINE_BYTES;
        assert_eq!((BLOCKS_COUNT_MAX, block_bytes), (8, kib("AMD_PACKET") + (16 << 10)));
        assert_eq!(BLOCK_BEGIN_LINES, lines("BLOCK_BEGIN"));
    }
}
