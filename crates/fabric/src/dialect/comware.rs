//! HPE and H3C switches with Comware 7 (5 differs in `undo stp enable`).
//!
//! Can: several untagged VLANs on a port (hybrid), LACP and static LAGs hashed over addresses and ports,
//! pause, aging up to 1,000,000 s or none. Cannot: take more than ten VLAN ranges in one command, so long
//! lists come in several lines. Written from the manuals; not tried on the hardware.

use crate::graph::SwitchId;
use crate::plan::{Membership, Plan, PortRole, SwitchPlan, VlanId, VlanSet};

use super::mstp::{self, Make};
use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct Comware;

const WORDS: InterfaceWords = InterfaceWords {
    lag: "Bridge-Aggregation",
    permit: "permit",
    is_kind_first: false,
    mstp: Make::Comware,
    write_port,
};

impl Dialect for Comware {
    fn name(&self) -> &'static str {
        "comware"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        let mtu_bytes = text::long_frames(self, plan, switch)?;
        let mut out = text::header(plan, switch, "#", "HPE/H3C Comware. Enter in user view.");
        line(&mut out, "system-view");
        write_globals(&mut out, switch);
        mstp::write_region(&mut out, Make::Comware, plan, switch);
        for port in text::unused_ports(switch) {
            line(&mut out, format_args!("#\ninterface {}\n description unused\n shutdown\n quit", port.name));
        }
        for lag in &switch.lags {
            line(&mut out, format_args!("#\ninterface Bridge-Aggregation{}", lag.number));
            line(&mut out, format_args!(" description {}", text::reason(plan, lag.role)));
            line(
                &mut out,
                if lag.lacp { " link-aggregation mode dynamic" } else { " undo link-aggregation mode" },
            );
            out += " quit\n";
            // Members take on the VLANs of their aggregation, so they join before it gets any.
            for number in &lag.members {
                let Some(port) = text::port(switch, *number) else { continue };
                line(&mut out, format_args!("interface {}", port.name));
                line(&mut out, format_args!(" description {}", text::reason(plan, port.role)));
                line(&mut out, format_args!(" port link-aggregation group {}", lag.number));
                write_port(&mut out, plan, mtu_bytes);
                out += " undo shutdown\n quit\n";
            }
        }
        for interface in text::interfaces(switch) {
            write_interface(&mut out, &WORDS, plan, interface, mtu_bytes);
        }
        if plan.mstp.is_none() {
            out += &text::spanning_tree_last("#");
            out += "undo stp global enable\n";
        }
        out += "return\n#\n# For the next start, too.\nsave force\n";
        let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
        Ok(Config { files: vec![file] })
    }
}

fn write_globals(out: &mut String, switch: &SwitchPlan) {
    *out += "#\n# The VLANs.\n";
    for list in text::lists_with_to(&text::carried(switch)) {
        line(out, format_args!("vlan {list}\n quit"));
    }
    *out += "#\n# Keep learned addresses as long as can be: priming, not traffic, teaches them.\n";
    match switch.aging_time_s {
        Some(aging_time_s) => line(out, format_args!("mac-address timer aging {aging_time_s}")),
        None => line(out, "mac-address timer no-aging"),
    }
    if !switch.lags.is_empty() {
        *out += "#\n# Several connections between two hosts spread over the cables of a link.\n";
        *out += "link-aggregation global load-sharing mode source-ip destination-ip source-port destination-port\n";
    }
}

fn write_long_frames(out: &mut String, mtu_bytes: Option<u32>) {
    if let Some(mtu_bytes) = mtu_bytes {
        // 1,536 is the least it takes.
        let frame_bytes = (mtu_bytes + text::FRAME_OVERHEAD_BYTES).max(1_536);
        line(out, format_args!(" jumboframe enable {frame_bytes}"));
    }
}

/// How Comware and VRP, whose words are the same otherwise, differ at an interface.
pub(super) struct InterfaceWords {
    /// A LAG's interface, less its number.
    pub(super) lag: &'static str,
    /// What a trunk does with VLANs.
    pub(super) permit: &'static str,
    /// Place of the word that makes VLANs of a hybrid port untagged or tagged: before `vlan`, or after the
    /// list.
    pub(super) is_kind_first: bool,
    pub(super) mstp: Make,
    /// Pause and lengths of frames at a port.
    pub(super) write_port: fn(&mut String, &Plan, Option<u32>),
}

/// A LAG or a lone port with its VLANs.
pub(super) fn write_interface(
    out: &mut String,
    words: &InterfaceWords,
    plan: &Plan,
    interface: Interface<'_>,
    mtu_bytes: Option<u32>,
) {
    match interface {
        Interface::Lag(lag) => line(out, format_args!("#\ninterface {}{}", words.lag, lag.number)),
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
        write_lists(out, &format!("undo port trunk {} vlan", words.permit), &remove, "");
        write_lists(out, &format!("port trunk {} vlan", words.permit), &membership.tagged, "");
    } else {
        write_hybrid(out, words, membership, &remove);
    }
    for command in mstp::interface(words.mstp, plan, interface) {
        line(out, format_args!(" {command}"));
    }
    if let Interface::Port(_) = interface {
        (words.write_port)(out, plan, mtu_bytes);
    }
    *out += " undo shutdown\n quit\n";
}

fn write_hybrid(out: &mut String, words: &InterfaceWords, membership: &Membership, remove: &VlanSet) {
    *out += " port link-type hybrid\n";
    write_lists(out, "undo port hybrid vlan", remove, "");
    for (set, kind) in [(&membership.untagged, "untagged"), (&membership.tagged, "tagged")] {
        if words.is_kind_first {
            write_lists(out, &format!("port hybrid {kind} vlan"), set, "");
        } else {
            write_lists(out, "port hybrid vlan", set, &format!(" {kind}"));
        }
    }
    // Without one, untagged frames fall into VLAN 1, which the port is not in: they are dropped.
    if let Some(pvid) = membership.pvid {
        line(out, format_args!(" port hybrid pvid vlan {pvid}"));
    }
}

fn write_port(out: &mut String, plan: &Plan, mtu_bytes: Option<u32>) {
    write_pause(out, plan);
    write_long_frames(out, mtu_bytes);
}

fn write_pause(out: &mut String, plan: &Plan) {
    line(out, if plan.pause { " flow-control" } else { " undo flow-control" });
}

fn write_lists(out: &mut String, command: &str, set: &VlanSet, how: &str) {
    for list in text::lists_with_to(set) {
        line(out, format_args!(" {command} {list}{how}"));
    }
}
