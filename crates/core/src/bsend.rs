//! Buffered mode: copies of messages in memory the user has attached (MPI-5.0 §3.6), to a communicator, a
//! session or the process.

use crate::buffer::{Buffer, Scratch};
use crate::error::Error;
use crate::ids::CommId;
use alloc::vec::Vec;

/// Space of a buffered message in addition to its data, in bytes (`MPI_BSEND_OVERHEAD`): it covers rounding
/// each copy up to 64 bytes; bookkeeping lives elsewhere.
pub const BSEND_OVERHEAD_BYTES: usize = 64;

/// The object a buffer is attached to. A message takes the communicator's, else the session's of the
/// communicator, else the process'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferOwner {
    /// All communicators without a buffer of their own.
    Process,
    /// A session, by a number that the runtime gives.
    Session(u32),
    /// A communicator.
    Comm(CommId),
}

/// The buffer attached.
#[derive(Clone, Copy, Debug)]
pub enum Attachment {
    /// The user's memory.
    Memory(Buffer),
    /// Memory of ours, as much as there is need of (`MPI_BUFFER_AUTOMATIC`).
    Automatic,
}

impl From<Buffer> for Attachment {
    fn from(memory: Buffer) -> Self {
        Self::Memory(memory)
    }
}

/// The attached buffers.
#[derive(Default)]
pub(crate) struct AttachedBuffers {
    all: Vec<(BufferOwner, AttachedBuffer)>,
    /// The number of the next message.
    next: u64,
    /// The sessions of communicators that have one.
    sessions: Vec<(CommId, u32)>,
}

impl AttachedBuffers {
    fn find(&self, owner: BufferOwner) -> Option<usize> {
        self.all.iter().position(|(of, _)| *of == owner)
    }

    /// Attaches a buffer. One at a time to each owner.
    pub(crate) fn attach(&mut self, owner: BufferOwner, attachment: Attachment) -> Result<(), Error> {
        if self.find(owner).is_some() {
            return Err(Error::Argument("a buffer is attached already: detach it first"));
        }
        self.all.push((owner, AttachedBuffer::new(attachment)));
        Ok(())
    }

    /// Whether no message uses the owner's buffer: it can be detached.
    pub(crate) fn is_drained(&self, owner: BufferOwner) -> bool {
        self.find(owner).is_none_or(|at| self.all[at].1.is_drained())
    }

    /// The number of the next message in any buffer.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether all messages before this number have left the owner's buffer.
    pub(crate) fn is_drained_before(&self, owner: BufferOwner, number: u64) -> bool {
        self.find(owner).is_none_or(|at| self.all[at].1.is_drained_before(number))
    }

    /// Detaches a drained buffer, if one is attached.
    pub(crate) fn detach(&mut self, owner: BufferOwner) -> Option<Attachment> {
        let at = self.find(owner)?;
        let (_, buffer) = self.all.swap_remove(at);
        debug_assert!(buffer.is_drained());
        Some(buffer.attachment)
    }

    /// The communicator belongs to a session.
    pub(crate) fn set_session(&mut self, comm: CommId, session: u32) {
        self.sessions.push((comm, session));
    }

    /// The communicator is gone; its buffer was detached before.
    pub(crate) fn forget_comm(&mut self, comm: CommId) {
        self.sessions.retain(|(of, _)| *of != comm);
    }

    /// Takes room for a copy of a message on a communicator. Whose it is, its place and memory.
    pub(crate) fn reserve(&mut self, comm: CommId, len: usize) -> Result<(Place, Buffer), Error> {
        let session = self.sessions.iter().find(|(of, _)| *of == comm).map(|(_, session)| *session);
        let owners =
            [Some(BufferOwner::Comm(comm)), session.map(BufferOwner::Session), Some(BufferOwner::Process)];
        let Some(at) = owners.into_iter().flatten().find_map(|owner| self.find(owner)) else {
            return Err(Error::BufferExhausted { needed_bytes: len + BSEND_OVERHEAD_BYTES, free_bytes: 0 });
        };
        let (owner, buffer) = &mut self.all[at];
        let (offset, memory) = buffer.reserve(len, self.next)?;
        self.next += 1;
        Ok((Place { owner: *owner, offset }, memory))
    }

    /// Gives a place back.
    pub(crate) fn release(&mut self, place: Place) {
        if let Some(at) = self.find(place.owner) {
            self.all[at].1.release(place.offset);
        }
    }
}

/// Where a buffered message lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    owner: BufferOwner,
    /// In the memory; of an automatic buffer, the message's number.
    offset: u64,
}

/// One attached buffer and which parts of it are in use.
struct AttachedBuffer {
    attachment: Attachment,
    /// In use, by offset.
    used: Vec<Used>,
    /// In use of an automatic buffer, by the message's number.
    made: Vec<(u64, Scratch)>,
}

/// Part of a buffer that is in use.
struct Used {
    offset: usize,
    len: usize,
    /// The message's number.
    number: u64,
}

impl AttachedBuffer {
    fn new(attachment: Attachment) -> Self {
        Self { attachment, used: Vec::new(), made: Vec::new() }
    }

    fn is_drained(&self) -> bool {
        self.used.is_empty() && self.made.is_empty()
    }

    fn is_drained_before(&self, number: u64) -> bool {
        let mut numbers = self.used.iter().map(|used| used.number).chain(self.made.iter().map(|made| made.0));
        numbers.all(|other| other >= number)
    }

    fn reserve(&mut self, len: usize, number: u64) -> Result<(u64, Buffer), Error> {
        match self.attachment {
            Attachment::Memory(memory) => self.reserve_in(memory, len, number),
            Attachment::Automatic => {
                let mut scratch = Scratch::new(len);
                let buffer = scratch.buffer(len);
                self.made.push((number, scratch));
                Ok((number, buffer))
            }
        }
    }

    fn release(&mut self, offset: u64) {
        self.made.retain(|(number, _)| *number != offset);
        if let Ok(at) = self.used.binary_search_by_key(&(offset as usize), |used| used.offset) {
            self.used.remove(at);
        }
    }

    /// Takes room for a copy: first fit. Gives its place and memory.
    fn reserve_in(&mut self, memory: Buffer, len: usize, number: u64) -> Result<(u64, Buffer), Error> {
        let needed = len.next_multiple_of(BSEND_OVERHEAD_BYTES).max(BSEND_OVERHEAD_BYTES);
        let whole = memory.len();
        let mut offset = 0;
        let mut largest = 0;
        for at in 0..=self.used.len() {
            let end = self.used.get(at).map_or(whole, |used| used.offset);
            largest = largest.max(end - offset);
            // The last run may be short of the rounding: only the data has to fit.
            if end - offset >= needed || (end == whole && end - offset >= len) {
                let taken = needed.min(end - offset);
                self.used.insert(at, Used { offset, len: taken, number });
                return Ok((offset as u64, memory.part(offset, len)));
            }
            offset = self.used.get(at).map_or(whole, |used| used.offset + used.len);
        }
        Err(Error::BufferExhausted { needed_bytes: len + BSEND_OVERHEAD_BYTES, free_bytes: largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMM: CommId = CommId(5);

    fn attached(owner: BufferOwner, attachment: impl Into<Attachment>) -> AttachedBuffers {
        let mut buffers = AttachedBuffers::default();
        buffers.attach(owner, attachment.into()).unwrap();
        buffers
    }

    #[test]
    fn as_many_messages_fit_as_the_standard_promises() {
        let nothing = AttachedBuffers::default().reserve(COMM, 1);
        assert!(matches!(nothing, Err(Error::BufferExhausted { free_bytes: 0, .. })));
        // Three messages of 100 bytes and their overhead (MPI-5.0 §3.6).
        let memory = Buffer::virtual_of(3 * (100 + BSEND_OVERHEAD_BYTES));
        let mut buffers = attached(BufferOwner::Process, memory);
        let places: Vec<Place> = (0..3).map(|_| buffers.reserve(COMM, 100).unwrap().0).collect();
        assert!(buffers.reserve(COMM, 400).is_err());
        buffers.release(places[1]);
        // What is left is the middle one's.
        let room = 100_usize.next_multiple_of(BSEND_OVERHEAD_BYTES);
        let exhausted = Error::BufferExhausted { needed_bytes: 400 + BSEND_OVERHEAD_BYTES, free_bytes: room };
        assert_eq!(buffers.reserve(COMM, 400).err(), Some(exhausted));
        assert_eq!(buffers.reserve(COMM, 100).unwrap().0, places[1]);
        assert!(buffers.attach(BufferOwner::Process, Buffer::EMPTY.into()).is_err());
        for place in places {
            buffers.release(place);
        }
        assert!(buffers.is_drained(BufferOwner::Process) && buffers.detach(BufferOwner::Process).is_some());
        assert!(buffers.detach(BufferOwner::Process).is_none());
    }

    #[test]
    fn an_empty_message_has_a_place_of_its_own() {
        let mut buffers = attached(BufferOwner::Process, Buffer::virtual_of(2 * BSEND_OVERHEAD_BYTES));
        let (a, b) = (buffers.reserve(COMM, 0).unwrap().0, buffers.reserve(COMM, 0).unwrap().0);
        assert_ne!(a, b);
    }

    #[test]
    fn the_nearest_buffer_is_taken() {
        let mut buffers = attached(BufferOwner::Process, Buffer::virtual_of(100));
        let (comm, session) = (BufferOwner::Comm(COMM), BufferOwner::Session(3));
        assert_eq!(buffers.reserve(COMM, 1).unwrap().0.owner, BufferOwner::Process);
        buffers.attach(session, Buffer::virtual_of(100).into()).unwrap();
        buffers.set_session(COMM, 3);
        assert_eq!(buffers.reserve(COMM, 1).unwrap().0.owner, session);
        buffers.attach(comm, Buffer::virtual_of(100).into()).unwrap();
        let place = buffers.reserve(COMM, 100).unwrap().0;
        assert_eq!(place.owner, comm);
        // A full one is not passed over.
        assert!(matches!(buffers.reserve(COMM, 100), Err(Error::BufferExhausted { .. })));
        assert_eq!(buffers.reserve(CommId(6), 0).unwrap().0.owner, BufferOwner::Process);
        buffers.release(place);
        assert!(buffers.is_drained(comm) && !buffers.is_drained(session));
        buffers.forget_comm(COMM);
        buffers.detach(comm).unwrap();
        assert_eq!(buffers.reserve(COMM, 0).unwrap().0.owner, BufferOwner::Process);
    }

    #[test]
    fn an_automatic_buffer_has_room_for_all() {
        let mut buffers = attached(BufferOwner::Process, Attachment::Automatic);
        let places = [0, 1, 100_000].map(|len| {
            let (place, memory) = buffers.reserve(COMM, len).unwrap();
            assert_eq!(memory.len(), len);
            place
        });
        buffers.release(places[1]);
        buffers.release(places[2]);
        assert!(!buffers.is_drained(BufferOwner::Process));
        buffers.release(places[0]);
        assert!(buffers.is_drained(BufferOwner::Process));
        assert!(matches!(buffers.detach(BufferOwner::Process), Some(Attachment::Automatic)));
    }

    #[test]
    fn a_flush_looks_at_earlier_messages_of_its_buffer_only() {
        let memory = || Attachment::Memory(Buffer::virtual_of(1_000));
        for attachment in [memory(), Attachment::Automatic] {
            let mut buffers = attached(BufferOwner::Process, attachment);
            let first = buffers.reserve(COMM, 1).unwrap().0;
            let flush = buffers.next();
            let second = buffers.reserve(COMM, 1).unwrap().0;
            assert!(!buffers.is_drained_before(BufferOwner::Process, flush));
            buffers.release(first);
            assert!(buffers.is_drained_before(BufferOwner::Process, flush));
            assert!(!buffers.is_drained(BufferOwner::Process));
            buffers.release(second);
            // The next buffer of the same owner begins no new count.
            buffers.detach(BufferOwner::Process).unwrap();
            buffers.attach(BufferOwner::Process, memory()).unwrap();
            buffers.reserve(COMM, 1).unwrap();
            assert!(buffers.is_drained_before(BufferOwner::Process, flush));
        }
    }

    #[test]
    fn a_full_buffer_says_that_nothing_is_free() {
        let mut buffers = attached(BufferOwner::Process, Buffer::virtual_of(100 + BSEND_OVERHEAD_BYTES));
        buffers.reserve(COMM, 100 + BSEND_OVERHEAD_BYTES).unwrap();
        let exhausted = Error::BufferExhausted { needed_bytes: 1 + BSEND_OVERHEAD_BYTES, free_bytes: 0 };
        assert_eq!(buffers.reserve(COMM, 1).err(), Some(exhausted));
    }

    #[test]
    fn a_communicator_that_is_gone_leaves_no_session_behind() {
        let mut buffers = attached(BufferOwner::Session(3), Buffer::virtual_of(1_000));
        buffers.set_session(COMM, 3);
        assert!(buffers.reserve(COMM, 1).is_ok());
        buffers.forget_comm(COMM);
        assert!(buffers.reserve(COMM, 1).is_err(), "the next one of its number is another");
    }
}
