//! Which crate may depend on which (ARCHITECTURE.md): core and fabric on nothing of ours, devices on core,
//! and so on.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use super::{Findings, metadata};

/// The allowed arrows inside the workspace. A crate that is not listed may not exist without a line here.
/// Tests of any crate may draw random numbers.
const ARROWS: [(&str, &[&str]); 12] = [
    ("ayatori-random", &[]),
    ("ayatori-core", &[]),
    ("ayatori-fabric", &["ayatori-random"]),
    ("ayatori-lab", &["ayatori-fabric"]),
    ("ayatori-devices", &["ayatori-core"]),
    ("ayatori-launch", &["ayatori-core", "ayatori-devices"]),
    ("ayatori-sim", &["ayatori-core", "ayatori-fabric", "ayatori-random"]),
    ("ayatori-study", &["ayatori-core", "ayatori-fabric", "ayatori-random", "ayatori-sim"]),
    ("ayatori-mpi", &["ayatori-core", "ayatori-devices", "ayatori-launch", "ayatori-fabric"]),
    (
        "ayatori",
        &[
            "ayatori-core",
            "ayatori-devices",
            "ayatori-fabric",
            "ayatori-lab",
            "ayatori-launch",
            "ayatori-mpi",
            "ayatori-sim",
            "ayatori-study",
        ],
    ),
    ("ayatori-python", &["ayatori-core", "ayatori-fabric", "ayatori-sim", "ayatori-study"]),
    ("xtask", &["ayatori-random"]),
];

pub(super) fn check(allowed: &BTreeMap<String, Vec<String>>, findings: &mut Findings) -> Result<()> {
    check_packages(&metadata(false)?, allowed, findings);
    Ok(())
}

fn check_packages(metadata: &Value, allowed: &BTreeMap<String, Vec<String>>, findings: &mut Findings) {
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or("");
        let Some((_, arrows)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: a new crate; give it its arrows in xtask/src/tidy/arrows.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or("");
            let ours = ARROWS.iter().any(|(known, _)| *known == target);
            let draws = target == "ayatori-random" && dependency["kind"] == "dev";
            if ours && !draws && !arrows.contains(&target) {
                findings.push(format!("{name}: must not depend on {target} (ARCHITECTURE.md: arrows)"));
            }
            // Not linked into the library: dev-dependencies, those of test configurations, and those of
            // features.
            let is_optional = dependency["optional"].as_bool() == Some(true);
            let linked = dependency["kind"].is_null() && !is_optional && !test_only(dependency);
            let is_library = linked && allowed.contains_key(name);
            if is_library && ours && dependency["features"].as_array().is_some_and(|list| !list.is_empty()) {
                findings.push(format!(
                    "{name}: turns on features of {target}, which may link what is not listed"
                ));
            }
            let outside = allowed.get(name).filter(|_| linked && !ours);
            if outside.is_some_and(|list| !list.iter().any(|known| known == target)) {
                let place = "library_dependencies in xtask/tidy.toml";
                findings.push(format!("{name}: {target} is not among its dependencies in {place}"));
            }
        }
    }
}

fn test_only(dependency: &Value) -> bool {
    dependency["target"].as_str().is_some_and(|target| target.contains("loom"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(metadata: &Value) -> Findings {
        let allowed = BTreeMap::from([("ayatori-devices".to_owned(), vec!["libc".to_owned()])]);
        let mut findings = Findings::new();
        check_packages(metadata, &allowed, &mut findings);
        findings
    }

    fn package(name: &str, dependency: &str, kind: Option<&str>) -> Value {
        json!({"packages": [{"name": name, "dependencies": [{"name": dependency, "kind": kind, "target": null}]}]})
    }

    #[test]
    fn an_arrow_against_the_architecture_is_found_in_tests_too() {
        assert!(findings(&package("ayatori-devices", "ayatori-core", None)).is_empty());
        assert_eq!(findings(&package("ayatori-core", "ayatori-devices", None)).len(), 1);
        assert_eq!(findings(&package("ayatori-core", "ayatori-sim", Some("dev"))).len(), 1);
    }

    #[test]
    fn an_unlisted_dependency_is_found_but_not_one_of_tests() {
        assert!(findings(&package("ayatori-devices", "libc", None)).is_empty());
        assert_eq!(findings(&package("ayatori-devices", "tokio", None)).len(), 1);
        assert!(findings(&package("ayatori-devices", "proptest", Some("dev"))).is_empty());
    }

    #[test]
    fn optional_dependencies_pass_while_no_feature_is_on() {
        let package = |name: &str, target: &str, is_optional: bool, features: &[&str]| {
            json!({"packages": [{"name": name, "dependencies": [{
                "name": target, "kind": null, "target": null, "optional": is_optional, "features": features
            }]}]})
        };
        assert!(findings(&package("ayatori-devices", "tokio", true, &[])).is_empty());
        assert!(findings(&package("ayatori-devices", "ayatori-core", false, &[])).is_empty());
        assert_eq!(findings(&package("ayatori-devices", "ayatori-core", false, &["std"])).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(findings(&package("ayatori-common", "libc", None)).len(), 1);
    }
}
