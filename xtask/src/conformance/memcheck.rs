//! Our own C programs under valgrind: the library uses no memory that is not there or was not written, and
//! loses none.
//!
//! The programs are compiled without optimization: compilers ask for a value before they know that it counts,
//! and valgrind takes that for a mistake of the program. Programs that are meant to fail do not run here, nor
//! do those that valgrind makes so slow that they would show nothing but that.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::{CommonOptions, Tally, directory, programs};
use crate::{process, skips};

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
    let mut tally = Tally::default();
    for source in programs::sources()? {
        let name = programs::name(&source);
        let is_wanted = options.wants(&name) && !LEFT_OUT.iter().any(|part| name.starts_with(part));
        let expected = programs::expected(&std::fs::read_to_string(&source)?)?;
        if !is_wanted || expected != programs::Expected::NoErrors {
            continue;
        }
        let program = directory(library).join("memcheck").join(&name);
        library.compile_with(&source, &program, &["-O0", "-g"])?;
        for ranks in options.ranks_or(&[2]) {
            let log = program.with_extension("log");
            let Some(text) = log.to_str().zip(program.to_str()) else {
                bail!("{} is no text", log.display())
            };
            let to_log = format!("--log-file={}.%p", text.0);
            let code = format!("--error-exitcode={CODE}");
            let leaks =
                ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
            let mut arguments = vec!["-q", &code, &to_log];
            arguments.extend(leaks);
            arguments.push(text.1);
            let mut launch = library.launch(ranks, Path::new("valgrind"), &arguments);
            launch.envs(options.progress.iter().map(|mode| ("AYATORI_PROGRESS", mode)));
            let outcome = process::capture(&mut launch, options.limit())?;
            tally.add(&name, ranks, programs::judge(&expected, &outcome), &outcome);
        }
    }
    tally.close("conformance c --memcheck")
}
