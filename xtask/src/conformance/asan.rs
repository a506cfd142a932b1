//! Our own C programs with AddressSanitizer, in them and in the library: nothing is read or written beside
//! the memory that it belongs to, on the stack and among globals, too, where valgrind sees nothing; and no
//! memory is lost.
//!
//! The library is built by a nightly compiler, the programs by the C compiler, whose runtime serves both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs::Checked;
use super::{CommonOptions, directory};
use crate::fuzz_decoders::HOST;
use crate::nightly::no_nightly;
use crate::peers::Library;
use crate::{paths, process, skips};

const FLAGS: [&str; 3] = ["-O1", "-g", "-fsanitize=address"];
/// Found addresses are told at once, leaks at the end, and both make this the exit code.
const ASAN_OPTIONS: &str =
    "exitcode=97:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1";
/// The library reads beside a buffer here: what finds nothing in this would find nothing anywhere.
const MISTAKE: &str = r"
#include <mpi.h>
#include <stdlib.h>
int main(void)
{
    MPI_Init(0, 0);
    MPI_Sendrecv(malloc(100), 101, MPI_CHAR, 0, 0, malloc(200), 200, MPI_CHAR, 0, 0, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    MPI_Finalize();
}
";
/// Programs that measure a time, or what the system counts of a process.
const LEFT_OUT: [&str; 1] = ["progress_"];

/// `cargo xtask conformance c --asan`.
///
/// # Errors
/// A program fails, or the sanitizer has found something.
pub(super) fn run(options: &CommonOptions) -> Result<()> {
    if let Some(why) = no_nightly() {
        skips::note("conformance c --asan", &why);
        return Ok(());
    }
    let library = options.library()?;
    let folder = build()?;
    check_that_it_sees(library, &folder, options)?;
    let checked =
        Checked { suite: "conformance c --asan", folder: "asan", flags: &FLAGS, left_out: &LEFT_OUT };
    checked.run(options, library, |ranks, program| Ok(launch(library, ranks, program, &folder)))
}

/// A program on the library that is in `folder`.
fn launch(library: Library, ranks: usize, program: &Path, folder: &Path) -> Command {
    let mut launch = library.launch(ranks, program, &[]);
    launch.env("LD_LIBRARY_PATH", folder).env("ASAN_OPTIONS", ASAN_OPTIONS);
    launch
}

/// # Errors
/// [`MISTAKE`] is not found.
fn check_that_it_sees(library: Library, folder: &Path, options: &CommonOptions) -> Result<()> {
    let program = directory(library).join("asan/mistake");
    let source = program.with_extension("c");
    fs::create_dir_all(program.with_file_name("")).context("a folder for programs")?;
    fs::write(&source, MISTAKE).with_context(|| source.display().to_string())?;
    library.compile_with(&source, &program, &FLAGS)?;
    let outcome = process::capture(&mut launch(library, 1, &program, folder), options.limit())?;
    if !outcome.stderr.contains("heap-buffer-overflow") {
        bail!("the sanitizer does not see {}: {}", source.display(), outcome.reason());
    }
    Ok(())
}

/// Builds the library with the sanitizer. Returns the folder that it is in.
fn build() -> Result<PathBuf> {
    let target = paths::target_dir().join("asan");
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "build", "--release", "-p", "ayatori-mpi", "--target", HOST]);
    cargo.current_dir(paths::root()).env("CARGO_TARGET_DIR", &target);
    cargo.env("RUSTFLAGS", "-Zsanitizer=address -Zexternal-clangrt");
    // A quick build of code that is slow in any case.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    process::show(&mut cargo)?;
    let folder = paths::build_dir().join("asan");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let made = target.join(HOST).join("release/libmpi_abi.so");
    fs::copy(&made, folder.join("libmpi_abi.so.1")).with_context(|| made.display().to_string())?;
    Ok(folder)
}
