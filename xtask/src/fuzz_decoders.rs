//! `cargo xtask fuzz-decoders`: libFuzzer on everything that reads bytes from outside (`fuzz/`, laid out as
//! cargo-fuzz wants it). Needs nightly and a C++ compiler, and nothing installed: the flags are those that
//! cargo-fuzz gives.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::threads::on_threads;
use crate::{paths, process};

/// The targets, under `fuzz/fuzz_targets`.
const TARGETS: [&str; 6] = ["core_packets", "tcp_stream", "handshake", "card", "pmi", "agent"];
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ccodegen-units=1";
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";

/// Options of `cargo xtask fuzz-decoders`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these: core_packets, tcp_stream, handshake, card, pmi, agent
    targets: Vec<String>,
    /// How long each, in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// How many at once (default: as many as there are CPUs)
    #[arg(long)]
    jobs: Option<usize>,
}

/// `cargo xtask fuzz-decoders`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(unknown) = options.targets.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        bail!("no target `{unknown}`; there are {}", TARGETS.join(", "));
    }
    let target_dir = paths::target_dir().join("fuzz");
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "build", "--release", "--bins", "--target", HOST]);
    cargo.current_dir(paths::root().join("fuzz"));
    cargo.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target_dir);
    process::show(&mut cargo)?;
    let is_wanted =
        |name: &&str| options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == name);
    let targets: Vec<&str> = TARGETS.into_iter().filter(is_wanted).collect();
    let programs = target_dir.join(HOST).join("release");
    let threads_count = options.jobs.unwrap_or_else(paths::cpu_count).max(1);
    let found = on_threads(threads_count, &targets, |name| {
        fuzz(&programs.join(name), name, options.seconds).err().map(|error| format!("{name}: {error:#}"))
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    if !found.is_empty() {
        bail!("findings:\n  {}", found.join("\n  "));
    }
    Ok(())
}

/// Runs a target for so long.
///
/// # Errors
/// It found an input that breaks the decoder.
fn fuzz(program: &Path, name: &str, seconds: u64) -> Result<()> {
    let folder = paths::build_dir().join("fuzz").join(name);
    let corpus = folder.join("corpus");
    fs::create_dir_all(&corpus).context("a folder for the corpus")?;
    let mut fuzzer = Command::new(program);
    fuzzer.arg(format!("-max_total_time={seconds}")).arg("-rss_limit_mb=2048");
    fuzzer.arg(format!("-artifact_prefix={}/", folder.display())).arg(&corpus);
    let outcome = process::capture(&mut fuzzer, Duration::from_secs(seconds + 120))?;
    let last = outcome.stderr.lines().rev().find(|line| line.starts_with('#') || line.starts_with("Done"));
    println!("== fuzz {name}: {}", last.unwrap_or("nothing said"));
    if !outcome.success() {
        bail!("{}; the input is in {}", outcome.reason(), folder.display());
    }
    Ok(())
}
