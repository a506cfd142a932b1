//! Linear ("posted"): all receives, then all sends at once; the transport sorts it out. Best for few
//! processes.

use crate::coll::{Blocks, Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Blocks<'_>, recv: Blocks<'_>) {
    let size = context.size;
    for distance in 1..size {
        let from = context.down(distance);
        let block = recv.get(from, size);
        if !block.is_empty() {
            builder.receive(from, block);
        }
    }
    // Each process begins with another neighbour, so that no process is the first target of all.
    for distance in 1..size {
        let to = context.up(distance);
        let block = send.get(to, size);
        if !block.is_empty() {
            builder.send(to, block);
        }
    }
    builder.copy(send.get(context.rank, size), recv.get(context.rank, size));
}
