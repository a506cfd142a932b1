//! `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw`.

mod bruck;
pub(super) mod linear;
mod pairwise;

use super::{Algorithm, Blocks, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::error::Error;

/// Brings block j of rank i's `send` into block i of rank j's `recv`. Without `send` (`MPI_IN_PLACE`) the
/// blocks of `recv` are sent and then replaced; that is done by exchange in pairs unless Bruck's algorithm is
/// chosen.
///
/// # Errors
/// [`Error::Argument`] for buffers that do not fit each other or an algorithm that does not serve here.
pub fn alltoall(
    pool: &mut Pool,
    context: Context,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
    choice: Choice,
) -> Result<Schedule, Error> {
    recv.check(context.size)?;
    if let Some(send) = send {
        send.check(context.size)?;
        let own = |blocks: Blocks<'_>| blocks.get(context.rank, context.size).len();
        if own(send) != own(recv) {
            return Err(super::OTHER_LENGTHS);
        }
    }
    let is_virtual = recv.is_virtual() || send.is_some_and(|send| send.is_virtual());
    let mut builder = Builder::new(pool, is_virtual);
    match (choice.algorithm, send.unwrap_or(recv), recv) {
        (Algorithm::Bruck, Blocks::Uniform(send), Blocks::Uniform(recv)) => {
            bruck::build(&mut builder, context, send, recv);
        }
        (Algorithm::Linear | Algorithm::Pairwise, _, _) if send.is_none() => {
            pairwise::in_place(&mut builder, context, recv);
        }
        (Algorithm::Linear, send, recv) => {
            linear::build(&mut builder, context, |to| send.get(to, context.size), recv);
        }
        (Algorithm::Pairwise, send, recv) => pairwise::build(&mut builder, context, send, recv),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}
