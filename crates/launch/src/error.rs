//! Errors that carry the exit code the launcher is to answer.

use std::fmt;

/// The job could not be run.
pub const FAILURE: u8 = 1;
/// The request is invalid.
pub const USAGE: u8 = 2;
/// The program cannot be executed; as a shell answers.
pub const NOT_EXECUTABLE: u8 = 126;
/// There is no such program; as a shell answers.
pub const NOT_FOUND: u8 = 127;

/// An error with an exit code. Found anywhere in the chain of an [`anyhow::Error`] by [`exit_code`].
#[derive(Debug)]
pub struct Error {
    code: u8,
    message: String,
}

impl Error {
    /// An error that ends the launcher with `code`.
    #[expect(clippy::new_ret_no_self, reason = "errors travel as anyhow's")]
    pub fn new(code: u8, message: impl fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Error { code, message: message.to_string() })
    }

    /// The request is wrong.
    pub fn usage(message: impl fmt::Display) -> anyhow::Error {
        Error::new(USAGE, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The exit code that an error asks for.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(|cause| cause.downcast_ref::<Error>()).map_or(FAILURE, |error| error.code)
}
