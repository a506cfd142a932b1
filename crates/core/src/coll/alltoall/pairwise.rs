//! Pairwise exchange: n - 1 rounds with one partner each, so that no receiver is overrun. Best for long
//! blocks.

use crate::coll::{Blocks, Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Blocks<'_>, recv: Blocks<'_>) {
    let size = context.size;
    builder.copy(send.get(context.rank, size), recv.get(context.rank, size));
    for distance in 1..size {
        let (to, from) = (context.up(distance), context.down(distance));
        let (out, back) = (send.get(to, size), recv.get(from, size));
        if !back.is_empty() {
            builder.receive(from, back);
        }
        if !out.is_empty() {
            builder.send(to, out);
        }
        builder.fence();
    }
}

/// In one buffer: in round k the processes whose ranks add up to k (around n) swap blocks, through a copy of
/// the outgoing one. Both sides' blocks have the same length (MPI-5.0 §6.8).
pub(super) fn in_place(builder: &mut Builder, context: Context, blocks: Blocks<'_>) {
    let size = context.size;
    let longest = (0..size)
        .filter(|&rank| rank != context.rank)
        .map(|rank| blocks.get(rank, size).len())
        .max()
        .unwrap_or(0);
    let outgoing = builder.scratch(longest);
    for round in 0..size {
        let peer = (round + size - context.rank) % size;
        let block = blocks.get(peer, size);
        if peer == context.rank || block.is_empty() {
            continue;
        }
        let out = outgoing.part(0, block.len());
        builder.copy(block, out);
        builder.fence();
        builder.receive(peer, block);
        builder.send(peer, out);
        builder.fence();
    }
}
