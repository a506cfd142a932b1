//! From paths to VLANs: which sources, or which pairs of switches, share a tree.

use std::collections::BTreeMap;

use super::network::Network;
use super::paths::Paths;
use super::tree::RootedTree;

/// VLANs and their users, before they have identifiers.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    /// How the paths were chosen, in words.
    pub(crate) method: String,
    /// Lines of `[plan]` that give this.
    pub(crate) settings: Vec<String>,
    /// Whether it is the whole machine's, repaired after a failure.
    pub(crate) is_repaired: bool,
    /// Links of each VLAN, ascending.
    pub(crate) trees: Vec<Vec<u32>>,
    pub(crate) choice: Choice,
    /// No fewer VLANs are possible with such paths, as far as is known: 1 where that is not looked into.
    pub(crate) vlan_count_min: usize,
}

/// Which VLAN, as an index into [`Solution::trees`].
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// By host port: for each switch the VLANs that its hosts send on, in the order in which they are dealt
    /// to them; together as many hosts as the switch has.
    BySource(Vec<Vec<Senders>>),
    /// By unordered pair of switches, at `a * switch_count + b`; symmetric; `NONE` where one has no
    /// hosts.
    ByPair(Vec<u32>),
}

/// Hosts of one switch that send on one VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Senders {
    pub(crate) vlan: u32,
    /// How many of the switch's host interfaces.
    pub(crate) hosts: u32,
}

/// A tree and how many of its root's host interfaces send along it.
#[derive(Debug, Clone)]
pub(crate) struct SourceTree {
    pub(crate) tree: RootedTree,
    pub(crate) hosts: u32,
}

/// One VLAN a source; sources whose trees together are a tree share it (the paper, after its reference 12).
pub(crate) fn by_source(network: &Network, paths: Paths) -> Solution {
    let method = format!("{}, one VLAN per source switch", paths.method);
    let settings = paths.settings.clone();
    by_host_port(network, method, settings, &all_hosts(network, paths))
}

/// All hosts of a source switch on its one tree.
pub(crate) fn all_hosts(network: &Network, paths: Paths) -> Vec<SourceTree> {
    let all = |tree: RootedTree| SourceTree { hosts: network.weight(tree.root()), tree };
    paths.trees.into_iter().map(all).collect()
}

/// One VLAN a tree; trees that together are a tree share it.
pub(crate) fn by_host_port(
    network: &Network,
    method: String,
    settings: Vec<String>,
    trees: &[SourceTree],
) -> Solution {
    sharing(network, method, settings, trees, false)
}

/// [`by_host_port`], where it matters which hosts take which tree: the trees of a switch are for its hosts
/// in their
/// order.
pub(crate) fn in_order_of_hosts(
    network: &Network,
    method: String,
    settings: Vec<String>,
    trees: &[SourceTree],
) -> Solution {
    sharing(network, method, settings, trees, true)
}

fn sharing(
    network: &Network,
    method: String,
    settings: Vec<String>,
    trees: &[SourceTree],
    keeps_order: bool,
) -> Solution {
    let mut senders: Vec<Vec<Senders>> = vec![Vec::new(); network.switch_count()];
    // Trees share a VLAN only by being the same. Each joins all switches with hosts and has no other ends; so
    // if two have no cycle together, both have the one way that there is between any two of these.
    let mut same: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut vlans: Vec<Vec<u32>> = Vec::new();
    for SourceTree { tree, hosts } in trees {
        let vlan = *same.entry(tree.links()).or_insert_with_key(|links| {
            vlans.push(links.clone());
            vlans.len() as u32 - 1
        });
        let own = &mut senders[tree.root() as usize];
        let first = if keeps_order { own.len().saturating_sub(1) } else { 0 };
        match own[first..].iter_mut().find(|senders| senders.vlan == vlan) {
            Some(senders) => senders.hosts += hosts,
            None => own.push(Senders { vlan, hosts: *hosts }),
        }
    }
    let is_spanning = network.alive().all(|switch| network.weight(switch) > 0);
    let vlan_count_min = if is_spanning { vlans.len() } else { 1 };
    Solution {
        method,
        settings,
        is_repaired: false,
        trees: vlans,
        choice: Choice::BySource(senders),
        vlan_count_min,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::adjacency;
    use super::*;
    use crate::description::Machine;

    #[test]
    fn hosts_take_trees_in_their_order_where_that_matters() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 3\n\
                    switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 4\n";
        let network = Network::of(&Machine::parse("m.toml", text).unwrap(), &[]);
        let tree = |links: &[u32], hosts| SourceTree {
            tree: RootedTree::from_links(&adjacency(&network, links), 0),
            hosts,
        };
        let trees = [tree(&[0, 1], 1), tree(&[1, 2], 1), tree(&[1, 2], 1), tree(&[0, 1], 1)];
        let dealt = |solution: Solution| {
            let Choice::BySource(senders) = solution.choice else { panic!("by pairs") };
            (solution.trees.len(), senders[0].iter().map(|own| (own.vlan, own.hosts)).collect::<Vec<_>>())
        };
        let in_order = in_order_of_hosts(&network, String::new(), Vec::new(), &trees);
        assert_eq!(dealt(in_order), (2, vec![(0, 1), (1, 2), (0, 1)]));
        let in_any = by_host_port(&network, String::new(), Vec::new(), &trees);
        assert_eq!(dealt(in_any), (2, vec![(0, 2), (1, 2)]));
    }
}
