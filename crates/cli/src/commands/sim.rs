//! `ayatori sim`: a workload of real processes on a simulated network.

use super::info::parse_bytes;
use super::sim_progress::Progress;
use crate::exit::{Coded, Exit};
use anyhow::Context;
use ayatori_core::coll::Collective;
use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::{Cluster, ClusterReport, Config};
use ayatori_sim::goal::{self, Schedule};
use ayatori_sim::machine::{self, Simulated};
use ayatori_sim::network::{Counters, Gap};
use ayatori_sim::report::{Group, HostReport, LinkReport};
use ayatori_sim::trace::Trace;
use ayatori_sim::workloads::{self, HaloGrid, RingOrder};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::rc::Rc;
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
    /// Measure how fast the simulator is here
    Bench(super::sim_bench::Args),
    /// Run the library's protocols in random worlds with faults, and check every promise
    Fuzz(super::sim_fuzz::Args),
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
        Command::Bench(args) => super::sim_bench::run(&args),
        Command::Fuzz(args) => super::sim_fuzz::run(&args),
    }
}

fn run_workload(args: &RunArgs) -> anyhow::Result<Exit> {
    if !(0.0..=1_000_000.0).contains(&args.gap) {
        return Err(Coded::usage(format!("--gap {}: from 0 to 1,000,000 packet times", args.gap)));
    }
    let machine = load_machine(args)?;
    let work = Work::of(&args.workload)?;
    let process_count = process_count(args, &machine, &work)?;
    check_workload(args, &work, process_count)?;
    // A name that cannot be written is told before the run, not after it.
    let trace_file = match &args.trace {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?),
        None => None,
    };
    let probe = args.trace.is_some().then(Trace::default);
    let Simulated { network, mut notes } = machine::simulate(&machine, probe)
        .with_context(|| format!("{} cannot be simulated", args.machine.display()))?;
    let config = Config {
        gap: Gap::packets(args.gap),
        start_spread_ps: args.start_spread_ns * 1_000,
        seed: args.seed,
        process_count: Some(process_count),
        ..machine::cluster_config(&machine, args.per_host, &mut notes)
    };
    if args.strict && !notes.is_empty() {
        let notes = notes.join("\n  ");
        anyhow::bail!("{} is not simulated as it says (--strict):\n  {notes}", args.machine.display());
    }
    for note in &notes {
        eprintln!("note: {note}");
    }
    let mut cluster = Cluster::new(network, config)?;
    let started = Instant::now();
    let progress = Progress::show(cluster.watch());
    let report = start(&mut cluster, args, work, process_count);
    drop(progress);
    let report = report?;
    let wall_s = started.elapsed().as_secs_f64();
    let (links, counters) = cluster
        .with_network(|network| (LinkReport::of(network, report.elapsed_ps, args.worst), network.counters()));
    if let (Some(path), Some(file)) = (&args.trace, trace_file) {
        write_trace(&cluster, file).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let hosts = HostReport::of(&report);
    let outcome =
        Outcome { args, report: &report, links: &links, hosts: &hosts, counters, process_count, wall_s };
    let text = if args.json { outcome.json() } else { outcome.summary() };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// What is to be run.
enum Work {
    Named(String),
    Goal(Rc<Schedule>),
}

impl Work {
    /// No workload has a dot or a slash in its name; files have.
    fn of(workload: &str) -> anyhow::Result<Work> {
        if !workload.contains(['.', MAIN_SEPARATOR]) {
            return Ok(Work::Named(workload.into()));
        }
        Ok(Work::Goal(Rc::new(Schedule::load(Path::new(workload))?)))
    }
}

/// The described machine, with other extents if asked for.
fn load_machine(args: &RunArgs) -> anyhow::Result<Machine> {
    let Some(extents) = &args.extents else { return Ok(Machine::load(&args.machine)?) };
    let numbers: Result<Vec<i64>, _> = extents.split('x').map(str::parse).collect();
    let Ok(numbers) = numbers else {
        return Err(Coded::usage(format!("--extents {extents}: numbers with an x between, such as 8x6x16")));
    };
    let file = args.machine.display().to_string();
    let text = std::fs::read_to_string(&args.machine).with_context(|| format!("cannot read {file}"))?;
    // The file's own mistakes are named with their lines before anything is put in its place.
    Machine::parse(&file, &text)?;
    let mut table: toml::Table = text.parse()?;
    let described = table.get_mut("topology").and_then(|topology| topology.get_mut("extents"));
    let Some(described) = described else {
        return Err(Coded::usage(format!("--extents: the topology of {file} has no extents to replace")));
    };
    *described = numbers.into();
    Ok(Machine::parse(&format!("{file} with --extents {extents}"), &table.to_string())?)
}

/// How many processes there are: the ranks of a GOAL file, or as many as the hosts to be used hold.
fn process_count(args: &RunArgs, machine: &Machine, work: &Work) -> anyhow::Result<u32> {
    let (host_count, file) = (machine.graph.host_count() as u64, args.machine.display());
    let node_count = args.nodes.map_or(host_count, u64::from);
    if node_count > host_count {
        return Err(Coded::usage(format!(
            "--nodes {node_count}: {file} has {host_count} hosts (--extents makes it larger)"
        )));
    }
    let room = node_count * u64::from(args.per_host);
    let count = match work {
        Work::Named(_) => room,
        Work::Goal(schedule) => schedule.ranks.len() as u64,
    };
    if count > room {
        let per_host = count.div_ceil(node_count);
        return Err(Coded::usage(format!(
            "{} has {count} ranks; {node_count} hosts of {file} with {} each hold {room}: --per-host {per_host} would do",
            args.workload, args.per_host
        )));
    }
    let fits = u32::try_from(count).ok().filter(|&count| count <= PROCESS_COUNT_MAX);
    fits.ok_or_else(|| {
        Coded::usage(format!("{count} processes: at most {PROCESS_COUNT_MAX} can be simulated"))
    })
}

/// More would take more memory than computers have (a process takes a few KiB).
const PROCESS_COUNT_MAX: u32 = 1 << 22;

/// The workloads that are no collective operation.
const WORKLOADS: [&str; 6] = ["ping-pong", "random-ring", "pairwise-exchange", "halo-2d", "halo-3d", "halo"];

/// What can be known to be wrong before anything runs.
fn check_workload(args: &RunArgs, work: &Work, process_count: u32) -> anyhow::Result<()> {
    let _ = parse_bytes(&args.bytes)?;
    let operation = match work {
        Work::Goal(_) => None,
        Work::Named(name) => Collective::by_name(name),
    };
    if let (Work::Named(name), None) = (work, operation)
        && !WORKLOADS.contains(&name.as_str())
    {
        let operations: Vec<&str> = Collective::ALL.iter().map(|operation| operation.name()).collect();
        return Err(Coded::usage(format!(
            "no workload '{name}': {}, a collective operation ({}) or a GOAL file (a name with a dot or a slash)",
            WORKLOADS.join(", "),
            operations.join(", ")
        )));
    }
    if args.workload == "ping-pong" && process_count < 2 {
        return Err(Coded::usage("ping-pong needs two processes: --nodes 2 or --per-host 2"));
    }
    let Some(algorithm) = &args.algorithm else { return Ok(()) };
    let Some(operation) = operation else {
        return Err(Coded::usage("--algorithm is for collective operations"));
    };
    let names: Vec<&str> = operation.algorithms().iter().map(|algorithm| algorithm.name()).collect();
    if !names.contains(&algorithm.as_str()) {
        return Err(Coded::usage(format!(
            "--algorithm {algorithm}: {} has {}",
            operation.name(),
            names.join(", ")
        )));
    }
    Ok(())
}

fn start(
    cluster: &mut Cluster,
    args: &RunArgs,
    work: Work,
    process_count: u32,
) -> anyhow::Result<ClusterReport> {
    let (bytes, rounds) = (parse_bytes(&args.bytes)? as u64, args.rounds);
    let report = match work {
        Work::Goal(schedule) => cluster.run(|mpi| {
            let schedule = schedule.clone();
            async move {
                for _ in 0..rounds {
                    goal::run_rank(mpi.clone(), schedule.clone()).await?;
                }
                Ok(())
            }
        }),
        Work::Named(name) => return run_named(cluster, args, &name, (bytes, rounds), process_count),
    };
    Ok(report?)
}

fn run_named(
    cluster: &mut Cluster,
    args: &RunArgs,
    name: &str,
    (bytes, rounds): (u64, u32),
    process_count: u32,
) -> anyhow::Result<ClusterReport> {
    let report = match name {
        "ping-pong" => cluster.run(|mpi| workloads::ping_pong(mpi, process_count - 1, bytes, rounds)),
        "random-ring" => {
            let order = RingOrder::new(process_count, args.seed);
            cluster.run(|mpi| {
                let (left, right) = order.neighbours(mpi.rank());
                workloads::random_ring(mpi, left, right, bytes, rounds)
            })
        }
        "pairwise-exchange" => cluster.run(|mpi| async move {
            for _ in 0..rounds {
                workloads::pairwise_exchange(mpi.clone(), bytes).await?;
            }
            Ok(())
        }),
        "halo" | "halo-3d" | "halo-2d" => {
            let extents: Vec<u32> = match name {
                "halo-2d" => near_square(process_count).into(),
                _ => near_cube(process_count).into(),
            };
            let grid = HaloGrid { face_bytes: vec![bytes; extents.len()], extents };
            cluster.run(|mpi| workloads::halo_exchange(mpi, grid.clone(), 0, rounds))
        }
        name => {
            let operation = Collective::by_name(name).context("no such workload")?;
            cluster.run(|mpi| {
                let algorithm = args.algorithm.clone();
                async move {
                    for _ in 0..rounds {
                        mpi.collective(operation, bytes, algorithm.as_deref()).await?;
                    }
                    Ok(())
                }
            })
        }
    };
    Ok(report?)
}

/// The largest factor of `count` that is at most `limit`.
fn largest_factor(count: u32, limit: f64) -> u32 {
    (1..=limit as u32).rev().find(|&factor| count.is_multiple_of(factor)).unwrap_or(1)
}

/// Two factors of `count`, as near each other as can be, the larger first.
fn near_square(count: u32) -> [u32; 2] {
    let smaller = largest_factor(count, f64::from(count).sqrt().floor());
    [count / smaller, smaller]
}

/// Three factors of `count`, near each other.
fn near_cube(count: u32) -> [u32; 3] {
    let first = largest_factor(count, f64::from(count).cbrt().round());
    let [third, second] = near_square(count / first);
    [third, second, first]
}

fn write_trace(cluster: &Cluster, file: File) -> anyhow::Result<()> {
    const COUNTED_LINKS: usize = 32;
    let mut out = BufWriter::new(file);
    cluster.with_network(|network| match network.probe() {
        Some(trace) => trace.write(network.graph(), COUNTED_LINKS, &mut out),
        None => Ok(()),
    })?;
    out.flush()?;
    Ok(())
}

/// What is told of a run.
struct Outcome<'a> {
    args: &'a RunArgs,
    report: &'a ClusterReport,
    links: &'a LinkReport,
    hosts: &'a HostReport,
    counters: Counters,
    process_count: u32,
    wall_s: f64,
}

/// Nothing in no time is 0, not NaN.
fn per(count: f64, time: f64) -> f64 {
    if time > 0.0 { count / time } else { 0.0 }
}

impl Outcome<'_> {
    fn summary(&self) -> String {
        let Outcome { args, report, links, hosts, counters, process_count, wall_s } = self;
        let (microseconds, gigabytes) =
            (report.elapsed_ps as f64 / 1e6, counters.delivered_bytes as f64 / 1e9);
        let rate = per(gigabytes, report.elapsed_ps as f64 / 1e12);
        let hops = counters.packet_hop_count as f64 / 1e6;
        let noun = if *process_count == 1 { "process" } else { "processes" };
        format!(
            "{} on {process_count} {noun}: {microseconds:.3} us, {gigabytes:.3} GB through the network, {rate:.3} GB/s\n\
             {links}bottleneck: {}\n\
             simulated {hops:.2} M packet-hops in {wall_s:.2} s, {:.2} M/s\n",
            args.workload,
            links.bottleneck(hosts),
            per(hops, *wall_s),
        )
    }

    fn json(&self) -> String {
        let Outcome { args, report, links, hosts, counters, process_count, wall_s } = self;
        let group = |group: &Group| {
            serde_json::json!({
                "links": group.channel_count,
                "utilisation_max": group.max,
                "utilisation_mean": group.mean,
                "wait_mean_ps": group.mean_wait_ps,
            })
        };
        let worst = links.worst.iter().map(|link| {
            serde_json::json!({
                "link": link.name, "utilisation": link.utilisation, "wait_mean_ps": link.mean_wait_ps,
            })
        });
        // How long packets wait in a NIC is not measured.
        let mut injection = group(&links.injection);
        injection["wait_mean_ps"] = serde_json::Value::Null;
        let value = serde_json::json!({
            "workload": args.workload,
            "processes": process_count,
            "elapsed_ps": report.elapsed_ps,
            "finished_ps": report.finished_ps,
            "network_bytes": counters.delivered_bytes,
            "bandwidth_bytes_per_s": per(counters.delivered_bytes as f64, report.elapsed_ps as f64 / 1e12),
            "packet_hops": counters.packet_hop_count,
            "wall_s": wall_s,
            "injection": injection,
            "network": group(&links.network),
            "ejection": group(&links.ejection),
            "software_max": hosts.software_max,
            "software_mean": hosts.software_mean,
            "memory_max": hosts.memory_max,
            "worst": worst.collect::<Vec<_>>(),
            "bottleneck": links.bottleneck(hosts),
        });
        format!("{value:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_factors_are_near_each_other_and_multiply_to_the_count() {
        for (count, extents) in [(64, [4, 4, 4]), (12, [3, 2, 2]), (7, [7, 1, 1]), (1, [1, 1, 1])] {
            assert_eq!(near_cube(count), extents);
        }
        assert_eq!([12, 7, 16].map(near_square), [[4, 3], [7, 1], [4, 4]]);
        for count in 1..500 {
            assert_eq!(near_cube(count).iter().product::<u32>(), count);
            assert_eq!(near_square(count).iter().product::<u32>(), count);
        }
    }
}
