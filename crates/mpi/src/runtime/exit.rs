//! How a job ends before its time.

use crate::abi::MPI_ERR_INTERN;
use crate::lock::locked;
use ayatori_launch::launcher::Launcher;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The launcher, while MPI runs. A lock of its own: an abort may come while any other is held.
static LAUNCHER: Mutex<Option<Box<dyn Launcher>>> = Mutex::new(None);

pub(super) fn launcher() -> MutexGuard<'static, Option<Box<dyn Launcher>>> {
    locked(&LAUNCHER)
}

/// Asks the launcher something; `None`: there is none.
pub(crate) fn with_launcher<R>(question: impl FnOnce(&mut dyn Launcher) -> R) -> Option<R> {
    launcher().as_mut().map(|launcher| question(&mut **launcher))
}

/// Ends the job: `MPI_Abort`, a fatal error, or a bug. Says why on standard error.
pub(crate) fn abort(code: c_int, message: &str) -> ! {
    eprintln!("ayatori: {message}");
    wait_until_read(std::io::stderr().as_fd());
    // The holder is aborting too, or waits for the others.
    if let Ok(mut launcher) = LAUNCHER.try_lock()
        && let Some(launcher) = launcher.as_mut()
    {
        // Gone or not, this process ends now.
        let _ = launcher.abort(code, message.lines().next());
    }
    exit_silently(code)
}

/// How long a launcher may take to read what is in a pipe, and how often that is looked at.
const READ_MAX: Duration = Duration::from_millis(200);
const READ_LOOK: Duration = Duration::from_millis(1);

/// Waits until the launcher has read what this process has written to a pipe, but not for long: MPICH's
/// launcher ends a job that aborts without reading what its processes have said.
fn wait_until_read(fd: BorrowedFd<'_>) {
    for _ in 0..READ_MAX.as_millis() / READ_LOOK.as_millis() {
        if unread_bytes(fd).is_none_or(|bytes| bytes == 0) {
            return;
        }
        std::thread::sleep(READ_LOOK);
    }
}

/// How much of what was written to a pipe has not been read. `None`: it is no pipe.
fn unread_bytes(fd: BorrowedFd<'_>) -> Option<usize> {
    // SAFETY: all zero is a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid for writes.
    let is_known = unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } == 0;
    if !is_known || stat.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return None;
    }
    let mut bytes: c_int = 0;
    // SAFETY: FIONREAD writes an int.
    let is_counted = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) } == 0;
    is_counted.then_some(bytes as usize)
}

/// Ends this process, where another says why.
pub(super) fn exit_silently(code: c_int) -> ! {
    // An exit code is 8 bits and 0 would look like success.
    let code = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: _exit has no preconditions. Not exit: handlers of the program may wait for what will not come.
    unsafe { libc::_exit(code) }
}

/// What a caught panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason was given")
}

/// For tests: a thread of ours that this variable names (`helper`, `engine`) panics at its start.
const ENV_PANIC: &str = "AYATORI_TEST_PANIC";

/// Runs a thread of ours. A panic in it ends the job: a waiter for the thread would wait forever.
pub(super) fn guarded(thread: &str, name: &str, run: impl FnOnce()) {
    let run = || {
        assert!(std::env::var_os(ENV_PANIC).is_none_or(|of| of != name), "{ENV_PANIC} is {name}");
        run();
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let text = panic_text(&*panic);
        abort(MPI_ERR_INTERN, &format!("{thread} failed; this is a bug of the library: {text}"));
    }
}

/// Has a function called when the program exits. Where there is no place for one more the process ends
/// without it, which its launcher reports as an early end.
pub(super) fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: a function without arguments that unwinds nowhere. The library is never unloaded, so it stays.
    unsafe { libc::atexit(function) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn what_nobody_has_read_of_a_pipe_is_counted() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"why it ends").unwrap();
        assert_eq!(unread_bytes(writer.as_fd()), Some(11));
        reader.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(unread_bytes(writer.as_fd()), Some(3));
        reader.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(unread_bytes(writer.as_fd()), Some(0));
        assert_eq!(unread_bytes(std::fs::File::open("/dev/null").unwrap().as_fd()), None);
    }
}
