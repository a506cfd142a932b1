//! Connections of links in trunk mode, made by `ayatori_core::connect` as TCP's device has it make them,
//! while messages flow and rails fail.
//!
//! Both ends may dial; dials cross, are refused by who does not listen yet or has died, and are lost where a
//! fault cuts the rail. The listener's end of a connection stands before the dialler's, so a connection may
//! end half made: what its listener has sent by then is lost. In such worlds a fault that ends lets
//! handshakes through again, and no more: the machines make the connection.

use std::collections::BTreeMap;

use ayatori_core::connect::{
    Claim, Connections, DIALLED_DELAY, DialId, Failure, Made, Output, PendingId, RailPlan, Timing, Verdict,
};
use ayatori_core::device::Event;
use ayatori_core::ids::{ProcessId, Rail};
use ayatori_core::time::{Duration, Instant};

use super::faults::Condition;
use super::{Cargo, Flight, HELD_UP, Wire};
use crate::fuzz::Bug;
use ayatori_random::Random;

/// As TCP's device has it by default.
const TIMING: Timing =
    Timing { connect: Duration::from_s(1), handshake: Duration::from_s(2), pending_max: 16 };
/// A word takes so long, and with a slow network, once in so many words, up to so long, ps.
const WORD_MIN_PS: u64 = 20_000_000;
const WORD_MAX_PS: u64 = 200_000_000;
const SLOW_ONE_IN: u64 = 30;
const SLOW_MAX_PS: u64 = 1_500_000_000_000;
/// An end that the network swallows is noticed after so long at most, ps.
const NOTICED_WITHIN_PS: u64 = 1_000_000_000_000;
/// A process may begin to listen so late, ps.
const LISTENS_WITHIN_PS: u64 = 300_000_000_000;

/// What one end of a socket tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fuzz) enum Word {
    Dial,
    Connected,
    Refused,
    Proof,
    Verdict(Verdict, u32),
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Handshake,
    Stands(u32),
}

/// A connection from its dial on. Ends: the dialler's, the listener's.
struct Socket {
    processes: [u32; 2],
    rail: Rail,
    dial: DialId,
    claim: Claim,
    pending: Option<PendingId>,
    ends: [End; 2],
    /// Both ends have stood.
    was_whole: bool,
}

/// What has happened to connections.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::fuzz) struct Counts {
    pub(in crate::fuzz) refused: u64,
    pub(in crate::fuzz) crossed: u64,
    pub(in crate::fuzz) half_made: u64,
    pub(in crate::fuzz) again: u64,
}

/// The machines of all processes, and what is between them.
pub(super) struct Connecting {
    machines: Vec<Connections>,
    listens_at_ps: Vec<u64>,
    /// When each machine is called next, if it wants to be.
    due_ps: Vec<Option<u64>>,
    sockets: Vec<Socket>,
    dials: BTreeMap<(u32, DialId), usize>,
    pending: BTreeMap<(u32, PendingId), usize>,
    /// The socket that stands at the end that sends on a lane.
    standing: BTreeMap<usize, usize>,
    random: Random,
    counts: Counts,
}

impl Wire {
    /// No rail of a link in trunk mode is connected yet, and those who want peers, one or both of two, dial.
    pub(in crate::fuzz) fn begin_connecting(&mut self, mut random: Random) {
        self.begin_unconnected();
        let count = self.count as u32;
        let machine = |me| Connections::new(ProcessId(me), TIMING);
        let mut machines: Vec<_> = (0..count).map(machine).collect();
        let listens_at_ps = |random: &mut Random| match random.below(4) {
            0 => random.below(LISTENS_WITHIN_PS),
            _ => 0,
        };
        let listens_at_ps: Vec<u64> = (0..count).map(|_| listens_at_ps(&mut random)).collect();
        for a in 0..count {
            for b in a + 1..count {
                let sides = 1 + random.below(3);
                for (bit, (me, peer)) in [(a, b), (b, a)].into_iter().enumerate() {
                    let spread_ps = [300_000_000, 50_000_000_000][random.below(2) as usize];
                    if sides >> bit & 1 == 1 && self.is_trunk(self.pair(a, b)) {
                        // A process listens before it dials.
                        let delay = Duration(listens_at_ps[me as usize] + random.below(spread_ps));
                        let plan = self.plan(me, peer);
                        machines[me as usize].add_peer(ProcessId(peer), plan, 1, delay, Instant::ZERO);
                    }
                }
            }
        }
        self.connecting = Some(Connecting {
            machines,
            listens_at_ps,
            due_ps: vec![None; count as usize],
            sockets: Vec::new(),
            dials: BTreeMap::new(),
            pending: BTreeMap::new(),
            standing: BTreeMap::new(),
            random,
            counts: Counts::default(),
        });
        (0..count).for_each(|me| self.serve(me));
    }

    /// What has happened to connections, in worlds that make them.
    pub(in crate::fuzz) fn connection_counts(&self) -> Counts {
        self.connecting.as_ref().map_or(Counts::default(), |connecting| connecting.counts)
    }

    fn plan(&self, me: u32, peer: u32) -> Vec<RailPlan> {
        let rails = self.rails.between[self.pair(me, peer)];
        rails.iter().map(|rail| RailPlan { rail, interface: rail.0, candidates: vec![rail.0] }).collect()
    }

    fn connecting(&mut self) -> &mut Connecting {
        self.connecting.as_mut().expect("a world that makes connections")
    }

    fn machine(&mut self, me: u32) -> &mut Connections {
        &mut self.connecting().machines[me as usize]
    }

    fn time(&self) -> Instant {
        Instant(self.now_ps())
    }

    /// Does what a process' machine says, and has it called again in time.
    pub(super) fn serve(&mut self, me: u32) {
        if !self.alive[me as usize] {
            return;
        }
        let now = self.time();
        self.machine(me).handle_timeout(now);
        while let Some(output) = self.machine(me).poll_output() {
            match output {
                Output::Dial { dial, peer, interface, partner, rail, epoch, .. } => {
                    let from = ProcessId(me);
                    let claim = Claim { from, from_interface: interface, to_interface: partner, epoch };
                    self.dial(me, peer.0, rail, dial, claim);
                }
                Output::CloseDial(dial) => {
                    let socket = self.connecting().dials[&(me, dial)];
                    self.close(socket, 0);
                }
                Output::ClosePending(pending) => {
                    let socket = self.connecting().pending[&(me, pending)];
                    self.close(socket, 1);
                }
                Output::HandOver { made, peer, rail, epoch } => self.hand_over(me, made, peer.0, rail, epoch),
                Output::Down(peer, rail) => {
                    let lane = self.lane(rail, me, peer.0);
                    if self.alive[peer.0 as usize] && !self.lanes[lane].is_connected {
                        self.reports[me as usize].push_back(Event::RailDown(rail, peer));
                    }
                }
                // That somebody has died is told by the world, in its time.
                Output::Gone(peer) => {
                    assert!(!self.alive[peer.0 as usize], "process {me} takes {peer} for gone, which lives");
                }
            }
        }
        let Some(at) = self.machine(me).poll_timeout() else { return };
        let time_ps = at.0.max(self.now_ps() + 1);
        let due_ps = &mut self.connecting().due_ps[me as usize];
        if due_ps.is_none_or(|due_ps| time_ps < due_ps) {
            *due_ps = Some(time_ps);
            let flight = self.flights.insert(Flight::new(me, me, Rail(0), 0, Cargo::Due));
            self.network.set_timer(time_ps, flight | HELD_UP);
        }
    }

    /// A machine may be due.
    pub(super) fn serve_if_due(&mut self, me: u32) {
        let now_ps = self.now_ps();
        let due_ps = &mut self.connecting().due_ps[me as usize];
        if due_ps.take_if(|due_ps| *due_ps <= now_ps).is_some() {
            self.serve(me);
        }
    }

    fn dial(&mut self, me: u32, peer: u32, rail: Rail, dial: DialId, claim: Claim) {
        let connecting = self.connecting();
        let socket = connecting.sockets.len();
        connecting.dials.insert((me, dial), socket);
        let ends = [End::Handshake; 2];
        let processes = [me, peer];
        let new = Socket { processes, rail, dial, claim, pending: None, ends, was_whole: false };
        connecting.sockets.push(new);
        self.tell(socket, 1, Word::Dial);
    }

    /// Sends a word to an end of a socket.
    fn tell(&mut self, socket: usize, end: usize, word: Word) {
        let is_slow = self.moods.fault_one_in > 0;
        let Connecting { sockets, random, .. } = self.connecting();
        let Socket { processes, rail, .. } = sockets[socket];
        let mut after_ps = WORD_MIN_PS + random.below(WORD_MAX_PS);
        if is_slow && random.below(SLOW_ONE_IN) == 0 {
            after_ps += random.below(SLOW_MAX_PS);
        }
        self.tell_after(socket, end, (processes, rail), word, after_ps);
    }

    fn tell_after(
        &mut self,
        socket: usize,
        end: usize,
        (processes, rail): ([u32; 2], Rail),
        word: Word,
        after_ps: u64,
    ) {
        let cargo = Cargo::Word { socket, end, word };
        let flight = self.flights.insert(Flight::new(processes[1 - end], processes[end], rail, 0, cargo));
        self.network.set_timer(self.now_ps() + after_ps, flight | HELD_UP);
    }

    /// A word has come to an end of a socket.
    pub(super) fn hear(&mut self, socket: usize, end: usize, word: Word) {
        let Socket { processes, rail, dial, claim, pending, ends, .. } = self.connecting().sockets[socket];
        let (me, peer, now) = (processes[end], processes[1 - end], self.time());
        let is_dead = !self.alive[me as usize];
        // Who dials the dead is refused by their host.
        let is_heard = match word {
            Word::Dial => self.alive[peer as usize],
            Word::Refused => !is_dead,
            _ => !is_dead && self.alive[peer as usize],
        };
        if ends[end] == End::Closed || !is_heard {
            return;
        }
        let path = self.path(rail, me, peer);
        if !is_dead && self.alive[peer as usize] && !self.paths[path].lets_through {
            if word == Word::Closed && !self.paths[path].is_scar {
                let after_ps = 1 + self.connecting().random.below(NOTICED_WITHIN_PS);
                self.tell_after(socket, end, (processes, rail), word, after_ps);
            }
            return;
        }
        match word {
            Word::Dial if is_dead || now.0 < self.connecting().listens_at_ps[me as usize] => {
                self.connecting().sockets[socket].ends[1] = End::Closed;
                self.tell(socket, 0, Word::Refused);
            }
            Word::Dial => {
                let pending = self.machine(me).on_accepted(now);
                self.connecting().sockets[socket].pending = Some(pending);
                self.connecting().pending.insert((me, pending), socket);
                self.tell(socket, 0, Word::Connected);
            }
            Word::Connected => {
                self.machine(me).on_connected(dial, now);
                self.tell(socket, 1, Word::Proof);
            }
            Word::Refused => {
                let connecting = self.connecting();
                connecting.sockets[socket].ends[0] = End::Closed;
                connecting.counts.refused += 1;
                self.machine(me).on_failed(dial, Failure::Refused, now);
            }
            Word::Proof => {
                if !self.machine(me).knows(claim.from) {
                    let plan = self.plan(me, peer);
                    self.machine(me).add_peer(claim.from, plan, 1, DIALLED_DELAY, now);
                }
                let admission = self.machine(me).answer(&claim);
                self.tell(socket, 0, Word::Verdict(admission.verdict, admission.epoch));
                self.machine(me).on_answered(pending.expect("accepted"), &claim, admission);
            }
            Word::Verdict(verdict, epoch) => {
                self.connecting().counts.crossed += u64::from(verdict == Verdict::Duplicate);
                self.machine(me).on_verdict(dial, verdict, epoch, now);
                if verdict != Verdict::Welcome {
                    self.close(socket, 0);
                }
            }
            Word::Closed => self.lose(socket, end),
        }
        self.serve(me);
    }

    fn close(&mut self, socket: usize, end: usize) {
        let end_of = &mut self.connecting().sockets[socket].ends[end];
        if std::mem::replace(end_of, End::Closed) != End::Closed {
            self.tell(socket, 1 - end, Word::Closed);
        }
    }

    /// An end learns that its connection is over, and closes its side.
    fn lose(&mut self, socket: usize, end: usize) {
        let Socket { processes, rail, dial, pending, ends, .. } = self.connecting().sockets[socket];
        let (me, peer, now) = (processes[end], processes[1 - end], self.time());
        match ends[end] {
            End::Closed => {}
            End::Handshake => {
                self.close(socket, end);
                match pending {
                    _ if end == 0 => self.machine(me).on_failed(dial, Failure::Other, now),
                    Some(pending) => self.machine(me).on_closed(pending),
                    None => {}
                }
            }
            End::Stands(_) => {
                let path = self.path(rail, me, peer);
                if self.paths[path].condition != Condition::Down {
                    self.break_connection(rail, me, peer);
                }
                self.tell_down(rail, me, peer);
            }
        }
    }

    /// The end of `me` has been closed: its machine makes another connection.
    pub(super) fn on_disconnected(&mut self, rail: Rail, me: u32, peer: u32) {
        let (lane, now) = (self.lane(rail, me, peer), self.time());
        let Some(connecting) = &mut self.connecting else { return };
        let Some(number) = connecting.standing.remove(&lane) else { return };
        let socket = &connecting.sockets[number];
        let end = usize::from(socket.processes[1] == me);
        connecting.counts.half_made += u64::from(!socket.was_whole);
        if let End::Stands(epoch) = socket.ends[end] {
            self.close(number, end);
            self.machine(me).on_broken(ProcessId(peer), rail, epoch, now);
            self.serve(me);
        }
    }

    fn hand_over(&mut self, me: u32, made: Made, peer: u32, rail: Rail, epoch: u32) {
        let lane = self.lane(rail, me, peer);
        let connecting = self.connecting();
        let (number, end) = match made {
            Made::Here(dial) => (connecting.dials[&(me, dial)], 0),
            Made::There(pending) => (connecting.pending[&(me, pending)], 1),
        };
        let socket = &mut connecting.sockets[number];
        assert_eq!((socket.rail, socket.ends[end]), (rail, End::Handshake), "not a connection to hand over");
        socket.ends[end] = End::Stands(epoch);
        socket.was_whole = socket.ends[1 - end] == End::Stands(epoch);
        connecting.counts.again += u64::from(epoch > 1);
        if let Some(old) = connecting.standing.insert(lane, number) {
            // Its end had not been noticed here.
            let end = usize::from(connecting.sockets[old].processes[1] == me);
            self.close(old, end);
        }
        if self.lanes[lane].is_connected {
            self.disconnect(rail, me, peer);
            self.reports[me as usize].push_back(Event::RailDown(rail, ProcessId(peer)));
        }
        let (path, now_ps) = (self.path(rail, me, peer), self.now_ps());
        if self.paths[path].condition == Condition::Down {
            self.paths[path].condition = Condition::Works;
        }
        self.paths[path].works_since_ps = now_ps;
        self.lanes[lane].is_connected = true;
        if !self.strikes(Bug::LostRailUp) {
            self.reports[me as usize].push_back(Event::RailUp(rail, ProcessId(peer)));
        }
    }

    /// Whether what has come by a rail waits for the end of `me` to stand.
    pub(super) fn is_half_made(&self, rail: Rail, from: u32, me: u32) -> bool {
        self.connecting.is_some()
            && from != me
            && self.is_trunk(self.pair(from, me))
            && !self.lanes[self.lane(rail, me, from)].is_connected
    }
}
