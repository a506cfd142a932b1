//! Message memory. The one module of the core with `unsafe`.
//!
//! MPI programs hand the library addresses and promise to leave them alone until a request completes; Rust
//! references cannot express that, since a request outlives the call that made it. [`Buffer`] is that promise
//! as a value: making one is `unsafe` and states the contract, using one is safe.
//!
//! # Why that is sound
//!
//! * *No dangling address.* [`Buffer::from_raw_parts`] makes its caller vouch for the memory as long as the
//!   buffer or a copy is in use. Copies have few holders: the core drops its own with the request, a device
//!   with the operation that it got one for (see [`Device`](crate::device::Device)). The memory of
//!   [`Buffer::leaked`] is never freed.
//! * *No data race.* A buffer is neither `Send` nor `Sync`, nor is the [`Process`](crate::Process) that holds
//!   it. Code that moves one to another thread needs `unsafe` and states the reason (`ayatori-mpi`: its
//!   gate).
//! * *No reference beside a write.* The public functions copy by address, as C's `memmove`, and do not
//!   require that memory is unshared. References to memory exist within this crate only, for the length of a
//!   reduction, of a copy, or of one call of [`Device::send`](crate::device::Device::send), to which they are
//!   lent: a device writes to no buffer during that call. This last rule is the one thing here that is
//!   neither checked nor behind `unsafe`.
//!
//! A buffer may be *virtual*: a length and no memory. A simulation of 12,288 ranks that send 4 MiB each then
//! needs no 48 GiB; protocols, packets and copies behave the same and move nothing.
//!
//! A buffer is contiguous. Data with gaps is a [`Region`](crate::layout::Region): a buffer that its elements
//! reach over, and a layout that says which bytes of it are meant.

mod copy;
mod strided;

use alloc::vec::Vec;
use core::ptr::NonNull;

pub(crate) use copy::append;
pub use copy::{AMD_FAMILY_ZEN_5, amd_family, copy, copy_by_loop};
pub(crate) use strided::{Block, List, Run};
pub use strided::{Packed, PackedMut};

/// One run of bytes of a message: memory, or a length only.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Real bytes.
    Bytes(&'a [u8]),
    /// A number of bytes without content.
    Virtual(usize),
}

impl<'a> Piece<'a> {
    /// No bytes at all.
    pub const EMPTY: Self = Self::Bytes(&[]);

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Virtual(len) => *len,
        }
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `at` bytes and the rest. `at` may not exceed the length.
    #[inline]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        match self {
            Self::Bytes(bytes) => {
                let (a, b) = bytes.split_at(at);
                (Self::Bytes(a), Self::Bytes(b))
            }
            Self::Virtual(len) => {
                assert!(at <= len, "split of a virtual piece of {len} bytes at {at}");
                (Self::Virtual(at), Self::Virtual(len - at))
            }
        }
    }

    /// The bytes, unless virtual.
    #[inline]
    pub const fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Virtual(_) => None,
        }
    }
}

/// The payload of a packet after its header: at most two pieces, so that a range that wraps, or a header part
/// kept elsewhere, needs no copy.
pub type Payload<'a> = [Piece<'a>; 2];

/// A payload of no bytes.
pub const NO_PAYLOAD: Payload<'static> = [Piece::EMPTY, Piece::EMPTY];

/// Length of a payload in bytes.
#[inline]
pub const fn payload_len(payload: &Payload<'_>) -> usize {
    payload[0].len() + payload[1].len()
}

/// The memory of one message at one side: where it is sent from or received into.
///
/// `Copy`, because the same memory is named by the request, by queued packets and by device operations; the
/// contract of [`Buffer::from_raw_parts`] covers them all. Not `Send`: memory is copied without any lock.
///
/// ```compile_fail
/// let buffer = ayatori_core::buffer::Buffer::leaked(8);
/// std::thread::spawn(move || buffer.len());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// `None`: virtual.
    base: Option<NonNull<u8>>,
    len: usize,
}

impl Buffer {
    /// A buffer of no bytes.
    pub const EMPTY: Self = Self { base: Some(NonNull::dangling()), len: 0 };

    /// A buffer of `len` bytes that exist only as a number.
    pub const fn virtual_of(len: usize) -> Self {
        Self { base: None, len }
    }

    /// The memory at `base`, `len` bytes.
    ///
    /// # Safety
    /// As long as this buffer, a copy or a part of it is used:
    ///
    /// 1. the memory stays valid for reads, and for writes if a receive, a get or a registration is made with
    ///    it, or something is written through it;
    /// 2. no other code writes it, and no other code reads it if it is written through the buffer (MPI-5.0
    ///    §3.7.2: the request owns it until it completes);
    /// 3. it is used on one thread at a time.
    ///
    /// Where a [`Region`](crate::layout::Region) names bytes with gaps between them, that goes for those
    /// bytes, not the gaps.
    ///
    /// A request uses it until it has completed or been cancelled; a device, which the caller vouches for,
    /// until the put, get, fetch or registration has ended that it was given the buffer for. `base` may be
    /// null only when `len` is 0.
    #[inline]
    pub const unsafe fn from_raw_parts(base: *mut u8, len: usize) -> Self {
        match NonNull::new(base) {
            Some(base) => Self { base: Some(base), len },
            None => Self::EMPTY,
        }
    }

    /// Zeroed memory that is never freed, for simulators and tests that need real bytes and have no `unsafe`.
    /// Two operations on the same part of it at a time mix up its bytes, and do nothing worse.
    pub fn leaked(len: usize) -> Self {
        let memory = alloc::vec![0; len].leak();
        match NonNull::new(memory.as_mut_ptr()) {
            Some(base) => Self { base: Some(base), len },
            None => Self::EMPTY,
        }
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the bytes exist only as a number.
    #[inline]
    pub const fn is_virtual(&self) -> bool {
        self.base.is_none()
    }

    /// Whether the two share memory.
    pub fn overlaps(&self, other: &Buffer) -> bool {
        let (Some(a), Some(b)) = (self.base, other.base) else { return false };
        let (a, b) = (a.as_ptr() as usize, b.as_ptr() as usize);
        self.len > 0 && other.len > 0 && a < b + other.len && b < a + self.len
    }

    /// Address of the first byte, for devices that move memory themselves; `None` if virtual.
    #[inline]
    pub const fn as_ptr(&self) -> Option<*mut u8> {
        match self.base {
            Some(base) => Some(base.as_ptr()),
            None => None,
        }
    }

    /// The part of `len` bytes from `offset`.
    ///
    /// # Panics
    /// If the part does not lie inside: the caller has checked lengths (our bug otherwise).
    #[inline]
    pub fn part(&self, offset: usize, len: usize) -> Self {
        assert!(offset <= self.len && len <= self.len - offset, "part of a buffer outside of it");
        match self.base {
            // SAFETY: offset is inside the allocation (checked above), so the addition cannot wrap.
            Some(base) => Self { base: Some(unsafe { base.add(offset) }), len },
            None => Self { base: None, len },
        }
    }

    /// From the first byte of the lowest to the end of the highest of some buffers; `None` if one is virtual,
    /// or there is none. The caller touches only bytes of these buffers.
    pub(crate) fn hull(buffers: &[Buffer]) -> Option<Self> {
        let mut first: Option<NonNull<u8>> = None;
        let mut end = 0;
        for buffer in buffers {
            let base = buffer.base?;
            first = Some(first.map_or(base, |first| first.min(base)));
            end = end.max(base.as_ptr() as usize + buffer.len);
        }
        let base = first?;
        Some(Self { base: Some(base), len: end - base.as_ptr() as usize })
    }

    /// The bytes of the message from `offset`, `len` of them, to be read at once.
    #[inline]
    pub(crate) fn gather(&self, offset: usize, len: usize) -> Payload<'_> {
        [self.piece_at(offset, len), Piece::EMPTY]
    }

    /// All bytes as one piece.
    #[inline]
    pub(crate) fn piece(&self) -> Piece<'_> {
        self.piece_at(0, self.len)
    }

    #[inline]
    fn piece_at(&self, offset: usize, len: usize) -> Piece<'_> {
        let part = self.part(offset, len);
        match part.base {
            // SAFETY: `from_raw_parts`: valid for reads, and not written while a request uses it. The
            // callers, all in this crate, write nothing while they have it (see the module).
            Some(base) => Piece::Bytes(unsafe { core::slice::from_raw_parts(base.as_ptr(), part.len) }),
            None => Piece::Virtual(part.len),
        }
    }

    /// A copy of all bytes; `None` if virtual.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        self.base?;
        let mut bytes = Vec::with_capacity(self.len);
        // SAFETY: `len` bytes are reserved at the vector's address, and written by then.
        unsafe {
            self.copy_to(0, bytes.as_mut_ptr(), self.len);
            bytes.set_len(self.len);
        }
        Some(bytes)
    }

    /// Copies the bytes from `offset` on to `into`, as many as that has; nothing if virtual.
    ///
    /// # Panics
    /// If there are fewer (our bug).
    #[inline]
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: the slice is writable over its length.
        unsafe { self.copy_to(offset, into.as_mut_ptr(), into.len()) }
    }

    /// Copies `len` bytes from `offset` to an address; nothing if virtual.
    ///
    /// # Safety
    /// `len` bytes at `to` are valid for writes.
    #[inline]
    unsafe fn copy_to(&self, offset: usize, to: *mut u8, len: usize) {
        if let Some(from) = self.part(offset, len).base {
            // SAFETY: in bounds (`part`), valid for reads (`from_raw_parts`), and by the caller's word for
            // writes.
            unsafe { copy(from.as_ptr(), to, len) }
        }
    }

    /// Writes `piece` at `offset`. Nothing happens if either side is virtual.
    ///
    /// # Panics
    /// If the piece does not fit (our bug: lengths are checked when a message is matched).
    #[inline]
    pub fn scatter(&self, offset: usize, piece: Piece<'_>) {
        let target = self.part(offset, piece.len());
        if let (Some(base), Piece::Bytes(bytes)) = (target.base, piece) {
            // SAFETY: in bounds (checked by `part`) and valid for writes (`from_raw_parts`). Overlapping is
            // allowed: a program may send from and receive into overlapping memory by mistake, which must not
            // be undefined here.
            unsafe { copy(bytes.as_ptr(), base.as_ptr(), bytes.len()) }
        }
    }

    /// Copies `len` bytes from another buffer, both from the given offsets.
    /// Nothing happens if either is virtual; they may overlap.
    #[inline]
    pub fn copy_from(&self, offset: usize, from: &Buffer, from_offset: usize, len: usize) {
        if let Some(to) = self.part(offset, len).base {
            // SAFETY: `len` bytes are valid for writes there: in bounds (checked by `part`), and
            // `from_raw_parts`.
            unsafe { from.copy_to(from_offset, to.as_ptr(), len) }
        }
    }

    /// Runs `f` on the bytes as a mutable slice; not called if virtual. For what writes in place.
    ///
    /// # Safety
    /// No other code uses this memory until `f` returns, not by a copy of the buffer either.
    #[inline]
    pub unsafe fn with_bytes_mut<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        // SAFETY: valid for writes (`from_raw_parts`), and by the caller's word exclusively ours; the slice
        // does not leave `f`.
        self.base.map(|base| f(unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), self.len) }))
    }

    /// As [`with_bytes_mut`](Self::with_bytes_mut), for this crate, whose closures know of no other copy.
    #[inline]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        // SAFETY: the buffers this is called on are scratch memory of an operation that is over or not begun,
        // or of a window where an accumulate works, beside which the program may not access that memory
        // (MPI-5.0 §12.7).
        unsafe { self.with_bytes_mut(f) }
    }

    /// Runs `f` with this buffer's bytes mutable and `other`'s readable; not called if either is virtual.
    ///
    /// # Panics
    /// If the two overlap.
    #[inline]
    pub(crate) fn with_mut_and<R>(&self, other: &Buffer, f: impl FnOnce(&mut [u8], &[u8]) -> R) -> Option<R> {
        let (a, b) = (self.base?, other.base?);
        let (a_at, b_at) = (a.as_ptr() as usize, b.as_ptr() as usize);
        assert!(
            a_at + self.len <= b_at || b_at + other.len <= a_at || self.len == 0 || other.len == 0,
            "the two operands of a reduction overlap"
        );
        // SAFETY: disjoint (checked above), valid as `from_raw_parts` promises, and neither leaves `f`, which
        // is a reduction: it knows of no buffers.
        unsafe {
            let mine = core::slice::from_raw_parts_mut(a.as_ptr(), self.len);
            let theirs = core::slice::from_raw_parts(b.as_ptr(), other.len);
            Some(f(mine, theirs))
        }
    }
}

/// Memory that a schedule owns: partial results, blocks on their way. Aligned for every predefined type.
///
/// The buffers it gives out do not borrow it, for they sit in the same structure as their memory. The owner
/// of a scratch keeps it until every request made with its buffers has ended (or leaks it); `coll::Schedule`,
/// its only user, does so.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// `u128`: aligned to 16 bytes, and zeroed by the allocator without touching the pages.
    words: alloc::vec::Vec<u128>,
}

impl Scratch {
    /// Room for `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        Self { words: alloc::vec![0; len.div_ceil(size_of::<u128>())] }
    }

    /// How many bytes it holds.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.words.len() * size_of::<u128>()
    }

    /// Its first `len` bytes. Ends the use of buffers given out before: takes `&mut self`.
    pub(crate) fn buffer(&mut self, len: usize) -> Buffer {
        assert!(len <= self.capacity_bytes(), "scratch memory of {} bytes for {len}", self.capacity_bytes());
        // SAFETY: the vector is never resized and lives until the requests have ended (see the type), so the
        // memory stays valid; no other code knows the address.
        unsafe { Buffer::from_raw_parts(self.words.as_mut_ptr().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_and_gather_move_bytes_at_offsets() {
        let mut memory = [0u8; 8];
        // SAFETY: `memory` outlives the buffer and is not touched in between.
        let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), 8) };
        buffer.scatter(3, Piece::Bytes(b"abc"));
        let [first, second] = buffer.gather(2, 4);
        assert_eq!(first.bytes(), Some(&b"\0abc"[..]));
        assert!(second.is_empty());
        assert_eq!(&memory, b"\0\0\0abc\0\0");
    }

    #[test]
    fn buffers_overlap_if_they_share_a_byte() {
        let all = Buffer::leaked(10);
        for (a, b, shares) in [
            ((0, 4), (4, 4), false),
            ((0, 5), (4, 4), true),
            ((0, 10), (3, 1), true),
            ((3, 1), (3, 1), true),
            ((0, 10), (3, 0), false),
            ((9, 1), (0, 9), false),
        ] {
            let (a, b) = (all.part(a.0, a.1), all.part(b.0, b.1));
            assert_eq!([a.overlaps(&b), b.overlaps(&a)], [shares; 2], "{a:?} {b:?}");
        }
        assert!(!all.overlaps(&Buffer::virtual_of(10)));
        let hull = Buffer::hull(&[all.part(6, 2), all.part(1, 3)]).unwrap();
        assert_eq!((hull.as_ptr(), hull.len()), (all.part(1, 1).as_ptr(), 7));
    }

    #[test]
    fn virtual_buffers_have_length_and_no_bytes() {
        let buffer = Buffer::virtual_of(1 << 40);
        buffer.scatter(5, Piece::Bytes(b"ignored"));
        assert_eq!(payload_len(&buffer.gather(1, 1 << 39)), 1 << 39);
        assert!(buffer.piece().bytes().is_none());
        let (first, rest) = buffer.piece().split_at(3);
        assert_eq!((first.len(), rest.len()), (3, (1 << 40) - 3));
    }

    #[test]
    fn copies_between_parts_that_overlap_are_as_memmove() {
        let buffer = Buffer::leaked(40);
        buffer.scatter(0, Piece::Bytes(b"abcdefghijklmnopqrst"));
        for (to, from, len) in [(3, 0, 6), (0, 4, 12), (20, 0, 20), (1, 0, 30)] {
            let mut expected = buffer.to_vec().unwrap();
            expected.copy_within(from..from + len, to);
            buffer.copy_from(to, &buffer, from, len);
            assert_eq!(buffer.to_vec().unwrap(), expected);
        }
        let before = buffer.to_vec();
        buffer.copy_from(0, &Buffer::virtual_of(10), 5, 5);
        Buffer::virtual_of(10).copy_from(0, &buffer, 5, 5);
        assert_eq!((buffer.to_vec(), Buffer::virtual_of(10).to_vec()), (before, None));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_part_outside_is_our_bug() {
        let _ = Buffer::virtual_of(4).part(3, 2);
    }
}
