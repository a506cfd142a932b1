//! Cisco NX-OS (Nexus).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs hashed over addresses and ports, pause in both
//! directions (not together with priority flow control), aging up to 918,000 s. Cannot: more than one
//! untagged VLAN on a port, so the hosts must tag. Written from the manuals; not tried on the hardware.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanId, VlanSet};

use super::ios_family::{self, Members, Words, write_aging, write_hashing, write_vlans};
use super::mstp::Make;
use super::text::Interface;
use super::{Config, Dialect, Refusal};

/// `system jumbomtu` as shipped, and the most there is.
const JUMBO_BYTES: u32 = 9216;

/// See the module's documentation.
#[derive(Debug)]
pub struct CiscoNxos;

impl Dialect for CiscoNxos {
    fn name(&self) -> &'static str {
        "cisco-nxos"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        ios_family::emit(self, plan, switch)
    }
}

impl Words for CiscoNxos {
    const OPENING: &'static str = "Cisco NX-OS. Enter in configure mode.";
    const INDENT: &'static str = "  ";
    const LAG: &'static str = "port-channel";
    const TRUNK: &'static [&'static str] = &["switchport", "switchport mode trunk"];
    const AFTER_VLANS: &'static [&'static str] = &[];
    const MSTP: Make = Make::Nxos;
    const MEMBERS: Members = Members::WithVlans;

    fn write_globals(out: &mut String, switch: &SwitchPlan, _mtu_bytes: Option<u32>) {
        if switch.lags.iter().any(|lag| lag.lacp) {
            *out += "!\nfeature lacp\n";
        }
        write_vlans(out, switch, "");
        *out += "!\n! Trunks carry tagged frames only: untagged ones are dropped.\nvlan dot1q tag native\n";
        write_aging(out, switch);
        write_hashing(out, switch, "port-channel load-balance src-dst ip-l4port");
    }

    fn native(vlan: Option<VlanId>, _members: &VlanSet) -> Vec<String> {
        // The switch also tags native VLANs unless this line forbids it (see `vlan dot1q tag native` above).
        // Without one it is VLAN 1 again, which no trunk allows, also where an earlier plan had forbidden it.
        let Some(vlan) = vlan else { return vec!["no switchport trunk native vlan".into()] };
        vec![format!("switchport trunk native vlan {vlan}"), "no switchport trunk native vlan tag".into()]
    }

    fn pause(_interface: Interface<'_>, is_on: bool) -> Vec<String> {
        let state = if is_on { "on" } else { "off" };
        vec![format!("flowcontrol receive {state}"), format!("flowcontrol send {state}")]
    }

    fn long_frames(_interface: Interface<'_>, _mtu_bytes: u32) -> Vec<String> {
        // A port between switches knows two sizes: 1,500 and the system's jumbo size.
        vec![format!("mtu {JUMBO_BYTES}")]
    }

    fn save() -> &'static str {
        "copy running-config startup-config"
    }

    fn no_spanning_tree(carried: &VlanSet) -> Option<String> {
        (!carried.is_empty()).then(|| format!("no spanning-tree vlan {carried}"))
    }
}
