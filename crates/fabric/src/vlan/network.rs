//! The switches and links that are up, in arrays: what every search and every statistic of the planner walks
//! over.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::description::Machine;
use crate::graph::{ChannelId, Graph, LinkId, Node, SwitchId};

/// No switch, no link.
pub(crate) const NONE: u32 = u32::MAX;

/// A link as seen from one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arc {
    pub(crate) to: u32,
    pub(crate) link: u32,
}

/// The part removed from a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A link between two switches: with link aggregation, all of its cables.
    Link(LinkId),
    /// A switch and all that is plugged into it.
    Switch(SwitchId),
}

impl Failure {
    /// In words: `link s0.0 - s1.0`.
    pub(crate) fn name(self, machine: &Machine) -> String {
        let name = |node: Node| machine.graph.name(node).to_owned();
        match self {
            Failure::Switch(switch) => format!("switch {}", name(switch.into())),
            Failure::Link(link) => {
                let [a, b] = machine.graph.link(link).ends.map(|end| name(end.node));
                format!("link {a} - {b}")
            }
        }
    }
}

/// Switches, the links between them, and how many host interfaces each switch has.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    offsets: Vec<u32>,
    arcs: Vec<Arc>,
    ends: Vec<[u32; 2]>,
    rates: Vec<u64>,
    /// Host attachments of each switch; 0 for a switch that is down or cut off.
    weights: Vec<u32>,
    /// Switches that take part.
    alive: Vec<bool>,
    /// Traffic of hosts, if known; else each sends the same to each other.
    traffic: Option<Traffic>,
    shortest: OnceLock<Shortest>,
    /// The least that the busiest link carries, once it has been asked for.
    pub(crate) least_pressure: OnceLock<f64>,
}

/// Traffic of hosts: by switch, by its host interfaces in their order, the amount to each switch. Routes to
/// switches without traffic exist, too.
pub(crate) type Traffic = Vec<Vec<Vec<(u32, u64)>>>;

/// Flows by shortest paths: what every plan of a network is measured against. One flow goes from each host
/// interface to each other one at another switch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shortest {
    /// Ordered pairs of switches with hosts.
    pub(crate) pairs: u64,
    /// Number of flows.
    pub(crate) flow_count: u64,
    /// Links they cross together.
    pub(crate) hops: u64,
}

impl Network {
    /// A machine's switches without what has failed. If that leaves several parts, the part with most hosts
    /// is kept.
    pub(crate) fn of(machine: &Machine, failures: &[Failure]) -> Network {
        Network::new(&machine.graph, machine.switch_link_count(), machine.attachment_counts(), failures)
    }

    /// The first `link_count` links of `graph` must be those between switches.
    pub(crate) fn new(graph: &Graph, link_count: usize, weights: Vec<u32>, failures: &[Failure]) -> Network {
        let switch_is_up = |switch: u32| !failures.contains(&Failure::Switch(SwitchId(switch)));
        let mut ends = Vec::with_capacity(link_count);
        let mut rates = Vec::with_capacity(link_count);
        let mut lists: Vec<Vec<Arc>> = vec![Vec::new(); graph.switch_count()];
        for (id, link) in graph.links().take(link_count) {
            let [a, b] = link.ends.map(|end| match end.node {
                crate::graph::Node::Switch(switch) => switch.0,
                crate::graph::Node::Host(_) => NONE,
            });
            ends.push([a, b]);
            rates.push(link.spec.total_rate_bits_per_s());
            if switch_is_up(a) && switch_is_up(b) && !failures.contains(&Failure::Link(id)) {
                lists[a as usize].push(Arc { to: b, link: id.0 });
                lists[b as usize].push(Arc { to: a, link: id.0 });
            }
        }
        let mut offsets = vec![0];
        let mut arcs = Vec::new();
        for list in &lists {
            arcs.extend_from_slice(list);
            offsets.push(arcs.len() as u32);
        }
        let alive = (0..graph.switch_count() as u32).map(switch_is_up).collect();
        let (shortest, least_pressure) = (OnceLock::new(), OnceLock::new());
        let mut network =
            Network { offsets, arcs, ends, rates, weights, alive, traffic: None, shortest, least_pressure };
        network.keep_largest_part();
        network
    }

    /// The same network for what its hosts send.
    pub(crate) fn with_traffic(&self, traffic: Traffic) -> Network {
        let mut network = self.clone();
        (network.traffic, network.least_pressure) = (Some(traffic), OnceLock::new());
        network
    }

    /// By switch: what some of a switch's host interfaces send there, from `first` on.
    pub(crate) fn needs(&self, switch: u32, first: u32, count: u32) -> Vec<u64> {
        match &self.traffic {
            None => self.weights.iter().map(|&hosts| u64::from(hosts) * u64::from(count)).collect(),
            Some(traffic) => {
                let mut needs = vec![0; self.switch_count()];
                let own = &traffic[switch as usize][first as usize..(first + count) as usize];
                own.iter().flatten().for_each(|&(to, bytes)| needs[to as usize] += bytes);
                needs
            }
        }
    }

    fn keep_largest_part(&mut self) {
        let mut part = vec![NONE; self.switch_count()];
        let mut hosts_of_parts = Vec::new();
        for start in 0..self.switch_count() as u32 {
            if part[start as usize] != NONE || !self.alive[start as usize] {
                continue;
            }
            let number = hosts_of_parts.len() as u32;
            let mut hosts = 0_u64;
            let mut stack = vec![start];
            part[start as usize] = number;
            while let Some(at) = stack.pop() {
                hosts += u64::from(self.weights[at as usize]);
                for arc in self.arcs(at) {
                    if part[arc.to as usize] == NONE {
                        part[arc.to as usize] = number;
                        stack.push(arc.to);
                    }
                }
            }
            hosts_of_parts.push(hosts);
        }
        let best = (0..hosts_of_parts.len()).rev().max_by_key(|&number| hosts_of_parts[number]);
        for (switch, &part) in part.iter().enumerate() {
            let kept = best.is_some_and(|best| part == best as u32);
            self.alive[switch] = kept;
            if !kept {
                self.weights[switch] = 0;
            }
        }
    }

    pub(crate) fn switch_count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn link_count(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn arcs(&self, switch: u32) -> &[Arc] {
        &self.arcs[self.arc_range(switch)]
    }

    /// Where the arcs of a switch lie among all arcs.
    pub(crate) fn arc_range(&self, switch: u32) -> std::ops::Range<usize> {
        let [from, to] = [0, 1].map(|next| self.offsets[switch as usize + next] as usize);
        from..to
    }

    /// An arc by its place among all arcs.
    pub(crate) fn arc(&self, place: usize) -> Arc {
        self.arcs[place]
    }

    /// Number of arcs: two for each link that is up.
    pub(crate) fn arc_count(&self) -> usize {
        self.arcs.len()
    }

    pub(crate) fn ends(&self, link: u32) -> [u32; 2] {
        self.ends[link as usize]
    }

    /// Rate of all cables of a link in each direction, bit/s.
    pub(crate) fn rate(&self, link: u32) -> u64 {
        self.rates[link as usize]
    }

    /// The direction of `link` that leaves `from`.
    pub(crate) fn channel(&self, link: u32, from: u32) -> ChannelId {
        LinkId(link).channel_from(usize::from(self.ends[link as usize][0] != from))
    }

    /// Whether a link and the switches at its ends take part.
    pub(crate) fn is_up(&self, link: u32) -> bool {
        let [a, _] = self.ends(link);
        self.alive[a as usize] && self.arcs(a).iter().any(|arc| arc.link == link)
    }

    pub(crate) fn weight(&self, switch: u32) -> u32 {
        self.weights[switch as usize]
    }

    /// Switches that take part.
    pub(crate) fn alive(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.switch_count() as u32).filter(|&switch| self.alive[switch as usize])
    }

    /// Switches with hosts.
    pub(crate) fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.switch_count() as u32).filter(|&switch| self.weights[switch as usize] > 0)
    }

    /// Links from `from` to every switch; `u16::MAX` for one that takes no part.
    pub(crate) fn distances(&self, from: u32) -> Vec<u16> {
        let mut distances = vec![u16::MAX; self.switch_count()];
        distances[from as usize] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for arc in self.arcs(at) {
                if distances[arc.to as usize] == u16::MAX {
                    distances[arc.to as usize] = distances[at as usize] + 1;
                    queue.push_back(arc.to);
                }
            }
        }
        distances
    }

    /// Flows by shortest paths, counted when first asked for.
    pub(crate) fn shortest(&self) -> Shortest {
        *self.shortest.get_or_init(|| {
            let mut shortest = Shortest::default();
            for source in self.sources() {
                let distances = self.distances(source);
                let hosts = u64::from(self.weight(source));
                for destination in self.sources().filter(|&d| d != source) {
                    let flows = hosts * u64::from(self.weight(destination));
                    shortest.pairs += 1;
                    shortest.flow_count += flows;
                    shortest.hops += flows * u64::from(distances[destination as usize]);
                }
            }
            shortest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests::Parts;
    use super::*;

    #[test]
    fn pairs_flows_and_hops_are_those_of_switches_with_hosts() {
        let network = Parts::of(&[(0, 1), (1, 2), (2, 3)], &[2, 0, 1, 3]).network(&[]);
        let shortest = network.shortest();
        // Of 2, 1 and 3 hosts those at other switches; two, three and one link apart.
        assert_eq!((shortest.pairs, shortest.flow_count), (6, 2 * (2 + 6 + 3)));
        assert_eq!(shortest.hops, 2 * (2 * 2 + 6 * 3 + 3));
    }

    #[test]
    fn a_link_is_up_where_it_and_both_its_ends_take_part() {
        // A row, of which the end is cut off, and one more link between the first two.
        let parts = Parts::of(&[(0, 1), (1, 2), (2, 3), (3, 4), (0, 1)], &[1; 5]);
        let up = |failures: &[Failure]| -> Vec<u32> {
            let network = parts.network(failures);
            (0..5).filter(|&link| network.is_up(link)).collect()
        };
        assert_eq!(up(&[]), [0, 1, 2, 3, 4]);
        assert_eq!(up(&[Failure::Link(LinkId(0))]), [1, 2, 3, 4]);
        assert_eq!(up(&[Failure::Switch(SwitchId(3))]), [0, 1, 4]);
        assert_eq!(up(&[Failure::Link(LinkId(2))]), [0, 1, 4]);
    }
}
