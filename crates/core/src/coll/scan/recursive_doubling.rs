//! Recursive doubling (Hillis, Steele 1986): ⌈log₂ n⌉ rounds; in round k each process adds what the one 2^k
//! below it has summed up. Keeps rank order: the sums belong to runs of ranks that adjoin.

use crate::buffer::Buffer;
use crate::coll::accumulator::Accumulator;
use crate::coll::{Builder, Context};

pub(super) fn inclusive(
    builder: &mut Builder,
    context: Context,
    send: Option<Buffer>,
    recv: Buffer,
    commutative: bool,
) {
    let mut accumulator = Accumulator::new(send, Some(recv), commutative);
    let mut distance = 1;
    while distance < context.size {
        if distance < context.size - context.rank {
            let sum = accumulator.current(builder);
            builder.send(context.rank + distance, sum);
        }
        let from = context.rank.checked_sub(distance);
        if let Some(from) = from {
            let target = accumulator.target(builder, true);
            builder.receive(from, target);
        }
        builder.fence();
        if from.is_some() {
            accumulator.combine(builder, true);
            builder.fence();
        }
        distance *= 2;
    }
    accumulator.finish(builder);
}

/// Besides the sum that includes this process' operand, which the ones above need, there is the one without.
pub(super) fn exclusive(builder: &mut Builder, context: Context, send: Option<Buffer>, recv: Buffer) {
    let (rank, size) = (context.rank, context.size);
    // The last process sends nothing and needs no sum that includes itself.
    let with_own = if rank + 1 < size { builder.scratch(recv.len()) } else { Buffer::EMPTY };
    if !with_own.is_empty() {
        builder.copy(send.unwrap_or(recv), with_own);
        builder.fence();
    }
    let mut arriving = None;
    let mut distance = 1;
    while distance < size {
        if distance < size - rank {
            builder.send(rank + distance, with_own);
        }
        let Some(from) = rank.checked_sub(distance) else {
            builder.fence();
            distance *= 2;
            continue;
        };
        let first = distance == 1;
        let lower = if first { recv } else { *arriving.get_or_insert_with(|| builder.scratch(recv.len())) };
        builder.receive(from, lower);
        builder.fence();
        if !first {
            builder.reduce(lower, recv);
        }
        // Only if it will be sent once more.
        if u64::from(rank) + 2 * u64::from(distance) < u64::from(size) {
            builder.reduce(lower, with_own);
        }
        builder.fence();
        distance *= 2;
    }
}
