//! Minimal routes on a dragonfly: to the switch with the global link, across it, to the destination.
//!
//! Local links before the global one are used on virtual channel 0, those after it on channel 1 (J. Kim et
//! al., ISCA 2008), so local, global and local channels are always waited for in this order.

use super::Hop;
use crate::graph::{Port, SwitchId};
use crate::topology::Dragonfly;
use crate::topology::complete::port_towards;

/// Minimal routes on a [`Dragonfly`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DragonflyMinimal {
    topology: Dragonfly,
}

impl DragonflyMinimal {
    /// Routes for a checked dragonfly.
    pub fn new(topology: &Dragonfly) -> DragonflyMinimal {
        DragonflyMinimal { topology: topology.clone() }
    }

    /// Flows that between them use every global link.
    pub fn flow_count(&self) -> u32 {
        self.topology.links_between_groups()
    }

    /// See [`super::Routing::next_hop`].
    pub fn next_hop(&self, at: SwitchId, arrived: Option<Hop>, to: SwitchId, flow: u32) -> Hop {
        let size = self.topology.group_size;
        let (group, to_group) = (at.0 / size, to.0 / size);
        let towards = |place: u32| port_towards(at.0 % size, place % size) as Port;
        if group == to_group {
            let after_global = arrived.is_some_and(|hop| u32::from(hop.port) + 1 >= size);
            return Hop { port: towards(to.0), vc: u8::from(after_global) };
        }
        let copy = flow % self.topology.links_between_groups();
        let (gateway, global_port) = self.topology.gateway(group, to_group, copy);
        let port = if gateway == at.0 { global_port } else { towards(gateway) };
        Hop { port, vc: 0 }
    }
}
