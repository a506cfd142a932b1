//! One end of a partitioned message (MPI-5.0 §4.2).
//!
//! Each end cuts the same stream of bytes into parts of its own. The sender *introduces* its request to the
//! receiver when it makes it: one message on the communicator's space for that, by the user's tag, so that
//! requests match in the order in which both sides make them. It names a context of the pair's own and the
//! sender's parts. A part that is ready is then a message in that context, by its number as the tag: parts go
//! at once and in any order, and matching, protocols and rails are those of all messages. The receiver posts
//! a receive for each of the *sender's* parts, and one of its own has arrived when all those have that it
//! overlaps.
//!
//! ```text
//!   psend_init ── introduction (context, parts, bytes of a part) ──► precv_init
//!   start                                                            start: a receive for each part sent
//!   pready(2)  ── message, tag 2 ──────────────────────────────────► parrived(…)
//!   pready(0)  ── message, tag 0 ──────────────────────────────────► …
//! ```
//!
//! Parts without bytes are together one empty message, which leaves when the last of them is ready.
//!
//! Here is what one end knows; `crate::partitioned` moves it.

use super::{Completion, Origin, Status};
use crate::buffer::{Buffer, Scratch};
use crate::data::Data;
use crate::error::Error;
use crate::ids::{ContextId, ProcessId, Rank, Tag};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// One end.
pub(crate) struct Partitioned {
    /// The other end; `None`: `MPI_PROC_NULL`.
    pub(crate) peer: Option<ProcessId>,
    pub(crate) data: Data,
    /// How many parts this end has.
    pub(crate) parts_count: u32,
    pub(crate) run: Run,
    pub(crate) end: End,
    /// Where the introduction lies while it is sent or received.
    pub(crate) memory: Scratch,
    /// Whether the introduction is under way.
    pub(crate) is_introducing: bool,
}

/// Which end.
pub(crate) enum End {
    Send {
        /// In which parts are sent.
        context: ContextId,
        /// The parts that are ready in this run.
        ready: Flags,
    },
    Receive {
        /// The sender's rank and the tag, as the user gave them.
        from: (Rank, Tag),
        /// The sender's parts; none before its introduction.
        sender: Option<Result<Introduction, Error>>,
        /// The sender's parts that have arrived in this run.
        arrived: Flags,
        /// Memory for those of the sender's parts that end inside of elements with gaps.
        staged: Vec<(u32, Scratch)>,
    },
}

/// Between two starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Inactive,
    /// Number of messages that have not ended.
    Active {
        left_count: u32,
        failure: Option<Error>,
    },
    /// And what went wrong, if anything.
    Over(Option<Error>),
}

/// A flag for each part.
#[derive(Default)]
pub(crate) struct Flags {
    set: Vec<bool>,
    set_count: u32,
}

impl Flags {
    /// Resets to `count` partitions, none of them set.
    pub(crate) fn reset(&mut self, count: u32) {
        self.set.clear();
        self.set.resize(count as usize, false);
        self.set_count = 0;
    }

    /// Sets a flag. `false`: it was set, or there is none.
    pub(crate) fn set(&mut self, at: u32) -> bool {
        match self.set.get_mut(at as usize) {
            Some(flag) if !*flag => {
                *flag = true;
                self.set_count += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether all flags are set.
    pub(crate) fn are_all_set(&self) -> bool {
        self.set_count as usize == self.set.len()
    }

    /// Whether some flags are set.
    fn are_set(&self, range: Range<usize>) -> bool {
        self.set.get(range).is_some_and(|flags| flags.iter().all(|flag| *flag))
    }
}

/// A sender's description of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Introduction {
    /// In which its parts are sent.
    pub(crate) context: ContextId,
    /// How many messages a run is: the parts, or one of no bytes for all.
    pub(crate) messages_count: u32,
    /// Length of each in bytes.
    pub(crate) part_bytes: u64,
}

impl Introduction {
    /// `context u64 | parts u32 | bytes of a part u64`, little-endian.
    pub(crate) const LEN: usize = 20;

    pub(crate) fn put(&self, memory: Buffer) {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.context.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.messages_count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.part_bytes.to_le_bytes());
        memory.scatter(0, crate::buffer::Piece::Bytes(&bytes));
    }

    /// Reads one and checks it against the length of the receiver's stream: so a peer cannot make us allocate
    /// more than the user's memory has bytes.
    pub(crate) fn take(memory: Buffer, total_bytes: u64) -> Result<Self, Error> {
        let bytes = memory.to_vec().unwrap_or_default();
        let word = |at: usize| {
            bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        };
        let count = bytes.get(8..12).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        let (Some(context), Some(messages_count), Some(part_bytes)) = (word(0), count, word(12)) else {
            return Err(Error::Argument("a partitioned send that introduced itself wrongly"));
        };
        let sent_bytes = u64::from(messages_count).saturating_mul(part_bytes);
        if sent_bytes > total_bytes {
            return Err(Error::Truncate { message_bytes: sent_bytes, buffer_bytes: total_bytes });
        }
        if sent_bytes < total_bytes || (part_bytes == 0 && messages_count > 1) {
            return Err(Error::Argument("a partitioned send of another length than the receive"));
        }
        Ok(Self { context: ContextId(context), messages_count, part_bytes })
    }

    /// The bytes of a message in the stream.
    pub(crate) fn range(&self, message: u32) -> Range<usize> {
        let start = message as usize * self.part_bytes as usize;
        start..start + self.part_bytes as usize
    }

    /// The messages that some bytes of the stream come in; of no bytes, the first.
    fn messages(&self, bytes: Range<usize>) -> Range<usize> {
        match self.part_bytes as usize {
            0 => 0..1,
            part_bytes => bytes.start / part_bytes..bytes.end.div_ceil(part_bytes),
        }
    }
}

impl Partitioned {
    /// A request that is not started.
    pub(crate) fn new(peer: Option<ProcessId>, data: Data, parts_count: u32, end: End) -> Self {
        Self {
            peer,
            data,
            parts_count,
            run: Run::Inactive,
            end,
            memory: Scratch::new(Introduction::LEN),
            is_introducing: false,
        }
    }

    /// How the sender cuts the stream.
    pub(crate) fn introduction(&self, context: ContextId) -> Introduction {
        let part_bytes = self.part_bytes() as u64;
        let messages_count = if part_bytes == 0 { self.parts_count.min(1) } else { self.parts_count };
        Introduction { context, messages_count, part_bytes }
    }

    fn part_bytes(&self) -> usize {
        self.data.len() / self.parts_count.max(1) as usize
    }

    /// The memory of a part of this end's.
    pub(crate) fn part(&self, part: u32) -> Data {
        let part_bytes = self.part_bytes();
        let start = part as usize * part_bytes;
        part_of(&self.data, start..start + part_bytes).expect("parts are whole elements")
    }

    /// Where a message of the sender's is received.
    pub(crate) fn place(&mut self, introduction: &Introduction, message: u32) -> Data {
        let range = introduction.range(message);
        let len = range.len();
        if let Some(part) = part_of(&self.data, range) {
            return part;
        }
        let End::Receive { staged, .. } = &mut self.end else { unreachable!("a send receives nothing") };
        let at = match staged.iter().position(|(of, _)| *of == message) {
            Some(at) => at,
            None => {
                staged.push((message, Scratch::new(len)));
                staged.len() - 1
            }
        };
        staged[at].1.buffer(len).into()
    }

    /// A message of the sender's is here: brings it from where it was received to where it belongs.
    pub(crate) fn unstage(&mut self, message: u32) {
        let End::Receive { sender: Some(Ok(introduction)), staged, .. } = &mut self.end else { return };
        let range = introduction.range(message);
        if let (Data::Region(region), Some((_, memory))) =
            (&self.data, staged.iter_mut().find(|(of, _)| *of == message))
        {
            region.unpack(range.start, memory.buffer(range.len()));
        }
    }

    /// Whether a part of this receiver's is there.
    pub(crate) fn has_arrived(&self, part: u32) -> bool {
        let End::Receive { sender, arrived, .. } = &self.end else { return false };
        match (self.run, sender) {
            (Run::Inactive | Run::Over(_), _) => true,
            (Run::Active { .. }, Some(Ok(introduction))) => {
                let part_bytes = self.part_bytes();
                let start = part as usize * part_bytes;
                arrived.are_set(introduction.messages(start..start + part_bytes))
            }
            _ => false,
        }
    }

    /// A message of the run has ended.
    pub(crate) fn end_one(&mut self, result: Result<(), Error>) {
        if let Run::Active { left_count, failure } = &mut self.run {
            *left_count -= 1;
            *failure = failure.or(result.err());
            self.settle();
        }
    }

    /// Ends the run if no message of it is left. Whether it is over.
    pub(crate) fn settle(&mut self) -> bool {
        if let Run::Active { left_count: 0, failure } = self.run {
            self.run = Run::Over(failure);
        }
        matches!(self.run, Run::Over(_))
    }

    /// Whether nothing of it is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_introducing && !matches!(self.run, Run::Active { .. })
    }

    /// Ends a run that is over and returns its completion; an inactive request has an empty one.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        let completion = self.outcome()?;
        self.run = Run::Inactive;
        Some(completion)
    }

    /// The message of this number has ended.
    pub(crate) fn end_message(&mut self, message: u32, result: Result<(), Error>) {
        if result.is_ok() {
            self.unstage(message);
        }
        if let End::Receive { arrived, .. } = &mut self.end {
            arrived.set(message);
        }
        self.end_one(result);
    }

    /// The completion of a run, if it is over, or if there is none.
    pub(crate) fn outcome(&self) -> Option<Completion> {
        match self.run {
            Run::Inactive => Some(Completion::EMPTY),
            Run::Over(Some(error)) => Some(Completion::failed(error)),
            Run::Over(None) => Some(Completion { status: self.status(), error: None }),
            Run::Active { .. } => None,
        }
    }

    /// The status of a run that has succeeded.
    fn status(&self) -> Status {
        match self.end {
            End::Send { .. } => Status::EMPTY,
            End::Receive { .. } if self.peer.is_none() => Status::PROC_NULL,
            End::Receive { from: (source, tag), .. } => {
                let bytes = self.data.len() as u64;
                Status { source: Origin::Rank(source), tag: Some(tag), bytes, cancelled: false }
            }
        }
    }
}

/// The memory of bytes of a stream, if that is contiguous or of whole elements.
fn part_of(data: &Data, range: Range<usize>) -> Option<Data> {
    match data {
        _ if range.is_empty() => Some(Data::EMPTY),
        Data::Memory(buffer) => Some(buffer.part(range.start, range.len()).into()),
        Data::Region(region) => {
            let element_bytes = region.element_bytes();
            let is_whole =
                range.start.is_multiple_of(element_bytes) && range.len().is_multiple_of(element_bytes);
            is_whole.then(|| region.elements(range.start / element_bytes, range.len() / element_bytes).into())
        }
    }
}

/// The end of a receiver that knows nothing of its sender yet.
pub(crate) fn receive_end(source: Rank, tag: Tag) -> End {
    End::Receive { from: (source, tag), sender: None, arrived: Flags::default(), staged: vec![] }
}
