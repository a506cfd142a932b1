//! `cargo xtask net-test`: jobs over TCP between two network namespaces of this machine.
//!
//! Needs root. The namespaces and their rails have names of their own and are removed at the end, whatever happens. Each claim
//! about networks is a [step](STEPS); the short ones together take about two minutes and run in CI where they can.

mod away;
mod basics;
mod calm;
mod compare;
mod damage;
mod hostile;
mod network;
mod shaped;
mod timeline;
mod trouble;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{paths, process, stage};
use network::LIMIT;

pub(crate) use hostile::{StrangerOptions, stranger};

/// What to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these steps; without, all that are short. `list` names them
    steps: Vec<String>,
    /// The long ones, too
    #[arg(long)]
    all: bool,
    /// Use what is staged under build/prefix
    #[arg(long)]
    no_build: bool,
    /// Where namespaces cannot be made, say so and be content
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

/// What a step goes by, and where it says what is wrong.
struct Session<'o> {
    prefix: PathBuf,
    options: &'o Options,
    failures: Vec<String>,
    /// Figures that were not reached: tried again, for others may have used the machine.
    misses: Vec<String>,
}

/// How often a step is tried whose figures are not reached.
const ATTEMPTS: usize = 3;

/// A claim that is put to the test.
struct Step {
    name: &'static str,
    what: &'static str,
    is_long: bool,
    run: fn(&mut Session<'_>) -> Result<()>,
}

macro_rules! steps {
    ($($name:literal $length:ident $run:path: $what:literal;)*) => {
        [$(Step { name: $name, what: $what, is_long: steps!(@$length), run: $run }),*]
    };
    (@short) => { false };
    (@long) => { true };
}

const STEPS: [Step; 19] = steps! {
    "conform" short basics::conform: "our conformance programs on two ranks, one on each host";
    "conform-offload" short basics::conform_offload: "the same in progress mode offload";
    "interfaces" short basics::interfaces: "docker0, virbr0, IPv6, --rails, --no-rails";
    "bandwidth" short shaped::bandwidth: "4 x 2 Gbit/s, 2 Gbit/s + 500 Mbit/s one way: share of the sum";
    "both-ways" short shaped::both_ways: "the same both ways";
    "speed-change" short trouble::speed_change: "a rail becomes slow and quick again under traffic";
    "rail-down" short trouble::rail_down: "one of four rails loses its carrier, and gets it back";
    "rail-silent" short trouble::rail_silent: "one of four rails loses every frame, and no frame any more";
    "cuts" short basics::cuts: "ten random cuts";
    "all-gone" short trouble::all_down: "all rails lose their carrier: every operation fails in time";
    "hostile" short hostile::hostile: "strangers at the doors of a job that transfers";
    "damage" short damage::damage: "bits flip on the way; a handshake is replayed";
    "gaps" short away::pace: "gaps between packets leave their part of the rate";
    "ends" short away::finish: "jobs end while a rail is cut, and lose nothing";
    "busy" short away::busy: "a message is delivered while a rank computes; what mode assisted costs";
    "all-silent" long trouble::all_silent: "all rails lose every frame: every operation fails in time";
    "conform-all" long basics::conform_all: "our conformance programs on two to four ranks";
    "many-cuts" long basics::many_cuts: "a hundred random cuts";
    "usual-frames" long shaped::usual_frames: "bandwidth with frames of 1500 bytes, beside raw sockets";
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

    /// Says a figure, and whether it is what it should be.
    fn figure(&mut self, is_good: bool, what: &str) {
        println!("== net-test: {what}: {}", if is_good { "ok" } else { "MISSED" });
        if !is_good {
            self.misses.push(what.to_owned());
        }
    }

    /// Tries a step until its figures are reached, the next time when others leave the CPUs alone; what is wrong is wrong at
    /// once, and so are figures that are missed every time, whatever others took meanwhile.
    fn try_out(&mut self, step: &Step) {
        let before = self.failures.len();
        for attempt in 1..=ATTEMPTS {
            self.misses.clear();
            let meter = calm::Meter::start();
            if let Err(error) = (step.run)(self) {
                self.failures.push(format!("{}: {error:#}", step.name));
            }
            if self.failures.len() > before || self.misses.is_empty() {
                return;
            }
            let others = meter.others() * 100.0;
            let next = if attempt < ATTEMPTS { "; once more" } else { "" };
            println!("== net-test {}: missed; others took {others:.0} % of the CPUs{next}", step.name);
            if attempt < ATTEMPTS {
                calm::await_calm();
            }
        }
        self.failures.append(&mut self.misses);
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
            println!("{:14} {}{}", step.name, step.what, if step.is_long { " (long)" } else { "" });
        }
        return Ok(());
    }
    let is_chosen = |step: &&Step| match &options.steps[..] {
        [] => options.all || !step.is_long,
        names => names.iter().any(|name| name == step.name),
    };
    if let Some(unknown) = options.steps.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        bail!("no step `{unknown}`; `cargo xtask net-test list` names them");
    }
    if let Some(why) = network::obstacle() {
        if options.if_possible {
            println!("== net-test: SKIPPED: {why}");
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
    let mut session = Session { prefix, options, failures: Vec::new(), misses: Vec::new() };
    for step in STEPS.iter().filter(is_chosen) {
        let begin = Instant::now();
        let before = session.failures.len();
        session.try_out(step);
        let word = if session.failures.len() == before { "passed" } else { "FAILED" };
        println!("== net-test {}: {word}, {:.0} s", step.name, begin.elapsed().as_secs_f64());
    }
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

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
