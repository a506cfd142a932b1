//! Partitioned messages: the two ends cut the stream differently, parts become ready in any order, packets
//! arrive in any order, and requests with the same tag match in the order they were made.

use crate::buffer::{Buffer, Piece};
use crate::device::RailCapabilities;
use crate::error::Error;
use crate::ids::{CommId, ProcessId, RequestId};
use crate::layout::{Layout, Region};
use crate::process::tests::net::{self, Net};
use crate::request::{Completion, Origin, PROC_NULL, SendMode, Status};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

const TAG: i32 = 7;
const ROUNDS: u32 = 3;

fn net(random: &mut Random, count: usize) -> Net {
    let (get, put) = [(false, false), (true, false), (false, true)][random.below(3) as usize];
    let rail = RailCapabilities {
        packet_bytes_max: 160,
        eager_bytes_max: 100,
        transfer_bytes_max: 70,
        get,
        put,
        ..RailCapabilities::default()
    };
    let net = Net::new(count, random.next_u64(), rail);
    net.shared.borrow_mut().full_one_in = [0, 2, 5][random.below(3) as usize];
    net
}

/// Memory for elements of 12 bytes, with gaps or without, upwards or downwards.
fn elements(random: &mut Random, count: usize) -> Region {
    let gap = if random.one_in(2) { 0 } else { 3 };
    let half = Layout::bytes(6);
    let pair = Layout::structure([(1, 0, &half), (1, 6 + gap, &half)]).unwrap();
    let extent = if random.one_in(4) { -12 - 2 * gap } else { 12 + 2 * gap };
    let layout = pair.resized(0, extent).unwrap();
    let memory = Buffer::leaked(layout.span(count).unwrap().len);
    Region::new(layout, count, memory).unwrap()
}

/// Writes bytes over the elements and something else over the gaps. All the memory then.
fn fill(region: &Region, bytes: &[u8]) -> Vec<u8> {
    let memory = region.memory();
    memory.scatter(0, Piece::Bytes(&vec![0xEE; memory.len()]));
    region.unpack(0, bytes);
    memory.to_vec().unwrap()
}

fn packed(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.pack(0, &mut bytes[..]);
    bytes
}

/// One end of a request.
struct End {
    at: usize,
    id: Option<RequestId>,
    region: Region,
    parts_count: u32,
    round: u32,
    is_active: bool,
    /// Parts to be marked ready.
    left: Vec<u32>,
}

struct Pair {
    sender: End,
    receiver: End,
    seed: u64,
}

impl Pair {
    fn new(random: &mut Random, nodes_count: u64) -> Self {
        let [(send_parts, sent), (receive_parts, received)] = [
            [(1, 12), (12, 1)],
            [(4, 3), (6, 2)],
            [(8, 5), (8, 5)],
            [(5, 7), (7, 5)],
            [(30, 2), (1, 60)],
            [(3, 0), (2, 0)],
        ][random.below(6) as usize];
        let mut end = |parts_count: u32, each: usize| End {
            at: random.below(nodes_count) as usize,
            id: None,
            region: elements(random, parts_count as usize * each),
            parts_count,
            round: 0,
            is_active: false,
            left: Vec::new(),
        };
        let (sender, receiver) = (end(send_parts, sent), end(receive_parts, received));
        Self { sender, receiver, seed: random.next_u64() }
    }

    fn message(&self, round: u32) -> Vec<u8> {
        let mut random = Random::new(self.seed ^ u64::from(round));
        (0..self.sender.region.len()).map(|_| random.next_u64() as u8).collect()
    }

    fn init_sender(&mut self, net: &mut Net) {
        let (process, port) = &mut net.nodes[self.sender.at];
        let to = (self.receiver.at as u32, TAG);
        let (region, parts) = (self.sender.region.clone(), self.sender.parts_count);
        self.sender.id = Some(process.psend_init(port, CommId::WORLD, region, parts, to).unwrap());
    }

    fn init_receiver(&mut self, net: &mut Net) {
        let (process, port) = &mut net.nodes[self.receiver.at];
        let from = (self.sender.at as u32, TAG);
        let (region, parts) = (self.receiver.region.clone(), self.receiver.parts_count);
        self.receiver.id = Some(process.precv_init(port, CommId::WORLD, region, parts, from).unwrap());
    }

    /// One thing that the sender's user does.
    fn step_sender(&mut self, net: &mut Net, random: &mut Random) {
        let (process, port) = &mut net.nodes[self.sender.at];
        let Some(id) = self.sender.id else { return };
        if !self.sender.is_active {
            if self.sender.round < ROUNDS {
                fill(&self.sender.region, &self.message(self.sender.round));
                process.start(port, id).unwrap();
                self.sender.is_active = true;
                self.sender.left = (0..self.sender.parts_count).collect();
            }
        } else if !self.sender.left.is_empty() {
            assert_eq!(process.take(id), Ok(None), "over before all parts are ready");
            let at = random.below(self.sender.left.len() as u64) as usize;
            let part = self.sender.left.swap_remove(at);
            process.pready(port, id, part).unwrap();
            assert!(matches!(process.pready(port, id, part), Err(Error::Argument(_) | Error::Request)));
        } else if let Some(completion) = process.take(id).unwrap() {
            assert_eq!(completion, Completion::EMPTY);
            // The data sent has left the memory.
            fill(&self.sender.region, &vec![0xDD; self.sender.region.len()]);
            self.sender.is_active = false;
            self.sender.round += 1;
        }
    }

    /// One thing that the receiver's user does.
    fn step_receiver(&mut self, net: &mut Net, random: &mut Random) {
        let (process, port) = &mut net.nodes[self.receiver.at];
        let (Some(id), region) = (self.receiver.id, &self.receiver.region) else { return };
        let message = self.message(self.receiver.round);
        if !self.receiver.is_active {
            if self.receiver.round < ROUNDS {
                fill(region, &vec![0x11; region.len()]);
                process.start(port, id).unwrap();
                self.receiver.is_active = true;
            }
            return;
        }
        let part = random.below(self.receiver.parts_count.into()) as u32;
        if process.parrived(id, part).unwrap() {
            let part_bytes = region.len() / self.receiver.parts_count as usize;
            let range = part as usize * part_bytes..(part as usize + 1) * part_bytes;
            assert_eq!(packed(region)[range.clone()], message[range], "part {part} has not arrived");
        }
        if let Some(completion) = process.take(id).unwrap() {
            let source = Origin::Rank(self.sender.at as u32);
            let status = Status { source, tag: Some(TAG), bytes: region.len() as u64, cancelled: false };
            assert_eq!(completion, Completion { status, error: None });
            let got = region.memory().to_vec().unwrap();
            assert_eq!(got, fill(region, &message), "round {}", self.receiver.round);
            self.receiver.is_active = false;
            self.receiver.round += 1;
        }
    }

    fn is_done(&self) -> bool {
        self.sender.round == ROUNDS && self.receiver.round == ROUNDS
    }
}

fn world(seed: u64) {
    let mut random = Random::new(seed);
    let nodes_count = 1 + random.below(3);
    let mut net = net(&mut random, nodes_count as usize);
    let mut pairs: Vec<Pair> =
        (0..1 + random.below(5)).map(|_| Pair::new(&mut random, nodes_count)).collect();
    let (mut senders_made, mut receivers_made) = (0, 0);
    for step in 0.. {
        assert!(step < 200_000, "seed {seed:#x} hangs");
        match random.below(4) {
            0 if senders_made < pairs.len() => {
                pairs[senders_made].init_sender(&mut net);
                senders_made += 1;
            }
            1 if receivers_made < pairs.len() => {
                pairs[receivers_made].init_receiver(&mut net);
                receivers_made += 1;
            }
            2 => {
                net.progress(random.below(nodes_count) as usize, random.below(3) as u32);
            }
            _ => {
                let at = random.below(pairs.len() as u64) as usize;
                match random.one_in(2) {
                    true => pairs[at].step_sender(&mut net, &mut random),
                    false => pairs[at].step_receiver(&mut net, &mut random),
                }
            }
        }
        if pairs.iter().all(Pair::is_done) {
            break;
        }
    }
    net.settle();
    for pair in &pairs {
        for end in [&pair.sender, &pair.receiver] {
            net.nodes[end.at].0.free(end.id.unwrap()).unwrap();
        }
    }
    for (process, _) in &net.nodes {
        let counts = process.counts();
        assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0), "seed {seed:#x}");
    }
}

#[test]
fn parts_arrive_whole_in_any_order() {
    for seed in 0..400 {
        if std::panic::catch_unwind(|| world(seed)).is_err() {
            panic!("world of seed {seed:#x}");
        }
    }
}

/// Two processes and a request of each, of these many parts of a byte.
fn two(sent: u32, received: u32) -> (Net, RequestId, RequestId) {
    let mut random = Random::new(1);
    let mut net = net(&mut random, 2);
    net.shared.borrow_mut().full_one_in = 0;
    let (process, port) = &mut net.nodes[0];
    let memory = Buffer::leaked(sent as usize);
    let sender = process.psend_init(port, CommId::WORLD, memory, sent, (1, TAG)).unwrap();
    let (process, port) = &mut net.nodes[1];
    let memory = Buffer::leaked(received as usize);
    let receiver = process.precv_init(port, CommId::WORLD, memory, received, (0, TAG)).unwrap();
    (net, sender, receiver)
}

#[test]
fn another_length_is_an_error_at_the_receiver() {
    for (sent, received) in [(8, 4), (4, 8), (1, 0), (0, 1)] {
        let (mut net, _, receiver) = two(sent, received);
        net.settle();
        let (process, port) = &mut net.nodes[1];
        process.start(port, receiver).unwrap();
        let error = process.take(receiver).unwrap().unwrap().error;
        match sent > received {
            true => assert!(matches!(error, Some(Error::Truncate { .. }))),
            false => assert!(matches!(error, Some(Error::Argument(_)))),
        }
    }
}

#[test]
fn introductions_of_freed_requests_match_nothing_else() {
    let (mut net, sender, receiver) = two(4, 4);
    // Both give up before anything has arrived; the second requests meet each other.
    net.nodes[0].0.free(sender).unwrap();
    net.nodes[1].0.free(receiver).unwrap();
    let (process, port) = &mut net.nodes[0];
    let (memory, bytes) = net::memory(vec![9; 6]);
    let sender = process.psend_init(port, CommId::WORLD, memory, 2, (1, TAG)).unwrap();
    process.start(port, sender).unwrap();
    let (process, port) = &mut net.nodes[1];
    let into = Buffer::leaked(6);
    let receiver = process.precv_init(port, CommId::WORLD, into, 3, (0, TAG)).unwrap();
    process.start(port, receiver).unwrap();
    let (process, port) = &mut net.nodes[0];
    process.pready(port, sender, 1).unwrap();
    process.pready(port, sender, 0).unwrap();
    net.settle();
    assert_eq!(net.nodes[1].0.take(receiver).unwrap().map(|completion| completion.error), Some(None));
    assert_eq!(into.to_vec().unwrap(), bytes);
    assert_eq!(net.nodes[0].0.counts().requests + net.nodes[1].0.counts().requests, 2);
}

#[test]
fn partitioned_calls_out_of_place_are_refused() {
    let (mut net, sender, receiver) = two(4, 4);
    net.settle();
    let (process, port) = &mut net.nodes[0];
    assert_eq!(process.pready(port, sender, 0), Err(Error::Request));
    assert_eq!(process.parrived(sender, 0), Err(Error::Request));
    process.start(port, sender).unwrap();
    assert_eq!(process.start(port, sender), Err(Error::Request));
    assert!(matches!(process.pready(port, sender, 4), Err(Error::Argument(_))));
    assert_eq!(process.cancel(port, sender), Err(Error::Request));
    let other = process.send_init(CommId::WORLD, Buffer::EMPTY, 1, 0, SendMode::Standard).unwrap();
    assert_eq!(process.pready(port, other, 0), Err(Error::Request));
    let stranger = process.psend_init(port, CommId::WORLD, Buffer::EMPTY, 1, (2, TAG));
    assert_eq!(stranger, Err(Error::Rank { rank: 2, size: 2 }));
    let (process, port) = &mut net.nodes[1];
    assert_eq!(process.parrived(receiver, 3), Ok(true), "nothing is awaited yet");
    assert!(matches!(process.parrived(receiver, 4), Err(Error::Argument(_))));
    assert_eq!(process.pready(port, receiver, 0), Err(Error::Request));
    process.start(port, receiver).unwrap();
    assert_eq!(process.parrived(receiver, 3), Ok(false), "the sender is not known yet");
}

#[test]
fn with_proc_null_nothing_is_sent() {
    let (mut net, ..) = two(1, 1);
    net.settle();
    let (process, port) = &mut net.nodes[0];
    let memory = Buffer::leaked(6);
    let sender = process.psend_init(port, CommId::WORLD, memory, 2, (PROC_NULL, TAG)).unwrap();
    let receiver = process.precv_init(port, CommId::WORLD, memory, 3, (PROC_NULL, TAG)).unwrap();
    for _ in 0..2 {
        process.start(port, sender).unwrap();
        process.start(port, receiver).unwrap();
        let received = process.take(receiver).unwrap().unwrap();
        assert_eq!(received, Completion { status: Status::PROC_NULL, error: None });
        process.pready(port, sender, 1).unwrap();
        assert_eq!(process.take(sender), Ok(None));
        let before = process.messages().completion_count;
        process.pready(port, sender, 0).unwrap();
        assert!(process.messages().completion_count > before, "waiting callers look again");
        assert_eq!(process.take(sender), Ok(Some(Completion::EMPTY)));
    }
    let before = process.counts().requests;
    for id in [sender, receiver] {
        assert_eq!(process.free(id), Ok(()));
    }
    assert_eq!(process.counts().requests, before - 2, "nothing of them is under way");
}

#[test]
fn a_lost_peer_ends_both_ends() {
    let (mut net, sender, receiver) = two(300, 2);
    let (process, port) = &mut net.nodes[1];
    process.start(port, receiver).unwrap();
    process.handle_peer_gone(port, ProcessId(0));
    net.progress(1, 0);
    let ended = net.nodes[1].0.take(receiver).unwrap().unwrap();
    assert!(matches!(ended.error, Some(Error::ProcessAborted(_))), "{ended:?}");
    let (process, port) = &mut net.nodes[0];
    process.start(port, sender).unwrap();
    process.handle_peer_gone(port, ProcessId(1));
    for part in 0..300 {
        process.pready(port, sender, part).unwrap();
    }
    net.progress(0, 0);
    let ended = net.nodes[0].0.take(sender).unwrap().unwrap();
    assert!(matches!(ended.error, Some(Error::ProcessAborted(_))), "{ended:?}");
}

/// The sender's parts end inside of the receiver's elements, which have gaps.
#[test]
fn parts_that_end_inside_of_an_element_arrive_whole() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut net = net(&mut random, 2);
        let (send_parts, receive_parts) = [(8, 4), (24, 2), (48, 1), (3, 4), (12, 1)][random.index(5)];
        let into = elements(&mut random, 4);
        let (memory, _) = net::memory(vec![0; 48]);
        let (process, port) = &mut net.nodes[0];
        let sender = process.psend_init(port, CommId::WORLD, memory, send_parts, (1, TAG)).unwrap();
        let (process, port) = &mut net.nodes[1];
        let receiver =
            process.precv_init(port, CommId::WORLD, into.clone(), receive_parts, (0, TAG)).unwrap();
        for round in 0..3_u8 {
            let sent: Vec<u8> = (0..48).map(|at| at * 3 + round + 1).collect();
            memory.scatter(0, Piece::Bytes(&sent));
            fill(&into, &[0; 48]);
            let (process, port) = &mut net.nodes[1];
            process.start(port, receiver).unwrap();
            let (process, port) = &mut net.nodes[0];
            process.start(port, sender).unwrap();
            let mut left: Vec<u32> = (0..send_parts).collect();
            let mut is_here = [false; 48];
            while !left.is_empty() {
                let part = left.swap_remove(random.index(left.len()));
                let (process, port) = &mut net.nodes[0];
                process.pready(port, sender, part).unwrap();
                net.settle();
                let each = 48 / send_parts as usize;
                is_here[part as usize * each..][..each].fill(true);
                for (part, bytes) in is_here.chunks(48 / receive_parts as usize).enumerate() {
                    let is_whole = bytes.iter().all(|is_here| *is_here);
                    let arrived = net.nodes[1].0.parrived(receiver, part as u32);
                    assert_eq!(arrived, Ok(is_whole), "seed {seed}, part {part}");
                }
            }
            let completion = net.nodes[1].0.take(receiver).unwrap().expect("all parts are there");
            assert_eq!(completion.error, None);
            assert_eq!(into.memory().to_vec().unwrap(), fill(&into, &sent), "seed {seed}, round {round}");
            assert_eq!(net.nodes[0].0.take(sender), Ok(Some(Completion::EMPTY)));
        }
    }
}

#[test]
fn a_part_of_one_byte_is_sent() {
    let mut random = Random::new(1);
    let mut net = net(&mut random, 2);
    let ((from, _), (into, bytes)) = (net::memory(vec![7]), net::memory(vec![0]));
    let (process, port) = &mut net.nodes[0];
    let sender = process.psend_init(port, CommId::WORLD, from, 1, (1, TAG)).unwrap();
    process.start(port, sender).unwrap();
    process.pready(port, sender, 0).unwrap();
    let (process, port) = &mut net.nodes[1];
    let receiver = process.precv_init(port, CommId::WORLD, into, 1, (0, TAG)).unwrap();
    process.start(port, receiver).unwrap();
    let before = process.messages().completion_count;
    net.settle();
    let process = &mut net.nodes[1].0;
    assert!(process.messages().completion_count > before, "waiting callers look again");
    assert_eq!(process.take(receiver).unwrap().map(|end| end.error), Some(None));
    assert_eq!(bytes, [7]);
}

#[test]
fn parts_without_bytes_arrive_when_their_sender_is_ready() {
    let (mut net, ..) = two(1, 1);
    let (process, port) = &mut net.nodes[0];
    let sender = process.psend_init(port, CommId::WORLD, Buffer::EMPTY, 3, (1, TAG)).unwrap();
    let (process, port) = &mut net.nodes[1];
    let receiver = process.precv_init(port, CommId::WORLD, Buffer::EMPTY, 2, (0, TAG)).unwrap();
    process.start(port, receiver).unwrap();
    net.settle();
    assert_eq!(net.nodes[1].0.parrived(receiver, 1), Ok(false));
    let (process, port) = &mut net.nodes[0];
    process.start(port, sender).unwrap();
    (0..3).for_each(|part| process.pready(port, sender, part).unwrap());
    net.settle();
    assert_eq!(net.nodes[1].0.parrived(receiver, 1), Ok(true));
}

#[test]
fn a_failed_receive_is_looked_at_again() {
    let (mut net, _, receiver) = two(8, 4);
    let (process, port) = &mut net.nodes[1];
    process.start(port, receiver).unwrap();
    let before = process.messages().failure_count;
    net.settle();
    let process = &mut net.nodes[1].0;
    assert!(process.messages().failure_count > before);
    assert!(process.take(receiver).unwrap().is_some_and(|end| end.error.is_some()));
}

/// The memory of a request is in use until nothing of it is under way.
#[test]
fn a_freed_request_stays_until_its_messages_have_come() {
    let (mut net, sender, receiver) = two(2, 2);
    let (process, port) = &mut net.nodes[1];
    assert_eq!(process.counts().requests, 2, "it, and the receive of its introduction");
    process.start(port, receiver).unwrap();
    process.free(receiver).unwrap();
    assert_eq!(process.counts().requests, 2);
    let (process, port) = &mut net.nodes[0];
    process.start(port, sender).unwrap();
    net.settle();
    assert_eq!(net.nodes[1].0.counts().requests, 3, "it, and a receive for each part");
    for (part, left) in [(1, 2), (0, 0)] {
        let (process, port) = &mut net.nodes[0];
        process.pready(port, sender, part).unwrap();
        net.settle();
        assert_eq!(net.nodes[1].0.counts().requests, left);
    }
    // And one that is not started.
    let (mut net, _, receiver) = two(2, 2);
    let process = &mut net.nodes[1].0;
    process.free(receiver).unwrap();
    assert_eq!(process.counts().requests, 2);
    net.settle();
    assert_eq!(net.nodes[1].0.counts().requests, 0);
}

#[test]
fn what_is_no_partitioned_request_stays_what_it_is() {
    let mut net = Net::of_short_packets(2, 0);
    let (into, bytes) = net::memory(vec![0; 4]);
    let (process, port) = &mut net.nodes[1];
    let (source, tag) = (crate::ids::Source::Rank(0), crate::ids::TagSelector::Tag(3));
    let Ok(crate::request::Posted::Pending(receive)) = process.irecv(port, CommId::WORLD, into, source, tag)
    else {
        panic!("nothing was sent")
    };
    assert_eq!(process.pready(port, receive, 0), Err(Error::Request));
    let (process, port) = &mut net.nodes[0];
    assert!(process.isend(port, CommId::WORLD, net::memory(vec![9; 4]).0, 1, 3, SendMode::Standard).is_ok());
    net.settle();
    assert_eq!(net.nodes[1].0.take(receive).unwrap().map(|end| end.error), Some(None));
    assert_eq!(bytes, [9; 4]);
}
