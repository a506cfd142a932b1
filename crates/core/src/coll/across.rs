//! Collective operations of inter-communicators (MPI-5.0 §6.2.3): each group gives its data to the other.
//!
//! A schedule here runs among the members of both groups, numbered as [`Across`] says. Inside a group it
//! appends the schedule of the intra-communicator with its ranks translated. A reduction is thus one in its
//! group, a message between the two leaders (rank 0 of each), and a broadcast in the other group.

use super::select::Collective;
use super::{Blocks, Builder, Choice, Context, OTHER_LENGTHS, Pool, Schedule};
use crate::buffer::Buffer;
pub use crate::comm::Across;
use crate::error::Error;
use crate::ids::Rank;
use crate::op::Reducer;

/// The part of a process in an operation with a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `MPI_ROOT`.
    Root,
    /// `MPI_PROC_NULL`: in the root's group, and not the root.
    None,
    /// In the other group; the root's rank.
    Remote(Rank),
}

/// Chooses an algorithm from the operation, the number of processes, the length, and whether the reduction
/// commutes.
pub type Choose<'a> = &'a mut dyn FnMut(Collective, u32, usize, bool) -> Choice;

impl Across {
    /// All members.
    pub const fn all(&self) -> Context {
        Context { rank: self.local(self.rank), size: self.size + self.remote_size }
    }

    const fn group(&self) -> Context {
        Context { rank: self.rank, size: self.size }
    }

    const fn leads(&self) -> bool {
        self.rank == 0
    }

    fn check_root(&self, part: Part) -> Result<(), Error> {
        match part {
            Part::Remote(root) if root >= self.remote_size => {
                Err(Error::Root { root: root.into(), size: self.remote_size })
            }
            _ => Ok(()),
        }
    }
}

/// For a schedule without memory of its own, which could be virtual.
const HAS_NO_SCRATCH: bool = false;

const LACKS: Error = Error::Argument("an operation between groups lacks a buffer");

/// No process leaves before all of both groups have entered.
///
/// # Errors
/// [`Error::Argument`] for an algorithm of another operation.
pub fn barrier(pool: &mut Pool, at: Across, choose: Choose<'_>) -> Result<Schedule, Error> {
    let all = at.all();
    let choice = choose(Collective::Barrier, all.size, 0, true);
    super::barrier(pool, all, choice)
}

/// Sends the root's `buffer` into those of all members of the other group.
///
/// # Errors
/// [`Error::Root`].
pub fn bcast(
    pool: &mut Pool,
    at: Across,
    buffer: Buffer,
    part: Part,
    choose: Choose<'_>,
) -> Result<Schedule, Error> {
    at.check_root(part)?;
    let mut builder = Builder::new(pool, buffer.is_virtual());
    // Among the root and its receivers: the root is rank 0, each receiver one more than in its group.
    let (rank, size) = match part {
        Part::None => return Ok(builder.finish()),
        Part::Root => (0, 1 + at.remote_size),
        Part::Remote(_) => (1 + at.rank, 1 + at.size),
    };
    let choice = choose(Collective::Bcast, size, buffer.len(), true);
    let schedule = super::bcast(pool, Context { rank, size }, buffer, 0, choice)?;
    builder.append(pool, schedule, |rank| match (part, rank.checked_sub(1)) {
        (Part::Root, Some(receiver)) => at.remote(receiver),
        (Part::Remote(root), None) => at.remote(root),
        (_, receiver) => at.local(receiver.unwrap_or(at.rank)),
    });
    Ok(builder.finish())
}

/// Brings the `send` of each member of the other group into the blocks of `recv` at the root.
///
/// # Errors
/// [`Error::Root`]; [`Error::Argument`] for buffers that are missing or do not fit each other.
pub fn gather(
    pool: &mut Pool,
    at: Across,
    send: Option<Buffer>,
    recv: Option<Blocks<'_>>,
    part: Part,
) -> Result<Schedule, Error> {
    at.check_root(part)?;
    let mut builder = Builder::new(pool, HAS_NO_SCRATCH);
    match part {
        Part::None => {}
        Part::Root => receive_from_all(&mut builder, at, recv.ok_or(LACKS)?)?,
        Part::Remote(root) => send_some(&mut builder, at.remote(root), send.ok_or(LACKS)?),
    }
    Ok(builder.finish())
}

/// Brings the blocks of the root's `send` into the `recv` of each member of the other group.
///
/// # Errors
/// As [`gather`].
pub fn scatter(
    pool: &mut Pool,
    at: Across,
    send: Option<Blocks<'_>>,
    recv: Option<Buffer>,
    part: Part,
) -> Result<Schedule, Error> {
    at.check_root(part)?;
    let mut builder = Builder::new(pool, HAS_NO_SCRATCH);
    match part {
        Part::None => {}
        Part::Root => {
            let send = send.ok_or(LACKS)?;
            send.check(at.remote_size)?;
            for rank in 0..at.remote_size {
                send_some(&mut builder, at.remote(rank), send.get(rank, at.remote_size));
            }
        }
        Part::Remote(root) => receive_some(&mut builder, at.remote(root), recv.ok_or(LACKS)?),
    }
    Ok(builder.finish())
}

/// Brings the `send` of each member of the other group into the blocks of each member's `recv`.
///
/// # Errors
/// [`Error::Argument`] for buffers that do not fit each other.
pub fn allgather(
    pool: &mut Pool,
    at: Across,
    send: Buffer,
    recv: Blocks<'_>,
    choose: Choose<'_>,
) -> Result<Schedule, Error> {
    recv.check(at.remote_size)?;
    let mut builder = Builder::new(pool, recv.is_virtual());
    send_some(&mut builder, at.remote(0), send);
    // Only the leader knows the blocks' lengths, so the leader receives the blocks.
    let all = match recv {
        Blocks::Uniform(all) => all,
        Blocks::Each(_) => builder.scratch(recv.total_bytes()),
    };
    let mut offset = 0;
    let mut places = alloc::vec::Vec::with_capacity(at.remote_size as usize);
    for rank in 0..at.remote_size {
        let block = recv.get(rank, at.remote_size);
        places.push((all.part(offset, block.len()), block));
        offset += block.len();
    }
    if at.leads() {
        for (rank, (place, _)) in places.iter().enumerate() {
            receive_some(&mut builder, at.remote(rank as Rank), *place);
        }
    }
    append_bcast(&mut builder, pool, at, all, choose)?;
    if matches!(recv, Blocks::Each(_)) {
        builder.fence();
        places.into_iter().for_each(|(place, block)| builder.copy(place, block));
    }
    Ok(builder.finish())
}

/// Exchanges a block with each process of the other group.
///
/// # Errors
/// [`Error::Argument`] for buffers that do not fit each other.
pub fn alltoall(pool: &mut Pool, at: Across, send: Blocks<'_>, recv: Blocks<'_>) -> Result<Schedule, Error> {
    send.check(at.remote_size)?;
    recv.check(at.remote_size)?;
    let mut builder = Builder::new(pool, HAS_NO_SCRATCH);
    // Each begins elsewhere, so that not all send to one.
    for step in 0..at.remote_size {
        let rank = super::wrap(u64::from(at.rank) + u64::from(step), at.remote_size);
        receive_some(&mut builder, at.remote(rank), recv.get(rank, at.remote_size));
        send_some(&mut builder, at.remote(rank), send.get(rank, at.remote_size));
    }
    Ok(builder.finish())
}

/// Combines the `send` of all members of the other group into `recv` at the root.
///
/// # Errors
/// [`Error::Root`]; [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that are
/// missing.
pub fn reduce(
    pool: &mut Pool,
    at: Across,
    send: Option<Buffer>,
    recv: Option<Buffer>,
    reducer: &Reducer,
    part: Part,
    choose: Choose<'_>,
) -> Result<Schedule, Error> {
    at.check_root(part)?;
    let is_virtual = send.or(recv).is_some_and(|buffer| buffer.is_virtual());
    let mut builder = Builder::new(pool, is_virtual);
    match part {
        Part::None => {}
        Part::Root => receive_some(&mut builder, at.remote(0), recv.ok_or(LACKS)?),
        Part::Remote(root) => {
            if let Some(sum) = append_reduce(&mut builder, pool, at, send.ok_or(LACKS)?, reducer, choose)? {
                builder.fence();
                send_some(&mut builder, at.remote(root), sum);
            }
        }
    }
    Ok(builder.finish())
}

/// Combines the `send` of all members of the other group into each member's `recv`.
///
/// # Errors
/// [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that do not fit each other.
pub fn allreduce(
    pool: &mut Pool,
    at: Across,
    send: Buffer,
    recv: Buffer,
    reducer: &Reducer,
    choose: Choose<'_>,
) -> Result<Schedule, Error> {
    if send.len() != recv.len() {
        return Err(OTHER_LENGTHS);
    }
    let mut builder = Builder::new(pool, send.is_virtual());
    if let Some(sum) = append_reduce(&mut builder, pool, at, send, reducer, choose)? {
        builder.fence();
        receive_some(&mut builder, at.remote(0), recv);
        send_some(&mut builder, at.remote(0), sum);
    }
    append_bcast(&mut builder, pool, at, recv, choose)?;
    Ok(builder.finish())
}

/// Combines the `send` of all members of the other group. Each member of this group gets its part of the
/// result: `counts_bytes` bytes in the order of ranks.
///
/// # Errors
/// [`Error::Count`] for part of an element; [`Error::Argument`] for buffers that do not fit each other.
pub fn reduce_scatter(
    pool: &mut Pool,
    at: Across,
    send: Buffer,
    recv: Buffer,
    counts_bytes: &[usize],
    reducer: &Reducer,
    choose: Choose<'_>,
) -> Result<Schedule, Error> {
    let total = counts_bytes.iter().try_fold(0usize, |sum, len| sum.checked_add(*len)).ok_or(Error::Count)?;
    let fits = counts_bytes.len() == at.size as usize
        && counts_bytes[at.rank as usize] == recv.len()
        && total == send.len();
    if !fits {
        return Err(OTHER_LENGTHS);
    }
    let mut builder = Builder::new(pool, send.is_virtual());
    let mut blocks = alloc::vec::Vec::new();
    if let Some(sum) = append_reduce(&mut builder, pool, at, send, reducer, choose)? {
        let result = builder.scratch(total);
        builder.fence();
        receive_some(&mut builder, at.remote(0), result);
        send_some(&mut builder, at.remote(0), sum);
        let mut offset = 0;
        for &len in counts_bytes {
            blocks.push(result.part(offset, len));
            offset += len;
        }
    }
    let choice = choose(Collective::Scatterv, at.size, 0, true);
    let send = at.leads().then_some(Blocks::Each(&blocks));
    let schedule = super::scatter(pool, at.group(), send, Some(recv), 0, choice)?;
    builder.append(pool, schedule, |rank| at.local(rank));
    Ok(builder.finish())
}

/// Combines the group's `send`s at its leader, which gets the buffer with the result.
fn append_reduce(
    builder: &mut Builder,
    pool: &mut Pool,
    at: Across,
    send: Buffer,
    reducer: &Reducer,
    choose: Choose<'_>,
) -> Result<Option<Buffer>, Error> {
    let sum = at.leads().then(|| builder.scratch(send.len()));
    let choice = choose(Collective::Reduce, at.size, send.len(), reducer.is_commutative());
    let schedule = super::reduce(pool, at.group(), Some(send), sum, reducer, 0, choice)?;
    builder.append(pool, schedule, |rank| at.local(rank));
    Ok(sum)
}

/// Broadcasts from the group's leader.
fn append_bcast(
    builder: &mut Builder,
    pool: &mut Pool,
    at: Across,
    buffer: Buffer,
    choose: Choose<'_>,
) -> Result<(), Error> {
    let choice = choose(Collective::Bcast, at.size, buffer.len(), true);
    let schedule = super::bcast(pool, at.group(), buffer, 0, choice)?;
    builder.append(pool, schedule, |rank| at.local(rank));
    Ok(())
}

fn receive_from_all(builder: &mut Builder, at: Across, recv: Blocks<'_>) -> Result<(), Error> {
    recv.check(at.remote_size)?;
    for rank in 0..at.remote_size {
        receive_some(builder, at.remote(rank), recv.get(rank, at.remote_size));
    }
    Ok(())
}

fn send_some(builder: &mut Builder, to: Rank, buffer: Buffer) {
    if !buffer.is_empty() {
        builder.send(to, buffer);
    }
}

fn receive_some(builder: &mut Builder, from: Rank, buffer: Buffer) {
    if !buffer.is_empty() {
        builder.receive(from, buffer);
    }
}
