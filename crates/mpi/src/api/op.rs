//! Chapter "op": reduction operations (MPI-5.0 §6.9).

use crate::abi::*;
use crate::arguments::*;
use crate::collective::not_in_place;
use crate::fault::{Fault, fault};
use crate::op::{self, UserOp};
use crate::staging::{Staging, Way};
use std::ffi::{c_int, c_void};

fn create(function: Callback, large: bool, commute: c_int, op: Out<MPI_Op>) -> Result<(), Fault> {
    let made = UserOp::new(function, large, commute != 0)?;
    let handle = op::table()?.insert(made)?;
    op.set("op", handle)
}

fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<(), Fault> {
    not_in_place(inbuf, "inbuf")?;
    not_in_place(inoutbuf, "inoutbuf")?;
    let reducer = op::reducer(op, datatype, |function| function())?;
    let mut staging = Staging::default();
    let input = staging.operand(Way::In, inbuf, count, datatype, "inbuf")?;
    let inout = staging.operand(Way::InOut, inoutbuf, count, datatype, "inoutbuf")?;
    if inout.is_empty() {
        return Ok(());
    }
    if input.overlaps(&inout) {
        return Err(fault(MPI_ERR_BUFFER, format_args!("arguments inbuf and inoutbuf share memory")));
    }
    let (Some(from), Some(to)) = (input.as_ptr(), inout.as_ptr()) else { return Ok(()) };
    staging.fill();
    // SAFETY: both are as long as the buffers say, which are the caller's elements or copies of them, and do
    // not overlap.
    let (from, to) = unsafe {
        let from = std::slice::from_raw_parts(from.cast_const(), input.len());
        (from, std::slice::from_raw_parts_mut(to, inout.len()))
    };
    reducer.apply(from, to);
    staging.drain();
    Ok(())
}

api! {
    /// MPI-5.0 §6.9.5
    fn MPI_Op_create(user_fn: Callback, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn, false, commute, op)
    }

    /// MPI-5.0 §6.9.5
    fn MPI_Op_create_c(user_fn: Callback, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn, true, commute, op)
    }

    /// Operations under way keep what they need.
    fn MPI_Op_free(op: InOut<MPI_Op>) {
        let handle = op.get("op")?;
        op::table()?.remove(handle, "op")?;
        op.set("op", MPI_OP_NULL)
    }

    /// MPI-5.0 §6.9.5
    fn MPI_Op_commutative(op: MPI_Op, commute: Out<c_int>) {
        commute.set("commute", c_int::from(op::is_commutative(op)?))
    }

    /// MPI-5.0 §6.9.7
    fn MPI_Reduce_local(
        inbuf: *const c_void,
        inoutbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) {
        reduce_local(inbuf, inoutbuf, count.into(), datatype, op)
    }

    /// MPI-5.0 §6.9.7
    fn MPI_Reduce_local_c(
        inbuf: *const c_void,
        inoutbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) {
        reduce_local(inbuf, inoutbuf, count, datatype, op)
    }
}
