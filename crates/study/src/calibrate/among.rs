//! What takes longer where more than two ranks of a host do the same at once: each figure among so many, held
//! against the same figure among two. Bare rates would not do: between two the model's are of other
//! benchmarks, which show more directly what it needs.

use std::fmt::Write as _;

use super::EXCHANGE;
use super::samples::{COPY, COPY_UNCACHED, REDUCE, SHORT_BYTES, Sample, UNCACHED_BYTES};

/// The benchmarks of `bench/among.c`.
const WRITTEN: &str = "written";
const READ_PARTS: &str = "read_parts";
const KERNEL_COPY_AMONG: &str = "kernel_copy_among";

/// See the module's documentation. Times longer by bytes, at least 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AmongFit {
    /// So many ranks.
    pub processes: u32,
    /// An exchange of short data, longer than between two, ns.
    pub exchange_ns: f64,
    /// Copies, by what a rank goes through.
    pub copy: Vec<(u64, f64)>,
    /// Reductions, by what a rank goes through.
    pub reduce: Vec<(u64, f64)>,
    /// The kernel's copies, by their length.
    pub kernel_copy: Vec<(u64, f64)>,
    /// Data from core to core, by their length.
    pub moved: Vec<(u64, f64)>,
    /// Lines that others have read, by the length of what is written over them.
    pub lines_back: Vec<(u64, f64)>,
}

/// Whether a figure says nothing of two ranks, though others of its benchmark do.
pub(super) fn is_of_more(sample: &Sample) -> bool {
    sample.ranks > 2 && [COPY, COPY_UNCACHED, REDUCE].contains(&sample.name.as_str())
}

/// Of each number of ranks that was measured, the fewest first.
pub(super) fn fit(samples: &[Sample]) -> Vec<AmongFit> {
    let is_one = |sample: &&Sample| sample.name == READ_PARTS && sample.ranks > 2;
    let mut counts: Vec<u32> = samples.iter().filter(is_one).map(|sample| sample.ranks).collect();
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().map(|ranks| one(samples, ranks)).collect()
}

fn one(samples: &[Sample], processes: u32) -> AmongFit {
    let rates = |name| of_both(samples, name, processes, |[two, more]| two / more);
    let times = |name| of_both(samples, name, processes, |[two, more]| more / two);
    let doubled = |mut by_bytes: Vec<(u64, f64)>| {
        by_bytes.iter_mut().for_each(|one| one.0 *= 2);
        by_bytes
    };
    let mut copy = doubled(rates(COPY));
    copy.retain(|one| one.0 < UNCACHED_BYTES);
    let uncached = |ranks| quickest(samples, COPY_UNCACHED, ranks);
    if let (Some(two), Some(more)) = (uncached(2), uncached(processes)) {
        copy.push((UNCACHED_BYTES, (two / more).max(1.0)));
    }
    let exchange_ns = |ranks| {
        let is_it = |sample: &&Sample| {
            (sample.name.as_str(), sample.ranks, sample.bytes) == (EXCHANGE, ranks, SHORT_BYTES)
        };
        samples.iter().find(is_it).map(|sample| 1e3 * sample.value)
    };
    let longer_ns = exchange_ns(processes).zip(exchange_ns(2)).map_or(0.0, |(more, two)| more - two);
    // Of what a rank reads, a part is its own: half of it between two.
    let others_part = 2.0 * f64::from(processes - 1) / f64::from(processes);
    AmongFit {
        processes,
        exchange_ns: longer_ns.max(0.0),
        copy,
        reduce: doubled(rates(REDUCE)),
        kernel_copy: times(KERNEL_COPY_AMONG),
        moved: of_both(samples, READ_PARTS, processes, |[two, more]| two / more / others_part),
        lines_back: rates(WRITTEN),
    }
}

/// By length: how many times longer a figure shows something to take among so many than among two, at least
/// 1.
fn of_both(
    samples: &[Sample],
    name: &str,
    processes: u32,
    times: impl Fn([f64; 2]) -> f64,
) -> Vec<(u64, f64)> {
    let of = |ranks| {
        let is_it = move |sample: &&Sample| {
            sample.name == name && sample.ranks == ranks && sample.bytes > SHORT_BYTES
        };
        samples.iter().filter(is_it)
    };
    let both = |more: &Sample| {
        let two = of(2).find(|two| two.bytes == more.bytes)?;
        Some((more.bytes, times([two.value, more.value]).max(1.0)))
    };
    let mut found: Vec<(u64, f64)> = of(processes).filter_map(both).collect();
    found.sort_unstable_by_key(|one| one.0);
    found
}

fn quickest(samples: &[Sample], name: &str, ranks: u32) -> Option<f64> {
    let of_name = samples.iter().filter(|sample| sample.name == name && sample.ranks == ranks);
    of_name.map(|sample| sample.value).max_by(f64::total_cmp)
}

/// Tables of a host's software, behind its keys.
pub(super) fn tables(all: &[AmongFit]) -> String {
    let mut text = String::new();
    for AmongFit { processes, exchange_ns, copy, reduce, kernel_copy, moved, lines_back } in all {
        let _ = write!(
            text,
            "\n[[host_models.node.software.among]]\n\
             processes = {processes} # at once, beside two\n\
             exchange_ns = {exchange_ns:.1} # MPI_Allgather of 8 B, longer than between two\n"
        );
        let lists = [
            ("copy", "memcpy", copy),
            ("reduce", "MPI_Reduce_local of doubles", reduce),
            ("kernel_copy", "process_vm_readv of what has just been written", kernel_copy),
            ("moved", "read from all others", moved),
            ("lines_back", "written over what others have read", lines_back),
        ];
        for (key, what, list) in lists.into_iter().filter(|list| !list.2.is_empty()) {
            let _ = writeln!(text, "{key} = [ # {what}");
            for &(bytes, times) in list {
                let kib = bytes as f64 / 1_024.0;
                let _ = writeln!(text, "    {{ within_kib = {kib}, times = {times:.2} }},");
            }
            text += "]\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, ranks: u32, bytes: u64, value: f64) -> Sample {
        Sample { name: name.into(), ranks, bytes, value }
    }

    #[test]
    fn what_takes_longer_is_found_beside_two() {
        let samples = [
            sample(EXCHANGE, 2, 8, 0.25),
            sample(EXCHANGE, 16, 8, 0.55),
            sample(EXCHANGE, 16, 1_024, 5.0),
            sample(EXCHANGE, 4, 8, 0.2),
            sample(READ_PARTS, 16, 8_192, 5.0),
            sample(COPY, 2, 4_096, 90.0),
            sample(COPY, 4, 4_096, 100.0),
            sample(COPY, 16, 4_096, 30.0),
            sample(COPY, 16, 8_192, 30.0),
            sample(COPY_UNCACHED, 2, 4_096, 6.0),
            sample(COPY_UNCACHED, 2, 8_192, 8.0),
            sample(COPY_UNCACHED, 16, 4_096, 2.0),
            sample(REDUCE, 2, 8, 0.1),
            sample(REDUCE, 16, 8, 0.05),
            sample(READ_PARTS, 2, 4_096, 10.0),
            sample(READ_PARTS, 4, 4_096, 5.0),
            sample(WRITTEN, 2, 4_096, 20.0),
            sample(WRITTEN, 4, 4_096, 8.0),
            sample(KERNEL_COPY_AMONG, 2, 65_536, 8.0),
            sample(KERNEL_COPY_AMONG, 4, 65_536, 10.0),
        ];
        let found = fit(&samples);
        assert_eq!(found.iter().map(|one| one.processes).collect::<Vec<_>>(), [4, 16]);
        let [four, many] = [&found[0], &found[1]];
        assert_eq!((four.exchange_ns, four.copy.as_slice()), (0.0, &[(8_192, 1.0)][..]));
        assert!((many.exchange_ns - 300.0).abs() < 1e-6);
        assert_eq!(many.copy, [(8_192, 3.0), (UNCACHED_BYTES, 4.0)]);
        assert_eq!((many.reduce.len(), many.moved.len()), (0, 0));
        // Half of what one of two reads is its own, and a quarter of four's.
        assert_eq!(
            (four.moved.as_slice(), four.lines_back.as_slice()),
            (&[(4_096, 2.0 / 1.5)][..], &[(4_096, 2.5)][..])
        );
        assert_eq!(four.kernel_copy, [(65_536, 1.25)]);
        assert_eq!(samples.iter().filter(|sample| is_of_more(sample)).count(), 5);
        assert_eq!(fit(&samples[..1]), []);
        assert_eq!(tables(&[]), "");
        let expected = "\n[[host_models.node.software.among]]\nprocesses = 16 # at once, beside two\n\
                        exchange_ns = 300.0 # MPI_Allgather of 8 B, longer than between two\n\
                        copy = [ # memcpy\n    { within_kib = 8, times = 3.00 },\n    \
                        { within_kib = 65536, times = 4.00 },\n]\n";
        assert_eq!(tables(&found[1..]), expected);
    }
}
