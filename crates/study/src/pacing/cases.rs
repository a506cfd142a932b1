//! What is run: every case is one number of the study.

use std::fmt;

const KIB: u64 = 1 << 10;

/// 24 to 768 nodes by doubling axes in turn up to the paper's 8×6×16; it gives the extents of its largest
/// torus only.
pub(super) const RING_EXTENTS: [[u32; 3]; 6] =
    [[2, 3, 4], [4, 3, 4], [4, 6, 4], [8, 6, 4], [8, 6, 8], [8, 6, 16]];
/// The same numbers of nodes as units of 2×3×2, which is what the machine is made of: its largest is 4×2×8
/// units.
const TOFU_UNITS: [[u32; 3]; 6] = [[1, 1, 2], [1, 1, 4], [1, 1, 8], [2, 1, 8], [4, 1, 8], [4, 2, 8]];
/// The paper's machine for all-to-all, 64 nodes.
pub(super) const ALL_TO_ALL_EXTENTS: [u32; 3] = [4, 2, 8];
/// Rank orders by the axis that varies fastest; as in the paper, those that begin with Z last.
pub(super) const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
/// Processes of a node in the random ring.
pub(super) const RING_PROCESSES_PER_NODE: u32 = 16;
/// "A few ns of start imbalance per process".
const START_SPREAD_NS: u32 = 5;

/// What the nodes are cabled as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A torus of three axes: how programs see the machine.
    Torus([u32; 3]),
    /// Units of 2×3×2 along three axes: how it is built.
    Tofu([u32; 3]),
}

impl Shape {
    pub(super) fn node_count(self) -> u32 {
        match self {
            Shape::Torus(extents) => extents.iter().product(),
            Shape::Tofu(units) => units.iter().product::<u32>() * 12,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Torus([x, y, z]) => write!(f, "torus {x}x{y}x{z}"),
            Shape::Tofu([x, y, z]) => write!(f, "tofu {x}x{y}x{z}"),
        }
    }
}

/// Whose network it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    /// machines/fx10.toml, or the file asked for.
    Fx10,
    /// The same with routers that take the oldest packet first and have 32 KiB a lane. FX10's are not
    /// published: this is what falls from gap 0 on for most curves, and no more than a hypothesis.
    Hypothetical,
    /// machines/nsim.toml.
    Nsim,
    /// The same with one thing changed that the paper does not state: an ablation.
    NsimBut(Change),
}

/// A change of machines/nsim.toml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The lanes that want a link in turn: channels are not allotted by themselves.
    LanesInTurn,
    /// The oldest packet first.
    OldestFirst,
    /// Channel 0 up to the wrap-around link, 1 from there on.
    AtWrap,
    /// Around half a ring always up.
    TiesUp,
    /// An input port passes on one packet at a time.
    OneCrossbarInput,
    /// The header comes on top of 2 KiB, so that three packets fit into a buffer.
    HeaderOnTop,
    /// 32 KiB of buffer for each channel.
    Buffer32Kib,
    /// Four virtual channels.
    FourChannels,
    /// Cables of this latency, ns.
    CableNs(u32),
    /// Lanes in turn and such cables.
    LanesInTurnCableNs(u32),
}

impl Change {
    pub(super) fn name(self) -> &'static str {
        match self {
            Change::LanesInTurn => "lanes in turn",
            Change::OldestFirst => "oldest first",
            Change::AtWrap => "dateline at the wrap",
            Change::TiesUp => "ties up",
            Change::OneCrossbarInput => "one crossbar input a port",
            Change::HeaderOnTop => "header on top of 2 KiB",
            Change::Buffer32Kib => "32 KiB a channel",
            Change::FourChannels => "4 channels",
            Change::CableNs(0) => "cables of 0 ns",
            Change::CableNs(10) => "cables of 10 ns",
            Change::CableNs(_) => "cables of 50 ns",
            Change::LanesInTurnCableNs(10) => "lanes in turn and cables of 10 ns",
            Change::LanesInTurnCableNs(_) => "lanes in turn and cables of 50 ns",
        }
    }
}

impl Machine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Machine::Fx10 => "fx10",
            Machine::Hypothetical => "fx10 hypothetical",
            Machine::Nsim | Machine::NsimBut(_) => "nsim",
        }
    }
}

/// Who sends what to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Random ring, 16 processes a node.
    Ring,
    /// Pairwise exchange, one process a node, ranks in this order of axes.
    AllToAll([usize; 3], Partner),
}

/// With whom a rank exchanges in step `n` of all-to-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partner {
    /// With `rank XOR n`: MPICH, for a power of two.
    Xor,
    /// It sends to `rank + n` and receives from `rank - n`: Open MPI.
    Shift,
    /// As `Xor`, but a rank goes on when the last byte of its own message has left its NIC, and waits for
    /// nobody.
    OneSided,
    /// By such writes too, but a rank goes on when its write has arrived. Every step is set up up to so many
    /// ns later.
    Arrived(u32),
    /// As this, and the partner's write has arrived here: the exchange of `Xor` below MPI.
    Exchanged(u32),
}

impl Partner {
    pub(super) fn name(self) -> &'static str {
        match self {
            Partner::Xor => "rank XOR step",
            Partner::Shift => "rank ± step",
            Partner::OneSided => "rank XOR step, one-sided",
            Partner::Arrived(_) => "rank XOR step, until it has arrived",
            Partner::Exchanged(_) => "rank XOR step, until both have arrived",
        }
    }

    /// Whether it is by bare writes, below MPI.
    pub(super) fn writes(self) -> bool {
        matches!(self, Partner::OneSided | Partner::Arrived(_) | Partner::Exchanged(_))
    }

    /// How much later a step may be set up, ns.
    pub(super) fn noise_ns(self) -> u32 {
        match self {
            Partner::Arrived(noise_ns) | Partner::Exchanged(noise_ns) => noise_ns,
            Partner::Xor | Partner::Shift | Partner::OneSided => 0,
        }
    }
}

/// How NICs pace; numbers in thousandths of a packet time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pacing {
    /// The same gap for all messages: the paper's.
    Fixed(u32),
    /// So much for each hop beyond the first.
    PerHop(u32),
    /// One gap, from the machine alone: at uniform traffic its busiest link is then loaded so much
    /// (thousandths).
    FromMachine(u32),
    /// As much in the mean, by hops beyond the first.
    PerHopFromMachine(u32),
    /// One gap, from who sends to whom: the busiest link is then loaded so much.
    FromTraffic(u32),
    /// For each message a gap from the busiest link on its own way, which is then loaded so much.
    PerMessageFromTraffic(u32),
}

impl Pacing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pacing::Fixed(_) => "fixed",
            Pacing::PerHop(_) => "per-hop",
            Pacing::FromMachine(_) => "from-machine",
            Pacing::PerHopFromMachine(_) => "per-hop-from-machine",
            Pacing::FromTraffic(_) => "from-traffic",
            Pacing::PerMessageFromTraffic(_) => "per-message-from-traffic",
        }
    }

    /// Its number, in thousandths.
    pub(super) fn value(self) -> u32 {
        match self {
            Pacing::Fixed(value)
            | Pacing::PerHop(value)
            | Pacing::FromMachine(value)
            | Pacing::PerHopFromMachine(value)
            | Pacing::FromTraffic(value)
            | Pacing::PerMessageFromTraffic(value) => value,
        }
    }
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) machine: Machine,
    pub(super) shape: Shape,
    pub(super) nic_count: u16,
    pub(super) traffic: Traffic,
    pub(super) bytes: u64,
    pub(super) start_spread_ns: u32,
    /// Times are means over so many draws of the start times.
    pub(super) start_count: u32,
    pub(super) pacing: Pacing,
}

impl Case {
    fn ring(shape: Shape, bytes: u64, pacing: Pacing) -> Case {
        // Four NICs: those that FX10 has.
        let start_spread_ns = START_SPREAD_NS;
        let (machine, traffic) = (Machine::Fx10, Traffic::Ring);
        Case { machine, shape, nic_count: 4, traffic, bytes, start_spread_ns, start_count: 1, pacing }
    }

    fn all_to_all(order: [usize; 3], partner: Partner, bytes: u64, pacing: Pacing) -> Case {
        // One NIC: the paper's table 3.
        let (shape, traffic) = (Shape::Torus(ALL_TO_ALL_EXTENTS), Traffic::AllToAll(order, partner));
        let (machine, start_spread_ns) = (Machine::Fx10, START_SPREAD_NS);
        // Ranks that wait for nobody drift apart, and a run depends on its draw.
        let start_count = if partner.writes() { STARTS } else { 1 };
        Case { machine, shape, nic_count: 1, traffic, bytes, start_spread_ns, start_count, pacing }
    }

    /// Packet-hops, about: for the order of runs and the progress bar.
    pub(super) fn cost(&self) -> u64 {
        let nodes = u64::from(self.shape.node_count());
        let messages = match self.traffic {
            Traffic::Ring => nodes * u64::from(RING_PROCESSES_PER_NODE) * 2,
            Traffic::AllToAll(..) => nodes * (nodes - 1),
        };
        let hops = match self.shape {
            Shape::Torus(extents) => extents.iter().sum::<u32>() / 4 + 1,
            Shape::Tofu(units) => units.iter().sum::<u32>() / 4 + 2,
        };
        messages * (self.bytes / 1_920 + 1) * u64::from(hops) * u64::from(self.start_count)
    }

    /// What makes the case, as the first columns of results.csv.
    pub(super) fn columns(&self) -> String {
        let order = self.order_name();
        let traffic = match self.traffic {
            Traffic::Ring => "random-ring".to_string(),
            Traffic::AllToAll(_, Partner::Xor) => format!("all-to-all {order}"),
            Traffic::AllToAll(_, Partner::Shift) => format!("all-to-all by shift {order}"),
            Traffic::AllToAll(_, Partner::OneSided) => format!("all-to-all one-sided {order}"),
            Traffic::AllToAll(_, Partner::Arrived(ns)) => format!("all-to-all arrived {order} noise {ns} ns"),
            Traffic::AllToAll(_, Partner::Exchanged(ns)) => {
                format!("all-to-all exchanged {order} noise {ns} ns")
            }
        };
        let machine = match self.machine {
            Machine::NsimBut(change) => format!("nsim {}", change.name()),
            other => other.name().to_string(),
        };
        let Case { shape, nic_count, bytes, start_spread_ns, start_count, pacing, .. } = self;
        format!(
            "{traffic},{machine},{},{shape},{nic_count},{bytes},{start_spread_ns},{start_count},{},{}",
            shape.node_count(),
            pacing.name(),
            f64::from(pacing.value()) / 1_000.0
        )
    }

    /// As the paper writes rank orders: the extents, fastest axis first.
    pub(super) fn order_name(&self) -> String {
        match self.traffic {
            Traffic::Ring => String::new(),
            Traffic::AllToAll(order, _) => {
                let [a, b, c] = order.map(|axis| ALL_TO_ALL_EXTENTS[axis]);
                format!("{a}x{b}x{c}")
            }
        }
    }
}

/// The names of [`Case::columns`].
pub(super) const COLUMN_NAMES: &str =
    "traffic,machine,nodes,network,nics_per_node,bytes,start_spread_ns,starts,pacing,pacing_value";

fn fixed(gaps: impl IntoIterator<Item = f64>) -> Vec<Pacing> {
    gaps.into_iter().map(|gap| Pacing::Fixed((gap * 1_000.0).round() as u32)).collect()
}

/// From 0 to `last` in equal steps.
fn steps(last: f64, step: f64) -> Vec<f64> {
    (0..=(last / step).round() as u32).map(|index| f64::from(index) * step).collect()
}

/// Loads of the busiest link that are tried: all that it can carry, and what a network with small buffers
/// can.
const LOADS: [u32; 4] = [1_000, 750, 600, 500];

/// What is tried beyond the paper.
fn beyond() -> Vec<Pacing> {
    let mut all: Vec<Pacing> = [125, 250, 500, 1_000, 2_000].map(Pacing::PerHop).into();
    all.extend(LOADS.map(Pacing::FromMachine));
    all.extend(LOADS.map(Pacing::PerHopFromMachine));
    all.extend(LOADS.map(Pacing::FromTraffic));
    all.extend(LOADS.map(Pacing::PerMessageFromTraffic));
    all
}

/// Start times spread wider, ns: a few ns is what NSIM was given; processes that a launcher started, or that
/// leave a barrier of software, are microseconds apart.
const SPREADS_NS: [u32; 3] = [1_000, 10_000, 100_000];
/// The spread that is run with all lengths.
pub(super) const SPREAD_OF_ALL_LENGTHS_NS: u32 = 10_000;
/// Once ranks are apart, a run's time depends on who began when: so many draws are averaged.
const STARTS: u32 = 4;

/// All-to-all whose ranks begin microseconds apart: one-sided in all rank orders, and in one with both sides
/// waiting.
fn starts_apart() -> Vec<Case> {
    let gaps = || fixed(steps(1.0, 0.125).into_iter().chain([1.25, 1.5, 2.0]));
    let apart = |start_spread_ns, order, partner, bytes| {
        let case = Case::all_to_all(order, partner, bytes, Pacing::Fixed(0));
        let case = Case { start_spread_ns, start_count: STARTS, ..case };
        gaps().into_iter().map(move |pacing| Case { pacing, ..case })
    };
    let mut cases = Vec::new();
    for spread_ns in SPREADS_NS {
        for order in ORDERS {
            cases.extend(apart(spread_ns, order, Partner::OneSided, 512 * KIB));
        }
        cases.extend(apart(spread_ns, ORDERS[4], Partner::Xor, 512 * KIB));
    }
    for (order, bytes) in ORDERS.into_iter().flat_map(|order| [(order, 1_024 * KIB), (order, 2_048 * KIB)]) {
        cases.extend(apart(SPREAD_OF_ALL_LENGTHS_NS, order, Partner::OneSided, bytes));
    }
    cases
}

/// A machine of a few nodes, lengths and gaps that take about a minute.
pub(super) fn quick() -> Vec<Case> {
    let mut cases = Vec::new();
    let gaps = fixed([0.0, 0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0, 8.0, 12.0, 16.0]);
    for extents in &RING_EXTENTS[..3] {
        for bytes in [16 * KIB, 64 * KIB] {
            let more = if bytes == 16 * KIB { beyond() } else { Vec::new() };
            let pacings = gaps.iter().copied().chain(more);
            cases.extend(pacings.map(|pacing| Case::ring(Shape::Torus(*extents), bytes, pacing)));
        }
    }
    for order in ORDERS {
        let pacings = fixed([0.0, 0.25, 0.5, 1.0, 2.0]).into_iter();
        cases.extend(pacings.map(|pacing| Case::all_to_all(order, Partner::Xor, 512 * KIB, pacing)));
    }
    cases.extend(hypothetical(&RING_EXTENTS[..3], &[64 * KIB]));
    cases.extend(nsim(&[512 * KIB], 0.25));
    cases
}

/// The random ring with other routers.
fn hypothetical(all_extents: &[[u32; 3]], lengths: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &extents in all_extents {
        for &bytes in lengths {
            let ring = |pacing| Case::ring(Shape::Torus(extents), bytes, pacing);
            let pacings = fixed(steps(8.0, 0.5).into_iter().chain([10.0, 12.0, 16.0]));
            cases.extend(
                pacings.into_iter().map(|pacing| Case { machine: Machine::Hypothetical, ..ring(pacing) }),
            );
        }
    }
    cases
}

/// What NSIM ran: all-to-all in the machine's own rank order.
fn nsim(lengths: &[u64], step: f64) -> Vec<Case> {
    let of_length = |&bytes: &u64| {
        let case = move |pacing| Case::all_to_all(ORDERS[0], Partner::OneSided, bytes, pacing);
        let gaps = steps(1.0, step).into_iter().chain([1.5, 2.0]);
        fixed(gaps).into_iter().map(move |pacing| Case { machine: Machine::Nsim, ..case(pacing) })
    };
    lengths.iter().flat_map(of_length).collect()
}

/// Noise of a step, ns: what the paper gave NSIM for the start, and what drives ranks apart.
pub(super) const NOISES_NS: [u32; 3] = [5, 5_000, 20_000];

/// What of NSIM and of the paper's program is not stated, one thing at a time: 1 MiB.
fn ablations() -> Vec<Case> {
    const BYTES: u64 = 1_024 * KIB;
    let changes = [
        Change::LanesInTurn,
        Change::OldestFirst,
        Change::AtWrap,
        Change::TiesUp,
        Change::OneCrossbarInput,
        Change::HeaderOnTop,
        Change::Buffer32Kib,
        Change::FourChannels,
        Change::CableNs(0),
        Change::CableNs(10),
        Change::CableNs(50),
        Change::LanesInTurnCableNs(10),
        Change::LanesInTurnCableNs(50),
    ];
    let mut curves = Vec::new();
    let of = |machine, order, partner| Case {
        machine,
        ..Case::all_to_all(order, partner, BYTES, Pacing::Fixed(0))
    };
    for noise_ns in NOISES_NS {
        curves.push(of(Machine::Nsim, ORDERS[0], Partner::Arrived(noise_ns)));
        curves.push(of(Machine::Nsim, ORDERS[0], Partner::Exchanged(noise_ns)));
    }
    for change in changes {
        curves.push(of(Machine::NsimBut(change), ORDERS[0], Partner::OneSided));
        let more = match change {
            Change::LanesInTurn | Change::AtWrap | Change::TiesUp => Partner::Exchanged(NOISES_NS[0]),
            Change::CableNs(_) => Partner::Arrived(NOISES_NS[0]),
            _ => continue,
        };
        curves.push(of(Machine::NsimBut(change), ORDERS[0], more));
    }
    for (order, noise_ns) in ORDERS.into_iter().flat_map(|order| NOISES_NS.map(|noise_ns| (order, noise_ns)))
    {
        curves.push(of(Machine::Fx10, order, Partner::Exchanged(noise_ns)));
    }
    let gaps = fixed([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5]);
    let with = |case: Case| gaps.clone().into_iter().map(move |pacing| Case { pacing, ..case });
    curves.into_iter().flat_map(with).collect()
}

/// The paper's grid.
pub(super) fn full() -> Vec<Case> {
    let mut cases = Vec::new();
    for extents in RING_EXTENTS {
        let shape = Shape::Torus(extents);
        for bytes in [16 * KIB, 64 * KIB, 256 * KIB, 1_024 * KIB, 4_096 * KIB] {
            // Long messages on many nodes take their time, and their best gaps are large.
            let mut gaps = if bytes <= 256 * KIB { steps(16.0, 0.5) } else { steps(16.0, 1.0) };
            if bytes > 1_024 * KIB && shape.node_count() >= 768 {
                // A minute each: only every second one, but where the best is with 1 MiB.
                gaps.retain(|gap| gap % 2.0 == 0.0 || [11.0, 13.0].contains(gap));
            }
            if bytes > 256 * KIB && shape.node_count() <= 96 {
                gaps.extend(steps(5.0, 1.0).into_iter().map(|gap| gap + 0.5));
            }
            cases.extend(fixed(gaps).into_iter().map(|pacing| Case::ring(shape, bytes, pacing)));
            if bytes <= 256 * KIB {
                cases.extend(beyond().into_iter().map(|pacing| Case::ring(shape, bytes, pacing)));
            }
        }
    }
    // What the network that the machine is built of, and the number of NICs, change.
    for (extents, units) in RING_EXTENTS.into_iter().zip(TOFU_UNITS) {
        for gap in fixed(steps(16.0, 0.5)) {
            cases.push(Case::ring(Shape::Tofu(units), 64 * KIB, gap));
            cases.push(Case { nic_count: 1, ..Case::ring(Shape::Torus(extents), 64 * KIB, gap) });
        }
    }
    for order in ORDERS {
        for bytes in [512 * KIB, 1_024 * KIB, 2_048 * KIB] {
            let more = if bytes == 512 * KIB { beyond() } else { Vec::new() };
            let pacings = fixed(steps(2.0, 0.125)).into_iter().chain(more);
            cases.extend(pacings.map(|pacing| Case::all_to_all(order, Partner::Xor, bytes, pacing)));
        }
        for partner in [Partner::Shift, Partner::OneSided] {
            let pacings = fixed(steps(2.0, 0.125)).into_iter().chain(beyond());
            cases.extend(pacings.map(|pacing| Case::all_to_all(order, partner, 512 * KIB, pacing)));
        }
        for bytes in [1_024 * KIB, 2_048 * KIB] {
            let pacings = fixed(steps(2.0, 0.125)).into_iter();
            cases.extend(pacings.map(|pacing| Case::all_to_all(order, Partner::OneSided, bytes, pacing)));
        }
    }
    cases.extend(starts_apart());
    cases.extend(hypothetical(&RING_EXTENTS[..5], &[16 * KIB, 64 * KIB, 256 * KIB]));
    cases.extend(nsim(&[512 * KIB, 1_024 * KIB, 2_048 * KIB], 0.125));
    cases.extend(ablations());
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_curves_a_run_without_gap() {
        for cases in [quick(), full()] {
            let mut names: Vec<String> = cases.iter().map(Case::columns).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), cases.len());
            for case in &cases {
                assert!(cases.contains(&Case { pacing: Pacing::Fixed(0), ..*case }), "{case:?}");
            }
        }
    }

    #[test]
    fn the_full_grid_is_the_papers() {
        let cases = full();
        let nodes = |nodes| cases.iter().any(|case| case.shape.node_count() == nodes);
        assert!([24, 48, 96, 192, 384, 768, 64].into_iter().all(nodes));
        let tofu: Vec<u32> = TOFU_UNITS.map(|units| Shape::Tofu(units).node_count()).into();
        assert_eq!(tofu, [24, 48, 96, 192, 384, 768]);
    }
}
