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
    let mut groups = best.unwrap_or_default();
    let mut is_proven = groups.len() <= tree_count_min;
    if !is_proven && search.sources.len() <= EXACT_SOURCES_MAX && search.every_switch_has_hosts {
        let (found, finished) = search.exact(groups.len(), tree_count_min);
        groups = found.unwrap_or(groups);
        is_proven = finished;
    }
    let tree_count_min = if is_proven { groups.len() } else { tree_count_min };
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
mod tests {
    use super::super::super::evaluation::evaluate;
    use super::super::super::random_networks::Parts;
    use super::super::super::solution::{Solution, by_source};
    use super::*;
    use crate::description::Machine;

    /// A random connected graph: by link its ends, and by switch whether it has hosts.
    fn graph(random: &mut Random, all_have_hosts: bool) -> (Vec<[usize; 2]>, Vec<bool>) {
        let count = 4 + random.index(3);
        let mut links: Vec<[usize; 2]> = (1..count).map(|switch| [random.index(switch), switch]).collect();
        for _ in 0..random.index(5) {
            let (a, b) = (random.index(count), random.index(count));
            if a != b {
                links.push([a.min(b), a.max(b)]);
            }
        }
        let mut has_hosts: Vec<bool> = (0..count).map(|_| all_have_hosts || random.index(4) > 0).collect();
        (has_hosts[0], has_hosts[count - 1]) = (true, true);
        (links, has_hosts)
    }

    fn network(links: &[[usize; 2]], has_hosts: &[bool]) -> Network {
        let mut text = "name = \"g\"\n[switch_models.s]\nports = 32\nrate_gbps = 1\n[host_models.h]\n\
                        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n\
                        [hosts]\nmodel = \"h\"\n"
            .to_owned();
        for (switch, has) in has_hosts.iter().enumerate() {
            text += &format!("[[switch]]\nname = \"s{switch}\"\nhosts = {}\n", u8::from(*has));
        }
        for (index, [a, b]) in links.iter().enumerate() {
            let port = 10 + index;
            text += &format!("[[cable]]\nfrom = \"s{a}:{port}\"\nto = \"s{b}:{port}\"\n");
        }
        Network::of(&Machine::parse("g.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}")), &[])
    }

    /// Distances over some of the links.
    fn distances(links: &[[usize; 2]], chosen: u32, count: usize) -> Vec<Vec<usize>> {
        const FAR: usize = 1000;
        let mut far = vec![vec![FAR; count]; count];
        (0..count).for_each(|switch| far[switch][switch] = 0);
        for (_, &[a, b]) in links.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1) {
            (far[a][b], far[b][a]) = (1, 1);
        }
        for via in 0..count {
            for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
                far[a][b] = far[a][b].min(far[a][via] + far[via][b]);
            }
        }
        far
    }

    /// The fewest trees over which every source has shortest paths: all covers by all spanning trees.
    fn fewest_by_hand(links: &[[usize; 2]], has_hosts: &[bool]) -> usize {
        let count = has_hosts.len();
        let sources: Vec<usize> = (0..count).filter(|&switch| has_hosts[switch]).collect();
        let shortest = distances(links, u32::MAX, count);
        let trees = (0_u32..1 << links.len()).filter(|tree| tree.count_ones() as usize == count - 1);
        let mut served: Vec<u32> = trees
            .map(|tree| {
                let over_tree = distances(links, tree, count);
                let is_served =
                    |&from: &usize| sources.iter().all(|&to| over_tree[from][to] == shortest[from][to]);
                sources.iter().filter(|source| is_served(source)).map(|&source| 1 << source).sum()
            })
            .collect();
        served.sort_unstable();
        served.dedup();
        let all: u32 = sources.iter().map(|&source| 1 << source).sum();
        let mut reached = vec![0_u32];
        for trees in 0.. {
            if reached.contains(&all) {
                return trees;
            }
            reached = reached.iter().flat_map(|done| served.iter().map(move |more| done | more)).collect();
            reached.sort_unstable();
            reached.dedup();
        }
        unreachable!()
    }

    /// How many trees of links there are, and whether each source's paths are shortest.
    fn found(network: &Network, fewest: &Fewest, links: &[[usize; 2]], has_hosts: &[bool]) -> usize {
        let shortest = distances(links, u32::MAX, has_hosts.len());
        let mut trees: Vec<Vec<u32>> = Vec::new();
        for (tree, source) in fewest.paths.trees.iter().zip(network.sources()) {
            assert_eq!(tree.root(), source);
            let depths = tree.depths();
            for to in network.sources() {
                let wanted = shortest[source as usize][to as usize];
                assert_eq!(usize::from(depths[to as usize]), wanted, "{links:?}: {source} to {to}");
            }
            let mut own = tree.links();
            own.sort_unstable();
            trees.push(own);
        }
        assert_eq!(trees.len(), network.sources().count());
        trees.sort();
        trees.dedup();
        trees.len()
    }

    #[test]
    fn fewest_trees_of_random_graphs_are_as_few_as_by_hand() {
        let mut random = Random::new(3);
        let mut counts = std::collections::BTreeSet::new();
        for round in 0..300 {
            let (links, has_hosts) = graph(&mut random, true);
            let network = network(&links, &has_hosts);
            let by_hand = fewest_by_hand(&links, &has_hosts);
            let search = Search::new(&network, network.sources().collect());
            assert!(search.lower_bound() <= by_hand, "{round}: {links:?}");
            let fewest = fewest(&network, round);
            assert_eq!(found(&network, &fewest, &links, &has_hosts), by_hand, "{round}: {links:?}");
            assert_eq!(fewest.tree_count_min, by_hand, "{round}: {links:?}");
            // The exact search alone finds what the others do, and nothing below.
            let (best, is_finished) = search.exact(usize::MAX, 0);
            assert!(is_finished && best.unwrap().len() == by_hand, "{round}: {links:?}");
            let (none, is_finished) = Search::new(&network, network.sources().collect()).exact(by_hand, 0);
            assert!(is_finished && none.is_none(), "{round}: {links:?}");
            counts.insert(by_hand);
        }
        assert!(counts.len() > 3, "{counts:?}");
    }

    #[test]
    fn switches_without_hosts_may_be_passed_or_left_out() {
        let mut random = Random::new(4);
        let (mut met, mut rounds) = (0, 0);
        for round in 0..200 {
            let (links, has_hosts) = graph(&mut random, false);
            if has_hosts.iter().all(|&has| has) {
                continue;
            }
            let network = network(&links, &has_hosts);
            let by_hand = fewest_by_hand(&links, &has_hosts);
            let fewest = fewest(&network, round);
            let count = found(&network, &fewest, &links, &has_hosts);
            assert!(fewest.tree_count_min <= by_hand && by_hand <= count, "{round}: {links:?}");
            met += usize::from(count == by_hand);
            rounds += 1;
        }
        println!("{met} of {rounds} are the fewest");
        assert!(rounds > 50 && met * 10 >= rounds * 8, "{met} of {rounds}");
    }

    /// Larger graphs, where chains lead past switches without hosts and into dead ends.
    #[test]
    fn shared_trees_have_shortest_paths_past_bare_switches() {
        let (mut tree_count, mut source_count) = (0, 0);
        for seed in 0..150 {
            let network = Parts::random(seed, 14, true).network(&[]);
            let fewest = fewest(&network, seed);
            for (tree, source) in fewest.paths.trees.iter().zip(network.sources()) {
                let (depths, distances) = (tree.depths(), network.distances(source));
                assert_eq!(tree.root(), source);
                assert!(network.sources().all(|to| depths[to as usize] == distances[to as usize]), "{seed}");
            }
            let mut trees: Vec<Vec<u32>> = fewest.paths.trees.iter().map(RootedTree::links).collect();
            source_count += trees.len();
            trees.sort_unstable();
            trees.dedup();
            tree_count += trees.len();
            assert!((1..=trees.len()).contains(&fewest.tree_count_min), "{seed}");
        }
        println!("{tree_count} trees for {source_count} sources");
    }

    /// The exact search without any bound, and all others together.
    #[test]
    fn the_exact_search_alone_finds_as_few() {
        let mut proven_count = 0;
        for seed in 0..60 {
            let network = Parts::random(seed, 10, false).network(&[]);
            let fewest = fewest(&network, seed);
            let search = Search::new(&network, network.sources().collect());
            let (best, is_finished) = search.exact(usize::MAX, 0);
            let mut trees: Vec<Vec<u32>> = fewest.paths.trees.iter().map(RootedTree::links).collect();
            trees.sort_unstable();
            trees.dedup();
            assert!(search.lower_bound() <= trees.len(), "{seed}");
            if is_finished {
                proven_count += 1;
                assert_eq!(
                    (best.unwrap().len(), fewest.tree_count_min),
                    (trees.len(), trees.len()),
                    "{seed}"
                );
            }
        }
        assert!(proven_count > 50, "{proven_count}");
    }

    #[test]
    fn no_fewer_trees_are_possible_than_is_said() {
        let bound = |links: &[(u32, u32)], weights: &[u32]| {
            let network = Parts::of(links, weights).network(&[]);
            Search::new(&network, network.sources().collect()).lower_bound()
        };
        let complete: Vec<(u32, u32)> = (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
        assert_eq!(bound(&complete, &[1; 6]), 6);
        assert_eq!(bound(&complete, &[1, 1, 1, 1, 1, 0]), 1, "not looked into where a switch has no hosts");
        let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];
        assert_eq!(bound(&ring, &[1; 5]), 5);
        assert_eq!(bound(&ring[..4], &[1; 5]), 1, "a row");
        assert_eq!(bound(&[], &[1]), 1, "one switch");
        // A cube: each pair of neighbours can share, and four switches of which no two are neighbours cannot.
        let cube = (0..8_u32).flat_map(|a| [1, 2, 4].map(|bit| (a, a ^ bit))).filter(|(a, b)| a < b);
        assert_eq!(bound(&cube.collect::<Vec<_>>(), &[1; 8]), 4);
    }

    #[test]
    fn equally_short_ways_are_spread_by_load_or_by_rank() {
        // Eight leaves, each cabled to four spines.
        let links: Vec<(u32, u32)> =
            (0..8).flat_map(|leaf| (8..12).map(move |spine| (leaf, spine))).collect();
        let network = Parts::of(&links, &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]).network(&[]);
        let [by_load, by_rank] = [Spread::ByLoad, Spread::ByRank].map(|spread| {
            let paths = balanced(&network, spread);
            assert!(paths.trees.iter().all(|tree| tree.depths()[..8].iter().all(|&depth| depth <= 2)));
            by_source(&network, paths)
        });
        // Two leaves climb through each spine.
        assert_eq!(by_rank.trees.len(), 4);
        // Seven flows come to a leaf, over four links; by rank some of these have two of eight.
        let down = |solution: &Solution| {
            let flows = evaluate(&network, solution).flows;
            (0..32).map(|link| flows[network.channel(link, network.ends(link)[1]).index()]).max()
        };
        assert_eq!(down(&by_load), Some(2));
        // Links side by side take turns.
        let network = Parts::of(&[(0, 1), (0, 1), (1, 2)], &[1; 3]).network(&[]);
        let flows = evaluate(&network, &by_source(&network, balanced(&network, Spread::ByLoad))).flows;
        assert_eq!([0, 1].map(|link| flows[network.channel(link, 1).index()]), [1, 1]);
    }

    #[test]
    fn pairs_can_share_where_a_spanning_tree_serves_both() {
        let mut random = Random::new(8);
        for round in 0..150 {
            let (links, has_hosts) = graph(&mut random, true);
            let network = network(&links, &has_hosts);
            let search = Search::new(&network, network.sources().collect());
            let shortest = distances(&links, u32::MAX, has_hosts.len());
            let count = has_hosts.len();
            let trees: Vec<u32> =
                (0_u32..1 << links.len()).filter(|tree| tree.count_ones() as usize == count - 1).collect();
            for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let serves = |tree: &u32| {
                    let over_tree = distances(&links, *tree, count);
                    over_tree[a] == shortest[a] && over_tree[b] == shortest[b]
                };
                assert_eq!(
                    search.can_pair(a, b),
                    trees.iter().any(serves),
                    "{round}: {links:?}: {a} and {b}"
                );
            }
        }
    }
}
