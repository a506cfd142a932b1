//! What a plan is filled with: subnets, numbers of LAGs, figures, and the words of its checks.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::addresses::split;
use super::networks_for_tests::described as machine;
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
    // Two VLANs in a subnet with room for one.
    let few = "vlans = \"fewest\"\nvlan_subnet = \"10.0.0.0/27\"";
    let two = planned("kind = \"mesh\"\nextents = [4, 2]", "", few);
    let found = said(&two, "addresses");
    assert!(two.vlans.len() == 2 && found.0 == Status::Fails, "{found:?}");
    assert!(found.1.contains("10.0.0.0/27 has no room for 16 interfaces on 2 VLANs"), "{found:?}");
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
    // Of the four links three are used, as in a row.
    assert!((ring.link_load_mean - (12.0 + 16.0 + 12.0) / 3.0).abs() < 1e-12, "{}", ring.link_load_mean);
    let by_pairs = planned("kind = \"mesh\"\nextents = [4]", "", "tagging = \"host\"").figures;
    assert_eq!((by_pairs.diameter_switches, by_pairs.link_load_max), (4, 16));
    assert!((by_pairs.mean_switches - (6.0 * 2.0 + 4.0 * 3.0 + 2.0 * 4.0) / 12.0).abs() < 1e-12);
    assert!((by_pairs.stretch - 1.0).abs() < 1e-12);
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

/// 255 hosts and the addresses of the subnet itself do not fit into 256.
#[test]
fn the_subnet_of_a_vlan_has_room_for_the_last_host() {
    for (host_count, prefix_bits) in [(254, 24), (255, 23)] {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 300\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nkind = \"star\"\nswitches = 1\n\
             switch_model = \"s\"\n[hosts]\nmodel = \"h\"\ncount = {host_count}\n"
        );
        let plan = plan(&Machine::parse("m.toml", &text).unwrap()).unwrap();
        assert_eq!((plan.vlans[0].subnet.prefix_bits, plan.verdicts.are_good()), (prefix_bits, true));
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

#[test]
fn one_host_without_a_route_is_found() {
    let parts = super::networks_for_tests::Parts::of(&[(0, 1), (1, 2), (0, 2)], &[1; 3]);
    let network = parts.network(&[]);
    let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
        nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 3\n\
        switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
    let mut plan = plan(&Machine::parse("m.toml", text).unwrap()).unwrap();
    assert_eq!(super::verify::unrouted(&plan, &network), None);
    if let crate::plan::VlanChoice::BySource(choices) = &mut plan.choice {
        choices[2] = None;
    }
    assert_eq!(super::verify::unrouted(&plan, &network), Some((SwitchId(2), SwitchId(0))));
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

/// Two kinds of switches, the first one alone of its kind, in a row, each with a host of its own kind.
fn mixed(first: &str, options: &str) -> Machine {
    let mut text = format!(
        "name = \"m\"\n[switch_models.first]\nports = 8\nrate_gbps = 1\n{first}\n[switch_models.other]\n\
         ports = 8\nrate_gbps = 1\npause_on_bytes = 1000000\n[host_models.jumbo]\n\
         nic = [{{ name = \"e\", rate_gbps = 1, mtu_bytes = 9000 }}]\n[host_models.h]\n\
         nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[plan]\n{options}\n"
    );
    for (at, (switch, host)) in [("first", "jumbo"), ("other", "h"), ("other", "h")].into_iter().enumerate() {
        text += &format!("[[switch]]\nname = \"s{at}\"\nmodel = \"{switch}\"\n");
        text += &format!("[[host]]\nname = \"h{at}\"\nmodel = \"{host}\"\n");
        text += &format!("[[cable]]\nfrom = \"h{at}\"\nto = \"s{at}:1\"\n");
        text += &format!("[[cable]]\nfrom = \"s{at}:7\"\nto = \"s{}:8\"\n", (at + 1) % 3);
    }
    Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_first_switch_and_host_count_like_all_others() {
    let deaf = plan(&mixed("pause = false", "")).unwrap();
    assert_eq!(said(&deaf, "pause").0, Status::Warning, "{}", said(&deaf, "pause").1);
    let low = plan(&mixed("pause_on_bytes = 100", "vlans = \"per-source\"")).unwrap();
    assert!(crate::broadcast::turns(&low).arp_cycle.is_empty());
    let (_, detail) = said(&low, "broadcasts");
    assert!(detail.contains("it can pass the pause threshold, 100 bytes, by itself"), "{detail}");
    let full = plan(&mixed("mac_table_max = 2", "routing = \"spanning-tree\"")).unwrap();
    assert!(
        said(&full, "mac table").1.contains("s0 needs 3 entries and has 2"),
        "{:?}",
        said(&full, "mac table")
    );
    assert_eq!(low.mtu_bytes, 9000);
    assert_eq!(said(&low, "mtu").0, Status::Warning);
    // One that takes no untagged VLANs of several on a port makes the hosts tag.
    let simple = plan(&mixed("dialect = \"arista-eos\"", "")).unwrap();
    assert_eq!([simple.tagging, low.tagging], [crate::plan::Tagging::Host, crate::plan::Tagging::Switch]);
}

#[test]
fn a_plan_says_what_priming_puts_on_its_links() {
    let plan = planned("kind = \"complete\"\nswitches = 5", "", "");
    let load = crate::broadcast::priming_load(&plan);
    let own = plan.priming;
    assert!(load.gap_ms > 0 && load.link_frames_max > 0);
    assert_eq!((own.gap_ms, own.link_frames_max), (load.gap_ms, load.link_frames_max));
    assert_eq!(own.at_once_frames_max, load.at_once_frames_max);
}

#[test]
fn the_sources_of_a_vlan_are_those_whose_frames_take_it() {
    for options in ["", "tagging = \"host\""] {
        let plan = planned("kind = \"ring\"\nswitches = 5", "", options);
        assert!(!plan.is_repaired);
        for (index, vlan) in plan.vlans.iter().enumerate() {
            let pairs = plan.attachments().flat_map(|from| plan.attachments().map(move |to| (from, to)));
            let using = pairs.filter(|(from, to)| {
                from.switch != to.switch && plan.choice.vlan_index(from, to) == Some(index)
            });
            let using: BTreeSet<SwitchId> = using.map(|(from, _)| from.switch).collect();
            let own: BTreeSet<SwitchId> = vlan.sources.iter().copied().collect();
            // A switch's own hosts need a VLAN, too: the first.
            assert!(using.is_subset(&own), "{options} {index}: {using:?} {own:?}");
            assert!(index == 0 || using == own, "{options} {index}: {using:?} {own:?}");
        }
    }
}

#[test]
fn remedies_against_cycles_of_broadcasts_fit_who_tags() {
    let remedy = |options: &str| {
        let plan = planned("kind = \"ring\"\nswitches = 6", "", options);
        assert!(!crate::broadcast::turns(&plan).arp_cycle.is_empty(), "{options}");
        let check = plan.verdicts.checks.iter().find(|check| check.name == "broadcasts").unwrap();
        check.remedy.clone().unwrap_or_default()
    };
    let by_switches = remedy("routing = \"minimal\"");
    assert!(by_switches.contains("another `routing`"), "{by_switches}");
    let by_hosts = remedy("routing = \"minimal\"\ntagging = \"host\"");
    assert!(by_hosts.contains("give every host its `macs`"), "{by_hosts}");
}

/// A ring of five switches or more with some links across, a host each, on shortest paths.
fn ring_with_chords(seed: u64) -> Machine {
    let mut random = ayatori_random::Random::new(seed);
    let count = 5 + random.index(4);
    let mut text = String::from(
        "name = \"r\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\n[host_models.h]\n\
         nic = [{ name = \"e\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\n\
         routing = \"minimal\"\nvlans = \"per-source\"\n[topology]\nswitch_model = \"s\"\n",
    );
    (0..count).for_each(|at| text += &format!("[[switch]]\nname = \"s{at}\"\n"));
    let mut cable = |a: usize, b: usize, ports: [usize; 2]| {
        text += &format!("[[cable]]\nfrom = \"s{a}:{}\"\nto = \"s{b}:{}\"\n", ports[0], ports[1]);
    };
    (0..count).for_each(|at| cable(at, (at + 1) % count, [7, 8]));
    for chord in 0..random.index(5) {
        let (a, b) = (random.index(count), random.index(count));
        if a != b {
            cable(a, b, [10 + chord, 20 + chord]);
        }
    }
    Machine::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn only_ways_that_need_fewer_vlans_are_proposed() {
    let proposed = |topology: &str, vlans_max: usize, options: &str| {
        let limit = format!("vlans_max = {vlans_max}");
        plan(&machine(topology, &limit, options)).unwrap_err().remedy.to_string()
    };
    // Shortest paths round a ring can deadlock; what cannot needs as many VLANs, or fewer.
    for (switch_count, routing) in [(5, "minimal"), (6, "minimal"), (8, "dimension-order")] {
        let topology = format!("kind = \"ring\"\nswitches = {switch_count}");
        let options = format!("routing = \"{routing}\"\nvlans = \"per-source\"");
        let whole = planned(&topology, "", &options);
        let safe = whole.verdicts.alternative.as_ref().expect("it can deadlock");
        let words = format!("({} VLANs)", safe.vlan_count);
        let remedy = proposed(&topology, whole.vlans.len() - 1, &options);
        assert_eq!(remedy.contains(&words), safe.vlan_count < whole.vlans.len(), "{remedy}");
        assert!(remedy.contains("`vlans = \"fewest\"`") && remedy.contains("(1 VLAN)"), "{remedy}");
    }
    // By seed: the VLANs of shortest paths, and those of up*/down*.
    for (seed, vlan_counts) in [(0, (8, 6)), (22, (8, 8)), (29, (6, 7))] {
        let mut whole = ring_with_chords(seed);
        let plan_of = |machine: &Machine| plan(machine).unwrap();
        let safe = plan_of(&whole).verdicts.alternative.expect("it can deadlock");
        assert_eq!((plan_of(&whole).vlans.len(), safe.vlan_count), vlan_counts);
        whole.switch_models[0].vlans_max = Some(vlan_counts.0 as u16 - 1);
        let remedy = plan(&whole).unwrap_err().remedy.to_string();
        let words = format!("`routing = \"up-down\"` ({} VLANs)", vlan_counts.1);
        assert_eq!(remedy.contains(&words), vlan_counts.1 < vlan_counts.0, "{remedy}");
    }
    let complete = "kind = \"complete\"\nswitches = 4";
    let remedy = proposed(complete, 3, "routing = \"minimal\"\nvlans = \"fewest\"");
    assert!(!remedy.contains("fewest") && remedy.contains("spanning-tree"), "{remedy}");
}

#[test]
fn routes_between_halves_are_as_wide_as_the_slower_direction() {
    let network = Network::of(&machine(RING, "", ""), &[]);
    let is_right = [false, false, true, true];
    let across = |there: u64, back: u64| {
        let mut flows = vec![0; 2 * network.link_count()];
        for link in 0..network.link_count() as u32 {
            let [a, b] = network.ends(link);
            if is_right[a as usize] != is_right[b as usize] {
                let (left, right) = if is_right[a as usize] { (b, a) } else { (a, b) };
                flows[network.channel(link, left).index()] = there;
                flows[network.channel(link, right).index()] = back;
            }
        }
        super::assign::routed_across(&network, &flows, &is_right)
    };
    // Two links of 1 Gbit/s each way, or none.
    assert_eq!([across(4, 2), across(2, 4)], [2_000_000_000; 2]);
    assert_eq!([across(4, 0), across(0, 4), across(0, 0)], [0; 3]);
    let one = super::networks_for_tests::Parts::of(&[(0, 1)], &[1, 1]).network(&[]);
    assert_eq!(super::assign::routed_across(&one, &[1, 1], &[false, true]), 1_000_000_000);
}

/// A port that was the first of a LAG has a host with one cable now.
#[test]
fn the_number_of_a_lag_that_is_gone_is_free() {
    let parsed = |text: &str| Machine::parse("l.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let in_use = InUse::of(&plan(&parsed(LAGS)).unwrap()).unwrap();
    let changed = LAGS
        .replace("[[cable]]\nfrom = \"x:e1\"\nto = \"l:10\"\n", "")
        .replace("from = \"l:3\"\nto = \"r:3\"", "from = \"l:3-4\"\nto = \"r:3-4\"");
    let now = lags(&plan_from(&parsed(&changed), &in_use).unwrap());
    assert_eq!(now[0], [(1, vec![1, 2]), (2, vec![5, 6]), (3, vec![3, 4])]);
    assert_eq!(now[1], [(1, vec![5, 6]), (2, vec![1, 2]), (3, vec![9, 10]), (4, vec![3, 4])]);
    // Also for a host that comes.
    let bond = "[[host]]\nname = \"z\"\nmodel = \"b\"\n[[cable]]\nfrom = \"z:e0\"\nto = \"l:12\"\n\
                [[cable]]\nfrom = \"z:e1\"\nto = \"l:13\"\n";
    let host = LAGS.replace("[[cable]]\nfrom = \"x:e1\"\nto = \"l:10\"\n", "") + bond;
    let now = lags(&plan_from(&parsed(&host), &in_use).unwrap());
    assert_eq!(now[0], [(1, vec![1, 2]), (2, vec![5, 6]), (3, vec![12, 13])]);
}

#[test]
fn the_bound_of_a_whole_plan_is_looked_for_with_care() {
    // The best of all routes: every switch's two hosts to the far side of a row.
    let row = planned("kind = \"mesh\"\nextents = [5]", "", "routing = \"spanning-tree\"").figures;
    assert_eq!((row.link_load_max, row.link_load_least), (24, 24.0));
    // Routes of which no search has made a bound before.
    let mesh = planned("kind = \"mesh\"\nextents = [3, 4]", "", "routing = \"minimal\"").figures;
    let searched = planned("kind = \"mesh\"\nextents = [3, 4]", "", "").figures;
    assert_eq!(mesh.link_load_least, searched.link_load_least);
}

#[test]
fn what_is_cut_off_is_on_no_vlan() {
    let machine = machine(RING, "", "");
    let in_use = InUse::of(&plan(&machine).unwrap()).unwrap();
    let gone = [Failure::Switch(SwitchId(1))];
    let repaired = repaired_from(&machine, &in_use, &gone, Reach::Joints).unwrap();
    for left in [plan_without(&machine, &gone).unwrap(), repaired] {
        assert!(left.is_repaired);
        for own in left.attachments() {
            let is_cut_off = own.switch == SwitchId(1);
            assert_eq!(left.choice.vlan_index(own, own).is_none(), is_cut_off, "{own:?}");
        }
        assert!(left.vlans.iter().all(|vlan| !vlan.sources.contains(&SwitchId(1))));
        assert_eq!(said(&left, "routes").0, Status::Holds, "{:?}", said(&left, "routes"));
    }
    // Nothing at all is left.
    for routing in ["auto", "minimal", "up-down", "spanning-tree"] {
        let options = format!("routing = \"{routing}\"");
        let alone = super::networks_for_tests::described("kind = \"star\"\nswitches = 1", "", &options);
        let left = plan_without(&alone, &[Failure::Switch(SwitchId(0))]);
        assert!(left.is_err() || left.is_ok_and(|plan| said(&plan, "reach").0 == Status::Warning));
    }
}

#[test]
fn as_many_vlans_are_said_to_be_needed_as_are_known_to_be() {
    let needed = |topology: &str, options: &str| planned(topology, "", options).figures.vlan_count_min;
    let of_one_host = |topology: &str, options: &str| {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\n{options}\n"
        );
        plan(&Machine::parse("m.toml", &text).unwrap()).unwrap().figures.vlan_count_min
    };
    let (complete, minimal) = ("kind = \"complete\"\nswitches = 4", "routing = \"minimal\"");
    // Each source has one shortest tree only, and each is another.
    assert_eq!([needed(complete, minimal), of_one_host(complete, minimal)], [4, 4]);
    // Of trees that leave out switches it is not looked into, so it is 1.
    let (spines, per_source) = ("kind = \"fat-tree\"\ndown = [4]\nup = [2]", "vlans = \"per-source\"");
    assert_eq!(needed(spines, per_source), 1);
    assert_eq!(needed(spines, "routing = \"minimal\"\nvlans = \"fewest\""), 1);
    // Pairs of neighbours need their link: six of them, three to a tree.
    assert_eq!(needed(complete, "tagging = \"host\""), 2);
    let whole = machine(complete, "", minimal);
    let in_use = InUse::of(&plan(&whole).unwrap()).unwrap();
    let continued = plan_from(&whole, &in_use).unwrap();
    assert!(continued.is_repaired && continued.figures.vlan_count_min == 1);
    // Without a link all three trees of a ring are one.
    for options in ["", "spanning_tree = \"mstp\""] {
        let options = format!("{minimal}\n{options}");
        let ring = machine("kind = \"ring\"\nswitches = 3", "dialect = \"comware\"", &options);
        let left = plan_without(&ring, &[Failure::Link(LinkId(0))]).unwrap();
        assert!(left.is_repaired && left.vlans.windows(2).all(|two| two[0].tree == two[1].tree), "{options}");
        assert_eq!((left.vlans.len(), left.figures.vlan_count_min), (3, 1), "{options}");
        assert!(said(&left, "vlan limit").1.contains("3;"), "{:?}", said(&left, "vlan limit"));
    }
    // Links that join the same two switches are one pair's.
    let parallel = "name = \"p\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
        nic = [{ name = \"e\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[topology]\n\
        switch_model = \"s\"\n[[switch]]\nname = \"a\"\n[[switch]]\nname = \"b\"\n[[switch]]\nname = \"c\"\n\
        [[cable]]\nfrom = \"a:11\"\nto = \"b:11\"\n[[cable]]\nfrom = \"a:12\"\nto = \"c:12\"\n\
        [[cable]]\nfrom = \"a:13\"\nto = \"b:13\"\n[plan]\ntagging = \"host\"\n";
    let parallel = plan(&Machine::parse("p.toml", parallel).unwrap()).unwrap();
    assert_eq!(parallel.figures.vlan_count_min, 1);
}

#[test]
fn cycles_of_pairs_and_past_bare_switches_are_shown_by_routes() {
    let bare = |options: &str| {
        let mut text = format!(
            "name = \"r\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[hosts]\nmodel = \"h\"\n[plan]\n{options}\n\
             [topology]\nswitch_model = \"s\"\n"
        );
        for at in 0..10 {
            text += &format!("[[switch]]\nname = \"s{at}\"\nhosts = {}\n", 1 - at % 2);
            text += &format!("[[cable]]\nfrom = \"s{at}:7\"\nto = \"s{}:8\"\n", (at + 1) % 10);
        }
        plan(&Machine::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))).unwrap()
    };
    let minimal = "routing = \"minimal\"\nvlans = \"per-source\"";
    let by_hosts = format!("{minimal}\ntagging = \"host\"");
    let ring = "kind = \"ring\"\nswitches = 6";
    for plan in [bare(minimal), bare(&by_hosts), planned(ring, "", &by_hosts)] {
        let cycle = &plan.verdicts.deadlock.cycle;
        assert!(cycle.len() >= 3, "{}: {cycle:?}", plan.method);
        assert_eq!(said(&plan, "deadlock").0, Status::Fails);
        for (index, step) in cycle.iter().enumerate() {
            let ends = [step.source, step.destination].map(|switch| {
                plan.attachments().find(|own| own.switch == switch).expect("routes go from hosts to hosts")
            });
            let route = plan.route(ends[0], ends[1]).unwrap();
            assert_eq!(route.vid, step.vid);
            let at = route.hops.iter().position(|hop| hop.link == step.link).unwrap();
            assert_eq!(route.hops[at + 1].link, cycle[(index + 1) % cycle.len()].link);
        }
    }
}
