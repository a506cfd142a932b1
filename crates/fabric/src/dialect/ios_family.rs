//! What the switches that speak in the manner of Cisco IOS have in common: the order of a configuration and
//! the words of a trunk. A make's own file states how it differs ([`Words`]).

use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{Plan, PortPlan, SwitchPlan, VlanId, VlanSet};

use super::mstp::{self, Make};
use super::text::{self, Interface, line};
use super::{Config, ConfigFile, Dialect, Refusal};

/// When the ports of a LAG are put into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Members {
    /// First, with nothing of their own: they take over what the LAG has.
    Bare,
    /// Last, each with the LAG's VLANs: a port can join only when both have the same.
    WithVlans,
}

/// How a make differs from the others.
pub(super) trait Words: Dialect {
    /// What the file is and where it is entered.
    const OPENING: &'static str;
    /// Indentation of each line of an interface.
    const INDENT: &'static str;
    /// A LAG's interface, less its number.
    const LAG: &'static str;
    /// Lines that make an interface a trunk.
    const TRUNK: &'static [&'static str];
    /// Lines after a trunk's VLANs, where the spanning tree is off.
    const AFTER_VLANS: &'static [&'static str];
    /// Its words for MSTP.
    const MSTP: Make;
    /// When ports join LAGs.
    const MEMBERS: Members;

    /// Lines before the interfaces: VLANs, aging, hashing; payloads if they are longer than usual.
    fn write_globals(out: &mut String, switch: &SwitchPlan, mtu_bytes: Option<u32>);

    /// Lines for a trunk's one untagged VLAN, or for none. `members` are all VLANs of the trunk.
    fn native(vlan: Option<VlanId>, members: &VlanSet) -> Vec<String>;

    /// Lines that turn pause on or off.
    fn pause(interface: Interface<'_>, is_on: bool) -> Vec<String>;

    /// Lines of an interface for payloads that are longer than usual; none if one line sets it for the whole
    /// switch, or if none is needed.
    fn long_frames(_interface: Interface<'_>, _mtu_bytes: u32) -> Vec<String> {
        Vec::new()
    }

    /// Commands that make the running configuration the one of the next start, after `end`.
    fn save() -> &'static str;

    /// The command that turns the spanning tree off on these VLANs; `None` where there is nothing to turn
    /// off.
    fn no_spanning_tree(carried: &VlanSet) -> Option<String>;
}

/// The configuration of one switch.
///
/// # Errors
/// A [`Refusal`] if a port needs several untagged VLANs.
pub(super) fn emit<W: Words>(words: &W, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
    let switch = plan.switch(switch);
    let mut out = text::header(plan, switch, "!", W::OPENING);
    let mtu_bytes = text::long_frames(words, plan, switch)?;
    W::write_globals(&mut out, switch, mtu_bytes);
    mstp::write_region(&mut out, W::MSTP, plan, switch);
    for port in text::unused_ports(switch) {
        begin::<W>(&mut out, &port.name, "unused");
        write_lines::<W>(&mut out, ["shutdown"]);
    }
    let members = || switch.ports.iter().filter(|port| port.lag.is_some());
    if W::MEMBERS == Members::Bare {
        for port in members() {
            begin::<W>(&mut out, &port.name, &text::reason(plan, port.role));
            write_lines::<W>(&mut out, [channel_group(switch, port)]);
            write_lines::<W>(&mut out, W::pause(Interface::Port(port), plan.pause));
            write_lines::<W>(&mut out, ["no shutdown"]);
        }
    }
    for interface in text::interfaces(switch) {
        write_trunk(words, &mut out, plan, switch, interface)?;
    }
    if W::MEMBERS == Members::WithVlans {
        for port in members() {
            write_trunk(words, &mut out, plan, switch, Interface::Port(port))?;
            write_lines::<W>(&mut out, [channel_group(switch, port)]);
        }
    }
    let off = W::no_spanning_tree(&text::carried(switch)).filter(|_| plan.mstp.is_none());
    if let Some(command) = off {
        out += &text::spanning_tree_last("!");
        line(&mut out, command);
    }
    out += "end\n!\n! For the next start, too.\n";
    line(&mut out, W::save());
    let file = ConfigFile { name: format!("{}.cfg", switch.name), text: out, executable: false };
    Ok(Config { files: vec![file] })
}

fn write_trunk<W: Words>(
    words: &W,
    out: &mut String,
    plan: &Plan,
    switch: &SwitchPlan,
    interface: Interface<'_>,
) -> Result<(), Refusal> {
    let name = match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => format!("{}{}", W::LAG, lag.number),
    };
    let membership = interface.membership();
    let native = text::native(words.name(), switch, &name, membership)?;
    begin::<W>(out, &name, &text::reason(plan, interface.role()));
    write_lines::<W>(out, W::TRUNK);
    let members = text::members(membership);
    write_lines::<W>(out, W::native(native, &members));
    // A link that no tree uses carries nothing.
    let list = if members.is_empty() { "none".to_owned() } else { members.to_string() };
    write_lines::<W>(out, [format!("switchport trunk allowed vlan {list}")]);
    if plan.mstp.is_none() {
        write_lines::<W>(out, W::AFTER_VLANS);
    }
    write_lines::<W>(out, mstp::interface(W::MSTP, plan, interface));
    let mtu_bytes = text::long_frames(words, plan, switch)?;
    write_lines::<W>(out, long_frames::<W>(interface, mtu_bytes));
    write_lines::<W>(out, W::pause(interface, plan.pause));
    write_lines::<W>(out, ["no shutdown"]);
    Ok(())
}

fn long_frames<W: Words>(interface: Interface<'_>, mtu_bytes: Option<u32>) -> Vec<String> {
    mtu_bytes.map(|mtu_bytes| W::long_frames(interface, mtu_bytes)).unwrap_or_default()
}

fn begin<W: Words>(out: &mut String, interface: &str, why: &str) {
    line(out, format_args!("!\ninterface {interface}"));
    write_lines::<W>(out, [format!("description {why}")]);
}

fn write_lines<W: Words>(out: &mut String, lines: impl IntoIterator<Item = impl AsRef<str>>) {
    for words in lines {
        let _ = writeln!(out, "{}{}", W::INDENT, words.as_ref());
    }
}

fn channel_group(switch: &SwitchPlan, port: &PortPlan) -> String {
    let lag = switch.lags.iter().find(|lag| Some(lag.number) == port.lag);
    let mode = if lag.is_none_or(|lag| lag.lacp) { "active" } else { "on" };
    format!("channel-group {} mode {mode}", port.lag.unwrap_or_default())
}

/// The VLANs of the switch, if it carries any; `end` leaves their section.
pub(super) fn write_vlans(out: &mut String, switch: &SwitchPlan, end: &str) {
    let carried = text::carried(switch);
    if !carried.is_empty() {
        line(out, format_args!("!\n! The VLANs.\nvlan {carried}{end}"));
    }
}

/// How long addresses are kept, where 0 means for ever.
pub(super) fn write_aging(out: &mut String, switch: &SwitchPlan) {
    *out +=
        "!\n! Keep learned addresses as long as can be: priming, not traffic, teaches them. 0: for ever.\n";
    line(out, format_args!("mac address-table aging-time {}", switch.aging_time_s.unwrap_or(0)));
}

/// How LAGs hash, if there are any.
pub(super) fn write_hashing(out: &mut String, switch: &SwitchPlan, command: &str) {
    if !switch.lags.is_empty() {
        *out += "!\n! Several connections between two hosts spread over the cables of a link.\n";
        line(out, command);
    }
}
