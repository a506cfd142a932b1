//! C programs in `tests/c`, compiled with our header and run on our library as one process.

use crate::support;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Compiles `tests/c/NAME` and links it with the library just built.
fn compile(name: &str) -> PathBuf {
    let dir = support::scratch(name);
    let library = support::library();
    for link in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        std::os::unix::fs::symlink(&library, dir.join(link)).unwrap();
    }
    let program = dir.join("program");
    let mut cc = Command::new(if name.ends_with(".cc") { "c++" } else { "cc" });
    cc.args(["-g", "-Wall", "-Wextra", "-Werror", "-I"]).arg(support::crate_dir().join("include"));
    cc.arg(support::crate_dir().join("tests/c").join(name)).arg("-o").arg(&program);
    cc.arg("-L").arg(&dir).arg(format!("-Wl,-rpath,{}", dir.display())).arg("-lmpi_abi");
    let output = support::run(&mut cc);
    assert!(output.status.success(), "{}", support::text(&output));
    program
}

/// Runs a program that ends with 0 if every check in it held.
fn passes(name: &str) {
    let output = support::run(&mut Command::new(compile(name)));
    assert!(output.status.success(), "{name}: {:?}\n{}", output.status, support::text(&output));
}

#[test]
fn environment_and_abi_inquiries_work_in_every_phase() {
    passes("environment.c");
}

#[test]
fn info_objects_keep_keys_values_and_limits() {
    passes("info.c");
}

#[test]
fn errors_go_to_the_handler_of_their_object() {
    passes("errors.c");
}

#[test]
fn attributes_call_the_users_functions() {
    passes("attributes.c");
}

#[test]
fn groups_and_names_are_the_standards() {
    passes("groups.c");
}

#[test]
fn datatypes_operations_and_counts_are_those_of_c() {
    passes("types.c");
}

#[test]
fn removed_functions_do_what_their_successors_do() {
    passes("removed.c");
}

#[test]
fn progress_modes_and_gaps_can_be_set() {
    passes("extension.c");
}

#[test]
fn a_variable_that_makes_no_sense_is_named() {
    let program = compile("groups.c");
    for (name, value, why) in [
        ("AYATORI_PROGRESS", "sometimes", "give `inline`, `assisted` or `offload`"),
        ("AYATORI_SHM_CMA", "off", "0 or 1, not 'off'"),
        ("AYATORI_NODE_COLLECTIVES", "no", "0 or 1, not 'no'"),
        ("AYATORI_CHECK", "yes", "0 or 1, not 'yes'"),
        ("AYATORI_SURVIVE", "true", "0 or 1, not 'true'"),
        ("AYATORI_GAP", "wide", "a gap is a number of packet times"),
        ("AYATORI_GAP_FREE_HOPS", "-1", "invalid digit"),
    ] {
        let output = support::run(Command::new(&program).env(name, value));
        let text = support::text(&output);
        assert!(!output.status.success() && text.contains(name) && text.contains(why), "{text}");
    }
}

#[test]
fn an_exception_of_an_error_handler_passes_through() {
    passes("throwing.cc");
}

fn fatal(how: &str) -> (Output, String) {
    static PROGRAM: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile("fatal.c"));
    let output = support::run(Command::new(program).arg(how));
    let text = support::text(&output);
    (output, text)
}

#[test]
fn a_fatal_error_names_function_class_argument_and_communicator() {
    for (how, code, words) in [
        (
            "argument",
            13,
            &["MPI_Comm_rank", "MPI_ERR_ARG", "argument rank", "MPI_COMM_WORLD, rank 0 of 1"][..],
        ),
        ("handle", 5, &["MPI_Comm_rank", "MPI_ERR_COMM", "argument comm", "0x1234", "MPI_COMM_SELF"]),
        ("before", 16, &["MPI_Comm_rank", "before MPI_Init"]),
        ("after", 16, &["MPI_Comm_rank", "after MPI_Finalize"]),
        ("abort", 77, &["MPI_Abort", "77", "MPI_COMM_WORLD"]),
        ("raised", 11, &["MPI_ERR_TOPOLOGY", "MPI_COMM_WORLD"]),
    ] {
        let (output, text) = fatal(how);
        assert_eq!(output.status.code(), Some(code), "{how}: {text}");
        for word in words {
            assert!(text.contains(word), "{how}: no {word:?} in: {text}");
        }
        assert!(!text.contains("panicked"), "{how}: {text}");
    }
    assert!(fatal("").0.status.success());
}

#[test]
fn call_that_overlaps_the_main_threads_is_named() {
    let output = support::run(&mut Command::new(compile("overlap.c")));
    assert!(output.status.success(), "{}", support::text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "a thread calls MPI_Comm_rank while another is in MPI_Comm_call_errhandler";
    assert!(said.contains(expected) && said.contains("MPI_THREAD_SINGLE"), "{said}");
    assert_eq!(said.matches("a thread calls").count(), 1, "{said}");
}

/// A program may have a header `mpi.h` of its own, as another MPI that is built on this one.
#[test]
fn the_wrappers_header_comes_behind_the_programs_own() {
    let mut mpicc = Command::new(support::crate_dir().join("wrappers/mpicc"));
    let output = mpicc.args(["-show", "-c", "-Iown", "x.c"]).output().expect("a shell");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = |part: &str| line.find(part).unwrap_or_else(|| panic!("{part} is not in {line}"));
    assert!(at("-Iown") < at("/include"), "{line}");
}
