//! Chapter "collective" (MPI-5.0 §6).
//!
//! Each function here serves every form of an operation: blocking, non-blocking and persistent, with small
//! and large counts. The C functions are made by build.rs from `forms!` and the table of the ABI; they widen
//! counts and say which form was called.

use crate::abi::*;
use crate::arguments::*;
use crate::collective::{
    Array, Each, Mode, is_in_place, not_in_place, operand_or_in_place, or_in_place, place, run, shape,
    uniform,
};
use crate::fault::{Fault, fault};
use crate::op;
use crate::operation::{NO_PART, Operation, Parts};
use crate::staging::{Staging, Way};
use crate::state;
use ayatori_core::buffer::Buffer;
use ayatori_core::op::Reducer;
use std::ffi::{c_int, c_void};

forms! {
    Barrier Bcast
    Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv Alltoallw
    Reduce Allreduce Reduce_scatter Reduce_scatter_block Scan Exscan
}

/// MPI-5.0 §6.3
pub(crate) fn barrier(comm: MPI_Comm, mode: Mode) -> Result<(), Fault> {
    run(comm, mode, Operation::Barrier, Staging::default())
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
    let at = place(comm)?;
    let root = at.root(root)?;
    let mut staging = Staging::default();
    let way = if at.is_root(root) { Way::In } else { Way::Out };
    let buffer = match root {
        NO_PART => Buffer::EMPTY,
        _ => {
            not_in_place(memory, "buffer")?;
            staging.buffer(way, memory, count, datatype, "buffer")?
        }
    };
    run(comm, mode, Operation::Bcast { buffer, root }, staging)
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
    let send = (sendbuf, sendcount, sendtype);
    gathering(send, root, comm, mode, true, |staging, way, size| {
        not_in_place(recvbuf, "recvbuf")?;
        uniform((staging, way), recvbuf, recvcount, recvtype, size, "recvbuf")
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
    let send = (sendbuf, sendcount, sendtype);
    gathering(send, root, comm, mode, false, |staging, way, size| {
        not_in_place(recvbuf, "recvbuf")?;
        Each { memory: recvbuf, counts: recvcounts, displs, name: "recvbuf" }.of(
            (staging, way),
            recvtype,
            size,
        )
    })
}

fn gathering(
    (sendbuf, sendcount, sendtype): (*const c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
    is_uniform: bool,
    recv: impl FnOnce(&mut Staging, Way, u32) -> Result<Parts, Fault>,
) -> Result<(), Fault> {
    let at = place(comm)?;
    let root = at.root(root)?;
    let mut staging = Staging::default();
    let send = match at.has_part(root) {
        true => or_in_place(&mut staging, sendbuf, sendcount, sendtype, "sendbuf")?,
        false => None,
    };
    if send.is_none() && at.has_part(root) && (at.is_inter || !at.is_root(root)) {
        not_in_place(sendbuf, "sendbuf")?;
    }
    let way = Way::of_result(send.is_none() && !at.is_inter);
    let recv = if at.is_root(root) { Some(recv(&mut staging, way, at.block_count)?) } else { None };
    run(comm, mode, Operation::Gather { send, recv, root, is_uniform }, staging)
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
    scattering((recvbuf, recvcount, recvtype), root, comm, mode, true, |staging, size| {
        not_in_place(sendbuf, "sendbuf")?;
        uniform((staging, Way::In), sendbuf, sendcount, sendtype, size, "sendbuf")
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
    scattering((recvbuf, recvcount, recvtype), root, comm, mode, false, |staging, size| {
        not_in_place(sendbuf, "sendbuf")?;
        let send = Each { memory: sendbuf, counts: sendcounts, displs, name: "sendbuf" };
        send.of((staging, Way::In), sendtype, size)
    })
}

fn scattering(
    (recvbuf, recvcount, recvtype): (*mut c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
    mode: Mode,
    is_uniform: bool,
    send: impl FnOnce(&mut Staging, u32) -> Result<Parts, Fault>,
) -> Result<(), Fault> {
    let at = place(comm)?;
    let root = at.root(root)?;
    let mut staging = Staging::default();
    let recv = match !at.has_part(root) || is_in_place(recvbuf) {
        true => None,
        false => Some(staging.buffer(Way::Out, recvbuf, recvcount, recvtype, "recvbuf")?),
    };
    if recv.is_none() && at.has_part(root) && (at.is_inter || !at.is_root(root)) {
        not_in_place(recvbuf, "recvbuf")?;
    }
    let send = if at.is_root(root) { Some(send(&mut staging, at.block_count)?) } else { None };
    run(comm, mode, Operation::Scatter { send, recv, root, is_uniform }, staging)
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
    let at = place(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let way = Way::of_result(is_in_place(sendbuf));
    let recv = uniform((&mut staging, way), recvbuf, recvcount, recvtype, at.block_count, "recvbuf")?;
    let send = or_in_place(&mut staging, sendbuf, sendcount, sendtype, "sendbuf")?;
    run(comm, mode, Operation::Allgather { send, recv }, staging)
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
    let at = place(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let way = Way::of_result(is_in_place(sendbuf));
    let recv = Each { memory: recvbuf, counts: recvcounts, displs, name: "recvbuf" };
    let recv = recv.of((&mut staging, way), recvtype, at.block_count)?;
    let send = or_in_place(&mut staging, sendbuf, sendcount, sendtype, "sendbuf")?;
    run(comm, mode, Operation::Allgather { send, recv }, staging)
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
    let at = place(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let way = Way::of_result(is_in_place(sendbuf));
    let recv = uniform((&mut staging, way), recvbuf, recvcount, recvtype, at.block_count, "recvbuf")?;
    let send = match is_in_place(sendbuf) {
        true => None,
        false => {
            Some(uniform((&mut staging, Way::In), sendbuf, sendcount, sendtype, at.block_count, "sendbuf")?)
        }
    };
    run(comm, mode, Operation::Alltoall { send, recv }, staging)
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
    let at = place(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let way = Way::of_result(is_in_place(sendbuf));
    let recv = Each { memory: recvbuf, counts: recvcounts, displs: rdispls, name: "recvbuf" };
    let recv = recv.of((&mut staging, way), recvtype, at.block_count)?;
    let send = Each { memory: sendbuf, counts: sendcounts, displs: sdispls, name: "sendbuf" };
    let send = match is_in_place(sendbuf) {
        true => None,
        false => Some(send.of((&mut staging, Way::In), sendtype, at.block_count)?),
    };
    run(comm, mode, Operation::Alltoall { send, recv }, staging)
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
    let at = place(comm)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
    let recv = Each { memory: recvbuf, counts: recvcounts, displs: rdispls, name: "recvbuf" };
    let mut staging = Staging::default();
    let way = Way::of_result(is_in_place(sendbuf));
    let recv = recv.of_types((&mut staging, way), recvtypes, at.block_count)?;
    let send = Each { memory: sendbuf, counts: sendcounts, displs: sdispls, name: "sendbuf" };
    let send = match is_in_place(sendbuf) {
        true => None,
        false => Some(send.of_types((&mut staging, Way::In), sendtypes, at.block_count)?),
    };
    run(comm, mode, Operation::Alltoall { send, recv }, staging)
}

/// An operation with a datatype. A function of the user's runs inside of a call that has the process locked.
fn bound(op: MPI_Op, datatype: MPI_Datatype) -> Result<Reducer, Fault> {
    op::reducer(op, datatype, |function| state::gate().reduce(function))
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
    let at = place(comm)?;
    let root = at.root(root)?;
    if root == NO_PART {
        // No other argument means anything, and nothing is done: as in a broadcast.
        return run(comm, mode, Operation::Bcast { buffer: Buffer::EMPTY, root }, Staging::default());
    }
    let reducer = bound(op, datatype)?;
    let mut staging = Staging::default();
    let send = match at.has_part(root) {
        true => operand_or_in_place(&mut staging, sendbuf, count, datatype, "sendbuf")?,
        false => None,
    };
    let recv = if at.is_root(root) {
        not_in_place(recvbuf, "recvbuf")?;
        let way = Way::of_result(send.is_none() && !at.is_inter);
        Some(staging.operand(way, recvbuf, count, datatype, "recvbuf")?)
    } else {
        if at.has_part(root) {
            not_in_place(sendbuf, "sendbuf")?;
        }
        None
    };
    run(comm, mode, Operation::Reduce { send, recv, reducer, root }, staging)
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
    let reducer = bound(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    place(comm)?.check_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let send = operand_or_in_place(&mut staging, sendbuf, count, datatype, "sendbuf")?;
    let recv = staging.operand(Way::of_result(send.is_none()), recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Allreduce { send, recv, reducer }, staging)
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
    let size = place(comm)?.size as usize;
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
    let counts = vec![recvcount; place(comm)?.size as usize];
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
    let at = place(comm)?;
    let reducer = bound(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    at.check_in_place(sendbuf, "sendbuf")?;
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
    let mut staging = Staging::default();
    let send = operand_or_in_place(&mut staging, sendbuf, all, datatype, "sendbuf")?;
    let own = if send.is_some() { counts[at.rank as usize] } else { all };
    let recv = staging.operand(Way::of_result(send.is_none()), recvbuf, own, datatype, "recvbuf")?;
    run(comm, mode, Operation::ReduceScatter { send, recv, counts_bytes, reducer }, staging)
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
    shape(comm)?;
    let reducer = bound(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let mut staging = Staging::default();
    let send = operand_or_in_place(&mut staging, sendbuf, count, datatype, "sendbuf")?;
    let recv = staging.operand(Way::of_result(send.is_none()), recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Scan { send, recv, reducer }, staging)
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
    shape(comm)?;
    let reducer = bound(op, datatype)?;
    not_in_place(recvbuf, "recvbuf")?;
    let mut staging = Staging::default();
    let send = operand_or_in_place(&mut staging, sendbuf, count, datatype, "sendbuf")?;
    let recv = staging.operand(Way::InOut, recvbuf, count, datatype, "recvbuf")?;
    run(comm, mode, Operation::Exscan { send, recv, reducer }, staging)
}
