//! The launcher's standard input, forwarded to rank 0.
//!
//! On one host rank 0 inherits a file or a pipe, so that the launcher never reads what rank 0 does not. A
//! terminal is forwarded: rank 0 has a process group of its own, which the terminal would stop if it read
//! itself. On several hosts everything is forwarded.

use crate::wire::CHUNK_BYTES;
use rustix::io::Errno;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that may be under way to rank 0: what it does not read is not read here either.
const UNDER_WAY_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
enum Source {
    /// Rank 0 has it itself, or it is over.
    None,
    Terminal,
    /// A copy that can be waited for; a file cannot.
    Pipe(OwnedFd),
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Nothing,
    Bytes(usize),
    End,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
    under_way_bytes: usize,
    /// The launcher is a background job: reading would stop it. SIGCONT says when that is over.
    is_background: bool,
}

impl Input {
    /// For a job on this host alone, or on several.
    pub(crate) fn new(is_cluster: bool) -> Self {
        let source = match (io::stdin().is_terminal(), is_cluster) {
            (true, _) => Source::Terminal,
            (false, false) => Source::None,
            (false, true) => copied().map_or(Source::None, Source::Pipe),
        };
        Input { source, under_way_bytes: 0, is_background: false }
    }

    /// Whether rank 0 gets its input by messages.
    pub(crate) fn is_forwarded(&self) -> bool {
        !matches!(self.source, Source::None)
    }

    /// The descriptor to watch; `None`: nothing now.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.under_way_bytes >= UNDER_WAY_BYTES_MAX || self.is_background {
            return None;
        }
        self.any_fd()
    }

    /// The descriptor that may be watched at the moment.
    pub(crate) fn any_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::None => None,
            Source::Terminal => Some(rustix::stdio::stdin()),
            Source::Pipe(pipe) => Some(pipe.as_fd()),
        }
    }

    /// Reads what there is.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Taken {
        if matches!(self.source, Source::Terminal) && !is_foreground() {
            self.is_background = true;
            return Taken::Nothing;
        }
        let Some(fd) = self.fd() else { return Taken::Nothing };
        match rustix::io::read(fd, into) {
            Ok(count) if count > 0 => {
                self.under_way_bytes += count;
                Taken::Bytes(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
            _ => {
                self.close();
                Taken::End
            }
        }
    }

    /// Rank 0 has taken this many bytes, or they are no longer wanted.
    pub(crate) fn on_taken(&mut self, count: usize) {
        self.under_way_bytes = self.under_way_bytes.saturating_sub(count);
    }

    /// The launcher goes on after a stop.
    pub(crate) fn on_continue(&mut self) {
        self.is_background = false;
    }

    /// The input has no reader any more.
    pub(crate) fn close(&mut self) {
        self.source = Source::None;
    }
}

fn is_foreground() -> bool {
    let terminal = rustix::stdio::stdin();
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Copies standard input to a pipe, by a thread that may wait for ever.
fn copied() -> Option<OwnedFd> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut chunk) {
            let mut left = &chunk[..count];
            while let Ok(written @ 1..) = rustix::io::write(&write, left) {
                left = &left[written..];
            }
            if !left.is_empty() {
                break;
            }
        }
    });
    Some(read)
}
