//! `ayatori plan netbox`: tables out, tables back, and folders that are wrong.

use std::fs;
use std::path::Path;

use super::{ayatori, machine, text};

fn export(machine: &str, folder: &Path) -> Vec<String> {
    let folder_name = folder.to_str().unwrap();
    let output = ayatori(&["plan", "netbox", "export", machine, "--out", folder_name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_exported_plan_is_imported_and_planned_again() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    let names = export(machine("lab-torus.toml").to_str().unwrap(), &tables);
    let page = fs::read_to_string(machine("../docs/netbox.md")).unwrap();
    for name in &names {
        assert!(
            page.contains(&format!("`{}`", name.trim_end_matches(".csv"))),
            "docs/netbox.md lacks {name}"
        );
    }
    let file = folder.path().join("again.toml");
    let file = file.to_str().unwrap();
    let output =
        ayatori(&["plan", "netbox", "import", tables.to_str().unwrap(), "--name", "again", "--out", file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout).trim(), text(&output.stderr).as_str()), (file, ""));
    let plan = ayatori(&["plan", file]);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    let told = text(&plan.stdout);
    assert!(told.contains("8 switches, 16 hosts, 12 links"), "{told}");
}

#[test]
fn wrong_folders_and_names_are_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    let torus = machine("lab-torus.toml");
    let torus = torus.to_str().unwrap();
    let tables = folder.path().join("tables");
    export(torus, &tables);
    let tables = tables.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["import", "/nowhere"], "cannot read the folder /nowhere"),
        (&["import", empty], "no devices.json (of the REST API) and no devices.csv (of bulk import)"),
        (
            &["import", tables, "--host-role", "server"],
            "no device has the role of hosts; roles in use: host, switch",
        ),
        (&["import", tables, "--name", "a b"], "\"a b\""),
        (
            &["export", torus, "--out", empty, "--site", ""],
            "--site \"\": NetBox takes names of 1 to 100 characters",
        ),
    ];
    for (words, expected) in cases {
        let output = ayatori(&[&["plan", "netbox"], words].concat());
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
