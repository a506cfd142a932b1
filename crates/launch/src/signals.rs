//! Signals as events.

use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Signals that reach the ranks through us.
const FORWARDED: [i32; 9] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT];

/// The signals that came since the last look.
#[derive(Debug)]
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Begins to catch. Signals ignored when we were started (nohup, a background job of a plain shell) stay
    /// ignored.
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = ignored_mask();
        let is_wanted = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
        let wanted = FORWARDED.into_iter().filter(is_wanted).chain([SIGCHLD]);
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, wanted)?;
        Ok(Signals { delivery })
    }

    /// Readable when signals are pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// The pending signals, each once.
    pub(crate) fn take(&mut self) -> Vec<i32> {
        self.delivery.pending().collect()
    }
}

/// Bit N-1 for signal N; none where /proc is missing.
fn ignored_mask() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether the signal is meant to end a program.
pub(crate) fn is_ending(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT)
}
