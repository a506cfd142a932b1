//! Pipelined chain: each process passes segments on to the next while further ones arrive. n - 2 + s rounds
//! of 1/s of the message: the bandwidth of a single transfer for very long messages.

use super::Args;
use crate::coll::schedule::StepId;
use crate::coll::{Builder, Rooted};

/// Receives posted at once: one in transfer, one ready for the next.
const POSTED_RECEIVES: usize = 2;

pub(super) fn build(builder: &mut Builder, Args { context, buffer, root }: Args, segment_bytes: usize) {
    let rooted = Rooted { root, size: context.size };
    let place = context.relative_to(root);
    let segment_bytes = segment_bytes.clamp(1, buffer.len());
    let mut receives = [None::<StepId>; POSTED_RECEIVES];
    let mut last_send = None;
    for (index, offset) in (0..buffer.len()).step_by(segment_bytes).enumerate() {
        let segment = buffer.part(offset, segment_bytes.min(buffer.len() - offset));
        let mut received = None;
        if place > 0 {
            let step = builder.receive(rooted.absolute(place - 1), segment);
            // In order after the last one, and not before the one that had its place has arrived.
            if let Some(last) = receives[(index + POSTED_RECEIVES - 1) % POSTED_RECEIVES] {
                builder.issue_after(step, last);
            }
            if let Some(earlier) = receives[index % POSTED_RECEIVES].replace(step) {
                builder.after(step, earlier);
            }
            received = Some(step);
        }
        if place + 1 < context.size {
            let step = builder.send(rooted.absolute(place + 1), segment);
            if let Some(received) = received {
                builder.after(step, received);
            }
            if let Some(last) = last_send.replace(step) {
                builder.issue_after(step, last);
            }
        }
    }
}
