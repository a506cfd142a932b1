//! How single lines and files are read, where no dialect writes them so.

use super::*;
use crate::description::Machine;
use crate::dialect::{by_name, golden_tests::example};
use crate::graph::{LinkId, SwitchId};
use crate::plan::MacAddr;

fn port(name: &str) -> InterfaceName {
    InterfaceName::Port(name.into())
}

/// The PVID, untagged and tagged VLANs of a port.
fn membership(observed: &Observed, name: &str) -> String {
    let Membership { pvid, untagged, tagged } = &observed.interfaces[&port(name)].membership;
    format!("{} | {untagged} | {tagged}", pvid.map_or(0, VlanId::get))
}

fn ios(text: &str) -> Observed {
    ios_like::read(text, None).unwrap()
}

#[test]
fn a_section_ends_with_what_ends_it_and_not_before() {
    let text = "interface Ethernet1\n   switchport mode trunk\n   !\n\
        \x20  switchport trunk allowed vlan 7\n   exit\n\
        shutdown\n   !\nshutdown\ninterface vlan 9\n   shutdown\ninterface Ethernet2\n   shutdown\n!\n\
        no shutdown\n";
    let observed = ios(text);
    assert_eq!(observed.interfaces.keys().cloned().collect::<Vec<_>>(), ["Ethernet1", "Ethernet2"].map(port));
    assert_eq!(membership(&observed, "Ethernet1"), "0 |  | 7");
    assert!(
        !observed.interfaces[&port("Ethernet1")].is_shut && observed.interfaces[&port("Ethernet2")].is_shut
    );
    // An interface of OS10 that is a VLAN takes its lines itself, also where no `!` stands before it.
    let os10 = os10::read("interface ethernet1/1/1\n shutdown\ninterface vlan101\n no shutdown\n").unwrap();
    assert!(os10.interfaces[&port("ethernet1/1/1")].is_shut);
    // VLANs before the first interface.
    let comware =
        comware::read("vlan 101 to 102\ninterface G1\n port link-type trunk\n port trunk permit vlan all\n");
    let comware = comware.unwrap();
    assert_eq!(comware.vlans.as_ref().map(VlanSet::to_string).as_deref(), Some("101-102"));
    assert_eq!(membership(&comware, "G1"), "1 | 1 | 2-4094");
}

#[test]
fn the_last_word_about_a_setting_counts() {
    let text = "interface E1\n flowcontrol send on\n no flowcontrol receive\n flowcontrol receive on\n!\n\
        interface E2\n flowcontrol receive on\n no flowcontrol send\n flowcontrol send on\n!\n\
        interface E3\n switchport mode general\n switchport general allowed vlan add 101-102\n \
        switchport general allowed vlan add 102 tagged\n switchport general pvid 101\n \
        switchport general allowed vlan remove 1\n!\n\
        interface E4\n switchport mode general\n switchport general allowed vlan add 101-103 tagged\n \
        switchport general allowed vlan remove 1,103\n switchport general pvid 101\n \
        switchport general acceptable-frame-type tagged-only\n!\nvlan dot1q tag native\n\
        interface E5\n switchport mode trunk\n switchport trunk allowed vlan 7\n\
        \x20switchport trunk native vlan 7\n!\n";
    let observed = ios(text);
    let pause = |name: &str| observed.interfaces[&port(name)].pause;
    assert_eq!(["E1", "E2", "E3"].map(pause), [Some(true), Some(true), None]);
    assert_eq!(membership(&observed, "E3"), "101 | 101 | 102");
    assert_eq!(membership(&observed, "E4"), "0 |  | 101-102");
    assert_eq!(membership(&observed, "E5"), "0 |  | 7");

    let left = &example(by_name("aruba-os-s").unwrap(), None).switches[0];
    let text = "interface 1\n   disable\n   enable\n   exit\nvlan 1\n   no untagged 1,2\n   exit\n\
        vlan 101\n   untagged 1,2\n   tagged 1\n   exit\n";
    let observed = aruba_os_s::read(text, left).unwrap();
    assert_eq!(["1", "2"].map(|name| membership(&observed, name)), ["0 |  | 101", "101 | 101 | "]);
    assert!(!observed.interfaces[&port("1")].is_shut);
}

/// `/export` prints the menu on a line of its own, blanks in brackets, and texts in quotes.
#[test]
fn what_routeros_exports_is_read() {
    let text = "# by RouterOS 7.16\n/interface bridge\n\
        add name=ayatori protocol-mode=none vlan-filtering=yes\n\
        /interface ethernet\n\
        set [ find default-name=ether1 disabled=yes ] rx-flow-control=on tx-flow-control=on\n\
        set [ find default-name=ether2 ] name=uplink disabled=yes\n\
        /interface bridge port\n\
        add bridge=ayatori comment=\"add: x interface=ether9 y\" interface=ether1 \\\n    pvid=7\n\
        /interface bridge vlan\nadd bridge=ayatori tagged=ether1 vlan-ids=8-9\n";
    let observed = routeros::read(text).unwrap();
    assert_eq!(observed.faults, Vec::<String>::new());
    assert_eq!(membership(&observed, "ether1"), "7 | 7 | 8-9");
    let found = |name: &str| &observed.interfaces[&port(name)];
    assert_eq!((found("ether1").pause, found("ether1").is_shut), (Some(true), false));
    assert!(found("uplink").is_shut && !observed.interfaces.contains_key(&port("ether9")));
}

#[test]
fn interfaces_of_a_linux_bridge_have_the_plans_names() {
    let plan = example(by_name("dell-os6").unwrap(), None);
    let left = &plan.switches[0];
    let name = |interface: &str| bridge_json::port_name(interface, left);
    // In the lab a switch's ports are `swp` and their number.
    assert_eq!([name("1/g2"), name("swp2"), name("swp3")], ["1/g2", "1/g2", "1/g3"].map(port));
    assert_eq!(
        [name("bond2"), name("br0"), name("eth7")],
        [InterfaceName::Lag(2), InterfaceName::Own, port("eth7")]
    );
    let mut named = left.clone();
    named.ports[0].name = "bond7".into();
    named.ports[1].name = "br2".into();
    assert_eq!(
        ["bond7", "br2"].map(|known| bridge_json::port_name(known, &named)),
        ["bond7", "br2"].map(port)
    );

    assert!(bridge_json::never_ages(u32::MAX / 100) && !bridge_json::never_ages(u32::MAX / 100 - 1));
    let up = |name: &str, more: &str| format!(r#"{{"ifname":"{name}","flags":["UP"]{more}}}"#);
    let bridge =
        |time: u64| format!(r#","linkinfo":{{"info_kind":"bridge","info_data":{{"ageing_time":{time}}}}}"#);
    let links = [
        up("br0", &bridge(u64::from(u32::MAX))),
        up("br9", &bridge(100)),
        up("eth7", ""),
        up("1/g1", r#","master":"br0""#),
        up("bond1", r#","master":"br0""#),
    ];
    let observed = bridge_json::links(&format!("[{}]", links.join(",")), left).unwrap();
    assert_eq!(
        observed.interfaces.keys().cloned().collect::<Vec<_>>(),
        [port("1/g1"), InterfaceName::Lag(1)]
    );
    assert_eq!(observed.aging_time_s, Some(0), "the other bridge is not of the plan");
}

#[test]
fn learned_addresses_are_those_of_others_in_their_order() {
    let plan = example(by_name("linux-bridge").unwrap(), None);
    let entry = |mac: &str, vlan: u16, state: &str| {
        format!(r#"{{"mac":"{mac}","ifname":"swp1","vlan":{vlan},"master":"br0","state":"{state}"}}"#)
    };
    let (near, far) = ("02:00:00:00:00:00", "02:00:00:00:00:01");
    let text =
        [entry(far, 102, ""), entry("02:00:00:00:00:99", 101, "permanent"), entry(near, 101, "")].join(",");
    let table = bridge_json::table(&format!("[{text}]"), &plan.switches[0]).unwrap();
    let found: Vec<(u16, MacAddr)> = table.iter().map(|entry| (entry.vlan.get(), entry.mac)).collect();
    assert_eq!(found, [(101, MacAddr::parse(near).unwrap()), (102, MacAddr::parse(far).unwrap())]);
}

#[test]
fn the_first_of_networkds_files_for_an_interface_counts() {
    let dialect = by_name("systemd-networkd").unwrap();
    let plan = example(dialect, None);
    let left = &plan.switches[0];
    let said = |name: &str, text: &str| -> Result<Vec<String>, ReadError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("left")).unwrap();
        for file in dialect.emit(&plan, SwitchId(0)).unwrap().files {
            std::fs::write(folder.path().join(file.name), file.text).unwrap();
        }
        std::fs::write(folder.path().join("left").join(name), text).unwrap();
        let states = BTreeMap::from([("left".to_owned(), read(folder.path(), left)?.unwrap())]);
        let all = compare(&plan, &states);
        Ok(all.iter().filter(|found| found.switch == "left").map(ToString::to_string).collect())
    };
    let stray = "[Match]\nName=swp1\n[Network]\nBridge=br0\n[BridgeVLAN]\nPVID=7\nVLAN=7\nEgressUntagged=7\n";
    assert_eq!(said("90-old.network", stray).unwrap(), Vec::<String>::new());
    let found = said("05-old.network", stray).unwrap();
    assert!(found.iter().any(|line| line.starts_with("left swp1: lacks VLAN 101-102")), "{found:?}");
    let flow = "[Match]\nOriginalName=swp1\n[Link]\nRxFlowControl=no\nTxFlowControl=no\n";
    assert_eq!(said("90-old.link", flow).unwrap(), Vec::<String>::new());
    assert_eq!(said("90-old.link.bak", flow).unwrap(), Vec::<String>::new());
    let found = said("05-old.link", flow).unwrap();
    assert_eq!(found, ["left swp1: pause (802.3x) is off: full buffers drop frames"]);
    let wrong = said("50-x.network", "[Match]\nName=swp3\n[BridgeVLAN]\nVLAN=5000\n");
    assert_eq!(wrong.unwrap(), Vec::<String>::new(), "what networkd does not read is not judged");
    let wrong =
        said("05-x.network", "[Match]\nName=swp3\n[BridgeVLAN]\nVLAN=5000\n").unwrap_err().to_string();
    assert!(wrong.contains("05-x.network") && wrong.contains("\"5000\" is no VLAN"), "{wrong}");
}

#[test]
fn of_several_files_of_a_switch_the_first_kind_counts() {
    let plan = example(by_name("cisco-ios").unwrap(), None);
    let left = &plan.switches[0];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    assert_eq!(read(folder.path(), left).unwrap(), None);
    write("left.txt", "interface Gi1/0/2\n shutdown\n");
    write("left.cfg", "interface Gi1/0/1\n shutdown\n");
    let state = read(folder.path(), left).unwrap().unwrap();
    assert_eq!(state.interfaces.keys().cloned().collect::<Vec<_>>(), [port("Gi1/0/1")]);
    let row = |port: &str| format!("Local Intf  Device ID  Port ID\n{port:12}{:11}{port}\n", "right");
    write("left.lldp.txt", &row("Gi1/0/7"));
    assert!(read_neighbours(folder.path(), left).unwrap().unwrap().port("Gi1/0/7").is_some());
    write("left.lldp.json", r#"{"lldp": {}}"#);
    assert_eq!(read_neighbours(folder.path(), left).unwrap(), Some(Shown::default()));
    // A line of other text that has such words, and letters of more than one byte.
    let text = format!("für Local Intf, Device ID, Port ID\n{}", row("Gi1/0/7"));
    let shown = Shown::parse(&text).unwrap();
    assert_eq!(shown.ports.keys().collect::<Vec<_>>(), ["Gi1/0/7"]);
    // Sparse: it takes no space.
    let large = std::fs::File::create(folder.path().join("left.cfg")).unwrap();
    large.set_len((256 << 20) + 1).unwrap();
    let error = read(folder.path(), left).unwrap_err().to_string();
    assert!(error.contains("left.cfg") && error.contains("more than 268435456"), "{error}");
}

/// The state of a switch of which only the table was collected says nothing of its VLANs; with both, both
/// are compared.
#[test]
fn settings_are_compared_where_they_were_collected() {
    let plan = example(by_name("linux-bridge").unwrap(), None);
    let left = &plan.switches[0];
    let folder = tempfile::tempdir().unwrap();
    let words = |state: Observed| {
        let all = compare(&plan, &BTreeMap::from([("left".to_owned(), state)]));
        let of_left = all.iter().filter(|found| found.switch == "left");
        of_left.map(ToString::to_string).collect::<Vec<_>>()
    };
    std::fs::write(folder.path().join("left.fdb.json"), "[]").unwrap();
    let found = words(read(folder.path(), left).unwrap().unwrap());
    assert!(found.len() == 1 && found[0].contains("does not know 4 of 4 addresses"), "{found:?}");
    std::fs::write(folder.path().join("left.vlan.json"), "[]").unwrap();
    let vlans = words(bridge_json::vlans("[]", left).unwrap());
    assert!(vlans.contains(&"left LAG 1: lacks VLAN 101-102: frames on it end here".to_owned()), "{vlans:?}");
    let mut state = read(folder.path(), left).unwrap().unwrap();
    assert_eq!(state.table, Some(Vec::new()));
    state.interfaces.insert(port("swp1"), ObservedInterface::default());
    let both = words(state);
    assert!(both.iter().any(|line| line.starts_with("left swp1: lacks VLAN")), "{both:?}");
    assert!(both.iter().any(|line| line.contains("does not know 4 of 4")), "{both:?}");
}

#[test]
fn a_stray_pvid_is_named_once_and_the_bridge_itself_never() {
    let plan = example(by_name("linux-bridge").unwrap(), None);
    let said = |name: InterfaceName, found: Membership| {
        let interface = ObservedInterface { membership: found, ..Default::default() };
        let state =
            Observed { interfaces: BTreeMap::from([(name.clone(), interface)]), ..Default::default() };
        let all = compare(&plan, &BTreeMap::from([("left".to_owned(), state)]));
        let own = all.iter().filter(|found| found.port.as_deref() == Some(name.to_string().as_str()));
        own.map(|found| found.what.split(':').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let set = |vids: &[u16]| -> VlanSet { vids.iter().filter_map(|&vid| VlanId::new(vid)).collect() };
    let lag = |pvid: Option<u16>, untagged: &[u16], tagged: &[u16]| {
        let pvid = pvid.and_then(VlanId::new);
        said(InterfaceName::Lag(1), Membership { pvid, untagged: set(untagged), tagged: set(tagged) })
    };
    assert_eq!(lag(None, &[], &[101, 102]), Vec::<String>::new());
    assert_eq!(lag(Some(7), &[7], &[101, 102]), ["carries VLAN 7, not part of its tree here"]);
    assert_eq!(lag(Some(101), &[], &[101, 102]), ["PVID is 101, planned none"]);
    let host = Membership { pvid: VlanId::new(7), untagged: set(&[7, 101, 102]), tagged: set(&[]) };
    assert_eq!(said(port("swp1"), host), ["carries VLAN 7, not planned here", "PVID is 7, planned 101"]);
    let own = Membership { pvid: None, untagged: set(&[]), tagged: set(&[101]) };
    assert_eq!(said(InterfaceName::Own, own.clone()), Vec::<String>::new());
    assert_eq!(said(InterfaceName::Lag(2), own), ["carries VLAN 101 and is not in the plan"]);
}

/// Three switches in a row, where the middle one passes on: each has to know each host behind the port that
/// the row leads by.
#[test]
fn hosts_behind_other_switches_are_looked_for_along_the_tree() {
    let machine = Machine::parse(
        "row.toml",
        "name = \"row\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\ndialect = \"linux-bridge\"\n\
         [host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"mesh\"\n\
         extents = [3]\n\
         switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n",
    );
    let mut plan = crate::vlan::plan(&machine.unwrap()).unwrap();
    assert!(plan.links.iter().all(|link| link.ends.iter().all(|end| end.lag.is_none())));
    let mac = |host: usize| MacAddr([2, 0, 0, 0, 0, host as u8]);
    for (index, host) in plan.hosts.iter_mut().enumerate() {
        host.attachments[0].mac = Some(mac(index));
    }
    // The port of a switch that leads to another one.
    let towards = |plan: &Plan, from: usize, to: usize| {
        let next = if to > from { from + 1 } else { from - 1 };
        let joins = |link: &&crate::plan::LinkPlan| {
            [from, next].iter().all(|&at| link.ends.iter().any(|end| end.switch.index() == at))
        };
        let link = plan.links.iter().find(joins).unwrap();
        let end = link.ends.iter().find(|end| end.switch.index() == from).unwrap();
        let ports = &plan.switches[from].ports;
        ports.iter().find(|known| known.number == end.ports[0]).unwrap().name.clone()
    };
    let home = |plan: &Plan, host: usize| plan.hosts[host].attachments[0].switch.index();
    let mut states = BTreeMap::new();
    for switch in &plan.switches {
        let at = switch.id.index();
        let entries =
            plan.vlans.iter().flat_map(|vlan| (0..plan.hosts.len()).map(move |host| (vlan.vid, host)));
        let entry = |(vlan, host): (VlanId, usize)| {
            let own = &plan.hosts[host].attachments[0];
            let own_port =
                || switch.ports.iter().find(|known| known.number == own.ports[0]).unwrap().name.clone();
            let name =
                if home(&plan, host) == at { own_port() } else { towards(&plan, at, home(&plan, host)) };
            TableEntry { vlan, mac: mac(host), interface: port(&name) }
        };
        let state = Observed { table: Some(entries.map(entry).collect()), ..Observed::default() };
        states.insert(switch.name.clone(), state);
    }
    let words = |states: &BTreeMap<String, Observed>| -> Vec<String> {
        compare(&plan, states).iter().map(ToString::to_string).collect()
    };
    assert_eq!(words(&states), Vec::<String>::new());
    // Everything a switch has learned of hosts elsewhere, at the port of its own host instead.
    for (at, switch) in plan.switches.iter().enumerate() {
        let own_port = towards(&plan, at, if at == 0 { 2 } else { 0 });
        let far = (0..plan.hosts.len()).filter(|&host| home(&plan, host) != at);
        for host in far {
            let mut changed = states.clone();
            let table = changed.get_mut(&switch.name).unwrap().table.as_mut().unwrap();
            let entry = table.iter_mut().find(|entry| entry.mac == mac(host)).unwrap();
            let right = entry.interface.to_string();
            let wrong = if right == own_port { "elsewhere".to_owned() } else { own_port.clone() };
            entry.interface = port(&wrong);
            let found = words(&changed);
            let planned = format!("at {wrong}, planned {right}: frames take another route");
            assert!(found.len() == 1 && found[0].contains(&planned), "{found:?}");
        }
    }
    assert!(plan.links.iter().any(|link| link.id == LinkId(1)));
}

#[test]
fn edgeswitchs_ports_are_in_vlan_1_unless_taken_out() {
    let text = "interface 0/1\nexit\ninterface 0/2\nvlan participation exclude 1\n\
                vlan participation include 7\nvlan pvid 7\nexit\n";
    let observed = edgeswitch::read(text).unwrap();
    assert_eq!(membership(&observed, "0/1"), "1 | 1 | ");
    assert_eq!(membership(&observed, "0/2"), "7 | 7 | ");
}

#[test]
fn a_name_is_a_regions_only_in_its_section() {
    assert!(mstp::read("name rack-7\n").is_none());
    let text = "name rack-7\nspanning-tree mst configuration\n name lab\n revision 1\n";
    assert_eq!(mstp::read(text).unwrap().region.as_deref(), Some("lab"));
}
