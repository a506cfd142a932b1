//! Real processes on the simulated network.

mod host;
mod keys;
mod rails;
mod work;

use std::cell::Cell;
use std::rc::Rc;

use ayatori_core::Error;
use ayatori_core::coll::Collective;
use ayatori_core::ids::{Source, TagSelector};
use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{HostLayout, Ring, Topology, Torus};
use ayatori_sim::cluster::{Cluster, ClusterError, Config, Mpi, NicUse, Transfer};
use ayatori_sim::machine::{nsim_torus, tofu_torus};
use ayatori_sim::network::{self, Gap, Network};
use ayatori_sim::workloads::{self, HaloGrid, RingOrder};

/// No software costs: what is left is the network.
fn free_of_cost() -> Config {
    Config { send_ps: 0, receive_ps: 0, command_ps: 0, copy_bytes_per_s: u64::MAX, ..Config::default() }
}

fn cluster(extents: &[u32], config: Config) -> Cluster {
    Cluster::new(nsim_torus(extents, None).unwrap(), config).unwrap()
}

const TRANSFERS: [Transfer; 3] = [Transfer::Get, Transfer::Put, Transfer::Packets];

#[test]
fn ping_pong_of_small_messages_takes_the_networks_closed_form() {
    let mut cluster = cluster(&[4, 4], free_of_cost());
    let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, 8, 10)).unwrap();
    // One hop: two routers of 10 ns + 3.2 ns + 12.8 ns each, then the packet and the last cable. An eager
    // packet is 128 B of network header, the protocol's header and 8 B, in flits of 16 B.
    let one_way_ps = report.elapsed_ps / 20;
    let fixed_ps = 2 * 26_000 + 10_000;
    let wire_ps = one_way_ps - fixed_ps;
    assert_eq!(report.elapsed_ps % 20, 0);
    assert!(wire_ps.is_multiple_of(3_200) && (144 * 200..=192 * 200).contains(&wire_ps), "{wire_ps}");
    assert_eq!(cluster.leftovers(), None);
}

#[test]
fn long_messages_run_at_the_links_rate_by_every_protocol() {
    for transfer in TRANSFERS {
        let mut cluster = cluster(&[4, 4], Config { transfer, ..free_of_cost() });
        let bytes = 64 << 20;
        let report = cluster.run(move |mpi| workloads::ping_pong(mpi, 1, bytes, 1)).unwrap();
        // 1,920 of 2,048 bytes are payload.
        let wire_ps = (2 * bytes) as f64 * 200.0 * 2_048.0 / 1_920.0;
        let slower = report.elapsed_ps as f64 / wire_ps;
        assert!((1.0..1.02).contains(&slower), "{transfer:?}: {slower}");
        assert_eq!(cluster.leftovers(), None, "{transfer:?}");
    }
}

/// When each of two messages of 1 MiB has arrived that one rank sends another at once.
fn arrivals_of_two_ps(mut cluster: Cluster) -> [f64; 2] {
    let arrivals = Rc::new([Cell::new(0), Cell::new(0)]);
    let seen = arrivals.clone();
    let both = move |mpi: Mpi| {
        let seen = seen.clone();
        async move {
            if mpi.rank() == 0 {
                let sends = [mpi.isend(1, 0, 1 << 20)?, mpi.isend(1, 1, 1 << 20)?];
                return mpi.wait_all(sends).await;
            }
            if mpi.rank() == 1 {
                let receives = [mpi.irecv(0, 0, 1 << 20)?, mpi.irecv(0, 1, 1 << 20)?];
                for (receive, at) in receives.into_iter().zip(seen.iter()) {
                    mpi.wait(receive).await?;
                    at.set(mpi.now_ps());
                }
            }
            Ok(())
        }
    };
    cluster.run(both).unwrap();
    assert_eq!(cluster.leftovers(), None);
    arrivals.each_ref().map(|at| at.get() as f64)
}

#[test]
fn data_of_a_pair_leave_in_turn_or_in_order() {
    check_order_of_data(|transfer, data_in_order| {
        cluster(&[4], Config { transfer, data_in_order, ..free_of_cost() })
    });
}

/// Holds the arrivals of data that leave in turn against those that leave in order.
fn check_order_of_data(make: impl Fn(Transfer, bool) -> Cluster) {
    for transfer in [Transfer::Get, Transfer::Put] {
        let [in_turn, in_order] =
            [false, true].map(|data_in_order| arrivals_of_two_ps(make(transfer, data_in_order)));
        assert!(in_turn[0] / in_turn[1] > 0.98, "{transfer:?}: {in_turn:?}");
        assert!((0.45..0.55).contains(&(in_order[0] / in_order[1])), "{transfer:?}: {in_order:?}");
        assert!((0.98..1.02).contains(&(in_order[1] / in_turn[1])), "{transfer:?}: {in_order:?} {in_turn:?}");
    }
}

#[test]
fn software_costs_add_to_latency() {
    let costs = Config { send_ps: 1_000_000, receive_ps: 2_000_000, ..free_of_cost() };
    let time_ps =
        |config| cluster(&[4], config).run(|mpi| workloads::ping_pong(mpi, 1, 8, 5)).unwrap().elapsed_ps;
    assert_eq!(time_ps(costs) - time_ps(free_of_cost()), 10 * 3_000_000);
}

#[test]
fn a_gap_paces_rendezvous_data() {
    let gap = |packet_times| Config { gap: Gap::packets(packet_times), ..free_of_cost() };
    let time_ps = |config| {
        let report = cluster(&[4], config).run(|mpi| workloads::ping_pong(mpi, 1, 16 << 20, 1)).unwrap();
        report.elapsed_ps as f64
    };
    let ratio = time_ps(gap(2.0)) / time_ps(gap(0.0));
    assert!((2.95..3.01).contains(&ratio), "{ratio}");
}

#[test]
fn several_nics_carry_a_long_message_as_one_link() {
    // Packets do not yet: 87 % of two NICs and 78 % of four, for a reason still to be found.
    let transfer = Transfer::Put;
    let time_ps = |nic_count| {
        // Two hosts on a switch, so that nothing but the NICs is shared.
        let topology = Topology::Torus(Torus::new(&[4]));
        let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
        let hosts = HostLayout { per_switch_count: 2, nic_count, link };
        let graph = topology.build_with_hosts(link, hosts).unwrap();
        let method = Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Balanced };
        let routing = Routing::new(method, &topology, &graph).unwrap();
        let network = Network::with_probe(
            graph,
            routing,
            network::Config { vc_count: 2, ..network::Config::nsim() },
            None,
        );
        let network = network.unwrap();
        let config = Config { transfer, ..free_of_cost() };
        let mut cluster = Cluster::new(network, config).unwrap();
        let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, 64 << 20, 2)).unwrap();
        assert_eq!(cluster.leftovers(), None, "{transfer:?}");
        report.elapsed_ps as f64
    };
    let one = time_ps(1);
    let ratios = [2, 4].map(|nic_count| one / time_ps(nic_count) / f64::from(nic_count));
    assert!(ratios.iter().all(|ratio| (0.95..1.01).contains(ratio)), "{transfer:?}: {ratios:?}");
}

#[test]
fn every_workload_ends_cleanly_by_every_protocol() {
    for transfer in TRANSFERS {
        for bytes in [0, 100, 16 << 10, (16 << 10) + 1, 300_000] {
            let config = Config {
                transfer,
                processes_per_host: 3,
                start_spread_ps: 5_000,
                seed: 4,
                ..Config::default()
            };
            let mut cluster = cluster(&[4, 2], config);
            let order = RingOrder::new(24, 7);
            cluster
                .run(|mpi| {
                    let (left, right) = order.neighbours(mpi.rank());
                    workloads::random_ring(mpi, left, right, bytes, 3)
                })
                .unwrap();
            cluster.run(|mpi| workloads::pairwise_exchange(mpi, bytes)).unwrap();
            let grid = HaloGrid { extents: vec![4, 3, 2], face_bytes: vec![bytes; 3] };
            cluster.run(|mpi| workloads::halo_exchange(mpi, grid.clone(), 1_000_000, 2)).unwrap();
            assert_eq!(cluster.leftovers(), None, "{transfer:?} {bytes} B");
        }
    }
}

#[test]
fn the_same_cluster_gives_the_same_picoseconds() {
    let times = || {
        let config = Config { processes_per_host: 4, start_spread_ps: 9_000, seed: 3, ..Config::default() };
        let order = RingOrder::new(64, 1);
        let mut cluster = cluster(&[4, 4], config);
        let ring = |mpi: Mpi| {
            let (left, right) = order.neighbours(mpi.rank());
            workloads::random_ring(mpi, left, right, 100_000, 2)
        };
        cluster.run(ring).unwrap().finished_ps
    };
    assert_eq!(times(), times());
}

#[test]
fn stuck_ranks_are_named() {
    async fn waits(mpi: Mpi) -> Result<(), Error> {
        if mpi.rank() == 2 {
            mpi.recv(1, 5, 10).await?;
        }
        Ok(())
    }
    let error = cluster(&[4], Config::default()).run(waits).unwrap_err();
    assert!(matches!(&error, ClusterError::Stuck { ranks, count: 1, .. } if ranks == &[2]), "{error}");
}

#[test]
fn a_deadlock_names_its_cycle_with_one_and_two_nics() {
    for nic_count in [1, 2] {
        let topology = Topology::Ring(Ring { switch_count: 8 });
        let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
        let hosts = HostLayout { per_switch_count: 1, nic_count, link };
        let graph = topology.build_with_hosts(link, hosts).unwrap();
        let method = Method::DimensionOrder { dateline: Dateline::Off, tie: TieRule::Balanced };
        let routing = Routing::new(method, &topology, &graph).unwrap();
        let one_channel = network::Config { vc_count: 1, ..network::Config::nsim() };
        let network = Network::with_probe(graph, routing, one_channel, None).unwrap();
        let around = |mpi: Mpi| async move {
            let (me, size) = (mpi.rank(), mpi.size());
            mpi.sendrecv((me + 3) % size, (me + size - 3) % size, 0, 16 << 20).await.map(drop)
        };
        let error = Cluster::new(network, Config::default()).unwrap().run(around).unwrap_err();
        assert!(matches!(&error, ClusterError::Deadlock(found) if found.cycle.len() == 8), "{error}");
    }
}

#[test]
fn a_workloads_error_names_its_rank() {
    async fn too_long(mpi: Mpi) -> Result<(), Error> {
        match mpi.rank() {
            0 => mpi.send(1, 0, 100).await,
            1 => mpi.recv(0, 0, 10).await.map(drop),
            _ => Ok(()),
        }
    }
    let error = cluster(&[4], Config::default()).run(too_long).unwrap_err();
    let expected = Error::Truncate { message_bytes: 100, buffer_bytes: 10 };
    assert_eq!(error, ClusterError::Workload { rank: 1, error: expected });
}

#[test]
fn any_source_receives_see_all_messages_once() {
    async fn gather(mpi: Mpi) -> Result<(), Error> {
        if mpi.rank() > 0 {
            return mpi.send(0, mpi.rank() as i32, 1_000 * u64::from(mpi.rank())).await;
        }
        let mut seen = vec![false; mpi.size() as usize];
        for _ in 1..mpi.size() {
            let request = mpi.irecv_any(Source::Any, TagSelector::Any, 1 << 20)?;
            let tag = mpi.wait(request).await?.tag.unwrap_or(0) as usize;
            assert!(!std::mem::replace(&mut seen[tag], true), "twice from {tag}");
        }
        Ok(())
    }
    let mut cluster = cluster(&[8, 4], Config::default());
    cluster.run(gather).unwrap();
    assert_eq!(cluster.leftovers(), None);
}

#[test]
fn more_processes_than_places_are_refused() {
    let network = nsim_torus(&[4], None).unwrap();
    let config = Config { process_count: Some(5), ..Config::default() };
    let error = Cluster::new(network, config).err().unwrap();
    assert_eq!(error.to_string(), "cluster: 5 processes on 4 hosts with 1 each");
}

#[test]
fn every_collective_ends_by_every_algorithm() {
    for bytes in [8, 40_000] {
        let mut cluster = cluster(&[3, 2], Config { processes_per_host: 2, ..Config::default() });
        for operation in Collective::ALL {
            cluster.run(|mpi| async move { mpi.collective(operation, bytes, None).await }).unwrap();
            for algorithm in operation.algorithms() {
                let name = algorithm.name();
                let outcome =
                    cluster.run(move |mpi| async move { mpi.collective(operation, bytes, Some(name)).await });
                let served =
                    !matches!(outcome, Err(ClusterError::Workload { error: Error::Argument(_), .. }));
                assert!(!served || outcome.is_ok(), "{operation:?} by {name}: {outcome:?}");
                assert_eq!(cluster.leftovers(), None, "{operation:?} by {name}");
            }
        }
    }
}

#[test]
fn no_rank_leaves_a_barrier_before_the_last_has_come() {
    async fn late(mpi: Mpi) -> Result<(), Error> {
        if mpi.rank() == 3 {
            mpi.compute(50_000_000);
        }
        mpi.barrier().await?;
        assert!(mpi.now_ps() >= 50_000_000);
        Ok(())
    }
    cluster(&[4, 4], Config::default()).run(late).unwrap();
}

/// A long message of each process to the same process of the next host.
fn shift_ps(mut cluster: Cluster, per_host: u32) -> u64 {
    let shift = cluster.run(move |mpi| async move {
        let size = mpi.size();
        let (to, from) = ((mpi.rank() + per_host) % size, (mpi.rank() + size - per_host) % size);
        mpi.sendrecv(to, from, 0, 1 << 20).await.map(drop)
    });
    shift.unwrap().elapsed_ps
}

#[test]
fn processes_with_own_nics_do_not_wait_for_each_other() {
    // Both send at the same time to other places.
    let config = Config { processes_per_host: 2, nic_use: NicUse::OneEach, ..free_of_cost() };
    let mut cluster = Cluster::new(tofu_torus(&[4], 2, None).unwrap(), config).unwrap();
    assert_ne!(cluster.nic_of(0), cluster.nic_of(1));
    let both = |mpi: Mpi| async move {
        // 0 to the next host, 1 to the one before: they share no link but one at the host, if any.
        match mpi.rank() {
            0 => mpi.send(2, 0, 1 << 20).await,
            1 => mpi.send(7, 0, 1 << 20).await,
            2 => mpi.recv(0, 0, 1 << 20).await.map(drop),
            7 => mpi.recv(1, 0, 1 << 20).await.map(drop),
            _ => Ok(()),
        }
    };
    let apart_ps = cluster.run(both).unwrap().elapsed_ps;
    assert_eq!(cluster.leftovers(), None);
    let config = Config { processes_per_host: 2, ..free_of_cost() };
    let shared_ps =
        Cluster::new(tofu_torus(&[4], 1, None).unwrap(), config).unwrap().run(both).unwrap().elapsed_ps;
    let ratio = shared_ps as f64 / apart_ps as f64;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_gap_by_pair_or_beyond_free_hops_paces_those_messages_only() {
    let plain = shift_ps(cluster(&[4], free_of_cost()), 1);
    let paced = |config: Config| shift_ps(cluster(&[4], config), 1) as f64 / plain as f64;
    // Everybody sends one hop.
    let per_hop = Config { gap_per_hop: Gap::packets(1.0), ..free_of_cost() };
    assert!((1.9..2.1).contains(&paced(per_hop.clone())));
    assert!((0.99..1.01).contains(&paced(Config { gap_free_hop_count: 1, ..per_hop })));
    let of = |pair| Some(std::rc::Rc::new([(pair, Gap::packets(2.0))].into()));
    assert!((2.9..3.1).contains(&paced(Config { gap_of_pair: of((1, 2)), ..free_of_cost() })));
    assert!((0.99..1.01).contains(&paced(Config { gap_of_pair: of((2, 1)), ..free_of_cost() })));
}

/// Messages of several lengths around a ring, with data that tell the sender, the message and the place.
async fn ring_with_data(mpi: Mpi) -> Result<(), Error> {
    let (me, size) = (mpi.rank(), mpi.size());
    let byte = |from: u32, round: usize, at: usize| (from as usize * 37 + round * 11 + at * at / 5) as u8;
    for (round, length) in [0, 1, 100, 4_000, 70_000, 300_001].into_iter().enumerate() {
        let data: Vec<u8> = (0..length).map(|at| byte(me, round, at)).collect();
        let left = (me + size - 1) % size;
        let receive = mpi.irecv_data(left, 0, length as u64 + 10)?;
        let send = mpi.isend_data((me + 1) % size, 0, &data)?;
        mpi.wait(send).await?;
        let got = mpi.wait_data(receive).await?;
        assert_eq!(got.len(), length);
        assert!(got.iter().enumerate().all(|(at, &got)| got == byte(left, round, at)), "round {round}");
    }
    Ok(())
}

async fn ring_without_data(mpi: Mpi) -> Result<(), Error> {
    let (me, size) = (mpi.rank(), mpi.size());
    for length in [0, 1, 100, 4_000, 70_000, 300_001] {
        let receive = mpi.irecv((me + size - 1) % size, 0, length + 10)?;
        let send = mpi.isend((me + 1) % size, 0, length)?;
        mpi.wait(send).await?;
        mpi.wait(receive).await?;
    }
    Ok(())
}

#[test]
fn workloads_can_check_their_data_and_it_takes_no_other_time() {
    for transfer in TRANSFERS {
        let config = Config { transfer, ..Config::default() };
        let with = cluster(&[3, 3], config.clone()).run(ring_with_data).unwrap();
        let without = cluster(&[3, 3], config).run(ring_without_data).unwrap();
        assert_eq!(with.elapsed_ps, without.elapsed_ps, "{transfer:?}");
    }
}
