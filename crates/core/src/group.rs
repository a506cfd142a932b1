//! Groups: ordered sets of processes (MPI-5.0 §7.3).

use crate::error::Error;
use crate::ids::{ProcessId, Rank};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An ordered set of processes. Cheap to clone; the world's group costs no memory per member, which is what
/// lets a simulator hold thousands of processes.
#[derive(Clone, Debug)]
pub struct Group(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// `first, first + stride, …`, `count` of them; `stride` ≥ 1.
    Range { first: u32, stride: u32, count: u32 },
    /// Anything else, with the inverse as (process, rank) sorted by process.
    List { members: Arc<[ProcessId]>, by_process: Arc<[(ProcessId, Rank)]> },
}

/// How two groups compare (`MPI_IDENT`, `MPI_SIMILAR`, `MPI_UNEQUAL`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// Same members, same order.
    Ident,
    /// Same members, another order.
    Similar,
    /// Different members.
    Unequal,
}

/// A triplet of `MPI_Group_range_incl`: ranks first, first + stride, … up to last.
pub type RangeTriplet = [i32; 3];

impl Group {
    /// No processes (`MPI_GROUP_EMPTY`).
    pub const EMPTY: Self = Self(Repr::Range { first: 0, stride: 1, count: 0 });

    /// Processes 0 … `count`-1.
    pub const fn world(count: u32) -> Self {
        Self(Repr::Range { first: 0, stride: 1, count })
    }

    /// `count` processes from `first` on.
    pub const fn consecutive(first: ProcessId, count: u32) -> Self {
        Self(Repr::Range { first: first.0, stride: 1, count })
    }

    /// One process.
    pub const fn single(process: ProcessId) -> Self {
        Self(Repr::Range { first: process.0, stride: 1, count: 1 })
    }

    /// The processes in the order given. They must be different from each other.
    pub fn from_members(members: Vec<ProcessId>) -> Result<Self, Error> {
        if let Some(range) = as_range(&members) {
            return Ok(Self(range));
        }
        let mut by_process: Vec<(ProcessId, Rank)> =
            members.iter().enumerate().map(|(rank, &process)| (process, rank as Rank)).collect();
        by_process.sort_unstable();
        if by_process.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Group);
        }
        Ok(Self(Repr::List { members: members.into(), by_process: by_process.into() }))
    }

    /// How many processes.
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Repr::Range { count, .. } => *count,
            Repr::List { members, .. } => members.len() as u32,
        }
    }

    /// The process of a rank.
    #[inline]
    pub fn process(&self, rank: Rank) -> Option<ProcessId> {
        match &self.0 {
            Repr::Range { first, stride, count } => (rank < *count).then(|| ProcessId(first + rank * stride)),
            Repr::List { members, .. } => members.get(rank as usize).copied(),
        }
    }

    /// The rank of a process, if it is a member.
    #[inline]
    pub fn rank_of(&self, process: ProcessId) -> Option<Rank> {
        match &self.0 {
            Repr::Range { first, stride, count } => {
                let distance = process.0.checked_sub(*first)?;
                let rank = distance / stride;
                (distance % stride == 0 && rank < *count).then_some(rank)
            }
            Repr::List { by_process, .. } => {
                by_process.binary_search_by_key(&process, |entry| entry.0).ok().map(|at| by_process[at].1)
            }
        }
    }

    /// The members in rank order.
    pub fn iter(&self) -> impl Iterator<Item = ProcessId> + '_ {
        (0..self.size()).filter_map(|rank| self.process(rank))
    }
}

/// The set operations of MPI-5.0 §7.3.2; each states the order of its result as the standard does.
impl Group {
    /// All of this group, then those of `other` that are not in it.
    pub fn union(&self, other: &Self) -> Self {
        self.filtered(|_| true, other.iter().filter(|&p| self.rank_of(p).is_none()))
    }

    /// Those of this group that are also in `other`, in this group's order.
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(|p| other.rank_of(p).is_some(), core::iter::empty())
    }

    /// Those of this group that are not in `other`, in this group's order.
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(|p| other.rank_of(p).is_none(), core::iter::empty())
    }

    fn filtered(&self, keep: impl Fn(ProcessId) -> bool, more: impl Iterator<Item = ProcessId>) -> Self {
        let members = self.iter().filter(|&p| keep(p)).chain(more).collect();
        Self::from_members(members)
            .expect("members of groups are different, and those added are not in this one")
    }

    /// The processes of the given ranks, in that order (`MPI_Group_incl`).
    pub fn incl(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Self, Error> {
        let members = ranks.into_iter().map(|rank| self.checked(rank)).collect::<Result<_, _>>()?;
        Self::from_members(members).map_err(|_| Error::Argument("a rank is given twice"))
    }

    /// All but the given ranks, in this group's order (`MPI_Group_excl`).
    pub fn excl(&self, ranks: impl IntoIterator<Item = i32>) -> Result<Self, Error> {
        Ok(self.difference(&self.incl(ranks)?))
    }

    /// `MPI_Group_range_incl`.
    pub fn range_incl(&self, ranges: &[RangeTriplet]) -> Result<Self, Error> {
        self.incl(ranks_of_ranges(ranges)?)
    }

    /// `MPI_Group_range_excl`.
    pub fn range_excl(&self, ranges: &[RangeTriplet]) -> Result<Self, Error> {
        self.excl(ranks_of_ranges(ranges)?)
    }

    /// How this group compares to another.
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.iter().eq(other.iter()) {
            Comparison::Ident
        } else if self.iter().all(|p| other.rank_of(p).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    fn checked(&self, rank: i32) -> Result<ProcessId, Error> {
        let bad = Error::Rank { rank: rank.into(), size: self.size() };
        Rank::try_from(rank).ok().and_then(|rank| self.process(rank)).ok_or(bad)
    }
}

/// One after another, so that the first one beyond the group is an error before the next is made: a wrong
/// range may have billions.
fn ranks_of_ranges(ranges: &[RangeTriplet]) -> Result<impl Iterator<Item = i32>, Error> {
    if ranges.iter().any(|[_, _, stride]| *stride == 0) {
        return Err(Error::Argument("the stride of a range of ranks is 0"));
    }
    Ok(ranges.iter().flat_map(|range| {
        let [first, last, stride] = range.map(i64::from);
        let is_empty = (last - first) * stride < 0;
        let count = if is_empty { 0 } else { (last - first) / stride + 1 };
        (0..count).map(move |step| (first + step * stride) as i32)
    }))
}

fn as_range(members: &[ProcessId]) -> Option<Repr> {
    let count = u32::try_from(members.len()).ok()?;
    let first = members.first().map_or(0, |p| p.0);
    let stride = match members {
        [] | [_] => 1,
        [a, b, ..] => b.0.checked_sub(a.0).filter(|&stride| stride > 0)?,
    };
    members.windows(2).all(|w| w[1].0.checked_sub(w[0].0) == Some(stride)).then_some(Repr::Range {
        first,
        stride,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn group(members: &[u32]) -> Group {
        Group::from_members(members.iter().map(|&p| ProcessId(p)).collect()).unwrap()
    }

    fn ranks(ranges: &[RangeTriplet]) -> Result<Vec<i32>, Error> {
        ranks_of_ranges(ranges).map(Iterator::collect)
    }

    #[test]
    fn a_range_has_the_ranks_from_the_first_up_to_the_last() {
        for ([first, last, stride], expected) in [
            ([1, 7, 2], vec![1, 3, 5, 7]),
            ([1, 6, 2], vec![1, 3, 5]),
            ([7, 2, -2], vec![7, 5, 3]),
            ([3, 3, 1], vec![3]),
            ([3, 3, -4], vec![3]),
            // The last is on the other side of the first, however near.
            ([5, 4, 2], vec![]),
            ([4, 5, -2], vec![]),
            ([5, 0, 1], vec![]),
        ] {
            assert_eq!(ranks(&[[first, last, stride]]), Ok(expected), "{first} {last} {stride}");
        }
        assert_eq!(ranks(&[[0, 1, 1], [4, 3, 1], [9, 8, -1]]), Ok(vec![0, 1, 9, 8]));
        assert!(matches!(ranks(&[[0, 1, 0]]), Err(Error::Argument(_))));
    }

    #[test]
    fn a_range_far_beyond_the_group_ends_at_its_first_wrong_rank() {
        let group = group(&[3, 5]);
        let all = [0, i32::MAX, 1];
        for result in [group.range_incl(&[all; 100]), group.range_excl(&[all; 100])] {
            assert!(matches!(result, Err(Error::Rank { rank: 2, size: 2 })), "{result:?}");
        }
    }

    #[test]
    fn ranges_and_lists_answer_alike() {
        for members in [vec![3, 5, 7, 9], vec![4], vec![], vec![9, 2, 5]] {
            let g = group(&members);
            assert_eq!(g.size() as usize, members.len());
            for (rank, &p) in members.iter().enumerate() {
                assert_eq!(g.process(rank as u32), Some(ProcessId(p)));
                assert_eq!(g.rank_of(ProcessId(p)), Some(rank as u32));
            }
            for absent in [0, 1, 6, 11] {
                assert_eq!(g.rank_of(ProcessId(absent)), None);
            }
            assert_eq!(g.process(members.len() as u32), None);
        }
    }

    #[test]
    fn members_at_equal_distances_take_no_list() {
        let is_range = |members: &[u32]| matches!(group(members).0, Repr::Range { .. });
        assert!([&[][..], &[7], &[7, 8], &[3, 5, 7, 9]].into_iter().all(is_range));
        assert!(![&[9, 2, 5][..], &[5, 3], &[1, 2, 4], &[1, 3, 4]].into_iter().any(is_range));
    }

    #[test]
    fn set_operations_keep_the_standards_order() {
        let (a, b) = (group(&[5, 1, 3]), group(&[3, 4, 5]));
        assert_eq!(a.union(&b).compare(&group(&[5, 1, 3, 4])), Comparison::Ident);
        assert_eq!(a.intersection(&b).compare(&group(&[5, 3])), Comparison::Ident);
        assert_eq!(a.difference(&b).compare(&group(&[1])), Comparison::Ident);
        assert_eq!(group(&[1, 3, 5]).compare(&a), Comparison::Similar);
        assert_eq!(a.compare(&b), Comparison::Unequal);
    }

    #[test]
    fn ranges_of_ranks_go_both_ways_and_refuse_nonsense() {
        let g = Group::world(10);
        assert_eq!(
            g.range_incl(&[[8, 2, -3], [0, 1, 1]]).unwrap().compare(&group(&[8, 5, 2, 0, 1])),
            Comparison::Ident
        );
        assert_eq!(g.range_excl(&[[1, 9, 1]]).unwrap().compare(&group(&[0])), Comparison::Ident);
        assert!(g.range_incl(&[[0, 4, 0]]).is_err());
        assert!(g.incl([1, 1]).is_err());
        assert_eq!(g.incl([10]).unwrap_err(), Error::Rank { rank: 10, size: 10 });
    }
}
