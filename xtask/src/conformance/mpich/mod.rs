//! MPICH's own test suite, `test/mpi`: programs by chapter, in C and, where the library has a Fortran
//! binding, in Fortran, each compiled with the library's wrapper and run as its `testlist` says. Runs that
//! fail for a known reason stand in `conformance/mpich.toml`; the suite fails on any other failure, and on an
//! entry whose run passes.

mod fortran;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{ForeignOptions, MpichSuite, Verdict, directory, our_prefix};
use crate::peers::Library;
use crate::process::{self, Outcome};
use crate::threads::on_threads;
use crate::{paths, skips, stage};

/// The chapters in C: what MPI 5.0 defines. Fortran's stand in `fortran`.
const CHAPTERS: [&str; 36] = [
    "attr",
    "coll",
    "comm",
    "datatype",
    "errhan",
    "group",
    "info",
    "init",
    "io",
    "mpi_t",
    "part",
    "pt2pt",
    "rma",
    "session",
    "spawn",
    "topo",
    "threads/coll",
    "threads/comm",
    "threads/init",
    "threads/mpi_t",
    "threads/part",
    "threads/pt2pt",
    "threads/rma",
    "threads/spawn",
    "errors/attr",
    "errors/coll",
    "errors/comm",
    "errors/datatype",
    "errors/faults",
    "errors/group",
    "errors/io",
    "errors/pt2pt",
    "errors/rma",
    "errors/session",
    "errors/spawn",
    "errors/topo",
];

/// What `configure` would have found out; strict: only what the standard has.
const CONFIGURATION: &str = "\
#define HAVE_STDARG_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_UNISTD_H 1
#define HAVE_STRING_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STDINT_H 1
#define HAVE_PTHREAD_H 1
#define HAVE_PTHREAD_BARRIER_INIT 1
#define HAVE_STRDUP 1
#define HAVE_USLEEP 1
#define HAVE_GETRUSAGE 1
#define HAVE_H_ADDR_LIST 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_LONG_INT 1
#define HAVE_DOUBLE__COMPLEX 1
#define HAVE_FLOAT__COMPLEX 1
#define HAVE_LONG_DOUBLE__COMPLEX 1
#define HAVE__BOOL 1
#define HAVE_INT8_T 1
#define HAVE_INT16_T 1
#define HAVE_INT32_T 1
#define HAVE_INT64_T 1
#define HAVE_UINT8_T 1
#define HAVE_UINT16_T 1
#define HAVE_UINT32_T 1
#define HAVE_UINT64_T 1
#define USE_LONG_DOUBLE_COMPLEX 1
#define HAVE_MPI_SPAWN 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_MPI_IO 1
#define F77_NAME_LOWER_USCORE 1
#define USE_STRICT_MPI 1
#define ENABLE_STRICTMPI 1
#define POINTERINT_t long
#define THREAD_PACKAGE_NONE 0
#define THREAD_PACKAGE_POSIX 1
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define MTEST_HAVE_MIN_MPI_VERSION(a,b) ((MPI_VERSION == (a) && MPI_SUBVERSION >= (b)) || MPI_VERSION > (a))
";

/// One line of a test list.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    /// Chapter and program: `comm/dup`.
    name: String,
    ranks: usize,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    limit_s: Option<u64>,
    /// What all its ranks take together.
    memory_gb: f64,
    /// What ends it well, if not `No Errors` and exit code 0: the suite's own word.
    judge: Option<String>,
    /// It uses what the standard does not have, or what the suite itself expects to fail.
    beyond_standard: bool,
}

/// `conformance/mpich.toml`.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Programs that give arguments which differ between ranks and want an error: they run in check mode.
    #[serde(default)]
    check_mode: Vec<String>,
    /// Runs that fail, with the reason.
    #[serde(default)]
    failure: Vec<KnownFailure>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailure {
    /// `chapter/program`, or `chapter/*`.
    name: String,
    reason: String,
    /// Whether it fails depends on memory that the program has not written: its run may pass, too.
    #[serde(default)]
    may_pass: bool,
}

impl Known {
    fn read() -> Result<Self> {
        let path = paths::root().join("conformance/mpich.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))
    }

    fn reason(&self, name: &str) -> Option<&str> {
        let covers = |entry: &&KnownFailure| match entry.name.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => entry.name == name,
        };
        self.failure.iter().find(covers).map(|entry| entry.reason.as_str())
    }

    /// Entries whose runs have all passed, and should have failed.
    fn stale(&self, passed_by_name: &BTreeMap<&str, bool>) -> Vec<&str> {
        let certain = self.failure.iter().filter(|entry| !entry.may_pass);
        let names = certain.map(|entry| entry.name.as_str());
        names.filter(|name| passed_by_name.get(name) == Some(&true)).collect()
    }
}

pub(super) fn run(options: &ForeignOptions<MpichSuite>) -> Result<()> {
    let library = options.common.library()?;
    if library == Library::Ayatori {
        our_prefix()?;
    }
    let copy = options.copy(library, "mpich")?;
    let nested = copy.join("test/mpi");
    let suite = if nested.is_dir() { nested } else { copy };
    if !suite.join("util/mtest.c").is_file() {
        bail!("{} has no util/mtest.c: give MPICH's repository or its test/mpi", suite.display());
    }
    let mut runs = Vec::new();
    let fc = library.prefix().join("bin/mpifort");
    let has_fortran = fc.is_file();
    if has_fortran {
        // f90's lists, too.
        fortran::prepare(&fc, &suite)?;
    } else {
        skips::note("conformance mpich f77, f90 and f08", "the library has no mpifort");
    }
    let in_fortran = fortran::CHAPTERS.into_iter().filter(|_| has_fortran);
    for chapter in CHAPTERS.into_iter().chain(in_fortran) {
        let list = ["testlist", "testlist.in"].map(|name| suite.join(chapter).join(name));
        let Some(list) = list.iter().find(|path| path.is_file()) else { continue };
        let text = fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
        runs.extend(text.lines().filter_map(|line| parse(chapter, line)));
    }
    runs.retain(|run| options.common.wants(&run.name) && !run.beyond_standard);
    if let Some(most) = options.common.ranks.iter().max() {
        runs.retain(|run| run.ranks <= *most);
    }
    let compiled = compile(library, &suite, &runs)?;
    report(library, &runs, &compiled, &suite, options)
}

/// The memory of this machine.
fn memory_gb() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kib: f64 = kib.context("/proc/meminfo has no MemTotal")?;
    Ok(kib * 1024.0 / 1e9)
}

/// A line of a test list: `name ranks key=value …`.
fn parse(chapter: &str, line: &str) -> Option<Run> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // `@x@name`: configure puts `#` or nothing in front.
    let line = match line.strip_prefix('@').and_then(|rest| rest.split_once('@')) {
        Some((_, rest)) => rest,
        None => line,
    };
    let mut words = line.split_whitespace();
    let (program, ranks) = (words.next()?, words.next()?.parse().ok()?);
    let mut run = Run {
        name: format!("{chapter}/{program}"),
        ranks,
        arguments: Vec::new(),
        environment: Vec::new(),
        limit_s: None,
        memory_gb: 0.0,
        judge: None,
        beyond_standard: false,
    };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "arg" => run.arguments.push(value.to_owned()),
            "env" => run.environment.extend(value.split_once('=').map(|(k, v)| (k.into(), v.into()))),
            "mem" => run.memory_gb = value.parse().unwrap_or(f64::INFINITY),
            "timeLimit" => run.limit_s = value.parse().ok(),
            "resultTest" => run.judge = Some(value.to_owned()),
            "strict" => run.beyond_standard |= value.eq_ignore_ascii_case("false"),
            "xfail" | "mpix" => run.beyond_standard = true,
            _ => {}
        }
    }
    Some(run)
}

/// Executables by name, or why there is none.
type Compiled = BTreeMap<String, Result<PathBuf, String>>;

/// Compiles what the runs need, on all CPUs.
fn compile(library: Library, suite: &Path, runs: &[Run]) -> Result<Compiled> {
    fs::write(suite.join("include/mpitestconf.h"), CONFIGURATION)?;
    fs::write(suite.join("include/mtest_mpix.h"), "")?;
    let (cc, _) = library.wrappers().context("this library has no compiler wrappers")?;
    let common = ["mtest", "mtest_common", "dtypes", "mtest_single", "mtest_thread", "run_mpitests"];
    fs::write(suite.join("dtpools/dtpoolsconf.h"), CONFIGURATION)?;
    let common = common.map(|name| suite.join("util").join(name).with_extension("c"));
    for source in common.into_iter().chain(pool_sources(suite)?) {
        let mut command = cc_command(&cc, suite);
        command.arg("-c").arg(&source).arg("-o").arg(source.with_extension("o"));
        let outcome = process::capture(&mut command, Duration::from_secs(120))?;
        if !outcome.success() {
            bail!("{} of the suite does not compile: {}", source.display(), outcome.reason());
        }
    }
    let fc = library.prefix().join("bin/mpifort");
    let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let compiled = on_threads(paths::cpu_count(), &names, |name| {
        let program = compile_one(&cc, &fc, suite, name).map_err(|error| format!("{error:#}"));
        ((*name).to_owned(), program)
    });
    Ok(compiled.into_iter().collect())
}

fn cc_command(cc: &Path, suite: &Path) -> Command {
    let mut command = Command::new(cc);
    command.args(["-O1", "-w", "-std=gnu11", "-pthread", "-I"]).arg(suite.join("include"));
    command.arg("-I").arg(suite.join("dtpools/include"));
    command
}

/// The suite's pools of datatypes, which some programs draw from.
fn pool_sources(suite: &Path) -> Result<Vec<PathBuf>> {
    let folder = suite.join("dtpools/src");
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c");
    Ok(files(&folder)?.into_iter().filter(is_source).collect())
}

/// What lies in a folder.
fn entries(folder: &Path) -> Result<impl Iterator<Item = PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.filter(|path| path.is_file()).collect())
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.filter(|path| path.is_dir()).collect())
}

/// Most programs are one file; `Makefile.am` says of the others which file, and with which macros.
fn compile_one(cc: &Path, fc: &Path, suite: &Path, name: &str) -> Result<PathBuf> {
    let (chapter, program) = name.rsplit_once('/').context("a name without a chapter")?;
    let folder = suite.join(chapter);
    let makefile = fs::read_to_string(folder.join("Makefile.am")).unwrap_or_default();
    let variable = |suffix: &str| {
        let wanted = format!("{program}_{suffix}");
        let line = makefile.lines().find(|line| line.split('=').next().map(str::trim) == Some(&wanted))?;
        line.split_once('=').map(|(_, value)| value.trim().to_owned())
    };
    let sources = variable("SOURCES").unwrap_or_else(|| default_source(&folder, program));
    let flags = variable("CPPFLAGS").unwrap_or_default();
    let macros = flags.split_whitespace().filter(|flag| flag.starts_with("-D"));
    let sources: Vec<&str> = sources.split_whitespace().filter(|file| !file.ends_with(".h")).collect();
    let to = folder.join(format!("{program}.bin"));
    let mut command = if sources.iter().all(|file| file.ends_with(".c")) {
        c_program(cc, suite, chapter, &sources)?
    } else {
        let mut command = fortran::compile(fc, suite);
        command.args(&sources).arg(fortran::helper(chapter, suite));
        command
    };
    command.args(macros).current_dir(&folder);
    command.arg("-o").arg(&to).arg("-lm");
    let outcome = process::capture(&mut command, Duration::from_secs(120))?;
    if outcome.success() {
        // Programs that start themselves do so by their name.
        let own_name = folder.join(program);
        if own_name.symlink_metadata().is_err() {
            symlink(&to, &own_name).with_context(|| format!("cannot link {}", own_name.display()))?;
        }
        return Ok(to);
    }
    let error = outcome.stderr.lines().find(|line| line.contains("error") || line.contains("undefined"));
    bail!("does not compile: {}", error.unwrap_or("see its compiler").trim())
}

/// The source of a program that the makefile says nothing of.
fn default_source(folder: &Path, program: &str) -> String {
    let names = ["c", "f", "f90"].map(|extension| format!("{program}.{extension}"));
    let found = names.iter().find(|name| folder.join(name).is_file());
    found.unwrap_or(&names[0]).clone()
}

/// The command that compiles a program of C with those of the suite's helpers that it uses.
fn c_program(cc: &Path, suite: &Path, chapter: &str, sources: &[&str]) -> Result<Command> {
    let main = sources.first().context("a program without a source")?;
    let text = fs::read_to_string(suite.join(chapter).join(main));
    let text = text.with_context(|| format!("the suite has no {chapter}/{main}"))?;
    let mut command = cc_command(cc, suite);
    command.args(sources);
    let util = suite.join("util");
    let threads = if chapter.starts_with("threads") { "mtest_thread.o" } else { "mtest_single.o" };
    command.args(["mtest.o", "mtest_common.o", "dtypes.o", threads].map(|object| util.join(object)));
    if text.contains("int run(") {
        command.arg(util.join("run_mpitests.o"));
    }
    if text.contains("dtpools.h") || text.contains("mtest_dtp.h") {
        command.args(pool_sources(suite)?.iter().map(|source| source.with_extension("o")));
    }
    Ok(command)
}

/// Counts of a chapter.
#[derive(Default)]
struct Count {
    passed: usize,
    skipped: usize,
    known: usize,
    failed: usize,
}

fn report(
    library: Library,
    runs: &[Run],
    compiled: &Compiled,
    suite: &Path,
    options: &ForeignOptions<MpichSuite>,
) -> Result<()> {
    let known = Known::read()?;
    let memory_gb = memory_gb()? / 2.0;
    let mut chapters: BTreeMap<&str, Count> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut passed_by_name: BTreeMap<&str, bool> = BTreeMap::new();
    for run in runs {
        let verdict = match &compiled[&run.name] {
            Err(error) => Verdict::Failed(error.clone()),
            Ok(_) if run.memory_gb > memory_gb => Verdict::Skipped(format!("it needs {} GB", run.memory_gb)),
            Ok(program) => {
                let is_checked = library == Library::Ayatori && known.check_mode.contains(&run.name);
                judge(run, &start(library, run, program, suite, is_checked, options)?)
            }
        };
        let chapter = run.name.rsplit_once('/').map_or("", |(chapter, _)| chapter);
        let count = chapters.entry(chapter).or_default();
        let passed = matches!(verdict, Verdict::Passed | Verdict::Skipped(_));
        *passed_by_name.entry(&run.name).or_insert(true) &= passed;
        match (verdict, known.reason(&run.name).filter(|_| library == Library::Ayatori)) {
            (Verdict::Failed(why), Some(reason)) => {
                count.known += 1;
                println!("known   {} at {} ranks: {reason} ({why})", run.name, run.ranks);
            }
            (Verdict::Failed(why), None) => {
                count.failed += 1;
                println!("FAILED  {} at {} ranks: {why}", run.name, run.ranks);
                failures.push(format!("{} at {} ranks: {why}", run.name, run.ranks));
            }
            (Verdict::Skipped(why), _) => {
                count.skipped += 1;
                println!("skipped {} at {} ranks: {why}", run.name, run.ranks);
            }
            _ => count.passed += 1,
        }
    }
    let stale = if library == Library::Ayatori { known.stale(&passed_by_name) } else { Vec::new() };
    let page = directory(library).join("mpich.md");
    fs::write(&page, table(&chapters, &failures))?;
    let sum = |field: fn(&Count) -> usize| chapters.values().map(field).sum::<usize>();
    let (passed, known_count) = (sum(|count| count.passed), sum(|count| count.known));
    let run_count = passed + known_count + failures.len();
    println!("report: {}", page.display());
    println!(
        "conformance mpich on {}: {passed} passed ({:.1} % of {run_count} that ran), {} skipped, {} failed, \
         {known_count} known failures",
        library.name(),
        100.0 * passed as f64 / run_count.max(1) as f64,
        sum(|count| count.skipped),
        failures.len(),
    );
    if !stale.is_empty() {
        bail!("conformance/mpich.toml lists what passes: {}", stale.join(", "));
    }
    if !failures.is_empty() {
        bail!("conformance mpich: {} runs failed that conformance/mpich.toml does not list", failures.len());
    }
    Ok(())
}

fn start(
    library: Library,
    run: &Run,
    program: &Path,
    suite: &Path,
    is_checked: bool,
    options: &ForeignOptions<MpichSuite>,
) -> Result<Outcome> {
    let arguments: Vec<&str> = run.arguments.iter().map(String::as_str).collect();
    let mut command = library.launch(run.ranks, program, &arguments);
    let folder = run.name.rsplit_once('/').map_or("", |(chapter, _)| chapter);
    command.current_dir(suite.join(folder)).envs(run.environment.iter().cloned());
    command.envs(options.common.progress());
    if is_checked {
        command.env("AYATORI_CHECK", "1");
    }
    let limit = run.limit_s.unwrap_or(0).max(options.common.limit_s);
    process::capture(&mut command, Duration::from_secs(limit))
}

/// As MPICH's `runtests` judges: `No Errors`, and the exit code; or what the list's `resultTest` wants.
fn judge(run: &Run, outcome: &Outcome) -> Verdict {
    if outcome.timed_out {
        return Verdict::Failed(outcome.reason());
    }
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    let lines = || text.lines().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty());
    let no_errors = lines().any(|line| line == "no errors");
    let other = lines().find(|line| line != "no errors" && line != "test passed");
    let skipped = text.lines().any(|line| line.trim_start().starts_with("Test Skipped"));
    let good = match run.judge.as_deref() {
        Some("TestStatus") => !outcome.success(),
        Some("TestStatusNoErrors") => !outcome.success() && no_errors,
        Some("TestErrFatal") => !outcome.success() && !no_errors,
        _ => outcome.success() && no_errors && other.is_none(),
    };
    match (good, skipped, other) {
        (true, ..) => Verdict::Passed,
        (false, true, _) => Verdict::Skipped("by the program".to_owned()),
        (false, false, Some(line)) if outcome.success() => Verdict::Failed(format!("it says: {line}")),
        (false, false, _) => Verdict::Failed(outcome.reason()),
    }
}

fn table(chapters: &BTreeMap<&str, Count>, failures: &[String]) -> String {
    let mut page = format!(
        "# MPICH's test/mpi on Ayatori {}\n\n\
         | chapter | passed | skipped | known failures | failed |\n|---|---|---|---|---|\n",
        stage::VERSION
    );
    for (chapter, Count { passed, skipped, known, failed }) in chapters {
        let _ = writeln!(page, "| {chapter} | {passed} | {skipped} | {known} | {failed} |");
    }
    if !failures.is_empty() {
        page.push_str("\n## Failed\n\n");
        for failure in failures {
            let _ = writeln!(page, "- {failure}");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_test_list_is_read_with_its_keys() {
        let run = parse("comm", "cmsplit_type 4 arg=. timeLimit=300 env=A=b").unwrap();
        assert_eq!((run.name.as_str(), run.ranks), ("comm/cmsplit_type", 4));
        assert_eq!(run.arguments, ["."]);
        assert_eq!(run.limit_s, Some(300));
        assert_eq!(run.environment, [("A".to_owned(), "b".to_owned())]);
        assert!(!run.beyond_standard);
        assert!(parse("comm", "lbub_oldapi 1 strict=FALSE").unwrap().beyond_standard);
        assert_eq!(parse("threads/comm", "@comm_overlap@idup 4").unwrap().name, "threads/comm/idup");
        assert_eq!(parse("comm", "# a remark"), None);
        assert_eq!(parse("comm", "no_count"), None);
    }

    #[test]
    fn a_run_is_judged_as_its_list_says() {
        let said = |script: &str| {
            process::capture(Command::new("sh").args(["-c", script]), Duration::from_secs(60)).unwrap()
        };
        let mut run = parse("errhan", "adderr 1").unwrap();
        assert_eq!(judge(&run, &said("echo ' No Errors'")), Verdict::Passed);
        assert!(matches!(judge(&run, &said("echo No Errors; exit 1")), Verdict::Failed(_)));
        run.judge = Some("TestStatus".to_owned());
        assert_eq!(judge(&run, &said("exit 1")), Verdict::Passed);
        assert!(matches!(judge(&run, &said("true")), Verdict::Failed(_)));
    }

    #[test]
    fn an_entry_whose_run_passes_is_stale_if_it_may_not() {
        let entry =
            |name: &str, may_pass| KnownFailure { name: name.into(), reason: String::new(), may_pass };
        let failure = vec![entry("part/a", false), entry("part/b", true), entry("part/c", false)];
        let known = Known { check_mode: Vec::new(), failure };
        let passed = BTreeMap::from([("part/a", true), ("part/b", true), ("part/c", false), ("rma/d", true)]);
        assert_eq!(known.stale(&passed), ["part/a"]);
    }

    #[test]
    fn the_list_of_known_failures_is_valid_and_gives_reasons() {
        let known = Known::read().unwrap();
        assert!(
            known.failure.iter().all(|entry| !entry.reason.trim().is_empty() && entry.name.contains('/'))
        );
    }
}
