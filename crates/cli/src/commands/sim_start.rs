//! `ayatori sim start`: how long the start of a job takes, over numbers of ranks and hosts.

use super::run::coded;
use crate::exit::{Coded, Exit};
use anyhow::Context;
use ayatori_launch::simulated::{Costs, MEASURED, Measured, Outcome, Processors, Start, simulate};
use ayatori_launch::tree::BRANCH_COUNT_DEFAULT;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

const PS_PER_S: f64 = 1e12;
const BYTES_PER_MIB: f64 = (1 << 20) as f64;

/// Simulates the start of jobs with the launcher's own tree of agents, supervisor and PMI server.
///
/// Without --ranks and --hosts also holds the model against the measured starts of docs/bench.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Costs are a TOML file; those that it leaves out are the measured machine's (docs/job-start.md names them):
  login_us = 200000     # until ssh has started an agent
  gbit_per_s = 100

Examples:
  ayatori sim start
  ayatori sim start --ranks 100000 --hosts 1000
  ayatori sim start --ranks 100000 --hosts 1000 --branch-count 0 --costs mine.toml")]
pub(super) struct Args {
    /// Numbers of ranks [default: 1000,10000,100000]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    ranks: Vec<usize>,
    /// Numbers of hosts [default: 10,100,1000]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    hosts: Vec<usize>,
    /// Agents that the launcher, and each agent, starts at most itself; 0: the launcher starts all
    #[arg(long, value_name = "N", default_value_t = BRANCH_COUNT_DEFAULT)]
    branch_count: usize,
    /// Processors of each host
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    processors: u16,
    /// How long the parts of a start take [default: as on the measured machine, and 0.2 s to log in]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Hold the model against the measured starts only
    #[arg(long, conflicts_with_all = ["ranks", "hosts"])]
    measured: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Until ssh has logged in, where no file says it.
const LOGIN_US: f64 = 200_000.0;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.branch_count == 1 {
        return Err(Coded::usage("--branch-count 1 would start the agents one behind another"));
    }
    let costs = costs(args)?;
    let is_plain = args.ranks.is_empty() && args.hosts.is_empty();
    let held = if is_plain { held()? } else { Vec::new() };
    let or = |given: &[usize], default: [usize; 3]| match given {
        [] => default.to_vec(),
        given => given.to_vec(),
    };
    let (ranks, hosts) = (or(&args.ranks, [1_000, 10_000, 100_000]), or(&args.hosts, [10, 100, 1_000]));
    let mut cells = Vec::new();
    for &ranks_count in ranks.iter().filter(|_| !args.measured) {
        // Asked for one size, its impossibility is said; of a table such places stay empty.
        let is_possible = |hosts: usize| hosts <= ranks_count || ranks.len() * args.hosts.len() == 1;
        for hosts_count in hosts.iter().copied().filter(|hosts| is_possible(*hosts)) {
            let processors = Processors::EachHost(args.processors.into());
            let start = Start { ranks_count, hosts_count, branch_count: args.branch_count, processors };
            cells.push((start, simulate(&start, &costs).map_err(coded)?));
        }
    }
    if cells.is_empty() && held.is_empty() {
        return Err(Coded::usage("no job: each host needs a rank"));
    }
    let text = if args.json { json_of(&held, &cells) } else { table(&held, &cells) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

fn costs(args: &Args) -> anyhow::Result<Costs> {
    let Some(path) = &args.costs else { return Ok(Costs { login_us: LOGIN_US, ..Costs::default() }) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let costs: Costs =
        toml::from_str(&text).map_err(|error| Coded::usage(format!("{}: {error}", path.display())))?;
    costs.check().map_err(|why| Coded::usage(format!("{}: {why}", path.display())))?;
    Ok(costs)
}

/// The measured starts, each with what the model says: agents on one machine of two processors, forked and
/// flat.
fn held() -> anyhow::Result<Vec<(Measured, Outcome)>> {
    let outcome = |measured: &Measured| {
        let Measured { ranks_count, hosts_count, .. } = *measured;
        let start =
            Start { ranks_count, hosts_count, branch_count: 0, processors: Processors::OneMachine(2) };
        Ok((*measured, simulate(&start, &Costs::default())?))
    };
    MEASURED.iter().map(outcome).collect()
}

fn table(held: &[(Measured, Outcome)], cells: &[(Start, Outcome)]) -> String {
    let mut text = String::new();
    if !held.is_empty() {
        let _ = writeln!(
            text,
            "Held against docs/bench.md: all hosts are one machine of 2 CPUs, agents are forked, flat\n"
        );
        let _ = writeln!(text, "  ranks  hosts  measured, s  model, s  deviation  peak, MiB  model, MiB");
    }
    for (measured, outcome) in held {
        let model_s = seconds(outcome.elapsed_ps);
        let peak = measured.peak_mib.map_or_else(|| "-".to_owned(), |peak| format!("{peak:.1}"));
        let _ = writeln!(
            text,
            "{:>7} {:>6} {:>12.2} {model_s:>9.2} {:>+9.0}% {peak:>10} {:>11.1}  {}",
            measured.ranks_count,
            measured.hosts_count,
            measured.seconds,
            100.0 * (model_s / measured.seconds - 1.0),
            mib(outcome.rank_bytes),
            if measured.is_fitted { "fitted" } else { "predicted" },
        );
    }
    if !cells.is_empty() {
        let gap = if held.is_empty() { "" } else { "\n" };
        let head = "  ranks  hosts  in MPI, s  ended, s  launcher busy, s  agents it starts  levels   \
                    requests  MiB through it  MiB a rank";
        let _ = writeln!(text, "{gap}Simulated\n\n{head}");
    }
    for (start, outcome) in cells {
        let _ = writeln!(
            text,
            "{:>7} {:>6} {:>10.2} {:>9.2} {:>17.2} {:>17} {:>7} {:>10} {:>15.0} {:>11.1}",
            start.ranks_count,
            start.hosts_count,
            seconds(outcome.initialised_ps),
            seconds(outcome.elapsed_ps),
            seconds(outcome.busy_ps),
            outcome.connections_count,
            outcome.depth,
            outcome.requests_count,
            mib(outcome.frames_bytes),
            mib(outcome.rank_bytes),
        );
    }
    text
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / PS_PER_S
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / BYTES_PER_MIB
}

fn json_of(held: &[(Measured, Outcome)], cells: &[(Start, Outcome)]) -> String {
    let outcome = |ranks: usize, hosts: usize, outcome: &Outcome| {
        json!({
            "ranks": ranks,
            "hosts": hosts,
            "initialised_s": seconds(outcome.initialised_ps),
            "elapsed_s": seconds(outcome.elapsed_ps),
            "launcher_busy_s": seconds(outcome.busy_ps),
            "connections": outcome.connections_count,
            "levels": outcome.depth,
            "requests": outcome.requests_count,
            "frames": outcome.frames_count,
            "frames_bytes": outcome.frames_bytes,
            "rank_bytes": outcome.rank_bytes,
        })
    };
    let held = held.iter().map(|(measured, simulated)| {
        let mut value = outcome(measured.ranks_count, measured.hosts_count, simulated);
        value["measured_s"] = measured.seconds.into();
        value["measured_peak_mib"] = measured.peak_mib.into();
        value["is_fitted"] = measured.is_fitted.into();
        value
    });
    let cells =
        cells.iter().map(|(start, simulated)| outcome(start.ranks_count, start.hosts_count, simulated));
    format!("{:#}\n", json!({ "held": held.collect::<Vec<_>>(), "simulated": cells.collect::<Vec<_>>() }))
}
