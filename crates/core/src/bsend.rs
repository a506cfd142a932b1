//! Buffered mode: copies of messages in memory the user has attached (MPI-5.0 §3.6).

use crate::buffer::Buffer;
use crate::error::Error;
use alloc::vec::Vec;

/// What each buffered message needs besides its data, in bytes (`MPI_BSEND_OVERHEAD`): bookkeeping lives
/// elsewhere, this pays for rounding each copy up to 64 bytes.
pub const BSEND_OVERHEAD_BYTES: usize = 64;

/// The attached memory and which parts of it are in use.
pub(crate) struct AttachedBuffer {
    memory: Option<Buffer>,
    /// In use: (offset, length), by offset.
    used: Vec<(usize, usize)>,
}

impl AttachedBuffer {
    pub(crate) const fn none() -> Self {
        Self { memory: None, used: Vec::new() }
    }

    /// Attaches memory. One at a time.
    pub(crate) fn attach(&mut self, memory: Buffer) -> Result<(), Error> {
        if self.memory.is_some() {
            return Err(Error::Argument("a buffer is attached already: detach it first"));
        }
        self.memory = Some(memory);
        Ok(())
    }

    /// Whether no message uses it: it can be detached.
    pub(crate) fn is_drained(&self) -> bool {
        self.used.is_empty()
    }

    /// Detaches drained memory.
    pub(crate) fn detach(&mut self) -> Option<Buffer> {
        debug_assert!(self.is_drained());
        self.memory.take()
    }

    /// Takes room for a copy: first fit. Gives its place and memory.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(u64, Buffer), Error> {
        let needed = len.next_multiple_of(BSEND_OVERHEAD_BYTES).max(BSEND_OVERHEAD_BYTES);
        let whole = self.memory.as_ref().map_or(0, Buffer::len);
        let mut offset = 0;
        let mut largest = 0;
        for at in 0..=self.used.len() {
            let end = self.used.get(at).map_or(whole, |used| used.0);
            largest = largest.max(end - offset);
            // The last run may be short of the rounding: only the data has to fit.
            if end - offset >= needed || (end == whole && end - offset >= len && self.memory.is_some()) {
                let taken = needed.min(end - offset);
                self.used.insert(at, (offset, taken));
                let memory = self.memory.as_ref().expect("there is room, so there is memory");
                return Ok((offset as u64, memory.part(offset, len)));
            }
            offset = self.used.get(at).map_or(whole, |used| used.0 + used.1);
        }
        Err(Error::BufferExhausted { needed_bytes: len + BSEND_OVERHEAD_BYTES, free_bytes: largest })
    }

    /// Gives a place back.
    pub(crate) fn release(&mut self, place: u64) {
        if let Ok(at) = self.used.binary_search_by_key(&(place as usize), |used| used.0) {
            self.used.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_messages_fit_as_the_standard_promises() {
        let mut attached = AttachedBuffer::none();
        assert!(matches!(attached.reserve(1), Err(Error::BufferExhausted { free_bytes: 0, .. })));
        // Three messages of 100 bytes and their overhead (MPI-5.0 §3.6).
        attached.attach(Buffer::virtual_of(3 * (100 + BSEND_OVERHEAD_BYTES))).unwrap();
        let places: Vec<u64> = (0..3).map(|_| attached.reserve(100).unwrap().0).collect();
        assert!(attached.reserve(400).is_err());
        attached.release(places[1]);
        assert_eq!(attached.reserve(100).unwrap().0, places[1]);
        assert!(attached.attach(Buffer::EMPTY).is_err());
        for place in places {
            attached.release(place);
        }
        assert!(attached.is_drained() && attached.detach().is_some());
    }

    #[test]
    fn an_empty_message_has_a_place_of_its_own() {
        let mut attached = AttachedBuffer::none();
        attached.attach(Buffer::virtual_of(2 * BSEND_OVERHEAD_BYTES)).unwrap();
        let (a, b) = (attached.reserve(0).unwrap().0, attached.reserve(0).unwrap().0);
        assert_ne!(a, b);
    }
}
