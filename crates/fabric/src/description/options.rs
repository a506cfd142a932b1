//! `[plan]`: what the planner is asked for.

use std::net::Ipv4Addr;

use crate::plan::{Subnet, VlanId};

use super::reader::{Located, Result, Section};

/// What the planner is asked for; every key has a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOptions {
    /// How paths are chosen.
    pub routing: Routing,
    /// How sources share VLANs.
    pub grouping: Grouping,
    /// Order in which dimensions are corrected, with dimension-order routing; empty: shortest first, as the
    /// paper's counts imply.
    pub dimension_order: Vec<usize>,
    /// The side that tags frames: switches or hosts.
    pub tagging: TaggingOption,
    /// Identifier of the first VLAN; the others follow.
    pub first_vlan: VlanId,
    /// Whether pause (802.3x) is on.
    pub pause: bool,
    /// Aging time asked for, s; `None`: the longest each switch can.
    pub aging_time_s: Option<u32>,
    /// Whether LAGs negotiate by LACP.
    pub lacp: bool,
    /// Where applications' addresses come from.
    pub host_subnet: Subnet,
    /// Where the VLAN interfaces' addresses come from: each VLAN gets a part.
    pub vlan_subnet: Subnet,
    /// Seed of the searches for few VLANs and for balanced routes.
    pub seed: u64,
    /// How long to search for balanced routes.
    pub search: SearchEffort,
    /// The mechanism that keeps trees free of loops.
    pub spanning_tree: SpanningTree,
}

/// The mechanism that keeps trees free of loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanningTree {
    /// The plan: ports are left out of VLANs, and the protocol is off.
    Off,
    /// MSTP, with costs that make each instance elect the planned tree. Heals by itself.
    Mstp,
}

/// How long to search for balanced routes. Both count steps and not seconds: the same file gives the same
/// plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchEffort {
    /// About a second: routes are improved within the turns that they begin with.
    Quick,
    /// Some ten seconds more where the quick search ends far from the bound.
    Full,
}

/// How paths are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Dimension order on grids, shortest paths elsewhere; whatever of the others is free of deadlock if that
    /// is not.
    Auto,
    /// One dimension after the other; grids only.
    DimensionOrder,
    /// Dimension order that never passes *through* coordinate 0 of a dimension that wraps around: free of
    /// deadlock.
    NoWrapTransit,
    /// Shortest paths, chosen so that few VLANs are needed.
    Minimal,
    /// Up towards a root, then down (Autonet): free of deadlock on every graph.
    UpDown,
    /// One spanning tree for all hosts: one VLAN.
    SpanningTree,
}

/// How sources share VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// One VLAN for every source switch, as the paper, and more by host port where that makes the busiest
    /// link less busy. Says what its choice of routes is held against: a bound that no routes can pass.
    Balanced,
    /// The paper's: one VLAN for every source switch; those whose trees are the same share it.
    PerSource,
    /// Choose among equally good trees so that as many sources as possible share.
    Fewest,
}

/// The side that tags frames: switches or hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaggingOption {
    /// The switches where all of them can, else the hosts.
    Auto,
    /// The switches.
    Switch,
    /// The hosts.
    Host,
}

const ROUTINGS: &[(&str, Routing)] = &[
    ("auto", Routing::Auto),
    ("dimension-order", Routing::DimensionOrder),
    ("no-wrap-transit", Routing::NoWrapTransit),
    ("minimal", Routing::Minimal),
    ("up-down", Routing::UpDown),
    ("spanning-tree", Routing::SpanningTree),
];

impl Routing {
    /// As it is written in the description.
    pub fn name(self) -> &'static str {
        ROUTINGS.iter().find(|(_, routing)| *routing == self).map_or("auto", |(name, _)| name)
    }
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            routing: Routing::Auto,
            grouping: Grouping::Balanced,
            dimension_order: Vec::new(),
            tagging: TaggingOption::Auto,
            // VLAN 1 is every switch's default; the paper's figure 2 begins at 101.
            first_vlan: VlanId::new(101).expect("101 is valid"),
            pause: true,
            aging_time_s: None,
            lacp: true,
            host_subnet: Subnet { network: Ipv4Addr::new(172, 16, 0, 0), prefix_bits: 12 },
            vlan_subnet: Subnet { network: Ipv4Addr::new(10, 0, 0, 0), prefix_bits: 8 },
            seed: 1,
            search: SearchEffort::Quick,
            spanning_tree: SpanningTree::Off,
        }
    }
}

pub(super) fn options(section: Section<'_>) -> Result<PlanOptions> {
    let s = &section;
    let default = PlanOptions::default();
    let names: Vec<&str> = ROUTINGS.iter().map(|(name, _)| *name).collect();
    let order = s.counts("dimension_order", 0..=31)?;
    if let Some(order) = &order {
        check_order(s, order)?;
    }
    let first_vlan = s.count("first_vlan", 2..=u64::from(VlanId::MAX))?;
    let options = PlanOptions {
        routing: s.choice("routing", &names)?.map_or(default.routing, |index| ROUTINGS[index].1),
        grouping: match s.choice("vlans", &["balanced", "per-source", "fewest"])? {
            Some(1) => Grouping::PerSource,
            Some(2) => Grouping::Fewest,
            _ => Grouping::Balanced,
        },
        dimension_order: order.map_or(Vec::new(), |order| order.value.iter().map(|&d| d as usize).collect()),
        tagging: match s.choice("tagging", &["auto", "switch", "host"])? {
            Some(1) => TaggingOption::Switch,
            Some(2) => TaggingOption::Host,
            _ => TaggingOption::Auto,
        },
        first_vlan: first_vlan.and_then(|vid| VlanId::new(vid as u16)).unwrap_or(default.first_vlan),
        pause: s.flag("pause")?.unwrap_or(default.pause),
        aging_time_s: s.count("aging_time_s", 10..=u64::from(u32::MAX))?.map(|n| n as u32),
        lacp: s.flag("lacp")?.unwrap_or(default.lacp),
        host_subnet: subnet(s, "host_subnet")?.unwrap_or(default.host_subnet),
        vlan_subnet: subnet(s, "vlan_subnet")?.unwrap_or(default.vlan_subnet),
        seed: s.count("seed", 0..=u64::MAX)?.unwrap_or(default.seed),
        search: match s.choice("search", &["quick", "full"])? {
            Some(1) => SearchEffort::Full,
            _ => SearchEffort::Quick,
        },
        spanning_tree: match s.choice("spanning_tree", &["off", "mstp"])? {
            Some(1) => SpanningTree::Mstp,
            _ => SpanningTree::Off,
        },
    };
    let overlap = |a: Subnet, b: Subnet| a.network <= b.broadcast() && b.network <= a.broadcast();
    if overlap(options.host_subnet, options.vlan_subnet) {
        let key = if s.has("vlan_subnet") { "vlan_subnet" } else { "host_subnet" };
        let problem = format!("{} and {} overlap", options.host_subnet, options.vlan_subnet);
        return Err(s.error(
            key,
            problem,
            "give applications' and VLAN interfaces' addresses separate subnets",
        ));
    }
    section.finish()?;
    Ok(options)
}

fn check_order(s: &Section<'_>, order: &Located<Vec<u32>>) -> Result<()> {
    let mut sorted = order.value.clone();
    sorted.sort_unstable();
    if sorted.iter().enumerate().any(|(index, &dimension)| index as u32 != dimension) {
        let problem = format!("{:?} is no order of dimensions", order.value);
        return Err(s.error_at(
            "dimension_order",
            order,
            problem,
            "name every dimension once, from 0: [1, 0]",
        ));
    }
    Ok(())
}

fn subnet(s: &Section<'_>, key: &'static str) -> Result<Option<Subnet>> {
    let Some(text) = s.text(key)? else { return Ok(None) };
    let wrong = |problem: String| Err(s.error_at(key, &text, problem, "write it as \"10.0.0.0/8\""));
    let parts = text
        .value
        .split_once('/')
        .and_then(|(network, bits)| Some((network.parse::<Ipv4Addr>().ok()?, bits.parse::<u8>().ok()?)));
    let Some((network, prefix_bits)) = parts else {
        return wrong(format!("{:?} is no IPv4 subnet", text.value));
    };
    if !(1..=30).contains(&prefix_bits) {
        return wrong(format!("a prefix of {prefix_bits} bits (1 to 30 are possible)"));
    }
    let host_mask = u32::MAX >> prefix_bits;
    if u32::from(network) & host_mask != 0 {
        let problem = format!("{network} is not the first address of a /{prefix_bits}");
        let first = Ipv4Addr::from(u32::from(network) & !host_mask);
        return Err(s.error_at(key, &text, problem, format!("write \"{first}/{prefix_bits}\"")));
    }
    Ok(Some(Subnet { network, prefix_bits }))
}
