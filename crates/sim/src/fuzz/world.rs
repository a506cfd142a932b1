//! A world: its making, its calls, and its end.

mod blocking;
mod check;
mod comms;
mod inter;
mod partitioned;
mod spread;
pub(super) mod survivors;
mod time;
mod traffic;
mod windows;

use std::cell::RefCell;
use std::rc::Rc;

use ayatori_core::Process;
use ayatori_core::bsend::BufferOwner;
use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::device::RailCapabilities;
use ayatori_core::ids::{CommId, ContextId, ProcessId, RailSet, RequestId, Tag};
use ayatori_core::layout::Region;
use ayatori_core::link::{Policy, TrunkConfig, credit_cells};
use ayatori_core::process::{Config, MessageId};
use ayatori_core::time::Duration;
use ayatori_core::transfer::choose::Way;
use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{Complete, HostLayout, Hypercube, Mesh, Ring, Topology, Torus, Tree};

use super::collectives::Joint;
use super::model::{Members, Model, Wanted};
use super::port::Port;
use super::wire::{ConnectionCounts, Moods, Rails, Wire};
use super::{Bug, Feature, WorldReport};
use crate::network::{self, Network, NicId, NoProbe};
use ayatori_random::Random;
use blocking::Blocked;
use comms::{Running, Sequence};
use partitioned::Channel;
use windows::Windows;

type Outcome<T = ()> = Result<T, String>;

/// What a packet of a long message's data carries beside the data, bytes.
const DATA_HEADER_BYTES: usize = 24;
/// One in so many worlds whose links are in trunk mode has long messages.
const BULK_ONE_IN: u64 = 12;
/// In one in so many worlds whose links are in trunk mode processes make their connections.
const CONNECTING_ONE_IN: u64 = 3;
/// What a program writes to memory whose operation is over.
const GIVEN_BACK: u8 = 0xDD;
/// Memory for all buffers of a world, bytes.
const ARENA_BYTES: usize = 64 << 20;

thread_local! {
    /// Memory of this thread's worlds, one after another.
    static ARENA: Buffer = Buffer::leaked(ARENA_BYTES);
}

/// A receive under way or done.
struct Receive {
    at: u32,
    /// In the model.
    number: usize,
    request: Option<RequestId>,
    /// With gaps, if there is a layout.
    buffer: Buffer,
    layout: Option<Region>,
    persistent: Option<usize>,
}

/// A send under way.
struct Send {
    at: u32,
    id: RequestId,
    number: usize,
    buffer: Buffer,
    synchronous: bool,
    cancelling: bool,
    persistent: Option<usize>,
}

enum Plan {
    Send { to: u32, comm: usize, tag: Tag, buffer: Buffer, content: usize, synchronous: bool },
    Receive { wanted: Wanted, buffer: Buffer },
}

impl Plan {
    fn comm(&self) -> usize {
        match *self {
            Plan::Send { comm, .. } => comm,
            Plan::Receive { wanted, .. } => wanted.comm,
        }
    }
}

struct Persistent {
    at: u32,
    id: RequestId,
    plan: Plan,
    active: bool,
}

/// Memory that is its program's again.
struct GivenBack {
    at: u32,
    buffer: Buffer,
    /// Of which operation, in words.
    of: &'static str,
    number: usize,
}

/// Lengths and habits of a world.
struct Habits {
    eager_bytes_max: usize,
    length_max: usize,
    /// Lengths at which protocols do something else: of packets' data, and of gets and puts.
    piece_bytes: Vec<usize>,
    /// Many send to this process (by the number of processes), which receives from anybody.
    popular: Option<u32>,
    /// One process sends much to another that does not look.
    flood: bool,
    crashes: bool,
    /// Processes wait in calls (`MPI_Send`, `MPI_Recv`).
    blocks: bool,
    /// Memory that each process attaches for buffered sends; 0: none.
    attached_bytes: usize,
    /// Links are in trunk mode: time matters.
    trunks: bool,
    /// A process that cannot reach another aborts, as programs do that handle no errors.
    aborts: bool,
    /// Some rails never work again.
    scars: bool,
    peer_timeout_ps: u64,
    /// There is a window.
    windows: bool,
    /// There are partitioned messages.
    partitions: bool,
    /// Two processes exchange several long messages at a time, over a rail by which packets may be asked of
    /// senders that wait.
    bursts: bool,
}

struct World<'a> {
    wire: Rc<RefCell<Wire>>,
    nodes: Vec<(Process, Port)>,
    /// The id that each process has for each communicator of the model.
    comm_ids: Vec<Vec<Option<CommId>>>,
    model: Model,
    random: Random,
    habits: Habits,
    arena: Buffer,
    arena_used: usize,
    receives: Vec<Receive>,
    sends: Vec<Send>,
    persistent: Vec<Persistent>,
    held: Vec<(u32, MessageId, usize)>,
    /// By process.
    blocked: Vec<Option<Blocked>>,
    /// By communicator of the model.
    sequences: Vec<Sequence>,
    running: Vec<Running>,
    /// The communicator of windows, which nothing else uses.
    window_comm: Option<usize>,
    windows: Option<Windows>,
    channels: Vec<Channel>,
    given_back: Vec<GivenBack>,
    report: WorldReport,
    history: &'a mut Vec<String>,
}

/// Runs a world to its end.
pub(super) fn run(seed: u64, bug: Option<Bug>, history: &mut Vec<String>) -> Outcome<WorldReport> {
    let mut world = World::new((seed, false), bug, history)?;
    world.attach_buffers()?;
    world.split_world()?;
    world.make_window()?;
    let step_count = 20 + world.random.below(140);
    for _ in 0..step_count {
        world.act()?;
        if world.habits.bursts && world.one_in(3) {
            world.send_burst()?;
        }
        world.maybe_fault();
        world.maybe_pass_time()?;
        let (count, quota) = (world.random.below(8), world.random.below(4));
        world.pump(count)?;
        world.maybe_crash_accessed();
        world.maybe_crash_awaited();
        let at = world.random.below(world.count() as u64) as u32;
        world.deliver(at, quota)?;
        if world.random.below(4) == 0 {
            world.collect()?;
        }
    }
    world.heal()?;
    world.check_end()?;
    world.report.outage_count = world.wire.borrow().outage_count;
    world.cover_connections();
    world.cover_bursts();
    Ok(world.report)
}

/// A network of random topology with NICs for `count` processes on so many rails.
fn network(random: &mut Random, count: u64, rail_count: u64) -> Outcome<(Network<NoProbe>, Vec<NicId>)> {
    let extent = |random: &mut Random| 2 + random.below(2) as u32;
    let topology = match random.below(6) {
        0 => Topology::Ring(Ring { switch_count: 3 + random.below(4) as u32 }),
        1 => Topology::Mesh(Mesh { extents: vec![extent(random), extent(random)] }),
        2 => Topology::Torus(Torus::new(&[1 + extent(random), extent(random)])),
        3 => Topology::Hypercube(Hypercube { dimension_count: 1 + random.below(3) as u32 }),
        4 => Topology::Complete(Complete { switch_count: 2 + random.below(4) as u32 }),
        _ => Topology::Tree(Tree::full(2, 2)),
    };
    let latency_ps = 1_000 + random.below(200_000);
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps, cable_count: 1 };
    let hosts = HostLayout { per_switch_count: 1, nic_count: 1, link };
    let graph = topology.build_with_hosts(link, hosts).map_err(|error| error.to_string())?;
    let routing = Routing::new(Method::usual_for(&topology), &topology, &graph);
    let routing = routing.map_err(|error| error.to_string())?;
    let vc_count = 2.max(routing.vc_count());
    let config = network::Config { vc_count, ..network::Config::nsim() };
    let network = Network::with_probe(graph, routing, config, NoProbe).map_err(|error| error.to_string())?;
    let nic_count = network.nic_count() as u64;
    let nics = (0..count * rail_count).map(|_| NicId(random.below(nic_count) as u32)).collect();
    Ok((network, nics))
}

/// The capabilities of a world's rails, which have the eager limit in common.
fn capabilities(
    random: &mut Random,
    rail_count: u64,
    eager_bytes_max: usize,
    trunks: bool,
) -> Vec<RailCapabilities> {
    let rail = |_| {
        let fragment = [48, 200, 5_000][random.below(3) as usize];
        let packet_bytes_max = (eager_bytes_max + 32).max(fragment + 128);
        RailCapabilities {
            packet_bytes_max,
            // Of some worlds, without a number drawn for it: seeds stay what they were.
            long_packet_bytes_max: if fragment == 200 { 5 * packet_bytes_max } else { 0 },
            eager_bytes_max,
            eager_learnt_bytes: if fragment == 5_000 {
                [eager_bytes_max / 2, packet_bytes_max]
            } else {
                [0; 2]
            },
            learns_beside_receives: fragment == 5_000 && eager_bytes_max == 1_000,
            transfer_bytes_max: [70, 1_000, 1 << 20][random.below(3) as usize],
            get: random.below(2) == 0,
            put: random.below(2) == 0,
            transfer_bytes_min: [0, 0, 2_000][random.below(3) as usize],
            streams_awaited: random.below(3) == 0,
            latency_ps: 1 + random.below(1_000_000),
            may_break: trunks && random.below(2) == 0,
            ordered: !trunks || random.below(4) > 0,
            bandwidth_bytes_per_s: [1_000_000, 100_000_000, 10_000_000_000][random.below(3) as usize],
            ..RailCapabilities::default()
        }
    };
    (0..rail_count).map(rail).collect()
}

/// Lengths of pieces that the data of long messages is cut into.
fn piece_bytes(capabilities: &[RailCapabilities]) -> Vec<usize> {
    let of_rail =
        |rail: &RailCapabilities| [rail.packet_bytes_max - DATA_HEADER_BYTES, rail.transfer_bytes_max];
    capabilities.iter().flat_map(of_rail).collect()
}

/// Which rails there are between each two processes, at least one: the same in both directions.
fn rails_between(random: &mut Random, count: u64, rail_count: u64) -> Vec<RailSet> {
    let count = count as usize;
    let mut between = vec![RailSet::default(); count * count];
    for a in 0..count {
        for b in a..count {
            let all = (1 << rail_count) - 1;
            let some = RailSet(1 + random.below(all) as u32);
            let set = if random.below(2) == 0 { some } else { RailSet(all as u32) };
            between[a * count + b] = set;
            between[b * count + a] = set;
        }
    }
    between
}

impl<'a> World<'a> {
    /// `survives`: its processes go on without those that die.
    fn new(
        (seed, survives): (u64, bool),
        bug: Option<Bug>,
        history: &'a mut Vec<String>,
    ) -> Outcome<World<'a>> {
        let mut random = Random::for_entity(seed, 0xF0);
        let count = 1 + random.below(8);
        let eager_bytes_max = [0, 64, 100, 1_000, 16 << 10][random.below(5) as usize];
        let trunks = random.below(3) > 0;
        let rail_count = if trunks { 1 + random.below(4) } else { 1 };
        let capabilities = capabilities(&mut random, rail_count, eager_bytes_max, trunks);
        let between = rails_between(&mut random, count, rail_count);
        let (network, nics) = network(&mut random, count, rail_count)?;
        history.push(format!("{count} processes, rails {capabilities:?}"));
        let lengths = (eager_bytes_max, piece_bytes(&capabilities));
        // Without a number drawn for it: the seeds of other worlds stay what they were.
        let bursts = !trunks && count > 1 && capabilities[0].get && capabilities[0].streams_awaited;
        let rails_of = |set: &RailSet| set.iter().map(|rail| &capabilities[rail.0 as usize]);
        let credit = between.iter().map(|set| credit_cells(rails_of(set))).collect();
        let rails = Rails { capabilities, nics, between };
        let mut wire = Wire::new(network, rails, Random::new(random.next_u64()), bug);
        wire.moods = moods(&mut random);
        wire.tells_owed = random.below(2) == 0;
        if trunks {
            wire.vary_speeds();
            let is_unconnected = random.below(2) == 0;
            connect(&mut wire, seed, is_unconnected);
        }
        let ms =
            |choices: [u64; 3], random: &mut Random| Duration::from_ms(choices[random.below(3) as usize]);
        let trunk = TrunkConfig {
            policy: [Policy::Even, Policy::Weighted, Policy::Adaptive][random.below(3) as usize],
            silence: ms([50, 200, 400], &mut random),
            probe_interval: ms([50, 200, 500], &mut random),
            peer_timeout: ms([2_000, 5_000, 10_000], &mut random),
        };
        let habits = habits(&mut random, lengths, trunk.peer_timeout.0, (trunks, bursts));
        let registrations_count_max = [0, 0, 1, 5][random.below(4) as usize];
        let config = Config { trunk, registrations_count_max, survives, ..Config::default() };
        let wire = Rc::new(RefCell::new(wire));
        let process = |me| Process::new(ProcessId(me), count as u32, config);
        let nodes = (0..count as u32).map(|me| (process(me), Port::new(me, &wire))).collect();
        history.push(format!("{:?}, {trunk:?}", wire.borrow().moods));
        let mut model = Model::new(count as usize, credit);
        model.comms.push(Members { of_rank: (0..count as u32).collect(), context: Some(ContextId::WORLD) });
        Ok(World {
            wire,
            nodes,
            comm_ids: vec![vec![Some(CommId::WORLD); count as usize]],
            model,
            random,
            habits,
            arena: ARENA.with(|&arena| arena),
            arena_used: 0,
            receives: Vec::new(),
            sends: Vec::new(),
            persistent: Vec::new(),
            held: Vec::new(),
            blocked: vec![None; count as usize],
            sequences: vec![Sequence::new(count as usize)],
            running: Vec::new(),
            window_comm: None,
            windows: None,
            channels: Vec::new(),
            given_back: Vec::new(),
            report: WorldReport { digest: 0xCBF2_9CE4_8422_2325, ..WorldReport::default() },
            history,
        })
    }

    /// What has happened to connections.
    fn cover_connections(&mut self) {
        let ConnectionCounts { refused, crossed, half_made, again } = self.wire.borrow().connection_counts();
        let seen = [
            (refused, Feature::DialRefused),
            (crossed, Feature::DialsCross),
            (half_made, Feature::ConnectionHalfMade),
            (again, Feature::ConnectionAgain),
        ];
        for (_, feature) in seen.into_iter().filter(|(count, _)| *count > 0) {
            self.report.cover(feature);
        }
    }

    /// How messages that came several at a time went.
    fn cover_bursts(&mut self) {
        for (way, feature) in [(Way::Get, Feature::BurstGot), (Way::Stream, Feature::BurstSent)] {
            if (0..self.count()).any(|at| self.nodes[at].0.bursts_count(way) > 0) {
                self.report.cover(feature);
            }
        }
    }

    fn attach_buffers(&mut self) -> Outcome {
        for at in 0..self.count() {
            let length = self.habits.attached_bytes;
            if length == 0 {
                continue;
            }
            let Some(buffer) = self.memory(std::iter::repeat_n(0, length)) else { return Ok(()) };
            let process = &mut self.nodes[at].0;
            process
                .attach_buffer(BufferOwner::Process, buffer)
                .map_err(|error| format!("attaching at {at}: {error}"))?;
            if process.attach_buffer(BufferOwner::Process, buffer).is_ok() {
                return Err(format!("process {at} attaches two buffers"));
            }
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn is_alive(&self, at: u32) -> bool {
        self.wire.borrow().alive[at as usize]
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn log(&mut self, line: String) {
        self.history.push(line);
    }

    /// The program may do with memory what it likes: its operation is over.
    fn give_back(&mut self, at: u32, buffer: Buffer, of: &'static str, number: usize) {
        fill(&buffer, std::iter::repeat_n(GIVEN_BACK, buffer.len()));
        self.given_back.push(GivenBack { at, buffer, of, number });
    }

    /// Memory with this content; `None` when the world has used up its own.
    fn memory(&mut self, content: impl ExactSizeIterator<Item = u8>) -> Option<Buffer> {
        let length = content.len();
        if ARENA_BYTES - self.arena_used < length + 16 {
            return None;
        }
        let buffer = self.arena.part(self.arena_used, length);
        self.arena_used += length.next_multiple_of(16);
        fill(&buffer, content);
        Some(buffer)
    }
}

/// Rails are connected, will be soon, or their processes connect them. Draws no number from the world's:
/// seeds whose processes do not connect stay what they were.
fn connect(wire: &mut Wire, seed: u64, is_unconnected: bool) {
    let mut random = Random::for_entity(seed, 0xC0);
    if random.below(CONNECTING_ONE_IN) == 0 {
        wire.begin_connecting(random);
    } else if is_unconnected {
        wire.begin_unconnected();
    }
}

/// What the processes of a world do; `trunks`: links are in trunk mode.
fn habits(
    random: &mut Random,
    (eager_bytes_max, piece_bytes): (usize, Vec<usize>),
    peer_timeout_ps: u64,
    (trunks, bursts): (bool, bool),
) -> Habits {
    Habits {
        eager_bytes_max,
        // Long enough to fill the window of a slow rail, and more than one of them at once.
        length_max: match eager_bytes_max {
            _ if trunks && random.below(BULK_ONE_IN) == 0 => 100_000,
            1_001.. => 40_000,
            _ => 4 * eager_bytes_max.max(100),
        },
        piece_bytes,
        popular: (random.below(3) == 0).then_some(random.below(8) as u32),
        flood: eager_bytes_max > 1_000 && random.below(2) == 0,
        crashes: random.below(3) == 0,
        blocks: random.below(2) == 0,
        attached_bytes: [0, 1_000, 100_000][random.below(3) as usize],
        trunks,
        aborts: random.below(2) == 0,
        scars: trunks && random.below(3) == 0,
        peer_timeout_ps,
        windows: random.below(3) == 0,
        partitions: random.below(3) == 0,
        bursts,
    }
}

/// How unpleasant the rails are.
fn moods(random: &mut Random) -> Moods {
    Moods {
        full_one_in: [0, 0, 2, 5][random.below(4) as usize],
        refuse_one_in: [0, 0, 3][random.below(3) as usize],
        delay_one_in: [0, 2, 10][random.below(3) as usize],
        delay_max_ps: 1 + random.below(10_000_000),
        fault_one_in: [0, 3, 10, 30][random.below(4) as usize],
        damage_one_in: [0, 0, 5, 40][random.below(4) as usize],
        front_one_in: [0, 1, 3][random.below(3) as usize],
    }
}

fn fill(buffer: &Buffer, content: impl Iterator<Item = u8>) {
    buffer.scatter(0, Piece::Bytes(&content.collect::<Vec<u8>>()));
}

/// The byte `at` of a message.
fn content(message: usize, at: usize) -> u8 {
    (message * 31 + at * 7 + at / 256 + 1) as u8
}
