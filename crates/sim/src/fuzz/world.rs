//! A world: its making, its calls, and its end.

mod check;
mod traffic;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Mutex;

use ayatori_core::Process;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::RailCapabilities;
use ayatori_core::ids::{CommId, ContextId, ProcessId, RailSet, RequestId, Tag};
use ayatori_core::process::{Config, MessageId};
use ayatori_core::request::Posted;
use ayatori_core::time::Instant;
use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{Complete, HostLayout, Hypercube, Mesh, Ring, Topology, Torus, Tree};

use super::collectives::Joint;
use super::model::{Members, Model, Wanted};
use super::port::Port;
use super::wire::{Moods, Rails, Wire};
use super::{Bug, WorldReport};
use crate::network::{self, Network, NicId, NoProbe};
use crate::random::Random;

type Outcome<T = ()> = Result<T, String>;

/// Whether worlds have links in trunk mode: several rails, or one that may break. Off: such worlds (`wire` is ready for
/// them) do not come to their end yet, and whether worlds or trunks are to blame is open.
const TRUNKS: bool = false;
/// What a packet of a long message's data carries beside the data, bytes.
const DATA_HEADER_BYTES: usize = 24;
/// Memory for all buffers of a world, bytes.
const ARENA_BYTES: usize = 64 << 20;

/// Memory that no world uses now.
static SPARE_ARENAS: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

/// A world's memory; the next world has it again.
struct Arena(Buffer);

impl Arena {
    fn take() -> Arena {
        let spare = SPARE_ARENAS.lock().map(|mut spare| spare.pop());
        Arena(spare.ok().flatten().unwrap_or_else(|| Buffer::leaked(ARENA_BYTES)))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Ok(mut spare) = SPARE_ARENAS.lock() {
            spare.push(self.0);
        }
    }
}

/// A receive under way or done.
struct Receive {
    at: u32,
    /// In the model.
    number: usize,
    request: Option<RequestId>,
    buffer: Buffer,
    persistent: Option<usize>,
}

/// A send under way.
struct Send {
    at: u32,
    id: RequestId,
    number: usize,
    synchronous: bool,
    cancelling: bool,
    persistent: Option<usize>,
}

enum Plan {
    Send { to: u32, comm: usize, tag: Tag, length: usize, content: usize, synchronous: bool },
    Receive { wanted: Wanted, buffer: Buffer },
}

struct Persistent {
    at: u32,
    id: RequestId,
    plan: Plan,
    active: bool,
}

/// The collective operations of a communicator, in the order in which all members do them.
struct Sequence {
    comm: usize,
    joints: Vec<Joint>,
    /// The next operation of each rank.
    next: Vec<usize>,
    /// Ranks that have been told of a dead member: they begin nothing more here.
    broken: Vec<bool>,
}

struct Running {
    at: u32,
    sequence: usize,
    joint: usize,
    id: RequestId,
    recv: Buffer,
}

/// Lengths and habits of a world.
struct Habits {
    eager_bytes_max: usize,
    length_max: usize,
    /// Lengths at which protocols do something else: of packets' data, and of gets and puts.
    piece_bytes: Vec<usize>,
    /// One process sends much to another that does not look.
    flood: bool,
    crashes: bool,
}

struct World<'a> {
    wire: Rc<RefCell<Wire>>,
    nodes: Vec<(Process, Port)>,
    /// The id that each process has for each communicator of the model.
    comm_ids: Vec<Vec<Option<CommId>>>,
    model: Model,
    random: Random,
    habits: Habits,
    arena: Arena,
    arena_used: usize,
    receives: Vec<Receive>,
    sends: Vec<Send>,
    persistent: Vec<Persistent>,
    held: Vec<(u32, MessageId, usize)>,
    sequences: Vec<Sequence>,
    running: Vec<Running>,
    report: WorldReport,
    history: &'a mut Vec<String>,
}

/// Runs a world to its end.
pub(super) fn run(seed: u64, bug: Option<Bug>, history: &mut Vec<String>) -> Outcome<WorldReport> {
    let mut world = World::new(seed, bug, history)?;
    world.split_world()?;
    let step_count = 20 + world.random.below(140);
    for _ in 0..step_count {
        world.act()?;
        world.maybe_fail_rail();
        let (count, quota) = (world.random.below(8), world.random.below(4));
        world.pump(count)?;
        let at = world.random.below(world.count() as u64) as u32;
        world.deliver(at, quota)?;
        if world.random.below(4) == 0 {
            world.collect()?;
        }
    }
    world.heal()?;
    world.check_end()?;
    world.report.outage_count = world.wire.borrow().outage_count;
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
fn capabilities(random: &mut Random, rail_count: u64, eager_bytes_max: usize) -> Vec<RailCapabilities> {
    let rail = |_| {
        let fragment = [48, 200, 5_000][random.below(3) as usize];
        RailCapabilities {
            packet_bytes_max: (eager_bytes_max + 32).max(fragment + 128),
            eager_bytes_max,
            transfer_bytes_max: [70, 1_000, 1 << 20][random.below(3) as usize],
            get: random.below(2) == 0,
            put: random.below(2) == 0,
            latency_ps: 1 + random.below(1_000_000),
            may_break: TRUNKS && random.below(2) == 0,
            ..RailCapabilities::default()
        }
    };
    (0..rail_count).map(rail).collect()
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
    fn new(seed: u64, bug: Option<Bug>, history: &'a mut Vec<String>) -> Outcome<World<'a>> {
        let mut random = Random::for_entity(seed, 0xF0);
        let count = 1 + random.below(8);
        let eager_bytes_max = [0, 64, 100, 1_000, 16 << 10][random.below(5) as usize];
        let rail_count = if TRUNKS { 1 + random.below(3) } else { 1 };
        let capabilities = capabilities(&mut random, rail_count, eager_bytes_max);
        let between = rails_between(&mut random, count, rail_count);
        let (network, nics) = network(&mut random, count, rail_count)?;
        history.push(format!("{count} processes, rails {capabilities:?}"));
        let pieces = capabilities
            .iter()
            .flat_map(|rail| [rail.packet_bytes_max - DATA_HEADER_BYTES, rail.transfer_bytes_max]);
        let piece_bytes = pieces.collect();
        let rails = Rails { capabilities, nics, between };
        let mut wire = Wire::new(network, rails, Random::new(random.next_u64()), bug);
        wire.moods = Moods {
            full_one_in: [0, 0, 2, 5][random.below(4) as usize],
            refuse_one_in: [0, 0, 3][random.below(3) as usize],
            delay_one_in: [0, 2, 10][random.below(3) as usize],
            delay_max_ps: 1 + random.below(10_000_000),
            outage_one_in: [0, 0, 4, 20][random.below(4) as usize],
            damage_one_in: [0, 0, 5, 40][random.below(4) as usize],
        };
        let habits = Habits {
            eager_bytes_max,
            length_max: if eager_bytes_max > 1_000 { 40_000 } else { 4 * eager_bytes_max.max(100) },
            piece_bytes,
            flood: eager_bytes_max > 1_000 && random.below(2) == 0,
            crashes: random.below(3) == 0,
        };
        let wire = Rc::new(RefCell::new(wire));
        let process = |me| Process::new(ProcessId(me), count as u32, Config::default());
        let nodes = (0..count as u32).map(|me| (process(me), Port::new(me, &wire))).collect();
        history.push(format!("{:?}", wire.borrow().moods));
        let mut model = Model::new(count as usize);
        model.comms.push(Members { of_rank: (0..count as u32).collect(), context: ContextId::WORLD });
        Ok(World {
            wire,
            nodes,
            comm_ids: vec![vec![Some(CommId::WORLD); count as usize]],
            model,
            random,
            habits,
            arena: Arena::take(),
            arena_used: 0,
            receives: Vec::new(),
            sends: Vec::new(),
            persistent: Vec::new(),
            held: Vec::new(),
            sequences: vec![Sequence::new(0, count as usize)],
            running: Vec::new(),
            report: WorldReport { digest: 0xCBF2_9CE4_8422_2325, ..WorldReport::default() },
            history,
        })
    }

    /// Two more communicators: everybody with ranks backwards, and halves by odd and even.
    fn split_world(&mut self) -> Outcome {
        let count = self.count() as u32;
        let halves = self.random.below(2) == 0;
        for color_count in if halves { vec![1, 2] } else { vec![1] } {
            let mut made = Vec::new();
            for at in 0..count {
                let (process, port) = &mut self.nodes[at as usize];
                let split = process.icomm_split(port, CommId::WORLD, Some(at % color_count), -(at as i32));
                made.push(split.map_err(|error| format!("splitting at {at}: {error}"))?);
                let quota = self.random.below(3);
                self.pump(quota)?;
            }
            self.settle()?;
            for (at, &(_, posted)) in made.iter().enumerate() {
                if let Posted::Pending(id) = posted {
                    let taken = self.nodes[at].0.take(id).map_err(|error| error.to_string())?;
                    taken
                        .filter(|done| done.error.is_none())
                        .ok_or(format!("splitting at {at}: {taken:?}"))?;
                }
            }
            for color in 0..color_count.min(count) {
                let of_rank: Vec<u32> = (0..count).rev().filter(|at| at % color_count == color).collect();
                let ids = made.iter().map(|&(id, _)| id);
                let ids: Vec<Option<CommId>> =
                    ids.enumerate().map(|(at, id)| of_rank.contains(&(at as u32)).then_some(id)).collect();
                self.add_comm(of_rank, ids)?;
            }
        }
        Ok(())
    }

    fn add_comm(&mut self, of_rank: Vec<u32>, ids: Vec<Option<CommId>>) -> Outcome {
        let mut contexts = Vec::new();
        for (rank, &at) in of_rank.iter().enumerate() {
            let id = ids[at as usize].ok_or("a member without the communicator")?;
            let comm = self.nodes[at as usize].0.comm(id).map_err(|error| error.to_string())?;
            let members: Vec<u32> = comm.group().iter().map(|process| process.0).collect();
            if members != of_rank || comm.rank() != rank as u32 {
                return Err(format!(
                    "process {at} is {} of {members:?}, not {rank} of {of_rank:?}",
                    comm.rank()
                ));
            }
            contexts.push(comm.context());
        }
        let context = contexts[0];
        if contexts.iter().any(|&other| other != context) {
            return Err(format!("members {of_rank:?} have contexts {contexts:?}"));
        }
        self.sequences.push(Sequence::new(self.model.comms.len(), of_rank.len()));
        self.model.comms.push(Members { of_rank, context });
        self.comm_ids.push(ids);
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

    /// Memory with this content; `None` when the world has used up its own.
    fn memory(&mut self, content: impl ExactSizeIterator<Item = u8>) -> Option<Buffer> {
        let length = content.len();
        if ARENA_BYTES - self.arena_used < length + 16 {
            return None;
        }
        let buffer = self.arena.0.part(self.arena_used, length);
        self.arena_used += length.next_multiple_of(16);
        fill(&buffer, content);
        Some(buffer)
    }

    fn maybe_fail_rail(&mut self) {
        let failed = self.wire.borrow_mut().maybe_fail_rail();
        if let Some((rail, a, b)) = failed {
            self.log(format!("{rail:?} between {a} and {b} fails for a while"));
        }
    }

    fn pump(&mut self, count: u64) -> Outcome<bool> {
        let moved = self.wire.borrow_mut().pump(count)?;
        self.report.step_count += moved;
        Ok(moved > 0)
    }

    /// Lets a process see at most so many arrivals; the model sees the same.
    fn deliver(&mut self, at: u32, quota: u64) -> Outcome<bool> {
        if !self.is_alive(at) {
            return Ok(false);
        }
        self.report.step_count += 1;
        let (process, port) = &mut self.nodes[at as usize];
        port.may_poll = quota;
        if process.wants_time() {
            let now_ps = self.wire.borrow().now_ps();
            process.handle_timeout(Instant(now_ps));
        }
        let worked = process.progress(port);
        port.may_poll = 0;
        let seen = std::mem::take(&mut self.wire.borrow_mut().seen);
        for what in seen {
            self.model.see(what)?;
        }
        Ok(worked)
    }

    /// Lets everything move until nothing does.
    fn settle(&mut self) -> Outcome {
        let mut idle = 0;
        // A device that is full at random needs a few more rounds.
        while idle < 40 {
            let mut worked = self.pump(64)?;
            for at in 0..self.count() as u32 {
                worked |= self.deliver(at, u64::MAX)?;
            }
            idle = if worked || self.wait_for_timeout()? { 0 } else { idle + 1 };
        }
        Ok(())
    }

    /// Where a process waits for the time, not all being acknowledged or sent: the time comes. Whether one does.
    fn wait_for_timeout(&mut self) -> Outcome<bool> {
        const FULL_PS: u64 = 50_000_000;
        let now_ps = self.wire.borrow().now_ps();
        let wants = |(process, _): &(Process, Port)| {
            let timeout = process.poll_timeout().map(|time| time.0);
            let full = process.wants_transmit().then_some(now_ps + FULL_PS);
            (!process.is_quiet()).then(|| timeout.into_iter().chain(full).min()).flatten()
        };
        let alive = self.nodes.iter().filter(|(_, port)| self.is_alive(port.me));
        let Some(time_ps) = alive.filter_map(wants).min() else { return Ok(false) };
        self.wire.borrow_mut().wait_until(time_ps);
        self.pump(1)?;
        Ok(true)
    }

    /// Nothing fails any more, and everything must come to an end.
    fn heal(&mut self) -> Outcome {
        self.wire.borrow_mut().moods = Moods::default();
        self.log("healed".into());
        while let Some((at, message, number)) = self.held.pop() {
            self.receive_held(at, message, number)?;
        }
        for index in 0..self.receives.len() {
            self.cancel_receive(index)?;
        }
        /// Worlds end after some hundred rounds; one that is still busy now would be for ever.
        const ROUNDS_MAX: u32 = 200_000;
        for _ in 0..ROUNDS_MAX {
            let mut worked = self.begin_remaining_collectives()?;
            worked |= self.pump(64)?;
            for at in 0..self.count() as u32 {
                worked |= self.deliver(at, u64::MAX)?;
                while self.is_alive(at) && self.receive_first_arrived(at)? {
                    worked = true;
                }
            }
            self.collect()?;
            if !worked && !self.wait_for_timeout()? {
                return Ok(());
            }
        }
        Err("healed, and still busy without end".into())
    }
}

impl Sequence {
    fn new(comm: usize, size: usize) -> Sequence {
        Sequence { comm, joints: Vec::new(), next: vec![0; size], broken: vec![false; size] }
    }
}

fn fill(buffer: &Buffer, content: impl Iterator<Item = u8>) {
    buffer.with_mut(|bytes| bytes.iter_mut().zip(content).for_each(|(byte, new)| *byte = new));
}

/// The byte `at` of a message.
fn content(message: usize, at: usize) -> u8 {
    (message * 31 + at * 7 + at / 256 + 1) as u8
}
