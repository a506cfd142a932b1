//! `ayatori sim`: a workload of real processes on a simulated network.

use super::sim_progress::Progress;
use crate::exit::{Coded, Exit};
use anyhow::Context;
use ayatori_fabric::description::Machine;
use ayatori_sim::simulation::{Options, Simulation, SimulationError, Workload, parse_bytes};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Instant;

/// Simulates a workload on a machine's network, or worlds with faults, with real processes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run a workload and say how long it took and what limited it
    Run(Box<RunArgs>),
    /// Run all combinations of machines, workloads and options that a file lists
    Sweep(super::sim_sweep::Args),
    /// Measure how fast the simulator is here
    Bench(super::sim_bench::Args),
    /// Run the library's protocols in random worlds with faults, and check every promise
    Fuzz(super::sim_fuzz::Args),
    /// Say how long the start of a job takes, up to 100,000 ranks and more
    Start(super::sim_start::Args),
}

/// What `ayatori sim run` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads: ping-pong (rank 0 and the last), random-ring, pairwise-exchange, halo-2d, halo-3d (or halo), the collective \
operations (barrier, bcast, allreduce, alltoall …; the library chooses the algorithm unless --algorithm names one), and \
GOAL files, text or binary (a name with a dot or a slash).

Examples:
  ayatori sim run machines/fx10.toml random-ring --bytes 1M --per-host 16 --gap 0.5
  ayatori sim run machines/fx10.toml random-ring --bytes 4M --per-host 16 --extents 8x6x16
  ayatori sim run machines/fx10.toml alltoall --bytes 64K --trace alltoall.json
  ayatori sim run machines/fx10.toml app.goal")]
struct RunArgs {
    /// The machine description
    machine: PathBuf,
    /// What the ranks do: a name, or a GOAL file
    workload: String,
    /// Routes of an Ethernet machine: the plan as it was written, its plan.json or the folder that
    /// `ayatori plan --out`
    /// wrote [default: the machine planned anew]
    #[arg(long, value_name = "PLAN", conflicts_with = "extents")]
    plan: Option<PathBuf>,
    /// Processes on the first so many hosts only
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Other extents for the machine's topology, such as 8x6x16
    #[arg(long, value_name = "AxBxC")]
    extents: Option<String>,
    /// Length of a message (or block, or face of a halo)
    #[arg(long, default_value = "64K")]
    bytes: String,
    /// Times the workload is repeated
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Processes on a host
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    per_host: u32,
    /// Silence of a NIC after each packet of long messages, in packet times
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    gap: f64,
    /// Algorithm of a collective operation
    #[arg(long)]
    algorithm: Option<String>,
    /// Processes start at times spread over so many nanoseconds
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    start_spread_ns: u64,
    /// Seed of random orders and start times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Busiest links to name
    #[arg(long, default_value_t = 5)]
    worst: usize,
    /// Refuse to run if anything is simulated otherwise than the machine file says
    #[arg(long)]
    strict: bool,
    /// Write a trace for Perfetto (ui.perfetto.dev) here
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(args) => run_workload(&args),
        Command::Sweep(args) => super::sim_sweep::run(&args),
        Command::Bench(args) => super::sim_bench::run(&args),
        Command::Fuzz(args) => super::sim_fuzz::run(&args),
        Command::Start(args) => super::sim_start::run(&args),
    }
}

fn run_workload(args: &RunArgs) -> anyhow::Result<Exit> {
    let options = args.options()?;
    let (file, machine) = load_machine(args)?;
    let workload = Workload::named(&args.workload).map_err(coded)?;
    let mut simulation = match &args.plan {
        Some(plan) => {
            let plan = super::plan::plan_of(&machine, Some(plan))?;
            Simulation::planned(&file, &machine, &plan, workload, options)
        }
        None => Simulation::new(&file, &machine, workload, options),
    }
    .map_err(coded)?;
    // A name that cannot be written is reported before the run, not after it.
    let trace_file = match &args.trace {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?),
        None => None,
    };
    for note in simulation.notes() {
        eprintln!("note: {note}");
    }
    let started = Instant::now();
    let progress = Progress::show(simulation.watch());
    let outcome = simulation.run();
    drop(progress);
    let outcome = outcome.map_err(coded)?;
    let wall_s = started.elapsed().as_secs_f64();
    if let (Some(path), Some(file)) = (&args.trace, trace_file) {
        let mut out = BufWriter::new(file);
        let written = simulation.write_trace(&mut out).and_then(|()| out.flush());
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if args.json {
        let mut value = outcome.json();
        value["wall_s"] = wall_s.into();
        format!("{value:#}\n")
    } else {
        outcome.summary(wall_s)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

impl RunArgs {
    fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            nodes: self.nodes,
            bytes: parse_bytes(&self.bytes).map_err(coded)? as u64,
            rounds: self.rounds,
            per_host: self.per_host,
            gap: self.gap,
            algorithm: self.algorithm.clone(),
            start_spread_ns: self.start_spread_ns,
            seed: self.seed,
            worst: self.worst,
            strict: self.strict,
            trace: self.trace.is_some(),
        })
    }
}

/// A wrong option has an exit code of its own.
fn coded(error: SimulationError) -> anyhow::Error {
    match error {
        SimulationError::Usage(message) => Coded::usage(message),
        error => error.into(),
    }
}

/// The described machine and its name, with other extents if asked for.
fn load_machine(args: &RunArgs) -> anyhow::Result<(String, Machine)> {
    let file = args.machine.display().to_string();
    let Some(extents) = &args.extents else { return Ok((file, Machine::load(&args.machine)?)) };
    let numbers: Result<Vec<i64>, _> = extents.split('x').map(str::parse).collect();
    let Ok(numbers) = numbers else {
        return Err(Coded::usage(format!("--extents {extents}: numbers with an x between, such as 8x6x16")));
    };
    let text = std::fs::read_to_string(&args.machine).with_context(|| format!("cannot read {file}"))?;
    // The file's own mistakes are named with their lines before anything is put in its place.
    Machine::parse(&file, &text)?;
    let mut table: toml::Table = text.parse()?;
    let described = table.get_mut("topology").and_then(|topology| topology.get_mut("extents"));
    let Some(described) = described else {
        return Err(Coded::usage(format!("--extents: the topology of {file} has no extents to replace")));
    };
    *described = numbers.into();
    let machine = Machine::parse(&format!("{file} with --extents {extents}"), &table.to_string())?;
    Ok((file, machine))
}
