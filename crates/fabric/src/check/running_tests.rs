//! Configurations as switches print them, which is not how they were entered: order, quotes, ranges and
//! defaults differ. Written after the makers' manuals and other people's published configurations
//! (`tests/running`).

use super::*;
use crate::dialect::{by_name, golden_tests::example};

/// A change of the text, and the expected message about the switch.
type Spoilt = (&'static str, &'static str, &'static str);

struct Running {
    dialect: &'static str,
    port_name: Option<&'static str>,
    kind: &'static str,
    text: &'static str,
    spoilt: &'static [Spoilt],
}

macro_rules! running {
    ($file:literal) => {
        include_str!(concat!("../../tests/running/", $file))
    };
}

#[rustfmt::skip]
const RUNNING: &[Running] = &[
    Running { dialect: "dell-os6", port_name: None, kind: "cfg", text: running!("dell-os6.cfg"), spoilt: &[
        ("switchport general pvid 101", "switchport general pvid 102", "left 1/g1: PVID is 102, planned 101"),
        ("switchport general allowed vlan remove 1\n", "", "left 1/g1: carries VLAN 1, not planned here"),
        ("general allowed vlan add 101-102\n", "general allowed vlan add 101\n", "left 1/g1: lacks VLAN 102"),
        ("general allowed vlan add 101-102\n", "general allowed vlan add 101-102 tagged\n", "left 1/g1: sends VLAN 101-102 tagged, planned untagged"),
        ("no spanning-tree\n", "", "left: spanning tree is on: it blocks"),
        ("interface ethernet 1/g8\nchannel-group 1 mode auto\n", "interface ethernet 1/g8\n", "left 1/g8: is in no LAG, planned LAG 1"),
        ("interface ethernet 1/g8\n", "interface ethernet 1/g8\nshutdown\n", "left 1/g8: is shut down"),
        ("trunk allowed vlan add 101-102", "trunk allowed vlan add 101-103", "left LAG 1: carries VLAN 103, not part of its tree here: a loop is possible"),
        ("bridge aging-time 100000\n", "bridge aging-time 300\n", "left: addresses age after 300 s, planned 100000 s"),
        ("vlan 101-102\n", "vlan 101\n", "left: has no VLAN 102"),
        ("no spanning-tree\n", "no spanning-tree\nno flowcontrol\n", "left 1/g1: pause (802.3x) is off"),
    ] },
    Running { dialect: "dell-os6", port_name: Some("Gi1/0/{port}"), kind: "txt", text: running!("dell-os6-n-series.cfg"), spoilt: &[
        ("switchport trunk allowed vlan 101-102\n", "", "left LAG 1: carries VLAN 1-100,103-4094"),
        ("interface Gi1/0/2\n", "interface Gi1/0/2\nshutdown\n", "left Gi1/0/2: is shut down"),
    ] },
    Running { dialect: "comware", port_name: None, kind: "cfg", text: running!("comware.cfg"), spoilt: &[
        (" port hybrid pvid vlan 101\n", "", "left GigabitEthernet1/0/1: PVID is none, planned 101"),
        (" undo port hybrid vlan 1\n", "", "left GigabitEthernet1/0/1: carries VLAN 1"),
        (" flow-control\n", "", "left GigabitEthernet1/0/1: pause (802.3x) is off"),
        (" undo stp global enable\n", " stp global enable\n", "left: spanning tree is on"),
        (" port trunk permit vlan 101 to 102\n", " port trunk permit vlan 101\n", "left LAG 1: lacks VLAN 102"),
        (" port link-aggregation group 1\n", "", "left GigabitEthernet1/0/7: is in no LAG, planned LAG 1"),
    ] },
    Running { dialect: "arista-eos", port_name: None, kind: "cfg", text: running!("arista-eos.cfg"), spoilt: &[
        ("spanning-tree mode none\n", "spanning-tree mode mstp\n", "left: spanning tree is on"),
        ("   flowcontrol send on\n", "", "left Ethernet1: pause (802.3x) is off"),
        ("   channel-group 1 mode active\n", "", "left Ethernet7: is in no LAG, planned LAG 1"),
        ("   switchport trunk native vlan tag\n   switchport trunk allowed vlan 101-102\n", "   switchport trunk native vlan 102\n   switchport trunk allowed vlan 101-102\n", "left LAG 1: sends VLAN 102 untagged, planned tagged"),
    ] },
    Running { dialect: "cisco-nxos", port_name: None, kind: "cfg", text: running!("cisco-nxos.cfg"), spoilt: &[
        ("no spanning-tree vlan 101-102\n", "", "left: spanning tree is on: it blocks"),
        ("no spanning-tree vlan 101-102\n", "no spanning-tree vlan 101\n", "left: spanning tree is on in VLAN 102: it blocks"),
        ("vlan 1,101-102\n", "vlan 1,102\n", "left: has no VLAN 101"),
        ("  switchport trunk allowed vlan 101-102\n", "", "left LAG 1: carries VLAN 1-100,103-4094"),
    ] },
    Running { dialect: "cisco-ios", port_name: None, kind: "conf", text: running!("cisco-ios.cfg"), spoilt: &[
        ("no spanning-tree vlan 101-102\n", "", "left: spanning tree is on: it blocks"),
        (" switchport trunk allowed vlan 101,102\n", " switchport trunk allowed vlan 101\n switchport trunk allowed vlan add 102,200\n", "left LAG 1: carries VLAN 200"),
        (" flowcontrol receive on\n", " flowcontrol receive off\n", "left GigabitEthernet1/0/1: pause (802.3x) is off"),
        (" switchport mode trunk\n", " switchport mode access\n", "left LAG 1: lacks VLAN 101-102"),
    ] },
    Running { dialect: "sonic", port_name: None, kind: "config_db.json", text: running!("sonic.config_db.json"), spoilt: &[
        ("\"Vlan102|Ethernet1\"", "\"Vlan101|Ethernet3\"", "left Ethernet1: lacks VLAN 102"),
        ("\"tagging_mode\": \"tagged\"", "\"tagging_mode\": \"untagged\"", "left Ethernet0: sends VLAN 101 untagged, planned tagged"),
        ("\"PortChannel0001|Ethernet7\"", "\"PortChannel0002|Ethernet7\"", "left Ethernet7: is in LAG 2, planned LAG 1"),
    ] },
];

fn differences(running: &Running, text: &str) -> Vec<String> {
    let plan = example(by_name(running.dialect).unwrap(), running.port_name);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(format!("left.{}", running.kind)), text).unwrap();
    let state = read(folder.path(), &plan.switches[0]).unwrap_or_else(|error| panic!("{error}")).unwrap();
    let found = compare(&plan, &BTreeMap::from([("left".to_owned(), state)]));
    found.iter().filter(|difference| difference.switch == "left").map(ToString::to_string).collect()
}

#[test]
fn what_switches_print_is_read_as_the_plan() {
    for running in RUNNING {
        assert_eq!(differences(running, running.text), Vec::<String>::new(), "{}", running.dialect);
    }
}

#[test]
fn a_change_in_what_a_switch_prints_is_named() {
    for running in RUNNING {
        for &(from, to, wanted) in running.spoilt {
            assert!(running.text.contains(from), "{}: {from:?} is not in the text", running.dialect);
            let found = differences(running, &running.text.replacen(from, to, 1));
            let is_named = found.iter().any(|difference| difference.starts_with(wanted));
            assert!(is_named, "{}: {from:?} to {to:?}: wanted {wanted:?}, found {found:?}", running.dialect);
        }
    }
}
