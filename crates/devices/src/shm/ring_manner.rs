//! Whether a writer copies long payloads through its caches or past them.
//!
//! Between cores of one cache the first is quicker, between others the second, by far
//! ([`Processor`](crate::shm::processor::Processor)). Which of them a peer's core is no system says that runs
//! in a virtual machine, and it changes where ranks are not bound. So now and then a few packets go each way
//! and are timed, less often as long as nothing changes. The writer's time is all that is seen here, and what
//! goes past the caches takes the reader longer. 4 KiB take the writer some 0.2 µs through the caches
//! between near cores, 1.0 between far ones, and 0.17 past the caches: the ratio says which cores these are.

use std::time::Duration;

/// What a trial's packets are, the first one last: such that lengths that alternate meet both.
const STREAMED: u32 = 0b1001_0110;
const TRIAL_PACKETS: u32 = 8;
const _: () = assert!(STREAMED.count_ones() * 2 == TRIAL_PACKETS);

/// Packets between two trials.
const INTERVAL_MIN: u32 = 16;
const INTERVAL_MAX: u32 = 1024;

/// A writer's trials.
pub(super) struct Trials {
    may_stream: bool,
    streams: bool,
    /// A trial has ended.
    has_tried: bool,
    /// Packets until the next trial, and of this trial.
    waiting: u32,
    trying: u32,
    interval: u32,
    /// Least times of this trial through the caches and past them, in ns for 1024 lines.
    least: [u64; 2],
}

impl Trials {
    pub(super) fn new(may_stream: bool) -> Self {
        Self {
            may_stream,
            streams: false,
            has_tried: false,
            waiting: 0,
            trying: TRIAL_PACKETS,
            interval: INTERVAL_MIN,
            least: [u64::MAX; 2],
        }
    }

    /// Whether packets go past the caches outside of trials.
    #[inline]
    pub(super) fn streams(&self) -> bool {
        self.streams
    }

    /// Whether lines which the reader has read are written over quickly. `None`: a trial will show.
    pub(super) fn are_near(&self) -> Option<bool> {
        if self.may_stream && !self.has_tried { None } else { Some(self.has_tried && !self.streams) }
    }

    /// Whether the next packet is one of a trial.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.may_stream && self.waiting == 0
    }

    /// Whether the next packet goes past the caches, and whether it is one of a trial, of which
    /// [`learn`](Self::learn) is to hear.
    #[inline]
    pub(super) fn next(&mut self) -> (bool, bool) {
        if !self.may_stream {
            return (false, false);
        }
        if self.waiting > 0 {
            self.waiting -= 1;
            return (self.streams, false);
        }
        (STREAMED >> (self.trying - 1) & 1 != 0, true)
    }

    /// What a packet of so many lines took; `None`: it was not one of a trial.
    #[inline]
    pub(super) fn learn(&mut self, is_streamed: bool, lines_count: usize, time: Option<Duration>) {
        if let Some(time) = time {
            self.learn_trial(is_streamed, lines_count, time);
        }
    }

    #[cold]
    fn learn_trial(&mut self, is_streamed: bool, lines_count: usize, time: Duration) {
        let each = (time.as_nanos() as u64).saturating_mul(1024) / lines_count.max(1) as u64;
        let least = &mut self.least[usize::from(is_streamed)];
        *least = each.min(*least);
        self.trying -= 1;
        let [through, past] = self.least;
        // What is far from a change needs no more packets: the other way may take eight times as long.
        let is_clear = match self.streams {
            true => through != u64::MAX && through / 4 > past,
            false => past != u64::MAX && through < past + past / 2,
        };
        if self.trying > 0 && !is_clear {
            return;
        }
        self.has_tried = true;
        // Twice to two and a half times as long: what is held stays.
        let is_quicker = through / 2 > past + if self.streams { 0 } else { past / 4 };
        if is_quicker == self.streams {
            self.interval = (2 * self.interval).min(INTERVAL_MAX);
        } else {
            (self.streams, self.interval) = (is_quicker, INTERVAL_MIN);
        }
        (self.waiting, self.trying, self.least) = (self.interval, TRIAL_PACKETS, [u64::MAX; 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends so many packets, which take so many ns a line by either way; how many were streamed, and how
    /// many were timed.
    fn send(trials: &mut Trials, count: u32, nanos: [u64; 2]) -> (u32, u32) {
        let (mut streamed_count, mut timed_count) = (0, 0);
        for packet in 0..count {
            let (is_streamed, is_trial) = trials.next();
            streamed_count += u32::from(is_streamed);
            timed_count += u32::from(is_trial);
            let lines_count = [64, 1024][packet as usize % 2];
            let time = Duration::from_nanos(nanos[usize::from(is_streamed)] * lines_count as u64);
            trials.learn(is_streamed, lines_count, is_trial.then_some(time));
        }
        (streamed_count, timed_count)
    }

    #[test]
    fn the_better_way_is_held_and_a_change_is_noticed() {
        let mut trials = Trials::new(true);
        assert!(trials.is_due() && trials.are_near().is_none(), "nothing is known");
        assert_eq!(send(&mut trials, TRIAL_PACKETS, [40, 5]), (4, 8), "both are tried first");
        assert!(!trials.is_due() && !Trials::new(false).is_due());
        assert!(trials.streams() && trials.are_near() == Some(false));
        let (streamed_count, timed_count) = send(&mut trials, 10_000, [40, 5]);
        assert!(streamed_count > 9_900 && timed_count < 200, "{streamed_count} {timed_count}");
        let slow_count = 10_000 - streamed_count;
        assert!(
            slow_count <= timed_count / 2 && timed_count <= 30,
            "one each tells: {slow_count} {timed_count}"
        );
        // Not so much quicker.
        send(&mut trials, 2 * INTERVAL_MAX, [22, 10]);
        assert!(trials.streams());
        // The peer has moved to a nearer core.
        let (streamed_count, _) = send(&mut trials, 2 * INTERVAL_MAX, [8, 5]);
        assert!(trials.are_near() == Some(true) && streamed_count < INTERVAL_MAX + 20, "{streamed_count}");
        send(&mut trials, 2 * INTERVAL_MAX, [22, 10]);
        assert!(!trials.streams(), "what is held stays");
    }

    #[test]
    fn times_are_compared_by_the_line() {
        let mut trials = Trials::new(true);
        for _ in 0..TRIAL_PACKETS {
            let (is_streamed, is_trial) = trials.next();
            // Those past the caches are longer, and take a quarter of the time for each line.
            let (lines_count, nanos) = if is_streamed { (1024, 10 * 1024) } else { (64, 40 * 64) };
            trials.learn(is_streamed, lines_count, is_trial.then(|| Duration::from_nanos(nanos)));
        }
        assert!(trials.streams());
    }

    #[test]
    fn nothing_is_timed_where_nothing_is_to_choose() {
        let mut trials = Trials::new(false);
        assert_eq!(send(&mut trials, 1000, [40, 5]), (0, 0));
        assert_eq!(trials.are_near(), Some(false), "nor known");
    }
}
