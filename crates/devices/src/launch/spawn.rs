//! What a launcher sets up in a rank between fork and exec.

use super::sys;
use std::os::fd::RawFd;
use std::process::Command;

/// What is set up in the child, beyond what [`Command`] itself does.
#[derive(Debug, Clone)]
pub struct RankSetup {
    /// The launcher's process id. The child dies (SIGKILL) with the thread that starts it; if the launcher has
    /// died before that was arranged, the child exits.
    pub parent: i32,
    /// Descriptors that stay open across exec, under the same numbers; negative ones mean none.
    pub inherit: [RawFd; 2],
    /// The soft and hard limit of open files that the program gets, where it is not the launcher's.
    pub open_files: Option<(u64, u64)>,
}

/// Adds `setup` to what `command` does in the child.
pub fn prepare(command: &mut Command, setup: RankSetup) {
    sys::install(command, setup);
}
