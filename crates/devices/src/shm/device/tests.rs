mod conformance;

use super::*;
use crate::threads::HANG_LIMIT;
use ayatori_core::buffer::NO_PAYLOAD;
use std::time::Instant;

/// Devices of `n` ranks, all in this process.
pub(crate) fn world(n: u32, change: impl Fn(&mut ShmConfig)) -> Vec<Shm> {
    let source = Source::create().unwrap();
    (0..n)
        .map(|rank| {
            let mut config = ShmConfig::new(rank, (0..n).map(|i| ProcessId(10 + 2 * i)).collect());
            change(&mut config);
            Shm::attach(&source, &config).unwrap()
        })
        .collect()
}

fn receive(device: &mut Shm) -> Option<(ProcessId, Vec<u8>)> {
    let event = device.poll()?;
    let Event::Packet(incoming) = event else { panic!("{event:?}") };
    let packet = device.packet(&incoming);
    let bytes = [packet.header, packet.payload.bytes().unwrap()].concat();
    let from = incoming.from;
    device.release(incoming);
    Some((from, bytes))
}

#[test]
fn every_rank_reaches_every_rank_and_itself() {
    for n in [1, 2, 5, 40] {
        let mut world = world(n, |_| {});
        for from in 0..n {
            for to in 0..n {
                let payload = [Piece::Bytes(b"to"), Piece::Bytes(&[to as u8])];
                world[from as usize].send(RAIL, ProcessId(10 + 2 * to), &[from as u8], payload).unwrap();
            }
        }
        for to in 0..n {
            let mut seen = vec![false; n as usize];
            for _ in 0..2 * n {
                if let Some((from, bytes)) = receive(&mut world[to as usize]) {
                    assert_eq!(bytes, [&[((from.0 - 10) / 2) as u8], &b"to"[..], &[to as u8]].concat());
                    assert!(!std::mem::replace(&mut seen[((from.0 - 10) / 2) as usize], true));
                }
            }
            assert!(seen.iter().all(|&s| s), "rank {to} of {n}: {seen:?}");
        }
    }
}

/// Long packets may come in blocks, which each pair of ranks hands to and fro, or in lines.
#[test]
fn long_packets_between_all_pairs_are_whole() {
    for n in [2, 3, 6, 9] {
        let mut world = world(n, |config| config.cpus_count = 1000);
        for round in 0..12_u32 {
            let bytes = 600 + 11_000 * (round as usize % 3);
            let said = |from: u32, to: u32| vec![(64 * round + 8 * from + to) as u8; bytes];
            for (from, to) in (0..n * n).map(|pair| (pair / n, pair % n)) {
                // Now two each way, now one.
                for _ in 0..1 + round % 2 {
                    let payload = [Piece::Bytes(&said(from, to)), Piece::Bytes(&[])];
                    world[from as usize].send(RAIL, ProcessId(10 + 2 * to), &[from as u8], payload).unwrap();
                }
            }
            for to in 0..n {
                for packet in 0..n * (1 + round % 2) {
                    let (from, found) = std::iter::from_fn(|| Some(receive(&mut world[to as usize])))
                        .take(100)
                        .flatten()
                        .next()
                        .expect("a packet that was sent");
                    let from = (from.0 - 10) / 2;
                    let expected = [vec![from as u8], said(from, to)].concat();
                    assert!(found == expected, "{n} ranks, round {round}, {packet} from {from} to {to}");
                }
            }
        }
    }
}

/// Pages of the segment that are there.
fn pages_count(device: &Shm) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::File::from(device.file.try_clone().unwrap()).metadata().unwrap().blocks() / 8
}

#[test]
fn unused_rings_take_no_memory() {
    const RANKS: u32 = 64;
    let mut world = world(RANKS, |_| {});
    let before_count = pages_count(&world[0]);
    for device in &mut world {
        for _ in 0..2 * RANKS {
            assert!(receive(device).is_none());
        }
        assert_eq!(device.arm(), Armed::Armed);
    }
    // Each looks into the ring of the rank that it expects first.
    assert!(pages_count(&world[0]) <= before_count + u64::from(RANKS));
    // A first packet is found even by a rank that looked for hours.
    for from in [3, 63, 40] {
        world[from].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
        assert_eq!(world[0].arm(), Armed::NotYet);
        let found = (0..2 * RANKS).find_map(|_| receive(&mut world[0]));
        assert_eq!(found, Some((ProcessId(10 + 2 * from as u32), b"x".to_vec())));
        assert_eq!(world[0].arm(), Armed::Armed);
    }
    // Counts and slots of three rings.
    assert!(pages_count(&world[0]) <= before_count + u64::from(RANKS) + 3 * 2);
}

#[test]
fn only_processes_of_this_host_are_reached() {
    let world = world(3, |_| {});
    for process in [0, 9, 11, 13, 15, 16, u32::MAX] {
        assert!(world[0].rails_to(ProcessId(process)).is_empty(), "{process}");
    }
    assert!(world[0].rails_to(ProcessId(14)).contains(RAIL));
}

#[test]
fn an_announcement_with_one_key_fits_a_slot() {
    use ayatori_core::wire::{Envelope, Header, Keys, Prefix};
    let mut keys = Keys::default();
    assert!(keys.push(RAIL, RemoteKey { words: [u64::MAX; 2] }));
    let envelope = Envelope { context: ayatori_core::ids::ContextId(u64::MAX), source: 7, tag: -1 };
    let sender = ayatori_core::ids::RequestId { index: u32::MAX, generation: u32::MAX };
    let rts = Header::Rts { envelope, sender, length: u64::MAX, keys, offers_packets: true };
    let prefix = Prefix { credits: u16::MAX, sequence: u32::MAX };
    assert_eq!(rts.emit(prefix).as_slice().len(), ring::SLOT_BYTES);
}

#[test]
fn put_and_get_move_memory_at_once() {
    let mut world = world(2, |_| {});
    let (local, remote) = (Buffer::leaked(1_001), Buffer::leaked(70_000));
    local.scatter(0, Piece::Bytes(&[1; 1_001]));
    remote.scatter(0, Piece::Bytes(&[2; 70_000]));
    let key = world[1].register(RAIL, remote).unwrap();
    let region = RemoteRegion { key, offset: 69_000 };
    let done = world[0].put(RAIL, ProcessId(12), local.part(0, 1_000), region, Token(0));
    assert_eq!(done, Ok(Submitted::Done));
    let theirs = remote.to_vec().unwrap();
    assert!(theirs[..69_000].iter().all(|&b| b == 2) && theirs[69_000..].iter().all(|&b| b == 1));
    let region = RemoteRegion { key, offset: 68_500 };
    let done = world[0].get(RAIL, ProcessId(12), local.part(0, 1_000), region, Token(0));
    assert_eq!(done, Ok(Submitted::Done));
    let mine = local.to_vec().unwrap();
    assert_eq!((mine[499], mine[500], mine[1000]), (2, 1, 1));
    world[1].deregister(RAIL, key);
}

#[test]
fn a_region_outside_of_what_was_registered_is_refused() {
    let mut world = world(2, |_| {});
    let buffer = Buffer::leaked(100);
    let key = world[1].register(RAIL, buffer).unwrap();
    let past_the_end = RemoteKey { words: [u64::MAX - 4, 100] };
    for (key, offset) in
        [(key, 51), (key, 100), (key, u64::MAX), (past_the_end, 0), (past_the_end, 50), (key, 1)]
    {
        let region = RemoteRegion { key, offset };
        let answer = world[0].get(RAIL, ProcessId(12), buffer.part(0, 50), region, Token(0));
        let is_inside = key != past_the_end && offset == 1;
        let want = if is_inside { Submitted::Done } else { Submitted::Refused };
        assert_eq!(answer, Ok(want), "{key:?}, offset {offset}");
    }
}

#[test]
fn without_the_kernels_copy_puts_and_gets_are_refused() {
    let mut world = world(2, |config| config.kernel_copy = false);
    assert!(!world[0].rails()[0].put && !world[0].rails()[0].get);
    let region = RemoteRegion { key: RemoteKey { words: [64, 64] }, offset: 0 };
    let answer = world[0].put(RAIL, ProcessId(12), Buffer::EMPTY, region, Token(0));
    assert_eq!(answer, Ok(Submitted::Refused));
}

#[test]
fn arming_fails_where_something_has_arrived() {
    let mut world = world(2, |_| {});
    assert_eq!(world[0].arm(), Armed::Armed);
    world[1].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
    assert_eq!(world[0].arm(), Armed::NotYet);
    assert!(receive(&mut world[0]).is_some());
    assert_eq!(world[0].arm(), Armed::Armed);
}

#[test]
fn a_packet_wakes_the_sleeper_with_and_without_fences() {
    for cpus_count in [1, 1000] {
        let mut world = world(2, |config| config.cpus_count = cpus_count);
        let mut sender = world.pop().unwrap();
        let mut sleeper = world.pop().unwrap();
        let thread = std::thread::spawn(move || {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(3));
                sender.send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
            }
        });
        for _ in 0..20 {
            let started = Instant::now();
            while receive(&mut sleeper).is_none() {
                if sleeper.arm() == Armed::Armed {
                    sleeper.wait(None);
                }
            }
            assert!(started.elapsed() < HANG_LIMIT, "not woken");
        }
        thread.join().unwrap();
    }
}

#[test]
fn room_wakes_a_sender_that_found_the_ring_full() {
    let small = RingSize { slots_count: 8, lines_counts: [16, 0] };
    let mut world = world(2, |config| config.ring = Some(small));
    let mut receiver = world.pop().unwrap();
    let mut sender = world.pop().unwrap();
    while sender.send(RAIL, ProcessId(12), b"x", NO_PAYLOAD).is_ok() {}
    assert_eq!(sender.arm(), Armed::Armed);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        while receive(&mut receiver).is_some() {}
    });
    let started = Instant::now();
    sender.wait(None);
    assert!(sender.peers[1].sender.has_news(), "timed out");
    assert!(started.elapsed() < HANG_LIMIT, "not woken");
    thread.join().unwrap();
    sender.send(RAIL, ProcessId(12), b"x", NO_PAYLOAD).unwrap();
}

#[test]
fn sleepers_and_senders_do_not_miss_each_other() {
    // Each answers only when asked, both sleep at once when there is nothing: a missed wake-up would hang.
    let mut world = world(2, |config| config.cpus_count = 1000);
    let b = world.pop().unwrap();
    let a = world.pop().unwrap();
    const ROUNDS: u32 = 3000;
    let side = |mut device: Shm, peer: ProcessId, begins: bool| {
        for round in 0..ROUNDS {
            if begins || round > 0 {
                device.send(RAIL, peer, &round.to_ne_bytes(), NO_PAYLOAD).unwrap();
            }
            while receive(&mut device).is_none() {
                if device.arm() == Armed::Armed {
                    device.wait(None);
                }
            }
        }
        device.send(RAIL, peer, b"end", NO_PAYLOAD).unwrap();
    };
    let started = Instant::now();
    let thread = std::thread::spawn(move || side(b, ProcessId(10), false));
    side(a, ProcessId(12), true);
    thread.join().unwrap();
    assert!(started.elapsed() < HANG_LIMIT, "a wake-up was missed");
}

#[test]
fn what_a_rank_sent_before_it_ended_is_still_read() {
    for says_goodbye in [true, false] {
        let mut world = world(2, |_| {});
        world[1].send(RAIL, ProcessId(10), b"last", NO_PAYLOAD).unwrap();
        if says_goodbye {
            world[1].detach();
        }
        let Shm { peers, events, .. } = &mut world[0];
        report_gone(&mut peers[1], events);
        report_gone(&mut peers[1], events);
        assert!(events.drain(..).eq((!says_goodbye).then_some(Event::PeerGone(ProcessId(12)))));
        assert_eq!(world[0].arm(), Armed::NotYet, "it must not sleep over it");
        assert_eq!(receive(&mut world[0]), Some((ProcessId(12), b"last".to_vec())));
        assert_eq!(world[0].arm(), Armed::Armed);
    }
}

#[test]
fn room_is_told_once_to_a_rank_that_sends_no_more() {
    let small = RingSize { slots_count: 8, lines_counts: [16, 0] };
    let mut world = world(2, |config| config.ring = Some(small));
    for _ in 0..2 {
        while world[0].send(RAIL, ProcessId(12), b"x", NO_PAYLOAD).is_ok() {}
        assert_eq!(world[0].arm(), Armed::Armed);
        (0..4).for_each(|_| drop(receive(&mut world[1]).expect("a packet")));
        assert_eq!(world[0].arm(), Armed::NotYet, "there is room");
        assert_eq!(world[0].arm(), Armed::Armed, "what waited was taken back");
    }
}

#[test]
fn room_for_a_rank_that_has_ended_wakes_no_one() {
    let small = RingSize { slots_count: 8, lines_counts: [16, 0] };
    let mut world = world(2, |config| config.ring = Some(small));
    while world[0].send(RAIL, ProcessId(12), b"x", NO_PAYLOAD).is_ok() {}
    (0..4).for_each(|_| drop(receive(&mut world[1]).expect("a packet")));
    let Shm { peers, events, .. } = &mut world[0];
    report_gone(&mut peers[1], events);
    assert_eq!(world[0].poll(), Some(Event::PeerGone(ProcessId(12))));
    assert_eq!(world[0].arm(), Armed::Armed, "nothing is sent to it any more");
}

#[cfg(not(loom))]
#[test]
fn a_rank_that_writes_nonsense_is_gone_and_its_ring_unread() {
    let mut world = world(3, |_| {});
    world[2].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
    assert_eq!(world[0].arm(), Armed::NotYet);
    assert!(receive(&mut world[0]).is_some());
    ring::tests::spoil(&world[0].segment.ring(2, 0), 1);
    assert_eq!(world[0].arm(), Armed::NotYet);
    assert_eq!(world[0].poll(), Some(Event::PeerGone(ProcessId(14))));
    assert_eq!(world[0].poll(), None);
    assert_eq!(world[0].arm(), Armed::Armed, "it is no news any more");
    let Shm { peers, events, .. } = &mut world[0];
    report_gone(&mut peers[2], events);
    assert!(events.is_empty(), "its end was reported");
    world[1].send(RAIL, ProcessId(10), b"y", NO_PAYLOAD).unwrap();
    assert_eq!(receive(&mut world[0]), Some((ProcessId(12), b"y".to_vec())), "the others go on");
}

#[cfg(not(loom))]
#[test]
fn a_packet_in_pieces_is_fetched_as_far_as_it_is_written() {
    let mut world = world(2, |config| config.cpus_count = 1_000);
    let payload: Vec<u8> = (0..64 << 10).map(|at| (at % 251) as u8 + 1).collect();
    let ring = world[0].segment.ring(1, 0);
    for is_late in [true, false] {
        world[1].send(RAIL, ProcessId(10), b"long", [Piece::Bytes(&payload), Piece::EMPTY]).unwrap();
        let write_rest = ring::tests::hold_back(&ring, 100);
        let written = payload.len() - 100 * 64;
        let Some(Event::Front(incoming, payload_bytes)) = world[0].poll() else { panic!("no front") };
        assert_eq!((world[0].packet(&incoming).header, payload_bytes), (&b"long"[..], payload.len()));
        let into = Buffer::leaked(payload_bytes);
        if is_late {
            assert_eq!(world[0].fetch(&incoming, into), Fetched::Part);
            let fetched = into.to_vec().unwrap();
            assert!(fetched[..written] == payload[..written] && fetched[written..].iter().all(|&b| b == 0));
            assert_eq!((world[0].poll(), world[0].arm()), (None, Armed::Armed), "nothing more has come");
            write_rest();
            assert_eq!(world[0].arm(), Armed::NotYet);
            let (_, packet) = receive(&mut world[0]).unwrap();
            assert!(packet == [b"long", &payload[..]].concat());
        } else {
            write_rest();
            assert_eq!(world[0].fetch(&incoming, into), Fetched::Whole);
            assert!(into.to_vec().unwrap() == payload);
        }
        world[1].send(RAIL, ProcessId(10), b"next", NO_PAYLOAD).unwrap();
        assert_eq!(receive(&mut world[0]), Some((ProcessId(12), b"next".to_vec())), "it was given back");
    }
}

#[test]
fn a_peer_that_the_kernel_protects_is_not_tried_again() {
    let mut world = world(3, |_| {});
    let memory = Buffer::leaked(64);
    let key = world[1].register(RAIL, memory).unwrap();
    let region = RemoteRegion { key, offset: 0 };
    let nowhere = RemoteRegion { key: RemoteKey { words: [8, 64] }, offset: 0 };
    let get = |world: &mut Vec<Shm>, from: u32, region| {
        world[0].get(RAIL, ProcessId(from), Buffer::leaked(8), region, Token(0)).unwrap()
    };
    assert_eq!(get(&mut world, 12, nowhere), Submitted::Refused);
    assert_eq!(get(&mut world, 12, region), Submitted::Done, "that was about the memory");
    let pid = &world[1].segment.controls()[1].pid;
    let own = pid.load(Ordering::Relaxed);
    // No process has such a number.
    pid.store(i32::MAX as u32, Ordering::Relaxed);
    assert_eq!(get(&mut world, 12, region), Submitted::Refused);
    pid.store(own, Ordering::Relaxed);
    assert_eq!(get(&mut world, 12, region), Submitted::Refused, "that was about the process");
    assert_eq!(get(&mut world, 14, region), Submitted::Done, "which the other is not");
}

#[test]
fn a_rank_sleeps_where_its_peers_wake_it_and_looks_in_between() {
    let mut world = world(2, |_| {});
    let word = &world[0].segment.controls()[0].sleep;
    assert_eq!(world[0].arm_aside(), Armed::Armed);
    assert!(world[0].is_armed() && word.load(Ordering::Relaxed) != 0);
    assert_eq!(world[0].poll(), None);
    assert!(!world[0].is_armed() && word.load(Ordering::Relaxed) == 0, "a look disarms");
    world[1].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
    assert_eq!(world[0].arm(), Armed::NotYet);
    assert!(!world[0].is_armed() && word.load(Ordering::Relaxed) == 0);
    let usual = world[0].bell_timeout();
    world[0].segment.controls()[0].is_deaf.store(1, Ordering::Relaxed);
    assert!(world[0].bell_timeout() < usual, "a rank whose bell is not rung looks by itself");
}

#[test]
fn the_end_of_a_process_is_noticed_once() {
    use std::process::{Command, Stdio};
    let child = || Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
    let mut world = world(5, |_| {});
    let controls = world[0].segment.controls();
    let mut children = [child(), child(), child()];
    for (control, child) in controls.iter().zip(&children) {
        control.pid.store(child.id(), Ordering::Relaxed);
    }
    // One that has not come yet.
    controls[3].pid.store(0, Ordering::Relaxed);
    let mut end = |at: usize| {
        drop(children[at].stdin.take());
        children[at].wait().expect("it ends");
    };
    // The first is never seen alive, the second says goodbye before its end, the third does not.
    end(0);
    world[4].watch_peers();
    assert_eq!(world[4].poll(), Some(Event::PeerGone(ProcessId(10))));
    world[1].detach();
    end(1);
    end(2);
    for _ in 0..2 {
        world[4].watch_peers();
    }
    assert_eq!((world[4].poll(), world[4].poll()), (Some(Event::PeerGone(ProcessId(14))), None));
    let is_gone: Vec<bool> = world[4].peers.iter().map(|peer| peer.is_gone).collect();
    assert_eq!(is_gone, [true, true, true, false, false]);
    assert!(world[4].peers.iter().all(|peer| peer.watch.is_none()), "no descriptor is kept");
    // One whose descriptor was opened before its end.
    let mut late = child();
    controls[3].pid.store(late.id(), Ordering::Relaxed);
    world[4].watch_peers();
    assert_eq!(world[4].poll(), None);
    drop(late.stdin.take());
    late.wait().expect("it ends");
    world[4].watch_peers();
    assert_eq!(world[4].poll(), Some(Event::PeerGone(ProcessId(16))));
}

#[test]
fn the_end_of_the_first_rank_is_noticed_too() {
    use std::process::{Command, Stdio};
    let mut world = world(2, |_| {});
    let mut first = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
    world[1].segment.controls()[0].pid.store(first.id(), Ordering::Relaxed);
    world[1].watch_peers();
    assert_eq!(world[1].poll(), None);
    drop(first.stdin.take());
    first.wait().expect("it ends");
    world[1].watch_peers();
    assert_eq!(world[1].poll(), Some(Event::PeerGone(ProcessId(10))));
}

#[test]
fn the_clock_counts_picoseconds_since_it_began() {
    assert_eq!(clock_at(Duration::new(5, 7)).0, 5_000_000_007_000);
    assert!(world(1, |_| {})[0].time().is_some());
}

#[test]
fn a_process_alone_reaches_itself() {
    let mut device = Shm::alone(ProcessId(7)).unwrap();
    device.send(RAIL, ProcessId(7), b"x", NO_PAYLOAD).unwrap();
    assert_eq!(receive(&mut device), Some((ProcessId(7), b"x".to_vec())));
    assert!(device.rails_to(ProcessId(8)).is_empty());
}

#[test]
fn the_expected_peer_is_looked_at_first() {
    let mut world = world(4, |_| {});
    for expected in [1, 3, 2, 0] {
        for device in &mut world {
            device.send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
        }
        world[0].expect(Some(ProcessId(10 + 2 * expected)));
        let order: Vec<u32> = (0..4).map(|_| receive(&mut world[0]).unwrap().0.0).collect();
        assert_eq!(order[0], 10 + 2 * expected, "{order:?}");
        // From any: it goes on with the same.
        world[0].expect(None);
    }
}

#[test]
fn ranks_with_a_cpu_each_are_those_that_have_one() {
    let fenceless_count = |cpus_count: u32| {
        let world = world(2, |config| config.cpus_count = cpus_count);
        world[0].segment.fenceless_count().load(Ordering::Relaxed)
    };
    assert_eq!(fenceless_count(1), 0);
    assert_eq!(fenceless_count(2), fenceless_count(1_000));
}

#[test]
fn room_that_is_given_back_wakes_who_lacks_it() {
    let small = RingSize { slots_count: 8, lines_counts: [16, 0] };
    let mut world = world(2, |config| config.ring = Some(small));
    let asleep = |world: &[Shm]| world[1].segment.controls()[1].sleep.load(Ordering::Relaxed) != 0;
    while world[1].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).is_ok() {}
    assert_eq!(world[1].arm(), Armed::Armed);
    assert!(receive(&mut world[0]).is_some() && asleep(&world), "a quarter of the ring at a time");
    assert!(receive(&mut world[0]).is_some() && !asleep(&world));
    // It was woken, and looks.
    assert_eq!(world[1].arm(), Armed::NotYet);
    world[1].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
}

#[test]
fn a_rank_that_sleeps_at_its_bell_hears_a_packet() {
    let mut world = world(2, |_| {});
    let listening = world[0].hang_bell().unwrap();
    let heard = || rustix::io::read(&listening, &mut [0; 8]);
    for _ in 0..2 {
        assert_eq!(world[0].arm_at_bell(), Armed::Armed);
        assert_eq!(heard(), Err(rustix::io::Errno::AGAIN));
        world[1].send(RAIL, ProcessId(10), b"x", NO_PAYLOAD).unwrap();
        assert_eq!(heard(), Ok(1));
        assert!(receive(&mut world[0]).is_some());
    }
}
