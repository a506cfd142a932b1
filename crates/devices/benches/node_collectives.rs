//! Collectives inside a node at several rank counts, one process a rank.
//! `cargo bench -p ayatori-devices --bench node_collectives -- [RANKS…]`; µs a call, seen by rank 0.

use ayatori_core::buffer::Buffer;
use ayatori_core::device::{Armed, Device};
use ayatori_core::ids::{ContextId, ProcessId};
use ayatori_devices::shm::{Call, NodeCollectives, Occupancy, Shm, ShmConfig, Source, WaitPolicy, WaitStep};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

fn main() {
    if let Ok(role) = std::env::var("AYATORI_BENCH_ROLE") {
        let words: Vec<&str> = role.split(' ').collect();
        return rank(words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].into());
    }
    let mut counts: Vec<u32> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![2, 4, 8, 16, 32];
    }
    println!(
        "{:>5} {:>9} {:>11} {:>12} {:>9} {:>11} {:>11} {:>12}",
        "ranks",
        "barrier",
        "allreduce 8",
        "allreduce 64K",
        "bcast 8",
        "bcast8+bar",
        "bcast64K+bar",
        "alltoall 1K"
    );
    for count in counts {
        let source = Source::create().unwrap();
        let address = source.address().unwrap();
        let children: Vec<_> = (0..count)
            .map(|rank| {
                Command::new(std::env::current_exe().unwrap())
                    .env("AYATORI_BENCH_ROLE", format!("{rank} {count} {address}"))
                    .stdin(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        drop(source);
    }
}

/// The device's, or `AYATORI_BENCH_POLICY=SPINS,YIELDS`.
fn policy(device: &Shm) -> WaitPolicy {
    static OTHER: OnceLock<Option<WaitPolicy>> = OnceLock::new();
    let other = OTHER.get_or_init(|| {
        let text = std::env::var("AYATORI_BENCH_POLICY").ok()?;
        let (spins, yields) = text.split_once(',').expect("SPINS,YIELDS");
        Some(WaitPolicy {
            spins_count: spins.parse().unwrap(),
            spins_time: Duration::MAX,
            yields_count: yields.parse().unwrap(),
            yields_time_max: Duration::MAX,
            yields_time: Duration::ZERO,
        })
    });
    other.unwrap_or(device.policy())
}

fn finish(device: &mut Shm, collectives: &mut NodeCollectives, call: Call) {
    collectives.start(call);
    let mut wait = policy(device).start();
    let mut sum = |a: &mut [u8], b: &[u8]| {
        for (a, b) in a.chunks_exact_mut(8).zip(b.chunks_exact(8)) {
            let sum = f64::from_ne_bytes(a.try_into().unwrap()) + f64::from_ne_bytes(b.try_into().unwrap());
            a.copy_from_slice(&sum.to_ne_bytes());
        }
    };
    while !collectives.advance(&mut sum) {
        assert!(device.poll().is_none());
        match wait.step() {
            WaitStep::Spin => {}
            WaitStep::Yield => device.yield_now(),
            WaitStep::Sleep => {
                if device.arm() == Armed::Armed && !collectives.advance(&mut sum) {
                    device.wait(None);
                }
            }
        }
    }
}

fn rank(rank: u32, size: u32, address: String) {
    let processes: Vec<ProcessId> = (0..size).map(ProcessId).collect();
    let config = ShmConfig::new(rank, processes.clone());
    let mut device = Shm::attach(&Source::Address(address), &config).unwrap();
    let occupancy = Occupancy::new(size, config.cpus_count);
    let mut collectives = device.open_room(ContextId::WORLD, processes.into_iter(), occupancy).unwrap();
    let mut memory = [vec![0u8; 64 << 10], vec![0u8; 64 << 10]];
    let [a, b] = memory.each_mut().map(|m| {
        // SAFETY: `memory` outlives all calls and no other code accesses it.
        unsafe { Buffer::from_raw_parts(m.as_mut_ptr(), m.len()) }
    });
    let allreduce = |len| Call::Allreduce { send: a.part(0, len), receive: b.part(0, len), element_bytes: 8 };
    let alltoall =
        Call::Alltoall { send: a.part(0, 1024 * size as usize), receive: b.part(0, 1024 * size as usize) };
    let bcast = |len| Call::Bcast { root: 0, buffer: a.part(0, len) };
    let mut row = format!("{size:>5}");
    let cases: [(&[Call], usize); 7] = [
        (&[Call::Barrier], 10),
        (&[allreduce(8)], 11),
        (&[allreduce(64 << 10)], 12),
        (&[bcast(8)], 9),
        (&[bcast(8), Call::Barrier], 11),
        (&[bcast(64 << 10), Call::Barrier], 11),
        (&[alltoall], 12),
    ];
    for (calls, width) in cases {
        let mut times = Vec::new();
        for _ in 0..7 {
            finish(&mut device, &mut collectives, Call::Barrier);
            let (started, mut count) = (Instant::now(), 0);
            for _ in 0..200 {
                calls.iter().for_each(|call| finish(&mut device, &mut collectives, *call));
                count += 1;
            }
            times.push(started.elapsed().as_nanos() as f64 / 1000.0 / count as f64);
        }
        times.sort_by(f64::total_cmp);
        row += &format!(" {:>width$.2}", times[3]);
    }
    if rank == 0 {
        println!("{row}");
    }
    finish(&mut device, &mut collectives, Call::Barrier);
    device.detach();
}
