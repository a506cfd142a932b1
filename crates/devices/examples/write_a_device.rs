//! A whole device: two processes of one address space, and a queue each way. The public suite checks what it
//! promises.
//!
//! `cargo run -p ayatori-devices --example write_a_device`

use ayatori_core::buffer::{Payload, Piece};
use ayatori_core::device::conformance::{Failure, World, check};
use ayatori_core::device::{Armed, Device, Event, Full, Incoming, Packet, RailCapabilities};
use ayatori_core::ids::{ProcessId, Rail, RailSet};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const QUEUE_COUNT: usize = 16;

/// What the two share: packets on their way to each (with the length of the header), and whether something
/// woke it.
#[derive(Default)]
struct Wire {
    queues: [VecDeque<(usize, Vec<u8>)>; 2],
    is_woken: [bool; 2],
}

struct Pipe {
    me: usize,
    rails: [RailCapabilities; 1],
    wire: Rc<RefCell<Wire>>,
    /// The packet that was handed up; it stays here until it is released.
    current: (usize, Vec<u8>),
}

impl Device for Pipe {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }
    fn rails_to(&self, peer: ProcessId) -> RailSet {
        if peer.0 as usize == 1 - self.me { RailSet::one(Rail(0)) } else { RailSet::default() }
    }
    fn send(&mut self, _: Rail, _: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let mut wire = self.wire.borrow_mut();
        if wire.queues[1 - self.me].len() == QUEUE_COUNT {
            return Err(Full);
        }
        let pieces = payload.map(|piece| piece.bytes().expect("real memory: this is no simulator"));
        wire.queues[1 - self.me].push_back((header.len(), [header, pieces[0], pieces[1]].concat()));
        wire.is_woken[1 - self.me] = true;
        Ok(())
    }
    fn poll(&mut self) -> Option<Event> {
        let mut wire = self.wire.borrow_mut();
        self.current = wire.queues[self.me].pop_front()?;
        wire.is_woken[1 - self.me] = true; // There is room.
        Some(Event::Packet(Incoming { rail: Rail(0), from: ProcessId(1 - self.me as u32), slot: 0 }))
    }
    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let (header, payload) = self.current.1.split_at(self.current.0);
        Packet { header, payload: Piece::Bytes(payload) }
    }
    fn release(&mut self, _: Incoming) {}
    fn arm(&mut self) -> Armed {
        let mut wire = self.wire.borrow_mut();
        wire.is_woken[self.me] = false;
        if wire.queues[self.me].is_empty() { Armed::Armed } else { Armed::NotYet }
    }
}

/// Both ends, for the suite.
struct Pair([Pipe; 2]);

impl World for Pair {
    fn processes(&self) -> Vec<ProcessId> {
        vec![ProcessId(0), ProcessId(1)]
    }
    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        f(&mut self.0[at]);
    }
    fn advance(&mut self) -> bool {
        false // What is sent is there at once.
    }
    fn sleep(&mut self, at: usize) -> bool {
        self.0[at].wire.borrow().is_woken[at]
    }
}

fn pair() -> Box<Pair> {
    let wire = Rc::<RefCell<Wire>>::default();
    let rails = [RailCapabilities { name: "pipe", ..RailCapabilities::default() }];
    Box::new(Pair([0, 1].map(|me| Pipe { me, rails, wire: wire.clone(), current: (0, Vec::new()) })))
}

fn main() -> Result<(), Failure> {
    let report = check(&mut pair)?;
    println!("keeps: {}; does not do: {:?}", report.passed.join(", "), report.skipped);
    Ok(())
}

#[test]
fn the_example_keeps_its_promises() {
    assert_eq!(check(&mut pair).unwrap_or_else(|failure| panic!("{failure}")).passed.len(), 8);
}
