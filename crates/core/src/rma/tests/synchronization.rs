//! Locks, flushes, posts and losses, step by step.

use super::WINDOW;
use crate::buffer::{Buffer, Piece};
use crate::comm::Communicator;
use crate::datatype::Predefined;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank, RequestId};
use crate::layout::{Layout, Region};
use crate::op::Operation;
use crate::process::tests::net::Net;
use crate::request::{Completion, Posted};
use crate::rma::{Memory, Place};
use alloc::vec;
use alloc::vec::Vec;

const BYTES: usize = 40_000;

/// Processes with a window each, in which messages of more than a few words are long ones.
struct World {
    net: Net,
    memory: Vec<Buffer>,
}

fn add_window(net: &mut Net, me: usize, memory: Memory) {
    let group = Group::world(net.nodes.len() as u32);
    let process = &mut net.nodes[me].0;
    let comm = process.add_comm(Communicator::new(ContextId::new(ProcessId(0), 9), group, me as u32));
    assert_eq!(process.windows().add(comm, memory), Ok(WINDOW));
}

impl World {
    fn new(count: usize) -> Self {
        let mut net = Net::of_short_packets(count, 0);
        let memory: Vec<Buffer> = (0..count).map(|_| Buffer::leaked(BYTES)).collect();
        for (me, window) in memory.iter().enumerate() {
            add_window(&mut net, me, Memory::Fixed(*window));
        }
        Self { net, memory }
    }

    fn put(&mut self, me: usize, to: Rank, place: Place) -> Result<Posted, Error> {
        let source = Buffer::leaked(place.len().expect("it is short"));
        source.scatter(0, Piece::Bytes(&vec![1; source.len()]));
        let (process, port) = &mut self.net.nodes[me];
        process.windows().put(port, (WINDOW, to, place), source, false)
    }

    fn get(&mut self, me: usize, to: Rank, len: usize) -> Buffer {
        let sink = Buffer::leaked(len);
        let (process, port) = &mut self.net.nodes[me];
        let got = process.windows().get(port, (WINDOW, to, row(0, len)), sink, false);
        assert_eq!(got, Ok(Posted::Done(Completion::EMPTY)));
        sink
    }

    fn lock(&mut self, me: usize, ranks: &[Rank]) -> Result<Posted, Error> {
        let (process, port) = &mut self.net.nodes[me];
        process.windows().lock(port, WINDOW, ranks.into(), true)
    }

    fn unlock(&mut self, me: usize, rank: Rank, is_locked: bool) -> Result<Posted, Error> {
        let (process, port) = &mut self.net.nodes[me];
        process.windows().unlock(port, WINDOW, vec![rank], is_locked)
    }

    fn begin_flush(&mut self, me: usize, rank: Rank) {
        let (process, port) = &mut self.net.nodes[me];
        assert_eq!(process.windows().begin_flush(port, WINDOW, Some(rank)), Ok(()));
    }

    fn flush(&mut self, me: usize, rank: Option<Rank>, is_local: bool) -> Result<Posted, Error> {
        let (process, port) = &mut self.net.nodes[me];
        process.windows().flush(port, WINDOW, rank, is_local)
    }

    fn lose(&mut self, me: usize, lost: u32) {
        let (process, port) = &mut self.net.nodes[me];
        process.handle_peer_gone(port, ProcessId(lost));
    }

    /// How it ends when nothing moves any more; `None`: it waits.
    fn end(&mut self, me: usize, posted: Result<Posted, Error>) -> Option<Result<(), Error>> {
        self.net.settle();
        let completion = match posted {
            Err(error) => return Some(Err(error)),
            Ok(Posted::Done(completion)) => completion,
            Ok(Posted::Pending(id)) => self.taken(me, id)?,
        };
        Some(completion.error.map_or(Ok(()), Err))
    }

    fn taken(&mut self, me: usize, id: RequestId) -> Option<Completion> {
        self.net.nodes[me].0.take(id).expect("it exists")
    }

    /// Packets that a process has sent to others.
    fn sent(&mut self, me: usize) -> u64 {
        let links = &self.net.nodes[me].0.messages().links;
        let peers = (0..self.memory.len() as u32).filter_map(|peer| links.index_of(ProcessId(peer)));
        peers.map(|index| links.get(index).counts().0).sum()
    }

    /// An exclusive lock of a window that nobody holds, and back.
    fn can_be_locked(&mut self, me: usize, rank: Rank) -> bool {
        let locked = self.lock(me, &[rank]);
        if self.end(me, locked) != Some(Ok(())) {
            return false;
        }
        let unlocked = self.unlock(me, rank, true);
        self.end(me, unlocked) == Some(Ok(()))
    }
}

fn row(displacement: i64, len: usize) -> Place {
    Place { displacement, layout: Layout::bytes(1), count: len }
}

const fn gone(peer: u32) -> Error {
    Error::ProcessAborted(ProcessId(peer))
}

#[test]
fn locks_that_cannot_all_be_asked_for_leave_none_held() {
    for ranks in [[1, 2], [2, 1]] {
        let mut world = World::new(3);
        world.lose(0, 2);
        assert_eq!(world.lock(0, &ranks), Err(gone(2)));
        world.net.settle();
        assert!(world.can_be_locked(1, 1), "{ranks:?}");
        assert!(world.can_be_locked(0, 1), "{ranks:?}");
    }
}

#[test]
fn a_lock_is_asked_for_again_right_after_a_failure() {
    let mut world = World::new(3);
    world.lose(0, 2);
    for _ in 0..3 {
        assert_eq!(world.lock(0, &[1, 2]), Err(gone(2)));
        assert!(world.can_be_locked(0, 1), "1 has heard of a withdrawal before it is asked again");
        assert_eq!(world.net.nodes[1].0.poll_event(), None, "no member has misbehaved");
    }
}

#[test]
fn a_grant_of_a_withdrawn_request_is_not_that_of_the_next() {
    let mut world = World::new(3);
    // 1 has granted the lock, and 0 has not heard of it when it withdraws.
    let first = world.lock(0, &[1, 2]);
    world.net.progress(1, u32::MAX);
    world.lose(0, 2);
    let Ok(Posted::Pending(first)) = first else { panic!("nobody has answered") };
    assert_eq!(world.taken(0, first).and_then(|end| end.error), Some(gone(2)));
    let held = world.lock(1, &[1]);
    let second = world.lock(0, &[1]);
    if let Ok(Posted::Pending(id)) = second {
        let need = crate::explain::Need::Other("the locks of the windows of ranks 1".into());
        assert_eq!(world.net.nodes[0].0.need(id), need);
    }
    assert_eq!(world.end(1, held), Some(Ok(())), "it has been given back");
    assert_eq!(world.end(0, second), None, "1 has it");
    let unlocked = world.unlock(1, 1, true);
    assert_eq!(world.end(1, unlocked), Some(Ok(())));
    assert_eq!(world.end(0, second), Some(Ok(())));
}

#[test]
fn a_lock_given_back_has_ended_all_operations() {
    for is_locked in [true, false] {
        let mut world = World::new(2);
        if is_locked {
            let locked = world.lock(0, &[1]);
            assert_eq!(world.end(0, locked), Some(Ok(())));
        }
        assert!(world.put(0, 1, row(0, 8)).is_ok());
        let unlocked = world.unlock(0, 1, is_locked);
        assert!(matches!(unlocked, Ok(Posted::Pending(_))), "the target has not answered");
        assert_eq!(world.end(0, unlocked), Some(Ok(())));
        assert_eq!(world.memory[1].part(0, 8).to_vec().unwrap(), [1; 8]);
        let before = world.sent(0);
        assert_eq!(world.flush(0, Some(1), false), Ok(Posted::Done(Completion::EMPTY)));
        assert_eq!(world.sent(0), before, "nothing is left to ask for");
    }
}

#[test]
fn the_lock_of_a_lost_member_cannot_be_given_back() {
    let mut world = World::new(2);
    let locked = world.lock(0, &[1]);
    assert_eq!(world.end(0, locked), Some(Ok(())));
    world.lose(0, 1);
    assert_eq!(world.unlock(0, 1, true), Err(gone(1)));
    assert_eq!(world.flush(0, Some(1), false), Ok(Posted::Done(Completion::EMPTY)), "told once");
    assert_eq!(world.flush(0, None, false), Ok(Posted::Done(Completion::EMPTY)));
}

/// A put that asks for its flush itself while a long result leaves: the answer releases no lock.
#[test]
fn an_answer_that_was_asked_for_with_a_put_keeps_the_lock() {
    let mut world = World::new(3);
    let locked = world.lock(0, &[1]);
    assert_eq!(world.end(0, locked), Some(Ok(())));
    assert!(world.put(0, 1, row(0, 8)).is_ok());
    let flushed = world.flush(0, Some(1), false);
    assert_eq!(world.end(0, flushed), Some(Ok(())));
    let result = world.get(0, 1, 10_000);
    assert!(world.put(0, 1, row(20_000, 8)).is_ok());
    world.net.settle();
    assert_eq!(result.part(0, 8).to_vec().unwrap(), [1; 8]);
    let other = world.lock(2, &[1]);
    assert_eq!(world.end(2, other), None, "0 has it");
    let unlocked = world.unlock(0, 1, true);
    assert_eq!(world.end(0, unlocked), Some(Ok(())));
    assert_eq!(world.end(2, other), Some(Ok(())));
}

/// A long put, and two short ones whose flushes overtake its data: each flush is of all before it.
#[test]
fn no_answer_overtakes_that_of_an_earlier_flush() {
    let mut world = World::new(2);
    assert!(world.put(0, 1, row(0, 20_000)).is_ok());
    world.begin_flush(0, 1);
    for at in [20_000, 20_100] {
        assert!(world.put(0, 1, row(at, 8)).is_ok());
        world.begin_flush(0, 1);
    }
    let mut steps = 0;
    while world.net.nodes[0].0.windows().flushed(WINDOW, Some(1)).is_none() {
        world.net.progress(steps % 2, 1);
        steps += 1;
        assert!(steps < 100_000, "it is never over");
    }
    assert!(steps > 10, "the data takes many packets");
    assert_eq!(world.memory[1].part(0, 20_000).to_vec().unwrap(), [1; 20_000]);
}

#[test]
fn a_local_flush_of_one_target_waits_for_the_memory_used_there() {
    let mut world = World::new(3);
    assert!(world.put(0, 1, row(0, 20_000)).is_ok());
    let local = world.flush(0, Some(1), true);
    assert!(matches!(local, Ok(Posted::Pending(_))), "its data has not left");
    assert_eq!(world.flush(0, Some(2), true), Ok(Posted::Done(Completion::EMPTY)));
    assert_eq!(world.end(0, local), Some(Ok(())));
    let all = world.flush(0, None, true);
    assert_eq!(all, Ok(Posted::Done(Completion::EMPTY)));
}

#[test]
fn each_start_uses_up_a_post() {
    let mut world = World::new(2);
    let start = |world: &mut World| world.net.nodes[0].0.windows().start(WINDOW, vec![1]);
    let post = |world: &mut World| {
        let (process, port) = &mut world.net.nodes[1];
        assert_eq!(process.windows().post(port, WINDOW, &[0]), Ok(()));
        world.net.settle();
    };
    post(&mut world);
    post(&mut world);
    for _ in 0..2 {
        assert_eq!(start(&mut world), Ok(Posted::Done(Completion::EMPTY)));
    }
    let third = start(&mut world);
    assert_eq!(world.end(0, third), None, "both are used up");
    post(&mut world);
    assert_eq!(world.end(0, third), Some(Ok(())));
}

#[test]
fn a_member_that_tests_for_completes_waits_for_them() {
    let mut world = World::new(2);
    let test = |world: &mut World| world.net.nodes[0].0.windows().test(WINDOW, vec![1]);
    let awaited = |world: &mut World| {
        let windows = world.net.nodes[0].0.windows();
        assert_eq!(windows.rma.is_awaiting(), windows.rma.awaited().next().is_some());
        windows.rma.awaited().collect::<Vec<_>>()
    };
    assert_eq!(awaited(&mut world), []);
    assert_eq!(test(&mut world), Ok(false));
    assert_eq!(awaited(&mut world), [ProcessId(1)]);
    let (process, port) = &mut world.net.nodes[1];
    assert!(process.windows().complete(port, WINDOW, &[0]).is_ok());
    world.net.settle();
    assert_eq!(test(&mut world), Ok(true));
    assert_eq!(awaited(&mut world), []);
    // And one that owes a result.
    world.get(1, 0, 8);
    assert_eq!(world.net.nodes[1].0.windows().rma.awaited().collect::<Vec<_>>(), [ProcessId(0)]);
}

/// The loss of a member is an error of what was begun with it, and of nothing else, and it is told once.
#[test]
fn a_lost_member_fails_only_what_was_begun_with_it() {
    let nothing: fn(&mut World) = |_| {};
    let put: fn(&mut World) = |world| assert!(world.put(0, 1, row(0, 8)).is_ok());
    let flush: fn(&mut World) = |world| {
        assert!(world.put(0, 1, row(0, 8)).is_ok());
        world.begin_flush(0, 1);
    };
    let get: fn(&mut World) = |world| {
        world.get(0, 1, 8);
    };
    let over: fn(&mut World) = |world| {
        world.get(0, 1, 8);
        assert!(world.put(0, 1, row(0, 8)).is_ok());
        let flushed = world.flush(0, Some(1), false);
        assert_eq!(world.end(0, flushed), Some(Ok(())));
    };
    let failed = Err(gone(1));
    for (begin, expected) in
        [(nothing, Ok(())), (put, failed), (flush, failed), (get, failed), (over, Ok(()))]
    {
        for is_local in [true, false] {
            let mut world = World::new(3);
            begin(&mut world);
            world.lose(0, 1);
            let first = world.flush(0, None, is_local);
            assert_eq!(world.end(0, first), Some(expected));
            let second = world.flush(0, Some(1), false);
            assert_eq!(world.end(0, second), Some(Ok(())), "told once");
        }
    }
}

#[test]
fn of_several_losses_a_flush_tells_one() {
    let mut world = World::new(3);
    for to in [1, 2] {
        assert!(world.put(0, to, row(0, 8)).is_ok());
    }
    world.lose(0, 1);
    world.lose(0, 2);
    assert!(world.flush(0, None, false).is_err());
    assert_eq!(world.flush(0, None, false), Ok(Posted::Done(Completion::EMPTY)));
}

#[test]
fn a_window_made_after_a_loss_knows_of_it() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    process.handle_peer_gone(port, ProcessId(1));
    add_window(&mut net, 0, Memory::Fixed(Buffer::leaked(8)));
    let mut windows = net.nodes[0].0.windows();
    assert_eq!(windows.start(WINDOW, vec![1]), Err(gone(1)));
    assert_eq!(windows.wait(WINDOW, vec![1]), Err(gone(1)));
}

#[test]
fn a_window_that_is_given_up_is_found_no_more() {
    let mut world = World::new(2);
    let mut windows = world.net.nodes[0].0.windows();
    assert!(windows.rma.has_windows());
    assert_eq!(windows.remove(WINDOW), Ok(()));
    assert!(!windows.rma.has_windows());
    assert_eq!(windows.remove(WINDOW), Err(Error::Window));
}

#[test]
fn memory_is_attached_and_detached() {
    let mut net = Net::of_short_packets(1, 0);
    add_window(&mut net, 0, Memory::Dynamic(Vec::new()));
    let (process, port) = &mut net.nodes[0];
    let pieces = [Buffer::leaked(8), Buffer::leaked(8)];
    let at = |piece: usize| pieces[piece].as_ptr().expect("it has bytes").addr() as i64;
    let mut windows = process.windows();
    let mut found = |windows: &mut crate::rma::Windows<'_>| {
        [0, 1]
            .map(|piece| windows.put(port, (WINDOW, 0, row(at(piece), 8)), Buffer::leaked(8), false).is_ok())
    };
    assert_eq!(found(&mut windows), [false, false]);
    for piece in pieces {
        assert_eq!(windows.change(WINDOW, piece, true), Ok(()));
    }
    assert_eq!(found(&mut windows), [true, true]);
    assert_eq!(windows.change(WINDOW, pieces[0], false), Ok(()));
    assert_eq!(found(&mut windows), [false, true]);
    assert!(matches!(windows.change(WINDOW, pieces[0], false), Err(Error::Argument(_))), "it is gone");
    assert_eq!(windows.change(WINDOW, pieces[1], false), Ok(()));
    assert_eq!(found(&mut windows), [false, false]);
    // A window with memory of its own takes none.
    let mut world = World::new(1);
    let changed = world.net.nodes[0].0.windows().change(WINDOW, pieces[0], true);
    assert!(matches!(changed, Err(Error::Argument(_))), "{changed:?}");
}

#[test]
fn results_of_any_length_come() {
    let mut world = World::new(2);
    let bytes: Vec<u8> = (0..BYTES).map(|at| at as u8).collect();
    world.memory[1].scatter(0, Piece::Bytes(&bytes));
    for len in [1, 1_023, 1_024, 1_025, 16_384, 16_385] {
        let sink = world.get(0, 1, len);
        let flushed = world.flush(0, Some(1), false);
        assert_eq!(world.end(0, flushed), Some(Ok(())), "{len}");
        assert_eq!(sink.to_vec().unwrap(), bytes[..len], "{len}");
    }
}

#[test]
fn operations_without_bytes_send_nothing() {
    let mut world = World::new(2);
    for to in [0, 1] {
        assert_eq!(world.put(0, to, row(0, 0)), Ok(Posted::Done(Completion::EMPTY)));
        world.get(0, to, 0);
        let (process, port) = &mut world.net.nodes[0];
        let what = (Operation::NoOp, Predefined::Uint64);
        let place = (WINDOW, to, row(0, 8));
        let posted = process.windows().accumulate(port, place, (None, None), what, true);
        assert_eq!(posted, Ok(Posted::Done(Completion::EMPTY)));
    }
    assert_eq!(world.sent(0), 0);
    assert_eq!(world.flush(0, None, false), Ok(Posted::Done(Completion::EMPTY)));
}

#[test]
fn an_operation_that_reads_needs_a_source() {
    let mut world = World::new(2);
    for to in [0, 1] {
        for (operation, is_right) in
            [(Operation::Sum, false), (Operation::Replace, false), (Operation::NoOp, true)]
        {
            let (process, port) = &mut world.net.nodes[0];
            let what = (operation, Predefined::Uint64);
            let ends = (None, Some(Buffer::leaked(8).into()));
            let posted = process.windows().accumulate(port, (WINDOW, to, row(0, 8)), ends, what, false);
            assert_eq!(posted.is_ok(), is_right, "{operation:?}");
        }
    }
}

#[test]
fn an_accumulate_outside_of_the_window_is_an_error_of_the_flush() {
    let mut world = World::new(2);
    let (process, port) = &mut world.net.nodes[0];
    let what = (Operation::Sum, Predefined::Uint64);
    let source = Some(Buffer::leaked(8).into());
    let place = (WINDOW, 1, row(BYTES as i64 - 4, 8));
    assert!(process.windows().accumulate(port, place, (source, None), what, false).is_ok());
    let flushed = world.flush(0, Some(1), false);
    assert_eq!(world.end(0, flushed), Some(Err(Error::WindowRange)));
    let flushed = world.flush(0, Some(1), false);
    assert_eq!(world.end(0, flushed), Some(Ok(())), "told once");
}

/// Elements of 12 bytes, of which no whole number is a chunk, and more of them than a chunk has room for.
#[test]
fn a_long_accumulate_is_applied_by_whole_elements() {
    const COUNT: usize = 60_000;
    let pair = Predefined::DoubleInt;
    assert_eq!(pair.size_bytes(), 12);
    let element = |value: f64, index: i32| {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    let mut net = Net::new(2, 1, crate::device::RailCapabilities::default());
    let memory = Buffer::leaked(12 * COUNT);
    add_window(&mut net, 0, Memory::Fixed(Buffer::leaked(8)));
    add_window(&mut net, 1, Memory::Fixed(memory));
    // Which of both is greater changes from element to element.
    let of = |own: bool| -> Vec<u8> {
        (0..COUNT)
            .flat_map(|at| element(if own == (at % 3 == 0) { 2.0 } else { 1.0 }, i32::from(own)))
            .collect()
    };
    memory.scatter(0, Piece::Bytes(&of(false)));
    let source = Buffer::leaked(12 * COUNT);
    source.scatter(0, Piece::Bytes(&of(true)));
    let has_long = |net: &mut Net| {
        let windows = net.nodes[0].0.windows();
        windows.rma.get(WINDOW).expect("it is there").fence_flushes()
    };
    for (count, is_long) in [(1_000, false), (COUNT, true)] {
        let layout = Layout::bytes(12);
        let place = Place { displacement: 0, layout, count };
        let (process, port) = &mut net.nodes[0];
        let ends = (Some(source.part(0, 12 * count).into()), None);
        let posted =
            process.windows().accumulate(port, (WINDOW, 1, place), ends, (Operation::Maxloc, pair), false);
        assert_eq!(posted, Ok(Posted::Done(Completion::EMPTY)));
        assert_eq!(has_long(&mut net), is_long, "{count}: the pieces come one after the other");
    }
    net.settle();
    let expected: Vec<u8> = (0..COUNT).flat_map(|at| element(2.0, i32::from(at % 3 == 0))).collect();
    assert!(memory.to_vec().unwrap() == expected);
}

#[test]
fn a_fetch_from_ones_own_window_goes_to_a_place_with_gaps() {
    let mut world = World::new(1);
    world.memory[0].scatter(0, Piece::Bytes(&7_u64.to_ne_bytes()));
    let one = Buffer::leaked(8);
    one.scatter(0, Piece::Bytes(&1_u64.to_ne_bytes()));
    let bytes = Buffer::leaked(16);
    // The halves of the old value lie apart.
    let sink = Region::new(Layout::bytes(4).repeat(2, 8).unwrap(), 1, bytes.part(0, 12)).unwrap();
    let (process, port) = &mut world.net.nodes[0];
    let what = (Operation::Sum, Predefined::Uint64);
    let ends = (Some(one.into()), Some(sink.into()));
    assert!(process.windows().accumulate(port, (WINDOW, 0, row(0, 8)), ends, what, false).is_ok());
    assert_eq!(world.memory[0].part(0, 8).to_vec().unwrap(), 8_u64.to_ne_bytes());
    let old = 7_u64.to_ne_bytes();
    assert_eq!(bytes.to_vec().unwrap()[..12], [&old[..4], &[0; 4], &old[4..]].concat());
}

#[test]
fn a_fence_ends_the_operations_on_every_member() {
    for me in [0, 1] {
        let mut world = World::new(2);
        let other = 1 - me as Rank;
        assert!(world.put(me, other, row(0, 20_000)).is_ok(), "a long one");
        for _ in 0..2 {
            for member in [0, 1] {
                let (process, port) = &mut world.net.nodes[member];
                assert!(process.windows().begin_fence(port, WINDOW).is_ok());
            }
            world.net.settle();
        }
        let before = world.sent(me);
        assert_eq!(world.flush(me, None, false), Ok(Posted::Done(Completion::EMPTY)));
        assert!(world.put(me, other, row(0, 8)).is_ok());
        let (process, port) = &mut world.net.nodes[me];
        assert!(process.windows().begin_fence(port, WINDOW).is_ok());
        world.net.settle();
        assert_eq!(world.sent(me) - before, 2, "the put and the fence: what was long is over");
        assert_eq!(world.flush(me, None, false), Ok(Posted::Done(Completion::EMPTY)), "the fence ends it");
    }
}
