//! Arista EOS.
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs, pause in both directions where the platform has
//! it, aging up to 1,000,000 s. Cannot: more than one untagged VLAN on a port (a trunk has one native VLAN),
//! so the hosts must tag; say in one command for all ASICs how LAGs hash (left as a comment). Written from
//! the manuals; not tried on the hardware.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanId, VlanSet};

use super::ios_family::{self, Members, Words, write_vlans};
use super::mstp::Make;
use super::text::{Interface, line};
use super::{Config, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct AristaEos;

impl Dialect for AristaEos {
    fn name(&self) -> &'static str {
        "arista-eos"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        ios_family::emit(self, plan, switch)
    }
}

impl Words for AristaEos {
    const OPENING: &'static str = "Arista EOS. Enter in configure mode, or as a session.";
    const INDENT: &'static str = "   ";
    const LAG: &'static str = "Port-Channel";
    const TRUNK: &'static [&'static str] = &["switchport mode trunk"];
    const AFTER_VLANS: &'static [&'static str] = &["spanning-tree bpdufilter enable"];
    const MSTP: Make = Make::Eos;
    const MEMBERS: Members = Members::Bare;

    fn write_globals(out: &mut String, switch: &SwitchPlan, _mtu_bytes: Option<u32>) {
        // Switched ports pass payloads of up to 9,192 bytes by default.
        write_vlans(out, switch, "");
        if let Some(aging_time_s) = switch.aging_time_s {
            *out += "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them.\n";
            line(out, format_args!("mac address-table aging-time {aging_time_s}"));
        }
        if !switch.lags.is_empty() {
            *out += "!\n! Several connections between two hosts spread over the cables of a link. The words depend on \
                     the ASIC;\n! Trident: port-channel load-balance trident fields ip source-ip destination-ip \
                     source-port destination-port\n";
        }
    }

    fn native(vlan: Option<VlanId>, _members: &VlanSet) -> Vec<String> {
        // Without one all frames are tagged: untagged ones are dropped.
        let which = vlan.map_or_else(|| "tag".to_owned(), |vlan| vlan.to_string());
        vec![format!("switchport trunk native vlan {which}")]
    }

    fn pause(interface: Interface<'_>, is_on: bool) -> Vec<String> {
        let Interface::Port(_) = interface else { return Vec::new() };
        let state = if is_on { "on" } else { "off" };
        vec![format!("flowcontrol send {state}"), format!("flowcontrol receive {state}")]
    }

    fn save() -> &'static str {
        "write memory"
    }

    fn no_spanning_tree(_carried: &VlanSet) -> Option<String> {
        Some("spanning-tree mode none".into())
    }
}
