//! Figures of benchmarks, and what several of them show together: times by length, slopes, rates.

use std::ops::RangeInclusive;

use anyhow::Context as _;

/// Before the name of a benchmark that ran over TCP.
pub const OVER_TCP: &str = "tcp_";
/// The benchmark of the library's sums, GB/s.
pub const CHECKSUM: &str = "checksum";

/// A figure that a benchmark measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The benchmark's name.
    pub name: String,
    /// Ranks that took part.
    pub ranks: u32,
    /// Length of a message or block, bytes.
    pub bytes: u64,
    /// Its value, in the benchmark's unit: µs, GB/s or million messages a second.
    pub value: f64,
}

/// The name under which `pingpong_separate` is given of two ranks that share a core.
pub const ONE_CORE: &str = "pingpong_one_core";

/// A figure of several runs: the median, and the quarters between which half of them lie, as parts of it.
///
/// The benchmarks take turns, so what a run of one finds of the machine, a run of the others finds, too. The
/// best of each would be of different runs, and the more extreme the more a figure spreads.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The median.
    pub sample: Sample,
    /// The lower quarter and the upper, less 1.
    pub spread: [f64; 2],
}

/// The figures of several runs, in the order in which they were first seen.
pub fn figures<'a>(runs: impl IntoIterator<Item = &'a Sample>) -> Vec<Figure> {
    let mut all: Vec<(&Sample, Vec<f64>)> = Vec::new();
    for sample in runs {
        match all.iter_mut().find(|known| known.0.is_same_figure(sample)) {
            Some(known) => known.1.push(sample.value),
            None => all.push((sample, vec![sample.value])),
        }
    }
    let figure = |(sample, mut values): (&Sample, Vec<f64>)| {
        values.sort_unstable_by(f64::total_cmp);
        let [low, value, high] = [0.25, 0.5, 0.75].map(|part| quantile(&values, part));
        let sample = Sample { value, ..sample.clone() };
        Figure { sample, spread: [low, high].map(|quarter| quarter / value - 1.0) }
    };
    all.into_iter().map(figure).collect()
}

/// Of sorted values, at least one; between two of them it is interpolated.
pub(super) fn quantile(values: &[f64], part: f64) -> f64 {
    let place = part * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

impl Sample {
    /// Whether both are of the same benchmark, ranks and length.
    pub fn is_same_figure(&self, other: &Sample) -> bool {
        (&self.name, self.ranks, self.bytes) == (&other.name, other.ranks, other.bytes)
    }
}

/// The benchmarks of copies within a process.
pub(super) const COPY: &str = "copy";
pub(super) const COPY_UNCACHED: &str = "copy_uncached";
/// The benchmarks of the kernel's copies: again and again; of a message by both in turn, by both at once, or
/// by one after the other has written it; round more memory; of what is in no cache.
pub(super) const KERNEL_COPY: &str = "kernel_copy";
pub(super) const KERNEL_COPY_IN_TURN: &str = "kernel_copy_in_turn";
pub(super) const KERNEL_COPY_AT_ONCE: &str = "kernel_copy_at_once";
pub(super) const KERNEL_COPY_FRESH: &str = "kernel_copy_fresh";
pub(super) const KERNEL_COPY_ROUND: &str = "kernel_copy_round";
pub(super) const KERNEL_COPY_UNCACHED: &str = "kernel_copy_uncached";
/// The benchmarks of messages that their receiver has the kernel copy: both ways at once, and one way.
pub(super) const RENDEZVOUS_BOTH: &str = "rendezvous_both";
pub(super) const RENDEZVOUS: &str = "rendezvous";
/// The benchmarks of messages in packets that are announced first, and that go at once.
pub(super) const ANNOUNCED: &str = "announced";
pub(super) const AT_ONCE: &str = "at_once";
/// The benchmark of messages of lengths that are not compared, to and fro.
pub(super) const MESSAGE: &str = "message";
/// The benchmarks of packets from core to core: to and fro, and one right after another.
pub(super) const PACKET: &str = "packet";
pub(super) const PACKETS_IN_ROW: &str = "packets_in_row";
/// In which pieces a packet goes, KiB; whole ones are one.
pub(super) const PIECE: &str = "piece";
/// The same benchmarks in blocks that both cores hand to and fro.
pub(super) const BLOCK_PACKET: &str = "block_packet";
pub(super) const BLOCK_PIECE: &str = "block_piece";
pub(super) const BLOCK_RELAY: &str = "block_relay";
/// The benchmarks of data in shared memory: written where the other core has read, and read where it has
/// written.
pub(super) const SHARED_WRITE: &str = "shared_write";
pub(super) const SHARED_WRITE_WITHIN: &str = "shared_write_within";
pub(super) const SHARED_READ: &str = "shared_read";
/// The benchmark of lines that the other core has read.
pub(super) const LINES_BACK: &str = "lines_back";
/// The benchmarks of copies by two cores at once: of messages by turns, and round more memory one way.
pub(super) const RELAY: &str = "relay";
pub(super) const RELAY_ROUND: &str = "relay_round";
/// Who goes through so much finds nothing of it in a cache, bytes (`bench/bench.h`).
pub(super) const UNCACHED_BYTES: u64 = 64 << 20;
/// Messages that `rate` has under way, and `bandwidth`.
pub(super) const RATE_WINDOW: u32 = 64;
pub(super) const BANDWIDTH_WINDOW: u32 = 16;
/// What the library has the kernel copy at a time, and `bench/kernel_copy.c`, bytes.
pub(super) const KERNEL_COPY_BYTES_MAX: u64 = 4 << 20;
/// The benchmark of reductions' arithmetic.
pub(super) const REDUCE: &str = "reduce_local";
/// The benchmark of their call.
pub(super) const REDUCE_CALL: &str = "reduce_call";
/// The length of a short message, bytes.
pub(super) const SHORT_BYTES: u64 = 8;
/// Lengths that are copied in and then out, bytes: their slope is that of copies. Longer packets are copied
/// by both sides at once.
pub(super) const COPIED_BYTES: RangeInclusive<u64> = 256..=8 << 10;
/// From here on a message shows the rate at which its bytes move, bytes.
pub(super) const LONG_BYTES: u64 = 64 << 10;
/// No rate of a memory is above, GB/s: what is not seen to limit is taken for this.
pub(super) const RATE_MAX_GBYTES_PER_S: f64 = 1_000.0;

/// Samples of two ranks, by length, bytes: what a message takes, ns. A longer message is not quicker, so a
/// figure above a longer message's was disturbed and gives way to that.
pub(super) fn times_ns(samples: &[Sample], name: &str) -> Vec<(u64, f64)> {
    let of_name = |sample: &&Sample| sample.name == name && sample.ranks == 2;
    let mut times: Vec<(u64, f64)> =
        samples.iter().filter(of_name).map(|sample| (sample.bytes, 1e3 * sample.value)).collect();
    times.sort_unstable_by_key(|time| time.0);
    let mut least_ns = f64::INFINITY;
    for (_, ns) in times.iter_mut().rev() {
        least_ns = least_ns.min(*ns);
        *ns = least_ns;
    }
    times
}

/// The median of the slopes between all pairs (H. Theil, 1950; P. Sen, 1968): one disturbed figure does not
/// move it.
pub(super) fn slope(points: &[(u64, f64)]) -> Option<f64> {
    let pairs =
        points.iter().enumerate().flat_map(|(index, a)| points[index + 1..].iter().map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0) as f64).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied()
}

/// The same where each pair counts as much as it is apart: of a few points the close ones say least.
pub(super) fn long_slope(points: &[(u64, f64)]) -> Option<f64> {
    let pairs =
        points.iter().enumerate().flat_map(|(index, a)| points[index + 1..].iter().map(move |b| (a, b)));
    let mut slopes: Vec<(f64, u64)> =
        pairs.map(|(a, b)| ((b.1 - a.1) / (b.0 - a.0) as f64, b.0 - a.0)).collect();
    slopes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = slopes.iter().map(|slope| slope.1).sum::<u64>() / 2;
    let is_median = |slope: &&(f64, u64)| {
        let is_it = left <= slope.1;
        left = left.saturating_sub(slope.1);
        is_it
    };
    slopes.iter().find(is_median).map(|slope| slope.0)
}

pub(super) fn value_of(samples: &[Sample], name: &str, bytes: u64) -> anyhow::Result<f64> {
    let found =
        samples.iter().find(|sample| sample.name == name && sample.bytes == bytes && sample.ranks == 2);
    Ok(found.with_context(|| format!("{name} of {bytes} B between two ranks was not measured"))?.value)
}

/// What the first and the last piece of a message take, which one side copies while the other waits: what two
/// messages take more than one that is twice as long, ns.
pub(super) fn ends_ns(times: &[(u64, f64)]) -> Option<f64> {
    let &[shortest, longer, ..] = times else { return None };
    Some((2.0 * shortest.1 - longer.1).clamp(0.0, shortest.1 / 2.0))
}

/// The rates of messages without these.
pub(super) fn without_ends(times: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let Some(ends_ns) = ends_ns(times) else { return Vec::new() };
    let rate =
        |&(bytes, ns): &(u64, f64)| (2 * bytes, (bytes as f64 / (ns - ends_ns)).min(RATE_MAX_GBYTES_PER_S));
    times.iter().map(rate).collect()
}

/// A list of times by length.
pub(super) fn longer_lines(key: &str, comment: &str, times: &[(u64, f64)]) -> String {
    if times.is_empty() {
        return String::new();
    }
    let line = |(bytes, ns): &(u64, f64)| format!("    {{ bytes = {bytes}, more_ns = {ns:.1} }},\n");
    format!("{key} = [ # {comment}\n{}]\n", times.iter().map(line).collect::<String>())
}

/// A list of rates by what a process goes through.
pub(super) fn rate_lines(key: &str, comment: &str, rates: &[(u64, f64)]) -> String {
    if rates.is_empty() {
        return String::new();
    }
    let line = |&(bytes, rate): &(u64, f64)| {
        format!("    {{ within_kib = {}, gbytes_per_s = {rate:.3} }},\n", bytes as f64 / 1024.0)
    };
    format!("{key} = [ # {comment}\n{}]\n", rates.iter().map(line).collect::<String>())
}
