//! Messages over rails that number packets: taken to their place while they come, and sent.

use super::fronts::Fronts;
use super::wire::tcp;
use crate::buffer::Buffer;
use crate::device::{Device, Event, Fetched, Incoming, RailCapabilities};
use crate::ids::{CommId, ContextId, ProcessId, Rail, RequestId, Source, TagSelector};
use crate::process::{Config, Process};
use crate::request::{Posted, SendMode};
use crate::time::Duration;
use crate::wire::trunk::{Ack, Body, Seen, TrunkHeader, parse};
use crate::wire::{Envelope, Header, Prefix};
use alloc::vec;
use alloc::vec::Vec;

const BYTES: usize = 1_000;

/// Process 0, and a device with two rails to process 1.
struct Receiver {
    process: Process,
    device: Fronts,
}

/// An eager message of process 1 by a rail's packet.
fn message(number: u32, sequence: u32) -> Vec<u8> {
    let ack = Ack { largest: 0, seen: Seen::Run(1), delay: Duration::ZERO };
    let mut bytes = TrunkHeader { number, ack_now: false, ack, body: Body::Stream }.emit();
    let envelope = Envelope { context: ContextId::WORLD, source: 1, tag: 0 };
    bytes.put(Header::Eager(envelope).emit(Prefix { credits: 0, sequence }).as_slice());
    bytes.as_slice().to_vec()
}

impl Receiver {
    fn new() -> Self {
        let device = Fronts::new(vec![tcp(); 2], vec![], Fetched::Part);
        Self { process: Process::new(ProcessId(0), 2, Config::default()), device }
    }

    fn receive(&mut self, source: Source) -> RequestId {
        let (comm, into) = (CommId::WORLD, Buffer::leaked(BYTES));
        match self.process.irecv(&mut self.device, comm, into, source, TagSelector::Any).unwrap() {
            Posted::Pending(id) => id,
            posted => panic!("{posted:?}"),
        }
    }

    /// The front of a message; how many have been fetched, or parts of them.
    fn front(&mut self, rail: u8, [number, sequence]: [u32; 2], fetches: Fetched) -> u32 {
        (self.device.header, self.device.fetches) = (message(number, sequence), fetches);
        let incoming = Incoming { rail: Rail(rail), from: ProcessId(1), slot: 0 };
        self.process.handle_event(&mut self.device, Event::Front(incoming, BYTES));
        self.device.fetched_count
    }

    /// All of a message.
    fn whole(&mut self, rail: u8, [number, sequence]: [u32; 2]) {
        self.device.header = message(number, sequence);
        let incoming = Incoming { rail: Rail(rail), from: ProcessId(1), slot: 0 };
        self.process.handle_event(&mut self.device, Event::Packet(incoming));
    }
}

#[test]
fn a_numbered_message_goes_to_its_place_while_it_comes() {
    let mut to = Receiver::new();
    let [first, second] = [0, 1].map(|_| to.receive(Source::Rank(1)));
    assert_eq!(to.front(0, [1, 0], Fetched::Part), 1);
    assert_eq!(to.front(0, [1, 0], Fetched::Whole), 2);
    let completion = to.process.take(first).unwrap().expect("it is whole");
    assert_eq!((completion.status.bytes, completion.error), (BYTES as u64, None));
    assert_eq!(to.front(0, [2, 1], Fetched::Whole), 3);
    assert!(to.process.take(second).unwrap().is_some());
    // A receive from any source may take another process' message before all of this one has come.
    to.receive(Source::Any);
    assert_eq!(to.front(0, [3, 2], Fetched::Part), 3);
}

#[test]
fn what_a_message_began_for_a_receive_goes_to_no_other() {
    let mut to = Receiver::new();
    let first = to.receive(Source::Rank(1));
    assert_eq!(to.front(0, [1, 0], Fetched::Part), 1);
    to.process.cancel(&mut to.device, first).unwrap();
    let second = to.receive(Source::Rank(1));
    assert_eq!(to.front(0, [1, 0], Fetched::Whole), 1, "the first receive has its beginning");
    assert!(!to.process.is_complete(second));
    // It is sent again.
    assert_eq!(to.front(0, [2, 0], Fetched::Whole), 2);
    assert!(to.process.is_complete(second));
}

#[test]
fn a_message_that_one_rail_brings_is_not_taken_by_another() {
    let mut to = Receiver::new();
    let [first, second] = [0, 1].map(|_| to.receive(Source::Rank(1)));
    assert_eq!(to.front(0, [1, 0], Fetched::Part), 1);
    assert_eq!(to.front(1, [1, 0], Fetched::Whole), 1, "damage may be written over it");
    to.whole(1, [1, 0]);
    assert!(to.process.is_complete(first) && !to.process.is_complete(second));
    assert_eq!(to.front(0, [1, 0], Fetched::Whole), 1, "it has come");
    assert_eq!(to.front(1, [2, 1], Fetched::Part), 2, "the next one");
}

#[test]
fn messages_that_waited_for_one_taken_in_place_follow_it() {
    let mut to = Receiver::new();
    let [first, second] = [0, 1].map(|_| to.receive(Source::Rank(1)));
    assert_eq!(to.front(1, [1, 1], Fetched::Whole), 0, "not its turn");
    to.whole(1, [1, 1]);
    assert!(!to.process.is_complete(second));
    assert_eq!(to.front(0, [1, 0], Fetched::Whole), 1);
    assert!(to.process.is_complete(first) && to.process.is_complete(second));
}

/// A process with such messages to send, and how they are.
fn sender() -> (Process, Fronts) {
    let rail = RailCapabilities { packet_bytes_max: 70_000, eager_bytes_max: 64 << 10, ..tcp() };
    (Process::new(ProcessId(0), 2, Config::default()), Fronts::new(vec![rail], vec![], Fetched::Lost))
}

fn send(process: &mut Process, device: &mut Fronts, bytes: usize) -> bool {
    let buffer = Buffer::virtual_of(bytes);
    let sent = process.isend(device, CommId::WORLD, buffer, 1, 0, SendMode::Standard).unwrap();
    process.poll_transmit(device);
    matches!(sent, Posted::Done(_))
}

#[test]
fn a_sender_that_can_send_no_more_asks_for_word_of_it() {
    let (mut process, mut device) = sender();
    let mut asked = Vec::new();
    while send(&mut process, &mut device, 64 << 10) {
        asked.push(parse(&device.sent).expect("a packet").0.ack_now);
    }
    assert_eq!(asked, [false, false, false, false, false, false, false, true], "512 KiB");
}

#[test]
fn a_long_message_leaves_whole_at_once() {
    let (mut process, mut device) = sender();
    device.flush();
    let before = device.flushed_count;
    for (bytes, count) in [(8, 0), (31 << 10, 0), (32 << 10, 1), (64 << 10, 2)] {
        let (comm, buffer) = (CommId::WORLD, Buffer::virtual_of(bytes));
        let _ = process.isend(&mut device, comm, buffer, 1, 0, SendMode::Standard).unwrap();
        assert_eq!(device.flushed_count - before, count, "{bytes}");
    }
}
