//! The paper's figures, and what must hold of every plan.

use super::*;
use crate::description::Machine;
use crate::graph::SwitchId;
use crate::plan::Plan;

fn text(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn variant(name: &str, sections: &str) -> Machine {
    let merged = Machine::overlay(name, &text(name), sections).unwrap();
    Machine::parse(name, &merged).unwrap_or_else(|error| panic!("{error}"))
}

/// SuperNova with another topology of the same switches and hosts.
fn supernova(topology: &str, options: &str) -> Plan {
    let sections =
        format!("[topology]\nswitch_model = \"powerconnect-6248\"\n{topology}\n[plan]\n{options}\n");
    plan(&variant("supernova.toml", &sections)).unwrap_or_else(|error| panic!("{error}"))
}

/// The first host interface at a switch.
fn at(plan: &Plan, switch: SwitchId) -> &crate::plan::Attachment {
    plan.attachments().find(|own| own.switch == switch).unwrap()
}

fn summary(plan: &Plan) -> (u32, u64, usize) {
    (plan.figures.diameter_switches, plan.figures.bisection.bits_per_s / 1_000_000_000, plan.vlans.len())
}

#[test]
fn supernova_has_the_papers_diameters_bisections_and_vlans() {
    // Table 2, for n = 1 and n = 2 links.
    for n in [1, 2] {
        let cables = format!("cables = {n}");
        let complete = supernova(&format!("kind = \"complete\"\nswitches = 8\n{cables}"), "");
        assert_eq!(summary(&complete), (2, 16 * n, 8));
        let mesh = supernova(&format!("kind = \"mesh\"\nextents = [4, 2]\n{cables}"), "");
        assert_eq!(summary(&mesh), (5, 2 * n, 4));
        let torus = supernova(&format!("kind = \"torus\"\nextents = [4, 2]\n{cables}"), "");
        assert_eq!(summary(&torus), (4, 4 * n, 4));
        let tree = supernova(&format!("kind = \"tree\"\narity = 2\nswitches = 8\n{cables}"), "");
        assert_eq!(summary(&tree), (6, n, 1));
        for plan in [complete, mesh, torus, tree] {
            assert!(plan.verdicts.are_good(), "{}: {:#?}", plan.method, plan.verdicts.checks);
            assert_eq!(plan.check_invariants(), Vec::<String>::new());
        }
    }
}

#[test]
fn misc_has_the_papers_diameters_bisections_and_vlans() {
    // Table 7.
    let tree = variant(
        "misc.toml",
        "[topology]\nswitch_model = \"powerconnect-6248\"\nkind = \"star\"\nswitches = 6\ncables = 5",
    );
    assert_eq!(summary(&plan(&tree).unwrap()), (3, 15, 1));
    let complete = plan(&variant("misc.toml", "")).unwrap();
    assert_eq!(summary(&complete), (2, 9, 6));
    assert!(complete.verdicts.are_good(), "{:#?}", complete.verdicts.checks);
}

#[test]
fn supernova_torus_is_planned_as_in_figure_2() {
    let plan = plan(&variant("supernova.toml", "")).unwrap();
    // Hosts 1 to 28 are on VLAN 101, 29 to 56 on 102; switches of a column share.
    let pvid = |host: usize| {
        let attachment = &plan.hosts[host].attachments[0];
        let port = usize::from(attachment.ports[0]) - 1;
        plan.switch(attachment.switch).ports[port].membership.pvid.unwrap().get()
    };
    assert_eq!((pvid(0), pvid(27), pvid(28), pvid(55)), (101, 101, 102, 102));
    assert_eq!((pvid(56), pvid(84)), (103, 104));
    // The second row: switch 4 is below switch 0.
    assert_eq!((pvid(112), pvid(224)), (101, 104));
    // The simple tree of the paper is that of VLAN 101.
    assert_eq!(plan.vlans[0].tree.len(), 7);
    // Every host port takes frames of all VLANs off untagged.
    let port = &plan.switches[0].ports[0].membership;
    assert_eq!((port.untagged.to_string(), port.tagged.is_empty()), ("101-104".into(), true));
    // 225 hosts on four VLANs.
    assert_eq!(plan.switches[0].mac_entries_count, 900);
}

#[test]
fn way_there_and_way_back_differ_in_the_torus() {
    let plan = plan(&variant("supernova.toml", "")).unwrap();
    let (a, b) = (SwitchId(0), SwitchId(5));
    let there = plan.route(at(&plan, a), at(&plan, b)).unwrap();
    let back = plan.route(at(&plan, b), at(&plan, a)).unwrap();
    assert_eq!((there.vid.get(), back.vid.get()), (101, 102));
    assert_eq!((there.switch_count(), back.switch_count()), (3, 3));
    // There: the column first (switch 4), then the row; back: the column first (switch 1).
    assert_eq!((there.hops[0].to, back.hops[0].to), (SwitchId(4), SwitchId(1)));
}

/// VLANs with the options given, of a bare topology with one host at each switch.
fn bare(topology: &str, options: &str) -> Plan {
    let text = format!(
        "name = \"bare\"\n[switch_models.s]\nports = 256\nrate_gbps = 1\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nswitch_model = \"s\"\n{topology}\n\
         [hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\n{options}\n"
    );
    let machine = Machine::parse("bare.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan(&machine).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn count(topology: &str, options: &str) -> (usize, bool) {
    let plan = bare(topology, options);
    (plan.vlans.len(), plan.verdicts.deadlock.is_free())
}

/// More switches than pairs are packed for one by one.
#[test]
fn pairs_of_many_switches_share_the_vlan_of_the_lower_one() {
    let options = "tagging = \"host\"\nrouting = \"dimension-order\"\nvlans = \"per-source\"";
    let plan = bare("kind = \"mesh\"\nextents = [6, 11]", options);
    assert!(plan.verdicts.are_good(), "{:?}", plan.verdicts.checks);
    let vid_of = |low: u32, high: u32| {
        let [there, back] = [(low, high), (high, low)]
            .map(|(from, to)| plan.route(at(&plan, SwitchId(from)), at(&plan, SwitchId(to))).unwrap());
        assert_eq!(there.vid, back.vid, "{low} and {high}");
        let [x, y] = [(low % 6).abs_diff(high % 6), (low / 6).abs_diff(high / 6)];
        for route in [&there, &back] {
            assert_eq!(route.switch_count() as u32, x + y + 1, "{low} and {high}");
        }
        there.vid
    };
    let mut vids = std::collections::BTreeSet::new();
    for low in 0..65 {
        let own = vid_of(low, low + 1);
        assert!((low + 2..66).all(|high| vid_of(low, high) == own), "{low}");
        vids.insert(own);
    }
    assert_eq!(vids.len(), plan.vlans.len());
}

#[test]
fn dimension_order_needs_a_vlan_per_line_of_its_first_dimension() {
    let dimension_order = |order: &str| format!("routing = \"dimension-order\"\ndimension_order = {order}");
    let cases = [
        // Long dimension first: half of the paper's four.
        ("kind = \"mesh\"\nextents = [4, 2]", "[0, 1]", 2, true),
        ("kind = \"mesh\"\nextents = [4, 2]", "[1, 0]", 4, true),
        ("kind = \"mesh\"\nextents = [4, 4]", "[0, 1]", 4, true),
        ("kind = \"mesh\"\nextents = [8, 8]", "[0, 1]", 8, true),
        // Even coordinates break ties upwards and odd ones downwards: neighbours in a ring then leave out the
        // same link and share. (Ties that all go up need 6, 12 and 56 for these three.)
        ("kind = \"torus\"\nextents = [4, 2]", "[1, 0]", 4, true),
        ("kind = \"torus\"\nextents = [4, 2]", "[0, 1]", 4, true),
        ("kind = \"torus\"\nextents = [4, 4]", "[0, 1]", 8, true),
        ("kind = \"torus\"\nextents = [8, 8]", "[0, 1]", 32, false),
        ("kind = \"hypercube\"\ndimensions = 3", "[0, 1, 2]", 4, true),
        ("kind = \"hypercube\"\ndimensions = 4", "[0, 1, 2, 3]", 8, true),
    ];
    let found = cases.map(|(topology, order, ..)| count(topology, &dimension_order(order)));
    assert_eq!(found, cases.map(|(.., vlans, is_free)| (vlans, is_free)));
}

#[test]
fn no_wrap_transit_breaks_the_cycles_of_rings_and_tori() {
    let options = "routing = \"no-wrap-transit\"";
    for (switches, vlans) in [(5, 3), (6, 3), (8, 3)] {
        let plan = bare(&format!("kind = \"ring\"\nswitches = {switches}"), options);
        assert!(plan.verdicts.deadlock.is_free());
        assert_eq!(plan.vlans.len(), vlans, "ring of {switches}");
        assert!((1.0..=1.14).contains(&plan.figures.stretch), "{}", plan.figures.stretch);
    }
    let torus = bare("kind = \"torus\"\nextents = [8, 8]", options);
    assert_eq!((torus.vlans.len(), torus.verdicts.deadlock.is_free()), (24, true));
    assert!((torus.figures.stretch - 1.125).abs() < 1e-9, "{}", torus.figures.stretch);
}

#[test]
fn minimal_rings_of_five_or_more_can_deadlock_with_advice() {
    for switches in [5, 6, 8] {
        let topology = format!("kind = \"ring\"\nswitches = {switches}");
        let plan = bare(&topology, "routing = \"minimal\"");
        let cycle = &plan.verdicts.deadlock.cycle;
        assert!(cycle.len() >= 3, "{cycle:?}");
        for (index, step) in cycle.iter().enumerate() {
            let next = &cycle[(index + 1) % cycle.len()];
            // Each step's route holds its channel and then takes the next.
            assert_eq!(step.to, next.from);
            let route = plan.route_on(step.vid, step.source, step.destination).unwrap();
            let at = route.hops.iter().position(|hop| hop.link == step.link).unwrap();
            assert_eq!(route.hops[at + 1].link, next.link);
        }
        let alternative = plan.verdicts.alternative.as_ref().unwrap();
        let safe = bare(&topology, &alternative.settings.join("\n"));
        assert!(safe.verdicts.deadlock.is_free(), "{:?}", alternative.settings);
        assert_eq!(safe.vlans.len(), alternative.vlan_count);
        // Left to itself, the planner takes the way out.
        assert!(bare(&topology, "").verdicts.are_good());
        // Without pause there is nothing to wait for.
        assert!(bare(&topology, "routing = \"minimal\"\npause = false").verdicts.are_good());
    }
}

#[test]
fn fewest_finds_the_fewest() {
    let fewest = |topology: &str| {
        let plan = bare(topology, "routing = \"minimal\"\nvlans = \"fewest\"\npause = false");
        assert!((plan.figures.stretch - 1.0).abs() < 1e-9);
        (plan.vlans.len(), plan.figures.vlan_count_min)
    };
    assert_eq!(fewest("kind = \"complete\"\nswitches = 6"), (6, 6));
    assert_eq!(fewest("kind = \"complete\"\nswitches = 8"), (8, 8));
    assert_eq!(fewest("kind = \"mesh\"\nextents = [4, 2]"), (2, 2));
    assert_eq!(fewest("kind = \"mesh\"\nextents = [4, 4]"), (4, 4));
    assert_eq!(fewest("kind = \"torus\"\nextents = [4, 2]"), (4, 4));
    assert_eq!(fewest("kind = \"tree\"\narity = 3\nswitches = 16"), (1, 1));
    assert_eq!(fewest("kind = \"ring\"\nswitches = 5"), (5, 5));
    assert_eq!(fewest("kind = \"hypercube\"\ndimensions = 3"), (4, 4));
}

#[test]
fn host_tagged_plans_need_fewer_vlans_and_are_symmetric() {
    for (topology, vlans_max) in [
        ("kind = \"complete\"\nswitches = 4", 3),
        ("kind = \"complete\"\nswitches = 8", 6),
        ("kind = \"mesh\"\nextents = [4, 2]", 4),
        ("kind = \"torus\"\nextents = [4, 2]", 5),
    ] {
        let plan = bare(topology, "tagging = \"host\"");
        assert!(plan.vlans.len() <= vlans_max, "{topology}: {}", plan.vlans.len());
        assert!(plan.verdicts.are_good(), "{topology}: {:?}", plan.verdicts.checks);
        let last = SwitchId(plan.switches.len() as u32 - 1);
        let there = plan.route(at(&plan, SwitchId(0)), at(&plan, last)).unwrap();
        let back = plan.route(at(&plan, last), at(&plan, SwitchId(0))).unwrap();
        assert_eq!(there.vid, back.vid);
        let there: Vec<_> = there.hops.iter().map(|hop| hop.link).collect();
        let back: Vec<_> = back.hops.iter().rev().map(|hop| hop.link).collect();
        assert_eq!(there, back);
        let port = &plan.switches[0].ports[0].membership;
        assert_eq!((port.pvid, port.untagged.is_empty(), port.tagged.len()), (None, true, plan.vlans.len()));
    }
}

#[test]
fn fat_tree_sources_share_by_the_switch_they_climb_through() {
    let topology = "kind = \"fat-tree\"\ndown = [8]\nup = [4]";
    let plan = bare(topology, "vlans = \"per-source\"");
    assert_eq!(plan.vlans.len(), 4);
    assert_eq!((plan.figures.diameter_switches, plan.verdicts.are_good()), (3, true));
    // A leaf with one host sends 7 flows over one of four uplinks; balanced, two at most over each.
    assert_eq!((plan.figures.link_load_max, plan.figures.link_load_least), (7, 2.0));
    let balanced = bare(topology, "");
    assert_eq!((balanced.figures.link_load_max, balanced.figures.idle_link_count), (2, 0));
    assert!(balanced.verdicts.are_good());
}

#[test]
fn too_many_vlans_for_the_switch_are_an_error_at_its_line() {
    let machine = variant(
        "supernova.toml",
        "[switch_models.powerconnect-6248]\nports = 48\nrate_gbps = 1\nvlans_max = 3\ndialect = \"dell-os6\"",
    );
    let error = plan(&machine).unwrap_err();
    assert_eq!(
        (&*error.key, &*error.excerpt),
        ("switch_models.powerconnect-6248.vlans_max", "vlans_max = 3")
    );
    assert!(error.problem.contains("puts 4 VLANs on s0.0"), "{error}");
    assert!(error.remedy.contains("spanning-tree"), "{error}");
    let far = variant("supernova.toml", "[plan]\nfirst_vlan = 4093");
    let error = plan(&far).unwrap_err();
    assert_eq!((&*error.key, error.problem.contains("beyond 4094")), ("plan.first_vlan", true), "{error}");
}

#[test]
fn a_mac_table_too_small_fails_the_check() {
    let machine = variant(
        "supernova.toml",
        "[switch_models.powerconnect-6248]\nports = 48\nrate_gbps = 1\nmac_table_max = 899\ndialect = \"dell-os6\"",
    );
    let plan = plan(&machine).unwrap();
    let check = plan.verdicts.checks.iter().find(|check| check.name == "mac table").unwrap();
    assert_eq!(check.status, crate::plan::Status::Fails);
    assert!(check.detail.contains("needs 900 entries and has 899"), "{}", check.detail);
}

#[test]
fn every_single_failure_of_supernova_is_survived() {
    let machine = variant("supernova.toml", "");
    let whole = plan(&machine).unwrap();
    let which = single_failures(&machine);
    assert_eq!(which.len(), 12 + 8);
    for degraded in failures(&machine, &whole, &which).unwrap() {
        assert!(degraded.is_deadlock_free, "{degraded:?}");
        let is_switch = degraded.failure.starts_with("switch");
        assert_eq!(degraded.hosts_lost_count > 0, is_switch, "{degraded:?}");
        assert!(is_switch || degraded.load_ratio >= 1.0, "{degraded:?}");
        // Repaired, not made anew: the VLANs stay.
        assert!(is_switch || degraded.vlan_count == 4, "{degraded:?}");
    }
}

#[test]
fn a_failed_link_is_in_no_tree_and_carries_no_vlan() {
    let machine = variant("supernova.toml", "");
    let link = crate::graph::LinkId(0);
    let plan = plan_without(&machine, &[Failure::Link(link)]).unwrap();
    assert!(plan.vlans.iter().all(|vlan| !vlan.tree.contains(&link)));
    let end = &plan.links[0].ends[0];
    let port = &plan.switch(end.switch).ports[usize::from(end.ports[0]) - 1];
    assert!(port.membership.tagged.is_empty());
    assert!(plan.verdicts.are_good(), "{:?}", plan.verdicts.checks);
}

#[test]
fn three_hosts_without_a_switch_are_a_ring_of_bridges() {
    let text = "name = \"three\"\n[host_models.h]\n\
        nic = [{ name = \"eth0\", rate_gbps = 10 }, { name = \"eth1\", rate_gbps = 10 }]\n\
        [[host]]\nname = \"a\"\nmodel = \"h\"\n[[host]]\nname = \"b\"\nmodel = \"h\"\n[[host]]\nname = \"c\"\nmodel = \"h\"\n\
        [[cable]]\nfrom = \"a:eth0\"\nto = \"b:eth1\"\n[[cable]]\nfrom = \"b:eth0\"\nto = \"c:eth1\"\n\
        [[cable]]\nfrom = \"c:eth0\"\nto = \"a:eth1\"\n";
    let plan = plan(&Machine::parse("three.toml", text).unwrap()).unwrap();
    assert_eq!((plan.vlans.len(), plan.figures.diameter_switches), (3, 2));
    assert!(plan.verdicts.are_good(), "{:?}", plan.verdicts.checks);
    assert_eq!(plan.hosts[0].attachments[0].interface, "br0");
    assert_eq!(plan.switches[0].inside_host, Some(crate::graph::HostId(0)));
}

#[test]
fn more_switches_than_the_planner_takes_are_refused() {
    let text = "name = \"big\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\n[host_models.h]\n\
                nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 4097\n\
                switch_model = \"s\"\n[hosts]\nmodel = \"h\"\ncount = 2\n";
    let refusal = |text: &str| Machine::parse("big.toml", text).map(drop).unwrap_err().to_string();
    let error = refusal(text);
    assert!(
        error.starts_with("big.toml:8: topology.kind: 4097 switches, and the planner takes 4096"),
        "{error}"
    );
    // Nothing is built before it is refused: a million switches would take a minute.
    let torus = text.replace("ring\"\nswitches = 4097", "torus\"\nextents = [1000, 1000]");
    assert!(refusal(&torus).contains("1000000 switches, and the planner takes 4096"));
    let most = text.replace("switches = 4097", "switches = 4096");
    assert_eq!(Machine::parse("big.toml", &most).unwrap().switches.len(), 4096);
    // A description has a million switches at most, 1,048,576 among them.
    let most = torus.replace("[1000, 1000]", "[1024, 1024]");
    assert!(refusal(&most).contains("1048576 switches, and the planner takes 4096"));
    assert!(refusal(&torus.replace("[1000, 1000]", "[1024, 1025]")).contains("describe at most 1048576"));
    let as_many =
        text.replace("switches = 4097", "switches = 4096") + "[plan]\nrouting = \"spanning-tree\"\n";
    assert_eq!(plan(&Machine::parse("big.toml", &as_many).unwrap()).unwrap().vlans.len(), 1);
    let listed: String =
        (0..4097).map(|at| format!("[[switch]]\nname = \"s{at}\"\nmodel = \"s\"\n")).collect();
    let cables: String =
        (1..4097).map(|at| format!("[[cable]]\nfrom = \"s{}:3\"\nto = \"s{at}:4\"\n", at - 1)).collect();
    let topology = "[topology]\nkind = \"ring\"\nswitches = 4097\nswitch_model = \"s\"\n";
    let machine = Machine::parse("big.toml", &(text.replace(topology, "") + &listed + &cables)).unwrap();
    let error = plan(&machine).map(drop).unwrap_err().to_string();
    assert!(error.contains("switch: 4097 switches, and the planner takes 4096"), "{error}");
}
