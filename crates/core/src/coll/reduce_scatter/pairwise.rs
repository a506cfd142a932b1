//! Pairwise exchange: n - 1 rounds; in each a process sends one other its part and gets an operand for its
//! own. No process moves more than one vector: best for long vectors and operations that commute.

use super::Args;
use crate::coll::Builder;

pub(super) fn build(builder: &mut Builder, args: &Args<'_>) {
    let context = args.context;
    let mine = args.of(args.operand, context.rank);
    let scratch = builder.scratch((1 + usize::from(args.in_place)) * mine.len());
    let theirs = scratch.part(0, mine.len());
    // In place the result's place is operand of others until all is sent.
    let sum = if args.in_place { scratch.part(mine.len(), mine.len()) } else { args.part };
    for distance in 1..context.size {
        let (to, from) = (context.up(distance), context.down(distance));
        let out = args.of(args.operand, to);
        if !out.is_empty() {
            builder.send(to, out);
        }
        // The first operand is received where the sum will be, and ours is added to it.
        let (input, inout, arriving) = if distance == 1 { (mine, sum, sum) } else { (theirs, sum, theirs) };
        if !mine.is_empty() {
            builder.receive(from, arriving);
        }
        builder.fence();
        builder.reduce(input, inout);
        builder.fence();
    }
    builder.copy(sum, args.part);
}
