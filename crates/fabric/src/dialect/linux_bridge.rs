//! Linux bridges, set up by a shell script of `ip` and `bridge` commands (iproute2).
//!
//! Can: several untagged VLANs on a port, any aging time below 497 days, LACP and static LAGs hashed over
//! addresses and ports. Cannot: pause where the NIC has none (the script says so and goes on); keep learned
//! addresses for ever (an aging time of 0 means never to learn, so "for ever" is 497 days). One bridge,
//! `br0`, or inside a host the host's own interface. The lab applies exactly this script.

use std::fmt::Write as _;

use crate::graph::SwitchId;
use crate::plan::{
    INTERFACE_NAME_BYTES_MAX, Membership, Plan, PortRole, SwitchPlan, Tagging, VlanId, VlanSet,
};

use super::text::{self, Interface};
use super::{Config, ConfigFile, Dialect, Refusal, mstp};

/// See the module's documentation.
#[derive(Debug)]
pub struct LinuxBridge;

/// Longest aging time, s: the kernel takes hundredths in 32 bits.
const AGING_TIME_MAX_S: u32 = u32::MAX / 100;

impl Dialect for LinuxBridge {
    fn name(&self) -> &'static str {
        "linux-bridge"
    }

    fn emit(&self, plan: &Plan, switch: SwitchId) -> Result<Config, Refusal> {
        let switch = plan.switch(switch);
        mstp::refuse(self, plan, switch)?;
        check_names(self.name(), plan, switch)?;
        let mut script = String::from("#!/bin/sh\n");
        let what = "Run as root on the switch, any number of times; it changes only what differs.";
        script += &text::header(plan, switch, "#", what);
        script += PREAMBLE;
        let bridge = bridge_name(plan, switch);
        write_bridge(&mut script, &bridge, switch);
        write_lags(&mut script, plan, switch);
        write_ports(&mut script, plan, switch, &bridge);
        write_vlans(&mut script, plan, switch, &bridge);
        write_start(&mut script, plan, switch, &bridge);
        let file = ConfigFile { name: format!("{}.sh", switch.name), text: script, executable: true };
        Ok(Config { files: vec![file, boot_unit(plan, switch)] })
    }
}

/// Runs the script at each start, and again until the ports that it names are there.
fn boot_unit(plan: &Plan, switch: &SwitchPlan) -> ConfigFile {
    let text = format!(
        "# Written by `ayatori plan`. Install {name}.sh as /usr/local/sbin/ayatori-switch and this file as\n\
         # /etc/systemd/system/ayatori-switch.service; then: systemctl enable \
         ayatori-switch.service\n[Unit]\n\
         Description=VLANs of switch {name} of machine {machine}\nWants=network-pre.target\n\
         After=network-pre.target systemd-udevd.service\nBefore=network.target\n\n[Service]\nType=oneshot\n\
         RemainAfterExit=yes\nExecStart=/usr/local/sbin/ayatori-switch\nRestart=on-failure\nRestartSec=5\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        name = switch.name,
        machine = plan.machine
    );
    ConfigFile { name: format!("{}.service", switch.name), text, executable: false }
}

const PREAMBLE: &str = r#"set -eu

# What is there now: `exists NAME`, `is_in NAME MASTER`. Changes are collected and made in one go, because a switch with
# hundreds of ports would otherwise start hundreds of programs.
links=$(ip -o link show)
exists() { case "$links" in *": $1: "* | *": $1@"*) ;; *) return 1 ;; esac; }
newline='
'
is_in() {
	rest=${links#*": $1"[:@]}
	case "${rest%%"$newline"*}" in *" master $2 "*) ;; *) return 1 ;; esac
}
# join NAME BRIDGE, join_lag NAME LAG: a LAG takes members only while they are down.
join() { is_in "$1" "$2" || echo "link set dev $1 master $2"; }
join_lag() { is_in "$1" "$2" || printf 'link set dev %s down\nlink set dev %s master %s\n' "$1" "$1" "$2"; }
"#;

/// The bridge's interface: inside a host it is the interface the host's own frames use.
pub fn bridge_name(plan: &Plan, switch: &SwitchPlan) -> String {
    let inside = switch.inside_host.map(|host| plan.host(host));
    let own =
        inside.and_then(|host| host.attachments.iter().find(|attachment| attachment.switch == switch.id));
    own.map_or_else(|| "br0".into(), |attachment| attachment.interface.clone())
}

/// The interface of a LAG: `bond1`.
pub fn lag_name(number: u16) -> String {
    format!("bond{number}")
}

/// Aging time to write, s.
pub(super) fn aging_time_s(switch: &SwitchPlan) -> u32 {
    switch.aging_time_s.unwrap_or(AGING_TIME_MAX_S).min(AGING_TIME_MAX_S)
}

/// The VLANs of the bridge's own interface, where the switch is a bridge inside a host: like a host port's.
pub(super) fn own_membership(plan: &Plan, switch: &SwitchPlan) -> Option<Membership> {
    let own = plan.host(switch.inside_host?).attachments.iter().find(|own| own.switch == switch.id)?;
    let pvid = plan.vlan_between(own, own);
    Some(match plan.tagging {
        Tagging::Switch => Membership { pvid, untagged: plan.vlan_set(), tagged: VlanSet::new() },
        Tagging::Host => Membership { pvid: None, untagged: VlanSet::new(), tagged: plan.vlan_set() },
    })
}

/// Port names become interface names, so they must be valid ones.
pub(super) fn check_names(dialect: &'static str, plan: &Plan, switch: &SwitchPlan) -> Result<(), Refusal> {
    let lags = switch.lags.iter().map(|lag| lag_name(lag.number));
    let names =
        switch.ports.iter().map(|port| port.name.clone()).chain(lags).chain([bridge_name(plan, switch)]);
    for name in names {
        let is_good = (1..=INTERFACE_NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
            && !name.starts_with(['-', '.']);
        if !is_good {
            return Err(Refusal {
                switch: switch.name.clone(),
                dialect,
                problem: format!("{name:?} cannot be the name of a Linux network interface"),
                remedy:
                    "set port_name in the switch's model to a name of at most 15 letters, digits, . _ -, \
                         such as \"swp{port}\""
                        .into(),
            });
        }
    }
    Ok(())
}

fn write_bridge(script: &mut String, bridge: &str, switch: &SwitchPlan) {
    let aging_time_cs = u64::from(aging_time_s(switch)) * 100;
    let _ = write!(
        script,
        "
# 1. The bridge. No VLAN by default: a port that joins carries nothing until told to, so nothing loops meanwhile.
#    No spanning tree: it would block the very links the VLANs are to use; each VLAN is a tree by plan.
#    Addresses are kept as long as can be ({} s): priming, not traffic, teaches them.
{{
exists {bridge} || echo link add name {bridge} type bridge vlan_filtering 1 vlan_default_pvid 0
echo link set dev {bridge} type bridge vlan_filtering 1 vlan_default_pvid 0 stp_state 0 ageing_time {aging_time_cs}
",
        aging_time_s(switch)
    );
}

fn write_lags(script: &mut String, plan: &Plan, switch: &SwitchPlan) {
    if switch.lags.is_empty() {
        return;
    }
    *script +=
        "\n# 2. Link aggregation, hashed over addresses and ports so that several connections spread.\n";
    for lag in &switch.lags {
        let name = lag_name(lag.number);
        let mode = if lag.lacp { "802.3ad lacp_rate fast" } else { "balance-xor" };
        let _ = writeln!(script, "# {name}: {}", text::reason(plan, lag.role));
        let _ =
            writeln!(script, "exists {name} || echo link add name {name} type bond mode {mode} miimon 100");
        let _ = writeln!(script, "echo link set dev {name} type bond xmit_hash_policy layer3+4");
        for number in &lag.members {
            if let Some(port) = text::port(switch, *number) {
                let _ = writeln!(script, "join_lag {} {name}", port.name);
            }
        }
    }
}

fn write_ports(script: &mut String, plan: &Plan, switch: &SwitchPlan, bridge: &str) {
    *script += "\n# 3. Ports of the bridge. Unused ones are taken out and down.\n";
    for interface in text::interfaces(switch) {
        let name = interface_name(interface);
        let _ = writeln!(script, "join {name} {bridge} # {}", text::reason(plan, interface.role()));
    }
    let unused: Vec<&str> = text::unused_ports(switch).map(|port| port.name.as_str()).collect();
    if !unused.is_empty() {
        let _ = writeln!(script, "for port in {}; do", unused.join(" "));
        *script += "\tif exists $port; then echo link set dev $port nomaster down; fi\ndone\n";
    }
    *script += "} | ip -batch -\n";
}

fn write_vlans(script: &mut String, plan: &Plan, switch: &SwitchPlan, bridge: &str) {
    *script += "
# 4. VLANs. Frames from a host enter the VLAN of its port (pvid) and leave to any host untagged, whatever VLAN they
#    came by; between switches they keep their tag. What is not listed is deleted first: with no spanning tree a
#    leftover membership is a loop.
bridge -batch - <<'VLANS'
";
    for interface in text::interfaces(switch) {
        let _ = writeln!(script, "# {}", text::reason(plan, interface.role()));
        write_membership(script, &interface_name(interface), interface.membership());
    }
    if let Some(own) = own_membership(plan, switch) {
        *script += "# this host itself\n";
        write_membership(script, &format!("{bridge} self"), &own);
    }
    *script += "VLANS\n";
}

fn write_membership(script: &mut String, device: &str, membership: &Membership) {
    for (first, last) in complement(&text::members(membership)) {
        let _ = writeln!(script, "vlan del vid {} dev {device}", range(first, last));
    }
    let mut untagged = membership.untagged.clone();
    if let Some(pvid) = membership.pvid {
        // Alone: a PVID cannot be part of a range.
        let flags = if untagged.contains(pvid) { "pvid untagged" } else { "pvid" };
        let _ = writeln!(script, "vlan add vid {pvid} dev {device} {flags}");
        untagged = untagged.difference(&[pvid].into_iter().collect());
    }
    for (first, last) in untagged.ranges() {
        let _ = writeln!(script, "vlan add vid {} dev {device} untagged", range(first.get(), last.get()));
    }
    for (first, last) in membership.tagged.ranges() {
        let _ = writeln!(script, "vlan add vid {} dev {device}", range(first.get(), last.get()));
    }
}

fn write_start(script: &mut String, plan: &Plan, switch: &SwitchPlan, bridge: &str) {
    let wired: Vec<&str> = switch
        .ports
        .iter()
        .filter(|port| port.role != PortRole::Unused)
        .map(|port| port.name.as_str())
        .collect();
    if plan.pause && !wired.is_empty() {
        *script += "
# 5. Flow control (802.3x) in both directions, so that frames wait instead of being lost.
";
        *script += &text::flow_control("port", &wired.join(" "));
    }
    *script += "
# 6. Up. What was learned before may point along links a VLAN no longer uses: forget it, and prime from the hosts.
";
    let lags = switch.lags.iter().map(|lag| lag_name(lag.number));
    let up: Vec<String> =
        wired.iter().map(|name| (*name).to_owned()).chain(lags).chain([bridge.to_owned()]).collect();
    *script += "ip -batch - <<'UP'\n";
    for device in up {
        let _ = writeln!(script, "link set dev {device} mtu {} up", plan.mtu_bytes);
    }
    let _ = writeln!(script, "link set dev {bridge} type bridge fdb_flush\nUP");
}

pub(super) fn interface_name(interface: Interface<'_>) -> String {
    match interface {
        Interface::Port(port) => port.name.clone(),
        Interface::Lag(lag) => lag_name(lag.number),
    }
}

/// The identifiers 1 to 4094 that are not in the set, as inclusive ranges.
fn complement(set: &VlanSet) -> Vec<(u16, u16)> {
    let mut ranges = Vec::new();
    let mut next = 1;
    for (first, last) in set.ranges() {
        if next < first.get() {
            ranges.push((next, first.get() - 1));
        }
        next = last.get() + 1;
    }
    if next <= VlanId::MAX {
        ranges.push((next, VlanId::MAX));
    }
    ranges
}

fn range(first: u16, last: u16) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_a_set_is_everything_else() {
        let set: VlanSet = [1, 101, 102, 4094].into_iter().filter_map(VlanId::new).collect();
        assert_eq!(complement(&set), [(2, 100), (103, 4093)]);
        assert_eq!(complement(&VlanSet::new()), [(1, 4094)]);
    }

    #[test]
    fn port_name_that_linux_cannot_have_is_refused_with_advice() {
        let mut plan = crate::plan::two_switches_and_four_hosts();
        let refusal = LinuxBridge.emit(&plan, SwitchId(0)).unwrap_err();
        assert!(refusal.to_string().contains("\"1/g1\" cannot be the name"), "{refusal}");
        for port in &mut plan.switches[0].ports {
            port.name = format!("swp{}", port.number);
        }
        assert!(LinuxBridge.emit(&plan, SwitchId(0)).is_ok());
    }
}
