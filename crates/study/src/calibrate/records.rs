//! What was measured, as a file: each figure with its round and how near the CPUs were. From it costs can be
//! fitted again, and predictions made by another model, without measuring.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};

use super::{Near, Sample, Sighting};

/// What was measured, and under which circumstances.
#[derive(Debug, Clone, PartialEq)]
pub struct Records {
    /// On which host and under which load, in words.
    pub circumstances: String,
    /// CPUs of the host.
    pub core_count: u32,
    /// Its last cache, MiB, if known.
    pub cache_mib: Option<f64>,
    /// The figures, in the order in which they were measured.
    pub sightings: Vec<Sighting>,
}

const HEAD: &str = "round name ranks bytes value line_ns_min line_ns_max copy_gbytes_per_s_min \
                    copy_gbytes_per_s_max";

impl Records {
    /// One line a figure, under a comment with the circumstances, a line about the host, and one of columns'
    /// names.
    pub fn text(&self) -> String {
        let mut text = format!("# {}\ncpus {}", self.circumstances, self.core_count);
        if let Some(mib) = self.cache_mib {
            let _ = write!(text, " cache_mib {mib}");
        }
        let _ = write!(text, "\n{HEAD}\n");
        for Sighting { sample: Sample { name, ranks, bytes, value }, near, round } in &self.sightings {
            let _ = write!(text, "{round} {name} {ranks} {bytes} {value}");
            if let Some(Near { line_ns: [a, b], copy_gbytes_per_s: [c, d] }) = near {
                let _ = write!(text, " {a} {b} {c} {d}");
            }
            text.push('\n');
        }
        text
    }

    /// # Errors
    /// A text that [`Records::text`] does not write.
    pub fn parse(text: &str) -> anyhow::Result<Records> {
        let mut lines = text.lines();
        let circumstances = lines.next().and_then(|line| line.strip_prefix("# "));
        let circumstances = circumstances.context("the first line is no comment")?.to_owned();
        let (core_count, cache_mib) =
            lines.next().and_then(host).context("the second line does not say how many CPUs the host has")?;
        ensure!(lines.next() == Some(HEAD), "the third line does not name the columns");
        let one = |line: &str| sighting(line).with_context(|| format!("in the line '{line}'"));
        let sightings = lines.map(one).collect::<anyhow::Result<_>>()?;
        Ok(Records { circumstances, core_count, cache_mib, sightings })
    }
}

/// CPUs and last cache.
fn host(line: &str) -> Option<(u32, Option<f64>)> {
    match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["cpus", cpus] => Some((cpus.parse().ok()?, None)),
        ["cpus", cpus, "cache_mib", mib] => Some((cpus.parse().ok()?, Some(mib.parse().ok()?))),
        _ => None,
    }
}

fn sighting(line: &str) -> anyhow::Result<Sighting> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (&[round, name, ranks, bytes, value], near) =
        words.split_first_chunk::<5>().context("a word is missing")?;
    let rest = format!("{name} {bytes} {value} us");
    let near = if near.is_empty() { None } else { Some(super::near_of(&near.join(" "))?) };
    Ok(Sighting { sample: super::sample_of(&rest, ranks.parse()?)?, near, round: round.parse()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let sample = Sample { name: "rate".into(), ranks: 2, bytes: 8, value: 2.5 };
        let near = Near { line_ns: [27.25, 29.0], copy_gbytes_per_s: [48.0, 57.5] };
        let records = Records {
            circumstances: "on a host, with a load of 0.1".into(),
            core_count: 16,
            cache_mib: Some(37.5),
            sightings: vec![
                Sighting { sample: sample.clone(), near: Some(near), round: 1 },
                Sighting { sample: Sample { value: 1e-3, ..sample }, near: None, round: 2 },
            ],
        };
        let text = records.text();
        assert_eq!(Records::parse(&text).unwrap(), records);
        let of_no_cache = Records { cache_mib: None, ..records };
        assert_eq!(Records::parse(&of_no_cache.text()).unwrap(), of_no_cache);
        for (from, to) in [
            ("# on", "on"),
            ("cpus 16", "16"),
            (" 37.5", ""),
            ("round", "turn"),
            ("2.5", "nan"),
            (" 57.5", ""),
            ("1 rate", "rate"),
        ] {
            assert!(Records::parse(&text.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}
