//! Huawei S series switches (VRP 5 and 8).
//!
//! Can: several untagged VLANs on a port (hybrid), LACP and static LAGs (Eth-Trunk), pause, aging up to
//! 1,000,000 s or none. Cannot: take more than ten VLAN ranges in one command, so long lists come in several
//! lines; hash over ports on every model (`src-dst-ip` is what all have). Written from Huawei's command
//! reference; not tried on a device.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan};

use super::comware::{InterfaceWords, write_interface};
use super::mstp::{self, Make};
use super::text::{self, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct HuaweiVrp;

const WORDS: InterfaceWords = InterfaceWords {
    lag: "Eth-Trunk",
    permit: "allow-pass",
    is_kind_first: true,
    mstp: Make::Vrp,
    write_port,
};

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
        mstp::write_region(&mut out, Make::Vrp, plan, switch);
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
            write_interface(&mut out, &WORDS, plan, interface, mtu_bytes);
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last("#");
            // It asks whether to, as does `save`.
            out += "undo stp enable\ny\n";
        }
        out += "return\n#\n# For the next start, too.\nsave\ny\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn write_globals(out: &mut String, switch: &SwitchPlan) {
    *out += "#\n# The VLANs.\n";
    for list in text::lists_with_to(&text::carried(switch)) {
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
