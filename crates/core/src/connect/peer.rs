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
    /// Since the last pause an attempt has reached a host that answers.
    is_answered: bool,
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
    /// Nothing waits to be sent. A rail by which its host answers is not reported down, though the process
    /// does not: it may be stopped, and call later.
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
    /// The connection came about, and nobody answered in time: the process is stopped, or another program has
    /// got its port.
    Unanswered,
    /// Anything else: no way to the host is known.
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
            is_answered: false,
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
            Failure::Ended => this.is_answered = true,
            Failure::Unanswered => (this.is_answered, this.refusals_count) = (true, 0),
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
        let may_call = core::mem::take(&mut this.is_answered) && self.is_only_awaited;
        if may_call || core::mem::replace(&mut this.is_reported_down, true) {
            Consequence::Nothing
        } else {
            Consequence::Down(this.rail)
        }
    }

    /// Rails that were wanted long enough ago and are not up: to be reported, once each. Of a peer that is
    /// only awaited those by which it cannot be tried: the others' attempts end.
    pub(super) fn overdue(&mut self, now: Instant) -> impl Iterator<Item = Rail> + '_ {
        let (is_over, is_wanted) = (self.is_over, !self.is_only_awaited);
        self.slots.iter_mut().filter_map(move |slot| {
            let may_be_due = !is_over && (is_wanted || slot.state == State::Idle);
            let is_overdue = may_be_due && !slot.is_reported_down && slot.is_late(now);
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
            let is_pending = match slot.state {
                State::Up(_) => false,
                State::Idle => !slot.is_reported_down,
                State::Waiting(_) | State::Dialling(_) => !slot.is_reported_down && !self.is_only_awaited,
            };
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
mod tests;
