//! Progress mode *offload*: a thread of ours owns the engine, and calls talk to it through two queues (Comet's command and
//! response queues, P5).
//!
//! ```text
//!   calls                                            the engine's thread (thread.rs)
//!   front.rs   ── commands: send, receive, start ──►   desk.rs ── isend, irecv, … ──►  Engine (core, device)
//!   requests   ◄── responses: request, completion ──            ◄── progress ────────
//! ```
//!
//! A call that starts something writes a command and goes on; a short message is copied into the command, so that its
//! sender is done with it. The thread executes commands in their order, makes progress all the time, and writes a
//! response for each operation that is over, which calls find when they look. The command queue is bounded; the thread
//! never waits for room among the responses (it keeps those for which there is none), so it always empties it.
//!
//! What is rare does not go through the queues: such a call *borrows* the engine (`Process::engine`
//! does it, and gives it back when the call lets go of the process). The thread steps aside for it. To borrow is to wait
//! until the thread has ended its round; commands given before are executed first, so order is kept. Calls that borrow:
//! making and freeing of communicators, probes, cancelling, buffered and paced sends, `MPI_Isendrecv`, whatever concerns
//! requests made in another mode, and collective operations with a function of the user's: such functions
//! never run in the thread.
//!
//! A call that waits has nothing else to do with its CPU, so it does the thread's rounds itself (`Process::stand_in`): a message
//! then takes no switch between threads. The thread sleeps meanwhile, and a short command is executed by who gives
//! it (`step_in`). When the last such call ends, or has waited in vain for so long that it sleeps, it leaves the thread
//! asleep where arrivals wake it, or wakes it if there is something to do (`leave_to_thread`). Who may not stand in, since
//! another does, looks for responses, yields, then sleeps until he is told that something has come
//! ([`super::helper::Resting`]). Nobody holds the process while he waits. The thread waits awake only where it has a CPU for
//! itself and no call waits.
//!
//! Whoever lets go of the hall while the thread sleeps does `leave_to_thread`, now or, where calls wait, when the last of them ends:
//! so no command and no arrival is left to nobody.
//!
//! While the mode is in force `Process::engine` is empty but for a loan, the gate is in its concurrent mode, and
//! `Process::front` is what calls have instead. Locks: the gate, then the hall's.

mod desk;
mod front;
mod ring;
mod thread;

pub(super) use front::end_wait;
pub(crate) use front::{Afar, Front, Plan, found_nothing, is_active, wait_afar};
pub(super) use thread::{enter, leave};

use crate::abi::MPI_Request;
use crate::collective::Operation;
use ayatori_core::ids::{CommId, Rank, Tag};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::Completion;
use desk::Desk;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::Engine;

/// Commands, and responses, under way at most.
const QUEUE_CAPACITY: u32 = 256;
/// Up to this length in bytes a message is copied into its command.
const COPY_BYTES_MAX: usize = 128;
/// Copies that wait for credit at most; beyond it, senders wait themselves.
const COPIES_KEPT_MAX: u32 = 256;

/// What a call wants.
#[allow(clippy::large_enum_variant)] // The largest is the most frequent, and lives in the queue.
enum Command {
    /// Starts what the request stands for.
    Run(MPI_Request, Plan),
    /// Sends a short message of standard mode. Nobody waits for the end.
    Copy { comm: CommId, dest: Rank, tag: Tag, length: u8, bytes: [u8; COPY_BYTES_MAX] },
    /// Starts a collective operation. A blocking one may run in the node's shared memory.
    Collective {
        request: MPI_Request,
        comm: CommId,
        operation: Arc<Operation>,
        /// Of a persistent operation.
        id: Option<CollectiveId>,
        is_blocking: bool,
    },
}

/// Up to this length in bytes a send is begun by the call itself while the thread sleeps.
const SHORT_BYTES_MAX: usize = 4 << 10;

impl Command {
    /// Whether it takes less time than to wake a thread.
    fn is_short(&self) -> bool {
        match self {
            Self::Copy { .. } => true,
            Self::Run(_, Plan::Send { buffer, .. }) => buffer.len() <= SHORT_BYTES_MAX,
            Self::Run(_, Plan::Receive { .. }) => true,
            Self::Collective { is_blocking, .. } => *is_blocking,
        }
    }
}

/// An operation is over.
struct Response {
    request: MPI_Request,
    completion: Completion,
}

/// What the thread has while it runs. Who locks it may use the engine.
struct Back {
    /// `None`: lent to a call, which holds the lock.
    engine: Option<Engine>,
    desk: Desk,
    /// While the thread sleeps: until when at most.
    sleeps_until: Option<Instant>,
}

// SAFETY: it is used by who holds the hall's lock, by one thread at a time, as the engine's buffers ask for. Nothing in it
// belongs to a thread.
unsafe impl Send for Back {}

/// Where calls and the thread meet.
struct Hall {
    /// `None`: the mode is not in force.
    back: Mutex<Option<Box<Back>>>,
    /// Calls that want to borrow.
    wanted: AtomicU32,
    /// The thread sleeps at the device, or is about to: whoever gives it work wakes it.
    is_asleep: AtomicBool,
    is_stopping: AtomicBool,
    /// A send that nobody waited for has failed: from now on senders wait, to hear of it.
    has_failed: AtomicBool,
    /// Copies that wait for credit.
    copies_kept: AtomicU32,
}

static HALL: Hall = Hall {
    back: Mutex::new(None),
    wanted: AtomicU32::new(0),
    is_asleep: AtomicBool::new(false),
    is_stopping: AtomicBool::new(false),
    has_failed: AtomicBool::new(false),
    copies_kept: AtomicU32::new(0),
};

impl Hall {
    fn lock(&self) -> MutexGuard<'_, Option<Box<Back>>> {
        // A panic in the thread ends the job, so nobody sees what it left.
        self.back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Box<Back>>>> {
        match self.back.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
