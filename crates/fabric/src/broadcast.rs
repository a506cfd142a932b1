//! Effects of broadcasts on a plan: their turns in addition to those of the routes, and the most that the
//! learning procedure can put on one link.
//!
//! A broadcast follows the whole tree of its VLAN. With [`Tagging::Switch`] a host's own (ARP) go out on the
//! VLAN of its port, so along its routes and on to where the tree ends; the learning procedure (the paper,
//! section 3.2) broadcasts from every host on *every* VLAN, and so takes turns that no route takes. With
//! [`Tagging::Host`] a host asks on the VLAN of each pair. 802.3x pauses a link whatever is on it, so all of
//! these turns count for deadlock.

use std::collections::BTreeSet;

use crate::deadlock::{Dependencies, Lane};
use crate::graph::ChannelId;
use crate::plan::{Plan, Tagging, VlanChoice};

/// One learning frame on a link between switches, bytes: the shortest frame, and its tag.
pub const PRIMING_FRAME_BYTES: u64 = 64 + 4;
/// The same with preamble and the gap after it, bytes.
const PRIMING_WIRE_BYTES: u64 = PRIMING_FRAME_BYTES + 20;
/// Least time between a host's learning frames, ms.
const GAP_MIN_MS: u64 = 10;

/// What the learning procedure puts on links when all hosts run it in the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrimingLoad {
    /// Frames of a whole round on one direction of one link, at most.
    pub link_frames_max: u64,
    /// Maximum number of these at once: between two frames of a host there is [`Self::gap_ms`].
    pub at_once_frames_max: u64,
    /// Time between a host's frames, ms: twice what the slowest link takes for one of each host.
    pub gap_ms: u32,
}

/// Whether broadcasts close a cycle of waiting links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    /// Dependencies of routes and hosts' own broadcasts (ARP) together.
    pub arp_dependency_count: usize,
    /// The links of a cycle that ARP closes; empty if it closes none.
    pub arp_cycle: Vec<ChannelId>,
    /// Links of a cycle that the learning procedure closes; empty if it closes none.
    pub priming_cycle: Vec<ChannelId>,
}

/// A VLAN's tree, rooted: how many sources lie on each side of each of its links.
struct Flood {
    /// Switches in order from the root; a switch's parent comes before it.
    order: Vec<usize>,
    /// By switch: the channel that leads to its parent.
    up: Vec<Option<ChannelId>>,
    /// By switch: sources at it and below.
    below: Vec<u64>,
    total: u64,
    /// By switch: the channels that leave it along the tree.
    out: Vec<Vec<(ChannelId, usize)>>,
}

impl Flood {
    fn of(plan: &Plan, vlan: usize, sources: impl Fn(usize) -> u64) -> Flood {
        let count = plan.switches.len();
        let mut out: Vec<Vec<(ChannelId, usize)>> = vec![Vec::new(); count];
        for &link in &plan.vlans[vlan].tree {
            let [a, b] = [0, 1].map(|end| plan.links[link.index()].ends[end].switch.index());
            out[a].push((link.channel_from(0), b));
            out[b].push((link.channel_from(1), a));
        }
        let root = out.iter().position(|channels| !channels.is_empty()).unwrap_or(0);
        let mut up = vec![None; count];
        let mut order = vec![root];
        let mut at = 0;
        while let Some(&switch) = order.get(at) {
            at += 1;
            for &(channel, to) in &out[switch] {
                if up[switch] != Some(channel) {
                    up[to] = Some(channel.reverse());
                    order.push(to);
                }
            }
        }
        let mut below: Vec<u64> = (0..count).map(sources).collect();
        let total = order.iter().map(|&switch| below[switch]).sum();
        for &switch in order.iter().rev() {
            let parent = up[switch].and_then(|channel| out[switch].iter().find(|(out, _)| *out == channel));
            if let Some(&(_, parent)) = parent {
                below[parent] += below[switch];
            }
        }
        Flood { order, up, below, total, out }
    }

    /// Sources whose broadcasts leave `from` by this channel of the tree.
    fn frames(&self, from: usize, channel: ChannelId, to: usize) -> u64 {
        if self.up[from] == Some(channel) { self.below[from] } else { self.total - self.below[to] }
    }

    /// Calls `visit` with each pair of channels that a broadcast takes one after the other.
    fn turns(&self, mut visit: impl FnMut(ChannelId, ChannelId)) {
        for &switch in &self.order {
            for &(leaving, neighbour) in &self.out[switch] {
                let entering = leaving.reverse();
                if self.frames(neighbour, entering, switch) == 0 {
                    continue;
                }
                self.out[switch].iter().filter(|(next, _)| *next != leaving).for_each(|&(next, _)| {
                    visit(entering, next);
                });
            }
        }
    }
}

/// The switches that send broadcasts of their own (ARP) on each VLAN, by index.
fn arp_sources(plan: &Plan) -> Vec<BTreeSet<usize>> {
    let mut sources = vec![BTreeSet::new(); plan.vlans.len()];
    match &plan.choice {
        VlanChoice::BySource(_) => {
            for attachment in plan.attachments() {
                if let Some(vlan) = plan.choice.vlan_index(attachment, attachment) {
                    sources[vlan].insert(attachment.switch.index());
                }
            }
        }
        VlanChoice::ByPair { switch_count, vlans } => {
            for (pair, vlan) in vlans.iter().enumerate() {
                if let Some(vlan) = vlan {
                    sources[usize::from(*vlan)].insert(pair / switch_count);
                }
            }
        }
    }
    sources
}

/// Host interfaces by switch; those that are cut off are on no VLAN and send nothing.
fn interfaces_by_switch(plan: &Plan) -> Vec<u64> {
    let mut counts = vec![0; plan.switches.len()];
    for attachment in plan.attachments().filter(|own| plan.choice.vlan_index(own, own).is_some()) {
        counts[attachment.switch.index()] += 1;
    }
    counts
}

/// The turns of all broadcasts.
pub fn turns(plan: &Plan) -> Turns {
    let channel_count = 2 * plan.links.len();
    let lane = |channel| Lane { channel, vc: 0 };
    let mut seen: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut dependencies = Dependencies::new(channel_count, 1);
    let cycle = |dependencies: &Dependencies| -> Vec<ChannelId> {
        dependencies.find_cycle().into_iter().flatten().map(|lane| lane.channel).collect()
    };
    let mut add = |dependencies: &mut Dependencies, held: ChannelId, wanted: ChannelId| {
        if seen.insert((held.0, wanted.0)) {
            dependencies.add(lane(held), lane(wanted));
        }
    };
    for (vlan, sources) in arp_sources(plan).iter().enumerate() {
        let flood = Flood::of(plan, vlan, |switch| u64::from(sources.contains(&switch)));
        flood.turns(|held, wanted| add(&mut dependencies, held, wanted));
    }
    let arp_dependency_count = dependencies.count();
    let arp_cycle = cycle(&dependencies);
    let hosts = interfaces_by_switch(plan);
    for vlan in 0..plan.vlans.len() {
        let flood = Flood::of(plan, vlan, |switch| hosts[switch]);
        flood.turns(|held, wanted| add(&mut dependencies, held, wanted));
    }
    Turns { arp_dependency_count, arp_cycle, priming_cycle: cycle(&dependencies) }
}

/// What a round of the learning procedure can put on one link, if all hosts begin it in the same moment.
pub fn priming_load(plan: &Plan) -> PrimingLoad {
    let hosts = interfaces_by_switch(plan);
    let mut frames = vec![0_u64; 2 * plan.links.len()];
    for vlan in 0..plan.vlans.len() {
        let flood = Flood::of(plan, vlan, |switch| hosts[switch]);
        for &from in &flood.order {
            for &(channel, to) in &flood.out[from] {
                frames[channel.0 as usize] += flood.frames(from, channel, to);
            }
        }
    }
    // Hosts that began at different times are at different VLANs: one frame of each host at most, whatever
    // its VLAN.
    let host_count: u64 = hosts.iter().sum();
    let link_frames_max = frames.into_iter().max().unwrap_or(0);
    let slowest = plan.links.iter().map(|link| link.rate_bits_per_s).min().unwrap_or(u64::MAX).max(1);
    let drain_ms = (2 * host_count * PRIMING_WIRE_BYTES * 8 * 1_000).div_ceil(slowest);
    PrimingLoad {
        link_frames_max,
        at_once_frames_max: host_count.min(link_frames_max),
        gap_ms: drain_ms.clamp(GAP_MIN_MS, 60_000) as u32,
    }
}

/// Whether the hosts' scripts name every peer's MAC address, so that no host sends ARP requests. Only if
/// hosts tag: then ARP takes turns that no route takes.
pub fn has_static_neighbours(plan: &Plan) -> bool {
    plan.tagging == Tagging::Host && plan.attachments().all(|attachment| attachment.mac.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Machine;
    use crate::graph::SwitchId;
    use crate::vlan;

    fn planned(topology: &str, options: &str) -> Plan {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\n{options}\n"
        );
        vlan::plan(&Machine::parse("m.toml", &text).unwrap()).unwrap()
    }

    /// The plain way: follow each broadcast from its switch through the VLAN's links.
    fn followed(plan: &Plan, vlan: usize, from: SwitchId) -> Vec<(u32, Option<u32>)> {
        let mut steps = Vec::new();
        let mut queue = vec![(from, None::<ChannelId>)];
        while let Some((at, held)) = queue.pop() {
            for &link in &plan.vlans[vlan].tree {
                for end in 0..2 {
                    let channel = link.channel_from(end);
                    let [here, there] = [end, 1 - end].map(|end| plan.links[link.index()].ends[end].switch);
                    if here == at && held != Some(channel.reverse()) {
                        steps.push((channel.0, held.map(|held| held.0)));
                        queue.push((there, Some(channel)));
                    }
                }
            }
        }
        steps
    }

    #[test]
    fn counted_frames_and_turns_match_broadcasts_followed_singly() {
        for (topology, options) in [
            ("kind = \"torus\"\nextents = [4, 4]", ""),
            ("kind = \"complete\"\nswitches = 5", ""),
            // A cycle of three turns, one on each VLAN.
            ("kind = \"complete\"\nswitches = 3", "vlans = \"per-source\""),
            // Trees that leave out switches.
            ("kind = \"fat-tree\"\nradix = 4\nlevels = 2", "vlans = \"per-source\""),
            ("kind = \"fat-tree\"\nradix = 4\nlevels = 2", "tagging = \"host\""),
            ("kind = \"mesh\"\nextents = [3, 3]", "tagging = \"host\""),
        ] {
            let plan = planned(topology, options);
            let mut frames = vec![0_u64; 2 * plan.links.len()];
            let mut all = Dependencies::new(frames.len(), 1);
            for attachment in plan.attachments() {
                for vlan in 0..plan.vlans.len() {
                    for (channel, held) in followed(&plan, vlan, attachment.switch) {
                        frames[channel as usize] += 1;
                        if let Some(held) = held {
                            let lane = |channel| Lane { channel: ChannelId(channel), vc: 0 };
                            all.add(lane(held), lane(channel));
                        }
                    }
                }
            }
            let load = priming_load(&plan);
            assert_eq!(load.link_frames_max, frames.iter().copied().max().unwrap(), "{topology}");
            assert_eq!(turns(&plan).priming_cycle.is_empty(), all.is_free(), "{topology}");
            assert!(load.at_once_frames_max <= plan.attachments().count() as u64);
        }
    }

    /// Each host asks on the VLANs that it sends on, and the question follows their trees.
    #[test]
    fn turns_of_arp_are_those_of_questions_followed_singly() {
        let mut with_cycle = 0;
        for (topology, options) in [
            ("kind = \"torus\"\nextents = [4, 4]", ""),
            ("kind = \"complete\"\nswitches = 5", ""),
            ("kind = \"ring\"\nswitches = 6", "routing = \"minimal\""),
            ("kind = \"ring\"\nswitches = 6", "tagging = \"host\""),
            ("kind = \"torus\"\nextents = [3, 3]", "tagging = \"host\""),
            ("kind = \"mesh\"\nextents = [3, 3]", "tagging = \"host\"\nvlans = \"per-source\""),
        ] {
            let plan = planned(topology, options);
            let mut taken = BTreeSet::new();
            let mut all = Dependencies::new(2 * plan.links.len(), 1);
            for (from, to) in plan.attachments().flat_map(|from| plan.attachments().map(move |to| (from, to)))
            {
                let Some(vlan) = plan.choice.vlan_index(from, to) else { continue };
                for (channel, held) in followed(&plan, vlan, from.switch) {
                    if let Some(held) = held.filter(|&held| taken.insert((held, channel))) {
                        let lane = |channel| Lane { channel: ChannelId(channel), vc: 0 };
                        all.add(lane(held), lane(channel));
                    }
                }
            }
            let found = turns(&plan);
            assert_eq!(found.arp_dependency_count, taken.len(), "{topology} {options}");
            assert_eq!(found.arp_cycle.is_empty(), all.is_free(), "{topology} {options}");
            with_cycle += usize::from(!found.arp_cycle.is_empty());
        }
        assert!(with_cycle > 0, "nothing is shown of a cycle");
    }

    #[test]
    fn priming_is_as_slow_as_the_slowest_link_asks_for() {
        // One VLAN: what a link carries comes at once.
        let one = planned("kind = \"mesh\"\nextents = [3]", "routing = \"spanning-tree\"");
        let load = priming_load(&one);
        // From the far side of a link come the frames of two switches with two hosts each.
        assert_eq!((load.link_frames_max, load.at_once_frames_max, load.gap_ms), (4, 4, 10));
        let several = planned("kind = \"complete\"\nswitches = 5", "");
        let load = priming_load(&several);
        assert_eq!(load.at_once_frames_max, load.link_frames_max.min(10));
        // 10 hosts' frames of 88 bytes with preamble and gap at 1 Mbit/s are 7.04 ms; the gap is twice that.
        let mut slow = several.clone();
        slow.links[3].rate_bits_per_s = 1_000_000;
        assert_eq!(priming_load(&slow).gap_ms, 15);
        slow.links[3].rate_bits_per_s = 140_800;
        assert_eq!(priming_load(&slow).gap_ms, 100);
        slow.links[3].rate_bits_per_s = 1;
        assert_eq!(priming_load(&slow).gap_ms, 60_000);
        // One switch has no link to fill.
        let alone = priming_load(&planned("kind = \"star\"\nswitches = 1", ""));
        assert_eq!((alone.link_frames_max, alone.at_once_frames_max, alone.gap_ms), (0, 0, 10));
        let mut named = planned("kind = \"complete\"\nswitches = 5", "tagging = \"host\"");
        assert!(!has_static_neighbours(&named));
        for own in named.hosts.iter_mut().flat_map(|host| &mut host.attachments) {
            own.mac = crate::plan::MacAddr::parse("52:54:00:00:00:01");
        }
        assert!(has_static_neighbours(&named));
        named.tagging = Tagging::Switch;
        assert!(!has_static_neighbours(&named));
    }

    #[test]
    fn with_switch_tagging_arp_takes_no_turn_that_closes_a_cycle() {
        for topology in ["kind = \"mesh\"\nextents = [4, 4]", "kind = \"complete\"\nswitches = 6"] {
            let plan = planned(topology, "");
            assert_eq!(turns(&plan).arp_cycle, [], "{topology}");
        }
    }
}
