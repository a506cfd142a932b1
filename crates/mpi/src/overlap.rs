//! Calls that overlap although the program has asked for a thread level that forbids it (MPI-5.0 §11.6.2).
//!
//! Below `MPI_THREAD_MULTIPLE` calls take no lock, so two at once spoil the library's state: packets are
//! lost, or a wait never ends. What follows accuses anything but the cause, so the cause is said. A call that
//! finds this process in another one was made by a second thread, or by a function of the program that the
//! first call has called back; the main thread's may be either, another one's is the first where only the
//! main thread may call. Not all are found: the first of two that ends says that the process is in none, and
//! the shortest functions do not look (`why.rs`).

use crate::abi::{MPI_THREAD_FUNNELED, MPI_THREAD_SINGLE};
use crate::calls::{ids, name};
use crate::phase::{Phase, is_main_thread, phase, thread_level};
use std::sync::atomic::{AtomicBool, Ordering};

/// What any thread may call at any time (MPI-5.0 §11.6): with objects behind locks of their own, or none.
fn is_always_allowed(call: u32) -> bool {
    let alone = [
        ids::MPI_Query_thread,
        ids::MPI_Is_thread_main,
        ids::MPI_Initialized,
        ids::MPI_Finalized,
        ids::MPI_Get_version,
        ids::MPI_Get_library_version,
        ids::MPI_Abort,
    ];
    let kinds = ["MPI_Info_", "MPI_Error_", "MPI_Errhandler_", "MPI_Session_", "MPI_T_"];
    alone.contains(&call) || kinds.iter().any(|kind| name(call).starts_with(kind))
}

/// Function `call` begins while this process is in function `outer`.
#[cold]
#[inline(never)]
pub(crate) fn look(call: u32, outer: u32) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let level = thread_level();
    let is_wrong = level <= MPI_THREAD_FUNNELED
        && phase() == Phase::Running
        && !is_main_thread()
        && !is_always_allowed(call)
        && !is_always_allowed(outer);
    if is_wrong && !IS_SAID.swap(true, Ordering::Relaxed) {
        let asked = if level == MPI_THREAD_SINGLE { "MPI_THREAD_SINGLE" } else { "MPI_THREAD_FUNNELED" };
        eprintln!(
            "ayatori: a thread calls {} while another is in {}, but the program has asked for {asked}, with \
             which only the main thread may call: anything may go wrong from here on; ask for \
             MPI_THREAD_MULTIPLE in MPI_Init_thread",
            name(call),
            name(outer),
        );
    }
}
