//! The runtime: start, end and abort of the process, waiting, progress.
//!
//! `launch.rs` and `cluster.rs` find the job, `engine.rs` moves messages and waits, `helper.rs` does so while nobody calls,
//! `offload/` gives all of it to a thread; here is what frames them.

mod cluster;
mod engine;
pub(crate) mod helper;
mod launch;
mod net;
mod offload;

pub(crate) use engine::{Engine, complete, wait, wait_direct, wait_for_any, wait_for_node, wait_until};
pub(crate) use net::{Net, on_device};
pub(crate) use offload::{Afar, Front, Plan, found_nothing, is_active, wait_afar};

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::comm::Comm;
use crate::state::{self, Phase};
use crate::why::{self, Waits};
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use ayatori_launch::pmi::Client;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The thread level in force (`MPI_Query_thread`).
static THREAD_LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);
/// The thread that started MPI, by the kernel's id.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

static TAG_UB: AtomicI32 = AtomicI32::new(ayatori_core::ids::TAG_UB);
static IO: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(1);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(1);
static APPNUM: AtomicI32 = AtomicI32::new(MPI_UNDEFINED);

/// The launcher, while MPI runs. A lock of its own: an abort may come while any other is held.
static LAUNCHER: Mutex<Option<Client>> = Mutex::new(None);

fn launcher() -> MutexGuard<'static, Option<Client>> {
    LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A predefined attribute of communicators, or none where its value is not known. The address stays good.
pub(crate) fn predefined_attribute(keyval: c_int) -> Option<&'static AtomicI32> {
    match keyval {
        MPI_TAG_UB => Some(&TAG_UB),
        MPI_IO => Some(&IO),
        MPI_HOST => Some(&HOST),
        MPI_WTIME_IS_GLOBAL => Some(&WTIME_IS_GLOBAL),
        MPI_UNIVERSE_SIZE => Some(&UNIVERSE_SIZE).filter(|size| size.load(Ordering::Relaxed) > 0),
        MPI_APPNUM => Some(&APPNUM).filter(|number| number.load(Ordering::Relaxed) >= 0),
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
    let mode = helper::Mode::from_environment()?;
    helper::register();
    let job = launch::join()?;
    *launcher() = job.launcher;
    UNIVERSE_SIZE.store(job.universe_size.unwrap_or(0), Ordering::Relaxed);
    APPNUM.store(job.appnum.unwrap_or(MPI_UNDEFINED), Ordering::Relaxed);
    let handler = state::registry().errhandlers.initial;
    let mut process = state::process_in_any_phase();
    process.join(job.id, job.engine);
    helper::prepare(&mut process, job.count == 1);
    let (world, only) = (Group::world(job.count), Group::single(job.id));
    let rank = job.id.0;
    why::begin(process.engine().device.shm(), job.count, required == MPI_THREAD_MULTIPLE);
    process
        .comms
        .insert_predefined(MPI_COMM_WORLD, Comm::new(CommId::WORLD, world, rank, "MPI_COMM_WORLD", handler));
    process
        .comms
        .insert_predefined(MPI_COMM_SELF, Comm::new(CommId::SELF, only, 0, "MPI_COMM_SELF", handler));
    process.groups.insert_predefined(MPI_GROUP_EMPTY, Group::EMPTY);
    drop(process);
    state::prepare_types();
    THREAD_LEVEL.store(required, Ordering::Relaxed);
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    state::set_concurrent(required == MPI_THREAD_MULTIPLE);
    helper::set_mode(mode);
    state::set_phase(Phase::Running);
    Ok(required)
}

/// How long a process that ends waits for its peers to acknowledge the last it sent. They have it: they all are in the
/// last barrier; only an acknowledgement may be lost with its rail.
const SETTLE_MAX: std::time::Duration = std::time::Duration::from_secs(5);
/// How often it looks for what others send meanwhile.
const ANSWER_INTERVAL: std::time::Duration = std::time::Duration::from_micros(500);

/// Why the last barrier ended early.
enum Leaving {
    Fault(Fault),
    Launcher(ayatori_launch::pmi::Error),
}

impl From<ayatori_launch::pmi::Error> for Leaving {
    fn from(error: ayatori_launch::pmi::Error) -> Self {
        Self::Launcher(error)
    }
}

/// `MPI_Finalize`
pub(crate) fn finish() -> Result<(), Fault> {
    // Attributes of MPI_COMM_SELF first, while MPI still works (MPI-5.0 §11.4.1).
    let attributes = std::mem::take(&mut state::process()?.comms.get_mut(MPI_COMM_SELF, "comm")?.attributes);
    crate::attribute::delete_all(MPI_COMM_SELF.0, attributes)?;
    helper::end_offload();
    // Buffered and freed sends leave before the end (MPI-5.0 §11.2.2).
    let left = Waits::Other("its last messages to leave");
    wait_until(left, |process| Ok((!process.engine().core.wants_transmit()).then_some(())))?;
    // Nobody leaves while another may need its answers.
    let posted = state::process()?.engine().begin_barrier(CommId::WORLD)?;
    wait(state::process()?, posted)?;
    let settled = std::time::Instant::now() + SETTLE_MAX;
    wait_until(Waits::Other("acknowledgements"), |process| {
        let engine = process.engine();
        let is_settled = engine.core.is_quiet() && engine.device.is_flushed();
        Ok((is_settled || std::time::Instant::now() > settled).then_some(()))
    })?;
    if let Some(mut client) = launcher().take() {
        let unreachable = |error| fault(MPI_ERR_OTHER, format_args!("cannot leave the job: {error}"));
        // Others may still wait for acknowledgements of what they sent last.
        let answer = || -> Result<(), Leaving> {
            let mut process = state::process().map_err(Leaving::Fault)?;
            process.progress();
            why::answer_if_asked(&mut process, Waits::Other("the others, in MPI_Finalize"), None);
            Ok(())
        };
        if let Err(leaving) = client.barrier_while(ANSWER_INTERVAL, answer) {
            // The error may end the job: the launcher is to hear why.
            *launcher() = Some(client);
            return Err(match leaving {
                Leaving::Fault(fault) => fault,
                Leaving::Launcher(error) => unreachable(error),
            });
        }
        client.finalize().map_err(unreachable)?;
    }
    helper::stop();
    state::process()?.engine().device.detach();
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
    // Whoever holds it is aborting too, or waits for the others.
    if let Ok(mut launcher) = LAUNCHER.try_lock()
        && let Some(client) = launcher.as_mut()
    {
        // Gone or not, this process ends now.
        let _ = client.abort(code, message.lines().next());
    }
    // An exit code is 8 bits and 0 would look like success.
    let code = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: _exit has no preconditions. Not exit: handlers of the program may wait for what will not come.
    unsafe { libc::_exit(code) }
}
