//! Who is busy until when in one host.

use ayatori_fabric::description::{BusKind, StageModel};

use super::Model;
use super::memory::Memory;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From memory to the link.
    Send = 0,
    /// From the link to memory.
    Receive = 1,
}

/// A stage of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) nic: u16,
    pub(crate) direction: Direction,
    pub(crate) index: u8,
    /// Whether this is the first packet of its message, put or get.
    pub(crate) is_first: bool,
}

/// A stage has begun to work on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    /// When its server takes the next one, ps.
    pub(crate) free_ps: u64,
    /// When the packet goes on, ps.
    pub(crate) done_ps: u64,
}

/// A unit's servers.
#[derive(Debug, Clone)]
struct Unit {
    name: String,
    /// When each server is free.
    free_ps: Vec<u64>,
    busy_ps: u64,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// By node; none where memory has no limit.
    memories: Vec<Memory>,
    /// By node where it begins, then node where it ends.
    link_free_ps: Vec<u64>,
    /// By bus: the bus, or both directions of it (to memory, from memory).
    bus_free_ps: Vec<[u64; 2]>,
    /// By bus: until what may be outstanding in each direction is.
    window_free_ps: Vec<[u64; 2]>,
    /// By node, bus and direction: until when the last request in this memory is under way.
    stream_busy_ps: Vec<Vec<[u64; 2]>>,
    units: Vec<Unit>,
    /// The unit of each stage, by NIC, direction and index.
    unit_of: Vec<[Vec<u32>; 2]>,
    /// When the last packet left each stage: packets do not overtake each other.
    left_ps: Vec<[Vec<u64>; 2]>,
}

const PS_PER_S: u128 = 1_000_000_000_000;

fn transfer_ps(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * PS_PER_S / u128::from(bytes_per_s.max(1))) as u64
}

/// Takes a resource, from now or from when it is free, for so long. When that is over.
pub(super) fn take(free_ps: &mut u64, now_ps: u64, time_ps: u64) -> u64 {
    *free_ps = now_ps.max(*free_ps) + time_ps;
    *free_ps
}

impl Host {
    pub(crate) fn new(model: &Model) -> Host {
        let nodes = usize::from(model.node_count);
        let mut units: Vec<Unit> = Vec::new();
        let mut unit_of = Vec::new();
        for nic in &model.nics {
            let first = units.len();
            let mut of_stages = |stages: &[StageModel]| -> Vec<u32> {
                let unit = |stage: &StageModel| {
                    let found = units[first..].iter().position(|unit| unit.name == stage.unit);
                    let index = found.map_or(units.len(), |index| first + index);
                    if found.is_none() {
                        let free_ps = vec![0; stage.servers as usize];
                        units.push(Unit { name: stage.unit.clone(), free_ps, busy_ps: 0 });
                    }
                    index as u32
                };
                stages.iter().map(unit).collect()
            };
            unit_of.push([of_stages(&nic.send), of_stages(&nic.receive)]);
        }
        Host {
            memories: vec![Memory::default(); model.memory_bytes_per_s.map_or(0, |_| nodes)],
            link_free_ps: vec![0; nodes * nodes],
            bus_free_ps: vec![[0; 2]; model.buses.len()],
            window_free_ps: vec![[0; 2]; model.buses.len()],
            stream_busy_ps: vec![vec![[0; 2]; model.buses.len()]; nodes],
            left_ps: unit_of.iter().map(|both| [0, 1].map(|way: usize| vec![0; both[way].len()])).collect(),
            units,
            unit_of,
        }
    }

    pub(crate) fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The unit that does a stage.
    pub(crate) fn unit_of(&self, stage: Stage) -> u32 {
        self.unit_of[usize::from(stage.nic)][stage.direction as usize][usize::from(stage.index)]
    }

    /// When a server of a unit is free.
    pub(crate) fn unit_free_ps(&self, unit: u32) -> u64 {
        self.units[unit as usize].free_ps.iter().copied().min().unwrap_or(0)
    }

    /// How long the servers of each unit were busy, ps, by name.
    pub(crate) fn usage(&self) -> impl Iterator<Item = (&str, u64)> {
        self.units.iter().map(|unit| (unit.name.as_str(), unit.busy_ps))
    }

    /// A server of the stage's unit, free by now, takes a packet of `bytes` whose data are in node `node`.
    pub(crate) fn begin(
        &mut self,
        model: &Model,
        stage: Stage,
        (bytes, node): (u64, u16),
        now_ps: u64,
    ) -> Begun {
        let Stage { nic, direction, index, is_first } = stage;
        let (nic, way, at) = (usize::from(nic), direction as usize, usize::from(index));
        let costs = &model.stages(nic, direction)[at];
        let own_ps = costs.packet_ps
            + if is_first { costs.operation_ps } else { 0 }
            + costs.bytes_per_s.map_or(0, |rate| transfer_ps(bytes, rate));
        let mut begun = Begun { free_ps: now_ps + own_ps, done_ps: now_ps + own_ps };
        if costs.is_dma && bytes > 0 {
            self.memories.iter_mut().for_each(|memory| memory.forget(now_ps));
            begun = self.transfer(model, model.nics[nic].bus, direction, (bytes, node), now_ps + own_ps);
        }
        let left_ps = &mut self.left_ps[nic][way][at];
        begun.done_ps = begun.done_ps.max(*left_ps + 1);
        *left_ps = begun.done_ps;
        let unit = &mut self.units[self.unit_of[nic][way][at] as usize];
        unit.busy_ps += begun.free_ps - now_ps;
        if let Some(server) = unit.free_ps.iter_mut().min() {
            *server = begun.free_ps;
        }
        begun
    }

    /// What a copy by a processor takes that moves so many bytes through the memory of a node, begins at
    /// `from_ps`, at or after now, and takes `own_ps` on an idle memory.
    pub(crate) fn copy_ps(
        &mut self,
        model: &Model,
        (bytes, node): (u64, u16),
        (now_ps, from_ps): (u64, u64),
        own_ps: u64,
    ) -> u64 {
        let Some(rate) = model.memory_bytes_per_s else { return own_ps };
        let memory = &mut self.memories[usize::from(node)];
        memory.forget(now_ps);
        memory.copy(from_ps, own_ps, transfer_ps(bytes, rate))
    }

    /// Data go from one process of the host to another at the rate of the memory, and no processor copies
    /// them. When the memory of a node is done with its side of that.
    pub(crate) fn within(&mut self, model: &Model, (bytes, node): (u64, u16), now_ps: u64) -> u64 {
        let Some(rate) = model.memory_bytes_per_s else { return now_ps };
        let memory = &mut self.memories[usize::from(node)];
        memory.forget(now_ps);
        let work_ps = transfer_ps(bytes, rate);
        let end_ps = memory.take(now_ps, work_ps);
        memory.move_until(now_ps, end_ps, work_ps);
        end_ps
    }

    /// Data cross a bus.
    fn transfer(
        &mut self,
        model: &Model,
        bus: usize,
        direction: Direction,
        (bytes, node): (u64, u16),
        now_ps: u64,
    ) -> Begun {
        let (kind, own_node) = model.buses[bus];
        let mut end_ps = now_ps;
        let work_ps = model.memory_bytes_per_s.map_or(0, |rate| transfer_ps(bytes, rate));
        let mut wait_ps = 0;
        if let Some(memory) = self.memories.get_mut(usize::from(node)) {
            end_ps = memory.take(now_ps, work_ps);
            wait_ps = memory.wait_ps(now_ps, model.memory_ps);
        }
        if let (Some(rate), true) = (model.link_bytes_per_s, node != own_node) {
            let (from, to) = match direction {
                Direction::Send => (node, own_node),
                Direction::Receive => (own_node, node),
            };
            let link = usize::from(from) * usize::from(model.node_count) + usize::from(to);
            end_ps = end_ps.max(take(&mut self.link_free_ps[link], now_ps, transfer_ps(bytes, rate)));
        }
        let streams = &self.stream_busy_ps[usize::from(node)];
        let busy = |bus: &[u64; 2]| bus.iter().filter(|&&busy_ps| busy_ps > now_ps).count() as u32;
        let own = u32::from(streams[bus][direction as usize] > now_ps);
        let other_count = streams.iter().map(busy).sum::<u32>() - own;
        let access_ps = model.access_ps((own_node, node), other_count, wait_ps);
        let begun = match kind {
            BusKind::Pci { bytes_per_s, write, read } => {
                let burst = if direction == Direction::Send { read } else { write };
                // A read waits for memory in every burst.
                let wait_ps = if direction == Direction::Send { wait_ps } else { 0 };
                let time_ps = bytes.div_ceil(burst.bytes) * (burst.overhead_ps + wait_ps)
                    + transfer_ps(bytes, bytes_per_s);
                let end_ps = end_ps.max(take(&mut self.bus_free_ps[bus][0], now_ps, time_ps));
                Begun { free_ps: end_ps, done_ps: end_ps + access_ps }
            }
            BusKind::PciExpress { .. } => {
                let (time_ps, latency_ps) = self.express(kind, (bus, direction), (bytes, access_ps), now_ps);
                let end_ps = end_ps.max(time_ps);
                Begun { free_ps: end_ps, done_ps: end_ps + latency_ps }
            }
        };
        self.stream_busy_ps[usize::from(node)][bus][direction as usize] = begun.done_ps;
        if let Some(memory) = self.memories.get_mut(usize::from(node)) {
            memory.move_until(now_ps, begun.free_ps, work_ps);
        }
        begun
    }

    /// When the bus and what may be outstanding are done with these data, and what is to be added until the
    /// last of them is there.
    fn express(
        &mut self,
        kind: BusKind,
        (bus, direction): (usize, Direction),
        (bytes, access_ps): (u64, u64),
        now_ps: u64,
    ) -> (u64, u64) {
        let BusKind::PciExpress {
            bytes_per_s,
            payload_bytes,
            header_bytes,
            completion_bytes,
            completion_header_bytes,
            read_request_bytes,
            reads_max,
            read_ps,
            writes_max_bytes,
        } = kind
        else {
            return (now_ps, 0);
        };
        let [to_memory, from_memory] = &mut self.bus_free_ps[bus];
        let data_ps = |payload, header| transfer_ps(bytes + bytes.div_ceil(payload) * header, bytes_per_s);
        let (end_ps, latency_ps, outstanding) = match direction {
            Direction::Send => {
                let requests_ps = transfer_ps(bytes.div_ceil(read_request_bytes) * header_bytes, bytes_per_s);
                let _ = take(to_memory, now_ps, requests_ps);
                let most = reads_max.map(|count| count.saturating_mul(read_request_bytes));
                (
                    take(from_memory, now_ps, data_ps(completion_bytes, completion_header_bytes)),
                    read_ps + access_ps,
                    most,
                )
            }
            Direction::Receive => {
                (take(to_memory, now_ps, data_ps(payload_bytes, header_bytes)), access_ps, writes_max_bytes)
            }
        };
        let Some(outstanding) = outstanding else { return (end_ps, latency_ps) };
        let window_ps = (u128::from(bytes) * u128::from(latency_ps) / u128::from(outstanding.max(1))) as u64;
        (end_ps.max(take(&mut self.window_free_ps[bus][direction as usize], now_ps, window_ps)), latency_ps)
    }
}
