//! The graph of waiting ranks, and whether their waits can end.
//!
//! A rank that waits goes on when what it needs can come: *all* of its needs, or *any* (`MPI_Waitany`); a
//! receive from `MPI_ANY_SOURCE` needs any member. A need can come if the rank it is about is not stuck, or
//! if what is needed is on its way already (packets sent and not handled, data being moved). Ranks that
//! compute, poll, are stopped, or are unknown may do anything. So: take those as able to go on, add every
//! rank whose needs can come from them, and repeat until nothing changes. Each remaining rank waits for
//! others of the rest, or for ranks that have ended: no message will ever come. This condition is also exact
//! for waiting on *any* (a knot), where a cycle alone would prove nothing.

use crate::why::report::{Activity, RankState, Ranks};
use ayatori_core::explain::{
    Blocked, CommState, HeldLock, Label, LockState, Need, NodeState, PostedReceive, Snapshot,
};
use ayatori_core::ids::{ContextId, ProcessId, RequestId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many members of a stuck set a shortest cycle is looked for from.
const STARTS_MAX: usize = 64;
/// Maximum number of cycles reported.
const CYCLES_MAX: usize = 4;

/// Why a rank does not go on: a need that is not met, and whose doing that is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Edge {
    pub(crate) call: String,
    pub(crate) need: Need,
    pub(crate) to: BTreeSet<u32>,
}

/// The conclusion about a job as a whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Verdict {
    /// Ranks that can never go on.
    pub(crate) stuck: BTreeSet<u32>,
    /// Some of them, each waiting for the next and the last for the first; none if they wait for ranks that
    /// have ended.
    pub(crate) cycles: Vec<Vec<u32>>,
    /// Ranks that have left or ended and are waited for.
    pub(crate) missing: BTreeSet<u32>,
    /// Ranks that wait and can still go on.
    pub(crate) waiting: BTreeSet<u32>,
    /// Ranks that those wait for, in the end.
    pub(crate) awaited: BTreeSet<u32>,
    /// Threads of stuck ranks that were not seen might still help.
    pub(crate) is_threaded: bool,
}

/// The ranks of a job as a graph.
pub(crate) struct Graph<'r> {
    pub(crate) ranks: &'r Ranks,
    alive: BTreeSet<u32>,
}

impl<'r> Graph<'r> {
    /// Finds the ranks that can go on.
    pub(crate) fn new(ranks: &'r Ranks) -> Self {
        let is_free = |state: &&RankState| {
            !matches!(state.activity, Activity::Blocked(_) | Activity::Left | Activity::Ended)
        };
        let alive = ranks.values().filter(is_free).map(|state| state.rank).collect();
        let mut graph = Self { ranks, alive };
        loop {
            let more: Vec<u32> =
                graph.blocked().filter(|state| graph.can_go_on(state)).map(|s| s.rank).collect();
            let news: Vec<u32> = more.into_iter().filter(|rank| !graph.alive.contains(rank)).collect();
            if news.is_empty() {
                return graph;
            }
            graph.alive.extend(news);
        }
    }

    fn blocked(&self) -> impl Iterator<Item = &'r RankState> {
        self.ranks.values().filter(|state| matches!(state.activity, Activity::Blocked(_)))
    }

    fn is_alive(&self, rank: u32) -> bool {
        self.alive.contains(&rank) || !self.ranks.contains_key(&rank)
    }

    /// Whether one of the rank's threads can go on.
    fn can_go_on(&self, state: &RankState) -> bool {
        let Activity::Blocked(told) = &state.activity else { return true };
        told.blocked.iter().any(|blocked| self.open_needs(state.rank, blocked).is_none())
    }

    /// The needs that keep a call from going on; `None`: none does.
    fn open_needs(&self, me: u32, blocked: &Blocked) -> Option<Vec<Edge>> {
        let edge = |need: &Need| {
            let to = self.open(me, need)?;
            Some(Edge { call: blocked.call.clone(), need: need.clone(), to })
        };
        let open: Vec<Edge> = blocked.needs.iter().filter_map(edge).collect();
        let is_over = if blocked.is_any { open.len() < blocked.needs.len() } else { open.is_empty() };
        (!is_over && !open.is_empty()).then_some(open)
    }

    /// Why a rank does not go on.
    pub(crate) fn edges(&self, rank: u32) -> Vec<Edge> {
        let Some(RankState { activity: Activity::Blocked(told), .. }) = self.ranks.get(&rank) else {
            return Vec::new();
        };
        told.blocked.iter().filter_map(|blocked| self.open_needs(rank, blocked)).flatten().collect()
    }

    /// The ranks without which a need cannot come, none of which can go on; `None`: it can come.
    fn open(&self, me: u32, need: &Need) -> Option<BTreeSet<u32>> {
        let stuck = |ranks: BTreeSet<u32>| (!ranks.iter().any(|&rank| self.is_alive(rank))).then_some(ranks);
        match need {
            Need::Nothing | Need::Other(_) => None,
            Need::Message(PostedReceive { source: Some(source), .. }) => {
                let is_coming = self.is_on_its_way(source.0, me);
                if is_coming { None } else { stuck(BTreeSet::from([source.0])) }
            }
            Need::Message(wanted) => {
                let others: BTreeSet<u32> =
                    self.members(me, wanted.context).into_iter().filter(|&rank| rank != me).collect();
                let is_coming = others.iter().any(|&rank| self.is_on_its_way(rank, me));
                if is_coming { None } else { stuck(others) }
            }
            Need::Match { to, request, .. } => {
                let is_unmatched = self.is_unmatched(me, *to, *request);
                if is_unmatched { stuck(BTreeSet::from([to.0])) } else { None }
            }
            // A rank that waits in MPI makes progress, too.
            Need::Progress { peer } => {
                let is_gone = matches!(self.activity(peer.0), Some(Activity::Left | Activity::Ended));
                is_gone.then(|| BTreeSet::from([peer.0]))
            }
            Need::Collective(state) => {
                let open: Vec<BTreeSet<u32>> =
                    state.needs.iter().filter_map(|need| self.open(me, need)).collect();
                (!open.is_empty()).then(|| open.into_iter().flatten().collect())
            }
            Need::Node(state) => {
                let lacking: BTreeSet<u32> =
                    self.lacking(me, state).into_iter().filter(|&rank| !self.is_alive(rank)).collect();
                (!lacking.is_empty()).then_some(lacking)
            }
            // Each holder has to give it back.
            Need::Lock(state) => {
                let open: BTreeSet<u32> =
                    self.holders(state).into_iter().filter(|&rank| !self.is_alive(rank)).collect();
                (!open.is_empty()).then_some(open)
            }
        }
    }

    fn activity(&self, rank: u32) -> Option<&Activity> {
        self.ranks.get(&rank).map(|state| &state.activity)
    }

    fn told(&self, rank: u32) -> Option<&Snapshot> {
        self.ranks.get(&rank)?.told.as_deref()
    }

    /// A communicator as a rank knows it.
    pub(crate) fn comm(&self, rank: u32, context: ContextId) -> Option<&CommState> {
        self.told(rank)?.state.comms.iter().find(|comm| comm.context == context.point_to_point())
    }

    /// The members of a communicator; all ranks if they are unknown.
    pub(crate) fn members(&self, rank: u32, context: ContextId) -> BTreeSet<u32> {
        match self.comm(rank, context) {
            Some(comm) => {
                // A rank's report is not trusted: no range is longer than the job.
                let most = self.ranks.keys().next_back().copied().unwrap_or(0);
                comm.members.iter().flat_map(|&(first, last)| first..=last.min(most)).collect()
            }
            None => self.ranks.keys().copied().collect(),
        }
    }

    /// Whether packets are under way: sent, or kept to be sent, and not handled.
    fn is_on_its_way(&self, from: u32, to: u32) -> bool {
        let link = |rank: u32, peer: u32| {
            self.told(rank)?.state.links.iter().find(|link| link.peer == ProcessId(peer))
        };
        let (out, back) = (link(from, to), link(to, from));
        let sent = out.map_or(0, |link| link.sent_count);
        let received = back.map_or(0, |link| link.received_count);
        let is_cut = out.is_some_and(|link| link.has_failed) || back.is_some_and(|link| link.has_failed);
        let is_known = self.told(from).is_some() && self.told(to).is_some();
        is_known && !is_cut && (sent != received || out.is_some_and(|link| link.queued_count > 0))
    }

    /// Whether a message that a sender waits with lies unmatched at the receiver, or may.
    fn is_unmatched(&self, from: u32, to: ProcessId, request: RequestId) -> bool {
        if to.0 == from {
            return true;
        }
        let Some(told) = self.told(to.0) else { return true };
        let is_it = |message: &ayatori_core::explain::UnexpectedMessage| {
            message.source == ProcessId(from) && message.sender == Some(request)
        };
        let unexpected = &told.state.unexpected;
        !self.is_on_its_way(from, to.0) && (unexpected.is_cut() || unexpected.first.iter().any(is_it))
    }

    /// The members that have not come to a node's operation, or are in another one in its place.
    pub(crate) fn lacking(&self, me: u32, state: &NodeState) -> BTreeSet<u32> {
        let all = match state.awaited {
            Some(root) => BTreeSet::from([root.0]),
            None => self.members(me, state.context),
        };
        all.into_iter().filter(|&rank| rank != me && !self.has_come(rank, state)).collect()
    }

    fn has_come(&self, rank: u32, wanted: &NodeState) -> bool {
        // A rank without a report is unknown and does not count as one that has arrived.
        let Some(comm) = self.comm(rank, wanted.context) else { return false };
        let is_in_another = self.node_operations(rank).any(|other| {
            other.context == wanted.context
                && other.number == wanted.number
                && other.label.collective != wanted.label.collective
        });
        comm.collectives_count.1 > wanted.number && !is_in_another
    }

    /// The ranks known to hold a lock. If several share it, only those that answer are known.
    pub(crate) fn holders(&self, lock: &LockState) -> BTreeSet<u32> {
        if let Some(holder) = lock.holder {
            return BTreeSet::from([holder.0]);
        }
        let is_it = |held: &&HeldLock| {
            held.context == lock.context && held.target.is_none_or(|target| target == lock.target)
        };
        let holds = |rank: u32| {
            let held = self.told(rank).and_then(|told| told.state.held.iter().find(is_it));
            held.is_some_and(|held| !self.waits_for_lock(rank, held))
        };
        self.ranks.keys().copied().filter(|&rank| holds(rank)).collect()
    }

    /// Whether a rank waits for a lock that it reports as held: it has all of the locks that a call wants, or
    /// none.
    fn waits_for_lock(&self, rank: u32, held: &HeldLock) -> bool {
        let Some(Activity::Blocked(told)) = self.activity(rank) else { return false };
        told.blocked.iter().flat_map(|blocked| &blocked.needs).any(|need| match need {
            Need::Lock(wanted) => {
                wanted.context == held.context && held.target.is_none_or(|target| target == wanted.target)
            }
            _ => false,
        })
    }

    fn node_operations(&self, rank: u32) -> impl Iterator<Item = &NodeState> {
        let blocked = match self.activity(rank) {
            Some(Activity::Blocked(told)) => &told.blocked[..],
            _ => &[],
        };
        blocked.iter().flat_map(|blocked| &blocked.needs).filter_map(|need| match need {
            Need::Node(state) => Some(state),
            _ => None,
        })
    }

    /// Judges.
    pub(crate) fn verdict(&self) -> Verdict {
        let (waiting, stuck): (BTreeSet<u32>, BTreeSet<u32>) =
            self.blocked().map(|state| state.rank).partition(|rank| self.alive.contains(rank));
        let next: BTreeMap<u32, BTreeSet<u32>> = stuck
            .iter()
            .map(|&rank| (rank, self.edges(rank).into_iter().flat_map(|edge| edge.to).collect()))
            .collect();
        let is_missing = |rank: &u32| matches!(self.activity(*rank), Some(Activity::Left | Activity::Ended));
        let missing = next.values().flatten().copied().filter(is_missing).collect();
        let is_threaded = stuck.iter().any(|&rank| self.told(rank).is_some_and(|told| told.is_threaded));
        let cycles = cycles(next);
        let awaited = self.awaited(&waiting);
        Verdict { stuck, cycles, missing, waiting, awaited, is_threaded }
    }

    /// The ranks that do not wait themselves and that those wait for.
    fn awaited(&self, waiting: &BTreeSet<u32>) -> BTreeSet<u32> {
        let all = waiting.iter().flat_map(|&rank| self.targets(rank));
        all.filter(|rank| !waiting.contains(rank)).collect()
    }

    /// All that a rank's needs are about, whether they can come or not.
    pub(crate) fn targets(&self, rank: u32) -> BTreeSet<u32> {
        let Some(Activity::Blocked(told)) = self.activity(rank) else { return BTreeSet::new() };
        told.blocked
            .iter()
            .flat_map(|blocked| &blocked.needs)
            .flat_map(|need| self.about(rank, need))
            .collect()
    }

    /// The ranks that one need is about.
    pub(crate) fn targets_of(&self, rank: u32, need: &Need) -> BTreeSet<u32> {
        self.about(rank, need)
    }

    fn about(&self, me: u32, need: &Need) -> BTreeSet<u32> {
        match need {
            Need::Nothing | Need::Other(_) => BTreeSet::new(),
            Need::Message(PostedReceive { source: Some(source), .. }) => BTreeSet::from([source.0]),
            Need::Message(wanted) => {
                self.members(me, wanted.context).into_iter().filter(|&rank| rank != me).collect()
            }
            Need::Match { to, .. } => BTreeSet::from([to.0]),
            Need::Progress { peer } => BTreeSet::from([peer.0]),
            Need::Collective(state) => state.needs.iter().flat_map(|need| self.about(me, need)).collect(),
            Need::Node(state) => self.lacking(me, state),
            Need::Lock(state) => self.holders(state),
        }
    }

    /// The collective operation that a rank's blocked calls are in, with its number among all on the
    /// communicator.
    pub(crate) fn collective_of(&self, rank: u32) -> Option<(ContextId, u64, Option<Label>, String)> {
        let Some(Activity::Blocked(told)) = self.activity(rank) else { return None };
        told.blocked.iter().find_map(|blocked| {
            let (context, label) = blocked.needs.iter().find_map(|need| match need {
                Need::Node(state) => Some((state.context, Some(state.label))),
                Need::Collective(state) if state.number >= 0 => Some((state.context, state.label)),
                _ => None,
            })?;
            let (messages, node) = self.comm(rank, context)?.collectives_count;
            Some((context, messages + node, label, blocked.call.clone()))
        })
    }
}

/// Cycles of a graph none of which waits for another.
fn cycles(mut next: BTreeMap<u32, BTreeSet<u32>>) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    while all.len() < CYCLES_MAX {
        let cycle = shortest_cycle(&next);
        if cycle.is_empty() {
            break;
        }
        // The cycle explains all ranks that wait for it.
        let mut explained: BTreeSet<u32> = cycle.iter().copied().collect();
        loop {
            let is_behind = |to: &BTreeSet<u32>| !to.is_disjoint(&explained);
            let more: Vec<u32> = next.iter().filter(|(_, to)| is_behind(to)).map(|(&rank, _)| rank).collect();
            more.iter().for_each(|rank| drop(next.remove(rank)));
            if more.is_empty() {
                break;
            }
            explained.extend(more);
        }
        next.retain(|rank, _| !explained.contains(rank));
        all.push(cycle);
    }
    all
}

/// A shortest cycle in a graph, its lowest rank first. Empty: there is none.
fn shortest_cycle(next: &BTreeMap<u32, BTreeSet<u32>>) -> Vec<u32> {
    let mut best: Vec<u32> = Vec::new();
    for &start in next.keys().take(STARTS_MAX) {
        let cycle = cycle_from(next, start);
        if !cycle.is_empty() && (best.is_empty() || cycle.len() < best.len()) {
            best = cycle;
        }
    }
    let lowest = best.iter().enumerate().min_by_key(|(_, rank)| **rank).map_or(0, |(at, _)| at);
    best.rotate_left(lowest);
    best
}

/// The shortest way from a rank back to itself.
fn cycle_from(next: &BTreeMap<u32, BTreeSet<u32>>, start: u32) -> Vec<u32> {
    let mut came_from: BTreeMap<u32, u32> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &to in next.get(&at).into_iter().flatten() {
            if to == start {
                let mut way = vec![at];
                while let Some(&before) = came_from.get(way.last().expect("not empty")) {
                    way.push(before);
                }
                way.reverse();
                return way;
            }
            if next.contains_key(&to) && !came_from.contains_key(&to) {
                came_from.insert(to, at);
                queue.push_back(to);
            }
        }
    }
    Vec::new()
}
