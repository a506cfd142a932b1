//! `ayatori calibrate`: measures this machine, writes a machine file, and holds its predictions against
//! measurements.
//!
//! The benchmarks are this repository's `bench/*.c`. They are built in as text and compiled with the
//! library's own `mpicc`, so what is measured is the installed library, as programs use it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use ayatori_devices::tcp::Interface;
use ayatori_fabric::description::Machine;
use ayatori_study::calibrate::{self, Facts, Prediction, Records, Sample, Sighting, Sorted, Topology};
use rustix::thread::CpuSet;

use crate::exit::Exit;

/// Measures messages between ranks of this host and writes a machine file for `sim run`.
///
/// Takes one to three minutes, a C compiler, and a machine that does nothing else: two ranks are measured,
/// each on a core of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ayatori calibrate --out here.toml
  ayatori calibrate --check                      # and what the simulator predicts, beside what is measured
  ayatori sim run here.toml allreduce --nodes 1 --per-host 8")]
pub(crate) struct Args {
    /// The machine file to write
    #[arg(long, value_name = "FILE", default_value = "here.toml")]
    out: PathBuf,
    /// Also measure collective operations, and print predictions beside measurements
    #[arg(long)]
    check: bool,
    /// With --check: ranks of the collective operations
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8", requires = "check",
          value_parser = clap::value_parser!(u32).range(2..=1024))]
    ranks: Vec<u32>,
    /// Write two hosts with nothing between them: what TCP over the loopback takes
    #[arg(long)]
    loopback: bool,
    /// Time for a figure, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    budget: u32,
    /// Also write each figure that was measured
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Measure nothing: take the figures that --keep wrote, here or on another machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep", "budget", "ranks"])]
    from: Option<PathBuf>,
}

/// A benchmark's name and source.
type Source = (&'static str, &'static str);

const HEADERS: [Source; 2] = [
    ("bench.h", include_str!("../../../../bench/bench.h")),
    ("past.h", include_str!("../../../../bench/past.h")),
];
const PINGPONG: Source = ("pingpong", include_str!("../../../../bench/pingpong.c"));
const RATE: Source = ("rate", include_str!("../../../../bench/rate.c"));
const BANDWIDTH: Source = ("bandwidth", include_str!("../../../../bench/bandwidth.c"));
const COPY: Source = ("copy", include_str!("../../../../bench/copy.c"));
const KERNEL_COPY: Source = ("kernel_copy", include_str!("../../../../bench/kernel_copy.c"));
const ANNOUNCED: Source = ("announced", include_str!("../../../../bench/announced.c"));
const RELAY: Source = ("relay", include_str!("../../../../bench/relay.c"));
const LINES: Source = ("lines", include_str!("../../../../bench/lines.c"));
const AREAS: Source = ("areas", include_str!("../../../../bench/areas.c"));
const MESSAGE: Source = ("message", include_str!("../../../../bench/message.c"));
const PACKETS: Source = ("packets", include_str!("../../../../bench/packets.c"));
const SOCKETS: Source = ("sockets", include_str!("../../../../bench/sockets.c"));
const REDUCE: Source = ("reduce_local", include_str!("../../../../bench/reduce_local.c"));
const RENDEZVOUS: Source = ("rendezvous", include_str!("../../../../bench/rendezvous.c"));
const FAR: Source = ("far", include_str!("../../../../bench/far.c"));
const AMONG: Source = ("among", include_str!("../../../../bench/among.c"));
const COLLECTIVES: Source = ("collectives", include_str!("../../../../bench/collectives.c"));
/// Those of two ranks that need no more said.
const TWO_RANKS: [Source; 10] =
    [RATE, COPY, PACKETS, LINES, AREAS, RELAY, KERNEL_COPY, RENDEZVOUS, SOCKETS, REDUCE];
/// What the simulator has the workloads of.
const OPERATIONS: [&str; 3] = ["barrier", "allreduce", "alltoall"];

/// Operations whose times show what an exchange and what a schedule costs, and which are not predicted.
const FITTED_TO: [&str; 2] = [calibrate::EXCHANGE, calibrate::SCHEDULE];
/// At most so many ranks at once are measured (`bench/among.c`).
const AMONG_MAX: u32 = 256;
/// So long messages are sent and operations called before they are measured where ranks learn which way
/// these go: 32 KiB both ways between two took 5,000 to 13,000 messages until packets were held, and 16 KiB
/// to and fro, sent first, up to 100 ms.
const WARM_MS: &str = "100";
/// So many ranks of each of two CPUs take turns.
const SHARING: [u32; 2] = [4, 8];

/// Predictions are called good within this part of what is measured.
const GOOD: f64 = 0.15;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (facts, measured) = measured(args)?;
    let line_ns = measured.placement.as_ref().map(|placement| placement.line_ns);
    let samples: Vec<Sample> = measured.figures.iter().map(|figure| figure.sample.clone()).collect();
    let fit = calibrate::fit(&samples, line_ns)?;
    let text = calibrate::machine_text(&facts, &fit, measured.placement.as_ref());
    let loopback_text = calibrate::machine_text(&facts.on_loopback(), &fit, measured.placement.as_ref());
    let file = args.out.display().to_string();
    let [machine, loopback] = [&text, &loopback_text].map(|text| Machine::parse(&file, text));
    let (machine, loopback) = (machine?, loopback?);
    let text = if args.loopback { loopback_text } else { text };
    std::fs::write(&args.out, &text).with_context(|| format!("cannot write {file}"))?;
    let mut stdout = std::io::stdout().lock();
    if args.check {
        let predictions = calibrate::predict(&machine, &loopback, &measured.figures)?;
        write!(stdout, "{}", calibrate::table(&predictions).text())?;
        writeln!(stdout, "\n{}", in_words(&predictions))?;
    }
    where_measured(&measured).iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
    writeln!(stdout, "Measured: {}.\nThe machine file is {file}", facts.circumstances)?;
    Ok(Exit::Success)
}

/// Facts about this host, and its figures.
fn measured(args: &Args) -> anyhow::Result<(Facts, Sorted)> {
    let mut facts = facts();
    if let Some(file) = &args.from {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let records = Records::parse(&text).with_context(|| format!("in {}", file.display()))?;
        facts.circumstances = records.circumstances;
        if facts.core_count != records.core_count {
            // Another machine, of whose memories the file says nothing.
            facts.topology = Topology::default();
        }
        (facts.core_count, facts.cache_mib) = (records.core_count, records.cache_mib);
        return Ok((facts, calibrate::sort(&records.sightings)));
    }
    let bench = Bench::new(args.budget)?;
    notes(&facts).iter().for_each(|note| eprintln!("note: {note}"));
    let sightings = bench.measure(if args.check { &args.ranks } else { &[] }, &facts.topology)?;
    let sorted = calibrate::sort(&sightings);
    if let Some(file) = &args.keep {
        let circumstances = facts.circumstances.clone();
        let (core_count, cache_mib) = (facts.core_count, facts.cache_mib);
        let records = Records { circumstances, core_count, cache_mib, sightings };
        std::fs::write(file, records.text()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok((facts, sorted))
}

/// Runs of each benchmark, at least, among which the time for a figure is shared. Their median counts.
const ROUNDS: u32 = 5;
/// Each figure must be measured this often with the same CPU placement.
const SEEN_COUNT_MIN: usize = 3;
/// No round begins later than this.
const TIME_MAX: Duration = Duration::from_secs(150);

/// A load above this is other programs' work.
const IDLE_LOAD_MAX: f64 = 0.5;

/// Reasons to doubt the figures.
fn notes(facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.load.is_some_and(|load| load > IDLE_LOAD_MAX) {
        notes.push(format!(
            "{}: other work disturbs what is measured, most of all where ranks wait for each other",
            facts.circumstances
        ));
    }
    if facts.core_count < 2 {
        notes.push("two ranks on one CPU: latencies are those of switching between them".into());
    }
    notes
}

/// Where the CPUs were, if there is something to say of it.
fn where_measured(measured: &Sorted) -> Vec<String> {
    let Some(placement) = &measured.placement else { return Vec::new() };
    let mut lines = vec![format!("While this was measured, {placement}.")];
    if measured.elsewhere_count > 0 {
        lines.push(format!(
            "Left out: {} of {} figures, measured while a hypervisor had the CPUs elsewhere.",
            measured.elsewhere_count, measured.count
        ));
    }
    if !measured.missing.is_empty() {
        let name = |sample: &Sample| format!("{} of {} B, {} ranks", sample.name, sample.bytes, sample.ranks);
        let names: Vec<String> = measured.missing.iter().map(name).collect();
        lines.push(format!("So these were not measured: {}. Run it again.", names.join("; ")));
    }
    lines
}

/// How good predictions are, without those that parameters were fitted to.
fn in_words(predictions: &[Prediction]) -> String {
    let real = || predictions.iter().filter(|prediction| !prediction.is_fitted);
    let doubtful = |prediction: &&Prediction| prediction.spread.iter().any(|part| part.abs() > GOOD);
    let doubtful_count = real().filter(doubtful).count();
    let real: Vec<f64> = real().map(|prediction| prediction.error().abs()).collect();
    let good_count = real.iter().filter(|&&error| error <= GOOD).count();
    let worst = real.iter().copied().fold(0.0, f64::max);
    format!(
        "{good_count} of {} predictions are within {:.0} % (figures that parameters were fitted to not \
         counted); the worst is off by {:.0} %. Runs of {doubtful_count} of \
         these figures differ by more than that themselves.",
        real.len(),
        100.0 * GOOD,
        100.0 * worst,
    )
}

/// Compiled benchmarks, in a folder that is removed with this.
struct Bench {
    folder: tempfile::TempDir,
    compiler: PathBuf,
    launcher: PathBuf,
    budget_ms: u32,
}

impl Bench {
    fn new(budget_ms: u32) -> anyhow::Result<Bench> {
        let launcher = std::env::current_exe().context("cannot tell where this program is")?;
        let beside = launcher.with_file_name("mpicc");
        // Not installed: the first of the search path, which may be another library's.
        let compiler = if beside.is_file() { beside } else { "mpicc".into() };
        let folder = tempfile::tempdir().context("cannot make a folder for the benchmarks")?;
        for (name, text) in HEADERS {
            write_file(folder.path(), name, text)?;
        }
        Ok(Bench { folder, compiler, launcher, budget_ms })
    }

    fn compile(&self, (name, source): Source) -> anyhow::Result<PathBuf> {
        let program = self.folder.path().join(name);
        if program.exists() {
            return Ok(program);
        }
        let file = format!("{name}.c");
        write_file(self.folder.path(), &file, source)?;
        let mut compile = Command::new(&self.compiler);
        compile.arg("-O2").arg(&file).arg("-o").arg(&program).current_dir(self.folder.path());
        let missing = || {
            let compiler = self.compiler.display();
            format!(
                "cannot compile a benchmark with {compiler}: it needs the installed mpicc and a C compiler"
            )
        };
        let made = compile.output().with_context(missing)?;
        if !made.status.success() {
            bail!("{}:\n{}", missing(), String::from_utf8_lossy(&made.stderr));
        }
        Ok(program)
    }

    /// What the costs are fitted to, the messages that are predicted, and collective operations of so many
    /// ranks. The benchmarks take turns, so that other work does not hit all runs of one, until each figure
    /// was seen often enough with the CPUs in one placement.
    fn measure(&self, ranks: &[u32], topology: &Topology) -> anyhow::Result<Vec<Sighting>> {
        let began = Instant::now();
        let far = topology.far_arguments();
        let mut all = Vec::new();
        for round in 1.. {
            let mut sightings = Vec::new();
            let warm = |run: &mut Command| _ = run.env("BENCH_WARM_MS", WARM_MS);
            for (source, names) in
                [(PINGPONG, &["pingpong_separate"][..]), (BANDWIDTH, &["bandwidth"]), (MESSAGE, &[])]
            {
                sightings.extend(self.run_with(source, 2, names, warm)?);
            }
            sightings.extend(self.run_with(ANNOUNCED, 2, &[], |run| {
                warm(run);
                run.env("AYATORI_SHM_CMA", "0");
            })?);
            for source in TWO_RANKS {
                sightings.extend(self.run(source, 2, &[])?);
            }
            if !ranks.contains(&2) {
                sightings.extend(self.fitted_to(2, &FITTED_TO)?);
            }
            for count in counts_among(cpu_count()?) {
                sightings.extend(self.among(count)?);
            }
            if !far.is_empty() {
                let far: Vec<&str> = far.iter().map(String::as_str).collect();
                sightings.extend(self.run(FAR, 1, &far)?);
            }
            sightings.push(checksum());
            for (source, arguments) in
                [(PINGPONG, &["pingpong_separate"][..]), (BANDWIDTH, &["bandwidth"]), (RATE, &[])]
            {
                sightings.extend(self.over_tcp(source, arguments)?);
            }
            sightings.extend(self.on_one_core()?);
            let cpu_count = cpu_count()?;
            for ranks_of_cpu in SHARING {
                if !ranks.contains(&(ranks_of_cpu * cpu_count)) {
                    sightings.extend(self.turns(ranks_of_cpu)?);
                }
            }
            for &ranks in ranks {
                sightings.extend(self.operations(ranks, cpu_count)?);
            }
            all.extend(sightings.into_iter().map(|one| Sighting { round, ..one }));
            let sorted = calibrate::sort(&all);
            let is_enough = round >= ROUNDS && sorted.seen_count_min >= SEEN_COUNT_MIN;
            if is_enough || began.elapsed() > TIME_MAX {
                return Ok(all);
            }
        }
        unreachable!("rounds end")
    }

    /// The operations that are predicted, among ranks that are dealt out to the CPUs as in the model: where
    /// ranks outnumber CPUs the system does not. Processes differ by more than runs of one, so what is
    /// predicted from other operations is of the same: exchanges, schedules, and turns of a CPU's ranks.
    fn operations(&self, ranks: u32, cpu_count: u32) -> anyhow::Result<Vec<Sighting>> {
        let others: &[&str] = if ranks == 2 { &FITTED_TO } else { &[calibrate::TAKING_TURNS] };
        self.dealt_out(ranks, cpu_count, &[&OPERATIONS, others].concat())
    }

    fn dealt_out(&self, ranks: u32, cpu_count: u32, operations: &[&str]) -> anyhow::Result<Vec<Sighting>> {
        let mut ran = self.run_with(COLLECTIVES, ranks, operations, |run| {
            run.env("BENCH_APART", "1");
            if ranks <= cpu_count {
                run.env("BENCH_WARM_MS", WARM_MS);
            }
        })?;
        for one in ran.iter_mut().filter(|one| one.sample.name == calibrate::TAKING_TURNS) {
            one.sample.ranks /= cpu_count;
        }
        Ok(ran)
    }

    /// Some of them in a process that has run for a while: a first figure is of cold caches and pages, as
    /// those that it is to predict are not.
    fn fitted_to(&self, ranks: u32, operations: &[&str]) -> anyhow::Result<Vec<Sighting>> {
        let mut ran = self.run(COLLECTIVES, ranks, &[&["barrier"], operations].concat())?;
        ran.retain(|one| operations.contains(&one.sample.name.as_str()));
        Ok(ran)
    }

    /// What shows among so many ranks, each on a CPU, how much longer than among two it takes.
    fn among(&self, ranks: u32) -> anyhow::Result<Vec<Sighting>> {
        let mut ran = if ranks > 2 { self.fitted_to(ranks, &[calibrate::EXCHANGE])? } else { Vec::new() };
        for source in [AMONG, COPY, REDUCE].into_iter().filter(|source| ranks > 2 || source.0 == AMONG.0) {
            ran.extend(self.run_with(source, ranks, &[], |run| {
                run.env("BENCH_APART", "1");
            })?);
        }
        Ok(ran)
    }

    /// Short messages between two ranks that share a core.
    fn on_one_core(&self) -> anyhow::Result<Vec<Sighting>> {
        let ran = on_cpus(1, |_| self.run_sizes(PINGPONG, 2, &["pingpong_separate"], Some("8")))?;
        let named = |one: Sighting| Sighting {
            sample: Sample { name: calibrate::ONE_CORE.into(), ..one.sample },
            ..one
        };
        Ok(ran.into_iter().map(named).collect())
    }

    /// Barriers among so many ranks of each of two CPUs.
    fn turns(&self, ranks_of_cpu: u32) -> anyhow::Result<Vec<Sighting>> {
        on_cpus(2, |cpu_count| {
            self.dealt_out(ranks_of_cpu * cpu_count, cpu_count, &[calibrate::TAKING_TURNS])
        })
    }

    /// Two ranks that take each other for ranks of other hosts.
    fn over_tcp(&self, source: Source, arguments: &[&str]) -> anyhow::Result<Vec<Sighting>> {
        let ran = self.run_with(source, 2, arguments, |run| {
            run.args(TWO_HOSTS).env("BENCH_APART", "1");
        })?;
        let named = |one: Sighting| Sighting {
            sample: Sample { name: format!("{}{}", calibrate::OVER_TCP, one.sample.name), ..one.sample },
            ..one
        };
        Ok(ran.into_iter().map(named).collect())
    }

    fn run(&self, source: Source, ranks: u32, arguments: &[&str]) -> anyhow::Result<Vec<Sighting>> {
        self.run_with(source, ranks, arguments, |_| {})
    }

    /// As [`Bench::run`], with messages of one size only.
    fn run_sizes(
        &self,
        source: Source,
        ranks: u32,
        arguments: &[&str],
        only: Option<&str>,
    ) -> anyhow::Result<Vec<Sighting>> {
        self.run_with(source, ranks, arguments, |run| {
            run.envs(only.map(|size| ("BENCH_SIZE", size)));
        })
    }

    fn run_with(
        &self,
        source: Source,
        ranks: u32,
        arguments: &[&str],
        how: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Vec<Sighting>> {
        let program = self.compile(source)?;
        let mut run = Command::new(&self.launcher);
        run.args(["run", "-n", &ranks.to_string()]);
        how(&mut run);
        run.arg(&program).args(arguments);
        run.env("BENCH_BUDGET_MS", (self.budget_ms / ROUNDS).max(1).to_string()).stdin(Stdio::null());
        let name = source.0;
        let shared = tempfile::NamedTempFile::new_in(self.folder.path()).context("cannot make a file")?;
        run.env("BENCH_NEAR", shared.path());
        let ended = run.output().with_context(|| format!("cannot run the benchmark {name}"))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            bail!("the benchmark {name} failed with {ranks} ranks ({}):\n{said}", ended.status);
        }
        calibrate::sightings(&String::from_utf8_lossy(&ended.stdout), ranks)
            .with_context(|| format!("the benchmark {name} with {ranks} ranks"))
    }
}

/// Runs something on the first of this process' CPUs, so many if there are: what it starts inherits where
/// this thread may run.
fn on_cpus(
    cpus_max: usize,
    run: impl FnOnce(u32) -> anyhow::Result<Vec<Sighting>>,
) -> anyhow::Result<Vec<Sighting>> {
    let all = rustix::thread::sched_getaffinity(None).context("cannot tell the CPUs of this process")?;
    let mut first = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).take(cpus_max).for_each(|cpu| first.set(cpu));
    rustix::thread::sched_setaffinity(None, &first).context("cannot run on so many CPUs only")?;
    let ran = run(first.count());
    rustix::thread::sched_setaffinity(None, &all).context("cannot run on all CPUs again")?;
    ran
}

/// Numbers of ranks at once that are measured on so many CPUs: two, twice as many again and again, and all.
/// None where two are all.
fn counts_among(cpu_count: u32) -> Vec<u32> {
    if cpu_count < 3 {
        return Vec::new();
    }
    let most = cpu_count.min(AMONG_MAX);
    let doubled = std::iter::successors(Some(2), |count| Some(2 * count)).take_while(|&count| count < most);
    doubled.chain([most]).collect()
}

/// CPUs that this process and what it starts may run on.
fn cpu_count() -> anyhow::Result<u32> {
    let all = rustix::thread::sched_getaffinity(None).context("cannot tell the CPUs of this process")?;
    Ok(all.count().max(1))
}

/// Two hosts by name only, which are this one.
const TWO_HOSTS: [&str; 8] = [
    "--hosts",
    "a,b",
    "--agent",
    "env AYATORI_CALIBRATE_HOST={host}",
    "--bind-to",
    "none",
    "--rails",
    "127.0.0.0/8",
];

/// What the library's sums of packets take, in the cache.
fn checksum() -> Sighting {
    const BYTES: usize = 64 << 10;
    const TURNS: u32 = 100;
    let bytes: Vec<u8> = (0..BYTES).map(|at| at as u8).collect();
    let began = Instant::now();
    for _ in 0..TURNS {
        std::hint::black_box(ayatori_devices::tcp::checksum(std::hint::black_box(&bytes)));
    }
    let value = f64::from(TURNS) * BYTES as f64 / began.elapsed().as_secs_f64() / 1e9;
    let sample = Sample { name: calibrate::CHECKSUM.into(), ranks: 2, bytes: BYTES as u64, value };
    Sighting { sample, near: None, round: 1 }
}

fn write_file(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What the system says of this host.
fn facts() -> Facts {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let core_count = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let name = Some(read("/proc/sys/kernel/hostname")).filter(|name| is_plain(name)).unwrap_or("here".into());
    let load =
        read("/proc/loadavg").split_ascii_whitespace().next().and_then(|load| load.parse::<f64>().ok());
    let load_words = load.map_or("an unknown load".into(), |load| format!("a load of {load}"));
    let cache = read("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let kib = cache.strip_suffix('K').and_then(|kib| kib.parse::<f64>().ok());
    // Containers have none that leads anywhere, and need not say.
    let list = Interface::list().unwrap_or_default();
    let leads_away =
        |interface: &Interface| interface.is_up && !interface.is_loopback && interface.is_running;
    let interface = |interface: Interface| calibrate::Interface {
        name: interface.name,
        speed_mbit_per_s: interface.speed_mbit_per_s,
        is_silent: interface.speed_mbit_per_s.is_none(),
        mtu_bytes: interface.mtu_bytes,
    };
    Facts {
        circumstances: format!("on {name}, {core_count} CPUs, with {load_words} when it began"),
        load,
        name,
        core_count,
        topology: Topology::read(Path::new("/sys/devices/system")),
        cache_mib: kib.filter(|&kib| kib > 0.0).map(|kib| kib / 1_024.0),
        interfaces: list.into_iter().filter(leads_away).map(interface).collect(),
    }
}

/// Whether a name can stand in a machine file as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_at_once_are_doubled_up_to_all_cpus() {
        assert!(counts_among(1).is_empty() && counts_among(2).is_empty());
        let counts = [3, 4, 16, 24].map(counts_among);
        assert_eq!(counts, [vec![2, 3], vec![2, 4], vec![2, 4, 8, 16], vec![2, 4, 8, 16, 24]]);
        assert_eq!(counts_among(1_024).last(), Some(&256));
    }
}
