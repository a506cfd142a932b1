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
use crate::translate::Abi;
use crate::{paths, process, skips};

/// The version whose tests are meant by the list.
const VERSION: &str = "4.1.2";
/// What its tests use where it is there.
const COMPANIONS: [&str; 4] = ["numpy", "cffi", "pyyaml", "dill"];
const RANKS: [usize; 2] = [1, 3];
/// Modules whose tests send nothing: each rank does the same by itself, minutes of Python. They run at the
/// first number of ranks only, unless they are asked for by name.
const WITHOUT_MESSAGES: &str = r"^test_(datatype|util_dtlib)\.py$";
/// How long building or one run may take, where no more is asked for.
const BUILD_MAX: Duration = Duration::from_secs(1200);
const RUN_MAX_S: u64 = 1800;
/// The variable that names the file of outcomes, for `sitecustomize.py`.
const LOG: &str = "AYATORI_MPI4PY_LOG";

/// What `cargo xtask conformance mpi4py` takes.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Libraries to run the suite on as well, one after the other in the same run, for their wall time. What
    /// fails on them is counted and not judged.
    #[arg(long, value_delimiter = ',')]
    beside: Vec<String>,
    /// mpi4py as the index has it, built for another MPI, through the translator.
    #[arg(long)]
    wheel: Option<Abi>,
    /// Run on this installation instead of the one that is built here: that of our wheel, say.
    #[arg(long, conflicts_with = "library")]
    prefix: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
}

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
    /// It counts only for mpi4py's wheel as built for this MPI.
    wheel: Option<Abi>,
}

/// What became of a test at a rank.
struct Outcome {
    rank: usize,
    word: String,
    test: String,
    words: String,
}

/// The suite, built for a library.
struct Built {
    library: Library,
    place: PathBuf,
    prefix: PathBuf,
    wheel: Option<Abi>,
}

impl Built {
    /// Builds the suite for the library called `name`, of the installation `prefix` if there is one, or takes
    /// it as built for another MPI; `None`, with a note, where it cannot be had.
    fn new(name: &str, prefix: Option<&Path>, wheel: Option<Abi>) -> Result<Option<Self>> {
        let library = Library::by_name(name).with_context(|| format!("no library `{name}`"))?;
        match (library, prefix) {
            (Library::Ayatori, Some(prefix)) if prefix.join("bin/ayatori").is_file() => {}
            (Library::Ayatori, Some(prefix)) => bail!("{} has no bin/ayatori", prefix.display()),
            (Library::Ayatori, None) => our_prefix().map(|_| ())?,
            _ => library.prepare()?,
        }
        let of = match (wheel, prefix) {
            (Some(_), _) => "wheel",
            (None, Some(_)) => "installed",
            (None, None) => name,
        };
        let prefix = match prefix {
            Some(prefix) => prefix.canonicalize().with_context(|| prefix.display().to_string())?,
            None => library.prefix(),
        };
        let built = Self { library, place: paths::venvs_dir().join(format!("mpi4py-{of}")), prefix, wheel };
        if let Err(error) = built.install() {
            let what = format!("mpi4py {VERSION} for {of} cannot be had: {error:#}");
            skips::note("conformance mpi4py", &what);
            return Ok(None);
        }
        Ok(Some(built))
    }

    fn name(&self) -> String {
        let wheel = self.wheel.map_or(String::new(), |abi| format!(", built for {}", abi.name()));
        if self.prefix == self.library.prefix() {
            format!("{}{wheel}", self.library.name())
        } else {
            format!("{}{wheel}", self.prefix.display())
        }
    }

    /// The command that runs the suite.
    fn launch(&self, ranks: usize, arguments: &[&str]) -> Command {
        let python = self.place.join("bin/python");
        if self.wheel.is_none() && self.prefix == self.library.prefix() {
            return self.library.launch(ranks, &python, arguments);
        }
        let mut command = Command::new(self.prefix.join("bin/ayatori"));
        command.args(["run", "--bind-to", "none"]);
        if let Some(abi) = self.wheel {
            command.args(["--abi", abi.name()]).env("MPI4PY_MPIABI", abi.name());
        }
        command.args(["-n", &ranks.to_string()]).arg(python).args(arguments);
        command
    }
}

pub(super) fn run(options: &Options) -> Result<()> {
    if options.wheel.is_some() && options.common.library != Library::Ayatori.name() {
        bail!("--wheel is about the translators, which only our library has");
    }
    let built = Built::new(&options.common.library, options.prefix.as_deref(), options.wheel)?;
    let Some(built) = built else { return Ok(()) };
    let mut beside = Vec::new();
    for name in &options.beside {
        beside.extend(Built::new(name, None, None)?);
    }
    let path = paths::root().join("conformance/mpi4py.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut known: Known = toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))?;
    for list in [&mut known.skip, &mut known.failure] {
        list.retain(|entry| entry.wheel.is_none() || entry.wheel == options.wheel);
    }
    let mut failed = Vec::new();
    for (i, ranks) in options.common.ranks_or(&RANKS).into_iter().enumerate() {
        let leave_out = (i > 0 && options.common.only.is_empty()).then_some(WITHOUT_MESSAGES);
        let finished = run_at(&built, ranks, leave_out, &options.common)?;
        let wrong = finished.judged(&known);
        failed.extend(wrong.into_iter().map(|wrong| format!("at {ranks} ranks: {wrong}")));
        let mut times = vec![finished.time()];
        for peer in &beside {
            let finished = run_at(peer, ranks, leave_out, &options.common)?;
            println!("{} (not judged)", finished.summary(&known));
            times.push(finished.time());
        }
        if times.len() > 1 {
            println!("conformance mpi4py, wall time at {ranks} ranks: {}", times.join(", "));
        }
    }
    if !failed.is_empty() {
        bail!("conformance mpi4py: {}", failed.join("; "));
    }
    Ok(())
}

/// What came of the suite on a library.
struct Finished {
    name: String,
    ranks: usize,
    run: process::Outcome,
    outcomes: Vec<Outcome>,
}

impl Finished {
    fn time(&self) -> String {
        let ended = if self.run.timed_out { " (stopped)" } else { "" };
        format!("{} {:.0} s{ended}", self.name, self.run.wall.as_secs_f64())
    }

    fn wrong(&self, known: &Known) -> (Vec<String>, String) {
        let (mut wrong, counts) = judge(&self.outcomes, known);
        let has_failures = self.outcomes.iter().any(|outcome| outcome.word == "failed");
        if !self.run.success() && !has_failures {
            wrong.push(self.run.reason());
        } else if self.outcomes.is_empty() {
            wrong.push("no test ran".to_owned());
        }
        (wrong, counts)
    }

    fn summary(&self, known: &Known) -> String {
        let (wrong, counts) = self.wrong(known);
        format!(
            "conformance mpi4py on {} at {} ranks: {counts}, {} unexpected, {:.0} s",
            self.name,
            self.ranks,
            wrong.len(),
            self.run.wall.as_secs_f64()
        )
    }

    /// What is not as the list says, printed with the counts.
    fn judged(&self, known: &Known) -> Vec<String> {
        let (wrong, _) = self.wrong(known);
        wrong.iter().for_each(|wrong| println!("FAILED  mpi4py at {} ranks: {wrong}", self.ranks));
        println!("{}", self.summary(known));
        wrong
    }
}

/// The suite at a number of ranks, without the modules that `leave_out` matches.
fn run_at(built: &Built, ranks: usize, leave_out: Option<&str>, options: &CommonOptions) -> Result<Finished> {
    let folder = paths::build_dir().join("conformance").join(built.library.name());
    fs::create_dir_all(&folder)?;
    let wheel = built.wheel.map_or(String::new(), |abi| format!("-{}", abi.name()));
    let log = folder.join(format!("mpi4py{wheel}-{ranks}"));
    let log_of = |rank: usize| PathBuf::from(format!("{}.{rank}", log.display()));
    for rank in 0..ranks {
        let _ = fs::remove_file(log_of(rank));
    }
    let tests = source(&built.place).join("test");
    let main = tests.join("main.py").display().to_string();
    let mut arguments = vec![main.as_str(), "-q"];
    for only in &options.only {
        arguments.extend(["-i", only]);
    }
    if let Some(pattern) = leave_out {
        arguments.extend(["-e", pattern]);
    }
    let mut command = built.launch(ranks, &arguments);
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
    fs::write(folder.join(format!("mpi4py{wheel}-{ranks}.said")), format!("{}{}", run.stdout, run.stderr))?;
    Ok(Finished { name: built.name(), ranks, run, outcomes })
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

impl Built {
    /// Builds mpi4py for the library, or installs its wheel, unless that was done with the same header.
    fn install(&self) -> Result<()> {
        let place = &self.place;
        let header = match self.wheel {
            Some(_) => format!("mpi4py {VERSION} of the package index"),
            None => {
                let header = fs::read_to_string(self.prefix.join("include/mpi.h")).unwrap_or_default();
                format!("{}\n{header}", self.prefix.display())
            }
        };
        let done = place.join(".installed");
        if fs::read_to_string(&done).is_ok_and(|built| built == header) {
            return Ok(());
        }
        println!("building mpi4py {VERSION} in {}", place.display());
        let mut python = Command::new("python3");
        python.args(["-m", "venv", "--clear"]).arg(place);
        let pip = |arguments: &[&str]| {
            let mut pip = Command::new(place.join("bin/python"));
            pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
            pip.args(arguments).current_dir(place);
            pip
        };
        let wanted = format!("mpi4py=={VERSION}");
        let build = if self.wheel.is_some() {
            pip(&["install", "--no-deps", "--only-binary=mpi4py", &wanted])
        } else {
            self.library.wrappers().context("this library has no compiler wrappers")?;
            let cc = self.prefix.join("bin/mpicc");
            let mut build = pip(&["install", "--no-deps", "--no-cache-dir"]);
            build.arg(source(place)).env("MPICC", &cc).env("MPI4PY_BUILD_MPICC", &cc).env("CFLAGS", "-O0");
            build
        };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), reason: "r".to_owned(), wheel: None }
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
