//! Libraries that let programs built for another MPI run on ours: `libmpi.so.12` (MPICH's ABI) and
//! `libmpi.so.40` (Open MPI's).
//!
//! ```text
//! functions.txt -> kind.rs -> functions.rs -> functions.c, calls.h, calls.c --+
//! constants.txt, mpich.txt or openmpi.txt                                     |
//!               -> constants.rs -> foreign.h, values.h, tables.c -------------+-> libmpi.so.12 or .40
//! translate/c ----------------------------------------------------------------+
//! ```
//!
//! Nothing that is printed is in the repository; `build/translate` has it. A translator is installed in a
//! directory of its own, `lib/ayatori/mpich` or `lib/ayatori/openmpi`, which is on no search path: `ayatori
//! run --abi` puts it there.

mod constants;
mod functions;
mod kind;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{abi, paths, process, stage};
pub(crate) use constants::{Abi, Foreign};

/// Options of `cargo xtask translate`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation that has lib/libmpi_abi.so.1.
    #[arg(long)]
    prefix: PathBuf,
}

/// `cargo xtask translate`: makes the translators of an installation anew.
pub(crate) fn run(options: &Options) -> Result<()> {
    lay_out(&options.prefix)
}

/// Prints, compiles and installs both translators into `prefix`.
///
/// # Errors
/// The C compiler refuses something, or a file cannot be written.
pub(crate) fn lay_out(prefix: &Path) -> Result<()> {
    Abi::ALL.into_iter().try_for_each(|abi| translator(abi, prefix))
}

/// The name that programs ask for, and others: Debian's MPICH has its own, and mpi4py asks for `libmpi.so`.
fn names(abi: Abi) -> (&'static str, &'static [&'static str]) {
    match abi {
        Abi::Mpich => ("libmpi.so.12", &["libmpich.so.12", "libmpi.so"]),
        Abi::OpenMpi => ("libmpi.so.40", &["libmpi.so"]),
    }
}

fn translator(abi: Abi, prefix: &Path) -> Result<()> {
    let build = paths::build_dir().join("translate").join(abi.name());
    fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let printed = print(abi, &build)?;
    let mark = mark(abi, &printed)?;
    let stamp = build.join("stamp");
    let (library, others) = names(abi);
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&mark) {
        // Without the stamp, what a failure leaves half made is made anew.
        let _ = fs::remove_file(&stamp);
        compile(abi, &build, library)?;
        fs::write(&stamp, mark).context("cannot write a stamp of build/translate")?;
    }
    let to = prefix.join("lib/ayatori").join(abi.name());
    stage::copy(&build.join(library), &to.join(library), 0o755)?;
    others.iter().try_for_each(|name| stage::link(library, &to.join(name)))
}

/// A foreign ABI's constants.
///
/// # Errors
/// The table cannot be read.
pub(crate) fn foreign(abi: Abi) -> Result<Foreign> {
    let path = paths::root().join("crates/mpi/abi").join(format!("{}.txt", abi.name()));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Foreign::read(abi, &text).with_context(|| path.display().to_string())
}

/// Writes all that follows from the tables.
fn print(abi: Abi, build: &Path) -> Result<Vec<String>> {
    let (functions, items) = abi::tables()?;
    let (foreign, ours) = (foreign(abi)?, constants::ours(&items)?);
    let printed = [
        ("foreign.h", constants::header(&foreign, &ours, &items, &functions)),
        ("values.h", constants::values(&foreign, &ours)),
        ("tables.c", constants::tables(&foreign, &ours)),
        ("calls.h", functions::declarations(&functions)),
        ("calls.c", functions::definitions(&functions)),
        ("functions.c", functions::functions(&functions)?),
    ];
    for (name, text) in &printed {
        let path = build.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(printed.into_iter().map(|(_, text)| text).collect())
}

/// The sources in the repository.
fn sources() -> PathBuf {
    paths::root().join("translate/c")
}

/// Changes when what is compiled does.
fn mark(abi: Abi, printed: &[String]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    printed.hash(&mut hasher);
    let entries = fs::read_dir(sources()).context("cannot read translate/c")?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    include_str!("mod.rs").hash(&mut hasher);
    Ok(format!("{} {:016x}\n", abi.name(), hasher.finish()))
}

fn compile(abi: Abi, build: &Path, library: &str) -> Result<()> {
    let mut compile = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    compile.args(["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-shared", "-Wl,-z,now", "-Wl,-z,defs"]);
    // Two levels up from lib/ayatori/ABI is lib.
    compile.arg(format!("-Wl,-soname,{library}")).arg("-Wl,-rpath,$ORIGIN/../..");
    compile.arg(format!("-DTRANSLATOR=\"{library}\""));
    compile.arg("-I").arg(build).arg("-I").arg(sources());
    compile.arg("-o").arg(build.join(library));
    for name in ["functions.c", "calls.c", "tables.c"] {
        compile.arg(build.join(name));
    }
    let own = format!("{}.c", abi.name());
    for name in ["library.c", "callbacks.c", "special.c", &own] {
        compile.arg(sources().join(name));
    }
    process::show(compile.args(["-ldl", "-lpthread", "-s"]))
}
