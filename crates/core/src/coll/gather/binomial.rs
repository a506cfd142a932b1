//! Binomial gather: ⌈log₂ n⌉ rounds; each process collects its subtree's blocks and sends them up in one
//! message. Best for short blocks.

use crate::buffer::Buffer;
use crate::coll::tree::Node;
use crate::coll::{Builder, Context, Rooted};
use crate::ids::Rank;

pub(super) fn at_root(builder: &mut Builder, context: Context, all: Buffer) {
    let size = context.size;
    let block_bytes = all.len() / size as usize;
    if block_bytes == 0 {
        return;
    }
    let rooted = Rooted { root: context.rank, size };
    let mut wrapped = None;
    for child in Node::new(0, size).children() {
        let first = rooted.absolute(child.rank());
        let bytes = child.subtree_size() as usize * block_bytes;
        let before_end = (size - first) as usize * block_bytes;
        if bytes <= before_end {
            builder.receive(first, all.part(first as usize * block_bytes, bytes));
        } else {
            // These blocks go on at rank 0: they come in one piece and are put in place afterwards.
            let piece = builder.scratch(bytes);
            builder.receive(first, piece);
            wrapped = Some((piece, first as usize * block_bytes, before_end));
        }
    }
    if let Some((piece, at, before_end)) = wrapped {
        builder.fence();
        builder.copy(piece.part(0, before_end), all.part(at, before_end));
        let rest = piece.len() - before_end;
        builder.copy(piece.part(before_end, rest), all.part(0, rest));
    }
}

pub(super) fn elsewhere(builder: &mut Builder, context: Context, send: Buffer, root: Rank) {
    let rooted = Rooted { root, size: context.size };
    let node = Node::new(context.relative_to(root), context.size);
    let parent = rooted.absolute(node.parent().expect("only the root has no parent"));
    if send.is_empty() {
        return;
    }
    if node.subtree_size() == 1 {
        builder.send(parent, send);
        return;
    }
    let piece = builder.scratch(node.subtree_size() as usize * send.len());
    builder.copy(send, piece.part(0, send.len()));
    for child in node.children() {
        let at = (child.rank() - node.rank()) as usize * send.len();
        let bytes = child.subtree_size() as usize * send.len();
        builder.receive(rooted.absolute(child.rank()), piece.part(at, bytes));
    }
    builder.fence();
    builder.send(parent, piece);
}
