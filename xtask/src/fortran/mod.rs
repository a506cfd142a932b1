//! The Fortran binding: what is printed from the tables of the ABI, and how it is compiled and installed.
//!
//! ```text
//! crates/mpi/abi/*.txt ─► symbols.rs, sections.rs ─► *.c ───┐
//!                    │    fortran/c, fortran/f90 ────────────┼─► lib/libmpi_abi_fortran.so.1
//!                    ├──► modules.rs, interfaces.rs ► *.f90 ─┴─► include/*.mod
//!                    └──► constants.rs ─────────────► mpif.h ──► include/
//! ```
//!
//! Nothing that is printed is in the repository; `build/fortran` has it. The C prototypes in `functions.txt`
//! are the one source: `prototype.rs` says what each argument is in Fortran, the printers write that in C and
//! in Fortran, and the C compiler checks the calls against `mpi.h`.

mod compiler;
mod constants;
mod interfaces;
mod modules;
mod prototype;
mod sections;
mod symbols;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::target::Target;
use crate::{abi, paths, process, stage};
use compiler::Compiler;

/// What the library is linked as.
const LIBRARY: &str = "libmpi_abi_fortran.so.1";

/// The wrapper's names.
const WRAPPERS: &[&str] = &["mpif90", "mpif77", "mpifort_abi"];

/// Options of `cargo xtask fortran`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation that has include/mpi.h and lib/libmpi_abi.so.
    #[arg(long)]
    prefix: PathBuf,
}

/// `cargo xtask fortran`: makes the Fortran part of an installation anew.
pub(crate) fn run(options: &Options) -> Result<()> {
    lay_out(&options.prefix, &Target::HERE)
}

/// Prints, compiles for `target` and installs the binding into `prefix`, which has the C part. Without a
/// Fortran compiler it says so.
///
/// # Errors
/// A compiler refuses something, or a file cannot be written.
pub(crate) fn lay_out(prefix: &Path, target: &Target) -> Result<()> {
    let Some(compiler) = Compiler::find(target)? else {
        println!(
            "no Fortran compiler: mpif.h, the modules and mpifort are left out \
             (Debian: apt-get install gfortran; another compiler: FC=)"
        );
        return Ok(());
    };
    let build = target.build_dir().join("fortran");
    fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let printed = print(&build)?;
    let mark = mark(&compiler, &printed, prefix)?;
    let stamp = build.join("stamp");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&mark) {
        // Without the stamp, what a failure leaves half made is made anew.
        let _ = fs::remove_file(&stamp);
        let mut objects = compile_c(target, &build, &prefix.join("include"))?;
        objects.extend(compile_modules(&compiler, &build)?);
        link(&compiler, &objects, prefix, &build.join(LIBRARY))?;
        fs::write(&stamp, mark).context("cannot write the stamp of build/fortran")?;
    }
    install(&compiler, &build, prefix)
}

/// A file that follows from the tables.
struct Printed {
    name: &'static str,
    text: String,
}

/// Writes all that follows from the tables.
fn print(build: &Path) -> Result<Vec<Printed>> {
    let (functions, items) = abi::tables()?;
    let procedures = prototype::procedures(&functions)?;
    let constants = constants::constants(&items)?;
    let printed = vec![
        Printed { name: "symbols.c", text: symbols::print(&procedures) },
        Printed { name: "section_symbols.c", text: sections::print(&procedures) },
        Printed { name: "mpif.h", text: constants::mpif_h(&constants) },
        Printed { name: "mpi_types.f90", text: modules::types(&constants) },
        Printed { name: "mpi.f90", text: modules::mpi(&procedures, &constants) },
        Printed { name: "mpi_f08_types.f90", text: modules::f08_types(&constants) },
        Printed { name: "mpi_f08.f90", text: modules::f08(&procedures) },
        Printed { name: "f08_procedures.f90", text: modules::f08_procedures(&procedures) },
    ];
    for Printed { name, text } in &printed {
        let path = build.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(printed)
}

/// The C side of the binding that is made by rule, and the names of its procedures without `mpi_`.
///
/// # Errors
/// The tables of the ABI cannot be read.
pub(crate) fn symbols() -> Result<(String, Vec<String>)> {
    let procedures = prototype::procedures(&abi::tables()?.0)?;
    let names = procedures.iter().map(|procedure| procedure.name.to_lowercase()).collect();
    Ok((symbols::print(&procedures), names))
}

/// The sources in the repository.
fn sources() -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in ["fortran/c", "fortran/f90"].map(|folder| paths::root().join(folder)) {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            all.push(entry?.path());
        }
    }
    all.sort();
    Ok(all)
}

/// Changes when what is compiled, or what compiles it, does.
fn mark(compiler: &Compiler, printed: &[Printed], prefix: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for Printed { text, .. } in printed {
        text.hash(&mut hasher);
    }
    for source in sources()?.iter().chain([&prefix.join("include/mpi.h")]) {
        fs::read(source).with_context(|| format!("cannot read {}", source.display()))?.hash(&mut hasher);
    }
    include_str!("mod.rs").hash(&mut hasher);
    compiler.describe().hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// Compiles the C side; what calls `MPI_X` and `PMPI_X` alike is compiled once, the rest once for each.
fn compile_c(target: &Target, build: &Path, include: &Path) -> Result<Vec<PathBuf>> {
    let sources = paths::root().join("fortran/c");
    let units = [
        (sources.join("common.c"), false),
        (sources.join("callbacks.c"), false),
        (sources.join("section.c"), false),
        (sources.join("special.c"), true),
        (sources.join("removed.c"), true),
        (build.join("symbols.c"), true),
        (build.join("section_symbols.c"), true),
    ];
    let mut objects = Vec::new();
    for (source, is_double) in units {
        let stem = source.file_stem().context("a file name")?.to_string_lossy().into_owned();
        for profiling in [false, true] {
            if profiling && !is_double {
                continue;
            }
            let object = build.join(format!("{}{stem}.o", if profiling { "p" } else { "" }));
            let mut compile = Command::new(target.cc());
            compile.args(["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-c"]);
            compile.arg("-I").arg(include).arg("-I").arg(&sources);
            if profiling {
                compile.arg("-DAYATORI_PROFILING");
            }
            compile.arg("-o").arg(&object).arg(&source);
            process::show(&mut compile)?;
            objects.push(object);
        }
    }
    Ok(objects)
}

/// The Fortran sources in the order of what uses what.
const MODULES: &[&str] =
    &["mpi_types", "mpi", "mpi_f08_types", "mpi_f08_callbacks", "mpi_f08", "f08_procedures"];

/// Compiles the modules, which land in `build`, and what is behind those of `mpi_f08`.
fn compile_modules(compiler: &Compiler, build: &Path) -> Result<Vec<PathBuf>> {
    let mut objects = Vec::new();
    for name in MODULES {
        let (written, printed) = (paths::root().join("fortran/f90"), build);
        let source = format!("{name}.f90");
        let source = [written.join(&source), printed.join(&source)].into_iter().find(|path| path.exists());
        let object = build.join(format!("{name}.o"));
        let mut compile = compiler.command();
        compile
            .args(["-O2", "-fPIC", "-c", "-o"])
            .arg(&object)
            .arg(source.context("a source that is not there")?);
        process::show(compile.current_dir(build))?;
        objects.push(object);
    }
    Ok(objects)
}

fn link(compiler: &Compiler, objects: &[PathBuf], prefix: &Path, library: &Path) -> Result<()> {
    let mut link = compiler.command();
    // The compiler's runtime library is named only if something asks for it: wheels may not need it.
    link.args([
        "-shared",
        "-Wl,--as-needed",
        "-Wl,-soname,libmpi_abi_fortran.so.1",
        "-Wl,-rpath,$ORIGIN",
        "-o",
    ]);
    link.arg(library);
    link.args(objects).arg(format!("-L{}", prefix.join("lib").display())).arg("-lmpi_abi");
    process::show(&mut link)
}

/// Puts everything into the installation. A program that runs keeps the library it has open.
fn install(compiler: &Compiler, build: &Path, prefix: &Path) -> Result<()> {
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib"));
    stage::copy(&build.join("mpif.h"), &prefix.join("include/mpif.h"), 0o644)?;
    for module in MODULES.iter().filter(|name| name.starts_with("mpi")) {
        let file = format!("{module}.mod");
        stage::copy(&build.join(&file), &prefix.join("include").join(&file), 0o644)?;
    }
    stage::copy(&build.join(LIBRARY), &lib.join(LIBRARY), 0o755)?;
    stage::link(LIBRARY, &lib.join("libmpi_abi_fortran.so"))?;
    stage::pkg_config(prefix, "ayatori-fort", &["mpi-fort"])?;
    let wrapper = fs::read_to_string(paths::root().join("crates/mpi/wrappers/mpicc"))?;
    let default = format!("modules_are_for='{}'", compiler.there.replace('\'', r"'\''"));
    fs::write(build.join("mpifort"), wrapper.replace("modules_are_for=gfortran", &default))?;
    stage::copy(&build.join("mpifort"), &bin.join("mpifort"), 0o755)?;
    WRAPPERS.iter().try_for_each(|name| stage::link("mpifort", &bin.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_form_in_fortran() {
        let (functions, _) = abi::tables().unwrap();
        let procedures = prototype::procedures(&functions).unwrap();
        let bound = functions.iter().filter(|f| f.chapter != "tool" && !f.name.ends_with("int"));
        assert_eq!(procedures.len(), bound.count());
    }

    #[test]
    fn mpif_h_is_right_in_fixed_and_in_free_form() {
        let (_, items) = abi::tables().unwrap();
        let text = constants::mpif_h(&constants::constants(&items).unwrap());
        for line in text.lines() {
            assert!(line.starts_with('!') || line.starts_with("      "), "{line}");
            assert!(line.len() <= 72 || line.starts_with('!'), "{line}");
        }
        assert!(text.contains("PARAMETER (MPI_COMM_WORLD=257)"));
        assert!(text.contains("PARAMETER (MPI_MAX_PROCESSOR_NAME=255)"));
    }
}
