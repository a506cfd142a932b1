//! Collective operations of a world: what each member gives, and what it must get.

use ayatori_core::buffer::Buffer;
use ayatori_core::coll::select::{Question, serves};
use ayatori_core::coll::{self, Blocks, Choice, Collective, Context, Pool, Schedule};
use ayatori_core::datatype::Predefined;
use ayatori_core::op::{Operation, Reducer};

use crate::random::Random;

const KINDS: [Collective; 5] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Allreduce,
    Collective::Allgather,
    Collective::Alltoall,
];

/// An operation that all members of a communicator do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    pub(super) kind: Collective,
    pub(super) choice: Choice,
    root: u32,
    /// Of a block, a multiple of 8.
    pub(super) block_bytes: usize,
    /// Tells the bytes of one operation from another's.
    salt: u64,
}

impl Joint {
    pub(super) fn random(random: &mut Random, size: u32) -> Joint {
        let kind = KINDS[random.below(KINDS.len() as u64) as usize];
        let block_bytes = 8 * [0, 1, 3, 20, 200][random.below(5) as usize];
        let question = Question { collective: kind, bytes: block_bytes, size, commutative: true };
        let serving: Vec<_> =
            kind.algorithms().iter().copied().filter(|&algorithm| serves(&question, algorithm)).collect();
        let algorithm = serving[random.below(serving.len() as u64) as usize];
        let segment_bytes = [16, 64, 1_024][random.below(3) as usize];
        Joint {
            kind,
            choice: Choice { algorithm, segment_bytes },
            root: random.below(size.into()) as u32,
            block_bytes,
            salt: random.next_u64(),
        }
    }

    fn word(&self, from: u32, to: u32, at: usize) -> u64 {
        let entity = u64::from(from) << 40 | u64::from(to) << 20 | at as u64;
        Random::for_entity(self.salt, entity).next_u64() >> 8
    }

    fn block(&self, from: u32, to: u32) -> Vec<u8> {
        (0..self.block_bytes / 8).flat_map(|at| self.word(from, to, at).to_le_bytes()).collect()
    }

    /// What a member's send buffer holds.
    pub(super) fn given(&self, rank: u32, size: u32) -> Vec<u8> {
        match self.kind {
            Collective::Allreduce | Collective::Allgather => self.block(rank, 0),
            Collective::Alltoall => (0..size).flat_map(|to| self.block(rank, to)).collect(),
            _ => Vec::new(),
        }
    }

    /// What a member's receive buffer holds at first.
    pub(super) fn before(&self, rank: u32, size: u32) -> Vec<u8> {
        if self.kind == Collective::Bcast && rank == self.root {
            return self.block(rank, 0);
        }
        vec![0xEE; self.after(rank, size).len()]
    }

    /// What a member's receive buffer holds in the end.
    pub(super) fn after(&self, rank: u32, size: u32) -> Vec<u8> {
        match self.kind {
            Collective::Bcast => self.block(self.root, 0),
            Collective::Allgather => (0..size).flat_map(|from| self.block(from, 0)).collect(),
            Collective::Alltoall => (0..size).flat_map(|from| self.block(from, rank)).collect(),
            Collective::Allreduce => (0..self.block_bytes / 8)
                .flat_map(|at| {
                    let sum = (0..size).fold(0_u64, |sum, from| sum.wrapping_add(self.word(from, 0, at)));
                    sum.to_le_bytes()
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn schedule(
        &self,
        pool: &mut Pool,
        context: Context,
        send: Buffer,
        recv: Buffer,
    ) -> Result<Schedule, ayatori_core::Error> {
        let choice = self.choice;
        match self.kind {
            Collective::Bcast => coll::bcast(pool, context, recv, self.root, choice),
            Collective::Allreduce => {
                let reducer = Reducer::predefined(Operation::Sum, Predefined::Uint64)?;
                coll::allreduce(pool, context, Some(send), recv, &reducer, choice)
            }
            Collective::Allgather => {
                coll::allgather(pool, context, Some(send), Blocks::Uniform(recv), choice)
            }
            Collective::Alltoall => {
                coll::alltoall(pool, context, Some(Blocks::Uniform(send)), Blocks::Uniform(recv), choice)
            }
            _ => coll::barrier(pool, context, choice),
        }
    }
}
