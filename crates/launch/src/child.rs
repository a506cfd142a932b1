//! What a launcher sets up in a rank between fork and exec.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set-up of the child that [`Command`] itself does not do.
#[derive(Debug, Clone)]
pub struct RankSetup {
    /// The launcher's process id. The child dies (SIGKILL) with the thread that starts it; if the launcher
    /// has died before that was arranged, the child exits.
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
pub struct CpuMask([u64; CPUS_MAX / 64]);

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

/// Makes `command` do what `setup` says in the child, just before it becomes the program.
pub fn prepare(command: &mut Command, setup: RankSetup) {
    // SAFETY: the closure runs in a forked child of a process that may have other threads, so it may only do
    // what is async-signal-safe. It reads memory that it owns and makes system calls that take integers or
    // pointers to that memory; it neither allocates nor frees nor takes a lock.
    unsafe { command.pre_exec(move || setup_child(&setup)) };
}

fn setup_child(setup: &RankSetup) -> io::Result<()> {
    // SAFETY: integers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The parent may have died before the line above: then no signal comes. SAFETY: no arguments.
    if unsafe { libc::getppid() } != setup.parent {
        // SAFETY: integers only; does not return.
        unsafe { libc::_exit(1) };
    }
    for &fd in setup.inherit.iter().filter(|&&fd| fd >= 0) {
        // SAFETY: integers only. This is the child's descriptor table: the flag is cleared for it alone.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
    }
    if let Some((soft, hard)) = setup.open_files {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: `limit` lives on this stack and is only read.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    if let Some(CpuMask(words)) = &setup.cpus {
        let size_bytes = size_of_val(words);
        // SAFETY: the kernel reads `size_bytes` bytes at the mask, which is exactly what `words` is. The raw
        // call takes the words as they are; libc's type for them is opaque.
        check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_bytes, words.as_ptr()) }
            as libc::c_int)?;
    }
    Ok(())
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
