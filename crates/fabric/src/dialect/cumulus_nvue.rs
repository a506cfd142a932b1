//! NVIDIA Cumulus Linux 5: NVUE commands.
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs, pause (`link-pause`), any aging time. Cannot:
//! more than one untagged VLAN on a port, so the hosts must tag. `nv config apply` makes all changes at
//! once. Written from NVIDIA's documentation (Cumulus Linux 5, NVUE command reference); not tried on a
//! device.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct CumulusNvue;

const BRIDGE: &str = "br_default";
const PAUSE_PROFILE: &str = "ayatori";

impl Dialect for CumulusNvue {
    fn name(&self) -> &'static str {
        "cumulus-nvue"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let mut out = String::from("#!/bin/sh\n");
        let what = "Cumulus Linux, NVUE. Run on the switch, any number of times.";
        out += &text::header(plan, switch, "#", what);
        out +=
            "set -eu\n\n# What stood there before: on ports between switches a VLAN left over is a loop.\n";
        for name in switch.ports.iter().map(|port| port.name.clone()).chain(lag_names(switch)) {
            line(&mut out, format_args!("nv unset interface {name} bridge"));
        }
        line(&mut out, format_args!("nv unset bridge domain {BRIDGE} vlan"));
        line(&mut out, format_args!("\nnv set bridge domain {BRIDGE} type vlan-aware"));
        let carried = text::carried(switch);
        if !carried.is_empty() {
            line(&mut out, format_args!("nv set bridge domain {BRIDGE} vlan {carried}"));
        }
        if let Some(aging_time_s) = switch.aging_time_s {
            line(&mut out, format_args!("nv set bridge domain {BRIDGE} ageing {aging_time_s}"));
        }
        if plan.pause {
            line(&mut out, format_args!("nv set qos link-pause {PAUSE_PROFILE} rx enable"));
            line(&mut out, format_args!("nv set qos link-pause {PAUSE_PROFILE} tx enable"));
        }
        for lag in &switch.lags {
            let members = lag.members.iter().filter_map(|&number| text::port(switch, number));
            let members: Vec<&str> = members.map(|port| port.name.as_str()).collect();
            let mode = if lag.lacp { "lacp" } else { "static" };
            line(&mut out, format_args!("nv set interface bond{} bond mode {mode}", lag.number));
            line(
                &mut out,
                format_args!("nv set interface bond{} bond member {}", lag.number, members.join(",")),
            );
        }
        for interface in text::interfaces(switch) {
            self.write_interface(&mut out, plan, switch, interface)?;
        }
        write_ports(&mut out, plan, switch, mtu_bytes);
        out += "\n# No spanning tree: each VLAN is a tree by plan. Last: no port is in VLAN 1 any more.\n";
        line(&mut out, format_args!("nv set bridge domain {BRIDGE} stp state down"));
        out += "nv config apply -y\nnv config save\n";
        let file = ConfigFile { name: format!("{}.nvue.sh", switch.name), text: out, executable: true };
        Ok(Config { files: vec![file] })
    }
}

impl CumulusNvue {
    fn write_interface(
        &self,
        out: &mut String,
        plan: &Plan,
        switch: &SwitchPlan,
        interface: Interface<'_>,
    ) -> Result<(), Refusal> {
        let name = name(interface);
        let native = text::native(self.name(), switch, &name, interface.membership())?;
        line(out, format_args!("\n# {}", text::reason(plan, interface.role())));
        let members = text::members(interface.membership());
        if members.is_empty() {
            // In no bridge: it carries nothing.
            return Ok(());
        }
        let untagged = native.map_or_else(|| "none".to_owned(), |vlan| vlan.to_string());
        line(out, format_args!("nv set interface {name} bridge domain {BRIDGE} untagged {untagged}"));
        line(out, format_args!("nv set interface {name} bridge domain {BRIDGE} vlan {members}"));
        Ok(())
    }
}

fn name(interface: Interface<'_>) -> String {
    match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => format!("bond{}", lag.number),
    }
}

fn lag_names(switch: &SwitchPlan) -> impl Iterator<Item = String> {
    switch.lags.iter().map(|lag| format!("bond{}", lag.number))
}

fn write_ports(out: &mut String, plan: &Plan, switch: &SwitchPlan, mtu_bytes: Option<u32>) {
    *out += "\n# Pause, lengths of frames, and ports that nothing is plugged into.\n";
    for port in &switch.ports {
        let state = if port.role == crate::plan::PortRole::Unused { "down" } else { "up" };
        line(out, format_args!("nv set interface {} link state {state}", port.name));
        if state == "down" {
            continue;
        }
        if plan.pause {
            line(out, format_args!("nv set interface {} qos link-pause profile {PAUSE_PROFILE}", port.name));
        } else {
            line(out, format_args!("nv unset interface {} qos link-pause", port.name));
        }
        if let Some(mtu_bytes) = mtu_bytes {
            line(out, format_args!("nv set interface {} link mtu {mtu_bytes}", port.name));
        }
    }
}
