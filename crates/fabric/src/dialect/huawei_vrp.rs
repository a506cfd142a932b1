//! Huawei S series switches (VRP 5 and 8).
//!
//! Can: several untagged VLANs on a port (hybrid), LACP and static LAGs (Eth-Trunk), pause, aging up to
//! 1,000,000 s or none. Cannot: take more than ten VLAN ranges in one command, so long lists come in several
//! lines; hash over ports on every model (`src-dst-ip` is what all have). Written from Huawei's command
//! reference; not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{Plan, PortRole, SwitchPlan, VlanId, VlanSet};

use super::comware::lists;
use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct HuaweiVrp;

impl Dialect for HuaweiVrp {
    fn name(&self) -> &'static str {
        "huawei-vrp"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let mut out = text::header(plan, switch, "#", "Huawei VRP. Enter in user view.");
        line(&mut out, "system-view");
        write_globals(&mut out, switch);
        for port in text::unused_ports(switch) {
            line(&mut out, format_args!("#\ninterface {}\n description unused\n shutdown\n quit", port.name));
        }
        for lag in &switch.lags {
            line(&mut out, format_args!("#\ninterface Eth-Trunk{}", lag.number));
            line(&mut out, format_args!(" description {}", text::reason(plan, lag.role)));
            out += if lag.lacp { " mode lacp\n" } else { " mode manual load-balance\n" };
            out += " load-balance src-dst-ip\n quit\n";
            for port in lag.members.iter().filter_map(|&number| text::port(switch, number)) {
                line(&mut out, format_args!("interface {}\n eth-trunk {}", port.name, lag.number));
                write_port(&mut out, plan, mtu_bytes);
                out += " undo shutdown\n quit\n";
            }
        }
        for interface in text::interfaces(switch) {
            write_interface(&mut out, plan, interface, mtu_bytes);
        }
        out += &text::spanning_tree_last("#");
        // Both ask whether to.
        out += "undo stp enable\ny\nreturn\n#\n# For the next start, too.\nsave\ny\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn write_globals(out: &mut String, switch: &SwitchPlan) {
    *out += "#\n# The VLANs.\n";
    for list in lists(&text::carried(switch)) {
        line(out, format_args!("vlan batch {list}"));
    }
    *out +=
        "#\n# Keep learned addresses as long as can be: priming, not traffic, teaches them. 0: for ever.\n";
    line(out, format_args!("mac-address aging-time {}", switch.aging_time_s.unwrap_or(0)));
}

fn write_port(out: &mut String, plan: &Plan, mtu_bytes: Option<u32>) {
    *out += if plan.pause { " flow-control\n" } else { " undo flow-control\n" };
    if let Some(mtu_bytes) = mtu_bytes {
        let frame_bytes = (mtu_bytes + text::FRAME_OVERHEAD_BYTES).max(1_536);
        line(out, format_args!(" jumboframe enable {frame_bytes}"));
    }
}

fn write_interface(out: &mut String, plan: &Plan, interface: Interface<'_>, mtu_bytes: Option<u32>) {
    match interface {
        Interface::Lag(lag) => line(out, format_args!("#\ninterface Eth-Trunk{}", lag.number)),
        Interface::Port(port) => {
            line(out, format_args!("#\ninterface {}", port.name));
            line(out, format_args!(" description {}", text::reason(plan, port.role)));
        }
    }
    let membership = interface.membership();
    let remove = text::superfluous(membership, VlanId::MAX);
    let is_trunk = matches!(interface.role(), PortRole::Link { .. })
        && membership.untagged.is_empty()
        && membership.pvid.is_none();
    if is_trunk {
        *out += " port link-type trunk\n";
        write_lists(out, "undo port trunk allow-pass vlan", &remove);
        write_lists(out, "port trunk allow-pass vlan", &membership.tagged);
    } else {
        *out += " port link-type hybrid\n";
        write_lists(out, "undo port hybrid vlan", &remove);
        write_lists(out, "port hybrid untagged vlan", &membership.untagged);
        write_lists(out, "port hybrid tagged vlan", &membership.tagged);
        // Without one, untagged frames fall into VLAN 1, which the port is not in: they are dropped.
        if let Some(pvid) = membership.pvid {
            line(out, format_args!(" port hybrid pvid vlan {pvid}"));
        }
    }
    if let Interface::Port(_) = interface {
        write_port(out, plan, mtu_bytes);
    }
    *out += " undo shutdown\n quit\n";
}

fn write_lists(out: &mut String, command: &str, set: &VlanSet) {
    for list in lists(set) {
        line(out, format_args!(" {command} {list}"));
    }
}
