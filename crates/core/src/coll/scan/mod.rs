//! `MPI_Scan`, `MPI_Exscan`.

mod recursive_doubling;

use super::{Algorithm, Builder, Choice, Context, Pool, Schedule, check_reduction, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::op::Reducer;

/// Combines the `send` of each process and all below it into its `recv`. Without `send` (`MPI_IN_PLACE`) the
/// operand lies in `recv`.
///
/// # Errors
/// As [`allreduce`](super::allreduce()).
pub fn scan(
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
    match choice.algorithm {
        _ if recv.is_empty() => {}
        Algorithm::RecursiveDoubling => {
            recursive_doubling::inclusive(&mut builder, context, send, recv, reducer.is_commutative());
        }
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}

/// Combines the `send` of all processes below each into its `recv`; at rank 0 `recv` is left as it is.
/// Without `send` (`MPI_IN_PLACE`) the operand lies in `recv`.
///
/// # Errors
/// As [`allreduce`](super::allreduce()).
pub fn exscan(
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
    match choice.algorithm {
        _ if recv.is_empty() => {}
        Algorithm::RecursiveDoubling => {
            recursive_doubling::exclusive(&mut builder, context, send, recv);
        }
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}
