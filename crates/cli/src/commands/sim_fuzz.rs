//! `ayatori sim fuzz`: fault runs of the protocol engine.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ayatori_sim::fuzz::exhaustive::{Explored, explore_all};
use ayatori_sim::fuzz::{Bug, Kind, Seeds, Violation, WorldReport, run_worlds};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{Coded, Exit, FAILURE};

/// What `ayatori sim fuzz` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A seed makes a world: a network, 1 to 8 processes, a device with moods, crashes, traffic. First every receive
is held against a naive model; then the world heals, and everything must end and nothing be left. The same seeds give the
same digest on every machine, in every build, on any number of threads.

Examples:
  ayatori sim fuzz --seeds 2000
  ayatori sim fuzz --seeds 1 --from 1420
  ayatori sim fuzz --bug lost-fin
  ayatori sim fuzz --survivors --seeds 20000
  ayatori sim fuzz --exhaustive")]
pub(crate) struct Args {
    /// How many worlds
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first one's seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; all cores if not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Build a bug into the device, to see it found (lost-credit, lost-fin, double-delivery …)
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Worlds of processes that go on without those that die: they revoke, agree and shrink
    #[arg(long)]
    survivors: bool,
    /// Every order of events of very small worlds (2 or 3 processes, 2 messages, 1 fault), not random ones
    #[arg(long, conflicts_with_all = ["seeds", "from", "jobs", "bug", "survivors"])]
    exhaustive: bool,
    /// With --exhaustive: so many states of each small world at most
    #[arg(long, default_value_t = 1_000_000, requires = "exhaustive")]
    states: u64,
}

fn bug(name: &str) -> Result<Bug, String> {
    let names = || Bug::ALL.map(Bug::name).join(", ");
    Bug::by_name(name).ok_or_else(|| format!("none of: {}", names()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.exhaustive {
        return run_exhaustive(args.states);
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} worlds, {elapsed}, {eta} left")?;
    let bar = ProgressBar::new(args.seeds).with_style(style);
    let core_count = || std::thread::available_parallelism().map_or(1, usize::from);
    let thread_count = args.jobs.map_or_else(core_count, usize::from);
    let started = Instant::now();
    // An assertion of the engine is a violation like others, reported below with its seed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let kind = if args.survivors { Kind::Survivors } else { Kind::Traffic };
    let seeds = Seeds { first: args.from, count: args.seeds };
    let outcome = run_worlds((kind, seeds), args.bug, thread_count, |_| bar.inc(1));
    std::panic::set_hook(hook);
    bar.finish_and_clear();
    match outcome {
        Ok(report) => {
            let text = summary(args, &report, started.elapsed().as_secs_f64(), thread_count);
            std::io::stdout().lock().write_all(text.as_bytes())?;
            Ok(Exit::Success)
        }
        Err(violation) => Err(Coded::error(FAILURE, failure(args, &violation))),
    }
}

fn run_exhaustive(states_max: u64) -> anyhow::Result<Exit> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = explore_all(states_max);
    std::panic::set_hook(hook);
    let explored = match outcome {
        Ok(explored) => explored,
        Err(broken) => {
            let text = format!("a promise is broken by this order of events:\n{broken}\ncommit {}", commit());
            return Err(Coded::error(FAILURE, text));
        }
    };
    let mut out = std::io::stdout().lock();
    for Explored { name, state_count, end_count, is_cut_short, .. } in &explored {
        let note = if *is_cut_short { "; not all: --states" } else { "" };
        writeln!(out, "{name}: {state_count} states, {end_count} ends{note}")?;
    }
    let (states, ends) =
        explored.iter().fold((0, 0), |sum, of| (sum.0 + of.state_count, sum.1 + of.end_count));
    writeln!(out, "{} small worlds, {states} states, {ends} ends; no violation", explored.len())?;
    Ok(Exit::Success)
}

fn summary(args: &Args, report: &WorldReport, wall_s: f64, thread_count: usize) -> String {
    format!(
        "{} worlds from seed {} in {wall_s:.1} s on {thread_count} threads: {} steps, {} messages, {} collective operations, \
         {} crashes, {} rail outages; no violation; digest {:016x}\n",
        args.seeds,
        args.from,
        report.step_count,
        report.message_count,
        report.collective_count,
        report.crash_count,
        report.outage_count,
        report.digest
    )
}

fn failure(args: &Args, violation: &Violation) -> String {
    let mut bug = args.bug.map_or(String::new(), |bug| format!(" --bug {}", bug.name()));
    if args.survivors {
        bug.push_str(" --survivors");
    }
    format!(
        "a promise is broken; the last calls of the world:\n{violation}\ncommit {}\nreplay: ayatori sim fuzz --seeds 1 --from \
         {}{bug}",
        commit(),
        violation.seed
    )
}

/// The commit of the sources this was built from, where they are still there; else the version.
fn commit() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let describe = ["describe", "--always", "--dirty", "--abbrev=12"];
    let output =
        sources.is_dir().then(|| Command::new("git").args(describe).current_dir(sources).output().ok());
    let text = output.flatten().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|text| String::from_utf8(text).ok());
    text.map_or_else(
        || format!("unknown (version {})", env!("CARGO_PKG_VERSION")),
        |text| text.trim().to_string(),
    )
}
