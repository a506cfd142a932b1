//! `cargo xtask find-mpi`: CMake's FindMPI, Meson's `dependency('mpi')`, pkg-config and environment modules
//! find an installation, and programs in C, C++ and Fortran are built with what they find.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{paths, process, skips, stage};

/// For what hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Endings of the programs' sources, and the names by which pkg-config knows what each needs.
const PROGRAMS: [(&str, &str, &str); 3] =
    [("c", "cc", "mpi-c"), ("cpp", "c++", "mpi-cxx"), ("f90", "gfortran", "mpi-fort")];

/// Options of `cargo xtask find-mpi`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation to find, in place of the one that is built.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<PathBuf>,
}

/// `cargo xtask find-mpi`.
///
/// # Errors
/// A tool does not find the installation, or what it builds does not run on it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let prefix = match &options.prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => stage::stage()?,
    };
    check(&prefix)
}

/// A way to build, and the programs or files it needs.
struct Way {
    name: &'static str,
    needs: &'static [&'static str],
    build: fn(&Site<'_>) -> Result<()>,
}

const WAYS: [Way; 5] = [
    Way { name: "CMake", needs: &["cmake", "make"], build: by_cmake },
    Way { name: "Meson", needs: &["meson", "ninja"], build: by_meson },
    Way { name: "pkg-config", needs: &["pkg-config"], build: by_pkg_config },
    Way { name: "Lmod", needs: &[LMOD], build: |site| by_module(site, LMOD) },
    Way { name: "Environment Modules", needs: &[MODULES], build: |site| by_module(site, MODULES) },
];

/// What a shell reads to have the command `module`, as Debian has it.
const LMOD: &str = "/usr/share/lmod/lmod/init/sh";
const MODULES: &str = "/usr/share/modules/init/sh";

/// Where a way finds and builds.
struct Site<'p> {
    prefix: &'p Path,
    sources: PathBuf,
    build: PathBuf,
}

/// All ways on an installation; those whose tools are missing are counted as skipped.
///
/// # Errors
/// As [`run`].
pub(crate) fn check(prefix: &Path) -> Result<()> {
    for way in WAYS {
        let what = format!("{} (cargo xtask find-mpi)", way.name);
        if !prefix.join("lib/libmpi_abi_fortran.so").exists() {
            skips::note(&what, "the installation has no Fortran; it needs gfortran");
            continue;
        }
        if let Some(missing) = way.needs.iter().find(|name| !is_there(name)) {
            skips::note(&what, &format!("there is no {missing}"));
            continue;
        }
        let build = paths::build_dir().join("find-mpi").join(way.name);
        if build.exists() {
            fs::remove_dir_all(&build).with_context(|| format!("an old {}", build.display()))?;
        }
        fs::create_dir_all(&build)?;
        let site = Site { prefix, sources: paths::root().join("tests/find-mpi"), build };
        (way.build)(&site).with_context(|| way.name)?;
        for (suffix, ..) in PROGRAMS {
            runs(&site, suffix).with_context(|| format!("{}, hello.{suffix}", way.name))?;
        }
        println!("find-mpi: {} finds the library; programs in C, C++ and Fortran run on it", way.name);
    }
    Ok(())
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Site<'_> {
    /// A command that finds this installation and no other: no variable names a compiler or another MPI.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.prefix.join("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path).unwrap_or_default());
        command.env("PKG_CONFIG_LIBDIR", self.prefix.join("lib/pkgconfig"));
        for name in ["MPI_HOME", "MPICC", "MPICXX", "MPIFC", "MPIF90", "MPIF77", "PKG_CONFIG_PATH"] {
            command.env_remove(name);
        }
        command
    }
}

/// Runs a command to its good end; what it printed.
fn said(command: &mut Command) -> Result<String> {
    let outcome = process::capture(command, LIMIT)?;
    if !outcome.success() {
        let end = process::last_lines(&(outcome.stdout.clone() + &outcome.stderr), 30);
        bail!("`{}`: {}\n{end}", process::line(command), outcome.reason());
    }
    Ok(outcome.stdout)
}

fn by_cmake(site: &Site<'_>) -> Result<()> {
    let mut configure = site.command("cmake");
    configure.args(["-G", "Unix Makefiles", "-S"]).arg(&site.sources).arg("-B").arg(&site.build);
    let text = said(&mut configure)?;
    let mpiexec = text.lines().find_map(|line| line.strip_prefix("-- mpiexec: "));
    let own = site.prefix.join("bin/mpiexec");
    ensure!(mpiexec.is_some_and(|found| Path::new(found) == own), "FindMPI takes {mpiexec:?} for mpiexec");
    said(site.command("cmake").arg("--build").arg(&site.build)).map(drop)
}

fn by_meson(site: &Site<'_>) -> Result<()> {
    let text = said(site.command("meson").arg("setup").arg(&site.build).arg(&site.sources))?;
    let versions = text.matches(&format!("found: YES {}", stage::VERSION)).count();
    ensure!(versions == PROGRAMS.len(), "Meson does not find version {}:\n{text}", stage::VERSION);
    said(site.command("ninja").arg("-C").arg(&site.build)).map(drop)
}

fn by_pkg_config(site: &Site<'_>) -> Result<()> {
    for (suffix, compiler, package) in PROGRAMS {
        let text = said(site.command("pkg-config").args(["--cflags", "--libs", package]))?;
        let flags: Vec<&str> = text.split_whitespace().collect();
        let program = site.build.join(format!("hello_{suffix}"));
        let source = site.sources.join(format!("hello.{suffix}"));
        said(site.command(compiler).arg(source).arg("-o").arg(program).args(flags))?;
    }
    Ok(())
}

/// The wrappers of the module that is loaded; unloaded, it leaves no variable.
fn by_module(site: &Site<'_>, init: &str) -> Result<()> {
    let line = "set -e\n. \"$1\"\nmodule use \"$2\"\nmodule load ayatori\n\
                for pair in c:mpicc cpp:mpicxx f90:mpifort; do\n\
                \"$MPI_HOME/bin/${pair#*:}\" \"$3/hello.${pair%:*}\" -o \"$4/hello_${pair%:*}\"\ndone\n\
                test \"$(command -v mpicc)\" = \"$MPI_HOME/bin/mpicc\"\n\
                module unload ayatori\ntest -z \"${MPI_HOME:-}\"\n";
    // The installation is in no path but by the module.
    let mut shell = Command::new("bash");
    shell.args(["-c", line, "bash", init]).arg(site.prefix.join("share/modulefiles"));
    shell.arg(&site.sources).arg(&site.build);
    for name in ["MPI_HOME", "CC", "CXX", "FC", "MODULEPATH", "LOADEDMODULES"] {
        shell.env_remove(name);
    }
    said(&mut shell).map(drop)
}

/// Two ranks know that they are two, and which library they are on.
fn runs(site: &Site<'_>, suffix: &str) -> Result<()> {
    let mut mpiexec = Command::new(site.prefix.join("bin/mpiexec"));
    let text = said(mpiexec.args(["-n", "2"]).arg(site.build.join(format!("hello_{suffix}"))))?;
    let count = text.lines().filter(|line| line.contains(" of 2 on Ayatori ")).count();
    ensure!(count == 2, "two ranks said {text:?}");
    Ok(())
}
