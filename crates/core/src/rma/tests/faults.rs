//! Windows over rails that lose packets, are cut and come back: every operation happens exactly once.

use crate::buffer::{Buffer, Piece, Scratch};
use crate::comm::Communicator;
use crate::datatype::Predefined;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId};
use crate::layout::Layout;
use crate::op::Operation;
use crate::process::tests::wire::{Line, Mood, Wire};
use crate::request::Posted;
use crate::rma::{Memory, Place, WindowId};
use crate::time::{Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

const WINDOW: WindowId = WindowId(0);
/// Sums, then a part for what is put.
const SUMS: usize = 4000;
const PUT_BYTES: usize = 400_000;
const BYTES: usize = 8 * SUMS + PUT_BYTES;

fn place(displacement: usize, layout: Layout, count: usize) -> Place {
    Place { displacement: displacement as i64, layout, count }
}

struct World {
    wire: Wire,
    random: Random,
    own: Vec<Scratch>,
    windows: Vec<Buffer>,
    /// Expected content of each window.
    models: Vec<Vec<u8>>,
    put_at: [usize; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let lines: Vec<Line> = (0..1 + random.below(3))
            .map(|_| Line { damage_one_in: [0, 7, 30][random.below(3) as usize], ..Line::mbit(1000) })
            .collect();
        let mut wire = Wire::new(lines.clone(), random.next_u64());
        if lines.len() > 1 {
            // One rail goes and comes back.
            let cut = Instant::ZERO + Duration::from_us(200 + random.below(3000));
            let mood = [Mood::Cut, Mood::Silent][random.below(2) as usize];
            wire.script.push_back((cut, 0, Line { mood, ..lines[0] }));
            let back = cut + Duration::from_us(500 + random.below(400_000));
            wire.script.push_back((back, 0, lines[0]));
        }
        let mut own: Vec<Scratch> = (0..2).map(|_| Scratch::new(BYTES)).collect();
        let windows: Vec<Buffer> = own.iter_mut().map(|scratch| scratch.buffer(BYTES)).collect();
        for (me, window) in windows.iter().enumerate() {
            let process = &mut wire.nodes[me].0;
            let made = Communicator::new(ContextId::new(ProcessId(0), 9), Group::world(2), me as u32);
            let comm = process.add_comm(made);
            assert_eq!(process.windows().add(comm, Memory::Fixed(*window)), Ok(WINDOW));
        }
        Self { wire, random, own, windows, models: vec![vec![0; BYTES]; 2], put_at: [8 * SUMS; 2] }
    }

    fn noise(&mut self, len: usize) -> (Buffer, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|_| self.random.next_u64() as u8).collect();
        let mut scratch = Scratch::new(len);
        let buffer = scratch.buffer(len);
        buffer.scatter(0, Piece::Bytes(&bytes));
        self.own.push(scratch);
        (buffer, bytes)
    }

    fn sum(&mut self, me: usize) {
        let most = [10, SUMS as u64][self.random.below(2) as usize];
        let count = 1 + self.random.below(most) as usize;
        let at = 8 * self.random.below((SUMS - count + 1) as u64) as usize;
        let (source, data) = self.noise(8 * count);
        for (index, word) in data.as_chunks::<8>().0.iter().enumerate() {
            let sum = &mut self.models[1 - me][at + 8 * index..][..8];
            let old = u64::from_ne_bytes(sum.try_into().unwrap());
            sum.copy_from_slice(&old.wrapping_add(u64::from_ne_bytes(*word)).to_ne_bytes());
        }
        let (process, port) = &mut self.wire.nodes[me];
        let to = (WINDOW, 1 - me as u32, place(at, Layout::bytes(8), count));
        let what = (Operation::Sum, Predefined::Uint64);
        let posted = process.windows().accumulate(port, to, (Some(source.into()), None), what, false);
        assert!(matches!(posted, Ok(Posted::Done(_))));
    }

    fn put(&mut self, me: usize) {
        let most = [100, 60_000][self.random.below(2) as usize];
        let len = 1 + self.random.below(most) as usize;
        let at = self.put_at[me];
        if at + len > BYTES {
            return;
        }
        self.put_at[me] += len;
        let (source, data) = self.noise(len);
        self.models[1 - me][at..at + len].copy_from_slice(&data);
        let (process, port) = &mut self.wire.nodes[me];
        let to = (WINDOW, 1 - me as u32, place(at, Layout::bytes(1), len));
        assert!(matches!(process.windows().put(port, to, source, false), Ok(Posted::Done(_))));
    }

    fn finish(&mut self, me: usize, posted: Posted) {
        let Posted::Pending(id) = posted else { return };
        let limit = self.wire.now() + Duration::from_us(60_000_000);
        loop {
            if let Some(completion) = self.wire.take(me, id) {
                assert_eq!(completion.error, None);
                return;
            }
            assert!(self.wire.step(limit), "it is never over");
        }
    }
}

#[test]
fn operations_happen_once_over_rails_that_lose_packets() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..3 {
            for _ in 0..world.random.below(15) {
                let me = world.random.below(2) as usize;
                if world.random.one_in(2) {
                    world.sum(me);
                } else {
                    world.put(me);
                }
                let until = world.wire.now() + Duration::from_us(world.random.below(400));
                world.wire.run_until(until);
            }
            for me in 0..2 {
                let (process, port) = &mut world.wire.nodes[me];
                let posted = process.windows().flush(port, WINDOW, None, false).unwrap();
                world.finish(me, posted);
            }
            for me in 0..2 {
                assert!(world.windows[me].to_vec().unwrap() == world.models[me], "seed {seed}: window {me}");
            }
            let (result, _) = world.noise(BYTES);
            let (process, port) = &mut world.wire.nodes[0];
            let all = (WINDOW, 1, place(0, Layout::bytes(1), BYTES));
            let posted = process.windows().get(port, all, result, true).unwrap();
            world.finish(0, posted);
            assert!(result.to_vec().unwrap() == world.models[1], "seed {seed}: what was read");
        }
    }
}
