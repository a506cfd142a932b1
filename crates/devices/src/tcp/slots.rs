//! What the doorman knows about each rail to each peer, and what it decides; without any socket.
//!
//! ```text
//!           want                   connected, Welcome
//!   Idle ───────► Dialling ───────────────────────────► Up
//!                  ▲   │ failed: next candidate;         │ broke
//!            due   │   ▼ none left: back off             │
//!                 Waiting ◄──────────────────────────────┘
//!    (a peer's own call that is admitted leads from any of these to Up)
//! ```
//!
//! Two processes may dial each other at once. The call of the one with the lower id wins if it has got as far as its
//! hello; the other's is refused as a duplicate, and its caller waits for the winner's. Each connection of a pair of
//! interfaces has an epoch; a call with a newer one replaces a connection whose end has not been noticed here.

use super::card::{Card, Door};
use super::handshake::{Hello, Verdict};
use super::interfaces::Address;
use super::pairing;
use ayatori_core::ids::{ProcessId, Rail};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most address pairs tried for one rail.
const CANDIDATES_MAX: usize = 32;
/// From a break to the first attempt of the side with the higher id: the other side's is on its way.
const COURTESY: Duration = Duration::from_millis(30);
/// How long a caller that lost to the other side's call waits for it.
const LOSER_WAIT: Duration = Duration::from_millis(200);
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
/// Longest pause between attempts for a rail that has worked, and for one that never has.
const BACK_OFF_MAX: Duration = Duration::from_millis(800);
const BACK_OFF_NEVER_UP_MAX: Duration = Duration::from_secs(15);
/// A rail that has not come up by then is reported down.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// A peer that was there and whose ports refuse so often in a row is gone.
const REFUSALS_MAX: u32 = 2;

/// One thing to try: from an address of ours to one of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// The peer's interface.
    pub(super) partner: u8,
    pub(super) from: Address,
    pub(super) to: SocketAddr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Idle,
    Waiting(Instant),
    /// By this call.
    Dialling(u64),
    /// With this interface of the peer's.
    Up(u8),
}

/// One rail to one peer.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) rail: Rail,
    pub(super) interface: u8,
    pub(super) candidates: Vec<Candidate>,
    /// The candidate to try now.
    pub(super) next: usize,
    /// Candidates tried in vain since the last pause.
    tried_count: usize,
    pub(super) epoch: u32,
    pub(super) state: State,
    /// When it was first wanted, or broke.
    since: Instant,
    is_reported_down: bool,
    failures_count: u32,
    refusals_count: u32,
    was_up: bool,
}

/// A peer that somebody wants to talk to.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: ProcessId,
    pub(super) slots: Vec<Slot>,
    /// How many connections each of its interfaces may carry.
    uses_max: usize,
    /// It has left, or is gone: no more calls.
    pub(super) is_over: bool,
}

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// The host answered that nobody listens there.
    Refused,
    /// Anything else.
    Other,
    /// The peer knows better: it has, or makes, this connection itself; its epoch.
    Duplicate(u32),
}

/// What follows from a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    Nothing,
    /// The rail is to be reported down.
    Down(Rail),
    /// The process is gone.
    Gone,
}

/// How a believed call is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Admission {
    pub(super) verdict: Verdict,
    /// The slot it gets, if welcome.
    pub(super) slot: usize,
    pub(super) epoch: u32,
    /// A call of our own that is given up for it.
    pub(super) abandoned: Option<u64>,
}

impl Peer {
    /// The rails to a peer with this card. `delay`: until the first attempt.
    pub(super) fn new(
        id: ProcessId,
        first_rail: u8,
        ours: &[Door],
        card: &Card,
        now: Instant,
        delay: Duration,
    ) -> Self {
        let slots = pairing::plan(ours, &card.doors).into_iter().enumerate().map(|(place, partners)| {
            let interface = (place % ours.len()) as u8;
            let door = &ours[usize::from(interface)];
            let candidates: Vec<Candidate> = partners
                .iter()
                .flat_map(|&partner| candidates(door, partner, card))
                .take(CANDIDATES_MAX)
                .collect();
            Slot {
                rail: Rail(first_rail + place as u8),
                interface,
                state: if candidates.is_empty() { State::Idle } else { State::Waiting(now + delay) },
                candidates,
                next: 0,
                tried_count: 0,
                epoch: 0,
                since: now,
                is_reported_down: false,
                failures_count: 0,
                refusals_count: 0,
                was_up: false,
            }
        });
        let slots = slots.collect();
        Self { id, slots, uses_max: pairing::uses(card.doors.len(), ours.len()), is_over: false }
    }

    fn is_any_up(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.state, State::Up(_)))
    }

    /// Whether another rail to the peer's interface would be one too many.
    fn is_taken(&self, slot: usize, partner: u8) -> bool {
        let interface = self.slots[slot].interface;
        let others =
            self.slots.iter().enumerate().filter(|(place, _)| *place != slot).map(|(_, other)| other);
        let up = |other: &&Slot| other.state == State::Up(partner);
        others.clone().filter(up).count() >= self.uses_max
            || others.filter(up).any(|other| other.interface == interface)
    }

    /// The candidate to dial for a slot whose time has come. `None`: nothing is free to try for now.
    pub(super) fn take_due(&mut self, slot: usize, now: Instant) -> Option<Candidate> {
        if self.is_over || !matches!(self.slots[slot].state, State::Waiting(at) if at <= now) {
            return None;
        }
        for _ in 0..self.slots[slot].candidates.len() {
            let this = &self.slots[slot];
            let candidate = this.candidates[this.next];
            if !self.is_taken(slot, candidate.partner) {
                return Some(candidate);
            }
            self.slots[slot].skip();
        }
        self.slots[slot].back_off(now);
        None
    }

    /// A call of ours has failed, or could not be made.
    pub(super) fn on_failure(&mut self, slot: usize, failure: Failure, now: Instant) -> Consequence {
        let is_any_up = self.is_any_up();
        let this = &mut self.slots[slot];
        match failure {
            Failure::Duplicate(epoch) => {
                this.epoch = this.epoch.max(epoch);
                this.state = State::Waiting(now + LOSER_WAIT);
                return Consequence::Nothing;
            }
            Failure::Refused => this.refusals_count += 1,
            Failure::Other => this.refusals_count = 0,
        }
        if this.was_up && this.refusals_count >= REFUSALS_MAX && !is_any_up {
            self.is_over = true;
            return Consequence::Gone;
        }
        // A rail that has worked is tried the same way again first; and so is a refusal confirmed.
        this.tried_count += 1;
        if this.tried_count < this.candidates.len() && !this.was_up {
            this.skip();
            this.state = State::Waiting(now);
            return Consequence::Nothing;
        }
        // What has worked before is given three more chances before something else is tried.
        if !this.was_up || this.failures_count % 4 == 3 {
            this.skip();
        }
        this.back_off(now);
        if std::mem::replace(&mut this.is_reported_down, true) {
            Consequence::Nothing
        } else {
            Consequence::Down(this.rail)
        }
    }

    /// Rails that were wanted long enough ago and are not up: to be reported, once each.
    pub(super) fn overdue(&mut self, now: Instant) -> impl Iterator<Item = Rail> + '_ {
        let is_over = self.is_over;
        self.slots.iter_mut().filter_map(move |slot| {
            let is_overdue = !is_over && !slot.is_reported_down && slot.is_late(now);
            slot.is_reported_down |= is_overdue;
            is_overdue.then_some(slot.rail)
        })
    }

    /// When something is due: an attempt, or a report.
    pub(super) fn next_time(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let times = self.slots.iter().flat_map(|slot| {
            let attempt = match slot.state {
                State::Waiting(at) => Some(at),
                _ => None,
            };
            let is_pending = !slot.is_reported_down && !matches!(slot.state, State::Up(_));
            [attempt, is_pending.then(|| slot.since + PATIENCE)]
        });
        times.flatten().min()
    }

    /// A connection stands.
    pub(super) fn on_up(&mut self, slot: usize, partner: u8, epoch: u32) {
        let this = &mut self.slots[slot];
        // From now on this is what is tried first.
        if let Some(place) = this.candidates.iter().position(|candidate| candidate.partner == partner)
            && this.candidates[this.next].partner != partner
        {
            this.next = place;
        }
        this.state = State::Up(partner);
        this.epoch = epoch;
        this.was_up = true;
        this.is_reported_down = false;
        (this.tried_count, this.failures_count, this.refusals_count) = (0, 0, 0);
    }

    /// The connection of this epoch broke; its user knows.
    pub(super) fn on_broken(&mut self, rail: Rail, epoch: u32, is_lower: bool, now: Instant) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.rail == rail) else { return };
        if matches!(slot.state, State::Up(_)) && slot.epoch == epoch {
            slot.state = State::Waiting(if is_lower { now } else { now + COURTESY });
            slot.since = now;
            slot.is_reported_down = true;
        }
    }

    /// What to do with a believed call to our interface `to`. `has_spoken` says of a call of ours whether its hello is out.
    pub(super) fn admit(
        &self,
        me: ProcessId,
        hello: &Hello,
        partner_of: impl Fn(u64) -> Option<(u8, bool)>,
    ) -> Admission {
        let (to, from) = (hello.to_interface, hello.from_interface);
        let refuse = |verdict, epoch| Admission { verdict, slot: 0, epoch, abandoned: None };
        if self.is_over {
            return refuse(Verdict::Busy, 0);
        }
        let ours = || self.slots.iter().enumerate().filter(move |(_, slot)| slot.interface == to);
        if let Some((place, slot)) = ours().find(|(_, slot)| slot.state == State::Up(from)) {
            if hello.epoch <= slot.epoch {
                return refuse(Verdict::Duplicate, slot.epoch);
            }
            return Admission { verdict: Verdict::Welcome, slot: place, epoch: hello.epoch, abandoned: None };
        }
        let dialling = |slot: &Slot| match slot.state {
            State::Dialling(call) => {
                partner_of(call).map(|(partner, has_spoken)| (call, partner, has_spoken))
            }
            _ => None,
        };
        let same = ours().find_map(|(place, slot)| {
            dialling(slot).filter(|(_, partner, _)| *partner == from).map(|call| (place, call))
        });
        if let Some((place, (call, _, has_spoken))) = same {
            let slot = &self.slots[place];
            if has_spoken && me < self.id {
                return refuse(Verdict::Duplicate, slot.epoch);
            }
            return self.welcome(place, hello, Some(call));
        }
        let free = ours().find(|(_, slot)| matches!(slot.state, State::Idle | State::Waiting(_)));
        match free.or_else(|| ours().find(|(_, slot)| matches!(slot.state, State::Dialling(_)))) {
            Some((place, slot)) => self.welcome(place, hello, dialling(slot).map(|(call, ..)| call)),
            None => refuse(Verdict::Busy, 0),
        }
    }

    fn welcome(&self, slot: usize, hello: &Hello, abandoned: Option<u64>) -> Admission {
        let epoch = hello.epoch.max(self.slots[slot].epoch.saturating_add(1));
        Admission { verdict: Verdict::Welcome, slot, epoch, abandoned }
    }
}

impl Slot {
    fn skip(&mut self) {
        self.next = (self.next + 1) % self.candidates.len().max(1);
    }

    fn is_late(&self, now: Instant) -> bool {
        !matches!(self.state, State::Up(_)) && now >= self.since + PATIENCE
    }

    fn back_off(&mut self, now: Instant) {
        self.tried_count = 0;
        let most = if self.was_up { BACK_OFF_MAX } else { BACK_OFF_NEVER_UP_MAX };
        let pause = BACK_OFF_MIN * (1 << self.failures_count.min(12));
        self.failures_count += 1;
        self.state = State::Waiting(now + pause.min(most));
    }
}

/// The pairs of addresses of two interfaces, the most promising first.
fn candidates(door: &Door, partner: u8, card: &Card) -> Vec<Candidate> {
    let theirs = &card.doors[usize::from(partner)];
    let mut list: Vec<(u32, Candidate)> = Vec::new();
    for &(from, _) in &door.addresses {
        for (place, to) in theirs.sockets().enumerate() {
            let score = pairing::score_addresses(from, theirs.addresses[place].0);
            list.push((score, Candidate { partner, from, to }));
        }
    }
    list.retain(|entry| entry.0 > 0);
    list.sort_by_key(|entry| std::cmp::Reverse(entry.0));
    list.into_iter().map(|entry| entry.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::interfaces::tests::interface;

    const LOW: ProcessId = ProcessId(0);
    const HIGH: ProcessId = ProcessId(1);

    fn doors(host: u8, count: u8) -> Vec<Door> {
        (0..count)
            .map(|i| {
                let interface = interface("e", 1, &[&format!("10.{i}.0.{host}/24")]);
                Door::new(&interface, vec![(interface.addresses[0], 4000)])
            })
            .collect()
    }

    fn peer(id: ProcessId, rails: u8) -> (Peer, Instant) {
        let now = Instant::now();
        let card = Card { node: 1, cpus_count: 1, doors: doors(2, rails) };
        (Peer::new(id, 1, &doors(1, rails), &card, now, Duration::ZERO), now)
    }

    fn hello(epoch: u32) -> Hello {
        Hello { from: HIGH, to: LOW, from_interface: 0, to_interface: 0, epoch, nonce: [0; 16] }
    }

    #[test]
    fn of_two_calls_at_once_the_lower_processs_stands() {
        let (mut at_low, now) = peer(HIGH, 1);
        assert!(at_low.take_due(0, now).is_some());
        at_low.slots[0].state = State::Dialling(7);
        let refused = at_low.admit(LOW, &hello(1), |_| Some((0, true)));
        assert_eq!(refused.verdict, Verdict::Duplicate);
        let (mut at_high, _) = peer(LOW, 1);
        at_high.slots[0].state = State::Dialling(8);
        let admitted = at_high.admit(HIGH, &hello(1), |_| Some((0, true)));
        assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(8)));
    }

    #[test]
    fn a_call_that_has_not_spoken_yields_to_one_that_has() {
        let (mut at_low, _) = peer(HIGH, 1);
        at_low.slots[0].state = State::Dialling(7);
        let admitted = at_low.admit(LOW, &hello(1), |_| Some((0, false)));
        assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(7)));
    }

    #[test]
    fn a_newer_epoch_replaces_a_connection_and_an_old_one_is_a_duplicate() {
        let (mut peer, _) = peer(HIGH, 1);
        peer.on_up(0, 0, 3);
        assert_eq!(peer.admit(LOW, &hello(3), |_| None).verdict, Verdict::Duplicate);
        let admission = peer.admit(LOW, &hello(4), |_| None);
        assert_eq!((admission.verdict, admission.slot, admission.epoch), (Verdict::Welcome, 0, 4));
    }

    #[test]
    fn a_rail_that_never_comes_is_reported_once_and_tried_on() {
        let (mut peer, now) = peer(HIGH, 1);
        assert!(peer.take_due(0, now).is_some());
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Down(Rail(1)));
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
        assert!(peer.next_time().is_some_and(|at| at <= now + BACK_OFF_NEVER_UP_MAX));
        assert_eq!(peer.overdue(now + PATIENCE).count(), 0);
    }

    #[test]
    fn silence_is_reported_after_a_second() {
        let (mut peer, now) = peer(HIGH, 2);
        peer.slots[0].state = State::Dialling(1);
        peer.on_up(1, 1, 1);
        assert_eq!(peer.overdue(now + PATIENCE / 2).count(), 0);
        assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
    }

    #[test]
    fn a_peer_that_was_there_and_refuses_is_gone_and_one_that_is_cut_off_is_not() {
        let (mut peer, now) = peer(HIGH, 2);
        peer.on_up(0, 0, 1);
        peer.on_up(1, 1, 1);
        peer.on_broken(Rail(1), 1, true, now);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing, "a rail is up");
        peer.on_broken(Rail(2), 1, true, now);
        assert_eq!(peer.on_failure(1, Failure::Other, now), Consequence::Nothing);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        assert_eq!(peer.admit(LOW, &hello(9), |_| None).verdict, Verdict::Busy);
    }

    #[test]
    fn a_late_report_about_an_older_connection_changes_nothing() {
        let (mut peer, now) = peer(HIGH, 1);
        peer.on_up(0, 0, 2);
        peer.on_broken(Rail(1), 1, true, now);
        assert_eq!(peer.slots[0].state, State::Up(0));
    }

    #[test]
    fn an_interface_that_another_rail_uses_is_not_tried() {
        let (mut peer, now) = peer(HIGH, 2);
        // Rail 1 came up with the partner that rail 2 would have liked.
        peer.on_up(0, 1, 1);
        let candidate = peer.take_due(1, now).expect("the other one is free");
        assert_eq!(candidate.partner, 0);
    }
}
