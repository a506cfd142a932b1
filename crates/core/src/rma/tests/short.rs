//! Cost of short operations, in packets.

use super::{WINDOW, World};
use crate::buffer::{Buffer, Piece, Scratch};
use crate::comm::Communicator;
use crate::data::Data;
use crate::datatype::Predefined;
use crate::device::RailCapabilities;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId};
use crate::layout::{Layout, Region};
use crate::op::Operation;
use crate::process::ProcessEvent;
use crate::process::tests::net::Net;
use crate::request::{Completion, Posted};
use crate::rma::children::Tail;
use crate::rma::window::Line;
use crate::rma::{
    ActiveMessage, CHUNK_BYTES, Follow, Memory, Operand, Place, RESULT_BYTES_MAX, ROW_BYTES_MAX, Wanted,
};
use alloc::vec::Vec;

/// Packets that process 0 has sent to process 1, and those that it has received.
fn packets(world: &mut World) -> (u64, u64) {
    let links = &world.net.nodes[0].0.messages().links;
    let index = links.index_of(ProcessId(1)).expect("they have talked");
    let (sent, received, _) = links.get(index).counts();
    (sent, received)
}

fn put(world: &mut World, displacement: i64) {
    let (process, port) = &mut world.net.nodes[0];
    let put = process.windows().put_row(port, (WINDOW, 1, displacement), Buffer::leaked(8));
    assert_eq!(put, Ok(()));
}

/// Flushes; the error, if that is the end.
fn flush(world: &mut World) -> Option<Error> {
    let (process, port) = &mut world.net.nodes[0];
    match process.windows().flush(port, WINDOW, Some(1), false) {
        Err(error) | Ok(Posted::Done(Completion { error: Some(error), .. })) => Some(error),
        Ok(Posted::Done(_)) => None,
        Ok(Posted::Pending(id)) => {
            world.net.settle();
            world.net.nodes[0].0.take(id).unwrap().expect("it is over").error
        }
    }
}

/// Packets each way of so many puts and a flush.
fn cost(world: &mut World, puts_count: u32) -> (u64, u64) {
    let before = packets(world);
    (0..puts_count).for_each(|_| put(world, 0));
    assert_eq!(flush(world), None);
    let after = packets(world);
    (after.0 - before.0, after.1 - before.1)
}

/// A world whose process 0 has flushed its first put to process 1.
fn begun() -> World {
    let mut world = World::new(5);
    put(&mut world, 0);
    assert_eq!(flush(&mut world), None);
    world
}

#[test]
fn an_operation_alone_asks_for_its_flush_itself() {
    let mut world = begun();
    assert_eq!(cost(&mut world, 1), (1, 1), "the second one expects to be alone");
    assert_eq!(cost(&mut world, 3), (4, 2), "it is not: the first asks in vain");
    assert_eq!(cost(&mut world, 3), (4, 1), "so now none asks");
    assert_eq!(cost(&mut world, 1), (2, 1));
    assert_eq!(cost(&mut world, 1), (1, 1));
}

#[test]
fn an_error_that_an_operation_asked_for_is_the_flushs() {
    let mut world = begun();
    put(&mut world, i64::MAX);
    world.net.settle();
    assert_eq!(flush(&mut world), Some(Error::WindowRange));
    assert_eq!(flush(&mut world), None, "told once");
}

#[test]
fn an_access_ends_after_the_answers_that_were_asked_for() {
    let mut world = begun();
    put(&mut world, 0);
    let (process, port) = &mut world.net.nodes[0];
    let Ok(Posted::Pending(id)) = process.windows().complete(port, WINDOW, &[1]) else {
        panic!("the answer cannot have come");
    };
    world.net.settle();
    assert_eq!(world.net.nodes[0].0.take(id), Ok(Some(Completion::EMPTY)));
}

#[test]
fn a_short_read_is_a_packet_each_way_and_no_request() {
    let mut world = begun();
    world.windows[1].scatter(16, crate::buffer::Piece::Bytes(b"12345678"));
    let before = packets(&mut world);
    let sink = Buffer::leaked(8);
    let (process, port) = &mut world.net.nodes[0];
    assert_eq!(process.windows().get_row(port, (WINDOW, 1, 16), sink), Ok(()));
    assert_eq!(flush(&mut world), None);
    assert_eq!(sink.to_vec().as_deref(), Some(&b"12345678"[..]));
    let after = packets(&mut world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
}

#[test]
fn a_short_read_outside_of_the_window_is_an_error_of_the_flush() {
    let mut world = begun();
    let (process, port) = &mut world.net.nodes[0];
    assert_eq!(process.windows().get_row(port, (WINDOW, 1, -8), Buffer::leaked(8)), Ok(()));
    assert_eq!(flush(&mut world), Some(Error::WindowRange));
}

/// Asks for a fetch that the target refuses, as an origin would that does not look at the operation first.
fn fetch_refused(world: &mut World, len: usize) -> Option<Error> {
    let (tag, sink) = (0x1001, Data::from(Buffer::leaked(len)));
    let (process, port) = &mut world.net.nodes[0];
    let mut windows = process.windows();
    let message = ActiveMessage::Accumulate(Operation::Land, Predefined::Float, Follow::Data(tag));
    let head = message.emit(Some(&Operand::row(0, len))).expect("it has no layout");
    let source = Data::from(Buffer::leaked(len));
    if len as u64 > RESULT_BYTES_MAX {
        assert_eq!(windows.receive_part((WINDOW, 1, tag), &sink, (0, len), None), Ok(()));
    } else {
        let number = tag.cast_unsigned();
        let wanted = Wanted { number, into: sink, offset: 0, len, operation: None };
        windows.rma.get_mut(WINDOW).expect("it is there").want(1, wanted);
    }
    let tail = Tail::Data(&source, 0, len);
    assert_eq!(windows.send_active(port, WINDOW, 1, &head, tail), Ok(()));
    flush(world)
}

#[test]
fn a_refused_result_says_why() {
    let mut world = begun();
    assert_eq!(fetch_refused(&mut world, 8), Some(Error::Op));
    assert_eq!(fetch_refused(&mut world, 4096), Some(Error::Op), "one that has a receive");
    assert_eq!(flush(&mut world), None, "told once");
}

#[test]
fn short_reads_of_a_process_that_is_lost_end() {
    let mut world = begun();
    let place = crate::rma::Place { displacement: 0, layout: crate::layout::Layout::bytes(8), count: 1 };
    let (process, port) = &mut world.net.nodes[0];
    let read = process.windows().get(port, (WINDOW, 1, place), Buffer::leaked(8), true);
    let Ok(Posted::Pending(read)) = read else { panic!("nothing has come yet") };
    assert_eq!(process.windows().get_row(port, (WINDOW, 1, 0), Buffer::leaked(8)), Ok(()));
    process.handle_peer_gone(port, ProcessId(1));
    let lost = Error::ProcessAborted(ProcessId(1));
    assert_eq!(process.take(read).map(|end| end.and_then(|end| end.error)), Ok(Some(lost)));
    assert_eq!(flush(&mut world), Some(lost));
}

#[test]
fn an_access_that_has_ended_leaves_nothing_to_flush() {
    let mut world = begun();
    put(&mut world, 0);
    put(&mut world, 0);
    let (process, port) = &mut world.net.nodes[0];
    let ended = process.windows().complete(port, WINDOW, &[1]).unwrap();
    world.net.settle();
    if let Posted::Pending(id) = ended {
        assert_eq!(world.net.nodes[0].0.take(id), Ok(Some(Completion::EMPTY)));
    }
    let before = packets(&mut world);
    assert_eq!(flush(&mut world), None);
    assert_eq!(packets(&mut world), before);
}

#[test]
fn a_read_of_nothing_is_over_at_once() {
    let mut world = begun();
    let before = packets(&mut world);
    let place = crate::rma::Place { displacement: 0, layout: crate::layout::Layout::bytes(8), count: 0 };
    let (process, port) = &mut world.net.nodes[0];
    let read = process.windows().get(port, (WINDOW, 1, place), Buffer::leaked(0), true);
    assert_eq!(read, Ok(Posted::Done(Completion::EMPTY)));
    assert_eq!(packets(&mut world), before);
}

#[test]
fn no_peer_is_awaited_while_no_result_is_pending() {
    let mut world = begun();
    let (process, port) = &mut world.net.nodes[0];
    assert!(!process.windows().rma.is_awaiting());
    assert_eq!(process.windows().get_row(port, (WINDOW, 1, 16), Buffer::leaked(8)), Ok(()));
    assert!(process.windows().rma.is_awaiting());
    assert_eq!(flush(&mut world), None);
    assert!(!world.net.nodes[0].0.windows().rma.is_awaiting());
}

#[test]
fn a_result_of_another_length_is_of_no_correct_peer() {
    let mut world = begun();
    let (number, into) = (0x1001, Data::from(Buffer::leaked(8)));
    let wanted = Wanted { number, into, offset: 0, len: 8, operation: None };
    world.net.nodes[0].0.windows().rma.get_mut(WINDOW).expect("it is there").want(1, wanted);
    let head = ActiveMessage::Result { number, refused: 0 }.emit(None).expect("it has no layout");
    let half = Data::from(Buffer::leaked(4));
    let (process, port) = &mut world.net.nodes[1];
    assert_eq!(process.windows().send_active(port, WINDOW, 0, &head, Tail::Data(&half, 0, 4)), Ok(()));
    world.net.settle();
    let event = world.net.nodes[0].0.poll_event();
    assert!(
        matches!(event, Some(ProcessEvent::PeerLost(ProcessId(1), Error::PeerMisbehaved { .. }))),
        "{event:?}"
    );
}

#[test]
fn contiguous_accumulate_needs_whole_elements_and_a_defined_op() {
    let mut world = begun();
    let long = (ROW_BYTES_MAX + 1).next_multiple_of(8);
    for (operation, datatype, len, fetched) in [
        (Operation::NoOp, Predefined::Uint64, 8, None),
        (Operation::Land, Predefined::Float, 4, None),
        (Operation::Sum, Predefined::Uint64, 12, None),
        (Operation::Sum, Predefined::Uint64, 8, Some(16)),
        (Operation::Sum, Predefined::Uint64, long, None),
    ] {
        let (process, port) = &mut world.net.nodes[0];
        let (place, ends) = ((WINDOW, 1, 0), (Buffer::leaked(len), fetched.map(Buffer::leaked)));
        let begun = process.windows().accumulate_row(port, place, ends, (operation, datatype));
        assert_eq!(begun, Err(Error::Op), "{operation:?} {datatype:?} {len}");
    }
}

/// Two processes that have talked, whose messages of windows are all announced, and their windows.
fn announcing() -> (Net, Vec<Buffer>) {
    let rail = RailCapabilities { eager_bytes_max: 16, ..RailCapabilities::default() };
    let mut net = Net::new(2, 1, rail);
    let windows: Vec<Buffer> = (0..2).map(|_| Buffer::leaked(24)).collect();
    for (me, window) in windows.iter().enumerate() {
        let process = &mut net.nodes[me].0;
        let group = Group::world(2);
        let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
        assert_eq!(process.windows().add(comm, Memory::Fixed(*window)), Ok(WINDOW));
    }
    let (process, port) = &mut net.nodes[0];
    let lock = process.windows().lock(port, WINDOW, [1].into(), false);
    assert!(matches!(lock, Ok(Posted::Pending(_))), "{lock:?}");
    net.settle();
    (net, windows)
}

/// Process 0 accumulates so many numbers at a place; the rounds until its flush is over, in each of which
/// each does all that it can do without the other.
fn rounds_of(net: &mut Net, layout: &Layout, numbers: impl Iterator<Item = u64>) -> u64 {
    let (process, port) = &mut net.nodes[0];
    let mut count = 0;
    for number in numbers {
        let place = Place { displacement: 0, layout: layout.clone(), count: 1 };
        let value = Buffer::leaked(8);
        value.scatter(0, Piece::Bytes(&number.to_ne_bytes()));
        let what = (Operation::Replace, Predefined::Int32);
        let posted =
            process.windows().accumulate(port, (WINDOW, 1, place), (Some(value.into()), None), what, false);
        assert_eq!(posted, Ok(Posted::Done(Completion::EMPTY)));
        count += 1;
    }
    let Ok(Posted::Pending(flush)) = process.windows().flush(port, WINDOW, Some(1), false) else {
        panic!("nothing has come");
    };
    let mut rounds = 0;
    while net.nodes[0].0.take(flush).unwrap().is_none() {
        (0..2).for_each(|node| while net.progress(node, u32::MAX) {});
        rounds += 1;
        assert!(rounds <= 2 * count, "the flush is never over");
    }
    rounds
}

/// An origin without credit gathers short operations. What cannot be gathered is announced each by itself,
/// and its data take a way there and back, but not one after the other.
#[test]
fn operations_without_credit_go_together() {
    const OPERATIONS: u64 = 400;
    let row = Layout::bytes(8);
    let apart = Layout::bytes(4).repeat(2, 8).expect("it is short");
    for (layout, rounds_max) in [(row, 6), (apart, OPERATIONS / 8)] {
        let (mut net, windows) = announcing();
        let rounds = rounds_of(&mut net, &layout, 1..=OPERATIONS);
        assert!(rounds < rounds_max, "{rounds} rounds for {OPERATIONS} operations");
        let found = windows[1].to_vec().unwrap();
        assert_eq!(found[..4], OPERATIONS.to_ne_bytes()[..4], "in the order sent");
        assert_eq!(net.nodes[0].0.windows().rma.get(WINDOW).unwrap().gathering_count, 0);
    }
}

/// More than one message of them, and operations of other kinds between.
#[test]
fn gathered_operations_keep_their_order() {
    let (mut net, windows) = announcing();
    let sum = (Operation::Sum, Predefined::Uint64);
    let one = || {
        let one = Buffer::leaked(8);
        one.scatter(0, Piece::Bytes(&1_u64.to_ne_bytes()));
        one
    };
    let (process, port) = &mut net.nodes[0];
    let mut fetched = Vec::new();
    for number in 0..3_000 {
        let is_fetch = number % 1_000 == 999;
        let old = is_fetch.then(|| Buffer::leaked(8));
        fetched.extend(old);
        let done = process.windows().accumulate_row(port, (WINDOW, 1, 8), (one(), old), sum);
        assert_eq!(done, Ok(()));
        let most = super::super::GATHERED_BYTES_MAX;
        let window = process.windows().rma.get(WINDOW).unwrap();
        assert_eq!(window.gathering_count, u32::from(!is_fetch), "{number}");
        assert_eq!(window.has_room_to_gather(1, most), (!is_fetch).then_some(false));
    }
    let Ok(Posted::Pending(flush)) = process.windows().flush(port, WINDOW, Some(1), false) else {
        panic!("nothing has come");
    };
    net.settle();
    assert_eq!(net.nodes[0].0.take(flush).unwrap().expect("it is over").error, None);
    let number = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().unwrap());
    let olds: Vec<u64> = fetched.iter().map(|old| number(old.to_vec().unwrap())).collect();
    assert_eq!(olds, [999, 1_999, 2_999]);
    assert_eq!(number(windows[1].to_vec().unwrap()[8..16].to_vec()), 3_000);
}

#[test]
fn what_is_gathered_for_a_lost_process_fails_the_flush() {
    let (mut net, _) = announcing();
    let (process, port) = &mut net.nodes[0];
    assert_eq!(process.windows().put_row(port, (WINDOW, 1, 0), Buffer::leaked(8)), Ok(()));
    assert_eq!(process.windows().rma.get(WINDOW).unwrap().gathering_count, 1);
    process.handle_peer_gone(port, ProcessId(1));
    assert_eq!(process.windows().rma.get(WINDOW).unwrap().gathering_count, 0);
    let flush = process.windows().flush(port, WINDOW, Some(1), false);
    assert_eq!(flush, Err(Error::ProcessAborted(ProcessId(1))));
    assert!(process.windows().put_row(port, (WINDOW, 1, 0), Buffer::leaked(8)).is_err());
}

#[test]
fn a_row_may_have_exactly_as_many_bytes_as_a_row_has() {
    let mut world = begun();
    let (process, port) = &mut world.net.nodes[0];
    let ends = (Buffer::leaked(ROW_BYTES_MAX), None);
    let what = (Operation::Replace, Predefined::Byte);
    assert_eq!(process.windows().accumulate_row(port, (WINDOW, 1, 0), ends, what), Ok(()));
    assert_eq!(flush(&mut world), None);
}

#[test]
fn messages_that_wait_for_their_turn_are_bounded() {
    let mut line = Line::default();
    assert!(line.has_room(1 << 30), "the first may be of any length");
    line.push(Some(Scratch::new(100)), 100);
    let most = (64 << 10) - 100;
    assert!(line.has_room(most) && !line.has_room(most + 1));
    for _ in 1..64 {
        assert!(line.has_room(1));
        line.push(None, 1);
    }
    assert!(!line.has_room(1), "there are 64");
    assert_eq!(line.pop().map(|(_, len)| len), Some(100));
    let most = (64 << 10) - 63;
    assert!(line.has_room(most) && !line.has_room(most + 1));
}

#[test]
fn a_long_result_with_gaps_comes_in_several_parts() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let count = 2 * CHUNK_BYTES / 8 - 5;
    let window = Buffer::leaked(8 * count);
    let numbers: Vec<u8> = (0..count as u64).flat_map(u64::to_ne_bytes).collect();
    window.scatter(0, Piece::Bytes(&numbers));
    for me in 0..2 {
        let process = &mut net.nodes[me].0;
        let group = Group::world(2);
        let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
        assert_eq!(process.windows().add(comm, Memory::Fixed(window)), Ok(WINDOW));
    }
    let gaps = Layout::bytes(8).resized(0, 9).unwrap();
    let into = Buffer::leaked(gaps.span(count).unwrap().len);
    let region = Region::new(gaps, count, into).unwrap();
    let (process, port) = &mut net.nodes[0];
    let place = Place { displacement: 0, layout: Layout::bytes(8), count };
    let ends = (Some(Buffer::leaked(8 * count).into()), Some(region.into()));
    let what = (Operation::Sum, Predefined::Uint64);
    let begun = process.windows().accumulate(port, (WINDOW, 1, place), ends, what, false);
    assert!(matches!(begun, Ok(Posted::Done(_))), "{begun:?}");
    let Ok(Posted::Pending(flush)) = process.windows().flush(port, WINDOW, Some(1), false) else {
        panic!("nothing has come");
    };
    net.settle();
    assert_eq!(net.nodes[0].0.take(flush).unwrap().expect("it is over").error, None);
    let found: Vec<u8> = into.to_vec().unwrap().chunks(9).flat_map(|entry| entry[..8].to_vec()).collect();
    assert!(found == numbers);
}

#[test]
fn an_error_of_a_request_is_not_the_flushs_too() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    for me in 0..2 {
        let process = &mut net.nodes[me].0;
        let group = Group::world(2);
        let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
        assert_eq!(process.windows().add(comm, Memory::Dynamic(Vec::new())), Ok(WINDOW));
    }
    let (process, port) = &mut net.nodes[0];
    let place = Place { displacement: 0, layout: Layout::bytes(4_000), count: 1 };
    let Ok(Posted::Pending(got)) =
        process.windows().get(port, (WINDOW, 1, place), Buffer::leaked(4_000), true)
    else {
        panic!("nothing has come");
    };
    net.settle();
    let error = net.nodes[0].0.take(got).unwrap().expect("it is over").error;
    assert_eq!(error, Some(Error::WindowRange));
    let (process, port) = &mut net.nodes[0];
    match process.windows().flush(port, WINDOW, Some(1), false) {
        Ok(Posted::Done(completion)) => assert_eq!(completion.error, None),
        Ok(Posted::Pending(flush)) => {
            net.settle();
            assert_eq!(net.nodes[0].0.take(flush).unwrap().expect("it is over").error, None);
        }
        error => panic!("{error:?}"),
    }
}
