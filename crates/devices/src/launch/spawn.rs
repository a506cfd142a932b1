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
    /// The CPUs that the program may run on, where they are not the launcher's.
    pub cpus: Option<CpuMask>,
}

/// A set of CPUs in the kernel's form: CPU i is bit i % 64 of word i / 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuMask(pub(super) [u64; CPUS_MAX / 64]);

/// CPU numbers are below this.
pub const CPUS_MAX: usize = 8192;

impl CpuMask {
    /// The set of `cpus`; numbers from [`CPUS_MAX`] on are left out.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut words = [0; CPUS_MAX / 64];
        for cpu in cpus.into_iter().filter(|&cpu| cpu < CPUS_MAX) {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        CpuMask(words)
    }
}

/// Adds `setup` to what `command` does in the child.
pub fn prepare(command: &mut Command, setup: RankSetup) {
    sys::install(command, setup);
}
