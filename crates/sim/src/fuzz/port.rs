//! The device of one process of a world.

use std::cell::RefCell;
use std::rc::Rc;

use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Fetched, Full, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use ayatori_core::time::{Duration, Instant};

use super::wire::{Access, Arrival, Cargo, Look, Registration, Seen, Wire};

/// One process' device.
pub(super) struct Port {
    pub(super) me: u32,
    pub(super) wire: Rc<RefCell<Wire>>,
    rails: Vec<RailCapabilities>,
    /// The packet being read.
    current: Option<(Vec<u8>, Vec<u8>)>,
    /// How many arrivals may be looked at now.
    pub(super) may_poll: u64,
}

impl Port {
    pub(super) fn new(me: u32, wire: &Rc<RefCell<Wire>>) -> Port {
        let rails = wire.borrow().rails.capabilities.clone();
        Port { me, wire: wire.clone(), rails, current: None, may_poll: 0 }
    }
}

impl Device for Port {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        let wire = self.wire.borrow();
        wire.rails.between[wire.pair(self.me, peer.0)]
    }

    fn time(&self) -> Option<Instant> {
        Some(Instant(self.wire.borrow().now_ps()))
    }

    /// Now one, now another.
    fn is_waiting(&self, peer: ProcessId) -> bool {
        ((self.wire.borrow().now_ps() >> 20) + u64::from(peer.0)).is_multiple_of(2)
    }

    /// Not known yet, then now so, now not.
    fn is_near(&self, peer: ProcessId) -> Option<bool> {
        let turn = (self.wire.borrow().now_ps() >> 21) + u64::from(peer.0);
        (turn > u64::from(peer.0)).then_some(turn.is_multiple_of(2))
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let length = header.len() + payload_len(&payload);
        let rail_can = &self.rails[usize::from(rail.0)];
        assert!(length <= rail_can.packet_bytes_max.max(rail_can.long_packet_bytes_max), "a packet too long");
        let mut bytes = Vec::with_capacity(payload_len(&payload));
        for piece in payload {
            bytes.extend_from_slice(piece.bytes().expect("worlds have real payload"));
        }
        self.wire.borrow_mut().give_packet((self.me, to.0), rail, header.to_vec(), bytes)
    }

    fn poll(&mut self) -> Option<Event> {
        let mut wire = self.wire.borrow_mut();
        if let Some(event) = wire.reports[self.me as usize].pop_front() {
            return Some(event);
        }
        if self.may_poll == 0 {
            return None;
        }
        loop {
            let arrival = wire.next_arrived(self.me)?;
            self.may_poll = self.may_poll.saturating_sub(1);
            let (from, rail, header, payload) = match arrival {
                Arrival::Front(from, rail) => match wire.look_at_front(rail, from, self.me) {
                    Look::LetGo => continue,
                    Look::Again(event, header) => {
                        self.current = Some((header, Vec::new()));
                        return Some(event);
                    }
                    Look::Whole(header, payload) => (from, rail, header, payload),
                },
                Arrival::Flight(handle) => {
                    let flight = &mut wire.flights[handle];
                    let (from, rail) = (flight.from, flight.rail);
                    let cargo = std::mem::replace(&mut flight.cargo, Cargo::Gone);
                    wire.flights.remove(handle);
                    let Cargo::Packet { header, payload } = cargo else {
                        wire.seen.push(Seen::Gone { from, to: self.me });
                        return Some(Event::PeerGone(ProcessId(from)));
                    };
                    (from, rail, header, payload)
                }
            };
            wire.note((from, self.me), &header, &payload);
            self.current = Some((header, payload));
            return Some(Event::Packet(Incoming { rail, from: ProcessId(from), slot: 0 }));
        }
    }

    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        self.wire.borrow_mut().fetch(incoming.rail, incoming.from.0, self.me, into)
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let (header, payload) = self.current.as_ref().expect("polled and not released");
        Packet { header, payload: Piece::Bytes(payload) }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn register(&mut self, rail: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let mut wire = self.wire.borrow_mut();
        wire.registered.push(Some(Registration { owner: self.me, rail, buffer }));
        Some(RemoteKey { words: [wire.registered.len() as u64 - 1, 77] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        let taken = self.wire.borrow_mut().registered[key.words[0] as usize].take();
        assert!(taken.is_some(), "deregistered twice");
    }

    fn put(
        &mut self,
        rail: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let access = Access { local, remote, token, put: true };
        self.wire.borrow_mut().give_access(self.me, to.0, rail, access)
    }

    fn get(
        &mut self,
        rail: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let access = Access { local, remote, token, put: false };
        self.wire.borrow_mut().give_access(self.me, from.0, rail, access)
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        self.wire.borrow_mut().reset(rail, self.me, peer.0);
    }

    fn heard(&mut self, rail: Rail, peer: ProcessId) -> Option<Duration> {
        let wire = self.wire.borrow();
        wire.tells_owed.then(|| Duration(wire.owes_ps(rail, self.me, peer.0)))
    }

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}
