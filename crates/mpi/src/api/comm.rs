//! Chapter "comm": communicators (MPI-5.0 §7.4, §7.8).

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::state::process;
use ayatori_core::group::Comparison;
use std::ffi::c_int;

/// The MPI constant of a comparison of groups.
pub(crate) fn comparison(result: Comparison) -> c_int {
    match result {
        Comparison::Ident => MPI_IDENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// A name an object is given, cut to what the standard lets objects have.
pub(crate) fn object_name(name: Text, argument: &str) -> Result<Vec<u8>, Fault> {
    let name = name.get(argument)?;
    Ok(name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec())
}

api! {
    /// MPI-5.0 §7.4.1
    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        let count = process()?.comms.get(comm, "comm")?.size();
        size.set("size", count as c_int)
    }

    /// MPI-5.0 §7.4.1
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        let own = process()?.comms.get(comm, "comm")?.rank();
        rank.set("rank", own as c_int)
    }

    /// Two handles of one communicator are identical, the same members in the same order congruent.
    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        let process = process()?;
        let (first, second) = (process.comms.get(comm1, "comm1")?, process.comms.get(comm2, "comm2")?);
        let value = match comparison(first.group().compare(second.group())) {
            _ if comm1 == comm2 => MPI_IDENT,
            MPI_IDENT => MPI_CONGRUENT,
            other => other,
        };
        result.set("result", value)
    }

    /// The group is the caller's to free.
    fn MPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        let mut process = process()?;
        let members = process.comms.get(comm, "comm")?.group().clone();
        let handle = process.groups.insert(members)?;
        group.set("group", handle)
    }

    /// MPI-5.0 §7.6.1
    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        process()?.comms.get(comm, "comm")?;
        flag.set("flag", 0)
    }

    /// An intracommunicator has no remote group.
    fn MPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        let _ = size;
        process()?.comms.get(comm, "comm")?;
        Err(fault(MPI_ERR_COMM, format_args!("argument comm is an intracommunicator")))
    }

    /// MPI-5.0 §7.8
    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        let name = object_name(comm_name, "comm_name")?;
        process()?.comms.get_mut(comm, "comm")?.name = name;
        Ok(())
    }

    /// MPI-5.0 §7.8
    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: OutText, resultlen: Out<c_int>) on comm {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            comm => process()?.comms.get(comm, "comm")?.name.clone(),
        };
        let length = comm_name.set("comm_name", &name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Hints the library does not know are ignored, so a program can be asked which were taken.
    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        process()?.comms.get(comm, "comm")?;
        let hints = crate::comm::known_hints(info)?;
        process()?.comms.get_mut(comm, "comm")?.take_hints(hints);
        Ok(())
    }

    /// The hints in use; the caller's to free.
    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        let info = process()?.comms.get(comm, "comm")?.info.clone();
        super::info::give(info, "info_used", info_used)
    }
}
