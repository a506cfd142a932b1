//! The simulated NIC keeps what a device promises, with the profile of each shipping device and without one.

use std::rc::Rc;

use ayatori_core::buffer::Piece;
use ayatori_core::coll::Collective;
use ayatori_core::device::conformance::{self, World};
use ayatori_core::device::{Device, Event};
use ayatori_core::ids::{ProcessId, Rail};

use ayatori_fabric::description::{LongerTime, PiecesFrom, RateWithin};

use super::Nic;
use crate::cluster::fabric::{Fabric, MEMORY_RAIL};
use crate::cluster::{
    Cluster, Config, GetTimes, KernelCopy, NicDevice, Profile, Rates, Sockets, Software, Transfer,
};
use crate::machine::nsim_torus;

const PROCESS_COUNT: u32 = 3;
/// What a rail queues, instead of what its device does: the suite fills it often.
const QUEUE_BYTES: u64 = 16 << 10;

/// Two processes on one host and one on another: both the memory's rail and the NIC's.
struct Simulated {
    fabric: Fabric,
    /// By process: the fabric has called it since its device was last used.
    is_called: Vec<bool>,
}

impl Simulated {
    fn new(config: Config) -> Simulated {
        let network = nsim_torus(&[2], None).unwrap();
        let config = Config { processes_per_host: 2, ..config };
        let mut fabric = Fabric::new(network, config, PROCESS_COUNT);
        fabric.rails.iter_mut().for_each(|rail| rail.queue_bytes = QUEUE_BYTES);
        Simulated { fabric, is_called: vec![false; PROCESS_COUNT as usize] }
    }
}

impl World for Simulated {
    fn processes(&self) -> Vec<ProcessId> {
        (0..PROCESS_COUNT).map(ProcessId).collect()
    }

    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        self.is_called[at] = false;
        f(&mut Nic { fabric: &mut self.fabric, me: at as u32 });
    }

    fn advance(&mut self) -> bool {
        let next = self.fabric.next_runnable().expect("two hosts do not deadlock");
        if let Some(rank) = next {
            self.is_called[rank as usize] = true;
        }
        next.is_some()
    }

    fn sleep(&mut self, at: usize) -> bool {
        while !self.is_called[at] {
            if !self.advance() {
                return false;
            }
        }
        true
    }

    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        self.fabric.cut(at as u32, peer.0, rail.0);
        true
    }
}

/// The checks that do not apply.
fn skipped(config: &Config) -> Vec<&'static str> {
    let report = conformance::check(&mut || Box::new(Simulated::new(config.clone())));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    report.skipped.iter().map(|skip| skip.check).collect()
}

fn profile(device: NicDevice) -> Config {
    Config { profile: Some(Profile { device, mtu_bytes: 1_500 }), ..Config::default() }
}

// No process of a simulated cluster dies, so "gone" is never checked.

#[test]
fn nic_of_profile_tcp_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Tcp)), ["gone"]);
    let sockets = Some(Rc::new(Sockets::default()));
    assert_eq!(skipped(&Config { sockets, ..profile(NicDevice::Tcp) }), ["gone"]);
}

#[test]
fn nic_of_profile_shm_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Shm)), ["breaks", "gone"]);
}

#[test]
fn nic_of_profile_rdma_keeps_what_devices_promise() {
    assert_eq!(skipped(&profile(NicDevice::Rdma)), ["breaks", "gone"]);
}

#[test]
fn nic_of_several_stages_keeps_what_devices_promise() {
    let text = include_str!("../../../../../machines/yampii-openib.toml");
    let machine = ayatori_fabric::description::Machine::parse("yampii-openib.toml", text).unwrap();
    let with = |transfer| {
        let hardware = crate::host::Model::of(&machine.host_models[0], 1_920).map(std::rc::Rc::new);
        Config { transfer, hardware, ..Config::default() }
    };
    assert_eq!(skipped(&with(Transfer::Get)), ["put", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Put)), ["get", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Packets)), ["put", "get", "outside", "breaks", "gone"]);
}

#[test]
fn nic_without_a_profile_keeps_what_devices_promise() {
    let with = |transfer| Config { transfer, ..Config::default() };
    assert_eq!(skipped(&with(Transfer::Get)), ["put", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Put)), ["get", "breaks", "gone"]);
    assert_eq!(skipped(&with(Transfer::Packets)), ["put", "get", "outside", "breaks", "gone"]);
}

/// Two ranks of a host whose processes copy at 10 GB/s.
fn shared_memory(kernel_copy: Option<KernelCopy>, memory_bytes_per_s: u64) -> Config {
    Config {
        processes_per_host: 2,
        process_count: Some(2),
        memory_bytes_per_s,
        software: Software { kernel_copy, ..Software::default() },
        profile: Some(Profile { device: NicDevice::Tcp, mtu_bytes: 1_500 }),
        ..Config::default()
    }
}

/// Half a round trip between these ranks, ns.
fn within_a_host_ns(kernel_copy: Option<KernelCopy>, bytes: u64) -> f64 {
    half_round_trip_ns(&shared_memory(kernel_copy, 1_000_000_000_000), bytes)
}

fn half_round_trip_ns(config: &Config, bytes: u64) -> f64 {
    const ROUNDS: u32 = 256;
    let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config.clone()).unwrap();
    let workload = |mpi| crate::workloads::ping_pong(mpi, 1, bytes, ROUNDS);
    cluster.run(workload).unwrap();
    let report = cluster.run(workload).unwrap();
    assert_eq!(cluster.leftovers(), None);
    report.elapsed_ps as f64 / f64::from(2 * ROUNDS) / 1e3
}

#[test]
fn long_packets_within_a_host_are_copied_in_and_out_at_once() {
    let per_kib_ns = |from: u64, to: u64| {
        let [short_ns, long_ns] = [from, to].map(|bytes| within_a_host_ns(None, bytes));
        (long_ns - short_ns) / (to - from) as f64 * 1_024.0
    };
    let copy_ns = 102.4;
    let near = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 0.02;
    assert!(near(per_kib_ns(4 << 10, 8 << 10), 2.0 * copy_ns), "{}", per_kib_ns(4 << 10, 8 << 10));
    assert!(near(per_kib_ns(16 << 10, 32 << 10), copy_ns), "{}", per_kib_ns(16 << 10, 32 << 10));
    // Announced both: to 64 KiB senders with nothing else under way send eagerly.
    assert!(near(per_kib_ns(80 << 10, 128 << 10), copy_ns), "{}", per_kib_ns(80 << 10, 128 << 10));
}

#[test]
fn announced_packets_take_software_of_their_own() {
    let time_ns = |announce_ps, bytes| {
        let plain = shared_memory(None, 1_000_000_000_000);
        let software = Software { announce_ps, ..plain.software };
        half_round_trip_ns(&Config { software, ..plain }, bytes)
    };
    // Half by its receiver before it answers, half by its sender; not of what goes at once.
    for (bytes, more_ns) in [(8, 0.0), (32 << 10, 0.0), (128 << 10, 500.0), (1 << 20, 500.0)] {
        let more = time_ns(500_000, bytes) - time_ns(0, bytes);
        assert!((more - more_ns).abs() < 1e-6, "{bytes} B: {more} ns");
    }
}

#[test]
fn longer_messages_take_more_software() {
    let time_ns = |longer: &[(u64, u64)], bytes| {
        let plain = shared_memory(None, 1_000_000_000_000);
        let longer = longer.iter().map(|&(bytes, more_ps)| LongerTime { bytes, more_ps });
        let rates = Rates { longer_software: longer.collect(), ..plain.rates.clone() };
        half_round_trip_ns(&Config { rates, ..plain }, bytes)
    };
    let longer = [(96, 70_000), (24 << 10, 200_000)];
    // What is announced is of packets that are no messages.
    for (bytes, more_ns) in [(8, 0.0), (64, 35.0), (96, 70.0), (24 << 10, 200.0), (64 << 10, 200.0)] {
        let more = time_ns(&longer, bytes) - time_ns(&[], bytes);
        assert!((more - more_ns).abs() < 0.3, "{bytes} B: {more} ns");
    }
    assert_eq!(time_ns(&longer, 1 << 20), time_ns(&[], 1 << 20));
}

#[test]
fn shared_data_wait_for_a_line_or_take_less() {
    let config = Config { memory_latency_ps: 40_000, ..shared_memory(None, 1_000_000_000_000) };
    let cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
    let fabric = &cluster.world.borrow().fabric;
    for (least_ps, found_ps) in [
        (30_000, [[30_000, 0], [30_000, 0], [30_000, 70_000]]),
        (50_000, [[40_000, 0], [40_000, 10_000], [40_000, 60_000]]),
    ] {
        let times = [(1 << 10, least_ps), (4 << 10, 100_000)];
        let times = times.map(|(bytes, more_ps)| LongerTime { bytes, more_ps });
        let found = [200, 1 << 10, 4 << 10].map(|bytes| fabric.handed_ps(&times, bytes).unwrap());
        assert_eq!(found, found_ps);
    }
}

#[test]
fn the_receiver_finds_out_whether_the_kernel_copies_quicker() {
    let kernel = |bytes_per_s| KernelCopy {
        alone: GetTimes { call_ps: 1_000_000, library_ps: 0 },
        at_once: GetTimes { call_ps: 1_000_000, library_ps: 0 },
        bytes_per_s,
        hot_bytes_per_s: None,
    };
    let time_ns = |rate: u64| within_a_host_ns(Some(kernel(rate)), 1 << 20);
    // 1 MiB: 105 us by packets, 26 by a kernel of 20 GB/s, of which each rank copies half; six messages in
    // 256 look at the slower way.
    let (slow_ns, fast_ns) = (time_ns(2_000_000_000), time_ns(20_000_000_000));
    assert!((105_000.0..115_000.0).contains(&slow_ns), "{slow_ns}");
    assert!((26_000.0..31_000.0).contains(&fast_ns), "{fast_ns}");
}

#[test]
fn long_packets_take_the_relay_rate_of_what_is_gone_through() {
    let rate = |working_set_bytes, bytes_per_s| RateWithin { working_set_bytes, bytes_per_s };
    let relay = vec![rate(1 << 18, 10_000_000_000), rate(1 << 20, 5_000_000_000)];
    let config =
        Config { rates: Rates { relay, ..Rates::default() }, ..shared_memory(None, 1_000_000_000_000) };
    // A ping-pong goes through both buffers. One piece more: the first is written before the last is read.
    // Each packet of 128 KiB takes its sender's software, and what announces and ends the message a constant.
    let time_ns = |bytes: u64| half_round_trip_ns(&config, bytes);
    let software_ns = config.send_ps as f64 / 1e3;
    let expected_ns = |bytes: u64, rate: f64| {
        (bytes + (16 << 10)) as f64 / rate + bytes.div_ceil(128 << 10) as f64 * software_ns
    };
    for (bytes, rate) in [(128 << 10, 10.0), (1 << 20, 5.0)] {
        let (found, expected) = (time_ns(bytes), expected_ns(bytes, rate));
        assert!((0.0..1_500.0).contains(&(found - expected)), "{bytes} B: {found} ns, {expected} expected");
    }
}

#[test]
fn what_a_reduction_sends_takes_the_rate_of_fresh_memory() {
    let rate = |bytes_per_s| vec![RateWithin { working_set_bytes: 1, bytes_per_s }];
    let time_ns = |(operation, ranks), fresh_bytes_per_s, library_ps| {
        let times = GetTimes { call_ps: 0, library_ps };
        let kernel_copy =
            KernelCopy { alone: times, at_once: times, bytes_per_s: 10_000_000_000, hot_bytes_per_s: None };
        let plain = shared_memory(Some(kernel_copy), 1_000_000_000_000);
        let plain = Config { processes_per_host: ranks, process_count: Some(ranks), ..plain };
        let rates = Rates { fresh_kernel_copy: rate(fresh_bytes_per_s), ..Rates::default() };
        let config = Config { rates, ..plain };
        let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
        let run = |mpi: crate::cluster::Mpi| async move { mpi.collective(operation, 4 << 20, None).await };
        cluster.run(run).unwrap().elapsed_ps as f64 / 1e3
    };
    // As quick as other copies, or ten times as slow. Two ranks exchange operands that neither has written.
    for (what, is_fresh) in [
        ((Collective::Allreduce, 4), true),
        ((Collective::Allreduce, 2), false),
        ((Collective::Allgather, 2), false),
    ] {
        let [quick, slow] = [10_000_000_000, 1_000_000_000].map(|fresh| time_ns(what, fresh, 0));
        assert_eq!(slow > 2.0 * quick, is_fresh, "{what:?}: {quick} and {slow} ns");
        assert!(time_ns(what, 10_000_000_000, 1_000_000) >= quick + 1_000.0);
    }
}

/// What two ranks take that send to each other at once, ns.
fn exchange_ns(config: &Config, bytes: u64) -> f64 {
    const TURNS: u32 = 64;
    let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config.clone()).unwrap();
    let workload = |mpi: crate::cluster::Mpi| async move {
        let peer = mpi.rank() ^ 1;
        for _ in 0..TURNS {
            mpi.sendrecv(peer, peer, 1, bytes).await?;
        }
        Ok(())
    };
    cluster.run(workload).unwrap().elapsed_ps as f64 / f64::from(TURNS) / 1e3
}

#[test]
fn windows_go_by_packets_where_the_kernel_is_slower() {
    const WINDOW: u64 = 16;
    const BYTES: u64 = 64 << 10;
    const TURNS: u64 = 100;
    // 65 us a message by the kernel, 7 by packets.
    let times = GetTimes { call_ps: 1_000_000, library_ps: 0 };
    let bytes_per_s = 1_000_000_000;
    let kernel_copy = KernelCopy { alone: times, at_once: times, bytes_per_s, hot_bytes_per_s: None };
    let config = shared_memory(Some(kernel_copy), 1_000_000_000_000);
    let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
    let workload = |mpi: crate::cluster::Mpi| async move {
        for _ in 0..TURNS {
            let mut requests = Vec::new();
            for _ in 0..WINDOW {
                requests.push(match mpi.rank() {
                    0 => mpi.isend(1, 1, BYTES)?,
                    _ => mpi.irecv(0, 1, BYTES)?,
                });
            }
            mpi.wait_all(requests).await?;
        }
        Ok(())
    };
    let window_ns = cluster.run(workload).unwrap().elapsed_ps as f64 / TURNS as f64 / 1e3;
    let by_kernel_ns = (WINDOW * BYTES) as f64;
    assert!(window_ns < by_kernel_ns / 3.0, "{window_ns} ns, {by_kernel_ns} by the kernel");
}

#[test]
fn gets_at_once_take_times_of_their_own() {
    let times_ns = |at_once| {
        let alone = GetTimes { call_ps: 100_000, library_ps: 0 };
        let kernel_copy = KernelCopy { alone, at_once, bytes_per_s: 50_000_000_000, hot_bytes_per_s: None };
        let config = shared_memory(Some(kernel_copy), 1_000_000_000_000);
        // Long enough that both ways are announced.
        [exchange_ns(&config, 256 << 10), half_round_trip_ns(&config, 256 << 10)]
    };
    let alone = times_ns(GetTimes { call_ps: 100_000, library_ps: 0 });
    let at_once = times_ns(GetTimes { call_ps: 400_000, library_ps: 500_000 });
    let more_ns = at_once[0] - alone[0];
    assert!((600.0..=800.0).contains(&more_ns), "{more_ns} ns");
    assert_eq!(at_once[1], alone[1], "one after the other");
}

#[test]
fn a_receiver_that_answers_at_once_is_not_late() {
    // An all-to-all of two ranks with a copy of the own block between messages, after trials of both ways.
    let time_ns = |kernel_bytes_per_s: Option<u64>| {
        let alone = GetTimes { call_ps: 600_000, library_ps: 460_000 };
        let kernel_copy = kernel_bytes_per_s.map(|bytes_per_s| KernelCopy {
            alone,
            at_once: alone,
            bytes_per_s,
            hot_bytes_per_s: None,
        });
        let plain = eager_to_32_kib(shared_memory(kernel_copy, 10_800_000_000));
        let software = Software {
            hot_copy_bytes_per_s: Some(245_000_000_000),
            lines_back_bytes_per_s: Some(23_000_000_000),
            schedule_ps: 250_000,
            ..plain.software
        };
        let config = Config {
            software,
            send_ps: 46_000,
            receive_ps: 46_000,
            copy_bytes_per_s: 49_000_000_000,
            memory_latency_ps: 61_000,
            ..plain
        };
        let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
        let run = |mpi: crate::cluster::Mpi| async move {
            for _ in 0..256 {
                mpi.collective(Collective::Alltoall, 32 << 10, None).await?;
            }
            Ok(())
        };
        cluster.run(run).unwrap();
        cluster.run(run).unwrap().elapsed_ps as f64 / 256.0 / 1e3
    };
    let [learnt_ns, packets_ns] = [Some(32_000_000_000), None].map(time_ns);
    assert!(learnt_ns < 0.7 * packets_ns, "{learnt_ns} ns, {packets_ns} by packets");
}

#[test]
fn packets_in_pieces_are_fetched_when_their_reader_looks() {
    let times_ns = |memory_bytes_per_s| {
        let config = shared_memory(None, memory_bytes_per_s);
        let config = Config { memory_latency_ps: 60_000, ..config };
        [exchange_ns(&config, 32 << 10), half_round_trip_ns(&config, 32 << 10)]
    };
    let [[slow_ns, slow_one_way_ns], [quick_ns, quick_one_way_ns]] =
        [times_ns(10_000_000_000), times_ns(1_000_000_000_000)];
    // At 10 GB/s as much more as for the copy. Both write before either reads.
    let move_ns = f64::from(32 << 10) / 10.0;
    let more_ns = slow_ns - quick_ns;
    assert!((more_ns / move_ns - 1.0).abs() < 0.05, "{more_ns} ns, {move_ns} expected");
    let more_ns = slow_one_way_ns - quick_one_way_ns;
    assert!((more_ns / move_ns - 1.0).abs() < 0.05, "{more_ns} ns one way, {move_ns} expected");
}

/// Packets up to 32 KiB take a nanosecond more for each 10 bytes, and go in such pieces.
fn in_pieces(pieces: &[(u64, u64)]) -> Config {
    let longer = |bytes| LongerTime { bytes, more_ps: (bytes - 32) * 100 };
    let pieces = pieces.iter().map(|&(bytes, piece_bytes)| PiecesFrom { bytes, piece_bytes });
    let rates = Rates {
        longer_packets: [1 << 10, 32 << 10].map(longer).to_vec(),
        pieces: pieces.collect(),
        ..Rates::default()
    };
    let plain = shared_memory(None, 1_000_000_000_000);
    Config { rates, copy_bytes_per_s: 100_000_000_000, memory_latency_ps: 60_000, ..plain }
}

#[test]
fn packets_go_in_the_pieces_of_the_description() {
    let config = in_pieces(&[(4 << 10, 2 << 10), (8 << 10, 4 << 10)]);
    let fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config.clone(), 2);
    let short_ns = half_round_trip_ns(&config, 8);
    for (bytes, piece_bytes) in [(4 << 10, 2 << 10), (8 << 10, 4 << 10), (32 << 10, 4 << 10)] {
        let more_ns = bytes as f64 / 10.0;
        let found = half_round_trip_ns(&config, bytes) - short_ns;
        assert!((found / more_ns - 1.0).abs() < 0.02, "{bytes} B: {found} ns more");
        // The first piece goes before, then both copy at the same time.
        let pieces = fabric.pieces(MEMORY_RAIL, bytes as usize, false).unwrap();
        assert_eq!(pieces.piece_bytes, piece_bytes as usize);
        let both_ps = (bytes - 32) * 100 * bytes / (bytes + piece_bytes);
        assert_eq!(fabric.piece_ps(0, pieces, bytes as usize), both_ps);
    }
    assert!(fabric.pieces(MEMORY_RAIL, (4 << 10) - 1, false).is_none());
}

#[test]
fn packets_of_one_piece_go_whole() {
    let config = in_pieces(&[(4 << 10, 16 << 10)]);
    let fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2);
    let is_whole = |bytes| fabric.pieces(MEMORY_RAIL, bytes, false).is_none();
    assert!([4 << 10, 12 << 10, 16 << 10].into_iter().all(is_whole) && !is_whole((16 << 10) + 1));
}

/// As `in_pieces`, and in blocks they take half as long, in other pieces; longer ones go at 40 GB/s.
fn with_blocks() -> Config {
    let plain = in_pieces(&[(4 << 10, 2 << 10)]);
    let times = plain.rates.longer_packets.iter();
    let rates = Rates {
        block_packets: times.map(|time| LongerTime { more_ps: time.more_ps / 2, ..*time }).collect(),
        block_pieces: vec![PiecesFrom { bytes: 16 << 10, piece_bytes: 4 << 10 }],
        block_relay: vec![RateWithin { working_set_bytes: 1 << 20, bytes_per_s: 40_000_000_000 }],
        ..plain.rates
    };
    let software =
        Software { block_relay_ends_ps: Some(800_000), cores_are_near: Some(true), ..plain.software };
    Config { rates, software, ..plain }
}

#[test]
fn who_has_received_a_packet_sends_one_in_its_block() {
    let config = with_blocks();
    let short_ns = half_round_trip_ns(&config, 8);
    for (bytes, times_ns) in [(400, 10.0), (4 << 10, 20.0), (32 << 10, 20.0)] {
        let found = half_round_trip_ns(&config, bytes) - short_ns;
        assert!((found / (bytes as f64 / times_ns) - 1.0).abs() < 0.1, "{bytes} B: {found} ns more");
    }
    let mut fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2);
    for rail in [MEMORY_RAIL + 1, MEMORY_RAIL] {
        let taken = (0..10).filter(|_| fabric.take_block(0, 1, rail, 513)).count();
        assert_eq!(taken, if rail == MEMORY_RAIL { 8 } else { 0 });
    }
    assert!(!fabric.take_block(1, 0, MEMORY_RAIL, 512) && fabric.take_block(1, 0, MEMORY_RAIL, 513));
    fabric.give_block(0, 1);
    assert!(fabric.take_block(0, 1, MEMORY_RAIL, 513) && !fabric.take_block(0, 1, MEMORY_RAIL, 513));
    assert_eq!(Nic { fabric: &mut fabric, me: 0 }.is_near(ProcessId(1)), Some(true));
}

#[test]
fn packets_longer_than_known_in_blocks_take_none() {
    let with = with_blocks();
    for (relay, takes) in [(with.rates.block_relay.clone(), true), (Vec::new(), false)] {
        let config = Config { rates: Rates { block_relay: relay, ..with.rates.clone() }, ..with.clone() };
        let longest = with.rates.block_packets.last().unwrap().bytes as usize;
        let mut fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2);
        assert!(fabric.take_block(0, 1, MEMORY_RAIL, longest));
        assert_eq!(fabric.take_block(0, 1, MEMORY_RAIL, longest + 1), takes);
    }
}

#[test]
fn packets_in_blocks_go_in_pieces_and_at_a_rate_of_their_own() {
    let fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), with_blocks(), 2);
    let piece = |bytes| fabric.pieces(MEMORY_RAIL, bytes, true).map(|pieces| pieces.piece_bytes);
    assert_eq!([8 << 10, 16 << 10].map(piece), [None, Some(4 << 10)]);
    let pieces = fabric.pieces(MEMORY_RAIL, 64 << 10, true).unwrap();
    assert_eq!(fabric.piece_ps(0, pieces, 40_000), 1_000_000);
    let time_ns = |ends_ps| {
        let plain = with_blocks();
        let software = Software { block_relay_ends_ps: Some(ends_ps), ..plain.software };
        half_round_trip_ns(&Config { software, ..plain }, 64 << 10)
    };
    let more_ns = time_ns(3_000_000) - time_ns(1_000_000);
    assert!((more_ns / 2_000.0 - 1.0).abs() < 0.02, "{more_ns} ns");
}

#[test]
fn longer_packets_in_pieces_than_measured_go_as_before() {
    let [given, default] = [&[(10 << 10, 4 << 10)][..], &[]].map(|pieces| {
        let plain = in_pieces(pieces);
        let mut rates = plain.rates.clone();
        rates.longer_packets.retain(|longer| longer.bytes < 32 << 10);
        Config { rates, ..plain }
    });
    for bytes in [8 << 10, 16 << 10, 32 << 10] {
        assert_eq!(half_round_trip_ns(&given, bytes), half_round_trip_ns(&default, bytes), "{bytes} B");
    }
}

#[test]
fn packets_between_cores_take_the_time_of_their_length() {
    let time_ns = |bytes: u64| {
        let longer_packets = vec![
            LongerTime { bytes: 64, more_ps: 100_000 },
            LongerTime { bytes: 4 << 10, more_ps: 1_000_000 },
        ];
        let rates = Rates { longer_packets, ..Rates::default() };
        let plain = shared_memory(None, 1_000_000_000_000);
        half_round_trip_ns(&Config { rates, memory_latency_ps: 60_000, ..plain }, bytes)
    };
    let short_ns = time_ns(8);
    // Both copies are in it, those of 8 B in the short one's.
    for (bytes, more_ns) in [(64, 100.0), (4 << 10, 1_000.0), (8 << 10, 1_000.0 * 8_160.0 / 4_064.0)] {
        let found = time_ns(bytes) - short_ns;
        assert!((found / (more_ns - 1.6) - 1.0).abs() < 0.01, "{bytes} B: {found} ns more");
    }
}

#[test]
fn packets_in_a_row_take_the_time_of_such() {
    let time_ns = |bytes: u64| {
        let longer = |more_ps| vec![LongerTime { bytes: 4 << 10, more_ps }];
        let rates = Rates {
            longer_packets: longer(2_000_000),
            longer_packets_in_row: longer(1_000_000),
            ..Rates::default()
        };
        let plain = shared_memory(None, 1_000_000_000_000);
        let config = Config { rates, memory_latency_ps: 60_000, receive_ps: 100_000, ..plain };
        in_row_ns(&config, bytes, 8)
    };
    // The line of its slot is there; the others are asked for when that has been seen.
    let found = time_ns(4 << 10);
    assert!((found / (100.0 + 60.0 + 1_000.0) - 1.0).abs() < 0.02, "{found} ns a packet");
}

/// What a message takes of many that one rank sends another, where receiving takes longer, ns.
fn in_row_ns(config: &Config, bytes: u64, count: u64) -> f64 {
    let time_ns = |count: u64| {
        let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config.clone()).unwrap();
        let report = cluster.run(|mpi| async move {
            let is_sender = mpi.rank() == 0;
            let one = |_| if is_sender { mpi.isend(1, 1, bytes) } else { mpi.irecv(0, 1, bytes) };
            mpi.wait_all((0..count).map(one).collect::<Result<Vec<_>, _>>()?).await?;
            Ok(())
        });
        report.unwrap().elapsed_ps as f64 / 1e3
    };
    (time_ns(2 * count) - time_ns(count)) / count as f64
}

#[test]
fn packets_in_pieces_have_lines_taken_back_up_to_32_kib() {
    let times_ns = |bytes, lines_back_bytes_per_s| {
        let relay = vec![RateWithin { working_set_bytes: 1, bytes_per_s: 10_000_000_000 }];
        let plain = eager_to_32_kib(in_pieces(&[(4 << 10, 4 << 10)]));
        let software = Software { lines_back_bytes_per_s, ..plain.software };
        let config = Config { rates: Rates { relay, ..plain.rates.clone() }, software, ..plain };
        exchange_ns(&config, bytes)
    };
    let more_ns = |bytes| times_ns(bytes, Some(5_000_000_000)) - times_ns(bytes, None);
    let back_ns = f64::from(31 << 10) / 5.0;
    assert!((more_ns(32 << 10) / back_ns - 1.0).abs() < 0.1, "{} ns, {back_ns} expected", more_ns(32 << 10));
    assert_eq!(more_ns(64 << 10), 0.0);
}

/// As of hosts with blocks for long packets, which no packet takes here.
fn eager_to_32_kib(config: Config) -> Config {
    let block_relay = vec![RateWithin { working_set_bytes: 1, bytes_per_s: 1 }];
    Config { rates: Rates { block_relay, ..config.rates.clone() }, ..config }
}

#[test]
fn lines_are_taken_back_while_a_reader_reads_or_before_both_do() {
    let times_ns = |bytes, lines_back_bytes_per_s| {
        let plain = eager_to_32_kib(shared_memory(None, 10_000_000_000));
        let software = Software { lines_back_bytes_per_s, ..plain.software };
        let config = Config { software, memory_latency_ps: 60_000, ..plain };
        [exchange_ns(&config, bytes), half_round_trip_ns(&config, bytes)]
    };
    for bytes in [4 << 10, 32 << 10] {
        let [[exchange, one_way], [at_no_cost, one_way_at_no_cost]] =
            [times_ns(bytes, Some(20_000_000_000)), times_ns(bytes, None)];
        // All but the last 1 KiB, which are under way, in place of waiting for the peer's first line.
        let back_ns = (bytes - 1_024) as f64 / 20.0 - 60.0;
        let more_ns = exchange - at_no_cost;
        assert!((more_ns / back_ns - 1.0).abs() < 0.05, "{bytes} B: {more_ns} ns, {back_ns} expected");
        assert_eq!(one_way, one_way_at_no_cost, "{bytes} B: the reader takes longer");
    }
}

#[test]
fn pairs_of_cores_copy_at_the_same_time() {
    let time_ps = |ranks, memory_latency_ps| {
        let plain = shared_memory(None, 10_000_000_000);
        let ranks = Config { processes_per_host: ranks, process_count: Some(ranks), ..plain };
        let config = Config { memory_latency_ps, ..ranks };
        let mut cluster = Cluster::new(nsim_torus(&[2], None).unwrap(), config).unwrap();
        let run = |mpi: crate::cluster::Mpi| async move {
            let peer = mpi.rank() ^ 1;
            if mpi.rank() < peer {
                mpi.send(peer, 0, 1 << 20).await
            } else {
                mpi.recv(peer, 0, 1 << 20).await.map(drop)
            }
        };
        cluster.run(run).unwrap().elapsed_ps
    };
    assert_eq!(time_ps(8, 60_000), time_ps(2, 60_000));
    // Where no way from core to core is known, all take turns at the host's memory.
    assert!(time_ps(8, 0) > 3 * time_ps(2, 0));
}

#[test]
fn the_library_takes_a_nic_for_what_its_system_says() {
    let rate = |sockets: Option<Sockets>| {
        let config = Config { sockets: sockets.map(Rc::new), ..shared_memory(None, 1_000_000_000) };
        Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2).rails[1].bandwidth_bytes_per_s
    };
    let says = |said_bytes_per_s| Some(Sockets { said_bytes_per_s, ..Sockets::default() });
    assert_eq!(rate(says(Some(1_250_000_000))), 1_250_000_000);
    assert_eq!(rate(says(None)), rate(None));
}

/// Its beginning comes with the first read, the rest goes to its place.
#[test]
fn of_a_message_that_comes_in_parts_the_beginning_is_copied() {
    let one_way_ns = |bytes, copy_bytes_per_s| {
        let sockets = Some(Rc::new(Sockets::default()));
        half_round_trip_ns(&Config { sockets, copy_bytes_per_s, ..profile(NicDevice::Tcp) }, bytes)
    };
    for (bytes, copied_bytes) in [(60_000, 60_000), (65_536, 16_384), (256 << 10, 16_384)] {
        let copy_ns = one_way_ns(bytes, 1_000_000_000) - one_way_ns(bytes, u64::MAX);
        assert!((copy_ns - copied_bytes as f64).abs() < 1.0, "{bytes}: {copy_ns}");
    }
}

/// The sum of a long packet, which follows it.
#[test]
fn a_tail_leaves_with_the_next_packet_or_when_none_follows() {
    let sockets = Sockets { send_ps: 1_000, stream_ps: 1_000, ..Sockets::default() };
    let config = Config { sockets: Some(Rc::new(sockets)), ..profile(NicDevice::Tcp) };
    let mut fabric = Fabric::new(nsim_torus(&[2], None).unwrap(), config, 2);
    let mut packets_at_peer = |act: &mut dyn FnMut(&mut Nic<'_>)| {
        act(&mut Nic { fabric: &mut fabric, me: 0 });
        while fabric.next_runnable().unwrap().is_some() {}
        let kernel_ps = fabric.states[0].kernel_ps;
        let mut peer = Nic { fabric: &mut fabric, me: 1 };
        let events = std::iter::from_fn(|| peer.poll()).collect::<Vec<_>>();
        let packets = events.into_iter().filter(|event| matches!(event, Event::Packet(_)));
        (packets.count(), kernel_ps)
    };
    let (rail, peer) = (Rail(MEMORY_RAIL + 1), ProcessId(1));
    let long = [Piece::Virtual(200 << 10), Piece::EMPTY];
    let mut send = |nic: &mut Nic<'_>| nic.send(rail, peer, &[7; 24], long).map_or((), |()| ());
    packets_at_peer(&mut send);
    assert_eq!(packets_at_peer(&mut send), (0, 1_000), "its tail is kept");
    assert_eq!(packets_at_peer(&mut send), (1, 2_000), "the first one's tail went along");
    assert_eq!(packets_at_peer(&mut |nic| nic.flush()), (1, 3_000), "a send of its own");
    assert_eq!(packets_at_peer(&mut |nic| nic.flush()), (0, 3_000), "nothing is left");
    packets_at_peer(&mut send);
    assert_eq!(
        packets_at_peer(&mut |nic| {
            nic.arm();
        }),
        (1, 5_000),
        "it sleeps"
    );
}

#[test]
fn short_messages_in_a_row_take_a_line_or_the_software() {
    let per_message_ns = |line_ps: u64| {
        let config = Config {
            send_ps: 20_000,
            receive_ps: 20_000,
            memory_latency_ps: line_ps,
            ..shared_memory(None, 1_000_000_000_000)
        };
        in_row_ns(&config, 8, 64)
    };
    let [quick, slow] = [10_000, 100_000].map(per_message_ns);
    assert!((20.0..24.0).contains(&quick), "{quick} ns a message");
    assert!((98.0..104.0).contains(&slow), "{slow} ns a message");
}
