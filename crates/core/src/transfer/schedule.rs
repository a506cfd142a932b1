//! When two ways are compared: at multiples of a power of two of messages.
//!
//! Where messages go both ways, what one process chooses takes the other's time, too: packets that come
//! leave less of the caches for what is got. One that compares alone does not see what both would have. So
//! comparisons begin at multiples of a power of two of messages, which two processes that exchange as many
//! reach together, and whoever compares seldom does so only where one who compares often does, too.

/// Messages from comparison to comparison, at most; and where the other way takes twice as long.
pub(super) const PAUSE_MAX: u32 = 256;
pub(super) const PAUSE_FAR_MAX: u32 = 512;
/// Messages after a comparison before the next one.
const REST_COUNT: u32 = 4;
/// How many times as long a pause is as the one before, where the other way was not quicker.
const LONGER_FACTOR: u32 = 4;
const _: () = assert!(PAUSE_MAX.is_power_of_two() && PAUSE_FAR_MAX.is_power_of_two());
const _: () = assert!(LONGER_FACTOR.is_power_of_two());

/// Counts messages.
pub(super) struct Schedule {
    /// So far; wraps.
    count: u32,
    /// At the end of the last comparison.
    ended_at: u32,
    /// The next one begins at a multiple of so many, a power of two.
    pause: u32,
}

impl Schedule {
    pub(super) const fn new(pause: u32) -> Self {
        assert!(pause.is_power_of_two());
        Self { count: 0, ended_at: 0, pause }
    }

    /// Whether no message was counted.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        self.count == 0
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

    /// The same where the other way was not quicker, by the times of both.
    pub(super) fn end_unchanged(&mut self, [other_ns, held_ns]: [u32; 2]) {
        let most = if other_ns / 2 >= held_ns { PAUSE_FAR_MAX } else { PAUSE_MAX };
        self.end((self.pause * LONGER_FACTOR).min(most));
    }

    /// The next comparison begins at a multiple of `pause` messages at the latest.
    pub(super) fn bring_forward(&mut self, pause: u32) {
        self.pause = self.pause.min(pause);
    }
}
