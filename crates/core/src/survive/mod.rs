//! Going on without members that have failed: revoking a communicator, agreeing, shrinking (the user-level
//! failure mitigation proposed for MPI; Bland et al. 2013).
//!
//! *Owned here*: notes and their bytes (`note`), agreement (`agree`), and a process' state of both
//! ([`Survival`]). *Not here*: detection of failures (devices and the launcher report them,
//! `Process::handle_peer_gone`), the fate of messages (`p2p/fail.rs`), and the commands (`survivors.rs`).
//!
//! *Revoking* is a reliable broadcast: a member that hears of it for the first time tells all other members,
//! so all live members hear of it if one of them does. *Shrinking* is agreement on the live members and on
//! the context of their communicator. Nothing else is exchanged, so it succeeds at all of them or at none.

mod agree;
mod note;

pub(crate) use agree::{Agreements, Call, Outputs};
pub(crate) use note::VALUE_BITS;
#[cfg(test)]
pub(crate) use note::tests::note;
pub use note::{Acked, Contribution, Decision, Note, Report, VALUE_WORDS, Value, What};

use crate::buffer::Buffer;
use crate::comm::Communicator;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, RequestId};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Stands for the notes that wait to be sent, among what has ended.
pub(crate) const PARENT: RequestId = RequestId { index: u32::MAX - 1, generation: u32::MAX };

/// Notes kept for communicators that this process does not know yet. More than that are of no correct
/// program, and the oldest go.
const EARLY_NOTES_MAX: usize = 1 << 16;
/// Communicators that were freed and whose last decision is kept for members that still wait for it.
const FREED_MAX: usize = 64;

/// The agreements of a communicator.
pub(crate) struct Council {
    /// Its members, in the order in which agreements number them.
    pub(crate) members: Group,
    pub(crate) agreements: Agreements,
}

/// Use of an agreement's result.
pub(crate) enum Wanted {
    /// The value of `MPIX_Comm_agree`, to be written there.
    Flag(RequestId, Buffer),
    /// The live ones of some members; more agreements of the same request follow.
    Lives(RequestId),
    /// The same, the last part.
    Shrunk(RequestId),
}

/// A communicator that is being shrunk.
pub(crate) struct Shrinking {
    pub(crate) parent: Communicator,
    pub(crate) into: CommId,
    /// The live members, as far as decided.
    pub(crate) lives: Vec<Value>,
}

/// A process' state of failures and of the agreements after them.
#[derive(Default)]
pub(crate) struct Survival {
    pub(crate) councils: BTreeMap<ContextId, Council>,
    freed: VecDeque<ContextId>,
    early: VecDeque<(ProcessId, Note)>,
    /// By communicator, the number of acknowledged failures of members: those that this process learned of
    /// first.
    pub(crate) acknowledged: BTreeMap<ContextId, usize>,
    /// Notes to be sent.
    pub(crate) outbox: VecDeque<(ProcessId, Note)>,
    /// Whether [`PARENT`] is among what has ended.
    pub(crate) is_woken: bool,
    pub(crate) wanted: BTreeMap<u32, Wanted>,
    next_call: u32,
    pub(crate) shrinking: BTreeMap<RequestId, Shrinking>,
}

impl Survival {
    /// The name of a new call of an agreement.
    pub(crate) fn add_call(&mut self, wanted: Wanted) -> u32 {
        let id = self.next_call;
        self.next_call = id.wrapping_add(1);
        self.wanted.insert(id, wanted);
        id
    }

    /// Processes that agreements wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.councils.values().flat_map(|council| {
            council.agreements.awaited().filter_map(|number| council.members.process(number))
        })
    }

    /// Keeps a note of a communicator that is not known here.
    pub(crate) fn keep_early(&mut self, from: ProcessId, note: Note) {
        if self.early.len() == EARLY_NOTES_MAX {
            self.early.pop_front();
        }
        self.early.push_back((from, note));
    }

    /// The notes kept of a communicator.
    pub(crate) fn take_early(&mut self, context: ContextId) -> Vec<(ProcessId, Note)> {
        let (its, others) = self.early.drain(..).partition(|(_, note)| note.context == context);
        self.early = others;
        Vec::from(its)
    }

    /// A communicator is freed. Members that still wait for its last decision nevertheless get it.
    pub(crate) fn free(&mut self, context: ContextId) {
        self.acknowledged.remove(&context);
        if !self.councils.contains_key(&context) {
            return;
        }
        self.freed.push_back(context);
        if self.freed.len() > FREED_MAX
            && let Some(oldest) = self.freed.pop_front()
        {
            self.councils.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn councils_of_freed_communicators_are_kept_for_a_while() {
        let mut survival = Survival::default();
        let context = |at: usize| ContextId(100 + at as u64);
        let add = |survival: &mut Survival, at| {
            let agreements = Agreements::new(0, 2, core::iter::empty());
            survival.councils.insert(context(at), Council { members: Group::world(2), agreements });
            survival.acknowledged.insert(context(at), 1);
        };
        for at in 0..FREED_MAX {
            add(&mut survival, at);
            survival.free(context(at));
        }
        assert_eq!((survival.councils.len(), survival.acknowledged.len()), (FREED_MAX, 0));
        // One that never agreed on anything takes no place.
        survival.free(context(1000));
        assert_eq!(survival.councils.len(), FREED_MAX);
        add(&mut survival, FREED_MAX);
        survival.free(context(FREED_MAX));
        assert_eq!(survival.councils.len(), FREED_MAX);
        assert!(!survival.councils.contains_key(&context(0)) && survival.councils.contains_key(&context(1)));
    }

    #[test]
    fn early_notes_are_bounded_and_each_is_given_once() {
        let mut survival = Survival::default();
        let note = |at: usize| Note { context: ContextId(at as u64 % 2), what: What::Revoke };
        (0..=EARLY_NOTES_MAX).for_each(|at| survival.keep_early(ProcessId(at as u32), note(at)));
        assert_eq!(survival.early.len(), EARLY_NOTES_MAX);
        let of_one = survival.take_early(ContextId(1));
        assert_eq!((of_one.len(), of_one[0].0), (EARLY_NOTES_MAX / 2, ProcessId(1)));
        let of_zero = survival.take_early(ContextId(0));
        assert_eq!((of_zero.len(), of_zero[0].0), (EARLY_NOTES_MAX / 2, ProcessId(2)), "the oldest is gone");
        assert!(survival.early.is_empty());
    }
}
