//! Chapter "survive": going on without processes that have failed (`include/mpi-ext.h`; docs/survive.md). The
//! names and meanings are those of the user-level failure mitigation proposed for MPI, as Open MPI has them.

use crate::abi::*;
use crate::api::comm::{begin_part, finish_part};
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::group::DerivedGroup;
use crate::message;
use crate::runtime::wait::complete;
use crate::state::process;
use ayatori_core::buffer::Buffer;
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use std::ffi::{c_int, c_void};

/// The memory and the value of a flag.
fn flag_of(flag: InOut<c_int>) -> Result<(Buffer, u32), Fault> {
    let value = flag.get("flag")?;
    let memory =
        message::contiguous(std::ptr::with_exposed_provenance::<c_void>(flag.address()), 1, MPI_INT, "flag")?;
    Ok((memory, value.cast_unsigned()))
}

/// Gives a group of members, chosen by the core, to the caller.
fn give_members(
    comm: MPI_Comm,
    group: Out<MPI_Group>,
    choose: impl FnOnce(&mut ayatori_core::Process, CommId) -> Result<Group, ayatori_core::Error>,
) -> Result<(), Fault> {
    let mut process = process()?;
    let of = process.comms.get(comm, "comm")?;
    let (id, session) = (of.id(), of.session);
    let members = choose(&mut process.engine().core, id)?;
    let handle = process.groups.insert(DerivedGroup { members, session })?;
    group.set("group", handle)
}

/// Acknowledges the first failures known; how many are acknowledged.
fn acknowledge(comm: MPI_Comm, count: usize) -> Result<usize, Fault> {
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    Ok(process.engine().core.survivors().ack_failed(id, count)?)
}

api! {
    /// Not collective. Operations on the communicator, pending and later ones, fail at all members with
    /// `MPIX_ERR_REVOKED`.
    fn MPIX_Comm_revoke(comm: MPI_Comm) on comm {
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        let engine = process.engine();
        engine.core.survivors().revoke(id)?;
        // The caller may compute from here on.
        engine.core.poll_transmit(&mut engine.device);
        Ok(())
    }

    /// Local: whether this process has heard of it. Who asks in a loop hears of it.
    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) on comm {
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        process.progress();
        flag.set("flag", process.engine().core.survivors().is_revoked(id)?.into())
    }

    /// A communicator of the members that live: the same group at all of them, in the old order.
    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        let started = {
            let mut process = process()?;
            let id = process.comms.get(comm, "comm")?.id();
            let engine = process.engine();
            engine.core.survivors().ishrink(id)?
        };
        newcomm.set("newcomm", finish_part(comm, Some(started))?)
    }

    /// The same, without waiting: the communicator may be used once the request is over.
    fn MPIX_Comm_ishrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        let engine = process.engine();
        let started = engine.core.survivors().ishrink(id)?;
        engine.core.poll_transmit(&mut engine.device);
        let (made, handle) = begin_part(&mut process, comm, started)?;
        newcomm.set("newcomm", made)?;
        request.set("request", handle)
    }

    /// The bitwise *and* of the flags of those that live, the same at all; also the error is the same:
    /// `MPIX_ERR_PROC_FAILED` if there are failures that not all have acknowledged.
    fn MPIX_Comm_agree(comm: MPI_Comm, flag: InOut<c_int>) on comm {
        let (memory, value) = flag_of(flag)?;
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        let engine = process.engine();
        let posted = engine.core.survivors().iagree(id, value, memory)?;
        complete(process, posted, comm).map(drop)
    }

    /// The same, without waiting.
    fn MPIX_Comm_iagree(comm: MPI_Comm, flag: InOut<c_int>, request: Out<MPI_Request>) on comm {
        let (memory, value) = flag_of(flag)?;
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        let engine = process.engine();
        let posted = engine.core.survivors().iagree(id, value, memory)?;
        engine.core.poll_transmit(&mut engine.device);
        let handle = process.new_request(posted, comm)?;
        request.set("request", handle)
    }

    /// The members that this process knows to have failed, of both groups if there are two. The group is the
    /// caller's to free.
    fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        give_members(comm, failedgrp, |core, id| core.survivors().failed_members(id))
    }

    /// Acknowledges the first `num_to_ack` of them: they no longer make agreements fail, nor interrupt
    /// receives from any source.
    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) on comm {
        let count = usize::try_from(num_to_ack)
            .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument num_to_ack ({num_to_ack}) is negative")))?;
        num_acked.set("num_acked", acknowledge(comm, count)? as c_int)
    }

    /// The older form: acknowledges all.
    fn MPIX_Comm_failure_ack(comm: MPI_Comm) on comm {
        acknowledge(comm, usize::MAX).map(drop)
    }

    /// The older form: those that are acknowledged.
    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        give_members(comm, failedgrp, |core, id| core.survivors().acknowledged_members(id))
    }
}
