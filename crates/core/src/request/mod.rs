//! Requests: operations under way.
//!
//! ```text
//!                    send                                       receive
//!   Queued ── device took it ──► Complete       Posted ── eager message ──► Complete
//!   AwaitMatch ── Matched ─────► Complete          └── announced (RTS) ──► Transfer ── ended ──► Complete
//!   Transfer ── ended ─────────► Complete
//! ```
//!
//! [`transfer`](crate::transfer) has the course of a long message. A complete request stays until its owner
//! takes the completion. A persistent one becomes inactive then.

pub(crate) mod partitioned;

use crate::bsend::Place;
use crate::buffer::Buffer;
use crate::coll::StepId;
use crate::coll::running::Running;
use crate::comm::CommHold;
use crate::data::Data;
use crate::error::Error;
use crate::ids::{CommId, ContextId, ProcessId, Rank, RequestId, Source, Tag, TagSelector, TransferId};
use crate::layout::Region;
use crate::link::LinkIndex;
use crate::matching::Key;
use alloc::boxed::Box;
use partitioned::Partitioned;

/// `MPI_PROC_NULL` as a rank: a message to it is sent at once, one from it received at once and empty.
pub const PROC_NULL: Rank = Rank::MAX;

/// Facts about the message of a completed receive (or probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The sender.
    pub source: Origin,
    /// The tag; `None` where there was no message.
    pub tag: Option<Tag>,
    /// Length received, in bytes.
    pub bytes: u64,
    /// Whether the request was cancelled.
    pub cancelled: bool,
}

/// Where a message came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A rank of the communicator.
    Rank(Rank),
    /// `MPI_PROC_NULL`.
    ProcNull,
    /// No message: the empty status' `MPI_ANY_SOURCE`.
    None,
}

impl Status {
    /// The empty status (MPI-5.0 §3.7.3): what sends and inactive requests have.
    pub const EMPTY: Self = Self { source: Origin::None, tag: None, bytes: 0, cancelled: false };
    /// The status of a receive from `MPI_PROC_NULL`.
    pub const PROC_NULL: Self = Self { source: Origin::ProcNull, ..Self::EMPTY };
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The status; meaningful with some errors (truncation) too.
    pub status: Status,
    /// The error.
    pub error: Option<Error>,
}

impl Completion {
    /// Success without a message.
    pub const EMPTY: Self = Self { status: Status::EMPTY, error: None };

    /// Whether it says that a receive goes on although it may wait for a process that has failed. Then the
    /// request is not over.
    pub const fn is_interruption(&self) -> bool {
        matches!(self.error, Some(Error::FailedPending(_)))
    }

    /// That of an operation that has failed.
    pub const fn failed(error: Error) -> Self {
        Self { status: Status::EMPTY, error: Some(error) }
    }
}

/// Answer of a command that starts an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Posted {
    /// It is over; there is no request.
    Done(Completion),
    /// It goes on under this request.
    Pending(RequestId),
}

/// When a send counts as complete (MPI-5.0 §3.4). Ready mode is standard mode here, as it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendMode {
    /// When the buffer may be reused.
    Standard,
    /// When the message has been matched.
    Synchronous,
    /// When the message has been copied to the attached buffer.
    Buffered,
}

/// The operation that a persistent request starts.
#[derive(Clone)]
pub(crate) enum Plan {
    Send { comm: CommId, data: Data, dest: Rank, tag: Tag, mode: SendMode },
    Receive { comm: CommId, data: Data, source: Source, tag: TagSelector },
}

pub(crate) enum State {
    /// A receive waiting for its message; from `peer` only, if given.
    Posted { key: Key, peer: Option<ProcessId> },
    /// An eager send in the link's queue.
    Queued(ContextId),
    /// An eager synchronous send waiting to be matched.
    AwaitMatch(ContextId),
    /// A long message.
    Transfer(TransferId),
    /// A send to ourselves waiting to be matched.
    Local,
    /// A persistent request, not started.
    Inactive,
    /// A persistent request, started.
    Started(Posted),
    /// A collective operation between two of its messages.
    Collective(Box<Running>),
    /// A partitioned send or receive.
    Partitioned(Box<Partitioned>),
    /// An operation of several messages while it is being worked on.
    Elsewhere,
    /// Number of unfinished parts of an operation on a window, and its error.
    Parts(u32, Option<Error>),
    /// Over.
    Complete(Completion),
}

/// A request. Small, because short messages make and end millions of them a second; what only long or rare
/// operations need is in [`Extra`].
pub(crate) struct Request {
    pub(crate) state: State,
    pub(crate) buffer: Buffer,
    pub(crate) link: Option<LinkIndex>,
    /// Freed by its owner: vanishes when complete.
    pub(crate) detached: bool,
    /// Told when this completes.
    pub(crate) parent: Option<(RequestId, StepId)>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// Additional state of buffered and persistent operations, and of those on memory in several pieces.
#[derive(Default)]
pub(crate) struct Extra {
    /// The memory, if it is in several pieces; the request's buffer is empty then.
    pub(crate) region: Option<Region>,
    /// A buffered send's place in the attached buffer.
    pub(crate) buffered: Option<Place>,
    /// The operation that a persistent request starts.
    pub(crate) plan: Option<Plan>,
    /// The communicator of that.
    pub(crate) held: Option<CommHold>,
}

impl Request {
    #[inline]
    pub(crate) fn new(state: State, buffer: Buffer, link: Option<LinkIndex>) -> Self {
        Self { state, buffer, link, detached: false, parent: None, extra: None }
    }

    /// One on memory that may be in several pieces.
    pub(crate) fn on(state: State, data: &Data, link: Option<LinkIndex>) -> Self {
        match data {
            Data::Memory(buffer) => Self::new(state, *buffer, link),
            Data::Region(region) => {
                let mut request = Self::new(state, Buffer::EMPTY, link);
                request.extra_mut().region = Some(region.clone());
                request
            }
        }
    }

    /// The memory.
    pub(crate) fn data(&self) -> Data {
        match self.extra.as_ref().and_then(|extra| extra.region.as_ref()) {
            Some(region) => Data::Region(region.clone()),
            None => Data::Memory(self.buffer),
        }
    }

    /// Length of the memory in bytes, gaps left out.
    pub(crate) fn length_bytes(&self) -> usize {
        let region = self.extra.as_ref().and_then(|extra| extra.region.as_ref());
        region.map_or(self.buffer.len(), Region::len)
    }

    /// Whether its completion concerns more than itself.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.detached || self.parent.is_some() || self.extra.is_some()
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn plan(&self) -> Option<Plan> {
        self.extra.as_ref()?.plan.clone()
    }
}

/// The end of a request that has a parent: whose, which step of it, how.
pub(crate) struct Woken {
    pub(crate) parent: RequestId,
    pub(crate) step: StepId,
    pub(crate) completion: Completion,
}
