//! From paths to VLANs: which sources, or which pairs of switches, share a tree.

use std::collections::BTreeMap;

use super::network::Network;
use super::paths::Paths;
use super::tree::{Parts, RootedTree};

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
    /// No fewer VLANs are possible with such paths, as far as is known.
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
    let mut same: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut shared = Shared::new(network);
    for SourceTree { tree, hosts } in trees {
        let vlan = *same.entry(tree.links()).or_insert_with_key(|links| shared.place(network, links));
        let own = &mut senders[tree.root() as usize];
        let first = if keeps_order { own.len().saturating_sub(1) } else { 0 };
        match own[first..].iter_mut().find(|senders| senders.vlan == vlan) {
            Some(senders) => senders.hosts += hosts,
            None => own.push(Senders { vlan, hosts: *hosts }),
        }
    }
    // Spanning trees share only by being the same, and those do; pruned ones might be put together better.
    let vlan_count_min = if shared.may_complete { 1 } else { shared.trees.len() };
    Solution {
        method,
        settings,
        is_repaired: false,
        trees: shared.trees,
        choice: Choice::BySource(senders),
        vlan_count_min,
    }
}

/// VLANs so far, each with its links as bits: most pairs of trees share too few links to be one tree, which
/// counting bits shows quickly.
struct Shared {
    trees: Vec<Vec<u32>>,
    bits: Vec<Vec<u64>>,
    /// Trees that reach every switch can only share by being the same; only pruned ones can complete each
    /// other.
    may_complete: bool,
    link_count_max: usize,
}

impl Shared {
    fn new(network: &Network) -> Shared {
        Shared {
            trees: Vec::new(),
            bits: Vec::new(),
            may_complete: network.alive().any(|switch| network.weight(switch) == 0),
            link_count_max: network.alive().count().saturating_sub(1),
        }
    }

    /// The VLAN that these links become part of.
    fn place(&mut self, network: &Network, links: &[u32]) -> u32 {
        let mut bits = vec![0_u64; network.link_count().div_ceil(64)];
        links.iter().for_each(|&link| bits[link as usize / 64] |= 1 << (link % 64));
        let partner = (0..self.trees.len()).filter(|_| self.may_complete).find(|&vlan| {
            let words = self.bits[vlan].iter().zip(&bits);
            let union: u32 = words.map(|(a, b)| (a | b).count_ones()).sum();
            union as usize <= self.link_count_max && is_forest(network, self.trees[vlan].iter().chain(links))
        });
        let Some(vlan) = partner else {
            self.trees.push(links.to_vec());
            self.bits.push(bits);
            return self.trees.len() as u32 - 1;
        };
        let tree = &mut self.trees[vlan];
        tree.extend_from_slice(links);
        tree.sort_unstable();
        tree.dedup();
        self.bits[vlan].iter_mut().zip(&bits).for_each(|(all, new)| *all |= new);
        vlan as u32
    }
}

/// Whether the links, some of which may come twice, have no cycle.
fn is_forest<'a>(network: &Network, links: impl Iterator<Item = &'a u32>) -> bool {
    let mut parts = Parts::new(network.switch_count());
    let mut seen = vec![false; network.link_count()];
    links
        .copied()
        .all(|link| std::mem::replace(&mut seen[link as usize], true) || parts.join(network.ends(link)))
}
