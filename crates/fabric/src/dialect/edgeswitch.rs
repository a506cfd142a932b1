//! Ubiquiti EdgeSwitch.
//!
//! Can: several untagged VLANs on a port, LACP and static LAGs hashed over addresses and ports, pause, aging
//! up to 1,000,000 s. Cannot: use VLAN 4094. Written from Ubiquiti's CLI command reference; not tried on a
//! device.

use crate::graph::SwitchId;
use crate::plan::{Plan, PortRole, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct EdgeSwitch;

/// Highest VLAN.
const VLAN_MAX: u16 = 4093;
/// Ranges in one command: lines stay below 128 characters.
const RANGES_MAX: usize = 8;

impl Dialect for EdgeSwitch {
    fn name(&self) -> &'static str {
        "edgeswitch"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let carried = text::carried(switch);
        if let Some(vlan) = carried.iter().find(|vlan| vlan.get() > VLAN_MAX) {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect: self.name(),
                problem: format!("VLAN {vlan} is reserved; the highest is {VLAN_MAX}"),
                remedy: "lower first_vlan under [plan]".into(),
            });
        }
        let mut out = text::header(plan, switch, "!", "Ubiquiti EdgeSwitch. Enter in privileged mode.");
        if !carried.is_empty() {
            out += "vlan database\n";
            for list in text::in_lists(&carried, RANGES_MAX) {
                line(&mut out, format_args!("vlan {list}"));
            }
            out += "exit\n";
        }
        out += "configure\n";
        if let Some(aging_time_s) = switch.aging_time_s {
            line(&mut out, format_args!("bridge aging-time {aging_time_s}"));
        }
        out += if plan.pause { "storm-control flowcontrol\n" } else { "no storm-control flowcontrol\n" };
        for port in &switch.ports {
            write_port(&mut out, plan, switch, port, mtu_bytes);
        }
        for interface in text::interfaces(switch) {
            write_interface(&mut out, plan, interface);
        }
        out += &text::spanning_tree_last("!");
        out += "no spanning-tree\nexit\n!\n! For the next start, too.\nwrite memory confirm\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn write_port(
    out: &mut String,
    plan: &Plan,
    switch: &SwitchPlan,
    port: &crate::plan::PortPlan,
    mtu_bytes: Option<u32>,
) {
    line(out, format_args!("!\ninterface {}", port.name));
    line(out, format_args!("description '{}'", text::reason(plan, port.role)));
    if port.role == PortRole::Unused {
        *out += "shutdown\nexit\n";
        return;
    }
    if let Some(mtu_bytes) = mtu_bytes {
        line(out, format_args!("mtu {}", mtu_bytes + text::FRAME_OVERHEAD_BYTES));
    }
    if let Some(number) = port.lag {
        line(out, format_args!("addport lag {number}"));
        if switch.lags.iter().any(|lag| lag.number == number && lag.lacp) {
            *out += "lacp actor admin state longtimeout\n";
        }
    }
    *out += "no shutdown\nexit\n";
}

fn write_interface(out: &mut String, plan: &Plan, interface: Interface<'_>) {
    match interface {
        Interface::Port(port) => line(out, format_args!("!\ninterface {}", port.name)),
        Interface::Lag(lag) => {
            line(out, format_args!("!\ninterface lag {}", lag.number));
            line(out, format_args!("description '{}'", text::reason(plan, lag.role)));
            *out += if lag.lacp { "no port-channel static\n" } else { "port-channel static\n" };
            // Mode 6: source and destination address and TCP/UDP port.
            *out += "port-channel load-balance 6\n";
        }
    }
    let membership = interface.membership();
    let members = text::members(membership);
    for (command, set) in [("include", &members), ("exclude", &text::superfluous(membership, VLAN_MAX))] {
        for list in text::in_lists(set, RANGES_MAX) {
            line(out, format_args!("vlan participation {command} {list}"));
        }
    }
    for (command, set) in [("no vlan tagging", &membership.untagged), ("vlan tagging", &membership.tagged)] {
        for list in text::in_lists(set, RANGES_MAX) {
            line(out, format_args!("{command} {list}"));
        }
    }
    match membership.pvid {
        Some(pvid) => line(out, format_args!("vlan acceptframe all\nvlan pvid {pvid}")),
        None => *out += "vlan acceptframe vlanonly\n",
    }
    *out += "vlan ingressfilter\nno shutdown\nexit\n";
}
