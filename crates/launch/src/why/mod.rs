//! Why a job hangs: what its ranks do and wait for, and whether that can end.
//!
//! ```text
//!   find      jobs on this host: what /proc says, and the launchers of jobs on several hosts
//!   look      one host: the words that ranks write at every call, and the answers of those that can  ──► HostReport
//!   watch     in the host loop: notes now and then what ranks do; looks when the controller asks
//!   listen    in the controller: where `ayatori why` asks about all hosts
//!   report    what comes of all hosts, as plain data; what each rank is doing
//!   graph     who waits for whom (all of these, any of these); who can never go on; the cycle; what does not fit
//!   words     needs and findings in words
//!   show      table and verdict for people, or JSON
//!   printing  the same where the launcher gets SIGUSR1
//!   examine   all of it for one job: what `ayatori why` calls
//! ```
//!
//! All but `find`, `look`, `watch` and `listen` are functions of data and tested as such. The ranks' side is
//! `devices/src/shm/watch.rs` and `mpi/src/why.rs`. Two looks make one report: a rank that moved between them
//! is not stuck.

pub mod examine;
pub(crate) mod find;
pub(crate) mod graph;
pub(crate) mod listen;
pub(crate) mod look;
pub(crate) mod printing;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod watch;
pub(crate) mod words;

#[cfg(test)]
mod tests;
