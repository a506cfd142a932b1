//! How far the process is: before, between or after start and end of MPI, and the thread level in force.

use crate::abi::{MPI_ERR_OTHER, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE};
use crate::fault::{Fault, fault};
use crate::host::this_thread;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering};

/// How far the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Before `MPI_Init`.
    Before,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// After `MPI_Finalize`.
    After,
}

/// How far the world is: `MPI_Init` and `MPI_Finalize` (MPI-5.0 §11.2). Sessions may start MPI before it and
/// keep it after.
static WORLD: AtomicU8 = AtomicU8::new(Phase::Before as u8);
/// Sessions that have not ended.
static SESSION_COUNT: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);
/// By the kernel's id.
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);

fn of_byte(byte: u8) -> Phase {
    match byte {
        0 => Phase::Before,
        1 => Phase::Running,
        _ => Phase::After,
    }
}

/// How far the process is.
#[inline(always)]
pub(crate) fn phase() -> Phase {
    of_byte(PHASE.load(Ordering::Acquire))
}

/// How far the world is.
pub(crate) fn world() -> Phase {
    of_byte(WORLD.load(Ordering::Acquire))
}

/// The world goes on to `phase`.
pub(crate) fn set_world(phase: Phase) {
    WORLD.store(phase as u8, Ordering::Release);
}

/// How many sessions have not ended.
pub(crate) fn session_count() -> u32 {
    SESSION_COUNT.load(Ordering::Acquire)
}

/// A session has begun.
pub(crate) fn add_session() {
    SESSION_COUNT.fetch_add(1, Ordering::AcqRel);
}

/// A session has ended; how many are left.
pub(crate) fn remove_session() -> u32 {
    SESSION_COUNT.fetch_sub(1, Ordering::AcqRel) - 1
}

/// The process goes on to `phase`.
pub(crate) fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

/// The caller's error unless MPI runs.
#[inline(always)]
pub(crate) fn check_running() -> Result<(), Fault> {
    if phase() == Phase::Running { Ok(()) } else { Err(not_running()) }
}

#[cold]
fn not_running() -> Fault {
    let when = if phase() == Phase::Before { "before MPI_Init" } else { "after MPI_Finalize" };
    fault(MPI_ERR_OTHER, format_args!("the function was called {when}"))
}

/// The thread level in force (`MPI_Query_thread`).
pub(crate) fn thread_level() -> c_int {
    THREAD_LEVEL.load(Ordering::Relaxed)
}

/// MPI has started with this level.
pub(crate) fn set_thread_level(level: c_int) {
    THREAD_LEVEL.store(level, Ordering::Relaxed);
}

/// The thread that starts MPI is the main thread from now on (MPI-5.0 §11.6.2).
pub(crate) fn set_main_thread() {
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
}

/// Whether this is the thread that started MPI.
pub(crate) fn is_main_thread() -> bool {
    MAIN_THREAD.load(Ordering::Relaxed) == this_thread()
}

/// Whether calls may overlap by the level the user asked for.
pub(crate) fn is_threaded() -> bool {
    thread_level() == MPI_THREAD_MULTIPLE
}
