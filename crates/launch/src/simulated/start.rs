//! Input and outcome of a simulation.

use crate::tree::BRANCH_COUNT_DEFAULT;

/// A job whose start is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Processes, in blocks on the hosts.
    pub ranks_count: usize,
    /// Hosts. One host is the launcher's own, without an agent.
    pub hosts_count: usize,
    /// Agents that the launcher, and each agent, starts at most; below 2: the launcher starts all.
    pub branch_count: usize,
    /// Processors of each host; or of one machine that all hosts are, the launcher's too.
    pub processors: Processors,
}

/// Where the processors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// Each host has so many, the launcher's too.
    EachHost(usize),
    /// All hosts are one machine with so many.
    OneMachine(usize),
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Until the last rank has left `MPI_Init`, in ps.
    pub initialised_ps: u64,
    /// Until the launcher has ended, in ps.
    pub elapsed_ps: u64,
    /// Agents that the launcher has started.
    pub connections_count: usize,
    /// Agents one behind another on the way to a rank, at most.
    pub depth: usize,
    /// Frames that the launcher has read and written.
    pub frames_count: u64,
    /// Their bytes.
    pub frames_bytes: u64,
    /// PMI requests that the launcher has answered.
    pub requests_count: u64,
    /// How long the launcher itself was at work, in ps.
    pub busy_ps: u64,
    /// What a rank holds when it has left `MPI_Init`, in bytes, by [`Costs`](super::Costs).
    pub rank_bytes: u64,
}

impl Start {
    /// So many ranks and hosts of so many processors each, as `ayatori run` starts them by ssh.
    pub fn new(ranks_count: usize, hosts_count: usize, processors: usize) -> Self {
        Self {
            ranks_count,
            hosts_count,
            branch_count: BRANCH_COUNT_DEFAULT,
            processors: Processors::EachHost(processors),
        }
    }
}
