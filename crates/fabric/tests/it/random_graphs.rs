//! Random connected graphs, planned every way, and checked against naive models that share no code with the planner.
//!
//! `AYATORI_SEED=N cargo test -p ayatori-fabric random` replays one graph and prints its description.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{LinkId, SwitchId};
use ayatori_fabric::plan::{Plan, PortRole, Status, Tagging, VlanId};
use ayatori_fabric::vlan::{Failure, plan, plan_without};

/// SplitMix64: the test's own, so that it depends on nothing of the planner's.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len() as u64) as usize]
    }
}

/// A description of a random connected graph of 2 to 40 switches.
fn description(dice: &mut Dice) -> String {
    let switch_count = 2 + dice.below(39);
    let mut text = String::from("name = \"random\"\n[switch_models.s]\nports = 250\nrate_gbps = 1\n");
    if dice.one_in(3) {
        let _ = writeln!(text, "vlans_max = {}", 1 + dice.below(40));
    }
    if dice.one_in(3) {
        let _ = writeln!(text, "mac_table_max = {}", 1 + dice.below(2_000));
    }
    text.push_str("[host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n");
    text.push_str("[topology]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n");
    let leave_bare = dice.one_in(4);
    for switch in 0..switch_count {
        let hosts = if leave_bare && switch > 0 && dice.one_in(3) { 0 } else { 1 + dice.below(2) };
        let _ = writeln!(text, "[[switch]]\nname = \"s{switch}\"\nhosts = {hosts}");
    }
    let mut next_port = vec![100; switch_count as usize];
    let mut cable = |dice: &mut Dice, a: u64, b: u64| {
        let width = if dice.one_in(5) { 2 } else { 1 };
        let mut ports = [a, b].map(|switch| {
            let first = next_port[switch as usize];
            next_port[switch as usize] += width;
            format!("s{switch}:{first}-{}", first + width - 1)
        });
        if next_port[a as usize] <= 250 && next_port[b as usize] <= 250 {
            let [from, to] = &mut ports;
            let _ = writeln!(text, "[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"");
        }
    };
    // A random tree, then as many more links as there happen to be; sometimes two between the same switches.
    for switch in 1..switch_count {
        let other = dice.below(switch);
        cable(dice, switch, other);
    }
    let more = dice.below(2 * switch_count);
    for _ in 0..more {
        let (a, b) = (dice.below(switch_count), dice.below(switch_count));
        if a != b {
            cable(dice, a, b);
        }
    }
    let routing = dice.pick(&["auto", "minimal", "minimal", "up-down", "spanning-tree"]);
    let vlans = if dice.one_in(4) { "fewest" } else { "per-source" };
    let tagging = dice.pick(&["switch", "switch", "host"]);
    let _ = writeln!(text, "[plan]\nrouting = \"{routing}\"\nvlans = \"{vlans}\"\ntagging = \"{tagging}\"");
    text
}

/// Which switches a VLAN joins, by the membership of ports alone: for each switch its neighbours and the links there.
fn wired(plan: &Plan, vid: VlanId) -> Vec<Vec<(usize, LinkId)>> {
    let mut neighbours = vec![BTreeSet::new(); plan.switches.len()];
    for switch in &plan.switches {
        for port in switch.ports.iter().filter(|port| port.membership.tagged.contains(vid)) {
            if let PortRole::Link { link, peer } = port.role {
                neighbours[switch.id.index()].insert((peer.index(), link));
            }
        }
    }
    neighbours.into_iter().map(|set| set.into_iter().collect()).collect()
}

/// Everything that must hold of a plan. Answers whether it can deadlock, found naively.
fn check(plan: &Plan) {
    assert_eq!(plan.check_invariants(), Vec::<String>::new());
    let reached: BTreeSet<usize> = plan
        .hosts
        .iter()
        .flat_map(|host| &host.attachments)
        .map(|attachment| attachment.switch.index())
        .filter(|&switch| plan.vlan_between(SwitchId(switch as u32), SwitchId(switch as u32)).is_some())
        .collect();
    let mut waits: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
    let mut routed = 0;
    for vlan in &plan.vlans {
        let neighbours = wired(plan, vlan.vid);
        assert_membership_is_the_tree(vlan.tree.iter().copied().collect(), &neighbours);
        for &source in &reached {
            let ways = walk(&neighbours, source);
            assert!(reached.iter().all(|to| ways.contains_key(to)), "VLAN {} misses a switch", vlan.vid);
            for &to in reached.iter().filter(|&&to| to != source) {
                let [from_id, to_id] = [source, to].map(|switch| SwitchId(switch as u32));
                if plan.vlan_between(from_id, to_id) == Some(vlan.vid) {
                    routed += 1;
                    ways[&to].windows(2).for_each(|two| {
                        waits.entry(two[0]).or_default().insert(two[1]);
                    });
                }
            }
        }
    }
    assert_eq!(routed, reached.len() * (reached.len().max(1) - 1), "ordered pairs with exactly one VLAN");
    assert_eq!(plan.verdicts.deadlock.is_free(), !has_cycle(&waits), "deadlock verdict");
    check_witness(plan, &waits);
    check_hosts_and_limits(plan, &reached);
}

fn assert_membership_is_the_tree(tree: BTreeSet<LinkId>, neighbours: &[Vec<(usize, LinkId)>]) {
    let members: BTreeSet<LinkId> = neighbours.iter().flatten().map(|&(_, link)| link).collect();
    assert_eq!(members, tree);
    let ends: usize = neighbours.iter().map(Vec::len).sum();
    assert_eq!(ends, 2 * tree.len(), "a link is a member at both ends");
}

type Channel = (usize, usize, LinkId);

/// The channels from a switch to every other. Panics if there are two ways: a loop.
fn walk(neighbours: &[Vec<(usize, LinkId)>], source: usize) -> BTreeMap<usize, Vec<Channel>> {
    let mut ways = BTreeMap::from([(source, Vec::new())]);
    let mut stack = vec![(source, None)];
    while let Some((at, came)) = stack.pop() {
        for &(next, link) in neighbours[at].iter().filter(|(_, link)| Some(*link) != came) {
            let mut way: Vec<Channel> = ways[&at].clone();
            way.push((at, next, link));
            assert!(ways.insert(next, way).is_none(), "a VLAN has a loop");
            stack.push((next, Some(link)));
        }
    }
    ways
}

/// Takes away whatever waits for nothing until nothing changes; what is left waits in circles.
fn has_cycle(waits: &BTreeMap<Channel, BTreeSet<Channel>>) -> bool {
    let mut left = waits.clone();
    loop {
        let before = left.len();
        let alive: BTreeSet<Channel> = left.keys().copied().collect();
        left.retain(|_, wanted| wanted.iter().any(|channel| alive.contains(channel)));
        if left.len() == before {
            return !left.is_empty();
        }
    }
}

fn check_witness(plan: &Plan, waits: &BTreeMap<Channel, BTreeSet<Channel>>) {
    let cycle = &plan.verdicts.deadlock.cycle;
    for (index, step) in cycle.iter().enumerate() {
        let next = &cycle[(index + 1) % cycle.len()];
        let channel =
            |step: &ayatori_fabric::plan::CycleStep| (step.from.index(), step.to.index(), step.link);
        assert!(waits[&channel(step)].contains(&channel(next)), "a step of the cycle is no dependency");
        let route = plan.route(step.source, step.destination).expect("the witness is a route");
        let at = route.hops.iter().position(|hop| hop.link == step.link).expect("it holds the channel");
        assert_eq!((route.vid, route.hops[at + 1].link), (step.vid, next.link));
    }
}

fn check_hosts_and_limits(plan: &Plan, reached: &BTreeSet<usize>) {
    let all = plan.vlan_set();
    let attachment_count = plan.hosts.iter().map(|host| host.attachments.len() as u64).sum::<u64>();
    for switch in &plan.switches {
        let here = plan.vlans.iter().filter(|vlan| {
            let on_tree =
                |link: &LinkId| plan.links[link.index()].ends.iter().any(|end| end.switch == switch.id);
            vlan.tree.iter().any(on_tree)
        });
        let count = here.count() as u64;
        assert!(plan.links.is_empty() || switch.mac_entries_count == count * attachment_count);
        for port in &switch.ports {
            let membership = &port.membership;
            match (port.role, plan.tagging) {
                (PortRole::Host { .. }, _) if !reached.contains(&switch.id.index()) => {
                    assert_eq!(*membership, ayatori_fabric::plan::Membership::default());
                }
                (PortRole::Host { .. }, Tagging::Switch) => {
                    assert_eq!((&membership.untagged, membership.tagged.is_empty()), (&all, true));
                    assert_eq!(membership.pvid, plan.vlan_between(switch.id, switch.id));
                }
                (PortRole::Host { .. }, Tagging::Host) => {
                    assert_eq!((&membership.tagged, membership.pvid), (&all, None));
                }
                (PortRole::Link { .. }, _) => {
                    assert!(membership.untagged.is_empty() && membership.pvid.is_none())
                }
                (PortRole::Unused, _) => assert_eq!(*membership, ayatori_fabric::plan::Membership::default()),
            }
        }
    }
}

/// Plans the graph of one seed; now and then without a part of it.
fn try_seed(seed: u64) -> Outcome {
    let mut dice = Dice(seed);
    let text = description(&mut dice);
    let machine = Machine::parse("random.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let limit = machine.switch_models[0].vlans_max;
    let table = machine.switch_models[0].mac_table_max;
    let failure = dice.one_in(5).then(|| match dice.one_in(2) {
        true => Failure::Switch(SwitchId(dice.below(machine.graph.switch_count() as u64) as u32)),
        false => Failure::Link(LinkId(dice.below(machine.switch_link_count() as u64) as u32)),
    });
    let planned = match failure {
        Some(failure) => plan_without(&machine, &[failure]),
        None => plan(&machine),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => {
            assert_eq!(&*error.key, "switch_models.s.vlans_max", "{error}");
            return Outcome::TooManyVlans;
        }
    };
    check(&plan);
    assert!(limit.is_none_or(|limit| plan.vlans.len() <= usize::from(limit)));
    let is_over =
        plan.switches.iter().any(|switch| table.is_some_and(|table| switch.mac_entries_count > table));
    let status =
        plan.verdicts.checks.iter().find(|check| check.name == "mac table").map(|check| check.status);
    assert_eq!(status == Some(Status::Fails), is_over);
    match plan.verdicts.deadlock.is_free() {
        true => Outcome::Free,
        false => {
            assert!(plan.verdicts.alternative.is_some(), "a deadlock-free alternative is always there");
            Outcome::Cyclic
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Free,
    Cyclic,
    TooManyVlans,
}

/// Tries seeds on as many threads as there are processors; a failure names its seed.
fn try_seeds(seeds: std::ops::Range<u64>) -> BTreeMap<Outcome, u64> {
    let thread_count = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        let work = |first: u64| {
            let mut outcomes = BTreeMap::new();
            for seed in seeds.clone().skip(first as usize).step_by(thread_count as usize) {
                let outcome = std::panic::catch_unwind(|| try_seed(seed)).unwrap_or_else(|panic| {
                    eprintln!("AYATORI_SEED={seed} replays this failure");
                    std::panic::resume_unwind(panic)
                });
                *outcomes.entry(outcome).or_insert(0) += 1;
            }
            outcomes
        };
        let threads: Vec<_> = (0..thread_count).map(|first| scope.spawn(move || work(first))).collect();
        let mut all = BTreeMap::new();
        for thread in threads {
            let outcomes = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcomes.into_iter().for_each(|(outcome, count)| *all.entry(outcome).or_insert(0) += count);
        }
        all
    })
}

fn seeds(count: u64) -> BTreeMap<Outcome, u64> {
    match std::env::var("AYATORI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => {
            println!("{}", description(&mut Dice(seed)));
            BTreeMap::from([(try_seed(seed), 1)])
        }
        None => try_seeds(0..count),
    }
}

#[test]
fn random_graphs_are_planned_right() {
    let outcomes = seeds(300);
    println!("{outcomes:?}");
}

#[test]
#[ignore = "minutes: cargo test --release -p ayatori-fabric -- --ignored"]
fn a_hundred_thousand_random_graphs_are_planned_right() {
    let start = std::time::Instant::now();
    let outcomes = seeds(100_000);
    println!("100,000 random graphs in {:.0} s: {outcomes:?}", start.elapsed().as_secs_f64());
    assert!(outcomes.len() == 3, "every outcome comes up: {outcomes:?}");
}
