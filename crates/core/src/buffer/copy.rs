//! How memory is copied.
//!
//! As C's `memmove` does, but on AMD's processors from [`LONG_BYTES_MIN`] on by a loop of our own. There,
//! glibc before 2.39 (Debian 12, Ubuntu 22.04) copies 4 KiB to 512 KiB with `rep movsb`, which on a Zen 3
//! or 4 takes up to twenty-five times as long where the destination's place in its page is 1 to 31 bytes
//! behind the source's (glibc's bug 30994). That is no rare case: `malloc` gives long blocks 16 bytes behind
//! the beginning of a page, and packets begin pages. 8 KiB from one to the other took 3.4 µs, with this loop
//! 0.12; 128 KiB 58 and 3.0, and 2.8 and 2.6 where both begin a page (a Zen 3, in its own caches).

use alloc::vec::Vec;

/// What is copied by the loop is at least as long. The shortest that glibc copies with `rep movsb` is 2 KiB.
const LONG_BYTES_MIN: usize = 2048;

/// `memmove`, but the lengths that short messages have are not worth its call: their bytes are read whole,
/// then written.
///
/// # Safety
/// `len` bytes are readable at `from` and writable at `to`.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    /// Copies a length between the size of `T` and twice that, as two words that may overlap.
    ///
    /// # Safety
    /// As for [`copy`], with `len` at least the size of `T` and at most twice that.
    #[inline(always)]
    unsafe fn two<T>(from: *const u8, to: *mut u8, len: usize) {
        let last = len - size_of::<T>();
        // SAFETY: both words lie in the `len` bytes.
        unsafe {
            let (first, second) =
                (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
            to.cast::<T>().write_unaligned(first);
            to.add(last).cast::<T>().write_unaligned(second);
        }
    }
    // SAFETY: by the contract, and each length is what `two` asks for.
    unsafe {
        match len {
            8..=16 => two::<u64>(from, to, len),
            4..=7 => two::<u32>(from, to, len),
            0..LONG_BYTES_MIN => core::ptr::copy(from, to, len),
            _ => copy_long(from, to, len),
        }
    }
}

/// Appends bytes to a vector.
pub(crate) fn append(bytes: &mut Vec<u8>, more: &[u8]) {
    bytes.reserve(more.len());
    let len = bytes.len();
    // SAFETY: there is room for so many bytes behind the first `len`; they are written before they count.
    unsafe {
        copy(more.as_ptr(), bytes.as_mut_ptr().add(len), more.len());
        bytes.set_len(len + more.len());
    }
}

/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the contract; the loop's memory does not overlap.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if from.addr().abs_diff(to.addr()) >= len && loops::are_better() {
            return loops::copy(from, to, len);
        }
        core::ptr::copy(from, to, len);
    }
}

/// The loop.
#[cfg(target_arch = "x86_64")]
mod loops {
    use core::arch::x86_64::{
        __cpuid, __m256i, _mm256_loadu_si256, _mm256_store_si256, _mm256_storeu_si256, _xgetbv,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

    /// Bytes of a register, and of a round.
    const WORD_BYTES: usize = size_of::<__m256i>();
    const ROUND_BYTES: usize = 4 * WORD_BYTES;

    /// Whether this processor is AMD's, or Hygon's, which are made after these, and copies by AVX.
    #[inline]
    pub(super) fn are_better() -> bool {
        const UNKNOWN: u8 = 2;
        static ARE_BETTER: AtomicU8 = AtomicU8::new(UNKNOWN);
        match ARE_BETTER.load(Ordering::Relaxed) {
            UNKNOWN => {
                let are_better = is_amd() && has_avx();
                ARE_BETTER.store(are_better.into(), Ordering::Relaxed);
                are_better
            }
            known => known == 1,
        }
    }

    #[cold]
    fn is_amd() -> bool {
        [*b"Auth", *b"Hygo"].contains(&__cpuid(0).ebx.to_le_bytes())
    }

    /// Whether there is AVX and the system keeps its registers.
    #[cold]
    pub(super) fn has_avx() -> bool {
        const XSAVE_IN_USE_AND_AVX: u32 = 1 << 27 | 1 << 28;
        const SSE_AND_AVX_STATE: u64 = 1 << 1 | 1 << 2;
        #[target_feature(enable = "xsave")]
        fn state_kept() -> u64 {
            // SAFETY: register 0 is always there.
            unsafe { _xgetbv(0) }
        }
        __cpuid(1).ecx & XSAVE_IN_USE_AND_AVX == XSAVE_IN_USE_AND_AVX
            // SAFETY: the system uses it.
            && unsafe { state_kept() } & SSE_AND_AVX_STATE == SSE_AND_AVX_STATE
    }

    /// Copies memory that does not overlap: the first word and the last four wherever they begin, and between
    /// them aligned words of the destination.
    ///
    /// # Safety
    /// As for [`copy`](super::copy); there is AVX, and `len` is at least [`ROUND_BYTES`].
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        const { assert!(super::LONG_BYTES_MIN >= ROUND_BYTES) };
        // SAFETY: what is read and written lies in the `len` bytes of either side: a whole word at `at` if
        // `at` is at most `len` less a word, a round likewise. Aligned stores are at multiples of a word.
        unsafe {
            let load = |at: usize| _mm256_loadu_si256(from.add(at).cast());
            let store = |at: usize, word| _mm256_storeu_si256(to.add(at).cast(), word);
            let store_aligned = |at: usize, word| _mm256_store_si256(to.add(at).cast(), word);
            store(0, load(0));
            for at in (1..=4).map(|word| len - word * WORD_BYTES) {
                store(at, load(at));
            }
            let mut at = WORD_BYTES - to.addr() % WORD_BYTES;
            while at + ROUND_BYTES <= len {
                let words = [0, 1, 2, 3].map(|word| load(at + word * WORD_BYTES));
                for (word, value) in words.into_iter().enumerate() {
                    store_aligned(at + word * WORD_BYTES, value);
                }
                at += ROUND_BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What copies: as on this processor, and by the loop if there is what it needs.
    type Copies = unsafe fn(*const u8, *mut u8, usize);

    fn both() -> Vec<Copies> {
        #[allow(unused_mut)]
        let mut both: Vec<Copies> = alloc::vec![copy];
        #[cfg(target_arch = "x86_64")]
        if loops::has_avx() {
            both.push(loops::copy);
        }
        both
    }

    #[test]
    fn all_bytes_are_copied_and_no_others() {
        const ROOM: usize = LONG_BYTES_MIN + 400;
        let source: Vec<u8> = (0..ROOM).map(|at| (at % 251) as u8 + 1).collect();
        for copies in both() {
            for (from, to) in (0..70).flat_map(|at| [(0, at), (at, 0), (at, at), (at, 69 - at)]) {
                for len in LONG_BYTES_MIN..LONG_BYTES_MIN + 260 {
                    let mut target = alloc::vec![0; ROOM];
                    // SAFETY: both have room for that.
                    unsafe { copies(source.as_ptr().add(from), target.as_mut_ptr().add(to), len) };
                    assert_eq!(target[to..to + len], source[from..from + len], "{from} {to} {len}");
                    assert!(target[..to].iter().chain(&target[to + len..]).all(|byte| *byte == 0));
                }
            }
        }
    }

    #[test]
    fn memory_that_overlaps_is_moved() {
        let before: Vec<u8> = (0..3 * LONG_BYTES_MIN).map(|at| (at % 251) as u8).collect();
        for (from, to) in [(0, 1), (1, 0), (0, 16), (100, 0), (0, LONG_BYTES_MIN), (LONG_BYTES_MIN, 0)] {
            for len in [LONG_BYTES_MIN, LONG_BYTES_MIN + 1, 2 * LONG_BYTES_MIN] {
                let mut memory = before.clone();
                // SAFETY: within the memory.
                unsafe { copy(memory.as_ptr().add(from), memory.as_mut_ptr().add(to), len) };
                assert_eq!(memory[to..to + len], before[from..from + len], "{from} {to} {len}");
            }
        }
    }

    /// `bench/past.h` copies as this does, without the library.
    #[test]
    fn the_benchmarks_copy_so_from_the_same_length_on() {
        assert!(include_str!("../../../../bench/past.h").contains("#define LOOP_FROM_KIB 2\n"));
        assert_eq!(LONG_BYTES_MIN, 2 << 10);
    }

    #[test]
    fn bytes_are_appended() {
        for len in [0, 5, LONG_BYTES_MIN + 5] {
            let more: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut bytes = alloc::vec![7; 3];
            append(&mut bytes, &more);
            assert_eq!((&bytes[..3], &bytes[3..]), (&[7; 3][..], &more[..]));
        }
    }
}
