//! How memory is copied.
//!
//! As C's `memmove` does, but on AMD's processors from [`LONG_BYTES_MIN`] on as suits these:
//!
//! - Up to Zen 4 by a loop. There, glibc before 2.39 (Debian 12, Ubuntu 22.04) copies 4 KiB to 512 KiB with
//!   `rep movsb`, which on a Zen 3 or 4 takes up to twenty-five times as long where the destination's place
//!   in its page is 1 to 31 bytes behind the source's (glibc's bug 30994). That is no rare case: `malloc`
//!   gives long blocks 16 bytes behind the beginning of a page, and packets begin pages. 8 KiB from one to
//!   the other took 3.4 µs, with this loop 0.12; 128 KiB 58 and 3.0, and 2.8 and 2.6 where both begin a page
//!   (a Zen 3, in its own caches).
//! - On Zen 5 up to [`LOOP_BYTES_MAX`] by a loop of wider words, and what is longer with `rep movsb`, which
//!   newer versions of glibc do not use there. From page to page in its own caches 4 and 16 KiB take 16 and
//!   61 ns by the loop, 28 and 98 with `rep movsb`; but 128 KiB 1.31 µs and 0.97 (1.28 where the destination
//!   is 1 to 63 bytes behind), and 128 KiB over shared memory 2.4 µs one way and 2.0.

use alloc::vec::Vec;

/// What is not copied as C's `memmove` does is at least as long. The shortest that glibc copies with `rep
/// movsb` is 2 KiB.
const LONG_BYTES_MIN: usize = 2048;

/// On Zen 5 what is copied by the loop is at most as long. With 8 KiB, ping-pong of 8 KiB would gain a
/// thirtieth, and windows lose a quarter.
const LOOP_BYTES_MAX: usize = 4096;

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

/// The same, but never with `rep movsb` where [`copy`] chooses that: long memory by the loop, too.
///
/// # Safety
/// As for [`copy`].
pub unsafe fn copy_by_loop(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the contract; what the loop copies does not overlap, and is as long as it asks for.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if len > LOOP_BYTES_MAX
            && from.addr().abs_diff(to.addr()) >= len
            && ways::here() == ways::Way::WideLoop
        {
            return ways::copy_by_avx512(from, to, len);
        }
        copy(from, to, len);
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
    // SAFETY: by the contract; what `ways` copies does not overlap, and is as long as it asks for.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if from.addr().abs_diff(to.addr()) >= len {
            match ways::here() {
                ways::Way::Library => {}
                ways::Way::Loop => return ways::copy_by_avx(from, to, len),
                ways::Way::WideLoop if len <= LOOP_BYTES_MAX => return ways::copy_by_avx512(from, to, len),
                ways::Way::WideLoop => return ways::copy_by_rep(from, to, len),
            }
        }
        core::ptr::copy(from, to, len);
    }
}

/// The family of an AMD processor, or of one of Hygon's, which are made after these; `None`: another's. Zen 3
/// and 4 are of family 0x19, Zen 5 of 0x1a.
#[cold]
pub fn amd_family() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if [*b"Auth", *b"Hygo"].contains(&core::arch::x86_64::__cpuid(0).ebx.to_le_bytes()) {
        let word = core::arch::x86_64::__cpuid(1).eax;
        let (family, more) = (word >> 8 & 0xf, word >> 20 & 0xff);
        return Some(if family == 0xf { family + more } else { family });
    }
    None
}

/// The family of Zen 5, the first that does not copy slowly with `rep movsb` from any place to any.
pub const AMD_FAMILY_ZEN_5: u32 = 0x1a;

/// Ways to copy other than C's.
#[cfg(target_arch = "x86_64")]
mod ways {
    use super::{AMD_FAMILY_ZEN_5, LONG_BYTES_MIN, amd_family};
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m256i, __m512i, _mm256_loadu_si256, _mm256_storeu_si256,
        _mm512_loadu_si512, _mm512_storeu_si512, _xgetbv,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

    /// How long memory is copied.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub(super) enum Way {
        /// As C's `memmove` does.
        Library,
        /// [`copy_by_avx`].
        Loop,
        /// [`copy_by_avx512`] and [`copy_by_rep`].
        WideLoop,
    }

    /// What is better on this processor.
    #[inline]
    pub(super) fn here() -> Way {
        const UNKNOWN: u8 = 255;
        static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);
        match WAY.load(Ordering::Relaxed) {
            UNKNOWN => {
                let way = choose();
                WAY.store(way as u8, Ordering::Relaxed);
                way
            }
            way if way == Way::Loop as u8 => Way::Loop,
            way if way == Way::WideLoop as u8 => Way::WideLoop,
            _ => Way::Library,
        }
    }

    #[cold]
    fn choose() -> Way {
        match amd_family() {
            Some(AMD_FAMILY_ZEN_5..) if has_avx512() => Way::WideLoop,
            // Where the system keeps no wider registers there is no reason to do otherwise than on others.
            Some(..AMD_FAMILY_ZEN_5) if has_avx() => Way::Loop,
            _ => Way::Library,
        }
    }

    /// The registers that the system keeps, and whether it says so.
    #[cold]
    fn state_kept() -> Option<u64> {
        const XSAVE_IN_USE: u32 = 1 << 27;
        #[target_feature(enable = "xsave")]
        fn register() -> u64 {
            // SAFETY: register 0 is always there.
            unsafe { _xgetbv(0) }
        }
        // SAFETY: the system uses it.
        (__cpuid(1).ecx & XSAVE_IN_USE != 0).then(|| unsafe { register() })
    }

    /// Whether there is AVX and the system keeps its registers.
    #[cold]
    pub(super) fn has_avx() -> bool {
        const AVX: u32 = 1 << 28;
        const SSE_AND_AVX_STATE: u64 = 1 << 1 | 1 << 2;
        __cpuid(1).ecx & AVX != 0
            && state_kept().is_some_and(|kept| kept & SSE_AND_AVX_STATE == SSE_AND_AVX_STATE)
    }

    /// The same of AVX-512.
    #[cold]
    pub(super) fn has_avx512() -> bool {
        const AVX512F: u32 = 1 << 16;
        const AVX512_STATE: u64 = 1 << 5 | 1 << 6 | 1 << 7;
        has_avx()
            && __cpuid(0).eax >= 7
            && __cpuid_count(7, 0).ebx & AVX512F != 0
            && state_kept().is_some_and(|kept| kept & AVX512_STATE == AVX512_STATE)
    }

    /// Copies memory that does not overlap with `rep movsb`.
    ///
    /// # Safety
    /// As for [`copy`](super::copy).
    pub(super) unsafe fn copy_by_rep(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: by the contract; the direction flag is clear, by the calling convention.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// A function that copies memory that does not overlap by words of registers: the first word and the last
    /// four wherever they begin, and between them aligned words of the destination.
    macro_rules! copy_by_words {
        ($name:ident, $feature:literal, $word:ty, $load:ident, $store:ident) => {
            /// # Safety
            /// As for [`copy`](super::copy); there is what the name says, and `len` is [`LONG_BYTES_MIN`] at
            /// least.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name(from: *const u8, to: *mut u8, len: usize) {
                const WORD_BYTES: usize = size_of::<$word>();
                const ROUND_BYTES: usize = 4 * WORD_BYTES;
                const { assert!(LONG_BYTES_MIN >= ROUND_BYTES) };
                // SAFETY: what is read and written lies in the `len` bytes of either side: a whole word at
                // `at` if `at` is at most `len` less a word, a round likewise.
                unsafe {
                    let load = |at: usize| $load(from.add(at).cast());
                    let store = |at: usize, word| $store(to.add(at).cast(), word);
                    store(0, load(0));
                    for at in (1..=4).map(|word| len - word * WORD_BYTES) {
                        store(at, load(at));
                    }
                    let mut at = WORD_BYTES - to.addr() % WORD_BYTES;
                    while at + ROUND_BYTES <= len {
                        let words = [0, 1, 2, 3].map(|word| load(at + word * WORD_BYTES));
                        for (word, value) in words.into_iter().enumerate() {
                            store(at + word * WORD_BYTES, value);
                        }
                        at += ROUND_BYTES;
                    }
                }
            }
        };
    }

    copy_by_words!(copy_by_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_storeu_si256);
    copy_by_words!(copy_by_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_storeu_si512);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What copies: as on this processor, and by all ways for which it has what they need.
    type Copies = unsafe fn(*const u8, *mut u8, usize);

    fn all_ways() -> Vec<Copies> {
        #[allow(unused_mut)]
        let mut all: Vec<Copies> = alloc::vec![copy, copy_by_loop];
        #[cfg(target_arch = "x86_64")]
        {
            all.push(ways::copy_by_rep);
            all.extend(ways::has_avx().then_some(ways::copy_by_avx as Copies));
            all.extend(ways::has_avx512().then_some(ways::copy_by_avx512 as Copies));
        }
        all
    }

    #[test]
    fn all_bytes_are_copied_and_no_others() {
        const ROOM: usize = LONG_BYTES_MIN + 400;
        let source: Vec<u8> = (0..ROOM).map(|at| (at % 251) as u8 + 1).collect();
        for copies in all_ways() {
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
        let before: Vec<u8> = (0..4 * LOOP_BYTES_MAX).map(|at| (at % 251) as u8).collect();
        for (from, to) in [(0, 1), (1, 0), (0, 16), (100, 0), (0, LONG_BYTES_MIN), (LONG_BYTES_MIN, 0)] {
            for len in [LONG_BYTES_MIN, LONG_BYTES_MIN + 1, 2 * LONG_BYTES_MIN, 3 * LOOP_BYTES_MAX] {
                for copies in [copy as Copies, copy_by_loop] {
                    let mut memory = before.clone();
                    // SAFETY: within the memory.
                    unsafe { copies(memory.as_ptr().add(from), memory.as_mut_ptr().add(to), len) };
                    assert_eq!(memory[to..to + len], before[from..from + len], "{from} {to} {len}");
                }
            }
        }
    }

    /// `bench/past.h` copies as this does, without the library.
    #[test]
    fn the_benchmarks_copy_the_same_lengths_so() {
        assert!(include_str!("../../../../bench/past.h").contains("#define LOOP_FROM_KIB 2\n"));
        assert!(include_str!("../../../../bench/past.h").contains("#define LOOP_TO_KIB 4\n"));
        assert_eq!((LONG_BYTES_MIN, LOOP_BYTES_MAX), (2 << 10, 4 << 10));
    }

    /// What is asked of the processor, and what the system says of it.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_processor_is_the_one_that_the_system_names() {
        assert_eq!(ways::has_avx(), std::is_x86_feature_detected!("avx"));
        assert_eq!(ways::has_avx512(), std::is_x86_feature_detected!("avx512f"));
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("Linux");
        let value = |key: &str| {
            let line =
                text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key));
            line.and_then(|line| line.split(':').nth(1)).expect("it is said").trim()
        };
        let is_amd = ["AuthenticAMD", "HygonGenuine"].contains(&value("vendor_id"));
        assert_eq!(amd_family(), is_amd.then(|| value("cpu family").parse().expect("a number")));
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
