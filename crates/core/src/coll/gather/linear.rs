//! Linear gather: each process sends to the root, which receives from all at once. No copies and no waiting
//! for others: best for long blocks, and the only one for blocks of different lengths.

use crate::buffer::Buffer;
use crate::coll::{Blocks, Builder, Context};
use crate::ids::Rank;

pub(super) fn build(
    builder: &mut Builder,
    context: Context,
    send: Option<Buffer>,
    recv: Option<Blocks<'_>>,
    root: Rank,
) {
    match (recv, send) {
        (Some(recv), _) => {
            for rank in (0..context.size).filter(|&rank| rank != root) {
                let block = recv.get(rank, context.size);
                if !block.is_empty() {
                    builder.receive(rank, block);
                }
            }
        }
        (None, Some(send)) if !send.is_empty() => {
            builder.send(root, send);
        }
        _ => {}
    }
}
