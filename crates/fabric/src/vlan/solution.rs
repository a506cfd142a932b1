//! From paths to VLANs: which sources, or which pairs of switches, share a tree.

use std::collections::BTreeMap;

use super::network::{NONE, Network};
use super::paths::Paths;
use super::random::Random;
use super::tree::{Parts, RootedTree, completed};

/// VLANs and who uses them, before they have identifiers.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    /// How the paths were chosen, in words.
    pub(crate) method: String,
    /// What to write into `[plan]` to get this, line by line.
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
    /// By unordered pair of switches, at `a * switch_count + b`; symmetric; [`NONE`] where one has no hosts.
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

/// VLANs so far, each with its links as bits: most pairs of trees share too few links to be one tree, which counting
/// bits shows quickly.
struct Shared {
    trees: Vec<Vec<u32>>,
    bits: Vec<Vec<u64>>,
    /// Trees that reach every switch can only share by being the same; only pruned ones can complete each other.
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

/// Up to this many sources, pairs are packed into VLANs one by one.
const PACKING_SOURCES_MAX: usize = 64;
/// Orders in which packing is tried.
const PACKING_STARTS: usize = 12;

/// For hosts that tag: a VLAN for every unordered pair of switches, on the path from the lower one to the higher, both
/// ways. Small networks: pairs are packed first-fit into as few trees as a few orders give. Large ones: the VLAN of the
/// pair's lower switch.
pub(crate) fn by_pair(network: &Network, paths: &Paths, seed: u64) -> Solution {
    let count = network.switch_count();
    let mut packed = if paths.trees.len() <= PACKING_SOURCES_MAX {
        pack(network, paths, seed)
    } else {
        by_lower_switch(network, paths)
    };
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
        method: format!("{}, one VLAN per pair of switches", paths.method),
        settings: [paths.settings.as_slice(), &["tagging = \"host\"".into()]].concat(),
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

fn pack(network: &Network, paths: &Paths, seed: u64) -> Packed {
    let mut pairs: Vec<(u32, u32, Vec<u32>)> = Vec::new();
    for tree in &paths.trees {
        for high in network.sources().filter(|&high| high > tree.root()) {
            pairs.push((tree.root(), high, path_to(tree, high)));
        }
    }
    // Long paths first: they fit in fewest places.
    pairs.sort_by_key(|(low, high, path)| (std::cmp::Reverse(path.len()), *low, *high));
    let mut random = Random::new(seed);
    let mut best = first_fit(network, &pairs);
    for _ in 1..PACKING_STARTS {
        random.shuffle(&mut pairs);
        let packed = first_fit(network, &pairs);
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

fn first_fit(network: &Network, pairs: &[(u32, u32, Vec<u32>)]) -> Packed {
    let count = network.switch_count();
    let mut packed = Packed { trees: Vec::new(), vlans: vec![NONE; count * count] };
    let mut parts: Vec<Parts> = Vec::new();
    let mut joined = Parts::new(count);
    for (low, high, path) in pairs {
        let fitting = (0..packed.trees.len()).find(|&vlan| {
            let new = |link: &&u32| packed.trees[vlan].binary_search(link).is_err();
            joined.clone_from(&parts[vlan]);
            path.iter().filter(new).all(|&link| joined.join(network.ends(link)))
        });
        let vlan = fitting.unwrap_or_else(|| {
            packed.trees.push(Vec::new());
            parts.push(Parts::new(count));
            packed.trees.len() - 1
        });
        for &link in path {
            if let Err(place) = packed.trees[vlan].binary_search(&link) {
                packed.trees[vlan].insert(place, link);
                parts[vlan].join(network.ends(link));
            }
        }
        for at in [*low as usize * count + *high as usize, *high as usize * count + *low as usize] {
            packed.vlans[at] = vlan as u32;
        }
    }
    packed
}
