//! The words in the segment by which a rank publishes its current call. `watch.rs` writes and reads them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Longest answer in bytes.
pub(crate) const ANSWER_BYTES: usize = ayatori_core::explain::SNAPSHOT_BYTES_MAX;
/// Memory for the functions' names, in bytes; the first two words are its state and length.
pub(crate) const NAMES_BYTES: usize = 32 << 10;
pub(super) const NAMES_HEAD_WORDS: usize = 2;

/// What a rank writes at every call.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct CallWords {
    /// The function, from 1; 0: none.
    pub(super) call: AtomicU32,
    pub(super) calls_count: AtomicU32,
    /// An inquiry that is not answered.
    pub(super) asked: AtomicU32,
}

impl CallWords {
    /// Words that no asker reads.
    pub const fn nowhere() -> Self {
        Self { call: AtomicU32::new(0), calls_count: AtomicU32::new(0), asked: AtomicU32::new(0) }
    }

    /// The rank is in a function from now on.
    #[inline(always)]
    pub fn enter(&self, call: u32) {
        self.call.store(call, Ordering::Relaxed);
        // Only this process writes it; with threads that call at once some calls may go uncounted.
        self.calls_count.store(self.calls_count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// It is in none any more; also where the user's code was called back and has called MPI, for the rest of
    /// the outer call.
    #[inline(always)]
    pub fn leave(&self) {
        self.call.store(0, Ordering::Relaxed);
    }

    /// Whether an asker waits for an answer.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// The function the rank is in; 0: none.
    #[inline(always)]
    pub fn call(&self) -> u32 {
        self.call.load(Ordering::Relaxed)
    }

    /// How many it has called.
    pub fn calls_count(&self) -> u32 {
        self.calls_count.load(Ordering::Relaxed)
    }
}

/// Functions by their numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct CallSet([u64; 16]);

impl CallSet {
    /// # Panics
    /// For a number of 1024 or more.
    pub(super) fn of(calls: &[u32]) -> Self {
        let mut set = Self::default();
        for call in calls {
            set.0[(call / u64::BITS) as usize] |= 1 << (call % u64::BITS);
        }
        set
    }

    /// Whether it is there: no number that a peer writes is too long.
    #[inline]
    pub(super) fn contains(&self, call: u32) -> bool {
        self.0.get((call / u64::BITS) as usize).is_some_and(|word| word >> (call % u64::BITS) & 1 != 0)
    }
}

/// Fields of a rank that are seldom written.
#[repr(C, align(128))]
pub(crate) struct Told {
    /// Its index in the job, and 1.
    pub(super) process: AtomicU32,
    /// How many processes the job has; 0: not known.
    pub(super) world_count: AtomicU32,
    pub(super) inquiry: AtomicU32,
    pub(super) answered: AtomicU32,
    /// Odd while an answer is being written.
    pub(super) version: AtomicU32,
    pub(super) answer_bytes: AtomicU32,
    /// Call and count at the last look that found them changed, and the time of that look.
    pub(super) seen: AtomicU64,
    pub(super) seen_at_ms: AtomicU64,
}

impl Told {
    /// Which process the rank is.
    pub(crate) fn introduce(&self, process: u32) {
        self.process.store(process + 1, Ordering::Relaxed);
    }
}

/// Bytes in the segment that are read while they may be written.
pub(crate) struct Words(pub(crate) &'static [AtomicU64]);

impl Words {
    /// As many of the bytes as there is room for.
    pub(super) fn write(&self, bytes: &[u8]) {
        for (word, chunk) in self.0.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, len: usize) -> Vec<u8> {
        let words = self.0.iter().take(len.div_ceil(8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}
