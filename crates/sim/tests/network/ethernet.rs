//! Ethernet switches: aggregated links, pause, and the deadlock that pause can bring.

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{Graph, LinkSpec};
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{Complete, Explicit, HostLayout, Ring, Topology, Torus, Tree};
use ayatori_random::Random;
use ayatori_sim::machine::{Simulated, simulate};
use ayatori_sim::network::{
    Config, Gap, LagHash, Message, Network, NicId, NicOrder, NoProbe, Queueing, SharedBuffer, Switching,
    WhenFull, cable_of,
};

use crate::worlds::{deliveries, message};

/// 1 Gbit/s.
const PS_PER_BYTE: u64 = 8_000;
/// 1,500 B of payload with preamble, header, checksum and gap.
const FRAME: u64 = 1_538;
/// `cable_latency_ns` of a machine file that does not give it.
const CABLE_PS: u64 = 5_000;

fn machine(hosts_per_switch: u32, cables: u32, more: &str) -> Network {
    let text = format!(
        "name = \"pair\"\n[switch_models.s]\nports = 48\nrate_gbps = 1\n{more}\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nkind = \"complete\"\nswitches = 2\n\
         switch_model = \"s\"\ncables = {cables}\n[hosts]\nmodel = \"h\"\nper_switch = {hosts_per_switch}\n"
    );
    let machine = Machine::parse("pair.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let Simulated { network, .. } = simulate(&machine, NoProbe).unwrap();
    network
}

/// Orders of the numbers from 4 to 7.
fn permutations() -> Vec<[u32; 4]> {
    let mut all = Vec::new();
    for code in 0..256_u32 {
        let order = [0, 2, 4, 6].map(|shift| 4 + (code >> shift & 3));
        if (4..8).all(|number| order.contains(&number)) {
            all.push(order);
        }
    }
    assert_eq!(all.len(), 24);
    all
}

#[test]
fn flows_over_a_lag_take_as_long_as_its_fullest_cable() {
    const BYTES: u64 = 4 << 20;
    // 2,797 frames of 1,538 B at 1 Gbit/s: 34.4 ms.
    let alone_ps = BYTES.div_ceil(1_500) * FRAME * PS_PER_BYTE;
    let mut seen = Vec::new();
    for to in permutations() {
        for cables in [1, 2, 4] {
            let mut network = machine(4, cables, "lag_hash = \"addresses\"");
            let messages = [0, 1, 2, 3].map(|from| message(from, to[from as usize], BYTES));
            let mut flows = vec![0_u64; cables as usize];
            for message in messages {
                flows[cable_of(&message, LagHash::Addresses, cables) as usize] += 1;
                network.send(message);
            }
            let fullest = flows.into_iter().max().unwrap();
            let last_ps = deliveries(&mut network).last().unwrap().1;
            let off = last_ps as f64 / (fullest * alone_ps) as f64 - 1.0;
            assert!(off.abs() < 0.01, "{cables} cables, {fullest} flows on one: {off:+.4}");
            seen.push((cables, fullest));
        }
    }
    // The hash puts four flows on four cables, on two, and on one.
    for case in [(1, 4), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4)] {
        assert!(seen.contains(&case), "{case:?}");
    }
}

#[test]
fn connections_of_one_pair_spread_by_their_ports() {
    for (hash, spread) in [("addresses", false), ("addresses-and-ports", true)] {
        let mut network = machine(1, 4, &format!("lag_hash = \"{hash}\""));
        for flow in 0..16 {
            network.send(Message { flow: flow << 16 | 5, ..message(0, 1, 15_000) });
        }
        deliveries(&mut network);
        let between = network.channel_loads().filter(|load| load.sent_bytes > 0).count();
        // The two hosts' own cables, and one of the link's or all four.
        assert_eq!(between, if spread { 6 } else { 3 }, "{hash}");
    }
}

#[test]
fn a_frame_takes_the_closed_form_through_two_switches() {
    for (switching, expected_ps) in [
        ("store-and-forward", 3 * FRAME * PS_PER_BYTE),
        // The first byte is enough to go on.
        ("cut-through", FRAME * PS_PER_BYTE + 2 * PS_PER_BYTE),
    ] {
        let mut network = machine(2, 1, &format!("switching = \"{switching}\"\nlatency_ns = 700"));
        network.send(message(0, 3, 1_500));
        let expected_ps = expected_ps + 3 * CABLE_PS + 2 * 700_000;
        assert_eq!(deliveries(&mut network), [(0, expected_ps)], "{switching}");
        let counters = network.counters();
        assert_eq!((counters.injected_packet_count, counters.delivered_packet_count), (1, 1));
        assert_eq!(counters.packet_hop_count, 1, "from switch to switch");
        assert_eq!(counters.packet_latency_sum_ps, u128::from(expected_ps));
    }
}

#[test]
fn a_gap_is_behind_each_frame() {
    let mut network = machine(2, 1, "");
    network.send(Message { gap: Gap::packets(0.5), ..message(0, 1, 3 * 1_500) });
    // Two frames and their gaps, and the third over both cables.
    let expected_ps = (3 + 2) * FRAME * PS_PER_BYTE + 2 * CABLE_PS;
    assert_eq!(deliveries(&mut network), [(0, expected_ps)]);
    assert_eq!(network.counters().packet_hop_count, 0, "no way between switches");
}

#[test]
fn frames_wait_for_those_before_them() {
    let mut network = machine(3, 1, "");
    for from in [1, 2] {
        network.send(message(from, 0, 1_500));
    }
    deliveries(&mut network);
    let waited_ps: u64 = network.channel_loads().map(|load| load.waited_ps).sum();
    assert_eq!(waited_ps, FRAME * PS_PER_BYTE);
}

/// Worked out by hand from addresses that count from 1.
#[test]
fn a_cable_is_chosen_by_addresses_and_ports_folded() {
    let [from, to] = [0x1_2344, 0x5_FF00].map(NicId);
    let message = Message { from, to, flow: 0xABCD_1234, ..message(0, 1, 1) };
    assert_eq!(cable_of(&message, LagHash::AddressesAndPorts, u32::MAX), 0x4_61DC >> 1);
    assert_eq!(cable_of(&message, LagHash::Addresses, u32::MAX), 0x4_D89C);
    assert_eq!(cable_of(&message, LagHash::Addresses, 10), 0x4_D89C % 10);
}

/// Host, switch, switch, host: the first cable is slow.
#[test]
fn the_last_byte_is_there_when_a_faster_cable_sends_it() {
    let spec = |rate_bits_per_s| LinkSpec { rate_bits_per_s, latency_ps: CABLE_PS, cable_count: 1 };
    let topology =
        Topology::Explicit(Explicit { switches: vec!["a".into(), "b".into()], links: vec![(0, 1, 1)] });
    let mut graph = Graph::new();
    let (a, b) = (graph.add_switch("a", &[]), graph.add_switch("b", &[]));
    let (left, right) = (graph.add_host("left"), graph.add_host("right"));
    graph.connect((a.into(), 0), (b.into(), 0), spec(1_000_000_000)).unwrap();
    graph.connect((left.into(), 0), (a.into(), 1), spec(100_000_000)).unwrap();
    graph.connect((b.into(), 1), (right.into(), 0), spec(1_000_000_000)).unwrap();
    let routing = Routing::new(Method::UpDown { root: None }, &topology, &graph).unwrap();
    let mut network = Network::new(graph, routing, config(10, Switching::CutThrough)).unwrap();
    network.send(message(0, 1, 1_500));
    let slow_ps = FRAME * 10 * PS_PER_BYTE;
    let pipelines_ps = 2 * 300_000;
    assert_eq!(deliveries(&mut network), [(0, slow_ps + 3 * CABLE_PS + pipelines_ps + PS_PER_BYTE)]);
}

#[test]
fn many_to_one_is_lossless_and_never_idle() {
    let mut network = machine(8, 1, "buffer_bytes = 1000000");
    let packets = 400;
    for from in 1..16 {
        network.send(message(from, 0, packets * 1_500));
    }
    let last_ps = deliveries(&mut network).last().unwrap().1;
    let busy_ps = 15 * packets * FRAME * PS_PER_BYTE;
    // The output never waits: what is left is the first frame's way to it.
    assert!((busy_ps..busy_ps + 4 * FRAME * PS_PER_BYTE).contains(&last_ps), "{last_ps} of {busy_ps}");
    // 1,000,000 B over 48 ports: pause was needed, and no input took more than its share.
    let held = network.held_max_bytes();
    assert!((15_000..=1_000_000 / 48).contains(&held), "{held}");
}

#[test]
fn output_queue_blocks_no_frame_for_another_output() {
    // Host 0 sends a frame to busy host 1, then one to idle host 2: with an input queue the second would
    // wait.
    let mut network = machine(8, 1, "");
    for from in 3..8 {
        network.send(message(from, 1, 1_500));
    }
    network.send(message(0, 1, 1_500));
    network.send(Message { token: 99, ..message(0, 2, 1_500) });
    let times = deliveries(&mut network);
    let to_idle_ps = 3 * FRAME * PS_PER_BYTE + 2 * CABLE_PS;
    assert!(times.contains(&(0, to_idle_ps)), "{times:?}, {to_idle_ps}");
}

fn ethernet(topology: &Topology, method: Method, hosts: u32, cables: u32, config: Config) -> Network {
    let link = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: CABLE_PS, cable_count: cables };
    let host_link = LinkSpec { cable_count: 1 + cables % 2, ..link };
    let hosts = HostLayout { per_switch_count: hosts, nic_count: 1, link: host_link };
    let graph = topology.build_with_hosts(link, hosts).unwrap();
    let routing = Routing::new(method, topology, &graph).unwrap();
    Network::new(graph, routing, config).unwrap()
}

/// Pause above so many frames, off at two less.
fn config(frames: u32, switching: Switching) -> Config {
    let pause_on_bytes = frames * FRAME as u32;
    let pause_off_bytes = pause_on_bytes.saturating_sub(2 * FRAME as u32);
    let when_full = WhenFull::Pause { on_bytes: pause_on_bytes, off_bytes: pause_off_bytes };
    let lag_hash = LagHash::AddressesAndPorts;
    Config {
        mtu_bytes: FRAME as u32,
        header_bytes: 38,
        packet_min_bytes: 84,
        flit_bytes: 1,
        queueing: Queueing::Output(SharedBuffer { when_full, lag_hash }),
        vc_count: 1,
        route_ps: 300_000,
        vc_allocation_ps: 0,
        switch_allocation_ps: 0,
        switch_traversal_ps: 0,
        switching,
        ..Config::nsim()
    }
}

#[test]
fn random_worlds_lose_nothing_and_stay_within_their_memory() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let topologies = [
            Topology::Tree(Tree { arity: 2, switch_count: 7 }),
            Topology::Complete(Complete { switch_count: 5 }),
            Topology::Torus(Torus::new(&[4, 2])),
        ];
        let topology = &topologies[random.below(3) as usize];
        let frames = 1 + random.below(20) as u32;
        let switching = if random.below(3) == 0 { Switching::CutThrough } else { Switching::StoreAndForward };
        let nic_order = if random.below(2) == 0 { NicOrder::Fifo } else { NicOrder::RoundRobin };
        let config = Config { nic_order, ..config(frames, switching) };
        let cables = 1 + random.below(3) as u32;
        let method = Method::UpDown { root: None };
        let mut network = ethernet(topology, method, 3, cables, config);
        let nics = network.nic_count() as u64;
        let count = 300;
        for token in 0..count {
            // Half of all to one host, so that much is paused.
            let to = if random.below(2) == 0 { 0 } else { random.below(nics) };
            let (from, flow) = (random.below(nics) as u32, random.next_u64() as u32);
            let bytes = random.below(30_000);
            network.send(Message { token, flow, ..message(from, to as u32, bytes) });
        }
        assert_eq!(deliveries(&mut network).len(), count as usize, "seed {seed}");
        // Three frames and what a cable holds: the headroom that `machine` leaves.
        let bound = (frames + 3) * FRAME as u32 + 84 + 2;
        let held = network.held_max_bytes();
        assert!(held <= bound, "seed {seed}: {held} B of {bound}");
    }
}

#[test]
fn the_same_ethernet_gives_the_same_picoseconds() {
    let run = || {
        let topology = Topology::Torus(Torus::new(&[4, 2]));
        let mut network =
            ethernet(&topology, Method::UpDown { root: None }, 4, 2, config(6, Switching::StoreAndForward));
        for from in 0..32 {
            for step in 1..8 {
                network.send(Message { flow: step, ..message(from, (from + 5 * step) % 32, 20_000) });
            }
        }
        deliveries(&mut network)
    };
    assert_eq!(run(), run());
}

#[test]
fn pauses_around_a_ring_deadlock_and_the_circle_is_named() {
    let topology = Topology::Ring(Ring { switch_count: 6 });
    let around = Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Up };
    let mut network = ethernet(&topology, around, 2, 1, config(4, Switching::StoreAndForward));
    for from in 0..12 {
        network.send(message(from, (from + 4) % 12, 1_000_000));
    }
    let deadlock = loop {
        match network.advance() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended"),
            Err(deadlock) => break deadlock,
        }
    };
    assert_eq!(deadlock.cycle.len(), 6, "{deadlock}");
    assert!(deadlock.cycle.iter().all(|lane| lane.vc == 0), "a cable has no others");
    for (i, lane) in deadlock.cycle.iter().enumerate() {
        let next = deadlock.cycle[(i + 1) % 6];
        let graph = network.graph();
        assert_eq!(graph.channel_ends(lane.channel).1.node, graph.channel_ends(next.channel).0.node);
    }
}
