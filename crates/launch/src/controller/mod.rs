//! The controller: runs a job over the host loops of its hosts, from its first process to its last.
//!
//! ```text
//!   run ──(ssh host, ip netns exec host …)──► ayatori agent = host loop ──► ranks of that host
//!    │  ◄── frames over the agent's stdin and stdout ──►  │   PMI socket, stdout, stderr, stdin of rank 0
//!    │
//!    └── a job on this host alone: the host loop is called in this process; messages are values
//!
//!   Message ──► Supervisor (what becomes of the job; PMI server) ──► Action ──► Message
//!           └─► Outputs (lines) ──► standard output and error
//! ```
//!
//! The relay (`relay.rs`) holds the channels to the agents. Beyond [`crate::tree::BRANCH_COUNT_DEFAULT`]
//! hosts some agents start others and relay for them. Here this matters only for the hosts that are lost
//! together with another.
//!
//! Everything between hosts that is not a message of the program goes over the agents' channels: PMI, output,
//! signals, ends. So the launcher has no port, and the job's key, which ranks fetch by PMI, travels where ssh
//! protects it. An agent that dies, closes, or is silent for [`crate::silence::SILENCE_MAX`] ends the job.

mod describe;
mod inquiry;
mod run;
mod worlds;

pub use describe::describe;
pub use run::run;
pub use run::worlds::run_world;
pub use worlds::NAME as WORLD_NAME;
