//! What becomes of single requests: refused, freed, put off, explained.

use super::net::{Net, memory};
use crate::buffer::Buffer;
use crate::coll;
use crate::device::RailCapabilities;
use crate::error::Error;
use crate::explain::Need;
use crate::ids::{CommId, ProcessId, RequestId, Source, TagSelector};
use crate::op::Reducer;
use crate::process::ProcessEvent;
use crate::request::{Completion, PROC_NULL, Posted, SendMode};
use alloc::sync::Arc;
use alloc::vec;

const WORLD: CommId = CommId::WORLD;

fn pending(posted: Result<Posted, Error>) -> RequestId {
    match posted {
        Ok(Posted::Pending(id)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_persistent_send_needs_a_rank_of_the_communicator() {
    let mut net = Net::of_short_packets(2, 0);
    let process = &mut net.nodes[0].0;
    let mut make = |dest| process.send_init(WORLD, Buffer::EMPTY, dest, 0, SendMode::Standard).map(drop);
    assert_eq!([make(0), make(1), make(PROC_NULL)], [Ok(()); 3]);
    assert_eq!(make(2), Err(Error::Rank { rank: 2, size: 2 }));
}

#[test]
fn a_started_request_that_is_freed_goes_on() {
    let mut net = Net::of_short_packets(2, 0);
    let (into, bytes) = memory(vec![0; 4]);
    let (process, port) = &mut net.nodes[0];
    let receive = process.recv_init(WORLD, into, Source::Rank(1), TagSelector::Tag(3)).unwrap();
    let name = receive.name().expect("few are alive");
    assert_eq!((process.named(name), process.named(name + 1)), (Some(receive), None));
    process.start(port, receive).unwrap();
    assert_eq!(process.counts().requests, 2, "it, and the receive of this start");
    process.free(receive).unwrap();
    assert_eq!((process.named(name), process.counts().requests), (None, 1));
    let (process, port) = &mut net.nodes[1];
    assert!(process.isend(port, WORLD, memory(vec![9; 4]).0, 0, 3, SendMode::Standard).is_ok());
    net.settle();
    assert_eq!((bytes, net.nodes[0].0.counts().requests), (&[9; 4][..], 0));
}

#[test]
fn a_request_that_is_freed_or_part_of_another_is_not_named() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    let receive = pending(process.irecv(port, WORLD, Buffer::EMPTY, Source::Rank(1), TagSelector::Any));
    let name = receive.name().expect("few are alive");
    assert_eq!(process.named(name), Some(receive));
    process.free(receive).unwrap();
    assert!(process.is_request(receive) && process.named(name).is_none(), "it waits without a user");
}

#[test]
fn a_process_that_is_gone_is_reported_once() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    let gone = Error::ProcessAborted(ProcessId(1));
    process.handle_peer_gone(port, ProcessId(1));
    process.handle_peer_gone(port, ProcessId(1));
    process.handle_peer_left(port, ProcessId(1));
    assert_eq!(process.poll_event(), Some(ProcessEvent::PeerLost(ProcessId(1), gone)));
    assert_eq!(process.poll_event(), None);
    assert_eq!(process.lost_in(WORLD), Some(gone));
    assert_eq!(process.survivors().failed_members(WORLD).unwrap().size(), 1);
}

#[test]
fn a_completion_that_is_kept_for_a_request_counts_as_one() {
    let mut net = Net::of_short_packets(1, 0);
    let process = &mut net.nodes[0].0;
    for (error, failed) in [(None, 0), (Some(Error::Count), 1)] {
        let before = process.messages().failure_count;
        let id = process.park(Completion { error, ..Completion::EMPTY });
        assert_eq!(process.messages().failure_count - before, failed);
        assert_eq!(process.take(id), Ok(Some(Completion { error, ..Completion::EMPTY })));
    }
}

#[test]
fn steps_that_call_the_users_function_wait_for_the_user() {
    let mut net = Net::new(2, 1, RailCapabilities::default());
    let add = |input: &[u8], inout: &mut [u8]| inout.iter_mut().zip(input).for_each(|(to, from)| *to += from);
    let reducer = Reducer::user(Arc::new(add), 1, true).unwrap();
    assert_eq!(Reducer::user(Arc::new(add), 0, true).map(drop), Err(Error::Type));
    let choice = coll::select::Choice { algorithm: coll::Algorithm::RecursiveDoubling, segment_bytes: 1 };
    let sinks = [memory(vec![0; 3]), memory(vec![0; 3])];
    let mut begun = vec![];
    for (at, sink) in sinks.iter().enumerate() {
        let (process, port) = &mut net.nodes[at];
        process.put_off_user_functions(true);
        let context = coll::Context { rank: at as u32, size: 2 };
        let send = memory(vec![at as u8 + 1; 3]).0;
        let pool = process.schedule_pool();
        let schedule = coll::allreduce(pool, context, Some(send), sink.0, &reducer, choice).unwrap();
        begun.push(pending(process.collectives().start(port, WORLD, schedule)));
    }
    // They are left, and there is no work.
    for _ in 0..4 {
        net.progress(0, u32::MAX);
        net.progress(1, u32::MAX);
    }
    assert!(!net.progress(0, u32::MAX), "a step that is left is no work");
    for (at, begun) in begun.iter().enumerate() {
        assert!(!net.nodes[at].0.is_complete(*begun) && net.nodes[at].0.has_put_off());
        net.nodes[at].0.put_off_user_functions(false);
    }
    net.settle();
    for (at, (begun, sink)) in begun.into_iter().zip(sinks).enumerate() {
        assert!(!net.nodes[at].0.has_put_off());
        assert_eq!(net.nodes[at].0.take(begun), Ok(Some(Completion::EMPTY)));
        assert_eq!(sink.1, [3; 3]);
    }
}

#[test]
fn needs_of_partitioned_requests_are_their_messages_or_parts() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    let send = process.psend_init(port, WORLD, Buffer::leaked(4), 2, (1, 7)).unwrap();
    let (process, port) = &mut net.nodes[1];
    let receive = process.precv_init(port, WORLD, Buffer::leaked(4), 2, (0, 7)).unwrap();
    net.settle();
    assert_eq!((net.nodes[0].0.need(send), net.nodes[1].0.need(receive)), (Need::Nothing, Need::Nothing));
    for (at, id) in [(0, send), (1, receive)] {
        let (process, port) = &mut net.nodes[at];
        process.start(port, id).unwrap();
    }
    let part = Need::Other("a partition to be marked ready (MPI_Pready)".into());
    assert_eq!(net.nodes[0].0.need(send), part);
    assert!(matches!(net.nodes[1].0.need(receive), Need::Message(_)), "a part of the sender's");
}
