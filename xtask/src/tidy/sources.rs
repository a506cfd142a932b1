//! What the text of the files must and must not say.

use std::path::PathBuf;

use anyhow::Result;

use super::{Findings, rust};
use crate::paths;

/// Crate roots and the attribute each must carry.
const ATTRIBUTES: [(&str, &str); 8] = [
    ("crates/core/src/lib.rs", "#![no_std]"),
    ("crates/fabric/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/lab/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/sim/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/study/src/lib.rs", "#![forbid(unsafe_code)]"),
    ("crates/cli/src/main.rs", "#![forbid(unsafe_code)]"),
    ("crates/core/src/lib.rs", "unsafe_code"),
    ("xtask/src/main.rs", "#![forbid(unsafe_code)]"),
];

pub(super) fn check(unsafe_files: &[String], files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    for (file, attribute) in ATTRIBUTES {
        let text = std::fs::read_to_string(paths::root().join(file)).unwrap_or_default();
        if !text.contains(attribute) {
            findings.push(format!("{file}: must say {attribute}"));
        }
    }
    let hosts = registry_hosts();
    for file in files {
        let bytes = std::fs::read(paths::root().join(file))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let name = file.display().to_string();
        let rust = file.extension().is_some_and(|ext| ext == "rs");
        let may_be_unsafe = unsafe_files.iter().any(|pattern| fits(pattern, &name));
        if rust
            && !may_be_unsafe
            && let Some(line) = line_with_word(&rust::blank(&text), "unsafe")
        {
            findings.push(format!(
                "{name}:{line}: `unsafe` is not allowed here (unsafe_files in xtask/tidy.toml)"
            ));
        }
        // Cargo itself writes the name of its registry into Cargo.lock.
        let lock = file.ends_with("Cargo.lock");
        if !lock && let Some(host) = hosts.iter().find(|host| text.contains(host.as_str())) {
            findings
                .push(format!("{name}: names the package registry {host}; leave it to the tool's settings"));
        }
    }
    unused(unsafe_files, files, findings);
    Ok(())
}

/// Hosts of package registries. Put together here, so that this file does not name them either.
fn registry_hosts() -> Vec<String> {
    let pairs = [
        ("crates", "io"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("proxy.golang", "org"),
    ];
    pairs.iter().map(|(name, end)| format!("{name}.{end}")).collect()
}

/// A pattern that fits no file is out of date.
fn unused(patterns: &[String], files: &[PathBuf], findings: &mut Findings) {
    for pattern in patterns {
        if !files.iter().any(|file| fits(pattern, &file.display().to_string())) {
            findings.push(format!("xtask/tidy.toml: `{pattern}` in unsafe_files fits no file; take it out"));
        }
    }
}

/// Whether a path fits a pattern in which `*` stands for anything but `/`, and `**` for anything.
fn fits(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some("**"), Some(_)) => return true,
            (Some(pattern), Some(part)) if part_fits(pattern, part) => {}
            _ => return false,
        }
    }
}

fn part_fits(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((head, tail)) => {
            part.len() >= head.len() + tail.len() && part.starts_with(head) && part.ends_with(tail)
        }
    }
}

fn line_with_word(text: &str, word: &str) -> Option<usize> {
    let whole = |line: &str| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == word);
    text.lines().position(whole).map(|at| at + 1)
}

/// Whether a file of the repository exists; for tests of the lists above.
#[cfg(test)]
fn exists(file: &str) -> bool {
    paths::root().join(file).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_one_component() {
        assert!(fits("crates/devices/src/*/sys.rs", "crates/devices/src/shm/sys.rs"));
        assert!(!fits("crates/devices/src/*/sys.rs", "crates/devices/src/shm/deep/sys.rs"));
        assert!(fits("crates/mpi/src/**", "crates/mpi/src/api/info.rs"));
        assert!(!fits("crates/mpi/src/**", "crates/cli/src/main.rs"));
        assert!(fits("shm/ring*.rs", "shm/ring_tests.rs"));
    }

    #[test]
    fn only_the_whole_word_counts() {
        assert_eq!(line_with_word("a\nunsafe_code\nunsafe {}", "unsafe"), Some(3));
        assert_eq!(line_with_word("undocumented_unsafe_blocks", "unsafe"), None);
    }

    #[test]
    fn the_files_that_must_carry_an_attribute_exist() {
        for (file, _) in ATTRIBUTES {
            assert!(exists(file), "{file}");
        }
    }
}
