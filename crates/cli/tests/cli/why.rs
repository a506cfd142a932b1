//! `ayatori why`, from outside, on programs that do not use MPI. `cargo xtask why-test` tests MPI programs.

use crate::hosts::kill;
use rustix::process::Signal;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A message that is missing by then never comes.
const HANG_MAX: Duration = Duration::from_secs(240);

fn ayatori(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
    command.args(args).stdin(Stdio::null()).env_remove("OMP_NUM_THREADS");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A job of two ranks that sleep.
fn sleepers() -> Child {
    let mut command = ayatori(&["run", "-n", "2", "sleep", "600"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("ayatori runs")
}

/// Asks until the answer holds `words` so many times.
fn ask_until(args: &[&str], words: &str, count: usize) -> Output {
    let begin = Instant::now();
    loop {
        let output = ayatori(args).output().expect("ayatori runs");
        let said = text(&output.stdout);
        if said.matches(words).count() == count {
            return output;
        }
        assert!(begin.elapsed() < HANG_MAX, "not said: {words}\n{said}{}", text(&output.stderr));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(child.id().cast_signed(), signal);
}

#[test]
fn ranks_before_mpi_init_are_listed_by_the_launchers_pid() {
    let mut job = sleepers();
    let pid = job.id().to_string();
    let output = ask_until(&["why", &pid], "not in MPI yet", 2);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("sleep 600 (2 ranks") && said.contains("No deadlock: no rank waits in MPI."),
        "{said}"
    );
    let json = ayatori(&["why", &pid, "--json"]).output().expect("ayatori runs");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((value["ranks_count"].as_u64(), value["is_stuck"].as_bool()), (Some(2), Some(false)));
    signal(&job, Signal::TERM);
    job.wait().expect("it ends");
}

#[test]
fn sigusr1_prints_the_table_and_spares_ranks_without_handler() {
    let mut job = sleepers();
    ask_until(&["why", &job.id().to_string()], "not in MPI yet", 2);
    signal(&job, Signal::USR1);
    let mut said = String::new();
    let mut from = job.stderr.take().expect("a pipe");
    let mut chunk = [0; 4096];
    while !said.contains("No deadlock") {
        let count = from.read(&mut chunk).expect("a pipe");
        assert!(count > 0, "the job has ended: {said}");
        said += &text(&chunk[..count]);
    }
    assert!(said.contains("not in MPI yet"), "{said}");
    assert!(job.try_wait().expect("a child").is_none(), "it lives on");
    signal(&job, Signal::TERM);
    job.wait().expect("it ends");
}

#[test]
fn an_unknown_job_is_named() {
    let output = ayatori(&["why", "no-such-job"]).output().expect("ayatori runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("'no-such-job'"), "{}", text(&output.stderr));
}

#[test]
fn more_ranks_than_the_machine_allows_are_refused() {
    let output = ayatori(&["run", "-n", "99999999", "true"]).output().expect("ayatori runs");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("-n 99999999") && said.contains("allows"), "{said}");
}
