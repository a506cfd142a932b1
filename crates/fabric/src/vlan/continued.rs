//! A changed machine planned from the plan in use: what still works stays, the rest is repaired.

use crate::description::{DescriptionError, Machine};
use crate::graph::SwitchId;
use crate::plan::Plan;

use super::assign::{assign, hosts};
use super::choose::{Chosen, Judged};
use super::evaluation::evaluate;
use super::in_use::InUse;
use super::network::{Failure, Network};
use super::planner::chosen;
use super::repair;
use super::solution::Choice;

/// Plans a machine so that as little as possible differs from the plan in use: identifiers, trees, hosts'
/// VLANs and addresses, numbers of LAGs. VLANs that lost a link are joined again, hosts of new switches take
/// the VLAN that is best for them. A plan is made anew where the repaired one can deadlock, is busier than
/// one made anew by more than half, or the machine has more switches than can be repaired;
/// [`Plan::is_repaired`] tells.
///
/// # Errors
/// As [`super::plan`].
pub fn plan_from(machine: &Machine, in_use: &InUse) -> Result<Plan, DescriptionError> {
    let network = Network::of(machine, &[]);
    let anew = chosen(machine, &network, true);
    let hosts = hosts(machine, Some(in_use));
    let start = in_use.solution(machine, &network, &hosts);
    let has_vlans = !start.trees.is_empty();
    let repaired = if has_vlans { repair::repaired(&network, &start) } else { None };
    let is_safe = |judged: &Judged| judged.evaluation.is_free || !machine.options.pause;
    let limit = anew.best.evaluation.pressure(&network) / 2 * 3;
    let new_switches = in_use.new_switches(machine, &network);
    let kept = repaired.map(|judged| placed(&network, judged, &new_switches, &is_safe));
    match kept.filter(|judged| {
        is_safe(judged) && (!is_safe(&anew.best) || judged.evaluation.pressure(&network) <= limit)
    }) {
        Some(best) => assign(machine, &network, &Chosen { best, alternative: None }, &[], Some(in_use)),
        None => assign(machine, &network, &anew, &[], None),
    }
}

/// The plan in use without what has failed: VLANs that lost a link are joined again by others, all else
/// stays. Made anew on the same terms as [`plan_from`]; [`Plan::is_repaired`] tells.
///
/// # Errors
/// As [`super::plan`].
pub fn repaired_from(
    machine: &Machine,
    in_use: &InUse,
    failures: &[Failure],
) -> Result<Plan, DescriptionError> {
    let network = Network::of(machine, failures);
    let start = in_use.solution(machine, &network, &hosts(machine, Some(in_use)));
    let has_vlans = !start.trees.is_empty();
    let is_safe = |judged: &Judged| judged.evaluation.is_free || !machine.options.pause;
    let anew = chosen(machine, &network, false);
    let limit = anew.best.evaluation.pressure(&network) / 2 * 3;
    let repaired = if has_vlans { repair::repaired(&network, &start) } else { None };
    match repaired.filter(|judged| {
        is_safe(judged) && (!is_safe(&anew.best) || judged.evaluation.pressure(&network) <= limit)
    }) {
        Some(best) => {
            let kept = Chosen { best, alternative: None };
            assign(machine, &network, &kept, failures, Some(in_use))
        }
        None => assign(machine, &network, &anew, failures, None),
    }
}

/// The hosts of each new switch on the VLAN with which the busiest link is least busy.
fn placed(
    network: &Network,
    mut best: Judged,
    new_switches: &[SwitchId],
    is_safe: &dyn Fn(&Judged) -> bool,
) -> Judged {
    for switch in new_switches {
        for vlan in 0..best.solution.trees.len() as u32 {
            let mut solution = best.solution.clone();
            let Choice::BySource(senders) = &mut solution.choice else { return best };
            senders[switch.index()].iter_mut().for_each(|own| own.vlan = vlan);
            let evaluation = evaluate(network, &solution);
            let other = Judged { solution, evaluation };
            let worth = |judged: &Judged| {
                (!is_safe(judged), judged.evaluation.pressure(network), judged.evaluation.hops)
            };
            if worth(&other) < worth(&best) {
                best = other;
            }
        }
    }
    best
}
