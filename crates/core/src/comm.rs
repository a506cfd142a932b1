//! Communicators: a group and a matching space (MPI-5.0 §7.4).

use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank, Tag};

/// Tags of the collective context: collective operations have those from 0 up, the making of a communicator by a group's
/// members alone -1 down to -2^30, persistent collective operations those below. `Tag::MIN` stands for any tag.
const GROUP_TAGS_MAX: Tag = Tag::MAX >> 1;

/// A communicator as one member sees it.
#[derive(Clone, Debug)]
pub struct Communicator {
    context: ContextId,
    group: Group,
    rank: Rank,
    /// Collective operations started so far: the tag of the next one's messages.
    collective_count: u32,
    /// Persistent collective operations made so far.
    persistent_count: u32,
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
        Self { context, group, rank, collective_count: 0, persistent_count: 0 }
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
    pub(crate) fn next_collective_tag(&mut self) -> Tag {
        let tag = self.collective_count & i32::MAX as u32;
        self.collective_count = self.collective_count.wrapping_add(1);
        tag as Tag
    }

    /// The tag of all runs of the next persistent collective operation: members make these in the same order.
    pub(crate) fn next_persistent_tag(&mut self) -> Tag {
        let number = self.persistent_count % GROUP_TAGS_MAX as u32;
        self.persistent_count = self.persistent_count.wrapping_add(1);
        Tag::MIN + 1 + number as Tag
    }

    /// The tag of a communicator's making by the members of a group, where the user gave `tag`.
    pub(crate) fn create_group_tag(tag: Tag) -> Tag {
        -1 - (tag & GROUP_TAGS_MAX)
    }
}
