//! The whole of a run as one number, the same in every build and on every machine. `cargo test --release`
//! runs the same tests: debug and release must agree.

use ayatori_sim::cluster::{Cluster, Config};
use ayatori_sim::machine::nsim_torus;
use ayatori_sim::network::{Gap, Network, Probe};
use ayatori_sim::traffic::patterns::RandomRing;
use ayatori_sim::traffic::rounds::{self, Setup};
use ayatori_sim::traffic::uniform::{self, Uniform};
use ayatori_sim::workloads::{self, RingOrder};

use crate::worlds::*;

/// FNV-1a of 64 bits.
fn digest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    numbers.into_iter().flat_map(u64::to_le_bytes).fold(0xCBF2_9CE4_8422_2325, step)
}

/// What every link carried and how long packets waited for it, and what was counted.
fn of_network<P: Probe>(network: &Network<P>) -> u64 {
    let loads = network.channel_loads();
    let links = loads.flat_map(|load| [load.sent_bytes, load.sent_packet_count, load.waited_ps]);
    let counters = network.counters();
    let latency_ps = counters.packet_latency_sum_ps as u64;
    digest(links.chain([network.now_ps(), counters.packet_hop_count, latency_ps, counters.delivered_bytes]))
}

// The numbers below are taken from a run. Another number is another model: it belongs into the change log.

#[test]
fn a_random_ring_under_load_has_its_digest() {
    let mut network = torus(&[4, 6, 4]);
    let setup =
        Setup { gap: Gap::packets(0.7), start_spread_ps: 5_000, seed: 3, ..Setup::blocks(&network, 4) };
    rounds::run(&mut network, &RandomRing::new(384, 40_000, 8, 2), &setup).unwrap();
    assert_eq!(of_network(&network), 0x4f73_e69f_4b3b_4c0e, "{:#x}", of_network(&network));
}

#[test]
fn uniform_traffic_beyond_saturation_has_its_digest() {
    let mut network = torus(&[5, 4, 3]);
    let traffic =
        Uniform { load: 0.95, payload_bytes: 700, warm_up_ps: 20_000_000, measure_ps: 80_000_000, seed: 11 };
    let report = uniform::run(&mut network, traffic).unwrap();
    let floats = [report.offered, report.accepted, report.mean_latency_ps].map(f64::to_bits);
    let whole = digest([of_network(&network), digest(floats)]);
    assert_eq!(whole, 0x3b29_1d97_31fb_7439, "{whole:#x}");
}

#[test]
fn real_processes_give_the_same_digest_again() {
    // No number here: the library's protocols may change.
    assert_eq!(cluster_digest(), cluster_digest());
}

fn cluster_digest() -> u64 {
    let config = Config { processes_per_host: 3, start_spread_ps: 7_000, seed: 5, ..Config::default() };
    let mut cluster = Cluster::new(nsim_torus(&[4, 3, 2], None).unwrap(), config).unwrap();
    let order = RingOrder::new(72, 2);
    let ring = cluster.run(|mpi| {
        let (left, right) = order.neighbours(mpi.rank());
        workloads::random_ring(mpi, left, right, 120_000, 2)
    });
    let exchange = cluster.run(|mpi| workloads::pairwise_exchange(mpi, 3_000));
    let finished = [ring, exchange].into_iter().flat_map(|report| report.unwrap().finished_ps);
    digest(finished.chain([cluster.with_network(of_network)]))
}
