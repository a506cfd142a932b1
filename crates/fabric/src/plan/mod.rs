//! A finished VLAN plan: the settings of every switch port and every host interface, and the proof that they
//! are right.
//!
//! Owns: the data that the dialects write out, that `plan check` compares against, that the page draws
//! and the lab
//! applies. Deliberately absent: how a plan is found (`vlan`), and the words of any make of switch
//! (`dialect`).
//!
//! How frames travel, in the paper's scheme ([`Tagging::Switch`]): a host sends untagged; its switch
//! port's PVID
//! decides the VLAN, and so the tree, for all destinations; between switches the frame is tagged and
//! keeps its VLAN
//! from the first switch to the last; the last switch's host port is an untagged member of every VLAN,
//! so the frame
//! leaves untagged. The way back is the other host's VLAN, usually another tree. With
//! [`Tagging::Host`], for switches
//! whose ports take one untagged VLAN only, the host tags and the VLAN depends on both ends
//! ([`Plan::vlan_between`] says which, in both schemes).
//!
//! Invariants, checked by [`Plan::check_invariants`]: `links[i].id == LinkId(i)`, `switches[i].id ==
//! SwitchId(i)`,
//! `hosts[i].id == HostId(i)`; VLANs ascend; a port's membership is *complete* (a VLAN that is not
//! listed, the
//! switch's default VLAN 1 included, must be taken off the port: STP is off, and a leftover VLAN would
//! be a loop);
//! members of a LAG repeat the LAG's membership.

mod example;
mod mstp;
mod read;
mod route;
mod vlan_set;

use std::borrow::Cow;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

pub use example::two_switches_and_four_hosts;
pub use mstp::{
    MSTP_DEPTH_MAX, MSTP_INSTANCES_MAX, MSTP_MAX_HOPS, MSTP_REGION_BYTES_MAX, Mstp, MstpInstance,
};
pub use read::PlanFileError;
pub use route::{Hop, Route, VlanChoice};
pub use vlan_set::{VlanId, VlanSet};

pub use crate::analysis::bisection::Bisection;
use crate::graph::{HostId, LinkId, SwitchId};

/// The JSON schema (draft 2020-12) of a plan as `ayatori plan --json` prints it, which beside the plan's own
/// keys may have `traffic` and `failures`.
pub const SCHEMA: &str = include_str!("../../schema/plan.schema.json");

/// A complete plan. See the module's documentation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the machine, from its description.
    pub machine: String,
    /// The side that tags frames: switches or hosts.
    pub tagging: Tagging,
    /// In words, how routes were chosen: `dimension order (1, 0), one VLAN per source switch`.
    pub method: String,
    /// Whether it is the whole machine's plan, repaired after a failure: most of it stayed as it was.
    pub is_repaired: bool,
    /// Whether IEEE 802.3x flow control (pause) is on.
    pub pause: bool,
    /// Largest payload of a frame that a host sends, bytes: every port between hosts has to take it.
    pub mtu_bytes: u32,
    /// All VLANs, by ascending identifier.
    pub vlans: Vec<VlanPlan>,
    /// Links between switches; those between hosts and switches are the attachments.
    pub links: Vec<LinkPlan>,
    /// All switches.
    pub switches: Vec<SwitchPlan>,
    /// All hosts.
    pub hosts: Vec<HostPlan>,
    /// How switches are taught where hosts are.
    pub priming: Priming,
    /// Lengths, loads, cost.
    pub figures: Figures,
    /// Proofs about the plan, and its faults.
    pub verdicts: Verdicts,
    /// Which VLAN a frame takes.
    #[serde(default)]
    pub choice: VlanChoice,
    /// The spanning tree protocol that holds the trees; `None`: it is off, and ports are left out of VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mstp: Option<Mstp>,
}

/// The side that puts the VLAN tag on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tagging {
    /// The switch, by the PVID of the port the frame comes in at (the paper, section 3.1). Hosts know
    /// nothing.
    Switch,
    /// The host, through one interface per VLAN; for switches with one untagged VLAN per port.
    Host,
}

/// One VLAN: a loop-free tree over the switches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VlanPlan {
    /// Its identifier.
    pub vid: VlanId,
    /// The tree: links between switches whose two ends are tagged members.
    pub tree: Vec<LinkId>,
    /// Switches whose hosts send on this VLAN (with [`Tagging::Host`]: to at least one destination).
    pub sources: Vec<SwitchId>,
    /// Subnet of the hosts' interfaces on this VLAN.
    pub subnet: Subnet,
}

/// An IPv4 subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Its first address.
    pub network: Ipv4Addr,
    /// Length of the prefix, bits.
    pub prefix_bits: u8,
}

impl Subnet {
    /// The `number`-th host address: 0 is the first after the network's own. `None` where the subnet ends.
    pub fn host_address(&self, number: u32) -> Option<Ipv4Addr> {
        let size = 1_u64 << (32 - u32::from(self.prefix_bits).min(32));
        let offset = u64::from(number) + 1;
        // The last address is the broadcast address.
        (offset + 1 < size).then(|| Ipv4Addr::from(u32::from(self.network).wrapping_add(offset as u32)))
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (self.network..=self.broadcast()).contains(&address)
    }

    /// The broadcast address.
    pub fn broadcast(&self) -> Ipv4Addr {
        let host_bits = 32 - u32::from(self.prefix_bits).min(32);
        let mask = if host_bits == 32 { u32::MAX } else { (1_u32 << host_bits) - 1 };
        Ipv4Addr::from(u32::from(self.network) | mask)
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_bits)
    }
}

/// A link between two switches: one cable, or several as one (link aggregation).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Its number, also in the graph.
    pub id: LinkId,
    /// Both ends.
    pub ends: [LinkEnd; 2],
    /// Rate of one cable, bit/s.
    pub rate_bits_per_s: u64,
}

impl LinkPlan {
    /// Number of cables.
    pub fn cable_count(&self) -> usize {
        self.ends[0].ports.len()
    }
}

/// One end of a link between switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The switch.
    pub switch: SwitchId,
    /// Its ports, cable by cable in the same order at both ends.
    pub ports: Vec<PortNumber>,
    /// The LAG these ports form; `None` for a single cable.
    pub lag: Option<u16>,
}

/// A port as printed on the switch, from 1.
pub type PortNumber = u16;

/// One switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// Its number.
    pub id: SwitchId,
    /// Its name.
    pub name: String,
    /// Name of its model in the description.
    pub model: String,
    /// Name of the dialect that writes its configuration.
    pub dialect: String,
    /// The host this switch is a bridge inside of (hosts cabled to each other without a switch); else `None`.
    pub inside_host: Option<HostId>,
    /// Every port of the switch, by number, unused ones too.
    pub ports: Vec<PortPlan>,
    /// Link aggregation groups, by number from 1.
    pub lags: Vec<LagPlan>,
    /// Aging time of learned addresses, s; `None`: for ever.
    pub aging_time_s: Option<u32>,
    /// MAC table entries the plan needs here: hosts' interfaces times VLANs.
    pub mac_entries_count: u64,
}

/// One physical port.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PortPlan {
    /// Its number, from 1.
    pub number: PortNumber,
    /// Its name in the switch's own words: `1/g1`, `swp1`, `enp1s0`.
    pub name: String,
    /// The far end.
    pub role: PortRole,
    /// The LAG it belongs to.
    pub lag: Option<u16>,
    /// Its VLANs (those of its LAG, if it is in one).
    pub membership: Membership,
}

/// A link aggregation group (IEEE 802.1AX).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LagPlan {
    /// Its number, from 1, within the switch.
    pub number: u16,
    /// Its ports.
    pub members: Vec<PortNumber>,
    /// The far end.
    pub role: PortRole,
    /// Negotiated by LACP, or static.
    pub lacp: bool,
    /// Its VLANs.
    pub membership: Membership,
}

/// The far end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortRole {
    /// Nothing: no VLAN may be on it.
    Unused,
    /// A host's attachment.
    Host {
        /// The host.
        host: HostId,
        /// Index into its attachments.
        attachment: usize,
    },
    /// Another switch.
    Link {
        /// The link.
        link: LinkId,
        /// The switch at the far end.
        peer: SwitchId,
    },
}

/// The VLANs of a port, complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// VLAN of untagged frames that come in; `None`: untagged frames are dropped.
    pub pvid: Option<VlanId>,
    /// VLANs whose frames leave untagged.
    pub untagged: VlanSet,
    /// VLANs whose frames leave tagged.
    pub tagged: VlanSet,
}

/// One host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostPlan {
    /// Its number.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its ways into the network; two NICs used as one bond are one attachment.
    pub attachments: Vec<Attachment>,
}

/// A host's interface (a NIC or a bond) and the switch ports it is cabled to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attachment {
    /// Number among all attachments of the machine, from 0.
    pub number: u32,
    /// Which of the host's rails it is, from 0.
    pub rail: u8,
    /// Interface name: `eth0`, or `bond0` for several NICs.
    pub interface: String,
    /// The NICs of a bond, in the order of `ports`; one entry, the interface itself, without a bond.
    pub nics: Vec<String>,
    /// Largest payload of its frames, bytes.
    pub mtu_bytes: u32,
    /// The interface's MAC address, where the description gives one.
    pub mac: Option<MacAddr>,
    /// The switch.
    pub switch: SwitchId,
    /// Its ports; several for a bond. Empty if the switch is a bridge inside this host.
    pub ports: Vec<PortNumber>,
    /// The address applications use, the same whatever VLAN a frame takes.
    pub address: Ipv4Addr,
    /// Length of its prefix, bits.
    pub prefix_bits: u8,
    /// Which address of each VLAN's subnet is its own, from 0. It stays when hosts come and go.
    pub address_number: u32,
}

/// Longest name of a network interface (Linux: IFNAMSIZ less its NUL), bytes.
pub const INTERFACE_NAME_BYTES_MAX: usize = 15;

impl Attachment {
    /// What the names of its VLAN interfaces begin with, up to the dot. The interface's own name, if `.4094`
    /// fits behind it; else `ay` and the number of the rail: `ay0.101` on `enp129s0f1np1`.
    pub fn vlan_interface_prefix(&self) -> String {
        if self.interface.len() + ".4094".len() <= INTERFACE_NAME_BYTES_MAX {
            self.interface.clone()
        } else {
            format!("ay{}", self.rail)
        }
    }
}

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Reads `52:54:00:12:34:56`; also with `-`. `None` if it is not six bytes in hexadecimal.
    pub fn parse(text: &str) -> Option<MacAddr> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next()?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(MacAddr(bytes))
    }

    /// Whether it addresses a group of stations; no interface has such an address.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl std::fmt::Display for MacAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<MacAddr, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("{text:?} is no MAC address"));
        MacAddr::parse(&text).ok_or_else(wrong)
    }
}

impl Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The MAC learning procedure (the paper, section 3.2): every interface broadcasts one frame on every
/// VLAN, so every
/// switch knows every host on every VLAN; repeated before the entries age out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priming {
    /// Most time between two rounds, s: half the shortest aging time, so that one lost round does no harm.
    /// `None`: entries
    /// never age, prime once after each start of a switch.
    pub period_s: Option<u32>,
    /// Time between a host's frames on two VLANs, ms.
    pub gap_ms: u32,
    /// Frames of one round on one direction of one link, at most.
    pub link_frames_max: u64,
    /// Maximum number of these at once, if all hosts begin at the same moment.
    pub at_once_frames_max: u64,
}

/// Figures of a plan. A *flow* goes from one host interface to another at another switch: one for every
/// ordered pair.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures {
    /// No fewer VLANs are possible with such paths, as far as the planner knows.
    pub vlan_count_min: usize,
    /// Most switches on a route, both ends counted: how the paper counts the diameter (table 2).
    pub diameter_switches: u32,
    /// Switches on a route, mean over all flows.
    pub mean_switches: f64,
    /// Mean length of routes, in links, over that of shortest paths.
    pub stretch: f64,
    /// Least bandwidth between two halves: the cabling's own, whatever the routes.
    pub bisection: Bisection,
    /// Bandwidth of the routes between the same halves in each direction, bit/s, if one flow from each host
    /// interface to each other is as fast as the busiest channel there allows.
    pub bisection_routed_bits_per_s: u64,
    /// Links that no flow crosses.
    pub idle_link_count: usize,
    /// Flows on the busiest channel, for its rate.
    pub link_load_max: u64,
    /// Lower bound of it for all routes, by linear programming duality (`vlan/balance/bound.rs`).
    pub link_load_least: f64,
    /// That channel; `None` without links.
    pub busiest: Option<BusiestLink>,
    /// Flows on a channel that is used at all, mean.
    pub link_load_mean: f64,
    /// Flows by channel: `channel_flows[2 * link + end]` leave the link's end `end`.
    pub channel_flows: Vec<u64>,
    /// Cables between switches.
    pub cable_count: u64,
    /// Cost of switches and cables between them, where the description has prices.
    pub price: Option<f64>,
}

impl Figures {
    /// Flows on the busiest channel over the least that any routes have there: from 1.0, and no more than
    /// this from the best there is.
    pub fn load_over_least(&self) -> f64 {
        if self.link_load_least > 0.0 { self.link_load_max as f64 / self.link_load_least } else { 1.0 }
    }
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusiestLink {
    /// The link.
    pub link: LinkId,
    /// The switch that sends.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
}

/// Results of the checks. `deadlock` and the list together are the whole verdict.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verdicts {
    /// Each check, in order.
    pub checks: Vec<Check>,
    /// Deadlock freedom over the union of all VLANs.
    pub deadlock: Deadlock,
    /// A deadlock-free way to plan the same machine, where this plan is not.
    pub alternative: Option<Alternative>,
}

impl Verdicts {
    /// Whether nothing fails: warnings are allowed.
    pub fn are_good(&self) -> bool {
        self.checks.iter().all(|check| check.status != Status::Fails)
    }
}

/// One check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Short name: `trees`, `routes`, `vlan limit`, `mac table`, `deadlock` …
    pub name: Cow<'static, str>,
    /// Outcome.
    pub status: Status,
    /// The figures behind it.
    pub detail: String,
    /// The remedy, if it does not hold.
    pub remedy: Option<String>,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Proved.
    Holds,
    /// Works, with a drawback named in the detail.
    Warning,
    /// Does not work.
    Fails,
}

/// Whether pause frames can lock the network up: a cycle in the channel-dependency graph over the union
/// of VLANs.
/// 802.3x pauses a link and not a VLAN, so that each VLAN is a tree proves nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlock {
    /// The cycle, if there is one: each step holds its channel and waits for the next, the last for the
    /// first.
    pub cycle: Vec<CycleStep>,
}

impl Deadlock {
    /// Whether there is no cycle.
    pub fn is_free(&self) -> bool {
        self.cycle.is_empty()
    }
}

/// One channel of a cycle, with a route that holds it and waits for the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleStep {
    /// The link.
    pub link: LinkId,
    /// The switch that sends on it.
    pub from: SwitchId,
    /// The switch that receives.
    pub to: SwitchId,
    /// VLAN of the route.
    pub vid: VlanId,
    /// Switch the route begins at.
    pub source: SwitchId,
    /// A switch it leads to, beyond the next step.
    pub destination: SwitchId,
}

/// A deadlock-free plan of the same machine, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Lines of TOML for `[plan]`: `routing = "up-down"`.
    pub settings: Vec<String>,
    /// Number of VLANs it needs.
    pub vlan_count: usize,
    /// Mean path length over the shortest paths' mean: 1.0 is minimal.
    pub stretch: f64,
    /// Routes on its busiest link.
    pub link_load_max: u64,
}

impl Plan {
    /// A switch. Panics if it is not one of this plan's.
    pub fn switch(&self, id: SwitchId) -> &SwitchPlan {
        &self.switches[id.index()]
    }

    /// A host. Panics if it is not one of this plan's.
    pub fn host(&self, id: HostId) -> &HostPlan {
        &self.hosts[id.index()]
    }

    /// A VLAN by its identifier.
    pub fn vlan(&self, vid: VlanId) -> Option<&VlanPlan> {
        self.vlans.binary_search_by_key(&vid, |vlan| vlan.vid).ok().map(|at| &self.vlans[at])
    }

    /// All VLANs as a set: the membership of every host port.
    pub fn vlan_set(&self) -> VlanSet {
        self.vlans.iter().map(|vlan| vlan.vid).collect()
    }

    /// A host's VLAN interfaces of one attachment: VLAN, name (`eth0.101`), address. Made when asked
    /// for: a machine
    /// with 16,384 hosts and 1,000 VLANs has 16 million of them.
    pub fn vlan_interfaces<'a>(
        &'a self,
        attachment: &'a Attachment,
    ) -> impl Iterator<Item = VlanInterface> + 'a {
        self.vlans.iter().map(move |vlan| VlanInterface {
            vid: vlan.vid,
            name: format!("{}.{}", attachment.vlan_interface_prefix(), vlan.vid),
            address: vlan.subnet.host_address(attachment.address_number),
            subnet: vlan.subnet,
        })
    }

    /// Violated invariants of the module; empty for every plan that the planner makes.
    pub fn check_invariants(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut hold = |holds: bool, what: String| {
            if !holds {
                broken.push(what);
            }
        };
        for (index, link) in self.links.iter().enumerate() {
            hold(link.id.index() == index, format!("link {index} is numbered {}", link.id.0));
            hold(link.ends[0].ports.len() == link.ends[1].ports.len(), format!("link {index} loses a cable"));
            hold(link.cable_count() > 0, format!("link {index} has no cable"));
        }
        for (index, switch) in self.switches.iter().enumerate() {
            hold(switch.id.index() == index, format!("{} is numbered {}", switch.name, switch.id.0));
            for lag in &switch.lags {
                for &member in &lag.members {
                    let port = switch.ports.iter().find(|port| port.number == member);
                    let agrees =
                        port.is_some_and(|p| p.lag == Some(lag.number) && p.membership == lag.membership);
                    let what = format!("{}: port {member} disagrees with LAG {}", switch.name, lag.number);
                    hold(agrees, what);
                }
            }
        }
        for (index, host) in self.hosts.iter().enumerate() {
            hold(host.id.index() == index, format!("{} is numbered {}", host.name, host.id.0));
        }
        let ascending = self.vlans.windows(2).all(|pair| pair[0].vid < pair[1].vid);
        hold(ascending, "VLANs are not in ascending order".into());
        broken
    }
}

/// A host's interface on one VLAN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VlanInterface {
    /// The VLAN.
    pub vid: VlanId,
    /// Interface name.
    pub name: String,
    /// Its address; `None` if the VLAN's subnet is too small (the `addresses` check then fails).
    pub address: Option<Ipv4Addr>,
    /// The subnet.
    pub subnet: Subnet,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_give_every_address_but_the_first_and_the_last() {
        let subnet = Subnet { network: Ipv4Addr::new(10, 0, 1, 0), prefix_bits: 30 };
        assert_eq!(subnet.host_address(0), Some(Ipv4Addr::new(10, 0, 1, 1)));
        assert_eq!(subnet.host_address(1), Some(Ipv4Addr::new(10, 0, 1, 2)));
        assert_eq!(subnet.host_address(2), None);
        assert_eq!(subnet.broadcast(), Ipv4Addr::new(10, 0, 1, 3));
        assert_eq!(subnet.to_string(), "10.0.1.0/30");
        // All addresses there are, and no more than one by a prefix that only a file can have.
        let all = Subnet { network: Ipv4Addr::UNSPECIFIED, prefix_bits: 0 };
        assert_eq!((all.broadcast(), all.host_address(u32::MAX)), (Ipv4Addr::BROADCAST, None));
        let none = Subnet { network: Ipv4Addr::new(10, 0, 1, 7), prefix_bits: 33 };
        assert_eq!((none.broadcast(), none.host_address(0)), (none.network, None));
    }

    #[test]
    fn names_of_vlan_interfaces_are_no_longer_than_linux_takes() {
        let mut plan = two_switches_and_four_hosts();
        let own = &mut plan.hosts[0].attachments[0];
        own.interface = "enp129s0f1".into();
        assert_eq!(own.vlan_interface_prefix(), "enp129s0f1");
        own.interface += "n";
        assert_eq!(own.vlan_interface_prefix(), "ay0");
    }

    #[test]
    fn mac_addresses_are_six_bytes_in_hexadecimal() {
        assert_eq!(MacAddr::parse("52:54:00:12:ab:CD").unwrap().to_string(), "52:54:00:12:ab:cd");
        for bad in ["", "52:54:00:12:ab", "52:54:00:12:ab:cd:ef", "52:54:0:12:ab:cd", "52:54:00:12:ab:+d"] {
            assert_eq!(MacAddr::parse(bad), None, "{bad}");
        }
        assert!(MacAddr([1, 0, 0x5e, 0, 0, 1]).is_multicast());
    }

    #[test]
    fn the_load_is_told_as_a_multiple_of_the_least() {
        let figures =
            |link_load_max, link_load_least| Figures { link_load_max, link_load_least, ..Figures::default() };
        assert!((figures(12, 8.0).load_over_least() - 1.5).abs() < 1e-12);
        assert!((figures(8, 8.0).load_over_least() - 1.0).abs() < 1e-12);
        // Nothing goes from switch to switch.
        assert!((figures(0, 0.0).load_over_least() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_example_plans_figures_are_its_own() {
        let plan = two_switches_and_four_hosts();
        let load = crate::broadcast::priming_load(&plan);
        let Priming { gap_ms, link_frames_max, at_once_frames_max, .. } = plan.priming;
        assert_eq!(
            (gap_ms, link_frames_max, at_once_frames_max),
            (load.gap_ms, load.link_frames_max, load.at_once_frames_max)
        );
        let cables: usize = plan.links.iter().map(LinkPlan::cable_count).sum();
        assert_eq!((plan.figures.diameter_switches, plan.figures.cable_count), (2, cables as u64));
        assert!(!plan.is_repaired);
    }

    #[test]
    fn the_example_plan_keeps_the_invariants() {
        assert_eq!(two_switches_and_four_hosts().check_invariants(), Vec::<String>::new());
    }

    #[test]
    fn switches_are_numbered_in_their_order() {
        let mut plan = two_switches_and_four_hosts();
        plan.switches[1].id = SwitchId(9);
        let problems = plan.check_invariants();
        assert!(problems.iter().any(|problem| problem.contains("is numbered 9")), "{problems:?}");
    }

    #[test]
    fn hosts_are_numbered_in_their_order() {
        let mut plan = two_switches_and_four_hosts();
        plan.hosts[2].id = HostId(7);
        let problems = plan.check_invariants();
        assert!(problems.iter().any(|problem| problem.contains("is numbered 7")), "{problems:?}");
    }

    #[test]
    fn a_broken_plan_is_told() {
        let mut plan = two_switches_and_four_hosts();
        plan.switches[0].ports[6].membership.pvid = Some(plan.vlans[0].vid);
        plan.vlans.swap(0, 1);
        assert_eq!(plan.check_invariants().len(), 2);
        let mut twice = two_switches_and_four_hosts();
        twice.vlans[1].vid = twice.vlans[0].vid;
        assert_eq!(twice.check_invariants(), ["VLANs are not in ascending order"]);
        let mut bare = two_switches_and_four_hosts();
        bare.links[0].ends.iter_mut().for_each(|end| end.ports.clear());
        assert_eq!(bare.check_invariants(), ["link 0 has no cable"]);
    }
}
