//! Bruck et al. 1997: ⌈log₂ n⌉ rounds for any n, blocks of any lengths. Each process collects blocks in the
//! order of ranks from its own upwards, and turns them round at the end. Best for short blocks.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};
use alloc::vec::Vec;

pub(super) fn build(builder: &mut Builder, context: Context, send: Buffer, recv: Blocks<'_>) {
    let size = context.size;
    let collected = builder.scratch(recv.total_bytes());
    let offset = Offsets::new(context, recv);
    let run = |first: u32, end: u32| {
        let start = offset.at(first);
        collected.part(start, offset.at(end) - start)
    };
    builder.copy(send, run(0, 1));
    builder.fence();
    let mut have = 1;
    while have < size {
        let count = have.min(size - have);
        let (out, back) = (run(0, count), run(have, have + count));
        if !out.is_empty() {
            builder.send(context.down(have), out);
        }
        if !back.is_empty() {
            builder.receive(context.up(have), back);
        }
        builder.fence();
        have += count;
    }
    let to_end = size - context.rank;
    if let (Some(low), Some(high)) = (recv.run(0, context.rank, size), recv.run(context.rank, to_end, size)) {
        builder.copy(run(0, to_end), high);
        builder.copy(run(to_end, size), low);
    } else {
        for index in 0..size {
            builder.copy(run(index, index + 1), recv.get(context.up(index), size));
        }
    }
}

/// Where the block of the rank `index` above this one lies among those collected.
enum Offsets {
    Uniform(usize),
    Each(Vec<usize>),
}

impl Offsets {
    fn new(context: Context, recv: Blocks<'_>) -> Self {
        if let Blocks::Uniform(all) = recv {
            return Self::Uniform(all.len() / context.size as usize);
        }
        let mut offsets = Vec::with_capacity(context.size as usize + 1);
        let mut end = 0;
        offsets.push(0);
        for index in 0..context.size {
            end += recv.get(context.up(index), context.size).len();
            offsets.push(end);
        }
        Self::Each(offsets)
    }

    fn at(&self, index: u32) -> usize {
        match self {
            Self::Uniform(block_bytes) => index as usize * block_bytes,
            Self::Each(offsets) => offsets[index as usize],
        }
    }
}
