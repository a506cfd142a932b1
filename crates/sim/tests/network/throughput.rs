//! Throughput under load, against the literature and against bounds.

use ayatori_sim::network::Gap;
use ayatori_sim::traffic::patterns::{PairwiseExchange, Permutation, RandomRing};
use ayatori_sim::traffic::rounds::{self, Setup};
use ayatori_sim::traffic::uniform::{self, Uniform};

use crate::worlds::*;

fn offered(load: f64) -> Uniform {
    Uniform { load, payload_bytes: 1_920, warm_up_ps: 100_000_000, measure_ps: 200_000_000, seed: 42 }
}

#[test]
fn uniform_traffic_below_saturation_is_all_accepted() {
    let report = uniform::run(&mut torus(&[8, 8, 8]), offered(0.3)).unwrap();
    assert!((report.accepted / report.offered - 1.0).abs() < 0.02, "{report}");
}

#[test]
fn uniform_traffic_saturates_where_dimension_order_on_a_torus_does() {
    // An even ring of k = 8 carries k / 8 = 1 of the injection rate at most (Dally and Towles, section 3.3). Dimension
    // order with two dateline channels reaches a half to two thirds of that.
    let report = uniform::run(&mut torus(&[8, 8, 8]), offered(0.95)).unwrap();
    assert!((0.45..0.70).contains(&report.accepted), "{report}");
}

#[test]
fn latency_at_low_load_is_the_mean_of_the_closed_form() {
    let report = uniform::run(&mut torus(&[8, 8, 8]), offered(0.01)).unwrap();
    // Mean distance in a ring of 8 is 2; without the source itself 3 * 2 * 512 / 511 hops.
    let hops = 6.0 * 512.0 / 511.0;
    let mean_ps = unloaded_ps(0, 2_048) as f64 + hops * (LATENCY_PS + FLIT_PS + PIPELINE_PS) as f64;
    // A little queueing at one per cent of load: M/D/1 waiting is 0.5 % of a packet time on each of eight links.
    assert!((report.mean_latency_ps / mean_ps - 1.0).abs() < 0.03, "{report} against {mean_ps}");
}

#[test]
fn pairwise_exchange_of_neighbours_runs_at_link_rate() {
    // Everybody exchanges with the neighbour across bit 0: one hop, nobody in the way.
    let mut network = torus(&[8, 8]);
    let pattern =
        Permutation { to: (0..64).map(|process| process ^ 1).collect(), message_bytes: 100 * FULL_PAYLOAD };
    let setup = Setup::blocks(&network, 1);
    let report = rounds::run(&mut network, &pattern, &setup).unwrap();
    assert_eq!(report.elapsed_ps, unloaded_ps(1, 2_048) + 99 * FULL_PS);
}

#[test]
fn all_to_all_on_a_complete_exchange_takes_no_less_than_the_bisection_allows() {
    let mut network = torus(&[4, 4, 4]);
    let setup = Setup::blocks(&network, 1);
    let bytes = 20 * FULL_PAYLOAD;
    let report = rounds::run(&mut network, &PairwiseExchange::new(64, bytes), &setup).unwrap();
    // Half of all traffic crosses a plane of 16 x 2 links in each direction, at wire size.
    let crossing_bytes = 32 * 32 * 20 * 2_048;
    assert!(report.elapsed_ps >= crossing_bytes * PS_PER_BYTE / 32, "{report:?}");
    assert_eq!(report.network_message_count, 64 * 63);
}

#[test]
fn processes_of_one_host_do_not_load_the_network() {
    let mut network = torus(&[2]);
    let mut setup = Setup::blocks(&network, 8);
    setup.memory_bytes_per_s = 10e9;
    // Processes 0 and 1 share a host.
    let to = vec![1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let report = rounds::run(&mut network, &Permutation { to, message_bytes: 1_000_000 }, &setup).unwrap();
    assert_eq!((report.elapsed_ps, report.network_bytes), (100_000_000, 0));
    assert_eq!(report.local_message_count, 2);
}

#[test]
fn a_random_ring_ends_for_any_gap_and_start_spread() {
    for (packet_times, start_spread_ps) in [(0.0, 0), (0.5, 5_000), (3.0, 1_000_000)] {
        let mut network = torus(&[4, 3, 2]);
        let setup =
            Setup { gap: Gap::packets(packet_times), start_spread_ps, seed: 9, ..Setup::blocks(&network, 4) };
        let pattern = RandomRing::new(96, 64 * 1_024, 3, 2);
        let report = rounds::run(&mut network, &pattern, &setup).unwrap();
        assert_eq!(report.network_message_count + report.local_message_count, 96 * 2 * 2);
        assert_eq!(network.leftovers(), None);
    }
}
