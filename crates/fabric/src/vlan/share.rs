//! Load of one VLAN on the network, for changing a solution VLAN by VLAN.
//!
//! A flow crosses a link of a tree if its ends are on different sides of it. So the flows on a channel are
//! the hosts that send on this side times the hosts that receive on that side, and one pass over the tree
//! finds them all, however many senders there are.

use crate::deadlock::{Dependencies, Lane};
use crate::graph::ChannelId;

use super::evaluation::{User, pressure_of};
use super::network::{Arc, Network};
use super::tree::{RootedTree, adjacency};

/// Load of one VLAN's users on the network.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) loads: Loads,
    pub(crate) waits: Waits,
}

/// Flows of one VLAN's users.
#[derive(Debug, Clone)]
pub(crate) struct Loads {
    /// On every channel.
    pub(crate) flows: Vec<u64>,
    /// Links crossed: each flow crosses a link once, so these are the flows on all of them.
    pub(crate) hops: u64,
}

/// Two channels that a route of the VLAN takes one after the other, each two once.
pub(crate) type Waits = Vec<(ChannelId, ChannelId)>;

/// The share of a VLAN with these links and these users.
pub(crate) fn share(network: &Network, links: &[u32], users: &[User]) -> Share {
    Share { loads: loads(network, links, users), waits: waits(network, links, users) }
}

/// The flows of a VLAN with these links and these users.
pub(crate) fn loads(network: &Network, links: &[u32], users: &[User]) -> Loads {
    let mut loads = Loads { flows: vec![0; 2 * network.link_count()], hops: 0 };
    let Some(tree) = Sides::new(network, links, users) else { return loads };
    for &switch in &tree.rooted.order[1..] {
        let parent = tree.rooted.parents[switch as usize];
        let (below, above) = (tree.beyond(parent.to, switch), tree.beyond(switch, parent.to));
        for (from, flows) in
            [(parent.to, above.senders * below.receivers), (switch, below.senders * above.receivers)]
        {
            loads.flows[network.channel(parent.link, from).index()] += flows;
            loads.hops += flows;
        }
    }
    loads
}

/// The channels of a VLAN with these links and these users that wait for each other.
pub(crate) fn waits(network: &Network, links: &[u32], users: &[User]) -> Waits {
    let mut waits = Waits::new();
    let Some(tree) = Sides::new(network, links, users) else { return waits };
    let adjacency = adjacency(network, links);
    for &at in &tree.rooted.order {
        let arcs = || adjacency.of(at).iter().map(|&arc| (arc, tree.beyond(at, arc.to)));
        let from: Vec<Arc> = arcs().filter(|(_, hosts)| hosts.senders > 0).map(|(arc, _)| arc).collect();
        let to: Vec<Arc> = arcs().filter(|(_, hosts)| hosts.receivers > 0).map(|(arc, _)| arc).collect();
        for held in &from {
            for wanted in to.iter().filter(|wanted| wanted.link != held.link) {
                waits.push((network.channel(held.link, held.to), network.channel(wanted.link, at)));
            }
        }
    }
    waits
}

/// Whether VLANs with these dependencies cannot deadlock together.
pub(crate) fn are_free<'a>(network: &Network, all: impl Iterator<Item = &'a Waits>) -> bool {
    let mut dependencies = Dependencies::new(2 * network.link_count(), 1);
    for &(held, wanted) in all.flatten() {
        dependencies.add(Lane { channel: held, vc: 0 }, Lane { channel: wanted, vc: 0 });
    }
    dependencies.is_free()
}

/// Hosts of a part of a tree.
#[derive(Debug, Clone, Copy, Default)]
struct Hosts {
    /// Those that send on the VLAN.
    senders: u64,
    /// All.
    receivers: u64,
}

/// A tree with the hosts at and below each of its switches.
struct Sides {
    rooted: RootedTree,
    below: Vec<Hosts>,
}

impl Sides {
    /// `None` if there is no sender.
    fn new(network: &Network, links: &[u32], users: &[User]) -> Option<Sides> {
        let root = users.first()?.switch;
        let rooted = RootedTree::from_links(&adjacency(network, links), root);
        let mut below = vec![Hosts::default(); network.switch_count()];
        for &switch in &rooted.order {
            below[switch as usize].receivers = u64::from(network.weight(switch));
        }
        users.iter().for_each(|user| below[user.switch as usize].senders += u64::from(user.hosts));
        for &switch in rooted.order[1..].iter().rev() {
            let Hosts { senders, receivers } = below[switch as usize];
            let parent = &mut below[rooted.parents[switch as usize].to as usize];
            parent.senders += senders;
            parent.receivers += receivers;
        }
        Some(Sides { rooted, below })
    }

    /// The hosts reached from a switch over its link to a neighbour.
    fn beyond(&self, at: u32, neighbour: u32) -> Hosts {
        if self.rooted.parents[neighbour as usize].to == at {
            return self.below[neighbour as usize];
        }
        let (all, own) = (self.below[self.rooted.root() as usize], self.below[at as usize]);
        Hosts { senders: all.senders - own.senders, receivers: all.receivers - own.receivers }
    }
}

/// The load of the busiest channel, as the flows that each channel may carry.
#[derive(Debug, Clone)]
pub(crate) struct Ceiling {
    /// Most flows with which a channel is less busy than that, by channel.
    below: Vec<u64>,
    /// Most flows with which it is no busier.
    at: Vec<u64>,
    /// Channels that are as busy.
    pub(crate) count: usize,
    /// The first of them.
    pub(crate) first: usize,
}

impl Ceiling {
    /// Ceiling of the channels with these flows.
    pub(crate) fn of(network: &Network, flows: &[u64]) -> Ceiling {
        let pressures = || flows.iter().enumerate().map(|(at, &flows)| pressure_of(network, at, flows));
        let most = pressures().max().unwrap_or(0);
        let count = pressures().filter(|&pressure| pressure == most).count();
        let first = pressures().position(|pressure| pressure == most).unwrap_or(0);
        // Flows for their rate are `(flows << 64) / rate`, rounded down: less than `bound` up to these flows.
        let flows_below = |channel: usize, bound: u128| {
            let rate = u128::from(network.rate(channel as u32 / 2).max(1));
            ((bound * rate).saturating_sub(1) >> 64) as u64
        };
        let of_all = |bound: u128| (0..flows.len()).map(|channel| flows_below(channel, bound)).collect();
        Ceiling { below: of_all(most), at: of_all(most + 1), count, first }
    }

    /// How many channels with these flows are as busy; `None` where one is busier.
    pub(crate) fn reached(&self, flows: &[u64]) -> Option<usize> {
        let mut count = 0;
        for ((&flows, &below), &at) in flows.iter().zip(&self.below).zip(&self.at) {
            if flows > at {
                return None;
            }
            count += usize::from(flows > below);
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluation::{evaluate, pressure};
    use super::super::networks_for_tests::Parts;
    use super::super::solution::Choice;
    use super::super::{InUse, plan};
    use super::*;
    use crate::description::Machine;
    use ayatori_random::Random;

    /// Against what is counted route by route.
    #[test]
    fn shares_add_up_to_what_all_routes_put_on_the_network() {
        for name in ["lab-torus", "lab-irregular", "lab-complete", "lab-fat-tree"] {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
            let machine = Machine::load(&folder.join(format!("{name}.toml"))).unwrap();
            let network = Network::of(&machine, &[]);
            let in_use = InUse::of(&plan(&machine).unwrap()).unwrap();
            let hosts = super::super::assign::hosts(&machine, Some(&in_use));
            let solution = in_use.solution(&machine, &network, &hosts);
            assert!(matches!(solution.choice, Choice::BySource(_)));
            let whole = evaluate(&network, &solution);
            let mut flows = vec![0; whole.flows.len()];
            let (mut hops, mut all) = (0, Waits::new());
            let users = super::super::evaluation::users(&network, &solution);
            for (links, users) in solution.trees.iter().zip(&users) {
                let share = share(&network, links, users);
                flows.iter_mut().zip(&share.loads.flows).for_each(|(all, own)| *all += own);
                hops += share.loads.hops;
                all.extend(share.waits);
            }
            assert_eq!((&flows, hops), (&whole.flows, whole.hops), "{name}");
            assert_eq!(are_free(&network, [&all].into_iter()), whole.is_free, "{name}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), whole.dependency_count, "{name}");
        }
    }

    /// A tree may go on to a switch that has lost its hosts.
    #[test]
    fn nothing_waits_for_a_way_to_no_hosts() {
        let network = Parts::of(&[(0, 1), (1, 2), (1, 3)], &[2, 0, 1, 0]).network(&[]);
        let users = [User { switch: 0, hosts: 2 }];
        let [to_hosts, to_none] = [1, 2].map(|link| network.channel(link, 1));
        let waits = waits(&network, &[0, 1, 2], &users);
        assert_eq!(waits, [(network.channel(0, 0), to_hosts)]);
        let loads = loads(&network, &[0, 1, 2], &users);
        assert_eq!([loads.flows[to_hosts.index()], loads.flows[to_none.index()], loads.hops], [2, 0, 4]);
    }

    /// Also where a rate is a power of two and nothing is rounded.
    #[test]
    fn less_than_the_most_is_a_flow_less() {
        let link = crate::graph::LinkSpec { rate_bits_per_s: 1 << 30, latency_ps: 0, cable_count: 1 };
        let switches = ["a", "b"].map(String::from).to_vec();
        let pair = crate::topology::Explicit { switches, links: vec![(0, 1, 1)] };
        let graph = crate::topology::Topology::Explicit(pair).build(link).unwrap();
        let network = Network::new(&graph, 1, vec![1, 1], &[]);
        let ceiling = Ceiling::of(&network, &[5, 3]);
        assert_eq!((&ceiling.below[..], &ceiling.at[..]), (&[4, 4][..], &[5, 5][..]));
        assert_eq!((ceiling.count, ceiling.first), (1, 0));
    }

    #[test]
    fn a_ceiling_is_reached_as_the_busiest_channels_say() {
        // Two links of 1 Gbit/s and one of ten times that.
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n\
            fast_ports = { first = 7, last = 8, rate_gbps = 10 }\n\
            [host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n\
            [topology]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n\
            [[switch]]\nname = \"a\"\nhosts = 1\n[[switch]]\nname = \"b\"\nhosts = 1\n\
            [[switch]]\nname = \"c\"\nhosts = 1\n\
            [[cable]]\nfrom = \"a:3\"\nto = \"b:3\"\n[[cable]]\nfrom = \"b:7\"\nto = \"c:7\"\n\
            [[cable]]\nfrom = \"a:4\"\nto = \"c:4\"\n[plan]\n";
        let network = Network::of(&Machine::parse("m.toml", text).unwrap(), &[]);
        let mut random = Random::new(7);
        for _ in 0..500 {
            let [mut before, mut after] = [0, 1].map(|_| -> Vec<u64> {
                (0..2 * network.link_count()).map(|_| random.index(40) as u64).collect()
            });
            // Ten times the flows on the fast link: as busy as others now and then.
            for flows in [&mut before, &mut after] {
                (0..flows.len()).filter(|at| network.rate(*at as u32 / 2) > 1_000_000_000).for_each(|at| {
                    flows[at] = flows[at] * 10 + random.index(2) as u64;
                });
            }
            let most = pressure(&network, &before);
            let as_busy = |flows: &[u64]| {
                let all = flows.iter().enumerate();
                all.filter(|&(at, &flows)| pressure_of(&network, at, flows) == most).count()
            };
            let ceiling = Ceiling::of(&network, &before);
            assert_eq!(ceiling.reached(&before), Some(ceiling.count), "{before:?}");
            assert_eq!(ceiling.count, as_busy(&before));
            let is_over = pressure(&network, &after) > most;
            let expected = (!is_over).then(|| as_busy(&after));
            assert_eq!(ceiling.reached(&after), expected, "{before:?} {after:?}");
        }
    }
}
