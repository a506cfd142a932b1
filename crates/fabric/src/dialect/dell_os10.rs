//! Dell SmartFabric OS10 (S and Z series).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs hashed over addresses and ports, pause in both
//! directions, aging up to 1,000,000 s or none. Cannot: more than one untagged VLAN on a port, so the hosts
//! must tag. Written from Dell's user guide; not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{Plan, PortRole, SwitchPlan, VlanId};

use super::mstp::{self, Make};
use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct DellOs10;

/// 4094 is the switch's own.
const VLAN_MAX: u16 = 4093;
/// Ranges in one command.
const RANGES_MAX: usize = 8;

impl Dialect for DellOs10 {
    fn name(&self) -> &'static str {
        "dell-os10"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        if let Some(vlan) = text::carried(switch).iter().find(|vlan| vlan.get() > VLAN_MAX) {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect: self.name(),
                problem: format!("VLAN {vlan} is the switch's own; the highest is {VLAN_MAX}"),
                remedy: "lower first_vlan under [plan]".into(),
            });
        }
        let mut out = text::header(plan, switch, "!", "Dell OS10. Enter in privileged mode.");
        line(&mut out, "configure terminal");
        for vlan in text::carried(switch).iter() {
            line(&mut out, format_args!("interface vlan{vlan}\n no shutdown\n exit"));
        }
        out += "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them. 0: for \
        ever.\n";
        line(&mut out, format_args!("mac address-table aging-time {}", switch.aging_time_s.unwrap_or(0)));
        if !switch.lags.is_empty() {
            out +=
                "load-balancing ip-selection source-ip destination-ip l4-source-port l4-destination-port\n";
        }
        mstp::write_region(&mut out, Make::DellOs10, plan, switch);
        for port in switch.ports.iter().filter(|port| port.role == PortRole::Unused) {
            line(&mut out, format_args!("!\ninterface {}\n description unused\n shutdown\n exit", port.name));
        }
        for lag in &switch.lags {
            line(&mut out, format_args!("!\ninterface port-channel{}\n exit", lag.number));
        }
        for port in switch.ports.iter().filter(|port| port.lag.is_some()) {
            let lag = switch.lags.iter().find(|lag| Some(lag.number) == port.lag);
            let mode = if lag.is_none_or(|lag| lag.lacp) { "active" } else { "on" };
            line(&mut out, format_args!("!\ninterface {}", port.name));
            line(&mut out, format_args!(" description \"{}\"", text::reason(plan, port.role)));
            line(&mut out, format_args!(" channel-group {} mode {mode}", port.lag.unwrap_or_default()));
            write_port(&mut out, plan, mtu_bytes);
            out += " no shutdown\n exit\n";
        }
        for interface in text::interfaces(switch) {
            self.write_interface(&mut out, plan, switch, interface, mtu_bytes)?;
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last("!");
            out += "spanning-tree disable\n";
        }
        out += "end\n!\n! For the next start, too.\nwrite memory\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn write_port(out: &mut String, plan: &Plan, mtu_bytes: Option<u32>) {
    let state = if plan.pause { "on" } else { "off" };
    line(out, format_args!(" flowcontrol receive {state}\n flowcontrol transmit {state}"));
    if let Some(mtu_bytes) = mtu_bytes {
        line(out, format_args!(" mtu {}", mtu_bytes + text::FRAME_OVERHEAD_BYTES));
    }
}

impl DellOs10 {
    fn write_interface(
        &self,
        out: &mut String,
        plan: &Plan,
        switch: &SwitchPlan,
        interface: Interface<'_>,
        mtu_bytes: Option<u32>,
    ) -> Result<(), Refusal> {
        let name = match interface {
            Interface::Port(port) => port.name.clone(),
            Interface::Lag(lag) => format!("port-channel{}", lag.number),
        };
        let membership = interface.membership();
        let native = text::native(self.name(), switch, &name, membership)?;
        line(out, format_args!("!\ninterface {name}"));
        line(out, format_args!(" description \"{}\"", text::reason(plan, interface.role())));
        *out += " switchport mode trunk\n";
        // The access VLAN is the one that a trunk takes untagged.
        match native {
            Some(vlan) => line(out, format_args!(" switchport access vlan {vlan}")),
            None => *out += " no switchport access vlan\n",
        }
        // A list is added to the one before: the rest is taken off.
        for list in text::in_lists(&text::superfluous(membership, VlanId::MAX), RANGES_MAX) {
            line(out, format_args!(" no switchport trunk allowed vlan {list}"));
        }
        for list in text::in_lists(&membership.tagged, RANGES_MAX) {
            line(out, format_args!(" switchport trunk allowed vlan {list}"));
        }
        for command in mstp::interface(Make::DellOs10, plan, interface) {
            line(out, format_args!(" {command}"));
        }
        if let Interface::Port(_) = interface {
            write_port(out, plan, mtu_bytes);
        }
        *out += " no shutdown\n exit\n";
        Ok(())
    }
}
