//! The trunking study (H. Matsuba, Y. Ishikawa, IPSJ SIG HPC 2007; YAMPII over InfiniBand): bandwidth by
//! number of links, by where memory lies, and by striping, on machines/yampii-openib.toml.
//!
//! The benchmark is the paper's (figure 3): a message, answered by 4 B; half the time of 4 B is taken off.
//! Message memory is in as many parts as there are links, each in a NUMA node.

use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::{Config, NicUse, Policy};

use crate::bench::{answered_ps, cluster, machine};
use crate::chart::{Axes, lines};
use crate::memory;
use crate::report::{Bound, Figure, Report, Table};

/// Links used, and the nodes of the sender's and the receiver's memory, a part a link.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    nics: &'static [u16],
    sender: &'static [u16],
    receiver: &'static [u16],
    policy: Policy,
}

const fn case(
    name: &'static str,
    nics: &'static [u16],
    sender: &'static [u16],
    receiver: &'static [u16],
) -> Case {
    Case { name, nics, sender, receiver, policy: Policy::Even }
}

const ALL: &[u16] = &[0, 1, 2, 3];
const NEAR: &[u16] = &[0, 0, 1, 1];

/// Figures 4 and 5.
const ONE: [Case; 4] = [
    case("near", &[0], &[0], &[0]),
    case("sender far", &[0], &[1], &[0]),
    case("receiver far", &[0], &[0], &[1]),
    case("far", &[0], &[1], &[1]),
];
/// Figure 6.
const TWO_NEAR: [Case; 3] = [
    case("3600 + 3600", &[0, 1], &[0, 0], &[0, 0]),
    case("3050 + 3050", &[2, 3], &[1, 1], &[1, 1]),
    case("3600 + 3050", &[0, 2], &[0, 1], &[0, 1]),
];
/// Figure 7.
const TWO_FAR: [Case; 3] = [
    case("3600 + 3600, one receiver far", &[0, 1], &[0, 0], &[0, 1]),
    case("3600 + 3050, one receiver far", &[0, 2], &[0, 1], &[0, 0]),
    case("3600 + 3050, all far", &[0, 2], &[1, 0], &[1, 0]),
];
/// Figure 8.
const FOUR: [Case; 2] = [case("near", ALL, NEAR, NEAR), case("one receiver far", ALL, NEAR, &[0, 0, 1, 0])];

/// Beyond the paper: where the memory of both sides lies.
const PLACEMENTS: [Case; 4] = [
    case("each part near its link", ALL, NEAR, NEAR),
    case("one receiver far", ALL, NEAR, &[0, 0, 1, 0]),
    case("all in the process' own node", ALL, &[0], &[0]),
    case("pages in turn in both nodes", ALL, &[0, 1, 0, 1, 0, 1, 0, 1], &[0, 1, 0, 1, 0, 1, 0, 1]),
];
const POLICIES: [(&str, Policy); 3] =
    [("even", Policy::Even), ("weighted", Policy::Weighted), ("adaptive", Policy::Adaptive)];

/// The longest message, bytes. The paper does not say its own.
const BYTES_MAX: u64 = 16 << 20;

/// GB/s of messages of each length.
fn curve(machine: &Machine, case: &Case, lengths: &[u64]) -> anyhow::Result<Vec<(f64, f64)>> {
    let nic_use = NicUse::Only(case.nics.iter().map(|nic| 1 << nic).sum());
    let memory_nodes = vec![case.sender.to_vec(), case.receiver.to_vec()];
    let policy = case.policy;
    let change = |config: Config| Config { nic_use, memory_nodes, policy, ..config };
    let mut cluster = cluster(machine, 2, change)?;
    let small_ps = answered_ps(&mut cluster, 4, 10)? / 2.0;
    let point = |&bytes: &u64| {
        let time_ps = answered_ps(&mut cluster, bytes, 2)? - small_ps;
        Ok((bytes as f64, bytes as f64 / time_ps * 1e3))
    };
    lengths.iter().map(point).collect()
}

fn peak(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(0.0, f64::max)
}

/// Runs the paper's cases and those beyond it.
///
/// # Errors
/// A run that does not end.
pub fn run(mut progress: impl FnMut(&str)) -> anyhow::Result<Report> {
    let machine =
        machine("machines/yampii-openib.toml", include_str!("../../../machines/yampii-openib.toml"))?;
    let lengths: Vec<u64> = (12..).map(|power| 1 << power).take_while(|&bytes| bytes <= BYTES_MAX).collect();
    let mut charts = Vec::new();
    let mut figure = |title: &str, file: &str, cases: &[Case]| -> anyhow::Result<Vec<Vec<(f64, f64)>>> {
        let mut all = Vec::new();
        for case in cases {
            progress(&format!("{title}: {}", case.name));
            all.push((case.name.to_owned(), curve(&machine, case, &lengths)?));
        }
        let axes = Axes { title, x: "message, bytes", y: "GB/s", is_logarithmic: true };
        charts.push((file.to_owned(), lines(&axes, &all)?));
        Ok(all.into_iter().map(|(_, points)| points).collect())
    };
    let one = figure("One link (figures 4 and 5)", "one-link.svg", &ONE)?;
    let near = figure("Two links, near (figure 6)", "two-links.svg", &TWO_NEAR)?;
    let far = figure("Two links, some far (figure 7)", "two-links-far.svg", &TWO_FAR)?;
    let four = figure("Four links (figure 8)", "four-links.svg", &FOUR)?;
    let (placements, adaptive_one_far) = placements(&machine, &mut progress)?;
    let beside_copies = memory::run(&mut progress)?;
    let figures = figures(&one, &near, &far, &four, adaptive_one_far, &lengths);
    Ok(Report {
        name: "trunking",
        title: "Trunking of InfiniBand links on a NUMA host (YAMPII)".into(),
        about: "Two real Ayatori processes on the two hosts of machines/yampii-openib.toml: messages by \
        put, spread over the \
                links by the shipping protocol, answered by 4 B. Bandwidths are the highest of 4 KiB to \
                16 MiB."
            .into(),
        figures,
        tables: vec![placements, beside_copies],
        charts,
        remarks: remarks(),
    })
}

fn figures(
    one: &[Vec<(f64, f64)>],
    near: &[Vec<(f64, f64)>],
    far: &[Vec<(f64, f64)>],
    four: &[Vec<(f64, f64)>],
    adaptive_one_far: f64,
    lengths: &[u64],
) -> Vec<Figure> {
    let unit = "GB/s";
    let within = |what: &str, paper: f64, points: &[(f64, f64)], part: f64| {
        Figure::new(what, unit, (paper, peak(points)), Bound::Within(part))
    };
    // The first length at which it matters how many links there are.
    let pairs = lengths.iter().zip(one[0].iter().zip(&four[0]));
    let gained =
        pairs.clone().find(|(_, (single, all))| all.1 > 1.05 * single.1).map_or(0, |(bytes, _)| *bytes);
    let (sender, receiver) = (peak(&one[1]) / peak(&one[0]), peak(&one[2]) / peak(&one[0]));
    vec![
        within("one link, near", 1.6, &one[0], 0.05),
        Figure::new("one link, sender far, part of near", "", (0.95, sender), Bound::AtLeast)
            .with("the paper: hardly matters"),
        Figure::new("one link, receiver far, part of near", "", (0.8, receiver), Bound::AtMost)
            .with("the paper: clearly lower"),
        within("two links, 3600 + 3600", 3.0, &near[0], 0.05),
        within("two links, 3050 + 3050", 3.0, &near[1], 0.05),
        within("two links, one of each", 3.0, &near[2], 0.05),
        Figure::new(
            "two links, one receiver far, over one link with far receiver",
            "",
            (2.0, peak(&far[0]) / peak(&one[2])),
            Bound::Within(0.1),
        ),
        within("two links, all far", 2.1, &far[2], 0.1).fitted("numa_hop_ns was fitted to this"),
        within("four links, near", 6.17, &four[0], 0.05),
        Figure::new("four links, one receiver far, even", unit, (3.9, peak(&four[1])), Bound::AtMost)
            .with("the paper: at most 3.7, unstable"),
        Figure::new("the same, adaptive", unit, (5.2, adaptive_one_far), Bound::AtLeast)
            .with("asked of Ayatori, not in the paper"),
        Figure::new("trunking gains from", "KiB", (32.0, gained as f64 / 1024.0), Bound::Within(0.0)),
    ]
}

/// Striping by where memory lies, and the figure of adaptive striping with one receiver far.
fn placements(machine: &Machine, progress: &mut impl FnMut(&str)) -> anyhow::Result<(Table, f64)> {
    let head = ["memory of 4 MiB and 16 MiB messages", "even", "weighted", "adaptive"];
    let mut table =
        Table::new("Beyond the paper: four links, GB/s by striping and by where memory lies", &head);
    let mut one_far = 0.0;
    for (index, placed) in PLACEMENTS.iter().enumerate() {
        let mut row = vec![placed.name.to_owned()];
        for (name, policy) in POLICIES {
            progress(&format!("{}, {name}", placed.name));
            let points = curve(machine, &Case { policy, ..*placed }, &[4 << 20, 16 << 20])?;
            if index == 1 && policy == Policy::Adaptive {
                one_far = peak(&points);
            }
            row.push(format!("{:.2}, {:.2}", points[0].1, points[1].1));
        }
        table.rows.push(row);
    }
    Ok((table, one_far))
}

fn remarks() -> Vec<String> {
    [
        "Fitted: numa_hop_ns, to two links with both sides far. Hypothesis: writes_max_bytes = 128, \
        that is, one PCI Express packet \
         of a NIC's port on its way to memory at a time. Everything else is from the paper, from data \
         sheets or from McCalpin's \
         latencies, as the machine file says.",
        "Why the receiver's distance decides: a write holds its place among the few posted writes until \
        memory has answered, and \
         the answer comes two hops later from the other socket; reads have 8 x 512 B outstanding, which \
         covers the same two hops \
         many times. The paper leaves the reason open.",
        "The paper's older BIOS (2.1 GB/s over two links of the 3050) is not run: what it set otherwise \
        is not said.",
        "Four links with one far receiver, even: even shares wait for the far link. Alone it would do \
        1.05 GB/s (the paper: 2.1 over two), four times that is 4.2. But it writes to the memory of two \
        near links, and streams in one memory close each other's rows: with four banks (512 Mbit DDR2) \
        nearly every second write waits 30 ns more. The near links wait too, which their bus hides. \
        Assumed are the modules (the paper gives only 2 GB), and that pages lie in any bank, which would \
        also make the figure unstable, as the paper says. The modules decide: with eight banks the same \
        formula gives some 4.0, above the bound. That writes wait for their row follows from the \
        hypothesis above. Two more causes were estimated and are too small: probes of the near links \
        between the sockets (under 1 ns of 124), and near links' data in front of the memory (some 3 ns).",
        "Adaptive striping begins as even striping does, each link with a part of its own, and a link \
         that is done takes from the end of the longest rest. Before, pieces were given out in order, \
         so that all links worked in one part at a time, whatever socket it lay at: 4.7 GB/s with all \
         parts near. Parts that a link takes over are not chosen by node.",
        "Trunking gained from 64 KiB only, as long as a message that rails put was counted in units of \
         a packet, here 36 KiB: the shortest rendezvous message was one unit, and went over one link.",
        "Adaptive striping once reached 2.2 GB/s here with 16 MiB: puts that a link carried side by side \
         ended together, and the library took the link for many times as fast as it is. This study found \
         that; the rate is now measured over all of them, and two are under way on a link at most.",
        "The 200 Gbit/s adapters (machines/node-2x200g-pcie5.toml, nothing of which we measured): a process \
         copies 12 GB/s and moves twice that. Eight beside two adapters ask for 192 + 50 of the 307 GB/s of \
         a memory, and nobody loses anything. 24 ask for 576, get what the adapters leave, and every access \
         takes twice as long: 0.2 us in place of 0.1. With the 32 KiB of posted writes that the file assumes \
         an adapter does not feel that, near or far; with 4 KiB it does, and more where the way to another \
         socket is added. Copies in the other memory cost adapters nothing. S. Agarwal and \
         others (Host Congestion Control, SIGCOMM 2023) saw adapters lose more than half of their rate \
         beside busy memories, so 32 KiB may be too much.",
    ]
    .map(str::to_owned)
    .to_vec()
}
