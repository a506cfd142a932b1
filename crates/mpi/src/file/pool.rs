//! Threads that read and write for calls that do not wait (MPI-5.0 §14.4.5), and their requests.

use super::sys::Errno;
use crate::abi::MPI_File;
use crate::lock::locked;
use crate::runtime::sleepers;
use ayatori_core::Error;
use ayatori_core::request::{Completion, Status};
use ayatori_devices::threads;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Operations that go on at the same time. More wait for their turn.
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<Job>,
    threads_count: usize,
    idle_count: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), threads_count: 0, idle_count: 0 });
static MORE: Condvar = Condvar::new();

/// An operation that a thread has, or has had.
pub(crate) struct Operation {
    outcome: Arc<OnceLock<Result<usize, Errno>>>,
    file: MPI_File,
    /// For explanations of what a call waits for.
    what: String,
}

impl Operation {
    /// Has a thread do it; where there can be none, does it.
    pub(crate) fn start(
        file: MPI_File,
        what: String,
        work: impl FnOnce() -> Result<usize, Errno> + Send + 'static,
    ) -> Self {
        let outcome = Arc::new(OnceLock::new());
        let operation = Self { outcome: outcome.clone(), file, what };
        sleepers::begin_outside();
        submit(Box::new(move || {
            let _ = outcome.set(work());
            sleepers::end_outside();
        }));
        operation
    }

    /// One that is over.
    pub(crate) fn over(file: MPI_File, outcome: Result<usize, Errno>) -> Self {
        Self { outcome: Arc::new(OnceLock::from(outcome)), file, what: String::new() }
    }

    /// How it ended, if it has.
    pub(crate) fn completion(&self) -> Option<Completion> {
        Some(match *self.outcome.get()? {
            Ok(bytes) => Completion { status: Status { bytes: bytes as u64, ..Status::EMPTY }, error: None },
            Err(Errno(errno)) => {
                let error = Error::File { errno, file: self.file.0 as u32 };
                Completion { error: Some(error), ..Completion::EMPTY }
            }
        })
    }

    /// Description of its work.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }
}

fn submit(job: Job) {
    let mut queue = locked(&QUEUE);
    queue.jobs.push_back(job);
    if queue.idle_count >= queue.jobs.len() || queue.threads_count == THREADS_MAX {
        MORE.notify_one();
        return;
    }
    queue.threads_count += 1;
    if threads::start("ayatori-file", work).is_err() {
        queue.threads_count -= 1;
        if queue.threads_count == 0
            && let Some(job) = queue.jobs.pop_back()
        {
            drop(queue);
            job();
        }
    }
}

/// A thread.
fn work() {
    let mut queue = locked(&QUEUE);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job();
            queue = locked(&QUEUE);
            continue;
        }
        queue.idle_count += 1;
        queue = MORE.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.idle_count -= 1;
    }
}
