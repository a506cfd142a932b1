//! What the example plan has not: static LAGs, pause off, long frames, one untagged VLAN on a port where a
//! make takes no more, ports that differ at both ends; and what a dialect refuses.

use std::collections::BTreeMap;

use super::golden_tests::{compare, example, golden_folder};
use super::{ALL, Dialect, by_name};
use crate::graph::SwitchId;
use crate::plan::{Membership, Plan, PortRole, VlanId, VlanSet};

fn set(vids: &[u16]) -> VlanSet {
    vids.iter().filter_map(|&vid| VlanId::new(vid)).collect()
}

/// The other choices of a plan, as far as the dialect has them: the link is in ports 5 and 6 of `right`.
fn other_example(dialect: &dyn Dialect, port_name: Option<&str>) -> Plan {
    let mut plan = example(dialect, port_name);
    plan.pause = false;
    plan.mtu_bytes = 9000;
    let is_lacp = dialect.name() == "sonic";
    plan.switches.iter_mut().flat_map(|switch| &mut switch.lags).for_each(|lag| lag.lacp = is_lacp);
    plan.links[0].ends[1].ports = vec![5, 6];
    let right = &mut plan.switches[1];
    right.lags[0].members = vec![5, 6];
    for (low, high) in [(4, 6), (5, 7)] {
        let [a, b] = [low, high].map(|at| {
            let port = &right.ports[at];
            (port.role, port.lag, port.membership.clone())
        });
        (right.ports[low].role, right.ports[low].lag, right.ports[low].membership) = b;
        (right.ports[high].role, right.ports[high].lag, right.ports[high].membership) = a;
    }
    if !dialect.capabilities().many_untagged_vlans_per_port {
        let own = Membership { pvid: VlanId::new(101), untagged: set(&[101]), tagged: set(&[102]) };
        for port in plan.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            if let PortRole::Host { .. } = port.role {
                port.membership = own.clone();
            }
        }
    }
    plan
}

#[test]
fn golden_other_choices_are_written_as_they_were_reviewed() {
    for dialect in ALL {
        let files = dialect.emit(&other_example(*dialect, None), SwitchId(0)).unwrap().files;
        compare(&golden_folder(&format!("{}-other", dialect.name())), &files);
    }
    let dell = by_name("dell-os6").unwrap();
    let files = dell.emit(&other_example(dell, Some("Gi1/0/{port}")), SwitchId(0)).unwrap().files;
    compare(&golden_folder("dell-os6-n-series-other"), &files);
}

#[test]
fn other_choices_are_read_back_as_the_plan() {
    // `linux-bridge` is a script: its state is what `bridge` prints.
    for dialect in ALL.iter().filter(|dialect| dialect.name() != "linux-bridge") {
        let plan = other_example(*dialect, None);
        let folder = tempfile::tempdir().unwrap();
        let mut states = BTreeMap::new();
        for switch in &plan.switches {
            for file in dialect.emit(&plan, switch.id).unwrap().files {
                let path = folder.path().join(&file.name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, file.text).unwrap();
            }
            states.insert(switch.name.clone(), crate::check::read(folder.path(), switch).unwrap().unwrap());
        }
        let found: Vec<String> =
            crate::check::compare(&plan, &states).iter().map(ToString::to_string).collect();
        assert_eq!(found, Vec::<String>::new(), "{}", dialect.name());
    }
}

/// One plan after the other on the same switch: nothing that the first one turned on is left.
#[test]
fn other_choices_take_back_those_of_the_plan_before() {
    let of_files = ["linux-bridge", "json", "sonic", "systemd-networkd", "openwrt"];
    for dialect in ALL.iter().filter(|dialect| !of_files.contains(&dialect.name())) {
        // A VLAN that is untagged now was tagged before, which ArubaOS-Switch changes by itself.
        let (first, second) = (example(*dialect, None), other_example(*dialect, None));
        for (before, after) in [(&first, &second), (&second, &first)] {
            let folder = tempfile::tempdir().unwrap();
            let [old, new] =
                [before, after].map(|plan| dialect.emit(plan, SwitchId(0)).unwrap().files.remove(0));
            // EOS takes one of `native vlan tag` and `native vlan N`, so its configuration never has both.
            let old_text = if dialect.name() == "arista-eos" {
                old.text.replace("switchport trunk native vlan tag\n", "\n")
            } else {
                old.text
            };
            std::fs::write(folder.path().join(&old.name), old_text + &new.text).unwrap();
            let state = crate::check::read(folder.path(), &after.switches[0]).unwrap().unwrap();
            let all = crate::check::compare(after, &BTreeMap::from([("left".to_owned(), state)]));
            let of_left = all.iter().filter(|found| found.switch == "left").map(ToString::to_string);
            assert_eq!(of_left.collect::<Vec<_>>(), Vec::<String>::new(), "{}", dialect.name());
        }
    }
}

#[test]
fn scripts_can_be_run_and_nothing_else_can() {
    for dialect in ALL {
        for file in dialect.emit(&example(*dialect, None), SwitchId(0)).unwrap().files {
            assert_eq!(file.executable, file.text.starts_with("#!"), "{}", file.name);
        }
    }
    let plan = example(by_name("linux-bridge").unwrap(), None);
    let mut files = vec![crate::host::interfaces(&plan, &plan.hosts[0]), crate::host::names(&plan)];
    files.extend(crate::host::priming(&plan));
    files.push(crate::host::boot_unit(&plan));
    files.extend(crate::ansible::files(&plan));
    for file in files {
        let is_script = file.text.starts_with("#!/bin/sh") || file.text.starts_with("#!/bin/bash");
        assert_eq!(file.executable, is_script, "{}", file.name);
    }
}

/// The message with which a plan is refused.
fn refusal(dialect: &str, change: impl Fn(&mut Plan)) -> Option<String> {
    let dialect = by_name(dialect).unwrap();
    let mut plan = example(dialect, None);
    change(&mut plan);
    dialect.emit(&plan, SwitchId(0)).err().map(|refusal| refusal.to_string())
}

#[test]
fn a_vlan_that_a_switch_keeps_for_itself_is_refused() {
    let with = |vid: u16| {
        move |plan: &mut Plan| {
            for port in plan.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
                if port.role != PortRole::Unused {
                    VlanId::new(vid).into_iter().for_each(|vlan| port.membership.tagged.insert(vlan));
                }
            }
        }
    };
    for dialect in ALL.iter().map(|dialect| dialect.name()) {
        let is_kept = ["dell-os6", "dell-os10", "edgeswitch"].contains(&dialect);
        assert_eq!(refusal(dialect, with(4093)), None, "{dialect}");
        let said = refusal(dialect, with(4094));
        assert_eq!(said.is_some(), is_kept, "{dialect}: {said:?}");
        assert!(said.is_none_or(|said| said.contains("VLAN 4094") && said.contains("lower first_vlan")));
    }
}

#[test]
fn frames_longer_than_a_switch_passes_are_refused() {
    for dialect in ALL {
        let limit = dialect.capabilities().mtu_max_bytes;
        let of = |mtu_bytes: u32| refusal(dialect.name(), |plan| plan.mtu_bytes = mtu_bytes);
        assert_eq!(of(limit), None, "{}", dialect.name());
        if limit < 65_535 {
            assert!(
                of(limit + 1).is_some_and(|said| said.contains("`mtu_bytes` of a NIC")),
                "{}",
                dialect.name()
            );
        }
    }
}

#[test]
fn what_a_dialect_has_no_words_for_is_refused() {
    let not_lacp = |plan: &mut Plan| plan.switches[0].lags[0].lacp = false;
    assert!(refusal("sonic", not_lacp).is_some_and(|said| said.contains("LAG 1 is static")));
    for dialect in ALL.iter().filter(|dialect| !dialect.capabilities().many_untagged_vlans_per_port) {
        // Two untagged VLANs; one that is not the PVID's; a PVID that the port is not in.
        for (pvid, untagged, tagged) in
            [(101, &[101, 102][..], &[][..]), (101, &[102][..], &[101][..]), (101, &[][..], &[102][..])]
        {
            let own = Membership { pvid: VlanId::new(pvid), untagged: set(untagged), tagged: set(tagged) };
            let said = refusal(dialect.name(), |plan| plan.switches[0].ports[0].membership = own.clone());
            assert!(said.is_some_and(|said| said.contains("tagging = \"host\"")), "{}", dialect.name());
        }
    }
    let named = |name: &'static str| move |plan: &mut Plan| plan.switches[0].ports[0].name = name.into();
    for dialect in ["linux-bridge", "systemd-networkd", "openwrt"] {
        for name in ["", "a port", "ge0/1", "sixteen-letters-", "-x", ".x"] {
            let said = refusal(dialect, named(name));
            assert!(said.is_some_and(|said| said.contains("cannot be the name of")), "{dialect}: {name:?}");
        }
        for name in ["x", "fifteen-letters", "a.b_c-1"] {
            assert_eq!(refusal(dialect, named(name)), None, "{dialect}: {name:?}");
        }
    }
}

/// A switch with no LAG and a link that carries nothing, in the words of each make.
#[test]
fn a_switch_without_lags_has_no_words_about_them() {
    for dialect in ALL.iter().filter(|dialect| dialect.name() != "json") {
        let mut plan = example(*dialect, None);
        for switch in &mut plan.switches {
            switch.lags.clear();
            for port in switch.ports.iter_mut().filter(|port| port.lag.is_some()) {
                (port.role, port.lag, port.membership) = (PortRole::Unused, None, Membership::default());
            }
        }
        for file in dialect.emit(&plan, SwitchId(0)).unwrap().files {
            let is_about = |line: &str| {
                let line = line.to_ascii_lowercase();
                ["port-channel", "lacp", "trunk-load", "load-balan", "bond", "aggregat", "802.3ad", "hash"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            let about: Vec<&str> = file.text.lines().filter(|line| is_about(line)).collect();
            assert_eq!(about, Vec::<&str>::new(), "{} {}", dialect.name(), file.name);
        }
    }
}

/// What a port is not in is taken off it by name, where a make does not take a whole list at once.
#[test]
fn a_vlan_that_a_port_is_not_in_is_taken_off() {
    let aruba = by_name("aruba-os-s").unwrap();
    let mut plan = example(aruba, None);
    plan.switches[0].lags[0].membership.tagged = set(&[101]);
    let text = aruba.emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
    assert!(text.contains("vlan 102\n   no tagged Trk1\n   no untagged Trk1\n   tagged 1,2\n"), "{text}");
    // Up to the last VLAN there is.
    let linux = by_name("linux-bridge").unwrap();
    let mut plan = example(linux, None);
    plan.switches[0].lags[0].membership.tagged = set(&[2, 4093]);
    let text = linux.emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
    for range in ["1", "3-4092", "4094"] {
        assert!(text.contains(&format!("vlan del vid {range} dev bond1\n")), "{range}: {text}");
    }
}

#[test]
fn frames_a_little_longer_are_the_least_a_switch_takes() {
    for (dialect, least) in [("comware", 1536), ("huawei-vrp", 1536)] {
        let mut plan = example(by_name(dialect).unwrap(), None);
        let mut said = |mtu_bytes: u32| {
            plan.mtu_bytes = mtu_bytes;
            let text = by_name(dialect).unwrap().emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
            text.lines().find_map(|line| line.trim().strip_prefix("jumboframe enable ").map(str::to_owned))
        };
        assert_eq!(said(1500), None);
        // 22 bytes around the payload: addresses, tag, type and checksum.
        assert_eq!(
            [said(1501), said(1514), said(1515)],
            [least, least, 1537].map(|bytes| Some(bytes.to_string()))
        );
    }
}

/// The file of a switch's commands.
fn text_of(dialect: &str, plan: &Plan, switch: u32) -> String {
    let files = by_name(dialect).unwrap().emit(plan, SwitchId(switch)).unwrap().files;
    files.into_iter().next().unwrap().text
}

#[test]
fn a_planned_vlan_1_is_not_taken_off_its_ports() {
    let mut plan = other_example(by_name("aruba-os-s").unwrap(), None);
    assert!(text_of("aruba-os-s", &plan, 0).contains("vlan 1\n   no untagged "));
    let one = VlanId::new(1).unwrap();
    plan.switches[0].ports.iter_mut().for_each(|port| port.membership.tagged.insert(one));
    assert!(!text_of("aruba-os-s", &plan, 0).contains("vlan 1\n   no untagged "));
}

#[test]
fn comwares_ports_of_hosts_that_tag_are_hybrid() {
    for dialect in ["comware", "huawei-vrp"] {
        let mut plan = example(by_name(dialect).unwrap(), None);
        let all = plan.vlan_set();
        for port in plan.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            if let PortRole::Host { .. } = port.role {
                port.membership = Membership { tagged: all.clone(), ..Membership::default() };
            }
        }
        let text = text_of(dialect, &plan, 0);
        let kinds: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(" port link-type ")).collect();
        // Two of hosts, and the LAG.
        assert_eq!(kinds.iter().filter(|kind| **kind == "hybrid").count(), 2, "{dialect}: {kinds:?}");
        assert!(kinds.iter().filter(|kind| **kind == "trunk").count() >= 1, "{dialect}: {kinds:?}");
    }
}

/// A port of a LAG that takes shorter frames than the LAG cannot join it.
#[test]
fn members_of_a_lag_take_frames_as_long_as_the_lags() {
    let plan = other_example(by_name("cisco-nxos").unwrap(), None);
    let text = text_of("cisco-nxos", &plan, 0);
    let sections: Vec<&str> = text.split("\ninterface ").skip(1).collect();
    let members: Vec<&&str> = sections.iter().filter(|section| section.contains("channel-group")).collect();
    assert_eq!(members.len(), 2, "{text}");
    let lag = sections.iter().find(|section| section.starts_with("port-channel")).unwrap();
    let mtu = |section: &str| section.lines().find(|line| line.trim().starts_with("mtu ")).map(str::to_owned);
    assert!(mtu(lag).is_some(), "{text}");
    assert!(members.iter().all(|section| mtu(section) == mtu(lag)), "{text}");
}

#[test]
fn a_link_without_vlans_is_no_trunk_on_junos() {
    let mut plan = other_example(by_name("junos-els").unwrap(), None);
    let trunks = |plan: &Plan| text_of("junos-els", plan, 0).matches("interface-mode trunk").count();
    assert_eq!(trunks(&plan), 3);
    let left = &mut plan.switches[0];
    left.lags[0].membership = Membership::default();
    left.ports
        .iter_mut()
        .filter(|port| port.lag.is_some())
        .for_each(|port| port.membership = Membership::default());
    assert_eq!(trunks(&plan), 2, "that of the LAG is gone");
}

#[test]
fn sonic_keeps_addresses_for_ever_with_a_time_of_0() {
    let mut plan = example(by_name("sonic").unwrap(), None);
    let time = |plan: &Plan| {
        let files = by_name("sonic").unwrap().emit(plan, SwitchId(0)).unwrap().files;
        let text = files.iter().find(|file| file.name.ends_with(".json")).unwrap().text.clone();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["SWITCH"]["switch"]["fdb_aging_time"].as_str().unwrap().to_owned()
    };
    assert_eq!(time(&plan), "100000");
    plan.switches[0].aging_time_s = None;
    assert_eq!(time(&plan), "0");
}
