//! The packages in a fresh Debian beside its MPICH: installed, chosen, used, left, removed.
//!
//! The Debian is a folder that debootstrap fills; each command runs in it with mounts and processes of its
//! own, so nothing is left when the folder is removed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{paths, process};

/// For what hangs: hundreds of megabytes come over the network.
const LIMIT: Duration = Duration::from_secs(1800);

/// The groups of alternatives that a user switches, with our choice and MPICH's.
fn groups(triplet: &str) -> [(String, String, String); 3] {
    let bin = |name: &str, of: &str| format!("/usr/bin/{name}.{of}");
    [
        ("mpi".to_owned(), bin("mpicc", "ayatori"), bin("mpicc", "mpich")),
        ("mpirun".to_owned(), bin("mpirun", "ayatori"), bin("mpirun", "mpich")),
        (
            format!("mpi-{triplet}"),
            format!("/usr/lib/{triplet}/ayatori/include"),
            format!("/usr/include/{triplet}/mpich"),
        ),
    ]
}

/// A Debian in a folder, which goes with this value.
struct Debian {
    root: PathBuf,
}

impl Debian {
    fn make(suite: &str) -> Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "--test makes a chroot, which needs root");
        let root = std::env::temp_dir().join(format!("ayatori-deb-{}", std::process::id()));
        fs::create_dir(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let debian = Self { root };
        let packages = "ca-certificates,gcc,g++,gfortran,libc6-dev,pkg-config";
        let mut debootstrap = Command::new("unshare");
        debootstrap.args(["--mount", "debootstrap", "--variant=minbase", &format!("--include={packages}")]);
        let made = process::capture(debootstrap.arg(suite).arg(&debian.root), LIMIT);
        let made = made.context("debootstrap (Debian: apt-get install debootstrap)")?;
        if !made.success() {
            let said = process::last_lines(&(made.stdout.clone() + &made.stderr), 20);
            bail!("debootstrap {suite}: {}\n{said}", made.reason());
        }
        // No daemon is started, as in any chroot.
        let policy = debian.root.join("usr/sbin/policy-rc.d");
        fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o755))?;
        Ok(debian)
    }

    /// Runs a line of shell inside; what it printed.
    fn run(&self, line: &str) -> Result<String> {
        let root = self.root.display();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", &format!("--mount-proc={root}/proc"), "chroot"]);
        command.arg(&self.root).args(["sh", "-euc", line]).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8").env("HOME", "/root");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        let outcome = process::capture(&mut command, LIMIT)?;
        if !outcome.success() {
            let said = process::last_lines(&(outcome.stdout.clone() + &outcome.stderr), 20);
            bail!("in Debian, `{line}`: {}\n{said}", outcome.reason());
        }
        Ok(outcome.stdout)
    }

    /// What packages can leave behind: all files but those that any installation changes.
    fn files(&self) -> Result<BTreeSet<String>> {
        let text = self.run(
            "find / -xdev \\( -path /proc -o -path /sys -o -path /tmp -o -path /var/cache -o -path /var/log \
             -o -path /var/lib/apt -o -path /debs \\) -prune -o -printf '%p %l\\n'",
        );
        Ok(text?.lines().map(str::to_owned).collect())
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("xtask: {} is left: {error}", self.root.display());
        }
    }
}

/// Installs the packages beside MPICH, switches both ways, compiles and runs, removes.
///
/// # Errors
/// Any step fails, or something is left.
pub(super) fn test(suite: &str, packages: &[PathBuf]) -> Result<()> {
    println!("deb: a fresh {suite} and its MPICH");
    let debian = Debian::make(suite)?;
    debian.run("apt-get -qq update && apt-get -qq install -y --no-install-recommends mpich libmpich-dev")?;
    let triplet = debian.run("gcc -print-multiarch")?.trim().to_owned();
    let programs = debian.root.join("tmp/programs");
    fs::create_dir(&programs)?;
    for (name, source) in SOURCES {
        fs::copy(paths::root().join(source), programs.join(name)).with_context(|| source.to_owned())?;
    }
    let before = debian.files()?;
    install(&debian, packages)?;
    ensure!(
        debian.run("readlink -f /usr/bin/mpirun")? != debian.run("readlink -f /usr/bin/mpirun.ayatori")?,
        "installing the packages has changed which mpirun there is"
    );
    choose(&debian, &triplet, true)?;
    works(&debian, "Ayatori")?;
    found(&debian)?;
    choose(&debian, &triplet, false)?;
    works(&debian, "MPICH")?;
    println!("deb: a program of ours goes on with both chosen otherwise");
    let said = debian.run("cd /tmp/programs && mpiexec.ayatori -n 2 ./c-Ayatori")?;
    ensure!(said.matches("of 2").count() == 2, "it says {said:?}");
    // Ours is chosen when it goes, so the alternatives have to move.
    choose(&debian, &triplet, true)?;
    debian.run("apt-get -qq purge -y ayatori libmpi-abi-ayatori-dev libmpi-abi1-ayatori")?;
    works(&debian, "MPICH")?;
    let after = debian.files()?;
    let left: Vec<&String> = after.difference(&before).filter(|line| !is_bookkeeping(line)).collect();
    let lost: Vec<&String> = before.difference(&after).filter(|line| !is_bookkeeping(line)).collect();
    ensure!(left.is_empty() && lost.is_empty(), "after the removal: left {left:#?}, lost {lost:#?}");
    println!("deb: removed; {} files as before, nothing left", after.len());
    Ok(())
}

/// Programs that say which library they run on and of how many ranks they are.
const SOURCES: [(&str, &str); 3] = [
    ("hello.c", "tests/find-mpi/hello.c"),
    ("hello.cpp", "tests/find-mpi/hello.cpp"),
    ("hello.f90", "tests/find-mpi/hello.f90"),
];

fn install(debian: &Debian, packages: &[PathBuf]) -> Result<()> {
    let folder = debian.root.join("debs");
    fs::create_dir(&folder)?;
    for package in packages {
        let name = package.file_name().expect("a package has a name");
        fs::copy(package, folder.join(name)).with_context(|| package.display().to_string())?;
    }
    // By name from a folder, so that apt fetches what they depend on.
    debian.run("apt-get -qq install -y --no-install-recommends /debs/*.deb").map(drop)
}

fn choose(debian: &Debian, triplet: &str, is_ours: bool) -> Result<()> {
    for (group, ours, other) in groups(triplet) {
        let choice = if is_ours { ours } else { other };
        debian.run(&format!("update-alternatives --quiet --set {group} {choice}"))?;
    }
    Ok(())
}

/// Programs in C, C++ and Fortran, by the names that everybody uses.
fn works(debian: &Debian, library: &str) -> Result<()> {
    for (language, compile) in
        [("c", "mpicc hello.c"), ("cxx", "mpic++ hello.cpp"), ("fortran", "mpif90 hello.f90")]
    {
        let said = debian.run(&format!(
            "cd /tmp/programs && {compile} -o {language}-{library} && mpiexec -n 2 ./{language}-{library}"
        ))?;
        let count = said.lines().filter(|line| line.contains(" of 2") && line.contains(library)).count();
        ensure!(count == 2, "{library}, {language}: two ranks said {said:?}");
    }
    println!("deb: mpicc, mpic++, mpif90 and mpiexec are {library}'s");
    Ok(())
}

/// Programs are built without wrappers, by the general names; they have no path to the library in them.
fn found(debian: &Debian) -> Result<()> {
    let line = "cd /tmp/programs && gcc hello.c $(pkg-config --cflags --libs mpi-c) -o plain \
                && mpiexec -n 2 ./plain && ldd plain && readelf -d plain";
    let said = debian.run(line)?;
    ensure!(said.contains("libmpi_abi.so.1 => /"), "pkg-config mpi-c: {said}");
    ensure!(!said.contains("RUNPATH") && !said.contains("RPATH"), "a program has a path in it: {said}");
    ensure!(said.matches(" of 2").count() == 2, "pkg-config mpi-c: {said}");
    debian.run("man_page=$(readlink -f /usr/share/man/man1/mpirun.1.gz); test -e \"$man_page\"")?;
    println!("deb: pkg-config mpi-c finds the library that is chosen");
    Ok(())
}

/// What dpkg and the loader keep of any installation.
fn is_bookkeeping(line: &str) -> bool {
    ["/var/lib/dpkg/", "/etc/ld.so.cache", "/var/cache/"].iter().any(|path| line.starts_with(path))
        && !line.starts_with("/var/lib/dpkg/alternatives/")
        && !line.starts_with("/var/lib/dpkg/info/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_left_behind_are_not_bookkeeping() {
        assert!(is_bookkeeping("/var/lib/dpkg/status "));
        assert!(!is_bookkeeping("/var/lib/dpkg/alternatives/libmpi_abi.so.1-x86_64-linux-gnu "));
        assert!(!is_bookkeeping("/usr/bin/mpicc.ayatori "));
    }
}
