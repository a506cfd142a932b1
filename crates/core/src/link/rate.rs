//! Rate at which a rail completes its data: a measurement, not a promise.
//!
//! The time between two acknowledgements is the time of the bytes of the second, if those were already in
//! flight when the first came: then the rail had no pause. Such bytes and times are summed over the last
//! [`MEMORY`] of busy time; their quotient is the rate. So late and batched acknowledgements do no harm, and
//! an idle rail does not count as slow.
//!
//! A rail that was measured slow, or whose round trips were long, gets no data any more if the others finish
//! all of it sooner. Then it is not measured again, even if the cause was temporary (this process had no CPU
//! for a while). So while the others work, its assumed rate rises and its assumed latency falls until it gets
//! data, and only that data then determines both.

use crate::time::{Duration, Instant};

/// Busy time that is remembered: a new rate is known to 5 % after three times as much.
const MEMORY: Duration = Duration::from_ms(40);
/// Least busy time after which the quotient is trusted.
const BELIEVED: Duration = Duration::from_us(500);

/// Bytes without a pause that suffice to measure a rail's rate.
pub(super) const RUN_BYTES: u64 = 16 << 10;

/// Busy time of other rails in which a rail was not measured: after that its rate is taken for twice as high,
/// its round trip for half as long.
const DOUBTED_AFTER: Duration = Duration::from_ms(500);

/// An operation of at least this many bytes takes much longer than its latency.
const LONG_BYTES: u64 = 64 << 10;

/// Operations end together when less than this part of an operation's time is between them.
const TOGETHER: u64 = 64;

/// The measurement of one rail.
#[derive(Default, Debug)]
pub(super) struct RateMeter {
    busy_bytes: u64,
    busy: Duration,
    /// Since the last pause, and not counted yet.
    run_bytes: u64,
    run: Duration,
    said_bytes_per_s: u64,
    /// The stated rate, then the measured one once it is trusted.
    pub(super) bytes_per_s: u64,
    /// The rate is higher, or the round trip shorter, than was measured, for that was long ago.
    pub(super) is_doubted: bool,
    /// Busy time of other rails since this one was measured.
    others_busy: Duration,
    /// Busy time not yet reported to the other rails.
    pub(super) untold: Duration,
    /// The last acknowledgement, or when the rail was given something after a pause.
    last_at: Instant,
    said_rtt: Duration,
    pub(super) rtt: Duration,
    pub(super) rtt_min: Duration,
    /// Whether a round trip was measured on this connection: a new one may take another path.
    pub(super) has_rtt: bool,
}

impl RateMeter {
    /// For a rail with a stated rate and latency.
    pub(super) fn new(said_bytes_per_s: u64, latency_ps: u64) -> Self {
        let rtt = Duration(latency_ps.saturating_mul(2));
        let bytes_per_s = said_bytes_per_s.max(1);
        Self { said_bytes_per_s, bytes_per_s, said_rtt: rtt, rtt, rtt_min: rtt, ..Self::default() }
    }

    /// Something is given to an idle rail.
    pub(super) fn on_idle_end(&mut self, now: Instant) {
        self.last_at = now;
        (self.run_bytes, self.run) = (0, Duration::ZERO);
    }

    /// `bytes`, the latest of them sent at `sent_at`, are acknowledged together. On a doubted rail the first
    /// ones after a pause count, too, with their latency.
    pub(super) fn on_acknowledged(&mut self, bytes: u64, sent_at: Instant, now: Instant) {
        if sent_at < self.last_at || self.is_doubted {
            self.add_to_run(bytes, now.since(self.last_at.max(sent_at)));
            self.conclude();
        }
        self.last_at = now;
    }

    fn add_to_run(&mut self, bytes: u64, took: Duration) {
        self.run_bytes += bytes;
        self.run = self.run + took;
        if self.run_bytes < RUN_BYTES {
            return;
        }
        if self.is_doubted {
            (self.busy_bytes, self.busy, self.is_doubted) = (0, Duration::ZERO, false);
        }
        self.busy_bytes += self.run_bytes;
        self.busy = self.busy + self.run;
        self.untold = self.untold + self.run;
        self.others_busy = Duration::ZERO;
        (self.run_bytes, self.run) = (0, Duration::ZERO);
    }

    /// Another rail was busy for `time`.
    pub(super) fn on_others_busy(&mut self, time: Duration) {
        let (is_slow, is_late) = (self.bytes_per_s < self.said_bytes_per_s, self.rtt_min > self.said_rtt);
        if !is_slow && !is_late {
            return;
        }
        self.others_busy = self.others_busy + time;
        if self.others_busy < DOUBTED_AFTER {
            return;
        }
        self.others_busy = Duration::ZERO;
        self.is_doubted = true;
        if is_slow {
            self.bytes_per_s = self.bytes_per_s.saturating_mul(2).min(self.said_bytes_per_s);
        } else {
            self.rtt_min = Duration((self.rtt_min.0 / 2).max(self.said_rtt.0));
            // The time of the next one counts.
            self.has_rtt = false;
        }
    }

    /// A put or get of `bytes`, begun at `sent_at`, has ended; `is_last`: no other is under way. A NIC may
    /// carry several side by side, so that all end together: without the time of the first, the others would
    /// seem to take none; and no rate is computed before all of them are counted.
    pub(super) fn on_operation_end(&mut self, bytes: u64, sent_at: Instant, is_last: bool, now: Instant) {
        if now.since(self.last_at).0 > now.since(sent_at).0 / TOGETHER {
            self.conclude();
        }
        if sent_at < self.last_at || bytes >= LONG_BYTES || self.is_doubted {
            self.add_to_run(bytes, now.since(self.last_at.max(sent_at)));
        }
        self.last_at = now;
        if is_last {
            self.conclude();
        }
    }

    /// Here, not where the rate is asked for: that is once for every short message.
    fn conclude(&mut self) {
        if self.is_doubted {
            return;
        }
        if self.busy > MEMORY {
            let scaled = u128::from(self.busy_bytes) * u128::from(MEMORY.0) / u128::from(self.busy.0);
            (self.busy_bytes, self.busy) = (scaled as u64, MEMORY);
        }
        if let Some(bytes_per_s) = self.measured_bytes_per_s() {
            self.bytes_per_s = bytes_per_s;
        }
    }

    /// The last measurement, independent of the current estimate; `None`: none that is trusted.
    pub(super) fn measured_bytes_per_s(&self) -> Option<u64> {
        let rate = u128::from(self.busy_bytes) * 1_000_000_000_000;
        self.is_measured().then(|| (rate / u128::from(self.busy.0)).clamp(1, u64::MAX.into()) as u64)
    }

    /// A round trip without what the other side waited. One that took no time is none: this side's clock was
    /// read before the packet went or the answer came.
    pub(super) fn on_round_trip(&mut self, rtt: Duration) {
        if rtt == Duration::ZERO {
            return;
        }
        self.rtt = if self.has_rtt { Duration(self.rtt.0 - self.rtt.0 / 8 + rtt.0 / 8) } else { rtt };
        // It never rises while a connection lasts: a rail under load does not show its least, and taken for
        // longer than it is, it would be given more to do, and show more still, until queues on the way
        // overflow.
        if rtt < self.rtt_min || !self.has_rtt {
            self.rtt_min = rtt;
        }
        self.has_rtt = true;
    }

    pub(super) fn is_measured(&self) -> bool {
        self.busy >= BELIEVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn ms(ms: u64) -> Instant {
        us(1_000 * ms)
    }

    /// A rail with a queue: packets of 64 KiB, `depth` under way, a rate that changes at the half,
    /// acknowledgements that come in heaps.
    fn run(rates: [u64; 2], depth: usize, heap: usize, said: u64) -> [u64; 2] {
        let (bytes, latency) = (64u64 << 10, Duration::from_us(100));
        let mut meter = RateMeter::new(said, latency.0);
        let mut results = [0; 2];
        let (mut now, mut free) = (Instant(5_000_000_000), Instant::ZERO);
        let mut under_way: VecDeque<(Instant, Instant)> = VecDeque::new();
        for step in 0..400 * depth {
            let rate = rates[step / (200 * depth)];
            while under_way.len() < depth {
                if under_way.is_empty() {
                    meter.on_idle_end(now);
                }
                free = free.max(now) + Duration(bytes * 1_000_000_000_000 / rate);
                under_way.push_back((free + latency + latency, now));
            }
            for index in 0..heap.min(depth) {
                let (at, sent_at) = under_way.pop_front().unwrap();
                now = now.max(at);
                if index + 1 == heap.min(depth) {
                    meter.on_acknowledged(bytes * (index as u64 + 1), sent_at, now);
                }
            }
            results[step / (200 * depth)] = meter.bytes_per_s;
        }
        results
    }

    #[test]
    fn a_busy_rail_is_measured_and_followed() {
        for rates in [[250_000_000, 62_500_000], [62_500_000, 250_000_000]] {
            for said in [1_000, 125_000_000, 10_000_000_000] {
                for heap in [1, 3] {
                    for (found, real) in run(rates, 8, heap, said).into_iter().zip(rates) {
                        assert!(found.abs_diff(real) * 20 < real, "{found} for {real}");
                    }
                }
            }
        }
    }

    #[test]
    fn operations_that_end_together_are_not_taken_for_fast() {
        let (bytes, rate) = (512u64 << 10, 1_500_000_000);
        for side_by_side in [1, 2, 20] {
            let mut meter = RateMeter::new(2_000_000_000, 1_000_000);
            let mut now = Instant(1_000_000_000);
            for _ in 0..10 {
                let begin = now;
                meter.on_idle_end(begin);
                now = begin + Duration(side_by_side * bytes * 1_000_000_000_000 / rate);
                for index in (0..side_by_side).rev() {
                    meter.on_operation_end(bytes, begin, index == 0, Instant(now.0 - index * 1_000_000));
                }
            }
            let found = meter.bytes_per_s;
            assert!(found.abs_diff(rate) * 20 < rate, "{found} with {side_by_side} side by side");
        }
    }

    #[test]
    fn old_measurement_is_doubted_until_one_piece_renews_it() {
        let (said, bytes) = (1_000_000_000, 64 << 10);
        let mut meter = RateMeter::new(said, 1_000_000);
        meter.on_idle_end(Instant(1_000_000));
        // A second without a CPU.
        meter.on_acknowledged(bytes, Instant(0), Instant(1_000_001_000_000));
        let slow = meter.bytes_per_s;
        assert!(slow < 100_000);
        assert_eq!(meter.untold, Duration::from_ms(1_000));
        for _ in 0..4 {
            meter.on_others_busy(Duration(DOUBTED_AFTER.0 / 2));
        }
        assert_eq!(meter.bytes_per_s, 4 * slow);
        // Less than a piece measures nothing; a whole one measures 50 MB/s.
        let at = |time| us(2_000_000 + time);
        meter.on_idle_end(at(0));
        meter.on_acknowledged(RUN_BYTES - 1, at(0), at(900));
        assert_eq!(meter.bytes_per_s, 4 * slow);
        meter.on_idle_end(at(1_000));
        meter.on_acknowledged(bytes, at(1_000), at(1_000 + bytes / 50));
        assert!(meter.bytes_per_s.abs_diff(50_000_000) < 100_000, "{}", meter.bytes_per_s);
        // One that is as slow as it was measured is taken for that again.
        (0..20).for_each(|_| meter.on_others_busy(DOUBTED_AFTER));
        assert_eq!(meter.bytes_per_s, said, "never faster than is said");
        meter.on_idle_end(at(10_000));
        meter.on_acknowledged(bytes, at(10_000), at(10_000 + bytes));
        assert!(meter.bytes_per_s.abs_diff(1_000_000) < 10_000);
        meter.on_others_busy(Duration(DOUBTED_AFTER.0 - 1));
        meter.on_operation_end(bytes, at(90_000), true, at(90_000 + bytes));
        meter.on_others_busy(Duration(DOUBTED_AFTER.0 - 1));
        assert!(meter.bytes_per_s < 1_100_000, "it was measured in between");
    }

    #[test]
    fn long_round_trip_is_doubted_while_others_work_next_one_counts() {
        let mut meter = RateMeter::new(7_000, 10);
        meter.on_round_trip(Duration(800));
        (0..3).for_each(|_| meter.on_others_busy(DOUBTED_AFTER));
        assert_eq!((meter.rtt_min, meter.is_doubted, meter.bytes_per_s), (Duration(100), true, 7_000));
        (0..5).for_each(|_| meter.on_others_busy(DOUBTED_AFTER));
        assert_eq!(meter.rtt_min, Duration(20));
        meter.on_round_trip(Duration(700));
        assert_eq!((meter.rtt, meter.rtt_min), (Duration(700), Duration(700)));
    }

    #[test]
    fn an_idle_rail_is_not_taken_for_slow() {
        assert_eq!(run([62_500_000; 2], 1, 1, 250_000_000), [250_000_000; 2]);
    }

    #[test]
    fn before_anything_is_measured_it_is_as_was_said() {
        let mut meter = RateMeter::new(7_000, 10);
        assert_eq!((meter.bytes_per_s, meter.is_measured()), (7_000, false));
        assert_eq!((meter.rtt, meter.rtt_min), (Duration(20), Duration(20)));
        meter.on_others_busy(Duration(2 * DOUBTED_AFTER.0));
        assert!(!meter.is_doubted);
        // The slowest rail has a rate that can rise.
        assert_eq!(RateMeter::new(0, u64::MAX).bytes_per_s, 1);
        meter.on_idle_end(Instant(1));
        meter.on_acknowledged(RUN_BYTES, Instant::ZERO, Instant(1) + Duration::from_s(2_000));
        assert_eq!(meter.bytes_per_s, 1);
        meter.on_others_busy(DOUBTED_AFTER);
        assert_eq!(meter.bytes_per_s, 2);
    }

    #[test]
    fn the_first_round_trip_counts_whole_and_later_ones_an_eighth() {
        let mut meter = RateMeter::new(7_000, 10);
        for (round_trip, rtt, rtt_min) in [(800, 800, 800), (1_600, 900, 800), (80, 798, 80), (0, 798, 80)] {
            meter.on_round_trip(Duration(round_trip));
            assert_eq!((meter.rtt.0, meter.rtt_min.0), (rtt, rtt_min), "{round_trip}");
        }
        meter.has_rtt = false;
        meter.on_round_trip(Duration(400));
        assert_eq!((meter.rtt, meter.rtt_min), (Duration(400), Duration(400)));
    }

    #[test]
    fn short_packets_between_pauses_say_nothing_of_the_rate() {
        for is_doubted in [false, true] {
            let mut meter = RateMeter::new(1_000_000_000, 1_000_000);
            meter.is_doubted = is_doubted;
            for turn in (1..10).map(|number| number * 10_000) {
                meter.on_idle_end(us(turn));
                (1..5).for_each(|number| meter.on_acknowledged(64, us(turn), us(turn + 900 * number)));
            }
            assert_eq!((meter.bytes_per_s, meter.is_measured()), (1_000_000_000, false));
            assert_eq!(meter.is_doubted, is_doubted);
            // As many as a long packet has, one behind the other.
            meter.on_idle_end(us(100_000));
            (1..258).for_each(|number| meter.on_acknowledged(64, us(100_000), us(100_000 + 20 * number)));
            assert!(meter.bytes_per_s.abs_diff(3_200_000) < 20_000, "{}", meter.bytes_per_s);
            assert!(!meter.is_doubted);
        }
    }

    #[test]
    fn only_bytes_without_a_pause_before_them_are_counted() {
        let mut meter = RateMeter::new(7_000, 10);
        meter.on_idle_end(ms(1));
        // Sent after the last acknowledgement: the rail had a pause.
        meter.on_acknowledged(1_000, ms(2), ms(3));
        assert!(!meter.is_measured());
        // 4 MB in 2 ms.
        meter.on_acknowledged(4_000_000, ms(2), ms(5));
        assert_eq!((meter.is_measured(), meter.bytes_per_s), (true, 2_000_000_000));
        // 400 ms at a fourth: what is remembered is 40 ms.
        meter.on_acknowledged(200_000_000, ms(4), ms(405));
        assert_eq!((meter.busy, meter.busy_bytes), (MEMORY, 204_000_000 * 40 / 402));
        assert_eq!(meter.bytes_per_s, meter.busy_bytes * 25);
    }

    #[test]
    fn a_rail_with_operations_always_under_way_is_measured() {
        let mut meter = RateMeter::new(7_000, 10);
        meter.on_idle_end(ms(1));
        (2..12).for_each(|at| meter.on_operation_end(1 << 20, ms(at - 1), false, ms(at)));
        assert_eq!(meter.bytes_per_s, (1 << 20) * 1_000);
    }
}
