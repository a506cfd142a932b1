//! Which VLAN a frame takes between two switches, and along which links.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::graph::{LinkId, SwitchId};

use super::{Attachment, Plan, VlanId};

/// Which VLAN a frame takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VlanChoice {
    /// By the switch port of the sender ([`super::Tagging::Switch`]): `Some(index into plan.vlans)` by
    /// [`Attachment::number`]; `None` for a host that is cut off. Hosts of one switch may send on different
    /// VLANs.
    BySource(Vec<Option<u16>>),
    /// By unordered pair of switches ([`super::Tagging::Host`]): both directions of a connection share
    /// a VLAN,
    /// because an answer comes from the address, hence the VLAN, that was asked.
    ByPair {
        /// Number of switches.
        switch_count: usize,
        /// Index into `plan.vlans` at `a * switch_count + b`; symmetric. `None` where one has no hosts.
        vlans: Vec<Option<u16>>,
    },
}

impl Default for VlanChoice {
    /// No host has a VLAN.
    fn default() -> VlanChoice {
        VlanChoice::BySource(Vec::new())
    }
}

impl VlanChoice {
    /// Index into the plan's VLANs for frames from `from` to `to`.
    pub fn vlan_index(&self, from: &Attachment, to: &Attachment) -> Option<usize> {
        let vlan = match self {
            VlanChoice::BySource(vlans) => vlans.get(from.number as usize),
            VlanChoice::ByPair { switch_count, vlans } => {
                vlans.get(from.switch.index() * switch_count + to.switch.index())
            }
        };
        vlan.copied().flatten().map(usize::from)
    }
}

/// The way of a frame from one switch to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its VLAN.
    pub vid: VlanId,
    /// The switch it begins at.
    pub from: SwitchId,
    /// Links in order; none if both hosts are at one switch.
    pub hops: Vec<Hop>,
}

/// One link of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The link.
    pub link: LinkId,
    /// The switch it leads to.
    pub to: SwitchId,
}

impl Route {
    /// Switches on the way, both ends counted: how the paper counts (table 2).
    pub fn switch_count(&self) -> usize {
        self.hops.len() + 1
    }
}

impl Plan {
    /// The VLAN of frames from one host interface to another; `None` if the sender is cut off. With
    /// [`super::Tagging::Switch`] it is the PVID of the sender's switch port, for every receiver.
    pub fn vlan_between(&self, from: &Attachment, to: &Attachment) -> Option<VlanId> {
        self.choice.vlan_index(from, to).map(|index| self.vlans[index].vid)
    }

    /// The way from one host interface to another. Takes time in the size of the tree: the planner's own
    /// statistics do not come this way.
    pub fn route(&self, from: &Attachment, to: &Attachment) -> Option<Route> {
        self.route_on(self.vlan_between(from, to)?, from.switch, to.switch)
    }

    /// The way from one switch to another on a VLAN, whether or not a host's frames take it.
    pub fn route_on(&self, vid: VlanId, from: SwitchId, to: SwitchId) -> Option<Route> {
        let hops = self.tree_path(&self.vlan(vid)?.tree, from, to)?;
        Some(Route { vid, from, hops })
    }

    /// All host interfaces, by [`Attachment::number`].
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.hosts.iter().flat_map(|host| &host.attachments)
    }

    fn tree_path(&self, tree: &[LinkId], from: SwitchId, to: SwitchId) -> Option<Vec<Hop>> {
        let mut next_to: Vec<Vec<Hop>> = vec![Vec::new(); self.switches.len()];
        for &link in tree {
            let [a, b] = [0, 1].map(|end| self.links[link.index()].ends[end].switch);
            next_to[a.index()].push(Hop { link, to: b });
            next_to[b.index()].push(Hop { link, to: a });
        }
        // From the far end, so that following the hops back gives the route forwards.
        let mut towards: Vec<Option<Hop>> = vec![None; self.switches.len()];
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front() {
            for hop in &next_to[at.index()] {
                if hop.to != to && towards[hop.to.index()].is_none() {
                    towards[hop.to.index()] = Some(Hop { link: hop.link, to: at });
                    queue.push_back(hop.to);
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = from;
        while at != to {
            let hop = towards[at.index()]?;
            hops.push(hop);
            at = hop.to;
        }
        Some(hops)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::two_switches_and_four_hosts;

    use super::*;

    #[test]
    fn there_and_back_take_each_sources_vlan() {
        let plan = two_switches_and_four_hosts();
        let right = SwitchId(1);
        let [one, other] = [0, 2].map(|host: usize| &plan.hosts[host].attachments[0]);
        let there = plan.route(one, other).unwrap();
        let back = plan.route(other, one).unwrap();
        assert_eq!((there.vid.get(), there.switch_count()), (101, 2));
        assert_eq!((back.vid.get(), back.switch_count()), (102, 2));
        assert_eq!(there.hops, [Hop { link: LinkId(0), to: right }]);
        assert_eq!(plan.route(one, one).unwrap().hops, []);
    }
}
