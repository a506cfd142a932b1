//! Repairs that change more and more: never busier, never able to deadlock, and hosts stay as they are while
//! they are not asked for.

use crate::description::{Grouping, Machine, Routing};
use crate::host::interfaces;
use crate::plan::{Attachment, Plan};
use crate::watch::{absent, ordered_repair, safe_order};
use ayatori_random::Random;

use super::*;

/// A random connected graph of few switches with three hosts each.
fn graph(seed: u64, options: &str) -> Machine {
    let mut random = Random::new(seed);
    let count = 4 + random.index(4);
    let mut text = String::from(
        "name = \"m\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\n[host_models.h]\n\
         nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n\
         per_switch = 3\n",
    );
    (0..count).for_each(|switch| text += &format!("[[switch]]\nname = \"s{switch}\"\n"));
    let mut next = vec![10; count];
    let mut cable = |a: usize, b: usize| {
        let [a, b] = [a, b].map(|end| {
            next[end] += 1;
            format!("s{end}:{}", next[end])
        });
        text += &format!("[[cable]]\nfrom = \"{a}\"\nto = \"{b}\"\n");
    };
    (1..count).for_each(|switch| cable(switch, random.index(switch)));
    for _ in 0..2 + random.index(count) {
        let (a, b) = (random.index(count), random.index(count));
        if a != b {
            cable(a, b);
        }
    }
    Machine::parse("m.toml", &(text + &format!("[plan]\n{options}\n"))).unwrap()
}

/// By host interface that is reached still: the switch and VLAN.
fn senders(plan: &Plan, network: &Network) -> Vec<(crate::graph::SwitchId, Option<usize>)> {
    let is_left = |own: &&Attachment| network.weight(own.switch.0) > 0;
    plan.attachments().filter(is_left).map(|own| (own.switch, plan.choice.vlan_index(own, own))).collect()
}

#[test]
fn a_repair_that_may_change_more_is_never_busier() {
    let (mut wider, mut widest, mut more_vlans, mut moved, mut chosen) = (0, 0, 0, 0, 0);
    let (mut kept, mut anew_count) = (0, 0);
    let all = ["", "pause = false", "routing = \"up-down\""];
    for (seed, options) in (0..20).flat_map(|seed| all.map(|options| (seed, options))) {
        let machine = graph(seed, options);
        let whole = plan(&machine).unwrap();
        let in_use = InUse::of(&whole).unwrap();
        for failure in single_failures(&machine) {
            let about = format!("seed {seed} {options} without {failure:?}");
            let network = Network::of(&machine, &[failure]);
            let reaches = [Reach::Joints, Reach::Trees, Reach::Vlans];
            let plans = reaches.map(|reach| repaired_from(&machine, &in_use, &[failure], reach).unwrap());
            for plan in &plans {
                assert_eq!(plan.check_invariants(), Vec::<String>::new(), "{about}");
                let bad =
                    plan.verdicts.checks.iter().filter(|check| check.status == crate::plan::Status::Fails);
                assert_eq!(bad.count(), 0, "{about}: {:?}", plan.verdicts.checks);
                assert!(plan.verdicts.deadlock.is_free() || !machine.options.pause, "{about}");
                assert!(senders(plan, &network).iter().all(|(_, vlan)| vlan.is_some()), "{about}");
            }
            let [joints, trees, vlans] = &plans;
            let load = |plan: &Plan| plan.figures.link_load_max;
            assert!(load(trees) <= load(joints), "{about}: {} of {}", load(trees), load(joints));
            assert!(load(vlans) <= load(trees), "{about}: {} of {}", load(vlans), load(trees));
            let scripts =
                |plan: &Plan| plan.hosts.iter().map(|host| interfaces(plan, host).text).collect::<Vec<_>>();
            assert_eq!(scripts(joints), scripts(&whole), "{about}");
            assert_eq!(scripts(trees), scripts(&whole), "{about}");
            // No further than it takes.
            let is_near = |plan: &Plan| plan.figures.load_over_least() <= REPAIR_OVER_LEAST_MAX;
            if is_near(joints) && joints.is_repaired {
                assert_eq!(format!("{:?}", trees.vlans), format!("{:?}", joints.vlans), "{about}");
            }
            // What is near enough is kept, even if routes that keep nothing are less busy.
            assert!(vlans.is_repaired || !trees.is_repaired || !is_near(trees), "{about}");
            // Where that is not near the bound, no routes that keep nothing are less busy.
            if !is_near(vlans) {
                let mut free = machine.clone();
                (free.options.routing, free.options.grouping) = (Routing::Auto, Grouping::Balanced);
                let anew = super::planner::chosen(&free, &network, true).best.evaluation;
                let least = anew.busiest(&network).map_or(0, |(_, flows)| flows);
                assert!(load(vlans) <= least, "{about}");
                // And what is no busier than they are is kept.
                assert!(vlans.is_repaired || !trees.is_repaired || load(trees) > least, "{about}");
                anew_count += u32::from(!vlans.is_repaired);
            }
            kept += u32::from(joints.is_repaired);
            wider += u32::from(load(trees) < load(joints));
            widest += u32::from(load(vlans) < load(trees));
            more_vlans += u32::from(vlans.vlans.len() > trees.vlans.len());
            moved += u32::from(senders(trees, &network) != senders(joints, &network));
            let ordered = ordered_repair(&machine, &whole, &in_use, &[failure]).unwrap();
            let has_order = |plan: &Plan| safe_order(&whole, plan, &absent(&[failure])).is_some();
            assert!(ordered.order.is_some() || !has_order(joints), "{about}");
            // The wider repair is taken where the switches can go there and back.
            let has_way_back = safe_order(trees, &whole, &absent(&[failure])).is_some();
            let wanted = if has_order(trees) && has_way_back { trees } else { joints };
            assert_eq!(format!("{:?}", ordered.plan.vlans), format!("{:?}", wanted.vlans), "{about}");
            let ordered = ordered.plan;
            chosen += u32::from(load(&ordered) < load(joints));
            assert!(load(&ordered) <= load(joints), "{about}");
        }
    }
    println!(
        "{kept} kept, {anew_count} anew, {wider} wider, {widest} widest, \
         {more_vlans} with more VLANs, {moved} moved, {chosen} chosen"
    );
    assert!(kept > 100 && wider > 0 && widest > 0 && more_vlans > 0 && moved > 0 && chosen > 0);
}

/// The machine with switches that take so many VLANs.
fn limited(mut machine: Machine, vlans_max: usize) -> Machine {
    machine.switch_models.iter_mut().for_each(|model| model.vlans_max = Some(vlans_max as u16));
    machine
}

/// The new routes after some of these failures need more VLANs than the switches have.
#[test]
fn a_repair_keeps_to_the_vlans_that_switches_have() {
    let (mut repaired_count, mut anew_count) = (0, 0);
    for options in ["routing = \"spanning-tree\"", "vlans = \"fewest\"", ""] {
        let machine = graph(0, options);
        let whole = plan(&machine).unwrap();
        let vlans_max = whole.vlans.len();
        let machine = limited(machine, vlans_max);
        let in_use = InUse::of(&whole).unwrap();
        for failure in single_failures(&machine) {
            let about = format!("{options} without {failure:?}");
            let [trees, vlans] = [Reach::Trees, Reach::Vlans]
                .map(|reach| repaired_from(&machine, &in_use, &[failure], reach).expect(&about));
            assert!(vlans.vlans.len() <= vlans_max, "{about}");
            assert!(vlans.figures.link_load_max <= trees.figures.link_load_max, "{about}");
            repaired_count += u32::from(vlans.is_repaired);
            anew_count += u32::from(!vlans.is_repaired);
        }
    }
    assert!(repaired_count > 0 && anew_count > 0, "{repaired_count} repaired, {anew_count} anew");
}

/// New routes after the failure would need a VLAN more than the switches have.
#[test]
fn a_plan_after_a_failure_keeps_to_the_vlans_of_switches() {
    for (seed, options, link) in
        [(32, "", 6), (14, "vlans = \"fewest\"", 4), (27, "routing = \"up-down\"", 0)]
    {
        let machine = graph(seed, options);
        let most = (1..).find(|&count| plan(&limited(machine.clone(), count)).is_ok()).unwrap();
        let machine = limited(machine, most);
        let left = plan_without(&machine, &[Failure::Link(crate::graph::LinkId(link))]).expect(options);
        assert!(left.is_repaired && left.vlans.len() <= most, "{options}");
        assert!(left.verdicts.deadlock.is_free(), "{options}");
    }
}

#[test]
fn routes_made_anew_are_not_bound_to_those_asked_for() {
    let link = |number| Failure::Link(crate::graph::LinkId(number));
    // By seed: the load with switches alone, that of the best routes which the planner finds, and of those
    // that are widened then.
    let spanning = graph(0, "routing = \"spanning-tree\"");
    let most = plan(&graph(12, "")).unwrap().vlans.len();
    let cases = [(spanning, link(1), [90, 36, 36]), (limited(graph(12, ""), most), link(0), [63, 63, 60])];
    for (machine, failure, loads) in cases {
        let in_use = InUse::of(&plan(&machine).unwrap()).unwrap();
        let repair = |reach| repaired_from(&machine, &in_use, &[failure], reach).unwrap();
        let network = Network::of(&machine, &[failure]);
        let mut free = machine.clone();
        (free.options.routing, free.options.grouping) = (Routing::Auto, Grouping::Balanced);
        let anew = super::planner::chosen(&free, &network, true).best.evaluation;
        let least = anew.busiest(&network).map_or(0, |(_, flows)| flows);
        let [trees, vlans] = [Reach::Trees, Reach::Vlans].map(repair);
        assert_eq!([trees.figures.link_load_max, least, vlans.figures.link_load_max], loads);
        assert!(trees.is_repaired && !vlans.is_repaired);
    }
}
