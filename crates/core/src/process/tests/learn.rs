//! The quicker way of long messages is learnt, in virtual time.

use ayatori_random::Random;

use super::net::{Clock, Net, memory};
use crate::coll::{self, Algorithm, Choice};
use crate::datatype::Predefined;
use crate::device::RailCapabilities;
use crate::ids::{CommId, Source, TagSelector};
use crate::op::{Operation, Reducer};
use crate::process::Process;
use crate::request::{Completion, Posted, SendMode};
use crate::time::{Duration, Instant};
use crate::transfer::choose::Way;
use alloc::vec;
use alloc::vec::Vec;

const ANY: (Source, TagSelector) = (Source::Any, TagSelector::Any);

/// Two processes over a rail that gets, and sends packets of senders that wait.
fn two() -> Net {
    let rail = RailCapabilities { get: true, streams_awaited: true, ..RailCapabilities::default() };
    Net::new(2, 1, rail)
}

/// A get costs as much as packets at the crossover: they cost 2 ps a byte, it costs 1 ps and `crossover` to
/// begin.
fn set_crossover(net: &mut Net, crossover_bytes: u64) {
    let clock = Clock {
        now: Instant(1),
        packet: [Duration(0), Duration(200)],
        get: [Duration(100 * crossover_bytes), Duration(100)],
        reduce: Duration(0),
    };
    net.shared.borrow_mut().clock = Some(clock);
}

/// So many messages, one after the other, each awaited by its sender; how many were got.
fn exchange(net: &mut Net, count: u32, bytes: usize) -> u32 {
    let before = net.shared.borrow().gets_count;
    for n in 0..count {
        let (source, (target, received)) = (memory(vec![n as u8; bytes]).0, memory(vec![!(n as u8); bytes]));
        let (process, port) = &mut net.nodes[0];
        let send = Process::send(process, port, CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap();
        let (process, port) = &mut net.nodes[1];
        let receive = process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
        for (at, posted) in [(0, send), (1, receive)] {
            let Posted::Pending(id) = posted else { panic!("a long message is not over at once") };
            while !net.nodes[at].0.is_complete(id) {
                (0..2).for_each(|node| _ = net.progress(node, u32::MAX));
            }
            net.nodes[at].0.take(id).unwrap();
        }
        assert_eq!(received, vec![n as u8; bytes], "message {n}");
    }
    net.shared.borrow().gets_count - before
}

#[test]
fn the_way_follows_a_crossover_that_moves() {
    let mut net = two();
    for crossover_bytes in [30_000, 200_000, 1_000] {
        set_crossover(&mut net, crossover_bytes);
        for bytes in [15_000, 60_000] {
            exchange(&mut net, 600, bytes);
            let got = exchange(&mut net, 64, bytes);
            let is_right = if bytes as u64 > crossover_bytes { got >= 56 } else { got <= 8 };
            assert!(is_right, "{bytes} B, crossover at {crossover_bytes} B: {got} of 64 by get");
        }
    }
}

/// What a reduction computes between its messages takes no part in the choice of their way.
#[test]
fn work_of_a_collective_operation_is_not_time_of_its_messages() {
    const BYTES: usize = 20_000;
    const BINOMIAL: Choice = Choice { algorithm: Algorithm::Binomial, segment_bytes: 0 };
    let cases = [(2 * BYTES, 0..=12), (BYTES / 2, 88..=100)];
    let cases = cases.into_iter().flat_map(|case| [true, false].map(|is_run| (case.clone(), is_run)));
    for ((crossover_bytes, got), is_run) in cases {
        let rail = RailCapabilities {
            get: true,
            streams_awaited: true,
            learns_beside_receives: true,
            ..RailCapabilities::default()
        };
        let mut net = Net::new(2, 1, rail);
        set_crossover(&mut net, crossover_bytes as u64);
        net.shared.borrow_mut().clock.as_mut().unwrap().reduce = Duration(1_000);
        let mut run = |count| {
            for _ in 0..count {
                let ids = [0, 1].map(|rank| {
                    let (process, port) = &mut net.nodes[rank as usize];
                    let (context, choice) = (coll::Context { rank, size: 2 }, BINOMIAL);
                    let reducer = Reducer::predefined(Operation::Sum, Predefined::Uint64).unwrap();
                    let (given, result) = (memory(vec![1; BYTES]).0, memory(vec![0; BYTES]).0);
                    let (given, result) = (Some(given), (rank == 0).then_some(result));
                    let pool = process.schedule_pool();
                    let schedule = coll::reduce(pool, context, given, result, &reducer, 0, choice).unwrap();
                    match is_run {
                        true => process.run_collective(port, CommId::WORLD, schedule).map(|_| None).unwrap(),
                        false => Some(process.collectives().awaited().start(port, CommId::WORLD, schedule)),
                    }
                });
                net.settle();
                for (at, posted) in ids.into_iter().enumerate() {
                    let (process, port) = &mut net.nodes[at];
                    match posted {
                        Some(Ok(Posted::Pending(id))) => drop(process.take(id).unwrap()),
                        None if process.is_running_collective() => {
                            assert!(process.poll_run());
                            assert_eq!(process.go_on_with_run(port), Some(Completion::EMPTY));
                        }
                        _ => {}
                    }
                }
            }
            net.shared.borrow().gets_count
        };
        let before = run(400);
        let count = run(100) - before;
        assert!(got.contains(&count), "{count} of 100 by get, crossover at {crossover_bytes} B");
    }
}

#[test]
fn without_a_clock_senders_that_wait_send_packets() {
    assert_eq!(exchange(&mut two(), 100, 20_000), 0);
}

#[test]
fn senders_that_go_on_are_read_whatever_was_learnt() {
    let mut net = two();
    set_crossover(&mut net, 1 << 30);
    assert!(exchange(&mut net, 100, 20_000) <= 16);
    let before = net.shared.borrow().gets_count;
    for _ in 0..10 {
        let (process, port) = &mut net.nodes[0];
        let source = memory(vec![1; 20_000]).0;
        let _send = process.isend(port, CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap();
        let (process, port) = &mut net.nodes[1];
        let target = memory(vec![0; 20_000]).0;
        let _receive = process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
        net.settle();
    }
    assert_eq!(net.shared.borrow().gets_count - before, 10);
}

/// So many windows of eight messages, whose sender waits or computes; how many messages were got.
fn exchange_windows(net: &mut Net, count: u32, bytes: usize, are_waiting: bool) -> u32 {
    net.shared.borrow_mut().are_waiting = are_waiting;
    let before = net.shared.borrow().gets_count;
    for n in 0..count {
        let mut ids = [const { Vec::new() }; 2];
        let mut received = Vec::new();
        for m in 0..8 {
            let source = memory(vec![(n + m) as u8; bytes]).0;
            let (target, bytes) = memory(vec![!(n + m) as u8; bytes]);
            let (process, port) = &mut net.nodes[1];
            ids[1].push(process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap());
            let (process, port) = &mut net.nodes[0];
            ids[0].push(process.isend(port, CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap());
            received.push(bytes);
        }
        for (at, ids) in ids.into_iter().enumerate() {
            for posted in ids {
                let Posted::Pending(id) = posted else { panic!("a long message is not over at once") };
                while !net.nodes[at].0.is_complete(id) {
                    (0..2).for_each(|node| _ = net.progress(node, u32::MAX));
                }
                net.nodes[at].0.take(id).unwrap();
            }
        }
        for (m, received) in (0..).zip(received) {
            assert_eq!(received, vec![(n + m) as u8; bytes], "message {m} of window {n}");
        }
    }
    net.shared.borrow().gets_count - before
}

#[test]
fn windows_of_a_sender_that_waits_go_the_quicker_way() {
    for (crossover_bytes, is_by_get) in [(1_000, true), (1 << 30, false)] {
        let mut net = two();
        set_crossover(&mut net, crossover_bytes);
        exchange_windows(&mut net, 100, 20_000, true);
        let got = exchange_windows(&mut net, 64, 20_000, true);
        let is_right = if is_by_get { got >= 448 } else { got <= 64 };
        assert!(is_right, "crossover at {crossover_bytes} B: {got} of 512 by get");
    }
}

#[test]
fn a_message_beside_a_receive_is_got() {
    let mut net = two();
    set_crossover(&mut net, 1 << 30);
    net.shared.borrow_mut().are_waiting = true;
    // Its sender does not offer packets: it has more under way, though no other message.
    let (process, port) = &mut net.nodes[0];
    let (target, tag) = (memory(vec![0; 8]).0, TagSelector::Tag(9));
    let _receive = process.irecv(port, CommId::WORLD, target, Source::Rank(1), tag).unwrap();
    assert_eq!(exchange(&mut net, 100, 20_000), 100);
}

#[test]
fn windows_of_a_sender_that_computes_are_got() {
    let mut net = two();
    set_crossover(&mut net, 1 << 30);
    exchange_windows(&mut net, 100, 20_000, true);
    // Packets are quicker, but for the time that the sender goes on computing.
    assert_eq!(exchange_windows(&mut net, 10, 20_000, false), 80);
}

#[test]
fn a_window_whose_gets_are_refused_is_measured_to_its_end() {
    let mut net = two();
    set_crossover(&mut net, 1 << 30);
    net.shared.borrow_mut().transfers_taken_max = Some(0);
    exchange_windows(&mut net, 1, 20_000, true);
    net.shared.borrow_mut().transfers_taken_max = None;
    exchange_windows(&mut net, 100, 20_000, true);
    let got = exchange_windows(&mut net, 64, 20_000, true);
    assert!(got <= 64, "packets are quicker, and {got} of 512 went by get");
    let [sent, got] = [Way::Stream, Way::Get].map(|way| net.nodes[1].0.bursts_count(way));
    assert!(sent > got && got > 0 && sent + got == 165, "{sent} windows by packets, {got} by gets");
}

#[test]
fn a_receiver_that_sends_asks_for_short_windows_or_near_ones() {
    let most = 64 << 10;
    let (near, far) = (Some(true), Some(false));
    let cases = [
        (most, true, far, true),
        (most + 1, true, far, false),
        (most + 1, false, far, true),
        (most + 1, true, near, true),
        (most + 1, true, None, true),
    ];
    for (bytes, is_sending, are_near, is_asking) in cases {
        let mut net = two();
        net.shared.borrow_mut().are_near = are_near;
        set_crossover(&mut net, 1 << 30);
        if is_sending {
            // A message of its own is under way all the time.
            let (process, port) = &mut net.nodes[1];
            let own = memory(vec![0; 100_000]).0;
            let _own = process.isend(port, CommId::WORLD, own, 0, 9, SendMode::Standard).unwrap();
        }
        exchange_windows(&mut net, 100, bytes, true);
        let got = exchange_windows(&mut net, 10, bytes, true);
        assert_eq!(got < 80, is_asking, "{bytes} B, {is_sending} {are_near:?}: {got} of 80 by get");
    }
}

#[test]
fn a_receiver_that_sends_takes_packets_that_a_near_peer_offers() {
    for (are_near, is_by_get) in [(Some(true), false), (Some(false), true), (None, true)] {
        let mut net = two();
        // Gets are quicker, as each finds that tries packets alone.
        set_crossover(&mut net, 1_000);
        net.shared.borrow_mut().are_near = are_near;
        let (process, port) = &mut net.nodes[1];
        let own = memory(vec![0; 100_000]).0;
        let _own = process.isend(port, CommId::WORLD, own, 0, 9, SendMode::Standard).unwrap();
        exchange(&mut net, 100, 20_000);
        let got = exchange(&mut net, 64, 20_000);
        assert_eq!(got > 0, is_by_get, "{are_near:?}: {got} of 64");
    }
}

#[test]
fn a_window_is_got_over_rails_that_are_not_for_packets() {
    let rail = RailCapabilities { get: true, ..RailCapabilities::default() };
    let mut net = Net::new(2, 1, rail);
    set_crossover(&mut net, 1 << 30);
    assert_eq!(exchange_windows(&mut net, 10, 20_000, true), 80);
}

/// Two processes over a rail whose messages of 8,001 to 20,000 bytes go eagerly or are got by measurement,
/// those of up to 16,000 eagerly else.
fn two_that_learn_eager(learns_beside_receives: bool) -> Net {
    let rail = RailCapabilities {
        get: true,
        packet_bytes_max: 32_000,
        eager_bytes_max: 16_000,
        eager_learnt_bytes: [8_000, 20_000],
        learns_beside_receives,
        ..RailCapabilities::default()
    };
    Net::new(2, 1, rail)
}

/// So many messages to a receiver that comes `late` after each was sent; how many were got.
fn send_and_receive(net: &mut Net, count: u32, bytes: usize, late: Option<Duration>) -> u32 {
    let before = net.shared.borrow().gets_count;
    for n in 0..count {
        let (source, (target, received)) = (memory(vec![n as u8; bytes]).0, memory(vec![!(n as u8); bytes]));
        let receive = |net: &mut Net| {
            let (process, port) = &mut net.nodes[1];
            process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap()
        };
        let early = late.is_none().then(|| receive(net));
        let (process, port) = &mut net.nodes[0];
        let send = Process::send(process, port, CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap();
        if let (Some(late), Some(clock)) = (late, &mut net.shared.borrow_mut().clock) {
            clock.now += late;
        }
        let receive = early.unwrap_or_else(|| receive(net));
        for (at, posted) in [(0, send), (1, receive)] {
            let Posted::Pending(id) = posted else { continue };
            while !net.nodes[at].0.is_complete(id) {
                (0..2).for_each(|node| _ = net.progress(node, u32::MAX));
            }
            net.nodes[at].0.take(id).unwrap();
        }
        net.settle();
        assert_eq!(received, vec![n as u8; bytes], "message {n}");
    }
    net.shared.borrow().gets_count - before
}

#[test]
fn eager_messages_follow_a_crossover_that_moves() {
    let mut net = two_that_learn_eager(false);
    for crossover_bytes in [100_000, 1_000, 14_000] {
        set_crossover(&mut net, crossover_bytes);
        for bytes in [8_001, 18_000] {
            send_and_receive(&mut net, 400, bytes, None);
            let got = send_and_receive(&mut net, 64, bytes, None);
            let is_right = if bytes as u64 > crossover_bytes { got >= 52 } else { got <= 12 };
            assert!(is_right, "{bytes} B, crossover at {crossover_bytes} B: {got} of 64 by get");
        }
        assert_eq!(send_and_receive(&mut net, 100, 8_000, None), 0, "too short to be measured");
        assert_eq!(send_and_receive(&mut net, 100, 20_001, None), 100, "too long to go eagerly");
    }
}

#[test]
fn a_synchronous_message_is_not_measured() {
    let mut net = two_that_learn_eager(false);
    let (process, port) = &mut net.nodes[0];
    let (source, target) = (memory(vec![1; 18_000]).0, memory(vec![0; 18_000]).0);
    let _send = process.isend(port, CommId::WORLD, source, 1, 0, SendMode::Synchronous).unwrap();
    let (process, port) = &mut net.nodes[1];
    let _receive = process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
    net.settle();
    assert_eq!(net.shared.borrow().gets_count, 1, "above the limit it does not go eagerly");
}

/// A message that finds the device full on the short way goes the long one, and counts once.
#[test]
fn the_short_way_leaves_a_trial_to_the_long_one() {
    let mut net = two_that_learn_eager(false);
    send_and_receive(&mut net, 1, 10, None);
    let mut sent_count = 0;
    loop {
        let source = memory(vec![7; 10_000]).0;
        let is_full = sent_count % 2 == 1;
        net.shared.borrow_mut().full_one_in = u64::from(is_full);
        let (process, port) = &mut net.nodes[0];
        let is_sent = process.send_at_once(port, CommId::WORLD, source, 1, 0);
        net.shared.borrow_mut().full_one_in = 0;
        if is_full {
            assert!(!is_sent);
            let (process, port) = &mut net.nodes[0];
            let sent = Process::send(process, port, CommId::WORLD, source, 1, 0, SendMode::Standard);
            assert_eq!(sent, Ok(Posted::Done(Completion::EMPTY)));
        } else if !is_sent {
            break;
        }
        sent_count += 1;
        let (target, received) = memory(vec![0; 10_000]);
        let (process, port) = &mut net.nodes[1];
        let _received = process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
        net.settle();
        assert!(received == [7; 10_000] && sent_count < 100);
    }
    assert_eq!(sent_count, 32);
}

#[test]
fn receivers_that_come_late_are_sent_to_eagerly() {
    let mut net = two_that_learn_eager(false);
    set_crossover(&mut net, 1_000);
    let got = send_and_receive(&mut net, 600, 10_000, Some(Duration::from_us(900)));
    assert!((4..=40).contains(&got), "{got} of 600 by get");
}

#[test]
fn a_sender_with_more_under_way_measures_nothing() {
    let mut net = two_that_learn_eager(false);
    set_crossover(&mut net, 1_000);
    send_and_receive(&mut net, 100, 18_000, None);
    send_and_receive(&mut net, 100, 10_000, None);
    let before = net.shared.borrow().gets_count;
    let isend = |net: &mut Net, bytes| {
        let (process, port) = &mut net.nodes[0];
        process.isend(port, CommId::WORLD, memory(vec![1; bytes]).0, 1, 0, SendMode::Standard).unwrap()
    };
    let first = isend(&mut net, 30_000);
    assert!(matches!(first, Posted::Pending(_)), "announced");
    for _ in 0..40 {
        assert!(matches!(isend(&mut net, 4_000), Posted::Done(_)), "eager");
    }
    assert!(matches!(isend(&mut net, 16_000), Posted::Done(_)), "eager");
    assert!(matches!(isend(&mut net, 16_001), Posted::Pending(_)), "announced");
    for bytes in core::iter::once(30_000).chain([4_000; 40]).chain([16_000, 16_001]) {
        let (process, port) = &mut net.nodes[1];
        let target = memory(vec![0; bytes]).0;
        let _receive = process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
        net.settle();
    }
    assert_eq!(net.shared.borrow().gets_count - before, 2);
}

/// A message that is not eager unmeasured goes eagerly beside a receive only where the rail says so.
#[test]
fn a_receive_under_way_ends_measuring_or_does_not() {
    for learns_beside_receives in [false, true] {
        let mut net = two_that_learn_eager(learns_beside_receives);
        for (bytes, is_eager) in [(16_000, true), (16_001, learns_beside_receives), (20_001, false)] {
            let (process, port) = &mut net.nodes[0];
            let (reply, _) = memory(vec![0; 8]);
            let _reply = process.irecv(port, CommId::WORLD, reply, ANY.0, ANY.1).unwrap();
            let source = memory(vec![1; bytes]).0;
            let sent = process.isend(port, CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap();
            assert_eq!(matches!(sent, Posted::Done(_)), is_eager, "{bytes} {learns_beside_receives}");
        }
    }
}

/// Several messages at a time, some received before they are sent, over a device that is often full and
/// reports fronts: all arrive in order and whole, whatever way was learnt.
#[test]
fn learnt_ways_keep_order_and_data() {
    for seed in 0..10 {
        let mut net = two_that_learn_eager(seed % 2 == 0);
        let mut random = Random::new(seed);
        {
            let mut shared = net.shared.borrow_mut();
            shared.full_one_in = [0, 3][random.below(2) as usize];
            shared.front_one_in = [0, 2][random.below(2) as usize];
        }
        for _ in 0..3 {
            set_crossover(&mut net, [100, 14_000, 100_000][random.below(3) as usize]);
            for n in 0..50 {
                let count = if random.one_in(4) { 1 + random.below(4) } else { 1 };
                let lengths: Vec<usize> = (0..count).map(|_| 7_000 + random.below(14_000) as usize).collect();
                exchange_in_order(&mut net, &mut random, &lengths, n);
            }
        }
        assert_eq!(net.nodes[0].1.registered_count(), 0, "seed {seed}");
        assert!(net.shared.borrow().gets_count > 0, "seed {seed}");
    }
}

/// Messages of these lengths from process 0 to process 1.
fn exchange_in_order(net: &mut Net, random: &mut Random, lengths: &[usize], n: u8) {
    let is_early = random.below(2) == 0;
    let targets: Vec<_> = lengths.iter().map(|&bytes| memory(vec![0xAA; bytes])).collect();
    let receive = |net: &mut Net| -> Vec<Posted> {
        let (process, port) = &mut net.nodes[1];
        let mut post = |target| process.irecv(port, CommId::WORLD, target, ANY.0, ANY.1).unwrap();
        targets.iter().map(|(target, _)| post(*target)).collect()
    };
    let early = is_early.then(|| receive(net));
    let mut posted = Vec::new();
    for (at, &bytes) in lengths.iter().enumerate() {
        let (source, mode) = (memory(vec![n.wrapping_add(at as u8); bytes]).0, random.one_in(5));
        let mode = if mode { SendMode::Synchronous } else { SendMode::Standard };
        let (process, port) = &mut net.nodes[0];
        posted.push((0, process.isend(port, CommId::WORLD, source, 1, 0, mode).unwrap()));
    }
    let receives = early.unwrap_or_else(|| receive(net));
    posted.extend(receives.into_iter().map(|receive| (1, receive)));
    for (node, posted) in posted {
        let Posted::Pending(id) = posted else { continue };
        while !net.nodes[node].0.is_complete(id) {
            (0..2).for_each(|node| _ = net.progress(node, 1 + random.below(3) as u32));
        }
        net.nodes[node].0.take(id).unwrap();
    }
    net.settle();
    for (at, (_, received)) in targets.iter().enumerate() {
        assert_eq!(*received, vec![n.wrapping_add(at as u8); lengths[at]], "message {at} of {n}");
    }
}
