//! Hosts: NUMA memories, buses, and NICs as pipelines of stages.
//!
//! Owns: what a packet takes from memory to the link and from the link to memory ([`Model`]), and who is busy
//! with it meanwhile (`Host`). Deliberately absent: what a packet is for, and what software costs
//! (`cluster`).
//!
//! # Model
//!
//! A packet takes the stages of its NIC one after the other. Each is done by a *unit* (a processor of the
//! adapter, a DMA engine) with one or more servers; stages of the same unit take turns, first come, first
//! served. So the slowest unit decides the rate, and the sum of all stages the latency. In one stage data
//! cross the bus (`dma`):
//!
//! - *PCI*: the bus does one thing at a time. A transfer is cut into bursts, each of which costs its
//!   overhead. A read waits for memory in every burst, a write does not, so reads are slower by what the file
//!   says of both.
//! - *PCI Express*: each direction has its rate; `n` bytes take `n + ceil(n / payload) * header` on it, and
//!   what answers a read the same with the payload and header of a completion (often a cache line). Reads are
//!   split transactions: at most `reads_max` requests are outstanding, so a read goes no faster than
//!   `reads_max * request / L`, where `L` is the time from a request to its data. Writes are posted: at most
//!   `writes_max_bytes` are on their way to memory, so a write goes no faster than `writes_max_bytes / T`,
//!   where `T` is the time until a write is done in memory.
//! - *Distance*: to another NUMA node a read or write passes the link between the sockets, in its direction,
//!   there and back: `L` and `T` grow by two hops. A memory answers when it is done and the other socket has
//!   answered the probe for a copy in its caches, whichever is later (broadcast probes as on Opteron).
//!
//! Reading far is nearly free where requests for a whole packet are outstanding; writing far costs as
//! `T(near) / T(far)` where few writes are. Nothing says which of them is slower: it follows from how many
//! are outstanding.
//!
//! - *Banks*: a bank of a memory has one row open, and to open another costs time (`row_ps`). A stream of
//!   requests (a direction of a bus) goes through its row, unless another stream has opened one of its own in
//!   the same bank meanwhile. Streams lie in any of `B` banks, so with `n` other streams in this memory that
//!   happens with probability `1 - (1 - 1/B)^n`, and the mean is added to `L` and `T`: the rate suffers only
//!   where `T` decides it. Other banks go on, so the memory's bandwidth does not.
//!
//! - *Processors* use the memories too (`memory`). A copy by a process moves `2 n` bytes through the memory
//!   of the node that it runs on, a reduction `3 n`, what is in the cache nothing; a DMA moves `n`. Copies
//!   take what adapters leave, and are longer where that is less than they ask for. Adapters wait: where
//!   processes ask for `C` and get `G < C` bytes/s, a memory answers after `C / G` times its time, which is
//!   part of `L` and `T`. So an adapter goes slower only where what may be outstanding does not cover that.
//!
//! Every direction of a bus, every link between sockets, every memory serves its requests one after the
//! other.
//!
//! Not modelled: memory that programs use while they compute, that ranks of one host use for packets in
//! pieces and steps in shared memory, the time of memory that is nearly full but not asked for more than it
//! gives, lines that a cache reads before it writes them, what adapters write into caches, an adapter whose
//! memory for received packets is full.

mod memory;
mod state;

use ayatori_fabric::description::{BusKind, HostModel, NicModel, StageModel};

pub(crate) use state::{Direction, Host, Stage};

/// A host's hardware. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// NUMA nodes.
    pub node_count: u16,
    /// Bandwidth of each node's memory, bytes/s; `None`: no limit.
    pub memory_bytes_per_s: Option<u64>,
    /// Time of a memory access within a node, ps.
    pub memory_ps: u64,
    /// Banks of each node's memory, and the time to open another row in one, ps; `None`: rows cost nothing.
    pub banks: Option<(u32, u64)>,
    /// One way to another node, ps.
    pub hop_ps: u64,
    /// Bandwidth from one node to another, bytes/s; `None`: no limit.
    pub link_bytes_per_s: Option<u64>,
    /// NICs, in the order of the file.
    pub nics: Vec<Nic>,
    /// Kinds of buses and the nodes they hang on.
    pub buses: Vec<(BusKind, u16)>,
}

/// A NIC of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Index of its bus.
    pub bus: usize,
    /// Memory for packets to be sent, bytes.
    pub buffer_bytes: u64,
    /// From memory to the link.
    pub send: Vec<StageModel>,
    /// From the link to memory.
    pub receive: Vec<StageModel>,
}

/// Packets that a NIC holds where its memory is not given.
const BUFFER_PACKETS: u64 = 16;

impl Model {
    /// The hardware that a description gives; `None` if it says nothing of buses and stages: data are then at
    /// the NIC at once. `packet_bytes`: the longest packet of the network.
    pub fn of(host: &HostModel, packet_bytes: u32) -> Option<Model> {
        let says_something = |nic: &NicModel| {
            nic.bus.is_some()
                || nic.bus_bytes_per_s.is_some()
                || nic.packet_ps.is_some()
                || !nic.send_stages.is_empty()
        };
        if !host.nics.iter().any(says_something) {
            return None;
        }
        let mut buses: Vec<(BusKind, u16)> =
            host.buses.iter().map(|bus| (bus.kind, bus.numa_node as u16)).collect();
        let nics = host.nics.iter().map(|nic| Nic {
            bus: nic.bus.unwrap_or_else(|| {
                buses.push((plain_bus(nic.bus_bytes_per_s), nic.numa_node as u16));
                buses.len() - 1
            }),
            buffer_bytes: nic.buffer_bytes.unwrap_or(BUFFER_PACKETS * u64::from(packet_bytes)),
            send: usual_or(&nic.send_stages, || {
                vec![dma("DMA read", nic.dma_setup_ps), engine("send engine", nic)]
            }),
            receive: usual_or(&nic.receive_stages, || {
                vec![engine("receive engine", nic), dma("DMA write", None)]
            }),
        });
        Some(Model {
            node_count: host.numa_node_count as u16,
            memory_bytes_per_s: host.memory_bytes_per_s,
            memory_ps: host.memory_ps.unwrap_or(0),
            banks: host.memory_bank_count.zip(host.memory_row_ps),
            hop_ps: host.numa_hop_ps.unwrap_or(0),
            link_bytes_per_s: host.numa_link_bytes_per_s,
            nics: nics.collect(),
            buses,
        })
    }

    /// How long each stage of a NIC takes for one packet of `bytes` on an idle host with the data in node
    /// `node`, ps, with the stage's name and unit: first when sending, then when receiving.
    pub fn stage_times(&self, nic: usize, bytes: u64, node: u16) -> [Vec<(String, String, u64)>; 2] {
        [Direction::Send, Direction::Receive].map(|direction| {
            let stages = self.stages(nic, direction);
            let time = |(index, stage): (usize, &StageModel)| {
                let mut idle = Host::new(self);
                let what = Stage { nic: nic as u16, direction, index: index as u8, is_first: true };
                let begun = idle.begin(self, what, (bytes, node), 0);
                (stage.name.clone(), stage.unit.clone(), begun.done_ps)
            };
            stages.iter().enumerate().map(time).collect()
        })
    }

    /// What a DMA of `bytes` between a NIC and node `node` takes on an idle host, ps: read from memory,
    /// written to memory. With what the stage costs beside it.
    pub fn dma_ps(&self, nic: usize, bytes: u64, node: u16) -> [u64; 2] {
        let times = self.stage_times(nic, bytes, node);
        [Direction::Send, Direction::Receive].map(|direction| {
            let stages = self.stages(nic, direction).iter().zip(&times[direction as usize]);
            stages.filter(|(stage, _)| stage.is_dma).map(|(_, time)| time.2).sum()
        })
    }

    pub(crate) fn stages(&self, nic: usize, direction: Direction) -> &[StageModel] {
        match direction {
            Direction::Send => &self.nics[nic].send,
            Direction::Receive => &self.nics[nic].receive,
        }
    }

    /// Until memory has answered, probes included, ps: the mean with so many other streams in that memory,
    /// and where processors make it wait so long.
    fn access_ps(&self, (from, to): (u16, u16), other_count: u32, wait_ps: u64) -> u64 {
        let probe_ps = if self.node_count > 1 { 2 * self.hop_ps } else { 0 };
        let way_ps = if from == to { 0 } else { 2 * self.hop_ps };
        let memory_ps = self.memory_ps + wait_ps;
        let open_ps = memory_ps.max(probe_ps);
        let Some((bank_count, row_ps)) = self.banks else { return open_ps + way_ps };
        let closed_ps = (memory_ps + row_ps).max(probe_ps);
        // Of 2^32: how often the row is still open.
        const ALWAYS: u128 = 1 << 32;
        let bank_count = u128::from(bank_count.max(1));
        let open = (0..other_count).fold(ALWAYS, |part, _| part * (bank_count - 1) / bank_count);
        let closed = u128::from(closed_ps - open_ps) * (ALWAYS - open) / ALWAYS;
        open_ps + closed as u64 + way_ps
    }
}

fn usual_or(given: &[StageModel], usual: impl Fn() -> Vec<StageModel>) -> Vec<StageModel> {
    if given.is_empty() { usual() } else { given.to_vec() }
}

fn dma(name: &str, setup_ps: Option<u64>) -> StageModel {
    StageModel {
        name: name.into(),
        unit: name.into(),
        servers: 1,
        operation_ps: setup_ps.unwrap_or(0),
        packet_ps: 0,
        bytes_per_s: None,
        is_dma: true,
    }
}

fn engine(name: &str, nic: &NicModel) -> StageModel {
    let packet_ps = nic.packet_ps.unwrap_or(0);
    StageModel { operation_ps: 0, packet_ps, is_dma: false, ..dma(name, None) }
}

/// A bus of which only the rate is known.
fn plain_bus(bytes_per_s: Option<u64>) -> BusKind {
    BusKind::PciExpress {
        bytes_per_s: bytes_per_s.unwrap_or(u64::MAX),
        payload_bytes: u64::MAX,
        header_bytes: 0,
        completion_bytes: u64::MAX,
        completion_header_bytes: 0,
        read_request_bytes: u64::MAX,
        reads_max: None,
        read_ps: 0,
        writes_max_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nodes() -> Model {
        Model {
            node_count: 2,
            memory_bytes_per_s: None,
            memory_ps: 60_000,
            banks: Some((4, 30_000)),
            hop_ps: 31_000,
            link_bytes_per_s: None,
            nics: Vec::new(),
            buses: Vec::new(),
        }
    }

    #[test]
    fn transfers_within_a_host_and_copies_share_a_node() {
        let model = Model { memory_bytes_per_s: Some(1_000_000_000), ..two_nodes() };
        let mut host = Host::new(&model);
        let us = 1_000_000;
        let ends = [0, 0, 1].map(|node| host.within(&model, (1_000, node), 0));
        assert_eq!(ends, [us, 2 * us, us]);
        // Behind both, and behind that of the other node.
        let mut copy_ps = |node| host.copy_ps(&model, (1_000, node), (0, 0), us);
        assert_eq!([copy_ps(0), copy_ps(1), copy_ps(1)], [3 * us, 2 * us, 3 * us]);
        let unlimited = two_nodes();
        assert_eq!(Host::new(&unlimited).copy_ps(&unlimited, (1_000, 0), (0, 0), us), us);
    }

    #[test]
    fn other_streams_close_rows_as_often_as_banks_meet() {
        let model = two_nodes();
        // The probe's answer takes 62 ns, a row that is closed 90.
        let near = [0, 1, 2].map(|other_count| model.access_ps((0, 0), other_count, 0));
        assert_eq!(near, [62_000, 62_000 + 28_000 / 4, 62_000 + 28_000 * 7 / 16]);
        assert_eq!(model.access_ps((0, 1), 1, 0), near[1] + 62_000);
        let plain = Model { banks: None, ..model };
        // A wait of 2 ns is hidden behind the probe, one of 12 is not.
        let waits = [0, 2_000, 12_000].map(|wait_ps| plain.access_ps((0, 0), 2, wait_ps));
        assert_eq!(waits, [62_000, 62_000, 72_000]);
    }
}
