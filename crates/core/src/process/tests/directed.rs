//! One situation a test, by name.

use super::fronts::Fronts;
use super::net::{Net, memory};
use crate::Error;
use crate::bsend::BufferOwner;
use crate::buffer::Buffer;
use crate::device::{Device, Event, Fetched, Incoming, RailCapabilities};
use crate::ids::{CommId, ContextId, ProcessId, Rail, Source, TagSelector};
use crate::link::{CELL_BYTES, CREDIT_CELLS};
use crate::process::{Config, Process};
use crate::request::{Completion, Origin, PROC_NULL, Posted, SendMode};
use crate::wire::{Envelope, Header, Prefix};
use alloc::vec;
use alloc::vec::Vec;

/// The front of an eager message from process 1.
fn front(credits: u16, fetches: Fetched) -> Fronts {
    let envelope = Envelope { context: ContextId::WORLD, source: 1, tag: 7 };
    let header = Header::Eager(envelope).emit(Prefix { credits, sequence: 0 });
    Fronts::new(vec![RailCapabilities::default()], header.as_slice().to_vec(), fetches)
}

#[test]
fn message_is_received_in_parts_only_if_no_other_can_match() {
    for (source, count) in [(Source::Rank(1), 1), (Source::Any, 0), (Source::Rank(2), 0)] {
        let mut device = front(0, Fetched::Part);
        let mut process = Process::new(ProcessId(0), 3, Config::default());
        let receive =
            process.irecv(&mut device, CommId::WORLD, Buffer::leaked(100), source, TagSelector::Any);
        assert!(matches!(receive, Ok(Posted::Pending(_))));
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        process.handle_event(&mut device, Event::Front(incoming, 50));
        assert_eq!(device.fetched_count, count, "{source:?}");
    }
}

#[test]
fn credit_is_given_back_between_long_packets() {
    let mut device = front(0, Fetched::Whole);
    // As many as credit allows: each is a quarter of it.
    (device.come_count, device.payload_bytes) = (4, 64 << 10);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    for _ in 0..device.come_count {
        let buffer = Buffer::leaked(device.payload_bytes);
        let _ = process.irecv(&mut device, CommId::WORLD, buffer, Source::Rank(1), TagSelector::Any).unwrap();
    }
    assert!(process.progress(&mut device));
    assert_eq!((device.come_count, device.fetched_count), (3, 1), "the others are not read yet");
    assert_eq!(process.credit(ProcessId(1)).map(|(_, owed)| owed), Some(0), "{:?}", device.sent);
    assert!(!device.sent.is_empty());
}

#[test]
fn a_wrong_packet_whose_front_came_first_cuts_its_sender_off() {
    for (credits, is_wrong) in [(0, false), (u16::MAX, true)] {
        let mut device = front(credits, Fetched::Whole);
        let mut process = Process::new(ProcessId(0), 2, Config::default());
        let buffer = Buffer::leaked(50);
        let receive =
            process.irecv(&mut device, CommId::WORLD, buffer, Source::Rank(1), TagSelector::Any).unwrap();
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        process.handle_event(&mut device, Event::Front(incoming, 50));
        let error = process.take(pending(receive)).unwrap().expect("over").error;
        assert_eq!(matches!(error, Some(Error::PeerMisbehaved { peer: ProcessId(1), .. })), is_wrong);
        assert_eq!(error.is_some(), is_wrong);
    }
}

const ANY: (Source, TagSelector) = (Source::Any, TagSelector::Any);

fn pair(rail: RailCapabilities) -> Net {
    Net::new(2, 1, rail)
}

fn getting() -> RailCapabilities {
    RailCapabilities { get: true, ..RailCapabilities::default() }
}

fn putting() -> RailCapabilities {
    RailCapabilities { put: true, ..RailCapabilities::default() }
}

fn pending(posted: Posted) -> crate::ids::RequestId {
    match posted {
        Posted::Pending(id) => id,
        Posted::Done(completion) => panic!("done at once: {completion:?}"),
    }
}

impl Net {
    fn send(&mut self, from: usize, to: u32, bytes: &[u8], tag: i32, mode: SendMode) -> Posted {
        let (process, port) = &mut self.nodes[from];
        process.isend(port, CommId::WORLD, memory(bytes.to_vec()).0, to, tag, mode).unwrap()
    }

    fn receive(&mut self, at: usize, len: usize) -> (Posted, &'static [u8]) {
        let (buffer, bytes) = memory(vec![0; len]);
        let (process, port) = &mut self.nodes[at];
        (process.irecv(port, CommId::WORLD, buffer, ANY.0, ANY.1).unwrap(), bytes)
    }

    fn done(&mut self, at: usize, id: crate::ids::RequestId) -> Option<Completion> {
        self.nodes[at].0.take(id).unwrap()
    }
}

#[test]
fn long_messages_arrive_whole_by_get_by_put_and_by_packets() {
    for rail in [getting(), putting(), RailCapabilities::default()] {
        let mut net = pair(RailCapabilities { transfer_bytes_max: 1000, ..rail });
        let data: Vec<u8> = (0..100_000u32).map(|i| i.wrapping_mul(i) as u8).collect();
        let send = pending(net.send(0, 1, &data, 3, SendMode::Standard));
        let (posted, bytes) = net.receive(1, data.len());
        net.settle();
        let completion = net.done(1, pending(posted)).expect("received");
        assert_eq!(completion.status.bytes, data.len() as u64);
        assert_eq!(bytes, data);
        assert_eq!(net.done(0, send), Some(Completion::EMPTY));
        // All of it goes the way that it began.
        assert_eq!(net.shared.borrow().gets_count, if rail.get { 100 } else { 0 });
    }
}

#[test]
fn a_synchronous_send_completes_only_when_matched() {
    for len in [4, 100_000] {
        let mut net = pair(getting());
        let send = pending(net.send(0, 1, &vec![1; len], 0, SendMode::Synchronous));
        net.settle();
        assert_eq!(net.done(0, send), None);
        let (_posted, _) = net.receive(1, len);
        net.settle();
        assert_eq!(net.done(0, send), Some(Completion::EMPTY));
    }
}

#[test]
fn unexpected_message_is_an_arrival_and_no_completion() {
    for len in [4, 100_000] {
        let mut net = pair(getting());
        let process = &net.nodes[1].0;
        let before = (process.news_count(), process.completion_count());
        let _ = net.send(0, 1, &vec![1; len], 0, SendMode::Standard);
        net.settle();
        let process = &net.nodes[1].0;
        assert_eq!(
            (process.news_count(), process.completion_count()),
            (before.0 + 1, before.1),
            "{len} bytes"
        );
    }
}

#[test]
fn a_request_that_ends_later_is_a_completion_at_both_sides() {
    let mut net = pair(getting());
    let counts = |net: &Net| [0, 1].map(|at| net.nodes[at].0.completion_count());
    let before = counts(&net);
    let _send = pending(net.send(0, 1, &[1; 100_000], 0, SendMode::Standard));
    let (_receive, _) = net.receive(1, 100_000);
    assert_eq!(counts(&net), before);
    net.settle();
    assert_eq!(counts(&net), before.map(|count| count + 1));
}

#[test]
fn a_receive_that_ends_is_counted_and_so_is_its_failure() {
    let mut net = pair(getting());
    for (sent, room, fails) in [(4, 4, false), (8, 4, true), (100_000, 100_000, false), (100_000, 50, true)] {
        let (receive, _) = net.receive(1, room);
        let counts = |net: &Net| (net.nodes[1].0.completion_count(), net.nodes[1].0.failure_count());
        let before = counts(&net);
        let _ = net.send(0, 1, &vec![1; sent], 0, SendMode::Standard);
        net.settle();
        assert_eq!(counts(&net), (before.0 + 1, before.1 + u64::from(fails)), "{sent} bytes to {room}");
        let error = net.nodes[1].0.take(pending(receive)).unwrap().unwrap().error;
        assert_eq!(error.is_some(), fails);
    }
}

#[test]
fn persistent_receive_from_an_invalid_rank_is_refused_at_once() {
    let mut net = pair(getting());
    let process = &mut net.nodes[0].0;
    let made = process.recv_init(CommId::WORLD, Buffer::EMPTY, Source::Rank(2), TagSelector::Any);
    assert_eq!(made, Err(Error::Rank { rank: 2, size: 2 }));
    assert_eq!(process.counts().requests, 0);
}

#[test]
fn a_receiver_that_does_not_receive_is_not_overrun() {
    let mut net = pair(getting());
    let mut sends = vec![];
    for _ in 0..2 * CREDIT_CELLS {
        if let Posted::Pending(id) = net.send(0, 1, &[7; 100], 0, SendMode::Standard) {
            sends.push(id);
        }
        net.settle_quickly();
    }
    // 100 bytes cost 3 cells; everything beyond the window waits at the sender.
    assert_eq!(sends.len() as u32, 2 * CREDIT_CELLS - CREDIT_CELLS / 3);
    for _ in 0..2 * CREDIT_CELLS {
        let (posted, bytes) = net.receive(1, 100);
        net.settle_quickly();
        if let Posted::Pending(id) = posted {
            assert!(net.done(1, id).is_some());
        }
        assert_eq!(bytes, [7; 100]);
    }
    assert!(sends.into_iter().all(|id| net.done(0, id).is_some()));
}

#[test]
fn more_may_be_outstanding_where_packets_are_acknowledged() {
    // 1,000 B are 17 cells. The last cell of all credit may be used, and no more.
    for (may_break, cells) in [(false, 4096), (true, 20480)] {
        let mut net = pair(RailCapabilities { may_break, ..RailCapabilities::default() });
        for _ in 0..cells / 17 {
            assert!(matches!(net.send(0, 1, &[7; 1_000], 0, SendMode::Standard), Posted::Done(_)));
            net.settle_quickly();
        }
        assert_eq!(net.nodes[0].0.credit(ProcessId(1)), Some((cells / 17 * 17, 0)));
        let left = (cells % 17 - 1) as usize * CELL_BYTES;
        let announced = pending(net.send(0, 1, &vec![7; left + 1], 0, SendMode::Standard));
        let last = net.send(0, 1, &vec![7; left], 0, SendMode::Standard);
        assert!(matches!(last, Posted::Done(_)), "it fits");
        assert_eq!(net.nodes[0].0.credit(ProcessId(1)), Some((cells, 0)));
        for _ in 0..cells / 17 + 1 {
            let _ = net.receive(1, 1_000);
            net.settle_quickly();
        }
        assert!(net.done(0, announced).is_some());
    }
}

#[test]
fn received_messages_are_not_counted_against_their_sender() {
    let mut net = pair(getting());
    // Each waits unmatched for a while; all together are more than may wait at a time.
    for _ in 0..CREDIT_CELLS / 2 {
        let _ = net.send(0, 1, &[7; 100], 0, SendMode::Standard);
        net.settle_quickly();
        let (posted, bytes) = net.receive(1, 100);
        assert!(matches!(posted, Posted::Done(_)), "it was there");
        assert_eq!(bytes, [7; 100]);
    }
    assert_eq!(net.nodes[1].0.explain().unexpected.count, 0);
}

impl Net {
    fn settle_quickly(&mut self) {
        while (0..self.nodes.len()).fold(false, |worked, node| self.progress(node, u32::MAX) | worked) {}
    }
}

#[test]
fn truncation_is_the_receivers_error_and_the_sender_completes() {
    for (len, mode) in [(50, SendMode::Standard), (50_000, SendMode::Standard), (50, SendMode::Synchronous)] {
        for rail in [getting(), putting(), RailCapabilities::default()] {
            let mut net = pair(rail);
            let send = net.send(0, 1, &vec![9; len], 0, mode);
            let (posted, bytes) = net.receive(1, 10);
            net.settle();
            let completion = net.done(1, pending(posted)).unwrap();
            assert_eq!(
                completion.error,
                Some(Error::Truncate { message_bytes: len as u64, buffer_bytes: 10 })
            );
            assert_eq!((completion.status.bytes, bytes), (10, &[9; 10][..]));
            if let Posted::Pending(id) = send {
                assert_eq!(net.done(0, id), Some(Completion::EMPTY));
            }
        }
    }
}

#[test]
fn unmatched_sends_are_cancelled_and_matched_ones_are_not() {
    for (len, mode) in [(4, SendMode::Synchronous), (90_000, SendMode::Standard)] {
        let mut net = pair(getting());
        let first = pending(net.send(0, 1, &vec![1; len], 0, mode));
        let second = pending(net.send(0, 1, &vec![2; len], 0, mode));
        net.settle();
        let (process, port) = &mut net.nodes[0];
        process.cancel(port, first).unwrap();
        net.settle();
        assert!(net.done(0, first).unwrap().status.cancelled);
        let (_, bytes) = net.receive(1, len);
        let (process, port) = &mut net.nodes[0];
        process.cancel(port, second).unwrap();
        net.settle();
        assert!(!net.done(0, second).unwrap().status.cancelled);
        assert_eq!(bytes, vec![2; len]);
    }
}

/// Found by fault runs, seed 31: it completed as cancelled, and the receive had its length and none of its
/// bytes.
#[test]
fn self_send_held_by_a_matched_probe_is_not_cancelled() {
    let mut net = Net::new(1, 1, getting());
    let send = pending(net.send(0, 0, &[8; 300], 0, SendMode::Synchronous));
    let (process, port) = &mut net.nodes[0];
    let (message, status) = process.improbe(CommId::WORLD, ANY.0, ANY.1).unwrap().expect("it is there");
    assert_eq!(status.bytes, 300);
    process.cancel(port, send).unwrap();
    assert_eq!(process.take(send), Ok(None), "it is matched");
    let (buffer, bytes) = memory(vec![0; 300]);
    let Posted::Done(received) = process.imrecv(port, message.unwrap(), buffer).unwrap() else {
        panic!("it lies in our own memory")
    };
    assert_eq!((received.status.bytes, bytes), (300, &[8; 300][..]));
    assert_eq!(process.take(send), Ok(Some(Completion::EMPTY)));
}

/// Found by fault runs, seed 1420: the message went another way at once, both sides completed and
/// deregistered, and the gets (or puts) still in flight reached memory that had been given back.
#[test]
fn refused_get_or_put_waits_for_those_in_flight() {
    for (rail, registered_at) in [(getting(), 0), (putting(), 1)] {
        let mut net = pair(RailCapabilities { transfer_bytes_max: 1000, ..rail });
        net.shared.borrow_mut().transfers_taken_max = Some(2);
        let data: Vec<u8> = (0..9_000u32).map(|i| i.wrapping_mul(i) as u8).collect();
        let send = pending(net.send(0, 1, &data, 3, SendMode::Standard));
        let (posted, bytes) = net.receive(1, data.len());
        let receive = pending(posted);
        net.settle();
        assert_eq!((net.done(0, send), net.done(1, receive)), (None, None), "two pieces are in flight");
        assert_eq!(net.nodes[registered_at].1.registered_count(), 1);
        net.finish_transfers();
        net.settle();
        assert_eq!(net.done(1, receive).expect("received").status.bytes, data.len() as u64);
        assert_eq!(bytes, data);
        assert_eq!(net.done(0, send), Some(Completion::EMPTY));
        assert_eq!(net.nodes[0].1.registered_count(), 0);
    }
}

#[test]
fn long_message_offers_packets_if_the_sender_has_time_to_copy() {
    let rail = RailCapabilities { get: true, transfer_bytes_min: 50_000, ..RailCapabilities::default() };
    for streams_awaited in [false, true] {
        // Length, whether the sender waits, whether it has a receive under way.
        for (len, is_awaited, is_busy) in [
            (49_999, false, false),
            (49_999, false, true),
            (50_000, false, false),
            (50_000, true, false),
            (50_000, true, true),
        ] {
            let mut net = pair(RailCapabilities { streams_awaited, ..rail });
            let _busy = is_busy.then(|| net.receive(0, 10));
            let (process, port) = &mut net.nodes[0];
            let start = if is_awaited { Process::send } else { Process::isend };
            let buffer = memory(vec![5; len]).0;
            let send =
                pending(start(process, port, CommId::WORLD, buffer, 1, 0, SendMode::Standard).unwrap());
            let is_got = is_busy || len >= 50_000 && !(is_awaited && streams_awaited);
            let case = (len, is_awaited, is_busy, streams_awaited);
            assert_eq!(net.nodes[0].1.registered_count(), 1, "{case:?}");

            let (posted, bytes) = net.receive(1, len);
            net.settle();
            assert!(net.done(1, pending(posted)).is_some() && bytes == vec![5; len], "{case:?}");
            assert_eq!(net.done(0, send), Some(Completion::EMPTY), "{case:?}");
            assert_eq!(net.shared.borrow().gets_count == 1, is_got, "{case:?}");
        }
    }
}

#[test]
fn persistent_requests_start_again_and_again() {
    let mut net = pair(getting());
    let (source, _) = memory(vec![5; 20_000]);
    let (target, bytes) = memory(vec![0; 20_000]);
    let send = net.nodes[0].0.send_init(CommId::WORLD, source, 1, 0, SendMode::Standard).unwrap();
    let receive = net.nodes[1].0.recv_init(CommId::WORLD, target, ANY.0, ANY.1).unwrap();
    assert_eq!(net.done(0, send), Some(Completion::EMPTY), "waiting for an inactive request returns at once");
    for _ in 0..3 {
        for (at, id) in [(0, send), (1, receive)] {
            let (process, port) = &mut net.nodes[at];
            process.start(port, id).unwrap();
            assert_eq!(process.start(port, id), Err(Error::Request), "started twice");
        }
        net.settle();
        assert_eq!(net.done(1, receive).unwrap().status.bytes, 20_000);
        assert!(net.done(0, send).is_some() && net.nodes[0].0.is_inactive(send));
        assert_eq!(bytes, [5; 20_000]);
    }
    net.nodes[0].0.free(send).unwrap();
    assert_eq!(net.nodes[0].0.take(send), Err(Error::Request));
}

#[test]
fn buffered_sends_return_at_once_and_free_their_room() {
    let mut net = pair(getting());
    assert!(matches!(
        {
            let (process, port) = &mut net.nodes[0];
            process.isend(port, CommId::WORLD, memory(vec![1; 9000]).0, 1, 0, SendMode::Buffered)
        },
        Err(Error::BufferExhausted { .. })
    ));
    let room = 2 * (9000 + crate::BSEND_OVERHEAD_BYTES);
    net.nodes[0].0.attach_buffer(BufferOwner::Process, memory(vec![0; room]).0).unwrap();
    for byte in [1, 2] {
        assert_eq!(net.send(0, 1, &[byte; 9000], 0, SendMode::Buffered), Posted::Done(Completion::EMPTY));
    }
    assert!(!net.nodes[0].0.attached_is_drained(BufferOwner::Process));
    for byte in [1, 2] {
        let (_, bytes) = net.receive(1, 9000);
        net.settle();
        assert_eq!(bytes, [byte; 9000]);
    }
    let process = &mut net.nodes[0].0;
    assert!(process.attached_is_drained(BufferOwner::Process));
    assert!(process.detach_buffer(BufferOwner::Process).is_some());
    assert_eq!(net.nodes[0].0.counts().requests, 0);
}

#[test]
fn a_communicator_of_a_session_has_the_sessions_buffer() {
    let mut net = pair(getting());
    let session = BufferOwner::Session(3);
    let room = memory(vec![0; 100 + crate::BSEND_OVERHEAD_BYTES]).0;
    net.nodes[0].0.attach_buffer(session, room).unwrap();
    let send = |net: &mut Net| {
        let (process, port) = &mut net.nodes[0];
        process.isend(port, CommId::WORLD, Buffer::leaked(100), 1, 0, SendMode::Buffered)
    };
    assert!(matches!(send(&mut net), Err(Error::BufferExhausted { .. })));
    net.nodes[0].0.set_comm_session(CommId::WORLD, 3);
    assert_eq!(send(&mut net), Ok(Posted::Done(Completion::EMPTY)));
}

#[test]
fn proc_null_and_wrong_ranks() {
    let mut net = pair(getting());
    let (process, port) = &mut net.nodes[0];
    let sent = process.isend(port, CommId::WORLD, Buffer::EMPTY, PROC_NULL, 0, SendMode::Standard);
    assert_eq!(sent, Ok(Posted::Done(Completion::EMPTY)));
    let from = Source::Rank(PROC_NULL);
    let Ok(Posted::Done(got)) = process.irecv(port, CommId::WORLD, Buffer::EMPTY, from, TagSelector::Any)
    else {
        panic!("a receive from MPI_PROC_NULL is over at once")
    };
    assert_eq!(got.status.source, Origin::ProcNull);
    let wrong = process.isend(port, CommId::WORLD, Buffer::EMPTY, 2, 0, SendMode::Standard);
    assert_eq!(wrong, Err(Error::Rank { rank: 2, size: 2 }));
    let wrong = process.isend(port, CommId(9), Buffer::EMPTY, 0, 0, SendMode::Standard);
    assert_eq!(wrong, Err(Error::Comm));
}

#[test]
fn a_dead_peer_ends_every_operation_that_needs_it() {
    let mut net = Net::new(3, 1, getting());
    let rendezvous = pending(net.send(0, 1, &[0; 9000], 0, SendMode::Standard));
    let (any, _) = net.receive(0, 10);
    let (process, port) = &mut net.nodes[0];
    let from_other = pending(
        process.irecv(port, CommId::WORLD, Buffer::EMPTY, Source::Rank(2), TagSelector::Any).unwrap(),
    );
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    let gone = Error::ProcessAborted(ProcessId(1));
    assert_eq!(process.take(rendezvous).unwrap().unwrap().error, Some(gone));
    assert_eq!(process.take(pending(any)).unwrap().unwrap().error, Some(gone));
    assert_eq!(process.take(from_other).unwrap(), None);
    let again = process.isend(port, CommId::WORLD, Buffer::EMPTY, 1, 0, SendMode::Standard);
    assert_eq!(again, Err(gone));
    assert!(process.poll_event().is_some());
}

#[test]
fn garbage_from_a_peer_cuts_it_off_and_nothing_else() {
    let mut garbage: Vec<Vec<u8>> = vec![vec![], vec![0; 8], vec![99; 40]];
    // A CTS, data and FIN for requests that never were; a wrong sequence number.
    garbage.push([&[4u8, 0, 0, 0, 0, 0, 0, 0][..], &[7; 32]].concat());
    garbage.push([&[5u8, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16], &[1; 5]].concat());
    garbage.push([&[6u8, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8]].concat());
    garbage.push([&[1u8, 0, 0, 0, 9, 0, 0, 0][..], &[0; 16]].concat());
    garbage.push([&[10u8, 0, 255, 255, 0, 0, 0, 0][..]].concat());
    for bytes in garbage {
        let mut net = Net::new(3, 1, getting());
        let port = &mut net.nodes[1].1;
        port.send(crate::ids::Rail(0), ProcessId(0), &bytes, crate::buffer::NO_PAYLOAD).unwrap();
        net.settle();
        let (process, port) = &mut net.nodes[0];
        let sent = process.isend(port, CommId::WORLD, Buffer::EMPTY, 1, 0, SendMode::Standard);
        assert!(matches!(sent, Err(Error::PeerMisbehaved { peer: ProcessId(1), .. })), "{bytes:?}");
        assert!(matches!(net.send(0, 2, b"fine", 0, SendMode::Standard), Posted::Done(_)));
    }
}

/// Process 1 says this to process 0.
fn say(net: &mut Net, header: Header) {
    let (process, port) = &mut net.nodes[1];
    let links = &mut process.messages().links;
    let index = links.index_of(ProcessId(0)).expect("they have talked");
    links.offer_or_queue(port, index, header, crate::data::Data::EMPTY);
}

/// Whether process 0 has cut process 1 off.
fn is_cut_off(net: &mut Net) -> bool {
    let (process, port) = &mut net.nodes[0];
    let sent = process.isend(port, CommId::WORLD, Buffer::EMPTY, 1, 0, SendMode::Standard);
    matches!(sent, Err(Error::PeerMisbehaved { peer: ProcessId(1), .. }))
}

#[test]
fn data_is_asked_for_once() {
    for times in [1, 2] {
        let mut net = pair(RailCapabilities::default());
        let sender = pending(net.send(0, 1, &[0; 9_000], 0, SendMode::Standard));
        net.settle();
        let receiver = crate::ids::RequestId::from_bits(u64::MAX);
        let keys = crate::wire::Keys::default();
        for _ in 0..times {
            say(&mut net, Header::Cts { sender, receiver, length: 9_000, keys });
        }
        net.progress(0, u32::MAX);
        assert_eq!(is_cut_off(&mut net), times > 1, "{times} times");
    }
}

#[test]
fn a_message_that_was_matched_is_not_cancelled_by_its_receiver() {
    let mut net = pair(RailCapabilities::default());
    let sent = pending(net.send(0, 1, &[1; 4], 0, SendMode::Synchronous));
    let (received, _) = net.receive(1, 4);
    net.settle();
    assert!(net.done(1, pending(received)).is_some() && net.nodes[0].0.is_complete(sent));
    say(&mut net, Header::CancelReply(sent, true));
    net.settle();
    assert_eq!(net.done(0, sent), Some(Completion::EMPTY));
    assert!(is_cut_off(&mut net));
    // Nor is one whose data is on its way.
    let mut net = pair(RailCapabilities::default());
    let sent = pending(net.send(0, 1, &[1; 90_000], 0, SendMode::Standard));
    net.settle();
    let _ = net.receive(1, 90_000);
    net.progress(1, 0);
    say(&mut net, Header::CancelReply(sent, true));
    net.progress(0, u32::MAX);
    assert!(is_cut_off(&mut net));
}

#[test]
fn messages_without_memory_go_the_same_ways() {
    for rail in [getting(), putting(), RailCapabilities::default()] {
        for len in [10, 1 << 20] {
            let mut net = pair(rail);
            let (process, port) = &mut net.nodes[0];
            let _ = process
                .isend(port, CommId::WORLD, Buffer::virtual_of(len), 1, 0, SendMode::Standard)
                .unwrap();
            let (process, port) = &mut net.nodes[1];
            let posted = process.irecv(port, CommId::WORLD, Buffer::virtual_of(len), ANY.0, ANY.1).unwrap();
            net.settle();
            assert_eq!(net.done(1, pending(posted)).unwrap().status.bytes, len as u64);
        }
    }
}
