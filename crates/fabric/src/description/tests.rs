//! Good descriptions read right; bad ones give one clear error each.

use super::*;
use crate::graph::Node;
use crate::graph::{HostId, LinkId, SwitchId};
use crate::plan::MacAddr;

const LISTED: &str = r#"name = "listed"

[switch_models.eight]
ports = 8
rate_gbps = 1
dialect = "dell-os6"
vlans_max = 64
lag_ports_max = 2
lags_max = 2
fast_ports = { first = 7, last = 8, rate_gbps = 10 }

[switch_models.single]
ports = 4
rate_gbps = 1
dialect = "arista-eos"

[host_models.node]
nic = [{ name = "eth0", rate_gbps = 1 }]

[host_models.dual]
sockets = 2
nics_as = "bond"
nic = [
  { name = "eth0", rate_gbps = 1 },
  { name = "eth1", rate_gbps = 1, numa_node = 1 },
]

[topology]
switch_model = "eight"

[[switch]]
name = "left"
[[switch]]
name = "right"

[[host]]
name = "a"
model = "node"
macs = ["52:54:00:00:00:01"]
[[host]]
name = "b"
model = "dual"

[[cable]]
from = "left:7-8"
to = "right:7-8"
[[cable]]
from = "a"
to = "left:1"
[[cable]]
from = "b:eth0"
to = "right:1"
[[cable]]
from = "b:eth1"
to = "right:2"

[plan]
routing = "minimal"
first_vlan = 101
"#;

const GENERATED: &str = r#"name = "generated"
[switch_models.s]
ports = 48
rate_gbps = 1
dialect = "dell-os6"
[host_models.h]
nic = [{ name = "eth0", rate_gbps = 1 }]
[topology]
kind = "torus"
extents = [4, 2]
switch_model = "s"
cables = 2
[hosts]
model = "h"
count = 225
name = "n{host1}"
[plan]
routing = "dimension-order"
dimension_order = [1, 0]
"#;

fn read(text: &str) -> Machine {
    Machine::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn listed_switches_hosts_and_cables_become_a_graph() {
    let machine = read(LISTED);
    assert_eq!(machine.graph.link_count(), 3);
    assert_eq!(machine.switch_link_count(), 1);
    let lag = machine.graph.link(LinkId(0)).spec;
    assert_eq!((lag.rate_bits_per_s, lag.cable_count), (10_000_000_000, 2));
    assert_eq!(machine.link_ports[0], [vec![7, 8], vec![7, 8]]);
    let bond = &machine.hosts[1].attachments;
    assert_eq!(bond.len(), 1);
    assert_eq!(machine.link_ports[bond[0].link.index()], [vec![0, 1], vec![1, 2]]);
    assert_eq!(machine.graph.link(bond[0].link).spec.cable_count, 2);
    assert_eq!(machine.hosts[0].macs, [MacAddr::parse("52:54:00:00:00:01")]);
}

#[test]
fn cables_take_the_ports_of_the_graph_from_the_first_on() {
    let machine = Machine::parse("listed.toml", LISTED).unwrap();
    let (_, link) = machine.graph.links().next().unwrap();
    assert_eq!(link.ends.map(|end| end.port), [0, 0]);
}

#[test]
fn switches_without_a_number_of_hosts_get_none_of_no_rest() {
    let text = |hosts: &str, name: &str| {
        format!(
            "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[hosts]\nmodel = \"h\"\n{name}[topology]\n\
             switch_model = \"s\"\n{hosts}"
        )
    };
    let listed = "[[switch]]\nname = \"a\"\nhosts = 2\ncoordinates = [0, 3]\n[[switch]]\nname = \"b\"\n\
                  [[cable]]\nfrom = \"a:8\"\nto = \"b:8\"\n";
    let machine = Machine::parse("m.toml", &text(listed, "")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.attachment_counts(), [2, 0]);
    // A generated switch has a name that no host may have.
    let ring = "kind = \"ring\"\nswitches = 3\n";
    let error = Machine::parse("m.toml", &text(ring, "count = 3\nname = \"s{host}\"\n")).unwrap_err();
    assert!(error.problem.contains("there already is something called \"s0\""), "{error}");
    // One port of four is left: three are links.
    let full = "kind = \"complete\"\nswitches = 4\ncables = 2\n";
    let error = Machine::parse("m.toml", &text(full, "per_switch = 3\n")).unwrap_err();
    assert!(error.problem.contains("s0 has 2 ports left for 3 hosts"), "{error}");
}

#[test]
fn two_rails_are_two_attachments() {
    let machine = read(&LISTED.replace("\"bond\"", "\"rails\""));
    assert_eq!(machine.hosts[1].attachments.len(), 2);
    assert_eq!(machine.attachment_counts(), [1, 2]);
}

#[test]
fn the_only_cabled_nic_of_a_bond_is_no_bond() {
    let text = LISTED.replace("[[cable]]\nfrom = \"b:eth1\"\nto = \"right:2\"\n", "");
    let plan = crate::vlan::plan(&read(&text)).unwrap();
    let attachment = &plan.hosts[1].attachments[0];
    assert_eq!((attachment.interface.as_str(), attachment.ports.as_slice()), ("eth0", [1].as_slice()));
    assert!(plan.switches[1].ports[0].lag.is_none());
}

#[test]
fn generated_hosts_fill_switches_and_links_take_the_last_ports() {
    let machine = read(GENERATED);
    let counts = machine.attachment_counts();
    assert_eq!(counts, [28, 28, 28, 28, 28, 28, 28, 29]);
    assert_eq!(machine.graph.name(Node::Host(HostId(224))), "n225");
    assert_eq!(machine.link_ports[0], [vec![43, 44], vec![43, 44]]);
    assert_eq!(machine.graph.link_count(), 12 + 225);
}

#[test]
fn hosts_of_each_switch_need_switches() {
    let text = "name = \"n\"\n[host_models.h]\nnic = [{ name = \"e\", rate_gbps = 1 }]\n\
                [hosts]\nmodel = \"h\"\nper_switch = 2\n";
    let error = Machine::parse("n.toml", text).expect_err("there are none");
    assert!(error.to_string().contains("hosts.per_switch: there are no switches"), "{error}");
}

#[test]
fn hosts_cabled_to_each_other_need_no_switch() {
    let text = r#"name = "three"
[host_models.h]
nic = [{ name = "eth0", rate_gbps = 10 }, { name = "eth1", rate_gbps = 10 }]
[[host]]
name = "a"
model = "h"
[[host]]
name = "b"
model = "h"
[[host]]
name = "c"
model = "h"
[[cable]]
from = "a:eth0"
to = "b:eth1"
[[cable]]
from = "b:eth0"
to = "c:eth1"
[[cable]]
from = "c:eth0"
to = "a:eth1"
"#;
    let machine = read(text);
    assert_eq!((machine.graph.switch_count(), machine.switch_link_count()), (3, 3));
    assert_eq!(machine.switches[0].inside_host, Some(HostId(0)));
    assert_eq!(machine.switch_model(SwitchId(0)).port_names.name(2), "eth1");
    assert_eq!(machine.attachment_counts(), [1, 1, 1]);
    assert_eq!(machine.graph.name(Node::Switch(SwitchId(2))), "c-br0");
    // No cable leads from a host to the bridge inside of it.
    let inside = machine.graph.link(machine.hosts[0].attachments[0].link).spec;
    assert_eq!((inside.latency_ps, inside.rate_bits_per_s), (0, 20_000_000_000));
    // Names of bridges and of their models must be free: two switches of one name would be one file.
    for (more, wanted) in [
        ("[[host]]\nname = \"b-br0\"\nmodel = \"h\"\n", "a bridge \"b-br0\", and there already is"),
        ("[switch_models.h-bridge]\nports = 1\nrate_gbps = 1\n", "[switch_models.h-bridge] is there"),
    ] {
        let error = Machine::parse("test.toml", &format!("{text}{more}")).unwrap_err();
        assert!(error.key.starts_with("cable[") && error.problem.contains(wanted), "{error}");
    }
}

#[test]
fn an_error_found_later_still_points_into_the_file() {
    let machine = read(LISTED);
    let error = machine.error("switch_models.eight.vlans_max", "too few", "use fewer");
    assert_eq!((error.line, &*error.excerpt), (7, "vlans_max = 64"));
    let missing = machine.error("plan.tagging", "x", "y");
    assert_eq!(&*missing.excerpt, "[plan]");
    // No part of the key is there: the file as a whole is meant.
    let nowhere = machine.error("study.runs", "x", "y");
    assert_eq!((nowhere.line, &*nowhere.excerpt), (0, ""));
    assert!(nowhere.to_string().starts_with("test.toml: study.runs: x\n"), "{nowhere}");
}

/// A change of a text; the key, a part of the line and a part of the problem that the error must have.
struct Bad {
    base: &'static str,
    from: &'static str,
    to: &'static str,
    key: &'static str,
    excerpt: &'static str,
    problem: &'static str,
}

const fn listed(
    from: &'static str,
    to: &'static str,
    key: &'static str,
    excerpt: &'static str,
    problem: &'static str,
) -> Bad {
    Bad { base: LISTED, from, to, key, excerpt, problem }
}

const fn generated(
    from: &'static str,
    to: &'static str,
    key: &'static str,
    excerpt: &'static str,
    problem: &'static str,
) -> Bad {
    Bad { base: GENERATED, from, to, key, excerpt, problem }
}

const fn nic_of_dual(
    to: &'static str,
    key: &'static str,
    excerpt: &'static str,
    problem: &'static str,
) -> Bad {
    listed("{ name = \"eth1\", rate_gbps = 1, numa_node = 1 }", to, key, excerpt, problem)
}

const SECOND_CABLE: &str = "to = \"left:1\"";

#[rustfmt::skip]
const BAD: &[Bad] = &[
    // The file as TOML.
    listed("name = \"listed\"", "name = listed", "", "name = listed", "string"),
    listed("[plan]", "[plan", "", "[plan", ""),
    listed("first_vlan = 101", "first_vlan = 101\nfirst_vlan = 102", "", "first_vlan = 102", "duplicate key"),
    // Keys.
    listed("name = \"listed\"\n", "", "name", "", "is missing"),
    listed("ports = 8", "prots = 8", "switch_models.eight.prots", "prots = 8", "is not a known key"),
    listed("vlans_max", "vlan_max", "switch_models.eight.vlan_max", "vlan_max = 64", "is not a known key"),
    listed("[plan]", "[plans]", "plans", "[plans]", "is not a known key"),
    listed("macs =", "mac =", "host[0].mac", "mac =", "is not a known key"),
    // Types and ranges.
    listed("ports = 8", "ports = \"8\"", "switch_models.eight.ports", "ports = \"8\"", "is a string"),
    listed("ports = 8\n", "", "switch_models.eight.ports", "[switch_models.eight]", "is missing"),
    listed("ports = 8", "ports = 0", "switch_models.eight.ports", "ports = 0", "out of range"),
    listed("ports = 8", "ports = -8", "switch_models.eight.ports", "ports = -8", "out of range"),
    listed("ports = 8", "ports = 99999999999999999999999", "switch_models.eight.ports", "ports = 9", "out of range"),
    listed("rate_gbps = 1\ndialect = \"dell", "rate_gbps = 0\ndialect = \"dell", "switch_models.eight.rate_gbps", "rate_gbps = 0", "out of range"),
    listed("rate_gbps = 1\ndialect = \"dell", "rate_gbps = nan\ndialect = \"dell", "switch_models.eight.rate_gbps", "rate_gbps = nan", "out of range"),
    listed("vlans_max = 64", "vlans_max = 4095", "switch_models.eight.vlans_max", "4095", "out of range"),
    listed("first_vlan = 101", "first_vlan = 1", "plan.first_vlan", "first_vlan = 1", "out of range"),
    listed("name = \"listed\"", "name = \"two words\"", "name", "two words", "has ' ' in it"),
    listed("name = \"a\"", "name = \"\"", "host[0].name", "name = \"\"", "a name of 0 characters"),
    listed("name = \"a\"", "name = \"-a\"", "host[0].name", "-a", "begins with a sign"),
    listed("sockets = 2", "sockets = 2\nmemory_banks = 4",
        "host_models.dual", "[host_models.dual]", "only together"),
    // Names that mean nothing.
    listed("dialect = \"dell-os6\"", "dialect = \"dell-os7\"", "switch_models.eight.dialect", "dell-os7", "is not known"),
    listed("routing = \"minimal\"", "routing = \"minimum\"", "plan.routing", "minimum", "is not known"),
    listed("model = \"node\"", "model = \"knot\"", "host[0].model", "knot", "there is no [host_models.knot]"),
    listed("switch_model = \"eight\"", "switch_model = \"nine\"", "topology.switch_model", "nine", "there is no [switch_models.nine]"),
    listed("to = \"left:1\"", "to = \"lift:1\"", "cable[1].to", "lift:1", "there is no switch or host"),
    listed("from = \"b:eth0\"", "from = \"b:eth7\"", "cable[2].from", "b:eth7", "has no NIC"),
    listed("from = \"b:eth0\"", "from = \"b\"", "cable[2].from", "\"b\"", "does not say which NIC"),
    listed("model = \"node\"\n", "", "host[0]", "[[host]]", "a has no model"),
    listed("switch_model = \"eight\"", "", "switch[0]", "[[switch]]", "left has no model"),
    // Names used twice.
    listed("name = \"right\"", "name = \"left\"", "switch[1].name", "left", "already is something called"),
    listed("name = \"b\"", "name = \"a\"", "host[1].name", "\"a\"", "already is something called"),
    listed("{ name = \"eth1\"", "{ name = \"eth0\"", "host_models.dual.nic", "nic = [", "two NICs are called"),
    // Buses and stages of NICs.
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         bus = \"pci\" }",
        "host_models.dual.nic[1].bus", "\"pci\"", "the host has no bus",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         send_stages = [{ name = \"x\", dma = true }] }",
        "host_models.dual.nic[1].send_stages", "send_stages", "stands without `receive_stages`",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         send_stages = [{ name = \"x\" }], receive_stages = [{ name = \"y\", dma = true }] }",
        "host_models.dual.nic[1].send_stages", "send_stages", "cross the bus in one stage",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         send_stages = [{ name = \"x\", dma = true }], \
         receive_stages = [{ name = \"x\", servers = 2, dma = true }] }",
        "host_models.dual.nic[1].send_stages", "send_stages", "1 servers in stage",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, sockets = {} }",
        "host_models.dual.nic[1].sockets", "sockets", "are what `device = \"tcp\"` uses",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, device = \"tcp\", sockets = { relay_rate = [\
         { within_kib = 128, gbytes_per_s = 9 }, { within_kib = 128, gbytes_per_s = 8 }] } }",
        "host_models.dual.nic[1].sockets.relay_rate[1].within_kib", "within_kib",
        "less memory than the one before",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         device = \"tcp\", transfer = \"put\" }",
        "host_models.dual.nic[1].device", "\"tcp\"", "says itself how",
    ),
    nic_of_dual(
        "{ name = \"eth1\", rate_gbps = 1, \
         eager_bytes_max = 4096, packet_bytes_max = 4100 }",
        "host_models.dual.nic[1].packet_bytes_max", "4100", "do not fit into a packet",
    ),
    listed("model = \"dual\"", "model = \"dual\"\nmacs = [\"52:54:00:00:00:01\"]", "host[1].macs", "macs", "address of another NIC"),
    // Addresses.
    listed("52:54:00:00:00:01", "52:54:00:00:01", "host[0].macs", "52:54:00:00:01", "is no address"),
    listed("52:54:00:00:00:01", "53:54:00:00:00:01", "host[0].macs", "53:54", "is no address"),
    listed("[\"52:54:00:00:00:01\"]", "[\"52:54:00:00:00:01\", \"52:54:00:00:00:02\"]", "host[0].macs", "macs", "2 addresses, more than"),
    listed("first_vlan = 101", "vlan_subnet = \"10.0.0.0\"", "plan.vlan_subnet", "10.0.0.0", "is no IPv4 subnet"),
    listed("first_vlan = 101", "vlan_subnet = \"10.0.0.0/31\"",
        "plan.vlan_subnet", "10.0.0.0/31", "a prefix of 31 bits"),
    listed("first_vlan = 101", "vlan_subnet = \"0.0.0.0/0\"",
        "plan.vlan_subnet", "0.0.0.0/0", "a prefix of 0 bits"),
    listed("first_vlan = 101", "vlan_subnet = \"10.0.0.1/8\"", "plan.vlan_subnet", "10.0.0.1/8", "is not the first address"),
    listed("first_vlan = 101", "vlan_subnet = \"172.16.0.0/16\"", "plan.vlan_subnet", "172.16", "overlap"),
    // Ports and cables.
    listed(SECOND_CABLE, "to = \"left:7\"", "cable[1].to", "left:7", "port 7 of left is used twice: it has the cable to right"),
    listed(SECOND_CABLE, "to = \"left:9\"", "cable[1].to", "left:9", "eight has no port 9"),
    listed(SECOND_CABLE, "to = \"left:0\"", "cable[1].to", "left:0", "eight has no port 0"),
    listed(SECOND_CABLE, "to = \"left:x\"", "cable[1].to", "left:x", "is no port number"),
    listed(SECOND_CABLE, "to = \"left\"", "cable[1].to", "\"left\"", "names no port"),
    listed(SECOND_CABLE, "to = \"left:3-2\"", "cable[1].to", "left:3-2", "3 to 2 are no ports"),
    listed(SECOND_CABLE, "to = \"left:1-2\"", "cable[1].to", "left:1-2", "1 port at one end, 2 at the other"),
    listed("to = \"right:7-8\"", "to = \"left:1-2\"", "cable[0].to", "left:1-2", "a cable from left to itself"),
    listed("\"left:7-8\"", "\"left:6-7\"", "cable[0].from", "left:6-7", "unequal rates"),
    listed("lag_ports_max = 2", "lag_ports_max = 1", "cable[0].from", "left:7-8", "a LAG of 2 ports"),
    listed("lags_max = 2", "lags_max = 1", "cable[3]", "[[cable]]", "LAG number 2 of right, and eight can have 1"),
    listed("from = \"b:eth1\"", "from = \"b:eth0\"", "cable[3].from", "b:eth0", "eth0 of b is cabled twice"),
    listed("to = \"right:2\"", "to = \"left:2\"", "cable[3]", "[[cable]]", "go to two switches, right and left"),
    listed("[[cable]]\nfrom = \"a\"\nto = \"left:1\"\n", "", "host[0]", "[[host]]", "host a has no cable"),
    listed("[[cable]]\nfrom = \"left:7-8\"\nto = \"right:7-8\"\n", "", "switch[1]", "[[switch]]", "cannot be reached"),
    listed("from = \"left:7-8\"", "", "cable[0].from", "[[cable]]", "is missing"),
    // Models.
    listed("first = 7", "first = 9", "switch_models.eight.fast_ports.first", "first = 9", "out of range"),
    listed("last = 8,", "last = 6,", "switch_models.eight.fast_ports.first", "first = 7", "are none"),
    listed("vlans_max = 64", "port_names = [\"a\"]", "switch_models.eight.port_names", "port_names", "1 names for 8 ports"),
    listed(
        "vlans_max = 64", "port_names = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"b\", \"h\"]",
        "switch_models.eight.port_names", "port_names", "\"b\" comes twice",
    ),
    listed("vlans_max = 64", "port_name = \"p\"", "switch_models.eight.port_name", "port_name", "the same name"),
    listed("vlans_max = 64", "aging_time_max_s = 1000000", "switch_models.eight.aging_time_max_s", "1000000", "more than the 100000 s"),
    listed("dialect = \"arista-eos\"", "dialect = \"arista-eos\"\nuntagged_vlans_per_port = \"many\"", "switch_models.single.untagged_vlans_per_port", "many", "no words for several"),
    listed("first_vlan = 101", "tagging = \"switch\"", "plan.tagging", "switch", "one untagged VLAN a port"),
    listed("first_vlan = 101", "aging_time_s = 200000", "plan.aging_time_s", "200000", "keeps addresses for 100000 s"),
    listed("numa_node = 1", "numa_node = 2", "host_models.dual.nic[1].numa_node", "numa_node = 2", "no NUMA node 2"),
    listed("name = \"eth1\", rate_gbps = 1", "name = \"eth1\", rate_gbps = 10", "host_models.dual.nics_as", "bond", "unequal rates"),
    listed("nic = [{ name = \"eth0\", rate_gbps = 1 }]", "nic = []", "host_models.node", "[host_models.node]", "has no NIC"),
    listed(
        "{ name = \"eth0\", rate_gbps = 1 }]", "{ name = \"enp129s0f1np1xyz\", rate_gbps = 1 }]",
        "host_models.node.nic[0].name", "enp129", "cannot be the name",
    ),
    listed("vlans_max = 64", "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 1024, flit_bytes = 16, packet_max_bytes = 2048, packet_min_bytes = 32 }", "switch_models.eight.router.virtual_channel_buffer_bytes", "", "no packet of 2048 bytes fits"),
    listed("vlans_max = 64",
        "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, \
         packet_max_bytes = 2048, packet_min_bytes = 2049 }",
        "switch_models.eight.router.packet_min_bytes", "", "more than the longest packet, 2048 bytes"),
    listed("vlans_max = 64",
        "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 2049, \
         packet_max_bytes = 2048, packet_min_bytes = 32 }",
        "switch_models.eight.router.flit_bytes", "", "more than the longest packet, 2048 bytes"),
    listed("vlans_max = 64",
        "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, \
         packet_max_bytes = 2048, packet_min_bytes = 32, header_bytes = 2048 }",
        "switch_models.eight.router.header_bytes", "", "no payload in a packet of 2048 bytes"),
    listed("vlans_max = 64", "pause_off_bytes = 3000", "switch_models.eight.pause_off_bytes", "3000", "but not when it begins"),
    listed("vlans_max = 64", "pause_on_bytes = 2000\npause_off_bytes = 3000", "switch_models.eight.pause_off_bytes", "3000", "more than `pause_on_bytes`"),
    listed("vlans_max = 64", "queue_bytes = 10", "switch_models.eight.queue_bytes", "10", "out of range"),
    listed(
        "nic = [{ name = \"eth0\", rate_gbps = 1 }]",
        "nic = [{ name = \"eth0\", rate_gbps = 1 }]\ntcp = { ack_delay_ms = 900 }",
        "host_models.node.tcp.ack_delay_ms", "900", "out of range",
    ),
    listed("vlans_max = 64", "lag_hash = \"mac\"", "switch_models.eight.lag_hash", "mac", "is not known"),
    listed("vlans_max = 64", "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, packet_max_bytes = 2048, packet_min_bytes = 32, dateline = \"first\" }", "switch_models.eight.router.dateline", "", "is not known"),
    listed("vlans_max = 64", "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, packet_max_bytes = 2048, packet_min_bytes = 32, tie = \"first\" }", "switch_models.eight.router.tie", "", "is not known"),
    listed("vlans_max = 64", "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, packet_max_bytes = 2048, packet_min_bytes = 32, arbitration = \"first\" }", "switch_models.eight.router.arbitration", "", "is not known"),
    listed("vlans_max = 64", "router = { virtual_channels = 2, virtual_channel_buffer_bytes = 4096, flit_bytes = 16, packet_max_bytes = 2048, packet_min_bytes = 32, crossbar_inputs = \"first\" }", "switch_models.eight.router.crossbar_inputs", "", "is not known"),
    // Topologies.
    listed("switch_model = \"eight\"", "switch_model = \"eight\"\nkind = \"ring\"\nswitches = 3", "topology.kind", "ring", "come from [[switch]]"),
    listed("first_vlan = 101", "dimension_order = [0]", "plan.dimension_order", "[0]", "has no dimensions"),
    listed("routing = \"minimal\"", "routing = \"dimension-order\"", "plan.routing", "dimension-order", "has no dimensions"),
    generated("kind = \"torus\"", "kind = \"taurus\"", "topology.kind", "taurus", "is not known"),
    generated("extents = [4, 2]", "extents = [4, 0]", "topology.extents", "[4, 0]", "out of range"),
    generated("extents = [4, 2]", "extents = []", "topology.kind", "torus", "at least one extent"),
    generated("extents = [4, 2]", "extents = [4, 2.5]", "topology.extents", "2.5", "whole number is needed"),
    generated("extents = [4, 2]", "switches = 8", "topology.extents", "[topology]", "is missing"),
    generated("extents = [4, 2]", "extents = [4096, 512]", "topology.kind", "torus", "the topology has 2097152 switches"),
    generated("switch_model = \"s\"\n", "", "topology.switch_model", "[topology]", "does not say what switches"),
    generated("cables = 2", "cables = 20", "topology.cables", "cables = 20", "needs 60 ports for links"),
    generated("cables = 2", "cables = 7", "hosts", "[hosts]", "ports left for"),
    generated("count = 225", "count = 2250", "hosts", "[hosts]", "ports left for"),
    generated("count = 225\n", "", "hosts", "[hosts]", "does not say how many"),
    generated("count = 225", "count = 225\nper_switch = 3", "hosts.count", "count = 225", "a second time"),
    generated("n{host1}", "n", "hosts.name", "\"n\"", "the same name"),
    generated("[hosts]\nmodel = \"h\"\ncount = 225\nname = \"n{host1}\"\n", "", "hosts", "", "there are no hosts"),
    generated("[hosts]\n", "[hots]\n", "hots", "[hots]", "is not a known key"),
    generated("kind = ", "kid = ", "topology.kid", "kid = ", "is not a known key"),
    generated("kind = \"torus\"\nextents = [4, 2]", "kind = \"fat-tree\"\nradx = 8\nlevels = 2", "topology.radx", "radx = 8", "is not a known key"),
    generated("kind = \"torus\"\nextents = [4, 2]", "kind = \"fat-tree\"\nup = [2]", "topology.down", "[topology]", "is missing"),
    generated("[1, 0]", "[1, 1]", "plan.dimension_order", "[1, 1]", "is no order"),
    generated("[1, 0]", "[31]", "plan.dimension_order", "[31]", "is no order"),
    generated("[1, 0]", "[32]", "plan.dimension_order", "[32]", "is out of range"),
    generated("[1, 0]", "[1, 0, 2]", "plan.dimension_order", "[1, 0, 2]", "names 3 dimensions, and the topology has 2"),
];

#[test]
fn every_bad_description_gives_one_clear_error() {
    let mut count = 0;
    for bad in BAD {
        assert!(bad.base.contains(bad.from), "{:?} is not in the base text", bad.from);
        let text = bad.base.replacen(bad.from, bad.to, 1);
        let change = format!("{:?} -> {:?}", bad.from, bad.to);
        let Err(error) = Machine::parse("test.toml", &text) else {
            panic!("no error for {change}");
        };
        assert_eq!(&*error.key, bad.key, "{change}\n{error}");
        assert!(error.excerpt.contains(bad.excerpt), "{change}\n{error}");
        assert!(error.problem.contains(bad.problem), "{change}\n{error}");
        assert!(!error.remedy.is_empty(), "{change}\n{error}");
        let place = match error.line {
            0 => "test.toml: ".to_owned(),
            line => format!("test.toml:{line}: "),
        };
        let line = error.line.checked_sub(1).and_then(|index| text.lines().nth(index)).unwrap_or("");
        assert!(line.contains(&*error.excerpt), "{change}\n{error}");
        assert!(error.to_string().starts_with(&place), "{error}");
        // To be read by a person: `-- bad_description --nocapture`.
        println!("{error}\n");
        count += 1;
    }
    assert!(count >= 40, "{count} cases");
}

#[test]
fn a_cycle_in_a_tree_is_named() {
    let text = LISTED
        .replace("switch_model = \"eight\"", "switch_model = \"eight\"\nshape = \"tree\"")
        .replace("[plan]", "[[cable]]\nfrom = \"left:3\"\nto = \"right:3\"\n[plan]");
    let error = Machine::parse("test.toml", &text).unwrap_err();
    assert_eq!((&*error.key, &*error.excerpt), ("cable[4].to", "to = \"right:3\""));
    assert!(error.problem.contains("closes a cycle: left and right are joined already"), "{error}");
}

#[test]
fn files_that_cannot_be_read_say_so() {
    let folder = std::env::temp_dir();
    let missing = Machine::load(&folder.join("no-such-machine.toml")).unwrap_err();
    assert!(missing.problem.contains("cannot be read"), "{missing}");
    assert!(missing.to_string().contains("no-such-machine.toml: cannot"), "no line is meant: {missing}");
    let binary = folder.join(format!("ayatori-binary-{}.toml", std::process::id()));
    std::fs::write(&binary, b"name = \"\xff\"").unwrap();
    let error = Machine::load(&binary).unwrap_err();
    std::fs::remove_file(&binary).unwrap();
    assert!(error.problem.contains("is not UTF-8"), "{error}");
}

#[test]
fn no_mutilation_of_a_description_panics() {
    for base in [LISTED, GENERATED] {
        for (at, _) in base.char_indices() {
            // Cut off, and with one character gone.
            let _ = Machine::parse("cut.toml", &base[..at]);
            let mut text = base.to_owned();
            text.remove(at);
            let _ = Machine::parse("gap.toml", &text);
        }
    }
}

#[test]
fn the_machines_we_ship_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Machine::load(&path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count >= 3, "{count} machines in {}", folder.display());
}

#[test]
fn the_papers_machines_are_what_the_paper_says() {
    let machine = |name: &str| {
        Machine::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(name)).unwrap()
    };
    let supernova = machine("supernova.toml");
    assert_eq!((supernova.graph.switch_count(), supernova.graph.host_count()), (8, 225));
    // 36 cables with three links (section 4.1.2): 12 links.
    assert_eq!(supernova.switch_link_count(), 12);
    let misc = machine("misc.toml");
    assert_eq!((misc.graph.switch_count(), misc.graph.host_count(), misc.switch_link_count()), (6, 66, 15));
    assert_eq!(misc.graph.link(misc.hosts[0].attachments[0].link).spec.cable_count, 2);
    let fx10 = machine("fx10.toml");
    let router = fx10.switch_models[0].router.unwrap();
    assert_eq!((router.switch_traversal_ps, router.virtual_channel_buffer_bytes), (3_200, 8_192));
    assert_eq!(fx10.graph.switch_count(), 64);
}

#[test]
fn keys_that_may_stand_and_keys_that_are_given_are_told() {
    let text = "name = \"k\"\n[switch_models.s]\nports = 4\nrate_gbps = 1\nlag_hash = \"addresses\"\n[host_models.h]\n\
                nic = [{ name = \"eth0\", rate_gbps = 1, mtu_bytes = 9000 }]\n[topology]\nkind = \"star\"\nswitches = 1\n\
                switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 2\n";
    let keys = Machine::keys("k.toml", text).unwrap();
    for key in
        ["name", "switch_models.s.queue_bytes", "host_models.h.nic.device", "host_models.h.tcp", "plan"]
    {
        assert!(keys.contains(key), "{key}: {keys:?}");
    }
    // Of a table that is not there nothing was asked.
    assert!(!keys.contains("host_models.h.tcp.jitter_ns"));
    let machine = Machine::parse("k.toml", text).unwrap();
    let given = |key| machine.gives(key);
    assert!(given("switch_models.s.lag_hash") && given("host_models.h.nic[0].mtu_bytes"));
    assert!(!given("switch_models.s.queue_bytes") && !given("host_models.h.nic[0].device"));
}

#[test]
fn parts_that_no_cable_joins_are_named() {
    let text = LISTED.replace("from = \"left:7-8\"\nto = \"right:7-8\"", "from = \"a\"\nto = \"left:2\"");
    let text = text.replace("[[cable]]\nfrom = \"a\"\nto = \"left:1\"\n", "");
    let error = Machine::parse("test.toml", &text).unwrap_err();
    assert_eq!(&*error.problem, "switch right cannot be reached from left");
}

#[test]
fn a_bond_may_be_described_for_hosts_of_one_nic() {
    let text = LISTED.replace("[host_models.node]\n", "[host_models.node]\nnics_as = \"bond\"\n");
    assert_eq!(read(&text).host_models.iter().filter(|model| model.nics_as == NicsAs::Bond).count(), 2);
}

#[test]
fn what_a_bus_says_already_is_named() {
    let bus =
        "bus = [{ name = \"b\", kind = \"pci-express\", lanes = 8, generation = 4 }]\nnic = [{ bus = \"b\", ";
    let said = |own: &str| {
        let text = LISTED.replacen("nic = [{ ", &format!("{bus}{own}, "), 1);
        Machine::parse("test.toml", &text).unwrap_err()
    };
    for (own, key) in [("bus_gbytes_per_s = 1", "bus_gbytes_per_s"), ("numa_node = 0", "numa_node")] {
        let error = said(own);
        assert_eq!(&*error.key, format!("host_models.node.nic[0].{key}"), "{error}");
        assert_eq!(&*error.problem, "is said by the NIC's bus");
    }
}

#[test]
fn what_software_and_routers_do_not_say_costs_nothing() {
    let text = LISTED.replace("[host_models.node]\n", "[host_models.node]\nsoftware = { poll_ns = 1 }\n");
    let software =
        &read(&text).host_models.iter().find(|model| model.name == "node").unwrap().software.clone();
    assert_eq!((software.send_system_calls, software.receive_system_calls), (0, 0));
    let router = "[switch_models.single.router]\nvirtual_channels = 2\nvirtual_channel_buffer_bytes = 8192\n\
                  flit_bytes = 16\npacket_max_bytes = 2048\npacket_min_bytes = 32\n";
    let machine = read(&LISTED.replace("[host_models.node]\n", &format!("{router}[host_models.node]\n")));
    let router = machine.switch_models.iter().find_map(|model| model.router.as_ref()).unwrap();
    let times = [
        router.route_computation_ps,
        router.channel_allocation_ps,
        router.switch_allocation_ps,
        router.switch_traversal_ps,
    ];
    assert_eq!((times, router.header_bytes), ([0; 4], 0));
}

#[test]
fn units_of_a_tofu_are_three_numbers_within_bounds() {
    let read = |extents: &str| {
        let text = format!(
            "name = \"t\"\n[switch_models.s]\nports = 24\nrate_gbps = 40\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 40 }}]\n[topology]\nkind = \"tofu\"\n\
             unit_extents = {extents}\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n"
        );
        Machine::parse("t.toml", &text)
    };
    assert_eq!(read("[1, 3, 1]").unwrap().graph.switch_count(), 3 * 12);
    let said = |extents: &str| {
        let error = read(extents).unwrap_err();
        assert_eq!(&*error.key, "topology.unit_extents");
        format!("{}; {}", error.problem, error.remedy)
    };
    assert_eq!(said("[0, 1, 1]"), "0 is out of range; use 1 to 4096");
    assert_eq!(said("[1, 1, 4097]"), "4097 is out of range; use 1 to 4096");
    assert_eq!(said("[1, 1]"), "2 numbers; give three: units along x, y and z");
}

#[test]
fn texts_that_are_no_toml_are_told_with_their_line() {
    let good = "name = \"x\"\n";
    let bad = "name = \"x\"\nplan = {\n";
    let texts = [
        Machine::overlay("m.toml", bad, good).unwrap_err(),
        Machine::overlay("m.toml", good, bad).unwrap_err(),
        Machine::change("m.toml", bad, []).unwrap_err(),
        Machine::parse("m.toml", bad).map(drop).unwrap_err(),
    ];
    for error in texts {
        assert!(error.to_string().starts_with("m.toml:"), "{error}");
        assert!((2..=3).contains(&error.line) && !error.problem.is_empty(), "{error}");
    }
}
