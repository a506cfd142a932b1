//! The runtime: start, end and abort of the process, waiting, progress.
//!
//! For now it knows one sort of job, a single process; a launcher's environment is refused rather than ignored.

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::comm::Comm;
use crate::state::{self, Phase};
use ayatori_core::group::Group;
use ayatori_core::ids::ProcessId;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The thread level in force (`MPI_Query_thread`).
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);
/// The thread that started MPI, by the kernel's id.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

static TAG_UB: AtomicI32 = AtomicI32::new(ayatori_core::ids::TAG_UB);
static IO: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(1);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(1);

/// A predefined attribute of communicators, or none where its value is not known. The address stays good.
pub(crate) fn predefined_attribute(keyval: c_int) -> Option<&'static AtomicI32> {
    match keyval {
        MPI_TAG_UB => Some(&TAG_UB),
        MPI_IO => Some(&IO),
        MPI_HOST => Some(&HOST),
        MPI_WTIME_IS_GLOBAL => Some(&WTIME_IS_GLOBAL),
        MPI_UNIVERSE_SIZE => Some(&UNIVERSE_SIZE),
        _ => None,
    }
}

/// `MPI_Init_thread`; gives the level.
pub(crate) fn start(required: c_int) -> Result<c_int, Fault> {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    if !levels.contains(&required) {
        return Err(fault(MPI_ERR_ARG, format_args!("argument required ({required}) is not a thread level")));
    }
    match state::phase() {
        Phase::Before => {}
        Phase::Running => return Err(fault(MPI_ERR_OTHER, format_args!("MPI was initialized before"))),
        Phase::After => {
            return Err(fault(MPI_ERR_OTHER, format_args!("MPI cannot be initialized after MPI_Finalize")));
        }
    }
    for variable in ["PMI_FD", "PMI_RANK", "PMIX_RANK"] {
        if std::env::var_os(variable).is_some() {
            return Err(fault(
                MPI_ERR_OTHER,
                format_args!(
                    "started by a launcher ({variable} is set), which this version cannot talk to yet"
                ),
            ));
        }
    }
    let handler = state::registry().errhandlers.initial;
    let mut process = state::process_in_any_phase();
    let group = Group::single(ProcessId(0));
    process.comms.insert_predefined(MPI_COMM_WORLD, Comm::new(group.clone(), 0, "MPI_COMM_WORLD", handler));
    process.comms.insert_predefined(MPI_COMM_SELF, Comm::new(group, 0, "MPI_COMM_SELF", handler));
    process.groups.insert_predefined(MPI_GROUP_EMPTY, Group::EMPTY);
    drop(process);
    state::prepare_types();
    THREAD_LEVEL.store(required, Ordering::Relaxed);
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    state::set_concurrent(required == MPI_THREAD_MULTIPLE);
    state::set_phase(Phase::Running);
    Ok(required)
}

/// `MPI_Finalize`
pub(crate) fn finish() -> Result<(), Fault> {
    // Attributes of MPI_COMM_SELF first, while MPI still works (MPI-5.0 §11.4.1).
    let attributes = std::mem::take(&mut state::process()?.comms.get_mut(MPI_COMM_SELF, "comm")?.attributes);
    crate::attribute::delete_all(MPI_COMM_SELF.0, attributes)?;
    state::set_concurrent(true);
    state::set_phase(Phase::After);
    Ok(())
}

/// The thread level in force.
pub(crate) fn thread_level() -> c_int {
    THREAD_LEVEL.load(Ordering::Relaxed)
}

/// Whether this is the thread that started MPI.
pub(crate) fn is_main_thread() -> bool {
    MAIN_THREAD.load(Ordering::Relaxed) == this_thread()
}

fn this_thread() -> u64 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u64 }
}

/// Ends the job: `MPI_Abort`, a fatal error, or a bug. Says why on standard error.
pub(crate) fn abort(code: c_int, message: &str) -> ! {
    eprintln!("ayatori: {message}");
    // An exit code is 8 bits and 0 would look like success.
    let code = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: _exit has no preconditions. Not exit: handlers of the program may wait for what will not come.
    unsafe { libc::_exit(code) }
}
