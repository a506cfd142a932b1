//! VLAN planning: any topology of layer-2 switches, without spanning-tree protocol and without changing hosts.
//!
//! Entry: [`plan`]. The steps, each in a file of its own: paths from every source switch, one tree each (`paths/`);
//! sources whose trees are one tree share a VLAN (`solution`); the whole is judged (`evaluation`); of several
//! candidates the best is taken and a deadlock-free one offered (`choose`); it becomes ports, LAGs, addresses and
//! checks (`dress`). [`failures`] does all that again for every link and switch that may fail.
//!
//! # What the inter-switch ports are
//!
//! T. Otsuka et al. (TPDS 22(2), 2011) need at most as many VLANs as a switch has neighbours, which is possible only if
//! frames are re-tagged at each hop: links between switches untagged, the route a function of input port and
//! destination. The paper this planner follows (T. Hiroyasu et al., 2009; P3) does not do that. Its section 3.1 sets
//! PVID and untagged membership on *host* ports only, and says of figure 2 that a frame from hosts 1 to 28 is given tag
//! 101 at the input port of switch 0, is "routed to every destination inside VLAN 101", and loses the tag at the output
//! port of the switch *its destination is connected to*. So ports between switches are tagged members, a frame keeps
//! its VLAN from the first switch to the last, and a VLAN is a tree over the whole network. That is what is planned
//! here. The paper's numbers of VLANs agree: complete graphs need one a switch (two different stars make a cycle), where
//! per-hop tagging would need one less than that.
//!
//! # Deadlock
//!
//! 802.3x pauses a link, not a VLAN. That each VLAN is a tree therefore proves nothing: the channel dependencies of all
//! VLANs are taken together, and a cycle is shown with a route for each of its steps.

mod choose;
mod dress;
mod evaluation;
mod network;
mod paths;
mod random;
mod repair;
mod replan;
mod solution;
#[cfg(test)]
mod tests;
mod tree;
mod verify;

use crate::description::{DescriptionError, Machine, TaggingOption};
use crate::plan::{Plan, Tagging};
use crate::topology::Topology;

pub use network::Failure;
pub use replan::{Degraded, failures, single_failures};

pub(crate) use network::Network;
pub(crate) use random::Random;

use choose::{Chosen, choose};

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
    dress::dress(machine, &network, &chosen, failures)
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

fn chosen(machine: &Machine, network: &Network) -> Chosen {
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
