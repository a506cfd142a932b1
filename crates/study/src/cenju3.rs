//! The MPI/DE study (K. Konishi et al., IPSJ SIG 1995): latency by way of waiting, throughput with and
//! without copies, and collective operations on machines/cenju3.toml.

use ayatori_core::coll::Collective;
use ayatori_fabric::description::{Machine, SoftwareCosts, Waiting};

use crate::bench::{cluster, collective_ps, half_round_trip_ps, machine};
use crate::chart::{Axes, Line, lines};
use crate::report::{Bound, Figure, Report, Table};

const FILE: &str = "machines/cenju3.toml";
const TEXT: &str = include_str!("../../../machines/cenju3.toml");

/// How the library is built: the paper's versions.
#[derive(Clone, Copy)]
struct Version {
    name: &'static str,
    waiting: Waiting,
    has_kernel_call: bool,
    copies: u32,
}

const fn version(name: &'static str, waiting: Waiting, has_kernel_call: bool, copies: u32) -> Version {
    Version { name, waiting, has_kernel_call, copies }
}

const THREAD: Version = version("interrupt thread", Waiting::Thread, true, 1);
const BLOCK: Version = version("evc_wait", Waiting::Block, true, 1);
const POLL: Version = version("polling", Waiting::Poll, true, 1);
const BLOCK_USER: Version = version("evc_wait, no kernel call", Waiting::Block, false, 1);
const POLL_USER: Version = version("polling, no kernel call", Waiting::Poll, false, 1);
const NO_COPY: Version = version("evc_wait, no copies", Waiting::Block, true, 0);

impl Version {
    fn of(self, mut machine: Machine) -> Machine {
        let software = &mut machine.host_models[0].software;
        software.waiting = self.waiting;
        software.send_system_calls = u32::from(self.has_kernel_call);
        (software.send_copies, software.receive_copies) = (Some(self.copies), Some(self.copies));
        if !self.has_kernel_call {
            software.system_call_ps = None;
        }
        if self.waiting != Waiting::Thread {
            software.thread_switch_ps = None;
        }
        if self.waiting == Waiting::Poll {
            (software.interrupt_ps, software.context_switch_ps) = (None, None);
        }
        machine
    }

    /// Half a round trip, µs, by length.
    fn latencies(self, lengths: &[u64]) -> anyhow::Result<Vec<(f64, f64)>> {
        let mut cluster = cluster(&self.of(machine(FILE, TEXT)?), 2, |config| config)?;
        let point = |&bytes: &u64| Ok((bytes as f64, half_round_trip_ps(&mut cluster, bytes, 3)? / 1e6));
        lengths.iter().map(point).collect()
    }
}

/// MB/s of the same.
fn rates(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().map(|&(bytes, time_us)| (bytes, bytes / time_us)).collect()
}

fn at(points: &[(f64, f64)], bytes: u64) -> f64 {
    points.iter().find(|point| point.0 == bytes as f64).map_or(f64::NAN, |point| point.1)
}

/// Figure 1's lengths, bytes.
const LENGTHS: [u64; 20] = [
    8, 16, 32, 64, 120, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 100_000, 200_000,
    400_000, 600_000, 800_000,
];

/// Runs the paper's versions.
///
/// # Errors
/// A run that does not end.
pub fn run(mut progress: impl FnMut(&str)) -> anyhow::Result<Report> {
    let mut curves: Vec<(Version, Vec<(f64, f64)>)> = Vec::new();
    for version in [THREAD, BLOCK, POLL, BLOCK_USER, POLL_USER, NO_COPY] {
        progress(version.name);
        curves.push((version, version.latencies(&LENGTHS)?));
    }
    let of = |index: usize| &curves[index].1;
    let rate = |index: usize| rates(of(index));
    progress("collective operations");
    let collectives = Collectives::run()?;
    let figures = figures(&curves, &collectives);
    let line = |index: usize, points: Vec<(f64, f64)>| -> Line { (curves[index].0.name.into(), points) };
    let short =
        |index: usize| line(index, of(index).iter().copied().filter(|point| point.0 <= 8_192.0).collect());
    let axes = |title, y| Axes { title, x: "message, bytes", y, is_logarithmic: true };
    let mut charts = vec![
        (
            "latency.svg".to_owned(),
            lines(
                &axes("Latency (figures 1, 7 and 8)", "µs"),
                &[short(0), short(1), short(2), short(3), short(4)],
            )?,
        ),
        (
            "throughput.svg".to_owned(),
            lines(&axes("Throughput (figures 1 and 3)", "MB/s"), &[line(1, rate(1)), line(5, rate(5))])?,
        ),
    ];
    let axes = Axes { title: "Collective operations (figure 2)", x: "PEs", y: "µs", is_logarithmic: false };
    charts.push(("collectives.svg".to_owned(), lines(&axes, &collectives.lines())?));
    progress("today's costs");
    Ok(Report {
        name: "cenju3",
        title: "MPI/DE on Cenju-3".into(),
        about: "Real Ayatori processes on machines/cenju3.toml: messages below 128 B at once, longer \
        ones by rendezvous in packets of \
                8 KB through the library's buffers. Versions of the library differ in how they wait, \
                whether a send is a kernel \
                call, and whether they copy."
            .into(),
        figures,
        tables: vec![components(of(4))?, collectives.table(), today()?],
        charts,
        remarks: remarks(),
    })
}

fn figures(curves: &[(Version, Vec<(f64, f64)>)], collectives: &Collectives) -> Vec<Figure> {
    let small = |index: usize| at(&curves[index].1, 8);
    let latency = |what: &str, paper, index| {
        Figure::new(&format!("8 B, {what}"), "us", (paper, small(index)), Bound::Within(0.05))
    };
    let rate = |index: usize| rates(&curves[index].1);
    let peak = rate(1).iter().map(|point| point.1).fold(0.0, f64::max);
    let where_peak = rate(1).iter().find(|point| point.1 == peak).map_or(0.0, |point| point.0 / 1e3);
    let step = at(&curves[1].1, 128) / at(&curves[1].1, 120);
    let large = |index: usize| at(&rate(index), 400_000);
    let spread = [0, 2].map(|index| (large(index) / large(1) - 1.0).abs()).into_iter().fold(0.0, f64::max);
    vec![
        latency("polling, no kernel call", 40.0, 4)
            .fitted("send_ns + match_ns + receive_ns were fitted to this"),
        latency("polling", 60.0, 2).fitted("system_call_ns is the difference of 90 and 70"),
        latency("evc_wait, no kernel call", 70.0, 3)
            .fitted("interrupt and switch are the difference of 90 and 60"),
        latency("evc_wait", 90.0, 1).with("sum of the above: predicted"),
        latency("interrupt thread", 140.0, 0).fitted("thread_switch_ns is the difference of 140 and 90"),
        Figure::new("latency of 128 B over 120 B", "", (1.2, step), Bound::AtLeast)
            .with("the paper: discontinuous there"),
        Figure::new("highest throughput", "MB/s", (19.0, peak), Bound::Within(0.1))
            .fitted("hot_copy_gbytes_per_s was fitted to this"),
        Figure::new("at no less than", "KB", (200.0, where_peak), Bound::AtLeast),
        Figure::new("and at no more than", "KB", (400.0, where_peak), Bound::AtMost),
        Figure::new("800 KB", "MB/s", (17.0, at(&rate(1), 800_000)), Bound::Within(0.1))
            .fitted("copy_gbytes_per_s was fitted to this"),
        Figure::new("800 KB without copies", "MB/s", (35.0, at(&rate(5), 800_000)), Bound::Within(0.1))
            .fitted("the DMA's rate was fitted to this"),
        Figure::new("way of waiting, effect on 400 KB", "", (0.05, spread), Bound::AtMost)
            .with("the paper: none; predicted"),
        Figure::new("barrier of 14 PEs over 2 PEs", "", (4.0, collectives.growth(0)), Bound::Within(0.25))
            .with("log2 14 rounds for 1; predicted"),
        Figure::new("bcast of 14 PEs over 2 PEs", "", (4.0, collectives.growth(1)), Bound::Within(0.25))
            .with("predicted"),
        Figure::new(
            "scatter, 10 to 14 PEs over 6 to 10 PEs",
            "",
            (1.0, collectives.slope(2)),
            Bound::Within(0.1),
        )
        .with("linear; predicted"),
    ]
}

/// What 8 B cost, polling without kernel call, and what is added.
fn components(points: &[(f64, f64)]) -> anyhow::Result<Table> {
    let machine = machine(FILE, TEXT)?;
    let SoftwareCosts { send_ps, receive_ps, match_ps, system_call_ps, interrupt_ps, .. } =
        machine.host_models[0].software.clone();
    let SoftwareCosts { context_switch_ps, thread_switch_ps, .. } = machine.host_models[0].software.clone();
    let us = |ps: Option<u64>| ps.unwrap_or(0) as f64 / 1e6;
    let base = at(points, 8);
    let software = us(send_ps) + us(match_ps) + us(receive_ps);
    let mut sum = 0.0;
    let mut table = Table::new("Where the time of 8 B goes", &["part", "µs", "sum"]);
    for (name, time) in [
        ("send (send_ns)", us(send_ps)),
        ("matching (match_ns)", us(match_ps)),
        ("receive (receive_ns)", us(receive_ps)),
        ("copies, NIF, network: what is left of the run", base - software),
        ("kernel call", us(system_call_ps)),
        ("interrupt, and switch to the thread that waits", us(interrupt_ps) + us(context_switch_ps)),
        ("handing over from an interrupt thread", us(thread_switch_ps)),
    ] {
        sum += time;
        table.rows.push(vec![name.into(), format!("{time:.1}"), format!("{sum:.1}")]);
    }
    Ok(table)
}

/// Times of barrier, broadcast of 4 B, scatter of 1280 B in µs, by number of PEs.
struct Collectives {
    times: Vec<(u32, [f64; 3])>,
}

/// Figure 2's numbers of PEs, and a full machine.
const PE_COUNTS: [u32; 9] = [2, 3, 4, 6, 8, 10, 12, 14, 256];

impl Collectives {
    fn run() -> anyhow::Result<Collectives> {
        let small = BLOCK.of(machine(FILE, TEXT)?);
        let full = TEXT.replace("down = [4]\nup = [4]", "down = [4, 4, 4]\nup = [4, 4, 4]");
        let full = BLOCK.of(machine("machines/cenju3.toml with 256 PEs", &full)?);
        let time = |&count: &u32| {
            let mut cluster = cluster(if count > 16 { &full } else { &small }, count, |config| config)?;
            let mut us = |operation, bytes, algorithm| {
                Ok::<f64, anyhow::Error>(collective_ps(&mut cluster, operation, bytes, algorithm)? / 1e6)
            };
            let barrier = us(Collective::Barrier, 0, None)?;
            let bcast = us(Collective::Bcast, 4, Some("binomial"))?;
            Ok((count, [barrier, bcast, us(Collective::Scatter, 1_280, Some("linear"))?]))
        };
        Ok(Collectives { times: PE_COUNTS.iter().map(time).collect::<anyhow::Result<_>>()? })
    }

    /// What 10 to 14 PEs add over what 6 to 10 add.
    fn slope(&self, operation: usize) -> f64 {
        let of = |count: u32| {
            self.times.iter().find(|time| time.0 == count).map_or(f64::NAN, |time| time.1[operation])
        };
        (of(14) - of(10)) / (of(10) - of(6))
    }

    /// Time of 14 PEs over that of 2.
    fn growth(&self, operation: usize) -> f64 {
        let of = |count: u32| {
            self.times.iter().find(|time| time.0 == count).map_or(f64::NAN, |time| time.1[operation])
        };
        of(14) / of(2)
    }

    fn lines(&self) -> Vec<Line> {
        let line = |(index, name): (usize, &str)| {
            let measured = self.times.iter().filter(|time| time.0 <= 16);
            (name.to_owned(), measured.map(|time| (f64::from(time.0), time.1[index])).collect())
        };
        ["barrier", "bcast, 4 B", "scatter, 1280 B"].into_iter().enumerate().map(line).collect()
    }

    fn table(&self) -> Table {
        let head = ["PEs", "barrier", "bcast, 4 B, binomial", "scatter, 1280 B, linear"];
        let mut table = Table::new("Collective operations, µs (figure 2 has no numbers in the text)", &head);
        let row = |(count, times): &(u32, [f64; 3])| {
            std::iter::once(count.to_string()).chain(times.iter().map(|time| format!("{time:.0}"))).collect()
        };
        table.rows = self.times.iter().map(row).collect();
        table
    }
}

/// The same ways of waiting on a host of today.
fn today() -> anyhow::Result<Table> {
    let text = include_str!("../../../machines/node-2x200g-pcie5.toml");
    let mut table = Table::new(
        "Today's costs in the same model: 8 B on machines/node-2x200g-pcie5.toml (costs assumed: call \
        0.15, interrupt 1, switch 1.5, hand-over 3 µs)",
        &["waiting", "user-level, µs", "with a kernel call, µs"],
    );
    for (name, waiting) in
        [("polling", Waiting::Poll), ("blocked", Waiting::Block), ("thread", Waiting::Thread)]
    {
        let mut row = vec![name.to_owned()];
        for calls in [0, 1] {
            let mut machine = machine("machines/node-2x200g-pcie5.toml", text)?;
            let software = &mut machine.host_models[0].software;
            let blocks = waiting != Waiting::Poll;
            *software = SoftwareCosts {
                waiting,
                send_system_calls: calls,
                system_call_ps: (calls > 0).then_some(150_000),
                interrupt_ps: blocks.then_some(1_000_000),
                context_switch_ps: blocks.then_some(1_500_000),
                thread_switch_ps: (waiting == Waiting::Thread).then_some(3_000_000),
                ..software.clone()
            };
            let mut cluster = cluster(&machine, 2, |config| config)?;
            row.push(format!("{:.2}", half_round_trip_ps(&mut cluster, 8, 10)? / 1e6));
        }
        table.rows.push(row);
    }
    Ok(table)
}

fn remarks() -> Vec<String> {
    [
        "Fitted, each to one figure: the sum of send_ns, match_ns and receive_ns (40 µs); \
        system_call_ns (90 - 70); interrupt_ns and \
         context_switch_ns together (90 - 60); thread_switch_ns (140 - 90); the DMA's rate (35 MB/s); \
         both copy rates (19 and 17 MB/s). \
         How sums are shared out is assumed and changes no figure of two PEs.",
        "Predicted: 90 µs as the sum of three of them; the step at 128 B; where throughput is highest \
        and that it falls beyond, from a \
         direct-mapped cache of 1 MB and two buffers; that the way of waiting does not matter for long \
         messages; how collective \
         operations grow.",
        "The network is a fat tree of the same switches, not the paper's one-way multistage network. \
        256 PEs were not measured in the paper.",
    ]
    .map(str::to_owned)
    .to_vec()
}
