use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{Dragonfly, FatTree, HostLayout, Mesh, Ring, Tofu, Topology, Torus, Tree};

use crate::network::{
    Arbitration, ChannelLoad, Config, Counters, Gap, Message, Network, NicId, NicOrder, Occurrence, Switching,
};
use crate::wheel::Wheel;
use ayatori_random::Random;

fn topologies() -> Vec<Topology> {
    vec![
        Topology::Ring(Ring { switch_count: 7 }),
        Topology::Torus(Torus::new(&[4, 2, 3])),
        Topology::Torus(Torus::new(&[5, 4])),
        Topology::Tofu(Tofu::new([2, 1, 1])),
        Topology::Mesh(Mesh { extents: vec![4, 3] }),
        Topology::Tree(Tree { arity: 2, switch_count: 7 }),
        Topology::FatTree(FatTree::of_radix(4, 2).unwrap()),
        Topology::Dragonfly(Dragonfly { group_size: 3, global_port_count: 1, group_count: 4 }),
    ]
}

/// A network from a seed, and what it is given. Several channels for each that the routing needs make its
/// routers wide.
fn world(seed: u64, latency_ps: u64, several: Option<u8>) -> (Network, Vec<Message>) {
    let mut random = Random::new(seed);
    let topology = &topologies()[random.below(8) as usize];
    let method = Method::usual_for(topology);
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps, cable_count: 1 };
    let nic_link = LinkSpec { rate_bits_per_s: link.rate_bits_per_s << random.below(2), ..link };
    let per_switch_count = 1 + random.below(2) as u32;
    let layout = HostLayout { per_switch_count, nic_count: 1, link: nic_link };
    let graph = topology.build_with_hosts(link, layout).unwrap();
    let routing = Routing::new(method, topology, &graph).unwrap();
    let arbitrations = [Arbitration::RoundRobin, Arbitration::ChannelFirst];
    let config = Config {
        vc_count: match several {
            Some(several) => several * routing.vc_count(),
            None if routing.vc_count() == 1 => 1 + random.below(2) as u8,
            None => 2,
        },
        vc_buffer_bytes: 2_048 * (1 + random.below(4) as u32),
        arbitration: arbitrations[random.below(2) as usize],
        nic_order: if random.below(2) == 0 { NicOrder::Fifo } else { NicOrder::RoundRobin },
        switching: if random.below(4) == 0 { Switching::StoreAndForward } else { Switching::CutThrough },
        ..Config::nsim()
    };
    let network = Network::new(graph, routing, config).unwrap();
    let nic_count = network.nic_count() as u64;
    let bytes_max = 1 << (4 + random.below(13));
    let message = |token| Message {
        from: NicId(random.below(nic_count) as u32),
        to: NicId(random.below(nic_count) as u32),
        bytes: random.below(bytes_max),
        gap: Gap { milli_packets: (random.below(4) * random.below(1_000)) as u32 },
        flow: random.below(3) as u32,
        token,
        notify_injected: random.below(2) == 0,
    };
    (network, (0..300).map(message).collect())
}

type Outcome = (Vec<(u64, Occurrence)>, Vec<ChannelLoad>, Counters);

fn run(mut network: Network, messages: &[Message]) -> Outcome {
    let seen = run_network(&mut network, messages);
    let loads = network.channel_loads().collect();
    // Looks in vain are what differs.
    (seen, loads, Counters { event_count: 0, ..network.counters() })
}

/// Half of the messages at once, the others one after another.
fn run_network(network: &mut Network, messages: &[Message]) -> Vec<(u64, Occurrence)> {
    let (mut seen, half) = (Vec::new(), messages.len() / 2);
    for (index, &message) in messages.iter().enumerate() {
        if index < half {
            network.send(message);
        } else {
            network.set_timer(index as u64 * 20_000, message.token);
        }
    }
    while let Some(occurrence) = network.advance().unwrap() {
        if let Occurrence::Timer { token } = occurrence {
            network.send(messages[token as usize]);
        }
        seen.push((network.now_ps(), occurrence));
    }
    assert_eq!(network.leftovers(), None);
    seen
}

#[test]
fn cheap_looks_and_kept_routes_change_nothing() {
    for seed in 0..300 {
        let (narrow, messages) = world(seed, 7_000, None);
        assert!(narrow.narrow, "seed {seed}");
        let (mut plain, _) = world(seed, 7_000, None);
        (plain.narrow, plain.routes_every_hop) = (false, true);
        assert!(run(narrow, &messages) == run(plain, &messages), "seed {seed}");
    }
}

#[test]
fn routes_kept_in_wide_routers_change_nothing() {
    for seed in 0..60 {
        let (kept, messages) = world(seed, 7_000, Some(3));
        assert!(!kept.narrow, "seed {seed}");
        let (mut asked, _) = world(seed, 7_000, Some(3));
        asked.routes_every_hop = true;
        assert!(run(kept, &messages) == run(asked, &messages), "seed {seed}");
    }
}

/// Looks in vain change nothing but their number. The numbers are taken from a run: others are another cost.
#[test]
fn no_more_looks_are_made_than_there_were() {
    let counts = [true, false].map(|narrow| {
        let looks = |seed| {
            let (mut network, messages) = world(seed, 7_000, None);
            network.narrow = narrow;
            run_network(&mut network, &messages);
            network.counters().event_count
        };
        (0..40).map(looks).sum::<u64>()
    });
    assert_eq!(counts, [141_002, 156_070]);
}

#[test]
fn slices_of_any_length_change_nothing() {
    // Links shorter and much longer than packets.
    for (seed, latency_ps) in (0..100).flat_map(|seed| [(seed, 7_000), (seed, 200_000)]) {
        let (mut sliced, messages) = world(seed, latency_ps, None);
        let (mut sorted, _) = world(seed, latency_ps, None);
        sorted.wheel = Wheel::new(1, 1_000_000);
        for network in [&mut sliced, &mut sorted] {
            network.narrow = seed % 2 == 0;
        }
        assert!(run(sliced, &messages) == run(sorted, &messages), "seed {seed}, {latency_ps} ps");
    }
}
