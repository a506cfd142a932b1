//! Collective operations: schedules of messages, copies and reductions (MPI-5.0 ch. 6).
//!
//! One function per operation makes a [`Schedule`] for one process; blocking, non-blocking and persistent
//! calls all run it the same way (`engine.rs`). Each operation has a folder, each algorithm a file with the
//! name the literature uses; [`select`] says which one to take and why.
//!
//! **Arguments.** Lengths are those of the buffers, in bytes; `None` for the send (or, in a scatter, the
//! receive) buffer is `MPI_IN_PLACE`. Operations over one block per process take [`Blocks`], so that the
//! variants with counts, displacements and types per process are the same code: the caller makes one buffer
//! of each. All processes must give the same lengths, operation and choice of algorithm.
//!
//! **What comes out in which order.** Operations that do not commute are applied in rank order. Commutative
//! ones may be applied in any order, the same at all processes: results are bitwise the same everywhere.

mod accumulator;
pub mod across;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod blocks;
pub(crate) mod compare;
pub mod engine;
mod gather;
mod halving;
mod neighbor;
mod reduce;
mod reduce_scatter;
pub(crate) mod running;
mod scan;
mod scatter;
pub mod schedule;
pub mod select;
pub mod shared_memory;
#[cfg(test)]
mod tests;
mod tree;

pub use across::Across;
pub use allgather::allgather;
pub use allreduce::allreduce;
pub use alltoall::alltoall;
pub use barrier::barrier;
pub use bcast::bcast;
pub use blocks::{Blocks, Counts};
pub use compare::{Amount, Claim};
pub(crate) use engine::RoundTransport;
pub use engine::{Posted, Status, Transport};
pub use gather::gather;
pub use neighbor::{Block, neighbor};
pub use reduce::reduce;
pub use reduce_scatter::reduce_scatter;
pub use scan::{exscan, scan};
pub use scatter::scatter;
pub use schedule::{Builder, Pool, Schedule, StepId};
pub use select::{Algorithm, Choice, Collective, Fabric, Selector};

use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;
use crate::op::Reducer;

/// Identity of a collective operation, as far as members must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Which.
    pub collective: Collective,
    /// The length that its algorithm depends on.
    pub bytes: u64,
    /// Its root, of those that have one.
    pub root: Option<Rank>,
}

/// The process that makes the schedule, in its communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Its rank.
    pub rank: Rank,
    /// The communicator's size, at least 1.
    pub size: u32,
}

impl Context {
    /// The rank `distance` ranks up, around the end. `distance` is at most the size.
    const fn up(&self, distance: u32) -> Rank {
        wrap(self.rank as u64 + distance as u64, self.size)
    }

    /// The rank `distance` ranks down, around the end. `distance` is at most the size.
    const fn down(&self, distance: u32) -> Rank {
        wrap(self.rank as u64 + self.size as u64 - distance as u64, self.size)
    }

    /// This process counted from `root`.
    const fn relative_to(&self, root: Rank) -> u32 {
        self.down(root)
    }

    fn check_root(&self, root: Rank) -> Result<(), Error> {
        if root < self.size { Ok(()) } else { Err(Error::Root { root: root.into(), size: self.size }) }
    }
}

/// The rank of a number counted around a communicator.
const fn wrap(index: u64, size: u32) -> Rank {
    (index % size as u64) as Rank
}

/// Numbers `0..size` counted from `root` instead of 0, and back.
#[derive(Clone, Copy)]
struct Rooted {
    root: Rank,
    size: u32,
}

impl Rooted {
    const fn absolute(&self, relative: u32) -> Rank {
        wrap(self.root as u64 + relative as u64, self.size)
    }
}

const OTHER_LENGTHS: Error = Error::Argument("the buffers of a collective operation differ in length");

/// Checks for the errors of every reduction: different lengths, part of an element, overlap.
fn check_reduction(send: Option<Buffer>, recv: Buffer, reducer: &Reducer) -> Result<(), Error> {
    if !recv.len().is_multiple_of(reducer.extent_bytes()) {
        return Err(Error::Count);
    }
    match send {
        Some(send) if send.len() != recv.len() => Err(OTHER_LENGTHS),
        Some(send) if send.overlaps(&recv) => Err(Error::BuffersOverlap),
        _ => Ok(()),
    }
}

fn no_such_algorithm<T>() -> Result<T, Error> {
    Err(Error::Argument("the algorithm does not serve this operation with these arguments"))
}
