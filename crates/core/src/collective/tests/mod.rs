//! Collective operations and the making of communicators among processes on a virtual network.

mod check;
mod inter;
mod rounds;

use crate::buffer::Buffer;
use crate::coll::{self, Blocks};
use crate::datatype::Predefined;
use crate::device::{Event, RailCapabilities, SHORT_HEADER_BYTES};
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ProcessId, RequestId, Source, TagSelector};
use crate::op::{Operation, Reducer};
use crate::process::Process;
use crate::process::tests::net::{Net, Port, memory};
use crate::request::{Completion, Posted, SendMode};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

fn id_of(posted: Posted) -> Option<RequestId> {
    match posted {
        Posted::Pending(id) => Some(id),
        Posted::Done(completion) => {
            assert_eq!(completion, Completion::EMPTY);
            None
        }
    }
}

impl Net {
    /// Starts something at each process, in random order, and runs all of it to the end.
    fn everywhere(
        &mut self,
        random: &mut Random,
        mut start: impl FnMut(usize, &mut Process, &mut Port) -> Posted,
    ) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let mut pending = vec![];
        for at in order {
            let (process, port) = &mut self.nodes[at];
            pending.push((at, id_of(start(at, process, port))));
            self.progress(random.below(self.nodes.len() as u64) as usize, random.below(5) as u32);
        }
        self.settle();
        for (at, id) in pending {
            if let Some(id) = id {
                let completion = self.nodes[at].0.take(id).unwrap();
                assert_eq!(completion, Some(Completion::EMPTY), "process {at} never ends");
            }
        }
    }

    fn nothing_left(&self) {
        for (at, (process, port)) in self.nodes.iter().enumerate() {
            let counts = process.counts();
            assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0), "at {at}");
            assert_eq!(port.registered_count(), 0);
        }
    }

    /// Sums one number of each process of a communicator, over and over, several at a time.
    fn sum(&mut self, random: &mut Random, comm: CommId, members: &[usize]) {
        let reducer = Reducer::predefined(Operation::Sum, Predefined::Uint64).unwrap();
        let mut results = vec![];
        let mut pending = vec![];
        for round in 0..3u64 {
            for &at in members {
                let (process, port) = &mut self.nodes[at];
                let communicator = process.comm(comm).unwrap();
                let context = coll::Context { rank: communicator.rank(), size: communicator.size() };
                let length = 1 + 20 * round as usize;
                let own = (at as u64 + 100 * round).to_le_bytes().repeat(length);
                let (send, (receive, bytes)) = (memory(own).0, memory(vec![0; 8 * length]));
                let question = coll::select::Question {
                    collective: coll::select::Collective::Allreduce,
                    bytes: 8 * length,
                    size: context.size,
                    commutative: true,
                };
                let choice = coll::select::choose(&question, &coll::select::Fabric::default());
                let schedule =
                    coll::allreduce(process.schedule_pool(), context, Some(send), receive, &reducer, choice);
                let posted = process.collectives().start(port, comm, schedule.unwrap()).unwrap();
                pending.push((at, id_of(posted)));
                results.push((round, bytes));
            }
            self.progress(random.below(self.nodes.len() as u64) as usize, 3);
        }
        self.settle();
        for (at, id) in pending {
            assert!(id.is_none_or(|id| self.nodes[at].0.take(id).unwrap().is_some()), "at {at}");
        }
        for (round, bytes) in results {
            let expected: u64 = members.iter().map(|&at| at as u64 + 100 * round).sum();
            assert_eq!(bytes, expected.to_le_bytes().repeat(bytes.len() / 8));
        }
    }
}

#[test]
fn collectives_under_way_together_do_not_mix() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(9) as usize;
        let mut net = Net::of_short_packets(count, seed);
        let all: Vec<usize> = (0..count).collect();
        net.sum(&mut random, CommId::WORLD, &all);
        net.nothing_left();
    }
}

#[test]
fn duplicates_have_the_same_members_and_another_context() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(8) as usize;
        let mut net = Net::of_short_packets(count, seed);
        let mut made = vec![CommId::WORLD; count];
        net.everywhere(&mut random, |at, process, port| {
            let (comm, posted) = process.collectives().icomm_dup(port, CommId::WORLD).unwrap();
            made[at] = comm;
            posted
        });
        assert!(made.iter().all(|&comm| comm == made[0]));
        for (process, _) in &net.nodes {
            let (world, copy) = (process.comm(CommId::WORLD).unwrap(), process.comm(made[0]).unwrap());
            assert_eq!((world.rank(), world.size()), (copy.rank(), copy.size()));
            assert_ne!(world.context(), copy.context());
        }
        let all: Vec<usize> = (0..count).collect();
        net.sum(&mut random, made[0], &all);
        net.nothing_left();
    }
}

#[test]
fn a_split_groups_by_color_and_ranks_by_key_then_old_rank() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(9) as usize;
        let mut net = Net::of_short_packets(count, seed);
        let wishes: Vec<(Option<u32>, i32)> = (0..count)
            .map(|_| ((!random.one_in(5)).then(|| random.below(3) as u32), random.below(3) as i32 - 1))
            .collect();
        let mut made = vec![CommId::WORLD; count];
        net.everywhere(&mut random, |at, process, port| {
            let (comm, posted) =
                process.collectives().icomm_split(port, CommId::WORLD, wishes[at].0, wishes[at].1).unwrap();
            made[at] = comm;
            posted
        });
        for color in 0..3 {
            let mut members: Vec<usize> = (0..count).filter(|&at| wishes[at].0 == Some(color)).collect();
            members.sort_by_key(|&at| (wishes[at].1, at));
            for (rank, &at) in members.iter().enumerate() {
                let communicator = net.nodes[at].0.comm(made[at]).unwrap();
                assert_eq!(communicator.rank() as usize, rank);
                assert!(communicator.group().iter().map(|p| p.0 as usize).eq(members.iter().copied()));
            }
            if !members.is_empty() {
                net.sum(&mut random, made[members[0]], &members);
            }
        }
        for at in (0..count).filter(|&at| wishes[at].0.is_none()) {
            assert_eq!(net.nodes[at].0.comm(made[at]).unwrap_err(), Error::Comm);
        }
        net.nothing_left();
    }
}

#[test]
fn communicators_of_groups_are_made_by_all_or_by_members_alone() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(7) as usize;
        let mut net = Net::of_short_packets(count, seed);
        // Backwards, every second process; the others make one of their own meanwhile.
        let half = |odd: usize| -> Vec<ProcessId> {
            (0..count).rev().filter(|at| at % 2 == odd).map(|at| ProcessId(at as u32)).collect()
        };
        let by_all = seed % 2 == 0;
        let mut made = vec![None; count];
        net.everywhere(&mut random, |at, process, port| {
            let group = Group::from_members(half(at % 2)).unwrap();
            let (comm, posted) = if by_all {
                process.collectives().icomm_create(port, CommId::WORLD, &group).unwrap().unwrap()
            } else {
                process.collectives().icomm_create_group(port, CommId::WORLD, &group, 7).unwrap().unwrap()
            };
            made[at] = Some(comm);
            posted
        });
        for odd in 0..2 {
            let members: Vec<usize> = half(odd).iter().map(|p| p.0 as usize).collect();
            net.sum(&mut random, made[members[0]].unwrap(), &members);
        }
        net.nothing_left();
    }
}

/// Each group's rank 0 sends the context: named by rank, two leaders looked alike, and 2 took the second
/// one's.
#[test]
fn overlapping_groups_with_one_tag_make_their_own_comms() {
    let mut net = Net::of_short_packets(3, 0);
    let group = |members: [u32; 2]| Group::from_members(members.map(ProcessId).to_vec()).unwrap();
    let create = |net: &mut Net, at: usize, members| {
        let (process, port) = &mut net.nodes[at];
        process.collectives().icomm_create_group(port, CommId::WORLD, &group(members), 7).unwrap().unwrap()
    };
    // 0 is early: its message is at 2 before that of 1, which 2 waits for first.
    let (late, _) = create(&mut net, 0, [0, 2]);
    net.settle();
    let (first, _) = create(&mut net, 2, [1, 2]);
    net.settle();
    let (of_one, _) = create(&mut net, 1, [1, 2]);
    net.settle();
    let (second, _) = create(&mut net, 2, [0, 2]);
    net.settle();
    let context = |net: &Net, at: usize, comm| net.nodes[at].0.comm(comm).unwrap().context();
    assert_eq!(context(&net, 2, first), context(&net, 1, of_one));
    assert_eq!(context(&net, 2, second), context(&net, 0, late));
}

/// They matched in the order of starts, which may differ, and swapped their data.
#[test]
fn persistent_collectives_match_in_the_order_they_were_made() {
    let mut net = Net::of_short_packets(2, 0);
    let mut ids = vec![];
    for (process, _) in &mut net.nodes {
        let made = [(); 2].map(|()| process.collectives().reserve(CommId::WORLD).unwrap());
        assert_ne!(made[0], made[1]);
        ids.push(made);
    }
    assert_eq!(ids[0], ids[1]);
    let mut received = vec![];
    for (at, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
        for which in order {
            let (process, port) = &mut net.nodes[at];
            let (buffer, bytes) = memory(vec![if at == 0 { which as u8 + 1 } else { 0 }; 300]);
            let context = coll::Context { rank: at as u32, size: 2 };
            let choice = coll::Choice { algorithm: coll::Algorithm::Binomial, segment_bytes: 0 };
            let schedule = coll::bcast(process.schedule_pool(), context, buffer, 0, choice).unwrap();
            let id = ids[at][which];
            let _ = process.collectives().start_reserved(port, CommId::WORLD, schedule, id).unwrap();
            received.push((which, bytes));
        }
    }
    net.settle();
    for (which, bytes) in received {
        assert_eq!(bytes, vec![which as u8 + 1; 300]);
    }
}

#[test]
fn an_operation_whose_messages_were_there_owes_no_credit() {
    const BYTES: usize = 64 << 10;
    let rail = RailCapabilities {
        packet_bytes_max: BYTES + SHORT_HEADER_BYTES,
        eager_bytes_max: BYTES,
        ..RailCapabilities::default()
    };
    let mut net = Net::new(2, 1, rail);
    // A quarter of what a sender may have outstanding, for which credit is due.
    for (at, value) in [1, 0].into_iter().enumerate() {
        net.progress(at, 1);
        let (process, port) = &mut net.nodes[at];
        let (buffer, bytes) = memory(vec![value; BYTES]);
        let context = coll::Context { rank: at as u32, size: 2 };
        let choice = coll::Choice { algorithm: coll::Algorithm::Binomial, segment_bytes: 0 };
        let schedule = coll::bcast(process.schedule_pool(), context, buffer, 0, choice).unwrap();
        // As a blocking call does it.
        if let Posted::Pending(id) = process.collectives().start(port, CommId::WORLD, schedule).unwrap() {
            process.progress(port);
            assert_eq!(process.take(id), Ok(Some(Completion::EMPTY)));
        }
        assert_eq!(bytes, vec![1; BYTES]);
        assert!(!process.is_busy(), "{at} leaves something to be done");
        assert_eq!(process.credit(ProcessId(1 - at as u32)).map(|(_, owed)| owed), Some(0));
    }
}

#[test]
fn a_freed_communicator_is_gone_and_the_predefined_ones_stay() {
    let mut net = Net::of_short_packets(1, 0);
    let (process, port) = &mut net.nodes[0];
    let (comm, _) = process.collectives().icomm_dup(port, CommId::WORLD).unwrap();
    process.free_comm(comm).unwrap();
    assert_eq!(process.free_comm(comm), Err(Error::Comm));
    assert_eq!(process.free_comm(CommId::WORLD), Err(Error::Comm));
    let sent = process.isend(port, comm, Buffer::EMPTY, 0, 0, SendMode::Standard);
    assert_eq!(sent, Err(Error::Comm));
}

#[test]
fn collective_with_a_dead_member_fails_and_leaves_nothing() {
    let mut net = Net::of_short_packets(3, 0);
    let (process, port) = &mut net.nodes[0];
    let (send, receive) = (memory(vec![1; 4000]).0, memory(vec![0; 12_000]).0);
    let context = coll::Context { rank: 0, size: 3 };
    let choice = coll::Choice { algorithm: coll::Algorithm::Ring, segment_bytes: 0 };
    let pool = process.schedule_pool();
    let schedule = coll::allgather(pool, context, Some(send), Blocks::Uniform(receive), choice).unwrap();
    let Posted::Pending(id) = process.collectives().start(port, CommId::WORLD, schedule).unwrap() else {
        panic!("nobody else is there")
    };
    process.handle_event(port, Event::PeerGone(ProcessId(1)));
    process.handle_event(port, Event::PeerGone(ProcessId(2)));
    process.progress(port);
    let error = process.take(id).unwrap().expect("over").error;
    assert!(matches!(error, Some(Error::ProcessAborted(_))), "{error:?}");
    assert_eq!(process.counts().posted, 0);
    let receive = process.irecv(port, CommId::WORLD, Buffer::EMPTY, Source::Rank(1), TagSelector::Any);
    assert_eq!(receive, Err(Error::ProcessAborted(ProcessId(1))));
}

/// Found by fault runs, seed 11: members that did exchange something with it had given up, and were waited
/// for.
#[test]
fn collective_ends_when_a_member_that_is_no_partner_dies() {
    let mut net = Net::of_short_packets(3, 0);
    let (process, port) = &mut net.nodes[2];
    let context = coll::Context { rank: 2, size: 3 };
    // In a chain from 0 the last one hears of 1 only.
    let choice = coll::Choice { algorithm: coll::Algorithm::Chain, segment_bytes: 64 };
    let pool = process.schedule_pool();
    let schedule = coll::bcast(pool, context, memory(vec![0; 200]).0, 0, choice).unwrap();
    let Posted::Pending(id) = process.collectives().start(port, CommId::WORLD, schedule).unwrap() else {
        panic!("nobody else is there")
    };
    process.handle_event(port, Event::PeerGone(ProcessId(0)));
    process.progress(port);
    let error = process.take(id).unwrap().expect("over").error;
    assert_eq!(error, Some(Error::ProcessAborted(ProcessId(0))));
    assert_eq!((process.counts().requests, process.counts().posted), (0, 0));
}

/// The user may reuse the buffers when told of the failure: no message may still work in them.
#[test]
fn failed_collective_ends_when_no_message_uses_its_buffers() {
    let rail =
        RailCapabilities { packet_bytes_max: 160, eager_bytes_max: 100, ..RailCapabilities::default() };
    for (get, put) in [(true, false), (false, true)] {
        let mut net = Net::new(3, 1, RailCapabilities { get, put, ..rail });
        net.shared.borrow_mut().transfers_taken_max = Some(100);
        let mut started = vec![];
        for (rank, (process, port)) in net.nodes.iter_mut().enumerate() {
            let (send, receive) = (memory(vec![rank as u8; 3000]).0, memory(vec![9; 3000]).0);
            let context = coll::Context { rank: rank as u32, size: 3 };
            let choice = coll::Choice { algorithm: coll::Algorithm::Linear, segment_bytes: 0 };
            let (send, receive) = (Blocks::Uniform(send), Blocks::Uniform(receive));
            let schedule =
                coll::alltoall(process.schedule_pool(), context, Some(send), receive, choice).unwrap();
            started.push(id_of(process.collectives().start(port, CommId::WORLD, schedule).unwrap()).unwrap());
        }
        // Everything is announced and matched; gets (or puts) are under way and take their time.
        net.settle();
        net.forget_transfers_of(ProcessId(2));
        for (process, port) in &mut net.nodes[..2] {
            process.handle_event(port, Event::PeerGone(ProcessId(2)));
        }
        for _ in 0..20 {
            net.progress(0, 100);
            net.progress(1, 100);
        }
        for (at, &id) in started.iter().enumerate().take(2) {
            assert!(!net.nodes[at].0.is_complete(id), "{at}: gets or puts still use its buffers");
        }
        net.finish_transfers();
        for _ in 0..20 {
            net.progress(0, 100);
            net.progress(1, 100);
        }
        for (at, &id) in started.iter().enumerate().take(2) {
            let process = &mut net.nodes[at].0;
            let error = process.take(id).unwrap().expect("over").error;
            assert_eq!(error, Some(Error::ProcessAborted(ProcessId(2))));
            assert_eq!((process.counts().requests, process.counts().posted), (0, 0));
        }
    }
}

/// Unmatched messages do not delay the failure: they are cancelled.
#[test]
fn failed_collective_takes_back_unreceived_messages() {
    let rail = RailCapabilities { eager_bytes_max: 100, get: true, ..RailCapabilities::default() };
    let mut net = Net::new(3, 1, rail);
    let (process, port) = &mut net.nodes[0];
    let context = coll::Context { rank: 0, size: 3 };
    let choice = coll::Choice { algorithm: coll::Algorithm::Linear, segment_bytes: 0 };
    let (send, receive) = (memory(vec![1; 3000]).0, memory(vec![0; 3000]).0);
    let (send, receive) = (Blocks::Uniform(send), Blocks::Uniform(receive));
    let schedule = coll::alltoall(process.schedule_pool(), context, Some(send), receive, choice).unwrap();
    let id = id_of(process.collectives().start(port, CommId::WORLD, schedule).unwrap()).unwrap();
    net.progress(1, 100);
    let (process, port) = &mut net.nodes[0];
    process.handle_event(port, Event::PeerGone(ProcessId(2)));
    process.progress(port);
    assert!(!process.is_complete(id), "process 1 could still get the message announced to it");
    for _ in 0..5 {
        net.progress(1, 100);
        net.progress(0, 100);
    }
    let process = &mut net.nodes[0].0;
    let error = process.take(id).unwrap().expect("over").error;
    assert_eq!(error, Some(Error::ProcessAborted(ProcessId(2))));
    assert_eq!(process.counts().requests, 0);
    assert_eq!(net.nodes[0].1.registered_count(), 0);
}

#[test]
fn long_keys_of_a_split_are_compared_whole() {
    let mut net = Net::of_short_packets(2, 0);
    let mut made = CommId::WORLD;
    net.everywhere(&mut Random::new(1), |at, process, port| {
        let (comm, posted) =
            process.collectives().icomm_split(port, CommId::WORLD, Some(1), [1 << 16, 0][at]).unwrap();
        made = comm;
        posted
    });
    let ranks = [0, 1].map(|at| net.nodes[at].0.comm(made).unwrap().rank());
    assert_eq!(ranks, [1, 0]);
}

#[test]
fn a_group_has_members_of_the_communicator_only() {
    let mut net = Net::of_short_packets(2, 0);
    let (process, port) = &mut net.nodes[0];
    let made = process.collectives().icomm_create_group(port, CommId::SELF, &Group::world(2), 0);
    assert_eq!(made, Err(Error::Group));
}

#[test]
fn two_makings_by_one_name_do_not_mix() {
    for seed in 0..6 {
        let mut net = Net::of_short_packets(3, seed);
        let (name, group) = (b"name", Group::world(2));
        let other = Group::from_members([ProcessId(2)].into()).unwrap();
        let mut pending = vec![];
        for (at, is_inter) in [(0, false), (0, true), (1, true), (1, false), (2, true)] {
            let (process, port) = &mut net.nodes[at];
            let (own, remote) = if at == 2 { (&other, &group) } else { (&group, &other) };
            let remote = (at != 1).then_some((remote, 0));
            let made = match is_inter {
                false => process.collectives().icomm_of_group(port, &group, name).map(Option::unwrap),
                true => process.collectives().icomm_inter_of_groups(port, (own, 0), remote, name),
            };
            let (comm, posted) = made.unwrap();
            pending.push((at, comm, id_of(posted)));
        }
        net.settle();
        for (at, comm, id) in pending {
            let process = &mut net.nodes[at].0;
            assert!(id.is_none_or(|id| process.take(id).unwrap() == Some(Completion::EMPTY)), "seed {seed}");
            assert!(process.comm(comm).is_ok(), "seed {seed}");
        }
    }
}
