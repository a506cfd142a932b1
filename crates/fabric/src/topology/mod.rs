//! Topologies: from a few numbers to switches, coordinates, ports and cables.
//!
//! One file a topology, named by the literature's name; each says how its switches and ports are numbered. A
//! topology knows only switches: hosts are put on by [`Topology::build_with_hosts`] or by the machine
//! description. Deliberately absent: routes (`routing`), rates and makes of switches (the description).
//!
//! Conventions that hold for all:
//! * Switches are numbered from 0; with coordinates, the first one varies fastest (`x + X * (y + Y * z)`).
//! * Ports between switches come first and have a fixed place, used or not (a mesh's edge switches leave some
//!   free), so that a route's next port is arithmetic; host ports follow from [`Topology::switch_port_count`]
//!   on.
//! * A switch is called `s` and its coordinates: `s3.0.1`.

pub mod complete;
pub mod dragonfly;
pub mod explicit;
pub mod fat_tree;
pub mod grid;
pub mod hypercube;
pub mod hyperx;
pub mod mesh;
pub mod ring;
pub mod tofu;
pub mod torus;
pub mod tree;

use crate::graph::{Graph, GraphError, LinkSpec, Port, SwitchId};

pub use complete::Complete;
pub use dragonfly::Dragonfly;
pub use explicit::Explicit;
pub use fat_tree::FatTree;
pub use grid::Grid;
pub use hypercube::Hypercube;
pub use hyperx::HyperX;
pub use mesh::Mesh;
pub use ring::Ring;
pub use tofu::Tofu;
pub use torus::Torus;
pub use tree::Tree;

/// More switches than this are taken for a mistake in the description.
pub const SWITCH_COUNT_MAX: u64 = 1 << 22;

/// Why a topology's numbers make no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Numbers that describe nothing; the text says which and what they should be.
    #[error("{topology}: {problem}")]
    Invalid {
        /// The kind of topology.
        topology: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// More switches or ports than can be.
    #[error("{topology}: {count} {what} are more than the {max} there can be")]
    TooLarge {
        /// The kind of topology.
        topology: &'static str,
        /// "switches" or "ports on a switch".
        what: &'static str,
        /// How many there would be.
        count: u64,
        /// How many there can be.
        max: u64,
    },
    /// Two cables at one port and the like: only an explicit graph can get here.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A link between two switches, before it has a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// One switch and its port.
    pub a: (u32, Port),
    /// The other switch and its port.
    pub b: (u32, Port),
    /// Parallel cables in this link, multiplying the description's.
    pub width: u32,
}

impl Cable {
    fn single(a: (u32, Port), b: (u32, Port)) -> Cable {
        Cable { a, b, width: 1 }
    }
}

/// The interface of every topology. Only [`Generator::check`] may be called on numbers not yet checked.
pub trait Generator {
    /// The literature's name: "torus".
    fn kind(&self) -> &'static str;
    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Says which number is wrong and what it should be.
    fn check(&self) -> Result<(), TopologyError>;
    /// Number of switches.
    fn switch_count(&self) -> u64;
    /// A switch's coordinates.
    fn coordinates(&self, switch: u32) -> Vec<u32>;
    /// Ports kept for other switches, used or not; the first host port.
    fn switch_port_count(&self, switch: u32) -> u64;
    /// A port in words, such as `x+`.
    fn port_name(&self, switch: u32, port: Port) -> String;
    /// All links between switches, in a fixed order.
    fn cables(&self) -> Vec<Cable>;
    /// Whether hosts hang on this switch when hosts are placed evenly.
    fn carries_hosts(&self, _switch: u32) -> bool {
        true
    }
    /// A switch's name.
    fn switch_name(&self, switch: u32) -> String {
        let coordinates: Vec<String> =
            self.coordinates(switch).iter().map(|coordinate| coordinate.to_string()).collect();
        format!("s{}", coordinates.join("."))
    }
}

/// Every topology there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A cycle of switches.
    Ring(Ring),
    /// An n-dimensional mesh.
    Mesh(Mesh),
    /// An n-dimensional torus.
    Torus(Torus),
    /// A binary n-cube.
    Hypercube(Hypercube),
    /// Every switch with every other.
    Complete(Complete),
    /// A tree with hosts at every switch, a star included.
    Tree(Tree),
    /// A fat tree (extended generalised fat tree).
    FatTree(FatTree),
    /// Complete graphs in every dimension.
    HyperX(HyperX),
    /// Groups that are complete, and completely connected.
    Dragonfly(Dragonfly),
    /// The 6-D mesh/torus of the K computer and FX10.
    Tofu(Tofu),
    /// A list of cables.
    Explicit(Explicit),
}

/// How hosts are put on the switches of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLayout {
    /// Hosts at every switch that carries hosts.
    pub per_switch_count: u32,
    /// NICs of a host, all cabled to its switch.
    pub nic_count: u16,
    /// The cable from a NIC to the switch.
    pub link: LinkSpec,
}

impl Topology {
    /// The generator of this topology.
    pub fn generator(&self) -> &dyn Generator {
        match self {
            Topology::Ring(t) => t,
            Topology::Mesh(t) => t,
            Topology::Torus(t) => t,
            Topology::Hypercube(t) => t,
            Topology::Complete(t) => t,
            Topology::Tree(t) => t,
            Topology::FatTree(t) => t,
            Topology::HyperX(t) => t,
            Topology::Dragonfly(t) => t,
            Topology::Tofu(t) => t,
            Topology::Explicit(t) => t,
        }
    }

    /// The mesh or torus that this topology's coordinates span, if it is of that family.
    pub fn grid(&self) -> Option<Grid> {
        match self {
            Topology::Ring(t) => Some(t.grid()),
            Topology::Mesh(t) => Some(t.grid()),
            Topology::Torus(t) => Some(t.grid()),
            Topology::Hypercube(t) => Some(t.grid()),
            Topology::Tofu(t) => Some(t.grid()),
            _ => None,
        }
    }

    /// The first port of `switch` that is free for hosts.
    pub fn switch_port_count(&self, switch: SwitchId) -> Port {
        self.generator().switch_port_count(switch.0) as Port
    }

    /// Checks the numbers, sizes included.
    ///
    /// # Errors
    /// Says which number is wrong and what it should be.
    pub fn check(&self) -> Result<(), TopologyError> {
        let generator = self.generator();
        let topology = generator.kind();
        generator.check()?;
        let too_large = |what, count, max| Err(TopologyError::TooLarge { topology, what, count, max });
        let count = generator.switch_count();
        if count > SWITCH_COUNT_MAX {
            return too_large("switches", count, SWITCH_COUNT_MAX);
        }
        let port_count_max = u64::from(Port::MAX);
        let widest = (0..count as u32).map(|switch| generator.switch_port_count(switch)).max().unwrap_or(0);
        if widest > port_count_max {
            return too_large("ports on a switch", widest, port_count_max);
        }
        Ok(())
    }

    /// The graph of switches; every cable is a `link`.
    ///
    /// # Errors
    /// As [`Topology::check`].
    pub fn build(&self, link: LinkSpec) -> Result<Graph, TopologyError> {
        self.check()?;
        let generator = self.generator();
        let mut graph = Graph::new();
        for switch in 0..generator.switch_count() as u32 {
            graph.add_switch(&generator.switch_name(switch), &generator.coordinates(switch));
        }
        for Cable { a, b, width } in generator.cables() {
            let spec = LinkSpec { cable_count: link.cable_count * width, ..link };
            graph.connect((SwitchId(a.0).into(), a.1), (SwitchId(b.0).into(), b.1), spec)?;
        }
        Ok(graph)
    }

    /// The graph with the same number of hosts at every switch that carries hosts, named `h0` and so on in
    /// the order of the switches. NICs take the switch's ports from [`Topology::switch_port_count`] on, host
    /// by host.
    ///
    /// # Errors
    /// As [`Topology::check`], or if the hosts do not fit on the switch.
    pub fn build_with_hosts(&self, link: LinkSpec, hosts: HostLayout) -> Result<Graph, TopologyError> {
        let mut graph = self.build(link)?;
        for switch in graph.switches().filter(|switch| self.generator().carries_hosts(switch.0)) {
            let first_port = u64::from(self.switch_port_count(switch));
            let count = first_port + u64::from(hosts.per_switch_count) * u64::from(hosts.nic_count);
            if count > u64::from(Port::MAX) {
                let (topology, max) = (self.generator().kind(), u64::from(Port::MAX));
                return Err(TopologyError::TooLarge { topology, what: "ports on a switch", count, max });
            }
            let mut port = first_port as Port;
            for _ in 0..hosts.per_switch_count {
                let host = graph.add_host(&format!("h{}", graph.host_count()));
                for nic in 0..hosts.nic_count {
                    graph.connect((host.into(), nic), (switch.into(), port), hosts.link)?;
                    port += 1;
                }
            }
        }
        Ok(graph)
    }
}

fn invalid(topology: &'static str, problem: impl Into<String>) -> TopologyError {
    TopologyError::Invalid { topology, problem: problem.into() }
}

/// The product of extents without overflow: saturates, which [`Topology::check`] then reports as too large.
fn product(extents: &[u32]) -> u64 {
    extents.iter().fold(1_u64, |count, &extent| count.saturating_mul(u64::from(extent)))
}

#[cfg(test)]
mod tests;
