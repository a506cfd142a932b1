//! `cargo xtask ci`: what `.ci/run` runs. Every step runs even when an earlier one failed; each runner's
//! closing lines are shown again at the end, so that a long log is read from its tail.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{paths, skips};

/// The steps: the README's test command, its run command, the count of the short path's
/// instructions, our programs built for MPICH and Open MPI where their packages can be had, then 2,000
/// worlds with faults, mpi4py's own tests at 1 and 3 ranks, then jobs
/// over TCP between network namespaces, where those can be made. The planner's proof on real bridges takes
/// minutes in an emulated machine and has a name of its own, `cargo xtask lab-test`.
const STEPS: [(&str, &[&str]); 8] = [
    ("test", &["test", "--keep-going", "--compact"]),
    ("run", &["run"]),
    ("instructions", &["instructions"]),
    ("built-for-mpich", &["conformance", "c", "--abi", "mpich", "--ranks", "2"]),
    ("built-for-openmpi", &["conformance", "c", "--abi", "openmpi", "--ranks", "2"]),
    ("mpi4py", &["conformance", "mpi4py"]),
    ("fuzz", &["fuzz", "--seeds", "2000"]),
    ("net-test", &["net-test", "--if-possible"]),
];

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail where a check is skipped because something is missing on this machine.
    #[arg(long)]
    strict: bool,
}

/// `cargo xtask ci`.
pub(crate) fn run(options: &Options) -> Result<()> {
    skips::begin()?;
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    for (name, arguments) in STEPS {
        let begin = Instant::now();
        let (ok, mut closing) = step(this()?.args(arguments), &skips::path())?;
        summary.append(&mut closing);
        let word = if ok { "ok" } else { "FAILED" };
        summary.push(format!(
            "== cargo xtask {}: {word}, {:.0} s",
            arguments.join(" "),
            begin.elapsed().as_secs_f64()
        ));
        if !ok {
            failed.push(name);
        }
    }
    println!("\n=== summary");
    for line in &summary {
        println!("{line}");
    }
    let skipped = skips::close(options.strict);
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    skipped
}

/// Ourselves.
///
/// # Errors
/// Our own path is not to be had.
pub(crate) fn this() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find myself")?))
}

/// Runs a command, passes everything on, and keeps the closing lines of every runner. Whether it succeeded.
///
/// # Errors
/// It cannot be started.
pub(crate) fn step(command: &Command, skips: &Path) -> Result<(bool, Vec<String>)> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("exec \"$0\" \"$@\" 2>&1").arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env(skips::VARIABLE, skips).current_dir(paths::root()).stdout(Stdio::piped());
    let mut child = shell.spawn()?;
    let pipe = child.stdout.take().expect("stdout is a pipe");
    let mut closing = Vec::new();
    for line in BufReader::new(pipe).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        if is_closing(&line) {
            closing.push(line);
        }
    }
    Ok((child.wait()?.success(), closing))
}

/// The lines in which runners say how it went.
fn is_closing(line: &str) -> bool {
    let starts = ["test result:", "== ", "tidy: ", "conformance ", "FAILED ", "heat: PASSED", "heat: FAILED"];
    let more =
        ["pingpong: PASSED", "pingpong: FAILED", "error: test failed", "killtest", "why-test:", "mutants "];
    starts.iter().chain(&more).any(|start| line.starts_with(start))
        || (line.contains(" passed") && line.contains(" failed"))
        || line.contains(" worlds from seed ")
        // A world that breaks a promise, and how to run it again.
        || line.starts_with("replay: ")
}

#[cfg(test)]
mod tests {
    use super::is_closing;

    #[test]
    fn every_runners_closing_line_is_kept_and_a_tests_own_line_is_not() {
        assert!(is_closing("test result: ok. 11 passed; 0 failed; 0 ignored"));
        assert!(is_closing("conformance c on ayatori: 60 passed, 0 failed, 0 skipped"));
        assert!(is_closing("== clippy: ok, 12 s"));
        assert!(is_closing("2000 worlds from seed 0 in 5.0 s on 2 threads: no violation"));
        assert!(is_closing("replay: ayatori sim fuzz --seeds 1 --from 2740"));
        assert!(!is_closing("test a_b_c ... ok"));
        assert!(!is_closing("   Compiling ayatori-core v0.1.0"));
    }
}
