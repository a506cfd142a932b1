//! From our terminal to rank 0.
//!
//! Only a terminal is forwarded: rank 0 runs in a process group of its own, which the terminal would stop if it read
//! itself. Anything else (a file, a pipe) rank 0 simply inherits, so the launcher never reads what rank 0 does not.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ChildStdin;

/// What the forwarding waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Something typed.
    Source,
    /// Room in rank 0's pipe.
    Sink,
    /// To be in the foreground again (SIGCONT).
    Foreground,
}

/// The forwarding of standard input.
#[derive(Debug)]
pub(super) struct Forward {
    sink: OwnedFd,
    pending: Vec<u8>,
}

impl Forward {
    /// Into rank 0's pipe.
    pub(super) fn new(pipe: ChildStdin) -> std::io::Result<Self> {
        let sink = OwnedFd::from(pipe);
        rustix::io::ioctl_fionbio(&sink, true)?;
        Ok(Forward { sink, pending: Vec::new() })
    }

    /// Rank 0's end.
    pub(super) fn sink(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }

    /// Moves what there is; says what to wait for, or `None` at the end of input or when rank 0 closed its end.
    pub(super) fn pump(&mut self, scratch: &mut [u8]) -> Option<Wait> {
        if self.pending.is_empty() {
            let terminal = rustix::stdio::stdin();
            // Reading in the background would stop the launcher.
            let is_foreground =
                rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp());
            if !is_foreground {
                return Some(Wait::Foreground);
            }
            match rustix::io::read(terminal, &mut *scratch) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend_from_slice(&scratch[..count]),
                Err(Errno::INTR | Errno::AGAIN) => return Some(Wait::Source),
                Err(_) => return None,
            }
        }
        match rustix::io::write(&self.sink, &self.pending) {
            Ok(count) => {
                self.pending.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
        Some(if self.pending.is_empty() { Wait::Source } else { Wait::Sink })
    }
}
