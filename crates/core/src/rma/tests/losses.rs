//! Windows whose members are lost: what fault runs have found.

use crate::buffer::Buffer;
use crate::comm::Communicator;
use crate::datatype::Predefined;
use crate::device::Device;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank, RequestId};
use crate::layout::Layout;
use crate::op::Operation;
use crate::process::tests::net::{Net, memory};
use crate::request::{Completion, Posted};
use crate::rma::{Memory, Place, WindowId};
use alloc::vec;

const WINDOW: WindowId = WindowId(0);
const BYTES: usize = 4_000;

fn windows(count: usize) -> Net {
    let mut net = Net::of_short_packets(count, 0);
    for me in 0..count {
        let process = &mut net.nodes[me].0;
        let (context, group) = (ContextId::new(ProcessId(0), 9), Group::world(count as u32));
        let comm = process.add_comm(Communicator::new(context, group, me as u32));
        let (window, _) = memory(vec![0; BYTES]);
        assert_eq!(process.windows().add(comm, Memory::Fixed(window)), Ok(WINDOW));
    }
    net
}

#[test]
fn no_rank_waits_for_the_owner_of_memory_that_all_map() {
    let mut net = Net::of_short_packets(1, 0);
    let process = &mut net.nodes[0].0;
    let mut add = |number, make: fn(Buffer) -> Memory| {
        let context = ContextId::new(ProcessId(0), number);
        let comm = process.add_comm(Communicator::new(context, Group::world(1), 0));
        let window = process.windows().add(comm, make(memory(vec![0; BYTES]).0)).unwrap();
        (window, [process.serves_windows(), process.is_busy()])
    };
    assert_eq!(add(9, Memory::Mapped).1, [false, false]);
    let (served, serves) = add(10, Memory::Fixed);
    assert_eq!((serves, add(11, Memory::Mapped).1), ([true, true], [true, true]));
    process.windows().remove(served).unwrap();
    assert!(!process.serves_windows() && !process.is_busy());
}

fn lock(net: &mut Net, me: usize, ranks: &[Rank]) -> Option<RequestId> {
    let (process, port) = &mut net.nodes[me];
    match process.windows().lock(port, WINDOW, ranks.into(), true) {
        Ok(Posted::Pending(id)) => Some(id),
        Ok(Posted::Done(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn end_of(net: &mut Net, me: usize, id: Option<RequestId>) -> Completion {
    net.settle();
    id.map_or(Completion::EMPTY, |id| net.nodes[me].0.take(id).unwrap().expect("it is over"))
}

fn place(count: usize) -> Place {
    Place { displacement: 0, layout: Layout::bytes(8), count }
}

#[test]
fn a_request_for_locks_that_fails_leaves_none_held() {
    let mut net = windows(4);
    let held = lock(&mut net, 1, &[2]);
    assert_eq!(end_of(&mut net, 1, held).error, None);
    // The locks of 0 and 3 are granted; that of 2 will not be.
    let several = lock(&mut net, 0, &[0, 3, 2]);
    net.settle();
    for me in [0, 1, 3] {
        let (process, port) = &mut net.nodes[me];
        process.handle_peer_gone(port, ProcessId(2));
    }
    assert_eq!(end_of(&mut net, 0, several).error, Some(Error::ProcessAborted(ProcessId(2))));
    for target in [0, 3] {
        let other = lock(&mut net, 1, &[target]);
        assert_eq!(end_of(&mut net, 1, other).error, None, "the lock of {target}");
        // Asked for again, while another has it.
        let again = lock(&mut net, 0, &[target]);
        net.settle();
        assert!(again.is_some_and(|id| !net.nodes[0].0.is_complete(id)));
        let (process, port) = &mut net.nodes[1];
        assert!(process.windows().unlock(port, WINDOW, vec![target], true).is_ok());
        assert_eq!(end_of(&mut net, 0, again).error, None);
        let (process, port) = &mut net.nodes[0];
        assert!(process.windows().unlock(port, WINDOW, vec![target], true).is_ok());
        net.settle();
    }
}

#[test]
fn an_accumulate_that_is_not_defined_is_refused_at_its_origin() {
    let mut net = windows(2);
    let (source, _) = memory(vec![1; 8]);
    let (process, port) = &mut net.nodes[0];
    let what = (Operation::Sum, Predefined::Byte);
    for target in [0, 1] {
        let to = (WINDOW, target, place(1));
        let posted = process.windows().accumulate(port, to, (Some(source.into()), None), what, true);
        assert_eq!(posted, Err(Error::Op));
        let (to, sum) = ((WINDOW, target, place(2)), (Operation::Sum, Predefined::Uint64));
        let posted = process.windows().accumulate(port, to, (Some(source.into()), None), sum, true);
        assert!(matches!(posted, Err(Error::Argument(what)) if what.contains("length")), "{posted:?}");
    }
    assert_eq!(process.packet_counts(), [0; 3]);
}

#[test]
fn a_read_of_a_lost_window_leaves_no_request() {
    let mut net = windows(2);
    let (process, port) = &mut net.nodes[0];
    process.handle_peer_gone(port, ProcessId(1));
    let before = process.counts().requests;
    let (result, _) = memory(vec![0; 8]);
    let got = process.windows().get(port, (WINDOW, 1, place(1)), result, true);
    assert_eq!(got, Err(Error::ProcessAborted(ProcessId(1))));
    assert_eq!(process.counts().requests, before);
}

#[test]
fn operations_of_a_lost_origin_are_not_kept() {
    let mut net = windows(2);
    let what = (Operation::Sum, Predefined::Uint64);
    // A long one, and one that waits behind it.
    for count in [100, 1] {
        let (source, _) = memory(vec![1; 8 * count]);
        let (process, port) = &mut net.nodes[1];
        let to = (WINDOW, 0, place(count));
        let posted = process.windows().accumulate(port, to, (Some(source.into()), None), what, false);
        assert!(matches!(posted, Ok(Posted::Done(_))));
    }
    net.progress(0, 2);
    assert_eq!(net.nodes[0].0.counts().unexpected, 1);
    let (process, port) = &mut net.nodes[0];
    process.handle_peer_gone(port, ProcessId(1));
    assert_eq!(process.counts().unexpected, 0);
}

/// It would do so though all else of that process has ended.
#[test]
fn a_long_message_of_a_process_lost_meanwhile_does_nothing() {
    let mut net = windows(2);
    let (process, port) = &mut net.nodes[1];
    let source = memory(vec![7; 1_000]).0;
    let to = (WINDOW, 0, Place { displacement: 0, layout: Layout::bytes(1_000), count: 1 });
    assert!(process.windows().put(port, to, source, true).is_ok());
    for at in [1, 0, 1] {
        net.progress(at, u32::MAX);
    }
    let (process, port) = &mut net.nodes[0];
    // All of it comes, and is not looked at before the loss is heard of.
    port.may_poll = u32::MAX;
    while let Some(event) = port.poll() {
        process.handle_event(port, event);
    }
    process.handle_peer_gone(port, ProcessId(1));
    net.progress(0, 0);
    let window = net.nodes[0].0.windows().rma.get(WINDOW).unwrap().memory.clone();
    let Memory::Fixed(window) = window else { panic!("it is fixed") };
    assert_eq!(window.to_vec().unwrap(), vec![0; BYTES]);
}

#[test]
fn what_waits_for_a_member_that_has_left_ends() {
    let mut net = windows(3);
    // Member 2 holds the lock of 1, and leaves without giving it back.
    let held = lock(&mut net, 2, &[1]);
    assert_eq!(end_of(&mut net, 2, held).error, None);
    let locked = lock(&mut net, 0, &[1]);
    net.settle();
    let (source, _) = memory(vec![7; 8]);
    let (process, port) = &mut net.nodes[0];
    let put = process.windows().put(port, (WINDOW, 2, place(1)), source, false);
    assert!(matches!(put, Ok(Posted::Done(_))));
    let into = memory(vec![0; 8]).0;
    let waiting = [
        process.windows().get(port, (WINDOW, 2, place(1)), into, true),
        process.windows().flush(port, WINDOW, Some(2), false),
        process.windows().flush(port, WINDOW, None, false),
        process.windows().lock(port, WINDOW, vec![2], false),
        process.windows().start(WINDOW, vec![2]),
        process.windows().wait(WINDOW, vec![2]),
    ];
    for me in [0, 1] {
        let (process, port) = &mut net.nodes[me];
        process.handle_peer_left(port, ProcessId(2));
    }
    for me in [0, 1].repeat(20) {
        net.progress(me, u32::MAX);
    }
    let left = Some(Error::Unreachable(ProcessId(2)));
    let errors = waiting.map(|posted| {
        let Ok(Posted::Pending(id)) = posted else { panic!("{posted:?}") };
        net.nodes[0].0.take(id).unwrap().expect("it is over").error
    });
    // That operations have failed is told once.
    assert_eq!(errors, [left, left, None, left, left, left]);
    let granted = locked.map(|id| net.nodes[0].0.take(id).unwrap().expect("it is over").error);
    assert_eq!(granted, Some(None), "nobody holds it any more");
    let (process, port) = &mut net.nodes[0];
    let put = process.windows().put(port, (WINDOW, 2, place(1)), source, false);
    assert_eq!(put, Err(Error::Unreachable(ProcessId(2))));
    let flush = process.windows().flush(port, WINDOW, None, false);
    assert!(!matches!(flush, Ok(Posted::Pending(_))), "nobody is left to wait for");
}
