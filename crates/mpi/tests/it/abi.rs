//! The header, the ledger and the symbols are what the tables say.

use crate::support;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::process::Command;

#[path = "../../abi/header.rs"]
mod header;
#[path = "../../abi/table.rs"]
pub(crate) mod table;

pub(crate) fn functions() -> Vec<table::Function> {
    table::functions(&support::read("abi/functions.txt"))
}

pub(crate) fn constants() -> Vec<table::Item> {
    table::constants(&support::read("abi/constants.txt"))
}

#[test]
fn the_table_has_the_664_functions_of_mpi_5() {
    let names: BTreeSet<_> = functions().into_iter().map(|f| f.name).collect();
    assert_eq!(names.len(), 664);
    assert_eq!(functions().len(), 664, "a function is listed twice");
    assert_eq!(names.iter().filter(|n| n.ends_with("_c")).count(), 161);
}

#[test]
fn mpi_h_is_current() {
    let current = header::print(&functions(), &constants());
    assert!(support::read("include/mpi.h") == current, "run `cargo xtask abi`: include/mpi.h is not current");
}

#[test]
fn ledger_is_current_and_completes_the_abi() {
    let implemented = table::implemented_in(support::crate_dir(), &functions()).unwrap();
    let unique: BTreeSet<_> = implemented.iter().collect();
    assert_eq!(unique.len(), implemented.len(), "a function is implemented twice");
    let current = table::ledger(&functions(), &implemented);
    let ledger = std::fs::read_to_string(support::crate_dir().join("../../conformance/ledger")).unwrap();
    assert!(ledger == current, "run `cargo xtask abi`: conformance/ledger is not current");
    let listed = ledger.lines().filter(|l| l.starts_with("MPI_")).count();
    assert_eq!(listed + implemented.len(), 664);
}

#[test]
fn mpi_h_is_valid_c_and_cxx_of_every_age() {
    let include = support::crate_dir().join("include");
    for (language, standard) in [("c", "c99"), ("c", "c11"), ("c", "c2x"), ("c++", "c++98"), ("c++", "c++20")]
    {
        for header in ["mpi.h", "mpi-ext.h"] {
            let mut cc = Command::new("cc");
            cc.args(["-x", language, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"]);
            cc.arg(&include).arg(format!("-std={standard}")).arg(include.join(header));
            let output = support::run(&mut cc);
            assert!(output.status.success(), "{standard}, {header}: {}", support::text(&output));
        }
    }
}

/// Every symbol the library defines for others: name, address, whether weak.
fn exports() -> Vec<(String, u64, bool)> {
    let bytes = std::fs::read(support::library()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols().filter(|s| s.is_definition());
    symbols.map(|s| (s.name().unwrap().to_string(), s.address(), s.is_weak())).collect()
}

/// The functions that `mpi-ext.h` declares.
fn extensions() -> BTreeSet<String> {
    let header = support::read("include/mpi-ext.h");
    let functions = header.lines().filter_map(|line| line.strip_prefix("int MPIX_"));
    functions.filter_map(|rest| Some(format!("MPIX_{}", rest.split_once('(')?.0))).collect()
}

/// The functions that `mpi.h` declares for old programs only.
fn removed() -> BTreeSet<String> {
    let header = support::read("include/mpi.h");
    let block =
        header.split("#ifdef AYATORI_REMOVED_FUNCTIONS").nth(1).and_then(|rest| rest.split("#endif").next());
    let functions = block.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("int MPI_"));
    functions.filter_map(|rest| Some(format!("MPI_{}", rest.split_once('(')?.0))).collect()
}

#[test]
fn library_exports_only_every_function_under_both_names() {
    let mut expected = BTreeSet::new();
    for function in functions() {
        expected.insert(format!("P{}", function.name));
        expected.insert(function.name);
    }
    assert_eq!(removed().len(), 10);
    for name in extensions().into_iter().chain(removed()) {
        expected.insert(format!("P{name}"));
        expected.insert(name);
    }
    let found: BTreeSet<_> = exports().into_iter().map(|(name, ..)| name).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, too many {extra:?}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn every_mpi_name_is_a_weak_alias_of_its_pmpi_name() {
    let exports = exports();
    let find = |name: &str| exports.iter().find(|(n, ..)| n == name).unwrap_or_else(|| panic!("no {name}"));
    for function in functions() {
        let (_, address, weak) = find(&function.name);
        let (_, profiled_address, profiled_weak) = find(&format!("P{}", function.name));
        assert_eq!(address, profiled_address, "{}", function.name);
        assert!(*weak && !*profiled_weak, "{}", function.name);
    }
}

#[test]
fn the_soname_is_that_of_the_standard_abi() {
    let output = support::run(Command::new("readelf").arg("-d").arg(support::library()));
    assert!(
        support::text(&output).contains("Library soname: [libmpi_abi.so.1]"),
        "{}",
        support::text(&output)
    );
}
