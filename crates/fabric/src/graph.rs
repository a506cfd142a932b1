//! The graph of a fabric: switches, hosts, and the links between their ports.
//!
//! Owns: identifiers, names, coordinates, which port is cabled to which, and each link's rate, latency
//! and number
//! of parallel cables. Deliberately absent: how a graph comes about (`topology`, or the description
//! file), where
//! traffic goes (`routing`), and what a port is called on a given make of switch (the dialects).
//!
//! Invariants: a port carries at most one link; a link joins two different nodes; identifiers are dense
//! from 0 in
//! order of creation and never change. The same calls give the same graph, so everything derived from it is
//! reproducible.
//!
//! ```
//! use ayatori_fabric::graph::{Graph, LinkSpec, Node};
//! let mut graph = Graph::new();
//! let (a, b) = (graph.add_switch("left", &[0]), graph.add_switch("right", &[1]));
//! let host = graph.add_host("node0");
//! let gigabit = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: 500_000, cable_count: 1 };
//! graph.connect((a.into(), 0), (b.into(), 0), gigabit)?;
//! graph.connect((host.into(), 0), (a.into(), 1), gigabit)?;
//! assert_eq!(graph.neighbours(a.into()).count(), 2);
//! assert_eq!(graph.switch_distances(a)[b.index()], Some(1));
//! # Ok::<(), ayatori_fabric::graph::GraphError>(())
//! ```

use std::collections::VecDeque;
use std::fmt;

/// A switch (or a router: the part of a node that forwards packets), numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SwitchId(pub u32);

/// A host, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct HostId(pub u32);

/// A link: one or more parallel cables between two ports, used as one; numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct LinkId(pub u32);

/// One direction of a link. `ChannelId(2 * link)` leads from the link's first end to its second, and
/// `ChannelId(2 * link + 1)` back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct ChannelId(pub u32);

/// What a waiting packet holds: a direction of a link, and a virtual channel on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The direction of the link.
    pub channel: ChannelId,
    /// The virtual channel, from 0.
    pub vc: u8,
}

/// A port of a switch, or a NIC of a host. A port is logical: a link of several cables is one port at
/// each end.
pub type Port = u16;

macro_rules! dense_index {
    ($($id:ident),*) => {$(
        impl $id {
            /// The identifier as an index into arrays with one entry for each of its kind.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
dense_index!(SwitchId, HostId, LinkId, ChannelId);

impl LinkId {
    /// The channel that leaves the link's end `end` (0 or 1).
    pub fn channel_from(self, end: usize) -> ChannelId {
        ChannelId(2 * self.0 + end as u32)
    }
}

impl ChannelId {
    /// The link this channel is one direction of.
    pub fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }

    /// The other direction of the same link.
    pub fn reverse(self) -> ChannelId {
        ChannelId(self.0 ^ 1)
    }
}

/// Either kind of thing a cable can be plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A switch.
    Switch(SwitchId),
    /// A host.
    Host(HostId),
}

impl From<SwitchId> for Node {
    fn from(id: SwitchId) -> Node {
        Node::Switch(id)
    }
}

impl From<HostId> for Node {
    fn from(id: HostId) -> Node {
        Node::Host(id)
    }
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The switch or host.
    pub node: Node,
    /// The switch's port, or the host's NIC.
    pub port: Port,
}

/// What a link is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate of one cable in each direction, bit/s.
    pub rate_bits_per_s: u64,
    /// Propagation time of the cable and its transceivers, ps. Switch latency is not part of it.
    pub latency_ps: u64,
    /// Cables used as one link (link aggregation), at least 1.
    pub cable_count: u32,
}

impl LinkSpec {
    /// Rate of all cables together in each direction, bit/s.
    pub fn total_rate_bits_per_s(&self) -> u64 {
        self.rate_bits_per_s * u64::from(self.cable_count)
    }
}

/// A full-duplex link between two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Both ends, in the order in which the link was made.
    pub ends: [End; 2],
    /// Rate, latency, number of cables.
    pub spec: LinkSpec,
}

/// The far end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Our port.
    pub port: Port,
    /// The far end.
    pub far: End,
    /// The link between.
    pub link: LinkId,
    /// The direction from us to the far end.
    pub channel: ChannelId,
}

/// Why a link cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The port already carries a link.
    #[error("port {port} of {node} already carries a link to {other}")]
    PortInUse {
        /// Name of the switch or host.
        node: String,
        /// The port.
        port: Port,
        /// Name of what it is cabled to.
        other: String,
    },
    /// Both ends are the same switch or host.
    #[error("a link from {node} to itself (ports {ports:?}) is a loop")]
    Loop {
        /// Name of the switch or host.
        node: String,
        /// The two ports.
        ports: [Port; 2],
    },
    /// No such switch or host in this graph.
    #[error("the graph has no {0:?}")]
    NoSuchNode(Node),
    /// A rate or a number of cables of 0.
    #[error(
        "a link needs a rate and at least one cable (rate {rate_bits_per_s} bit/s, {cable_count} cables)"
    )]
    EmptyLink {
        /// The rate given, bit/s.
        rate_bits_per_s: u64,
        /// The number of cables given.
        cable_count: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Vertex {
    name: String,
    coordinates: Box<[u32]>,
    /// Indexed by port.
    links: Vec<Option<LinkId>>,
}

impl Vertex {
    fn link_at(&self, port: Port) -> Option<LinkId> {
        self.links.get(usize::from(port)).copied().flatten()
    }

    fn plug(&mut self, port: Port, link: LinkId) {
        let port = usize::from(port);
        if self.links.len() <= port {
            self.links.resize(port + 1, None);
        }
        self.links[port] = Some(link);
    }
}

/// Switches, hosts and links. See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    switches: Vec<Vertex>,
    hosts: Vec<Vertex>,
    links: Vec<Link>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a switch. `coordinates` may be empty where the topology has none.
    pub fn add_switch(&mut self, name: &str, coordinates: &[u32]) -> SwitchId {
        self.switches.push(Vertex { name: name.into(), coordinates: coordinates.into(), links: Vec::new() });
        SwitchId(self.switches.len() as u32 - 1)
    }

    /// Adds a host without cables.
    pub fn add_host(&mut self, name: &str) -> HostId {
        self.hosts.push(Vertex { name: name.into(), coordinates: [].into(), links: Vec::new() });
        HostId(self.hosts.len() as u32 - 1)
    }

    /// Joins two ports. Ports come into being when first used.
    ///
    /// # Errors
    /// If a port is in use, both ends are one node, a node does not exist, or the link has no rate or
    /// no cable; the
    /// graph is then unchanged.
    pub fn connect(
        &mut self,
        a: (Node, Port),
        b: (Node, Port),
        spec: LinkSpec,
    ) -> Result<LinkId, GraphError> {
        let ends = [End { node: a.0, port: a.1 }, End { node: b.0, port: b.1 }];
        for end in ends {
            let vertex = self.vertex(end.node).ok_or(GraphError::NoSuchNode(end.node))?;
            if let Some(link) = vertex.link_at(end.port) {
                let other = self.far_end(link, end).node;
                return Err(GraphError::PortInUse {
                    node: self.name(end.node).into(),
                    port: end.port,
                    other: self.name(other).into(),
                });
            }
        }
        if a.0 == b.0 {
            return Err(GraphError::Loop { node: self.name(a.0).into(), ports: [a.1, b.1] });
        }
        if spec.rate_bits_per_s == 0 || spec.cable_count == 0 {
            let LinkSpec { rate_bits_per_s, cable_count, .. } = spec;
            return Err(GraphError::EmptyLink { rate_bits_per_s, cable_count });
        }
        let link = LinkId(self.links.len() as u32);
        self.links.push(Link { ends, spec });
        for end in ends {
            match end.node {
                Node::Switch(id) => self.switches[id.index()].plug(end.port, link),
                Node::Host(id) => self.hosts[id.index()].plug(end.port, link),
            }
        }
        Ok(link)
    }

    /// Joins a host's next free NIC to a switch's next free port at or after `first_port`, and returns
    /// the link.
    ///
    /// # Errors
    /// As [`Graph::connect`].
    pub fn attach_host(
        &mut self,
        host: HostId,
        switch: SwitchId,
        first_port: Port,
        spec: LinkSpec,
    ) -> Result<LinkId, GraphError> {
        let nic = self.free_port(host.into(), 0)?;
        let port = self.free_port(switch.into(), first_port)?;
        self.connect((host.into(), nic), (switch.into(), port), spec)
    }

    /// The lowest port of `node` at or after `first` that carries no link.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn free_port(&self, node: Node, first: Port) -> Result<Port, GraphError> {
        let vertex = self.vertex(node).ok_or(GraphError::NoSuchNode(node))?;
        Ok((first..Port::MAX).find(|&port| vertex.link_at(port).is_none()).unwrap_or(Port::MAX))
    }

    /// Number of switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// Number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Number of links.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// Number of channels: two for each link.
    pub fn channel_count(&self) -> usize {
        2 * self.links.len()
    }

    /// Number of cables between switches, counting each cable of an aggregated link.
    pub fn switch_cable_count(&self) -> u64 {
        let between_switches = |link: &&Link| link.ends.iter().all(|end| matches!(end.node, Node::Switch(_)));
        self.links.iter().filter(between_switches).map(|link| u64::from(link.spec.cable_count)).sum()
    }

    /// All switches in order.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = SwitchId> + DoubleEndedIterator + use<> {
        (0..self.switches.len() as u32).map(SwitchId)
    }

    /// All hosts in order.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = HostId> + DoubleEndedIterator + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// All links in order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = (LinkId, &Link)> {
        self.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link))
    }

    /// A link. Panics if it is not one of this graph's.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }

    /// A node's name. Panics if it is not one of this graph's.
    pub fn name(&self, node: Node) -> &str {
        &self.known(node).name
    }

    /// A switch's coordinates in its topology; empty where the topology has none. Panics if there is no
    /// such switch.
    pub fn coordinates(&self, switch: SwitchId) -> &[u32] {
        &self.switches[switch.index()].coordinates
    }

    /// One more than the highest port in use. Panics if there is no such node.
    pub fn port_count(&self, node: Node) -> usize {
        self.known(node).links.len()
    }

    /// The neighbour at a port. Panics if there is no such node.
    pub fn neighbour(&self, node: Node, port: Port) -> Option<Neighbour> {
        let link = self.known(node).link_at(port)?;
        let near = End { node, port };
        let from = usize::from(self.links[link.index()].ends[0] != near);
        Some(Neighbour { port, far: self.far_end(link, near), link, channel: link.channel_from(from) })
    }

    /// Everything plugged into a node, by port. Panics if there is no such node.
    pub fn neighbours(&self, node: Node) -> impl Iterator<Item = Neighbour> + '_ {
        (0..self.port_count(node)).filter_map(move |port| self.neighbour(node, port as Port))
    }

    /// The switches next to a switch, by port; one that two links lead to comes twice.
    pub fn switch_neighbours(&self, switch: SwitchId) -> impl Iterator<Item = (Neighbour, SwitchId)> + '_ {
        self.neighbours(switch.into()).filter_map(|n| match n.far.node {
            Node::Switch(far) => Some((n, far)),
            Node::Host(_) => None,
        })
    }

    /// The switch (and its port) that a host's NIC is cabled to; `None` for a free NIC or one cabled to
    /// a host.
    pub fn switch_of(&self, host: HostId, nic: Port) -> Option<(SwitchId, Port)> {
        match self.neighbour(host.into(), nic)?.far {
            End { node: Node::Switch(switch), port } => Some((switch, port)),
            End { node: Node::Host(_), .. } => None,
        }
    }

    /// Where a channel begins and ends. Panics if it is not one of this graph's.
    pub fn channel_ends(&self, channel: ChannelId) -> (End, End) {
        let ends = self.links[channel.link().index()].ends;
        if channel.0.is_multiple_of(2) { (ends[0], ends[1]) } else { (ends[1], ends[0]) }
    }

    /// A channel in words: `a:3 -> b:0`.
    pub fn describe_channel(&self, channel: ChannelId) -> String {
        let (from, to) = self.channel_ends(channel);
        format!("{}:{} -> {}:{}", self.name(from.node), from.port, self.name(to.node), to.port)
    }

    /// Links to cross from `from` to every switch, by switch; `None` for one that cannot be reached.
    /// Hosts do not
    /// forward.
    pub fn switch_distances(&self, from: SwitchId) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.switches.len()];
        distances[from.index()] = Some(0);
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((at, distance)) = queue.pop_front() {
            for (_, next) in self.switch_neighbours(at) {
                if distances[next.index()].is_none() {
                    distances[next.index()] = Some(distance + 1);
                    queue.push_back((next, distance + 1));
                }
            }
        }
        distances
    }

    /// A switch that cannot be reached from switch 0, if there is one.
    pub fn unreachable_switch(&self) -> Option<SwitchId> {
        if self.switches.is_empty() {
            return None;
        }
        let reached = self.switch_distances(SwitchId(0));
        self.switches().find(|switch| reached[switch.index()].is_none())
    }

    fn vertex(&self, node: Node) -> Option<&Vertex> {
        match node {
            Node::Switch(id) => self.switches.get(id.index()),
            Node::Host(id) => self.hosts.get(id.index()),
        }
    }

    fn known(&self, node: Node) -> &Vertex {
        match node {
            Node::Switch(id) => &self.switches[id.index()],
            Node::Host(id) => &self.hosts[id.index()],
        }
    }

    fn far_end(&self, link: LinkId, near: End) -> End {
        let [a, b] = self.links[link.index()].ends;
        if a == near { b } else { a }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Switch(id) => write!(f, "switch {}", id.0),
            Node::Host(id) => write!(f, "host {}", id.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: LinkSpec = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: 0, cable_count: 1 };

    fn pair() -> (Graph, SwitchId, SwitchId) {
        let mut graph = Graph::new();
        let (a, b) = (graph.add_switch("a", &[]), graph.add_switch("b", &[]));
        (graph, a, b)
    }

    #[test]
    fn a_port_carries_one_link() {
        let (mut graph, a, b) = pair();
        let c = graph.add_switch("c", &[]);
        graph.connect((a.into(), 1), (b.into(), 1), GIGABIT).unwrap();
        let error = graph.connect((c.into(), 0), (b.into(), 1), GIGABIT).unwrap_err();
        assert_eq!(error.to_string(), "port 1 of b already carries a link to a");
        assert_eq!(graph.link_count(), 1);
    }

    #[test]
    fn a_link_needs_two_nodes_a_rate_and_a_cable() {
        let (mut graph, a, b) = pair();
        assert!(matches!(graph.connect((a.into(), 0), (a.into(), 1), GIGABIT), Err(GraphError::Loop { .. })));
        let ghost = Node::Host(HostId(7));
        assert_eq!(graph.connect((a.into(), 0), (ghost, 0), GIGABIT), Err(GraphError::NoSuchNode(ghost)));
        for spec in [LinkSpec { rate_bits_per_s: 0, ..GIGABIT }, LinkSpec { cable_count: 0, ..GIGABIT }] {
            assert!(matches!(
                graph.connect((a.into(), 0), (b.into(), 0), spec),
                Err(GraphError::EmptyLink { .. })
            ));
        }
        assert_eq!(graph.link_count(), 0);
    }

    #[test]
    fn channels_name_both_directions_of_a_link() {
        let (mut graph, a, b) = pair();
        let link = graph.connect((a.into(), 3), (b.into(), 0), GIGABIT).unwrap();
        let there = graph.neighbour(a.into(), 3).unwrap().channel;
        let back = graph.neighbour(b.into(), 0).unwrap().channel;
        assert_eq!((there.link(), there.reverse()), (link, back));
        assert_eq!(graph.describe_channel(there), "a:3 -> b:0");
        assert_eq!(graph.describe_channel(back), "b:0 -> a:3");
    }

    #[test]
    fn hosts_do_not_forward() {
        let (mut graph, a, b) = pair();
        let host = graph.add_host("h");
        graph.attach_host(host, a, 0, GIGABIT).unwrap();
        graph.attach_host(host, b, 0, GIGABIT).unwrap();
        assert_eq!(graph.switch_of(host, 1), Some((b, 0)));
        assert_eq!(graph.unreachable_switch(), Some(b));
    }
}
