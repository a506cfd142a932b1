//! The reading side of a ring (`ring.rs`).

use super::areas::Areas;
use super::word::{IN_BLOCK, IN_PIECES, PLACED, SKIPPED, data_bytes, is_odd, lengths, lines_for};
use super::{
    AREAS_COUNT, BLOCKS, BULK, Blocks, Line, NEAR, Ordering, PAIR_BYTES, PROVIDED_FIRST_LINES, Ring,
    SLOT_BYTES, START_AT, cell,
};
use crate::shm::processor::{FIRST_COUNT, Processor, SHORT_RUN};
use crate::shm::sys;
use ayatori_core::device::HEADER_BYTES_MAX;

/// In a burst the reader fetches the slot this many packets ahead while it works on this one.
const AHEAD_SLOTS: u32 = 2;

/// After this many empty polls the reader fetches the second line of a pair with each look at the first, so
/// that a packet in both is transferred at once; earlier it would take that line from the writer while it
/// fills it. Measured (medians of 48 interleaved runs, µs one way of 64 and 88 bytes): 0.35 and 0.35; from
/// the first poll on 0.38 and 0.37; never 0.39 and 0.39. 8 bytes take 0.28 in each of the three ways, and the
/// message rate is the same (10.8 million a second).
const EARLY_POLLS: u32 = 4;

/// The reading side.
pub(crate) struct Receiver {
    pub(super) ring: Ring,
    /// Packets released.
    pub(super) next: u32,
    /// Lines released of each area, with those skipped, and of blocks.
    pub(super) next_line: [u64; AREAS_COUNT + 1],
    /// As the writer has said (`is_told`). Packets without data lines do not need it.
    areas: Areas,
    is_told: bool,
    /// As published in `released` when the writer was to be woken, if it sleeps for want of room.
    pub(super) published_slots: u32,
    published_lines: [u64; AREAS_COUNT],
    /// Near lines as published last.
    published_near: u64,
    /// Where the run of the packet at the front starts, if its word says that it was placed, or its block.
    start: u64,
    /// The blocks that this rank and the writer hand to and fro.
    pub(super) blocks: Blocks,
    /// Near lines of the ring the other way that its reader has released, as the last packet said.
    pub(super) heard: Option<u64>,
    /// The word of the packet at the front, once seen.
    pub(super) word: u64,
    /// Polls since the last packet that found none.
    idle_polls: u32,
    /// The packet at the front has been reported as one in pieces.
    pub(super) is_announced: bool,
    /// Memory of all bulk lines is mapped, as far as the system does that beforehand.
    pub(super) has_mapped: bool,
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
        let ring = ring.checked();
        Self {
            ring,
            next: 0,
            next_line: [0; AREAS_COUNT + 1],
            areas: Areas::of(&ring, &Processor::ANY),
            is_told: false,
            published_slots: 0,
            published_lines: [0; AREAS_COUNT],
            published_near: 0,
            start: 0,
            blocks: Blocks::of(&Ring { blocks: &[], ..ring }, &Ring { blocks: &[], ..ring }, None),
            heard: None,
            word: 0,
            idle_polls: 0,
            is_announced: false,
            has_mapped: false,
        }
    }

    /// Packets come in these blocks, too.
    pub(crate) fn exchanging(mut self, blocks: Blocks) -> Self {
        self.blocks = blocks;
        self
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
        if header_bytes > HEADER_BYTES_MAX || !self.is_told && !self.hear_areas() {
            return Seen::Corrupt;
        }
        if data_bytes(header_bytes, payload_bytes) > self.areas.data_bytes_max() {
            return Seen::Corrupt;
        }
        let [is_placed, is_in_block] = [PLACED, IN_BLOCK].map(|flag| self.word as usize & flag != 0);
        let need = lines_for(payload_bytes);
        if header_bytes <= START_AT && (is_placed || is_in_block || SHORT_RUN.contains(&need)) {
            // SAFETY: the slot is ours until `release` (rules 2, 4).
            let [start, said] = unsafe { cell::words_in(self.ring.bytes(self.next), START_AT) };
            (self.start, self.heard) = (start, Some(said));
        }
        if is_in_block {
            // The writer's even numbers are our odd ones.
            self.start ^= 1;
            if is_placed || header_bytes > START_AT || !self.blocks.is_theirs(self.start) {
                return Seen::Corrupt;
            }
            self.blocks.map(self.start as usize, need);
        } else if is_placed && !self.is_place(header_bytes, payload_bytes) {
            return Seen::Corrupt;
        } else if !self.has_mapped && self.next_line[BULK] > PROVIDED_FIRST_LINES {
            self.map_bulk();
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

    /// Has the system map the memory of the bulk lines: the writer has used more than the first ones, and so
    /// has had all of it provided. That takes a sixth of a millisecond for 2 MiB; else each stretch of 64 KiB
    /// takes 6 µs when it is first read.
    #[cold]
    fn map_bulk(&mut self) {
        self.has_mapped = true;
        sys::map_for_reading(&self.ring.areas[BULK][..self.areas.each[BULK].count as usize]);
    }

    /// Reads how the writer uses the lines. Whether it can.
    #[cold]
    fn hear_areas(&mut self) -> bool {
        let word = self.ring.counts.filled.areas.load(Ordering::Relaxed);
        if let Some(areas) = Areas::of_word(word, &self.ring) {
            (self.areas, self.is_told) = (areas, true);
        }
        self.is_told
    }

    /// Whether the run of the packet at the front starts where one can (rule 6).
    fn is_place(&self, header_bytes: usize, payload_bytes: usize) -> bool {
        let need = lines_for(payload_bytes);
        let (next, near) = (self.next_line[NEAR], self.areas.each[NEAR]);
        header_bytes <= START_AT
            && self.areas.area_of(need) == NEAR
            && (next..next + 2 * near.count).contains(&self.start)
            && near.ends_before(self.start, need, near.count)
    }

    /// Whether [`poll`](Self::poll) would say something.
    pub(crate) fn is_ready(&self) -> bool {
        let word = self.ring.word(self.next).load(Ordering::Acquire);
        self.is_next(word) && (!self.is_announced || self.is_whole())
    }

    /// Lines of the packet in pieces at the front that are written, and how many it has. The writer may be at
    /// the next packet already; a count that no correct writer stores is none (rule 6).
    pub(super) fn filled_lines(&self) -> (u64, u64) {
        let (area, start, need) = self.run_counts();
        let filled = self.ring.counts.filled.lines[area].load(Ordering::Acquire);
        let count = filled.wrapping_sub(start);
        // Packets that are not read yet are of two rounds at most, or in as many blocks as there are.
        let most = if area == BLOCKS { self.blocks.lines_count() } else { 2 * self.areas.each[area].count };
        (if count <= most { count.min(need) } else { 0 }, need)
    }

    pub(super) fn is_whole(&self) -> bool {
        let (filled, need) = self.filled_lines();
        filled == need
    }

    /// Length of the payload of the packet at the front, if it is not in a block, else 0.
    pub(crate) fn bytes_in_lines(&self) -> usize {
        if self.word as usize & IN_BLOCK == 0 { lengths(self.word).1 } else { 0 }
    }

    /// The payload of the packet in pieces at the front from byte `from` on, as far as it is written.
    #[cfg(not(loom))]
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        let (_, payload_bytes) = lengths(self.word);
        let (filled, _) = self.filled_lines();
        // SAFETY: lines before `filled` are ours from `poll` to `release` (rules 3, 4).
        let data = unsafe { cell::run_bytes(&self.run()[..filled as usize]) };
        let end = data.len().min(payload_bytes);
        // A peer that misbehaves may call a packet shorter than what was read of it.
        &data[from.min(end)..end]
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
    pub(super) fn run(&self) -> &'static [Line] {
        match self.run_counts() {
            (BLOCKS, _, need) => self.blocks.run(self.start as usize, need),
            (area, start, need) => self.ring.run(&self.areas, area, start, need),
        }
    }

    /// Their area, the first, counted in lines since the beginning, and how many.
    #[inline]
    fn run_counts(&self) -> (usize, u64, u64) {
        let (header_bytes, payload_bytes) = lengths(self.word);
        if header_bytes + payload_bytes <= PAIR_BYTES {
            return (NEAR, self.next_line[NEAR], 0);
        }
        let need = lines_for(data_bytes(header_bytes, payload_bytes));
        if self.word as usize & IN_BLOCK != 0 {
            return (BLOCKS, self.next_line[BLOCKS], need);
        }
        let area = self.areas.area_of(need);
        let start = match self.word as usize & PLACED {
            0 => self.areas.each[area].start_in_turn(self.next_line[area], need),
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
        let is_many = if area == BLOCKS {
            self.blocks.give(self.start as usize);
            false
        } else {
            self.next_line[area] - self.published_lines[area] >= self.areas.each[area].count / 4
        };
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
