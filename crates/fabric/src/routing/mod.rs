//! Routes: at which port a packet leaves a switch, and on which virtual channel.
//!
//! One file a method, named by the literature's name. Where the topology is regular the next hop is
//! arithmetic on coordinates; only irregular graphs get tables. Deliberately absent: whether a set of routes
//! can deadlock (`deadlock` decides that for any routing), adaptivity (a route is a function of where the
//! packet is, how it came there, where it goes, and its flow), and hosts (a route ends at the destination's
//! switch).
//!
//! A packet's *flow* picks among equal ways where there are several (fat trees, parallel global links of a
//! dragonfly): packets with the same destination and flow take the same path. The destination host's number
//! is the usual flow.
//!
//! ```
//! use ayatori_fabric::graph::{LinkSpec, SwitchId};
//! use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
//! use ayatori_fabric::topology::{Topology, Torus};
//! let torus = Topology::Torus(Torus::new(&[4, 4]));
//! let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
//! let graph = torus.build(link)?;
//! let method = Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Up };
//! let routing = Routing::new(method, &torus, &graph)?;
//! // From (3, 0) to (1, 1): two hops up in x across the wrap-around link, one up in y.
//! let path = routing.path(&graph, SwitchId(3), SwitchId(5), 0)?;
//! assert_eq!(path.iter().map(|lane| lane.vc).collect::<Vec<_>>(), [1, 1, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dimension_order;
mod dragonfly;
mod fat_tree;
mod hyperx;
mod table;
mod tree;
mod vlan;

use crate::graph::{Graph, Lane, Node, Port, SwitchId};
use crate::topology::Topology;

pub use dimension_order::{Dateline, DimensionOrder, TieRule};
pub use dragonfly::DragonflyMinimal;
pub use fat_tree::DModK;
pub use hyperx::HyperXDimensionOrder;
pub use table::Table;
pub use tree::TreePath;
pub use vlan::VlanForwarding;

/// A port and a virtual channel. Leaving a switch: the output port, and the channel whose buffer at the far
/// end the packet takes. Arriving: the input port and the channel it was buffered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The port of this switch.
    pub port: Port,
    /// The virtual channel, from 0.
    pub vc: u8,
}

/// Which routes to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One dimension after the other, the shorter way around. For meshes, tori, rings, hypercubes, Tofu and
    /// HyperX.
    DimensionOrder {
        /// Which virtual channels packets use around rings.
        dateline: Dateline,
        /// Which way to go where both ways around are equally long.
        tie: TieRule,
    },
    /// Up to a common ancestor and down again: trees and fat trees (D-mod-k).
    AncestorFirst,
    /// Local, global, local link of a dragonfly, with virtual channel 1 after the global one.
    DragonflyMinimal,
    /// A shortest path by table, for any graph. May deadlock: ask `deadlock::check`.
    Minimal,
    /// Up*/down* by table, for any graph; never deadlocks (M. Schroeder et al., "Autonet", 1991).
    UpDown {
        /// The root; `None` takes the switch nearest to all others.
        root: Option<SwitchId>,
    },
}

/// Why there is no routing, or no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The method does not know this topology.
    #[error("{method} does not route a {topology}; {advice}")]
    WrongTopology {
        /// The method asked for.
        method: &'static str,
        /// The kind of topology.
        topology: &'static str,
        /// The routing that works instead.
        advice: &'static str,
    },
    /// The graph falls into parts.
    #[error("no way from {from} to {to}: the graph of switches is not connected")]
    Unreachable {
        /// Name of a switch.
        from: String,
        /// Name of a switch that cannot be reached from it.
        to: String,
    },
    /// A route leads to a port without a switch behind it, or in cycles: graph and routing do not belong
    /// together.
    #[error(
        "the route from {from} to {to} breaks at {at} (port {port}): the graph is not the one routed for"
    )]
    Broken {
        /// Name of the source.
        from: String,
        /// Name of the destination.
        to: String,
        /// Where it breaks.
        at: String,
        /// The port that leads nowhere.
        port: Port,
    },
    /// More switches than a table can hold.
    #[error("{switch_count} switches are too many for a routing table; at most {max}")]
    TooManySwitches {
        /// Number of switches in the graph.
        switch_count: usize,
        /// The largest number.
        max: usize,
    },
    /// A VLAN whose links have a loop or do not hang together.
    #[error("the links of VLAN {vlan} (counted from 0) are no tree")]
    NoTree {
        /// Its index.
        vlan: usize,
    },
    /// A root that is not in the graph.
    #[error("up*/down* cannot have switch {root} as its root: there are {switch_count} switches")]
    NoSuchRoot {
        /// The root asked for.
        root: u32,
        /// Number of switches in the graph.
        switch_count: usize,
    },
}

/// Routes for all pairs of switches. One enum, so that a hop costs a branch and not a dynamic call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routing {
    /// See [`Method::DimensionOrder`].
    DimensionOrder(DimensionOrder),
    /// See [`Method::DimensionOrder`], for HyperX.
    HyperX(HyperXDimensionOrder),
    /// See [`Method::AncestorFirst`].
    Tree(TreePath),
    /// See [`Method::AncestorFirst`].
    FatTree(DModK),
    /// See [`Method::DragonflyMinimal`].
    Dragonfly(DragonflyMinimal),
    /// See [`Method::Minimal`] and [`Method::UpDown`].
    Table(Table),
    /// The trees of a VLAN plan; the flow is the index of a packet's VLAN.
    Vlan(VlanForwarding),
}

impl Method {
    /// The method usual for a topology; all of them are free of deadlock.
    pub fn usual_for(topology: &Topology) -> Method {
        match topology {
            Topology::Tree(_) | Topology::FatTree(_) => Method::AncestorFirst,
            Topology::Dragonfly(_) => Method::DragonflyMinimal,
            Topology::Complete(_) => Method::Minimal,
            Topology::Explicit(_) => Method::UpDown { root: None },
            _ => Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Up },
        }
    }

    /// The method's name.
    pub fn name(&self) -> &'static str {
        match self {
            Method::DimensionOrder { .. } => "dimension order",
            Method::AncestorFirst => "ancestor first",
            Method::DragonflyMinimal => "dragonfly minimal",
            Method::Minimal => "minimal",
            Method::UpDown { .. } => "up*/down*",
        }
    }
}

impl Routing {
    /// Routes of `graph`, which `topology` has built.
    ///
    /// # Errors
    /// If the method does not know the topology, or the graph is not connected.
    pub fn new(method: Method, topology: &Topology, graph: &Graph) -> Result<Routing, RoutingError> {
        let wrong = |advice| RoutingError::WrongTopology {
            method: method.name(),
            topology: topology.generator().kind(),
            advice,
        };
        match (method, topology) {
            (Method::DimensionOrder { .. }, Topology::HyperX(t)) => {
                Ok(Routing::HyperX(HyperXDimensionOrder::new(t)))
            }
            (Method::DimensionOrder { dateline, tie }, _) => match topology.grid() {
                Some(grid) => Ok(Routing::DimensionOrder(DimensionOrder::new(&grid, dateline, tie))),
                None => Err(wrong("use minimal or up*/down*")),
            },
            (Method::AncestorFirst, Topology::Tree(t)) => Ok(Routing::Tree(TreePath::new(t))),
            (Method::AncestorFirst, Topology::FatTree(t)) => Ok(Routing::FatTree(DModK::new(t))),
            (Method::AncestorFirst, _) => Err(wrong("use up*/down*, which makes a tree of any graph")),
            (Method::DragonflyMinimal, Topology::Dragonfly(t)) => {
                Ok(Routing::Dragonfly(DragonflyMinimal::new(t)))
            }
            (Method::DragonflyMinimal, _) => Err(wrong("use minimal")),
            (Method::Minimal, _) => Table::minimal(graph).map(Routing::Table),
            (Method::UpDown { root }, _) => Table::up_down(graph, root).map(Routing::Table),
        }
    }

    /// Where a packet for a host at switch `to` leaves switch `at`, having arrived by `arrived` (`None` at
    /// the source). `at` and `to` must differ and be of the graph routed for.
    #[inline]
    pub fn next_hop(&self, at: SwitchId, arrived: Option<Hop>, to: SwitchId, flow: u32) -> Hop {
        match self {
            Routing::DimensionOrder(r) => r.next_hop(at, arrived, to),
            Routing::HyperX(r) => r.next_hop(at, to),
            Routing::Tree(r) => r.next_hop(at, to),
            Routing::FatTree(r) => r.next_hop(at, to, flow),
            Routing::Dragonfly(r) => r.next_hop(at, arrived, to, flow),
            Routing::Table(r) => r.next_hop(at, to),
            Routing::Vlan(r) => r.next_hop(at, to, flow),
        }
    }

    /// As [`Routing::next_hop`], and at how many further switches the same hop (port and virtual channel)
    /// follows: a packet that goes straight on needs to be routed once for all of them. 0 is always a right
    /// answer.
    #[inline]
    pub fn next_run(&self, at: SwitchId, arrived: Option<Hop>, to: SwitchId, flow: u32) -> (Hop, u32) {
        match self {
            Routing::DimensionOrder(r) => r.next_run(at, arrived, to),
            _ => (self.next_hop(at, arrived, to, flow), 0),
        }
    }

    /// Virtual channels that the routes use.
    pub fn vc_count(&self) -> u8 {
        match self {
            Routing::DimensionOrder(r) => r.vc_count(),
            Routing::Dragonfly(_) => 2,
            Routing::HyperX(_)
            | Routing::Tree(_)
            | Routing::FatTree(_)
            | Routing::Table(_)
            | Routing::Vlan(_) => 1,
        }
    }

    /// Number of flows that between them use all ways there are.
    pub fn flow_count(&self) -> u32 {
        match self {
            Routing::FatTree(r) => r.flow_count(),
            Routing::Dragonfly(r) => r.flow_count(),
            Routing::Vlan(r) => r.vlan_count(),
            _ => 1,
        }
    }

    /// The whole path between two switches: the lanes crossed, none if they are the same.
    ///
    /// # Errors
    /// If the path leads nowhere because `graph` is not the one routed for.
    pub fn path(
        &self,
        graph: &Graph,
        from: SwitchId,
        to: SwitchId,
        flow: u32,
    ) -> Result<Vec<Lane>, RoutingError> {
        let mut path = Vec::new();
        let (mut at, mut arrived) = (from, None);
        while at != to {
            let hop = self.next_hop(at, arrived, to, flow);
            let next = graph.neighbour(at.into(), hop.port).and_then(|n| match n.far.node {
                Node::Switch(switch) => Some((switch, n.far.port, n.channel)),
                Node::Host(_) => None,
            });
            let (switch, port, channel) = match next {
                // A path without cycles crosses a switch at most once.
                Some(next) if path.len() < graph.switch_count() => next,
                _ => {
                    let name = |switch: SwitchId| graph.name(switch.into()).to_string();
                    let (from, to, at) = (name(from), name(to), name(at));
                    return Err(RoutingError::Broken { from, to, at, port: hop.port });
                }
            };
            path.push(Lane { channel, vc: hop.vc });
            (at, arrived) = (switch, Some(Hop { port, vc: hop.vc }));
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests;
