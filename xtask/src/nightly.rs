//! `cargo xtask nightly`: everything that takes too long, or measures too much, for each change.
//!
//! Each step is a command with a name. Its result is a file under `conformance/nightly`, so that a run that
//! was interrupted goes on where it stopped, on another machine if need be; a result counts for the last
//! commit that changed the product, and the length (`--quick`) it was made with. A step whose tool is missing
//! here is a skip with its reason, and fails the run under `--strict`. At the end `conformance/nightly.md` is
//! written. Both are to be committed.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{ci, lab_test, net_test, paths, process, skips};

/// Options of `cargo xtask nightly`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shortens every step to minutes: shows that it runs.
    #[arg(long)]
    quick: bool,
    /// Only these steps; `list` names them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Not these steps.
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// Run steps again that have a result for this commit.
    #[arg(long)]
    fresh: bool,
    /// Fail where a step or one of its checks is skipped.
    #[arg(long)]
    strict: bool,
    /// How often each bound is measured.
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// How many minutes each crate's mutants are judged, and the tests run under load; the next run goes on.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

/// A step: arguments of `cargo xtask`, with `--quick` others.
struct Step {
    name: &'static str,
    what: &'static str,
    full: &'static str,
    quick: &'static str,
    /// Why it cannot run here.
    obstacle: fn() -> Option<String>,
}

fn nothing() -> Option<String> {
    None
}

pub(crate) fn no_nightly() -> Option<String> {
    let is_there = Command::new("cargo").args(["+nightly", "--version"]).output();
    let is_there = is_there.is_ok_and(|output| output.status.success());
    (!is_there).then(|| "no nightly toolchain (rustup toolchain install nightly)".to_owned())
}

fn unset(variable: &str, what: &str) -> Option<String> {
    std::env::var_os(variable)
        .is_none()
        .then(|| format!("{variable} is not set: the folder with the source of {what}"))
}

macro_rules! steps {
    ($($name:literal $obstacle:expr, $what:literal, $full:literal, $quick:literal;)*) => {
        [$(Step { name: $name, what: $what, full: $full, quick: $quick, obstacle: $obstacle }),*]
    };
}

/// In the order of what is found fastest.
const STEPS: [Step; 26] = steps! {
    "loom" nothing, "every order of the atomics of rings and of copies by both ranks", "loom", "loom";
    "fault-worlds" nothing, "random worlds with faults", "fuzz --seeds 20000", "fuzz --seeds 300";
    "test-loaded" nothing, "`make test` 20 times beside a job that computes on every CPU",
        "test --times 20 --loaded --series conformance/nightly/test-loaded.txt", "test --times 1 --loaded";
    "why" nothing, "`ayatori why` on jobs that hang", "why-test", "why-test --filter recv";
    "killtest" nothing, "a rank is killed at a random moment", "killtest --runs 500", "killtest --runs 10";
    "killtest-hosts" nothing, "the same over two hosts", "killtest --runs 500 --hosts", "killtest --runs 10 --hosts";
    "decoders" no_nightly, "libFuzzer on what reads bytes from outside",
        "fuzz-decoders --seconds 600 --jobs 3", "fuzz-decoders --seconds 5";
    "networks" net_test::obstacle, "long tests on namespaces", "net-test --no-build all-silent conform-all",
        "net-test --no-build all-silent";
    "many-cuts" net_test::obstacle, "a hundred random cuts", "net-test --no-build many-cuts", "net-test --no-build cuts";
    "bounds" net_test::obstacle, "figures of time and rate: the share of first tries that met their bound",
        "net-test --no-build --bounds", "net-test --no-build --bounds recovery-silent hostile-share --runs 2";
    "imb" || unset("IMB_DIR", "the Intel MPI Benchmarks"), "IMB with data checks", "conformance imb",
        "conformance imb --ranks 2";
    "osu" || unset("OSU_DIR", "the OSU micro-benchmarks"), "OSU programs", "conformance osu",
        "conformance osu --ranks 2";
    "mpich-binaries" nothing, "binaries made by MPICH's mpicc_abi", "conformance mpich-abi",
        "conformance mpich-abi --ranks 2 --only p2p_wildcard";
    "built-for-mpich" nothing, "our programs built for MPICH, on the translator", "conformance c --abi mpich",
        "conformance c --abi mpich --ranks 2 --only p2p";
    "built-for-openmpi" nothing, "our programs built for Open MPI, on the translator",
        "conformance c --abi openmpi", "conformance c --abi openmpi --ranks 2 --only p2p";
    "memcheck" nothing, "our programs under valgrind", "conformance c --memcheck",
        "conformance c --memcheck --only p2p_modes";
    "asan" no_nightly, "our programs with AddressSanitizer", "conformance c --asan",
        "conformance c --asan --only p2p_modes";
    "binaries" nothing, "programs of package archives, built for other MPIs, on those and on ours",
        "conformance binaries", "conformance binaries --only lammps,imb/NBC";
    "mpi4py" nothing, "mpi4py's own tests at 1 to 5 ranks", "conformance mpi4py --ranks 1,2,3,4,5",
        "conformance mpi4py --ranks 2 --only dynproc";
    "packages" nothing, "released programs with checks of their own", "conformance packages",
        "conformance packages --only hpcc";
    "mpich-tests" || unset("MPICH_DIR", "MPICH"), "MPICH's test/mpi", "conformance mpich", "conformance mpich";
    "lab" lab_test::missing, "plans on real Linux bridges", "lab-test --all", "lab-test";
    "mutants-core" nothing, "generated bugs in core", "mutants --crate core",
        "mutants --crate core --sample 5 --fresh";
    "mutants-devices" nothing, "generated bugs in tcp and shm", "mutants --crate devices",
        "mutants --crate devices --sample 5 --fresh";
    "mutants-fabric" nothing, "generated bugs in fabric", "mutants --crate fabric",
        "mutants --crate fabric --sample 5 --fresh";
    "mutants-sim" nothing, "generated bugs in the simulated network", "mutants --crate sim",
        "mutants --crate sim --sample 5 --fresh";
};

/// How a step ended.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
enum Word {
    Passed,
    Failed,
    Skipped(String),
}

/// What came of a step.
#[derive(Serialize, Deserialize)]
struct Outcome {
    commit: String,
    quick: bool,
    when: String,
    word: Word,
    seconds: u64,
    /// The closing lines of its runners.
    closing: Vec<String>,
    skips: Vec<String>,
}

fn folder() -> PathBuf {
    paths::root().join("conformance/nightly")
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(paths::root()).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Today and now, UTC.
pub(crate) fn when() -> String {
    output_of("date", &["-u", "+%F %H:%M"])
}

/// The last commit that changed the product: what every step is about.
pub(crate) fn commit() -> String {
    output_of("git", &["log", "-1", "--format=%h", "--", "crates", "translate", "fortran", "Cargo.lock"])
}

/// `cargo xtask nightly`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.only.iter().any(|name| name == "list") {
        STEPS.iter().for_each(|step| println!("{:16} {}", step.name, step.what));
        return Ok(());
    }
    let known = |name: &&String| STEPS.iter().all(|step| step.name != **name);
    if let Some(unknown) = options.only.iter().chain(&options.skip).find(known) {
        bail!("no step `{unknown}`; `--only list` names them");
    }
    fs::create_dir_all(folder()).context("conformance/nightly")?;
    crate::stage::stage()?;
    let commit = commit();
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|wanted| wanted == name);
    let mut failed = Vec::new();
    for step in &STEPS {
        if !is_wanted(step.name) || options.skip.iter().any(|name| name == step.name) {
            continue;
        }
        let earlier = read(step).filter(|outcome| outcome.commit == commit && outcome.quick == options.quick);
        let outcome = match earlier {
            Some(outcome) if !options.fresh => {
                println!("== nightly {}: has a result of {}", step.name, outcome.when);
                outcome
            }
            _ => {
                let outcome = step.run(options, &commit)?;
                let text = serde_json::to_string_pretty(&outcome)?;
                fs::write(folder().join(step.name).with_extension("json"), text)?;
                outcome
            }
        };
        let is_skipped = outcome.word != Word::Passed || !outcome.skips.is_empty();
        if outcome.word == Word::Failed || (options.strict && is_skipped) {
            failed.push(step.name);
        }
    }
    let page = paths::root().join("conformance/nightly.md");
    fs::write(&page, self::page()).with_context(|| page.display().to_string())?;
    println!("== nightly: written to {}", page.display());
    if !failed.is_empty() {
        bail!("nightly: failed: {}", failed.join(", "));
    }
    Ok(())
}

fn read(step: &Step) -> Option<Outcome> {
    let text = fs::read_to_string(folder().join(step.name).with_extension("json")).ok()?;
    serde_json::from_str(&text).ok()
}

impl Step {
    fn run(&self, options: &Options, commit: &str) -> Result<Outcome> {
        let begin = Instant::now();
        let mut outcome = Outcome {
            commit: commit.to_owned(),
            quick: options.quick,
            when: when(),
            word: Word::Passed,
            seconds: 0,
            closing: Vec::new(),
            skips: Vec::new(),
        };
        if let Some(obstacle) = (self.obstacle)() {
            println!("== nightly {}: skipped: {obstacle}", self.name);
            outcome.word = Word::Skipped(obstacle);
            return Ok(outcome);
        }
        let list = paths::build_dir().join(format!("nightly-{}.skips", self.name));
        fs::write(&list, "")?;
        let command = self.command(options)?;
        println!("\n== nightly {}: {}", self.name, process::line(&command));
        let (is_good, closing) = ci::step(&command, &list, ci::Output::AsItComes)?;
        outcome.word = if is_good { Word::Passed } else { Word::Failed };
        outcome.closing = closing;
        outcome.skips = skips::in_file(&list).into_keys().collect();
        outcome.seconds = begin.elapsed().as_secs();
        Ok(outcome)
    }

    fn command(&self, options: &Options) -> Result<Command> {
        let words = if options.quick { self.quick } else { self.full };
        if words == "loom" {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--release", "-p", "ayatori-devices", "--lib", "loom"]);
            cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", paths::target_dir().join("loom"));
            return Ok(cargo);
        }
        let mut command = ci::this()?;
        command.args(words.split(' '));
        if self.name == "bounds" && !options.quick {
            command.args(["--runs", &options.runs.to_string()]);
        }
        let goes_on = self.name.starts_with("mutants-") || self.name == "test-loaded";
        if goes_on && !options.quick {
            command.args(["--minutes", &options.minutes.to_string()]);
        }
        Ok(command)
    }
}

/// The page: a table of the steps, and what their runners said last.
fn page() -> String {
    let mut text = String::from(
        "# Nightly results\n\nWritten by `cargo xtask nightly`; not by hand. A step without a result has not \
         run; one of an earlier commit has\nnot run since. *Quick* steps show that they run, no more: their \
         bounds were measured twice, their mutants are a sample\nof five. Mutants: the verdicts of all runs, \
         which `conformance/mutants` keeps; a step goes on with those that have none.\nA mutant \
         that is noticed by the committed digest only changes what processes do, and no test calls it \
         wrong.\n`test-loaded` counts the runs of `conformance/nightly/test-loaded.txt`.\n\n\
         | step | what | result | of the product's commit, time (UTC) | took |\n|---|---|---|---|---|\n",
    );
    let outcomes: Vec<(&Step, Option<Outcome>)> = STEPS.iter().map(|step| (step, read(step))).collect();
    for (step, outcome) in &outcomes {
        let Some(outcome) = outcome else {
            let _ = writeln!(text, "| {} | {} | not run | | |", step.name, step.what);
            continue;
        };
        let word = match &outcome.word {
            Word::Passed => "passed".to_owned(),
            Word::Failed => "**failed**".to_owned(),
            Word::Skipped(why) => format!("skipped: {why}"),
        };
        let length = if outcome.quick { ", quick" } else { "" };
        let Outcome { commit, when, seconds, .. } = outcome;
        let _ = writeln!(
            text,
            "| {} | {} | {word}{length} | {commit}, {when} | {seconds} s |",
            step.name, step.what
        );
    }
    for (step, outcome) in &outcomes {
        let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.closing.is_empty()) else { continue };
        let _ = write!(text, "\n## {}\n\n```\n", step.name);
        for line in outcome.closing.iter().chain(&outcome.skips) {
            let _ = writeln!(text, "{line}");
        }
        text += "```\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
