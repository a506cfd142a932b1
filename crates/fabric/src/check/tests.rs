//! Every dialect's own output is read back as the plan; every kind of mistake is named.

use super::*;
use crate::dialect::{
    ALL, Dialect, by_name,
    golden_tests::{example, mstp_example},
};
use crate::graph::SwitchId;
use crate::plan::MacAddr;

/// Collected state as a switch of `dialect` would show it after its configuration was entered.
fn collected(dialect: &dyn Dialect, plan: &Plan) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for switch in &plan.switches {
        for file in dialect.emit(plan, switch.id).unwrap().files {
            let path = folder.path().join(&file.name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file.text).unwrap();
        }
    }
    folder
}

fn read_all(folder: &Path, plan: &Plan) -> BTreeMap<String, Observed> {
    let states = plan.switches.iter().filter_map(|switch| {
        Some((switch.name.clone(), read(folder, switch).unwrap_or_else(|error| panic!("{error}"))?))
    });
    states.collect()
}

fn words(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

/// Dialects whose configuration is what a switch shows of itself.
fn with_running_config() -> impl Iterator<Item = &'static dyn Dialect> {
    ALL.iter().copied().filter(|dialect| dialect.name() != "linux-bridge")
}

#[test]
fn what_a_dialect_writes_is_read_back_as_the_plan() {
    for dialect in with_running_config() {
        let plan = example(dialect, None);
        let folder = collected(dialect, &plan);
        let differences = compare(&plan, &read_all(folder.path(), &plan));
        assert_eq!(words(&differences), Vec::<String>::new(), "{}", dialect.name());
    }
}

/// As after a failure: no tree leads over the only link any more.
#[test]
fn a_link_that_carries_nothing_is_written_and_read_back() {
    // ArubaOS-Switch refuses: a port must be in a VLAN.
    let able = with_running_config().filter(|dialect| dialect.name() != "aruba-os-s");
    for (dialect, port_name) in
        able.map(|dialect| (dialect, None)).chain([(by_name("dell-os6").unwrap(), Some("Gi1/0/{port}"))])
    {
        let mut plan = example(dialect, port_name);
        for switch in &mut plan.switches {
            let links = switch.ports.iter_mut().filter(|port| matches!(port.role, PortRole::Link { .. }));
            links.for_each(|port| port.membership = Membership::default());
            switch.lags.iter_mut().for_each(|lag| lag.membership = Membership::default());
        }
        let folder = collected(dialect, &plan);
        let differences = compare(&plan, &read_all(folder.path(), &plan));
        assert_eq!(words(&differences), Vec::<String>::new(), "{}", dialect.name());
        // Nor is there a command that lacks its list.
        for file in dialect.emit(&plan, SwitchId(0)).unwrap().files {
            let is_cut = |line: &str| {
                let whole = ["no switchport access vlan", "no switchport trunk native vlan"];
                let is_whole = line.starts_with("nv unset") || whole.contains(&line.trim());
                !is_whole && (line.trim_end().ends_with("vlan") || line.trim_end().ends_with("add"))
            };
            assert!(!file.text.lines().any(is_cut), "{}:\n{}", dialect.name(), file.text);
        }
    }
}

/// The old settings of every port, then those that the dialect writes: no old one may be left.
#[test]
fn vlan_of_an_earlier_configuration_leaves_every_planned_port() {
    let with_commands = with_running_config()
        // OpenWrt's and SONiC's scripts remove what stood there; ArubaOS-Switch says that it cannot.
        .filter(|dialect| {
            !["json", "sonic", "systemd-networkd", "openwrt", "aruba-os-s"].contains(&dialect.name())
        })
        .map(|dialect| (dialect, None));
    for (dialect, port_name) in with_commands.chain([(by_name("dell-os6").unwrap(), Some("Gi1/0/{port}"))]) {
        let plan = example(dialect, port_name);
        let mut old = plan.clone();
        let stray: VlanSet = [7, 777, 4000].into_iter().filter_map(VlanId::new).collect();
        for switch in &mut old.switches {
            let lags = switch.lags.iter_mut().map(|lag| &mut lag.membership);
            for membership in switch.ports.iter_mut().map(|port| &mut port.membership).chain(lags) {
                let untagged = !membership.untagged.is_empty();
                let set = if untagged { &mut membership.untagged } else { &mut membership.tagged };
                stray.iter().for_each(|vlan| set.insert(vlan));
            }
        }
        let folder = collected(dialect, &plan);
        for switch in &plan.switches {
            let before = dialect.emit(&old, switch.id).unwrap().files.remove(0);
            let path = folder.path().join(before.name);
            let before = before.text;
            let after = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, &before).unwrap();
            let state =
                BTreeMap::from([(switch.name.clone(), read(folder.path(), switch).unwrap().unwrap())]);
            let found = words(&compare(&plan, &state)).join("\n");
            assert!(found.contains("carries VLAN 7,777,4000"), "the test is blind: {found}");
            std::fs::write(&path, before + &after).unwrap();
        }
        let differences = compare(&plan, &read_all(folder.path(), &plan));
        assert_eq!(words(&differences), Vec::<String>::new(), "{}", dialect.name());
    }
}

#[test]
fn the_newer_dells_configuration_is_read_back_too() {
    let dialect = by_name("dell-os6").unwrap();
    let plan = example(dialect, Some("Gi1/0/{port}"));
    let folder = collected(dialect, &plan);
    assert_eq!(words(&compare(&plan, &read_all(folder.path(), &plan))), Vec::<String>::new());
}

#[test]
fn changed_membership_is_named_with_switch_port_and_vlan() {
    for dialect in with_running_config() {
        let plan = example(dialect, None);
        let folder = collected(dialect, &plan);
        let states = read_all(folder.path(), &plan);
        let extra = VlanId::new(999).unwrap();
        for name in states["left"].interfaces.keys() {
            let mut changed = states.clone();
            let interface = changed.get_mut("left").unwrap().interfaces.get_mut(name).unwrap();
            let is_checked = interface.lag.is_none() && !interface.is_shut && *name != InterfaceName::Own;
            interface.membership.tagged.insert(extra);
            let found = words(&compare(&plan, &changed));
            if is_checked {
                assert_eq!(found.len(), 1, "{} {name}: {found:?}", dialect.name());
                assert!(found[0].starts_with("left ") && found[0].contains("VLAN 999"), "{found:?}");
            }
        }
    }
}

#[test]
fn a_vlan_that_does_not_exist_on_the_switch_is_named() {
    // Linux bridges and `json` have no list of VLANs beside the ports'.
    let has_list =
        |dialect: &&dyn Dialect| !["json", "systemd-networkd", "openwrt"].contains(&dialect.name());
    for dialect in with_running_config().filter(has_list) {
        let plan = example(dialect, None);
        let folder = collected(dialect, &plan);
        let mut states = read_all(folder.path(), &plan);
        let left = states.get_mut("left").unwrap();
        let existing = left.vlans.as_mut().unwrap_or_else(|| panic!("{} tells its VLANs", dialect.name()));
        let last = existing.iter().last().unwrap();
        *existing = existing.difference(&[last].into_iter().collect());
        let found = words(&compare(&plan, &states));
        assert_eq!(
            found,
            [format!("left: has no VLAN {last}: ports in it pass no frame of it")],
            "{}",
            dialect.name()
        );
    }
}

/// Makes that write MSTP.
fn with_mstp() -> impl Iterator<Item = &'static dyn Dialect> {
    ALL.iter().copied().filter(|dialect| dialect.capabilities().mstp_instances_max > 0)
}

#[test]
fn mstp_is_read_back_as_the_plan_and_every_difference_is_named() {
    for dialect in with_mstp() {
        let plan = mstp_example(dialect);
        let folder = collected(dialect, &plan);
        let states = read_all(folder.path(), &plan);
        assert_eq!(words(&compare(&plan, &states)), Vec::<String>::new(), "{}", dialect.name());
        let said = |change: &dyn Fn(&mut ObservedMstp)| {
            let mut changed = states.clone();
            change(changed.get_mut("left").unwrap().mstp.as_mut().unwrap());
            words(&compare(&plan, &changed)).join("\n")
        };
        let vlan = VlanId::new(102).unwrap();
        let name = dialect.name();
        let found = said(&|mstp| mstp.instances.get_mut(&1).unwrap().insert(vlan));
        assert_eq!(found, "left: MSTP instance 1 has VLAN 101-102, planned 101", "{name}");
        let found = said(&|mstp| mstp.priorities = BTreeMap::from([(1, 4096), (2, 4096)]));
        assert_eq!(found, "left: has priority 4096 in MSTP instance 1, planned 0", "{name}");
        let found = said(&|mstp| *mstp.costs.get_mut(&(InterfaceName::Lag(1), 2)).unwrap() = 1);
        assert_eq!(found, "left LAG 1: costs 1 in MSTP instance 2, planned 10000", "{name}");
        let found = said(&|mstp| mstp.region = Some("other".into()));
        let wanted = "left: is in the MSTP region other, revision 1, planned example, 1: a region of its own";
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn mstp_after_a_plan_without_it_turns_the_spanning_tree_on() {
    for dialect in with_mstp().filter(|dialect| dialect.name() != "json") {
        let (off, on) = (example(dialect, None), mstp_example(dialect));
        for (before, after) in [(&off, &on), (&on, &off)] {
            let folder = collected(dialect, after);
            for switch in &after.switches {
                let before = dialect.emit(before, switch.id).unwrap().files.remove(0);
                let path = folder.path().join(&before.name);
                let both = before.text + &std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, both).unwrap();
            }
            let differences = compare(after, &read_all(folder.path(), after));
            assert_eq!(words(&differences), Vec::<String>::new(), "{}", dialect.name());
        }
    }
}

fn bridge_plan() -> Plan {
    example(by_name("linux-bridge").unwrap(), None)
}

/// `bridge -j vlan show` of a switch that stands as planned.
fn bridge_vlans(plan: &Plan, switch: SwitchId) -> serde_json::Value {
    let switch = plan.switch(switch);
    let mut devices = Vec::new();
    let lags = switch.lags.iter().map(|lag| (format!("bond{}", lag.number), &lag.membership));
    let ports = switch.ports.iter().filter(|port| port.lag.is_none());
    for (name, membership) in lags.chain(ports.map(|port| (port.name.clone(), &port.membership))) {
        let flags = |vlan: VlanId| {
            let pvid = (membership.pvid == Some(vlan)).then_some("PVID");
            let untagged = membership.untagged.contains(vlan).then_some("Egress Untagged");
            pvid.into_iter().chain(untagged).collect::<Vec<_>>()
        };
        let all = membership.untagged.iter().chain(membership.tagged.iter());
        let vlans: Vec<_> =
            all.map(|vlan| serde_json::json!({ "vlan": vlan.get(), "flags": flags(vlan) })).collect();
        if !vlans.is_empty() {
            devices.push(serde_json::json!({ "ifname": name, "vlans": vlans }));
        }
    }
    devices.into()
}

fn bridge_states(plan: &Plan) -> BTreeMap<String, Observed> {
    let state = |switch: &SwitchPlan| {
        let text = bridge_vlans(plan, switch.id).to_string();
        (switch.name.clone(), bridge_json::vlans(&text, switch).unwrap())
    };
    plan.switches.iter().map(state).collect()
}

#[test]
fn a_bridge_that_stands_as_planned_has_no_differences() {
    let plan = bridge_plan();
    assert_eq!(words(&compare(&plan, &bridge_states(&plan))), Vec::<String>::new());
}

#[test]
fn each_kind_of_wrong_membership_has_its_words() {
    let plan = bridge_plan();
    let change = |edit: &dyn Fn(&mut Membership)| {
        let mut states = bridge_states(&plan);
        let port = InterfaceName::Port("swp1".into());
        edit(&mut states.get_mut("left").unwrap().interfaces.get_mut(&port).unwrap().membership);
        words(&compare(&plan, &states)).join("\n")
    };
    let vlan = |vid| VlanId::new(vid).unwrap();
    let only = |vid: u16| -> VlanSet { [vlan(vid)].into_iter().collect() };
    type Case<'a> = (&'a dyn Fn(&mut Membership), &'a str);
    let cases: [Case<'_>; 5] = [
        (&|m| m.untagged = m.untagged.difference(&only(102)), "left swp1: lacks VLAN 102"),
        (&|m| m.untagged.insert(vlan(7)), "left swp1: carries VLAN 7, not planned here"),
        (&|m| m.pvid = Some(vlan(102)), "left swp1: PVID is 102, planned 101"),
        (&|m| m.pvid = None, "left swp1: PVID is none, planned 101"),
        (
            &|m| {
                m.untagged = m.untagged.difference(&only(102));
                m.tagged.insert(vlan(102));
            },
            "left swp1: sends VLAN 102 tagged, planned untagged",
        ),
    ];
    for (edit, wanted) in cases {
        let found = change(edit);
        assert!(
            found.starts_with(wanted) && found.lines().count() == 1,
            "wanted {wanted:?}, found {found:?}"
        );
    }
}

#[test]
fn switch_without_state_and_unplanned_port_are_named() {
    let plan = bridge_plan();
    let mut states = bridge_states(&plan);
    states.remove("right");
    let stray = ObservedInterface {
        membership: Membership { tagged: plan.vlan_set(), ..Membership::default() },
        ..ObservedInterface::default()
    };
    states.get_mut("left").unwrap().interfaces.insert(InterfaceName::Port("eth7".into()), stray);
    let found = words(&compare(&plan, &states));
    assert_eq!(
        found,
        ["left eth7: carries VLAN 101-102 and is not in the plan", "right: no state was collected"]
    );
}

/// A table with every host where the plan has it.
fn full_table(plan: &Plan, switch: SwitchId) -> Vec<TableEntry> {
    let mut table = Vec::new();
    for (index, host) in plan.hosts.iter().enumerate() {
        for vlan in &plan.vlans {
            let attachment = &host.attachments[0];
            let interface = if attachment.switch == switch {
                InterfaceName::Port(format!("swp{}", attachment.ports[0]))
            } else {
                InterfaceName::Lag(1)
            };
            table.push(TableEntry { vlan: vlan.vid, mac: MacAddr([2, 0, 0, 0, 0, index as u8]), interface });
        }
    }
    table
}

#[test]
fn unknown_and_misplaced_addresses_need_no_described_ones() {
    for has_addresses in [true, false] {
        let mut plan = bridge_plan();
        if !has_addresses {
            plan.hosts.iter_mut().for_each(|host| host.attachments[0].mac = None);
        }
        let mut states = bridge_states(&plan);
        for switch in &plan.switches {
            states.get_mut(&switch.name).unwrap().table = Some(full_table(&plan, switch.id));
        }
        assert_eq!(words(&compare(&plan, &states)), Vec::<String>::new());

        let table = states.get_mut("left").unwrap().table.as_mut().unwrap();
        let gone = table.iter().position(|entry| entry.interface == InterfaceName::Lag(1)).unwrap();
        table.remove(gone);
        let found = words(&compare(&plan, &states));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("does not know 1 of 8 addresses"), "{found:?}");

        let table = states.get_mut("left").unwrap().table.as_mut().unwrap();
        let far = table.iter().position(|entry| entry.interface == InterfaceName::Lag(1)).unwrap();
        table[far].interface = InterfaceName::Port("swp2".into());
        let found = words(&compare(&plan, &states)).join("\n");
        assert!(found.contains("at swp2, planned LAG 1"), "{found}");
    }
}

#[test]
fn what_bridge_prints_is_read() {
    let plan = bridge_plan();
    let left = &plan.switches[0];
    let text = r#"[{"mac":"36:60:aa:15:38:dd","ifname":"swp1","vlan":102,"flags":[],"master":"br0","state":""},
        {"mac":"e6:68:45:d0:1a:6c","ifname":"swp1","vlan":102,"flags":[],"master":"br0","state":"permanent"},
        {"mac":"33:33:00:00:00:01","ifname":"swp1","flags":["self"],"state":"permanent"}]"#;
    let table = bridge_json::table(text, left).unwrap();
    assert_eq!(table.len(), 1);
    assert_eq!(table[0].interface, InterfaceName::Port("swp1".into()));
    let compressed = r#"[{"ifname":"bond1","vlans":[{"vlan":101,"vlanEnd":104}]}]"#;
    let observed = bridge_json::vlans(compressed, left).unwrap();
    assert_eq!(observed.interfaces[&InterfaceName::Lag(1)].membership.tagged.to_string(), "101-104");
}

/// `ip -j -d link show` of `left`, with these settings of the bridge and this master of the LAG's second
/// port.
fn bridge_links(settings: &str, master: &str, flags: &str) -> String {
    let port =
        |name: &str, master: &str| format!(r#"{{"ifname":"{name}","flags":[{flags}],"master":"{master}"}}"#);
    let bridge = format!(
        r#"{{"ifname":"br0","flags":["UP"],"linkinfo":{{"info_kind":"bridge","info_data":{{{settings}}}}}}}"#
    );
    let rows =
        [bridge, port("swp1", "br0"), port("swp2", "br0"), port("swp7", "bond1"), port("swp8", master)];
    format!("[{{}},{},{}]", rows.join(","), r#"{"ifname":"bond1","flags":["UP"],"master":"br0"}"#)
}

#[test]
fn what_a_bridge_itself_is_set_to_is_compared_too() {
    const GOOD: &str = r#""vlan_filtering":1,"stp_state":0,"ageing_time":10000000"#;
    let plan = bridge_plan();
    let folder = tempfile::tempdir().unwrap();
    let left = &plan.switches[0];
    let found = |links: &str| {
        std::fs::write(folder.path().join("left.link.json"), links).unwrap();
        let mut states = bridge_states(&plan);
        states.insert("left".into(), read(folder.path(), left).unwrap().unwrap());
        words(&compare(&plan, &states)).join("\n")
    };
    let vlans = bridge_vlans(&plan, left.id).to_string();
    std::fs::write(folder.path().join("left.vlan.json"), vlans).unwrap();
    assert_eq!(found(&bridge_links(GOOD, "bond1", r#""UP""#)), "");
    let cases = [
        (GOOD.replace("filtering\":1", "filtering\":0"), "left: VLAN filtering is off"),
        (GOOD.replace("state\":0", "state\":1"), "left: spanning tree is on"),
        (GOOD.replace("10000000", "30000"), "left: addresses age after 300 s, planned 100000 s"),
        (GOOD.replace("10000000", "0"), "left: its aging time is 0"),
    ];
    for (settings, wanted) in cases {
        let found = found(&bridge_links(&settings, "bond1", r#""UP""#));
        assert!(
            found.starts_with(wanted) && found.lines().count() == 1,
            "wanted {wanted:?}, found {found:?}"
        );
    }
    let out = found(&bridge_links(GOOD, "br0", r#""UP""#));
    assert_eq!(out, "left swp8: is in no LAG, planned LAG 1");
    let down = found(&bridge_links(GOOD, "bond1", ""));
    assert!(down.contains("left swp1: is shut down") && down.contains("left swp7: is shut down"), "{down}");
    std::fs::remove_file(folder.path().join("left.vlan.json")).unwrap();
    let error = read(folder.path(), left).unwrap_err().to_string();
    assert!(error.contains("left.vlan.json: is missing"), "{error}");
}

#[test]
fn a_wrong_line_in_networkds_files_is_named() {
    let dialect = by_name("systemd-networkd").unwrap();
    let plan = example(dialect, None);
    let spoilt = |file: &str, from: &str, to: &str| {
        let folder = collected(dialect, &plan);
        let path = folder.path().join("left").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        words(&compare(&plan, &read_all(folder.path(), &plan))).join("\n")
    };
    let cases = [
        ("30-swp1.network", "PVID=101", "PVID=102", "left swp1: PVID is 102, planned 101"),
        ("30-swp2.network", "VLAN=102\nEgressUntagged=102", "", "left swp2: lacks VLAN 102"),
        ("30-bond1.network", "VLAN=101-102", "VLAN=101-109", "left LAG 1: carries VLAN 103-109"),
        ("30-swp8.network", "Bond=bond1", "", "left swp8: is in no LAG, planned LAG 1"),
        ("10-br0.netdev", "VLANFiltering=yes", "", "left: VLANFiltering is off"),
        ("10-br0.netdev", "DefaultPVID=none", "", "left: DefaultPVID is not none"),
        ("10-br0.netdev", "STP=no", "STP=yes", "left: spanning tree is on"),
        ("10-br0.netdev", "=100000", "=300s", "left: addresses age after 300 s"),
        ("40-swp1.link", "TxFlowControl=yes", "TxFlowControl=no", "left swp1: pause (802.3x) is off"),
    ];
    for (file, from, to, wanted) in cases {
        let found = spoilt(file, from, to);
        assert!(
            found.starts_with(wanted) && found.lines().count() == 1,
            "wanted {wanted:?}, found {found:?}"
        );
    }
}

#[test]
fn files_that_are_something_else_are_refused_by_name() {
    let plan = bridge_plan();
    let left = &plan.switches[0];
    let cases = [
        ("left.vlan.json", "not json", "is not the output of `bridge -j vlan show`"),
        ("left.vlan.json", r#"[{"ifname":"swp1","vlans":[{"vlan":9999}]}]"#, "VLAN 9999 of swp1 cannot be"),
        (
            "left.config_db.json",
            r#"{"VLAN_MEMBER":{"x":{"tagging_mode":"tagged"}}}"#,
            "cannot understand the key",
        ),
        ("left.cfg", "hello", "is not a running configuration"),
        ("left.json", "{}", "is not a file of the json dialect"),
    ];
    for (name, content, problem) in cases {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), content).unwrap();
        let error = read(folder.path(), left).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(problem), "{error}");
    }
    let dell = &example(by_name("dell-os6").unwrap(), None).switches[0];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("left.cfg"), "interface ethernet 1/g1\nswitchport general pvid 5000\n")
        .unwrap();
    let error = read(folder.path(), dell).unwrap_err().to_string();
    assert!(error.contains("line 2: \"5000\" is no VLAN"), "{error}");
}

/// The script that merges the plan's sections removes the old ones on an OpenWrt switch.
#[test]
fn openwrts_script_deletes_every_vlan_before_it_merges() {
    let dialect = by_name("openwrt").unwrap();
    let files = dialect.emit(&example(dialect, None), SwitchId(0)).unwrap().files;
    let script = &files.iter().find(|file| file.name == "left.uci.sh").unwrap().text;
    let [delete, merge] = ["uci -q delete network.@bridge-vlan[0]", "uci -m import network"]
        .map(|part| script.find(part).unwrap());
    assert!(delete < merge, "{script}");
}

#[test]
fn aruba_says_it_keeps_vlans_and_refuses_a_port_without_any() {
    let dialect = by_name("aruba-os-s").unwrap();
    let mut plan = example(dialect, None);
    let text = dialect.emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
    assert!(text.contains("is not removed by these commands"), "{text}");
    plan.switches[0].lags[0].membership = Membership::default();
    let refusal = dialect.emit(&plan, SwitchId(0)).unwrap_err().to_string();
    assert!(refusal.contains("Trk1 would be in no VLAN"), "{refusal}");
}

/// Memberships by interface: the PVID, untagged and tagged VLANs.
fn memberships(observed: &Observed) -> Vec<(String, String)> {
    let said = |(name, found): (&InterfaceName, &ObservedInterface)| {
        let Membership { pvid, untagged, tagged } = &found.membership;
        let pvid = pvid.map_or(0, VlanId::get);
        (name.to_string(), format!("{pvid} | {untagged} | {tagged}"))
    };
    observed.interfaces.iter().map(said).collect()
}

fn assert_memberships(observed: &Observed, wanted: &[(&str, &str)]) {
    let found = memberships(observed);
    let found: Vec<(&str, &str)> = found.iter().map(|(name, is)| (name.as_str(), is.as_str())).collect();
    assert_eq!(found, wanted);
}

/// As `show running-config` prints it: what stands in a row is a range.
#[test]
fn arubas_ranges_name_ports_modules_and_trunks() {
    let left = &bridge_plan().switches[0];
    let text = "trunk 7-8 Trk1 LACP\ntrunk B1-B2 Trk2 LACP\ninterface 1-2\n   disable\n   exit\n\
        vlan 1\n   no untagged 1-2,7-8,swp1-swp8,Trk1-Trk2\n   exit\n\
        vlan 101\n   untagged 1-2\n   tagged Trk1-Trk2,A3-A4,1/1-1/2\n   exit\n\
        vlan 102\n   untagged 2,A3\n   tagged 1\n   no tagged A4\n   exit\n\
        vlan 103\n   tagged 2,1/1\n   untagged 1/1\n   no untagged 9\n   exit\n";
    let observed = aruba_os_s::read(text, left).unwrap();
    let mut wanted = [
        ("1", "101 | 101 | 102"),
        ("1/1", "103 | 103 | 101"),
        ("1/2", "0 |  | 101"),
        ("2", "102 | 102 | 103"),
        ("7", "0 |  | "),
        ("8", "0 |  | "),
        ("A3", "102 | 102 | 101"),
        ("A4", "0 |  | 101"),
        ("B1", "0 |  | "),
        ("B2", "0 |  | "),
        ("LAG 1", "0 |  | 101"),
        ("LAG 2", "0 |  | 101"),
    ];
    wanted.sort_by_key(|(name, _)| name.starts_with("LAG"));
    assert_memberships(&observed, &wanted);
    let lags = |name: &str| observed.interfaces[&InterfaceName::Port(name.into())].lag;
    assert_eq!(["7", "8", "B1", "B2", "1"].map(lags), [Some(1), Some(1), Some(2), Some(2), None]);
    let is_shut = |name: &str| observed.interfaces[&InterfaceName::Port(name.into())].is_shut;
    assert_eq!(["1", "2", "A3"].map(is_shut), [true, true, false]);
}

#[test]
fn ports_of_access_and_native_vlans_are_understood() {
    let comware = "interface G1\n port access vlan 101\n#\ninterface G2\n port link-type trunk\n \
        port trunk permit vlan 101 to 103 110\n port trunk pvid vlan 102\n undo port trunk permit vlan 1\n#\n\
        interface G3\n port link-type hybrid\n port hybrid vlan 101 to 102 untagged\n \
        port hybrid vlan 103 tagged\n port hybrid untagged vlan 104\n port hybrid tagged vlan 105\n \
        flow-control\n undo flow-control\n#\nmac-address timer no-aging\n";
    let observed = comware::read(comware).unwrap();
    let wanted =
        [("G1", "101 | 101 | "), ("G2", "102 | 102 | 101,103,110"), ("G3", "1 | 1,101-102,104 | 103,105")];
    assert_memberships(&observed, &wanted);
    assert_eq!(observed.aging_time_s, Some(0));
    assert_eq!(observed.interfaces[&InterfaceName::Port("G3".into())].pause, Some(false));

    let os10 = "interface ethernet1/1/1\n switchport access vlan 101\n!\ninterface ethernet1/1/2\n \
        switchport mode trunk\n no switchport access vlan\n switchport access vlan 102\n \
        switchport trunk allowed vlan 102-105\n no switchport trunk allowed vlan 104\n!\n\
        interface ethernet1/1/3\n no switchport access vlan\n!\n";
    let wanted = [
        ("ethernet1/1/1", "101 | 101 | "),
        ("ethernet1/1/2", "102 | 102 | 103,105"),
        ("ethernet1/1/3", "0 |  | "),
    ];
    assert_memberships(&os10::read(os10).unwrap(), &wanted);

    let nvue = "nv set interface swp1-2 bridge domain br0 access 101\n\
        nv set interface swp3s0-1,swp5 bridge domain br0 vlan 101-103\n\
        nv set interface swp3s0-1 bridge domain br0 untagged 102\n\
        nv set interface swp5 bridge domain br0 untagged none\n";
    let wanted = [
        ("swp1", "101 | 101 | "),
        ("swp2", "101 | 101 | "),
        ("swp3s0", "102 | 102 | 101,103"),
        ("swp3s1", "102 | 102 | 101,103"),
        ("swp5", "0 |  | 101-103"),
    ];
    assert_memberships(&nvue::read(nvue).unwrap(), &wanted);

    let ios = "interface Gi1\n switchport trunk allowed vlan 101-104\n switchport mode trunk\n \
        switchport trunk native vlan 102\n switchport trunk allowed vlan add 110\n \
        switchport trunk allowed vlan remove 103\n no flowcontrol receive\n!\ninterface Gi2\n \
        switchport mode trunk\n switchport trunk native vlan 102\n switchport trunk native vlan tag\n \
        switchport trunk allowed vlan 102\n no switchport trunk native vlan tag\n no flowcontrol send\n!\n\
        interface Gi3\n switchport mode trunk\n switchport trunk native vlan tag\n \
        switchport trunk allowed vlan except 3-4094\n!\n";
    let observed = ios_like::read(ios, Some(true)).unwrap();
    let wanted = [("Gi1", "102 | 102 | 101,104,110"), ("Gi2", "102 | 102 | "), ("Gi3", "0 |  | 1-2")];
    assert_memberships(&observed, &wanted);
    let pauses: Vec<_> = observed.interfaces.values().map(|found| found.pause).collect();
    assert_eq!(pauses, [Some(false), Some(false), Some(true)]);
}

#[test]
fn a_file_of_another_kind_says_so() {
    let left = &bridge_plan().switches[0];
    let text = "hello\n";
    let said = [
        aruba_os_s::read(text, left),
        comware::read(text),
        edgeswitch::read(text),
        ios_like::read(text, None),
        junos::read(text),
        nvue::read(text),
        os10::read(text),
        routeros::read(text),
    ];
    for said in said {
        assert!(said.as_ref().is_err_and(|problem| problem.starts_with("has no ")), "{said:?}");
    }
}
