//! Random connected graphs, planned every way, and checked against naive models that share no code with the
//! planner.
//!
//! `AYATORI_SEED=N cargo test -p ayatori-fabric random` replays one graph and prints its description;
//! `AYATORI_GRAPHS=N` tries another number of graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{LinkId, SwitchId};
use ayatori_fabric::plan::{Attachment, Plan, PortRole, Status, Tagging, VlanId};
use ayatori_fabric::vlan::{Failure, plan, plan_without};
use ayatori_random::Random;

/// One of a few.
fn pick<'a>(random: &mut Random, items: &[&'a str]) -> &'a str {
    items[random.index(items.len())]
}

/// A description of a random connected graph of 2 to 40 switches.
fn description(random: &mut Random) -> String {
    let switch_count = 2 + random.below(39);
    let mut text = String::from("name = \"random\"\n[switch_models.s]\nports = 96\nrate_gbps = 1\n");
    if random.one_in(3) {
        let _ = writeln!(text, "vlans_max = {}", 1 + random.below(40));
    }
    if random.one_in(3) {
        let _ = writeln!(text, "mac_table_max = {}", 1 + random.below(2_000));
    }
    text.push_str("[host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n");
    text.push_str("[topology]\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\n");
    let leave_bare = random.one_in(4);
    for switch in 0..switch_count {
        let hosts = if leave_bare && switch > 0 && random.one_in(3) { 0 } else { 1 + random.below(2) };
        let _ = writeln!(text, "[[switch]]\nname = \"s{switch}\"\nhosts = {hosts}");
    }
    let mut next_port = vec![4; switch_count as usize];
    let mut cable = |random: &mut Random, a: u64, b: u64| {
        let width = if random.one_in(5) { 2 } else { 1 };
        let mut ports = [a, b].map(|switch| {
            let first = next_port[switch as usize];
            next_port[switch as usize] += width;
            format!("s{switch}:{first}-{}", first + width - 1)
        });
        let [from, to] = &mut ports;
        let _ = writeln!(text, "[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"");
    };
    // A random tree, then as many more links as there happen to be; sometimes two between the same switches.
    for switch in 1..switch_count {
        let other = random.below(switch);
        cable(random, switch, other);
    }
    let more = random.below(2 * switch_count);
    for _ in 0..more {
        let (a, b) = (random.below(switch_count), random.below(switch_count));
        if a != b {
            cable(random, a, b);
        }
    }
    let routing = pick(random, &["auto", "minimal", "minimal", "up-down", "spanning-tree"]);
    // The search for balanced routes takes seconds on the larger ones.
    let vlans = pick(random, &["fewest", "per-source", "per-source", "balanced"]);
    let vlans = if switch_count > 12 && vlans == "balanced" { "per-source" } else { vlans };
    let tagging = pick(random, &["switch", "switch", "host"]);
    let _ = writeln!(text, "[plan]\nrouting = \"{routing}\"\nvlans = \"{vlans}\"\ntagging = \"{tagging}\"");
    text
}

/// Which switches a VLAN joins, by the membership of ports alone: for each switch its neighbours and the
/// links there.
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

/// Everything that must hold of a plan.
fn check(plan: &Plan) {
    assert_eq!(plan.check_invariants(), Vec::<String>::new());
    let reached_ports: Vec<&Attachment> =
        plan.attachments().filter(|own| plan.vlan_between(own, own).is_some()).collect();
    let mut ports_of: BTreeMap<usize, Vec<&Attachment>> = BTreeMap::new();
    reached_ports.iter().for_each(|own| ports_of.entry(own.switch.index()).or_default().push(own));
    let reached: Vec<usize> = ports_of.keys().copied().collect();
    let mut waits = Waits::new(plan);
    let mut flows = vec![0_u64; 2 * plan.links.len()];
    let mut routed = 0;
    let mut way = Vec::new();
    for vlan in &plan.vlans {
        let neighbours = wired(plan, vlan.vid);
        assert_membership_is_the_tree(vlan.tree.iter().copied().collect(), &neighbours);
        for &source in &reached {
            let came = walk(&neighbours, source);
            assert!(
                reached.iter().all(|&to| to == source || came[to].is_some()),
                "VLAN {} misses a switch",
                vlan.vid
            );
            for &to in reached.iter().filter(|&&to| to != source) {
                let receiver = ports_of[&to][0];
                let sends = |own: &&&Attachment| plan.vlan_between(own, receiver) == Some(vlan.vid);
                let senders = ports_of[&source].iter().filter(sends).count();
                if senders > 0 {
                    routed += senders;
                    way.clear();
                    let mut at = to;
                    while let Some((before, link)) = came[at] {
                        way.push(waits.channel(plan, before, link));
                        at = before;
                    }
                    way.iter().for_each(|&channel| flows[channel] += (senders * ports_of[&to].len()) as u64);
                    // From the last channel to the first.
                    way.windows(2).for_each(|two| waits.add(two[1], two[0]));
                }
            }
        }
    }
    let wanted = reached_ports.len() * (reached.len().max(1) - 1);
    assert_eq!(routed, wanted, "host ports and other switches with exactly one VLAN");
    assert_eq!(plan.figures.channel_flows, flows, "flows on every channel");
    assert_eq!(plan.verdicts.deadlock.is_free(), !waits.has_cycle(), "deadlock verdict");
    let figures = &plan.figures;
    assert!(figures.link_load_least <= figures.link_load_max as f64, "the bound holds");
    check_witness(plan, &waits);
    check_hosts_and_limits(plan, &reached);
}

fn assert_membership_is_the_tree(tree: BTreeSet<LinkId>, neighbours: &[Vec<(usize, LinkId)>]) {
    let members: BTreeSet<LinkId> = neighbours.iter().flatten().map(|&(_, link)| link).collect();
    assert_eq!(members, tree);
    let ends: usize = neighbours.iter().map(Vec::len).sum();
    assert_eq!(ends, 2 * tree.len(), "a link is a member at both ends");
}

/// How each switch is reached from a source: the switch before it and the link. Panics if there are two ways:
/// a loop.
fn walk(neighbours: &[Vec<(usize, LinkId)>], source: usize) -> Vec<Option<(usize, LinkId)>> {
    let mut came = vec![None; neighbours.len()];
    let mut stack = vec![(source, None)];
    while let Some((at, over)) = stack.pop() {
        for &(next, link) in neighbours[at].iter().filter(|(_, link)| Some(*link) != over) {
            assert!(next != source && came[next].is_none(), "a VLAN has a loop");
            came[next] = Some((at, link));
            stack.push((next, Some(link)));
        }
    }
    came
}

/// Which channels wait for which, in a square table: a channel is a link and the end that sends.
struct Waits {
    channel_count: usize,
    table: Vec<bool>,
}

impl Waits {
    fn new(plan: &Plan) -> Waits {
        let channel_count = 2 * plan.links.len();
        Waits { channel_count, table: vec![false; channel_count * channel_count] }
    }

    fn channel(&self, plan: &Plan, from: usize, link: LinkId) -> usize {
        2 * link.index() + usize::from(plan.links[link.index()].ends[0].switch.index() != from)
    }

    fn add(&mut self, held: usize, wanted: usize) {
        self.table[held * self.channel_count + wanted] = true;
    }

    fn has(&self, held: usize, wanted: usize) -> bool {
        self.table[held * self.channel_count + wanted]
    }

    /// Takes away whatever waits for nothing until nothing changes; what is left waits in cycles.
    fn has_cycle(&self) -> bool {
        let mut left: Vec<usize> = (0..self.channel_count).collect();
        loop {
            let before = left.len();
            let alive = left.clone();
            left.retain(|&held| alive.iter().any(|&wanted| self.has(held, wanted)));
            if left.len() == before {
                return !left.is_empty();
            }
        }
    }
}

fn check_witness(plan: &Plan, waits: &Waits) {
    let cycle = &plan.verdicts.deadlock.cycle;
    for (index, step) in cycle.iter().enumerate() {
        let next = &cycle[(index + 1) % cycle.len()];
        let [held, wanted] = [step, next].map(|step| waits.channel(plan, step.from.index(), step.link));
        assert!(waits.has(held, wanted), "a step of the cycle is no dependency");
        let sends = |own: &&Attachment| own.switch == step.source;
        let receiver = plan.attachments().find(|own| own.switch == step.destination).expect("it has hosts");
        let on_it = |own: &&Attachment| plan.vlan_between(own, receiver) == Some(step.vid);
        let sender = plan.attachments().filter(sends).find(on_it).expect("a host sends on the VLAN");
        let route = plan.route(sender, receiver).expect("the witness is a route");
        let at = route.hops.iter().position(|hop| hop.link == step.link).expect("it holds the channel");
        assert_eq!((route.vid, route.hops[at + 1].link), (step.vid, next.link));
    }
}

fn check_hosts_and_limits(plan: &Plan, reached: &[usize]) {
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
                    let PortRole::Host { host, attachment } = port.role else { unreachable!() };
                    let own = &plan.host(host).attachments[attachment];
                    assert_eq!(membership.pvid, plan.vlan_between(own, own));
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
    let mut random = Random::new(seed);
    let text = description(&mut random);
    let machine = Machine::parse("random.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let limit = machine.switch_models[0].vlans_max;
    let table = machine.switch_models[0].mac_table_max;
    let failure = random.one_in(5).then(|| match random.one_in(2) {
        true => Failure::Switch(SwitchId(random.below(machine.graph.switch_count() as u64) as u32)),
        false => Failure::Link(LinkId(random.below(machine.switch_link_count() as u64) as u32)),
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

/// Outcomes of the graphs.
#[derive(Debug, Default)]
struct Tried {
    outcomes: BTreeMap<Outcome, u64>,
    /// Longest time one took, and its seed.
    slowest: (Duration, u64),
}

/// Tries seeds on as many threads as there are processors; a failure names its seed.
fn try_seeds(seed_count: u64) -> Tried {
    let thread_count = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let work = || {
        let mut tried = Tried::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seed_count {
                return tried;
            }
            let start = Instant::now();
            let outcome = std::panic::catch_unwind(|| try_seed(seed)).unwrap_or_else(|panic| {
                eprintln!("AYATORI_SEED={seed} replays this failure");
                // The other threads have no more to do.
                next.store(seed_count, Ordering::Relaxed);
                std::panic::resume_unwind(panic)
            });
            *tried.outcomes.entry(outcome).or_insert(0) += 1;
            tried.slowest = tried.slowest.max((start.elapsed(), seed));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(work)).collect();
        let mut all = Tried::default();
        for thread in threads {
            let tried = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tried
                .outcomes
                .into_iter()
                .for_each(|(outcome, count)| *all.outcomes.entry(outcome).or_insert(0) += count);
            all.slowest = all.slowest.max(tried.slowest);
        }
        all
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn seeds(count: u64) -> Tried {
    match number("AYATORI_SEED") {
        Some(seed) => {
            println!("{}", description(&mut Random::new(seed)));
            Tried { outcomes: BTreeMap::from([(try_seed(seed), 1)]), ..Tried::default() }
        }
        None => try_seeds(number("AYATORI_GRAPHS").unwrap_or(count)),
    }
}

#[test]
fn random_graphs_are_planned_right() {
    println!("{:?}", seeds(300));
}

#[test]
#[ignore = "minutes: cargo test --release -p ayatori-fabric -- --ignored hundred_thousand --nocapture"]
fn a_hundred_thousand_random_graphs_are_planned_right() {
    let start = Instant::now();
    let Tried { outcomes, slowest } = seeds(100_000);
    println!(
        "{} random graphs in {:.0} s: {outcomes:?}; the slowest took {:.2} s, AYATORI_SEED={}",
        outcomes.values().sum::<u64>(),
        start.elapsed().as_secs_f64(),
        slowest.0.as_secs_f64(),
        slowest.1
    );
    assert!(number("AYATORI_SEED").is_some() || outcomes.len() == 3, "every outcome comes up: {outcomes:?}");
}
