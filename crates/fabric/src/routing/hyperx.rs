//! Dimension order on a HyperX: one hop in each dimension that differs. Free of deadlock on one virtual
//! channel.

use super::Hop;
use crate::graph::{Port, SwitchId};
use crate::topology::HyperX;
use crate::topology::complete::port_towards;

/// Dimension order on a HyperX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperXDimensionOrder {
    extents: Vec<u32>,
}

impl HyperXDimensionOrder {
    /// Routes for a checked HyperX.
    pub fn new(topology: &HyperX) -> HyperXDimensionOrder {
        HyperXDimensionOrder { extents: topology.extents.clone() }
    }

    /// See [`super::Routing::next_hop`].
    pub fn next_hop(&self, at: SwitchId, to: SwitchId) -> Hop {
        let (mut here, mut there, mut first_port) = (at.0, to.0, 0);
        for &extent in &self.extents {
            let (from, towards) = (here % extent, there % extent);
            if from != towards {
                return Hop { port: (first_port + port_towards(from, towards)) as Port, vc: 0 };
            }
            (here, there) = (here / extent, there / extent);
            first_port += extent - 1;
        }
        unreachable!("a route is asked for between two different switches")
    }
}
