//! `MPI_Scatter`, `MPI_Scatterv`.

mod binomial;
mod linear;

use super::{Algorithm, Blocks, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;

/// Brings the blocks of `send` at `root` into each process' `recv`. `send` is read at the root only; `recv`
/// may be `None` there (`MPI_IN_PLACE`: its block stays in `send`).
///
/// # Errors
/// As [`gather`](super::gather()).
pub fn scatter(
    pool: &mut Pool,
    context: Context,
    send: Option<Blocks<'_>>,
    recv: Option<Buffer>,
    root: Rank,
    choice: Choice,
) -> Result<Schedule, Error> {
    context.check_root(root)?;
    let at_root = context.rank == root;
    let send = if at_root { send } else { None };
    if at_root != send.is_some() || (!at_root && recv.is_none()) {
        return Err(Error::Argument("a scatter lacks the root's send buffer or a receiver's receive buffer"));
    }
    let is_virtual = recv.is_some_and(|b| b.is_virtual()) || send.is_some_and(|b| b.is_virtual());
    let mut builder = Builder::new(pool, is_virtual);
    if let Some(send) = send {
        send.check(context.size)?;
        let own = send.get(root, context.size);
        if recv.is_some_and(|recv| recv.len() != own.len()) {
            return Err(super::OTHER_LENGTHS);
        }
    }
    match (choice.algorithm, send, recv) {
        (Algorithm::Linear, _, _) => linear::build(&mut builder, context, send, recv, root),
        (Algorithm::Binomial, Some(Blocks::Uniform(all)), _) => {
            binomial::at_root(&mut builder, context, all);
        }
        (Algorithm::Binomial, None, Some(recv)) => binomial::elsewhere(&mut builder, context, recv, root),
        _ => return no_such_algorithm(),
    }
    // Last, so that the others' messages are on their way first.
    if let (Some(send), Some(recv)) = (send, recv) {
        builder.copy(send.get(root, context.size), recv);
    }
    Ok(builder.finish())
}
