//! No test judges by a clock: time, CPU shares and an idle machine are no part of what a test may depend on.
//!
//! Counted are the places in Rust's test code and in our C programs where a clock or a CPU time is read to be
//! compared. Each file that has some is listed in `xtask/tidy.toml` with how many and why (a hang limit of
//! minutes; a sleep that must not be shorter than asked for); the numbers may only shrink.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Findings, rust};
use crate::paths;

/// `path` → how many places.
pub(super) type Allowed = BTreeMap<String, usize>;

const IN_RUST: [&str; 7] = [
    ".elapsed()",
    ".duration_since(",
    "SystemTime",
    "Instant::now() <",
    "Instant::now() >",
    "getrusage",
    "clock_gettime",
];
const IN_C: [&str; 5] = ["clock_gettime", "getrusage", "MPI_Wtime", "times(", "clock()"];

pub(super) fn check(allowed: &Allowed, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut found = Allowed::new();
    for file in files {
        let Some(words) = words_for(file) else { continue };
        let text = std::fs::read_to_string(paths::root().join(file))?;
        let count = count(file, &text, words);
        if count > 0 {
            found.insert(file.display().to_string(), count);
        }
    }
    for (file, count) in &found {
        let allowed = allowed.get(file).copied().unwrap_or(0);
        if *count > allowed {
            findings.push(format!(
                "{file}: its tests compare {count} clocks or CPU times, {allowed} are listed: \
                 count, or use virtual time"
            ));
        }
    }
    for (file, allowed) in allowed {
        let count = found.get(file).copied().unwrap_or(0);
        if count < *allowed {
            findings.push(format!("xtask/tidy.toml: clocks: {file} has {count} now, not {allowed}"));
        }
    }
    Ok(())
}

/// What to look for; nothing where there are no tests of ours.
fn words_for(file: &Path) -> Option<&'static [&'static str]> {
    let extension = file.extension()?.to_str()?;
    match extension {
        "rs" if file.starts_with("crates") => Some(&IN_RUST),
        "c" if file.starts_with("conformance/c") => Some(&IN_C),
        _ => None,
    }
}

fn count(file: &Path, text: &str, words: &[&str]) -> usize {
    let text = if file.extension().is_some_and(|extension| extension == "rs") {
        rust::blank(&of_tests(file, text))
    } else {
        text.to_owned()
    };
    words.iter().map(|word| text.matches(word).count()).sum()
}

/// A file of tests whole; of another what stands from its tests on.
fn of_tests(file: &Path, text: &str) -> String {
    let is_tests = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    if file.iter().any(|part| is_tests(&part.to_string_lossy())) {
        return text.to_owned();
    }
    let start = text.find("#[cfg(test)]\nmod tests {");
    start.map_or_else(String::new, |at| text[at..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_count_in_tests_and_not_in_comments_or_code() {
        let text = "fn f() { begin.elapsed(); }\n#[cfg(test)]\nmod tests {\n    // begin.elapsed()\n    \
                    fn g() { begin.elapsed(); }\n}\n";
        assert_eq!(count(Path::new("crates/a/src/b.rs"), text, &IN_RUST), 1);
        assert_eq!(count(Path::new("crates/a/tests/b.rs"), text, &IN_RUST), 2);
        assert_eq!(count(Path::new("conformance/c/b.c"), "double t = MPI_Wtime();", &IN_C), 1);
        assert!(words_for(Path::new("xtask/src/a.rs")).is_none());
    }
}
