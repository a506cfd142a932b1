//! The plan after the failure of one link or one switch: repaired, or made again without it.

use serde::Serialize;

use crate::description::{DescriptionError, Machine};
use crate::graph::{LinkId, SwitchId};
use crate::plan::{Bisection, Plan, SwitchPlan};

use super::choose::Chosen;
use super::network::{Failure, Network};
use super::planner::{plan_repaired, whole as chosen_whole};

/// The plan of a machine without one of its parts.
#[derive(Debug, Clone, Serialize)]
pub struct Degraded {
    /// The failure as text: `link s0.0 - s1.0`.
    pub failure: String,
    /// Hosts that cannot be reached any more, those of a failed switch included.
    pub hosts_lost_count: usize,
    /// Number of VLANs.
    pub vlan_count: usize,
    /// Most switches on a route.
    pub diameter_switches: u32,
    /// Least bandwidth between two halves of what is left.
    pub bisection: Bisection,
    /// Flows on the busiest link, one flow for every ordered pair of host interfaces left.
    pub link_load_max: u64,
    /// The same over what it was: above 1.0 is worse.
    pub load_ratio: f64,
    /// Whether the new plan is free of deadlock.
    pub is_deadlock_free: bool,
    /// How its paths are chosen.
    pub method: String,
    /// Whether the plan in use was repaired, not made anew.
    pub is_repaired: bool,
    /// Switches whose configuration changes.
    pub changed_switch_count: usize,
}

/// Every link between switches and every switch, one at a time.
pub fn single_failures(machine: &Machine) -> Vec<Failure> {
    let links = (0..machine.switch_link_count() as u32).map(|link| Failure::Link(LinkId(link)));
    let switches = machine.graph.switches().map(Failure::Switch);
    // The only switch of a machine leaves nothing to plan.
    links.chain(switches.filter(|_| machine.graph.switch_count() > 1)).collect()
}

/// Plans anew for each of `which`, and says what degrades against `whole`, the plan without failures.
///
/// # Errors
/// If one of the new plans cannot be made ([`super::plan`] says when).
pub fn failures(
    machine: &Machine,
    whole: &Plan,
    which: &[Failure],
) -> Result<Vec<Degraded>, DescriptionError> {
    let in_use = chosen_whole(machine);
    which.iter().map(|&failure| degraded(machine, whole, &in_use, failure)).collect()
}

fn degraded(
    machine: &Machine,
    whole: &Plan,
    chosen: &Option<Chosen>,
    failure: Failure,
) -> Result<Degraded, DescriptionError> {
    let plan = plan_repaired(machine, &[failure], Some(chosen))?;
    let network = Network::of(machine, &[failure]);
    let is_lost = |host: &&crate::plan::HostPlan| {
        host.attachments.iter().all(|attachment| network.weight(attachment.switch.0) == 0)
    };
    let before = whole.figures.link_load_max.max(1);
    let changed = plan.switches.iter().zip(&whole.switches).filter(|(new, old)| differs(new, old));
    let is_failed = |switch: SwitchId| failure == Failure::Switch(switch);
    Ok(Degraded {
        failure: failure.name(machine),
        hosts_lost_count: plan.hosts.iter().filter(is_lost).count(),
        vlan_count: plan.vlans.len(),
        diameter_switches: plan.figures.diameter_switches,
        bisection: plan.figures.bisection,
        link_load_max: plan.figures.link_load_max,
        load_ratio: plan.figures.link_load_max as f64 / before as f64,
        is_deadlock_free: plan.verdicts.deadlock.is_free(),
        changed_switch_count: changed.filter(|(new, _)| !is_failed(new.id)).count(),
        method: plan.method,
        is_repaired: plan.is_repaired,
    })
}

fn differs(new: &SwitchPlan, old: &SwitchPlan) -> bool {
    new.ports.iter().zip(&old.ports).any(|(new, old)| new.membership != old.membership)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(switch_count: u32) -> Machine {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nkind = \"tree\"\narity = 1\n\
             switches = {switch_count}\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 2\n"
        );
        Machine::parse("m.toml", &text).unwrap()
    }

    #[test]
    fn every_part_but_an_only_switch_can_fail() {
        assert_eq!(single_failures(&line(1)), []);
        let both = [Failure::Link(LinkId(0)), Failure::Switch(SwitchId(0)), Failure::Switch(SwitchId(1))];
        assert_eq!(single_failures(&line(2)), both);
    }

    #[test]
    fn what_a_failure_takes_from_a_line_is_counted() {
        let machine = line(4);
        let whole = crate::vlan::plan(&machine).unwrap();
        // Four hosts on each side of the middle link.
        assert_eq!(whole.figures.link_load_max, 16);
        let degraded = failures(&machine, &whole, &single_failures(&machine)).unwrap();
        let told: Vec<(&str, usize, usize, f64)> = degraded
            .iter()
            .map(|one| (one.failure.as_str(), one.hosts_lost_count, one.changed_switch_count, one.load_ratio))
            .collect();
        // Both ends of a link change, and where the rest is cut off in two parts, all links of one of them; a
        // switch that failed is not asked to change.
        let expected = [
            ("link s0 - s1", 2, 2, 0.5),
            ("link s1 - s2", 4, 3, 0.25),
            ("link s2 - s3", 2, 2, 0.5),
            ("switch s0", 2, 1, 0.5),
            ("switch s1", 4, 2, 0.25),
            ("switch s2", 4, 2, 0.25),
            ("switch s3", 2, 1, 0.5),
        ];
        assert_eq!(told, expected);
        assert!(degraded.iter().all(|one| one.vlan_count == whole.vlans.len() && one.is_repaired));
    }

    #[test]
    fn without_flows_before_nothing_is_busier() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n\
                    [[switch]]\nname = \"a\"\nhosts = 2\n[[switch]]\nname = \"b\"\nhosts = 0\n\
                    [[cable]]\nfrom = \"a:7\"\nto = \"b:7\"\n[hosts]\nmodel = \"h\"\n";
        let machine = Machine::parse("m.toml", text).unwrap();
        let whole = crate::vlan::plan(&machine).unwrap();
        assert_eq!(whole.figures.link_load_max, 0);
        let degraded = failures(&machine, &whole, &[Failure::Link(LinkId(0))]).unwrap();
        assert!(degraded[0].load_ratio.abs() < 1e-12, "{}", degraded[0].load_ratio);
    }
}
