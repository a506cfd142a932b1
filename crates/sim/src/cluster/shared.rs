//! Messages within a host: what their copies and cache lines take.
//!
//! A packet is written, its first line goes to its reader's core, one line after the other, and the reader
//! fetches the others when it reads. A longer one goes in pieces, copied in and out at once where the reader
//! waits for it: where the description says which ones do so, packets whose time it gives by length, too. Its
//! writer then takes the lines back that it writes next, which the reader had last: while
//! the other reads, or, where both send, before either does. Or the kernel copies for who reads.

use ayatori_core::device::profiles;
use ayatori_core::wire::{self, Header};
use ayatori_fabric::description::{LongerTime, RateWithin};

use super::fabric::{Cargo, Fabric, Flight, MEMORY_RAIL, Pieces, RankState};
use super::software::{GetTimes, KernelCopy, MemoryWork};
use super::{Config, Software, software};

/// A cache line, bytes.
const LINE_BYTES: u64 = 64;
/// So much comes with a packet's first line: processors fetch lines in pairs.
pub(super) const PAIR_BYTES: u64 = 2 * LINE_BYTES;
/// Payload that is in one line with its packet's header, bytes.
pub(super) const IN_LINE_BYTES: u64 = 32;
/// Packets of so many bytes are written and read a piece at a time, by both sides at once, where neither
/// keeps the other off its core and the description does not say which are (`pieces`).
const IN_PIECES_BYTES_MIN: usize = 10 << 10;
/// Such a piece, of packets up to [`NEAR_BYTES_MAX`] and of longer ones, bytes.
const PIECE_BYTES: [usize; 2] = [4 << 10, 16 << 10];
/// So much is under way to a core at once: a dozen lines and some.
const UNDER_WAY_BYTES: u64 = 16 * LINE_BYTES;
/// Up to so many bytes packets take what is given by their length, longer ones what is given of long ones
/// ([`Rates::relay`](super::Rates)), bytes.
pub(super) const NEAR_BYTES_MAX: usize = 32 << 10;

/// Packets up to so many bytes take no block, bytes.
const NO_BLOCK_BYTES: usize = 512;

impl Fabric {
    /// Whether a packet goes in a block, which its receiver has then.
    pub(super) fn take_block(&mut self, from: u32, to: u32, rail: u8, payload_bytes: usize) -> bool {
        let rates = &self.config.rates;
        let longest = rates.block_packets.last().map_or(0, |time| time.bytes);
        let is_known = payload_bytes as u64 <= longest || longest > 0 && !rates.block_relay.is_empty();
        let is_oversubscribed = self.cores.occupancy().is_oversubscribed();
        if payload_bytes <= NO_BLOCK_BYTES
            || !is_known
            || rail != MEMORY_RAIL
            || is_oversubscribed
            || !self.is_fetched(from, to)
        {
            return false;
        }
        let count = self.blocks_count(from, to);
        let takes = *count > 0;
        *count -= u32::from(takes);
        takes
    }

    /// A packet in a block has been taken by a process, which has the block for one to its sender.
    pub(super) fn give_block(&mut self, to: u32, from: u32) {
        *self.blocks_count(to, from) += 1;
    }

    fn blocks_count(&mut self, from: u32, to: u32) -> &mut u32 {
        let first = profiles::shm_blocks_count(self.config.processes_per_host);
        self.blocks_counts.entry((from, to)).or_insert(first)
    }

    /// A packet or transfer within a host sets off. When it arrives.
    pub(super) fn within_host(&mut self, handle: u32) -> u64 {
        let Flight { from, to, ref cargo, .. } = self.flights[handle];
        let bytes = self.flights[handle].bytes();
        let is_packet = cargo.is_packet();
        let pieces = if let Cargo::Packet { pieces, .. } = cargo { *pieces } else { None };
        let (host, now_ps) = (self.host_of(from) as usize, self.network.now_ps());
        let relayed_ps = pieces.and_then(|pieces| self.both_ps(from, pieces, bytes as usize));
        // One picosecond at least, so that what leaves first arrives first.
        let copy_ps = relayed_ps.unwrap_or_else(|| self.move_ps(bytes)).max(1);
        let line_ps = self.line_ps(from, to);
        if relayed_ps.is_none() && is_packet && self.is_fetched(from, to) {
            if let Cargo::Packet { pieces: Some(Pieces { last_ps, .. }), .. } =
                &mut self.flights[handle].cargo
            {
                *last_ps += line_ps;
            }
            let line_free_ps = &mut self.states[to as usize].line_free_ps;
            *line_free_ps = now_ps.max(*line_free_ps) + line_ps;
            return *line_free_ps + 1;
        }
        // What was measured from core to core is what one core gets; others get theirs at the same time.
        let free_ps = if self.is_fetched(from, to) {
            &mut self.states[to as usize].fetched_ps
        } else {
            self.memory_busy_ps[host] += copy_ps;
            &mut self.memory_free_ps[host]
        };
        let from_ps = now_ps.max(*free_ps);
        let mut done_ps = from_ps + copy_ps;
        *free_ps = done_ps;
        if !is_packet {
            done_ps = done_ps.max(self.transfer_within(handle));
        }
        if let Some(pieces @ Pieces { piece_bytes, last_ps, .. }) = pieces {
            let piece_ps = (u128::from(copy_ps) * piece_bytes as u128 / u128::from(bytes)) as u64;
            // The way from core to core is part of what was measured of both sides' copies.
            let (way_ps, rest_ps) =
                if relayed_ps.is_some() { (1, copy_ps - piece_ps.min(copy_ps)) } else { (piece_ps, copy_ps) };
            let last_ps = (from_ps + rest_ps).max(last_ps + way_ps) + line_ps;
            if let Cargo::Packet { pieces: its, .. } = &mut self.flights[handle].cargo {
                *its = Some(Pieces { last_ps, ..pieces });
            }
            // Its first line comes after those that are under way, of which the last is there 1 ps later.
            let line_free_ps = &mut self.states[to as usize].line_free_ps;
            *line_free_ps = (from_ps + way_ps + line_ps).max(*line_free_ps + 2);
            return *line_free_ps;
        }
        done_ps + line_ps
    }

    /// Whether a packet waits where it was written until its reader fetches it. What was measured of packets
    /// in pieces is of both sides.
    pub(super) fn is_read_later(&self, from: u32, to: u32, rail: u8, pieces: Option<Pieces>) -> bool {
        let is_relayed = pieces.is_some_and(|pieces| self.both_ps(from, pieces, 1).is_some());
        rail == MEMORY_RAIL && self.is_fetched(from, to) && !is_relayed
    }

    /// Whether the sender of a packet takes the lines back of the next one.
    pub(super) fn takes_back(&self, from: u32, to: u32, rail: u8, pieces: Option<Pieces>) -> bool {
        let is_long = pieces.is_some_and(|pieces| pieces.payload_bytes > NEAR_BYTES_MAX);
        let is_short_fetched = !is_long && rail == MEMORY_RAIL && self.is_fetched(from, to);
        is_short_fetched || self.is_read_later(from, to, rail, pieces)
    }

    /// A process that has written a packet takes the lines of the next one back from its reader's core. It
    /// goes on when the last of them are under way.
    pub(super) fn take_back(&mut self, rank: u32, packet_bytes: u64) {
        let Some(rate) = self.config.software.lines_back_bytes_per_s else { return };
        if packet_bytes <= PAIR_BYTES {
            return;
        }
        let now_ps = self.clock_ps(rank);
        let way_ps = |fabric: &Fabric, bytes| {
            let alone_ps = software::at_rate(bytes, Some(rate));
            fabric.at_once_ps(rank, |among| &among.lines_back, packet_bytes, alone_ps)
        };
        let [all_ps, under_way_ps] = [packet_bytes, UNDER_WAY_BYTES].map(|bytes| way_ps(self, bytes));
        let back_ps = &mut self.states[rank as usize].back_ps;
        *back_ps = now_ps.max(*back_ps) + all_ps;
        let asked_ps = back_ps.saturating_sub(under_way_ps);
        self.spend(rank, asked_ps.saturating_sub(now_ps));
    }

    /// Whether a reader fetches the lines of packets itself.
    fn is_fetched(&self, from: u32, to: u32) -> bool {
        self.config.profile.is_some() && self.line_ps(from, to) > 0
    }

    /// What so many bytes of data in shared memory take by these times, ps: until the first lines have come,
    /// which is a line's way or all of what the least that was measured takes, and more. `None`: it was not
    /// measured.
    pub(super) fn handed_ps(&self, times: &[LongerTime], bytes: u64) -> Option<[u64; 2]> {
        let all_ps = software::longer_ps(times, PAIR_BYTES, bytes)?;
        let wait_ps = self.config.memory_latency_ps.min(times[0].more_ps);
        Some([wait_ps, all_ps.saturating_sub(wait_ps)])
    }

    /// Bytes from core to core, ps.
    pub(super) fn move_ps(&self, bytes: u64) -> u64 {
        let moved = u128::from(bytes) * 1_000_000_000_000;
        (moved / u128::from(self.config.memory_bytes_per_s)) as u64
    }

    /// What a process takes to copy so much payload of a packet that one on another core has written, ps: its
    /// lines come, and it copies them out of its first cache. Or the copy alone, which takes it `copy_ps`,
    /// where that is more.
    pub(super) fn take_packet_ps(&self, handle: u32, payload_bytes: u64, copy_ps: u64) -> u64 {
        let rank = self.flights[handle].to;
        let alone_ps = self.take_packet_alone_ps(handle, payload_bytes, copy_ps);
        self.at_once_ps(rank, |among| &among.moved, payload_bytes, alone_ps)
    }

    fn take_packet_alone_ps(&self, handle: u32, payload_bytes: u64, copy_ps: u64) -> u64 {
        let Flight { from, to, rail, ref cargo, .. } = self.flights[handle];
        let Cargo::Packet { pieces, header_bytes, is_in_block, .. } = *cargo else { return copy_ps };
        if !self.is_read_later(from, to, rail, pieces) {
            return copy_ps;
        }
        let hot = self.config.software.hot_copy_bytes_per_s;
        let hot_ps = |bytes| hot.map_or(copy_ps, |rate| software::at_rate(bytes, Some(rate)));
        let (rates, bytes) = (&self.config.rates, payload_bytes + header_bytes as u64);
        // Lines beside the first are asked for once that has been seen.
        let wait_ps = if bytes > PAIR_BYTES { self.line_ps(from, to) } else { 0 };
        // Of a packet that was there when the one before had been taken the first line has come meanwhile.
        let is_in_row = !is_in_block && self.flights[handle].arrived_ps <= self.states[to as usize].took_ps;
        let in_row_ps = software::longer_ps(&rates.longer_packets_in_row, IN_LINE_BYTES, payload_bytes);
        if let Some(more_ps) = in_row_ps.filter(|_| is_in_row) {
            return wait_ps + copy_ps.max(more_ps);
        }
        let times = self.longer_packets(is_in_block);
        if let Some(more_ps) = software::longer_ps(times, IN_LINE_BYTES, payload_bytes) {
            // Its sender has copied it, too.
            return copy_ps.max(more_ps.saturating_sub(hot_ps(payload_bytes)));
        }
        wait_ps + copy_ps.max(hot_ps(bytes) + self.move_ps(bytes.saturating_sub(LINE_BYTES)))
    }

    /// How such a packet goes in pieces, of which nothing is written yet, if it does.
    pub(super) fn pieces(&self, rail: u8, payload_bytes: usize, is_in_block: bool) -> Option<Pieces> {
        let Software { send_copies, receive_copies, checksum_bytes_per_s, .. } = self.config.software;
        let is_shm = rail == MEMORY_RAIL && self.config.profile.is_some();
        let is_plain = (send_copies, receive_copies, checksum_bytes_per_s) == (1, 1, None);
        let is_watched = !self.cores.occupancy().is_oversubscribed();
        if !(is_shm && is_plain && is_watched) {
            return None;
        }
        let rates = &self.config.rates;
        let known = if is_in_block { &rates.block_pieces } else { &rates.pieces };
        let piece_bytes = match known.as_slice() {
            [] if is_in_block => return None,
            [] if payload_bytes < IN_PIECES_BYTES_MIN => return None,
            [] => PIECE_BYTES[usize::from(payload_bytes > NEAR_BYTES_MAX)],
            known => known.iter().rev().find(|from| from.bytes <= payload_bytes as u64)?.piece_bytes as usize,
        };
        (piece_bytes < payload_bytes).then_some(Pieces {
            payload_bytes,
            piece_bytes,
            is_in_block,
            last_ps: 0,
        })
    }

    /// Whether processes have the kernel copy from others' memory.
    pub(super) fn kernel_copies(&self) -> bool {
        self.kernel_copy_ps(0, 0).is_some()
    }

    /// A process has the kernel copy from another's memory, which copies some of it if it waits.
    pub(super) fn copy_by_kernel(&mut self, rank: u32, peer: u32, bytes: usize) {
        let GetTimes { call_ps, library_ps } = self.get_times(rank, peer);
        self.spend(rank, library_ps);
        let piece_bytes = profiles::shm_piece_bytes(bytes).filter(|_| self.may_help(rank, peer));
        // The reader of an odd number of pieces copies one more.
        let [own_bytes, calls_count] = piece_bytes.map_or([bytes, 1], |piece_bytes| {
            let own_count = bytes.div_ceil(piece_bytes).div_ceil(2);
            [own_count * piece_bytes, own_count]
        });
        let copy_ps = self.kernel_copy_ps(rank, own_bytes).unwrap_or(0);
        let work = MemoryWork::copy(calls_count as u64 * call_ps + copy_ps, own_bytes);
        let time_ps = self.work_ps(rank, 0, work);
        if piece_bytes.is_some() {
            let start_ps = self.clock_ps(rank);
            let state = &mut self.states[peer as usize];
            state.clock_ps = state.clock_ps.max(start_ps);
            self.spend_in_kernel(peer, time_ps);
        }
        self.spend_in_kernel(rank, time_ps);
        self.note_kernel_copy(rank, peer);
    }

    /// Whether `peer` waits and has nothing else to do, so that it copies some of what `rank` gets from it.
    /// Of two that have announced messages to each other, each has its own get to make.
    fn may_help(&self, rank: u32, peer: u32) -> bool {
        let is_shm = self.config.profile.is_some() && !self.cores.occupancy().is_oversubscribed();
        let [own, other] = [rank, peer].map(|rank| &self.states[rank as usize]);
        let gets_itself = own.announced.is_some_and(|(to, at_ps)| {
            let has_got = other.kernel_copied.is_some_and(|(from, end_ps)| from == rank && end_ps >= at_ps);
            to == peer && !has_got
        });
        let is_free = other.is_waiting && other.clock_ps <= self.clock_ps(rank);
        is_shm && peer != rank && is_free && !gets_itself
    }

    /// A process sends a packet to another one of its host.
    pub(super) fn note_announced(&mut self, rank: u32, peer: u32, header: &[u8]) {
        if matches!(wire::parse(header), Ok((_, Header::Rts { .. }, _))) {
            self.states[rank as usize].announced = Some((peer, self.clock_ps(rank)));
        }
    }

    /// What the bytes take that a process has the kernel copy from another's memory, ps.
    fn kernel_copy_ps(&self, rank: u32, bytes: usize) -> Option<u64> {
        let alone_ps = self.kernel_copy_alone_ps(rank, bytes)?;
        Some(self.at_once_ps(rank, |among| &among.kernel_copy, bytes as u64, alone_ps))
    }

    fn kernel_copy_alone_ps(&self, rank: u32, bytes: usize) -> Option<u64> {
        let RankState { working_set_bytes, writes_first, ref got_distances, .. } = self.states[rank as usize];
        let Config { software, rates, .. } = &self.config;
        let fresh_ps = || software::time_ps(&rates.fresh_kernel_copy, bytes as u64, working_set_bytes);
        if let Some(fresh_ps) = fresh_ps().filter(|_| writes_first) {
            return Some(fresh_ps);
        }
        let within_ps = |working_set_bytes| {
            software::time_ps(&rates.kernel_copy, bytes as u64, working_set_bytes)
                .or_else(|| software.kernel_copy_ps(bytes as u64, working_set_bytes))
        };
        within_ps(0)?;
        Some(got_distances.mean_ps(working_set_bytes, |bytes| within_ps(bytes).unwrap_or(0)))
    }

    /// What a message takes beside its bytes that a process has the kernel copy from `peer`. It is more while
    /// `peer` has the kernel copy from this one: each call changes what the other uses, too, and neither side
    /// waits when the word comes that its own message is in place.
    pub(super) fn get_times(&self, rank: u32, peer: u32) -> GetTimes {
        let Some(KernelCopy { alone, at_once, .. }) = self.config.software.kernel_copy else {
            return GetTimes::default();
        };
        let copied = self.states[peer as usize].kernel_copied;
        let is_at_once = copied.is_some_and(|(from, end_ps)| from == rank && self.clock_ps(rank) < end_ps);
        if is_at_once { at_once } else { alone }
    }

    /// The kernel has copied for a process from `peer`.
    pub(super) fn note_kernel_copy(&mut self, rank: u32, peer: u32) {
        self.states[rank as usize].kernel_copied = Some((peer, self.clock_ps(rank)));
    }

    /// What the receiver of a long packet in pieces takes after its sender, from when the last line has come,
    /// where that was measured.
    pub(super) fn last_part_ps(&self, handle: u32, pieces: Pieces) -> Option<u64> {
        let Flight { from, to, .. } = self.flights[handle];
        let is_long = pieces.payload_bytes > NEAR_BYTES_MAX && !self.relay(pieces.is_in_block).is_empty();
        let Software { relay_ends_ps, block_relay_ends_ps, .. } = self.config.software;
        let ends_ps = if pieces.is_in_block { block_relay_ends_ps } else { relay_ends_ps };
        let ends_ps = ends_ps.filter(|_| is_long)?;
        Some(ends_ps.saturating_sub(self.line_ps(from, to)))
    }

    /// Times of packets by their length.
    fn longer_packets(&self, is_in_block: bool) -> &[LongerTime] {
        let rates = &self.config.rates;
        if is_in_block { &rates.block_packets } else { &rates.longer_packets }
    }

    /// Rates of long packets that are copied in and out at once.
    fn relay(&self, is_in_block: bool) -> &[RateWithin] {
        let rates = &self.config.rates;
        if is_in_block { &rates.block_relay } else { &rates.relay }
    }

    /// What so many bytes of a packet in pieces take either side, ps: where that was measured, with the other
    /// side's copy and the way from core to core, else the copy.
    pub(super) fn piece_ps(&self, rank: u32, pieces: Pieces, bytes: usize) -> u64 {
        self.both_ps(rank, pieces, bytes).unwrap_or_else(|| self.copy_ps(rank, bytes))
    }

    /// What so many bytes of a packet in pieces take both sides at once; `None`: it was not measured.
    fn both_ps(&self, rank: u32, pieces: Pieces, bytes: usize) -> Option<u64> {
        let Config { rates, .. } = &self.config;
        let alone_ps = if pieces.payload_bytes > NEAR_BYTES_MAX {
            let working_set_bytes = self.states[rank as usize].working_set_bytes;
            software::time_ps(self.relay(pieces.is_in_block), bytes as u64, working_set_bytes)?
        } else {
            let Pieces { payload_bytes, piece_bytes, .. } = pieces;
            let payload_bytes = payload_bytes as u64;
            // Packets of this length were measured in pieces.
            let times = self.longer_packets(pieces.is_in_block);
            let longest = times.last().filter(|_| pieces.is_in_block || !rates.pieces.is_empty())?;
            let whole_ps = software::longer_ps(times, IN_LINE_BYTES, payload_bytes)
                .filter(|_| payload_bytes <= longest.bytes)?;
            // The first piece is copied in, and then both sides copy.
            let both_bytes = u128::from(payload_bytes) + piece_bytes as u128;
            let measured_ps = (u128::from(whole_ps) * bytes as u128 / both_bytes) as u64;
            measured_ps.max(self.copy_ps(rank, bytes))
        };
        Some(self.at_once_ps(rank, |among| &among.moved, bytes as u64, alone_ps))
    }
}
