//! How fast the network engine is on this machine: packet-hops per second of wall time on an 8×8×8 torus with 2 KiB
//! packets. `cargo run --release -p ayatori-sim --example speed`

use std::time::Instant;

use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Method, Routing, TieRule};
use ayatori_fabric::topology::{HostLayout, Topology, Torus};
use ayatori_sim::network::{Config, Network};
use ayatori_sim::traffic::patterns::PairwiseExchange;
use ayatori_sim::traffic::rounds::{self, Setup};
use ayatori_sim::traffic::uniform::{self, Uniform};

fn torus(extents: &[u32]) -> Network {
    let topology = Topology::Torus(Torus::new(extents));
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
    let hosts = HostLayout { per_switch_count: 1, nic_count: 1, link };
    let graph = topology.build_with_hosts(link, hosts).expect("a valid torus");
    let method = Method::DimensionOrder { dateline: true, tie: TieRule::Balanced };
    let routing = Routing::new(method, &topology, &graph).expect("a torus can be routed");
    Network::new(graph, routing, Config::nsim()).expect("they fit together")
}

fn report(name: &str, network: &Network, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let counters = network.counters();
    let hops = counters.packet_hop_count as f64;
    println!(
        "{name}: {:.2} M packet-hops/s, {:.2} events per packet-hop, {} M packet-hops in {seconds:.2} s, {} packets at most \
         in flight, {} B a node idle",
        hops / seconds / 1e6,
        counters.event_count as f64 / hops,
        hops / 1e6,
        network.packet_high_water_count(),
        network.idle_memory_bytes() / network.nic_count(),
    );
}

fn main() {
    // A part of the full size, for profilers: `speed 0.1`.
    let part: f64 = std::env::args().nth(1).map_or(1.0, |part| part.parse().expect("a number"));
    for load in [0.3, 0.9] {
        let mut network = torus(&[8, 8, 8]);
        let started = Instant::now();
        let (warm_up_ps, measure_ps) = (100_000_000, (1_400_000_000.0 * part) as u64);
        let traffic = Uniform { load, payload_bytes: 1_920, warm_up_ps, measure_ps, seed: 1 };
        let result = uniform::run(&mut network, traffic).expect("no deadlock with dateline");
        report(&format!("uniform {load}"), &network, started);
        println!("  {result}");
    }
    for bytes in [1_920, (16.0 * 1_920.0 * part) as u64] {
        let mut network = torus(&[8, 8, 8]);
        let setup = Setup::blocks(&network, 1);
        let started = Instant::now();
        let result =
            rounds::run(&mut network, &PairwiseExchange::new(512, bytes), &setup).expect("no deadlock");
        report(&format!("all-to-all {bytes} B"), &network, started);
        println!(
            "  {:.3} ms, {:.1} GB/s",
            result.elapsed_ps as f64 / 1e9,
            result.bandwidth_bytes_per_s() / 1e9
        );
    }
}
