//! Start and end of MPI (MPI-5.0 §11.2).

use crate::abi::*;
use crate::comm::Comm;
use crate::fault::{Fault, fault};
use crate::host::this_thread;
use crate::phase::{self, Phase};
use crate::state;
use crate::why::{self, Waits};
use crate::{attribute, calls, datatype, errhandler};
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use super::exit::launcher;
use super::helper;
use super::launch;
use super::mode::Mode;
use super::wait::{wait, wait_until};

/// The thread that started MPI, by the kernel's id.
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

/// `MPI_Init_thread`; gives the level.
pub(crate) fn start(required: c_int) -> Result<c_int, Fault> {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    if !levels.contains(&required) {
        return Err(fault(MPI_ERR_ARG, format_args!("argument required ({required}) is not a thread level")));
    }
    match phase::phase() {
        Phase::Before => {}
        Phase::Running => return Err(fault(MPI_ERR_OTHER, format_args!("MPI was initialized before"))),
        Phase::After => {
            return Err(fault(MPI_ERR_OTHER, format_args!("MPI cannot be initialized after MPI_Finalize")));
        }
    }
    let mode = Mode::from_environment()?;
    helper::register();
    let job = launch::join()?;
    *launcher() = job.launcher;
    attribute::set_job(job.universe_size, job.appnum);
    let handler = errhandler::handlers().initial;
    let mut process = state::process_in_any_phase();
    process.join(job.id, job.machine);
    helper::prepare(&mut process, job.count == 1);
    let (world, only) = (Group::world(job.count), Group::single(job.id));
    let rank = job.id.0;
    calls::begin(process.engine().device.shm(), job.count);
    process
        .comms
        .insert_predefined(MPI_COMM_WORLD, Comm::new(CommId::WORLD, world, rank, "MPI_COMM_WORLD", handler));
    process
        .comms
        .insert_predefined(MPI_COMM_SELF, Comm::new(CommId::SELF, only, 0, "MPI_COMM_SELF", handler));
    process.groups.insert_predefined(MPI_GROUP_EMPTY, Group::EMPTY);
    drop(process);
    datatype::prepare();
    phase::set_thread_level(required);
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    state::set_concurrent(required == MPI_THREAD_MULTIPLE);
    helper::set_mode(mode);
    phase::set_phase(Phase::Running);
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
    phase::set_phase(Phase::After);
    Ok(())
}

/// Whether this is the thread that started MPI.
pub(crate) fn is_main_thread() -> bool {
    MAIN_THREAD.load(Ordering::Relaxed) == this_thread()
}
