//! Linear ("posted"): all receives, then all sends at once; the transport sorts it out. Best for few
//! processes.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};
use crate::ids::Rank;

/// `send` gives what goes to a rank; an allgather gives the same to all.
pub(in crate::coll) fn build(
    builder: &mut Builder,
    context: Context,
    send: impl Fn(Rank) -> Buffer,
    recv: Blocks<'_>,
) {
    let size = context.size;
    for distance in 1..size {
        let from = context.down(distance);
        let block = recv.get(from, size);
        if !block.is_empty() {
            builder.receive(from, block);
        }
    }
    // Each process begins with another neighbour, so that no process is the first target of all, and no block
    // is read by all at the same time.
    for distance in 1..size {
        let to = context.up(distance);
        let block = send(to);
        if !block.is_empty() {
            builder.send(to, block);
        }
    }
    builder.copy(send(context.rank), recv.get(context.rank, size));
}
