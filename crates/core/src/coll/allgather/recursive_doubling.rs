//! Recursive doubling: log₂ n rounds, in each of which pairs exchange all they have, in place. Powers of two,
//! equal blocks.

use crate::buffer::Buffer;
use crate::coll::{Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Buffer, all: Buffer) {
    let (rank, size) = (context.rank, context.size);
    let block_bytes = send.len();
    if block_bytes == 0 {
        return;
    }
    let run = |first: u32, count: u32| all.part(first as usize * block_bytes, count as usize * block_bytes);
    builder.copy(send, run(rank, 1));
    builder.fence();
    let mut width = 1;
    while width < size {
        let peer = rank ^ width;
        builder.send(peer, run(rank & !(width - 1), width));
        builder.receive(peer, run(peer & !(width - 1), width));
        builder.fence();
        width *= 2;
    }
}
