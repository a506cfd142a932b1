//! The rails to one peer: the state of each, and the decisions.
//!
//! ```text
//!           want                   connected, Welcome
//!   Idle ───────► Dialling ───────────────────────────► Up
//!                  ▲   │ failed: next candidate;         │ broke
//!            due   │   ▼ none left: back off             │
//!                 Waiting ◄──────────────────────────────┘
//!    (a peer's own dial that is admitted leads from any of these to Up)
//! ```

use crate::ids::{ProcessId, Rail};
use crate::time::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// From a break to the first attempt of the side with the higher id: the other side's is on its way.
const COURTESY: Duration = Duration::from_ms(30);
/// How long a dialler that lost to the other side's dial waits for it.
const LOSER_WAIT: Duration = Duration::from_ms(200);
const BACK_OFF_MIN: Duration = Duration::from_ms(20);
/// Longest pause between attempts for a rail that has worked, and for one that never has.
const BACK_OFF_MAX: Duration = Duration::from_ms(800);
const BACK_OFF_NEVER_UP_MAX: Duration = Duration::from_s(15);
/// A rail that has not come up by then is reported down.
pub(super) const PATIENCE: Duration = Duration::from_s(1);
/// A peer that was connected before is gone after its ports have refused this often in a row.
const REFUSALS_MAX: u32 = 2;
/// The same for a peer that was never connected, for every address, in a row or not: some five seconds with
/// the pauses between. A process listens before its card is published, but an address may also be another
/// host's, and there is time. Silence in between takes no refusal back: where a process has ended, another
/// program may get its port and say nothing.
const REFUSALS_NEVER_UP_MAX: u32 = 9;

/// A caller's claim, which it has proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The process that claims it.
    pub from: ProcessId,
    /// The interface of its that it uses.
    pub from_interface: u8,
    /// The interface of ours that it has come to.
    pub to_interface: u8,
    /// The epoch that it begins.
    pub epoch: u32,
}

/// The attempts possible for one rail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RailPlan {
    /// The rail.
    pub rail: Rail,
    /// The interface of ours that it uses.
    pub interface: u8,
    /// The peer's interface of each candidate, the most promising first; one may come several times, with
    /// other addresses.
    pub candidates: Vec<u8>,
}

/// The listener's answer to a caller that has proved itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The connection stands.
    Welcome,
    /// The listener has this connection already, or is making it.
    Duplicate,
    /// There is no rail for it.
    Busy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Idle,
    Waiting(Instant),
    /// By this dial.
    Dialling(u64),
    /// With this interface of the peer's.
    Up(u8),
}

/// One rail to one peer.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) rail: Rail,
    pub(super) interface: u8,
    /// The peer's interface of each.
    candidates: Vec<u8>,
    /// The candidate to try now.
    next: usize,
    /// Candidates tried in vain since the last pause.
    tried_count: usize,
    pub(super) epoch: u32,
    pub(super) state: State,
    /// When it was first wanted.
    since: Instant,
    /// Its user knows, or has closed it: it stays so, for a rail that was up is reported by its user.
    is_reported_down: bool,
    failures_count: u32,
    /// Refusals in a row.
    refusals_count: u32,
    /// All of each candidate. Not read once a connection has stood.
    refused: Vec<u32>,
    was_up: bool,
}

/// A peer with traffic to or from it.
#[derive(Debug)]
pub(super) struct Peer {
    id: ProcessId,
    pub(super) slots: Vec<Slot>,
    /// How many connections each of its interfaces may carry.
    uses_max: usize,
    /// It has left, or is gone: no more dials.
    pub(super) is_over: bool,
    /// Nothing waits to be sent. A failure to reach it is not reported, for it may be stopped and call later.
    pub(super) is_only_awaited: bool,
}

/// Why a dial failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The host refused: no process listens there, or another one does.
    Refused,
    /// The connection ended before who is there had answered: the process, which has no room for callers now,
    /// or another program that has got its port. Says nothing.
    Ended,
    /// Anything else.
    Other,
    /// The peer knows better: it has, or makes, this connection itself; its epoch.
    Duplicate(u32),
}

/// Consequence of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    Nothing,
    /// Report the rail down.
    Down(Rail),
    /// The process is gone.
    Gone,
}

/// The decision on a proved claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// The answer.
    pub verdict: Verdict,
    /// The slot it gets, if welcome.
    pub(super) slot: usize,
    /// The epoch that goes with the answer.
    pub epoch: u32,
    /// A dial of our own that is given up for it.
    pub(super) abandoned: Option<u64>,
}

impl Admission {
    pub(super) const BUSY: Self = Self { verdict: Verdict::Busy, slot: 0, epoch: 0, abandoned: None };
}

impl Peer {
    /// `delay`: until the first attempt.
    pub(super) fn new(
        id: ProcessId,
        plan: Vec<RailPlan>,
        uses_max: usize,
        now: Instant,
        delay: Duration,
    ) -> Self {
        let slot = |RailPlan { rail, interface, candidates }| Slot {
            rail,
            interface,
            state: if candidates.is_empty() { State::Idle } else { State::Waiting(now + delay) },
            refused: vec![0; candidates.len()],
            candidates,
            next: 0,
            tried_count: 0,
            epoch: 0,
            since: now + delay,
            is_reported_down: false,
            failures_count: 0,
            refusals_count: 0,
            was_up: false,
        };
        Self {
            id,
            slots: plan.into_iter().map(slot).collect(),
            uses_max,
            is_over: false,
            is_only_awaited: false,
        }
    }

    fn is_any_up(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.state, State::Up(_)))
    }

    /// Whether no connection was ever up, and each interface of the peer's has refused repeatedly at all its
    /// addresses: by a rail that tries it first, if there is one. Others are often in networks that do not
    /// lead to it, where nobody answers.
    fn is_refused_everywhere(&self) -> bool {
        let is_first = |slot: &Slot, partner: u8| slot.candidates.first() == Some(&partner);
        let is_refused = |slot: &Slot, partner: u8| {
            let tries = slot.candidates.iter().zip(&slot.refused).filter(|(of, _)| **of == partner);
            tries.map(|(_, &count)| count).min() >= Some(REFUSALS_NEVER_UP_MAX)
        };
        let mut partners = self.slots.iter().flat_map(|slot| slot.candidates.iter().copied());
        self.slots.iter().all(|slot| !slot.was_up)
            && partners.all(|partner| {
                let has_first = self.slots.iter().any(|slot| is_first(slot, partner));
                let mut slots = self.slots.iter().filter(|slot| !has_first || is_first(slot, partner));
                slots.any(|slot| is_refused(slot, partner))
            })
    }

    /// Something waits to be sent: makes the first attempts by `at`, and reports failures from then on.
    pub(super) fn hasten(&mut self, at: Instant) {
        if core::mem::take(&mut self.is_only_awaited) {
            for slot in &mut self.slots {
                slot.since = at;
                slot.failures_count = 0;
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.failures_count == 0 && !slot.was_up) {
            if matches!(slot.state, State::Waiting(later) if later > at) {
                slot.state = State::Waiting(at);
                slot.since = at;
            }
        }
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

    /// The candidate to dial for a slot whose time has come, and its interface. `None`: no candidate is free
    /// for now.
    pub(super) fn take_due(&mut self, slot: usize, now: Instant) -> Option<(usize, u8)> {
        if self.is_over || !matches!(self.slots[slot].state, State::Waiting(at) if at <= now) {
            return None;
        }
        for _ in 0..self.slots[slot].candidates.len() {
            let this = &self.slots[slot];
            let (candidate, partner) = (this.next, this.candidates[this.next]);
            if !self.is_taken(slot, partner) {
                return Some((candidate, partner));
            }
            self.slots[slot].skip();
        }
        self.slots[slot].back_off(now);
        None
    }

    /// A dial of ours has failed, or could not be made.
    pub(super) fn on_failure(&mut self, slot: usize, failure: Failure, now: Instant) -> Consequence {
        let is_any_up = self.is_any_up();
        let this = &mut self.slots[slot];
        match failure {
            Failure::Duplicate(epoch) => {
                this.epoch = this.epoch.max(epoch);
                this.state = State::Waiting(now + LOSER_WAIT);
                return Consequence::Nothing;
            }
            Failure::Refused => {
                this.refusals_count += 1;
                this.refused[this.next] += 1;
            }
            Failure::Ended => {}
            Failure::Other => this.refusals_count = 0,
        }
        if this.was_up && this.refusals_count >= REFUSALS_MAX && !is_any_up || self.is_refused_everywhere() {
            self.is_over = true;
            return Consequence::Gone;
        }
        let this = &mut self.slots[slot];
        // A rail that has worked is tried the same way again first; and so is a refusal confirmed.
        this.tried_count += 1;
        if this.tried_count < this.candidates.len() && !this.was_up {
            this.skip();
            this.state = State::Waiting(now);
            return Consequence::Nothing;
        }
        // An address that has worked before gets three more attempts before another one is tried.
        if !this.was_up || this.failures_count % 4 == 3 {
            this.skip();
        }
        this.back_off(now);
        if self.is_only_awaited || core::mem::replace(&mut this.is_reported_down, true) {
            Consequence::Nothing
        } else {
            Consequence::Down(this.rail)
        }
    }

    /// Rails that were wanted long enough ago and are not up: to be reported, once each.
    pub(super) fn overdue(&mut self, now: Instant) -> impl Iterator<Item = Rail> + '_ {
        let is_over = self.is_over || self.is_only_awaited;
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
            let is_pending =
                !slot.is_reported_down && !self.is_only_awaited && !matches!(slot.state, State::Up(_));
            [attempt, is_pending.then(|| slot.since + PATIENCE)]
        });
        times.flatten().min()
    }

    /// A connection stands: the rail that it is.
    pub(super) fn on_up(&mut self, slot: usize, partner: u8, epoch: u32) -> Rail {
        self.is_only_awaited = false;
        let this = &mut self.slots[slot];
        // This candidate is tried first from now on.
        if let Some(place) = this.candidates.iter().position(|&candidate| candidate == partner)
            && this.candidates[this.next] != partner
        {
            this.next = place;
        }
        this.state = State::Up(partner);
        this.epoch = epoch;
        this.was_up = true;
        (this.tried_count, this.failures_count, this.refusals_count) = (0, 0, 0);
        this.rail
    }

    /// The connection of this epoch broke; its user knows.
    pub(super) fn on_broken(&mut self, rail: Rail, epoch: u32, is_lower: bool, now: Instant) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.rail == rail) else { return };
        if matches!(slot.state, State::Up(_)) && slot.epoch == epoch {
            slot.state = State::Waiting(if is_lower { now } else { now + COURTESY });
            slot.is_reported_down = true;
        }
    }

    /// Decides on a proved claim. `partner_of` gives the interface that a dial of ours goes to, and whether
    /// its hello is out.
    pub(super) fn admit(
        &self,
        me: ProcessId,
        claim: &Claim,
        partner_of: impl Fn(u64) -> Option<(u8, bool)>,
    ) -> Admission {
        let (to, from) = (claim.to_interface, claim.from_interface);
        let duplicate = |epoch| Admission { verdict: Verdict::Duplicate, epoch, ..Admission::BUSY };
        if self.is_over {
            return Admission::BUSY;
        }
        let ours = || self.slots.iter().enumerate().filter(move |(_, slot)| slot.interface == to);
        if let Some((place, slot)) = ours().find(|(_, slot)| slot.state == State::Up(from)) {
            if claim.epoch <= slot.epoch {
                return duplicate(slot.epoch);
            }
            return Admission { verdict: Verdict::Welcome, slot: place, epoch: claim.epoch, abandoned: None };
        }
        let dialling = |slot: &Slot| match slot.state {
            State::Dialling(dial) => {
                partner_of(dial).map(|(partner, has_spoken)| (dial, partner, has_spoken))
            }
            _ => None,
        };
        let same = ours().find_map(|(place, slot)| {
            dialling(slot).filter(|(_, partner, _)| *partner == from).map(|dial| (place, dial))
        });
        if let Some((place, (dial, _, has_spoken))) = same {
            let slot = &self.slots[place];
            if has_spoken && me < self.id {
                return duplicate(slot.epoch);
            }
            return self.welcome(place, claim, Some(dial));
        }
        let free = ours().find(|(_, slot)| matches!(slot.state, State::Idle | State::Waiting(_)));
        match free.or_else(|| ours().find(|(_, slot)| matches!(slot.state, State::Dialling(_)))) {
            Some((place, slot)) => self.welcome(place, claim, dialling(slot).map(|(dial, ..)| dial)),
            None => Admission::BUSY,
        }
    }

    fn welcome(&self, slot: usize, claim: &Claim, abandoned: Option<u64>) -> Admission {
        let epoch = claim.epoch.max(self.slots[slot].epoch.saturating_add(1));
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
        let pause = Duration(BACK_OFF_MIN.0 << self.failures_count.min(12));
        self.failures_count += 1;
        self.state = State::Waiting(now + pause.min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: ProcessId = ProcessId(0);
    const HIGH: ProcessId = ProcessId(1);

    fn peer(id: ProcessId, rails: u8) -> (Peer, Instant) {
        let now = Instant(1_000);
        let plan = (0..rails).map(|interface| {
            // The one of the same number first.
            let partners = (0..rails).map(|place| (interface + place) % rails);
            RailPlan { rail: Rail(1 + interface), interface, candidates: partners.collect() }
        });
        (Peer::new(id, plan.collect(), 1, now, Duration::ZERO), now)
    }

    fn claim(epoch: u32) -> Claim {
        Claim { from: HIGH, from_interface: 0, to_interface: 0, epoch }
    }

    #[test]
    fn of_two_dials_at_once_the_lower_process_wins() {
        let (mut at_low, now) = peer(HIGH, 1);
        assert!(at_low.take_due(0, now).is_some());
        at_low.slots[0].state = State::Dialling(7);
        let refused = at_low.admit(LOW, &claim(1), |_| Some((0, true)));
        assert_eq!(refused.verdict, Verdict::Duplicate);
        let (mut at_high, _) = peer(LOW, 1);
        at_high.slots[0].state = State::Dialling(8);
        let admitted = at_high.admit(HIGH, &claim(1), |_| Some((0, true)));
        assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(8)));
    }

    #[test]
    fn a_dial_that_has_not_spoken_yields_to_one_that_has() {
        let (mut at_low, _) = peer(HIGH, 1);
        at_low.slots[0].state = State::Dialling(7);
        let admitted = at_low.admit(LOW, &claim(1), |_| Some((0, false)));
        assert_eq!((admitted.verdict, admitted.abandoned), (Verdict::Welcome, Some(7)));
    }

    #[test]
    fn a_newer_epoch_replaces_and_an_older_is_a_duplicate() {
        let (mut peer, _) = peer(HIGH, 1);
        peer.on_up(0, 0, 3);
        assert_eq!(peer.admit(LOW, &claim(3), |_| None).verdict, Verdict::Duplicate);
        let admission = peer.admit(LOW, &claim(4), |_| None);
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
        assert_eq!(peer.overdue(now + Duration(PATIENCE.0 / 2)).count(), 0);
        assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
    }

    #[test]
    fn a_peer_that_refuses_is_gone_and_one_cut_off_is_not() {
        let (mut peer, now) = peer(HIGH, 2);
        peer.on_up(0, 0, 1);
        peer.on_up(1, 1, 1);
        peer.on_broken(Rail(1), 1, true, now);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing, "a rail is up");
        peer.on_broken(Rail(2), 1, true, now);
        assert_eq!(peer.on_failure(1, Failure::Other, now), Consequence::Nothing);
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        assert_eq!(peer.admit(LOW, &claim(9), |_| None).verdict, Verdict::Busy);
    }

    #[test]
    fn a_peer_never_met_is_gone_when_every_address_keeps_refusing() {
        // Two rails; by each the peer's interface in the other's network refuses, too, or nobody is there.
        for crossing in [Failure::Refused, Failure::Other] {
            let (mut peer, mut now) = peer(HIGH, 2);
            let mut tries_count = 0;
            while !peer.is_over {
                for slot in 0..2 {
                    if let Some((candidate, _)) = peer.take_due(slot, now) {
                        tries_count += 1;
                        let failure = if candidate == 0 { Failure::Refused } else { crossing };
                        peer.on_failure(slot, failure, now);
                    }
                }
                assert!(tries_count < 1_000, "it is never gone");
                now = peer.next_time().unwrap_or(now);
            }
            // Two rails with two addresses each, and in the last round the first of them.
            assert_eq!(tries_count, 2 * 2 * (REFUSALS_NEVER_UP_MAX - 1) + 2);
        }
    }

    #[test]
    fn a_peer_never_met_of_which_one_address_is_silent_is_not_gone() {
        let (mut peer, now) = peer(HIGH, 2);
        for _ in 0..100 {
            assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
            assert_ne!(peer.on_failure(1, Failure::Other, now), Consequence::Gone);
        }
    }

    #[test]
    fn a_silent_peer_that_is_only_awaited_is_no_news() {
        let (mut peer, now) = peer(HIGH, 1);
        peer.is_only_awaited = true;
        for _ in 0..20 {
            assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
        }
        let later = now + Duration::from_s(1);
        assert_eq!(peer.overdue(later).count(), 0);
        peer.hasten(later);
        assert_eq!(peer.next_time(), Some(later));
        assert!(peer.overdue(later + PATIENCE).eq([Rail(1)]), "a message waits");
    }

    #[test]
    fn the_first_attempt_is_made_earlier_when_a_message_waits() {
        let now = Instant(1_000);
        let plan = || vec![RailPlan { rail: Rail(1), interface: 0, candidates: vec![0] }];
        let mut peer = Peer::new(HIGH, plan(), 1, now, PATIENCE);
        assert_eq!(peer.next_time(), Some(now + PATIENCE));
        peer.hasten(now);
        assert_eq!(peer.next_time(), Some(now));
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Down(Rail(1)));
        let later = peer.next_time();
        peer.hasten(now);
        assert_eq!(peer.next_time(), later, "a pause after a failure stays");
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
        let (_, partner) = peer.take_due(1, now).expect("the other one is free");
        assert_eq!(partner, 0);
    }

    #[test]
    fn a_new_connection_has_a_later_epoch_than_both_sides_know() {
        let (mut peer, _) = peer(HIGH, 1);
        peer.on_up(0, 0, 3);
        peer.slots[0].state = State::Idle;
        for (claimed, epoch) in [(2, 4), (4, 4), (7, 7)] {
            let admission = peer.admit(LOW, &claim(claimed), |_| None);
            assert_eq!((admission.verdict, admission.epoch), (Verdict::Welcome, epoch));
        }
    }

    /// One rail from interface 0, with these interfaces of the peer's.
    fn one_rail(candidates: Vec<u8>) -> (Peer, Instant) {
        let now = Instant(1_000);
        let plan = vec![RailPlan { rail: Rail(1), interface: 0, candidates }];
        (Peer::new(HIGH, plan, 1, now, Duration::ZERO), now)
    }

    /// Each of so many dials that all fail: its candidate, and the pause before it.
    fn dials(peer: &mut Peer, mut now: Instant, count: usize) -> Vec<(usize, Duration)> {
        let dial = |_| {
            let State::Waiting(due) = peer.slots[0].state else { panic!("it is to be tried again") };
            let pause = due.since(now);
            now = due;
            let (candidate, _) = peer.take_due(0, now).expect("it is due");
            peer.on_failure(0, Failure::Other, now);
            (candidate, pause)
        };
        (0..count).map(dial).collect()
    }

    #[test]
    fn all_candidates_are_tried_before_each_pause_which_doubles() {
        let (mut peer, now) = one_rail(vec![4, 5, 6]);
        let mut expected = vec![];
        for round in 0..14 {
            let pause = match round {
                0 => Duration::ZERO,
                round => Duration(BACK_OFF_MIN.0 << (round - 1)).min(BACK_OFF_NEVER_UP_MAX),
            };
            expected.extend([(0, pause), (1, Duration::ZERO), (2, Duration::ZERO)]);
        }
        assert_eq!(dials(&mut peer, now, expected.len()), expected);
        let last = expected[expected.len() - 3].1;
        assert_eq!(last, BACK_OFF_NEVER_UP_MAX);
    }

    #[test]
    fn a_rail_that_has_worked_is_tried_the_same_way_four_times() {
        let (mut peer, now) = one_rail(vec![4, 5, 6]);
        peer.on_up(0, 5, 1);
        peer.on_broken(Rail(1), 1, true, now);
        let expected = (0..14_u32).map(|dial| {
            let pause = dial
                .checked_sub(1)
                .map_or(Duration::ZERO, |failure| Duration(BACK_OFF_MIN.0 << failure).min(BACK_OFF_MAX));
            ([1, 2, 0][dial as usize / 4 % 3], pause)
        });
        assert_eq!(dials(&mut peer, now, 14), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_break_is_followed_by_a_dial_of_the_lower_process_first() {
        for (is_lower, due) in [(true, Duration::ZERO), (false, COURTESY)] {
            let (mut peer, now) = one_rail(vec![4]);
            peer.on_up(0, 4, 1);
            peer.on_broken(Rail(1), 1, is_lower, now);
            assert_eq!(peer.next_time(), Some(now + due));
            assert_eq!(peer.overdue(now + PATIENCE).count(), 0, "its user has said so itself");
            assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
        }
    }

    #[test]
    fn the_address_that_worked_is_dialled_after_a_break() {
        // The first two are addresses of one interface; the dial was to the second.
        let (mut peer, now) = one_rail(vec![5, 5, 6]);
        peer.take_due(0, now);
        assert_eq!(peer.on_failure(0, Failure::Other, now), Consequence::Nothing);
        peer.on_up(0, 5, 1);
        peer.on_broken(Rail(1), 1, true, now);
        assert_eq!(peer.take_due(0, now), Some((1, 5)));
        // The peer's own dial came from the third.
        peer.on_up(0, 6, 2);
        peer.on_broken(Rail(1), 2, true, now);
        assert_eq!(peer.take_due(0, now), Some((2, 6)));
        // And from one that no dial of ours goes to.
        peer.on_up(0, 9, 3);
        peer.on_broken(Rail(1), 3, true, now);
        assert_eq!(peer.take_due(0, now), Some((2, 6)));
    }

    #[test]
    fn refusals_before_a_connection_do_not_count_after_it() {
        let (mut peer, now) = one_rail(vec![4]);
        for _ in 1..REFUSALS_NEVER_UP_MAX {
            assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        }
        peer.on_up(0, 4, 1);
        peer.on_broken(Rail(1), 1, true, now);
        for _ in 1..REFUSALS_MAX {
            assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Nothing);
        }
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        assert_eq!((peer.next_time(), peer.take_due(0, now + PATIENCE)), (None, None));
    }

    #[test]
    fn a_silence_ends_a_row_of_refusals_and_an_end_does_not() {
        for (between, is_gone) in [(Failure::Ended, true), (Failure::Other, false)] {
            let (mut peer, now) = one_rail(vec![4]);
            peer.on_up(0, 4, 1);
            peer.on_broken(Rail(1), 1, true, now);
            for failure in [Failure::Refused, between] {
                assert_eq!(peer.on_failure(0, failure, now), Consequence::Nothing);
            }
            let last = peer.on_failure(0, Failure::Refused, now);
            assert_eq!(last == Consequence::Gone, is_gone, "{between:?}");
        }
    }

    #[test]
    fn what_is_no_refusal_takes_none_back() {
        let (mut peer, now) = one_rail(vec![4]);
        for _ in 1..REFUSALS_NEVER_UP_MAX {
            assert_ne!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
        }
        for failure in [Failure::Ended, Failure::Other].repeat(REFUSALS_NEVER_UP_MAX as usize) {
            assert_ne!(peer.on_failure(0, failure, now), Consequence::Gone, "no refusal");
        }
        assert_eq!(peer.on_failure(0, Failure::Refused, now), Consequence::Gone);
    }

    #[test]
    fn a_dial_that_is_a_duplicate_waits_for_the_peers() {
        let (mut peer, now) = one_rail(vec![4, 5]);
        peer.take_due(0, now);
        assert_eq!(peer.on_failure(0, Failure::Duplicate(7), now), Consequence::Nothing);
        assert_eq!(peer.next_time(), Some(now + LOSER_WAIT));
        assert_eq!(peer.take_due(0, now + LOSER_WAIT), Some((0, 4)), "the same, if it does not come");
        assert_eq!(peer.slots[0].epoch, 7);
        peer.on_failure(0, Failure::Duplicate(3), now);
        assert_eq!(peer.slots[0].epoch, 7, "an older answer");
    }

    #[test]
    fn a_message_makes_an_awaited_peer_wanted_from_then_on() {
        let (mut peer, now) = peer(HIGH, 2);
        peer.is_only_awaited = true;
        // One rail is dialled, the other one pauses.
        peer.slots[0].state = State::Dialling(1);
        for _ in 0..20 {
            peer.on_failure(1, Failure::Other, now);
        }
        let later = now + Duration::from_s(3);
        peer.hasten(later);
        assert_eq!(peer.slots[0].state, State::Dialling(1), "it goes on");
        assert!(peer.take_due(1, later).is_some());
        assert_eq!(peer.overdue(later + Duration(PATIENCE.0 - 1)).count(), 0, "it is wanted since then");
        assert_eq!(peer.overdue(later + PATIENCE).count(), 2);
        peer.on_failure(1, Failure::Other, later);
        peer.on_failure(1, Failure::Other, later);
        assert_eq!(peer.slots[1].state, State::Waiting(later + BACK_OFF_MIN), "the first pause is short");
    }

    #[test]
    fn a_first_attempt_that_is_made_earlier_is_wanted_earlier() {
        let now = Instant(1_000);
        let plan = vec![RailPlan { rail: Rail(1), interface: 0, candidates: vec![0] }];
        let mut peer = Peer::new(HIGH, plan, 1, now, Duration::from_s(5));
        peer.hasten(now);
        peer.slots[0].state = State::Dialling(1);
        assert_eq!(peer.next_time(), Some(now + PATIENCE));
        assert!(peer.overdue(now + PATIENCE).eq([Rail(1)]));
    }

    #[test]
    fn a_peer_that_has_called_is_not_only_awaited() {
        let (mut peer, now) = peer(HIGH, 2);
        peer.is_only_awaited = true;
        peer.on_up(0, 0, 1);
        assert!(peer.overdue(now + PATIENCE).eq([Rail(2)]), "its other rail is missed");
    }

    #[test]
    fn a_rail_without_a_free_partner_is_tried_later() {
        let now = Instant(1_000);
        let plan = |interface| RailPlan { rail: Rail(interface), interface, candidates: vec![4] };
        let mut peer = Peer::new(HIGH, vec![plan(0), plan(1)], 1, now, Duration::ZERO);
        peer.on_up(0, 4, 1);
        assert_eq!(peer.take_due(1, now), None);
        assert_eq!(peer.take_due(1, now), None, "not again at once");
        assert_eq!(peer.slots[1].state, State::Waiting(now + BACK_OFF_MIN));
        peer.on_broken(Rail(0), 1, true, now);
        assert_eq!(peer.take_due(1, now + BACK_OFF_MIN), Some((0, 4)));
    }

    #[test]
    fn rails_of_one_interface_go_to_different_partners() {
        let now = Instant(1_000);
        let plan = |rail, interface| RailPlan { rail: Rail(rail), interface, candidates: vec![4, 5] };
        let plans = vec![plan(1, 0), plan(2, 0), plan(3, 1)];
        let mut peer = Peer::new(HIGH, plans, 2, now, Duration::ZERO);
        peer.on_up(0, 4, 1);
        assert_eq!(peer.take_due(1, now), Some((1, 5)), "4 has a rail of the same interface");
        assert_eq!(peer.take_due(2, now), Some((0, 4)), "4 carries a second one of another");
    }

    #[test]
    fn a_call_takes_the_rail_whose_dial_it_meets() {
        let now = Instant(1_000);
        let plan = |rail| RailPlan { rail: Rail(rail), interface: 0, candidates: vec![0, 1] };
        let mut peer = Peer::new(HIGH, vec![plan(1), plan(2)], 2, now, Duration::ZERO);
        peer.slots[1].state = State::Dialling(7);
        let admission = peer.admit(LOW, &claim(1), |_| Some((0, false)));
        assert_eq!((admission.slot, admission.abandoned), (1, Some(7)), "though another rail is free");
        let admission = peer.admit(LOW, &claim(1), |_| Some((1, true)));
        assert_eq!((admission.slot, admission.abandoned), (0, None), "that dial goes elsewhere");
    }
}
