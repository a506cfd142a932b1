//! `MPI_Bcast`.

mod binomial;
mod chain;
mod scatter_allgather;

use super::{Algorithm, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;

/// Sends `buffer` of `root` into that of every other process.
///
/// # Errors
/// [`Error::Root`]; [`Error::Argument`] for an algorithm that does not serve here.
pub fn bcast(
    pool: &mut Pool,
    context: Context,
    buffer: Buffer,
    root: Rank,
    choice: Choice,
) -> Result<Schedule, Error> {
    context.check_root(root)?;
    let mut builder = Builder::new(pool, buffer.is_virtual());
    if buffer.is_empty() || context.size == 1 {
        return Ok(builder.finish());
    }
    let args = Args { context, buffer, root };
    match choice.algorithm {
        Algorithm::Binomial => binomial::build(&mut builder, args),
        Algorithm::Chain => chain::build(&mut builder, args, choice.segment_bytes),
        Algorithm::ScatterRing => scatter_allgather::ring(&mut builder, args),
        Algorithm::ScatterRecursiveDoubling if context.size.is_power_of_two() => {
            scatter_allgather::recursive_doubling(&mut builder, args);
        }
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}

/// A broadcast of at least one byte, among at least two processes.
#[derive(Clone, Copy)]
struct Args {
    context: Context,
    buffer: Buffer,
    root: Rank,
}
