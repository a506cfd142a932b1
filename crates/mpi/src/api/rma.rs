//! Chapter "rma": one-sided communication (MPI-5.0 §12). Operations; windows and their memory are in
//! `rma/window.rs`, epochs in `rma/sync.rs`.
//!
//! Where all members of a window share its memory, an operation is done when the call returns: a copy, or an
//! accumulate under the lock of the target's memory, which all accumulates of such a window take (short ones
//! on plain elements: `rma/direct.rs`). Else it is the core's.

mod direct;
mod operands;
mod sync;
mod window;

pub(crate) use sync::*;
pub(crate) use window::*;

use crate::abi::*;
use crate::arguments::*;
use crate::datatype::Type;
use crate::fault::{Fault, fault};
use crate::message;
use crate::op;
use crate::request::SENT;
use crate::runtime::machine::Machine;
use crate::state::process;
use crate::win::Target;
use ayatori_core::buffer::Buffer;
use ayatori_core::datatype::Predefined;
use ayatori_core::op::Operation;
use ayatori_core::request::{Completion, Posted};
use ayatori_core::rma;
use ayatori_core::transfer::{Sink, Source};
use operands::{At, Elements};
use std::ffi::{c_int, c_void};

/// Where the request of an operation goes, if it has one.
type Wanted = Option<Out<MPI_Request>>;

/// Hands out what became of an operation.
fn give(posted: Posted, request: Wanted, win: MPI_Win) -> Result<(), Fault> {
    let Some(request) = request else {
        return match posted {
            Posted::Done(Completion { error: Some(error), .. }) => Err(error.into()),
            _ => Ok(()),
        };
    };
    let handle = match posted {
        Posted::Done(Completion { error: None, .. }) => SENT,
        // Its errors are the window's (MPI-5.0 §12.6), whose handle stands for a communicator's.
        posted => process()?.new_request(posted, MPI_Comm(win.0))?,
    };
    request.set("request", handle)
}

/// Returns the request of an operation that is complete or needs no wait.
#[inline(always)]
fn over(request: Wanted) -> Result<(), Fault> {
    request.map_or(Ok(()), |request| request.set("request", SENT))
}

/// Has the core do an operation.
fn in_core(
    operate: impl FnOnce(&mut Machine) -> Result<Posted, ayatori_core::Error>,
) -> Result<Posted, Fault> {
    let mut process = process()?;
    Ok(operate(process.engine())?)
}

#[inline(always)]
fn put(origin: Elements, at: At, request: Wanted) -> Result<(), Fault> {
    if direct::put(origin, at) { over(request) } else { put_any(origin, at, request) }
}

#[inline(never)]
fn put_any(origin: Elements, at: At, request: Wanted) -> Result<(), Fault> {
    let Some((target, _)) = at.target()? else { return over(request) };
    let data = origin.data("origin_addr")?;
    check_lengths(data.len(), &target)?;
    let source = Source::from(data);
    if let Some(direct) = &target.direct {
        direct.elements.copy_from(&source);
        return over(request);
    }
    let Target { id, rank, place, .. } = target;
    let posted = in_core(|Machine { core, device, .. }| {
        core.windows().put(device, (id, rank, place), source, request.is_some())
    })?;
    give(posted, request, at.win)
}

#[inline(always)]
fn get(origin: Elements, at: At, request: Wanted) -> Result<(), Fault> {
    if direct::get(origin, at, request.is_some()) { over(request) } else { get_any(origin, at, request) }
}

#[inline(never)]
fn get_any(origin: Elements, at: At, request: Wanted) -> Result<(), Fault> {
    let Some((target, _)) = at.target()? else { return over(request) };
    let data = origin.data("origin_addr")?;
    check_lengths(data.len(), &target)?;
    let sink = Sink::from(data);
    if let Some(direct) = target.direct {
        sink.copy_from(&direct.elements.into());
        return over(request);
    }
    let Target { id, rank, place, .. } = target;
    let posted = in_core(|Machine { core, device, .. }| {
        core.windows().get(device, (id, rank, place), sink, request.is_some())
    })?;
    give(posted, request, at.win)
}

fn check_lengths(origin_bytes: usize, target: &Target) -> Result<(), Fault> {
    let target_bytes = target.place.len()?;
    if origin_bytes != target_bytes {
        return Err(fault(
            MPI_ERR_TRUNCATE,
            format_args!("{origin_bytes} bytes at the origin and {target_bytes} at the target are to match"),
        ));
    }
    Ok(())
}

/// The operation of an accumulate and the basic type of its elements.
fn operation(op: MPI_Op, ty: &Type, is_empty: bool) -> Result<(Operation, Predefined), Fault> {
    let Some(operation) = op::predefined(op) else {
        // A bad handle is reported as such.
        op::is_commutative(op)?;
        return Err(fault(MPI_ERR_OP, format_args!("argument op is not a predefined operation")));
    };
    let name = operation.name();
    let basic = ty.signature.single();
    let basic = match operation {
        // They look at no values, or there are none.
        Operation::Replace | Operation::NoOp => basic.unwrap_or(Predefined::Byte),
        _ if is_empty => return Ok((Operation::NoOp, Predefined::Byte)),
        _ => basic.ok_or_else(|| {
            let what = format_args!(
                "argument target_datatype has elements of several basic types: {name} needs one"
            );
            fault(MPI_ERR_TYPE, what)
        })?,
    };
    rma::check_operation(operation, basic).map_err(|_| {
        fault(MPI_ERR_OP, format_args!("argument op: {name} is not defined on {}", basic.name()))
    })?;
    Ok((operation, basic))
}

/// All accumulates: `origin` is what is reduced into the target, `result` gets what was there.
#[inline(always)]
fn accumulate(
    origin: Elements,
    result: Option<Elements>,
    at: At,
    op: MPI_Op,
    request: Wanted,
) -> Result<(), Fault> {
    if direct::accumulate(origin, result, at, op, request.is_some()) {
        return over(request);
    }
    accumulate_any(origin, result, at, op, request)
}

#[inline(never)]
fn accumulate_any(
    origin: Elements,
    result: Option<Elements>,
    at: At,
    op: MPI_Op,
    request: Wanted,
) -> Result<(), Fault> {
    let Some((target, ty)) = at.target()? else { return over(request) };
    let what = operation(op, &ty, target.place.is_empty())?;
    let source = match what.0 {
        // Its origin is not looked at (MPI-5.0 §12.3.4).
        Operation::NoOp => None,
        _ => {
            let data = origin.data("origin_addr")?;
            check_lengths(data.len(), &target)?;
            Some(Source::from(data))
        }
    };
    let fetched = match result {
        None => None,
        Some(result) => {
            let data = result.data("result_addr")?;
            check_lengths(data.len(), &target)?;
            Some(Sink::from(data))
        }
    };
    if target.place.is_empty() {
        return over(request);
    }
    if let Some(direct) = &target.direct {
        let of = (&*direct.memory, target.rank);
        direct::accumulate_under_lock(of, &direct.elements, (source, fetched), what)?;
        return over(request);
    }
    let Target { id, rank, place, .. } = target;
    let posted = in_core(|Machine { core, device, .. }| {
        core.windows().accumulate(device, (id, rank, place), (source, fetched), what, request.is_some())
    })?;
    give(posted, request, at.win)
}

/// One element of a predefined type.
fn element(memory: *const c_void, datatype: MPI_Datatype, name: &str) -> Result<Buffer, Fault> {
    match message::data(memory, 1, datatype, name)? {
        message::Data::Contiguous(buffer) => Ok(buffer),
        message::Data::Scattered(_) => Err(fault(
            MPI_ERR_TYPE,
            format_args!("argument datatype has gaps: the call takes integers, logicals and bytes"),
        )),
    }
}

fn compare_and_swap(
    (origin, compare, result): (*const c_void, *const c_void, *const c_void),
    at: At,
) -> Result<(), Fault> {
    if direct::compare_and_swap((origin, compare, result), at).is_some() {
        return Ok(());
    }
    let Some((target, ty)) = at.target()? else { return Ok(()) };
    let basic = ty.predefined.filter(|basic| direct::is_swappable(*basic)).ok_or_else(|| {
        fault(
            MPI_ERR_TYPE,
            format_args!("argument datatype is not a predefined integer, logical or byte type"),
        )
    })?;
    let origin = element(origin, at.datatype, "origin_addr")?;
    let compare = element(compare, at.datatype, "compare_addr")?;
    let result = element(result, at.datatype, "result_addr")?;
    if let Some(direct) = &target.direct {
        let _locked = direct.memory.lock(target.rank as usize);
        return Ok(rma::compare_and_swap_in(&direct.elements, compare, origin, result)?);
    }
    let Target { id, rank, place, .. } = target;
    let mut process = process()?;
    let Machine { core, device, .. } = process.engine();
    Ok(core.windows().compare_and_swap(device, (id, rank, place), (compare, origin), result, basic)?)
}

/// Writes the functions whose forms differ in the width of counts.
macro_rules! operations {
    ($count:ty: $put:ident $get:ident $accumulate:ident $get_accumulate:ident
     $rput:ident $rget:ident $raccumulate:ident $rget_accumulate:ident) => {
        api! {
            /// MPI-5.0 §12.3.1
            fn $put(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                win: MPI_Win,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                put(origin, at, None)
            }

            /// MPI-5.0 §12.3.2
            fn $get(
                origin_addr: *mut c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                win: MPI_Win,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                get(origin, at, None)
            }

            /// MPI-5.0 §12.3.4
            fn $accumulate(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                op: MPI_Op, win: MPI_Win,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                accumulate(origin, None, at, op, None)
            }

            /// MPI-5.0 §12.3.4
            fn $get_accumulate(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                result_addr: *mut c_void, result_count: $count, result_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                op: MPI_Op, win: MPI_Win,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let result = Elements {
                    memory: result_addr,
                    count: result_count.into(),
                    datatype: result_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                accumulate(origin, Some(result), at, op, None)
            }

            /// MPI-5.0 §12.3.5
            fn $rput(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                win: MPI_Win, request: Out<MPI_Request>,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                put(origin, at, Some(request))
            }

            /// MPI-5.0 §12.3.5
            fn $rget(
                origin_addr: *mut c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                win: MPI_Win, request: Out<MPI_Request>,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                get(origin, at, Some(request))
            }

            /// MPI-5.0 §12.3.5
            fn $raccumulate(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                op: MPI_Op, win: MPI_Win, request: Out<MPI_Request>,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                accumulate(origin, None, at, op, Some(request))
            }

            /// MPI-5.0 §12.3.5
            fn $rget_accumulate(
                origin_addr: *const c_void, origin_count: $count, origin_datatype: MPI_Datatype,
                result_addr: *mut c_void, result_count: $count, result_datatype: MPI_Datatype,
                target_rank: c_int, target_disp: MPI_Aint, target_count: $count, target_datatype: MPI_Datatype,
                op: MPI_Op, win: MPI_Win, request: Out<MPI_Request>,
            ) on win {
                let origin = Elements {
                    memory: origin_addr,
                    count: origin_count.into(),
                    datatype: origin_datatype,
                };
                let result = Elements {
                    memory: result_addr,
                    count: result_count.into(),
                    datatype: result_datatype,
                };
                let at = At {
                    rank: target_rank,
                    disp: target_disp,
                    count: target_count.into(),
                    datatype: target_datatype,
                    win,
                };
                accumulate(origin, Some(result), at, op, Some(request))
            }
        }
    };
}

operations! {
    c_int: MPI_Put MPI_Get MPI_Accumulate MPI_Get_accumulate
    MPI_Rput MPI_Rget MPI_Raccumulate MPI_Rget_accumulate
}

// `i64` is what counts are.
operations! {
    i64: MPI_Put_c MPI_Get_c MPI_Accumulate_c MPI_Get_accumulate_c
    MPI_Rput_c MPI_Rget_c MPI_Raccumulate_c MPI_Rget_accumulate_c
}

api! {
    /// MPI-5.0 §12.3.4
    fn MPI_Fetch_and_op(
        origin_addr: *const c_void,
        result_addr: *mut c_void,
        datatype: MPI_Datatype,
        target_rank: c_int,
        target_disp: MPI_Aint,
        op: MPI_Op,
        win: MPI_Win,
    ) on win {
        let origin = Elements { memory: origin_addr, count: 1, datatype };
        let result = Elements { memory: result_addr, count: 1, datatype };
        let at = At { rank: target_rank, disp: target_disp, count: 1, datatype, win };
        accumulate(origin, Some(result), at, op, None)
    }

    /// MPI-5.0 §12.3.4
    fn MPI_Compare_and_swap(
        origin_addr: *const c_void,
        compare_addr: *const c_void,
        result_addr: *mut c_void,
        datatype: MPI_Datatype,
        target_rank: c_int,
        target_disp: MPI_Aint,
        win: MPI_Win,
    ) on win {
        let at = At { rank: target_rank, disp: target_disp, count: 1, datatype, win };
        compare_and_swap((origin_addr, compare_addr, result_addr), at)
    }
}
