//! Long messages: their ways, their order, and what is told of them.

use super::fronts::Fronts;
use super::net::{Net, Port, memory};
use super::trunk::{mbit, ms};
use super::wire::{Line, Mood, Wire, tcp};
use crate::Error;
use crate::bsend::BufferOwner;
use crate::buffer::{Buffer, NO_PAYLOAD, Piece};
use crate::comm::Communicator;
use crate::device::{Device, Event, Fetched, Gap, Incoming, RailCapabilities, RemoteKey};
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rail, RequestId, Source, TagSelector};
use crate::link::TrunkConfig;
use crate::process::{Config, Process};
use crate::request::{Posted, SendMode};
use crate::time::Duration;
use crate::wire::trunk::{Ack, Body, Seen, TrunkHeader, parse};
use crate::wire::{Envelope, Header, Keys, Prefix};
use alloc::vec;
use alloc::vec::Vec;

fn pending(posted: Posted) -> RequestId {
    match posted {
        Posted::Pending(id) => id,
        Posted::Done(completion) => panic!("done at once: {completion:?}"),
    }
}

fn send(net: &mut Net, buffer: Buffer) -> Posted {
    let (process, port) = &mut net.nodes[0];
    process.isend(port, CommId::WORLD, buffer, 1, 0, SendMode::Standard).unwrap()
}

fn receive(net: &mut Net, buffer: Buffer) -> Posted {
    let (process, port) = &mut net.nodes[1];
    process.irecv(port, CommId::WORLD, buffer, Source::Rank(0), TagSelector::Any).unwrap()
}

#[test]
fn a_short_message_without_credit_is_got() {
    let mut net = Net::new(2, 1, RailCapabilities { get: true, ..RailCapabilities::default() });
    let mut eager_count = 0;
    while matches!(send(&mut net, Buffer::leaked(1_000)), Posted::Done(_)) {
        eager_count += 1;
    }
    for _ in 0..=eager_count {
        let _ = receive(&mut net, Buffer::leaked(1_000));
        net.settle();
    }
    assert_eq!(net.shared.borrow().gets_count, 1);
}

#[test]
fn a_device_that_names_no_longest_access_moves_bytes() {
    for (put, get) in [(true, false), (false, true)] {
        let rail = RailCapabilities { put, get, transfer_bytes_max: 0, ..RailCapabilities::default() };
        let mut net = Net::new(2, 1, rail);
        let (data, kept) = memory((0..5_000u32).map(|byte| byte as u8).collect());
        let (room, bytes) = memory(vec![0; 5_000]);
        let (sent, received) = (pending(send(&mut net, data)), pending(receive(&mut net, room)));
        net.settle();
        assert!(net.nodes[0].0.is_complete(sent) && net.nodes[1].0.is_complete(received));
        assert_eq!(bytes, kept, "put {put}, get {get}");
    }
}

#[test]
fn nothing_is_got_by_a_rail_that_does_not_reach_its_sender() {
    let mut net = Net::new(2, 1, RailCapabilities { get: true, ..RailCapabilities::default() });
    let received = pending(receive(&mut net, Buffer::leaked(5_000)));
    let envelope = Envelope { context: ContextId::WORLD, source: 0, tag: 0 };
    let mut keys = Keys::default();
    assert!(keys.push(Rail(7), RemoteKey { words: [0, 77] }));
    let sender = RequestId { index: 0, generation: 0 };
    let rts = Header::Rts { envelope, sender, length: 5_000, keys, offers_packets: false };
    let rts = rts.emit(Prefix { credits: 0, sequence: 0 });
    net.nodes[0].1.send(Rail(0), ProcessId(1), rts.as_slice(), NO_PAYLOAD).unwrap();
    let sent_count = |net: &Net| net.nodes[1].0.packet_counts()[0];
    while net.progress(1, u32::MAX) {}
    assert!(!net.nodes[1].0.is_complete(received));
    assert_eq!(sent_count(&net), 1, "it asks for packets");
}

#[test]
fn messages_that_wait_for_room_go_in_their_order() {
    let (lines, _) = mbit(&[1000]);
    let mut wire = Wire::new(lines, 1);
    // Each takes 34 ms.
    let buffer = Buffer::virtual_of(4 << 20);
    let sent = [0, 1, 2].map(|tag| {
        let _ = wire.receive(1, buffer, tag);
        pending(wire.send(0, buffer, tag))
    });
    for (done, at) in [(1, 50), (2, 85), (3, 120)] {
        wire.run_until(ms(at));
        let complete = sent.map(|id| wire.nodes[0].0.is_complete(id));
        assert_eq!(complete, [0, 1, 2].map(|place| place < done), "after {at} ms");
    }
}

#[test]
fn each_message_moves_with_its_own_gap() {
    let mut wire = Wire::new(vec![Line::mbit(1000)], 1);
    let buffer = Buffer::virtual_of(100_000);
    let gap = |milli_packets| Gap { milli_packets };
    for tag in [1, 2] {
        let (process, port) = &mut wire.nodes[0];
        let standard = SendMode::Standard;
        let own = gap(tag as u32);
        pending(process.isend_paced(port, CommId::WORLD, buffer, 1, tag, standard, own).unwrap());
    }
    let announced = core::mem::take(&mut wire.shared.borrow_mut().gaps);
    assert_eq!(announced, [(Rail(0), gap(1)), (Rail(0), gap(2))]);
    for tag in [1, 2] {
        pending(wire.receive(1, buffer, tag));
    }
    wire.run_until(ms(100));
    assert_eq!(wire.shared.borrow().gaps, announced);
}

#[test]
fn memory_that_a_lost_peer_could_write_is_not_kept_for_others() {
    let rail = RailCapabilities { put: true, may_break: false, ..tcp() };
    let config = Config { registrations_count_max: 8, ..Config::default() };
    let mut wire = Wire::with(vec![Line::mbit(1000)], rail, config, 1);
    let [data, room] = [0, 1].map(|_| memory(vec![0; 300_000]).0);
    let (_, received) = (wire.send(0, data, 1), pending(wire.receive(1, room, 1)));
    while wire.registered_count() == 0 {
        assert!(wire.step(ms(100)), "it never registers");
    }
    let (process, port) = &mut wire.nodes[1];
    process.handle_event(port, Event::PeerGone(ProcessId(0)));
    while process.progress(port) {}
    let error = process.take(received).unwrap().expect("its peer is lost").error;
    assert_eq!(error, Some(Error::ProcessAborted(ProcessId(0))));
    assert_eq!(wire.registered_count(), 0);
}

/// A process with a long message for another one, which has asked for it, and nothing has arrived.
fn asked(lines: Vec<Line>, bytes: usize) -> (Wire, RequestId, RequestId) {
    let mut wire = Wire::new(lines, 1);
    let buffer = Buffer::virtual_of(bytes);
    let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
    while !wire.nodes[0].0.messages.transfers.are_moving_data() {
        assert!(wire.step(ms(100)), "it is never asked");
    }
    wire.run_until(wire.now() + Duration::from_us(5));
    (wire, sent, received)
}

fn set_mood(wire: &mut Wire, rail: usize, mood: Mood) {
    let line = wire.shared.borrow().lines[rail];
    wire.set_line(rail, Line { mood, ..line });
}

#[test]
fn a_process_with_lost_data_is_not_quiet_until_it_goes_again() {
    let (mut wire, sent, received) = asked(mbit(&[1000]).0, 100_000);
    set_mood(&mut wire, 0, Mood::Cut);
    wire.run_until(wire.now() + Duration::from_ms(2));
    let process = &wire.nodes[0].0;
    assert!(!process.is_complete(sent) && !process.is_quiet());
    set_mood(&mut wire, 0, Mood::Works);
    wire.run_until(wire.now() + Duration::from_ms(50));
    assert!(wire.nodes[0].0.is_quiet() && wire.take(1, received).is_some());
}

#[test]
fn data_goes_on_when_a_rail_is_back_and_at_no_later_time() {
    let (mut wire, _, received) = asked(mbit(&[1000]).0, 4 << 20);
    wire.run_until(wire.now() + Duration::from_ms(5));
    set_mood(&mut wire, 0, Mood::Cut);
    wire.run_until(wire.now() + Duration::from_ms(10));
    set_mood(&mut wire, 0, Mood::Works);
    wire.run_until(wire.now() + Duration::from_ms(100));
    assert!(wire.take(1, received).is_some(), "it takes 34 ms");
}

#[test]
fn data_of_a_silent_rail_goes_by_another_when_that_is_found() {
    // All of it is sooner there by the first.
    let (mut wire, _, received) = asked(mbit(&[10_000, 100]).0, 1 << 20);
    set_mood(&mut wire, 0, Mood::Silent);
    wire.run_until(wire.now() + TrunkConfig::default().silence + Duration::from_ms(500));
    assert!(wire.take(1, received).is_some(), "it takes 84 ms");
}

#[test]
fn what_a_full_device_has_taken_is_not_left_in_it() {
    for packets in 5..10 {
        let rail = RailCapabilities { packet_bytes_max: 8 << 10, ..tcp() };
        let line = Line { buffer_bytes: (packets << 13) + (4 << 10), ..Line::mbit(1000) };
        let mut wire = Wire::with(vec![line], rail, Config::default(), 1);
        let buffer = Buffer::virtual_of(1 << 20);
        let (_, received) = (wire.send(0, buffer, 1), pending(wire.receive(1, buffer, 1)));
        wire.run_until(ms(50));
        assert!(wire.take(1, received).is_some(), "{packets}");
    }
}

#[test]
fn a_device_learns_when_the_last_piece_is_given() {
    // At some seeds all puts are done at once.
    for seed in 0..2_000 {
        let rail = RailCapabilities { put: true, transfer_bytes_max: 1_000, ..RailCapabilities::default() };
        let mut net = Net::new(2, seed, rail);
        let buffer = Buffer::leaked(8_000);
        let (sent, _) = (pending(send(&mut net, buffer)), pending(receive(&mut net, buffer)));
        net.settle();
        assert!(net.nodes[0].0.is_complete(sent));
        assert!(!net.nodes[0].1.is_unflushed, "seed {seed}");
    }
}

/// Process 1 receives a synchronous message that waits, and its sender is told without another call.
fn tells_its_sender(receive: impl FnOnce(&mut Process, &mut Port)) {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    let sent = process.isend(port, CommId::WORLD, Buffer::leaked(5), 1, 0, SendMode::Synchronous);
    let sent = pending(sent.unwrap());
    net.progress(1, u32::MAX);
    let (process, port) = &mut net.nodes[1];
    let status = process.iprobe(CommId::WORLD, ANY.0, ANY.1).unwrap().expect("it is there");
    assert_eq!((status.bytes, status.cancelled), (5, false));
    receive(process, port);
    while net.progress(0, u32::MAX) {}
    assert!(net.nodes[0].0.is_complete(sent));
}

const ANY: (Source, TagSelector) = (Source::Any, TagSelector::Any);

#[test]
fn a_receive_that_is_over_at_once_tells_its_sender() {
    tells_its_sender(|process, port| {
        assert_eq!(process.receive_direct(port, CommId::WORLD, Buffer::leaked(5), ANY.0, ANY.1), Ok(true));
    });
    tells_its_sender(|process, port| {
        let found = process.improbe(CommId::WORLD, ANY.0, ANY.1).unwrap().and_then(|found| found.0);
        let received = process.imrecv(port, found.expect("it is there"), Buffer::leaked(5));
        assert!(matches!(received, Ok(Posted::Done(_))));
    });
}

#[test]
fn a_message_in_two_pieces_is_cut_in_its_second() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (room, bytes) = memory(vec![0; 5]);
    let received = pending(receive(&mut net, room));
    let process = &mut net.nodes[1].0;
    let envelope = Envelope { context: ContextId::WORLD, source: 0, tag: 0 };
    let payload = [Piece::Bytes(&[1, 2, 3]), Piece::Bytes(&[4, 5, 6, 7])];
    assert!(process.messages.deliver(&envelope, payload));
    let error = Error::Truncate { message_bytes: 7, buffer_bytes: 5 };
    assert_eq!(process.take(received).unwrap().unwrap().error, Some(error));
    assert_eq!(bytes, [1, 2, 3, 4, 5]);
}

#[test]
fn a_message_of_no_bytes_but_a_length_is_kept_with_it() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    let data = Buffer::virtual_of(50);
    pending(process.isend(port, CommId::WORLD, data, 1, 0, SendMode::Synchronous).unwrap());
    net.settle();
    let Posted::Done(completion) = receive(&mut net, Buffer::virtual_of(100)) else { panic!("it is there") };
    assert_eq!((completion.status.bytes, completion.error), (50, None));
}

#[test]
fn units_being_fetched_by_one_rail_are_not_by_another() {
    let mut device = Fronts::new(vec![tcp(); 2], vec![], Fetched::Part);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    let into = Buffer::leaked(300_000);
    pending(process.irecv(&mut device, CommId::WORLD, into, Source::Rank(1), TagSelector::Any).unwrap());
    let packet = |number, body, inner: &[u8]| {
        let ack = Ack { largest: 0, seen: Seen::Run(1), delay: Duration::ZERO };
        let mut bytes = TrunkHeader { number, ack_now: false, ack, body }.emit();
        bytes.put(inner);
        bytes.as_slice().to_vec()
    };
    let incoming = |rail| Incoming { rail: Rail(rail), from: ProcessId(1), slot: 0 };
    let envelope = Envelope { context: ContextId::WORLD, source: 1, tag: 0 };
    let (sender, keys) = (RequestId { index: 0, generation: 0 }, Keys::default());
    let rts = Header::Rts { envelope, sender, length: 300_000, keys, offers_packets: false };
    let rts = rts.emit(Prefix { credits: 0, sequence: 0 });
    device.header = packet(1, Body::Stream, rts.as_slice());
    process.handle_event(&mut device, Event::Packet(incoming(0)));
    process.poll_transmit(&mut device);
    let (_, len) = parse(&device.sent).expect("it asks");
    let Ok((_, Header::Cts { receiver, .. }, _)) = crate::wire::parse(&device.sent[len..]) else {
        panic!("{:?}", device.sent)
    };
    let mut front = |rail, first, fetches| {
        let body = Body::Fragment { receiver, first, unit_bytes: 1_000 };
        (device.header, device.fetches) = (packet(2, body, &[]), fetches);
        process.handle_event(&mut device, Event::Front(incoming(rail), 1_000));
        device.fetched_count
    };
    assert_eq!(front(0, 0, Fetched::Part), 1);
    assert_eq!(front(1, 0, Fetched::Part), 1, "the other rail is at it");
    assert_eq!(front(1, 1, Fetched::Part), 2, "a unit of its own");
    assert_eq!(front(0, 0, Fetched::Whole), 3, "the rest");
    assert_eq!(front(0, 1, Fetched::Part), 3);
}

#[test]
fn the_receiver_of_a_put_is_told_of_it_at_once() {
    let rail = RailCapabilities { put: true, ..tcp() };
    let mut wire = Wire::with(mbit(&[1000]).0, rail, Config::default(), 1);
    let buffer = Buffer::virtual_of(64 << 10);
    for round in 1..10 {
        // Links are looked after at other moments of it each time.
        wire.run_until(ms(10 * round) + Duration::from_us(110 * round));
        let (sent, received) = (pending(wire.send(0, buffer, 1)), pending(wire.receive(1, buffer, 1)));
        wire.run_until(wire.now() + Duration::from_us(900));
        assert!(wire.take(0, sent).is_some(), "it takes 0.5 ms and some round trips: {round}");
        assert!(wire.take(1, received).is_some(), "{round}");
    }
}

#[test]
fn a_communicator_that_is_freed_leaves_its_session() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let (process, port) = &mut net.nodes[0];
    let mut add = |number| {
        let made = Communicator::new(ContextId::new(ProcessId(0), number), Group::world(2), 0);
        let comm = process.add_comm(made);
        let mut send = |process: &mut Process| {
            process.isend(port, comm, Buffer::leaked(8), 1, 0, SendMode::Buffered).map(drop)
        };
        if number == 9 {
            process.attach_buffer(BufferOwner::Session(3), Buffer::leaked(1_000)).unwrap();
            process.set_comm_session(comm, 3);
            assert_eq!(send(process), Ok(()));
            process.free_comm(comm).unwrap();
        } else {
            assert!(matches!(send(process), Err(Error::BufferExhausted { .. })));
        }
        comm
    };
    assert_eq!(add(9), add(10), "its number is used again");
}
