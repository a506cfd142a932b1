//! Two processes of one job in one thread. Each has a device; the devices are joined by two queues of
//! packets.

use ayatori_core::Process;
use ayatori_core::buffer::{Buffer, Payload, Piece};
use ayatori_core::device::{Armed, Device, Event, Full, Incoming, Packet, RailCapabilities};
use ayatori_core::ids::{CommId, ProcessId, Rail, RailSet, Source, TagSelector};
use ayatori_core::process::Config;
use ayatori_core::request::{Posted, SendMode};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Packets on their way to process 0 and to process 1.
type Queues = Rc<RefCell<[VecDeque<Vec<u8>>; 2]>>;

struct Loopback {
    me: u32,
    rails: [RailCapabilities; 1],
    queues: Queues,
    /// The packet that was polled and is not released.
    current: Vec<u8>,
}

impl Device for Loopback {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet::one(Rail(0))
    }

    fn send(&mut self, _: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let pieces = payload.map(|piece| piece.bytes().expect("there is no virtual memory here"));
        self.queues.borrow_mut()[to.0 as usize].push_back([header, pieces[0], pieces[1]].concat());
        Ok(())
    }

    fn poll(&mut self) -> Option<Event> {
        self.current = self.queues.borrow_mut()[self.me as usize].pop_front()?;
        Some(Event::Packet(Incoming { rail: Rail(0), from: ProcessId(1 - self.me), slot: 0 }))
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        Packet { header: &self.current, payload: Piece::EMPTY }
    }

    fn release(&mut self, _: Incoming) {}

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}

fn main() -> Result<(), ayatori_core::Error> {
    let queues = Queues::default();
    let node = |me| {
        let device = Loopback { me, rails: Default::default(), queues: queues.clone(), current: Vec::new() };
        (Process::new(ProcessId(me), 2, Config::default()), device)
    };
    let [(mut sender, mut out), (mut receiver, mut inward)] = [0, 1].map(node);
    let (message, memory) = (Buffer::leaked(100_000), Buffer::leaked(100_000));
    message.scatter(99_998, Piece::Bytes(b"ok"));

    // Too long to go eagerly: announced, asked for, and sent in packets while both sides make progress.
    let sent = sender.isend(&mut out, CommId::WORLD, message, 1, 7, SendMode::Standard)?;
    let tag = TagSelector::Tag(7);
    let received = receiver.irecv(&mut inward, CommId::WORLD, memory, Source::Rank(0), tag)?;
    let (Posted::Pending(sent), Posted::Pending(received)) = (sent, received) else {
        panic!("long messages take a while")
    };
    while !(sender.is_complete(sent) && receiver.is_complete(received)) {
        sender.progress(&mut out);
        receiver.progress(&mut inward);
    }
    let completion = receiver.take(received)?.expect("it is complete");
    assert_eq!(completion.status.bytes, 100_000);
    assert!(memory.to_vec().is_some_and(|bytes| bytes.ends_with(b"ok")));
    Ok(())
}
