//! Commands of calls to the engine's thread, and its responses.

use crate::abi::MPI_Request;
use crate::operation::Operation;
use crate::post::Post;
use ayatori_core::ids::{CommId, Rank, Tag};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::Completion;
use std::sync::Arc;

/// Commands, and responses, under way at most.
pub(super) const QUEUE_CAPACITY: u32 = 256;
/// Up to this length in bytes a message is copied into its command.
pub(super) const COPY_BYTES_MAX: usize = 128;
/// Copies that wait for credit at most; beyond it, senders wait themselves.
pub(super) const COPIES_KEPT_MAX: u32 = 256;

/// A call's command.
#[allow(clippy::large_enum_variant)] // The largest is the most frequent, and lives in the queue.
pub(super) enum Command {
    /// Starts what the request stands for.
    Post(MPI_Request, Post),
    /// Sends a short message of standard mode. No call waits for the end.
    Copy { comm: CommId, dest: Rank, tag: Tag, length: u8, bytes: [u8; COPY_BYTES_MAX] },
    /// Starts a collective operation. A blocking one may run in the node's shared memory.
    Collective {
        request: MPI_Request,
        comm: CommId,
        operation: Arc<Operation>,
        /// The id of a persistent operation.
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
            Self::Post(_, Post::Send { data, .. }) => data.len() <= SHORT_BYTES_MAX,
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
