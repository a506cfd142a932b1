//! `ayatori plan repairs` and `plan watch`, with switches that are files: what a switch shows is read from a
//! folder, what is applied to it is copied into another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ayatori, machine, text};

struct Site {
    folder: tempfile::TempDir,
    machine: String,
    plan: Value,
}

impl Site {
    fn new() -> Site {
        Site::of(torus())
    }

    fn of(machine: String) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let mut site = Site { folder, machine, plan: Value::Null };
        let output = ayatori(&["plan", &site.machine, "--json", "--out", &site.path("config")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        site.plan = serde_json::from_slice(&output.stdout).unwrap();
        for folder in ["shown", "applied", "primed", "taken"] {
            fs::create_dir(site.path(folder)).unwrap();
        }
        site.show(&[]);
        site
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn repairs(&self) -> String {
        let (config, repairs) = (self.path("config"), self.path("repairs"));
        let output = ayatori(&["plan", "repairs", &self.machine, "--plan", &config, "--out", &repairs]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The port states of every switch while these links are cut.
    fn show(&self, cut: &[usize]) {
        let mut shown: BTreeMap<u64, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
        for (id, link) in self.plan["links"].as_array().unwrap().iter().enumerate() {
            for (own, far) in [(0, 1), (1, 0)] {
                let [own, far] = [own, far].map(|end| &link["ends"][end]);
                let [own_ports, far_ports] = [own, far].map(|end| end["ports"].as_array().unwrap());
                let (heard, links) = shown.entry(own["switch"].as_u64().unwrap()).or_default();
                let is_up = !cut.contains(&id);
                let flags = if is_up { vec!["UP", "LOWER_UP"] } else { vec!["NO-CARRIER", "UP"] };
                let name = &self.plan["switches"][far["switch"].as_u64().unwrap() as usize]["name"];
                for (port, far_port) in own_ports.iter().zip(far_ports) {
                    let [port, far_port] = [port, far_port].map(|port| format!("swp{port}"));
                    links.push(json!({ "ifname": port, "flags": flags }));
                    if is_up {
                        let port_id = json!({ "id": { "type": "ifname", "value": far_port } });
                        let chassis = json!({ name.as_str().unwrap(): {} });
                        heard.push(json!({ port: { "chassis": chassis, "port": port_id } }));
                    }
                }
            }
        }
        for (switch, (heard, links)) in shown {
            let name = self.plan["switches"][switch as usize]["name"].as_str().unwrap();
            let text = format!("{}\n{}", json!({ "lldp": { "interface": heard } }), Value::Array(links));
            fs::write(self.folder.path().join("shown").join(name), text).unwrap();
        }
    }

    /// Lines of so many rounds, without their times.
    fn watch(&self, rounds: u32, more: &[&str]) -> Vec<String> {
        let output = self.watch_command(rounds, more);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let lines = text(&output.stdout);
        lines.lines().map(|line| line.split_once(" s  ").unwrap().1.to_owned()).collect()
    }

    fn watch_command(&self, rounds: u32, more: &[&str]) -> std::process::Output {
        let words = [
            "plan",
            "watch",
            &self.machine,
            "--plan",
            &self.path("config"),
            "--repairs",
            &self.path("repairs"),
            "--show",
            "cat \"$SITE/shown/$SWITCH\"",
            "--every",
            "0",
            "--rounds",
            &rounds.to_string(),
        ]
        .map(str::to_owned);
        std::process::Command::new(env!("CARGO_BIN_EXE_ayatori"))
            .args(words)
            .args(more)
            .env("SITE", self.folder.path())
            .output()
            .unwrap()
    }

    fn applying(&self, rounds: u32) -> Vec<String> {
        self.watch(rounds, &["--apply", APPLY, "--prime", PRIME])
    }

    /// Hosts take their files, too, but those for which there is a file `NAME.off`.
    fn applying_to_hosts(&self, rounds: u32) -> Vec<String> {
        let words = ["--apply", APPLY, "--prime", PRIME, "--apply-host", APPLY_HOST];
        self.watch(rounds, &words)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn torus() -> String {
    machine("lab-torus.toml").to_str().unwrap().to_owned()
}

fn complete() -> String {
    machine("lab-complete.toml").to_str().unwrap().to_owned()
}

const APPLY: &str =
    "cp \"$FILE\" \"$SITE/applied/$SWITCH.sh\" && echo \"$SWITCH\" >> \"$SITE/applied/order\"";
const PRIME: &str = "touch \"$SITE/primed/$HOST\"";
const APPLY_HOST: &str = "test ! -e \"$SITE/$HOST.off\" && cp \"$FILE\" \"$SITE/taken/$HOST.sh\" \
    && cp \"$PRIME\" \"$SITE/taken/$HOST.prime\"";

#[test]
fn every_link_and_switch_has_a_folder_of_ordered_changes() {
    let site = Site::new();
    let lines = site.repairs();
    let failures = lines.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(failures, 12 + 8, "{lines}");
    assert!(lines.lines().all(|line| line.contains("; busiest link ")), "{lines}");
    let page = fs::read_to_string(machine("../docs/watch.md")).unwrap();
    assert!(page.contains(lines.lines().next().unwrap()), "docs/watch.md shows another line: {lines}");
    let folders: Vec<String> = site.names("repairs").into_iter().filter(|name| name != "plan.json").collect();
    assert_eq!(folders.len(), 20, "{folders:?}");
    for folder in folders {
        let order = site.read(&format!("repairs/{folder}/order"));
        assert!(!order.starts_with('#'), "{folder}: {order}");
        for switch in order.lines() {
            let own = site.read(&format!("repairs/{folder}/{switch}.sh"));
            assert_ne!(own, site.read(&format!("config/{switch}.sh")), "{folder}");
        }
    }
    assert_eq!(site.repairs(), lines, "again the same");
}

/// Where the VLANs of `[plan]` cannot share the load of what failed, more of them are offered, apart.
#[test]
fn a_repair_with_more_vlans_stands_apart() {
    let site = Site::of(complete());
    let lines = site.repairs();
    let repairs = site.path("repairs");
    let page = fs::read_to_string(machine("../docs/watch.md")).unwrap();
    for line in lines.lines().take(2) {
        assert!(page.contains(line), "docs/watch.md has another line: {line}");
    }
    let shares = |line: &str| -> f64 {
        let (_, rest) = line.split_once(" times, ").unwrap();
        rest.split_once(' ').unwrap().0.parse().unwrap()
    };
    let all: Vec<&str> = lines.lines().collect();
    let more = all.windows(2).filter(|two| two[1].starts_with("    more-vlans: "));
    assert_eq!(more.clone().count(), 15, "{lines}");
    for two in more {
        assert!(shares(two[0]) > 1.5 && shares(two[1]) <= 1.5, "{two:?}");
        assert!(!two[0].contains("; scripts of") && two[1].contains("; scripts of 12 hosts; "), "{two:?}");
    }
    let own = Path::new(&repairs).join("link-s0-15--s1-15");
    assert!(!own.join("hosts").exists() && own.join("more-vlans/hosts/node0.sh").exists());
    assert!(own.join("more-vlans/order").exists());
}

#[test]
fn more_vlans_are_applied_to_hosts_too_and_left_again() {
    let site = Site::of(complete());
    site.repairs();
    site.show(&[0]);
    // Without leave to change hosts, only the switches are changed.
    let lines = site.watch(2, &[]);
    let advice = "with more VLANs the busiest link would have 1.20 instead of 1.60 times the least of what \
                  is left; --apply-host lets that be applied";
    assert_eq!(lines.iter().filter(|line| *line == advice).count(), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("would apply ")).count(), 3, "{lines:?}");
    let lines = site.watch(2, &["--apply-host", "false"]);
    assert!(lines.iter().any(|line| line.ends_with("hosts to 12 hosts")), "{lines:?}");
    assert!(!lines.iter().any(|line| line == advice), "{lines:?}");
    assert_eq!([site.names("applied"), site.names("taken")].concat(), Vec::<String>::new());

    let lines = site.applying_to_hosts(2);
    let without = "without link s0:15 - s1:15, with more VLANs";
    assert!(lines.last().unwrap().starts_with(&format!("applied: {without}, ")), "{lines:?}");
    let more = "repairs/link-s0-15--s1-15/more-vlans";
    assert_eq!(site.read("applied/order"), site.read(&format!("{more}/order")));
    for switch in site.read("applied/order").lines() {
        assert_eq!(site.read(&format!("applied/{switch}.sh")), site.read(&format!("{more}/{switch}.sh")));
    }
    assert_eq!(site.names("taken").len(), 2 * 12);
    assert_eq!(site.read("taken/node7.sh"), site.read(&format!("{more}/hosts/node7.sh")));
    assert_eq!(site.read("taken/node7.prime"), site.read(&format!("{more}/hosts/ayatori-prime")));
    assert_eq!(site.names("primed").len(), 12);

    let output = site.watch_command(1, &["--apply", APPLY]);
    let errors = text(&output.stderr);
    assert!(errors.ends_with("more VLANs; --apply-host is needed to go back\n"), "{errors}");
    assert_eq!(site.applying_to_hosts(3).len(), 2 + 1, "the cables are told, nothing is changed");

    site.show(&[]);
    let lines = site.applying_to_hosts(6);
    assert!(lines.last().unwrap().starts_with("applied: the plan itself"), "{lines:?}");
    for name in site.names("applied").iter().filter(|name| name.ends_with(".sh")) {
        assert_eq!(site.read(&format!("applied/{name}")), site.read(&format!("config/{name}")), "{name}");
    }
    assert_eq!(site.read("taken/node7.sh"), site.read("config/hosts/node7.sh"));
    assert_eq!(site.read("taken/node7.prime"), site.read("config/hosts/ayatori-prime"));
    assert_eq!(site.read("repairs/standing") + &site.read("repairs/hosts-left"), "");
}

#[test]
fn a_host_that_does_not_take_its_script_is_asked_again() {
    let site = Site::of(complete());
    site.repairs();
    site.show(&[0]);
    fs::write(site.path("node3.off"), "").unwrap();
    let lines = site.applying_to_hosts(2);
    let refused = lines.iter().filter(|line| line.starts_with("node3 does not take its script: "));
    assert_eq!(refused.count(), 1, "{lines:?}");
    assert!(lines.last().unwrap().starts_with("applied: "), "the network goes on: {lines:?}");
    assert_eq!(site.read("repairs/hosts-left"), "node3\n");
    fs::remove_file(site.path("node3.off")).unwrap();
    fs::remove_file(site.path("primed/node3")).unwrap();
    let lines = site.applying_to_hosts(12);
    assert_eq!(lines.last().unwrap(), "node3 has taken its script");
    let more = "repairs/link-s0-15--s1-15/more-vlans/hosts";
    assert_eq!(site.read("taken/node3.sh"), site.read(&format!("{more}/node3.sh")));
    assert!(site.names("primed").contains(&"node3".to_owned()));
    assert_eq!(site.read("repairs/hosts-left"), "");
    fs::write(site.path("repairs/hosts-left"), "nobody\n").unwrap();
    let errors = text(&site.watch_command(1, &[]).stderr);
    assert!(errors.ends_with("hosts-left: \"nobody\" is no host of this machine\n"), "{errors}");
}

#[test]
fn a_cut_cable_is_only_told_without_apply() {
    let site = Site::new();
    site.repairs();
    assert_eq!(site.watch(3, &[]), ["8 switches every 0 s; dry run: nothing is applied"]);
    site.show(&[0]);
    let lines = site.watch(3, &[]);
    assert_eq!(lines[1], "cable s0.0 swp22 - s1.0 swp22 has no link");
    assert!(lines[2].starts_with("without link s0.0:22 - s1.0:22: "), "{lines:?}");
    assert!(lines[3].starts_with("would apply "), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "then prime every host: systemctl start ayatori-prime");
    assert_eq!(site.names("applied"), Vec::<String>::new());
}

#[test]
fn a_cut_cable_is_repaired_primed_and_restored_when_it_is_back() {
    let site = Site::new();
    site.repairs();
    site.show(&[0]);
    let lines = site.applying(2);
    assert!(lines.last().unwrap().starts_with("applied: without link s0.0:22 - s1.0:22, "), "{lines:?}");
    let folder = "repairs/link-s0.0-22--s1.0-22";
    let order = site.read(&format!("{folder}/order"));
    assert_eq!(site.read("applied/order"), order);
    for switch in order.lines() {
        assert_eq!(site.read(&format!("applied/{switch}.sh")), site.read(&format!("{folder}/{switch}.sh")));
    }
    assert_eq!(site.names("primed").len(), 16);
    // It was stopped and starts again: what was applied is known.
    assert_eq!(site.applying(3).len(), 2, "the cable is told, nothing is changed");
    // A second cable: the repair for both is computed now.
    site.show(&[0, 5]);
    let lines = site.applying(3);
    assert!(lines.last().unwrap().starts_with("applied: without link s0.0:22 - s1.0:22, link "), "{lines:?}");
    site.show(&[]);
    let lines = site.applying(6);
    assert!(lines.last().unwrap().starts_with("applied: the plan itself"), "{lines:?}");
    for name in site.names("applied").iter().filter(|name| name.ends_with(".sh")) {
        assert_eq!(site.read(&format!("applied/{name}")), site.read(&format!("config/{name}")), "{name}");
    }
    assert_eq!(site.read("repairs/standing"), "");
}

#[test]
fn a_switch_that_refuses_is_tried_again_and_then_held() {
    let site = Site::new();
    site.repairs();
    site.show(&[3]);
    let lines = site.watch(40, &["--apply", "echo no >&2; exit 1", "--changes", "3"]);
    let failed: Vec<&String> = lines.iter().filter(|line| line.starts_with("not applied: ")).collect();
    assert_eq!(failed.len(), 3, "{lines:?}");
    assert!(failed[0].contains("does not take") && failed[0].ends_with("exit status: 1: no"), "{failed:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("held: 3 changes")).count(), 1, "{lines:?}");
}

#[test]
fn half_applied_change_is_reverted_when_the_cable_is_back() {
    let site = Site::new();
    site.repairs();
    fs::rename(site.path("shown"), site.path("back")).unwrap();
    fs::create_dir(site.path("shown")).unwrap();
    site.show(&[3]);
    // The second switch refuses once; then the cable is back.
    let apply = "echo \"$SWITCH\" >> \"$SITE/order\"; \
        if [ ! -e \"$SITE/refused\" ] && [ $(sort -u \"$SITE/order\" | wc -l) = 2 ]; then \
            : > \"$SITE/refused\"; cp \"$SITE\"/back/* \"$SITE/shown/\"; exit 1; \
        fi; cp \"$FILE\" \"$SITE/applied/$SWITCH.sh\"";
    let lines = site.watch(20, &["--apply", apply, "--prime", PRIME]);
    let [failed, taken_back] = ["not applied: ", "taken back: 2 switches"]
        .map(|start| lines.iter().filter(|line| line.starts_with(start)).count());
    assert_eq!((failed, taken_back), (1, 1), "{lines:?}");
    assert!(lines.last().unwrap().starts_with("applied: the plan itself"), "{lines:?}");
    let order = site.read("order");
    let mut changed: Vec<&str> = order.lines().collect();
    changed.dedup();
    assert_eq!(changed.len(), 3, "there and back: {changed:?}");
    assert_eq!(changed[0], changed[2]);
    for name in site.names("applied").iter().filter(|name| name.ends_with(".sh")) {
        assert_eq!(site.read(&format!("applied/{name}")), site.read(&format!("config/{name}")), "{name}");
    }
}

#[test]
fn wrong_folders_and_commands_are_told_in_a_line() {
    let site = Site::new();
    let (config, repairs) = (site.path("config"), site.path("repairs"));
    let torus = torus();
    let watch = |show: &str| {
        let words = ["plan", "watch", &torus, "--plan", &config, "--repairs", &repairs, "--show", show];
        ayatori(&[&words[..], &["--every", "0", "--rounds", "1"]].concat())
    };
    let errors = text(&watch("true").stderr);
    assert!(errors.contains("has no repairs; `ayatori plan repairs` writes them"), "{errors}");
    site.repairs();
    for (show, what) in [
        ("echo x", "s0.0: has no table of LLDP neighbours"),
        ("echo bad >&2; exit 3", "s0.0: the command ends with exit status: 3: bad"),
    ] {
        let lines = text(&watch(show).stdout);
        assert!(lines.contains(what) && lines.contains("s0.0 does not answer"), "{lines}");
    }
    fs::write(Path::new(&repairs).join("plan.json"), "{}").unwrap();
    let errors = text(&watch("true").stderr);
    assert!(errors.contains("has the repairs of another plan"), "{errors}");
    let output = ayatori(&["plan", "repairs", &torus, "--plan", &config, "--out", &config]);
    assert!(text(&output.stderr).contains("is the plan's own folder"), "{}", text(&output.stderr));
}

#[test]
fn check_compares_cables_with_what_lldp_hears() {
    let site = Site::new();
    site.show(&[1]);
    for name in site.names("shown") {
        let shown = site.folder.path().join("shown").join(&name);
        fs::copy(&shown, shown.with_file_name(format!("{name}.lldp.json"))).unwrap();
    }
    let check = || ayatori(&["plan", "check", &torus(), "--from", &site.path("shown")]);
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().filter(|line| line.contains(" has no link, planned s")).count(), 2, "{lines}");
    assert!(lines.ends_with("2 differences; plug the cables as planned\n"), "{lines}");
    let of_first: PathBuf = site.folder.path().join("shown/s0.0.lldp.json");
    fs::write(&of_first, "nonsense").unwrap();
    let lines = text(&check().stdout);
    assert!(lines.contains("s0.0: its neighbours cannot be read: "), "{lines}");
    site.show(&[]);
    for name in ["s0.0", "s0.1"] {
        let shown = site.folder.path().join("shown").join(name);
        fs::copy(&shown, shown.with_file_name(format!("{name}.lldp.json"))).unwrap();
    }
    for entry in fs::read_dir(site.path("shown")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".lldp.json") && !["s0.0.lldp.json", "s0.1.lldp.json"].contains(&name.as_str()) {
            fs::remove_file(path).unwrap();
        }
    }
    let output = check();
    assert_eq!(text(&output.stdout), "as planned: cables of 2 of 8 switches\n");
    assert!(output.status.success());
}

#[test]
fn check_compares_counters_with_the_plans_loads() {
    let site = Site::new();
    let flows = site.plan["figures"]["channel_flows"].as_array().unwrap();
    // As many bytes as flows, and so much more on the first link's first direction.
    let write = |more: u64| {
        let mut lines: BTreeMap<u64, String> = BTreeMap::new();
        for (id, link) in site.plan["links"].as_array().unwrap().iter().enumerate() {
            for end in 0..2 {
                let bytes = flows[2 * id + end].as_u64().unwrap() * 1_000_000;
                let bytes = bytes + if (id, end) == (0, 0) { more } else { 0 };
                let own = &link["ends"][end];
                let line = format!("swp{} {bytes}\n", own["ports"][0]);
                *lines.entry(own["switch"].as_u64().unwrap()).or_default() += &line;
            }
        }
        for (switch, text) in lines {
            let name = site.plan["switches"][switch as usize]["name"].as_str().unwrap();
            fs::write(site.folder.path().join(format!("shown/{name}.before.txt")), "# none\n").unwrap();
            fs::write(site.folder.path().join(format!("shown/{name}.after.txt")), text).unwrap();
        }
    };
    let check = |more: &[&str]| {
        let output = ayatori(&[&["plan", "check", &torus(), "--from", &site.path("shown")], more].concat());
        (output.status.code(), text(&output.stdout))
    };
    write(0);
    let (code, lines) = check(&[]);
    assert!(lines.contains("16000000 bytes, 4.2 % of all, planned 4.2 %"), "{lines}");
    assert!(lines.ends_with("as planned: counters of 8 of 8 switches\n"), "{lines}");
    assert_eq!(code, Some(0));
    write(100_000_000);
    assert_eq!(check(&[]).0, Some(0), "what ran is not known");
    let all = site.folder.path().join("all");
    let hosts: Vec<&str> =
        site.plan["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap()).collect();
    let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from, to)));
    let flows = pairs.filter(|(from, to)| from != to).map(|(from, to)| format!("{from} {to} 1000\n"));
    fs::write(&all, flows.collect::<String>()).unwrap();
    let (code, lines) = check(&["--traffic", all.to_str().unwrap()]);
    assert!(lines.contains("s0.0: 24.0 % of all bytes went to s1.0, planned 4.2 %"), "{lines}");
    assert!(
        lines.ends_with("1 difference; see what sends there, and whether VLANs are as planned\n"),
        "{lines}"
    );
    assert_eq!(code, Some(1));
}
