//! What has to be there: the probe, and packages of Debian.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;

const LIMIT: Duration = Duration::from_secs(600);

/// Compiles a C program with the installation's `mpicc`.
///
/// # Errors
/// The compiler's message.
pub(super) fn compile(prefix: &Path, source: &Path, program: &Path) -> Result<()> {
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    mpicc.arg(source).args(["-std=gnu11", "-O2", "-o"]).arg(program);
    checked(&mut mpicc).map(|_| ())
}

/// Runs a command to its good end; gives what it prints.
///
/// # Errors
/// It cannot be started, or fails.
pub(super) fn checked(command: &mut Command) -> Result<String> {
    let outcome = process::capture(command, LIMIT)?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(command), outcome.reason());
    }
    Ok(outcome.stdout)
}

/// Where a program is, in `PATH` and where daemons are.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    places.map(|place| place.join(name)).find(|program| program.is_file())
}

/// Makes sure that these programs are there, by installing packages if we may.
///
/// # Errors
/// A program is missing and cannot be installed.
pub(super) fn require(programs: &[&str], packages: &[&str]) -> Result<()> {
    let missing = || programs.iter().find(|name| find(name).is_none());
    let Some(first) = missing() else { return Ok(()) };
    if !nix::unistd::geteuid().is_root() || find("apt-get").is_none() {
        bail!("there is no {first} (Debian: apt-get install {})", packages.join(" "));
    }
    let mut apt = Command::new("apt-get");
    apt.args(["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"]).args(packages);
    checked(apt.env("DEBIAN_FRONTEND", "noninteractive"))?;
    match missing() {
        None => Ok(()),
        Some(name) => bail!("there is no {name} after the installation of {}", packages.join(" ")),
    }
}

/// Unpacks packages of Debian below `root`, where `mark` is then: beside what the machine has installed.
///
/// # Errors
/// There is no apt, or a package cannot be had.
pub(super) fn unpack(root: &Path, packages: &[&str], mark: &str) -> Result<()> {
    if root.join(mark).exists() {
        return Ok(());
    }
    let archives = root.with_extension("debs");
    fs::create_dir_all(&archives)?;
    fs::create_dir_all(root)?;
    checked(Command::new("apt-get").arg("download").args(packages).current_dir(&archives))?;
    for entry in fs::read_dir(&archives)? {
        checked(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(root))?;
    }
    if root.join(mark).exists() {
        Ok(())
    } else {
        Err(anyhow::anyhow!("no {mark} in {}", packages.join(" ")))
    }
}

/// Writes a file and gives its path.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(path: PathBuf, text: &str) -> Result<PathBuf> {
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}
