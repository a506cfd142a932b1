//! The processes that have a file open together, and their exchanges in collective calls.
//!
//! They have a communicator of their own, which no handle of the program names: a duplicate without
//! attributes, whose messages no receive of the program can take.

use super::sys::Scratch;
use crate::abi::*;
use crate::collective::{Mode, run};
use crate::comm::Comm;
use crate::fault::{Fault, fault};
use crate::operation::{Operation, Parts};
use crate::request::check;
use crate::runtime::machine::Machine;
use crate::runtime::wait::wait;
use crate::staging::Staging;
use crate::state::process;
use ayatori_core::device::Device;
use ayatori_core::group::Group;
use ayatori_core::ids::Rank;

/// The processes of a file.
#[derive(Debug)]
pub(crate) struct Party {
    comm: MPI_Comm,
    pub(crate) group: Group,
    pub(crate) rank: Rank,
    pub(crate) size: u32,
}

impl Party {
    /// Those of a communicator. All of them call.
    pub(crate) fn new(comm: MPI_Comm) -> Result<Self, Fault> {
        let (new, posted, group, rank) = {
            let mut process = process()?;
            let parent = process.comms.get(comm, "comm")?;
            parent.check_intra("comm")?;
            let (id, group, rank) = (parent.id(), parent.group().clone(), parent.rank());
            let Machine { core, device, node, .. } = process.engine();
            let context = core.next_context();
            node.claim(core, device.shm(), &group);
            let made =
                core.collectives().icomm_dup(device, id).inspect_err(|_| device.shm().unclaim_room(context));
            let (new, posted) = made?;
            (new, posted, group, rank)
        };
        let completion = wait(process()?, posted)?;
        check(&completion, comm)?;
        let made = Comm::new(new, group.clone(), rank, "a file's processes", MPI_ERRORS_RETURN);
        let size = group.size();
        let comm = process()?.comms.insert(made)?;
        Ok(Self { comm, group, rank, size })
    }

    /// Ends it. All of them call.
    pub(crate) fn free(&self) -> Result<(), Fault> {
        let mut process = process()?;
        let freed = process.comms.remove(self.comm, "comm")?;
        let Machine { core, device, node, .. } = process.engine();
        node.leave(core, device.shm(), freed.id());
        Ok(core.free_comm(freed.id())?)
    }

    /// The lowest rank on this process' host, as far as it knows: all other processes count as other hosts.
    pub(crate) fn first_rank_here(&self) -> Result<Rank, Fault> {
        let mut process = process()?;
        let shm = process.engine().device.shm();
        let first = self.group.iter().position(|member| !shm.rails_to(member).is_empty());
        Ok(first.unwrap_or(self.rank as usize) as Rank)
    }

    fn run(&self, operation: Operation) -> Result<(), Fault> {
        debug_assert!(self.size > 1, "a process alone exchanges nothing");
        // The file's error handler gets the error, not the communicator's, which no handle names.
        run(self.comm, Mode::Blocking, operation, Staging::default())
            .map_err(|error| fault(error.code(), format_args!("{}", error.detail())))
    }

    /// Waits until all have called.
    pub(crate) fn barrier(&self) -> Result<(), Fault> {
        if self.size == 1 { Ok(()) } else { self.run(Operation::Barrier) }
    }

    /// The values of each process, by rank.
    pub(crate) fn tell_all<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>, Fault> {
        if self.size == 1 {
            return Ok(vec![own]);
        }
        let mut send = Scratch::of(bytes_of(&own));
        let mut recv = Scratch::new(N * 8 * self.size as usize);
        let operation =
            Operation::Allgather { send: Some(send.buffer()), recv: Parts::Uniform(recv.buffer()) };
        self.run(operation)?;
        let words = words_of(recv.bytes());
        Ok(words.chunks_exact(N).map(|chunk| std::array::from_fn(|i| chunk[i])).collect())
    }

    /// The values of rank 0.
    pub(crate) fn tell<const N: usize>(&self, own: [u64; N]) -> Result<[u64; N], Fault> {
        if self.size == 1 {
            return Ok(own);
        }
        let mut memory = Scratch::of(bytes_of(&own));
        self.run(Operation::Bcast { buffer: memory.buffer(), root: 0 })?;
        let words = words_of(memory.bytes());
        Ok(std::array::from_fn(|i| words[i]))
    }

    /// Bytes that rank 0 has; all know how many.
    pub(crate) fn tell_bytes(&self, own: Vec<u8>) -> Result<Vec<u8>, Fault> {
        if self.size == 1 {
            return Ok(own);
        }
        let mut memory = Scratch::of(own);
        self.run(Operation::Bcast { buffer: memory.buffer(), root: 0 })?;
        Ok(memory.bytes().to_vec())
    }

    /// A word to each process, and one from each.
    pub(crate) fn swap(&self, own: &[u64]) -> Result<Vec<u64>, Fault> {
        let mut send = Scratch::of(bytes_of(own));
        let mut recv = Scratch::new(send.bytes().len());
        let (send, to) = (Parts::Uniform(send.buffer()), Parts::Uniform(recv.buffer()));
        self.run(Operation::Alltoall { send: Some(send), recv: to })?;
        Ok(words_of(recv.bytes()))
    }

    /// Bytes to each process, and some from each; both sides have made room for them.
    pub(crate) fn exchange(&self, send: &mut [Scratch], recv: &mut [Scratch]) -> Result<(), Fault> {
        let parts = |all: &mut [Scratch]| Parts::Each(all.iter_mut().map(Scratch::buffer).collect());
        self.run(Operation::Alltoall { send: Some(parts(send)), recv: parts(recv) })
    }
}

/// Words as bytes.
pub(super) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes as words; a rest is left out.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i]))).collect()
}

/// The fault of a message of a file's process that cannot be.
pub(super) fn nonsense() -> Fault {
    fault(
        MPI_ERR_INTERN,
        format_args!("a process of the file sent a list of pieces that no correct one sends"),
    )
}
