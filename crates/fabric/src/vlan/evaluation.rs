//! What a solution is worth: routed pairs, path lengths, flows on every channel, and whether it can deadlock.
//!
//! The dependencies of all VLANs are judged together, because 802.3x pauses a link and not a VLAN.

use crate::deadlock::{Dependencies, Lane, Verdict};
use crate::graph::{ChannelId, LinkId, SwitchId};

use super::network::{NONE, Network};
use super::solution::{Choice, Solution};
use super::tree::{RootedTree, adjacency};

/// Figures of a solution. Flows: one from each host interface to each other one at another switch.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation {
    pub(crate) verdict: Verdict,
    /// A route for every step of the verdict's cycle.
    pub(crate) witnesses: Vec<Witness>,
    /// Flows on every channel between switches.
    pub(crate) flows: Vec<u64>,
    /// Ordered pairs of switches with hosts that have a route, of so many.
    pub(crate) routed_pairs: u64,
    pub(crate) pairs: u64,
    /// Most switches on a route, both ends counted; 1 if all hosts are at one switch.
    pub(crate) diameter_switches: u32,
    /// Links crossed by all flows together; by shortest paths.
    pub(crate) hops: u64,
    pub(crate) hops_min: u64,
    /// Number of flows.
    pub(crate) flow_count: u64,
}

/// A route that holds one channel of a cycle and waits for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) held: ChannelId,
    pub(crate) vlan: u32,
    pub(crate) source: SwitchId,
    pub(crate) destination: SwitchId,
}

impl Evaluation {
    pub(crate) fn is_free(&self) -> bool {
        self.verdict.is_free()
    }

    /// Path length over the shortest: 1.0 is minimal.
    pub(crate) fn stretch(&self) -> f64 {
        if self.hops_min == 0 { 1.0 } else { self.hops as f64 / self.hops_min as f64 }
    }

    /// The busiest channel: most flows for its rate.
    pub(crate) fn busiest(&self, network: &Network) -> Option<(ChannelId, u64)> {
        (0..self.flows.len())
            .rev()
            .max_by_key(|&channel| scaled(self.flows[channel], network.rate(channel as u32 / 2)))
            .map(|channel| (ChannelId(channel as u32), self.flows[channel]))
    }

    /// Flows for their rate on the busiest channel, for comparing.
    pub(crate) fn pressure(&self, network: &Network) -> u128 {
        self.busiest(network).map_or(0, |(channel, flows)| scaled(flows, network.rate(channel.link().0)))
    }
}

fn scaled(flows: u64, rate_bits_per_s: u64) -> u128 {
    (u128::from(flows) << 64) / u128::from(rate_bits_per_s.max(1))
}

/// Judges a solution.
pub(crate) fn evaluate(network: &Network, solution: &Solution) -> Evaluation {
    let mut dependencies = Dependencies::new(2 * network.link_count(), 1);
    let mut evaluation = Evaluation {
        verdict: Verdict::Free { dependency_count: 0 },
        witnesses: Vec::new(),
        flows: vec![0; 2 * network.link_count()],
        routed_pairs: 0,
        pairs: 0,
        diameter_switches: u32::from(network.sources().next().is_some()),
        hops: 0,
        hops_min: 0,
        flow_count: 0,
    };
    walks(network, solution, |_, tree, needed| {
        tally(network, &mut evaluation, tree, needed);
        chains(network, tree, needed, |held, wanted, _| {
            dependencies.add(Lane { channel: held, vc: 0 }, Lane { channel: wanted, vc: 0 });
        });
    });
    shortest(network, &mut evaluation);
    evaluation.verdict = Verdict::of(&dependencies);
    if let Verdict::Cycle(lanes) = &evaluation.verdict {
        evaluation.witnesses = witnesses(network, solution, lanes);
    }
    evaluation
}

/// Calls `visit` with every source's tree of every VLAN it uses, and for each switch the hosts reached there and below
/// it by routes from that source on that VLAN.
fn walks(network: &Network, solution: &Solution, mut visit: impl FnMut(u32, &RootedTree, &[Needed])) {
    let mut users = users(network, solution);
    for (vlan, links) in solution.trees.iter().enumerate() {
        let adjacency = adjacency(network, links);
        users[vlan].sort_unstable();
        for group in users[vlan].chunk_by(|a, b| a.0 == b.0) {
            let tree = RootedTree::from_links(&adjacency, group[0].0);
            let mut needed = vec![Needed::default(); network.switch_count()];
            for &(_, destination) in group {
                match destination {
                    // All that have hosts.
                    NONE => network.sources().for_each(|d| needed[d as usize] = Needed::at(network, d)),
                    d => needed[d as usize] = Needed::at(network, d),
                }
            }
            needed[tree.root() as usize] = Needed::default();
            for &switch in tree.order[1..].iter().rev() {
                let below = needed[switch as usize];
                let parent = tree.parents[switch as usize].to as usize;
                needed[parent].below += below.below;
                if needed[parent].example == NONE {
                    needed[parent].example = below.example;
                }
            }
            visit(vlan as u32, &tree, &needed);
        }
    }
}

/// Hosts that routes reach at and below a switch of a tree.
#[derive(Debug, Clone, Copy)]
struct Needed {
    /// At the switch.
    here: u64,
    /// At it and below.
    below: u64,
    /// A switch with such hosts.
    example: u32,
}

impl Default for Needed {
    fn default() -> Needed {
        Needed { here: 0, below: 0, example: NONE }
    }
}

impl Needed {
    fn at(network: &Network, switch: u32) -> Needed {
        let here = u64::from(network.weight(switch));
        Needed { here, below: here, example: switch }
    }
}

/// Sources of each VLAN with their destinations; a destination of [`NONE`] stands for all.
fn users(network: &Network, solution: &Solution) -> Vec<Vec<(u32, u32)>> {
    let mut users = vec![Vec::new(); solution.trees.len()];
    for source in network.sources() {
        match &solution.choice {
            Choice::BySource(vlans) => users[vlans[source as usize] as usize].push((source, NONE)),
            Choice::ByPair(vlans) => {
                let row = &vlans[source as usize * network.switch_count()..][..network.switch_count()];
                for destination in network.sources().filter(|&d| d != source && row[d as usize] != NONE) {
                    users[row[destination as usize] as usize].push((source, destination));
                }
            }
        }
    }
    users
}

fn tally(network: &Network, evaluation: &mut Evaluation, tree: &RootedTree, needed: &[Needed]) {
    let hosts = u64::from(network.weight(tree.root()));
    let depths = tree.depths();
    for &switch in &tree.order[1..] {
        let Needed { here, below, .. } = needed[switch as usize];
        let parent = tree.parents[switch as usize];
        evaluation.flows[network.channel(parent.link, parent.to).index()] += hosts * below;
        if here > 0 {
            let depth = depths[switch as usize];
            evaluation.routed_pairs += 1;
            evaluation.hops += hosts * here * u64::from(depth);
            evaluation.diameter_switches = evaluation.diameter_switches.max(u32::from(depth) + 1);
        }
    }
}

/// Calls `visit` with every two channels that a route takes one after the other, and a destination beyond.
fn chains(
    network: &Network,
    tree: &RootedTree,
    needed: &[Needed],
    mut visit: impl FnMut(ChannelId, ChannelId, u32),
) {
    for &switch in &tree.order[1..] {
        let parent = tree.parents[switch as usize];
        if parent.to == tree.root() || needed[switch as usize].below == 0 {
            continue;
        }
        let before = tree.parents[parent.to as usize];
        let held = network.channel(before.link, before.to);
        let wanted = network.channel(parent.link, parent.to);
        visit(held, wanted, needed[switch as usize].example);
    }
}

fn shortest(network: &Network, evaluation: &mut Evaluation) {
    for source in network.sources() {
        let distances = network.distances(source);
        let hosts = u64::from(network.weight(source));
        for destination in network.sources().filter(|&d| d != source) {
            let flows = hosts * u64::from(network.weight(destination));
            evaluation.pairs += 1;
            evaluation.flow_count += flows;
            evaluation.hops_min += flows * u64::from(distances[destination as usize]);
        }
    }
}

fn witnesses(network: &Network, solution: &Solution, lanes: &[Lane]) -> Vec<Witness> {
    let steps: Vec<(ChannelId, ChannelId)> =
        (0..lanes.len()).map(|i| (lanes[i].channel, lanes[(i + 1) % lanes.len()].channel)).collect();
    let mut found: Vec<Option<Witness>> = vec![None; steps.len()];
    walks(network, solution, |vlan, tree, needed| {
        chains(network, tree, needed, |held, wanted, destination| {
            for (step, found) in steps.iter().zip(&mut found) {
                if found.is_none() && *step == (held, wanted) {
                    let source = SwitchId(tree.root());
                    *found = Some(Witness { held, vlan, source, destination: SwitchId(destination) });
                }
            }
        });
    });
    found.into_iter().flatten().collect()
}

/// The ends of a channel, as switches.
pub(crate) fn channel_switches(network: &Network, channel: ChannelId) -> (LinkId, SwitchId, SwitchId) {
    let link = channel.link();
    let [a, b] = network.ends(link.0).map(SwitchId);
    if channel == link.channel_from(0) { (link, a, b) } else { (link, b, a) }
}
