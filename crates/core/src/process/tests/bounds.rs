//! What a peer can make this process keep is bounded, and no correct program notices.

use super::net::{Net, memory};
use crate::Error;
use crate::buffer::{Buffer, Payload, Piece};
use crate::device::{Armed, Device, Event, Full, Incoming, Packet, RailCapabilities};
use crate::ids::{CommId, ContextId, ProcessId, Rail, RailSet, RequestId, Source, TagSelector};
use crate::link::{ANNOUNCEMENTS_MAX, CREDIT_CELLS};
use crate::process::{Config, Process, ProcessEvent};
use crate::request::{Posted, SendMode};
use crate::time::Duration;
use crate::wire::trunk::{Ack, Body, Seen, TrunkHeader};
use crate::wire::{Envelope, Header, Keys, Prefix};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

/// A device that brings one packet after the other from process 1.
struct Stranger {
    rails: [RailCapabilities; 1],
    header: Vec<u8>,
    payload_bytes: usize,
    /// The header of the last packet that was sent.
    answer: Vec<u8>,
}

impl Stranger {
    fn new(rail: RailCapabilities, payload_bytes: usize) -> Self {
        Self { rails: [rail], header: Vec::new(), payload_bytes, answer: Vec::new() }
    }
}

impl Device for Stranger {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }
    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet::one(Rail(0))
    }
    fn send(&mut self, _: Rail, _: ProcessId, header: &[u8], _: Payload<'_>) -> Result<(), Full> {
        self.answer = header.to_vec();
        Ok(())
    }
    fn poll(&mut self) -> Option<Event> {
        None
    }
    fn packet(&self, _: &Incoming) -> Packet<'_> {
        Packet { header: &self.header, payload: Piece::Virtual(self.payload_bytes) }
    }
    fn release(&mut self, _: Incoming) {}
    fn arm(&mut self) -> Armed {
        Armed::Armed
    }
}

/// Hands packets to a process until it gives up their sender: how many it took, and why it did.
fn take_until_refused(
    rail: RailCapabilities,
    bytes: usize,
    packets: impl Iterator<Item = Vec<u8>>,
) -> (u32, &'static str) {
    let mut device = Stranger::new(rail, bytes);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    for (count, header) in (0..).zip(packets) {
        device.header = header;
        process.handle_event(
            &mut device,
            Event::Packet(Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 }),
        );
        if let Some(ProcessEvent::PeerLost(_, Error::PeerMisbehaved { what, .. })) = process.poll_event() {
            return (count, what);
        }
    }
    panic!("it took all of them");
}

const ENVELOPE: Envelope = Envelope { context: ContextId::WORLD, source: 1, tag: 7 };

#[test]
fn packets_ahead_of_their_turn_are_bounded_by_bytes() {
    let packets = (1..4000u32).map(|number| {
        // Number 0 never comes.
        let inner = Header::Eager(ENVELOPE).emit(Prefix { credits: 0, sequence: number });
        let ack = Ack { largest: 0, seen: Seen::Run(1), delay: Duration::ZERO };
        let mut bytes = TrunkHeader { number, ack_now: false, ack, body: Body::Stream }.emit();
        bytes.put(inner.as_slice());
        bytes.as_slice().to_vec()
    });
    let rail = RailCapabilities { may_break: true, ..RailCapabilities::default() };
    let (count, what) = take_until_refused(rail, 64 << 10, packets);
    assert_eq!(what, "more data ahead of its turn than may be under way");
    // A correct peer has 512 KiB under way, and the packet with which it goes beyond.
    assert!((9..=16).contains(&count), "{count} packets of 64 KiB");
}

#[test]
fn unmatched_announcements_are_bounded() {
    let packets = (0..).map(|sequence| {
        let sender = RequestId::from_bits(sequence.into());
        let header = Header::Rts {
            envelope: ENVELOPE,
            sender,
            length: 1 << 20,
            keys: Keys::default(),
            offers_packets: false,
        };
        header.emit(Prefix { credits: 0, sequence }).as_slice().to_vec()
    });
    let (count, what) = take_until_refused(RailCapabilities::default(), 0, packets.take(1 << 20));
    assert_eq!((count, what), (ANNOUNCEMENTS_MAX, "more messages announced than may wait unmatched"));
}

#[test]
fn more_sends_than_may_be_announced_arrive_in_order() {
    let count = 5 * ANNOUNCEMENTS_MAX;
    for (seed, rail) in [(1, false), (2, true)] {
        let mut random = Random::new(seed);
        let mut net = Net::new(2, seed, RailCapabilities { get: rail, ..RailCapabilities::default() });
        let mut sends = Vec::new();
        for number in 0..count {
            // Most are long; short ones may not overtake them.
            let len = if random.one_in(4) { 8 } else { 5000 };
            let mut bytes = vec![number as u8; len];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            let (process, port) = &mut net.nodes[0];
            let mode = SendMode::Standard;
            sends.push(process.isend(port, CommId::WORLD, memory(bytes).0, 1, 0, mode).unwrap());
        }
        net.settle();
        let unexpected = net.nodes[1].0.counts().unexpected;
        assert!(unexpected <= (ANNOUNCEMENTS_MAX + 4096) as usize, "{unexpected} wait");
        for number in 0..count {
            let (buffer, bytes) = memory(vec![0; 5000]);
            let (process, port) = &mut net.nodes[1];
            let posted = process.irecv(port, CommId::WORLD, buffer, Source::Any, TagSelector::Any).unwrap();
            while matches!(posted, Posted::Pending(id) if !net.nodes[1].0.is_complete(id)) {
                net.progress(0, u32::MAX);
                net.progress(1, u32::MAX);
            }
            assert_eq!(bytes[..4], number.to_le_bytes(), "out of order");
            if let Posted::Pending(id) = posted {
                net.nodes[1].0.take(id).unwrap();
            }
        }
        net.settle();
        for posted in sends {
            if let Posted::Pending(id) = posted {
                assert!(net.nodes[0].0.take(id).unwrap().is_some());
            }
        }
    }
}

#[test]
fn a_send_that_is_held_back_can_be_cancelled() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let mut last = None;
    for _ in 0..ANNOUNCEMENTS_MAX + 2 {
        let (process, port) = &mut net.nodes[0];
        let buffer = Buffer::virtual_of(5000);
        last = Some(process.isend(port, CommId::WORLD, buffer, 1, 0, SendMode::Standard).unwrap());
    }
    let Some(Posted::Pending(id)) = last else { panic!("it is announced") };
    let (process, port) = &mut net.nodes[0];
    process.cancel(port, id).unwrap();
    assert!(process.take(id).unwrap().unwrap().status.cancelled);
    net.settle();
    assert_eq!(net.nodes[1].0.counts().unexpected, ANNOUNCEMENTS_MAX as usize);
    // The others arrive, and it does not come behind them.
    for _ in 0..ANNOUNCEMENTS_MAX + 1 {
        let (process, port) = &mut net.nodes[1];
        let buffer = Buffer::virtual_of(5000);
        let _ = process.irecv(port, CommId::WORLD, buffer, Source::Any, TagSelector::Any).unwrap();
    }
    net.settle();
    let counts = net.nodes[1].0.counts();
    assert_eq!((counts.unexpected, counts.posted), (0, 0));
}

#[test]
fn an_end_of_a_message_that_is_still_being_sent_is_refused() {
    let mut device = Stranger::new(RailCapabilities::default(), 0);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    let buffer = Buffer::virtual_of(1 << 20);
    let sent = process.isend(&mut device, CommId::WORLD, buffer, 1, 7, SendMode::Standard).unwrap();
    let Posted::Pending(sender) = sent else { panic!("it is announced") };
    let receiver = RequestId::from_bits(9);
    let keys = Keys::default();
    let answer = Header::Cts { sender, receiver, length: 1 << 20, keys };
    for (sequence, header) in [(0, answer), (1, Header::Fin(sender))] {
        assert_eq!(process.poll_event(), None);
        device.header = header.emit(Prefix { credits: 0, sequence }).as_slice().to_vec();
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        process.handle_event(&mut device, Event::Packet(incoming));
    }
    let what = match process.poll_event() {
        Some(ProcessEvent::PeerLost(_, Error::PeerMisbehaved { what, .. })) => what,
        event => panic!("{event:?}"),
    };
    assert_eq!(what, "FIN for a request that waits for none");
}

#[test]
fn a_receiver_that_takes_more_than_the_message_has_is_refused() {
    let mut device = Stranger::new(RailCapabilities::default(), 0);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    let buffer = Buffer::virtual_of(1 << 20);
    let sent = process.isend(&mut device, CommId::WORLD, buffer, 1, 7, SendMode::Standard).unwrap();
    let Posted::Pending(sender) = sent else { panic!("it is announced") };
    let (receiver, keys) = (RequestId::from_bits(9), Keys::default());
    let answer = Header::Cts { sender, receiver, length: (1 << 20) + 1, keys };
    device.header = answer.emit(Prefix { credits: 0, sequence: 0 }).as_slice().to_vec();
    let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
    process.handle_event(&mut device, Event::Packet(incoming));
    let event = process.poll_event();
    let Some(ProcessEvent::PeerLost(_, Error::PeerMisbehaved { what, .. })) = event else {
        panic!("{event:?}")
    };
    assert_eq!(what, "CTS for more than the message has");
}

#[test]
fn eager_messages_that_nobody_matches_are_bounded_by_credit() {
    let packets = (0..)
        .map(|sequence| Header::Eager(ENVELOPE).emit(Prefix { credits: 0, sequence }).as_slice().to_vec());
    let (count, what) = take_until_refused(RailCapabilities::default(), 0, packets.take(1 << 20));
    assert_eq!((count, what), (CREDIT_CELLS, "more eager data sent than there was credit for"));
}

#[test]
fn credit_that_was_not_spent_is_not_taken_back() {
    let mut device = Stranger::new(RailCapabilities::default(), 0);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    let data = Buffer::leaked(100);
    let sent = process.isend(&mut device, CommId::WORLD, data, 1, 7, SendMode::Standard);
    assert!(matches!(sent, Ok(Posted::Done(_))), "3 cells");
    for (sequence, credits, spent) in [(0, 2, 1), (1, 2, 1)] {
        device.header = Header::Credit.emit(Prefix { credits, sequence }).as_slice().to_vec();
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        process.handle_event(&mut device, Event::Packet(incoming));
        assert_eq!(process.credit(ProcessId(1)), Some((spent, 0)));
    }
    let event = process.poll_event();
    let Some(ProcessEvent::PeerLost(_, Error::PeerMisbehaved { what, .. })) = event else {
        panic!("{event:?}")
    };
    assert_eq!(what, "more credit returned than was spent");
}

/// A fragment that begins or ends behind the message would be written behind the receive's memory.
#[test]
fn a_fragment_outside_of_its_message_is_refused() {
    const BYTES: u64 = 100_000;
    for (offset, comes_in_parts) in
        [(BYTES - 999, false), (BYTES - 999, true), (u64::MAX - 10, false), (u64::MAX - 10, true)]
    {
        let mut device = Stranger::new(RailCapabilities::default(), 1000);
        let mut process = Process::new(ProcessId(0), 2, Config::default());
        let (buffer, _) = memory(vec![0; BYTES as usize]);
        let (from, tag) = (Source::Rank(1), TagSelector::Any);
        let _ = process.irecv(&mut device, CommId::WORLD, buffer, from, tag).unwrap();
        let (envelope, sender) = (ENVELOPE, RequestId::from_bits(9));
        let keys = Keys::default();
        let rts = Header::Rts { envelope, sender, length: BYTES, keys, offers_packets: false };
        let incoming = || Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        device.header = rts.emit(Prefix { credits: 0, sequence: 0 }).as_slice().to_vec();
        process.handle_event(&mut device, Event::Packet(incoming()));
        while process.poll_transmit(&mut device) {}
        let Ok((_, Header::Cts { receiver, .. }, _)) = crate::wire::parse(&device.answer) else {
            panic!("it asks for packets")
        };
        for (sequence, offset) in [(1, BYTES - 1000), (2, offset)] {
            assert_eq!(process.poll_event(), None);
            let data = Header::Data { receiver, offset };
            device.header = data.emit(Prefix { credits: 0, sequence }).as_slice().to_vec();
            if comes_in_parts {
                process.handle_event(&mut device, Event::Front(incoming(), 1000));
            }
            process.handle_event(&mut device, Event::Packet(incoming()));
        }
        let event = process.poll_event();
        let Some(ProcessEvent::PeerLost(_, Error::PeerMisbehaved { what, .. })) = event else {
            panic!("{event:?}")
        };
        assert_eq!(what, "data outside the message");
    }
}

#[test]
fn a_byte_that_is_only_a_number_waits_for_its_turn() {
    let mut device = Stranger::new(RailCapabilities { may_break: true, ..RailCapabilities::default() }, 1);
    let mut process = Process::new(ProcessId(0), 2, Config::default());
    for (number, sequence) in [(1, 1), (2, 0)] {
        let envelope = Envelope { tag: sequence as i32, ..ENVELOPE };
        let inner = Header::Eager(envelope).emit(Prefix { credits: 0, sequence });
        let ack = Ack { largest: 0, seen: Seen::Run(1), delay: Duration::ZERO };
        let mut bytes = TrunkHeader { number, ack_now: false, ack, body: Body::Stream }.emit();
        bytes.put(inner.as_slice());
        device.header = bytes.as_slice().to_vec();
        let incoming = Incoming { rail: Rail(0), from: ProcessId(1), slot: 0 };
        process.handle_event(&mut device, Event::Packet(incoming));
    }
    for tag in 0..2 {
        let (into, from) = (Buffer::virtual_of(8), Source::Rank(1));
        let received = process.irecv(&mut device, CommId::WORLD, into, from, TagSelector::Tag(tag));
        let Ok(Posted::Done(completion)) = received else { panic!("{received:?}") };
        assert_eq!(completion.status.bytes, 1);
    }
}
