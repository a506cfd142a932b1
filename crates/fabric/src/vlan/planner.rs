//! The steps of planning, one after the other.

use crate::description::{DescriptionError, Machine, TaggingOption};
use crate::plan::{Plan, Tagging};
use crate::topology::Topology;

use super::assign::assign;
use super::choose::{Chosen, choose};
use super::network::{Failure, Network};
use super::repair;

/// Most switches that are planned. Paths take 12 bytes for each two switches: 200 MB.
pub const SWITCH_COUNT_MAX: usize = 4096;

/// Plans a machine by its `[plan]` options. The plan's [`crate::plan::Verdicts`] say what holds and what does not.
///
/// # Errors
/// If the machine cannot be planned so at all: more VLANs than a switch can have, or than there are identifiers. The
/// error names the line of the description to change.
pub fn plan(machine: &Machine) -> Result<Plan, DescriptionError> {
    plan_without(machine, &[])
}

/// Plans what is left of a machine when links or switches have failed: the whole machine's plan repaired, if that is
/// free of deadlock and no busier than a plan made anew by more than a quarter, else the new one. Ports and numbers stay what they are, so the
/// configurations can be compared with those in use.
///
/// # Errors
/// As [`plan`].
pub fn plan_without(machine: &Machine, failures: &[Failure]) -> Result<Plan, DescriptionError> {
    let switch_count = machine.switches.len();
    if switch_count > SWITCH_COUNT_MAX {
        let key = if machine.topology.is_some() { "topology" } else { "switch" };
        let problem = format!("{switch_count} switches, and the planner takes {SWITCH_COUNT_MAX}");
        return Err(machine.error(key, problem, "plan a smaller part; `ayatori sim run` takes the whole"));
    }
    let network = Network::of(machine, failures);
    let mut chosen = chosen(machine, &network);
    if !failures.is_empty() {
        keep_what_is_in_use(machine, &network, &mut chosen);
    }
    assign(machine, &network, &chosen, failures, None)
}

/// Takes the repaired plan of the whole machine in the place of a new one, where it is about as good.
fn keep_what_is_in_use(machine: &Machine, network: &Network, chosen: &mut Chosen) {
    let in_use = self::chosen(machine, &Network::of(machine, &[]));
    let Some(repaired) = repair::repaired(network, &in_use.best.solution) else { return };
    let is_safe = repaired.evaluation.is_free || !machine.options.pause;
    let anew = &chosen.best;
    let anew_is_safe = anew.evaluation.is_free || !machine.options.pause;
    let limit = anew.evaluation.pressure(network) + anew.evaluation.pressure(network) / 4;
    if is_safe && (!anew_is_safe || repaired.evaluation.pressure(network) <= limit) {
        *chosen = Chosen { best: repaired, alternative: None };
    }
}

pub(super) fn chosen(machine: &Machine, network: &Network) -> Chosen {
    let grid = machine.topology.as_ref().and_then(Topology::grid);
    choose(network, grid.as_ref(), &machine.options, tagging(machine))
}

/// Who tags: the switches, unless one of them cannot or the hosts were asked to.
fn tagging(machine: &Machine) -> Tagging {
    let all_can = (0..machine.switches.len() as u32)
        .all(|id| machine.switch_model(crate::graph::SwitchId(id)).many_untagged_vlans_per_port);
    match machine.options.tagging {
        TaggingOption::Switch => Tagging::Switch,
        TaggingOption::Host => Tagging::Host,
        TaggingOption::Auto if all_can => Tagging::Switch,
        TaggingOption::Auto => Tagging::Host,
    }
}
