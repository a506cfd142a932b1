//! The lines between fork and exec of a rank: the one place of the launcher that needs `unsafe`.

use super::spawn::{CpuMask, RankSetup};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes `command` do what `setup` says in the child, just before it becomes the program.
pub(super) fn install(command: &mut Command, setup: RankSetup) {
    // SAFETY: the closure runs in a forked child of a process that may have other threads, so it may only do
    // what is async-signal-safe. It reads memory that it owns and makes system calls that take integers or
    // pointers to that memory; it neither allocates nor frees nor takes a lock.
    unsafe { command.pre_exec(move || setup_child(&setup)) };
}

fn setup_child(setup: &RankSetup) -> io::Result<()> {
    // SAFETY: integers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The parent may have died before the line above: then nobody will tell us.
    // SAFETY: no arguments.
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
        // SAFETY: the kernel reads `size_bytes` bytes at the mask, which is exactly what `words` is. The raw call
        // takes the words as they are; libc's type for them is opaque.
        check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_bytes, words.as_ptr()) }
            as libc::c_int)?;
    }
    Ok(())
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
