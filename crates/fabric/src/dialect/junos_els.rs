//! Juniper EX and QFX with Enhanced Layer 2 Software (ELS).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs, pause, aging up to 1,000,000 s. Cannot: more
//! than one untagged VLAN on a port, so the hosts must tag. Each interface is deleted before it is set, so
//! nothing that stood there before is left; all becomes valid in one commit, which takes itself back unless
//! it is confirmed. Written from Juniper's documentation; not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{MSTP_MAX_HOPS, Plan, PortRole, SwitchPlan};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct JunosEls;

impl Dialect for JunosEls {
    fn name(&self) -> &'static str {
        "junos-els"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let what = "Junos (ELS). In configuration mode: load set terminal, then these lines. A statement \
        that is not\n\
                    # there to be deleted is a warning. `commit` within five minutes keeps it, else it is \
                    taken back.";
        let mut out = text::header(plan, switch, "#", what);
        for vlan in text::carried(switch).iter() {
            line(&mut out, format_args!("set vlans ayatori-{vlan} vlan-id {vlan}"));
        }
        if !switch.lags.is_empty() {
            let count = switch.lags.iter().map(|lag| lag.number).max().unwrap_or(0) + 1;
            line(&mut out, format_args!("set chassis aggregated-devices ethernet device-count {count}"));
        }
        if let Some(aging_time_s) = switch.aging_time_s {
            let command = "set protocols l2-learning global-mac-table-aging-time";
            line(&mut out, format_args!("{command} {aging_time_s}"));
        }
        write_ports(&mut out, plan, switch, mtu_bytes);
        for interface in text::interfaces(switch) {
            self.write_interface(&mut out, plan, switch, interface, mtu_bytes)?;
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last("#");
        }
        for protocol in ["stp", "rstp", "mstp", "vstp"] {
            line(&mut out, format_args!("delete protocols {protocol}"));
        }
        write_mstp(&mut out, plan, switch);
        out += "commit confirmed 5\n";
        let file = ConfigFile { name: format!("{}.set", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

/// Bytes that Junos counts in its MTU beyond the payload: header and tag.
const MTU_OVERHEAD_BYTES: u32 = 18;

fn write_ports(out: &mut String, plan: &Plan, switch: &SwitchPlan, mtu_bytes: Option<u32>) {
    for lag in &switch.lags {
        let name = format!("ae{}", lag.number);
        line(out, format_args!("#\ndelete interfaces {name}"));
        if lag.lacp {
            line(out, format_args!("set interfaces {name} aggregated-ether-options lacp active"));
            line(out, format_args!("set interfaces {name} aggregated-ether-options lacp periodic fast"));
        }
        if plan.pause {
            line(out, format_args!("set interfaces {name} aggregated-ether-options flow-control"));
        }
    }
    for port in &switch.ports {
        let name = &port.name;
        line(out, format_args!("#\ndelete interfaces {name}"));
        line(out, format_args!("set interfaces {name} description \"{}\"", text::reason(plan, port.role)));
        match (port.role, port.lag) {
            (PortRole::Unused, _) => line(out, format_args!("set interfaces {name} disable")),
            (_, Some(lag)) => line(out, format_args!("set interfaces {name} ether-options 802.3ad ae{lag}")),
            (_, None) => {
                let state = if plan.pause { "flow-control" } else { "no-flow-control" };
                line(out, format_args!("set interfaces {name} ether-options {state}"));
                if let Some(mtu_bytes) = mtu_bytes {
                    line(out, format_args!("set interfaces {name} mtu {}", mtu_bytes + MTU_OVERHEAD_BYTES));
                }
            }
        }
    }
}

/// All becomes valid in one commit, so the order does not matter.
fn write_mstp(out: &mut String, plan: &Plan, switch: &SwitchPlan) {
    let Some(region) = &plan.mstp else { return };
    *out += "# MSTP: each instance elects the planned tree of its VLANs.\n";
    let mut set = |words: String| line(out, format_args!("set protocols mstp {words}"));
    set(format!("configuration-name {}", region.region));
    set(format!("revision-level {}", region.revision));
    set(format!("max-hops {MSTP_MAX_HOPS}"));
    for instance in &region.instances {
        // Written as Junos shows it: 0, 4k, 32k.
        let priority = match instance.priority(switch.id) / 1024 {
            0 => "0".to_owned(),
            thousands => format!("{thousands}k"),
        };
        set(format!("msti {} bridge-priority {priority}", instance.number));
        for (first, last) in instance.vlans.ranges() {
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            set(format!("msti {} vlan {range}", instance.number));
        }
    }
    for interface in text::interfaces(switch) {
        let name = match interface {
            Interface::Port(port) => port.name.clone(),
            Interface::Lag(lag) => format!("ae{}", lag.number),
        };
        match interface.role() {
            PortRole::Link { link, .. } => {
                set(format!("interface {name} mode point-to-point"));
                for (number, cost) in mstp::costs(region, link) {
                    set(format!("msti {number} interface {name} cost {cost}"));
                }
            }
            _ => set(format!("interface {name} edge")),
        }
    }
}

impl JunosEls {
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
            Interface::Lag(lag) => format!("ae{}", lag.number),
        };
        let native = text::native(self.name(), switch, &name, interface.membership())?;
        line(out, format_args!("# {}", text::reason(plan, interface.role())));
        if let (Interface::Lag(_), Some(mtu_bytes)) = (interface, mtu_bytes) {
            line(out, format_args!("set interfaces {name} mtu {}", mtu_bytes + MTU_OVERHEAD_BYTES));
        }
        let members = text::members(interface.membership());
        if members.is_empty() {
            // No family: it switches nothing.
            return Ok(());
        }
        let unit = format!("set interfaces {name} unit 0 family ethernet-switching");
        line(out, format_args!("{unit} interface-mode trunk"));
        for (first, last) in members.ranges() {
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            line(out, format_args!("{unit} vlan members {range}"));
        }
        if let Some(vlan) = native {
            line(out, format_args!("set interfaces {name} native-vlan-id {vlan}"));
        }
        Ok(())
    }
}
