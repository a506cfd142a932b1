//! Recursive halving: log₂ n rounds (two more if n is no power of two), one vector moved in all. Best for
//! short and medium vectors and operations that commute.

use super::Args;
use crate::coll::Builder;
use crate::coll::halving::{Folded, Halving};

pub(super) fn build(builder: &mut Builder, args: &Args<'_>) {
    let folded = Folded::new(args.context, None);
    // The block of a survivor is that of its pair. `rank_of` is the higher of a pair: its end is the pair's.
    let offset = |survivor: u32| match survivor {
        0 => 0,
        _ => args.offsets[folded.rank_of(survivor - 1) as usize + 1],
    };
    let sum = if folded.me().is_some() { builder.scratch(args.operand.len()) } else { args.operand };
    let mut halving = Halving { folded, offset: &offset, send: Some(args.operand), sum };
    halving.reduce_scatter(builder);
    match folded.partner() {
        Some(partner) if folded.me().is_some() => {
            let theirs = args.of(sum, partner);
            if !theirs.is_empty() {
                builder.send(partner, theirs);
            }
        }
        Some(partner) if !args.part.is_empty() => {
            builder.receive(partner, args.part);
        }
        _ => {}
    }
    if folded.me().is_some() {
        builder.copy(args.of(sum, args.context.rank), args.part);
    }
}
