//! The names of things: processes, ranks, rails, contexts, requests. All are plain integers with a type.

use crate::hash::splitmix64;
use core::fmt;

/// A process, the same number at all processes that can talk to it. Those of a world (what one launcher
/// started at once, `MPI_COMM_WORLD`) have consecutive numbers in the order of their ranks; where the first
/// is 0, the number is the rank there. Never relative to a communicator; that is [`Rank`]. Below 2^31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// A process' rank, always relative to some communicator or group.
pub type Rank = u32;

/// A message tag. Users' tags are 0 ..= [`TAG_UB`].
pub type Tag = i32;

/// The largest tag a user may give (`MPI_TAG_UB`).
pub const TAG_UB: Tag = i32::MAX;

/// Which source a receive takes messages from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// One rank of the communicator.
    Rank(Rank),
    /// `MPI_ANY_SOURCE`.
    Any,
}

/// Which tag a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagSelector {
    /// One tag.
    Tag(Tag),
    /// `MPI_ANY_TAG`.
    Any,
}

/// A physical path of a device, by index. A device has at most [`RailSet::RAILS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rail(pub u8);

/// A set of rails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RailSet(pub u32);

impl RailSet {
    /// How many rails a set can hold.
    pub const RAILS_MAX: u32 = u32::BITS;

    /// The set of just one rail.
    pub const fn one(rail: Rail) -> Self {
        Self(1 << rail.0)
    }

    /// Whether `rail` is in the set.
    pub const fn contains(self, rail: Rail) -> bool {
        self.0 & (1 << rail.0) != 0
    }

    /// Whether no rail is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rails in the set, lowest index first.
    pub fn iter(self) -> impl Iterator<Item = Rail> + Clone {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let rail = Rail(rest.trailing_zeros() as u8);
            rest &= rest - 1;
            Some(rail)
        })
    }
}

/// The matching space of a communicator, the same at all its members and different from that of every other
/// communicator a member has.
///
/// The process that leads a communicator's making names it: its own id above, a counter below. So making a
/// communicator needs one broadcast and no agreement, and two threads that make two at once cannot collide.
/// Bit 0 is 0 for point-to-point and 1 for collective traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ContextId(pub u64);

impl ContextId {
    /// `MPI_COMM_WORLD`'s, of a world whose processes are numbered from 0.
    pub const WORLD: Self = Self(0);

    /// Whether it is that of some world's `MPI_COMM_WORLD`.
    pub const fn is_world(self) -> bool {
        self.0 << 32 == 0
    }

    /// The `counter`-th context that `leader` makes; counter 0 is `MPI_COMM_WORLD`'s, 1 `MPI_COMM_SELF`'s.
    pub const fn new(leader: ProcessId, counter: u32) -> Self {
        Self(((leader.0 as u64) << 32) | ((counter as u64) << 1))
    }

    /// A space for the making of communicators by processes that share no communicator: that of a name they
    /// agree on. No process leads it: as a leader's id the half above is no process'.
    pub(crate) fn of_name(name: &[u8], members: impl Iterator<Item = ProcessId>) -> Self {
        // Members are told from bytes.
        const MEMBER: u64 = 1 << 32;
        let name = name.iter().map(|byte| u64::from(*byte));
        let words = name.chain(members.map(|member| MEMBER | u64::from(member.0)));
        let hash = words.fold(0, |hash, word| splitmix64(hash ^ word));
        Self(1 << 63 | hash | 1)
    }

    /// Whether it is a space for collective traffic.
    pub const fn is_collective(self) -> bool {
        self.0 & 1 != 0
    }

    /// The same communicator's space for the introductions of partitioned messages, which have the users'
    /// tags. It counts as collective: neither probes nor explanations of messages are concerned.
    pub const fn partitioned(self) -> Self {
        Self(self.0 | 1 << 63 | 1)
    }

    /// The same communicator's space for point-to-point traffic.
    pub const fn point_to_point(self) -> Self {
        Self(self.0 & !1)
    }

    /// The same communicator's space for collective traffic.
    pub const fn collective(self) -> Self {
        Self(self.0 | 1)
    }
}

/// A request of one [`Process`](crate::Process). The generation makes a stale or forged id harmless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    /// Slot in the process' table.
    pub index: u32,
    /// How often the slot had been used before.
    pub generation: u32,
}

/// A transfer of a long message. On no wire.
pub(crate) type TransferId = RequestId;

impl RequestId {
    /// As one word, for the wire and for handles.
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }

    /// Bits of a [`name`](Self::name).
    pub const NAME_BITS: u32 = 29;
    const NAME_INDEX_BITS: u32 = 22;

    /// A short name, for handles of 32 bits: the index and the last bits of the generation, so that an old
    /// name is found out unless its slot was used 128 times since. `None`: four million requests are alive.
    #[inline]
    pub const fn name(self) -> Option<u32> {
        let shifted = self.generation << Self::NAME_INDEX_BITS & ((1 << Self::NAME_BITS) - 1);
        if self.index >> Self::NAME_INDEX_BITS == 0 { Some(shifted | self.index) } else { None }
    }

    /// The slot that a name is about.
    #[inline]
    pub(crate) const fn index_of(name: u32) -> u32 {
        name & ((1 << Self::NAME_INDEX_BITS) - 1)
    }
}

/// A communicator of one [`Process`](crate::Process).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommId(pub u32);

impl CommId {
    /// `MPI_COMM_WORLD`: always there.
    pub const WORLD: Self = Self(0);
    /// `MPI_COMM_SELF`: always there.
    pub const SELF: Self = Self(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rail_set_lists_its_rails_in_order() {
        let set = RailSet(0b1000_0101);
        assert!(set.iter().eq([Rail(0), Rail(2), Rail(7)]));
        assert!(set.contains(Rail(2)) && !set.contains(Rail(1)));
        assert!(RailSet::default().is_empty());
    }

    #[test]
    fn contexts_of_different_leaders_and_kinds_differ() {
        let a = ContextId::new(ProcessId(3), 7);
        assert_ne!(a, ContextId::new(ProcessId(4), 7));
        assert_ne!(a, a.collective());
        assert_eq!(ContextId::new(ProcessId(0), 0), ContextId::WORLD);
    }

    #[test]
    fn contexts_of_other_names_or_members_differ_and_have_no_leader() {
        let of = |name: &[u8], members: &[u32]| {
            ContextId::of_name(name, members.iter().map(|member| ProcessId(*member)))
        };
        let names: [&[u8]; 6] = [b"", b"a", b"b", b"ab", b"ba", &[7]];
        let groups: [&[u32]; 7] = [&[], &[0], &[1], &[7], &[0, 1], &[1, 0], &[0, 1, 0]];
        let mut contexts = std::collections::BTreeSet::new();
        for name in names {
            for members in groups {
                let context = of(name, members);
                assert_eq!(context, of(name, members));
                assert!(context.0 >> 63 == 1 && context.is_collective(), "no process has such a number");
                assert!(contexts.insert(context), "{name:?} {members:?}");
            }
        }
    }
}
