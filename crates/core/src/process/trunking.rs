//! Links in trunk mode: their packets in, their data out, their time.

use super::{Process, inputs::Blame, inputs::Front};
use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::device::{
    Device, Fetched, Full, Incoming, Packet, RailCapabilities, RemoteRegion, Submitted, Token,
};
use crate::error::Error;
use crate::ids::{ProcessId, Rail, RequestId};
use crate::link::spread::{Carrying, Run, Spread};
use crate::link::trunk::Placed;
use crate::link::{Carried, Held, LinkIndex, Place, stripe};
use crate::request::{Completion, Request, State, Transfer};
use crate::time::{Duration, Instant};
use crate::wire::trunk::{self, Body};
use crate::wire::{self, Keys};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

/// How often links are looked after at most.
const CHECK_INTERVAL: Duration = Duration::from_ms(1);
/// Into how many puts a rail's part of a message is cut, so that the policy can choose again between.
const PUTS_A_RAIL: u64 = 8;
/// The shortest put worth its cost, in bytes.
const PUT_BYTES_MIN: u64 = 64 << 10;
/// The smallest unit a correct peer takes, in bytes, where rails' packets hold as much.
const UNIT_BYTES_MIN: u32 = 256;

/// Where units that a packet carries or announces belong, and how many of them have come before.
struct Located {
    run: Run,
    place: Buffer,
    known_count: u32,
}

/// Whom somebody waits for.
enum Awaited {
    Link(LinkIndex),
    Peer(ProcessId),
    Anybody,
}

/// What giving a piece to a rail came to.
enum Given {
    Sent,
    /// No rail has room: go on when something is acknowledged.
    Wait,
    /// The rails that have room are full: go on when the device was polled.
    Full,
}

/// Getters.
impl Process {
    /// How a long message to `peer` would be spread over its rails, in words; `None`: there is no link over several
    /// rails, or over one that can break. `names`: the rails', by index.
    pub fn explain_spread(&mut self, peer: ProcessId, total_bytes: u64, names: &[&str]) -> Option<String> {
        let index = self.links.index_of(peer)?;
        let trunk = self.links.get_mut(index).trunk.as_mut()?;
        let policy = trunk.policy();
        Some(stripe::explain(policy, trunk.views(), total_bytes, names))
    }
}

/// Inputs.
impl Process {
    pub(super) fn handle_trunk_packet(
        &mut self,
        index: LinkIndex,
        rail: Rail,
        packet: Packet<'_>,
    ) -> Result<(), Blame> {
        let (header, len) = trunk::parse(packet.header).map_err(|wire::Malformed(what)| Blame(what))?;
        let now = self.now;
        let rest = &packet.header[len..];
        let bytes = (packet.header.len() + packet.payload.len()) as u64;
        let link = self.links.get_mut(index);
        let Some(trunk) = link.trunk.as_mut() else { return Ok(()) };
        if header.body == Body::Bye {
            let error = Error::Unreachable(link.peer);
            self.fail_link(index, error);
            return Ok(());
        }
        if trunk.on_packet(rail, &header, bytes, now) {
            self.settle(index);
            self.wake_waiting(index);
        }
        let payload = [Piece::Bytes(rest), packet.payload];
        match header.body {
            Body::Stream => self.on_stream(index, Packet { header: rest, payload: packet.payload })?,
            Body::Fragment { receiver, first, unit_bytes } => {
                self.on_units(index, receiver, (first, unit_bytes), Some(payload), 0)?;
            }
            Body::Placed { receiver, first, unit_bytes, count } => {
                self.on_units(index, receiver, (first, unit_bytes), None, count)?;
            }
            Body::Ack | Body::Probe | Body::Bye => {}
        }
        self.flush_if_wanted(index);
        Ok(())
    }

    /// A packet of `wire`: handled when its turn has come.
    fn on_stream(&mut self, index: LinkIndex, packet: Packet<'_>) -> Result<(), Blame> {
        let sequence = wire::sequence_of(packet.header).map_err(|wire::Malformed(what)| Blame(what))?;
        let link = self.links.get_mut(index);
        let (next, Some(trunk)) = (link.receive_sequence, link.trunk.as_mut()) else { return Ok(()) };
        match trunk.held.place(sequence, next) {
            Place::Now => self.handle_packet(index, packet)?,
            Place::Duplicate => return Ok(()),
            Place::TooFar => return Err(Blame("a packet far ahead of its turn")),
            Place::Hold => {
                let mut bytes = trunk.held.room();
                bytes.extend_from_slice(packet.header);
                let virtual_bytes = match packet.payload {
                    Piece::Bytes(real) => {
                        bytes.extend_from_slice(real);
                        0
                    }
                    Piece::Virtual(len) => len,
                };
                trunk.held.hold(sequence, Held { bytes, virtual_bytes });
                return Ok(());
            }
        }
        loop {
            let link = self.links.get_mut(index);
            let next = link.receive_sequence;
            let Some(held) = link.trunk.as_mut().and_then(|trunk| trunk.held.take(next)) else { break };
            let payload =
                if held.virtual_bytes > 0 { Piece::Virtual(held.virtual_bytes) } else { Piece::EMPTY };
            self.handle_packet(index, Packet { header: &held.bytes, payload })?;
            if let Some(trunk) = &mut self.links.get_mut(index).trunk {
                trunk.held.give_back(held.bytes);
            }
        }
        Ok(())
    }

    /// The front of a packet. If it is a fragment whose place is known and free, its payload goes there without being copied;
    /// every other packet is handled when it is whole.
    pub(super) fn handle_trunk_front<D: Device>(&mut self, device: &mut D, index: LinkIndex, front: &Front) {
        let Front { ref incoming, payload_bytes } = *front;
        let bytes = device.packet(incoming).header;
        let packet_bytes = (bytes.len() + payload_bytes) as u64;
        let Ok((header, _)) = trunk::parse(bytes) else { return };
        let Body::Fragment { receiver, first, unit_bytes } = header.body else { return };
        let carrying = Carrying::Bytes(payload_bytes as u64);
        let located = self.locate_units(index, receiver, (first, unit_bytes), carrying);
        let Ok(Some(Located { run, place, known_count: 0 })) = located else { return };
        if device.fetch(incoming, place) != Fetched::Whole {
            return;
        }
        let now = self.now;
        let Some(trunk) = self.links.get_mut(index).trunk.as_mut() else { return };
        if trunk.on_packet(incoming.rail, &header, packet_bytes, now) {
            self.settle(index);
            self.wake_waiting(index);
        }
        self.units_have_come(index, receiver, run);
        self.flush_if_wanted(index);
    }

    /// Units of a message's data: in the payload, or placed by a put.
    fn on_units(
        &mut self,
        index: LinkIndex,
        receiver: RequestId,
        units: (u32, u32),
        payload: Option<Payload<'_>>,
        count: u32,
    ) -> Result<(), Blame> {
        let carrying = match &payload {
            Some(payload) => Carrying::Bytes(payload_len(payload) as u64),
            None => Carrying::Units(count),
        };
        let located = self.locate_units(index, receiver, units, carrying)?;
        let Some(Located { run, place, known_count }) = located else { return Ok(()) };
        // Of units that come together with others some may be known: written once more, they are the same.
        if let Some([front, back]) = payload
            && known_count < run.count
        {
            place.scatter(0, front);
            place.scatter(front.len(), back);
        }
        self.units_have_come(index, receiver, run);
        Ok(())
    }

    /// Where units belong. `None`: nobody waits for them any more, which is no fault: what came twice may come after the
    /// receive has ended.
    fn locate_units(
        &mut self,
        index: LinkIndex,
        receiver: RequestId,
        (first, unit_bytes): (u32, u32),
        carrying: Carrying,
    ) -> Result<Option<Located>, Blame> {
        let own_unit = self.links.get(index).trunk.as_ref().map_or(1, |trunk| trunk.unit_bytes);
        let request = self.requests.get_mut(receiver).filter(|request| request.link == Some(index));
        let Some(Request { state: State::Gathering { gather }, buffer, .. }) = request else {
            return Ok(None);
        };
        let (run, offset) =
            gather.locate(first, unit_bytes, carrying, UNIT_BYTES_MIN.min(own_unit)).map_err(Blame)?;
        let (_, length) = run.range(unit_bytes, gather.total());
        let place = buffer.part(offset as usize, length as usize);
        Ok(Some(Located { run, place, known_count: gather.known_count(run) }))
    }

    fn units_have_come(&mut self, index: LinkIndex, receiver: RequestId, run: Run) {
        let Some(request) = self.requests.get_mut(receiver) else { return };
        let State::Gathering { gather } = &mut request.state else { return };
        if gather.on_come(run) {
            let (completion, now) = (request.completion(), self.now);
            self.complete(receiver, completion);
            if let Some(trunk) = &mut self.links.get_mut(index).trunk {
                trunk.has_all(now);
            }
        }
    }

    fn flush_if_wanted(&mut self, index: LinkIndex) {
        let now = self.now;
        if self.links.get_mut(index).trunk.as_mut().is_some_and(|trunk| trunk.wants_flush(now)) {
            self.list_link(index);
        }
    }

    #[cold]
    pub(super) fn handle_rail<D: Device>(&mut self, device: &D, rail: Rail, peer: ProcessId, up: bool) {
        let (index, now) = (self.link_to(device, peer), self.now);
        let link = self.links.get_mut(index);
        let Some(trunk) = link.trunk.as_mut().filter(|_| link.failed.is_none()) else { return };
        if up {
            trunk.on_rail_up(rail, now);
        } else {
            trunk.on_rail_down(rail, now);
        }
        self.settle(index);
        self.wake_waiting(index);
        self.list_link(index);
    }

    /// Tells requests the fate of their units.
    pub(super) fn settle(&mut self, index: LinkIndex) {
        let Some(trunk) = self.links.get_mut(index).trunk.as_mut() else { return };
        if trunk.settled.is_empty() {
            return;
        }
        let mut settled = mem::take(&mut trunk.settled);
        for (carried, come) in settled.drain(..) {
            if let Carried::Units { request, first, count } = carried {
                self.settle_units(index, request, Run { first, count }, come);
            }
        }
        if let Some(trunk) = &mut self.links.get_mut(index).trunk {
            trunk.settled = settled;
        }
    }

    fn settle_units(&mut self, index: LinkIndex, id: RequestId, run: Run, come: bool) {
        let Some(Request { state: State::Spreading { spread, .. }, .. }) = self.requests.get_mut(id) else {
            return;
        };
        let trunk = self.links.get_mut(index).trunk.as_mut().expect("only trunks settle");
        if come {
            if spread.on_come(run) {
                trunk.backlog_bytes -= spread.unsent_bytes();
                self.complete(id, Completion::EMPTY);
            }
            return;
        }
        let before = spread.unsent_bytes();
        let again = spread.on_lost(run);
        trunk.backlog_bytes += spread.unsent_bytes() - before;
        if again && !mem::replace(&mut spread.listed, true) {
            self.add_moving(id);
        }
    }

    /// Room on a rail, maybe: the request that has waited longest tries. Some that wait have ended meanwhile, their units
    /// having come after all: they may not stand in the way of those behind.
    fn wake_waiting(&mut self, index: LinkIndex) {
        let Some(trunk) = self.links.get_mut(index).trunk.as_mut() else { return };
        while let Some(id) = trunk.waiting.pop_front() {
            if matches!(self.requests.get(id).map(|request| &request.state), Some(State::Spreading { .. })) {
                self.add_moving(id);
                return;
            }
        }
    }

    /// A packet of a peer that was given up: unless it is a Bye itself, the peer is told, for it may wait for us.
    #[cold]
    pub(super) fn refuse_packet<D: Device>(&mut self, device: &mut D, incoming: &Incoming, index: LinkIndex) {
        let now = self.now;
        let is_bye = match trunk::parse(device.packet(incoming).header) {
            Ok((header, _)) => header.body == Body::Bye,
            Err(_) => true,
        };
        if let Some(trunk) = self.links.get_mut(index).trunk.as_mut().filter(|_| !is_bye) {
            trunk.refuse(device, incoming.rail, now);
        }
    }
}

/// Outputs.
impl Process {
    /// The receiver is ready: spreads the message over the rails.
    pub(super) fn begin_spread(
        &mut self,
        index: LinkIndex,
        id: RequestId,
        receiver: RequestId,
        length: u64,
        keys: Keys,
    ) -> Result<(), Blame> {
        let trunk = self.links.get_mut(index).trunk.as_mut().expect("the caller looked");
        if length == 0 {
            self.complete(id, Completion::EMPTY);
            return Ok(());
        }
        let (policy, unit) = (trunk.policy(), trunk.unit_bytes);
        let shares = stripe::shares(policy, trunk.views(), length, unit.into());
        let spread = Spread::new(length, unit, keys, shares);
        let mut spread = Box::new(spread.ok_or(Blame("CTS for more units than can be counted"))?);
        trunk.backlog_bytes += spread.unsent_bytes();
        spread.listed = true;
        let request = self.requests.get_mut(id).expect("the caller looked");
        request.state = State::Spreading { spread, receiver };
        self.add_moving(id);
        Ok(())
    }

    /// Gives the rails what they have room for. `true`: out of the list of what moves.
    pub(super) fn move_by_spread<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        let Some(index) = self.requests.get(id).and_then(|request| request.link) else { return true };
        loop {
            if self.pieces_left == 0 {
                return false;
            }
            let (given, left) = self.give_piece(device, index, id);
            if let Given::Sent = given {
                self.pieces_left -= 1;
            }
            match given {
                Given::Sent if left => {}
                Given::Sent => {
                    self.unlist(id);
                    self.wake_waiting(index);
                    return true;
                }
                Given::Wait => {
                    self.wait(index, id);
                    return true;
                }
                Given::Full => return false,
            }
        }
    }

    /// Behind those that wait, or, for one that was first, in front again.
    fn wait(&mut self, index: LinkIndex, id: RequestId) {
        let Some(Request { state: State::Spreading { spread, .. }, .. }) = self.requests.get_mut(id) else {
            return;
        };
        let again = mem::replace(&mut spread.waited, true);
        let trunk = self.links.get_mut(index).trunk.as_mut().expect("spread over a trunk");
        if again {
            trunk.waiting.push_front(id);
        } else {
            trunk.waiting.push_back(id);
        }
    }

    fn unlist(&mut self, id: RequestId) {
        if let Some(Request { state: State::Spreading { spread, .. }, .. }) = self.requests.get_mut(id) {
            spread.listed = false;
        }
    }

    /// One piece of a message to one rail; whether there is more.
    fn give_piece<D: Device>(&mut self, device: &mut D, index: LinkIndex, id: RequestId) -> (Given, bool) {
        let now = self.now;
        let link = self.links.get_mut(index);
        let (peer, trunk) = (link.peer, link.trunk.as_mut().expect("spread over a trunk"));
        let Some(request) = self.requests.get_mut(id) else { return (Given::Sent, false) };
        let (State::Spreading { spread, receiver }, buffer) = (&mut request.state, request.buffer) else {
            return (Given::Sent, false);
        };
        let receiver = *receiver;
        let before = spread.unsent_bytes();
        let Some(run) = spread.next(1) else {
            trunk.backlog_bytes -= before - spread.unsent_bytes();
            return (Given::Sent, false);
        };
        trunk.backlog_bytes -= before - spread.unsent_bytes();
        let unit = u64::from(spread.unit_bytes);
        let rest = trunk.backlog_bytes;
        let mut some_full = false;
        trunk.views();
        loop {
            let views = trunk.current_views();
            let Some(rail) = pick(spread, views, unit, rest) else {
                return (if some_full { Given::Full } else { Given::Wait }, true);
            };
            let capabilities = &device.rails()[rail.0 as usize];
            let key = if spread.is_again() { None } else { spread.keys.get(rail) };
            let limit = match key {
                Some(_) => put_units(spread, rail, views.len(), capabilities.transfer_bytes_max as u64),
                None => packet_units(spread, (rail, capabilities), views, rest),
            };
            let run = spread.next(u32::try_from(limit).unwrap_or(u32::MAX)).unwrap_or(run);
            let (offset, length) = run.range(spread.unit_bytes, spread.total);
            let piece = Placed { rail, request: id, receiver, unit_bytes: spread.unit_bytes, run };
            let taken = match key {
                None => {
                    let is_end = spread.unsent_bytes() <= u64::from(run.count) * unit;
                    let ack_now = is_end || trunk.will_wait_for(rail, length, rest.saturating_sub(length));
                    let payload = buffer.gather(offset as usize, length as usize);
                    let taken = trunk.send_units(device, now, rail, &piece, payload, ack_now);
                    taken.inspect(|()| spread.take_share(rail, length))
                }
                Some(key) => {
                    let local = buffer.part(offset as usize, length as usize);
                    let transfer = Transfer { placed: piece, bytes: length, at: now };
                    let child = Request::new(State::Transfer(transfer), local, Some(index));
                    let token = self.requests.insert(child);
                    let region = RemoteRegion { key, offset };
                    let put = device.put(rail, peer, local, region, Token(token.to_bits()));
                    if self.put_submitted(index, id, token, put) {
                        // Refused: the rail takes packets instead.
                        return (Given::Sent, true);
                    }
                    return match put {
                        Err(Full) => (Given::Full, true),
                        _ => (Given::Sent, self.note_sent(index, id, run)),
                    };
                }
            };
            if taken.is_ok() {
                // A packet counts as many pieces as it has.
                self.pieces_left -= (run.count - 1).min(self.pieces_left - 1);
                return (Given::Sent, self.note_sent(index, id, run));
            }
            some_full = true;
            trunk.rail_is_full(rail);
        }
    }

    /// Takes units off what is to be sent. Whether there is more.
    fn note_sent(&mut self, index: LinkIndex, id: RequestId, run: Run) -> bool {
        let Some(Request { state: State::Spreading { spread, .. }, .. }) = self.requests.get_mut(id) else {
            return false;
        };
        let before = spread.unsent_bytes();
        spread.sent(run);
        let after = spread.unsent_bytes();
        if let Some(trunk) = &mut self.links.get_mut(index).trunk {
            trunk.backlog_bytes -= before - after;
        }
        after > 0
    }

    /// What came of submitting a put. `true`: it was refused.
    fn put_submitted(
        &mut self,
        index: LinkIndex,
        id: RequestId,
        token: RequestId,
        put: Result<Submitted, Full>,
    ) -> bool {
        let Some(Request { state: State::Transfer(transfer), .. }) = self.requests.get(token) else {
            return false;
        };
        let transfer = *transfer;
        let (rail, now) = (transfer.placed.rail, self.now);
        let trunk = self.links.get_mut(index).trunk.as_mut().expect("spread over a trunk");
        let Some(Request { state: State::Spreading { spread, .. }, .. }) = self.requests.get_mut(id) else {
            return false;
        };
        match put {
            Ok(Submitted::Refused) => spread.keys.remove(rail),
            Ok(_) => {
                spread.take_share(rail, transfer.bytes);
                spread.transfers += 1;
                trunk.begin_transfer(rail, transfer.bytes, now);
            }
            Err(Full) => {}
        }
        match put {
            Ok(Submitted::Pending) => {}
            Ok(Submitted::Done) => self.on_transfer_end(token, true),
            Ok(Submitted::Refused) | Err(Full) => {
                self.requests.remove(token);
            }
        }
        matches!(put, Ok(Submitted::Refused))
    }

    /// A put has ended.
    pub(super) fn on_transfer_end(&mut self, token: RequestId, worked: bool) {
        let Some(Request { state: State::Transfer(transfer), link: Some(index), .. }) =
            self.requests.remove(token)
        else {
            return;
        };
        let Transfer { placed, bytes, at } = transfer;
        let now = self.now;
        if let Some(trunk) = &mut self.links.get_mut(index).trunk {
            trunk.end_transfer(placed.rail, bytes, at, worked, now);
            if worked {
                trunk.tell_placed(placed);
            }
        }
        if let Some(Request { state: State::Spreading { spread, .. }, .. }) =
            self.requests.get_mut(placed.request)
        {
            spread.transfers -= 1;
        }
        if !worked {
            self.settle_units(index, placed.request, placed.run, false);
        }
        self.wake_waiting(index);
        self.list_link(index);
    }

    /// Looks after the links in trunk mode.
    #[cold]
    pub(super) fn check_trunks<D: Device>(&mut self, device: &mut D) {
        self.trunks_due = false;
        self.next_check = self.now + CHECK_INTERVAL;
        if self.now >= self.next_keepalive {
            self.keep_alive(device);
        }
        let mut lost = Vec::new();
        for at in 0..self.links.trunks().len() {
            let (index, now) = (self.links.trunks()[at], self.now);
            let link = self.links.get_mut(index);
            let Some(trunk) = link.trunk.as_mut().filter(|_| link.failed.is_none()) else { continue };
            if trunk.deadline(false) > now && !trunk.wants_flush(now) {
                continue;
            }
            if !trunk.check(device, now) {
                lost.push((index, link.peer));
                continue;
            }
            self.settle(index);
            self.wake_waiting(index);
            self.list_link(index);
        }
        for (index, peer) in lost {
            self.fail_link(index, Error::Unreachable(peer));
        }
    }

    /// How often a peer that is waited for and silent is asked.
    fn keepalive_interval(&self) -> Duration {
        Duration(self.config.trunk.peer_timeout.0 / 4)
    }

    /// When peers that are waited for are asked next; `None`: nobody waits for any.
    pub(super) fn keepalive_due(&self) -> Option<Instant> {
        let wants = self.wants_time() && self.awaited().next().is_some();
        // Before the first look, none is due at once.
        let is_first = self.next_keepalive == Instant::ZERO;
        let due = if is_first { self.now + self.keepalive_interval() } else { self.next_keepalive };
        wants.then_some(due)
    }

    /// Whom requests, and the receive whose caller waits for it, wait for.
    fn awaited(&self) -> impl Iterator<Item = Awaited> {
        let from = |peer: Option<ProcessId>| peer.map_or(Awaited::Anybody, Awaited::Peer);
        let by_requests = self.requests.iter().filter_map(move |(_, request)| match &request.state {
            State::Complete(_) => None,
            State::Posted { peer, .. } => Some(from(*peer)),
            _ => request.link.map(Awaited::Link),
        });
        self.direct_wants().map(from).into_iter().chain(by_requests)
    }

    /// Asks the peers that somebody waits for: a rail that brings nothing is found silent only when it owes something,
    /// and a receive alone owes nothing.
    #[cold]
    fn keep_alive<D: Device>(&mut self, device: &mut D) {
        let (now, interval) = (self.now, self.keepalive_interval());
        self.next_keepalive = now + interval;
        let mut wanted = Vec::new();
        for awaited in self.awaited() {
            match awaited {
                Awaited::Link(index) => wanted.push(index),
                Awaited::Peer(peer) => wanted.extend(self.links.index_of(peer)),
                Awaited::Anybody => {
                    wanted.extend_from_slice(self.links.trunks());
                    break;
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        for index in wanted {
            let link = self.links.get_mut(index);
            if let Some(trunk) = link.trunk.as_mut().filter(|_| link.failed.is_none()) {
                trunk.keep_alive(device, interval, now);
            }
        }
    }
}

/// The rail for the next unit.
fn pick(spread: &Spread, views: &[stripe::View], unit: u64, rest: u64) -> Option<Rail> {
    let with_share = |view: &&stripe::View| {
        view.up && spread.shares.iter().any(|(rail, left)| *rail == view.rail && *left > 0)
    };
    let mut shared = views.iter().filter(with_share).peekable();
    if shared.peek().is_none() {
        return stripe::choose(views, unit, rest);
    }
    // Shares are fixed: each rail with something left gets it as soon as it has room.
    let room = |view: &&stripe::View| {
        view.outstanding_bytes == 0 || view.outstanding_bytes + unit <= view.window_bytes
    };
    shared.filter(room).min_by_key(|view| view.outstanding_bytes).map(|view| view.rail)
}

/// How many units the next packet to a rail carries, when `rest_bytes` of all messages are still to go.
fn packet_units(
    spread: &Spread,
    (rail, capabilities): (Rail, &RailCapabilities),
    views: &[stripe::View],
    rest_bytes: u64,
) -> u64 {
    let unit = u64::from(spread.unit_bytes);
    let units = |packet_bytes: usize| packet_bytes.saturating_sub(trunk::FRAGMENT_HEADER_BYTES) as u64 / unit;
    let rooms = [capabilities.packet_bytes_max, capabilities.long_packet_bytes_max].map(units);
    let rest = spread.share_of(rail).unwrap_or(rest_bytes);
    let most = stripe::packet_units(views, rail, unit, rooms, rest);
    // Packets of like length, and no short one at the message's end.
    let left = (spread.unsent_bytes() / unit).max(1);
    left.div_ceil(left.div_ceil(most))
}

/// How many units one put takes.
fn put_units(spread: &Spread, rail: Rail, rails_count: usize, transfer_max: u64) -> u64 {
    let unit = u64::from(spread.unit_bytes);
    let share = spread.shares.iter().find(|share| share.0 == rail).map(|share| share.1);
    let bytes = match share {
        Some(left) if left > 0 => left,
        _ => (spread.total / (rails_count as u64 * PUTS_A_RAIL)).max(PUT_BYTES_MIN),
    };
    (bytes.min(transfer_max) / unit).max(1)
}
