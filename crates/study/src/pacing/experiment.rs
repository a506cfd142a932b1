//! Runs of the study.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context as _, ensure};
use ayatori_core::Error;
use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{ChannelId, SwitchId};
use ayatori_sim::cluster::{Cluster, Config, Mpi, NicUse, Transfer};
use ayatori_sim::machine::{Simulated, cluster_config, simulate};
use ayatori_sim::network::{Gap, Network, NicId};
use ayatori_sim::trace::Trace;
use ayatori_sim::traffic::patterns::ranks_by_axes;
use ayatori_sim::traffic::puts::{self, Until, Writes};
use ayatori_sim::traffic::rounds::Setup;
use ayatori_sim::workloads::{RingOrder, random_ring};

use super::cases::{
    ALL_TO_ALL_EXTENTS, Case, Change, Machine as Whose, Pacing, Partner, RING_EXTENTS,
    RING_PROCESSES_PER_NODE, Shape, Traffic,
};

/// What a run gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// The gap, or where it differs from message to message its mean over messages, packet times.
    pub(super) gap: f64,
    pub(super) time_ps: u64,
    pub(super) packet_hop_count: u64,
}

/// The machine whose network is replaced for each case.
#[derive(Debug)]
pub(super) struct Experiment {
    file: String,
    name: String,
    table: toml::Table,
    nsim: toml::Table,
    seed: u64,
}

impl Experiment {
    /// # Errors
    /// The text describes no machine of the paper's kind; `file` names it.
    pub(super) fn new(file: String, text: &str, seed: u64) -> anyhow::Result<Experiment> {
        // For its messages, which name line and key.
        let machine = Machine::parse(&file, text)?;
        let has_router = machine.graph.switches().all(|switch| machine.switch_model(switch).router.is_some());
        ensure!(
            has_router,
            "{file}: the study needs switches with a [router] section, as machines/fx10.toml has"
        );
        let table: toml::Table = toml::from_str(text).with_context(|| file.clone())?;
        for section in ["topology", "host_models", "switch_models", "hosts"] {
            ensure!(table.contains_key(section), "{file}: the study needs a [{section}] to replace parts of");
        }
        let nsim =
            toml::from_str(include_str!("../../../../machines/nsim.toml")).context("machines/nsim.toml")?;
        Ok(Experiment { file, name: machine.name, table, nsim, seed })
    }

    /// What results depend on beside their case. The last part is the outcome of two small runs: after a
    /// change of the simulator or the machine, old results are not mixed with new ones. The path of the
    /// machine file does not matter.
    pub(super) fn origin(&self) -> anyhow::Result<String> {
        let mut probe = [0; 3];
        let case = Case {
            machine: Whose::Fx10,
            shape: Shape::Torus(RING_EXTENTS[0]),
            nic_count: 4,
            traffic: Traffic::Ring,
            bytes: 16 << 10,
            start_spread_ns: 5,
            start_count: 1,
            pacing: Pacing::PerHop(500),
        };
        let exchange = Case { nic_count: 1, traffic: Traffic::AllToAll([0, 1, 2], Partner::Xor), ..case };
        let exchange = Case { shape: Shape::Torus(ALL_TO_ALL_EXTENTS), ..exchange };
        let puts = Traffic::AllToAll([0, 1, 2], Partner::OneSided);
        let writes = Case { machine: Whose::Nsim, traffic: puts, pacing: Pacing::Fixed(500), ..exchange };
        for (time_ps, case) in probe.iter_mut().zip([case, exchange, writes]) {
            *time_ps = self.run(&case)?.time_ps;
        }
        let [ring_ps, exchange_ps, writes_ps] = probe;
        Ok(format!(
            "{}, seed {}, three small runs take {ring_ps}, {exchange_ps} and {writes_ps} ps",
            self.name, self.seed
        ))
    }

    /// The description with another network and so many NICs a node.
    fn machine(&self, case: &Case) -> anyhow::Result<Machine> {
        let Case { machine, shape, nic_count, .. } = *case;
        let mut table = match machine {
            Whose::Nsim | Whose::NsimBut(_) => self.nsim.clone(),
            Whose::Fx10 | Whose::Hypothetical => self.table.clone(),
        };
        let topology = table.get_mut("topology").and_then(toml::Value::as_table_mut).context("[topology]")?;
        topology.retain(|key, _| key == "switch_model");
        let (kind, key, extents) = match shape {
            Shape::Torus(extents) => ("torus", "extents", extents),
            Shape::Tofu(units) => ("tofu", "unit_extents", units),
        };
        topology.insert("kind".into(), kind.into());
        topology.insert(key.into(), extents.map(i64::from).to_vec().into());
        if let (Shape::Tofu(_), Some(plan)) =
            (shape, table.get_mut("plan").and_then(toml::Value::as_table_mut))
        {
            // Six axes, in their own order.
            plan.remove("dimension_order");
        }
        for model in models(&mut table, "host_models") {
            let nics = model.get_mut("nic").and_then(toml::Value::as_array_mut).context("a host's `nic`")?;
            let first = nics.first().and_then(toml::Value::as_table).cloned().context("a host's NIC")?;
            *nics = (0..nic_count)
                .map(|index| {
                    let mut nic = first.clone();
                    nic.insert("name".into(), format!("nic{index}").into());
                    nic.into()
                })
                .collect();
        }
        for model in models(&mut table, "switch_models") {
            // Ten directions of Tofu's six axes, two of them single.
            model.insert("ports".into(), (12 + i64::from(nic_count)).into());
            let Some(router) = model.get_mut("router").and_then(toml::Value::as_table_mut) else { continue };
            match machine {
                Whose::Hypothetical => {
                    router.insert("arbitration".into(), "oldest-first".into());
                    router.insert("virtual_channel_buffer_bytes".into(), (32 << 10).into());
                }
                Whose::NsimBut(change) => change_router(router, change),
                Whose::Fx10 | Whose::Nsim => {}
            }
        }
        if let Whose::NsimBut(Change::CableNs(ns) | Change::LanesInTurnCableNs(ns)) = machine {
            let topology = table.get_mut("topology").and_then(toml::Value::as_table_mut);
            topology.context("[topology]")?.insert("cable_latency_ns".into(), i64::from(ns).into());
        }
        Ok(Machine::parse(&self.file, &toml::to_string(&table)?)?)
    }

    fn network(&self, case: &Case) -> anyhow::Result<(Machine, Network<Option<Trace>>)> {
        let machine = self.machine(case)?;
        let Simulated { network, .. } = simulate(&machine, None)?;
        Ok((machine, network))
    }

    /// # Errors
    /// The machine cannot be simulated, or the run comes to a standstill.
    pub(super) fn run(&self, case: &Case) -> anyhow::Result<Outcome> {
        let mut all = Outcome { gap: 0.0, time_ps: 0, packet_hop_count: 0 };
        for start in 0..u64::from(case.start_count) {
            let one = self.run_once(case, self.seed + start)?;
            all.gap = one.gap;
            all.time_ps += one.time_ps;
            all.packet_hop_count += one.packet_hop_count;
        }
        all.time_ps /= u64::from(case.start_count);
        Ok(all)
    }

    fn run_once(&self, case: &Case, start_seed: u64) -> anyhow::Result<Outcome> {
        let (machine, mut network) = self.network(case)?;
        let processes_per_host = match case.traffic {
            Traffic::Ring => RING_PROCESSES_PER_NODE,
            Traffic::AllToAll(..) => 1,
        };
        let plan = Plan::new(case, &network, self.seed);
        let paced = plan.pacing(case, &network)?;
        if let Traffic::AllToAll(_, partner) = case.traffic
            && partner.writes()
        {
            let time_ps = plan.write((case, partner), &mut network, &paced, start_seed)?;
            let packet_hop_count = network.counters().packet_hop_count;
            return Ok(Outcome { gap: paced.mean_gap, time_ps, packet_hop_count });
        }
        let config = Config {
            start_spread_ps: u64::from(case.start_spread_ns) * 1_000,
            seed: start_seed,
            nic_use: NicUse::OneEach,
            // So that the shortest message of the ring is paced too: a gap is for the data of long messages.
            eager_bytes_max: 8 << 10,
            // Both are MPI here; the paper's all-to-all is one-sided (`Plan::write`).
            transfer: match case.traffic {
                Traffic::Ring => Transfer::Get,
                Traffic::AllToAll(..) => Transfer::Put,
            },
            gap: paced.gap,
            gap_per_hop: paced.gap_per_hop,
            gap_free_hop_count: 1,
            gap_of_pair: paced.gap_of_pair,
            ..cluster_config(&machine, network.config(), processes_per_host, &mut Vec::new())
        };
        let mut cluster = Cluster::new(network, config)?;
        let report = plan.run(case, &mut cluster)?;
        ensure!(cluster.leftovers().is_none(), "left over: {:?}", cluster.leftovers());
        let packet_hop_count = cluster.with_network(|network| network.counters().packet_hop_count);
        Ok(Outcome { gap: paced.mean_gap, time_ps: report, packet_hop_count })
    }

    /// What links limit.
    ///
    /// # Errors
    /// The machine cannot be simulated.
    pub(super) fn limits(&self, case: &Case) -> anyhow::Result<Limits> {
        let (_, network) = self.network(case)?;
        let plan = Plan::new(case, &network, self.seed);
        let mut limits = Limits { ratios: Vec::new(), wire_bytes: 0, bytes_per_s: 0.0 };
        for step in &plan.steps {
            let loads = Loads::of(step, &network, &plan)?;
            limits.ratios.push(loads.ratio_max());
            limits.wire_bytes += u64::from(loads.channel_max());
        }
        let config = network.config();
        let payload_max = u64::from(config.mtu_bytes - config.header_bytes);
        let packet_count = case.bytes.div_ceil(payload_max);
        limits.wire_bytes *= case.bytes + packet_count * u64::from(config.header_bytes);
        limits.bytes_per_s = network.nic_rate_bytes_per_s(NicId(0));
        Ok(limits)
    }
}

/// What links limit, whatever NICs do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limits {
    /// The most messages on one link at once as a multiple of those that one NIC has to send, for each step
    /// of all-to-all or once for the ring. Above 1 links limit, not NICs.
    pub(super) ratios: Vec<f64>,
    /// What the busiest link of each step carries, all steps together, with packet headers.
    wire_bytes: u64,
    bytes_per_s: f64,
}

impl Limits {
    /// No network can be quicker, ps.
    pub(super) fn time_ps(&self) -> f64 {
        self.wire_bytes as f64 / self.bytes_per_s * 1e12
    }
}

/// Makes a router as an ablation wants it.
fn change_router(router: &mut toml::Table, change: Change) {
    let (key, value): (&str, toml::Value) = match change {
        Change::LanesInTurn | Change::LanesInTurnCableNs(_) => ("arbitration", "round-robin".into()),
        Change::OldestFirst => ("arbitration", "oldest-first".into()),
        Change::AtWrap => ("dateline", "at-wrap".into()),
        Change::TiesUp => ("tie", "up".into()),
        Change::OneCrossbarInput => ("crossbar_inputs", "per-port".into()),
        Change::HeaderOnTop => ("packet_max_bytes", (2_048 + 128).into()),
        Change::Buffer32Kib => ("virtual_channel_buffer_bytes", (32 << 10).into()),
        Change::FourChannels => ("virtual_channels", 4.into()),
        Change::CableNs(_) => return,
    };
    router.insert(key.into(), value);
}

fn models<'a>(
    table: &'a mut toml::Table,
    section: &str,
) -> impl Iterator<Item = &'a mut toml::Table> + use<'a> {
    let models = table.get_mut(section).and_then(toml::Value::as_table_mut);
    models.into_iter().flat_map(|models| models.iter_mut().filter_map(|(_, model)| model.as_table_mut()))
}

/// What a case wants of the cluster.
struct Paced {
    gap: Gap,
    gap_per_hop: Gap,
    gap_of_pair: Option<Rc<BTreeMap<(u32, u32), Gap>>>,
    mean_gap: f64,
}

impl Paced {
    fn all(gap: f64) -> Paced {
        Paced { gap: Gap::packets(gap), gap_per_hop: Gap::NONE, gap_of_pair: None, mean_gap: gap }
    }

    /// The gap of a message that goes so many hops.
    fn gap_of(&self, from: u32, to: u32, hops: u32) -> Gap {
        if let Some(gaps) = &self.gap_of_pair {
            return gaps.get(&(from, to)).copied().unwrap_or_default();
        }
        let more = self.gap_per_hop.milli_packets * hops.saturating_sub(1);
        Gap { milli_packets: self.gap.milli_packets + more }
    }

    fn per_hop(gap: f64, mean_hops: f64) -> Paced {
        Paced { gap_per_hop: Gap::packets(gap), mean_gap: gap * mean_hops, ..Paced::all(0.0) }
    }
}

/// Messages of one step, (from, to) by rank of the cluster.
type Step = Vec<(u32, u32)>;

/// Who sends to whom, step by step.
struct Plan {
    steps: Vec<Step>,
    /// The switch and the NIC of each process.
    places: Vec<(SwitchId, NicId)>,
    ring: RingOrder,
    process_of: Vec<u32>,
}

impl Plan {
    fn new(case: &Case, network: &Network<Option<Trace>>, seed: u64) -> Plan {
        let per_node = match case.traffic {
            Traffic::Ring => RING_PROCESSES_PER_NODE,
            Traffic::AllToAll(..) => 1,
        };
        let count = case.shape.node_count() * per_node;
        let place = |process: u32| {
            // As `NicUse::OneEach` deals them out.
            let nic = process / per_node * u32::from(case.nic_count)
                + process % per_node % u32::from(case.nic_count);
            (network.switch_of(NicId(nic)), NicId(nic))
        };
        let ring = RingOrder::new(count, seed);
        let process_of = match case.traffic {
            Traffic::Ring => Vec::new(),
            Traffic::AllToAll(order, _) => ranks_by_axes(&ALL_TO_ALL_EXTENTS, &order),
        };
        let steps = match case.traffic {
            Traffic::Ring => {
                let both = |from| {
                    let (left, right) = ring.neighbours(from);
                    [(from, left), (from, right)]
                };
                vec![(0..count).flat_map(both).collect()]
            }
            Traffic::AllToAll(_, partner) => {
                let of_step = |step: u32| {
                    let to = |rank: u32| partners(partner, rank, step, count).0;
                    let pair = |rank: u32| (process_of[rank as usize], process_of[to(rank) as usize]);
                    (0..count).map(pair).collect()
                };
                (1..count).map(of_step).collect()
            }
        };
        Plan { steps, places: (0..count).map(place).collect(), ring, process_of }
    }

    fn run(&self, case: &Case, cluster: &mut Cluster) -> anyhow::Result<u64> {
        let bytes = case.bytes;
        let report = match case.traffic {
            Traffic::Ring => cluster.run(|mpi| {
                let (left, right) = self.ring.neighbours(mpi.rank());
                random_ring(mpi, left, right, bytes, 1)
            }),
            Traffic::AllToAll(_, partner) => {
                cluster.run(|mpi| ordered_exchange(mpi, partner, self.process_of.clone(), bytes))
            }
        };
        Ok(report?.elapsed_ps)
    }

    /// All-to-all by bare writes: the low-level library below MPI, which is on nobody's way.
    fn write(
        &self,
        (case, partner): (&Case, Partner),
        network: &mut Network<Option<Trace>>,
        paced: &Paced,
        seed: u64,
    ) -> anyhow::Result<u64> {
        let Config { send_ps, command_ps, .. } = Config::default();
        let writes = Writes {
            noise_ps: u64::from(partner.noise_ns()) * 1_000,
            until: match partner {
                Partner::Arrived(_) => Until::Arrived,
                Partner::Exchanged(_) => Until::Exchanged,
                Partner::OneSided | Partner::Xor | Partner::Shift => Until::Left,
            },
            ..Writes::one_sided(case.bytes, send_ps + command_ps)
        };
        let setup = Setup {
            nics: self.places.iter().map(|place| place.1).collect(),
            gap: Gap::NONE,
            start_spread_ps: u64::from(case.start_spread_ns) * 1_000,
            seed,
            memory_bytes_per_s: f64::INFINITY,
        };
        let mut targets = vec![Vec::new(); self.places.len()];
        let mut gaps = BTreeMap::new();
        for &(from, to) in self.steps.iter().flatten() {
            targets[from as usize].push(to);
            let [start, end] = [from, to].map(|process| self.places[process as usize].0);
            let hops = network.routing().path(network.graph(), start, end, to)?.len() as u32;
            gaps.insert((from, to), paced.gap_of(from, to, hops));
        }
        let gap = |from, to| gaps.get(&(from, to)).copied().unwrap_or_default();
        let time_ps = puts::run(network, &targets, writes, gap, &setup)?;
        ensure!(network.leftovers().is_none(), "left over: {:?}", network.leftovers());
        Ok(time_ps)
    }

    fn pacing(&self, case: &Case, network: &Network<Option<Trace>>) -> anyhow::Result<Paced> {
        let mean_hops = || mean_hops_beyond_first(network);
        Ok(match case.pacing {
            Pacing::Fixed(milli) => Paced::all(f64::from(milli) / 1_000.0),
            Pacing::PerHop(milli) => Paced::per_hop(f64::from(milli) / 1_000.0, mean_hops()?),
            Pacing::FromMachine(load) => Paced::all(gap_for(machine_ratio(network, case.nic_count)?, load)),
            Pacing::PerHopFromMachine(load) => {
                let mean = mean_hops()?;
                let gap = gap_for(machine_ratio(network, case.nic_count)?, load);
                Paced::per_hop(gap / mean.max(1e-9), mean)
            }
            Pacing::FromTraffic(load) => {
                let mut most = 0.0_f64;
                for step in &self.steps {
                    most = most.max(Loads::of(step, network, self)?.ratio_max());
                }
                Paced::all(gap_for(most, load))
            }
            Pacing::PerMessageFromTraffic(load) => {
                let mut gaps = BTreeMap::new();
                for step in &self.steps {
                    let loads = Loads::of(step, network, self)?;
                    for &(from, to) in step {
                        let gap = gap_for(loads.ratio_on_way(from, to, network, self)?, load);
                        gaps.insert((from, to), Gap::packets(gap));
                    }
                }
                let sum: f64 = gaps.values().map(|gap| f64::from(gap.milli_packets) / 1_000.0).sum();
                let mean_gap = sum / gaps.len().max(1) as f64;
                Paced { gap_of_pair: Some(Rc::new(gaps)), mean_gap, ..Paced::all(0.0) }
            }
        })
    }
}

/// How many messages of a step use each link, and the most that one NIC sends.
struct Loads {
    of_channel: BTreeMap<ChannelId, u32>,
    nic_max: u32,
}

impl Loads {
    fn of(step: &Step, network: &Network<Option<Trace>>, plan: &Plan) -> anyhow::Result<Loads> {
        let (mut of_channel, mut of_nic) = (BTreeMap::new(), BTreeMap::new());
        for &(from, to) in step {
            let [(start, nic), (end, to_nic)] = [from, to].map(|process| plan.places[process as usize]);
            if start == end {
                continue;
            }
            *of_nic.entry(nic.0).or_insert(0) += 1;
            for lane in network.routing().path(network.graph(), start, end, to_nic.0)? {
                *of_channel.entry(lane.channel).or_insert(0) += 1;
            }
        }
        Ok(Loads { of_channel, nic_max: of_nic.into_values().max().unwrap_or(1) })
    }

    fn channel_max(&self) -> u32 {
        self.of_channel.values().copied().max().unwrap_or(0)
    }

    fn ratio_max(&self) -> f64 {
        f64::from(self.channel_max()) / f64::from(self.nic_max)
    }

    fn ratio_on_way(
        &self,
        from: u32,
        to: u32,
        network: &Network<Option<Trace>>,
        plan: &Plan,
    ) -> anyhow::Result<f64> {
        let [(start, _), (end, to_nic)] = [from, to].map(|process| plan.places[process as usize]);
        if start == end {
            return Ok(0.0);
        }
        let way = network.routing().path(network.graph(), start, end, to_nic.0)?;
        let most = way.iter().filter_map(|lane| self.of_channel.get(&lane.channel)).max();
        Ok(f64::from(most.copied().unwrap_or(0)) / f64::from(self.nic_max))
    }
}

/// Calls `see` with the way between each two switches.
fn all_ways(
    network: &Network<Option<Trace>>,
    mut see: impl FnMut(&[ayatori_fabric::deadlock::Lane]),
) -> anyhow::Result<()> {
    let graph = network.graph();
    for from in graph.switches() {
        for to in graph.switches().filter(|&to| to != from) {
            see(&network.routing().path(graph, from, to, to.0)?);
        }
    }
    Ok(())
}

fn mean_hops_beyond_first(network: &Network<Option<Trace>>) -> anyhow::Result<f64> {
    let (mut hops, mut ways) = (0_u64, 0_u64);
    all_ways(network, |way| {
        hops += way.len() as u64 - 1;
        ways += 1;
    })?;
    Ok(hops as f64 / ways.max(1) as f64)
}

/// What uniform traffic from all NICs offers the busiest link, as a multiple of what one NIC sends.
fn machine_ratio(network: &Network<Option<Trace>>, nic_count: u16) -> anyhow::Result<f64> {
    let mut loads: BTreeMap<ChannelId, u64> = BTreeMap::new();
    all_ways(network, |way| way.iter().for_each(|lane| *loads.entry(lane.channel).or_insert(0) += 1))?;
    let others = network.graph().switches().count().saturating_sub(1).max(1) as f64;
    let busiest = loads.into_values().max().unwrap_or(0) as f64 / others;
    Ok(busiest * f64::from(nic_count))
}

/// The gap with which a link that NICs offer `ratio` times what it can carry is loaded `load_milli`
/// thousandths.
fn gap_for(ratio: f64, load_milli: u32) -> f64 {
    (ratio * 1_000.0 / f64::from(load_milli) - 1.0).max(0.0)
}

/// To whom a rank sends and from whom it receives in a step of pairwise exchange.
fn partners(partner: Partner, rank: u32, step: u32, count: u32) -> (u32, u32) {
    match partner {
        Partner::Xor | Partner::OneSided | Partner::Arrived(_) | Partner::Exchanged(_) => {
            (rank ^ step, rank ^ step)
        }
        Partner::Shift => ((rank + step) % count, (rank + count - step) % count),
    }
}

/// Pairwise exchange among ranks that are numbered otherwise than the processes.
async fn ordered_exchange(mpi: Mpi, partner: Partner, process_of: Vec<u32>, bytes: u64) -> Result<(), Error> {
    let rank = process_of.iter().position(|&process| process == mpi.rank()).unwrap_or(0) as u32;
    let of_step = |step| {
        let (to, from) = partners(partner, rank, step, mpi.size());
        (process_of[to as usize], process_of[from as usize])
    };
    for step in 1..mpi.size() {
        let (to, from) = of_step(step);
        mpi.sendrecv(to, from, 0, bytes).await?;
    }
    Ok(())
}
