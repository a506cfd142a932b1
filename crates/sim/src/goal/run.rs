//! GOAL as a workload: which operation of a rank runs when, on which CPU.
//!
//! Operations of one stream (one CPU that a rank names) run one after the other: among those that are ready
//! the first of the file. The ranks of a host share its cores: each has one, and what is left goes to those
//! with more streams, one at a time. A rank with fewer cores than streams deals them out, and the streams of
//! a core take turns. Between two operations a core takes in what has arrived.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ayatori_core::Error;
use ayatori_core::ids::{Source, TagSelector};
use ayatori_core::request::Status;

use super::{Kind, Operation, Schedule, dependents};
use crate::cluster::Mpi;

type Wait = Pin<Box<dyn Future<Output = Result<Status, Error>>>>;

/// Of two things that wait for an operation: its end, and its start.
const END: usize = 0;
const START: usize = 1;

/// Runs this rank's part of a schedule with MPI's non-blocking calls.
///
/// # Errors
/// What MPI says; a NIC that hosts do not have.
pub async fn run_rank(mpi: Mpi, schedule: Rc<Schedule>) -> Result<(), Error> {
    let rank = mpi.rank() as usize;
    let (Some(operations), Some(streams)) = (schedule.ranks.get(rank), schedule.streams().get(rank)) else {
        return Ok(());
    };
    if streams.is_empty() {
        return Ok(());
    }
    if schedule.check_nics(mpi.nic_count()).is_err() {
        return Err(Error::Argument("a message names a NIC that hosts do not have"));
    }
    let core_count = core_count(&mpi, schedule.streams());
    mpi.begin_cpus(core_count);
    let mut progress = Progress::new(operations, streams, core_count);
    let outcome = poll_fn(|context| progress.step(&mpi, context)).await;
    mpi.end_cpus();
    outcome
}

/// Cores of this rank.
fn core_count(mpi: &Mpi, streams: &[Vec<u8>]) -> usize {
    let rank = mpi.rank() as usize;
    let (ranks_per_host, cores_of_host) = mpi.host_layout();
    let Some(cores_of_host) = cores_of_host else { return streams[rank].len() };
    let first = rank - rank % ranks_per_host as usize;
    let of_host = streams[first..].iter().take(ranks_per_host as usize).map(Vec::len);
    share(&of_host.collect::<Vec<_>>(), cores_of_host as usize)[rank - first]
}

/// Cores of each rank of a host, by how many streams they have.
fn share(stream_counts: &[usize], core_count: usize) -> Vec<usize> {
    let mut cores = vec![1; stream_counts.len()];
    let mut left = core_count.saturating_sub(cores.len());
    loop {
        let before = left;
        for (own, &wanted) in cores.iter_mut().zip(stream_counts) {
            if left > 0 && *own < wanted {
                (*own, left) = (*own + 1, left - 1);
            }
        }
        if left == before {
            return cores;
        }
    }
}

/// What a rank has to do still.
struct Progress<'a> {
    operations: &'a [Operation],
    dependents: Vec<[Vec<u32>; 2]>,
    missing: Vec<usize>,
    /// The stream of each operation.
    stream_of: Vec<usize>,
    /// By stream.
    ready: Vec<BTreeSet<u32>>,
    core_count: usize,
    /// By core: the stream whose turn it was last.
    last: Vec<usize>,
    waits: Vec<(u32, Wait)>,
    /// Operations that end at a time.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Progress<'a> {
    fn new(operations: &'a [Operation], streams: &[u8], core_count: usize) -> Progress<'a> {
        let stream_of = |operation: &Operation| streams.binary_search(&operation.cpu).unwrap_or(0);
        let mut progress = Progress {
            operations,
            dependents: dependents(operations),
            missing: operations.iter().map(|op| op.requires.len() + op.requires_start.len()).collect(),
            stream_of: operations.iter().map(stream_of).collect(),
            ready: vec![BTreeSet::new(); streams.len()],
            core_count,
            // The first stream of each core begins.
            last: (0..core_count).map(|core| last_stream(core, core_count, streams.len())).collect(),
            waits: Vec::new(),
            ends: BinaryHeap::new(),
        };
        for index in 0..operations.len() {
            if progress.missing[index] == 0 {
                progress.ready[progress.stream_of[index]].insert(index as u32);
            }
        }
        progress
    }

    /// One thing that others needed has happened.
    fn release(&mut self, index: u32, which: usize) {
        for who in std::mem::take(&mut self.dependents[index as usize][which]) {
            self.missing[who as usize] -= 1;
            if self.missing[who as usize] == 0 {
                self.ready[self.stream_of[who as usize]].insert(who);
            }
        }
    }

    /// Does what can be done now.
    fn step(&mut self, mpi: &Mpi, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let now_ps = mpi.network_now_ps();
        loop {
            self.take_ended(mpi, context)?;
            while let Some(&Reverse((time_ps, index))) = self.ends.peek()
                && time_ps <= now_ps
            {
                self.ends.pop();
                self.release(index, END);
            }
            let mut has_started = false;
            for core in 0..self.core_count {
                if mpi.cpu_free_ps(core) <= now_ps
                    && let Some(index) = self.next_of(core)
                {
                    mpi.run_on(core);
                    self.start(mpi, index)?;
                    has_started = true;
                }
            }
            if !has_started {
                break;
            }
        }
        let is_ready = |core: &usize| {
            let mut streams = (*core..self.ready.len()).step_by(self.core_count);
            streams.any(|stream| !self.ready[stream].is_empty())
        };
        let free_ps = (0..self.core_count).filter(is_ready).map(|core| mpi.cpu_free_ps(core)).min();
        let next_ps = free_ps.into_iter().chain(self.ends.peek().map(|end| end.0.0)).min();
        match next_ps {
            Some(time_ps) => mpi.goes_on_at(time_ps),
            None if self.waits.is_empty() => return Poll::Ready(Ok(())),
            None => mpi.waits(),
        }
        Poll::Pending
    }

    /// Sends and receives that are over end when their core has done with them.
    fn take_ended(&mut self, mpi: &Mpi, context: &mut Context<'_>) -> Result<(), Error> {
        let mut index = 0;
        while let Some((operation, wait)) = self.waits.get_mut(index) {
            match wait.as_mut().poll(context) {
                Poll::Ready(result) => {
                    result?;
                    let core = self.stream_of[*operation as usize] % self.core_count;
                    let end_ps = mpi.cpu_done_ps(core);
                    self.ends.push(Reverse((end_ps, *operation)));
                    drop(self.waits.remove(index));
                }
                Poll::Pending => index += 1,
            }
        }
        Ok(())
    }

    /// Takes out the next operation of a core: of the stream whose turn it is, or the next that has one.
    fn next_of(&mut self, core: usize) -> Option<u32> {
        let streams = || (core..self.ready.len()).step_by(self.core_count);
        let last = self.last[core];
        let after = streams().filter(|&stream| stream > last);
        let stream = after
            .chain(streams().filter(|&stream| stream <= last))
            .find(|&stream| !self.ready[stream].is_empty())?;
        self.last[core] = stream;
        self.ready[stream].pop_first()
    }

    fn start(&mut self, mpi: &Mpi, index: u32) -> Result<(), Error> {
        self.release(index, START);
        let Operation { kind, nic, .. } = self.operations[index as usize];
        let request = match kind {
            Kind::Calculate { time_ns } => {
                mpi.compute(time_ns.saturating_mul(1_000));
                self.ends.push(Reverse((mpi.now_ps(), index)));
                return Ok(());
            }
            Kind::Send { bytes, to, tag } => mpi.isend_by(nic, to, tag as i32, bytes)?,
            Kind::Receive { bytes, from, tag } => {
                let tag = tag.map_or(TagSelector::Any, |tag| TagSelector::Tag(tag as i32));
                mpi.irecv_here(from.map_or(Source::Any, Source::Rank), tag, bytes)?
            }
        };
        let (mpi, id) = (mpi.clone(), request.id());
        let wait = async move {
            let status = mpi.wait(request).await;
            mpi.forget_request(id);
            status
        };
        self.waits.push((index, Box::pin(wait)));
        Ok(())
    }
}

/// The highest stream of a core.
fn last_stream(core: usize, core_count: usize, stream_count: usize) -> usize {
    core + stream_count.saturating_sub(core + 1) / core_count * core_count
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn each_rank_has_a_core_and_the_rest_goes_to_who_wants_more() {
        assert_eq!(share(&[3, 1], 4), [3, 1]);
        assert_eq!(share(&[3, 1, 3], 5), [2, 1, 2]);
        assert_eq!(share(&[3, 3], 5), [3, 2]);
        assert_eq!(share(&[2, 2], 100), [2, 2]);
        assert_eq!(share(&[4, 1], 1), [1, 1]);
        assert_eq!(share(&[0, 2], 3), [1, 2]);
    }
}
