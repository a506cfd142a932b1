//! Starting MPI jobs, from both sides: the launcher's environment of ranks, and the launcher.
//!
//! **Owns**: the contract between launcher and library ([`environment`]), what a rank asks of any launcher
//! ([`launcher`]), the PMI-1 wire with its client and server ([`pmi`]), PMIx ([`pmix`]), what happens in a
//! rank between fork and exec ([`child`]). With the feature `controller`, which the MPI library does not turn
//! on: the host loop that serves the ranks of one host, the controller that runs a job over host loops, the
//! agent that is a host loop elsewhere, and `why`, which says what a hanging job waits for, and `doctor`,
//! which says what of a machine's settings is in a job's way.
//!
//! **Does not own**: moving messages of the program (`ayatori-devices`), the command line and its words
//! (`ayatori`), the machine description. It starts nothing but the ranks, their agents, and one watchdog a
//! host.
//!
//! **How data flows**: the controller places ranks and sends each host an order. The host loop starts them
//! and sends back what they print, ask their PMI server, and how they end. `supervisor`, a machine without
//! I/O, decides what becomes of the job. A job on one host is a cluster of one whose host loop is in the same
//! process: the same messages, as values and not as bytes. Beyond some hosts the agents are a tree: an agent
//! is a host loop and, where there are hosts behind it, the same relay that the controller has over all.
//!
//! **Where to begin**: `supervisor.rs` for decisions, `host.rs` for what is done to ranks,
//! `controller/mod.rs` for the loop over both, [`environment`] for what a rank sees.
//!
//! ```
//! use ayatori_launch::environment::Launch;
//!
//! // What a rank that `ayatori run` has started finds in its environment.
//! let variables = [("PMI_FD", "5"), ("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("AYATORI_NODE", "0")];
//! let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
//! let lookup = |name: &str| find(name).map(|(_, value)| value.into());
//! let Launch::Pmi1(launch) = Launch::from_environment(lookup, |_descriptor| true) else { panic!() };
//! assert_eq!((launch.rank, launch.size, launch.host.node), (Some(1), Some(4), Some(0)));
//! ```

pub mod child;
pub mod environment;
pub mod launcher;
pub mod pmi;
pub mod pmix;
mod sys;

#[cfg(feature = "controller")]
pub mod agent;
#[cfg(feature = "controller")]
pub mod allocation;
#[cfg(feature = "controller")]
pub mod binary;
#[cfg(feature = "controller")]
mod cause;
#[cfg(feature = "controller")]
mod channel;
#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
pub mod doctor;
#[cfg(feature = "controller")]
pub mod error;
#[cfg(feature = "controller")]
mod host;
#[cfg(feature = "controller")]
pub mod hosts;
#[cfg(feature = "controller")]
mod input;
#[cfg(feature = "controller")]
pub mod machine;
#[cfg(feature = "controller")]
mod output;
#[cfg(feature = "controller")]
pub mod placement;
#[cfg(feature = "controller")]
mod program;
#[cfg(feature = "controller")]
mod pulse;
#[cfg(feature = "controller")]
mod relay;
#[cfg(feature = "controller")]
mod signals;
#[cfg(feature = "controller")]
mod silence;
#[cfg(feature = "controller")]
pub mod simulated;
#[cfg(feature = "controller")]
pub mod spawn;
#[cfg(feature = "controller")]
pub mod spec;
#[cfg(feature = "controller")]
mod status;
#[cfg(feature = "controller")]
pub mod supervisor;
#[cfg(feature = "controller")]
pub mod tree;
#[cfg(feature = "controller")]
pub mod watchdog;
#[cfg(feature = "controller")]
pub mod why;
#[cfg(feature = "controller")]
mod wire;

/// Entry of the fuzz targets: frames between a controller and an agent. A parsed frame can be emitted again,
/// with the same meaning.
#[cfg(all(fuzzing, feature = "controller"))]
pub fn fuzz_agent_frames(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((message, length))) = wire::Message::take(rest) {
        assert!(length <= rest.len());
        rest = &rest[length..];
        let mut again = Vec::new();
        message.emit(&mut again);
        assert_eq!(wire::Message::take(&again), Ok(Some((message, again.len()))));
    }
}
