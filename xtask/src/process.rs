//! Starting programs: always with a time limit, and with everything they started ended afterwards.
//!
//! A program runs in a process group of its own. At the limit the group gets SIGTERM (a launcher then ends
//! its ranks), two seconds later SIGKILL.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Process groups under way, for `end_all_on_signal`.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Makes Ctrl-C and SIGTERM end what we started before they end us: it runs in groups of its own and would
/// not notice.
///
/// # Errors
/// The handler cannot be installed.
pub(crate) fn end_all_on_signal() -> Result<()> {
    ctrlc::set_handler(|| {
        if let Ok(groups) = RUNNING.lock() {
            for group in groups.iter() {
                let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
            }
        }
        std::process::exit(130);
    })
    .context("cannot install a signal handler")
}

/// How long a launcher may take to end its ranks after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// What came of a run.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) wall: Duration,
    /// CPU time of the program and of all that it waited for, in steps of a clock tick.
    pub(crate) cpu: Duration,
    pub(crate) timed_out: bool,
}

impl Outcome {
    pub(crate) fn success(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// One line that says why a run failed: the limit, the signal or exit code, and the last thing it said.
    pub(crate) fn reason(&self) -> String {
        let ending = if self.timed_out {
            format!("no end after {:.0} s", self.wall.as_secs_f64())
        } else if let Some(signal) = self.status.signal() {
            format!("ended by signal {signal}")
        } else {
            format!("exit code {}", self.status.code().unwrap_or(-1))
        };
        let said = self.stderr.lines().chain(self.stdout.lines());
        match said.map(str::trim).find(|line| line.len() > 8 && !line.starts_with(['-', '=', '*'])) {
            Some(line) => format!("{ending}: {}", line.chars().take(160).collect::<String>()),
            None => ending,
        }
    }

    /// What is wrong with how it ended: it failed, says one of `fails`, or does not say `passes`.
    pub(crate) fn fault(&self, passes: Option<&str>, fails: &[String]) -> Option<String> {
        let says = |text: &str| self.stdout.contains(text) || self.stderr.contains(text);
        if !self.success() {
            return Some(self.reason());
        }
        if let Some(bad) = fails.iter().find(|text| says(text)) {
            let lines = self.stdout.lines().chain(self.stderr.lines());
            let line = lines.map(str::trim).find(|line| line.contains(bad.as_str())).unwrap_or(bad);
            return Some(format!("it says: {line}"));
        }
        passes.filter(|text| !says(text)).map(|text| format!("it does not say {text:?}"))
    }
}

/// The last lines of what was said, for people: who reads a log far away has nothing else.
pub(crate) fn last_lines(said: &str, count: usize) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(count);
    lines[from..]
        .iter()
        .map(|line| format!("   | {}\n", line.chars().take(300).collect::<String>()))
        .collect()
}

/// Reads all that a pipe brings; `has_ended` becomes true with the first line that `is_enough`.
fn drain(
    pipe: impl Read + Send + 'static,
    is_enough: fn(&str) -> bool,
    has_ended: Arc<AtomicBool>,
) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut pipe, mut bytes) = (BufReader::new(pipe), Vec::new());
        loop {
            let begin = bytes.len();
            match pipe.read_until(b'\n', &mut bytes) {
                Ok(0) => break,
                // A pipe that breaks has given what it had.
                Err(_) => break,
                Ok(_) if is_enough(&String::from_utf8_lossy(&bytes[begin..])) => {
                    has_ended.store(true, Ordering::Relaxed);
                }
                Ok(_) => {}
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs `command` to its end or for `limit`, with its output captured.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Outcome> {
    capture_as(command, limit, |_| false, |_| false, &mut || {})
}

/// The same, and ends it (SIGKILL) once a line of its standard output `is_enough`. At the limit it is ended
/// only if it waits: one that could run, and gets no CPU, goes on. So the caller limits its CPU time.
/// `on_idle` is called once if the program has waited for `IDLE_SAMPLES` looks on end.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn capture_until(
    command: &mut Command,
    limit: Duration,
    is_enough: fn(&str) -> bool,
    on_idle: &mut dyn FnMut(),
) -> Result<Outcome> {
    capture_as(command, limit, is_enough, can_run, on_idle)
}

/// How often it is looked whether a program waits, and for how many looks on end it does before it counts as
/// idle.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
const IDLE_SAMPLES: u32 = 20;
/// What the kernel counts CPU time in for programs (`USER_HZ`, 100 on every machine that Linux runs on but
/// Alpha).
const TICKS_PER_S: u64 = 100;

/// CPU time of a process, its own and that of the children it waited for. It must not be reaped yet.
fn cpu_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // proc_pid_stat(5): utime, stime, cutime and cstime are fields 14 to 17; the name, field 2, may have
    // spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_S)
}

/// Whether a thread of this process could go on: it runs or waits for a CPU, for a disk, or to be continued.
fn can_run(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).any(|stat| {
        // The name before it may have any characters in it.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['R', 'D', 'T']))
    })
}

fn capture_as(
    command: &mut Command,
    limit: Duration,
    is_enough: fn(&str) -> bool,
    may_go_on: fn(u32) -> bool,
    on_idle: &mut dyn FnMut(),
) -> Result<Outcome> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.process_group(0).spawn().with_context(|| format!("cannot start {command:?}"))?;
    let group = child.id() as i32;
    track(|groups| groups.insert(group));
    let has_ended = Arc::new(AtomicBool::new(false));
    let stdout = drain(child.stdout.take().expect("stdout is a pipe"), is_enough, has_ended.clone());
    let stderr = drain(child.stderr.take().expect("stderr is a pipe"), |_| false, has_ended.clone());
    let ended = wait(&mut child, begin, limit, Watch { has_ended: &has_ended, may_go_on, on_idle });
    let wall = begin.elapsed();
    // What the program left running holds our pipes open and the CPUs busy.
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    track(|groups| groups.remove(&group));
    let (status, timed_out, cpu) = ended?;
    Ok(Outcome { status, stdout: join(stdout), stderr: join(stderr), wall, cpu, timed_out })
}

fn track(change: impl FnOnce(&mut BTreeSet<i32>) -> bool) {
    if let Ok(mut groups) = RUNNING.lock() {
        change(&mut groups);
    }
}

fn join(reader: JoinHandle<String>) -> String {
    // A left-over outside the group may hold the pipe for ever: wait only a little.
    let end = Instant::now() + GRACE;
    while !reader.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    if reader.is_finished() { reader.join().unwrap_or_default() } else { String::new() }
}

/// What is looked for while a program runs.
struct Watch<'w> {
    has_ended: &'w AtomicBool,
    may_go_on: fn(u32) -> bool,
    on_idle: &'w mut dyn FnMut(),
}

fn wait(
    child: &mut Child,
    begin: Instant,
    limit: Duration,
    watch: Watch<'_>,
) -> Result<(ExitStatus, bool, Duration)> {
    let Watch { has_ended, may_go_on, on_idle } = watch;
    let group = Pid::from_raw(child.id() as i32);
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let (mut asked, mut looked, mut idle_count) = (None, begin, 0);
    loop {
        // Its CPU time is known until it is reaped.
        if waitid(Id::Pid(group), ended)? != WaitStatus::StillAlive {
            let cpu = cpu_time(child.id());
            return Ok((child.wait()?, asked.is_some(), cpu));
        }
        if has_ended.load(Ordering::Relaxed) {
            let _ = killpg(group, Signal::SIGKILL);
        }
        if idle_count < IDLE_SAMPLES && looked.elapsed() >= IDLE_INTERVAL {
            looked = Instant::now();
            idle_count = if can_run(child.id()) { 0 } else { idle_count + 1 };
            if idle_count == IDLE_SAMPLES {
                on_idle();
            }
        }
        match asked {
            None if begin.elapsed() > limit && !may_go_on(child.id()) => {
                let _ = killpg(group, Signal::SIGTERM);
                asked = Some(Instant::now());
            }
            Some(when) if Instant::elapsed(&when) > GRACE => {
                let _ = killpg(group, Signal::SIGKILL);
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `command` with its output shown as it comes.
///
/// # Errors
/// The program cannot be started or does not end well; the error names it.
pub(crate) fn show(command: &mut Command) -> Result<()> {
    let name = line(command);
    let status = command.status().with_context(|| format!("cannot start `{name}`"))?;
    if !status.success() {
        bail!("`{name}` failed: {status}");
    }
    Ok(())
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_past_its_limit_is_ended_and_said_so() {
        let outcome = capture(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap();
        assert!(outcome.timed_out && !outcome.success());
        assert!(outcome.wall < Duration::from_secs(5));
        assert!(outcome.reason().starts_with("no end after"));
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_is_ended_with_the_program() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo said"]);
        let outcome = capture(&mut command, Duration::from_secs(10)).unwrap();
        assert_eq!(outcome.stdout, "said\n");
        assert!(outcome.wall < Duration::from_secs(5));
    }

    #[test]
    fn a_program_is_ended_once_it_has_said_enough() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; sleep 60"]);
        let is_enough = |line: &str| line == "two\n";
        let outcome = capture_until(&mut command, Duration::from_secs(30), is_enough, &mut || {}).unwrap();
        assert_eq!(outcome.stdout, "one\ntwo\n");
        assert!(!outcome.success() && !outcome.timed_out);
    }

    #[test]
    fn what_could_run_is_told_from_what_waits() {
        let mut waiting = Command::new("sleep").arg("60").spawn().unwrap();
        let mut looping = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        // Both have to get there.
        while can_run(waiting.id()) || !can_run(looping.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for child in [&mut waiting, &mut looping] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!can_run(waiting.id()));
    }

    #[test]
    fn an_idle_program_is_told_of_once_and_a_busy_one_is_not() {
        let sign = std::env::temp_dir().join(format!("ayatori-idle-{}", std::process::id()));
        let mut idle_count = 0;
        let mut until = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&sign);
            let mut on_idle = || {
                idle_count += 1;
                std::fs::write(&sign, b"").unwrap();
            };
            capture_until(&mut command, Duration::from_secs(600), |_| false, &mut on_idle).unwrap()
        };
        let busy = until("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        assert!(busy.cpu > Duration::ZERO);
        assert!(until("until [ -e \"$0\" ]; do sleep 2; done").success());
        std::fs::remove_file(&sign).unwrap();
        assert_eq!(idle_count, 1);
    }

    #[test]
    fn the_last_lines_are_those_that_say_something() {
        assert_eq!(last_lines("one\ntwo\n\n three\n", 2), "   | two\n   |  three\n");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn the_reason_of_a_failure_names_code_and_message() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'no such device' >&2; exit 3"]);
        let outcome = capture(&mut command, Duration::from_secs(10)).unwrap();
        assert_eq!(outcome.reason(), "exit code 3: no such device");
    }
}
