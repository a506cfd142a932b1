//! Rabenseifner 1997: reduce-scatter by recursive halving, allgather by recursive doubling. 2 log₂ n rounds,
//! each process moves about twice the vector: best for medium and long vectors and operations that commute.

use super::Args;
use crate::coll::Builder;
use crate::coll::halving::{Folded, Halving, even_offset};

pub(super) fn build(builder: &mut Builder, Args { context, send, recv, reducer }: Args<'_>) {
    let extent = reducer.extent_bytes();
    let folded = Folded::new(context, None);
    let parts = folded.survivor_count();
    let offset = |i| even_offset(i, parts, recv.len() / extent, extent);
    let mut halving = Halving { folded, offset: &offset, send, sum: recv };
    halving.reduce_scatter(builder);
    halving.allgather(builder);
}
