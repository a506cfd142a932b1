//! Two or more devices in one process, over the loopback interface; and callers without the job's key.

mod conformance;
mod ends;

use super::*;
use crate::tcp::handshake::{HELLO_BYTES, Hello};
use crate::tcp::{Address, CardBook, Interface, PortRange, Settings, Timing, Wireup, handshake};
use crate::threads::HANG_LIMIT;
use ayatori_core::buffer::NO_PAYLOAD;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

/// Hang limit.
const LIMIT: Duration = Duration::from_secs(300);

/// `count` interfaces that are all the loopback, each with an address of its own.
pub(super) fn interfaces(host: u8, count: u8) -> Vec<Interface> {
    let interface = |number: u8| Interface {
        name: format!("lo{number}"),
        index: 1,
        is_up: true,
        is_running: true,
        is_loopback: true,
        addresses: vec![Address { ip: Ipv4Addr::new(127, 7, number, host).into(), prefix_bits: 24 }],
        speed_mbit_per_s: None,
        mtu_bytes: None,
        numa_node: None,
    };
    (0..count).map(interface).collect()
}

pub(super) fn quick() -> Settings {
    let timing = Timing { handshake: Duration::from_millis(300), pending_max: 8, ..Timing::default() };
    Settings { timing, ..Settings::default() }
}

/// Two processes with so many rails.
fn pair(rails: u8) -> (Tcp, Tcp, Card) {
    pair_with([rails, rails], [Key::new([1; 32]), Key::new([1; 32])])
}

fn pair_with(rails: [u8; 2], keys: [Key; 2]) -> (Tcp, Tcp, Card) {
    pair_by(quick(), rails, keys)
}

fn pair_by(settings: Settings, rails: [u8; 2], keys: [Key; 2]) -> (Tcp, Tcp, Card) {
    let a = Wireup::listen_on(settings.clone(), interfaces(1, rails[0])).expect("listen");
    let b = Wireup::listen_on(settings, interfaces(2, rails[1])).expect("listen");
    let (card_a, card_b) = (a.card(0, 1), b.card(1, 1));
    let [key_a, key_b] = keys;
    let a = opened(a, ProcessId(0), key_a, vec![None, Some(card_b.clone())], 1);
    let b = opened(b, ProcessId(1), key_b, vec![Some(card_a), None], 1);
    (a, b, card_b)
}

/// A device in a world with these cards.
fn opened(wireup: Wireup, me: ProcessId, key: Key, cards: Vec<Option<Card>>, first_rail: u8) -> Tcp {
    let rails = cards.iter().flatten().map(|card| wireup.rails_count_to(me, card, first_rail));
    let most = rails.map(|count| count.expect("reached")).max().unwrap_or(0);
    wireup.open((ProcessId(0), me), key, Arc::new(cards), (first_rail, most)).expect("open")
}

/// Polls both until `done`; events of both go to `seen`, packets as bytes.
fn run(a: &mut Tcp, b: &mut Tcp, seen: &mut Seen, mut done: impl FnMut(&mut Tcp, &mut Tcp, &Seen) -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done(a, b, seen) {
        assert!(Instant::now() < deadline, "not done in time: {:?}", seen.events);
        for (side, device) in [&mut *a, &mut *b].into_iter().enumerate() {
            while let Some(event) = device.poll() {
                if let Event::Packet(incoming) = event {
                    seen.packets[side].push(device.packet(&incoming).header.to_vec());
                    device.release(incoming);
                } else {
                    seen.events[side].push(event);
                }
            }
        }
        std::thread::yield_now();
    }
}

#[derive(Default)]
struct Seen {
    packets: [Vec<Vec<u8>>; 2],
    events: [Vec<Event>; 2],
}

fn send_all(from: &mut Tcp, rail: Rail, to: ProcessId, numbers: &mut std::ops::Range<u32>) {
    while let Some(number) = numbers.clone().next() {
        if from.send(rail, to, &number.to_le_bytes(), [Piece::Bytes(&[7; 100]), Piece::EMPTY]).is_err() {
            return;
        }
        numbers.next();
    }
}

/// Both send packets of many lengths over three rails at once, and look at what comes.
fn all_lengths_go_both_ways(a: &mut Tcp, b: &mut Tcp) {
    let mut seen = Seen::default();
    const LENGTHS: [usize; 7] = [0, 1, 100, 950, 1_200, 20_000, 60_000];
    let payload: Vec<u8> = (0..60_000u32).map(|at| at as u8).collect();
    let mut next = [[0u32; 3]; 2];
    run(a, b, &mut seen, |a, b, seen| {
        for (side, device) in [a, b].into_iter().enumerate() {
            for (rail, number) in next[side].iter_mut().enumerate() {
                while *number < 400 {
                    let length = LENGTHS[(*number as usize * 31 / 7) % LENGTHS.len()];
                    let header = [[rail as u8; 4], number.to_le_bytes()].concat();
                    let payload = [Piece::Bytes(&payload[..length]), Piece::EMPTY];
                    let peer = ProcessId(1 - side as u32);
                    if device.send(Rail(1 + rail as u8), peer, &header, payload).is_err() {
                        break;
                    }
                    *number += 1;
                }
            }
            device.flush();
        }
        seen.packets.iter().all(|packets| packets.len() == 1_200)
    });
    for packets in &seen.packets {
        for rail in 0..3u8 {
            let of_rail = packets.iter().filter(|packet| packet[0] == rail);
            for (number, packet) in (0u32..).zip(of_rail) {
                let length = LENGTHS[(number as usize * 31 / 7) % LENGTHS.len()];
                assert_eq!(packet[4..8], number.to_le_bytes());
                assert_eq!(packet[8..], payload[..length]);
            }
        }
    }
}

#[test]
fn packets_of_all_lengths_arrive_in_order_on_every_rail() {
    let (mut a, mut b, _) = pair(3);
    assert_eq!(a.rails_to(ProcessId(1)).iter().collect::<Vec<_>>(), [Rail(1), Rail(2), Rail(3)]);
    assert!(a.rails_to(ProcessId(0)).is_empty());
    all_lengths_go_both_ways(&mut a, &mut b);
}

/// Counts how often each card is asked for.
struct CountingBook(Vec<Option<Card>>, Vec<std::sync::atomic::AtomicUsize>);

impl CardBook for CountingBook {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn card(&self, rank: usize) -> Option<Card> {
        self.1[rank].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0[rank].clone()
    }
}

#[test]
fn only_cards_of_processes_that_are_talked_to_are_asked_for() {
    let a = Wireup::listen_on(quick(), interfaces(1, 1)).expect("listen");
    let b = Wireup::listen_on(quick(), interfaces(2, 1)).expect("listen");
    let (card_a, card_b) = (a.card(0, 1), b.card(1, 1));
    let cards = vec![None, Some(card_b.clone()), Some(card_b)];
    let book = Arc::new(CountingBook(cards, (0..3).map(|_| Default::default()).collect()));
    let counted = Arc::clone(&book);
    let key = Key::new([1; 32]);
    let mut a = a.open((ProcessId(0), ProcessId(0)), key.clone(), book, (1, 1)).expect("open");
    let mut b = opened(b, ProcessId(1), key, vec![Some(card_a), None, None], 1);
    let mut seen = Seen::default();
    run(&mut a, &mut b, &mut seen, |a, _, seen| {
        if seen.packets[1].is_empty() {
            let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
        }
        !seen.packets[1].is_empty()
    });
    let counts: Vec<usize> =
        counted.1.iter().map(|count| count.load(std::sync::atomic::Ordering::Relaxed)).collect();
    assert!(counts[1] > 0 && counts[2] == 0, "{counts:?}");
    assert!(!a.rails_to(ProcessId(2)).is_empty() && a.rails_to(ProcessId(0)).is_empty());
    assert!(a.rails_to(ProcessId(3)).is_empty());
}

#[test]
fn simultaneous_dials_end_with_one_connection_per_rail() {
    for _ in 0..20 {
        let (mut a, mut b, _) = pair(2);
        let mut seen = Seen::default();
        let mut sent = [[false; 2]; 2];
        run(&mut a, &mut b, &mut seen, |a, b, seen| {
            for (rail, [by_a, by_b]) in sent.iter_mut().enumerate() {
                let number = Rail(1 + rail as u8);
                *by_a = *by_a || a.send(number, ProcessId(1), b"a", NO_PAYLOAD).is_ok();
                *by_b = *by_b || b.send(number, ProcessId(0), b"b", NO_PAYLOAD).is_ok();
            }
            seen.packets[0].len() == 2 && seen.packets[1].len() == 2
        });
        for events in &seen.events {
            let ups = events.iter().filter(|event| matches!(event, Event::RailUp(..))).count();
            let downs = events.iter().filter(|event| matches!(event, Event::RailDown(..))).count();
            assert_eq!((ups, downs), (2, 0), "{events:?}");
        }
    }
}

#[test]
fn one_interface_serves_every_one_of_a_peer_that_has_more() {
    let (mut a, mut b, _) = pair_with([1, 3], [Key::new([1; 32]), Key::new([1; 32])]);
    assert_eq!(a.rails_to(ProcessId(1)).iter().count(), 3);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events[0].len() == 3 && seen.events[1].len() == 3);
    assert!(seen.events.iter().flatten().all(|event| matches!(event, Event::RailUp(..))));
}

#[test]
fn a_process_with_another_key_never_gets_in() {
    let (mut a, mut b, _) = pair_with([1, 1], [Key::new([1; 32]), Key::new([2; 32])]);
    let mut seen = Seen::default();
    run(&mut a, &mut b, &mut seen, |a, b, seen| {
        assert!(a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD).is_err());
        assert!(b.send(Rail(1), ProcessId(0), b"x", NO_PAYLOAD).is_err());
        !seen.events[0].is_empty() && !seen.events[1].is_empty()
    });
    assert_eq!(seen.events[0], [Event::RailDown(Rail(1), ProcessId(1))]);
}

#[test]
fn a_connection_that_breaks_is_reported_and_made_anew() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    for round in 0..5 {
        // Silence found at one side: it drops the connection, without a report there.
        let (one, other) = if round % 2 == 0 { (&mut a, 1) } else { (&mut b, 0) };
        one.reset(Rail(1), ProcessId(other));
        let want = 2 + round;
        run(&mut a, &mut b, &mut seen, |_, _, seen| {
            seen.events.iter().all(|events| {
                events.iter().filter(|event| matches!(event, Event::RailUp(..))).count() == want
            })
        });
    }
    let mut number = 0..1u32;
    run(&mut a, &mut b, &mut seen, |a, _, seen| {
        send_all(a, Rail(1), ProcessId(1), &mut number);
        !seen.packets[1].is_empty()
    });
}

#[test]
fn a_gap_paces_the_connection_that_is_and_those_to_come() {
    let (mut a, mut b, _) = pair(1);
    let full = a.rails()[0].bandwidth_bytes_per_s;
    let rate = |device: &mut Tcp| sys::pacing_rate(socket_to(device, 1).as_fd());
    let come_up = |a: &mut Tcp, b: &mut Tcp| {
        let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
        let mut seen = Seen::default();
        run(a, b, &mut seen, |_, _, seen| {
            seen.events.iter().all(|events| events.iter().any(|event| matches!(event, Event::RailUp(..))))
        });
    };
    let half = Gap { milli_packets: 1_000 };
    a.set_gap(Rail(1), ProcessId(1), half);
    come_up(&mut a, &mut b);
    assert_eq!(rate(&mut a), full / 2);
    a.set_gap(Rail(1), ProcessId(1), Gap::NONE);
    assert_eq!(rate(&mut a), u64::MAX);
    a.set_gap(Rail(1), ProcessId(1), Gap { milli_packets: 3_000 });
    a.reset(Rail(1), ProcessId(1));
    come_up(&mut a, &mut b);
    assert_eq!(rate(&mut a), full / 4);
    assert!(b.peer(ProcessId(0)).is_some_and(|peer| peer.paces == [u64::MAX]), "the far end has no gap");
    a.set_gap(Rail(1), ProcessId(1), Gap { milli_packets: u32::MAX });
    assert!(rate(&mut a) > 0, "it is not silent for ever");
    // A rail or a process that is not there.
    a.set_gap(Rail(0), ProcessId(1), half);
    a.set_gap(Rail(9), ProcessId(1), half);
    a.set_gap(Rail(1), ProcessId(7), half);
}

#[test]
fn process_that_dies_is_gone_and_one_that_says_goodbye_left() {
    for says_goodbye in [false, true] {
        let (mut a, mut b, card) = pair(2);
        let mut seen = Seen::default();
        let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
        run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 2));
        if says_goodbye {
            b.detach(Duration::from_secs(1));
            let endpoint = card.endpoints[0].sockets().next().expect("an endpoint");
            assert!(TcpStream::connect(endpoint).is_err(), "its listeners are closed");
        }
        drop(b);
        let (gone, left) = (Event::PeerGone(ProcessId(1)), Event::PeerLeft(ProcessId(1)));
        let (mut events, begin) = (Vec::new(), Instant::now());
        while begin.elapsed() < LIMIT && !events.contains(&gone) && !events.contains(&left) {
            events.extend(a.poll());
        }
        if says_goodbye {
            assert_eq!(events, [left], "both rails have ended, and it is told once");
        } else {
            assert!(events.contains(&gone), "{events:?}");
        }
    }
}

/// Sleeps until the process is told to be gone: all events.
fn until_gone(device: &mut Tcp, process: ProcessId) -> Vec<Event> {
    let deadline = Instant::now() + LIMIT;
    let mut events = Vec::new();
    while !events.contains(&Event::PeerGone(process)) {
        assert!(Instant::now() < deadline, "not told: {events:?}");
        if device.arm() == Armed::Armed {
            device.wait(Some(LIMIT));
        }
        events.extend(std::iter::from_fn(|| device.poll()));
    }
    events
}

#[test]
fn a_process_never_met_is_gone_for_one_that_waits_for_it() {
    let (mut a, b, _) = pair(1);
    // Its listeners close; no process has communicated with it.
    drop(b);
    assert!(a.poll().is_none());
    a.expect_long(ProcessId(1));
    a.expect_long(ProcessId(1));
    let events = until_gone(&mut a, ProcessId(1));
    let gone_count = events.iter().filter(|event| matches!(event, Event::PeerGone(_))).count();
    assert_eq!(gone_count, 1, "{events:?}");
    let obstacle = a.obstacles().to(ProcessId(1)).expect("dials have failed").to_string();
    assert!(obstacle.starts_with("from 127.7.0.1 to 127.7.0.2:"), "{obstacle}");
    assert!(obstacle.contains(": Connection refused"), "{obstacle}");
}

#[test]
fn a_process_whose_port_another_has_got_is_gone() {
    let a = Wireup::listen_on(quick(), interfaces(1, 1)).expect("listen");
    let b = Wireup::listen_on(quick(), interfaces(2, 1)).expect("listen");
    let (card_a, card_b) = (a.card(0, 1), b.card(1, 1));
    // There is process 2 where 1 is said to be.
    let key = || Key::new([1; 32]);
    let cards = vec![None, Some(card_b.clone()), Some(card_b)];
    let mut a = opened(a, ProcessId(0), key(), cards, 1);
    let mut other = opened(b, ProcessId(2), key(), vec![Some(card_a), None, None], 1);
    a.expect_long(ProcessId(1));
    // Its rail is down with the first refusal, the process gone after some.
    let events = [Event::RailDown(Rail(1), ProcessId(1)), Event::PeerGone(ProcessId(1))];
    assert_eq!(until_gone(&mut a, ProcessId(1)), events);
    let obstacle = a.obstacles().to(ProcessId(1)).expect("dials have failed").to_string();
    assert!(obstacle.ends_with("no process of this job answered"), "{obstacle}");
    // The one that is there can be talked to.
    let mut seen = Seen::default();
    let mut number = 0..1u32;
    run(&mut a, &mut other, &mut seen, |a, _, seen| {
        send_all(a, Rail(1), ProcessId(2), &mut number);
        !seen.packets[1].is_empty()
    });
}

#[test]
fn a_leaving_peer_has_left_when_its_last_rail_is_given_up() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    // The goodbye comes, and the end does not.
    for connection in b.connections.iter_mut().flatten() {
        connection.say_goodbye();
    }
    run(&mut a, &mut b, &mut seen, |a, _, _| a.peer(ProcessId(1)).is_some_and(|peer| peer.is_leaving));
    a.reset(Rail(1), ProcessId(1));
    assert_eq!(a.poll(), Some(Event::PeerLeft(ProcessId(1))));
}

#[test]
fn a_process_that_is_waited_for_long_is_connected() {
    let (mut a, mut b, _) = pair(1);
    a.expect_long(ProcessId(1));
    let mut seen = Seen::default();
    run(&mut a, &mut b, &mut seen, |_, _, seen| {
        seen.events.iter().all(|events| events.iter().any(|event| matches!(event, Event::RailUp(..))))
    });
    assert!(!seen.events[0].contains(&Event::PeerGone(ProcessId(1))), "{:?}", seen.events);
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let mut numbers = 0..2000u32;
    run(&mut a, &mut b, &mut seen, |a, _, _| {
        send_all(a, Rail(1), ProcessId(1), &mut numbers);
        numbers.is_empty()
    });
    let leaving = std::thread::spawn(move || a.detach(Duration::from_secs(5)));
    let begin = Instant::now();
    while seen.packets[1].len() < 2000 && begin.elapsed() < LIMIT {
        while let Some(event) = b.poll() {
            if let Event::Packet(incoming) = event {
                seen.packets[1].push(b.packet(&incoming).header.to_vec());
                b.release(incoming);
            }
        }
    }
    leaving.join().expect("left");
    assert_eq!(seen.packets[1].len(), 2000);
}

#[test]
fn what_the_kernel_has_no_room_for_is_told_until_it_has() {
    let (mut a, mut b, _) = pair(1);
    let (mut seen, payload) = (Seen::default(), vec![7; 100_000]);
    let send = |a: &mut Tcp| a.send(Rail(1), ProcessId(1), b"long", [Piece::Bytes(&payload), Piece::EMPTY]);
    run(&mut a, &mut b, &mut seen, |a, _, _| send(a).is_ok());
    a.flush();
    assert!(!a.may_hold() && a.is_flushed(), "one packet fits");
    while send(&mut a).is_ok() {
        a.flush();
    }
    assert!(a.may_hold() && !a.is_flushed(), "nobody reads");
    run(&mut a, &mut b, &mut seen, |a, _, _| !a.may_hold());
    assert!(a.is_flushed());
}

#[test]
fn a_process_that_leaves_waits_for_those_that_read() {
    for patience in [Duration::ZERO, LIMIT] {
        let (mut a, mut b, _) = pair(1);
        let (mut seen, payload) = (Seen::default(), vec![7; 60_000]);
        let send =
            |a: &mut Tcp| a.send(Rail(1), ProcessId(1), b"long", [Piece::Bytes(&payload), Piece::EMPTY]);
        run(&mut a, &mut b, &mut seen, |a, _, _| send(a).is_ok());
        let mut sent_count = 1;
        while send(&mut a).is_ok() || a.send(Rail(1), ProcessId(1), b"short", NO_PAYLOAD).is_ok() {
            sent_count += 1;
        }
        assert!(!a.is_flushed(), "nobody reads");
        let leaving = std::thread::spawn(move || a.detach(patience));
        if patience == Duration::ZERO {
            leaving.join().expect("it does not wait at all");
            continue;
        }
        let mut received_count = seen.packets[1].len();
        loop {
            match b.poll() {
                Some(Event::Packet(incoming)) => {
                    received_count += 1;
                    b.release(incoming);
                }
                Some(Event::PeerLeft(_)) => break,
                _ => std::thread::yield_now(),
            }
        }
        leaving.join().expect("left");
        assert_eq!(received_count, sent_count);
    }
}

#[test]
fn only_what_is_not_known_of_a_process_is_asked_for() {
    let (mut a, _b, _) = pair(1);
    let states = [(0, false, false), (NONE, true, false), (NONE, false, true), (NONE, false, false)];
    for (last, is_wanted, is_over) in states {
        let peer = a.peer_mut(ProcessId(1)).expect("a peer");
        (peer.last, peer.is_wanted, peer.is_over) = (last, is_wanted, is_over);
        a.expect_long(ProcessId(1));
        let is_unknown = last == NONE && !is_wanted && !is_over;
        assert_eq!(a.peer(ProcessId(1)).map(|peer| peer.is_awaited), Some(is_unknown));
    }
}

/// Sends a packet from `b` to `a`, which polls until it has it; in how many polls.
fn hand_over(a: &mut Tcp, b: &mut Tcp, bytes: &[u8]) -> u32 {
    b.send(Rail(1), ProcessId(0), bytes, NO_PAYLOAD).expect("there is room");
    let (mut seen, mut polls_count) = (Seen::default(), 0);
    run(a, b, &mut seen, |_, _, seen| {
        polls_count += 1;
        !seen.packets[0].is_empty()
    });
    assert_eq!(seen.packets[0], [bytes]);
    polls_count
}

#[test]
fn a_connection_read_alone_is_read_for_other_receives_too() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    for hint in [None, Some(ProcessId(0)), Some(ProcessId(7))] {
        a.expect(Some(ProcessId(1)));
        for number in 0..10 * STREAK {
            hand_over(&mut a, &mut b, &number.to_le_bytes());
        }
        assert!(a.solo != NONE, "nothing else has come for long");
        a.expect(hint);
        a.polls_count = 0;
        hand_over(&mut a, &mut b, b"unexpected");
        assert!(a.polls_count < WATCH_AGAIN / 2, "all are looked at after a few polls");
    }
    let read_alone = |a: &mut Tcp, b: &mut Tcp| {
        a.expect(Some(ProcessId(1)));
        for number in 0..10 * STREAK {
            hand_over(a, b, &number.to_le_bytes());
        }
        assert!(a.solo != NONE);
    };
    // What waits for room waits for the kernel's word.
    read_alone(&mut a, &mut b);
    let payload = vec![7; 60_000];
    while a.send(Rail(1), ProcessId(1), b"long", [Piece::Bytes(&payload), Piece::EMPTY]).is_ok() {}
    while a.solo != NONE {
        assert_eq!(a.poll(), None);
    }
    run(&mut a, &mut b, &mut seen, |a, _, _| a.is_flushed());
    read_alone(&mut a, &mut b);
    a.reset(Rail(1), ProcessId(1));
    assert_eq!(a.solo, NONE, "it is no more");
}

#[test]
fn a_connection_to_a_process_that_has_left_is_not_kept() {
    let (mut a, _b, _) = pair(1);
    a.peer_mut(ProcessId(1)).expect("a peer").is_over = true;
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    a.on_up(ProcessId(1), Rail(1), 1, socket.into());
    assert!(a.connections.iter().all(Option::is_none) && a.events.is_empty());
    assert_eq!(a.peer(ProcessId(1)).map(|peer| peer.last), Some(NONE));
}

#[test]
fn a_sleeper_wakes_for_what_arrives() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    let (armed, is_armed) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let mut sleeps = 0;
        loop {
            while let Some(event) = b.poll() {
                if matches!(event, Event::Packet(_)) {
                    return sleeps;
                }
            }
            if b.arm() == Armed::Armed {
                let _ = armed.send(());
                b.wait(Some(LIMIT));
                sleeps += 1;
            }
        }
    });
    is_armed.recv().expect("it goes to sleep");
    a.send(Rail(1), ProcessId(1), b"wake", NO_PAYLOAD).expect("sent");
    let sleeps = sleeper.join().expect("woke");
    assert!((1..20).contains(&sleeps), "{sleeps} sleeps");
}

/// The connection's socket at `from`.
fn socket_to(from: &mut Tcp, peer: u32) -> &OwnedFd {
    &from.connection_to(ProcessId(peer), Rail(1)).expect("it is up").socket
}

#[test]
fn a_damaged_head_ends_its_connection_and_is_counted() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    let is_nodelay = |device: &mut Tcp, peer| rustix::net::sockopt::tcp_nodelay(socket_to(device, peer));
    assert_eq!((is_nodelay(&mut a, 1), is_nodelay(&mut b, 0)), (Ok(true), Ok(true)));
    assert_eq!(b.damaged_count(), 0);
    let sent = rustix::net::send(socket_to(&mut a, 1), &[0xff; 64], rustix::net::SendFlags::empty());
    assert_eq!(sent, Ok(64));
    // And it is made anew.
    let up = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::RailUp(..))).count();
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| up(events) == 2));
    assert!(seen.events[1].contains(&Event::RailDown(Rail(1), ProcessId(0))), "{:?}", seen.events);
    assert_eq!((a.damaged_count(), b.damaged_count()), (0, 1));
}

#[test]
fn processes_of_two_worlds_meet_by_their_cards() {
    let open = |host: u8, me: ProcessId| {
        let wireup = Wireup::listen_on(quick(), interfaces(host, 1)).expect("listen");
        let card = wireup.card(0, 1);
        let own_key = Key::new([host; 32]);
        let device = wireup.open((me, me), own_key, Arc::new(vec![None]), (1, 1)).expect("open");
        (device, card)
    };
    let ((mut a, card_a), (mut b, card_b)) = (open(1, ProcessId(0)), open(2, ProcessId(1)));
    assert!(a.rails_to(ProcessId(1)).is_empty());
    let key = Key::new([3; 32]);
    let unreachable = Card { endpoints: Vec::new(), ..card_b.clone() };
    let error = a.add_peer(ProcessId(1), unreachable, key.clone()).expect_err("no address").to_string();
    assert!(error.contains("none") && error.contains("lo0 (127.7.0.1/24)"), "{error}");
    a.add_peer(ProcessId(1), card_b, key.clone()).expect("they share a network");
    b.add_peer(ProcessId(0), card_a, key).expect("they share a network");
    let (mut seen, mut numbers) = (Seen::default(), 0..100u32);
    run(&mut a, &mut b, &mut seen, |a, _, seen| {
        send_all(a, Rail(1), ProcessId(1), &mut numbers);
        seen.packets[1].len() == 100
    });
}

#[test]
fn a_doorbell_wakes_once_for_what_was_written() {
    let (mut a, _b, _) = pair(1);
    let (bell, ring) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
    a.set_doorbell(bell).expect("watched");
    while a.wait(Some(Duration::ZERO)) {}
    for length in [1, 64, 65, 128] {
        rustix::io::write(&ring, &vec![1; length]).expect("written");
        assert!(a.wait(Some(LIMIT)), "{length}");
        assert!(!a.wait(Some(Duration::ZERO)), "it is read empty: {length}");
    }
}

#[test]
fn what_is_acknowledged_leaves_no_silence() {
    let (mut a, mut b, _) = pair(1);
    let mut seen = Seen::default();
    let _ = a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD);
    run(&mut a, &mut b, &mut seen, |_, _, seen| seen.events.iter().all(|events| events.len() == 1));
    assert_eq!(a.heard(Rail(2), ProcessId(1)), None);
    a.send(Rail(1), ProcessId(1), b"x", NO_PAYLOAD).expect("sent");
    run(&mut a, &mut b, &mut seen, |a, _, _| {
        a.heard(Rail(1), ProcessId(1)) == Some(CoreDuration::from_ms(0))
    });
}

// Strangers.

/// Bytes that come until the far end closes.
fn bytes_until_shown_out(mut stranger: TcpStream) -> usize {
    let _ = stranger.set_read_timeout(Some(HANG_LIMIT));
    let (mut bytes, mut count) = ([0; 4096], 0);
    loop {
        match stranger.read(&mut bytes) {
            Ok(0) => return count,
            Ok(more) => count += more,
            // With a limit a read is not taken up again after the process was stopped for a while.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return count,
            Err(error) => panic!("no stranger may stay: {error}"),
        }
    }
}

#[test]
fn strangers_get_nothing_and_disturb_no_peer() {
    let (mut a, mut b, card) = pair(1);
    let endpoint: SocketAddr = card.endpoints[0].sockets().next().expect("an endpoint");
    let dial = || TcpStream::connect(endpoint).expect("connected");
    let hello = Hello {
        from: ProcessId(0),
        to: ProcessId(1),
        from_interface: 0,
        to_interface: 0,
        epoch: 1,
        nonce: [9; 16],
    };
    let mut strangers = Vec::new();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n12345678901234567890".to_vec(),
        vec![0xff; 100_000],
        vec![0; HELLO_BYTES],
        // From no process, from itself, at another endpoint, from absent interfaces.
        Hello { from: ProcessId(9), ..hello }.emit().to_vec(),
        Hello { from: ProcessId(1), ..hello }.emit().to_vec(),
        Hello { to_interface: 3, ..hello }.emit().to_vec(),
        Hello { from_interface: 200, ..hello }.emit().to_vec(),
        Hello { from_interface: 1, ..hello }.emit().to_vec(),
        // For another process: a word that it is not here.
        Hello { to: ProcessId(0), ..hello }.emit().to_vec(),
        // A good hello, and a proof that is none; or cut short.
        [&hello.emit()[..], &[1; 32]].concat(),
        hello.emit()[..20].to_vec(),
    ] {
        let mut stranger = dial();
        let _ = stranger.write_all(&bytes);
        strangers.push(stranger);
    }
    // And the one that says nothing.
    strangers.push(dial());
    let mut seen = Seen::default();
    let mut numbers = 0..1000u32;
    run(&mut a, &mut b, &mut seen, |a, _, seen| {
        send_all(a, Rail(1), ProcessId(1), &mut numbers);
        seen.packets[1].len() == 1000
    });
    for (at, stranger) in strangers.into_iter().enumerate() {
        let bytes = bytes_until_shown_out(stranger);
        let is_answered = matches!(at, 8 | 9);
        assert_eq!(bytes, if is_answered { handshake::CHALLENGE_BYTES } else { 0 }, "{at}");
    }
    let all = seen.events.iter().flatten();
    assert!(all.clone().all(|event| matches!(event, Event::RailUp(..))), "{:?}", seen.events);
}

#[test]
fn a_replayed_conversation_is_refused() {
    // Records the bytes of an honest dialler through a listener.
    let (mut a, mut b, card) = pair(1);
    let endpoint: SocketAddr = card.endpoints[0].sockets().next().expect("an endpoint");
    let key = Key::new([1; 32]);
    let hello = Hello {
        from: ProcessId(0),
        to: ProcessId(1),
        from_interface: 0,
        to_interface: 0,
        epoch: 1,
        nonce: [3; 16],
    };
    let converse = |recorded: Option<[u8; 32]>| {
        let mut stream = TcpStream::connect(endpoint).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("timeout");
        stream.write_all(&hello.emit()).expect("hello");
        let mut challenge = [0; handshake::CHALLENGE_BYTES];
        stream.read_exact(&mut challenge).expect("challenge");
        let proof = recorded.or_else(|| handshake::prove(&key, &hello.emit(), &challenge)).expect("proof");
        stream.write_all(&proof).expect("proof sent");
        let mut verdict = [0; handshake::VERDICT_BYTES];
        (stream.read_exact(&mut verdict).is_ok(), proof)
    };
    let (is_admitted, recorded) = converse(None);
    assert!(is_admitted, "a caller with the key is admitted");
    assert!(!converse(Some(recorded)).0, "a replay was admitted");
    let mut seen = Seen::default();
    run(&mut a, &mut b, &mut seen, |_, _, seen| !seen.events[1].is_empty());
}

#[test]
fn a_caller_may_take_its_time_between_bytes() {
    let timing = Timing { handshake: LIMIT, ..Timing::default() };
    let keys = [Key::new([1; 32]), Key::new([1; 32])];
    let (_a, _b, card) = pair_by(Settings { timing, ..Settings::default() }, [1, 1], keys);
    let endpoint: SocketAddr = card.endpoints[0].sockets().next().expect("an endpoint");
    let key = Key::new([1; 32]);
    let nonce = [5; 16];
    let (from, to) = (ProcessId(0), ProcessId(1));
    let hello = Hello { from, to, from_interface: 0, to_interface: 0, epoch: 1, nonce }.emit();
    let mut stream = TcpStream::connect(endpoint).expect("connected");
    stream.set_nodelay(true).expect("no delay");
    let write_slowly = |stream: &mut TcpStream, bytes: &[u8]| {
        for part in bytes.chunks(16) {
            stream.write_all(part).expect("written");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    write_slowly(&mut stream, &hello);
    let mut challenge = [0; handshake::CHALLENGE_BYTES];
    stream.read_exact(&mut challenge).expect("challenge");
    let proof = handshake::prove(&key, &hello, &challenge).expect("proof");
    write_slowly(&mut stream, &proof);
    let mut verdict = [0; handshake::VERDICT_BYTES];
    stream.read_exact(&mut verdict).expect("verdict");
    assert!(handshake::parse_verdict(&key, &verdict, &hello, &challenge).is_some());
}

#[test]
fn callers_that_say_nothing_keeps_no_honest_caller_out() {
    let (mut a, mut b, card) = pair(1);
    let endpoint: SocketAddr = card.endpoints[0].sockets().next().expect("an endpoint");
    let occupancy: Vec<_> = (0..200).map(|_| TcpStream::connect(endpoint)).collect();
    let mut seen = Seen::default();
    let mut numbers = 0..100u32;
    run(&mut a, &mut b, &mut seen, |a, _, seen| {
        send_all(a, Rail(1), ProcessId(1), &mut numbers);
        seen.packets[1].len() == 100
    });
    drop(occupancy);
}

#[test]
fn listeners_are_on_the_rails_addresses_only() {
    let wireup = Wireup::listen_on(quick(), interfaces(1, 2)).expect("listen");
    let card = wireup.card(0, 1);
    for (place, endpoint) in card.endpoints.iter().enumerate() {
        let socket = endpoint.sockets().next().expect("an endpoint");
        assert_eq!(socket.ip(), IpAddr::from([127, 7, place as u8, 1]));
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, socket.port())).is_err());
    }
}

#[test]
fn ports_come_from_the_range_and_run_out_with_words() {
    let range = PortRange { first: 43_210, last: 43_210 };
    let settings = Settings { ports: Some(range), ..quick() };
    let first = Wireup::listen_on(settings.clone(), interfaces(7, 1)).expect("listen");
    assert_eq!(first.card(0, 1).endpoints[0].addresses[0].1, 43_210);
    let Err(error) = Wireup::listen_on(settings, interfaces(7, 1)) else { panic!("twice") };
    assert!(error.to_string().contains("AYATORI_PORTS"), "{error}");
}
