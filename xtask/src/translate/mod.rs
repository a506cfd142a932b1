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
//! The libraries for Fortran are our own binding (`fortran/c`) compiled against the foreign `mpi.h`: they
//! call the foreign functions of C.
//!
//! Nothing that is printed is in the repository; `build/translate` has it. A translator is installed in a
//! directory of its own, `lib/ayatori/mpich` or `lib/ayatori/openmpi`, which is on no search path: `ayatori
//! run --abi` puts it there.

mod constants;
mod functions;
mod kind;

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSymbol, ObjectSymbolTable};

use crate::target::Target;
use crate::{abi, fortran, paths, process, stage};
pub(crate) use constants::{Abi, Foreign, Value};

/// Options of `cargo xtask translate`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// An installation that has lib/libmpi_abi.so.1.
    #[arg(long)]
    prefix: PathBuf,
}

/// `cargo xtask translate`: makes the translators of an installation anew.
pub(crate) fn run(options: &Options) -> Result<()> {
    lay_out(&options.prefix, &Target::HERE)
}

/// Prints, compiles for `target` and installs both translators into `prefix`.
///
/// # Errors
/// The C compiler refuses something, or a file cannot be written.
pub(crate) fn lay_out(prefix: &Path, target: &Target) -> Result<()> {
    Abi::ALL.into_iter().try_for_each(|abi| translator(abi, prefix, target))
}

/// A library that programs load.
struct Library {
    name: &'static str,
    /// Names that stand for it: of Debian's packages, of other libraries that ours contains, and the one by
    /// which mpi4py finds out which MPI there is.
    others: &'static [&'static str],
}

/// The libraries of an ABI: for C, and for Fortran.
fn libraries(abi: Abi) -> [Library; 2] {
    match abi {
        Abi::Mpich => [
            Library { name: "libmpi.so.12", others: &["libmpich.so.12", "libmpi.so"] },
            Library { name: "libmpifort.so.12", others: &["libmpichfort.so.12"] },
        ],
        Abi::OpenMpi => [
            Library { name: "libmpi.so.40", others: &["libmpi.so"] },
            Library { name: "libmpi_mpifh.so.40", others: &["libmpi_usempi_ignore_tkr.so.40"] },
        ],
    }
}

fn translator(abi: Abi, prefix: &Path, target: &Target) -> Result<()> {
    let build = target.build_dir().join("translate").join(abi.name());
    fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let printed = print(abi, &build)?;
    let mark = mark(abi, &printed)?;
    let stamp = build.join("stamp");
    let [c, fortran] = libraries(abi);
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&mark) {
        // Without the stamp, what a failure leaves half made is made anew.
        let _ = fs::remove_file(&stamp);
        compile(abi, (target, &build), c.name)?;
        compile_fortran(abi, (target, &build), c.name, fortran.name)?;
        fs::write(&stamp, mark).context("cannot write a stamp of build/translate")?;
    }
    let to = prefix.join("lib/ayatori").join(abi.name());
    for Library { name, others } in [c, fortran] {
        stage::copy(&build.join(name), &to.join(name), 0o755)?;
        others.iter().try_for_each(|other| stage::link(name, &to.join(other)))?;
    }
    Ok(())
}

/// The translator for C of an installation.
pub(crate) fn installed(abi: Abi, prefix: &Path) -> PathBuf {
    let [c, _] = libraries(abi);
    prefix.join("lib/ayatori").join(abi.name()).join(c.name)
}

/// The C compiler for programs that are linked with a translator of `prefix`: with the foreign header, and
/// able to find what the translator needs.
pub(crate) fn compiler(target: &Target, prefix: &Path, include: &Path) -> Command {
    let mut cc = Command::new(target.cc());
    cc.arg("-I").arg(include).arg(format!("-Wl,-rpath-link,{}", prefix.join("lib").display()));
    cc
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
        ("functions.c", functions::functions(abi, &functions)?),
        ("symbols.c", fortran::symbols()?.0),
        // By the name under which the Fortran binding includes it.
        ("mpi.h", "#include \"foreign.h\"\n".to_owned()),
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

/// The C side of the Fortran binding in the repository.
fn binding() -> PathBuf {
    paths::root().join("fortran/c")
}

/// Changes when what is compiled does.
fn mark(abi: Abi, printed: &[String]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    printed.hash(&mut hasher);
    let mut files = Vec::new();
    for folder in [sources(), binding()] {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            files.push(entry?.path());
        }
    }
    files.sort();
    for file in files {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    include_str!("mod.rs").hash(&mut hasher);
    Ok(format!("{} {:016x}\n", abi.name(), hasher.finish()))
}

/// The C compiler with what every library needs.
fn cc((target, build): (&Target, &Path)) -> Command {
    let mut cc = Command::new(target.cc());
    cc.args(["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra"]);
    cc.arg("-I").arg(build).arg("-I").arg(sources());
    cc
}

fn compile(abi: Abi, of: (&Target, &Path), library: &str) -> Result<()> {
    let (mut compile, (_, build)) = (cc(of), of);
    compile.args(["-shared", "-s", "-Wl,-z,now", "-Wl,-z,defs"]).arg(format!("-Wl,-soname,{library}"));
    // Two levels up from lib/ayatori/ABI is lib.
    compile.arg("-Wl,-rpath,$ORIGIN/../..").arg(format!("-DTRANSLATOR=\"{library}\""));
    compile.arg("-o").arg(build.join(library));
    for name in ["functions.c", "calls.c", "tables.c"] {
        compile.arg(build.join(name));
    }
    let own = format!("{}.c", abi.name());
    for name in ["library.c", "callbacks.c", "special.c", &own] {
        compile.arg(sources().join(name));
    }
    process::show(compile.args(["-ldl", "-lpthread"]))
}

/// Compiles the Fortran binding onto the translator; what calls `MPI_X` and `PMPI_X` alike once, the rest
/// once for each.
fn compile_fortran(abi: Abi, of: (&Target, &Path), c_library: &str, library: &str) -> Result<()> {
    let (_, build) = of;
    let mut units = vec![
        (binding().join("common.c"), false),
        (binding().join("callbacks.c"), false),
        (binding().join("special.c"), true),
        (binding().join("removed.c"), true),
        (build.join("symbols.c"), true),
    ];
    units.push((sources().join(format!("{}_fortran.c", abi.name())), false));
    let mut objects = Vec::new();
    for (source, is_double) in units {
        let stem = source.file_stem().context("a file name")?.to_string_lossy().into_owned();
        for profiling in [false, true].into_iter().take(1 + usize::from(is_double)) {
            let object = build.join(format!("{}{stem}.o", if profiling { "p" } else { "" }));
            let mut compile = cc(of);
            compile.arg("-I").arg(binding()).args(["-c", "-DAYATORI_FOREIGN"]);
            compile.args((abi == Abi::Mpich).then_some("-DTRANSLATE_MPICH"));
            compile.args(profiling.then_some("-DAYATORI_PROFILING"));
            if abi == Abi::OpenMpi {
                compile.args(kind::NOT_OF_OPENMPI.iter().map(|name| format!("-D{name}=P{name}")));
            }
            process::show(compile.arg("-o").arg(&object).arg(&source))?;
            objects.push(object);
        }
    }
    let mut link = cc(of);
    link.args(["-shared", "-s", "-Wl,-z,defs", "-Wl,-rpath,$ORIGIN"]).arg(format!("-Wl,-soname,{library}"));
    link.arg("-o").arg(build.join(library)).args(objects).arg(build.join(c_library));
    if abi == Abi::OpenMpi {
        // Open MPI's library for mpi_f08 calls these names.
        let lines =
            fortran::symbols()?.1.into_iter().map(|name| format!("--defsym=ompi_{name}_f=mpi_{name}_\n"));
        let file = build.join("names");
        fs::write(&file, lines.collect::<String>()).context("cannot write build/translate")?;
        link.arg(format!("-Wl,@{}", file.display()));
    }
    process::show(link.arg("-lpthread"))
}

/// What our library calls by name: from functions that MPI-3.0 removed. The translators never
/// call those, so it may be the translator's.
const CALLED_BY_NAME: [&str; 8] = [
    "PMPI_Comm_create_errhandler",
    "PMPI_Comm_get_errhandler",
    "PMPI_Comm_set_errhandler",
    "PMPI_Get_address",
    "PMPI_Type_create_hindexed",
    "PMPI_Type_create_hvector",
    "PMPI_Type_create_struct",
    "PMPI_Type_get_extent",
];

/// What is wrong with the installed translators: functions that one lacks, or calls of the library that a
/// translator would catch.
///
/// # Errors
/// Something is, or a library cannot be read.
pub(crate) fn check(prefix: &Path) -> Result<()> {
    let (functions, _) = abi::tables()?;
    for abi in Abi::ALL {
        let path = installed(abi, prefix);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*bytes)?;
        let defined: BTreeSet<&str> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        let wanted = functions.iter().flat_map(|f| [f.name.clone(), format!("P{}", f.name)]);
        let wanted = wanted.filter(|name| functions::is_there(abi, name));
        let missing: Vec<String> = wanted.filter(|name| !defined.contains(name.as_str())).collect();
        if !missing.is_empty() {
            bail!("{} lacks {missing:?}", path.display());
        }
    }
    let bytes = fs::read(prefix.join("lib/libmpi_abi.so.1")).context("the library")?;
    let file = object::File::parse(&*bytes)?;
    let symbols = file.dynamic_symbol_table().context("a table of symbols")?;
    for (_, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let object::RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let name = symbols.symbol_by_index(index)?.name()?.to_owned();
        if (name.starts_with("PMPI_") || name.starts_with("MPI_")) && !CALLED_BY_NAME.contains(&&*name) {
            bail!("libmpi_abi.so.1 calls {name} by its name, which a translator has, too");
        }
    }
    println!("{} functions in each translator", functions.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_argument_of_every_function_follows_a_rule() {
        let (functions, _) = abi::tables().unwrap();
        let text = functions::functions(Abi::OpenMpi, &functions).unwrap();
        assert!(text.contains("ALIAS(MPI_Send)") && text.contains("int PMPI_Comm_attach_buffer("));
        assert!(!text.contains("ALIAS(MPI_Comm_attach_buffer)"));
        assert!(text.contains("int PMPI_Send(const void *buf, int count, MPI_Datatype datatype"));
        assert!(text.contains("in_MPI_Datatype(datatype), in_rank(dest), in_tag(tag), in_MPI_Comm(comm)"));
    }

    #[test]
    fn tables_name_only_constants_that_the_standard_has() {
        let (_, items) = abi::tables().unwrap();
        let ours = constants::ours(&items).unwrap();
        for abi in Abi::ALL {
            for (name, _) in foreign(abi).unwrap().all() {
                assert!(ours.iter().any(|c| c.name == *name), "{name} of {}", abi.name());
            }
        }
    }

    #[test]
    fn last_bytes_of_mpich_datatypes_are_unique() {
        let mut known: BTreeMap<i64, i64> = BTreeMap::new();
        let foreign = foreign(Abi::Mpich).unwrap();
        let numbers = foreign.all().filter_map(|(_, value)| match value {
            Value::Number(number) if number >> 24 == 0x4c => Some(*number),
            _ => None,
        });
        for number in numbers {
            assert_eq!(*known.entry(number & 0xff).or_insert(number), number);
        }
        assert!(known.len() > 60, "{}", known.len());
    }
}
