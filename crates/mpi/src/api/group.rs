//! Chapter "group": ordered sets of processes (MPI-5.0 §7.3). All of it is local.

use super::comm::comparison;
use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::group::DerivedGroup;
use crate::state::process;
use ayatori_core::group::Group;
use std::ffi::c_int;

/// Puts a group into the table, an empty one as the predefined handle, and its handle into `newgroup`.
pub(crate) fn give(group: impl Into<DerivedGroup>, newgroup: Out<MPI_Group>) -> Result<(), Fault> {
    let group = group.into();
    let handle = match group.size() {
        0 => MPI_GROUP_EMPTY,
        _ => process()?.groups.insert(group)?,
    };
    newgroup.set("newgroup", handle)
}

fn combine(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: Out<MPI_Group>,
    operation: impl FnOnce(&Group, &Group) -> Group,
) -> Result<(), Fault> {
    let group = {
        let process = process()?;
        let (first, second) = (process.groups.get(group1, "group1")?, process.groups.get(group2, "group2")?);
        DerivedGroup { members: operation(first, second), session: first.session.or(second.session) }
    };
    give(group, newgroup)
}

fn select(
    group: MPI_Group,
    newgroup: Out<MPI_Group>,
    selection: impl FnOnce(&Group) -> Result<Group, ayatori_core::Error>,
) -> Result<(), Fault> {
    let selected = {
        let process = process()?;
        let group = process.groups.get(group, "group")?;
        DerivedGroup { members: selection(group)?, session: group.session }
    };
    give(selected, newgroup)
}

api! {
    /// MPI-5.0 §7.3.1
    fn MPI_Group_size(group: MPI_Group, size: Out<c_int>) {
        let count = process()?.groups.get(group, "group")?.size();
        size.set("size", count as c_int)
    }

    /// MPI_UNDEFINED where this process is not a member.
    fn MPI_Group_rank(group: MPI_Group, rank: Out<c_int>) {
        let process = process()?;
        let own = process.groups.get(group, "group")?.rank_of(process.id());
        rank.set("rank", own.map_or(MPI_UNDEFINED, |rank| rank as c_int))
    }

    /// MPI_PROC_NULL stays, a process that is not in the second group becomes MPI_UNDEFINED.
    fn MPI_Group_translate_ranks(
        group1: MPI_Group,
        n: c_int,
        ranks1: In<c_int>,
        group2: MPI_Group,
        ranks2: Out<c_int>,
    ) {
        let ranks = ranks1.to_vec("ranks1", n)?;
        let process = process()?;
        let (from, to) = (process.groups.get(group1, "group1")?, process.groups.get(group2, "group2")?);
        let translate = |&rank: &c_int| {
            if rank == MPI_PROC_NULL {
                return Ok(MPI_PROC_NULL);
            }
            let member = u32::try_from(rank).ok().and_then(|rank| from.process(rank)).ok_or_else(|| {
                let size = from.size();
                fault(MPI_ERR_RANK, format_args!("argument ranks1 has rank {rank}, group1 has {size} processes"))
            })?;
            Ok(to.rank_of(member).map_or(MPI_UNDEFINED, |rank| rank as c_int))
        };
        let translated = ranks.iter().map(translate).collect::<Result<Vec<_>, Fault>>()?;
        ranks2.set_all("ranks2", &translated)
    }

    /// MPI-5.0 §7.3.1
    fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) {
        let process = process()?;
        let (first, second) = (process.groups.get(group1, "group1")?, process.groups.get(group2, "group2")?);
        result.set("result", comparison(first.compare(second)))
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        combine(group1, group2, newgroup, Group::union)
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        combine(group1, group2, newgroup, Group::intersection)
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        combine(group1, group2, newgroup, Group::difference)
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_incl(group: MPI_Group, n: c_int, ranks: In<c_int>, newgroup: Out<MPI_Group>) {
        let ranks = ranks.to_vec("ranks", n)?;
        select(group, newgroup, |group| group.incl(ranks))
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_excl(group: MPI_Group, n: c_int, ranks: In<c_int>, newgroup: Out<MPI_Group>) {
        let ranks = ranks.to_vec("ranks", n)?;
        select(group, newgroup, |group| group.excl(ranks))
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: InOut<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let ranges = In::from(ranges).to_vec("ranges", n)?;
        select(group, newgroup, |group| group.range_incl(&ranges))
    }

    /// MPI-5.0 §7.3.2
    fn MPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: InOut<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let ranges = In::from(ranges).to_vec("ranges", n)?;
        select(group, newgroup, |group| group.range_excl(&ranges))
    }

    /// MPI_GROUP_EMPTY may be freed: functions return it as their result.
    fn MPI_Group_free(group: InOut<MPI_Group>) {
        match group.get("group")? {
            MPI_GROUP_EMPTY => {}
            handle => drop(process()?.groups.remove(handle, "group")?),
        }
        group.set("group", MPI_GROUP_NULL)
    }
}
