//! Checks the order of a schedule's steps without running it: whatever the transport does, no two steps may
//! touch the same bytes at once unless both only read, and messages to and from one peer must be issued in
//! order.

use super::*;
use crate::coll::schedule::{Action, NONE, Schedule};

/// A set of steps.
#[derive(Clone)]
struct Set(Vec<u64>);

impl Set {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }
    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }
}

/// For each step: what it waits for directly (and whether only for the issue), and all that has certainly
/// completed, and been issued, before it is issued.
struct Before {
    direct: Vec<Vec<(usize, bool)>>,
    completed: Vec<Set>,
    issued: Vec<Set>,
}

impl Before {
    fn of(schedule: &Schedule) -> Self {
        let len = schedule.steps.len();
        let mut direct = vec![Vec::new(); len];
        for (from, step) in schedule.steps.iter().enumerate() {
            let mut next = step.first_edge;
            while next != NONE {
                let edge = schedule.edges[next as usize];
                direct[edge.to as usize].push((from, edge.on_issue));
                next = edge.next;
            }
        }
        let (mut completed, mut issued) = (vec![Set::new(len); len], vec![Set::new(len); len]);
        let mut fence = 0;
        for at in 0..len {
            assert_eq!(direct[at].len(), schedule.steps[at].needs as usize);
            if schedule.steps[at].fenced {
                fence = at;
            }
            for before in 0..fence {
                completed[at].insert(before);
                issued[at].insert(before);
            }
            for &(before, on_issue) in &direct[at] {
                let (c, i) = (completed[before].clone(), issued[before].clone());
                completed[at].add(&c);
                issued[at].add(&i);
                issued[at].insert(before);
                if !on_issue {
                    completed[at].insert(before);
                }
            }
        }
        Self { direct, completed, issued }
    }

    /// Whether step `a` becomes ready before step `b`, or together with it and is then issued first: `b` is
    /// issued after it in any case, or waits for everything that `a` waits for (fences included, for `a` is
    /// the earlier).
    fn issues_in_order(&self, a: usize, b: usize) -> bool {
        self.issued[b].has(a)
            || self.direct[a].iter().all(|&(before, on_issue)| {
                if on_issue { self.issued[b].has(before) } else { self.completed[b].has(before) }
            })
    }
}

/// What a step reads and what it writes.
fn accesses(action: &Action) -> (Option<Buffer>, Option<Buffer>) {
    match *action {
        Action::Send { buffer, .. } => (Some(buffer), None),
        Action::Receive { buffer, .. } => (None, Some(buffer)),
        Action::Copy { from, to } => (Some(from), Some(to)),
        Action::Reduce { input, inout } => (Some(input), Some(inout)),
    }
}

fn conflict(a: &Action, b: &Action) -> bool {
    let overlap = |x: Option<Buffer>, y: Option<Buffer>| x.zip(y).is_some_and(|(x, y)| x.overlaps(&y));
    let ((read_a, write_a), (read_b, write_b)) = (accesses(a), accesses(b));
    overlap(write_a, write_b) || overlap(write_a, read_b) || overlap(read_a, write_b)
}

/// The peer of a message, with its direction.
fn peer(action: &Action) -> Option<(bool, Rank)> {
    match *action {
        Action::Send { to, .. } => Some((true, to)),
        Action::Receive { from, .. } => Some((false, from)),
        _ => None,
    }
}

pub(super) fn check(schedule: &Schedule) -> Result<(), String> {
    let before = Before::of(schedule);
    let actions: Vec<_> = schedule.actions().collect();
    for b in 0..actions.len() {
        let mut ordered = false;
        for a in (0..b).rev() {
            if conflict(actions[a], actions[b]) && !before.completed[b].has(a) {
                return Err(format!(
                    "steps {a} {:?} and {b} {:?} touch the same bytes at once",
                    actions[a], actions[b]
                ));
            }
            // The last message of the same direction to the same peer.
            if !ordered && peer(actions[b]).is_some() && peer(actions[a]) == peer(actions[b]) {
                ordered = true;
                if !before.issues_in_order(a, b) {
                    return Err(format!("messages {a} {:?} and {b} may change places", actions[a]));
                }
            }
        }
    }
    Ok(())
}
