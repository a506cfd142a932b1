//! What the process answers to the shell: the one place where exit codes are decided.
//!
//! docs/exit-codes.md has this table too, a test compares them; what is below it stands there only.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: standard error says why; or the answer of a command that judges: see below |
//! | 2 | the command line is wrong |
//! | 3 | `why`: ranks of the job can never go on |
//! | 124 | `run --timeout` ran out (as timeout(1) answers) |
//! | 126 | `run`: the program cannot be executed (as the shell answers) |
//! | 127 | `run`: the program is not found (as the shell answers) |
//! | other | `run`: the code of the rank that ended the job; 128 + N where signal N did it |

use std::fmt;
use std::process::ExitCode;

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Success,
    /// The command worked, and this is the answer it passes on (a rank's exit code).
    Code(u8),
}

/// The command failed.
pub(crate) const FAILURE: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;

/// An error that asks for an exit code of its own. Put it at the root of the chain: `Coded::new(127, error)`.
#[derive(Debug)]
pub(crate) struct Coded {
    code: u8,
    message: String,
}

impl Coded {
    /// An error with `message` that ends the process with `code`.
    pub(crate) fn error(code: u8, message: impl fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Coded { code, message: message.to_string() })
    }

    /// The command line can be parsed and is wrong nevertheless.
    pub(crate) fn usage(message: impl fmt::Display) -> anyhow::Error {
        Coded::error(USAGE, message)
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Coded {}

/// Turns a command's outcome into the exit code; an error is printed with the chain of its causes.
pub(crate) fn report(outcome: anyhow::Result<Exit>) -> ExitCode {
    match outcome {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Code(code)) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ayatori: {error:#}");
            ExitCode::from(code_of(&error))
        }
    }
}

/// The exit code that an error asks for.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(|e| e.downcast_ref::<Coded>()).map_or(FAILURE, |c| c.code)
}

/// Clap's own errors, `--help` and `--version`.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    // Nothing sensible can be done where even the message cannot be written.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// `ayatori info | head` is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    /// Lines of a table.
    fn rows<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
        text.lines()
            .filter_map(|line| line.strip_prefix(prefix))
            .filter(|line| line.starts_with("| "))
            .collect()
    }

    #[test]
    fn the_page_of_exit_codes_is_this_table() {
        let (ours, page) =
            (rows(include_str!("exit.rs"), "//! "), include_str!("../../../docs/exit-codes.md"));
        assert!(ours.len() >= 9, "{ours:?}");
        assert_eq!(ours, rows(page, ""));
    }
}
