//! Collective operations: schedules run over messages of this process.
//!
//! A running schedule is a request; its messages are requests with a *parent*, which vanish as they complete
//! and wake the parent. The parent goes on in the next [`poll_transmit`](crate::Process::poll_transmit).
//!
//! A failed operation ends only after its last message, because the user may reuse the buffers once it has
//! ended. Unmatched receives and sends that have not left end at once; announced sends are cancelled;
//! transfers in progress run until the peer completes them or is lost.

mod check;
mod make_comm;
mod meet;
pub(crate) mod rounds;
#[cfg(test)]
mod tests;

use crate::buffer::Buffer;
use crate::coll::running::{BEGIN, Naming, Running, Span, Then};
use crate::coll::{self, Pool, Schedule, StepId, Transport};
use crate::comm::Communicators;
use crate::device::{Device, Work};
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::matching::Key;
use crate::p2p::Messages;
use crate::request::{Completion, Posted, Request, SendMode, State, Woken};
use crate::wire::{Envelope, Header};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use meet::OtherLeader;

/// One collective operation of a communicator, reserved before it is started: a persistent one, all of whose
/// runs have the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectiveId(Tag);

/// State of collective operations other than the requests of the running ones.
#[derive(Default)]
pub(crate) struct Own {
    /// Memory of schedules that have ended.
    pub(crate) pool: Pool,
    /// Steps that call a function of the user's are left for later.
    pub(crate) puts_off_user_functions: bool,
    /// Some of them wait for that, as far as has been looked.
    pub(crate) has_put_off: bool,
    /// The operation whose caller waits for it.
    pub(crate) rounds: Option<rounds::Rounds>,
}

/// The collective operations of a process, the making of communicators among them.
pub struct Collectives<'a> {
    pub(crate) own: &'a mut Own,
    pub(crate) comms: &'a mut Communicators,
    pub(crate) messages: &'a mut Messages,
    pub(crate) is_awaited: bool,
}

impl Collectives<'_> {
    /// For the next that is started, by a caller that does nothing else before it is over: so it has time to
    /// copy, where that is the quicker way of a message.
    #[must_use]
    pub fn awaited(self) -> Self {
        Self { is_awaited: true, ..self }
    }

    /// Runs a schedule made for this communicator. All members start their collective operations in the same
    /// order (MPI-5.0 §6.14). The buffers' contract holds until the request completes.
    pub fn start<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        schedule: Schedule,
    ) -> Result<Posted, Error> {
        let span = self.next_span(comm)?;
        Ok(self.start_schedule(device, schedule, span, None))
    }

    /// Names a persistent collective operation. Members make theirs in the same order and may start them in
    /// any (MPI-5.0 §6.13), so runs are told apart by this name and not by the order of starts.
    pub fn reserve(&mut self, comm: CommId) -> Result<CollectiveId, Error> {
        Ok(CollectiveId(self.comms.get_mut(comm)?.next_persistent_tag()))
    }

    /// As [`start`](Self::start), for a run of a persistent operation.
    pub fn start_reserved<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        schedule: Schedule,
        id: CollectiveId,
    ) -> Result<Posted, Error> {
        let span = self.span(comm, id.0)?;
        Ok(self.start_schedule(device, schedule, span, None))
    }

    /// The span of a communicator's next collective operation.
    pub(super) fn next_span(&mut self, comm: CommId) -> Result<Span, Error> {
        let tag = self.comms.get_mut(comm)?.next_collective_tag();
        self.span(comm, tag)
    }

    fn span(&self, comm: CommId, tag: Tag) -> Result<Span, Error> {
        let communicator = self.comms.get(comm)?;
        let context = communicator.context().collective();
        let (group, rank) = (communicator.members().clone(), communicator.number());
        Ok(Span { group, rank, context, tag, naming: Naming::Rank })
    }

    pub(super) fn start_schedule<D: Device>(
        &mut self,
        device: &mut D,
        mut schedule: Schedule,
        span: Span,
        then: Option<Then>,
    ) -> Posted {
        let id = self.messages.requests.insert(Request::new(State::Elsewhere, Buffer::EMPTY, None));
        let status = match self.messages.lost_member(&span.group) {
            Some(error) => coll::Status::Failed(error),
            None => {
                let (span, is_awaited) = (&span, self.is_awaited);
                schedule.start(&mut Carrier { messages: self.messages, device, span, parent: id, is_awaited })
            }
        };
        let failure = None;
        let running = Box::new(Running { schedule, span, then, failure, is_awaited: self.is_awaited });
        match self.settle_collective(id, status, running) {
            // All messages were there. What their senders are to be told, such as credit, leaves in the next
            // round: a caller that goes on without one would leave it to others to see to that.
            Some(completion) if self.messages.wants_transmit() => {
                self.messages.complete(id, completion);
                Posted::Pending(id)
            }
            Some(completion) => {
                self.messages.requests.remove(id);
                Posted::Done(completion)
            }
            None => Posted::Pending(id),
        }
    }

    /// Ends a run that has ended, or keeps it.
    fn settle_collective(
        &mut self,
        id: RequestId,
        status: coll::Status,
        mut running: Box<Running>,
    ) -> Option<Completion> {
        if let coll::Status::Failed(error) = status
            && running.failure.is_none()
        {
            running.failure = Some(error);
            self.end_children(id);
        }
        if status == coll::Status::Running || running.schedule.in_flight_count() > 0 {
            let request = self.messages.requests.get_mut(id).expect("a running schedule has a request");
            request.state = State::Collective(running);
            return None;
        }
        let Running { schedule, span, then, failure, is_awaited } = *running;
        self.own.pool.recycle(schedule);
        let result = match then {
            Some(Then::Make(making)) => self.finish_making(*making, failure),
            Some(Then::Compare(comparing)) => self.finish_comparing(comparing, span, failure),
            None => failure.map_or(Ok(None), Err),
        };
        match result {
            Ok(None) => Some(Completion::EMPTY),
            Err(error) => Some(Completion::failed(error)),
            Ok(Some(mut next)) => {
                next.is_awaited = is_awaited;
                let request = self.messages.requests.get_mut(id).expect("a running schedule has a request");
                request.state = State::Collective(next);
                self.messages.woken.push_back(Woken {
                    parent: id,
                    step: BEGIN,
                    completion: Completion::EMPTY,
                });
                None
            }
        }
    }

    /// A message of a running schedule has ended: goes on with it. Gives the report back if it is to wait.
    pub(crate) fn on_woken<D: Device>(&mut self, device: &mut D, woken: Woken) -> Option<Woken> {
        let Woken { parent, step, completion } = woken;
        let request = self.messages.requests.get_mut(parent)?;
        let State::Collective(running) = &request.state else { return None };
        if self.own.puts_off_user_functions && running.schedule.calls_user_function() {
            return Some(woken);
        }
        let State::Collective(mut running) = core::mem::replace(&mut request.state, State::Elsewhere) else {
            unreachable!("just looked")
        };
        if step != BEGIN {
            running.schedule.complete(step, completion.into());
        }
        let Running { schedule, span, failure, is_awaited, .. } = &mut *running;
        let is_awaited = *is_awaited;
        let status = match *failure {
            Some(error) => coll::Status::Failed(error),
            None => {
                schedule.advance(&mut Carrier { messages: self.messages, device, span, parent, is_awaited })
            }
        };
        if let Some(completion) = self.settle_collective(parent, status, running) {
            self.messages.complete(parent, completion);
        }
        None
    }

    /// Ends the collective operations that `peer` is a member of, also those that exchange nothing with it
    /// here: other members, which do, give up, and their messages would be waited for without end.
    #[cold]
    pub(crate) fn fail(&mut self, peer: ProcessId, error: Error) {
        self.fail_where(error, |span| span.group.rank_of(peer).is_some());
    }

    /// Ends the collective operations of some spans.
    #[cold]
    pub(crate) fn fail_where(&mut self, error: Error, is_concerned: impl Fn(&Span) -> bool) {
        self.fail_run_where(error, &is_concerned);
        let concerned: Vec<RequestId> = self
            .messages
            .requests
            .iter()
            .filter(|(_, request)| match &request.state {
                State::Collective(running) => is_concerned(&running.span),
                _ => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in concerned {
            let request = self.messages.requests.get_mut(id).expect("just listed");
            let State::Collective(running) = core::mem::replace(&mut request.state, State::Elsewhere) else {
                unreachable!("just looked")
            };
            if let Some(completion) = self.settle_collective(id, coll::Status::Failed(error), running) {
                self.messages.complete(id, completion);
            }
        }
    }

    /// A schedule failed: ends its messages, as soon as each can be.
    #[cold]
    fn end_children(&mut self, parent: RequestId) {
        let is_child = |request: &Request| matches!(request.parent, Some((id, _)) if id == parent);
        let children: Vec<RequestId> =
            self.messages.requests.iter().filter(|(_, r)| is_child(r)).map(|(id, _)| id).collect();
        for id in children {
            if let Some(link) = self.messages.cancel_locally(id) {
                self.messages.links.queue_control(link, Header::Cancel(id));
            }
        }
    }
}

/// Sends and receives for a schedule.
struct Carrier<'a, D> {
    messages: &'a mut Messages,
    device: &'a mut D,
    span: &'a Span,
    parent: RequestId,
    is_awaited: bool,
}

impl<D: Device> Carrier<'_, D> {
    fn adopt(&mut self, posted: Posted, step: StepId) -> Result<coll::Posted, Error> {
        match posted {
            Posted::Done(Completion { error: None, .. }) => Ok(coll::Posted::Done),
            Posted::Done(Completion { error: Some(error), .. }) => Err(error),
            Posted::Pending(id) => {
                let request = self.messages.requests.get_mut(id).expect("just made");
                debug_assert!(
                    !matches!(request.state, State::Complete(_)),
                    "data moves in poll_transmit only"
                );
                request.parent = Some((self.parent, step));
                Ok(coll::Posted::Pending)
            }
        }
    }
}

impl<D: Device> Transport for Carrier<'_, D> {
    fn isend(&mut self, to: Rank, buffer: Buffer, step: StepId) -> Result<coll::Posted, Error> {
        let (_, source) = self.span.name_of(self.span.rank)?;
        let envelope = Envelope { context: self.span.context, source, tag: self.span.tag };
        let (peer, _) = self.span.name_of(to)?;
        let posted = self.messages.send_message(
            self.device,
            peer,
            envelope,
            buffer.into(),
            SendMode::Standard,
            self.is_awaited,
        )?;
        self.adopt(posted, step)
    }

    fn irecv(&mut self, from: Rank, buffer: Buffer, step: StepId) -> Result<coll::Posted, Error> {
        let (peer, source) = self.span.name_of(from)?;
        let key = Key::new(self.span.context, Source::Rank(source), TagSelector::Tag(self.span.tag));
        let posted = self.messages.receive_message(key, Some(peer), buffer.into())?;
        self.adopt(posted, step)
    }

    #[inline]
    fn worked(&mut self, work: Work) {
        self.device.worked(work);
    }
}
