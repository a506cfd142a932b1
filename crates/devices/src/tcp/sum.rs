//! The checksum of frames: CRC32C, by what is quickest on this processor.
//!
//! Three ways give the same sum. Short bytes go through the processor's instruction for it, one after the
//! other: no tables, no folding, no choice. Of longer ones `crc-fast` folds 64 bytes at a time where the
//! processor multiplies so many without carry (AVX-512; on other architectures what it has), and elsewhere
//! `crc32c` has three of the instructions under way at a time.

use super::sys::sum_by_instruction;
use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Up to so many bytes the instruction by itself is quicker: where bytes are folded, and where not. 256 B
/// take two CPUs of an EPYC (Zen 3) 24 ns, the crate 42; 1 KiB take 116 and 81.
const SHORT_BYTES: usize = 128;
const SHORT_UNFOLDED_BYTES: usize = 512;

/// Whether `crc-fast` folds as many bytes at a time as pays. 256 KiB take an EPYC (Zen 3) without AVX-512
/// 18 µs so and 12 with `crc32c`.
#[inline]
fn folds() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("vpclmulqdq") && std::arch::is_x86_feature_detected!("avx512vl")
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// The sum of bytes.
#[inline(always)]
pub(super) fn sum(bytes: &[u8]) -> u32 {
    if bytes.len() <= SHORT_BYTES
        && let Some(sum) = sum_by_instruction(bytes)
    {
        return sum;
    }
    sum_longer(bytes)
}

#[inline(never)]
fn sum_longer(bytes: &[u8]) -> u32 {
    if folds() {
        return crc32_iscsi(bytes);
    }
    let short = (bytes.len() <= SHORT_UNFOLDED_BYTES).then(|| sum_by_instruction(bytes)).flatten();
    short.unwrap_or_else(|| crc32c::crc32c(bytes))
}

/// The sum of bytes that come in pieces.
#[derive(Debug)]
pub(super) struct RunningSum {
    folded: Option<Digest>,
    /// Where nothing is folded.
    sum: u32,
}

impl RunningSum {
    pub(super) fn new() -> Self {
        Self::by_folding(folds())
    }

    fn by_folding(folds: bool) -> Self {
        Self { folded: folds.then(|| Digest::new(CrcAlgorithm::Crc32Iscsi)), sum: 0 }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        match &mut self.folded {
            Some(digest) => digest.update(bytes),
            None => self.sum = crc32c::crc32c_append(self.sum, bytes),
        }
    }

    pub(super) fn get(&self) -> u32 {
        self.folded.as_ref().map_or(self.sum, |digest| digest.finalize() as u32)
    }
}

/// The sum of two pieces, of which the second is almost always empty.
#[inline]
pub(super) fn sum_of(pieces: [&[u8]; 2]) -> u32 {
    if pieces[1].is_empty() {
        return sum(pieces[0]);
    }
    let mut running = RunningSum::new();
    pieces.iter().for_each(|piece| running.add(piece));
    running.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_of_pieces_is_the_sum_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..1_500), cut: proptest::sample::Index,
        ) {
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(sum_of([front, back]), sum(&bytes));
            prop_assert_eq!(sum_of([&bytes, &[]]), sum(&bytes));
        }
    }

    #[test]
    fn every_way_gives_the_same_sum() {
        let bytes: Vec<u8> = (0..3 * SHORT_UNFOLDED_BYTES).map(|at| (at * 37 + 11) as u8).collect();
        for length in 0..=bytes.len() {
            let bytes = &bytes[..length];
            let [folding, unfolded] = [true, false].map(|folds| {
                let mut running = RunningSum::by_folding(folds);
                running.add(bytes);
                running.get()
            });
            let ways = [crc32_iscsi(bytes), crc32c::crc32c(bytes), folding, unfolded];
            assert_eq!(ways, [sum(bytes); 4], "{length} bytes");
        }
    }

    #[test]
    fn the_sum_is_the_crc32c_of_rfc_3720() {
        // RFC 3720, appendix B.4.
        assert_eq!(sum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(sum(b"123456789"), 0xe306_9283);
    }
}
