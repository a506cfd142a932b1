//! `ayatori sim bench`: how fast the simulator is on this machine.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Context;
use ayatori_core::Error;
use ayatori_sim::cluster::{Cluster, Config, Mpi};
use ayatori_sim::machine::nsim_torus;
use ayatori_sim::network::{Network, NoProbe};
use ayatori_sim::traffic::patterns::{PairwiseExchange, RandomRing};
use ayatori_sim::traffic::rounds::{self, Pattern, Setup};
use ayatori_sim::traffic::uniform::{self, Uniform};

use crate::exit::{Coded, Exit};

/// What `ayatori sim bench` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A packet-hop is a packet sent from router to router; the way from and to NICs is not counted. All on one core. The \
network is an 8x8x8 torus of 5 GB/s with 2 KiB packets, two virtual channels, dimension order with dateline.")]
pub(super) struct Args {
    /// How often each case is run; the best and the median are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// This part of the full length of each case, 0.01 to 10
    #[arg(long, default_value_t = 1.0)]
    part: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Extents of the torus.
const EXTENTS: [u32; 3] = [8, 8, 8];
const NODES: u32 = EXTENTS[0] * EXTENTS[1] * EXTENTS[2];
/// Payload of a packet of 2 KiB, bytes.
const PAYLOAD_BYTES: u32 = 1_920;
/// Receives posted at once, few and many: matching must take the same time for each message.
const POSTED: [u32; 2] = [1_000, 100_000];

/// A case as run once.
struct Sample {
    seconds: f64,
    hop_count: u64,
    event_count: u64,
    in_flight_count: usize,
    node_bytes: usize,
}

struct Row {
    case: &'static str,
    samples: Vec<Sample>,
}

impl Row {
    /// Rates of a count per second: best and median.
    fn rates(&self, count: impl Fn(&Sample) -> u64) -> (f64, f64) {
        let mut rates: Vec<f64> =
            self.samples.iter().map(|sample| count(sample) as f64 / sample.seconds).collect();
        rates.sort_unstable_by(f64::total_cmp);
        (rates[rates.len() - 1], rates[rates.len() / 2])
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if !(0.01..=10.0).contains(&args.part) {
        return Err(Coded::usage(format!("--part {}: from 0.01 to 10", args.part)));
    }
    let cases: [(&'static str, Case); 5] = [
        ("uniform, load 0.3", |part| offered(0.3, part)),
        ("uniform, load 0.9", |part| offered(0.9, part)),
        ("all-to-all, 1 packet", |part| all_to_all(part.min(1.0).sqrt(), 1)),
        ("all-to-all, 16 packets", |part| all_to_all(1.0, (16.0 * part).ceil() as u64)),
        ("random ring, 16 a node", random_ring),
    ];
    let mut rows = Vec::new();
    for (case, run) in cases {
        let samples = (0..args.repeat).map(|_| run(args.part)).collect::<anyhow::Result<_>>()?;
        rows.push(Row { case, samples });
    }
    let matching = POSTED
        .map(|posted| (0..args.repeat).map(|_| matching_ns(posted)).collect::<anyhow::Result<Vec<_>>>());
    let mut best_ns = Vec::new();
    for times in matching {
        best_ns.push(times?.into_iter().fold(f64::INFINITY, f64::min));
    }
    let text = if args.json { json(&rows, &best_ns) } else { table(&rows, &best_ns, args.repeat) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

type Case = fn(f64) -> anyhow::Result<Sample>;

fn torus() -> anyhow::Result<Network<NoProbe>> {
    nsim_torus(&EXTENTS, NoProbe).context("the torus of the benchmark")
}

fn sample(network: &Network<NoProbe>, started: Instant) -> Sample {
    let counters = network.counters();
    Sample {
        seconds: started.elapsed().as_secs_f64(),
        hop_count: counters.packet_hop_count,
        event_count: counters.event_count,
        in_flight_count: network.packet_high_water_count(),
        node_bytes: network.idle_memory_bytes() / network.nic_count(),
    }
}

fn offered(load: f64, part: f64) -> anyhow::Result<Sample> {
    let mut network = torus()?;
    let started = Instant::now();
    let (warm_up_ps, measure_ps) = (100_000_000, (900_000_000.0 * part) as u64);
    let traffic = Uniform { load, payload_bytes: PAYLOAD_BYTES, warm_up_ps, measure_ps, seed: 1 };
    uniform::run(&mut network, traffic)?;
    Ok(sample(&network, started))
}

/// All-to-all with messages of `packet_count` packets, among a part of the nodes.
fn all_to_all(part: f64, packet_count: u64) -> anyhow::Result<Sample> {
    let processes = ((f64::from(NODES) * part) as u32).max(2);
    rounds_of(&PairwiseExchange::new(processes, packet_count * u64::from(PAYLOAD_BYTES)), 1)
}

fn random_ring(part: f64) -> anyhow::Result<Sample> {
    let packets = (64.0 * part).ceil() as u64;
    rounds_of(&RandomRing::new(NODES * 16, packets * u64::from(PAYLOAD_BYTES), 42, 1), 16)
}

fn rounds_of(pattern: &impl Pattern, per_host_count: u32) -> anyhow::Result<Sample> {
    let mut network = torus()?;
    let setup = Setup::blocks(&network, per_host_count);
    let started = Instant::now();
    rounds::run(&mut network, pattern, &setup)?;
    Ok(sample(&network, started))
}

/// Wall time of a message between two real processes of which the receiver has posted so many receives, each
/// with a tag of its own, and gets the last one's message first, ns.
fn matching_ns(posted: u32) -> anyhow::Result<f64> {
    async fn rank(mpi: Mpi, posted: u32) -> Result<(), Error> {
        const BYTES: u64 = 8;
        let tags = 0..posted as i32;
        if mpi.rank() == 1 {
            let receives = tags.map(|tag| mpi.irecv(0, tag, BYTES)).collect::<Result<Vec<_>, _>>()?;
            mpi.barrier().await?;
            return mpi.wait_all(receives).await;
        }
        mpi.barrier().await?;
        for tag in tags.rev() {
            mpi.send(1, tag, BYTES).await?;
        }
        Ok(())
    }
    let mut cluster = Cluster::new(nsim_torus(&[2], None)?, Config::default())?;
    let started = Instant::now();
    cluster.run(|mpi| rank(mpi, posted))?;
    Ok(started.elapsed().as_secs_f64() * 1e9 / f64::from(posted))
}

/// The most memory that this process has had, bytes. `None` where the system does not say.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1_024)
}

fn table(rows: &[Row], matching_ns: &[f64], repeat: u32) -> String {
    let mut text = format!(
        "8x8x8 torus, 2 KiB packets, one core; best and median of {repeat}\n\
         {:<24}{:>22}{:>20}{:>12}{:>12}{:>10}\n{:<24}{:>11}{:>11}{:>10}{:>10}{:>12}{:>12}{:>10}\n",
        "",
        "M packet-hops/s",
        "M events/s",
        "packet-hops",
        "in flight",
        "B/node",
        "",
        "best",
        "median",
        "best",
        "median",
        "M",
        "packets",
        "idle"
    );
    for row in rows {
        let (hops_best, hops_median) = row.rates(|sample| sample.hop_count);
        let (events_best, events_median) = row.rates(|sample| sample.event_count);
        let first = &row.samples[0];
        text += &format!(
            "{:<24}{:>11.2}{:>11.2}{:>10.2}{:>10.2}{:>12.2}{:>12}{:>10}\n",
            row.case,
            hops_best / 1e6,
            hops_median / 1e6,
            events_best / 1e6,
            events_median / 1e6,
            first.hop_count as f64 / 1e6,
            first.in_flight_count,
            first.node_bytes
        );
    }
    text += &format!("a packet in flight takes {} B", Network::<NoProbe>::packet_memory_bytes());
    if let Some(bytes) = peak_memory_bytes() {
        text += &format!("; this process had {} MiB at most", bytes >> 20);
    }
    for (posted, ns) in POSTED.iter().zip(matching_ns) {
        text += &format!("\na message to a process with {posted} receives posted: {ns:.0} ns");
    }
    text + "\n"
}

fn json(rows: &[Row], matching_ns: &[f64]) -> String {
    let cases = rows.iter().map(|row| {
        let (hops_best, hops_median) = row.rates(|sample| sample.hop_count);
        let (events_best, events_median) = row.rates(|sample| sample.event_count);
        let first = &row.samples[0];
        serde_json::json!({
            "case": row.case,
            "packet_hops_per_s": {"best": hops_best, "median": hops_median},
            "events_per_s": {"best": events_best, "median": events_median},
            "packet_hops": first.hop_count,
            "events": first.event_count,
            "packets_in_flight_max": first.in_flight_count,
            "node_idle_bytes": first.node_bytes,
        })
    });
    let matching = POSTED.iter().zip(matching_ns);
    let matching = matching.map(|(posted, ns)| serde_json::json!({"posted": posted, "ns_per_message": ns}));
    let value = serde_json::json!({
        "cases": cases.collect::<Vec<_>>(),
        "matching": matching.collect::<Vec<_>>(),
        "packet_bytes": Network::<NoProbe>::packet_memory_bytes(),
        "peak_memory_bytes": peak_memory_bytes(),
    });
    format!("{value:#}\n")
}
