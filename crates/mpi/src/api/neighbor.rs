//! Chapter "neighbor": collective operations among neighbours (MPI-5.0 §8.6). As in `collective.rs`, each
//! function here serves every form of an operation.
//!
//! A neighbour `MPI_PROC_NULL`, which a grid has where it ends, has a place in the buffers. Nothing is read
//! or written there.

use crate::abi::*;
use crate::arguments::*;
use crate::collective::{Array, Mode, not_in_place, run};
use crate::datatype;
use crate::fault::{Fault, fault};
use crate::operation::Operation;
use crate::staging::{Staging, Way};
use crate::state::process;
use crate::topology::Neighborhood;
use ayatori_core::buffer::Buffer;
use ayatori_core::ids::Rank;
use std::ffi::c_void;

forms! {
    Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw
}

fn neighborhood(comm: MPI_Comm) -> Result<Neighborhood, Fault> {
    let process = process()?;
    let comm = process.comms.get(comm, "comm")?;
    let topology = comm.topology.as_ref().ok_or_else(|| {
        fault(
            MPI_ERR_TOPOLOGY,
            format_args!("argument comm has no topology, and so no process has neighbours"),
        )
    })?;
    Ok(topology.neighborhood(comm.rank()))
}

/// Where the block of a neighbour lies.
struct Place {
    count: MPI_Count,
    datatype: MPI_Datatype,
    /// From the buffer's address, in bytes.
    offset: isize,
}

/// Where the blocks of all neighbours lie.
struct Places<'a> {
    memory: *const c_void,
    name: &'static str,
    place: &'a dyn Fn(usize) -> Result<Place, Fault>,
}

impl Places<'_> {
    fn block(&self, staging: &mut Staging, way: Way, at: usize) -> Result<Buffer, Fault> {
        let Place { count, datatype, offset } = (self.place)(at)?;
        staging.buffer(way, self.memory.wrapping_byte_offset(offset), count, datatype, self.name)
    }

    fn check(&self) -> Result<(), Fault> {
        not_in_place(self.memory, self.name)
    }
}

/// Equal blocks one after the other.
fn in_a_row(
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &'static str,
) -> Result<impl Fn(usize) -> Result<Place, Fault>, Fault> {
    datatype::count(count, name)?;
    let extent_bytes = datatype::get(datatype, "datatype")?.layout.extent();
    Ok(move |at: usize| {
        let before = (at as isize).checked_mul(count as isize).and_then(|n| n.checked_mul(extent_bytes));
        let too_many = || fault(MPI_ERR_COUNT, format_args!("argument {name} ({count}) is too large"));
        Ok(Place { count, datatype, offset: before.ok_or_else(too_many)? })
    })
}

/// Blocks of one type anywhere, displacements in its extents.
fn anywhere(
    counts: Array,
    displs: Array,
    datatype: MPI_Datatype,
) -> Result<impl Fn(usize) -> Result<Place, Fault>, Fault> {
    let extent_bytes = datatype::get(datatype, "datatype")?.layout.extent();
    Ok(move |at: usize| {
        let offset = (displs.get("displs", at)? as isize).wrapping_mul(extent_bytes);
        Ok(Place { count: counts.get("counts", at)?, datatype, offset })
    })
}

/// Blocks of a type each, displacements in bytes.
fn of_types(counts: Array, displs: Array, types: In<MPI_Datatype>) -> impl Fn(usize) -> Result<Place, Fault> {
    move |at: usize| {
        let (count, datatype) = (counts.get("counts", at)?, types.get_at("types", at)?);
        Ok(Place { count, datatype, offset: displs.get("displs", at)? as isize })
    }
}

/// The blocks that come in, in the order in which those of one source match.
fn receives(
    staging: &mut Staging,
    hood: &Neighborhood,
    recv: &Places<'_>,
) -> Result<Vec<(Rank, Buffer)>, Fault> {
    recv.check()?;
    let sources = hood.matching.iter().filter_map(|at| Some((*at, hood.sources[*at]?)));
    sources.map(|(at, source)| Ok((source, recv.block(staging, Way::Out, at)?))).collect()
}

/// Runs an operation that sends each neighbour the same.
fn gathering(
    (sendbuf, sendcount, sendtype): (*const c_void, MPI_Count, MPI_Datatype),
    recv: &Places<'_>,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let hood = neighborhood(comm)?;
    not_in_place(sendbuf, "sendbuf")?;
    let mut staging = Staging::default();
    let send = staging.buffer(Way::In, sendbuf, sendcount, sendtype, "sendbuf")?;
    let receives = receives(&mut staging, &hood, recv)?;
    let sends = hood.destinations.iter().flatten().map(|destination| (*destination, send)).collect();
    run(comm, mode, Operation::Neighbor { sends, receives }, staging)
}

/// Runs an operation that sends each neighbour a block of its own.
fn exchanging(send: &Places<'_>, recv: &Places<'_>, comm: MPI_Comm, mode: Mode) -> Result<(), Fault> {
    let hood = neighborhood(comm)?;
    send.check()?;
    let mut staging = Staging::default();
    let destinations = hood.destinations.iter().enumerate();
    let destinations = destinations.filter_map(|(at, destination)| Some((at, (*destination)?)));
    let sends = destinations.map(|(at, to)| Ok((to, send.block(&mut staging, Way::In, at)?)));
    let sends = sends.collect::<Result<_, Fault>>()?;
    let receives = receives(&mut staging, &hood, recv)?;
    run(comm, mode, Operation::Neighbor { sends, receives }, staging)
}

/// MPI-5.0 §8.6.1
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let place = &in_a_row(recvcount, recvtype, "recvcount")?;
    let recv = Places { memory: recvbuf, name: "recvbuf", place };
    gathering((sendbuf, sendcount, sendtype), &recv, comm, mode)
}

/// MPI-5.0 §8.6.1
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn neighbor_allgatherv(
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
    let place = &anywhere(recvcounts, displs, recvtype)?;
    let recv = Places { memory: recvbuf, name: "recvbuf", place };
    gathering((sendbuf, sendcount, sendtype), &recv, comm, mode)
}

/// MPI-5.0 §8.6.2
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<(), Fault> {
    let place = &in_a_row(sendcount, sendtype, "sendcount")?;
    let send = Places { memory: sendbuf, name: "sendbuf", place };
    let place = &in_a_row(recvcount, recvtype, "recvcount")?;
    let recv = Places { memory: recvbuf, name: "recvbuf", place };
    exchanging(&send, &recv, comm, mode)
}

/// MPI-5.0 §8.6.2
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn neighbor_alltoallv(
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
    let place = &anywhere(sendcounts, sdispls, sendtype)?;
    let send = Places { memory: sendbuf, name: "sendbuf", place };
    let place = &anywhere(recvcounts, rdispls, recvtype)?;
    let recv = Places { memory: recvbuf, name: "recvbuf", place };
    exchanging(&send, &recv, comm, mode)
}

/// MPI-5.0 §8.6.2. Displacements count in bytes.
#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
pub(crate) fn neighbor_alltoallw(
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
    let place = &of_types(sendcounts, sdispls, sendtypes);
    let send = Places { memory: sendbuf, name: "sendbuf", place };
    let place = &of_types(recvcounts, rdispls, recvtypes);
    let recv = Places { memory: recvbuf, name: "recvbuf", place };
    exchanging(&send, &recv, comm, mode)
}
