//! `ayatori plan design` as a buyer uses it.

use std::path::Path;

use serde_json::Value;

use super::{ayatori, text};

fn prices() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prices-2009.toml");
    path.display().to_string()
}

#[test]
fn designs_are_written_as_machine_files_that_plan_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("designs");
    let words =
        ["plan", "design", "--hosts", "40", "--bisection", "3G", "--count", "2", "--bytes", "256", "--json"];
    let output = ayatori(&[&words[..], &["--prices", &prices(), "--out", out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["designs"].as_array().unwrap().len(), 2);
    for (index, design) in found["designs"].as_array().unwrap().iter().enumerate() {
        assert!(design["all_to_all_s"].as_f64().unwrap() > 0.0, "simulated");
        let file = out.join(format!("{}.toml", index + 1));
        let planned = ayatori(&["plan", file.to_str().unwrap(), "--json"]);
        assert!(planned.status.success(), "{}", text(&planned.stderr));
        let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
        assert_eq!(planned["figures"], design["figures"]);
        let cables = std::fs::read_to_string(out.join(format!("{}.cables.csv", index + 1))).unwrap();
        assert_eq!(cables.lines().count(), 1 + design["cables"].as_array().unwrap().len());
        let columns = |line: &str| line.split(',').count();
        assert!(cables.lines().all(|line| columns(line) == 10), "{cables}");
    }
}

#[test]
fn the_papers_torus_costs_sixteen_thousand_dollars_of_switches() {
    let words =
        ["plan", "design", "--hosts", "225", "--bisection", "24G", "--bytes", "0", "--prices", &prices()]
            .map(str::to_owned);
    let output = ayatori(&words.each_ref().map(String::as_str));
    let table = text(&output.stdout);
    let lines: Vec<&str> = table.lines().collect();
    let at = lines.iter().position(|line| line.contains("torus 4x2 of powerconnect-6248, 6 cables a link"));
    assert!(lines[at.unwrap() - 1].contains(" 16000 "), "{table}");
    assert!(table.contains("free"), "{table}");
}
