//! Binomial tree: ⌈log₂ n⌉ rounds of the whole vector. Best for short vectors; the only one here for
//! operations that do not commute, for which the tree stands on rank 0, so that a subtree is a run of ranks
//! in order.

use super::Args;
use crate::buffer::Buffer;
use crate::coll::accumulator::Accumulator;
use crate::coll::tree::Node;
use crate::coll::{Builder, Context, Rooted};
use crate::ids::Rank;

pub(super) fn build(builder: &mut Builder, args: Args<'_>) {
    let Args { context, send, recv, root, reducer } = args;
    if reducer.is_commutative() || root == 0 {
        tree(builder, context, send, recv, root, reducer.is_commutative());
        return;
    }
    // Rank 0's result is the root's.
    let operand = send.or(recv).expect("a process has an operand");
    if context.rank == 0 {
        let result = builder.scratch(operand.len());
        tree(builder, context, Some(operand), Some(result), 0, false);
        builder.fence();
        builder.send(root, result);
    } else {
        tree(builder, context, Some(operand), None, 0, false);
        if let Some(recv) = recv {
            // In place, this buffer holds the operand sent up.
            builder.fence();
            builder.receive(0, recv);
        }
    }
}

/// Reduces to `recv` at `root`, the whole tree standing on it: in rank order if that is 0. Without `send` the
/// operand lies in `recv`. Elsewhere `recv`, if given, is a place for partial results.
pub(in crate::coll) fn tree(
    builder: &mut Builder,
    context: Context,
    send: Option<Buffer>,
    recv: Option<Buffer>,
    root: Rank,
    commutative: bool,
) {
    let rooted = Rooted { root, size: context.size };
    let node = Node::new(context.relative_to(root), context.size);
    let mut accumulator = Accumulator::new(send, recv, commutative);
    // Small subtrees first: they are ready first.
    for child in node.children().rev() {
        let target = accumulator.target(builder, false);
        builder.receive(rooted.absolute(child.rank()), target);
        builder.fence();
        accumulator.combine(builder, false);
        builder.fence();
    }
    match node.parent() {
        Some(parent) => {
            let sum = accumulator.current(builder);
            builder.send(rooted.absolute(parent), sum);
        }
        None => accumulator.finish(builder),
    }
}
