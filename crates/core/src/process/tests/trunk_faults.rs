//! Situations of links in trunk mode, by name: each was found by reading or by the simulator's fault runs.

use super::net::memory;
use super::trunk::{exchange, mbit, ms};
use super::wire::{Line, Mood, Wire, tcp};
use crate::Error;
use crate::buffer::{Buffer, NO_PAYLOAD};
use crate::comm::Communicator;
use crate::device::{Device, Event, RailCapabilities};
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rail, RequestId, Source, TagSelector};
use crate::layout::{Layout, Region};
use crate::link::TrunkConfig;
use crate::process::Config;
use crate::request::{Posted, SendMode};
use crate::rma::{Memory, WindowId};
use crate::time::Duration;
use crate::wire::trunk::{Ack, Body, Seen, TrunkHeader};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

fn pending(posted: Posted) -> RequestId {
    match posted {
        Posted::Pending(id) => id,
        Posted::Done(completion) => panic!("done at once: {completion:?}"),
    }
}

fn impatient() -> Config {
    let trunk = TrunkConfig { peer_timeout: Duration::from_s(2), ..TrunkConfig::default() };
    Config { trunk, ..Config::default() }
}

fn set_all(wire: &mut Wire, mood: Mood) {
    let lines = wire.shared.borrow().lines.clone();
    for (rail, line) in lines.into_iter().enumerate() {
        wire.set_line(rail, Line { mood, ..line });
    }
}

/// A message each way, so that both sides have a link.
fn acquaint(wire: &mut Wire) {
    exchange(wire, &mut Random::new(1), 1, ms(5_000), "acquaintance");
    wire.run_until(wire.now() + Duration::from_ms(100));
}

/// Two impatient processes with two rails, and a link on both sides.
fn acquainted(rail: RailCapabilities) -> Wire {
    let (lines, _) = mbit(&[1000, 1000]);
    let mut wire = Wire::with(lines, rail, impatient(), 1);
    acquaint(&mut wire);
    wire
}

#[test]
fn a_process_never_asks_to_be_called_at_a_time_that_is_past() {
    let (mut lines, _) = mbit(&[1000, 1000]);
    lines.iter_mut().for_each(|line| line.damage_one_in = 5);
    let mut wire = Wire::new(lines, 3);
    let buffer = Buffer::virtual_of(1 << 20);
    let (sent, received) = (wire.send(0, buffer, 1), wire.receive(1, buffer, 1));
    while wire.step(ms(500)) {
        let now = wire.now();
        for (process, port) in &mut wire.nodes {
            process.handle_timeout(now);
            while process.progress(port) {}
            let due = process.poll_timeout();
            assert!(due.is_none_or(|due| due > now), "called at {now:?}, asks for {due:?}");
        }
    }
    assert!(wire.take(0, pending(sent)).is_some() && wire.take(1, pending(received)).is_some());
}

#[test]
fn a_process_is_not_quiet_while_its_data_is_under_way() {
    for put in [false, true] {
        let (lines, _) = mbit(&[1000, 500]);
        let mut wire = Wire::with(lines, RailCapabilities { put, ..tcp() }, Config::default(), 1);
        let buffer = Buffer::virtual_of(4 << 20);
        let (sent, _) = (pending(wire.send(0, buffer, 1)), wire.receive(1, buffer, 1));
        while wire.step(ms(1_000)) {
            let process = &wire.nodes[0].0;
            assert!(process.is_complete(sent) || !process.is_quiet(), "at {:?}", wire.now());
        }
        assert!(wire.nodes[0].0.is_quiet());
    }
}

#[test]
fn a_receive_alone_finds_out_that_nothing_comes_any_more() {
    let mut wire = acquainted(tcp());
    let received = pending(wire.receive(1, Buffer::virtual_of(100), 1));
    set_all(&mut wire, Mood::Silent);
    // It asks within half the time, believes the silence after another half, and then gives the peer up.
    wire.run_until(wire.now() + Duration::from_ms(2_000 / 2 + 2_000 / 2 + 2_000 + 200));
    let error = wire.take(1, received).expect("ended in time").error;
    assert_eq!(error, Some(Error::Unreachable(ProcessId(0))));
}

#[test]
fn a_probe_alone_finds_out_that_nothing_comes_any_more() {
    let mut wire = acquainted(tcp());
    let probe =
        wire.nodes[1].0.begin_probe(CommId::WORLD, Source::Rank(0)).unwrap().expect("no null process");
    set_all(&mut wire, Mood::Silent);
    // As long as a receive.
    wire.run_until(wire.now() + Duration::from_ms(2_000 / 2 + 2_000 / 2 + 2_000 + 200));
    let process = &mut wire.nodes[1].0;
    let end = process.iprobe(CommId::WORLD, Source::Rank(0), TagSelector::Any);
    assert_eq!(end, Err(Error::Unreachable(ProcessId(0))));
    process.end_probe(probe);
}

/// A long message over these rails, of which some lose long packets: its errors after `seconds`.
fn long_message(passes_bytes_max: [usize; 2], seconds: u64) -> Option<[Option<Error>; 2]> {
    let mut wire = acquainted(tcp());
    for (rail, passes_bytes_max) in passes_bytes_max.into_iter().enumerate() {
        let line = wire.shared.borrow().lines[rail];
        wire.set_line(rail, Line { passes_bytes_max, ..line });
    }
    let buffer = Buffer::virtual_of(1 << 20);
    let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
    wire.run_until(wire.now() + Duration::from_s(seconds));
    Some([wire.take(0, sent)?.error, wire.take(1, received)?.error])
}

#[test]
fn a_peer_that_no_long_packet_reaches_is_given_up_in_time() {
    // The rails fall silent after a second at most and are back at once; that is borne for twice the two
    // seconds.
    let errors = long_message([1_400; 2], 1 + 2 * 2 + 1 + 2).expect("ended in time");
    assert_eq!(errors, [1, 0].map(|peer| Some(Error::Unreachable(ProcessId(peer)))));
}

#[test]
fn a_rail_that_loses_long_packets_is_no_loss_of_the_peer() {
    assert_eq!(long_message([1_400, usize::MAX], 10), Some([None; 2]));
}

#[test]
fn a_rail_that_stays_up_shows_that_its_peer_computes() {
    let mut wire = acquainted(tcp());
    let (start, line) = (wire.now(), wire.shared.borrow().lines[0]);
    wire.set_line(0, Line { passes_bytes_max: 1_400, ..line });
    wire.shared.borrow_mut().knows_network = true;
    wire.away_until[1] = start + Duration::from_s(60);
    for number in 0..58 {
        wire.run_until(start + Duration::from_s(number));
        for _ in 0..2 {
            assert!(matches!(wire.send(0, Buffer::virtual_of(2 << 10), 1), Posted::Done(_)));
        }
    }
    wire.run_until(start + Duration::from_s(59));
    let resets_count = wire.shared.borrow().resets.len();
    assert!(resets_count > 20, "the bad rail has fallen silent {resets_count} times");
    assert_eq!(wire.nodes[0].0.poll_event(), None, "the peer is not given up");
    wire.run_until(start + Duration::from_s(62));
    assert!(wire.nodes[0].0.is_quiet(), "it has all");
}

fn receive_from_any_source(wire: &mut Wire, at: usize, comm: CommId) -> RequestId {
    let (process, port) = &mut wire.nodes[at];
    pending(process.irecv(port, comm, Buffer::virtual_of(8), Source::Any, TagSelector::Any).unwrap())
}

#[test]
fn no_sender_waits_for_acknowledgements_of_a_peer_that_left() {
    let mut wire = acquainted(tcp());
    let anybody = receive_from_any_source(&mut wire, 0, CommId::WORLD);
    let from_it = pending(wire.receive(0, Buffer::virtual_of(8), 7));
    set_all(&mut wire, Mood::Silent);
    assert!(matches!(wire.send(0, Buffer::virtual_of(8), 1), Posted::Done(_)));
    wire.run_until(wire.now() + Duration::from_ms(1));
    let (process, port) = &mut wire.nodes[0];
    assert!(!process.is_quiet());
    process.handle_event(port, Event::PeerLeft(ProcessId(1)));
    assert!(process.is_quiet());
    assert_eq!(process.poll_event(), None, "an end in order is no loss");
    let error =
        process.isend(port, CommId::WORLD, Buffer::virtual_of(8), 1, 1, crate::request::SendMode::Standard);
    assert_eq!(error.err(), Some(Error::Unreachable(ProcessId(1))));
    wire.run_until(wire.now() + Duration::from_s(10));
    assert_eq!(wire.nodes[0].0.poll_event(), None, "nor is it one later");
    assert_eq!(wire.take(0, from_it).unwrap().error, Some(Error::Unreachable(ProcessId(1))));
    assert!(wire.take(0, anybody).is_none(), "another may send it");
}

#[test]
fn long_message_is_over_when_its_receiver_left_with_it() {
    for put in [false, true] {
        let (lines, _) = mbit(&[1000, 500]);
        let mut wire = Wire::with(lines, RailCapabilities { put, ..tcp() }, Config::default(), 1);
        let buffer = Buffer::virtual_of(1 << 20);
        let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
        while !wire.nodes[1].0.is_complete(received) {
            assert!(wire.step(ms(1_000)));
        }
        assert!(!wire.nodes[0].0.is_complete(sent), "its acknowledgement is on its way");
        let (process, port) = &mut wire.nodes[0];
        process.handle_event(port, Event::PeerLeft(ProcessId(1)));
        assert_eq!(wire.take(0, sent).unwrap().error, None);
    }
}

#[test]
fn puts_of_pieces_to_a_peer_that_left_are_over() {
    let (lines, _) = mbit(&[100, 100]);
    let mut wire = Wire::with(lines, RailCapabilities { put: true, ..tcp() }, Config::default(), 1);
    let layout = Layout::bytes(1_000).resized(0, 1_001).unwrap();
    let pieces = Buffer::leaked(layout.span(4_000).unwrap().len);
    let region = Region::new(layout, 4_000, pieces).unwrap();
    let (process, port) = &mut wire.nodes[0];
    let sent = process.isend(port, CommId::WORLD, region, 1, 1, SendMode::Standard);
    let (sent, _) = (pending(sent.unwrap()), wire.receive(1, Buffer::virtual_of(4_000_000), 1));
    wire.run_until(ms(20));
    let (process, port) = &mut wire.nodes[0];
    assert!(process.counts().operations > 0, "puts are under way");
    process.handle_event(port, Event::PeerLeft(ProcessId(1)));
    assert_eq!(process.take(sent).unwrap().unwrap().error, Some(Error::Unreachable(ProcessId(1))));
    assert_eq!((process.counts().requests, process.counts().operations), (0, 0));
}

#[test]
fn any_source_receive_fails_only_with_its_communicators_members() {
    let mut wire = acquainted(tcp());
    let [own, world] = [CommId::SELF, CommId::WORLD].map(|comm| receive_from_any_source(&mut wire, 0, comm));
    let (process, port) = &mut wire.nodes[0];
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    assert_eq!(process.lost_in(CommId::SELF), None);
    assert_eq!(process.lost_in(CommId::WORLD), Some(Error::ProcessAborted(ProcessId(1))));
    assert!(wire.take(0, own).is_none(), "the lost one could not have sent it");
    assert_eq!(wire.take(0, world).unwrap().error, Some(Error::ProcessAborted(ProcessId(1))));
}

#[test]
fn a_wait_for_a_lock_finds_out_that_nothing_comes_any_more() {
    let mut wire = acquainted(tcp());
    for me in 0..2 {
        let process = &mut wire.nodes[me].0;
        let group = Group::world(2);
        let made = Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32);
        let comm = process.add_comm(made);
        assert!(process.windows().add(comm, Memory::Fixed(Buffer::virtual_of(8))).is_ok());
    }
    // The owner has the lock, and the other waits for it.
    let [held, waiting] = [0, 1].map(|me| {
        let (process, port) = &mut wire.nodes[me];
        let locked = pending(process.windows().lock(port, WindowId(0), vec![0], true).unwrap());
        wire.run_until(wire.now() + Duration::from_ms(100));
        locked
    });
    assert_eq!(wire.take(0, held).map(|completion| completion.error), Some(None));
    set_all(&mut wire, Mood::Silent);
    wire.run_until(wire.now() + Duration::from_ms(2_000 / 2 + 2_000 / 2 + 2_000 + 200));
    let error = wire.take(1, waiting).expect("ended in time").error;
    assert_eq!(error, Some(Error::Unreachable(ProcessId(0))));
}

#[test]
fn a_peer_that_was_given_up_and_does_not_know_is_told() {
    let mut wire = acquainted(tcp());
    let start = wire.now();
    let buffer = Buffer::virtual_of(1 << 20);
    let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 2)));
    // One side computes through the cut and the return of all rails, and sees them at once.
    wire.away_until[1] = start + Duration::from_s(6);
    set_all(&mut wire, Mood::Cut);
    wire.run_until(start + Duration::from_s(4));
    assert_eq!(wire.take(0, sent).unwrap().error, Some(Error::Unreachable(ProcessId(1))));
    set_all(&mut wire, Mood::Works);
    wire.run_until(start + Duration::from_s(8));
    let error = wire.take(1, received).expect("told").error;
    assert_eq!(error, Some(Error::Unreachable(ProcessId(0))));
}

#[test]
fn only_a_correct_packet_of_a_peer_given_up_is_answered() {
    let mut wire = acquainted(tcp());
    let (process, port) = &mut wire.nodes[0];
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    let answers = |wire: &mut Wire, packet: &[u8]| {
        let before = wire.shared.borrow().given_count;
        wire.nodes[1].1.send(Rail(0), ProcessId(0), packet, NO_PAYLOAD).unwrap();
        wire.run_until(wire.now() + Duration::from_ms(1));
        wire.shared.borrow().given_count - before - 1
    };
    assert_eq!(answers(&mut wire, &[0xff; 8]), 0, "it is none");
    let ack = Ack { largest: 0, seen: Seen::Run(1), delay: Duration(0) };
    let packet = TrunkHeader { number: 1_000, ack_now: false, ack, body: Body::Ack };
    assert_eq!(answers(&mut wire, packet.emit().as_slice()), 1);
}

#[test]
fn rarely_polled_process_reads_all_input_before_judging_peers() {
    let mut wire = acquainted(tcp());
    let (start, small) = (wire.now(), Buffer::virtual_of(8));
    // What the peer sends before it has the message acknowledges nothing of it, and is more than one round
    // reads.
    let _ = wire.send(1, small, 1);
    for _ in 0..1_000 {
        let _ = wire.send(0, small, 2);
    }
    wire.away_until[1] = start + Duration::from_s(20);
    wire.run_until(start + Duration::from_ms(50));
    wire.away_until[0] = start + Duration::from_s(20);
    for look in 1..=5 {
        wire.run_until(start + Duration::from_s(3 * look));
        let now = wire.now();
        let (process, port) = &mut wire.nodes[1];
        process.handle_timeout(now);
        process.progress(port);
        assert_eq!(process.poll_event(), None, "look {look}");
        assert_eq!(wire.shared.borrow().resets, [], "look {look}");
    }
    wire.run_until(start + Duration::from_s(21));
    assert!(wire.nodes[1].0.is_quiet(), "the acknowledgement is read");
}

#[test]
fn suspended_process_finds_a_silent_peer_while_others_send() {
    let mut wire = acquainted(tcp());
    let _ = wire.receive(1, Buffer::virtual_of(100), 1);
    set_all(&mut wire, Mood::Silent);
    let back = wire.now() + Duration::from_s(1);
    for ms in 0..80_000 {
        wire.flood(1);
        let (process, port) = &mut wire.nodes[1];
        process.handle_timeout(back + Duration::from_ms(ms));
        process.progress(port);
        if process.poll_event().is_some() {
            return;
        }
    }
    panic!("its peer is never given up");
}

#[test]
fn a_get_from_a_sender_that_has_given_up_ends_with_an_error() {
    let mut wire = acquainted(RailCapabilities { get: true, ..tcp() });
    let start = wire.now();
    let buffer = Buffer::virtual_of(1 << 20);
    let sent = pending(wire.send(0, buffer, 1));
    wire.run_until(start + Duration::from_ms(10));
    // The receiver has the message's envelope, and sees nothing of the time in which the sender waits and
    // gives up.
    wire.away_until[1] = start + Duration::from_s(6);
    set_all(&mut wire, Mood::Cut);
    wire.run_until(start + Duration::from_s(4));
    assert_eq!(wire.take(0, sent).unwrap().error, Some(Error::Unreachable(ProcessId(1))));
    set_all(&mut wire, Mood::Works);
    wire.run_until(start + Duration::from_s(5));
    let received = pending(wire.receive(1, buffer, 1));
    wire.run_until(start + Duration::from_s(8));
    assert!(wire.shared.borrow().missed > 0, "it has tried to get what is not there any more");
    assert_eq!(wire.take(1, received).unwrap().error, Some(Error::Unreachable(ProcessId(0))));
}

#[test]
fn puts_and_gets_that_a_silent_rail_has_swallowed_are_missed() {
    for (put, get) in [(true, false), (false, true)] {
        let (lines, _) = mbit(&[1000, 1000]);
        let rail = RailCapabilities { put, get, ..tcp() };
        let mut wire = Wire::with(lines.clone(), rail, Config::default(), 1);
        acquaint(&mut wire);
        let data: Vec<u8> = (0..4_000_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        let (room, bytes) = memory(vec![0; data.len()]);
        let (data, kept) = memory(data);
        let (sent, received) = (pending(wire.send(0, data, 1)), pending(wire.receive(1, room, 1)));
        wire.run_until(wire.now() + Duration::from_ms(2));
        wire.set_line(0, Line { mood: Mood::Silent, ..lines[0] });
        wire.run_until(wire.now() + Duration::from_s(8));
        assert!(wire.take(0, sent).is_some() && wire.take(1, received).is_some(), "put {put}, get {get}");
        assert_eq!(bytes, kept);
    }
}

#[test]
fn a_message_is_not_got_by_a_rail_that_is_out() {
    let (lines, _) = mbit(&[1000, 1000]);
    let mut wire = Wire::with(lines.clone(), RailCapabilities { get: true, ..tcp() }, Config::default(), 1);
    acquaint(&mut wire);
    for (rail, &line) in lines.iter().enumerate() {
        wire.set_line(rail, Line { mood: Mood::Cut, ..line });
        wire.run_until(wire.now() + Duration::from_ms(10));
        let buffer = Buffer::virtual_of(1 << 20);
        let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
        wire.run_until(wire.now() + Duration::from_s(1));
        assert!(wire.take(0, sent).is_some() && wire.take(1, received).is_some(), "rail {rail} is out");
        wire.set_line(rail, line);
        wire.run_until(wire.now() + Duration::from_ms(10));
    }
}

#[test]
fn messages_behind_one_that_has_ended_go_on() {
    let (lines, _) = mbit(&[1000, 1000]);
    let mut wire = Wire::new(lines, 1);
    let buffer = Buffer::virtual_of(8 << 20);
    let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
    wire.run_until(ms(5));
    let process = &mut wire.nodes[0].0;
    let index = process.messages.links.index_of(ProcessId(1)).unwrap();
    let link = process.messages.links.get_mut(index);
    assert_eq!(link.waiting_count(), 1, "it waits for room");
    // Transfers that waited in front of it, and whose units have come meanwhile.
    for ended in 0..10_000 {
        link.wait_for_room(RequestId { index: 1_000_000 + ended, generation: 0 }, true);
    }
    wire.run_until(ms(1_000));
    assert!(wire.take(0, sent).is_some() && wire.take(1, received).is_some());
}

#[test]
fn idle_link_with_loss_and_reordering_becomes_quiet() {
    let (mut lines, _) = mbit(&[1000; 4]);
    lines.iter_mut().for_each(|line| line.damage_one_in = 3);
    let rail = RailCapabilities { ordered: false, ..tcp() };
    for seed in 0..10 {
        let mut wire = Wire::with(lines.clone(), rail, Config::default(), seed);
        exchange(&mut wire, &mut Random::new(seed), 5, ms(20_000), "lossy");
        wire.run_until(wire.now() + Duration::from_s(5));
        for (process, _) in &wire.nodes {
            assert_eq!(process.poll_timeout(), None, "seed {seed}");
        }
    }
}

#[test]
fn puts_to_a_peer_that_dies_leave_nothing_behind() {
    let (lines, _) = mbit(&[100, 100]);
    let mut wire = Wire::with(lines, RailCapabilities { put: true, ..tcp() }, Config::default(), 1);
    let buffer = Buffer::virtual_of(4 << 20);
    let (sent, _) = (pending(wire.send(0, buffer, 1)), wire.receive(1, buffer, 1));
    wire.run_until(ms(20));
    let (process, port) = &mut wire.nodes[0];
    assert!(process.counts().operations > 0, "puts are under way");
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    assert_eq!(process.take(sent).unwrap().unwrap().error, Some(Error::ProcessAborted(ProcessId(1))));
    assert_eq!((process.counts().requests, process.counts().operations), (0, 0));
    assert!(process.is_quiet());
}

#[test]
fn round_trip_over_a_pause_does_not_delay_loss_detection() {
    let (lines, _) = mbit(&[1000]);
    let mut wire = Wire::new(lines.clone(), 1);
    let small = Buffer::virtual_of(8);
    // No process polls for ten seconds: the first round trip seems to take as long.
    let _ = wire.send(0, small, 1);
    wire.away_until = [ms(10_000); 2];
    wire.run_until(ms(10_100));
    wire.set_line(0, Line { damage_one_in: 1, ..lines[0] });
    let buffer = Buffer::virtual_of(1 << 20);
    let sent = pending(wire.send(0, buffer, 2));
    let received = pending(wire.receive(1, buffer, 2));
    wire.run_until(ms(10_110));
    wire.set_line(0, lines[0]);
    wire.run_until(ms(10_500));
    assert!(wire.take(0, sent).is_some() && wire.take(1, received).is_some(), "found within 0.4 s");
}
