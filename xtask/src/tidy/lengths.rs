//! Files under 800 lines, functions under 70. Exceptions are listed with their length and may only shrink.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Findings, rust};
use crate::paths;

/// The limits and today's exceptions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    file_lines_max: usize,
    function_lines_max: usize,
    /// `path` → its length.
    files: BTreeMap<String, usize>,
    /// `path::function` → its length.
    functions: BTreeMap<String, usize>,
}

pub(super) fn check(limits: &Limits, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let (mut long_files, mut long_functions) = (BTreeMap::new(), BTreeMap::new());
    for file in files {
        let Some(language) = language(file) else { continue };
        let text = std::fs::read_to_string(paths::root().join(file))?;
        let name = file.display().to_string();
        let lines = text.lines().count();
        if lines > limits.file_lines_max {
            long_files.insert(name.clone(), lines);
        }
        for (function, lines) in functions(language, &text).with_context(|| name.clone())? {
            if lines > limits.function_lines_max {
                let longest = long_functions.entry(format!("{name}::{function}")).or_insert(0);
                *longest = lines.max(*longest);
            }
        }
    }
    ratchet("lengths.files", limits.file_lines_max, &limits.files, &long_files, findings);
    ratchet("lengths.functions", limits.function_lines_max, &limits.functions, &long_functions, findings);
    Ok(())
}

#[derive(Clone, Copy)]
enum Language {
    Rust,
    C,
}

/// What is measured: source by hand. `include/mpi.h` is written by a program.
fn language(file: &Path) -> Option<Language> {
    if file.ends_with("include/mpi.h") {
        return None;
    }
    match file.extension()?.to_str()? {
        "rs" => Some(Language::Rust),
        "c" | "h" | "cc" => Some(Language::C),
        _ => None,
    }
}

fn functions(language: Language, text: &str) -> Result<Vec<(String, usize)>> {
    Ok(match language {
        Language::Rust => {
            let functions = rust::functions(text)?.into_iter();
            functions.map(|function| (function.name, function.lines)).collect()
        }
        Language::C => c_functions(text),
    })
}

/// In our C style a function's braces stand in the first column.
fn c_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut open = None;
    for (i, line) in lines.iter().enumerate() {
        if line.trim_end() == "{" && i > 0 {
            let head = lines[i - 1];
            let name = head.split('(').next().unwrap_or("").rsplit([' ', '*']).next().unwrap_or("");
            open = Some((name.to_owned(), i));
        } else if line.starts_with('}')
            && let Some((name, start)) = open.take()
        {
            found.push((name, i - start + 2));
        }
    }
    found
}

/// New or grown: too long. Shrunk or gone: the list must follow.
fn ratchet(
    list: &str,
    limit: usize,
    allowed: &BTreeMap<String, usize>,
    found: &BTreeMap<String, usize>,
    findings: &mut Findings,
) {
    for (name, lines) in found {
        match allowed.get(name) {
            None => findings.push(format!("{name}: {lines} lines, the limit is {limit}; split it")),
            Some(old) if lines > old => {
                findings.push(format!("{name}: grew from {old} to {lines} lines; split it"))
            }
            Some(old) if lines < old => {
                findings.push(format!(
                    "{name}: shrank from {old} to {lines} lines; lower it in {list} of xtask/tidy.toml"
                ));
            }
            Some(_) => {}
        }
    }
    for name in allowed.keys().filter(|name| !found.contains_key(*name)) {
        findings.push(format!("{name}: within the limit now; take it out of {list} of xtask/tidy.toml"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_may_shrink_only_and_must_be_followed() {
        let list = |lines| BTreeMap::from([("a.rs".to_owned(), lines)]);
        let count = |allowed: &BTreeMap<_, _>, found: &BTreeMap<_, _>| {
            let mut findings = Findings::new();
            ratchet("x", 70, allowed, found, &mut findings);
            findings.len()
        };
        let none = BTreeMap::new();
        assert_eq!(count(&list(90), &list(90)), 0);
        assert_eq!(count(&list(90), &list(91)), 1);
        assert_eq!(count(&list(90), &list(80)), 1);
        assert_eq!(count(&list(90), &none), 1);
        assert_eq!(count(&none, &list(71)), 1);
    }

    #[test]
    fn c_functions_are_measured_from_their_head_to_their_brace() {
        let text = "static int add(int a, int b)\n{\n    return a + b;\n}\nint x;\n";
        assert_eq!(c_functions(text), [("add".to_owned(), 4)]);
    }
}
