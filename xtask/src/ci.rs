//! `cargo xtask ci`: what `.ci/run` runs. Every step runs even when an earlier one failed; each runner's
//! closing lines are shown again at the end, so that a long log is read from its tail.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{paths, skips, stage};

/// A step's name and the arguments of `cargo xtask`.
type Named = (&'static str, &'static [&'static str]);

/// The first steps: the README's test command, its run command, the count of the short path's instructions.
const FIRST: [Named; 3] = [
    ("test", &["test", "--keep-going", "--compact"]),
    ("run", &["run"]),
    ("instructions", &["instructions"]),
];

/// Then two rows side by side, for none of them needs an idle machine: mpi4py's own tests at 1 and 3 ranks;
/// and our programs built for MPICH and Open MPI where their packages can be had, 2,000 worlds with faults,
/// jobs over TCP between network namespaces, where those can be made. The planner's proof on real bridges
/// takes minutes in an emulated machine and has a name of its own, `cargo xtask lab-test`.
const ROWS: [&[Named]; 2] = [
    &[("mpi4py", &["conformance", "mpi4py"])],
    &[
        ("built-for-mpich", &["conformance", "c", "--abi", "mpich", "--ranks", "2"]),
        ("built-for-openmpi", &["conformance", "c", "--abi", "openmpi", "--ranks", "2"]),
        ("fuzz", &["fuzz", "--seeds", "2000"]),
        ("net-test", &["net-test", "--if-possible"]),
    ],
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
    let mut report = Report::default();
    report.run(&FIRST, Output::AsItComes)?;
    let rows = std::thread::scope(|scope| {
        let [shown, quiet] = ROWS;
        let beside = scope.spawn(|| Report::of_row(quiet, Output::AtTheEnd));
        let shown = Report::of_row(shown, Output::AsItComes);
        [shown, beside.join().expect("a row of steps does not panic")]
    });
    for row in rows {
        report.add(row?);
    }
    println!("\n=== summary");
    for line in &report.summary {
        println!("{line}");
    }
    let skipped = skips::close(options.strict);
    if !report.failed.is_empty() {
        bail!("failed: {}", report.failed.join(", "));
    }
    skipped
}

/// What came of steps.
#[derive(Default)]
struct Report {
    summary: Vec<String>,
    failed: Vec<&'static str>,
}

impl Report {
    /// Steps that use what the first of all has staged.
    fn of_row(steps: &[Named], output: Output) -> Result<Self> {
        let mut report = Self::default();
        report.run(steps, output)?;
        Ok(report)
    }

    fn add(&mut self, mut other: Self) {
        self.summary.append(&mut other.summary);
        self.failed.append(&mut other.failed);
    }

    fn run(&mut self, steps: &[Named], output: Output) -> Result<()> {
        for (name, arguments) in steps {
            let begin = Instant::now();
            let mut command = this()?;
            command.args(*arguments);
            if !FIRST.iter().any(|(first, _)| first == name) {
                command.env(stage::IS_STAGED, "yes");
            }
            let (ok, mut closing) = step(&command, &skips::path(), output)?;
            self.summary.append(&mut closing);
            let word = if ok { "ok" } else { "FAILED" };
            let seconds = begin.elapsed().as_secs_f64();
            self.summary.push(format!("== cargo xtask {}: {word}, {seconds:.0} s", arguments.join(" ")));
            if !ok {
                self.failed.push(name);
            }
        }
        Ok(())
    }
}

/// When a step's output is printed. Two that run side by side do not mix theirs line by line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    AsItComes,
    AtTheEnd,
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
pub(crate) fn step(command: &Command, skips: &Path, output: Output) -> Result<(bool, Vec<String>)> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("exec \"$0\" \"$@\" 2>&1").arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env(skips::VARIABLE, skips).current_dir(paths::root()).stdout(Stdio::piped());
    let mut child = shell.spawn()?;
    let pipe = child.stdout.take().expect("stdout is a pipe");
    let (mut closing, mut kept) = (Vec::new(), String::new());
    for line in BufReader::new(pipe).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        match output {
            Output::AsItComes => println!("{line}"),
            Output::AtTheEnd => kept = kept + &line + "\n",
        }
        if is_closing(&line) {
            closing.push(line);
        }
    }
    print!("{kept}");
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
    fn closing_lines_of_runners_are_kept_and_of_tests_are_not() {
        assert!(is_closing("test result: ok. 11 passed; 0 failed; 0 ignored"));
        assert!(is_closing("conformance c on ayatori: 60 passed, 0 failed, 0 skipped"));
        assert!(is_closing("== clippy: ok, 12 s"));
        assert!(is_closing("2000 worlds from seed 0 in 5.0 s on 2 threads: no violation"));
        assert!(is_closing("replay: ayatori sim fuzz --seeds 1 --from 2740"));
        assert!(!is_closing("test a_b_c ... ok"));
        assert!(!is_closing("   Compiling ayatori-core v0.1.0"));
    }
}
