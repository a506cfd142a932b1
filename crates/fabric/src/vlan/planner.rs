//! The steps of planning, one after the other.

use crate::description::{DescriptionError, Machine, PLANNED_SWITCHES_MAX, PlanOptions, TaggingOption};
use crate::plan::{Plan, Tagging, VlanId};
use crate::topology::Topology;

use super::assign::{assign, healed};
use super::choose::{Chosen, Effort, Judged, choose, starts};
use super::evaluation::evaluate;
use super::in_use::InUse;
use super::mstp;
use super::network::{Failure, Network};
use super::repair;
use super::solution::SourceTree;

/// Plans a machine by its `[plan]` options. The plan's [`crate::plan::Verdicts`] say what holds and what does
/// not.
///
/// # Errors
/// If the machine cannot be planned so at all: more VLANs than a switch can have, or than there are
/// identifiers. The error names the line of the description to change.
pub fn plan(machine: &Machine) -> Result<Plan, DescriptionError> {
    plan_without(machine, &[])
}

/// Plans what is left of a machine when links or switches have failed: the whole machine's plan repaired, if
/// that is free of deadlock and no busier than a plan made anew by more than a quarter, else the new one.
/// Ports and numbers stay what they are, so the configurations can be compared with those in use.
///
/// # Errors
/// As [`plan`].
pub fn plan_without(machine: &Machine, failures: &[Failure]) -> Result<Plan, DescriptionError> {
    let in_use = (!failures.is_empty()).then(|| whole(machine));
    plan_repaired(machine, failures, in_use.as_ref())
}

/// The routes of a whole machine's plan, from which repairs begin. `None` for machines too large.
pub(super) fn whole(machine: &Machine) -> Option<Chosen> {
    let is_plannable = machine.switches.len() <= PLANNED_SWITCHES_MAX;
    is_plannable.then(|| chosen(machine, &Network::of(machine, &[]), true))
}

/// [`plan_without`], with what is in use if that is known.
pub(super) fn plan_repaired(
    machine: &Machine,
    failures: &[Failure],
    in_use: Option<&Option<Chosen>>,
) -> Result<Plan, DescriptionError> {
    let switch_count = machine.switches.len();
    if switch_count > PLANNED_SWITCHES_MAX {
        let key = if machine.topology.is_some() { "topology" } else { "switch" };
        let problem = format!("{switch_count} switches, and the planner takes {PLANNED_SWITCHES_MAX}");
        return Err(machine.error(key, problem, "plan a smaller part"));
    }
    if mstp::is_wanted(machine) && !failures.is_empty() {
        return healed_by_mstp(machine, failures, in_use);
    }
    let network = Network::of(machine, failures);
    // After a failure the plan in use is repaired; the one made anew is what that is held against.
    let mut chosen = chosen(machine, &network, failures.is_empty());
    if let Some(Some(in_use)) = in_use {
        keep_what_is_in_use(machine, &network, in_use, &mut chosen);
    }
    assign(machine, &network, &chosen, failures, None)
}

/// The whole machine's plan on the trees that MSTP elects after failures.
fn healed_by_mstp(
    machine: &Machine,
    failures: &[Failure],
    in_use: Option<&Option<Chosen>>,
) -> Result<Plan, DescriptionError> {
    let whole_network = Network::of(machine, &[]);
    let in_use = in_use.cloned().flatten().unwrap_or_else(|| chosen(machine, &whole_network, true));
    let whole = assign(machine, &whole_network, &in_use, &[], None)?;
    let network = Network::of(machine, failures);
    let Some(region) = &whole.mstp else { return Ok(whole) };
    let spanning = mstp::spanning(&whole_network, &in_use);
    let judged = mstp::after_failure(&network, &spanning.best, region, &whole.vlans);
    Ok(healed(machine, &network, judged, failures, whole))
}

/// A plan whose trees MSTP holds, on the trees that its instances elect without what has failed: the same
/// VLANs and configuration. `None` where MSTP does not hold the trees, or hosts tag.
pub fn elected(machine: &Machine, whole: &Plan, failures: &[Failure]) -> Option<Plan> {
    let region = whole.mstp.as_ref()?;
    let in_use = InUse::of(whole).ok()?;
    let network = Network::of(machine, failures);
    let solution = in_use.solution(machine, &network, &whole.hosts);
    let evaluation = evaluate(&network, &solution);
    let judged = mstp::after_failure(&network, &Judged { solution, evaluation }, region, &whole.vlans);
    Some(healed(machine, &network, judged, failures, whole.clone()))
}

/// Takes the repaired plan of the whole machine in the place of a new one, where it is about as good.
fn keep_what_is_in_use(machine: &Machine, network: &Network, in_use: &Chosen, chosen: &mut Chosen) {
    let Some(repaired) = repair::repaired(network, &in_use.best.solution) else { return };
    let is_safe = repaired.evaluation.is_free || !machine.options.pause;
    let anew = &chosen.best;
    let anew_is_usable = (anew.evaluation.is_free || !machine.options.pause) && fits(machine, anew);
    let is_as_good =
        is_about_as_good(repaired.evaluation.pressure(network), anew.evaluation.pressure(network));
    if is_safe && (!anew_is_usable || is_as_good) {
        *chosen = Chosen { best: repaired, alternative: None };
    }
}

/// Whether the busiest link of a repair is busier than that of new routes by a quarter at most.
fn is_about_as_good(repaired: u128, anew: u128) -> bool {
    repaired <= anew + anew / 4
}

pub(super) fn chosen(machine: &Machine, network: &Network, balances: bool) -> Chosen {
    let grid = machine.topology.as_ref().and_then(Topology::grid);
    let effort = Effort { vlans_max: vlans_max(machine), balances };
    choose(network, grid.as_ref(), &machine.options, tagging(machine), effort)
}

/// Routes by other options than the machine's. More VLANs than `vlans_max` are possible where the options
/// ask for routes that need them.
pub(super) fn chosen_within(
    machine: &Machine,
    options: &PlanOptions,
    network: &Network,
    vlans_max: usize,
) -> Chosen {
    let grid = machine.topology.as_ref().and_then(Topology::grid);
    choose(network, grid.as_ref(), options, tagging(machine), Effort { vlans_max, balances: true })
}

/// Routes that a search may begin with.
pub(super) fn starts_of(machine: &Machine, network: &Network) -> Vec<Vec<SourceTree>> {
    let grid = machine.topology.as_ref().and_then(Topology::grid);
    starts(network, grid.as_ref(), &machine.options)
}

/// Whether all switches take as many VLANs as these routes have.
pub(super) fn fits(machine: &Machine, judged: &Judged) -> bool {
    judged.solution.trees.len() <= vlans_max(machine)
}

/// VLANs that every switch takes, with all hosts' addresses on each, and that there are identifiers for.
pub(super) fn vlans_max(machine: &Machine) -> usize {
    let attachment_count: u64 = machine.hosts.iter().map(|host| host.attachments.len() as u64).sum();
    let by_table = |max: u64| (max / attachment_count.max(1)) as usize;
    let models = machine.graph.switches().map(|switch| machine.switch_model(switch));
    let of_model = |model: &crate::description::SwitchModel| {
        let by_count = model.vlans_max.map_or(usize::MAX, usize::from);
        by_count.min(model.mac_table_max.map_or(usize::MAX, by_table))
    };
    let identifiers = usize::from(VlanId::MAX - machine.options.first_vlan.get()) + 1;
    let instances = mstp::instances_max(machine).unwrap_or(usize::MAX);
    models.map(of_model).min().unwrap_or(usize::MAX).min(identifiers).min(instances)
}

/// The side that tags: the switches, unless one of them cannot or the user chose the hosts.
pub(super) fn tagging(machine: &Machine) -> Tagging {
    let all_can = (0..machine.switches.len() as u32)
        .all(|id| machine.switch_model(crate::graph::SwitchId(id)).many_untagged_vlans_per_port);
    match machine.options.tagging {
        TaggingOption::Switch => Tagging::Switch,
        TaggingOption::Host => Tagging::Host,
        TaggingOption::Auto if all_can => Tagging::Switch,
        TaggingOption::Auto => Tagging::Host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_may_be_busier_by_a_quarter() {
        assert_eq!([80, 124, 125].map(|repaired| is_about_as_good(repaired, 100)), [true; 3]);
        assert!(!is_about_as_good(126, 100) && is_about_as_good(0, 0) && !is_about_as_good(1, 0));
    }
}
