//! Checks that were skipped, and why. Each is a line in a file, so that tests in other processes can add
//! theirs; runners print all at their end, and fail under `--strict`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::paths;

/// The variable that tells tests where to write.
pub(crate) const VARIABLE: &str = "AYATORI_SKIPS";

/// The file: that of the runner which started us, or ours.
pub(crate) fn path() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| paths::build_dir().join("skips"), PathBuf::from)
}

/// Forgets what was skipped before, unless another runner collects it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn begin() -> Result<()> {
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    fs::create_dir_all(paths::build_dir())?;
    fs::write(path(), "").context("the list of skips")
}

/// Notes that a check is skipped.
pub(crate) fn note(what: &str, why: &str) {
    let line = format!("{what}: {why}");
    println!("skipped {line}");
    let added = fs::create_dir_all(paths::build_dir())
        .and_then(|()| fs::OpenOptions::new().append(true).create(true).open(path()))
        .and_then(|mut file| writeln!(file, "{line}"));
    if let Err(error) = added {
        eprintln!("xtask: {}: {error}", path().display());
    }
}

/// What a file lists, each with how often.
pub(crate) fn in_file(path: &Path) -> BTreeMap<String, usize> {
    let mut skips = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        *skips.entry(line.to_owned()).or_default() += 1;
    }
    skips
}

/// Prints what was skipped.
///
/// # Errors
/// Something was, and `is_strict`.
pub(crate) fn close(is_strict: bool) -> Result<()> {
    let skips = in_file(&path());
    for (line, count) in &skips {
        println!(
            "== skipped: {line}{}",
            if *count > 1 { format!(" ({count} times)") } else { String::new() }
        );
    }
    println!("== skipped: {} checks in all", skips.len());
    if is_strict && !skips.is_empty() {
        bail!("{} checks were skipped, and --strict allows none", skips.len());
    }
    Ok(())
}
