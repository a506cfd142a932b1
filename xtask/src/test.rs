//! `cargo xtask test`: everything a change must pass, in the order of what fails fastest. Minutes.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::conformance::programs::Programs;
use crate::conformance::{self, CommonOptions};
use crate::series::Series;
use crate::{find_mpi, paths, process, skips, stage, survive_test, tidy, wheel};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Go on after a step that fails; the failures are listed at the end.
    #[arg(long)]
    keep_going: bool,
    /// Fail where a check is skipped because something is missing on this machine.
    #[arg(long)]
    strict: bool,
    /// Remove the compiler's incremental caches once the tests are built: half of what they take on the disk,
    /// which several releases follow. Nothing is compiled again for it until a source changes.
    #[arg(long)]
    compact: bool,
    /// So many times in a row; the first that fails ends it.
    #[arg(long, default_value_t = 1)]
    times: usize,
    /// Keeps a line of each run in this file, and counts those of earlier days, too.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// With `--series`: begins no run after so many minutes; 0: goes on until `--times` have passed in a row.
    #[arg(long, default_value_t = 0, requires = "series")]
    minutes: u64,
    /// Beside threads that compute on every CPU all the while: nothing here may depend on an idle machine.
    #[arg(long)]
    loaded: bool,
    /// Rank counts of the C conformance programs.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 5])]
    ranks: Vec<usize>,
}

/// `cargo xtask test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let _load = options.loaded.then(Load::begin).transpose()?;
    if let Some(path) = &options.series {
        return go_on(options, Series::open(path)?);
    }
    for time in 1..=options.times {
        once(options).with_context(|| format!("time {time} of {}", options.times))?;
        if options.times > 1 {
            println!("== test: {time} of {} times passed", options.times);
        }
    }
    Ok(())
}

/// Goes on with a series until so many have passed in a row, by one run at least.
fn go_on(options: &Options, mut series: Series) -> Result<()> {
    let begin = Instant::now();
    loop {
        let this = Instant::now();
        let before = series.in_a_row();
        let result = once(options);
        series.add(result.is_ok(), this.elapsed())?;
        result.with_context(|| format!("after {before} that passed in a row"))?;
        let (count, times) = (series.in_a_row(), options.times);
        println!("== test: {count} of {times} times passed in a row");
        if count >= times {
            return Ok(());
        }
        let is_late = options.minutes > 0 && begin.elapsed().as_secs() >= options.minutes * 60;
        if is_late {
            bail!("{count} of {times} times passed in a row so far; the same command goes on");
        }
    }
}

/// Threads that compute, one a CPU, until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin() -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let compute = |is_over: Arc<AtomicBool>| {
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box((0..1_000_000_u64).fold(0, |sum: u64, x| sum.wrapping_mul(31) ^ x));
                }
            }
        };
        let cpus_count = std::thread::available_parallelism()?.get();
        let threads = (0..cpus_count).map(|_| std::thread::spawn(compute(is_over.clone()))).collect();
        println!("== test: beside {cpus_count} threads that compute");
        Ok(Self { is_over, threads })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The compilers that the tests need, and Debian's packages of them.
const COMPILERS: [(&str, &str); 2] = [("cc", "gcc"), ("c++", "g++")];

/// Names a compiler that is missing, before anything is built.
fn check_compilers() -> Result<()> {
    for (compiler, package) in COMPILERS {
        let started = std::process::Command::new(compiler).arg("--version").output();
        ensure!(
            started.is_ok_and(|output| output.status.success()),
            "the tests need a compiler `{compiler}`, which does not start (Debian: apt-get install {package})"
        );
    }
    Ok(())
}

fn once(options: &Options) -> Result<()> {
    check_compilers()?;
    let c_programs = CommonOptions::ours(options.ranks.clone());
    skips::begin()?;
    let skips_file = skips::path();
    let mut steps = Steps { keep_going: options.keep_going, failed: Vec::new() };
    steps.step("format", || cargo(&["fmt", "--all", "--check"], &[]))?;
    steps.step("tidy", tidy::run)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    steps.step("clippy", || cargo(&clippy, &[]))?;
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
    steps.step("docs", || cargo(&doc, &[("RUSTDOCFLAGS", "-D warnings")]))?;
    steps.step("build", || build(options.compact))?;
    let skips_file = skips_file.to_string_lossy();
    let test = ["test", "--workspace", "--no-fail-fast"];
    let prefix = paths::build_dir().join("prefix");
    let mut compiled = None;
    // Tests wait much, and the compiler does not.
    steps.step("cargo test", || {
        std::thread::scope(|scope| {
            let compile = scope.spawn(|| conformance::programs::compile(&c_programs));
            let tested = cargo(&test, &[(skips::VARIABLE, &skips_file)]);
            compiled = Some(compile.join().expect("a compilation does not panic"));
            tested
        })
    })?;
    steps.step("conformance programs", || stage::check(&prefix))?;
    run_programs(&mut steps, &c_programs, compiled)?;
    let skipped = skips::close(options.strict);
    steps.close().and(skipped)
}

/// Programs wait much, too: the wheel is made and tested beside them.
fn run_programs(
    steps: &mut Steps,
    options: &CommonOptions,
    compiled: Option<Result<Programs>>,
) -> Result<()> {
    let programs = compiled.context("there are no conformance programs to run").flatten();
    let programs = || programs.as_ref().map_err(|why| anyhow!("{why:#}"));
    let offloaded = CommonOptions { progress: Some("offload".to_owned()), ..CommonOptions::ours(vec![2]) };
    std::thread::scope(|scope| {
        let wheel = scope.spawn(wheel::check);
        steps.step("conformance", || programs()?.run(options))?;
        steps.step("conformance, progress mode offload", || programs()?.run(&offloaded))?;
        steps.step("surviving failures", || survive_test::run(&survive_test::Options::default()))?;
        steps.step("wrong arguments", || conformance::errors::run(&CommonOptions::ours(Vec::new())))?;
        steps.step("found by other tools", || find_mpi::check(&paths::build_dir().join("prefix")))?;
        steps.step("wheel", || wheel.join().expect("a check does not panic"))
    })
}

/// Builds the tests and, beside them, the library and the command that the conformance programs use: each of
/// the two builds has stretches in which one crate alone is compiled.
fn build(is_compact: bool) -> Result<()> {
    let mut release = stage::cargo_build();
    release.arg("--quiet");
    let name = process::line(&release);
    let mut child = release.spawn().with_context(|| format!("cannot start `{name}`"))?;
    let tests = cargo(&["test", "--workspace", "--no-run"], &[]);
    let status = child.wait()?;
    tests?;
    if !status.success() {
        bail!("`{name}` failed: {status}");
    }
    let caches = paths::target_dir().join("debug/incremental");
    if is_compact && caches.exists() {
        std::fs::remove_dir_all(&caches).with_context(|| format!("cannot remove {}", caches.display()))?;
    }
    Ok(())
}

/// Runs named steps, says how long each took, collects failures.
struct Steps {
    keep_going: bool,
    failed: Vec<String>,
}

impl Steps {
    fn step(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let begin = Instant::now();
        let result = body();
        let seconds = begin.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("== {name}: ok, {seconds:.0} s"),
            Err(error) if self.keep_going => {
                println!("== {name}: FAILED, {seconds:.0} s: {error:#}");
                self.failed.push(name.to_owned());
            }
            Err(error) => {
                println!("== {name}: FAILED, {seconds:.0} s");
                return Err(error);
            }
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        println!("\nall passed");
        Ok(())
    }
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(arguments).envs(environment.iter().copied()).current_dir(paths::root());
    process::show(&mut command)
}
