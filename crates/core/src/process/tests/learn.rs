//! The quicker way of long messages is learnt, in virtual time.

use super::net::{Clock, Net, memory};
use crate::device::RailCapabilities;
use crate::ids::{CommId, Source, TagSelector};
use crate::process::Process;
use crate::request::{Posted, SendMode};
use crate::time::{Duration, Instant};
use alloc::vec;

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
            exchange(&mut net, 300, bytes);
            let got = exchange(&mut net, 64, bytes);
            let is_right = if bytes as u64 > crossover_bytes { got >= 56 } else { got <= 8 };
            assert!(is_right, "{bytes} B, crossover at {crossover_bytes} B: {got} of 64 by get");
        }
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
