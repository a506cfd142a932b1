//! One MPI process as a state machine.

mod commands;
mod explain;
mod inputs;
mod outputs;
#[cfg(test)]
pub(crate) mod tests;

use crate::coll::Pool;
use crate::collective;
pub use crate::collective::{CollectiveId, Collectives, OtherLeader};
use crate::comm::{CommHold, Communicator, Communicators};
use crate::error::Error;
use crate::ids::{CommId, ContextId, ProcessId, Rail, RequestId};
use crate::p2p::Messages;
pub use crate::p2p::{Config, GapRule, MessageId};
use crate::partitioned::Parts;
use crate::rma::Rma;
pub use crate::rma::Windows;
use crate::slab::Slab;
use crate::survive::Survival;
use crate::survivors::Survivors;
use crate::transfer::choose::Way;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Something that happened and concerns no single request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessEvent {
    /// A peer can no longer be talked to; every operation with it has ended with this error.
    PeerLost(ProcessId, Error),
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
/// blocks; waiting is the runtime's task. The same device must be given every time.
///
/// [`Posted::Done`]: crate::request::Posted::Done
// In this order: with the messages at its address the short path takes fewer instructions.
#[repr(C)]
pub struct Process {
    messages: Messages,
    /// The first process of this one's world.
    first: ProcessId,
    comms: Communicators,
    collectives: collective::Own,
    rma: Rma,
    survival: Survival,
    events: VecDeque<ProcessEvent>,
    /// Probes whose callers wait.
    probes: Slab<Probe>,
    /// Times that receives from any source have come to wait for others.
    sources_count: u64,
}

/// A message that a caller waits for without receiving it: of this context, from a process or from any.
struct Probe {
    context: ContextId,
    peer: Option<ProcessId>,
}

/// Getters.
impl Process {
    /// A process `me` of a job of `world_count`, knowing `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub fn new(me: ProcessId, world_count: u32, config: Config) -> Self {
        Self::of_world(ProcessId(0), me, world_count, config)
    }

    /// The same of a world of `world_count` processes whose first one is `first`: one of several worlds
    /// whose processes may meet ([`icomm_inter_of_groups`](Collectives::icomm_inter_of_groups)), so all have
    /// different numbers.
    pub fn of_world(first: ProcessId, me: ProcessId, world_count: u32, config: Config) -> Self {
        assert!(me.0.checked_sub(first.0).is_some_and(|rank| rank < world_count), "{me} of {world_count}");
        assert!(first.0.checked_add(world_count).is_some_and(|end| end <= 1 << 31), "numbers below 2^31");
        Self {
            first,
            messages: Messages::new(first, me, config),
            comms: Communicators::new(first, me, world_count),
            collectives: collective::Own::default(),
            rma: Rma::new(),
            survival: Survival::default(),
            events: VecDeque::new(),
            probes: Slab::new(),
            sources_count: 0,
        }
    }

    /// Whether the process has links whose rails can break, and so wants
    /// [`handle_timeout`](Self::handle_timeout) with the time before each round of progress (a coarse clock
    /// will do: 10 µs).
    #[inline]
    pub fn wants_time(&self) -> bool {
        self.messages.links.want_time()
    }

    /// Whether every peer has acknowledged all that was sent to it: what a process waits for before it ends.
    pub fn is_quiet(&self) -> bool {
        self.messages.links.are_quiet()
    }

    /// Whether there may be work to do at once between calls: there are requests (also those that are over
    /// and not taken, or not started), windows that others may access, or packets that wait. Quick, and so
    /// not exact. Later something may be due if the process [`wants_time`](Self::wants_time), too.
    #[inline]
    pub fn is_busy(&self) -> bool {
        !self.messages.requests.is_empty() | self.wants_transmit()
    }

    /// Whether data of long messages is on its way, out or in. Looks at every transfer: for a caller with
    /// nothing else to do.
    pub fn is_moving_data(&self) -> bool {
        self.messages.transfers.are_moving_data()
    }

    /// The rails to a peer and their health; nothing if the link to it needs no such care.
    pub fn rail_health(&self, peer: ProcessId) -> Vec<(Rail, crate::link::Health)> {
        let links = &self.messages.links;
        links.index_of(peer).map(|index| links.get(index).health()).unwrap_or_default()
    }

    /// Which process this is.
    pub fn me(&self) -> ProcessId {
        self.messages.me
    }

    /// The first process of its world.
    pub fn first(&self) -> ProcessId {
        self.first
    }

    /// A communicator this process is a member of.
    #[inline]
    pub fn comm(&self, comm: CommId) -> Result<&Communicator, Error> {
        self.comms.get(comm)
    }

    /// The same, of one that may be revoked: as one can be that another member has had for a while when it is
    /// made here.
    pub fn comm_or_revoked(&self, comm: CommId) -> Result<&Communicator, Error> {
        self.comms.get_any(comm).map(|(communicator, _)| communicator)
    }

    /// Why collective operations of the communicator cannot succeed any more, if so: a member is lost.
    #[inline]
    pub fn lost_in(&self, comm: CommId) -> Option<Error> {
        if self.messages.lost.is_empty() {
            return None;
        }
        self.comm(comm).ok().and_then(|comm| self.messages.lost_member(comm.members()))
    }

    /// Whether a request is over ([`take`](Self::take) would give its completion).
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        self.messages.is_complete(id)
    }

    /// Whether a request is persistent and not started (`MPI_Start` may be called, waiting returns at once).
    pub fn is_inactive(&self, id: RequestId) -> bool {
        self.messages.is_inactive(id)
    }

    /// The request with a [name](RequestId::name), if it is alive, the user's and not part of another.
    #[inline]
    pub fn named(&self, name: u32) -> Option<RequestId> {
        let (id, request) = self.messages.requests.at(RequestId::index_of(name))?;
        let is_users = request.parent.is_none() && !request.detached;
        (is_users && id.name() == Some(name)).then_some(id)
    }

    /// Whether there is such a request.
    pub fn is_request(&self, id: RequestId) -> bool {
        self.messages.requests.get(id).is_some()
    }

    /// Counts completions: unchanged means that testing again is useless.
    #[inline]
    pub fn completion_count(&self) -> u64 {
        self.messages.completion_count
    }

    /// Counts requests that have ended with an error, and receives from any source that a failure has
    /// interrupted: unchanged means that no other request has failed.
    #[inline]
    pub fn failure_count(&self) -> u64 {
        self.messages.failure_count
    }

    /// Counts completions, unexpected messages and other [`sources`](Self::sources) of the same requests:
    /// unchanged means that neither testing nor probing again is of use.
    #[inline]
    pub fn news_count(&self) -> u64 {
        let Messages { completion_count, arrival_count, .. } = &self.messages;
        completion_count.wrapping_add(*arrival_count).wrapping_add(self.sources_count)
    }

    /// How many requests exist, receives are posted, and messages wait unmatched.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.messages.operations_count(),
            posted: self.messages.posted.len(),
            unexpected: self.messages.unexpected.len(),
            links: self.messages.links.iter().count(),
            operations: self.messages.transfers.operations_count(),
        }
    }

    /// How often several long messages of a waiting sender were received together and measured, by packets
    /// ([`Way::Stream`]) or by gets: for tests that they were.
    pub fn bursts_count(&self, way: Way) -> u64 {
        self.messages.transfers.bursts_count(way)
    }

    /// The eager credit spent on and owed to a peer, in cells: for tests that no credit leaks.
    pub fn credit(&self, peer: ProcessId) -> Option<(u32, u32)> {
        Some(self.messages.links.get(self.messages.links.index_of(peer)?).credit())
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

/// Chapters with commands of their own.
impl Process {
    /// Collective operations, and the making of communicators.
    pub fn collectives(&mut self) -> Collectives<'_> {
        let Self { collectives: own, comms, messages, .. } = self;
        Collectives { own, comms, messages, is_awaited: false }
    }

    /// Memory for schedules, to be given to the functions of [`coll`](crate::coll) that make them.
    pub fn schedule_pool(&mut self) -> &mut Pool {
        &mut self.collectives.pool
    }

    /// From now on leaves steps of collective operations that call a function of the user's where they are,
    /// or no longer: for a thread that is not the user's.
    pub fn put_off_user_functions(&mut self, are_put_off: bool) {
        self.collectives.puts_off_user_functions = are_put_off;
    }

    /// Whether steps were left in the last round of progress because they call a function of the user's.
    /// Others may wait for them whatever the user's threads wait for.
    pub fn has_put_off(&self) -> bool {
        self.collectives.has_put_off
    }

    /// The context of the next communicator that this process names as its rank 0: for state that must be in
    /// place before the others learn of it.
    pub fn next_context(&self) -> ContextId {
        self.comms.next_context()
    }

    /// Gives a communicator up. Messages under way on it still arrive.
    pub fn free_comm(&mut self, comm: CommId) -> Result<(), Error> {
        let context = self.comms.get_any(comm)?.0.context();
        if comm == CommId::WORLD || comm == CommId::SELF {
            return Err(Error::Comm);
        }
        self.messages.gaps.set(context, None);
        self.messages.buffered.forget_comm(comm);
        self.messages.interrupted.retain(|(of, _)| *of != context);
        self.survival.free(context);
        self.comms.free(comm);
        Ok(())
    }

    /// Keeps the id of a communicator for operations to be started on it, though it may be freed meanwhile.
    ///
    /// # Errors
    /// [`Error::Comm`] if there is no such communicator.
    pub fn hold_comm(&self, comm: CommId) -> Result<CommHold, Error> {
        self.comms.hold(comm)
    }

    /// The messages, for tests of chapters.
    #[cfg(test)]
    pub(crate) fn messages(&mut self) -> &mut Messages {
        &mut self.messages
    }

    /// Adds a communicator whose members have agreed on it.
    #[cfg(test)]
    pub(crate) fn add_comm(&mut self, comm: Communicator) -> CommId {
        let id = self.comms.reserve();
        self.comms.fill(id, Some(comm));
        id
    }

    /// Windows.
    #[inline]
    pub fn windows(&mut self) -> Windows<'_> {
        let Self { rma, comms, messages, .. } = self;
        Windows { rma, comms, messages }
    }

    /// Whether this process accesses windows on behalf of others, which may wait for it.
    pub fn serves_windows(&self) -> bool {
        self.rma.serves_others()
    }

    /// Going on without processes that have failed. Packets of its commands leave in the next round of
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn survivors(&mut self) -> Survivors<'_> {
        let Self { survival: own, collectives, comms, messages, .. } = self;
        Survivors { own, collectives, comms, messages }
    }

    fn parts(&mut self) -> Parts<'_> {
        let Self { comms, messages, .. } = self;
        Parts { comms, messages }
    }

    /// Memory is about to be unmapped (or has just been): registrations of it that are kept are ended, those
    /// in use when their messages are. Without effect where none are kept.
    pub fn invalidate_memory<D: crate::device::Device>(&mut self, device: &mut D, base: usize, len: usize) {
        self.messages.transfers.invalidate_memory(device, base, len);
    }
}
