//! Messages that no correct member of a window sends: their sender is cut off, and nothing else happens.

use super::WINDOW;
use crate::buffer::{Buffer, Piece};
use crate::comm::Communicator;
use crate::data::Data;
use crate::datatype::Predefined;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{ContextId, ProcessId, Rank, Tag};
use crate::layout::Layout;
use crate::op::Operation;
use crate::process::ProcessEvent;
use crate::process::tests::net::Net;
use crate::request::{Completion, Posted, SendMode};
use crate::rma::children::Tail;
use crate::rma::{ACTIVE_BYTES_MAX, ACTIVE_TAG, ActiveMessage as M, Follow, Memory, Operand, Place, Wanted};
use crate::wire::Envelope;
use alloc::vec;

const BYTES: usize = 4_000;
const CONTEXT: ContextId = ContextId::new(ProcessId(0), 9);

const SECOND_LOCK: &str = "a second lock of one window";
const NO_LOCK: &str = "a lock given back that was not granted";
const NO_FLUSH: &str = "an answer to a flush that was not sent";
const NOT_ASKED: &str = "a result that was not asked for";
const SHORT: &str = "a window's message cut short";
const MALFORMED: &str = "a message of a window that is no correct one";

fn windows() -> Net {
    let mut net = Net::of_short_packets(2, 0);
    for me in 0..2 {
        let process = &mut net.nodes[me].0;
        let comm = process.add_comm(Communicator::new(CONTEXT, Group::world(2), me as u32));
        let memory = Memory::Fixed(Buffer::leaked(BYTES));
        assert_eq!(process.windows().add(comm, memory), Ok(WINDOW));
    }
    net
}

/// Process 1 sends an active message to process 0.
fn send(net: &mut Net, message: M, operand: Option<&Operand>, data: &[u8]) {
    let (process, port) = &mut net.nodes[1];
    let head = message.emit(operand).expect("it is short");
    assert_eq!(process.windows().send_active(port, WINDOW, 0, &head, Tail::Bytes(data)), Ok(()));
}

/// Process 1 sends a message of these bytes.
fn send_raw(net: &mut Net, (source, tag): (Rank, Tag), data: Buffer) {
    let (process, port) = &mut net.nodes[1];
    let envelope = Envelope { context: CONTEXT, source, tag };
    let messages = process.messages();
    let sent = messages.send_message(port, ProcessId(0), envelope, data.into(), SendMode::Standard, false);
    assert!(sent.is_ok());
}

/// Why process 0 has cut process 1 off, if it has.
fn blamed(net: &mut Net) -> Option<&'static str> {
    net.settle();
    match net.nodes[0].0.poll_event()? {
        ProcessEvent::PeerLost(ProcessId(1), Error::PeerMisbehaved { what, .. }) => Some(what),
        event => panic!("{event:?}"),
    }
}

fn lock(number: u32) -> M {
    M::Lock { exclusive: true, number }
}

fn is_zero(net: &mut Net) -> bool {
    let window = net.nodes[0].0.windows().rma.get(WINDOW).expect("it is there").memory.clone();
    let Memory::Fixed(memory) = window else { panic!("it is fixed") };
    memory.to_vec().expect("it has bytes").iter().all(|byte| *byte == 0)
}

#[test]
fn control_messages_out_of_place_cut_their_sender_off() {
    let flushed = |number| M::Flushed { number, refused: 0 };
    let result = |refused| M::Result { number: 3, refused };
    for (messages, expected) in [
        (vec![lock(1)], None),
        (vec![lock(1), lock(2)], Some(SECOND_LOCK)),
        (vec![lock(1), M::Flush { number: 1, release: true }, lock(2)], None),
        (vec![lock(1), M::Withdraw, lock(2)], None),
        (vec![M::Flush { number: 1, release: true }], Some(NO_LOCK)),
        (vec![M::Flush { number: 1, release: false }], None),
        (vec![flushed(0)], Some(NO_FLUSH)),
        (vec![flushed(1)], Some(NO_FLUSH)),
        (vec![flushed(u32::MAX)], Some(NO_FLUSH)),
        (vec![result(0)], Some(NOT_ASKED)),
        (vec![result(1)], Some(NOT_ASKED)),
        (vec![M::Post, M::Complete, M::Granted { number: 7 }], None),
    ] {
        let mut net = windows();
        for message in &messages {
            send(&mut net, *message, None, &[]);
        }
        assert_eq!(blamed(&mut net), expected, "{messages:?}");
    }
}

#[test]
fn a_second_request_for_a_lock_that_is_waited_for_is_refused() {
    let mut net = windows();
    let (process, port) = &mut net.nodes[0];
    let Ok(Posted::Pending(own)) = process.windows().lock(port, WINDOW, vec![0], true) else {
        panic!("it is granted by the next round")
    };
    net.settle();
    assert_eq!(net.nodes[0].0.take(own), Ok(Some(Completion::EMPTY)));
    send(&mut net, lock(1), None, &[]);
    assert_eq!(blamed(&mut net), None);
    send(&mut net, lock(2), None, &[]);
    assert_eq!(blamed(&mut net), Some(SECOND_LOCK));
}

#[test]
fn an_answer_beyond_the_flushes_under_way_is_refused() {
    // Two flushes are under way, then one, then none.
    for (numbers, expected) in [
        (vec![1, 2], None),
        (vec![2], None),
        (vec![3], Some(NO_FLUSH)),
        (vec![0], Some(NO_FLUSH)),
        (vec![1, 1], Some(NO_FLUSH)),
        (vec![2, 1], Some(NO_FLUSH)),
    ] {
        let mut net = windows();
        let windows = net.nodes[0].0.windows();
        let window = windows.rma.get_mut(WINDOW).expect("it is there");
        assert_eq!([window.new_flush(1), window.new_flush(1)], [1, 2]);
        for number in &numbers {
            send(&mut net, M::Flushed { number: *number, refused: 0 }, None, &[]);
        }
        assert_eq!(blamed(&mut net), expected, "{numbers:?}");
    }
}

#[test]
fn an_operation_whose_data_does_not_fit_cuts_its_sender_off() {
    let word = Predefined::Uint64;
    let row = |len| Operand::row(0, len);
    // Four words with a gap behind each, from this byte of the packed stream on.
    let apart = |offset, len| {
        let layout = Layout::bytes(8).resized(0, 16).expect("it is short");
        Operand::of(&Place { displacement: 0, layout, count: 4 }, offset, len)
    };
    let sum = |follow| M::Accumulate(Operation::Sum, word, follow);
    let read = M::Accumulate(Operation::NoOp, word, Follow::Data(3));
    let swap = M::CompareAndSwap(word, 3);
    let too_long = ACTIVE_BYTES_MAX as usize + 8;
    for (message, operand, data_len) in [
        (M::Put(Follow::Nothing), row(8), 4),
        (M::Put(Follow::Nothing), row(4), 8),
        (swap, row(8), 8),
        (swap, row(4), 16),
        (swap, row(16), 16),
        (swap, apart(8, 8), 16),
        (sum(Follow::Nothing), row(12), 12),
        (sum(Follow::Nothing), row(16), 8),
        (sum(Follow::Nothing), apart(4, 8), 8),
        (sum(Follow::Nothing), apart(8, 12), 12),
        (read, row(8), 8),
        (read, row(too_long), 0),
    ] {
        let mut net = windows();
        send(&mut net, message, Some(&operand), &[1; 64][..data_len]);
        assert_eq!(blamed(&mut net), Some(MALFORMED), "{message:?} {operand:?} {data_len}");
        assert!(is_zero(&mut net), "{message:?} {operand:?} {data_len}");
    }
}

#[test]
fn several_messages_are_such_as_nothing_follows() {
    let put = |follow| M::Put(follow).emit_row(0, 4);
    let whole = [&put(Follow::Nothing)[..], &[1; 4]].concat();
    let get = M::Get(3).emit_row(0, 4);
    let alone = "a message among several that must come alone";
    let cases = [
        ([&whole[..], &get].concat(), alone),
        ([&whole[..], &put(Follow::Flushed(1)), &[1; 4]].concat(), alone),
        ([&whole[..], &M::Several.emit_control(), &whole].concat(), alone),
        ([&whole[..], &whole[..27]].concat(), SHORT),
        ([&whole[..], &whole[..23]].concat(), SHORT),
    ];
    for (bytes, why) in cases {
        let mut net = windows();
        send(&mut net, M::Several, None, &bytes);
        assert_eq!(blamed(&mut net), Some(why), "{bytes:?}");
    }
    let mut net = windows();
    send(&mut net, M::Several, None, &[whole.clone(), whole].concat());
    assert_eq!((blamed(&mut net), is_zero(&mut net)), (None, false));
}

#[test]
fn a_target_layout_longer_than_a_message_is_not_sent() {
    // Blocks without a pattern, and many places for them: what names each place names them all.
    let blocks = Layout::bytes(1).indexed((0..4_096).map(|at| (1, at * 3 + (at * at) % 2))).unwrap();
    let twice = blocks.repeat(2, 20_000).unwrap();
    let many = |count: isize| {
        let layout = Layout::structure((0..count).map(|at| (1, at * at * 50_000, &twice))).unwrap();
        let len = layout.size();
        let operand = Operand::of(&Place { displacement: 0, layout, count: 1 }, 0, len);
        M::Put(Follow::Nothing).emit(Some(&operand)).map(drop)
    };
    let most = (ACTIVE_BYTES_MAX / 2 / (8 * 4_096)) as isize;
    assert_eq!(many(most - 10), Ok(()));
    assert!(matches!(many(most), Err(Error::Argument(_))));
}

#[test]
fn a_result_with_bytes_and_a_refusal_is_refused() {
    let mut net = windows();
    let (number, into) = (3, Data::from(Buffer::leaked(8)));
    let wanted = Wanted { number, into, offset: 0, len: 8, operation: None };
    net.nodes[0].0.windows().rma.get_mut(WINDOW).expect("it is there").want(1, wanted);
    send(&mut net, M::Result { number, refused: 1 }, None, &[1; 8]);
    assert_eq!(blamed(&mut net), Some(MALFORMED));
}

#[test]
fn a_message_in_another_members_name_is_refused() {
    for (source, expected) in [(0, Some(MALFORMED)), (1, None), (2, Some(MALFORMED))] {
        let mut net = windows();
        let post = Buffer::leaked(8);
        post.scatter(0, Piece::Bytes(&M::Post.emit_control()));
        send_raw(&mut net, (source, ACTIVE_TAG), post);
        assert_eq!(blamed(&mut net), expected, "{source}");
    }
}

/// The message that waits behind a long one, whose bytes are those of an operation or of none.
#[test]
fn messages_behind_a_long_one_are_looked_at_alike() {
    let long = |net: &mut Net| send(net, M::Put(Follow::Nothing), Some(&Operand::row(0, 1_000)), &[0; 1_000]);
    let first: fn(&mut Net) = |net| send_raw(net, (1, ACTIVE_TAG), Buffer::leaked(1_000));
    let short: fn(&mut Net) = |net| send(net, lock(1), None, &[]);
    let second_lock: fn(&mut Net) = |net| {
        send(net, lock(1), None, &[]);
        send(net, lock(2), None, &[]);
    };
    for (what, expected) in [(short, None), (second_lock, Some(SECOND_LOCK)), (first, Some(""))] {
        let mut net = windows();
        long(&mut net);
        what(&mut net);
        match expected {
            // Zeros are no active message.
            Some("") => assert!(blamed(&mut net).is_some()),
            _ => assert_eq!(blamed(&mut net), expected),
        }
    }
    let mut net = windows();
    first(&mut net);
    assert!(blamed(&mut net).is_some(), "a long one itself");
}

#[test]
fn an_announced_message_beyond_the_longest_is_refused() {
    let too_long = Buffer::virtual_of(ACTIVE_BYTES_MAX as usize + 1);
    let mut net = windows();
    send_raw(&mut net, (1, ACTIVE_TAG), too_long);
    assert_eq!(blamed(&mut net), Some(MALFORMED));
    // Behind a long one.
    let mut net = windows();
    send(&mut net, M::Put(Follow::Nothing), Some(&Operand::row(0, 1_000)), &[0; 1_000]);
    send_raw(&mut net, (1, ACTIVE_TAG), too_long);
    assert_eq!(blamed(&mut net), Some(MALFORMED));
}

#[test]
fn a_message_in_two_pieces_is_one() {
    let mut net = windows();
    send(&mut net, M::Post, None, &[]);
    net.settle();
    let mut windows = net.nodes[0].0.windows();
    let index = windows.messages.links.index_of(ProcessId(1)).expect("they have talked");
    let envelope = Envelope { context: CONTEXT, source: 1, tag: ACTIVE_TAG };
    let posts =
        |windows: &crate::rma::Windows<'_>| windows.rma.windows[0].as_ref().map(|of| of.peers[1].posts);
    let bytes = M::Post.emit_control();
    for (at, split) in (0..=8).enumerate() {
        let (first, second) = bytes.split_at(split);
        let taken = windows.take_active(index, &envelope, [Piece::Bytes(first), Piece::Bytes(second)]);
        assert_eq!(taken.ok(), Some(true));
        assert_eq!(posts(&windows), Some(2 + at as u32));
    }
}
