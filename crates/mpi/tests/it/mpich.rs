//! Comparison with MPICH 5's header and library of the standard ABI, from PyPI.
//!
//! Without a network (and without `AYATORI_MPICH`, the folder of an unpacked wheel's `data`) these tests are
//! skipped, which `cargo xtask test` says in its summary.

use crate::abi::{constants, functions, table::Item};
use crate::support;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const VERSION: &str = "5.0.2";

/// Functions MPICH 5.0.2 does not have: the Forum's header of the ABI declares them, the standard does not.
const ABSENT: &[&str] = &["MPI_Psend_init_c", "MPI_Precv_init_c"];

/// Functions of MPI-1 that MPI-3.0 removed: MPICH still has them, the ABI does not.
const REMOVED: &[&str] = &[
    "MPI_Address",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Type_extent",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

/// The `data` folder of the wheel, fetched once.
fn mpich() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(find).as_deref()
}

fn find() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("AYATORI_MPICH") {
        return Some(dir.into());
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpich-{VERSION}"));
    let data = dir.join(format!("mpich-{VERSION}.data/data"));
    if !data.join("include/mpi_abi.h").exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]);
        pip.arg(format!("mpich=={VERSION}")).arg("--dest").arg(&dir);
        let output = pip.output().ok()?;
        let wheel = std::fs::read_dir(&dir).ok().and_then(|mut d| d.find_map(|e| Some(e.ok()?.path())));
        let Some(wheel) = wheel.filter(|_| output.status.success()) else {
            eprintln!("{}", support::text(&output));
            support::skip(&format!("symbols and constants: pip has no MPICH {VERSION} to compare with"));
            return None;
        };
        support::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&dir));
    }
    Some(data)
}

/// A C program that prints every constant of the table by name.
fn printer(header: &str) -> String {
    let mut source = format!("#include <stdio.h>\n#include <{header}>\nint main(void) {{\n");
    for item in constants() {
        match item {
            Item::Int { name, .. }
            | Item::Define { name, .. }
            | Item::Typed { name, .. }
            | Item::Alias { name, .. } => {
                writeln!(source, "printf(\"{name} %ld\\n\", (long){name});").unwrap();
            }
            Item::Handle { name, .. } => {
                writeln!(source, "printf(\"{name} %zu\\n\", sizeof({name}));").unwrap()
            }
            _ => {}
        }
    }
    source + "printf(\"MPI_Status %zu\\n\", sizeof(MPI_Status)); return 0; }\n"
}

fn compile_and_run(dir: &Path, name: &str, source: &str, include: &Path) -> String {
    let (file, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&file, source).unwrap();
    let output =
        support::run(Command::new("cc").arg("-w").arg("-I").arg(include).arg(&file).arg("-o").arg(&program));
    assert!(output.status.success(), "{}", support::text(&output));
    support::text(&support::run(&mut Command::new(program)))
}

#[test]
fn every_constant_has_the_value_it_has_in_mpich() {
    let Some(mpich) = mpich() else { return };
    let dir = support::scratch("constants");
    let ours = compile_and_run(&dir, "ours", &printer("mpi.h"), &support::crate_dir().join("include"));
    let theirs = compile_and_run(&dir, "theirs", &printer("mpi_abi.h"), &mpich.join("include"));
    assert!(ours.lines().count() > 350, "the program printed only: {ours}");
    for (our, their) in ours.lines().zip(theirs.lines()) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

/// Whether MPICH's header followed by `declarations` compiles; C rejects a second declaration of another
/// type.
fn agrees(mpich: &Path, dir: &Path, declarations: &str) -> Result<(), String> {
    let file = dir.join("both.c");
    std::fs::write(&file, format!("#include <mpi_abi.h>\n{declarations}")).unwrap();
    let mut cc = Command::new("cc");
    let output = support::run(cc.arg("-fsyntax-only").arg("-I").arg(mpich.join("include")).arg(&file));
    if output.status.success() { Ok(()) } else { Err(support::text(&output)) }
}

#[test]
fn every_prototype_agrees_with_mpich() {
    let Some(mpich) = mpich() else { return };
    let dir = support::scratch("prototypes");
    let mut declarations = String::new();
    for f in functions() {
        writeln!(declarations, "{} {}({});", f.result, f.name, f.c_params).unwrap();
        writeln!(declarations, "{} P{}({});", f.result, f.name, f.c_params).unwrap();
    }
    agrees(mpich, &dir, &declarations).unwrap();
    // The check itself must be able to fail.
    agrees(mpich, &dir, "int MPI_Barrier(int comm);").unwrap_err();
}

#[test]
fn no_function_of_mpichs_library_is_missing() {
    let Some(mpich) = mpich() else { return };
    let bytes = std::fs::read(mpich.join("lib/libmpi_abi.so.1")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let standard = |name: &str| {
        let mpi = name.starts_with("MPI_") || name.starts_with("PMPI_");
        mpi && !name.ends_with("_c2f") && !name.ends_with("_f2c") && !REMOVED.contains(&name)
    };
    let theirs: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|s| s.is_definition())
        .filter_map(|s| Some(s.name().ok()?.to_string()))
        .filter(|n| standard(n))
        .collect();
    let mut ours = BTreeSet::new();
    for f in functions() {
        ours.insert(format!("P{}", f.name));
        ours.insert(f.name);
    }
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "MPICH has, we have not: {missing:?}");
    let more: Vec<_> =
        ours.difference(&theirs).filter(|n| !ABSENT.contains(&n.trim_start_matches('P'))).collect();
    assert!(more.is_empty(), "we have, MPICH has not: {more:?}");
}
