//! What a plan is filled with: subnets, numbers of LAGs, figures, and the words of its checks.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::addresses::split;
use super::*;
use crate::description::Machine;
use crate::graph::{LinkId, SwitchId};
use crate::plan::{Plan, Status, Subnet};

#[test]
fn a_subnet_is_split_into_parts_with_room_or_not_at_all() {
    for prefix_bits in 1..=30 {
        let network = Ipv4Addr::from(0x8000_0000_u32);
        let base = Subnet { network, prefix_bits };
        let size = 1_u64 << (32 - prefix_bits);
        for (part_count, host_count) in [1_u64, 2, 3, 5, 64, 100, 4096]
            .into_iter()
            .flat_map(|parts| [1_u64, 2, 3, 6, 7, 253, 254, 255, 1000].map(|hosts| (parts, hosts)))
        {
            let parts = split(base, part_count, host_count);
            // The network's own address and the one for all are taken.
            let least = (host_count + 2).next_power_of_two().max(4);
            assert_eq!(parts.is_empty(), part_count * least > size, "{base} {part_count} {host_count}");
            let Some(first) = parts.first() else { continue };
            assert_eq!((parts.len() as u64, first.network), (part_count, network));
            for (index, part) in parts.iter().enumerate() {
                assert!(part.host_address(host_count as u32 - 1).is_some(), "{part} for {host_count}");
                assert_eq!(u64::from(u32::from(part.network)) % (1 << (32 - part.prefix_bits)), 0);
                assert!(part.broadcast() <= base.broadcast());
                assert!(index == 0 || parts[index - 1].broadcast() < part.network);
            }
            // Of 256 addresses at least, where they fit.
            assert!(first.prefix_bits <= 24 || part_count * least.max(256) > size, "{base} {part_count}");
        }
    }
}

fn machine(topology: &str, model: &str, options: &str) -> Machine {
    let text = format!(
        "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n{model}\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
         [hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\n{options}\n"
    );
    Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn planned(topology: &str, model: &str, options: &str) -> Plan {
    plan(&machine(topology, model, options)).unwrap_or_else(|error| panic!("{error}"))
}

/// A check of a plan.
fn said(plan: &Plan, name: &str) -> (Status, String) {
    let check = plan.verdicts.checks.iter().find(|check| check.name == name);
    check.map_or((Status::Holds, "is not there".into()), |check| (check.status, check.detail.to_string()))
}

const RING: &str = "kind = \"ring\"\nswitches = 4";

/// `(model, options, check, status, a part of what it says)`.
type Case = (&'static str, &'static str, &'static str, Status, &'static str);

#[test]
fn checks_say_what_holds_and_what_does_not() {
    let cases: [Case; 10] = [
        ("", "", "pause", Status::Holds, "on at every port: no frame is dropped"),
        ("", "pause = false", "pause", Status::Holds, "off, as asked: full buffers drop frames"),
        (
            "pause = false",
            "",
            "pause",
            Status::Warning,
            "s: sends no pause frames, as described; what it cannot hold",
        ),
        (
            "dialect = \"sonic\"",
            "",
            "pause",
            Status::Warning,
            "SONiC has priority flow control and sends no pause",
        ),
        ("", "pause = false", "broadcasts", Status::Holds, "without pause nothing waits; priming puts"),
        (
            "",
            "routing = \"spanning-tree\"",
            "broadcasts",
            Status::Holds,
            "with ARP and priming no cycle either",
        ),
        (
            "",
            "host_subnet = \"172.16.0.0/29\"",
            "addresses",
            Status::Fails,
            "172.16.0.0/29 has no room for 8 hosts",
        ),
        (
            "",
            "vlan_subnet = \"10.0.0.0/29\"",
            "addresses",
            Status::Fails,
            "10.0.0.0/29 has no room for 8 interfaces",
        ),
        (
            "",
            "vlan_subnet = \"10.0.0.0/30\"\nrouting = \"spanning-tree\"",
            "addresses",
            Status::Fails,
            "has no room for 8",
        ),
        (
            "",
            "vlan_subnet = \"10.0.0.0/28\"\nrouting = \"spanning-tree\"",
            "addresses",
            Status::Holds,
            "VLANs in 10.0.0.0/28",
        ),
    ];
    for (model, options, name, status, wanted) in cases {
        let plan = planned(RING, model, options);
        let found = said(&plan, name);
        assert!(found.0 == status && found.1.contains(wanted), "{model} {options}: {found:?}");
    }
    assert_eq!(said(&planned(RING, "", ""), "reach").1, "is not there");
    assert_eq!(said(&planned(RING, "", ""), "mstp").1, "is not there");
}

#[test]
fn the_number_of_a_vlan_is_in_its_subnet_where_there_is_room() {
    let plan = planned(RING, "", "");
    for vlan in &plan.vlans {
        assert_eq!(vlan.subnet.to_string(), format!("10.0.{}.0/24", vlan.vid));
    }
    let small = planned(RING, "", "vlan_subnet = \"10.0.0.0/22\"");
    let subnets: BTreeSet<String> = small.vlans.iter().map(|vlan| vlan.subnet.to_string()).collect();
    assert!(subnets.contains("10.0.0.0/24") && subnets.len() == small.vlans.len(), "{subnets:?}");
}

#[test]
fn broadcasts_that_close_a_cycle_are_told_with_a_remedy() {
    let mut kinds = BTreeSet::new();
    for topology in ["kind = \"torus\"\nextents = [3, 3]", "kind = \"ring\"\nswitches = 6", RING] {
        for options in
            ["", "tagging = \"host\"", "tagging = \"host\"\nrouting = \"minimal\"", "routing = \"minimal\""]
        {
            for threshold in ["", "pause_on_bytes = 100", "pause_on_bytes = 1000000"] {
                let plan = planned(topology, threshold, options);
                let turns = crate::broadcast::turns(&plan);
                let (status, detail) = said(&plan, "broadcasts");
                let (wanted, what) = match (turns.arp_cycle.is_empty(), turns.priming_cycle.is_empty()) {
                    (false, _) => (Status::Warning, "ARP requests close a cycle of".to_owned()),
                    (true, true) => (Status::Holds, "with ARP and priming no cycle either".to_owned()),
                    (true, false) => {
                        let alone = match threshold {
                            "" => "the description gives no pause threshold (`pause_on_bytes`)",
                            "pause_on_bytes = 100" => "it can pass the pause threshold, 100 bytes, by itself",
                            _ => "alone it stays below the pause threshold, 1000000 bytes",
                        };
                        (Status::Warning, alone.to_owned())
                    }
                };
                assert!(status == wanted && detail.contains(&what), "{topology} {options}: {detail}");
                kinds.insert((turns.arp_cycle.is_empty(), turns.priming_cycle.is_empty()));
                let bytes = plan.priming.at_once_frames_max * 68;
                assert!(detail.contains(&format!("({bytes} bytes) at once")), "{detail}");
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

#[test]
fn what_a_failure_costs_is_said() {
    let machine = machine(RING, "", "");
    let link = plan_without(&machine, &[Failure::Link(LinkId(0))]).unwrap();
    let (status, detail) = said(&link, "reach");
    assert!(status == Status::Holds && detail.contains("every host is still reached"), "{detail}");
    let switch = plan_without(&machine, &[Failure::Switch(SwitchId(1))]).unwrap();
    let (status, detail) = said(&switch, "reach");
    assert!(status == Status::Warning && detail.contains("2 hosts are cut off, h2 first"), "{detail}");
}

#[test]
fn figures_of_a_row_of_switches_are_those_by_hand() {
    let prices = "price = 100\nmac_table_max = 8";
    let row = planned("kind = \"mesh\"\nextents = [4]\ncables = 2", prices, "routing = \"spanning-tree\"");
    let figures = &row.figures;
    // 4 flows of each ordered pair of switches: 12 pairs, of 2, 3 and 4 switches. What crosses a link in
    // one direction: 3, 4 and 3 pairs.
    assert_eq!((figures.diameter_switches, figures.link_load_max), (4, 16));
    assert!((figures.mean_switches - (6.0 * 2.0 + 4.0 * 3.0 + 2.0 * 4.0) / 12.0).abs() < 1e-12);
    assert!((figures.link_load_mean - (12.0 + 16.0 + 12.0) / 3.0).abs() < 1e-12);
    assert_eq!((figures.idle_link_count, figures.cable_count, figures.price), (0, 6, Some(400.0)));
    assert_eq!(
        (figures.bisection.bits_per_s, figures.bisection_routed_bits_per_s),
        (2_000_000_000, 2_000_000_000)
    );
    assert_eq!(row.vlans[0].sources, [0, 1, 2, 3].map(SwitchId));
    let (status, detail) = said(&row, "mac table");
    assert!(status == Status::Holds && detail == "8 of 8 entries", "{detail}");
    // One tree leaves a link of a ring, and one of two links between two switches.
    let ring = planned(RING, "", "routing = \"spanning-tree\"").figures;
    assert_eq!((ring.idle_link_count, ring.bisection.bits_per_s), (1, 2_000_000_000));
    assert_eq!(ring.price, None);
    let two = "name = \"t\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nswitch_model = \"s\"\n[[switch]]\n\
        name = \"l\"\n\
        [[switch]]\nname = \"r\"\n[[cable]]\nfrom = \"l:1\"\nto = \"r:1\"\n[[cable]]\nfrom = \"l:2\"\n\
        to = \"r:2\"\n\
        [hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\nrouting = \"spanning-tree\"\n";
    let two = plan(&Machine::parse("t.toml", two).unwrap()).unwrap().figures;
    assert_eq!((two.idle_link_count, two.bisection.bits_per_s), (1, 2_000_000_000));
    assert_eq!(two.bisection_routed_bits_per_s, 1_000_000_000);
    // One switch has its hosts in its table.
    let alone = planned("kind = \"star\"\nswitches = 1", "mac_table_max = 3", "");
    assert_eq!((alone.switches[0].mac_entries_count, alone.vlans.len()), (2, 1));
    assert_eq!((alone.figures.mean_switches, alone.figures.link_load_max), (1.0, 0));
    assert_eq!((alone.figures.link_load_mean, alone.figures.bisection_routed_bits_per_s), (0.0, 0));
}

const LAGS: &str = "name = \"l\"\ncable_price = 7\n[switch_models.s]\nports = 16\nrate_gbps = 1\n\
    [host_models.b]\nnics_as = \"bond\"\n\
    nic = [{ name = \"e0\", rate_gbps = 1 }, { name = \"e1\", rate_gbps = 1 }]\n\
    [topology]\nswitch_model = \"s\"\n[[switch]]\nname = \"l\"\n[[switch]]\nname = \"r\"\n\
    [[host]]\nname = \"x\"\nmodel = \"b\"\n[[host]]\nname = \"y\"\nmodel = \"b\"\n\
    [[cable]]\nfrom = \"l:1-2\"\nto = \"r:5-6\"\n[[cable]]\nfrom = \"l:3\"\nto = \"r:3\"\n\
    [[cable]]\nfrom = \"l:5-6\"\nto = \"r:1-2\"\n[[cable]]\nfrom = \"x:e0\"\nto = \"l:9\"\n\
    [[cable]]\nfrom = \"x:e1\"\nto = \"l:10\"\n[[cable]]\nfrom = \"y:e0\"\nto = \"r:9\"\n\
    [[cable]]\nfrom = \"y:e1\"\nto = \"r:10\"\n";

/// By switch: the number of each LAG and its ports.
fn lags(plan: &Plan) -> Vec<Vec<(u16, Vec<u16>)>> {
    let of = |switch: &crate::plan::SwitchPlan| {
        switch.lags.iter().map(|lag| (lag.number, lag.members.clone())).collect()
    };
    plan.switches.iter().map(of).collect()
}

#[test]
fn lags_are_numbered_from_one_and_keep_their_numbers() {
    let machine = Machine::parse("l.toml", LAGS).unwrap_or_else(|error| panic!("{error}"));
    let first = plan(&machine).unwrap();
    let wanted = [
        vec![(1, vec![1, 2]), (2, vec![5, 6]), (3, vec![9, 10])],
        vec![(1, vec![5, 6]), (2, vec![1, 2]), (3, vec![9, 10])],
    ];
    assert_eq!(lags(&first), wanted);
    assert_eq!(
        first.figures.price,
        Some(5.0 * 7.0),
        "five cables between switches, and switches without a price"
    );
    for switch in &first.switches {
        for port in &switch.ports {
            let lag = switch.lags.iter().find(|lag| lag.members.contains(&port.number));
            assert_eq!(port.lag, lag.map(|lag| lag.number), "{} {}", switch.name, port.name);
        }
    }
    // Without the first LAG the others keep their numbers, and a new one takes what is free.
    let in_use = InUse::of(&first).unwrap();
    let less = LAGS.replace("[[cable]]\nfrom = \"l:1-2\"\nto = \"r:5-6\"\n", "");
    let kept = plan_from(&Machine::parse("l.toml", &less).unwrap(), &in_use).unwrap();
    assert_eq!(lags(&kept), wanted.clone().map(|all| all[1..].to_vec()));
    let other = LAGS.replace("from = \"l:1-2\"\nto = \"r:5-6\"", "from = \"l:12-13\"\nto = \"r:12-13\"");
    let moved = plan_from(&Machine::parse("l.toml", &other).unwrap(), &in_use).unwrap();
    let mut numbers = lags(&moved);
    numbers.iter_mut().for_each(|all| all.sort());
    assert_eq!(numbers[0], [(1, vec![12, 13]), (2, vec![5, 6]), (3, vec![9, 10])]);
    // Hosts keep their addresses, and the first free ones are for new hosts.
    let address = |plan: &Plan, host: usize| plan.hosts[host].attachments[0].address;
    assert_eq!([address(&kept, 0), address(&kept, 1)], [address(&first, 0), address(&first, 1)]);
    assert_eq!(address(&first, 0), Ipv4Addr::new(172, 16, 0, 1));
}

/// The identifiers of a plan in use need not be in order.
#[test]
fn identifiers_in_any_order_are_continued() {
    let machine = machine(RING, "", "");
    let mut in_use = plan(&machine).unwrap();
    let vids: Vec<_> = in_use.vlans.iter().map(|vlan| vlan.vid).rev().collect();
    assert!(vids.len() > 1);
    in_use.vlans.iter_mut().zip(vids).for_each(|(vlan, vid)| vlan.vid = vid);
    let after = plan_from(&machine, &InUse::of(&in_use).unwrap()).unwrap();
    let kept = |plan: &Plan| plan.vlans.iter().map(|vlan| (vlan.vid, vlan.tree.clone())).collect::<Vec<_>>();
    assert_eq!(kept(&after), kept(&in_use));
    for vlan in &after.vlans {
        assert_eq!(vlan.subnet.to_string(), format!("10.0.{}.0/24", vlan.vid));
    }
}

#[test]
fn hosts_prime_twice_within_the_shortest_aging_time() {
    let period_s = |model: &str, options: &str| planned(RING, model, options).priming.period_s;
    assert_eq!(period_s("dialect = \"comware\"", "aging_time_s = 300"), Some(150));
    // For ever, where the switches can.
    assert_eq!(period_s("dialect = \"cisco-ios\"", ""), None);
}

#[test]
fn a_plan_without_some_route_fails_its_check() {
    let machine = machine(RING, "", "");
    let network = Network::of(&machine, &[]);
    let mut plan = plan(&machine).unwrap();
    let judged = super::planner::chosen(&machine, &network, false).best;
    let check = |plan: &Plan| super::assign::routes_check(&network, plan, &judged);
    assert_eq!(check(&plan).status, Status::Holds, "{:?}", check(&plan));
    if let crate::plan::VlanChoice::BySource(choices) = &mut plan.choice {
        choices[3] = None;
    }
    let failed = check(&plan);
    assert_eq!((failed.status, failed.detail.as_str()), (Status::Fails, "there is no route from s1 to s0"));
    // A tree with a loop is none.
    assert_eq!(super::verify::tree_fault(&plan, &network, &plan.vlans[0]), None);
    plan.vlans[0].tree = (0..4).map(LinkId).collect();
    let fault = super::verify::tree_fault(&plan, &network, &plan.vlans[0]).unwrap();
    assert!(fault.contains("has a loop through the link "), "{fault}");
}

/// The only switch is gone, and with it all that there was.
#[test]
fn a_machine_without_any_switch_left_can_be_asked_for() {
    let machine = machine("kind = \"star\"\nswitches = 1", "", "");
    let left = plan_without(&machine, &[Failure::Switch(SwitchId(0))]);
    assert!(left.is_err() || left.is_ok_and(|plan| said(&plan, "reach").0 == Status::Warning));
}

#[test]
fn one_switch_whose_hosts_tag_has_one_vlan() {
    let alone = planned("kind = \"star\"\nswitches = 1", "", "tagging = \"host\"");
    assert_eq!(alone.vlans.len(), 1);
    assert!(alone.verdicts.are_good(), "{:?}", alone.verdicts.checks);
}
