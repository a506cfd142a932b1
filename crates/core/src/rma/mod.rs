//! One-sided communication (MPI-5.0 §12): windows and remote operations on them.
//!
//! A window has a communicator of its own, so its messages have a context of their own, and matching, credit,
//! long messages, rails and failover are those of all other messages. An operation is an *active message*:
//! one with the tag `ACTIVE_TAG`, which no receive waits for. The target's process executes it on arrival,
//! without a call of its user: `target.rs` takes it where an unexpected message would be kept.
//!
//! ```text
//!   origin                                                         target
//!   put, short    active(place, data) ───────────────────────────► written
//!   put, long     active(place, tag) ────────────────────────────► receive of `tag` straight into the window
//!                 message `tag` ═════════════════════════════════► by get, put or packets, as any long message
//!   get, short    active(place, number) ─────────────────────────► read
//!                 ◄──────────────────────────── active(number, data)
//!   get, long     receive of `tag`; active(place, tag) ──────────► send from the window
//!                 ◄════════════════════════════════════ message `tag`
//!   accumulate    active(place, operation, data)  (chunks) ──────► applied, one after the other
//!   … and fetch   as a get, with operation and data ─────────────► old value copied, applied, sent
//!   … short, without credit        several of these in one message
//!   flush         active(number) ────────────────────────────────► when all from this origin is done:
//!                 ◄──────────────────────────── active(number, error)
//!                 where each flush is of one operation, that asks itself and the flush only waits
//!   lock          active ────────► queue ─► active "granted"; unlock is a flush that also releases
//!                 a request for several locks that fails withdraws all: it leaves none behind
//!   post, start   "post" messages are counted; start waits for one of each member of its group
//!   complete      active ────────► effective when all before it from this origin is done; wait counts these
//!   fence         active ◄──► active: between two members, effective as "complete" is,
//!                 and a flush where something long is under way or the target alone can judge a place
//! ```
//!
//! An origin without credit keeps short puts and accumulates whose bytes lie in a row, and sends them as one
//! message: when that is 16 KiB long, or before the next active message of another kind to the same target,
//! which a flush and each other end of operations is.
//!
//! Active messages of one origin are handled in the order sent (they share an envelope), each whole before
//! the next. So accumulates keep their order, and since one engine executes them, each is atomic. One that
//! comes as a long message holds up those behind it. Some of these are received meanwhile; the others stay
//! unexpected messages: credit bounds what they take.
//!
//! Tags of data are even, those of results odd, so that the two directions between two processes never meet.
//!
//! *Bytes from a peer.* The place of an operation (displacement and layout) is checked against the window
//! when it is used, so nothing outside of the window is read or written. A place outside is an error that the
//! origin gets with its next flush, or instead of the result, long or short: `active(number, why not)`. A
//! message that cannot be parsed cuts the peer off.
//!
//! *Fences of more than two members* are flushes and a barrier of the caller's. One exchange would need more
//! there: a member may be past the fence while another's operations on a third are still on their way. The
//! third would have to keep back the operations of the one (but not its answers, for which others may wait
//! before they come to the fence) until all fences have come, and that in a stream that has both.
//!
//! Not here: epochs and their rules (`ayatori-mpi`, which also knows the size of the others' windows),
//! waiting, and direct access to windows in shared memory.

mod active;
mod apply;
mod children;
mod origin;
mod short;
mod target;
#[cfg(test)]
mod tests;
mod window;
mod words;

pub(crate) use active::{
    ActiveMessage, Follow, Head, Operand, RowAccess, refusal, refusal_of, split_gathered,
};
pub use apply::{accumulate, check_operation, compare_and_swap_in};
pub(crate) use apply::{accumulate_here, apply, compare_and_swap, read, with_room};
pub(crate) use window::{Hold, Wanted, Wants, Window};
pub use words::{
    Word, accumulate_by_words, accumulate_integer, accumulate_word, compare_and_swap_word, is_integer_word,
    word_bytes,
};

use crate::buffer::{Buffer, Scratch};
use crate::comm::Communicators;
use crate::error::Error;
use crate::ids::{ContextId, ProcessId, Rank, RequestId, Tag};
use crate::layout::{Layout, Region};
use crate::link::LinkIndex;
use crate::p2p::Messages;
use crate::request::Completion;
use crate::slab::Slab;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// The tag of active messages. Users have no messages in a window's context.
pub(crate) const ACTIVE_TAG: Tag = -1;

/// Longest active message in bytes. The origin refuses an operation whose layout takes more than half of it.
pub(crate) const ACTIVE_BYTES_MAX: u64 = 64 << 20;

/// Data of a put up to here is in its active message, if the link takes that eagerly.
pub(crate) const INLINE_BYTES_MAX: usize = 16 << 10;

/// Data in a row up to here is in its active message, whatever the link.
pub const ROW_BYTES_MAX: usize = 1 << 10;

/// A result up to this length is an active message, too, and needs no matched receive. Both sides know the
/// length.
pub(crate) const RESULT_BYTES_MAX: u64 = 1 << 10;

/// Short operations that there is no credit for are gathered up to here.
pub(crate) const GATHERED_BYTES_MAX: usize = INLINE_BYTES_MAX;

/// Data of one active message of an accumulate, at most.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Members of a window whose fences are one exchange of messages, at most.
pub const FENCE_MEMBERS_MAX: u32 = 2;

/// Parent of the requests of windows; their step is an index of [`Rma::children`].
pub(crate) const PARENT: RequestId = RequestId { index: u32::MAX, generation: u32::MAX };

/// The step that stands for [`Rma::todo`].
pub(crate) const TODO: u32 = u32::MAX;

/// A window of one [`Process`](crate::Process).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId(pub u32);

/// The memory that a process gives to a window.
#[derive(Clone, Debug)]
pub enum Memory {
    /// One piece, at displacement 0.
    Fixed(Buffer),
    /// The same, if all members map it and lock it themselves: no member waits for this process to do so.
    Mapped(Buffer),
    /// Pieces that are attached and detached; displacements are addresses.
    Dynamic(Vec<Buffer>),
}

/// A place in a target's window, and its layout.
#[derive(Clone, Debug)]
pub struct Place {
    /// From the window's start in bytes; an address, if the window is dynamic.
    pub displacement: i64,
    /// One element.
    pub layout: Layout,
    /// How many.
    pub count: usize,
}

impl Place {
    /// Length of the packed stream in bytes.
    ///
    /// # Errors
    /// [`Error::Count`] if there is no such number.
    pub fn len(&self) -> Result<usize, Error> {
        self.layout.size().checked_mul(self.count).ok_or(Error::Count)
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.layout.size() == 0 || self.count == 0
    }
}

/// A message of a window's under way.
pub(crate) struct Child {
    pub(crate) window: u32,
    pub(crate) rank: Rank,
    pub(crate) what: What,
    /// Memory of its own that the message uses.
    pub(crate) scratch: Option<(Scratch, usize)>,
    /// The request that waits for it.
    pub(crate) operation: Option<RequestId>,
}

/// Kind of a window's message.
pub(crate) enum What {
    /// At the origin: a put's data, leaving.
    Leaving,
    /// At the origin: the length of a result in bytes, and its destination, copied from the child's own
    /// memory.
    Result(u64, Option<(Region, usize)>),
    /// At the target: a put's data.
    Coming,
    /// At the target: a result, leaving.
    Reply,
    /// At the target: a long active message, by its number in the sender's [`Line`](window::Line).
    ActiveMessage(u32),
    /// Either: an active message, leaving.
    Post,
}

/// Work that waits until a call passes the device.
pub(crate) enum Todo {
    /// An active message without data.
    ActiveMessage(u32, Rank, ActiveMessage),
    /// A short result, or one that is refused.
    Result(u32, Rank, ActiveMessage, crate::data::Data, Option<(Scratch, usize)>),
    /// A long one.
    Reply(u32, Rank, Tag, crate::data::Data, Option<(Scratch, usize)>),
    /// The active messages that wait behind a long one.
    Next(u32, Rank),
}

/// A process' accesses to windows: its own and those of others.
pub struct Windows<'a> {
    pub(crate) rma: &'a mut Rma,
    pub(crate) comms: &'a Communicators,
    pub(crate) messages: &'a mut Messages,
}

/// The windows of a process.
pub(crate) struct Rma {
    pub(crate) windows: Vec<Option<Window>>,
    pub(crate) by_context: BTreeMap<ContextId, u32>,
    pub(crate) children: Slab<Child>,
    pub(crate) todo: VecDeque<Todo>,
    /// A request that is never over, while there are windows that this process serves: so it is busy, without
    /// a look at more than requests.
    pub(crate) anchor: Option<RequestId>,
    /// Whether `Woken` with [`TODO`] is on its way.
    pub(crate) is_woken: bool,
    /// An answer must be sent, or one has arrived that a caller may wait for: a round of progress handles it
    /// before it polls for more.
    pub(crate) is_urgent: bool,
    /// Members that have sent a message that no correct member sends. The next caller cuts them off.
    pub(crate) blamed: VecDeque<(LinkIndex, &'static str)>,
    spare: Vec<Scratch>,
    spare_chunks: Vec<Scratch>,
}

/// Bytes of memory that is kept for active messages: of short ones, and of accumulates in chunks.
const SPARE_BYTES: usize = INLINE_BYTES_MAX + 256;
const SPARE_CHUNK_BYTES: usize = CHUNK_BYTES + 256;

impl Rma {
    pub(crate) const fn new() -> Self {
        Self {
            windows: Vec::new(),
            by_context: BTreeMap::new(),
            children: Slab::new(),
            todo: VecDeque::new(),
            anchor: None,
            is_woken: false,
            is_urgent: false,
            blamed: VecDeque::new(),
            spare: Vec::new(),
            spare_chunks: Vec::new(),
        }
    }

    /// Whether there are windows.
    #[inline]
    pub(crate) fn has_windows(&self) -> bool {
        !self.by_context.is_empty()
    }

    /// Whether there are windows whose memory this process accesses for others.
    pub(crate) fn serves_others(&self) -> bool {
        self.windows.iter().flatten().any(|window| !matches!(window.memory, Memory::Mapped(_)))
    }

    /// The window of a context.
    pub(crate) fn window_of(&self, context: ContextId) -> Option<u32> {
        self.by_context.get(&context).copied()
    }

    pub(crate) fn get(&self, window: WindowId) -> Result<&Window, Error> {
        self.windows.get(window.0 as usize).and_then(Option::as_ref).ok_or(Error::Window)
    }

    pub(crate) fn get_mut(&mut self, window: WindowId) -> Result<&mut Window, Error> {
        self.windows.get_mut(window.0 as usize).and_then(Option::as_mut).ok_or(Error::Window)
    }

    /// Memory for `len` bytes.
    pub(crate) fn scratch(&mut self, len: usize) -> Scratch {
        let (spare, bytes) = match len {
            len if len <= SPARE_BYTES => (&mut self.spare, SPARE_BYTES),
            len if len <= SPARE_CHUNK_BYTES => (&mut self.spare_chunks, SPARE_CHUNK_BYTES),
            _ => return Scratch::new(len),
        };
        spare.pop().unwrap_or_else(|| Scratch::new(bytes))
    }

    pub(crate) fn give_back(&mut self, scratch: Scratch) {
        const SPARE_MAX: usize = 8;
        let spare = match scratch.capacity_bytes() {
            SPARE_BYTES => &mut self.spare,
            SPARE_CHUNK_BYTES => &mut self.spare_chunks,
            _ => return,
        };
        if spare.len() < SPARE_MAX {
            spare.push(scratch);
        }
    }

    /// How a child ended. No correct peer sends another length than was asked for.
    pub(crate) fn result_of(&self, step: u32, completion: &Completion) -> Result<(), Error> {
        if let Some(error) = completion.error {
            return Err(error);
        }
        match self.children.at(step).map(|(_, child)| &child.what) {
            Some(What::Result(bytes, _)) if completion.status.bytes != *bytes => Err(Error::WindowRange),
            _ => Ok(()),
        }
    }

    /// The need of a window's request, as text. `told`: the number by which a process is named.
    pub(crate) fn need_of(&self, id: RequestId, told: impl Fn(ProcessId) -> ProcessId) -> String {
        let waiters =
            self.windows.iter().flatten().flat_map(|window| window.waiters.iter().map(move |w| (window, w)));
        let found = waiters.into_iter().find(|(_, (waiter, _))| *waiter == id);
        match found {
            Some((window, (_, wants))) => window.need(wants, told),
            None => "an operation on a window".into(),
        }
    }

    /// Whether a request waits for other processes' work at windows, or another process for a lock here.
    pub(crate) fn is_awaiting(&self) -> bool {
        let is_awaiting = |window: &Window| {
            !window.waiters.is_empty()
                || window.tested.is_some()
                || window.results_count > 0
                || window.awaited_holders().next().is_some()
        };
        self.windows.iter().flatten().any(is_awaiting)
    }

    /// Processes that requests wait for, and holders of locks that others wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = ProcessId> {
        self.windows.iter().flatten().flat_map(|window| {
            let wants = window.waiters.iter().map(|(_, wants)| wants).chain(&window.tested);
            let missing = wants.flat_map(|wants| window.missing(wants)).chain(window.awaited_holders());
            let asked = (window.results_count > 0).then(|| window.asked()).into_iter().flatten();
            missing.chain(asked).filter_map(|rank| window.group.process(rank))
        })
    }

    /// The windows that a process is a member of, with its rank.
    pub(crate) fn with_member(&self, peer: ProcessId) -> Vec<(u32, Rank)> {
        let ranked = |(index, window): (usize, &Option<Window>)| {
            let rank = window.as_ref()?.group.rank_of(peer)?;
            Some((index as u32, rank))
        };
        self.windows.iter().enumerate().filter_map(ranked).collect()
    }
}
