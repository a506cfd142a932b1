//! Allgather and alltoall with their variants.

use super::rooted::{Layout, lengths, with_blocks};
use super::*;

fn allgather_case(random: &mut Random, layout: &Layout, choice: Choice, uniform: bool, in_place: bool) {
    let size = layout.parts.len();
    let sends: Vec<_> = layout.parts.iter().map(|&(_, len)| random.bytes(len)).collect();
    let mut recvs: Vec<_> = (0..size).map(|_| random.bytes(layout.total)).collect();
    let mut expected = recvs.clone();
    for rank in 0..size {
        if in_place {
            layout.put(&mut recvs[rank], rank, &sends[rank]);
        }
        for (from, send) in sends.iter().enumerate() {
            layout.put(&mut expected[rank], from, send);
        }
    }
    Scenario {
        label: format!("allgather {choice:?} size {size} {:?} in place {in_place}", layout.parts),
        sends,
        recvs,
        expected,
    }
    .exercise(random.next_u64(), &|pool, context, send, recv| {
        with_blocks(layout, uniform, recv, |blocks| {
            allgather(pool, context, (!in_place).then_some(send), blocks, choice)
        })
    });
}

#[test]
fn allgather_brings_every_block_to_all() {
    let mut random = Random::new(201);
    for size in SIZES {
        for len in [0, 1, 12, 100] {
            let layout = Layout::equal(size, len);
            for in_place in [false, true] {
                for choice in algorithms(Collective::Allgather, size, true) {
                    allgather_case(&mut random, &layout, choice, true, in_place);
                }
            }
        }
    }
}

#[test]
fn allgatherv_brings_blocks_of_any_length_to_all() {
    let mut random = Random::new(202);
    for size in SIZES {
        for _ in 0..3 {
            let layout = Layout::of(&lengths(&mut random, size));
            for in_place in [false, true] {
                for choice in algorithms(Collective::Allgatherv, size, true) {
                    allgather_case(&mut random, &layout, choice, false, in_place);
                }
            }
        }
    }
}

/// Block `[i][j]` goes from i to j; each rank has its layouts of what it sends and receives.
fn alltoall_case(
    random: &mut Random,
    layouts: &[(Layout, Layout)],
    choice: Choice,
    uniform: bool,
    in_place: bool,
) {
    let size = layouts.len();
    let sends: Vec<_> = layouts.iter().map(|(send, _)| random.bytes(send.total)).collect();
    let mut recvs: Vec<_> = layouts.iter().map(|(_, recv)| random.bytes(recv.total)).collect();
    let mut expected = recvs.clone();
    for from in 0..size {
        for to in 0..size {
            let block = layouts[from].0.get(&sends[from], to);
            layouts[to].1.put(&mut expected[to], from, block);
            if in_place {
                // The block sent lies where one of the same size is received.
                layouts[from].1.put(&mut recvs[from], to, block);
            }
        }
    }
    let lengths: Vec<_> =
        layouts.iter().map(|(send, _)| send.parts.iter().map(|p| p.1).collect::<Vec<_>>()).collect();
    Scenario {
        label: format!("alltoall {choice:?} size {size} {lengths:?} in place {in_place}"),
        sends,
        recvs,
        expected,
    }
    .exercise(random.next_u64(), &|pool, context, send, recv| {
        let (send_layout, recv_layout) = &layouts[context.rank as usize];
        with_blocks(recv_layout, uniform, recv, |recv| {
            if in_place {
                return alltoall(pool, context, None, recv, choice);
            }
            with_blocks(send_layout, uniform, send, |send| alltoall(pool, context, Some(send), recv, choice))
        })
    });
}

#[test]
fn alltoall_transposes_equal_blocks() {
    let mut random = Random::new(203);
    for size in SIZES {
        for len in [0, 1, 12, 100] {
            let layouts: Vec<_> =
                (0..size).map(|_| (Layout::equal(size, len), Layout::equal(size, len))).collect();
            for in_place in [false, true] {
                for choice in algorithms(Collective::Alltoall, size, true) {
                    alltoall_case(&mut random, &layouts, choice, true, in_place);
                }
            }
        }
    }
}

#[test]
fn alltoallv_transposes_blocks_of_any_length() {
    let mut random = Random::new(204);
    for size in SIZES {
        for in_place in [false, true] {
            let draw: Vec<_> = (0..size).map(|_| lengths(&mut random, size)).collect();
            // In place both directions of a pair carry the same.
            let ranks = 0..size as usize;
            let count = |from: usize, to: usize| {
                if in_place { draw[from.max(to)][from.min(to)] } else { draw[from][to] }
            };
            let counts: Vec<Vec<_>> =
                ranks.clone().map(|from| ranks.clone().map(|to| count(from, to)).collect()).collect();
            let layouts: Vec<_> = (0..size as usize)
                .map(|rank| {
                    let received: Vec<_> = counts.iter().map(|row| row[rank]).collect();
                    (Layout::of(&counts[rank]), Layout::of(&received))
                })
                .collect();
            for choice in algorithms(Collective::Alltoallv, size, true) {
                alltoall_case(&mut random, &layouts, choice, false, in_place);
            }
        }
    }
}
