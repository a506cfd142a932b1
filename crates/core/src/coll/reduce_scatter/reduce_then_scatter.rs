//! Binomial reduction to rank 0 in rank order, then a linear scatter: the one for operations that do not
//! commute.

use super::Args;
use crate::coll::Builder;
use crate::coll::reduce::tree;

pub(super) fn build(builder: &mut Builder, args: &Args<'_>) {
    let context = args.context;
    let result = (context.rank == 0).then(|| builder.scratch(args.operand.len()));
    tree(builder, context, Some(args.operand), result, 0, args.reducer.is_commutative());
    builder.fence();
    let Some(result) = result else {
        if !args.part.is_empty() {
            builder.receive(0, args.part);
        }
        return;
    };
    for rank in 1..context.size {
        let theirs = args.of(result, rank);
        if !theirs.is_empty() {
            builder.send(rank, theirs);
        }
    }
    builder.copy(args.of(result, 0), args.part);
}
