//! The shared-memory device between real processes. The test binary runs itself again as the other ranks:
//! the test `role` is what they do.

use ayatori_core::buffer::{Buffer, NO_PAYLOAD, Piece};
use ayatori_core::device::{Armed, Device, Event, RemoteKey, RemoteRegion, Submitted, Token};
use ayatori_core::ids::{ProcessId, Rail};
use ayatori_devices::shm::{Shm, ShmConfig, Source, WaitStep};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RAIL: Rail = Rail(0);

fn attach(source: &Source, rank: u32, size: u32, cpus_count: u32) -> Shm {
    let config = ShmConfig::new(rank, (0..size).map(ProcessId).collect());
    Shm::attach(source, &ShmConfig { cpus_count, ..config }).unwrap()
}

/// Rank 0 here, the others as processes that play `role`, on so many CPUs as far as they know. The caller
/// keeps the source until they have attached.
fn start(role: &str, size: u32, cpus_count: u32) -> (Source, Shm, Vec<Child>) {
    let source = Source::create().unwrap();
    let address = source.address().unwrap();
    let children = (1..size)
        .map(|rank| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "role", "--nocapture"])
                .env("AYATORI_TEST_ROLE", format!("{role} {rank} {size} {cpus_count} {address}"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let device = attach(&source, 0, size, cpus_count);
    (source, device, children)
}

#[test]
fn role() {
    let Ok(words) = std::env::var("AYATORI_TEST_ROLE") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let [rank, size, cpus_count] = [1, 2, 3].map(|at| words[at].parse().unwrap());
    let device = attach(&Source::Address(words[4].into()), rank, size, cpus_count);
    match words[0] {
        "echo" => echo(device),
        "serve" => serve(device),
        "sleep" => {
            let mut device = device;
            device.send(RAIL, ProcessId(0), &[], NO_PAYLOAD).unwrap();
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        other => panic!("{other}"),
    }
}

/// The next event, waiting as a runtime would. Fronts of long packets are let pass: the packets come whole.
fn next(device: &mut Shm) -> Event {
    let started = Instant::now();
    let mut wait = device.policy().start();
    loop {
        match device.poll() {
            Some(Event::Front(..)) => continue,
            Some(event) => return event,
            None => {}
        }
        match wait.step() {
            WaitStep::Spin => {}
            WaitStep::Yield => device.yield_now(),
            WaitStep::Sleep => {
                if device.arm() == Armed::Armed {
                    device.wait(None);
                }
            }
        }
        assert!(started.elapsed() < Duration::from_secs(300), "nothing comes");
    }
}

fn receive(device: &mut Shm) -> (ProcessId, Vec<u8>) {
    match next(device) {
        Event::Packet(incoming) => {
            let packet = device.packet(&incoming);
            let bytes = [packet.header, packet.payload.bytes().unwrap()].concat();
            let from = incoming.from;
            device.release(incoming);
            (from, bytes)
        }
        other => panic!("{other:?}"),
    }
}

fn send(device: &mut Shm, to: ProcessId, header: &[u8], bytes: &[u8]) {
    while device.send(RAIL, to, header, [Piece::Bytes(bytes), Piece::EMPTY]).is_err() {
        device.yield_now();
    }
}

/// Sends everything back until an empty packet comes.
fn echo(mut device: Shm) {
    loop {
        let (from, bytes) = receive(&mut device);
        if bytes.is_empty() {
            device.detach();
            return;
        }
        send(&mut device, from, &[], &bytes);
    }
}

/// Registers memory, sends its key, and sends the memory's content when asked.
fn serve(mut device: Shm) {
    let mut memory: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    // SAFETY: `memory` outlives all use: the peer has ended its puts when it asks for the content.
    let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), memory.len()) };
    let key = device.register(RAIL, buffer).unwrap();
    let words = [key.words[0].to_ne_bytes(), key.words[1].to_ne_bytes()].concat();
    send(&mut device, ProcessId(0), &words, &[]);
    receive(&mut device);
    let sum: u64 = memory.iter().map(|&b| u64::from(b)).sum();
    send(&mut device, ProcessId(0), &sum.to_ne_bytes(), &[]);
    receive(&mut device);
}

/// With fewer CPUs than ranks, and with one for each: then packets of 16,000 B come piece by piece.
#[test]
fn what_is_sent_comes_back_from_another_process() {
    for (size, cpus_count) in [(3, 1), (2, 2)] {
        what_is_sent_comes_back(size, cpus_count);
    }
}

fn what_is_sent_comes_back(size: u32, cpus_count: u32) {
    let (_source, mut device, mut children) = start("echo", size, cpus_count);
    let mut lengths: Vec<usize> = (0..200).collect();
    lengths.extend([1000, 4096, 10_000]);
    lengths.extend([16_000; 20]);
    for length in lengths {
        for to in (1..size).map(ProcessId) {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
            send(&mut device, to, &[42], &bytes);
            let (from, answer) = receive(&mut device);
            assert_eq!(from, to);
            assert_eq!(answer, [&[42], &bytes[..]].concat(), "length {length}");
        }
    }
    for child in 1..size {
        device.send(RAIL, ProcessId(child), &[], NO_PAYLOAD).unwrap();
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn memory_of_another_process_is_read_and_written_in_one_copy() {
    let (_source, mut device, mut children) = start("serve", 2, 1);
    let (_, key) = receive(&mut device);
    let word = |at: usize| u64::from_ne_bytes(key[at..at + 8].try_into().unwrap());
    let key = RemoteKey { words: [word(0), word(8)] };
    let mut mine = vec![0u8; 300_000];
    // SAFETY: `mine` is looked at only after operations that are done.
    let buffer = unsafe { Buffer::from_raw_parts(mine.as_mut_ptr(), mine.len()) };
    let at = |offset| RemoteRegion { key, offset };
    if device.get(RAIL, ProcessId(1), buffer, at(0), Token(1)).unwrap() == Submitted::Refused {
        eprintln!("the kernel refuses process_vm_readv here: nothing to test");
    } else {
        assert!(mine.iter().enumerate().all(|(i, &b)| b == i as u8));
        mine.fill(1);
        let half = buffer.part(0, 150_000);
        assert_eq!(device.put(RAIL, ProcessId(1), half, at(150_000), Token(2)), Ok(Submitted::Done));
        send(&mut device, ProcessId(1), b"sum", &[]);
        let (_, sum) = receive(&mut device);
        let want: u64 = (0..150_000u32).map(|i| u64::from(i as u8)).sum::<u64>() + 150_000;
        assert_eq!(sum, want.to_ne_bytes());
    }
    children[0].kill().unwrap();
    children[0].wait().unwrap();
}

#[test]
fn a_killed_peer_is_reported_to_sleepers() {
    let (_source, mut device, mut children) = start("sleep", 4, 1);
    for _ in 1..4 {
        receive(&mut device); // each says that it is up
    }
    children[1].kill().unwrap();
    assert_eq!(next(&mut device), Event::PeerGone(ProcessId(2)));
    for mut child in children {
        let _ = child.kill();
        child.wait().unwrap();
    }
}

#[test]
fn a_peer_that_said_goodbye_is_not_reported() {
    let (_source, mut device, mut children) = start("echo", 3, 1);
    device.send(RAIL, ProcessId(1), &[], NO_PAYLOAD).unwrap();
    children[0].wait().unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(400) {
        assert_eq!(device.poll(), None);
        if device.arm() == Armed::Armed {
            device.wait(None);
        }
    }
    children[1].kill().unwrap();
    children[1].wait().unwrap();
}
