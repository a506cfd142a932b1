//! Point-to-point communication (MPI-5.0 §3): requests, matching, and the messages under way.
//!
//! [`Messages`] is what all other chapters send and receive by: collective operations, windows, partitioned
//! requests. It knows contexts and processes, and neither communicators nor the operations that its messages
//! belong to: a request with a *parent* reports its end in [`Messages::woken`].

mod arrive;
mod buffered;
mod direct;
mod fail;
mod pacing;
mod receive;
mod requests;
mod send;

use crate::bsend::AttachedBuffers;
use crate::buffer::Piece;
use crate::error::Error;
use crate::ids::{ContextId, ProcessId, RequestId};
use crate::link::{LinkIndex, Links, TrunkConfig};
use crate::matching::{Places, Posted as PostedReceives, Unexpected};
use crate::request::{Completion, Origin, Request, Status, Woken};
use crate::slab::Slab;
use crate::transfer::Transfers;
use crate::wire::{Envelope, Keys};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
pub(crate) use direct::Direct;
pub use pacing::GapRule;
pub(crate) use pacing::Gaps;
pub(crate) use receive::{completion_of, receive_key};

/// Settings of the user.
#[derive(Clone, Copy, Default, Debug)]
pub struct Config {
    /// Longest eager message in bytes, instead of what each rail says.
    pub eager_bytes_max: Option<usize>,
    /// For links over rails that can break.
    pub trunk: TrunkConfig,
    /// The gaps of messages that have none of their own.
    pub gap: GapRule,
    /// Registrations that are kept at most for messages to come. 0, the default: none; only for owners that
    /// watch memory being unmapped and call [`invalidate_memory`](crate::Process::invalidate_memory).
    pub registrations_count_max: usize,
    /// The program goes on without processes that fail: a failure only interrupts a receive from any source,
    /// until the failure is acknowledged ([`ack_failed`](crate::survivors::Survivors::ack_failed)).
    pub survives: bool,
}

/// A message taken out of matching by [`improbe`](crate::Process::improbe) (`MPI_Message`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageId(pub RequestId);

/// A message that has arrived and is not matched (or is held by a matched probe).
pub(crate) struct Arrival {
    pub(crate) envelope: Envelope,
    /// `None`: from ourselves.
    pub(crate) link: Option<LinkIndex>,
    /// `None` once out of matching.
    pub(crate) places: Option<Places>,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    /// Eager; `sync`: the sender's request, which learns of the match.
    Eager { data: Stored, sync: Option<RequestId> },
    /// Announced by the sender's request.
    Rts { sender: RequestId, length: u64, keys: Keys, offers_packets: bool },
    /// A send of our own, still in its buffer.
    Local { request: RequestId, length: u64 },
}

/// A copy of an eager message.
pub(crate) enum Stored {
    Bytes(Vec<u8>),
    Virtual(usize),
}

impl Stored {
    fn piece(&self) -> Piece<'_> {
        match self {
            Self::Bytes(bytes) => Piece::Bytes(bytes),
            Self::Virtual(len) => Piece::Virtual(*len),
        }
    }
}

impl Arrival {
    pub(crate) fn length(&self) -> u64 {
        match &self.body {
            Body::Eager { data, .. } => data.piece().len() as u64,
            Body::Rts { length, .. } | Body::Local { length, .. } => *length,
        }
    }

    fn status(&self) -> Status {
        Status {
            source: Origin::Rank(self.envelope.source),
            tag: Some(self.envelope.tag),
            bytes: self.length(),
            cancelled: false,
        }
    }
}

/// The messages of one process: requests, matching, links and transfers.
pub(crate) struct Messages {
    pub(crate) me: ProcessId,
    config: Config,
    pub(crate) links: Links,
    pub(crate) transfers: Transfers,
    pub(crate) requests: Slab<Request>,
    pub(crate) posted: PostedReceives,
    pub(crate) unexpected: Unexpected,
    pub(crate) arrivals: Slab<Arrival>,
    /// Free memory for unexpected messages.
    spare: Vec<Vec<u8>>,
    /// The receive whose caller waits for it.
    pub(crate) direct: Direct,
    pub(crate) direct_completion: Completion,
    pub(crate) gaps: Gaps,
    /// Messages with a parent that have ended.
    pub(crate) woken: VecDeque<Woken>,
    /// Peers that can no longer be talked to.
    pub(crate) lost: Vec<(ProcessId, Error)>,
    /// Contexts with unacknowledged failures, and the error of receives from any source there.
    pub(crate) interrupted: Vec<(ContextId, Error)>,
    /// Sends on revoked communicators whose peers were asked to release them.
    withdrawn: BTreeSet<RequestId>,
    pub(crate) buffered: AttachedBuffers,
    /// Requests that never end, and stand for no operation under way.
    pub(crate) endless_count: usize,
    pub(crate) completion_count: u64,
    /// How many requests have ended with an error, or receives were interrupted.
    pub(crate) failure_count: u64,
    /// Messages that arrived before a matching receive.
    pub(crate) arrival_count: u64,
}

impl Messages {
    pub(crate) fn new(first: ProcessId, me: ProcessId, config: Config) -> Self {
        Self {
            me,
            config,
            links: Links::new([first, me], config.trunk, config.eager_bytes_max),
            transfers: Transfers::new(config.registrations_count_max),
            requests: Slab::new(),
            posted: PostedReceives::new(),
            unexpected: Unexpected::new(),
            arrivals: Slab::new(),
            spare: Vec::new(),
            direct: Direct::None,
            direct_completion: Completion::EMPTY,
            gaps: Gaps::new(config.gap),
            woken: VecDeque::new(),
            lost: Vec::new(),
            interrupted: Vec::new(),
            withdrawn: BTreeSet::new(),
            buffered: AttachedBuffers::default(),
            endless_count: 0,
            completion_count: 0,
            failure_count: 0,
            arrival_count: 0,
        }
    }

    /// Requests that stand for operations, and the receive that waits without one.
    #[inline]
    pub(crate) fn operations_count(&self) -> usize {
        self.requests.len() - self.endless_count + usize::from(self.direct.awaits().is_some())
    }

    /// Whether there is anything to give to the device.
    #[inline]
    pub(crate) fn wants_transmit(&self) -> bool {
        // No short circuit: a branch each costs more than the loads.
        self.links.has_output() | self.transfers.has_output() | !self.woken.is_empty()
    }

    /// Ends a request: its completion waits for the owner, goes to the parent, or is dropped.
    pub(crate) fn complete(&mut self, id: RequestId, completion: Completion) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = crate::request::State::Complete(completion);
        self.completion_count += 1;
        if completion.error.is_some() {
            self.failure_count += 1;
        }
        if request.is_watched() {
            self.clear_away(id, &completion);
        }
    }

    /// Further effects of the end of some requests.
    fn clear_away(&mut self, id: RequestId, completion: &Completion) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let extra = request.extra.as_mut();
        if let Some(place) = extra.and_then(|extra| extra.buffered.take()) {
            self.buffered.release(place);
        }
        let parent = request.parent;
        if request.detached || parent.is_some() {
            self.requests.remove(id);
        }
        if let Some((parent, step)) = parent {
            self.woken.push_back(Woken { parent, step, completion: *completion });
        }
    }

    /// Completes the requests whose transfers have ended.
    #[inline]
    pub(crate) fn complete_transfers(&mut self) {
        while let Some((request, completion)) = self.transfers.poll_ended() {
            self.complete(request, completion);
        }
    }
}
