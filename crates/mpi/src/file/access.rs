//! One process' access to a file: a range of a view's data on one side, elements in memory on the other
//! (MPI-5.0 §14.4).
//!
//! Both sides are packed streams: the view's layout names the pieces of the file, the datatype's the pieces
//! of memory, and the engine here walks both at once. How the data goes:
//!
//! | file | memory | way |
//! |---|---|---|
//! | one piece | one piece | one call |
//! | one piece | large pieces | vectored calls |
//! | one piece | small pieces | packed through a buffer |
//! | small pieces close together | any | windows of the file through a buffer (data sieving) |
//! | other pieces | any | each as above |
//!
//! A write by windows also writes the holes between its pieces, so it locks the window, reads it, and writes
//! it. That is right only if all writers lock: the processes that opened a file agree on it when they set the
//! view (`sieves`).

use super::sys::{Errno, Fd, Lock, Scratch, Way};
use super::view::View;
use crate::lock::locked;
use crate::message::Data;
use ayatori_core::buffer::Buffer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Packed bytes that go through a buffer at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Least average length of pieces of memory that go by vectored calls.
const VECTORED_BYTES_MIN: usize = 2048;
/// Sieving reads holes and saves a call a piece: for a file in the page cache, that pays up to this many
/// bytes of hole.
const READ_HOLE_BYTES_MAX: usize = 2048;
/// A write of a piece excludes others from the whole file in the kernel, so writers of neighbouring pieces
/// wait for each other at every piece: windows are worth twice as many bytes, although these are read and
/// written.
const WRITE_HOLE_BYTES_MAX: usize = 4096;
/// A hole of this many bytes takes longer to copy than another call, so no window has one.
const WIDE_HOLE_BYTES: u64 = 32 << 10;
/// Pieces that a choice looks at.
const SAMPLE_COUNT: usize = 64;

/// The file below a handle.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) fd: Fd,
    /// Threads of this process that lock ranges take turns: the ranges belong to the open file, not to a
    /// thread.
    turns: Mutex<()>,
    /// Something was written since the last [`sync`](Self::sync).
    is_dirty: AtomicBool,
    /// The descriptor can be read, whatever the program may.
    pub(crate) is_readable: bool,
}

impl Store {
    pub(crate) fn new(fd: Fd, is_readable: bool) -> Self {
        Self { fd, turns: Mutex::new(()), is_dirty: AtomicBool::new(false), is_readable }
    }

    /// Locks a range.
    pub(crate) fn lock(&self, range: (u64, u64), lock: Lock) -> Result<Locked<'_>, Errno> {
        let turn = locked(&self.turns);
        // A file that cannot be read cannot be locked for reading.
        let lock = if self.is_readable { lock } else { Lock::Exclusive };
        self.fd.lock(range, lock)?;
        Ok(Locked { of: self, range, _turn: turn })
    }

    /// Data has been written, or will be.
    pub(crate) fn touch(&self) {
        self.is_dirty.store(true, Ordering::Release);
    }

    /// Has what this process wrote stored.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match self.is_dirty.swap(false, Ordering::AcqRel) {
            true => self.fd.sync().inspect_err(|_| self.touch()),
            false => Ok(()),
        }
    }
}

/// A locked range.
pub(crate) struct Locked<'a> {
    of: &'a Store,
    range: (u64, u64),
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // It fails only where locking has.
        let _ = self.of.fd.unlock(self.range);
    }
}

/// How an access may go about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Other accesses see all of it or nothing (MPI-5.0 §14.6.1).
    pub(crate) is_atomic: bool,
    /// All writers of the file lock, so windows may be written.
    pub(crate) sieves: bool,
    /// Bytes of a window that is read; 0: none is.
    pub(crate) read_window_bytes: usize,
    /// Bytes of a window that is written; 0: none is.
    pub(crate) write_window_bytes: usize,
}

/// An access that is ready to run.
pub(crate) struct Access {
    pub(crate) store: Arc<Store>,
    pub(crate) view: Arc<View>,
    /// Where it begins, in bytes of the view's data.
    pub(crate) from: u64,
    pub(crate) way: Way,
    pub(crate) data: Data,
    pub(crate) manner: Manner,
}

/// Pieces of the file that are taken in parts.
#[derive(Clone)]
pub(super) struct Cursor<I> {
    pieces: I,
    rest: Option<(u64, usize)>,
    /// Bytes of the access taken so far.
    taken: usize,
}

impl<I: Iterator<Item = (u64, usize)>> Cursor<I> {
    pub(super) fn new(pieces: I) -> Self {
        Self { pieces, rest: None, taken: 0 }
    }

    /// Where the next piece is.
    fn peek(&mut self) -> Option<(u64, usize)> {
        if self.rest.is_none() {
            self.rest = self.pieces.next();
        }
        self.rest
    }

    /// The next piece as far as it lies before `end`: its place, its length, and where it is in the access.
    pub(super) fn take_before(&mut self, end: u64) -> Option<(u64, usize, usize)> {
        let (at, len) = self.peek().filter(|(at, _)| *at < end)?;
        let part = (end - at).min(len as u64) as usize;
        self.rest = (part < len).then_some((at + part as u64, len - part));
        let offset = self.taken;
        self.taken += part;
        Some((at, part, offset))
    }

    /// Where a window that begins with the next piece ends: before `limit`, and before a wide hole. How many
    /// bytes of it are of pieces.
    fn window(mut self, limit: u64) -> (u64, usize) {
        let (mut end, mut covered) = (limit, 0);
        while let Some((at, _)) = self.peek()
            && (covered == 0 || at.saturating_sub(end) < WIDE_HOLE_BYTES)
            && let Some((at, len, _)) = self.take_before(limit)
        {
            (end, covered) = (at + len as u64, covered + len);
        }
        (end, covered)
    }
}

impl Access {
    /// Moves the data; how many bytes, which are fewer than asked for where the file ends.
    pub(crate) fn run(&self) -> Result<usize, Errno> {
        let len = self.data.len();
        let Some(range) = self.view.range(self.from, len)? else { return Ok(0) };
        if self.way == Way::Write {
            self.store.touch();
        }
        if self.manner.is_atomic {
            let lock = if self.way == Way::Read { Lock::Shared } else { Lock::Exclusive };
            let _locked = self.store.lock(range, lock)?;
            return self.move_all(range);
        }
        if self.way == Way::Read {
            return self.move_all(range);
        }
        if self.manner.sieves && !self.is_sieved() {
            // Not to be undone by another's window.
            let _locked = self.store.lock(range, Lock::Shared)?;
            return self.move_all(range);
        }
        self.move_all(range)
    }

    fn cursor(&self) -> Cursor<impl Iterator<Item = (u64, usize)> + Clone + '_> {
        Cursor::new(self.view.pieces(self.from, self.data.len()))
    }

    fn move_all(&self, range: (u64, u64)) -> Result<usize, Errno> {
        if self.is_sieved() {
            return match self.way {
                Way::Read => self.read_windows(range),
                Way::Write => self.write_windows(),
            };
        }
        let mut scratch = None;
        let mut total = 0;
        for (at, len) in self.view.pieces(self.from, self.data.len()) {
            let moved = self.move_piece((at, len), total, &mut scratch)?;
            total += moved;
            if moved < len {
                break;
            }
        }
        Ok(total)
    }

    /// Whether the file goes by windows: many small pieces with little between them.
    fn is_sieved(&self) -> bool {
        let (window_bytes, hole_max) = match self.way {
            Way::Read => (self.manner.read_window_bytes, READ_HOLE_BYTES_MAX),
            Way::Write if self.manner.sieves => (self.manner.write_window_bytes, WRITE_HOLE_BYTES_MAX),
            Way::Write => (0, 0),
        };
        if window_bytes == 0 || !self.view.is_ascending || !self.store.is_readable {
            return false;
        }
        let (mut count, mut bytes, mut end) = (0, 0, None);
        let (mut narrow_count, mut narrow_bytes) = (0, 0);
        for (at, len) in self.view.pieces(self.from, self.data.len()).take(SAMPLE_COUNT) {
            let hole = end.map(|end| at.saturating_sub(end)).filter(|hole| *hole < WIDE_HOLE_BYTES);
            narrow_count += usize::from(hole.is_some());
            narrow_bytes += hole.unwrap_or(0) as usize;
            (count, bytes, end) = (count + 1, bytes + len, Some(at + len as u64));
        }
        count >= 2
            && 2 * narrow_count >= count
            && bytes / count < window_bytes
            && narrow_bytes / narrow_count <= hole_max
    }

    fn read_windows(&self, (low, high): (u64, u64)) -> Result<usize, Errno> {
        let mut scratch = Scratch::new(self.manner.read_window_bytes.min((high - low) as usize));
        let window = scratch.buffer();
        let mut cursor = self.cursor();
        while let Some((begin, _)) = cursor.peek() {
            let (end, _) = cursor.clone().window(begin + window.len() as u64);
            let got = self.store.fd.transfer(Way::Read, begin, window.part(0, (end - begin) as usize))?;
            while let Some((at, len, offset)) = cursor.take_before(end) {
                let skip = (at - begin) as usize;
                let len_there = got.saturating_sub(skip).min(len);
                put(&self.data, offset, window.part(skip.min(window.len()), len_there));
                if len_there < len {
                    return Ok(offset + len_there);
                }
            }
        }
        Ok(self.data.len())
    }

    fn write_windows(&self) -> Result<usize, Errno> {
        let mut scratch = Scratch::new(self.manner.write_window_bytes);
        let window = scratch.buffer();
        let mut cursor = self.cursor();
        while let Some((begin, _)) = cursor.peek() {
            let (end, covered) = cursor.clone().window(begin + window.len() as u64);
            let part = window.part(0, (end - begin) as usize);
            // In atomic mode all of it is locked already.
            let _locked = match self.manner.is_atomic {
                true => None,
                false => Some(self.store.lock((begin, end), Lock::Exclusive)?),
            };
            if covered < part.len() {
                let got = self.store.fd.transfer(Way::Read, begin, part)?;
                zero(part.part(got, part.len() - got));
            }
            while let Some((at, len, offset)) = cursor.take_before(end) {
                get(&self.data, offset, part.part((at - begin) as usize, len));
            }
            self.store.fd.transfer(Way::Write, begin, part)?;
        }
        Ok(self.data.len())
    }

    /// Moves one piece of the file; how many bytes.
    fn move_piece(
        &self,
        (at, len): (u64, usize),
        offset: usize,
        scratch: &mut Option<Scratch>,
    ) -> Result<usize, Errno> {
        let fd = &self.store.fd;
        let region = match &self.data {
            Data::Contiguous(buffer) => return fd.transfer(self.way, at, buffer.part(offset, len)),
            Data::Scattered(region) => region,
        };
        let sample = region.pieces(offset, len).take(SAMPLE_COUNT);
        let (count, bytes) = sample.fold((0, 0), |(count, bytes), piece| (count + 1, bytes + piece.len()));
        if bytes / count.max(1) >= VECTORED_BYTES_MIN {
            return fd.transfer_pieces(self.way, at, &mut region.pieces(offset, len));
        }
        let size = CHUNK_BYTES.min(self.data.len());
        let chunk = scratch.get_or_insert_with(|| Scratch::new(size)).buffer();
        let mut total = 0;
        while total < len {
            let part = chunk.part(0, chunk.len().min(len - total));
            if self.way == Way::Write {
                region.pack(offset + total, part);
            }
            let moved = fd.transfer(self.way, at + total as u64, part)?;
            if self.way == Way::Read {
                region.unpack(offset + total, part.part(0, moved));
            }
            total += moved;
            if moved < part.len() {
                break;
            }
        }
        Ok(total)
    }
}

/// Copies bytes of the elements from `offset` on.
pub(super) fn get(data: &Data, offset: usize, into: Buffer) {
    match data {
        Data::Contiguous(buffer) => into.copy_from(0, buffer, offset, into.len()),
        Data::Scattered(region) => region.pack(offset, into),
    }
}

/// Copies bytes into the elements from `offset` on.
pub(super) fn put(data: &Data, offset: usize, from: Buffer) {
    match data {
        Data::Contiguous(buffer) => buffer.copy_from(offset, &from, 0, from.len()),
        Data::Scattered(region) => region.unpack(offset, from),
    }
}

/// Writes zeros.
pub(super) fn zero(memory: Buffer) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut at = 0;
    while at < memory.len() {
        let len = ZEROS.len().min(memory.len() - at);
        memory.scatter(at, ayatori_core::buffer::Piece::Bytes(&ZEROS[..len]));
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_at_its_limit_and_before_a_wide_hole() {
        let wide = WIDE_HOLE_BYTES;
        let pieces = [(100, 10), (120, 10), (130 + wide, 10), (141 + wide, 10)];
        let mut cursor = Cursor::new(pieces.into_iter());
        assert_eq!(cursor.clone().window(1_000_000), (130, 20));
        assert_eq!(cursor.clone().window(125), (125, 15));
        while cursor.take_before(130).is_some() {}
        assert_eq!(cursor.clone().window(1_000_000), (151 + wide, 20));
        let far = Cursor::new([(0, 10), (9 + wide, 1)].into_iter());
        assert_eq!(far.window(1_000_000), (10 + wide, 11), "one byte less is not wide");
    }
}
