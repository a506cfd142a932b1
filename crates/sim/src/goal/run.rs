//! GOAL as a workload.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ayatori_core::Error;
use ayatori_core::ids::{Source, TagSelector};
use ayatori_core::request::Status;

use super::{Kind, Schedule, dependents};
use crate::cluster::Mpi;

type Wait = Pin<Box<dyn Future<Output = Result<Status, Error>>>>;

/// What a rank has to do still.
struct Progress {
    dependents: Vec<[Vec<u32>; 2]>,
    missing: Vec<usize>,
    ready: VecDeque<u32>,
}

impl Progress {
    /// One thing that the waiting ones of a list needed has happened.
    fn release(&mut self, index: u32, which: usize) {
        for who in std::mem::take(&mut self.dependents[index as usize][which]) {
            self.missing[who as usize] -= 1;
            if self.missing[who as usize] == 0 {
                self.ready.push_back(who);
            }
        }
    }
}

/// Runs this rank's part of a schedule with MPI's non-blocking calls. Ready operations start in the order in
/// which they became ready; sends and receives go on side by side; a calculation takes the process.
///
/// # Errors
/// What MPI says.
pub async fn run_rank(mpi: Mpi, schedule: Rc<Schedule>) -> Result<(), Error> {
    let Some(operations) = schedule.ranks.get(mpi.rank() as usize) else { return Ok(()) };
    let missing: Vec<usize> =
        operations.iter().map(|op| op.requires.len() + op.requires_start.len()).collect();
    let ready = (0..operations.len() as u32).filter(|&index| missing[index as usize] == 0).collect();
    let mut progress = Progress { dependents: dependents(operations), missing, ready };
    let mut waits: Vec<(u32, Wait)> = Vec::new();
    loop {
        while let Some(index) = progress.ready.pop_front() {
            progress.release(index, 1);
            let request = match operations[index as usize].kind {
                Kind::Calculate { time_ns } => {
                    mpi.compute(time_ns.saturating_mul(1_000));
                    progress.release(index, 0);
                    continue;
                }
                Kind::Send { bytes, to, tag } => mpi.isend(to, tag as i32, bytes)?,
                Kind::Receive { bytes, from, tag } => {
                    let tag = tag.map_or(TagSelector::Any, |tag| TagSelector::Tag(tag as i32));
                    mpi.irecv_any(from.map_or(Source::Any, Source::Rank), tag, bytes)?
                }
            };
            let mpi = mpi.clone();
            waits.push((index, Box::pin(async move { mpi.wait(request).await })));
        }
        if waits.is_empty() {
            return Ok(());
        }
        for (index, result) in any_done(&mut waits).await {
            result?;
            progress.release(index, 0);
        }
    }
}

/// Waits until at least one has ended; takes out all that have.
async fn any_done(waits: &mut Vec<(u32, Wait)>) -> Vec<(u32, Result<Status, Error>)> {
    poll_fn(|context| {
        let mut done = Vec::new();
        waits.retain_mut(|(index, wait)| match wait.as_mut().poll(context) {
            Poll::Ready(result) => {
                done.push((*index, result));
                false
            }
            Poll::Pending => true,
        });
        if done.is_empty() { Poll::Pending } else { Poll::Ready(done) }
    })
    .await
}
