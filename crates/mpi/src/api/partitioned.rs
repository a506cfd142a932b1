//! Chapter "partitioned": messages whose parts become ready one by one (MPI-5.0 §4.2). They are requests of
//! the core, which sends each part as soon as it is ready; the two sides may have other numbers of
//! partitions.

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::message::{Data, data, destination, source, tag};
use crate::runtime::machine::Machine;
use crate::runtime::sleepers::tell_resting;
use crate::runtime::wait::found_nothing;
use crate::state::{Process, process};
use ayatori_core::ids::{CommId, RequestId, Source};
use std::ffi::{c_int, c_void};

/// The memory of all partitions, and how many there are.
fn partitions(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(Data, u32), Fault> {
    let parts_count = u32::try_from(partitions)
        .map_err(|_| fault(MPI_ERR_ARG, format_args!("argument partitions is negative ({partitions})")))?;
    crate::datatype::count(count, "count")?;
    let all = count.checked_mul(partitions.into()).ok_or_else(|| {
        fault(
            MPI_ERR_COUNT,
            format_args!("argument count ({count}) is too large for {partitions} partitions"),
        )
    })?;
    Ok((data(buf, all, datatype, "buf")?, parts_count))
}

/// Makes a request on a communicator.
fn init(
    comm: MPI_Comm,
    info: MPI_Info,
    request: Out<MPI_Request>,
    make: impl FnOnce(&mut Machine, CommId) -> Result<RequestId, ayatori_core::Error>,
) -> Result<(), Fault> {
    if info != MPI_INFO_NULL {
        crate::info::with(info, |_| Ok(()))?;
    }
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    let made = make(process.engine(), id)?;
    let handle = process.core_request(made, comm)?;
    request.set("request", handle)
}

#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
fn psend_init(
    buf: *const c_void,
    parts: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag_given: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let (data, parts_count) = partitions(buf, parts, count, datatype)?;
    let to = (destination(dest)?, tag(tag_given)?);
    init(comm, info, request, |machine, comm| {
        machine.core.psend_init(&mut machine.device, comm, data, parts_count, to)
    })
}

#[allow(clippy::too_many_arguments, reason = "the standard's arguments")]
fn precv_init(
    buf: *mut c_void,
    parts: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag_given: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let (data, parts_count) = partitions(buf, parts, count, datatype)?;
    let Source::Rank(rank) = source(dest)? else {
        return Err(fault(MPI_ERR_RANK, format_args!("argument dest cannot be MPI_ANY_SOURCE here")));
    };
    let from = (rank, tag(tag_given)?);
    init(comm, info, request, |machine, comm| {
        machine.core.precv_init(&mut machine.device, comm, data, parts_count, from)
    })
}

/// The core's request behind the handle of a partitioned one.
fn partitioned(process: &mut Process, request: MPI_Request) -> Result<RequestId, Fault> {
    process.core_id(request, "request")?.ok_or_else(|| {
        fault(MPI_ERR_REQUEST, format_args!("argument request is not a request of partitioned communication"))
    })
}

/// Marks partitions ready, in turn.
fn ready(request: MPI_Request, parts: impl IntoIterator<Item = Result<c_int, Fault>>) -> Result<(), Fault> {
    let mut process = process()?;
    let id = partitioned(&mut process, request)?;
    let comm = process.comm_of(request);
    for part in parts {
        let part = part?;
        // A negative one is none of them, as is one that is too large.
        let number = u32::try_from(part).unwrap_or(u32::MAX);
        let Machine { core, device, .. } = process.engine();
        core.pready(device, id, number).map_err(|error| wrong_part(error, part, "send").on(comm))?;
    }
    // Another thread may wait for the request.
    tell_resting();
    Ok(())
}

/// The error of a call for a partition.
#[cold]
fn wrong_part(error: ayatori_core::Error, part: c_int, which: &str) -> Fault {
    match error {
        ayatori_core::Error::Request => fault(
            MPI_ERR_REQUEST,
            format_args!("argument request is not an active partitioned {which}: call MPI_Start first"),
        ),
        error => fault(MPI_ERR_ARG, format_args!("partition {part}: {error}")),
    }
}

api! {
    /// MPI-5.0 §4.2.1: the count is an `MPI_Count` here, too.
    fn MPI_Psend_init(
        buf: *const c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        info: MPI_Info,
        request: Out<MPI_Request>,
    ) on comm {
        psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request)
    }

    /// MPI-5.0 §4.2.1
    fn MPI_Psend_init_c(
        buf: *const c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        info: MPI_Info,
        request: Out<MPI_Request>,
    ) on comm {
        psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request)
    }

    /// MPI-5.0 §4.2.1: the count is an `MPI_Count` here, too.
    fn MPI_Precv_init(
        buf: *mut c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        info: MPI_Info,
        request: Out<MPI_Request>,
    ) on comm {
        precv_init(buf, partitions, count, datatype, dest, tag, comm, info, request)
    }

    /// MPI-5.0 §4.2.1
    fn MPI_Precv_init_c(
        buf: *mut c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        info: MPI_Info,
        request: Out<MPI_Request>,
    ) on comm {
        precv_init(buf, partitions, count, datatype, dest, tag, comm, info, request)
    }

    /// MPI-5.0 §4.2.2
    fn MPI_Pready(partition: c_int, request: MPI_Request) {
        ready(request, [Ok(partition)])
    }

    /// Both ends of the range are part of it.
    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        if partition_low > partition_high {
            let what = format_args!("argument partition_low ({partition_low}) is more than partition_high ({partition_high})");
            return Err(fault(MPI_ERR_ARG, what));
        }
        ready(request, (partition_low..=partition_high).map(Ok))
    }

    /// MPI-5.0 §4.2.2
    fn MPI_Pready_list(length: c_int, array_of_partitions: In<c_int>, request: MPI_Request) {
        if length < 0 {
            return Err(fault(MPI_ERR_ARG, format_args!("argument length is negative ({length})")));
        }
        ready(request, (0..length as usize).map(|at| array_of_partitions.get_at("array_of_partitions", at)))
    }

    /// A null or inactive request counts as arrived.
    fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) {
        if request == MPI_REQUEST_NULL {
            return flag.set("flag", 1);
        }
        let mut process = process()?;
        process.progress();
        let id = partitioned(&mut process, request)?;
        let comm = process.comm_of(request);
        let number = u32::try_from(partition).unwrap_or(u32::MAX);
        let has_arrived = process.engine().core.parrived(id, number);
        let has_arrived = has_arrived.map_err(|error| wrong_part(error, partition, "receive").on(comm))?;
        drop(process);
        if !has_arrived {
            found_nothing();
        }
        flag.set("flag", c_int::from(has_arrived))
    }
}
