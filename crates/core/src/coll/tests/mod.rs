//! Every operation, algorithm, rank count and some counts and types against naive models, on a network that
//! delivers in any order; and every schedule's order checked without running it.

mod across;
mod blocks;
mod neighbor;
mod order;
mod reductions;
mod rooted;
mod rounds;
mod world;
mod wrong;

use super::select::{Question, serves};
use super::*;
use crate::buffer::{Buffer, Scratch};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;
use std::println;
use world::{Delivery, World};

/// Rank counts that all operations are tried with.
const SIZES: [u32; 18] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32];

/// A buffer with its memory.
struct Memory {
    _scratch: Scratch,
    buffer: Buffer,
}

impl Memory {
    fn new(content: &[u8]) -> Self {
        let mut scratch = Scratch::new(content.len());
        let buffer = scratch.buffer(content.len());
        let memory = Self { _scratch: scratch, buffer };
        memory.set(content);
        memory
    }

    fn set(&self, content: &[u8]) {
        self.buffer.scatter(0, crate::buffer::Piece::Bytes(content));
    }

    fn get(&self) -> Vec<u8> {
        self.buffer.piece().bytes().unwrap().to_vec()
    }
}

/// A case: each rank's buffers before, and its receive buffer afterwards.
struct Scenario {
    label: String,
    sends: Vec<Vec<u8>>,
    recvs: Vec<Vec<u8>>,
    expected: Vec<Vec<u8>>,
}

type Build<'a> = &'a dyn Fn(&mut Pool, Context, Buffer, Buffer) -> Result<Schedule, Error>;

impl Scenario {
    fn size(&self) -> u32 {
        self.sends.len() as u32
    }

    /// Makes the schedules, checks their order, runs them in several orders of delivery.
    fn exercise(&self, seed: u64, build: Build<'_>) {
        let size = self.size();
        let sends: Vec<_> = self.sends.iter().map(|bytes| Memory::new(bytes)).collect();
        let recvs: Vec<_> = self.recvs.iter().map(|bytes| Memory::new(bytes)).collect();
        let mut pool = Pool::default();
        // A recycled schedule must not remember anything.
        for round in 0..2 {
            let mut schedules: Vec<Schedule> = (0..size)
                .map(|rank| {
                    let (send, recv) = (sends[rank as usize].buffer, recvs[rank as usize].buffer);
                    build(&mut pool, Context { rank, size }, send, recv)
                        .unwrap_or_else(|error| panic!("{}: rank {rank}: {error}", self.label))
                })
                .collect();
            if round == 0 {
                for (rank, schedule) in schedules.iter().enumerate() {
                    if let Err(what) = order::check(schedule) {
                        panic!("{}: rank {rank}: {what}", self.label);
                    }
                }
            }
            // Twice the same schedules: a persistent collective.
            for run in 0..2 {
                let seed = seed ^ (round << 32 | run << 33);
                for (rank, (send, recv)) in sends.iter().zip(&recvs).enumerate() {
                    send.set(&self.sends[rank]);
                    recv.set(&self.recvs[rank]);
                }
                if let Err(what) = World::run(&mut schedules, Delivery::Random(seed)) {
                    panic!("{} (seed {seed:#x}): {what}", self.label);
                }
                self.compare(seed, &sends, &recvs);
            }
            for schedule in schedules {
                pool.recycle(schedule);
            }
        }
        self.exercise_virtually(build);
    }

    fn compare(&self, seed: u64, sends: &[Memory], recvs: &[Memory]) {
        for rank in 0..sends.len() {
            let label = &self.label;
            assert_eq!(recvs[rank].get(), self.expected[rank], "{label} (seed {seed:#x}): rank {rank}");
            assert_eq!(sends[rank].get(), self.sends[rank], "{label}: rank {rank}'s send buffer");
        }
    }

    /// The same lengths without memory.
    fn exercise_virtually(&self, build: Build<'_>) {
        let size = self.size();
        let mut schedules: Vec<Schedule> = (0..size)
            .map(|rank| {
                let (send, recv) = (&self.sends[rank as usize], &self.recvs[rank as usize]);
                let (send, recv) = (Buffer::virtual_of(send.len()), Buffer::virtual_of(recv.len()));
                build(&mut Pool::default(), Context { rank, size }, send, recv).unwrap()
            })
            .collect();
        assert!(schedules.iter().all(|schedule| schedule.scratch_bytes() == 0), "{}", self.label);
        if let Err(what) = World::run(&mut schedules, Delivery::Random(1)) {
            panic!("{} with virtual buffers: {what}", self.label);
        }
    }
}

/// The algorithms of an operation that serve this many ranks.
fn algorithms(collective: Collective, size: u32, commutative: bool) -> impl Iterator<Item = Choice> {
    let question = Question { collective, bytes: 0, size, commutative };
    collective
        .algorithms()
        .iter()
        .copied()
        .filter(move |&algorithm| serves(&question, algorithm))
        .map(|algorithm| Choice { algorithm, segment_bytes: 16 })
}
