//! A device in memory that keeps every promise except one that a test may select.
//!
//! Rail 0 is as shared memory: it does not break, and puts and gets. Rail 1 is as a socket: it has
//! connections that break. Long packets show their fronts first, on both.

use super::super::World;
use crate::buffer::{Buffer, Payload, Piece};
use crate::device::{
    Armed, Device, Event, Fetched, Full, Incoming, Packet, RailCapabilities, RemoteKey, RemoteRegion,
    SHORT_HEADER_BYTES, Submitted, Token,
};
use crate::ids::{ProcessId, Rail, RailSet};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

const COUNT: usize = 3;
const QUEUE_COUNT: usize = 32;
const PACKET_BYTES_MAX: usize = 4_096 + SHORT_HEADER_BYTES;
const LONG_PACKET_BYTES_MAX: usize = 64 << 10;
const FRONT_BYTES_MIN: usize = 1_024;

/// One broken promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bug {
    ReachesStrangers,
    CutsLongHeaders,
    DropsSecondPiece,
    CutsPacketsAtTheLimit,
    NamesAnotherSender,
    Swaps,
    SendsTwice,
    IsFullForEver,
    TakesAndSaysFull,
    LosesShortPacketsWhenFull,
    MovesHeldPackets,
    HearsTheExpectedOnly,
    IgnoresFlush,
    ArmsWithNews,
    WakesNobody,
    WakesNobodyForRoom,
    FetchesToTheWrongPlace,
    HandsFetchedPacketsUpAgain,
    LosesIgnoredFronts,
    KeepsWhatWasLetGo,
    PutsNothing,
    PutsTooMuch,
    PutsLate,
    ForgetsCompletions,
    CompletesTwice,
    RefusesAndMoves,
    GetsFromTheStart,
    WrapsOutside,
    ReportsNoFirstUp,
    ReportsNoUpAfterReset,
    ReportsUpTwice,
    KeepsOldPackets,
    HidesDeath,
    DiesTwice,
    SpeaksAfterDeath,
}

/// Every bug, and the check that finds it first.
pub(super) const BUGS: &[(Bug, &str)] = &[
    (Bug::ReachesStrangers, "rails"),
    (Bug::CutsLongHeaders, "whole"),
    (Bug::DropsSecondPiece, "whole"),
    (Bug::CutsPacketsAtTheLimit, "whole"),
    (Bug::NamesAnotherSender, "whole"),
    (Bug::Swaps, "ordered"),
    (Bug::SendsTwice, "ordered"),
    (Bug::IsFullForEver, "ordered"),
    (Bug::TakesAndSaysFull, "ordered"),
    (Bug::LosesShortPacketsWhenFull, "full"),
    (Bug::MovesHeldPackets, "held"),
    (Bug::HearsTheExpectedOnly, "hints"),
    (Bug::IgnoresFlush, "hints"),
    (Bug::ArmsWithNews, "arm"),
    (Bug::WakesNobody, "arm"),
    (Bug::WakesNobodyForRoom, "arm"),
    (Bug::FetchesToTheWrongPlace, "fronts"),
    (Bug::HandsFetchedPacketsUpAgain, "fronts"),
    (Bug::LosesIgnoredFronts, "whole"),
    (Bug::KeepsWhatWasLetGo, "fronts"),
    (Bug::PutsNothing, "put"),
    (Bug::PutsTooMuch, "put"),
    (Bug::PutsLate, "put"),
    (Bug::ForgetsCompletions, "put"),
    (Bug::CompletesTwice, "put"),
    (Bug::RefusesAndMoves, "put"),
    (Bug::GetsFromTheStart, "get"),
    (Bug::WrapsOutside, "outside"),
    (Bug::ReportsNoFirstUp, "breaks"),
    (Bug::ReportsNoUpAfterReset, "breaks"),
    (Bug::ReportsUpTwice, "breaks"),
    (Bug::KeepsOldPackets, "breaks"),
    (Bug::HidesDeath, "gone"),
    (Bug::DiesTwice, "gone"),
    (Bug::SpeaksAfterDeath, "gone"),
];

struct Sent {
    from: usize,
    rail: Rail,
    header: Vec<u8>,
    payload: Vec<u8>,
}

/// State shared by all devices.
#[derive(Default)]
struct Wire {
    bug: Option<Bug>,
    inboxes: [VecDeque<Sent>; COUNT],
    events: [VecDeque<Event>; COUNT],
    /// Pairs that rail 1 connects, lower place first.
    connected: BTreeSet<(usize, usize)>,
    armed: [bool; COUNT],
    woken: [bool; COUNT],
    /// Senders that found a full inbox, with its owner.
    starved: BTreeSet<(usize, usize)>,
    memory: BTreeMap<u64, Buffer>,
    late_puts: Vec<(Buffer, Buffer)>,
    /// Kept back until the next packet, or a flush.
    kept: Option<(usize, Sent)>,
}

impl Wire {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn wake(&mut self, at: usize) {
        self.woken[at] |= core::mem::take(&mut self.armed[at]) && !self.has(Bug::WakesNobody);
    }

    fn report(&mut self, at: usize, event: Event) {
        self.events[at].push_back(event);
        self.wake(at);
    }

    fn connect(&mut self, a: usize, b: usize, is_first: bool) {
        self.connected.insert((a.min(b), a.max(b)));
        let silent = if is_first { Bug::ReportsNoFirstUp } else { Bug::ReportsNoUpAfterReset };
        if !self.has(silent) {
            for (at, peer) in [(a, b), (b, a)] {
                self.report(at, Event::RailUp(Rail(1), ProcessId(peer as u32)));
                if self.has(Bug::ReportsUpTwice) {
                    self.report(at, Event::RailUp(Rail(1), ProcessId(peer as u32)));
                }
            }
        }
    }

    fn put_in(&mut self, to: usize, sent: Sent) {
        let inbox = &mut self.inboxes[to];
        let place =
            if self.bug == Some(Bug::Swaps) && inbox.len() > 2 { inbox.len() - 1 } else { inbox.len() };
        if self.bug == Some(Bug::SendsTwice) && inbox.len() > 2 {
            let Sent { from, rail, ref header, ref payload } = sent;
            inbox.push_back(Sent { from, rail, header: header.clone(), payload: payload.clone() });
        }
        inbox.insert(place.min(inbox.len()), sent);
        self.wake(to);
    }

    /// The registered memory that is meant.
    fn region(&self, remote: RemoteRegion, len: usize) -> Option<Buffer> {
        let memory = self.memory.get(&remote.key.words[0])?;
        let offset = usize::try_from(remote.offset).ok()?;
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= memory.len());
        match (is_inside, self.has(Bug::WrapsOutside)) {
            (true, _) => Some(memory.part(offset, len)),
            (false, true) => Some(memory.part(offset % (memory.len() - len), len)),
            (false, false) => None,
        }
    }
}

/// How far a packet whose front was shown has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Offered,
    Half,
    OfferedAgain,
}

pub(super) struct Node {
    me: usize,
    rails: Vec<RailCapabilities>,
    wire: Rc<RefCell<Wire>>,
    current: Option<Sent>,
    front: Option<(Sent, Step)>,
    expected: Option<usize>,
}

impl Node {
    fn incoming(&self, sent: &Sent, slot: u64) -> Incoming {
        let is_wrong = self.wire.borrow().has(Bug::NamesAnotherSender) && !sent.payload.is_empty();
        let named = if is_wrong { self.me } else { sent.from };
        Incoming { rail: sent.rail, from: ProcessId(named as u32), slot }
    }

    fn hand_up(&mut self, sent: Sent) -> Option<Event> {
        let incoming = self.incoming(&sent, 0);
        self.current = Some(sent);
        Some(Event::Packet(incoming))
    }

    /// Decides the fate of the packet whose front was reported.
    fn go_on(&mut self) -> Option<Event> {
        let (sent, step) = self.front.take()?;
        let wire = self.wire.clone();
        match step {
            Step::Offered if wire.borrow().has(Bug::LosesIgnoredFronts) => None,
            Step::Offered => self.hand_up(sent),
            Step::Half => {
                let (incoming, len) = (self.incoming(&sent, 1), sent.payload.len());
                self.front = Some((sent, Step::OfferedAgain));
                Some(Event::Front(incoming, len))
            }
            Step::OfferedAgain if wire.borrow().has(Bug::KeepsWhatWasLetGo) => self.hand_up(sent),
            Step::OfferedAgain => None,
        }
    }

    fn transfer(&mut self, local: Buffer, remote: RemoteRegion, token: Token, is_put: bool) -> Submitted {
        let mut wire = self.wire.borrow_mut();
        let Some(memory) = wire.region(remote, local.len()) else { return Submitted::Refused };
        let (from, to) = if is_put { (local, memory) } else { (memory, local) };
        let len = local.len();
        match wire.bug {
            Some(Bug::PutsNothing) if is_put => {}
            Some(Bug::PutsLate) if is_put => wire.late_puts.push((from, to)),
            Some(Bug::PutsTooMuch) if is_put => {
                to.copy_from(0, &from, 0, len);
                if let Some(next) =
                    wire.region(RemoteRegion { offset: remote.offset + len as u64, ..remote }, 1)
                {
                    next.scatter(0, Piece::Bytes(&[99]));
                }
            }
            Some(Bug::GetsFromTheStart) if !is_put => {
                let start = wire.region(RemoteRegion { offset: 0, ..remote }, len).unwrap_or(from);
                to.copy_from(0, &start, 0, len);
            }
            _ => to.copy_from(0, &from, 0, len),
        }
        if wire.has(Bug::RefusesAndMoves) {
            return Submitted::Refused;
        }
        let count = match wire.bug {
            Some(Bug::ForgetsCompletions) => 0,
            Some(Bug::CompletesTwice) => 2,
            _ => 1,
        };
        (0..count).for_each(|_| wire.report(self.me, Event::Completion(token, Ok(()))));
        Submitted::Pending
    }
}

impl Device for Node {
    fn rails(&self) -> &[RailCapabilities] {
        &self.rails
    }

    fn rails_to(&self, peer: ProcessId) -> RailSet {
        let is_known = (peer.0 as usize) < COUNT || self.wire.borrow().has(Bug::ReachesStrangers);
        if is_known && peer.0 as usize != self.me { RailSet(0b11) } else { RailSet::default() }
    }

    fn send(&mut self, rail: Rail, to: ProcessId, header: &[u8], payload: Payload<'_>) -> Result<(), Full> {
        let (me, to) = (self.me, to.0 as usize);
        let mut wire = self.wire.borrow_mut();
        if rail == Rail(1) && !wire.connected.contains(&(me.min(to), me.max(to))) {
            wire.connect(me, to, true);
            return Err(Full);
        }
        let queued_count =
            wire.inboxes[to].iter().filter(|sent| (sent.from, sent.rail) == (me, rail)).count();
        let is_full =
            queued_count >= QUEUE_COUNT || (wire.has(Bug::IsFullForEver) && wire.starved.contains(&(me, to)));
        if is_full {
            wire.starved.insert((me, to));
            if wire.has(Bug::LosesShortPacketsWhenFull) && payload[0].len() + payload[1].len() == 8 {
                return Ok(());
            }
            if !wire.has(Bug::TakesAndSaysFull) {
                return Err(Full);
            }
        }
        let [first, second] = payload.map(|piece| piece.bytes().unwrap_or_default().to_vec());
        let second = if wire.has(Bug::DropsSecondPiece) { Vec::new() } else { second };
        let mut sent = Sent { from: me, rail, header: header.to_vec(), payload: [first, second].concat() };
        if wire.has(Bug::CutsLongHeaders) {
            sent.header.truncate(100);
        }
        if wire.has(Bug::CutsPacketsAtTheLimit) && header.len() + sent.payload.len() == PACKET_BYTES_MAX {
            sent.payload.pop();
        }
        if let Some((to, kept)) = wire.kept.take() {
            wire.put_in(to, kept);
        }
        if header.len() + sent.payload.len() > PACKET_BYTES_MAX {
            wire.kept = Some((to, sent));
        } else {
            wire.put_in(to, sent);
        }
        if is_full { Err(Full) } else { Ok(()) }
    }

    fn flush(&mut self) {
        let mut wire = self.wire.borrow_mut();
        if !wire.has(Bug::IgnoresFlush)
            && let Some((to, kept)) = wire.kept.take()
        {
            wire.put_in(to, kept);
        }
    }

    fn poll(&mut self) -> Option<Event> {
        assert!(self.current.is_none(), "a packet is released before the next poll");
        if let Some(event) = self.go_on() {
            return Some(event);
        }
        let wire = self.wire.clone();
        let mut wire = wire.borrow_mut();
        (wire.armed[self.me], wire.woken[self.me]) = (false, false);
        if let Some(event) = wire.events[self.me].pop_front() {
            return Some(event);
        }
        let expected = self.expected.filter(|_| wire.has(Bug::HearsTheExpectedOnly));
        let place =
            wire.inboxes[self.me].iter().position(|sent| expected.is_none_or(|from| sent.from == from));
        let sent = place.and_then(|place| wire.inboxes[self.me].remove(place))?;
        if wire.starved.contains(&(sent.from, self.me)) && !wire.has(Bug::IsFullForEver) {
            wire.starved.remove(&(sent.from, self.me));
            if !wire.has(Bug::WakesNobodyForRoom) {
                wire.wake(sent.from);
            }
        }
        drop(wire);
        if sent.payload.len() < FRONT_BYTES_MIN {
            return self.hand_up(sent);
        }
        let (incoming, len) = (self.incoming(&sent, 1), sent.payload.len());
        self.front = Some((sent, Step::Offered));
        Some(Event::Front(incoming, len))
    }

    fn packet(&self, incoming: &Incoming) -> Packet<'_> {
        let held = self.current.as_ref().or(self.front.as_ref().map(|(sent, _)| sent)).expect("a packet");
        let is_moved =
            self.wire.borrow().has(Bug::MovesHeldPackets) && !self.wire.borrow().inboxes[self.me].is_empty();
        let payload = if is_moved || incoming.slot == 1 { &[] } else { &held.payload[..] };
        Packet { header: &held.header, payload: Piece::Bytes(payload) }
    }

    fn release(&mut self, _: Incoming) {
        self.current = None;
        for (from, to) in core::mem::take(&mut self.wire.borrow_mut().late_puts) {
            to.copy_from(0, &from, 0, from.len());
        }
    }

    fn fetch(&mut self, _: &Incoming, into: Buffer) -> Fetched {
        let Some((sent, step)) = self.front.take() else { return Fetched::Lost };
        let (first, second) = sent.payload.split_at(sent.payload.len() / 2);
        if step == Step::Offered {
            into.scatter(0, Piece::Bytes(first));
            self.front = Some((sent, Step::Half));
            return Fetched::Part;
        }
        let at = if self.wire.borrow().has(Bug::FetchesToTheWrongPlace) { 0 } else { first.len() };
        into.scatter(at, Piece::Bytes(second));
        if self.wire.borrow().has(Bug::HandsFetchedPacketsUpAgain) {
            self.front = Some((sent, Step::Offered));
        }
        Fetched::Whole
    }

    fn expect(&mut self, from: Option<ProcessId>) {
        self.expected = from.map(|from| from.0 as usize);
    }

    fn register(&mut self, _: Rail, buffer: Buffer) -> Option<RemoteKey> {
        let mut wire = self.wire.borrow_mut();
        let name = wire.memory.keys().next_back().map_or(0, |last| last + 1);
        wire.memory.insert(name, buffer);
        Some(RemoteKey { words: [name, 0] })
    }

    fn deregister(&mut self, _: Rail, key: RemoteKey) {
        self.wire.borrow_mut().memory.remove(&key.words[0]);
    }

    fn put(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        Ok(self.transfer(local, remote, token, true))
    }

    fn get(
        &mut self,
        _: Rail,
        _: ProcessId,
        local: Buffer,
        remote: RemoteRegion,
        token: Token,
    ) -> Result<Submitted, Full> {
        Ok(self.transfer(local, remote, token, false))
    }

    fn reset(&mut self, rail: Rail, peer: ProcessId) {
        if rail == Rail(1) {
            self.break_connection(peer.0 as usize, false);
        }
    }

    fn arm(&mut self) -> Armed {
        let mut wire = self.wire.borrow_mut();
        let has_news =
            self.front.is_some() || !wire.inboxes[self.me].is_empty() || !wire.events[self.me].is_empty();
        wire.woken[self.me] = false;
        wire.armed[self.me] = true;
        if has_news && !wire.has(Bug::ArmsWithNews) { Armed::NotYet } else { Armed::Armed }
    }
}

impl Node {
    /// Ends the connection of rail 1, and makes the next. `is_reported`: also here.
    fn break_connection(&mut self, peer: usize, is_reported: bool) {
        let me = self.me;
        let mut wire = self.wire.borrow_mut();
        if !wire.has(Bug::KeepsOldPackets) {
            for (at, from) in [(me, peer), (peer, me)] {
                wire.inboxes[at].retain(|sent| (sent.from, sent.rail) != (from, Rail(1)));
            }
        }
        wire.report(peer, Event::RailDown(Rail(1), ProcessId(me as u32)));
        if is_reported {
            wire.report(me, Event::RailDown(Rail(1), ProcessId(peer as u32)));
        }
        wire.connect(me, peer, false);
    }
}

/// Three of them.
pub(super) struct Reference {
    nodes: Vec<Node>,
    wire: Rc<RefCell<Wire>>,
}

impl Reference {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        let wire = Rc::new(RefCell::new(Wire { bug, ..Wire::default() }));
        let rail = RailCapabilities {
            packet_bytes_max: PACKET_BYTES_MAX,
            long_packet_bytes_max: LONG_PACKET_BYTES_MAX,
            eager_bytes_max: 4_096,
            transfer_bytes_max: 64 << 10,
            ..RailCapabilities::default()
        };
        let rails =
            [RailCapabilities { put: true, get: true, ..rail }, RailCapabilities { may_break: true, ..rail }];
        let node = |me| Node {
            me,
            rails: rails.to_vec(),
            wire: wire.clone(),
            current: None,
            front: None,
            expected: None,
        };
        Self { nodes: (0..COUNT).map(node).collect(), wire: wire.clone() }
    }
}

impl World for Reference {
    fn processes(&self) -> Vec<ProcessId> {
        (0..COUNT as u32).map(ProcessId).collect()
    }

    fn with(&mut self, at: usize, f: &mut dyn FnMut(&mut dyn Device)) {
        f(&mut self.nodes[at]);
    }

    fn advance(&mut self) -> bool {
        false
    }

    fn sleep(&mut self, at: usize) -> bool {
        self.wire.borrow().woken[at]
    }

    fn cut(&mut self, at: usize, rail: Rail, peer: ProcessId) -> bool {
        if rail == Rail(1) {
            self.nodes[at].break_connection(peer.0 as usize, true);
        }
        true
    }

    fn kill(&mut self, dead: usize) -> bool {
        let mut wire = self.wire.borrow_mut();
        for at in (0..COUNT).filter(|&at| at != dead) {
            wire.inboxes[at].retain(|sent| sent.from != dead);
            let count = match wire.bug {
                Some(Bug::HidesDeath) => 0,
                Some(Bug::DiesTwice) => 2,
                _ => 1,
            };
            (0..count).for_each(|_| wire.report(at, Event::PeerGone(ProcessId(dead as u32))));
            if wire.has(Bug::SpeaksAfterDeath) {
                wire.put_in(
                    at,
                    Sent { from: dead, rail: Rail(0), header: b"boo!".to_vec(), payload: Vec::new() },
                );
            }
        }
        true
    }
}
