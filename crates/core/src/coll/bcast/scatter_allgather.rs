//! Scatter, then allgather (van de Geijn; Barnett et al. 1994): each process gets 1/n of the message down a
//! binomial tree, then all exchange their parts. About twice the message crosses each link, whatever n: best
//! for long messages.

use super::Args;
use crate::buffer::Buffer;
use crate::coll::tree::Node;
use crate::coll::{Builder, Rooted};

/// The message cut into one part per process, counted from the root. The last ones may be empty.
struct Parts {
    buffer: Buffer,
    part_bytes: usize,
}

impl Parts {
    fn new(buffer: Buffer, size: u32) -> Self {
        // Parts begin at cache lines of the message.
        let part_bytes = buffer.len().div_ceil(size as usize).next_multiple_of(64);
        Self { buffer, part_bytes }
    }

    /// The parts of `count` processes from `first`.
    fn run(&self, first: u32, count: u32) -> Buffer {
        let at = |process: u32| (process as usize).saturating_mul(self.part_bytes).min(self.buffer.len());
        self.buffer.part(at(first), at(first + count) - at(first))
    }
}

fn scatter(builder: &mut Builder, rooted: Rooted, place: u32, parts: &Parts) {
    let node = Node::new(place, rooted.size);
    let mine = parts.run(place, node.subtree_size());
    if let Some(parent) = node.parent().filter(|_| !mine.is_empty()) {
        builder.receive(rooted.absolute(parent), mine);
        builder.fence();
    }
    for child in node.children() {
        let part = parts.run(child.rank(), child.subtree_size());
        if !part.is_empty() {
            builder.send(rooted.absolute(child.rank()), part);
        }
    }
}

/// The allgather goes around a ring: n - 1 rounds, any number of processes.
pub(super) fn ring(builder: &mut Builder, Args { context, buffer, root }: Args) {
    let rooted = Rooted { root, size: context.size };
    let (place, parts) = (context.relative_to(root), Parts::new(buffer, context.size));
    scatter(builder, rooted, place, &parts);
    builder.fence();
    let mut received = None;
    for round in 0..context.size - 1 {
        let out = (place + context.size - round) % context.size;
        let back = (place + context.size - round - 1) % context.size;
        let (out, back) = (parts.run(out, 1), parts.run(back, 1));
        // Each process forwards a part once it has received it. The root has all parts: it only sends, and no
        // process sends to it.
        let next_is_root = (place + 1) % context.size == 0;
        if !out.is_empty() && !next_is_root {
            let send = builder.send(context.up(1), out);
            if let Some(received) = received {
                builder.after(send, received);
            }
        }
        if !back.is_empty() && place != 0 {
            let receive = builder.receive(context.down(1), back);
            if let Some(earlier) = received.replace(receive) {
                builder.after(receive, earlier);
            }
        }
    }
}

/// The allgather by recursive doubling: log₂ n rounds; powers of two only.
pub(super) fn recursive_doubling(builder: &mut Builder, Args { context, buffer, root }: Args) {
    let rooted = Rooted { root, size: context.size };
    let (place, parts) = (context.relative_to(root), Parts::new(buffer, context.size));
    scatter(builder, rooted, place, &parts);
    builder.fence();
    let mut width = 1;
    while width < context.size {
        let peer = place ^ width;
        let (mine, theirs) = (parts.run(place & !(width - 1), width), parts.run(peer & !(width - 1), width));
        if !mine.is_empty() {
            builder.send(rooted.absolute(peer), mine);
        }
        if !theirs.is_empty() {
            builder.receive(rooted.absolute(peer), theirs);
        }
        builder.fence();
        width *= 2;
    }
}
