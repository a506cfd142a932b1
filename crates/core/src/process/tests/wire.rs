//! Two processes and several rails between them in virtual time: rates, latencies, deep queues, cuts,
//! silence, loss.

use crate::buffer::{Buffer, Payload, Piece, payload_len};
use crate::device::*;
use crate::ids::{CommId, ProcessId, Rail, RailSet, RequestId, Source, TagSelector};
use crate::process::{Config, Process};
use crate::request::{Completion, Posted, SendMode};
use crate::time::{Duration, Instant};
use crate::wire::trunk::{Body, parse};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;
use core::cell::RefCell;

/// Fate of packets on a rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Works,
    /// Broken, and both devices say so.
    Cut,
    /// Takes everything and brings nothing.
    Silent,
}

#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) bytes_per_s: u64,
    pub(crate) latency: Duration,
    pub(crate) mood: Mood,
    /// 1 in so many packets is damaged, which the device finds: it is lost.
    pub(crate) damage_one_in: u64,
    /// Bytes that the queue holds before the device is full.
    pub(crate) buffer_bytes: u64,
    /// A longer packet is lost, and all behind it in its direction until a side resets the rail: a stream
    /// over a network that loses long frames.
    pub(crate) passes_bytes_max: usize,
}

impl Line {
    pub(crate) fn mbit(mbit_per_s: u64) -> Self {
        Self {
            bytes_per_s: mbit_per_s * 125_000,
            latency: Duration::from_us(30),
            mood: Mood::Works,
            damage_one_in: 0,
            buffer_bytes: 8 << 20,
            passes_bytes_max: usize::MAX,
        }
    }
}

enum Flight {
    Packet {
        rail: u8,
        header: Vec<u8>,
        payload: Vec<u8>,
        virtual_bytes: Option<usize>,
    },
    /// The end of a put or get.
    Access {
        rail: u8,
        token: Token,
    },
    Report(Event),
}

/// A put or get.
struct Access {
    local: Buffer,
    remote: RemoteRegion,
    token: Token,
    is_put: bool,
}

/// State shared by both ports.
pub(crate) struct Shared {
    pub(crate) now: Instant,
    pub(crate) lines: Vec<Line>,
    /// When each line is free again, by rail and sender.
    free: Vec<[Instant; 2]>,
    /// Arrivals by time, then in the order sent, with the receiver.
    flights: BTreeMap<(Instant, u64), (usize, Flight)>,
    flight_count: u64,
    /// Packets that processes have given to their devices; probes are not counted.
    pub(crate) given_count: u64,
    arrived: [VecDeque<Flight>; 2],
    registered: BTreeMap<u64, Buffer>,
    pub(crate) registrations: u64,
    random: Random,
    /// Whether devices know what the network has acknowledged.
    pub(crate) knows_network: bool,
    /// Whether a lost packet stops a rail, by rail and sender.
    stopped: Vec<[bool; 2]>,
    /// Puts and gets on rails that have fallen silent, by rail and process.
    stuck: Vec<(u8, usize, Token)>,
    pub(crate) resets: Vec<(Rail, Instant)>,
    /// Bytes of packets by rail.
    pub(crate) carried: Vec<u64>,
    pub(crate) gaps: Vec<(Rail, Gap)>,
    /// Puts and gets on memory that is not registered any more.
    pub(crate) missed: u64,
}

impl Shared {
    fn fly(&mut self, at: Instant, to: usize, flight: Flight) {
        self.flight_count += 1;
        self.flights.insert((at, self.flight_count), (to, flight));
    }

    /// Packets stuck on a rail are lost: their senders (or one of them) learn it.
    fn unstick(&mut self, rail: usize, only: Option<usize>) {
        let stuck = core::mem::take(&mut self.stuck);
        for (by, me, token) in stuck {
            if usize::from(by) == rail && only.is_none_or(|only| only == me) {
                self.fly(self.now, me, Flight::Report(Event::Completion(token, Err(RailBroken))));
            } else {
                self.stuck.push((by, me, token));
            }
        }
    }

    /// A put or get. Memory is moved at once; when that is reported the rail says.
    fn access(&mut self, rail: Rail, me: usize, access: &Access) -> Result<Submitted, Full> {
        let Access { ref local, remote, token, is_put } = *access;
        let line = self.lines[rail.0 as usize];
        self.given_count += u64::from(line.mood != Mood::Cut);
        let Some(&memory) = self.registered.get(&remote.key.words[0]) else {
            // Its owner has given us up.
            self.missed += 1;
            self.fly(self.now + line.latency, me, Flight::Report(Event::Completion(token, Err(RailBroken))));
            return Ok(Submitted::Pending);
        };
        match line.mood {
            Mood::Cut => return Err(Full),
            Mood::Silent => self.stuck.push((rail.0, me, token)),
            Mood::Works => {
                let at = self.carry(rail.0.into(), me, local.len() as u64).ok_or(Full)?;
                self.fly(at + line.latency, me, Flight::Access { rail: rail.0, token });
                if is_put {
                    memory.copy_from(remote.offset as usize, local, 0, local.len());
                } else {
                    local.copy_from(0, &memory, remote.offset as usize, local.len());
                }
            }
        }
        Ok(Submitted::Pending)
    }

    /// When bytes given now will have come; `None`: no room in the queue.
    fn carry(&mut self, rail: usize, from: usize, bytes: u64) -> Option<Instant> {
        let (now, line) = (self.now, self.lines[rail]);
        let queue_ps = self.free[rail][from].since(now).0;
        if u128::from(queue_ps) * u128::from(line.bytes_per_s)
            > u128::from(line.buffer_bytes) * 1_000_000_000_000
        {
            return None;
        }
        let done = self.free[rail][from].max(now)
            + Duration((u128::from(bytes) * 1_000_000_000_000 / u128::from(line.bytes_per_s)) as u64);
        self.free[rail][from] = done;
        self.carried[rail] += bytes;
        Some(done + line.latency)
    }
}

/// One process' device.
pub(crate) struct Port {
    me: usize,
    rails: Vec<RailCapabilities>,
    shared: Rc<RefCell<Shared>>,
    current: Option<Flight>,
    /// Whether data of a long message was sent since the last flush.
    is_unflushed: bool,
    /// Whether something was refused since the last look.
    has_refused: bool,
}

impl Device for Port {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, _: ProcessId) -> RailSet {
        RailSet((1 << self.rails.len()) - 1)
    }

    fn send(&mut self, rail: Rail, _: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let bytes = header.len() + payload_len(&payload);
        assert!(bytes <= self.rails[rail.0 as usize].packet_bytes_max && header.len() <= HEADER_BYTES_MAX);
        let shared = &mut *self.shared.borrow_mut();
        let line = shared.lines[rail.0 as usize];
        let room = Some(line.mood).filter(|mood| *mood != Mood::Cut);
        let room = room.and_then(|_| shared.carry(rail.0.into(), self.me, bytes as u64 + 60));
        self.has_refused |= room.is_none();
        let at = room.ok_or(Full)?;
        let body = parse(header).map(|(trunk, _)| trunk.body);
        self.is_unflushed |= matches!(body, Ok(Body::Fragment { .. }));
        let question = body == Ok(Body::Probe);
        shared.given_count += u64::from(!question);
        let damaged = line.damage_one_in > 0 && shared.random.one_in(line.damage_one_in);
        let is_stopped = &mut shared.stopped[rail.0 as usize][self.me];
        *is_stopped |= bytes > line.passes_bytes_max;
        if line.mood == Mood::Silent || damaged || *is_stopped {
            return Ok(());
        }
        let (mut bytes, mut virtual_bytes) = (Vec::new(), None);
        for piece in payload {
            match piece {
                Piece::Bytes(real) => bytes.extend_from_slice(real),
                Piece::Virtual(len) => virtual_bytes = Some(len),
            }
        }
        let packet = Flight::Packet { rail: rail.0, header: header.to_vec(), payload: bytes, virtual_bytes };
        shared.fly(at, 1 - self.me, packet);
        Ok(())
    }

    fn flush(&mut self) {
        self.is_unflushed = false;
    }

    fn poll(&mut self) -> Option<Event> {
        let flight = self.shared.borrow_mut().arrived[self.me].pop_front()?;
        match flight {
            Flight::Report(event) => Some(event),
            Flight::Access { token, .. } => Some(Event::Completion(token, Ok(()))),
            Flight::Packet { rail, .. } => {
                self.current = Some(flight);
                Some(Event::Packet(Incoming {
                    rail: Rail(rail),
                    from: ProcessId(1 - self.me as u32),
                    slot: 0,
                }))
            }
        }
    }

    fn packet(&self, _: &Incoming) -> Packet<'_> {
        let Some(Flight::Packet { header, payload, virtual_bytes, .. }) = &self.current else { panic!() };
        Packet { header, payload: virtual_bytes.map_or(Piece::Bytes(payload), Piece::Virtual) }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let shared = &mut *self.shared.borrow_mut();
        shared.registrations += 1;
        let key = shared.registrations;
        shared.registered.insert(key, buffer);
        Some(RemoteKey { words: [key, 1] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        assert!(self.shared.borrow_mut().registered.remove(&key.words[0]).is_some(), "deregistered twice");
    }

    fn put(
        &mut self,
        rail: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let access = Access { local, remote, token, is_put: true };
        let taken = self.shared.borrow_mut().access(rail, self.me, &access);
        self.has_refused |= taken.is_err();
        taken
    }

    fn get(
        &mut self,
        rail: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        let access = Access { local, remote, token, is_put: false };
        let taken = self.shared.borrow_mut().access(rail, self.me, &access);
        self.has_refused |= taken.is_err();
        taken
    }

    fn set_gap(&mut self, rail: Rail, _: ProcessId, gap: Gap) {
        self.shared.borrow_mut().gaps.push((rail, gap));
    }

    fn reset(&mut self, rail: Rail, _: ProcessId) {
        let now = self.shared.borrow().now;
        let shared = &mut *self.shared.borrow_mut();
        shared.resets.push((rail, now));
        shared.unstick(rail.0.into(), Some(self.me));
        // A new connection is made at once.
        if core::mem::take(&mut shared.stopped[rail.0 as usize]) != [false; 2] {
            for me in 0..2 {
                let peer = ProcessId(1 - me as u32);
                shared.fly(now + Duration::from_us(100), me, Flight::Report(Event::RailDown(rail, peer)));
                shared.fly(now + Duration::from_ms(1), me, Flight::Report(Event::RailUp(rail, peer)));
            }
        }
    }

    fn heard(&mut self, rail: Rail, _: ProcessId) -> Option<Duration> {
        let shared = self.shared.borrow();
        let is_stopped = shared.stopped[rail.0 as usize][self.me];
        shared.knows_network.then_some(if is_stopped { Duration::from_s(1) } else { Duration::ZERO })
    }

    fn arm(&mut self) -> Armed {
        Armed::NotYet
    }
}

/// Changes of rails, by time.
pub(crate) type Script = VecDeque<(Instant, usize, Line)>;

pub(crate) struct Wire {
    pub(crate) nodes: Vec<(Process, Port)>,
    pub(crate) shared: Rc<RefCell<Shared>>,
    pub(crate) script: Script,
    /// A process that computes and makes no progress until then.
    pub(crate) away_until: [Instant; 2],
}

/// TCP, about.
pub(crate) fn tcp() -> RailCapabilities {
    RailCapabilities {
        name: "tcp",
        packet_bytes_max: (64 << 10) + 128,
        eager_bytes_max: 16 << 10,
        may_break: true,
        bandwidth_bytes_per_s: 1_250_000_000,
        latency_ps: 20_000_000,
        pacing: Pacing::Rate,
        ..RailCapabilities::default()
    }
}

impl Wire {
    pub(crate) fn new(lines: Vec<Line>, seed: u64) -> Self {
        Self::with(lines, tcp(), Config::default(), seed)
    }

    pub(crate) fn with(lines: Vec<Line>, rail: RailCapabilities, config: Config, seed: u64) -> Self {
        let count = lines.len();
        let shared = Rc::new(RefCell::new(Shared {
            now: Instant::ZERO,
            lines,
            free: vec![[Instant::ZERO; 2]; count],
            flights: BTreeMap::new(),
            flight_count: 0,
            given_count: 0,
            arrived: Default::default(),
            registered: BTreeMap::new(),
            registrations: 0,
            random: Random::new(seed),
            knows_network: false,
            stopped: vec![[false; 2]; count],
            stuck: vec![],
            resets: vec![],
            carried: vec![0; count],
            gaps: vec![],
            missed: 0,
        }));
        let port = |me| Port {
            me,
            rails: vec![rail; count],
            shared: shared.clone(),
            current: None,
            is_unflushed: false,
            has_refused: false,
        };
        let process = |me| Process::new(ProcessId(me as u32), 2, config);
        let nodes = (0..2).map(|me| (process(me), port(me))).collect();
        Self { nodes, shared, script: Script::new(), away_until: [Instant::ZERO; 2] }
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.borrow().now
    }

    /// Makes a process' device report irrelevant events, more than a round reads.
    pub(crate) fn flood(&mut self, me: usize) {
        let report = || Flight::Report(Event::Completion(Token(u64::MAX), Ok(())));
        let arrived = &mut self.shared.borrow_mut().arrived[me];
        arrived.resize_with(arrived.len().max(100), report);
    }

    pub(crate) fn registered_count(&self) -> usize {
        self.shared.borrow().registered.len()
    }

    /// Changes a rail now.
    pub(crate) fn set_line(&mut self, rail: usize, line: Line) {
        let shared = &mut *self.shared.borrow_mut();
        let (now, before) = (shared.now, shared.lines[rail]);
        if line.bytes_per_s != before.bytes_per_s {
            for free in &mut shared.free[rail] {
                // The queue drains at the new rate.
                let queue_ps = u128::from(free.since(now).0);
                let queue_ps = queue_ps * u128::from(before.bytes_per_s) / u128::from(line.bytes_per_s);
                *free = now + Duration(queue_ps as u64);
            }
        }
        shared.lines[rail] = line;
        if line.mood != Mood::Works {
            let is_packet = |flight: &Flight| matches!(flight, Flight::Packet { rail: by, .. } if usize::from(*by) == rail);
            shared.flights.retain(|_, (_, flight)| !is_packet(flight));
            for arrived in &mut shared.arrived {
                arrived.retain(|flight| !is_packet(flight));
            }
            shared.free[rail] = [now; 2];
            let is_access = |flight: &Flight| matches!(flight, Flight::Access { rail: by, .. } if usize::from(*by) == rail);
            let ended: Vec<_> = shared.flights.extract_if(.., |_, (_, flight)| is_access(flight)).collect();
            for (_, (me, flight)) in ended {
                let Flight::Access { token, .. } = flight else { unreachable!() };
                shared.stuck.push((rail as u8, me, token));
            }
        }
        if line.mood != Mood::Silent {
            shared.unstick(rail, None);
        }
        let cut = (before.mood == Mood::Cut, line.mood == Mood::Cut);
        if cut.0 != cut.1 {
            for me in 0..2 {
                let (rail, peer) = (Rail(rail as u8), ProcessId(1 - me as u32));
                let event = if cut.1 { Event::RailDown(rail, peer) } else { Event::RailUp(rail, peer) };
                // The two sides learn of it at different times.
                let at = now + Duration::from_us(100 + 700 * me as u64);
                shared.fly(at, me, Flight::Report(event));
            }
        }
    }

    /// Lets every present process do its work now.
    fn progress(&mut self) -> bool {
        let now = self.now();
        let mut any = false;
        loop {
            let mut worked = false;
            for (me, (process, port)) in self.nodes.iter_mut().enumerate() {
                if self.away_until[me] > now {
                    continue;
                }
                process.handle_timeout(now);
                let before = self.shared.borrow().given_count;
                let has_worked = process.progress(port);
                let has_sent = self.shared.borrow().given_count > before;
                // One whose device became full goes on with it anyway.
                assert!(
                    has_worked || !has_sent || process.wants_transmit(),
                    "process {me} has sent at {now:?} and says that it did nothing"
                );
                let goes_on = has_worked && process.wants_transmit();
                assert!(goes_on || !port.is_unflushed, "process {me} leaves data in its device at {now:?}");
                let has_refused = core::mem::take(&mut port.has_refused);
                assert!(
                    has_worked || has_refused || !process.messages.transfers.has_output(),
                    "process {me} has data for its device at {now:?} and does nothing"
                );
                worked |= has_worked;
            }
            if !worked {
                return any;
            }
            any = true;
        }
    }

    /// Does what there is to do now, or else goes on to the next moment at which anything happens, at most
    /// until `limit`. `false`: it is `limit`.
    pub(crate) fn step(&mut self, limit: Instant) -> bool {
        if self.progress() {
            return true;
        }
        let now = self.now();
        let mut next = limit;
        for (me, (process, _)) in self.nodes.iter().enumerate() {
            let wants = process.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
            let is_away = self.away_until[me] > now;
            assert!(
                is_away || wants > now,
                "process {me} wants to be called at {wants:?}, and it is {now:?}"
            );
            // A full device is asked again soon.
            let wants = if process.wants_transmit() { wants.min(now + Duration::from_us(50)) } else { wants };
            next = next.min(wants.max(now + Duration::from_us(1)).max(self.away_until[me]));
        }
        {
            let shared = self.shared.borrow();
            next = next.min(shared.flights.first_key_value().map_or(limit, |(key, _)| key.0));
        }
        next = next.min(self.script.front().map_or(limit, |entry| entry.0)).max(now);
        self.shared.borrow_mut().now = next;
        while self.script.front().is_some_and(|entry| entry.0 <= next) {
            let (_, rail, line) = self.script.pop_front().unwrap();
            self.set_line(rail, line);
        }
        let shared = &mut *self.shared.borrow_mut();
        while let Some(entry) = shared.flights.first_entry() {
            if entry.key().0 > next {
                break;
            }
            let (to, flight) = entry.remove();
            shared.arrived[to].push_back(flight);
        }
        next < limit
    }

    /// Runs until then.
    pub(crate) fn run_until(&mut self, at: Instant) {
        while self.step(at) {}
    }

    pub(crate) fn send(&mut self, from: usize, buffer: Buffer, tag: i32) -> Posted {
        let (process, port) = &mut self.nodes[from];
        process.isend(port, CommId::WORLD, buffer, 1 - from as u32, tag, SendMode::Standard).unwrap()
    }

    pub(crate) fn receive(&mut self, at: usize, buffer: Buffer, tag: i32) -> Posted {
        let (process, port) = &mut self.nodes[at];
        let source = Source::Rank(1 - at as u32);
        process.irecv(port, CommId::WORLD, buffer, source, TagSelector::Tag(tag)).unwrap()
    }

    pub(crate) fn take(&mut self, at: usize, id: RequestId) -> Option<Completion> {
        self.nodes[at].0.take(id).unwrap()
    }
}
