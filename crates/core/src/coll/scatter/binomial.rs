//! Binomial scatter: ⌈log₂ n⌉ rounds; each process gets its subtree's blocks in one message and passes them
//! on. Best for short blocks.

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
    for child in Node::new(0, size).children() {
        let first = rooted.absolute(child.rank());
        let bytes = child.subtree_size() as usize * block_bytes;
        let at = first as usize * block_bytes;
        let before_end = all.len() - at;
        if bytes <= before_end {
            builder.send(first, all.part(at, bytes));
        } else {
            // These blocks go on at rank 0: they are brought into one piece first.
            let piece = builder.scratch(bytes);
            builder.copy(all.part(at, before_end), piece.part(0, before_end));
            let rest = bytes - before_end;
            builder.copy(all.part(0, rest), piece.part(before_end, rest));
            builder.fence();
            builder.send(first, piece);
        }
    }
}

pub(super) fn elsewhere(builder: &mut Builder, context: Context, recv: Buffer, root: Rank) {
    let rooted = Rooted { root, size: context.size };
    let node = Node::new(context.relative_to(root), context.size);
    let parent = rooted.absolute(node.parent().expect("only the root has no parent"));
    if recv.is_empty() {
        return;
    }
    if node.subtree_size() == 1 {
        builder.receive(parent, recv);
        return;
    }
    let piece = builder.scratch(node.subtree_size() as usize * recv.len());
    builder.receive(parent, piece);
    builder.fence();
    for child in node.children() {
        let at = (child.rank() - node.rank()) as usize * recv.len();
        let bytes = child.subtree_size() as usize * recv.len();
        builder.send(rooted.absolute(child.rank()), piece.part(at, bytes));
    }
    builder.copy(piece.part(0, recv.len()), recv);
}
