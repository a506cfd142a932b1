//! In which order switches take a changed plan.
//!
//! Switches are configured one after the other, with spanning tree off. Between the first and the last, some
//! stand as before and some as after, and a VLAN must not be a loop at any moment, whatever is plugged in:
//! the cable that was cut may come back meanwhile. A link carries a VLAN only while both its ends are
//! members, so a switch at the lost link's end goes before those that close the tree again.

use crate::description::{DescriptionError, Machine};
use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanSet};
use crate::vlan::{Failure, InUse, Reach, repaired_from};

/// A repair that changes switches only, and the order for it.
#[derive(Debug)]
pub struct OrderedRepair {
    /// The plan without what has failed.
    pub plan: Plan,
    /// As of [`safe_order`].
    pub order: Option<Vec<SwitchId>>,
}

/// The repair to apply to the switches of `whole` when these fail. If the less busy repair ([`Reach::Trees`])
/// has no order of the switches without a loop in between, there and back, the smaller one
/// ([`Reach::Joints`]) is taken.
///
/// # Errors
/// As [`repaired_from`].
pub fn ordered_repair(
    machine: &Machine,
    whole: &Plan,
    in_use: &InUse,
    failures: &[Failure],
) -> Result<OrderedRepair, DescriptionError> {
    let absent = absent(failures);
    let ordered = |reach: Reach| {
        let plan = repaired_from(machine, in_use, failures, reach)?;
        let order = safe_order(whole, &plan, &absent);
        Ok(OrderedRepair { plan, order })
    };
    let wide: OrderedRepair = ordered(Reach::Trees)?;
    if wide.order.is_some() && safe_order(&wide.plan, whole, &absent).is_some() {
        return Ok(wide);
    }
    let small: OrderedRepair = ordered(Reach::Joints)?;
    Ok(if small.order.is_some() { small } else { wide })
}

/// The switches that do not answer after these failures.
pub fn absent(failures: &[Failure]) -> Vec<SwitchId> {
    let switches = failures.iter().filter_map(|failure| match failure {
        Failure::Switch(switch) => Some(*switch),
        Failure::Link(_) => None,
    });
    switches.collect()
}

/// The switches whose ports differ between two plans of one machine, in an order in which no VLAN has a loop
/// in between. `None` if none was found: then the cables that close loops must be unplugged first.
///
/// The switches in `absent` are not in the order: they do not answer, or their state is unknown since they
/// were off. The order holds for either plan on them.
pub fn safe_order(from: &Plan, to: &Plan, absent: &[SwitchId]) -> Option<Vec<SwitchId>> {
    let mut left: Vec<SwitchId> = from
        .switches
        .iter()
        .zip(&to.switches)
        .filter(|(before, after)| differs(before, after))
        .map(|(switch, _)| switch.id)
        .filter(|switch| !absent.contains(switch))
        .collect();
    let mut stands = vec![Stands::Before; from.switches.len()];
    absent.iter().for_each(|switch| stands[switch.index()] = Stands::Either);
    let mut order = Vec::new();
    while !left.is_empty() {
        let place = left.iter().position(|switch| {
            stands[switch.index()] = Stands::After;
            let is_safe = is_free_of_loops(from, to, &stands);
            if !is_safe {
                stands[switch.index()] = Stands::Before;
            }
            is_safe
        })?;
        order.push(left.remove(place));
    }
    Some(order)
}

/// Whether a port or LAG of a switch has other VLANs in another plan.
fn differs(before: &SwitchPlan, after: &SwitchPlan) -> bool {
    before.ports.iter().zip(&after.ports).any(|(before, after)| before.membership != after.membership)
}

/// Which plan a switch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Before,
    After,
    /// Unknown: every VLAN that either plan has on a port counts.
    Either,
}

/// Whether every VLAN is free of loops while each switch stands so, and all cables are plugged in.
fn is_free_of_loops(from: &Plan, to: &Plan, stands: &[Stands]) -> bool {
    let carried: Vec<VlanSet> = from
        .links
        .iter()
        .map(|link| {
            let [a, b] = link.ends.each_ref().map(|end| {
                let plans: &[&Plan] = match stands[end.switch.index()] {
                    Stands::Before => &[from],
                    Stands::After => &[to],
                    Stands::Either => &[from, to],
                };
                let ports = plans.iter().flat_map(|plan| &plan.switch(end.switch).ports);
                let own = ports.filter(|port| end.ports.first() == Some(&port.number));
                own.flat_map(|port| port.membership.tagged.iter()).collect::<VlanSet>()
            });
            a.difference(&a.difference(&b))
        })
        .collect();
    let vlans: VlanSet = carried.iter().flat_map(VlanSet::iter).collect();
    vlans.iter().all(|vlan| {
        let mut parts: Vec<usize> = (0..from.switches.len()).collect();
        from.links.iter().zip(&carried).filter(|(_, carried)| carried.contains(vlan)).all(|(link, _)| {
            let [a, b] = link.ends.each_ref().map(|end| part_of(&mut parts, end.switch.index()));
            parts[a] = b;
            a != b
        })
    })
}

fn part_of(parts: &mut [usize], mut of: usize) -> usize {
    while parts[of] != of {
        parts[of] = parts[parts[of]];
        of = parts[of];
    }
    of
}
