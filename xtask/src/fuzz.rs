//! `cargo xtask fuzz`: fault runs with the built `ayatori`; 2,000 worlds in CI. Then every order of events of
//! very small worlds: seconds.

use std::process::Command;

use anyhow::Result;

use crate::{process, stage};

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many worlds.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
}

/// `cargo xtask fuzz`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = Command::new(stage::stage()?.join("bin/ayatori"));
    let (seeds, from) = (options.seeds.to_string(), options.from.to_string());
    command.args(["sim", "fuzz", "--seeds", &seeds, "--from", &from]);
    println!("\n$ {}", process::line(&command));
    process::show(&mut command)?;
    let mut command = Command::new(stage::stage()?.join("bin/ayatori"));
    command.args(["sim", "fuzz", "--exhaustive"]);
    println!("\n$ {}", process::line(&command));
    process::show(&mut command)
}
