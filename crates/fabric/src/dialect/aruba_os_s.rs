//! HPE ArubaOS-Switch (ProCurve; 2530, 2930, 3810).
//!
//! Can: trunks with any list of VLANs, LACP and static LAGs hashed over ports, pause, aging up to 999,960 s.
//! Cannot: more than one untagged VLAN on a port, so the hosts must tag; remove VLANs that the commands do
//! not name (`ayatori plan check` names them); leave a port in no VLAN, so a link that carries nothing is
//! refused. Written from the makers' manuals; not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{MSTP_MAX_HOPS, Plan, PortRole, SwitchPlan, VlanId};

use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct ArubaOsS;

impl Dialect for ArubaOsS {
    fn name(&self) -> &'static str {
        "aruba-os-s"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        for interface in text::interfaces(switch) {
            text::native(self.name(), switch, &name(interface), interface.membership())?;
            if text::members(interface.membership()).is_empty() {
                return Err(Refusal {
                    switch: switch.name.clone(),
                    dialect: self.name(),
                    problem: format!(
                        "{} would be in no VLAN, and every port must be in one",
                        name(interface)
                    ),
                    remedy: "take the cable out of the description: no VLAN uses it".into(),
                });
            }
        }
        let mut out = text::header(plan, switch, ";", "ArubaOS-Switch. Enter in manager context.");
        out += "; A VLAN that an earlier configuration left is not removed by these commands: erase the \
        startup\n\
                ; configuration first, or let `ayatori plan check` name it.\n";
        line(&mut out, "configure");
        write_ports(&mut out, plan, switch);
        write_mstp(&mut out, plan, switch);
        for vlan in text::carried(switch).iter() {
            write_vlan(&mut out, switch, vlan, mtu_bytes.is_some());
        }
        let used: Vec<String> = text::interfaces(switch).map(name).collect();
        if !text::carried(switch).iter().any(|vlan| vlan.get() == 1) {
            line(&mut out, format_args!("vlan 1\n   no untagged {}\n   exit", used.join(",")));
        }
        if let Some(aging_time_s) = switch.aging_time_s {
            line(&mut out, format_args!("mac-age-time {aging_time_s}"));
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last(";");
            out += "no spanning-tree\n";
        }
        out += "exit\nwrite memory\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn name(interface: Interface<'_>) -> String {
    match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => format!("Trk{}", lag.number),
    }
}

fn write_ports(out: &mut String, plan: &Plan, switch: &SwitchPlan) {
    for lag in &switch.lags {
        let members = lag.members.iter().filter_map(|&number| text::port(switch, number));
        let members: Vec<&str> = members.map(|port| port.name.as_str()).collect();
        let mode = if lag.lacp { "lacp" } else { "trunk" };
        line(out, format_args!("; {}", text::reason(plan, lag.role)));
        line(out, format_args!("trunk {} trk{} {mode}", members.join(","), lag.number));
    }
    if !switch.lags.is_empty() {
        *out += "trunk-load-balance L4-based\n";
    }
    for port in &switch.ports {
        line(out, format_args!("interface {}\n   name \"{}\"", port.name, text::reason(plan, port.role)));
        if port.role == PortRole::Unused {
            *out += "   disable\n   exit\n";
            continue;
        }
        *out += if plan.pause { "   flow-control\n" } else { "   no flow-control\n" };
        *out += "   enable\n   exit\n";
    }
}

/// Before any link carries a VLAN.
fn write_mstp(out: &mut String, plan: &Plan, switch: &SwitchPlan) {
    let Some(region) = &plan.mstp else { return };
    *out += "; MSTP: each instance elects the planned tree of its VLANs.\nspanning-tree mode mstp\n";
    line(out, format_args!("spanning-tree config-name \"{}\"", region.region));
    line(out, format_args!("spanning-tree config-revision {}", region.revision));
    line(out, format_args!("spanning-tree max-hops {MSTP_MAX_HOPS}"));
    for instance in &region.instances {
        let vlans: Vec<String> = instance.vlans.iter().map(|vlan| vlan.to_string()).collect();
        line(out, format_args!("spanning-tree instance {} vlan {}", instance.number, vlans.join(" ")));
        // In steps of 4,096.
        let step = instance.priority(switch.id) / 4096;
        line(out, format_args!("spanning-tree instance {} priority {step}", instance.number));
    }
    for interface in text::interfaces(switch) {
        let name = name(interface);
        match interface.role() {
            PortRole::Link { link, .. } => {
                for (number, cost) in mstp::costs(region, link) {
                    line(out, format_args!("spanning-tree instance {number} {name} path-cost {cost}"));
                }
            }
            _ => line(out, format_args!("spanning-tree {name} admin-edge-port")),
        }
    }
    *out += "spanning-tree\n";
}

fn write_vlan(out: &mut String, switch: &SwitchPlan, vlan: VlanId, is_jumbo: bool) {
    line(out, format_args!("vlan {vlan}"));
    let list = |what: &dyn Fn(Interface<'_>) -> bool| {
        text::interfaces(switch).filter(|&interface| what(interface)).map(name).collect::<Vec<_>>().join(",")
    };
    let untagged = list(&|interface| interface.membership().untagged.contains(vlan));
    let tagged = list(&|interface| interface.membership().tagged.contains(vlan));
    let neither = list(&|interface| !text::members(interface.membership()).contains(vlan));
    if !neither.is_empty() {
        line(out, format_args!("   no tagged {neither}\n   no untagged {neither}"));
    }
    if !untagged.is_empty() {
        line(out, format_args!("   untagged {untagged}"));
    }
    if !tagged.is_empty() {
        line(out, format_args!("   tagged {tagged}"));
    }
    if is_jumbo {
        *out += "   jumbo\n";
    }
    *out += "   no ip address\n   exit\n";
}
