//! `ayatori run`: starts N processes of an MPI program, here or on several hosts (`cluster/`), and stays until the job
//! has ended.
//!
//! One thread, one epoll. What has state and no system calls is apart and tested as such: the PMI-1 server
//! (`pmi.rs`), the joining of output (`output.rs`), the words and codes of an ending (`ending.rs`).
//!
//! ```text
//!  args ── JobSpec ──► Job ──── epoll ◄──── signals (self-pipe), --timeout
//!                       │        ▲ ▲ ▲
//!   place (CPUs)        │        │ │ └──── PMI socket of each rank ◄─► pmi::Server
//!   spawn (fork, exec) ─┘        │ └────── stdout, stderr of each rank ──► output::Outputs ──► ours
//!   guard (outlives us)          └──────── our terminal ──► stdin of rank 0
//! ```
//!
//! Nothing of a job survives it. Each rank has a process group and dies with the launcher; the launcher adopts what
//! ranks leave behind (child subreaper) and ends it when the job is over; if the launcher itself is killed, the guard
//! does it. The shared segment has no name (see [`ayatori_launch::environment`]).

mod args;
mod cluster;
mod ending;
pub(crate) mod guard;
mod job;
mod output;
pub(crate) mod place;
mod pmi;
mod signals;
mod spawn;
mod stdin;
mod why;

pub(crate) use args::{Args, normalise};
pub(crate) use cluster::{AgentArgs, run_agent};
pub(crate) use spawn::ranks_max;

use crate::exit::Exit;
use std::sync::OnceLock;

/// Starts the job and stays until it has ended.
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let spec = args::JobSpec::from_args(args)?;
    job::run(&spec)
}

/// This machine's name.
pub(crate) fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
