//! Rabenseifner 1997: reduce-scatter by recursive halving, then a binomial gather to the root. About twice
//! the vector crosses each link instead of log n times: best for long vectors and operations that commute.

use super::Args;
use crate::coll::Builder;
use crate::coll::halving::{Folded, Halving, even_offset};

pub(super) fn build(builder: &mut Builder, Args { context, send, recv, root, reducer }: Args<'_>) {
    let extent = reducer.extent_bytes();
    let bytes = send.or(recv).expect("a process has an operand").len();
    // The root survives the fold, for it needs the result.
    let folded = Folded::new(context, Some(root));
    let parts = folded.survivor_count();
    // A process that is folded away sends its operand and needs no place for sums.
    let sum = match (recv, send) {
        (Some(recv), _) => recv,
        (None, Some(send)) if folded.me().is_none() => send,
        _ => builder.scratch(bytes),
    };
    let mut halving =
        Halving { folded, offset: &|i| even_offset(i, parts, bytes / extent, extent), send, sum };
    halving.reduce_scatter(builder);
    if parts == 1 {
        // A single process receives nothing: its operand is the result.
        if let (Some(send), Some(recv)) = (send, recv) {
            builder.copy(send, recv);
        }
    }
    halving.gather(builder, folded.survivor_of(root));
}
