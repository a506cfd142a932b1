//! Linear: all receives, then all sends at once. Neighbours are few.

use super::Block;
use crate::coll::{Builder, Context};

pub(super) fn build(builder: &mut Builder, context: Context, sends: &[Block], receives: &[Block]) {
    for &(from, block) in receives.iter().filter(|block| block.0 != context.rank && !block.1.is_empty()) {
        builder.receive(from, block);
    }
    for &(to, block) in sends.iter().filter(|block| block.0 != context.rank && !block.1.is_empty()) {
        builder.send(to, block);
    }
    let own = |block: &&Block| block.0 == context.rank;
    for ((_, from), (_, to)) in sends.iter().filter(own).zip(receives.iter().filter(own)) {
        builder.copy(*from, *to);
    }
}
