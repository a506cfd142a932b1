//! `MPI_Neighbor_alltoall` and the other operations among neighbours (MPI-5.0 §8.6): all are blocks to some
//! and from some, and differ in where the blocks lie.

mod linear;

use super::{Builder, Context, OTHER_LENGTHS, Pool, Schedule};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;

/// A block and the rank that it goes to, or comes from.
pub type Block = (Rank, Buffer);

/// Sends and receives blocks. Several blocks from one process to another are received in the order sent; a
/// process may be its own neighbour. Both ends of an edge give the same length.
///
/// # Errors
/// [`Error::Rank`] for a neighbour that is no rank, [`Error::Argument`] for blocks to itself that do not fit
/// those from itself.
pub fn neighbor(
    pool: &mut Pool,
    context: Context,
    sends: &[Block],
    receives: &[Block],
) -> Result<Schedule, Error> {
    for &(rank, _) in sends.iter().chain(receives) {
        if rank >= context.size {
            return Err(Error::Rank { rank: rank.into(), size: context.size });
        }
    }
    let own = |block: &&Block| block.0 == context.rank;
    let len = |block: &Block| block.1.len();
    if !sends.iter().filter(own).map(len).eq(receives.iter().filter(own).map(len)) {
        return Err(OTHER_LENGTHS);
    }
    let is_virtual = sends.iter().chain(receives).any(|(_, buffer)| buffer.is_virtual());
    let mut builder = Builder::new(pool, is_virtual);
    linear::build(&mut builder, context, sends, receives);
    Ok(builder.finish())
}
