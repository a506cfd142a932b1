//! Repository chores: `cargo xtask --help` names them.
//!
//! The Makefile and `.ci/run` only call this. It owns how things are built, staged, compared and checked; it
//! holds no product code. Programs it starts always have a time limit (`process`), and it leaves none behind.

#![forbid(unsafe_code)]

mod abi;
mod bench;
mod ci;
mod conformance;
mod deb;
mod docs;
mod find_mpi;
mod fortran;
mod fuzz;
mod fuzz_decoders;
mod instructions;
mod killtest;
mod lab_test;
mod launchers;
mod mutants;
mod net_test;
mod nightly;
mod paths;
mod peers;
mod process;
mod run;
mod series;
mod skips;
mod stage;
mod survive_test;
mod target;
mod test;
mod threads;
mod tidy;
mod translate;
mod wheel;
mod why_test;

use std::process::ExitCode;

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
    Abi(abi::Options),
    /// Build and install the library, the headers, the wrappers and the command under a prefix.
    Install(stage::InstallOptions),
    /// Build one wheel for pip: library, wrappers, command, Python module.
    Wheel(wheel::Options),
    /// Build the Debian packages of library, development files and tools.
    Deb(deb::Options),
    /// Build programs with what CMake, Meson and pkg-config find of an installation.
    FindMpi(find_mpi::Options),
    /// Make the Fortran binding of an installation anew.
    Fortran(fortran::Options),
    /// Make the translators for programs of MPICH and Open MPI of an installation anew.
    Translate(translate::Options),
    /// Build the pages of docs/ as a book with a search (mdBook).
    Docs,
    /// Build, then run two MPI programs: a heat equation on 4 ranks and a ping-pong on 2.
    Run,
    /// Format, tidy, clippy, docs, all tests, C conformance programs: what a change must pass.
    Test(test::Options),
    /// Check the rules no compiler checks: arrows, unsafe, lengths, licences.
    Tidy,
    /// What .ci/run runs: test, run and fuzz, with a summary at the end.
    Ci(ci::Options),
    /// Run a conformance suite: our C programs, IMB, OSU, or binaries made by MPICH.
    Conformance(conformance::Options),
    /// Count the instructions of the short path's calls (needs valgrind).
    Instructions(instructions::Options),
    /// Kill a random rank at a random moment, again and again.
    Killtest(killtest::Options),
    /// Start jobs that hang and check what `ayatori why` says of them.
    WhyTest(why_test::Options),
    /// Run programs that lose ranks and go on.
    SurviveTest(survive_test::Options),
    /// Run programs under Slurm, PRRTE, Open MPI's mpirun, Hydra and ours; writes conformance/launchers.md.
    Launchers(launchers::Options),
    /// Run the protocol engine in random worlds with faults.
    Fuzz(fuzz::Options),
    /// libFuzzer on everything that reads bytes from outside (needs nightly).
    FuzzDecoders(fuzz_decoders::Options),
    /// Generated bugs in a crate's source, one at a time: its tests and fault runs must find each.
    Mutants(mutants::Options),
    /// Prove plans on real Linux bridges in a small virtual machine.
    LabTest(lab_test::Options),
    /// Run jobs over TCP between two network namespaces (needs root).
    NetTest(net_test::Options),
    /// Run a command whose MPI jobs run over TCP between many hosts: network namespaces (needs root).
    OnHosts(net_test::OnHostsOptions),
    /// Everything that takes hours: bounds, fuzzing, killed ranks, mutants, other suites; writes a page of
    /// results.
    Nightly(nightly::Options),
    /// Measure this library beside Open MPI, MPICH and Intel MPI.
    Bench(bench::Options),
    /// Internal: disturb a job of net-test.
    #[command(hide = true)]
    NetStranger(net_test::StrangerOptions),
    /// Internal: time a command a few times and print the median in seconds.
    #[command(hide = true)]
    Stopwatch(bench::StopwatchOptions),
}

fn main() -> ExitCode {
    match process::end_all_on_signal().and_then(|()| run(&Cli::parse().command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Abi(options) => abi::run(options),
        Command::Install(options) => stage::install(options),
        Command::Wheel(options) => wheel::run(options),
        Command::Deb(options) => deb::run(options),
        Command::FindMpi(options) => find_mpi::run(options),
        Command::Fortran(options) => fortran::run(options),
        Command::Translate(options) => translate::run(options),
        Command::Docs => docs::run(),
        Command::Run => run::run(),
        Command::Test(options) => test::run(options),
        Command::Tidy => tidy::run(),
        Command::Ci(options) => ci::run(options),
        Command::Conformance(options) => conformance::run(options),
        Command::Instructions(options) => instructions::run(options),
        Command::Killtest(options) => killtest::run(options),
        Command::WhyTest(options) => why_test::run(options),
        Command::SurviveTest(options) => survive_test::run(options),
        Command::Launchers(options) => launchers::run(options),
        Command::Fuzz(options) => fuzz::run(options),
        Command::FuzzDecoders(options) => fuzz_decoders::run(options),
        Command::Mutants(options) => mutants::run(options),
        Command::LabTest(options) => lab_test::run(options),
        Command::NetTest(options) => net_test::run(options),
        Command::OnHosts(options) => net_test::on_hosts(options),
        Command::Nightly(options) => nightly::run(options),
        Command::Bench(options) => bench::run(options),
        Command::NetStranger(options) => net_test::stranger(options),
        Command::Stopwatch(options) => bench::stopwatch(options),
    }
}
