//! Every key of a description: its limits, its words, its unit, and what holds where it is not given.

use super::hosts::{BusKind, HostModel};
use super::options::PlanOptions;
use super::*;
use crate::graph::SwitchId;

/// With a table of every kind that has no topology by generator.
#[rustfmt::skip]
const FULL: &str = concat!(r#"name = "full"
cable_price = 3
[switch_models.s]
ports = 8
rate_gbps = 1
fast_ports = { first = 7, last = 8, rate_gbps = 10 }
dialect = "dell-os6"
port_name = "p{port}"
vlans_max = 64
mac_table_max = 8000
mstp_instances_max = 3
lag_ports_max = 8
lags_max = 7
aging_time_max_s = 5000
switching = "cut-through"
buffer_bytes = 1000000
latency_ns = 500
pause_on_bytes = 3000
pause_off_bytes = 1000
queue_bytes = 70000
lag_hash = "addresses"
router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, "#,
    r#"packet_max_bytes = 2048, packet_min_bytes = 32, header_bytes = 12, dateline = "at-wrap", "#,
    r#"tie = "up", arbitration = "age", crossbar_inputs = "per-port" }
[host_models.h]
sockets = 2
cores_per_socket = 9
numa_nodes = 4
memory_banks = 5
memory_row_ns = 40
nics_as = "rails"
bus = [{ name = "old", kind = "pci", width_bits = 64, clock_mhz = 100, write_burst_bytes = 512, "#,
    r#"write_burst_clocks = 10 }, { name = "new", kind = "pci-express", lanes = 16, generation = 4, "#,
    r#"payload_bytes = 128, header_bytes = 30, completion_bytes = 96, completion_header_bytes = 31, "#,
    r#"read_request_bytes = 640, reads_max = 33, writes_max_bytes = 8192, numa_node = 3 }]
nic = [{ name = "eth0", rate_gbps = 1, bus = "old", mtu_bytes = 2000, buffer_bytes = 65000, "#,
    r#"eager_bytes_max = 1000, packet_bytes_max = 1064, send_stages = [{ name = "x", dma = true, "#,
    r#"servers = 6 }], receive_stages = [{ name = "y", dma = true }] }, { name = "eth1", "#,
    r#"rate_gbps = 1, bus = "new", device = "tcp", sockets = { said_gbps = 10, send_ns = 7, "#,
    r#"relay_rate = [{ within_kib = 128, gbytes_per_s = 9 }, { within_kib = 256, gbytes_per_s = 8 }] } }]
[host_models.h.software]
waiting = "block"
send_system_calls = 11
pieces = [{ bytes = 4096, piece_bytes = 2048 }, { bytes = 8193, piece_bytes = 16384 }]
shared_write_within = [{ within_kib = 640, times = 1 }, { within_kib = 2176, times = 0.5 }]
yield_among = [{ processes = 4, ns = 900 }, { processes = 5, ns = 1000 }]
among = [{ processes = 6, exchange_ns = 70, copy = [{ within_kib = 8, times = 1.5 }, { within_kib = 16, "#,
    r#"times = 2 }], moved = [{ within_kib = 64, times = 1.25 }] }, { processes = 9 }]
[host_models.h.tcp]
initial_window_segments = 10
window_max_bytes = 100000
[topology]
switch_model = "s"
cable_latency_ns = 25
shape = "tree"
[[switch]]
name = "left"
hosts = 1
[[switch]]
name = "right"
coordinates = [3]
[hosts]
model = "h"
count = 2
[[cable]]
from = "left:7-8"
to = "right:7-8"
[plan]
first_vlan = 200
aging_time_s = 900
"#);

/// Something of [`FULL`] and the least and the most it may be.
#[rustfmt::skip]
const LIMITS: &[(&str, u64, u64)] = &[
    // Ports and addresses of 16 bits and less; VLANs of 802.1Q, and VLAN 1 is every switch's default.
    ("ports = 8", 1, 4096),
    ("vlans_max = 64", 1, 4094),
    ("first_vlan = 200", 2, 4094),
    ("mac_table_max = 8000", 1, 1 << 40),
    ("mstp_instances_max = 3", 1, 64),
    ("lag_ports_max = 8", 1, 256),
    ("lags_max = 7", 0, 4096),
    ("first = 7", 1, 8),
    ("last = 8", 1, 8),
    ("hosts = 1\n", 0, 4096),
    // What 802.1D lets a bridge forget within, and what takes 32 bits.
    ("aging_time_max_s = 5000", 10, u32::MAX as u64),
    ("aging_time_s = 900", 10, u32::MAX as u64),
    // A frame of Ethernet fits.
    ("buffer_bytes = 1000000", 64, 1 << 40),
    ("queue_bytes = 70000", 64, 1 << 40),
    ("pause_on_bytes = 3000", 64, 1 << 31),
    ("pause_off_bytes = 1000", 0, 1 << 31),
    ("virtual_channels = 2", 1, 16),
    ("virtual_channel_buffer_bytes = 4096", 1, 1 << 30),
    ("header_bytes = 12", 0, 1 << 20),
    ("sockets = 2", 1, 64),
    ("cores_per_socket = 9", 1, 4096),
    ("numa_nodes = 4", 1, 256),
    ("numa_node = 3", 0, 255),
    ("memory_banks = 5", 1, 1 << 16),
    ("width_bits = 64", 8, 1024),
    ("write_burst_bytes = 512", 4, 1 << 20),
    // PCI Express: 32 lanes, six generations, payloads and requests up to 4 KiB.
    ("lanes = 16", 1, 32),
    ("generation = 4", 1, 6),
    ("payload_bytes = 128", 64, 4096),
    ("header_bytes = 30", 0, 256),
    ("completion_bytes = 96", 64, 4096),
    ("completion_header_bytes = 31", 0, 256),
    ("read_request_bytes = 640", 64, 4096),
    ("reads_max = 33", 1, 4096),
    ("writes_max_bytes = 8192", 64, 1 << 24),
    // IPv4 needs 68 (RFC 791), and its lengths have 16 bits.
    ("mtu_bytes = 2000", 68, 65_535),
    ("buffer_bytes = 65000", 64, 1 << 32),
    ("eager_bytes_max = 1000", 0, 1 << 24),
    ("packet_bytes_max = 1064", 192, 1 << 24),
    ("servers = 6", 1, 64),
    ("send_system_calls = 11", 0, 16),
    ("processes = 4", 3, 1 << 16),
    ("processes = 6", 3, 1 << 16),
    ("initial_window_segments = 10", 1, 1 << 20),
    ("window_max_bytes = 100000", 4096, 1 << 30),
];

/// The same of topologies by generator, each the whole section but for the model.
#[rustfmt::skip]
const SHAPE_LIMITS: &[(&str, &str, u64, u64)] = &[
    ("kind = \"ring\"\nswitches = 8", "switches = 8", 1, 1 << 20),
    ("kind = \"mesh\"\nextents = [7]", "extents = [7]", 1, 1 << 20),
    ("kind = \"hypercube\"\ndimensions = 3", "dimensions = 3", 1, 20),
    ("kind = \"tree\"\narity = 2\nswitches = 7", "arity = 2", 1, 4096),
    ("kind = \"fat-tree\"\nradix = 8\nlevels = 2", "radix = 8", 2, 4096),
    ("kind = \"fat-tree\"\nradix = 8\nlevels = 2", "levels = 2", 2, 16),
    ("kind = \"fat-tree\"\ndown = [8]\nup = [4]\nwidths = [2]", "down = [8]", 1, 4096),
    ("kind = \"fat-tree\"\ndown = [8]\nup = [4]\nwidths = [2]", "up = [4]", 1, 4096),
    ("kind = \"fat-tree\"\ndown = [8]\nup = [4]\nwidths = [2]", "widths = [2]", 1, 4096),
    ("kind = \"hyperx\"\nextents = [3]\nwidths = [2]", "widths = [2]", 1, 4096),
    ("kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9", "group_size = 4", 1, 65_536),
    ("kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9", "global_ports = 2", 1, 65_536),
    ("kind = \"dragonfly\"\ngroup_size = 4\nglobal_ports = 2\ngroups = 9", "groups = 9", 1, 65_536),
    ("kind = \"mesh\"\nextents = [3]\ncables = 2", "cables = 2", 1, 256),
    ("kind = \"mesh\"\nextents = [3]", "per_switch = 1", 1, 4096),
];

fn shaped(topology: &str) -> String {
    format!(
        "name = \"t\"\n[switch_models.s]\nports = 48\nrate_gbps = 1\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nswitch_model = \"s\"\n{topology}\n\
         [hosts]\nmodel = \"h\"\nper_switch = 1\n"
    )
}

/// Whether a number in the place of the one in `what` is refused as out of range.
fn is_refused(text: &str, what: &str, number: i128) -> bool {
    assert_eq!(text.matches(what).count(), 1, "{what:?}");
    let digits = what.find(|c: char| c.is_ascii_digit()).unwrap();
    let end = what[digits..].find(|c: char| !c.is_ascii_digit()).map_or(what.len(), |at| digits + at);
    let changed = format!("{}{number}{}", &what[..digits], &what[end..]);
    let error = Machine::parse("limits.toml", &text.replace(what, &changed)).err();
    error.is_some_and(|error| *error.problem == *format!("{number} is out of range"))
}

#[test]
fn numbers_are_taken_within_their_limits_and_not_beyond() {
    assert!(Machine::parse("full.toml", FULL).is_ok(), "{:?}", Machine::parse("full.toml", FULL).err());
    let shapes =
        SHAPE_LIMITS.iter().map(|(topology, what, least, most)| (shaped(topology), what, least, most));
    let full = LIMITS.iter().map(|(what, least, most)| (FULL.to_owned(), what, least, most));
    for (text, what, &least, &most) in full.chain(shapes) {
        let (least, most) = (i128::from(least), i128::from(most));
        assert!(
            !is_refused(&text, what, least) && !is_refused(&text, what, most),
            "{what}: {least} to {most}"
        );
        assert!(
            is_refused(&text, what, least - 1) && is_refused(&text, what, most + 1),
            "{what}: {least} to {most}"
        );
    }
}

#[test]
fn an_unknown_key_is_an_error_in_every_table() {
    let lines: Vec<&str> = FULL.lines().collect();
    let mut count = 0;
    let mut check = |text: String, at: &str| {
        let error = Machine::parse("strange.toml", &text).unwrap_err();
        assert!(error.key.ends_with("strange"), "{at}: {error}");
        assert!(error.problem.contains("is not a known key"), "{at}: {error}");
        count += 1;
    };
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with('[') {
            let mut changed = lines.clone();
            changed.insert(at + 1, "strange = 1");
            check(changed.join("\n"), line);
        }
    }
    for (at, _) in FULL.match_indices("{ ") {
        check(format!("{}{{ strange = 1, {}", &FULL[..at], &FULL[at + 2..]), &FULL[at..at + 30]);
    }
    check(format!("strange = 1\n{FULL}"), "the top");
    check(shaped("kind = \"ring\"\nswitches = 3\nstrange = 1"), "a topology by generator");
    assert!(count >= 25, "{count}");
}

/// What stands in place of what, and what the description then has in the form of `Debug`.
#[rustfmt::skip]
const WORDS: &[(&str, &str, &str)] = &[
    ("switching = \"cut-through\"", "switching = \"store-and-forward\"", "switching: StoreAndForward"),
    ("switching = \"cut-through\"\n", "", "switching: StoreAndForward"),
    ("switching = \"cut-through\"", "switching = \"cut-through\"", "switching: CutThrough"),
    ("switching = \"cut-through\"", "switching = \"virtual-cut-through\"", "switching: VirtualCutThrough"),
    ("lag_hash = \"addresses\"", "lag_hash = \"addresses\"", "lag_hash: Addresses,"),
    ("lag_hash = \"addresses\"", "lag_hash = \"addresses-and-ports\"", "lag_hash: AddressesAndPorts"),
    ("lag_hash = \"addresses\"\n", "", "lag_hash: AddressesAndPorts"),
    ("\"at-wrap\"", "\"at-wrap\"", "dateline: AtWrap"),
    ("\"at-wrap\"", "\"on-entry\"", "dateline: OnEntry"),
    ("dateline = \"at-wrap\", ", "", "dateline: OnEntry"),
    ("tie = \"up\"", "tie = \"up\"", "tie: Up"),
    ("tie = \"up\"", "tie = \"balanced\"", "tie: Balanced"),
    ("tie = \"up\", ", "", "tie: Balanced"),
    ("\"age\"", "\"age\"", "arbitration: Some(OldestFirst)"),
    ("\"age\"", "\"oldest-first\"", "arbitration: Some(OldestFirst)"),
    ("\"age\"", "\"round-robin\"", "arbitration: Some(RoundRobin)"),
    ("\"age\"", "\"channel-first\"", "arbitration: Some(ChannelFirst)"),
    ("arbitration = \"age\", ", "", "arbitration: None"),
    ("\"per-port\"", "\"per-port\"", "one_crossbar_input_per_port: true"),
    ("\"per-port\"", "\"per-channel\"", "one_crossbar_input_per_port: false"),
    ("waiting = \"block\"", "waiting = \"block\"", "waiting: Block"),
    ("waiting = \"block\"", "waiting = \"thread\"", "waiting: Thread"),
    ("waiting = \"block\"", "waiting = \"poll\"", "waiting: Poll"),
    ("waiting = \"block\"\n", "", "waiting: Poll"),
    ("nics_as = \"rails\"", "nics_as = \"bond\"", "nics_as: Bond"),
    ("nics_as = \"rails\"\n", "", "nics_as: Rails"),
    ("lag_ports_max = 8", "untagged_vlans_per_port = \"one\"", "many_untagged_vlans_per_port: false"),
    ("lag_ports_max = 8", "untagged_vlans_per_port = \"many\"", "many_untagged_vlans_per_port: true"),
    ("lag_ports_max = 8", "pause = false", " pause: false"),
    ("lag_ports_max = 8", "pause = true", " pause: true"),
    ("latency_ns = 500", "latency_ns = 0.5", " latency_ps: 500,"),
    ("latency_ns = 500\n", "", " latency_ps: 0,"),
    ("header_bytes = 12, ", "", " header_bytes: 0,"),
    ("first_vlan = 200", "tagging = \"host\"", "tagging: Host"),
    ("first_vlan = 200", "tagging = \"auto\"", "tagging: Auto"),
    ("first_vlan = 200", "vlans = \"per-source\"", "grouping: PerSource"),
    ("first_vlan = 200", "vlans = \"fewest\"", "grouping: Fewest"),
    ("first_vlan = 200", "vlans = \"balanced\"", "grouping: Balanced"),
    ("first_vlan = 200", "search = \"full\"", "search: Full"),
    ("first_vlan = 200", "spanning_tree = \"mstp\"", "spanning_tree: Mstp"),
    ("first_vlan = 200", "seed = 0", "seed: 0,"),
    ("first_vlan = 200", "lacp = false", "lacp: false"),
];

#[test]
fn words_mean_what_the_page_says() {
    for &(from, to, wanted) in WORDS {
        assert!(FULL.contains(from), "{from:?}");
        let text = FULL.replacen(from, to, 1);
        let machine = Machine::parse("words.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let models = (&machine.switch_models[0], &machine.host_models[0], &machine.options);
        assert!(format!("{models:?}").contains(wanted), "{from:?} to {to:?}: {wanted:?}: {models:?}");
    }
}

fn host(keys: &str) -> HostModel {
    let text = format!(
        "name = \"u\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\n[host_models.h]\n{keys}\n[topology]\n\
         kind = \"star\"\nswitches = 1\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n"
    );
    Machine::parse("u.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}")).host_models.remove(0)
}

const NIC: &str = "nic = [{ name = \"eth0\", rate_gbps = 1 }]\n";

#[test]
fn data_leave_in_turn_unless_an_order_is_said() {
    let orders = [("", false), (", data_order = \"in-turn\"", false), (", data_order = \"in-order\"", true)];
    for (keys, is_in_order) in orders {
        let model = host(&format!("nic = [{{ name = \"eth0\", rate_gbps = 1{keys} }}]\n"));
        assert_eq!(model.nics[0].data_in_order, is_in_order, "{keys}");
    }
}

#[test]
fn what_is_not_given_is_what_the_page_says() {
    let plain = host(NIC);
    assert_eq!((plain.socket_count, plain.cores_per_socket_count, plain.numa_node_count), (1, 1, 1));
    assert_eq!(plain.nics[0].mtu_bytes, 1500);
    assert_eq!((plain.software.send_system_calls, plain.software.receive_system_calls), (0, 0));
    assert_eq!(host(&format!("{NIC}sockets = 2")).numa_node_count, 2);
    let stages =
        "send_stages = [{ name = \"x\", dma = true }], receive_stages = [{ name = \"y\", dma = true }]";
    let staged = host(&format!("nic = [{{ name = \"eth0\", rate_gbps = 1, {stages} }}]"));
    let stage = &staged.nics[0].send_stages[0];
    assert_eq!((stage.unit.as_str(), stage.servers, stage.operation_ps, stage.packet_ps), ("x", 1, 0, 0));
    let sockets = host("nic = [{ name = \"e\", rate_gbps = 1, device = \"tcp\", sockets = {} }]");
    let costs = sockets.nics[0].sockets.as_ref().unwrap();
    assert_eq!([costs.send_ps, costs.segment_ps, costs.receive_ps, costs.library_ps], [0; 4]);
    let page = include_str!("../../../../docs/machine-file.md");
    let options = PlanOptions::default();
    let row = |key: &str, value: &str| {
        assert!(page.contains(&format!("| `{key}` | {value} |")), "{key} is {value}");
    };
    row("first_vlan", &options.first_vlan.to_string());
    row("pause", &format!("`{}`", options.pause));
    row("lacp", &format!("`{}`", options.lacp));
    row("host_subnet", &format!("`\"{}\"`", options.host_subnet));
    row("vlan_subnet", &format!("`\"{}\"`", options.vlan_subnet));
    row("seed", &options.seed.to_string());
    row("routing", &format!("`\"{}\"`", options.routing.name()));
    let far = [Routing::UpDown, Routing::SpanningTree].map(Routing::name);
    assert_eq!(far, ["up-down", "spanning-tree"]);
}

/// Picoseconds and bytes, whatever the keys' units.
#[test]
fn units_of_buses_and_memories_are_those_of_their_keys() {
    let old =
        "bus = [{ name = \"b\", kind = \"pci\", width_bits = 64, clock_mhz = 100, read_burst_clocks = 10 }]";
    let BusKind::Pci { bytes_per_s, write, read } = host(&format!("{NIC}{old}")).buses[0].kind else {
        panic!()
    };
    // 8 bytes at 100 MHz; ten clocks are 100 ns.
    assert_eq!((bytes_per_s, read.overhead_ps, write.overhead_ps), (800_000_000, 100_000, 0));
    assert_eq!((read.bytes, write.bytes), (4096, 4096));
    // PCI Express after line coding: 250 MB/s a lane at 2.5 GT/s with 8b/10b; with 128b/130b 16 lanes of
    // generation 4 have 31.5 GB/s.
    for (lanes, generation, wanted) in [(1, 1, 250_000_000), (4, 2, 2_000_000_000), (16, 4, 31_507_692_304)] {
        let new = format!(
            "bus = [{{ name = \"b\", kind = \"pci-express\", lanes = {lanes}, generation = {generation} }}]"
        );
        let model = host(&format!("{NIC}{new}"));
        let BusKind::PciExpress { bytes_per_s, payload_bytes, header_bytes, completion_bytes, .. } =
            model.buses[0].kind
        else {
            panic!()
        };
        assert_eq!((bytes_per_s, payload_bytes, header_bytes, completion_bytes), (wanted, 256, 24, 256));
        let said = format!("{:?}", model.buses[0].kind);
        assert!(
            said.contains(
                "completion_header_bytes: 20, read_request_bytes: 512, reads_max: None, read_ps: 0"
            ),
            "{said}"
        );
    }
    let model = host(&format!(
        "{NIC}memory_gib = 1.5\ncache_mib = 0.25\nmemory_gbytes_per_s = 2.5\nmemory_ns = 0.5\n"
    ));
    assert_eq!((model.memory_bytes, model.cache_bytes), (Some(1_610_612_736), Some(262_144)));
    assert_eq!((model.memory_bytes_per_s, model.memory_ps), (Some(2_500_000_000), Some(500)));
    let full = Machine::parse("full.toml", FULL).unwrap();
    let sockets = full.host_models[0].nics[1].sockets.as_ref().unwrap();
    assert_eq!((sockets.said_bytes_per_s, sockets.send_ps), (Some(1_250_000_000), 7_000));
    let rates: Vec<u64> = sockets.relay_rates.iter().map(|rate| rate.working_set_bytes).collect();
    assert_eq!(rates, [131_072, 262_144]);
    let yields: Vec<u32> =
        full.host_models[0].software.yields_among.iter().map(|one| one.process_count).collect();
    assert_eq!(yields, [4, 5]);
    let pieces = |bytes, piece_bytes| PiecesFrom { bytes, piece_bytes };
    assert_eq!(full.host_models[0].software.pieces, [pieces(4_096, 2_048), pieces(8_193, 16_384)]);
    let among = &full.host_models[0].software.among;
    let times = |bytes, permille| TimesWithin { bytes, permille };
    let within = &full.host_models[0].software.shared_writes_within;
    assert_eq!(within[..], [times(655_360, 1_000), times(2_228_224, 500)]);
    assert_eq!((among[0].process_count, among[0].exchange_ps), (6, 70_000));
    assert_eq!(among[0].copy, [times(8_192, 1_500), times(16_384, 2_000)]);
    assert_eq!((&among[0].moved[..], among[0].reduce.len()), (&[times(65_536, 1_250)][..], 0));
    assert_eq!(among[1], Among { process_count: 9, ..Among::default() });
    // The NIC is on its bus' node.
    assert_eq!(full.host_models[0].nics.iter().map(|nic| nic.numa_node).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(full.graph.link(crate::graph::LinkId(0)).spec.latency_ps, 25_000);
    assert_eq!((full.switches.len(), full.hosts.len()), (2, 2));
    assert_eq!(full.attachment_counts(), [2, 2], "two rails each");
}

/// A description that is wrong in one thing; the key that is named and a part of the problem.
#[test]
fn what_contradicts_itself_is_refused() {
    let cases = [
        (
            "eager_bytes_max = 1000, packet_bytes_max = 1064",
            "eager_bytes_max = 1001, packet_bytes_max = 1064",
            "do not fit",
        ),
        ("processes = 5", "processes = 4", "no more processes than the one before"),
        ("within_kib = 256", "within_kib = 128", "less memory than the one before"),
        ("within_kib = 16,", "within_kib = 8,", "`copy` is of no more memory than the one before"),
        ("bytes = 8193", "bytes = 4096", "`pieces` is of no longer packets than the one before"),
        ("processes = 9", "processes = 6", "`among` has no more processes than the one before"),
        ("bus = \"old\", mtu", "bus = \"old\", numa_node = 1, mtu", "is said by the NIC's bus"),
        ("bus = \"old\", mtu", "bus = \"old\", bus_gbytes_per_s = 1, mtu", "is said by the NIC's bus"),
        ("name = \"new\", kind", "name = \"old\", kind", "two buses are called \"old\""),
        ("name = \"eth1\"", "name = \"eth0\"", "two NICs are called \"eth0\""),
        ("numa_node = 3", "numa_node = 4", "the host has no NUMA node 4"),
        ("aging_time_s = 900", "aging_time_s = 5001", "keeps addresses for 5000 s at most"),
        ("first_vlan = 200", "host_subnet = \"10.0.0.0/9\"", "overlap"),
        ("first_vlan = 200", "host_subnet = \"10.255.255.252/30\"", "overlap"),
        ("first_vlan = 200", "host_subnet = \"0.0.0.0/1\"", "overlap"),
        ("dialect = \"dell-os6\"", "dialect = \"openwrt\"", "no words for MSTP"),
        ("dialect = \"dell-os6\"\nport_name", "dialect = \"sonic\"\npause = true\nport_name", ""),
    ];
    for (from, to, wanted) in cases {
        assert!(FULL.contains(from), "{from:?}");
        let text = FULL.replacen(from, to, 1);
        let error = Machine::parse("wrong.toml", &text).expect_err(to);
        assert!(error.problem.contains(wanted), "{to:?}: {error}");
    }
    // Next to each other is no overlap, and what is equal to a limit is within it.
    for (from, to) in [
        ("first_vlan = 200", "host_subnet = \"9.0.0.0/8\""),
        ("first_vlan = 200", "host_subnet = \"11.0.0.0/8\""),
        ("aging_time_s = 900", "aging_time_s = 5000"),
        ("pause_off_bytes = 1000", "pause_off_bytes = 3000"),
        ("packet_min_bytes = 32", "packet_min_bytes = 2048"),
        ("flit_bytes = 16", "flit_bytes = 2048"),
        ("header_bytes = 12", "header_bytes = 2047"),
        ("virtual_channel_buffer_bytes = 4096", "virtual_channel_buffer_bytes = 2048"),
        ("aging_time_max_s = 5000", "aging_time_max_s = 100000"),
        ("first = 7, last = 8", "first = 8, last = 8"),
        ("port_name = \"p{port}\"", "port_name = \"p{port0}\""),
        ("name = \"eth1\"", "name = \"abcdefghijklmno\""),
    ] {
        assert!(FULL.contains(from), "{from:?}");
        let text = FULL.replacen(from, to, 1);
        let read = Machine::parse("right.toml", &text);
        let is_order = read.as_ref().is_err_and(|error| error.problem.contains("unequal rates"));
        assert!(read.is_ok() || is_order, "{to:?}: {}", read.unwrap_err());
    }
}

#[test]
fn times_by_length_are_listed_from_the_shortest() {
    let list = |key: &str, lengths: [u64; 2]| {
        let entries =
            lengths.map(|bytes| format!("{{ bytes = {bytes}, more_ns = {} }}", bytes & 15)).join(", ");
        let text = match key.split_once('/') {
            Some((table, key)) => format!("{NIC}{table} = {{ {key} = [{entries}] }}\n"),
            None => {
                NIC.replace(" }]", &format!(", device = \"tcp\", sockets = {{ {key} = [{entries}] }} }}]"))
            }
        };
        shaped("kind = \"star\"\nswitches = 1").replace(NIC.trim_end(), text.trim_end())
    };
    for key in [
        "software/longer_software",
        "software/longer_packet",
        "software/longer_packet_in_row",
        "software/block_packet",
        "software/shared_write",
        "software/shared_read",
        "longer_send",
        "longer_stream",
        "longer_receive",
    ] {
        let machine = Machine::parse("l.toml", &list(key, [1, 1 << 30]))
            .unwrap_or_else(|error| panic!("{key}: {error}"));
        let host = &machine.host_models[0];
        let sockets = host.nics[0].sockets.as_ref();
        let times = match key {
            "software/longer_software" => &host.software.longer_software,
            "software/longer_packet" => &host.software.longer_packets,
            "software/longer_packet_in_row" => &host.software.longer_packets_in_row,
            "software/block_packet" => &host.software.block_packets,
            "software/shared_write" => &host.software.shared_writes,
            "software/shared_read" => &host.software.shared_reads,
            "longer_send" => &sockets.unwrap().longer_sends,
            "longer_stream" => &sockets.unwrap().longer_streams,
            _ => &sockets.unwrap().longer_receives,
        };
        let read: Vec<(u64, u64)> = times.iter().map(|time| (time.bytes, time.more_ps)).collect();
        assert_eq!(read, [(1, 1_000), (1 << 30, 0)], "{key}");
        for lengths in [[7, 7], [8, 7], [0, 7], [7, (1 << 30) + 1]] {
            assert!(Machine::parse("l.toml", &list(key, lengths)).is_err(), "{key} {lengths:?}");
        }
        let strange = list(key, [1, 2]).replacen("more_ns = 1,", "more_ns = 1, strange = 2,", 1).replacen(
            "more_ns = 1 }",
            "more_ns = 1, strange = 2 }",
            1,
        );
        assert!(
            Machine::parse("l.toml", &strange).is_err_and(|error| error.key.ends_with("strange")),
            "{key}"
        );
    }
}

#[test]
fn pieces_are_listed_from_the_shortest_packets() {
    let read_key = |key: &str, entries: &str| {
        let text = format!("{NIC}software = {{ {key} = [{entries}] }}\n");
        let text = shaped("kind = \"star\"\nswitches = 1").replace(NIC.trim_end(), text.trim_end());
        Machine::parse("p.toml", &text)
            .map(|machine| {
                let software = &machine.host_models[0].software;
                if key == "pieces" { software.pieces.clone() } else { software.block_pieces.clone() }
            })
            .map_err(|error| error.key.clone())
    };
    let read = |entries: &str| {
        let found = read_key("pieces", entries);
        let in_blocks = read_key("block_pieces", entries);
        assert_eq!(found, in_blocks.map_err(|key| key.replace(".block_pieces", ".pieces").into()));
        found
    };
    let most = 1 << 30;
    let piece = |bytes: u64, piece_bytes: u64| format!("{{ bytes = {bytes}, piece_bytes = {piece_bytes} }}");
    let pieces = [(1, most), (most, 1)].map(|(bytes, piece_bytes)| PiecesFrom { bytes, piece_bytes });
    assert_eq!(read(&[piece(1, most), piece(most, 1)].join(", ")), Ok(pieces.to_vec()));
    for (wrong, key) in [
        (piece(0, 1), "bytes"),
        (piece(most + 1, 1), "bytes"),
        (piece(1, 0), "piece_bytes"),
        (piece(1, most + 1), "piece_bytes"),
        ([piece(8, 1), piece(8, 1)].join(", "), "bytes"),
        ([piece(8, 1), piece(7, 1)].join(", "), "bytes"),
        (piece(1, 1).replace(" }", ", strange = 2 }"), "strange"),
    ] {
        assert!(read(&wrong).is_err_and(|named| named.ends_with(&format!(".{key}"))), "{wrong}");
    }
}

#[test]
fn pause_is_said_only_of_makes_that_can_send_it() {
    let with = |dialect: &str, pause: &str| {
        let text = shaped("kind = \"star\"\nswitches = 1")
            .replace("ports = 48", &format!("ports = 48\ndialect = \"{dialect}\"\n{pause}"));
        assert!(text.contains(dialect));
        Machine::parse("p.toml", &text)
            .map(|machine| machine.switch_models[0].pause)
            .map_err(|error| error.problem.to_string())
    };
    for (dialect, usual) in [
        ("arista-eos", true),
        ("dell-os6", true),
        ("linux-bridge", false),
        ("cisco-ios", false),
        ("sonic", false),
    ] {
        assert_eq!((with(dialect, ""), with(dialect, "pause = false")), (Ok(usual), Ok(false)), "{dialect}");
    }
    // A bridge in software may be on NICs that pause.
    assert_eq!(
        ["arista-eos", "dell-os6", "linux-bridge"].map(|dialect| with(dialect, "pause = true")),
        [Ok(true), Ok(true), Ok(true)]
    );
    let refused = ["cisco-ios", "sonic"].map(|dialect| with(dialect, "pause = true").unwrap_err());
    assert!(refused[0].contains("sends none") && refused[1].contains("no pause frames"), "{refused:?}");
}

#[test]
fn a_subnet_that_does_not_begin_where_it_should_is_corrected() {
    let text = FULL.replace("first_vlan = 200", "vlan_subnet = \"10.1.2.3/20\"");
    let error = Machine::parse("s.toml", &text).unwrap_err();
    assert_eq!(
        (&*error.problem, &*error.remedy),
        ("10.1.2.3 is not the first address of a /20", "write \"10.1.0.0/20\"")
    );
    for subnet in ["10.0.0.0/30", "0.0.0.0/1"] {
        let text = FULL.replace("first_vlan = 200", &format!("vlan_subnet = \"{subnet}\""));
        assert!(Machine::parse("s.toml", &text).is_ok(), "{subnet}");
    }
}

#[test]
fn names_are_as_long_as_the_page_says_and_ports_have_theirs() {
    let of_length =
        |count: usize| FULL.replace("name = \"left\"", &format!("name = \"{}\"", "x".repeat(count)));
    let read = |count: usize| {
        Machine::parse("n.toml", &of_length(count).replace("left:", &format!("{}:", "x".repeat(count))))
    };
    assert!(
        read(63).is_ok() && read(64).is_err_and(|error| error.problem.contains("a name of 64 characters"))
    );
    let bad = FULL.replace("[switch_models.s]", "[switch_models.\"s t\"]");
    assert!(Machine::parse("n.toml", &bad).is_err_and(|error| error.problem.contains("has ' ' in it")));
    let names = |name: &str| Machine::parse("n.toml", &FULL.replace("p{port}", name)).unwrap();
    let named = |pattern: &str| [1, 8].map(|number| names(pattern).switch_models[0].port_names.name(number));
    assert_eq!(named("ge{port}"), ["ge1", "ge8"]);
    assert_eq!(named("{port0}/{port}x"), ["0/1x", "7/8x"]);
}

#[test]
fn a_value_of_another_kind_says_which_it_is() {
    let cases = [
        ("\"8\"", "is a string"),
        ("8.5", "is a number with a fraction"),
        ("true", "is true or false"),
        ("1979-05-27", "is a date"),
        ("[8]", "is a list"),
        ("{ a = 8 }", "is a table"),
    ];
    for (value, wanted) in cases {
        let error =
            Machine::parse("k.toml", &FULL.replace("ports = 8", &format!("ports = {value}"))).unwrap_err();
        assert_eq!(&*error.problem, format!("{wanted}, and a whole number is needed"));
    }
    let error = Machine::parse("k.toml", &FULL.replace("name = \"full\"", "name = 8")).unwrap_err();
    assert_eq!(&*error.problem, "is a whole number, and a string is needed");
    let twice = Machine::parse("k.toml", &FULL.replace("ports = 8", "ports = 8\nports = 9")).unwrap_err();
    assert_eq!(&*twice.remedy, "it stands further up already: keep one of the two");
    let no_toml = Machine::parse("k.toml", "name = \n").unwrap_err();
    assert!(no_toml.remedy.starts_with("write it as TOML"), "{no_toml}");
    let missing = |text: &str| Machine::parse("k.toml", text).unwrap_err().problem;
    assert_eq!(&*missing(&FULL.replace("name = \"full\"\n", "")), "is missing from the file");
    let unnamed = Machine::parse("k.toml", &FULL.replace("name = \"full\"\n", "")).unwrap_err();
    assert_eq!((unnamed.line, unnamed.column), (0, 0), "the file as a whole is at no line");
    assert_eq!(&*missing(&FULL.replace("ports = 8\n", "")), "is missing from [switch_models.s]");
}

#[test]
fn bridges_of_hosts_have_a_model_each() {
    let text = "name = \"b\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\n\
        [host_models.two]\nnic = [{ name = \"a0\", rate_gbps = 1 }, { name = \"a1\", rate_gbps = 10 }]\n\
        [host_models.three]\n\
        nic = [{ name = \"b0\", rate_gbps = 1 }, { name = \"b1\", rate_gbps = 1 }, \
        { name = \"b2\", rate_gbps = 1 }]\n\
        [[host]]\nname = \"p\"\nmodel = \"two\"\n[[host]]\nname = \"q\"\nmodel = \"three\"\n[[host]]\n\
        name = \"r\"\nmodel = \"two\"\n\
        [[cable]]\nfrom = \"p:a0\"\nto = \"q:b0\"\n[[cable]]\nfrom = \"q:b1\"\nto = \"r:a0\"\n\
        latency_ns = 7\n";
    let machine = Machine::parse("b.toml", text).unwrap();
    let model = |switch: u32| machine.switch_model(SwitchId(switch));
    assert_eq!([0, 1, 2].map(|switch| model(switch).port_count), [2, 3, 2]);
    assert_eq!(
        [0, 1, 2].map(|switch| model(switch).rate_bits_per_s),
        [10_000_000_000, 1_000_000_000, 10_000_000_000]
    );
    assert_eq!(machine.switch_models.len(), 3);
    let bridge = model(0);
    // A bridge in software takes any number of VLANs, and its NICs pause.
    assert!(bridge.pause && bridge.many_untagged_vlans_per_port && bridge.aging_can_be_off);
    assert_eq!(
        (bridge.latency_ps, bridge.mstp_instances_max, bridge.dialect.as_str()),
        (0, 0, "linux-bridge")
    );
    let latencies: Vec<u64> = machine.graph.links().map(|(_, link)| link.spec.latency_ps).take(2).collect();
    // A metre of copper where the file says nothing.
    assert_eq!(latencies, [5_000, 7_000]);
    let strange = text.replace("latency_ns = 7", "strange = 7");
    assert!(Machine::parse("b.toml", &strange).is_err_and(|error| error.key.ends_with("strange")));
}

#[test]
fn hosts_are_spread_with_the_rest_at_the_last_switches() {
    let counts = |hosts: &str, keys: &str| -> Result<Vec<u32>, String> {
        let topology = "kind = \"ring\"\nswitches = 4";
        let text = shaped(topology).replace("per_switch = 1", keys);
        let listed = text.replace(topology, "").replace("[hosts]", &format!("{hosts}[hosts]"));
        let text = if hosts.is_empty() { text } else { listed };
        let machine = Machine::parse("h.toml", &text).map_err(|error| error.problem.to_string())?;
        Ok(machine.attachment_counts())
    };
    assert_eq!(counts("", "count = 6").unwrap(), [1, 2, 1, 2]);
    assert_eq!(counts("", "count = 2").unwrap(), [0, 1, 0, 1]);
    assert_eq!(counts("", "per_switch = 3").unwrap(), [3; 4]);
    let rows = "[[switch]]\nname = \"a\"\nhosts = 2\n[[switch]]\nname = \"b\"\nhosts = 0\n\
        [[cable]]\nfrom = \"a:48\"\nto = \"b:48\"\n";
    assert_eq!(counts(rows, "count = 2").unwrap(), [2, 0]);
    assert_eq!(counts(rows, "").unwrap(), [2, 0]);
    assert!(counts(rows, "count = 3").unwrap_err().contains("no switch is left for 1 of the 3 hosts"));
    assert!(counts(rows, "count = 1").unwrap_err().contains("1 hosts, and the [[switch]] entries ask for 2"));
    // All ports of a switch for links, and none too few.
    let full = shaped("kind = \"ring\"\nswitches = 3\ncables = 24").replace("per_switch = 1", "count = 0");
    assert!(Machine::parse("h.toml", &full).is_err_and(|error| error.problem.contains("0 is out of range")));
    let full = full.replace("count = 0", "count = 1");
    assert!(Machine::parse("h.toml", &full).is_err_and(|error| error.problem.contains("ports left for")));
}

#[test]
fn words_that_are_nearly_right_are_suggested() {
    let nearest = |word| error::nearest(word, ["ports", "rate_gbps", "x"]);
    assert_eq!(["prots", "port", "rate_gpbs", "rategbps", "rtgps"].map(nearest), {
        let (ports, rate) = (Some("ports"), Some("rate_gbps"));
        [ports, ports, rate, rate, None]
    });
    // One slip in a short word, three at most in a long one.
    assert_eq!((nearest("y"), nearest("xy"), nearest("abc")), (Some("x"), Some("x"), None));
    let many: Vec<String> = (0..25).map(|number| format!("word{number:02}")).collect();
    let list = |count: usize| {
        error::suggest("zzzzzzzzzz", &many.iter().take(count).map(String::as_str).collect::<Vec<_>>())
    };
    assert!(list(24).ends_with("`word23`") && list(25).ends_with("`word23` …"), "{}", list(25));
}

#[test]
fn a_file_too_long_to_be_a_description_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    std::fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    let error = Machine::load(&path).unwrap_err();
    assert!(error.problem.contains("are allowed"), "{error}");
    // The file as a whole has no column.
    assert_eq!((error.line, error.column), (0, 0));
    std::fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX).unwrap();
    let error = Machine::load(&path).unwrap_err();
    assert!(!error.problem.contains("are allowed"), "{error}");
    let source = Source { file: "x".into(), text: "é = 1\n".into() };
    // Within a letter of two bytes: at the letter.
    let inside = source.error(1..2, "k", "p", "r");
    assert_eq!((inside.line, inside.column, &*inside.excerpt), (1, 1, "é = 1"));
    let long = Source { file: "x".into(), text: format!("{} = 1\n", "k".repeat(200)) };
    let shown = |at: usize| long.error(at..at + 1, "k", "p", "r").excerpt.len();
    assert_eq!((shown(160), shown(161)), (160, 0), "an arrow beyond the excerpt points at nothing");
}
