//! Dell PowerConnect 6200 (the paper's switches, firmware 2 and 3) and Networking OS6 (N series).
//!
//! Can: several untagged VLANs on a port (general mode), LACP and static LAGs hashed over addresses and
//! ports, pause, aging up to 100,000 s. Cannot: hold many static MAC entries (100 on a 6248), so addresses
//! are learned; use VLAN 4094. The two generations differ in a few words; port names distinguish them: `1/g1`
//! and `1/xg1` are PowerConnect, `Gi1/0/1` and `Te1/0/1` OS6. Written from the manuals; not tried on the
//! hardware.

use crate::graph::SwitchId;
use crate::plan::{Membership, Plan, PortRole, SwitchPlan, VlanSet};

use super::mstp::{self, Make};
use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct DellOs6;

/// 4094 is reserved in both generations.
const VLAN_MAX: u16 = 4093;
/// Ranges in one command: lines stay below 128 characters.
const RANGES_MAX: usize = 8;

impl Dialect for DellOs6 {
    fn name(&self) -> &'static str {
        "dell-os6"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let carried = text::carried(switch);
        if let Some(vlan) = carried.iter().find(|vlan| vlan.get() > VLAN_MAX) {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect: self.name(),
                problem: format!("VLAN {vlan} is reserved; the highest is {VLAN_MAX}"),
                remedy: "lower first_vlan under [plan]".into(),
            });
        }
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let is_powerconnect = switch.ports.iter().all(|port| !port.name.contains(char::is_uppercase));
        let mut out = text::header(plan, switch, "!", "Dell PowerConnect / OS6. Enter in privileged mode.");
        line(&mut out, "configure");
        write_globals(&mut out, plan, switch, &carried, is_powerconnect);
        mstp::write_region(&mut out, Make::DellOs6, plan, switch);
        if let Some(mtu_bytes) = mtu_bytes.filter(|_| !is_powerconnect) {
            line(&mut out, format_args!("system jumbo mtu {}", mtu_bytes + text::FRAME_OVERHEAD_BYTES));
        }
        let frame_bytes = mtu_bytes.filter(|_| is_powerconnect).map(|mtu| mtu + text::FRAME_OVERHEAD_BYTES);
        for port in text::unused_ports(switch) {
            line(&mut out, format_args!("!\n{}", interface_line(is_powerconnect, &port.name)));
            out += "description \"unused\"\nshutdown\nexit\n";
        }
        for port in switch.ports.iter().filter(|port| port.lag.is_some()) {
            let lag = switch.lags.iter().find(|lag| Some(lag.number) == port.lag);
            let mode = match (lag.is_none_or(|lag| lag.lacp), is_powerconnect) {
                (true, true) => "auto",
                (true, false) => "active",
                (false, _) => "on",
            };
            line(&mut out, format_args!("!\n{}", interface_line(is_powerconnect, &port.name)));
            line(&mut out, format_args!("description \"{}\"", text::reason(plan, port.role)));
            line(&mut out, format_args!("channel-group {} mode {mode}", port.lag.unwrap_or_default()));
            write_long_frames(&mut out, frame_bytes);
            out += "no shutdown\nexit\n";
        }
        for interface in text::interfaces(switch) {
            let heading = match interface {
                Interface::Lag(lag) => format!("interface port-channel {}", lag.number),
                Interface::Port(port) => interface_line(is_powerconnect, &port.name),
            };
            line(&mut out, format_args!("!\n{heading}"));
            write_interface(&mut out, plan, interface, is_powerconnect, frame_bytes);
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last("!");
            out += "no spanning-tree\n";
        }
        out += "exit\n";
        // It asks whether to.
        out += "!\n! For the next start, too.\ncopy running-config startup-config\ny\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn interface_line(is_powerconnect: bool, port: &str) -> String {
    if is_powerconnect { format!("interface ethernet {port}") } else { format!("interface {port}") }
}

fn write_globals(
    out: &mut String,
    plan: &Plan,
    switch: &SwitchPlan,
    carried: &VlanSet,
    is_powerconnect: bool,
) {
    if !carried.is_empty() {
        let database = if is_powerconnect { "vlan database\n" } else { "" };
        line(out, format_args!("!\n! The VLANs.\n{database}vlan {carried}\nexit"));
    }
    if let Some(aging_time_s) = switch.aging_time_s {
        *out += "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them.\n";
        let command = if is_powerconnect { "bridge aging-time" } else { "mac address-table aging-time" };
        line(out, format_args!("{command} {aging_time_s}"));
    }
    *out += "!\n! 802.3x: frames wait instead of being lost.\n";
    line(out, if plan.pause { "flowcontrol" } else { "no flowcontrol" });
}

fn write_long_frames(out: &mut String, frame_bytes: Option<u32>) {
    if let Some(frame_bytes) = frame_bytes {
        line(out, format_args!("mtu {frame_bytes}"));
    }
}

fn write_interface(
    out: &mut String,
    plan: &Plan,
    interface: Interface<'_>,
    is_powerconnect: bool,
    frame_bytes: Option<u32>,
) {
    line(out, format_args!("description \"{}\"", text::reason(plan, interface.role())));
    if let Interface::Lag(_) = interface {
        // Mode 6: source and destination address and TCP/UDP port.
        *out += "hashing-mode 6\n";
    }
    write_long_frames(out, frame_bytes);
    *out += "no shutdown\n";
    let membership = interface.membership();
    let remove = text::superfluous(membership, VLAN_MAX);
    if let PortRole::Link { .. } = interface.role()
        && membership.untagged.is_empty()
        && membership.pvid.is_none()
    {
        *out += "switchport mode trunk\n";
        write_trunk(out, &membership.tagged, &remove, is_powerconnect);
    } else {
        write_general(out, membership, &remove);
    }
    for command in mstp::interface(Make::DellOs6, plan, interface) {
        line(out, command);
    }
    *out += "exit\n";
}

/// A trunk of a PowerConnect begins in no VLAN, one of OS6 in all: there the list is replaced.
fn write_trunk(out: &mut String, tagged: &VlanSet, remove: &VlanSet, is_powerconnect: bool) {
    match (is_powerconnect, tagged.is_empty()) {
        (true, _) => write_remove(out, "trunk", remove),
        (false, true) => line(out, format_args!("switchport trunk allowed vlan remove 1-{VLAN_MAX}")),
        (false, false) => line(out, format_args!("switchport trunk allowed vlan {tagged}")),
    }
    if is_powerconnect && !tagged.is_empty() {
        line(out, format_args!("switchport trunk allowed vlan add {tagged}"));
    }
}

fn write_general(out: &mut String, membership: &Membership, remove: &VlanSet) {
    *out += "switchport mode general\n";
    match membership.pvid {
        Some(pvid) => line(out, format_args!("switchport general pvid {pvid}")),
        None => line(out, "switchport general acceptable-frame-type tagged-only"),
    }
    // Membership first, so that the PVID's VLAN is never missing; VLAN 1 goes last.
    for (set, how) in [(&membership.untagged, "untagged"), (&membership.tagged, "tagged")] {
        if !set.is_empty() {
            line(out, format_args!("switchport general allowed vlan add {set} {how}"));
        }
    }
    write_remove(out, "general", remove);
}

fn write_remove(out: &mut String, mode: &str, remove: &VlanSet) {
    for list in text::in_lists(remove, RANGES_MAX) {
        line(out, format_args!("switchport {mode} allowed vlan remove {list}"));
    }
}
