//! Random scenarios against a naive model of matching: a list of everything, searched from the front.

use super::net::{Net, memory};
use crate::buffer::Buffer;
use crate::comm::Communicator;
use crate::device::RailCapabilities;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::process::MessageId;
use crate::request::{Completion, Origin, Posted, SendMode};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;
use std::println;

/// Eager up to here, rendezvous above.
const EAGER: usize = 100;

#[derive(Clone, Copy)]
struct Sent {
    from: Rank,
    comm: CommId,
    tag: Tag,
    length: usize,
}

#[derive(Clone, Copy)]
struct Wanted {
    comm: CommId,
    source: Source,
    tag: TagSelector,
    capacity: usize,
}

impl Wanted {
    fn takes(&self, sent: &Sent) -> bool {
        self.comm == sent.comm
            && (self.source == Source::Any || self.source == Source::Rank(sent.from))
            && (self.tag == TagSelector::Any || self.tag == TagSelector::Tag(sent.tag))
    }
}

/// One receiver, naively: message and receive numbers in order.
#[derive(Default)]
struct Naive {
    arrived: Vec<usize>,
    posted: Vec<usize>,
}

/// A receive the scenario made.
struct Receive {
    at: usize,
    wanted: Wanted,
    request: Option<RequestId>,
    got: Option<Completion>,
    memory: &'static [u8],
    /// What the model says: the message, or nothing yet.
    expected: Option<usize>,
    cancelled: bool,
}

struct Scenario {
    net: Net,
    random: Random,
    seed: u64,
    sent: Vec<Sent>,
    sends: Vec<(usize, RequestId)>,
    receives: Vec<Receive>,
    naive: Vec<Naive>,
    /// Messages on the way, by from × count + to.
    flying: Vec<Vec<usize>>,
    held: Vec<(usize, MessageId, usize)>,
    log: Vec<String>,
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4) as usize;
        let (get, put) = (random.one_in(2), random.one_in(2));
        let rail = RailCapabilities {
            packet_bytes_max: 160,
            eager_bytes_max: EAGER,
            transfer_bytes_max: 70,
            get,
            put,
            ..RailCapabilities::default()
        };
        let mut net = Net::new(count, random.next_u64(), rail);
        {
            let mut shared = net.shared.borrow_mut();
            shared.full_one_in = [0, 0, 2, 5][random.below(4) as usize];
            shared.refuse_one_in = [0, 0, 3][random.below(3) as usize];
            shared.front_one_in = [0, 1, 2][random.below(3) as usize];
        }
        // A second communicator with ranks backwards.
        for me in 0..count as u32 {
            let members = (0..count as u32).rev().map(ProcessId).collect();
            let group = Group::from_members(members).unwrap();
            let rank = group.rank_of(ProcessId(me)).unwrap();
            let made = Communicator::new(ContextId::new(ProcessId(0), 2), group, rank);
            net.nodes[me as usize].0.add_comm(made);
        }
        let naive = (0..count).map(|_| Naive::default()).collect();
        let flying = (0..count * count).map(|_| vec![]).collect();
        Self {
            net,
            random,
            seed,
            sent: vec![],
            sends: vec![],
            receives: vec![],
            naive,
            flying,
            held: vec![],
            log: vec![],
        }
    }

    fn count(&self) -> usize {
        self.net.nodes.len()
    }

    fn rank(&self, comm: CommId, process: usize) -> Rank {
        self.net.nodes[0].0.comm(comm).unwrap().group().rank_of(ProcessId(process as u32)).unwrap()
    }

    fn pick_comm(&mut self) -> CommId {
        if self.random.one_in(3) { CommId(2) } else { CommId::WORLD }
    }

    fn pick_length(&mut self) -> usize {
        match self.random.below(4) {
            0 => 0,
            1 => EAGER + self.random.below(3) as usize - 1,
            2 => self.random.below(EAGER as u64) as usize,
            _ => self.random.below(400) as usize,
        }
    }

    fn send(&mut self) {
        let (from, to) = (
            self.random.below(self.count() as u64) as usize,
            self.random.below(self.count() as u64) as usize,
        );
        let comm = self.pick_comm();
        let (from_rank, to_rank) = (self.rank(comm, from), self.rank(comm, to));
        let (tag, length) = (self.random.below(3) as Tag, self.pick_length());
        let number = self.sent.len();
        let (buffer, _) = memory((0..length).map(|i| content(number, i)).collect());
        let mode = if self.random.one_in(4) { SendMode::Synchronous } else { SendMode::Standard };
        self.sent.push(Sent { from: from_rank, comm, tag, length });
        self.log.push(format!("message {number}: {from} -> {to} {comm:?} tag {tag}, {length} B, {mode:?}"));
        let (process, port) = &mut self.net.nodes[from];
        match process.isend(port, comm, buffer, to_rank, tag, mode).unwrap() {
            Posted::Done(completion) => assert_eq!(completion, Completion::EMPTY),
            Posted::Pending(id) => self.sends.push((from, id)),
        }
        if from == to {
            self.model_arrival(to, number);
        } else {
            let at = from * self.count() + to;
            self.flying[at].push(number);
        }
    }

    fn pick_wanted(&mut self) -> Wanted {
        let comm = self.pick_comm();
        let rank = self.random.below(self.count() as u64) as Rank;
        Wanted {
            comm,
            source: if self.random.one_in(3) { Source::Any } else { Source::Rank(rank) },
            tag: if self.random.one_in(3) {
                TagSelector::Any
            } else {
                TagSelector::Tag(self.random.below(3) as Tag)
            },
            capacity: if self.random.one_in(4) { self.pick_length() } else { 400 },
        }
    }

    fn receive(&mut self) {
        let at = self.random.below(self.count() as u64) as usize;
        let wanted = self.pick_wanted();
        let number = self.receives.len();
        let expected = self.model_take(at, &wanted);
        if expected.is_none() {
            self.naive[at].posted.push(number);
        }
        self.log.push(format!(
            "receive {number} at {at}: {:?} {:?} {:?}",
            wanted.comm, wanted.source, wanted.tag
        ));
        let (buffer, bytes) = memory(vec![0xEE; wanted.capacity]);
        let (process, port) = &mut self.net.nodes[at];
        let posted = process.irecv(port, wanted.comm, buffer, wanted.source, wanted.tag).unwrap();
        self.add_receive(at, wanted, posted, bytes, expected);
    }

    /// A receive that its caller waits for: the world goes on until it is over.
    fn receive_direct(&mut self) {
        let at = self.random.below(self.count() as u64) as usize;
        let wanted = self.pick_wanted();
        // Only where a message is bound to come, or the scenario would wait for ever.
        let mut to_here = (0..self.count()).flat_map(|from| &self.flying[from * self.count() + at]);
        let is_coming =
            to_here.any(|&m| wanted.takes(&self.sent[m])) || self.model_find(at, &wanted).is_some();
        if !is_coming || !self.naive[at].posted.is_empty() {
            return;
        }
        let number = self.receives.len();
        let expected = self.model_take(at, &wanted);
        if expected.is_none() {
            self.naive[at].posted.push(number);
        }
        let (buffer, bytes) = memory(vec![0xEE; wanted.capacity]);
        let (process, port) = &mut self.net.nodes[at];
        let is_over = process.receive_direct(port, wanted.comm, buffer, wanted.source, wanted.tag).unwrap();
        let got = is_over.then(|| *process.direct_completion());
        self.receives.push(Receive {
            at,
            wanted,
            request: None,
            got,
            memory: bytes,
            expected,
            cancelled: false,
        });
        let mut rounds = 0;
        while self.receives[number].got.is_none() {
            let other = self.random.below(self.count() as u64) as usize;
            let packets = self.random.below(3) as u32;
            self.deliver(other, packets);
            let process = &mut self.net.nodes[at].0;
            self.receives[number].got = process.poll_direct().then(|| *process.direct_completion());
            rounds += 1;
            assert!(rounds < 100_000, "direct receive {number} never ends");
        }
    }

    fn add_receive(
        &mut self,
        at: usize,
        wanted: Wanted,
        posted: Posted,
        memory: &'static [u8],
        expected: Option<usize>,
    ) {
        let (request, got) = match posted {
            Posted::Done(completion) => (None, Some(completion)),
            Posted::Pending(id) => (Some(id), None),
        };
        self.receives.push(Receive { at, wanted, request, got, memory, expected, cancelled: false });
    }

    fn probe(&mut self) {
        let at = self.random.below(self.count() as u64) as usize;
        let wanted = self.pick_wanted();
        let expected = self.model_find(at, &wanted);
        let (process, port) = &mut self.net.nodes[at];
        if self.random.one_in(2) {
            let found = process.iprobe(wanted.comm, wanted.source, wanted.tag).unwrap();
            let found = found.map(|s| (s.source, s.tag, s.bytes));
            assert_eq!(found, expected.map(|m| status_of(&self.sent[m])), "probe at {at}");
            return;
        }
        let found = process.improbe(wanted.comm, wanted.source, wanted.tag).unwrap();
        let found_status = found.map(|(_, s)| (s.source, s.tag, s.bytes));
        assert_eq!(found_status, expected.map(|m| status_of(&self.sent[m])), "matched probe at {at}");
        let (Some((Some(message), _)), Some(number)) = (found, expected) else { return };
        self.naive[at].arrived.retain(|&m| m != number);
        if self.random.one_in(2) {
            self.held.push((at, message, number));
            return;
        }
        let (buffer, bytes) = memory(vec![0xEE; wanted.capacity]);
        let posted = process.imrecv(port, message, buffer).unwrap();
        self.add_receive(at, wanted, posted, bytes, Some(number));
    }

    fn receive_held(&mut self) {
        let Some((at, message, number)) = self.held.pop() else { return };
        let (buffer, bytes) = memory(vec![0xEE; 400]);
        let (process, port) = &mut self.net.nodes[at];
        let posted = process.imrecv(port, message, buffer).unwrap();
        assert!(process.imrecv(port, message, Buffer::EMPTY).is_err(), "a message is received once");
        let sent = &self.sent[number];
        let wanted = Wanted { comm: sent.comm, source: Source::Any, tag: TagSelector::Any, capacity: 400 };
        self.add_receive(at, wanted, posted, bytes, Some(number));
    }

    fn cancel(&mut self) {
        if self.receives.is_empty() {
            return;
        }
        let number = self.random.below(self.receives.len() as u64) as usize;
        let receive = &mut self.receives[number];
        let Some(id) = receive.request.filter(|_| receive.got.is_none()) else { return };
        let waiting = &mut self.naive[receive.at].posted;
        if waiting.contains(&number) {
            waiting.retain(|&r| r != number);
            receive.cancelled = true;
        }
        self.log.push(format!("cancel receive {number}"));
        let (process, port) = &mut self.net.nodes[receive.at];
        process.cancel(port, id).unwrap();
    }

    /// Lets a process see a few packets; the model sees the envelopes in the same order.
    fn deliver(&mut self, at: usize, packets: u32) -> bool {
        let before = self.net.shared.borrow().seen.len();
        let worked = self.net.progress(at, packets);
        let seen: Vec<(u32, u32)> = self.net.shared.borrow().seen[before..].to_vec();
        for (from, to) in seen {
            let queue = from as usize * self.count() + to as usize;
            let number = self.flying[queue].remove(0);
            self.model_arrival(to as usize, number);
        }
        worked
    }

    fn model_arrival(&mut self, at: usize, number: usize) {
        let sent = self.sent[number];
        let found = self.naive[at].posted.iter().position(|&r| self.receives[r].wanted.takes(&sent));
        match found {
            Some(position) => {
                let receive = self.naive[at].posted.remove(position);
                self.receives[receive].expected = Some(number);
            }
            None => self.naive[at].arrived.push(number),
        }
    }

    fn model_find(&self, at: usize, wanted: &Wanted) -> Option<usize> {
        self.naive[at].arrived.iter().copied().find(|&m| wanted.takes(&self.sent[m]))
    }

    fn model_take(&mut self, at: usize, wanted: &Wanted) -> Option<usize> {
        let number = self.model_find(at, wanted)?;
        self.naive[at].arrived.retain(|&m| m != number);
        Some(number)
    }

    fn collect(&mut self) {
        for receive in &mut self.receives {
            if let (Some(id), None) = (receive.request, receive.got) {
                receive.got = self.net.nodes[receive.at].0.take(id).unwrap();
            }
        }
        let net = &mut self.net;
        self.sends.retain(|&(at, id)| net.nodes[at].0.take(id).unwrap().is_none());
    }

    fn check(&self) {
        for (number, receive) in self.receives.iter().enumerate() {
            match (receive.got, receive.expected) {
                (None, None) => {}
                (Some(got), _) if receive.cancelled => assert!(got.status.cancelled, "receive {number}"),
                (Some(got), Some(message)) => self.check_data(number, receive, &got, message),
                (got, expected) => {
                    panic!("receive {number}: got {got:?}, the model says message {expected:?}")
                }
            }
        }
    }

    fn check_data(&self, number: usize, receive: &Receive, got: &Completion, message: usize) {
        let sent = &self.sent[message];
        let fits = sent.length.min(receive.wanted.capacity);
        let (source, tag, _) = status_of(sent);
        assert_eq!((got.status.source, got.status.tag), (source, tag), "receive {number}, message {message}");
        assert_eq!(got.status.bytes, fits as u64, "receive {number}, message {message}");
        assert_eq!(got.error.is_some(), fits < sent.length, "receive {number}: {:?}", got.error);
        for (i, &byte) in receive.memory.iter().enumerate() {
            let expected = if i < fits { content(message, i) } else { 0xEE };
            assert_eq!(byte, expected, "receive {number}, message {message}, byte {i}");
        }
    }

    /// Everything that is left is received; then nothing may be left anywhere.
    fn drain(&mut self) {
        while !self.held.is_empty() {
            self.receive_held();
        }
        for number in 0..self.receives.len() {
            let receive = &mut self.receives[number];
            if let (Some(id), None) = (receive.request, receive.got) {
                let waiting = &mut self.naive[receive.at].posted;
                if waiting.contains(&number) {
                    waiting.retain(|&r| r != number);
                    receive.cancelled = true;
                }
                let (process, port) = &mut self.net.nodes[receive.at];
                process.cancel(port, id).unwrap();
            }
        }
        for _ in 0..10_000 {
            let mut worked = (0..self.count()).fold(false, |worked, at| self.deliver(at, u32::MAX) | worked);
            for at in 0..self.count() {
                while !self.naive[at].arrived.is_empty() {
                    self.drain_one(at);
                    worked = true;
                }
            }
            self.collect();
            if !worked && self.sends.is_empty() && self.receives.iter().all(|r| r.got.is_some()) {
                break;
            }
        }
        assert!(self.sends.is_empty(), "sends that never complete");
        self.check();
        for (process, port) in &self.net.nodes {
            let counts = process.counts();
            assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0), "left behind");
            assert_eq!(counts.operations, 0, "gets and puts left behind");
            assert_eq!(port.registered_count(), 0, "registrations left behind");
        }
        self.check_credit();
    }

    fn drain_one(&mut self, at: usize) {
        let wanted = Wanted {
            comm: self.sent[self.naive[at].arrived[0]].comm,
            source: Source::Any,
            tag: TagSelector::Any,
            capacity: 400,
        };
        let expected = self.model_take(at, &wanted);
        let (buffer, bytes) = memory(vec![0xEE; 400]);
        let (process, port) = &mut self.net.nodes[at];
        let posted = process.irecv(port, wanted.comm, buffer, wanted.source, wanted.tag).unwrap();
        self.add_receive(at, wanted, posted, bytes, expected);
    }

    fn check_credit(&self) {
        for a in 0..self.count() {
            for b in 0..self.count() {
                let (here, there) = (&self.net.nodes[a].0, &self.net.nodes[b].0);
                let spent = here.credit(ProcessId(b as u32)).map_or(0, |c| c.0);
                let owed = there.credit(ProcessId(a as u32)).map_or(0, |c| c.1);
                assert_eq!(spent, owed, "credit leaked between {a} and {b}");
            }
        }
    }

    fn run(mut self) {
        for _ in 0..10 + self.random.below(60) {
            match self.random.below(10) {
                0..=3 => self.send(),
                4..=6 => self.receive(),
                7 if self.random.one_in(2) => self.receive_direct(),
                7 => self.probe(),
                8 => {
                    if self.random.one_in(3) {
                        self.cancel();
                    } else {
                        self.receive_held();
                    }
                }
                _ => {}
            }
            let (at, packets) =
                (self.random.below(self.count() as u64) as usize, self.random.below(4) as u32);
            self.deliver(at, packets);
            if self.random.one_in(4) {
                self.collect();
            }
        }
        self.drain();
    }
}

fn content(message: usize, at: usize) -> u8 {
    (message * 31 + at * 7 + 1) as u8
}

fn status_of(sent: &Sent) -> (Origin, Option<Tag>, u64) {
    (Origin::Rank(sent.from), Some(sent.tag), sent.length as u64)
}

#[expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a failure is replayed by its seed")]
fn run_scenarios(count: u64) {
    let first: u64 =
        std::env::var("AYATORI_SEED").ok().map_or(0, |s| s.parse().expect("AYATORI_SEED: a number"));
    for seed in first..first + count {
        let run = std::panic::catch_unwind(|| {
            let scenario = Scenario::new(seed);
            assert_eq!(scenario.seed, seed);
            scenario.run();
        });
        if let Err(panic) = run {
            println!("scenario failed; replay it with AYATORI_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn random_scenarios_match_like_the_naive_model() {
    run_scenarios(3_000);
}

#[test]
#[ignore = "long: cargo test --release -p ayatori-core hundred_thousand -- --ignored"]
fn a_hundred_thousand_scenarios_match_like_the_naive_model() {
    run_scenarios(100_000);
}
