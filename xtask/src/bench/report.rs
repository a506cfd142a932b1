//! Medians, ratios and raw limits as a text table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::suite;

/// What identifies a figure: everything but the library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Position in the suite, so that tables come in the suite's order.
    pub(crate) order: usize,
    pub(crate) benchmark: String,
    pub(crate) ranks: usize,
    pub(crate) bytes: usize,
    pub(crate) unit: String,
}

/// Every run's value, by figure and library.
pub(crate) type Samples = BTreeMap<Key, BTreeMap<String, Vec<f64>>>;

/// One library's figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) runs: usize,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) benchmark: String,
    pub(crate) ranks: usize,
    pub(crate) bytes: usize,
    pub(crate) unit: String,
    pub(crate) higher_is_better: bool,
    pub(crate) libraries: BTreeMap<String, Figure>,
    /// The best of the libraries that are not ours.
    pub(crate) best_peer: Option<String>,
    /// How ours compares with the best peer: above 1 is worse, whatever the unit.
    pub(crate) ratio_to_best_peer: Option<f64>,
    /// The machine's limit in the row's unit, and which raw measurement it is.
    pub(crate) raw_limit: Option<(String, f64)>,
}

/// A library that was left out, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) library: String,
    pub(crate) benchmark: String,
    pub(crate) ranks: usize,
    pub(crate) reason: String,
}

/// The whole report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: String,
    pub(crate) cpus: usize,
    pub(crate) runs: usize,
    pub(crate) versions: BTreeMap<String, String>,
    /// `bench/raw.c`: name, bytes, value, unit.
    pub(crate) raw: Vec<(String, usize, f64, String)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) failures: Vec<Failure>,
}

/// The middle value; of an even number the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.is_empty() {
        f64::NAN
    } else if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        f64::midpoint(sorted[half - 1], sorted[half])
    }
}

fn figure(values: &[f64]) -> Figure {
    Figure {
        median: median(values),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        runs: values.len(),
    }
}

/// The raw limit of a row, in the row's unit.
fn raw_limit(raw: &[(String, usize, f64, String)], key: &Key) -> Option<(String, f64)> {
    let names = suite::raw_limits(&key.benchmark, key.bytes);
    let higher = suite::higher_is_better(&key.unit);
    let candidates = names.iter().filter_map(|name| {
        let at = |bytes| raw.iter().find(move |r| r.0 == *name && r.1 == bytes);
        let (_, _, value, unit) =
            if *name == "raw_line_pingpong" { at(8) } else { at(key.bytes).or_else(|| at(0)) }?;
        (*unit == key.unit).then(|| ((*name).to_owned(), *value))
    });
    candidates.reduce(|a, b| if (b.1 > a.1) == higher { b } else { a })
}

/// Turns samples into rows.
pub(crate) fn rows(samples: &Samples, raw: &[(String, usize, f64, String)], ours: &str) -> Vec<Row> {
    let row = |(key, by_library): (&Key, &BTreeMap<String, Vec<f64>>)| {
        let higher = suite::higher_is_better(&key.unit);
        let libraries: BTreeMap<String, Figure> =
            by_library.iter().map(|(name, values)| (name.clone(), figure(values))).collect();
        let peers = libraries.iter().filter(|(name, _)| *name != ours);
        let best = peers.reduce(|a, b| if (b.1.median > a.1.median) == higher { b } else { a });
        let ratio = best.and_then(|(_, best)| {
            let mine = libraries.get(ours)?.median;
            Some(if higher { best.median / mine } else { mine / best.median })
        });
        Row {
            benchmark: key.benchmark.clone(),
            ranks: key.ranks,
            bytes: key.bytes,
            unit: key.unit.clone(),
            higher_is_better: higher,
            best_peer: best.map(|(name, _)| name.clone()),
            ratio_to_best_peer: ratio,
            raw_limit: raw_limit(raw, key),
            libraries,
        }
    };
    samples.iter().map(row).collect()
}

/// `65536` as `64K`.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{}M", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}

/// Three significant digits, no exponent.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The report as text: one table per benchmark and rank count.
pub(crate) fn text(report: &Report, libraries: &[&str]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}, {} CPUs; medians of {} runs, interleaved",
        report.machine, report.cpus, report.runs
    );
    let versions: Vec<_> =
        report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(out, "{}", versions.join(", "));
    let _ =
        writeln!(out, "`ours/best`: ours against the best peer (*); above 1 is worse, whatever the unit\n");
    let mut section = String::new();
    for row in &report.rows {
        let title = format!("{}, {} ranks, {}", row.benchmark, row.ranks, row.unit);
        if title != section {
            let _ = writeln!(out, "{}{title}", if section.is_empty() { "" } else { "\n" });
            let _ = write!(out, "{:>8}", "bytes");
            for name in libraries {
                let _ = write!(out, " {name:>11}");
            }
            let _ = writeln!(out, " {:>10} {:>10}", "ours/best", "raw limit");
            section = title;
        }
        let _ = write!(out, "{:>8}", size(row.bytes));
        for name in libraries {
            let cell = match row.libraries.get(*name) {
                Some(f) if row.best_peer.as_deref() == Some(name) => format!("{}*", number(f.median)),
                Some(f) => number(f.median),
                None => "-".to_owned(),
            };
            let _ = write!(out, " {cell:>11}");
        }
        let ratio = row.ratio_to_best_peer.map_or("-".to_owned(), |r| format!("{r:.2}"));
        let limit = row.raw_limit.as_ref().map_or(String::new(), |(_, value)| number(*value));
        let _ = writeln!(out, " {ratio:>10} {limit:>10}");
    }
    let _ = writeln!(out, "\nraw limits (bench/raw.c)");
    for (name, bytes, value, unit) in &report.raw {
        let _ = writeln!(out, "{name:>28} {:>6} {:>10} {unit}", size(*bytes), number(*value));
    }
    for failure in &report.failures {
        let Failure { library, benchmark, ranks, reason } = failure;
        let _ = writeln!(out, "left out: {library} in {benchmark} at {ranks} ranks: {reason}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(benchmark: &str, bytes: usize, unit: &str) -> Key {
        Key { order: 0, benchmark: benchmark.into(), ranks: 2, bytes, unit: unit.into() }
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
    }

    #[test]
    fn a_ratio_above_one_is_worse_for_times_and_for_rates() {
        let mut samples = Samples::new();
        for (key, ours, a, b) in
            [(key("pingpong", 8, "us"), 3.0, 2.0, 4.0), (key("rate", 8, "Mmsg/s"), 5.0, 10.0, 2.0)]
        {
            let of = |value| vec![value; 5];
            let by = [("ours", ours), ("a", a), ("b", b)].map(|(name, v)| (name.to_owned(), of(v)));
            samples.insert(key, by.into_iter().collect());
        }
        let rows = rows(&samples, &[], "ours");
        assert_eq!(rows.iter().map(|r| r.best_peer.as_deref().unwrap()).collect::<Vec<_>>(), ["a", "a"]);
        assert_eq!(rows.iter().map(|r| r.ratio_to_best_peer.unwrap()).collect::<Vec<_>>(), [1.5, 2.0]);
    }

    #[test]
    fn the_raw_limit_is_the_better_of_the_ways_the_machine_has() {
        let raw = vec![
            ("raw_readv_pingpong".to_owned(), 1 << 20, 100.0, "us".to_owned()),
            ("raw_mapping_pingpong".to_owned(), 1 << 20, 200.0, "us".to_owned()),
            ("raw_process_vm_readv".to_owned(), 1 << 20, 10.0, "GB/s".to_owned()),
            ("raw_memcpy".to_owned(), 1 << 20, 20.0, "GB/s".to_owned()),
        ];
        let limit = |benchmark, unit| raw_limit(&raw, &key(benchmark, 1 << 20, unit)).unwrap();
        assert_eq!(limit("pingpong", "us"), ("raw_readv_pingpong".to_owned(), 100.0));
        assert_eq!(limit("bandwidth", "GB/s"), ("raw_memcpy".to_owned(), 20.0));
    }

    #[test]
    fn sizes_and_numbers_read_as_people_write_them() {
        assert_eq!([size(0), size(1536), size(65536), size(4 << 20)], ["0", "1536", "64K", "4M"]);
        assert_eq!(
            [number(0.1234), number(1.234), number(56.78), number(1234.5)],
            ["0.123", "1.23", "56.8", "1234"]
        );
    }
}
