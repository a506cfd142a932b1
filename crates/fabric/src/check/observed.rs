//! What a switch was found to be set to, in words no make of switch owns.

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::{MacAddr, Membership, VlanId, VlanSet};

/// State of one switch. Values missing in a source stay `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Ports and LAGs that the source mentions.
    pub interfaces: BTreeMap<InterfaceName, ObservedInterface>,
    /// VLANs that exist on the switch, if the source has them: a port passes no frame of others.
    pub vlans: Option<VlanSet>,
    /// Whether the source names the LAG of a port.
    pub knows_lags: bool,
    /// Aging time, s; 0 for never.
    pub aging_time_s: Option<u32>,
    /// VLANs in which no spanning tree protocol runs, if the source has them.
    pub without_spanning_tree: Option<VlanSet>,
    /// MSTP's region and costs, if the source has them.
    pub mstp: Option<ObservedMstp>,
    /// Faults independent of the plan: VLAN filtering that is off.
    pub faults: Vec<String>,
    /// Learned addresses.
    pub table: Option<Vec<TableEntry>>,
}

/// MSTP settings found on a switch. Missing ones have their defaults: priority 32,768, the usual cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedMstp {
    /// The region's name.
    pub region: Option<String>,
    /// The revision of its map.
    pub revision: Option<u16>,
    /// VLANs by instance.
    pub instances: BTreeMap<u16, VlanSet>,
    /// The switch's priority by instance.
    pub priorities: BTreeMap<u16, u32>,
    /// Costs by interface and instance.
    pub costs: BTreeMap<(InterfaceName, u16), u32>,
}

/// Every VLAN there can be.
pub(super) fn every_vlan() -> VlanSet {
    (1..=VlanId::MAX).filter_map(VlanId::new).collect()
}

impl Observed {
    /// Adds VLANs that exist by the source.
    pub(super) fn declare(&mut self, vlans: &VlanSet) {
        let known = self.vlans.get_or_insert_default();
        vlans.iter().for_each(|vlan| known.insert(vlan));
    }

    /// Takes over what `ip -j -d link show` has of a bridge.
    pub(super) fn add(&mut self, other: Observed) {
        self.knows_lags |= other.knows_lags;
        self.aging_time_s = self.aging_time_s.or(other.aging_time_s);
        self.without_spanning_tree = self.without_spanning_tree.take().or(other.without_spanning_tree);
        self.faults.extend(other.faults);
        for (name, found) in other.interfaces {
            let interface = self.interfaces.entry(name).or_default();
            interface.lag = interface.lag.or(found.lag);
            interface.is_shut |= found.is_shut;
        }
    }

    /// An interface, however the source abbreviates its name.
    pub fn interface(&self, name: &InterfaceName) -> Option<&ObservedInterface> {
        self.interfaces.get(name).or_else(|| {
            let InterfaceName::Port(wanted) = name else { return None };
            self.interfaces.iter().find_map(|(known, interface)| match known {
                InterfaceName::Port(port) if same_port(wanted, port) => Some(interface),
                _ => None,
            })
        })
    }
}

/// A port by the switch's own name for it, or a LAG by its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterfaceName {
    /// A port.
    Port(String),
    /// A LAG.
    Lag(u16),
    /// The switch's own interface into the network (a bridge inside a host).
    Own,
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterfaceName::Port(name) => f.write_str(name),
            InterfaceName::Lag(number) => write!(f, "LAG {number}"),
            InterfaceName::Own => f.write_str("the bridge itself"),
        }
    }
}

/// A port or LAG as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedInterface {
    /// Its VLANs.
    pub membership: Membership,
    /// The LAG it is a member of.
    pub lag: Option<u16>,
    /// Whether it is administratively down.
    pub is_shut: bool,
    /// Whether pause frames (802.3x) are used, if the source has that.
    pub pause: Option<bool>,
}

/// A learned address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    /// The VLAN.
    pub vlan: VlanId,
    /// The address.
    pub mac: MacAddr,
    /// Where it was learned.
    pub interface: InterfaceName,
}

/// Whether two names mean one port: `GigabitEthernet1/0/1`, `gigabitethernet 1/0/1` and `Gi1/0/1` do.
pub(super) fn same_port(a: &str, b: &str) -> bool {
    a == b || short(a) == short(b)
}

/// The first two letters and everything from the first digit on.
fn short(name: &str) -> String {
    let compact: String =
        name.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let digits_at = compact.find(|c: char| c.is_ascii_digit()).unwrap_or(compact.len());
    let letters: String = compact.chars().take(digits_at.min(2)).collect();
    letters + compact.get(digits_at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviated_names_mean_the_same_port() {
        assert!(same_port("GigabitEthernet1/0/1", "Gi1/0/1"));
        assert!(same_port("Ethernet1/2", "ethernet 1/2"));
        assert!(same_port("1/g7", "1/g7"));
        assert!(!same_port("1/g7", "1/xg7"));
        assert!(!same_port("Te1/0/1", "Gi1/0/1"));
        assert!(!same_port("Ethernet1", "Ethernet11"));
    }
}
