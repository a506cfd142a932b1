//! Rendezvous: long messages announced first (P1, §2) and moved by get, put or packets.

use super::{Process, inputs::Blame};
use crate::buffer::{Buffer, Payload, payload_len};
use crate::device::{Device, Full, Gap, RailCapabilities, RemoteRegion, Submitted, Token};
use crate::ids::{Rail, RequestId};
use crate::link::spread::Gather;
use crate::link::{LinkIndex, Trunk};
use crate::request::{Completion, Failure, Moving, Posted, Request, State};
use crate::wire::{Envelope, Header, Keys};
use alloc::boxed::Box;

/// What moving a piece came to.
enum Step {
    /// Everything is issued.
    Issued,
    /// The device is full: go on later.
    Later,
    /// The rail cannot do it: use packets.
    Refused,
}

impl Process {
    /// Announces a message.
    pub(super) fn offer_rendezvous<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: Envelope,
        buffer: Buffer,
        is_awaited: bool,
    ) -> Posted {
        let id = self.requests.insert(Request::new(State::Offered, buffer, Some(index)));
        let peer = self.links.get(index).peer;
        let gap = self.gap_of(device, peer, envelope.context);
        if gap != Gap::NONE {
            self.requests.get_mut(id).expect("just made").extra_mut().gap = gap;
        }
        // Now, in case the receiver gets it, and again when we put or send it.
        self.pace(device, index, id);
        // Over several rails the sender puts where it can: it spreads better than one that gets.
        let is_trunk = self.links.get(index).trunk.is_some();
        // Who sends nothing but this has time to copy it while the receiver does: a long message only if it waits for that. With
        // more under way, one copy for each is less work.
        let (length, is_alone) = (buffer.len(), self.requests.len() == 1);
        let keys = self.register(device, index, id, |rail| {
            let is_streamed =
                is_alone && (length < rail.transfer_bytes_min || is_awaited && rail.streams_awaited);
            rail.get && !(is_trunk && rail.put) && !is_streamed
        });
        let header = Header::Rts { envelope, sender: id, length: buffer.len() as u64, keys };
        self.offer_or_queue(device, index, header, Buffer::EMPTY);
        Posted::Pending(id)
    }

    /// Registers a request's buffer on the rails of its link that `can` do what is needed.
    fn register<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        id: RequestId,
        can: impl Fn(&RailCapabilities) -> bool,
    ) -> Keys {
        let rails = self.links.get(index).rails;
        let request = self.requests.get_mut(id).expect("the caller made it");
        let mut keys = Keys::default();
        if request.buffer.is_empty() {
            return keys;
        }
        let buffer = request.buffer;
        for rail in rails.iter().take(crate::wire::KEYS_MAX) {
            if !can(&device.rails()[rail.0 as usize]) {
                continue;
            }
            let mut key = self.registrations.find(rail, &buffer);
            if key.is_none() {
                key = device.register(rail, buffer);
                let too_many = key.and_then(|key| self.registrations.made(rail, &buffer, key));
                if let Some((rail, key)) = too_many {
                    device.deregister(rail, key);
                }
            }
            if let Some(key) = key {
                keys.push(rail, key);
            }
        }
        if !keys.is_empty() {
            let request = self.requests.get_mut(id).expect("the caller made it");
            request.extra_mut().registered = keys;
        }
        keys
    }

    pub(super) fn add_moving(&mut self, id: RequestId) {
        self.moving.push_back(id);
        self.has_output = true;
    }

    /// A receive is matched with an announced message: it will be got, or asked for (see `move_by_get`).
    pub(super) fn begin_receive(&mut self, id: RequestId, sender: RequestId, total: u64, keys: Keys) {
        let request = self.requests.get_mut(id).expect("the caller made it");
        let moving = Box::new(Moving { total, remote: keys, ..Moving::default() });
        request.state = State::Getting { moving, sender };
        self.add_moving(id);
    }

    /// Asks the sender to move the data: by put where a rail can, else (or if not `by_put`) by packets.
    fn ask<D: Device>(&mut self, device: &mut D, id: RequestId, sender: RequestId, total: u64, by_put: bool) {
        let request = self.requests.get_mut(id).expect("the caller has it");
        let index = request.link.expect("rendezvous goes over a link");
        let is_trunk = self.links.get(index).trunk.is_some();
        request.state = if is_trunk && total > 0 {
            State::Gathering { gather: Box::new(Gather::new(total)) }
        } else {
            State::Receiving { total, received: 0 }
        };
        // Who could have let us get it and did not will send packets.
        let can = |rail: &RailCapabilities| by_put && rail.put && (is_trunk || !rail.get);
        let keys = self.register(device, index, id, can);
        let header = Header::Cts { sender, receiver: id, length: total, keys };
        self.offer_or_queue(device, index, header, Buffer::EMPTY);
    }

    /// The receiver is ready.
    pub(super) fn on_cts(
        &mut self,
        index: LinkIndex,
        sender: RequestId,
        receiver: RequestId,
        length: u64,
        keys: Keys,
    ) -> Result<(), Blame> {
        let is_trunk = self.links.get(index).trunk.is_some();
        let request = self.own_request(index, sender)?;
        if !matches!(request.state, State::Offered) {
            return Err(Blame("CTS for a request that offered nothing"));
        }
        if length > request.buffer.len() as u64 {
            return Err(Blame("CTS for more than the message has"));
        }
        if is_trunk {
            return self.begin_spread(index, sender, receiver, length, keys);
        }
        let moving = Box::new(Moving { total: length, remote: keys, ..Moving::default() });
        request.state = if keys.is_empty() {
            State::Streaming { moving, receiver }
        } else {
            State::Putting { moving, receiver }
        };
        self.add_moving(sender);
        Ok(())
    }

    /// Goes on moving a request's data. `true`: nothing more to issue for now.
    pub(super) fn move_on<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Getting { .. }) => self.move_by_get(device, id),
            Some(State::Putting { .. } | State::Streaming { .. } | State::Spreading { .. }) => {
                if let Some(index) = self.requests.get(id).and_then(|request| request.link) {
                    self.pace(device, index, id);
                }
                self.move_out(device, id)
            }
            _ => true,
        }
    }

    /// By the sender.
    fn move_out<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Putting { .. }) => self.move_by_put(device, id),
            Some(State::Streaming { .. }) => self.move_by_packets(device, id),
            _ => self.move_by_spread(device, id),
        }
    }

    /// Memory is about to be unmapped (or has just been): registrations of it that are kept are ended, those in use when
    /// their messages are. Without effect where none are kept.
    pub fn invalidate_memory<D: Device>(&mut self, device: &mut D, base: usize, len: usize) {
        for (rail, key) in self.registrations.invalidate(base, len) {
            device.deregister(rail, key);
        }
    }

    fn move_by_get<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        let request = self.requests.get_mut(id).expect("the caller looked");
        let State::Getting { moving, .. } = &mut request.state else { return true };
        let now = self.now;
        let link = self.links.get_mut(request.link.expect("rendezvous goes over a link"));
        let peer = link.peer;
        let mut trunk = link.trunk.as_mut();
        if let Some(trunk) = &trunk {
            moving.keep_rail_up(trunk);
        }
        let step = issue(device, moving, request.buffer, |device, rail, local, remote| {
            let submitted = device.get(rail, peer, local, remote, Token(id.to_bits()));
            if let (Ok(Submitted::Pending), Some(trunk)) = (submitted, &mut trunk) {
                trunk.begin_transfer(rail, 0, now);
            }
            submitted
        });
        match step {
            Step::Later => return false,
            Step::Issued => self.finish_if_moved(device, id),
            Step::Refused => self.change_way_if_idle(device, id),
        }
        true
    }

    fn move_by_put<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        let request = self.requests.get_mut(id).expect("the caller looked");
        let State::Putting { moving, .. } = &mut request.state else { return true };
        let peer = self.links.get(request.link.expect("rendezvous goes over a link")).peer;
        let step = issue(device, moving, request.buffer, |device, rail, local, remote| {
            device.put(rail, peer, local, remote, Token(id.to_bits()))
        });
        match step {
            Step::Later => return false,
            Step::Issued => self.finish_if_moved(device, id),
            Step::Refused => self.change_way_if_idle(device, id),
        }
        true
    }

    /// Gets or puts do not work: the data goes another way, once nothing of the old way is in flight. Sooner, a late
    /// get would read memory that the sender has deregistered, and a late put write memory that the receiver has given
    /// back to its user.
    fn change_way_if_idle<D: Device>(&mut self, device: &mut D, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let (State::Getting { moving, .. } | State::Putting { moving, .. }) = &request.state else { return };
        if moving.in_flight > 0 {
            return;
        }
        match &request.state {
            State::Getting { moving, sender } => {
                let by_put = moving.failure != Some(Failure::Broken);
                self.ask(device, id, *sender, moving.total, by_put);
            }
            _ => self.put_to_packets(id),
        }
    }

    /// Puts do not work: sends the whole message again as packets, which the receiver counts.
    fn put_to_packets(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if let State::Putting { ref moving, receiver } = request.state {
            let moving = Box::new(Moving { total: moving.total, ..Moving::default() });
            request.state = State::Streaming { moving, receiver };
            self.add_moving(id);
        }
    }

    fn move_by_packets<D: Device>(&mut self, device: &mut D, id: RequestId) -> bool {
        let request = self.requests.get_mut(id).expect("the caller looked");
        let State::Streaming { moving, receiver } = &mut request.state else { return true };
        let link = self.links.get_mut(request.link.expect("rendezvous goes over a link"));
        if link.failed.is_some() {
            return true;
        }
        if !link.pending.is_empty() {
            return false;
        }
        let packet_max = device.rails()[link.rail.0 as usize].packet_bytes_max;
        let fragment_max = packet_max.saturating_sub(DATA_HEADER_BYTES) as u64;
        // Whole lines, where that is possible: what begins one is copied faster.
        let fragment_max = if fragment_max >= 64 { fragment_max & !63 } else { fragment_max.max(1) };
        while moving.issued < moving.total {
            let length = fragment_max.min(moving.total - moving.issued);
            let part = request.buffer.part(moving.issued as usize, length as usize);
            if !link.offer(
                device,
                self.now,
                &Header::Data { receiver: *receiver, offset: moving.issued },
                &part,
            ) {
                return false;
            }
            moving.issued += length;
        }
        self.complete(id, Completion::EMPTY);
        true
    }

    /// A get or put of a request has ended.
    pub(super) fn on_moved<D: Device>(&mut self, device: &mut D, id: RequestId, worked: bool) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if let State::Transfer(_) = request.state {
            return self.on_transfer_end(id, worked);
        }
        let (State::Getting { moving, .. } | State::Putting { moving, .. }) = &mut request.state else {
            return;
        };
        let rail = moving.remote.iter().next().map(|(rail, _)| rail);
        let trunk = request.link.and_then(|index| self.links.get_mut(index).trunk.as_mut());
        if let (Some(trunk), Some(rail)) = (trunk, rail) {
            trunk.end_transfer(rail, 0, self.now, worked, self.now);
        }
        moving.in_flight -= 1;
        if !worked {
            moving.failure = Some(Failure::Broken);
        }
        match moving.failure {
            None => self.finish_if_moved(device, id),
            Some(_) => self.change_way_if_idle(device, id),
        }
    }

    /// Sends FIN and completes, if all data of a get or put has been moved.
    fn finish_if_moved<D: Device>(&mut self, device: &mut D, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let (State::Getting { moving, sender: peer } | State::Putting { moving, receiver: peer }) =
            &request.state
        else {
            return;
        };
        if moving.issued < moving.total || moving.in_flight > 0 {
            return;
        }
        let (peer, index) = (*peer, request.link.expect("rendezvous goes over a link"));
        let completion = request.completion();
        self.offer_or_queue(device, index, Header::Fin(peer), Buffer::EMPTY);
        self.complete(id, completion);
    }

    /// The other side has moved everything.
    pub(super) fn on_fin(&mut self, index: LinkIndex, id: RequestId) -> Result<(), Blame> {
        let request = self.own_request(index, id)?;
        match request.state {
            State::Offered | State::Receiving { .. } => {
                let completion = request.completion();
                self.complete(id, completion);
                Ok(())
            }
            _ => Err(Blame("FIN for a request that waits for none")),
        }
    }

    /// A fragment.
    pub(super) fn on_data(
        &mut self,
        index: LinkIndex,
        id: RequestId,
        offset: u64,
        payload: Payload<'_>,
    ) -> Result<(), Blame> {
        let request = self.own_request(index, id)?;
        let State::Receiving { total, received } = &mut request.state else {
            return Err(Blame("data for a request that receives none"));
        };
        let length = payload_len(&payload) as u64;
        if offset.checked_add(length).is_none_or(|end| end > *total) {
            return Err(Blame("data outside the message"));
        }
        *received += length;
        let whole = *received >= *total;
        request.buffer.scatter(offset as usize, payload[0]);
        request.buffer.scatter(offset as usize + payload[0].len(), payload[1]);
        if whole {
            let completion = request.completion();
            self.complete(id, completion);
        }
        Ok(())
    }
}

impl Moving {
    /// A message that is got over a link of several rails is got by one of them: by the first that works when it begins.
    /// When that is taken out, or none works, the message goes another way.
    fn keep_rail_up(&mut self, trunk: &Trunk) {
        let first = if self.issued == 0 {
            let found = self.remote.iter().find(|(rail, _)| trunk.is_up(*rail));
            self.remote = Keys::default();
            if let Some((rail, key)) = found {
                self.remote.push(rail, key);
            }
            found
        } else {
            self.remote.iter().next().filter(|(rail, _)| trunk.is_up(*rail))
        };
        if first.is_none() && self.issued < self.total {
            self.failure.get_or_insert(Failure::Refused);
        }
    }
}

/// Length of a [`Header::Data`] header in bytes.
const DATA_HEADER_BYTES: usize = 24;

/// Issues pieces until all are, or the device is full.
fn issue<D: Device>(
    device: &mut D,
    moving: &mut Moving,
    buffer: Buffer,
    mut operation: impl FnMut(&mut D, Rail, Buffer, RemoteRegion) -> Result<Submitted, Full>,
) -> Step {
    if moving.failure.is_some() {
        return Step::Refused;
    }
    while moving.issued < moving.total {
        let known = |(rail, key): (Rail, _)| Some((rail, key, device.rails().get(rail.0 as usize)?));
        let Some((rail, key, capabilities)) = moving.remote.iter().next().and_then(known) else {
            moving.failure = Some(Failure::Refused);
            return Step::Refused;
        };
        let limit = capabilities.transfer_bytes_max.max(1) as u64;
        let length = limit.min(moving.total - moving.issued);
        let local = buffer.part(moving.issued as usize, length as usize);
        match operation(device, rail, local, RemoteRegion { key, offset: moving.issued }) {
            Ok(Submitted::Done) => {}
            Ok(Submitted::Pending) => moving.in_flight += 1,
            Ok(Submitted::Refused) => {
                moving.failure = Some(Failure::Refused);
                return Step::Refused;
            }
            Err(Full) => return Step::Later,
        }
        moving.issued += length;
    }
    Step::Issued
}
