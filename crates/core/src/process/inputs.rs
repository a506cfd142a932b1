//! Inputs: what devices report. Nothing a peer sends can panic: what no correct peer sends cuts it off.

use super::commands::{completion_of, settle};
use super::{Body, Process, ProcessEvent};
use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::device::{Device, Event, Fetched, Incoming, Packet, Token};
use crate::error::Error;
use crate::ids::{ProcessId, RequestId};
use crate::link::{CREDIT_CELLS, LinkIndex, cells_of};
use crate::request::{Completion, Request, State};
use crate::time::{Duration, Instant};
use crate::wire::{self, Envelope, Header, Prefix};
use alloc::vec::Vec;

/// Who has not looked after its links for so long beyond the time for it was away, computing or asleep.
const AWAY: Duration = Duration::from_ms(20);
/// Rounds after which it has read all that came meanwhile, at the latest: more than sockets hold. A flood that goes on is no reason
/// to look after nobody.
const CATCHING_UP_ROUNDS_MAX: u32 = 1 << 16;

/// What a peer did wrong.
pub(super) struct Blame(pub(super) &'static str);

/// The front of a packet, and how much payload is still on its way.
pub(super) struct Front {
    pub(super) incoming: Incoming,
    pub(super) payload_bytes: usize,
}

impl Process {
    /// The usual round: polls the device dry (but not for ever), handles what it reports, then transmits.
    /// Whether anything happened.
    #[inline]
    pub fn progress<D: Device>(&mut self, device: &mut D) -> bool {
        /// So that a flood from peers cannot keep us from transmitting and the caller from looking.
        const EVENTS_MAX: u32 = 64;
        /// When something waits to be sent: long packets one after the other can take a millisecond, in which rails run dry.
        const EVENTS_BEFORE_SENDING_MAX: u32 = 8;
        let (mut worked, mut all_is_read) = (false, false);
        for count in 0..EVENTS_MAX {
            if count >= EVENTS_BEFORE_SENDING_MAX && self.wants_transmit() && self.catching_up == 0 {
                break;
            }
            let Some(event) = device.poll() else {
                all_is_read = true;
                break;
            };
            worked = true;
            self.handle_event(device, event);
            if self.direct_is_done() {
                // Somebody waits for this and nothing else: no further look.
                break;
            }
        }
        if self.wants_transmit() {
            self.catching_up = if all_is_read { 0 } else { self.catching_up.saturating_sub(1) };
            worked |= self.poll_transmit(device);
        }
        worked
    }

    /// Handles one report of a device. Replies wait for [`poll_transmit`](Self::poll_transmit).
    #[inline(always)]
    pub fn handle_event<D: Device>(&mut self, device: &mut D, event: Event) {
        match event {
            Event::Packet(incoming) => {
                let index = self.link_to(device, incoming.from);
                let link = self.links.get(index);
                if link.failed.is_some() {
                    self.refuse_packet(device, &incoming, index);
                } else {
                    let packet = device.packet(&incoming);
                    let handled = match link.trunk {
                        None => self.handle_packet(index, packet),
                        Some(_) => self.handle_trunk_packet(index, incoming.rail, packet),
                    };
                    if let Err(Blame(what)) = handled {
                        self.cut_off(index, what);
                    }
                }
                device.release(incoming);
            }
            Event::Front(incoming, payload_bytes) => {
                self.on_front(device, &Front { incoming, payload_bytes });
            }
            Event::Completion(Token(bits), outcome) => {
                self.on_moved(device, RequestId::from_bits(bits), outcome.is_ok());
            }
            Event::RailDown(rail, peer) => self.handle_rail(device, rail, peer, false),
            Event::RailUp(rail, peer) => self.handle_rail(device, rail, peer, true),
            Event::PeerGone(peer) => self.handle_peer_gone(device, peer),
        }
    }

    /// The time goes on. Before each round of progress while [`wants_time`](Self::wants_time), and at
    /// [`poll_timeout`](Self::poll_timeout); what that makes to be done is done by `poll_transmit`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.now >= self.next_check && self.wants_time() {
            if self.catching_up == 0 && self.now >= self.next_check + AWAY {
                self.catching_up = CATCHING_UP_ROUNDS_MAX;
            }
            self.trunks_due = true;
            self.has_output = true;
        }
    }

    /// A peer's process is gone: every operation that needs it ends with [`Error::ProcessAborted`].
    pub fn handle_peer_gone<D: Device>(&mut self, device: &D, peer: ProcessId) {
        let index = self.link_to(device, peer);
        self.fail_link(index, Error::ProcessAborted(peer));
    }

    #[cold]
    fn cut_off(&mut self, index: LinkIndex, what: &'static str) {
        let peer = self.links.get(index).peer;
        self.fail_link(index, Error::PeerMisbehaved { peer, what });
    }

    #[cold]
    pub(super) fn fail_link(&mut self, index: LinkIndex, error: Error) {
        let link = self.links.get_mut(index);
        if matches!(link.failed, Some(Error::ProcessAborted(_))) {
            return;
        }
        link.failed = Some(error);
        link.pending.clear();
        if let Some(trunk) = &mut link.trunk {
            trunk.close();
        }
        let peer = link.peer;
        self.fail_direct(peer, error);
        let concerned: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|(_, request)| match &request.state {
                State::Complete(_) => false,
                // A receive from anybody might have been from this one: MPI cannot know, so it is told.
                State::Posted { peer: from, .. } => from.is_none_or(|from| from == peer),
                _ => request.link == Some(index),
            })
            .map(|(id, _)| id)
            .collect();
        for id in concerned {
            match self.requests.get(id).map(|request| &request.state) {
                Some(&State::Posted { key, .. }) => self.posted.withdraw(key, id.index),
                // Nobody waits for a single put: its message is what fails.
                Some(State::Transfer(_)) => {
                    self.requests.remove(id);
                    continue;
                }
                _ => {}
            }
            self.complete(id, Completion::failed(error));
        }
        self.lost.push((peer, error));
        self.fail_collectives(peer, error);
        self.events.push_back(ProcessEvent::PeerLost(peer, error));
    }

    #[inline(always)]
    pub(super) fn handle_packet(&mut self, index: LinkIndex, packet: Packet<'_>) -> Result<(), Blame> {
        match wire::parse_eager(packet.header) {
            Some((prefix, envelope)) => {
                self.handle_parsed(index, prefix, Header::Eager(envelope), [packet.payload, Piece::EMPTY])
            }
            None => self.handle_any_packet(index, packet),
        }
    }

    #[inline(never)]
    fn handle_any_packet(&mut self, index: LinkIndex, packet: Packet<'_>) -> Result<(), Blame> {
        let (prefix, header, header_len) =
            wire::parse(packet.header).map_err(|wire::Malformed(what)| Blame(what))?;
        let payload = [Piece::Bytes(&packet.header[header_len..]), packet.payload];
        self.handle_parsed(index, prefix, header, payload)
    }

    #[inline(always)]
    fn handle_parsed(
        &mut self,
        index: LinkIndex,
        prefix: Prefix,
        header: Header,
        payload: Payload<'_>,
    ) -> Result<(), Blame> {
        let link = self.links.get_mut(index);
        if prefix.sequence != link.receive_sequence {
            return Err(Blame("a packet is missing or out of order on an ordered rail"));
        }
        link.receive_sequence = link.receive_sequence.wrapping_add(1);
        link.credits += u32::from(prefix.credits);
        if link.credits > CREDIT_CELLS {
            return Err(Blame("more credit returned than was spent"));
        }
        match header {
            Header::Eager(envelope) => self.on_eager(index, &envelope, payload, None),
            Header::EagerSync(envelope, sender) => self.on_eager_sync(index, envelope, payload, sender),
            Header::Rts { envelope, sender, length, keys } => {
                self.on_rts(index, envelope, sender, length, keys);
                Ok(())
            }
            Header::Cts { sender, receiver, length, keys } => {
                self.on_cts(index, sender, receiver, length, keys)
            }
            Header::Data { receiver, offset } => self.on_data(index, receiver, offset, payload),
            Header::Fin(request) => self.on_fin(index, request),
            Header::Matched(request) => self.on_matched(index, request),
            Header::Cancel(request) => {
                self.on_cancel(index, request);
                Ok(())
            }
            Header::CancelReply(request, yes) => self.on_cancel_reply(index, request, yes),
            Header::Credit => Ok(()),
        }
    }

    /// What is wrong with a packet of which the front has come is said when it is whole.
    #[inline(never)]
    fn on_front<D: Device>(&mut self, device: &mut D, front: &Front) {
        let index = self.link_to(device, front.incoming.from);
        let link = self.links.get(index);
        if link.failed.is_some() {
            return;
        }
        match link.trunk {
            None => self.handle_front(device, index, front),
            Some(_) => self.handle_trunk_front(device, index, front),
        }
    }

    /// The front of a packet. If its payload has a place, it goes there while it comes; every other packet is handled when it
    /// is whole.
    fn handle_front<D: Device>(&mut self, device: &mut D, index: LinkIndex, front: &Front) {
        let Front { ref incoming, payload_bytes } = *front;
        let packet = device.packet(incoming);
        let Ok((prefix, header, header_len)) = wire::parse(packet.header) else { return };
        let is_next = prefix.sequence == self.links.get(index).receive_sequence;
        if !is_next || header_len != packet.header.len() {
            return;
        }
        let Some(place) = self.place_of(index, &header, payload_bytes) else { return };
        if device.fetch(incoming, place) != Fetched::Whole {
            return;
        }
        // It is where it belongs: what is left is to say so.
        let payload = [Piece::Virtual(payload_bytes), Piece::EMPTY];
        if let Err(Blame(what)) = self.handle_parsed(index, prefix, header, payload) {
            self.cut_off(index, what);
        }
    }

    /// Where the whole payload of a packet belongs, if that is known already.
    fn place_of(&mut self, index: LinkIndex, header: &Header, payload_bytes: usize) -> Option<Buffer> {
        match *header {
            Header::Eager(envelope) => {
                // A receive from anybody may take another's message before all of this one has come, and a shorter one
                // must leave the rest of its buffer as it was (MPI-5.0 §3.2.4).
                let buffer = match self.posted.find_match(&envelope) {
                    Some(slot) => {
                        let request = self.requests.at(slot)?.1;
                        let State::Posted { peer: Some(_), .. } = request.state else { return None };
                        request.buffer
                    }
                    None => {
                        let is_from_one = matches!(self.direct_wants(), Some(Some(_)));
                        self.direct_buffer().filter(|_| is_from_one && self.direct_takes(&envelope))?
                    }
                };
                (payload_bytes <= buffer.len()).then(|| buffer.part(0, payload_bytes))
            }
            Header::Data { receiver, offset } => {
                let request = self.own_request(index, receiver).ok()?;
                let State::Receiving { total, .. } = request.state else { return None };
                let fits = offset.checked_add(payload_bytes as u64).is_some_and(|end| end <= total);
                fits.then(|| request.buffer.part(offset as usize, payload_bytes))
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn on_eager(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        payload: Payload<'_>,
        sync: Option<RequestId>,
    ) -> Result<(), Blame> {
        if self.deliver(envelope, payload) {
            self.acknowledge(index, cells_of(payload_len(&payload)), sync);
            return Ok(());
        }
        self.on_unexpected(index, envelope, payload, sync)
    }

    #[inline(never)]
    fn on_eager_sync(
        &mut self,
        index: LinkIndex,
        envelope: Envelope,
        payload: Payload<'_>,
        sender: RequestId,
    ) -> Result<(), Blame> {
        self.on_eager(index, &envelope, payload, Some(sender))
    }

    #[inline(never)]
    fn on_unexpected(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        payload: Payload<'_>,
        sync: Option<RequestId>,
    ) -> Result<(), Blame> {
        self.check_unexpected_room(index, payload_len(&payload))?;
        let data = self.store(payload);
        self.add_arrival(*envelope, Some(index), Body::Eager { data, sync });
        Ok(())
    }

    /// A peer that respects credit never has more than the window unread here.
    fn check_unexpected_room(&mut self, index: LinkIndex, length: usize) -> Result<(), Blame> {
        let link = self.links.get_mut(index);
        link.unread += cells_of(length);
        if link.unread > CREDIT_CELLS {
            return Err(Blame("more eager data sent than there was credit for"));
        }
        Ok(())
    }

    /// Copies a message into the receive that it matches. `false`: there is none.
    #[inline(always)]
    pub(super) fn deliver(&mut self, envelope: &Envelope, payload: Payload<'_>) -> bool {
        if let Some(index) = self.posted.take_match(envelope) {
            let (id, request) = self.requests.at_mut(index).expect("a posted receive is a request");
            let state = core::cell::Cell::from_mut(&mut request.state);
            settle(envelope, payload, &request.buffer, |completion| {
                let before = state.replace(State::Complete(completion));
                // Nothing to drop, which the compiler cannot know.
                debug_assert!(matches!(before, State::Posted { .. }), "posted, not complete");
                core::mem::forget(before);
            });
            self.completion_count += 1;
            if request.is_watched()
                && let State::Complete(completion) = request.state
            {
                self.clear_away(id, &completion);
            }
            return true;
        }
        let takes = self.direct_takes(envelope);
        if takes {
            self.deliver_direct(envelope, payload);
        }
        takes
    }

    fn on_rts(
        &mut self,
        index: LinkIndex,
        envelope: Envelope,
        sender: RequestId,
        length: u64,
        keys: crate::wire::Keys,
    ) {
        let Some(id) = self.request_for(&envelope) else {
            self.add_arrival(envelope, Some(index), Body::Rts { sender, length, keys });
            return;
        };
        let request = self.requests.get_mut(id).expect("a matched receive is a request");
        let completion = completion_of(&envelope, length, &request.buffer);
        request.extra_mut().completion = completion;
        request.link = Some(index);
        self.begin_receive(id, sender, completion.status.bytes, keys);
    }

    /// The request of the receive that a message matches.
    fn request_for(&mut self, envelope: &Envelope) -> Option<RequestId> {
        if let Some(index) = self.posted.take_match(envelope) {
            return self.requests.id_at(index);
        }
        let buffer = self.direct_buffer().filter(|_| self.direct_takes(envelope))?;
        let id = self.requests.insert(Request::new(State::Inactive, buffer, None));
        self.direct_becomes_request(id);
        Some(id)
    }

    fn on_matched(&mut self, index: LinkIndex, id: RequestId) -> Result<(), Blame> {
        match self.own_request(index, id)?.state {
            State::AwaitMatch => {
                self.complete(id, Completion::EMPTY);
                Ok(())
            }
            _ => Err(Blame("match reported for a request that waits for none")),
        }
    }

    fn on_cancel(&mut self, index: LinkIndex, sender: RequestId) {
        let dropped = self.drop_arrival(|arrival| {
            arrival.link == Some(index)
                && match arrival.body {
                    Body::Rts { sender: by, .. } => by == sender,
                    Body::Eager { sync, .. } => sync == Some(sender),
                    Body::Local { .. } => false,
                }
        });
        if let Some(arrival) = &dropped
            && let Body::Eager { data, .. } = &arrival.body
        {
            let cells = cells_of(data.piece().len());
            self.links.get_mut(index).unread -= cells;
            self.owe(index, cells);
        }
        self.queue_control(index, Header::CancelReply(sender, dropped.is_some()));
    }

    fn on_cancel_reply(&mut self, index: LinkIndex, id: RequestId, yes: bool) -> Result<(), Blame> {
        if !yes {
            // It had been matched: the request completes, or has completed, as usual.
            return Ok(());
        }
        match self.own_request(index, id)?.state {
            State::AwaitMatch | State::Offered => {
                self.complete_cancelled(id);
                Ok(())
            }
            _ => Err(Blame("cancellation confirmed for a message that was matched")),
        }
    }

    /// A request that a peer names: it must exist and be with that peer.
    pub(super) fn own_request(&mut self, index: LinkIndex, id: RequestId) -> Result<&mut Request, Blame> {
        self.requests
            .get_mut(id)
            .filter(|request| request.link == Some(index))
            .ok_or(Blame("a request that is not there"))
    }
}
