//! In which order switches take a changed plan.
//!
//! Switches are configured one after the other, with spanning tree off. Between the first and the last, some
//! stand as before and some as after, and a VLAN must not be a loop at any moment, whatever is plugged in:
//! the cable that was cut may come back meanwhile. A link carries a VLAN only while both its ends are
//! members, so a switch at the lost link's end goes before those that close the tree again.

use crate::graph::SwitchId;
use crate::plan::{Plan, SwitchPlan, VlanSet};

/// The switches whose ports differ between two plans of one machine, in an order in which no VLAN has a loop
/// in between. `None` if none was found: then the cables that close loops have to be unplugged first.
///
/// The switches in `absent` are not in the order: they do not answer, or stand as nobody knows since they
/// were off. It holds for either plan on them.
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
    /// Nobody knows: every VLAN that either plan has on a port counts.
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
