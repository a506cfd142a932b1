//! Handles packets of messages. No packet of a peer can cause a panic.

use super::receive::{completion_of, copy_in};
use super::{Body, Messages};
use crate::buffer::{Buffer, Payload, payload_len};
use crate::data::Data;
use crate::error::Blame;
use crate::ids::{RequestId, TransferId};
use crate::link::{LinkIndex, Taker};
use crate::request::{Completion, Request, State};
use crate::transfer::is_of_trial;
use crate::wire::{Envelope, Header, Keys};

impl Messages {
    /// Keeps a short message that no receive has asked for.
    pub(crate) fn keep_eager(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        payload: Payload<'_>,
        sync: Option<RequestId>,
    ) -> Result<(), Blame> {
        self.links.get_mut(index).keep_unread(payload_len(&payload))?;
        let data = self.store(payload);
        self.add_arrival(*envelope, Some(index), Body::Eager { data, sync });
        Ok(())
    }

    /// Copies a message into the receive that it matches. `false`: there is none.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, envelope: &Envelope, payload: Payload<'_>) -> bool {
        if let Some(index) = self.posted.take_match(envelope) {
            let (id, request) = self.requests.at_mut(index).expect("a posted receive is a request");
            let state = core::cell::Cell::from_mut(&mut request.state);
            let failure_count = core::cell::Cell::from_mut(&mut self.failure_count);
            copy_in(envelope, payload, (&request.buffer, &request.extra), |completion| {
                let before = state.replace(State::Complete(completion));
                // Nothing to drop, which the compiler cannot know.
                debug_assert!(matches!(before, State::Posted { .. }), "posted, not complete");
                core::mem::forget(before);
                if completion.error.is_some() {
                    failure_count.set(failure_count.get() + 1);
                }
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

    /// Handles the announcement of a long message, if a receive has asked for it. `false`: none has.
    pub(crate) fn on_rts(
        &mut self,
        index: LinkIndex,
        envelope: &Envelope,
        sender: RequestId,
        length: u64,
        (keys, offers_packets): (Keys, bool),
    ) -> bool {
        let Some(id) = self.request_for(envelope) else { return false };
        let data = self.requests.get(id).map_or(Data::EMPTY, Request::data);
        let completion = completion_of(envelope, length, data.len());
        self.begin_receive(id, data, (index, sender), (keys, offers_packets), completion);
        true
    }

    /// Keeps the announcement of a long message that no receive has asked for.
    pub(crate) fn keep_rts(
        &mut self,
        index: LinkIndex,
        envelope: Envelope,
        sender: RequestId,
        length: u64,
        (keys, offers_packets): (Keys, bool),
    ) -> Result<(), Blame> {
        self.links.keep_announcement(index)?;
        self.add_arrival(envelope, Some(index), Body::Rts { sender, length, keys, offers_packets });
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

    pub(crate) fn on_matched(&mut self, index: LinkIndex, id: RequestId) -> Result<(), Blame> {
        if is_of_trial(id) {
            self.transfers.at_once(index).end(id);
            return Ok(());
        }
        match self.own_request(index, id)?.state {
            State::AwaitMatch(_) => {
                self.complete(id, Completion::EMPTY);
                Ok(())
            }
            _ => Err(Blame("match reported for a request that waits for none")),
        }
    }

    pub(crate) fn on_cancel(&mut self, index: LinkIndex, sender: RequestId) {
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

    pub(crate) fn on_cancel_reply(
        &mut self,
        index: LinkIndex,
        id: RequestId,
        yes: bool,
    ) -> Result<(), Blame> {
        if !yes {
            // It had been matched: the request completes, or has completed, as usual.
            self.withdrawn.remove(&id);
            return Ok(());
        }
        let is_unmatched = match self.own_request(index, id)?.state {
            State::AwaitMatch(_) => true,
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
    pub(crate) fn transfer_of(&mut self, index: LinkIndex, id: RequestId) -> Result<TransferId, Blame> {
        match self.own_request(index, id)?.state {
            State::Transfer(transfer) => Ok(transfer),
            _ => Err(Blame("data, CTS or FIN for a request without a transfer")),
        }
    }

    /// A request that a peer names: it must exist and be with that peer.
    fn own_request(&mut self, index: LinkIndex, id: RequestId) -> Result<&mut Request, Blame> {
        self.requests
            .get_mut(id)
            .filter(|request| request.link == Some(index))
            .ok_or(Blame("a request that is not there"))
    }

    /// A packet of a long message.
    #[inline(never)]
    pub(crate) fn on_transfer_packet(
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
        self.complete_transfers();
        Ok(())
    }

    /// Where the whole payload of a packet belongs, and whose memory that is, if that is known already.
    pub(crate) fn place_of(
        &mut self,
        index: LinkIndex,
        header: &Header,
        payload_bytes: usize,
    ) -> Option<(Buffer, Taker)> {
        match *header {
            Header::Eager(envelope) | Header::EagerSync(envelope, _) => {
                // A receive from any source may match another process' message before all of this one has
                // arrived, and a shorter message must leave the rest of its buffer unchanged (MPI-5.0
                // §3.2.4).
                let (buffer, taker) = match self.posted.find_match(&envelope) {
                    Some(slot) => {
                        let (id, request) = self.requests.at(slot)?;
                        let State::Posted { peer: Some(_), .. } = request.state else { return None };
                        (request.buffer, Taker::Request(id))
                    }
                    None => {
                        let is_from_one = matches!(self.direct.wants(), Some(Some(_)));
                        let takes = is_from_one && self.direct_takes(&envelope);
                        (self.direct_buffer().filter(|_| takes)?, Taker::Direct)
                    }
                };
                (payload_bytes <= buffer.len()).then(|| (buffer.part(0, payload_bytes), taker))
            }
            Header::Data { receiver, offset } => {
                let transfer = self.transfer_of(index, receiver).ok()?;
                let place = self.transfers.place_of_data(transfer, offset, payload_bytes)?;
                Some((place, Taker::Request(receiver)))
            }
            _ => None,
        }
    }
}
