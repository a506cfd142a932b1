//! What a machine costs, fitted to what its own benchmarks measured, as a machine file; and what the
//! simulator predicts with that file beside what was measured.
//!
//! The benchmarks are `bench/*.c`, run by two and more ranks of one host; the command runs them, this
//! module is given what they print. The model of a host without buses has a few costs for what goes through
//! shared memory, and each is computed from the figure that shows it most directly ([`fit`]). All other
//! figures are predictions.

mod among;
mod cores;
mod kernel_copies;
mod long;
mod near;
mod numa;
mod over_tcp;
mod records;
mod samples;
mod together;

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use ayatori_core::Error;
use ayatori_core::coll::Collective;
use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::{Cluster, Config, Mpi};
use ayatori_sim::machine::{Simulated, cluster_config, simulate};
use ayatori_sim::workloads;

use crate::report::Table;
pub use among::AmongFit;
pub use cores::CoreFit;
pub use kernel_copies::KernelCopyFit;
pub use near::{Near, Placement, Sighting, Sorted, sort};
pub use numa::{Node, NumaFit, Topology};
pub use over_tcp::SocketFit;
pub use records::Records;
use samples::{
    BANDWIDTH_WINDOW, COPIED_BYTES, COPY, COPY_UNCACHED, LINES_BACK, RATE_MAX_GBYTES_PER_S, RATE_WINDOW,
    REDUCE, SHORT_BYTES, long_slope, rate_lines, times_ns, value_of,
};
pub use samples::{CHECKSUM, Figure, ONE_CORE, OVER_TCP, Sample, figures};
pub use together::{EXCHANGE, SCHEDULE, TAKING_TURNS, TogetherFit};

/// The figures that a benchmark run by so many ranks has printed: lines `RESULT name bytes value unit`, each
/// of which may follow a line `NEAR` with how near the CPUs were.
///
/// # Errors
/// A line that is none, a value that is no positive number.
pub fn sightings(text: &str, ranks: u32) -> anyhow::Result<Vec<Sighting>> {
    let (mut sightings, mut near) = (Vec::new(), None);
    for line in text.lines() {
        let named = || format!("in the benchmark's line '{line}'");
        if let Some(rest) = line.strip_prefix("NEAR ") {
            near = Some(near_of(rest).with_context(named)?);
        } else if let Some(rest) = line.strip_prefix("RESULT ") {
            let sample = sample_of(rest, ranks).with_context(named)?;
            sightings.push(Sighting { sample, near: near.take(), round: 1 });
        }
    }
    Ok(sightings)
}

fn sample_of(rest: &str, ranks: u32) -> anyhow::Result<Sample> {
    let mut words = rest.split_ascii_whitespace();
    let mut word = || words.next().context("a word is missing");
    let (name, bytes, value, unit) = (word()?.to_owned(), word()?.parse()?, word()?.parse::<f64>()?, word()?);
    ensure!(["us", "GB/s", "Mmsg/s", "KiB"].contains(&unit), "the unit {unit} is not known");
    ensure!(value.is_finite() && value > 0.0, "{value} is no result");
    Ok(Sample { name, ranks, bytes, value })
}

fn near_of(rest: &str) -> anyhow::Result<Near> {
    let numbers: Vec<f64> = rest.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let &[a, b, c, d] = numbers.as_slice() else { anyhow::bail!("four numbers are expected") };
    ensure!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "a number is no result");
    Ok(Near { line_ns: [a, b], copy_gbytes_per_s: [c, d] })
}

/// Costs of what goes through a host's shared memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Software of a sender and of a receiver, each, ns.
    pub software_ns: f64,
    /// A cache line from core to core, ns.
    pub core_to_core_ns: f64,
    /// Copies of what is in the cache, GB/s.
    pub hot_copy_gbytes_per_s: f64,
    /// Copies of what is not, GB/s.
    pub copy_gbytes_per_s: f64,
    /// What is copied in by one core and out by another: from one to the other, GB/s.
    pub memory_gbytes_per_s: f64,
    /// Packets and data of collective operations, from core to core.
    pub cores: CoreFit,
    /// Until a rank that polls sees what has come, beside both sides' software and the line's way, ns.
    pub poll_ns: f64,
    /// What long packets take that one core copies in and another out at once: rates of who goes through so
    /// many bytes, GB/s.
    pub relay: Vec<(u64, f64)>,
    /// What these take beside: the first part, the line's way and the last part, ns.
    pub relay_ends_ns: Option<f64>,
    /// The library's software for a message in packets that is announced, ns.
    pub announce_ns: f64,
    /// What the kernel copies from another process; `None`: it refuses.
    pub kernel_copy: Option<KernelCopyFit>,
    /// Reductions of what is in the cache, GB/s of one operand.
    pub reduce_gbytes_per_s: f64,
    /// Until a rank that waits, polls once and lets the next one of its core run has done so, ns.
    pub yield_ns: f64,
    /// What ranks do together.
    pub together: TogetherFit,
    /// What takes longer among more than two ranks, the fewest first.
    pub among: Vec<AmongFit>,
    /// Far memory; `None`: there is none, or it was not measured.
    pub numa: Option<NumaFit>,
    /// TCP; `None`: it was not measured.
    pub sockets: Option<SocketFit>,
}

/// The costs that samples of two ranks show.
///
/// A window of W short messages and its answer take W times the software of one side, and the rest of two
/// latencies; a short message takes both sides' software and a cache line's way. What longer packets, copies,
/// the kernel's copies and reductions take is measured without messages: from 256 B to 8 KiB a packet is
/// copied in, goes from core to core, and is copied out. Two ranks that share a core take for a message the
/// software of both, and in between the core goes from one to the other; barriers of such ranks, where they
/// were measured, say the same.
///
/// Where the line's way was measured by itself (`line_ns`), what a short message takes beside it and both
/// sides' software is what a rank that polls takes to see it.
///
/// # Errors
/// A figure that is needed and was not measured.
pub fn fit(samples: &[Sample], line_ns: Option<f64>) -> anyhow::Result<Fit> {
    let among = among::fit(samples);
    let samples: Vec<Sample> = samples.iter().filter(|sample| !among::is_of_more(sample)).cloned().collect();
    let samples = samples.as_slice();
    let short_ns = times_ns(samples, "pingpong_separate").into_iter().find(|time| time.0 == SHORT_BYTES);
    let short_ns = short_ns.context("pingpong_separate of 8 B between two ranks was not measured")?.1;
    let window = f64::from(RATE_WINDOW);
    let window_ns = 1e3 * window / value_of(samples, "rate", SHORT_BYTES)?;
    let window_ns = (window_ns - 2.0 * short_ns) / (window - 2.0);
    let most_ns = (short_ns - line_ns.unwrap_or(0.0)) / 2.0;
    let software_ns = window_ns.min(most_ns).max(short_ns / 100.0);
    let rest_ns = (short_ns - 2.0 * software_ns).max(1.0);
    let core_to_core_ns = line_ns.unwrap_or(rest_ns);
    let quickest = |name: &str| {
        let rates = samples.iter().filter(|sample| sample.name == name).map(|sample| sample.value);
        let rate = rates.max_by(f64::total_cmp).with_context(|| format!("{name} was not measured"))?;
        anyhow::Ok(rate.min(RATE_MAX_GBYTES_PER_S))
    };
    let hot_copy_gbytes_per_s = quickest(COPY)?;
    let mut copied = cores::whole_packets(samples);
    copied.retain(|(bytes, _)| COPIED_BYTES.contains(bytes));
    let slope = long_slope(&copied).context("packets of 256 B to 8 KiB were not measured")?;
    let copy_gbytes_per_s = quickest(COPY_UNCACHED)?.min(hot_copy_gbytes_per_s);
    // Two copies beside the move; where these seem to take no time they are not what limits.
    let move_ns_per_byte = (slope - 2.0 / hot_copy_gbytes_per_s).max(1.0 / RATE_MAX_GBYTES_PER_S);
    let one_core_ns = 1e3 * value_of(samples, ONE_CORE, SHORT_BYTES)? - 2.0 * software_ns;
    let poll_ns = (rest_ns - core_to_core_ns).max(0.0);
    Ok(Fit {
        software_ns,
        core_to_core_ns,
        poll_ns,
        cores: cores::fit(samples, quickest(LINES_BACK).ok()),
        relay: long::relay(samples),
        relay_ends_ns: long::relay_ends_ns(samples),
        announce_ns: long::announce_ns(samples, software_ns, core_to_core_ns + poll_ns),
        hot_copy_gbytes_per_s,
        copy_gbytes_per_s,
        memory_gbytes_per_s: 1.0 / move_ns_per_byte,
        kernel_copy: kernel_copies::fit(samples, short_ns, software_ns),
        reduce_gbytes_per_s: quickest(REDUCE)?,
        yield_ns: together::yield_of_two_ns(samples, software_ns).unwrap_or(one_core_ns).max(1.0),
        together: together::fit(samples, copy_gbytes_per_s, software_ns, core_to_core_ns + poll_ns),
        among,
        numa: numa::fit(samples),
        sockets: over_tcp::sockets(samples, software_ns),
    })
}

/// A network interface as the system describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its speed, Mbit/s, if it says so.
    pub speed_mbit_per_s: Option<u32>,
    /// It does not say its speed to the library, which takes it for [`SPEED_ASSUMED_MBIT_PER_S`].
    pub is_silent: bool,
    /// Its longest payload, bytes, if it says so.
    pub mtu_bytes: Option<u32>,
}

/// What the system says of a machine without measuring.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The host's name.
    pub name: String,
    /// When and under which load it was measured, in words.
    pub circumstances: String,
    /// The load when measuring began (processes that ran or wanted to, mean of a minute), if known.
    pub load: Option<f64>,
    /// CPUs.
    pub core_count: u32,
    /// Sockets and NUMA nodes.
    pub topology: Topology,
    /// The last cache, MiB, if known.
    pub cache_mib: Option<f64>,
    /// Interfaces that lead to other hosts.
    pub interfaces: Vec<Interface>,
}

impl Facts {
    /// The same with a loopback in place of the network: no wire to speak of, and its packets.
    pub fn on_loopback(&self) -> Facts {
        let speed_mbit_per_s = Some(10_000_000);
        let name = "lo".into();
        let interface = Interface { name, speed_mbit_per_s, is_silent: true, mtu_bytes: Some(65_535) };
        Facts { interfaces: vec![interface], ..self.clone() }
    }
}

/// Speed that is assumed of an interface that does not say, here and by the library, Mbit/s.
const SPEED_ASSUMED_MBIT_PER_S: u32 = 10_000;

/// A description of two such hosts at a switch. `placement`: of the CPUs that were measured.
pub fn machine_text(facts: &Facts, fit: &Fit, placement: Option<&Placement>) -> String {
    let name = "eth0".into();
    let assumed = Interface { name, speed_mbit_per_s: None, is_silent: true, mtu_bytes: None };
    let nics = if facts.interfaces.is_empty() { vec![assumed] } else { facts.interfaces.clone() };
    let speed = |nic: &Interface| nic.speed_mbit_per_s.unwrap_or(SPEED_ASSUMED_MBIT_PER_S);
    let fastest_gbps = nics.iter().map(speed).max().map_or(0.0, |speed| f64::from(speed) / 1e3);
    let near =
        placement.map_or_else(String::new, |placement| format!("# While it was measured, {placement}.\n"));
    let (sockets, cores_per_socket) = facts.topology.sockets(facts.core_count);
    let mut text = format!(
        "# Written by `ayatori calibrate`: {}\n{near}\
         # Measured: [host_models.node.software], core_to_core_ns, memory_gbytes_per_s (data from core to\n\
         # core), through shared memory; sockets of NICs over the loopback.\n\
         # From the system: sockets, cores, NUMA nodes, cache, NICs.\n\
         # Not measured: the network (the switch is assumed), what a NIC takes of the host.\n\
         name = \"{}\"\n\n\
         [switch_models.assumed]\nports = 48\nrate_gbps = {fastest_gbps}\ndialect = \"json\"\n\n\
         [host_models.node]\nsockets = {sockets}\ncores_per_socket = {cores_per_socket}\n",
        facts.circumstances, facts.name
    );
    text += &numa::lines(&facts.topology, fit.numa.as_ref());
    if let Some(mib) = facts.cache_mib {
        let _ = writeln!(text, "cache_mib = {mib}");
    }
    let Fit { software_ns, core_to_core_ns, poll_ns, yield_ns, .. } = fit;
    let _ = write!(
        text,
        "memory_gbytes_per_s = {:.3} # the rest of packets of 256 B to 8 KiB: from core to core\n\
         core_to_core_ns = {core_to_core_ns:.1} # a cache line, or the rest of an 8 B message\n\n\
         [host_models.node.software]\n\
         send_ns = {software_ns:.1} # windows of 8 B messages\nreceive_ns = {software_ns:.1}\n\
         poll_ns = {poll_ns:.1} # the rest of an 8 B message\n\
         yield_ns = {yield_ns:.1} # barriers between, or the rest of an 8 B message of, two of a core\n\
         reduce_gbytes_per_s = {:.3} # MPI_Reduce_local of doubles in the cache\n",
        fit.memory_gbytes_per_s, fit.reduce_gbytes_per_s
    );
    text += &cores::lines(&fit.cores);
    text += &together::lines(&fit.together);
    text += &copies_text(facts, fit);
    text += &among::tables(&fit.among);
    for nic in &nics {
        let assumed = if nic.speed_mbit_per_s.is_none() { " # assumed: it does not say" } else { "" };
        let _ = write!(
            text,
            "\n[[host_models.node.nic]]\nname = \"{}\"\nrate_gbps = {}{assumed}\nmtu_bytes = {}\n\
             device = \"tcp\"\n",
            nic.name,
            f64::from(speed(nic)) / 1e3,
            nic.mtu_bytes.unwrap_or(1_500)
        );
        let said = (nic.is_silent && nic.speed_mbit_per_s.is_some()).then_some(SPEED_ASSUMED_MBIT_PER_S);
        text += &fit.sockets.as_ref().map(|sockets| over_tcp::lines(sockets, said)).unwrap_or_default();
    }
    text += "\n[topology]\nkind = \"star\"\nswitches = 1\nswitch_model = \"assumed\"\n\n";
    text + "[hosts]\nmodel = \"node\"\ncount = 2\nname = \"h{host}\"\n"
}

/// What copies take, within a process and between two.
fn copies_text(facts: &Facts, fit: &Fit) -> String {
    let mut text = String::new();
    if facts.cache_mib.is_some() {
        let _ = writeln!(
            text,
            "hot_copy_gbytes_per_s = {:.3} # memcpy of 4 to 64 KiB, in the cache",
            fit.hot_copy_gbytes_per_s
        );
    }
    let _ = writeln!(text, "copy_gbytes_per_s = {:.3} # memcpy, not in the cache", fit.copy_gbytes_per_s);
    text += &long::lines(fit.announce_ns, &fit.relay, fit.relay_ends_ns);
    if let Some(copy) = &fit.kernel_copy {
        let KernelCopyFit {
            call_ns,
            at_once_ns,
            get_ns,
            get_at_once_ns,
            hot_gbytes_per_s,
            gbytes_per_s,
            rates,
            fresh,
        } = copy;
        let _ = write!(
            text,
            "kernel_copy_ns = {call_ns:.1} # process_vm_readv of 8 B\n\
             kernel_copy_at_once_ns = {at_once_ns:.1} # by both at the same time\n\
             get_ns = {get_ns:.1} # the rest of a message of 48 KiB\n\
             get_at_once_ns = {get_at_once_ns:.1} # the same where both send\n\
             kernel_copy_gbytes_per_s = {gbytes_per_s:.3} # of 64 KiB to 1 MiB, not in the cache\n"
        );
        if facts.cache_mib.is_some() {
            let _ = writeln!(text, "hot_kernel_copy_gbytes_per_s = {hot_gbytes_per_s:.3} # in the cache");
        }
        text += &rate_lines("kernel_copy_rate", "process_vm_readv", rates);
        text += &rate_lines("fresh_kernel_copy_rate", "of what the other has just written", fresh);
    }
    text
}

/// A measured figure and what the simulator says.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// What was measured.
    pub sample: Sample,
    /// How far runs of it differ, see [`Figure`].
    pub spread: [f64; 2],
    /// In the same unit.
    pub predicted: f64,
    /// Whether a parameter was fitted to it.
    pub is_fitted: bool,
}

impl Prediction {
    /// The prediction's deviation from what was measured, as a part of that.
    pub fn error(&self) -> f64 {
        self.predicted / self.sample.value - 1.0
    }
}

/// So many ranks on the machine's first host.
fn one_host(machine: &Machine, ranks: u32) -> anyhow::Result<Cluster> {
    let Simulated { network, mut notes } = simulate(machine, None)?;
    let config = cluster_config(machine, network.config(), ranks, &mut notes);
    Ok(Cluster::new(network, Config { process_count: Some(ranks), ..config })?)
}

/// Windows of messages from rank 0 to rank 1, each answered by a byte, as `bench/bandwidth.c` and
/// `bench/rate.c` do.
async fn windows(mpi: Mpi, bytes: u64, window: u32, count: u32) -> Result<(), Error> {
    mpi.goes_through(2 * bytes * u64::from(window));
    for _ in 0..count {
        let is_sender = mpi.rank() == 0;
        let one = |_| if is_sender { mpi.isend(1, 1, bytes) } else { mpi.irecv(0, 1, bytes) };
        let requests = (0..window).map(one).collect::<Result<Vec<_>, _>>()?;
        mpi.wait_all(requests).await?;
        if is_sender {
            mpi.recv(1, 2, 1).await?;
        } else {
            mpi.send(0, 2, 1).await?;
        }
    }
    Ok(())
}

/// A collective operation, again and again.
async fn turns_of(mpi: Mpi, operation: Collective, bytes: u64, turns: u32) -> Result<(), Error> {
    for _ in 0..turns {
        mpi.collective(operation, bytes, None).await?;
    }
    Ok(())
}

/// Turns that are run for a figure, after as many in which the library learns. Ping-pongs and windows of
/// lengths whose way it learns get more: at first it tries the way that it does not hold more often than in
/// the long run. So do collective operations, whose ranks, where they share cores, meet in a pattern of many
/// turns.
const TURNS: u32 = 16;
const COLLECTIVE_TURNS: u32 = 256;
const PING_PONG_TURNS: u32 = 512;
const WINDOW_TURNS: u32 = 64;
const LEARNT_LONG_BYTES: u64 = 16 << 10;
const TCP_PING_PONG_TURNS: u32 = 64;

/// Time of a turn, ps: the second of two runs.
fn turn_ps<F, W>(cluster: &mut Cluster, turns: u32, run: W) -> anyhow::Result<f64>
where
    W: Fn(Mpi) -> F,
    F: Future<Output = Result<(), Error>> + 'static,
{
    cluster.run(&run)?;
    Ok(cluster.run(&run)?.elapsed_ps as f64 / f64::from(turns))
}

/// Ranks over TCP, and the benchmark that they run: a connection knows its rate from what went over it, so
/// one benchmark's figures are of one connection, as they were measured.
type Connected = Option<(String, u32, Cluster)>;

/// `loopback`: two such hosts with nothing between them.
fn predicted(
    [machine, loopback]: [&Machine; 2],
    connected: &mut Connected,
    sample: &Sample,
) -> anyhow::Result<Option<f64>> {
    let bytes = sample.bytes;
    let mut alone;
    let (cluster, name) = match sample.name.strip_prefix(OVER_TCP) {
        Some(name) => {
            if connected.as_ref().is_none_or(|before| (&before.0, before.1) != (&sample.name, sample.ranks)) {
                let hosts = over_tcp::hosts(loopback, sample.ranks)?;
                *connected = Some((sample.name.clone(), sample.ranks, hosts));
            }
            (&mut connected.as_mut().expect("there is one now").2, name)
        }
        None => {
            alone = one_host(machine, sample.ranks)?;
            (&mut alone, sample.name.as_str())
        }
    };
    let us = 1e-6;
    Ok(Some(match name {
        "pingpong_separate" => {
            let turns = if bytes < LEARNT_LONG_BYTES { TURNS } else { PING_PONG_TURNS };
            // Over TCP rates of rails are learnt, for which there are packets enough.
            let turns = if name == sample.name { turns } else { turns.min(TCP_PING_PONG_TURNS) };
            turn_ps(cluster, turns, |mpi| workloads::ping_pong(mpi, 1, bytes, turns))? / 2.0 * us
        }
        "rate" => {
            let turn_ps = turn_ps(cluster, TURNS, |mpi| windows(mpi, bytes, RATE_WINDOW, TURNS))?;
            f64::from(RATE_WINDOW) / turn_ps * 1e6
        }
        "bandwidth" => {
            let is_learnt = bytes >= LEARNT_LONG_BYTES && name == sample.name;
            let turns = if is_learnt { WINDOW_TURNS } else { TURNS };
            let turn_ps = turn_ps(cluster, turns, |mpi| windows(mpi, bytes, BANDWIDTH_WINDOW, turns))?;
            (bytes * u64::from(BANDWIDTH_WINDOW)) as f64 / turn_ps * 1e3
        }
        "barrier" | "allreduce" | "alltoall" => {
            let operation = Collective::by_name(name).context("an operation of the library")?;
            // The benchmark has a buffer to send from and one to receive into.
            let block_count = if name == "alltoall" { sample.ranks } else { 1 };
            let working_set_bytes = 2 * bytes * u64::from(block_count);
            cluster.run(|mpi| async move {
                mpi.goes_through(working_set_bytes);
                Ok(())
            })?;
            let turns = COLLECTIVE_TURNS;
            turn_ps(cluster, turns, |mpi| turns_of(mpi, operation, bytes, turns))? * us
        }
        _ => return Ok(None),
    }))
}

/// What the simulator says of each sample that it has the workload of: ping-pong with two buffers, windowed
/// bandwidth, message rate, barrier, allreduce and alltoall.
///
/// `loopback`: the machine of [`Facts::on_loopback`], for what went over TCP.
///
/// # Errors
/// A machine that cannot be simulated.
pub fn predict(machine: &Machine, loopback: &Machine, figures: &[Figure]) -> anyhow::Result<Vec<Prediction>> {
    let (mut predictions, mut connected) = (Vec::new(), None);
    for Figure { sample, spread } in figures {
        if sample.bytes == 0 && sample.name != "barrier" {
            continue;
        }
        let predicted = predicted([machine, loopback], &mut connected, sample)
            .with_context(|| format!("{} of {} B, {} ranks", sample.name, sample.bytes, sample.ranks))?;
        if let Some(predicted) = predicted {
            let is_fitted = sample.ranks == 2
                && match sample.name.as_str() {
                    "pingpong_separate" => sample.bytes == SHORT_BYTES,
                    "rate" => true,
                    _ => over_tcp::is_fitted(sample),
                };
            predictions.push(Prediction { sample: sample.clone(), spread: *spread, predicted, is_fitted });
        }
    }
    Ok(predictions)
}

/// Predictions beside measurements.
pub fn table(predictions: &[Prediction]) -> Table {
    let head = ["benchmark", "ranks", "bytes", "measured", "spread", "predicted", "error"];
    let mut table =
        Table::new("Measured, and predicted with the machine file (µs, GB/s, million messages/s)", &head);
    let row = |prediction: &Prediction| {
        let Prediction { sample, spread: [low, high], predicted, is_fitted } = prediction;
        let Sample { name, ranks, bytes, value } = sample;
        let fitted = if *is_fitted { " (fitted)" } else { "" };
        let error = format!("{:+.1} %{fitted}", 100.0 * prediction.error());
        vec![
            name.clone(),
            ranks.to_string(),
            bytes.to_string(),
            format!("{value:.3}"),
            format!("{:+.0} to {:+.0} %", 100.0 * low, 100.0 * high),
            format!("{predicted:.3}"),
            error,
        ]
    };
    table.rows = predictions.iter().map(row).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::samples::{PACKET, PACKETS_IN_ROW, UNCACHED_BYTES};
    use super::*;

    /// Lengths of packets, bytes.
    const PACKETS: [u64; 5] = [64, 256, 1 << 10, 4 << 10, 8 << 10];

    /// What a packet takes more than a short one: two copies, and from core to core.
    fn more_ns(bytes: u64) -> f64 {
        10.0 + bytes as f64 * (2.0 / 40.0 + 1.0 / 16.0)
    }

    pub(super) fn costs() -> Fit {
        Fit {
            software_ns: 80.0,
            core_to_core_ns: 60.0,
            poll_ns: 30.0,
            hot_copy_gbytes_per_s: 40.0,
            copy_gbytes_per_s: 6.0,
            memory_gbytes_per_s: 16.0,
            cores: CoreFit {
                longer_packets: PACKETS.map(|bytes| (bytes, more_ns(bytes))).to_vec(),
                longer_packets_in_row: PACKETS.map(|bytes| (bytes, more_ns(bytes) / 2.0)).to_vec(),
                lines_back_gbytes_per_s: Some(24.0),
                ..CoreFit::default()
            },
            relay: vec![(256 << 10, 12.0), (8 << 20, 8.0)],
            relay_ends_ns: Some(600.0),
            announce_ns: 450.0,
            kernel_copy: Some(KernelCopyFit {
                call_ns: 900.0,
                at_once_ns: 1_100.0,
                hot_gbytes_per_s: 10.0,
                gbytes_per_s: 5.0,
                get_ns: 300.0,
                get_at_once_ns: 500.0,
                rates: vec![(128 << 10, 10.0), (2 << 20, 9.0), (UNCACHED_BYTES, 5.0)],
                fresh: vec![(128 << 10, 6.0), (2 << 20, 6.0)],
            }),
            reduce_gbytes_per_s: 12.0,
            yield_ns: 400.0,
            together: TogetherFit {
                copy: vec![(128 << 10, 40.0), (8 << 20, 12.0), (UNCACHED_BYTES, 6.0)],
                reduce_ns: 30.0,
                reduce: vec![(128 << 10, 12.0), (8 << 20, 8.0)],
                exchange_ns: 80.0,
                schedule_ns: Some(300.0),
                yields: vec![(4, 600.0)],
            },
            among: vec![AmongFit {
                processes: 4,
                exchange_ns: 70.0,
                copy: vec![(128 << 10, 1.5), (UNCACHED_BYTES, 2.0)],
                ..AmongFit::default()
            }],
            numa: None,
            sockets: Some(socket_costs()),
        }
    }

    pub(super) fn socket_costs() -> SocketFit {
        SocketFit {
            send_ns: 3_500.0,
            longer_sends: vec![(60 << 10, 61_440.0 / 6.0)],
            stream_ns: 4_000.0,
            longer_streams: vec![(60 << 10, 61_440.0 / 5.0)],
            segment_ns: 4_000.0,
            receive_ns: 800.0,
            longer_receives: vec![(60 << 10, 61_440.0 / 25.0)],
            relay: vec![(128 << 10, 9.0), (2 << 20, 11.0), (8 << 20, 7.0)],
            stream: vec![(4 << 20, 8.0), (32 << 20, 4.0)],
            library_ns: 150.0,
            checksum_gbytes_per_s: 30.0,
        }
    }

    pub(super) fn facts() -> Facts {
        let interface = |name: &str, speed_mbit_per_s| Interface {
            name: name.into(),
            speed_mbit_per_s,
            is_silent: speed_mbit_per_s.is_none(),
            mtu_bytes: Some(9_000),
        };
        Facts {
            name: "somewhere".into(),
            circumstances: "a test".into(),
            load: None,
            core_count: 4,
            topology: Topology::default(),
            cache_mib: Some(32.0),
            interfaces: vec![interface("eth0", Some(25_000)), interface("eth1", None)],
        }
    }

    fn made_up() -> Machine {
        Machine::parse("made-up.toml", &machine_text(&facts(), &costs(), None))
            .expect("what is written can be read")
    }

    /// What the simulator says of a machine with known costs, in place of a benchmark.
    pub(super) fn simulated() -> Vec<Sample> {
        let machine = made_up();
        let sample = |name: &str, bytes: u64| {
            let sample = Sample { name: name.into(), ranks: 2, bytes, value: 1.0 };
            let value = predicted([&machine; 2], &mut None, &sample).unwrap().expect("a workload of ours");
            Sample { value, ..sample }
        };
        let packet = |bytes, ns| Sample { name: PACKET.into(), ranks: 2, bytes, value: ns / 1e3 };
        let mut samples = vec![sample("pingpong_separate", 8), packet(8, 90.0)];
        samples.extend(PACKETS.map(|bytes| packet(bytes, 90.0 + more_ns(bytes))));
        let in_row = |sample: Sample| Sample { name: PACKETS_IN_ROW.into(), ..sample };
        samples.push(in_row(packet(8, 30.0)));
        samples.extend(PACKETS.map(|bytes| in_row(packet(bytes, 30.0 + more_ns(bytes) / 2.0))));
        samples.extend([sample("rate", 8), sample("bandwidth", 4 << 20)]);
        let text = machine_text(&Facts { core_count: 1, ..facts() }, &costs(), None);
        let shared = Machine::parse("one-core.toml", &text).unwrap();
        let short = Sample { name: "pingpong_separate".into(), ranks: 2, bytes: 8, value: 1.0 };
        let value = predicted([&shared; 2], &mut None, &short).unwrap().unwrap();
        let one_core = Sample { name: ONE_CORE.into(), value, ..short };
        samples.push(one_core);
        for (name, value) in [(REDUCE, 12.0), (COPY, 40.0), (COPY_UNCACHED, 6.0)] {
            samples.push(Sample { name: name.into(), ranks: 2, bytes: 4 << 10, value });
        }
        for (name, rate) in [("kernel_copy", 10.0), ("kernel_copy_uncached", 5.0)] {
            let value = |bytes: u64| 0.9 + bytes as f64 / rate * 1e-3;
            let copy = |bytes| Sample { name: name.into(), ranks: 2, bytes, value: value(bytes) };
            samples.extend([8, 64 << 10, 256 << 10, 1 << 20].map(copy));
        }
        samples.push(Sample { name: LINES_BACK.into(), ranks: 2, bytes: 32 << 10, value: 24.0 });
        samples
    }

    /// Whether the fit is that of the costs that the samples were made of, within a tenth.
    fn assert_found(samples: &[Sample]) {
        let (found, made_up) = (fit(samples, Some(costs().core_to_core_ns)).unwrap(), costs());
        let pairs = [
            (found.software_ns, made_up.software_ns),
            (found.core_to_core_ns, made_up.core_to_core_ns),
            (found.hot_copy_gbytes_per_s, made_up.hot_copy_gbytes_per_s),
            (found.copy_gbytes_per_s, made_up.copy_gbytes_per_s),
            (found.memory_gbytes_per_s, made_up.memory_gbytes_per_s),
            (found.reduce_gbytes_per_s, made_up.reduce_gbytes_per_s),
            (found.poll_ns, made_up.poll_ns),
            (found.yield_ns, made_up.yield_ns),
        ];
        let [found_cores, cores] = [&found.cores, &made_up.cores];
        assert_eq!(found_cores.lines_back_gbytes_per_s, cores.lines_back_gbytes_per_s);
        assert_eq!(found_cores.longer_packets.len(), cores.longer_packets.len());
        assert_eq!(found_cores.longer_packets_in_row.len(), cores.longer_packets_in_row.len());
        let copies = [&found, &made_up].map(|fit| fit.kernel_copy.clone().unwrap());
        let kernel = [
            copies.each_ref().map(|copy| copy.call_ns),
            copies.each_ref().map(|copy| copy.hot_gbytes_per_s),
            copies.each_ref().map(|copy| copy.gbytes_per_s),
        ];
        for (found_value, made_up) in pairs.into_iter().chain(kernel.map(|[found, made_up]| (found, made_up)))
        {
            assert!((found_value / made_up - 1.0).abs() < 0.1, "{found_value} for {made_up}: {found:?}");
        }
    }

    #[test]
    fn costs_are_found_again_in_what_they_make() {
        assert_found(&simulated());
    }

    #[test]
    fn of_several_runs_the_medians_count_and_their_spread() {
        let sample = |name: &str, value| Sample { name: name.into(), ranks: 2, bytes: 8, value };
        let barriers = [3.0, 2.0, 1.6, 9.0, 2.4].map(|value| sample("barrier", value));
        let [barrier, rate] = <[Figure; 2]>::try_from(figures(barriers.iter().chain([&sample("rate", 3.0)])))
            .expect("two figures");
        assert_eq!(barrier.sample, sample("barrier", 2.4));
        // Half of the runs took 2 to 3.
        assert!(
            barrier.spread.iter().zip([-1.0 / 6.0, 0.25]).all(|(found, real)| (found - real).abs() < 1e-9)
        );
        assert_eq!(rate, Figure { sample: sample("rate", 3.0), spread: [0.0; 2] });
        let two = [sample("barrier", 1.0), sample("barrier", 2.0)];
        assert_eq!(figures(&two)[0].sample.value, 1.5);
        let sizes = [8, 16].map(|bytes| Sample { bytes, ..sample("barrier", 1.0) });
        assert_eq!(figures(&sizes).len(), 2);
    }

    #[test]
    fn one_disturbed_figure_does_not_move_the_fit() {
        let samples = simulated();
        let is_copied = |sample: &Sample| sample.name == PACKET && COPIED_BYTES.contains(&sample.bytes);
        for (index, sample) in samples.iter().enumerate().filter(|(_, sample)| is_copied(sample)) {
            let mut disturbed = samples.clone();
            disturbed[index].value = 5.0 * sample.value;
            // The longest has no longer one beside it, and is in four slopes of ten.
            if sample.bytes < *COPIED_BYTES.end() {
                assert_found(&disturbed);
            }
        }
    }

    #[test]
    fn the_machine_file_says_what_was_measured_and_what_not() {
        let text = machine_text(&facts(), &costs(), None);
        assert!(text.contains("rate_gbps = 10 # assumed: it does not say"), "{text}");
        assert!(!text.contains("said_gbps"), "{text}");
        let text = machine_text(&facts().on_loopback(), &costs(), None);
        assert!(text.contains("said_gbps = 10 # it says none"), "{text}");
        let machine = made_up();
        let host = &machine.host_models[0];
        assert_eq!((host.software.send_ps, host.core_to_core_ps), (Some(80_000), Some(60_000)));
        assert_eq!(host.nics.len(), 2);
        assert_eq!(host.software.lines_back_bytes_per_s, Some(24_000_000_000));
        let none = Facts { interfaces: Vec::new(), cache_mib: None, ..facts() };
        Machine::parse("none.toml", &machine_text(&none, &costs(), None)).unwrap();
    }

    #[test]
    fn results_are_read_and_what_is_none_is_named() {
        let text = "warming up\nNEAR 27.3 29 48 57.1\nRESULT rate 8 2.5 Mmsg/s\nRESULT pingpong 0 0.31 us\n";
        let found = sightings(text, 2).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].sample, Sample { name: "rate".into(), ranks: 2, bytes: 8, value: 2.5 });
        let near = Near { line_ns: [27.3, 29.0], copy_gbytes_per_s: [48.0, 57.1] };
        assert_eq!((found[0].near, found[1].near), (Some(near), None));
        for line in [
            "RESULT rate 8 2.5",
            "RESULT rate x 2.5 us",
            "RESULT rate 8 nan us",
            "RESULT rate 8 1 days",
            "NEAR 1 2 3",
            "NEAR 1 2 3 0",
        ] {
            let error = sightings(line, 2).unwrap_err();
            assert!(format!("{error:#}").contains(line), "{error:#}");
        }
        let samples: Vec<Sample> = found.into_iter().map(|one| one.sample).collect();
        let missing = fit(&samples, None).unwrap_err();
        assert!(format!("{missing:#}").contains("pingpong_separate of 8 B"), "{missing:#}");
    }

    /// A first line takes long, and the first piece of a long packet does not: it must not overtake what was
    /// sent before.
    #[test]
    fn windows_between_far_cores_are_predicted() {
        for (line_ns, software_ns) in [(160.0, 20.0), (300.0, 40.0)] {
            let fit = Fit { core_to_core_ns: line_ns, software_ns, ..costs() };
            let machine = Machine::parse("far.toml", &machine_text(&facts(), &fit, None)).unwrap();
            for bytes in [64 << 10, 256 << 10, 1 << 20] {
                let sample = Sample { name: "bandwidth".into(), ranks: 2, bytes, value: 1.0 };
                predicted([&machine; 2], &mut None, &sample).unwrap();
            }
        }
    }

    #[test]
    fn every_benchmark_of_the_check_has_its_workload() {
        let machine = made_up();
        let names =
            ["pingpong_separate", "rate", "bandwidth", "barrier", "allreduce", "alltoall", "pingpong"];
        let sample = |name: &str| Sample { name: name.into(), ranks: 2, bytes: 8, value: 1.0 };
        let predictions = predict(&machine, &machine, &figures(&names.map(sample))).unwrap();
        assert_eq!(predictions.len(), names.len() - 1);
        assert!(predictions.iter().all(|prediction| prediction.predicted > 0.0));
        assert_eq!(table(&predictions).rows.len(), predictions.len());
    }
}
