//! Operations that their caller waits for, round by round.

use super::*;
use crate::coll::{Algorithm, Choice, Collective, Context, Schedule};
use crate::explain::{Label, Need};

const SUM: fn() -> Reducer = || Reducer::predefined(Operation::Sum, Predefined::Uint64).unwrap();

fn choice(algorithm: Algorithm) -> Choice {
    Choice { algorithm, segment_bytes: 0 }
}

/// An allreduce of numbers that are all `value`; the result's memory.
fn allreduce(process: &mut Process, value: u64, count: usize) -> (Schedule, &'static [u8]) {
    let communicator = process.comm(CommId::WORLD).unwrap();
    let context = Context { rank: communicator.rank(), size: communicator.size() };
    let send = memory(value.to_le_bytes().repeat(count)).0;
    let (receive, bytes) = memory(vec![0; 8 * count]);
    let pool = process.schedule_pool();
    let by = choice(Algorithm::RecursiveDoubling);
    (coll::allreduce(pool, context, Some(send), receive, &SUM(), by).unwrap(), bytes)
}

impl Net {
    /// As a blocking call does it: makes progress where it waits. What the operation ended with, if it is
    /// over.
    fn go_on(&mut self, at: usize, packets: u32) -> Option<Completion> {
        self.progress(at, packets);
        let (process, port) = &mut self.nodes[at];
        if process.poll_run() { process.go_on_with_run(port) } else { None }
    }
}

/// Some members run it, others start it; some messages come early, some announced.
#[test]
fn members_may_run_an_operation_or_start_it() {
    let mut random = Random::new(7);
    let mut run_count = 0;
    for seed in 0..200 {
        let count = 1 + random.below(9) as usize;
        let mut net = Net::of_short_packets(count, seed);
        net.shared.borrow_mut().full_one_in = [0, 2, 3, 4][seed as usize % 4];
        let length = [1, 12, 300][random.below(3) as usize];
        for turn in 0..3 {
            let mut results = vec![];
            let (mut running, mut pending) = (vec![], vec![]);
            for at in 0..count {
                let (process, port) = &mut net.nodes[at];
                let (schedule, bytes) = allreduce(process, at as u64 + turn, length);
                assert!(schedule.is_in_rounds());
                results.push(bytes);
                if random.one_in(3) {
                    let posted = process.collectives().start(port, CommId::WORLD, schedule).unwrap();
                    pending.extend(id_of(posted).map(|id| (at, id)));
                    continue;
                }
                run_count += 1;
                match process.run_collective(port, CommId::WORLD, schedule).unwrap() {
                    Some(completion) => assert_eq!(completion, Completion::EMPTY),
                    None => running.push(at),
                }
                assert_eq!(process.is_running_collective(), running.last() == Some(&at));
            }
            for _ in 0..100_000 {
                if running.is_empty() {
                    break;
                }
                let at = random.below(count as u64) as usize;
                let packets = random.below(4) as u32;
                match running.iter().position(|&running| running == at) {
                    Some(which) => {
                        if let Some(completion) = net.go_on(at, packets) {
                            assert_eq!(completion, Completion::EMPTY);
                            running.remove(which);
                        }
                    }
                    None => drop(net.progress(at, packets)),
                }
            }
            assert_eq!(running, []);
            net.settle();
            for (at, id) in pending {
                assert_eq!(net.nodes[at].0.take(id), Ok(Some(Completion::EMPTY)));
            }
            let expected: u64 = (0..count as u64).map(|at| at + turn).sum();
            for bytes in results {
                assert_eq!(bytes, expected.to_le_bytes().repeat(length), "seed {seed}");
            }
        }
        net.nothing_left();
    }
    assert!(run_count > 1_000);
}

#[test]
fn schedules_with_several_receives_or_edges_are_not_in_rounds() {
    let context = Context { rank: 0, size: 4 };
    let is_in_rounds = |algorithm| {
        let [send, receive] = [4_000; 2].map(Buffer::virtual_of);
        let pool = &mut coll::Pool::default();
        let schedule = match algorithm {
            Algorithm::Linear | Algorithm::Pairwise => {
                let [send, receive] = [send, receive].map(Blocks::Uniform);
                coll::alltoall(pool, context, Some(send), receive, choice(algorithm))
            }
            _ => coll::allreduce(pool, context, Some(send), receive, &SUM(), choice(algorithm)),
        };
        schedule.unwrap().is_in_rounds()
    };
    assert!(is_in_rounds(Algorithm::Pairwise) && is_in_rounds(Algorithm::RecursiveDoubling));
    assert!(!is_in_rounds(Algorithm::Linear), "several receives at once");
    assert!(!is_in_rounds(Algorithm::Ring), "edges");
    // One whose memory was that of such a schedule begins anew.
    let mut pool = coll::Pool::default();
    let builder = |pool: &mut coll::Pool, receives: &[bool]| {
        let mut builder = coll::Builder::new(pool, true);
        for &is_after_fence in receives {
            if is_after_fence {
                builder.fence();
            }
            builder.receive(1, Buffer::virtual_of(1));
        }
        builder
    };
    let several = builder(&mut pool, &[false, true, false]).finish();
    assert!(!several.is_in_rounds());
    pool.recycle(several);
    let one_each = builder(&mut pool, &[false, true, true]).finish();
    assert!(one_each.is_in_rounds());
    // What is appended begins a round, and may end with a receive.
    let mut whole = builder(&mut pool, &[false]);
    whole.append(&mut pool, one_each, |rank| rank);
    whole.send(1, Buffer::virtual_of(1));
    whole.fence();
    whole.receive(1, Buffer::virtual_of(1));
    assert!(whole.finish().is_in_rounds());
    let after = |pool: &mut coll::Pool, part: &[bool], then_receives: bool| {
        let part = builder(pool, part).finish();
        let mut whole = builder(pool, &[]);
        whole.send(1, Buffer::virtual_of(1));
        whole.append(pool, part, |rank| rank);
        if then_receives {
            whole.receive(1, Buffer::virtual_of(1));
        }
        whole.finish().is_in_rounds()
    };
    let pool = &mut coll::Pool::default();
    assert!(after(pool, &[false], false) && !after(pool, &[false], true));
    assert!(!after(pool, &[false, false], false));
}

#[test]
fn an_operation_run_ends_where_any_member_dies() {
    for dead in [1, 2, 3] {
        let mut net = Net::of_short_packets(4, 0);
        let (process, port) = &mut net.nodes[0];
        let (schedule, _) = allreduce(process, 1, 5);
        assert_eq!(process.run_collective(port, CommId::WORLD, schedule), Ok(None));
        assert!(!process.poll_run());
        process.handle_event(port, Event::PeerGone(ProcessId(dead)));
        assert_eq!(net.go_on(0, 1), Some(Completion::failed(Error::ProcessAborted(ProcessId(dead)))));
        // The next one fails at once.
        let (process, port) = &mut net.nodes[0];
        let (schedule, _) = allreduce(process, 1, 5);
        let ended = process.run_collective(port, CommId::WORLD, schedule).unwrap();
        assert_eq!(ended, Some(Completion::failed(Error::ProcessAborted(ProcessId(dead)))));
        let counts = process.counts();
        assert_eq!((counts.requests, counts.posted), (0, 0));
    }
}

/// It takes back what nobody has received, and waits for what still uses its buffers.
#[test]
fn an_operation_run_that_fails_waits_for_its_messages() {
    let rail = RailCapabilities { eager_bytes_max: 100, get: true, ..RailCapabilities::default() };
    let mut net = Net::new(3, 1, rail);
    let (process, port) = &mut net.nodes[0];
    let (send, receive) = (memory(vec![1; 3000]).0, memory(vec![0; 3000]).0);
    let [send, receive] = [send, receive].map(Blocks::Uniform);
    let (context, by) = (Context { rank: 0, size: 3 }, choice(Algorithm::Pairwise));
    let schedule = coll::alltoall(process.schedule_pool(), context, Some(send), receive, by).unwrap();
    assert_eq!(process.run_collective(port, CommId::WORLD, schedule), Ok(None));
    net.progress(1, 100);
    let (process, port) = &mut net.nodes[0];
    process.handle_event(port, Event::PeerGone(ProcessId(2)));
    assert_eq!(net.go_on(0, 100), None, "process 1 could still get the message announced to it");
    for _ in 0..5 {
        net.progress(1, 100);
        net.progress(0, 100);
    }
    let ended = net.go_on(0, 100);
    assert_eq!(ended, Some(Completion::failed(Error::ProcessAborted(ProcessId(2)))));
    assert_eq!((net.nodes[0].0.counts().requests, net.nodes[0].1.registered_count()), (0, 0));
}

/// Messages of other lengths than expected: an error of the program's.
#[test]
fn a_message_that_does_not_fit_fails_the_operation_run() {
    for is_early in [true, false] {
        let mut net = Net::of_short_packets(2, 0);
        let run = |net: &mut Net, at: usize, bytes: usize| {
            let (process, port) = &mut net.nodes[at];
            let context = Context { rank: at as u32, size: 2 };
            let buffer = memory(vec![0; bytes]).0;
            let by = choice(Algorithm::Binomial);
            let schedule = coll::bcast(process.schedule_pool(), context, buffer, 0, by).unwrap();
            process.run_collective(port, CommId::WORLD, schedule).unwrap()
        };
        let run_receiver = |net: &mut Net| run(net, 1, 4);
        let early = (!is_early).then(|| run_receiver(&mut net));
        assert_eq!(run(&mut net, 0, 8), Some(Completion::EMPTY));
        if is_early {
            net.progress(1, 1);
        }
        let ended = early.unwrap_or_else(|| run_receiver(&mut net)).or_else(|| net.go_on(1, 1));
        let error = Error::Truncate { message_bytes: 8, buffer_bytes: 4 };
        assert_eq!(ended, Some(Completion::failed(error)));
        net.nothing_left();
    }
}

#[test]
fn the_needs_of_an_operation_run_are_explained() {
    let mut net = Net::of_short_packets(3, 0);
    net.shared.borrow_mut().full_one_in = 1;
    let (process, port) = &mut net.nodes[0];
    assert_eq!(process.need_of_run(), None);
    let label = Label { collective: Collective::Barrier, bytes: 0, root: None };
    let context = Context { rank: 0, size: 3 };
    let by = choice(Algorithm::Dissemination);
    let mut schedule = coll::barrier(process.schedule_pool(), context, by).unwrap();
    schedule.set_label(label);
    assert_eq!(process.run_collective(port, CommId::WORLD, schedule), Ok(None));
    let Some(Need::Collective(state)) = process.need_of_run() else { panic!() };
    assert_eq!((state.number, state.label), (0, Some(label)));
    let [Need::Message(wanted), Need::Progress { peer }] = &state.needs[..] else { panic!("{state:?}") };
    assert_eq!((wanted.source, *peer), (Some(ProcessId(2)), ProcessId(1)));
    assert_eq!(process.explain().posted.count, 0, "messages of collective operations are not the user's");
}

/// A short message is sent after a long one to the same peer, which has to be announced.
#[test]
fn messages_of_a_round_to_one_peer_keep_their_order() {
    let mut net = Net::of_short_packets(2, 0);
    let lengths = [3_000, 8];
    let mut received = vec![];
    for (at, is_sender) in [true, false].into_iter().enumerate() {
        let (process, port) = &mut net.nodes[at];
        let mut builder = coll::Builder::new(process.schedule_pool(), false);
        for (value, bytes) in lengths.into_iter().enumerate() {
            let (buffer, read) = memory(vec![if is_sender { 1 + value as u8 } else { 0 }; bytes]);
            if is_sender {
                builder.send(1, buffer);
            } else {
                builder.receive(0, buffer);
                builder.fence();
                received.push((value, read));
            }
        }
        let schedule = builder.finish();
        assert!(schedule.is_in_rounds());
        assert_eq!(process.run_collective(port, CommId::WORLD, schedule), Ok(None));
    }
    let mut ended = [None; 2];
    for _ in 0..20 {
        for at in [1, 0] {
            ended[at] = ended[at].or_else(|| net.go_on(at, 10));
        }
    }
    assert_eq!(ended, [Some(Completion::EMPTY); 2]);
    for (value, read) in received {
        assert_eq!(read, vec![1 + value as u8; lengths[value]]);
    }
}

/// A peer has left in order, and others are there: what is sent to it and received from it fails at once.
#[test]
fn an_operation_run_fails_where_a_peer_has_left() {
    for (to, from) in [(1, 2), (2, 1)] {
        let rail = RailCapabilities { eager_bytes_max: 100, ..RailCapabilities::default() };
        let mut net = Net::new(3, 1, rail);
        let (process, port) = &mut net.nodes[0];
        process.handle_event(port, Event::PeerLeft(ProcessId(1)));
        let mut builder = coll::Builder::new(process.schedule_pool(), false);
        builder.receive(from, memory(vec![0; 300]).0);
        builder.send(to, memory(vec![1; 300]).0);
        let schedule = builder.finish();
        let ended = process.run_collective(port, CommId::WORLD, schedule).unwrap();
        let ended = ended.or_else(|| net.go_on(0, 10));
        assert_eq!(ended, Some(Completion::failed(Error::Unreachable(ProcessId(1)))), "to {to}");
        net.nothing_left();
        let process = &mut net.nodes[0].0;
        assert!(process.may_run_collective() && process.need_of_direct().is_none());
    }
}

#[test]
fn where_no_operation_is_run_a_direct_receive_is_left_alone() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    assert!(!process.poll_run() && process.may_run_collective());
    let (from, tag) = (Source::Rank(1), TagSelector::Any);
    assert_eq!(process.receive_direct(port, CommId::WORLD, memory(vec![0; 4]).0, from, tag), Ok(false));
    assert!(!process.may_run_collective());
    assert_eq!(process.counts().requests, 1, "the receive is under way");
    let (process, port) = &mut net.nodes[1];
    let _ = process.isend(port, CommId::WORLD, memory(vec![1; 4]).0, 0, 0, SendMode::Standard).unwrap();
    net.settle();
    let process = &mut net.nodes[0].0;
    assert!(!process.poll_run() && process.poll_direct());
}

#[test]
fn the_memory_of_an_operation_run_is_used_again() {
    let mut net = Net::of_short_packets(1, 0);
    let (process, port) = &mut net.nodes[0];
    let mut builder = coll::Builder::new(process.schedule_pool(), false);
    let own = builder.scratch(64);
    builder.copy(own.part(0, 8), own.part(8, 8));
    let ended = process.run_collective(port, CommId::WORLD, builder.finish());
    assert_eq!(ended, Ok(Some(Completion::EMPTY)));
    assert!(coll::Builder::new(process.schedule_pool(), false).finish().scratch_bytes() >= 64);
}

/// So a caller that waits goes on at once.
#[test]
fn the_end_of_a_queued_send_is_something_that_happened() {
    let mut net = Net::of_short_packets(2, 0);
    net.shared.borrow_mut().full_one_in = 1;
    let (process, port) = &mut net.nodes[0];
    let mut builder = coll::Builder::new(process.schedule_pool(), false);
    builder.send(1, memory(vec![1; 8]).0);
    assert_eq!(process.run_collective(port, CommId::WORLD, builder.finish()), Ok(None));
    net.shared.borrow_mut().full_one_in = 0;
    let (process, port) = &mut net.nodes[0];
    assert!(process.poll_transmit(port), "the packet leaves");
    assert!(!process.poll_run() && process.wants_transmit());
    assert!(process.poll_transmit(port), "its end is told");
    assert!(process.poll_run());
    assert_eq!(process.go_on_with_run(port), Some(Completion::EMPTY));
}
