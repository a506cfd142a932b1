//! What a process asks of the launcher that has started it, whichever that is.
//!
//! One trait for `ayatori run`, the launchers that speak PMI-1 ([`crate::pmi`]) and those that speak PMIx
//! ([`crate::pmix`]). The runtime of the library knows nothing else of launchers.
//!
//! ```text
//!   put … ─► fence ─► get of what others have put ─► … ─► fence_while ─► finalize
//! ```
//!
//! A process that goes on after that ([`resume`](Launcher::resume)) owes another `finalize`, and no fence.
//!
//! Each process puts values under keys of its own: a key is fetched with the rank that has put it, because
//! PMIx asks that process's host for it. A value put before a fence can be fetched at any time after it.

use crate::pmi::spawn::Part;
use crate::{pmi, pmix};
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// Why talking to the launcher failed.
#[derive(Debug)]
pub enum Error {
    /// Over PMI-1.
    Pmi(pmi::Error),
    /// Over PMIx.
    Pmix(pmix::Error),
    /// A value was asked for of a process that the job does not have. No launcher is asked: the server of
    /// Slurm 22.05 crashes at it.
    NoSuchRank {
        /// The rank that was named.
        rank: u32,
        /// Processes of the job.
        size: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pmi(error) => error.fmt(f),
            Self::Pmix(error) => error.fmt(f),
            Self::NoSuchRank { rank, size } => {
                write!(f, "a value of rank {rank} was asked for in a job of {size} processes")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pmi(error) => error.source(),
            Self::Pmix(error) => error.source(),
            Self::NoSuchRank { .. } => None,
        }
    }
}

impl From<pmi::Error> for Error {
    fn from(error: pmi::Error) -> Self {
        Self::Pmi(error)
    }
}

impl From<pmix::Error> for Error {
    fn from(error: pmix::Error) -> Self {
        Self::Pmix(error)
    }
}

/// That a job of so many processes has this rank.
///
/// # Errors
/// It has not.
pub(crate) fn check_rank(rank: u32, size: u32) -> Result<(), Error> {
    if rank < size { Ok(()) } else { Err(Error::NoSuchRank { rank, size }) }
}

/// A value that a process has put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The rank that has put it.
    pub rank: u32,
    /// Under which key.
    pub key: String,
}

/// The launcher of this process. Dropping it without [`finalize`](Launcher::finalize) tells it that the
/// process has failed.
///
/// Every method fails where the launcher is gone, refuses, or answers nonsense.
pub trait Launcher: Send + fmt::Debug {
    /// Rank in the job.
    fn rank(&self) -> u32;

    /// Processes of the job.
    fn size(&self) -> u32;

    /// A number for the host of each process, by rank; processes with the same number share a host. `None`:
    /// the launcher does not say.
    ///
    /// # Errors
    /// As for every request.
    fn nodes(&mut self) -> Result<Option<Vec<u32>>, Error>;

    /// Which part of a `prog1 : prog2` command line this process belongs to (`MPI_APPNUM`), where known.
    fn appnum(&mut self) -> Option<i32>;

    /// How many processes the job could have (`MPI_UNIVERSE_SIZE`), where known.
    fn universe_size(&mut self) -> Option<i32>;

    /// Longest value it takes, in bytes.
    fn value_bytes_max(&self) -> usize;

    /// Stores a value, which others see after the next fence.
    ///
    /// # Errors
    /// As for every request; a key or value that is too long or holds a space or newline.
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error>;

    /// Waits until every process of the job is here. Then all that was put can be fetched.
    ///
    /// # Errors
    /// As for every request.
    fn fence(&mut self) -> Result<(), Error>;

    /// The same, with work meanwhile: it calls `meanwhile`, which returns the time until its next call, until
    /// all ranks have arrived, or until it breaks because going on is useless. Fetches nothing.
    ///
    /// # Errors
    /// As for every request.
    fn fence_while(&mut self, meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>) -> Result<(), Error>;

    /// Fetches a value; `None` where that process has stored none under this key.
    ///
    /// # Errors
    /// As for every request.
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, Error>;

    /// Fetches many, in their order.
    ///
    /// # Errors
    /// As for every request.
    fn get_all(&mut self, names: &[Name]) -> Result<Vec<Option<String>>, Error> {
        names.iter().map(|name| self.get(name.rank, &name.key)).collect()
    }

    /// Publishes where a service is (`MPI_Publish_name`).
    ///
    /// # Errors
    /// As for every request; the name is taken.
    fn publish(&mut self, service: &str, port: &str) -> Result<(), Error>;

    /// Takes a published name back (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// As for every request; the name was not published.
    fn unpublish(&mut self, service: &str) -> Result<(), Error>;

    /// Where a service is (`MPI_Lookup_name`); `None` if it is not published.
    ///
    /// # Errors
    /// As for every request.
    fn lookup(&mut self, service: &str) -> Result<Option<String>, Error>;

    /// The name of the job, which no other job of this launcher has, nor one of another launcher: drawn at
    /// random or made of its host and process.
    fn job_name(&self) -> &str;

    /// Has the launcher start processes with these values given to them (`MPI_Comm_spawn`); all or none.
    ///
    /// # Errors
    /// As for every request; the launcher cannot start processes, or not these.
    fn spawn(&mut self, parts: &[Part], values: &[(&str, &str)]) -> Result<(), Error>;

    /// A value given by the processes that started this one with [`spawn`](Launcher::spawn). `None`: none.
    ///
    /// # Errors
    /// As for every request.
    fn given(&mut self, key: &str) -> Result<Option<String>, Error>;

    /// Has a function called with the rank of each process of the job that the launcher reports as failed,
    /// from a thread of the launcher's. Launchers that report none take it and call it never.
    fn on_failure(&mut self, notify: Box<dyn Fn(u32) + Send>);

    /// Says that this process needs the launcher no more and may exit.
    ///
    /// # Errors
    /// As for every request.
    fn finalize(&mut self) -> Result<(), Error>;

    /// Comes back after [`finalize`](Self::finalize): from now on the process owes another one. `false`: the
    /// launcher does not take it back, and answers no more.
    fn resume(&mut self) -> bool {
        false
    }

    /// Asks the launcher to end the job. This process exits next, or is ended.
    ///
    /// # Errors
    /// The launcher is gone.
    fn abort(&mut self, exitcode: i32, message: Option<&str>) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_beyond_the_job_is_refused_by_name() {
        assert!(check_rank(2, 3).is_ok());
        let error = check_rank(1 << 20, 3).expect_err("no such rank");
        assert_eq!(error.to_string(), "a value of rank 1048576 was asked for in a job of 3 processes");
    }
}
