//! The device that a simulated process talks to: its NICs, and the memory it shares with its host's other
//! processes.

use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Full, Gap, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion, Submitted,
    Token, Work,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::{Duration, Instant};

use super::cpus::About;
use super::fabric::{Access, Arrived, Cargo, Fabric, MEMORY_RAIL, Pieces};
use super::shared::IN_LINE_BYTES;
use super::sockets::{self, FETCHED_BEHIND_BYTES};
use super::software::{self, MemoryWork};
use super::working_set::Distances;
use super::{Config, NicUse};

/// One process' view of the simulated fabric, made anew for each call into its
/// [`Process`](ayatori_core::Process). Rail 0 is the host's memory, the NICs follow.
pub struct Nic<'a> {
    pub(super) fabric: &'a mut Fabric,
    pub(super) me: u32,
}

impl Nic<'_> {
    /// The sender's software, for a packet with a payload or for a put or get.
    fn spend_to_send(&mut self, payload_bytes: usize) {
        let (send_ps, software) = (self.fabric.config.send_ps, self.fabric.config.software);
        let copies_ps = self.copies_ps(software.send_copies, payload_bytes, send_ps);
        let own_ps = send_ps + copies_ps + software.checksum_ps(payload_bytes as u64);
        let kernel_ps = software.send_kernel_ps;
        self.fabric.spend(self.me, own_ps);
        self.fabric.spend_in_kernel(self.me, kernel_ps);
    }

    /// What so many copies of a payload take the process, the first so long after its clock.
    fn copies_ps(&mut self, count: u32, bytes: usize, after_ps: u64) -> u64 {
        let own_ps = u64::from(count) * self.fabric.copy_ps(self.me, bytes);
        self.fabric.work_ps(self.me, after_ps, MemoryWork::copy(own_ps, bytes * count as usize))
    }

    /// Whether the process and those it talks to have just written what they send.
    pub(super) fn set_writes_first(&mut self, writes_first: bool) {
        self.fabric.states[self.me as usize].writes_first = writes_first;
    }

    /// Writes the first piece of a packet that goes in pieces, if it is one.
    fn begin_pieces(&mut self, rail: Rail, payload_bytes: usize, is_in_block: bool) -> Option<Pieces> {
        let pieces = self.fabric.pieces(rail.0, payload_bytes, is_in_block)?;
        let whole_ps = self.fabric.piece_ps(self.me, pieces, payload_bytes);
        let first_ps = self.fabric.piece_ps(self.me, pieces, pieces.piece_bytes);
        self.fabric.spend(self.me, self.fabric.config.send_ps + first_ps);
        let last_ps = self.fabric.clock_ps(self.me) + whole_ps.saturating_sub(first_ps);
        Some(Pieces { last_ps, ..pieces })
    }

    /// Either side's software for a message that was announced, where this packet asks for it in packets.
    fn announcement_ps(&self, rail: Rail, header: &[u8]) -> u64 {
        let Config { software, profile, .. } = &self.fabric.config;
        let each_ps = profile.map_or(0, |_| software.announce_ps / 2);
        let asks = || matches!(About::of(header), About::Match { keys, .. } if keys.is_empty());
        if each_ps > 0 && rail.0 == MEMORY_RAIL && asks() { each_ps } else { 0 }
    }

    /// Either side's software for a message in this packet, beside that for a short one.
    fn longer_software_ps(&self, rail: Rail, header: &[u8], payload_bytes: usize) -> u64 {
        let Config { rates, profile, .. } = &self.fabric.config;
        let is_shm = rail.0 == MEMORY_RAIL && profile.is_some();
        let Some(last) = rates.longer_software.last().filter(|_| is_shm && brings_envelope(header)) else {
            return 0;
        };
        let bytes = last.bytes.min(payload_bytes as u64);
        software::longer_ps(&rates.longer_software, IN_LINE_BYTES, bytes).unwrap_or(0) / 2
    }

    fn start_access(&mut self, rail: Rail, peer: ProcessId, access: Access, put: bool) -> Submitted {
        if rail.0 == MEMORY_RAIL && !put && self.fabric.kernel_copies() {
            self.fabric.copy_by_kernel(self.me, peer.0, access.local.len());
            return match self.fabric.read(access) {
                Ok(()) => Submitted::Done,
                Err(_) => Submitted::Refused,
            };
        }
        self.spend_to_send(0);
        if put {
            self.fabric.depart(self.me, self.me, peer.0, rail.0, Cargo::PutData(access));
        } else if rail.0 == MEMORY_RAIL {
            // The reader copies itself; nobody has to be asked.
            self.fabric.depart(self.me, peer.0, self.me, rail.0, Cargo::GetData(access));
        } else {
            self.fabric.depart(self.me, self.me, peer.0, rail.0, Cargo::GetRequest(access));
        }
        Submitted::Pending
    }
}

/// Whether a packet is a message, or announces one: it is matched with a receive.
fn brings_envelope(header: &[u8]) -> bool {
    matches!(About::of(header), About::Message(_))
}

impl Device for Nic<'_> {
    fn rails(&self) -> &[RailCapabilities] {
        &self.fabric.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        if !self.fabric.is_known(peer.0) {
            return RailSet::default();
        }
        if self.fabric.host_of(peer.0) == self.fabric.host_of(self.me) {
            return RailSet::one(Rail(MEMORY_RAIL));
        }
        let used = match self.fabric.config.nic_use {
            NicUse::Only(nics) => nics,
            NicUse::All | NicUse::OneEach => u64::MAX,
        };
        let nics = (1..self.fabric.rails.len() as u32).filter(|nic| used >> (nic - 1) & 1 == 1);
        RailSet(nics.map(|rail| 1 << rail).sum())
    }

    fn is_waiting(&self, peer: ProcessId) -> bool {
        self.fabric.host_of(peer.0) == self.fabric.host_of(self.me)
            && self.fabric.states[peer.0 as usize].is_waiting
    }

    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        let is_here = self.fabric.host_of(peer.0) == self.fabric.host_of(self.me);
        Some(is_here && self.fabric.config.software.cores_are_near == Some(true))
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        if self.fabric.refuses_packet(self.me, to.0, rail.0, header)
            || !self.fabric.connect(self.me, to.0, rail.0)
            || self.fabric.is_full(self.me, rail.0)
        {
            return Err(Full);
        }
        self.fabric.note_sent(self.me, to.0, header);
        if rail.0 == MEMORY_RAIL && self.fabric.kernel_copies() {
            self.fabric.note_announced(self.me, to.0, header);
        }
        let payload_bytes = payload_len(&payload);
        let more_ps =
            self.announcement_ps(rail, header) + self.longer_software_ps(rail, header, payload_bytes);
        self.fabric.spend(self.me, more_ps);
        let is_in_block = self.fabric.take_block(self.me, to.0, rail.0, payload_bytes);
        let pieces = self.begin_pieces(rail, payload_bytes, is_in_block);
        let mut bytes = header.to_vec();
        let mut virtual_bytes = 0;
        for piece in payload {
            match piece {
                Piece::Bytes(real) => bytes.extend_from_slice(real),
                Piece::Virtual(len) => virtual_bytes += len,
            }
        }
        let mut ahead_bytes = 0;
        if let Some(sockets) = self.fabric.sockets_of(rail.0) {
            ahead_bytes = self.send_by_socket(&sockets, rail, to, header, payload_bytes);
        } else if pieces.is_none() {
            self.spend_to_send(payload_bytes);
        }
        let header_bytes = header.len();
        let cargo = Cargo::Packet { bytes, header_bytes, virtual_bytes, pieces, is_in_block, ahead_bytes };
        let flight = self.fabric.prepare(self.me, to.0, rail.0, cargo);
        // One in pieces is on its way while the rest of it is written.
        match ahead_bytes > 0 && sockets::is_tailed(payload_bytes) {
            true => self.fabric.states[self.me as usize].tails.push(flight),
            false => self.fabric.leave(self.me, flight),
        }
        if let Some(Pieces { last_ps, .. }) = pieces {
            let rest_ps = last_ps.saturating_sub(self.fabric.clock_ps(self.me));
            self.fabric.spend(self.me, rest_ps);
        }
        if !is_in_block && self.fabric.takes_back(self.me, to.0, rail.0, pieces) {
            self.fabric.take_back(self.me, payload_bytes as u64);
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.fabric.send_tails(self.me);
    }

    fn poll(&mut self) -> Option<Event> {
        let arrived = self.next_arrived()?;
        let software = self.fabric.config.software;
        let mut cost_ps = self.fabric.config.receive_ps;
        let event = match arrived {
            Arrived::Completion(token, result, _) => Event::Completion(token, result),
            // The process is told of it by the way: no call of the system, no packet.
            Arrived::RailDown(rail, peer) => return Some(Event::RailDown(Rail(rail), ProcessId(peer))),
            Arrived::RailUp(rail, peer) => return Some(Event::RailUp(Rail(rail), ProcessId(peer))),
            Arrived::Packet(handle) => {
                let flight = &self.fabric.flights[handle];
                let (rail, from) = (Rail(flight.rail), ProcessId(flight.from));
                let Cargo::Packet { bytes, header_bytes, virtual_bytes, pieces, is_in_block, ahead_bytes } =
                    &flight.cargo
                else {
                    unreachable!("only packets are handed to processes")
                };
                let payload_bytes = bytes.len() - header_bytes + virtual_bytes;
                let has_given_block = *is_in_block;
                // What was read in parts went to its place, but for what the first read brought.
                let is_in_place = *ahead_bytes > 0;
                let copied_bytes =
                    payload_bytes.min(if is_in_place { FETCHED_BEHIND_BYTES } else { usize::MAX });
                let header = &bytes[..*header_bytes];
                cost_ps += self.announcement_ps(rail, header);
                cost_ps += self.longer_software_ps(rail, header, payload_bytes);
                let is_matched = software.match_ps > 0 && brings_envelope(header);
                cost_ps += match *pieces {
                    // The last piece is read when it has come, whatever was read before.
                    Some(pieces) => {
                        let rest_ps = pieces.last_ps.saturating_sub(self.fabric.clock_ps(self.me));
                        let take_ps = |bytes: usize| {
                            let copy_ps = self.fabric.piece_ps(self.me, pieces, bytes);
                            self.fabric.take_packet_ps(handle, bytes as u64, copy_ps)
                        };
                        let last_ps = self.fabric.last_part_ps(handle, pieces);
                        let last_ps = last_ps.unwrap_or_else(|| take_ps(pieces.piece_bytes));
                        take_ps(payload_bytes).max(rest_ps + last_ps)
                    }
                    None => {
                        let copies_ps = self.copies_ps(software.receive_copies, copied_bytes, cost_ps);
                        let take_ps = self.fabric.take_packet_ps(handle, payload_bytes as u64, copies_ps);
                        take_ps + software.checksum_ps(payload_bytes as u64)
                    }
                };
                if is_matched {
                    cost_ps += software.match_ps;
                }
                if has_given_block {
                    self.fabric.give_block(self.me, from.0);
                }
                Event::Packet(Incoming { rail, from, slot: handle.into() })
            }
        };
        self.fabric.spend(self.me, cost_ps);
        self.fabric.spend_in_kernel(self.me, software.receive_kernel_ps);
        if matches!(event, Event::Packet(_)) {
            self.fabric.states[self.me as usize].took_ps = self.fabric.clock_ps(self.me);
        }
        Some(event)
    }

    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        let Cargo::Packet { bytes, header_bytes, virtual_bytes, .. } =
            &self.fabric.flights[incoming.slot as u32].cargo
        else {
            unreachable!("only packets are handed to processes")
        };
        let (header, payload) = bytes.split_at(*header_bytes);
        let payload = if *virtual_bytes > 0 { Piece::Virtual(*virtual_bytes) } else { Piece::Bytes(payload) };
        Packet { header, payload }
    }

    fn release(&mut self, incoming: Incoming) {
        self.fabric.forget(incoming.slot as u32);
    }

    fn time(&self) -> Option<Instant> {
        // As the library's shared memory: its receiver compares packets with the kernel's copies.
        self.fabric.config.software.kernel_copy.map(|_| Instant(self.fabric.clock_ps(self.me)))
    }

    fn worked(&mut self, work: Work) {
        // Among ranks of one host `collective` counts it.
        if self.fabric.one_host().is_some() {
            return;
        }
        match work {
            Work::Copied(bytes) => self.fabric.spend_to_copy(self.me, bytes, &Distances::default()),
            Work::Reduced(bytes) => self.fabric.spend_to_reduce(self.me, [bytes, 1], &Distances::default()),
        }
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        if self.fabric.refuses_to_register(self.me, rail.0) {
            return None;
        }
        let cost_ps = self.fabric.config.software.registration_ps(buffer.len() as u64);
        self.fabric.spend_in_kernel(self.me, cost_ps);
        Some(self.fabric.register(buffer))
    }

    fn deregister(&mut self, _rail: Rail, key: RemoteKey) {
        self.fabric.deregister(key);
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        if self.fabric.refuses_to_put(rail.0, remote.key) {
            return Ok(Submitted::Refused);
        }
        let cpu = self.fabric.current_cpu(self.me);
        Ok(self.start_access(rail, to, Access { local, remote, token, cpu }, true))
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let cpu = self.fabric.current_cpu(self.me);
        Ok(self.start_access(rail, from, Access { local, remote, token, cpu }, false))
    }

    fn set_gap(&mut self, _rail: Rail, peer: ProcessId, gap: Gap) {
        self.fabric.set_gap(self.me, peer.0, gap);
    }

    fn hops(&self, peer: ProcessId) -> u32 {
        self.fabric.hop_count(self.me, peer.0)
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        self.fabric.reset(self.me, peer.0, rail.0);
    }

    fn heard(&mut self, _rail: Rail, _peer: ProcessId) -> Option<Duration> {
        // The far NIC acknowledges at once, however long its process computes.
        Some(Duration::ZERO)
    }

    fn arm(&mut self) -> Armed {
        self.flush();
        if self.fabric.has_arrived(self.me) { Armed::NotYet } else { Armed::Armed }
    }
}

#[cfg(test)]
mod tests;
