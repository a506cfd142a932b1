//! `cargo xtask fuzz`: fault runs with the built `ayatori`; 2,000 worlds in CI. Then every order of events of
//! very small worlds (seconds), and the digest of some worlds, which the tests compare in their own build.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{paths, process, stage};

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
    process::show(&mut command)?;
    compare_digest()
}

/// The worlds of the committed digest give it in this build, too.
fn compare_digest() -> Result<()> {
    let path = paths::root().join("crates/sim/tests/fuzz/golden.txt");
    let golden = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let Some((seeds, digest)) = golden.trim().split_once(" worlds from seed 0: ") else {
        bail!("{}: no number of worlds and digest", path.display());
    };
    let mut command = Command::new(stage::stage()?.join("bin/ayatori"));
    command.args(["sim", "fuzz", "--seeds", seeds]);
    let outcome = process::capture(&mut command, Duration::from_secs(600))?;
    if !outcome.success() || !outcome.stdout.contains(&format!("digest {digest}")) {
        let said = outcome.stdout.trim();
        let (path, reason) = (path.display(), outcome.reason());
        bail!("{path}: the digest of {seeds} worlds is not {digest}: {said} {reason}");
    }
    println!("{seeds} worlds: digest {digest}, as committed");
    Ok(())
}
