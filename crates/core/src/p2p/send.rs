//! Sending a message on any context.

use super::{Arrival, Body, Messages};
use crate::buffer::{Buffer, Payload};
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{ProcessId, RequestId};
use crate::link::{Link, LinkIndex, Outgoing};
use crate::request::{Completion, Posted, Request, SendMode, State};
use crate::transfer::choose::{Learnt, Way};
use crate::transfer::{Announcement, Pick};
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
        let message = (buffer.len(), buffer.gather(0, buffer.len()));
        self.offer_if(device, index, envelope, message, |link| link.allows_eager(buffer.len()))
    }

    /// Sends an eager message of two pieces with this total length, if that can be done at once.
    #[inline(always)]
    pub(crate) fn offer_payload_at_once<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        (len, payload): (usize, Payload<'_>),
    ) -> bool {
        self.offer_if(device, index, envelope, (len, payload), |link| link.allows_longer_eager(len, false))
    }

    /// The same if the link allows it.
    #[inline(always)]
    fn offer_if<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        (len, payload): (usize, Payload<'_>),
        allows: impl FnOnce(&Link) -> bool,
    ) -> bool {
        let now = self.links.now();
        let link = self.links.get_mut(index);
        let is_sent =
            allows(link) && link.failed().is_none() && link.offer_eager(device, now, envelope, payload);
        if is_sent {
            link.spend(len);
        }
        is_sent
    }

    /// As [`offer_at_once`](Self::offer_at_once), for a message longer than the short path takes.
    #[inline(never)]
    pub(crate) fn offer_longer_at_once<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> bool {
        let len = buffer.len();
        let Some(may_receive) = self.links.get(index).learns_eager(len) else { return false };
        let is_learnt = self.has_nothing_under_way(may_receive);
        if is_learnt && !self.transfers.at_once(index).is_plainly_eager(len) {
            return false;
        }
        let message = (len, buffer.gather(0, len));
        let is_sent =
            self.offer_if(device, index, envelope, message, |link| link.allows_longer_eager(len, is_learnt));
        if is_sent {
            self.transfers.at_once(index).pass(len, is_learnt);
        }
        is_sent
    }

    /// Whether the sender has nothing else under way, but for receives where these may be: then it is
    /// measured which way a message goes.
    fn has_nothing_under_way(&self, may_receive: bool) -> bool {
        match may_receive {
            true => self.transfers.sends_count() == 0,
            false => self.operations_count() == 0,
        }
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
        if let Some(error) = self.links.get(index).failed() {
            return Err(error);
        }
        let len = data.len();
        let learns = self.links.get(index).learns_eager(len);
        let is_learnt = mode == SendMode::Standard
            && data.as_memory().is_some()
            && learns.is_some_and(|may_receive| self.has_nothing_under_way(may_receive));
        let is_allowed = self.links.get(index).allows_longer_eager(len, is_learnt);
        if learns.is_some() && !(is_learnt && is_allowed) {
            self.transfers.at_once(index).pass(len, is_learnt);
        }
        if !is_allowed {
            return Ok(self.announce(device, index, envelope, data, (is_awaited, None)));
        }
        if is_learnt && let Some(posted) = self.send_learnt(device, index, envelope, &data) {
            return Ok(posted);
        }
        self.links.get_mut(index).spend(len);
        if mode == SendMode::Synchronous {
            let id =
                self.requests.insert(Request::on(State::AwaitMatch(envelope.context), &data, Some(index)));
            self.links.offer_or_queue(device, index, Header::EagerSync(envelope, id), data);
            return Ok(Posted::Pending(id));
        }
        if self.links.offer_message(device, index, &Header::Eager(envelope), &data) {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let header = Header::Eager(envelope);
        let id = self.requests.insert(Request::on(State::Queued(envelope.context), &data, Some(index)));
        self.links.queue(index, Outgoing { header, payload: data, request: Some(id) });
        Ok(Posted::Pending(id))
    }

    /// Sends a message that there is credit for by the way that was quicker, or by one that is timed. `None`:
    /// eagerly, with nothing to measure.
    fn send_learnt<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: Envelope,
        data: &Data,
    ) -> Option<Posted> {
        let (learnt, name) = match self.transfers.at_once(index).pick(data.len()) {
            Pick::Plain(way) => (Learnt::Held(way), None),
            Pick::Timed(learnt) => {
                let since = device.time()?;
                (learnt, Some(self.transfers.at_once(index).begin(data.len(), since)))
            }
        };
        if learnt.way() == Way::Get {
            return Some(self.announce(device, index, envelope, data.clone(), (false, Some((learnt, name)))));
        }
        let name = name?;
        // As a synchronous message, but this one's sender goes on.
        if !self.links.offer_message(device, index, &Header::EagerSync(envelope, name), data) {
            return None;
        }
        self.links.get_mut(index).spend(data.len());
        Some(Posted::Done(Completion::EMPTY))
    }

    /// Announces a message that does not go eagerly.
    fn announce<D: Device>(
        &mut self,
        device: &mut D,
        link: LinkIndex,
        envelope: Envelope,
        data: Data,
        (is_awaited, learnt): (bool, Option<(Learnt, Option<RequestId>)>),
    ) -> Posted {
        let gap = self.gaps.of(device, self.links.get(link).peer(), envelope.context);
        let request = self.requests.insert(Request::new(State::Inactive, Buffer::EMPTY, Some(link)));
        let is_alone = match self.links.get(link).sends_beside_receives() {
            true => self.transfers.sends_count() == 0,
            false => self.operations_count() == 1,
        };
        let eager_bytes_max = self.config.eager_bytes_max;
        let announcement = Announcement {
            request,
            link,
            envelope,
            data,
            gap,
            is_alone,
            is_awaited,
            eager_bytes_max,
            learnt,
        };
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
