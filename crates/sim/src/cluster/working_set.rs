//! What a process goes through in a schedule: the memory that its steps read and write, and how much of that
//! comes between two uses of the same memory.
//!
//! A simulated schedule is of lengths, which do not say whether two steps use the same memory. So it is made
//! once more over memory that has addresses and that nobody touches ([`Places`]).

use std::ops::Range;

use ayatori_core::buffer::Buffer;
use ayatori_core::coll::schedule::Action;
use ayatori_core::coll::{Builder, Pool, Schedule};

/// Memory to send from and to receive into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffers {
    pub(super) send: Buffer,
    pub(super) receive: Buffer,
}

impl Buffers {
    /// Lengths only.
    pub(super) fn of_lengths([send, receive]: [usize; 2]) -> Buffers {
        Buffers { send: Buffer::virtual_of(send), receive: Buffer::virtual_of(receive) }
    }
}

/// Buffers with addresses; their pages are not touched.
pub(super) struct Places {
    pub(super) buffers: Buffers,
    /// Owns them.
    _memory: Schedule,
}

impl Places {
    pub(super) fn new(pool: &mut Pool, [send, receive]: [usize; 2]) -> Places {
        let mut builder = Builder::new(pool, false);
        let buffers = Buffers { send: builder.scratch(send), receive: builder.scratch(receive) };
        Places { buffers, _memory: builder.finish() }
    }
}

/// How far back steps of a kind use their memory: what a process goes through from one use to the next, with
/// that memory, and of how many bytes that is so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Distances(Vec<(u64, u64)>);

impl Distances {
    fn note(&mut self, distance_bytes: u64, bytes: u64) {
        match self.0.iter_mut().find(|known| known.0 == distance_bytes) {
            Some(known) => known.1 += bytes,
            None => self.0.push((distance_bytes, bytes)),
        }
    }

    /// The mean of what steps take by these distances, ps; that of `else_bytes` where none is known.
    pub(super) fn mean_ps(&self, else_bytes: u64, ps: impl Fn(u64) -> u64) -> u64 {
        let all_bytes: u128 = self.0.iter().map(|part| u128::from(part.1)).sum();
        if all_bytes == 0 {
            return ps(else_bytes);
        }
        let sum: u128 =
            self.0.iter().map(|&(distance, bytes)| u128::from(ps(distance)) * u128::from(bytes)).sum();
        (sum / all_bytes) as u64
    }
}

/// What a step does with its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Copies,
    /// The kernel copies a message for its receiver.
    Gets,
    Reduces,
    /// Packets.
    Other,
}

/// A step and the memory that it goes through, side by side.
type Step = (Kind, Vec<Range<u64>>);

/// What a process goes through in a schedule over buffers with addresses.
#[derive(Debug, Default)]
pub(super) struct WorkingSet {
    /// All of it, bytes.
    pub(super) bytes: u64,
    /// Of copies in its own memory.
    pub(super) copied: Distances,
    /// Of messages that the kernel copies for it.
    pub(super) got: Distances,
    /// Of reductions.
    pub(super) reduced: Distances,
}

impl WorkingSet {
    /// Of a message that the kernel copies for its receiver (`is_got`, by its length) the receiver goes
    /// through the sender's memory, which no other message of an operation is from, and the sender through
    /// none. The operation is done again and again, and between two of them the process goes through
    /// `told_bytes` at least.
    pub(super) fn of(schedule: &Schedule, is_got: impl Fn(usize) -> bool, told_bytes: u64) -> WorkingSet {
        let mut theirs_at = 1 << 63;
        let own = |buffer: Buffer| {
            let at = buffer.as_ptr().map_or(0, |at| at as u64);
            at..at + buffer.len() as u64
        };
        let mut step = |action: &Action| match *action {
            Action::Send { buffer, .. } if is_got(buffer.len()) => (Kind::Other, Vec::new()),
            Action::Send { buffer, .. } => (Kind::Other, vec![own(buffer)]),
            Action::Receive { buffer, .. } if is_got(buffer.len()) => {
                let theirs = theirs_at..theirs_at + buffer.len() as u64;
                theirs_at = theirs.end;
                (Kind::Gets, vec![theirs, own(buffer)])
            }
            Action::Receive { buffer, .. } => (Kind::Other, vec![own(buffer)]),
            Action::Copy { from, to } => (Kind::Copies, vec![own(from), own(to)]),
            Action::Reduce { input, inout } => (Kind::Reduces, vec![own(input), own(inout)]),
        };
        let steps: Vec<Step> = schedule.actions().map(&mut step).collect();
        let bytes = union_bytes(steps.iter().flat_map(|step| &step.1));
        let mut set = WorkingSet { bytes, ..WorkingSet::default() };
        set.measure(&steps, told_bytes);
        set
    }

    /// Does the steps twice, a chunk of each operand after the other.
    fn measure(&mut self, steps: &[Step], told_bytes: u64) {
        if steps.len() > STEPS_MAX {
            return;
        }
        let count = (STEPS_MAX / steps.len().max(1)).min(CHUNKS_MAX) as u64;
        let mut recency = Recency::new(steps, count);
        for is_again in [false, true] {
            for (kind, memory) in steps {
                for (part, memory) in
                    (0..count).flat_map(|part| memory.iter().map(move |memory| (part, memory)))
                {
                    recency.touch(
                        &chunk(memory, part, count),
                        is_again,
                        |used_bytes, is_of_before, bytes| {
                            let distance = if is_of_before { used_bytes.max(told_bytes) } else { used_bytes };
                            match kind {
                                Kind::Copies => self.copied.note(distance, bytes),
                                Kind::Gets => self.got.note(distance, bytes),
                                Kind::Reduces => self.reduced.note(distance, bytes),
                                Kind::Other => {}
                            }
                        },
                    );
                }
            }
        }
    }
}

/// Chunks that a step is cut into at most; those of all steps.
const CHUNKS_MAX: usize = 16;
const STEPS_MAX: usize = 256;

fn chunk(memory: &Range<u64>, part: u64, count: u64) -> Range<u64> {
    let at = |part| memory.start + (memory.end - memory.start) * part / count;
    at(part)..at(part + 1)
}

fn union_bytes<'a>(memory: impl Iterator<Item = &'a Range<u64>>) -> u64 {
    let mut memory: Vec<&Range<u64>> = memory.collect();
    memory.sort_unstable_by_key(|one| (one.start, one.end));
    let (mut bytes, mut until) = (0, 0);
    for one in memory {
        bytes += one.end.saturating_sub(one.start.max(until));
        until = until.max(one.end);
    }
    bytes
}

/// Memory in the order of its last use.
struct Recency {
    /// Where each piece begins that is used as a whole, and the end of the last.
    cuts: Vec<u64>,
    /// Pieces, the one used longest ago first, and whether that was in the operation under way.
    order: Vec<(usize, bool)>,
}

impl Recency {
    fn new(steps: &[Step], count: u64) -> Recency {
        let memory = steps.iter().flat_map(|step| &step.1);
        let ends = |memory| (0..=count).map(move |part| chunk(memory, part, count).start);
        let mut cuts: Vec<u64> = memory.flat_map(ends).collect();
        cuts.sort_unstable();
        cuts.dedup();
        Recency { cuts, order: Vec::new() }
    }

    /// Uses memory. Of each piece that was used before, in the second of two operations: what has been used
    /// since, whether that was in the operation before, and its bytes.
    fn touch(&mut self, memory: &Range<u64>, is_again: bool, mut note: impl FnMut(u64, bool, u64)) {
        let [from, to] = [memory.start, memory.end].map(|at| self.cuts.partition_point(|&cut| cut < at));
        for piece in from..to {
            let cuts = &self.cuts;
            let len = |piece: usize| cuts[piece + 1] - cuts[piece];
            if let Some(place) = self.order.iter().rposition(|used| used.0 == piece) {
                let used_bytes = self.order[place..].iter().map(|used| len(used.0)).sum();
                let (_, was_again) = self.order.remove(place);
                if is_again {
                    note(used_bytes, !was_again, len(piece));
                }
            }
            self.order.push((piece, is_again));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_core::coll::{Algorithm, Choice, Context, allreduce};
    use ayatori_core::datatype::Predefined;
    use ayatori_core::op::{Operation, Reducer};

    const BYTES: u64 = 64 << 10;

    fn allreduce_by(size: u32, algorithm: Algorithm, is_got: bool, told_bytes: u64) -> WorkingSet {
        let mut pool = Pool::default();
        let places = Places::new(&mut pool, [BYTES as usize; 2]);
        let Buffers { send, receive } = places.buffers;
        let sum = Reducer::predefined(Operation::Sum, Predefined::Uint8).unwrap();
        let choice = Choice { algorithm, segment_bytes: 0 };
        let schedule =
            allreduce(&mut pool, Context { rank: 0, size }, Some(send), receive, &sum, choice).unwrap();
        WorkingSet::of(&schedule, |_| is_got, told_bytes)
    }

    #[test]
    fn an_allreduce_goes_through_what_its_steps_name() {
        // In buffers of its length.
        let buffers_of = |size, is_got| {
            allreduce_by(size, Algorithm::RecursiveDoubling, is_got, 0).bytes as f64 / BYTES as f64
        };
        // Two ranks: what is sent, the peer's, and the result, where that comes to.
        assert_eq!([buffers_of(2, true), buffers_of(2, false)], [3.0, 2.0]);
        // Four: another peer's, and a place for that.
        assert_eq!([buffers_of(4, true), buffers_of(4, false)], [5.0, 3.0]);
    }

    /// Distances in buffers, and parts of the bytes.
    fn parts(distances: &Distances) -> Vec<(f64, f64)> {
        let all: u64 = distances.0.iter().map(|part| part.1).sum();
        let mut parts: Vec<(f64, f64)> = Vec::new();
        for &(distance, bytes) in &distances.0 {
            // To a quarter of a buffer, in place of chunks.
            let distance = (4.0 * distance as f64 / BYTES as f64).round() / 4.0;
            let part = bytes as f64 / all as f64;
            match parts.iter_mut().find(|known| known.0 == distance) {
                Some(known) => known.1 += part,
                None => parts.push((distance, part)),
            }
        }
        parts.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        parts
    }

    #[test]
    fn a_reduction_finds_what_has_just_been_copied() {
        let set = allreduce_by(2, Algorithm::RecursiveDoubling, true, 0);
        // The result's place was used in the reduction before, beside the operand; the peer's operand before
        // all of that.
        assert_eq!(parts(&set.got), [(2.0, 0.5), (3.0, 0.5)]);
        // The result in the copy just before, beside the peer's operand; this rank's before that.
        assert_eq!(parts(&set.reduced), [(2.0, 0.5), (3.0, 0.5)]);
        assert_eq!(parts(&set.copied), []);
        // A program that goes through more between two operations finds nothing of the one before.
        let set = allreduce_by(2, Algorithm::RecursiveDoubling, true, 10 * BYTES);
        assert_eq!(parts(&set.got), [(10.0, 1.0)]);
        assert_eq!(parts(&set.reduced), [(2.0, 0.5), (10.0, 0.5)]);
    }

    #[test]
    fn what_is_not_known_is_taken_as_the_whole() {
        assert_eq!(Distances::default().mean_ps(7, |bytes| 10 * bytes), 70);
        let mut distances = Distances::default();
        distances.note(2, 100);
        distances.note(6, 300);
        assert_eq!(distances.mean_ps(7, |bytes| 10 * bytes), 50);
    }
}
