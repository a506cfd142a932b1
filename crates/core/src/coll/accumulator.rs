//! A partial result that other processes' partial results are combined with, with as few copies as can be.
//!
//! A reduction overwrites the right one of its two operands, so that buffer holds the sum afterwards. The
//! accumulator therefore moves between two buffers, and the user's send buffer is read in place until then.

use super::schedule::Builder;
use crate::buffer::Buffer;

/// Where the partial result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// In the send buffer, which may not be written.
    Send,
    Result,
    Spare,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Accumulator {
    send: Buffer,
    result: Option<Buffer>,
    spare: Option<Buffer>,
    at: At,
    /// Where the other operand of the next combination is.
    other: At,
    commutative: bool,
}

impl Accumulator {
    /// Starts with `send`, or with what is in `result` (`MPI_IN_PLACE`). A `result` of `None` is scratch
    /// memory made when needed.
    pub(super) fn new(send: Option<Buffer>, result: Option<Buffer>, commutative: bool) -> Self {
        let at = if send.is_some() { At::Send } else { At::Result };
        let send = send.or(result).expect("something to start with");
        Self { send, result, spare: None, at, other: At::Spare, commutative }
    }

    fn buffer(&mut self, builder: &mut Builder, at: At) -> Buffer {
        let len = self.send.len();
        match at {
            At::Send => self.send,
            At::Result => *self.result.get_or_insert_with(|| builder.scratch(len)),
            At::Spare => *self.spare.get_or_insert_with(|| builder.scratch(len)),
        }
    }

    /// The partial result.
    pub(super) fn current(&mut self, builder: &mut Builder) -> Buffer {
        self.buffer(builder, self.at)
    }

    /// Where to receive the other operand, which belongs to the `lower` ranks or to higher ones. May copy;
    /// the buffer that was [`current`](Self::current) before the call stays intact until
    /// [`combine`](Self::combine).
    pub(super) fn target(&mut self, builder: &mut Builder, lower: bool) -> Buffer {
        if self.at == At::Send && lower && !self.commutative {
            // The lower operand must be the left one, so ours is overwritten: not in the send buffer.
            let (send, result) = (self.send, self.buffer(builder, At::Result));
            builder.copy(send, result);
            self.at = At::Result;
        }
        self.other = if self.at == At::Result { At::Spare } else { At::Result };
        self.buffer(builder, self.other)
    }

    /// Combines with the operand received in the [`target`](Self::target).
    pub(super) fn combine(&mut self, builder: &mut Builder, lower: bool) {
        let (mine, theirs) = (self.buffer(builder, self.at), self.buffer(builder, self.other));
        let into_mine = if self.commutative { self.at == At::Result } else { lower };
        if into_mine {
            builder.reduce(theirs, mine);
        } else {
            builder.reduce(mine, theirs);
            self.at = self.other;
        }
    }

    /// Brings the result to its place.
    pub(super) fn finish(&mut self, builder: &mut Builder) {
        let (from, to) = (self.current(builder), self.buffer(builder, At::Result));
        if self.at != At::Result {
            builder.copy(from, to);
        }
    }
}
