//! Building the product and laying it out as an installation.
//!
//! `build/prefix` is the staged installation that `run`, `test`, `bench` and `conformance` use; `install`
//! makes the same tree under a prefix of the user's. The tree:
//!
//! ```text
//! bin/      ayatori, mpiexec, mpirun (both the same program), mpicc, mpicxx, mpicc_abi, mpicxx_abi
//! include/  mpi.h, mpi-ext.h
//! lib/      libmpi_abi.so.1, libmpi_abi.so -> libmpi_abi.so.1, pkgconfig/{ayatori,mpi,mpi-c,mpi-cxx}.pc,
//!           ayatori/mpich/libmpi.so.12, ayatori/openmpi/libmpi.so.40
//! share/    completions of bash, zsh and fish, manual pages, modulefiles/ayatori/VERSION and VERSION.lua
//! ```
//!
//! Where there is a Fortran compiler, also what `fortran` makes.
//!
//! What is installed has no debugging information (five sixths of the files); cargo's `target/release` keeps
//! it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::target::Target;
use crate::{abi, fortran, paths, process, translate};

/// The version of what is staged.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of `cargo xtask install`.
#[derive(clap::Args)]
pub(crate) struct InstallOptions {
    /// Where to install.
    #[arg(long, env = "PREFIX", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put this directory in front of the prefix when copying (for packagers).
    #[arg(long, env = "DESTDIR")]
    destdir: Option<PathBuf>,
}

/// `cargo xtask install`.
pub(crate) fn install(options: &InstallOptions) -> Result<()> {
    build_release()?;
    let place = match &options.destdir {
        Some(destdir) => {
            let inner = options.prefix.strip_prefix("/").unwrap_or(&options.prefix);
            destdir.join(inner)
        }
        None => options.prefix.clone(),
    };
    lay_out(&place, &Target::HERE)?;
    println!("installed under {}: try `{}/bin/ayatori info`", place.display(), options.prefix.display());
    Ok(())
}

/// Set for commands that run while others do (`cargo xtask ci`): what is staged is left as it is.
pub(crate) const IS_STAGED: &str = "AYATORI_XTASK_IS_STAGED";

/// The staged installation, built if need be, by a process once: later calls find it while another thread
/// may compile something else into `target/release`. Returns its prefix.
pub(crate) fn stage() -> Result<PathBuf> {
    static IS_DONE: Mutex<bool> = Mutex::new(false);
    let prefix = paths::build_dir().join("prefix");
    let mut is_done = IS_DONE.lock().expect("staging does not panic");
    if std::env::var_os(IS_STAGED).is_none() && !*is_done {
        build_release()?;
        lay_out(&prefix, &Target::HERE)?;
        *is_done = true;
    }
    Ok(prefix)
}

fn build_release() -> Result<()> {
    process::show(&mut cargo_build())
}

/// The command that builds what is staged; it needs no other lock than cargo's on `target/release`.
pub(crate) fn cargo_build() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "-p", "ayatori", "-p", "ayatori-mpi"]).current_dir(paths::root());
    cargo
}

/// Makes an installation of what cargo has released for `target`. Installations under several prefixes are
/// made from the same files (`build/fortran`, what is stripped), so one is made at a time.
///
/// # Errors
/// Something was not built, or a file cannot be written.
pub(crate) fn lay_out(prefix: &Path, target: &Target) -> Result<()> {
    let _lock = lock(&target.build_dir())?;
    let release = target.release_dir();
    let crate_dir = paths::root().join("crates/mpi");
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib"));
    install_stripped(target, &release.join("ayatori"), &bin.join("ayatori"))?;
    link("ayatori", &bin.join("mpiexec"))?;
    link("ayatori", &bin.join("mpirun"))?;
    install_stripped(target, &release.join("libmpi_abi.so"), &lib.join("libmpi_abi.so.1"))?;
    link("libmpi_abi.so.1", &lib.join("libmpi_abi.so"))?;
    for header in ["mpi.h", "mpi-ext.h"] {
        copy(&crate_dir.join("include").join(header), &prefix.join("include").join(header), 0o644)?;
    }
    for wrapper in ["mpicc", "mpicxx"] {
        copy(&crate_dir.join("wrappers").join(wrapper), &bin.join(wrapper), 0o755)?;
        link(wrapper, &bin.join(format!("{wrapper}_abi")))?;
    }
    pkg_config(prefix, "ayatori", &["mpi", "mpi-c", "mpi-cxx"])?;
    module_files(prefix)?;
    manners(prefix, target)?;
    translate::lay_out(prefix, target)?;
    fortran::lay_out(prefix, target)
}

/// Holds off other threads and processes that make an installation from `build`, until it is dropped.
fn lock(build: &Path) -> Result<File> {
    let path = build.join("installing.lock");
    let what = || format!("cannot lock {}", path.display());
    fs::create_dir_all(build).with_context(what)?;
    let file = File::create(&path).with_context(what)?;
    file.lock().with_context(what)?;
    Ok(file)
}

/// For Environment Modules, and for Lmod: both find the prefix from their own place.
fn module_files(prefix: &Path) -> Result<()> {
    let folder = prefix.join("share/modulefiles/ayatori");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (from, to) in [("ayatori", VERSION.to_owned()), ("ayatori.lua", format!("{VERSION}.lua"))] {
        let source = paths::root().join("packaging/modulefiles").join(from);
        let text =
            fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        fs::write(folder.join(to), text.replace("@VERSION@", VERSION))?;
    }
    Ok(())
}

/// Completions and manual pages, which the command makes.
fn manners(prefix: &Path, target: &Target) -> Result<()> {
    let ayatori = prefix.join("bin/ayatori");
    for (shell, at) in [
        ("bash", "share/bash-completion/completions/ayatori"),
        ("zsh", "share/zsh/site-functions/_ayatori"),
        ("fish", "share/fish/vendor_completions.d/ayatori.fish"),
    ] {
        let mut command = target.program(&ayatori);
        let made = process::capture(command.args(["completions", shell]), Duration::from_secs(60))?;
        if !made.success() {
            bail!("`ayatori completions {shell}` {}", made.reason());
        }
        let at = prefix.join(at);
        fs::create_dir_all(at.parent().expect("a folder inside the prefix"))?;
        fs::write(&at, made.stdout).with_context(|| format!("cannot write {}", at.display()))?;
    }
    process::show(target.program(&ayatori).args(["man", "--out"]).arg(prefix.join("share/man/man1")))
}

/// Copies a program or a library without its debugging information.
pub(crate) fn install_stripped(target: &Target, from: &Path, to: &Path) -> Result<()> {
    let stripped = from.with_extension("stripped");
    let mut strip = Command::new(target.tool("strip"));
    strip.arg("--strip-debug").arg("-o").arg(&stripped).arg(from);
    process::show(&mut strip).context("stripping needs binutils (Debian: apt-get install binutils)")?;
    copy(&stripped, to, 0o755)
}

/// What is wrong with the installed library: debugging information in it, or functions of the ABI that it
/// lacks.
///
/// # Errors
/// Something is, or it cannot be read.
pub(crate) fn check(prefix: &Path) -> Result<()> {
    for name in ["lib/libmpi_abi.so.1", "bin/ayatori"] {
        let path = prefix.join(name);
        let sections = debug_sections(&fs::read(&path).with_context(|| path.display().to_string())?)?;
        if !sections.is_empty() {
            bail!("{} has debugging information: {}", path.display(), sections.join(", "));
        }
    }
    let library = fs::read(prefix.join("lib/libmpi_abi.so.1"))?;
    let file = object::File::parse(&*library)?;
    let defined: BTreeSet<&str> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    let wanted: Vec<String> =
        abi::functions()?.into_iter().flat_map(|name| [format!("P{name}"), name]).collect();
    let missing: Vec<&String> = wanted.iter().filter(|name| !defined.contains(name.as_str())).collect();
    if !missing.is_empty() {
        bail!("the installed library lacks {} of {} functions: {missing:?}", missing.len(), wanted.len());
    }
    println!("{} functions of the ABI, no debugging information", wanted.len());
    translate::check(prefix)
}

fn debug_sections(bytes: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(bytes)?;
    let names = file.sections().filter_map(|section| section.name().map(str::to_owned).ok());
    // `.debug_gdb_scripts` is data of the program, a few bytes that name a script: strip leaves it.
    Ok(names.filter(|name| name.starts_with(".debug_") && name != ".debug_gdb_scripts").collect())
}

/// Copies through a temporary name: a running program keeps the file it has open.
pub(crate) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let what = || format!("cannot copy {} to {}", from.display(), to.display());
    let dir = to.parent().expect("a file inside the prefix");
    fs::create_dir_all(dir).with_context(what)?;
    let name = to.file_name().expect("a file name").to_string_lossy();
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    fs::copy(from, &temporary).with_context(what)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).with_context(what)?;
    fs::rename(&temporary, to).with_context(what)
}

pub(crate) fn link(target: &str, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
    }
    symlink(target, at).with_context(|| format!("cannot link {} to {target}", at.display()))
}

/// What pkg-config reads: ours, and under each name that build systems ask for a file that refers to it.
/// Paths are relative to the file, so an installation can be moved.
pub(crate) fn pkg_config(prefix: &Path, name: &str, general: &[&str]) -> Result<()> {
    let folder = prefix.join("lib/pkgconfig");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |template: &str, as_name: &str| {
        let template = paths::root().join("crates/mpi/wrappers").join(format!("{template}.pc.in"));
        let text =
            fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        let text = text.replace("@VERSION@", VERSION).replace("@NAME@", as_name).replace("@OF@", name);
        let to = folder.join(format!("{as_name}.pc"));
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))
    };
    write(name, name)?;
    general.iter().try_for_each(|general| write("mpi", general))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_installation_is_made_at_a_time() {
        let build = std::env::temp_dir().join(format!("ayatori-stage-{}", std::process::id()));
        let first = lock(&build).unwrap();
        let second = File::open(build.join("installing.lock")).unwrap();
        assert!(second.try_lock().is_err());
        drop(first);
        second.try_lock().unwrap();
        fs::remove_dir_all(&build).unwrap();
    }

    #[test]
    fn debugging_information_is_found_where_there_is_some() {
        let here = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(debug_sections(&here).unwrap().iter().any(|name| name == ".debug_line"));
    }
}
