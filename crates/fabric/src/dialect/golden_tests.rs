//! Each dialect's output for the example plan against files in `tests/golden/`, so that a change of a word is
//! seen in review. After a change that is meant: `UPDATE_GOLDEN=1 cargo test -p ayatori-fabric golden`, and
//! read the diff.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ALL, Config, ConfigFile, Dialect, by_name, capabilities_of};
use crate::description::Machine;
use crate::graph::{LinkId, SwitchId};
use crate::plan::{
    Membership, Mstp, MstpInstance, Plan, Tagging, VlanChoice, VlanId, VlanSet, two_switches_and_four_hosts,
};

/// The example for one dialect: its port names, and host tagging where it needs that.
pub(crate) fn example(dialect: &dyn Dialect, port_name: Option<&str>) -> Plan {
    let mut plan = two_switches_and_four_hosts();
    let capabilities = dialect.capabilities();
    for switch in &mut plan.switches {
        switch.dialect = dialect.name().into();
        switch.model = "example-model".into();
        for port in &mut switch.ports {
            let pattern = port_name.unwrap_or(capabilities.port_name);
            let from_zero = (port.number - 1).to_string();
            port.name = pattern.replace("{port0}", &from_zero).replace("{port}", &port.number.to_string());
        }
    }
    if !capabilities.many_untagged_vlans_per_port {
        tag_in_hosts(&mut plan);
    }
    plan
}

fn tag_in_hosts(plan: &mut Plan) {
    plan.tagging = Tagging::Host;
    plan.choice = VlanChoice::ByPair { switch_count: 2, vlans: vec![Some(0), Some(1), Some(1), Some(0)] };
    let all = plan.vlan_set();
    for port in plan.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
        if port.membership.pvid.is_some() {
            port.membership = Membership { pvid: None, untagged: VlanSet::new(), tagged: all.clone() };
        }
    }
}

/// The example held by MSTP: the only link is in the tree of one VLAN's instance, and in none of the other's.
pub(crate) fn mstp_example(dialect: &dyn Dialect) -> Plan {
    let mut plan = example(dialect, None);
    let instance = |number: u16, tree: Vec<LinkId>| MstpInstance {
        number,
        vlans: [plan.vlans[usize::from(number) - 1].vid].into_iter().collect(),
        tree,
        root: SwitchId(u32::from(number) - 1),
        second_root: Some(SwitchId(2 - u32::from(number))),
    };
    let instances = vec![instance(1, vec![LinkId(0)]), instance(2, Vec::new())];
    plan.mstp = Some(Mstp { region: plan.machine.clone(), revision: 1, instances });
    plan
}

pub(crate) fn compare(folder: &Path, config: &[ConfigFile]) {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for file in config {
        let path = folder.join(&file.name);
        if update {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            golden == file.text,
            "{} has changed; if that is meant, UPDATE_GOLDEN=1 and read the diff. Now:\n{}",
            path.display(),
            file.text
        );
    }
    let mut written: Vec<PathBuf> = config.iter().map(|file| folder.join(&file.name)).collect();
    let mut reviewed = files_below(folder);
    written.sort();
    reviewed.sort();
    assert_eq!(written, reviewed, "a file is missing, or too many");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

pub(crate) fn golden_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn golden_every_dialect_writes_what_was_reviewed() {
    for dialect in ALL {
        let plan = example(*dialect, None);
        let Config { files } = dialect.emit(&plan, SwitchId(0)).unwrap();
        compare(&golden_folder(dialect.name()), &files);
    }
}

#[test]
fn golden_mstp_is_written_only_by_makes_that_have_it() {
    for dialect in ALL {
        let written = dialect.emit(&mstp_example(*dialect), SwitchId(0));
        match written {
            Ok(config) => {
                assert!(dialect.capabilities().mstp_instances_max > 0, "{}", dialect.name());
                compare(&golden_folder(&format!("{}-mstp", dialect.name())), &config.files);
            }
            Err(refusal) => {
                assert_eq!(dialect.capabilities().mstp_instances_max, 0, "{}", dialect.name());
                assert!(refusal.to_string().contains("no words for MSTP"), "{refusal}");
            }
        }
    }
}

#[test]
fn golden_the_newer_dells_words_differ() {
    let dialect = super::by_name("dell-os6").unwrap();
    let plan = example(dialect, Some("Gi1/0/{port}"));
    compare(&golden_folder("dell-os6-n-series"), &dialect.emit(&plan, SwitchId(0)).unwrap().files);
}

#[test]
fn golden_hosts_get_interfaces_addresses_and_a_timer() {
    for (name, dialect) in [("hosts-switch-tagged", "linux-bridge"), ("hosts-host-tagged", "arista-eos")] {
        let plan = example(super::by_name(dialect).unwrap(), None);
        let mut files = vec![crate::host::interfaces(&plan, &plan.hosts[0]), crate::host::names(&plan)];
        files.extend(crate::host::priming(&plan));
        files.push(crate::host::boot_unit(&plan));
        compare(&golden_folder(name), &files);
    }
}

#[test]
fn the_same_plan_gives_the_same_files() {
    for dialect in ALL {
        let write = || dialect.emit(&example(*dialect, None), SwitchId(1)).unwrap();
        assert_eq!(write(), write(), "{}", dialect.name());
    }
}

#[test]
fn every_dialect_has_its_row_and_every_row_its_dialect() {
    for (name, _) in super::KNOWN {
        assert!(super::by_name(name).is_some(), "{name} is known and has no file");
    }
    for dialect in ALL {
        assert!(capabilities_of(dialect.name()).is_some(), "{} is not in KNOWN", dialect.name());
    }
}

#[test]
fn dialects_with_one_untagged_vlan_refuse_several_with_advice() {
    for dialect in ALL.iter().filter(|dialect| !dialect.capabilities().many_untagged_vlans_per_port) {
        let mut plan = two_switches_and_four_hosts();
        plan.switches[0].dialect = dialect.name().into();
        let refusal = dialect.emit(&plan, SwitchId(0)).unwrap_err().to_string();
        assert!(refusal.contains("one native VLAN") && refusal.contains("tagging = \"host\""), "{refusal}");
    }
}

#[test]
fn ios_drops_untagged_frames_on_every_model() {
    // `vlan dot1q tag native` is missing on some models: the native VLAN is one that the trunk does not carry
    // instead.
    let dialect = super::by_name("cisco-ios").unwrap();
    for (vids, native) in [([101, 102], 1), ([1, 2], 4094), ([1, 4094], 4093)] {
        let mut plan = example(dialect, None);
        let vids = vids.map(|vid| VlanId::new(vid).unwrap());
        let all: VlanSet = vids.into_iter().collect();
        for switch in &mut plan.switches {
            for membership in switch.ports.iter_mut().map(|port| &mut port.membership) {
                membership.tagged = if membership.tagged.is_empty() { VlanSet::new() } else { all.clone() };
            }
            switch.lags.iter_mut().for_each(|lag| lag.membership.tagged = all.clone());
        }
        let text = dialect.emit(&plan, SwitchId(0)).unwrap().files.remove(0).text;
        assert!(!text.contains("tag native"), "{text}");
        let trunks = text.matches("switchport mode trunk\n").count();
        assert_eq!(
            text.matches(&format!("switchport trunk native vlan {native}\n")).count(),
            trunks,
            "{text}"
        );
    }
}

#[test]
fn long_frames_reach_every_file_or_are_refused() {
    for dialect in ALL {
        let usual = dialect.emit(&example(*dialect, None), SwitchId(0)).unwrap();
        let mut plan = example(*dialect, None);
        plan.mtu_bytes = 9_000;
        plan.hosts.iter_mut().for_each(|host| host.attachments[0].mtu_bytes = 9_000);
        let long = dialect.emit(&plan, SwitchId(0)).unwrap();
        // EOS and SONiC pass them as shipped; `json` states it for its readers.
        let is_shipped_so = ["arista-eos", "sonic"].contains(&dialect.name());
        assert!(is_shipped_so || usual != long, "{}", dialect.name());
        plan.mtu_bytes = 60_000;
        match dialect.emit(&plan, SwitchId(0)) {
            Ok(_) => assert_eq!(dialect.capabilities().mtu_max_bytes, 65_535, "{}", dialect.name()),
            Err(refusal) => assert!(refusal.to_string().contains("60000 bytes"), "{refusal}"),
        }
    }
}

#[test]
fn every_file_of_commands_saves_itself_for_the_next_start() {
    let saves = [
        ("dell-os6", "copy running-config startup-config"),
        ("comware", "save force"),
        ("arista-eos", "write memory"),
        ("cisco-nxos", "copy running-config startup-config"),
        ("cisco-ios", "write memory"),
        ("linux-bridge", "WantedBy=multi-user.target"),
        ("sonic", "config save -y"),
    ];
    for (name, command) in saves {
        let dialect = super::by_name(name).unwrap();
        let files = dialect.emit(&example(dialect, None), SwitchId(0)).unwrap().files;
        assert!(files.iter().any(|file| file.text.contains(command)), "{name} does not save");
    }
}

/// The script against a database in a file, and a `config` that writes down what it is asked.
#[test]
fn sonics_script_removes_unplanned_vlans_from_planned_ports() {
    use std::os::unix::fs::PermissionsExt as _;
    let dialect = super::by_name("sonic").unwrap();
    let files = dialect.emit(&example(dialect, None), SwitchId(0)).unwrap().files;
    let script = files.iter().find(|file| file.name == "left.remove.sh").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let keys = ["Vlan101|Ethernet0", "Vlan7|Ethernet0", "Vlan1|PortChannel0001", "Vlan7|Ethernet40"];
    let lines: Vec<String> = keys.iter().map(|key| format!("echo 'VLAN_MEMBER|{key}'")).collect();
    tool("sonic-db-cli", &lines.join("\n"));
    tool("config", "echo \"$@\"\n");
    tool("script", script.text.strip_prefix("#!/bin/sh\n").unwrap());
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let output = std::process::Command::new(folder.path().join("script")).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = String::from_utf8_lossy(&output.stdout);
    assert_eq!(asked, "vlan member del 7 Ethernet0\nvlan member del 1 PortChannel0001\n");
}

/// Three hosts in a ring, with a bridge inside each.
fn bridges_in_hosts(tagging: &str) -> Plan {
    let mut text = "name = \"three\"\n[host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 10 }, \
        { name = \"eth1\", rate_gbps = 10 }]\n"
        .to_owned();
    for name in ["a", "b", "c"] {
        text += &format!("[[host]]\nname = \"{name}\"\nmodel = \"h\"\n");
    }
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
        text += &format!("[[cable]]\nfrom = \"{from}:eth0\"\nto = \"{to}:eth1\"\n");
    }
    text += &format!("[plan]\ntagging = \"{tagging}\"\n");
    let machine = Machine::parse("three.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    crate::vlan::plan(&machine).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_bridge_inside_a_host_is_in_its_hosts_vlans() {
    for tagging in ["switch", "host"] {
        let plan = bridges_in_hosts(tagging);
        let all: Vec<u16> = plan.vlan_set().iter().map(VlanId::get).collect();
        assert!(all.len() > 1, "nothing is shown by one VLAN");
        for switch in &plan.switches {
            let own = plan.host(switch.inside_host.unwrap()).attachments[0].interface.clone();
            let pvids: Vec<u16> = plan
                .hosts
                .iter()
                .filter(|host| host.attachments[0].switch == switch.id)
                .filter_map(|host| plan.vlan_between(&host.attachments[0], &host.attachments[0]))
                .map(VlanId::get)
                .collect();
            let script = &by_name("linux-bridge").unwrap().emit(&plan, switch.id).unwrap().files[0].text;
            let of_itself =
                |line: &&str| line.starts_with("vlan add") && line.contains(&format!(" dev {own} self"));
            let said: Vec<&str> = script.lines().filter(of_itself).collect();
            assert_eq!(script.matches("\n# this host itself\n").count(), 1, "{script}");
            let units = by_name("systemd-networkd").unwrap().emit(&plan, switch.id).unwrap().files;
            let unit = units.iter().find(|file| file.name.ends_with(&format!("11-{own}.network"))).unwrap();
            assert!(unit.text.contains("# This host's own frames."), "{}", unit.text);
            let count = |word: &str| unit.text.matches(word).count();
            if tagging == "switch" {
                assert!(said.iter().all(|line| line.ends_with(" untagged")), "{said:?}");
                assert_eq!(said[0], format!("vlan add vid {} dev {own} self pvid untagged", pvids[0]));
                assert!(unit.text.contains(&format!("PVID={}\n", pvids[0])) && count("EgressUntagged") >= 2);
            } else {
                assert_eq!(said, [format!("vlan add vid {}-{} dev {own} self", all[0], all[all.len() - 1])]);
                assert_eq!((count("PVID"), count("EgressUntagged"), count("[BridgeVLAN]")), (0, 0, 1));
            }
        }
    }
}

#[test]
fn a_bridge_inside_a_host_is_the_hosts_interface() {
    let mut plan = bridges_in_hosts("switch");
    plan.hosts[1].attachments[0].interface = "lan0".into();
    let names = plan.switches.iter().map(|switch| super::linux_bridge::bridge_name(&plan, switch));
    assert_eq!(names.collect::<Vec<_>>(), ["br0", "lan0", "br0"]);
}
