//! One spanning tree for all hosts: one VLAN, and every loop's bandwidth left unused. The spanning-tree
//! protocol gives the same, with a worse root.

use std::collections::VecDeque;

use super::super::network::{Arc, NONE, Network};
use super::super::tree::{RootedTree, adjacency};
use super::{Paths, subtree_weights};

/// Roots tried on large networks.
const ROOTS_MAX: usize = 64;

/// The breadth-first tree with the shortest paths between hosts, over all its roots (64 of them on large
/// networks).
pub(crate) fn spanning_tree(network: &Network) -> Paths {
    let alive: Vec<u32> = network.alive().collect();
    let step = alive.len().div_ceil(ROOTS_MAX).max(1);
    let best = alive
        .iter()
        .step_by(step)
        .map(|&root| breadth_first(network, root).pruned(network))
        .min_by_key(|tree| hops_between_hosts(network, tree));
    let links = best.map_or_else(Vec::new, |tree| tree.links());
    let adjacency = adjacency(network, &links);
    // The root may have no hosts and one branch: then it is left out, too.
    let tree = |source| RootedTree::from_links(&adjacency, source).pruned(network);
    let trees = network.sources().map(tree).collect();
    Paths { method: "one spanning tree".into(), settings: vec!["routing = \"spanning-tree\"".into()], trees }
}

fn breadth_first(network: &Network, root: u32) -> RootedTree {
    let mut parents = vec![Arc { to: NONE, link: NONE }; network.switch_count()];
    let mut queue = VecDeque::from([root]);
    while let Some(at) = queue.pop_front() {
        for arc in network.arcs(at) {
            if arc.to != root && parents[arc.to as usize].to == NONE {
                parents[arc.to as usize] = Arc { to: at, link: arc.link };
                queue.push_back(arc.to);
            }
        }
    }
    RootedTree::from_parents(root, parents)
}

/// Links crossed by one flow between every two hosts: each link's, below times above.
fn hops_between_hosts(network: &Network, tree: &RootedTree) -> u128 {
    let below = subtree_weights(network, tree);
    let all = below[tree.root() as usize];
    tree.order[1..].iter().map(|&s| u128::from(below[s as usize]) * u128::from(all - below[s as usize])).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::networks_for_tests::Parts;
    use super::*;

    #[test]
    fn switches_without_hosts_at_the_end_of_a_row_are_left_out() {
        for weights in [[0, 1, 1, 0], [0, 0, 2, 1], [1, 0, 0, 1]] {
            let network = Parts::of(&[(0, 1), (1, 2), (2, 3)], &weights).network(&[]);
            let first = weights.iter().position(|&hosts| hosts > 0).unwrap() as u32;
            let last = weights.iter().rposition(|&hosts| hosts > 0).unwrap() as u32;
            for tree in spanning_tree(&network).trees {
                assert_eq!(tree.links(), (first..last).collect::<Vec<_>>(), "{weights:?}");
            }
        }
    }

    #[test]
    fn the_tree_with_the_shortest_paths_is_taken() {
        // A ring of five: hosts are nearest to each other where the link between the two without is left out.
        let network = Parts::of(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], &[1, 4, 1, 0, 0]).network(&[]);
        for tree in spanning_tree(&network).trees {
            assert_eq!(tree.links(), [0, 1]);
        }
    }
}
