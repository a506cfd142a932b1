//! What those who compare two ways have in common: the way held, when it is compared, and times.
//!
//! Where messages go both ways, what one process chooses takes the other's time, too: packets that come
//! leave less of the caches for what is got. One that compares alone does not see what both would have. So
//! comparisons begin at multiples of a power of two of messages, which two processes that exchange as many
//! reach together, and whoever compares seldom does so only where one who compares often does, too.

use super::choose::Way;
use crate::time::Duration;

/// Messages from comparison to comparison, at most; and where the other way takes twice as long.
pub(super) const PAUSE_MAX: u32 = 256;
pub(super) const PAUSE_FAR: u32 = 512;
/// Messages after a comparison before the next one.
const REST_COUNT: u32 = 4;
/// How many times as long a pause is as the one before, where the other way was not quicker.
const LONGER_FACTOR: u32 = 4;
const _: () = assert!(PAUSE_MAX.is_power_of_two() && PAUSE_FAR.is_power_of_two());
const _: () = assert!(LONGER_FACTOR.is_power_of_two());

/// The first messages by a way do not count, for they find the caches as the other way has left them: with
/// the kernel's copies of 32 KiB the second and the third took 4.8 µs, and later ones 3.4.
pub(super) const LEFT_OUT_COUNT: u32 = 3;
/// Times of a way that are kept, the last ones.
pub(super) const TIMES_COUNT: usize = 3;
/// A way is quicker if it is shorter by at least one of this many parts.
const GAIN_MIN_PARTS: u32 = 16;

/// The class of messages of this length: up to `first_bytes`, a power of two; up to twice that; and so on to
/// the last, which has all that are longer.
pub(super) fn class_of(length_bytes: u64, first_bytes: u64, classes_count: usize) -> usize {
    let bits = (length_bytes.saturating_sub(1) / first_bytes).checked_ilog2().map_or(0, |bits| bits + 1);
    (bits as usize).min(classes_count - 1)
}

/// The way that messages of similar length go, counted until it is compared with another one.
pub(super) struct Held {
    pub(super) way: Way,
    pub(super) other: Way,
    /// Messages so far; wraps.
    count: u32,
    /// At the end of the last comparison.
    ended_at: u32,
    /// The next one begins at a multiple of so many, a power of two.
    pause: u32,
}

impl Held {
    pub(super) const fn new([way, other]: [Way; 2], pause: u32) -> Self {
        assert!(pause.is_power_of_two());
        Self { way, other, count: 0, ended_at: 0, pause }
    }

    /// Whether no message was counted.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        self.count == 0
    }

    /// New messages begin with the way of shorter ones.
    #[inline]
    pub(super) fn begin_as(&mut self, shorter: &Self) {
        if self.is_new() {
            (self.way, self.other) = (shorter.way, shorter.other);
        }
    }

    /// Whether a comparison begins with the next message, if none is under way.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.since_last() >= REST_COUNT && self.count.is_multiple_of(self.pause)
    }

    #[inline]
    pub(super) fn count_one(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    /// Messages since the last comparison.
    pub(super) fn since_last(&self) -> u32 {
        self.count.wrapping_sub(self.ended_at)
    }

    pub(super) fn pause(&self) -> u32 {
        self.pause
    }

    /// A comparison is over, and the next one begins at a multiple of so many messages.
    pub(super) fn end(&mut self, pause: u32) {
        self.ended_at = self.count;
        self.pause = pause;
    }

    /// The same after both ways were measured; where that `changes` the way held, at a multiple of
    /// `pause_changed`, and where the other one takes twice as long, of at most `pause_far`.
    pub(super) fn end_measured(
        &mut self,
        changes: bool,
        [held_ns, other_ns]: [u32; 2],
        [pause_far, pause_changed]: [u32; 2],
    ) {
        if changes {
            core::mem::swap(&mut self.way, &mut self.other);
            return self.end(pause_changed);
        }
        let most = if other_ns / 2 >= held_ns { pause_far } else { PAUSE_MAX };
        self.end((self.pause * LONGER_FACTOR).min(most));
    }

    /// The next comparison begins at a multiple of `pause` messages at the latest.
    pub(super) fn bring_forward(&mut self, pause: u32) {
        self.pause = self.pause.min(pause);
    }
}

/// The last times of a way, in ns.
#[derive(Default)]
pub(super) struct Times {
    last: [u32; TIMES_COUNT],
    count: usize,
}

impl Times {
    pub(super) fn add(&mut self, ns: u32) {
        self.last = [ns, self.last[0], self.last[1]];
        self.count = (self.count + 1).min(TIMES_COUNT);
    }

    /// Their median; `None`: there are too few.
    pub(super) fn median_ns(&self) -> Option<u32> {
        let [a, b, c] = self.last;
        (self.count == TIMES_COUNT).then(|| a.max(b).min(c).max(a.min(b)))
    }

    /// The least; `None`: there are none.
    pub(super) fn least_ns(&self) -> Option<u32> {
        self.last[..self.count].iter().copied().min()
    }
}

/// Whether the way that takes `ns` is to be held, and not the one that takes `than_ns`.
pub(super) fn is_quicker(ns: u32, than_ns: u32) -> bool {
    ns < than_ns - than_ns / GAIN_MIN_PARTS
}

/// A time in ns, at least 1.
pub(super) fn ns(time: Duration) -> u32 {
    u32::try_from(time.as_ps() / 1_000).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn who_compares_seldom_does_so_with_who_compares_often() {
        // Messages with which comparisons begin; each ends after ten.
        let begins = |pause| {
            let mut held = Held::new([Way::Stream, Way::Get], pause);
            let mut begins = Vec::new();
            for message in 0..1_024 {
                if held.is_due() && begins.last().is_none_or(|begin| begin + 10 <= message) {
                    begins.push(message);
                }
                held.count_one();
                if begins.last().is_some_and(|begin| begin + 9 == message) {
                    held.end(pause);
                }
            }
            begins
        };
        assert_eq!(begins(256), [256, 512, 768]);
        let often = begins(16);
        assert_eq!(often[..3], [16, 32, 48]);
        assert!(begins(256).iter().all(|message| often.contains(message)), "{often:?}");
        assert_eq!(begins(4)[..3], [4, 20, 36], "four messages at least are between two");
    }

    #[test]
    fn lengths_of_one_power_of_two_are_a_class() {
        for (length_bytes, classes) in [
            (0, [0, 0]),
            (1, [0, 0]),
            (8192, [0, 0]),
            (8193, [1, 0]),
            (16384, [1, 0]),
            (16385, [2, 1]),
            (65_536, [3, 2]),
            (65_537, [4, 3]),
            (1 << 20, [7, 3]),
            ((1 << 20) + 1, [8, 3]),
            (u64::MAX, [13, 3]),
        ] {
            let found = [class_of(length_bytes, 8192, 14), class_of(length_bytes, 16384, 4)];
            assert_eq!(found, classes, "{length_bytes}");
        }
    }
}
