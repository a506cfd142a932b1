//! Receiving a message on any context, and handling of an arrived one.

use super::{Arrival, Body, MessageId, Messages, Stored};
use crate::buffer::{Buffer, Payload, Piece, append, payload_len};
use crate::comm::Communicator;
use crate::data::Data;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ProcessId, RequestId, Source, TagSelector};
use crate::link::LinkIndex;
use crate::matching::Key;
use crate::request::{Completion, Extra, Origin, PROC_NULL, Posted, Request, State, Status};
use crate::transfer::Matched;
use crate::wire::{Envelope, Header, Keys};
use alloc::boxed::Box;

/// The key of a receive and the process it waits for; `None` for `MPI_PROC_NULL`.
#[inline(always)]
pub(crate) fn receive_key(
    communicator: &Communicator,
    source: Source,
    tag: TagSelector,
) -> Result<Option<(Key, Option<ProcessId>)>, Error> {
    let peer = match source {
        Source::Any => None,
        Source::Rank(PROC_NULL) => return Ok(None),
        Source::Rank(rank) => match communicator.peers().process(rank) {
            Some(peer) => Some(peer),
            None => return Err(Error::Rank { rank: rank.into(), size: communicator.peers().size() }),
        },
    };
    Ok(Some((Key::new(communicator.context(), source, tag), peer)))
}

impl Messages {
    #[inline(always)]
    pub(crate) fn post_receive(&mut self, key: Key, peer: Option<ProcessId>, data: Data) -> RequestId {
        let id = self.requests.reserve();
        self.posted.post(key, id.index);
        let state = State::Posted { key, peer };
        match data {
            Data::Memory(buffer) => self.requests.put(id, || Request::new(state, buffer, None)),
            Data::Region(_) => self.requests.put(id, || Request::on(state, &data, None)),
        }
        id
    }

    /// Receives on any context. Packets that this causes wait for `poll_transmit`.
    #[inline]
    pub(crate) fn receive_message(
        &mut self,
        key: Key,
        peer: Option<ProcessId>,
        data: Data,
    ) -> Result<Posted, Error> {
        if let Some(posted) = self.take_unexpected(&key, &data) {
            return Ok(posted);
        }
        if let Some(error) = self.failure_of(peer) {
            return Err(error);
        }
        Ok(Posted::Pending(self.post_receive(key, peer, data)))
    }

    /// Receives the first unexpected message that matches.
    #[inline]
    pub(crate) fn take_unexpected(&mut self, key: &Key, data: &Data) -> Option<Posted> {
        let index = self.unexpected.find(key)?;
        let id = self.arrivals.id_at(index).expect("a listed arrival exists");
        Some(self.accept(id, data))
    }

    #[inline]
    pub(crate) fn failure_of(&self, peer: Option<ProcessId>) -> Option<Error> {
        let index = self.links.index_of(peer?)?;
        self.links.get(index).failed()
    }

    /// Why one of a group can no longer be talked to, if so.
    pub(crate) fn lost_member(&self, group: &Group) -> Option<Error> {
        self.lost.iter().find(|(peer, _)| group.rank_of(*peer).is_some()).map(|&(_, error)| error)
    }

    /// Whether a message from `peer`, or from any member of `comm`, may still come. A message from any source
    /// may have been one of a lost process: MPI cannot know, so the receive fails.
    #[cold]
    pub(crate) fn check_failures(&self, comm: &Communicator, peer: Option<ProcessId>) -> Result<(), Error> {
        let failure = match peer {
            Some(_) => self.failure_of(peer),
            None if self.config.survives => self.unacknowledged(comm.context()),
            None => self.lost_member(comm.peers()),
        };
        failure.map_or(Ok(()), Err)
    }

    /// The status of the first message that a receive with this key would take.
    pub(crate) fn probe(&mut self, key: &Key) -> Option<Status> {
        let id = self.arrivals.id_at(self.unexpected.find(key)?)?;
        self.arrivals.get(id).map(Arrival::status)
    }

    /// Takes that message out of matching.
    pub(crate) fn take_out(&mut self, key: &Key) -> Option<(MessageId, Status)> {
        let index = self.unexpected.find(key)?;
        let id = self.arrivals.id_at(index).expect("a listed arrival exists");
        let arrival = self.arrivals.get_mut(id).expect("a listed arrival exists");
        let places = arrival.places.take().expect("a listed arrival has places");
        let status = arrival.status();
        self.unexpected.remove(places);
        Some((MessageId(id), status))
    }

    /// Receives a message that was taken out of matching. `None`: there is no such.
    pub(crate) fn receive_taken_out(&mut self, message: MessageId, data: &Data) -> Option<Posted> {
        match self.arrivals.get(message.0) {
            Some(Arrival { places: None, .. }) => Some(self.accept(message.0, data)),
            _ => None,
        }
    }

    /// Receives an arrived message.
    fn accept(&mut self, id: RequestId, data: &Data) -> Posted {
        let arrival = self.arrivals.remove(id).expect("the caller found it");
        if let Some(places) = arrival.places {
            self.unexpected.remove(places);
        }
        let completion = completion_of(&arrival.envelope, arrival.length(), data.len());
        let fits = completion.status.bytes as usize;
        match arrival.body {
            Body::Eager { data: stored, sync } => {
                let (piece, _) = stored.piece().split_at(fits);
                data.write(0, piece);
                let length = stored.piece().len();
                self.unstore(stored);
                if let Some(link) = arrival.link {
                    self.links.owe_unread(link, length);
                    self.tell_matched(link, sync);
                }
                Posted::Done(completion)
            }
            Body::Local { request, .. } => {
                let from = self.requests.get(request).map_or(Data::EMPTY, Request::data);
                data.copy_from(&from, fits.min(from.len()));
                self.complete(request, Completion::EMPTY);
                Posted::Done(completion)
            }
            Body::Rts { sender, keys, offers_packets, .. } => {
                let link = arrival.link.expect("rendezvous goes over a link");
                self.links.forget_announcement(link);
                if let Some(error) = self.links.get(link).failed() {
                    return Posted::Done(Completion { status: Status::EMPTY, error: Some(error) });
                }
                let request = self.requests.insert(Request::new(State::Inactive, Buffer::EMPTY, Some(link)));
                self.begin_receive(request, data.clone(), (link, sender), (keys, offers_packets), completion);
                Posted::Pending(request)
            }
        }
    }

    /// A receive is matched with an announced message.
    pub(crate) fn begin_receive(
        &mut self,
        request: RequestId,
        data: Data,
        (link, sender): (LinkIndex, RequestId),
        (keys, offers_packets): (Keys, bool),
        completion: Completion,
    ) {
        let total = completion.status.bytes;
        let matched = Matched { request, link, sender, data, total, keys, offers_packets, completion };
        let transfer = self.transfers.receive(matched);
        let receive = self.requests.get_mut(request).expect("the caller made it");
        receive.state = State::Transfer(transfer);
        receive.link = Some(link);
    }

    /// Tells a synchronous sender that its message is matched.
    #[inline(always)]
    pub(crate) fn tell_matched(&mut self, index: LinkIndex, sync: Option<RequestId>) {
        if let Some(sender) = sync {
            self.links.queue_control(index, Header::Matched(sender));
        }
    }

    /// Copies an eager message without a matching receive.
    pub(super) fn store(&mut self, payload: [Piece<'_>; 2]) -> Stored {
        match payload {
            [Piece::Bytes(a), Piece::Bytes(b)] => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.clear();
                bytes.reserve(a.len() + b.len());
                append(&mut bytes, a);
                append(&mut bytes, b);
                Stored::Bytes(bytes)
            }
            [a, b] => Stored::Virtual(a.len() + b.len()),
        }
    }

    fn unstore(&mut self, stored: Stored) {
        /// As many as one peer's credit can fill with small messages. It allows four of the longest.
        const SPARE_MAX: usize = 64;
        if let Stored::Bytes(bytes) = stored
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(bytes);
        }
    }
}

/// The completion of a message matched with a receive of `room_bytes`.
#[inline(always)]
pub(crate) fn completion_of(envelope: &Envelope, message_bytes: u64, room_bytes: usize) -> Completion {
    let fits = message_bytes.min(room_bytes as u64);
    let status = Status {
        source: Origin::Rank(envelope.source),
        tag: Some(envelope.tag),
        bytes: fits,
        cancelled: false,
    };
    let error =
        (fits < message_bytes).then_some(Error::Truncate { message_bytes, buffer_bytes: room_bytes as u64 });
    Completion { status, error }
}

/// Copies a message into a buffer and hands on its completion, twice so that the usual one, without an error,
/// is written where it belongs and not copied there: copies of what has just been stored in parts are slow.
/// `extra`: has the memory, and the buffer is empty, if that is in several pieces.
#[inline(always)]
pub(super) fn copy_in<R>(
    envelope: &Envelope,
    payload: Payload<'_>,
    (buffer, extra): (&Buffer, &Option<Box<Extra>>),
    then: impl Fn(Completion) -> R,
) -> R {
    let length = payload_len(&payload);
    if length > buffer.len() {
        return then(copy_in_part(envelope, payload, (buffer, extra)));
    }
    if !payload[0].is_empty() {
        buffer.scatter(0, payload[0]);
    }
    if !payload[1].is_empty() {
        buffer.scatter(payload[0].len(), payload[1]);
    }
    let status = Status {
        source: Origin::Rank(envelope.source),
        tag: Some(envelope.tag),
        bytes: length as u64,
        cancelled: false,
    };
    then(Completion { status, error: None })
}

/// The message is longer than the buffer, or the memory is in several pieces.
#[cold]
#[inline(never)]
fn copy_in_part(
    envelope: &Envelope,
    payload: Payload<'_>,
    (buffer, extra): (&Buffer, &Option<Box<Extra>>),
) -> Completion {
    let region = extra.as_ref().and_then(|extra| extra.region.clone());
    let data = region.map_or(Data::Memory(*buffer), Data::Region);
    let room = data.len();
    let first = payload[0].len().min(room);
    data.write(0, payload[0].split_at(first).0);
    data.write(first, payload[1].split_at(payload[1].len().min(room - first)).0);
    completion_of(envelope, payload_len(&payload) as u64, room)
}
