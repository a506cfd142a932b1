//! The device that a simulated process talks to: its NICs, and the memory it shares with its host's other processes.

use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Full, Gap, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion, Submitted,
    Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};

use super::fabric::{Access, Arrived, Cargo, Fabric, MEMORY_RAIL};

/// One process' view of the simulated fabric, made anew for each call into its [`Process`](ayatori_core::Process).
/// Rail 0 is the host's memory, the NICs follow.
pub struct Nic<'a> {
    pub(super) fabric: &'a mut Fabric,
    pub(super) me: u32,
}

impl Nic<'_> {
    fn start_access(&mut self, rail: Rail, peer: ProcessId, access: Access, put: bool) -> Submitted {
        let send_ps = self.fabric.config.send_ps;
        self.fabric.spend(self.me, send_ps);
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
        let nics = 1..self.fabric.rails.len() as u32;
        RailSet(nics.map(|rail| 1 << rail).sum())
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        if !self.fabric.connect(self.me, to.0, rail.0) || self.fabric.is_full(self.me, rail.0) {
            return Err(Full);
        }
        let copy_ps = self.fabric.copy_ps(payload_len(&payload));
        self.fabric.spend(self.me, self.fabric.config.send_ps + copy_ps);
        let mut bytes = header.to_vec();
        let mut virtual_bytes = 0;
        for piece in payload {
            match piece {
                Piece::Bytes(real) => bytes.extend_from_slice(real),
                Piece::Virtual(len) => virtual_bytes += len,
            }
        }
        let cargo = Cargo::Packet { bytes, header_bytes: header.len(), virtual_bytes };
        self.fabric.depart(self.me, self.me, to.0, rail.0, cargo);
        Ok(())
    }

    fn poll(&mut self) -> Option<Event> {
        let arrived = self.fabric.take_arrived(self.me)?;
        let mut cost_ps = self.fabric.config.receive_ps;
        let event = match arrived {
            Arrived::Completion(token, result) => Event::Completion(token, result),
            // The process is told of it by the way: no call of the system, no packet.
            Arrived::RailDown(rail, peer) => return Some(Event::RailDown(Rail(rail), ProcessId(peer))),
            Arrived::RailUp(rail, peer) => return Some(Event::RailUp(Rail(rail), ProcessId(peer))),
            Arrived::Packet(handle) => {
                let flight = &self.fabric.flights[handle];
                let Cargo::Packet { bytes, header_bytes, virtual_bytes } = &flight.cargo else {
                    unreachable!("only packets are handed to processes")
                };
                cost_ps += self.fabric.copy_ps(bytes.len() - header_bytes + virtual_bytes);
                let (rail, from) = (Rail(flight.rail), ProcessId(flight.from));
                Event::Packet(Incoming { rail, from, slot: handle.into() })
            }
        };
        self.fabric.spend(self.me, cost_ps);
        Some(event)
    }

    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        let Cargo::Packet { bytes, header_bytes, virtual_bytes } =
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

    fn register(&mut self, _rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
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
        Ok(self.start_access(rail, to, Access { local, remote, token }, true))
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        Ok(self.start_access(rail, from, Access { local, remote, token }, false))
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

    fn arm(&mut self) -> Armed {
        if self.fabric.has_arrived(self.me) { Armed::NotYet } else { Armed::Armed }
    }
}

#[cfg(test)]
mod tests;
