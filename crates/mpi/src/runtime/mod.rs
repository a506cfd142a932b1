//! The runtime: start, end and abort of the process, waiting, progress.
//!
//! ```text
//!   start.rs ── launch.rs, cluster.rs, cards.rs: joins the job ──► machine.rs: core, device, clock
//!                                                            ▲
//!   wait.rs: how calls wait ──► the process (`state.rs`) ──► engine.rs: who has the machine now
//!                                                            ▲     ▲
//!   helper.rs: progress while nobody calls ─────────────────┘     offload/: a thread has it
//! ```
//!
//! `sleepers.rs` has the state shared by waiting threads and the threads that wake them; `mode.rs` the
//! progress mode; `net.rs` the device; `exit.rs` the end of a job before its time.

mod cards;
mod cluster;
pub(crate) mod engine;
pub(crate) mod exit;
pub(crate) mod helper;
pub(crate) mod launch;
mod left;
pub(crate) mod machine;
pub(crate) mod mode;
pub(crate) mod net;
pub(crate) mod offload;
pub(crate) mod sleepers;
pub(crate) mod start;
pub(crate) mod wait;
