//! Requests: operations under way.
//!
//! ```text
//!                    send                                              receive
//!   Queued ── device took it ──► Complete              Posted ── eager message ──► Complete
//!   AwaitMatch ── Matched ─────► Complete                 │
//!   Offered ── CTS, keys ──► Putting ── puts done, FIN ► Complete
//!      │  └─── CTS, none ──► Streaming ─ last packet ──► Complete
//!      └────── FIN (the receiver got it) ──────────────► Complete
//!      └─── CTS, several rails ──► Spreading ─ all acknowledged ─► Complete
//!                                                         ├─ RTS, keys ─► Getting ── gets done, FIN ─► Complete
//!                                                         └─ RTS, none ─► Receiving ─ FIN or last byte ► Complete
//!                                                         └─ RTS, several rails ─► Gathering ── last unit ──► Complete
//! ```
//!
//! A complete request stays until its owner takes the completion. A persistent one becomes inactive then.

use crate::buffer::Buffer;
use crate::coll::StepId;
use crate::device::Gap;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::link::LinkIndex;
use crate::link::spread::{Gather, Spread};
use crate::link::trunk::Placed;
use crate::matching::Key;
use crate::process::collective::Running;
use crate::time::Instant;
use crate::wire::Keys;
use alloc::boxed::Box;

/// `MPI_PROC_NULL` as a rank: a message to it is sent at once, one from it received at once and empty.
pub const PROC_NULL: Rank = Rank::MAX;

/// What a completed receive (or probe) says about its message.
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
    /// What a receive from `MPI_PROC_NULL` has.
    pub const PROC_NULL: Self = Self { source: Origin::ProcNull, ..Self::EMPTY };
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The status; meaningful with some errors (truncation) too.
    pub status: Status,
    /// What went wrong.
    pub error: Option<Error>,
}

impl Completion {
    /// Success without a message.
    pub const EMPTY: Self = Self { status: Status::EMPTY, error: None };

    pub(crate) const fn failed(error: Error) -> Self {
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

/// What a persistent request does when started.
#[derive(Clone, Copy)]
pub(crate) enum Plan {
    Send { comm: CommId, buffer: Buffer, dest: Rank, tag: Tag, mode: SendMode },
    Receive { comm: CommId, buffer: Buffer, source: Source, tag: TagSelector },
}

/// Data being moved in pieces.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moving {
    /// Length to move in bytes.
    pub(crate) total: u64,
    /// Handed to the device so far.
    pub(crate) issued: u64,
    /// Pieces the device has not completed.
    pub(crate) in_flight: u32,
    /// The other side's memory.
    pub(crate) remote: Keys,
    /// Why the device moves no more of it. What is in flight is waited for.
    pub(crate) failure: Option<Failure>,
}

/// Why gets or puts do not move a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The device cannot do it.
    Refused,
    /// One failed on its way.
    Broken,
}

/// One put of a message that is spread over rails.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// The sender's request, what it puts, and by which rail.
    pub(crate) placed: Placed,
    pub(crate) bytes: u64,
    pub(crate) at: Instant,
}

pub(crate) enum State {
    /// A receive waiting for its message; from `peer` only, if given.
    Posted { key: Key, peer: Option<ProcessId> },
    /// An eager send in the link's queue.
    Queued,
    /// An eager synchronous send waiting to be matched.
    AwaitMatch,
    /// A rendezvous send waiting for the receiver.
    Offered,
    /// A receiver reading; the peer's request gets the FIN.
    Getting { moving: Box<Moving>, sender: RequestId },
    /// A sender writing; the peer's request gets the FIN.
    Putting { moving: Box<Moving>, receiver: RequestId },
    /// A sender streaming packets.
    Streaming { moving: Box<Moving>, receiver: RequestId },
    /// A receiver being written or streamed to.
    Receiving { total: u64, received: u64 },
    /// A sender spreading data over several rails (trunk mode).
    Spreading { spread: Box<Spread>, receiver: RequestId },
    /// A receiver of such data.
    Gathering { gather: Box<Gather> },
    /// One put of a sender's data.
    Transfer(Transfer),
    /// A send to ourselves waiting to be matched.
    Local,
    /// A persistent request, not started.
    Inactive,
    /// A persistent request, started.
    Started(Posted),
    /// A collective operation between two of its messages.
    Collective(Box<Running>),
    /// A collective operation while it is being worked on.
    Elsewhere,
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

/// What rendezvous, buffered and persistent operations keep.
pub(crate) struct Extra {
    /// How the operation will complete once its data has moved.
    pub(crate) completion: Completion,
    /// Own keys to be deregistered at the end.
    pub(crate) registered: Keys,
    /// Silence after each packet of its data.
    pub(crate) gap: Gap,
    /// A buffered send's place in the attached buffer.
    pub(crate) buffered: Option<u64>,
    /// What a persistent request does when started.
    pub(crate) plan: Option<Plan>,
}

impl Request {
    #[inline]
    pub(crate) fn new(state: State, buffer: Buffer, link: Option<LinkIndex>) -> Self {
        Self { state, buffer, link, detached: false, parent: None, extra: None }
    }

    /// Whether its completion concerns more than itself.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.detached || self.parent.is_some() || self.extra.is_some()
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_with(|| {
            Box::new(Extra {
                completion: Completion::EMPTY,
                registered: Keys::default(),
                gap: Gap::NONE,
                buffered: None,
                plan: None,
            })
        })
    }

    /// How the operation completes once its data has moved.
    pub(crate) fn completion(&self) -> Completion {
        self.extra.as_ref().map_or(Completion::EMPTY, |extra| extra.completion)
    }

    pub(crate) fn plan(&self) -> Option<Plan> {
        self.extra.as_ref()?.plan
    }
}
