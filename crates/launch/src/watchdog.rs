//! The watchdog: a second process that outlives the one that serves the ranks of a host.
//!
//! A launcher that is killed with SIGKILL cannot clean up. Its ranks die with it (`PR_SET_PDEATHSIG`), but
//! what they have started would live on. The watchdog reads a pipe whose other end only the launcher has.
//! When the pipe closes without a farewell, the watchdog kills the ranks' process groups and then every
//! process that has the job's id in its environment. It is named `mpi-watchdog` and has a session of its own,
//! so that what is aimed at the launcher (`pkill ayatori`, a signal to the process group) misses it.

use crate::environment::ENV_JOB;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The watchdog's name, by which the program recognises that it was started as one.
pub const NAME: &str = "mpi-watchdog";
const FAREWELL: &str = "done";

/// The launcher's end.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts a watchdog for the job.
    pub(crate) fn start(job: &str) -> std::io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(job).env_clear();
        if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
            command.env("LD_LIBRARY_PATH", path);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Watchdog { child })
    }

    /// The watchdog's process id.
    pub(crate) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Tells it which processes to kill. Its death is no reason to end the job: errors are not reported.
    pub(crate) fn watch(&mut self, pids: impl Iterator<Item = Pid>) {
        let list: String = pids.map(|pid| format!("{}\n", pid.as_raw_nonzero())).collect();
        self.write(&list);
    }

    /// The job has ended in order.
    pub(crate) fn dismiss(mut self) {
        self.write(FAREWELL);
        // It can only be starting up; there is nothing to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn write(&mut self, text: &str) {
        if let Some(pipe) = &mut self.child.stdin {
            let _ = pipe.write_all(text.as_bytes());
        }
    }
}

/// The watchdog's whole life.
pub fn main(job: &str) -> ExitCode {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let _ = rustix::thread::set_name(c"mpi-watchdog");
    let mut told = Vec::new();
    let _ = std::io::stdin().lock().read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told);
    if told.lines().next_back() == Some(FAREWELL) || job.is_empty() {
        return ExitCode::SUCCESS;
    }
    for group in told.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Twice nothing found: what was between fork and exec during the first look is there at the second.
    let mark = format!("{ENV_JOB}={job}");
    let mut quiet_count = 0;
    for _ in 0..200 {
        quiet_count = if kill_marked(&mark) == 0 { quiet_count + 1 } else { 0 };
        if quiet_count == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ExitCode::SUCCESS
}

/// Kills the processes that have `mark` in their environment; says how many they were.
fn kill_marked(mark: &str) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let mut count = 0;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
        let is_marked = environment.split(|&b| b == 0).any(|variable| variable == mark.as_bytes());
        if let Some(pid) = Pid::from_raw(pid).filter(|_| is_marked) {
            let _ = kill_process(pid, Signal::KILL);
            count += 1;
        }
    }
    count
}
