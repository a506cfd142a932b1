//! What long messages take that go in packets, which one core copies in and another out at the same time.

use std::fmt::Write as _;

use super::samples::{
    ANNOUNCED, AT_ONCE, RATE_MAX_GBYTES_PER_S, RELAY, RELAY_ROUND, Sample, ends_ns, rate_lines, times_ns,
    without_ends,
};

/// Their rates by what a process goes through, without messages: by turns, and one way round more memory,
/// where the sender need not wait for its receiver's turn.
pub(super) fn relay(samples: &[Sample]) -> Vec<(u64, f64)> {
    let mut rates = without_ends(&times_ns(samples, RELAY));
    let most_bytes = rates.last().map_or(0, |rate| rate.0);
    let round = times_ns(samples, RELAY_ROUND).into_iter().filter(|time| 2 * time.0 > most_bytes);
    rates.extend(round.map(|(bytes, ns)| (2 * bytes, (bytes as f64 / ns).min(RATE_MAX_GBYTES_PER_S))));
    rates
}

/// What these take beside: the first part, the line's way and the last part, ns.
pub(super) fn relay_ends_ns(samples: &[Sample]) -> Option<f64> {
    ends_ns(&times_ns(samples, RELAY))
}

/// The library's software for a message that is announced and answered: what it takes more than one of the
/// same length that goes at once, less two short packets. `message_ns`: the software of either side for one
/// of these; `seen_ns`: until what one side has written is seen by the other.
pub(super) fn announce_ns(samples: &[Sample], message_ns: f64, seen_ns: f64) -> f64 {
    let time = |name| times_ns(samples, name).first().map(|time| time.1);
    let (Some(announced_ns), Some(at_once_ns)) = (time(ANNOUNCED), time(AT_ONCE)) else { return 0.0 };
    (announced_ns - at_once_ns - 2.0 * (2.0 * message_ns + seen_ns)).max(0.0)
}

/// The lines of a host's software.
pub(super) fn lines(announce_ns: f64, relay: &[(u64, f64)], relay_ends_ns: Option<f64>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "announce_ns = {announce_ns:.1} # of 32 KiB, less at once and two short packets");
    if let Some(ends_ns) = relay_ends_ns {
        let _ = writeln!(text, "relay_ends_ns = {ends_ns:.1} # two messages, less one twice as long");
    }
    text + &rate_lines("relay_rate", "copied in by one core and out by another at once", relay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, bytes: u64, ns: f64) -> Sample {
        Sample { name: name.into(), ranks: 2, bytes, value: ns / 1e3 }
    }

    #[test]
    fn rates_by_working_set_are_found_without_ends() {
        let kib = |n: u64, rate: f64| (n << 10, rate);
        // Two pieces' copies at the ends take 2 µs; GB/s are bytes/ns.
        let by_turns = [kib(64, 16.0), kib(128, 16.0), kib(1024, 8.0)];
        // Round more memory there are no ends; of as much, the turns count.
        let round = [kib(1024, 12.0), kib(16 << 10, 6.0), kib(64 << 10, 5.0)];
        let mut samples: Vec<Sample> = by_turns
            .iter()
            .map(|&(bytes, rate)| sample(RELAY, bytes, 2_000.0 + bytes as f64 / rate))
            .collect();
        samples.extend(round.iter().map(|&(bytes, rate)| sample(RELAY_ROUND, bytes, bytes as f64 / rate)));
        assert!(relay_ends_ns(&samples).is_some_and(|ends_ns| (ends_ns - 2_000.0).abs() < 1e-6));
        let found = relay(&samples);
        let made_up = [&by_turns[..], &round[1..]].concat();
        assert_eq!(found.len(), made_up.len());
        for ((within, found), (bytes, made_up)) in found.into_iter().zip(made_up) {
            assert!(
                within == 2 * bytes && (found / made_up - 1.0).abs() < 1e-6,
                "{found} for {made_up} within {within}"
            );
        }
    }

    #[test]
    fn software_of_announced_messages_is_found() {
        let of_long = |name, ns| sample(name, 32 << 10, ns);
        let samples = [of_long(AT_ONCE, 1_600.0), of_long(ANNOUNCED, 2_250.0)];
        // Two packets of 30 + 30 + 50 ns.
        assert!((announce_ns(&samples, 30.0, 50.0) - 430.0).abs() < 1e-6);
        assert_eq!(announce_ns(&samples, 300.0, 50.0), 0.0, "not less than none");
        assert_eq!(announce_ns(&samples[..1], 30.0, 50.0), 0.0, "it was not measured");
    }
}
