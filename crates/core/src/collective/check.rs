//! Check mode: the members of a communicator compare their claims about a collective operation before it
//! runs.
//!
//! Arguments that the standard requires to match may not differ (MPI-5.0 §6.1), but a library need not detect
//! it: such a call hangs, truncates data or succeeds by chance. Here each operation begins with an allgather
//! of [`Claim`]s, and all members draw the same conclusion from them. Where a member alone knows what it
//! expects of each other (`MPI_Gatherv` at the root, `MPI_Alltoallv`), it compares that and tells the others
//! what it found, so that all give up or none.
//!
//! All stages run in the operation's own span. A member sends and receives all messages of a stage before
//! any of the next one, so they cannot be taken for one another.

use super::make_comm::unsegmented;
use super::{CollectiveId, Collectives};
use crate::buffer::Scratch;
use crate::coll::compare::{Comparing, Stage};
use crate::coll::running::{Running, Span, Then};
use crate::coll::{self, Blocks, Claim, Schedule};
use crate::device::Device;
use crate::error::Error;
use crate::ids::CommId;
use crate::request::Posted;
use alloc::boxed::Box;

impl Collectives<'_> {
    /// As [`start`](Self::start), or with `id` [`start_reserved`](Self::start_reserved), after the members
    /// have compared their claims. If they differ the operation does not run, and ends at all of them with
    /// [`Error::Unlike`]. A member that has no schedule takes part nevertheless, with the reason.
    ///
    /// All members do this, or none. For intracommunicators only.
    ///
    /// # Errors
    /// [`Error::Comm`] for an intercommunicator, or none.
    pub fn start_compared<D: Device>(
        &mut self,
        device: &mut D,
        comm: CommId,
        schedule: Result<Schedule, Error>,
        claim: Claim,
        id: Option<CollectiveId>,
    ) -> Result<Posted, Error> {
        if self.comms.get(comm)?.is_inter() {
            return Err(Error::Comm);
        }
        let span = match id {
            None => self.next_span(comm)?,
            Some(id) => self.span(comm, id.0)?,
        };
        let at = coll::Context { rank: span.rank, size: span.group.size() };
        let (schedule, comparing) = self.prepare(Box::new(Comparing::new(claim, schedule, at)))?;
        Ok(self.start_schedule(device, schedule, span, Some(Then::Compare(comparing))))
    }

    /// The schedule of a stage, not begun.
    fn prepare(&mut self, mut comparing: Box<Comparing>) -> Result<(Schedule, Box<Comparing>), Error> {
        let (at, part) = (comparing.at, comparing.part_bytes());
        let all = part * at.size as usize;
        let is_alltoall = comparing.stage == Stage::Sends;
        let own_bytes = if is_alltoall { all } else { 0 };
        let mut memory = Scratch::new(all + own_bytes);
        let both = memory.buffer(all + own_bytes);
        let (given, own) = (both.part(0, all), both.part(all, own_bytes));
        let pool = &mut self.own.pool;
        let schedule = if is_alltoall {
            own.with_mut(|bytes| comparing.emit(bytes));
            let choice = unsegmented(coll::Algorithm::Pairwise);
            coll::alltoall(pool, at, Some(Blocks::Uniform(own)), Blocks::Uniform(given), choice)?
        } else {
            given.part(at.rank as usize * part, part).with_mut(|bytes| comparing.emit(bytes));
            let choice = unsegmented(coll::Algorithm::Bruck);
            coll::allgather(pool, at, None, Blocks::Uniform(given), choice)?
        };
        comparing.memory = memory;
        Ok((schedule, comparing))
    }

    /// A stage is over: starts the next one or the operation, or returns the difference found.
    pub(super) fn finish_comparing(
        &mut self,
        mut comparing: Box<Comparing>,
        span: Span,
        failure: Option<Error>,
    ) -> Result<Option<Box<Running>>, Error> {
        let given = comparing.given();
        let next = match failure {
            None => given.with_mut(|all| comparing.hear(all)).unwrap_or(Ok(None)),
            Some(error) => {
                // A message under way may still write there.
                core::mem::forget(core::mem::replace(&mut comparing.memory, Scratch::new(0)));
                Err(error)
            }
        };
        let (schedule, then) = match next {
            Ok(Some(stage)) => {
                comparing.stage = stage;
                let (schedule, comparing) = self.prepare(comparing)?;
                (schedule, Some(Then::Compare(comparing)))
            }
            Ok(None) => (comparing.next?, None),
            Err(error) => {
                // This call returns the error; the schedule is dropped.
                self.own.pool.recycle(comparing.next?);
                return Err(error);
            }
        };
        Ok(Some(Box::new(Running { schedule, span, then, failure: None, is_awaited: false })))
    }
}
