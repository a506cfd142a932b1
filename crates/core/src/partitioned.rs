//! Partitioned messages: requests whose parts are messages of their own. How the ends agree stands in
//! [`crate::request::partitioned`].
//!
//! The messages of a request are requests with a parent, as those of collective operations are; so what a
//! receiver has to do when the introduction comes is done in the next `poll_transmit`, whether its user calls
//! or not.

#[cfg(test)]
mod tests;

use crate::buffer::Buffer;
use crate::coll::StepId;
use crate::comm::Communicators;
use crate::data::{Data, Sink, Source};
use crate::device::Device;
use crate::error::Error;
use crate::ids::{self, CommId, ContextId, ProcessId, Rank, RequestId, Tag, TagSelector};
use crate::matching::Key;
use crate::p2p::Messages;
use crate::request::partitioned::{End, Flags, Introduction, Partitioned, Run, receive_end};
use crate::request::{PROC_NULL, Posted, Request, SendMode, State, Woken};
use crate::wire::Envelope;
use alloc::boxed::Box;

/// The step of an introduction; the others are numbers of messages.
const INTRODUCTION: StepId = StepId(u32::MAX);

/// The partitioned requests of a process.
pub(crate) struct Parts<'a> {
    pub(crate) comms: &'a mut Communicators,
    pub(crate) messages: &'a mut Messages,
}

impl Parts<'_> {
    /// Makes a partitioned send (`MPI_Psend_init`) of a whole number of elements a part. The buffer's
    /// contract holds while it is active.
    ///
    /// # Errors
    /// [`Error::Rank`] for a rank that is none; why nothing can be sent there, if that is known.
    pub(crate) fn psend_init<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        source: impl Into<Source>,
        parts_count: u32,
        (dest, tag): (Rank, Tag),
    ) -> Result<RequestId, Error> {
        let (peer, space, rank) = self.partner(comm, dest)?;
        let context = self.comms.new_context().collective();
        let end = End::Send { context, ready: Flags::default() };
        let mut request = Partitioned::new(peer, source.into().0, parts_count, end);
        let id = self.messages.requests.insert(Request::new(State::Elsewhere, Buffer::EMPTY, None));
        if let Some(peer) = peer {
            let memory = request.memory.buffer(Introduction::LEN);
            request.introduction(context).put(memory);
            let envelope = Envelope { context: space, source: rank, tag };
            let sent =
                self.messages.send_message(device, peer, envelope, memory.into(), SendMode::Standard, false);
            request.is_introducing = self.adopt_introduction(id, sent)?.is_none();
        }
        self.put_partitioned(id, Box::new(request));
        Ok(id)
    }

    /// Makes a partitioned receive (`MPI_Precv_init`) of a whole number of elements a part. The buffer's
    /// contract holds while it is active.
    ///
    /// # Errors
    /// As [`psend_init`](Self::psend_init).
    pub(crate) fn precv_init(
        &mut self,
        comm: CommId,
        sink: impl Into<Sink>,
        parts_count: u32,
        (source, tag): (Rank, Tag),
    ) -> Result<RequestId, Error> {
        let (peer, space, _) = self.partner(comm, source)?;
        let mut request = Partitioned::new(peer, sink.into().0, parts_count, receive_end(source, tag));
        let id = self.messages.requests.insert(Request::new(State::Elsewhere, Buffer::EMPTY, None));
        if peer.is_some() {
            let memory = request.memory.buffer(Introduction::LEN);
            let key = Key::new(space, ids::Source::Rank(source), TagSelector::Tag(tag));
            let posted = self.messages.receive_message(key, peer, memory.into());
            match self.adopt_introduction(id, posted)? {
                Some(result) => self.introduced(id, &mut request, result),
                None => request.is_introducing = true,
            }
        }
        self.put_partitioned(id, Box::new(request));
        Ok(id)
    }

    /// The process of a rank, the space in which requests introduce themselves, and our rank.
    fn partner(&self, comm: CommId, rank: Rank) -> Result<(Option<ProcessId>, ContextId, Rank), Error> {
        let comm = self.comms.get(comm)?;
        let peer = comm.group().process(rank);
        if peer.is_none() && rank != PROC_NULL {
            return Err(Error::Rank { rank: rank.into(), size: comm.size() });
        }
        Ok((peer, comm.context().partitioned(), comm.rank()))
    }

    /// Takes the message of an introduction on; how it ended, if it has.
    fn adopt_introduction(
        &mut self,
        id: RequestId,
        posted: Result<Posted, Error>,
    ) -> Result<Option<Result<(), Error>>, Error> {
        let adopted = self.adopt_part(id, INTRODUCTION, posted);
        if let Some(Err(error)) = adopted {
            self.messages.requests.remove(id);
            return Err(error);
        }
        Ok(adopted)
    }

    /// Makes a message one of a request's; how it ended, if it has.
    fn adopt_part(
        &mut self,
        id: RequestId,
        step: StepId,
        posted: Result<Posted, Error>,
    ) -> Option<Result<(), Error>> {
        match posted {
            Ok(Posted::Pending(child)) => {
                self.messages.requests.get_mut(child).expect("just made").parent = Some((id, step));
                None
            }
            Ok(Posted::Done(completion)) => Some(completion.into()),
            Err(error) => Some(Err(error)),
        }
    }

    /// Takes a request's state out, to be put back by [`put_partitioned`](Self::put_partitioned).
    fn take_partitioned(&mut self, id: RequestId) -> Result<Box<Partitioned>, Error> {
        let request = self.messages.requests.get_mut(id).ok_or(Error::Request)?;
        match core::mem::replace(&mut request.state, State::Elsewhere) {
            State::Partitioned(partitioned) => Ok(partitioned),
            other => {
                request.state = other;
                Err(Error::Request)
            }
        }
    }

    /// Puts a request's state back; a freed request vanishes when nothing of it is under way.
    fn put_partitioned(&mut self, id: RequestId, partitioned: Box<Partitioned>) {
        let is_over = matches!(partitioned.run, Run::Over(_));
        let has_failed = partitioned.outcome().is_some_and(|outcome| outcome.error.is_some());
        let request = self.messages.requests.get_mut(id).expect("taken out of it before");
        if request.detached && partitioned.is_idle() {
            self.messages.requests.remove(id);
            return;
        }
        request.state = State::Partitioned(partitioned);
        // Waiting callers look again.
        self.messages.completion_count += u64::from(is_over);
        self.messages.failure_count += u64::from(has_failed);
    }

    /// Starts a partitioned request (`MPI_Start`).
    pub(crate) fn start_partitioned(&mut self, id: RequestId) -> Result<(), Error> {
        let mut partitioned = self.take_partitioned(id)?;
        let started = match partitioned.run {
            Run::Inactive => Ok(()),
            _ => Err(Error::Request),
        };
        if started.is_ok() {
            self.begin_run(id, &mut partitioned);
        }
        self.put_partitioned(id, partitioned);
        started
    }

    fn begin_run(&mut self, id: RequestId, partitioned: &mut Partitioned) {
        let (parts_count, is_null) = (partitioned.parts_count, partitioned.peer.is_none());
        let messages_count = match &mut partitioned.end {
            End::Send { ready, context } => {
                ready.reset(parts_count);
                let context = *context;
                if is_null { parts_count } else { partitioned.introduction(context).messages_count }
            }
            End::Receive { .. } if is_null => 0,
            // How many there will be is not known before the introduction: one stands for it.
            End::Receive { sender: None, .. } => 1,
            End::Receive { sender: Some(_), .. } => 0,
        };
        partitioned.run = Run::Active { left_count: messages_count, failure: None };
        self.post_messages(id, partitioned);
        partitioned.settle();
    }

    /// Posts a receive for each message of an active receive whose sender is known.
    fn post_messages(&mut self, id: RequestId, partitioned: &mut Partitioned) {
        let (Some(peer), Run::Active { left_count, failure }) = (partitioned.peer, &mut partitioned.run)
        else {
            return;
        };
        let End::Receive { sender: Some(sender), arrived, .. } = &mut partitioned.end else { return };
        let introduction = match sender {
            Ok(introduction) => *introduction,
            Err(error) => {
                (*left_count, *failure) = (0, Some(*error));
                return;
            }
        };
        *left_count = introduction.messages_count;
        arrived.reset(introduction.messages_count);
        for message in 0..introduction.messages_count {
            let place = partitioned.place(&introduction, message);
            let key =
                Key::new(introduction.context, ids::Source::Rank(peer.0), TagSelector::Tag(message as Tag));
            let posted = self.messages.receive_message(key, Some(peer), place);
            if let Some(result) = self.adopt_part(id, StepId(message), posted) {
                partitioned.end_message(message, result);
            }
        }
    }

    /// Says that a part may be sent (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Request`] unless it is an active partitioned send; [`Error::Argument`] for a part that is
    /// none or was ready.
    pub(crate) fn pready<D: Device>(
        &mut self,
        device: &mut D,
        id: RequestId,
        part: u32,
    ) -> Result<(), Error> {
        let mut partitioned = self.take_partitioned(id)?;
        let result = self.send_part(device, id, &mut partitioned, part);
        self.put_partitioned(id, partitioned);
        result
    }

    fn send_part<D: Device>(
        &mut self,
        device: &mut D,
        id: RequestId,
        partitioned: &mut Partitioned,
        part: u32,
    ) -> Result<(), Error> {
        let (run, peer, len) = (partitioned.run, partitioned.peer, partitioned.data.len());
        let (End::Send { context, ready }, Run::Active { .. }) = (&mut partitioned.end, run) else {
            return Err(Error::Request);
        };
        if !ready.set(part) {
            return Err(Error::Argument("a partition that was marked ready before, or is none"));
        }
        let (context, is_last) = (*context, ready.are_all_set());
        let message = match (peer, len) {
            (None, _) => {
                partitioned.end_one(Ok(()));
                return Ok(());
            }
            (Some(_), 0) if !is_last => return Ok(()),
            (Some(_), 0) => 0,
            (Some(_), _) => part,
        };
        let data = if len == 0 { Data::EMPTY } else { partitioned.part(part) };
        let envelope = Envelope { context, source: self.messages.me.0, tag: message as Tag };
        let peer = peer.expect("looked at above");
        let sent = self.messages.send_message(device, peer, envelope, data, SendMode::Standard, false);
        if let Some(result) = self.adopt_part(id, StepId(message), sent) {
            partitioned.end_one(result);
        }
        Ok(())
    }

    /// The introduction has come, or will not.
    fn introduced(&mut self, id: RequestId, partitioned: &mut Partitioned, result: Result<(), Error>) {
        partitioned.is_introducing = false;
        let total_bytes = partitioned.data.len() as u64;
        let memory = partitioned.memory.buffer(Introduction::LEN);
        if let End::Receive { sender, .. } = &mut partitioned.end {
            *sender = Some(result.and_then(|()| Introduction::take(memory, total_bytes)));
            self.post_messages(id, partitioned);
            partitioned.settle();
        }
    }

    /// A message of a partitioned request has ended.
    pub(crate) fn wake_partitioned(&mut self, woken: Woken) {
        let Woken { parent, step, completion } = woken;
        let result = completion.into();
        let Ok(mut partitioned) = self.take_partitioned(parent) else { return };
        match step {
            INTRODUCTION => self.introduced(parent, &mut partitioned, result),
            StepId(message) => partitioned.end_message(message, result),
        }
        self.put_partitioned(parent, partitioned);
    }
}

/// Whether a part of a receive is there (`MPI_Parrived`); of an inactive one all are.
///
/// # Errors
/// [`Error::Request`] unless it is a partitioned receive; [`Error::Argument`] for a part that is none.
pub(crate) fn has_arrived(messages: &Messages, id: RequestId, part: u32) -> Result<bool, Error> {
    match messages.requests.get(id).map(|request| &request.state) {
        Some(State::Partitioned(partitioned)) if matches!(partitioned.end, End::Receive { .. }) => {
            if part >= partitioned.parts_count {
                return Err(Error::Argument("a partition that is none"));
            }
            Ok(partitioned.has_arrived(part))
        }
        _ => Err(Error::Request),
    }
}
