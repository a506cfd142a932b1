//! Programs of Debian's archive without installing them: apt downloads the packages and those that they
//! depend on and this system lacks, dpkg unpacks them into a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::packages::lists_of_debian;
use crate::process;

/// How long getting one program may take.
const GET_MAX: Duration = Duration::from_secs(900);

/// Unpacks `packages`, and what they need, as `folder/root`, and those of `mpi` as `folder/own`, unless that
/// was done. Returns the versions of both.
///
/// # Errors
/// They cannot be had here.
pub(super) fn get(packages: &[String], mpi: &[&str], folder: &Path, prepare: &str) -> Result<String> {
    let wanted = format!("{}\n{}\n{prepare}", packages.join(" "), mpi.join(" "));
    let done = folder.join(".unpacked");
    if let Ok(text) = fs::read_to_string(&done)
        && let Some(versions) = text.strip_prefix(&format!("{wanted}\n"))
    {
        return Ok(versions.to_owned());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _ = fs::remove_file(&done);
    let archives = folder.join("archives");
    for old in [&archives, &folder.join("root"), &folder.join("own")] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::create_dir_all(archives.join("partial"))?;
    let lists = lists_of_debian(folder.parent().unwrap_or(folder), "deb")?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(&lists).args(["-qq", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1"]);
        apt.arg(format!("-oDir::Cache::archives={}", archives.display()));
        apt.args(arguments).current_dir(&archives);
        apt
    };
    run(&mut apt(&["update"]))?;
    let mut install = apt(&["install", "--yes", "--no-install-recommends", "--download-only"]);
    run(install.args(packages).args(mpi))?;
    // What this system has is not downloaded by that, and its MPI's files may be changed.
    run(apt(&["download"]).args(packages).args(mpi))?;
    let mut versions = Vec::new();
    for archive in sorted(&archives)? {
        let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = name.split('_');
        let (Some(package), Some(version)) = (parts.next(), parts.next()) else { continue };
        let is_mpi = mpi.contains(&package);
        let to = folder.join(if is_mpi { "own" } else { "root" });
        run(Command::new("dpkg").arg("-x").arg(&archive).arg(&to))?;
        if packages.iter().any(|wanted| wanted == package) || mpi.first() == Some(&package) {
            versions.push(format!("{package} {}", version.replace("%3a", ":")));
        }
    }
    if !prepare.is_empty() {
        run(Command::new("sh").args(["-e", "-c", prepare]).current_dir(folder.join("root")))?;
    }
    fs::remove_dir_all(&archives)?;
    let versions = versions.join(", ");
    fs::write(&done, format!("{wanted}\n{versions}")).context("cannot write .unpacked")?;
    Ok(versions)
}

fn sorted(archives: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn run(command: &mut Command) -> Result<()> {
    let outcome = process::capture(command, GET_MAX)?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(command), outcome.reason());
    }
    Ok(())
}
