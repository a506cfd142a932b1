//! Chapter "op": reduction operations (MPI-5.0 §6.9).

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::datatype;
use crate::op::{self, UserOp};
use crate::state::types;
use std::ffi::{c_int, c_void};

fn create(function: Callback, large: bool, commute: c_int, op: Out<MPI_Op>) -> Result<(), Fault> {
    let made = UserOp::new(function, large, commute != 0)?;
    let handle = types()?.ops.insert(made)?;
    op.set("op", handle)
}

fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<(), Fault> {
    let reducer = op::reducer(op, datatype)?;
    let count = datatype::count(count, "count")?;
    let bytes = count.checked_mul(reducer.extent_bytes());
    let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
    let bytes = bytes
        .ok_or_else(|| fault(MPI_ERR_COUNT, format_args!("{count} elements are more than memory holds")))?;
    if bytes == 0 {
        return Ok(());
    }
    for (buffer, name) in [(inbuf, "inbuf"), (inoutbuf.cast_const(), "inoutbuf")] {
        if buffer.is_null() {
            return Err(fault(MPI_ERR_BUFFER, format_args!("argument {name} is a null pointer")));
        }
    }
    if std::ptr::eq(inbuf, inoutbuf) {
        return Err(fault(MPI_ERR_BUFFER, format_args!("arguments inbuf and inoutbuf are the same memory")));
    }
    // SAFETY: not null, and by the call's description `count` elements each, which do not overlap.
    let (input, inout) = unsafe {
        let input = std::slice::from_raw_parts(inbuf.cast::<u8>(), bytes);
        (input, std::slice::from_raw_parts_mut(inoutbuf.cast::<u8>(), bytes))
    };
    reducer.apply(input, inout);
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
        types()?.ops.remove(handle, "op")?;
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
