//! Costs of ranks that work together in one host's memory: reductions, collective operations in one step,
//! ranks that share a core.

use std::fmt::Write as _;

use super::samples::{
    COPY, RATE_MAX_GBYTES_PER_S, REDUCE, REDUCE_CALL, SHORT_BYTES, Sample, UNCACHED_BYTES, rate_lines,
    value_of,
};

/// The operation whose time shows what an exchange costs. It is not predicted.
pub const EXCHANGE: &str = "allgather";
/// The operation whose time shows what a schedule of messages costs.
pub const SCHEDULE: &str = "alltoallv";
/// Barriers among the ranks of one CPU, on all CPUs at once. Its ranks are those of a CPU.
pub const TAKING_TURNS: &str = "turns";

/// See the module's documentation. Times in ns, rates in GB/s.
#[derive(Debug, Clone, PartialEq)]
pub struct TogetherFit {
    /// Copies within a rank, of who goes through so many bytes, while others copy, too.
    pub copy: Vec<(u64, f64)>,
    /// A reduction without its bytes.
    pub reduce_ns: f64,
    /// Reductions of who goes through so many bytes, while others reduce, too.
    pub reduce: Vec<(u64, f64)>,
    /// An exchange beside a message's software, the lines' way and polling.
    pub exchange_ns: f64,
    /// A schedule of messages beside their software, the lines' way and polling; `None`: it was not measured.
    pub schedule_ns: Option<f64>,
    /// Yields among so many ranks of a core, more than two.
    pub yields: Vec<(u32, f64)>,
}

/// `message_ns`: the software of either side; `seen_ns`: until what one has written is seen by one that
/// waits.
pub(super) fn fit(
    samples: &[Sample],
    uncached_gbytes_per_s: f64,
    message_ns: f64,
    seen_ns: f64,
) -> TogetherFit {
    let called_ns = value_of(samples, REDUCE, SHORT_BYTES).map_or(0.0, |rate| SHORT_BYTES as f64 / rate);
    let call_ns = value_of(samples, REDUCE_CALL, 0).map_or(0.0, |us| 1e3 * us);
    let reduce_ns = (called_ns - call_ns).max(0.0);
    let mut copy = rates(samples, COPY, 0.0);
    copy.retain(|rate| rate.0 < UNCACHED_BYTES);
    copy.push((UNCACHED_BYTES, uncached_gbytes_per_s));
    let exchange_ns = value_of(samples, EXCHANGE, SHORT_BYTES).map_or(0.0, |us| 1e3 * us);
    let beside_messages_ns = |us: f64| (1e3 * us - 2.0 * message_ns - seen_ns).max(0.0);
    TogetherFit {
        copy,
        reduce_ns,
        reduce: rates(samples, REDUCE, called_ns),
        exchange_ns: (exchange_ns - 2.0 * message_ns - seen_ns).max(0.0),
        schedule_ns: value_of(samples, SCHEDULE, SHORT_BYTES).ok().map(beside_messages_ns),
        yields: yields(samples, message_ns),
    }
}

/// Of a benchmark that does the same again and again, from one buffer to another; a call beside the bytes
/// takes so long.
fn rates(samples: &[Sample], name: &str, call_ns: f64) -> Vec<(u64, f64)> {
    let of_name = |sample: &&Sample| sample.name == name && sample.bytes > SHORT_BYTES;
    let rate = |sample: &Sample| {
        let bytes = sample.bytes as f64;
        let ns = (bytes / sample.value - call_ns).max(bytes / RATE_MAX_GBYTES_PER_S);
        (2 * sample.bytes, bytes / ns)
    };
    let mut rates: Vec<(u64, f64)> = samples.iter().filter(of_name).map(rate).collect();
    rates.sort_unstable_by_key(|rate| rate.0);
    rates
}

/// Among more than two.
fn yields(samples: &[Sample], message_ns: f64) -> Vec<(u32, f64)> {
    let of_name = |sample: &&Sample| sample.name == TAKING_TURNS && sample.ranks > 2;
    let one = |sample: &Sample| (sample.ranks, yield_ns(sample, message_ns));
    let mut yields: Vec<(u32, f64)> = samples.iter().filter(of_name).map(one).collect();
    yields.sort_unstable_by_key(|one| one.0);
    yields
}

/// Between two, if that was measured.
pub(super) fn yield_of_two_ns(samples: &[Sample], message_ns: f64) -> Option<f64> {
    let sample = samples.iter().find(|sample| sample.name == TAKING_TURNS && sample.ranks == 2)?;
    Some(yield_ns(sample, message_ns))
}

/// In a barrier of `n` ranks of a core the core goes through `n - 1` of them until all have come: each of
/// these has seen the barrier before, and each of all calls once.
fn yield_ns(sample: &Sample, message_ns: f64) -> f64 {
    let (ranks, turns) = (f64::from(sample.ranks), f64::from(sample.ranks - 1));
    ((1e3 * sample.value - (ranks + turns) * message_ns) / turns).max(1.0)
}

/// The lines of a host's software.
pub(super) fn lines(fit: &TogetherFit) -> String {
    let TogetherFit { copy, reduce_ns, reduce, exchange_ns, schedule_ns, yields } = fit;
    let mut text = format!(
        "reduce_ns = {reduce_ns:.1} # MPI_Reduce_local of 8 B, less the call\n\
         exchange_ns = {exchange_ns:.1} # the rest of an MPI_Allgather of 8 B\n"
    );
    if let Some(schedule_ns) = schedule_ns {
        let _ = writeln!(text, "schedule_ns = {schedule_ns:.1} # the rest of an MPI_Alltoallv of 8 B");
    }
    if !yields.is_empty() {
        text += "yield_among = [ # barriers among ranks that share a core\n";
        for (processes, ns) in yields {
            let _ = writeln!(text, "    {{ processes = {processes}, ns = {ns:.1} }},");
        }
        text += "]\n";
    }
    text += &rate_lines("reduce_rate", "MPI_Reduce_local of doubles, both ranks at once", reduce);
    text + &rate_lines("copy_rate", "memcpy, both ranks at once", copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_do_together_is_found_without_calls_and_lines() {
        let sample = |name: &str, ranks, bytes, value| Sample { name: name.into(), ranks, bytes, value };
        // A reduction takes 30 ns and goes at 12 GB/s; a message's software 80 ns at either side.
        let reduced = |bytes: u64| bytes as f64 / (30.0 + bytes as f64 / 12.0);
        let samples = [
            sample(REDUCE, 2, 8, 8.0 / 30.0),
            sample(REDUCE, 2, 64 << 10, reduced(64 << 10)),
            sample(REDUCE, 2, 4 << 10, reduced(4 << 10)),
            sample(COPY, 2, 1 << 20, 20.0),
            sample(COPY, 2, 64 << 20, 9.0),
            sample(EXCHANGE, 2, 8, (2.0 * 80.0 + 90.0 + 70.0) / 1e3),
            sample(EXCHANGE, 2, 1 << 10, 9.0),
            sample(SCHEDULE, 2, 8, (2.0 * 80.0 + 90.0 + 300.0) / 1e3),
            sample(TAKING_TURNS, 2, 0, (500.0 + 3.0 * 80.0) / 1e3),
            sample(TAKING_TURNS, 4, 0, (3.0 * 600.0 + 7.0 * 80.0) / 1e3),
        ];
        let found = fit(&samples, 6.0, 80.0, 90.0);
        assert!(
            (found.reduce_ns - 30.0).abs() < 1e-6 && (found.exchange_ns - 70.0).abs() < 1e-6,
            "{found:?}"
        );
        assert!(found.schedule_ns.is_some_and(|ns| (ns - 300.0).abs() < 1e-6), "{found:?}");
        assert_eq!(found.copy, [(2 << 20, 20.0), (UNCACHED_BYTES, 6.0)]);
        let close = |rate: (u64, f64), bytes| rate.0 == bytes && (rate.1 - 12.0).abs() < 0.01;
        assert!(close(found.reduce[0], 8 << 10) && close(found.reduce[1], 128 << 10), "{found:?}");
        assert!(matches!(found.yields[..], [(4, ns)] if (ns - 600.0).abs() < 1e-6), "{found:?}");
        assert!(yield_of_two_ns(&samples, 80.0).is_some_and(|ns| (ns - 500.0).abs() < 1e-6));
        assert_eq!(yield_of_two_ns(&samples[..4], 80.0), None);
        let none = fit(&[], 6.0, 80.0, 90.0);
        assert_eq!((none.reduce_ns, none.exchange_ns, none.yields.len()), (0.0, 0.0, 0));
        assert_eq!(none.schedule_ns, None);
    }
}
