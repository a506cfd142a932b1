//! Makes of hosts: `[host_models.NAME]` with memories, buses, NICs as pipelines of stages, and software
//! costs.

use crate::plan::INTERFACE_NAME_BYTES_MAX;

use super::error::suggest;
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

/// How a process waits for what the network brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waiting {
    /// It looks again and again, and uses its core.
    #[default]
    Poll,
    /// It sleeps: an interrupt and a context switch wake it.
    Block,
    /// A thread of its own sleeps, and hands over to it.
    Thread,
}

/// A rate while the process works through this much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWithin {
    /// Bytes between two uses of a buffer.
    pub working_set_bytes: u64,
    /// The rate, bytes/s.
    pub bytes_per_s: u64,
}

/// What a yield takes where so many processes share a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YieldAmong {
    /// So many processes of a core.
    pub process_count: u32,
    /// As [`SoftwareCosts::yield_ps`], ps.
    pub yield_ps: u64,
}

/// What work takes longer where it is of so many bytes, or of a process that goes through as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimesWithin {
    /// So many.
    pub bytes: u64,
    /// Thousandths: 1,500 for half as long again.
    pub permille: u64,
}

/// What takes longer where so many processes of a host do the same at once than where two do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Among {
    /// So many processes, each with a core.
    pub process_count: u32,
    /// A collective operation in which all exchange short data, longer than between two, ps.
    pub exchange_ps: u64,
    /// Copies, by what the process goes through.
    pub copy: Vec<TimesWithin>,
    /// Reductions, by what the process goes through.
    pub reduce: Vec<TimesWithin>,
    /// The kernel's copies from one process to another, by their length.
    pub kernel_copy: Vec<TimesWithin>,
    /// Data from core to core, by their length.
    pub moved: Vec<TimesWithin>,
    /// Lines that others have read, got back for writing, by the length of what is written.
    pub lines_back: Vec<TimesWithin>,
}

/// What so many bytes take more than few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongerTime {
    /// So many.
    pub bytes: u64,
    /// So much more, ps.
    pub more_ps: u64,
}

/// Host software costs; those not given are the simulator's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoftwareCosts {
    /// One system call, ps.
    pub system_call_ps: Option<u64>,
    /// System calls for each packet or transfer sent.
    pub send_system_calls: u32,
    /// System calls for each packet or completion received.
    pub receive_system_calls: u32,
    /// One interrupt, ps.
    pub interrupt_ps: Option<u64>,
    /// One context switch, ps.
    pub context_switch_ps: Option<u64>,
    /// From one thread of a process to another, by the operating system's means, ps.
    pub thread_switch_ps: Option<u64>,
    /// Until a process that waits, polls once and lets the next one of its core run has done so, ps.
    pub yield_ps: Option<u64>,
    /// The same where more than two processes share a core, the fewest first.
    pub yields_among: Vec<YieldAmong>,
    /// Where more than two processes of a host do the same at once, the fewest first.
    pub among: Vec<Among>,
    /// How a process waits.
    pub waiting: Waiting,
    /// Copying from and to memory, bytes/s.
    pub copy_bytes_per_s: Option<u64>,
    /// Copying what is in the cache, bytes/s.
    pub hot_copy_bytes_per_s: Option<u64>,
    /// Copies by a process that goes through so much memory, the least first; in place of both rates.
    pub copy_rates: Vec<RateWithin>,
    /// A call by which the kernel copies from another process' memory, without its bytes, ps.
    pub kernel_copy_ps: Option<u64>,
    /// The same while that process has the kernel copy from this one's memory, ps.
    pub kernel_copy_at_once_ps: Option<u64>,
    /// The library's software for a message that the kernel copies, beside its packets and the call, ps.
    pub get_ps: Option<u64>,
    /// The same while that process has the kernel copy from this one's memory, ps.
    pub get_at_once_ps: Option<u64>,
    /// Such copies from and to memory, bytes/s.
    pub kernel_copy_bytes_per_s: Option<u64>,
    /// Such copies of what is in the cache, bytes/s.
    pub hot_kernel_copy_bytes_per_s: Option<u64>,
    /// Such copies by a process that goes through so much memory, the least first; in place of both rates.
    pub kernel_copy_rates: Vec<RateWithin>,
    /// The same of what its owner has just written.
    pub fresh_kernel_copy_rates: Vec<RateWithin>,
    /// Long packets copied in by one process and out by another at once, by what a process goes through.
    pub relay_rates: Vec<RateWithin>,
    /// Packets between two cores by their payload, the shortest first: more than one of a cache line, with
    /// both copies.
    pub longer_packets: Vec<LongerTime>,
    /// The same of packets one right after another, for who takes them.
    pub longer_packets_in_row: Vec<LongerTime>,
    /// Cache lines that another core has read, got back for writing, bytes/s.
    pub lines_back_bytes_per_s: Option<u64>,
    /// Time until a polling process sees an arrival, ps.
    pub poll_ps: Option<u64>,
    /// A reduction without its bytes, ps.
    pub reduce_ps: Option<u64>,
    /// Reducing what is in the cache, bytes of one operand/s.
    pub reduce_bytes_per_s: Option<u64>,
    /// Reductions by a process that goes through so much memory, the least first; in place of that rate.
    pub reduce_rates: Vec<RateWithin>,
    /// A collective operation in which few exchange short data at once, beside a message's software, ps.
    pub exchange_ps: Option<u64>,
    /// A collective operation that is a schedule of messages, beside these, ps.
    pub schedule_ps: Option<u64>,
    /// Copies of each packet's payload by its sender; `None`: one.
    pub send_copies: Option<u32>,
    /// Copies of each packet's payload by its receiver; `None`: one.
    pub receive_copies: Option<u32>,
    /// Checksums by software, on both sides, bytes/s.
    pub checksum_bytes_per_s: Option<u64>,
    /// One message sent, whatever its length, ps.
    pub send_ps: Option<u64>,
    /// One message received, whatever its length, ps.
    pub receive_ps: Option<u64>,
    /// Matching of one message with its receive, ps.
    pub match_ps: Option<u64>,
    /// Registration of memory, ps.
    pub register_ps: Option<u64>,
    /// Registration of each page of 4 KiB, ps.
    pub register_page_ps: Option<u64>,
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

fn software(section: Section<'_>) -> Result<SoftwareCosts> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1);
    let rate = |key| s.scaled(key, GIGA, 1e-3, 1e6);
    let number = |key| Ok(s.count(key, 0..=16)?.map(|count| count as u32));
    let costs = SoftwareCosts {
        system_call_ps: time("system_call_ns")?,
        send_system_calls: number("send_system_calls")?.unwrap_or(0),
        receive_system_calls: number("receive_system_calls")?.unwrap_or(0),
        interrupt_ps: time("interrupt_ns")?,
        context_switch_ps: time("context_switch_ns")?,
        thread_switch_ps: time("thread_switch_ns")?,
        yield_ps: time("yield_ns")?,
        yields_among: yields(s)?,
        among: among(s)?,
        waiting: match s.choice("waiting", &["poll", "block", "thread"])? {
            Some(1) => Waiting::Block,
            Some(2) => Waiting::Thread,
            _ => Waiting::Poll,
        },
        copy_bytes_per_s: rate("copy_gbytes_per_s")?,
        hot_copy_bytes_per_s: rate("hot_copy_gbytes_per_s")?,
        copy_rates: rates(s, "copy_rate")?,
        kernel_copy_ps: time("kernel_copy_ns")?,
        kernel_copy_at_once_ps: time("kernel_copy_at_once_ns")?,
        get_ps: time("get_ns")?,
        get_at_once_ps: time("get_at_once_ns")?,
        kernel_copy_bytes_per_s: rate("kernel_copy_gbytes_per_s")?,
        hot_kernel_copy_bytes_per_s: rate("hot_kernel_copy_gbytes_per_s")?,
        kernel_copy_rates: rates(s, "kernel_copy_rate")?,
        fresh_kernel_copy_rates: rates(s, "fresh_kernel_copy_rate")?,
        relay_rates: rates(s, "relay_rate")?,
        longer_packets: longer(s, "longer_packet")?,
        longer_packets_in_row: longer(s, "longer_packet_in_row")?,
        lines_back_bytes_per_s: rate("lines_back_gbytes_per_s")?,
        poll_ps: time("poll_ns")?,
        reduce_ps: time("reduce_ns")?,
        reduce_bytes_per_s: rate("reduce_gbytes_per_s")?,
        reduce_rates: rates(s, "reduce_rate")?,
        exchange_ps: time("exchange_ns")?,
        schedule_ps: time("schedule_ns")?,
        send_copies: number("send_copies")?,
        receive_copies: number("receive_copies")?,
        checksum_bytes_per_s: rate("checksum_gbytes_per_s")?,
        send_ps: time("send_ns")?,
        receive_ps: time("receive_ns")?,
        match_ps: time("match_ns")?,
        register_ps: time("register_ns")?,
        register_page_ps: time("register_page_ns")?,
    };
    section.finish()?;
    Ok(costs)
}

/// Yields by how many processes share a core.
fn yields(s: &Section<'_>) -> Result<Vec<YieldAmong>> {
    let mut yields: Vec<YieldAmong> = Vec::new();
    for section in s.sections("yield_among")? {
        let process_count = section.required_count("processes", 3..=1 << 16, "4")? as u32;
        let yield_ps = section.required_scaled("ns", PS_PER_NS, TIME_NS, "900")?;
        if yields.last().is_some_and(|before| before.process_count >= process_count) {
            let problem = "`yield_among` has no more processes than the one before";
            return Err(section.error("processes", problem, "list the fewest first"));
        }
        section.finish()?;
        yields.push(YieldAmong { process_count, yield_ps });
    }
    Ok(yields)
}

/// What takes longer among more than two.
fn among(s: &Section<'_>) -> Result<Vec<Among>> {
    let mut all: Vec<Among> = Vec::new();
    for section in s.sections("among")? {
        let process_count = section.required_count("processes", 3..=1 << 16, "4")? as u32;
        if all.last().is_some_and(|before| before.process_count >= process_count) {
            let problem = "`among` has no more processes than the one before";
            return Err(section.error("processes", problem, "list the fewest first"));
        }
        let one = Among {
            process_count,
            exchange_ps: section.scaled("exchange_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?.unwrap_or(0),
            copy: times(&section, "copy")?,
            reduce: times(&section, "reduce")?,
            kernel_copy: times(&section, "kernel_copy")?,
            moved: times(&section, "moved")?,
            lines_back: times(&section, "lines_back")?,
        };
        section.finish()?;
        all.push(one);
    }
    Ok(all)
}

fn times(s: &Section<'_>, key: &'static str) -> Result<Vec<TimesWithin>> {
    let mut all: Vec<TimesWithin> = Vec::new();
    for section in s.sections(key)? {
        let bytes = section.required_scaled("within_kib", 1024.0, (1e-3, 1e12), "128")?;
        let permille = section.required_scaled("times", 1e3, (1e-3, 1e6), "1.5")?;
        if all.last().is_some_and(|before| before.bytes >= bytes) {
            let problem = format!("`{key}` is of no more memory than the one before");
            return Err(section.error("within_kib", problem, "list the smallest first"));
        }
        section.finish()?;
        all.push(TimesWithin { bytes, permille });
    }
    Ok(all)
}

/// Times by length.
fn longer(s: &Section<'_>, key: &'static str) -> Result<Vec<LongerTime>> {
    let mut times: Vec<LongerTime> = Vec::new();
    for section in s.sections(key)? {
        let bytes = section.required_count("bytes", 1..=1 << 30, "1024")?;
        let more_ps = section.required_scaled("more_ns", PS_PER_NS, TIME_NS, "190")?;
        if times.last().is_some_and(|before| before.bytes >= bytes) {
            let problem = format!("`{key}` is of no more than the one before");
            return Err(section.error("bytes", problem, "list the shortest first"));
        }
        section.finish()?;
        times.push(LongerTime { bytes, more_ps });
    }
    Ok(times)
}

/// Rates by what a process goes through.
fn rates(s: &Section<'_>, key: &'static str) -> Result<Vec<RateWithin>> {
    let mut rates: Vec<RateWithin> = Vec::new();
    for section in s.sections(key)? {
        let working_set_bytes = section.required_scaled("within_kib", 1024.0, (1e-3, 1e12), "128")?;
        let bytes_per_s = section.required_scaled("gbytes_per_s", GIGA, (1e-3, 1e6), "13.4")?;
        if rates.last().is_some_and(|before| before.working_set_bytes >= working_set_bytes) {
            let problem = format!("`{key}` goes through less memory than the one before");
            return Err(section.error("within_kib", problem, "list the smallest first"));
        }
        section.finish()?;
        rates.push(RateWithin { working_set_bytes, bytes_per_s });
    }
    Ok(rates)
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
