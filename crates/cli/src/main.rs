//! The `ayatori` command.
//!
//! One file a subcommand in `commands/`; each has an `Args` (what may be typed) and a `run` that answers an
//! [`exit::Exit`] or an error. What the process answers to the shell is decided in `exit.rs` and nowhere
//! else. To add a subcommand: a file in `commands/`, a line in [`Command`], a line in [`dispatch`].
#![forbid(unsafe_code)]

mod commands;
mod exit;
mod style;

use ayatori_launch::{controller, watchdog};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Run MPI programs, plan fabrics, simulate networks.
#[derive(Debug, Parser)]
#[command(
    name = "ayatori",
    version,
    propagate_version = true,
    max_term_width = 110,
    arg_required_else_help = true
)]
struct Cli {
    /// Colour in what is printed
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: style::Choice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start an MPI program, here or on several hosts
    Run(commands::run::Args),
    /// Serve the ranks of this host for an `ayatori run` elsewhere, which starts it (--agent)
    #[command(hide = true)]
    Agent(commands::run::AgentArgs),
    /// Show the version, this machine's devices and limits, and why a protocol is chosen
    Info(commands::info::Args),
    /// Look for settings of this machine that stop or slow MPI jobs, and say what to change
    Doctor(commands::doctor::Args),
    /// Say what the ranks of a running job wait for, and whether it is a deadlock
    Why(commands::why::Args),
    /// Plan VLANs for a cluster of cheap switches, and write the switches' and hosts' configuration
    Plan(commands::plan::Args),
    /// Build the described cluster on this machine, in a small virtual machine, and run in it
    Lab(commands::lab::Args),
    /// Simulate a workload on a machine's network, or worlds with faults, with real processes
    Sim(commands::sim::Args),
    /// Measure this machine, write its description, and compare predictions with measurements
    Calibrate(commands::calibrate::Args),
    /// Compute a paper's figures and print them beside the paper's own
    Study(commands::study::Args),
    /// Print the completions of a shell: bash, zsh, fish
    Completions(commands::completions::Args),
    /// Print the manual page, or write those of all subcommands
    Man(commands::completions::ManArgs),
}

fn dispatch(command: Command) -> anyhow::Result<exit::Exit> {
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Agent(args) => commands::run::run_agent(args),
        Command::Info(args) => commands::info::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Why(args) => commands::why::run(args),
        Command::Plan(args) => commands::plan::run(args),
        Command::Lab(args) => commands::lab::run(args),
        Command::Sim(args) => commands::sim::run(args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Study(args) => commands::study::run(args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Man(args) => commands::completions::run_man(&args, Cli::command()),
    }
}

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == watchdog::NAME) {
        return watchdog::main(&std::env::args().nth(1).unwrap_or_default());
    }
    if std::env::args_os().next().is_some_and(|name| name == controller::WORLD_NAME) {
        return exit::report(commands::run::run_world(&std::env::args().nth(1).unwrap_or_default()));
    }
    let args = arguments(std::env::args_os());
    match Cli::try_parse_from(args) {
        Ok(cli) => {
            style::choose(cli.color);
            exit::report(dispatch(cli.command))
        }
        Err(error) => exit::report_usage(&error),
    }
}

/// The arguments as clap is to see them. Installed as `mpiexec` or `mpirun` we are `ayatori run`; and `run`
/// takes the single-dash long options (`-np 4`, `-genv A B`) that other launchers have taught people.
fn arguments(raw: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = raw.collect();
    if args.first().is_some_and(is_launcher_name) {
        args[0] = "ayatori".into();
        args.insert(1, "run".into());
    }
    let at = subcommand_at(&args);
    if args.get(at).is_some_and(|subcommand| subcommand == "run") {
        let rest = args.split_off(at + 1);
        args.extend(commands::run::normalise(rest));
    }
    args
}

/// Where the subcommand stands: behind `--color`, if that comes first.
fn subcommand_at(args: &[OsString]) -> usize {
    match args.get(1).and_then(|first| first.to_str()) {
        Some("--color") => 3,
        Some(option) if option.starts_with("--color=") => 2,
        _ => 1,
    }
}

fn is_launcher_name(argv0: &OsString) -> bool {
    let stem = Path::new(argv0).file_stem().unwrap_or_default();
    stem == "mpiexec" || stem == "mpirun"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every long option that `command` and its subcommands show, with the command's name.
    fn options(command: &clap::Command, of: &str) -> Vec<(String, String)> {
        let own = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let own = own.filter_map(|argument| Some((of.to_owned(), argument.get_long()?.to_owned())));
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below = below.flat_map(|command| options(command, &format!("{of} {}", command.get_name())));
        own.chain(below).collect()
    }

    #[test]
    fn every_option_stands_in_a_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = std::fs::read_dir(root.join("docs")).expect("docs/").map(|entry| entry.unwrap().path());
        let pages: String = pages.map(|page| std::fs::read_to_string(page).expect("a page")).collect();
        let is_told = |option: &str| {
            pages.match_indices(option).any(|(at, _)| {
                let after = pages[at + option.len()..].chars().next();
                after.is_none_or(|c| c != '-' && !c.is_alphanumeric())
            })
        };
        let all = options(&Cli::command(), "ayatori");
        assert!(all.len() > 50, "{} options", all.len());
        let untold: Vec<String> = all
            .iter()
            .filter(|(_, option)| !is_told(&format!("--{option}")))
            .map(|(command, option)| format!("{command} --{option}"))
            .collect();
        assert!(untold.is_empty(), "docs/*.md say nothing of {}", untold.join(", "));
    }

    #[test]
    fn called_as_mpiexec_it_runs() {
        let args = arguments(["/usr/bin/mpiexec", "-n", "2", "true"].map(OsString::from).into_iter());
        assert_eq!(args, ["ayatori", "run", "-n", "2", "true"]);
        for color in [&["--color", "never"][..], &["--color=never"]] {
            let args = [&["ayatori"], color, &["run", "-np", "2", "true"]].concat();
            let args = arguments(args.into_iter().map(OsString::from));
            assert_eq!(args[1 + color.len()..], ["run", "--np", "2", "true"]);
        }
    }
}
