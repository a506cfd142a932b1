//! Intercommunicators (MPI-5.0 §7.6). How one is made: the core's `collective/meet.rs`.

use super::{finish_making, finish_part, free, share_room};
use crate::abi::*;
use crate::arguments::*;
use crate::dynamic::acquaint::{acquaint, is_over_worlds};
use crate::fault::{Fault, fault};
use crate::group::DerivedGroup;
use crate::state::process;
use ayatori_core::ids::{CommId, Rank};
use ayatori_core::process::OtherLeader;
use std::ffi::c_int;

/// A leader's rank in a group of `size`.
pub(in crate::api) fn leader(rank: c_int, size: u32, name: &str) -> Result<Rank, Fault> {
    Rank::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        fault(MPI_ERR_RANK, format_args!("argument {name} ({rank}) is not a rank of a group of {size}"))
    })
}

/// The other leader, as the arguments at a leader name it.
fn other_leader(peer_comm: MPI_Comm, remote_leader: c_int, tag: c_int) -> Result<OtherLeader, Fault> {
    let tag = crate::message::tag(tag)?;
    let process = process()?;
    let peer = process.comms.get(peer_comm, "peer_comm")?;
    let rank = leader(remote_leader, peer.peer_count(), "remote_leader")?;
    Ok(OtherLeader { comm: peer.id(), rank, tag })
}

/// The core's name of an intracommunicator, and whether this process is its rank `leader`.
fn local_group(comm: MPI_Comm, local_leader: c_int) -> Result<(CommId, Rank, bool), Fault> {
    let process = process()?;
    let local = process.comms.get(comm, "local_comm")?;
    local.check_intra("local_comm")?;
    let leader = leader(local_leader, local.size(), "local_leader")?;
    Ok((local.id(), leader, local.rank() == leader))
}

api! {
    /// MPI-5.0 §7.6.1
    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        let is_inter = process()?.comms.get(comm, "comm")?.remote().is_some();
        flag.set("flag", is_inter.into())
    }

    /// MPI-5.0 §7.6.1
    fn MPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        let count = process()?.comms.get(comm, "comm")?.check_inter("comm")?.size();
        size.set("size", count as c_int)
    }

    /// The group is the caller's to free.
    fn MPI_Comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        let mut process = process()?;
        let inter = process.comms.get(comm, "comm")?;
        let (members, session) = (inter.check_inter("comm")?.clone(), inter.session);
        let handle = process.groups.insert(DerivedGroup { members, session })?;
        group.set("group", handle)
    }

    /// The arguments from `peer_comm` to `tag` mean something at the leaders only. A leader's wrong argument
    /// is reported to the leader and to its group.
    fn MPI_Intercomm_create(
        local_comm: MPI_Comm,
        local_leader: c_int,
        peer_comm: MPI_Comm,
        remote_leader: c_int,
        tag: c_int,
        newintercomm: Out<MPI_Comm>,
    ) on local_comm {
        let (id, leader, is_leader) = local_group(local_comm, local_leader)?;
        // A leader without another makes its group fail, too.
        let (other, wrong) = match is_leader.then(|| other_leader(peer_comm, remote_leader, tag)) {
            None => (None, None),
            Some(Ok(other)) => (Some(other), None),
            Some(Err(wrong)) => (None, Some(wrong)),
        };
        let started = {
            let mut process = process()?;
            let engine = process.engine();
            engine.core.collectives().icomm_inter(&mut engine.device, id, leader, other)?
        };
        let made = finish_part(local_comm, Some(started));
        let made = wrong.map_or(made, Err)?;
        if is_over_worlds(made)? {
            // The same two leaders, once more.
            let other = if is_leader { Some(other_leader(peer_comm, remote_leader, tag)?) } else { None };
            if let Err(fault) = acquaint(local_comm, leader, other) {
                free(made)?;
                return Err(fault);
            }
        }
        newintercomm.set("newintercomm", made)
    }

    /// The group that gives `high` comes second. If both give the same, the one whose leader has the lower
    /// rank in `MPI_COMM_WORLD` comes first.
    fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>) on intercomm {
        let (id, posted) = {
            let mut process = process()?;
            let inter = process.comms.get(intercomm, "intercomm")?;
            inter.check_inter("intercomm")?;
            let id = inter.id();
            let engine = process.engine();
            engine.core.collectives().icomm_merge(&mut engine.device, id, high != 0)?
        };
        finish_making(posted, intercomm)?;
        share_room(id, intercomm)?;
        let made = ayatori_core::request::Posted::Done(ayatori_core::request::Completion::EMPTY);
        newintracomm.set("newintracomm", finish_part(intercomm, Some((id, made)))?)
    }
}
