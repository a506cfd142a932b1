//! The test programs of a crate with its mutants: what they are made of, how they are built and started.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use super::copy::{Copy, write_if_other};
use super::sites::{self, Instrumented};
use super::{Mutants, Run, Subject};
use crate::process;

/// The build's time limit.
const BUILD_LIMIT: Duration = Duration::from_secs(1_800);
/// Private memory, 6 GiB: the tests without a mutant run within it, too. They map far more that is shared.
const MEMORY_KIB: u64 = 6 << 20;

/// The variables that the instrumented crate reads.
pub(super) const CHOSEN: &str = "AYATORI_MUTANT";
pub(super) const TRACE: &str = "AYATORI_MUTANT_TRACE";

/// What the sites ask; appended to the crate's root.
fn module(count: u32) -> String {
    format!(
        r#"
#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub mod mutants {{
    extern crate std;
    use std::io::Write;
    use std::sync::atomic::{{AtomicBool, AtomicU32, Ordering}};
    const NONE: u32 = 1 << 30;
    const TRACING: u32 = NONE + 1;
    const UNKNOWN: u32 = NONE + 2;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];
    #[inline]
    pub fn is(number: u32) -> bool {{
        let chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen <= NONE {{ chosen == number }} else {{ ask(number) }}
    }}
    #[inline(never)]
    fn ask(number: u32) -> bool {{
        if CHOSEN.load(Ordering::Relaxed) == UNKNOWN {{
            let usual = if std::env::var_os("{TRACE}").is_some() {{ TRACING }} else {{ NONE }};
            let chosen = std::env::var("{CHOSEN}").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
            CHOSEN.store(chosen, Ordering::Relaxed);
            return is(number);
        }}
        let seen = &SEEN[number as usize];
        if !seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed) {{
            let trace = std::env::var_os("{TRACE}").unwrap_or_default();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(trace);
            let _ = file.and_then(|mut file| file.write_all(std::format!("{{number}}\n").as_bytes()));
        }}
        false
    }}
}}
"#
    )
}

/// A test program.
pub(super) struct Program {
    pub(super) run: &'static Run,
    pub(super) path: PathBuf,
}

impl Program {
    /// Runs tests of it, one after the other. A mutant may never end or eat up all memory. So the programs
    /// run under limits of CPU time, which a loaded machine hardly stretches, and of memory.
    pub(super) fn command(&self, root: &Path, tests: &[&str], cpu_limit: Duration) -> Command {
        let mut command = Command::new("sh");
        let cpu_limit_s = cpu_limit.as_secs_f64().ceil();
        command.arg("-c").arg(format!("ulimit -t {cpu_limit_s}; ulimit -d {MEMORY_KIB}; exec \"$0\" \"$@\""));
        command.arg(&self.path).args(["--test-threads", "1", "--exact"]).args(tests);
        command.current_dir(folder_of(root, self.run));
        // Nobody reads what a failure says.
        command.env("RUST_BACKTRACE", "0").env("PROPTEST_MAX_SHRINK_ITERS", "0");
        // A mutant's case is none to be tried again with the code as it is.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        command
    }
}

/// Where `cargo test` starts a program: in its package's folder.
fn folder_of(root: &Path, run: &Run) -> PathBuf {
    let package = run.cargo.iter().find_map(|word| word.strip_prefix("ayatori-"));
    package.map_or_else(|| root.to_owned(), |package| root.join("crates").join(package))
}

/// Writes the crate with its mutants into the copy.
pub(super) fn write(
    mutants: &Mutants,
    copy: &Copy,
    lib: &str,
    out: &BTreeSet<u32>,
) -> Result<BTreeMap<String, Instrumented>> {
    let mut all = BTreeMap::new();
    for source in &mutants.sources {
        let number = |index: usize| Some(source.first + index as u32).filter(|number| !out.contains(number));
        all.insert(source.path.clone(), sites::instrument(&source.text, &source.sites, number));
    }
    for (path, instrumented) in &all {
        let mut text = instrumented.text.clone();
        if path == lib {
            text += &module(mutants.count());
        }
        write_if_other(&copy.root.join(path), text.as_bytes())?;
    }
    if !all.contains_key(lib) {
        let text = fs::read_to_string(crate::paths::root().join(lib))? + &module(mutants.count());
        write_if_other(&copy.root.join(lib), text.as_bytes())?;
    }
    Ok(all)
}

/// What cargo makes, or what the compiler says against it.
pub(super) type Built<T> = Result<T, Vec<Value>>;

/// Builds the programs of all runs.
pub(super) fn build_all(copy: &Copy, subject: &Subject) -> Result<Built<Vec<Program>>> {
    // A check finds most of what is no Rust, and is several times as quick as a build.
    let library = format!("ayatori-{}", subject.name);
    if let Err(messages) = cargo(copy, subject, &["check", "-p", &library, "--lib"])? {
        return Ok(Err(messages));
    }
    let mut programs = Vec::new();
    for run in subject.runs {
        let words = [&["test", "--no-run"], run.cargo].concat();
        match cargo(copy, subject, &words)? {
            Ok(paths) => programs.extend(paths.into_iter().map(|path| Program { run, path })),
            Err(messages) => return Ok(Err(messages)),
        }
    }
    Ok(Ok(programs))
}

/// Runs cargo. Returns the test programs.
fn cargo(copy: &Copy, subject: &Subject, words: &[&str]) -> Result<Built<Vec<PathBuf>>> {
    let mut cargo = Command::new("cargo");
    cargo.args(words).arg("--message-format=json").current_dir(&copy.root);
    // Here the tests run thousands of times; what is generic in one crate is compiled in those that use it.
    for package in [subject.name, "sim"] {
        cargo.args(["--config", &format!("profile.dev.package.ayatori-{package}.opt-level=3")]);
    }
    cargo.env("CARGO_TARGET_DIR", &copy.target).env("RUSTFLAGS", "--cap-lints allow");
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let outcome = process::capture(&mut cargo, BUILD_LIMIT)?;
    let messages: Vec<Value> =
        outcome.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if outcome.success() {
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        return Ok(Ok(tests
            .filter_map(|message| message["executable"].as_str())
            .map(PathBuf::from)
            .collect()));
    }
    let is_error = |message: &&Value| message["message"]["level"] == "error";
    let errors: Vec<Value> =
        messages.iter().filter(is_error).map(|message| message["message"].clone()).collect();
    if errors.is_empty() {
        bail!(
            "`{}`: {}\n{}",
            process::line(&cargo),
            outcome.reason(),
            process::last_lines(&outcome.stderr, 20)
        );
    }
    Ok(Err(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_that_sites_ask_is_rust() {
        assert!(syn::parse_file(&module(3)).is_ok());
    }
}
