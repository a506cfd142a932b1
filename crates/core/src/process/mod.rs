//! One MPI process as a state machine.

mod buffered;
mod collective;
mod commands;
mod direct;
mod explain;
mod inputs;
mod make_comm;
mod meet;
mod outputs;
mod pacing;
mod partitioned;
mod rma;
#[cfg(test)]
mod tests;

use crate::buffer::Piece;
use crate::coll::Pool;
use crate::coll::running::Woken;
use crate::comm::Communicator;
use crate::device::Gap;
use crate::error::Error;
use crate::ids::{CommId, ContextId, ProcessId, Rail, RequestId};
use crate::link::{LinkIndex, Links, TrunkConfig};
use crate::matching::{Places, Posted as PostedReceives, Unexpected};
use crate::partitioned::Run;
use crate::request::{Completion, Request, State, Status};
use crate::rma::Rma;
use crate::slab::Slab;
use crate::transfer::Transfers;
use crate::wire::{Envelope, Keys};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
pub use collective::CollectiveId;
use direct::Direct;
pub use meet::OtherLeader;
pub use pacing::GapRule;

/// What a user may set.
#[derive(Clone, Copy, Default, Debug)]
pub struct Config {
    /// Longest eager message in bytes, instead of what each rail says.
    pub eager_bytes_max: Option<usize>,
    /// For links over rails that can break.
    pub trunk: TrunkConfig,
    /// The gaps of messages that have none of their own.
    pub gap: GapRule,
    /// Registrations that are kept at most for messages to come. 0, the default: none; only for owners that
    /// watch memory being unmapped and call [`Process::invalidate_memory`].
    pub registrations_count_max: usize,
}

/// Something that happened and concerns no single request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessEvent {
    /// A peer can no longer be talked to; every operation with it has ended with this error.
    PeerLost(ProcessId, Error),
}

/// A message taken out of matching by [`Process::improbe`] (`MPI_Message`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageId(pub RequestId);

/// A place for a communicator.
enum CommSlot {
    Free,
    /// Of a communicator being made.
    Reserved,
    Live(Communicator),
}

/// A message that has arrived and is not matched (or is held by a matched probe).
pub(crate) struct Arrival {
    envelope: Envelope,
    /// `None`: from ourselves.
    link: Option<LinkIndex>,
    /// `None` once out of matching.
    places: Option<Places>,
    body: Body,
}

enum Body {
    /// Eager; `sync`: the sender's request, to be told of the match.
    Eager { data: Stored, sync: Option<RequestId> },
    /// Announced by the sender's request.
    Rts { sender: RequestId, length: u64, keys: Keys, offers_packets: bool },
    /// A send of our own, still in its buffer.
    Local { request: RequestId, length: u64 },
}

/// A copy of an eager message.
enum Stored {
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
    fn length(&self) -> u64 {
        match &self.body {
            Body::Eager { data, .. } => data.piece().len() as u64,
            Body::Rts { length, .. } | Body::Local { length, .. } => *length,
        }
    }

    fn status(&self) -> Status {
        Status {
            source: crate::request::Origin::Rank(self.envelope.source),
            tag: Some(self.envelope.tag),
            bytes: self.length(),
            cancelled: false,
        }
    }
}

/// One MPI process: matching, protocols, requests, communicators. No globals; not generic; every method that
/// may talk takes the [`Device`](crate::device::Device).
///
/// # Contract
///
/// 1. *Getters* look and change nothing.
/// 2. *Commands* (`isend`, `irecv`, `cancel`, …) start something and return at once: [`Posted::Done`] or a
///    [`RequestId`]. A command may already send.
/// 3. *Inputs* (`handle_packet`, `handle_completion`, `handle_peer_gone`, …) report what a device has polled.
/// 4. *Outputs*: `poll_transmit` gives the device what waits to be sent and moved (call it after inputs, and
///    again after the device was full), `poll_timeout` says when to call `handle_timeout`, `poll_event`
///    reports what concerns no request, `take` ends a request.
///
/// [`progress`](Process::progress) does the usual round: poll the device dry, handle, transmit. Nothing here
/// blocks; who waits and how is the runtime's business. The same device must be given every time.
///
/// [`Posted::Done`]: crate::request::Posted::Done
pub struct Process {
    me: ProcessId,
    /// The first process of this one's world.
    first: ProcessId,
    config: Config,
    links: Links,
    transfers: Transfers,
    requests: Slab<Request>,
    posted: PostedReceives,
    unexpected: Unexpected,
    arrivals: Slab<Arrival>,
    /// Free memory for unexpected messages.
    spare: Vec<Vec<u8>>,
    comms: Vec<CommSlot>,
    next_context: u32,
    /// The receive whose caller waits for it.
    direct: Direct,
    direct_completion: Completion,
    /// The gap of the message being sent, and those of communicators that have one.
    message_gap: Option<Gap>,
    comm_gaps: Vec<(ContextId, Gap)>,
    /// Those of communicators that are being made.
    early_gaps: Vec<(CommId, Gap)>,
    /// Messages of collective operations that have ended.
    woken: VecDeque<Woken>,
    /// Memory of schedules that have ended.
    pool: Pool,
    /// Windows.
    rma: Rma,
    /// Peers that can no longer be talked to.
    lost: Vec<(ProcessId, Error)>,
    events: VecDeque<ProcessEvent>,
    buffered: crate::bsend::AttachedBuffers,
    completion_count: u64,
    /// Messages that came before anybody wanted them.
    arrival_count: u64,
    /// Steps of collective operations that call a function of the user's are left for later.
    puts_off_user_functions: bool,
}

/// Getters.
impl Process {
    /// A process `me` of a job of `world_count`, knowing `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub fn new(me: ProcessId, world_count: u32, config: Config) -> Self {
        Self::of_world(ProcessId(0), me, world_count, config)
    }

    /// The same of a world of `world_count` processes whose first one is `first`: one of several worlds
    /// whose processes may meet ([`icomm_inter_of_groups`](Self::icomm_inter_of_groups)), and so all have
    /// different numbers.
    pub fn of_world(first: ProcessId, me: ProcessId, world_count: u32, config: Config) -> Self {
        assert!(me.0.checked_sub(first.0).is_some_and(|rank| rank < world_count), "{me} of {world_count}");
        assert!(first.0.checked_add(world_count).is_some_and(|end| end <= 1 << 31), "numbers below 2^31");
        Self {
            me,
            first,
            config,
            links: Links::new(first, config.trunk, config.eager_bytes_max),
            transfers: Transfers::new(config.registrations_count_max),
            requests: Slab::new(),
            posted: PostedReceives::new(),
            unexpected: Unexpected::new(),
            arrivals: Slab::new(),
            spare: Vec::new(),
            comms: [Communicator::world(first, me, world_count), Communicator::only(me)]
                .map(CommSlot::Live)
                .into(),
            next_context: 2,
            direct: Direct::None,
            direct_completion: Completion::EMPTY,
            message_gap: None,
            comm_gaps: Vec::new(),
            early_gaps: Vec::new(),
            woken: VecDeque::new(),
            pool: Pool::default(),
            rma: Rma::new(),
            lost: Vec::new(),
            events: VecDeque::new(),
            buffered: crate::bsend::AttachedBuffers::default(),
            completion_count: 0,
            arrival_count: 0,
            puts_off_user_functions: false,
        }
    }

    /// Whether the process has links whose rails can break, and so wants
    /// [`handle_timeout`](Self::handle_timeout) with the time before each round of progress (a coarse clock
    /// will do: 10 µs).
    #[inline]
    pub fn wants_time(&self) -> bool {
        self.links.want_time()
    }

    /// Whether every peer has acknowledged all that was sent to it: what a process waits for before it ends.
    pub fn is_quiet(&self) -> bool {
        self.links.are_quiet()
    }

    /// Whether something may have to be done at once while nobody calls: there are requests (also those that
    /// are over and not taken, or not started), windows that others may access, or packets that wait. Quick,
    /// and so not exact. Later something may be due if the process [`wants_time`](Self::wants_time), too.
    #[inline]
    pub fn is_busy(&self) -> bool {
        !self.requests.is_empty() | self.wants_transmit()
    }

    /// Whether data of long messages is on its way, out or in. Looks at every request: for who has nothing
    /// else to do.
    pub fn is_moving_data(&self) -> bool {
        self.transfers.are_moving_data()
    }

    /// The rails to a peer and their health; nothing if the link to it needs no such care.
    pub fn rail_health(&self, peer: ProcessId) -> Vec<(Rail, crate::link::Health)> {
        self.links.index_of(peer).map(|index| self.links.get(index).health()).unwrap_or_default()
    }

    /// Which process this is.
    pub fn me(&self) -> ProcessId {
        self.me
    }

    /// The first process of its world.
    pub fn first(&self) -> ProcessId {
        self.first
    }

    /// A communicator this process is a member of.
    #[inline]
    pub fn comm(&self, comm: CommId) -> Result<&Communicator, Error> {
        match self.comms.get(comm.0 as usize) {
            Some(CommSlot::Live(communicator)) => Ok(communicator),
            _ => Err(Error::Comm),
        }
    }

    fn comm_mut(&mut self, comm: CommId) -> Result<&mut Communicator, Error> {
        match self.comms.get_mut(comm.0 as usize) {
            Some(CommSlot::Live(communicator)) => Ok(communicator),
            _ => Err(Error::Comm),
        }
    }

    /// Whether a request is over ([`take`](Self::take) would give its completion).
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Complete(_) | State::Inactive) => true,
            Some(State::Started(crate::request::Posted::Pending(child))) => self.is_complete(*child),
            Some(State::Started(crate::request::Posted::Done(_))) => true,
            Some(State::Partitioned(of)) => partitioned::outcome(of).is_some(),
            _ => false,
        }
    }

    /// Whether a request is persistent and not started (`MPI_Start` may be called, waiting returns at once).
    pub fn is_inactive(&self, id: RequestId) -> bool {
        match self.requests.get(id).map(|request| &request.state) {
            Some(State::Inactive) => true,
            Some(State::Partitioned(of)) => matches!(of.run, Run::Inactive),
            _ => false,
        }
    }

    /// The request with a [name](RequestId::name), if it is alive, the user's and not part of another.
    #[inline]
    pub fn named(&self, name: u32) -> Option<RequestId> {
        let (id, request) = self.requests.at(RequestId::index_of(name))?;
        let is_users = request.parent.is_none() && !request.detached;
        (is_users && id.name() == Some(name)).then_some(id)
    }

    /// Whether there is such a request.
    pub fn is_request(&self, id: RequestId) -> bool {
        self.requests.get(id).is_some()
    }

    /// Counts completions: unchanged means that testing again is useless.
    #[inline]
    pub fn completion_count(&self) -> u64 {
        self.completion_count
    }

    /// Counts completions and unexpected messages: unchanged means that neither testing nor probing again is
    /// of use.
    #[inline]
    pub fn news_count(&self) -> u64 {
        self.completion_count.wrapping_add(self.arrival_count)
    }

    /// How many requests exist, receives are posted, and messages wait unmatched.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.requests.len() - usize::from(self.rma.has_windows()),
            posted: self.posted.len(),
            unexpected: self.unexpected.len(),
            links: self.links.iter().count(),
            operations: self.transfers.operations_count(),
        }
    }

    /// The eager credit held for and owed to a peer, in cells: for tests that no credit leaks.
    pub fn credit(&self, peer: ProcessId) -> Option<(u32, u32)> {
        Some(self.links.get(self.links.index_of(peer)?).credit())
    }
}

/// See [`Process::counts`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Requests not yet taken.
    pub requests: usize,
    /// Posted receives.
    pub posted: usize,
    /// Unexpected messages.
    pub unexpected: usize,
    /// Peers talked to.
    pub links: usize,
    /// Puts and gets under way.
    pub operations: usize,
}

/// Shared by commands and inputs.
impl Process {
    /// Ends a request: its completion waits for the owner, or goes to the parent, or nobody wants it.
    fn complete(&mut self, id: RequestId, completion: Completion) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.state = State::Complete(completion);
        self.completion_count += 1;
        if request.is_watched() {
            self.clear_away(id, &completion);
        }
    }

    /// What else the end of some requests means.
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
            let result = match parent {
                crate::rma::PARENT => self.rma.result_of(step.0, completion),
                _ => (*completion).into(),
            };
            self.woken.push_back(Woken { parent, step, result });
        }
    }

    /// Memory is about to be unmapped (or has just been): registrations of it that are kept are ended, those
    /// in use when their messages are. Without effect where none are kept.
    pub fn invalidate_memory<D: crate::device::Device>(&mut self, device: &mut D, base: usize, len: usize) {
        self.transfers.invalidate_memory(device, base, len);
    }
}
