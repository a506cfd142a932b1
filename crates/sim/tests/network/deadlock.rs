//! Deadlock: without the dateline it comes and is named, with it it never does.

use ayatori_fabric::deadlock as fabric;
use ayatori_fabric::routing::{Dateline, Method, TieRule};
use ayatori_fabric::topology::{Ring, Topology, Torus};
use ayatori_random::Random;
use ayatori_sim::network::{Config, Network};

use crate::worlds::*;

const NO_DATELINE: Method = Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Balanced };

fn random_load(network: &mut Network, seed: u64, messages_per_nic: u32) {
    let mut random = Random::new(seed);
    let nic_count = network.nic_count() as u32;
    for from in (0..nic_count).flat_map(|nic| std::iter::repeat_n(nic, messages_per_nic as usize)) {
        network.send(message(from, random.below(nic_count.into()) as u32, 16 * FULL_PAYLOAD));
    }
}

fn run(network: &mut Network) -> Result<(), ayatori_sim::network::Deadlock> {
    while network.advance()?.is_some() {}
    Ok(())
}

#[test]
fn loaded_torus_without_dateline_deadlocks_with_a_named_cycle() {
    let topology = Topology::Torus(Torus::new(&[8, 8]));
    let mut network = network(&topology, NO_DATELINE, 1, Config::nsim());
    random_load(&mut network, 1, 20);
    let deadlock = run(&mut network).expect_err("should have deadlocked");
    assert!(deadlock.cycle.len() >= 3 && deadlock.packet_count > 0, "{deadlock}");
    // It is a circle in the graph, and one that the static check knows to be possible.
    let mut dependencies = fabric::Dependencies::new(network.graph().channel_count(), 2);
    dependencies.add_path(&deadlock.cycle);
    dependencies.add_path(&[deadlock.cycle[deadlock.cycle.len() - 1], deadlock.cycle[0]]);
    assert_eq!(dependencies.find_cycle().map(|cycle| cycle.len()), Some(deadlock.cycle.len()));
    for (i, lane) in deadlock.cycle.iter().enumerate() {
        let next = deadlock.cycle[(i + 1) % deadlock.cycle.len()];
        let graph = network.graph();
        assert_eq!(graph.channel_ends(lane.channel).1.node, graph.channel_ends(next.channel).0.node);
    }
    assert!(deadlock.to_string().contains(" -> "), "{deadlock}");
}

#[test]
fn without_dateline_a_ring_deadlocks_around() {
    let topology = Topology::Ring(Ring { switch_count: 8 });
    let mut network = network(&topology, NO_DATELINE, 1, Config { vc_count: 1, ..Config::nsim() });
    for from in 0..8 {
        network.send(message(from, (from + 3) % 8, 100 * FULL_PAYLOAD));
    }
    let deadlock = run(&mut network).expect_err("should have deadlocked");
    assert_eq!(deadlock.cycle.len(), 8, "{deadlock}");
}

#[test]
fn a_dateline_at_the_wrap_keeps_its_channel_behind_it() {
    let at_wrap = Method::DimensionOrder { dateline: Dateline::AtWrap, tie: TieRule::Balanced };
    let topology = Topology::Ring(Ring { switch_count: 8 });
    let mut network = network(&topology, at_wrap, 1, Config::nsim());
    for from in 0..8 {
        network.send(message(from, (from + 3) % 8, 100 * FULL_PAYLOAD));
    }
    run(&mut network).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    assert_eq!(network.leftovers(), None);
}

#[test]
fn with_dateline_no_load_ever_deadlocks() {
    for seed in 0..30 {
        let extents = [[8, 8, 1], [4, 2, 8], [3, 5, 4]][seed as usize % 3];
        let mut network = torus(&extents);
        random_load(&mut network, seed, 12);
        run(&mut network).unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock}"));
        assert_eq!(network.leftovers(), None, "seed {seed}");
    }
}
