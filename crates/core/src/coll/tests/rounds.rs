//! Rounds where theory says how many, and what building costs.

use super::*;
use crate::datatype::Predefined;
use crate::ids::Rank;
use crate::op::{Operation, Reducer};

fn rounds(size: u32, make: impl Fn(&mut Pool, Context) -> Schedule) -> usize {
    let mut pool = Pool::default();
    let mut schedules: Vec<_> = (0..size).map(|rank: Rank| make(&mut pool, Context { rank, size })).collect();
    World::run(&mut schedules, Delivery::Rounds).unwrap()
}

fn log2_ceil(size: u32) -> usize {
    (1..).find(|&k| 1u64 << k >= u64::from(size)).filter(|_| size > 1).unwrap_or(0)
}

fn choice(algorithm: Algorithm) -> Choice {
    Choice { algorithm, segment_bytes: 1 << 10 }
}

fn sum() -> Reducer {
    Reducer::predefined(Operation::Sum, Predefined::Double).unwrap()
}

#[test]
fn trees_and_dissemination_take_the_logarithm_of_the_ranks() {
    for size in (2..70).chain([128, 1000]) {
        let log = log2_ceil(size);
        let blocks = Blocks::Uniform(Buffer::virtual_of(8 * size as usize));
        let buffer = Buffer::virtual_of(8);
        assert_eq!(rounds(size, |p, c| barrier(p, c, choice(Algorithm::Dissemination)).unwrap()), log);
        assert_eq!(
            rounds(size, |p, c| bcast(p, c, buffer, 0, choice(Algorithm::Binomial)).unwrap()),
            // All children of a node are sent to at once, so the rounds are the depth of the tree.
            depth(size)
        );
        assert_eq!(
            rounds(size, |p, c| { allgather(p, c, Some(buffer), blocks, choice(Algorithm::Bruck)).unwrap() }),
            log
        );
        assert_eq!(
            rounds(size, |p, c| { alltoall(p, c, Some(blocks), blocks, choice(Algorithm::Bruck)).unwrap() }),
            log
        );
        assert_eq!(
            rounds(size, |p, c| {
                scan(p, c, Some(buffer), buffer, &sum(), choice(Algorithm::RecursiveDoubling)).unwrap()
            }),
            log
        );
        assert!(
            rounds(size, |p, c| {
                reduce(p, c, Some(buffer), Some(buffer), &sum(), 0, choice(Algorithm::Binomial)).unwrap()
            }) <= log
        );
    }
}

/// The most bits set in a number below `size`.
fn depth(size: u32) -> usize {
    (0..size).map(|rank| rank.count_ones() as usize).max().unwrap()
}

#[test]
fn trees_up_and_down_take_twice_the_depth_at_most() {
    for size in 2..70 {
        let log = log2_ceil(size);
        let barrier = rounds(size, |p, c| barrier(p, c, choice(Algorithm::Binomial)).unwrap());
        assert_eq!(barrier, 2 * depth(size));
        let buffer = Buffer::virtual_of(8);
        let tree = choice(Algorithm::ReduceBroadcast);
        let sum = rounds(size, |p, c| allreduce(p, c, Some(buffer), buffer, &sum(), tree).unwrap());
        assert!(sum <= 2 * log, "{sum} rounds of {size}");
    }
}

#[test]
fn no_rank_leaves_a_barrier_before_all_have_entered() {
    for size in SIZES {
        for choice in algorithms(Collective::Barrier, size, true) {
            for last in 0..size {
                let mut schedules: Vec<_> = (0..size)
                    .map(|rank| barrier(&mut Pool::default(), Context { rank, size }, choice).unwrap())
                    .collect();
                let mut world = World::new(Delivery::Random(last.into()));
                for rank in (0..size).filter(|&rank| rank != last) {
                    world.start(&mut schedules, rank);
                }
                world.deliver(&mut schedules);
                for rank in (0..size).filter(|&rank| rank != last) {
                    assert_eq!(schedules[rank as usize].status(), Status::Running, "{choice:?} of {size}");
                }
                world.start(&mut schedules, last);
                world.deliver(&mut schedules);
                assert!(schedules.iter().all(|schedule| schedule.status() == Status::Done));
            }
        }
    }
}

#[test]
fn allreduce_takes_one_or_two_logarithms_and_two_more_to_fold() {
    for size in 2u32..70 {
        let log = size.ilog2() as usize;
        let fold = if size.is_power_of_two() { 0 } else { 2 };
        let long = Buffer::virtual_of(8 * 1024);
        let of = |algorithm| {
            rounds(size, |p, c| allreduce(p, c, Some(long), long, &sum(), choice(algorithm)).unwrap())
        };
        assert_eq!(of(Algorithm::RecursiveDoubling), log + fold);
        assert_eq!(of(Algorithm::Rabenseifner), 2 * log + fold);
        assert_eq!(of(Algorithm::Ring), 2 * (size as usize - 1));
    }
}

#[test]
fn a_chain_takes_a_round_for_each_hop_and_segment() {
    for (size, segments) in [(2, 1), (5, 1), (5, 16), (9, 40)] {
        let buffer = Buffer::virtual_of(segments << 10);
        let got = rounds(size, |p, c| bcast(p, c, buffer, 0, choice(Algorithm::Chain)).unwrap());
        assert_eq!(got, size as usize - 2 + segments);
    }
    // A segment has a byte at least.
    let bytes = Choice { algorithm: Algorithm::Chain, segment_bytes: 0 };
    let got = rounds(4, |p, c| bcast(p, c, Buffer::virtual_of(3), 0, bytes).unwrap());
    assert_eq!(got, 4 - 2 + 3);
}

#[test]
fn schedules_stay_small() {
    let mut pool = Pool::default();
    let blocks = Blocks::Uniform(Buffer::virtual_of(8 << 12));
    let buffer = Buffer::virtual_of(8);
    let context = Context { rank: 5, size: 1 << 12 };
    let log = 12;
    let short =
        allreduce(&mut pool, context, Some(buffer), buffer, &sum(), choice(Algorithm::RecursiveDoubling))
            .unwrap();
    // Send, receive, reduce.
    assert!(short.step_count() <= 3 * log + 1, "{}", short.step_count());
    let dense = alltoall(&mut pool, context, Some(blocks), blocks, choice(Algorithm::Linear)).unwrap();
    assert!(dense.step_count() <= 2 << 12);
    // Neighbouring blocks are copied together: 3 n copies in all, not n log n.
    let bruck = alltoall(&mut pool, context, Some(blocks), blocks, choice(Algorithm::Bruck)).unwrap();
    assert!(bruck.step_count() <= (3 << 12) + 6 * log, "{}", bruck.step_count());
}

#[test]
fn a_recycled_schedule_of_the_same_shape_allocates_nothing() {
    let memory = Memory::new(&[0; 16]);
    let (send, recv) = (memory.buffer.part(0, 8), memory.buffer.part(8, 8));
    let mut pool = Pool::default();
    let mut make = || {
        let context = Context { rank: 3, size: 8 };
        let doubling = choice(Algorithm::RecursiveDoubling);
        let mut schedule = allreduce(&mut pool, context, Some(send), recv, &sum(), doubling).unwrap();
        assert_eq!(schedule.start(&mut Immediate), Status::Done);
        let memory = (schedule.steps.as_ptr(), schedule.steps.capacity(), schedule.scratch_bytes());
        // Rounds need no edges.
        assert_eq!(schedule.edges.capacity(), 0);
        pool.recycle(schedule);
        memory
    };
    let first = make();
    assert_eq!((make(), make()), (first, first));
}

/// Not a test of speed but a look at it:
/// `cargo test --release -p ayatori-core building -- --ignored --nocapture`.
#[test]
#[ignore = "prints times; run it alone and in release"]
#[expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "prints what it timed")]
fn building_and_running_costs() {
    let (a, b) = (Memory::new(&[0; 8]), Memory::new(&[0; 8]));
    let sum = sum();
    for size in [2, 8, 32, 1024, 1 << 20] {
        let mut pool = Pool::default();
        let mut count = 0;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 200 {
            for _ in 0..1000 {
                let choice = choice(Algorithm::RecursiveDoubling);
                let context = Context { rank: 1, size };
                let mut schedule =
                    allreduce(&mut pool, context, Some(a.buffer), b.buffer, &sum, choice).unwrap();
                assert_eq!(schedule.start(&mut Immediate), Status::Done);
                pool.recycle(schedule);
                count += 1;
            }
        }
        let ns = start.elapsed().as_nanos() / count;
        println!("allreduce of 8 B, {size} ranks: {ns} ns to build and run without a network");
    }
}

/// Says that every message is there.
struct Immediate;

impl Transport for Immediate {
    fn isend(&mut self, _: Rank, _: Buffer, _: StepId) -> Result<Posted, Error> {
        Ok(Posted::Done)
    }
    fn irecv(&mut self, _: Rank, _: Buffer, _: StepId) -> Result<Posted, Error> {
        Ok(Posted::Done)
    }
}
