//! `ayatori run`: starts N processes of an MPI program on this machine.

use crate::exit::{Coded, Exit};
use std::ffi::OsString;

/// What `ayatori run` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of processes to start
    #[arg(short = 'n', long = "np", value_name = "N")]
    ranks: Option<usize>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Starts the job and stays until it has ended.
pub(crate) fn run(_args: Args) -> anyhow::Result<Exit> {
    Err(Coded::usage("`run` is being written"))
}

/// Turns `-np 4` into `--np 4`.
pub(crate) fn normalise(args: Vec<OsString>) -> Vec<OsString> {
    args
}
