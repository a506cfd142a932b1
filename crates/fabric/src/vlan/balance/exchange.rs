//! Turns exchanged: one that closed a cycle is allowed, those that close one with it are forbidden instead,
//! the least taken first, and trees that took these are grown anew.
//!
//! Rerouting one tree after the other keeps a turn as long as any tree takes it. Here the set of allowed
//! turns is what is searched, and it never has a cycle. What a set is worth is what the trees put on the
//! channels. One that is worse is taken, too, the less so the longer it goes on (threshold accepting: G.
//! Dueck and T. Scheuer, Journal of Computational Physics 90, 1990): the potential adds up high powers of
//! the loads, so it changes smoothly where the busiest channel's load does not change at all.

use std::collections::BinaryHeap;

use super::super::network::{NONE, Network};
use super::bound::Nearest;
use super::search::{Grown, Search};

/// By how much the potential may grow in an exchange at first, on average, in parts of it.
const FIRST_THRESHOLD: f64 = 0.04;
/// One of this many trees is grown again after an exchange, in addition to those that must be.
const REGROWN: usize = 10;
/// Turns that are given up for one at most.
const CUTS_MAX: usize = 40;
/// So many forbidden turns are tried after each exchange: some close no cycle any more.
const TRIED: usize = 6;
/// Turns looked at to find a forbidden one.
const LOOKS_MAX: usize = 200;
/// How much less often a turn is given up that is taken most.
const TAKEN_WEIGHT: f64 = 8.0;
/// Fewer exchanges than about this are not worth their time, and more find little on small networks.
const EXCHANGES_MIN: u64 = 2_000;
const EXCHANGES_MAX: u64 = 50_000;

/// Trees with a better set of turns than those of `start`, which have no cycle. Looks at so many arcs at
/// most; `None` where those are not enough.
pub(super) fn exchanged<'a>(start: &Search<'a>, steps_max: u64) -> Option<Search<'a>> {
    let per_tree = start.network.arc_count() + start.order.dependency_count_max();
    let regrown = start.trees.len() / REGROWN + 1;
    if (per_tree * regrown) as u64 * EXCHANGES_MIN > steps_max {
        return None;
    }
    let mut sets = Sets::new(start);
    sets.fill(steps_max / 10);
    let mut potential = sets.search.potential();
    let mut best = (potential, sets.is_allowed.clone(), sets.search.trees.clone());
    let mut exchanges = 0;
    while sets.search.steps < steps_max && exchanges < EXCHANGES_MAX {
        let spent = sets.search.steps as f64 / steps_max as f64;
        let spent = spent.max(exchanges as f64 / EXCHANGES_MAX as f64);
        exchanges += 1;
        let threshold = 2.0 * FIRST_THRESHOLD * (1.0 - spent).powi(2) * sets.share();
        if let Some(now) = sets.exchange(potential * (1.0 + threshold)) {
            potential = now;
            if potential < best.0 {
                best = (potential, sets.is_allowed.clone(), sets.search.trees.clone());
            }
        }
    }
    sets.is_allowed = best.1;
    let mut found = start.emptied(start.order.emptied(sets.ranks(), false));
    found.replace(best.2);
    Some(found)
}

struct Sets<'a> {
    network: &'a Network,
    /// The trees; its own order does not mind cycles, because the set has none.
    search: Search<'a>,
    /// All turns that there can be, but those back over the link one came by.
    turns: Vec<(u32, u32)>,
    /// By dependency.
    is_allowed: Vec<bool>,
    /// By arc: the round in which it was seen last, and the arc before it.
    seen: Vec<u32>,
    came: Vec<u32>,
    round: u32,
}

impl<'a> Sets<'a> {
    /// Begins with the turns that the trees take.
    fn new(start: &Search<'a>) -> Sets<'a> {
        let network = start.network;
        let mut search = start.emptied(start.order.emptied(start.order.ranks().to_vec(), true));
        search.steps = 0;
        search.replace(start.trees.clone());
        let mut is_allowed = vec![false; start.order.dependency_count_max()];
        let mut turns = Vec::new();
        for held in 0..network.arc_count() as u32 {
            for wanted in network.arc_range(network.arc(held as usize).to).map(|wanted| wanted as u32) {
                is_allowed[start.order.index(held, wanted)] = start.order.has(held, wanted);
                if start.order.reverse[held as usize] != wanted {
                    turns.push((held, wanted));
                }
            }
        }
        let arc_count = network.arc_count();
        let (seen, came) = (vec![0; arc_count], vec![NONE; arc_count]);
        Sets { network, search, turns, is_allowed, seen, came, round: 0 }
    }

    /// Allows turns that close no cycle. Turns beyond the step limit are tried later.
    fn fill(&mut self, steps_max: u64) {
        let mut turns = self.turns.clone();
        self.search.random.shuffle(&mut turns);
        for (held, wanted) in turns {
            if self.search.steps < steps_max {
                self.allow_if_free(held, wanted);
            }
        }
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.search.random.index(1 << 20) as f64 / f64::from(1 << 20)
    }

    fn is_allowed(&self, held: u32, wanted: u32) -> bool {
        self.is_allowed[self.search.order.index(held, wanted)]
    }

    fn set(&mut self, (held, wanted): (u32, u32), is_allowed: bool) {
        let index = self.search.order.index(held, wanted);
        self.is_allowed[index] = is_allowed;
    }

    fn allow_if_free(&mut self, held: u32, wanted: u32) {
        if self.cycle(held, wanted).is_none() {
            self.set((held, wanted), true);
        }
    }

    /// The turns that close a cycle with one that is not allowed yet, if there is a cycle.
    fn cycle(&mut self, held: u32, wanted: u32) -> Option<Vec<(u32, u32)>> {
        self.round += 1;
        self.seen[wanted as usize] = self.round;
        let mut found = vec![wanted];
        let mut at = 0;
        while at < found.len() {
            let before = found[at];
            let range = self.network.arc_range(self.network.arc(before as usize).to);
            self.search.steps += range.len() as u64;
            for next in range.map(|next| next as u32) {
                if self.seen[next as usize] == self.round || !self.is_allowed(before, next) {
                    continue;
                }
                self.seen[next as usize] = self.round;
                self.came[next as usize] = before;
                if next == held {
                    return Some(self.turns_between(wanted, held));
                }
                found.push(next);
            }
            at += 1;
        }
        None
    }

    fn turns_between(&self, first: u32, last: u32) -> Vec<(u32, u32)> {
        let mut turns = Vec::new();
        let mut at = last;
        while at != first {
            let before = self.came[at as usize];
            turns.push((before, at));
            at = before;
        }
        turns
    }

    /// Allows a turn that was forbidden and forbids others in its place. `false` where that would be too
    /// many: then the set is spoilt.
    fn change(&mut self) -> bool {
        let Some((held, wanted)) = self.random_forbidden() else { return false };
        let mut cuts: Vec<(u32, u32)> = Vec::new();
        while let Some(cycle) = self.cycle(held, wanted) {
            if cuts.len() >= CUTS_MAX {
                return false;
            }
            let cut = self.seldom_taken(&cycle);
            self.set(cut, false);
            cuts.push(cut);
        }
        self.set((held, wanted), true);
        // Not every cut was needed in the end.
        for (held, wanted) in cuts.into_iter().rev() {
            self.allow_if_free(held, wanted);
        }
        for _ in 0..TRIED {
            if let Some((held, wanted)) = self.random_forbidden() {
                self.allow_if_free(held, wanted);
            }
        }
        true
    }

    fn random_forbidden(&mut self) -> Option<(u32, u32)> {
        // Also where nothing is found there is an end.
        self.search.steps += 1;
        (0..LOOKS_MAX).find_map(|_| {
            let turn = self.turns[self.search.random.index(self.turns.len())];
            (!self.is_allowed(turn.0, turn.1)).then_some(turn)
        })
    }

    /// One of some turns, the less often the more trees take it.
    fn seldom_taken(&mut self, turns: &[(u32, u32)]) -> (u32, u32) {
        let taken = |&(held, wanted): &(u32, u32)| f64::from(self.search.order.count(held, wanted));
        let most = turns.iter().map(taken).fold(1.0, f64::max);
        let weight = |turn| (1.0 + TAKEN_WEIGHT * taken(turn) / most).powi(-2);
        let weights: Vec<f64> = turns.iter().map(weight).collect();
        let mut left = self.share() * weights.iter().sum::<f64>();
        for (turn, weight) in turns.iter().zip(&weights) {
            left -= weight;
            if left <= 0.0 {
                return *turn;
            }
        }
        turns[turns.len() - 1]
    }

    /// Changes the set, and grows the trees again that must be and a few more. Returns the new potential;
    /// `None`, and nothing changes, if it would be more than `most`.
    fn exchange(&mut self, most: f64) -> Option<f64> {
        let before = self.is_allowed.clone();
        if !self.change() {
            self.is_allowed = before;
            return None;
        }
        let all = 0..self.search.trees.len();
        let (mut numbers, within): (Vec<usize>, Vec<usize>) =
            all.partition(|&number| !self.is_within(&self.search.trees[number]));
        numbers.extend(within.into_iter().filter(|_| self.search.random.index(REGROWN) == 0));
        self.search.random.shuffle(&mut numbers);
        let mut old = Vec::with_capacity(numbers.len());
        let has_all = numbers.into_iter().all(|number| self.regrow(number, &mut old));
        let now = self.search.potential();
        if has_all && now <= most {
            return Some(now);
        }
        for (number, tree) in old {
            let new = std::mem::replace(&mut self.search.trees[number], tree.clone());
            self.search.take(&new);
            self.search.put(&tree);
        }
        self.is_allowed = before;
        None
    }

    fn is_within(&self, tree: &Grown) -> bool {
        tree.order.iter().skip(1).all(|&switch| {
            let wanted = tree.by[switch as usize];
            let held = tree.by[self.search.from(wanted) as usize];
            held == NONE || self.is_allowed(held, wanted)
        })
    }

    /// Grows a tree anew within the set, and remembers the old one. `false` if a new one is needed and none
    /// is found.
    fn regrow(&mut self, number: usize, old: &mut Vec<(usize, Grown)>) -> bool {
        let tree = self.search.trees[number].clone();
        self.search.take(&tree);
        let Some(new) = self.cheapest(&tree) else {
            self.search.put(&tree);
            return self.is_within(&tree);
        };
        self.search.put(&new);
        self.search.trees[number] = new;
        old.push((number, tree));
        true
    }

    /// A tree within the set, each switch reached by the cheapest way through switches already in the tree;
    /// `None` if that does not reach all: how a switch is reached decides where one can go on to.
    fn cheapest(&mut self, old: &Grown) -> Option<Grown> {
        let network = self.network;
        let (by, order) = (vec![NONE; network.switch_count()], Vec::with_capacity(old.order.len()));
        let mut tree = Grown { by, order, needs: old.needs.clone(), ..*old };
        tree.order.push(tree.root);
        let costs: Vec<f64> = (0..network.arc_count()).map(|arc| self.search.cost(arc, 0)).collect();
        self.search.steps += network.arc_count() as u64;
        let first = |arc: usize| Nearest { distance: costs[arc], item: arc as u32 };
        let mut heap: BinaryHeap<Nearest> = network.arc_range(tree.root).map(first).collect();
        let mut left = network.sources().filter(|&switch| switch != tree.root).count();
        while left > 0 {
            let Nearest { distance, item: held } = heap.pop()?;
            let at = network.arc(held as usize).to;
            if at == tree.root || tree.by[at as usize] != NONE {
                continue;
            }
            tree.by[at as usize] = held;
            tree.order.push(at);
            left -= usize::from(network.weight(at) > 0);
            let range = network.arc_range(at);
            self.search.steps += range.len() as u64;
            for place in range {
                if self.is_allowed(held, place as u32) {
                    heap.push(Nearest { distance: distance + costs[place], item: place as u32 });
                }
            }
        }
        Some(tree)
    }

    /// By arc: an order of the channels in which all turns of the set go forwards.
    fn ranks(&self) -> Vec<u32> {
        let network = self.network;
        let arcs = 0..network.arc_count() as u32;
        let allowed = |held: u32| {
            let range = network.arc_range(network.arc(held as usize).to);
            range.map(|wanted| wanted as u32).filter(move |&wanted| self.is_allowed(held, wanted))
        };
        let mut before = vec![0; network.arc_count()];
        arcs.clone().flat_map(allowed).for_each(|wanted| before[wanted as usize] += 1);
        let mut sorted: Vec<u32> = arcs.filter(|&arc| before[arc as usize] == 0).collect();
        let mut at = 0;
        while let Some(&held) = sorted.get(at) {
            at += 1;
            for wanted in allowed(held) {
                before[wanted as usize] -= 1;
                if before[wanted as usize] == 0 {
                    sorted.push(wanted);
                }
            }
        }
        let mut ranks = vec![0; network.arc_count()];
        sorted.iter().enumerate().for_each(|(rank, &arc)| ranks[arc as usize] = rank as u32);
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::network::Network;
    use super::super::super::paths::up_down::up_down;
    use super::super::super::solution::all_hosts;
    use super::super::least_pressure;
    use super::super::test_network;
    use super::*;
    use crate::description::Machine;

    /// By tree: where it begins and by which arc it reaches each switch.
    fn found(steps_max: u64) -> (f64, f64, Vec<(u32, Vec<u32>)>) {
        let text = "name = \"b\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"torus\"\n\
                    extents = [5, 5]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
        let machine = Machine::parse("b.toml", text).unwrap();
        let network = Network::of(&machine, &[]);
        let trees = all_hosts(&network, up_down(&network, false));
        let start = Search::new(&network, &trees, least_pressure(&network, u64::MAX), false, 1).unwrap();
        let found = exchanged(&start, steps_max).unwrap();
        // Putting them in place anew refuses a cycle: the order of this search minds them.
        let mut again = start.emptied(start.order.emptied(found.order.ranks().to_vec(), false));
        assert!(found.trees.iter().all(|tree| again.put(tree)));
        assert!((again.worst() - found.worst()).abs() < 1e-9);
        assert!(found.trees.iter().all(|tree| tree.order.len() == 25));
        let trees = found.trees.iter().map(|tree| (tree.root, tree.by.clone())).collect();
        (start.worst(), found.worst(), trees)
    }

    #[test]
    fn exchanged_turns_are_acyclic_less_busy_and_reproducible() {
        let (before, after, trees) = found(6_000_000);
        println!("{before:.3} before, {after:.3} after");
        assert!(after < before * 0.7, "{before:.3} before, {after:.3} after");
        assert_eq!(found(6_000_000), (before, after, trees));
    }

    const TOPOLOGIES: [&str; 3] = [
        "kind = \"torus\"\nextents = [4, 4]",
        "kind = \"complete\"\nswitches = 7",
        // Some switches have no hosts.
        "kind = \"fat-tree\"\ndown = [2, 4]\nup = [2, 2]",
    ];

    fn network(topology: &str) -> Network {
        test_network(topology, 1)
    }

    fn start(network: &Network, seed: u64) -> Search<'_> {
        let trees = all_hosts(network, up_down(network, false));
        Search::new(network, &trees, least_pressure(network, u64::MAX), false, seed).unwrap()
    }

    /// All turns go forwards in an order of all channels: so there is no cycle.
    fn assert_acyclic(sets: &Sets<'_>) {
        let ranks = sets.ranks();
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..ranks.len() as u32), "{ranks:?}");
        for &(held, wanted) in &sets.turns {
            let goes_forward = ranks[held as usize] < ranks[wanted as usize];
            assert!(goes_forward || !sets.is_allowed(held, wanted), "{held} {wanted}: {ranks:?}");
        }
    }

    /// Roots, arcs and switches of all trees.
    fn shapes(search: &Search<'_>) -> Vec<(u32, Vec<u32>, Vec<u32>)> {
        search.trees.iter().map(|tree| (tree.root, tree.by.clone(), tree.order.clone())).collect()
    }

    #[test]
    fn turns_left_out_would_each_close_a_cycle() {
        for (topology, seed) in
            TOPOLOGIES.iter().flat_map(|topology| (0..6).map(move |seed| (topology, seed)))
        {
            let network = network(topology);
            let start = start(&network, seed);
            let mut sets = Sets::new(&start);
            assert_eq!(shapes(&sets.search), shapes(&start));
            let taken =
                |sets: &Sets<'_>| sets.turns.iter().filter(|turn| sets.is_allowed(turn.0, turn.1)).count();
            let at_first = taken(&sets);
            sets.fill(0);
            assert_eq!(taken(&sets), at_first, "no steps are left");
            sets.fill(u64::MAX);
            assert!(taken(&sets) > at_first);
            assert_acyclic(&sets);
            let turns = sets.turns.clone();
            for &(held, wanted) in &turns {
                assert!(
                    sets.is_allowed(held, wanted) || sets.cycle(held, wanted).is_some(),
                    "{topology} {seed}"
                );
            }
            for _ in 0..20 {
                let before = sets.is_allowed.clone();
                if !sets.change() {
                    sets.is_allowed = before;
                    continue;
                }
                assert_acyclic(&sets);
                assert_ne!(sets.is_allowed, before);
                for &(held, wanted) in &turns {
                    let was_allowed = before[sets.search.order.index(held, wanted)];
                    let is_given_up = was_allowed && !sets.is_allowed(held, wanted);
                    assert!(!is_given_up || sets.cycle(held, wanted).is_some(), "{topology} {seed}");
                }
            }
        }
    }

    #[test]
    fn an_exchange_keeps_within_the_set_or_changes_nothing() {
        for (topology, seed) in
            TOPOLOGIES.iter().flat_map(|topology| (0..4).map(move |seed| (topology, seed)))
        {
            let network = network(topology);
            let start = start(&network, seed);
            let mut sets = Sets::new(&start);
            sets.fill(u64::MAX);
            let mut potential = sets.search.potential();
            let mut counts = [0; 2];
            for round in 0..40 {
                let before = (sets.is_allowed.clone(), shapes(&sets.search));
                let most = if round % 3 == 0 { 0.0 } else { potential * 1.1 };
                let done = sets.exchange(most);
                counts[usize::from(done.is_some())] += 1;
                match done {
                    None => assert_eq!((sets.is_allowed.clone(), shapes(&sets.search)), before),
                    Some(now) => {
                        assert!(now <= most, "{now} of {most}");
                        potential = now;
                    }
                }
                assert!((sets.search.potential() - potential).abs() <= potential * 1e-9);
                assert_acyclic(&sets);
                let mut again = start.emptied(start.order.emptied(sets.ranks(), false));
                for tree in &sets.search.trees {
                    assert!(sets.is_within(tree), "{topology} {seed}");
                    assert!(
                        network.sources().all(|switch| tree.order.contains(&switch)),
                        "{topology} {seed}"
                    );
                    assert!(again.put(tree));
                }
                assert!((again.potential() - potential).abs() <= potential * 1e-9, "{topology} {seed}");
            }
            assert!(counts[0] > 10 && counts[1] > 0, "{topology} {seed}: {counts:?}");
        }
    }

    /// A turn that closes more cycles than may be cut for it: 43 ways lead back from where it goes.
    #[test]
    fn a_turn_that_costs_too_many_others_is_not_allowed() {
        let network = network("kind = \"complete\"\nswitches = 45");
        let start = start(&network, 1);
        let mut sets = Sets::new(&start);
        let arc = |from: u32, to: u32| {
            network.arc_range(from).find(|&place| network.arc(place).to == to).unwrap() as u32
        };
        let (u, v, w) = (0, 1, 2);
        sets.is_allowed.fill(false);
        for x in 3..45 {
            let way = [arc(v, w), arc(w, x), arc(x, u), arc(u, v)];
            way.windows(2).for_each(|two| sets.set((two[0], two[1]), true));
        }
        sets.turns = vec![(arc(u, v), arc(v, w))];
        assert_acyclic(&sets);
        let before = (sets.is_allowed.clone(), shapes(&sets.search));
        assert!(!sets.change());
        sets.is_allowed.clone_from(&before.0);
        assert_eq!(sets.exchange(f64::MAX), None);
        assert_eq!((sets.is_allowed.clone(), shapes(&sets.search)), before);
        // And where all are allowed there is none to be chosen.
        sets.is_allowed.fill(true);
        assert!(!sets.change());
    }

    #[test]
    fn exchanged_trees_mind_cycles_when_they_are_improved() {
        for topology in TOPOLOGIES {
            let network = network(topology);
            let start = start(&network, 3);
            let mut found = exchanged(&start, 4_000_000).unwrap();
            assert_eq!(found.trees.len(), start.trees.len());
            let worst = found.worst();
            assert!(found.improve(12, 1.0) <= worst);
            let mut again = start.emptied(start.order.emptied(found.order.ranks().to_vec(), false));
            assert!(found.trees.iter().all(|tree| again.put(tree)), "{topology}");
        }
    }

    #[test]
    fn too_few_steps_for_exchanges_are_not_begun() {
        let network = network("kind = \"torus\"\nextents = [3, 3]");
        let start = start(&network, 1);
        let per_tree = (network.arc_count() + start.order.dependency_count_max()) as u64;
        assert!(exchanged(&start, per_tree * EXCHANGES_MIN - 1).is_none());
        assert!(exchanged(&start, per_tree * EXCHANGES_MIN).is_some());
    }
}
