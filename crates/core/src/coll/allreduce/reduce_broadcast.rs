//! Binomial reduction to rank 0 in rank order, then a binomial broadcast: 2 ⌈log₂ n⌉ rounds, but only 2 (n -
//! 1) messages of all processes together. Best for short vectors where processes share processors.

use super::Args;
use crate::coll::Builder;
use crate::coll::reduce::tree as reduction_tree;
use crate::coll::tree::Node;

pub(super) fn build(builder: &mut Builder, Args { context, send, recv, reducer }: Args<'_>) {
    reduction_tree(builder, context, send, Some(recv), 0, reducer.is_commutative());
    builder.fence();
    let node = Node::new(context.rank, context.size);
    if let Some(parent) = node.parent() {
        builder.receive(parent, recv);
        builder.fence();
    }
    for child in node.children() {
        builder.send(child.rank(), recv);
    }
}
