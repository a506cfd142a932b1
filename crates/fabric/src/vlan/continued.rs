//! A changed machine planned from the plan in use: what still works stays, the rest is repaired.

use crate::description::{DescriptionError, Grouping, Machine, Routing};
use crate::graph::SwitchId;
use crate::plan::Plan;

use super::assign::{assign, hosts};
use super::balance::{least_flows, least_pressure};
use super::choose::{Chosen, Judged};
use super::evaluation::{evaluate, pressure_of};
use super::in_use::InUse;
use super::mstp;
use super::network::{Failure, Network};
use super::planner::{chosen, fits, vlans_max};
use super::rebalance::{Room, rebalanced};
use super::renewed::renewed;
use super::repair;
use super::solution::Choice;

/// Plans a machine so that as little as possible differs from the plan in use: identifiers, trees, hosts'
/// VLANs and addresses, numbers of LAGs. VLANs that lost a link are joined again, hosts of new switches take
/// the VLAN that is best for them. A new plan replaces the repaired one if that can deadlock, is busier than
/// a new one by more than half, or has more VLANs than the switches take, or if the machine has more switches
/// than can be repaired; see [`Plan::is_repaired`]. It does not if it has too many VLANs itself. Addresses
/// and numbers of LAGs stay then, too.
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
    let new_switches = in_use.new_switches(machine, &network);
    let kept = repaired.map(|judged| placed(&network, judged, &new_switches, &is_safe));
    let anew_is_usable = is_safe(&anew.best) && fits(machine, &anew.best);
    let pressure = |judged: &Judged| judged.evaluation.pressure(&network);
    let is_as_good =
        |judged: &Judged| fits(machine, judged) && is_worth_keeping(pressure(judged), pressure(&anew.best));
    match kept.filter(|judged| is_safe(judged) && (!anew_is_usable || is_as_good(judged))) {
        Some(best) => assign(machine, &network, &Chosen { best, alternative: None }, &[], Some(in_use)),
        None => assign(machine, &network, &anew, &[], Some(in_use)),
    }
}

/// Whether the busiest link of routes in use is busier than that of new ones by half at most.
fn is_worth_keeping(in_use: u128, anew: u128) -> bool {
    in_use <= anew / 2 * 3
}

/// A repair is changed further where its busiest channel has more than so many times the least that any
/// routes of the network that is left have there.
pub const REPAIR_OVER_LEAST_MAX: f64 = 1.5;

/// How much of the plan in use a repair may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// VLANs that lost a link are joined again by others.
    Joints,
    /// Also other links of VLANs, and the VLANs of host ports. The scripts of hosts stay.
    Trees,
    /// Also new VLANs, within the limits of the switches, and routes searched anew whatever `[plan]` says of
    /// `routing` and `vlans`. The scripts of hosts change with the number of VLANs.
    Vlans,
}

/// The plan in use without what has failed: VLANs that lost a link are joined again by others, all else
/// stays. Where that is busier than 1.5 times the bound of what is left, or can deadlock, more is changed, as
/// far as `reach` allows and no further than it takes; what is least busy is taken where that is not reached.
/// Routes are made anew where no repair is safe, or the machine has more switches than can be repaired
/// ([`Plan::is_repaired`] tells): on the VLANs in use, with the scripts of hosts as they are, unless `reach`
/// allows more. The figures have the bound ([`crate::plan::Figures::load_over_least`]).
///
/// # Errors
/// As [`super::plan`].
pub fn repaired_from(
    machine: &Machine,
    in_use: &InUse,
    failures: &[Failure],
    reach: Reach,
) -> Result<Plan, DescriptionError> {
    if mstp::is_wanted(machine) && !failures.is_empty() {
        // Its instances heal the trees in use.
        let whole = repaired_from(machine, in_use, &[], Reach::Joints)?;
        return Ok(super::elected(machine, &whole, failures).unwrap_or(whole));
    }
    let network = Network::of(machine, failures);
    let start = in_use.solution(machine, &network, &hosts(machine, Some(in_use)));
    let is_safe = |judged: &Judged| judged.evaluation.is_free || !machine.options.pause;
    let joined = if start.trees.is_empty() { None } else { repair::repaired(&network, &start) };
    let joined = joined.filter(is_safe);
    let repaired = joined.map(|joined| widened(machine, &network, joined, reach));
    let kept = |best| assign(machine, &network, &Chosen { best, alternative: None }, failures, Some(in_use));
    let is_enough = |best: &Judged| reach < Reach::Vlans || is_near(&network, &best.evaluation.flows);
    match repaired {
        Some(best) if is_enough(&best) => kept(best),
        repaired => {
            let anew = routed_anew(machine, &network, reach);
            let on_vlans_in_use = || renewed(machine, &network, &start, &anew.best);
            let repaired =
                repaired.or_else(|| on_vlans_in_use().map(|best| widened(machine, &network, best, reach)));
            if let Some(best) = repaired.as_ref().filter(|_| reach < Reach::Vlans) {
                return kept(best.clone());
            }
            match repaired.filter(|best| is_as_good(machine, &network, best, &anew.best)) {
                Some(best) => kept(best),
                None => assign(machine, &network, &anew, failures, Some(in_use)),
            }
        }
    }
}

/// Whether a repair is as good as new routes that the planner may choose as it likes: those can deadlock
/// where nothing pauses only.
fn is_as_good(machine: &Machine, network: &Network, repaired: &Judged, anew: &Judged) -> bool {
    let pressure = |judged: &Judged| judged.evaluation.pressure(network);
    !fits(machine, anew) || pressure(repaired) <= pressure(anew)
}

/// A repair with as many further changes as `reach` allows and its load asks for.
fn widened(machine: &Machine, network: &Network, joined: Judged, reach: Reach) -> Judged {
    let allows_cycles = !machine.options.pause;
    let within = |start: Judged, vlans_max: usize| {
        rebalanced(network, start, Room { vlans_max, allows_cycles }, |flows| is_near(network, flows))
    };
    let count = joined.solution.trees.len();
    match reach {
        Reach::Joints => joined,
        Reach::Trees => within(joined, count),
        Reach::Vlans => within(within(joined, count), vlans_max(machine)),
    }
}

/// Routes that keep nothing of the plan in use.
fn routed_anew(machine: &Machine, network: &Network, reach: Reach) -> Chosen {
    if reach < Reach::Vlans {
        return chosen(machine, network, true);
    }
    let mut machine = machine.clone();
    (machine.options.routing, machine.options.grouping) = (Routing::Auto, Grouping::Balanced);
    let mut anew = chosen(&machine, network, true);
    anew.best = widened(&machine, network, anew.best, reach);
    anew
}

/// Whether the busiest channel is near enough to the least that any routes have there.
fn is_near(network: &Network, flows: &[u64]) -> bool {
    let channels = flows.iter().enumerate();
    let busiest = channels.max_by_key(|&(channel, &flows)| pressure_of(network, channel, flows));
    busiest.is_none_or(|(channel, &flows)| {
        let rate = network.rate(channel as u32 / 2);
        flows as f64 <= REPAIR_OVER_LEAST_MAX * least_flows(network, least_pressure(network, flows), rate)
    })
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

#[cfg(test)]
mod tests {
    use super::super::network::Failure;
    use super::super::networks_for_tests::{Parts, described};
    use super::super::paths::minimal::{Spread, balanced};
    use super::super::solution::{Senders, Solution, by_source};
    use super::super::{plan, plan_without};
    use super::*;
    use crate::graph::{LinkId, LinkSpec};
    use crate::plan::Status;
    use crate::topology::{Explicit, Topology};

    /// Switches cabled each to each, with two hosts each.
    fn complete(switch_count: usize, model: &str, options: &str) -> Machine {
        described(&format!("kind = \"complete\"\nswitches = {switch_count}"), model, options)
    }

    #[test]
    fn a_continued_plan_has_as_many_vlans_as_switches_take() {
        let minimal = "routing = \"minimal\"\nvlans = \"per-source\"";
        // By switches in use and now, and what is asked for now: the VLANs, and whether they are kept.
        let cases = [
            // One VLAN for each of five switches would be one too many.
            (4, 5, "vlans_max = 4", minimal, 4, true),
            (4, 5, "mac_table_max = 40", minimal, 4, true),
            (4, 5, "vlans_max = 5", minimal, 5, false),
            // The new switches take fewer VLANs than are in use, as many as the routes now asked for need.
            (5, 5, "vlans_max = 4", "routing = \"spanning-tree\"", 1, false),
            (5, 5, "mac_table_max = 49", "routing = \"spanning-tree\"", 1, false),
            (5, 5, "vlans_max = 5", "routing = \"spanning-tree\"", 5, true),
        ];
        for (before, now, model, options, vlan_count, is_kept) in cases {
            let in_use = InUse::of(&plan(&complete(before, "", minimal)).unwrap()).unwrap();
            let about = format!("{before} {now} {model} {options}");
            let plan = plan_from(&complete(now, model, options), &in_use).expect(&about);
            assert_eq!((plan.vlans.len(), plan.is_repaired), (vlan_count, is_kept), "{about}");
            let fails = plan.verdicts.checks.iter().find(|check| check.status == Status::Fails);
            assert!(fails.is_none(), "{about}: {fails:?}");
        }
    }

    #[test]
    fn hosts_of_new_switches_take_the_vlan_that_is_best() {
        let (mut moved_count, mut safe_count) = (0, 0);
        for (seed, pause) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
            let network = Parts::random(seed, 7, false).network(&[]);
            let mut solution = by_source(&network, balanced(&network, Spread::ByLoad));
            let Choice::BySource(senders) = &mut solution.choice else { panic!("by pairs") };
            let new = network.switch_count() - 1;
            senders[new] = vec![Senders { vlan: 0, hosts: network.weight(new as u32) }];
            let is_safe = |judged: &Judged| judged.evaluation.is_free || !pause;
            let worth = |judged: &Judged| {
                (!is_safe(judged), judged.evaluation.pressure(&network), judged.evaluation.hops)
            };
            let judged = |solution: Solution| Judged { evaluation: evaluate(&network, &solution), solution };
            let all: Vec<Judged> = (0..solution.trees.len() as u32)
                .map(|vlan| {
                    let mut solution = solution.clone();
                    if let Choice::BySource(senders) = &mut solution.choice {
                        senders[new][0].vlan = vlan;
                    }
                    judged(solution)
                })
                .collect();
            let found = placed(&network, judged(solution), &[SwitchId(new as u32)], &is_safe);
            assert_eq!(Some(worth(&found)), all.iter().map(worth).min(), "{seed} {pause}");
            moved_count += u32::from(worth(&found) < worth(&all[0]));
            let least_busy = all.iter().min_by_key(|judged| judged.evaluation.pressure(&network)).unwrap();
            safe_count += u32::from(is_safe(&found) && !is_safe(least_busy));
        }
        assert!(moved_count > 20 && safe_count > 0, "{moved_count} {safe_count}");
    }

    #[test]
    fn near_is_half_more_than_the_least_on_the_busiest_channel() {
        let link = LinkSpec { rate_bits_per_s: 1_000, latency_ps: 0, cable_count: 1 };
        let switches = ["a", "b", "c"].map(String::from).to_vec();
        // The first link is ten times as fast as the second.
        let links = vec![(0, 1, 10), (1, 2, 1)];
        let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
        let network = Network::new(&graph, 2, vec![4, 0, 3], &[]);
        // Twelve flows go each way over both links, whatever the routes.
        let near = |flows: u64| is_near(&network, &[12, 12, flows, 12]);
        assert!(near(12) && near(17) && !near(19));
        let one = Parts::of(&[(0, 1)], &[4, 3]).network(&[]);
        assert!(is_near(&one, &[18, 12]) && !is_near(&one, &[19, 12]) && !is_near(&one, &[12, 19]));
    }

    #[test]
    fn routes_in_use_may_be_busier_by_half() {
        assert_eq!([80, 149, 150].map(|in_use| is_worth_keeping(in_use, 100)), [true; 3]);
        assert!(!is_worth_keeping(151, 100) && is_worth_keeping(0, 0) && !is_worth_keeping(1, 0));
    }

    /// Routes that wait in a cycle are in use where nothing pauses, and are given up when something does.
    #[test]
    fn routes_in_use_that_can_deadlock_stay_only_without_pause() {
        let ring = |pause: bool| {
            let text = format!(
                "name = \"r\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                 nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nkind = \"ring\"\nswitches = 6\n\
                 switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\npause = {pause}\n"
            );
            Machine::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
        };
        let whole = plan(&ring(false)).unwrap();
        assert!(!whole.verdicts.deadlock.is_free());
        let in_use = InUse::of(&whole).unwrap();
        let same = plan_from(&ring(false), &in_use).unwrap();
        assert!(same.is_repaired && !same.verdicts.deadlock.is_free());
        let paused = plan_from(&ring(true), &in_use).unwrap();
        assert!(!paused.is_repaired && paused.verdicts.are_good(), "{:?}", paused.verdicts.checks);
        // Without a link the ring is a row: nothing waits in a cycle, and the new routes are no better.
        let left = plan_without(&ring(false), &[Failure::Link(LinkId(2))]).unwrap();
        assert!(left.is_repaired && left.verdicts.deadlock.is_free());
    }

    #[test]
    fn instances_are_counted_only_where_they_hold_the_trees() {
        let most = |options: &str| {
            let model = "dialect = \"comware\"\nmstp_instances_max = 2\nvlans_max = 9";
            vlans_max(&described("kind = \"complete\"\nswitches = 4", model, options))
        };
        assert_eq!([most(""), most("spanning_tree = \"mstp\"")], [9, 2]);
    }

    #[test]
    fn there_are_no_more_vlans_than_identifiers_from_the_first_on() {
        let most = |first: u16| {
            vlans_max(&described("kind = \"star\"\nswitches = 1", "", &format!("first_vlan = {first}")))
        };
        assert_eq!([most(2), most(4000), most(4094)], [4093, 95, 1]);
    }

    /// Dimension order round rings of five waits in a cycle; without a link other routes are taken, and no
    /// repair of those.
    #[test]
    fn a_plan_after_a_failure_keeps_no_routes_that_can_deadlock() {
        let machine = described("kind = \"torus\"\nextents = [5, 3]", "", "routing = \"dimension-order\"");
        assert!(!plan(&machine).unwrap().verdicts.deadlock.is_free());
        for link in (0..machine.switch_link_count() as u32).step_by(3).map(LinkId) {
            let left = plan_without(&machine, &[Failure::Link(link)]).unwrap();
            assert!(left.verdicts.deadlock.is_free(), "{link:?}");
        }
    }

    /// Its busiest link is held against the same bound as that of a new plan.
    #[test]
    fn a_continued_plan_has_the_bound_of_its_network() {
        for topology in ["mesh\"\nextents = [3, 4]", "torus\"\nextents = [4, 3]", "ring\"\nswitches = 6"] {
            let machine = described(&format!("kind = \"{topology}"), "", "");
            let whole = plan(&machine).unwrap();
            let same = plan_from(&machine, &InUse::of(&whole).unwrap()).unwrap();
            assert_eq!(same.figures.link_load_least, whole.figures.link_load_least, "{topology}");
        }
    }

    /// What is in use is what the planner gives for the whole machine.
    #[test]
    fn a_plan_without_a_link_keeps_the_other_trees() {
        let mut kept_count = 0;
        for topology in ["ring\"\nswitches = 6", "hyperx\"\nextents = [3, 3]", "torus\"\nextents = [3, 3]"] {
            let machine = described(&format!("kind = \"{topology}"), "", "");
            let whole = plan(&machine).unwrap();
            for link in (0..whole.links.len() as u32).map(LinkId) {
                let left = plan_without(&machine, &[Failure::Link(link)]).unwrap();
                if !left.is_repaired {
                    continue;
                }
                assert_eq!(left.method, whole.method, "{topology}");
                for (was, is) in whole.vlans.iter().zip(&left.vlans) {
                    assert!(was.tree.contains(&link) || was.tree == is.tree, "{topology} {link:?}");
                    kept_count += u32::from(was.tree == is.tree);
                }
            }
        }
        assert!(kept_count > 10, "{kept_count}");
    }

    /// Routes in use that can deadlock under pause are no start for a repair.
    #[test]
    fn routes_made_anew_on_the_vlans_in_use_are_balanced() {
        let mut balanced_count = 0;
        for topology in ["ring\"\nswitches = 6", "torus\"\nextents = [5, 3]", "torus\"\nextents = [3, 4]"] {
            let topology = format!("kind = \"{topology}");
            let loose = plan(&described(&topology, "", "pause = false")).unwrap();
            let machine = described(&topology, "", "");
            let network = Network::of(&machine, &[]);
            let [quick, full] = [false, true].map(|balances| chosen(&machine, &network, balances).best);
            if loose.verdicts.deadlock.is_free() || full.solution.trees.len() > loose.vlans.len() {
                continue;
            }
            let in_use = InUse::of(&loose).unwrap();
            let repaired = repaired_from(&machine, &in_use, &[], Reach::Joints).unwrap();
            assert!(repaired.verdicts.deadlock.is_free());
            let busiest = |judged: &Judged| judged.evaluation.busiest(&network).unwrap().1;
            assert_eq!(repaired.figures.link_load_max, busiest(&full), "{topology}");
            balanced_count += u32::from(busiest(&full) < busiest(&quick));
        }
        assert!(balanced_count > 0);
    }

    /// Of a repair that leaves hosts alone nobody expects more.
    #[test]
    fn routes_made_anew_on_the_vlans_in_use_are_those_asked_for() {
        for (routing, method) in [("spanning-tree", "one spanning tree"), ("up-down", "up*/down*")] {
            let of = |options: &str| described("kind = \"ring\"\nswitches = 6", "", options);
            let loose = plan(&of("pause = false")).unwrap();
            assert!(!loose.verdicts.deadlock.is_free());
            let machine = of(&format!("routing = \"{routing}\""));
            for reach in [Reach::Joints, Reach::Trees] {
                let repaired = repaired_from(&machine, &InUse::of(&loose).unwrap(), &[], reach).unwrap();
                assert!(repaired.method.contains(method), "{}", repaired.method);
                assert_eq!(repaired.vlans.len(), loose.vlans.len());
            }
        }
    }

    /// Without pause routes may wait in a cycle, and are taken where that makes them less busy by a quarter.
    #[test]
    fn without_pause_a_failure_may_be_answered_by_loose_routes() {
        let machine = described("kind = \"mesh\"\nextents = [3, 4]", "", "pause = false");
        // Beside the first link the fifth, where a repair is about as good, and the eighth, where none is.
        for (other, is_repaired) in [(4, true), (7, false)] {
            let failures = [0, other].map(|link| Failure::Link(LinkId(link)));
            let left = plan_without(&machine, &failures).unwrap();
            let network = Network::of(&machine, &failures);
            let anew = chosen(&machine, &network, false).best.evaluation;
            let (own, new) = (left.figures.link_load_max, anew.busiest(&network).unwrap().1);
            assert_eq!((left.is_repaired, own <= new + new / 4), (is_repaired, true), "{other}: {own} {new}");
            assert_eq!(left.verdicts.deadlock.is_free() || anew.is_free, is_repaired, "{other}");
        }
    }

    #[test]
    fn a_repair_stays_unless_new_routes_are_less_busy() {
        let routes = |routing: &str| {
            let text = format!(
                "name = \"r\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\nvlans_max = 5\n\
                 [host_models.h]\nnic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nkind = \"ring\"\n\
                 switches = 5\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\n\
                 routing = \"{routing}\"\nvlans = \"per-source\"\n"
            );
            let machine = Machine::parse("r.toml", &text).unwrap();
            let network = Network::of(&machine, &[]);
            let best = chosen(&machine, &network, true).best;
            (machine, network, best)
        };
        let (machine, network, quiet) = routes("minimal");
        let (.., busy) = routes("spanning-tree");
        let is_as_good = |repaired, anew| is_as_good(&machine, &network, repaired, anew);
        assert!(is_as_good(&quiet, &busy) && is_as_good(&quiet, &quiet) && !is_as_good(&busy, &quiet));
        let mut wide = quiet.clone();
        wide.solution.trees.push(quiet.solution.trees[0].clone());
        assert_eq!(wide.solution.trees.len(), 6);
        assert!(super::is_as_good(&machine, &network, &busy, &wide), "the switches have five VLANs");
    }
}
