//! The protocol's election, modelled from its priority vectors alone, against the trees that costs were
//! made for.

use super::*;
use crate::description::Machine;
use crate::plan::{MSTP_MAX_HOPS, Plan};
use crate::vlan::{Failure, InUse, Reach, plan, plan_without, repaired_from};
use ayatori_random::Random;

/// Root, cost to it, switch that sends, its port: the less the better (IEEE 802.1Q-2018, 13.11). A
/// switch is its priority and its address. Last the hops that are left.
type Vector = ((u16, u64), u64, (u16, u64), u32, u32);

/// One instance on one network. It knows switches, cables, priorities and costs, and no tree.
struct Election {
    switches: Vec<(u16, u64)>,
    /// By switch: its ports, each with its number, cost, and the switch and port at the far end.
    ports: Vec<Vec<Port>>,
    /// The last message of each port's neighbour.
    heard: Vec<Vec<Option<Vector>>>,
}

struct Port {
    number: u32,
    cost: u64,
    link: u32,
    to: usize,
    to_port: usize,
}

impl Election {
    /// Numbers of ports and addresses of switches are dealt by `deal`.
    fn new(
        ends: &[[u32; 2]],
        instance: &MstpInstance,
        switch_count: usize,
        mut deal: impl FnMut() -> u64,
    ) -> Election {
        let switches = (0..switch_count as u32)
            .map(|switch| (instance.priority(SwitchId(switch)), deal() << 16 | u64::from(switch)))
            .collect();
        let mut ports: Vec<Vec<Port>> = (0..switch_count).map(|_| Vec::new()).collect();
        for (link, &[a, b]) in ends.iter().enumerate() {
            let cost = u64::from(instance.cost(LinkId(link as u32)));
            let places = [a, b].map(|end| ports[end as usize].len());
            for (from, to, to_port) in [(a, b, places[1]), (b, a, places[0])] {
                let number = (deal() as u32 & 0xff) << 16 | link as u32;
                let port = Port { number, cost, link: link as u32, to: to as usize, to_port };
                ports[from as usize].push(port);
            }
        }
        let heard = ports.iter().map(|ports| vec![None; ports.len()]).collect();
        Election { switches, ports, heard }
    }

    /// The switch's root, and the port that leads there.
    fn root(&self, switch: usize) -> (Vector, Option<usize>) {
        let own = self.switches[switch];
        let itself = ((own, 0, own, 0, MSTP_MAX_HOPS), None);
        let others = self.heard[switch].iter().zip(&self.ports[switch]).enumerate();
        let others = others.filter_map(|(place, (heard, port))| {
            let (root, cost, from, number, hops) = (*heard)?;
            // Its own news, come back; or too old.
            let is_news = from != own && root != own && hops > 0;
            is_news.then_some(((root, cost + port.cost, from, number, hops), Some(place)))
        });
        let best = others.chain([itself]);
        best.min_by_key(|&((root, cost, from, number, _), place)| {
            (root, cost, from, number, place.map(|place| self.ports[switch][place].number))
        })
        .expect("there is itself")
    }

    fn roots(&self) -> Vec<(Vector, Option<usize>)> {
        (0..self.switches.len()).map(|switch| self.root(switch)).collect()
    }

    /// What a switch with this root says at a port.
    fn said(&self, root: &(Vector, Option<usize>), switch: usize, place: usize) -> Vector {
        let ((root, cost, .., hops), port) = *root;
        let hops = if port.is_some() { hops.saturating_sub(1) } else { MSTP_MAX_HOPS };
        (root, cost, self.switches[switch], self.ports[switch][place].number, hops)
    }

    /// All switches send at every port until no message is new. Returns the links that pass frames at both
    /// ends. `is_up`: by link.
    fn settle(&mut self, is_up: &[bool]) -> Vec<u32> {
        let count = self.switches.len();
        for _ in 0..4 * count + 2 * MSTP_MAX_HOPS as usize {
            let roots = self.roots();
            let next: Vec<Vec<Option<Vector>>> = (0..count)
                .map(|switch| {
                    let ports = self.ports[switch].iter();
                    ports
                        .map(|port| {
                            is_up[port.link as usize]
                                .then(|| self.said(&roots[port.to], port.to, port.to_port))
                        })
                        .collect()
                })
                .collect();
            if next == self.heard {
                return self.forwarding(is_up);
            }
            self.heard = next;
        }
        panic!("the election does not settle");
    }

    /// A port passes frames if it is the root port, or says something better than the port at the far end.
    fn forwarding(&self, is_up: &[bool]) -> Vec<u32> {
        let roots = self.roots();
        let passes = |switch: usize, place: usize| {
            let (.., root_port) = roots[switch];
            let heard = self.heard[switch][place].expect("the link is up");
            root_port == Some(place) || self.said(&roots[switch], switch, place) < heard
        };
        let mut links = Vec::new();
        for (switch, ports) in self.ports.iter().enumerate() {
            for (place, port) in ports.iter().enumerate() {
                let both = |port: &Port| passes(switch, place) && passes(port.to, port.to_port);
                if switch < port.to && is_up[port.link as usize] && both(port) {
                    links.push(port.link);
                }
            }
        }
        links.sort_unstable();
        links
    }
}

/// Switches by the part of the network they are in.
fn parts(ends: &[[u32; 2]], links: impl Iterator<Item = u32>, switch_count: usize) -> (Vec<usize>, bool) {
    let mut part: Vec<usize> = (0..switch_count).collect();
    let mut has_loop = false;
    for link in links {
        let [a, b] = ends[link as usize].map(|end| part[end as usize]);
        has_loop |= a == b;
        part.iter_mut().filter(|part| **part == a).for_each(|part| *part = b);
    }
    (part, has_loop)
}

fn is_same_partition(a: &[usize], b: &[usize]) -> bool {
    (0..a.len()).all(|i| (0..i).all(|j| (a[i] == a[j]) == (b[i] == b[j])))
}

/// A connected network with some links twice, and a random spanning tree of it.
fn network_and_tree(random: &mut Random) -> (Vec<[u32; 2]>, Vec<LinkId>, usize) {
    let switch_count = 2 + random.index(12);
    let link_count = switch_count - 1 + random.index(16);
    let mut ends: Vec<[u32; 2]> =
        (1..switch_count).map(|switch| [random.index(switch) as u32, switch as u32]).collect();
    while ends.len() < link_count {
        let [a, b] = [0, 1].map(|_| random.index(switch_count) as u32);
        if a != b {
            ends.push([a.min(b), a.max(b)]);
        }
    }
    random.shuffle(&mut ends);
    let mut order: Vec<u32> = (0..ends.len() as u32).collect();
    random.shuffle(&mut order);
    let mut tree: Vec<LinkId> = Vec::new();
    for link in order {
        let all = tree.iter().map(|link| link.0).chain([link]);
        if !parts(&ends, all, switch_count).1 {
            tree.push(LinkId(link));
        }
    }
    tree.sort_unstable();
    (ends, tree, switch_count)
}

fn network_of(ends: &[[u32; 2]], switch_count: usize) -> Network {
    Network::of(&machine_of(ends, switch_count), &[])
}

fn machine_of(ends: &[[u32; 2]], switch_count: usize) -> Machine {
    let mut text = String::from("name = \"m\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\n");
    text += "[host_models.h]\nnic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n";
    text += "[hosts]\nmodel = \"h\"\nper_switch = 1\n";
    (0..switch_count).for_each(|switch| text += &format!("[[switch]]\nname = \"s{switch}\"\n"));
    let mut used = vec![64; switch_count];
    for [a, b] in ends {
        let [port_a, port_b] = [a, b].map(|&end| {
            used[end as usize] -= 1;
            used[end as usize] + 1
        });
        text += &format!("[[cable]]\nfrom = \"s{a}:{port_a}\"\nto = \"s{b}:{port_b}\"\n");
    }
    Machine::parse("m.toml", &text).unwrap()
}

/// Whether the links are a spanning tree of what is up.
fn spans(ends: &[[u32; 2]], is_up: &[bool], links: &[u32], switch_count: usize) -> bool {
    let left = (0..ends.len() as u32).filter(|&link| is_up[link as usize]);
    let (whole, _) = parts(ends, left, switch_count);
    let (joined, has_loop) = parts(ends, links.iter().copied(), switch_count);
    !has_loop && is_same_partition(&whole, &joined)
}

#[test]
fn instances_elect_the_planned_tree_and_heal_after_any_cut() {
    elections(0..300);
}

#[test]
#[ignore = "a minute: cargo test --release -p ayatori-fabric -- --ignored thousand_elections"]
fn ten_thousand_elections() {
    elections(0..10_000);
}

fn elections(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random::new(seed);
        let (ends, tree, switch_count) = network_and_tree(&mut random);
        let instance = instance(&network_of(&ends, switch_count), 1, &tree);
        let deal = || random.next_u64() >> 24;
        let mut election = Election::new(&ends, &instance, switch_count, deal);
        let planned: Vec<u32> = tree.iter().map(|link| link.0).collect();
        let mut is_up = vec![true; ends.len()];
        assert_eq!(election.settle(&is_up), planned, "seed {seed}");
        // Cuts and restores one link after the other, from the state that all switches had before.
        for cut in 0..ends.len() {
            is_up[cut] = false;
            let healed = election.settle(&is_up);
            assert!(spans(&ends, &is_up, &healed, switch_count), "seed {seed}, without {cut}: {healed:?}");
            is_up[cut] = true;
            assert_eq!(election.settle(&is_up), planned, "seed {seed}, {cut} is back");
        }
        let gone = instance.root.0;
        (0..ends.len()).filter(|&link| ends[link].contains(&gone)).for_each(|link| is_up[link] = false);
        let healed = election.settle(&is_up);
        assert!(spans(&ends, &is_up, &healed, switch_count), "seed {seed}, without the root: {healed:?}");
    }
}

#[test]
fn the_model_of_the_election_sees_costs_that_are_too_low() {
    // A ring of four whose tree goes the long way: with equal costs it is not elected.
    let ends = [[0, 1], [1, 2], [2, 3], [0, 3]];
    let mut instance = instance(&network_of(&ends, 4), 1, &[LinkId(0), LinkId(1), LinkId(2)]);
    let elected = |instance: &MstpInstance| Election::new(&ends, instance, 4, || 1).settle(&[true; 4]);
    assert_eq!(elected(&instance), [0, 1, 2]);
    instance.tree = vec![LinkId(0), LinkId(1), LinkId(2), LinkId(3)];
    instance.root = SwitchId(0);
    assert_ne!(elected(&instance), [0, 1, 2]);
}

fn planned(topology: &str, options: &str) -> (Machine, Plan) {
    let text = format!(
        "name = \"m\"\n[switch_models.s]\nports = 24\nrate_gbps = 1\ndialect = \"comware\"\n\
         mstp_instances_max = 16\n\
         [host_models.h]\nnic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n\
         switch_model = \"s\"\n{topology}\n\
         [hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\nspanning_tree = \"mstp\"\n{options}"
    );
    let machine = Machine::parse("m.toml", &text).unwrap();
    let plan = plan(&machine).unwrap();
    (machine, plan)
}

#[test]
fn every_vlan_is_in_one_instance_and_on_every_link() {
    for topology in [
        "kind = \"torus\"\nextents = [4, 2]",
        "kind = \"complete\"\nswitches = 6",
        "kind = \"fat-tree\"\ndown = [4]\nup = [2]",
    ] {
        let (_, plan) = planned(topology, "");
        let mstp = plan.mstp.as_ref().unwrap();
        for vlan in &plan.vlans {
            let own: Vec<_> =
                mstp.instances.iter().filter(|instance| instance.vlans.contains(vlan.vid)).collect();
            assert_eq!(own.len(), 1, "{topology}");
            assert_eq!(own[0].tree, vlan.tree);
            assert_eq!(vlan.tree.len(), plan.switches.len() - 1, "it spans all switches");
        }
        let links = plan.switches.iter().flat_map(|switch| &switch.ports);
        let links = links.filter(|port| matches!(port.role, crate::plan::PortRole::Link { .. }));
        assert!(links.clone().count() > 0);
        links.for_each(|port| assert_eq!(port.membership.tagged, plan.vlan_set()));
        assert!(plan.verdicts.are_good(), "{topology}: {:?}", plan.verdicts);
    }
}

#[test]
fn a_failure_changes_no_switch_and_every_host_is_reached() {
    let (machine, whole) = planned("kind = \"torus\"\nextents = [4, 2]", "");
    for link in 0..whole.links.len() as u32 {
        let healed = plan_without(&machine, &[Failure::Link(LinkId(link))]).unwrap();
        assert_eq!(healed.mstp, whole.mstp);
        let ports = |plan: &Plan| format!("{:?}", plan.switches);
        assert_eq!(ports(&healed), ports(&whole));
        assert!(healed.vlans.iter().all(|vlan| !vlan.tree.contains(&LinkId(link))));
        assert!(
            healed.verdicts.checks.iter().all(|check| check.name != "trees" || check.status == Status::Holds)
        );
    }
}

#[test]
fn too_many_trees_and_makes_without_mstp_are_refused_by_name() {
    let text = |model: &str, plan: &str| {
        format!(
            "name = \"m\"\n[switch_models.s]\nports = 24\nrate_gbps = 1\n{model}\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n\
             switch_model = \"s\"\nkind = \"complete\"\n\
             switches = 6\n[hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\nspanning_tree = \"mstp\"\n{plan}"
        )
    };
    let refused = |text: String| plan(&Machine::parse("m.toml", &text).unwrap()).unwrap_err().to_string();
    let few = refused(text("dialect = \"comware\"\nmstp_instances_max = 4", ""));
    assert!(few.contains("6 different trees, and s takes 4 MSTP instances"), "{few}");
    assert!(few.contains("routing = \"spanning-tree\"` (1 VLAN)"), "{few}");
    let none = refused(text("dialect = \"edgeswitch\"", ""));
    assert!(none.contains("no words for MSTP are known in dialect edgeswitch (s)"), "{none}");
    let deep = refused(
        text("", "")
            .replace("kind = \"complete\"\nswitches = 6", "kind = \"ring\"\nswitches = 90\n")
            .replace("[plan]", "[plan]\nrouting = \"spanning-tree\""),
    );
    assert!(deep.contains("45 links deep"), "{deep}");
}

#[test]
fn as_many_trees_as_instances_and_depths_to_the_limit_are_taken() {
    let (_, six) = planned("kind = \"complete\"\nswitches = 16", "");
    assert_eq!(six.mstp.map(|mstp| mstp.instances.len()), Some(16));
    let ring = |switch_count: u32| {
        let (_, plan) =
            planned(&format!("kind = \"ring\"\nswitches = {switch_count}"), "routing = \"spanning-tree\"");
        plan.verdicts.checks.into_iter().find(|check| check.name == "mstp").expect("a check")
    };
    // A ring without one link is a line, and its root is in the middle. After a failure it may be at an end.
    for (switch_count, depth, status) in [
        (MSTP_DEPTH_MAX + 1, MSTP_DEPTH_MAX.div_ceil(2), Status::Holds),
        (MSTP_DEPTH_MAX + 2, (MSTP_DEPTH_MAX + 1).div_ceil(2), Status::Warning),
        (2 * MSTP_DEPTH_MAX + 1, MSTP_DEPTH_MAX, Status::Warning),
    ] {
        let check = ring(switch_count);
        assert!(
            check.detail.ends_with(&format!("at most {depth} links deep from their roots")),
            "{}",
            check.detail
        );
        assert_eq!((check.status, check.remedy.is_some()), (status, status == Status::Warning));
    }
}

#[test]
fn hosts_of_a_switch_that_failed_send_no_more() {
    let (machine, whole) = planned("kind = \"ring\"\nswitches = 5", "");
    let healed = plan_without(&machine, &[Failure::Switch(SwitchId(2))]).unwrap();
    assert!(healed.is_repaired && !whole.is_repaired);
    // Four switches in a line with two hosts each: 4 times 4 flows cross the middle.
    assert_eq!(healed.figures.link_load_max, 16);
    for vlan in &healed.vlans {
        assert_eq!(vlan.tree.len(), 3);
        assert!(vlan.tree.is_sorted());
    }
}

#[test]
fn instances_are_numbered_from_one_in_a_region_of_one_name() {
    let (_, plan) = planned("kind = \"complete\"\nswitches = 6", "");
    let region = plan.mstp.unwrap();
    assert_eq!((region.region.as_str(), region.revision), ("m", 1));
    // Instance 0 is the common one, which no VLAN can be taken out of.
    assert_eq!(region.instances.iter().map(|own| own.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

/// Addresses of switches in the order of their numbers, and numbers of ports in the order of links.
#[test]
fn the_tree_after_a_failure_is_the_one_that_is_elected() {
    let mut ties = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (ends, tree, switch_count) = network_and_tree(&mut random);
        let machine = machine_of(&ends, switch_count);
        let instance = instance(&Network::of(&machine, &[]), 1, &tree);
        for lost in 0..ends.len() as u32 {
            let network = Network::of(&machine, &[Failure::Link(LinkId(lost))]);
            if network.alive().count() < switch_count {
                continue;
            }
            let is_up: Vec<bool> = (0..ends.len() as u32).map(|link| link != lost).collect();
            let elected = Election::new(&ends, &instance, switch_count, || 0).settle(&is_up);
            assert_eq!(healed(&network, &instance), elected, "seed {seed} without {lost}: {ends:?}");
            ties += usize::from(instance.tree.contains(&LinkId(lost)));
        }
    }
    assert!(ties > 300, "{ties}");
    // All ways are as long: those of the lower switch are taken.
    let ends = [[0, 1], [0, 2], [1, 3], [2, 3]];
    let network = network_of(&ends, 4);
    let mut instance = instance(&network, 1, &[LinkId(0), LinkId(1), LinkId(2)]);
    (instance.tree, instance.root, instance.second_root) = (Vec::new(), SwitchId(0), None);
    assert_eq!(healed(&network, &instance), [0, 1, 2]);
    instance.second_root = Some(SwitchId(2));
    assert_eq!(healed(&network, &instance), [0, 1, 3]);
}

#[test]
fn figures_and_checks_are_those_after_the_failure() {
    let (machine, whole) = planned("kind = \"torus\"\nextents = [4, 2]", "");
    let has_reach = |plan: &Plan| plan.verdicts.checks.iter().any(|check| check.name == "reach");
    assert!(!has_reach(&whole));
    for link in 0..whole.links.len() {
        let healed = plan_without(&machine, &[Failure::Link(LinkId(link as u32))]).unwrap();
        assert_eq!(healed.figures.channel_flows[2 * link..][..2], [0, 0]);
        assert!(healed.figures.link_load_max >= healed.figures.link_load_least as u64);
        assert!(has_reach(&healed));
    }
    assert!(whole.figures.channel_flows.iter().any(|&flows| flows > 0));
}

/// Not those that a plan made anew would have.
#[test]
fn a_repair_heals_the_trees_in_use() {
    let (machine, whole) = planned("kind = \"complete\"\nswitches = 4", "");
    let mut in_use = whole.clone();
    in_use.vlans.iter_mut().for_each(|vlan| vlan.vid = crate::plan::VlanId::new(vlan.vid.get() + 7).unwrap());
    in_use.vlans.reverse();
    let in_use = InUse::of(&in_use).unwrap();
    let failures = [Failure::Link(LinkId(1))];
    for reach in [Reach::Joints, Reach::Trees, Reach::Vlans] {
        let as_is = repaired_from(&machine, &in_use, &[], Reach::Joints).unwrap();
        let healed = repaired_from(&machine, &in_use, &failures, reach).unwrap();
        let vids = |plan: &Plan| plan.vlans.iter().map(|vlan| vlan.vid.get()).collect::<Vec<_>>();
        assert_eq!(vids(&healed), vids(&as_is));
        assert!(vids(&healed).contains(&(whole.vlans[3].vid.get() + 7)), "{:?}", vids(&healed));
        assert!(healed.is_repaired && healed.vlans.iter().all(|vlan| !vlan.tree.contains(&LinkId(1))));
        assert_eq!(healed.mstp, as_is.mstp);
    }
}
