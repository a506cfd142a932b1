//! `MPI_Gather`, `MPI_Gatherv`.

mod binomial;
mod linear;

use super::{Algorithm, Blocks, Builder, Choice, Context, Pool, Schedule, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;

/// Brings each process' `send` into the blocks of `recv` at `root`. `recv` is read at the root only; `send`
/// may be `None` there (`MPI_IN_PLACE`: its block lies in `recv` already).
///
/// # Errors
/// [`Error::Root`]; [`Error::Argument`] for buffers that do not fit each other, a missing buffer, or an
/// algorithm that does not serve here.
pub fn gather(
    pool: &mut Pool,
    context: Context,
    send: Option<Buffer>,
    recv: Option<Blocks<'_>>,
    root: Rank,
    choice: Choice,
) -> Result<Schedule, Error> {
    context.check_root(root)?;
    let at_root = context.rank == root;
    let recv = if at_root { recv } else { None };
    if at_root != recv.is_some() || (!at_root && send.is_none()) {
        return Err(Error::Argument("a gather lacks the root's receive buffer or a sender's send buffer"));
    }
    let is_virtual = send.is_some_and(|b| b.is_virtual()) || recv.is_some_and(|b| b.is_virtual());
    let mut builder = Builder::new(pool, is_virtual);
    if let Some(recv) = recv {
        recv.check(context.size)?;
        let own = recv.get(root, context.size);
        if let Some(send) = send {
            if send.len() != own.len() {
                return Err(super::OTHER_LENGTHS);
            }
            builder.copy(send, own);
        }
    }
    match (choice.algorithm, recv, send) {
        (Algorithm::Linear, _, _) => linear::build(&mut builder, context, send, recv, root),
        (Algorithm::Binomial, Some(Blocks::Uniform(all)), _) => {
            binomial::at_root(&mut builder, context, all);
        }
        (Algorithm::Binomial, None, Some(send)) => binomial::elsewhere(&mut builder, context, send, root),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}
