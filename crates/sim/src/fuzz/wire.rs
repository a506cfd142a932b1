//! What connects the processes of a world: a simulated network, several rails on it, and moods.
//!
//! A rail keeps the order of what one process sends another, if it says so; rails have NICs of their own at
//! different places of the network, and speeds of their own, so that what goes by one overtakes what goes by
//! another. Where the engine runs a link in trunk mode (several rails, or one that may break) a rail between
//! two processes fails and comes back (`faults`), as `ayatori_core::device` has it; and packets are damaged,
//! which is loss without a word.

mod connecting;
mod faults;
mod fronts;
mod spoil;

use std::collections::{BTreeMap, VecDeque};

use ayatori_core::buffer::Buffer;
use ayatori_core::device::{Event, Full, RailBroken, RailCapabilities, RemoteRegion, Submitted, Token};
use ayatori_core::ids::{ContextId, Rail, RailSet, RequestId};
use ayatori_core::wire::trunk::{self, Body, TrunkHeader};
use ayatori_core::wire::{self, Header};

use connecting::{Connecting, Word};
use faults::{Condition, Path};
use fronts::Front;

pub(super) use connecting::Counts as ConnectionCounts;
pub(super) use fronts::Look;

use super::Bug;
use crate::network::{Gap, Message, Network, NicId, NoProbe, Occurrence};
use crate::slab::Slab;
use ayatori_random::Random;

/// Timer tokens: a flight that has been held up.
const HELD_UP: u32 = 1 << 31;
/// A bug strikes once in so many chances.
const BUG_ONE_IN: u64 = 6;

/// Moods of the device; 0 is never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moods {
    /// One in so many packets, puts and gets finds the device full.
    pub(super) full_one_in: u64,
    /// One in so many puts and gets is refused.
    pub(super) refuse_one_in: u64,
    /// One in so many arrivals is held up.
    pub(super) delay_one_in: u64,
    /// For at most so long, ps.
    pub(super) delay_max_ps: u64,
    /// One in so many calls of the world something goes wrong with a rail somewhere.
    pub(super) fault_one_in: u64,
    /// One in so many packets of links in trunk mode is damaged, and so lost.
    pub(super) damage_one_in: u64,
    /// One in so many packets is shown by its front, and comes in parts.
    pub(super) front_one_in: u64,
}

/// A get or put.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) local: Buffer,
    pub(super) remote: RemoteRegion,
    pub(super) token: Token,
    pub(super) put: bool,
}

#[derive(Debug)]
pub(super) enum Cargo {
    Packet {
        header: Vec<u8>,
        payload: Vec<u8>,
    },
    /// Copy on arrival, then tell.
    Access(Access),
    /// `from` is gone.
    Gone,
    /// `from` is told that its connection to `to` has ended.
    Down,
    /// A fault of the rail ends.
    Back {
        fault: u32,
    },
    /// It is later now.
    Tick,
    /// The machine that makes connections is due.
    Due,
    /// Of a handshake, to an end of a socket.
    Word {
        socket: usize,
        end: usize,
        word: Word,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// A crash took it.
    Lost,
    /// Its rail failed under it, and its owner knows, or will be told.
    Broken,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) rail: Rail,
    pub(super) cargo: Cargo,
    bytes: u64,
    arrived: bool,
    /// Held back on a silent rail.
    stalled: bool,
    fate: Fate,
}

impl Flight {
    fn new(from: u32, to: u32, rail: Rail, bytes: u64, cargo: Cargo) -> Flight {
        Flight { from, to, rail, cargo, bytes, arrived: false, stalled: false, fate: Fate::Fine }
    }
}

/// What one process sends another by one rail.
#[derive(Debug, Default)]
struct Lane {
    /// In the order sent.
    packets: VecDeque<u32>,
    /// Whether the sender's end believes in a connection.
    is_connected: bool,
    /// When the rail is free for the next.
    free_ps: u64,
    /// Gets and puts of the sender that have come to nothing, of which it is told with the end of the
    /// connection.
    broken: Vec<Token>,
    /// Since when the network has not answered the sender.
    owes_since_ps: Option<u64>,
    /// The packet at its head, if it comes in parts.
    front: Option<Front>,
}

/// What a process sees next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrival {
    Flight(u32),
    /// The packet that comes in parts from this process by this rail.
    Front(u32, Rail),
}

/// What a receiver saw, in order; the model sees the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// An envelope: by an eager message or not.
    Envelope { from: u32, to: u32, context: ContextId, eager: bool },
    /// A wish to cancel the message of a sender's request.
    Cancel { from: u32, to: u32, request: RequestId },
    /// That a process is gone.
    Gone { from: u32, to: u32 },
    /// That a process has given the link up.
    Bye { from: u32, to: u32 },
}

#[derive(Debug)]
pub(super) struct Registration {
    pub(super) owner: u32,
    pub(super) rail: Rail,
    pub(super) buffer: Buffer,
}

/// What of a world's devices does not change.
pub(super) struct Rails {
    pub(super) capabilities: Vec<RailCapabilities>,
    /// NICs by process × number of rails + rail.
    pub(super) nics: Vec<NicId>,
    /// The rails between two processes, by from × count + to.
    pub(super) between: Vec<RailSet>,
}

/// What all devices share.
pub(super) struct Wire {
    network: Network<NoProbe>,
    count: usize,
    pub(super) rails: Rails,
    pub(super) flights: Slab<Flight>,
    /// By (from × count + to) × number of rails + rail.
    lanes: Vec<Lane>,
    /// By (lower × count + higher) × number of rails + rail.
    paths: Vec<Path>,
    /// News that a process is gone, by from × count + to.
    gone: Vec<Option<u32>>,
    /// What receivers in trunk mode have seen before its turn, and whose turn it is, by from × count + to.
    early: Vec<(u32, BTreeMap<u32, Option<Seen>>)>,
    /// What a process is told before anything else: ends of its gets and puts, and of rails.
    pub(super) reports: Vec<VecDeque<Event>>,
    /// How far a bug has moved the sequence numbers of a pair.
    pub(super) extra_packets: Vec<u32>,
    pub(super) registered: Vec<Option<Registration>>,
    pub(super) alive: Vec<bool>,
    pub(super) seen: Vec<Seen>,
    pub(super) moods: Moods,
    /// Whether the network tells its devices what it owes ([`ayatori_core::device::Device::heard`]).
    pub(super) tells_owed: bool,
    pub(super) random: Random,
    pub(super) bug: Option<Bug>,
    pub(super) outage_count: u64,
    /// Whether some process has given another up that lives.
    pub(super) has_given_up: bool,
    /// What makes connections, in worlds that do not get them from the world.
    connecting: Option<Connecting>,
}

impl Wire {
    pub(super) fn new(network: Network<NoProbe>, rails: Rails, random: Random, bug: Option<Bug>) -> Wire {
        let count = rails.nics.len() / rails.capabilities.len();
        let lane_count = count * count * rails.capabilities.len();
        Wire {
            network,
            count,
            rails,
            flights: Slab::default(),
            lanes: (0..lane_count).map(|_| Lane { is_connected: true, ..Lane::default() }).collect(),
            paths: (0..lane_count).map(|_| Path::new(0, 0)).collect(),
            gone: vec![None; count * count],
            early: vec![(0, BTreeMap::new()); count * count],
            reports: (0..count).map(|_| VecDeque::new()).collect(),
            extra_packets: vec![0; count * count],
            registered: Vec::new(),
            alive: vec![true; count],
            seen: Vec::new(),
            moods: Moods::default(),
            tells_owed: false,
            random,
            bug,
            outage_count: 0,
            has_given_up: false,
            connecting: None,
        }
    }

    pub(super) fn pair(&self, from: u32, to: u32) -> usize {
        from as usize * self.count + to as usize
    }

    fn lane(&self, rail: Rail, from: u32, to: u32) -> usize {
        self.lanes_of(self.pair(from, to)).start + usize::from(rail.0)
    }

    fn path(&self, rail: Rail, a: u32, b: u32) -> usize {
        self.lane(rail, a.min(b), a.max(b))
    }

    /// The lanes of a pair: one a rail.
    fn lanes_of(&self, pair: usize) -> std::ops::Range<usize> {
        let rail_count = self.rails.capabilities.len();
        pair * rail_count..(pair + 1) * rail_count
    }

    /// Whether the engine runs the link between two processes in trunk mode.
    pub(super) fn is_trunk(&self, pair: usize) -> bool {
        let rails = self.rails.between[pair];
        let is_plain = |rail: Rail| {
            let rail = &self.rails.capabilities[usize::from(rail.0)];
            rail.ordered && rail.reliable && !rail.may_break
        };
        rails.iter().count() > 1 || !rails.iter().all(is_plain)
    }

    /// Speeds of all rails, each between each two processes.
    pub(super) fn vary_speeds(&mut self) {
        for path in 0..self.paths.len() {
            let byte_ps = self.pick_byte_ps();
            let latency_ps = [0, 0, 1_000_000, 300_000_000][self.random.below(4) as usize];
            self.paths[path] = Path::new(byte_ps, latency_ps);
        }
    }

    /// Something happens at this time, if nothing else does.
    pub(super) fn wait_until(&mut self, time_ps: u64) {
        let time_ps = time_ps.max(self.now_ps() + 1);
        let flight = self.flights.insert(Flight::new(0, 0, Rail(0), 0, Cargo::Tick));
        self.network.set_timer(time_ps, flight | HELD_UP);
    }

    pub(super) fn now_ps(&self) -> u64 {
        self.network.now_ps()
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.below(n) == 0
    }

    pub(super) fn strikes(&mut self, bug: Bug) -> bool {
        self.bug == Some(bug) && self.one_in(BUG_ONE_IN)
    }

    /// A device is given a packet; `Err`: it cannot take it now.
    pub(super) fn give_packet(
        &mut self,
        (from, to): (u32, u32),
        rail: Rail,
        mut header: Vec<u8>,
        mut payload: Vec<u8>,
    ) -> Result<(), Full> {
        let full_one_in = self.moods.full_one_in;
        let lane = self.lane(rail, from, to);
        if self.one_in(full_one_in) || !self.lanes[lane].is_connected {
            return Err(Full);
        }
        if !self.alive[to as usize] {
            return Ok(());
        }
        let path = self.path(rail, from, to);
        if self.paths[path].condition != Condition::Works {
            let now_ps = self.now_ps();
            self.lanes[lane].owes_since_ps.get_or_insert(now_ps);
            let (is_silent, stalls) = (self.paths[path].is_silent(from, to), self.paths[path].stalls());
            if self.paths[path].condition == Condition::Down || is_silent && !stalls {
                return Ok(());
            }
        }
        let (pair, bytes) = (self.pair(from, to), header.len() + payload.len());
        let twice = self.bug.is_some() && self.spoil(pair, &mut header, &mut payload);
        let damage_one_in = if self.is_trunk(pair) { self.moods.damage_one_in } else { 0 };
        if self.one_in(damage_one_in) {
            return Ok(());
        }
        let copy = twice.then(|| (header.clone(), payload.clone()));
        self.depart(from, to, rail, bytes, Cargo::Packet { header, payload });
        if let Some((mut header, payload)) = copy {
            self.extra_packets[pair] += 1;
            if let Ok((mut prefix, meaning, _)) = wire::parse(&header) {
                prefix.sequence = prefix.sequence.wrapping_add(1);
                prefix.credits = 0;
                header = meaning.emit(prefix).as_slice().to_vec();
            }
            self.depart(from, to, rail, bytes, Cargo::Packet { header, payload });
        }
        if self.strikes(Bug::Overtaking) {
            self.overtake(pair, rail);
        }
        Ok(())
    }

    /// A device is given a get or put.
    pub(super) fn give_access(
        &mut self,
        me: u32,
        peer: u32,
        rail: Rail,
        access: Access,
    ) -> Result<Submitted, Full> {
        let Moods { full_one_in, refuse_one_in, .. } = self.moods;
        let lane = self.lane(rail, me, peer);
        if self.one_in(full_one_in) || !self.lanes[lane].is_connected {
            return Err(Full);
        }
        if !self.alive[peer as usize] || self.one_in(refuse_one_in) {
            return Ok(Submitted::Refused);
        }
        let path = &self.paths[self.path(rail, me, peer)];
        if path.condition != Condition::Works && !path.stalls() {
            self.lanes[lane].broken.push(access.token);
            return Ok(Submitted::Pending);
        }
        let length = access.local.len();
        if path.condition == Condition::Works && self.one_in(4) {
            if self.copy(rail, access, length) {
                return Ok(Submitted::Done);
            }
            self.reports[me as usize].push_back(Event::Completion(access.token, Err(RailBroken)));
            return Ok(Submitted::Pending);
        }
        let (from, to) = if access.put { (me, peer) } else { (peer, me) };
        self.depart(from, to, rail, length, Cargo::Access(access));
        Ok(Submitted::Pending)
    }

    /// Puts something on its way.
    fn depart(&mut self, from: u32, to: u32, rail: Rail, bytes: usize, cargo: Cargo) {
        let ordered = matches!(cargo, Cargo::Packet { .. });
        let flight = self.flights.insert(Flight::new(from, to, rail, bytes as u64, cargo));
        if ordered {
            let lane = self.lane(rail, from, to);
            self.lanes[lane].packets.push_back(flight);
        }
        let rail_count = self.rails.capabilities.len();
        let nic = |process: u32| self.rails.nics[process as usize * rail_count + usize::from(rail.0)];
        let (from, to) = (nic(from), nic(to));
        if from == to {
            let time_ps = self.now_ps() + self.random.below(1_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        } else {
            let bytes = bytes as u64;
            let message =
                Message { from, to, bytes, gap: Gap::NONE, flow: 0, token: flight, notify_injected: false };
            self.network.send(message);
        }
    }

    /// Runs the network through its next occurrences, at most so many and not beyond a time. How many there
    /// were.
    pub(super) fn pump(&mut self, count_max: u64, limit_ps: u64) -> Result<u64, String> {
        for count in 0..count_max {
            match self.network.advance_until(limit_ps).map_err(|deadlock| deadlock.to_string())? {
                None => return Ok(count),
                Some(Occurrence::Delivered { token, .. }) => self.carry(token),
                Some(Occurrence::Timer { token }) => {
                    let handle = token & !HELD_UP;
                    // Until a machine's next attempt seconds may pass: processes look in between.
                    let passes_time = matches!(self.flights[handle].cargo, Cargo::Due | Cargo::Word { .. });
                    self.arrive(handle);
                    if passes_time {
                        return Ok(count + 1);
                    }
                }
                Some(Occurrence::Injected { .. }) => {}
            }
        }
        Ok(count_max)
    }

    /// What has come through the network may be held up by the rail's speed, or by chance.
    fn carry(&mut self, handle: u32) {
        let Flight { from, to, rail, bytes, .. } = self.flights[handle];
        let Moods { delay_one_in, delay_max_ps, .. } = self.moods;
        let path = &self.paths[self.path(rail, from, to)];
        let (taken_ps, latency_ps) = (bytes * path.byte_ps, path.latency_ps);
        let lane = self.lane(rail, from, to);
        let (now_ps, lane) = (self.now_ps(), &mut self.lanes[lane]);
        lane.free_ps = lane.free_ps.max(now_ps) + taken_ps;
        let mut time_ps = lane.free_ps + latency_ps;
        if self.one_in(delay_one_in) {
            time_ps += self.random.below(delay_max_ps);
        }
        if time_ps > now_ps {
            self.network.set_timer(time_ps, handle | HELD_UP);
        } else {
            self.arrive(handle);
        }
    }

    /// No flight any more.
    fn free(&mut self, handle: u32) {
        self.flights[handle].arrived = true;
        self.flights[handle].stalled = false;
        self.flights.remove(handle);
    }

    fn arrive(&mut self, handle: u32) {
        let Flight { from, to, rail, fate, .. } = self.flights[handle];
        let path = &self.paths[self.path(rail, from, to)];
        let is_data = matches!(self.flights[handle].cargo, Cargo::Packet { .. } | Cargo::Access(_));
        if is_data && fate == Fate::Fine && path.is_silent(from, to) && path.stalls() {
            self.stall(handle);
            return;
        }
        match self.flights[handle].cargo {
            Cargo::Access(access) => {
                self.free(handle);
                let owner = if access.put { from } else { to };
                self.finish_access(owner, rail, access, fate);
            }
            Cargo::Down => {
                self.free(handle);
                self.tell_down(rail, from, to);
            }
            Cargo::Back { fault } => {
                self.free(handle);
                self.come_back(rail, from, to, fault);
            }
            Cargo::Tick => self.free(handle),
            Cargo::Due => {
                self.free(handle);
                self.serve_if_due(from);
            }
            Cargo::Word { socket, end, word } => {
                self.free(handle);
                self.hear(socket, end, word);
            }
            _ if fate == Fate::Lost => self.free(handle),
            _ => self.flights[handle].arrived = true,
        }
    }

    fn finish_access(&mut self, owner: u32, rail: Rail, access: Access, fate: Fate) {
        if !self.alive[owner as usize] {
            return;
        }
        let broken = Event::Completion(access.token, Err(RailBroken));
        match fate {
            // A NIC may or may not report what it was doing when the other side died.
            Fate::Lost if self.random.below(2) == 0 => {}
            Fate::Lost => self.reports[owner as usize].push_back(broken),
            Fate::Broken => {}
            Fate::Fine => {
                let is_empty = self.strikes(Bug::EmptyCompletion);
                let length = access.local.len();
                let is_there = is_empty || self.copy(rail, access, length);
                let completion = if is_there { Event::Completion(access.token, Ok(())) } else { broken };
                if !self.strikes(Bug::LostCompletion) {
                    self.reports[owner as usize].push_back(completion);
                }
            }
        }
    }

    /// Moves the first so many bytes. `false`: the memory's owner has given the peer up, so it is not there
    /// any more.
    pub(super) fn copy(&mut self, rail: Rail, access: Access, length: usize) -> bool {
        let Access { local, remote, put, .. } = access;
        let cut = usize::from(self.strikes(Bug::TruncatedCopy));
        let (length, offset) = (length.saturating_sub(cut), remote.offset as usize);
        let Some(registration) = self.registered[remote.key.words[0] as usize].as_ref() else {
            assert!(self.has_given_up, "a put or get on memory that is not registered");
            return false;
        };
        assert_eq!(registration.rail, rail, "a put or get with the key of another rail");
        let memory = registration.buffer;
        if put {
            memory.copy_from(offset, &local, 0, length);
        } else {
            local.copy_from(0, &memory, offset, length);
        }
        true
    }

    /// A process dies: some of what it has sent is lost, and the others hear of it later.
    pub(super) fn crash(&mut self, process: u32) {
        self.alive[process as usize] = false;
        for handle in 0..self.flights.high_water() as u32 {
            let flight = &mut self.flights[handle];
            let involved = flight.from == process || flight.to == process;
            if involved && !flight.arrived && matches!(flight.cargo, Cargo::Access(_)) {
                flight.fate = Fate::Lost;
                if flight.stalled {
                    self.free(handle);
                }
            }
        }
        for to in 0..self.count as u32 {
            if to == process {
                continue;
            }
            let pair = self.pair(process, to);
            for lane in self.lanes_of(pair) {
                let kept = self.random.below(self.lanes[lane].packets.len() as u64 + 1) as usize;
                self.lose_packets(lane, kept);
                // A silence ends here: what it has kept back does not come.
                let held = |handle: &u32| self.flights[*handle].stalled;
                if let Some(first) = self.lanes[lane].packets.iter().position(held) {
                    self.lose_packets(lane, first);
                }
            }
            for lane in self.lanes_of(self.pair(to, process)) {
                self.lose_packets(lane, 0);
            }
            for rail in 0..self.rails.capabilities.len() as u8 {
                if self.is_half_made(Rail(rail), process, to) {
                    self.lose_packets(self.lane(Rail(rail), process, to), 0);
                }
            }
            for lane in self.lanes_of(self.pair(process.min(to), process.max(to))) {
                self.paths[lane].stalled_is_lost();
            }
            if !self.alive[to as usize] || self.strikes(Bug::LostPeerGone) {
                continue;
            }
            let flight = self.flights.insert(Flight::new(process, to, Rail(0), 0, Cargo::Gone));
            self.gone[pair] = Some(flight);
            let time_ps = self.now_ps() + self.random.below(20_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        }
    }

    /// The packets of a lane never arrive, but for the first so many.
    fn lose_packets(&mut self, lane: usize, kept: usize) {
        if kept == 0 {
            self.lanes[lane].front = None;
        }
        for handle in self.lanes[lane].packets.split_off(kept) {
            if self.flights[handle].arrived || self.flights[handle].stalled {
                self.free(handle);
            } else {
                self.flights[handle].fate = Fate::Lost;
            }
        }
    }

    /// The processes that live whose memory gets and puts under way are about.
    pub(super) fn accessed(&self) -> Vec<u32> {
        let flights = (0..self.flights.high_water() as u32).map(|handle| &self.flights[handle]);
        let under_way = flights.filter(|flight| !flight.arrived && flight.fate == Fate::Fine);
        let owners = under_way.filter_map(|flight| match flight.cargo {
            Cargo::Access(Access { put, .. }) => Some(if put { flight.to } else { flight.from }),
            _ => None,
        });
        owners.filter(|&owner| self.alive[owner as usize]).collect()
    }

    pub(super) fn registered_count(&self, owner: u32) -> usize {
        self.registered.iter().flatten().filter(|registration| registration.owner == owner).count()
    }

    /// The next thing that `me` is to see, from a random one of those who have sent, by a random rail.
    pub(super) fn next_arrived(&mut self, me: u32) -> Option<Arrival> {
        let (count, rail_count) = (self.count, self.rails.capabilities.len());
        let start = self.random.below((count * rail_count) as u64) as usize;
        let mut later = None;
        for step in 0..count * rail_count {
            let choice = (start + step) % (count * rail_count);
            let (from, rail) = ((choice / rail_count) as u32, Rail((choice % rail_count) as u8));
            let pair = self.pair(from, me);
            let lane = self.lane(rail, from, me);
            if self.is_half_made(rail, from, me) && !self.lanes[lane].packets.is_empty() {
                continue;
            }
            if self.lanes[lane].front.is_some() {
                // While the rest of it comes, others have something too.
                if self.random.below(2) == 0 {
                    return Some(Arrival::Front(from, rail));
                }
                later = Some(Arrival::Front(from, rail));
                continue;
            }
            if let Some(handle) = self.take_arrived(lane, rail) {
                return Some(self.show(handle, lane));
            }
            // That somebody is gone is heard after all that it has sent.
            let mut lanes = self.lanes[self.lanes_of(pair)].iter();
            let silent = lanes.all(|lane| lane.packets.is_empty() && lane.front.is_none());
            if let Some(handle) = self.gone[pair].filter(|&handle| silent && self.flights[handle].arrived) {
                self.gone[pair] = None;
                return Some(Arrival::Flight(handle));
            }
        }
        later
    }

    /// A packet whose turn it is comes whole or in parts.
    fn show(&mut self, handle: u32, lane: usize) -> Arrival {
        let Flight { from, rail, ref mut cargo, .. } = self.flights[handle];
        let Cargo::Packet { header, payload } = cargo else { return Arrival::Flight(handle) };
        let (header, payload) = (std::mem::take(header), std::mem::take(payload));
        if self.comes_in_parts(&payload) {
            self.flights.remove(handle);
            self.lanes[lane].front = Some(Front::new(header, payload));
            return Arrival::Front(from, rail);
        }
        self.flights[handle].cargo = Cargo::Packet { header, payload };
        Arrival::Flight(handle)
    }

    /// The next packet of a lane, if it is there: the first sent, or any of the first few where a rail keeps
    /// no order.
    fn take_arrived(&mut self, lane: usize, rail: Rail) -> Option<u32> {
        const OUT_OF_ORDER_MAX: u64 = 6;
        let ordered = self.rails.capabilities[usize::from(rail.0)].ordered;
        let queued = self.lanes[lane].packets.len() as u64;
        let reach = if ordered { 1 } else { queued.min(OUT_OF_ORDER_MAX) };
        let start = if reach > 1 { self.random.below(reach) } else { 0 };
        let arrived = |place: &usize| {
            self.lanes[lane].packets.get(*place).is_some_and(|&handle| self.flights[handle].arrived)
        };
        let place = (0..reach).map(|step| ((start + step) % reach) as usize).find(arrived)?;
        self.lanes[lane].packets.remove(place)
    }

    /// Notes what a packet brings its receiver. What comes before its turn is seen when its turn has come,
    /// and what comes again is not seen.
    pub(super) fn note(&mut self, (from, to): (u32, u32), header: &[u8], payload: &[u8]) {
        let pair = self.pair(from, to);
        if !self.is_trunk(pair) {
            self.seen.extend(meaning_of(header, from, to));
            return;
        }
        let Ok((TrunkHeader { body, .. }, length)) = trunk::parse(header) else { return };
        if body == Body::Bye {
            self.seen.push(Seen::Bye { from, to });
        }
        if body != Body::Stream {
            return;
        }
        // A header may be handed over in two pieces.
        let rest = [&header[length..], payload].concat();
        let Ok(sequence) = wire::sequence_of(&rest) else { return };
        let seen = meaning_of(&rest, from, to);
        let (next, early) = &mut self.early[pair];
        if sequence < *next {
            return;
        }
        early.entry(sequence).or_insert(seen);
        while let Some(seen) = early.remove(next) {
            *next += 1;
            self.seen.extend(seen);
        }
    }
}

/// What a packet of the protocols says to the model.
fn meaning_of(bytes: &[u8], from: u32, to: u32) -> Option<Seen> {
    match wire::parse(bytes) {
        Ok((_, Header::Eager(envelope) | Header::EagerSync(envelope, _), _)) => {
            Some(Seen::Envelope { from, to, context: envelope.context, eager: true })
        }
        Ok((_, Header::Rts { envelope, .. }, _)) => {
            Some(Seen::Envelope { from, to, context: envelope.context, eager: false })
        }
        Ok((_, Header::Cancel(request), _)) => Some(Seen::Cancel { from, to, request }),
        _ => None,
    }
}
