//! Inputs: what devices report. Nothing a peer sends can panic: what no correct peer sends cuts it off.

use super::{Process, ProcessEvent};
use crate::buffer::{Payload, Piece, payload_len};
use crate::device::{Device, Event, Fetched, Incoming, Packet};
use crate::error::{Blame, Error};
use crate::ids::{ProcessId, Rail, RequestId};
use crate::link::{Front, LinkEvent, LinkIndex, Received};
use crate::request::Completion;
use crate::time::Instant;
use crate::wire::{self, Envelope, Header, Keys, Prefix};

impl Process {
    /// The usual round: polls the device until it is empty (with a limit), handles its reports, then
    /// transmits. Returns whether anything happened.
    #[inline]
    pub fn progress<D: Device>(&mut self, device: &mut D) -> bool {
        /// So that a flood from peers cannot keep us from transmitting and the caller from looking.
        const EVENTS_MAX: u32 = 64;
        /// When something waits to be sent: long packets one after the other can take a millisecond, in which
        /// rails run dry.
        const EVENTS_BEFORE_SENDING_MAX: u32 = 8;
        let (mut worked, mut all_is_read) = (false, false);
        let mut count = 0;
        while count < EVENTS_MAX {
            if count >= EVENTS_BEFORE_SENDING_MAX
                && self.wants_transmit()
                && !self.messages.links.is_catching_up()
            {
                break;
            }
            let Some(event) = device.poll() else {
                all_is_read = true;
                break;
            };
            worked = true;
            // While a few long packets are copied, their sender would use up its credit.
            count += if matches!(event, Event::Front(..)) { EVENTS_BEFORE_SENDING_MAX } else { 1 };
            self.handle_event(device, event);
            if self.messages.direct_is_done() {
                // The caller waits for this and nothing else: no further look.
                break;
            }
            if self.rma.is_urgent && !self.messages.links.is_catching_up() {
                self.rma.is_urgent = false;
                break;
            }
        }
        if self.wants_transmit() {
            self.messages.links.end_round(all_is_read);
            worked |= self.poll_transmit(device);
        }
        worked
    }

    /// Handles one report of a device. Replies wait for [`poll_transmit`](Self::poll_transmit).
    #[inline(always)]
    pub fn handle_event<D: Device>(&mut self, device: &mut D, event: Event) {
        match event {
            Event::Packet(incoming) => {
                let index = self.messages.links.to(device, incoming.from);
                let handled = match self.messages.links.get(index).is_plain() {
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
                self.messages.transfers.on_operation_end(
                    device,
                    &mut self.messages.links,
                    token,
                    outcome.is_ok(),
                );
                self.handle_events(device);
            }
            Event::RailDown(rail, peer) => self.on_rail(device, rail, peer, false),
            Event::RailUp(rail, peer) => self.on_rail(device, rail, peer, true),
            Event::PeerGone(peer) => self.handle_peer_gone(device, peer),
            Event::PeerLeft(peer) => self.handle_peer_left(device, peer),
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
        if self.messages.links.get(index).failed().is_some() {
            self.messages.links.refuse(device, incoming, index);
            return Ok(());
        }
        let received = self.messages.links.receive(index, incoming.rail, device.packet(incoming))?;
        let handled = self.handle_received(index, received);
        self.messages.links.handled(index);
        self.handle_events(device);
        handled
    }

    fn handle_received(&mut self, index: LinkIndex, received: Received<'_>) -> Result<(), Blame> {
        match received {
            Received::Packet(packet) => {
                self.handle_packet(index, packet)?;
                self.handle_held(index)
            }
            Received::Units(units, payload) => match self.messages.transfer_of(index, units.receiver) {
                Ok(transfer) => {
                    self.messages.transfers.on_units(&mut self.messages.links, transfer, &units, payload)
                }
                // The receive has ended, which is no fault: a duplicate may arrive after it.
                Err(_) => Ok(()),
            },
            Received::Nothing => Ok(()),
        }
    }

    /// Handles the packets that came before their turn, as far as their turn has come.
    fn handle_held(&mut self, index: LinkIndex) -> Result<(), Blame> {
        while let Some((bytes, virtual_bytes)) = self.messages.links.next_held(index) {
            let payload = if virtual_bytes > 0 { Piece::Virtual(virtual_bytes) } else { Piece::EMPTY };
            self.handle_packet(index, Packet { header: &bytes, payload })?;
            self.messages.links.give_back(index, bytes);
        }
        Ok(())
    }

    /// Handles the events of links and transfers. Must be called after each of their methods that may emit
    /// one.
    #[inline]
    pub(super) fn handle_events<D: Device>(&mut self, device: &mut D) {
        while let Some(event) = self.messages.links.poll_event() {
            self.handle_link_event(device, event);
        }
        self.messages.complete_transfers();
    }

    #[inline(never)]
    fn handle_link_event<D: Device>(&mut self, device: &mut D, event: LinkEvent) {
        match event {
            LinkEvent::Sent(request) => self.messages.complete(request, Completion::EMPTY),
            LinkEvent::Settled(id, run) => {
                self.messages.transfers.on_settled(device, &mut self.messages.links, id, run)
            }
            LinkEvent::Lost(id, run) => self.messages.transfers.on_lost(&mut self.messages.links, id, run),
            LinkEvent::Room(index, id) => {
                self.messages.transfers.on_room(&mut self.messages.links, index, id)
            }
            LinkEvent::Unreachable(index) => {
                let error = Error::Unreachable(self.messages.links.get(index).peer());
                self.fail_link(index, error);
            }
            LinkEvent::NeverReached(index) => self.on_never_reached(index),
        }
    }

    /// No rail to a peer has come up. Where only receives from any source wait for it, others may serve them:
    /// it is given up when all are out of reach.
    #[cold]
    fn on_never_reached(&mut self, index: LinkIndex) {
        let peer = self.messages.links.get(index).peer();
        if !self.is_awaited_among_others(peer) {
            return self.fail_link(index, Error::Unreachable(peer));
        }
        self.messages.links.bear_with(index);
        self.sources_count += 1;
        for lost in self.sources_out_of_reach(peer) {
            let index = self.messages.links.index_of(lost).expect("it was never reached by a link");
            if self.messages.links.get(index).failed().is_none() {
                self.fail_link(index, Error::Unreachable(lost));
            }
        }
    }

    #[cold]
    fn on_rail<D: Device>(&mut self, device: &mut D, rail: Rail, peer: ProcessId, is_up: bool) {
        self.messages.links.handle_rail(device, rail, peer, is_up);
        self.handle_events(device);
    }

    /// The time goes on. Before each round of progress while [`wants_time`](Self::wants_time), and at
    /// [`poll_timeout`](Self::poll_timeout); what that makes to be done is done by `poll_transmit`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.messages.links.advance_to(now);
    }

    /// A peer's process is gone: every operation that needs it ends with [`Error::ProcessAborted`].
    pub fn handle_peer_gone<D: Device>(&mut self, device: &D, peer: ProcessId) {
        let index = self.messages.links.to(device, peer);
        self.fail_link(index, Error::ProcessAborted(peer));
    }

    /// A peer's process has ended in order, as spawned worlds do before those that spawned them. It has
    /// received what was sent to it, as far as it wanted it; other operations that need it end with
    /// [`Error::Unreachable`], and its locks of windows are free. Receives from any source go on, and no
    /// event is reported: nothing is lost.
    #[cold]
    pub fn handle_peer_left<D: Device>(&mut self, device: &mut D, peer: ProcessId) {
        let index = self.messages.links.to(device, peer);
        if self.messages.links.get(index).failed().is_some() {
            return;
        }
        self.messages.links.settle_all(index);
        self.handle_events(device);
        let error = Error::Unreachable(peer);
        if self.messages.links.fail(index, error) {
            // No collective operation as a whole: the peer may have ended its part while others have not.
            self.messages.leave_link(index, error);
            self.windows().fail(peer, error);
        }
    }

    #[cold]
    pub(super) fn cut_off(&mut self, index: LinkIndex, what: &'static str) {
        let peer = self.messages.links.get(index).peer();
        self.fail_link(index, Error::PeerMisbehaved { peer, what });
    }

    #[cold]
    fn fail_link(&mut self, index: LinkIndex, error: Error) {
        if !self.messages.links.fail(index, error) {
            return;
        }
        let peer = self.messages.links.get(index).peer();
        let comms = &self.comms;
        self.messages.fail_link(index, error, |context| comms.may_send(peer, context));
        self.collectives().fail(peer, error);
        self.windows().fail(peer, error);
        self.survivors().on_lost(peer);
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
        let (prefix, header, header_len) = wire::parse(packet.header)?;
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
        self.messages.links.get_mut(index).take_prefix(prefix)?;
        match header {
            Header::Eager(envelope) => self.on_eager(index, &envelope, payload, None),
            Header::EagerSync(envelope, sender) => self.on_eager_sync(index, envelope, payload, sender),
            Header::Rts { envelope, sender, length, keys, offers_packets } => {
                self.on_rts(index, envelope, (sender, length), (keys, offers_packets))
            }
            Header::Cts { .. } | Header::Data { .. } | Header::Fin(_) => {
                self.messages.on_transfer_packet(index, &header, payload)
            }
            Header::Matched(request) => self.messages.on_matched(index, request),
            Header::Cancel(request) => {
                self.messages.on_cancel(index, request);
                Ok(())
            }
            Header::CancelReply(request, yes) => self.messages.on_cancel_reply(index, request, yes),
            Header::Credit => Ok(()),
            Header::Note(note) => self.survivors().on_note(index, note),
        }
    }

    /// The front of a packet. If its payload has a place, it goes there as it arrives; every other packet is
    /// handled when it is whole. An error in a packet is reported then, too.
    #[inline(never)]
    fn on_front<D: Device>(&mut self, device: &mut D, incoming: &Incoming, payload_bytes: usize) {
        let index = self.messages.links.to(device, incoming.from);
        if self.messages.links.get(index).failed().is_some() {
            return;
        }
        let bytes = device.packet(incoming).header;
        let packet_bytes = (bytes.len() + payload_bytes) as u64;
        let rail = incoming.rail;
        let Some(front) = self.messages.links.front(index, rail, bytes, payload_bytes) else { return };
        let fetched = match &front {
            Front::Packet(_, header, _) => {
                let place = self.messages.place_of(index, header, payload_bytes);
                let place = place.filter(|&(_, taker)| self.messages.links.may_take(index, rail, taker));
                let fetched = place.map(|(place, _)| device.fetch(incoming, place));
                let taker = place.map(|(_, taker)| taker).filter(|_| fetched == Some(Fetched::Part));
                self.messages.links.part_taken(index, rail, taker);
                fetched
            }
            Front::Units(units, _) => {
                let transfer = self.messages.transfer_of(index, units.receiver).ok();
                let transfers = &mut self.messages.transfers;
                let place = transfer.and_then(|id| transfers.place_of_units(id, units, payload_bytes));
                let fetched = place.map(|place| device.fetch(incoming, place));
                let is_part = fetched == Some(Fetched::Part);
                self.messages.links.front_taken(index, rail, is_part.then_some(units));
                fetched
            }
        };
        if fetched != Some(Fetched::Whole) {
            return;
        }
        // The payload is in place: only the report remains.
        let payload = [Piece::Virtual(payload_bytes), Piece::EMPTY];
        if let Front::Packet(.., Some(numbered)) | Front::Units(_, numbered) = &front {
            self.messages.links.note_packet(index, rail, numbered, packet_bytes);
        }
        let handled = match front {
            Front::Packet(prefix, header, _) => {
                self.handle_parsed(index, prefix, header, payload).and_then(|()| self.handle_held(index))
            }
            Front::Units(units, _) => self.handle_received(index, Received::Units(units, payload)),
        };
        self.messages.links.handled(index);
        self.handle_events(device);
        if let Err(Blame(what)) = handled {
            self.cut_off(index, what);
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
        if self.messages.deliver(envelope, payload) {
            self.messages.links.owe(index, payload_len(&payload));
            self.messages.tell_matched(index, sync);
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
        match self.windows().take_active(index, envelope, payload)? {
            true => Ok(()),
            false => self.messages.keep_eager(index, envelope, payload, sync),
        }
    }

    fn on_rts(
        &mut self,
        index: LinkIndex,
        envelope: Envelope,
        (sender, length): (RequestId, u64),
        (keys, offers_packets): (Keys, bool),
    ) -> Result<(), Blame> {
        let way = (keys, offers_packets);
        if self.messages.on_rts(index, &envelope, sender, length, way)
            || self.windows().take_long_active(index, &envelope, (sender, length, keys))?
        {
            return Ok(());
        }
        self.messages.keep_rts(index, envelope, sender, length, way)
    }
}
