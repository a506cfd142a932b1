//! Trees that MSTP holds: which instance each VLAN is in, where its root is, and what is left of a tree
//! after a failure.
//!
//! An instance's tree spans all switches, so a planned tree that left out switches without hosts is
//! completed; no route changes by that.

use std::collections::{BTreeMap, BinaryHeap};

use crate::description::{DescriptionError, Machine, SpanningTree, SwitchModel};
use crate::graph::{LinkId, SwitchId};
use crate::plan::{
    Check, MSTP_DEPTH_MAX, MSTP_INSTANCES_MAX, MSTP_REGION_BYTES_MAX, Mstp, MstpInstance, Status, VlanPlan,
    VlanSet,
};

use super::choose::{Chosen, Judged};
use super::evaluation::evaluate;
use super::network::{Arc, Network};
use super::tree::{RootedTree, adjacency, completed};

/// Whether MSTP holds the machine's trees.
pub(super) fn is_wanted(machine: &Machine) -> bool {
    machine.options.spanning_tree == SpanningTree::Mstp
}

/// Instances that all switches take; `None` where no switch has to.
pub(super) fn instances_max(machine: &Machine) -> Option<usize> {
    if !is_wanted(machine) {
        return None;
    }
    let models = machine.graph.switches().map(|switch| machine.switch_model(switch));
    Some(models.map(|model| usize::from(model.mstp_instances_max)).min().unwrap_or(0))
}

/// The same routes, each tree completed to all switches.
pub(super) fn spanning(network: &Network, chosen: &Chosen) -> Chosen {
    let mut solution = chosen.best.solution.clone();
    for tree in &mut solution.trees {
        *tree = completed(network, tree);
    }
    let evaluation = evaluate(network, &solution);
    Chosen { best: Judged { solution, evaluation }, alternative: chosen.alternative.clone() }
}

/// The region for the VLANs of a plan, whose trees span the network.
///
/// # Errors
/// A switch that has no MSTP, or fewer instances than there are trees; a tree that is too deep.
pub(super) fn region(
    machine: &Machine,
    network: &Network,
    vlans: &[VlanPlan],
    fewer: &str,
) -> Result<Mstp, DescriptionError> {
    let mut by_tree: BTreeMap<&[LinkId], usize> = BTreeMap::new();
    let mut instances: Vec<MstpInstance> = Vec::new();
    for vlan in vlans {
        let place = *by_tree.entry(&vlan.tree).or_insert(instances.len());
        if place == instances.len() {
            instances.push(instance(network, place as u16 + 1, &vlan.tree));
        }
        instances[place].vlans.insert(vlan.vid);
    }
    for switch in machine.graph.switches() {
        check_model(machine, machine.switch_model(switch), instances.len(), fewer)?;
    }
    for instance in &instances {
        let depth = depth(network, instance);
        if depth > MSTP_DEPTH_MAX {
            let problem = format!(
                "a tree is {depth} links deep, and MSTP tells switches at most {MSTP_DEPTH_MAX} links away \
                 of a root"
            );
            return Err(machine.error(
                "plan.spanning_tree",
                problem,
                "leave it out: ports are left out of VLANs then",
            ));
        }
    }
    let region = machine.name.chars().take(MSTP_REGION_BYTES_MAX).collect();
    Ok(Mstp { region, revision: 1, instances })
}

fn check_model(
    machine: &Machine,
    model: &SwitchModel,
    count: usize,
    fewer: &str,
) -> Result<(), DescriptionError> {
    if model.mstp_instances_max == 0 {
        let problem = format!("no words for MSTP are known in dialect {} ({})", model.dialect, model.name);
        let remedy = "leave `spanning_tree` out: ports are left out of VLANs then";
        return Err(machine.error("plan.spanning_tree", problem, remedy));
    }
    if count > usize::from(model.mstp_instances_max) {
        let problem = format!(
            "the plan has {count} different trees, and {} takes {} MSTP instances \
             (`mstp_instances_max`; 802.1Q \
             allows {MSTP_INSTANCES_MAX})",
            model.name, model.mstp_instances_max
        );
        return Err(machine.error("plan.spanning_tree", problem, fewer.to_owned()));
    }
    Ok(())
}

/// The instance of a tree. Its root is where the tree is least deep, so that few switches are far from it.
fn instance(network: &Network, number: u16, tree: &[LinkId]) -> MstpInstance {
    let links: Vec<u32> = tree.iter().map(|link| link.0).collect();
    let adjacency = adjacency(network, &links);
    let deepest = |root: u32| {
        let tree = RootedTree::from_links(&adjacency, root);
        let last = *tree.order.last().unwrap_or(&root);
        (tree.depths()[last as usize], last)
    };
    let start = network.alive().next().unwrap_or(0);
    // A longest path of the tree: from the switch that is farthest from any, to the one farthest from that.
    let end = deepest(start).1;
    let (length, mut at) = deepest(end);
    let tree_from_end = RootedTree::from_links(&adjacency, end);
    for _ in 0..length / 2 {
        at = tree_from_end.parents[at as usize].to;
    }
    let second = adjacency
        .of(at)
        .iter()
        .map(|arc| arc.to)
        .max_by_key(|&other| (adjacency.of(other).len(), std::cmp::Reverse(other)));
    MstpInstance {
        number,
        vlans: VlanSet::new(),
        tree: tree.to_vec(),
        root: SwitchId(at),
        second_root: second.map(SwitchId),
    }
}

/// Links from the root to the switch farthest from it.
fn depth(network: &Network, instance: &MstpInstance) -> u32 {
    let links: Vec<u32> = instance.tree.iter().map(|link| link.0).collect();
    let tree = RootedTree::from_links(&adjacency(network, &links), instance.root.0);
    let deepest = tree.depths().into_iter().filter(|&depth| depth != u16::MAX).max();
    u32::from(deepest.unwrap_or(0))
}

/// The tree that an instance elects on the rest of the network: shortest paths by its costs. Among ways of
/// equal cost the protocol takes the neighbour of the lower priority, and of those the one with the lower
/// address, which is not known here; the lower number is taken (IEEE 802.1Q-2018, 13.11).
pub(super) fn healed(network: &Network, instance: &MstpInstance) -> Vec<u32> {
    let is_up = |switch: &SwitchId| network.alive().any(|up| up == switch.0);
    let roots = [Some(instance.root), instance.second_root];
    let root = roots.into_iter().flatten().find(is_up).map(|root| root.0).or_else(|| network.alive().next());
    let Some(root) = root else { return Vec::new() };
    let mut costs = vec![u64::MAX; network.switch_count()];
    let mut heap = BinaryHeap::from([std::cmp::Reverse((0_u64, root))]);
    costs[root as usize] = 0;
    while let Some(std::cmp::Reverse((cost, at))) = heap.pop() {
        if cost > costs[at as usize] {
            continue;
        }
        for arc in network.arcs(at) {
            let further = cost + u64::from(instance.cost(LinkId(arc.link)));
            if further < costs[arc.to as usize] {
                costs[arc.to as usize] = further;
                heap.push(std::cmp::Reverse((further, arc.to)));
            }
        }
    }
    let chosen = |at: u32| {
        let over = |arc: &Arc| costs[arc.to as usize] + u64::from(instance.cost(LinkId(arc.link)));
        let cheapest = network.arcs(at).iter().filter(|arc| over(arc) == costs[at as usize]);
        let best = cheapest.min_by_key(|arc| (instance.priority(SwitchId(arc.to)), arc.to, arc.link));
        best.map(|arc| arc.link)
    };
    let mut links: Vec<u32> = network.alive().filter(|&at| at != root).filter_map(chosen).collect();
    links.sort_unstable();
    links
}

/// `whole` after a failure: the same VLANs, on the trees that their instances elect then.
pub(super) fn after_failure(network: &Network, whole: &Judged, mstp: &Mstp, vlans: &[VlanPlan]) -> Judged {
    let mut solution = whole.solution.clone();
    // Trees may be the same now.
    solution.vlan_count_min = 1;
    for (tree, vlan) in solution.trees.iter_mut().zip(vlans) {
        if let Some(instance) = mstp.instances.iter().find(|instance| instance.vlans.contains(vlan.vid)) {
            *tree = healed(network, instance);
        }
    }
    let evaluation = evaluate(network, &solution);
    Judged { solution, evaluation }
}

/// Instances against what switches take, and how deep trees are.
pub(super) fn check(machine: &Machine, network: &Network, mstp: &Mstp) -> Check {
    let depth = mstp.instances.iter().map(|instance| depth(network, instance)).max().unwrap_or(0);
    let max = instances_max(machine).unwrap_or(0);
    let count = mstp.instances.len();
    let detail = format!("{count} instances of {max}, trees at most {depth} links deep from their roots");
    let may_be_too_deep = network.alive().count() as u32 > MSTP_DEPTH_MAX + 1;
    let (status, remedy) = if may_be_too_deep {
        let remedy = format!("look whether --failures names a tree deeper than {MSTP_DEPTH_MAX} links");
        (Status::Warning, Some(remedy))
    } else {
        (Status::Holds, None)
    };
    Check { name: "mstp".into(), status, detail, remedy }
}

#[cfg(test)]
mod tests;
