//! What a process goes through in a schedule: the memory that its steps read and write.
//!
//! A simulated schedule is of lengths, which do not say whether two steps use the same memory. So it is made
//! once more over memory that has addresses and that nobody touches ([`Places`]).

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

/// What a process reads and writes in a schedule over buffers with addresses, bytes. Of a message that the
/// kernel copies for its receiver (`is_got`, by its length) the receiver goes through the sender's memory,
/// which no other message of an operation is from, and the sender through none.
pub(super) fn bytes(schedule: &Schedule, is_got: impl Fn(usize) -> bool) -> u64 {
    let (mut own, mut others_bytes): (Vec<(usize, usize)>, _) = (Vec::new(), 0);
    let mut note = |buffer: Buffer| {
        let at = buffer.as_ptr().map_or(0, |at| at as usize);
        own.push((at, at + buffer.len()));
    };
    for action in schedule.actions() {
        match *action {
            Action::Send { buffer, .. } if is_got(buffer.len()) => {}
            Action::Send { buffer, .. } => note(buffer),
            Action::Receive { buffer, .. } => {
                note(buffer);
                others_bytes += if is_got(buffer.len()) { buffer.len() } else { 0 };
            }
            Action::Copy { from, to } => [from, to].into_iter().for_each(&mut note),
            Action::Reduce { input, inout } => [input, inout].into_iter().for_each(&mut note),
        }
    }
    own.sort_unstable();
    let (mut own_bytes, mut until) = (0, 0);
    for (from, to) in own {
        own_bytes += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    (own_bytes + others_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_core::coll::{Algorithm, Choice, Context, allreduce};
    use ayatori_core::datatype::Predefined;
    use ayatori_core::op::{Operation, Reducer};

    /// Buffers of its length that an allreduce goes through.
    fn buffers_of(size: u32, algorithm: Algorithm, is_got: bool) -> f64 {
        const BYTES: usize = 64 << 10;
        let mut pool = Pool::default();
        let places = Places::new(&mut pool, [BYTES; 2]);
        let Buffers { send, receive } = places.buffers;
        let sum = Reducer::predefined(Operation::Sum, Predefined::Uint8).unwrap();
        let choice = Choice { algorithm, segment_bytes: 0 };
        let schedule =
            allreduce(&mut pool, Context { rank: 0, size }, Some(send), receive, &sum, choice).unwrap();
        bytes(&schedule, |_| is_got) as f64 / BYTES as f64
    }

    #[test]
    fn an_allreduce_goes_through_what_its_steps_name() {
        // Two ranks: what is sent, the peer's, and the result, where that comes to.
        assert_eq!(buffers_of(2, Algorithm::RecursiveDoubling, true), 3.0);
        assert_eq!(buffers_of(2, Algorithm::RecursiveDoubling, false), 2.0);
        // Four: another peer's, and a place for that.
        assert_eq!(buffers_of(4, Algorithm::RecursiveDoubling, true), 5.0);
        assert_eq!(buffers_of(4, Algorithm::RecursiveDoubling, false), 3.0);
    }
}
