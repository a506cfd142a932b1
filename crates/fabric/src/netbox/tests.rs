//! Machines to NetBox's tables and back, and inputs that are wrong.

use std::collections::BTreeSet;

use super::{Inventory, Names, Wanted, export, import};
use crate::description::Machine;
use crate::dialect::golden_tests::{compare, golden_folder};
use crate::plan::Plan;
use crate::vlan::plan;

const NAMES: Names<'_> = Names { site: "hall 1", manufacturer: "Some, Inc." };

fn machine(name: &str) -> Machine {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    Machine::load(&folder.join(name)).unwrap()
}

fn tables(machine: &Machine) -> Vec<(String, String)> {
    let plan = plan(machine).unwrap();
    export(machine, &plan, NAMES).into_iter().map(|file| (file.name, file.text)).collect()
}

fn wanted(name: &str) -> Wanted<'_> {
    Wanted { name, switch_roles: &[], host_roles: &[] }
}

fn imported(files: &[(String, String)]) -> Result<(String, Vec<String>), String> {
    let inventory = Inventory::parse(files).map_err(|error| error.to_string())?;
    import(&inventory, &wanted("again"))
}

/// Every cable by the names of its ends, each LAG's as one, and every host's interfaces.
fn wiring(plan: &Plan) -> BTreeSet<String> {
    let port = |switch: crate::graph::SwitchId, number: u16| {
        let switch = plan.switch(switch);
        let port = switch.ports.iter().find(|port| port.number == number).unwrap();
        format!("{} {}", switch.name, port.name)
    };
    let links = plan.links.iter().map(|link| {
        let mut ends = link.ends.each_ref().map(|end| {
            let ports: Vec<String> = end.ports.iter().map(|&number| port(end.switch, number)).collect();
            ports.join("+")
        });
        ends.sort();
        format!("{} at {}", ends.join(" - "), link.rate_bits_per_s)
    });
    let hosts = plan.hosts.iter().flat_map(|host| {
        host.attachments.iter().map(move |own| {
            let ports: Vec<String> = own.ports.iter().map(|&number| port(own.switch, number)).collect();
            let nics = own.nics.join("+");
            format!("{} {nics} mtu {} - {} {:?}", host.name, own.mtu_bytes, ports.join("+"), own.mac)
        })
    });
    links.chain(hosts).collect()
}

#[test]
fn every_machine_comes_back_from_its_tables() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let machine = Machine::load(&entry.unwrap().path()).unwrap();
        if machine.switches.is_empty() || machine.switches.len() > 16 {
            continue;
        }
        let (text, left_out) =
            imported(&tables(&machine)).unwrap_or_else(|e| panic!("{}: {e}", machine.name));
        assert_eq!(left_out, Vec::<String>::new(), "{}", machine.name);
        let again = Machine::parse("again.toml", &text).unwrap_or_else(|e| panic!("{}: {e}", machine.name));
        let [before, after] = [&machine, &again].map(|machine| wiring(&plan(machine).unwrap()));
        assert_eq!(before, after, "{}", machine.name);
        let dialects = |machine: &Machine| -> BTreeSet<String> {
            machine.graph.switches().map(|switch| machine.switch_model(switch).dialect.clone()).collect()
        };
        assert_eq!(dialects(&machine), dialects(&again), "{}", machine.name);
        count += 1;
    }
    assert!(count >= 10, "{count} machines");
}

/// The MAC addresses of a bond's NICs, and ports of two rates.
#[test]
fn a_bond_keeps_its_addresses() {
    let text = r#"
        name = "mix"
        [switch_models."sw.x"]
        ports = 6
        rate_gbps = 1
        fast_ports = { first = 5, last = 6, rate_gbps = 10 }
        [host_models.node]
        nics_as = "bond"
        nic = [{ name = "eth0", rate_gbps = 1 }, { name = "eth1", rate_gbps = 1 }]
        [topology]
        switch_model = "sw.x"
        [[switch]]
        name = "left"
        [[switch]]
        name = "right"
        [[host]]
        name = "a"
        model = "node"
        macs = ["52:54:00:00:00:01", "52:54:00:00:00:02"]
        [[cable]]
        from = "left:5-6"
        to = "right:5-6"
        [[cable]]
        from = "a:eth0"
        to = "left:1"
        [[cable]]
        from = "a:eth1"
        to = "left:2"
    "#;
    let before = Machine::parse("m.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let (text, _) = imported(&tables(&before)).unwrap();
    let after = Machine::parse("again.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(before.hosts[0].macs, after.hosts[0].macs);
    assert_eq!(before.host_models[0].nics_as, after.host_models[0].nics_as);
    assert_eq!(before.switch_models[0].fast_ports, after.switch_models[0].fast_ports);
    let [before, after] = [&before, &after].map(|machine| wiring(&plan(machine).unwrap()));
    assert_eq!(before, after);
}

/// Columns are those of the import forms of NetBox 4.6, netbox/dcim/forms/bulk_import.py and
/// netbox/ipam/forms/bulk_import.py.
#[test]
fn tables_are_in_order_and_have_no_two_addresses_alike() {
    let tables = tables(&machine("lab-rails.toml"));
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "01-sites.csv",
        "02-manufacturers.csv",
        "03-device-roles.csv",
        "04-platforms.csv",
        "05-device-types.csv",
        "06-devices.csv",
        "07-vlan-groups.csv",
        "08-vlans.csv",
        "09-prefixes.csv",
        "10-interfaces.csv",
        "11-ip-addresses.csv",
        "12-cables.csv",
    ];
    assert_eq!(names, expected);
    let text = |name: &str| &tables.iter().find(|(own, _)| own.contains(name)).unwrap().1;
    assert!(text("device-types").contains("\"Some, Inc.\",bridge,bridge,1\n"), "{}", text("device-types"));
    let addresses: Vec<&str> =
        text("ip-addresses").lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len());
    let interfaces = text("interfaces");
    // The port of a host: one untagged VLAN that NetBox can hold, the others in words.
    assert!(
        interfaces.lines().any(|line| {
            line.starts_with("s0,swp1,1000base-t,,,,1000000,,access,lab-rails,10")
                && line.contains("to node0; untagged out: 101-1")
        }),
        "{interfaces}"
    );
    // A link: all its VLANs tagged.
    let trunks = interfaces.lines().filter(|line| line.contains(",tagged,lab-rails,,")).count();
    assert_eq!(trunks, 2 * 3);
}

fn files(devices: &str, interfaces: &str, cables: &str) -> Vec<(String, String)> {
    [("devices.json", devices), ("interfaces.json", interfaces), ("cables.json", cables)]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}

/// As the API answers, without the keys that are not read.
const DEVICES: &str = r#"{"count": 3, "next": null, "results": [
    {"name": "s0", "role": {"name": "Switch"}, "device_type": {"model": "Model X"}, "platform": null},
    {"name": "a", "role": {"name": "host"}, "device_type": {"model": "Node"}, "platform": null},
    {"name": "b", "role": {"name": "host"}, "device_type": {"model": "Node"}, "platform": null}]}"#;

/// An interface with further keys.
fn port(device: &str, name: &str, kind: &str, more: &str) -> String {
    format!(r#"{{"device": {{"name": "{device}"}}, "name": "{name}", "type": {{"value": "{kind}"}}{more}}}"#)
}

fn interfaces() -> String {
    let fast = ", \"speed\": 1000000, \"mtu\": 9000";
    let mac = ", \"mac_address\": \"52:54:00:00:00:01\"";
    let all = [
        port("s0", "ge-0/0/0", "1000base-t", ", \"speed\": null, \"lag\": null"),
        port("s0", "ge-0/0/1", "1000base-t", ""),
        port("s0", "xe-0/0/2", "10gbase-x-sfpp", ""),
        port("s0", "me0", "1000base-t", ", \"mgmt_only\": true"),
        port("a", "eno1", "other", &format!("{fast}{mac}")),
        port("b", "eno1", "other", fast),
    ];
    format!("[{}]", all.join(", "))
}

fn cables() -> String {
    let end = |(device, name): (&str, &str)| {
        let object = format!(r#"{{"device": {{"name": "{device}"}}, "name": "{name}"}}"#);
        format!(r#"[{{"object_type": "dcim.interface", "object": {object}}}]"#)
    };
    let cable = |a, b| format!(r#"{{"a_terminations": {}, "b_terminations": {}}}"#, end(a), end(b));
    let all = [
        cable(("a", "eno1"), ("s0", "ge-0/0/1")),
        cable(("s0", "ge-0/0/0"), ("b", "eno1")),
        cable(("s0", "xe-0/0/2"), ("core", "x")),
    ];
    format!(r#"{{"next": null, "results": [{}]}}"#, all.join(", "))
}

#[test]
fn answers_of_the_api_become_a_machine() {
    let (text, left_out) = imported(&files(DEVICES, &interfaces(), &cables())).unwrap();
    assert_eq!(left_out, ["cable s0 xe-0/0/2 - core x: not between these devices"]);
    let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let model = &machine.switch_models[0];
    assert_eq!((model.name.as_str(), model.port_count, model.rate_bits_per_s), ("Model-X", 3, 1_000_000_000));
    assert_eq!(model.fast_ports.map(|fast| (fast.first, fast.rate_bits_per_s)), Some((3, 10_000_000_000)));
    let wiring = wiring(&plan(&machine).unwrap());
    let wiring: Vec<&str> = wiring.iter().map(String::as_str).collect();
    assert_eq!(
        wiring,
        ["a eno1 mtu 9000 - s0 ge-0/0/1 Some(52:54:00:00:00:01)", "b eno1 mtu 9000 - s0 ge-0/0/0 None"]
    );
}

#[test]
fn wrong_inventories_get_one_line() {
    let (interfaces, cables) = (&*interfaces(), &*cables());
    let without = |what: &str| {
        let mut all = files(DEVICES, interfaces, cables);
        all.retain(|(name, _)| !name.starts_with(what));
        all
    };
    let table = |name: &str, text: &str| {
        let mut all = without(name);
        all.push((format!("{name}.csv"), text.to_owned()));
        all
    };
    let paged = DEVICES.replace("\"next\": null", "\"next\": \"https://netbox/api/dcim/devices/?offset=50\"");
    let cases: [(Vec<(String, String)>, &str); 17] = [
        (Vec::new(), "no devices.json (of the REST API) and no devices.csv (of bulk import)"),
        (without("cables"), "no cables.json"),
        (files("{", interfaces, cables), "devices.json: is no JSON"),
        (
            files("{\"detail\": \"Invalid token\"}", interfaces, cables),
            "devices.json: has no list of objects",
        ),
        (files(&paged, interfaces, cables), "is one page of several: ask for all, with ?limit=0"),
        (table("devices", "name,role\na,host\n"), "devices.csv: has no column \"device_type\""),
        (table("devices", "name,role,device_type\na,host\n"), "devices.csv: is no table"),
        (table("cables", "side_a_device\na\n"), "cables.csv: has no column \"side_a_type\""),
        (
            files(&DEVICES.replace("host", "server"), interfaces, cables),
            "no device has the role of hosts; roles in use: Switch, server",
        ),
        (
            files(&DEVICES.replace("\"a\"", "\"a b\""), interfaces, cables),
            "device \"a b\": names of a machine file",
        ),
        (files(&DEVICES.replace("\"a\"", "\"b\""), interfaces, cables), "two devices are called \"b\""),
        (
            files(DEVICES, &interfaces.replace("ge-0/0/1", "ge-0/0/9"), cables),
            "a cable ends at s0 ge-0/0/1, which is no port",
        ),
        (
            files(DEVICES, interfaces, &cables.replace("ge-0/0/1", "ge-0/0/0")),
            "two cables end at s0 ge-0/0/0",
        ),
        (
            files(DEVICES, &interfaces.replace("1000000", "null"), cables),
            "a eno1: type \"other\" does not say its rate",
        ),
        (
            files(DEVICES, &interfaces.replace("1000000", "\"fast\""), cables),
            "a eno1: \"fast\" is no speed in kbit/s",
        ),
        (files(DEVICES, &interfaces.replace("52:54", "5254"), cables), "is no MAC address"),
        (
            files(DEVICES, interfaces, &cables.replacen("dcim.interface", "dcim.frontport", 1)),
            "cables.json: cable 1 does not end at an interface; patch panels are not followed",
        ),
    ];
    for (files, expected) in cases {
        let said = imported(&files).expect_err(expected);
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}\nexpected: {expected}");
    }
}

/// Bonds, a LAG, ports of two rates, and rails; and hosts that are bridges themselves.
#[test]
fn golden_tables_are_what_was_reviewed() {
    let mixed = r#"
        name = "mixed"
        [switch_models.sw]
        ports = 6
        rate_gbps = 1
        fast_ports = { first = 5, last = 6, rate_gbps = 10 }
        dialect = "linux-bridge"
        [host_models.bonded]
        nics_as = "bond"
        nic = [{ name = "eth0", rate_gbps = 1 }, { name = "eth1", rate_gbps = 1 }]
        [host_models.railed]
        nic = [{ name = "eth0", rate_gbps = 1 }, { name = "eth1", rate_gbps = 1 }]
        [topology]
        switch_model = "sw"
        [[switch]]
        name = "left"
        [[switch]]
        name = "right"
        [[host]]
        name = "a"
        model = "bonded"
        macs = ["52:54:00:00:00:01"]
        [[host]]
        name = "b"
        model = "railed"
        [[cable]]
        from = "left:5-6"
        to = "right:5-6"
        [[cable]]
        from = "a:eth0"
        to = "left:1"
        [[cable]]
        from = "a:eth1"
        to = "left:2"
        [[cable]]
        from = "b:eth0"
        to = "left:3"
        [[cable]]
        from = "b:eth1"
        to = "right:3"
    "#;
    let mixed = Machine::parse("mixed.toml", mixed).unwrap_or_else(|error| panic!("{error}"));
    for (name, machine) in [("mixed", mixed), ("three", machine("three-hosts-no-switch.toml"))] {
        let files = export(&machine, &plan(&machine).unwrap(), NAMES);
        compare(&golden_folder(&format!("netbox-{name}")), &files);
        assert!(files.iter().all(|file| !file.executable));
    }
}

/// Interfaces and cables of devices in short: `(device, name, more keys)`, `[device name, device name]`.
fn inventory(ports: &[(&str, &str, &str)], wires: &[[&str; 2]]) -> Vec<(String, String)> {
    let device = |name: &str| {
        let (role, model) = if name.starts_with('s') { ("switch", "X") } else { ("host", "N") };
        let model = if name.ends_with('y') { "Y" } else { model };
        format!(
            r#"{{"name": "{name}", "role": {{"name": "{role}"}}, "device_type": {{"model": "{model}"}}, "platform": null}}"#
        )
    };
    let names: BTreeSet<&str> = ports.iter().map(|(device, ..)| *device).collect();
    let devices: Vec<String> = names.into_iter().map(device).collect();
    let ports: Vec<String> = ports
        .iter()
        .filter(|(_, name, _)| !name.is_empty())
        .map(|(device, name, more)| {
            let kind = if name.starts_with("xe") { "10gbase-x-sfpp" } else { "1000base-t" };
            port(device, name, kind, more)
        })
        .collect();
    let end = |text: &str| {
        let (device, name) = text.split_once(' ').unwrap();
        let object = format!(r#"{{"device": {{"name": "{device}"}}, "name": "{name}"}}"#);
        format!(r#"[{{"object_type": "dcim.interface", "object": {object}}}]"#)
    };
    let wire =
        |[a, b]: &[&str; 2]| format!(r#"{{"a_terminations": {}, "b_terminations": {}}}"#, end(a), end(b));
    let wires: Vec<String> = wires.iter().map(wire).collect();
    let list = |all: Vec<String>| format!("[{}]", all.join(", "));
    files(&list(devices), &list(ports), &list(wires))
}

const LAG: &str = r#", "lag": {"name": "lag1"}"#;

/// Two switches with four ports each, two of them in a LAG, and a host.
fn two_switches() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut ports = vec![("a", "eth0", "")];
    for switch in ["s0", "s1"] {
        ports.extend([(switch, "p1", ""), (switch, "p2", LAG), (switch, "p3", LAG), (switch, "p4", "")]);
    }
    ports
}

#[test]
fn a_lag_is_one_cable_however_its_cables_are_listed() {
    for wires in [
        [["a eth0", "s0 p1"], ["s0 p2", "s1 p2"], ["s0 p3", "s1 p3"], ["s0 p4", "s1 p4"]],
        [["s0 p3", "s1 p3"], ["s1 p2", "s0 p2"], ["s1 p4", "s0 p4"], ["s0 p1", "a eth0"]],
    ] {
        let (text, _) = imported(&inventory(&two_switches(), &wires)).unwrap();
        let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut counts: Vec<u32> = machine
            .graph
            .links()
            .map(|(_, link)| link.spec.cable_count)
            .take(machine.switch_link_count())
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2], "{text}");
    }
    let said = |wires: &[[&str; 2]], change: (&str, &str, &'static str)| {
        let mut ports = two_switches();
        for port in ports.iter_mut().filter(|port| (port.0, port.1) == (change.0, change.1)) {
            port.2 = change.2;
        }
        imported(&inventory(&ports, wires)).unwrap_err()
    };
    let crossed = [["a eth0", "s0 p1"], ["s0 p2", "s1 p3"], ["s0 p3", "s1 p2"]];
    assert!(said(&crossed, ("", "", "")).contains("takes ports in a row, cabled in the same order"));
    let with_gap = [["a eth0", "s0 p1"], ["s0 p2", "s1 p2"], ["s0 p4", "s1 p4"]];
    let one_end = said(&with_gap, ("s0", "p4", LAG));
    assert!(one_end.contains("cable s0 p4 - s1 p4 is in a LAG at one end only"), "{one_end}");
    let other_end = said(&with_gap, ("s1", "p4", LAG));
    assert!(other_end.contains("in a LAG at one end only"), "{other_end}");
}

#[test]
fn models_that_differ_have_names_of_their_own() {
    let ports = [
        ("s0", "p1", ""),
        ("s0", "p2", ""),
        ("s0", "p9", ""),
        ("s1", "p1", ""),
        ("s1", "p2", ""),
        ("s1", "p9", ""),
        ("s2", "p1", ""),
        ("s2", "p2", ""),
        ("s3", "p1", ""),
        ("s3", "p2", ""),
        ("s3", "p3", ""),
        ("sy", "p1", ""),
        ("sy", "p2", ""),
        ("sy", "p9", ""),
        ("a", "eth0", LAG),
        ("b", "eth0", ""),
        ("lone", "eth0", ""),
    ];
    let wires = [
        ["a eth0", "s0 p1"],
        ["s0 p2", "s1 p1"],
        ["s1 p2", "s2 p1"],
        ["s2 p2", "s3 p1"],
        ["s3 p2", "sy p1"],
        ["sy p2", "b eth0"],
    ];
    let (text, left_out) = imported(&inventory(&ports, &wires)).unwrap();
    assert_eq!(left_out, ["lone: no cable leads to another of these devices"]);
    let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let names: Vec<&str> = machine.switch_models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["X", "X-2", "X-3", "Y"]);
    let of_switch: Vec<&str> =
        machine.graph.switches().map(|switch| machine.switch_model(switch).name.as_str()).collect();
    assert_eq!(of_switch, ["X", "X", "X-2", "X-3", "Y"]);
    // One NIC is no bond, whatever NetBox calls it a part of.
    assert!(machine.host_models.iter().all(|model| model.nics_as == crate::description::NicsAs::Rails));
    assert_eq!(machine.hosts.len(), 2);
}

#[test]
fn what_a_machine_file_cannot_say_is_refused() {
    let said =
        |ports: &[(&str, &str, &str)], wires: &[[&str; 2]]| imported(&inventory(ports, wires)).unwrap_err();
    let host = [("a", "eth0", ""), ("s0", "p1", "")];
    let wire = [["a eth0", "s0 p1"]];
    let empty = said(&[&host[..], &[("s1", "", "")]].concat(), &wire);
    assert!(empty.contains("switch s1 has no interfaces"), "{empty}");
    let rows = [("s0", "xe1", ""), ("s0", "p2", ""), ("s0", "p3", ""), ("s0", "xe2", "")];
    let mixed = said(&[&host[..], &rows].concat(), &wire);
    assert!(mixed.contains("s0: ports of other rates than the most are not one range"), "{mixed}");
    let two = [("a", "eth0", LAG), ("a", "eth1", ""), ("s0", "p1", ""), ("s0", "p2", "")];
    let half = said(&two, &[["a eth0", "s0 p1"], ["a eth1", "s0 p2"]]);
    assert!(half.contains("host a: its NICs are in a LAG with each other or in none"), "{half}");
    let unknown = inventory(&host, &wire);
    let unknown: Vec<(String, String)> =
        unknown.into_iter().map(|(name, text)| (name, text.replace("1000base-t", "virtual-ish"))).collect();
    assert!(imported(&unknown).unwrap_err().contains("does not say its rate"));
}

/// Names of the interfaces that the table says are in a LAG, and of those that are LAGs.
fn lags_of(machine: &Machine, device: &str) -> (Vec<String>, Vec<String>) {
    let files = tables(machine);
    let (_, text) = files.iter().find(|(name, _)| name.ends_with("-interfaces.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let place = |wanted: &str| columns.iter().position(|column| column == wanted).unwrap();
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let own = || lines.iter().filter(|line| &line[place("device")] == device);
    let names = |column: &str, is_so: &dyn Fn(&str) -> bool| {
        let found = own().filter(|line| is_so(&line[place(column)]));
        found.map(|line| line[place("name")].to_owned()).collect()
    };
    (names("lag", &|lag| !lag.is_empty()), names("type", &|kind| kind == super::LAG))
}

#[test]
fn only_cabled_nics_are_in_a_bond_and_one_alone_is_none() {
    let text = |cables: &str| {
        let nics = ["e0", "e1", "e2"].map(|name| format!("{{ name = \"{name}\", rate_gbps = 1 }}"));
        format!(
            "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nics_as = \"bond\"\nnic = [{}]\n[[switch]]\nname = \"s\"\nmodel = \"s\"\n\
             [[host]]\nname = \"a\"\nmodel = \"h\"\n{cables}",
            nics.join(", ")
        )
    };
    let machine = |nics: &[u32]| {
        let cable = |nic| format!("[[cable]]\nfrom = \"a:e{nic}\"\nto = \"s:{}\"\n", nic + 1);
        let cables: String = nics.iter().map(cable).collect();
        Machine::parse("m.toml", &text(&cables)).unwrap_or_else(|error| panic!("{error}"))
    };
    let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(lags_of(&machine(&[0, 2]), "a"), (names(&["e0", "e2"]), names(&["bond0"])));
    assert_eq!(lags_of(&machine(&[1]), "a"), (names(&[]), names(&[])));
}

#[test]
fn a_ports_untagged_vlans_are_listed_up_to_a_hundred_signs() {
    // `101` and `103` and so on: four signs each, less the first comma.
    let described = |vids: &[u16]| {
        let mut plan = crate::plan::two_switches_and_four_hosts();
        let untagged = vids.iter().filter_map(|&vid| crate::plan::VlanId::new(vid)).collect();
        plan.switches[0].ports[0].membership.untagged = untagged;
        let machine = machine("supernova.toml");
        let interfaces = export(&machine, &plan, NAMES);
        let table = interfaces.into_iter().find(|file| file.name.ends_with("-interfaces.csv")).unwrap().text;
        table.lines().find(|line| line.starts_with("left,1/g1,")).unwrap().to_owned()
    };
    let mut vids: Vec<u16> = (0..25).map(|step| 101 + 2 * step).collect();
    vids.push(7);
    let listed: Vec<String> =
        [7].into_iter().chain((0..25).map(|step| 101 + 2 * step)).map(|vid: u16| vid.to_string()).collect();
    assert_eq!(listed.join(",").len(), 101);
    assert!(described(&vids).contains("untagged out: all 26 of the plan"), "{}", described(&vids));
    vids.retain(|&vid| vid != 7);
    // A range of two has as many signs as both.
    vids.push(1001);
    vids.retain(|&vid| vid != 101);
    let line = described(&vids);
    assert!(line.contains("untagged out: 103,") && line.contains(",149,1001"), "{line}");
}

#[test]
fn a_cable_to_another_device_is_left_out_with_its_interfaces() {
    let ports = [("a", "eth0", ""), ("s0", "p1", ""), ("s0", "p2", ""), ("router", "x", "")];
    let files = inventory(&ports, &[["a eth0", "s0 p1"], ["s0 p2", "router x"]]);
    let role = |text: String| {
        text.replace(r#""router", "role": {"name": "host"}"#, r#""router", "role": {"name": "router"}"#)
    };
    let files: Vec<(String, String)> = files.into_iter().map(|(name, text)| (name, role(text))).collect();
    let (text, left_out) = imported(&files).unwrap();
    assert_eq!(left_out, ["cable s0 p2 - router x: not between these devices"]);
    let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!((machine.graph.switch_count(), machine.graph.link_count()), (1, 1), "{text}");
}

#[test]
fn a_fast_first_port_and_ports_of_no_known_rate_are_told() {
    let ports = [("a", "eth0", ""), ("s0", "xe0", ""), ("s0", "p2", ""), ("s0", "p3", "")];
    let (text, _) = imported(&inventory(&ports, &[["a eth0", "s0 p2"]])).unwrap();
    let machine = Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let fast = machine.switch_models[0].fast_ports.map(|fast| (fast.first, fast.last, fast.rate_bits_per_s));
    assert_eq!(fast, Some((1, 1, 10_000_000_000)));
    // A switch that is not cabled yet, with ports of which nothing is known.
    let ports = [("a", "eth0", ""), ("s0", "p1", ""), ("s1", "first", ""), ("s1", "second", "")];
    let files = inventory(&ports, &[["a eth0", "s0 p1"]]);
    let unknown = |text: &str| {
        ["first", "second"].iter().fold(text.to_owned(), |text, name| {
            let known = format!(r#""name": "{name}", "type": {{"value": "1000base-t"}}"#);
            text.replace(&known, &known.replace("1000base-t", "virtual-ish"))
        })
    };
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| (name.clone(), unknown(text))).collect();
    let error = imported(&files).unwrap_err();
    assert!(error.contains("s1 first: type \"virtual-ish\" does not say its rate"), "{error}");
}
