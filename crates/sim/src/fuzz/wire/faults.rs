//! What goes wrong with rails: cuts, silence, returns, speeds. Only between processes whose link is in trunk
//! mode.
//!
//! ```text
//!            cut (both ends are told, each in its time)
//!    Works ────────────────────────────────────────────► Down ◄──┐
//!     ▲ │                                                  │ │    │ an end drops the connection (reset)
//!     │ └── silence (nobody is told) ──► Silent ───────────┼─┼────┘
//!     │                                     │              │ └─► never, if it is a scar
//!     └───────── the fault ends ────────────┴──────────────┘
//! ```
//!
//! An end of a connection that is broken and does not know takes packets, which are lost, and gets and puts,
//! which come to nothing when it is told. In some worlds a connection comes back by itself when its fault
//! ends, in others the processes' machines make it (`connecting`). A silent rail loses what it is given, or
//! keeps it back until the silence ends (as TCP does), in one direction or both.

use ayatori_core::device::{Event, RailBroken};
use ayatori_core::ids::{ProcessId, Rail, RailSet};

use super::{Cargo, Fate, Flight, HELD_UP, Wire};
use crate::fuzz::Bug;

/// The longest time until an end hears of a cut.
const TOLD_AFTER_MAX_PS: u64 = 1_000_000_000;

/// How it is with a rail between two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Works,
    /// There is no connection, whatever the ends believe.
    Down,
    /// From the lower process to the higher, and back; whether what is lost comes after all when it ends.
    Silent {
        ways: [bool; 2],
        stalls: bool,
    },
}

/// A rail between two processes.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) condition: Condition,
    pub(super) works_since_ps: u64,
    /// Whether a handshake comes through. Only worlds that make connections look at it.
    pub(super) lets_through: bool,
    /// It never works again.
    pub(super) is_scar: bool,
    /// Counts faults: the end of an earlier one does not end a later one.
    fault: u32,
    /// Held back by silence.
    stalled: Vec<u32>,
    /// Beside what the network takes.
    pub(super) byte_ps: u64,
    pub(super) latency_ps: u64,
}

impl Path {
    pub(super) fn new(byte_ps: u64, latency_ps: u64) -> Path {
        Path {
            condition: Condition::Works,
            works_since_ps: 0,
            lets_through: true,
            is_scar: false,
            fault: 0,
            stalled: Vec::new(),
            byte_ps,
            latency_ps,
        }
    }

    /// A process has died, and with it what a silence has kept back.
    pub(super) fn stalled_is_lost(&mut self) {
        self.stalled.clear();
        if self.condition != Condition::Works {
            self.condition = Condition::Down;
        }
    }

    /// Whether nothing comes from `from` to `to`.
    pub(super) fn is_silent(&self, from: u32, to: u32) -> bool {
        matches!(self.condition, Condition::Silent { ways, .. } if ways[usize::from(from > to)])
    }

    pub(super) fn stalls(&self) -> bool {
        matches!(self.condition, Condition::Silent { stalls: true, .. })
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Cut,
    Silence,
}

impl Wire {
    /// Once in a while: a rail between two processes, or all of them, stops working, or changes its speed. In
    /// words.
    pub(in crate::fuzz) fn maybe_fault(&mut self) -> Option<String> {
        let fault_one_in = self.moods.fault_one_in;
        if !self.one_in(fault_one_in) {
            return None;
        }
        let [a, b] = [0; 2].map(|_| self.random.below(self.count as u64) as u32);
        let rails = self.rails.between[self.pair(a, b)];
        if a == b || !self.is_trunk(self.pair(a, b)) {
            return None;
        }
        let one = Rail(self.random.below(self.rails.capabilities.len() as u64) as u8);
        if self.one_in(4) {
            let byte_ps = self.pick_byte_ps();
            let path = self.path(one, a, b);
            self.paths[path].byte_ps = byte_ps;
            return Some(format!("{one:?} between {a} and {b} takes {byte_ps} ps a byte"));
        }
        let hit = if self.one_in(4) { rails } else { RailSet(rails.0 & RailSet::one(one).0) };
        // From a moment to longer than a peer may be without any rail.
        let longest_ps = [20_000_000, 2_000_000_000, 200_000_000_000, 1_000_000_000_000, 25_000_000_000_000];
        let longest_ps = longest_ps[self.random.below(5) as usize];
        let mut said = String::new();
        for rail in hit.iter() {
            let fault = if self.one_in(2) { Fault::Cut } else { Fault::Silence };
            let lasts_ps = 1 + self.random.below(longest_ps);
            if self.fault(rail, a, b, fault, Some(lasts_ps)) {
                let us = lasts_ps / 1_000_000;
                said += &format!("{fault:?} of {rail:?} between {a} and {b} for {us} µs; ");
            }
        }
        (!said.is_empty()).then_some(said)
    }

    pub(in crate::fuzz) fn pick_byte_ps(&mut self) -> u64 {
        [0, 0, 100, 1_000, 100_000][self.random.below(5) as usize]
    }

    /// Two processes cannot reach each other for a time: all rails between them fail. Whether there were any
    /// that can.
    pub(in crate::fuzz) fn sever(&mut self, a: u32, b: u32, lasts_ps: u64) -> bool {
        if a == b || !self.is_trunk(self.pair(a, b)) {
            return false;
        }
        let fault = if self.one_in(2) { Fault::Cut } else { Fault::Silence };
        let rails = self.rails.between[self.pair(a, b)];
        rails.iter().filter(|&rail| self.fault(rail, a, b, fault, Some(lasts_ps))).count() > 0
    }

    /// A rail stops working, for ever if no time is given. Whether it worked.
    fn fault(&mut self, rail: Rail, a: u32, b: u32, fault: Fault, lasts_ps: Option<u64>) -> bool {
        let path = self.path(rail, a, b);
        let both_live = [a, b].iter().all(|&process| self.alive[process as usize]);
        let exists = self.rails.between[self.pair(a, b)].contains(rail);
        if a == b || !both_live || !exists || self.paths[path].condition != Condition::Works {
            return false;
        }
        self.outage_count += 1;
        self.paths[path].is_scar = lasts_ps.is_none();
        self.paths[path].fault += 1;
        self.paths[path].lets_through = false;
        match fault {
            Fault::Cut => {
                self.break_connection(rail, a, b);
                for (from, to) in [(a, b), (b, a)] {
                    self.tell_later(rail, from, to);
                }
            }
            Fault::Silence => {
                let ways = [[true, true], [true, false], [false, true]][self.random.below(3) as usize];
                let stalls = self.one_in(2);
                self.paths[path].condition = Condition::Silent { ways, stalls };
                for (from, to) in [(a, b), (b, a)] {
                    let (now_ps, lane) = (self.now_ps(), self.lane(rail, from, to));
                    let is_waiting = |handle: &u32| !self.flights[*handle].arrived;
                    if self.lanes[lane].packets.iter().any(is_waiting) {
                        self.lanes[lane].owes_since_ps = Some(now_ps);
                    }
                }
                if !stalls {
                    self.lose_in_silence(rail, a, b);
                }
            }
        }
        if let Some(lasts_ps) = lasts_ps {
            self.return_after(rail, a, b, TOLD_AFTER_MAX_PS + lasts_ps);
        }
        true
    }

    fn tell_later(&mut self, rail: Rail, from: u32, to: u32) {
        let flight = self.flights.insert(Flight::new(from, to, rail, 0, Cargo::Down));
        let time_ps = self.now_ps() + self.random.below(TOLD_AFTER_MAX_PS);
        self.network.set_timer(time_ps, flight | HELD_UP);
    }

    fn return_after(&mut self, rail: Rail, a: u32, b: u32, after_ps: u64) {
        let fault = self.paths[self.path(rail, a, b)].fault;
        let flight = self.flights.insert(Flight::new(a, b, rail, 0, Cargo::Back { fault }));
        self.network.set_timer(self.now_ps() + after_ps, flight | HELD_UP);
    }

    /// The connection is no more: what is on its way is lost.
    pub(super) fn break_connection(&mut self, rail: Rail, a: u32, b: u32) {
        let path = self.path(rail, a, b);
        self.paths[path].condition = Condition::Down;
        for (from, to) in [(a, b), (b, a)] {
            let lane = self.lane(rail, from, to);
            // Some have arrived, and are read before the end is.
            let arrived = self.lanes[lane].packets.iter().take_while(|&&handle| self.flights[handle].arrived);
            let kept = self.random.below(arrived.count() as u64 + 1) as usize;
            self.lose_packets(lane, kept);
        }
        self.break_accesses(rail, a, b);
        self.paths[path].stalled.clear();
    }

    /// What is on its way into a silence is lost; what has arrived is not.
    fn lose_in_silence(&mut self, rail: Rail, a: u32, b: u32) {
        for (from, to) in [(a, b), (b, a)] {
            if !self.paths[self.path(rail, a, b)].is_silent(from, to) {
                continue;
            }
            let lane = self.lane(rail, from, to);
            let (kept, lost): (Vec<u32>, Vec<u32>) =
                self.lanes[lane].packets.iter().partition(|&&handle| self.flights[handle].arrived);
            self.lanes[lane].packets = lost.into();
            self.lose_packets(lane, 0);
            self.lanes[lane].packets = kept.into();
        }
        self.break_accesses(rail, a, b);
    }

    /// Gets and puts under way come to nothing, or to a part; their owners are told with the end of the
    /// connection.
    fn break_accesses(&mut self, rail: Rail, a: u32, b: u32) {
        for handle in 0..self.flights.high_water() as u32 {
            let flight = &self.flights[handle];
            let between = [(a, b), (b, a)].contains(&(flight.from, flight.to)) && flight.rail == rail;
            let Cargo::Access(access) = flight.cargo else { continue };
            if !between || flight.arrived || flight.fate != Fate::Fine {
                continue;
            }
            let (owner, peer) = if access.put { (flight.from, flight.to) } else { (flight.to, flight.from) };
            let is_stalled = flight.stalled;
            self.flights[handle].fate = Fate::Broken;
            let length = self.random.below(access.local.len() as u64 + 1) as usize;
            self.copy(rail, access, length);
            let lane = self.lane(rail, owner, peer);
            self.lanes[lane].broken.push(access.token);
            if is_stalled {
                self.free(handle);
            }
        }
    }

    /// An end hears that its connection has ended. Its gets and puts end first.
    pub(super) fn tell_down(&mut self, rail: Rail, me: u32, peer: u32) {
        let lane = self.lane(rail, me, peer);
        if !self.lanes[lane].is_connected || !self.alive[me as usize] {
            return;
        }
        self.disconnect(rail, me, peer);
        self.reports[me as usize].push_back(Event::RailDown(rail, ProcessId(peer)));
        self.on_disconnected(rail, me, peer);
    }

    pub(super) fn disconnect(&mut self, rail: Rail, me: u32, peer: u32) {
        let (out, back) = (self.lane(rail, me, peer), self.lane(rail, peer, me));
        self.lanes[out].is_connected = false;
        self.lanes[out].owes_since_ps = None;
        self.lose_packets(back, 0);
        self.report_broken(out, me);
    }

    fn report_broken(&mut self, lane: usize, owner: u32) {
        for token in std::mem::take(&mut self.lanes[lane].broken) {
            if !self.strikes(Bug::LostBreak) {
                self.reports[owner as usize].push_back(Event::Completion(token, Err(RailBroken)));
            }
        }
    }

    /// The engine of `me` wants another connection.
    pub(in crate::fuzz) fn reset(&mut self, rail: Rail, me: u32, peer: u32) {
        if !self.lanes[self.lane(rail, me, peer)].is_connected {
            return;
        }
        let path = self.path(rail, me, peer);
        let before = self.paths[path].condition;
        if before != Condition::Down {
            self.break_connection(rail, me, peer);
        }
        self.disconnect(rail, me, peer);
        if self.connecting.is_some() {
            self.on_disconnected(rail, me, peer);
        } else if before == Condition::Works {
            // It was well. A new one is made at once; the other end hears of the end of this one.
            self.paths[path].fault += 1;
            self.tell_later(rail, peer, me);
            self.return_after(rail, me, peer, TOLD_AFTER_MAX_PS + 1_000_000);
        }
    }

    /// A fault ends: the rail works again, over a new connection if the old one is gone.
    pub(super) fn come_back(&mut self, rail: Rail, a: u32, b: u32, fault: u32) {
        let path = self.path(rail, a, b);
        let both_live = [a, b].iter().all(|&process| self.alive[process as usize]);
        let is_over = self.paths[path].fault != fault || self.paths[path].condition == Condition::Works;
        if is_over || self.paths[path].is_scar || !both_live {
            return;
        }
        self.paths[path].lets_through = true;
        if self.connecting.is_some() && self.paths[path].condition == Condition::Down {
            for (from, to) in [(a, b), (b, a)] {
                self.tell_down(rail, from, to);
            }
            return;
        }
        let before = std::mem::replace(&mut self.paths[path].condition, Condition::Works);
        self.paths[path].works_since_ps = self.now_ps();
        for (from, to) in [(a, b), (b, a)] {
            let lane = self.lane(rail, from, to);
            if before == Condition::Down {
                self.tell_down(rail, from, to);
                self.lanes[lane].is_connected = true;
                if !self.strikes(Bug::LostRailUp) {
                    self.reports[from as usize].push_back(Event::RailUp(rail, ProcessId(to)));
                }
            } else {
                self.lanes[lane].owes_since_ps = None;
                self.report_broken(lane, from);
            }
        }
        for handle in std::mem::take(&mut self.paths[path].stalled) {
            self.flights[handle].stalled = false;
            self.arrive(handle);
        }
    }

    /// Something stays on a silent rail until it speaks again.
    pub(super) fn stall(&mut self, handle: u32) {
        let Flight { from, to, rail, .. } = self.flights[handle];
        self.flights[handle].stalled = true;
        let path = self.path(rail, from, to);
        self.paths[path].stalled.push(handle);
    }

    /// All rails begin without a connection, which comes soon.
    pub(in crate::fuzz) fn begin_unconnected(&mut self) {
        let count = self.count as u32;
        for a in 0..count {
            for b in a + 1..count {
                let pair = self.pair(a, b);
                if !self.is_trunk(pair) {
                    continue;
                }
                for rail in self.rails.between[pair].iter() {
                    let path = self.path(rail, a, b);
                    self.paths[path].condition = Condition::Down;
                    self.paths[path].lets_through = false;
                    for (from, to) in [(a, b), (b, a)] {
                        let lane = self.lane(rail, from, to);
                        self.lanes[lane].is_connected = false;
                    }
                    let after_ps = self.random.below(5_000_000_000);
                    self.return_after(rail, a, b, after_ps);
                }
            }
        }
    }

    /// Everything that can heal does, soon.
    pub(in crate::fuzz) fn heal(&mut self) {
        let count = self.count as u32;
        for a in 0..count {
            for b in a + 1..count {
                for rail in self.rails.between[self.pair(a, b)].iter() {
                    let path = self.path(rail, a, b);
                    if self.paths[path].condition == Condition::Works || self.paths[path].is_scar {
                        continue;
                    }
                    let after_ps = TOLD_AFTER_MAX_PS + self.random.below(TOLD_AFTER_MAX_PS);
                    self.return_after(rail, a, b, after_ps);
                }
            }
        }
    }

    /// Some rail, or all rails between two processes, never work again. In words.
    pub(in crate::fuzz) fn scar(&mut self) -> String {
        let mut said = String::new();
        let [a, b] = [0; 2].map(|_| self.random.below(self.count as u64) as u32);
        let rails = self.rails.between[self.pair(a, b)];
        if a == b || !self.is_trunk(self.pair(a, b)) {
            return said;
        }
        let all = self.one_in(3);
        let spared = Rail(self.random.below(self.rails.capabilities.len() as u64) as u8);
        for rail in rails.iter().filter(|&rail| all || rail != spared) {
            let fault = if self.one_in(2) { Fault::Cut } else { Fault::Silence };
            if self.fault(rail, a, b, fault, None) {
                said += &format!("{fault:?} of {rail:?} between {a} and {b} for ever; ");
            }
        }
        said
    }

    /// Whether some rail between two processes has worked since a time, without a pause.
    pub(in crate::fuzz) fn has_worked_since(&self, a: u32, b: u32, time_ps: u64) -> bool {
        self.rails.between[self.pair(a, b)].iter().any(|rail| {
            let path = &self.paths[self.path(rail, a, b)];
            path.condition == Condition::Works && path.works_since_ps <= time_ps
        })
    }

    /// Whether a rail between two processes works, for good.
    pub(in crate::fuzz) fn works(&self, rail: Rail, a: u32, b: u32) -> bool {
        self.paths[self.path(rail, a, b)].condition == Condition::Works
    }

    /// For how long the network has owed an answer to `me`, ps.
    pub(in crate::fuzz) fn owes_ps(&self, rail: Rail, me: u32, peer: u32) -> u64 {
        let since_ps = self.lanes[self.lane(rail, me, peer)].owes_since_ps;
        since_ps.map_or(0, |since_ps| self.now_ps() - since_ps)
    }
}
