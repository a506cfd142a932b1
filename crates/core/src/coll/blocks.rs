//! One block per process: equal ones in one buffer, or any.

use super::OTHER_LENGTHS;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::ids::Rank;

/// A block for each process of the communicator.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// Equal parts of one buffer, in rank order.
    Uniform(Buffer),
    /// A buffer for each rank.
    Each(&'a [Buffer]),
}

impl Blocks<'_> {
    /// The block of a rank in a communicator of `size`.
    pub(super) fn get(&self, rank: Rank, size: u32) -> Buffer {
        match self {
            Self::Uniform(buffer) => {
                let block_bytes = buffer.len() / size as usize;
                buffer.part(rank as usize * block_bytes, block_bytes)
            }
            Self::Each(buffers) => buffers[rank as usize],
        }
    }

    /// The blocks of `count` ranks from `first` in one piece, if they are.
    pub(super) fn run(&self, first: Rank, count: u32, size: u32) -> Option<Buffer> {
        match self {
            Self::Uniform(buffer) => {
                let block_bytes = buffer.len() / size as usize;
                Some(buffer.part(first as usize * block_bytes, count as usize * block_bytes))
            }
            Self::Each(_) => None,
        }
    }

    pub(super) fn is_virtual(&self) -> bool {
        match self {
            Self::Uniform(buffer) => buffer.is_virtual(),
            Self::Each(buffers) => buffers.iter().any(Buffer::is_virtual),
        }
    }

    /// The length of all blocks together, in bytes.
    pub(super) fn total_bytes(&self) -> usize {
        match self {
            Self::Uniform(buffer) => buffer.len(),
            Self::Each(buffers) => buffers.iter().map(Buffer::len).sum(),
        }
    }

    /// Whether there is a block for each of `size` ranks.
    pub(super) fn check(&self, size: u32) -> Result<(), Error> {
        let fits = match self {
            Self::Uniform(buffer) => buffer.len().is_multiple_of(size as usize),
            Self::Each(buffers) => buffers.len() == size as usize,
        };
        if fits { Ok(()) } else { Err(OTHER_LENGTHS) }
    }
}

/// How many bytes of a result each process gets.
#[derive(Clone, Copy, Debug)]
pub enum Counts<'a> {
    /// All the same.
    Uniform(usize),
    /// Bytes per rank.
    Each(&'a [usize]),
}

impl Counts<'_> {
    /// The bytes of a rank.
    pub(super) fn get(&self, rank: Rank) -> usize {
        match self {
            Self::Uniform(bytes) => *bytes,
            Self::Each(each) => each[rank as usize],
        }
    }

    /// Where the bytes of each of `size` ranks begin, and where the last end.
    ///
    /// # Errors
    /// If there are not as many counts as ranks, or their sum does not fit.
    pub(super) fn offsets(&self, size: u32) -> Result<alloc::vec::Vec<usize>, Error> {
        if matches!(self, Self::Each(each) if each.len() != size as usize) {
            return Err(OTHER_LENGTHS);
        }
        let mut offsets = alloc::vec::Vec::with_capacity(size as usize + 1);
        let mut end = 0usize;
        offsets.push(0);
        for rank in 0..size {
            end = end.checked_add(self.get(rank)).ok_or(Error::Count)?;
            offsets.push(end);
        }
        Ok(offsets)
    }
}
