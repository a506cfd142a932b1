//! `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block`.

mod pairwise;
mod recursive_halving;
mod reduce_then_scatter;

use super::{Algorithm, Builder, Choice, Context, Counts, OTHER_LENGTHS, Pool, Schedule, no_such_algorithm};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::op::Reducer;
use alloc::vec::Vec;

/// Combines the `send` of all processes and gives each process its part: `counts` says how many bytes.
/// Without `send` (`MPI_IN_PLACE`) the operand lies in `recv`, which then is as long as all parts together;
/// the part is put at its beginning.
///
/// # Errors
/// [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that do not fit the counts or
/// overlap, or for an algorithm that does not serve here.
pub fn reduce_scatter(
    pool: &mut Pool,
    context: Context,
    send: Option<Buffer>,
    recv: Buffer,
    counts: Counts<'_>,
    reducer: &Reducer,
    choice: Choice,
) -> Result<Schedule, Error> {
    let offsets = counts.offsets(context.size)?;
    let operand = send.unwrap_or(recv);
    if offsets.iter().any(|offset| !offset.is_multiple_of(reducer.extent_bytes())) {
        return Err(Error::Count);
    }
    let own_bytes = counts.get(context.rank);
    if operand.len() != offsets[context.size as usize] || recv.len() < own_bytes {
        return Err(OTHER_LENGTHS);
    }
    if send.is_some_and(|send| send.overlaps(&recv)) {
        return Err(Error::BuffersOverlap);
    }
    let mut builder = Builder::new(pool, operand.is_virtual());
    builder.set_reducer(reducer);
    let part = recv.part(0, own_bytes);
    let args = Args { context, operand, in_place: send.is_none(), part, offsets, reducer };
    match choice.algorithm {
        _ if args.operand.is_empty() => {}
        _ if context.size == 1 => builder.copy(operand, part),
        Algorithm::Pairwise if reducer.is_commutative() => pairwise::build(&mut builder, &args),
        Algorithm::RecursiveHalving if reducer.is_commutative() => {
            recursive_halving::build(&mut builder, &args);
        }
        Algorithm::ReduceThenScatter => reduce_then_scatter::build(&mut builder, &args),
        _ => return no_such_algorithm(),
    }
    Ok(builder.finish())
}

/// Operands of a reduction that is not empty, among at least two processes.
struct Args<'a> {
    context: Context,
    operand: Buffer,
    /// Whether `part` is the beginning of `operand`.
    in_place: bool,
    /// Where this process' part of the result goes.
    part: Buffer,
    /// Where each rank's part begins, and where the last ends.
    offsets: Vec<usize>,
    reducer: &'a Reducer,
}

impl Args<'_> {
    /// The part of `buffer`, a whole vector, that belongs to a rank.
    fn of(&self, buffer: Buffer, rank: u32) -> Buffer {
        let start = self.offsets[rank as usize];
        buffer.part(start, self.offsets[rank as usize + 1] - start)
    }
}
