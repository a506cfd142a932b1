//! Shortest paths for each host on its own, where there are several: as D-mod-k routes a fat tree (E.
//! Zahavi, 2010), but by the number of the host that sends, because a VLAN is chosen where a frame comes
//! in.
//!
//! Seen from a source, a switch may have several neighbours that are nearer. Which one is on the path is a
//! digit of the host's number: the lowest digit for switches at the end of paths, higher ones for those
//! before them. So the hosts of a leaf climb through all of its uplinks alike, those of a pod through all
//! core switches alike, and hosts that climb through the same switches share a tree.

use super::super::network::{Arc, NONE, Network};
use super::super::solution::SourceTree;
use super::super::tree::RootedTree;

/// More trees than this are not made.
const TREES_MAX: usize = 8192;

/// A tree for each host; hosts of one switch with the same tree are together. `None` if they are too many.
pub(crate) fn by_host(network: &Network) -> Option<Vec<SourceTree>> {
    let host_count: usize = network.sources().map(|source| network.weight(source) as usize).sum();
    if host_count > TREES_MAX {
        return None;
    }
    let mut trees: Vec<SourceTree> = Vec::new();
    let mut number = 0;
    for source in network.sources() {
        let ways = Ways::from(network, source);
        let first = trees.len();
        for _ in 0..network.weight(source) {
            let tree = ways.tree(network, source, number);
            number += 1;
            match trees[first..].iter_mut().find(|other| other.tree == tree) {
                Some(same) => same.hosts += 1,
                None => trees.push(SourceTree { tree, hosts: 1 }),
            }
        }
    }
    Some(trees)
}

/// The shortest paths from a source.
struct Ways {
    /// By switch: the arcs to neighbours that are nearer.
    nearer: Vec<Vec<Arc>>,
    /// By switch: what a host's number is divided by for its digit there.
    divisors: Vec<u64>,
}

impl Ways {
    fn from(network: &Network, source: u32) -> Ways {
        let distances = network.distances(source);
        let mut nearer = vec![Vec::new(); network.switch_count()];
        let mut order: Vec<u32> = network.alive().filter(|&switch| switch != source).collect();
        for &switch in &order {
            let is_nearer = |arc: &&Arc| distances[arc.to as usize] < distances[switch as usize];
            nearer[switch as usize] = network.arcs(switch).iter().filter(is_nearer).copied().collect();
        }
        order.sort_by_key(|&switch| std::cmp::Reverse(distances[switch as usize]));
        let mut divisors = vec![1_u64; network.switch_count()];
        for &switch in &order {
            let own = &nearer[switch as usize];
            let above = divisors[switch as usize].saturating_mul(own.len() as u64);
            for arc in own {
                let divisor = &mut divisors[arc.to as usize];
                *divisor = above.max(*divisor);
            }
        }
        Ways { nearer, divisors }
    }

    fn tree(&self, network: &Network, source: u32, number: u64) -> RootedTree {
        let mut parents = vec![Arc { to: NONE, link: NONE }; network.switch_count()];
        for (switch, ways) in self.nearer.iter().enumerate().filter(|(_, ways)| !ways.is_empty()) {
            let digit = number / self.divisors[switch] % ways.len() as u64;
            parents[switch] = ways[digit as usize];
        }
        RootedTree::from_parents(source, parents).pruned(network)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluation::evaluate;
    use super::super::super::networks_for_tests::Parts;
    use super::super::super::solution::by_host_port;
    use super::*;
    use crate::graph::{LinkSpec, SwitchId};
    use crate::topology::{FatTree, Ring, Topology};

    #[test]
    fn hosts_climb_through_all_switches_above_alike() {
        let link = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: 0, cable_count: 1 };
        // By topology: hosts of a leaf, trees of one, and the flows of the busiest link: no routes have less,
        // since all that a leaf's hosts send goes over its links up.
        for (down, up, hosts, trees_of_leaf, busiest) in [
            (vec![4], vec![4], 4, 4, 12),
            (vec![4], vec![2], 4, 2, 24),
            // Two switches above a leaf, and four above those.
            (vec![2, 4], vec![2, 2], 4, 4, 56),
            (vec![2, 4], vec![2, 2], 2, 2, 14),
            // Eight ways to the top, over three links up.
            (vec![2, 2, 2], vec![2, 2, 2], 8, 8, 224),
        ] {
            let about = format!("{down:?} {up:?} {hosts}");
            let topology = Topology::FatTree(FatTree { down, up, widths: Vec::new() });
            let graph = topology.build(link).unwrap();
            let carries = |switch: SwitchId| topology.generator().carries_hosts(switch.0);
            let weights = graph.switches().map(|switch| hosts * u32::from(carries(switch))).collect();
            let forwards = Network::new(&graph, graph.link_count(), weights, &[]);
            // Also where switches are numbered from the highest down.
            let links: Vec<(u32, u32)> =
                (0..graph.link_count() as u32).map(|link| forwards.ends(link).into()).collect();
            let hosts_of: Vec<u32> = graph.switches().map(|switch| forwards.weight(switch.0)).collect();
            let backwards = Parts::of(&links, &hosts_of).backwards().network(&[]);
            for network in [forwards, backwards] {
                let trees = by_host(&network).unwrap();
                let first = network.sources().next().unwrap();
                let own: Vec<u32> =
                    trees.iter().filter(|tree| tree.tree.root() == first).map(|tree| tree.hosts).collect();
                assert_eq!(own, vec![hosts / trees_of_leaf; trees_of_leaf as usize], "{about}");
                let solution = by_host_port(&network, String::new(), Vec::new(), &trees);
                let evaluation = evaluate(&network, &solution);
                assert!(evaluation.is_free, "{about}");
                assert_eq!(evaluation.busiest(&network).unwrap().1, busiest, "{about}");
            }
        }
    }

    #[test]
    fn so_many_hosts_have_trees_of_their_own_and_no_more() {
        let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let graph = Topology::Ring(Ring { switch_count: 4 }).build(link).unwrap();
        let trees = |hosts: u32| by_host(&Network::new(&graph, 4, vec![hosts, 1, 1, 1], &[]));
        let most = TREES_MAX as u32 - 3;
        let found = trees(most).unwrap();
        assert_eq!(found.iter().map(|tree| tree.hosts).sum::<u32>(), most + 3);
        assert!(trees(most + 1).is_none());
    }
}
