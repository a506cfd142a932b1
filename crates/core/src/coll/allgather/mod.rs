//! `MPI_Allgather`, `MPI_Allgatherv`.

mod bruck;
mod recursive_doubling;
mod ring;

use super::alltoall::linear;
use super::{Algorithm, Blocks, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;

/// Brings each process' `send` into the blocks of each process' `recv`. Without `send` (`MPI_IN_PLACE`) each
/// process' own block lies in `recv` already.
///
/// # Errors
/// [`Error::Argument`] for buffers that do not fit each other or an algorithm that does not serve here.
pub fn allgather(
    pool: &mut Pool,
    context: Context,
    send: Option<Buffer>,
    recv: Blocks<'_>,
    choice: Choice,
) -> Result<Schedule, Error> {
    recv.check(context.size)?;
    let own = recv.get(context.rank, context.size);
    let send = send.unwrap_or(own);
    if send.len() != own.len() {
        return Err(super::OTHER_LENGTHS);
    }
    let mut builder = Builder::new(pool, send.is_virtual() || recv.is_virtual());
    match choice.algorithm {
        Algorithm::Linear => linear::build(&mut builder, context, |_| send, recv),
        Algorithm::Ring => ring::build(&mut builder, context, send, recv),
        Algorithm::Bruck => bruck::build(&mut builder, context, send, recv),
        Algorithm::RecursiveDoubling => match recv {
            Blocks::Uniform(all) if context.size.is_power_of_two() => {
                recursive_doubling::build(&mut builder, context, send, all);
            }
            _ => return no_such_algorithm(),
        },
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}
