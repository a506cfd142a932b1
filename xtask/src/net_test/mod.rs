//! `cargo xtask net-test`: jobs over TCP between two network namespaces of this machine.
//!
//! Needs root. The namespaces and their rails have names of their own and are removed at the end, whatever
//! happens.
//!
//! There are two kinds of [steps](STEPS). A *test* fails for one reason only, that the library is wrong: it
//! waits until rails have carried so many bytes, never for a time, and has a hang limit of minutes. A *bound*
//! is a figure of time or rate with the value that it should reach: `--bounds --runs N` measures each so
//! often and says how many first tries reached it. The short tests run in CI where they can.

mod away;
mod basics;
mod compare;
mod damage;
mod ear;
mod figures;
mod hostile;
mod names;
mod network;
mod on_hosts;
mod shaped;
mod timeline;
mod trouble;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{paths, process, skips, stage};
use figures::Figures;
use network::LIMIT;

pub(crate) use hostile::{StrangerOptions, stranger};
pub(crate) use network::obstacle;
pub(crate) use on_hosts::{OnHostsOptions, on_hosts};

/// What to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these steps; without, all short tests. `list` names them
    steps: Vec<String>,
    /// The long tests, too
    #[arg(long)]
    all: bool,
    /// Instead of tests: the bounds, each measured `--runs` times
    #[arg(long)]
    bounds: bool,
    /// How often each bound is measured
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Use what is staged under build/prefix
    #[arg(long)]
    no_build: bool,
    /// Where namespaces cannot be made, skip with a message
    #[arg(long)]
    if_possible: bool,
    /// Instead of tests: ping-pong and bandwidth beside raw sockets, Open MPI, MPICH and Intel MPI
    #[arg(long)]
    measure: bool,
    /// Interleaved rounds of a comparison
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A command put in front of every measured launch, for example one that silences the machine
    #[arg(long, env = "BENCH_WRAP")]
    wrap: Option<String>,
    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the conformance programs, or networks to compare on, whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// What a step works with, and where it reports.
struct Session<'o> {
    prefix: PathBuf,
    options: &'o Options,
    failures: Vec<String>,
    figures: Figures,
}

/// What kind of step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Short,
    Long,
    Bound,
}

/// A claim that is put to the test.
struct Step {
    name: &'static str,
    what: &'static str,
    kind: Kind,
    run: fn(&mut Session<'_>) -> Result<()>,
}

macro_rules! steps {
    ($($name:literal $kind:ident $run:path: $what:literal;)*) => {
        [$(Step { name: $name, what: $what, kind: Kind::$kind, run: $run }),*]
    };
}

const STEPS: [Step; 23] = steps! {
    "conform" Short basics::conform: "our conformance programs on two ranks, one on each host";
    "conform-offload" Short basics::conform_offload: "the same in progress mode offload";
    "interfaces" Short basics::interfaces: "docker0, virbr0, IPv6, --rails, --no-rails";
    "rails" Short shaped::rails: "every rail carries data: 4 x 2 Gbit/s, 2 Gbit/s + 500 Mbit/s";
    "speed-change" Short trouble::speed_change: "a rail becomes slow and quick again under traffic";
    "rail-down" Short trouble::rail_down: "one of four rails loses its carrier, and gets it back";
    "rail-silent" Short trouble::rail_silent: "one of four rails loses every frame, and no frame any more";
    "cuts" Short basics::cuts: "ten random cuts";
    "all-gone" Short trouble::all_down: "all rails lose their carrier: every operation fails";
    "hostile" Short hostile::hostile: "strangers call a job that transfers";
    "damage" Short damage::damage: "bits flip on the way; a handshake is replayed";
    "ends" Short away::finish: "jobs end while a rail is cut, and lose nothing";
    "apart" Short trouble::apart: "hosts without a way to each other: the job ends, and says why";
    "all-silent" Long trouble::all_silent: "all rails lose every frame: every operation fails";
    "conform-all" Long basics::conform_all: "our conformance programs on two to four ranks";
    "many-cuts" Long basics::many_cuts: "a hundred random cuts";
    "share" Bound shaped::share: "share of the sum of the rails, one way and both ways";
    "usual-frames" Bound shaped::usual_frames: "the same with frames of 1500 bytes, beside raw sockets";
    "recovery-speed" Bound trouble::speed_change_times: "a rail changes its speed: until 90 % of the sum";
    "recovery-down" Bound trouble::rail_down_times: "a rail loses its carrier: stall, until 90 % of the others";
    "recovery-silent" Bound trouble::rail_silent_times: "a rail falls silent: the same";
    "hostile-share" Bound hostile::slowdown: "a transfer beside strangers: how much slower";
    "away" Bound away::times: "gaps, delivery while a rank computes, cost of mode assisted, CPU of a blocked rank";
};

impl Session<'_> {
    /// Says how something went; `why` if not well.
    fn verdict(&mut self, is_good: bool, what: &str, why: impl FnOnce() -> String) {
        if is_good {
            println!("== net-test: {what}: ok");
            return;
        }
        let why = why();
        println!("== net-test: {what}: FAILED{}{why}", if why.is_empty() { "" } else { ": " });
        self.failures.push(if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") });
    }

    /// A program of ours, built.
    fn build(&self, source: &str) -> Result<PathBuf> {
        build(&self.prefix, &paths::root().join(source))
    }
}

/// `cargo xtask net-test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.steps.iter().any(|step| step == "list") {
        for step in &STEPS {
            let kind = match step.kind {
                Kind::Short => "",
                Kind::Long => " (long)",
                Kind::Bound => " (bound)",
            };
            println!("{:16} {}{kind}", step.name, step.what);
        }
        return Ok(());
    }
    let is_chosen = |step: &&Step| match &options.steps[..] {
        [] if options.bounds => step.kind == Kind::Bound,
        [] => step.kind == Kind::Short || (options.all && step.kind == Kind::Long),
        names => names.iter().any(|name| name == step.name),
    };
    if let Some(unknown) = options.steps.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        bail!("no step `{unknown}`; `cargo xtask net-test list` names them");
    }
    if let Some(why) = network::obstacle() {
        if options.if_possible {
            skips::note("net-test", &why);
            return Ok(());
        }
        bail!("{why}");
    }
    network::sweep();
    let prefix = if options.no_build { paths::build_dir().join("prefix") } else { stage::stage()? };
    if options.measure {
        compare::run(&prefix, options)?;
        return away::overlap(&prefix);
    }
    let mut session = Session { prefix, options, failures: Vec::new(), figures: Figures::default() };
    for step in STEPS.iter().filter(is_chosen) {
        let begin = Instant::now();
        let before = session.failures.len();
        let runs = if step.kind == Kind::Bound { options.runs } else { 1 };
        for _ in 0..runs {
            if let Err(error) = (step.run)(&mut session) {
                session.failures.push(format!("{}: {error:#}", step.name));
            }
        }
        let word = if session.failures.len() == before { "passed" } else { "FAILED" };
        println!("== net-test {}: {word}, {:.0} s", step.name, begin.elapsed().as_secs_f64());
    }
    session.figures.print();
    if !session.failures.is_empty() {
        bail!(
            "net-test (seed {}): {} failures:\n  {}",
            options.seed,
            session.failures.len(),
            session.failures.join("\n  ")
        );
    }
    println!("== net-test: all passed");
    Ok(())
}

fn build(prefix: &Path, source: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    let program = paths::build_dir().join("net-test").join(name);
    std::fs::create_dir_all(program.parent().context("a folder")?)?;
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc.args(["-O2", "-std=gnu11"]).arg(source).arg("-o").arg(&program).arg("-lm");
    let outcome = process::capture(&mut mpicc, LIMIT)?;
    if !outcome.success() {
        bail!("`{}`: {}", process::line(&mpicc), outcome.reason());
    }
    Ok(program)
}

/// The program that talks over TCP without a library, built.
fn build_raw() -> Result<String> {
    let raw = paths::build_dir().join("net-test/raw");
    std::fs::create_dir_all(raw.parent().context("a folder")?)?;
    let source = paths::root().join("tests/net/raw.c");
    process::show(Command::new("cc").args(["-O2", "-std=gnu11"]).arg(source).arg("-o").arg(&raw))?;
    Ok(raw.to_string_lossy().into_owned())
}

/// The value of `RESULT name bytes value unit`.
fn result(text: &str, name: &str, bytes: usize) -> Option<f64> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["RESULT", n, b, value, ..] if n == name && b.parse() == Ok(bytes) => value.parse().ok(),
            _ => None,
        }
    })
}

/// A program that ends with its owner.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
