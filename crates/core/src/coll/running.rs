//! A collective operation under way, as its process keeps it.

use super::{Label, Schedule, StepId};
use crate::buffer::Scratch;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, RequestId, Tag};

/// Among whom a schedule runs, and how its messages are told from others.
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
    /// What is done at the end: a communicator may come of it.
    pub(crate) making: Option<Making>,
    /// Why it will fail, once its messages have ended.
    pub(crate) failure: Option<Error>,
}

impl Running {
    pub(crate) fn context(&self) -> ContextId {
        self.span.context
    }

    pub(crate) fn tag(&self) -> Tag {
        self.span.tag
    }

    pub(crate) fn label(&self) -> Option<Label> {
        self.schedule.label()
    }
}

/// The end of one of its messages: whose, which step, how.
pub(crate) struct Woken {
    pub(crate) parent: RequestId,
    pub(crate) step: StepId,
    pub(crate) result: Result<(), Error>,
}

/// A communicator being made.
pub(crate) struct Making {
    pub(crate) into: CommId,
    pub(crate) how: How,
    pub(crate) memory: Scratch,
}

/// How the members of a communicator that is being made learn of it.
pub(crate) enum How {
    /// The context arrives by broadcast.
    Named { group: Group, rank: Rank },
    /// Colors, keys and contexts arrive by allgather.
    Split { parent: Group, color: Option<u32> },
}
