//! What must hold whatever the topology and the traffic.

use ayatori_fabric::graph::{Graph, LinkSpec};
use ayatori_fabric::routing::{Method, Routing};
use ayatori_fabric::topology::{
    Complete, Dragonfly, Explicit, FatTree, HyperX, Hypercube, Mesh, Ring, Tofu, Topology, Torus, Tree,
};
use ayatori_random::Random;
use ayatori_sim::network::{
    Arbitration, BuildError, Config, CrossbarInputs, Gap, Message, Network, NicId, NicOrder, Occurrence,
    Switching,
};

use crate::worlds::*;

fn topologies() -> Vec<Topology> {
    let names = |count: u32| (0..count).map(|s| format!("s{s}")).collect();
    vec![
        Topology::Ring(Ring { switch_count: 6 }),
        Topology::Mesh(Mesh { extents: vec![4, 3] }),
        Topology::Torus(Torus::new(&[4, 2, 3])),
        Topology::Torus(Torus { extents: vec![2, 5], twin_links: true }),
        Topology::Hypercube(Hypercube { dimension_count: 4 }),
        Topology::Complete(Complete { switch_count: 5 }),
        Topology::Tree(Tree { arity: 2, switch_count: 8 }),
        Topology::FatTree(FatTree::of_radix(4, 3).unwrap()),
        Topology::HyperX(HyperX { extents: vec![3, 4], widths: vec![1, 2] }),
        Topology::Dragonfly(Dragonfly { group_size: 4, global_port_count: 2, group_count: 9 }),
        Topology::Tofu(Tofu::new([2, 3, 1])),
        Topology::Explicit(Explicit {
            switches: names(4),
            links: vec![(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1), (0, 2, 2)],
        }),
        // More than 64 lanes a router: 70 ports.
        Topology::Complete(Complete { switch_count: 68 }),
    ]
}

/// A world from a seed: everything arrives once, in order between two NICs, and nothing is left behind.
fn run_world(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let topologies = topologies();
    let topology = &topologies[random.below(topologies.len() as u64) as usize];
    let method = Method::usual_for(topology);
    let config = Config {
        vc_buffer_bytes: 2_048 * (1 + random.below(4) as u32),
        vc_count: 2 * (1 + random.below(3) as u8),
        nic_order: if random.below(2) == 0 { NicOrder::Fifo } else { NicOrder::RoundRobin },
        switching: if random.below(4) == 0 { Switching::StoreAndForward } else { Switching::CutThrough },
        arbitration: match seed % 6 {
            2 | 5 => Arbitration::OldestFirst,
            4 => Arbitration::ChannelFirst,
            _ => Arbitration::RoundRobin,
        },
        crossbar_inputs: if seed % 4 == 3 { CrossbarInputs::PerPort } else { CrossbarInputs::PerChannel },
        ..Config::nsim()
    };
    let fifo = config.nic_order == NicOrder::Fifo;
    let mut network = network(topology, method, 1 + random.below(2) as u32, config);
    let nic_count = network.nic_count() as u64;
    let message_count = 20 + random.below(400) as usize;
    let mut sent = Vec::new();
    for token in 0..message_count as u32 {
        let [from, to] = [random.below(nic_count), random.below(nic_count)].map(|nic| NicId(nic as u32));
        let size_bits = random.below(17);
        let bytes = random.below(1 << size_bits);
        let paced = random.below(2) as u32;
        let gap = Gap { milli_packets: random.below(2_500) as u32 * paced };
        let message = Message { from, to, bytes, gap, flow: 0, token, notify_injected: random.below(2) == 0 };
        sent.push(message);
        if random.below(3) == 0 {
            network.set_timer(random.below(3_000_000), token);
        } else {
            network.send(message);
        }
    }
    let mut delivered: Vec<Option<u64>> = vec![None; message_count];
    let mut given = Vec::new();
    let mut last = std::collections::HashMap::new();
    loop {
        match network.advance().unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock}")) {
            Some(Occurrence::Timer { token }) => {
                network.send(sent[token as usize]);
                given.push(token);
            }
            Some(Occurrence::Delivered { token, from, to }) => {
                let message = sent[token as usize];
                assert_eq!((message.from, message.to), (from, to), "seed {seed}");
                assert_eq!(delivered[token as usize].replace(network.now_ps()), None, "seed {seed}: twice");
                let before = last.insert((from, to), network.now_ps());
                assert!(
                    !fifo || before.is_none_or(|time_ps| time_ps < network.now_ps()),
                    "seed {seed}: order"
                );
            }
            Some(Occurrence::Injected { token }) => {
                assert_eq!(delivered[token as usize], None, "seed {seed}: arrived before it had left");
            }
            None => break,
        }
    }
    assert!(delivered.iter().all(Option::is_some), "seed {seed}: something never arrived");
    assert_eq!(network.leftovers(), None, "seed {seed}");
    (network.now_ps(), network.counters().event_count)
}

#[test]
fn everything_arrives_once_and_nothing_is_left_behind() {
    for seed in 0..400 {
        run_world(seed);
    }
}

#[test]
fn same_seed_gives_same_picoseconds_and_events_everywhere() {
    for seed in 0..10 {
        assert_eq!(run_world(seed), run_world(seed), "seed {seed}");
    }
    // Taken from a run; a change here is a change of the model and belongs into the change log.
    let found = [1, 4, 5, 3].map(|seed| run_world(seed).0);
    assert_eq!(found, SNAPSHOT);
}

/// End of the worlds of seeds 1 and 4 (round robin), 5 (oldest first) and 3 (one crossbar input a port), ps.
const SNAPSHOT: [u64; 4] = [90_370_293, 98_251_564, 191_772_667, 34_045_920];

#[test]
fn memory_is_within_its_bounds() {
    let network = torus(&[8, 8, 8]);
    assert!(network.idle_memory_bytes() / 512 <= 20_000);
    assert!(Network::<ayatori_sim::network::NoProbe>::packet_memory_bytes() <= 64);
}

#[test]
fn networks_that_cannot_work_are_refused_with_the_reason() {
    let topology = Topology::Torus(Torus::new(&[4]));
    let graph = topology.build(LINK).unwrap();
    let routing = Routing::new(DATELINE, &topology, &graph).unwrap();
    let refused =
        |config: Config| Network::new(graph.clone(), routing.clone(), config).unwrap_err().to_string();
    let small = refused(Config { vc_buffer_bytes: 1_024, ..Config::nsim() });
    assert!(small.contains("a buffer of 1024 B: cut-through"), "{small}");
    let channels = refused(Config { vc_count: 3, ..Config::nsim() });
    assert_eq!(channels, "the routing needs a multiple of 2 virtual channels, the network has 3");
    let header = refused(Config { header_bytes: 2_048, ..Config::nsim() });
    assert_eq!(header, "network: a header of 2048 B leaves no payload in 2048 B");

    let mut loose: Graph = graph.clone();
    let (a, b) = (loose.add_host("a"), loose.add_host("b"));
    let cable = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: 0, cable_count: 1 };
    loose.connect((a.into(), 0), (b.into(), 0), cable).unwrap();
    let error = Network::new(loose, routing, Config::nsim()).unwrap_err();
    assert!(matches!(error, BuildError::NotCabled { .. }), "{error}");
}
