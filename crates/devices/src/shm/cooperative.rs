//! Cooperative copies: a long get that two processes make together.
//!
//! The kernel copies between two processes with one processor, and a sender that waits in MPI has another
//! one to spare. So the rank that gets (the *reader*) offers pieces: it copies from the front, and the
//! *helper*, whose memory is read, from the end, into the reader's memory. Whoever is late takes fewer, and a
//! helper that never looks takes none.
//!
//! ```text
//! reader:  describe, open pieces, ask -> take the first, copy ... -> none left -> all reported? done
//! helper:  poll, in a call that waits -> take the last, copy, report ... -> none left
//! ```
//!
//! A rank makes one such copy at a time, described in its own [`Control`](super::segment::Control). Pieces
//! are taken by one compare-and-swap of a word that also has the copy's number, so a helper that comes late
//! takes nothing of a later copy. A description is changed only when no piece is left, so one from which a
//! piece was taken was read whole.

use ayatori_core::device::Token;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::io;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A peer that never helps is asked for one copy in so many.
const INTERVAL_MAX: u32 = 64;

/// What a rank gets together with another one.
#[repr(C, align(128))]
pub(crate) struct Copy {
    /// [`Pieces`].
    pub(super) pieces: AtomicU64,
    /// The local rank that may help.
    pub(super) helper: AtomicU32,
    /// Where the bytes are in the helper's memory, where they go in the reader's, how many they are, and how
    /// many a piece has.
    about: [AtomicU64; 4],
    pub(super) helped: Helped,
}

/// What the helper has done: how many pieces, and [`FAILED`].
#[repr(C, align(128))]
pub(super) struct Helped(pub(super) AtomicU32);

/// The kernel refused the last piece that the helper took.
const FAILED: u32 = 1 << 31;

/// Pieces that nobody has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pieces {
    /// The copy's number.
    number: u32,
    first: u16,
    end: u16,
}

impl Pieces {
    fn of(word: u64) -> Self {
        Self { number: (word >> 32) as u32, first: (word >> 16) as u16, end: word as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.first) << 16 | u64::from(self.end)
    }
}

impl Copy {
    /// Takes the first piece that is left.
    pub(super) fn take(&self) -> Option<usize> {
        let mut word = self.pieces.load(Ordering::Relaxed);
        loop {
            let pieces = Pieces::of(word);
            if pieces.first >= pieces.end {
                return None;
            }
            let left = Pieces { first: pieces.first + 1, ..pieces };
            match self.pieces.compare_exchange(word, left.word(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(usize::from(pieces.first)),
                Err(now) => word = now,
            }
        }
    }

    /// Describes a copy and opens its pieces. Returns its number.
    pub(super) fn open(&self, helper: u32, about: [u64; 4], count: u16) -> u32 {
        let number = Pieces::of(self.pieces.load(Ordering::Relaxed)).number.wrapping_add(1);
        self.helped.0.store(0, Ordering::Relaxed);
        self.helper.store(helper, Ordering::Relaxed);
        for (word, value) in self.about.iter().zip(about) {
            word.store(value, Ordering::Relaxed);
        }
        self.pieces.store(Pieces { number, first: 0, end: count }.word(), Ordering::Release);
        number
    }

    /// What the helper has reported of a copy in `count` pieces of which none is left; `None`: not all.
    pub(super) fn reported(&self, count: u32) -> Option<Reported> {
        let end = u32::from(Pieces::of(self.pieces.load(Ordering::Relaxed)).end);
        let helped = self.helped.0.load(Ordering::Acquire);
        let (taken_count, is_refused) = (count.saturating_sub(end), helped & FAILED != 0);
        let ended_count = (helped & !FAILED) + u32::from(is_refused);
        (ended_count >= taken_count).then_some(Reported { taken_count, is_refused })
    }

    /// Copies what it can of a peer's get, by `write`: from this rank's memory at the first address, to the
    /// peer's at the second, so many bytes.
    pub(super) fn help(&self, me: u32, mut write: impl FnMut(u64, u64, usize) -> io::Result<()>) {
        loop {
            let word = self.pieces.load(Ordering::Acquire);
            let pieces = Pieces::of(word);
            let [from, to, len, piece_bytes] =
                std::array::from_fn(|which| self.about[which].load(Ordering::Relaxed));
            if pieces.first >= pieces.end || self.helper.load(Ordering::Relaxed) != me {
                return;
            }
            let left = Pieces { end: pieces.end - 1, ..pieces };
            // That it succeeds says that what was read above is of this copy.
            let taken = self.pieces.compare_exchange(word, left.word(), Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            let at = u64::from(left.end).saturating_mul(piece_bytes).min(len);
            let bytes = piece_bytes.min(len - at) as usize;
            if write(from.wrapping_add(at), to.wrapping_add(at), bytes).is_err() {
                self.helped.0.fetch_or(FAILED, Ordering::Release);
                return;
            }
            self.helped.0.fetch_add(1, Ordering::Release);
        }
    }
}

/// What came of the pieces that the helper took.
pub(super) struct Reported {
    pub(super) taken_count: u32,
    /// The kernel refused the last of them.
    pub(super) is_refused: bool,
}

/// Whether, and how often, a peer is asked to help.
pub(super) struct Habit {
    /// One copy in so many; 0: never.
    interval: u32,
    /// Copies until the next question.
    left: u32,
}

impl Habit {
    pub(super) fn new(may_help: bool) -> Self {
        Self { interval: u32::from(may_help), left: 0 }
    }

    /// Whether to ask for this copy.
    pub(super) fn is_due(&mut self) -> bool {
        if self.interval == 0 || self.left > 0 {
            self.left = self.left.saturating_sub(1);
            return false;
        }
        self.left = self.interval - 1;
        true
    }

    /// Whether the peer helped when it was asked.
    pub(super) fn note(&mut self, has_helped: bool) {
        self.interval = if has_helped { 1 } else { (2 * self.interval).min(INTERVAL_MAX) };
        self.left = self.interval - 1;
    }

    pub(super) fn never_again(&mut self) {
        self.interval = 0;
    }
}

/// A get of which the helper still copies a piece.
pub(super) struct Awaited {
    pub(super) token: Token,
    pub(super) helper: u32,
    /// How many pieces it has in all.
    pub(super) count: u32,
    /// This rank could copy its own pieces.
    pub(super) is_sound: bool,
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const HELPER: u32 = 1;
    const PIECES_MAX: usize = 2;
    /// The kernel refuses to write there, and further on.
    const FORBIDDEN: u64 = 1000;

    /// A rank's words, and one of its memory for each piece: loom may show an old value of what no order of
    /// the copy's words hands over.
    struct Reader {
        copy: Copy,
        memory: [AtomicU64; PIECES_MAX],
    }

    impl Reader {
        fn new() -> Arc<Self> {
            let copy = Copy {
                pieces: AtomicU64::new(0),
                helper: AtomicU32::new(0),
                about: std::array::from_fn(|_| AtomicU64::new(0)),
                helped: Helped(AtomicU32::new(0)),
            };
            Arc::new(Self { copy, memory: std::array::from_fn(|_| AtomicU64::new(0)) })
        }

        fn put(&self, piece: usize, value: u64) {
            self.memory[piece].store(value, Ordering::Relaxed);
        }

        /// Gets so many pieces of one byte, from memory whose bytes are `from` and on.
        fn get(&self, from: u64, to: u64, count: u16) {
            self.copy.open(HELPER, [from, to, u64::from(count), 1], count);
            while let Some(piece) = self.copy.take() {
                self.put(piece, from + piece as u64);
            }
            let reported = loop {
                match self.copy.reported(u32::from(count)) {
                    Some(reported) => break reported,
                    None => thread::yield_now(),
                }
            };
            if reported.is_refused {
                let piece = usize::from(count) - reported.taken_count as usize;
                self.put(piece, from + piece as u64);
            }
            for piece in 0..usize::from(count) {
                assert_eq!(self.memory[piece].load(Ordering::Relaxed), from + piece as u64, "piece {piece}");
            }
        }

        fn help(&self) {
            self.copy.help(HELPER, |from, to, bytes| {
                assert_eq!(bytes, 1);
                if to >= FORBIDDEN {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                self.put(to as usize, from);
                Ok(())
            });
        }
    }

    fn model(check: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(check);
    }

    /// A helper that is late for one copy takes no piece of it, and none of the next by its description.
    #[test]
    fn loom_pieces_are_copied_once_and_by_their_own_description() {
        model(|| {
            let reader = Reader::new();
            let helper = reader.clone();
            let other = thread::spawn(move || (0..2).for_each(|_| helper.help()));
            reader.get(100, 0, 2);
            reader.get(200, 0, 2);
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_piece_that_is_refused_is_known_to_its_reader() {
        model(|| {
            let reader = Reader::new();
            let helper = reader.clone();
            let other = thread::spawn(move || helper.help());
            reader.get(100, FORBIDDEN, 2);
            other.join().unwrap();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_that_does_not_help_is_asked_less_and_less() {
        let mut habit = Habit::new(true);
        let asked: Vec<u32> = (0..200)
            .filter(|_| {
                let is_due = habit.is_due();
                if is_due {
                    habit.note(false);
                }
                is_due
            })
            .collect();
        assert_eq!(asked, [0, 2, 6, 14, 30, 62, 126, 190]);
        habit.note(true);
        assert!((0..10).all(|_| habit.is_due()), "one that has helped is asked each time");
        assert!(!Habit::new(false).is_due());
    }
}
