//! Ring: n - 1 rounds, in each of which every process passes on the block that came in the last. Neighbours
//! only, nothing copied: best for long blocks, of equal length or not.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, send: Buffer, recv: Blocks<'_>) {
    let size = context.size;
    let mut received = None;
    for round in 0..size - 1 {
        let out = if round == 0 { send } else { recv.get(context.down(round), size) };
        let back = recv.get(context.down(round + 1), size);
        if !out.is_empty() {
            let step = builder.send(context.up(1), out);
            if let Some(received) = received {
                builder.after(step, received);
            }
        }
        if !back.is_empty() {
            let step = builder.receive(context.down(1), back);
            if let Some(earlier) = received.replace(step) {
                builder.after(step, earlier);
            }
        }
    }
    builder.copy(send, recv.get(context.rank, size));
}
