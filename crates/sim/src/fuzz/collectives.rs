//! Collective operations of a world: what each member gives, and what it must get.

use std::ops::Range;

use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::select::{Question, serves};
use ayatori_core::coll::{self, Blocks, Choice, Collective, Context, Counts, Pool, Schedule};
use ayatori_core::coll::{Amount, Claim};
use ayatori_core::datatype::Predefined;
use ayatori_core::op::{Operation, Reducer};

use ayatori_random::Random;

const WORD_BYTES: usize = size_of::<u64>();
/// Content of receive buffers that nothing was written to.
const UNWRITTEN: u8 = 0xEE;

/// An operation that all members of a communicator do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    pub(super) kind: Collective,
    pub(super) choice: Choice,
    root: u32,
    /// Of a block, or of the vector, in words; where each rank has its own length: the longest.
    block_words: usize,
    /// Blocks differ in length.
    is_uneven: bool,
    /// `MPI_IN_PLACE`, at the root where there is one.
    is_in_place: bool,
    /// Tells the bytes of one operation from another's.
    salt: u64,
}

/// What one member's buffers are: blocks one after the other.
struct Shape {
    send: Vec<usize>,
    recv: Vec<usize>,
}

impl Joint {
    pub(super) fn random(random: &mut Random, size: u32) -> Joint {
        let kind = Collective::ALL[random.below(Collective::ALL.len() as u64) as usize];
        let block_words = [0, 1, 3, 20, 200][random.below(5) as usize];
        let bytes = WORD_BYTES * block_words;
        let question = Question { collective: kind, bytes, size, commutative: true };
        let serving: Vec<_> =
            kind.algorithms().iter().copied().filter(|&algorithm| serves(&question, algorithm)).collect();
        let algorithm = serving[random.below(serving.len() as u64) as usize];
        let segment_bytes = [16, 64, 1_024][random.below(3) as usize];
        let is_uneven = match kind {
            Collective::Gatherv
            | Collective::Scatterv
            | Collective::Allgatherv
            | Collective::Alltoallv
            | Collective::NeighborAlltoall => true,
            Collective::ReduceScatter => random.below(2) == 0,
            _ => false,
        };
        let can_be_in_place = !matches!(
            kind,
            Collective::Barrier
                | Collective::Bcast
                | Collective::Alltoall
                | Collective::Alltoallv
                | Collective::NeighborAlltoall
        ) && kind != Collective::ReduceScatter;
        Joint {
            kind,
            choice: Choice { algorithm, segment_bytes },
            root: random.below(size.into()) as u32,
            block_words,
            is_uneven,
            is_in_place: can_be_in_place && random.below(4) == 0,
            salt: random.next_u64(),
        }
    }

    /// Whether the members compare what they say of it first (check mode).
    pub(super) fn is_compared(&self) -> bool {
        self.salt.is_multiple_of(4)
    }

    /// What a rank says of it then. All agree.
    pub(super) fn claim(&self, rank: u32, size: u32) -> Claim {
        let amount = |from, to| Amount { bytes: self.words(from, to) as u64, types: 1 };
        let mut claim = Claim::new(self.kind, Some(self.root));
        match self.kind {
            Collective::Alltoallv => {
                claim.sends = (0..size).map(|to| amount(rank, to)).collect();
                claim.expected = (0..size).map(|from| amount(from, rank)).collect();
            }
            Collective::Gatherv | Collective::Scatterv | Collective::Allgatherv => {
                claim.own = Some(amount(rank, 0));
                claim.expected = (0..size).map(|other| amount(other, 0)).collect();
            }
            _ => claim.common = Some(amount(0, 0)),
        }
        claim
    }

    /// The length of the block from one rank to another, in words. Where a rank has one block only, `to` is
    /// 0.
    fn words(&self, from: u32, to: u32) -> usize {
        if !self.is_uneven {
            return self.block_words;
        }
        let entity = u64::from(from) << 20 | u64::from(to);
        Random::for_entity(!self.salt, entity).below(self.block_words as u64 + 1) as usize
    }

    fn word(&self, from: u32, to: u32, at: usize) -> u64 {
        let entity = u64::from(from) << 40 | u64::from(to) << 20 | at as u64;
        Random::for_entity(self.salt, entity).next_u64() >> 8
    }

    fn block(&self, from: u32, to: u32) -> Vec<u8> {
        (0..self.words(from, to)).flat_map(|at| self.word(from, to, at).to_le_bytes()).collect()
    }

    /// How many edges there are from one rank to another in the graph of an operation among neighbours.
    fn edge_count(&self, from: u32, to: u32) -> u32 {
        let entity = u64::from(from) << 20 | u64::from(to) | 1 << 60;
        Random::for_entity(!self.salt, entity).below(3) as u32
    }

    /// The edges from each rank to one, or from one to each: the other rank, and the name of the edge for its
    /// words.
    fn edges(&self, rank: u32, size: u32, is_outgoing: bool) -> impl Iterator<Item = (u32, [u32; 2])> {
        let edges = move |other| {
            let [from, to] = if is_outgoing { [rank, other] } else { [other, rank] };
            (0..self.edge_count(from, to)).map(move |edge| (other, [from, to | edge << 12]))
        };
        (0..size).flat_map(edges)
    }

    /// The sum of some ranks' vectors, at some of their words.
    fn sum(&self, ranks: Range<u32>, words: Range<usize>) -> Vec<u8> {
        let word = |at| {
            ranks.clone().fold(0_u64, |sum, from| sum.wrapping_add(self.word(from, 0, at))).to_le_bytes()
        };
        words.flat_map(word).collect()
    }

    /// Where a rank's part of a reduced and scattered vector lies, in words.
    fn part(&self, rank: u32) -> Range<usize> {
        let start = (0..rank).map(|rank| self.words(rank, 0)).sum();
        start..start + self.words(rank, 0)
    }

    /// Whether this rank gives its part in the receive buffer (in a scatter: takes none).
    fn gives_in_place(&self, rank: u32) -> bool {
        let is_rooted = matches!(
            self.kind,
            Collective::Gather
                | Collective::Gatherv
                | Collective::Scatter
                | Collective::Scatterv
                | Collective::Reduce
        );
        self.is_in_place && (!is_rooted || rank == self.root)
    }

    fn shape(&self, rank: u32, size: u32) -> Shape {
        let is_root = rank == self.root;
        let each = || (0..size).map(|rank| self.words(rank, 0)).collect::<Vec<_>>();
        let own = || vec![self.words(rank, 0)];
        let at_root = |lengths: Vec<usize>| if is_root { lengths } else { Vec::new() };
        let (mut send, mut recv) = match self.kind {
            Collective::Barrier => (Vec::new(), Vec::new()),
            Collective::Bcast => (Vec::new(), vec![self.block_words]),
            Collective::Gather | Collective::Gatherv => (own(), at_root(each())),
            Collective::Scatter | Collective::Scatterv => (at_root(each()), own()),
            Collective::Allgather | Collective::Allgatherv => (own(), each()),
            Collective::Alltoall | Collective::Alltoallv => (
                (0..size).map(|to| self.words(rank, to)).collect(),
                (0..size).map(|from| self.words(from, rank)).collect(),
            ),
            Collective::NeighborAlltoall => {
                let lengths = |is_outgoing| {
                    self.edges(rank, size, is_outgoing).map(|(_, [from, to])| self.words(from, to)).collect()
                };
                (lengths(true), lengths(false))
            }
            Collective::Reduce => (vec![self.block_words], at_root(vec![self.block_words])),
            Collective::Allreduce | Collective::Scan | Collective::Exscan => {
                (vec![self.block_words], vec![self.block_words])
            }
            Collective::ReduceScatter => (vec![self.part(size).start], own()),
        };
        if self.gives_in_place(rank) {
            match self.kind {
                Collective::Scatter | Collective::Scatterv => recv = Vec::new(),
                _ => send = Vec::new(),
            }
        }
        for words in send.iter_mut().chain(&mut recv) {
            *words *= WORD_BYTES;
        }
        Shape { send, recv }
    }

    /// What a member gives, if it gives it in a send buffer.
    fn contribution(&self, rank: u32, size: u32) -> Vec<u8> {
        match self.kind {
            Collective::Barrier | Collective::Bcast => Vec::new(),
            Collective::Scatter | Collective::Scatterv if rank == self.root => {
                (0..size).flat_map(|to| self.scattered(to)).collect()
            }
            Collective::Scatter | Collective::Scatterv => Vec::new(),
            Collective::Alltoall | Collective::Alltoallv => {
                (0..size).flat_map(|to| self.block(rank, to)).collect()
            }
            Collective::NeighborAlltoall => {
                self.edges(rank, size, true).flat_map(|(_, [from, to])| self.block(from, to)).collect()
            }
            Collective::ReduceScatter => self.sum(rank..rank + 1, 0..self.part(size).start),
            _ => self.block(rank, 0),
        }
    }

    /// What a rank gets in a scatter.
    fn scattered(&self, to: u32) -> Vec<u8> {
        (0..self.words(to, 0)).flat_map(|at| self.word(to, 1, at).to_le_bytes()).collect()
    }

    /// What a member's send buffer holds.
    pub(super) fn given(&self, rank: u32, size: u32) -> Vec<u8> {
        let gives_in_place =
            self.gives_in_place(rank) && !matches!(self.kind, Collective::Scatter | Collective::Scatterv);
        if gives_in_place { Vec::new() } else { self.contribution(rank, size) }
    }

    /// What a member's receive buffer holds at first.
    pub(super) fn before(&self, rank: u32, size: u32) -> Vec<u8> {
        if self.kind == Collective::Bcast && rank == self.root {
            return self.block(rank, 0);
        }
        let lengths = self.shape(rank, size).recv;
        let mut before = vec![UNWRITTEN; lengths.iter().sum()];
        if self.gives_in_place(rank) && !before.is_empty() {
            let contribution = self.contribution(rank, size);
            let start = match self.kind {
                Collective::Gather | Collective::Gatherv | Collective::Allgather | Collective::Allgatherv => {
                    lengths[..rank as usize].iter().sum()
                }
                _ => 0,
            };
            before[start..start + contribution.len()].copy_from_slice(&contribution);
        }
        before
    }

    /// What a member's receive buffer holds in the end.
    pub(super) fn after(&self, rank: u32, size: u32) -> Vec<u8> {
        let (is_root, words) = (rank == self.root, 0..self.block_words);
        match self.kind {
            Collective::Bcast => self.block(self.root, 0),
            Collective::Gather | Collective::Gatherv if !is_root => Vec::new(),
            Collective::Gather | Collective::Gatherv | Collective::Allgather | Collective::Allgatherv => {
                (0..size).flat_map(|from| self.block(from, 0)).collect()
            }
            Collective::Scatter | Collective::Scatterv if self.gives_in_place(rank) => Vec::new(),
            Collective::Scatter | Collective::Scatterv => self.scattered(rank),
            Collective::Alltoall | Collective::Alltoallv => {
                (0..size).flat_map(|from| self.block(from, rank)).collect()
            }
            Collective::NeighborAlltoall => {
                self.edges(rank, size, false).flat_map(|(_, [from, to])| self.block(from, to)).collect()
            }
            Collective::Reduce if !is_root => Vec::new(),
            Collective::Reduce | Collective::Allreduce => self.sum(0..size, words),
            Collective::ReduceScatter => self.sum(0..size, self.part(rank)),
            Collective::Scan => self.sum(0..rank + 1, words),
            // The first rank's receive buffer is not significant (MPI-5.0 §6.11.2).
            Collective::Exscan if rank == 0 => self.before(rank, size),
            Collective::Exscan => self.sum(0..rank, words),
            Collective::Barrier => Vec::new(),
        }
    }

    pub(super) fn schedule(
        &self,
        pool: &mut Pool,
        context: Context,
        send: Buffer,
        recv: Buffer,
    ) -> Result<Schedule, Error> {
        let Context { rank, size } = context;
        let (choice, root, is_root) = (self.choice, self.root, self.root == rank);
        let shape = self.shape(rank, size);
        let sum = Reducer::predefined(Operation::Sum, Predefined::Uint64)?;
        let [sends, recvs] = [(send, &shape.send), (recv, &shape.recv)].map(|(whole, lengths)| {
            let mut start = 0;
            let part = |&length: &usize| {
                start += length;
                whole.part(start - length, length)
            };
            lengths.iter().map(part).collect::<Vec<Buffer>>()
        });
        let blocks = |whole, each| if self.is_uneven { Blocks::Each(each) } else { Blocks::Uniform(whole) };
        let in_place = self.gives_in_place(rank);
        let own = (!in_place).then_some(send);
        match self.kind {
            Collective::Barrier => coll::barrier(pool, context, choice),
            Collective::Bcast => coll::bcast(pool, context, recv, root, choice),
            Collective::Gather | Collective::Gatherv => {
                coll::gather(pool, context, own, is_root.then(|| blocks(recv, &recvs)), root, choice)
            }
            Collective::Scatter | Collective::Scatterv => {
                let into = (!in_place).then_some(recv);
                coll::scatter(pool, context, is_root.then(|| blocks(send, &sends)), into, root, choice)
            }
            Collective::Allgather | Collective::Allgatherv => {
                coll::allgather(pool, context, own, blocks(recv, &recvs), choice)
            }
            Collective::Alltoall | Collective::Alltoallv => {
                coll::alltoall(pool, context, Some(blocks(send, &sends)), blocks(recv, &recvs), choice)
            }
            Collective::Reduce => {
                coll::reduce(pool, context, own, is_root.then_some(recv), &sum, root, choice)
            }
            Collective::Allreduce => coll::allreduce(pool, context, own, recv, &sum, choice),
            Collective::ReduceScatter => {
                let lengths: Vec<usize> = (0..size).map(|to| WORD_BYTES * self.words(to, 0)).collect();
                let counts =
                    if self.is_uneven { Counts::Each(&lengths) } else { Counts::Uniform(lengths[0]) };
                coll::reduce_scatter(pool, context, own, recv, counts, &sum, choice)
            }
            Collective::Scan => coll::scan(pool, context, own, recv, &sum, choice),
            Collective::Exscan => coll::exscan(pool, context, own, recv, &sum, choice),
            Collective::NeighborAlltoall => {
                let peers = |is_outgoing| self.edges(rank, size, is_outgoing).map(|(other, _)| other);
                let sends: Vec<_> = peers(true).zip(sends).collect();
                let receives: Vec<_> = peers(false).zip(recvs).collect();
                coll::neighbor(pool, context, &sends, &receives)
            }
        }
    }
}
