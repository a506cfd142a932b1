//! What calls tell the engine's thread, and what it answers.

use crate::abi::MPI_Request;
use crate::operation::Operation;
use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::ids::{CommId, Rank, Source, Tag, TagSelector};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{Completion, PROC_NULL, Posted, SendMode, Status};
use std::sync::Arc;

use crate::runtime::machine::Machine;
use crate::runtime::net::on_device;

/// A message to be sent or received.
#[derive(Clone, Copy)]
pub(crate) enum Post {
    Send { comm: CommId, buffer: Buffer, dest: Rank, tag: Tag, mode: SendMode },
    Receive { comm: CommId, buffer: Buffer, source: Source, tag: TagSelector },
}

// SAFETY: a plan goes to the engine's thread within a command. Its buffer is used there from then on until the response, and
// by calls only where they have borrowed the machine, under its lock: by one thread at a time, as buffers ask for.
unsafe impl Send for Post {}

impl Post {
    /// How it ends where there is nobody to talk to.
    pub(crate) fn without_peer(&self) -> Option<Completion> {
        match self {
            Self::Send { dest: PROC_NULL, .. } => Some(Completion::EMPTY),
            Self::Receive { source: Source::Rank(PROC_NULL), .. } => {
                Some(Completion { status: Status::PROC_NULL, error: None })
            }
            _ => None,
        }
    }

    /// Starts it.
    #[inline]
    pub(crate) fn begin(self, machine: &mut Machine) -> Result<Posted, Error> {
        let Machine { core, device, .. } = machine;
        match self {
            Self::Send { comm, buffer, dest, tag, mode } => {
                on_device!(device, |device| core.isend(device, comm, buffer, dest, tag, mode))
            }
            Self::Receive { comm, buffer, source, tag } => {
                on_device!(device, |device| core.irecv(device, comm, buffer, source, tag))
            }
        }
    }
}

/// Commands, and responses, under way at most.
pub(super) const QUEUE_CAPACITY: u32 = 256;
/// Up to this length in bytes a message is copied into its command.
pub(super) const COPY_BYTES_MAX: usize = 128;
/// Copies that wait for credit at most; beyond it, senders wait themselves.
pub(super) const COPIES_KEPT_MAX: u32 = 256;

/// What a call wants.
#[allow(clippy::large_enum_variant)] // The largest is the most frequent, and lives in the queue.
pub(super) enum Command {
    /// Starts what the request stands for.
    Post(MPI_Request, Post),
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
    pub(super) fn is_short(&self) -> bool {
        match self {
            Self::Copy { .. } => true,
            Self::Post(_, Post::Send { buffer, .. }) => buffer.len() <= SHORT_BYTES_MAX,
            Self::Post(_, Post::Receive { .. }) => true,
            Self::Collective { is_blocking, .. } => *is_blocking,
        }
    }
}

/// An operation is over.
pub(crate) struct Response {
    pub(crate) request: MPI_Request,
    pub(crate) completion: Completion,
}
