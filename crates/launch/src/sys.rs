//! The system calls of the PMI client that std does not offer.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor of our own for what `fd`, a number from the environment, refers to; blocking and
/// close-on-exec. `fd` itself stays open and becomes close-on-exec, so that a program this process starts
/// does not talk to our launcher in our name.
///
/// # Errors
/// `EBADF` where no such descriptor is open.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes integers only; on a number that is not open it answers EBADF.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made `copy` for us and no other code knows its number.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: both calls take integers only; `fd` was open a moment ago, else EBADF, which does no harm.
    unsafe {
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        let flags = libc::fcntl(copy.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(copy.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
    Ok(copy)
}

/// Whether `fd` names an open descriptor of this process.
pub(crate) fn is_open(fd: RawFd) -> bool {
    // SAFETY: F_GETFD takes integers only.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Whether there is something to read, or the end, within `timeout`.
pub(crate) fn is_readable(fd: &impl std::os::fd::AsFd, timeout: std::time::Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    // A wait that fails is over: reading then says why.
    !matches!(poll(&mut fds, Some(&timeout)), Ok(0) | Err(rustix::io::Errno::INTR))
}
