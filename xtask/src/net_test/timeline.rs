//! What a stream brought, and when: the `AT` lines of `tests/net/stream.c`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, as the programs count.
pub(super) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Bytes that had arrived, by time.
pub(super) struct Timeline(Vec<(f64, f64)>);

impl Timeline {
    /// Reads the lines.
    pub(super) fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.strip_prefix("AT ")?.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        Self(text.lines().filter_map(entry).collect())
    }

    fn bytes_at(&self, at: f64) -> f64 {
        let next = self.0.partition_point(|(time, _)| *time <= at);
        match (next.checked_sub(1).and_then(|before| self.0.get(before)), self.0.get(next)) {
            (Some(&(t0, b0)), Some(&(t1, b1))) => b0 + (b1 - b0) * (at - t0) / (t1 - t0),
            (Some(&(_, bytes)), None) => bytes,
            _ => 0.0,
        }
    }

    /// Bytes a second in between.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        (self.bytes_at(to) - self.bytes_at(from)) / (to - from)
    }

    /// The longest time without anything, of what began in between, in seconds.
    pub(super) fn stall_s(&self, from: f64, to: f64) -> f64 {
        let pairs = self
            .0
            .windows(2)
            .filter(|pair| (from..to).contains(&pair[0].0) || (from..to).contains(&pair[1].0));
        pairs.map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max)
    }

    /// From when on, after `from`, every 0.2 s until `to` bring at least this rate; in seconds after `from`.
    pub(super) fn recovered_after_s(&self, from: f64, to: f64, bytes_per_s: f64) -> Option<f64> {
        const SPAN_S: f64 = 0.2;
        let starts = (0..).map(|step| from + f64::from(step) * 0.02).take_while(|at| at + SPAN_S <= to);
        let slow = starts.filter(|&at| self.rate(at, at + SPAN_S) < bytes_per_s).last();
        let after = slow.map_or(0.0, |at| at + 0.02 - from);
        (from + after + SPAN_S < to).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        // 100 B/s, nothing from 3 to 4 s, 200 B/s from then on.
        let mut text = String::from("noise\n");
        for step in 0..=1000 {
            let at = f64::from(step) / 100.0;
            let bytes = if at < 3.0 {
                at * 100.0
            } else if at <= 4.0 {
                300.0
            } else {
                300.0 + (at - 4.0) * 200.0
            };
            if at <= 3.0 || at >= 4.0 {
                text += &format!("AT {at} {bytes}\n");
            }
        }
        Timeline::parse(&text)
    }

    #[test]
    fn rates_and_stalls_are_read_off() {
        let timeline = timeline();
        assert!((timeline.rate(1.0, 2.0) - 100.0).abs() < 1.0);
        assert!((timeline.rate(5.0, 9.0) - 200.0).abs() < 1.0);
        assert!((timeline.stall_s(2.5, 5.0) - 1.0).abs() < 0.02);
        assert!(timeline.stall_s(5.0, 9.0) < 0.02);
    }

    #[test]
    fn a_recovery_is_found_and_a_missing_one_too() {
        let timeline = timeline();
        let after = timeline.recovered_after_s(3.0, 9.0, 190.0).expect("it recovers");
        assert!((0.9..1.1).contains(&after), "{after}");
        assert_eq!(timeline.recovered_after_s(3.0, 9.0, 500.0), None);
    }
}
