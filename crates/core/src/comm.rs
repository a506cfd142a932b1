//! Communicators: a group and a matching space (MPI-5.0 §7.4), or two groups and one (MPI-5.0 §7.6).
//!
//! The members of an inter-communicator are those of both groups. They agree on which group is the *first*:
//! that of the leader with the lower process id when it was made. Collective operations and makings run among
//! all members, the first group's before the second's, so that each has one rank there (`Span`).

use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, Tag};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Tags of the collective context: collective operations have those from 0 up, the making of a communicator
/// by a group's members alone -1 down to -2^30, the meeting of two leaders the next 2^29, persistent
/// collective operations the 2^29 below. `Tag::MIN` stands for any tag.
const GROUP_TAGS_MAX: Tag = Tag::MAX >> 1;
const MEETING_TAGS_MAX: Tag = Tag::MAX >> 2;

/// A communicator as one member sees it.
#[derive(Clone, Debug)]
pub struct Communicator {
    context: ContextId,
    /// The group that ranks of messages refer to: the own group, or the remote one in an inter-communicator.
    peers: Group,
    group: Group,
    rank: Rank,
    sides: Option<Sides>,
    /// Collective operations started so far: the tag of the next one's messages.
    collective_count: u32,
    /// Persistent collective operations made so far.
    persistent_count: u32,
}

/// Additional fields of an inter-communicator.
#[derive(Clone, Debug)]
struct Sides {
    /// Whether this process' group is the first.
    is_first: bool,
    /// The first group's members, then the second's.
    members: Group,
}

/// Where a process stands in an inter-communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Across {
    /// Its rank in its group.
    pub rank: Rank,
    /// The size of its group.
    pub size: u32,
    /// The size of the other.
    pub remote_size: u32,
    /// Whether its group is numbered first.
    pub is_first: bool,
}

impl Across {
    /// The number of a rank of this process' group.
    pub const fn local(&self, rank: Rank) -> Rank {
        if self.is_first { rank } else { self.remote_size + rank }
    }

    /// The number of a rank of the other group.
    pub const fn remote(&self, rank: Rank) -> Rank {
        if self.is_first { self.size + rank } else { rank }
    }
}

impl Communicator {
    /// `MPI_COMM_WORLD`.
    pub(crate) fn world(first: ProcessId, me: ProcessId, count: u32) -> Self {
        Self::new(ContextId::new(first, 0), Group::consecutive(first, count), me.0 - first.0)
    }

    /// `MPI_COMM_SELF`.
    pub(crate) fn only(me: ProcessId) -> Self {
        Self::new(ContextId::new(me, 1), Group::single(me), 0)
    }

    pub(crate) fn new(context: ContextId, group: Group, rank: Rank) -> Self {
        let peers = group.clone();
        Self { context, peers, group, rank, sides: None, collective_count: 0, persistent_count: 0 }
    }

    /// An inter-communicator of two groups, which must have no process in common.
    pub(crate) fn inter(
        context: ContextId,
        (group, rank): (Group, Rank),
        remote: Group,
        is_first: bool,
    ) -> Result<Self, Error> {
        let (first, second) = if is_first { (&group, &remote) } else { (&remote, &group) };
        let members = Group::from_members(first.iter().chain(second.iter()).collect())?;
        let sides = Some(Sides { is_first, members });
        Ok(Self { peers: remote, sides, ..Self::new(context, group, rank) })
    }

    /// One with the same members and another context.
    pub(crate) fn with_context(&self, context: ContextId) -> Self {
        Self { context, collective_count: 0, persistent_count: 0, ..self.clone() }
    }

    /// The matching space.
    #[inline]
    pub fn context(&self) -> ContextId {
        self.context
    }

    /// The members; of an inter-communicator those of the local group.
    #[inline]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The group that ranks of messages refer to: the members, or the remote group in an inter-communicator.
    #[inline]
    pub fn peers(&self) -> &Group {
        &self.peers
    }

    /// The remote group of an inter-communicator.
    #[inline]
    pub fn remote(&self) -> Option<&Group> {
        self.sides.as_ref().map(|_| &self.peers)
    }

    /// Whether it is an inter-communicator.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.sides.is_some()
    }

    /// Where this process stands in an inter-communicator.
    pub fn across(&self) -> Option<Across> {
        let Sides { is_first, .. } = *self.sides.as_ref()?;
        Some(Across { rank: self.rank, size: self.size(), remote_size: self.peers.size(), is_first })
    }

    /// All members, in the order in which collective operations number them.
    pub fn members(&self) -> &Group {
        self.sides.as_ref().map_or(&self.group, |sides| &sides.members)
    }

    /// This process' number among all members.
    pub(crate) fn number(&self) -> Rank {
        self.across().map_or(self.rank, |across| across.local(self.rank))
    }

    /// Our rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many members; of an inter-communicator those of the local group.
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
        let number = self.persistent_count % MEETING_TAGS_MAX as u32;
        self.persistent_count = self.persistent_count.wrapping_add(1);
        Tag::MIN + 1 + number as Tag
    }

    /// The tag of the messages between two leaders that make an inter-communicator with the user's `tag`.
    pub(crate) fn meeting_tag(tag: Tag) -> Tag {
        -2 - GROUP_TAGS_MAX - (tag & MEETING_TAGS_MAX)
    }

    /// The tag of a communicator's making by the members of a group, where the user gave `tag`.
    pub(crate) fn create_group_tag(tag: Tag) -> Tag {
        -1 - (tag & GROUP_TAGS_MAX)
    }
}

/// A place for a communicator.
enum Slot {
    Free,
    /// Context of a communicator being made.
    Reserved,
    Live(Communicator),
    /// Only agreements and local operations still work on it.
    Revoked(Communicator),
}

/// Who needs a place beside its owner.
#[derive(Default)]
struct Holds {
    /// What persistent requests have a share of.
    shared: Arc<()>,
    /// The communicator is freed: its place is free when nothing holds it.
    is_freed: bool,
}

impl Holds {
    fn any(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }
}

/// Keeps the id of a communicator from being used again: persistent requests of one that is freed still
/// start operations on it (MPI-5.0 §7.4.3).
#[derive(Clone, Debug)]
pub struct CommHold(#[expect(dead_code, reason = "only counted")] Arc<()>);

/// The communicators of a process, and the names of those that it will lead.
pub(crate) struct Communicators {
    me: ProcessId,
    slots: Vec<Slot>,
    /// By slot.
    holds: Vec<Holds>,
    next_context: u32,
    /// Contexts that were revoked before this process knew their communicators.
    early_revoked: BTreeSet<ContextId>,
    /// Communicators of such contexts whose members do not know yet.
    pub(crate) untold: Vec<CommId>,
}

/// Contexts kept that were revoked early. More are of no correct program.
const EARLY_REVOKED_MAX: usize = 1 << 10;

impl Communicators {
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub(crate) fn new(first: ProcessId, me: ProcessId, world_count: u32) -> Self {
        let predefined = [Communicator::world(first, me, world_count), Communicator::only(me)];
        let slots: Vec<Slot> = predefined.map(Slot::Live).into();
        let holds = slots.iter().map(|_| Holds::default()).collect();
        Self { me, slots, holds, next_context: 2, early_revoked: BTreeSet::new(), untold: Vec::new() }
    }

    #[inline]
    pub(crate) fn get(&self, comm: CommId) -> Result<&Communicator, Error> {
        match self.slots.get(comm.0 as usize) {
            Some(Slot::Live(communicator)) => Ok(communicator),
            Some(Slot::Revoked(_)) => Err(Error::Revoked),
            _ => Err(Error::Comm),
        }
    }

    pub(crate) fn get_mut(&mut self, comm: CommId) -> Result<&mut Communicator, Error> {
        match self.slots.get_mut(comm.0 as usize) {
            Some(Slot::Live(communicator)) => Ok(communicator),
            Some(Slot::Revoked(_)) => Err(Error::Revoked),
            _ => Err(Error::Comm),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Communicator> {
        self.slots.iter().zip(&self.holds).filter_map(|(slot, holds)| match slot {
            Slot::Live(communicator) if !holds.is_freed || holds.any() => Some(communicator),
            _ => None,
        })
    }

    /// Whether a process may send messages of this context: whether it is a member there. Messages of a freed
    /// communicator may come from any process.
    pub(crate) fn may_send(&self, process: ProcessId, context: ContextId) -> bool {
        let context = context.point_to_point();
        let found = self.iter().find(|comm| comm.context() == context);
        found.is_none_or(|comm| comm.peers().rank_of(process).is_some())
    }

    /// An id for a communicator that is about to be made.
    pub(crate) fn reserve(&mut self) -> CommId {
        let is_free =
            |(slot, holds): (&Slot, &Holds)| matches!(slot, Slot::Free) || (holds.is_freed && !holds.any());
        let found = self.slots.iter().zip(&self.holds).position(is_free);
        let at = found.unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.holds.push(Holds::default());
            self.slots.len() - 1
        });
        self.holds[at].is_freed = false;
        self.slots[at] = Slot::Reserved;
        CommId(at as u32)
    }

    /// Frees a communicator. Its place is used again when no persistent request holds it.
    pub(crate) fn free(&mut self, comm: CommId) {
        let at = comm.0 as usize;
        self.holds[at].is_freed = self.holds[at].any();
        if !self.holds[at].is_freed {
            self.slots[at] = Slot::Free;
        }
    }

    /// Holds a communicator.
    pub(crate) fn hold(&self, comm: CommId) -> Result<CommHold, Error> {
        self.holds.get(comm.0 as usize).map(|holds| CommHold(holds.shared.clone())).ok_or(Error::Comm)
    }

    pub(crate) fn is_reserved(&self, comm: CommId) -> bool {
        matches!(self.slots.get(comm.0 as usize), Some(Slot::Reserved))
    }

    /// Puts a communicator in its place, or leaves that free.
    pub(crate) fn fill(&mut self, comm: CommId, communicator: Option<Communicator>) {
        let slot = match communicator {
            Some(communicator) if self.early_revoked.remove(&communicator.context()) => {
                self.untold.push(comm);
                Slot::Revoked(communicator)
            }
            Some(communicator) => Slot::Live(communicator),
            None => Slot::Free,
        };
        self.slots[comm.0 as usize] = slot;
    }

    /// A communicator that may be revoked, and whether it is.
    pub(crate) fn get_any(&self, comm: CommId) -> Result<(&Communicator, bool), Error> {
        match self.slots.get(comm.0 as usize) {
            Some(Slot::Live(communicator)) => Ok((communicator, false)),
            Some(Slot::Revoked(communicator)) => Ok((communicator, true)),
            _ => Err(Error::Comm),
        }
    }

    /// The communicator of a context that may be revoked.
    pub(crate) fn find_any(&self, context: ContextId) -> Option<CommId> {
        let is_it = |slot: &Slot| match slot {
            Slot::Live(of) | Slot::Revoked(of) => of.context() == context,
            _ => false,
        };
        self.slots.iter().position(is_it).map(|at| CommId(at as u32))
    }

    /// Revokes a communicator; `None`: there is none, or it is revoked.
    pub(crate) fn revoke(&mut self, comm: CommId) -> Option<&Communicator> {
        let slot = self.slots.get_mut(comm.0 as usize)?;
        let Slot::Live(of) = slot else { return None };
        *slot = Slot::Revoked(of.clone());
        self.get_any(comm).ok().map(|(of, _)| of)
    }

    /// A context that this process does not know is revoked.
    pub(crate) fn revoke_early(&mut self, context: ContextId) {
        if self.early_revoked.len() == EARLY_REVOKED_MAX {
            self.early_revoked.pop_first();
        }
        self.early_revoked.insert(context);
    }

    /// The context of the next communicator that this process names.
    pub(crate) fn next_context(&self) -> ContextId {
        ContextId::new(self.me, self.next_context)
    }

    /// Names a communicator that this process leads.
    pub(crate) fn new_context(&mut self) -> ContextId {
        let context = self.next_context();
        self.next_context += 1;
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_that_are_revoked_early_are_kept_up_to_a_bound() {
        let mut comms = Communicators::new(ProcessId(0), ProcessId(0), 2);
        let contexts = (0..EARLY_REVOKED_MAX as u32 + 5).map(|counter| ContextId::new(ProcessId(1), counter));
        contexts.for_each(|context| comms.revoke_early(context));
        assert_eq!(comms.early_revoked.len(), EARLY_REVOKED_MAX);
        let last = ContextId::new(ProcessId(1), EARLY_REVOKED_MAX as u32 + 4);
        assert!(comms.early_revoked.contains(&last));
    }

    #[test]
    fn tags_for_the_making_of_communicators_meet_no_others() {
        let users = [0, 1, 2, 77, (1 << 29) - 1];
        let mut tags = BTreeSet::from([Tag::MIN]);
        for tag in users {
            assert!(tags.insert(Communicator::create_group_tag(tag)), "{tag}");
            assert!(tags.insert(Communicator::meeting_tag(tag)), "{tag}");
        }
        let mut of = Communicator::new(ContextId::WORLD, Group::world(1), 0);
        for _ in 0..5 {
            assert!(tags.insert(of.next_persistent_tag()));
        }
        of.persistent_count = MEETING_TAGS_MAX as u32 - 1;
        assert!(tags.insert(of.next_persistent_tag()), "the last of these");
        assert!(tags.iter().all(|tag| *tag < 0), "users have the others");
        // Those of groups are in one range, the others below it.
        let groups = |tag| (-1 - GROUP_TAGS_MAX..=-1).contains(&tag);
        for tag in [0, 1, GROUP_TAGS_MAX, Tag::MAX] {
            assert!(groups(Communicator::create_group_tag(tag)));
            let meeting = Communicator::meeting_tag(tag);
            assert!(!groups(meeting) && meeting > Tag::MIN + MEETING_TAGS_MAX, "{tag}: {meeting}");
        }
    }

    #[test]
    fn ranks_of_a_world_are_counted_from_its_first_process() {
        let comms = Communicators::new(ProcessId(40), ProcessId(42), 4);
        let world = comms.get(CommId::WORLD).unwrap();
        assert_eq!((world.rank(), world.group().process(2)), (2, Some(ProcessId(42))));
        assert_eq!(comms.find_any(world.context()), Some(CommId::WORLD));
    }

    #[test]
    fn a_freed_communicator_keeps_its_place_while_it_is_held() {
        let mut comms = Communicators::new(ProcessId(0), ProcessId(0), 2);
        let make = |comms: &mut Communicators| {
            let (comm, context) = (comms.reserve(), comms.new_context());
            comms.fill(comm, Some(Communicator::new(context, Group::world(2), 0)));
            (comm, context)
        };
        let (held, context) = make(&mut comms);
        let holds = [comms.hold(held).unwrap(), comms.hold(held).unwrap()];
        comms.free(held);
        for hold in holds {
            let (other, _) = make(&mut comms);
            assert_ne!(other, held);
            assert_eq!(comms.get(held).map(Communicator::context), Ok(context));
            drop(hold);
        }
        assert_eq!(make(&mut comms).0, held, "nobody holds it any more");
        assert_ne!(make(&mut comms).0, held, "it has been given away");
        assert!(comms.hold(CommId(99)).is_err());
    }

    #[test]
    fn a_revocation_reaches_a_freed_communicator_that_is_held() {
        for is_freed_first in [false, true] {
            let mut comms = Communicators::new(ProcessId(0), ProcessId(0), 2);
            let (comm, context) = (comms.reserve(), comms.new_context());
            comms.fill(comm, Some(Communicator::new(context, Group::world(2), 0)));
            let hold = comms.hold(comm).unwrap();
            if is_freed_first {
                comms.free(comm);
                assert!(comms.iter().any(|of| of.context() == context));
            }
            assert_eq!(comms.find_any(context), Some(comm));
            comms.revoke(comm).unwrap();
            if !is_freed_first {
                comms.free(comm);
            }
            assert_eq!(comms.get(comm).err(), Some(Error::Revoked));
            drop(hold);
            assert_eq!(comms.reserve(), comm);
        }
    }

    #[test]
    fn a_communicator_that_is_being_made_has_no_context() {
        let mut comms = Communicators::new(ProcessId(0), ProcessId(0), 2);
        comms.reserve();
        assert_eq!(comms.find_any(ContextId::new(ProcessId(1), 9)), None);
    }
}
