//! Throughput and latency over load, against what is proved or published.

use ayatori_fabric::routing::Method;
use ayatori_fabric::topology::{Explicit, Mesh, Topology};
use ayatori_sim::network::{Config, LagHash, Network, NicId, Queueing, SharedBuffer, Switching, WhenFull};
use ayatori_sim::traffic::uniform::{self, Uniform, UniformReport};

use crate::worlds::*;

fn offered(network: &mut Network, load: f64, measure_ps: u64) -> UniformReport {
    let traffic = Uniform { load, payload_bytes: 1_920, warm_up_ps: 150_000_000, measure_ps, seed: 7 };
    uniform::run(network, traffic).unwrap()
}

/// Hosts on one switch, one virtual channel.
fn one_switch(host_count: u32) -> Network {
    let switch = Topology::Explicit(Explicit { switches: vec!["s".into()], links: vec![] });
    let config = Config { vc_count: 1, ..Config::nsim() };
    network(&switch, Method::UpDown { root: None }, host_count, config)
}

fn mesh(extents: &[u32]) -> Network {
    network(&Topology::Mesh(Mesh { extents: extents.to_vec() }), DATELINE, 1, Config::nsim())
}

#[test]
fn one_switch_with_input_queues_saturates_where_karol_says() {
    // M. Karol, M. Hluchyj, S. Morgan, "Input versus output queueing on a space-division packet switch",
    // 1987: the first packet of a queue blocks those behind it, so that a switch of N ports passes 0.6184 of
    // its inputs' rate at N = 8, and 2 - sqrt 2 = 0.586 in the limit. There nobody sends to himself less
    // often than to others, and all start together; here not, which at 8 ports makes a few per cent.
    for (ports, expected, tolerance) in [(8, 0.618, 0.05), (48, 0.586, 0.03)] {
        let accepted = offered(&mut one_switch(ports), 1.0, 500_000_000).accepted;
        assert!((accepted - expected).abs() < tolerance, "{ports} ports: {accepted} of {expected}");
    }
}

#[test]
fn an_output_queue_waits_as_m_d_1() {
    // Packets of many hosts at random to each output, all of one length: the queue of an output is M/D/1,
    // with a mean wait of load / (2 (1 - load)) packet times (L. Kleinrock, "Queueing Systems", 1975); of N
    // hosts none sends to himself, which makes it (N - 1) / N of that (Karol, as above).
    let hosts = 64;
    let never = WhenFull::Pause { on_bytes: 1 << 30, off_bytes: 1 << 30 };
    let config = Config {
        vc_count: 1,
        switching: Switching::StoreAndForward,
        queueing: Queueing::Output(SharedBuffer { when_full: never, lag_hash: LagHash::Addresses }),
        ..Config::nsim()
    };
    let switch = Topology::Explicit(Explicit { switches: vec!["s".into()], links: vec![] });
    let packet_ps = FULL_PS as f64;
    // In and out, each a cable and a packet, and the switch's pipeline between.
    let unloaded_ps = 2.0 * (LATENCY_PS as f64 + packet_ps) + PIPELINE_PS as f64;
    for load in [0.3, 0.6, 0.8] {
        let mut network = network(&switch, Method::UpDown { root: None }, hosts, config.clone());
        let latency_ps = offered(&mut network, load, 4_000_000_000).mean_latency_ps;
        let wait = (latency_ps - unloaded_ps) / packet_ps;
        let expected = load / (2.0 * (1.0 - load)) * f64::from(hosts - 1) / f64::from(hosts);
        assert!((wait / expected - 1.0).abs() < 0.03, "load {load}: {wait} packet times of {expected}");
    }
}

#[test]
fn a_permutation_is_bounded_by_its_busiest_link() {
    // Tornado on a ring of 8: everybody three further on, so that each link carries three flows. With two
    // classes and input queues some of a link's time is lost (two other simulators carry as little:
    // docs/compared.md).
    let run = |load, to: fn(u32) -> u32| {
        let traffic =
            Uniform { load, payload_bytes: 1_920, warm_up_ps: 150_000_000, measure_ps: 400_000_000, seed: 7 };
        let partners = (0..8).map(|node| NicId(to(node))).collect();
        uniform::run_permutation(&mut torus(&[8]), traffic, partners).unwrap()
    };
    let below = run(0.2, |node| (node + 3) % 8);
    assert!((below.accepted - below.offered).abs() < 0.01, "{below}");
    let beyond = run(1.0, |node| (node + 3) % 8);
    assert!((0.6..=1.001).contains(&(3.0 * beyond.accepted)), "{beyond}");
    // Only 0 and 1 send, and their links are their own: those idle are not counted.
    let pair = run(1.0, |node| if node < 2 { 1 - node } else { node });
    assert!((pair.accepted - 1.0).abs() < 0.01, "{pair}");
}

#[test]
fn a_mesh_saturates_below_its_bisection_and_near_it() {
    // Half of all packets of k x k nodes cross the middle, half of those each way, over k links: k^2 / 4 x
    // load <= k, so load <= 4 / k (W. Dally, B. Towles, section 3.3); sending to oneself left out makes it 4
    // / k x (k^2 - 1) / k^2.
    let k = 8;
    let bound = 4.0 / f64::from(k) * f64::from(k * k - 1) / f64::from(k * k);
    let accepted = offered(&mut mesh(&[k, k]), 0.95, 400_000_000).accepted;
    // Deterministic routing with few buffers reaches 60 to 90 per cent of it (chapters 23 and 25).
    assert!((0.6 * bound..bound).contains(&accepted), "{accepted} of at most {bound}");
}

#[test]
fn a_torus_carries_twice_a_mesh() {
    // Wrap-around links double the bisection: 8 / k = 1 here.
    let [torus, mesh] =
        [torus(&[8, 8]), mesh(&[8, 8])].map(|mut network| offered(&mut network, 0.95, 400_000_000).accepted);
    assert!((1.3..2.0).contains(&(torus / mesh)), "{torus} against {mesh}");
}

#[test]
fn latency_rises_with_load_and_steeply_near_saturation() {
    let loads = [0.02, 0.1, 0.2, 0.3, 0.4];
    let latency_ps = loads.map(|load| {
        let report = offered(&mut torus(&[8, 8]), load, 200_000_000);
        assert!((report.accepted / report.offered - 1.0).abs() < 0.03, "all is accepted: {report}");
        report.mean_latency_ps
    });
    assert!(latency_ps.is_sorted(), "{latency_ps:?}");
    // The first step is next to nothing, the last is not.
    let [slow, fast] = [latency_ps[1] - latency_ps[0], latency_ps[4] - latency_ps[3]];
    assert!(fast > slow && latency_ps[4] > 1.2 * latency_ps[0], "{latency_ps:?}");
}

#[test]
fn beyond_saturation_throughput_holds() {
    let accepted = [0.7, 0.85, 1.0].map(|load| offered(&mut torus(&[8, 8, 4]), load, 200_000_000).accepted);
    let (least, most) = (accepted.map(|a| a.min(1.0)), accepted.into_iter().fold(0.0, f64::max));
    assert!(least.iter().all(|&a| a > 0.95 * most), "{accepted:?}");
}
