//! `MPI_Allreduce`.

mod rabenseifner;
mod recursive_doubling;
mod reduce_broadcast;
mod ring;

use super::{Algorithm, Builder, Choice, Context, Pool, Schedule, check_reduction, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::op::Reducer;

/// Combines the `send` of all processes into each process' `recv`. Without `send` (`MPI_IN_PLACE`) the
/// operand lies in `recv`.
///
/// # Errors
/// [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that differ in length or overlap,
/// or for an algorithm that does not serve here.
pub fn allreduce(
    pool: &mut Pool,
    context: Context,
    send: Option<Buffer>,
    recv: Buffer,
    reducer: &Reducer,
    choice: Choice,
) -> Result<Schedule, Error> {
    check_reduction(send, recv, reducer)?;
    let mut builder = Builder::new(pool, recv.is_virtual());
    builder.set_reducer(reducer);
    if recv.is_empty() {
        return Ok(builder.finish());
    }
    if context.size == 1 {
        builder.copy(send.unwrap_or(recv), recv);
        return Ok(builder.finish());
    }
    let args = Args { context, send, recv, reducer };
    match choice.algorithm {
        Algorithm::RecursiveDoubling => recursive_doubling::build(&mut builder, args),
        Algorithm::ReduceBroadcast => reduce_broadcast::build(&mut builder, args),
        Algorithm::Ring if reducer.is_commutative() => ring::build(&mut builder, args),
        Algorithm::Rabenseifner if reducer.is_commutative() => rabenseifner::build(&mut builder, args),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}

/// Operands of a reduction that is not empty, among at least two processes.
#[derive(Clone, Copy)]
struct Args<'a> {
    context: Context,
    send: Option<Buffer>,
    recv: Buffer,
    reducer: &'a Reducer,
}
