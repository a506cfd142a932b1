//! `cargo xtask bench`: our programs, every library, interleaved.
//!
//! Each case (a program at a number of ranks) is run `--runs` times; within a run every library has its turn,
//! so that a slow minute of the machine hits all of them. A library that fails or passes its time limit is
//! named with the reason and left out of the rest of that case, never waited for again.

mod report;
mod start;
mod suite;
mod translators;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::peers::Library;
use crate::{paths, process};
pub(crate) use report::median;
use report::{Failure, Key, Report, Samples};
use suite::Case;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Less time per figure and three runs: minutes instead of half an hour, and noisier.
    #[arg(long)]
    quick: bool,
    /// Only these groups: pingpong, bandwidth, rate, sendrecv, types, onesided, overlap, collectives, files,
    /// startup, memory, beside. Alone, and never by default: `start`, jobs of up to 1,000 ranks beside Hydra,
    /// and `translators`, the 8 B ping-pong of programs built for other MPIs.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rank counts of the collectives.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 16, 32])]
    ranks: Vec<usize>,
    /// Runs of each case (default 5, with --quick 3).
    #[arg(long)]
    runs: Option<usize>,
    /// Only these libraries: ayatori, ompi, ompi_ucx, mpich, impi.
    #[arg(long, value_delimiter = ',')]
    libraries: Vec<String>,
    /// Where the text table and the JSON file go.
    #[arg(long, default_value = "build/bench")]
    output: PathBuf,
    /// A command put in front of every launch, for example one that silences the machine.
    #[arg(long, env = "BENCH_WRAP")]
    wrap: Option<String>,
}

/// Options of the internal stopwatch.
#[derive(clap::Args)]
pub(crate) struct StopwatchOptions {
    #[arg(long, default_value_t = 3)]
    times: usize,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Runs a command a few times and prints `RESULT startup 0 <median> ms`.
pub(crate) fn stopwatch(options: &StopwatchOptions) -> Result<()> {
    let mut seconds = Vec::new();
    for _ in 0..options.times.max(1) {
        let begin = Instant::now();
        let status = Command::new(&options.command[0]).args(&options.command[1..]).status();
        let status = status.with_context(|| format!("cannot start {}", options.command[0]))?;
        if !status.success() {
            bail!("{} failed: {status}", options.command[0]);
        }
        seconds.push(begin.elapsed().as_secs_f64());
    }
    println!("RESULT startup 0 {} ms", median(&seconds) * 1e3);
    Ok(())
}

/// `cargo xtask bench`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.only == [start::GROUP] {
        return start::run(options);
    }
    if options.only == [translators::GROUP] {
        return translators::run(options);
    }
    for name in &options.only {
        if !suite::GROUPS.contains(&name.as_str()) {
            bail!(
                "no benchmark `{name}`; there are {}, and alone start and translators",
                suite::GROUPS.join(", ")
            );
        }
    }
    let runs = options.runs.unwrap_or(if options.quick { 3 } else { 5 });
    if runs == 0 || options.ranks.iter().any(|ranks| !(1..=1024).contains(ranks)) {
        bail!("--runs must be at least 1 and --ranks between 1 and 1024");
    }
    let mut failures = Vec::new();
    let libraries = prepare(&chosen(&options.libraries)?, &mut failures)?;
    let cases = suite::cases(&options.only, &options.ranks, options.quick);
    let raw = raw(options.wrap.as_deref(), runs, cases.iter().any(|case| case.group == "files"))?;
    let mut samples = Samples::new();
    for (order, case) in cases.iter().enumerate() {
        measure(case, order, runs, &libraries, options.wrap.as_deref(), &mut samples, &mut failures)?;
    }
    let report = Report {
        machine: machine(),
        cpus: paths::cpu_count(),
        runs,
        versions: libraries.iter().map(|l| (l.name().to_owned(), l.version())).collect(),
        rows: report::rows(&samples, &raw, Library::Ayatori.name()),
        raw,
        failures,
    };
    write(&report, &libraries, &paths::root().join(&options.output))
}

fn chosen(names: &[String]) -> Result<Vec<Library>> {
    let known = || Library::ALL.map(Library::name).join(", ");
    let by_name = |name: &String| {
        Library::by_name(name).with_context(|| format!("no library `{name}`; there are {}", known()))
    };
    if names.is_empty() { Ok(Library::ALL.to_vec()) } else { names.iter().map(by_name).collect() }
}

/// Installs the libraries and compiles every program for each; a library for which that fails is left out.
fn prepare(wanted: &[Library], failures: &mut Vec<Failure>) -> Result<Vec<Library>> {
    let mut ready = Vec::new();
    for &library in wanted {
        let compile_all = || -> Result<()> {
            library.prepare()?;
            suite::GROUPS
                .iter()
                .try_for_each(|program| library.compile(&source(program), &program_path(library, program)))
        };
        match compile_all() {
            Ok(()) => ready.push(library),
            Err(error) => {
                println!("{} is left out: {error:#}", library.name());
                let reason = format!("{error:#}");
                failures.push(Failure {
                    library: library.name().into(),
                    benchmark: "all".into(),
                    ranks: 0,
                    reason,
                });
            }
        }
    }
    if ready.is_empty() {
        bail!("no library can be measured");
    }
    Ok(ready)
}

pub(super) fn source(program: &str) -> PathBuf {
    paths::root().join("bench").join(format!("{program}.c"))
}

pub(super) fn program_path(library: Library, program: &str) -> PathBuf {
    paths::build_dir().join("bench/programs").join(library.build_name()).join(program)
}

/// Runs one case for all libraries, interleaved.
fn measure(
    case: &Case,
    order: usize,
    runs: usize,
    libraries: &[Library],
    wrap: Option<&str>,
    samples: &mut Samples,
    failures: &mut Vec<Failure>,
) -> Result<()> {
    let begin = Instant::now();
    let limit = bounded(case.limit, wrap);
    let mut left = libraries.to_vec();
    left.retain(|library| case.progress.is_none() || *library == Library::Ayatori);
    // They compute while this lives.
    let _others = (case.group == "beside").then(|| Others::start(paths::cpu_count()));
    for _ in 0..runs {
        let mut failed = Vec::new();
        for &library in &left {
            let mut command = launch(case, library, wrap);
            let outcome =
                process::capture(command.env("BENCH_BUDGET_MS", case.budget_ms.to_string()), limit)?;
            let results = parse(&outcome.stdout);
            if outcome.success() && !results.is_empty() {
                collect(samples, case, order, library, results);
                continue;
            }
            let reason = if outcome.success() { "printed no figure".to_owned() } else { outcome.reason() };
            println!("{} is left out of {} at {} ranks: {reason}", library.name(), case.group, case.ranks);
            let benchmark = case.group.to_owned();
            failures.push(Failure { library: library.name().into(), benchmark, ranks: case.ranks, reason });
            failed.push(library);
        }
        left.retain(|library| !failed.contains(library));
    }
    println!("measured {} at {} ranks in {:.0} s", case.group, case.ranks, begin.elapsed().as_secs_f64());
    Ok(())
}

/// Threads that do nothing but compute, until it is dropped.
struct Others {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Others {
    fn start(count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let compute = |_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Ordering::Relaxed) {})
        };
        let threads = (0..count).map(compute).collect();
        Self { is_over, threads }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot have panicked.
            let _ = thread.join();
        }
    }
}

/// The launch of a case; start-up is timed around the launcher.
fn launch(case: &Case, library: Library, wrap: Option<&str>) -> Command {
    let mut inner = library.launch(case.ranks, &program_path(library, case.program), &[]);
    inner.envs(case.progress.map(|mode| ("AYATORI_PROGRESS", mode)));
    if case.group != "startup" {
        return wrapped(inner, wrap);
    }
    let this = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut watch = Command::new(this);
    watch.args(["stopwatch", "--times", "3", "--"]).arg(inner.get_program()).args(inner.get_args());
    keep_environment(&mut watch, &inner);
    wrapped(watch, wrap)
}

pub(super) fn wrapped(inner: Command, wrap: Option<&str>) -> Command {
    let mut words = wrap.unwrap_or("").split_whitespace();
    let Some(program) = words.next() else { return inner };
    let mut command = Command::new(program);
    command.args(words).arg(inner.get_program()).args(inner.get_args());
    keep_environment(&mut command, &inner);
    command
}

/// How long a launch may take. A wrapper may wait for its turn; bounding the program is then its business
/// too.
fn bounded(limit: Duration, wrap: Option<&str>) -> Duration {
    if wrap.is_some() { limit * 4 } else { limit }
}

fn keep_environment(to: &mut Command, from: &Command) {
    for (name, value) in from.get_envs() {
        if let Some(value) = value {
            to.env(name, value);
        }
    }
}

fn collect(
    samples: &mut Samples,
    case: &Case,
    order: usize,
    library: Library,
    results: Vec<(String, usize, f64, String)>,
) {
    // Benchmarks of one program stay in the order in which it first prints them.
    let mut seen: Vec<String> = Vec::new();
    for (benchmark, bytes, value, unit) in results {
        let place = seen.iter().position(|name| *name == benchmark).unwrap_or_else(|| {
            seen.push(benchmark.clone());
            seen.len() - 1
        });
        let benchmark = match case.progress {
            None => benchmark,
            Some(mode) => format!("{benchmark} ({mode})"),
        };
        let key = Key { order: order * 100 + place, benchmark, ranks: case.ranks, bytes, unit };
        samples.entry(key).or_default().entry(library.name().to_owned()).or_default().push(value);
    }
}

/// The `RESULT name bytes value unit` lines of a program's output.
pub(super) fn parse(stdout: &str) -> Vec<(String, usize, f64, String)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["RESULT", name, bytes, value, unit] = words[..] else { return None };
        let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some((name.to_owned(), bytes.parse().ok()?, value, unit.to_owned()))
    };
    stdout.lines().filter_map(line).collect()
}

/// `bench/raw.c` may take this long.
const RAW_LIMIT: Duration = Duration::from_secs(60);

/// Medians of the machine's raw limits; those of files only where they are wanted.
fn raw(wrap: Option<&str>, runs: usize, of_files: bool) -> Result<Vec<(String, usize, f64, String)>> {
    let program = paths::build_dir().join("bench/programs/raw");
    fs::create_dir_all(program.parent().expect("a file in build/"))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-std=gnu11"]).arg(source("raw")).arg("-o").arg(&program);
    process::show(&mut cc)?;
    let mut samples: BTreeMap<(usize, String, usize, String), Vec<f64>> = BTreeMap::new();
    for _ in 0..runs {
        let mut command = Command::new(&program);
        command.args(of_files.then_some("files"));
        let mut command = wrapped(command, wrap);
        let outcome = process::capture(&mut command, bounded(RAW_LIMIT, wrap))?;
        if !outcome.success() {
            bail!("bench/raw.c failed: {}", outcome.reason());
        }
        for (order, (name, bytes, value, unit)) in parse(&outcome.stdout).into_iter().enumerate() {
            samples.entry((order, name, bytes, unit)).or_default().push(value);
        }
    }
    let row = |((_, name, bytes, unit), values): (_, Vec<f64>)| (name, bytes, median(&values), unit);
    let mut rows: Vec<_> = samples.into_iter().map(row).collect();
    rows.sort_by(|a: &(String, usize, f64, String), b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    Ok(rows)
}

pub(super) fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

fn write(report: &Report, libraries: &[Library], output: &Path) -> Result<()> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let names: Vec<&str> = libraries.iter().map(|library| library.name()).collect();
    let text = report::text(report, &names);
    print!("\n{text}");
    fs::write(output.join("bench.txt"), &text)?;
    fs::write(output.join("bench.json"), serde_json::to_string_pretty(report)? + "\n")?;
    println!("\nwritten to {0}/bench.txt and {0}/bench.json", output.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_result_lines_count() {
        let text = "noise\nRESULT pingpong 8 0.25 us\nRESULT pingpong eight 1 us\nRESULT rate 8 inf Mmsg/s\n";
        assert_eq!(parse(text), [("pingpong".to_owned(), 8, 0.25, "us".to_owned())]);
    }

    #[test]
    fn a_wrapper_keeps_arguments_and_environment() {
        let mut inner = Command::new("mpiexec");
        inner.args(["-n", "2"]).env("A", "b");
        let command = wrapped(inner, Some("nice -n 1"));
        assert_eq!(process::line(&command), "nice -n 1 mpiexec -n 2");
        assert_eq!(command.get_envs().count(), 1);
    }

    #[test]
    fn others_end_when_they_are_dropped() {
        let others = Others::start(2);
        let is_over = others.is_over.clone();
        assert_eq!((others.threads.len(), is_over.load(Ordering::Relaxed)), (2, false));
        drop(others);
        assert!(is_over.load(Ordering::Relaxed) && Arc::strong_count(&is_over) == 1, "no thread has it");
    }

    #[test]
    fn an_unknown_library_is_named_with_the_known_ones() {
        let error = chosen(&["lam".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`lam`") && error.contains("mpich"));
    }
}
