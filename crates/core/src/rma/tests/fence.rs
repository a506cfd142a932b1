//! Fences of windows with two members.

use super::{WINDOW, World};
use crate::buffer::{Buffer, Piece};
use crate::comm::Communicator;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId};
use crate::layout::Layout;
use crate::process::tests::net::Net;
use crate::request::{Completion, Posted};
use crate::rma::{FENCE_MEMBERS_MAX, Memory, Place, WindowId};
use alloc::vec;
use alloc::vec::Vec;

/// The first worlds of two.
fn worlds(seeds: core::ops::Range<u64>) -> impl Iterator<Item = World> {
    seeds.map(World::new).filter(|world| world.count() == 2)
}

fn world() -> World {
    worlds(0..50).next().expect("some of them have two processes")
}

fn begin(net: &mut Net, me: usize) -> Posted {
    let (process, port) = &mut net.nodes[me];
    let number = process.windows().begin_fence(port, WINDOW).expect("it has two members");
    process.windows().fence(WINDOW, number).expect("nobody is lost")
}

/// How a fence ends, if it does.
fn end_of(net: &mut Net, me: usize, posted: Posted) -> Option<Completion> {
    match posted {
        Posted::Pending(id) => net.nodes[me].0.take(id).expect("it exists"),
        Posted::Done(completion) => Some(completion),
    }
}

/// A fence of both: their errors.
fn fence(net: &mut Net) -> [Option<Error>; 2] {
    let begun = [0, 1].map(|me| begin(net, me));
    net.settle();
    [0, 1].map(|me| end_of(net, me, begun[me]).expect("it is over").error)
}

fn put(net: &mut Net, me: usize, displacement: i64, bytes: &[u8]) {
    let source = Buffer::leaked(bytes.len());
    source.scatter(0, Piece::Bytes(bytes));
    let (process, port) = &mut net.nodes[me];
    let to = (WINDOW, 1 - me as u32, displacement);
    assert_eq!(process.windows().put_row(port, to, source), Ok(()));
}

#[test]
fn windows_hold_what_the_model_says_after_each_fence() {
    for mut world in worlds(0..400) {
        for _ in 0..6 {
            let mut requests = vec![];
            for _ in 0..world.random.below(12) {
                let origin = world.random.below(2) as usize;
                world.operation(origin, &mut requests);
                world.go_on();
            }
            assert_eq!(fence(&mut world.net), [None; 2]);
            for (me, id) in requests {
                assert_eq!(world.net.nodes[me].0.take(id), Ok(Some(Completion::EMPTY)));
            }
            world.check();
        }
        for (process, port) in &world.net.nodes {
            let counts = process.counts();
            assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0));
            assert_eq!(port.registered_count(), 0);
        }
    }
}

/// A process past a fence finds its puts, also in memory that it reads without a message if the window is
/// settled.
#[test]
fn a_fence_is_over_when_its_operations_are() {
    let (mut settled_count, mut unsettled_count) = (0, 0);
    for mut world in worlds(0..400) {
        for _ in 0..8 {
            let mut requests = vec![];
            for _ in 0..world.random.below(4) {
                world.operation(0, &mut requests);
                world.go_on();
            }
            let begun = [0, 1].map(|me| begin(&mut world.net, me));
            let mut is_over = [false; 2];
            while is_over != [true; 2] {
                world.go_on();
                for me in [0, 1] {
                    let ends = !is_over[me] && end_of(&mut world.net, me, begun[me]).is_some();
                    is_over[me] |= ends;
                    let is_settled = world.net.nodes[0].0.windows().is_settled(WINDOW);
                    if ends && (me == 1 || is_settled) {
                        assert!(world.windows[1].to_vec().unwrap()[8..] == world.model[1][8..], "{me}");
                    }
                    settled_count += u32::from(ends && me == 0 && is_settled);
                    unsettled_count += u32::from(ends && me == 0 && !is_settled);
                }
            }
            for (me, id) in requests {
                assert!(world.net.nodes[me].0.take(id).unwrap().is_some());
            }
            world.check();
        }
    }
    assert!(settled_count > 100 && unsettled_count > 100, "{settled_count}, {unsettled_count}");
}

#[test]
fn a_short_put_and_its_fence_are_two_packets_and_one_back() {
    let mut world = world();
    fence(&mut world.net);
    let counts = |world: &mut World| {
        let links = &world.net.nodes[0].0.messages().links;
        let (sent, received, _) = links.get(links.index_of(ProcessId(1)).unwrap()).counts();
        (sent, received)
    };
    let before = counts(&mut world);
    put(&mut world.net, 0, 0, b"12345678");
    assert_eq!(fence(&mut world.net), [None; 2]);
    let after = counts(&mut world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 1));
}

#[test]
fn a_fence_waits_for_the_other_members() {
    let mut world = world();
    for _ in 0..3 {
        let first = begin(&mut world.net, 0);
        world.net.settle();
        assert!(end_of(&mut world.net, 0, first).is_none(), "the other one has not come");
        let second = begin(&mut world.net, 1);
        world.net.settle();
        assert_eq!(end_of(&mut world.net, 0, first), Some(Completion::EMPTY));
        assert_eq!(end_of(&mut world.net, 1, second), Some(Completion::EMPTY));
    }
}

#[test]
fn an_answered_flush_or_the_next_fence_settles() {
    let mut world = world();
    let is_settled = |world: &mut World| world.net.nodes[0].0.windows().is_settled(WINDOW);
    let flush = |world: &mut World| {
        let (process, port) = &mut world.net.nodes[0];
        let flushed = process.windows().flush(port, WINDOW, Some(1), false).unwrap();
        world.finish(0, flushed);
    };
    // So the next put asks for its flush itself.
    put(&mut world.net, 0, 0, b"1");
    flush(&mut world);
    put(&mut world.net, 0, 0, b"2");
    put(&mut world.net, 0, 0, b"3");
    assert_eq!(fence(&mut world.net), [None; 2]);
    assert!(!is_settled(&mut world), "the flush that was answered was asked for before the last put");
    assert_eq!(fence(&mut world.net), [None; 2]);
    assert!(is_settled(&mut world), "nothing was done");
    put(&mut world.net, 0, 0, b"4");
    assert_eq!(fence(&mut world.net), [None; 2]);
    assert!(!is_settled(&mut world));
    put(&mut world.net, 0, 0, b"5");
    flush(&mut world);
    assert!(is_settled(&mut world));
}

#[test]
fn a_refused_operation_is_told_by_the_next_fence() {
    let mut world = world();
    put(&mut world.net, 0, i64::MAX, b"1");
    // Origins look at places in such windows before they ask.
    assert_eq!(fence(&mut world.net), [None; 2]);
    assert_eq!(fence(&mut world.net), [Some(Error::WindowRange), None]);
    assert_eq!(fence(&mut world.net), [None; 2], "told once");
}

fn two(memory: impl Fn() -> Memory) -> Net {
    let mut net = Net::of_short_packets(2, 0);
    for me in 0..2 {
        let process = &mut net.nodes[me].0;
        let group = Group::world(2);
        let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
        assert_eq!(process.windows().add(comm, memory()), Ok(WINDOW));
    }
    net
}

#[test]
fn a_refusal_in_attached_memory_is_told_by_the_fence_itself() {
    let mut net = two(|| Memory::Dynamic(Vec::new()));
    put(&mut net, 1, 64, b"nothing is attached");
    assert_eq!(fence(&mut net), [None, Some(Error::WindowRange)]);
    assert_eq!(fence(&mut net), [None; 2], "told once");
}

#[test]
fn a_long_put_is_there_after_the_fence_at_its_origin() {
    let memory: Vec<Buffer> = (0..2).map(|_| Buffer::leaked(100_000)).collect();
    let taken = core::cell::Cell::new(0);
    let mut net = two(|| Memory::Fixed(memory[taken.replace(taken.get() + 1)]));
    for round in 1..5 {
        let source = Buffer::leaked(100_000);
        source.scatter(0, Piece::Bytes(&vec![round; 100_000]));
        let place = Place { displacement: 0, layout: Layout::bytes(1), count: 100_000 };
        let (process, port) = &mut net.nodes[0];
        assert!(process.windows().put(port, (WINDOW, 1, place), source, false).is_ok());
        let begun = [0, 1].map(|me| begin(&mut net, me));
        while end_of(&mut net, 0, begun[0]).is_none() {
            for me in 0..2 {
                net.progress(me, 1);
            }
        }
        assert!(net.nodes[0].0.windows().is_settled(WINDOW));
        assert!(memory[1].to_vec().unwrap().iter().all(|byte| *byte == round));
        net.settle();
        assert_eq!(end_of(&mut net, 1, begun[1]), Some(Completion::EMPTY));
    }
}

#[test]
fn a_fence_with_a_process_that_is_lost_fails() {
    let lost = Error::ProcessAborted(ProcessId(1));
    for is_known in [false, true] {
        let mut world = world();
        put(&mut world.net, 0, 0, b"1");
        let gone = |world: &mut World| {
            let (process, port) = &mut world.net.nodes[0];
            process.handle_peer_gone(port, ProcessId(1));
        };
        if is_known {
            gone(&mut world);
        }
        let (process, port) = &mut world.net.nodes[0];
        let number = process.windows().begin_fence(port, WINDOW).expect("it has two members");
        let begun = process.windows().fence(WINDOW, number);
        if is_known {
            assert_eq!(begun, Err(lost));
            continue;
        }
        gone(&mut world);
        let end = end_of(&mut world.net, 0, begun.expect("nobody is lost"));
        assert_eq!(end.and_then(|end| end.error), Some(lost));
        assert_eq!(world.net.nodes[0].0.counts().requests, 0);
    }
}

#[test]
fn fences_of_more_members_are_refused() {
    let mut world = (0..50).map(World::new).find(|world| world.count() == 3).expect("some have three");
    assert_eq!(FENCE_MEMBERS_MAX, 2);
    let (process, port) = &mut world.net.nodes[0];
    assert!(matches!(process.windows().begin_fence(port, WINDOW), Err(Error::Argument(_))));
    assert_eq!(process.windows().begin_fence(port, WindowId(7)), Err(Error::Window));
}

#[test]
fn rank_waiting_at_a_fence_names_the_awaited_ranks() {
    let mut world = world();
    let Posted::Pending(id) = begin(&mut world.net, 0) else { panic!("the other one has not come") };
    let need = world.net.nodes[0].0.windows().rma.need_of(id, |process| process);
    assert_eq!(need, "MPI_Win_fence of ranks 1");
}
