//! Chapter "environment": version, time, start and end (MPI-5.0 §9, §11.2).

use std::ffi::c_double;

/// Seconds on the monotonic clock, by the vDSO: no system call.
fn monotonic_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec to write to; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

api! {
    /// Seconds since some time in the past.
    fn MPI_Wtime() -> c_double {
        monotonic_seconds()
    }

    /// Seconds between ticks of `MPI_Wtime`: the clock counts nanoseconds.
    fn MPI_Wtick() -> c_double {
        1e-9
    }
}
