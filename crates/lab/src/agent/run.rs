//! Runs programs in nodes, all at once, and passes on what they write, line by line.

use super::line::Line;
use super::network::in_node;
use crate::wire::{Job, Reply};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest line passed on whole; a longer one is cut into several, so that a job cannot fill our memory.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Runs all jobs at once and waits for them.
pub(super) fn all(jobs: &[Job], timeout: Duration, line: &Line) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    std::thread::scope(|scope| {
        let workers: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(index, job)| scope.spawn(move || one(index, job, deadline, line)))
            .collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a job's thread panicked"))??;
        }
        Ok(())
    })
}

fn one(index: usize, job: &Job, deadline: Instant, line: &Line) -> anyhow::Result<()> {
    let Some(program) = job.program.first() else { bail!("an empty command for {}", job.node) };
    // `ip netns exec` gives a `/sys` of the node's own, for one more program to start; else the thread we
    // start it from is in the node, and so is the child.
    let mut command = if job.own_sys { Command::new("ip") } else { Command::new(program) };
    if job.own_sys {
        command.args(["netns", "exec", &job.node, program]);
    }
    command
        .args(&job.program[1..])
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that at the end of its time all of it can be ended.
        .process_group(0);
    let spawned = if job.own_sys { command.spawn() } else { in_node(&job.node, || command.spawn())? };
    let mut child = spawned.with_context(|| format!("cannot start {program} in {}", job.node))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A job that does not read its input is no error.
                let _ = stdin.write_all(job.input.as_bytes());
            }
        });
        scope.spawn(move || stdout.map(|pipe| pass_on(index, false, pipe, line)));
        scope.spawn(move || stderr.map(|pipe| pass_on(index, true, pipe, line)));
        let code = wait(&mut child, deadline);
        line.send(&Reply::Ended { job: index, code });
    });
    Ok(())
}

fn pass_on(job: usize, is_error: bool, pipe: impl Read, line: &Line) {
    let mut reader = BufReader::new(pipe);
    let mut text = Vec::new();
    while reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text).is_ok_and(|count| count > 0) {
        let content = String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned();
        line.send(&Reply::Output { job, is_error, line: content });
        text.clear();
    }
}

/// The exit code (128 + signal if one ended it), or `None` after ending the job at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<i32> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        if Instant::now() > deadline {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
