//! mpi4py's own tests: the source distribution from the Python package index, built with the library's
//! `mpicc` in `.venvs/`, its whole suite at each number of ranks. What may be skipped or fail stands in
//! `conformance/mpi4py.toml`, each with its reason; anything else fails the gate, and so does an entry for a
//! failure that is none. Where the index cannot be reached the gate is a skip.
//!
//! A file beside that list, which Python loads at its start, writes down what became of each test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{CommonOptions, our_prefix};
use crate::peers::Library;
use crate::{paths, process, skips};

/// The version whose tests are meant by the list.
const VERSION: &str = "4.1.2";
/// What its tests use where it is there.
const COMPANIONS: [&str; 4] = ["numpy", "cffi", "pyyaml", "dill"];
const RANKS: [usize; 2] = [1, 3];
/// How long building or one run may take, where no more is asked for.
const BUILD_MAX: Duration = Duration::from_secs(1200);
const RUN_MAX_S: u64 = 1800;
/// The variable that names the file of outcomes, for `sitecustomize.py`.
const LOG: &str = "AYATORI_MPI4PY_LOG";

/// `conformance/mpi4py.toml`.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Words with which a skip's reason begins, and why that is no fault of the library's.
    #[serde(default)]
    skip: Vec<Entry>,
    /// Tests that fail, by the end of their name.
    #[serde(default)]
    failure: Vec<Entry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    reason: String,
}

/// What became of a test at a rank.
struct Outcome {
    rank: usize,
    word: String,
    test: String,
    words: String,
}

pub(super) fn run(options: &CommonOptions) -> Result<()> {
    let library = Library::by_name(&options.library).context("no such library")?;
    if library == Library::Ayatori {
        our_prefix()?;
    } else {
        library.prepare()?;
    }
    let place = paths::venvs_dir().join(format!("mpi4py-{}", library.name()));
    if let Err(error) = install(library, &place) {
        skips::note("conformance mpi4py", &format!("mpi4py {VERSION} cannot be had: {error:#}"));
        return Ok(());
    }
    let path = paths::root().join("conformance/mpi4py.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let known: Known = toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))?;
    let mut failed = Vec::new();
    for ranks in options.ranks_or(&RANKS) {
        failed.extend(run_at(library, &place, ranks, options, &known)?);
    }
    if !failed.is_empty() {
        bail!("conformance mpi4py: {}", failed.join("; "));
    }
    Ok(())
}

/// The suite at a number of ranks: what is wrong.
fn run_at(
    library: Library,
    place: &Path,
    ranks: usize,
    options: &CommonOptions,
    known: &Known,
) -> Result<Vec<String>> {
    let folder = paths::build_dir().join("conformance").join(library.name());
    fs::create_dir_all(&folder)?;
    let log = folder.join(format!("mpi4py-{ranks}"));
    let log_of = |rank: usize| PathBuf::from(format!("{}.{rank}", log.display()));
    for rank in 0..ranks {
        let _ = fs::remove_file(log_of(rank));
    }
    let tests = source(place).join("test");
    let main = tests.join("main.py").display().to_string();
    let mut arguments = vec![main.as_str(), "-q"];
    for only in &options.only {
        arguments.extend(["-i", only]);
    }
    let mut command = library.launch(ranks, &place.join("bin/python"), &arguments);
    command.current_dir(&tests).env(LOG, &log).env("PYTHONPATH", paths::root().join("conformance/mpi4py"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(progress) = &options.progress {
        command.env("AYATORI_PROGRESS", progress);
    }
    let limit = Duration::from_secs(options.limit_s.max(RUN_MAX_S));
    let run = process::capture(&mut command, limit)?;
    let mut outcomes = Vec::new();
    for rank in 0..ranks {
        let text = fs::read_to_string(log_of(rank)).unwrap_or_default();
        outcomes.extend(text.lines().filter_map(|line| parse(rank, line)));
    }
    let (mut wrong, counts) = judge(&outcomes, known);
    let has_failures = outcomes.iter().any(|outcome| outcome.word == "failed");
    if !run.success() && !has_failures {
        wrong.push(run.reason());
    } else if outcomes.is_empty() {
        wrong.push("no test ran".to_owned());
    }
    wrong.iter().for_each(|wrong| println!("FAILED  mpi4py at {ranks} ranks: {wrong}"));
    println!(
        "conformance mpi4py on {} at {ranks} ranks: {}, {} unexpected, {:.0} s",
        library.name(),
        counts,
        wrong.len(),
        run.wall.as_secs_f64()
    );
    Ok(wrong.into_iter().map(|wrong| format!("at {ranks} ranks: {wrong}")).collect())
}

fn parse(rank: usize, line: &str) -> Option<Outcome> {
    let mut fields = line.splitn(3, '\t').map(str::to_owned);
    Some(Outcome { rank, word: fields.next()?, test: fields.next()?, words: fields.next()? })
}

/// What is not as the list says, and the counts in words.
fn judge(outcomes: &[Outcome], known: &Known) -> (Vec<String>, String) {
    let (mut wrong, mut passed_count, mut known_count) = (Vec::new(), 0, 0);
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for Outcome { rank, word, test, words } in outcomes {
        match word.as_str() {
            "ok" => passed_count += 1,
            "skipped" => match known.skip.iter().find(|entry| words.starts_with(&entry.name)) {
                Some(entry) => *skipped.entry(&entry.name).or_default() += 1,
                None => {
                    wrong.push(format!("{test} is skipped at rank {rank} for an unknown reason: {words}"))
                }
            },
            _ if known.failure.iter().any(|entry| test.ends_with(&entry.name)) => known_count += 1,
            _ => wrong.push(format!("{test} at rank {rank}: {words}")),
        }
    }
    for entry in &known.failure {
        let its: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.test.ends_with(&entry.name)).collect();
        if !its.is_empty() && its.iter().all(|outcome| outcome.word == "ok") {
            wrong.push(format!("{} passes, and is listed as a failure: {}", entry.name, entry.reason));
        }
    }
    let skipped_count: usize = skipped.values().sum();
    let list: Vec<String> = skipped.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
    (wrong, format!("{passed_count} passed, {known_count} known failures, {skipped_count} skipped{list}"))
}

fn source(place: &Path) -> PathBuf {
    place.join(format!("mpi4py-{VERSION}"))
}

/// Builds mpi4py for the library, unless that was done with the same header.
fn install(library: Library, place: &Path) -> Result<()> {
    let header = fs::read_to_string(library.prefix().join("include/mpi.h")).unwrap_or_default();
    let done = place.join(".installed");
    if fs::read_to_string(&done).is_ok_and(|built| built == header) {
        return Ok(());
    }
    println!("building mpi4py {VERSION} in {}", place.display());
    let (cc, _) = library.wrappers().context("this library has no compiler wrappers")?;
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(place);
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(arguments).current_dir(place);
        pip
    };
    let wanted = format!("mpi4py=={VERSION}");
    let mut build = pip(&["install", "--no-deps", "--no-cache-dir"]);
    build.arg(source(place)).env("MPICC", &cc).env("MPI4PY_BUILD_MPICC", &cc).env("CFLAGS", "-O0");
    let archive = format!("mpi4py-{VERSION}.tar.gz");
    let mut unpack = Command::new("tar");
    unpack.arg("xzf").arg(&archive).current_dir(place);
    let companions: Vec<&str> = ["install"].into_iter().chain(COMPANIONS).collect();
    for mut command in [
        python,
        pip(&companions),
        pip(&["download", "--no-deps", "--no-binary=mpi4py", "-d", ".", &wanted]),
        unpack,
        build,
    ] {
        let outcome = process::capture(&mut command, BUILD_MAX)?;
        if !outcome.success() {
            bail!("`{}` failed: {}", process::line(&command), outcome.reason());
        }
    }
    fs::write(&done, header)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), reason: "r".to_owned() }
    }

    #[test]
    fn only_listed_skips_and_failures_are_let_pass() {
        let log = "ok\ta.X.one\t\nskipped\ta.X.two\tnumba\nfailed\ta.X.three\tE: e\n";
        let outcomes: Vec<Outcome> = log.lines().filter_map(|line| parse(0, line)).collect();
        assert_eq!(judge(&outcomes, &Known::default()).0.len(), 2);
        let known = Known { skip: vec![entry("numba")], failure: vec![entry("X.three")] };
        let (wrong, counts) = judge(&outcomes, &known);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(counts, "1 passed, 1 known failures, 1 skipped (numba 1)");
        let known = Known { skip: vec![entry("numba")], failure: vec![entry("X.three"), entry("X.one")] };
        assert_eq!(judge(&outcomes, &known).0.len(), 1);
    }
}
