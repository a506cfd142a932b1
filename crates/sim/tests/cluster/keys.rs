//! Every key of the machine file has an effect on a simulation, or is noted, or is listed here with the
//! reason why it is not the simulator's. A key that is added to the description and forgotten here fails the
//! test.

use std::collections::BTreeSet;

use ayatori_fabric::description::Machine;
use ayatori_sim::simulation::{Options, Simulation, Workload};

/// Ethernet with pause and LAGs; processes that look for themselves.
const ETHERNET: &str = "\
name = \"ethernet\"
[switch_models.s]
ports = 8
rate_gbps = 10
buffer_bytes = 400000
[host_models.h]
nic = [{ name = \"eth0\", rate_gbps = 10 }, { name = \"eth1\", rate_gbps = 10 }]
[topology]
kind = \"ring\"
switches = 3
cables = 2
switch_model = \"s\"
[hosts]
model = \"h\"
per_switch = 2
";

/// Ethernet that drops frames, TCP by the library's device over sockets; processes that sleep.
const SOCKETS: &str = "\
name = \"sockets\"
[switch_models.s]
ports = 8
rate_gbps = 10
buffer_bytes = 160000
pause = false
fast_ports = { first = 7, last = 8, rate_gbps = 5 }
[host_models.h]
sockets = 2
cache_mib = 1
[[host_models.h.nic]]
name = \"eth0\"
rate_gbps = 10
device = \"tcp\"
sockets = { relay_rate = [{ within_kib = 64, gbytes_per_s = 0.4 }] }
[host_models.h.software]
waiting = \"thread\"
system_call_ns = 100
receive_system_calls = 1
interrupt_ns = 100
context_switch_ns = 100
thread_switch_ns = 100
hot_copy_gbytes_per_s = 20
relay_rate = [{ within_kib = 64, gbytes_per_s = 9 }]
[host_models.h.tcp]
[topology]
kind = \"star\"
switches = 1
switch_model = \"s\"
[hosts]
model = \"h\"
per_switch = 7
";

/// Routers, PCI Express and stages; messages are read.
const ROUTERS: &str = "\
name = \"routers\"
[switch_models.s]
ports = 8
rate_gbps = 40
switching = \"virtual-cut-through\"
pause = false
[switch_models.s.router]
virtual_channels = 2
virtual_channel_buffer_bytes = 8192
flit_bytes = 16
packet_max_bytes = 2048
packet_min_bytes = 32
[host_models.h]
sockets = 2
memory_gbytes_per_s = 10
memory_ns = 100
memory_banks = 4
memory_row_ns = 50
[[host_models.h.bus]]
name = \"pcie\"
kind = \"pci-express\"
numa_node = 1
lanes = 4
generation = 3
read_ns = 200
reads_max = 8
writes_max_bytes = 4096
[[host_models.h.nic]]
name = \"nic0\"
rate_gbps = 40
bus = \"pcie\"
send_stages = [{ name = \"read\", dma = true }, { name = \"engine\", packet_ns = 10 }]
receive_stages = [{ name = \"engine\", packet_ns = 10 }, { name = \"write\", dma = true }]
[host_models.h.software]
[topology]
kind = \"torus\"
extents = [6, 2]
switch_model = \"s\"
[hosts]
model = \"h\"
per_switch = 1
";

/// Routers, and NICs on a PCI bus without stages.
const PCI: &str = "\
name = \"pci\"
[switch_models.s]
ports = 8
rate_gbps = 1
[switch_models.s.router]
virtual_channels = 1
virtual_channel_buffer_bytes = 4096
flit_bytes = 1
packet_max_bytes = 2048
packet_min_bytes = 32
[host_models.h]
numa_hop_ns = 40
[[host_models.h.bus]]
name = \"pci\"
kind = \"pci\"
width_bits = 32
clock_mhz = 33.33
write_burst_clocks = 5
read_burst_clocks = 5
[[host_models.h.nic]]
name = \"nic0\"
rate_gbps = 1
bus = \"pci\"
[host_models.h.software]
[topology]
kind = \"star\"
switches = 1
switch_model = \"s\"
[hosts]
model = \"h\"
per_switch = 4
";

/// Routers and hosts of which nothing is said.
const PLAIN: &str = "\
name = \"plain\"
[switch_models.s]
ports = 8
rate_gbps = 40
pause = false
[switch_models.s.router]
virtual_channels = 2
virtual_channel_buffer_bytes = 8192
flit_bytes = 16
packet_max_bytes = 2048
packet_min_bytes = 32
[host_models.h]
nic = [{ name = \"nic0\", rate_gbps = 40 }]
[host_models.h.software]
kernel_copy_gbytes_per_s = 5
kernel_copy_rate = [{ within_kib = 64, gbytes_per_s = 9 }]
[topology]
kind = \"torus\"
extents = [5, 2]
switch_model = \"s\"
[hosts]
model = \"h\"
per_switch = 1
";

const BASES: [&str; 5] = [ETHERNET, SOCKETS, ROUTERS, PCI, PLAIN];

/// Keys and a value of each that is none of the bases'.
const SET: &[(&str, &str)] = &[
    ("switch_models.s.rate_gbps", "0.5"),
    ("switch_models.s.fast_ports.rate_gbps", "2"),
    ("switch_models.s.fast_ports.first", "6"),
    ("switch_models.s.vlans_max", "4000"),
    ("switch_models.s.mac_table_max", "8000"),
    ("switch_models.s.aging_time_max_s", "1000"),
    ("switch_models.s.pause", "true"),
    ("switch_models.s.pause", "false"),
    ("switch_models.s.switching", "\"cut-through\""),
    ("switch_models.s.buffer_bytes", "100000"),
    ("switch_models.s.queue_bytes", "9000"),
    ("switch_models.s.pause_on_bytes", "3000"),
    ("switch_models.s.lag_hash", "\"addresses\""),
    ("switch_models.s.latency_ns", "700"),
    ("switch_models.s.router.tie", "\"up\""),
    ("switch_models.s.router.virtual_channels", "3"),
    ("switch_models.s.router.virtual_channel_buffer_bytes", "6000"),
    ("switch_models.s.router.flit_bytes", "8"),
    ("switch_models.s.router.packet_max_bytes", "1024"),
    ("switch_models.s.router.packet_min_bytes", "500"),
    ("switch_models.s.router.header_bytes", "100"),
    ("switch_models.s.router.dateline", "\"at-wrap\""),
    ("switch_models.s.router.arbitration", "\"oldest-first\""),
    ("switch_models.s.router.crossbar_inputs", "\"per-port\""),
    ("switch_models.s.router.route_computation_ns", "40"),
    ("switch_models.s.router.channel_allocation_ns", "40"),
    ("switch_models.s.router.switch_allocation_ns", "40"),
    ("switch_models.s.router.switch_traversal_ns", "40"),
    ("host_models.h.numa_nodes", "4"),
    ("host_models.h.memory_gib", "3"),
    ("host_models.h.memory_gbytes_per_s", "3"),
    ("host_models.h.memory_ns", "300"),
    ("host_models.h.memory_banks", "2"),
    ("host_models.h.memory_row_ns", "500"),
    ("host_models.h.core_to_core_ns", "400"),
    ("host_models.h.cache_mib", "7"),
    ("host_models.h.numa_hop_ns", "300"),
    ("host_models.h.numa_link_gbytes_per_s", "1"),
    ("host_models.h.bus.numa_node", "0"),
    ("host_models.h.bus.lanes", "1"),
    ("host_models.h.bus.generation", "1"),
    ("host_models.h.bus.payload_bytes", "64"),
    ("host_models.h.bus.header_bytes", "100"),
    ("host_models.h.bus.completion_bytes", "64"),
    ("host_models.h.bus.completion_header_bytes", "200"),
    ("host_models.h.bus.read_request_bytes", "64"),
    ("host_models.h.bus.reads_max", "1"),
    ("host_models.h.bus.read_ns", "3000"),
    ("host_models.h.bus.writes_max_bytes", "64"),
    ("host_models.h.bus.width_bits", "16"),
    ("host_models.h.bus.clock_mhz", "20"),
    ("host_models.h.bus.read_burst_bytes", "64"),
    ("host_models.h.bus.read_burst_clocks", "10"),
    ("host_models.h.bus.write_burst_bytes", "64"),
    ("host_models.h.bus.write_burst_clocks", "10"),
    ("host_models.h.nic.rate_gbps", "0.5"),
    ("host_models.h.nic.mtu_bytes", "1000"),
    ("host_models.h.nic.numa_node", "1"),
    ("host_models.h.nic.bus_gbytes_per_s", "0.1"),
    ("host_models.h.nic.command_ns", "900"),
    ("host_models.h.nic.dma_setup_ns", "900"),
    ("host_models.h.nic.packet_ns", "900"),
    ("host_models.h.nic.buffer_bytes", "2000"),
    ("host_models.h.nic.device", "\"rdma\""),
    ("host_models.h.nic.eager_bytes_max", "1000"),
    ("host_models.h.nic.packet_bytes_max", "30000"),
    ("host_models.h.nic.transfer", "\"packets\""),
    ("host_models.h.nic.data_order", "\"in-order\""),
    ("host_models.h.nic.send_stages.unit", "\"engine\""),
    ("host_models.h.nic.send_stages.servers", "2"),
    ("host_models.h.nic.send_stages.operation_ns", "900"),
    ("host_models.h.nic.send_stages.packet_ns", "900"),
    ("host_models.h.nic.send_stages.gbytes_per_s", "0.1"),
    ("host_models.h.nic.send_stages.dma", "false"),
    ("host_models.h.nic.receive_stages.unit", "\"read\""),
    ("host_models.h.nic.receive_stages.servers", "2"),
    ("host_models.h.nic.receive_stages.operation_ns", "900"),
    ("host_models.h.nic.receive_stages.packet_ns", "900"),
    ("host_models.h.nic.receive_stages.gbytes_per_s", "0.1"),
    ("host_models.h.nic.receive_stages.dma", "true"),
    ("host_models.h.nic.sockets.said_gbps", "1"),
    ("host_models.h.nic.sockets.send_ns", "900"),
    ("host_models.h.nic.sockets.send_gbytes_per_s", "1"),
    ("host_models.h.nic.sockets.stream_ns", "9000"),
    ("host_models.h.nic.sockets.stream_gbytes_per_s", "0.5"),
    ("host_models.h.nic.sockets.segment_ns", "900"),
    ("host_models.h.nic.sockets.receive_ns", "900"),
    ("host_models.h.nic.sockets.receive_gbytes_per_s", "1"),
    ("host_models.h.nic.sockets.relay_rate.gbytes_per_s", "1"),
    ("host_models.h.nic.sockets.stream_rate", "[{ within_kib = 64, gbytes_per_s = 1 }]"),
    ("host_models.h.nic.sockets.longer_send", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.nic.sockets.longer_stream", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.nic.sockets.longer_receive", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.nic.sockets.library_ns", "900"),
    ("host_models.h.nic.sockets.checksum_gbytes_per_s", "1"),
    ("host_models.h.nics_as", "\"bond\""),
    ("host_models.h.software.system_call_ns", "900"),
    ("host_models.h.software.send_system_calls", "2"),
    ("host_models.h.software.receive_system_calls", "2"),
    ("host_models.h.software.interrupt_ns", "900"),
    ("host_models.h.software.context_switch_ns", "900"),
    ("host_models.h.software.thread_switch_ns", "900"),
    ("host_models.h.software.yield_ns", "900"),
    ("host_models.h.software.waiting", "\"block\""),
    ("host_models.h.software.copy_gbytes_per_s", "1"),
    ("host_models.h.software.kernel_copy_ns", "900"),
    ("host_models.h.software.kernel_copy_at_once_ns", "900"),
    ("host_models.h.software.kernel_copy_gbytes_per_s", "1"),
    ("host_models.h.software.hot_kernel_copy_gbytes_per_s", "1"),
    ("host_models.h.software.kernel_copy_rate.gbytes_per_s", "1"),
    ("host_models.h.software.relay_rate.gbytes_per_s", "1"),
    ("host_models.h.software.relay_rate", "[{ within_kib = 64, gbytes_per_s = 1 }]"),
    ("host_models.h.software.copy_rate", "[{ within_kib = 64, gbytes_per_s = 1 }]"),
    ("host_models.h.software.fresh_kernel_copy_rate", "[{ within_kib = 64, gbytes_per_s = 1 }]"),
    ("host_models.h.software.get_ns", "900"),
    ("host_models.h.software.get_at_once_ns", "900"),
    ("host_models.h.software.announce_ns", "900"),
    ("host_models.h.software.relay_ends_ns", "90000"),
    ("host_models.h.software.exchange_ns", "900"),
    ("host_models.h.software.schedule_ns", "900"),
    ("host_models.h.software.reduce_ns", "900"),
    ("host_models.h.software.reduce_rate", "[{ within_kib = 64, gbytes_per_s = 1 }]"),
    ("host_models.h.software.yield_among", "[{ ranks = 2, ns = 900 }]"),
    ("host_models.h.software.lines_back_gbytes_per_s", "1"),
    ("host_models.h.software.pieces", "[{ bytes = 12000, piece_bytes = 2000 }]"),
    ("host_models.h.software.shared_write", "[{ bytes = 1024, more_ns = 90000 }]"),
    ("host_models.h.software.shared_write_within", "[{ within_kib = 1, times = 5 }]"),
    ("host_models.h.software.shared_read", "[{ bytes = 1024, more_ns = 90000 }]"),
    ("host_models.h.software.longer_software", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.software.longer_packet", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.software.longer_packet_in_row", "[{ bytes = 64, more_ns = 900 }]"),
    ("host_models.h.software.block_packet", "[{ bytes = 65536, more_ns = 9000000 }]"),
    ("host_models.h.software.poll_ns", "900"),
    ("host_models.h.software.reduce_gbytes_per_s", "1"),
    ("host_models.h.software.send_copies", "3"),
    ("host_models.h.software.receive_copies", "3"),
    ("host_models.h.software.checksum_gbytes_per_s", "1"),
    ("host_models.h.software.send_ns", "900"),
    ("host_models.h.software.receive_ns", "900"),
    ("host_models.h.software.match_ns", "900"),
    ("host_models.h.software.register_ns", "900"),
    ("host_models.h.software.register_page_ns", "900"),
    ("host_models.h.tcp.initial_window_segments", "1"),
    ("host_models.h.tcp.window_max_bytes", "5000"),
    ("host_models.h.tcp.timeout_min_ms", "5"),
    ("host_models.h.tcp.ack_delay_ms", "400"),
    ("host_models.h.tcp.jitter_ns", "90000"),
];

const PLANNER: &str = "what a plan is checked against or written with (docs/machine-file.md)";
const NAME: &str = "a name";
const WORKLOAD: &str = "counted for programs that say what they go through (`Mpi::goes_through`)";
const CORES: &str = "how many processes have a core, of their own or with yield_ns, and CPUs of GOAL files";
const NO_QUEUE: &str =
    "none of these workloads sends packets in a row within a host (`cluster::nic` tests it)";
const MANY: &str = "among more than two processes of a host, and these have two (`cluster::room` tests it)";
const BLOCKS: &str = "of what goes in blocks, and of windows both ways (`cluster::nic` tests these)";
const PAIRS: &str = "none of these workloads has two long messages of a pair under way (`main` tests it)";
const OTHER: &str = "has an effect only with the keys beside it, which are in the table";

/// Keys that are not set one by one, and why.
const LISTED: &[(&str, &str)] = &[
    ("switch_models.s.ports", PLANNER),
    ("switch_models.s.dialect", PLANNER),
    ("switch_models.s.port_name", PLANNER),
    ("switch_models.s.port_names", PLANNER),
    ("switch_models.s.mstp_instances_max", PLANNER),
    ("switch_models.s.lag_ports_max", PLANNER),
    ("switch_models.s.lags_max", PLANNER),
    ("switch_models.s.untagged_vlans_per_port", PLANNER),
    ("switch_models.s.price", PLANNER),
    ("switch_models.s.fast_ports.last", OTHER),
    ("switch_models.s.pause_off_bytes", OTHER),
    ("host_models.h.sockets", CORES),
    ("host_models.h.cores_per_socket", CORES),
    ("host_models.h.bus.name", NAME),
    ("host_models.h.bus.kind", OTHER),
    ("host_models.h.nic.name", NAME),
    ("host_models.h.nic.bus", NAME),
    ("host_models.h.nic.send_stages.name", NAME),
    ("host_models.h.nic.receive_stages.name", NAME),
    ("host_models.h.nic.sockets.relay_rate.within_kib", WORKLOAD),
    ("host_models.h.software.kernel_copy_rate.within_kib", WORKLOAD),
    ("host_models.h.software.relay_rate.within_kib", WORKLOAD),
    ("host_models.h.software.hot_copy_gbytes_per_s", WORKLOAD),
    ("host_models.h.software.among", MANY),
    ("host_models.h.software.block_pieces", BLOCKS),
    ("host_models.h.software.block_relay_rate", BLOCKS),
    ("host_models.h.software.block_relay_ends_ns", BLOCKS),
    ("host_models.h.software.cores_are_near", BLOCKS),
];

const SAME: &str = "what the machine has without it";
const ONE_SWITCH: &str =
    "one switch with a channel, and packets of whole flits: nothing to arbitrate or round";
const NO_TIES: &str = "axes of 5 and 2: no two ways around are alike";
const REPLACED: &str = "kernel_copy_rate stands in its place";
const EVEN: &str = "processes lie on all nodes alike, and nodes are as far from each other";

/// What has an effect elsewhere, but none on one of the machines: its name, the beginning of keys, the value.
const EXCEPT: &[(&str, &str, &str, &str)] = &[
    ("routers", "host_models.h.nic.data_order", "", PAIRS),
    ("pci", "host_models.h.nic.data_order", "", PAIRS),
    ("ethernet", "switch_models.s.vlans_max", "4000", PLANNER),
    ("sockets", "switch_models.s.vlans_max", "4000", PLANNER),
    ("ethernet", "switch_models.s.aging_time_max_s", "1000", PLANNER),
    ("sockets", "switch_models.s.aging_time_max_s", "1000", PLANNER),
    ("ethernet", "switch_models.s.pause", "true", SAME),
    ("sockets", "switch_models.s.pause", "false", SAME),
    ("routers", "switch_models.s.pause", "false", SAME),
    ("pci", "switch_models.s.pause", "false", SAME),
    ("plain", "switch_models.s.pause", "false", SAME),
    ("pci", "switch_models.s.router.", "", ONE_SWITCH),
    ("plain", "switch_models.s.router.tie", "\"up\"", NO_TIES),
    ("sockets", "host_models.h.cache_mib", "7", WORKLOAD),
    ("sockets", "host_models.h.software.longer_packet_in_row", "", NO_QUEUE),
    ("plain", "host_models.h.software.hot_kernel_copy_gbytes_per_s", "1", WORKLOAD),
    ("plain", "host_models.h.software.kernel_copy_gbytes_per_s", "1", REPLACED),
    ("routers", "host_models.h.numa_nodes", "4", EVEN),
    ("routers", "host_models.h.bus.numa_node", "0", EVEN),
    ("pci", "host_models.h.bus.numa_node", "0", SAME),
    ("routers", "host_models.h.software.yield_ns", "900", CORES),
    ("sockets", "host_models.h.software.yield_ns", "900", CORES),
    ("pci", "host_models.h.numa_hop_ns", "300", "noted of this machine as it is"),
];

/// Puts a value in the place of a key, of the first entry where there is a list. `None`: there is no such
/// table.
fn with(base: &str, key: &str, value: &str) -> Option<String> {
    let mut root: toml::Table = base.parse().unwrap();
    let value: toml::Table = format!("value = {value}").parse().unwrap();
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop()?;
    let mut table = &mut root;
    for part in parts {
        if ["software", "tcp"].contains(&part) {
            table.entry(part).or_insert_with(|| toml::Table::new().into());
        }
        table = match table.get_mut(part)? {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(list) => list.first_mut()?.as_table_mut()?,
            _ => return None,
        };
    }
    table.insert(last.into(), value["value"].clone());
    Some(root.to_string())
}

/// Workloads that between them use what a machine has: the name, bytes, hosts.
const WORKLOADS: [(&str, u64, Option<u32>); 11] = [
    ("ping-pong", 8, None),
    ("ping-pong", 4_000_000, None),
    // Long messages, each sent right behind another.
    (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/in_a_row.goal"), 0, None),
    // Within a host.
    ("ping-pong", 50_000, Some(1)),
    ("ping-pong", 300_000, Some(1)),
    ("pairwise-exchange", 20_000, Some(1)),
    ("pairwise-exchange", 300_000, None),
    ("allreduce", 40_000, None),
    // In shared memory, in one step and by reading each other's.
    ("allreduce", 8, Some(1)),
    ("allreduce", 1_500, Some(1)),
    ("allreduce", 1_000_000, Some(1)),
];

/// What is to be seen of a machine by each of the workloads, simulated when it is asked for: its notes and
/// what the workload takes. `Err`: the machine is refused.
fn seen(text: &str) -> impl Iterator<Item = Result<(Vec<String>, String), String>> {
    let machine = Machine::parse("keys.toml", text).map_err(|error| error.to_string());
    WORKLOADS.into_iter().map(move |(workload, bytes, nodes)| {
        let machine = machine.as_ref().map_err(String::clone)?;
        let options = Options { bytes, nodes, per_host: 2, ..Options::default() };
        let workload = Workload::named(workload).unwrap();
        let mut simulation =
            Simulation::new("keys.toml", machine, workload, options).map_err(|e| e.to_string())?;
        let notes = simulation.notes().to_vec();
        let outcome = simulation.run().map_err(|error| error.to_string())?;
        Ok((notes, format!("{:?} {:?}", outcome.report, outcome.counters)))
    })
}

#[test]
fn every_key_has_an_effect_or_is_noted_or_is_listed() {
    let mut silent = Vec::new();
    for base in BASES {
        let before: Vec<_> = seen(base).collect();
        assert!(before.iter().all(Result::is_ok), "{base}: {before:?}");
        let name = base.split('"').nth(1).unwrap_or_default();
        for (key, value) in SET {
            let Some(text) = with(base, key, value) else { continue };
            let is_excepted = EXCEPT.iter().any(|(machine, beginning, with, _)| {
                *machine == name && key.starts_with(beginning) && (with == value || with.is_empty())
            });
            if !is_excepted && seen(&text).eq(before.iter().cloned()) {
                silent.push(format!("{name}: {key} = {value}"));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn memory_is_shared_by_copies_and_adapters() {
    let busy_ps = |memory: &str, copies: &str| {
        let sets = [
            ("memory_gbytes_per_s", memory),
            ("software.send_copies", copies),
            ("software.receive_copies", copies),
        ];
        let text = sets.iter().fold(ROUTERS.to_owned(), |text, (key, value)| {
            with(&text, &format!("host_models.h.{key}"), value).unwrap()
        });
        let machine = Machine::parse("keys.toml", &text).unwrap();
        // Messages that are packets, between hosts only.
        let workload = Workload::named("random-ring").unwrap();
        let options = Options { bytes: 8_000, rounds: 20, nodes: Some(3), ..Options::default() };
        let outcome = Simulation::new("keys.toml", &machine, workload, options).unwrap().run().unwrap();
        outcome.report.usage.busy_ps.iter().sum::<u64>()
    };
    // How long processes are busy. The bus carries 4 GB/s, and a process copies 10: 20 through the memory.
    assert_eq!(busy_ps("15", "0"), busy_ps("1000", "0"), "adapters alone");
    let [narrow_ps, wide_ps, wider_ps] = ["15", "100", "1000"].map(|memory| busy_ps(memory, "1"));
    assert!(narrow_ps > wide_ps && wide_ps == wider_ps, "{narrow_ps} {wide_ps} {wider_ps}");
}

#[test]
fn every_key_of_models_is_in_the_table() {
    let mut keys = BTreeSet::new();
    for base in BASES {
        keys.extend(Machine::keys("keys.toml", base).unwrap());
    }
    let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    let is_table = |key: &str| keys.iter().any(|other| other.starts_with(&format!("{key}.")));
    let of_models = |key: &&str| key.starts_with("switch_models.") || key.starts_with("host_models.");
    let wanted: BTreeSet<&str> =
        keys.iter().copied().filter(of_models).filter(|key| !is_table(key)).collect();
    let listed: BTreeSet<&str> = SET.iter().chain(LISTED).map(|(key, _)| *key).collect();
    let missing: Vec<&&str> = wanted.difference(&listed).collect();
    let unknown: Vec<&&str> = listed.difference(&wanted).filter(|key| !is_table(key)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}, unknown: {unknown:#?}");
    // What else there is describes the machine's graph, or is the planner's.
    let others: BTreeSet<&str> =
        keys.iter().filter(|key| !of_models(key)).map(|key| key.split('.').next().unwrap_or(key)).collect();
    let known = [
        "about",
        "cable",
        "cable_price",
        "host",
        "host_models",
        "hosts",
        "name",
        "plan",
        "switch",
        "switch_models",
        "topology",
    ];
    assert_eq!(others.into_iter().collect::<Vec<_>>(), known);
}
