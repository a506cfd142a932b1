//! Shortest paths on any graph: balanced ([`balanced`]), or so that as many sources as possible share a tree
//! ([`fewest`]).
//!
//! When can sources `S` share a tree on which all their paths are shortest? Root the tree at one of them,
//! `s`. Each switch has its parent on a shortest path from `s`. Seen from another source `t`, the links from
//! `t` up to the root (the *chain* of `t`) are walked upwards; every other link is walked downwards, as seen
//! from `s`. So a switch off the chain needs a parent that is nearer to *all* sources by one: call it an
//! outward parent. Hence the test for one more source `t`: switches without a parent that is outward for `t`
//! too must all lie on the chain of `t`, a shortest path from `t` to `s` through shared links. Off the chains
//! every switch chooses on its own, so only chains are searched.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::super::network::{Arc, NONE, Network};
use super::super::tree::{RootedTree, adjacency};
use super::{Load, Paths};
use ayatori_random::Random;

const NO_ARC: Arc = Arc { to: NONE, link: NONE };
/// Up to this many sources the fewest trees are searched for exactly.
const EXACT_SOURCES_MAX: usize = 16;
/// Steps of the exact search: half a second at worst. Beyond, what was found is reported as not proven.
const EXACT_STEPS_MAX: u64 = 2_000_000;
/// Orders tried by the greedy search on small and on large networks.
const STARTS: (usize, usize) = (32, 2);
const LARGE: usize = 128;

/// How one of several equally short ways is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// The one whose last link is least busy so far.
    ByLoad,
    /// By the rank of the source: on a fat tree all paths of one source then climb through the same switch,
    /// and sources that climb through the same one share a VLAN.
    ByRank,
}

/// Shortest paths from each source on its own.
pub(crate) fn balanced(network: &Network, spread: Spread) -> Paths {
    let mut load = Load::new(network);
    let mut trees = Vec::new();
    for (rank, source) in network.sources().enumerate() {
        let distances = network.distances(source);
        let mut parents = vec![NO_ARC; network.switch_count()];
        for switch in network.alive().filter(|&switch| switch != source) {
            let is_nearer = |arc: &&Arc| distances[arc.to as usize] < distances[switch as usize];
            let mut ways: Vec<Arc> = network.arcs(switch).iter().filter(is_nearer).copied().collect();
            let first = rank % ways.len().max(1);
            ways.rotate_left(first);
            let busy = |arc: &&Arc| match spread {
                Spread::ByLoad => load.of(network, arc.link, arc.to),
                Spread::ByRank => 0,
            };
            if let Some(best) = ways.iter().min_by_key(busy) {
                parents[switch as usize] = *best;
            }
        }
        let tree = RootedTree::from_parents(source, parents).pruned(network);
        load.add(network, &tree);
        trees.push(tree);
    }
    Paths { method: "shortest paths".into(), settings: vec!["routing = \"minimal\"".into()], trees }
}

/// Result of [`fewest`].
#[derive(Debug, Clone)]
pub(crate) struct Fewest {
    pub(crate) paths: Paths,
    /// No fewer than this are possible: as many as were found, if that is proven.
    pub(crate) tree_count_min: usize,
}

/// Shortest paths with as few trees as can be found: several greedy orders, and an exact search on small
/// networks.
pub(crate) fn fewest(network: &Network, seed: u64) -> Fewest {
    let sources: Vec<u32> = network.sources().collect();
    let search = Search::new(network, sources);
    let tree_count_min = search.lower_bound();
    let starts = if search.sources.len() > LARGE { STARTS.1 } else { STARTS.0 };
    let mut random = Random::new(seed);
    let mut best: Option<Vec<Group>> = None;
    for start in 0..starts {
        let mut order: Vec<usize> = (0..search.sources.len()).collect();
        if start > 0 {
            random.shuffle(&mut order);
        }
        let groups = search.improved(search.greedy(&order, &mut random), &mut random);
        if best.as_ref().is_none_or(|best| groups.len() < best.len()) {
            best = Some(groups);
        }
        if best.as_ref().is_some_and(|best| best.len() <= tree_count_min) {
            break;
        }
    }
    let (groups, tree_count_min) = search.proven(best.unwrap_or_default(), tree_count_min);
    Fewest { paths: search.paths(&groups), tree_count_min }
}

/// Sources that share a tree, and what of the tree is decided.
#[derive(Debug, Clone)]
struct Group {
    /// Indices into the search's sources; the tree is rooted at the first.
    members: Vec<usize>,
    /// Switches on chains, and the arc each has for its only candidate.
    core: Vec<(u32, usize)>,
    /// Possible parents of every switch, as arcs of the network.
    candidates: ArcSet,
}

struct Search<'a> {
    network: &'a Network,
    sources: Vec<u32>,
    /// From each source to every switch.
    distances: Vec<Vec<u16>>,
    /// For each source the arcs that lead nearer to it by one.
    towards: Vec<ArcSet>,
    every_switch_has_hosts: bool,
    /// What the exact search has spent.
    steps: Cell<u64>,
}

/// Demand of one more source on a group.
struct Demand {
    /// By distance from the root: the switch that must be on the chain there.
    must: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(network: &'a Network, sources: Vec<u32>) -> Search<'a> {
        let distances: Vec<Vec<u16>> = sources.iter().map(|&source| network.distances(source)).collect();
        let towards = distances.iter().map(|distances| towards(network, distances)).collect();
        let every_switch_has_hosts = network.alive().all(|switch| network.weight(switch) > 0);
        Search { network, sources, distances, towards, every_switch_has_hosts, steps: Cell::new(0) }
    }

    fn group_of(&self, member: usize) -> Group {
        Group { members: vec![member], core: Vec::new(), candidates: self.towards[member].clone() }
    }

    /// Which switches must be on the chain of source `t`, or `None` if that cannot be.
    fn demand(&self, group: &Group, t: usize) -> Option<Demand> {
        let from_root = &self.distances[group.members[0]];
        let from_t = &self.distances[t];
        let length = from_root[self.sources[t] as usize];
        let mut must = vec![NONE; usize::from(length) + 1];
        let towards = &self.towards[t];
        let mut put = |switch: u32| {
            if from_root[switch as usize] == 0
                || group.candidates.meets(towards, self.network.arc_range(switch))
            {
                return true;
            }
            let level = from_root[switch as usize];
            if level + from_t[switch as usize] != length {
                return false;
            }
            let slot = &mut must[usize::from(level)];
            // A core switch may come twice: for itself and for its hosts.
            let is_new = *slot == NONE || *slot == switch;
            *slot = switch;
            is_new
        };
        let with_hosts = self.sources.iter().copied();
        with_hosts
            .chain(group.core.iter().map(|&(switch, _)| switch))
            .all(&mut put)
            .then_some(Demand { must })
    }

    /// Chains from source `t` to the root that a demand allows, as lists of switches and the arcs to their
    /// parents, for the switches that are not core yet; `visit` says whether to go on. With `random` it is
    /// for one chain only.
    fn chains(
        &self,
        group: &Group,
        demand: &Demand,
        t: usize,
        random: Option<&mut Random>,
        visit: Visit<'_>,
    ) -> bool {
        let mut walk = ChainWalk {
            search: self,
            group,
            demand,
            // With one chain wanted, a switch that led nowhere once leads nowhere again.
            dead: random.is_some().then(|| vec![false; self.network.switch_count()]),
            random,
            chain: Vec::new(),
        };
        walk.from(self.sources[t], visit)
    }

    /// The group with `t` in it along a chain, or `None` if that leaves a switch without a parent.
    fn joined(&self, group: &Group, t: usize, chain: &[(u32, usize)]) -> Option<Group> {
        let mut joined = group.clone();
        joined.core.extend_from_slice(chain);
        joined.candidates.retain(&self.towards[t]);
        // On a shortest path from `t` to the root no arc leads nearer to both: a switch has none left but
        // the one that it gets here.
        for &(_, arc) in &joined.core {
            joined.candidates.insert(arc);
        }
        joined.members.push(t);
        // Where every switch has hosts, the demand was for all of them.
        if !self.every_switch_has_hosts && !self.drop_unreached(&mut joined) {
            return None;
        }
        Some(joined)
    }

    /// A switch without hosts may be left out, but then no switch can hang below it. `false` if that leaves
    /// out one with hosts.
    fn drop_unreached(&self, group: &mut Group) -> bool {
        let root = self.sources[group.members[0]];
        let from_root = &self.distances[group.members[0]];
        let mut order: Vec<u32> = self.network.alive().filter(|&switch| switch != root).collect();
        order.sort_by_key(|&switch| from_root[switch as usize]);
        let mut is_in = vec![false; self.network.switch_count()];
        is_in[root as usize] = true;
        order.into_iter().all(|switch| {
            let mut has_parent = false;
            for arc in self
                .network
                .arc_range(switch)
                .filter(|&arc| group.candidates.contains(arc))
                .collect::<Vec<_>>()
            {
                if is_in[self.network.arc(arc).to as usize] {
                    has_parent = true;
                } else {
                    group.candidates.remove(arc);
                }
            }
            is_in[switch as usize] = has_parent;
            has_parent || self.network.weight(switch) == 0
        })
    }

    /// These groups, or fewer where the network is small enough to look for them exactly, and how few are
    /// possible: `groups_min` at least.
    fn proven(&self, groups: Vec<Group>, groups_min: usize) -> (Vec<Group>, usize) {
        let is_small = self.sources.len() <= EXACT_SOURCES_MAX && self.every_switch_has_hosts;
        if groups.len() <= groups_min || !is_small {
            return (groups, groups_min);
        }
        let (found, is_finished) = self.exact(groups.len(), groups_min);
        let groups = found.unwrap_or(groups);
        let least = if is_finished { groups.len() } else { groups_min };
        (groups, least)
    }

    fn try_join(&self, group: &Group, t: usize, random: &mut Random) -> Option<Group> {
        let demand = self.demand(group, t)?;
        let mut joined = None;
        self.chains(group, &demand, t, Some(random), &mut |chain| {
            joined = self.joined(group, t, chain);
            false
        });
        joined
    }

    fn greedy(&self, order: &[usize], random: &mut Random) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for &t in order {
            let home = groups
                .iter()
                .enumerate()
                .find_map(|(index, group)| self.try_join(group, t, random).map(|joined| (index, joined)));
            match home {
                Some((index, joined)) => groups[index] = joined,
                None => groups.push(self.group_of(t)),
            }
        }
        groups
    }

    /// Local search: takes small groups apart and puts their members into others, as long as that empties
    /// groups.
    fn improved(&self, mut groups: Vec<Group>, random: &mut Random) -> Vec<Group> {
        if self.sources.len() > LARGE {
            return groups;
        }
        loop {
            groups.sort_by_key(|group| group.members.len());
            let emptied = (0..groups.len().min(8)).find_map(|victim| {
                let mut rest: Vec<Group> = groups.clone();
                let removed = rest.remove(victim);
                let placed = removed.members.iter().all(|&t| {
                    let home = (0..rest.len()).find_map(|index| {
                        self.try_join(&rest[index], t, random).map(|joined| (index, joined))
                    });
                    home.map(|(index, joined)| rest[index] = joined).is_some()
                });
                placed.then_some(rest)
            });
            match emptied {
                Some(fewer) => groups = fewer,
                None => return groups,
            }
        }
    }

    /// Whether two sources can share a tree, every switch having hosts: as [`Search::demand`] and a chain,
    /// without the lists of a group.
    fn can_pair(&self, a: usize, b: usize) -> bool {
        let (from_a, from_b) = (&self.distances[a], &self.distances[b]);
        let root = self.sources[a];
        let length = from_a[self.sources[b] as usize];
        let mut must = vec![NONE; usize::from(length) + 1];
        for switch in self.network.alive().filter(|&switch| switch != root) {
            let at = |arc: &Arc| (from_a[arc.to as usize] + 1, from_b[arc.to as usize] + 1);
            let here = (from_a[switch as usize], from_b[switch as usize]);
            if self.network.arcs(switch).iter().any(|arc| at(arc) == here) {
                continue;
            }
            if here.0 + here.1 != length || must[usize::from(here.0)] != NONE {
                return false;
            }
            must[usize::from(here.0)] = switch;
        }
        // A switch on a shortest path between both has no neighbour that is nearer to both. So there is one
        // at each distance, and they are the only such path.
        true
    }

    /// No fewer trees are possible: sources of which no two can share, found greedily, and where every switch
    /// has hosts, links that every shortest path between neighbours needs over the links of a tree.
    fn lower_bound(&self) -> usize {
        if !self.every_switch_has_hosts {
            return usize::from(!self.sources.is_empty());
        }
        let mut apart: Vec<usize> = Vec::new();
        // Pairs are tested against the few sources already known to be apart from each other.
        for t in 0..self.sources.len() {
            if apart.iter().all(|&other| !self.can_pair(other, t)) {
                apart.push(t);
            }
            if apart.len() >= LARGE {
                break;
            }
        }
        let mut neighbours: Vec<[u32; 2]> = Vec::new();
        for switch in self.network.alive() {
            let arcs = self.network.arcs(switch).iter().filter(|arc| arc.to > switch);
            neighbours.extend(arcs.map(|arc| [switch, arc.to]));
        }
        neighbours.sort_unstable();
        neighbours.dedup();
        let tree_links = self.network.alive().count().saturating_sub(1).max(1);
        apart.len().max(neighbours.len().div_ceil(tree_links)).max(1)
    }

    fn paths(&self, groups: &[Group]) -> Paths {
        let mut load = Load::new(self.network);
        let mut trees: BTreeMap<u32, RootedTree> = BTreeMap::new();
        for group in groups {
            let root = self.sources[group.members[0]];
            let mut parents = vec![NO_ARC; self.network.switch_count()];
            for switch in self.network.alive().filter(|&switch| switch != root) {
                let arcs = self.network.arc_range(switch).filter(|&arc| group.candidates.contains(arc));
                let best = arcs
                    .map(|arc| self.network.arc(arc))
                    .min_by_key(|arc| load.of(self.network, arc.link, arc.to));
                parents[switch as usize] = best.unwrap_or(NO_ARC);
            }
            let tree = RootedTree::from_parents(root, parents).pruned(self.network);
            let adjacency = adjacency(self.network, &tree.links());
            for &member in &group.members {
                let source = self.sources[member];
                let tree = RootedTree::from_links(&adjacency, source);
                load.add(self.network, &tree);
                trees.insert(source, tree);
            }
        }
        Paths {
            method: "shortest paths with few VLANs".into(),
            settings: vec!["routing = \"minimal\"".into(), "vlans = \"fewest\"".into()],
            trees: trees.into_values().collect(),
        }
    }
}

/// Takes a chain; answers whether to look for more.
type Visit<'a> = &'a mut dyn FnMut(&[(u32, usize)]) -> bool;

struct ChainWalk<'a, 'b> {
    search: &'a Search<'a>,
    group: &'a Group,
    demand: &'a Demand,
    dead: Option<Vec<bool>>,
    random: Option<&'b mut Random>,
    chain: Vec<(u32, usize)>,
}

impl ChainWalk<'_, '_> {
    /// Walks on from a switch towards the root; answers whether to look for more chains.
    fn from(&mut self, switch: u32, visit: Visit<'_>) -> bool {
        let level = self.search.distances[self.group.members[0]][switch as usize];
        let must = self.demand.must[usize::from(level)];
        if must != NONE && must != switch {
            return true;
        }
        if level == 0 {
            return visit(&self.chain);
        }
        if self.dead.as_ref().is_some_and(|dead| dead[switch as usize]) {
            return true;
        }
        let Group { core, candidates, .. } = self.group;
        let is_core = core.iter().any(|&(on_chain, _)| on_chain == switch);
        let arcs = self.search.network.arc_range(switch);
        let mut ways: Vec<usize> = arcs.filter(|&arc| candidates.contains(arc)).collect();
        if let Some(random) = self.random.as_mut() {
            random.shuffle(&mut ways);
        } else if !self.search.may_go_on() {
            return false;
        }
        for arc in ways {
            if !is_core {
                self.chain.push((switch, arc));
            }
            let go_on = self.from(self.search.network.arc(arc).to, visit);
            if !is_core {
                self.chain.pop();
            }
            if !go_on {
                return false;
            }
        }
        if let Some(dead) = self.dead.as_mut() {
            dead[switch as usize] = true;
        }
        true
    }
}

/// The exact search: each source joins a group that exists, in every way it can, or opens one.
impl Search<'_> {
    /// A division into fewer groups than `groups_max` if there is one, and whether the search came to its
    /// end.
    fn exact(&self, groups_max: usize, groups_min: usize) -> (Option<Vec<Group>>, bool) {
        let mut exact = Exact { search: self, best: None, limit: groups_max, groups_min };
        exact.place(0, &mut Vec::new());
        (exact.best, self.steps.get() <= EXACT_STEPS_MAX)
    }

    /// Counts a step of the exact search; whether there may be more.
    fn may_go_on(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.steps.get() <= EXACT_STEPS_MAX
    }
}

struct Exact<'a> {
    search: &'a Search<'a>,
    best: Option<Vec<Group>>,
    /// Only divisions with fewer groups than this are of interest.
    limit: usize,
    groups_min: usize,
}

impl Exact<'_> {
    fn place(&mut self, t: usize, groups: &mut Vec<Group>) {
        if !self.search.may_go_on() || self.limit <= self.groups_min || groups.len() >= self.limit {
            return;
        }
        if t == self.search.sources.len() {
            self.limit = groups.len();
            self.best = Some(groups.clone());
            return;
        }
        for index in 0..groups.len() {
            let group = groups[index].clone();
            let Some(demand) = self.search.demand(&group, t) else { continue };
            let search = self.search;
            search.chains(&group, &demand, t, None, &mut |chain| {
                if let Some(joined) = search.joined(&group, t, chain) {
                    groups[index] = joined;
                    self.place(t + 1, groups);
                }
                search.steps.get() <= EXACT_STEPS_MAX && self.limit > self.groups_min
            });
            groups[index] = group;
        }
        groups.push(self.search.group_of(t));
        self.place(t + 1, groups);
        groups.pop();
    }
}

/// The arcs that lead one step nearer to where the distances are from.
fn towards(network: &Network, distances: &[u16]) -> ArcSet {
    let mut set = ArcSet { words: vec![0; network.arc_count().div_ceil(64)] };
    for switch in network.alive() {
        let nearer = |&arc: &usize| distances[network.arc(arc).to as usize] < distances[switch as usize];
        network.arc_range(switch).filter(nearer).for_each(|arc| set.insert(arc));
    }
    set
}

/// A set of a network's arcs, by their places.
#[derive(Debug, Clone)]
struct ArcSet {
    words: Vec<u64>,
}

impl ArcSet {
    fn contains(&self, arc: usize) -> bool {
        self.words[arc / 64] >> (arc % 64) & 1 == 1
    }

    fn insert(&mut self, arc: usize) {
        self.words[arc / 64] |= 1 << (arc % 64);
    }

    fn remove(&mut self, arc: usize) {
        self.words[arc / 64] &= !(1 << (arc % 64));
    }

    /// Keeps what is in `other`, too.
    fn retain(&mut self, other: &ArcSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Whether both sets have one of these arcs.
    fn meets(&self, other: &ArcSet, arcs: Range<usize>) -> bool {
        if arcs.is_empty() {
            return false;
        }
        let (first, last) = (arcs.start / 64, (arcs.end - 1) / 64);
        (first..=last).any(|at| {
            let mut both = self.words[at] & other.words[at];
            if at == first {
                both &= u64::MAX << (arcs.start % 64);
            }
            if at == last {
                both &= u64::MAX >> (63 - (arcs.end - 1) % 64);
            }
            both != 0
        })
    }
}

#[cfg(test)]
mod tests;
