//! What connects the processes of a world: a simulated network, several rails on it, and moods.
//!
//! A rail keeps the order of what one process sends another; rails have NICs of their own at different places of the
//! network, so that what goes by one overtakes what goes by another. Where the engine runs a link in trunk mode (several
//! rails, or one that may break) a rail between two processes fails and comes back, as `ayatori_core::device` has it:
//! gets and puts on it break (part of the data may have been moved), its packets are lost, it takes nothing new; and
//! packets are damaged, which is loss without a word.

use std::collections::{BTreeMap, VecDeque};

use ayatori_core::buffer::Buffer;
use ayatori_core::device::{Event, RailBroken, RailCapabilities, RemoteRegion, Token};
use ayatori_core::ids::{ContextId, ProcessId, Rail, RailSet, RequestId};
use ayatori_core::wire::trunk::{self, Body, TrunkHeader};
use ayatori_core::wire::{self, Header};

use super::Bug;
use crate::network::{Gap, Message, Network, NicId, NoProbe, Occurrence};
use crate::random::Random;
use crate::slab::Slab;

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
    /// One in so many calls of the world a rail fails somewhere.
    pub(super) outage_one_in: u64,
    /// One in so many packets of links in trunk mode is damaged, and so lost.
    pub(super) damage_one_in: u64,
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
    /// The rail works again.
    RailUp,
    /// It is later now.
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// A crash took it.
    Lost,
    /// Its rail failed under it, and its owner knows.
    Broken,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) rail: Rail,
    pub(super) cargo: Cargo,
    arrived: bool,
    fate: Fate,
}

impl Flight {
    fn new(from: u32, to: u32, rail: Rail, cargo: Cargo) -> Flight {
        Flight { from, to, rail, cargo, arrived: false, fate: Fate::Fine }
    }
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
    /// Packets in the order sent, by (from × count + to) × number of rails + rail.
    lanes: Vec<VecDeque<u32>>,
    /// News that a process is gone, by from × count + to.
    gone: Vec<Option<u32>>,
    /// Rails that do not work now, by from × count + to.
    down: Vec<RailSet>,
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
    pub(super) random: Random,
    pub(super) bug: Option<Bug>,
    pub(super) outage_count: u64,
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
            lanes: (0..lane_count).map(|_| VecDeque::new()).collect(),
            gone: vec![None; count * count],
            down: vec![RailSet::default(); count * count],
            early: vec![(0, BTreeMap::new()); count * count],
            reports: (0..count).map(|_| VecDeque::new()).collect(),
            extra_packets: vec![0; count * count],
            registered: Vec::new(),
            alive: vec![true; count],
            seen: Vec::new(),
            moods: Moods::default(),
            random,
            bug,
            outage_count: 0,
        }
    }

    pub(super) fn pair(&self, from: u32, to: u32) -> usize {
        from as usize * self.count + to as usize
    }

    /// The lanes of a pair: one a rail.
    fn lanes_of(&self, pair: usize) -> std::ops::Range<usize> {
        let rail_count = self.rails.capabilities.len();
        pair * rail_count..(pair + 1) * rail_count
    }

    /// Whether the engine runs the link between two processes in trunk mode.
    pub(super) fn is_trunk(&self, pair: usize) -> bool {
        let mut rails = self.rails.between[pair].iter();
        let may_break = |rail: Rail| self.rails.capabilities[usize::from(rail.0)].may_break;
        rails.next().is_some_and(may_break) || rails.next().is_some()
    }

    /// Something happens at this time, if nothing else does.
    pub(super) fn wait_until(&mut self, time_ps: u64) {
        let time_ps = time_ps.max(self.now_ps() + 1);
        let flight = self.flights.insert(Flight::new(0, 0, Rail(0), Cargo::Tick));
        self.network.set_timer(time_ps, flight | HELD_UP);
    }

    pub(super) fn is_down(&self, rail: Rail, from: u32, to: u32) -> bool {
        self.down[self.pair(from, to)].contains(rail)
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

    /// Puts something on its way.
    pub(super) fn depart(&mut self, from: u32, to: u32, rail: Rail, bytes: usize, cargo: Cargo) {
        let ordered = matches!(cargo, Cargo::Packet { .. });
        let flight = self.flights.insert(Flight::new(from, to, rail, cargo));
        if ordered {
            let lane = self.lanes_of(self.pair(from, to)).start + usize::from(rail.0);
            self.lanes[lane].push_back(flight);
        }
        let rail_count = self.rails.capabilities.len();
        let nic = |process: u32| self.rails.nics[process as usize * rail_count + usize::from(rail.0)];
        let (from, to) = (nic(from), nic(to));
        if from == to {
            let time_ps = self.now_ps() + self.random.below(1_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        } else {
            let bytes = bytes as u64;
            let message = Message { from, to, bytes, gap: Gap::NONE, token: flight, notify_injected: false };
            self.network.send(message);
        }
    }

    /// Runs the network through its next occurrences, at most so many. How many there were.
    pub(super) fn pump(&mut self, count_max: u64) -> Result<u64, String> {
        for count in 0..count_max {
            match self.network.advance().map_err(|deadlock| deadlock.to_string())? {
                None => return Ok(count),
                Some(Occurrence::Delivered { token, .. }) => {
                    let Moods { delay_one_in, delay_max_ps, .. } = self.moods;
                    if self.one_in(delay_one_in) {
                        let time_ps = self.now_ps() + self.random.below(delay_max_ps);
                        self.network.set_timer(time_ps, token | HELD_UP);
                    } else {
                        self.arrive(token);
                    }
                }
                Some(Occurrence::Timer { token }) => self.arrive(token & !HELD_UP),
                Some(Occurrence::Injected { .. }) => {}
            }
        }
        Ok(count_max)
    }

    fn arrive(&mut self, handle: u32) {
        let flight = &mut self.flights[handle];
        flight.arrived = true;
        let (from, to, rail, fate) = (flight.from, flight.to, flight.rail, flight.fate);
        match flight.cargo {
            Cargo::Access(access) => {
                self.flights.remove(handle);
                let owner = if access.put { from } else { to };
                self.finish_access(owner, rail, access, fate);
            }
            Cargo::RailUp => {
                self.flights.remove(handle);
                self.rail_up(rail, from, to);
            }
            Cargo::Tick => self.flights.remove(handle),
            _ if fate == Fate::Lost => self.flights.remove(handle),
            _ => {}
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
                if !self.strikes(Bug::EmptyCompletion) {
                    let length = access.local.len();
                    self.copy(rail, access, length);
                }
                if !self.strikes(Bug::LostCompletion) {
                    self.reports[owner as usize].push_back(Event::Completion(access.token, Ok(())));
                }
            }
        }
    }

    /// Moves the first so many bytes.
    pub(super) fn copy(&mut self, rail: Rail, access: Access, length: usize) {
        let Access { local, remote, put, .. } = access;
        let cut = usize::from(self.strikes(Bug::TruncatedCopy));
        let (length, offset) = (length.saturating_sub(cut), remote.offset as usize);
        let registration = self.registered[remote.key.words[0] as usize].as_ref();
        let registration = registration.expect("a put or get on memory that is not registered");
        assert_eq!(registration.rail, rail, "a put or get with the key of another rail");
        let memory = registration.buffer;
        if put {
            memory.copy_from(offset, &local, 0, length);
        } else {
            local.copy_from(0, &memory, offset, length);
        }
    }

    /// In some worlds, once in a while: a rail between two processes stops working, for some time.
    pub(super) fn maybe_fail_rail(&mut self) -> Option<(Rail, u32, u32)> {
        let outage_one_in = self.moods.outage_one_in;
        if !self.one_in(outage_one_in) {
            return None;
        }
        let [a, b] = [0; 2].map(|_| self.random.below(self.count as u64) as u32);
        let rail = Rail(self.random.below(self.rails.capabilities.len() as u64) as u8);
        self.fail_rail(rail, a, b).then_some((rail, a, b))
    }

    /// A rail's connection breaks. Whether there was one.
    pub(super) fn fail_rail(&mut self, rail: Rail, a: u32, b: u32) -> bool {
        let pair = self.pair(a, b);
        let usable = self.rails.between[pair].contains(rail) && !self.down[pair].contains(rail);
        let both_live = [a, b].iter().all(|&process| self.alive[process as usize]);
        if a == b || !usable || !both_live || !self.is_trunk(pair) {
            return false;
        }
        self.outage_count += 1;
        self.break_accesses(rail, a, b);
        for (from, to) in [(a, b), (b, a)] {
            let pair = self.pair(from, to);
            self.down[pair].0 |= RailSet::one(rail).0;
            let lane = self.lanes_of(pair).start + usize::from(rail.0);
            self.lose_packets(lane, 0);
            self.reports[from as usize].push_back(Event::RailDown(rail, ProcessId(to)));
        }
        let back = self.flights.insert(Flight::new(a, b, rail, Cargo::RailUp));
        // From a moment to longer than a rail may be silent.
        let longest_ps = [20_000_000, 2_000_000_000, 900_000_000_000][self.random.below(3) as usize];
        let time_ps = self.now_ps() + self.random.below(longest_ps);
        self.network.set_timer(time_ps, back | HELD_UP);
        true
    }

    /// Gets and puts under way on a failing rail come to nothing, or to a part; their owners are told.
    fn break_accesses(&mut self, rail: Rail, a: u32, b: u32) {
        for handle in 0..self.flights.high_water() as u32 {
            let flight = &self.flights[handle];
            let between = [(a, b), (b, a)].contains(&(flight.from, flight.to)) && flight.rail == rail;
            let Cargo::Access(access) = flight.cargo else { continue };
            if !between || flight.arrived || flight.fate != Fate::Fine {
                continue;
            }
            let owner = if access.put { flight.from } else { flight.to };
            self.flights[handle].fate = Fate::Broken;
            let length = self.random.below(access.local.len() as u64 + 1) as usize;
            self.copy(rail, access, length);
            self.reports[owner as usize].push_back(Event::Completion(access.token, Err(RailBroken)));
        }
    }

    fn rail_up(&mut self, rail: Rail, a: u32, b: u32) {
        for (from, to) in [(a, b), (b, a)] {
            let pair = self.pair(from, to);
            if self.down[pair].contains(rail) && self.alive[from as usize] {
                self.reports[from as usize].push_back(Event::RailUp(rail, ProcessId(to)));
            }
            self.down[pair].0 &= !RailSet::one(rail).0;
        }
    }

    /// A process dies: some of what it has sent is lost, and the others hear of it later.
    pub(super) fn crash(&mut self, process: u32) {
        self.alive[process as usize] = false;
        for handle in 0..self.flights.high_water() as u32 {
            let flight = &mut self.flights[handle];
            let involved = flight.from == process || flight.to == process;
            // Freed places are never looked at again before they are filled anew.
            if involved && !flight.arrived && matches!(flight.cargo, Cargo::Access(_)) {
                flight.fate = Fate::Lost;
            }
        }
        for to in 0..self.count as u32 {
            if to == process || !self.alive[to as usize] {
                continue;
            }
            let pair = self.pair(process, to);
            for lane in self.lanes_of(pair) {
                let kept = self.random.below(self.lanes[lane].len() as u64 + 1) as usize;
                self.lose_packets(lane, kept);
            }
            if self.strikes(Bug::LostPeerGone) {
                continue;
            }
            let flight = self.flights.insert(Flight::new(process, to, Rail(0), Cargo::Gone));
            self.gone[pair] = Some(flight);
            let time_ps = self.now_ps() + self.random.below(20_000_000);
            self.network.set_timer(time_ps, flight | HELD_UP);
        }
    }

    /// The packets of a lane never arrive, but for the first so many.
    fn lose_packets(&mut self, lane: usize, kept: usize) {
        for handle in self.lanes[lane].split_off(kept) {
            if self.flights[handle].arrived {
                self.flights.remove(handle);
            } else {
                self.flights[handle].fate = Fate::Lost;
            }
        }
    }

    pub(super) fn registered_count(&self, owner: u32) -> usize {
        self.registered.iter().flatten().filter(|registration| registration.owner == owner).count()
    }

    /// The next thing that `me` is to see, from a random one of those who have sent, by a random rail.
    pub(super) fn next_arrived(&mut self, me: u32) -> Option<u32> {
        let (count, rail_count) = (self.count, self.rails.capabilities.len());
        let start = self.random.below((count * rail_count) as u64) as usize;
        for step in 0..count * rail_count {
            let choice = (start + step) % (count * rail_count);
            let (from, rail) = ((choice / rail_count) as u32, Rail((choice % rail_count) as u8));
            let pair = self.pair(from, me);
            let lane = self.lanes_of(pair).start + usize::from(rail.0);
            let front = self.lanes[lane].front().copied();
            if let Some(handle) = front.filter(|&handle| self.flights[handle].arrived)
                && !self.is_down(rail, from, me)
            {
                self.lanes[lane].pop_front();
                return Some(handle);
            }
            // That somebody is gone is heard after all that it has sent.
            let silent = self.lanes_of(pair).all(|lane| self.lanes[lane].is_empty());
            if let Some(handle) = self.gone[pair].filter(|&handle| silent && self.flights[handle].arrived) {
                self.gone[pair] = None;
                return Some(handle);
            }
        }
        None
    }

    /// Notes what a packet brings its receiver. What comes before its turn is seen when its turn has come, and what comes
    /// again is not seen.
    pub(super) fn note(&mut self, handle: u32) {
        let Flight { from, to, ref cargo, .. } = self.flights[handle];
        let Cargo::Packet { header, payload } = cargo else {
            self.seen.push(Seen::Gone { from, to });
            return;
        };
        let pair = self.pair(from, to);
        if !self.is_trunk(pair) {
            self.seen.extend(meaning_of(header, from, to));
            return;
        }
        let Ok((TrunkHeader { body: Body::Stream, .. }, length)) = trunk::parse(header) else { return };
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

    /// What a bug makes of a packet.
    pub(super) fn spoil(&mut self, pair: usize, header: &mut Vec<u8>, payload: &mut [u8]) -> bool {
        let Ok((mut prefix, meaning, _)) = wire::parse(header) else { return false };
        prefix.sequence = prefix.sequence.wrapping_add(self.extra_packets[pair]);
        let mut twice = false;
        let meaning = match (self.bug, meaning) {
            (Some(Bug::LostFin), Header::Fin(_)) if self.strikes(Bug::LostFin) => Header::Credit,
            (Some(Bug::LostCts), Header::Cts { .. }) if self.strikes(Bug::LostCts) => Header::Credit,
            (Some(Bug::LostMatched), Header::Matched(_)) if self.strikes(Bug::LostMatched) => Header::Credit,
            (Some(Bug::WrongTag), Header::Eager(mut envelope)) if self.strikes(Bug::WrongTag) => {
                envelope.tag ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongSource), Header::Eager(mut envelope)) if self.strikes(Bug::WrongSource) => {
                envelope.source ^= 1;
                Header::Eager(envelope)
            }
            (Some(Bug::WrongOffset), Header::Data { receiver, offset })
                if offset > 0 && self.strikes(Bug::WrongOffset) =>
            {
                Header::Data { receiver, offset: offset - 1 }
            }
            (Some(Bug::DoubleDelivery), Header::Eager(_)) => {
                twice = self.strikes(Bug::DoubleDelivery);
                meaning
            }
            _ => meaning,
        };
        if prefix.credits > 0 && self.strikes(Bug::LostCredit) {
            prefix.credits = 0;
        }
        if let (Header::Eager(_), Some(last)) = (&meaning, payload.last_mut())
            && self.strikes(Bug::ChangedByte)
        {
            *last ^= 0x40;
        }
        *header = meaning.emit(prefix).as_slice().to_vec();
        twice
    }

    /// Swaps the packet just sent with the one before it, sequence numbers staying where they are.
    pub(super) fn overtake(&mut self, pair: usize, rail: Rail) {
        let lane = self.lanes_of(pair).start + usize::from(rail.0);
        let queue = &self.lanes[lane];
        let (Some(&last), Some(&before)) = (queue.back(), queue.iter().rev().nth(1)) else { return };
        let envelope = |handle: u32| match &self.flights[handle].cargo {
            Cargo::Packet { header, .. } => wire::parse(header).ok().filter(|(_, meaning, _)| {
                matches!(meaning, Header::Eager(_) | Header::EagerSync(..) | Header::Rts { .. })
            }),
            _ => None,
        };
        let (Some((a, first, _)), Some((b, second, _))) = (envelope(before), envelope(last)) else { return };
        let [first, second] = [first.emit(b), second.emit(a)];
        for (handle, bytes) in [(before, first), (last, second)] {
            if let Cargo::Packet { header, .. } = &mut self.flights[handle].cargo {
                *header = bytes.as_slice().to_vec();
            }
        }
        let length = self.lanes[lane].len();
        self.lanes[lane].swap(length - 1, length - 2);
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
