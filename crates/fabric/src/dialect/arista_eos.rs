//! Arista EOS.
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs, pause in both directions where the platform has it, aging up
//! to 1,000,000 s. Cannot: more than one untagged VLAN on a port (a trunk has one native VLAN), so the hosts must tag;
//! say in one command for all ASICs how LAGs hash (left as a comment). Written from the manuals; not tried on the
//! hardware.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct AristaEos;

impl Dialect for AristaEos {
    fn name(&self) -> &'static str {
        "arista-eos"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mut out =
            text::header(plan, switch, "!", "Arista EOS. Enter in configure mode, or as a session.");
        write_globals(&mut out, switch);
        for port in text::unused_ports(switch) {
            line(&mut out, format_args!("!\ninterface {}\n   description unused\n   shutdown", port.name));
        }
        for port in switch.ports.iter().filter(|port| port.lag.is_some()) {
            let lag = switch.lags.iter().find(|lag| Some(lag.number) == port.lag);
            let mode = if lag.is_none_or(|lag| lag.lacp) { "active" } else { "on" };
            line(&mut out, format_args!("!\ninterface {}", port.name));
            line(&mut out, format_args!("   description {}", text::reason(plan, port.role)));
            line(&mut out, format_args!("   channel-group {} mode {mode}", port.lag.unwrap_or_default()));
            write_pause(&mut out, plan);
            out += "   no shutdown\n";
        }
        for interface in text::interfaces(switch) {
            self.write_interface(&mut out, plan, switch, interface)?;
        }
        out += &text::spanning_tree_last("!");
        out += "spanning-tree mode none\nend\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

impl AristaEos {
    fn write_interface(
        &self,
        out: &mut String,
        plan: &Plan,
        switch: &SwitchPlan,
        interface: Interface<'_>,
    ) -> Result<(), Refusal> {
        let name = match interface {
            Interface::Port(port) => port.name.clone(),
            Interface::Lag(lag) => format!("Port-Channel{}", lag.number),
        };
        let membership = interface.membership();
        let native = text::native(self.name(), switch, &name, membership)?;
        line(out, format_args!("!\ninterface {name}"));
        line(out, format_args!("   description {}", text::reason(plan, interface.role())));
        *out += "   switchport mode trunk\n";
        match native {
            Some(vlan) => line(out, format_args!("   switchport trunk native vlan {vlan}")),
            // All frames tagged: untagged ones are dropped.
            None => line(out, "   switchport trunk native vlan tag"),
        }
        line(out, format_args!("   switchport trunk allowed vlan {}", text::members(membership)));
        *out += "   spanning-tree bpdufilter enable\n";
        if let Interface::Port(_) = interface {
            write_pause(out, plan);
        }
        *out += "   no shutdown\n";
        Ok(())
    }
}

fn write_globals(out: &mut String, switch: &SwitchPlan) {
    line(out, format_args!("!\n! The VLANs.\nvlan {}", text::carried(switch)));
    if let Some(aging_time_s) = switch.aging_time_s {
        *out += "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them.\n";
        line(out, format_args!("mac address-table aging-time {aging_time_s}"));
    }
    if !switch.lags.is_empty() {
        *out += "!\n! Several connections between two hosts spread over the cables of a link. The words depend on the ASIC;\n\
                 ! Trident: port-channel load-balance trident fields ip source-ip destination-ip source-port \
                 destination-port\n";
    }
}

fn write_pause(out: &mut String, plan: &Plan) {
    let state = if plan.pause { "on" } else { "off" };
    line(out, format_args!("   flowcontrol send {state}\n   flowcontrol receive {state}"));
}
