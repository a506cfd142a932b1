//! Chapter "collective" (MPI-5.0 §6).
//!
//! Each function here serves every form of an operation: blocking, non-blocking and persistent, with small and
//! large counts. The C functions are made by build.rs from `forms!` and the table of the ABI; they widen counts and
//! say which form was called.

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::collective::{
    Array, Each, Mode, Operation, Parts, is_in_place, not_in_place, or_in_place, run, shape, uniform,
};
use crate::message::buffer;
use crate::op;
use ayatori_core::ids::Rank;
use std::ffi::{c_int, c_void};

forms! {
    Barrier Bcast
    Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv Alltoallw
    Reduce Allreduce Reduce_scatter Reduce_scatter_block Scan Exscan
}

/// The root of an operation among `size` processes.
fn checked_root(root: c_int, size: u32) -> Result<Rank, Fault> {
    Rank::try_from(root).ok().filter(|rank| *rank < size).ok_or_else(|| {
        fault(
            MPI_ERR_ROOT,
            format_args!("argument root ({root}) is not a rank: the communicator has {size} processes"),
        )
    })
}

/// MPI-5.0 §6.3
pub(crate) fn barrier(comm: MPI_Comm, mode: Mode) -> Result<(), Fault> {
    run(comm, mode, Operation::Barrier)
}

/// MPI-5.0 §6.4
pub(crate) fn bcast(
    memory: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let root = checked_root(root, shape(comm)?.size)?;
    not_in_place(memory, "buffer")?;
    let buffer = buffer(memory, count, datatype, "buffer")?;
    run(comm, mode, Operation::Bcast { buffer, root })
}

/// What a gather or allgather sends: nothing extra where the block lies in the receive buffer already.
fn own_block(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
) -> Result<Option<ayatori_core::buffer::Buffer>, Fault> {
    or_in_place(sendbuf, sendcount, sendtype, "sendbuf")
}

/// MPI-5.0 §6.5. The receive arguments mean something at the root only.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    gathering(own_block(sendbuf, sendcount, sendtype)?, root, comm, mode, true, |size| {
        not_in_place(recvbuf, "recvbuf")?;
        uniform(recvbuf, recvcount, recvtype, size, "recvbuf")
    })
}

/// MPI-5.0 §6.5. The receive arguments mean something at the root only.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn gatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Array,
    displs: Array,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    gathering(own_block(sendbuf, sendcount, sendtype)?, root, comm, mode, false, |size| {
        not_in_place(recvbuf, "recvbuf")?;
        Each { memory: recvbuf, counts: recvcounts, displs, name: "recvbuf" }.of(recvtype, size)
    })
}

fn gathering(
    send: Option<ayatori_core::buffer::Buffer>,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
    is_uniform: bool,
    recv: impl FnOnce(u32) -> Result<Parts, Fault>,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    let root = checked_root(root, at.size)?;
    if send.is_none() && at.rank != root {
        not_in_place(std::ptr::without_provenance(MPI_IN_PLACE), "sendbuf")?;
    }
    let recv = if at.rank == root { Some(recv(at.size)?) } else { None };
    run(comm, mode, Operation::Gather { send, recv, root, is_uniform })
}

/// MPI-5.0 §6.6. The send arguments mean something at the root only.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let recv = or_in_place(recvbuf, recvcount, recvtype, "recvbuf")?;
    scattering(recv, root, comm, mode, true, |size| {
        not_in_place(sendbuf, "sendbuf")?;
        uniform(sendbuf, sendcount, sendtype, size, "sendbuf")
    })
}

/// MPI-5.0 §6.6. The send arguments mean something at the root only.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn scatterv(
    sendbuf: *const c_void,
    sendcounts: Array,
    displs: Array,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let recv = or_in_place(recvbuf, recvcount, recvtype, "recvbuf")?;
    scattering(recv, root, comm, mode, false, |size| {
        not_in_place(sendbuf, "sendbuf")?;
        Each { memory: sendbuf, counts: sendcounts, displs, name: "sendbuf" }.of(sendtype, size)
    })
}

fn scattering(
    recv: Option<ayatori_core::buffer::Buffer>,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
    is_uniform: bool,
    send: impl FnOnce(u32) -> Result<Parts, Fault>,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    let root = checked_root(root, at.size)?;
    if recv.is_none() && at.rank != root {
        not_in_place(std::ptr::without_provenance(MPI_IN_PLACE), "recvbuf")?;
    }
    let send = if at.rank == root { Some(send(at.size)?) } else { None };
    run(comm, mode, Operation::Scatter { send, recv, root, is_uniform })
}

/// MPI-5.0 §6.7
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    let recv = uniform(recvbuf, recvcount, recvtype, at.size, "recvbuf")?;
    run(comm, mode, Operation::Allgather { send: own_block(sendbuf, sendcount, sendtype)?, recv })
}

/// MPI-5.0 §6.7
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Array,
    displs: Array,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    let recv = Each { memory: recvbuf, counts: recvcounts, displs, name: "recvbuf" }.of(recvtype, at.size)?;
    run(comm, mode, Operation::Allgather { send: own_block(sendbuf, sendcount, sendtype)?, recv })
}

/// MPI-5.0 §6.8
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    let recv = uniform(recvbuf, recvcount, recvtype, at.size, "recvbuf")?;
    let send = match is_in_place(sendbuf) {
        true => None,
        false => Some(uniform(sendbuf, sendcount, sendtype, at.size, "sendbuf")?),
    };
    run(comm, mode, Operation::Alltoall { send, recv })
}

/// MPI-5.0 §6.8
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn alltoallv(
    sendbuf: *const c_void,
    sendcounts: Array,
    sdispls: Array,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Array,
    rdispls: Array,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    let recv = Each { memory: recvbuf, counts: recvcounts, displs: rdispls, name: "recvbuf" }
        .of(recvtype, at.size)?;
    let send = Each { memory: sendbuf, counts: sendcounts, displs: sdispls, name: "sendbuf" };
    let send = if is_in_place(sendbuf) { None } else { Some(send.of(sendtype, at.size)?) };
    run(comm, mode, Operation::Alltoall { send, recv })
}

/// MPI-5.0 §6.8. Displacements count in bytes.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn alltoallw(
    sendbuf: *const c_void,
    sendcounts: Array,
    sdispls: Array,
    sendtypes: In<MPI_Datatype>,
    recvbuf: *mut c_void,
    recvcounts: Array,
    rdispls: Array,
    recvtypes: In<MPI_Datatype>,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    let recv = Each { memory: recvbuf, counts: recvcounts, displs: rdispls, name: "recvbuf" };
    let recv = recv.of_types(recvtypes, at.size)?;
    let send = Each { memory: sendbuf, counts: sendcounts, displs: sdispls, name: "sendbuf" };
    let send = if is_in_place(sendbuf) { None } else { Some(send.of_types(sendtypes, at.size)?) };
    run(comm, mode, Operation::Alltoall { send, recv })
}

/// MPI-5.0 §6.9.1. The receive buffer means something at the root only.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    let root = checked_root(root, at.size)?;
    let reducer = op::reducer(op, datatype)?;
    let send = or_in_place(sendbuf, count, datatype, "sendbuf")?;
    let recv = if at.rank == root {
        not_in_place(recvbuf, "recvbuf")?;
        Some(buffer(recvbuf, count, datatype, "recvbuf")?)
    } else {
        not_in_place(sendbuf, "sendbuf")?;
        None
    };
    run(comm, mode, Operation::Reduce { send, recv, reducer, root })
}

/// MPI-5.0 §6.9.6
pub(crate) fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let reducer = op::reducer(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let send = or_in_place(sendbuf, count, datatype, "sendbuf")?;
    let recv = buffer(recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Allreduce { send, recv, reducer })
}

/// MPI-5.0 §6.10.2
pub(crate) fn reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Array,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let size = shape(comm)?.size as usize;
    let counts = (0..size).map(|rank| recvcounts.get("recvcounts", rank)).collect::<Result<Vec<_>, _>>()?;
    reduce_scattering(sendbuf, recvbuf, &counts, datatype, op, comm, mode)
}

/// MPI-5.0 §6.10.1
pub(crate) fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let counts = vec![recvcount; shape(comm)?.size as usize];
    reduce_scattering(sendbuf, recvbuf, &counts, datatype, op, comm, mode)
}

fn reduce_scattering(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    counts: &[MPI_Count],
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let at = shape(comm)?;
    let reducer = op::reducer(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let extent_bytes = reducer.extent_bytes();
    let too_many =
        || fault(MPI_ERR_COUNT, format_args!("argument recvcounts adds up to more than memory holds"));
    let mut all: MPI_Count = 0;
    let mut counts_bytes = Vec::with_capacity(counts.len());
    for count in counts {
        let elements = crate::datatype::count(*count, "recvcounts")?;
        counts_bytes.push(elements.checked_mul(extent_bytes).ok_or_else(too_many)?);
        all = all.checked_add(*count).ok_or_else(too_many)?;
    }
    let send = or_in_place(sendbuf, all, datatype, "sendbuf")?;
    let own = if send.is_some() { counts[at.rank as usize] } else { all };
    let recv = buffer(recvbuf, own, datatype, "recvbuf")?;
    run(comm, mode, Operation::ReduceScatter { send, recv, counts_bytes, reducer })
}

/// MPI-5.0 §6.11.1
pub(crate) fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let reducer = op::reducer(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let send = or_in_place(sendbuf, count, datatype, "sendbuf")?;
    let recv = buffer(recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Scan { send, recv, reducer })
}

/// MPI-5.0 §6.11.2. The receive buffer of rank 0 stays as it is.
pub(crate) fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let reducer = op::reducer(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let send = or_in_place(sendbuf, count, datatype, "sendbuf")?;
    let recv = buffer(recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Exscan { send, recv, reducer })
}
