//! results.csv: every finished run is written at once, so that a study that was stopped goes on where it was.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::cases::{COLUMN_NAMES, Case};
use super::experiment::Outcome;

/// Results by the columns of their case.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    file: File,
    known: HashMap<String, Outcome>,
}

impl Store {
    /// Opens the results in `folder`. Those of another machine, seed or simulator (`origin` says which) are
    /// moved aside; the second part says where to.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn open(folder: &Path, origin: &str, fresh: bool) -> anyhow::Result<(Store, Option<PathBuf>)> {
        let mut moved = None;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let path = folder.join("results.csv");
        let old = if fresh { String::new() } else { std::fs::read_to_string(&path).unwrap_or_default() };
        let head = head(origin);
        let known = match old.strip_prefix(&head) {
            Some(lines) => lines.split_inclusive('\n').filter_map(parse).collect(),
            None => HashMap::new(),
        };
        let failed = || format!("cannot write {}", path.display());
        if known.is_empty() {
            if old.lines().count() > head.lines().count() {
                let aside = folder.join("results-of-before.csv");
                std::fs::rename(&path, &aside).with_context(failed)?;
                moved = Some(aside);
            }
            std::fs::write(&path, &head).with_context(failed)?;
        }
        let mut file = OpenOptions::new().append(true).open(&path).with_context(failed)?;
        if !known.is_empty() && !old.ends_with('\n') {
            file.write_all(b"\n").with_context(failed)?;
        }
        Ok((Store { path, file, known }, moved))
    }

    pub(super) fn get(&self, case: &Case) -> Option<Outcome> {
        self.known.get(&case.columns()).copied()
    }

    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, case: &Case, outcome: Outcome) -> anyhow::Result<()> {
        let columns = case.columns();
        let line = line(&columns, outcome);
        self.known.insert(columns, outcome);
        self.file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes the file anew with these cases only, in this order.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn sort(&self, origin: &str, cases: &[Case]) -> anyhow::Result<()> {
        let mut text = head(origin);
        for case in cases {
            if let Some(outcome) = self.get(case) {
                text += &line(&case.columns(), outcome);
            }
        }
        std::fs::write(&self.path, text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn head(origin: &str) -> String {
    format!("# {origin}\n{COLUMN_NAMES},gap_packets,time_ps,packet_hops\n")
}

fn line(columns: &str, Outcome { gap, time_ps, packet_hop_count }: Outcome) -> String {
    let mut line = String::new();
    let _ = writeln!(line, "{columns},{gap:.4},{time_ps},{packet_hop_count}");
    line
}

/// A line; one that was cut off when the study was stopped is none.
fn parse(line: &str) -> Option<(String, Outcome)> {
    let mut parts = line.strip_suffix('\n')?.rsplitn(4, ',');
    let packet_hop_count = parts.next()?.parse().ok()?;
    let time_ps = parts.next()?.parse().ok()?;
    let gap = parts.next()?.parse().ok()?;
    Some((parts.next()?.to_string(), Outcome { gap, time_ps, packet_hop_count }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::cases;

    #[test]
    fn results_are_found_again_unless_they_are_of_another_origin_or_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let cases = cases::quick();
        let outcome = Outcome { gap: 0.5, time_ps: 12_345, packet_hop_count: 678 };
        let mut store = Store::open(folder.path(), "here", false).unwrap().0;
        store.add(&cases[0], outcome).unwrap();
        store.add(&cases[1], outcome).unwrap();
        drop(store);
        let path = folder.path().join("results.csv");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.trim_end_matches(",678\n")).unwrap();
        let mut store = Store::open(folder.path(), "here", false).unwrap().0;
        assert_eq!((store.get(&cases[0]), store.get(&cases[1])), (Some(outcome), None));
        store.add(&cases[2], outcome).unwrap();
        let store = Store::open(folder.path(), "here", false).unwrap().0;
        assert_eq!((store.get(&cases[0]), store.get(&cases[2])), (Some(outcome), Some(outcome)));
        assert_eq!(Store::open(folder.path(), "there", false).unwrap().0.get(&cases[0]), None);
        assert!(folder.path().join("results-of-before.csv").is_file());
    }
}
