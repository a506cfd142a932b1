//! Parts shared by all dialects' texts: the opening comment, the reason beside each port, and the ports and
//! LAGs of a switch as the one list of interfaces that VLANs are put on.

use std::fmt::Write as _;

use crate::plan::{LagPlan, Membership, Plan, PortNumber, PortPlan, PortRole, SwitchPlan, VlanId, VlanSet};

use super::{Dialect, Refusal};

/// The comment a file opens with; `mark` starts each line, `what` says what the file is and how to apply it.
pub(super) fn header(plan: &Plan, switch: &SwitchPlan, mark: &str, what: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{mark} {}: switch of machine {} ({})", switch.name, plan.machine, switch.model);
    let _ = writeln!(text, "{mark} {what}");
    let _ = writeln!(
        text,
        "{mark} Written by `ayatori plan` ({}). The same plan gives the same file:",
        plan.method
    );
    let _ = writeln!(text, "{mark} change the machine description, plan again, and diff.");
    // Only of this switch: another one's hosts change no line here.
    let own: VlanSet = switch.ports.iter().filter_map(|port| port.membership.pvid).collect();
    if !own.is_empty() {
        let _ = writeln!(text, "{mark} Its hosts send on VLAN {own}.");
    }
    text
}

/// Why the spanning tree goes, and why at the end.
pub(super) fn spanning_tree_last(mark: &str) -> String {
    format!(
        "{mark}\n{mark} No spanning tree: it would block the links the VLANs are to use; each VLAN is a tree by plan.\n\
         {mark} At the end, when no port is in VLAN 1 any more: VLAN 1 over all links would be a loop.\n"
    )
}

/// Why a port is set as it is: what stands at its far end.
pub(super) fn reason(plan: &Plan, role: PortRole) -> String {
    match role {
        PortRole::Unused => "unused".into(),
        PortRole::Host { host, attachment } => {
            let host = plan.host(host);
            format!("host {} {}", host.name, host.attachments[attachment].interface)
        }
        PortRole::Link { link, peer } => {
            let peer = plan.switch(peer);
            let end = plan.links[link.index()].ends.iter().find(|end| end.switch == peer.id);
            let ports = end.map_or(&[][..], |end| &end.ports).iter();
            let names: Vec<&str> =
                ports.filter_map(|&number| Some(port(peer, number)?.name.as_str())).collect();
            // Without the link's number: another cable would change it.
            format!("link to {} {}", peer.name, names.join(","))
        }
    }
}

/// A port of a switch by its number.
pub(super) fn port(switch: &SwitchPlan, number: PortNumber) -> Option<&PortPlan> {
    switch.ports.iter().find(|port| port.number == number)
}

/// An interface with VLANs: a LAG, or a port that is in none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Interface<'a> {
    /// A port of its own.
    Port(&'a PortPlan),
    /// A link aggregation group.
    Lag(&'a LagPlan),
}

impl<'a> Interface<'a> {
    /// Its VLANs.
    pub(super) fn membership(self) -> &'a Membership {
        match self {
            Interface::Port(port) => &port.membership,
            Interface::Lag(lag) => &lag.membership,
        }
    }

    /// Its far end.
    pub(super) fn role(self) -> PortRole {
        match self {
            Interface::Port(port) => port.role,
            Interface::Lag(lag) => lag.role,
        }
    }
}

/// The used interfaces of a switch: LAGs first, because their VLANs must stand before ports join, then ports.
pub(super) fn interfaces(switch: &SwitchPlan) -> impl Iterator<Item = Interface<'_>> {
    let lone = switch.ports.iter().filter(|port| port.lag.is_none() && port.role != PortRole::Unused);
    switch.lags.iter().map(Interface::Lag).chain(lone.map(Interface::Port))
}

/// Ports nothing is plugged into.
pub(super) fn unused_ports(switch: &SwitchPlan) -> impl Iterator<Item = &PortPlan> {
    switch.ports.iter().filter(|port| port.role == PortRole::Unused)
}

/// All VLANs of a membership, tagged or not.
pub(super) fn members(membership: &Membership) -> VlanSet {
    membership.untagged.iter().chain(membership.tagged.iter()).collect()
}

/// All VLANs that any port of the switch carries.
pub(super) fn carried(switch: &SwitchPlan) -> VlanSet {
    let memberships = interfaces(switch).map(Interface::membership);
    memberships.flat_map(|membership| membership.untagged.iter().chain(membership.tagged.iter())).collect()
}

/// Every VLAN up to `last` that the interface is not in, known to the plan or not: all of these must be
/// removed. With spanning tree off, a VLAN that an earlier configuration left on a ring is a storm.
pub(super) fn superfluous(membership: &Membership, last: u16) -> VlanSet {
    let all: VlanSet = (1..=last).filter_map(VlanId::new).collect();
    all.difference(&membership.untagged).difference(&membership.tagged)
}

/// A set as lists of at most `ranges_max` ranges: what switches take in one command.
pub(super) fn in_lists(set: &VlanSet, ranges_max: usize) -> Vec<String> {
    let ranges: Vec<String> = set
        .ranges()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    ranges.chunks(ranges_max).map(|chunk| chunk.join(",")).collect()
}

/// `101 to 104 110`, at most ten ranges each: what Comware and VRP take in one command.
pub(super) fn lists_with_to(set: &VlanSet) -> Vec<String> {
    let ranges: Vec<String> = set
        .ranges()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first} to {last}") })
        .collect();
    ranges.chunks(10).map(|chunk| chunk.join(" ")).collect()
}

/// Longest payload that needs no setting, bytes: every switch passes that.
pub(super) const MTU_ALWAYS_BYTES: u32 = 1500;
/// Bytes of an Ethernet frame around its payload: addresses, tag, type and checksum.
pub(super) const FRAME_OVERHEAD_BYTES: u32 = 12 + 4 + 2 + 4;

/// The longest payload, if it needs a setting.
///
/// # Errors
/// A [`Refusal`] if it is longer than the dialect can say.
pub(super) fn long_frames(
    dialect: &dyn Dialect,
    plan: &Plan,
    switch: &SwitchPlan,
) -> Result<Option<u32>, Refusal> {
    let limit = dialect.capabilities().mtu_max_bytes;
    if plan.mtu_bytes > limit {
        return Err(Refusal {
            switch: switch.name.clone(),
            dialect: dialect.name(),
            problem: format!(
                "frames of {} bytes (`mtu_bytes` of a NIC) are longer than its {limit}",
                plan.mtu_bytes
            ),
            remedy: format!("set `mtu_bytes` of the NICs to at most {limit}"),
        });
    }
    Ok(Some(plan.mtu_bytes).filter(|&mtu_bytes| mtu_bytes > MTU_ALWAYS_BYTES))
}

/// For switches with one untagged VLAN a port: that VLAN, if any.
///
/// # Errors
/// A [`Refusal`] naming the port if the plan puts another VLAN untagged on it.
pub(super) fn native(
    dialect: &'static str,
    switch: &SwitchPlan,
    name: &str,
    membership: &Membership,
) -> Result<Option<VlanId>, Refusal> {
    let only_native = membership.untagged.iter().all(|vlan| Some(vlan) == membership.pvid);
    if only_native && membership.pvid.is_none_or(|vlan| membership.untagged.contains(vlan)) {
        return Ok(membership.pvid);
    }
    Err(Refusal {
        switch: switch.name.clone(),
        dialect,
        problem: format!(
            "port {name} needs untagged VLANs {}, and a trunk has one native VLAN",
            membership.untagged
        ),
        remedy: "let the hosts tag: write tagging = \"host\" under [plan]".into(),
    })
}

/// For shell scripts: pause in both directions at these ports, `name` each in turn; a message names a port
/// that cannot.
pub(crate) fn flow_control(name: &str, ports: &str) -> String {
    format!(
        "if command -v ethtool >/dev/null 2>&1; then\n\
         \tfor {name} in {ports}; do\n\
         \t\tethtool -A ${name} rx on tx on >/dev/null 2>&1 ||\n\
         \t\t\techo \"$0: ${name}: flow control not changed (already on, or not offered by the NIC)\" >&2\n\
         \tdone\nelse\n\
         \techo \"$0: flow control not changed: ethtool is not installed\" >&2\nfi\n"
    )
}

/// Appends a line.
pub(super) fn line(text: &mut String, words: impl std::fmt::Display) {
    let _ = writeln!(text, "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_comes_in_lines_of_ten_ranges() {
        let odd: VlanSet = (0..12).filter_map(|index| VlanId::new(101 + 2 * index)).collect();
        let lists = lists_with_to(&odd);
        assert_eq!(lists.len(), 2);
        assert_eq!(lists[1], "121 123");
        let run: VlanSet = (101..=104).filter_map(VlanId::new).collect();
        assert_eq!(lists_with_to(&run), ["101 to 104"]);
    }
}
