//! Broadcast, gather, scatter and their variants.

use super::*;

const LENGTHS: [usize; 5] = [0, 1, 7, 64, 1000];

/// The first, the second, one in the middle, the last.
fn roots(size: u32) -> Vec<u32> {
    let mut roots = vec![0, 1 % size, size / 2, size - 1];
    roots.dedup();
    roots
}

#[test]
fn bcast_brings_the_roots_bytes_to_all() {
    let mut random = Random::new(101);
    for size in SIZES {
        for choice in algorithms(Collective::Bcast, size, true) {
            for root in roots(size) {
                for len in LENGTHS {
                    let recvs: Vec<_> = (0..size).map(|_| random.bytes(len)).collect();
                    Scenario {
                        label: format!("bcast {choice:?} size {size} root {root} of {len} bytes"),
                        sends: vec![Vec::new(); size as usize],
                        expected: vec![recvs[root as usize].clone(); size as usize],
                        recvs,
                    }
                    .exercise(random.next_u64(), &|pool, context, _, recv| {
                        bcast(pool, context, recv, root, choice)
                    });
                }
            }
        }
    }
}

/// Blocks of different lengths, some empty, in a buffer, in an order other than the ranks' and with gaps.
pub(super) struct Layout {
    pub(super) parts: Vec<(usize, usize)>,
    pub(super) total: usize,
}

impl Layout {
    pub(super) fn equal(size: u32, len: usize) -> Self {
        let size = size as usize;
        Self { parts: (0..size).map(|rank| (rank * len, len)).collect(), total: size * len }
    }

    pub(super) fn of(lengths: &[usize]) -> Self {
        let mut parts = vec![(0, 0); lengths.len()];
        let mut at = 0;
        for (rank, &len) in lengths.iter().enumerate().rev() {
            at += 3;
            parts[rank] = (at, len);
            at += len;
        }
        Self { parts, total: at + 5 }
    }

    pub(super) fn blocks(&self, buffer: Buffer) -> Vec<Buffer> {
        self.parts.iter().map(|&(at, len)| buffer.part(at, len)).collect()
    }

    pub(super) fn get<'a>(&self, bytes: &'a [u8], rank: usize) -> &'a [u8] {
        let (at, len) = self.parts[rank];
        &bytes[at..at + len]
    }

    pub(super) fn put(&self, bytes: &mut [u8], rank: usize, block: &[u8]) {
        let (at, len) = self.parts[rank];
        bytes[at..at + len].copy_from_slice(block);
    }
}

pub(super) fn lengths(random: &mut Random, size: u32) -> Vec<usize> {
    (0..size).map(|_| [0, 1, 3, 8, 40, 200][random.index(6)]).collect()
}

/// `Uniform` where the layout allows it, else `Each`.
pub(super) fn with_blocks<R>(
    layout: &Layout,
    uniform: bool,
    buffer: Buffer,
    f: impl FnOnce(Blocks<'_>) -> R,
) -> R {
    if uniform { f(Blocks::Uniform(buffer)) } else { f(Blocks::Each(&layout.blocks(buffer))) }
}

fn gather_case(
    random: &mut Random,
    layout: &Layout,
    root: u32,
    choice: Choice,
    uniform: bool,
    in_place: bool,
) {
    let size = layout.parts.len() as u32;
    let sends: Vec<_> = layout.parts.iter().map(|&(_, len)| random.bytes(len)).collect();
    let mut recvs: Vec<_> =
        (0..size).map(|rank| if rank == root { random.bytes(layout.total) } else { Vec::new() }).collect();
    if in_place {
        layout.put(&mut recvs[root as usize], root as usize, &sends[root as usize]);
    }
    let mut expected = recvs.clone();
    for (rank, send) in sends.iter().enumerate() {
        layout.put(&mut expected[root as usize], rank, send);
    }
    Scenario {
        label: format!("gather {choice:?} size {size} root {root} {:?} in place {in_place}", layout.parts),
        sends,
        recvs,
        expected,
    }
    .exercise(random.next_u64(), &|pool, context, send, recv| {
        let at_root = context.rank == root;
        let send = (!(at_root && in_place)).then_some(send);
        if !at_root {
            return gather(pool, context, send, None, root, choice);
        }
        with_blocks(layout, uniform, recv, |blocks| gather(pool, context, send, Some(blocks), root, choice))
    });
}

fn scatter_case(
    random: &mut Random,
    layout: &Layout,
    root: u32,
    choice: Choice,
    uniform: bool,
    in_place: bool,
) {
    let size = layout.parts.len() as u32;
    let sends: Vec<_> =
        (0..size).map(|rank| if rank == root { random.bytes(layout.total) } else { Vec::new() }).collect();
    let recvs: Vec<_> = layout.parts.iter().map(|&(_, len)| random.bytes(len)).collect();
    let mut expected: Vec<_> =
        (0..size as usize).map(|rank| layout.get(&sends[root as usize], rank).to_vec()).collect();
    if in_place {
        expected[root as usize].clone_from(&recvs[root as usize]);
    }
    Scenario {
        label: format!("scatter {choice:?} size {size} root {root} {:?} in place {in_place}", layout.parts),
        sends,
        recvs,
        expected,
    }
    .exercise(random.next_u64(), &|pool, context, send, recv| {
        let at_root = context.rank == root;
        let recv = (!(at_root && in_place)).then_some(recv);
        if !at_root {
            return scatter(pool, context, None, recv, root, choice);
        }
        with_blocks(layout, uniform, send, |blocks| scatter(pool, context, Some(blocks), recv, root, choice))
    });
}

#[test]
fn gather_and_scatter_move_equal_blocks() {
    let mut random = Random::new(102);
    for size in SIZES {
        for root in roots(size) {
            for len in [0, 1, 12, 100] {
                let layout = Layout::equal(size, len);
                for in_place in [false, true] {
                    for choice in algorithms(Collective::Gather, size, true) {
                        gather_case(&mut random, &layout, root, choice, true, in_place);
                    }
                    for choice in algorithms(Collective::Scatter, size, true) {
                        scatter_case(&mut random, &layout, root, choice, true, in_place);
                    }
                }
            }
        }
    }
}

#[test]
fn gatherv_and_scatterv_move_blocks_of_any_length_and_place() {
    let mut random = Random::new(103);
    for size in SIZES {
        for root in roots(size) {
            let layout = Layout::of(&lengths(&mut random, size));
            for in_place in [false, true] {
                for choice in algorithms(Collective::Gatherv, size, true) {
                    gather_case(&mut random, &layout, root, choice, false, in_place);
                }
                for choice in algorithms(Collective::Scatterv, size, true) {
                    scatter_case(&mut random, &layout, root, choice, false, in_place);
                }
            }
        }
    }
}
