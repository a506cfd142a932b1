//! Bisection: the least bandwidth between two halves of the switches that have hosts.
//!
//! As the paper counts it (table 2): in links between switches, both halves with equally many switches
//! with hosts (one
//! more in one of them if their number is odd); switches without hosts stand where they cost least. Up to
//! [`EXACT_SWITCHES_MAX`] switches all divisions are tried; beyond, several divisions are improved by
//! exchanges
//! (B. Kernighan and S. Lin, 1970), which gives an upper bound.

use serde::{Deserialize, Serialize};

use crate::vlan::Network;
use ayatori_random::Random;

/// Up to this many switches every division is looked at: 2^19 of them.
const EXACT_SWITCHES_MAX: usize = 20;
/// Starting divisions beyond.
const STARTS: u64 = 12;

/// The least bandwidth between two halves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bisection {
    /// In each direction, all cables that cross together, bit/s.
    pub bits_per_s: u64,
    /// Links that cross, an aggregated link counted once.
    pub link_count: u64,
    /// Whether no division has less; else an upper bound.
    pub is_exact: bool,
}

/// The bisection of a network's switches that take part, and by switch whether it is on the one side of it.
pub(crate) fn bisected(network: &Network) -> (Bisection, Vec<bool>) {
    let switches: Vec<u32> = network.alive().collect();
    let mut is_right = vec![false; network.switch_count()];
    if network.sources().count() < 2 {
        return (Bisection { is_exact: true, ..Bisection::default() }, is_right);
    }
    let cut = Cut::new(network, switches);
    let (side, is_exact) =
        if cut.switches.len() <= EXACT_SWITCHES_MAX { (cut.exact(), true) } else { (cut.improved(), false) };
    cut.switches.iter().zip(&side).for_each(|(&switch, &side)| is_right[switch as usize] = side);
    (Bisection { bits_per_s: cut.width(&side), link_count: cut.links(&side), is_exact }, is_right)
}

struct Cut<'a> {
    network: &'a Network,
    /// Switches that take part; below, they are known by their place here.
    switches: Vec<u32>,
    /// Neighbours by place, with the rate of the link.
    neighbours: Vec<Vec<(usize, u64)>>,
    has_hosts: Vec<bool>,
    source_count: usize,
}

impl<'a> Cut<'a> {
    fn new(network: &'a Network, switches: Vec<u32>) -> Cut<'a> {
        let mut places = vec![usize::MAX; network.switch_count()];
        for (place, &switch) in switches.iter().enumerate() {
            places[switch as usize] = place;
        }
        let neighbours_of = |&switch: &u32| {
            let arcs = network.arcs(switch).iter();
            arcs.map(|arc| (places[arc.to as usize], network.rate(arc.link))).collect()
        };
        let neighbours = switches.iter().map(neighbours_of).collect();
        let has_hosts: Vec<bool> = switches.iter().map(|&switch| network.weight(switch) > 0).collect();
        let source_count = has_hosts.iter().filter(|&&has| has).count();
        Cut { network, switches, neighbours, has_hosts, source_count }
    }

    fn crossing(&self, side: &[bool]) -> Vec<u32> {
        let mut is_right = vec![false; self.network.switch_count()];
        for (place, &switch) in self.switches.iter().enumerate() {
            is_right[switch as usize] = side[place];
        }
        let crosses = |link: &u32| {
            let [a, b] = self.network.ends(*link);
            is_right[a as usize] != is_right[b as usize]
        };
        let mut links: Vec<u32> = self
            .switches
            .iter()
            .flat_map(|&s| self.network.arcs(s))
            .map(|arc| arc.link)
            .filter(crosses)
            .collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    fn width(&self, side: &[bool]) -> u64 {
        self.crossing(side).into_iter().map(|link| self.network.rate(link)).sum()
    }

    fn links(&self, side: &[bool]) -> u64 {
        self.crossing(side).len() as u64
    }

    /// Change of width if one switch changes sides.
    fn change(&self, side: &[bool], place: usize) -> i128 {
        let cost = |&(other, rate): &(usize, u64)| {
            if side[other] == side[place] { i128::from(rate) } else { -i128::from(rate) }
        };
        self.neighbours[place].iter().map(cost).sum()
    }

    /// All divisions, in Gray-code order: one switch changes sides from each to the next. The last
    /// switch stays.
    fn exact(&self) -> Vec<bool> {
        let count = self.switches.len();
        let by_rate: Vec<Vec<(u32, i64)>> = (0..count).map(|place| self.neighbours_by_rate(place)).collect();
        let sources =
            (0..count).filter(|&place| self.has_hosts[place]).fold(0_u32, |set, place| set | 1 << place);
        let halves = [self.source_count / 2, self.source_count.div_ceil(2)];
        // The right side, a bit for each switch.
        let (mut right, mut width) = (0_u32, 0_i64);
        let mut best: Option<(i64, u32)> = None;
        for step in 1_u64..1 << (count - 1) {
            let place = step.trailing_zeros() as usize;
            let same = if right >> place & 1 == 1 { right } else { !right };
            for &(neighbours, rate) in &by_rate[place] {
                let kept = (neighbours & same).count_ones();
                width += rate * (2 * i64::from(kept) - i64::from(neighbours.count_ones()));
            }
            right ^= 1 << place;
            if best.is_none_or(|(least, _)| width < least)
                && halves.contains(&((right & sources).count_ones() as usize))
            {
                best = Some((width, right));
            }
        }
        let right = best.map_or(0, |(_, right)| right);
        (0..count).map(|place| right >> place & 1 == 1).collect()
    }

    /// A switch's neighbours as sets, a bit for each, with the rate to each of a set, bit/s.
    fn neighbours_by_rate(&self, place: usize) -> Vec<(u32, i64)> {
        let mut rates = vec![0_i64; self.switches.len()];
        self.neighbours[place].iter().for_each(|&(other, rate)| rates[other] += rate as i64);
        let mut sets: Vec<(u32, i64)> = Vec::new();
        for (other, &rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0) {
            match sets.iter_mut().find(|(_, of)| *of == rate) {
                Some((set, _)) => *set |= 1 << other,
                None => sets.push((1 << other, rate)),
            }
        }
        sets
    }

    fn improved(&self) -> Vec<bool> {
        let divisions = (0..STARTS).map(|start| {
            let mut side = self.start(start);
            let mut gains: Vec<i128> = (0..side.len()).map(|place| self.change(&side, place)).collect();
            while self.exchange(&mut side, &mut gains) {}
            self.settle(&mut side);
            side
        });
        divisions.min_by_key(|side| self.width(side)).unwrap_or_default()
    }

    /// Lets a switch change sides and keeps every switch's [`Cut::change`] in step.
    fn flip(&self, side: &mut [bool], gains: &mut [i128], place: usize) {
        side[place] = !side[place];
        gains[place] = -gains[place];
        for &(other, rate) in &self.neighbours[place] {
            let twice = 2 * i128::from(rate);
            gains[other] += if side[other] == side[place] { twice } else { -twice };
        }
    }

    /// A division to begin with: in the order of numbers, by every second block, or at random.
    fn start(&self, start: u64) -> Vec<bool> {
        let sources: Vec<usize> = (0..self.switches.len()).filter(|&place| self.has_hosts[place]).collect();
        let mut order = sources.clone();
        if start >= 4 {
            Random::new(start).shuffle(&mut order);
        } else if start > 0 {
            // Every 2nd, 4th, 8th block of consecutive numbers: the cuts across the faster dimensions of a
            // grid.
            let block = (sources.len() >> (2 * start)).max(1);
            order.sort_by_key(|&place| (place / block % 2, place));
        }
        let mut side = vec![false; self.switches.len()];
        order[..order.len() / 2].iter().for_each(|&place| side[place] = true);
        self.settle(&mut side);
        side
    }

    /// Puts switches without hosts where they cost least.
    fn settle(&self, side: &mut [bool]) {
        for _ in 0..side.len() {
            let Some(place) =
                (0..side.len()).find(|&place| !self.has_hosts[place] && self.change(side, place) < 0)
            else {
                return;
            };
            side[place] = !side[place];
        }
    }

    /// Exchanges the best pair of switches with hosts, if that makes the cut narrower.
    fn exchange(&self, side: &mut [bool], gains: &mut [i128]) -> bool {
        let best_of = |wanted: bool, but: usize, side: &[bool], gains: &[i128]| {
            (0..side.len())
                .filter(|&place| self.has_hosts[place] && side[place] == wanted && place != but)
                .min_by_key(|&place| gains[place])
        };
        let Some(first) = best_of(true, usize::MAX, side, gains) else { return false };
        let gain = gains[first];
        self.flip(side, gains, first);
        // Best among the others: the one just moved would only move back.
        if let Some(second) = best_of(false, first, side, gains)
            && gain + gains[second] < 0
        {
            self.flip(side, gains, second);
            return true;
        }
        self.flip(side, gains, first);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::LinkSpec;
    use crate::topology::{
        Complete, Dragonfly, Explicit, FatTree, Hypercube, Mesh, Ring, Topology, Torus, Tree,
    };
    use crate::vlan::networks_for_tests::Parts;

    const LINK: LinkSpec = LinkSpec { rate_bits_per_s: 10, latency_ps: 0, cable_count: 1 };

    fn network(topology: &Topology) -> Network {
        let graph = topology.build(LINK).unwrap();
        let generator = topology.generator();
        let weights = graph.switches().map(|switch| u32::from(generator.carries_hosts(switch.0))).collect();
        Network::new(&graph, graph.link_count(), weights, &[])
    }

    /// A connected network of 2 to 9 switches, links of one to three cables, some switches without hosts.
    fn random_network(random: &mut Random) -> Network {
        let count = 2 + random.below(8) as u32;
        let width = |random: &mut Random| 1 + random.below(3) as u32;
        let mut links: Vec<(u32, u32, u32)> =
            (1..count).map(|own| (random.below(own.into()) as u32, own, width(random))).collect();
        for _ in 0..random.below(2 * u64::from(count)) {
            let [a, b] = [0, 1].map(|_| random.below(count.into()) as u32);
            if a != b {
                links.push((a, b, width(random)));
            }
        }
        let switches = (0..count).map(|switch| format!("s{switch}")).collect();
        let graph = Topology::Explicit(Explicit { switches, links }).build(LINK).unwrap();
        let weights = (0..count).map(|_| u32::from(!random.one_in(4))).collect();
        Network::new(&graph, graph.link_count(), weights, &[])
    }

    /// What crosses a division: bit/s and links, `None` if it is none into halves.
    fn crossing(network: &Network, is_right: impl Fn(u32) -> bool) -> Option<(u64, u64)> {
        let all = network.sources().count();
        let right = network.sources().filter(|&switch| is_right(switch)).count();
        let links =
            network.alive().flat_map(|switch| network.arcs(switch).iter().map(move |arc| (switch, arc)));
        let crossing: Vec<u64> = links
            .filter(|&(switch, arc)| switch < arc.to && is_right(switch) != is_right(arc.to))
            .map(|(_, arc)| network.rate(arc.link))
            .collect();
        (right.abs_diff(all - right) <= 1).then(|| (crossing.iter().sum(), crossing.len() as u64))
    }

    #[test]
    fn no_division_into_halves_has_less() {
        let mut random = Random::new(1);
        for case in 0..400 {
            let network = random_network(&mut random);
            let (found, is_right) = bisected(&network);
            assert!(found.is_exact);
            if network.sources().count() < 2 {
                assert_eq!((found.bits_per_s, found.link_count), (0, 0), "case {case}");
                continue;
            }
            let divisions = 0_u32..1 << network.switch_count();
            let least = divisions
                .filter_map(|right| crossing(&network, |switch| right >> switch & 1 == 1))
                .map(|(bits_per_s, _)| bits_per_s)
                .min();
            let own = crossing(&network, |switch| is_right[switch as usize]);
            assert_eq!(
                own,
                Some((found.bits_per_s, found.link_count)),
                "case {case}: the division is its own"
            );
            assert_eq!(least, Some(found.bits_per_s), "case {case}");
        }
    }

    /// Where one without hosts may stand on either side, others still go to theirs.
    #[test]
    fn every_switch_without_hosts_stands_where_it_costs_least() {
        let network = Parts::of(&[(0, 2), (1, 2), (0, 3), (0, 3), (1, 3)], &[1, 1, 0, 0]).network(&[]);
        let cut = Cut::new(&network, network.alive().collect());
        for start in [[false, true, true, true], [false, true, false, true], [true, false, true, false]] {
            let mut side = start.to_vec();
            cut.settle(&mut side);
            assert_eq!((&side[..2], side[3]), (&start[..2], start[0]));
        }
    }

    /// Beyond the divisions that can all be tried, the known bisections of regular networks are found.
    #[test]
    fn large_regular_networks_have_their_known_bisections() {
        let cases = [
            (Topology::Ring(Ring { switch_count: 30 }), 2),
            (Topology::Complete(Complete { switch_count: 22 }), 11 * 11),
            (Topology::Tree(Tree::star(22)), 11),
            (Topology::Mesh(Mesh { extents: vec![6, 5] }), 5),
            (Topology::Mesh(Mesh { extents: vec![5, 6] }), 5),
            (Topology::Mesh(Mesh { extents: vec![4, 8] }), 4),
            (Topology::Torus(Torus::new(&[8, 4])), 2 * 4),
            (Topology::Torus(Torus::new(&[4, 8])), 2 * 4),
            (Topology::Torus(Torus::new(&[4, 4, 4])), 2 * 4 * 4),
            (Topology::Torus(Torus::new(&[3, 4, 4])), 2 * 3 * 4),
            (Topology::Hypercube(Hypercube { dimension_count: 6 }), 32),
            // Each leaf has four links, and every root one to each half of the leaves.
            (Topology::FatTree(FatTree { down: vec![16], up: vec![6], widths: Vec::new() }), 16 * 6 / 2),
            (Topology::FatTree(FatTree::of_radix(8, 3).unwrap()), 64),
            // Three groups against three, with two links between any two.
            (
                Topology::Dragonfly(Dragonfly { group_size: 5, global_port_count: 2, group_count: 6 }),
                3 * 3 * 2,
            ),
        ];
        for (topology, links) in cases {
            let (found, is_right) = bisected(&network(&topology));
            assert_eq!((found.link_count, found.bits_per_s), (links, 10 * links), "{topology:?}");
            assert!(!found.is_exact);
            let own = crossing(&network(&topology), |switch| is_right[switch as usize]);
            assert_eq!(own, Some((10 * links, links)), "{topology:?}");
        }
    }

    #[test]
    fn what_exchanges_find_is_a_division_and_most_often_the_best() {
        let (mut random, mut best_count) = (Random::new(2), 0);
        for case in 0..200 {
            let network = random_network(&mut random);
            if network.sources().count() < 2 {
                continue;
            }
            let cut = Cut::new(&network, network.alive().collect());
            let side = cut.improved();
            let (width, _) = crossing(&network, |switch| side[switch as usize]).expect("halves");
            let least = cut.width(&cut.exact());
            assert!(width >= least, "case {case}");
            best_count += u32::from(width == least);
            // No exchange of two switches makes it narrower, and no other side for one without hosts.
            let mut gains: Vec<i128> = (0..side.len()).map(|place| cut.change(&side, place)).collect();
            assert!(!cut.exchange(&mut side.clone(), &mut gains), "case {case}");
            let idle = (0..side.len()).filter(|&place| !cut.has_hosts[place]);
            assert!(idle.clone().all(|place| cut.change(&side, place) >= 0), "case {case}");
        }
        assert!(best_count > 150, "{best_count}");
    }

    /// Switches without hosts follow those that have been exchanged.
    #[test]
    fn what_is_exchanged_is_settled_after_all() {
        for seed in 0..60 {
            let network = Parts::random(seed, 16, true).network(&[]);
            let cut = Cut::new(&network, network.alive().collect());
            for start in 0..STARTS {
                let side = cut.start(start);
                let bare = (0..side.len()).filter(|&place| !cut.has_hosts[place]);
                assert!(bare.clone().all(|place| cut.change(&side, place) >= 0), "{seed} {start}");
            }
            let side = cut.improved();
            let bare = (0..side.len()).filter(|&place| !cut.has_hosts[place]);
            assert!(bare.clone().all(|place| cut.change(&side, place) >= 0), "{seed}");
        }
    }

    #[test]
    fn the_first_switch_is_exchanged_like_any_other() {
        // Three links between the first two, one on to the last.
        let network = Parts::of(&[(0, 1), (0, 1), (0, 1), (1, 2)], &[1; 3]).network(&[]);
        let cut = Cut::new(&network, vec![0, 1, 2]);
        let mut side = vec![true, false, false];
        let mut gains: Vec<i128> = (0..3).map(|place| cut.change(&side, place)).collect();
        assert!(cut.exchange(&mut side, &mut gains));
        assert_eq!(side, [false, false, true]);
    }

    #[test]
    fn all_divisions_are_tried_up_to_twenty_switches() {
        for (switch_count, is_exact) in [(20, true), (21, false)] {
            let (found, _) = bisected(&network(&Topology::Ring(Ring { switch_count })));
            assert_eq!((found.link_count, found.is_exact), (2, is_exact));
        }
    }

    #[test]
    fn the_change_of_a_switch_is_kept_in_step() {
        let mut random = Random::new(3);
        for case in 0..50 {
            let network = random_network(&mut random);
            let cut = Cut::new(&network, network.alive().collect());
            let count = cut.switches.len();
            let mut side: Vec<bool> = (0..count).map(|_| random.one_in(2)).collect();
            let mut gains: Vec<i128> = (0..count).map(|place| cut.change(&side, place)).collect();
            for _ in 0..10 {
                let (place, before) = (random.index(count), cut.width(&side));
                let gain = gains[place];
                cut.flip(&mut side, &mut gains, place);
                assert_eq!(cut.width(&side) as i128, before as i128 + gain, "case {case}");
            }
            assert!((0..count).all(|place| gains[place] == cut.change(&side, place)), "case {case}");
        }
    }
}
