//! Connections between two processes that each may dial: which are tried, which stands, when to try again;
//! without I/O.
//!
//! Owns the rails to each peer and their states (`peer.rs`), our own dials under way, and callers that have
//! proved nothing. Does not own sockets, addresses, handshakes and clocks: their owner reports events and
//! carries out the outputs of [`Connections::poll_output`]. So TCP's device and the tests' random worlds run
//! the same decisions.
//!
//! ```text
//!   inputs                                             outputs
//!     add_peer, hasten, on_broken, on_left        ──►           Dial, CloseDial
//!     on_connected, on_verdict, on_failed (dials)       HandOver (a connection stands: one epoch begins)
//!     on_accepted, answer, on_answered, on_closed       ClosePending, Down, Gone
//!     handle_timeout(now)                               poll_timeout()
//! ```
//!
//! A *dial* is a connection that this process makes; *pending* is an incoming one whose maker has not proved
//! itself. Two processes may dial each other at once. The dial of the one with the lower id wins if it has
//! got as far as its hello; the other's is refused as a duplicate, and its dialler waits for the winner's.
//! Each connection has an epoch; a claim with a newer one replaces a connection whose end has not been
//! noticed here.
//!
//! Bounds: one dial a rail, at most [`Timing::pending_max`] pending connections, the newest ones (an honest
//! one takes one round trip, so it is never the oldest for long), each for at most [`Timing::handshake`].
//!
//! Entry type: [`Connections`].

mod peer;
#[cfg(test)]
mod tests;

pub use peer::{Admission, Claim, Failure, RailPlan, Verdict};

use crate::ids::{ProcessId, Rail};
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use peer::{Consequence, Peer, State};

/// A process without dials of its own to a peer leaves it this long to make its others.
pub const DIALLED_DELAY: Duration = Duration::from_ms(100);

/// A receive that waits for a process leaves it this long to make the connection, because a sender dials at
/// once. Later a dial of our own finds out whether the process is there.
pub const AWAITED_DELAY: Duration = Duration::from_s(1);

/// Deadlines and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How long a dial may take to connect.
    pub connect: Duration,
    /// How long either side may take to prove itself.
    pub handshake: Duration,
    /// Most connections of others that have proved nothing.
    pub pending_max: usize,
}

/// A dial of this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DialId(pub u64);

/// A connection that another process has made, and that has not proved itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PendingId(pub u64);

/// A connection, by the side that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// This process.
    Here(DialId),
    /// The peer.
    There(PendingId),
}

/// A request to the owner of the sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Make a connection; the owner reports its end by `on_connected` or `on_failed`.
    Dial {
        /// Its name.
        dial: DialId,
        /// The peer to dial.
        peer: ProcessId,
        /// From this interface of ours.
        interface: u8,
        /// To this interface of the peer's.
        partner: u8,
        /// By the candidate of this place in the rail's plan.
        candidate: usize,
        /// For which rail.
        rail: Rail,
        /// The epoch to claim.
        epoch: u32,
    },
    /// Close a dial: it took too long, or is not needed any more.
    CloseDial(DialId),
    /// Close a connection that has not proved itself in time, or for which there is no room.
    ClosePending(PendingId),
    /// The connection is the rail's from now on, in place of one that there may still be. Report the rail up.
    HandOver {
        /// Which.
        made: Made,
        /// The peer.
        peer: ProcessId,
        /// The rail.
        rail: Rail,
        /// Its epoch.
        epoch: u32,
    },
    /// The rail does not come up for now. Report it down.
    Down(ProcessId, Rail),
    /// The process was there and is not any more. Report it gone.
    Gone(ProcessId),
}

struct Dial {
    peer: ProcessId,
    slot: usize,
    partner: u8,
    /// Its hello is out.
    has_spoken: bool,
    deadline: Instant,
}

/// The connections of one process. See the [module's docs](self).
pub struct Connections {
    me: ProcessId,
    timing: Timing,
    peers: BTreeMap<ProcessId, Peer>,
    dials: BTreeMap<DialId, Dial>,
    /// Oldest first, with their deadlines.
    pending: BTreeMap<PendingId, Instant>,
    next_id: u64,
    outputs: VecDeque<Output>,
}

impl Connections {
    /// For a process that knows no peer yet.
    pub fn new(me: ProcessId, timing: Timing) -> Self {
        Self {
            me,
            timing,
            peers: BTreeMap::new(),
            dials: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_id: 0,
            outputs: VecDeque::new(),
        }
    }

    // Getters.

    /// Whether the peer is known.
    pub fn knows(&self, peer: ProcessId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Dials under way and connections of others that have proved nothing.
    pub fn unfinished_counts(&self) -> (usize, usize) {
        (self.dials.len(), self.pending.len())
    }

    // Commands and inputs.

    /// From now on connections to this peer are wanted, the first after `delay`; of several delays the
    /// shortest counts. `uses_max`: how many connections each of its interfaces may carry.
    pub fn add_peer(
        &mut self,
        id: ProcessId,
        plan: Vec<RailPlan>,
        uses_max: usize,
        delay: Duration,
        now: Instant,
    ) {
        self.peers.entry(id).or_insert_with(|| Peer::new(id, plan, uses_max, now, delay));
    }

    /// A receive waits for this peer. That its process does not answer is no news: it may be stopped, and
    /// call later. That it is gone, and that no way leads to its host, is.
    /// [`hasten`](Self::hasten) ends that.
    pub fn await_peer(&mut self, id: ProcessId, plan: Vec<RailPlan>, uses_max: usize, now: Instant) {
        self.peers.entry(id).or_insert_with(|| {
            let mut peer = Peer::new(id, plan, uses_max, now, AWAITED_DELAY);
            peer.is_only_awaited = true;
            peer
        });
    }

    /// A message waits for a connection to this peer, which is known: its first attempts are made now.
    pub fn hasten(&mut self, id: ProcessId, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.hasten(now);
        }
    }

    /// A connection that was handed over broke, or was found silent, and is closed.
    pub fn on_broken(&mut self, peer: ProcessId, rail: Rail, epoch: u32, now: Instant) {
        let is_lower = self.me < peer;
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.on_broken(rail, epoch, is_lower, now);
        }
    }

    /// The peer took leave: no more dials.
    pub fn on_left(&mut self, peer: ProcessId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.is_over = true;
        }
        self.close_dials_to(peer);
    }

    /// The dial has connected, and its hello is out.
    pub fn on_connected(&mut self, dial: DialId, now: Instant) {
        if let Some(dial) = self.dials.get_mut(&dial) {
            dial.has_spoken = true;
            dial.deadline = now + self.timing.handshake;
        }
    }

    /// The peer has answered the proof of our dial.
    pub fn on_verdict(&mut self, dial: DialId, verdict: Verdict, epoch: u32, now: Instant) {
        match verdict {
            Verdict::Duplicate => self.on_failed(dial, Failure::Duplicate(epoch), now),
            Verdict::Busy => self.on_failed(dial, Failure::Other, now),
            Verdict::Welcome => {
                let Some(Dial { peer, slot, partner, .. }) = self.dials.remove(&dial) else { return };
                if let Some(rails) = self.peers.get_mut(&peer) {
                    let rail = rails.on_up(slot, partner, epoch);
                    self.outputs.push_back(Output::HandOver { made: Made::Here(dial), peer, rail, epoch });
                }
            }
        }
    }

    /// The dial has failed and is closed.
    pub fn on_failed(&mut self, dial: DialId, failure: Failure, now: Instant) {
        let Some(Dial { peer: id, slot, .. }) = self.dials.remove(&dial) else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.on_failure(slot, failure, now) {
            Consequence::Nothing => {}
            Consequence::Down(rail) => self.outputs.push_back(Output::Down(id, rail)),
            Consequence::Gone => {
                self.close_dials_to(id);
                self.outputs.push_back(Output::Gone(id));
            }
        }
    }

    /// A caller has connected to us.
    pub fn on_accepted(&mut self, now: Instant) -> PendingId {
        while self.pending.len() >= self.timing.pending_max.max(1)
            && let Some((oldest, _)) = self.pending.pop_first()
        {
            self.outputs.push_back(Output::ClosePending(oldest));
        }
        let id = PendingId(self.take_id());
        self.pending.insert(id, now + self.timing.handshake);
        id
    }

    /// A pending connection has ended, or proved false, and is closed.
    pub fn on_closed(&mut self, pending: PendingId) {
        self.pending.remove(&pending);
    }

    /// The answer to a caller that has proved a claim. It takes effect with
    /// [`on_answered`](Self::on_answered).
    pub fn answer(&self, claim: &Claim) -> Admission {
        let partner_of = |dial: u64| {
            let dial = self.dials.get(&DialId(dial))?;
            Some((dial.partner, dial.has_spoken))
        };
        self.peers.get(&claim.from).map_or(Admission::BUSY, |peer| peer.admit(self.me, claim, partner_of))
    }

    /// The answer is out: a connection that is welcome stands.
    pub fn on_answered(&mut self, pending: PendingId, claim: &Claim, admission: Admission) {
        if self.pending.remove(&pending).is_none() {
            return;
        }
        let Some(peer) = self.peers.get_mut(&claim.from).filter(|_| admission.verdict == Verdict::Welcome)
        else {
            return self.outputs.push_back(Output::ClosePending(pending));
        };
        if let Some(dial) = admission.abandoned.map(DialId)
            && self.dials.remove(&dial).is_some()
        {
            self.outputs.push_back(Output::CloseDial(dial));
        }
        let (made, epoch) = (Made::There(pending), admission.epoch);
        let rail = peer.on_up(admission.slot, claim.from_interface, epoch);
        self.outputs.push_back(Output::HandOver { made, peer: claim.from, rail, epoch });
    }

    /// No room for more connections: those that have proved nothing make some.
    pub fn close_pending(&mut self) {
        self.outputs.extend(core::mem::take(&mut self.pending).into_keys().map(Output::ClosePending));
    }

    /// Everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let late = self.dials.iter().filter(|(_, dial)| dial.deadline <= now);
        let late: Vec<(DialId, bool)> = late.map(|(id, dial)| (*id, dial.has_spoken)).collect();
        for (dial, has_spoken) in late {
            self.outputs.push_back(Output::CloseDial(dial));
            self.on_failed(dial, if has_spoken { Failure::Unanswered } else { Failure::Other }, now);
        }
        let outputs = &mut self.outputs;
        self.pending.retain(|pending, deadline| {
            let is_late = *deadline <= now;
            if is_late {
                outputs.push_back(Output::ClosePending(*pending));
            }
            !is_late
        });
        let ids: Vec<ProcessId> = self.peers.keys().copied().collect();
        for id in ids {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            self.outputs.extend(peer.overdue(now).map(|rail| Output::Down(id, rail)));
            for slot in 0..peer.slots.len() {
                self.dial_if_due(id, slot, now);
            }
        }
    }

    fn dial_if_due(&mut self, id: ProcessId, slot: usize, now: Instant) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some((candidate, partner)) = peer.take_due(slot, now) else { return };
        let dial = DialId(self.next_id);
        self.next_id += 1;
        let this = &mut peer.slots[slot];
        this.state = State::Dialling(dial.0);
        let (interface, rail, epoch) = (this.interface, this.rail, this.epoch.saturating_add(1));
        let deadline = now + self.timing.connect;
        self.dials.insert(dial, Dial { peer: id, slot, partner, has_spoken: false, deadline });
        self.outputs.push_back(Output::Dial { dial, peer: id, interface, partner, candidate, rail, epoch });
    }

    fn close_dials_to(&mut self, peer: ProcessId) {
        let outputs = &mut self.outputs;
        self.dials.retain(|dial, to| {
            if to.peer == peer {
                outputs.push_back(Output::CloseDial(*dial));
            }
            to.peer != peer
        });
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    // Outputs.

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let peers = self.peers.values().filter_map(Peer::next_time);
        let dials = self.dials.values().map(|dial| dial.deadline);
        peers.chain(dials).chain(self.pending.values().copied()).min()
    }
}
