//! Progress mode *offload*: a thread of ours owns the engine, and calls talk to it through two queues
//! (Comet's command and response queues, P5).
//!
//! ```text
//!   calls                                              the engine's thread (thread.rs)
//!   remote.rs   ── commands: send, receive, start ──►   executor.rs ── isend, irecv, … ──►  Machine (core, device)
//!   requests    ◄── responses: request, completion ──                ◄── progress ────────
//! ```
//!
//! A call that starts something writes a command and goes on; a short message is copied into the command, so
//! that its sender is done with it. The thread executes commands in their order, makes progress all the time,
//! and writes a response for each operation that is over, which calls find when they look. The command queue
//! is bounded; the thread never waits for room among the responses (it keeps those for which there is none),
//! so it always empties it.
//!
//! Rare calls do not go through the queues: they *borrow* the engine (`Process::engine` does it, and gives it
//! back when the call releases the process). A borrower waits until the thread has ended its round; commands
//! given before are executed first, so order is kept. Calls that borrow: making and freeing of communicators,
//! probes, cancelling, buffered and paced sends, `MPI_Isendrecv`, all calls about requests made in another
//! mode, and collective operations with a function of the user's: such functions never run in the thread.
//!
//! A call that waits has nothing else to do with its CPU, so it does the thread's rounds itself
//! (`Process::stand_in`): a message then takes no switch between threads. The thread sleeps meanwhile, and
//! the caller executes a short command itself (`step_in`). When the last such call ends, or has waited so
//! long that it sleeps, it leaves the thread asleep where arrivals wake it, or wakes it if there is work
//! (`leave_to_thread`). If another call already stands in, a call looks for responses, yields, then sleeps
//! until it is woken for an arrival ([`super::helper::Resting`]). No call holds the process while it waits.
//! The thread waits awake only if it has a CPU for itself and no call waits.
//!
//! A call that releases the machine while the thread sleeps calls `leave_to_thread`, at once or, if calls
//! wait, when the last of them ends: so every command and every arrival has a thread that handles it.
//!
//! While the mode is in force `Engine::own` is empty but while a call borrows, the gate is in its concurrent
//! mode, and calls have a [`Remote`] instead. Locks: the gate, then the machine's (`back.rs`).

mod back;
mod command;
mod executor;
mod flags;
mod remote;
mod ring;
mod thread;

pub(super) use back::end_wait;
pub(crate) use command::Response;
pub(super) use remote::Remote;
pub(crate) use thread::UnderWay;
pub(super) use thread::{enter, leave};
