//! Makes of hosts: `[host_models.NAME]` with memories, buses and NICs as pipelines of stages; what software
//! costs is in `host_software`.

use crate::plan::INTERFACE_NAME_BYTES_MAX;

use super::error::suggest;
use super::host_software::{LongerTime, RateWithin, SoftwareCosts, longer, rates, software};
use super::models::{GIGA, PS_PER_MS, PS_PER_NS, RATE_GBPS, TIME_NS};
use super::reader::{Located, Result, Section, check_name};

/// A make of host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostModel {
    /// Its name in the description.
    pub name: String,
    /// Processor sockets.
    pub socket_count: u32,
    /// Cores of a socket.
    pub cores_per_socket_count: u32,
    /// NUMA nodes, spread evenly over the sockets.
    pub numa_node_count: u32,
    /// Memory of the whole host, bytes.
    pub memory_bytes: Option<u64>,
    /// Memory bandwidth of one NUMA node, bytes/s.
    pub memory_bytes_per_s: Option<u64>,
    /// Time of a memory access within a node, ps.
    pub memory_ps: Option<u64>,
    /// Banks of one NUMA node's memory that can each have a row open.
    pub memory_bank_count: Option<u32>,
    /// Time to close a row of a bank and open another, ps.
    pub memory_row_ps: Option<u64>,
    /// Time for a cache line to reach another core of the host, ps.
    pub core_to_core_ps: Option<u64>,
    /// Cache in which copies of a core hit, bytes.
    pub cache_bytes: Option<u64>,
    /// One way between two NUMA nodes, ps.
    pub numa_hop_ps: Option<u64>,
    /// Bandwidth between two NUMA nodes in each direction, bytes/s.
    pub numa_link_bytes_per_s: Option<u64>,
    /// Its buses.
    pub buses: Vec<BusModel>,
    /// Its NICs, at least one.
    pub nics: Vec<NicModel>,
    /// Whether several NICs are one bond (a LAG at the switch) or a rail each.
    pub nics_as: NicsAs,
    /// Costs of communication for its processors.
    pub software: SoftwareCosts,
    /// How its TCP sends; the simulator's, where switches drop frames.
    pub tcp: TcpModel,
}

/// TCP of a host's system; what is not given is the simulator's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpModel {
    /// Segments that may be sent before anything is acknowledged.
    pub initial_window_count: Option<u32>,
    /// Most payload on its way in a connection, bytes.
    pub window_max_bytes: Option<u32>,
    /// Least time beyond the round trip before a segment is sent again for want of an answer, ps.
    pub timeout_min_ps: Option<u64>,
    /// How long an acknowledgement may wait, ps.
    pub ack_delay_ps: Option<u64>,
    /// The host looks at what has arrived up to so much later, at random, ps.
    pub jitter_ps: Option<u64>,
}

/// How a host uses several NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicsAs {
    /// Each with an address of its own.
    Rails,
    /// One interface, traffic spread by hash: what Misc's hosts did (the paper, section 4.2.1).
    Bond,
}

/// A bus between NICs and memory. NICs that name the same bus share it.
#[derive(Debug, Clone, PartialEq)]
pub struct BusModel {
    /// Its name.
    pub name: String,
    /// The NUMA node it hangs on.
    pub numa_node: u32,
    /// The kind of bus.
    pub kind: BusKind,
}

/// A kind of bus, with what limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusKind {
    /// PCI: one transfer at a time, in bursts.
    Pci {
        /// Width times clock, bytes/s.
        bytes_per_s: u64,
        /// To memory.
        write: Burst,
        /// From memory.
        read: Burst,
    },
    /// PCI Express: packets, each direction by itself.
    PciExpress {
        /// Each direction, after line coding, bytes/s.
        bytes_per_s: u64,
        /// Payload of a packet at most, bytes.
        payload_bytes: u64,
        /// Header, framing and checksum of a packet, bytes.
        header_bytes: u64,
        /// Data of a packet that answers a read, at most, bytes.
        completion_bytes: u64,
        /// Header, framing and checksum of such a packet, bytes.
        completion_header_bytes: u64,
        /// Maximum size of one read request, bytes.
        read_request_bytes: u64,
        /// Read requests that may be outstanding; `None`: no limit.
        reads_max: Option<u64>,
        /// From a read request to its data, without the memory's own time, ps.
        read_ps: u64,
        /// Posted writes on their way to memory at most, bytes; `None`: no limit.
        writes_max_bytes: Option<u64>,
    },
}

/// What a burst on a bus moves, and what it costs beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Data of one burst at most, bytes.
    pub bytes: u64,
    /// Arbitration, address, wait states and turn-around of a burst, ps.
    pub overhead_ps: u64,
}

/// A NIC.
#[derive(Debug, Clone, PartialEq)]
pub struct NicModel {
    /// The interface's name.
    pub name: String,
    /// Rate in each direction, bit/s.
    pub rate_bits_per_s: u64,
    /// The NUMA node it hangs on.
    pub numa_node: u32,
    /// Largest payload of a frame, bytes.
    pub mtu_bytes: u32,
    /// Rate of the bus to memory, bytes/s, where the bus is not described further.
    pub bus_bytes_per_s: Option<u64>,
    /// Index of its bus in the host's buses.
    pub bus: Option<usize>,
    /// Time for a DMA to be set up, ps.
    pub dma_setup_ps: Option<u64>,
    /// Time from a command written by the host until the NIC has seen it, ps.
    pub command_ps: Option<u64>,
    /// Fixed time for every packet, ps.
    pub packet_ps: Option<u64>,
    /// Its memory for packets to be sent, bytes.
    pub buffer_bytes: Option<u64>,
    /// What a packet goes through from memory to the link.
    pub send_stages: Vec<StageModel>,
    /// What a packet goes through from the link to memory.
    pub receive_stages: Vec<StageModel>,
    /// The device of the library that it is driven by, for the simulator.
    pub device: Option<NicDevice>,
    /// Longest message that goes eagerly, bytes.
    pub eager_bytes_max: Option<u64>,
    /// Longest packet of the protocols, their header included, bytes.
    pub packet_bytes_max: Option<u64>,
    /// How long messages' data move.
    pub transfer: Option<NicTransfer>,
    /// Data of gets and puts between the same two processes leave one after the other, not a packet of each
    /// in turn.
    pub data_in_order: bool,
    /// What the operating system's sockets cost, of a NIC that is driven by `tcp`; `None`: a copy at either
    /// side.
    pub sockets: Option<SocketCosts>,
}

/// What the operating system takes to send and receive by a socket. A send and a read go through the
/// protocols of the network, copy, and may be of several packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketCosts {
    /// What the library takes the interface's rate for, bytes/s; `None`: for what it is.
    pub said_bytes_per_s: Option<u64>,
    /// A send, beside its bytes, ps.
    pub send_ps: u64,
    /// Rate of sends while no reader is active, bytes/s.
    pub send_bytes_per_s: Option<u64>,
    /// A send right after another, which the other side reads meanwhile, beside its bytes, ps; `None`: as
    /// any.
    pub stream_ps: Option<u64>,
    /// Such sends, bytes/s; `None`: as any.
    pub stream_bytes_per_s: Option<u64>,
    /// What a packet takes more that comes in several segments, the last of them short and read by itself,
    /// ps.
    pub segment_ps: u64,
    /// Cost of a read by a polling process, without its bytes, ps.
    pub receive_ps: u64,
    /// Rate of reads while no sender is active, bytes/s.
    pub receive_bytes_per_s: Option<u64>,
    /// Sends, sends right after others, and reads by their length, the shortest first: beside these times,
    /// and in place of the rates.
    pub longer_sends: Vec<LongerTime>,
    /// See `longer_sends`.
    pub longer_streams: Vec<LongerTime>,
    /// See `longer_sends`.
    pub longer_receives: Vec<LongerTime>,
    /// Sends and reads of the same bytes at once, by what a process goes through.
    pub relay_rates: Vec<RateWithin>,
    /// Long packets sent right after others, by what a process goes through.
    pub stream_rates: Vec<RateWithin>,
    /// The library's software for a packet sent or received, beside that of any packet, ps.
    pub library_ps: u64,
    /// Sums of packets by the library, on both sides, bytes/s.
    pub checksum_bytes_per_s: Option<u64>,
}

/// How a NIC moves the data of long messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicTransfer {
    /// The receiver's NIC reads the sender's memory.
    Get,
    /// The sender's NIC writes the receiver's memory.
    Put,
    /// Packets through the protocol engine.
    Packets,
}

/// A stage of a NIC: every packet takes so long in it, on one of its unit's servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageModel {
    /// Name of the stage.
    pub name: String,
    /// The unit that does it; stages of the same unit take turns.
    pub unit: String,
    /// How many the unit does at once.
    pub servers: u32,
    /// Once for every message, put or get, ps.
    pub operation_ps: u64,
    /// For every packet, ps.
    pub packet_ps: u64,
    /// For every byte: the rate; `None`: no time.
    pub bytes_per_s: Option<u64>,
    /// Whether the packet's data go over the bus in it: from memory when sending, to memory when receiving.
    pub is_dma: bool,
}

/// A device of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicDevice {
    /// `tcp`: packets over a connection that may break.
    Tcp,
    /// `shm`: packets through shared memory, and copies by the kernel.
    Shm,
    /// `rdma`: puts and gets by the NIC.
    Rdma,
}

pub(super) fn host_model(name: &Located<String>, section: Section<'_>) -> Result<HostModel> {
    let s = &section;
    let socket_count = s.count("sockets", 1..=64)?.unwrap_or(1) as u32;
    let numa_node_count = s.count("numa_nodes", 1..=256)?.unwrap_or(u64::from(socket_count)) as u32;
    let buses: Result<Vec<BusModel>> =
        s.sections("bus")?.into_iter().map(|section| bus(section, numa_node_count)).collect();
    let buses = buses?;
    check_names(s, "bus", buses.iter().map(|bus| bus.name.as_str()))?;
    let nics: Result<Vec<NicModel>> =
        s.sections("nic")?.into_iter().map(|section| nic(section, numa_node_count, &buses)).collect();
    let nics = nics?;
    if nics.is_empty() {
        return Err(s.error_here("has no NIC", "add `nic = [{ name = \"eth0\", rate_gbps = 1 }]`"));
    }
    check_names(s, "nic", nics.iter().map(|nic| nic.name.as_str()))?;
    let nics_as = match s.choice("nics_as", &["rails", "bond"])? {
        Some(1) => NicsAs::Bond,
        _ => NicsAs::Rails,
    };
    if nics_as == NicsAs::Bond && nics.iter().any(|nic| nic.rate_bits_per_s != nics[0].rate_bits_per_s) {
        let problem = "a bond of NICs with unequal rates would be as slow as the slowest";
        return Err(s.error("nics_as", problem, "use \"rails\", or NICs of one rate"));
    }
    let per_s = |key| s.scaled(key, GIGA, 1e-3, 1e6);
    let memory_bank_count = s.count("memory_banks", 1..=1 << 16)?.map(|count| count as u32);
    let memory_row_ps = s.scaled("memory_row_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?;
    if memory_bank_count.is_some() != memory_row_ps.is_some() {
        let problem = "`memory_banks` and `memory_row_ns` have an effect only together";
        return Err(s.error_here(problem, "give both or neither"));
    }
    let model = HostModel {
        name: name.value.clone(),
        socket_count,
        cores_per_socket_count: s.count("cores_per_socket", 1..=4096)?.unwrap_or(1) as u32,
        numa_node_count,
        memory_bytes: s.scaled("memory_gib", (1_u64 << 30) as f64, 1e-3, 1e6)?,
        memory_bytes_per_s: per_s("memory_gbytes_per_s")?,
        memory_ps: s.scaled("memory_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?,
        memory_bank_count,
        memory_row_ps,
        core_to_core_ps: s.scaled("core_to_core_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?,
        cache_bytes: s.scaled("cache_mib", (1_u64 << 20) as f64, 1e-3, 1e6)?,
        numa_hop_ps: s.scaled("numa_hop_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?,
        numa_link_bytes_per_s: per_s("numa_link_gbytes_per_s")?,
        buses,
        nics,
        nics_as,
        software: s.section("software")?.map(software).transpose()?.unwrap_or_default(),
        tcp: s.section("tcp")?.map(tcp).transpose()?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(model)
}

fn check_names<'a>(s: &Section<'_>, key: &'static str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            let what = if key == "nic" { "NICs are" } else { "buses are" };
            return Err(s.error(
                key,
                format!("two {what} called {name:?}"),
                format!("give every {} its own name", if key == "nic" { "NIC" } else { "bus" }),
            ));
        }
        seen.push(name);
    }
    Ok(())
}

fn numa_node(s: &Section<'_>, numa_node_count: u32) -> Result<u32> {
    let numa_node = s.count("numa_node", 0..=255)?.unwrap_or(0) as u32;
    if numa_node >= numa_node_count {
        let problem = format!("the host has no NUMA node {numa_node}");
        return Err(s.error("numa_node", problem, format!("use 0 to {}", numa_node_count - 1)));
    }
    Ok(numa_node)
}

/// Rate of a lane in each direction after line coding, in bytes/s, by generation: 8b/10b of 2.5 and 5 GT/s,
/// 128b/130b of 8, 16 and 32 GT/s, and 242 of 256 B of a flit at 64 GT/s (PCI Express Base Specification
/// 6.0).
const LANE_BYTES_PER_S: [u64; 6] =
    [250_000_000, 500_000_000, 984_615_385, 1_969_230_769, 3_938_461_538, 7_562_500_000];

fn bus(section: Section<'_>, numa_node_count: u32) -> Result<BusModel> {
    let s = &section;
    let name = s.name("name", "\"pci0\"")?.value;
    let numa_node = numa_node(s, numa_node_count)?;
    let kind = match s.choice("kind", &["pci", "pci-express"])? {
        Some(0) => pci(s)?,
        Some(_) => pci_express(s)?,
        None => {
            return Err(s.error("kind", "is missing", "add `kind = \"pci-express\"` or `kind = \"pci\"`"));
        }
    };
    section.finish()?;
    Ok(BusModel { name, numa_node, kind })
}

fn pci(s: &Section<'_>) -> Result<BusKind> {
    let width_bits = s.required_count("width_bits", 8..=1024, "64")?;
    let clock_khz = s.required_scaled("clock_mhz", 1e3, (1.0, 10_000.0), "33.33")?;
    let clock_ps = 1e9 / clock_khz as f64;
    let burst = |bytes, clocks| -> Result<Burst> {
        Ok(Burst {
            bytes: s.count(bytes, 4..=1 << 20)?.unwrap_or(4096),
            overhead_ps: s.scaled(clocks, clock_ps, 0.0, 1e4)?.unwrap_or(0),
        })
    };
    Ok(BusKind::Pci {
        bytes_per_s: width_bits / 8 * clock_khz * 1_000,
        write: burst("write_burst_bytes", "write_burst_clocks")?,
        read: burst("read_burst_bytes", "read_burst_clocks")?,
    })
}

fn pci_express(s: &Section<'_>) -> Result<BusKind> {
    let lanes = s.required_count("lanes", 1..=32, "16")?;
    let generation = s.required_count("generation", 1..=LANE_BYTES_PER_S.len() as u64, "5")?;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1);
    let payload_bytes = s.count("payload_bytes", 64..=4096)?.unwrap_or(256);
    Ok(BusKind::PciExpress {
        bytes_per_s: lanes * LANE_BYTES_PER_S[generation as usize - 1],
        payload_bytes,
        header_bytes: s.count("header_bytes", 0..=256)?.unwrap_or(24),
        completion_bytes: s.count("completion_bytes", 64..=4096)?.unwrap_or(payload_bytes),
        // Three words of header where a write to 64-bit addresses has four.
        completion_header_bytes: s.count("completion_header_bytes", 0..=256)?.unwrap_or(20),
        read_request_bytes: s.count("read_request_bytes", 64..=4096)?.unwrap_or(512),
        reads_max: s.count("reads_max", 1..=4096)?,
        read_ps: time("read_ns")?.unwrap_or(0),
        writes_max_bytes: s.count("writes_max_bytes", 64..=1 << 24)?,
    })
}

fn nic(section: Section<'_>, numa_node_count: u32, buses: &[BusModel]) -> Result<NicModel> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1);
    let name = s.name("name", "\"eth0\"")?;
    if name.value.len() > INTERFACE_NAME_BYTES_MAX || check_name(&name.value).is_err() {
        let problem = format!("{:?} cannot be the name of a Linux network interface", name.value);
        return Err(s.error_at("name", &name, problem, "use at most 15 letters, digits, `.`, `_` and `-`"));
    }
    let own_node = numa_node(s, numa_node_count)?;
    let bus_names: Vec<&str> = buses.iter().map(|bus| bus.name.as_str()).collect();
    let bus = named_bus(s, &bus_names)?;
    let bus_bytes_per_s = s.scaled("bus_gbytes_per_s", GIGA, 1e-3, 1e6)?;
    if bus.is_some() && (bus_bytes_per_s.is_some() || s.has("numa_node")) {
        let key = if bus_bytes_per_s.is_some() { "bus_gbytes_per_s" } else { "numa_node" };
        return Err(s.error(key, "is said by the NIC's bus", "leave it out, or leave out `bus`"));
    }
    let stages = |key| -> Result<Vec<StageModel>> { s.sections(key)?.into_iter().map(stage).collect() };
    let (send_stages, receive_stages) = (stages("send_stages")?, stages("receive_stages")?);
    check_stages(s, &send_stages, &receive_stages)?;
    let model = NicModel {
        name: name.value,
        rate_bits_per_s: s.required_scaled("rate_gbps", GIGA, RATE_GBPS, "1")?,
        numa_node: bus.map_or(own_node, |bus| buses[bus].numa_node),
        mtu_bytes: s.count("mtu_bytes", 68..=65_535)?.unwrap_or(1500) as u32,
        bus_bytes_per_s,
        bus,
        dma_setup_ps: time("dma_setup_ns")?,
        command_ps: time("command_ns")?,
        packet_ps: time("packet_ns")?,
        buffer_bytes: s.count("buffer_bytes", 64..=1 << 32)?,
        send_stages,
        receive_stages,
        device: s
            .choice("device", &["tcp", "shm", "rdma"])?
            .map(|choice| [NicDevice::Tcp, NicDevice::Shm, NicDevice::Rdma][choice]),
        eager_bytes_max: s.count("eager_bytes_max", 0..=1 << 24)?,
        packet_bytes_max: s.count("packet_bytes_max", 192..=1 << 24)?,
        transfer: s
            .choice("transfer", &["get", "put", "packets"])?
            .map(|choice| [NicTransfer::Get, NicTransfer::Put, NicTransfer::Packets][choice]),
        data_in_order: s.choice("data_order", &["in-turn", "in-order"])? == Some(1),
        sockets: s.section("sockets")?.map(sockets).transpose()?,
    };
    if model.sockets.is_some() && model.device != Some(NicDevice::Tcp) {
        return Err(s.error(
            "sockets",
            "are what `device = \"tcp\"` uses",
            "leave them out, or say `device`",
        ));
    }
    let said = [model.eager_bytes_max.is_some(), model.packet_bytes_max.is_some(), model.transfer.is_some()];
    if model.device.is_some() && said.contains(&true) {
        let problem = "says itself how long packets are and how data move";
        let remedy = "leave out `device`, or `eager_bytes_max`, `packet_bytes_max` and `transfer`";
        return Err(s.error("device", problem, remedy));
    }
    if let (Some(eager), Some(packet)) = (model.eager_bytes_max, model.packet_bytes_max)
        && eager + HEADER_ROOM_BYTES > packet
    {
        let problem = format!("an eager message of {eager} B and its header do not fit into a packet");
        let remedy = format!("use at least {}", eager + HEADER_ROOM_BYTES);
        return Err(s.error("packet_bytes_max", problem, remedy));
    }
    section.finish()?;
    Ok(model)
}

fn sockets(section: Section<'_>) -> Result<SocketCosts> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1).map(|time| time.unwrap_or(0));
    let rate = |key| s.scaled(key, GIGA, 1e-3, 1e6);
    let costs = SocketCosts {
        said_bytes_per_s: s.scaled("said_gbps", GIGA / 8.0, 1e-3, 1e6)?,
        send_ps: time("send_ns")?,
        send_bytes_per_s: rate("send_gbytes_per_s")?,
        stream_ps: s.scaled("stream_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?,
        stream_bytes_per_s: rate("stream_gbytes_per_s")?,
        segment_ps: time("segment_ns")?,
        receive_ps: time("receive_ns")?,
        receive_bytes_per_s: rate("receive_gbytes_per_s")?,
        longer_sends: longer(s, "longer_send")?,
        longer_streams: longer(s, "longer_stream")?,
        longer_receives: longer(s, "longer_receive")?,
        relay_rates: rates(s, "relay_rate")?,
        stream_rates: rates(s, "stream_rate")?,
        library_ps: time("library_ns")?,
        checksum_bytes_per_s: rate("checksum_gbytes_per_s")?,
    };
    section.finish()?;
    Ok(costs)
}

/// A packet is longer than the payload that it carries by this at most, bytes: the protocols' headers.
const HEADER_ROOM_BYTES: u64 = 64;

fn named_bus(s: &Section<'_>, names: &[&str]) -> Result<Option<usize>> {
    let Some(word) = s.text("bus")? else { return Ok(None) };
    match names.iter().position(|name| *name == word.value) {
        Some(index) => Ok(Some(index)),
        None => {
            let problem = format!("the host has no bus {:?}", word.value);
            Err(s.error_at("bus", &word, problem, suggest(&word.value, names)))
        }
    }
}

fn stage(section: Section<'_>) -> Result<StageModel> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1).map(|time| time.unwrap_or(0));
    let name = s.required_text("name", "\"DMA set-up\"")?.value;
    let model = StageModel {
        unit: s.text("unit")?.map_or_else(|| name.clone(), |unit| unit.value),
        name,
        servers: s.count("servers", 1..=64)?.unwrap_or(1) as u32,
        operation_ps: time("operation_ns")?,
        packet_ps: time("packet_ns")?,
        bytes_per_s: s.scaled("gbytes_per_s", GIGA, 1e-6, 1e6)?,
        is_dma: s.flag("dma")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(model)
}

fn check_stages(s: &Section<'_>, send: &[StageModel], receive: &[StageModel]) -> Result<()> {
    if send.is_empty() != receive.is_empty() {
        let (has, lacks) = if send.is_empty() {
            ("receive_stages", "send_stages")
        } else {
            ("send_stages", "receive_stages")
        };
        return Err(s.error(has, format!("stands without `{lacks}`"), format!("add `{lacks}`")));
    }
    for (key, stages) in [("send_stages", send), ("receive_stages", receive)] {
        if !stages.is_empty() && stages.iter().filter(|stage| stage.is_dma).count() != 1 {
            let problem = "data cross the bus in one stage, no more and no fewer";
            return Err(s.error(key, problem, "give one stage `dma = true`"));
        }
    }
    let all: Vec<&StageModel> = send.iter().chain(receive).collect();
    for stage in &all {
        let other = all.iter().find(|other| other.unit == stage.unit && other.servers != stage.servers);
        if let Some(other) = other {
            let problem = format!(
                "unit {:?} has {} servers in stage {:?} and {} in {:?}",
                stage.unit, stage.servers, stage.name, other.servers, other.name
            );
            return Err(s.error("send_stages", problem, "give a unit the same `servers` everywhere"));
        }
    }
    Ok(())
}

fn tcp(section: Section<'_>) -> Result<TcpModel> {
    let s = &section;
    let model = TcpModel {
        initial_window_count: s.count("initial_window_segments", 1..=1 << 20)?.map(|count| count as u32),
        window_max_bytes: s.count("window_max_bytes", 4_096..=1 << 30)?.map(|bytes| bytes as u32),
        timeout_min_ps: s.scaled("timeout_min_ms", PS_PER_MS, 0.0, 60_000.0)?,
        ack_delay_ps: s.scaled("ack_delay_ms", PS_PER_MS, 0.0, 500.0)?,
        jitter_ps: s.scaled("jitter_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?,
    };
    section.finish()?;
    Ok(model)
}
