//! Cisco NX-OS (Nexus).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs hashed over addresses and ports, pause in both directions
//! (not together with priority flow control), aging up to 918,000 s. Cannot: more than one untagged VLAN on a port, so
//! the hosts must tag. Written from the manuals; not tried on the hardware.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct CiscoNxos;

impl Dialect for CiscoNxos {
    fn name(&self) -> &'static str {
        "cisco-nxos"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mut out = text::header(plan, switch, "!", "Cisco NX-OS. Enter in configure mode.");
        write_globals(&mut out, switch);
        for port in text::unused_ports(switch) {
            line(&mut out, format_args!("!\ninterface {}\n  description unused\n  shutdown", port.name));
        }
        for interface in text::interfaces(switch) {
            self.write_interface(&mut out, plan, switch, interface)?;
        }
        // A port can join a port-channel only when both have the same VLANs, so it gets them first.
        for port in switch.ports.iter().filter(|port| port.lag.is_some()) {
            let lag = switch.lags.iter().find(|lag| Some(lag.number) == port.lag);
            let mode = if lag.is_none_or(|lag| lag.lacp) { "active" } else { "on" };
            self.write_interface(&mut out, plan, switch, Interface::Port(port))?;
            line(&mut out, format_args!("  channel-group {} mode {mode}", port.lag.unwrap_or_default()));
        }
        out += &text::spanning_tree_last("!");
        line(&mut out, format_args!("no spanning-tree vlan {}\nend", text::carried(switch)));
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

impl CiscoNxos {
    fn write_interface(
        &self,
        out: &mut String,
        plan: &Plan,
        switch: &SwitchPlan,
        interface: Interface<'_>,
    ) -> Result<(), Refusal> {
        let name = match interface {
            Interface::Port(port) => port.name.clone(),
            Interface::Lag(lag) => format!("port-channel{}", lag.number),
        };
        let membership = interface.membership();
        line(out, format_args!("!\ninterface {name}"));
        line(out, format_args!("  description {}", text::reason(plan, interface.role())));
        *out += "  switchport\n  switchport mode trunk\n";
        if let Some(vlan) = text::native(self.name(), switch, &name, membership)? {
            // The switch tags native VLANs too unless told otherwise here (see `vlan dot1q tag native` above).
            line(
                out,
                format_args!("  switchport trunk native vlan {vlan}\n  no switchport trunk native vlan tag"),
            );
        }
        line(out, format_args!("  switchport trunk allowed vlan {}", text::members(membership)));
        let state = if plan.pause { "on" } else { "off" };
        line(out, format_args!("  flowcontrol receive {state}\n  flowcontrol send {state}"));
        *out += "  no shutdown\n";
        Ok(())
    }
}

fn write_globals(out: &mut String, switch: &SwitchPlan) {
    if switch.lags.iter().any(|lag| lag.lacp) {
        *out += "!\nfeature lacp\n";
    }
    line(out, format_args!("!\n! The VLANs.\nvlan {}", text::carried(switch)));
    *out += "!\n! Trunks carry tagged frames only: untagged ones are dropped.\nvlan dot1q tag native\n";
    *out +=
        "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them. 0: for ever.\n";
    line(out, format_args!("mac address-table aging-time {}", switch.aging_time_s.unwrap_or(0)));
    if !switch.lags.is_empty() {
        *out += "!\n! Several connections between two hosts spread over the cables of a link.\n";
        *out += "port-channel load-balance src-dst ip-l4port\n";
    }
}
