//! Cisco IOS and IOS XE (Catalyst).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs, aging up to 1,000,000 s or none. Cannot: more
//! than one untagged VLAN on a port, so the hosts must tag; send pause frames (it only obeys them); on older
//! models hash over ports (`src-dst-ip` then). Written from the manuals; not tried on the hardware.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanId, VlanSet};

use super::ios_family::{self, Members, Words, write_aging, write_hashing, write_vlans};
use super::mstp::Make;
use super::text::{Interface, line};
use super::{Config, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct CiscoIos;

impl Dialect for CiscoIos {
    fn name(&self) -> &'static str {
        "cisco-ios"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        ios_family::emit(self, plan, switch)
    }
}

impl Words for CiscoIos {
    const OPENING: &'static str = "Cisco IOS. Enter in configure mode.";
    const INDENT: &'static str = " ";
    const LAG: &'static str = "Port-channel";
    const TRUNK: &'static [&'static str] = &["switchport mode trunk", "switchport nonegotiate"];
    const AFTER_VLANS: &'static [&'static str] = &[];
    const MSTP: Make = Make::Ios;
    const MEMBERS: Members = Members::WithVlans;

    fn write_globals(out: &mut String, switch: &SwitchPlan, mtu_bytes: Option<u32>) {
        line(
            out,
            "! Models that also know ISL want `switchport trunk encapsulation dot1q` before each `mode trunk`.",
        );
        write_vlans(out, switch, "\n exit");
        write_aging(out, switch);
        if let Some(mtu_bytes) = mtu_bytes {
            *out += "!\n! Longer frames, after the next start. 2960 and 3750 want `system mtu jumbo`.\n";
            line(out, format_args!("system mtu {mtu_bytes}"));
        }
        write_hashing(out, switch, "port-channel load-balance src-dst-mixed-ip-port");
    }

    fn native(vlan: Option<VlanId>, members: &VlanSet) -> Vec<String> {
        // Not every model has `vlan dot1q tag native`. Every model drops untagged frames if their VLAN is not
        // allowed.
        let others = [1].into_iter().chain((1..=VlanId::MAX).rev()).filter_map(VlanId::new);
        let native = vlan.or_else(|| others.into_iter().find(|&other| !members.contains(other)));
        native.map(|vlan| format!("switchport trunk native vlan {vlan}")).into_iter().collect()
    }

    fn pause(interface: Interface<'_>, is_on: bool) -> Vec<String> {
        let Interface::Port(_) = interface else { return Vec::new() };
        vec![format!("flowcontrol receive {}", if is_on { "on" } else { "off" })]
    }

    fn save() -> &'static str {
        "write memory"
    }

    fn no_spanning_tree(carried: &VlanSet) -> Option<String> {
        (!carried.is_empty()).then(|| format!("no spanning-tree vlan {carried}"))
    }
}
