//! Cases with a formula: the simulation must agree to the picosecond.

use ayatori_fabric::graph::{Graph, LinkSpec};
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{Explicit, Mesh, Topology};
use ayatori_sim::network::{Config, Gap, Message, Network, NicOrder, Occurrence, Switching};

use crate::worlds::*;

#[test]
fn one_packet_takes_the_closed_form_over_any_number_of_hops() {
    for hop_count in 0..8 {
        for (payload, wire) in [(0, 128), (1, 144), (100, 240), (FULL_PAYLOAD, 2_048)] {
            let mut network = line(8, 2);
            // Two hosts a switch: host 1 is beside host 0.
            let to = if hop_count == 0 { 1 } else { 2 * hop_count as u32 };
            network.send(message(0, to, payload));
            assert_eq!(deliveries(&mut network), [(0, unloaded_ps(hop_count, wire))]);
            let counters = network.counters();
            assert_eq!((counters.injected_packet_count, counters.delivered_packet_count), (1, 1));
            assert_eq!(counters.packet_hop_count, hop_count);
        }
    }
}

#[test]
fn a_saturated_link_has_no_gaps() {
    let packet_count = 1_000;
    let mut network = line(4, 1);
    network.send(message(0, 3, packet_count * FULL_PAYLOAD));
    let expected_ps = unloaded_ps(3, 2_048) + (packet_count - 1) * FULL_PS;
    assert_eq!(deliveries(&mut network), [(0, expected_ps)]);
    let busiest = network.channel_loads().map(|load| load.busy_ps).max();
    assert_eq!(busiest, Some(packet_count * FULL_PS));
}

#[test]
fn two_flows_share_a_link_in_turn() {
    let packet_count = 500;
    let mut network = line(2, 2);
    network.send(message(0, 2, packet_count * FULL_PAYLOAD));
    network.send(message(1, 3, packet_count * FULL_PAYLOAD));
    // The link carries both without a gap: 2 n packets, the last two from different flows.
    let last_ps = unloaded_ps(1, 2_048) + (2 * packet_count - 1) * FULL_PS;
    assert_eq!(deliveries(&mut network), [(0, last_ps - FULL_PS), (1, last_ps)]);
}

#[test]
fn a_ring_where_all_send_one_hop_is_as_fast_as_one_alone() {
    for packet_count in [1, 200] {
        let mut network = torus(&[8]);
        for from in 0..8 {
            network.send(message(from, (from + 1) % 8, packet_count * FULL_PAYLOAD));
        }
        let expected_ps = unloaded_ps(1, 2_048) + (packet_count - 1) * FULL_PS;
        let times = deliveries(&mut network);
        assert_eq!(times.len(), 8);
        assert!(times.iter().all(|&(_, time_ps)| time_ps == expected_ps), "{times:?}");
    }
}

#[test]
fn unloaded_torus_of_512_has_the_closed_form_latency_to_all() {
    let mut network = torus(&[8, 8, 8]);
    let ring = |a: u32, b: u32| u64::from(a.abs_diff(b).min(8 - a.abs_diff(b)));
    let from = [3, 0, 7];
    let source = from[0] + 8 * from[1] + 64 * from[2];
    for to in (0..512).filter(|&to| to != source) {
        let there = [to % 8, to / 8 % 8, to / 64];
        let hop_count = (0..3).map(|d| ring(from[d], there[d])).sum();
        let start_ps = network.now_ps();
        network.send(message(source, to, FULL_PAYLOAD));
        let times = deliveries(&mut network);
        assert_eq!(times, [(source, start_ps + unloaded_ps(hop_count, 2_048))], "to {there:?}");
    }
}

#[test]
fn a_gap_of_n_packet_times_divides_bandwidth_by_one_plus_n() {
    let packet_count = 100;
    for (packet_times, ps_per_packet) in [(0.0, FULL_PS), (0.125, FULL_PS * 9 / 8), (2.0, 3 * FULL_PS)] {
        let mut network = line(2, 1);
        let gap = Gap::packets(packet_times);
        network.send(Message { gap, ..message(0, 1, packet_count * FULL_PAYLOAD) });
        let expected_ps = unloaded_ps(1, 2_048) + (packet_count - 1) * ps_per_packet;
        assert_eq!(deliveries(&mut network), [(0, expected_ps)]);
    }
}

#[test]
fn a_message_is_injected_when_its_last_byte_has_left() {
    let mut network = line(2, 1);
    network.send(Message { notify_injected: true, token: 77, ..message(0, 1, 10 * FULL_PAYLOAD) });
    network.set_timer(10 * FULL_PS, 5);
    assert_eq!(network.advance().unwrap(), Some(Occurrence::Injected { token: 77 }));
    assert_eq!(network.now_ps(), 10 * FULL_PS);
    // At equal times timers come last.
    assert_eq!(network.advance().unwrap(), Some(Occurrence::Timer { token: 5 }));
    assert!(matches!(network.advance().unwrap(), Some(Occurrence::Delivered { token: 77, .. })));
    assert_eq!(network.advance().unwrap(), None);
}

#[test]
fn nic_order_decides_whether_messages_overlap() {
    // Two messages of three packets from NIC 0 to NICs 1 and 2.
    for (nic_order, first_ends) in [(NicOrder::Fifo, 2), (NicOrder::RoundRobin, 4)] {
        let topology = Topology::Mesh(ayatori_fabric::topology::Mesh { extents: vec![2] });
        let mut network = network(&topology, DATELINE, 3, Config { nic_order, ..Config::nsim() });
        network.send(message(0, 1, 3 * FULL_PAYLOAD));
        network.send(message(0, 2, 3 * FULL_PAYLOAD));
        let times: Vec<u64> = deliveries(&mut network).into_iter().map(|(_, time_ps)| time_ps).collect();
        let expected = [first_ends, 5].map(|packets| unloaded_ps(0, 2_048) + packets * FULL_PS);
        assert_eq!(times, expected, "{nic_order:?}");
    }
}

/// Host, switch, switch, host, with links of these rates; and a third host at the first switch.
fn chain(rates_bits_per_s: [u64; 3], config: Config) -> Network {
    let spec = |rate_bits_per_s| LinkSpec { rate_bits_per_s, ..LINK };
    let topology =
        Topology::Explicit(Explicit { switches: vec!["a".into(), "b".into()], links: vec![(0, 1, 1)] });
    let mut graph: Graph = Graph::new();
    let (a, b) = (graph.add_switch("a", &[]), graph.add_switch("b", &[]));
    let (left, right) = (graph.add_host("left"), graph.add_host("right"));
    graph.connect((a.into(), 0), (b.into(), 0), spec(rates_bits_per_s[1])).unwrap();
    graph.connect((left.into(), 0), (a.into(), 1), spec(rates_bits_per_s[0])).unwrap();
    graph.connect((b.into(), 1), (right.into(), 0), spec(rates_bits_per_s[2])).unwrap();
    let other = graph.add_host("other");
    graph.connect((a.into(), 2), (other.into(), 0), spec(rates_bits_per_s[0])).unwrap();
    let routing = Routing::new(Method::UpDown { root: None }, &topology, &graph).unwrap();
    Network::new(graph, routing, config).unwrap()
}

#[test]
fn a_faster_link_never_runs_out_of_bytes() {
    const SLOW: u64 = 10_000_000_000;
    const FAST: u64 = 40_000_000_000;
    // Slow (800 ps a byte), then fast: the packet may end on the fast link one flit after its last flit has
    // come.
    let mut network = chain([SLOW, FAST, FAST], Config::nsim());
    network.send(message(0, 1, FULL_PAYLOAD));
    let tail_at_a = LATENCY_PS + 2_048 * 800;
    let tail_at_b = tail_at_a + PIPELINE_PS + FLIT_PS + LATENCY_PS;
    let head_at_b_sent = tail_at_b - FULL_PS + FLIT_PS + PIPELINE_PS;
    assert_eq!(deliveries(&mut network), [(0, head_at_b_sent + FULL_PS + LATENCY_PS)]);
    // Fast, then slow: the head goes on at once, and the slow link sets the pace.
    let mut network = chain([FAST, SLOW, SLOW], Config::nsim());
    network.send(message(0, 1, FULL_PAYLOAD));
    let head_at_b = (LATENCY_PS + FLIT_PS + PIPELINE_PS) + LATENCY_PS + 16 * 800;
    assert_eq!(deliveries(&mut network), [(0, head_at_b + PIPELINE_PS + 2_048 * 800 + LATENCY_PS)]);
}

#[test]
fn store_and_forward_pays_the_whole_packet_at_every_switch() {
    let config = Config { switching: Switching::StoreAndForward, ..Config::nsim() };
    let mut network = chain([40_000_000_000; 3], config);
    network.send(message(0, 1, FULL_PAYLOAD));
    let expected_ps = 3 * (FULL_PS + LATENCY_PS) + 2 * PIPELINE_PS;
    assert_eq!(deliveries(&mut network), [(0, expected_ps)]);
}

#[test]
fn the_shortest_packet_goes_where_there_is_room_for_just_it() {
    let config = Config { vc_buffer_bytes: 2_048 + 128, vc_count: 1, ..Config::nsim() };
    // The last link takes 800 ps a byte.
    let mut network = chain([40_000_000_000, 40_000_000_000, 10_000_000_000], config);
    network.send(message(0, 1, FULL_PAYLOAD));
    network.send(message(0, 1, FULL_PAYLOAD));
    // The first leaves the second switch until 1.6 µs; the second waits in the first switch for its room.
    network.set_timer(800_000, 5);
    assert_eq!(network.advance().unwrap(), Some(Occurrence::Timer { token: 5 }));
    network.send(message(2, 1, 0));
    let times = deliveries(&mut network);
    assert_eq!(times.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [0, 2, 0]);
    assert_eq!(times[1].1 - times[0].1, 128 * 800, "it was there when the first had left");
}

#[test]
fn one_packet_buffer_halves_throughput_by_the_credit_round_trip() {
    let config = Config { vc_buffer_bytes: 2_048, vc_count: 1, ..Config::nsim() };
    let mut network = chain([40_000_000_000; 3], config);
    let packet_count = 50;
    network.send(message(0, 1, packet_count * FULL_PAYLOAD));
    // The next packet may start when the one before has wholly left the far buffer and the credit is back:
    // over the link and through the pipeline, its length, and the latency back.
    let round_ps = (LATENCY_PS + FLIT_PS + PIPELINE_PS) + FULL_PS + LATENCY_PS;
    assert_eq!(deliveries(&mut network), [(0, unloaded_ps(1, 2_048) + (packet_count - 1) * round_ps)]);
}

#[test]
fn a_packet_goes_straight_on_for_any_number_of_hops() {
    // More than a step of a way counts, in narrow and in wide routers.
    let row = Topology::Mesh(Mesh { extents: vec![270] });
    for vc_count in [2, 4] {
        let mut network = network(&row, DATELINE, 1, Config { vc_count, ..Config::nsim() });
        for (from, to, packets) in [(0, 269, 1), (269, 0, 1), (0, 269, 5), (269, 0, 5)] {
            let begin_ps = network.now_ps();
            network.send(message(from, to, packets * FULL_PAYLOAD));
            let expected_ps = begin_ps + unloaded_ps(269, 2_048) + (packets - 1) * FULL_PS;
            assert_eq!(deliveries(&mut network), [(from, expected_ps)], "{vc_count} channels");
        }
    }
}
