//! `MPI_Reduce`.

mod binomial;
mod rabenseifner;

use super::{Algorithm, Builder, Choice, Context, Pool, Schedule, check_reduction, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;
use crate::op::Reducer;

pub(super) use binomial::tree;

/// Combines the `send` of all processes into `recv` at `root`. `recv` is used at the root only, where `send`
/// may be `None` (`MPI_IN_PLACE`: the root's operand lies in `recv`).
///
/// # Errors
/// [`Error::Root`]; [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that do not fit
/// each other, overlap or are missing, or for an algorithm that does not serve here.
pub fn reduce(
    pool: &mut Pool,
    context: Context,
    send: Option<Buffer>,
    recv: Option<Buffer>,
    reducer: &Reducer,
    root: Rank,
    choice: Choice,
) -> Result<Schedule, Error> {
    context.check_root(root)?;
    let recv = recv.filter(|_| context.rank == root);
    let (Some(operand), true) = (send.or(recv), context.rank != root || recv.is_some()) else {
        return Err(Error::Argument("a reduction lacks the root's receive buffer or a send buffer"));
    };
    match recv {
        Some(recv) => check_reduction(send, recv, reducer)?,
        None => check_reduction(None, operand, reducer)?,
    }
    let mut builder = Builder::new(pool, operand.is_virtual());
    builder.set_reducer(reducer);
    if operand.is_empty() {
        return Ok(builder.finish());
    }
    let args = Args { context, send, recv, root, reducer };
    match choice.algorithm {
        Algorithm::Binomial => binomial::build(&mut builder, args),
        Algorithm::Rabenseifner if reducer.is_commutative() => rabenseifner::build(&mut builder, args),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}

/// Operands of a reduction: at least one buffer is present, and none is empty.
#[derive(Clone, Copy)]
struct Args<'a> {
    context: Context,
    send: Option<Buffer>,
    /// At the root only.
    recv: Option<Buffer>,
    root: Rank,
    reducer: &'a Reducer,
}
