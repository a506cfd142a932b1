//! Commands: what starts, ends or asks after messages and requests. Each returns at once.

use super::{Probe, Process};
use crate::bsend::{Attachment, BufferOwner};
use crate::buffer::Buffer;
use crate::coll::Schedule;
use crate::data::Data;
use crate::device::{Device, Gap};
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::link::LinkIndex;
use crate::matching::Key;
use crate::p2p::{MessageId, receive_key};
use crate::request::{Completion, PROC_NULL, Plan, Posted, Request, SendMode, State, Status};
use crate::transfer::{self, Sink};
use crate::wire::Envelope;

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
        let communicator = self.comms.get(comm)?;
        let Some(peer) = communicator.peers().process(dest) else {
            let size = communicator.peers().size();
            return match dest {
                PROC_NULL => Ok(Posted::Done(Completion::EMPTY)),
                _ => Err(Error::Rank { rank: dest.into(), size }),
            };
        };
        let envelope = Envelope { context: communicator.context(), source: communicator.rank(), tag };
        match mode {
            SendMode::Buffered => self.messages.send_buffered(device, comm, peer, envelope, &data),
            _ => self.messages.send_message(device, peer, envelope, data, mode, is_awaited),
        }
    }

    /// Sends a message if that can be done at once: `true`, it has left. `false` says nothing about why not:
    /// [`isend`](Self::isend) does, and does it all.
    #[inline(always)]
    pub fn send_at_once<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        buffer: Buffer,
        dest: Rank,
        tag: Tag,
    ) -> bool {
        let Some((index, envelope)) = self.link_to(comm, dest, tag) else { return false };
        self.messages.offer_at_once(device, index, &envelope, &buffer)
            || self.messages.offer_longer_at_once(device, index, &envelope, &buffer)
    }

    /// The link by which a message goes, and its envelope. There is no link to ourselves.
    #[inline(always)]
    fn link_to(&self, comm: CommId, dest: Rank, tag: Tag) -> Option<(LinkIndex, Envelope)> {
        let communicator = self.comms.get(comm).ok()?;
        let peer = communicator.peers().process(dest)?;
        let index = self.messages.links.index_of(peer)?;
        Some((index, Envelope { context: communicator.context(), source: communicator.rank(), tag }))
    }

    /// Sends as [`isend`](Self::isend), with a gap of this message's own.
    #[expect(clippy::too_many_arguments, reason = "a send has as many")]
    pub fn isend_paced<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<transfer::Source>,
        dest: Rank,
        tag: Tag,
        mode: SendMode,
        gap: Gap,
    ) -> Result<Posted, Error> {
        self.messages.gaps.set_of_message(Some(gap));
        let posted = self.isend(device, comm, source, dest, tag, mode);
        self.messages.gaps.set_of_message(None);
        posted
    }
}

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
        if peer.is_none()
            && !self.messages.lost.is_empty()
            && !self.messages.survives()
            && self.messages.unexpected.find(&key).is_none()
        {
            self.check_source(comm, peer)?;
        }
        let posted = self.messages.receive_message(key, peer, sink.into().0)?;
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
        if self.messages.unexpected.is_empty()
            && self.messages.lost.is_empty()
            && let Some((key, peer)) = self.receive_key(comm, source, tag)?
        {
            // The usual case of a receive that is posted early.
            let id = self.messages.post_receive(key, peer, data);
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
    pub(super) fn receive_key(
        &self,
        comm: CommId,
        source: Source,
        tag: TagSelector,
    ) -> Result<Option<(Key, Option<ProcessId>)>, Error> {
        receive_key(self.comm(comm)?, source, tag)
    }

    /// Whether a message may still come.
    #[inline(always)]
    fn check_source(&self, comm: CommId, peer: Option<ProcessId>) -> Result<(), Error> {
        if self.messages.links.have_failed() { self.check_failures(comm, peer) } else { Ok(()) }
    }

    #[cold]
    fn check_failures(&self, comm: CommId, peer: Option<ProcessId>) -> Result<(), Error> {
        self.messages.check_failures(self.comm(comm)?, peer)
    }

    /// Begins a receive that the caller waits for. `true`: it is over, and
    /// [`direct_completion`](Self::direct_completion) says how. `false`: make progress until
    /// [`poll_direct`](Self::poll_direct) says so, and begin no other before.
    #[inline(always)]
    pub fn receive_direct<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: impl Into<Sink>,
        source: Source,
        tag: TagSelector,
    ) -> Result<bool, Error> {
        debug_assert!(
            matches!(self.messages.direct, crate::p2p::Direct::None),
            "two receives are waited for"
        );
        let Some((key, peer)) = self.receive_key(comm, source, tag)? else {
            self.messages.direct_completion = Completion { status: Status::PROC_NULL, error: None };
            return Ok(true);
        };
        let data = sink.into().0;
        if !self.messages.unexpected.is_empty()
            && let Some(is_over) = self.begin_unexpected(device, &key, &data)
        {
            return Ok(is_over);
        }
        // There is no request that could go on.
        self.check_source(comm, peer).map_err(Error::of_ended)?;
        device.expect(peer);
        self.messages.begin_direct(key, peer, data);
        Ok(false)
    }

    /// Begins with the message that has come before, if one matches. Whether the receive is over.
    #[inline(never)]
    fn begin_unexpected<D: Device>(&mut self, device: &mut D, key: &Key, data: &Data) -> Option<bool> {
        let posted = self.messages.take_unexpected(key, data)?;
        if self.wants_transmit() {
            self.poll_transmit(device);
        }
        Some(self.messages.begin_direct_with(posted))
    }

    /// Whether the receive begun is over; then there is none any more.
    #[inline(always)]
    pub fn poll_direct(&mut self) -> bool {
        self.messages.poll_direct()
    }

    /// How the last receive that was waited for ended. To be read where it is: a copy of what has just been
    /// stored in parts is slow.
    #[inline(always)]
    pub fn direct_completion(&self) -> &Completion {
        &self.messages.direct_completion
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
        match self.messages.probe(&key) {
            Some(status) => Ok(Some(status)),
            None => self.check_source(comm, peer).map(|()| None),
        }
    }

    /// The caller waits until [`iprobe`](Self::iprobe) or [`improbe`](Self::improbe) finds a message, or that
    /// none can come: who may send it is looked after as for a receive, until
    /// [`end_probe`](Self::end_probe). `None`: `MPI_PROC_NULL`.
    pub fn begin_probe(&mut self, comm: CommId, source: Source) -> Result<Option<RequestId>, Error> {
        let Some((key, peer)) = self.receive_key(comm, source, TagSelector::Any)? else { return Ok(None) };
        Ok(Some(self.probes.insert(Probe { context: key.context(), peer })))
    }

    /// The caller of a [begun](Self::begin_probe) probe does not wait any more.
    pub fn end_probe(&mut self, probe: RequestId) {
        self.probes.remove(probe);
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
        match self.messages.take_out(&key) {
            Some((message, status)) => Ok(Some((Some(message), status))),
            None => self.check_source(comm, peer).map(|()| None),
        }
    }

    /// Receives a message taken by [`improbe`](Self::improbe) (`MPI_Imrecv`).
    pub fn imrecv<D: Device>(
        &mut self,
        device: &mut D,
        message: MessageId,
        sink: impl Into<Sink>,
    ) -> Result<Posted, Error> {
        let posted = self.messages.receive_taken_out(message, &sink.into().0);
        let posted = posted.ok_or(Error::Argument("no such message, or it has been received"))?;
        self.transmit_if_wanted(device);
        Ok(posted)
    }

    #[inline(always)]
    fn transmit_if_wanted<D: Device>(&mut self, device: &mut D) {
        if self.wants_transmit() {
            self.poll_transmit(device);
        }
    }
}

/// Collective operations that their caller waits for.
impl Process {
    /// Runs a schedule that [is in rounds](crate::coll::schedule::Graph::is_in_rounds) for a caller that does
    /// nothing else before it is over. What it ends with; `None`: make progress until
    /// [`poll_run`](Self::poll_run) says so, and then [go on](Self::go_on_with_run). Until it is over, run no
    /// other and begin no direct receive. Other members may start the operation by
    /// [`start`](super::Collectives::start).
    ///
    /// # Errors
    /// [`Error::Comm`] if there is no such communicator.
    pub fn run_collective<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        schedule: Schedule,
    ) -> Result<Option<Completion>, Error> {
        let completion = self.collectives().run(device, comm, schedule)?;
        self.transmit_if_wanted(device);
        Ok(completion)
    }

    /// Whether the messages of the round that waits have ended.
    #[inline]
    pub fn poll_run(&mut self) -> bool {
        self.collectives().poll_run()
    }

    /// Goes on with the operation, as [`run_collective`](Self::run_collective).
    ///
    /// # Panics
    /// If none is run.
    pub fn go_on_with_run<D: Device>(&mut self, device: &mut D) -> Option<Completion> {
        let completion = self.collectives().go_on_with_run(device);
        self.transmit_if_wanted(device);
        completion
    }

    /// Whether an operation is run.
    pub fn is_running_collective(&self) -> bool {
        self.collectives.rounds.is_some()
    }

    /// Whether one can be run: none is, and no direct receive waits.
    pub fn may_run_collective(&self) -> bool {
        !self.is_running_collective() && matches!(self.messages.direct, crate::p2p::Direct::None)
    }
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
        let held = self.comms.hold(comm)?;
        Ok(self.messages.make_persistent(Plan::Send { comm, data, dest, tag, mode }, held))
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
        let held = self.comms.hold(comm)?;
        Ok(self.messages.make_persistent(Plan::Receive { comm, data, source, tag }, held))
    }

    /// Starts a persistent request (`MPI_Start`).
    pub fn start<D: Device>(&mut self, device: &mut D, id: RequestId) -> Result<(), Error> {
        let plan = match self.messages.requests.get(id) {
            Some(Request { state: State::Partitioned(_), .. }) => return self.parts().start_partitioned(id),
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
        self.messages.requests.get_mut(id).expect("looked at above").state = State::Started(posted);
        Ok(())
    }

    /// A completed request that holds `completion` until taken: for callers that must hand out a request
    /// where the operation was over at once.
    pub fn park(&mut self, completion: Completion) -> RequestId {
        self.messages.park(completion)
    }

    /// Ends a complete request and gives its completion: the request is gone, or inactive again if
    /// persistent. `Ok(None)`: not complete yet.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Result<Option<Completion>, Error> {
        self.messages.take(id)
    }

    /// As [`take`](Self::take), for a request that is none of the program's: a receive that a failure has
    /// interrupted is given up, and ends with the failure.
    #[inline]
    pub fn take_or_give_up(&mut self, id: RequestId) -> Result<Option<Completion>, Error> {
        match self.take(id) {
            Ok(Some(completion)) if completion.error.is_some() => {
                Ok(Some(self.messages.give_up(id, completion)))
            }
            other => other,
        }
    }

    /// Ends a request that has completed without error and is not persistent: the short way of
    /// [`take`](Self::take), which has to say more about all others (`None`).
    #[inline(always)]
    pub fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        self.messages.take_plain(id)
    }

    /// The completion of a complete request, left in place (`MPI_Request_get_status`).
    pub fn peek(&self, id: RequestId) -> Result<Option<Completion>, Error> {
        self.messages.peek(id)
    }

    /// Gives a request up: it goes on, and vanishes when complete (`MPI_Request_free`).
    pub fn free(&mut self, id: RequestId) -> Result<(), Error> {
        self.messages.free(id)
    }

    /// Asks that a request be cancelled (`MPI_Cancel`). It completes either way; its status says how. A
    /// matched receive or a send that has left cannot be cancelled and completes as usual.
    pub fn cancel<D: Device>(&mut self, device: &mut D, id: RequestId) -> Result<(), Error> {
        self.messages.cancel(device, id)
    }
}

/// Partitioned communication (MPI-5.0 §4.2).
impl Process {
    /// Makes a partitioned send (`MPI_Psend_init`) of a whole number of elements a part. The buffer's
    /// contract holds while it is active.
    ///
    /// # Errors
    /// [`Error::Rank`] for a rank that is none; why nothing can be sent there, if that is known.
    pub fn psend_init<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<transfer::Source>,
        parts_count: u32,
        to: (Rank, Tag),
    ) -> Result<RequestId, Error> {
        self.parts().psend_init(device, comm, source, parts_count, to)
    }

    /// Makes a partitioned receive (`MPI_Precv_init`) of a whole number of elements a part. The buffer's
    /// contract holds while it is active.
    ///
    /// # Errors
    /// As [`psend_init`](Self::psend_init).
    pub fn precv_init<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        sink: impl Into<Sink>,
        parts_count: u32,
        from: (Rank, Tag),
    ) -> Result<RequestId, Error> {
        let id = self.parts().precv_init(comm, sink, parts_count, from)?;
        self.transmit_if_wanted(device);
        Ok(id)
    }

    /// Says that a part may be sent (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Request`] unless it is an active partitioned send; [`Error::Argument`] for a part that is
    /// none or was ready.
    pub fn pready<D: Device>(&mut self, device: &mut D, id: RequestId, part: u32) -> Result<(), Error> {
        self.parts().pready(device, id, part)
    }

    /// Whether a part of a receive is there (`MPI_Parrived`); of an inactive one all are.
    ///
    /// # Errors
    /// [`Error::Request`] unless it is a partitioned receive; [`Error::Argument`] for a part that is none.
    pub fn parrived(&self, id: RequestId, part: u32) -> Result<bool, Error> {
        crate::partitioned::has_arrived(&self.messages, id, part)
    }
}

/// Gaps and attached buffers.
impl Process {
    /// Sets the gap of a communicator's messages from here on; `None`: as the rule says.
    pub fn set_comm_gap(&mut self, comm: CommId, gap: Option<Gap>) -> Result<(), Error> {
        let context = self.comm(comm)?.context();
        self.messages.gaps.set(context, gap);
        Ok(())
    }

    /// The same of a communicator that may still be being made, for when it is.
    pub fn set_comm_gap_early(&mut self, comm: CommId, gap: Gap) {
        if self.comms.is_reserved(comm) {
            self.messages.gaps.set_early(comm, gap);
        } else {
            // An error: its making has failed already. The next one of this id is another.
            let _ = self.set_comm_gap(comm, Some(gap));
        }
    }

    /// The gap set of a communicator's messages.
    pub fn comm_gap(&self, comm: CommId) -> Result<Option<Gap>, Error> {
        Ok(self.messages.gaps.get(self.comm(comm)?.context()))
    }

    /// Attaches a buffer for buffered sends (`MPI_Buffer_attach`); its memory is valid until detached.
    ///
    /// # Errors
    /// [`Error::Argument`] if the owner has one.
    pub fn attach_buffer(
        &mut self,
        owner: BufferOwner,
        attachment: impl Into<Attachment>,
    ) -> Result<(), Error> {
        self.messages.buffered.attach(owner, attachment.into())
    }

    /// Whether the owner's buffer can be detached: all its messages have left.
    pub fn attached_is_drained(&self, owner: BufferOwner) -> bool {
        self.messages.buffered.is_drained(owner)
    }

    /// The number of the next buffered message: a flush that begins now is for those before it.
    pub fn next_buffered(&self) -> u64 {
        self.messages.buffered.next()
    }

    /// Whether all messages before this number have left the owner's buffer (`MPI_Buffer_iflush`).
    pub fn attached_is_drained_before(&self, owner: BufferOwner, number: u64) -> bool {
        self.messages.buffered.is_drained_before(owner, number)
    }

    /// Detaches the owner's buffer, once drained (`MPI_Buffer_detach`). `None`: nothing is attached.
    pub fn detach_buffer(&mut self, owner: BufferOwner) -> Option<Attachment> {
        self.messages.buffered.detach(owner)
    }

    /// From now on buffered messages of a communicator that has no buffer use that of a session.
    pub fn set_comm_session(&mut self, comm: CommId, session: u32) {
        self.messages.buffered.set_session(comm, session);
    }
}
