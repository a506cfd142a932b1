//! Paths from every source switch to all others, as one tree a source: frames of a switch's hosts are all on
//! one VLAN, so whatever the paths are, those from one source have to form a tree.
//!
//! One file a method. Each answers `None` where the network does not have what it takes (a grid with a broken
//! link has no dimension order).

pub(super) mod by_host;
pub(super) mod grid;
pub(super) mod minimal;
pub(super) mod spanning;
pub(super) mod up_down;

use super::network::Network;
use super::tree::RootedTree;

/// Flows on every channel so far, to choose the less busy of equally good links.
#[derive(Debug, Clone)]
pub(super) struct Load {
    flows: Vec<u64>,
    /// Cost of one flow on each link: the fastest link's rate over its own, in 1/256.
    costs: Vec<u64>,
}

impl Load {
    pub(super) fn new(network: &Network) -> Load {
        let links = 0..network.link_count() as u32;
        let fastest = links.clone().map(|link| network.rate(link)).max().unwrap_or(1);
        let cost = |link| (u128::from(fastest) * 256 / u128::from(network.rate(link).max(1))) as u64;
        Load { flows: vec![0; 2 * network.link_count()], costs: links.map(cost).collect() }
    }

    /// Adds a flow from each of the root's hosts to each other host.
    pub(super) fn add(&mut self, network: &Network, tree: &RootedTree) {
        let hosts = u64::from(network.weight(tree.root()));
        let below = subtree_weights(network, tree);
        for &switch in &tree.order[1..] {
            let parent = tree.parents[switch as usize];
            let channel = network.channel(parent.link, parent.to);
            self.flows[channel.index()] += hosts * below[switch as usize];
        }
    }

    /// How busy the channel that leaves `from` over `link` is for its rate.
    pub(super) fn of(&self, network: &Network, link: u32, from: u32) -> u128 {
        let flows = self.flows[network.channel(link, from).index()];
        u128::from(flows) * u128::from(self.costs[link as usize])
    }
}

/// Hosts at and below every switch of a tree.
pub(super) fn subtree_weights(network: &Network, tree: &RootedTree) -> Vec<u64> {
    let mut below = vec![0_u64; tree.parents.len()];
    for &switch in tree.order.iter().rev() {
        below[switch as usize] += u64::from(network.weight(switch));
        let parent = tree.parents[switch as usize].to;
        if parent != super::network::NONE {
            below[parent as usize] += below[switch as usize];
        }
    }
    below
}

/// The trees and the words for how they were made.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) method: String,
    /// Lines of `[plan]` that give them.
    pub(super) settings: Vec<String>,
    /// One tree for every source, in order of the sources, without branches to no hosts.
    pub(super) trees: Vec<RootedTree>,
}

#[cfg(test)]
mod tests {
    use super::super::tree::adjacency;
    use super::*;
    use crate::graph::LinkSpec;
    use crate::topology::{Explicit, Topology};

    #[test]
    fn a_slow_link_is_busy_with_few_flows() {
        let link = LinkSpec { rate_bits_per_s: 10, latency_ps: 0, cable_count: 1 };
        let switches = ["a", "b", "c"].map(String::from).to_vec();
        let links = vec![(0, 1, 1), (1, 2, 10)];
        let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
        let network = Network::new(&graph, 2, vec![1, 1, 3], &[]);
        let mut load = Load::new(&network);
        assert_eq!(load.of(&network, 0, 0), 0);
        let tree = RootedTree::from_links(&adjacency(&network, &[0, 1]), 0);
        load.add(&network, &tree);
        // Four flows over the first link, three over the second, which is ten times as fast.
        assert_eq!([load.of(&network, 0, 0), load.of(&network, 1, 1)], [4 * 2560, 3 * 256]);
        assert_eq!([load.of(&network, 0, 1), load.of(&network, 1, 2)], [0, 0]);
    }
}
