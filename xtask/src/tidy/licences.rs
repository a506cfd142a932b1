//! Every dependency's licence must be one that the list allows.
//!
//! Not by cargo-deny: every machine that runs the tests would have to build or fetch that tool, for what the
//! `spdx` crate does in a line.

use anyhow::Result;
use serde_json::Value;
use spdx::{Expression, ParseMode};

use super::{Findings, metadata};

pub(super) fn check(allowed: &[String], findings: &mut Findings) -> Result<()> {
    check_packages(&metadata(true)?, allowed, findings);
    Ok(())
}

fn check_packages(metadata: &Value, allowed: &[String], findings: &mut Findings) {
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or("");
        let Some(licence) = package["license"].as_str() else {
            findings.push(format!("{name}: says no licence"));
            continue;
        };
        match Expression::parse_mode(licence, ParseMode::LAX) {
            Err(_) => findings.push(format!("{name}: its licence `{licence}` is not an SPDX expression")),
            Ok(expression) => {
                let good = expression.evaluate(|requirement| {
                    let id = requirement.license.id();
                    id.is_some_and(|id| allowed.iter().any(|known| known == id.name))
                });
                if !good {
                    findings.push(format!(
                        "{name}: licence `{licence}` is not allowed (licences in xtask/tidy.toml)"
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(licence: Value) -> usize {
        let mut findings = Findings::new();
        let metadata = json!({"packages": [{"name": "a", "license": licence}]});
        check_packages(&metadata, &["MIT".to_owned(), "Apache-2.0".to_owned()], &mut findings);
        findings.len()
    }

    #[test]
    fn one_alternative_is_enough_and_every_part_is_needed() {
        assert_eq!(found(json!("MIT OR GPL-3.0-only")), 0);
        assert_eq!(found(json!("MIT/Apache-2.0")), 0);
        assert_eq!(found(json!("Apache-2.0 WITH LLVM-exception")), 0);
        assert_eq!(found(json!("MIT AND GPL-3.0-only")), 1);
        assert_eq!(found(json!("no idea")), 1);
        assert_eq!(found(Value::Null), 1);
    }
}
