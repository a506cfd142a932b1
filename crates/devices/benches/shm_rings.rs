//! Two pinned ranks and the rings between them, beside what the machine can do at all.
//! `cargo bench -p ayatori-devices --bench shm_rings -- [pingpong|rate|short|sizes]`; times are medians.
//!
//! Both ranks are threads of this process, each with its own mapping of the segment: the caches see what they
//! see between processes. Other load spoils the figures: as root, `chrt -f 10` keeps it away.

use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::device::{Device, Event, RemoteRegion, Submitted, Token};
use ayatori_core::ids::{ProcessId, Rail};
use ayatori_devices::shm::{RingSize, Shm, ShmConfig, Source};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const RAIL: Rail = Rail(0);
const HEADER: [u8; 32] = [7; 32];

fn main() {
    let what = std::env::args().nth(1).filter(|arg| !arg.starts_with("--"));
    let wants = |name: &str| what.as_deref().is_none_or(|w| w == name);
    if wants("pingpong") {
        for _ in 0..3 {
            println!("raw two-line ping-pong     {:7.1} ns one way", median(9, raw_pingpong));
            println!("device, 8 B                {:7.1} ns one way", median(9, || pingpong(8, 30_000)));
        }
    }
    if wants("rate") {
        println!("device, 8 B one way        {:7.2} ns a message", median(9, rate));
    }
    if wants("short") {
        print!(
            "raw {:.1} 8B {:.1} rate {:.1}",
            median(7, raw_pingpong),
            median(7, || pingpong(8, 30_000)),
            median(5, rate)
        );
        for (bytes, fragment) in [(64, 64), (1024, 1024), (4096, 4096), (8192, 8192), (8192, 4096)] {
            print!(
                " {bytes}/{fragment}: {:.3}",
                median(5, || fragmented_pingpong(bytes, fragment, 3000)) / 1000.0
            );
        }
        println!();
    }
    if wants("sizes") {
        sizes();
    }
}

fn median(count: usize, mut f: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..count).map(|_| f()).collect();
    times.sort_by(f64::total_cmp);
    times[count / 2]
}

/// Binds the calling thread to a CPU.
fn pin(cpu: usize) {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    let tid = link.file_name().unwrap().to_str().unwrap().to_owned();
    let done = std::process::Command::new("taskset").args(["-pc", &cpu.to_string(), &tid]).output();
    assert!(done.unwrap().status.success());
}

/// Runs both sides on their own CPU and answers what side 0 measured.
fn both<T: Send>(sides: [T; 2], f: impl Fn(usize, T) -> f64 + Sync) -> f64 {
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let handles: Vec<_> = sides
            .into_iter()
            .enumerate()
            .map(|(rank, side)| {
                let (f, barrier) = (&f, &barrier);
                scope.spawn(move || {
                    pin(rank);
                    barrier.wait();
                    f(rank, side)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).next().unwrap()
    })
}

fn raw_pingpong() -> f64 {
    #[repr(align(128))]
    struct Word(AtomicU64);
    let lines = [Word(AtomicU64::new(0)), Word(AtomicU64::new(0))];
    const ROUNDS: u64 = 100_000;
    both([(), ()], |rank, ()| {
        let started = Instant::now();
        let wait = |round| while lines[1 - rank].0.load(Ordering::Acquire) != round {};
        for round in 1..=ROUNDS {
            if rank == 1 {
                wait(round);
            }
            lines[rank].0.store(round, Ordering::Release);
            if rank == 0 {
                wait(round);
            }
        }
        started.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
    })
}

/// The usual, or `AYATORI_BENCH_RING=SLOTS,LINES`.
fn ring_size() -> Option<RingSize> {
    let text = std::env::var("AYATORI_BENCH_RING").ok()?;
    let (slots, lines) = text.split_once(',').expect("SLOTS,LINES");
    Some(RingSize { slots_count: slots.parse().unwrap(), lines_counts: [lines.parse().unwrap(), 0] })
}

fn devices() -> [Shm; 2] {
    let source = Source::create().unwrap();
    [0, 1].map(|rank| {
        let mut config = ShmConfig::new(rank, vec![ProcessId(0), ProcessId(1)]);
        config.cpus_count = 2;
        config.ring = ring_size();
        Shm::attach(&source, &config).unwrap()
    })
}

#[inline]
fn send(device: &mut Shm, to: ProcessId, bytes: &[u8]) {
    while device.send(RAIL, to, &HEADER, [Piece::Bytes(bytes), Piece::EMPTY]).is_err() {
        std::hint::spin_loop();
    }
}

#[inline]
fn receive(device: &mut Shm, into: &mut [u8]) {
    loop {
        if let Some(Event::Packet(incoming)) = device.poll() {
            let packet = device.packet(&incoming);
            let bytes = packet.payload.bytes().unwrap();
            black_box(packet.header);
            into[..bytes.len()].copy_from_slice(bytes);
            device.release(incoming);
            return;
        }
    }
}

fn pingpong(bytes: usize, rounds: usize) -> f64 {
    fragmented_pingpong(bytes, bytes.max(1), rounds)
}

/// A message goes as packets of at most `fragment` bytes, as the core streams it.
fn fragmented_pingpong(bytes: usize, fragment: usize, rounds: usize) -> f64 {
    both(devices(), |rank, mut device| {
        let peer = ProcessId(1 - rank as u32);
        let (out, mut into) = (vec![1u8; bytes], vec![0u8; bytes]);
        let mut started = Instant::now();
        let warm_up = rounds / 10;
        for round in 0..rounds + warm_up {
            if round == warm_up {
                started = Instant::now();
            }
            if rank == 0 {
                out.chunks(fragment).for_each(|part| send(&mut device, peer, part));
            }
            into.chunks_mut(fragment).for_each(|part| receive(&mut device, part));
            if rank == 1 {
                out.chunks(fragment).for_each(|part| send(&mut device, peer, part));
            }
        }
        started.elapsed().as_nanos() as f64 / (2 * rounds) as f64
    })
}

fn rate() -> f64 {
    const COUNT: usize = 1_000_000;
    both(devices(), |rank, mut device| {
        let peer = ProcessId(1 - rank as u32);
        let started = Instant::now();
        for _ in 0..COUNT {
            if rank == 0 {
                send(&mut device, peer, &[1; 8]);
            } else {
                receive(&mut device, &mut [0; 8]);
            }
        }
        if rank == 0 {
            receive(&mut device, &mut [0; 8]);
        } else {
            send(&mut device, peer, &[1; 8]);
        }
        started.elapsed().as_nanos() as f64 / COUNT as f64
    })
}

/// One way with a header packet each way round a get: what a rendezvous costs.
fn get_pingpong(bytes: usize, rounds: usize) -> f64 {
    let mut memory = [vec![1u8; bytes], vec![2u8; bytes]];
    // SAFETY: the memory outlives the run and no other code accesses it.
    let buffers = memory.each_mut().map(|m| unsafe { Buffer::from_raw_parts(m.as_mut_ptr(), bytes) });
    let mut devices = devices();
    let keys = [0, 1].map(|rank: usize| devices[rank].register(RAIL, buffers[rank]).unwrap());
    both(devices, |rank, mut device| {
        let peer = ProcessId(1 - rank as u32);
        let remote = RemoteRegion { key: keys[1 - rank], offset: 0 };
        let mut target = vec![1u8; bytes];
        // SAFETY: as above.
        let target = unsafe { Buffer::from_raw_parts(target.as_mut_ptr(), bytes) };
        let started = Instant::now();
        for _ in 0..rounds {
            if rank == 0 {
                send(&mut device, peer, &[1; 24]);
            }
            receive(&mut device, &mut [0; 24]);
            assert_eq!(device.get(RAIL, peer, target, remote, Token(0)), Ok(Submitted::Done));
            if rank == 1 {
                send(&mut device, peer, &[1; 24]);
            }
        }
        started.elapsed().as_nanos() as f64 / (2 * rounds) as f64
    })
}

fn sizes() {
    let fragments = [1024, 2048, 4096, 8192, 16 << 10, 32 << 10];
    print!("{:>8}", "bytes");
    fragments.iter().for_each(|f| print!("{f:>9}"));
    println!("{:>9}   one way µs, by fragment size; rts and get", "get");
    for bytes in [256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20] {
        print!("{bytes:>8}");
        let rounds = (40_000_000 / (bytes + 4000)).min(3000);
        for fragment in fragments {
            if fragment > bytes.max(1024) {
                print!("{:>9}", "");
                continue;
            }
            print!("{:>9.3}", median(5, || fragmented_pingpong(bytes, fragment, rounds)) / 1000.0);
        }
        println!("{:>9.3}", median(5, || get_pingpong(bytes, rounds)) / 1000.0);
    }
}
