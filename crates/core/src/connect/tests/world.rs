//! A network of stream sockets in virtual time, and the processes on it.

use super::super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ayatori_random::Random;

/// From the end of all faults until every rail is up: the longest pause of a rail that never was (15 s), two
/// attempts of 1 s + 2 s, the time until an end is noticed (6 s).
pub(super) const HEALED_WITHIN: Duration = Duration::from_s(30);
/// Nothing happens in this time after that.
pub(super) const QUIET: Duration = Duration::from_s(30);
pub(super) const PENDING_MAX: usize = 8;
/// Longest time between two hostile dials to a process: more are pending at a time than there is room for.
const HOSTILE_PAUSE_MAX: Duration = Duration::from_ms(200);
/// An end that the network swallowed is noticed by the kernel after so long.
const NOTICED_WITHIN: Duration = Duration::from_s(6);

/// Times at random.
trait DrawTime {
    /// Below this one.
    fn time(&mut self, most: Duration) -> Duration;
}

impl DrawTime for Random {
    fn time(&mut self, most: Duration) -> Duration {
        Duration(self.below(most.0.max(1)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Syn,
    Connected,
    Refused,
    Accept,
    Hello,
    Challenge,
    Proof,
    Verdict(Verdict, u32),
    /// The far end has closed.
    Closed,
}

enum Event {
    /// Arrival at a socket's dialler (0) or listener (1) end.
    Arrive(usize, usize, Message),
    /// Time to call a process.
    Timer(usize),
    /// A process begins to want a peer.
    Want(usize, usize),
    /// Something goes wrong.
    Fault,
    Listen(usize),
    HostileDial(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Closed,
    Handshake,
    Established(Rail, u32),
}

struct Socket {
    /// Dialler and listener.
    processes: [usize; 2],
    dial: DialId,
    claim: Claim,
    pending: Option<PendingId>,
    /// Came before it was accepted.
    waiting: Vec<Message>,
    ends: [End; 2],
    is_hostile: bool,
}

pub(super) struct World {
    random: Random,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    pub(super) events_count: u64,
    processes: Vec<Connections>,
    rails_count: u8,
    listening: Vec<bool>,
    sockets: Vec<Socket>,
    dials: BTreeMap<(usize, DialId), usize>,
    pending: BTreeMap<(usize, PendingId), usize>,
    /// By process, peer and rail.
    established: BTreeMap<(usize, usize, u8), usize>,
    wanted: BTreeSet<(usize, usize)>,
    cut_until: Instant,
    /// No faults any more.
    pub(super) is_calm: bool,
    pub(super) handed_over_count: u64,
    pub(super) breaks_count: u64,
    pub(super) duplicates_count: u64,
    pub(super) replaced_count: u64,
    pub(super) hostile_count: u64,
    pub(super) pending_seen_max: usize,
    problem: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, has_hostile: bool) -> Self {
        let mut random = Random::new(seed);
        let (count, rails_count) = (2 + random.below(2) as usize, 1 + random.below(2) as u8);
        let timing =
            Timing { connect: Duration::from_s(1), handshake: Duration::from_s(2), pending_max: PENDING_MAX };
        let mut world = Self {
            random,
            now: Instant::ZERO,
            events: BTreeMap::new(),
            events_count: 0,
            processes: (0..count).map(|me| Connections::new(ProcessId(me as u32), timing)).collect(),
            rails_count,
            listening: alloc::vec![true; count],
            sockets: Vec::new(),
            dials: BTreeMap::new(),
            pending: BTreeMap::new(),
            established: BTreeMap::new(),
            wanted: BTreeSet::new(),
            cut_until: Instant::ZERO,
            is_calm: false,
            handed_over_count: 0,
            breaks_count: 0,
            duplicates_count: 0,
            replaced_count: 0,
            hostile_count: 0,
            pending_seen_max: 0,
            problem: None,
        };
        let listens_after: Vec<Duration> = (0..count).map(|me| world.plan_listener(me)).collect();
        for a in 0..count {
            for b in a + 1..count {
                // One side wants, or both, at about the same time or not.
                let sides = 1 + world.random.below(3);
                for (bit, (me, peer)) in [(a, b), (b, a)].into_iter().enumerate() {
                    if sides >> bit & 1 == 1 {
                        let spread =
                            if world.random.one_in(2) { Duration::from_us(200) } else { Duration::from_s(2) };
                        // A process listens before it dials: a peer that was there and refuses is gone.
                        let after = listens_after[me] + world.random.time(spread);
                        world.schedule(after, Event::Want(me, peer));
                    }
                }
            }
        }
        for _ in 0..world.random.below(12) {
            let after = world.random.time(Duration(world.heals_at().0));
            world.schedule(after, Event::Fault);
        }
        if has_hostile {
            (0..count).for_each(|victim| world.schedule(Duration::ZERO, Event::HostileDial(victim)));
        }
        world
    }

    /// When a process begins to listen; some do so late.
    fn plan_listener(&mut self, me: usize) -> Duration {
        if !self.random.one_in(6) {
            return Duration::ZERO;
        }
        self.listening[me] = false;
        let after = self.random.time(Duration::from_s(3));
        self.schedule(after, Event::Listen(me));
        after
    }

    pub(super) fn heals_at(&self) -> Instant {
        Instant::ZERO + Duration::from_s(10)
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.events_count += 1;
        self.events.insert((self.now + after, self.events_count), event);
    }

    pub(super) fn run_until(&mut self, end: Instant) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.handle(event);
            for process in 0..self.processes.len() {
                self.serve(process);
            }
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(socket, end, message) => self.arrive(socket, end, message),
            Event::Timer(_) => {}
            Event::Want(me, peer) => self.want(me, peer, Duration::ZERO),
            Event::Listen(process) => self.listening[process] = true,
            Event::Fault => self.fault(),
            Event::HostileDial(victim) => self.hostile_dial(victim),
        }
    }

    fn want(&mut self, me: usize, peer: usize, delay: Duration) {
        let rail = |interface| RailPlan {
            rail: Rail(1 + interface),
            interface,
            candidates: (0..self.rails_count).map(|place| (interface + place) % self.rails_count).collect(),
        };
        let plan = (0..self.rails_count).map(rail).collect();
        self.wanted.insert((me, peer));
        self.processes[me].add_peer(ProcessId(peer as u32), plan, 1, delay, self.now);
    }

    fn fault(&mut self) {
        match self.random.below(3) {
            0 => {
                let length = if self.random.one_in(2) { Duration::from_ms(500) } else { Duration::from_s(4) };
                let length = self.random.time(length);
                self.cut_until = self.cut_until.max((self.now + length).min(self.heals_at()));
            }
            kind => {
                let standing: Vec<_> = self.established.iter().map(|(key, &socket)| (*key, socket)).collect();
                if standing.is_empty() {
                    return;
                }
                let ((process, ..), socket) = standing[self.random.below(standing.len() as u64) as usize];
                self.breaks_count += 1;
                let end = usize::from(self.sockets[socket].processes[1] == process);
                if kind == 1 {
                    // Its user finds it silent.
                    self.lose(socket, end);
                } else {
                    // The network resets it.
                    self.tell(socket, 0, Message::Closed);
                    self.tell(socket, 1, Message::Closed);
                }
            }
        }
    }

    /// One dial of a stranger, and the next soon, until the rails had to be up in spite of them.
    fn hostile_dial(&mut self, victim: usize) {
        if self.now < self.heals_at() + HEALED_WITHIN {
            let after = self.random.time(HOSTILE_PAUSE_MAX);
            self.schedule(after, Event::HostileDial(victim));
        }
        if !self.listening[victim] {
            return;
        }
        self.hostile_count += 1;
        let claim = Claim { from: ProcessId(99), from_interface: 0, to_interface: 0, epoch: u32::MAX };
        let socket = self.sockets.len();
        self.sockets.push(Socket {
            processes: [usize::MAX, victim],
            dial: DialId(u64::MAX),
            claim,
            pending: None,
            waiting: Vec::new(),
            ends: [End::Handshake; 2],
            is_hostile: true,
        });
        self.accept(socket);
        if self.random.one_in(3) {
            self.tell(socket, 1, Message::Closed);
        }
    }

    /// Sends a message to an end of a socket.
    fn tell(&mut self, socket: usize, end: usize, message: Message) {
        let mut after = Duration::from_us(20) + self.random.time(Duration::from_us(200));
        if self.cut_until > self.now {
            after = after + self.cut_until.since(self.now) + self.random.time(Duration::from_ms(200));
            if self.random.one_in(2) {
                match message {
                    Message::Closed => after = after + self.random.time(NOTICED_WITHIN),
                    _ => return,
                }
            }
        } else if !self.is_calm && self.random.one_in(60) {
            // Lost, and sent again by the kernel; or the whole connection is too slow.
            after = after + self.random.time(Duration::from_s(4));
        }
        self.schedule(after, Event::Arrive(socket, end, message));
    }

    fn close(&mut self, socket: usize, end: usize) {
        if core::mem::replace(&mut self.sockets[socket].ends[end], End::Closed) != End::Closed {
            self.tell(socket, 1 - end, Message::Closed);
        }
    }

    fn accept(&mut self, socket: usize) {
        let listener = self.sockets[socket].processes[1];
        let pending = self.processes[listener].on_accepted(self.now);
        self.sockets[socket].pending = Some(pending);
        self.pending.insert((listener, pending), socket);
        self.pending_seen_max = self.pending_seen_max.max(self.processes[listener].unfinished_counts().1);
        for message in core::mem::take(&mut self.sockets[socket].waiting) {
            self.arrive(socket, 1, message);
        }
    }

    fn arrive(&mut self, socket: usize, end: usize, message: Message) {
        if self.sockets[socket].ends[end] == End::Closed || (end == 0 && self.sockets[socket].is_hostile) {
            return;
        }
        let (process, now) = (self.sockets[socket].processes[end], self.now);
        let dial = self.sockets[socket].dial;
        match message {
            Message::Syn if !self.listening[process] => {
                self.sockets[socket].ends[1] = End::Closed;
                self.tell(socket, 0, Message::Refused);
            }
            Message::Syn => {
                self.tell(socket, 0, Message::Connected);
                let late = if self.random.one_in(20) && !self.is_calm {
                    Duration::from_s(3)
                } else {
                    Duration::from_us(50)
                };
                let after = self.random.time(late);
                self.schedule(after, Event::Arrive(socket, 1, Message::Accept));
            }
            Message::Accept => self.accept(socket),
            // The kernel has the connection, and keeps what comes.
            message if end == 1 && self.sockets[socket].pending.is_none() => {
                self.sockets[socket].waiting.push(message);
            }
            Message::Connected => {
                self.processes[process].on_connected(dial, now);
                self.tell(socket, 1, Message::Hello);
            }
            Message::Refused => {
                self.sockets[socket].ends[0] = End::Closed;
                self.processes[process].on_failed(dial, Failure::Refused, now);
            }
            Message::Hello => self.tell(socket, 0, Message::Challenge),
            Message::Challenge => self.tell(socket, 1, Message::Proof),
            Message::Proof => self.on_proof(socket, process),
            Message::Verdict(verdict, epoch) => {
                self.duplicates_count += u64::from(verdict == Verdict::Duplicate);
                self.processes[process].on_verdict(dial, verdict, epoch, now);
                if verdict != Verdict::Welcome {
                    self.close(socket, 0);
                }
            }
            Message::Closed => self.lose(socket, end),
        }
    }

    fn on_proof(&mut self, socket: usize, process: usize) {
        let (claim, pending) = (self.sockets[socket].claim, self.sockets[socket].pending);
        if !self.processes[process].knows(claim.from) {
            self.want(process, claim.from.0 as usize, DIALLED_DELAY);
        }
        let admission = self.processes[process].answer(&claim);
        self.tell(socket, 0, Message::Verdict(admission.verdict, admission.epoch));
        if let Some(pending) = pending {
            self.processes[process].on_answered(pending, &claim, admission);
        }
    }

    /// An end learns that the connection is over, and closes its side.
    fn lose(&mut self, socket: usize, end: usize) {
        let (process, peer) = (self.sockets[socket].processes[end], self.sockets[socket].processes[1 - end]);
        let (dial, pending, now) = (self.sockets[socket].dial, self.sockets[socket].pending, self.now);
        match self.sockets[socket].ends[end] {
            End::Closed => return,
            End::Handshake if end == 0 => self.processes[process].on_failed(dial, Failure::Ended, now),
            End::Handshake => {
                pending.into_iter().for_each(|pending| self.processes[process].on_closed(pending))
            }
            End::Established(rail, epoch) => {
                self.established.remove(&(process, peer, rail.0));
                self.processes[process].on_broken(ProcessId(peer as u32), rail, epoch, now);
            }
        }
        self.close(socket, end);
    }

    /// Does what a process says, and has it called again in time.
    fn serve(&mut self, me: usize) {
        self.processes[me].handle_timeout(self.now);
        while let Some(output) = self.processes[me].poll_output() {
            match output {
                Output::Dial { dial, peer, interface, partner, epoch, .. } => {
                    self.dial(me, dial, peer, interface, partner, epoch);
                }
                Output::CloseDial(dial) => self.close(self.dials[&(me, dial)], 0),
                Output::ClosePending(pending) => self.close(self.pending[&(me, pending)], 1),
                Output::HandOver { made, peer, rail, epoch } => self.hand_over(me, made, peer, rail, epoch),
                Output::Down(..) => {}
                Output::Gone(peer) => self.problem = Some(format!("process {me} takes {peer} for gone")),
            }
        }
        let (dials_count, _) = self.processes[me].unfinished_counts();
        if dials_count > usize::from(self.rails_count) * (self.processes.len() - 1) {
            self.problem = Some(format!("process {me} has {dials_count} dials under way"));
        }
        if let Some(at) = self.processes[me].poll_timeout() {
            let after = at.since(self.now);
            let is_set = self
                .events
                .range((at, 0)..=(at, u64::MAX))
                .any(|(_, e)| matches!(e, Event::Timer(p) if *p == me));
            if !is_set {
                self.schedule(after, Event::Timer(me));
            }
        }
    }

    fn dial(&mut self, me: usize, dial: DialId, peer: ProcessId, interface: u8, partner: u8, epoch: u32) {
        let claim =
            Claim { from: ProcessId(me as u32), from_interface: interface, to_interface: partner, epoch };
        let socket = self.sockets.len();
        self.dials.insert((me, dial), socket);
        self.sockets.push(Socket {
            processes: [me, peer.0 as usize],
            dial,
            claim,
            pending: None,
            waiting: Vec::new(),
            ends: [End::Handshake; 2],
            is_hostile: false,
        });
        self.tell(socket, 1, Message::Syn);
    }

    fn hand_over(&mut self, me: usize, made: Made, peer: ProcessId, rail: Rail, epoch: u32) {
        self.handed_over_count += 1;
        let (socket, end) = match made {
            Made::Here(dial) => (self.dials[&(me, dial)], 0),
            Made::There(pending) => (self.pending[&(me, pending)], 1),
        };
        if self.sockets[socket].ends[end] == End::Closed || self.sockets[socket].is_hostile {
            self.problem = Some(format!("process {me} is handed a socket that is not its own to use"));
        }
        self.sockets[socket].ends[end] = End::Established(rail, epoch);
        let key = (me, peer.0 as usize, rail.0);
        if let Some(old) = self.established.insert(key, socket) {
            // Its end was not noticed here.
            self.replaced_count += 1;
            let end = usize::from(self.sockets[old].processes[1] == me);
            if let End::Established(_, before) = self.sockets[old].ends[end]
                && before >= epoch
            {
                self.problem = Some(format!("epoch {epoch} of {rail:?} follows {before}"));
            }
            self.close(old, end);
        }
    }

    /// Every wanted rail of every pair is up, with the same connection and epoch at both sides.
    pub(super) fn check_agreement(&self) -> Result<(), String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        for &(a, b) in &self.wanted {
            for rail in 1..=self.rails_count {
                let Some(&socket) = self.established.get(&(a, b, rail)) else {
                    return Err(format!("rail {rail} from {a} to {b} is not up"));
                };
                let ends = self.sockets[socket].ends;
                let [End::Established(_, one), End::Established(_, other)] = ends else {
                    return Err(format!("rail {rail} from {a} to {b} stands at one side only: {ends:?}"));
                };
                let is_there =
                    (1..=self.rails_count).any(|r| self.established.get(&(b, a, r)) == Some(&socket));
                if one != other || !is_there {
                    return Err(format!(
                        "rail {rail} of {a} and {b}: epochs {one} and {other}, both: {is_there}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Nothing is half made, and only sockets that stand are open.
    pub(super) fn check_leftovers(&self) -> Result<(), String> {
        for (me, process) in self.processes.iter().enumerate() {
            if process.unfinished_counts() != (0, 0) {
                return Err(format!("process {me} has (dials, pending) {:?}", process.unfinished_counts()));
            }
        }
        for (number, socket) in self.sockets.iter().enumerate() {
            let is_open =
                |end: usize| socket.ends[end] == End::Handshake && socket.processes[end] != usize::MAX;
            let was_accepted = socket.pending.is_some();
            if is_open(0) || (is_open(1) && was_accepted) {
                return Err(format!("socket {number} is half made: {:?}", socket.ends));
            }
        }
        Ok(())
    }
}
