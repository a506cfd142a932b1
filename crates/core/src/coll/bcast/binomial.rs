//! Binomial tree: ⌈log₂ n⌉ rounds, the whole message in each; best for short messages.

use super::Args;
use crate::coll::tree::Node;
use crate::coll::{Builder, Rooted};

pub(super) fn build(builder: &mut Builder, Args { context, buffer, root }: Args) {
    let rooted = Rooted { root, size: context.size };
    let node = Node::new(context.relative_to(root), context.size);
    if let Some(parent) = node.parent() {
        builder.receive(rooted.absolute(parent), buffer);
        builder.fence();
    }
    for child in node.children() {
        builder.send(rooted.absolute(child.rank()), buffer);
    }
}
