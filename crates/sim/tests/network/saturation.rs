//! Throughput and latency over load, against what is proved or published.

use ayatori_fabric::routing::Method;
use ayatori_fabric::topology::{Explicit, Mesh, Topology};
use ayatori_sim::network::{Config, Network};
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
