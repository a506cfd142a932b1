//! The start of a job in simulated time, from the first agent's command to the launcher's end.
//!
//! These parts are real: the tree of agents ([`crate::tree`]), the launcher's [supervisor](crate::supervisor)
//! with its PMI server, and the requests that a rank's PMI client sends, as bytes. These are modelled: the
//! time of each step ([`Costs`]), processors (each host's, or one machine's for all), the connections between
//! hosts, and that a process asks for many cards at once in parts of [`cards_at_once`](Costs::cards_at_once),
//! whose answers are not made one by one. Nothing fails, and nothing else runs on the hosts.
//!
//! ```text
//!   launcher: starts agents ─► order ─► agent: starts agents, forks ranks ─► rank: boots, asks, waits …
//!      ▲ PMI requests of all ranks, relayed by each agent on the way; answers go the same way back
//! ```
//!
//! Times are whole picoseconds, as in the simulator of networks; the same input gives the same times
//! everywhere.

mod costs;
mod rank;
mod start;
mod world;

pub use costs::{Costs, MEASURED, Measured};
pub use start::{Outcome, Processors, Start};

use crate::error::Error;
use world::World;

/// Most ranks of a start that is simulated.
const RANKS_MAX: usize = 1 << 20;

/// Simulates a start.
///
/// # Errors
/// Such a job cannot be. The protocol does not come to its end: an error in the model or in the launcher.
pub fn simulate(start: &Start, costs: &Costs) -> anyhow::Result<Outcome> {
    let (ranks, hosts) = (start.ranks_count, start.hosts_count);
    if ranks == 0 || hosts == 0 || hosts > ranks {
        return Err(Error::usage(format!("{ranks} ranks on {hosts} hosts: each host needs a rank")));
    }
    if ranks > RANKS_MAX {
        return Err(Error::usage(format!("{ranks} ranks; a job has at most {RANKS_MAX}")));
    }
    World::new(start, costs).run()
}

#[cfg(test)]
mod tests;
