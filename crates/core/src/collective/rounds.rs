//! A collective operation that its caller waits for and does nothing else, without requests.
//!
//! The caller runs one round after the other: its sends leave at once where they can, as those of `MPI_Send`,
//! and its receive goes past the request table, as that of `MPI_Recv` (`p2p/direct.rs`). There is one place,
//! so one such operation at a time, and no direct receive beside it. Sends that cannot leave at once are
//! requests, which report their end to the operation.
//!
//! A failure does the same as to operations with requests: this one ends with it, once its messages have
//! ended. Between two ranks in shared memory an all-to-all of 32 KiB took 5.2 us with requests, and takes
//! 4.3; an allreduce of 64 KiB 10.7 and 7.7.

use super::{Carrier, Collectives};
use crate::buffer::Buffer;
use crate::coll::running::Span;
use crate::coll::{Posted, RoundTransport, Schedule, StepId, Transport};
use crate::device::{Device, Work};
use crate::error::Error;
use crate::ids::{CommId, Rank, RequestId, Source, TagSelector};
use crate::matching::Key;
use crate::p2p::Direct;
use crate::request::{Completion, Woken};
use crate::wire::Envelope;

/// The parent of its sends.
pub(crate) const PARENT: RequestId = RequestId { index: u32::MAX - 2, generation: u32::MAX };

/// The operation.
pub(crate) struct Rounds {
    pub(crate) schedule: Schedule,
    pub(crate) span: Span,
    /// Why it will fail, once its messages have ended.
    failure: Option<Error>,
}

impl Collectives<'_> {
    /// See [`Process::run_collective`](crate::Process::run_collective).
    pub(crate) fn run<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        schedule: Schedule,
    ) -> Result<Option<Completion>, Error> {
        debug_assert!(schedule.is_in_rounds());
        debug_assert!(self.own.rounds.is_none(), "two collective operations are waited for");
        debug_assert!(matches!(self.messages.direct, Direct::None), "a receive is waited for beside it");
        let span = self.next_span(comm)?;
        let failure = self.messages.lost_member(&span.group);
        self.own.rounds = Some(Rounds { schedule, span, failure });
        Ok(self.go_on_with_run(device))
    }

    /// See [`Process::poll_run`](crate::Process::poll_run).
    #[inline]
    pub(crate) fn poll_run(&mut self) -> bool {
        if self.own.rounds.is_none() {
            return false;
        }
        if self.messages.poll_direct() {
            self.end_message(self.messages.direct_completion.error);
        }
        self.own.rounds.as_ref().is_some_and(|run| run.schedule.in_flight_count() == 0)
    }

    /// See [`Process::go_on_with_run`](crate::Process::go_on_with_run).
    ///
    /// What it does next is not timed with the messages that have ended: these have been cleared away where
    /// they ended, in `poll_transmit`.
    pub(crate) fn go_on_with_run<D: Device>(&mut self, device: &mut D) -> Option<Completion> {
        let Rounds { schedule, span, failure } = self.own.rounds.as_mut().expect("an operation is run");
        while failure.is_none() {
            let carrier = Carrier { messages: self.messages, device, span, parent: PARENT, is_awaited: true };
            match schedule.run_round(&mut Caller(carrier)) {
                Ok(true) if schedule.in_flight_count() == 0 => {}
                Ok(true) => return None,
                Ok(false) => break,
                Err(error) => *failure = Some(error),
            }
        }
        if let Some(error) = *failure
            && schedule.in_flight_count() > 0
        {
            self.end_messages(error);
            return None;
        }
        let Rounds { schedule, failure, .. } = self.own.rounds.take().expect("looked at above");
        self.own.pool.recycle(schedule);
        Some(failure.map_or(Completion::EMPTY, Completion::failed))
    }

    /// A send that could not leave at once has ended.
    pub(crate) fn on_run_woken(&mut self, woken: &Woken) {
        self.end_message(woken.completion.error);
    }

    fn end_message(&mut self, error: Option<Error>) {
        let run = self.own.rounds.as_mut().expect("a message ends before its operation");
        run.schedule.end_message();
        if let Some(error) = error {
            self.fail_run(error);
        }
    }

    /// The operation fails, once its messages have ended.
    #[cold]
    fn fail_run(&mut self, error: Error) {
        let run = self.own.rounds.as_mut().expect("the caller has seen it");
        if run.failure.replace(run.failure.unwrap_or(error)).is_some() {
            return;
        }
        self.end_messages(error);
    }

    /// Ends the operation's messages, as soon as each can be.
    #[cold]
    fn end_messages(&mut self, error: Error) {
        if matches!(self.messages.direct, Direct::Waiting { .. }) {
            self.messages.end_direct(error);
        }
        self.end_children(PARENT);
    }

    /// The same if its span is concerned.
    #[cold]
    pub(super) fn fail_run_where(&mut self, error: Error, is_concerned: impl Fn(&Span) -> bool) {
        if self.own.rounds.as_ref().is_some_and(|run| is_concerned(&run.span)) {
            self.fail_run(error);
        }
    }
}

/// Sends and receives of a caller that waits.
struct Caller<'a, D>(Carrier<'a, D>);

impl<D: Device> Transport for Caller<'_, D> {
    fn isend(&mut self, to: Rank, buffer: Buffer, step: StepId) -> Result<Posted, Error> {
        self.0.isend(to, buffer, step)
    }

    #[inline]
    fn irecv(&mut self, from: Rank, buffer: Buffer, _: StepId) -> Result<Posted, Error> {
        let Carrier { messages, device, span, .. } = &mut self.0;
        let (peer, source) = span.name_of(from)?;
        let key = Key::new(span.context, Source::Rank(source), TagSelector::Tag(span.tag));
        let data = buffer.into();
        if !messages.unexpected.is_empty()
            && let Some(posted) = messages.take_unexpected(&key, &data)
        {
            let is_over = messages.begin_direct_with(posted);
            let error = messages.direct_completion.error.filter(|_| is_over);
            return error.map_or(Ok(if is_over { Posted::Done } else { Posted::Pending }), Err);
        }
        if let Some(error) = messages.failure_of(Some(peer)) {
            return Err(error);
        }
        device.expect(Some(peer));
        messages.begin_direct(key, Some(peer), data);
        Ok(Posted::Pending)
    }

    #[inline]
    fn worked(&mut self, work: Work) {
        self.0.worked(work);
    }
}

impl<D: Device> RoundTransport for Caller<'_, D> {
    #[inline]
    fn leaves_at_once(&mut self, to: Rank, buffer: Buffer) -> bool {
        let Carrier { messages, device, span, .. } = &mut self.0;
        let (Ok((_, source)), Ok((peer, _))) = (span.name_of(span.rank), span.name_of(to)) else {
            return false;
        };
        let Some(index) = messages.links.index_of(peer) else { return false };
        let envelope = Envelope { context: span.context, source, tag: span.tag };
        messages.offer_at_once(*device, index, &envelope, &buffer)
            || messages.offer_longer_at_once(*device, index, &envelope, &buffer)
    }
}
