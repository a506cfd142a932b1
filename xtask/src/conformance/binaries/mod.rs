//! Programs that were compiled for another MPI, as package archives have them: each is run on the MPI
//! that it was built for and, unchanged, on ours through the translator, with the same input at the same
//! number of ranks. `conformance/binaries.toml` says of each where it is got, what is run, and what of
//! its output has to be the same.
//!
//! Nothing is installed into this system: packages are unpacked under `build/conformance/binaries`
//! (`archive`), the program in one folder and its own MPI in another, which our run does not see
//! (`own`). The dynamic loader is asked, for both runs, which MPI the program gets.

mod archive;
mod own;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::table::{Listed, Only, Table};
use super::{Tally, Verdict, our_prefix};
use crate::process::{self, Outcome};
use crate::{paths, skips};
use own::Mpi;

/// Options of `cargo xtask conformance binaries`.
#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    only: Only,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    what: String,
    /// The MPI that it was built for.
    mpi: Mpi,
    /// Debian's packages that have it; those that they depend on are got, too. None: it comes with its MPI.
    #[serde(default)]
    debian: Vec<String>,
    /// The program, whose libraries are looked at; ROOT is where its packages are unpacked.
    binary: String,
    /// Lines of sh, run once after unpacking in the folder of the packages.
    #[serde(default)]
    prepare: String,
    run: Vec<Run>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    ranks: usize,
    /// Files in the folder where it runs.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Lines of sh. MPIEXEC starts a job, on RANKS ranks; ROOT is where the packages are.
    command: String,
    /// What its output must say, with exit code 0.
    passes: Option<String>,
    /// What its output must not say.
    #[serde(default)]
    fails: Vec<String>,
    /// Lines of sh that print what has to be the same on both; its output is in the file `output`.
    same: Option<String>,
    /// By how much numbers may differ, relative to the larger: where the order of additions is not
    /// determined.
    #[serde(default)]
    tolerance: f64,
    /// Why its own MPI is of no use for comparison here, and the run, `program/run`, whose own side is taken.
    reference: Option<Reference>,
    /// Why it fails today on ours; the suite fails when it passes.
    known_failure: Option<String>,
    #[serde(default = "ten_minutes")]
    limit_s: u64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    run: String,
    reason: String,
}

fn ten_minutes() -> u64 {
    600
}

impl Listed for Program {
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
        format!("{} ({})", self.what, self.mpi.name())
    }
}

/// The table `conformance/binaries.toml`.
///
/// # Errors
/// It is none, or a run is judged by nothing or compared with a run that is not there.
fn read_table() -> Result<Table<Program>> {
    let table = Table::<Program>::read("binaries.toml")?;
    for (program, run) in table.runs() {
        let name = program.full_name(run);
        if run.same.is_none() && run.passes.is_none() {
            bail!("binaries.toml: {name} is judged by nothing");
        }
        if let Some(reference) = &run.reference
            && table.find(&reference.run).is_none()
        {
            bail!("binaries.toml: {name}: there is no run {}", reference.run);
        }
    }
    Ok(table)
}

/// `cargo xtask conformance binaries`.
pub(super) fn run(options: &Options) -> Result<()> {
    let table = read_table()?;
    let programs = table.wanted(&options.only)?;
    if programs.is_empty() {
        return Ok(());
    }
    let prefix = our_prefix()?;
    let (mut tally, mut skipped_count, mut made) = (Tally::default(), 0, OwnRuns::new());
    for program in &programs {
        let place = match Place::make(program) {
            Ok(place) => place,
            Err(error) => {
                skips::note(&format!("conformance binaries {}", program.name), &format!("{error:#}"));
                skipped_count += 1;
                continue;
            }
        };
        println!("{}: {}", program.name, place.versions);
        if let Err(error) = place.check(program, &prefix) {
            tally.add_uncompiled(&program.name, &error);
            continue;
        }
        for run in program.run.iter().filter(|run| options.only.wants(&program.full_name(run))) {
            let (verdict, outcome) = both(&table, (program, run), &place, &prefix, &mut made)?;
            tally.add(&program.full_name(run), run.ranks, verdict, &outcome);
        }
    }
    if skipped_count == programs.len() {
        println!("conformance binaries: none of {skipped_count} can be had here");
        return Ok(());
    }
    tally.close("conformance binaries")
}

/// What came of runs on their own MPI, and what of it has to be the same, by full name: several programs may
/// be compared with one.
type OwnRuns = BTreeMap<String, (Outcome, String)>;

/// The run on its own MPI, or its reference on that one's; one that was made before is not made again.
fn on_its_own(
    of: (&Program, &Run),
    place: &Place,
    prefix: &Path,
    made: &mut OwnRuns,
) -> Result<(Outcome, String)> {
    let (program, run) = of;
    let name = program.full_name(run);
    if let Some(earlier) = made.get(&name) {
        return Ok(earlier.clone());
    }
    let came = place.run(Side::Own, program, run, prefix)?;
    made.insert(name, came.clone());
    Ok(came)
}

/// A run on its own MPI, or its reference on that one's, and on ours; the outcome is that of ours, where it
/// came to that.
fn both(
    table: &Table<Program>,
    (program, run): (&Program, &Run),
    place: &Place,
    prefix: &Path,
    made: &mut OwnRuns,
) -> Result<(Verdict, Outcome)> {
    let other = run.reference.as_ref().and_then(|reference| table.find(&reference.run));
    let own_mpi = other.map_or(program, |(program, _)| program).mpi.name();
    let (own, own_said) = match other {
        Some(other) => on_its_own(other, &Place::make(other.0)?, prefix, made)?,
        None => on_its_own((program, run), place, prefix, made)?,
    };
    if let Some(why) = run.fault(&own) {
        return Ok((Verdict::Failed(format!("on {own_mpi}: {why}")), own));
    }
    let (ours, our_said) = place.run(Side::Ours, program, run, prefix)?;
    let compared = || run.same.as_ref().and_then(|_| difference(&own_said, &our_said, run.tolerance));
    let fault = run.fault(&ours).or_else(compared);
    println!(
        "        {}: {:.1} s on {own_mpi}, {} lines compared",
        run.name,
        own.wall.as_secs_f64(),
        own_said.lines().count()
    );
    if let Some(Reference { run, reason }) = &run.reference {
        println!("        compared with {run}: {reason}");
    }
    let verdict = match (fault, &run.known_failure) {
        (None, None) => Verdict::Passed,
        (None, Some(why)) => Verdict::Failed(format!("it passes, and is listed as a failure: {why}")),
        (Some(_), Some(why)) => Verdict::LeftOut(format!("known failure: {why}")),
        (Some(why), None) => Verdict::Failed(why),
    };
    Ok((verdict, ours))
}

/// Where the two say different things, if they do. Words that are numbers may differ by `tolerance`, relative
/// to the larger.
fn difference(own: &str, ours: &str, tolerance: f64) -> Option<String> {
    if own.trim().is_empty() {
        return Some("its output has nothing to compare".to_owned());
    }
    let is_near = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() <= tolerance * one.abs().max(other.abs()),
        _ => false,
    };
    let is_alike = |one: &str, other: &str| {
        let (one, other): (Vec<&str>, Vec<&str>) =
            (one.split_whitespace().collect(), other.split_whitespace().collect());
        one.len() == other.len()
            && one.iter().zip(&other).all(|(one, other)| one == other || is_near(one, other))
    };
    let (mut own, mut ours) = (own.lines(), ours.lines());
    loop {
        match (own.next(), ours.next()) {
            (None, None) => return None,
            (Some(one), Some(other)) if is_alike(one, other) => {}
            (one, other) => {
                let [one, other] = [one, other].map(|line| line.unwrap_or("nothing").trim());
                return Some(format!("its own MPI gives `{one}`, ours `{other}`"));
            }
        }
    }
}

/// Whose MPI a run is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Own,
    Ours,
}

/// A program, unpacked.
struct Place {
    folder: PathBuf,
    /// The program and what it needs, without an MPI.
    root: PathBuf,
    /// Its own MPI.
    own: PathBuf,
    versions: String,
}

impl Place {
    /// Gets a program and its MPI, unless that was done.
    fn make(program: &Program) -> Result<Self> {
        let folder = paths::build_dir().join("conformance/binaries").join(&program.name);
        let root = folder.join("root");
        if program.mpi == Mpi::Intel {
            crate::peers::Library::Intel.prepare()?;
            fs::create_dir_all(&folder)?;
            let own = crate::peers::Library::Intel.prefix();
            let versions = format!("impi-rt {}", crate::peers::Library::Intel.version());
            return Ok(Self { folder, root: own.clone(), own, versions });
        }
        let versions = archive::get(&program.debian, program.mpi.packages(), &folder, &program.prepare)?;
        let own = folder.join("own");
        Ok(Self { folder, root, own, versions })
    }

    /// A shell that sees the program and one MPI.
    fn shell(&self, side: Side, program: &Program, prefix: &Path, lines: &str, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", lines]).current_dir(folder).env("ROOT", &self.root);
        for variable in ["LD_PRELOAD", "CARGO_TARGET_DIR", "LD_LIBRARY_PATH"] {
            command.env_remove(variable);
        }
        command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
        let (mut programs, mut libraries) = (Vec::new(), Vec::new());
        match side {
            Side::Own => {
                programs.push(self.own.join(program.mpi.bin()));
                libraries.extend(program.mpi.libraries(&self.own));
                command.envs(program.mpi.environment(&self.own, &self.root));
                command.env("MPIEXEC", program.mpi.launcher());
            }
            Side::Ours => {
                programs.push(prefix.join("bin"));
                command.env("MPIEXEC", prefix.join("bin/mpiexec"));
            }
        }
        // Intel's libraries lie beside the programs, so ours must not have that folder in its path.
        if program.mpi != Mpi::Intel {
            programs.push(self.root.join("usr/bin"));
            let folder = self.root.join("usr/lib").join(own::TRIPLET);
            // Installing a package would link these libraries from the folder above (update-alternatives).
            libraries.extend(
                ["blas", "lapack"].map(|name| folder.join(name)).into_iter().filter(|path| path.exists()),
            );
            libraries.push(folder);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        programs.extend(std::env::split_paths(&path));
        command.env("PATH", joined(&programs));
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", joined(&libraries));
        }
        command
    }

    /// Asks the loader which MPI the program gets on each side.
    fn check(&self, program: &Program, prefix: &Path) -> Result<()> {
        let translator = prefix.join("lib/ayatori").join(program.mpi.abi());
        for (side, folder) in [(Side::Own, &self.own), (Side::Ours, &translator)] {
            let binary = self.root.join(&program.binary);
            // `env` is no program of an MPI, so the ABI has to be named.
            let abi = if side == Side::Ours { format!("--abi {}", program.mpi.abi()) } else { String::new() };
            let lines = format!("$MPIEXEC {abi} -n 1 env LD_TRACE_LOADED_OBJECTS=1 '{}'", binary.display());
            let mut command = self.shell(side, program, prefix, &lines, &self.folder);
            let outcome = process::capture(&mut command, Duration::from_secs(60))?;
            let loaded = loaded_mpi(&outcome.stdout);
            if loaded.is_empty() {
                bail!("{} loads no MPI: {}", binary.display(), outcome.reason());
            }
            if let Some(stray) = loaded.iter().find(|path| !path.starts_with(folder)) {
                bail!("it loads {}, which is not in {}", stray.display(), folder.display());
            }
        }
        Ok(())
    }

    /// Runs it and gives what has to be the same.
    fn run(&self, side: Side, program: &Program, run: &Run, prefix: &Path) -> Result<(Outcome, String)> {
        let name = if side == Side::Own { "own" } else { "ours" };
        let folder = self.folder.join(format!("{name}-{}", run.name));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        for (name, text) in &run.files {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        let mut command = self.shell(side, program, prefix, &run.command, &folder);
        command.env("RANKS", run.ranks.to_string());
        let outcome = process::capture(&mut command, Duration::from_secs(run.limit_s))?;
        fs::write(folder.join("output"), &outcome.stdout)?;
        fs::write(folder.join("errors"), &outcome.stderr)?;
        let Some(same) = &run.same else { return Ok((outcome, String::new())) };
        let mut shell = self.shell(side, program, prefix, same, &folder);
        let said = process::capture(&mut shell, Duration::from_secs(60))?;
        Ok((outcome, said.stdout))
    }
}

/// The libraries of MPI's C interface in what the loader lists.
fn loaded_mpi(text: &str) -> Vec<PathBuf> {
    let is_mpi = |name: &str| ["libmpi.so", "libmpich.so"].iter().any(|start| name.starts_with(start));
    let line = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.split(" (").next()?;
        is_mpi(name).then(|| PathBuf::from(path))
    };
    text.lines().filter_map(line).collect()
}

fn joined(folders: &[PathBuf]) -> std::ffi::OsString {
    std::env::join_paths(folders).unwrap_or_default()
}

impl Run {
    /// What is wrong with how it ended.
    fn fault(&self, outcome: &Outcome) -> Option<String> {
        outcome.fault(self.passes.as_deref(), &self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_binaries_is_valid() {
        let table = read_table().unwrap();
        for program in &table.program {
            assert!(!program.run.is_empty() && !program.what.is_empty(), "{}", program.name);
            assert_eq!(program.debian.is_empty(), program.mpi == Mpi::Intel, "{}", program.name);
            assert!(program.run.iter().all(|run| run.ranks > 0 && run.tolerance < 1e-5), "{}", program.name);
        }
    }

    #[test]
    fn numbers_may_differ_by_the_tolerance_and_words_not() {
        assert_eq!(difference("a 1.0 b\n", "a  1.0 b\n", 0.0), None);
        assert!(difference("a 1.00000001\n", "a 1.00000002\n", 0.0).is_some());
        assert_eq!(difference("a 1.00000001\n", "a 1.00000002\n", 1e-7), None);
        assert!(difference("a 1.1\n", "b 1.1\n", 1e-7).is_some());
        assert!(difference("1\n2\n", "1\n", 0.0).unwrap().contains("ours `nothing`"));
        assert!(difference("", "", 0.0).is_some());
    }

    #[test]
    fn the_loaders_list_names_the_library_of_mpi() {
        let text = "\tlinux-vdso.so.1 (0x7ffe)\n\tlibmpi.so.40 => /a/own/libmpi.so.40 (0x7fec)\n\
                    \tlibmpi_mpifh.so.40 => /a/x (0x1)\n\tlibm.so.6 => /lib/libm.so.6 (0x2)\n";
        assert_eq!(loaded_mpi(text), [PathBuf::from("/a/own/libmpi.so.40")]);
        assert!(loaded_mpi("\tlibc.so.6 => /lib/libc.so.6 (0x3)\n").is_empty());
    }
}
