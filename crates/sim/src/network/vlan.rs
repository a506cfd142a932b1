//! Which VLAN a frame is on: by the port of its sender, or by the switches of both ends.

use ayatori_fabric::graph::Lane;
use ayatori_fabric::routing::RoutingError;

use super::{Network, NicId, Probe};

/// The VLAN of frames between two NICs, as an index into the trees of the network's
/// [`VlanForwarding`](ayatori_fabric::routing::VlanForwarding).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VlanOf {
    /// By sender, as its switch port's PVID decides: indexed by NIC.
    Sender(Vec<u16>),
    /// By both switches, as hosts that tag decide: at `from * switch_count + to`.
    Switches {
        /// Number of switches.
        switch_count: usize,
        /// The VLANs.
        vlans: Vec<u16>,
    },
}

impl<P: Probe> Network<P> {
    /// Puts frames on VLANs. Until then a packet's flow, for the routing, is the number of the NIC it is for.
    #[must_use]
    pub fn with_vlans(mut self, vlan_of: VlanOf) -> Network<P> {
        self.vlan_of = Some(vlan_of);
        self
    }

    /// What the routing knows of the packets from one NIC to another beside their switches.
    pub(super) fn flow(&self, from: NicId, to: NicId) -> u32 {
        match &self.vlan_of {
            None => to.0,
            Some(VlanOf::Sender(vlans)) => vlans[from.0 as usize].into(),
            Some(VlanOf::Switches { switch_count, vlans }) => {
                let [from, to] = [from, to].map(|nic| self.nics[nic.0 as usize].switch as usize);
                vlans[from * switch_count + to].into()
            }
        }
    }

    /// The links between switches that packets from one NIC to another cross.
    ///
    /// # Errors
    /// If graph and routing do not belong together.
    pub fn path(&self, from: NicId, to: NicId) -> Result<Vec<Lane>, RoutingError> {
        let [start, end] = [from, to].map(|nic| self.switch_of(nic));
        self.routing.path(&self.graph, start, end, self.flow(from, to))
    }
}
