//! Runs schedules. A cursor goes over the steps once, from fence to fence; a step that waits for an edge is
//! left behind and taken up when that edge is released. So no step is looked at in vain, however long a run
//! takes.

use super::schedule::{Action, Graph, NONE, StepId};
use crate::buffer::Buffer;
use crate::device::Work;
use crate::error::Error;
use crate::ids::Rank;
use crate::op::Reducer;

/// How a message was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It has completed already.
    Done,
    /// It has not; [`Graph::complete`] will be called for its step.
    Pending,
}

/// Sends and receives the messages of one running collective: on the communicator's collective context, with
/// the tag of this instance.
pub trait Transport {
    /// Sends `buffer` to rank `to`.
    ///
    /// # Errors
    /// Why it cannot be sent; the collective fails with this error.
    fn isend(&mut self, to: Rank, buffer: Buffer, step: StepId) -> Result<Posted, Error>;

    /// Receives from rank `from` into `buffer`.
    ///
    /// # Errors
    /// Why it cannot be received; the collective fails with this error.
    fn irecv(&mut self, from: Rank, buffer: Buffer, step: StepId) -> Result<Posted, Error>;

    /// The processor has worked on data in its own memory.
    #[inline]
    fn worked(&mut self, work: Work) {
        let _ = work;
    }
}

/// The same for a caller that runs [rounds](Graph::run_round).
pub(crate) trait RoundTransport: Transport {
    /// Sends `buffer` to rank `to` if that can be done at once: `true`, it has left.
    fn leaves_at_once(&mut self, to: Rank, buffer: Buffer) -> bool;
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Messages are under way.
    Running,
    /// All steps have completed.
    Done,
    /// A message failed, and nothing more is issued. Messages under way are the owner's to cancel.
    Failed(Error),
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct State {
    /// The first step not yet looked at.
    cursor: u32,
    /// Steps before the cursor that have not completed.
    unfinished: u32,
    /// Messages issued and not completed.
    pub(super) in_flight: u32,
    /// Steps before the cursor that have become ready: a list through `next_ready`.
    first_ready: u32,
    last_ready: u32,
    failed: Option<Error>,
}

impl Default for State {
    fn default() -> Self {
        Self { cursor: 0, unfinished: 0, in_flight: 0, first_ready: NONE, last_ready: NONE, failed: None }
    }
}

/// Running. `start` begins a run, `complete` reports messages, and after it `advance` issues what has become
/// ready; when the status is [`Status::Done`] the schedule may be started again (persistent collectives) or
/// given to [`Pool::recycle`](super::schedule::Pool::recycle).
impl Graph {
    /// Begins a run.
    ///
    /// # Panics
    /// If messages of an earlier run are under way, or it failed (our bug).
    pub fn start(&mut self, transport: &mut impl Transport) -> Status {
        assert_eq!(self.state.in_flight, 0, "a schedule is started while it runs");
        assert!(self.state.failed.is_none(), "a schedule that failed is started");
        self.state = State::default();
        self.advance(transport)
    }

    /// A message that was [`Posted::Pending`] has ended. Call [`advance`](Self::advance) afterwards.
    ///
    /// # Panics
    /// If no message is under way (our bug).
    pub fn complete(&mut self, step: StepId, result: Result<(), Error>) {
        self.state.in_flight = self.state.in_flight.checked_sub(1).expect("no message is under way");
        match result {
            Ok(()) => self.finish_step(step.0),
            Err(error) => self.fail(error),
        }
    }

    /// Issues all ready steps, and those that become ready by that.
    pub fn advance(&mut self, transport: &mut impl Transport) -> Status {
        while self.state.failed.is_none() {
            if self.state.first_ready != NONE {
                let at = self.state.first_ready;
                self.state.first_ready = self.steps[at as usize].next_ready;
                self.issue(at, transport);
                continue;
            }
            let at = self.state.cursor;
            let Some(step) = self.steps.get(at as usize) else { break };
            if step.fenced && self.state.unfinished > 0 {
                break;
            }
            self.state.cursor += 1;
            self.state.unfinished += 1;
            if step.pending == 0 {
                self.issue(at, transport);
            }
        }
        self.status()
    }

    /// Whether a step calls a function of the user's.
    pub(crate) fn calls_user_function(&self) -> bool {
        self.reducer.as_ref().is_some_and(Reducer::is_user_function)
    }

    /// Messages issued that have not ended.
    pub fn in_flight_count(&self) -> u32 {
        self.state.in_flight
    }

    /// How far the run is.
    pub fn status(&self) -> Status {
        let State { cursor, unfinished, in_flight, failed, .. } = self.state;
        match failed {
            Some(error) => Status::Failed(error),
            None if unfinished + in_flight == 0 && cursor as usize == self.steps.len() => Status::Done,
            None => Status::Running,
        }
    }

    fn fail(&mut self, error: Error) {
        self.state.failed.get_or_insert(error);
    }

    fn issue(&mut self, at: u32, transport: &mut impl Transport) {
        let step = &mut self.steps[at as usize];
        step.pending = step.needs;
        match self.act(at, transport) {
            Ok(Posted::Done) => {
                self.release(at, true);
                self.finish_step(at);
            }
            Ok(Posted::Pending) => {
                self.state.in_flight += 1;
                self.release(at, true);
            }
            Err(error) => self.fail(error),
        }
    }

    fn act(&mut self, at: u32, transport: &mut impl Transport) -> Result<Posted, Error> {
        match self.steps[at as usize].action {
            Action::Send { to, buffer } => transport.isend(to, buffer, StepId(at)),
            Action::Receive { from, buffer } => transport.irecv(from, buffer, StepId(at)),
            Action::Copy { from, to } => {
                to.copy_from(0, &from, 0, from.len());
                transport.worked(Work::Copied(from.len()));
                Ok(Posted::Done)
            }
            Action::Reduce { input, inout } => {
                let reducer = self.reducer.as_ref().expect("a schedule with reductions has an operation");
                inout.with_mut_and(&input, |inout, input| reducer.apply(input, inout));
                transport.worked(Work::Reduced(inout.len()));
                Ok(Posted::Done)
            }
        }
    }

    fn finish_step(&mut self, at: u32) {
        self.state.unfinished -= 1;
        self.release(at, false);
    }

    /// Tells the steps that wait for this one's issue, or for its completion.
    #[inline]
    fn release(&mut self, at: u32, on_issue: bool) {
        let first = self.steps[at as usize].first_edge;
        if first != NONE {
            self.release_edges(first, on_issue);
        }
    }

    fn release_edges(&mut self, first: u32, on_issue: bool) {
        let mut next = first;
        while next != NONE {
            let edge = self.edges[next as usize];
            next = edge.next;
            if edge.on_issue == on_issue {
                let waiting = &mut self.steps[edge.to as usize];
                waiting.pending -= 1;
                // The cursor will find later steps ready.
                if waiting.pending == 0 && edge.to < self.state.cursor {
                    self.make_ready(edge.to);
                }
            }
        }
    }

    fn make_ready(&mut self, at: u32) {
        self.steps[at as usize].next_ready = NONE;
        if self.state.first_ready == NONE {
            self.state.first_ready = at;
        } else {
            self.steps[self.state.last_ready as usize].next_ready = at;
        }
        self.state.last_ready = at;
    }
}

/// Running by a caller that waits for the messages of each round, of a schedule that
/// [is in rounds](Graph::is_in_rounds). No step is released: a round ends when its messages have.
impl Graph {
    /// Issues the steps of the next round of a schedule that has not been run before: sends that leave at
    /// once, the receive, the other sends, which so know that there is one, and work in memory, while these
    /// are under way. `false`: there is no round left. All messages of the one before have
    /// [ended](Self::end_message).
    ///
    /// # Errors
    /// Why a message cannot be sent or received. Those of the round that were issued may be under way.
    pub(crate) fn run_round(&mut self, transport: &mut impl RoundTransport) -> Result<bool, Error> {
        let first = self.state.cursor;
        let (mut receive, mut put_off) = (None, None);
        while let Some(step) = self.steps.get(self.state.cursor as usize) {
            let at = self.state.cursor;
            if step.fenced && at > first {
                break;
            }
            self.state.cursor += 1;
            match step.action {
                Action::Receive { .. } => receive = Some(at),
                // Of two to one peer the later one does not leave first.
                Action::Send { .. } if put_off.is_some() => {}
                Action::Send { to, buffer } if transport.leaves_at_once(to, buffer) => {}
                Action::Send { .. } => put_off = Some(at),
                Action::Copy { .. } | Action::Reduce { .. } => {}
            }
        }
        let end = self.state.cursor;
        receive.map_or(Ok(()), |at| self.act_in_round(at, transport))?;
        for at in put_off.unwrap_or(end)..end {
            if matches!(self.steps[at as usize].action, Action::Send { .. }) {
                self.act_in_round(at, transport)?;
            }
        }
        for at in first..end {
            if matches!(self.steps[at as usize].action, Action::Copy { .. } | Action::Reduce { .. }) {
                self.act_in_round(at, transport)?;
            }
        }
        Ok(end > first)
    }

    fn act_in_round(&mut self, at: u32, transport: &mut impl Transport) -> Result<(), Error> {
        let posted = self.act(at, transport)?;
        self.state.in_flight += u32::from(posted == Posted::Pending);
        Ok(())
    }

    /// A message that was [`Posted::Pending`] has ended.
    ///
    /// # Panics
    /// If no message is under way (our bug).
    pub(crate) fn end_message(&mut self) {
        self.state.in_flight = self.state.in_flight.checked_sub(1).expect("no message is under way");
    }
}
