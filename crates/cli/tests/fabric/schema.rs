//! Checks the output of `ayatori plan --json` against the schema that `ayatori plan schema` prints.

use jsonschema::Validator;
use serde_json::Value;

use super::{ayatori, machine, text};

fn schema() -> Value {
    let output = ayatori(&["plan", "schema"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn validator() -> Validator {
    jsonschema::draft202012::options().should_validate_formats(true).build(&schema()).unwrap()
}

fn planned(words: &[&str]) -> Value {
    let output = ayatori(&[&["plan", "--json"], words].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", text(&output.stderr)))
}

fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn every_machines_plan_is_as_the_schema_says() {
    let validator = validator();
    let mut count = 0;
    for entry in std::fs::read_dir(machine("")).unwrap() {
        let file = entry.unwrap().path();
        let plan = planned(&[file.to_str().unwrap()]);
        assert_eq!(faults(&validator, &plan), Vec::<String>::new(), "{}", file.display());
        count += 1;
    }
    assert!(count > 10, "{count} machines");
}

#[test]
fn the_map_from_pairs_of_switches_to_vlans_is_in_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let torus = std::fs::read_to_string(machine("lab-torus.toml")).unwrap();
    std::fs::write(&file, tagged_by_hosts(&torus)).unwrap();
    let plan = planned(&[file.to_str().unwrap()]);
    assert_eq!(plan["choice"]["by-pair"]["vlans"].as_array().unwrap().len(), 8 * 8);
    assert_eq!(faults(&validator(), &plan), Vec::<String>::new());
}

#[test]
fn mstp_is_in_the_schema_and_needs_no_repairs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let torus = std::fs::read_to_string(machine("lab-torus.toml")).unwrap();
    let torus = torus.replace("\"linux-bridge\"", "\"comware\"");
    std::fs::write(&file, torus.replace("[plan]\n", "[plan]\nspanning_tree = \"mstp\"\n")).unwrap();
    let file = file.to_str().unwrap();
    let plan = planned(&[file, "--failures"]);
    assert_eq!(plan["mstp"]["instances"].as_array().unwrap().len(), 4);
    assert_eq!(faults(&validator(), &plan), Vec::<String>::new());
    let mut failures = plan["failures"].as_array().unwrap().iter();
    assert!(failures.all(|one| one["changed_switch_count"] == 0), "no failure changes a switch");
    let config = folder.path().join("config");
    let config = config.to_str().unwrap();
    assert!(ayatori(&["plan", file, "--out", config]).status.success());
    let repairs = ayatori(&["plan", "repairs", file, "--plan", config, "--out", &format!("{config}/r")]);
    let said = text(&repairs.stderr);
    assert!(!repairs.status.success() && said.contains("held by MSTP, which heals by itself"), "{said}");
}

fn tagged_by_hosts(text: &str) -> String {
    let line = "tagging = \"host\"\n";
    match text.split_once("[plan]\n") {
        Some((before, after)) => format!("{before}[plan]\n{line}{after}"),
        None => format!("{text}\n[plan]\n{line}"),
    }
}

#[test]
fn traffic_failures_cycles_and_alternatives_are_in_the_schema() {
    let validator = validator();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job");
    std::fs::write(&file, "node0 node4 1500000\n").unwrap();
    let torus = machine("lab-torus.toml").display().to_string();
    let plan = planned(&[&torus, "--failures", "--traffic", file.to_str().unwrap()]);
    assert_eq!(plan["failures"].as_array().unwrap().len(), 20);
    assert_eq!(faults(&validator, &plan), Vec::<String>::new());

    let ring = folder.path().join("ring.toml");
    let description = "name = \"ring\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
        nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 5\n\
        switch_model = \"s\"\n[hosts]\nmodel = \"h\"\ncount = 10\n[plan]\nrouting = \"minimal\"\n";
    std::fs::write(&ring, description).unwrap();
    let plan = planned(&[ring.to_str().unwrap()]);
    assert!(!plan["verdicts"]["deadlock"]["cycle"].as_array().unwrap().is_empty());
    assert!(plan["verdicts"]["alternative"].is_object());
    assert_eq!(faults(&validator, &plan), Vec::<String>::new());
}

/// A schema that allows everything would pass the tests above.
#[test]
fn no_key_may_be_missing_renamed_or_of_another_kind() {
    let validator = validator();
    let plan = planned(&[machine("supernova.toml").to_str().unwrap()]);
    let mut places = Vec::new();
    first_keys(&plan, String::new(), &mut places);
    assert!(places.len() > 80, "{}", places.len());
    for place in places {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let object = |value: &mut Value| value.pointer_mut(parent).unwrap().as_object_mut().unwrap().clone();
        let mut changed = plan.clone();
        let mut keys = object(&mut changed);
        let old = keys.remove(key).unwrap();
        *changed.pointer_mut(parent).unwrap() = Value::Object(keys.clone());
        assert!(!validator.is_valid(&changed), "without {place}");
        keys.insert(format!("{key}_"), old.clone());
        keys.insert(key.to_owned(), old);
        *changed.pointer_mut(parent).unwrap() = Value::Object(keys);
        assert!(!validator.is_valid(&changed), "{place}_ beside {place}");
        let mut changed = plan.clone();
        *changed.pointer_mut(&place).unwrap() = serde_json::json!([{ "no": "such thing" }]);
        assert!(!validator.is_valid(&changed), "{place} of another kind");
    }
}

/// Pointers to all keys, in the first element of each list.
fn first_keys(value: &Value, place: String, into: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            for (key, inner) in keys {
                into.push(format!("{place}/{key}"));
                first_keys(inner, format!("{place}/{key}"), into);
            }
        }
        Value::Array(list) => {
            if let Some(first) = list.first() {
                first_keys(first, format!("{place}/0"), into);
            }
        }
        _ => {}
    }
}
