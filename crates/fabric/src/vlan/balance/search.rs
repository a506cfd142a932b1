//! Rerouting: one tree after the other is taken out and grown again over the channels that are least busy
//! then, as long as no channels wait for each other in a cycle.
//!
//! A destination after the other is joined to the tree by the cheapest way, where a channel costs the more
//! the busier it is with that destination's flows, to a high power: so the busiest channels are avoided and
//! the others hardly matter. The order of channels moves along with the routes ([`Order`]), so a search
//! that begins with one set of turns can end with another.

use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

use super::super::network::{Arc, NONE, Network};
use super::super::solution::SourceTree;
use super::super::tree::RootedTree;
use super::bound::Nearest;
use super::order::Order;
use ayatori_random::Random;

/// What a link costs beside its load, so that of equally busy ways the shorter is taken.
pub(super) const HOP_COST: f64 = 0.002;
/// Ways to a destination that may turn out to close a cycle before the tree is given up.
const RETRIES_MAX: usize = 12;
/// Rounds without a better result before the search ends.
const IDLE_ROUNDS_MAX: usize = 6;

/// A tree and how many hosts send along it.
#[derive(Debug, Clone)]
pub(super) struct Grown {
    pub(super) root: u32,
    /// How many of the root's hosts send along it, and the first of them.
    pub(super) hosts: u32,
    pub(super) first_host: u32,
    /// By switch: what these hosts send there.
    pub(super) needs: Rc<[u64]>,
    /// By switch: the arc by which it is reached; [`NONE`] outside the tree and at the root.
    pub(super) by: Vec<u32>,
    /// Switches, the root first, each after the one before it.
    pub(super) order: Vec<u32>,
}

/// How a tree is grown and taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Care {
    /// Groups of destinations of a tree between which the costs of channels are looked at anew.
    chunk_count: usize,
    /// So much worse is taken too: the way to a better set of turns leads over it.
    tolerance: f64,
}

impl Care {
    pub(super) const GREAT: Care = Care { chunk_count: 12, tolerance: 1.02 };
    /// For many rounds: a round takes a third of the steps.
    pub(super) const LITTLE: Care = Care { chunk_count: 4, tolerance: 1.15 };
}

/// Trees, and what they put on the channels together.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) network: &'a Network,
    pub(super) order: Order<'a>,
    pub(super) trees: Vec<Grown>,
    /// By arc.
    flows: Vec<u64>,
    /// By arc: flows at which its load is 1.
    full: Vec<f64>,
    /// By dependency: what going against the order costs, while that is allowed; else empty.
    pub(super) tolls: Vec<f64>,
    /// Arcs looked at so far.
    pub(super) steps: u64,
    pub(super) care: Care,
    pub(super) random: Random,
}

impl<'a> Search<'a> {
    /// Begins with trees that have no cycle, unless cycles are allowed. `least_pressure` is what the
    /// loads are held against. `None` if the trees have a cycle.
    pub(super) fn new(
        network: &'a Network,
        trees: &[SourceTree],
        least_pressure: f64,
        allows_cycles: bool,
        seed: u64,
    ) -> Option<Search<'a>> {
        let mut search = Search::empty(network, least_pressure, allows_cycles, seed);
        let mut first_hosts = vec![0; network.switch_count()];
        for tree in trees {
            let first_host = &mut first_hosts[tree.tree.root() as usize];
            let grown = search.grown(tree, *first_host);
            *first_host += tree.hosts;
            search.put(&grown).then_some(())?;
            search.trees.push(grown);
        }
        Some(search)
    }

    /// Without a tree.
    pub(super) fn empty(
        network: &'a Network,
        least_pressure: f64,
        allows_cycles: bool,
        seed: u64,
    ) -> Search<'a> {
        let full = |place: usize| (least_pressure * network.rate(network.arc(place).link) as f64).max(1.0);
        Search {
            network,
            order: Order::new(network, allows_cycles, false),
            trees: Vec::new(),
            flows: vec![0; network.arc_count()],
            full: (0..network.arc_count()).map(full).collect(),
            tolls: Vec::new(),
            steps: 0,
            care: Care::GREAT,
            random: Random::new(seed),
        }
    }

    /// The same without trees, with another order.
    pub(super) fn emptied(&self, order: Order<'a>) -> Search<'a> {
        Search {
            network: self.network,
            order,
            trees: Vec::new(),
            flows: vec![0; self.flows.len()],
            full: self.full.clone(),
            tolls: Vec::new(),
            steps: self.steps,
            care: self.care,
            random: self.random.clone(),
        }
    }

    fn grown(&self, SourceTree { tree, hosts }: &SourceTree, first_host: u32) -> Grown {
        let mut grown = self.bare(tree.root(), first_host, *hosts);
        for &switch in &tree.order[1..] {
            let Arc { to: before, link } = tree.parents[switch as usize];
            let mut range = self.network.arc_range(before);
            let arc = range.find(|&place| self.network.arc(place).link == link);
            grown.by[switch as usize] = arc.map_or(NONE, |place| place as u32);
        }
        grown.order = tree.order.clone();
        grown
    }

    /// A tree that reaches nothing yet.
    pub(super) fn bare(&self, root: u32, first_host: u32, hosts: u32) -> Grown {
        Grown {
            root,
            hosts,
            first_host,
            needs: self.network.needs(root, first_host, hosts).into(),
            by: vec![NONE; self.network.switch_count()],
            order: vec![root],
        }
    }

    /// The switch an arc leaves.
    pub(super) fn from(&self, arc: u32) -> u32 {
        self.network.arc(self.order.reverse[arc as usize] as usize).to
    }

    /// Adds what a tree puts on the channels; `false`, and nothing, if that makes a cycle.
    pub(super) fn put(&mut self, tree: &Grown) -> bool {
        for (index, &switch) in tree.order.iter().enumerate().skip(1) {
            let arc = tree.by[switch as usize];
            let before = tree.by[self.from(arc) as usize];
            if before != NONE && !self.order.add(before, arc) {
                self.remove_dependencies(tree, index);
                return false;
            }
        }
        self.load(tree, true);
        true
    }

    pub(super) fn take(&mut self, tree: &Grown) {
        self.remove_dependencies(tree, tree.order.len());
        self.load(tree, false);
    }

    fn remove_dependencies(&mut self, tree: &Grown, count: usize) {
        for &switch in tree.order[..count].iter().skip(1) {
            let arc = tree.by[switch as usize];
            let before = tree.by[self.from(arc) as usize];
            if before != NONE {
                self.order.remove(before, arc);
            }
        }
    }

    fn load(&mut self, tree: &Grown, more: bool) {
        let mut below = vec![0_u64; self.network.switch_count()];
        for &switch in tree.order[1..].iter().rev() {
            let arc = tree.by[switch as usize];
            let flows = below[switch as usize] + tree.needs[switch as usize];
            below[self.from(arc) as usize] += flows;
            let sum = &mut self.flows[arc as usize];
            *sum = if more { *sum + flows } else { *sum - flows };
        }
    }

    /// By dependency: the flows that turn so.
    pub(super) fn turn_flows(&self) -> Vec<f64> {
        let mut turned = vec![0.0; self.order.dependency_count_max()];
        for tree in &self.trees {
            let mut below = vec![0_u64; self.network.switch_count()];
            for &switch in tree.order[1..].iter().rev() {
                let arc = tree.by[switch as usize];
                let from = self.from(arc) as usize;
                let flows = below[switch as usize] + tree.needs[switch as usize];
                below[from] += flows;
                if tree.by[from] != NONE {
                    turned[self.order.index(tree.by[from], arc)] += flows as f64;
                }
            }
        }
        turned
    }

    /// The busiest channel's flows over the least possible.
    pub(super) fn worst(&self) -> f64 {
        self.flows.iter().zip(&self.full).map(|(&flows, full)| flows as f64 / full).fold(0.0, f64::max)
    }

    /// The objective to minimize: loads to a high power, so that the busiest count most.
    pub(super) fn potential(&self) -> f64 {
        self.flows.iter().zip(&self.full).map(|(&flows, full)| power(flows as f64 / full)).sum()
    }

    /// Every tree shared by several hosts becomes two.
    pub(super) fn split(&mut self) -> bool {
        let network = self.network;
        let mut halves = Vec::new();
        for tree in self.trees.iter_mut().filter(|tree| tree.hosts > 1) {
            let mut half = tree.clone();
            half.hosts = tree.hosts / 2;
            tree.hosts -= half.hosts;
            half.first_host = tree.first_host + tree.hosts;
            for part in [&mut *tree, &mut half] {
                part.needs = network.needs(part.root, part.first_host, part.hosts).into();
            }
            halves.push(half);
        }
        for half in &halves {
            // The flows are those that the whole had.
            let is_free = self.put_dependencies(half);
            debug_assert!(is_free, "the same dependencies once more");
        }
        let any = !halves.is_empty();
        self.trees.extend(halves);
        any
    }

    fn put_dependencies(&mut self, tree: &Grown) -> bool {
        tree.order.iter().skip(1).all(|&switch| {
            let arc = tree.by[switch as usize];
            let before = tree.by[self.from(arc) as usize];
            before == NONE || self.order.add(before, arc)
        })
    }

    pub(super) fn tree_count(&self) -> usize {
        self.trees.len()
    }

    /// Reroutes every tree, round after round, until nothing gets better, `enough` is reached, or `rounds`
    /// are over. Answers the best trees, and leaves them in place.
    pub(super) fn improve(&mut self, rounds: usize, enough: f64) -> f64 {
        let mut best = (self.worst(), self.potential(), self.trees.clone());
        let mut idle = 0;
        for _ in 0..rounds {
            if best.0 <= enough || idle >= IDLE_ROUNDS_MAX {
                break;
            }
            let mut turns: Vec<usize> = (0..self.trees.len()).collect();
            self.random.shuffle(&mut turns);
            for turn in turns {
                self.reroute(turn);
            }
            let now = (self.worst(), self.potential());
            if is_better(now, (best.0, best.1)) {
                best = (now.0, now.1, self.trees.clone());
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.replace(best.2);
        best.0
    }

    /// Puts other trees in the place of all.
    pub(super) fn replace(&mut self, trees: Vec<Grown>) {
        for tree in std::mem::take(&mut self.trees) {
            self.take(&tree);
        }
        for tree in &trees {
            let is_free = self.put(tree);
            debug_assert!(is_free, "these trees were together before");
        }
        self.trees = trees;
    }

    /// Grows a tree anew, unless that makes the whole worse.
    fn reroute(&mut self, turn: usize) {
        let old = self.trees[turn].clone();
        let before = self.potential();
        self.take(&old);
        let Some(new) = self.grow(&old) else {
            self.put(&old);
            return;
        };
        if self.potential() > before * self.care.tolerance {
            self.take(&new);
            self.put(&old);
            return;
        }
        self.trees[turn] = new;
    }

    /// A new tree for the hosts of an old one, put in place.
    pub(super) fn grow(&mut self, old: &Grown) -> Option<Grown> {
        let root = old.root;
        let by = vec![NONE; self.network.switch_count()];
        let mut tree = Grown { by, order: vec![root], needs: Rc::clone(&old.needs), ..*old };
        let mut is_in = vec![false; self.network.switch_count()];
        is_in[root as usize] = true;
        let mut targets: Vec<u32> = self.network.sources().filter(|&switch| switch != root).collect();
        self.random.shuffle(&mut targets);
        self.order.forget();
        let mut banned = BTreeSet::new();
        let chunk = targets.len().div_ceil(self.care.chunk_count).max(1);
        for first in (0..targets.len()).step_by(chunk) {
            let last = (first + chunk).min(targets.len());
            let ways = self.cheapest(&tree, &is_in, &targets[first..last], &banned);
            for index in first..last {
                let target = targets[index];
                let is_there = is_in[target as usize]
                    || ways[index - first]
                        .as_ref()
                        .is_some_and(|way| self.append(&mut tree, &mut is_in, way, &mut banned))
                    || self.join(&mut tree, &mut is_in, target, &mut banned);
                if !is_there {
                    self.abandon(&tree, &targets[..index]);
                    return None;
                }
                self.charge(&tree, target, true);
            }
        }
        Some(tree)
    }

    /// Takes back a tree of which these destinations are charged.
    pub(super) fn abandon(&mut self, tree: &Grown, targets: &[u32]) {
        self.remove_dependencies(tree, tree.order.len());
        for &target in targets {
            self.charge(tree, target, false);
        }
    }

    /// Adds a destination's flows to its way, or takes them off.
    pub(super) fn charge(&mut self, tree: &Grown, target: u32, more: bool) {
        let flows = tree.needs[target as usize];
        let mut at = target;
        while at != tree.root {
            let arc = tree.by[at as usize];
            let sum = &mut self.flows[arc as usize];
            *sum = if more { *sum + flows } else { *sum - flows };
            at = self.from(arc);
        }
    }

    /// Joins a destination to the tree by the cheapest way that closes no cycle.
    pub(super) fn join(
        &mut self,
        tree: &mut Grown,
        is_in: &mut [bool],
        target: u32,
        banned: &mut BTreeSet<(u32, u32)>,
    ) -> bool {
        for _ in 0..RETRIES_MAX {
            let Some(way) = self.cheapest(tree, is_in, &[target], banned).remove(0) else { return false };
            if self.append(tree, is_in, &way, banned) {
                return true;
            }
        }
        false
    }

    /// Adds what of a way is not in the tree yet. If its dependencies would close a cycle it adds nothing,
    /// answers
    /// `false`, and bans the one that did.
    fn append(
        &mut self,
        tree: &mut Grown,
        is_in: &mut [bool],
        way: &[u32],
        banned: &mut BTreeSet<(u32, u32)>,
    ) -> bool {
        let first = way.iter().rposition(|&arc| is_in[self.from(arc) as usize]).unwrap_or(0);
        let way = &way[first..];
        let start = tree.by[self.from(way[0]) as usize];
        let mut held = start;
        let mut added = 0;
        for &arc in way {
            if held != NONE && !self.order.add(held, arc) {
                banned.insert((held, arc));
                break;
            }
            (held, added) = (arc, added + 1);
        }
        if added == way.len() {
            for &arc in way {
                let to = self.network.arc(arc as usize).to;
                tree.by[to as usize] = arc;
                tree.order.push(to);
                is_in[to as usize] = true;
            }
            return true;
        }
        let mut held = start;
        for &arc in &way[..added] {
            if held != NONE {
                self.order.remove(held, arc);
            }
            held = arc;
        }
        false
    }

    /// What a channel costs that gets so many flows more.
    pub(super) fn cost(&self, arc: usize, more: u64) -> f64 {
        HOP_COST + power((self.flows[arc] + more) as f64 / self.full[arc])
    }

    fn toll(&self, held: u32, wanted: u32) -> f64 {
        if held == NONE || self.tolls.is_empty() { 0.0 } else { self.tolls[self.order.index(held, wanted)] }
    }

    /// For each of some destinations the arcs from the tree to it over which flows cost least; `None` where
    /// there is no way. Destinations in the tree have none either.
    fn cheapest(
        &mut self,
        tree: &Grown,
        is_in: &[bool],
        targets: &[u32],
        banned: &BTreeSet<(u32, u32)>,
    ) -> Vec<Option<Vec<u32>>> {
        let network = self.network;
        let flows = targets.first().map_or(1, |&target| tree.needs[target as usize]);
        let mut labels = Labels::new(network);
        let mut bases = vec![0.0; network.switch_count()];
        for &at in &tree.order {
            let held = tree.by[at as usize];
            if held != NONE {
                let from = self.from(held) as usize;
                let toll = self.toll(tree.by[from], held);
                bases[at as usize] = bases[from] + self.cost(held as usize, flows) + toll;
            }
            self.relax((held, at, bases[at as usize]), flows, is_in, banned, &mut labels);
        }
        let mut left = targets.iter().filter(|&&target| !is_in[target as usize]).count();
        let mut ways: Vec<Option<Vec<u32>>> = vec![None; targets.len()];
        while let Some(Nearest { distance, item: arc }) = labels.heap.pop() {
            if distance > labels.costs[arc as usize] {
                continue;
            }
            let at = network.arc(arc as usize).to;
            if let Some(index) = targets.iter().position(|&target| target == at)
                && ways[index].is_none()
            {
                ways[index] = simple_way(arc, &labels.came, |arc| network.arc(arc as usize).to);
                left -= usize::from(ways[index].is_some());
                if left == 0 {
                    break;
                }
            }
            self.relax((arc, at, distance), flows, is_in, banned, &mut labels);
        }
        ways
    }

    /// Goes on from a switch that is reached by the arc `held`.
    fn relax(
        &mut self,
        (held, at, base): (u32, u32, f64),
        flows: u64,
        is_in: &[bool],
        banned: &BTreeSet<(u32, u32)>,
        labels: &mut Labels,
    ) {
        self.steps += self.network.arc_range(at).len() as u64;
        for place in self.network.arc_range(at) {
            let to = self.network.arc(place).to;
            if is_in[to as usize] || (held != NONE && self.order.reverse[held as usize] == place as u32) {
                continue;
            }
            let distance = base + self.cost(place, flows) + self.toll(held, place as u32);
            if distance >= labels.costs[place] {
                continue;
            }
            let wanted = place as u32;
            if held != NONE && (banned.contains(&(held, wanted)) || !self.order.takes(held, wanted)) {
                continue;
            }
            labels.costs[place] = distance;
            labels.came[place] = if is_in[at as usize] { NONE } else { held };
            labels.heap.push(Nearest { distance, item: wanted });
        }
    }

    /// The trees found.
    pub(super) fn into_trees(self) -> Vec<SourceTree> {
        let network = self.network;
        let tree = |grown: &Grown| {
            let mut parents = vec![Arc { to: NONE, link: NONE }; network.switch_count()];
            for &switch in &grown.order[1..] {
                let arc = grown.by[switch as usize];
                let link = network.arc(arc as usize).link;
                parents[switch as usize] = Arc { to: self.from(arc), link };
            }
            SourceTree {
                tree: RootedTree::from_parents(grown.root, parents).pruned(network),
                hosts: grown.hosts,
            }
        };
        let mut by_host: Vec<&Grown> = self.trees.iter().collect();
        by_host.sort_by_key(|grown| (grown.root, grown.first_host));
        by_host.into_iter().map(tree).collect()
    }
}

/// What a search for cheapest ways knows of each arc.
struct Labels {
    costs: Vec<f64>,
    /// The arc before it, [`NONE`] where it leaves the tree.
    came: Vec<u32>,
    heap: BinaryHeap<Nearest>,
}

impl Labels {
    fn new(network: &Network) -> Labels {
        let arc_count = network.arc_count();
        Labels { costs: vec![f64::INFINITY; arc_count], came: vec![NONE; arc_count], heap: BinaryHeap::new() }
    }
}

/// The eighth power: the busiest channels decide.
pub(super) fn power(load: f64) -> f64 {
    let square = load * load;
    let fourth = square * square;
    fourth * fourth
}

/// Whether the busiest channel is less busy than before, or as busy and the others are less: load of the
/// busiest channel and potential, now and before.
pub(super) fn is_better(now: (f64, f64), before: (f64, f64)) -> bool {
    now.0 < before.0 - 1e-9 || (now.0 < before.0 + 1e-9 && now.1 < before.1 * 0.999)
}

/// The way that ends with an arc, from the tree on; `None` if it crosses a switch twice.
pub(super) fn simple_way(last: u32, came: &[u32], to: impl Fn(u32) -> u32) -> Option<Vec<u32>> {
    let way = std::iter::successors(Some(last), |&arc| Some(came[arc as usize]).filter(|&arc| arc != NONE));
    let mut way: Vec<u32> = way.collect();
    way.reverse();
    let mut switches: Vec<u32> = way.iter().map(|&arc| to(arc)).collect();
    switches.sort_unstable();
    switches.dedup();
    (switches.len() == way.len()).then_some(way)
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluation::evaluate;
    use super::super::super::paths::minimal::{Spread, balanced};
    use super::super::super::solution::{all_hosts, by_host_port};
    use super::super::least_pressure;
    use super::super::test_network;
    use super::*;
    use crate::graph::LinkSpec;
    use crate::topology::{Explicit, Topology};

    fn network(topology: &str) -> Network {
        test_network(topology, 2)
    }

    #[test]
    fn trees_that_wait_in_a_cycle_are_no_start_and_leave_nothing() {
        let network = network("kind = \"ring\"\nswitches = 6");
        let trees = all_hosts(&network, balanced(&network, Spread::ByLoad));
        let least = least_pressure(&network, u64::MAX);
        assert!(Search::new(&network, &trees, least, false, 1).is_none());
        let all = Search::new(&network, &trees, least, true, 1).unwrap();
        assert_eq!(all.trees.len(), 6);
        // One after the other until one closes the cycle: what it had put is taken back.
        let mut search = Search::empty(&network, least, false, 1);
        let turns = |search: &Search<'_>| -> Vec<u32> {
            let arcs = 0..network.arc_count() as u32;
            let turn = |held: u32| {
                network.arc_range(network.arc(held as usize).to).map(move |wanted| (held, wanted as u32))
            };
            arcs.flat_map(turn).map(|(held, wanted)| search.order.count(held, wanted)).collect()
        };
        let mut refused = 0;
        for tree in &all.trees {
            let before = (turns(&search), search.worst());
            if !search.put(tree) {
                assert_eq!((turns(&search), search.worst()), before);
                refused += 1;
            }
        }
        assert!(refused > 0);
    }

    #[test]
    fn the_busiest_channel_decides_what_is_better_then_the_rest() {
        assert!(is_better((1.0, 9.0), (1.5, 5.0)) && !is_better((1.5, 5.0), (1.0, 9.0)));
        assert!(is_better((1.0, 5.0), (1.0, 9.0)) && !is_better((1.0, 9.0), (1.0, 5.0)));
        // What is the same is no better, nor what is less by a rounding or by a little of the others.
        assert!(!is_better((1.0, 5.0), (1.0, 5.0)) && !is_better((1.0 - 1e-12, 5.0), (1.0, 5.0)));
        assert!(!is_better((1.0, 4.999), (1.0, 5.0)) && is_better((1.0 + 1e-12, 4.9), (1.0, 5.0)));
        // Nor what is at one of these limits.
        assert!(!is_better((1.0 - 1e-9, 5.0), (1.0, 5.0)) && !is_better((1.0 + 1e-9, 4.9), (1.0, 5.0)));
        assert!(!is_better((1.0, 5.0 * 0.999), (1.0, 5.0)));
    }

    #[test]
    fn a_way_that_crosses_a_switch_twice_is_none() {
        // By arc: the one before it, and the switch that it leads to.
        let came = [NONE, 0, 1, 2, 3];
        let way = |to: [u32; 5]| simple_way(4, &came, |arc| to[arc as usize]);
        assert_eq!(way([5, 3, 4, 1, 2]), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(way([5, 3, 4, 3, 2]), None);
        assert_eq!(way([5, 3, 3, 4, 2]), None);
    }

    /// What is taken away leaves nothing, and is found again.
    #[test]
    fn trees_that_are_taken_away_leave_no_dependency() {
        let network = network("kind = \"mesh\"\nextents = [3, 3]");
        let trees = all_hosts(&network, balanced(&network, Spread::ByLoad));
        let mut search = Search::new(&network, &trees, 1e-9, true, 1).unwrap();
        assert!(search.worst() > 0.0 && search.potential() > 0.0);
        for tree in std::mem::take(&mut search.trees) {
            search.take(&tree);
        }
        assert_eq!((search.worst(), search.potential()), (0.0, 0.0));
        for held in 0..network.arc_count() as u32 {
            let mut wanted = network.arc_range(network.arc(held as usize).to);
            assert!(wanted.all(|wanted| !search.order.has(held, wanted as u32)));
        }
    }

    #[test]
    fn loads_are_flows_for_what_links_carry() {
        let links = [(0, 1, 10), (1, 2, 1), (2, 3, 10), (3, 0, 1)].to_vec();
        let switches = (0..4).map(|at| format!("s{at}")).collect();
        let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
        let network = Network::new(&graph, graph.link_count(), vec![3; 4], &[]);
        let trees = all_hosts(&network, balanced(&network, Spread::ByLoad));
        let search = Search::new(&network, &trees, 1.0, true, 1).unwrap();
        let solution = by_host_port(&network, String::new(), Vec::new(), &trees);
        let flows = evaluate(&network, &solution).flows;
        let loads =
            || flows.iter().enumerate().map(|(at, &of)| of as f64 / network.rate(at as u32 / 2) as f64);
        assert!((search.worst() - loads().fold(0.0, f64::max)).abs() < 1e-9);
        let potential: f64 = loads().map(power).sum();
        assert!((search.potential() / potential - 1.0).abs() < 1e-9);
    }

    /// With traffic it matters which hosts of a switch send along which tree.
    #[test]
    fn split_trees_are_for_hosts_in_their_order() {
        let network = test_network("kind = \"complete\"\nswitches = 5", 4);
        // The first host of the first switch sends to the second switch, the next to the third.
        let own: Vec<Vec<(u32, u64)>> = (1..5).map(|to| vec![(to, 100)]).collect();
        let mut traffic = vec![vec![Vec::new(); 4]; 5];
        traffic[0] = own;
        let network = network.with_traffic(traffic);
        let trees = all_hosts(&network, balanced(&network, Spread::ByLoad));
        let mut search = Search::new(&network, &trees, 1e-9, true, 1).unwrap();
        assert!(search.split() && search.split() && !search.split());
        let of_first = search.trees.iter_mut().filter(|tree| tree.root == 0);
        let mut firsts = Vec::new();
        for tree in of_first {
            let needs: Vec<usize> = (0..5).filter(|&to| tree.needs[to] > 0).collect();
            assert_eq!((tree.hosts, needs), (1, vec![tree.first_host as usize + 1]));
            firsts.push(tree.first_host);
            // A tree that can be told from the others: only the switch that its host sends to.
            let to = tree.first_host + 1;
            tree.order = vec![0, to];
            (1..5).filter(|&other| other != to).for_each(|other| tree.by[other as usize] = NONE);
        }
        firsts.sort_unstable();
        assert_eq!(firsts, [0, 1, 2, 3]);
        let trees = search.into_trees();
        assert!(trees.windows(2).all(|two| two[0].tree.root() <= two[1].tree.root()));
        let order: Vec<Vec<u32>> = trees[..4].iter().map(|tree| tree.tree.order.clone()).collect();
        assert_eq!(order, [1, 2, 3, 4].map(|to| vec![0, to]));
        // Trees that a search begins with are for the hosts in their order, too.
        let again = Search::new(&network, &trees, 1e-9, true, 1).unwrap();
        let firsts: Vec<u32> = again.trees[..4].iter().map(|tree| tree.first_host).collect();
        assert_eq!(firsts, [0, 1, 2, 3]);
    }

    #[test]
    fn a_turn_that_closed_a_cycle_is_tried_again_for_the_next_tree() {
        let network = network("kind = \"ring\"\nswitches = 4");
        let mut search = Search::empty(&network, 1e-9, false, 1);
        let arc = |from: u32, to: u32| {
            network.arc_range(from).find(|&place| network.arc(place).to == to).unwrap() as u32
        };
        let round = [arc(0, 1), arc(1, 2), arc(2, 3), arc(3, 0)];
        for at in 1..4 {
            assert!(search.order.add(round[at], round[(at + 1) % 4]));
        }
        assert!(!search.order.takes(round[0], round[1]));
        search.order.remove(round[3], round[0]);
        // The other way round is busy, so the tree goes from the first switch to the third by the second.
        search.flows[arc(0, 3) as usize] = 1000;
        let old = search.bare(0, 0, 2);
        let tree = search.grow(&old).unwrap();
        assert_eq!(tree.by[2], round[1]);
    }

    #[test]
    fn flows_that_turn_are_those_of_all_ways() {
        for topology in
            ["kind = \"mesh\"\nextents = [3, 3]", "kind = \"fat-tree\"\ndown = [3, 2]\nup = [1, 2]"]
        {
            let network = network(topology);
            let trees = all_hosts(&network, balanced(&network, Spread::ByLoad));
            let search = Search::new(&network, &trees, least_pressure(&network, u64::MAX), true, 1).unwrap();
            let mut wanted = vec![0.0; search.order.dependency_count_max()];
            for tree in &search.trees {
                for target in network.sources().filter(|&target| target != tree.root) {
                    let mut arc = tree.by[target as usize];
                    while tree.by[search.from(arc) as usize] != NONE {
                        let before = tree.by[search.from(arc) as usize];
                        wanted[search.order.index(before, arc)] += tree.needs[target as usize] as f64;
                        arc = before;
                    }
                }
            }
            assert_eq!(search.turn_flows(), wanted, "{topology}");
            assert!(wanted.iter().any(|&flows| flows > 8.0), "{topology}");
        }
    }
}
