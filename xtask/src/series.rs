//! A series of runs that goes on over days: a line for each run in a file that is committed.
//!
//! ```text
//! passed 03380fd 2026-11-23 12:50 412 s
//! ```
//!
//! The commit is the last that changed the product. What is counted is how many runs in a row have passed, up
//! to the last one, on whichever commits.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::nightly;

/// A series, and the file that keeps it.
pub(crate) struct Series {
    path: PathBuf,
    in_a_row: usize,
}

impl Series {
    /// The series kept in `path`; a new one where there is no such file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| name.to_string())?,
        };
        let in_a_row = in_a_row(&text).with_context(|| name.to_string())?;
        Ok(Self { path: path.to_owned(), in_a_row })
    }

    /// How many passed in a row, up to the last run.
    pub(crate) fn in_a_row(&self) -> usize {
        self.in_a_row
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, has_passed: bool, took: Duration) -> Result<()> {
        let word = if has_passed { "passed" } else { "failed" };
        let (commit, when) = (nightly::commit(), nightly::when());
        let name = self.path.display();
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        let mut file = file.with_context(|| name.to_string())?;
        writeln!(file, "{word} {commit} {when} {} s", took.as_secs()).with_context(|| name.to_string())?;
        self.in_a_row = if has_passed { self.in_a_row + 1 } else { 0 };
        Ok(())
    }
}

fn in_a_row(text: &str) -> Result<usize> {
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        match line.split(' ').next() {
            Some("passed") => count += 1,
            Some("failed") => count = 0,
            _ => bail!("line {}: `{line}` says neither passed nor failed", index + 1),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_begins_the_series_again() {
        let count = |text| in_a_row(text).ok();
        assert_eq!(count(""), Some(0));
        assert_eq!(count("passed a 2026-11-23 12:50 1 s\npassed b 2026-11-23 12:51 1 s\n"), Some(2));
        assert_eq!(count("passed a\nfailed a\npassed b\n"), Some(1));
        assert_eq!(count("passed a\nfailed b\n"), Some(0));
        assert_eq!(count("<<<<<<< HEAD\n"), None);
    }

    #[test]
    fn a_series_goes_on_where_its_file_ends() {
        let path = std::env::temp_dir().join(format!("ayatori-series-{}", std::process::id()));
        let mut series = Series::open(&path).expect("a new series");
        series.add(true, Duration::from_secs(3)).expect("written");
        series.add(true, Duration::from_secs(4)).expect("written");
        assert_eq!(Series::open(&path).expect("the same").in_a_row(), 2);
        series.add(false, Duration::from_secs(5)).expect("written");
        let in_file = Series::open(&path).expect("the same").in_a_row();
        fs::remove_file(&path).expect("it is there");
        assert_eq!((series.in_a_row(), in_file), (0, 0));
    }
}
