//! Dissemination barrier (Hensgen, Finkel, Manber 1988): ⌈log₂ n⌉ rounds, any number of processes.
//!
//! In round k each process sends to the one 2^k above it. After round k each has heard, directly or not, from
//! 2^(k+1) processes below.

use crate::buffer::Buffer;
use crate::coll::{Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context) {
    let mut distance = 1;
    while distance < context.size {
        builder.send(context.up(distance), Buffer::EMPTY);
        builder.receive(context.down(distance), Buffer::EMPTY);
        builder.fence();
        distance *= 2;
    }
}
