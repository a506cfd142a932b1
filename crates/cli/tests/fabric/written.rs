//! A plan that was continued is checked, shown, primed and simulated as it was written.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ayatori, text};

/// A ring of four switches with two hosts each, with a chord or without.
fn description(chord: bool) -> String {
    let mut text = String::from(
        "name = \"ring\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\ndialect = \"json\"\n[host_models.h]\n\
         nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[hosts]\nmodel = \"h\"\nper_switch = 2\n",
    );
    for switch in ["a", "b", "c", "d"] {
        text += &format!("[[switch]]\nname = \"{switch}\"\nmodel = \"s\"\n");
    }
    for cable in ["a:7 b:8", "b:7 c:8", "c:7 d:8", "d:7 a:8", "a:6 c:6"].iter().take(4 + usize::from(chord)) {
        let (from, to) = cable.split_once(' ').unwrap();
        text += &format!("[[cable]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    }
    text
}

/// The machine with the chord, and the folder of the plan that was continued from the one without.
struct Continued {
    folder: tempfile::TempDir,
}

impl Continued {
    fn new() -> Continued {
        let continued = Continued { folder: tempfile::tempdir().unwrap() };
        std::fs::write(continued.path("m.toml"), description(false)).unwrap();
        let plan = |more: &[&str]| {
            let [file, out] = [continued.file(), continued.out()];
            let output = ayatori(&[&["plan", &file, "--force", "--json", "--out", &out], more].concat());
            assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        plan(&[]);
        std::fs::write(continued.path("m.toml"), description(true)).unwrap();
        assert_eq!(plan(&["--from", &continued.out()])["is_repaired"], true);
        continued
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> String {
        self.path("m.toml").display().to_string()
    }

    fn out(&self) -> String {
        self.path("out").display().to_string()
    }

    /// What a task prints with the written plan, and with the machine planned anew.
    fn both(&self, words: &[&str]) -> [String; 2] {
        let run = |more: &[&str]| {
            let output = ayatori(&[words, more].concat());
            assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        [run(&["--plan", &self.out()]), run(&[])]
    }
}

#[test]
fn a_continued_plan_is_checked_as_written() {
    let continued = Continued::new();
    // The json dialect writes what a switch set up so shows of itself.
    let [written, anew] = continued.both(&["plan", "check", &continued.file(), "--from", &continued.out()]);
    assert!(written.starts_with("as planned: 4 switches"), "{written}");
    assert!(anew.contains("differences; apply the planned configuration again"), "{anew}");
}

#[test]
fn a_continued_plan_is_shown_as_written() {
    let continued = Continued::new();
    let page = continued.path("page.html");
    let pages = [vec!["--plan".to_owned(), continued.out()], Vec::new()].map(|more| {
        let file = continued.file();
        let mut words = vec!["plan", "show", &file, "--html", page.to_str().unwrap()];
        words.extend(more.iter().map(String::as_str));
        assert!(ayatori(&words).status.success());
        std::fs::read_to_string(&page).unwrap()
    });
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(continued.path("out/plan.json")).unwrap()).unwrap();
    let trees: Vec<String> =
        plan["vlans"].as_array().unwrap().iter().map(|vlan| format!("\"tree\":{}", vlan["tree"])).collect();
    assert!(trees.iter().all(|tree| pages[0].contains(tree)), "{trees:?}");
    let count = |page: &str| page.matches("\"tree\":").count();
    assert_eq!(count(&pages[0]), trees.len());
    assert_ne!(count(&pages[1]), trees.len(), "planned anew it has others");
}

#[test]
fn a_continued_plan_is_primed_as_written() {
    let continued = Continued::new();
    let hosts = ["plan", "prime", &continued.file(), "--host", "h0", "--dry-run"].map(str::to_owned);
    let [written, _] = continued.both(&hosts.each_ref().map(String::as_str));
    let plan = std::fs::read_to_string(continued.path("out/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let vids: Vec<String> =
        plan["vlans"].as_array().unwrap().iter().map(|vlan| format!("eth0.{}: ", vlan["vid"])).collect();
    assert_eq!(written.lines().count(), vids.len());
    assert!(written.lines().zip(&vids).all(|(line, vid)| line.starts_with(vid)), "{written}");
}

#[test]
fn a_continued_plan_is_simulated_as_written() {
    let continued = Continued::new();
    let words = ["sim", "run", &continued.file(), "alltoall", "--bytes", "64K", "--json"].map(str::to_owned);
    let outcomes = continued.both(&words.each_ref().map(String::as_str));
    let elapsed = outcomes.map(|text| serde_json::from_str::<Value>(&text).unwrap()["elapsed_ps"].clone());
    std::fs::write(continued.path("old.toml"), description(false)).unwrap();
    let old = continued.path("old.toml");
    let output = ayatori(&["sim", "run", old.to_str().unwrap(), "alltoall", "--bytes", "64K", "--json"]);
    let old: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(elapsed[0].is_u64());
    assert_eq!(elapsed[0], old["elapsed_ps"], "no tree has the chord");
    assert_ne!(elapsed[0], elapsed[1], "planned anew, some have");
}

#[test]
fn plan_of_another_machine_is_refused_with_first_difference() {
    let continued = Continued::new();
    let refusal = |machine: &str, words: &[&str]| {
        std::fs::write(continued.path("m.toml"), machine).unwrap();
        let file = continued.file();
        let words: Vec<&str> =
            words.iter().map(|&word| if word == "@" { file.as_str() } else { word }).collect();
        let output = ayatori(&[&words[..], &["--plan", &continued.out()]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    let check = ["plan", "check", "@", "--from", "."];
    let machine = description(true);
    for (changed, expected) in [
        (description(false), "its link a:6 - c:6 is not described"),
        (machine.replace("\"d:7\"", "\"d:5\""), "it has no link d:5 - a:8"),
        (machine.replace("per_switch = 2", "per_switch = 1"), "its host h4 is not described"),
        (machine.replace("\"a", "\"z"), "it has no switch z"),
        (machine.replace("ports = 8", "ports = 9"), "a is another model there"),
    ] {
        let error = refusal(&changed, &check);
        assert!(error.contains(expected) && error.contains("continue it with"), "{error}");
    }
    let simulated = refusal(&description(false), &["sim", "run", "@", "barrier"]);
    assert!(simulated.contains("was not written for this machine"), "{simulated}");
    let routers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/fx10.toml");
    let output = ayatori(&["sim", "run", routers.to_str().unwrap(), "barrier", "--plan", &continued.out()]);
    assert_eq!(output.status.code(), Some(1));
}
