//! How a job ends before its time.

use crate::abi::MPI_ERR_INTERN;
use crate::lock::locked;
use ayatori_launch::launcher::Launcher;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};

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
    // The holder is aborting too, or waits for the others.
    if let Ok(mut launcher) = LAUNCHER.try_lock()
        && let Some(launcher) = launcher.as_mut()
    {
        // Gone or not, this process ends now.
        let _ = launcher.abort(code, message.lines().next());
    }
    exit_silently(code)
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
