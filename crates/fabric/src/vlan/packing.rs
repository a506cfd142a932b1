//! Where hosts tag: which pairs of switches share a VLAN.
//!
//! Ways of pairs are packed first-fit into as few trees as a few orders give. With an order of the channels
//! ([`PairWays::keys`]) a tree takes only links between which every turn goes along the order: then no
//! broadcast closes a cycle either, from whatever host and on whatever VLAN it is (ARP, priming).

use std::collections::BTreeMap;

use super::network::{NONE, Network};
use super::paths::Paths;
use super::solution::{Choice, Solution};
use super::tree::{Parts, RootedTree, completed};
use ayatori_random::Random;

/// Up to this many sources, pairs are packed into VLANs one by one.
const PACKING_SOURCES_MAX: usize = 64;
/// Orders in which packing is tried.
const PACKING_STARTS: usize = 12;

/// The way of a pair of switches with hosts, the same in both directions.
#[derive(Debug, Clone)]
pub(crate) struct PairWay {
    pub(crate) low: u32,
    pub(crate) high: u32,
    /// From the lower switch to the higher one.
    pub(crate) links: Vec<u32>,
}

/// Ways of all pairs of switches with hosts.
#[derive(Debug, Clone)]
pub(crate) struct PairWays {
    pub(crate) ways: Vec<PairWay>,
    /// By channel: along every way, and back, these increase. A link's two directions have opposite ones.
    /// `None` where cycles are allowed.
    pub(crate) keys: Option<Vec<i64>>,
}

/// For hosts that tag: a VLAN for every unordered pair of switches, on the path from the lower one to the
/// higher, both ways. Small networks: pairs are packed first-fit into as few trees as a few orders give.
/// Large ones: the VLAN of the pair's lower switch.
pub(crate) fn by_pair(network: &Network, paths: &Paths, seed: u64) -> Solution {
    let packed = if paths.trees.len() <= PACKING_SOURCES_MAX {
        pack(network, pair_ways(network, paths), seed)
    } else {
        by_lower_switch(network, paths)
    };
    let method = format!("{}, one VLAN per pair of switches", paths.method);
    of_pairs(network, method, &paths.settings, packed)
}

/// [`by_pair`] with a way of its own for every pair. Trees in which broadcasts close no cycle where such are
/// found within `vlans_max`, others where not.
pub(crate) fn by_way(
    network: &Network,
    method: String,
    settings: &[String],
    mut found: PairWays,
    seed: u64,
    vlans_max: usize,
) -> Solution {
    let ways = std::mem::take(&mut found.ways);
    let ordered = found.keys.and_then(|keys| pack_in_order(network, ways.clone(), seed, &keys));
    let fits = |packed: &Packed| packed.trees.len() <= vlans_max;
    let packed = ordered.filter(fits).unwrap_or_else(|| pack(network, ways, seed));
    of_pairs(network, method, settings, packed)
}

fn of_pairs(network: &Network, method: String, settings: &[String], mut packed: Packed) -> Solution {
    let count = network.switch_count();
    for links in &mut packed.trees {
        *links = completed(network, links);
    }
    for source in network.sources() {
        packed.vlans[source as usize * count + source as usize] = 0;
    }
    if packed.trees.is_empty() {
        packed.trees.push(completed(network, &[]));
    }
    Solution {
        method,
        settings: [settings, &["tagging = \"host\"".into()]].concat(),
        is_repaired: false,
        vlan_count_min: pair_lower_bound(network),
        trees: packed.trees,
        choice: Choice::ByPair(packed.vlans),
    }
}

struct Packed {
    trees: Vec<Vec<u32>>,
    vlans: Vec<u32>,
}

/// Neighbours with hosts need the link between them, and a tree has one link less than switches.
fn pair_lower_bound(network: &Network) -> usize {
    let mut neighbours: Vec<[u32; 2]> = Vec::new();
    for switch in network.sources() {
        let others = network.arcs(switch).iter().filter(|arc| arc.to > switch && network.weight(arc.to) > 0);
        neighbours.extend(others.map(|arc| [switch, arc.to]));
    }
    neighbours.sort_unstable();
    neighbours.dedup();
    neighbours.len().div_ceil(network.alive().count().saturating_sub(1).max(1)).max(1)
}

fn by_lower_switch(network: &Network, paths: &Paths) -> Packed {
    let count = network.switch_count();
    let mut packed = Packed { trees: Vec::new(), vlans: vec![NONE; count * count] };
    let mut same: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for (rank, tree) in paths.trees.iter().enumerate() {
        if rank + 1 == paths.trees.len() && rank > 0 {
            // The highest switch is the lower one of no pair.
            break;
        }
        let links = tree.links();
        let vlan = *same.entry(links.clone()).or_insert_with(|| {
            packed.trees.push(links);
            packed.trees.len() as u32 - 1
        });
        let low = tree.root() as usize;
        for high in network.sources().filter(|&high| high as usize > low) {
            packed.vlans[low * count + high as usize] = vlan;
            packed.vlans[high as usize * count + low] = vlan;
        }
    }
    packed
}

/// The way of each pair along the tree of its lower switch.
pub(crate) fn pair_ways(network: &Network, paths: &Paths) -> Vec<PairWay> {
    let mut ways = Vec::new();
    for tree in &paths.trees {
        let low = tree.root();
        for high in network.sources().filter(|&high| high > low) {
            let mut links = path_to(tree, high);
            links.reverse();
            ways.push(PairWay { low, high, links });
        }
    }
    ways
}

fn pack(network: &Network, pairs: Vec<PairWay>, seed: u64) -> Packed {
    in_few_orders(pairs, seed, |pairs| first_fit(network, pairs, None))
}

/// `None` where a tree cannot be completed so that it reaches all hosts.
fn pack_in_order(network: &Network, pairs: Vec<PairWay>, seed: u64, keys: &[i64]) -> Option<Packed> {
    let mut packed = in_few_orders(pairs, seed, |pairs| first_fit(network, pairs, Some(keys)));
    let in_order = |links: &mut Vec<u32>| complete_in_order(network, links, keys);
    packed.trees.iter_mut().all(in_order).then_some(packed)
}

/// The fewest trees of several orders of the pairs.
fn in_few_orders(mut pairs: Vec<PairWay>, seed: u64, pack: impl Fn(&[PairWay]) -> Packed) -> Packed {
    // Long paths first: they fit in fewest places.
    pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.links.len()), pair.low, pair.high));
    let mut random = Random::new(seed);
    let mut best = pack(&pairs);
    for _ in 1..PACKING_STARTS {
        random.shuffle(&mut pairs);
        let packed = pack(&pairs);
        if packed.trees.len() < best.trees.len() {
            best = packed;
        }
    }
    best
}

fn path_to(tree: &RootedTree, mut switch: u32) -> Vec<u32> {
    let mut links = Vec::new();
    while switch != tree.root() {
        let parent = tree.parents[switch as usize];
        links.push(parent.link);
        switch = parent.to;
    }
    links
}

/// Turns between links of a tree, by an order of the channels: from one link of a switch to another they go
/// forwards, in both directions, if the keys of the two channels that leave the switch are more than 0
/// together.
#[derive(Clone)]
struct InOrder<'a> {
    network: &'a Network,
    keys: &'a [i64],
    /// By switch: the least key of the channels of the tree that leave it.
    least: Vec<i64>,
}

impl<'a> InOrder<'a> {
    fn new(network: &'a Network, keys: &'a [i64]) -> InOrder<'a> {
        InOrder { network, keys, least: vec![i64::MAX / 2; network.switch_count()] }
    }

    fn key(&self, link: u32, from: u32) -> i64 {
        self.keys[self.network.channel(link, from).index()]
    }

    fn takes(&self, link: u32) -> bool {
        self.network.ends(link).iter().all(|&end| self.key(link, end) + self.least[end as usize] > 0)
    }

    fn add(&mut self, link: u32) {
        for end in self.network.ends(link) {
            self.least[end as usize] = self.least[end as usize].min(self.key(link, end));
        }
    }
}

fn first_fit(network: &Network, pairs: &[PairWay], keys: Option<&[i64]>) -> Packed {
    let count = network.switch_count();
    let mut packed = Packed { trees: Vec::new(), vlans: vec![NONE; count * count] };
    let mut parts: Vec<Parts> = Vec::new();
    let mut turns: Vec<InOrder<'_>> = Vec::new();
    let mut joined = Parts::new(count);
    for PairWay { low, high, links: path } in pairs {
        let fitting = (0..packed.trees.len()).find(|&vlan| {
            let new = |link: &&u32| packed.trees[vlan].binary_search(link).is_err();
            let takes = |link: &u32| turns.get(vlan).is_none_or(|turns| turns.takes(*link));
            if !path.iter().filter(new).all(takes) {
                return false;
            }
            joined.clone_from(&parts[vlan]);
            path.iter().filter(new).all(|&link| joined.join(network.ends(link)))
        });
        let vlan = fitting.unwrap_or_else(|| {
            packed.trees.push(Vec::new());
            parts.push(Parts::new(count));
            turns.extend(keys.map(|keys| InOrder::new(network, keys)));
            packed.trees.len() - 1
        });
        for &link in path {
            if let Err(place) = packed.trees[vlan].binary_search(&link) {
                packed.trees[vlan].insert(place, link);
                parts[vlan].join(network.ends(link));
                turns.get_mut(vlan).into_iter().for_each(|turns| turns.add(link));
            }
        }
        for at in [*low as usize * count + *high as usize, *high as usize * count + *low as usize] {
            packed.vlans[at] = vlan as u32;
        }
    }
    packed
}

/// Adds links until all hosts are reached; `false` if none that goes along the order does so.
fn complete_in_order(network: &Network, links: &mut Vec<u32>, keys: &[i64]) -> bool {
    let mut parts = Parts::new(network.switch_count());
    let mut turns = InOrder::new(network, keys);
    for &link in links.iter() {
        parts.join(network.ends(link));
        turns.add(link);
    }
    let mut others: Vec<u32> = (0..network.link_count() as u32).filter(|&link| network.is_up(link)).collect();
    others.sort_by_key(|&link| turns.key(link, network.ends(link)[0]).abs());
    for link in others {
        if turns.takes(link) && parts.join(network.ends(link)) {
            links.push(link);
            turns.add(link);
        }
    }
    links.sort_unstable();
    let mut homes = network.sources().map(|source| parts.find(source));
    let first = homes.next();
    homes.all(|home| Some(home) == first)
}

#[cfg(test)]
mod tests {
    use super::super::balance::{Limits, balanced_pairs, least_pressure};
    use super::super::networks_for_tests::Parts;
    use super::super::paths::up_down::up_down;
    use super::super::tree::adjacency;
    use super::*;
    use crate::description::Machine;

    /// Ways of a search, and the order of the channels that they go along.
    fn found(network: &Network, seed: u64) -> PairWays {
        let starts = [pair_ways(network, &up_down(network, false))];
        let least_pressure = least_pressure(network, u64::MAX);
        let limits =
            Limits { trees_max: 100, allows_cycles: false, seed, is_thorough: false, least_pressure };
        balanced_pairs(network, &starts, limits).unwrap()
    }

    #[test]
    fn trees_in_order_turn_forwards_only_and_reach_all_hosts() {
        let (mut tree_count, mut ordered_count) = (0, 0);
        for seed in 0..60 {
            let network = Parts::random(seed, 8, seed % 2 == 0).network(&[]);
            let PairWays { ways, keys } = found(&network, seed);
            let keys = keys.unwrap();
            let key = |link: u32, from: u32| keys[network.channel(link, from).index()];
            for way in &ways {
                let mut at = way.low;
                let mut along = Vec::new();
                for &link in &way.links {
                    along.push(key(link, at));
                    let [a, b] = network.ends(link);
                    assert_eq!(key(link, a), -key(link, b));
                    at = if at == a { b } else { a };
                }
                assert!(at == way.high && along.windows(2).all(|two| two[0] < two[1]), "{along:?}");
            }
            let Some(packed) = pack_in_order(&network, ways.clone(), seed, &keys) else { continue };
            ordered_count += 1;
            for links in &packed.trees {
                tree_count += 1;
                assert!(links.windows(2).all(|two| two[0] < two[1]), "{links:?}");
                let root = network.sources().next().unwrap();
                let tree = RootedTree::from_links(&adjacency(&network, links), root);
                assert!(network.sources().all(|source| tree.order.contains(&source)), "{seed}: {links:?}");
                for switch in network.alive() {
                    let own = links.iter().filter(|&&link| network.ends(link).contains(&switch));
                    let mut own: Vec<i64> = own.map(|&link| key(link, switch)).collect();
                    own.sort_unstable();
                    assert!(own.len() < 2 || own[0] + own[1] > 0, "{seed}: {switch} of {links:?}");
                }
            }
            // They are taken if all switches have as many VLANs.
            let count = packed.trees.len();
            let within = |vlans_max: usize| {
                let found = PairWays { ways: ways.clone(), keys: Some(keys.clone()) };
                by_way(&network, String::new(), &[], found, seed, vlans_max).trees
            };
            let mut whole = packed.trees.clone();
            whole.iter_mut().for_each(|links| *links = completed(&network, links));
            assert_eq!(within(count), whole, "{seed}");
            assert!(within(count).iter().all(|links| links.windows(2).all(|two| two[0] < two[1])));
        }
        println!("{ordered_count} have {tree_count} trees in order");
        // In the others more than one switch has no link up, so no tree in order joins all.
        assert!(ordered_count >= 50 && tree_count > 60, "{ordered_count} {tree_count}");
    }

    #[test]
    fn pairs_of_neighbours_need_as_many_trees_as_hold_their_links() {
        let complete: Vec<(u32, u32)> = (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))).collect();
        let least = |weights: &[u32]| pair_lower_bound(&Parts::of(&complete, weights).network(&[]));
        // Ten links, four to a tree; of four switches with hosts six.
        assert_eq!([least(&[1; 5]), least(&[2; 5]), least(&[1, 1, 1, 1, 0])], [3, 3, 2]);
        assert_eq!(pair_lower_bound(&Parts::of(&[], &[1]).network(&[])), 1);
    }

    #[test]
    fn pairs_in_a_row_need_one_vlan() {
        let row: Vec<(u32, u32)> = (0..5).map(|at| (at, at + 1)).collect();
        let network = Parts::of(&row, &[1; 6]).network(&[]);
        let solution = by_pair(&network, &up_down(&network, false), 1);
        assert_eq!((solution.trees.len(), solution.vlan_count_min, solution.is_repaired), (1, 1, false));
    }

    #[test]
    fn the_highest_switch_needs_no_tree_of_its_own() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nkind = \"complete\"\nswitches = 4\n\
                    switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
        let network = Network::of(&Machine::parse("m.toml", text).unwrap(), &[]);
        let paths =
            super::super::paths::minimal::balanced(&network, super::super::paths::minimal::Spread::ByLoad);
        let packed = by_lower_switch(&network, &paths);
        assert_eq!((paths.trees.len(), packed.trees.len()), (4, 3));
        for (low, high) in (0..4).flat_map(|low| (low + 1..4).map(move |high| (low, high))) {
            let vlan = packed.vlans[low * 4 + high];
            assert_eq!((vlan, packed.vlans[high * 4 + low]), (low as u32, vlan));
        }
        // One source has no pair, and one tree.
        let one = Paths { trees: up_down(&network, false).trees[..1].to_vec(), ..paths };
        assert_eq!(by_lower_switch(&network, &one).trees.len(), 1);
    }
}
