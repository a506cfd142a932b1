//! Messages whose ends are in several pieces, against the naive model: pack, send, unpack.

use super::net::Net;
use super::trunk::mbit;
use super::wire::{Wire, tcp};
use crate::buffer::{Buffer, Piece};
use crate::device::RailCapabilities;
use crate::ids::{CommId, RequestId, Source, TagSelector};
use crate::layout::{Layout, Region};
use crate::process::Config;
use crate::request::{Posted, SendMode};
use crate::time::{Duration, Instant};
use crate::transfer;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

/// Memory filled by chance, and a layout over it whose packed stream has `len` bytes (or a few more).
fn region(random: &mut Random, len: usize) -> Region {
    let block = [1, 3, 4, 8, 24, 100, 5000][random.below(7) as usize];
    let gap = [0, 1, 4, 64][random.below(4) as usize];
    let inner = Layout::bytes(block).repeat(3, (block + gap) as isize).unwrap();
    let extent = (3 * (block + gap) + 7) as isize;
    let layout = inner.resized(0, extent).unwrap();
    let count = len.div_ceil(3 * block);
    let memory = Buffer::leaked(layout.span(count).unwrap().len);
    let noise: Vec<u8> = (0..memory.len()).map(|_| random.next_u64() as u8).collect();
    memory.scatter(0, Piece::Bytes(&noise));
    Region::new(layout, count, memory).unwrap()
}

fn packed(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.pack(0, &mut bytes[..]);
    bytes
}

/// Expected memory of the sink after it has received `message`: gaps and the rest stay unchanged.
fn expected(sink: &Region, message: &[u8]) -> Vec<u8> {
    let memory = Buffer::leaked(sink.memory().len());
    memory.scatter(0, Piece::Bytes(&sink.memory().to_vec().unwrap()));
    // With the same layout: pieces, one after the other.
    let mut at = 0;
    let fits = message.len().min(sink.len());
    for piece in sink.pieces(0, fits) {
        let offset = piece.as_ptr().unwrap() as usize - sink.memory().as_ptr().unwrap() as usize;
        memory.scatter(offset, Piece::Bytes(&message[at..at + piece.len()]));
        at += piece.len();
    }
    memory.to_vec().unwrap()
}

/// Either a region or contiguous memory.
struct End {
    region: Region,
    is_packed: bool,
}

impl End {
    fn new(random: &mut Random, len: usize) -> Self {
        Self { region: region(random, len), is_packed: random.one_in(2) }
    }

    fn source(&self) -> transfer::Source {
        if !self.is_packed {
            return self.region.clone().into();
        }
        let memory = Buffer::leaked(self.region.len());
        memory.scatter(0, Piece::Bytes(&packed(&self.region)));
        memory.into()
    }
}

fn rails() -> Vec<RailCapabilities> {
    let plain =
        RailCapabilities { transfer_bytes_max: 10_000, eager_bytes_max: 500, ..RailCapabilities::default() };
    let get = RailCapabilities { get: true, ..plain };
    vec![plain, get, RailCapabilities { put: true, ..plain }, RailCapabilities { put: true, ..get }]
}

const LENGTHS: [usize; 6] = [0, 1, 400, 700, 9_000, 70_000];

#[test]
fn layouts_arrive_as_packed_and_unpacked_messages_do() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let rail = rails()[random.below(4) as usize];
        let mut net = Net::new(2, seed, rail);
        net.shared.borrow_mut().refuse_one_in = [0, 3][random.below(2) as usize];
        net.shared.borrow_mut().full_one_in = [0, 4][random.below(2) as usize];
        let len = LENGTHS[random.below(6) as usize];
        let source = End::new(&mut random, len);
        let extra = random.below(2) as usize * 100;
        let sink = region(&mut random, len + extra);
        let message = packed(&source.region);
        let want = expected(&sink, &message);
        let to = random.below(2) as u32;
        let mode = [SendMode::Standard, SendMode::Synchronous][random.below(2) as usize];
        let is_early = random.one_in(2);
        let mut posted = None;
        let mut receive = |net: &mut Net| {
            let (process, port) = &mut net.nodes[to as usize];
            let any = (Source::Rank(0), TagSelector::Tag(1));
            posted = Some(process.irecv(port, CommId::WORLD, sink.clone(), any.0, any.1).unwrap());
        };
        if is_early {
            receive(&mut net);
        }
        let (process, port) = &mut net.nodes[0];
        let sent = process.isend(port, CommId::WORLD, source.source(), to, 1, mode).unwrap();
        net.settle();
        if !is_early {
            receive(&mut net);
        }
        net.settle();
        for (node, posted) in [(0, sent), (to as usize, posted.unwrap())] {
            if let Posted::Pending(id) = posted {
                assert!(net.nodes[node].0.take(id).unwrap().is_some(), "seed {seed}: not over");
            }
        }
        assert_eq!(sink.memory().to_vec().unwrap(), want, "seed {seed}");
        let left = net.nodes.iter().map(|(process, _)| process.counts());
        assert!(left.into_iter().all(|counts| counts.requests == 0 && counts.operations == 0), "seed {seed}");
        assert!(net.nodes.iter().all(|(_, port)| port.registered_count() == 0), "seed {seed}");
    }
}

#[test]
fn layouts_arrive_over_rails_that_lose_packets() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (mut lines, _) = mbit(&[1000, 500][..1 + random.below(2) as usize]);
        lines.iter_mut().for_each(|line| line.damage_one_in = [0, 20][random.below(2) as usize]);
        let put = random.one_in(2);
        let rail = RailCapabilities { put, get: random.one_in(3), ..tcp() };
        let mut wire = Wire::with(lines, rail, Config::default(), seed);
        let len = [700, 9_000, 300_000][random.below(3) as usize];
        let source = End::new(&mut random, len);
        let sink = region(&mut random, len);
        let want = expected(&sink, &packed(&source.region));
        let id = |posted: Posted| match posted {
            Posted::Pending(id) => Some(id),
            Posted::Done(_) => None,
        };
        let (process, port) = &mut wire.nodes[1];
        let from = (Source::Rank(0), TagSelector::Tag(1));
        let received = id(process.irecv(port, CommId::WORLD, sink.clone(), from.0, from.1).unwrap());
        let (process, port) = &mut wire.nodes[0];
        let sent = id(process.isend(port, CommId::WORLD, source.source(), 1, 1, SendMode::Standard).unwrap());
        wire.run_until(Instant::ZERO + Duration::from_s(20));
        let is_over = |wire: &mut Wire, node: usize, id: Option<RequestId>| {
            id.is_none_or(|id| wire.nodes[node].0.take(id).unwrap().is_some())
        };
        assert!(is_over(&mut wire, 0, sent) && is_over(&mut wire, 1, received), "seed {seed}");
        assert_eq!(sink.memory().to_vec().unwrap(), want, "seed {seed}");
    }
}

#[test]
fn a_direct_receive_and_persistent_requests_take_layouts() {
    let mut random = Random::new(7);
    for len in [100, 70_000] {
        let mut net = Net::new(2, 1, rails()[1]);
        let (source, sink) = (region(&mut random, len), region(&mut random, len));
        let want = expected(&sink, &packed(&source));
        let (process, port) = &mut net.nodes[0];
        let send = process.send_init(CommId::WORLD, source.clone(), 1, 1, SendMode::Standard).unwrap();
        process.start(port, send).unwrap();
        let (process, port) = &mut net.nodes[1];
        let (from, tag) = (Source::Rank(0), TagSelector::Any);
        assert!(!process.receive_direct(port, CommId::WORLD, sink.clone(), from, tag).unwrap());
        net.settle();
        assert!(net.nodes[1].0.poll_direct());
        assert_eq!(net.nodes[1].0.direct_completion().status.bytes, source.len().min(sink.len()) as u64);
        assert_eq!(sink.memory().to_vec().unwrap(), want);
        assert!(net.nodes[0].0.take(send).unwrap().is_some());
    }
}
