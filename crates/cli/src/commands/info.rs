//! `ayatori info`: what is installed, what this machine offers, and why a protocol is chosen.

use crate::exit::Exit;
use std::io::Write;

/// What `ayatori info` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints what is known about this installation and this machine.
pub(crate) fn run(_args: Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ayatori {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Exit::Success)
}
