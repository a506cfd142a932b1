//! Inter-communicators: how two groups make one, and what is made of it.

use crate::coll::across::{self, Part};
use crate::coll::{self, Collective};
use crate::device::Event;
use crate::error::Error;
use crate::group::Group;
use crate::ids::{CommId, ProcessId, Rank, RequestId, Source, Tag, TagSelector};
use crate::process::tests::net::{Net, Port, memory};
use crate::process::{OtherLeader, Process};
use crate::request::{Completion, Origin, Posted, SendMode};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

/// Starts something at some processes, in random order, and runs all of it to the end.
fn together(
    net: &mut Net,
    random: &mut Random,
    mut members: Vec<usize>,
    mut start: impl FnMut(usize, &mut Process, &mut Port) -> (CommId, Posted),
) -> Vec<Option<(CommId, Completion)>> {
    for i in (1..members.len()).rev() {
        members.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut made = vec![None; net.nodes.len()];
    let mut pending: Vec<(usize, CommId, RequestId)> = vec![];
    for at in members {
        let (process, port) = &mut net.nodes[at];
        match start(at, process, port) {
            (comm, Posted::Done(completion)) => made[at] = Some((comm, completion)),
            (comm, Posted::Pending(id)) => pending.push((at, comm, id)),
        }
        let node = random.below(net.nodes.len() as u64) as usize;
        net.progress(node, random.below(5) as u32);
    }
    net.settle();
    for (at, comm, id) in pending {
        let completion = net.nodes[at].0.take(id).unwrap().unwrap_or_else(|| panic!("{at} never ends"));
        made[at] = Some((comm, completion));
    }
    made
}

fn ids(made: &[Option<(CommId, Completion)>]) -> Vec<CommId> {
    let id = |made: &Option<(CommId, Completion)>| match made {
        Some((comm, completion)) => {
            assert_eq!(*completion, Completion::EMPTY);
            *comm
        }
        None => CommId(u32::MAX),
    };
    made.iter().map(id).collect()
}

/// Two groups of a world, each with a communicator, and an inter-communicator of both.
struct Pair {
    net: Net,
    random: Random,
    groups: [Vec<usize>; 2],
    local: Vec<CommId>,
    inter: Vec<CommId>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.below(7) as usize;
        let mut net = Net::of_short_packets(count, seed);
        let mut color: Vec<u32> = (0..count).map(|_| random.below(2) as u32).collect();
        let odd = random.below(count as u64) as usize;
        (color[odd], color[(odd + 1) % count]) = (0, 1);
        let split = together(&mut net, &mut random, (0..count).collect(), |at, process, port| {
            let key = if seed & 4 == 0 { 0 } else { -(at as i32) };
            process.collectives().icomm_split(port, CommId::WORLD, Some(color[at]), key).unwrap()
        });
        let local = ids(&split);
        let group = |wanted: u32| -> Vec<usize> {
            let first = (0..count).find(|&at| color[at] == wanted).unwrap();
            let comm = net.nodes[first].0.comm(local[first]).unwrap();
            comm.group().iter().map(|process| process.0 as usize).collect()
        };
        let groups = [group(0), group(1)];
        let mut pair = Self { net, random, groups, local, inter: vec![] };
        pair.inter = ids(&pair.meet(seed as Tag & 3));
        pair
    }

    fn all(&self) -> Vec<usize> {
        self.groups.concat()
    }

    fn meet(&mut self, tag: Tag) -> Vec<Option<(CommId, Completion)>> {
        let leaders = [0, 1].map(|side: usize| {
            (self.random.below(self.groups[side].len() as u64) as usize, self.groups[side].clone())
        });
        let (local, side_of) = (self.local.clone(), self.groups[1].clone());
        let all = self.all();
        together(&mut self.net, &mut self.random, all, |at, process, port| {
            let side = usize::from(side_of.contains(&at));
            let (own, group) = &leaders[side];
            let (other, others) = &leaders[1 - side];
            let other = OtherLeader { comm: CommId::WORLD, rank: others[*other] as Rank, tag };
            let other = (group[*own] == at).then_some(other);
            process.collectives().icomm_inter(port, local[at], *own as Rank, other).unwrap()
        })
    }

    /// Checks that an inter-communicator has these two groups.
    fn check(&self, inter: &[CommId], groups: &[Vec<usize>; 2]) {
        let first = |at: usize| {
            let comm = self.net.nodes[at].0.comm(inter[at]).unwrap();
            (comm.context(), comm.members().iter().map(|p| p.0).collect::<Vec<_>>())
        };
        let all = groups.concat();
        for &at in &all {
            let comm = self.net.nodes[at].0.comm(inter[at]).unwrap();
            let side = usize::from(groups[1].contains(&at));
            let of = |group: &Group| group.iter().map(|p| p.0 as usize).collect::<Vec<_>>();
            assert_eq!(of(comm.group()), groups[side]);
            assert_eq!(of(comm.remote().unwrap()), groups[1 - side]);
            assert_eq!(comm.group().rank_of(ProcessId(at as u32)), Some(comm.rank()));
            assert_eq!(first(at), first(all[0]));
            let (across, me) = (comm.across().unwrap(), ProcessId(at as u32));
            assert_eq!(comm.members().process(across.all().rank), Some(me));
        }
    }

    /// A message each way between all pairs, and a sum over the other group.
    fn use_it(&mut self, inter: &[CommId], groups: &[Vec<usize>; 2]) {
        let mut received = vec![];
        for (side, group) in groups.iter().enumerate() {
            let others = &groups[1 - side];
            for &at in group {
                let (process, port) = &mut self.net.nodes[at];
                for rank in 0..others.len() {
                    let send = memory(vec![at as u8; 1 + 50 * rank]).0;
                    let sent = process.isend(port, inter[at], send, rank as Rank, 5, SendMode::Standard);
                    if let Posted::Pending(id) = sent.unwrap() {
                        process.free(id).unwrap();
                    }
                }
                for (rank, &other) in others.iter().enumerate() {
                    let (buffer, bytes) = memory(vec![0; 500]);
                    let own = process.comm(inter[at]).unwrap().rank() as usize;
                    let source = if side == 0 { Source::Rank(rank as Rank) } else { Source::Any };
                    let posted = process.irecv(port, inter[at], buffer, source, TagSelector::Tag(5));
                    received.push((at, posted.unwrap(), bytes, (rank, other, own, others.clone())));
                }
            }
        }
        self.net.settle();
        for (at, posted, bytes, (rank, other, own, others)) in received {
            let completion = match posted {
                Posted::Done(completion) => completion,
                Posted::Pending(id) => self.net.nodes[at].0.take(id).unwrap().expect("over"),
            };
            assert_eq!(completion.status.bytes as usize, 1 + 50 * own);
            let Origin::Rank(source) = completion.status.source else { panic!("{completion:?}") };
            let is_one = self.side_in(groups, at) == 0;
            assert!(!is_one || source as usize == rank);
            let sender = if is_one { other } else { others[source as usize] };
            assert_eq!(bytes[0] as usize, sender);
        }
        self.bcast(inter, groups);
        for (process, port) in &self.net.nodes {
            let counts = process.counts();
            assert_eq!((counts.requests, counts.posted, counts.unexpected), (0, 0, 0));
            assert_eq!(port.registered_count(), 0);
        }
    }

    fn side_in(&self, groups: &[Vec<usize>; 2], at: usize) -> usize {
        usize::from(groups[1].contains(&at))
    }

    fn bcast(&mut self, inter: &[CommId], groups: &[Vec<usize>; 2]) {
        let mut received = vec![];
        let (second, inter) = (groups[1].clone(), inter.to_vec());
        let root = groups[0].len() - 1;
        together(&mut self.net, &mut self.random, groups.concat(), |at, process, port| {
            let comm = process.comm(inter[at]).unwrap();
            let across = comm.across().unwrap();
            let part = match second.contains(&at) {
                true => Part::Remote(root as Rank),
                false if across.rank as usize == root => Part::Root,
                false => Part::None,
            };
            let (buffer, bytes) = memory(vec![if part == Part::Root { 42 } else { 1 }; 333]);
            received.push((part, bytes));
            let mut choose = |_: Collective, _, _, _| coll::Choice {
                algorithm: coll::Algorithm::Binomial,
                segment_bytes: 0,
            };
            let pool = process.schedule_pool();
            let schedule = across::bcast(pool, across, buffer, part, &mut choose).unwrap();
            (inter[at], process.collectives().start(port, inter[at], schedule).unwrap())
        });
        for (part, bytes) in received {
            assert_eq!(bytes, vec![if part == Part::None { 1 } else { 42 }; 333]);
        }
    }
}

#[test]
fn two_groups_agree_on_an_inter_communicator() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        let (inter, groups) = (pair.inter.clone(), pair.groups.clone());
        pair.check(&inter, &groups);
        pair.use_it(&inter, &groups);
        // Another one of the same groups has another context.
        let again = ids(&pair.meet(7));
        pair.check(&again, &groups);
        let context = |pair: &Pair, comm: &[CommId]| pair.net.nodes[0].0.comm(comm[0]).unwrap().context();
        assert_ne!(context(&pair, &inter), context(&pair, &again));
        for &at in &pair.all() {
            pair.net.nodes[at].0.free_comm(again[at]).unwrap();
        }
    }
}

#[test]
fn duplicates_of_inter_communicators_have_both_groups() {
    for seed in 0..30 {
        let mut pair = Pair::new(seed);
        let (inter, groups, all) = (pair.inter.clone(), pair.groups.clone(), pair.all());
        let copies = together(&mut pair.net, &mut pair.random, all, |at, process, port| {
            process.collectives().icomm_dup(port, inter[at]).unwrap()
        });
        let copies = ids(&copies);
        pair.check(&copies, &groups);
        pair.use_it(&copies, &groups);
    }
}

#[test]
fn a_merge_puts_the_low_group_first() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        let (inter, groups, all) = (pair.inter.clone(), pair.groups.clone(), pair.all());
        let high = [seed & 1 != 0, seed & 2 != 0];
        let second = groups[1].clone();
        let merged = together(&mut pair.net, &mut pair.random, all.clone(), |at, process, port| {
            process
                .collectives()
                .icomm_merge(port, inter[at], high[usize::from(second.contains(&at))])
                .unwrap()
        });
        let merged = ids(&merged);
        let members = |at: usize| {
            let comm = pair.net.nodes[at].0.comm(merged[at]).unwrap();
            assert!(!comm.is_inter());
            assert_eq!(comm.group().process(comm.rank()), Some(ProcessId(at as u32)));
            (comm.context(), comm.group().iter().map(|p| p.0 as usize).collect::<Vec<_>>())
        };
        for &at in &all {
            assert_eq!(members(at), members(all[0]));
        }
        let order = members(all[0]).1;
        let (ab, ba) = (groups.concat(), [groups[1].clone(), groups[0].clone()].concat());
        match high {
            [false, true] => assert_eq!(order, ab),
            [true, false] => assert_eq!(order, ba),
            _ => assert!(order == ab || order == ba, "{order:?}"),
        }
    }
}

#[test]
fn a_merge_without_one_opinion_in_a_group_fails_everywhere() {
    let mut pair = (0..).map(Pair::new).find(|pair| pair.groups[0].len() > 1).unwrap();
    let (inter, all, odd) = (pair.inter.clone(), pair.all(), pair.groups[0][1]);
    let merged = together(&mut pair.net, &mut pair.random, all, |at, process, port| {
        process.collectives().icomm_merge(port, inter[at], at == odd).unwrap()
    });
    for (at, merged) in merged.iter().enumerate() {
        let Some((comm, completion)) = merged else { panic!("{at} is no member") };
        assert!(matches!(completion.error, Some(Error::Argument(_))), "{completion:?}");
        assert_eq!(pair.net.nodes[at].0.comm(*comm).err(), Some(Error::Comm));
    }
}

#[test]
fn a_split_inter_communicator_has_the_colors_of_both_groups() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        let (inter, groups, all) = (pair.inter.clone(), pair.groups.clone(), pair.all());
        let colors: Vec<Option<u32>> =
            (0..all.len()).map(|_| (!pair.random.one_in(6)).then(|| pair.random.below(2) as u32)).collect();
        let split = together(&mut pair.net, &mut pair.random, all, |at, process, port| {
            process.collectives().icomm_split(port, inter[at], colors[at], -(at as i32)).unwrap()
        });
        let split = ids(&split);
        for color in 0..2 {
            let part = |side: usize| {
                let mut part: Vec<usize> =
                    groups[side].iter().copied().filter(|&at| colors[at] == Some(color)).collect();
                part.sort_unstable_by_key(|&at| core::cmp::Reverse(at));
                part
            };
            let parts = [part(0), part(1)];
            if parts.iter().any(Vec::is_empty) {
                for at in parts.concat() {
                    assert_eq!(pair.net.nodes[at].0.comm(split[at]).err(), Some(Error::Comm));
                }
            } else {
                pair.check(&split, &parts);
                pair.use_it(&split, &parts);
            }
        }
    }
}

#[test]
fn parts_of_both_groups_make_an_inter_communicator() {
    for seed in 0..40 {
        let mut pair = Pair::new(seed);
        let (inter, groups, all) = (pair.inter.clone(), pair.groups.clone(), pair.all());
        // Backwards, without the first if there are others.
        let part = |side: usize| -> Vec<usize> {
            let skipped = usize::from(groups[side].len() > 1);
            groups[side].iter().copied().skip(skipped).rev().collect()
        };
        let parts = [part(0), part(1)];
        let second = groups[1].clone();
        let made = together(&mut pair.net, &mut pair.random, all.clone(), |at, process, port| {
            let members = &parts[usize::from(second.contains(&at))];
            let group = members.iter().map(|&at| ProcessId(at as u32)).collect();
            let group = Group::from_members(group).unwrap();
            process.collectives().icomm_create(port, inter[at], &group).unwrap().unwrap()
        });
        let made = ids(&made);
        pair.check(&made, &parts);
        pair.use_it(&made, &parts);
        for at in all.into_iter().filter(|at| !parts.concat().contains(at)) {
            assert_eq!(pair.net.nodes[at].0.comm(made[at]).err(), Some(Error::Comm));
        }
        let (process, port) = &mut pair.net.nodes[groups[0][0]];
        let outside = Group::single(ProcessId(groups[1][0] as u32));
        assert_eq!(
            process.collectives().icomm_create(port, inter[groups[0][0]], &outside).err(),
            Some(Error::Group)
        );
    }
}

#[test]
fn groups_without_communicators_meet_by_name() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(6) as usize;
        let mut net = Net::of_short_packets(count, seed);
        let cut = 1 + random.below(count as u64 - 1) as usize;
        if seed % 4 >= 2 {
            net.split_worlds(cut);
        }
        let groups = [(0..cut).collect::<Vec<_>>(), (cut..count).collect()];
        let group = |side: usize| {
            let members = groups[side].iter().map(|&at| ProcessId(at as u32)).collect();
            Group::from_members(members).unwrap()
        };
        let name: &[u8] = if seed & 1 == 0 { b"a" } else { b"" };
        let all: Vec<usize> = (0..count).collect();
        let made = together(&mut net, &mut random, all.clone(), |at, process, port| {
            let side = usize::from(at >= cut);
            let remote = group(1 - side);
            let remote = (at == groups[side][0]).then_some((&remote, 0));
            process.collectives().icomm_inter_of_groups(port, (&group(side), 0), remote, name).unwrap()
        });
        let inter = ids(&made);
        // At the same time each group makes an intra-communicator by the same name.
        let made = together(&mut net, &mut random, all, |at, process, port| {
            process.collectives().icomm_of_group(port, &group(usize::from(at >= cut)), name).unwrap().unwrap()
        });
        let local = ids(&made);
        for (at, &comm) in local.iter().enumerate() {
            let comm = net.nodes[at].0.comm(comm).unwrap();
            assert_eq!(
                (comm.size() as usize, comm.is_inter()),
                (groups[usize::from(at >= cut)].len(), false)
            );
        }
        let mut pair = Pair { net, random, groups: groups.clone(), local, inter: inter.clone() };
        pair.check(&inter, &groups);
        pair.use_it(&inter, &groups);
    }
}

#[test]
fn overlapping_groups_are_refused_by_all() {
    // {0, 1} and {1, 2}, and the leaders are 0 and 2.
    let mut net = Net::of_short_packets(3, 0);
    let group = |members: [u32; 2]| Group::from_members(members.map(ProcessId).to_vec()).unwrap();
    let (first, second) = (group([0, 1]), group([2, 1]));
    let mut begun = vec![];
    for (at, own, other) in
        [(0, &first, &second), (1, &first, &second), (2, &second, &first), (1, &second, &first)]
    {
        let (process, port) = &mut net.nodes[at];
        let remote = (at != 1).then_some((other, 0));
        begun.push((at, process.collectives().icomm_inter_of_groups(port, (own, 0), remote, b"x").unwrap()));
    }
    net.settle();
    for (at, (comm, posted)) in begun {
        let Posted::Pending(id) = posted else { panic!("nobody has heard of the other") };
        let completion = net.nodes[at].0.take(id).unwrap().expect("over");
        assert_eq!(completion.error, Some(Error::Group));
        assert_eq!(net.nodes[at].0.comm(comm).err(), Some(Error::Comm));
    }
}

#[test]
fn a_leader_that_cannot_meet_the_other_tells_its_group() {
    for gone_first in [false, true] {
        // {0, 1, 2} and {3}; 3 dies.
        let mut net = Net::of_short_packets(4, 0);
        let color = |at: usize| u32::from(at == 3);
        let mut random = Random::new(1);
        let split = together(&mut net, &mut random, (0..4).collect(), |at, process, port| {
            process.collectives().icomm_split(port, CommId::WORLD, Some(color(at)), 0).unwrap()
        });
        let local = ids(&split);
        let lose = |net: &mut Net| {
            for (process, port) in &mut net.nodes[..3] {
                process.handle_event(port, Event::PeerGone(ProcessId(3)));
            }
        };
        if gone_first {
            lose(&mut net);
        }
        let begun: Vec<_> = (0..3)
            .map(|at| {
                let (process, port) = &mut net.nodes[at];
                let other = OtherLeader { comm: CommId::WORLD, rank: 3, tag: 0 };
                process.collectives().icomm_inter(port, local[at], 1, (at == 1).then_some(other)).unwrap()
            })
            .collect();
        for _ in 0..20 {
            for at in 0..3 {
                net.progress(at, 100);
            }
        }
        if !gone_first {
            lose(&mut net);
            for _ in 0..20 {
                for at in 0..3 {
                    net.progress(at, 100);
                }
            }
        }
        for (at, (comm, posted)) in begun.into_iter().enumerate() {
            let completion = match posted {
                Posted::Done(completion) => completion,
                Posted::Pending(id) => net.nodes[at].0.take(id).unwrap().expect("over"),
            };
            assert_eq!(completion.error, Some(Error::ProcessAborted(ProcessId(3))), "at {at}");
            assert_eq!(net.nodes[at].0.comm(comm).err(), Some(Error::Comm));
            assert_eq!(net.nodes[at].0.counts().requests, 0);
        }
    }
}

#[test]
fn a_leader_that_names_no_other_leader_tells_its_group() {
    for other in [None, Some(OtherLeader { comm: CommId::WORLD, rank: 4, tag: 0 })] {
        let mut net = Net::of_short_packets(4, 0);
        let made = together(&mut net, &mut Random::new(1), (0..4).collect(), |at, process, port| {
            let other = other.filter(|_| at == 1);
            process.collectives().icomm_inter(port, CommId::WORLD, 1, other).unwrap()
        });
        for (at, made) in made.into_iter().enumerate() {
            let (comm, completion) = made.expect("all have called");
            match completion.error.expect("there is nobody to meet") {
                Error::Argument(_) | Error::Rank { .. } => assert_eq!(at, 1, "the leader knows why"),
                error => assert_eq!(error, Error::Group, "at {at}"),
            }
            assert_eq!(net.nodes[at].0.comm(comm).err(), Some(Error::Comm));
        }
    }
}

#[test]
fn what_inter_communicators_cannot_do_is_refused() {
    let mut pair = Pair::new(3);
    let at = pair.groups[0][0];
    let inter = pair.inter[at];
    let (process, port) = &mut pair.net.nodes[at];
    let group = Group::single(ProcessId(at as u32));
    assert_eq!(process.collectives().icomm_create_group(port, inter, &group, 0).err(), Some(Error::Comm));
    assert_eq!(process.collectives().icomm_inter(port, inter, 0, None).err(), Some(Error::Comm));
    assert_eq!(process.collectives().icomm_merge(port, CommId::WORLD, true).err(), Some(Error::Comm));
    let barrier = coll::Choice { algorithm: coll::Algorithm::Dissemination, segment_bytes: 1 };
    let all = coll::Context { rank: 0, size: 1 };
    let schedule = coll::barrier(process.schedule_pool(), all, barrier);
    let claim = coll::Claim::new(Collective::Barrier, None);
    let compared = process.collectives().start_compared(port, inter, schedule, claim, None);
    assert_eq!(compared.err(), Some(Error::Comm));
    let size = process.comm(CommId::SELF).unwrap().size();
    let error = Error::Rank { rank: 1, size };
    assert_eq!(process.collectives().icomm_inter(port, CommId::SELF, 1, None).err(), Some(error));
}
