//! Whose turn it is: in routers of any number of lanes, and at inputs that pass one packet at a time.

use ayatori_fabric::graph::Graph;
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{Explicit, HostLayout, Topology};
use ayatori_sim::network::{Arbitration, Config, CrossbarInputs, Message, Network, Occurrence};

use crate::worlds::*;

fn one_switch() -> Topology {
    Topology::Explicit(Explicit { switches: vec!["s".into()], links: vec![] })
}

/// Hosts at the ports of one switch, in order.
fn star(host_count: u32, config: Config) -> Network {
    network(&one_switch(), Method::UpDown { root: None }, host_count, config)
}

fn one_channel(arbitration: Arbitration) -> Config {
    Config { vc_count: 1, arbitration, ..Config::nsim() }
}

fn senders(network: &mut Network) -> Vec<u32> {
    deliveries(network).into_iter().map(|(from, _)| from).collect()
}

#[test]
fn lanes_take_turns_however_many_they_are() {
    // Lanes of one word of requests, one more than that, of two and of three words.
    for hosts in [64, 65, 80, 130] {
        let mut network = star(hosts, one_channel(Arbitration::RoundRobin));
        for from in 1..hosts {
            (0..3).for_each(|_| network.send(message(from, 0, FULL_PAYLOAD)));
        }
        let around: Vec<u32> = (1..hosts).collect();
        assert_eq!(senders(&mut network), around.repeat(3), "{hosts} hosts");
    }
}

#[test]
fn among_equals_the_next_in_turn_goes() {
    for arbitration in [Arbitration::RoundRobin, Arbitration::OldestFirst, Arbitration::ChannelFirst] {
        for hosts in [16, 80, 130] {
            // Host 4 goes first; then two that have sent at the same time.
            let furthest = hosts - 5;
            for (later, order) in [([2, 10], [10, 2]), ([furthest, 10], [10, furthest])] {
                let mut network = star(hosts, one_channel(arbitration));
                network.send(message(4, 0, FULL_PAYLOAD));
                later.iter().for_each(|&from| network.set_timer(1_000, from));
                let mut seen = Vec::new();
                while let Some(occurrence) = network.advance().unwrap() {
                    match occurrence {
                        Occurrence::Timer { token: from } => network.send(message(from, 0, FULL_PAYLOAD)),
                        Occurrence::Delivered { from, .. } => seen.push(from.0),
                        Occurrence::Injected { .. } => {}
                    }
                }
                assert_eq!(seen, [4, order[0], order[1]], "{arbitration:?}, {hosts} hosts");
            }
        }
    }
}

/// Two packets wait at one input, in two channels, for outputs that become free at the same time.
#[test]
fn an_input_port_passes_one_packet_at_a_time() {
    for (crossbar_inputs, apart_ps) in
        [(CrossbarInputs::PerChannel, 0), (CrossbarInputs::PerPort, 128 * PS_PER_BYTE)]
    {
        let config = Config { crossbar_inputs, arbitration: Arbitration::ChannelFirst, ..Config::nsim() };
        let mut network = star(5, config);
        network.send(message(3, 1, FULL_PAYLOAD));
        network.send(message(4, 2, FULL_PAYLOAD));
        network.set_timer(1_000, 0);
        let mut from_first = Vec::new();
        while let Some(occurrence) = network.advance().unwrap() {
            match occurrence {
                Occurrence::Timer { .. } => {
                    network.send(Message { flow: 2, ..message(0, 1, 0) });
                    network.send(Message { flow: 1, ..message(0, 2, 0) });
                }
                Occurrence::Delivered { from, .. } if from.0 == 0 => from_first.push(network.now_ps()),
                _ => {}
            }
        }
        let free_ps = LATENCY_PS + FLIT_PS + PIPELINE_PS + FULL_PS;
        let first_ps = free_ps + 128 * PS_PER_BYTE + LATENCY_PS;
        assert_eq!(from_first, [first_ps, first_ps + apart_ps], "{crossbar_inputs:?}");
    }
}

#[test]
fn a_nic_alone_at_a_high_port_sends_to_itself() {
    let mut graph = Graph::new();
    let (switch, host) = (graph.add_switch("s", &[]), graph.add_host("h"));
    graph.connect((host.into(), 0), (switch.into(), 69), LINK).unwrap();
    let routing = Routing::new(Method::UpDown { root: None }, &one_switch(), &graph).unwrap();
    let mut network = Network::new(graph, routing, one_channel(Arbitration::RoundRobin)).unwrap();
    network.send(message(0, 0, 100));
    assert_eq!(senders(&mut network), [0]);
}

#[test]
fn a_router_of_more_lanes_than_have_numbers_is_refused() {
    // 4,369 ports of 15 lanes: 65,535.
    let mut network = star(4_369, Config { vc_count: 15, ..Config::nsim() });
    network.send(message(4_368, 0, 100));
    assert_eq!(senders(&mut network), [4_368]);
    let config = Config { vc_count: 16, ..Config::nsim() };
    let hosts = HostLayout { per_switch_count: 4_096, nic_count: 1, link: LINK };
    let graph = one_switch().build_with_hosts(LINK, hosts).unwrap();
    let routing = Routing::new(Method::UpDown { root: None }, &one_switch(), &graph).unwrap();
    let error = Network::new(graph, routing, config).err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains("4096 ports")), "{error:?}");
}
