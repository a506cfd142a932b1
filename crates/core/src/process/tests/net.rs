//! A virtual network of processes on one thread: what is sent lies in queues until a seed says otherwise.

use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::device::*;
use crate::ids::{ProcessId, Rail, RailSet};
use crate::process::{Config, Process};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;
use core::cell::RefCell;

struct Sent {
    header: Vec<u8>,
    payload: Vec<u8>,
    virtual_bytes: Option<usize>,
}

/// State shared by all ports: queues by (from, to), and registered memory.
pub(crate) struct Shared {
    count: usize,
    queues: Vec<VecDeque<Sent>>,
    registered: Vec<Option<Buffer>>,
    random: Random,
    /// 1 in so many sends finds the device full; 0: never.
    pub(crate) full_one_in: u64,
    /// 1 in so many gets and puts is refused; 0: never.
    pub(crate) refuse_one_in: u64,
    /// What [`Device::heard`] says.
    pub(crate) owes: Option<Duration>,
    /// What [`Device::is_waiting`] says.
    pub(crate) are_waiting: bool,
    /// What [`Device::is_near`] says.
    pub(crate) are_near: Option<bool>,
    /// 1 in so many packets is reported by its front first; 0: none.
    pub(crate) front_one_in: u64,
    /// If given: so many gets and puts are taken and wait for `finish_transfers`, the others are refused.
    pub(crate) transfers_taken_max: Option<usize>,
    waiting: Vec<Transfer>,
    /// If given: the time, and what moving data takes of it.
    pub(crate) clock: Option<Clock>,
    pub(crate) gets_count: u32,
    /// The order in which receivers saw envelopes: (from, to).
    pub(crate) seen: Vec<(u32, u32)>,
}

/// A clock that only moving data drives.
pub(crate) struct Clock {
    pub(crate) now: Instant,
    /// Time per packet, and per byte in packets.
    pub(crate) packet: [Duration; 2],
    /// Time per get, and per byte of it.
    pub(crate) get: [Duration; 2],
    /// Time per byte that is combined with another.
    pub(crate) reduce: Duration,
}

impl Clock {
    fn move_data(&mut self, [each, byte]: [Duration; 2], bytes: usize) {
        self.now += Duration(each.0 + byte.0 * bytes as u64);
    }
}

/// A get or put.
#[derive(Clone, Copy)]
struct Transfer {
    by: ProcessId,
    local: Buffer,
    remote: RemoteRegion,
    token: Token,
    is_put: bool,
}

impl Shared {
    fn copy(&self, Transfer { local, remote, is_put, .. }: Transfer) {
        let memory = self.registered[remote.key.words[0] as usize].expect("registered memory");
        let offset = remote.offset as usize;
        if is_put {
            memory.copy_from(offset, &local, 0, local.len());
        } else {
            local.copy_from(0, &memory, offset, local.len());
        }
    }
}

/// One process' device.
pub(crate) struct Port {
    me: ProcessId,
    rails: [RailCapabilities; 1],
    shared: Rc<RefCell<Shared>>,
    /// The packet being read.
    current: Option<Sent>,
    /// The sender, if only the front has been reported.
    front_from: Option<usize>,
    completions: VecDeque<Token>,
    /// How many packets may be polled now: delivery is the test's decision.
    pub(crate) may_poll: u32,
    /// Whether something was put since the last flush.
    pub(crate) is_unflushed: bool,
}

impl Device for Port {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn heard(&mut self, _rail: Rail, _peer: ProcessId) -> Option<Duration> {
        self.shared.borrow().owes
    }

    fn rails_to(&self, _peer: ProcessId) -> RailSet {
        RailSet::one(Rail(0))
    }

    fn send(&mut self, _: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        assert!(header.len() + payload_len(&payload) <= self.rails[0].packet_bytes_max);
        let mut shared = self.shared.borrow_mut();
        let full_one_in = shared.full_one_in;
        if full_one_in > 0 && shared.random.one_in(full_one_in) {
            return Err(Full);
        }
        let mut sent = Sent { header: header.to_vec(), payload: Vec::new(), virtual_bytes: None };
        for piece in payload {
            match piece {
                Piece::Bytes(bytes) => sent.payload.extend_from_slice(bytes),
                Piece::Virtual(len) => sent.virtual_bytes = Some(len),
            }
        }
        if let Some(clock) = &mut shared.clock {
            clock.move_data(clock.packet, sent.payload.len());
        }
        let at = self.me.0 as usize * shared.count + to.0 as usize;
        shared.queues[at].push_back(sent);
        Ok(())
    }

    fn flush(&mut self) {
        self.is_unflushed = false;
    }

    fn poll(&mut self) -> Option<Event> {
        if let Some(token) = self.completions.pop_front() {
            return Some(Event::Completion(token, Ok(())));
        }
        if self.may_poll == 0 {
            return None;
        }
        if let Some(from) = self.front_from {
            return Some(Event::Packet(self.arrived(from)));
        }
        let (from, sent, is_front) = self.next_packet()?;
        let payload_bytes = sent.payload.len();
        self.current = Some(sent);
        if is_front {
            self.front_from = Some(from);
            let incoming = Incoming { rail: Rail(0), from: ProcessId(from as u32), slot: 0 };
            return Some(Event::Front(incoming, payload_bytes));
        }
        Some(Event::Packet(self.arrived(from)))
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let sent = self.current.as_ref().expect("polled and not released");
        if self.front_from.is_some() {
            return Packet { header: &sent.header, payload: Piece::EMPTY };
        }
        let payload = sent.virtual_bytes.map_or(Piece::Bytes(&sent.payload), Piece::Virtual);
        Packet { header: &sent.header, payload }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn fetch(&mut self, incoming: &Incoming, into: Buffer) -> Fetched {
        let sent = self.current.as_ref().expect("polled and not released");
        assert_eq!(into.len(), sent.payload.len(), "the payload's length");
        if self.shared.borrow_mut().random.one_in(3) {
            into.scatter(0, Piece::Bytes(&sent.payload[..into.len() / 2]));
            return Fetched::Part;
        }
        into.scatter(0, Piece::Bytes(&sent.payload));
        let incoming = self.arrived(incoming.from.0 as usize);
        self.release(incoming);
        Fetched::Whole
    }

    fn is_waiting(&self, _: ProcessId) -> bool {
        self.shared.borrow().are_waiting
    }

    fn is_near(&self, _: ProcessId) -> Option<bool> {
        self.shared.borrow().are_near
    }

    fn worked(&mut self, work: Work) {
        if let (Some(clock), Work::Reduced(bytes)) = (&mut self.shared.borrow_mut().clock, work) {
            clock.now += Duration(clock.reduce.0 * bytes as u64);
        }
    }

    fn time(&self) -> Option<Instant> {
        self.shared.borrow().clock.as_ref().map(|clock| clock.now)
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let mut shared = self.shared.borrow_mut();
        shared.registered.push(Some(buffer));
        Some(RemoteKey { words: [shared.registered.len() as u64 - 1, 77] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        let taken = self.shared.borrow_mut().registered[key.words[0] as usize].take();
        assert!(taken.is_some(), "deregistered twice");
    }

    fn put(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        self.is_unflushed = true;
        self.transfer(Transfer { by: self.me, local, remote, token, is_put: true })
    }

    fn get(
        &mut self,
        rail: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        assert_eq!(rail, Rail(0), "there is no other");
        self.transfer(Transfer { by: self.me, local, remote, token, is_put: false })
    }

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}

impl Port {
    /// The sender of the next packet to poll, the packet, and whether its front comes first.
    fn next_packet(&self) -> Option<(usize, Sent, bool)> {
        let mut shared = self.shared.borrow_mut();
        let (count, start) = (shared.count, shared.random.next_u64() as usize);
        let me = self.me.0 as usize;
        let mut order = (0..count).map(|step| (start + step) % count);
        let from = order.find(|from| !shared.queues[from * count + me].is_empty())?;
        let sent = shared.queues[from * count + me].pop_front()?;
        let front_one_in = shared.front_one_in;
        let is_front = front_one_in > 0 && !sent.payload.is_empty() && shared.random.one_in(front_one_in);
        Some((from, sent, is_front))
    }

    /// The packet being read has come whole.
    fn arrived(&mut self, from: usize) -> Incoming {
        let sent = self.current.as_ref().expect("polled and not released");
        // Eager, EagerSync and Rts carry envelopes.
        if sent.header.first().is_some_and(|kind| (1..=3).contains(kind)) {
            self.shared.borrow_mut().seen.push((from as u32, self.me.0));
        }
        self.may_poll -= 1;
        self.front_from = None;
        Incoming { rail: Rail(0), from: ProcessId(from as u32), slot: 0 }
    }

    fn transfer(&mut self, transfer: Transfer) -> Result<Submitted, Full> {
        let mut shared = self.shared.borrow_mut();
        let (full, refuse) = (shared.full_one_in, shared.refuse_one_in);
        if full > 0 && shared.random.one_in(full) {
            return Err(Full);
        }
        if refuse > 0 && shared.random.one_in(refuse) {
            return Ok(Submitted::Refused);
        }
        if let Some(most) = shared.transfers_taken_max {
            if shared.waiting.len() == most {
                return Ok(Submitted::Refused);
            }
            shared.waiting.push(transfer);
            return Ok(Submitted::Pending);
        }
        shared.copy(transfer);
        shared.gets_count += u32::from(!transfer.is_put);
        if let Some(clock) = &mut shared.clock {
            clock.move_data(clock.get, transfer.local.len());
        }
        if shared.random.one_in(2) {
            return Ok(Submitted::Done);
        }
        self.completions.push_back(transfer.token);
        Ok(Submitted::Pending)
    }

    pub(crate) fn registered_count(&self) -> usize {
        self.shared.borrow().registered.iter().flatten().count()
    }
}

/// Processes and their ports.
pub(crate) struct Net {
    pub(crate) nodes: Vec<(Process, Port)>,
    pub(crate) shared: Rc<RefCell<Shared>>,
}

impl Net {
    /// Packets are short, so that most messages are long ones; by seed they are got, put or sent, and devices
    /// are full at times.
    pub(crate) fn of_short_packets(count: usize, seed: u64) -> Self {
        let rail = RailCapabilities {
            packet_bytes_max: 160,
            eager_bytes_max: 100,
            get: seed % 3 == 1,
            put: seed % 3 == 2,
            ..RailCapabilities::default()
        };
        let net = Self::new(count, seed, rail);
        net.shared.borrow_mut().full_one_in = [0, 3][seed as usize % 2];
        net
    }

    pub(crate) fn new(count: usize, seed: u64, rail: RailCapabilities) -> Self {
        let shared = Rc::new(RefCell::new(Shared {
            count,
            queues: (0..count * count).map(|_| VecDeque::new()).collect(),
            registered: vec![],
            random: Random::new(seed),
            full_one_in: 0,
            owes: None,
            are_waiting: false,
            are_near: Some(false),
            refuse_one_in: 0,
            front_one_in: 0,
            transfers_taken_max: None,
            waiting: vec![],
            clock: None,
            gets_count: 0,
            seen: vec![],
        }));
        let nodes = (0..count as u32)
            .map(|me| {
                let process = Process::new(ProcessId(me), count as u32, Config::default());
                let port = Port {
                    me: ProcessId(me),
                    rails: [rail],
                    shared: shared.clone(),
                    current: None,
                    front_from: None,
                    completions: VecDeque::new(),
                    may_poll: 0,
                    is_unflushed: false,
                };
                (process, port)
            })
            .collect();
        Self { nodes, shared }
    }

    /// The processes from `cut` on are a world of their own. No process has begun anything.
    pub(crate) fn split_worlds(&mut self, cut: usize) {
        let count = self.nodes.len();
        for (me, (process, _)) in self.nodes.iter_mut().enumerate() {
            let (first, size) = if me < cut { (0, cut) } else { (cut, count - cut) };
            let (first, me) = (ProcessId(first as u32), ProcessId(me as u32));
            *process = Process::of_world(first, me, size as u32, Config::default());
        }
    }

    /// Lets one process make progress with at most `packets` arrivals.
    pub(crate) fn progress(&mut self, node: usize, packets: u32) -> bool {
        let (process, port) = &mut self.nodes[node];
        port.may_poll = packets;
        let worked = process.progress(port);
        port.may_poll = 0;
        worked
    }

    /// The gets and puts of a process come to nothing: it is dead.
    pub(crate) fn forget_transfers_of(&mut self, process: ProcessId) {
        self.shared.borrow_mut().waiting.retain(|transfer| transfer.by != process);
    }

    /// The gets and puts that wait are done.
    pub(crate) fn finish_transfers(&mut self) {
        let waiting = self.shared.borrow_mut().waiting.split_off(0);
        for transfer in waiting {
            self.shared.borrow().copy(transfer);
            self.nodes[transfer.by.0 as usize].1.completions.push_back(transfer.token);
        }
    }

    /// Runs until nothing moves any more.
    pub(crate) fn settle(&mut self) {
        let mut idle = 0;
        // A device that is full at random needs a few more rounds.
        while idle < 40 {
            let worked =
                (0..self.nodes.len()).fold(false, |worked, node| self.progress(node, u32::MAX) | worked);
            idle = if worked { 0 } else { idle + 1 };
        }
    }
}

/// Memory that lives as long as the test.
pub(crate) fn memory(bytes: Vec<u8>) -> (Buffer, &'static [u8]) {
    let leaked: &'static mut [u8] = Box::leak(bytes.into_boxed_slice());
    let (base, len) = (leaked.as_mut_ptr(), leaked.len());
    #[allow(unsafe_code)]
    // SAFETY: leaked memory stays valid; tests read it only after the request completed.
    unsafe {
        (Buffer::from_raw_parts(base, len), core::slice::from_raw_parts(base, len))
    }
}
