//! Processes that go on without those that fail: revoking, agreeing, shrinking, acknowledging.

use super::net::{Net, memory};
use crate::buffer::Buffer;
use crate::comm::Communicator;
use crate::device::{Event, RailCapabilities};
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ContextId, ProcessId, RequestId, Source, TagSelector};
use crate::request::{Posted, SendMode};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

const ANY: (Source, TagSelector) = (Source::Any, TagSelector::Any);

fn survivors(count: usize, seed: u64) -> Net {
    let mut net = Net::new(count, seed, RailCapabilities::default());
    for (process, _) in &mut net.nodes {
        process.messages.set_survives();
    }
    net
}

fn id(posted: Posted) -> RequestId {
    match posted {
        Posted::Pending(id) => id,
        Posted::Done(completion) => panic!("over: {completion:?}"),
    }
}

/// Runs those that live until nothing happens.
fn settle(net: &mut Net, live: &[usize]) {
    while live.iter().fold(false, |worked, at| net.progress(*at, u32::MAX) | worked) {}
}

fn tell(net: &mut Net, at: usize, gone: usize) {
    let (process, port) = &mut net.nodes[at];
    process.handle_event(port, Event::PeerGone(ProcessId(gone as u32)));
}

fn error_of(net: &mut Net, at: usize, request: RequestId) -> Option<Error> {
    net.nodes[at].0.take(request).unwrap().unwrap_or_else(|| panic!("{at}: does not end")).error
}

#[test]
fn revoke_ends_present_and_later_operations_at_all_members() {
    let mut net = survivors(3, 1);
    let long = memory(vec![1; 100_000]).0;
    let mut pending = Vec::new();
    for at in 0..3 {
        let next = (at as u32 + 1) % 3;
        let (process, port) = &mut net.nodes[at];
        let world = CommId::WORLD;
        pending.push((at, id(process.isend(port, world, long, next, 1, SendMode::Standard).unwrap())));
        pending.push((
            at,
            id(process.isend(port, world, Buffer::EMPTY, next, 2, SendMode::Synchronous).unwrap()),
        ));
        pending.push((
            at,
            id(process.irecv(port, world, long, Source::Rank(next), TagSelector::Tag(9)).unwrap()),
        ));
        pending.push((at, id(process.irecv(port, world, long, ANY.0, TagSelector::Tag(8)).unwrap())));
        let (_, made) = process.collectives().icomm_dup(port, world).unwrap();
        if at == 2 {
            pending.push((at, id(made)));
        }
    }
    net.nodes[2].0.survivors().revoke(CommId::WORLD).unwrap();
    settle(&mut net, &[0, 1, 2]);
    for (at, request) in pending {
        assert_eq!(error_of(&mut net, at, request), Some(Error::Revoked), "at {at}");
    }
    for at in 0..3 {
        let (process, port) = &mut net.nodes[at];
        assert_eq!(process.survivors().is_revoked(CommId::WORLD), Ok(true));
        let world = CommId::WORLD;
        let sent = process.isend(port, world, Buffer::EMPTY, 0, 0, SendMode::Standard);
        assert_eq!(sent, Err(Error::Revoked));
        assert!(!process.send_at_once(port, world, Buffer::EMPTY, 0, 0));
        assert_eq!(process.irecv(port, world, Buffer::EMPTY, ANY.0, ANY.1), Err(Error::Revoked));
        assert_eq!(process.collectives().icomm_dup(port, world).err(), Some(Error::Revoked));
        assert_eq!(process.iprobe(world, ANY.0, ANY.1), Err(Error::Revoked));
    }
}

#[test]
fn a_revoked_message_is_revoked_though_another_receiver_fails() {
    let mut net = survivors(3, 1);
    let (process, port) = &mut net.nodes[0];
    let [failing, revoked] = [1, 2].map(|to| {
        id(process.isend(port, CommId::WORLD, Buffer::EMPTY, to, 2, SendMode::Synchronous).unwrap())
    });
    settle(&mut net, &[0, 1, 2]);
    net.nodes[0].0.survivors().revoke(CommId::WORLD).unwrap();
    tell(&mut net, 0, 1);
    settle(&mut net, &[0, 2]);
    assert_eq!(error_of(&mut net, 0, failing), Some(Error::ProcessAborted(ProcessId(1))));
    assert_eq!(error_of(&mut net, 0, revoked), Some(Error::Revoked));
}

#[test]
fn any_source_receive_is_interrupted_until_failure_is_acked() {
    let mut net = survivors(3, 1);
    let (buffer, bytes) = memory(vec![0; 4]);
    let (process, port) = &mut net.nodes[0];
    let request = process.irecv_request(port, CommId::WORLD, buffer, ANY.0, ANY.1).unwrap();
    tell(&mut net, 0, 1);
    let process = &mut net.nodes[0].0;
    let pending = Some(Error::FailedPending(ProcessId(1)));
    for _ in 0..2 {
        assert!(process.is_complete(request));
        assert_eq!(process.take(request).unwrap().unwrap().error, pending);
        assert_eq!(process.peek(request).unwrap().unwrap().error, pending);
    }
    assert_eq!(process.iprobe(CommId::WORLD, ANY.0, ANY.1).err(), pending);
    assert_eq!(process.survivors().failed_members(CommId::WORLD).unwrap().process(0), Some(ProcessId(1)));
    assert_eq!(process.survivors().ack_failed(CommId::WORLD, 5), Ok(1));
    assert_eq!(process.survivors().acknowledged_members(CommId::WORLD).unwrap().size(), 1);
    assert!(!process.is_complete(request));
    let (process, port) = &mut net.nodes[2];
    let sent = process.isend(port, CommId::WORLD, memory(b"here".to_vec()).0, 0, 7, SendMode::Standard);
    assert!(matches!(sent, Ok(Posted::Done(_))));
    settle(&mut net, &[0, 2]);
    assert_eq!(error_of(&mut net, 0, request), None);
    assert_eq!(bytes, b"here");
}

#[test]
fn revoking_ends_the_direct_receive_of_that_communicator_only() {
    let mut net = survivors(2, 1);
    let process = &mut net.nodes[0].0;
    let other = Communicator::new(ContextId::new(ProcessId(0), 9), Group::world(2), 0);
    let other = process.add_comm(other);
    let (process, port) = &mut net.nodes[0];
    let (buffer, _) = memory(vec![0; 4]);
    assert_eq!(process.receive_direct(port, CommId::WORLD, buffer, Source::Rank(1), ANY.1), Ok(false));
    process.survivors().revoke(other).unwrap();
    assert!(!process.poll_direct());
    process.survivors().revoke(CommId::WORLD).unwrap();
    assert!(process.poll_direct());
    assert_eq!(process.direct_completion().error, Some(Error::Revoked));
}

#[test]
fn a_direct_receive_from_anybody_ends_with_a_failure() {
    let mut net = survivors(3, 1);
    let (process, port) = &mut net.nodes[0];
    let (buffer, _) = memory(vec![0; 4]);
    assert_eq!(process.receive_direct(port, CommId::WORLD, buffer, ANY.0, ANY.1), Ok(false));
    tell(&mut net, 0, 1);
    let process = &mut net.nodes[0].0;
    assert!(process.poll_direct());
    assert_eq!(process.direct_completion().error, Some(Error::ProcessAborted(ProcessId(1))));
}

#[test]
fn a_receive_given_up_after_an_interruption_receives_no_more() {
    let mut net = survivors(3, 1);
    let (buffer, bytes) = memory(vec![0; 4]);
    let (process, port) = &mut net.nodes[0];
    let request = process.irecv_request(port, CommId::WORLD, buffer, ANY.0, ANY.1).unwrap();
    assert_eq!(process.take_or_give_up(request), Ok(None));
    tell(&mut net, 0, 1);
    let process = &mut net.nodes[0].0;
    let ended = process.take_or_give_up(request).unwrap().unwrap();
    assert_eq!(ended.error, Some(Error::ProcessAborted(ProcessId(1))));
    assert_eq!((process.counts().requests, process.counts().posted), (0, 0));
    let (process, port) = &mut net.nodes[2];
    let sent = process.isend(port, CommId::WORLD, memory(b"late".to_vec()).0, 0, 7, SendMode::Standard);
    assert!(matches!(sent, Ok(Posted::Done(_))));
    settle(&mut net, &[0, 2]);
    assert_eq!((bytes, net.nodes[0].0.counts().unexpected), (&[0; 4][..], 1));
}

/// Whoever revoked it may have told nobody else, and be gone.
#[test]
fn members_are_told_of_a_revocation_that_came_early() {
    let mut net = survivors(3, 1);
    let context = ContextId::new(ProcessId(0), 9);
    net.nodes[1].0.comms.revoke_early(context);
    let comms = [1, 2].map(|at| {
        let comm = Communicator::new(context, Group::world(3), at as u32);
        net.nodes[at].0.add_comm(comm)
    });
    // As after the operation that makes it.
    net.nodes[1].0.survivors().look_at_new_comms();
    settle(&mut net, &[1, 2]);
    for (at, comm) in [1, 2].into_iter().zip(comms) {
        assert_eq!(net.nodes[at].0.survivors().is_revoked(comm), Ok(true), "at {at}");
    }
}

/// Each process revokes and shrinks, again and again, as programs do; some die meanwhile.
fn shrink_under_deaths(seed: u64) {
    let mut random = Random::new(seed);
    let count = 2 + random.below(5) as usize;
    let mut net = survivors(count, seed);
    net.shared.borrow_mut().full_one_in = [0, 3][random.below(2) as usize];
    let mut live: Vec<usize> = (0..count).collect();
    let mut news: Vec<(usize, usize)> = Vec::new();
    let mut shrinks: Vec<Option<(CommId, RequestId)>> = vec![None; count];
    let mut agrees: Vec<Option<(RequestId, &[u8])>> = vec![None; count];
    for _ in 0..300 {
        let at = live[random.below(live.len() as u64) as usize];
        let process = &mut net.nodes[at].0;
        match random.below(6) {
            0 if random.one_in(3) => process.survivors().revoke(CommId::WORLD).unwrap(),
            1 if shrinks[at].is_none() => {
                let (flag, bytes) = memory(vec![0; 4]);
                let posted = process.survivors().iagree(CommId::WORLD, !(1 << at), flag).unwrap();
                agrees[at] = Some((id(posted), bytes));
                let (made, posted) = process.survivors().ishrink(CommId::WORLD).unwrap();
                shrinks[at] = Some((made, id(posted)));
            }
            2 if live.len() > 1 && random.one_in(6) => {
                live.retain(|other| *other != at);
                news.extend(live.iter().map(|other| (*other, at)));
            }
            3 if !news.is_empty() => {
                let (to, gone) = news.swap_remove(random.below(news.len() as u64) as usize);
                tell(&mut net, to, gone);
            }
            _ => drop(net.progress(at, 1)),
        }
    }
    for &at in &live {
        let process = &mut net.nodes[at].0;
        if shrinks[at].is_none() {
            let (flag, bytes) = memory(vec![0; 4]);
            let posted = process.survivors().iagree(CommId::WORLD, !(1 << at), flag).unwrap();
            agrees[at] = Some((id(posted), bytes));
            let (made, posted) = process.survivors().ishrink(CommId::WORLD).unwrap();
            shrinks[at] = Some((made, id(posted)));
        }
    }
    news.into_iter().filter(|(to, _)| live.contains(to)).for_each(|(to, gone)| tell(&mut net, to, gone));
    settle(&mut net, &live);
    let mut outcomes = Vec::new();
    for &at in &live {
        let (agree, bytes) = agrees[at].unwrap();
        let agreed = (error_of(&mut net, at, agree), bytes.to_vec());
        // Each of those that live has cleared its bit; nobody clears one that is no member's.
        let flag = u32::from_le_bytes(bytes.try_into().unwrap());
        let cleared = live.iter().fold(0, |bits, other| bits | 1 << other);
        assert_eq!((flag & cleared, flag | ((1 << count) - 1)), (0, u32::MAX), "seed {seed} at {at}");
        let (made, request) = shrinks[at].unwrap();
        assert_eq!(error_of(&mut net, at, request), None, "seed {seed} at {at}");
        let made = net.nodes[at].0.comm(made).unwrap();
        let members: Vec<ProcessId> = made.group().iter().collect();
        live.iter().for_each(|other| assert!(members.contains(&ProcessId(*other as u32)), "seed {seed}"));
        outcomes.push((agreed, made.context(), members));
    }
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "seed {seed}: {outcomes:?}");
}

#[test]
fn survivors_shrink_to_one_group_whichever_rank_dies_meanwhile() {
    (0..2_000).for_each(shrink_under_deaths);
}

#[test]
fn communicator_larger_than_one_agreement_shrinks() {
    let mut net = survivors(300, 1);
    let live: Vec<usize> = (0..300).filter(|at| ![0, 255, 256, 299].contains(at)).collect();
    for &at in &live {
        [0, 255, 256, 299].into_iter().for_each(|gone| tell(&mut net, at, gone));
    }
    let mut made = Vec::new();
    for &at in &live {
        made.push((at, net.nodes[at].0.survivors().ishrink(CommId::WORLD).unwrap()));
    }
    settle(&mut net, &live);
    for (rank, (at, (comm, posted))) in made.into_iter().enumerate() {
        assert_eq!(error_of(&mut net, at, id(posted)), None);
        let made = net.nodes[at].0.comm(comm).unwrap();
        assert_eq!((made.size(), made.rank()), (296, rank as u32));
    }
}

/// Adds a communicator of all to each process: its id is the same everywhere.
fn add_comm(net: &mut Net, counter: u32) -> CommId {
    let (count, context) = (net.nodes.len() as u32, ContextId::new(ProcessId(0), counter));
    let comms: Vec<CommId> = (0..count)
        .map(|at| {
            let comm = Communicator::new(context, Group::world(count), at);
            net.nodes[at as usize].0.add_comm(comm)
        })
        .collect();
    assert!(comms.iter().all(|comm| *comm == comms[0]));
    comms[0]
}

#[test]
fn a_revocation_leaves_the_operations_of_other_communicators() {
    let mut net = survivors(2, 1);
    let other = add_comm(&mut net, 9);
    let long = memory(vec![7; 100_000]).0;
    let (sink, bytes) = memory(vec![0; 100_000]);
    let (own, own_bytes) = memory(vec![0; 4]);
    let (process, port) = &mut net.nodes[0];
    let world = CommId::WORLD;
    let synchronous = SendMode::Synchronous;
    let sent = process.isend(port, world, long, 1, 3, synchronous).unwrap();
    let to_self = process.isend(port, world, memory(b"self".to_vec()).0, 0, 4, synchronous).unwrap();
    // On the communicator that is revoked, and on none.
    let ended = process.isend(port, other, memory(b"self".to_vec()).0, 0, 4, synchronous).unwrap();
    let waits = process.irecv(port, world, Buffer::EMPTY, Source::Rank(1), TagSelector::Tag(5)).unwrap();
    let before = process.messages.completion_count;
    process.survivors().revoke(other).unwrap();
    assert!(process.messages.completion_count > before, "waiting callers look again");
    settle(&mut net, &[0, 1]);
    assert_eq!(error_of(&mut net, 0, id(ended)), Some(Error::Revoked));
    let (process, port) = &mut net.nodes[1];
    let received = process.irecv(port, world, sink, Source::Rank(0), TagSelector::Tag(3)).unwrap();
    assert!(process.isend(port, world, Buffer::EMPTY, 0, 5, SendMode::Standard).is_ok());
    let (process, port) = &mut net.nodes[0];
    let own = process.irecv(port, world, own, Source::Rank(0), TagSelector::Tag(4)).unwrap();
    settle(&mut net, &[0, 1]);
    for (at, posted) in [(0, sent), (0, to_self), (0, waits), (1, received)] {
        assert_eq!(error_of(&mut net, at, id(posted)), None);
    }
    if let Posted::Pending(own) = own {
        assert_eq!(error_of(&mut net, 0, own), None);
    }
    assert!(bytes.iter().all(|byte| *byte == 7) && own_bytes == b"self");
}

#[test]
fn a_failure_interrupts_each_communicator_on_its_own() {
    let mut net = survivors(3, 1);
    let other = add_comm(&mut net, 9);
    let (process, port) = &mut net.nodes[0];
    let receive = |process: &mut crate::process::Process, port: &mut _, comm| {
        process.irecv_request(port, comm, Buffer::EMPTY, ANY.0, ANY.1).unwrap()
    };
    let (first, second) = (receive(process, port, CommId::WORLD), receive(process, port, other));
    let counts = |net: &Net| {
        let messages = &net.nodes[0].0.messages;
        (messages.completion_count, messages.failure_count)
    };
    let before = counts(&net);
    tell(&mut net, 0, 1);
    let after = counts(&net);
    assert!(after.0 > before.0 && after.1 > before.1, "waiting callers look again");
    let process = &mut net.nodes[0].0;
    assert!(process.is_complete(first) && process.is_complete(second));
    process.survivors().revoke(other).unwrap();
    assert!(process.is_complete(first), "its failure is not acknowledged");
    assert_eq!(process.survivors().ack_failed(CommId::WORLD, 1), Ok(1));
    assert!(!process.is_complete(first));
    assert_eq!(error_of(&mut net, 0, second), Some(Error::Revoked));
}

/// Failures that were acknowledged in another order than that of the ranks.
#[test]
fn members_agree_on_failures_that_they_learnt_in_any_order() {
    let mut net = survivors(4, 1);
    let mut made = Vec::new();
    for (at, order) in [(0, [3, 1]), (2, [1, 3])] {
        order.into_iter().for_each(|gone| tell(&mut net, at, gone));
        let (into, _) = memory(vec![0; 4]);
        let mut survivors = net.nodes[at].0.survivors();
        assert_eq!(survivors.ack_failed(CommId::WORLD, 2), Ok(2));
        made.push((at, survivors.iagree(CommId::WORLD, 1, into).unwrap()));
        let (comm, shrunk) = survivors.ishrink(CommId::WORLD).unwrap();
        made.push((at, shrunk));
        assert_ne!(comm, CommId::WORLD);
    }
    settle(&mut net, &[0, 2]);
    for (at, posted) in made {
        assert_eq!(error_of(&mut net, at, id(posted)), None);
    }
}

/// Members that fail once they have begun to shrink are left out if one of the others knows of it when it
/// begins.
#[test]
fn a_failure_that_one_member_knows_is_one_for_all_that_shrink() {
    let gone = [65, 130, 200];
    let mut net = survivors(210, 1);
    let live: Vec<usize> = (0..210).filter(|at| !gone.contains(at)).collect();
    for at in gone {
        assert!(net.nodes[at].0.survivors().ishrink(CommId::WORLD).is_ok());
        net.progress(at, 0);
    }
    gone.into_iter().for_each(|gone| tell(&mut net, 209, gone));
    let made: Vec<_> =
        live.iter().map(|&at| (at, net.nodes[at].0.survivors().ishrink(CommId::WORLD).unwrap())).collect();
    settle(&mut net, &live);
    for &at in live.iter().filter(|at| **at != 209) {
        gone.into_iter().for_each(|gone| tell(&mut net, at, gone));
    }
    settle(&mut net, &live);
    for (rank, (at, (comm, posted))) in made.into_iter().enumerate() {
        assert_eq!(error_of(&mut net, at, id(posted)), None);
        let made = net.nodes[at].0.comm(comm).unwrap();
        assert_eq!((made.size(), made.rank()), (207, rank as u32));
    }
}

#[test]
fn a_freed_communicator_leaves_the_failures_of_others() {
    let mut net = survivors(3, 1);
    let other = add_comm(&mut net, 9);
    let (process, port) = &mut net.nodes[0];
    let receive = process.irecv_request(port, CommId::WORLD, Buffer::EMPTY, ANY.0, ANY.1).unwrap();
    tell(&mut net, 0, 1);
    let process = &mut net.nodes[0].0;
    assert_eq!(process.messages.interrupted.len(), 2);
    process.free_comm(other).unwrap();
    assert_eq!(process.messages.interrupted.len(), 1);
    assert!(process.is_complete(receive), "its failure is not acknowledged");
}

#[test]
fn a_revocation_makes_waiting_callers_look_again() {
    let mut net = survivors(2, 1);
    let other = add_comm(&mut net, 9);
    let process = &mut net.nodes[0].0;
    let before = process.messages.completion_count;
    process.survivors().revoke(other).unwrap();
    assert!(process.messages.completion_count > before, "though no request has ended");
    let after = process.messages.completion_count;
    process.survivors().revoke(other).unwrap();
    assert_eq!(process.messages.completion_count, after, "it is revoked already");
}

#[test]
fn a_stranger_revokes_no_communicator() {
    use crate::survive::{Note, What};
    let mut net = survivors(3, 1);
    let context = ContextId::new(ProcessId(0), 9);
    let comm = net.nodes[0].0.add_comm(Communicator::new(context, Group::world(2), 0));
    let (process, port) = &mut net.nodes[2];
    let links = &mut process.messages.links;
    let index = links.to(port, ProcessId(0));
    links.queue_control(index, crate::wire::Header::Note(Note { context, what: What::Revoke }));
    settle(&mut net, &[0, 2]);
    let process = &mut net.nodes[0].0;
    assert_eq!(process.survivors().is_revoked(comm), Ok(false));
    let event = process.poll_event();
    assert!(
        matches!(
            event,
            Some(crate::process::ProcessEvent::PeerLost(ProcessId(2), Error::PeerMisbehaved { .. }))
        ),
        "{event:?}"
    );
}

#[test]
fn of_more_members_than_a_word_has_bits_the_living_are_left() {
    let mut net = survivors(70, 1);
    (1..70).for_each(|gone| tell(&mut net, 0, gone));
    let (shrunk, posted) = net.nodes[0].0.survivors().ishrink(CommId::WORLD).unwrap();
    settle(&mut net, &[0]);
    assert_eq!(error_of(&mut net, 0, id(posted)), None);
    assert_eq!(net.nodes[0].0.comm(shrunk).unwrap().size(), 1);
}

/// Whether a receive from any source is interrupted, or what else comes of it.
fn any_source_error(net: &mut Net, at: usize, comm: CommId) -> Option<Error> {
    let (process, port) = &mut net.nodes[at];
    let request = process.irecv_request(port, comm, Buffer::leaked(4), ANY.0, ANY.1).unwrap();
    process.take(request).unwrap().and_then(|completion| completion.error)
}

#[test]
fn a_shrunk_communicator_knows_of_members_lost_meanwhile() {
    let mut net = survivors(3, 1);
    let shrunk: Vec<_> =
        (0..3).map(|at| net.nodes[at].0.survivors().ishrink(CommId::WORLD).unwrap()).collect();
    net.progress(1, 0);
    settle(&mut net, &[0, 2]);
    tell(&mut net, 1, 2);
    settle(&mut net, &[1, 0]);
    let (comm, posted) = shrunk[1];
    assert_eq!(error_of(&mut net, 1, id(posted)), None);
    assert_eq!(net.nodes[1].0.comm(comm).unwrap().size(), 3, "it lived when that was decided");
    let pending = Some(Error::FailedPending(ProcessId(2)));
    assert_eq!(any_source_error(&mut net, 1, comm), pending);
}

#[test]
fn a_new_communicator_of_a_lost_member_interrupts() {
    let mut net = survivors(3, 1);
    tell(&mut net, 0, 2);
    let process = &mut net.nodes[0].0;
    assert_eq!(process.survivors().ack_failed(CommId::WORLD, 1), Ok(1));
    let made = |number| Communicator::new(ContextId::new(ProcessId(0), number), Group::world(3), 0);
    let [new, other] = [9, 10].map(|number| process.add_comm(made(number)));
    process.survivors().revoke(other).unwrap();
    settle(&mut net, &[0]);
    assert_eq!(any_source_error(&mut net, 0, new), Some(Error::FailedPending(ProcessId(2))));
    assert_eq!(any_source_error(&mut net, 0, CommId::WORLD), None);
    // What was known of one that is freed is forgotten.
    let process = &mut net.nodes[0].0;
    assert_eq!(process.survivors().ack_failed(new, 1), Ok(1));
    process.free_comm(new).unwrap();
    assert_eq!(process.survival.acknowledged.len(), 1);
}

#[test]
fn a_revocation_heard_of_early_is_passed_on_when_it_is_made() {
    let mut net = survivors(3, 1);
    let dup = |net: &mut Net, at: usize| {
        let (process, port) = &mut net.nodes[at];
        process.collectives().icomm_dup(port, CommId::WORLD).unwrap().0
    };
    let comms = [0, 1].map(|at| dup(&mut net, at));
    settle(&mut net, &[0, 1]);
    net.nodes[0].0.survivors().revoke(comms[0]).unwrap();
    settle(&mut net, &[0]);
    // Process 0 is lost before process 1 has heard of it.
    tell(&mut net, 1, 0);
    settle(&mut net, &[1, 2]);
    assert_eq!(net.nodes[1].0.survivors().is_revoked(comms[1]), Ok(false));
    let comm = dup(&mut net, 2);
    settle(&mut net, &[2, 1]);
    assert_eq!(net.nodes[2].0.survivors().is_revoked(comm), Ok(true));
    assert_eq!(net.nodes[1].0.survivors().is_revoked(comms[1]), Ok(true));
}
