//! How a process ended.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By exiting.
    Exited(i32),
    /// By a signal.
    Killed {
        /// Its number.
        signal: i32,
        /// Whether memory was written to a core file.
        is_core_dumped: bool,
    },
}

impl Status {
    /// How a child has ended, if it has; it stays to be reaped.
    pub(crate) fn of_child(pid: Pid) -> Option<Self> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).ok()??;
        Some(match status.terminating_signal() {
            Some(signal) => Status::Killed { signal, is_core_dumped: status.dumped() },
            None => Status::Exited(status.exit_status().unwrap_or(0)),
        })
    }

    /// As a predicate.
    pub(crate) fn describe(self) -> String {
        match self {
            Status::Exited(code) => format!("exited with code {code}"),
            Status::Killed { signal, is_core_dumped } => {
                let core = if is_core_dumped { ", core dumped" } else { "" };
                let meaning = match signal_name(signal).as_str() {
                    "SIGSEGV" => ", segmentation fault",
                    "SIGBUS" => ", bus error",
                    "SIGFPE" => ", arithmetic exception",
                    "SIGILL" => ", illegal instruction",
                    "SIGABRT" => ", abort() or failed assertion",
                    "SIGKILL" => ", killed from outside or by the out-of-memory killer",
                    "SIGPIPE" => ", its output has no reader",
                    _ => "",
                };
                format!("was killed by signal {signal} ({}{meaning}{core})", signal_name(signal))
            }
        }
    }
}

/// `SIGSEGV` for 11; the number where it has no name.
pub(crate) fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| signal.to_string(), str::to_owned)
}
