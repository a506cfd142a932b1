//! Sending a message on any context.

use super::{Arrival, Body, Messages};
use crate::buffer::{Buffer, Payload};
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::ProcessId;
use crate::link::{LinkIndex, Outgoing};
use crate::request::{Completion, Posted, Request, SendMode, State};
use crate::transfer::Announcement;
use crate::wire::{Envelope, Header};
use alloc::vec::Vec;

/// Longest message to ourselves that is copied if it has no matching receive yet, in bytes.
const SELF_EAGER_BYTES_MAX: usize = 8 << 10;

impl Messages {
    /// Sends on any context.
    #[inline(always)]
    pub(crate) fn send_message<D: Device>(
        &mut self,
        device: &mut D,
        peer: ProcessId,
        envelope: Envelope,
        data: Data,
        mode: SendMode,
        is_awaited: bool,
    ) -> Result<Posted, Error> {
        if let Data::Memory(buffer) = &data
            && mode == SendMode::Standard
            && let Some(index) = self.links.index_of(peer)
            && self.offer_at_once(device, index, &envelope, buffer)
        {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        self.send_any(device, peer, envelope, data, mode, is_awaited)
    }

    /// Sends a short message if that can be done at once.
    #[inline(always)]
    pub(crate) fn offer_at_once<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> bool {
        self.offer_payload_at_once(device, index, envelope, (buffer.len(), buffer.gather(0, buffer.len())))
    }

    /// As [`offer_at_once`](Self::offer_at_once), a message of two pieces with this total length.
    #[inline(always)]
    pub(crate) fn offer_payload_at_once<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        (len, payload): (usize, Payload<'_>),
    ) -> bool {
        let now = self.links.now();
        let link = self.links.get_mut(index);
        let is_sent = link.allows_eager(len)
            && link.failed().is_none()
            && link.offer_eager(device, now, envelope, payload);
        if is_sent {
            link.spend(len);
        }
        is_sent
    }

    #[inline(never)]
    fn send_any<D: Device>(
        &mut self,
        device: &mut D,
        peer: ProcessId,
        envelope: Envelope,
        data: Data,
        mode: SendMode,
        is_awaited: bool,
    ) -> Result<Posted, Error> {
        if peer == self.me {
            return Ok(self.send_to_self(envelope, data, mode));
        }
        let index = self.links.to(device, peer);
        let link = self.links.get_mut(index);
        if let Some(error) = link.failed() {
            return Err(error);
        }
        if !link.allows_eager(data.len()) {
            return Ok(self.announce(device, index, envelope, data, is_awaited));
        }
        link.spend(data.len());
        if mode == SendMode::Synchronous {
            let id =
                self.requests.insert(Request::on(State::AwaitMatch(envelope.context), &data, Some(index)));
            self.links.offer_or_queue(device, index, Header::EagerSync(envelope, id), data);
            return Ok(Posted::Pending(id));
        }
        if self.links.offer_message(device, index, &envelope, &data) {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let header = Header::Eager(envelope);
        let id = self.requests.insert(Request::on(State::Queued(envelope.context), &data, Some(index)));
        self.links.queue(index, Outgoing { header, payload: data, request: Some(id) });
        Ok(Posted::Pending(id))
    }

    /// Announces a message that does not go eagerly.
    fn announce<D: Device>(
        &mut self,
        device: &mut D,
        link: LinkIndex,
        envelope: Envelope,
        data: Data,
        is_awaited: bool,
    ) -> Posted {
        let gap = self.gaps.of(device, self.links.get(link).peer(), envelope.context);
        let request = self.requests.insert(Request::new(State::Inactive, Buffer::EMPTY, Some(link)));
        let is_alone = self.operations_count() == 1;
        let eager_bytes_max = self.config.eager_bytes_max;
        let announcement =
            Announcement { request, link, envelope, data, gap, is_alone, is_awaited, eager_bytes_max };
        let transfer = self.transfers.announce(device, &mut self.links, announcement);
        self.requests.get_mut(request).expect("just made").state = State::Transfer(transfer);
        Posted::Pending(request)
    }

    fn send_to_self(&mut self, envelope: Envelope, data: Data, mode: SendMode) -> Posted {
        let (length, mut packed) = (data.len(), Vec::new());
        let deliver = |payload: Payload<'_>| self.deliver(&envelope, payload);
        if data.with_payload(0, length, &mut packed, deliver) {
            return Posted::Done(Completion::EMPTY);
        }
        // A short message is copied, so that a blocking send to ourselves returns, as programs expect.
        if mode != SendMode::Synchronous && length <= SELF_EAGER_BYTES_MAX {
            let data = data.with_payload(0, length, &mut packed, |payload| self.store(payload));
            self.add_arrival(envelope, None, Body::Eager { data, sync: None });
            return Posted::Done(Completion::EMPTY);
        }
        let id = self.requests.insert(Request::on(State::Local, &data, None));
        self.add_arrival(envelope, None, Body::Local { request: id, length: length as u64 });
        Posted::Pending(id)
    }

    /// Lists a message that no receive has asked for.
    pub(super) fn add_arrival(&mut self, envelope: Envelope, link: Option<LinkIndex>, body: Body) {
        let id = self.arrivals.insert(Arrival { envelope, link, places: None, body });
        let places = self.unexpected.add(&envelope, id.index);
        self.arrivals.get_mut(id).expect("just inserted").places = Some(places);
        self.arrival_count += 1;
    }
}
