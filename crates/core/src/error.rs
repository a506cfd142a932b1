//! Errors, sorted by whose fault they are.
//!
//! Our own bugs are assertions. A caller's mistake is an [`Error`] with one variant per MPI error class. A
//! peer's misbehaviour is [`Error::PeerMisbehaved`] and never a panic. A dead rail is an event and failover;
//! a dead process is [`Error::ProcessAborted`] at every operation that needs it.

use crate::ids::{ProcessId, Rank};
use core::fmt;

/// Errors, from the caller's point of view. The C boundary maps variants to MPI error classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// `MPI_ERR_BUFFER`: buffered send without enough attached buffer space.
    BufferExhausted {
        /// Bytes the message needs, with its bookkeeping.
        needed_bytes: usize,
        /// Largest free run in the attached buffer.
        free_bytes: usize,
    },
    /// `MPI_ERR_BUFFER`: two buffers of one call share memory.
    BuffersOverlap,
    /// `MPI_ERR_COUNT`.
    Count,
    /// `MPI_ERR_TYPE`.
    Type,
    /// `MPI_ERR_TAG`.
    Tag(i32),
    /// `MPI_ERR_COMM`: no such communicator.
    Comm,
    /// `MPI_ERR_RANK`: not a rank of the communicator or group.
    Rank {
        /// The value given.
        rank: i64,
        /// The communicator's size.
        size: u32,
    },
    /// `MPIX_ERR_REVOKED`: the communicator is revoked.
    Revoked,
    /// `MPIX_ERR_PROC_FAILED`: a member of the communicator has failed, and not all members have acknowledged
    /// that; or this one counts as failed.
    MembersFailed,
    /// `MPIX_ERR_PROC_FAILED_PENDING`: the receive goes on, but the message may have been one of this
    /// process, which has failed.
    FailedPending(ProcessId),
    /// `MPI_ERR_REQUEST`: no such request, or not in the state the call needs.
    Request,
    /// `MPI_ERR_ROOT`.
    Root {
        /// The value given.
        root: i64,
        /// The communicator's size.
        size: u32,
    },
    /// `MPI_ERR_GROUP`.
    Group,
    /// `MPI_ERR_OP`: the operation is not defined on the type.
    Op,
    /// `MPI_ERR_TRUNCATE`: the message is longer than the receive buffer; what fits was received.
    Truncate {
        /// Length of the message.
        message_bytes: u64,
        /// Length of the receive buffer.
        buffer_bytes: u64,
    },
    /// `MPI_ERR_OTHER` for a ready-mode message that found no posted receive.
    NotReady,
    /// `MPI_ERR_ARG`.
    Argument(&'static str),
    /// The members of a communicator call different collective operations, or with arguments that do not fit
    /// one another: found in check mode.
    Unlike {
        /// The difference.
        what: Difference,
        /// The member that differs.
        rank: Rank,
        /// Its value.
        theirs: u64,
        /// The value that others have, or expect.
        others: u64,
    },
    /// `MPI_ERR_WIN`: no such window.
    Window,
    /// `MPI_ERR_RMA_RANGE`: the memory is not in the target's window.
    WindowRange,
    /// `MPI_ERR_PROC_ABORTED`: the other process is gone.
    ProcessAborted(ProcessId),
    /// No rail reaches the process.
    Unreachable(ProcessId),
    /// `MPI_ERR_IO` and its like: an operation on a file failed. The core starts none; its requests' owners
    /// do.
    File {
        /// The operating system's number of the error.
        errno: i32,
        /// Which file, as its owner names it.
        file: u32,
    },
    /// A peer sent what no correct peer sends. It is cut off; its operations end with this.
    PeerMisbehaved {
        /// The peer.
        peer: ProcessId,
        /// The fault.
        what: &'static str,
    },
}

/// In what the calls of two members differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Which operation, counted in [`Collective::ALL`](crate::coll::Collective::ALL).
    Call,
    /// The root.
    Root,
    /// The reduction operation.
    Reduction,
    /// How many bytes all give alike.
    Bytes,
    /// The types of the data; the numbers are bytes.
    Types,
    /// How many bytes another expects of this one.
    ExpectedBytes,
    /// The types that another expects of this one.
    ExpectedTypes,
    /// The call of this one has failed.
    Failed,
}

impl Difference {
    pub(crate) const ALL: [Self; 8] = [
        Self::Call,
        Self::Root,
        Self::Reduction,
        Self::Bytes,
        Self::Types,
        Self::ExpectedBytes,
        Self::ExpectedTypes,
        Self::Failed,
    ];

    /// Says that `rank` has `theirs` where others have `others`.
    fn write(self, f: &mut fmt::Formatter<'_>, (rank, theirs, others): (Rank, u64, u64)) -> fmt::Result {
        match self {
            Self::Call => write!(f, "rank {rank} calls another collective operation than rank 0"),
            Self::Root => write!(f, "rank {rank} gives root {theirs} where rank 0 gives root {others}"),
            Self::Reduction => write!(f, "rank {rank} gives another reduction operation than rank 0"),
            Self::Bytes => {
                write!(f, "rank {rank} gives data of {theirs} bytes where lower ranks give {others} bytes")
            }
            Self::Types => {
                write!(f, "rank {rank} gives {theirs} bytes of other types than lower ranks do")
            }
            Self::ExpectedBytes => {
                write!(f, "rank {rank} gives data of {theirs} bytes where {others} bytes are expected of it")
            }
            Self::ExpectedTypes => {
                write!(f, "rank {rank} gives {theirs} bytes of other types than are expected of it")
            }
            Self::Failed => write!(f, "the call of rank {rank} has failed before it began"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferExhausted { needed_bytes, free_bytes } => write!(
                f,
                "the attached buffer has no room: the message needs {needed_bytes} bytes, {free_bytes} are free in one run"
            ),
            Self::BuffersOverlap => {
                write!(f, "send and receive buffer overlap; give MPI_IN_PLACE to work in one buffer")
            }
            Self::Count => write!(f, "the count is negative or too large"),
            Self::Type => write!(f, "the datatype does not fit here"),
            Self::Tag(tag) => write!(f, "tag {tag} is not between 0 and MPI_TAG_UB"),
            Self::Comm => write!(f, "no such communicator"),
            Self::Revoked => write!(f, "the communicator is revoked"),
            Self::MembersFailed => write!(f, "a member has failed, and not all have acknowledged that"),
            Self::FailedPending(peer) => write!(f, "{peer} is gone, and may be whose message is waited for"),
            Self::Rank { rank, size } => {
                write!(f, "rank {rank} is not between 0 and {}", size.saturating_sub(1))
            }
            Self::Request => write!(f, "no such request, or not in a state for this call"),
            Self::Root { root, size } => {
                write!(f, "root {root} is not between 0 and {}", size.saturating_sub(1))
            }
            Self::Group => write!(f, "the group does not fit here"),
            Self::Op => write!(f, "the operation is not defined on this datatype"),
            Self::Truncate { message_bytes, buffer_bytes } => write!(
                f,
                "a message of {message_bytes} bytes arrived for a receive buffer of {buffer_bytes} bytes"
            ),
            Self::NotReady => write!(f, "a ready-mode message found no posted receive"),
            Self::Argument(what) => write!(f, "{what}"),
            Self::Unlike { what, rank, theirs, others } => what.write(f, (rank, theirs, others)),
            Self::Window => write!(f, "no such window"),
            Self::WindowRange => write!(f, "the memory of an operation is not in the target's window"),
            Self::ProcessAborted(peer) => write!(f, "{peer} is gone"),
            Self::Unreachable(peer) => write!(f, "no rail reaches {peer}"),
            Self::File { errno, .. } => write!(f, "an operation on a file failed with error {errno}"),
            Self::PeerMisbehaved { peer, what } => {
                write!(f, "{peer} sent what no correct process sends: {what}")
            }
        }
    }
}

impl core::error::Error for Error {}

impl Error {
    /// The same with the process that it names under another number.
    #[must_use]
    pub fn with_process(self, number: impl FnOnce(ProcessId) -> ProcessId) -> Self {
        match self {
            Self::ProcessAborted(peer) => Self::ProcessAborted(number(peer)),
            Self::Unreachable(peer) => Self::Unreachable(number(peer)),
            Self::FailedPending(peer) => Self::FailedPending(number(peer)),
            Self::PeerMisbehaved { peer, what } => Self::PeerMisbehaved { peer: number(peer), what },
            other => other,
        }
    }

    /// The same of an operation that does not go on.
    #[cold]
    pub(crate) fn of_ended(self) -> Self {
        match self {
            Self::FailedPending(peer) => Self::ProcessAborted(peer),
            other => other,
        }
    }

    /// The process that it names.
    pub fn process(&self) -> Option<ProcessId> {
        match *self {
            Self::ProcessAborted(peer)
            | Self::Unreachable(peer)
            | Self::FailedPending(peer)
            | Self::PeerMisbehaved { peer, .. } => Some(peer),
            _ => None,
        }
    }
}

/// An error of a peer that no correct peer makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blame(pub(crate) &'static str);
