//! Agreement among the members of a communicator of which some fail: the part of one member.
//!
//! A non-blocking commitment with a coordinator that can be replaced (Skeen 1981; Hursey et al. 2011 for MPI;
//! the flat form of what Bosilca et al. 2015 do along a tree). The coordinator is the lowest member that is
//! not known to have failed; its number is the *ballot*. Agreements of a communicator are numbered and run
//! one after another.
//!
//! ```text
//! member        Report(contribution) ─►               Ack ─►               decided
//! coordinator                 all live ─► Prepare ─►       all live ─► Commit ─► decided
//! ```
//!
//! When a member learns that its coordinator has failed it reports to the next one: its contribution, or the
//! value last prepared. The new coordinator waits for all live members, goes on with the value prepared by
//! the highest ballot, and makes a proposal of its own only if no member has one. A member that has decided
//! answers every member that still asks, and tells each new coordinator. It keeps its last decision, and only
//! that, because a member that takes part in the next agreement has the one before.
//!
//! # What has to hold, and why it does
//!
//! Assumed: members fail by stopping; a member that is reported as failed has failed (or no surviving member
//! hears it again); every failure is reported to every live member in the end; notes between live members
//! arrive.
//!
//! *Uniform agreement: no two members decide differently, those that fail later included.* The first that
//! decides `v`, with ballot `b`, does so after every member that had not failed has acknowledged `Prepare(b,
//! v)`. A later coordinator `c > b` gets reports of all live members, and each of them acknowledged `(b, v)`
//! before it reported to `c`, for after that it takes no proposal below `c` (`promised`). So the highest
//! ballot reported to `c` is at least `b`. By induction over ballots from `b` on, each proposes `v` or
//! nothing. Otherwise decisions are only forwarded.
//!
//! *Validity.* A proposal is *and* of the contributions of all that lived when it was made, and of some that
//! have failed.
//!
//! *Termination: each live member that has called decides, once all live ones have called.* After the last
//! failure is known to all, all report to one coordinator `c`. If `c` has decided it answers each. If another
//! has, it tells `c` when it learns that `c` coordinates, or answers `c`'s proposal, and `c` tells all. Else
//! `c` gets a report and an acknowledgement of each.
//!
//! The tests run this with failures, and late news of them, at every step.

use super::note::{Acked, Contribution, Decision, Report, VALUE_BITS, Value, What};
use crate::hash::{SPLITMIX64_STEP, splitmix64};
use crate::ids::ContextId;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// A member's input to an agreement.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Given back with the decision.
    pub(crate) id: u32,
    /// Its contribution.
    pub(crate) value: Value,
    /// The members whose failure it has acknowledged, in order.
    pub(crate) acked: Vec<u32>,
    /// The bits of the value say which members live, from this one on: those of members that contribute
    /// nothing are cleared.
    pub(crate) lives_from: Option<u32>,
    /// The context to be decided where this member coordinates.
    pub(crate) context: ContextId,
}

/// Outputs of the machine.
#[derive(Default, Debug)]
pub(crate) struct Outputs {
    /// Notes, each with the number of the member it is for.
    pub(crate) notes: VecDeque<(u32, What)>,
    /// Calls that are over.
    pub(crate) decided: VecDeque<(u32, Decision)>,
}

/// The agreements of one communicator, at one member.
#[derive(Debug)]
pub(crate) struct Agreements {
    me: u32,
    has_failed: Vec<bool>,
    /// The number of the next agreement to begin.
    next_instance: u32,
    current: Option<Current>,
    calls: VecDeque<Call>,
    decided: Option<(u32, Decision)>,
    /// Reports of agreements, or for ballots, that have not begun here, by agreement and sender.
    early: BTreeMap<(u32, u32), Report>,
}

/// The agreement under way.
#[derive(Debug)]
struct Current {
    instance: u32,
    call: Call,
    /// No proposal of a lower ballot is taken.
    promised: u32,
    /// The last proposal that was taken.
    prepared: Option<(u32, Decision)>,
    /// While this member coordinates.
    reports: BTreeMap<u32, Report>,
    proposal: Option<Decision>,
    acks: BTreeSet<u32>,
}

impl Current {
    fn report(&self) -> Report {
        match self.prepared {
            Some((ballot, decision)) => Report::Prepared { ballot, decision },
            None => {
                Report::Contribution(Contribution { value: self.call.value, acked: digest(&self.call.acked) })
            }
        }
    }

    /// The proposal of a coordinator that has the reports of all.
    fn propose(&self, members_count: u32, me: u32) -> Decision {
        let prepared = self
            .reports
            .values()
            .chain([&self.report()])
            .filter_map(|report| match *report {
                Report::Prepared { ballot, decision } => Some((ballot, decision)),
                Report::Contribution(_) => None,
            })
            .max_by_key(|(ballot, _)| *ballot);
        if let Some((_, decision)) = prepared {
            return decision;
        }
        let own = digest(&self.call.acked);
        let mut value = self.call.value;
        let mut is_failed = false;
        for number in (0..members_count).filter(|number| *number != me) {
            match self.reports.get(&number) {
                Some(Report::Contribution(contribution)) => {
                    value.iter_mut().zip(contribution.value).for_each(|(all, its)| *all &= its);
                    is_failed |= contribution.acked != own;
                }
                _ => {
                    clear_life(&mut value, self.call.lives_from, number);
                    is_failed |= self.call.acked.binary_search(&number).is_err();
                }
            }
        }
        Decision { value, is_failed, context: self.call.context }
    }
}

/// Clears the bit that says that a member lives.
fn clear_life(value: &mut Value, lives_from: Option<u32>, number: u32) {
    let bit = lives_from.and_then(|first| number.checked_sub(first)).filter(|bit| *bit < VALUE_BITS);
    if let Some(bit) = bit {
        value[bit as usize / 64] &= !(1 << (bit % 64));
    }
}

/// The same for the same set, and hardly ever for another.
fn digest(numbers: &[u32]) -> Acked {
    let hash = |number: u32| splitmix64(SPLITMIX64_STEP.wrapping_mul(number.into()));
    let digest = numbers.iter().fold(0, |sum: u64, number| sum.wrapping_add(hash(*number)));
    Acked { count: numbers.len() as u32, digest }
}

impl Agreements {
    /// The agreements of member `me` of `members_count`, with the members known to have failed.
    pub(crate) fn new(me: u32, members_count: u32, failed: impl Iterator<Item = u32>) -> Self {
        let mut has_failed = vec![false; members_count as usize];
        failed.for_each(|number| has_failed[number as usize] = true);
        Self {
            me,
            has_failed,
            next_instance: 0,
            current: None,
            calls: VecDeque::new(),
            decided: None,
            early: BTreeMap::new(),
        }
    }

    /// This member calls. It begins once the calls before it are decided.
    pub(crate) fn call(&mut self, call: Call, out: &mut Outputs) {
        self.calls.push_back(call);
        self.begin_next(out);
    }

    /// Whether a call of this member is not decided.
    pub(crate) fn is_waiting(&self) -> bool {
        self.current.is_some()
    }

    /// The members it waits for, if it waits.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        let others = self.is_waiting().then(|| self.live_others());
        let coordinates = self.coordinator() == self.me;
        others.into_iter().flatten().filter(move |number| coordinates || *number == self.coordinator())
    }

    /// The lowest member that is not known to have failed.
    fn coordinator(&self) -> u32 {
        self.has_failed.iter().position(|has_failed| !has_failed).map_or(self.me, |number| number as u32)
    }

    fn live_others(&self) -> impl Iterator<Item = u32> + use<'_> {
        let all = self.has_failed.iter().zip(0..);
        all.filter(|(has_failed, number)| !**has_failed && *number != self.me).map(|(_, number)| number)
    }

    fn tell_others(&self, what: What, out: &mut Outputs) {
        out.notes.extend(self.live_others().map(|number| (number, what)));
    }

    fn begin_next(&mut self, out: &mut Outputs) {
        if self.current.is_some() {
            return;
        }
        let Some(call) = self.calls.pop_front() else { return };
        let instance = self.next_instance;
        self.next_instance = instance.wrapping_add(1);
        self.current = Some(Current {
            instance,
            call,
            promised: 0,
            prepared: None,
            reports: BTreeMap::new(),
            proposal: None,
            acks: BTreeSet::new(),
        });
        self.report(out);
    }

    /// Reports to the coordinator, or coordinates.
    fn report(&mut self, out: &mut Outputs) {
        let (ballot, me) = (self.coordinator(), self.me);
        let Some(current) = &mut self.current else { return };
        current.promised = ballot;
        let instance = current.instance;
        if ballot != me {
            out.notes.push_back((ballot, What::Report { instance, ballot, report: current.report() }));
            return;
        }
        while let Some(entry) = self.early.range((instance, 0)..=(instance, u32::MAX)).next() {
            let (&key, &report) = entry;
            self.early.remove(&key);
            current.reports.insert(key.1, report);
        }
        self.coordinate(out);
    }

    /// Goes on as coordinator if all that live have answered.
    fn coordinate(&mut self, out: &mut Outputs) {
        let (me, members_count) = (self.me, self.has_failed.len() as u32);
        let Some(current) = &self.current else { return };
        if current.promised != me {
            return;
        }
        let instance = current.instance;
        if current.proposal.is_none() {
            if self.live_others().any(|number| !current.reports.contains_key(&number)) {
                return;
            }
            let decision = current.propose(members_count, me);
            self.tell_others(What::Prepare { instance, ballot: me, decision }, out);
            if let Some(current) = &mut self.current {
                current.proposal = Some(decision);
                current.prepared = Some((me, decision));
            }
        }
        let Some(Current { proposal: Some(decision), acks, .. }) = &self.current else { return };
        if self.live_others().all(|number| acks.contains(&number)) {
            let decision = *decision;
            self.tell_others(What::Commit { instance, decision }, out);
            self.decide(decision, out);
        }
    }

    fn decide(&mut self, decision: Decision, out: &mut Outputs) {
        let Some(current) = self.current.take() else { return };
        self.decided = Some((current.instance, decision));
        out.decided.push_back((current.call.id, decision));
        self.early.retain(|(instance, _), _| *instance != current.instance);
        self.begin_next(out);
    }

    /// A note of another member has come. `Err`: no correct member sends it.
    pub(crate) fn on_note(&mut self, from: u32, what: &What, out: &mut Outputs) -> Result<(), &'static str> {
        let instance = match *what {
            What::Revoke => return Ok(()),
            What::Report { instance, .. }
            | What::Prepare { instance, .. }
            | What::Ack { instance, .. }
            | What::Commit { instance, .. } => instance,
        };
        if let Some((last, decision)) = self.decided.filter(|(last, _)| *last == instance) {
            if matches!(what, What::Report { .. } | What::Prepare { .. }) {
                out.notes.push_back((from, What::Commit { instance: last, decision }));
            }
            return Ok(());
        }
        match *what {
            What::Report { ballot, report, .. } => {
                return self.on_report(from, (instance, ballot), report, out);
            }
            // One that has failed: its proposals may be older than what this member has promised.
            _ if self.has_failed[from as usize] && !matches!(what, What::Commit { .. }) => return Ok(()),
            _ => {}
        }
        let me = self.me;
        let Some(current) = self.current.as_mut().filter(|current| current.instance == instance) else {
            return Ok(());
        };
        match *what {
            What::Prepare { ballot, .. } if ballot != from => return Err("a proposal of another's"),
            What::Prepare { ballot, decision, .. } if ballot >= current.promised => {
                current.promised = ballot;
                current.prepared = Some((ballot, decision));
                out.notes.push_back((from, What::Ack { instance, ballot }));
            }
            What::Ack { ballot, .. } if ballot == me && current.proposal.is_some() => {
                current.acks.insert(from);
                self.coordinate(out);
            }
            What::Commit { decision, .. } => {
                let coordinates = self.coordinator() == me;
                if coordinates {
                    self.tell_others(What::Commit { instance, decision }, out);
                }
                self.decide(decision, out);
            }
            _ => {}
        }
        Ok(())
    }

    fn on_report(
        &mut self,
        from: u32,
        (instance, ballot): (u32, u32),
        report: Report,
        out: &mut Outputs,
    ) -> Result<(), &'static str> {
        /// Agreements that a member may be ahead: each needs this one's contribution to be decided, so one.
        const AHEAD_MAX: i32 = 1;
        if ballot != self.me {
            return Err("a report to another coordinator");
        }
        let waits_for = self.current.as_ref().map_or(self.next_instance, |current| current.instance);
        let ahead = instance.wrapping_sub(waits_for).cast_signed();
        if ahead < 0 || self.has_failed[from as usize] {
            return Ok(());
        }
        if ahead > AHEAD_MAX {
            return Err("a report of an agreement that no member can have begun");
        }
        match &mut self.current {
            Some(current) if current.instance == instance && current.promised == ballot => {
                if current.proposal.is_none() {
                    current.reports.insert(from, report);
                    self.coordinate(out);
                }
            }
            _ => drop(self.early.insert((instance, from), report)),
        }
        Ok(())
    }

    /// A member has failed.
    pub(crate) fn on_failed(&mut self, number: u32, out: &mut Outputs) {
        let before = self.coordinator();
        self.has_failed[number as usize] = true;
        let coordinator = self.coordinator();
        if coordinator == before {
            return self.coordinate(out);
        }
        if let Some((instance, decision)) = self.decided {
            let commit = What::Commit { instance, decision };
            match coordinator == self.me {
                true => self.tell_others(commit, out),
                false => out.notes.push_back((coordinator, commit)),
            }
        }
        self.report(out);
    }
}

#[cfg(test)]
mod tests;
