//! results.csv: every finished run is written at once, so that a study that was stopped continues where it
//! was.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::cases::{COLUMN_NAMES, Case};
use super::experiment::Outcome;

/// What may be done with the results that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Read only: nothing in the folder changes.
    Read,
    /// Keep the results of the same origin, add to them; move those of another origin aside.
    Add,
    /// Discard the results.
    Replace,
}

/// Results by the columns of their case.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// `None` with [`Access::Read`].
    file: Option<File>,
    known: HashMap<String, Outcome>,
    moved_to: Option<PathBuf>,
}

impl Store {
    /// Opens the results in `folder`. `origin` says of which machine, seed and simulator they are.
    ///
    /// # Errors
    /// The file cannot be read or written; with [`Access::Read`] also: it is missing or of another origin.
    pub(super) fn open(folder: &Path, origin: &str, access: Access) -> anyhow::Result<Store> {
        let path = folder.join("results.csv");
        let old = match std::fs::read_to_string(&path) {
            Ok(_) if access == Access::Replace => String::new(),
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let head = head(origin);
        let own = old.strip_prefix(&head);
        let known: HashMap<_, _> = own.unwrap_or_default().split_inclusive('\n').filter_map(parse).collect();
        let mut store = Store { path, file: None, known, moved_to: None };
        if access == Access::Read {
            return if own.is_some() { Ok(store) } else { Err(store.refusal(&old, origin)) };
        }
        let failed = || format!("cannot write {}", store.path.display());
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        if store.known.is_empty() {
            if own.is_none() && old.lines().count() > head.lines().count() {
                let aside = unused_name(folder);
                std::fs::rename(&store.path, &aside).with_context(failed)?;
                store.moved_to = Some(aside);
            }
            std::fs::write(&store.path, &head).with_context(failed)?;
        }
        let mut file = OpenOptions::new().append(true).open(&store.path).with_context(failed)?;
        if !store.known.is_empty() && !old.ends_with('\n') {
            file.write_all(b"\n").with_context(failed)?;
        }
        Ok(Store { file: Some(file), ..store })
    }

    fn refusal(&self, old: &str, origin: &str) -> anyhow::Error {
        let path = self.path.display();
        match old.lines().next() {
            None => anyhow::anyhow!("no results in {path}; run the study without --report-only first"),
            Some(first) => anyhow::anyhow!(
                "{path} has results of {}; asked for are those of {origin}: name their machine and seed \
                 (--machine, --seed), or run the study without --report-only",
                first.trim_start_matches("# ")
            ),
        }
    }

    /// Where results of another origin were moved.
    pub(super) fn moved_to(&self) -> Option<&Path> {
        self.moved_to.as_deref()
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
        let Some(file) = &mut self.file else { bail!("{} is open for reading only", self.path.display()) };
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
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

/// The first name for results moved aside that no file has: an earlier one is never overwritten.
fn unused_name(folder: &Path) -> PathBuf {
    let names = (1..).map(|number| match number {
        1 => folder.join("results-of-before.csv"),
        _ => folder.join(format!("results-of-before-{number}.csv")),
    });
    names.into_iter().find(|path| !path.exists()).expect("numbers do not run out")
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

    const OUTCOME: Outcome = Outcome { gap: 0.5, time_ps: 12_345, packet_hop_count: 678 };

    fn open(folder: &Path, origin: &str) -> Store {
        Store::open(folder, origin, Access::Add).expect("a store")
    }

    #[test]
    fn finished_runs_are_kept_and_cut_lines_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let cases = cases::quick();
        let mut store = open(folder.path(), "here");
        store.add(&cases[0], OUTCOME).unwrap();
        store.add(&cases[1], OUTCOME).unwrap();
        drop(store);
        let path = folder.path().join("results.csv");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.trim_end_matches(",678\n")).unwrap();
        let mut store = open(folder.path(), "here");
        assert_eq!((store.get(&cases[0]), store.get(&cases[1])), (Some(OUTCOME), None));
        store.add(&cases[2], OUTCOME).unwrap();
        let store = open(folder.path(), "here");
        assert_eq!((store.get(&cases[0]), store.get(&cases[2])), (Some(OUTCOME), Some(OUTCOME)));
    }

    #[test]
    fn results_moved_aside_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let case = cases::quick()[0];
        for origin in ["first", "second", "third"] {
            let mut store = open(folder.path(), origin);
            assert_eq!(store.get(&case), None);
            store.add(&case, OUTCOME).unwrap();
        }
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text("results-of-before.csv").starts_with("# first\n"));
        assert!(text("results-of-before-2.csv").starts_with("# second\n"));
    }
}
