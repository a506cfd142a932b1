//! Linear: all receives, then all sends at once. One round, and no block is passed on: best in shared memory,
//! where any two processes reach each other at the same rate at the same time.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Buffer, recv: Blocks<'_>) {
    let size = context.size;
    for distance in 1..size {
        let from = context.down(distance);
        let block = recv.get(from, size);
        if !block.is_empty() {
            builder.receive(from, block);
        }
    }
    // Each process begins with another neighbour, so that no block is read by all at the same time.
    if !send.is_empty() {
        for distance in 1..size {
            builder.send(context.up(distance), send);
        }
    }
    builder.copy(send, recv.get(context.rank, size));
}
