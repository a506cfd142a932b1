//! What a person sees of `plan check`, `plan prime` and `lab` when something is missing or wrong.

use super::browser::skip;
use super::{ayatori, machine, text};
use std::path::Path;

fn torus() -> String {
    machine("lab-torus.toml").to_str().unwrap().to_owned()
}

#[test]
fn check_without_state_says_which_files_it_wants() {
    let folder = tempfile::tempdir().unwrap();
    let output = ayatori(&["plan", "check", &torus(), "--from", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("has no state of any switch") && errors.contains(".vlan.json"), "{errors}");
}

#[test]
fn check_names_what_one_switch_alone_shows() {
    let folder = tempfile::tempdir().unwrap();
    let state = r#"[{"ifname":"swp1","vlans":[{"vlan":7,"flags":["PVID","Egress Untagged"]}]}]"#;
    std::fs::write(folder.path().join("s0.0.vlan.json"), state).unwrap();
    let output = ayatori(&["plan", "check", &torus(), "--from", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let lines = text(&output.stdout);
    assert!(lines.contains("s0.0 swp1: carries VLAN 7, not planned here"), "{lines}");
    assert!(lines.contains("s3.1: no state was collected"), "{lines}");
}

#[test]
fn prime_says_what_it_would_send_and_where_a_host_is_not_set_up() {
    let output = ayatori(&["plan", "prime", &torus(), "--host", "node3", "--dry-run"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 4, "one line for each VLAN");
    let output = ayatori(&["plan", "prime", &torus(), "--host", "node3"]);
    let errors = text(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("run this host's script of the plan first"),
        "{errors}"
    );
    let output = ayatori(&["plan", "prime", &torus(), "--host", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("has no host nobody; its first is node0; say which"));
}

#[test]
fn lab_without_a_kernel_says_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = ayatori(&["lab", &torus(), "--kernel", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no boot/vmlinuz-VERSION with lib/modules/VERSION below"));
    let output = ayatori(&["lab", &torus(), "--host", "nobody", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "a usage error before anything is started");
}

#[test]
fn the_agent_outside_the_virtual_machine_says_so() {
    let output = ayatori(&["lab", "--agent"]);
    assert!(text(&output.stderr).contains("runs only inside the lab's virtual machine"));
}

#[test]
fn plan_puts_a_given_traffic_on_the_links() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.csv");
    // node0 is at s0.0 and node4 at s2.0: two links each way, of which the paths there and back share none.
    std::fs::write(&file, "from,to,bytes\nnode0,node4,1MB\nnode0,node4,500kB\nnode0,node1,7\n").unwrap();
    let output = ayatori(&["plan", &torus(), "--traffic", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.contains("3 entries, 1500007 bytes, of which 7 stay at their switch"), "{summary}");
    // 1.5 MB at 1 Gbit/s.
    assert!(summary.contains("the busiest link needs 12.000 ms"), "{summary}");
    let output = ayatori(&["plan", &torus(), "--json", "--traffic", file.to_str().unwrap()]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let channels = plan["traffic"]["channels"].as_array().unwrap();
    assert_eq!(channels.len(), 2);
    assert!(channels.iter().all(|channel| channel["bytes"] == 1_500_000), "{channels:?}");
}

#[test]
fn plan_names_the_line_of_a_wrong_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic");
    std::fs::write(&file, "node0 node4 1000\nnode0 nobody 5\n").unwrap();
    let output = ayatori(&["plan", &torus(), "--traffic", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("traffic:2: there is no host \"nobody\""), "{errors}");
    std::fs::write(&file, "node0 node4 1000\n").unwrap();
    let lost = ayatori(&["plan", &torus(), "--without-switch", "s2.0", "--traffic", file.to_str().unwrap()]);
    assert!(text(&lost.stderr).contains("there is no route from node0 to node4"), "{}", text(&lost.stderr));
}

/// Names of files below a folder that the other has with another text.
fn differing(one: &std::path::Path, other: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["", "hosts"] {
        for entry in std::fs::read_dir(one.join(folder)).unwrap() {
            let name = Path::new(folder).join(entry.unwrap().file_name());
            let texts = [one, other].map(|root| std::fs::read(root.join(&name)).ok());
            if one.join(&name).is_file() && texts[0] != texts[1] {
                names.push(name.display().to_string());
            }
        }
    }
    names.sort();
    names
}

#[test]
fn files_of_a_repaired_plan_differ_only_for_changed_switches() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, repaired] = ["whole", "repaired"].map(|name| folder.path().join(name));
    let write = |out: &Path, more: &[&str]| {
        let output = ayatori(&[&["plan", &torus(), "--out", out.to_str().unwrap()], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    write(&whole, &[]);
    write(&repaired, &["--without-link", "s0.0,s1.0"]);
    let mut names = differing(&whole, &repaired);
    assert_eq!(names.pop().as_deref(), Some("s1.1.sh"), "{names:?}");
    assert_eq!(names.iter().filter(|name| *name != "plan.json").count(), 3, "{names:?}");

    let output = ayatori(&["plan", &torus(), "--failures", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failures = plan["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 12 + 8);
    assert_eq!(failures[0]["failure"], "link s0.0 - s1.0");
    assert_eq!(failures[0]["changed_switch_count"], 4, "as many as files differ");
    // Four of twelve links cross the middle; one of them is gone.
    assert_eq!(failures[0]["bisection"]["bits_per_s"], 3_000_000_000_u64);
}

#[test]
fn a_file_that_cannot_be_read_does_not_silence_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("s0.0.vlan.json", "not json");
    put("s0.1.vlan.json", r#"[{"ifname":"swp1","vlans":[{"vlan":7,"flags":["PVID","Egress Untagged"]}]}]"#);
    let output = ayatori(&["plan", "check", &torus(), "--from", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let lines = text(&output.stdout);
    assert!(
        lines.contains("s0.0: its state cannot be read: ") && lines.contains("s0.0.vlan.json"),
        "{lines}"
    );
    assert!(lines.contains("s0.1 swp1: carries VLAN 7, not planned here"), "{lines}");
}

#[test]
fn only_files_of_an_earlier_plan_are_named_and_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let plan = |file: &str, more: &[&str]| {
        let output = ayatori(&[&["plan", file, "--out", out.to_str().unwrap()], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(!plan(&torus(), &[]).contains("earlier"));
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    std::fs::write(out.join("older.cfg"), "! Written by `ayatori plan` (some method).").unwrap();
    let complete = machine("lab-complete.toml").to_str().unwrap().to_owned();
    for _ in 0..2 {
        let told = plan(&complete, &[]);
        assert!(told.contains("not of this one: ") && told.contains("--prune removes them"), "{told}");
        assert!(told.contains(" older.cfg") && told.contains(" s0.0.sh"), "{told}");
    }
    assert!(out.join("s0.0.sh").exists());
    let told = plan(&complete, &["--prune"]);
    assert!(told.contains("removed, of an earlier plan: "), "{told}");
    assert!(!out.join("s0.0.sh").exists() && !out.join("older.cfg").exists());
    assert!(out.join("notes.txt").exists() && out.join("hosts/ayatori-prime").exists());
    assert!(!plan(&complete, &[]).contains("earlier"));
}

#[test]
fn two_files_with_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let text_of = "name = \"m\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\n[host_models.h]\n\
        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[[switch]]\nname = \"plan\"\nmodel = \"s\"\nhosts = 2\n\
        [hosts]\nmodel = \"h\"\ncount = 2\n";
    std::fs::write(&file, text_of).unwrap();
    let out = folder.path().join("out");
    let output = ayatori(&["plan", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let errors = text(&output.stderr);
    assert!(errors.contains("two files would be called plan.json and plan.json"), "{errors}");
    assert!(!out.exists(), "nothing is written then");
}

#[test]
fn a_plan_is_continued_from_the_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let old = folder.path().join("m.toml");
    let description = |switches: &[&str], cables: &[&str]| {
        let mut text = String::from(
            "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\ndialect = \"linux-bridge\"\n\
             [host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n[hosts]\nmodel = \
             \"h\"\nper_switch = 2\n",
        );
        for switch in switches {
            text += &format!("[[switch]]\nname = \"{switch}\"\nmodel = \"s\"\n");
        }
        for cable in cables {
            let (from, to) = cable.split_once(' ').unwrap();
            text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        }
        std::fs::write(&old, text).unwrap();
    };
    let plan = |more: &[&str]| {
        let output = ayatori(&[&["plan", old.to_str().unwrap(), "--out", out], more].concat());
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let script = |name: &str| std::fs::read_to_string(format!("{out}/{name}.sh")).unwrap();
    let cables = ["a:8 b:8", "b:7 c:8", "c:7 a:7"];
    description(&["a", "b", "c"], &cables);
    plan(&[]);
    let before = ["a", "b", "c"].map(script);
    // A cable that no tree needs: nothing changes but the two switches that have it.
    description(&["a", "b", "c"], &[&["a:6 b:6"], &cables[..]].concat());
    let summary = plan(&["--from", out]);
    assert!(summary.contains("repaired"), "{summary}");
    let after = ["a", "b", "c"].map(script);
    assert_eq!(before[2], after[2]);
    assert_ne!(before[0], after[0]);
    std::fs::write(folder.path().join("not.json"), "{}").unwrap();
    let not = folder.path().join("not.json");
    let output = ayatori(&["plan", old.to_str().unwrap(), "--from", not.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not a plan.json"), "{}", text(&output.stderr));
}

/// Where `ansible-playbook` is installed, it reads what is written.
#[test]
fn ansible_takes_the_playbook() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap().to_owned();
    assert!(ayatori(&["plan", &torus(), "--out", &out]).status.success());
    let program = std::env::var("ANSIBLE_PLAYBOOK").unwrap_or_else(|_| "ansible-playbook".into());
    let playbook = ["-i", "ansible/inventory.yml", "--syntax-check", "ansible/apply.yml"];
    let mut command = std::process::Command::new(&program);
    match command.args(playbook).current_dir(&out).env("HOME", &out).output() {
        Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
        Err(_) => skip("the playbook's syntax: no ansible-playbook (pip install ansible-core)"),
    }
}
