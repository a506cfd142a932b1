//! Other people's programs as they are released: libraries with tests of their own and benchmarks that check
//! their results. `conformance/packages.toml` says of each where its source is got, how it is built with our
//! `mpicc`, what is run, and what its output must and must not say.
//!
//! Sources come from package archives by their ordinary clients (`source`), into
//! `build/conformance/packages`; nothing of them is in the repository. A source that cannot be got here, or a
//! tool that is missing, is a skip with its reason.

mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::table::{Listed, Only, Table};
use super::{Tally, Verdict, our_prefix};
use crate::process::{self, Outcome};
use crate::{paths, skips};
use source::Source;
pub(super) use source::lists_of_debian;

/// Options of `cargo xtask conformance packages`.
#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    only: Only,
    /// Who makes progress (AYATORI_PROGRESS): inline, assisted or offload.
    #[arg(long)]
    progress: Option<String>,
}

/// The table, in `conformance/`.
const FILE: &str = "packages.toml";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    what: String,
    source: Source,
    /// Files, or programs on the path, that the build needs, each with the Debian package that has it.
    #[serde(default)]
    needs: Vec<Need>,
    /// Lines of sh, run in the unpacked source with our wrappers first on the path.
    build: String,
    #[serde(default = "half_an_hour")]
    build_limit_s: u64,
    run: Vec<Run>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Need {
    file: String,
    debian: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    ranks: usize,
    /// The folder in the source where it runs.
    #[serde(default)]
    folder: String,
    /// Lines of sh.
    command: String,
    /// What its output must say; with exit code 0.
    passes: Option<String>,
    /// What its output must not say.
    #[serde(default)]
    fails: Vec<String>,
    /// Why it fails today; the suite fails when it passes.
    known_failure: Option<String>,
    #[serde(default = "ten_minutes")]
    limit_s: u64,
}

fn half_an_hour() -> u64 {
    1800
}

fn ten_minutes() -> u64 {
    600
}

impl Listed for Package {
    type Run = Run;

    fn name(&self) -> &str {
        &self.name
    }

    fn runs(&self) -> &[Run] {
        &self.run
    }

    fn name_of(run: &Run) -> &str {
        &run.name
    }

    fn about(&self) -> String {
        self.what.clone()
    }
}

pub(super) fn run(options: &Options) -> Result<()> {
    let table = Table::<Package>::read(FILE)?;
    let packages = table.wanted(&options.only)?;
    if packages.is_empty() {
        return Ok(());
    }
    let prefix = our_prefix()?;
    let (mut tally, mut skipped_count) = (Tally::default(), 0);
    for package in &packages {
        if let Some(why) = package.obstacle() {
            skips::note(&format!("conformance packages {}", package.name), &why);
            skipped_count += 1;
            continue;
        }
        let folder = paths::build_dir().join("conformance/packages").join(&package.name);
        let unpacked = folder.join("source");
        if let Err(error) = source::get(&package.source, &folder, &package.build) {
            skips::note(&format!("conformance packages {}", package.name), &format!("{error:#}"));
            skipped_count += 1;
            continue;
        }
        if let Err(error) = package.build(&prefix, &folder) {
            tally.add_uncompiled(&package.name, &error);
            continue;
        }
        for run in package.run.iter().filter(|run| options.only.wants(&package.full_name(run))) {
            let outcome = run.start(&prefix, &unpacked, options)?;
            keep(&folder, run, &outcome)?;
            tally.add(&package.full_name(run), run.ranks, run.judge(&outcome), &outcome);
        }
    }
    if skipped_count == packages.len() {
        println!("conformance packages: none of {skipped_count} can be had here");
        return Ok(());
    }
    tally.close("conformance packages")
}

/// What a run said, for whoever looks into a failure.
fn keep(folder: &Path, run: &Run, outcome: &Outcome) -> Result<()> {
    let log = folder.join(format!("{}.log", run.name.replace('/', "-")));
    fs::write(&log, format!("{}\n--- stderr\n{}", outcome.stdout, outcome.stderr))
        .with_context(|| format!("cannot write {}", log.display()))
}

/// A shell in `folder` with our wrappers and launcher first on the path.
fn shell(lines: &str, prefix: &Path, folder: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-e", "-c", lines]).current_dir(folder);
    command.env("PATH", format!("{}:{path}", prefix.join("bin").display()));
    command.env("PREFIX", prefix);
    command.env("JOBS", paths::cpu_count().to_string());
    // Cargo tells its programs of this build; what is built here is not part of it.
    command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    command
}

impl Package {
    /// Why it cannot be built here.
    fn obstacle(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |need: &&Need| {
            Path::new("/").join(&need.file).is_file()
                || std::env::split_paths(&path).any(|folder| folder.join(&need.file).is_file())
        };
        let missing: Vec<&str> =
            self.needs.iter().filter(|need| !is_there(need)).map(|need| need.debian.as_str()).collect();
        (!missing.is_empty()).then(|| format!("needs Debian's {}", missing.join(", ")))
    }

    /// Builds it, unless that was done with the same header and the same lines.
    fn build(&self, prefix: &Path, folder: &Path) -> Result<()> {
        let header = fs::read_to_string(prefix.join("include/mpi.h")).context("our mpi.h")?;
        let (done, wanted) = (folder.join(".built"), format!("{}\n{header}", self.build));
        if fs::read_to_string(&done).is_ok_and(|built| built == wanted) {
            return Ok(());
        }
        println!("building {} in {}", self.name, folder.display());
        let mut command = shell(&self.build, prefix, &folder.join("source"));
        let outcome = process::capture(&mut command, Duration::from_secs(self.build_limit_s))?;
        let log: PathBuf = folder.join("build.log");
        fs::write(&log, format!("{}\n--- stderr\n{}", outcome.stdout, outcome.stderr))?;
        if !outcome.success() {
            let said = process::last_lines(&outcome.stderr, 8);
            bail!("does not build ({}; {}):\n{said}", outcome.reason(), log.display());
        }
        fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
    }
}

impl Run {
    fn start(&self, prefix: &Path, unpacked: &Path, options: &Options) -> Result<Outcome> {
        let mut command = shell(&self.command, prefix, &unpacked.join(&self.folder));
        command.env("RANKS", self.ranks.to_string());
        command.envs(options.progress.iter().map(|mode| ("AYATORI_PROGRESS", mode)));
        process::capture(&mut command, Duration::from_secs(self.limit_s))
    }

    fn judge(&self, outcome: &Outcome) -> Verdict {
        match (self.fault(outcome), &self.known_failure) {
            (None, None) => Verdict::Passed,
            (None, Some(reason)) => {
                Verdict::Failed(format!("it passes, and is listed as a failure: {reason}"))
            }
            (Some(_), Some(reason)) => Verdict::LeftOut(format!("known failure: {reason}")),
            (Some(why), None) => Verdict::Failed(why),
        }
    }

    /// What is wrong with how it ended.
    fn fault(&self, outcome: &Outcome) -> Option<String> {
        outcome.fault(self.passes.as_deref(), &self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> Outcome {
        process::capture(Command::new("sh").args(["-c", script]), Duration::from_secs(60)).unwrap()
    }

    fn a_run(known_failure: Option<&str>) -> Run {
        Run {
            name: "r".into(),
            ranks: 4,
            folder: String::new(),
            command: "true".into(),
            passes: Some("All tests passed".into()),
            fails: vec!["FAILED".into()],
            known_failure: known_failure.map(str::to_owned),
            limit_s: 10,
        }
    }

    #[test]
    fn a_run_must_end_well_and_say_what_is_wanted() {
        let run = a_run(None);
        assert_eq!(run.judge(&said("echo All tests passed")), Verdict::Passed);
        assert!(matches!(run.judge(&said("true")), Verdict::Failed(_)));
        assert!(matches!(run.judge(&said("echo All tests passed; exit 1")), Verdict::Failed(_)));
        let why = run.judge(&said("echo All tests passed; echo 'x FAILED y'"));
        assert_eq!(why, Verdict::Failed("it says: x FAILED y".into()));
    }

    #[test]
    fn a_known_failure_that_passes_is_a_failure() {
        let run = a_run(Some("why"));
        assert!(matches!(run.judge(&said("exit 1")), Verdict::LeftOut(_)));
        assert!(matches!(run.judge(&said("echo All tests passed")), Verdict::Failed(_)));
    }

    #[test]
    fn the_table_of_packages_is_valid() {
        let table = Table::<Package>::read(FILE).unwrap();
        assert!(table.program.iter().all(|package| !package.run.is_empty()));
        let every_run = || table.program.iter().flat_map(|package| &package.run);
        assert!(every_run().all(|run| run.ranks > 0 && run.limit_s > 0));
        let is_reason = |run: &Run| run.known_failure.as_ref().is_none_or(|why| !why.trim().is_empty());
        assert!(every_run().all(is_reason));
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let mut table = Table::<Package>::read(FILE).unwrap();
        let package = &mut table.program[0];
        package.needs = vec![Need { file: "no-such-tool".into(), debian: "no-such-package".into() }];
        assert_eq!(package.obstacle().unwrap(), "needs Debian's no-such-package");
        package.needs = vec![Need { file: "sh".into(), debian: "dash".into() }];
        assert_eq!(package.obstacle(), None);
    }
}
