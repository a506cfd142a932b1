//! What a solution is worth: routed pairs, path lengths, flows on every channel, and whether it can deadlock.
//!
//! The dependencies of all VLANs are judged together, because 802.3x pauses a link and not a VLAN.

use crate::deadlock::{Dependencies, Lane};
use crate::graph::{ChannelId, LinkId, SwitchId};

use super::network::{NONE, Network};
use super::solution::{Choice, Senders, Solution};
use super::tree::{RootedTree, adjacency};

/// Figures of a solution. Flows: one from each host interface to each other one at another switch.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation {
    /// Whether it cannot deadlock. [`cycle`] shows why it can.
    pub(crate) is_free: bool,
    /// Dependencies among channels.
    pub(crate) dependency_count: usize,
    /// Flows on every channel between switches.
    pub(crate) flows: Vec<u64>,
    /// Flows between switches that have a route.
    pub(crate) routed_flows: u64,
    /// Most switches on a route, both ends counted; 1 if all hosts are at one switch.
    pub(crate) diameter_switches: u32,
    /// Links crossed by all flows together; by shortest paths.
    pub(crate) hops: u64,
    pub(crate) hops_min: u64,
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
        pressure(network, &self.flows)
    }
}

/// Flows for their rate on the busiest channel.
pub(crate) fn pressure(network: &Network, flows: &[u64]) -> u128 {
    let channels = flows.iter().enumerate();
    channels.map(|(channel, &flows)| pressure_of(network, channel, flows)).max().unwrap_or(0)
}

/// Flows of one channel for its rate.
pub(crate) fn pressure_of(network: &Network, channel: usize, flows: u64) -> u128 {
    scaled(flows, network.rate(channel as u32 / 2))
}

fn scaled(flows: u64, rate_bits_per_s: u64) -> u128 {
    (u128::from(flows) << 64) / u128::from(rate_bits_per_s.max(1))
}

/// Judges a solution.
pub(crate) fn evaluate(network: &Network, solution: &Solution) -> Evaluation {
    let mut dependencies = no_dependencies(network);
    let mut evaluation = Evaluation {
        is_free: true,
        dependency_count: 0,
        flows: vec![0; 2 * network.link_count()],
        routed_flows: 0,
        diameter_switches: u32::from(network.sources().next().is_some()),
        hops: 0,
        hops_min: network.shortest().hops,
    };
    let mut depend = |held, wanted| add(&mut dependencies, held, wanted);
    walks(network, solution, |senders, tree, needed| {
        tally(network, &mut evaluation, tree, senders, needed);
        chain(network, tree, needed, |held, wanted, _| depend(held, wanted));
    });
    pair_paths(network, solution, |route| {
        tally_path(network, &mut evaluation, route);
        route.channels.windows(2).for_each(|two| depend(two[0], two[1]));
    });
    evaluation.is_free = dependencies.is_free();
    evaluation.dependency_count = dependencies.count();
    evaluation
}

/// The cycle by which a solution can deadlock, with a route for each of its steps; empty if it cannot.
pub(crate) fn cycle(network: &Network, solution: &Solution) -> Vec<Witness> {
    let mut dependencies = no_dependencies(network);
    chains(network, solution, |held, wanted, _| add(&mut dependencies, held, wanted));
    let Some(lanes) = dependencies.find_cycle() else { return Vec::new() };
    witnesses(network, solution, &lanes)
}

fn no_dependencies(network: &Network) -> Dependencies {
    Dependencies::new(2 * network.link_count(), 1)
}

fn add(dependencies: &mut Dependencies, held: ChannelId, wanted: ChannelId) {
    dependencies.add(Lane { channel: held, vc: 0 }, Lane { channel: wanted, vc: 0 });
}

/// Hosts of a switch that send on a VLAN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) switch: u32,
    pub(crate) hosts: u32,
}

/// The users of each VLAN, with a VLAN by source.
pub(crate) fn users(network: &Network, solution: &Solution) -> Vec<Vec<User>> {
    let mut users: Vec<Vec<User>> = vec![Vec::new(); solution.trees.len()];
    if let Choice::BySource(senders) = &solution.choice {
        for switch in network.sources() {
            for &Senders { vlan, hosts } in &senders[switch as usize] {
                users[vlan as usize].push(User { switch, hosts });
            }
        }
    }
    users
}

/// With a VLAN by source: calls `visit` with the VLAN and number of each source's hosts that share one,
/// their tree, and for each switch the hosts reached there and below.
fn walks(network: &Network, solution: &Solution, mut visit: impl FnMut(Senders, &RootedTree, &[Needed])) {
    for (vlan, (links, users)) in solution.trees.iter().zip(&users(network, solution)).enumerate() {
        walk(network, links, users, |user, tree, needed| {
            visit(Senders { vlan: vlan as u32, hosts: user.hosts }, tree, needed);
        });
    }
}

/// [`walks`] for one VLAN.
fn walk(
    network: &Network,
    links: &[u32],
    users: &[User],
    mut visit: impl FnMut(User, &RootedTree, &[Needed]),
) {
    if users.is_empty() {
        return;
    }
    let adjacency = adjacency(network, links);
    let mut needed = Vec::new();
    for &user in users {
        let source = user.switch;
        let tree = RootedTree::from_links(&adjacency, source);
        needed.clear();
        needed.resize(network.switch_count(), Needed { here: 0, below: 0, example: NONE });
        for switch in network.sources().filter(|&switch| switch != source) {
            let here = u64::from(network.weight(switch));
            needed[switch as usize] = Needed { here, below: here, example: switch };
        }
        for &switch in tree.order[1..].iter().rev() {
            let below = needed[switch as usize];
            let parent = tree.parents[switch as usize].to as usize;
            needed[parent].below += below.below;
            if needed[parent].example == NONE {
                needed[parent].example = below.example;
            }
        }
        visit(user, &tree, &needed);
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

/// The route of one pair of switches.
struct PairPath<'a> {
    vlan: u32,
    from: u32,
    to: u32,
    /// Channels in order.
    channels: &'a [ChannelId],
}

/// With a VLAN by pair: calls `visit` with the route of every ordered pair. A tree is rooted once, and a
/// route climbs from both ends to where they meet.
fn pair_paths(network: &Network, solution: &Solution, mut visit: impl FnMut(&PairPath<'_>)) {
    let Choice::ByPair(vlans) = &solution.choice else { return };
    let mut pairs: Vec<Vec<(u32, u32)>> = vec![Vec::new(); solution.trees.len()];
    for from in network.sources() {
        let row = &vlans[from as usize * network.switch_count()..][..network.switch_count()];
        for to in network.sources().filter(|&to| to != from && row[to as usize] != NONE) {
            pairs[row[to as usize] as usize].push((from, to));
        }
    }
    for (vlan, pairs) in pairs.iter().enumerate() {
        let Some(&(root, _)) = pairs.first() else { continue };
        let tree = RootedTree::from_links(&adjacency(network, &solution.trees[vlan]), root);
        let depths = tree.depths();
        let (mut channels, mut down) = (Vec::new(), Vec::new());
        for &(from, to) in pairs {
            channels.clear();
            down.clear();
            let (mut near, mut far) = (from, to);
            while near != far {
                if depths[near as usize] >= depths[far as usize] {
                    let parent = tree.parents[near as usize];
                    channels.push(network.channel(parent.link, near));
                    near = parent.to;
                } else {
                    let parent = tree.parents[far as usize];
                    down.push(network.channel(parent.link, parent.to));
                    far = parent.to;
                }
            }
            channels.extend(down.iter().rev());
            visit(&PairPath { vlan: vlan as u32, from, to, channels: &channels });
        }
    }
}

fn tally(
    network: &Network,
    evaluation: &mut Evaluation,
    tree: &RootedTree,
    senders: Senders,
    needed: &[Needed],
) {
    let hosts = u64::from(senders.hosts);
    let depths = tree.depths();
    for &switch in &tree.order[1..] {
        let Needed { here, below, .. } = needed[switch as usize];
        let parent = tree.parents[switch as usize];
        evaluation.flows[network.channel(parent.link, parent.to).index()] += hosts * below;
        if here > 0 {
            let depth = depths[switch as usize];
            evaluation.routed_flows += hosts * here;
            evaluation.hops += hosts * here * u64::from(depth);
            evaluation.diameter_switches = evaluation.diameter_switches.max(u32::from(depth) + 1);
        }
    }
}

fn tally_path(network: &Network, evaluation: &mut Evaluation, route: &PairPath<'_>) {
    let flows = u64::from(network.weight(route.from)) * u64::from(network.weight(route.to));
    route.channels.iter().for_each(|channel| evaluation.flows[channel.index()] += flows);
    evaluation.routed_flows += flows;
    evaluation.hops += flows * route.channels.len() as u64;
    evaluation.diameter_switches = evaluation.diameter_switches.max(route.channels.len() as u32 + 1);
}

/// Calls `visit` with every two channels that routes from a tree's root take one after the other, and with a
/// switch such a route leads to.
fn chain(
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

/// Calls `visit` with every two channels that a route takes one after the other, and with such a route's VLAN
/// and ends.
fn chains(
    network: &Network,
    solution: &Solution,
    mut visit: impl FnMut(ChannelId, ChannelId, (u32, u32, u32)),
) {
    walks(network, solution, |senders, tree, needed| {
        chain(network, tree, needed, |held, wanted, destination| {
            visit(held, wanted, (senders.vlan, tree.root(), destination));
        });
    });
    pair_paths(network, solution, |route| {
        for two in route.channels.windows(2) {
            visit(two[0], two[1], (route.vlan, route.from, route.to));
        }
    });
}

fn witnesses(network: &Network, solution: &Solution, lanes: &[Lane]) -> Vec<Witness> {
    let steps: Vec<(ChannelId, ChannelId)> =
        (0..lanes.len()).map(|i| (lanes[i].channel, lanes[(i + 1) % lanes.len()].channel)).collect();
    let mut found: Vec<Option<Witness>> = vec![None; steps.len()];
    chains(network, solution, |held, wanted, (vlan, source, destination)| {
        for (step, found) in steps.iter().zip(&mut found) {
            if found.is_none() && *step == (held, wanted) {
                let [source, destination] = [source, destination].map(SwitchId);
                *found = Some(Witness { held, vlan, source, destination });
            }
        }
    });
    found.into_iter().flatten().collect()
}

/// The ends of a channel, as switches.
pub(crate) fn channel_switches(network: &Network, channel: ChannelId) -> (LinkId, SwitchId, SwitchId) {
    let link = channel.link();
    let [a, b] = network.ends(link.0).map(SwitchId);
    if channel == link.channel_from(0) { (link, a, b) } else { (link, b, a) }
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests::Parts;
    use super::super::paths::minimal::{Spread, balanced};
    use super::super::solution::by_source;
    use super::*;
    use crate::graph::LinkSpec;
    use crate::topology::{Explicit, Topology};

    #[test]
    fn the_busiest_channel_is_the_one_with_most_flows_for_its_rate() {
        let link = LinkSpec { rate_bits_per_s: 10, latency_ps: 0, cable_count: 1 };
        let switches = ["a", "b", "c"].map(String::from).to_vec();
        // Of one cable, of four, of two.
        let links = vec![(0, 1, 1), (1, 2, 4), (0, 2, 2)];
        let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
        let network = Network::new(&graph, 3, vec![1; 3], &[]);
        let busiest = |flows: [u64; 6]| {
            let evaluation = Evaluation {
                is_free: true,
                dependency_count: 0,
                flows: flows.to_vec(),
                routed_flows: 0,
                diameter_switches: 1,
                hops: 0,
                hops_min: 0,
            };
            evaluation.busiest(&network).map(|(channel, flows)| (channel.0, flows))
        };
        assert_eq!(busiest([5, 1, 12, 12, 8, 8]), Some((0, 5)));
        assert_eq!(busiest([2, 3, 8, 13, 6, 6]), Some((3, 13)));
        assert_eq!(busiest([2, 2, 12, 12, 6, 7]), Some((5, 7)));
        // Of equally busy ones the first.
        assert_eq!(busiest([3, 3, 12, 12, 6, 6]), Some((0, 3)));
    }

    /// Trees that a spanning tree protocol holds reach every switch.
    #[test]
    fn switches_without_hosts_are_at_the_end_of_no_route() {
        let network = Parts::of(&[(0, 1), (1, 2), (2, 3)], &[2, 1, 0, 0]).network(&[]);
        let own = |hosts| vec![Senders { vlan: 0, hosts }];
        let solution = Solution {
            method: String::new(),
            settings: Vec::new(),
            is_repaired: false,
            trees: vec![vec![0, 1, 2]],
            choice: Choice::BySource(vec![own(2), own(1), vec![], vec![]]),
            vlan_count_min: 1,
        };
        let evaluation = evaluate(&network, &solution);
        assert_eq!((evaluation.diameter_switches, evaluation.routed_flows, evaluation.hops), (2, 4, 4));
        assert_eq!((evaluation.hops_min, evaluation.stretch()), (4, 1.0));
        assert_eq!(evaluation.flows, [2, 2, 0, 0, 0, 0]);
        let alone = Parts::of(&[], &[3]).network(&[]);
        let evaluation = evaluate(&alone, &by_source(&alone, balanced(&alone, Spread::ByLoad)));
        assert_eq!((evaluation.diameter_switches, evaluation.stretch()), (1, 1.0));
    }

    #[test]
    fn each_step_of_a_cycle_is_shown_by_a_route_that_takes_it() {
        let network = Parts::of(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], &[1; 5]).network(&[]);
        let solution = by_source(&network, balanced(&network, Spread::ByLoad));
        let steps = cycle(&network, &solution);
        assert_eq!(steps.len(), 5);
        for (at, step) in steps.iter().enumerate() {
            let next = steps[(at + 1) % steps.len()].held;
            let tree = &solution.trees[step.vlan as usize];
            let rooted = RootedTree::from_links(&adjacency(&network, tree), step.source.0);
            let mut way = Vec::new();
            let mut switch = step.destination.0;
            while switch != step.source.0 {
                let parent = rooted.parents[switch as usize];
                way.insert(0, network.channel(parent.link, parent.to));
                switch = parent.to;
            }
            assert!(way.windows(2).any(|two| two == [step.held, next]), "{step:?}: {way:?}");
        }
    }
}
