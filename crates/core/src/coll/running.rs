//! A collective operation under way, as its process keeps it.

use super::compare::Comparing;
use super::{Label, Schedule, StepId};
use crate::buffer::Scratch;
use crate::comm::Communicator;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, Tag};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The processes of a schedule, and what distinguishes its messages from others.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) group: Group,
    pub(crate) rank: Rank,
    pub(crate) context: ContextId,
    pub(crate) tag: Tag,
    /// How messages name their sender.
    pub(crate) naming: Naming,
}

/// How the messages of a schedule name their sender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By its rank in the span's group, which is all of the context's communicator.
    Rank,
    /// By its index in the job: several groups use the context at the same time, and each has a rank 0.
    Process,
}

impl Span {
    /// The name of a member in messages.
    pub(crate) fn name_of(&self, rank: Rank) -> Result<(ProcessId, Rank), Error> {
        let size = self.group.size();
        let process = self.group.process(rank).ok_or(Error::Rank { rank: rank.into(), size })?;
        let name = match self.naming {
            Naming::Rank => rank,
            Naming::Process => process.0,
        };
        Ok((process, name))
    }
}

/// A collective operation under way.
pub(crate) struct Running {
    pub(crate) schedule: Schedule,
    pub(crate) span: Span,
    /// Action at the end.
    pub(crate) then: Option<Then>,
    /// Why it will fail, once its messages have ended.
    pub(crate) failure: Option<Error>,
    /// Its caller does nothing else before it is over.
    pub(crate) is_awaited: bool,
}

impl Running {
    pub(crate) fn context(&self) -> ContextId {
        self.span.context
    }

    pub(crate) fn tag(&self) -> Tag {
        self.span.tag
    }

    pub(crate) fn label(&self) -> Option<Label> {
        match &self.then {
            Some(Then::Compare(comparing)) => comparing.label(),
            _ => self.schedule.label(),
        }
    }
}

/// Action at the end of a schedule.
pub(crate) enum Then {
    /// A communicator comes of it.
    Make(Box<Making>),
    /// Compares the members' claims; the operation runs if they agree.
    Compare(Box<Comparing>),
}

/// No step of a schedule: it is new, and to be begun.
pub(crate) const BEGIN: StepId = StepId(u32::MAX);

/// A communicator being made.
pub(crate) struct Making {
    pub(crate) into: CommId,
    pub(crate) how: How,
    pub(crate) memory: Scratch,
}

/// How the members of a communicator that is being made learn of it.
pub(crate) enum How {
    /// The context arrives by broadcast: everything else is known.
    Named(Communicator),
    /// Colors, keys and contexts arrive by allgather.
    Split { parent: Communicator, color: Option<u32> },
    /// The wishes of the two groups of an inter-communicator and contexts arrive by allgather.
    Merge { parent: Communicator },
    /// Two leaders make an inter-communicator of their groups.
    Meeting(Meeting),
}

/// An inter-communicator that is being made of two groups. See `collective/meet.rs`.
pub(crate) struct Meeting {
    /// The group of this process. Its tag is this operation's.
    pub(crate) local: Span,
    /// Its leader.
    pub(crate) leader: Rank,
    /// The two leaders, at a leader.
    pub(crate) pair: Option<Span>,
    pub(crate) stage: Stage,
    /// Facts about the other group so far.
    pub(crate) found: Found,
}

/// The current stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The leaders exchange contexts and sizes.
    Greeting,
    /// They exchange the members of their groups.
    Members,
    /// Each leader broadcasts the other group's context and size in its own.
    Telling,
    /// Each leader broadcasts the other group's members in its own.
    TellingMembers,
}

/// A process' knowledge of the other group of an inter-communicator being made.
#[derive(Clone, Default)]
pub(crate) struct Found {
    pub(crate) context: u64,
    pub(crate) is_first: bool,
    pub(crate) remote_size: u32,
    pub(crate) members: Vec<ProcessId>,
    /// Why nothing comes of it.
    pub(crate) failure: Option<Error>,
}
