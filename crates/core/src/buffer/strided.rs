//! Copies between memory with gaps and packed bytes: the part of [`layout`](crate::layout) that needs
//! `unsafe`.
//!
//! Bounds are checked once a [`Run`], and once a block for a list of displacements; the loops after that are
//! free of checks. Both sides are raw addresses until a block is copied, so memory that a program lets
//! overlap by mistake gives mixed bytes and nothing worse.

use super::{Buffer, copy};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Blocks of equal length at equal distances, both in memory and in the packed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where the first block begins in memory.
    pub(crate) memory: isize,
    /// Distance of two blocks in memory.
    pub(crate) memory_stride: isize,
    /// Where the first block begins in the packed bytes.
    pub(crate) packed: usize,
    /// Distance of two blocks in the packed bytes.
    pub(crate) packed_stride: usize,
    /// Bytes of a block.
    pub(crate) len: usize,
    /// How many blocks there are.
    pub(crate) count: usize,
}

impl Run {
    /// Blocks whose first begins at, and whose distances are, `(at, stride)` on each side.
    #[inline]
    pub(crate) const fn new(
        memory: (isize, isize),
        packed: (usize, usize),
        len: usize,
        count: usize,
    ) -> Self {
        let ((memory, memory_stride), (packed, packed_stride)) = (memory, packed);
        Self { memory, memory_stride, packed, packed_stride, len, count }
    }
}

/// One of several blocks of different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where it begins in memory.
    pub(crate) at: isize,
    /// Where it begins in the packed bytes.
    pub(crate) start: usize,
    /// Its bytes.
    pub(crate) len: usize,
}

/// Packed bytes to write; nothing is written if they are virtual.
#[derive(Debug)]
pub struct PackedMut<'a> {
    base: Option<NonNull<u8>>,
    len: usize,
    lent: PhantomData<&'a mut [u8]>,
}

/// Packed bytes to read; nothing is read if they are virtual.
#[derive(Debug)]
pub struct Packed<'a> {
    base: Option<NonNull<u8>>,
    len: usize,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> From<&'a mut [u8]> for PackedMut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { base: NonNull::new(bytes.as_mut_ptr()), len: bytes.len(), lent: PhantomData }
    }
}

impl From<Buffer> for PackedMut<'_> {
    fn from(buffer: Buffer) -> Self {
        Self { base: buffer.base, len: buffer.len, lent: PhantomData }
    }
}

impl<'a> From<&'a [u8]> for Packed<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        // Never written through: `Packed` is only a source of copies.
        Self { base: NonNull::new(bytes.as_ptr().cast_mut()), len: bytes.len(), lent: PhantomData }
    }
}

impl From<Buffer> for Packed<'_> {
    fn from(buffer: Buffer) -> Self {
        Self { base: buffer.base, len: buffer.len, lent: PhantomData }
    }
}

impl PackedMut<'_> {
    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Packed<'_> {
    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Whether `count` blocks of `len` bytes at distances of `stride` from `first` lie in `available` bytes.
fn fits(first: isize, stride: isize, len: usize, count: usize, available: usize) -> bool {
    let Some(more) = count.checked_sub(1) else { return true };
    let (Ok(more), Ok(room)) = (isize::try_from(more), isize::try_from(available)) else { return false };
    let (Some(distance), Ok(len)) = (stride.checked_mul(more), isize::try_from(len)) else { return false };
    let (low, high) = (distance.min(0).checked_add(first), distance.max(0).checked_add(first));
    low.is_some_and(|low| low >= 0) && high.is_some_and(|high| len <= room && high <= room - len)
}

fn assert_run_fits(run: &Run, memory_len: usize, packed_len: usize) {
    assert!(
        fits(run.memory, run.memory_stride, run.len, run.count, memory_len)
            && fits(run.packed as isize, run.packed_stride as isize, run.len, run.count, packed_len),
        "{run:?} outside of {memory_len} bytes of memory or {packed_len} packed bytes"
    );
}

impl Buffer {
    /// Copies the blocks of a run from this memory to packed bytes.
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    #[inline]
    pub(crate) fn pack_run(&self, run: &Run, to: &mut PackedMut<'_>) {
        assert_run_fits(run, self.len, to.len);
        let (Some(memory), Some(packed)) = (self.base, to.base) else { return };
        // SAFETY: each block lies inside on both sides (checked above), so the addresses are in bounds,
        // readable (`from_raw_parts`) and writable (a mutable slice, or `from_raw_parts`).
        unsafe {
            let from = memory.as_ptr().offset(run.memory);
            let to = packed.as_ptr().add(run.packed);
            copy_blocks((from, run.memory_stride), (to, run.packed_stride as isize), run.len, run.count);
        }
    }

    /// Copies packed bytes to the blocks of a run in this memory.
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    #[inline]
    pub(crate) fn unpack_run(&self, run: &Run, from: &Packed<'_>) {
        assert_run_fits(run, self.len, from.len);
        let (Some(memory), Some(packed)) = (self.base, from.base) else { return };
        // SAFETY: as in `pack_run`, with the sides changed: the memory is writable by `from_raw_parts`.
        unsafe {
            let from = packed.as_ptr().add(run.packed);
            let to = memory.as_ptr().offset(run.memory);
            copy_blocks((from, run.packed_stride as isize), (to, run.memory_stride), run.len, run.count);
        }
    }

    /// Copies blocks of `len` bytes at `origin` plus each displacement to the packed bytes from `at` on.
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    pub(crate) fn pack_list(&self, list: &List<'_>, to: &mut PackedMut<'_>, at: usize) {
        assert!(
            fits(at as isize, list.len as isize, list.len, list.displacements.len(), to.len),
            "{OUTSIDE}"
        );
        let (Some(memory), Some(packed)) = (self.base, to.base) else { return };
        // SAFETY: the packed side has room for all blocks (checked above), the memory side is checked for
        // each.
        unsafe { copy_list::<true>((memory.as_ptr(), self.len), list, packed.as_ptr().add(at)) }
    }

    /// Copies packed bytes from `at` on to blocks of `len` bytes at `origin` plus each displacement.
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    pub(crate) fn unpack_list(&self, list: &List<'_>, from: &Packed<'_>, at: usize) {
        assert!(
            fits(at as isize, list.len as isize, list.len, list.displacements.len(), from.len),
            "{OUTSIDE}"
        );
        let (Some(memory), Some(packed)) = (self.base, from.base) else { return };
        // SAFETY: as in `pack_list`; the packed side is only read.
        unsafe { copy_list::<false>((memory.as_ptr(), self.len), list, packed.as_ptr().add(at)) }
    }
}

impl Buffer {
    /// Copies blocks to packed bytes. `origin` is added to where they are in memory, `packed` to where they
    /// go, less the place of the first.
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    pub(crate) fn pack_blocks(&self, origin: isize, blocks: &[Block], to: &mut PackedMut<'_>, packed: usize) {
        let (Some(memory), Some(base)) = (self.base, to.base) else { return };
        for_each_block(origin, blocks, packed, (self.len, to.len), |offset, place, len| {
            // SAFETY: the block lies inside on both sides (checked by `for_each_block`), as in `pack_run`.
            unsafe { copy(memory.as_ptr().add(offset), base.as_ptr().add(place), len) }
        });
    }

    /// Copies packed bytes to blocks; the arguments are as those of [`pack_blocks`](Self::pack_blocks).
    ///
    /// # Panics
    /// If a block lies outside of either side (our bug).
    pub(crate) fn unpack_blocks(&self, origin: isize, blocks: &[Block], from: &Packed<'_>, packed: usize) {
        let (Some(memory), Some(base)) = (self.base, from.base) else { return };
        for_each_block(origin, blocks, packed, (self.len, from.len), |offset, place, len| {
            // SAFETY: the block lies inside on both sides (checked by `for_each_block`), as in `unpack_run`.
            unsafe { copy(base.as_ptr().add(place), memory.as_ptr().add(offset), len) }
        });
    }
}

/// Runs `f(offset in memory, place in the packed bytes, length)` for each block, which lies inside of both.
#[inline(always)]
fn for_each_block(
    origin: isize,
    blocks: &[Block],
    packed: usize,
    (memory_len, packed_len): (usize, usize),
    mut f: impl FnMut(usize, usize, usize),
) {
    let first = blocks.first().map_or(0, |block| block.start);
    for block in blocks {
        // A negative offset becomes a huge number.
        let offset = origin.wrapping_add(block.at) as usize;
        let place = packed.wrapping_add(block.start).wrapping_sub(first);
        let is_inside = |at: usize, room: usize| block.len <= room && at <= room - block.len;
        assert!(is_inside(offset, memory_len) && is_inside(place, packed_len), "{OUTSIDE}");
        f(offset, place, block.len);
    }
}

const OUTSIDE: &str = "a block of a list lies outside of its memory";

/// Blocks of equal length anywhere in memory, in a row in the packed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    /// Added to each displacement.
    pub(crate) origin: isize,
    /// Where each block begins in memory.
    pub(crate) displacements: &'a [isize],
    /// Bytes of a block.
    pub(crate) len: usize,
}

/// Copies the blocks of a list out of memory (`PACK`) or into it, in a loop of its own for each of the usual
/// lengths.
///
/// # Safety
/// The memory is an allocation of the length given with it, readable, and writable unless `PACK`. At `packed`
/// all blocks have room, writable if `PACK`, else readable.
unsafe fn copy_list<const PACK: bool>(memory: (*mut u8, usize), list: &List<'_>, packed: *mut u8) {
    // SAFETY: by the contract.
    unsafe {
        match list.len {
            1 => list_words::<u8, PACK>(memory, list, packed),
            2 => list_words::<u16, PACK>(memory, list, packed),
            4 => list_words::<u32, PACK>(memory, list, packed),
            8 => list_words::<u64, PACK>(memory, list, packed),
            16 => list_words::<[u64; 2], PACK>(memory, list, packed),
            24 => list_words::<[u64; 3], PACK>(memory, list, packed),
            32 => list_words::<[u64; 4], PACK>(memory, list, packed),
            len => {
                for (index, displacement) in list.displacements.iter().enumerate() {
                    let block = memory.0.add(checked_offset(list, *displacement, memory.1));
                    let packed = packed.add(index * len);
                    if PACK { copy(block, packed, len) } else { copy(packed, block, len) }
                }
            }
        }
    }
}

/// [`copy_list`] for blocks of the size of `T`.
///
/// # Safety
/// As for [`copy_list`].
#[inline(always)]
unsafe fn list_words<T: Copy, const PACK: bool>(memory: (*mut u8, usize), list: &List<'_>, packed: *mut u8) {
    for (index, displacement) in list.displacements.iter().enumerate() {
        // SAFETY: the block lies in the memory (checked), and the packed side has room for all by the
        // contract.
        unsafe {
            let block = memory.0.add(checked_offset(list, *displacement, memory.1)).cast::<T>();
            let packed = packed.cast::<T>().add(index);
            match PACK {
                true => packed.write_unaligned(block.read_unaligned()),
                false => block.write_unaligned(packed.read_unaligned()),
            }
        }
    }
}

/// Where a block of a list lies in `available` bytes of memory. A negative offset becomes a huge unsigned
/// number.
#[inline(always)]
fn checked_offset(list: &List<'_>, displacement: isize, available: usize) -> usize {
    let offset = list.origin.wrapping_add(displacement) as usize;
    assert!(list.len <= available && offset <= available - list.len, "{OUTSIDE}");
    offset
}

/// Copies `count` blocks of `len` bytes from addresses at one distance to addresses at another.
///
/// # Safety
/// Each block is readable at its source and writable at its target.
#[inline]
unsafe fn copy_blocks(from: (*const u8, isize), to: (*mut u8, isize), len: usize, count: usize) {
    // SAFETY: by the contract.
    unsafe {
        match len {
            1 => copy_words::<u8>(from, to, count),
            2 => copy_words::<u16>(from, to, count),
            4 => copy_words::<u32>(from, to, count),
            8 => copy_words::<u64>(from, to, count),
            12 => copy_words::<[u32; 3]>(from, to, count),
            16 => copy_words::<[u64; 2]>(from, to, count),
            24 => copy_words::<[u64; 3]>(from, to, count),
            32 => copy_words::<[u64; 4]>(from, to, count),
            64 => copy_words::<[u64; 8]>(from, to, count),
            _ => {
                for index in 0..count as isize {
                    copy(from.0.offset(index * from.1), to.0.offset(index * to.1), len);
                }
            }
        }
    }
}

/// [`copy_blocks`] for blocks of the size of `T`.
///
/// # Safety
/// As for [`copy_blocks`].
#[inline(always)]
unsafe fn copy_words<T: Copy>(from: (*const u8, isize), to: (*mut u8, isize), count: usize) {
    for index in 0..count as isize {
        // SAFETY: by the contract. Each word is read whole before it is written.
        unsafe {
            let word = from.0.offset(index * from.1).cast::<T>().read_unaligned();
            to.0.offset(index * to.1).cast::<T>().write_unaligned(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(memory: isize, memory_stride: isize, packed: usize, packed_stride: usize) -> Run {
        Run::new((memory, memory_stride), (packed, packed_stride), 2, 3)
    }

    #[test]
    fn blocks_further_apart_than_an_address_tells_do_not_fit() {
        assert!(fits(0, 3, 2, 3, 8) && !fits(0, 3, 2, 3, 7));
        for stride in [isize::MAX, isize::MIN] {
            assert!(!fits(0, stride, 1, 3, 8), "{stride}");
            assert!(fits(0, stride, 1, 1, 8), "one is as far as it goes: {stride}");
        }
    }

    #[test]
    fn runs_copy_blocks_in_both_directions() {
        let memory = Buffer::leaked(16);
        memory.scatter(0, super::super::Piece::Bytes(b"0123456789abcdef"));
        let mut packed = [b'.'; 10];
        memory.pack_run(&run(10, -4, 1, 3), &mut PackedMut::from(&mut packed[..]));
        assert_eq!(&packed, b".ab.67.23.");
        memory.unpack_run(&run(0, 6, 0, 2), &Packed::from(&b"ABCDEF"[..]));
        assert_eq!(memory.to_vec().unwrap(), b"AB2345CD89abEFef");
    }

    #[test]
    fn lists_copy_blocks_of_every_length() {
        for len in 1..=70 {
            let memory = Buffer::leaked(400);
            let bytes: alloc::vec::Vec<u8> = (0..400).map(|i| i as u8).collect();
            memory.scatter(0, super::super::Piece::Bytes(&bytes));
            let list = List { origin: 5, displacements: &[100, -5, 300], len };
            let mut packed = alloc::vec![0; 3 * len];
            memory.pack_list(&list, &mut PackedMut::from(&mut packed[..]), 0);
            let expected = [&bytes[105..105 + len], &bytes[..len], &bytes[305..305 + len]].concat();
            assert_eq!(packed, expected, "{len}");
            let other = Buffer::leaked(400);
            other.unpack_list(&list, &Packed::from(&packed[..]), 0);
            assert_eq!(other.part(105, len).to_vec().unwrap(), &bytes[105..105 + len]);
        }
    }

    #[test]
    fn bounds_hold_for_every_block() {
        assert!(fits(0, 4, 4, 4, 16) && fits(12, -4, 4, 4, 16) && fits(-1, 1, 9, 0, 0));
        assert!(!fits(0, 4, 4, 5, 16) && !fits(11, -4, 4, 4, 16) && !fits(0, isize::MAX, 1, 3, usize::MAX));
        assert!(!fits(0, 0, 17, 1, 16));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_run_outside_of_its_memory_is_our_bug() {
        Buffer::leaked(16).pack_run(&run(11, 4, 0, 2), &mut PackedMut::from(&mut [0; 6][..]));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_list_outside_of_its_memory_is_our_bug() {
        let list = List { origin: 0, displacements: &[0, -1], len: 8 };
        Buffer::leaked(16).unpack_list(&list, &Packed::from(&[0; 16][..]), 0);
    }

    #[test]
    fn blocks_that_begin_before_their_memory_do_not_fit() {
        assert!(!fits(-1, 8, 4, 2, 100) && !fits(7, -8, 4, 2, 100) && fits(8, -8, 4, 2, 100));
    }

    #[test]
    fn a_block_of_a_list_lies_inside_of_both_memories() {
        for (at, len, is_inside) in
            [(6, 4, true), (7, 4, false), (9, 1, true), (0, 11, false), (-1, 1, false)]
        {
            for is_packed in [false, true] {
                let block = Block { at: if is_packed { 0 } else { at }, start: 0, len };
                let packed = if is_packed { at as usize } else { 0 };
                let rooms = if is_packed { (100, 10) } else { (10, 100) };
                let visit = || for_each_block(0, &[block], packed, rooms, |_, _, _| {});
                assert_eq!(std::panic::catch_unwind(visit).is_ok(), is_inside, "{at} {len} {is_packed}");
            }
        }
    }
}
