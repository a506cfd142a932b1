//! Ring: n - 1 rounds in which partial sums of one n-th of the vector travel round and grow, n - 1 rounds in
//! which the sums do. Neighbours only, and no process moves more than twice the vector, whatever n
//! (Patarasuk, Yuan 2009). Best for very long vectors; sums in the order of the ring, so for operations that
//! commute.

use super::Args;
use crate::buffer::Buffer;
use crate::coll::Builder;
use crate::coll::halving::even_offset;

pub(super) fn build(builder: &mut Builder, Args { context, send, recv, reducer }: Args<'_>) {
    let size = context.size;
    let extent = reducer.extent_bytes();
    let block = |buffer: Buffer, index: u32| {
        let at = |index| even_offset(index, size, buffer.len() / extent, extent);
        buffer.part(at(index), at(index + 1) - at(index))
    };
    let (next, previous) = (context.up(1), context.down(1));
    // In place the operand has the sum's place, so a partial sum arrives beside it.
    let arriving = if send.is_none() { builder.scratch(block(recv, 0).len()) } else { recv };
    for round in 0..size - 1 {
        let (out, back) = (context.down(round), context.down(round + 1));
        let from = if round == 0 { send.unwrap_or(recv) } else { recv };
        if !block(from, out).is_empty() {
            builder.send(next, block(from, out));
        }
        let sum = block(recv, back);
        match send {
            Some(send) => {
                if !sum.is_empty() {
                    builder.receive(previous, sum);
                }
                builder.fence();
                builder.reduce(block(send, back), sum);
            }
            None => {
                let theirs = arriving.part(0, sum.len());
                if !sum.is_empty() {
                    builder.receive(previous, theirs);
                }
                builder.fence();
                builder.reduce(theirs, sum);
            }
        }
        builder.fence();
    }
    // This process now has the sum of the block above its own number.
    let mut received = None;
    for round in 0..size - 1 {
        let out = block(recv, context.down((round + size - 1) % size));
        let back = block(recv, context.down(round));
        if !out.is_empty() {
            let step = builder.send(next, out);
            if let Some(received) = received {
                builder.after(step, received);
            }
        }
        if !back.is_empty() {
            let step = builder.receive(previous, back);
            if let Some(earlier) = received.replace(step) {
                builder.after(step, earlier);
            }
        }
    }
}
