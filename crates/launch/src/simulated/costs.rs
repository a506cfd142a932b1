//! Costs of each step, and measurements of whole starts.

use crate::pmi::wire::VALUE_MAX_BYTES;
use serde::{Deserialize, Serialize};

/// How long the parts of a start take, in microseconds of a processor where nothing else is said, and what a
/// rank holds. The default is of the machine of `docs/bench.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// To start the launcher, and to end it.
    pub launcher_us: f64,
    /// To start the command of an agent, in the process that does.
    pub agent_command_us: f64,
    /// To log in, before the agent's program begins: time that uses no CPU. 0 for a fork.
    pub login_us: f64,
    /// From the begin of the agent's program to its greeting, and to end it.
    pub agent_us: f64,
    /// To fork a rank, in its agent (or in the launcher, where there is none).
    pub fork_us: f64,
    /// From there to its first PMI request: loading the program and the library.
    pub load_us: f64,
    /// `MPI_Init` without what it waits for.
    pub init_us: f64,
    /// The same, more on several hosts: listening, rails, sockets.
    pub network_us: f64,
    /// The same, more for each other rank of its host.
    pub init_neighbour_us: f64,
    /// To read a business card and judge its rails, in the first rank of a host.
    pub card_us: f64,
    /// From `MPI_Finalize` to the end of the process.
    pub exit_us: f64,
    /// To notice and report the end of a rank, in its agent.
    pub reap_us: f64,
    /// To read or write a frame, or a request of a rank, in an agent or the launcher.
    pub frame_us: f64,
    /// To answer a PMI request, in the launcher.
    pub request_us: f64,
    /// A frame's bytes, each time they are copied, for 1,000 of them.
    pub kilobyte_us: f64,
    /// From one host to the next: time that uses no CPU.
    pub latency_us: f64,
    /// Rate of a host's connection, in Gbit/s.
    pub gbit_per_s: f64,
    /// Length of a business card, in bytes.
    pub card_bytes: usize,
    /// Length of an order without its data per rank: environment and command line.
    pub order_bytes: usize,
    /// Cards that a process asks for before it reads an answer.
    pub cards_at_once: usize,
    /// Memory of a rank of a job on one host, without what grows with the job, in KiB.
    pub rank_kib: f64,
    /// The same, more on several hosts.
    pub rank_network_kib: f64,
    /// For each other rank of its host, in bytes.
    pub neighbour_bytes: f64,
    /// For each other rank of the job, in bytes.
    pub peer_bytes: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            launcher_us: 8_000.0,
            agent_command_us: 600.0,
            login_us: 0.0,
            agent_us: 7_000.0,
            fork_us: 700.0,
            load_us: 900.0,
            init_us: 500.0,
            network_us: 1_700.0,
            init_neighbour_us: 2.0,
            card_us: 8.0,
            exit_us: 500.0,
            reap_us: 40.0,
            frame_us: 6.0,
            request_us: 2.0,
            kilobyte_us: 0.3,
            latency_us: 5.0,
            gbit_per_s: 10.0,
            card_bytes: 120,
            order_bytes: 8_000,
            cards_at_once: 32,
            rank_kib: 4_800.0,
            rank_network_kib: 550.0,
            neighbour_bytes: 200.0,
            peer_bytes: 8.0,
        }
    }
}

impl Costs {
    /// Refuses what is no cost.
    ///
    /// # Errors
    /// One is negative or no number; a connection has no rate; a card does not fit PMI.
    pub fn check(&self) -> Result<(), String> {
        let all = serde_json::to_value(self).unwrap_or_default();
        for (name, value) in all.as_object().into_iter().flatten() {
            if !value.as_f64().is_some_and(|number| number >= 0.0) {
                return Err(format!("{name} is not a number of at least 0"));
            }
        }
        if self.gbit_per_s == 0.0 {
            return Err("gbit_per_s is 0".to_owned());
        }
        if !(1..=VALUE_MAX_BYTES).contains(&self.card_bytes) {
            return Err(format!("card_bytes is not within 1 and {VALUE_MAX_BYTES}"));
        }
        Ok(())
    }
}

/// A start as `cargo xtask bench --only start` has measured it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Processes.
    pub ranks_count: usize,
    /// Hosts, which were agents on one machine of two processors, all started by the launcher.
    pub hosts_count: usize,
    /// From start to end of the launcher.
    pub seconds: f64,
    /// The most that a rank held; not measured for all.
    pub peak_mib: Option<f64>,
    /// The default costs were fitted to it.
    pub is_fitted: bool,
}

/// The table of `docs/bench.md`.
pub const MEASURED: [Measured; 8] = [
    measured(32, 1, 0.05, Some(4.7), true),
    measured(32, 10, 0.13, Some(5.3), true),
    measured(256, 1, 0.41, Some(4.7), true),
    measured(256, 10, 0.75, Some(5.2), true),
    measured(256, 100, 1.1, Some(5.4), true),
    measured(1000, 1, 3.1, Some(4.9), false),
    measured(1000, 10, 3.2, Some(5.2), false),
    measured(1000, 100, 4.8, None, false),
];

const fn measured(
    ranks_count: usize,
    hosts_count: usize,
    seconds: f64,
    peak_mib: Option<f64>,
    is_fitted: bool,
) -> Measured {
    Measured { ranks_count, hosts_count, seconds, peak_mib, is_fitted }
}
