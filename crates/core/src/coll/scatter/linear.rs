//! Linear scatter: the root sends each process its block, all at once.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};
use crate::ids::Rank;

pub(super) fn build(
    builder: &mut Builder,
    context: Context,
    send: Option<Blocks<'_>>,
    recv: Option<Buffer>,
    root: Rank,
) {
    match (send, recv) {
        (Some(send), _) => {
            for rank in (0..context.size).filter(|&rank| rank != root) {
                let block = send.get(rank, context.size);
                if !block.is_empty() {
                    builder.send(rank, block);
                }
            }
        }
        (None, Some(recv)) if !recv.is_empty() => {
            builder.receive(root, recv);
        }
        _ => {}
    }
}
