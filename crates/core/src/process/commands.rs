//! Commands: what starts, ends or asks after operations. Each returns at once.

use super::{Arrival, Body, MessageId, Process, Stored, partitioned};
use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::data::Data;
use crate::device::Device;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::link::{LinkIndex, Outgoing};
use crate::matching::Key;
use crate::request::{Completion, Extra, Origin, PROC_NULL, Plan, Posted, Request, SendMode, State, Status};
use crate::transfer::{self, Announcement, Matched, Sink};
use crate::wire::{Envelope, Header, Keys};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Sending.
impl Process {
    /// Starts a send of a [`Buffer`] or a layout to `dest` of a communicator. The buffer's contract
    /// ([`Buffer::from_raw_parts`]) holds until the request completes; after [`Posted::Done`] it is free at
    /// once.
    #[inline]
    pub fn isend<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<transfer::Source>,
        dest: Rank,
        tag: Tag,
        mode: SendMode,
    ) -> Result<Posted, Error> {
        self.start_send(device, comm, source.into().0, (dest, tag), mode, false)
    }

    /// As [`isend`](Self::isend), for a caller that does nothing else before the request is over: so it has
    /// time to copy, where that is the quicker way.
    #[inline]
    pub fn send<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<transfer::Source>,
        dest: Rank,
        tag: Tag,
        mode: SendMode,
    ) -> Result<Posted, Error> {
        self.start_send(device, comm, source.into().0, (dest, tag), mode, true)
    }

    #[inline(always)]
    fn start_send<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        data: Data,
        (dest, tag): (Rank, Tag),
        mode: SendMode,
        is_awaited: bool,
    ) -> Result<Posted, Error> {
        let communicator = self.comm(comm)?;
        let Some(peer) = communicator.peers().process(dest) else {
            let size = communicator.peers().size();
            return match dest {
                PROC_NULL => Ok(Posted::Done(Completion::EMPTY)),
                _ => Err(Error::Rank { rank: dest.into(), size }),
            };
        };
        let envelope = Envelope { context: communicator.context(), source: communicator.rank(), tag };
        match mode {
            SendMode::Buffered => self.send_buffered(device, comm, peer, envelope, &data),
            _ => self.send_message(device, peer, envelope, data, mode, is_awaited),
        }
    }

    /// Sends on any context: point-to-point and collective traffic both end here.
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
    pub(super) fn offer_at_once<D: Device>(
        &mut self,
        device: &mut D,
        index: LinkIndex,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> bool {
        let now = self.links.now();
        let link = self.links.get_mut(index);
        let is_sent = link.allows_eager(buffer.len())
            && link.failed().is_none()
            && link.offer_eager(device, now, envelope, buffer.gather(0, buffer.len()));
        if is_sent {
            link.spend(buffer.len());
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
            let id = self.requests.insert(Request::on(State::AwaitMatch, &data, Some(index)));
            self.links.offer_or_queue(device, index, Header::EagerSync(envelope, id), data);
            return Ok(Posted::Pending(id));
        }
        if self.links.offer_message(device, index, &envelope, &data) {
            return Ok(Posted::Done(Completion::EMPTY));
        }
        let header = Header::Eager(envelope);
        let id = self.requests.insert(Request::on(State::Queued, &data, Some(index)));
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
        let gap = self.gap_of(device, self.links.get(link).peer(), envelope.context);
        let request = self.requests.insert(Request::new(State::Inactive, Buffer::EMPTY, Some(link)));
        let is_alone = self.requests.len() == 1 + usize::from(self.rma.has_windows());
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

    pub(super) fn add_arrival(&mut self, envelope: Envelope, link: Option<LinkIndex>, body: Body) {
        let id = self.arrivals.insert(Arrival { envelope, link, places: None, body });
        let places = self.unexpected.add(&envelope, id.index);
        self.arrivals.get_mut(id).expect("just inserted").places = Some(places);
        self.arrival_count += 1;
    }
}

/// Longest message to ourselves that is copied when nobody receives it yet, in bytes.
const SELF_EAGER_BYTES_MAX: usize = 8 << 10;

/// Receiving.
impl Process {
    /// Starts a receive. [`Posted::Done`] if the message was there and is copied.
    #[inline]
    pub fn irecv<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: impl Into<Sink>,
        source: Source,
        tag: TagSelector,
    ) -> Result<Posted, Error> {
        let (key, peer) = match self.receive_key(comm, source, tag)? {
            Some(found) => found,
            None => return Ok(Posted::Done(Completion { status: Status::PROC_NULL, error: None })),
        };
        if peer.is_none() && !self.lost.is_empty() && self.unexpected.find(&key).is_none() {
            self.check_source(comm, peer)?;
        }
        let posted = self.receive_message(key, peer, sink.into().0)?;
        self.transmit_if_wanted(device);
        Ok(posted)
    }

    /// As [`irecv`](Self::irecv), with a request in any case: for callers that must hand one out.
    #[inline(always)]
    pub fn irecv_request<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: impl Into<Sink>,
        source: Source,
        tag: TagSelector,
    ) -> Result<RequestId, Error> {
        let data = sink.into().0;
        if self.unexpected.is_empty()
            && self.lost.is_empty()
            && let Some((key, peer)) = self.receive_key(comm, source, tag)?
        {
            // The usual case of a receive that is posted early.
            let id = self.post_receive(key, peer, data);
            self.transmit_if_wanted(device);
            return Ok(id);
        }
        self.irecv_request_late(device, comm, Sink(data), source, tag)
    }

    #[inline(never)]
    fn irecv_request_late<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: Sink,
        source: Source,
        tag: TagSelector,
    ) -> Result<RequestId, Error> {
        Ok(match self.irecv(device, comm, sink, source, tag)? {
            Posted::Pending(id) => id,
            Posted::Done(completion) => self.park(completion),
        })
    }

    #[inline(always)]
    pub(super) fn post_receive(&mut self, key: Key, peer: Option<ProcessId>, data: Data) -> RequestId {
        let id = self.requests.reserve();
        self.posted.post(key, id.index);
        let state = State::Posted { key, peer };
        match data {
            Data::Memory(buffer) => self.requests.put(id, || Request::new(state, buffer, None)),
            Data::Region(_) => self.requests.put(id, || Request::on(state, &data, None)),
        }
        id
    }

    /// Receives on any context. What that makes to be sent waits for [`poll_transmit`](Self::poll_transmit).
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
    pub(super) fn take_unexpected(&mut self, key: &Key, data: &Data) -> Option<Posted> {
        let index = self.unexpected.find(key)?;
        let id = self.arrivals.id_at(index).expect("a listed arrival exists");
        Some(self.accept(id, data))
    }

    /// The key of a receive and the process it waits for; `None` for `MPI_PROC_NULL`.
    #[inline(always)]
    pub(super) fn receive_key(
        &self,
        comm: CommId,
        source: Source,
        tag: TagSelector,
    ) -> Result<Option<(Key, Option<ProcessId>)>, Error> {
        let communicator = self.comm(comm)?;
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

    #[inline]
    pub(super) fn failure_of(&self, peer: Option<ProcessId>) -> Option<Error> {
        let index = self.links.index_of(peer?)?;
        self.links.get(index).failed()
    }

    /// Whether a message may still come. From anybody it may have been one of a process that is lost: MPI
    /// cannot know, so it is told.
    #[inline(always)]
    pub(super) fn check_source(&self, comm: CommId, peer: Option<ProcessId>) -> Result<(), Error> {
        if self.links.have_failed() { self.check_failures(comm, peer) } else { Ok(()) }
    }

    #[cold]
    fn check_failures(&self, comm: CommId, peer: Option<ProcessId>) -> Result<(), Error> {
        let failure = match peer {
            Some(_) => self.failure_of(peer),
            None if self.lost.is_empty() => None,
            None => self.lost_member(self.comm(comm)?.peers()),
        };
        failure.map_or(Ok(()), Err)
    }

    /// The first message a receive would take, left where it is (`MPI_Iprobe`).
    pub fn iprobe(
        &mut self,
        comm: CommId,
        source: Source,
        tag: TagSelector,
    ) -> Result<Option<Status>, Error> {
        let Some((key, peer)) = self.receive_key(comm, source, tag)? else {
            return Ok(Some(Status::PROC_NULL));
        };
        match self.unexpected.find(&key) {
            Some(index) => {
                let id = self.arrivals.id_at(index).expect("a listed arrival exists");
                Ok(self.arrivals.get(id).map(Arrival::status))
            }
            None => self.check_source(comm, peer).map(|()| None),
        }
    }

    /// Takes the first message a receive would take out of matching, to be received by
    /// [`imrecv`](Self::imrecv) (`MPI_Improbe`). `Some((None, …))`: `MPI_MESSAGE_NO_PROC`.
    pub fn improbe(
        &mut self,
        comm: CommId,
        source: Source,
        tag: TagSelector,
    ) -> Result<Option<(Option<MessageId>, Status)>, Error> {
        let Some((key, peer)) = self.receive_key(comm, source, tag)? else {
            return Ok(Some((None, Status::PROC_NULL)));
        };
        let Some(index) = self.unexpected.find(&key) else {
            return self.check_source(comm, peer).map(|()| None);
        };
        let id = self.arrivals.id_at(index).expect("a listed arrival exists");
        let arrival = self.arrivals.get_mut(id).expect("a listed arrival exists");
        let places = arrival.places.take().expect("a listed arrival has places");
        let status = arrival.status();
        self.unexpected.remove(places);
        Ok(Some((Some(MessageId(id)), status)))
    }

    /// Receives a message taken by [`improbe`](Self::improbe) (`MPI_Imrecv`).
    pub fn imrecv<D: Device>(
        &mut self,
        device: &mut D,
        message: MessageId,
        sink: impl Into<Sink>,
    ) -> Result<Posted, Error> {
        match self.arrivals.get(message.0) {
            Some(Arrival { places: None, .. }) => {
                let posted = self.accept(message.0, &sink.into().0);
                self.transmit_if_wanted(device);
                Ok(posted)
            }
            _ => Err(Error::Argument("no such message, or it has been received")),
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
    pub(super) fn begin_receive(
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
    pub(super) fn tell_matched(&mut self, index: LinkIndex, sync: Option<RequestId>) {
        if let Some(sender) = sync {
            self.links.queue_control(index, Header::Matched(sender));
        }
    }

    #[inline(always)]
    fn transmit_if_wanted<D: Device>(&mut self, device: &mut D) {
        if self.wants_transmit() {
            self.poll_transmit(device);
        }
    }

    /// Copies an eager message nobody has asked for yet.
    pub(super) fn store(&mut self, payload: [Piece<'_>; 2]) -> Stored {
        match payload {
            [Piece::Bytes(a), Piece::Bytes(b)] => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.clear();
                bytes.reserve(a.len() + b.len());
                bytes.extend_from_slice(a);
                bytes.extend_from_slice(b);
                Stored::Bytes(bytes)
            }
            [a, b] => Stored::Virtual(a.len() + b.len()),
        }
    }

    fn unstore(&mut self, stored: Stored) {
        /// As many as one peer's credit can fill with small messages, and not megabytes.
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
pub(super) fn completion_of(envelope: &Envelope, message_bytes: u64, room_bytes: usize) -> Completion {
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

/// Requests.
impl Process {
    /// Makes an inactive persistent send (`MPI_Send_init` and its modes).
    pub fn send_init(
        &mut self,
        comm: CommId,
        source: impl Into<transfer::Source>,
        dest: Rank,
        tag: Tag,
        mode: SendMode,
    ) -> Result<RequestId, Error> {
        let data = source.into().0;
        let communicator = self.comm(comm)?;
        let size = communicator.peers().size();
        if dest != PROC_NULL && dest >= size {
            return Err(Error::Rank { rank: dest.into(), size });
        }
        Ok(self.make_persistent(Plan::Send { comm, data, dest, tag, mode }))
    }

    /// Makes an inactive persistent receive (`MPI_Recv_init`).
    pub fn recv_init(
        &mut self,
        comm: CommId,
        sink: impl Into<Sink>,
        source: Source,
        tag: TagSelector,
    ) -> Result<RequestId, Error> {
        let data = sink.into().0;
        self.receive_key(comm, source, tag)?;
        Ok(self.make_persistent(Plan::Receive { comm, data, source, tag }))
    }

    fn make_persistent(&mut self, plan: Plan) -> RequestId {
        let mut request = Request::new(State::Inactive, Buffer::EMPTY, None);
        request.extra_mut().plan = Some(plan);
        self.requests.insert(request)
    }

    /// Starts a persistent request (`MPI_Start`).
    pub fn start<D: Device>(&mut self, device: &mut D, id: RequestId) -> Result<(), Error> {
        let plan = match self.requests.get(id) {
            Some(Request { state: State::Partitioned(_), .. }) => return self.start_partitioned(id),
            Some(request) if matches!(request.state, State::Inactive) => request.plan(),
            _ => None,
        };
        let plan = plan.ok_or(Error::Request)?;
        let posted = match plan {
            Plan::Send { comm, data, dest, tag, mode } => {
                self.isend(device, comm, transfer::Source(data), dest, tag, mode)?
            }
            Plan::Receive { comm, data, source, tag } => self.irecv(device, comm, Sink(data), source, tag)?,
        };
        self.requests.get_mut(id).expect("looked at above").state = State::Started(posted);
        Ok(())
    }

    /// A completed request that holds `completion` until taken: for callers that must hand out a request
    /// where the operation was over at once.
    pub fn park(&mut self, completion: Completion) -> RequestId {
        self.requests.insert(Request::new(State::Complete(completion), Buffer::EMPTY, None))
    }

    /// Ends a complete request and gives its completion: the request is gone, or inactive again if
    /// persistent. `Ok(None)`: not complete yet.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Result<Option<Completion>, Error> {
        let request = self.requests.get_mut(id).ok_or(Error::Request)?;
        match request.state {
            State::Complete(completion) => {
                self.requests.discard(id);
                Ok(Some(completion))
            }
            State::Inactive => Ok(Some(Completion::EMPTY)),
            State::Started(Posted::Done(completion)) => {
                request.state = State::Inactive;
                Ok(Some(completion))
            }
            State::Started(Posted::Pending(child)) => {
                let completion = self.take(child)?;
                if completion.is_some() {
                    self.requests.get_mut(id).expect("looked at above").state = State::Inactive;
                }
                Ok(completion)
            }
            State::Partitioned(ref mut of) => Ok(partitioned::take(of)),
            _ => Ok(None),
        }
    }

    /// Ends a request that has completed without error and is not persistent: the short way of
    /// [`take`](Self::take), which has to say more about all others (`None`).
    #[inline(always)]
    pub fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        match *self.requests.get(id)? {
            Request { state: State::Complete(Completion { status, error: None }), extra: None, .. } => {
                self.requests.forget(id);
                Some(status)
            }
            _ => None,
        }
    }

    /// The completion of a complete request, left in place (`MPI_Request_get_status`).
    pub fn peek(&self, id: RequestId) -> Result<Option<Completion>, Error> {
        match self.requests.get(id).ok_or(Error::Request)?.state {
            State::Complete(completion) | State::Started(Posted::Done(completion)) => Ok(Some(completion)),
            State::Inactive => Ok(Some(Completion::EMPTY)),
            State::Started(Posted::Pending(child)) => self.peek(child),
            State::Partitioned(ref of) => Ok(partitioned::outcome(of)),
            _ => Ok(None),
        }
    }

    /// Gives a request up: it goes on, and vanishes when complete (`MPI_Request_free`).
    pub fn free(&mut self, id: RequestId) -> Result<(), Error> {
        let request = self.requests.get_mut(id).ok_or(Error::Request)?;
        match request.state {
            State::Started(Posted::Pending(child)) => {
                self.requests.remove(id);
                return self.free(child);
            }
            State::Complete(_) | State::Inactive | State::Started(Posted::Done(_)) => {
                self.requests.remove(id);
            }
            State::Partitioned(ref of) if partitioned::is_idle(of) => {
                self.requests.remove(id);
            }
            _ => request.detached = true,
        }
        Ok(())
    }

    /// Asks that a request be cancelled (`MPI_Cancel`). It completes either way; its status says how. A
    /// matched receive or a send that has left cannot be cancelled and completes as usual.
    pub fn cancel<D: Device>(&mut self, device: &mut D, id: RequestId) -> Result<(), Error> {
        match self.requests.get(id).ok_or(Error::Request)?.state {
            State::Started(Posted::Pending(child)) => return self.cancel(device, child),
            State::Inactive | State::Partitioned(_) => return Err(Error::Request),
            _ => {}
        }
        if let Some(link) = self.cancel_locally(id) {
            self.links.offer_or_queue(device, link, Header::Cancel(id), Data::EMPTY);
        }
        Ok(())
    }

    /// Cancels what has not left. The link over which the peer has to be asked, if it has.
    pub(super) fn cancel_locally(&mut self, id: RequestId) -> Option<LinkIndex> {
        let request = self.requests.get(id)?;
        match request.state {
            State::Posted { key, .. } => {
                self.posted.withdraw(key, id.index);
                self.complete_cancelled(id);
            }
            State::Queued => {
                let link = request.link.expect("a queued send has a link");
                let length = request.length_bytes();
                self.links.get_mut(link).unqueue(id, length);
                self.complete_cancelled(id);
            }
            State::Local => {
                // One that a matched probe holds is matched: it completes when it is received.
                let unmatched =
                    |arrival: &Arrival| matches!(arrival.body, Body::Local { request, .. } if request == id);
                if self.drop_arrival(unmatched).is_some() {
                    self.complete_cancelled(id);
                }
            }
            State::AwaitMatch => return request.link,
            State::Transfer(transfer) if self.transfers.is_offered(transfer) => {
                let link = request.link;
                if !self.transfers.withdraw_held_back(&mut self.links, transfer) {
                    return link;
                }
                self.complete_cancelled(id);
            }
            _ => {}
        }
        None
    }

    pub(super) fn complete_cancelled(&mut self, id: RequestId) {
        let status = Status { cancelled: true, ..Status::EMPTY };
        self.complete(id, Completion { status, error: None });
    }

    /// Drops the unmatched arrival that `which` picks. Gives it back, if there was one.
    pub(super) fn drop_arrival(&mut self, which: impl Fn(&Arrival) -> bool) -> Option<Arrival> {
        let id = self.arrivals.iter().find(|(_, a)| a.places.is_some() && which(a)).map(|(id, _)| id)?;
        let arrival = self.arrivals.remove(id)?;
        self.unexpected.remove(arrival.places?);
        Some(arrival)
    }
}
