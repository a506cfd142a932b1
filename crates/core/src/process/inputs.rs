//! Inputs: what devices report. Nothing a peer sends can panic: what no correct peer sends cuts it off.

use super::commands::{completion_of, copy_in};
use super::{Body, Process, ProcessEvent};
use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::data::Data;
use crate::device::{Device, Event, Fetched, Incoming, Packet};
use crate::error::{Blame, Error};
use crate::ids::{ProcessId, Rail, RequestId, TransferId};
use crate::link::{Front, LinkEvent, LinkIndex, Received};
use crate::request::{Completion, Request, State};
use crate::time::Instant;
use crate::wire::{self, Envelope, Header, Prefix};
use alloc::vec::Vec;

impl Process {
    /// The usual round: polls the device dry (but not for ever), handles what it reports, then transmits.
    /// Whether anything happened.
    #[inline]
    pub fn progress<D: Device>(&mut self, device: &mut D) -> bool {
        /// So that a flood from peers cannot keep us from transmitting and the caller from looking.
        const EVENTS_MAX: u32 = 64;
        /// When something waits to be sent: long packets one after the other can take a millisecond, in which
        /// rails run dry.
        const EVENTS_BEFORE_SENDING_MAX: u32 = 8;
        let (mut worked, mut all_is_read) = (false, false);
        for count in 0..EVENTS_MAX {
            if count >= EVENTS_BEFORE_SENDING_MAX && self.wants_transmit() && !self.links.is_catching_up() {
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
            self.links.end_round(all_is_read);
            worked |= self.poll_transmit(device);
        }
        worked
    }

    /// Handles one report of a device. Replies wait for [`poll_transmit`](Self::poll_transmit).
    #[inline(always)]
    pub fn handle_event<D: Device>(&mut self, device: &mut D, event: Event) {
        match event {
            Event::Packet(incoming) => {
                let index = self.links.to(device, incoming.from);
                let handled = match self.links.get(index).is_plain() {
                    true => self.handle_packet(index, device.packet(&incoming)),
                    false => self.handle_numbered(device, index, &incoming),
                };
                if let Err(Blame(what)) = handled {
                    self.cut_off(index, what);
                }
                device.release(incoming);
            }
            Event::Front(incoming, payload_bytes) => self.on_front(device, &incoming, payload_bytes),
            Event::Completion(token, outcome) => {
                self.transfers.on_operation_end(device, &mut self.links, token, outcome.is_ok());
                self.handle_events(device);
            }
            Event::RailDown(rail, peer) => self.on_rail(device, rail, peer, false),
            Event::RailUp(rail, peer) => self.on_rail(device, rail, peer, true),
            Event::PeerGone(peer) => self.handle_peer_gone(device, peer),
        }
    }

    /// A packet by a link that numbers its packets, or of a peer that is given up.
    #[inline(never)]
    fn handle_numbered<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        incoming: &Incoming,
    ) -> Result<(), Blame> {
        if self.links.get(index).failed().is_some() {
            self.links.refuse(device, incoming, index);
            return Ok(());
        }
        let received = self.links.receive(index, incoming.rail, device.packet(incoming))?;
        let handled = self.handle_received(index, received);
        self.links.handled(index);
        self.handle_events(device);
        handled
    }

    fn handle_received(&mut self, index: LinkIndex, received: Received<'_>) -> Result<(), Blame> {
        match received {
            Received::Packet(packet) => {
                self.handle_packet(index, packet)?;
                while let Some((bytes, virtual_bytes)) = self.links.next_held(index) {
                    let payload =
                        if virtual_bytes > 0 { Piece::Virtual(virtual_bytes) } else { Piece::EMPTY };
                    self.handle_packet(index, Packet { header: &bytes, payload })?;
                    self.links.give_back(index, bytes);
                }
                Ok(())
            }
            Received::Units(units, payload) => match self.transfer_of(index, units.receiver) {
                Ok(transfer) => self.transfers.on_units(&mut self.links, transfer, &units, payload),
                // Nobody waits for them any more, which is no fault: what came twice may come after the
                // receive has ended.
                Err(_) => Ok(()),
            },
            Received::Nothing => Ok(()),
        }
    }

    /// What links and transfers tell. To be called after each of their methods that may tell something.
    #[inline]
    pub(super) fn handle_events<D: Device>(&mut self, device: &mut D) {
        while let Some(event) = self.links.poll_event() {
            self.handle_link_event(device, event);
        }
        while let Some((request, completion)) = self.transfers.poll_ended() {
            self.complete(request, completion);
        }
    }

    #[inline(never)]
    fn handle_link_event<D: Device>(&mut self, device: &mut D, event: LinkEvent) {
        match event {
            LinkEvent::Sent(request) => self.complete(request, Completion::EMPTY),
            LinkEvent::Settled(id, run) => self.transfers.on_settled(device, &mut self.links, id, run),
            LinkEvent::Lost(id, run) => self.transfers.on_lost(&mut self.links, id, run),
            LinkEvent::Room(index, id) => self.transfers.on_room(&mut self.links, index, id),
            LinkEvent::Unreachable(index) => {
                let error = Error::Unreachable(self.links.get(index).peer());
                self.fail_link(index, error);
            }
        }
    }

    #[cold]
    fn on_rail<D: Device>(&mut self, device: &mut D, rail: Rail, peer: ProcessId, is_up: bool) {
        self.links.handle_rail(device, rail, peer, is_up);
        self.handle_events(device);
    }

    /// The time goes on. Before each round of progress while [`wants_time`](Self::wants_time), and at
    /// [`poll_timeout`](Self::poll_timeout); what that makes to be done is done by `poll_transmit`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.links.advance_to(now);
    }

    /// A peer's process is gone: every operation that needs it ends with [`Error::ProcessAborted`].
    pub fn handle_peer_gone<D: Device>(&mut self, device: &D, peer: ProcessId) {
        let index = self.links.to(device, peer);
        self.fail_link(index, Error::ProcessAborted(peer));
    }

    #[cold]
    fn cut_off(&mut self, index: LinkIndex, what: &'static str) {
        let peer = self.links.get(index).peer();
        self.fail_link(index, Error::PeerMisbehaved { peer, what });
    }

    #[cold]
    pub(super) fn fail_link(&mut self, index: LinkIndex, error: Error) {
        if !self.links.fail(index, error) {
            return;
        }
        self.transfers.forget_link(index, matches!(error, Error::ProcessAborted(_)));
        let peer = self.links.get(index).peer();
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
            if let Some(&State::Posted { key, .. }) = self.requests.get(id).map(|request| &request.state) {
                self.posted.withdraw(key, id.index);
            }
            self.complete(id, Completion::failed(error));
        }
        self.lost.push((peer, error));
        self.fail_collectives(peer, error);
        self.fail_windows(peer, error);
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
        self.links.get_mut(index).take_prefix(prefix)?;
        match header {
            Header::Eager(envelope) => self.on_eager(index, &envelope, payload, None),
            Header::EagerSync(envelope, sender) => self.on_eager_sync(index, envelope, payload, sender),
            Header::Rts { envelope, sender, length, keys, offers_packets } => {
                self.on_rts(index, envelope, sender, length, (keys, offers_packets))
            }
            Header::Cts { .. } | Header::Data { .. } | Header::Fin(_) => {
                self.on_transfer_packet(index, &header, payload)
            }
            Header::Matched(request) => self.on_matched(index, request),
            Header::Cancel(request) => {
                self.on_cancel(index, request);
                Ok(())
            }
            Header::CancelReply(request, yes) => self.on_cancel_reply(index, request, yes),
            Header::Credit => Ok(()),
        }
    }

    /// A packet of a long message.
    #[inline(never)]
    fn on_transfer_packet(
        &mut self,
        index: LinkIndex,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<(), Blame> {
        match *header {
            Header::Cts { sender, receiver, length, keys } => {
                let transfer = self.transfer_of(index, sender)?;
                self.transfers.on_cts(&mut self.links, transfer, receiver, (length, keys))?;
            }
            Header::Data { receiver, offset } => {
                let transfer = self.transfer_of(index, receiver)?;
                self.transfers.on_data(transfer, offset, payload)?;
            }
            Header::Fin(request) => {
                let transfer = self.transfer_of(index, request)?;
                self.transfers.on_fin(&mut self.links, transfer)?;
            }
            _ => {}
        }
        while let Some((request, completion)) = self.transfers.poll_ended() {
            self.complete(request, completion);
        }
        Ok(())
    }

    /// The front of a packet. If its payload has a place, it goes there while it comes; every other packet is
    /// handled when it is whole. What is wrong with a packet is said then, too.
    #[inline(never)]
    fn on_front<D: Device>(&mut self, device: &mut D, incoming: &Incoming, payload_bytes: usize) {
        let index = self.links.to(device, incoming.from);
        if self.links.get(index).failed().is_some() {
            return;
        }
        let bytes = device.packet(incoming).header;
        let packet_bytes = (bytes.len() + payload_bytes) as u64;
        let Some(front) = self.links.front(index, bytes, payload_bytes) else { return };
        let place = match &front {
            Front::Packet(_, header) => self.place_of(index, header, payload_bytes),
            Front::Units(units, _) => match self.transfer_of(index, units.receiver) {
                Ok(transfer) => self.transfers.place_of_units(transfer, units, payload_bytes),
                Err(_) => None,
            },
        };
        let Some(place) = place else { return };
        if device.fetch(incoming, place) != Fetched::Whole {
            return;
        }
        // It is where it belongs: what is left is to say so.
        let payload = [Piece::Virtual(payload_bytes), Piece::EMPTY];
        let handled = match front {
            Front::Packet(prefix, header) => self.handle_parsed(index, prefix, header, payload),
            Front::Units(units, header) => {
                self.links.on_front(index, incoming.rail, &header, packet_bytes);
                let handled = self.handle_received(index, Received::Units(units, payload));
                self.links.handled(index);
                handled
            }
        };
        self.handle_events(device);
        if let Err(Blame(what)) = handled {
            self.cut_off(index, what);
        }
    }

    /// Where the whole payload of a packet belongs, if that is known already.
    fn place_of(&mut self, index: LinkIndex, header: &Header, payload_bytes: usize) -> Option<Buffer> {
        match *header {
            Header::Eager(envelope) => {
                // A receive from anybody may take another's message before all of this one has come, and a
                // shorter one must leave the rest of its buffer as it was (MPI-5.0 §3.2.4).
                let buffer = match self.posted.find_match(&envelope) {
                    Some(slot) => {
                        let request = self.requests.at(slot)?.1;
                        let State::Posted { peer: Some(_), .. } = request.state else { return None };
                        request.buffer
                    }
                    None => {
                        let is_from_one = matches!(self.direct.wants(), Some(Some(_)));
                        self.direct_buffer().filter(|_| is_from_one && self.direct_takes(&envelope))?
                    }
                };
                (payload_bytes <= buffer.len()).then(|| buffer.part(0, payload_bytes))
            }
            Header::Data { receiver, offset } => {
                let transfer = self.transfer_of(index, receiver).ok()?;
                self.transfers.place_of_data(transfer, offset, payload_bytes)
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
            self.links.owe(index, payload_len(&payload));
            self.tell_matched(index, sync);
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
        if self.take_active(index, envelope, payload)? {
            return Ok(());
        }
        self.links.get_mut(index).keep_unread(payload_len(&payload))?;
        let data = self.store(payload);
        self.add_arrival(*envelope, Some(index), Body::Eager { data, sync });
        Ok(())
    }

    /// Copies a message into the receive that it matches. `false`: there is none.
    #[inline(always)]
    pub(super) fn deliver(&mut self, envelope: &Envelope, payload: Payload<'_>) -> bool {
        if let Some(index) = self.posted.take_match(envelope) {
            let (id, request) = self.requests.at_mut(index).expect("a posted receive is a request");
            let state = core::cell::Cell::from_mut(&mut request.state);
            copy_in(envelope, payload, (&request.buffer, &request.extra), |completion| {
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
        (keys, offers_packets): (crate::wire::Keys, bool),
    ) -> Result<(), Blame> {
        let Some(id) = self.request_for(&envelope) else {
            if self.take_long_active(index, &envelope, (sender, length, keys))? {
                return Ok(());
            }
            self.links.keep_announcement(index)?;
            self.add_arrival(envelope, Some(index), Body::Rts { sender, length, keys, offers_packets });
            return Ok(());
        };
        let data = self.requests.get(id).map_or(Data::EMPTY, Request::data);
        let completion = completion_of(&envelope, length, data.len());
        self.begin_receive(id, data, (index, sender), (keys, offers_packets), completion);
        Ok(())
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
        match dropped.as_ref().map(|arrival| &arrival.body) {
            Some(Body::Eager { data, .. }) => self.links.owe_unread(index, data.piece().len()),
            Some(Body::Rts { .. }) => self.links.forget_announcement(index),
            _ => {}
        }
        self.links.queue_control(index, Header::CancelReply(sender, dropped.is_some()));
    }

    fn on_cancel_reply(&mut self, index: LinkIndex, id: RequestId, yes: bool) -> Result<(), Blame> {
        if !yes {
            // It had been matched: the request completes, or has completed, as usual.
            return Ok(());
        }
        let is_unmatched = match self.own_request(index, id)?.state {
            State::AwaitMatch => true,
            State::Transfer(transfer) => self.transfers.withdraw(&mut self.links, transfer),
            _ => false,
        };
        if !is_unmatched {
            return Err(Blame("cancellation confirmed for a message that was matched"));
        }
        self.complete_cancelled(id);
        Ok(())
    }

    /// The transfer of a request that a peer names.
    fn transfer_of(&mut self, index: LinkIndex, id: RequestId) -> Result<TransferId, Blame> {
        match self.own_request(index, id)?.state {
            State::Transfer(transfer) => Ok(transfer),
            _ => Err(Blame("data, CTS or FIN for a request without a transfer")),
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
