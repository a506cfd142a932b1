//! Checks a finished [`Plan`] from its own data alone, not from what the search believed.

use crate::graph::SwitchId;
use crate::plan::{Attachment, Plan, VlanPlan};

use super::network::Network;
use super::tree::Parts;

/// Why a VLAN is no tree that reaches every host, if it is not.
pub(super) fn tree_fault(plan: &Plan, network: &Network, vlan: &VlanPlan) -> Option<String> {
    let mut parts = Parts::new(network.switch_count());
    for &link in &vlan.tree {
        let ends = plan.links[link.index()].ends.each_ref().map(|end| end.switch.0);
        if !parts.join(ends) {
            let [a, b] = ends.map(|end| plan.switches[end as usize].name.as_str());
            return Some(format!("VLAN {} has a loop through the link {a} - {b}", vlan.vid));
        }
    }
    let mut sources = network.sources();
    let first = sources.next()?;
    let home = parts.find(first);
    let cut = sources.find(|&source| parts.find(source) != home)?;
    let [a, b] = [first, cut].map(|switch| plan.switches[switch as usize].name.as_str());
    Some(format!("VLAN {} does not join {a} and {b}", vlan.vid))
}

/// The switches of two host interfaces between which frames have no VLAN, if there are such.
pub(super) fn unrouted(plan: &Plan, network: &Network) -> Option<(SwitchId, SwitchId)> {
    let is_reached = |own: &&Attachment| network.weight(own.switch.0) > 0;
    // Only the receiver's switch matters.
    let mut receivers: Vec<&Attachment> = plan.attachments().filter(is_reached).collect();
    receivers.sort_by_key(|own| own.switch);
    receivers.dedup_by_key(|own| own.switch);
    plan.attachments().filter(is_reached).find_map(|from| {
        let to = receivers.iter().find(|to| plan.vlan_between(from, to).is_none())?;
        Some((from.switch, to.switch))
    })
}
