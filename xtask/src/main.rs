//! Repository chores: `cargo xtask abi|run|test|bench|tidy|ci|conformance|killtest|install`.
//!
//! The Makefile and `.ci/run` only call this. It owns how things are built, staged, compared and checked; it holds no
//! product code. Programs it starts always have a time limit (`process`), and it leaves none behind.

#![forbid(unsafe_code)]

mod abi;
mod bench;
mod paths;
mod process;
mod stage;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Repository chores of Ayatori")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write mpi.h and conformance/ledger from the tables in crates/mpi/abi.
    Abi,
    /// Build and install the library, the headers, the wrappers and the command under a prefix.
    Install(stage::InstallOptions),
    /// Measure this library beside Open MPI, MPICH and Intel MPI.
    Bench(bench::Options),
    /// Internal: time a command a few times and print the median in seconds.
    #[command(hide = true)]
    Stopwatch(bench::StopwatchOptions),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Abi => abi::run(),
        Command::Install(options) => stage::install(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Stopwatch(options) => bench::stopwatch(&options),
    }
}
