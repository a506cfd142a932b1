//! Binomial tree up and down: 2 ⌈log₂ n⌉ rounds, but only 2 (n - 1) messages of all processes together. Best
//! where processes share processors, so that work counts and not the longest path.

use crate::buffer::Buffer;
use crate::coll::tree::Node;
use crate::coll::{Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context) {
    let node = Node::new(context.rank, context.size);
    for child in node.children().rev() {
        builder.receive(child.rank(), Buffer::EMPTY);
    }
    builder.fence();
    if let Some(parent) = node.parent() {
        builder.send(parent, Buffer::EMPTY);
        builder.receive(parent, Buffer::EMPTY);
    }
    builder.fence();
    for child in node.children() {
        builder.send(child.rank(), Buffer::EMPTY);
    }
}
