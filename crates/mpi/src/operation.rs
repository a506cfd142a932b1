//! Collective operations with their arguments checked, and the schedules that are made of them (MPI-5.0 §6).

use crate::check;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Claim;
use ayatori_core::coll::across::{self, Across, Part};
use ayatori_core::coll::{
    self, Algorithm, Blocks, Collective, Context, Counts, Fabric, Pool, Schedule, Selector,
};
use ayatori_core::ids::Rank;
use ayatori_core::op::Reducer;
use ayatori_launch::environment::forced_algorithms;

/// The root of an operation of an intercommunicator, at itself (`MPI_ROOT`).
pub(crate) const ROOT: Rank = Rank::MAX - 1;
/// The same at the others of its group (`MPI_PROC_NULL`).
pub(crate) const NO_PART: Rank = Rank::MAX - 2;

/// A block for each process, kept until the schedule is made.
pub(crate) enum Parts {
    /// Equal ones in one buffer.
    Uniform(Buffer),
    /// Any.
    Each(Vec<Buffer>),
}

impl Parts {
    fn blocks(&self) -> Blocks<'_> {
        match self {
            Self::Uniform(buffer) => Blocks::Uniform(*buffer),
            Self::Each(buffers) => Blocks::Each(buffers),
        }
    }

    /// Whether one of them shares memory with a buffer.
    #[inline]
    fn overlap(&self, one: &Buffer) -> bool {
        match self {
            Self::Uniform(all) => all.overlaps(one),
            Self::Each(blocks) => blocks.iter().any(|block| block.overlaps(one)),
        }
    }

    /// Whether one of them shares memory with another's of the same rank, in check mode of any.
    fn overlap_any(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Each(one), Self::Each(_)) if check::is_on() => {
                one.iter().any(|block| other.overlap(block))
            }
            (Self::Each(one), Self::Each(other)) => {
                one.iter().zip(other).any(|(one, other)| one.overlaps(other))
            }
            (Self::Uniform(all), parts) | (parts, Self::Uniform(all)) => parts.overlap(all),
        }
    }

    /// Bytes of a block, on average.
    fn average_bytes(&self, size: u32) -> usize {
        match self {
            Self::Uniform(buffer) => buffer.len() / size as usize,
            Self::Each(buffers) => buffers.iter().map(Buffer::len).sum::<usize>() / size as usize,
        }
    }
}

/// A collective operation with its arguments, checked as far as one process can.
pub(crate) enum Operation {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`
    Bcast { buffer: Buffer, root: Rank },
    /// `MPI_Gather` and `MPI_Gatherv`
    Gather { send: Option<Buffer>, recv: Option<Parts>, root: Rank, is_uniform: bool },
    /// `MPI_Scatter` and `MPI_Scatterv`
    Scatter { send: Option<Parts>, recv: Option<Buffer>, root: Rank, is_uniform: bool },
    /// `MPI_Allgather` and `MPI_Allgatherv`
    Allgather { send: Option<Buffer>, recv: Parts },
    /// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`
    Alltoall { send: Option<Parts>, recv: Parts },
    /// `MPI_Reduce`
    Reduce { send: Option<Buffer>, recv: Option<Buffer>, reducer: Reducer, root: Rank },
    /// `MPI_Allreduce`
    Allreduce { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`
    ReduceScatter { send: Option<Buffer>, recv: Buffer, counts_bytes: Vec<usize>, reducer: Reducer },
    /// `MPI_Scan`
    Scan { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
    /// `MPI_Neighbor_alltoall` and the other operations among neighbours
    Neighbor { sends: Vec<(Rank, Buffer)>, receives: Vec<(Rank, Buffer)> },
    /// `MPI_Exscan`
    Exscan { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
    /// Any of them in check mode, with what this process says of it.
    Compared(Box<Compared>),
}

/// An operation in check mode.
pub(crate) struct Compared {
    pub(crate) operation: Operation,
    pub(crate) claim: Claim,
}

// SAFETY: an operation consists of addresses and a reduction. Only the thread that runs the operation uses
// the memory at the addresses: a call's, or the engine's (`runtime/offload`), which gets it by a queue; calls
// only read the rest meanwhile.
unsafe impl Send for Operation {}
// SAFETY: as above; shared access reads lengths and kinds.
unsafe impl Sync for Operation {}

impl Operation {
    /// Whether a buffer that it reads and one that it writes share memory, which MPI forbids (MPI-5.0 §6.1).
    /// In two lists of blocks it compares those of the same rank, in check mode all.
    #[inline]
    pub(crate) fn overlaps(&self) -> bool {
        match self {
            Self::Barrier | Self::Bcast { .. } | Self::Neighbor { .. } | Self::Compared(..) => false,
            Self::Gather { send: one, recv: Some(parts), .. }
            | Self::Scatter { recv: one, send: Some(parts), .. }
            | Self::Allgather { send: one, recv: parts } => one.is_some_and(|one| parts.overlap(&one)),
            Self::Gather { .. } | Self::Scatter { .. } => false,
            Self::Alltoall { send, recv } => send.as_ref().is_some_and(|send| send.overlap_any(recv)),
            Self::Reduce { send: one, recv: Some(other), .. }
            | Self::Allreduce { send: one, recv: other, .. }
            | Self::ReduceScatter { send: one, recv: other, .. }
            | Self::Scan { send: one, recv: other, .. }
            | Self::Exscan { send: one, recv: other, .. } => one.is_some_and(|one| one.overlaps(other)),
            Self::Reduce { recv: None, .. } => false,
        }
    }

    /// What the choice of an algorithm depends on: the same at all processes.
    pub(crate) fn question(&self, size: u32) -> (Collective, usize) {
        match self {
            Self::Barrier => (Collective::Barrier, 0),
            Self::Bcast { buffer, .. } => (Collective::Bcast, buffer.len()),
            Self::Gather { is_uniform: false, .. } => (Collective::Gatherv, 0),
            Self::Gather { send, recv, .. } => {
                let own = send.map(|buffer| buffer.len());
                let of_root = || recv.as_ref().map_or(0, |recv| recv.average_bytes(size));
                (Collective::Gather, own.unwrap_or_else(of_root))
            }
            Self::Scatter { is_uniform: false, .. } => (Collective::Scatterv, 0),
            Self::Scatter { send, recv, .. } => {
                let own = recv.map(|buffer| buffer.len());
                let of_root = || send.as_ref().map_or(0, |send| send.average_bytes(size));
                (Collective::Scatter, own.unwrap_or_else(of_root))
            }
            Self::Allgather { recv: recv @ Parts::Uniform(_), .. } => {
                (Collective::Allgather, recv.average_bytes(size))
            }
            Self::Allgather { recv, .. } => (Collective::Allgatherv, recv.average_bytes(size)),
            Self::Alltoall { recv: recv @ Parts::Uniform(_), .. } => {
                (Collective::Alltoall, recv.average_bytes(size))
            }
            // Each process knows its own lengths only; the algorithms of these work together.
            Self::Alltoall { .. } => (Collective::Alltoallv, 0),
            Self::Reduce { send, recv, .. } => {
                (Collective::Reduce, send.or(*recv).map_or(0, |buffer| buffer.len()))
            }
            Self::Allreduce { recv, .. } => (Collective::Allreduce, recv.len()),
            Self::ReduceScatter { counts_bytes, .. } => {
                (Collective::ReduceScatter, counts_bytes.iter().sum())
            }
            Self::Scan { recv, .. } => (Collective::Scan, recv.len()),
            Self::Exscan { recv, .. } => (Collective::Exscan, recv.len()),
            Self::Compared(compared) => compared.operation.question(size),
            Self::Neighbor { sends, .. } => {
                (Collective::NeighborAlltoall, sends.iter().map(|(_, block)| block.len()).max().unwrap_or(0))
            }
        }
    }

    pub(crate) fn reducer(&self) -> Option<&Reducer> {
        match self {
            Self::Reduce { reducer, .. }
            | Self::Allreduce { reducer, .. }
            | Self::ReduceScatter { reducer, .. }
            | Self::Scan { reducer, .. }
            | Self::Exscan { reducer, .. } => Some(reducer),
            Self::Compared(compared) => compared.operation.reducer(),
            _ => None,
        }
    }

    /// The claim that its members compare before it runs, in check mode.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Compared(compared) => Some(&compared.claim),
            _ => None,
        }
    }

    /// Whether a function of the user's takes part.
    pub(crate) fn calls_user_function(&self) -> bool {
        self.reducer().is_some_and(Reducer::is_user_function)
    }

    /// The root, of those that have one.
    pub(crate) fn root(&self) -> Option<Rank> {
        match self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Reduce { root, .. } => Some(*root).filter(|root| !matches!(*root, ROOT | NO_PART)),
            Self::Compared(compared) => compared.operation.root(),
            _ => None,
        }
    }

    /// The schedule of one process of an intercommunicator.
    pub(crate) fn schedule_across(
        &self,
        pool: &mut Pool,
        at: Across,
        selectors: &mut BySize,
    ) -> Result<Schedule, ayatori_core::Error> {
        let choose = &mut |collective, size, bytes, commutative| {
            selectors.of_size(size).choose(collective, bytes, commutative)
        };
        let part = |root: &Rank| match *root {
            ROOT => Part::Root,
            NO_PART => Part::None,
            root => Part::Remote(root),
        };
        let lacks = ayatori_core::Error::Argument("MPI_IN_PLACE is not for intercommunicators");
        match self {
            Self::Barrier => across::barrier(pool, at, choose),
            Self::Bcast { buffer, root } => across::bcast(pool, at, *buffer, part(root), choose),
            Self::Gather { send, recv, root, .. } => {
                across::gather(pool, at, *send, recv.as_ref().map(Parts::blocks), part(root))
            }
            Self::Scatter { send, recv, root, .. } => {
                across::scatter(pool, at, send.as_ref().map(Parts::blocks), *recv, part(root))
            }
            Self::Allgather { send, recv } => {
                across::allgather(pool, at, send.ok_or(lacks)?, recv.blocks(), choose)
            }
            Self::Alltoall { send, recv } => {
                across::alltoall(pool, at, send.as_ref().ok_or(lacks)?.blocks(), recv.blocks())
            }
            Self::Reduce { send, recv, reducer, root } => {
                across::reduce(pool, at, *send, *recv, reducer, part(root), choose)
            }
            Self::Allreduce { send, recv, reducer } => {
                across::allreduce(pool, at, send.ok_or(lacks)?, *recv, reducer, choose)
            }
            Self::ReduceScatter { send, recv, counts_bytes, reducer } => {
                let send = send.ok_or(lacks)?;
                across::reduce_scatter(pool, at, send, *recv, counts_bytes, reducer, choose)
            }
            Self::Scan { .. } | Self::Exscan { .. } | Self::Neighbor { .. } | Self::Compared(..) => {
                Err(ayatori_core::Error::Comm)
            }
        }
    }

    /// The schedule of one process.
    pub(crate) fn schedule(
        &self,
        pool: &mut Pool,
        at: Context,
        selector: &mut Selector,
    ) -> Result<Schedule, ayatori_core::Error> {
        let (collective, bytes) = self.question(at.size);
        let commutative = self.reducer().is_none_or(Reducer::is_commutative);
        let choice = selector.choose(collective, bytes, commutative);
        match self {
            Self::Barrier => coll::barrier(pool, at, choice),
            Self::Bcast { buffer, root } => coll::bcast(pool, at, *buffer, *root, choice),
            Self::Gather { send, recv, root, .. } => {
                coll::gather(pool, at, *send, recv.as_ref().map(Parts::blocks), *root, choice)
            }
            Self::Scatter { send, recv, root, .. } => {
                coll::scatter(pool, at, send.as_ref().map(Parts::blocks), *recv, *root, choice)
            }
            Self::Allgather { send, recv } => coll::allgather(pool, at, *send, recv.blocks(), choice),
            Self::Alltoall { send, recv } => {
                coll::alltoall(pool, at, send.as_ref().map(Parts::blocks), recv.blocks(), choice)
            }
            Self::Reduce { send, recv, reducer, root } => {
                coll::reduce(pool, at, *send, *recv, reducer, *root, choice)
            }
            Self::Allreduce { send, recv, reducer } => {
                coll::allreduce(pool, at, *send, *recv, reducer, choice)
            }
            Self::ReduceScatter { send, recv, counts_bytes, reducer } => {
                coll::reduce_scatter(pool, at, *send, *recv, Counts::Each(counts_bytes), reducer, choice)
            }
            Self::Scan { send, recv, reducer } => coll::scan(pool, at, *send, *recv, reducer, choice),
            Self::Exscan { send, recv, reducer } => coll::exscan(pool, at, *send, *recv, reducer, choice),
            Self::Neighbor { sends, receives } => coll::neighbor(pool, at, sends, receives),
            Self::Compared(compared) => match compared.operation.overlaps() {
                true => Err(ayatori_core::Error::BuffersOverlap),
                false => compared.operation.schedule(pool, at, selector),
            },
        }
    }
}

/// The choices of a process: all members of a communicator have to choose alike.
pub(crate) struct Selectors {
    /// Among processes of this world, which know the same of its hosts.
    within: BySize,
    /// With processes of other worlds, which know nothing of them.
    between: BySize,
}

impl Selectors {
    /// Choices for the fabric within the world, the same at all its processes, and for that between worlds,
    /// the same at all processes of all worlds.
    ///
    /// The environment may force algorithms: `AYATORI_COLL_ALLREDUCE=ring`, the same at all processes.
    pub(crate) fn new(within: Fabric, between: Fabric) -> Self {
        let (forced, complaints) = forced_algorithms(|name| std::env::var(name).ok());
        complaints.iter().for_each(|complaint| eprintln!("ayatori: {complaint}, so it is ignored"));
        Self::forcing(within, between, &forced)
    }

    fn forcing(within: Fabric, between: Fabric, forced: &[(Collective, Algorithm)]) -> Self {
        let of = |fabric| BySize { fabric, forced: forced.into(), by_size: Vec::new() };
        Self { within: of(within), between: of(between) }
    }

    /// For a communicator whose members are, or are not, of several worlds.
    pub(crate) fn of_members(&mut self, spans_worlds: bool) -> &mut BySize {
        if spans_worlds { &mut self.between } else { &mut self.within }
    }
}

/// The choices for each size of communicator there was, made once.
pub(crate) struct BySize {
    fabric: Fabric,
    forced: Box<[(Collective, Algorithm)]>,
    by_size: Vec<(u32, Selector)>,
}

impl BySize {
    pub(crate) fn of_size(&mut self, size: u32) -> &mut Selector {
        let at = self.by_size.iter().position(|(of, _)| *of == size).unwrap_or_else(|| {
            let mut selector = Selector::new(size, self.fabric);
            for (collective, algorithm) in &self.forced {
                let forced = selector.force(*collective, algorithm.name());
                debug_assert!(forced.is_ok(), "{algorithm:?} is one of {collective:?}");
            }
            self.by_size.push((size, selector));
            self.by_size.len() - 1
        });
        &mut self.by_size[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_several_worlds_choose_alike_whatever_their_hosts() {
        let between = Fabric { latency_ps: 10_000_000, ..Fabric::default() };
        let mut roomy = Selectors::new(Fabric::default(), between);
        let mut full = Selectors::new(Fabric { processors: Some(1), ..Fabric::default() }, between);
        let mut differing = 0;
        for (size, bytes, spans_worlds) in (2..9).flat_map(|size| {
            [1, 4096, 1 << 20].into_iter().flat_map(move |bytes| [(size, bytes, true), (size, bytes, false)])
        }) {
            let choice = |selectors: &mut Selectors| {
                let selector = selectors.of_members(spans_worlds).of_size(size);
                selector.choose(Collective::Allreduce, bytes, true).algorithm
            };
            let (one, other) = (choice(&mut roomy), choice(&mut full));
            assert!(!spans_worlds || one == other, "{size} processes, {bytes} bytes: {one:?}, {other:?}");
            differing += usize::from(one != other);
        }
        assert!(differing > 0, "within a world the hosts count, or this test shows nothing");
    }

    #[test]
    fn what_is_forced_holds_for_every_size_of_communicator() {
        let forced = [(Collective::Allreduce, Algorithm::Ring)];
        let mut selectors = Selectors::forcing(Fabric::default(), Fabric::default(), &forced);
        for (size, spans_worlds) in [(2, false), (5, false), (5, true)] {
            let selector = selectors.of_members(spans_worlds).of_size(size);
            assert_eq!(selector.choose(Collective::Allreduce, 8, true).algorithm, Algorithm::Ring);
        }
    }
}
