//! A copy of the repository, to break things in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths;

/// Files below `prefix` that git knows or would know, in their order.
pub(super) fn tracked(prefix: &str) -> Result<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", prefix])
        .current_dir(paths::root())
        .output()
        .context("cannot start git")?;
    if !listing.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
    }
    let names = String::from_utf8(listing.stdout)?;
    let names: BTreeSet<&str> = names.split_terminator('\0').collect();
    // A file that git knows and that was deleted is left out.
    Ok(names.into_iter().filter(|name| paths::root().join(name).is_file()).map(str::to_owned).collect())
}

/// The copy and its build outputs.
pub(super) struct Copy {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
}

impl Copy {
    /// Brings the copy up to date; what has not changed is left alone, so that cargo does not build it again.
    /// `keep`: files that the caller writes.
    pub(super) fn make(keep: &BTreeSet<String>) -> Result<Copy> {
        let home = paths::target_dir().join("mutants");
        let copy = Copy { root: home.join("copy"), target: home.join("target") };
        let mut kept = BTreeSet::new();
        for name in tracked(".")? {
            let path = copy.root.join(&name);
            if !keep.contains(&name) {
                write_if_other(&path, &fs::read(paths::root().join(&name))?)?;
            }
            kept.insert(path);
        }
        remove_others(&copy.root, &kept)?;
        Ok(copy)
    }
}

/// Takes out what a copy made of an earlier state has and this one has not: cargo would find it.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    let failed = || format!("cannot clear {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        if entry.file_type().with_context(failed)?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).with_context(failed)?;
        }
    }
    Ok(())
}

pub(super) fn write_if_other(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_nothing_of_an_earlier_state() {
        let folder = std::env::temp_dir().join(format!("ayatori-mutants-{}", std::process::id()));
        let [kept, stale] = ["a/kept.rs", "a/b/stale.rs"].map(|name| folder.join(name));
        for path in [&kept, &stale] {
            write_if_other(path, b"").unwrap();
        }
        remove_others(&folder, &BTreeSet::from([kept.clone()])).unwrap();
        assert!(kept.is_file() && !stale.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
