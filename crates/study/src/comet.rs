//! The Comet study (S. Kobayashi et al., IPSJ SIG 2001): where a packet's time goes, DMA over PCI, bandwidth
//! of applications, the prediction for Comet-NP, and how much of the processor is left, on
//! machines/comet-cp.toml and machines/comet-np.toml.

use std::collections::BTreeMap;

use anyhow::Context as _;
use ayatori_fabric::description::{BusKind, Machine, StageModel, Waiting};
use ayatori_sim::host::Model;

use crate::bench::{cluster, machine, streamed, windowed_stream};
use crate::chart::{Axes, Line, lines};
use crate::report::{Bound, Figure, Report, Table};

const CP: (&str, &str) = ("machines/comet-cp.toml", include_str!("../../../machines/comet-cp.toml"));
const NP: (&str, &str) = ("machines/comet-np.toml", include_str!("../../../machines/comet-np.toml"));

/// 64 B of ICMP data with its header of 8 B and IP's of 20 B.
const PING_BYTES: u64 = 92;
const MTU_BYTES: u64 = 8_160;
/// From this length on the paper predicts 250 MB/s for Comet-NP.
const SHORT_BYTES: u64 = 1_000;
/// The units that both machine files name.
const CONTROL_UNIT: &str = "StrongARM";
const DMA_UNIT: &str = "host DMA";
/// The header of the protocols in such a packet, bytes, about.
const HEADER_BYTES: u64 = 32;
/// The longest message of one packet, as the machine files say, bytes.
const EAGER_BYTES_MAX: u64 = 8_064;

/// A stream's rate, and the parts of the time that its two processors are busy.
struct Streamed {
    mb_per_s: f64,
    sender: f64,
    receiver: f64,
}

/// Messages of one packet of `packet_bytes` each, a few at a time or under a window.
fn stream(machine: &Machine, packet_bytes: u64, window: Option<u32>) -> anyhow::Result<Streamed> {
    let bytes = packet_bytes.saturating_sub(HEADER_BYTES).clamp(8, EAGER_BYTES_MAX);
    let count = 400;
    let mut cluster = cluster(machine, 2, |config| config)?;
    let report = match window {
        None => streamed(&mut cluster, bytes, count, 16)?,
        Some(window) => windowed_stream(&mut cluster, bytes, count, window)?,
    };
    let part = |rank: usize| report.usage.busy_ps[rank] as f64 / report.elapsed_ps as f64;
    let mb_per_s = (bytes * u64::from(count)) as f64 / (report.elapsed_ps as f64 / 1e6);
    Ok(Streamed { mb_per_s, sender: part(0), receiver: part(1) })
}

/// Segments that TCP of Linux 2.2 sends without acknowledgement: a window of 32 KiB, without scaling, of
/// 8,120 B each.
const TCP_WINDOW: u32 = 4;

/// The kernel's TCP/IP in place of PM: calls, interrupts, a copy and a checksum at either side. Costs as of
/// machines/fast-ethernet.toml, which is the same host.
fn with_tcp(mut machine: Machine) -> anyhow::Result<Machine> {
    let text = include_str!("../../../machines/fast-ethernet.toml");
    let kernel = Machine::parse("machines/fast-ethernet.toml", text)?;
    machine.host_models[0].software = kernel.host_models[0].software.clone();
    Ok(machine)
}

fn model(machine: &Machine) -> anyhow::Result<Model> {
    Model::of(&machine.host_models[0], MTU_BYTES as u32).context("the host has no bus")
}

/// Runs the paper's measurements and its prediction.
///
/// # Errors
/// A run that does not end.
pub fn run(mut progress: impl FnMut(&str)) -> anyhow::Result<Report> {
    let (cp, np) = (machine(CP.0, CP.1)?, machine(NP.0, NP.1)?);
    let (cp_model, np_model) = (model(&cp)?, model(&np)?);
    progress("application bandwidth");
    let (pm, tcp) =
        (stream(&cp, MTU_BYTES, None)?, stream(&with_tcp(cp.clone())?, MTU_BYTES, Some(TCP_WINDOW))?);
    let lengths: Vec<u64> =
        (0..8).map(|power| 64 << power).chain([SHORT_BYTES, 2_000, 3_000, 6_000, MTU_BYTES]).collect();
    let mut lengths = lengths;
    lengths.sort_unstable();
    let lengths: Vec<u64> = lengths.into_iter().filter(|&bytes| bytes <= MTU_BYTES).collect();
    progress("Comet-NP");
    let curve = |machine: &Machine| -> anyhow::Result<Vec<(f64, f64)>> {
        lengths.iter().map(|&bytes| Ok((bytes as f64, stream(machine, bytes, None)?.mb_per_s))).collect()
    };
    let (cp_curve, np_curve) = (curve(&cp)?, curve(&np)?);
    let dma = |model: &Model, way: usize| -> Vec<(f64, f64)> {
        let rate =
            |&bytes: &u64| (bytes as f64, bytes as f64 / (model.dma_ps(0, bytes, 0)[way] as f64 / 1e6));
        lengths.iter().map(rate).collect()
    };
    let figures =
        figures(&cp_model, (&pm, &tcp), (&np_model, &np_curve), [dma(&cp_model, 0), dma(&cp_model, 1)]);
    let axes = |title, is_logarithmic| Axes { title, x: "packet, bytes", y: "MB/s", is_logarithmic };
    let named = |name: &str, points: Vec<(f64, f64)>| -> Line { (name.into(), points) };
    let dma_lines = [
        named("adapter to host (write)", dma(&cp_model, 1)),
        named("host to adapter (read)", dma(&cp_model, 0)),
    ];
    let by_length = by_rule(&np_model, &np_curve);
    let np_lines = [named("Comet-NP", np_curve), named("Comet-CP", cp_curve)];
    let charts = vec![
        (
            "dma.svg".to_owned(),
            lines(&axes("DMA over PCI 64/33, start-up included (figure 3)", false), &dma_lines)?,
        ),
        (
            "prediction.svg".to_owned(),
            lines(&axes("Bandwidth by packet length (figure 7)", false), &np_lines)?,
        ),
    ];
    progress("what must improve");
    Ok(Report {
        name: "comet",
        title: "Comet: protocols on the adapter".into(),
        about: "Streams of one-packet messages between two real Ayatori processes on \
        machines/comet-cp.toml and comet-np.toml. PM is \
                user-level and copies nothing; TCP is the same adapter under a kernel that copies and \
                checks sums."
            .into(),
        figures,
        tables: vec![
            stages(&cp_model, &np_model),
            processors(&pm, &tcp, &stream(&np, MTU_BYTES, None)?),
            by_length,
            short(&np)?,
            improve(&np)?,
        ],
        charts,
        remarks: remarks(),
    })
}

fn figures(
    cp: &Model,
    (pm, tcp): (&Streamed, &Streamed),
    (np_model, np): (&Model, &[(f64, f64)]),
    [read, write]: [Vec<(f64, f64)>; 2],
) -> Vec<Figure> {
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let times = cp.stage_times(0, PING_BYTES, 0);
    let stage = |way: usize, index: usize| times[way][index].2 as f64 / 1e6;
    let put_in = |what: &str, paper: f64, ours: f64| Figure::new(what, "us", (paper, ours), Bound::None);
    let at_1000 = |points: &[(f64, f64)]| {
        points.iter().find(|point| point.0 == SHORT_BYTES as f64).map_or(f64::NAN, |point| point.1)
    };
    let by_rule = |bytes| rate(bytes, slowest_unit_ps(np_model, bytes));
    let rule_most = (SHORT_BYTES..=MTU_BYTES).map(by_rule).fold(0.0, f64::max);
    let knee = (PING_BYTES..=MTU_BYTES).find(|&bytes| dma_decides(np_model, bytes));
    let knee = knee.map_or(f64::INFINITY, |bytes| bytes as f64);
    vec![
        put_in("64 B, send: host DMA", 2.23, stage(0, 1)),
        put_in("64 B, send: NIC DMA", 7.36, stage(0, 4)),
        put_in("64 B, receive: host DMA", 1.18, stage(1, 2)),
        Figure::new("DMA adapter to host, highest", "MB/s", (267.0, most(&write)), Bound::Within(0.1)),
        Figure::new("DMA host to adapter, highest", "MB/s", (128.0, most(&read)), Bound::AtMost)
            .fitted("read_burst_clocks was fitted to this"),
        Figure::new("application, PM", "MB/s", (114.0, pm.mb_per_s), Bound::Within(0.1)).with("predicted"),
        Figure::new("application, TCP", "MB/s", (95.0, tcp.mb_per_s), Bound::Within(0.1)).with("predicted"),
        Figure::new(
            "Comet-NP, highest by section 4.2's rule",
            "MB/s",
            (250.0, rule_most),
            Bound::Within(0.05),
        )
        .with("predicted from table 2 and figure 3's highest read rate"),
        Figure::new("Comet-NP, packets from which on the DMA decides", "B", (1_000.0, knee), Bound::AtMost)
            .with("predicted; section 4.2: up to about 250 from 1000 B on"),
        Figure::new("Comet-NP, highest from 1000 B", "MB/s", (250.0, most(np)), Bound::Within(0.1))
            .with("the paper's is a prediction too"),
        Figure::new("Comet-NP, 1000 B", "MB/s", (250.0, at_1000(np)), Bound::Within(0.1))
            .with("section 4.2: up to about 250 from 1000 B on; why ours is lower: table below"),
    ]
}

fn stages(cp: &Model, np: &Model) -> Table {
    let head = ["way", "stage", "unit", "64 B of data", "8160 B", "Comet-NP, 8160 B"];
    let mut table = Table::new("Stages of a packet, µs (table 2; the slowest unit decides the rate)", &head);
    let (short, long, next) =
        (cp.stage_times(0, PING_BYTES, 0), cp.stage_times(0, MTU_BYTES, 0), np.stage_times(0, MTU_BYTES, 0));
    for (way, name) in ["send", "receive"].into_iter().enumerate() {
        for ((stage, unit, time), (_, _, long)) in short[way].iter().zip(&long[way]) {
            let us = |ps: u64| format!("{:.2}", ps as f64 / 1e6);
            let same =
                next[way].iter().find(|(other, ..)| other == stage).map_or("–".into(), |found| us(found.2));
            table.rows.push(vec![name.into(), stage.clone(), unit.clone(), us(*time), us(*long), same]);
        }
    }
    table
}

fn processors(pm: &Streamed, tcp: &Streamed, np: &Streamed) -> Table {
    let head = ["", "MB/s", "sender's processor", "left to the application", "receiver's processor", "left"];
    let mut table = Table::new("Processor time, if a process that waits does not use it", &head);
    for (name, run) in [("Comet-CP, PM", pm), ("Comet-CP, TCP", tcp), ("Comet-NP", np)] {
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let cells = [run.sender, 1.0 - run.sender, run.receiver, 1.0 - run.receiver].map(percent);
        let mut row = vec![name.to_owned(), format!("{:.0}", run.mb_per_s)];
        row.extend(cells);
        table.rows.push(row);
    }
    table
}

/// How long a packet occupies each unit: by way (0 to send, 1 to receive) and unit, ps.
fn units_ps(model: &Model, bytes: u64) -> BTreeMap<(usize, String), u64> {
    let mut units: BTreeMap<(usize, String), u64> = BTreeMap::new();
    for (way, stages) in model.stage_times(0, bytes, 0).into_iter().enumerate() {
        stages.into_iter().for_each(|(_, unit, ps)| *units.entry((way, unit)).or_default() += ps);
    }
    units
}

/// Section 4.2's rule: the unit that a packet occupies longest decides the rate, ps.
fn slowest_unit_ps(model: &Model, bytes: u64) -> u64 {
    units_ps(model, bytes).into_values().max().unwrap_or(0)
}

/// Whether that is a DMA engine, and not the control processor.
fn dma_decides(model: &Model, bytes: u64) -> bool {
    let slowest_ps = slowest_unit_ps(model, bytes);
    units_ps(model, bytes).into_iter().any(|((_, unit), ps)| unit == DMA_UNIT && ps == slowest_ps)
}

/// Such packets one after the other, MB/s.
fn rate(bytes: u64, packet_ps: u64) -> f64 {
    bytes as f64 / (packet_ps as f64 / 1e6)
}

/// Figure 7 as numbers: what each unit allows, section 4.2's rule, and what the program gets.
fn by_rule(np: &Model, simulated: &[(f64, f64)]) -> Table {
    let title = "Comet-NP by packet length (figure 7), MB/s";
    let head = [
        "packet",
        "control processor, send",
        "receive",
        "DMA, read",
        "write",
        "section 4.2's rule",
        "simulated, messages' bytes",
    ];
    let mut table = Table::new(title, &head);
    for &(length, simulated) in simulated.iter().filter(|(length, _)| *length >= 256.0) {
        let bytes = length as u64;
        let units = units_ps(np, bytes);
        let of = |way: usize, unit: &str| rate(bytes, units.get(&(way, unit.into())).copied().unwrap_or(0));
        let allowed = [of(0, CONTROL_UNIT), of(1, CONTROL_UNIT), of(0, DMA_UNIT), of(1, DMA_UNIT)];
        let mut row = vec![format!("{bytes} B")];
        row.extend(allowed.map(|rate| format!("{rate:.0}")));
        row.extend([rate(bytes, slowest_unit_ps(np, bytes)), simulated].map(|rate| format!("{rate:.0}")));
        table.rows.push(row);
    }
    table
}

/// Why Comet-NP is below 250 MB/s with packets of 1000 B: by the paper's rule and simulated, with one part
/// taken away at a time.
fn short(np: &Machine) -> anyhow::Result<Table> {
    let stages = |machine: &mut Machine, change: &dyn Fn(&mut StageModel)| {
        let nic = &mut machine.host_models[0].nics[0];
        nic.send_stages.iter_mut().chain(&mut nic.receive_stages).for_each(change);
    };
    let dma_free = |stage: &mut StageModel| stage.packet_ps = if stage.is_dma { 0 } else { stage.packet_ps };
    let processor_free =
        |stage: &mut StageModel| stage.packet_ps = if stage.is_dma { stage.packet_ps } else { 0 };
    let own_units = |machine: &mut Machine| {
        let nic = &mut machine.host_models[0].nics[0];
        nic.receive_stages.iter_mut().for_each(|stage| stage.unit += ", receiving");
    };
    type Change<'a> = Box<dyn Fn(&mut Machine) + 'a>;
    let changes: [(&str, Change<'_>); 5] = [
        ("as the machine file has it", Box::new(|_| {})),
        ("control processor takes no time", Box::new(|machine| stages(machine, &processor_free))),
        ("a DMA's start takes no time", Box::new(|machine| stages(machine, &dma_free))),
        ("control processor and DMA of their own for each way", Box::new(own_units)),
        (
            "both of these",
            Box::new(|machine| {
                stages(machine, &dma_free);
                own_units(machine);
            }),
        ),
    ];
    let head = ["", "section 4.2's rule, MB/s", "simulated, packets' bytes", "messages' bytes"];
    let mut table = Table::new("Comet-NP with packets of 1000 B: what holds it below 250 MB/s", &head);
    for (name, change) in changes {
        let mut machine = np.clone();
        change(&mut machine);
        let rule = rate(SHORT_BYTES, slowest_unit_ps(&model(&machine)?, SHORT_BYTES));
        let messages = stream(&machine, SHORT_BYTES, None)?.mb_per_s;
        let packets = messages * SHORT_BYTES as f64 / (SHORT_BYTES - HEADER_BYTES) as f64;
        let mut row = vec![name.to_owned()];
        row.extend([rule, packets, messages].map(|rate| format!("{rate:.0}")));
        table.rows.push(row);
    }
    Ok(table)
}

/// Comet-NP with one part better at a time, and with several: which must improve to reach 500 MB/s.
fn improve(np: &Machine) -> anyhow::Result<Table> {
    let faster_arm = |machine: &mut Machine, times: u64| {
        let nic = &mut machine.host_models[0].nics[0];
        let stages = nic.send_stages.iter_mut().chain(&mut nic.receive_stages);
        stages.filter(|stage| !stage.is_dma).for_each(|stage| stage.packet_ps /= times);
    };
    let faster_bus = |machine: &mut Machine, times: u64| {
        let host = &mut machine.host_models[0];
        for bus in &mut host.buses {
            if let BusKind::Pci { bytes_per_s, read, write } = &mut bus.kind {
                *bytes_per_s *= times;
                [read, write].into_iter().for_each(|burst| burst.overhead_ps /= times);
            }
        }
        let nic = &mut host.nics[0];
        let stages = nic.send_stages.iter_mut().chain(&mut nic.receive_stages);
        stages.filter(|stage| stage.is_dma).for_each(|stage| stage.packet_ps /= times);
    };
    let longer_reads = |machine: &mut Machine| {
        for bus in &mut machine.host_models[0].buses {
            if let BusKind::Pci { read, .. } = &mut bus.kind {
                read.bytes = 512;
            }
        }
    };
    type Change<'a> = Box<dyn Fn(&mut Machine) + 'a>;
    let changes: [(&str, Change<'_>); 7] = [
        ("Comet-NP as predicted", Box::new(|_| {})),
        ("control processor twice as fast", Box::new(|machine| faster_arm(machine, 2))),
        ("bus of 133 MHz (PCI-X)", Box::new(|machine| faster_bus(machine, 2))),
        ("reads in bursts of 512 B", Box::new(|machine| longer_reads(machine))),
        (
            "bus of 133 MHz, bursts of 512 B",
            Box::new(|machine| {
                faster_bus(machine, 2);
                longer_reads(machine);
            }),
        ),
        (
            "bus of 133 MHz, control processor twice as fast",
            Box::new(|machine| {
                faster_bus(machine, 2);
                faster_arm(machine, 2);
            }),
        ),
        (
            "all three",
            Box::new(|machine| {
                faster_bus(machine, 2);
                longer_reads(machine);
                faster_arm(machine, 2);
            }),
        ),
    ];
    let head = ["", "1000 B", "8160 B"];
    let mut table = Table::new("Beyond the paper: what must improve to reach 500 MB/s", &head);
    for (name, change) in changes {
        let mut machine = np.clone();
        change(&mut machine);
        let rate =
            |bytes| Ok::<String, anyhow::Error>(format!("{:.0}", stream(&machine, bytes, None)?.mb_per_s));
        table.rows.push(vec![name.into(), rate(SHORT_BYTES)?, rate(MTU_BYTES)?]);
    }
    debug_assert_eq!(
        np.host_models[0].software.waiting,
        Waiting::Poll,
        "processors() counts waiting as free"
    );
    Ok(table)
}

fn remarks() -> Vec<String> {
    [
        "Put in, not predicted: the times of table 2. Fitted: read_burst_clocks, to figure 3's 128 \
        MB/s. Assumed: the adapter's own bus, \
         costs of PM's calls, and how the kernel's time splits into calls and copies; machine files say \
         which.",
        "Section 4.2 expects at most about 250 MB/s with packets of 1000 B and more. Its rule, applied to \
        table 2 and to twice figure 3's highest read rate, gives both numbers: 250 MB/s with packets of the \
        MTU, and the DMA in place of the control processor from 801 B on. Nothing is fitted to either.",
        "Missed: 250 MB/s with packets of exactly 1000 B. The rule lets the DMA's read decide there: 3.91 us \
        on the bus at 256 MB/s, and 0.74 us to start (half of table 2's 2.23 us less the bus'), which leaves \
        213. The start would have to be 0.09 us; for 92 B table 2 would then have 0.9 us and not 2.23. The \
        control processor's 3.50 and 3.87 us would allow 286 and 258. Flow control's packets the other way \
        take the same processor and DMA (202), and headers are not the application's (196). Figure 7 is a \
        plot, and its value at 1000 B is not in the text; section 5.3 lets the bus limit from 2000 B on.",
        "Predicted: both bandwidths of applications, Comet-NP's curve, the processor's share.",
        "TCP is messages of a segment under a window of 32 KiB (Linux 2.2 without window scaling), \
        every second one \
         acknowledged; slow start, timers and the length of its headers are not modelled.",
        "NPB's speed-ups (table 4) are not run: the paper gives no times of its programs' computing.",
        "PM's sustained rate is below the bus': the single host DMA of the adapter serves sending and \
        receiving, and the control \
         processor sets up one transfer at a time.",
    ]
    .map(str::to_owned)
    .to_vec()
}
