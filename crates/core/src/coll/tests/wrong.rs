//! The checks themselves: wrong schedules are caught.

use super::*;
use crate::datatype::Predefined;
use crate::op::{Operation, Reducer};

fn world_of(schedules: &mut [Schedule]) -> Result<usize, String> {
    World::run(schedules, Delivery::Random(3))
}

#[test]
fn receive_without_a_sender_is_a_deadlock() {
    let memory = Memory::new(&[0; 8]);
    let mut schedules: Vec<_> = (0..2)
        .map(|rank| {
            let mut builder = Builder::new(&mut Pool::default(), false);
            builder.receive(1 - rank, memory.buffer.part(rank as usize * 4, 4));
            builder.fence();
            builder.send(1 - rank, memory.buffer.part(rank as usize * 4, 4));
            builder.finish()
        })
        .collect();
    assert!(world_of(&mut schedules).unwrap_err().contains("deadlock"));
}

#[test]
fn messages_of_another_length_or_left_over_are_found() {
    let memory = Memory::new(&[0; 8]);
    for (received, found) in [(Some(3), "bytes"), (None, "left over")] {
        let errors: Vec<_> = (0..8)
            .filter_map(|seed| {
                let mut sender = Builder::new(&mut Pool::default(), false);
                sender.send(1, memory.buffer.part(0, 4));
                let mut receiver = Builder::new(&mut Pool::default(), false);
                if let Some(bytes) = received {
                    receiver.receive(0, memory.buffer.part(4, bytes));
                }
                World::run(&mut [sender.finish(), receiver.finish()], Delivery::Random(seed)).err()
            })
            .collect();
        // The sender of an eager message does not notice; another rank must.
        assert_eq!(errors.len(), 8);
        assert!(errors.iter().any(|error| error.contains(found)), "{errors:?}");
    }
}

#[test]
fn steps_that_race_for_memory_are_found() {
    let memory = Memory::new(&[0; 8]);
    let mut builder = Builder::new(&mut Pool::default(), false);
    builder.send(1, memory.buffer.part(0, 5));
    builder.receive(1, memory.buffer.part(4, 4));
    assert!(order::check(&builder.finish()).unwrap_err().contains("same bytes"));

    let mut builder = Builder::new(&mut Pool::default(), false);
    builder.send(1, memory.buffer.part(0, 5));
    builder.fence();
    builder.receive(1, memory.buffer.part(4, 4));
    assert_eq!(order::check(&builder.finish()), Ok(()));

    let mut builder = Builder::new(&mut Pool::default(), false);
    let first = builder.send(1, memory.buffer.part(0, 5));
    let second = builder.receive(1, memory.buffer.part(4, 4));
    // Issued is not completed.
    builder.issue_after(second, first);
    assert!(order::check(&builder.finish()).is_err());
}

#[test]
fn messages_that_may_overtake_each_other_are_found() {
    let memory = Memory::new(&[0; 8]);
    let part = |at| memory.buffer.part(at, 1);
    let make = |ordered: bool| {
        let mut builder = Builder::new(&mut Pool::default(), false);
        let (a, b) = (builder.receive(1, part(0)), builder.receive(2, part(1)));
        let (c, d) = (builder.send(3, part(0)), builder.send(3, part(1)));
        builder.after(c, a);
        builder.after(d, b);
        if ordered {
            builder.issue_after(d, c);
        }
        order::check(&builder.finish())
    };
    assert!(make(false).unwrap_err().contains("change places"));
    assert_eq!(make(true), Ok(()));
}

#[test]
fn the_scenarios_notice_operands_in_the_wrong_order() {
    let caught = std::panic::catch_unwind(|| {
        let scenario = Scenario {
            label: "wrong on purpose".into(),
            sends: vec![vec![1], vec![2]],
            recvs: vec![vec![0]; 2],
            expected: vec![vec![3], vec![2]],
        };
        let sum = Reducer::predefined(Operation::Sum, Predefined::Uint8).unwrap();
        let choice = Choice { algorithm: Algorithm::RecursiveDoubling, segment_bytes: 1 };
        scenario.exercise(1, &|pool, context, send, recv| {
            allreduce(pool, context, Some(send), recv, &sum, choice)
        });
    });
    assert!(caught.is_err());
}

#[test]
fn failed_message_fails_the_schedule_and_stops_issuing() {
    struct Refusing(usize);
    impl Transport for Refusing {
        fn isend(&mut self, _: Rank, _: Buffer, _: StepId) -> Result<Posted, Error> {
            self.0 += 1;
            Ok(Posted::Pending)
        }
        fn irecv(&mut self, _: Rank, _: Buffer, _: StepId) -> Result<Posted, Error> {
            self.0 += 1;
            Ok(Posted::Pending)
        }
    }
    let choice = Choice { algorithm: Algorithm::Dissemination, segment_bytes: 1 };
    let mut schedule = barrier(&mut Pool::default(), Context { rank: 0, size: 8 }, choice).unwrap();
    let mut transport = Refusing(0);
    assert_eq!(schedule.start(&mut transport), Status::Running);
    assert_eq!(transport.0, 2);
    let error = Error::ProcessAborted(crate::ids::ProcessId(1));
    schedule.complete(StepId(0), Err(error));
    assert_eq!(schedule.advance(&mut transport), Status::Failed(error));
    schedule.complete(StepId(1), Ok(()));
    assert_eq!(schedule.advance(&mut transport), Status::Failed(error));
    assert_eq!(transport.0, 2);
}

fn sum() -> Reducer {
    Reducer::predefined(Operation::Sum, Predefined::Int).unwrap()
}

fn choice(algorithm: Algorithm) -> Choice {
    Choice { algorithm, segment_bytes: 1 }
}

#[test]
fn bad_arguments_are_errors_that_name_the_thing() {
    let (memory, sum, pool) = (Memory::new(&[0; 16]), sum(), &mut Pool::default());
    let (low, high) = (memory.buffer.part(0, 8), memory.buffer.part(8, 8));
    let context = Context { rank: 0, size: 2 };
    let doubling = choice(Algorithm::RecursiveDoubling);
    let overlap = memory.buffer.part(4, 8);
    assert_eq!(
        allreduce(pool, context, Some(overlap), low, &sum, doubling).unwrap_err(),
        Error::BuffersOverlap
    );
    let short = high.part(0, 4);
    assert_eq!(allreduce(pool, context, Some(short), low, &sum, doubling).unwrap_err(), OTHER_LENGTHS);
    let odd = high.part(0, 7);
    assert_eq!(allreduce(pool, context, None, odd, &sum, doubling).unwrap_err(), Error::Count);
    let chain = Choice { algorithm: Algorithm::Chain, segment_bytes: 0 };
    assert!(bcast(pool, context, low, 0, chain).is_ok(), "segments of a byte");
    let wrong = choice(Algorithm::Bruck);
    assert!(matches!(allreduce(pool, context, None, low, &sum, wrong), Err(Error::Argument(_))));
    let root = bcast(pool, context, low, 2, choice(Algorithm::Binomial)).unwrap_err();
    assert_eq!(root, Error::Root { root: 2, size: 2 });
    let linear = choice(Algorithm::Linear);
    assert!(matches!(gather(pool, context, Some(low), None, 0, linear), Err(Error::Argument(_))));
    assert!(matches!(gather(pool, context, None, None, 1, linear), Err(Error::Argument(_))));
    let counts = Counts::Each(&[8]);
    let halving = choice(Algorithm::RecursiveHalving);
    assert!(reduce_scatter(pool, context, Some(low), high, counts, &sum, halving).is_err());
    assert_eq!(exscan(pool, context, Some(short), low, &sum, doubling).unwrap_err(), OTHER_LENGTHS);
    let at = Across { rank: 0, size: 2, remote_size: 1, is_first: true };
    for counts in [&[8][..], &[4, 8], &[8, 8], &[8, usize::MAX - 4]] {
        let choose = &mut |_, _, _, _| halving;
        let made = crate::coll::across::reduce_scatter(pool, at, low, high, counts, &sum, choose);
        assert!(made.is_err(), "{counts:?}");
    }
    let longer = Counts::Each(&[4, 8]);
    let made = reduce_scatter(pool, context, Some(low), high, longer, &sum, halving);
    assert_eq!(made.unwrap_err(), OTHER_LENGTHS);
    let split = Counts::Each(&[2, 6]);
    assert_eq!(
        reduce_scatter(pool, context, Some(low), high, split, &sum, halving).unwrap_err(),
        Error::Count,
        "part of an element"
    );
    let huge = Counts::Uniform(usize::MAX & !3);
    assert_eq!(
        reduce_scatter(pool, context, Some(low), high, huge, &sum, halving).unwrap_err(),
        Error::Count
    );
}

#[test]
fn buffers_that_do_not_fit_each_other_are_refused() {
    let (memory, sum, pool) = (Memory::new(&[0; 16]), sum(), &mut Pool::default());
    let (low, high) = (memory.buffer.part(0, 8), memory.buffer.part(8, 8));
    let context = Context { rank: 0, size: 2 };
    let (linear, overlap) = (choice(Algorithm::Linear), memory.buffer.part(4, 8));
    // One block of two ranks is 4 bytes.
    let bruck = choice(Algorithm::Bruck);
    for send in [low.part(0, 3), low.part(0, 5), low] {
        let made = allgather(pool, context, Some(send), Blocks::Uniform(high), bruck);
        assert_eq!(made.unwrap_err(), OTHER_LENGTHS);
        let sends = [send, send];
        let made = alltoall(pool, context, Some(Blocks::Each(&sends)), Blocks::Uniform(high), linear);
        assert_eq!(made.unwrap_err(), OTHER_LENGTHS);
        let made = scatter(pool, context, Some(Blocks::Uniform(high)), Some(send), 0, linear);
        assert_eq!(made.unwrap_err(), OTHER_LENGTHS);
        let made = gather(pool, context, Some(send), Some(Blocks::Uniform(high)), 0, linear);
        assert_eq!(made.unwrap_err(), OTHER_LENGTHS);
    }
    let blocks = Some(Blocks::Uniform(high));
    for (send, recv, root) in [(None, Some(low), 0), (blocks, None, 1), (None, None, 1)] {
        let made = scatter(pool, context, send, recv, root, linear);
        assert!(matches!(made, Err(Error::Argument(_))), "root {root}");
    }
    assert!(scatter(pool, context, None, Some(low), 1, linear).is_ok());
    let own = Counts::Uniform(4);
    let halved = choice(Algorithm::RecursiveHalving);
    let made = reduce_scatter(pool, context, Some(low), overlap, own, &sum, halved);
    assert_eq!(made.unwrap_err(), Error::BuffersOverlap);
    assert!(reduce_scatter(pool, context, Some(low), high, own, &sum, halved).is_ok());
}

#[test]
fn roots_and_blocks_that_there_are_not_are_refused() {
    let (memory, sum, pool) = (Memory::new(&[0; 16]), sum(), &mut Pool::default());
    let (low, high) = (memory.buffer.part(0, 8), memory.buffer.part(8, 8));
    let context = Context { rank: 0, size: 2 };
    let (linear, binomial) = (choice(Algorithm::Linear), choice(Algorithm::Binomial));
    let root = Error::Root { root: 2, size: 2 };
    assert_eq!(gather(pool, context, Some(low), None, 2, linear).unwrap_err(), root);
    assert_eq!(scatter(pool, context, None, Some(low), 2, linear).unwrap_err(), root);
    assert_eq!(reduce(pool, context, Some(low), None, &sum, 2, binomial).unwrap_err(), root);
    // A block for one of the two ranks.
    let (one, two) = (Blocks::Each(&[high]), Blocks::Uniform(memory.buffer));
    assert_eq!(allgather(pool, context, Some(low), one, linear).unwrap_err(), OTHER_LENGTHS);
    assert_eq!(alltoall(pool, context, None, one, linear).unwrap_err(), OTHER_LENGTHS);
    assert_eq!(alltoall(pool, context, Some(one), two, linear).unwrap_err(), OTHER_LENGTHS);
    assert_eq!(gather(pool, context, Some(low), Some(one), 0, linear).unwrap_err(), OTHER_LENGTHS);
    assert_eq!(scatter(pool, context, Some(one), Some(low), 0, linear).unwrap_err(), OTHER_LENGTHS);
    let doubling = choice(Algorithm::RecursiveDoubling);
    assert_eq!(scan(pool, context, Some(low.part(0, 4)), high, &sum, doubling).unwrap_err(), OTHER_LENGTHS);
}
