//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! * arrows between crates, and what the library's crates may depend on (`arrows`);
//! * `#![no_std]` in core, `#![forbid(unsafe_code)]` where it is due, `unsafe` only in the listed files
//!   (`sources`);
//! * lengths of files, functions, comments and names, as a ratchet: today's exceptions are listed with their
//!   length and may only shrink (`lengths`);
//! * no modules that name each other in a circle, as a ratchet, too (`circles`);
//! * no test that judges by a clock (`clocks`);
//! * licences of all dependencies (`licences`);
//! * every page of `docs/` in the book's summary, no link that leads nowhere (`pages`);
//! * no name of a package registry in a tracked file (`sources`).
//!
//! The lists live in `xtask/tidy.toml`. What clippy can check (forbidden calls) is in the `clippy.toml` of
//! the crate.

mod arrows;
mod circles;
mod clocks;
mod lengths;
mod licences;
mod pages;
mod rust;
mod sources;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{paths, process};

/// `xtask/tidy.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// Files that may say `unsafe`; `*` stands for one path component or a part of one.
    unsafe_files: Vec<String>,
    /// Outside crates that each crate of the library may use at run time.
    library_dependencies: std::collections::BTreeMap<String, Vec<String>>,
    /// SPDX identifiers of licences that may be linked.
    licences: Vec<String>,
    lengths: lengths::Limits,
    /// Tests that compare clocks, and how often.
    clocks: clocks::Allowed,
    /// Circles of modules there are today, by crate.
    circles: circles::Exceptions,
}

/// Everything found, as `path: what is wrong and what to do`.
type Findings = Vec<String>;

/// `cargo xtask tidy`.
pub(crate) fn run() -> Result<()> {
    let path = paths::root().join("xtask/tidy.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))?;
    let files = tracked_files()?;
    let mut findings = Findings::new();
    arrows::check(&rules.library_dependencies, &mut findings)?;
    licences::check(&rules.licences, &mut findings)?;
    sources::check(&rules.unsafe_files, &files, &mut findings)?;
    lengths::check(&rules.lengths, &files, &mut findings)?;
    circles::check(&rules.circles, &files, &mut findings)?;
    pages::check(&files, &mut findings)?;
    clocks::check(&rules.clocks, &files, &mut findings)?;
    for finding in &findings {
        println!("tidy: {finding}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    Ok(())
}

/// Files git knows of, and new ones it does not ignore, relative to the root.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(paths::root());
    let outcome = process::capture(&mut git, Duration::from_secs(60))?;
    if !outcome.success() {
        bail!("git ls-files failed: {}", outcome.reason());
    }
    let names = outcome.stdout.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(names.filter(|name| paths::root().join(name).is_file()).collect())
}

/// `cargo metadata`, with or without the dependencies.
fn metadata(with_dependencies: bool) -> Result<serde_json::Value> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1"]).current_dir(paths::root());
    if !with_dependencies {
        cargo.arg("--no-deps");
    }
    let outcome = process::capture(&mut cargo, Duration::from_secs(300))?;
    if !outcome.success() {
        bail!("cargo metadata failed: {}", outcome.reason());
    }
    serde_json::from_str(&outcome.stdout).context("cargo metadata printed no JSON")
}
