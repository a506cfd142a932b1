//! What is taken out of a configuration that a dialect wrote, or changed in it, is named: so nothing that a
//! plan needs is thought to be there because the switch says nothing of it.

use super::*;
use crate::dialect::{
    by_name,
    golden_tests::{example, mstp_example},
};
use crate::graph::SwitchId;

/// A dialect; a part of what it writes for `left`, by what that is replaced, and how the difference begins.
type Spoilt = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const SPOILT: &[Spoilt] = &[
    ("aruba-os-s", "\nno spanning-tree\n", "\n", "left: spanning tree is on: it blocks"),
    ("aruba-os-s", "\nno spanning-tree\n", "\nno spanning-tree\nspanning-tree\n",
     "left: spanning tree is on"),
    ("aruba-os-s", "trunk 7,8 trk1 lacp\n", "", "left 7: is in no LAG, planned LAG 1"),
    ("aruba-os-s", "   flow-control\n", "", "left 1: pause (802.3x) is off"),
    ("aruba-os-s", "   flow-control\n", "   flow-control\n   no flow-control\n",
     "left 1: pause (802.3x) is off"),
    ("aruba-os-s", "   enable\n", "   disable\n", "left 1: is shut down"),
    ("aruba-os-s", "mac-age-time 100000", "mac-age-time 300", "left: addresses age after 300 s"),
    ("aruba-os-s", "   no untagged Trk1,1,2\n", "   no untagged 1,2\n",
     "left LAG 1: carries VLAN 1, not part of its tree"),
    ("aruba-os-s", "   no untagged Trk1,1,2\n", "   no untagged Trk1,2\n",
     "left 1: carries VLAN 1, not planned here"),
    ("aruba-os-s", "vlan 102\n   tagged Trk1,1,2\n", "vlan 102\n   tagged Trk1,2\n",
     "left 1: lacks VLAN 102"),
    ("edgeswitch", "\nno spanning-tree\n", "\n", "left: spanning tree is on: it blocks"),
    ("edgeswitch", "storm-control flowcontrol\n", "", "left 0/1: pause (802.3x) is off"),
    ("edgeswitch", "storm-control flowcontrol\n", "storm-control flowcontrol\nno storm-control flowcontrol\n",
     "left 0/1: pause (802.3x) is off"),
    ("edgeswitch", "addport lag 1\n", "", "left 0/7: is in no LAG, planned LAG 1"),
    ("edgeswitch", "exclude 1-100", "exclude 2-100", "left LAG 1: carries VLAN 1, not part of its tree"),
    ("edgeswitch", "vlan pvid 101\n", "", "left 0/1: PVID is none, planned 101"),
    ("edgeswitch", "aging-time 100000", "aging-time 300", "left: addresses age after 300 s"),
    ("edgeswitch", "no vlan tagging 101-102\n", "vlan tagging 102\n",
     "left 0/1: sends VLAN 102 tagged, planned untagged"),
    ("junos-els", "delete protocols mstp\n", "set protocols mstp interface all\n",
     "left: spanning tree is on: it blocks"),
    ("junos-els", "aging-time 100000", "aging-time 300", "left: addresses age after 300 s"),
    ("junos-els", "set interfaces ge-0/0/6 ether-options 802.3ad ae1\n", "",
     "left ge-0/0/6: is in no LAG, planned LAG 1"),
    ("junos-els", "set interfaces ge-0/0/0 ether-options flow-control\n", "",
     "left ge-0/0/0: pause (802.3x) is off"),
    ("junos-els", "ge-0/0/0 ether-options flow-control", "ge-0/0/0 ether-options no-flow-control",
     "left ge-0/0/0: pause (802.3x) is off"),
    ("junos-els", "set interfaces ae1 aggregated-ether-options flow-control\n", "",
     "left ge-0/0/6: pause (802.3x) is off"),
    ("junos-els", "set interfaces ge-0/0/0 ether-options",
     "set interfaces ge-0/0/0 disable\nset interfaces ge-0/0/0 ether-options", "left ge-0/0/0: is shut down"),
    ("junos-els", "ge-0/0/0 unit 0 family ethernet-switching interface-mode trunk",
     "ge-0/0/0 unit 0 family ethernet-switching interface-mode access",
     "left ge-0/0/0: sends VLAN 101-102 untagged, planned tagged"),
    ("junos-els", "set vlans ayatori-102 vlan-id 102\n", "", "left: has no VLAN 102"),
    ("cumulus-nvue", "nv set bridge domain br_default stp state down\n", "",
     "left: spanning tree is on: it blocks"),
    ("cumulus-nvue", "stp state down", "stp state up", "left: spanning tree is on: it blocks"),
    ("cumulus-nvue", "ageing 100000", "ageing 300", "left: addresses age after 300 s"),
    ("cumulus-nvue", "nv set interface swp1 qos link-pause profile ayatori\n", "",
     "left swp1: pause (802.3x) is off"),
    ("cumulus-nvue", "member swp7,swp8", "member swp7", "left swp8: is in no LAG, planned LAG 1"),
    ("cumulus-nvue", "swp1 link state up", "swp1 link state down", "left swp1: is shut down"),
    // As shipped the bridge's untagged VLAN is 1, on every port of it.
    ("cumulus-nvue", "nv set interface bond1 bridge domain br_default untagged none\n", "",
     "left LAG 1: carries VLAN 1, not part of its tree"),
    ("cumulus-nvue", "nv set interface swp1 bridge domain br_default untagged none\n", "",
     "left swp1: carries VLAN 1, not planned here"),
    ("dell-os10", "\nspanning-tree disable\n", "\n", "left: spanning tree is on: it blocks"),
    ("dell-os10", "\nspanning-tree disable\n", "\nspanning-tree disable\nno spanning-tree disable\n",
     "left: spanning tree is on"),
    ("dell-os10", " flowcontrol receive on\n", "", "left ethernet1/1/7: pause (802.3x) is off"),
    ("dell-os10", " flowcontrol transmit on\n", " flowcontrol transmit off\n",
     "left ethernet1/1/7: pause (802.3x) is off"),
    ("dell-os10", " channel-group 1 mode active\n", "", "left ethernet1/1/7: is in no LAG, planned LAG 1"),
    ("dell-os10", " no switchport access vlan\n", "", "left LAG 1: carries VLAN 1, not part of its tree"),
    ("dell-os10", "aging-time 100000", "aging-time 300", "left: addresses age after 300 s"),
    ("dell-os10", "interface vlan102\n", "interface vlan103\n", "left: has no VLAN 102"),
    ("routeros", "protocol-mode=none", "protocol-mode=rstp", "left: spanning tree is on: it blocks"),
    ("routeros", "ageing-time=100000s", "ageing-time=5m", "left: addresses age after 300 s"),
    ("routeros", "vlan-filtering=yes", "vlan-filtering=no", "left: vlan-filtering is off"),
    ("routeros", "/interface bridge set [find name=ayatori] vlan-filtering=yes\n", "",
     "left: vlan-filtering is off"),
    ("routeros", "slaves=ether7,ether8", "slaves=ether7", "left ether8: is in no LAG, planned LAG 1"),
    ("routeros", "ether1] disabled=no rx-flow-control=on", "ether1] disabled=no rx-flow-control=off",
     "left ether1: pause (802.3x) is off"),
    ("routeros", "ether1] disabled=no", "ether1] disabled=yes", "left ether1: is shut down"),
    ("routeros", "interface=ether1 pvid=101", "interface=ether1 pvid=102",
     "left ether1: PVID is 102, planned 101"),
    ("routeros", "\n#\n# The VLANs",
     "\n/interface bridge port remove [find interface=ether1]\n#\n# The VLANs",
     "left ether1: lacks VLAN 101-102"),
    ("routeros", "\n#\n# The VLANs", "\n/interface bridge remove [find name=ayatori]\n#\n# The VLANs",
     "left LAG 1: lacks VLAN 101-102"),
    ("openwrt", "option stp '0'", "option stp '1'", "left: spanning tree is on: it blocks"),
    ("openwrt", "option vlan_filtering '1'", "option vlan_filtering '0'", "left: vlan_filtering is off"),
    ("openwrt", "ageing_time '100000'", "ageing_time '300'", "left: addresses age after 300 s"),
    ("openwrt", "\tlist ports 'lan8'\n", "", "left lan8: is in no LAG, planned LAG 1"),
    ("openwrt", "\toption name 'lan1'\n", "\toption name 'lan1'\n\toption enabled '0'\n",
     "left lan1: is shut down"),
    ("openwrt", "'lan1:u*'", "'lan1:u'", "left lan1: PVID is none, planned 101"),
    ("sonic", "\"fdb_aging_time\": \"100000\"", "\"fdb_aging_time\": \"300\"",
     "left: addresses age after 300 s"),
    ("sonic", "\"admin_status\": \"up\"", "\"admin_status\": \"down\"", "left Ethernet0: is shut down"),
    ("sonic", "\"PortChannel0001|Ethernet6\"", "\"PortChannel0002|Ethernet6\"",
     "left Ethernet6: is in LAG 2, planned LAG 1"),
    ("sonic", "\"tagging_mode\": \"tagged\"", "\"tagging_mode\": \"untagged\"",
     "left Ethernet0: PVID is 101, planned none"),
    ("json", "\"lag\": 1", "\"lag\": 2", "left 7: is in LAG 2, planned LAG 1"),
    ("systemd-networkd", "Bond=bond1\n", "", "left swp7: is in no LAG, planned LAG 1"),
    ("comware", "undo stp global enable", "stp global enable", "left: spanning tree is on: it blocks"),
    ("comware", "timer aging 100000", "timer aging 300", "left: addresses age after 300 s"),
    ("huawei-vrp", "undo stp enable", "stp enable", "left: spanning tree is on: it blocks"),
    ("huawei-vrp", "aging-time 100000", "aging-time 300", "left: addresses age after 300 s"),
    ("huawei-vrp", " eth-trunk 1\n", "", "left GigabitEthernet0/0/7: is in no LAG, planned LAG 1"),
    ("dell-os6", "\nno spanning-tree\n", "\nno spanning-tree\nspanning-tree\n",
     "left: spanning tree is on: it blocks"),
    ("cisco-nxos", "\nno spanning-tree vlan 101-102\n",
     "\nno spanning-tree vlan 101-102\nspanning-tree vlan 101\n",
     "left: spanning tree is on in VLAN 101: it blocks"),
    ("cisco-ios", "aging-time 100000\n", "aging-time 100000\nmac address-table aging-time 300 vlan 101\n",
     "left: addresses age after 300 s"),
    ("cisco-ios", "aging-time 100000\n", "aging-time 300\nmac address-table aging-time 0 vlan 101\n",
     "left: addresses age after 300 s"),
    ("cisco-ios", "aging-time 100000\n", "aging-time 300\nmac address-table aging-time 900 vlan 101\n",
     "left: addresses age after 300 s"),
];

/// What is said of `left` after the first such part of all that is written for it has been replaced.
fn said(plan: &Plan, dialect: &str, from: &str, to: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut is_spoilt = false;
    for file in by_name(dialect).unwrap().emit(plan, SwitchId(0)).unwrap().files {
        let path = folder.path().join(&file.name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let is_here = !is_spoilt && file.text.contains(from);
        let text = if is_here { file.text.replacen(from, to, 1) } else { file.text };
        is_spoilt |= is_here;
        std::fs::write(path, text).unwrap();
    }
    assert!(is_spoilt, "{dialect} does not write {from:?}");
    let left = &plan.switches[0];
    let state = read(folder.path(), left).unwrap_or_else(|error| panic!("{error}")).unwrap();
    let all = compare(plan, &BTreeMap::from([("left".to_owned(), state)]));
    all.iter().filter(|found| found.switch == "left").map(ToString::to_string).collect()
}

#[test]
fn what_is_missing_in_a_written_configuration_is_named() {
    for &(dialect, from, to, wanted) in SPOILT {
        let found = said(&example(by_name(dialect).unwrap(), None), dialect, from, to);
        let is_named = found.iter().any(|difference| difference.starts_with(wanted));
        assert!(is_named, "{dialect}: {from:?} to {to:?}: wanted {wanted:?}, found {found:?}");
    }
}

#[test]
fn settings_that_change_nothing_are_no_difference() {
    let harmless = [
        ("cisco-ios", "aging-time 100000\n", "aging-time 100000\nmac address-table aging-time 0 vlan 7\n"),
        (
            "cumulus-nvue",
            "type vlan-aware\n",
            "type vlan-aware\nnv set bridge domain br_default untagged none\n",
        ),
        ("huawei-vrp", "aging-time 100000", "aging-time 0"),
        ("openwrt", "ageing_time '100000'", "ageing_time '42949672'"),
        ("systemd-networkd", "AgeingTimeSec=100000", "AgeingTimeSec=42949672"),
        // A section of something that is no port, and a bridge beside the plan's.
        ("dell-os10", "interface vlan101\n no shutdown\n", "interface vlan101\n shutdown\n"),
    ];
    for (dialect, from, to) in harmless {
        let found = said(&example(by_name(dialect).unwrap(), None), dialect, from, to);
        assert_eq!(found, Vec::<String>::new(), "{dialect}: {from:?} to {to:?}");
    }
}

#[test]
fn untagged_vlan_of_nvues_bridge_is_that_of_its_ports() {
    let text = "nv set bridge domain br0 untagged 7\nnv set interface swp1 bridge domain br0 vlan 7-9\n\
        nv set interface swp2 bridge domain br0 untagged 8\nnv set interface swp3 link state up\n\
        nv set interface swp4 bridge domain br0 vlan 9\nnv unset interface swp4 bridge\n\
        nv set interface swp5 bridge domain br0 untagged 8\n\
        nv set interface swp5 bridge domain br0 untagged none\n";
    let observed = nvue::read(text).unwrap();
    let said = |name: &str| {
        let Membership { pvid, untagged, tagged } =
            &observed.interfaces[&InterfaceName::Port(name.into())].membership;
        format!("{} | {untagged} | {tagged}", pvid.map_or(0, VlanId::get))
    };
    assert_eq!(
        ["swp1", "swp2", "swp3", "swp4", "swp5"].map(said),
        ["7 | 7 | 8-9", "8 | 8 | ", "0 |  | ", "0 |  | ", "0 |  | "]
    );
}

/// VLANs have names in running configurations, and so have the interfaces of some makes.
#[test]
fn a_vlans_name_is_not_that_of_the_mstp_region() {
    for (dialect, from) in [
        ("cisco-ios", "! At the end"),
        ("arista-eos", "! At the end"),
        ("dell-os6", "interface"),
        ("aruba-os-s", "spanning-tree 1 admin-edge-port"),
    ] {
        let plan = mstp_example(by_name(dialect).unwrap());
        let text = by_name(dialect).unwrap().emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
        let from = if text.contains(from) { from } else { "\ninterface" };
        let found = said(&plan, dialect, from, &format!("\nvlan 101\n name storage\n exit\n{from}"));
        assert_eq!(found, Vec::<String>::new(), "{dialect}");
    }
}

/// `(dialect, from, to, wanted)` of a plan that MSTP holds.
#[test]
fn what_is_missing_of_mstp_is_named() {
    const REGION: &str = "left: is in the MSTP region";
    let cases: [Spoilt; 12] = [
        (
            "cisco-ios",
            " name example\n",
            "",
            "left: is in the MSTP region without a name, revision 1, planned",
        ),
        (
            "cisco-ios",
            " revision 1\n",
            " revision 2\n",
            "left: is in the MSTP region example, revision 2, planned",
        ),
        ("huawei-vrp", " revision-level 1\n", "", "left: is in the MSTP region example, revision 0, planned"),
        ("junos-els", "configuration-name example", "configuration-name other", REGION),
        ("aruba-os-s", "config-name \"example\"", "config-name \"other\"", REGION),
        ("aruba-os-s", "config-revision 1", "config-revision 7", REGION),
        ("cisco-ios", " instance 2 vlan 102\n", "", "left: MSTP instance 2 has VLAN none, planned 102"),
        (
            "comware",
            " instance 2 vlan 102\n",
            " instance 2 vlan 102 to 104 110\n",
            "left: MSTP instance 2 has VLAN 102-104,110",
        ),
        (
            "junos-els",
            "msti 2 bridge-priority 4k",
            "msti 2 bridge-priority 8k",
            "left: has priority 8192 in MSTP instance 2",
        ),
        (
            "aruba-os-s",
            "instance 2 priority 1",
            "instance 2 priority 3",
            "left: has priority 12288 in MSTP instance 2",
        ),
        (
            "cisco-ios",
            "spanning-tree mst 2 priority 4096\n",
            "",
            "left: has priority 32768 in MSTP instance 2, planned 4096",
        ),
        (
            "cisco-ios",
            " spanning-tree mst 2 cost 10000\n",
            "",
            "left LAG 1: costs the usual in MSTP instance 2, planned 10000",
        ),
    ];
    for (dialect, from, to, wanted) in cases {
        let found = said(&mstp_example(by_name(dialect).unwrap()), dialect, from, to);
        assert!(
            found.len() == 1 && found[0].starts_with(wanted),
            "{dialect}: {from:?} to {to:?}: wanted {wanted:?}, found {found:?}"
        );
    }
}

#[test]
fn instances_that_are_not_planned_and_a_region_that_is_gone() {
    let plan = mstp_example(by_name("cisco-ios").unwrap());
    let more =
        said(&plan, "cisco-ios", " instance 2 vlan 102\n", " instance 2 vlan 102\n instance 3 vlan 7,9-10\n");
    assert_eq!(more, ["left: has MSTP instance 3, which is not planned: a region of its own"]);
    // The common instance is every switch's.
    let common =
        said(&plan, "cisco-ios", " instance 2 vlan 102\n", " instance 2 vlan 102\n instance 0 vlan 1\n");
    assert_eq!(common, Vec::<String>::new());
    let anew = "no spanning-tree mst configuration\n";
    let cleared = said(&plan, "cisco-ios", "spanning-tree mst max-hops 40", anew);
    assert_eq!(cleared, ["left: says nothing of an MSTP region"]);
    let off = said(
        &plan,
        "cisco-ios",
        "spanning-tree mode mst\n",
        "spanning-tree mode mst\nno spanning-tree vlan 102\n",
    );
    assert_eq!(off, ["left: spanning tree is off, planned MSTP: its links form loops"]);
}
