//! Windows against a sequential model, in random worlds.

mod faults;
mod fence;
mod losses;
mod misbehaving;
mod short;
mod synchronization;

use crate::buffer::{Buffer, Piece, Scratch};
use crate::comm::Communicator;
use crate::datatype::Predefined;
use crate::device::{Device, RailCapabilities};
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank};
use crate::layout::{Layout, Region};
use crate::op::Operation;
use crate::process::Process;
use crate::process::tests::net::Net;
use crate::request::{Completion, Posted, SendMode};
use crate::rma::{Follow, Memory, Place, WindowId};
use crate::wire::Envelope;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

/// What a window has: a counter, sums, something that is only read, and a part for each origin.
const SUMS_AT: usize = 8;
const SUMS: usize = 600;
const READ_AT: usize = SUMS_AT + 8 * SUMS;
const READ_BYTES: usize = 60_000;
const PARTS_AT: usize = READ_AT + READ_BYTES;
const PART_BYTES: usize = 60_000;

struct World {
    /// Memory of windows and operations.
    own: Vec<Scratch>,
    net: Net,
    random: Random,
    windows: Vec<Buffer>,
    model: Vec<Vec<u8>>,
    /// Expected results of reads.
    expected: Vec<(Region, Vec<u8>)>,
    /// Results of fetches, by target.
    fetched: Vec<Vec<Buffer>>,
    /// Bytes of each part that are written already, by origin and target: two writes of a place have no
    /// order.
    written: Vec<Vec<usize>>,
}

const WINDOW: WindowId = WindowId(0);

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.below(3) as usize;
        let rail = RailCapabilities {
            packet_bytes_max: 3000,
            eager_bytes_max: [400, 2500][random.below(2) as usize],
            transfer_bytes_max: 9000,
            get: random.one_in(2),
            put: random.one_in(2),
            ..RailCapabilities::default()
        };
        let mut net = Net::new(count, random.next_u64(), rail);
        {
            let mut shared = net.shared.borrow_mut();
            shared.full_one_in = [0, 0, 3][random.below(3) as usize];
            shared.refuse_one_in = [0, 0, 3][random.below(3) as usize];
            shared.front_one_in = [0, 2][random.below(2) as usize];
        }
        let bytes = PARTS_AT + count * PART_BYTES;
        let mut own: Vec<Scratch> = (0..count).map(|_| Scratch::new(bytes)).collect();
        let windows: Vec<Buffer> = own.iter_mut().map(|scratch| scratch.buffer(bytes)).collect();
        for (me, window) in windows.iter().enumerate() {
            let noise: Vec<u8> = (0..READ_BYTES).map(|_| random.next_u64() as u8).collect();
            window.scatter(READ_AT, Piece::Bytes(&noise));
            let group = Group::world(count as u32);
            let process = &mut net.nodes[me].0;
            let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
            // An operation that comes as a message works on either.
            let memory = if me == 0 { Memory::Mapped(*window) } else { Memory::Fixed(*window) };
            assert_eq!(process.windows().add(comm, memory), Ok(WINDOW));
        }
        let model = windows.iter().map(|window| window.to_vec().unwrap()).collect();
        Self {
            own,
            net,
            random,
            windows,
            model,
            expected: vec![],
            fetched: vec![vec![]; count],
            written: vec![vec![0; count]; count],
        }
    }

    /// Memory that lives as long as the world.
    fn alloc(&mut self, len: usize) -> Buffer {
        let mut scratch = Scratch::new(len);
        let buffer = scratch.buffer(len);
        self.own.push(scratch);
        buffer
    }

    fn count(&self) -> usize {
        self.windows.len()
    }

    /// A layout of whole words within so many bytes, its count, and where it may begin.
    fn layout(&mut self, bytes: usize, word: usize) -> (Layout, usize, usize) {
        let words = bytes / word;
        let most = [3, 40, words / 2][self.random.below(3) as usize].clamp(1, words);
        let count = 1 + self.random.below(most as u64) as usize;
        if self.random.one_in(2) {
            let at = self.random.below((words - count + 1) as u64) as usize;
            return (Layout::bytes(word), count, at * word);
        }
        let gap = self.random.below(3) as usize;
        let count = count.min(words / (gap + 1)).max(1);
        let layout = Layout::bytes(word).resized(0, (word * (gap + 1)) as isize).unwrap();
        let room = words - ((count - 1) * (gap + 1) + 1);
        let at = self.random.below(room as u64 + 1) as usize;
        (layout, count, at * word)
    }

    /// Memory of an origin for `len` bytes, with gaps or without.
    fn memory(&mut self, len: usize) -> Region {
        let layout = match self.random.below(2) {
            0 => Layout::bytes(1),
            _ => Layout::bytes(1).resized(0, 2).unwrap(),
        };
        let memory = self.alloc(layout.span(len).unwrap().len);
        let noise: Vec<u8> = (0..memory.len()).map(|_| self.random.next_u64() as u8).collect();
        memory.scatter(0, Piece::Bytes(&noise));
        Region::new(layout, len, memory).unwrap()
    }

    fn operation(&mut self, origin: usize, requests: &mut Vec<(usize, crate::ids::RequestId)>) {
        let target = self.random.below(self.count() as u64) as usize;
        let wants = self.random.one_in(3);
        let (posted, at) = match self.random.below(4) {
            0 => self.put(origin, target, wants),
            1 => self.get(origin, target, wants),
            2 => self.sum(origin, target, wants),
            _ => self.fetch(origin, target, wants),
        };
        match posted {
            Posted::Pending(id) => {
                assert!(wants);
                requests.push((at, id));
            }
            Posted::Done(completion) => assert_eq!(completion.error, None),
        }
    }

    fn put(&mut self, origin: usize, target: usize, wants: bool) -> (Posted, usize) {
        let written = self.written[origin][target];
        if PART_BYTES - written < 4 {
            return (Posted::Done(Completion::EMPTY), origin);
        }
        let (layout, count, at) = self.layout(PART_BYTES - written, 4);
        let displacement = PARTS_AT + origin * PART_BYTES + written + at;
        let source = self.memory(layout.size() * count);
        let mut data = vec![0; source.len()];
        source.pack(0, &mut data[..]);
        let extent = layout.extent() as usize;
        self.written[origin][target] += at + (count - 1) * extent + 4;
        for (index, word) in data.chunks(4).enumerate() {
            let to = displacement + index * extent;
            self.model[target][to..to + 4].copy_from_slice(word);
        }
        let place = Place { displacement: displacement as i64, layout, count };
        let (process, port) = &mut self.net.nodes[origin];
        let posted = process.windows().put(port, (WINDOW, target as Rank, place), source, wants);
        (posted.unwrap(), origin)
    }

    fn get(&mut self, origin: usize, target: usize, wants: bool) -> (Posted, usize) {
        let (layout, count, at) = self.layout(READ_BYTES, 4);
        let sink = self.memory(layout.size() * count);
        let extent = layout.extent() as usize;
        let word = |index: usize| &self.model[target][READ_AT + at + index * extent..][..4];
        let expected: Vec<u8> = (0..count).flat_map(word).copied().collect();
        self.expected.push((sink.clone(), expected));
        let place = Place { displacement: (READ_AT + at) as i64, layout, count };
        let (process, port) = &mut self.net.nodes[origin];
        let posted = process.windows().get(port, (WINDOW, target as Rank, place), sink, wants);
        (posted.unwrap(), origin)
    }

    fn sum(&mut self, origin: usize, target: usize, wants: bool) -> (Posted, usize) {
        let (layout, count, at) = self.layout(8 * SUMS, 8);
        let source = self.memory(layout.size() * count);
        let mut data = vec![0; source.len()];
        source.pack(0, &mut data[..]);
        let extent = layout.extent() as usize;
        for (index, word) in data.as_chunks::<8>().0.iter().enumerate() {
            let to = SUMS_AT + at + index * extent;
            let sum = &mut self.model[target][to..to + 8];
            let old = i64::from_ne_bytes(sum.try_into().unwrap());
            sum.copy_from_slice(&old.wrapping_add(i64::from_ne_bytes(*word)).to_ne_bytes());
        }
        let place = Place { displacement: (SUMS_AT + at) as i64, layout, count };
        let (process, port) = &mut self.net.nodes[origin];
        let what = (Operation::Sum, Predefined::Int64);
        let at = (WINDOW, target as Rank, place);
        let posted = process.windows().accumulate(port, at, (Some(source.into()), None), what, wants);
        (posted.unwrap(), origin)
    }

    fn fetch(&mut self, origin: usize, target: usize, wants: bool) -> (Posted, usize) {
        let (one, result) = (self.alloc(8), self.alloc(8));
        one.scatter(0, Piece::Bytes(&1_u64.to_ne_bytes()));
        self.fetched[target].push(result);
        let place = Place { displacement: 0, layout: Layout::bytes(8), count: 1 };
        let (process, port) = &mut self.net.nodes[origin];
        let what = (Operation::Sum, Predefined::Uint64);
        let at = (WINDOW, target as Rank, place);
        let posted =
            process.windows().accumulate(port, at, (Some(one.into()), Some(result.into())), what, wants);
        (posted.unwrap(), origin)
    }

    /// Lets the processes go on for a while, or until nothing moves.
    fn go_on(&mut self) {
        for _ in 0..self.random.below(12) {
            let (node, packets) = (self.random.below(self.count() as u64), self.random.below(5));
            self.net.progress(node as usize, packets as u32);
        }
    }

    fn finish(&mut self, me: usize, posted: Posted) {
        if let Posted::Pending(id) = posted {
            self.net.settle();
            let taken = self.net.nodes[me].0.take(id);
            assert_eq!(taken, Ok(Some(Completion::EMPTY)), "nothing moves and it is not over");
        }
    }

    fn check(&mut self) {
        self.written.iter_mut().for_each(|targets| targets.fill(0));
        for (window, model) in self.windows.iter().zip(&self.model) {
            // The fetched values give the counter.
            assert!(window.to_vec().unwrap()[8..] == model[8..], "a window differs");
        }
        for (sink, expected) in self.expected.drain(..) {
            let mut got = vec![0; sink.len()];
            sink.pack(0, &mut got[..]);
            assert!(got == expected, "a read differs");
        }
        for fetched in &self.fetched {
            let number = |buffer: &Buffer| u64::from_ne_bytes(buffer.to_vec().unwrap().try_into().unwrap());
            let mut numbers: Vec<u64> = fetched.iter().map(number).collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..fetched.len() as u64), "fetches are not atomic");
        }
    }
}

#[test]
fn windows_hold_what_the_model_says_after_each_flush() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..4 {
            let mut requests = vec![];
            for _ in 0..world.random.below(25) {
                let origin = world.random.below(world.count() as u64) as usize;
                world.operation(origin, &mut requests);
                world.go_on();
            }
            for me in 0..world.count() {
                let (process, port) = &mut world.net.nodes[me];
                let posted = process.windows().flush(port, WINDOW, None, false).unwrap();
                world.finish(me, posted);
            }
            for (me, id) in requests {
                assert_eq!(world.net.nodes[me].0.take(id), Ok(Some(Completion::EMPTY)), "seed {seed}");
            }
            world.check();
        }
        world.net.settle();
        for (process, port) in &world.net.nodes {
            let counts = process.counts();
            assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0), "seed {seed}");
            assert_eq!(counts.operations, 0, "seed {seed}");
            assert_eq!(port.registered_count(), 0);
        }
    }
}

/// Active messages that come while a long one does wait behind it, the flush among them.
#[test]
fn a_flush_is_answered_after_all_before_it() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..4 {
            for _ in 0..world.random.below(12) {
                let (posted, _) = match world.random.below(3) {
                    0 => world.put(0, 1, false),
                    _ => world.sum(0, 1, false),
                };
                assert!(matches!(posted, Posted::Done(_)));
                world.go_on();
            }
            let (process, port) = &mut world.net.nodes[0];
            if let Posted::Pending(id) = process.windows().flush(port, WINDOW, Some(1), false).unwrap() {
                let mut steps = 0;
                while world.net.nodes[0].0.take(id).unwrap().is_none() {
                    world.go_on();
                    steps += 1;
                    assert!(steps < 100_000, "seed {seed}: the flush is never over");
                }
            }
            world.check();
        }
    }
}

/// Reads, adds, writes: lost updates show whether two have the lock at once.
#[test]
fn an_exclusive_lock_keeps_others_out() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        let count = world.count();
        let place = || Place { displacement: 0, layout: Layout::bytes(8), count: 1 };
        let value = |buffer: &Buffer| u64::from_ne_bytes(buffer.to_vec().unwrap().try_into().unwrap());
        #[derive(Clone, Copy)]
        enum Step {
            Lock,
            Read,
            Write,
            Done,
        }
        let mut steps = vec![(Step::Lock, None, Buffer::leaked(8), 0); count];
        let rounds = 3;
        let mut idle = 0;
        while steps.iter().any(|step| !matches!(step.0, Step::Done)) {
            idle += 1;
            assert!(idle < 100_000, "seed {seed}: nobody goes on");
            world.go_on();
            let me = world.random.below(count as u64) as usize;
            let (step, waits, memory, round) = &mut steps[me];
            let (process, port) = &mut world.net.nodes[me];
            if let Some(id) = *waits {
                match process.take(id).unwrap() {
                    Some(completion) => assert_eq!(completion.error, None),
                    None => continue,
                }
                *waits = None;
            }
            let posted = match step {
                Step::Lock => {
                    *step = Step::Read;
                    process.windows().lock(port, WINDOW, vec![0], true).unwrap()
                }
                Step::Read => {
                    *step = Step::Write;
                    process.windows().get(port, (WINDOW, 0, place()), *memory, true).unwrap()
                }
                Step::Write => {
                    let next = value(memory) + 1;
                    memory.scatter(0, Piece::Bytes(&next.to_ne_bytes()));
                    let posted = process.windows().put(port, (WINDOW, 0, place()), *memory, false);
                    assert!(matches!(posted, Ok(Posted::Done(_))));
                    *round += 1;
                    *step = if *round == rounds { Step::Done } else { Step::Lock };
                    process.windows().unlock(port, WINDOW, vec![0], true).unwrap()
                }
                Step::Done => continue,
            };
            *waits = if let Posted::Pending(id) = posted { Some(id) } else { None };
        }
        world.net.settle();
        assert_eq!(value(&world.windows[0].part(0, 8)), (count * rounds) as u64, "seed {seed}");
    }
}

#[test]
fn a_target_waits_for_the_ends_of_accesses() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        let origins: Vec<Rank> = (1..world.count() as u32).collect();
        for _ in 0..3 {
            let (process, port) = &mut world.net.nodes[0];
            process.windows().post(port, WINDOW, &origins).unwrap();
            let waits = process.windows().wait(WINDOW, origins.clone()).unwrap();
            let Posted::Pending(waits) = waits else { panic!("nobody has begun") };
            for &me in &origins {
                let started = world.net.nodes[me as usize].0.windows().start(WINDOW, vec![0]).unwrap();
                world.finish(me as usize, started);
                for _ in 0..world.random.below(4) {
                    let (posted, _) = world.put(me as usize, 0, false);
                    assert!(matches!(posted, Posted::Done(_)));
                    world.go_on();
                }
                assert_eq!(world.net.nodes[0].0.take(waits), Ok(None), "seed {seed}");
                let (process, port) = &mut world.net.nodes[me as usize];
                let posted = process.windows().complete(port, WINDOW, &[0]).unwrap();
                if let Posted::Pending(id) = posted {
                    process.free(id).unwrap();
                }
            }
            while world.net.nodes[0].0.take(waits).unwrap().is_none() {
                world.go_on();
            }
            world.check();
        }
    }
}

#[test]
fn an_operation_outside_of_the_window_is_an_error_at_the_origin() {
    let mut world = World::new(5);
    let bytes = world.windows[1].len() as i64;
    for (displacement, count) in
        [(bytes - 7, 8), (-1, 8), (bytes, 1), (bytes - 20_000, 30_000), (i64::MAX, 2)]
    {
        let place = || Place { displacement, layout: Layout::bytes(1), count };
        let before = world.windows[1].to_vec();
        let memory = Buffer::leaked(count);
        let (process, port) = &mut world.net.nodes[0];
        let put = process.windows().put(port, (WINDOW, 1, place()), memory, false);
        assert!(put.is_ok());
        let posted = process.windows().flush(port, WINDOW, Some(1), false).unwrap();
        let Posted::Pending(flush) = posted else { panic!("it asks the target") };
        let get = process.windows().get(port, (WINDOW, 1, place()), memory, true).unwrap();
        let Posted::Pending(get) = get else { panic!("it comes later") };
        world.net.settle();
        for id in [flush, get] {
            let completion = world.net.nodes[0].0.take(id).unwrap().unwrap();
            assert_eq!(completion.error, Some(Error::WindowRange));
        }
        assert_eq!(world.windows[1].to_vec(), before);
    }
    // What a request has told is not told again.
    let (process, port) = &mut world.net.nodes[0];
    let flush = process.windows().flush(port, WINDOW, Some(1), false).unwrap();
    world.net.settle();
    if let Posted::Pending(id) = flush {
        assert_eq!(world.net.nodes[0].0.take(id).unwrap(), Some(Completion::EMPTY));
    }
}

#[test]
fn elements_that_were_fetched_need_no_flush_at_the_target() {
    let mut world = World::new(5);
    let (fetched, _) = world.fetch(0, 1, false);
    assert_eq!(fetched, Posted::Done(Completion::EMPTY));
    world.net.settle();
    let (process, port) = &mut world.net.nodes[0];
    let flush = process.windows().flush(port, WINDOW, Some(1), false);
    assert_eq!(flush, Ok(Posted::Done(Completion::EMPTY)));
    // An operation without a result does.
    let place = Place { displacement: 0, layout: Layout::bytes(8), count: 1 };
    let what = (Operation::Sum, Predefined::Uint64);
    let one = Buffer::leaked(8);
    let summed =
        process.windows().accumulate(port, (WINDOW, 1, place), (Some(one.into()), None), what, false);
    assert_eq!(summed, Ok(Posted::Done(Completion::EMPTY)));
    let flush = process.windows().flush(port, WINDOW, Some(1), false);
    assert!(matches!(flush, Ok(Posted::Pending(_))));
    world.net.settle();
}

#[test]
fn a_target_that_is_gone_ends_what_waits_for_it() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        let dead = (world.count() - 1) as Rank;
        let (process, port) = &mut world.net.nodes[dead as usize];
        // It holds the lock of process 0 when it dies.
        let posted = process.windows().lock(port, WINDOW, vec![0], true).unwrap();
        world.finish(dead as usize, posted);
        let mut requests = vec![];
        for _ in 0..10 {
            world.operation(0, &mut requests);
        }
        let (process, port) = &mut world.net.nodes[0];
        let posted = [
            process.windows().lock(port, WINDOW, vec![0], false).unwrap(),
            process.windows().flush(port, WINDOW, Some(dead), false).unwrap(),
            process.windows().start(WINDOW, vec![dead]).unwrap(),
            process.windows().wait(WINDOW, vec![dead]).unwrap(),
            process.windows().lock(port, WINDOW, vec![dead], false).unwrap(),
        ];
        process.handle_peer_gone(port, ProcessId(dead));
        world.net.forget_transfers_of(ProcessId(dead));
        for _ in 0..2000 {
            for node in 0..dead as usize {
                world.net.progress(node, u32::MAX);
            }
        }
        for (at, posted) in posted.into_iter().enumerate() {
            let Posted::Pending(id) = posted else { continue };
            let completion = world.net.nodes[0].0.take(id).unwrap().expect("it is over");
            assert_eq!(completion.error.is_none(), at == 0 || (at == 1 && completion.error.is_none()));
        }
        for (me, id) in requests {
            assert!(world.net.nodes[me].0.take(id).unwrap().is_some(), "seed {seed}");
        }
    }
}

/// An active message of a peer that no correct peer sends.
fn send_raw<D: Device>(process: &mut Process, port: &mut D, bytes: &[u8]) {
    let buffer = Buffer::leaked(bytes.len());
    buffer.scatter(0, Piece::Bytes(bytes));
    let envelope = Envelope {
        context: ContextId::new(ProcessId(0), 9),
        source: process.me().0,
        tag: crate::rma::ACTIVE_TAG,
    };
    let sent = process.messages().send_message(
        port,
        ProcessId(0),
        envelope,
        buffer.into(),
        SendMode::Standard,
        false,
    );
    assert!(sent.is_ok());
}

#[test]
fn active_messages_of_any_bytes_do_no_harm() {
    for seed in 0..1500 {
        let mut world = World::new(seed % 7);
        let mut random = Random::new(seed);
        let place = Place { displacement: 16, layout: Layout::bytes(4).repeat(3, 9).unwrap(), count: 2 };
        let operand = crate::rma::Operand::of(&place, 0, 24);
        let messages = [
            crate::rma::ActiveMessage::Put(Follow::Nothing),
            crate::rma::ActiveMessage::Get(7),
            crate::rma::ActiveMessage::Accumulate(Operation::Sum, Predefined::Int32, Follow::Data(9)),
            crate::rma::ActiveMessage::CompareAndSwap(Predefined::Int32, 9),
        ];
        let head = messages[random.below(4) as usize].emit(Some(&operand)).unwrap();
        let mut bytes = [head.parts().0, head.parts().1].concat();
        bytes.extend((0..random.below(40)).map(|_| random.next_u64() as u8));
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let before = world.windows[1].to_vec();
        let (process, port) = &mut world.net.nodes[1];
        send_raw(process, port, &bytes);
        world.net.settle();
        assert_eq!(world.windows[1].to_vec(), before, "only process 0 was asked");
    }
}
