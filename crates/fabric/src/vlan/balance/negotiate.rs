//! Which turns to do without is negotiated: every turn may be taken at first, and those that go against an
//! order
//! of the channels cost a toll that grows the longer they are wanted (after PathFinder, L. McMurchie and C.
//! Ebeling,
//! FPGA 1995, where the scarce thing is a wire).
//!
//! A search that never allows a cycle keeps the turns that it began with: giving one up takes all trees
//! that use it
//! at once. Here the order moves towards what the trees want, and the trees towards the order. Every few
//! rounds the
//! trees are *settled*: what goes against the order is cut off and joined again without making a cycle,
//! and the
//! result is improved as any other.
//!
//! In every other attempt the turns of one spanning tree are kept free (an escape, as in J. Domke et al.,
//! "Routing on
//! the dependency graph", HPDC 2016), so that settling finds routes more often: there always is a way from
//! a tree's root to a destination, but a tree has one way into each switch.

use std::collections::BTreeSet;

use super::super::network::{NONE, Network};
use super::limits::Limits;
use super::search::{Care, Grown, Search};
use super::turns::{escape, sifted};

/// This near to the bound nothing is negotiated.
pub(super) const ENOUGH: f64 = 1.2;
/// Arcs looked at, over all attempts: some seconds.
const STEPS_MAX: u64 = 250_000_000;
const ATTEMPTS_MAX: u64 = 6;
const ROUNDS_MAX: u32 = 200;
/// Rounds that the steps must be enough for.
const ROUNDS_MIN: u64 = 60;
/// Rounds without tolls, the first round that is settled, every how many are, and the first after which the
/// negotiation goes on from the best that was settled.
const FREE_ROUNDS: u32 = 3;
const FIRST_SETTLED: u32 = 20;
const SETTLED_EVERY: u32 = 10;
const FIRST_RETURN: u32 = 70;
/// Settled trees are improved for so many rounds.
const POLISH_ROUNDS: usize = 30;
/// What a turn against the order costs at first (the load of a full channel is 1), and by how much that
/// grows.
const FIRST_TOLL: f64 = 1.0;
const TOLL_GROWTH: f64 = 1.02;
/// Share of a turn's history that remains after a round.
const HISTORY_KEPT: f64 = 0.85;

/// The best trees found, and the busiest channel's load. `None` for networks too large.
pub(super) fn negotiated(network: &Network, limits: Limits) -> Option<(f64, Search<'_>)> {
    let sources = network.sources().count();
    let per_source = (limits.trees_max / sources.max(1)).min(2);
    let mut best: Option<(f64, Search<'_>)> = None;
    let mut steps = 0;
    for attempt in 0..ATTEMPTS_MAX {
        if per_source == 0 || steps >= STEPS_MAX {
            break;
        }
        let keeps_escape = attempt % 2 == 0;
        let mut talks = Talks::new(network, limits, limits.seed + attempt, keeps_escape, per_source as u32)?;
        if talks.loose.steps * ROUNDS_MIN > STEPS_MAX {
            return None;
        }
        talks.hold(STEPS_MAX - steps);
        steps += talks.loose.steps;
        let Some((worst, found)) = talks.best else { continue };
        if best.as_ref().is_none_or(|(least, _)| worst < *least) {
            best = Some((worst, found));
        }
        if worst <= ENOUGH {
            break;
        }
    }
    best
}

struct Talks<'a> {
    network: &'a Network,
    /// Trees that may go against the order.
    loose: Search<'a>,
    /// By dependency: how long it has been wanted against the order.
    history: Vec<f64>,
    toll: f64,
    /// By dependency: more than 0 for the turns of the escape.
    kept: Vec<f64>,
    best: Option<(f64, Search<'a>)>,
}

impl<'a> Talks<'a> {
    fn new(
        network: &'a Network,
        limits: Limits,
        seed: u64,
        keeps_escape: bool,
        per_source: u32,
    ) -> Option<Talks<'a>> {
        let mut loose = Search::empty(network, limits.least_pressure, true, seed);
        loose.care = Care::LITTLE;
        let (ranks, kept) = escape(network, &loose.order, keeps_escape, false, &mut loose.random);
        loose.order = loose.order.emptied(ranks, true);
        for source in network.sources() {
            let hosts = network.weight(source);
            let count = per_source.min(hosts);
            for index in 0..count {
                let [first, next] = [index, index + 1].map(|index| hosts * index / count);
                let tree = loose.grow(&loose.bare(source, first, next - first))?;
                loose.trees.push(tree);
            }
        }
        let history = vec![0.0; loose.order.dependency_count_max()];
        Some(Talks { network, loose, history, toll: 0.0, kept, best: None })
    }

    fn hold(&mut self, steps_max: u64) {
        for round in 0..ROUNDS_MAX {
            self.round(round >= FREE_ROUNDS);
            let is_settled = round >= FIRST_SETTLED && round % SETTLED_EVERY == 0;
            if is_settled && let Some(mut settled) = self.settled() {
                let worst = settled.improve(POLISH_ROUNDS, 1.0);
                self.loose.steps = settled.steps;
                if self.best.as_ref().is_none_or(|(least, _)| worst < *least) {
                    self.best = Some((worst, settled));
                }
                if worst <= ENOUGH {
                    return;
                }
            }
            if is_settled && round >= FIRST_RETURN {
                self.return_to_best();
            }
            if self.loose.steps > steps_max {
                return;
            }
        }
    }

    /// Every tree is grown anew, the order follows, and tolls are set.
    fn round(&mut self, has_tolls: bool) {
        let mut turns: Vec<usize> = (0..self.loose.trees.len()).collect();
        self.loose.random.shuffle(&mut turns);
        for turn in turns {
            let old = self.loose.trees[turn].clone();
            self.loose.take(&old);
            match self.loose.grow(&old) {
                Some(new) => self.loose.trees[turn] = new,
                None => {
                    self.loose.put(&old);
                }
            }
        }
        let flows = self.loose.turn_flows();
        let weights: Vec<f64> =
            (0..flows.len()).map(|at| flows[at] * (1.0 + self.history[at]) + self.kept[at]).collect();
        let ranks = sifted(self.network, &self.loose.order, &weights, false, &mut self.loose.random);
        if has_tolls {
            self.toll = if self.toll == 0.0 { FIRST_TOLL } else { self.toll * TOLL_GROWTH };
        }
        self.loose.tolls.resize(flows.len(), 0.0);
        for held in 0..self.network.arc_count() {
            for wanted in self.network.arc_range(self.network.arc(held).to) {
                let at = self.loose.order.index(held as u32, wanted as u32);
                let is_against = ranks[held] >= ranks[wanted];
                self.history[at] *= HISTORY_KEPT;
                if has_tolls && is_against && flows[at] > 0.0 {
                    self.history[at] += 1.0;
                }
                self.loose.tolls[at] = if is_against { self.toll * (1.0 + self.history[at]) } else { 0.0 };
            }
        }
        self.loose.order.set_ranks(ranks);
    }

    /// The trees without what goes against the order, joined again without a cycle.
    fn settled(&mut self) -> Option<Search<'a>> {
        let ranks = self.loose.order.ranks().to_vec();
        let mut strict = self.loose.emptied(self.loose.order.emptied(ranks, false));
        for held in 0..self.network.arc_count() as u32 {
            for wanted in self.network.arc_range(self.network.arc(held as usize).to) {
                let is_kept = self.kept[self.loose.order.index(held, wanted as u32)] > 0.0;
                if is_kept && !strict.order.add(held, wanted as u32) {
                    return None;
                }
            }
        }
        let forward: Vec<Grown> = self.loose.trees.iter().map(|tree| self.forward_part(tree)).collect();
        for tree in &forward {
            if !strict.put(tree) {
                return None;
            }
        }
        let mut turns: Vec<usize> = (0..forward.len()).collect();
        strict.random.shuffle(&mut turns);
        for turn in turns {
            let tree = completed(&mut strict, &forward[turn])?;
            strict.trees.push(tree);
        }
        self.loose.steps = strict.steps;
        Some(strict)
    }

    fn forward_part(&self, tree: &Grown) -> Grown {
        let ranks = self.loose.order.ranks();
        let mut part = self.loose.bare(tree.root, tree.first_host, tree.hosts);
        for &switch in &tree.order[1..] {
            let arc = tree.by[switch as usize];
            let from = self.loose.from(arc);
            let before = part.by[from as usize];
            let is_in = from == tree.root || before != NONE;
            if is_in && (before == NONE || ranks[before as usize] < ranks[arc as usize]) {
                part.by[switch as usize] = arc;
                part.order.push(switch);
            }
        }
        part
    }

    /// Goes on from the best trees, as if nothing had been wanted before.
    fn return_to_best(&mut self) {
        let Some((_, best)) = &self.best else { return };
        let (trees, ranks) = (best.trees.clone(), best.order.ranks().to_vec());
        self.loose.replace(trees);
        self.loose.order.set_ranks(ranks);
        self.history.fill(0.0);
        self.toll = 0.0;
    }
}

/// Joins what a tree that is in place does not reach; where that cannot be, a tree grown from its root.
fn completed(strict: &mut Search<'_>, part: &Grown) -> Option<Grown> {
    let network = strict.network;
    let mut tree = part.clone();
    let mut is_in = vec![false; network.switch_count()];
    tree.order.iter().for_each(|&switch| is_in[switch as usize] = true);
    let missing: Vec<u32> = network.sources().filter(|&switch| !is_in[switch as usize]).collect();
    // Switches only passed through so far are charged in their turn.
    let mut charged: Vec<u32> = part.order[1..].to_vec();
    strict.order.forget();
    let mut banned = BTreeSet::new();
    for &target in &missing {
        let is_there = is_in[target as usize] || strict.join(&mut tree, &mut is_in, target, &mut banned);
        if !is_there {
            strict.abandon(&tree, &charged);
            return strict.grow(&tree);
        }
        strict.charge(&tree, target, true);
        charged.push(target);
    }
    Some(tree)
}

#[cfg(test)]
mod tests {
    use super::super::least_pressure;
    use super::super::test_network;
    use super::*;

    const TOPOLOGIES: [&str; 4] = [
        "kind = \"torus\"\nextents = [4, 3]",
        "kind = \"dragonfly\"\ngroup_size = 3\nglobal_ports = 1\ngroups = 4",
        "kind = \"fat-tree\"\ndown = [2, 3]\nup = [2, 2]",
        "kind = \"ring\"\nswitches = 7",
    ];

    fn network(topology: &str) -> Network {
        test_network(topology, 3)
    }

    fn limits(network: &Network, trees_max: usize) -> Limits {
        let least_pressure = least_pressure(network, u64::MAX);
        Limits { trees_max, allows_cycles: false, seed: 5, is_thorough: true, least_pressure }
    }

    /// Trees that reach all hosts, put in place anew: there is no cycle, and the loads are theirs.
    fn assert_sound(network: &Network, found: &Search<'_>, about: &str) {
        let in_order = (0..network.arc_count() as u32).collect();
        let mut again = found.emptied(found.order.emptied(in_order, false));
        for tree in &found.trees {
            assert!(network.sources().all(|switch| tree.order.contains(&switch)), "{about}");
            assert!(again.put(tree), "{about}");
        }
        for source in network.sources() {
            let own = found.trees.iter().filter(|tree| tree.root == source);
            assert_eq!(own.map(|tree| tree.hosts).sum::<u32>(), network.weight(source), "{about}");
        }
        assert!((again.worst() - found.worst()).abs() < 1e-9, "{about}");
        assert!((again.potential() - found.potential()).abs() <= found.potential() * 1e-9, "{about}");
    }

    #[test]
    fn settled_trees_are_sound_and_most_are_found_with_an_escape() {
        for (topology, seed) in
            TOPOLOGIES.iter().flat_map(|topology| (0..3).map(move |seed| (topology, seed)))
        {
            let network = network(topology);
            for (keeps_escape, per_source) in [(true, 1), (true, 2), (false, 1)] {
                let about = format!("{topology}, {seed}, {keeps_escape}");
                let limits = limits(&network, 100);
                let mut talks = Talks::new(&network, limits, seed, keeps_escape, per_source).unwrap();
                let mut settled_count = 0;
                for round in 0..14 {
                    talks.round(round >= FREE_ROUNDS);
                    let ranks = talks.loose.order.ranks().to_vec();
                    for held in 0..network.arc_count() {
                        for wanted in network.arc_range(network.arc(held).to) {
                            // What goes against the order costs a toll, and nothing else does.
                            let at = talks.loose.order.index(held as u32, wanted as u32);
                            let is_against = round >= FREE_ROUNDS && ranks[held] >= ranks[wanted];
                            assert_eq!(talks.loose.tolls[at] > 0.0, is_against, "{about}");
                        }
                    }
                    let Some(settled) = talks.settled() else { continue };
                    settled_count += 1;
                    assert_sound(&network, &settled, &about);
                    for held in 0..network.arc_count() as u32 {
                        for wanted in
                            network.arc_range(network.arc(held as usize).to).map(|wanted| wanted as u32)
                        {
                            let is_kept = talks.kept[settled.order.index(held, wanted)] > 0.0;
                            assert!(!is_kept || settled.order.has(held, wanted), "{about}");
                        }
                    }
                }
                assert!(!keeps_escape || settled_count > 7, "{about}: {settled_count} of 14");
            }
        }
    }

    #[test]
    fn where_not_every_source_may_have_a_tree_nothing_is_negotiated() {
        let network = network("kind = \"ring\"\nswitches = 7");
        assert!(negotiated(&network, limits(&network, 6)).is_none());
        let (_, found) = negotiated(&network, limits(&network, 7)).unwrap();
        assert_eq!(found.tree_count(), 7);
    }

    #[test]
    fn the_negotiation_goes_on_from_the_best_trees() {
        let network = network(TOPOLOGIES[0]);
        let mut talks = Talks::new(&network, limits(&network, 100), 1, true, 1).unwrap();
        let trees = |search: &Search<'_>| search.trees.iter().map(|tree| tree.by.clone()).collect::<Vec<_>>();
        let at_first = trees(&talks.loose);
        talks.return_to_best();
        assert_eq!(trees(&talks.loose), at_first, "there is no best one yet");
        (0..5).for_each(|_| talks.round(true));
        let settled = talks.settled().unwrap();
        talks.best = Some((settled.worst(), settled));
        (0..5).for_each(|_| talks.round(true));
        talks.return_to_best();
        let (_, best) = talks.best.as_ref().unwrap();
        assert_eq!(trees(&talks.loose), trees(best));
        assert_eq!(talks.loose.order.ranks(), best.order.ranks());
        assert!((talks.loose.worst() - best.worst()).abs() < 1e-9);
        assert!(talks.toll == 0.0 && talks.history.iter().all(|&history| history == 0.0));
    }

    #[test]
    fn every_tree_is_grown_anew_and_one_without_a_way_stays() {
        let network = network(TOPOLOGIES[0]);
        let mut talks = Talks::new(&network, limits(&network, 100), 1, true, 1).unwrap();
        let trees = |search: &Search<'_>| search.trees.iter().map(|tree| tree.by.clone()).collect::<Vec<_>>();
        let mut changed = vec![false; talks.loose.trees.len()];
        for _ in 0..12 {
            let before = trees(&talks.loose);
            talks.round(true);
            let now = trees(&talks.loose);
            changed.iter_mut().zip(before.iter().zip(&now)).for_each(|(own, (a, b))| *own |= a != b);
        }
        assert!(changed.iter().all(|&has_changed| has_changed), "{changed:?}");
        // No turn can be paid for: all that are further than a neighbour are out of reach.
        let (before, worst) = (trees(&talks.loose), talks.loose.worst());
        talks.loose.tolls.fill(f64::INFINITY);
        talks.round(false);
        assert_eq!(trees(&talks.loose), before);
        assert!((talks.loose.worst() - worst).abs() < 1e-9);
        talks.round(true);
    }

    #[test]
    fn negotiated_trees_are_sound_and_no_more_than_allowed() {
        for topology in TOPOLOGIES {
            let network = network(topology);
            let source_count = network.sources().count();
            assert!(negotiated(&network, limits(&network, source_count - 1)).is_none());
            let (worst, found) = negotiated(&network, limits(&network, source_count)).unwrap();
            assert_sound(&network, &found, topology);
            assert!((worst - found.worst()).abs() < 1e-9 && found.trees.len() == source_count, "{topology}");
        }
        // Two trees a source, however many are allowed: splitting makes more.
        let network = network(TOPOLOGIES[3]);
        let (_, found) = negotiated(&network, limits(&network, 1000)).unwrap();
        assert_eq!(found.trees.len(), 14);
        assert_sound(&network, &found, "two a source");
    }

    /// As where flows weigh more than the escape: its turns go against the order then.
    #[test]
    fn what_cannot_be_settled_is_no_result() {
        let mut none_count = 0;
        for (topology, seed) in
            TOPOLOGIES.iter().flat_map(|topology| (0..4).map(move |seed| (topology, seed)))
        {
            let network = network(topology);
            let mut talks = Talks::new(&network, limits(&network, 100), seed, true, 1).unwrap();
            talks.round(true);
            let last = network.arc_count() as u32 - 1;
            let reversed = talks.loose.order.ranks().iter().map(|&rank| last - rank).collect();
            talks.loose.order.set_ranks(reversed);
            match talks.settled() {
                Some(settled) => assert_sound(&network, &settled, topology),
                None => none_count += 1,
            }
        }
        assert!(none_count > 0);
    }

    #[test]
    fn a_network_too_large_to_negotiate_is_left_alone() {
        let network = network("kind = \"torus\"\nextents = [20, 20]");
        let limits = Limits { least_pressure: 1.0, ..limits(&network, 1000) };
        let talks = Talks::new(&network, limits, 1, true, 1).unwrap();
        assert!(talks.loose.steps * ROUNDS_MIN > STEPS_MAX, "{}", talks.loose.steps);
        assert!(negotiated(&network, limits).is_none());
    }
}
