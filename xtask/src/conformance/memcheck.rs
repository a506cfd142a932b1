//! Our own C programs under valgrind: the library uses no memory that is not there or was not written, and
//! loses none.
//!
//! The programs are compiled without optimization: compilers ask for a value before they know that it counts,
//! and valgrind takes that for a mistake of the program. Programs that are meant to fail do not run here, nor
//! do those that valgrind makes so slow that they would show nothing but that.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::CommonOptions;
use super::programs::Checked;
use crate::skips;

/// What an error makes the exit code.
const CODE: &str = "97";
/// Programs that are left out: a million messages or requests, or a measure of the time that something takes.
const LEFT_OUT: [&str; 4] = ["handles_leak", "p2p_flood", "p2p_full_table", "progress_"];

/// `cargo xtask conformance c --memcheck`.
///
/// # Errors
/// A program fails, or valgrind has found something.
pub(super) fn run(options: &CommonOptions) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skips::note(
            "conformance c --memcheck",
            "valgrind is not installed (Debian: apt-get install valgrind)",
        );
        return Ok(());
    }
    let library = options.library()?;
    let checked = Checked {
        suite: "conformance c --memcheck",
        folder: "memcheck",
        flags: &["-O0", "-g"],
        left_out: &LEFT_OUT,
    };
    checked.run(options, library, |ranks, program| {
        let log = program.with_extension("log");
        let Some((log, program)) = log.to_str().zip(program.to_str()) else {
            bail!("{} is no text", log.display())
        };
        let to_log = format!("--log-file={log}.%p");
        let code = format!("--error-exitcode={CODE}");
        let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
        let arguments = [&["-q", &code, &to_log], &leaks[..], &[program]].concat();
        Ok(library.launch(ranks, Path::new("valgrind"), &arguments))
    })
}
