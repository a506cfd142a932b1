//! Why a job hangs: what its ranks do and wait for, and whether that can end.
//!
//! ```text
//!   find    jobs on this host: what /proc says, and the launchers of jobs on several hosts
//!   look    one host: the words that ranks write at every call, and the answers of those that can  ──► HostReport
//!   report  what comes of all hosts, as plain data; what each rank is doing
//!   graph   who waits for whom (all of these, any of these); who can never go on; the cycle; what does not fit
//!   words   table and verdict for people
//!   show    table and verdict for people, or JSON
//! ```
//!
//! All but `find` and `look` are functions of data and tested as such. The ranks' side is `devices/src/shm/watch.rs` and
//! `mpi/src/why.rs`. Two looks make one report: who has moved between them is not stuck.

pub(crate) mod find;
pub(crate) mod graph;
pub(crate) mod look;
pub(crate) mod report;
pub(crate) mod show;
#[cfg(test)]
mod tests;
pub(crate) mod words;
