//! Communicators: a group and a matching space (MPI-5.0 §7.4).

use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank};

/// A communicator as one member sees it.
#[derive(Clone, Debug)]
pub struct Communicator {
    context: ContextId,
    group: Group,
    rank: Rank,
    /// Collective operations started so far: the tag of the next one's messages.
    collective_count: u32,
}

impl Communicator {
    /// `MPI_COMM_WORLD`.
    pub(crate) fn world(me: ProcessId, count: u32) -> Self {
        Self::new(ContextId::WORLD, Group::world(count), me.0)
    }

    /// `MPI_COMM_SELF`.
    pub(crate) fn only(me: ProcessId) -> Self {
        Self::new(ContextId::new(me, 1), Group::single(me), 0)
    }

    pub(crate) fn new(context: ContextId, group: Group, rank: Rank) -> Self {
        Self { context, group, rank, collective_count: 0 }
    }

    /// The matching space.
    #[inline]
    pub fn context(&self) -> ContextId {
        self.context
    }

    /// The members.
    #[inline]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Our rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many members.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// How many collective operations were started, modulo 2^32.
    pub fn collectives_count(&self) -> u32 {
        self.collective_count
    }

    /// The tag of the next collective operation: members start them in the same order, so they agree.
    pub(crate) fn next_collective_tag(&mut self) -> i32 {
        let tag = self.collective_count & i32::MAX as u32;
        self.collective_count = self.collective_count.wrapping_add(1);
        tag as i32
    }
}
