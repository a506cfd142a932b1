//! Bruck et al. 1997: ⌈log₂ n⌉ rounds, each of about half of all blocks: fewer messages, more bytes and
//! copies. Best for short blocks among many processes.
//!
//! Blocks are held in the order of the distance they still have to go. In round k those whose distance has
//! bit k set travel 2^k ranks up. Works in place: everything happens in scratch memory.

use crate::buffer::Buffer;
use crate::coll::{Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Buffer, recv: Buffer) {
    let (rank, size) = (context.rank, context.size);
    let block_bytes = send.len() / size as usize;
    if block_bytes == 0 {
        return;
    }
    let run = |buffer: Buffer, first: u32, count: u32| {
        buffer.part(first as usize * block_bytes, count as usize * block_bytes)
    };
    let half = size.next_power_of_two() / 2;
    let scratch = builder.scratch((size + 2 * half) as usize * block_bytes);
    let travelling = run(scratch, 0, size);
    let (out, back) = (run(scratch, size, half), run(scratch, size + half, half));

    // The block at distance j is that for the rank j above.
    builder.copy(run(send, rank, size - rank), run(travelling, 0, size - rank));
    builder.copy(run(send, 0, rank), run(travelling, size - rank, rank));
    builder.fence();
    let mut distance = 1;
    while distance < size {
        let mut count = 0;
        for_runs(size, distance, |first, length| {
            builder.copy(run(travelling, first, length), run(out, count, length));
            count += length;
        });
        builder.fence();
        builder.send(context.up(distance), run(out, 0, count));
        builder.receive(context.down(distance), run(back, 0, count));
        builder.fence();
        count = 0;
        for_runs(size, distance, |first, length| {
            builder.copy(run(back, count, length), run(travelling, first, length));
            count += length;
        });
        builder.fence();
        distance *= 2;
    }
    // The block at distance j comes from the rank j below.
    for index in 0..size {
        builder.copy(run(travelling, index, 1), run(recv, context.down(index), 1));
    }
}

/// Calls `f(first, length)` for each run of numbers below `size` that have the bit `distance` set.
fn for_runs(size: u32, distance: u32, mut f: impl FnMut(u32, u32)) {
    let mut first = distance;
    while first < size {
        f(first, distance.min(size - first));
        first += 2 * distance;
    }
}
