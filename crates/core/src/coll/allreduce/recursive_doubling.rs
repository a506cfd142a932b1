//! Recursive doubling: ⌈log₂ n⌉ rounds (two more if n is no power of two) of the whole vector. Best for short
//! vectors; keeps rank order, so it serves operations that do not commute.
//!
//! Neighbours are folded first if n is no power of two. A process' partial sum always belongs to a run of
//! ranks, and its partner's to the run beside it.

use super::Args;
use crate::coll::Builder;
use crate::coll::accumulator::Accumulator;
use crate::coll::halving::Folded;

pub(super) fn build(builder: &mut Builder, Args { context, send, recv, reducer }: Args<'_>) {
    let folded = Folded::new(context, None);
    let mut accumulator = Accumulator::new(send, Some(recv), reducer.is_commutative());
    let Some(me) = folded.me() else {
        // Folded into the next rank, which sends the result back.
        let partner = folded.partner().expect("a rank that does not survive has a partner");
        let operand = accumulator.current(builder);
        builder.send(partner, operand);
        builder.fence();
        builder.receive(partner, recv);
        return;
    };
    if let Some(partner) = folded.partner() {
        let target = accumulator.target(builder, true);
        builder.receive(partner, target);
        builder.fence();
        accumulator.combine(builder, true);
        builder.fence();
    }
    let mut width = 1;
    while width < folded.survivor_count() {
        let peer = me ^ width;
        let lower = peer < me;
        let operand = accumulator.current(builder);
        builder.send(folded.rank_of(peer), operand);
        let target = accumulator.target(builder, lower);
        builder.receive(folded.rank_of(peer), target);
        builder.fence();
        accumulator.combine(builder, lower);
        builder.fence();
        width *= 2;
    }
    accumulator.finish(builder);
    if let Some(partner) = folded.partner() {
        builder.fence();
        builder.send(partner, recv);
    }
}
