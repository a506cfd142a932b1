//! Between processes and the network: clocks, queues to the NIC, shared memory, what is under way.
//!
//! A *flight* is a packet of the protocol engine (which the network cuts into packets of its own), or a step
//! of a put or get. Packets of one process over one rail leave one after the other, so that they arrive in
//! order although a NIC serves several processes in turn; data of puts and gets goes by itself, a packet of
//! each in turn, or ([`Config::data_in_order`]) what goes from one process to another in order.

use std::collections::{BTreeMap, VecDeque};

use ayatori_core::buffer::Buffer;
use ayatori_core::coll::shared_memory::Occupancy;
use ayatori_core::device::{Pacing, RailBroken, RailCapabilities, RemoteKey, RemoteRegion, Token, profiles};

use super::cores::Cores;
use super::cpus::Cpus;
use super::data_order::DataQueues;
use super::pipeline::{Hardware, SEGMENT};
pub(super) use super::rank_state::RankState;
use super::{Config, NicDevice, NicUse, Profile, Transfer, Usage};
use crate::network::{Deadlock, Gap, Message, Network, NicId, Occurrence, flow_of};
use crate::slab::Slab;
use crate::trace::{Activity, Trace};

/// Timer tokens carry three bits of kind.
pub(super) const PROCESS_COUNT_MAX: u64 = 1 << 29;
const KIND_BITS: u32 = 29;
const WAKE: u32 = 0;
const LAUNCH: u32 = 1;
const ARRIVE: u32 = 2;
const DUE: u32 = 3;
pub(super) const STAGE: u32 = 4;
pub(super) const FREE: u32 = 5;

/// A timer's token.
pub(super) fn token_of(kind: u32, index: u32) -> u32 {
    kind << KIND_BITS | index
}

/// Clocks stop here, ps: 53 days. Whoever gets so far has computed for too long.
pub(super) const TIME_MAX_PS: u64 = 1 << 62;

/// The rail of messages within a host. The NICs follow.
pub(super) const MEMORY_RAIL: u8 = 0;

/// What is under way.
#[derive(Debug)]
pub(super) enum Cargo {
    /// A packet: header, and payload as a length or as bytes after the header. So many bytes of it went ahead
    /// in parts.
    Packet {
        bytes: Vec<u8>,
        header_bytes: usize,
        virtual_bytes: usize,
        pieces: Option<Pieces>,
        is_in_block: bool,
        ahead_bytes: usize,
    },
    /// So many bytes of the next packet of the same process and rail, and how many follow them next.
    Part([usize; 2]),
    /// To the memory to be read.
    GetRequest(Access),
    /// The data read.
    GetData(Access),
    /// The data to be written.
    PutData(Access),
    /// That it is written, or that no such memory is registered.
    PutDone(Access, Result<(), RailBroken>),
}

impl Cargo {
    /// Whether it goes in order with the packets of its process.
    pub(super) fn is_packet(&self) -> bool {
        matches!(self, Cargo::Packet { .. } | Cargo::Part(_))
    }
}

/// A put or get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) local: Buffer,
    pub(super) remote: RemoteRegion,
    pub(super) token: Token,
    /// The CPU of its process that it was begun on.
    pub(super) cpu: usize,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) rail: u8,
    /// Not before the sender's software has got so far.
    ready_ps: u64,
    /// When it was at its receiver.
    pub(super) arrived_ps: u64,
    /// The connection it belongs to, of a rail that can break; what an earlier one carried is lost.
    epoch: u32,
    /// What its NIC has not yet taken up, where NICs have stages.
    pub(super) unsent_bytes: u64,
    /// Segments that are not yet there.
    pub(super) unfinished_count: u32,
    /// A read from its socket has brought it, with what came before.
    pub(super) is_read: bool,
    pub(super) cargo: Cargo,
}

/// A packet that its receiver reads while it is written: it arrives with its first piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    pub(super) payload_bytes: usize,
    pub(super) piece_bytes: usize,
    pub(super) is_in_block: bool,
    /// When the last one is written; from the launch on, when that is at the receiver.
    pub(super) last_ps: u64,
}

impl Flight {
    /// What the network carries of it, beside its own headers.
    pub(super) fn bytes(&self) -> u64 {
        match &self.cargo {
            Cargo::Packet { bytes, virtual_bytes, ahead_bytes, .. } => {
                (bytes.len() + virtual_bytes - ahead_bytes) as u64
            }
            Cargo::Part([bytes, _]) => *bytes as u64,
            Cargo::GetData(access) | Cargo::PutData(access) => access.local.len() as u64,
            Cargo::GetRequest(_) | Cargo::PutDone(..) => 0,
        }
    }

    /// The put or get that it is of.
    pub(super) fn access(&self) -> Option<&Access> {
        match &self.cargo {
            Cargo::Packet { .. } | Cargo::Part(_) => None,
            Cargo::GetRequest(access)
            | Cargo::GetData(access)
            | Cargo::PutData(access)
            | Cargo::PutDone(access, _) => Some(access),
        }
    }
}

/// What a process finds when it looks.
#[derive(Debug)]
pub(super) enum Arrived {
    Packet(u32),
    /// The end of a put or get that was begun on this CPU.
    Completion(Token, Result<(), RailBroken>, usize),
    RailDown(u8, u32),
    RailUp(u8, u32),
}

/// Registered memory. A key names place and serial number, so a key that is over names nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registration {
    buffer: Buffer,
    pub(super) serial: u64,
    /// The NIC that is to write it.
    pub(super) nic: Option<u8>,
}

/// Packets of one process for one rail.
#[derive(Debug, Default)]
struct Outbox {
    flights: VecDeque<u32>,
    /// The first one has been given to the NIC (or waits for its time).
    busy: bool,
    bytes: u64,
    /// Its process was refused a packet.
    is_awaited: bool,
}

pub(super) struct Fabric {
    /// Gaps that are set, by sender and receiver.
    gaps: BTreeMap<(u32, u32), Gap>,
    data_queues: DataQueues,
    pub(super) network: Network<Option<Trace>>,
    pub(super) config: Config,
    pub(super) rails: Vec<RailCapabilities>,
    pub(super) states: Vec<RankState>,
    pub(super) cores: Cores,
    /// Of processes that have several, or messages that name a NIC.
    pub(super) cpus: Vec<Option<Box<Cpus>>>,
    /// By process, then rail.
    outboxes: Vec<Outbox>,
    /// When each host's memory is done with what it has begun, and how long it was busy in all.
    pub(super) memory_free_ps: Vec<u64>,
    /// Of two processes of a host, the blocks that the first has to send the other packets in.
    pub(super) blocks_counts: BTreeMap<(u32, u32), u32>,
    pub(super) memory_busy_ps: Vec<u64>,
    pub(super) flights: Slab<Flight>,
    pub(super) registered: Slab<Option<Registration>>,
    registered_count: usize,
    /// Registrations so far.
    serial: u64,
    /// How many connections two processes (the lower first) have had over a rail that can break. The first
    /// one is made when somebody sends, and takes no time.
    epochs: BTreeMap<(u32, u32, u8), u32>,
    runnable: VecDeque<u32>,
    pub(super) hardware: Option<Hardware>,
}

/// What a slot of a shared memory ring holds, bytes.
const SHM_SLOT_BYTES: usize = 56;
/// The memory of a host, and its NICs.
fn rails(
    network: &Network<Option<Trace>>,
    config: &Config,
    (nic_count, occupancy): (usize, Occupancy),
) -> Vec<RailCapabilities> {
    let said = config.sockets.as_ref().and_then(|sockets| sockets.said_bytes_per_s);
    let rate = |nic: usize| said.unwrap_or_else(|| network.nic_rate_bytes_per_s(NicId(nic as u32)) as u64);
    let (bandwidth_bytes_per_s, latency_ps) = (config.memory_bytes_per_s, config.memory_latency_ps);
    let has_long_blocks = occupancy.has_long_blocks;
    let payload_bytes_max = profiles::shm_payload_bytes_max(occupancy.ranks_count, has_long_blocks);
    let shm = || {
        profiles::shm(&profiles::Shm {
            slot_bytes: SHM_SLOT_BYTES,
            payload_bytes_max,
            kernel_copy: true,
            is_oversubscribed: occupancy.is_oversubscribed(),
            has_long_blocks,
        })
    };
    if let Some(Profile { device, mtu_bytes }) = config.profile {
        let nic = |nic| match device {
            NicDevice::Tcp => profiles::tcp("nic", Some(mtu_bytes), rate(nic), None),
            NicDevice::Rdma => profiles::rdma("nic", rate(nic)),
            NicDevice::Shm => RailCapabilities { bandwidth_bytes_per_s: rate(nic), ..shm() },
        };
        return std::iter::once(shm()).chain((0..nic_count).map(nic)).collect();
    }
    let memory = RailCapabilities {
        name: "memory",
        packet_bytes_max: config.packet_bytes_max.unwrap_or(config.eager_bytes_max + 4_096),
        eager_bytes_max: config.eager_bytes_max,
        put: config.transfer == Transfer::Put,
        get: config.transfer == Transfer::Get,
        transfer_bytes_min: 0,
        transfer_bytes_max: usize::MAX,
        bandwidth_bytes_per_s,
        latency_ps,
        ..RailCapabilities::default()
    };
    let nic = |nic: usize| RailCapabilities {
        name: "nic",
        numa_node: config.hardware.as_ref().and_then(|model| Some(model.buses[model.nics.get(nic)?.bus].1)),
        bandwidth_bytes_per_s: rate(nic),
        // More than the memory's, so that processes of one host use that.
        latency_ps: config.memory_latency_ps + config.command_ps + 1,
        pacing: Pacing::PacketGap,
        ..memory
    };
    std::iter::once(memory).chain((0..nic_count).map(nic)).collect()
}

impl Fabric {
    pub(super) fn new(network: Network<Option<Trace>>, config: Config, process_count: u32) -> Fabric {
        let host_count = network.graph().host_count();
        let nic_counts = network.graph().hosts().map(|host| network.graph().port_count(host.into()));
        // Rails are the same for all: as many as every host has.
        let fewest_nics = nic_counts.min().unwrap_or(0);
        let nic_count = match config.nic_use {
            NicUse::All | NicUse::Only(_) => fewest_nics,
            NicUse::OneEach => fewest_nics.min(1),
        };
        let cores = Cores::new(&config, process_count);
        let rails = rails(&network, &config, (nic_count, cores.occupancy()));
        let outbox_count = process_count as usize * rails.len();
        Fabric {
            states: (0..process_count).map(|_| RankState::default()).collect(),
            outboxes: (0..outbox_count).map(|_| Outbox::default()).collect(),
            memory_free_ps: vec![0; host_count],
            blocks_counts: BTreeMap::new(),
            memory_busy_ps: vec![0; host_count],
            flights: Slab::default(),
            registered: Slab::default(),
            registered_count: 0,
            serial: 0,
            epochs: BTreeMap::new(),
            runnable: VecDeque::new(),
            cores,
            cpus: Vec::new(),
            hardware: Hardware::new(&config, host_count),
            gaps: BTreeMap::new(),
            data_queues: DataQueues::default(),
            rails,
            config,
            network,
        }
    }

    /// Whether a rail takes no more packets of a process for now; then the process is called when it does.
    pub(super) fn is_full(&mut self, rank: u32, rail: u8) -> bool {
        let queue_bytes = self.rails[usize::from(rail)].queue_bytes;
        let outbox = &mut self.outboxes[rank as usize * self.rails.len() + usize::from(rail)];
        let is_full = queue_bytes > 0 && outbox.bytes >= queue_bytes;
        outbox.is_awaited |= is_full;
        is_full
    }

    /// Whether there is such a process.
    pub(super) fn is_known(&self, rank: u32) -> bool {
        (rank as usize) < self.states.len()
    }

    fn epoch(&self, a: u32, b: u32, rail: u8) -> u32 {
        if !self.rails[usize::from(rail)].may_break {
            return 0;
        }
        self.epochs.get(&(a.min(b), a.max(b), rail)).copied().unwrap_or(0)
    }

    /// Whether the rail between two processes has a connection. Where it has not, one is made, and both are
    /// told.
    pub(super) fn connect(&mut self, from: u32, to: u32, rail: u8) -> bool {
        if !self.rails[usize::from(rail)].may_break || self.epoch(from, to, rail) > 0 {
            return true;
        }
        self.begin_epoch(from, to, rail);
        false
    }

    fn begin_epoch(&mut self, a: u32, b: u32, rail: u8) {
        *self.epochs.entry((a.min(b), a.max(b), rail)).or_insert(0) += 1;
        self.hand_over(a, Arrived::RailUp(rail, b));
        self.hand_over(b, Arrived::RailUp(rail, a));
    }

    /// `by` drops its connection to `peer`, and what is under way on it is lost. The next one is made at
    /// once.
    pub(super) fn reset(&mut self, by: u32, peer: u32, rail: u8) {
        if self.epoch(by, peer, rail) > 0 {
            self.hand_over(peer, Arrived::RailDown(rail, by));
            self.begin_epoch(by, peer, rail);
        }
    }

    /// The connection breaks, and both are told.
    #[cfg(test)]
    pub(super) fn cut(&mut self, a: u32, b: u32, rail: u8) {
        self.hand_over(a, Arrived::RailDown(rail, b));
        self.reset(a, b, rail);
    }

    pub(super) fn host_of(&self, rank: u32) -> u32 {
        rank / self.config.processes_per_host
    }

    pub(super) fn nic_of(&self, rank: u32, nic: u16) -> NicId {
        let host = ayatori_fabric::graph::HostId(self.host_of(rank));
        let nic = match self.config.nic_use {
            NicUse::All | NicUse::Only(_) => nic,
            NicUse::OneEach => {
                let nic_count = self.network.graph().port_count(host.into()) as u32;
                (rank % self.config.processes_per_host % nic_count) as u16
            }
        };
        self.network.nic(host, nic).expect("rails are as many as every host has NICs")
    }

    /// The process' time: never before the network's while it runs.
    pub(super) fn clock_ps(&self, rank: u32) -> u64 {
        self.states[rank as usize].clock_ps.max(self.network.now_ps())
    }

    /// The process is busy in the library for so long.
    pub(super) fn spend(&mut self, rank: u32, time_ps: u64) {
        self.occupy(rank, time_ps, Activity::Library);
    }

    /// The process computes for so long.
    pub(super) fn compute(&mut self, rank: u32, time_ps: u64) {
        self.states[rank as usize].computing_ps += time_ps.min(TIME_MAX_PS);
        self.occupy(rank, time_ps, Activity::Computing);
    }

    fn occupy(&mut self, rank: u32, time_ps: u64, activity: Activity) {
        let start_ps = self.clock_ps(rank);
        let end_ps = start_ps.saturating_add(time_ps).min(TIME_MAX_PS);
        let state = &mut self.states[rank as usize];
        state.busy_ps += end_ps.saturating_sub(start_ps);
        state.clock_ps = end_ps;
        if activity == Activity::Library {
            self.on_library(rank, end_ps);
        }
        let core = self.current_cpu(rank);
        if let Some(trace) = self.network.probe_mut() {
            trace.on_activity((rank, core), activity, start_ps, end_ps);
        }
    }

    /// What processes and memories have been busy with since the start.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            busy_ps: self.states.iter().map(|state| state.busy_ps).collect(),
            computing_ps: self.states.iter().map(|state| state.computing_ps).collect(),
            core_counts: self.states.iter().map(|state| state.core_count.max(1)).collect(),
            kernel_ps: self.states.iter().map(|state| state.kernel_ps).collect(),
            units: self.hardware.as_ref().map(Hardware::usage).unwrap_or_default(),
            memory_busy_ps: self.memory_busy_ps.clone(),
        }
    }

    /// The process is busy in the operating system for so long.
    pub(super) fn spend_in_kernel(&mut self, rank: u32, time_ps: u64) {
        if time_ps > 0 {
            self.states[rank as usize].kernel_ps += time_ps;
            self.occupy(rank, time_ps, Activity::Library);
        }
    }

    /// Makes a process runnable at a time, for the first time.
    pub(super) fn start(&mut self, rank: u32, time_ps: u64) {
        let state = &mut self.states[rank as usize];
        state.clock_ps = state.clock_ps.max(time_ps);
        self.notify(rank);
    }

    pub(super) fn take_arrived(&mut self, rank: u32) -> Option<Arrived> {
        loop {
            let arrived = match self.has_cpus(rank) {
                true => self.take_for_cpu(rank)?,
                false => self.states[rank as usize].inbox.pop_front()?,
            };
            match arrived {
                Arrived::Packet(handle) if self.is_stale(handle) => self.forget(handle),
                arrived => return Some(arrived),
            }
        }
    }

    pub(super) fn has_arrived(&self, rank: u32) -> bool {
        !self.states[rank as usize].inbox.is_empty()
    }

    /// Whether the connection that a packet was sent over has ended.
    fn is_stale(&self, handle: u32) -> bool {
        let Flight { from, to, rail, epoch, .. } = self.flights[handle];
        epoch != self.epoch(from, to, rail)
    }

    /// Nobody wants a packet any more.
    pub(super) fn forget(&mut self, handle: u32) {
        if let Cargo::Packet { bytes, .. } = &mut self.flights[handle].cargo {
            *bytes = Vec::new();
        }
        self.flights.remove(handle);
    }

    /// Runs the network until a process has something to do. `None`: nothing is under way.
    pub(super) fn next_runnable(&mut self) -> Result<Option<u32>, Deadlock> {
        loop {
            self.end_turn();
            if let Some(rank) = self.runnable.pop_front() {
                if let Some(turn_ps) = self.waits_for_core(rank) {
                    self.network.set_timer(turn_ps, WAKE << KIND_BITS | rank);
                    continue;
                }
                self.states[rank as usize].woken = false;
                self.begin_step(rank);
                return Ok(Some(rank));
            }
            match self.network.advance()? {
                None => return Ok(None),
                Some(Occurrence::Delivered { token, .. }) if token & SEGMENT != 0 => {
                    self.on_segment_delivered(token & !SEGMENT);
                }
                Some(Occurrence::Injected { token }) if token & SEGMENT != 0 => {
                    self.on_segment_injected(token & !SEGMENT);
                }
                Some(Occurrence::Delivered { token, .. }) => self.arrive(token),
                Some(Occurrence::Injected { token }) => self.on_injected(token),
                Some(Occurrence::Timer { token }) => {
                    let index = token & ((1 << KIND_BITS) - 1);
                    match token >> KIND_BITS {
                        WAKE => self.runnable.push_back(index),
                        LAUNCH => self.launch(index),
                        ARRIVE => self.arrive(index),
                        STAGE => self.on_stage_done(index),
                        FREE => self.on_unit_free(index),
                        _ if self.has_cpus(index) => self.on_call(index),
                        _ => {
                            self.states[index as usize].due_ps = None;
                            self.notify(index);
                        }
                    }
                }
            }
        }
    }

    /// A process wants to be called at a time.
    pub(super) fn wake_at(&mut self, rank: u32, time_ps: u64) {
        if self.has_cpus(rank) {
            return self.call_when_free(rank, time_ps.max(self.network.now_ps() + 1));
        }
        let time_ps = time_ps.max(self.clock_ps(rank) + 1);
        let state = &mut self.states[rank as usize];
        if state.due_ps.is_none_or(|due_ps| time_ps < due_ps) {
            state.due_ps = Some(time_ps);
            self.set_due_timer(rank, time_ps);
        }
    }

    pub(super) fn set_due_timer(&mut self, rank: u32, time_ps: u64) {
        self.network.set_timer(time_ps, DUE << KIND_BITS | rank);
    }

    /// A process stands in the line of the runnable from now on.
    pub(super) fn make_runnable(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.states[rank as usize].woken, true) {
            self.runnable.push_back(rank);
        }
    }

    /// A process has something to look at, once its clock allows.
    pub(super) fn notify(&mut self, rank: u32) {
        if self.has_cpus(rank) {
            return self.call_when_free(rank, 0);
        }
        let state = &mut self.states[rank as usize];
        if std::mem::replace(&mut state.woken, true) {
            return;
        }
        if state.clock_ps <= self.network.now_ps() {
            self.runnable.push_back(rank);
        } else {
            self.network.set_timer(state.clock_ps, WAKE << KIND_BITS | rank);
        }
    }

    /// A process reads another's memory itself.
    pub(super) fn read(&self, access: Access) -> Result<(), RailBroken> {
        let memory = self.memory(access.remote, access.local.len()).ok_or(RailBroken)?;
        access.local.copy_from(0, &memory, 0, access.local.len());
        Ok(())
    }

    /// Sends something off at the clock of the process `by`, which commands it.
    pub(super) fn depart(&mut self, by: u32, from: u32, to: u32, rail: u8, cargo: Cargo) {
        let flight = self.prepare(from, to, rail, cargo);
        self.leave(by, flight);
    }

    /// Something that is to be sent off over the connection of now.
    pub(super) fn prepare(&mut self, from: u32, to: u32, rail: u8, cargo: Cargo) -> u32 {
        let epoch = self.epoch(from, to, rail);
        let flight = Flight {
            from,
            to,
            rail,
            ready_ps: 0,
            arrived_ps: 0,
            epoch,
            unsent_bytes: 0,
            unfinished_count: 0,
            is_read: false,
            cargo,
        };
        self.flights.insert(flight)
    }

    /// Sends off what is prepared.
    pub(super) fn leave(&mut self, by: u32, flight: u32) {
        let Flight { from, rail, ref cargo, .. } = self.flights[flight];
        let is_packet = cargo.is_packet();
        let command_ps = if rail == MEMORY_RAIL { 0 } else { self.config.command_ps };
        self.flights[flight].ready_ps = self.clock_ps(by) + command_ps;
        if is_packet {
            let outbox = from as usize * self.rails.len() + usize::from(rail);
            self.outboxes[outbox].flights.push_back(flight);
            self.outboxes[outbox].bytes += self.flights[flight].bytes();
            self.pump(outbox);
        } else {
            self.launch_when_ready(flight);
        }
    }

    /// Gives the next packet of an outbox to its rail, if the one before has left.
    fn pump(&mut self, outbox: usize) {
        let Outbox { flights, busy, .. } = &mut self.outboxes[outbox];
        if let (Some(&flight), false) = (flights.front(), *busy) {
            *busy = true;
            self.launch_when_ready(flight);
        }
    }

    fn launch_when_ready(&mut self, flight: u32) {
        let ready_ps = self.flights[flight].ready_ps;
        if ready_ps > self.network.now_ps() {
            self.network.set_timer(ready_ps, LAUNCH << KIND_BITS | flight);
        } else {
            self.launch(flight);
        }
    }

    fn launch(&mut self, flight: u32) {
        let Flight { from, to, rail, ref cargo, .. } = self.flights[flight];
        let is_packet = cargo.is_packet();
        if rail == MEMORY_RAIL {
            let arrive_ps = self.within_host(flight);
            self.network.set_timer(arrive_ps, ARRIVE << KIND_BITS | flight);
            if is_packet {
                self.leave_outbox(from, rail);
            }
            return;
        }
        if !self.goes_in_order(flight) || self.data_queues.push(flight, (from, to, rail)) {
            self.give_to_nic(flight);
        }
    }

    fn give_to_nic(&mut self, flight: u32) {
        let Flight { from, to, rail, ref cargo, .. } = self.flights[flight];
        let bytes = self.flights[flight].bytes();
        let is_packet = cargo.is_packet();
        if self.takes_stages(cargo) {
            self.queue_at_nic(flight);
            return;
        }
        let notify_injected = is_packet || self.goes_in_order(flight);
        let gap = self.gap_of(from, to);
        let flow = flow_of(from, to);
        let [from, to] = [from, to].map(|rank| self.nic_of(rank, u16::from(rail) - 1));
        // Packets of the protocols are short and leave at once; gaps are for data.
        let gap = if is_packet { Gap::NONE } else { gap };
        self.network.send(Message { from, to, bytes, gap, flow, token: flight, notify_injected });
    }

    /// The gap between packets of data: as the process said, or as a study of its own prescribes.
    pub(super) fn gap_of(&self, from: u32, to: u32) -> Gap {
        let gaps = self.config.gap_of_pair.as_deref().unwrap_or(&self.gaps);
        gaps.get(&(from, to)).copied().unwrap_or_default()
    }

    /// The first NIC of a host.
    pub(super) fn first_nic_of(&self, host: u32) -> u32 {
        self.network.nic(ayatori_fabric::graph::HostId(host), 0).map_or(0, |nic| nic.0)
    }

    /// A process says how its data to another is to be paced.
    pub(super) fn set_gap(&mut self, from: u32, to: u32, gap: Gap) {
        if gap == Gap::NONE {
            self.gaps.remove(&(from, to));
        } else {
            self.gaps.insert((from, to), gap);
        }
    }

    /// Hops between switches on the way from one process to another.
    pub(super) fn hop_count(&self, from: u32, to: u32) -> u32 {
        if self.host_of(from) == self.host_of(to) {
            return 0;
        }
        let [from, to] = [from, to].map(|rank| self.nic_of(rank, 0));
        let path = self.network.path(from, to);
        path.map_or(0, |path| path.len() as u32)
    }

    /// All of this has left its NIC, or, where NICs have stages, been taken up by it.
    pub(super) fn on_injected(&mut self, flight: u32) {
        let Flight { from, to, rail, ref cargo, .. } = self.flights[flight];
        if cargo.is_packet() {
            self.leave_outbox(from, rail);
        } else if self.goes_in_order(flight)
            && let Some(next) = self.data_queues.pop((from, to, rail))
        {
            self.give_to_nic(next);
        }
    }

    pub(super) fn leave_outbox(&mut self, from: u32, rail: u8) {
        let outbox = from as usize * self.rails.len() + usize::from(rail);
        let sent = self.outboxes[outbox].flights.pop_front();
        self.outboxes[outbox].bytes -= sent.map_or(0, |flight| self.flights[flight].bytes());
        self.outboxes[outbox].busy = false;
        self.pump(outbox);
        let Outbox { bytes, is_awaited, .. } = &mut self.outboxes[outbox];
        if *bytes < self.rails[usize::from(rail)].queue_bytes && std::mem::take(is_awaited) {
            self.notify(from);
        }
    }

    /// Something has arrived: a packet at a process, or a step of a put or get at a NIC, which goes on by
    /// itself.
    pub(super) fn arrive(&mut self, handle: u32) {
        let now_ps = self.network.now_ps();
        let flight = &mut self.flights[handle];
        flight.arrived_ps = now_ps;
        let (from, to) = (flight.from, flight.to);
        debug_assert!(from != to, "a process talks to itself without a device");
        match flight.cargo {
            Cargo::Packet { .. } | Cargo::Part(_) => self.hand_over(to, Arrived::Packet(handle)),
            Cargo::GetRequest(access) => self.turn_back(handle, Cargo::GetData(access)),
            Cargo::PutData(access) => {
                let memory = self.memory(access.remote, access.local.len());
                if let Some(memory) = memory {
                    memory.copy_from(0, &access.local, 0, access.local.len());
                }
                let result = memory.map(|_| ()).ok_or(RailBroken);
                self.turn_back(handle, Cargo::PutDone(access, result));
            }
            Cargo::GetData(access) => {
                let memory = self.memory(access.remote, access.local.len());
                if let Some(memory) = memory {
                    access.local.copy_from(0, &memory, 0, access.local.len());
                }
                self.flights.remove(handle);
                let result = memory.map(|_| ()).ok_or(RailBroken);
                self.hand_over(to, Arrived::Completion(access.token, result, access.cpu));
            }
            Cargo::PutDone(access, result) => {
                self.flights.remove(handle);
                self.hand_over(to, Arrived::Completion(access.token, result, access.cpu));
            }
        }
    }

    /// The NIC that was reached answers.
    fn turn_back(&mut self, handle: u32, cargo: Cargo) {
        let now_ps = self.network.now_ps();
        let flight = &mut self.flights[handle];
        (flight.from, flight.to) = (flight.to, flight.from);
        (flight.cargo, flight.ready_ps) = (cargo, now_ps);
        self.launch(handle);
    }

    /// Until a process that waits sees what has come: where processes share cores that is a turn of its own.
    pub(super) fn poll_ps(&self) -> u64 {
        if self.cores.occupancy().is_oversubscribed() { 0 } else { self.config.software.poll_ps }
    }

    fn hand_over(&mut self, rank: u32, arrived: Arrived) {
        let (wake_ps, mut poll_ps) = (self.config.software.wake_ps, self.poll_ps());
        // Sockets have theirs in what a read takes.
        if matches!(arrived, Arrived::Packet(handle) if self.has_sockets(self.flights[handle].rail)) {
            poll_ps = 0;
        }
        self.states[rank as usize].inbox.push_back(arrived);
        if self.has_cpus(rank) {
            return self.wake_cpu(rank, [poll_ps, wake_ps]);
        }
        // One that is busy looks by itself when it is done.
        let state = &self.states[rank as usize];
        let sleeps = !state.woken && state.clock_ps <= self.network.now_ps();
        if sleeps {
            self.spend(rank, poll_ps);
            self.spend_in_kernel(rank, wake_ps);
        }
        self.notify(rank);
    }

    /// Length of registered memory, bytes.
    pub(super) fn registered_len(&self, region: RemoteRegion) -> Option<usize> {
        let [handle, serial] = region.key.words;
        let registration = (*self.registered.get(u32::try_from(handle).ok()?)?)?;
        (registration.serial == serial).then(|| registration.buffer.len())
    }

    /// So many bytes of registered memory, where all of them are inside.
    fn memory(&self, region: RemoteRegion, len: usize) -> Option<Buffer> {
        let [handle, serial] = region.key.words;
        let registration = (*self.registered.get(u32::try_from(handle).ok()?)?)?;
        let offset = usize::try_from(region.offset).ok()?;
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= registration.buffer.len());
        (is_inside && registration.serial == serial).then(|| registration.buffer.part(offset, len))
    }

    pub(super) fn register(&mut self, buffer: Buffer) -> RemoteKey {
        self.registered_count += 1;
        self.serial += 1;
        let handle = self.registered.insert(Some(Registration { buffer, serial: self.serial, nic: None }));
        RemoteKey { words: [handle.into(), self.serial] }
    }

    pub(super) fn deregister(&mut self, key: RemoteKey) {
        let handle = key.words[0] as u32;
        let taken = self.registered[handle].take();
        assert!(taken.is_some_and(|memory| memory.serial == key.words[1]), "memory is deregistered twice");
        self.registered_count -= 1;
        self.registered.remove(handle);
    }

    pub(super) fn leftovers(&self) -> Option<String> {
        let left = (self.flights.len(), self.registered_count);
        let of_hosts = (left != (0, 0)).then(|| format!("(flights, registrations) {left:?}"));
        of_hosts.or_else(|| self.network.leftovers())
    }
}
