//! What connects the processes of a world: a simulated network, and a device on it with moods.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ayatori_core::buffer::{Buffer, Payload, Piece, payload_len};
use ayatori_core::device::{
    Armed, Device, Event, Full, Incoming, Packet, RailBroken, RailCapabilities, RemoteKey, RemoteRegion,
    Submitted, Token,
};
use ayatori_core::ids::{ContextId, ProcessId, Rail, RailSet, RequestId};
use ayatori_core::wire::{self, Header};

use super::Bug;
use crate::network::{Gap, Message, Network, NicId, NoProbe, Occurrence};
use crate::random::Random;
use crate::slab::Slab;

/// Timer tokens: a flight that has been held up.
const HELD_UP: u32 = 1 << 31;
/// A bug strikes once in so many chances.
const BUG_ONE_IN: u64 = 6;

/// Moods of the device; 0 is never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moods {
    /// One in so many packets, puts and gets finds the device full.
    pub(super) full_one_in: u64,
    /// One in so many puts and gets is refused.
    pub(super) refuse_one_in: u64,
    /// One in so many arrivals is held up.
    pub(super) delay_one_in: u64,
    /// For at most so long, ps.
    pub(super) delay_max_ps: u64,
}

#[derive(Debug)]
enum Cargo {
    Packet {
        header: Vec<u8>,
        payload: Vec<u8>,
    },
    /// Copy on arrival, then tell.
    Access {
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
        put: bool,
    },
    /// `from` is gone.
    Gone,
}

#[derive(Debug)]
struct Flight {
    from: u32,
    to: u32,
    cargo: Cargo,
    arrived: bool,
    /// A crash took it.
    lost: bool,
}

/// What a receiver saw, in order; the model sees the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// An envelope: by an eager message or not.
    Envelope { from: u32, to: u32, context: ContextId, eager: bool },
    /// A wish to cancel the message of a sender's request.
    Cancel { from: u32, to: u32, request: RequestId },
    /// That a process is gone.
    Gone { from: u32, to: u32 },
}

#[derive(Debug)]
struct Registration {
    owner: u32,
    buffer: Buffer,
}

/// What all devices share.
pub(super) struct Wire {
    network: Network<NoProbe>,
    nics: Vec<NicId>,
    rails: Vec<RailCapabilities>,
    flights: Slab<Flight>,
    /// Packets and news in the order sent, by from × count + to.
    pairs: Vec<VecDeque<u32>>,
    completions: Vec<VecDeque<(Token, Result<(), RailBroken>)>>,
    /// How far a bug has moved the sequence numbers of a pair.
    extra_packets: Vec<u32>,
    registered: Vec<Option<Registration>>,
    pub(super) alive: Vec<bool>,
    pub(super) seen: Vec<Seen>,
    pub(super) moods: Moods,
    pub(super) random: Random,
    bug: Option<Bug>,
}

impl Wire {
    pub(super) fn new(
        network: Network<NoProbe>,
        nics: Vec<NicId>,
        rail: RailCapabilities,
        random: Random,
        bug: Option<Bug>,
    ) -> Wire {
        let count = nics.len();
        Wire {
            network,
            nics,
            rails: vec![rail],
            flights: Slab::default(),
            pairs: (0..count * count).map(|_| VecDeque::new()).collect(),
            completions: (0..count).map(|_| VecDeque::new()).collect(),
            extra_packets: vec![0; count * count],
            registered: Vec::new(),
            alive: vec![true; count],
            seen: Vec::new(),
            moods: Moods::default(),
            random,
            bug,
        }
    }

    fn count(&self) -> usize {
        self.nics.len()
    }

    pub(super) fn now_ps(&self) -> u64 {
        self.network.now_ps()
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.below(n) == 0
    }

    fn strikes(&mut self, bug: Bug) -> bool {
        self.bug == Some(bug) && self.one_in(BUG_ONE_IN)
    }

    /// Puts something on its way.
    fn depart(&mut self, from: u32, to: u32, bytes: usize, cargo: Cargo) {
        let ordered = matches!(cargo, Cargo::Packet { .. });
        let flight = self.flights.insert(Flight { from, to, cargo, arrived: false, lost: false });
        if ordered {
            let pair = from as usize * self.count() + to as usize;
            self.pairs[pair].push_back(flight);
        }
        let [from, to] = [from, to].map(|process| self.nics[process as usize]);
        if from == to {
            let time_ps = self.now_ps() + self.random.below(1_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        } else {
            let bytes = bytes as u64;
            let message = Message { from, to, bytes, gap: Gap::NONE, token: flight, notify_injected: false };
            self.network.send(message);
        }
    }

    /// Runs the network through its next so many occurrences. Whether there were any.
    pub(super) fn pump(&mut self, count: u64) -> Result<bool, String> {
        let mut moved = false;
        for _ in 0..count {
            match self.network.advance().map_err(|deadlock| deadlock.to_string())? {
                None => break,
                Some(Occurrence::Delivered { token, .. }) => {
                    let Moods { delay_one_in, delay_max_ps, .. } = self.moods;
                    if self.one_in(delay_one_in) {
                        let time_ps = self.now_ps() + self.random.below(delay_max_ps);
                        self.network.set_timer(time_ps, token | HELD_UP);
                    } else {
                        self.arrive(token);
                    }
                }
                Some(Occurrence::Timer { token }) => self.arrive(token & !HELD_UP),
                Some(Occurrence::Injected { .. }) => {}
            }
            moved = true;
        }
        Ok(moved)
    }

    fn arrive(&mut self, handle: u32) {
        let flight = &mut self.flights[handle];
        flight.arrived = true;
        let (from, to, lost) = (flight.from, flight.to, flight.lost);
        if let Cargo::Access { local, remote, token, put } = flight.cargo {
            self.flights.remove(handle);
            let owner = if put { from } else { to };
            self.finish_access(owner, local, remote, token, put, lost);
        } else if lost {
            self.flights.remove(handle);
        }
    }

    fn finish_access(
        &mut self,
        owner: u32,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
        put: bool,
        lost: bool,
    ) {
        if !self.alive[owner as usize] {
            return;
        }
        if lost {
            // A NIC may or may not report what it was doing when the other side died.
            if self.random.below(2) == 0 {
                self.completions[owner as usize].push_back((token, Err(RailBroken)));
            }
            return;
        }
        if !self.strikes(Bug::EmptyCompletion) {
            self.copy(local, remote, put);
        }
        if !self.strikes(Bug::LostCompletion) {
            self.completions[owner as usize].push_back((token, Ok(())));
        }
    }

    fn copy(&mut self, local: Buffer, remote: RemoteRegion, put: bool) {
        let cut = usize::from(self.strikes(Bug::TruncatedCopy));
        let (len, offset) = (local.len().saturating_sub(cut), remote.offset as usize);
        let registration = self.registered[remote.key.words[0] as usize].as_ref();
        let memory = registration.expect("a put or get on memory that is not registered").buffer;
        if put {
            memory.copy_from(offset, &local, 0, len);
        } else {
            local.copy_from(0, &memory, offset, len);
        }
    }

    /// A process dies: some of what it has sent is lost, and the others hear of it later.
    pub(super) fn crash(&mut self, process: u32) {
        let count = self.count();
        self.alive[process as usize] = false;
        for handle in 0..self.flights.high_water() as u32 {
            let flight = &mut self.flights[handle];
            let involved = flight.from == process || flight.to == process;
            // Freed places are never looked at again before they are filled anew.
            if involved && !flight.arrived && matches!(flight.cargo, Cargo::Access { .. }) {
                flight.lost = true;
            }
        }
        for to in 0..count as u32 {
            if to == process || !self.alive[to as usize] {
                continue;
            }
            let pair = process as usize * count + to as usize;
            let kept = self.random.below(self.pairs[pair].len() as u64 + 1) as usize;
            for handle in self.pairs[pair].split_off(kept) {
                if self.flights[handle].arrived {
                    self.flights.remove(handle);
                } else {
                    self.flights[handle].lost = true;
                }
            }
            if self.strikes(Bug::LostPeerGone) {
                continue;
            }
            let news = Flight { from: process, to, cargo: Cargo::Gone, arrived: false, lost: false };
            let flight = self.flights.insert(news);
            self.pairs[pair].push_back(flight);
            let time_ps = self.now_ps() + self.random.below(20_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        }
    }

    pub(super) fn registered_count(&self, owner: u32) -> usize {
        self.registered.iter().flatten().filter(|registration| registration.owner == owner).count()
    }

    /// The next thing that `me` is to see, from a random one of those who have sent.
    fn next_arrived(&mut self, me: u32) -> Option<u32> {
        let count = self.count();
        let start = self.random.below(count as u64) as usize;
        for step in 0..count {
            let pair = (start + step) % count * count + me as usize;
            let Some(&handle) = self.pairs[pair].front() else { continue };
            if self.flights[handle].arrived {
                self.pairs[pair].pop_front();
                return Some(handle);
            }
        }
        None
    }

    /// Notes what a packet brings its receiver.
    fn note(&mut self, handle: u32) {
        let Flight { from, to, ref cargo, .. } = self.flights[handle];
        let Cargo::Packet { header, .. } = cargo else {
            self.seen.push(Seen::Gone { from, to });
            return;
        };
        match wire::parse(header) {
            Ok((_, Header::Eager(envelope) | Header::EagerSync(envelope, _), _)) => {
                self.seen.push(Seen::Envelope { from, to, context: envelope.context, eager: true });
            }
            Ok((_, Header::Rts { envelope, .. }, _)) => {
                self.seen.push(Seen::Envelope { from, to, context: envelope.context, eager: false });
            }
            Ok((_, Header::Cancel(request), _)) => self.seen.push(Seen::Cancel { from, to, request }),
            _ => {}
        }
    }

    /// What a bug makes of a packet.
    fn spoil(&mut self, pair: usize, header: &mut Vec<u8>, payload: &mut [u8]) -> bool {
        let Ok((mut prefix, meaning, _)) = wire::parse(header) else { return false };
        prefix.sequence = prefix.sequence.wrapping_add(self.extra_packets[pair]);
        let mut twice = false;
        let meaning = match (self.bug, meaning) {
            (Some(Bug::LostFin), Header::Fin(_)) if self.strikes(Bug::LostFin) => Header::Credit,
            (Some(Bug::LostCts), Header::Cts { .. }) if self.strikes(Bug::LostCts) => Header::Credit,
            (Some(Bug::LostMatched), Header::Matched(_)) if self.strikes(Bug::LostMatched) => Header::Credit,
            (Some(Bug::WrongTag), Header::Eager(mut envelope)) if self.strikes(Bug::WrongTag) => {
                envelope.tag ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongSource), Header::Eager(mut envelope)) if self.strikes(Bug::WrongSource) => {
                envelope.source ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongOffset), Header::Data { receiver, offset })
                if offset > 0 && self.strikes(Bug::WrongOffset) =>
            {
                Header::Data { receiver, offset: offset - 1 }
            }
            (Some(Bug::DoubleDelivery), Header::Eager(_)) => {
                twice = self.strikes(Bug::DoubleDelivery);
                meaning
            }
            _ => meaning,
        };
        if prefix.credits > 0 && self.strikes(Bug::LostCredit) {
            prefix.credits = 0;
        }
        if let (Header::Eager(_), Some(last)) = (&meaning, payload.last_mut())
            && self.strikes(Bug::ChangedByte)
        {
            *last ^= 0x40;
        }
        *header = meaning.emit(prefix).as_slice().to_vec();
        twice
    }

    /// Swaps the packet just sent with the one before it, sequence numbers staying where they are.
    fn overtake(&mut self, pair: usize) {
        let queue = &self.pairs[pair];
        let (Some(&last), Some(&before)) = (queue.back(), queue.iter().rev().nth(1)) else { return };
        let envelope = |handle: u32| match &self.flights[handle].cargo {
            Cargo::Packet { header, .. } => wire::parse(header).ok().filter(|(_, meaning, _)| {
                matches!(meaning, Header::Eager(_) | Header::EagerSync(..) | Header::Rts { .. })
            }),
            _ => None,
        };
        let (Some((a, first, _)), Some((b, second, _))) = (envelope(before), envelope(last)) else { return };
        let [first, second] = [first.emit(b), second.emit(a)];
        for (handle, bytes) in [(before, first), (last, second)] {
            if let Cargo::Packet { header, .. } = &mut self.flights[handle].cargo {
                *header = bytes.as_slice().to_vec();
            }
        }
        let length = self.pairs[pair].len();
        self.pairs[pair].swap(length - 1, length - 2);
    }
}

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
        let rails = wire.borrow().rails.clone();
        Port { me, wire: wire.clone(), rails, current: None, may_poll: 0 }
    }

    fn start_access(
        &mut self,
        peer: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
        put: bool,
    ) -> Result<Submitted, Full> {
        let mut wire = self.wire.borrow_mut();
        let Moods { full_one_in, refuse_one_in, .. } = wire.moods;
        if wire.one_in(full_one_in) {
            return Err(Full);
        }
        if wire.one_in(refuse_one_in) || !wire.alive[peer.0 as usize] {
            return Ok(Submitted::Refused);
        }
        if wire.one_in(4) {
            wire.copy(local, remote, put);
            return Ok(Submitted::Done);
        }
        let (from, to) = if put { (self.me, peer.0) } else { (peer.0, self.me) };
        wire.depart(from, to, local.len(), Cargo::Access { local, remote, token, put });
        Ok(Submitted::Pending)
    }
}

impl Device for Port {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, _peer: ProcessId) -> RailSet {
        RailSet::one(Rail(0))
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let length = header.len() + payload_len(&payload);
        assert!(length <= self.rails[usize::from(rail.0)].packet_bytes_max, "a packet too long");
        let mut wire = self.wire.borrow_mut();
        let full_one_in = wire.moods.full_one_in;
        if wire.one_in(full_one_in) {
            return Err(Full);
        }
        if !wire.alive[to.0 as usize] {
            return Ok(());
        }
        let mut header = header.to_vec();
        let mut bytes = Vec::with_capacity(payload_len(&payload));
        for piece in payload {
            bytes.extend_from_slice(piece.bytes().expect("worlds have real payload"));
        }
        let pair = self.me as usize * wire.count() + to.0 as usize;
        let twice = wire.bug.is_some() && wire.spoil(pair, &mut header, &mut bytes);
        let copy = twice.then(|| (header.clone(), bytes.clone()));
        wire.depart(self.me, to.0, length, Cargo::Packet { header, payload: bytes });
        if let Some((mut header, payload)) = copy {
            wire.extra_packets[pair] += 1;
            if let Ok((mut prefix, meaning, _)) = wire::parse(&header) {
                prefix.sequence = prefix.sequence.wrapping_add(1);
                prefix.credits = 0;
                header = meaning.emit(prefix).as_slice().to_vec();
            }
            wire.depart(self.me, to.0, length, Cargo::Packet { header, payload });
        }
        if wire.strikes(Bug::Overtaking) {
            wire.overtake(pair);
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Event> {
        let mut wire = self.wire.borrow_mut();
        if let Some((token, outcome)) = wire.completions[self.me as usize].pop_front() {
            return Some(Event::Completion(token, outcome));
        }
        if self.may_poll == 0 {
            return None;
        }
        let handle = wire.next_arrived(self.me)?;
        self.may_poll -= 1;
        wire.note(handle);
        let flight = &mut wire.flights[handle];
        let from = ProcessId(flight.from);
        let cargo = std::mem::replace(&mut flight.cargo, Cargo::Gone);
        wire.flights.remove(handle);
        match cargo {
            Cargo::Packet { header, payload } => {
                self.current = Some((header, payload));
                Some(Event::Packet(Incoming { rail: Rail(0), from, slot: 0 }))
            }
            _ => Some(Event::PeerGone(from)),
        }
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let (header, payload) = self.current.as_ref().expect("polled and not released");
        Packet { header, payload: Piece::Bytes(payload) }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let mut wire = self.wire.borrow_mut();
        wire.registered.push(Some(Registration { owner: self.me, buffer }));
        Some(RemoteKey { words: [wire.registered.len() as u64 - 1, 77] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        let taken = self.wire.borrow_mut().registered[key.words[0] as usize].take();
        assert!(taken.is_some(), "deregistered twice");
    }

    fn put(
        &mut self,
        _: Rail,
        to: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        self.start_access(to, local, remote, token, true)
    }

    fn get(
        &mut self,
        _: Rail,
        from: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        self.start_access(from, local, remote, token, false)
    }

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}
