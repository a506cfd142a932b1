//! What connects the processes of a small world: a queue a rail and direction, from which the explorer takes
//! one packet at a time. It is never full and takes no time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ayatori_core::buffer::{Buffer, Payload, Piece};
use ayatori_core::device::{
    Armed, Device, Event, Full, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion, Submitted, Token,
};
use ayatori_core::ids::{ProcessId, Rail, RailSet};

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// A program makes its next call.
    Call(u32),
    /// The first packet of a queue arrives.
    Arrive { from: u32, to: u32, rail: u8 },
    /// A process sees the next report of its device.
    Report(u32),
    /// The first packet of a queue is lost.
    Lose { from: u32, to: u32, rail: u8 },
    /// The connection of a rail between 0 and 1 breaks, and is made again.
    Cut(u8),
    /// A process dies.
    Die(u32),
}

type Bytes = (Vec<u8>, Vec<u8>);

/// What is under way.
pub(super) struct Air {
    count: u32,
    rail_count: u8,
    /// By (from × count + to) × rails + rail.
    queues: Vec<VecDeque<Bytes>>,
    /// By process.
    reports: Vec<VecDeque<Event>>,
    pub(super) alive: Vec<bool>,
    /// Memory that peers may read.
    registered: Vec<Option<Buffer>>,
}

impl Air {
    pub(super) fn new(count: u32, rail_count: u8) -> Air {
        let queue_count = (count * count) as usize * usize::from(rail_count);
        Air {
            count,
            rail_count,
            queues: vec![VecDeque::new(); queue_count],
            reports: (0..count).map(|_| VecDeque::new()).collect(),
            alive: vec![true; count as usize],
            registered: Vec::new(),
        }
    }

    fn queue(&mut self, from: u32, to: u32, rail: u8) -> &mut VecDeque<Bytes> {
        let pair = (from * self.count + to) as usize;
        &mut self.queues[pair * usize::from(self.rail_count) + usize::from(rail)]
    }

    /// Arrivals, and losses if there may be one.
    pub(super) fn steps(&self, may_lose: bool, steps: &mut Vec<Step>) {
        for to in (0..self.count).filter(|&to| self.alive[to as usize]) {
            if !self.reports[to as usize].is_empty() {
                steps.push(Step::Report(to));
            }
        }
        for (place, queue) in self.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            let (pair, rail) = (place / usize::from(self.rail_count), place % usize::from(self.rail_count));
            let (from, to) = (pair as u32 / self.count, pair as u32 % self.count);
            let rail = rail as u8;
            if self.alive[to as usize] && !queue.is_empty() {
                steps.push(Step::Arrive { from, to, rail });
                if may_lose {
                    steps.push(Step::Lose { from, to, rail });
                }
            }
        }
    }

    pub(super) fn lose(&mut self, from: u32, to: u32, rail: u8) {
        self.queue(from, to, rail).pop_front();
    }

    pub(super) fn cut(&mut self, rail: u8) {
        for (at, peer) in [(0, 1), (1, 0)] {
            self.queue(at, peer, rail).clear();
            let peer = ProcessId(peer);
            self.reports[at as usize]
                .extend([Event::RailDown(Rail(rail), peer), Event::RailUp(Rail(rail), peer)]);
        }
    }

    pub(super) fn die(&mut self, at: u32) {
        self.alive[at as usize] = false;
        for other in (0..self.count).filter(|&other| other != at) {
            self.reports[other as usize].push_back(Event::PeerGone(ProcessId(at)));
            for rail in 0..self.rail_count {
                self.queue(other, at, rail).clear();
            }
        }
    }
}

/// The device of one process.
pub(super) struct End {
    me: u32,
    air: Rc<RefCell<Air>>,
    rails: Vec<RailCapabilities>,
    /// What it may see now.
    pub(super) next: Option<Step>,
    current: Option<Bytes>,
}

impl End {
    pub(super) fn new(
        me: u32,
        air: &Rc<RefCell<Air>>,
        rail_count: u8,
        (may_break, get): (bool, bool),
    ) -> End {
        let rail = RailCapabilities {
            packet_bytes_max: 512,
            eager_bytes_max: 64,
            may_break,
            get,
            ..RailCapabilities::default()
        };
        let rails = vec![rail; usize::from(rail_count)];
        End { me, air: air.clone(), rails, next: None, current: None }
    }
}

impl Device for End {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet((1 << self.rails.len()) - 1)
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let pieces = payload.map(|piece| piece.bytes().expect("small worlds have real payload").to_vec());
        let mut air = self.air.borrow_mut();
        if air.alive[to.0 as usize] {
            air.queue(self.me, to.0, rail.0).push_back((header.to_vec(), pieces.concat()));
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Event> {
        let mut air = self.air.borrow_mut();
        match self.next.take()? {
            Step::Report(at) => {
                let event = air.reports[at as usize].pop_front()?;
                if let Event::PeerGone(peer) = event {
                    // Nothing of it comes any more.
                    for rail in 0..air.rail_count {
                        air.queue(peer.0, at, rail).clear();
                    }
                }
                Some(event)
            }
            Step::Arrive { from, to, rail } => {
                self.current = air.queue(from, to, rail).pop_front();
                Some(Event::Packet(Incoming { rail: Rail(rail), from: ProcessId(from), slot: 0 }))
            }
            _ => None,
        }
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let (header, payload) = self.current.as_ref().expect("polled and not released");
        Packet { header, payload: Piece::Bytes(payload) }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let mut air = self.air.borrow_mut();
        air.registered.push(Some(buffer));
        Some(RemoteKey { words: [air.registered.len() as u64 - 1, 0] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        self.air.borrow_mut().registered[key.words[0] as usize] = None;
    }

    fn get(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        _: Token,
    ) -> Result<Submitted, Full> {
        // Memory of one that has just died can be read: whether it is dead is no event at the reader.
        let memory = self.air.borrow().registered[remote.key.words[0] as usize];
        let Some(memory) = memory else { return Ok(Submitted::Refused) };
        local.copy_from(0, &memory, remote.offset as usize, local.len());
        Ok(Submitted::Done)
    }

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}
