//! Start and end of MPI (MPI-5.0 §11.2).

use crate::abi::*;
use crate::comm::Comm;
use crate::dynamic::acquaint;
use crate::errhandler::Action;
use crate::fault::{Fault, fault, survives};
use crate::holder::Holder;
use crate::lock::locked;
use crate::phase::{self, Phase};
use crate::request;
use crate::state;
use crate::why::{self, Waits};
use crate::{attribute, calls, check, datatype, errhandler, tool};
use ayatori_core::buffer::Buffer;
use ayatori_core::error::Error;
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use ayatori_launch::launcher::Launcher;
use std::ffi::c_int;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once};

use super::exit::{call_at_exit, launcher};
use super::helper;
use super::mode::Mode;
use super::wait::{self, wait, wait_until};
use super::{launch, left};

/// Only one thread at a time starts MPI or ends it.
static BOUNDS: Mutex<()> = Mutex::new(());

/// `MPI_Init_thread`; gives the level.
pub(crate) fn start(required: c_int) -> Result<c_int, Fault> {
    let _alone = locked(&BOUNDS);
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    if !levels.contains(&required) {
        return Err(fault(MPI_ERR_ARG, format_args!("argument required ({required}) is not a thread level")));
    }
    match phase::world() {
        Phase::Before => {}
        Phase::Running => return Err(fault(MPI_ERR_OTHER, format_args!("MPI was initialized before"))),
        Phase::After => {
            return Err(fault(MPI_ERR_OTHER, format_args!("MPI cannot be initialized after MPI_Finalize")));
        }
    }
    let level = begin(required)?;
    phase::set_main_thread();
    phase::set_world(Phase::Running);
    Ok(level)
}

/// `MPI_Session_init`; gives the level. Without one asked for it is that in force.
pub(crate) fn begin_session(asked: Option<c_int>) -> Result<c_int, Fault> {
    let _alone = locked(&BOUNDS);
    let level = begin(asked.unwrap_or(MPI_THREAD_SINGLE))?;
    phase::add_session();
    PROCESS_NUMBER.store(std::process::id(), Ordering::Relaxed);
    END_WITH_PROGRAM.call_once(|| call_at_exit(at_exit));
    Ok(level)
}

static END_WITH_PROGRAM: Once = Once::new();
/// The kernel's number of the process that has begun sessions.
static PROCESS_NUMBER: AtomicU32 = AtomicU32::new(0);
/// MPI has ended with `MPI_Finalize` and gone on for a session (MPI-5.0 §11.3).
static IS_RESUMED: AtomicBool = AtomicBool::new(false);

/// What a process that rests after `MPI_Finalize` comes back to.
struct Rest {
    /// The launcher, which it has taken leave of.
    launcher: Option<Box<dyn Launcher>>,
}

/// Set while the process rests and can come back.
static REST: Mutex<Option<Rest>> = Mutex::new(None);

/// The program ends. MPI does, too, if only sessions used it and all have ended: after the last one, another
/// could begin.
extern "C" fn at_exit() {
    let is_over = phase::session_count() == 0 && phase::world() != Phase::Running;
    // A child of this process that is no process of MPI ends with copies of all this.
    let is_mine = std::process::id() == PROCESS_NUMBER.load(Ordering::Relaxed);
    if phase::phase() != Phase::Running || !is_over || !is_mine {
        return;
    }
    let end = if IS_RESUMED.load(Ordering::Relaxed) { end_again } else { end };
    if let Ok(Err(fault)) = std::panic::catch_unwind(end) {
        eprintln!("ayatori: MPI does not end well after its last session: {fault:?}");
    }
}

/// The last step of `MPI_Session_finalize`: pending messages leave, as long as others may still answer.
pub(crate) fn end_session() -> Result<(), Fault> {
    let _alone = locked(&BOUNDS);
    if phase::remove_session() == 0 && phase::world() != Phase::Running {
        flush()?;
    }
    Ok(())
}

/// Starts MPI with this thread level. If it runs, the level may rise.
fn begin(required: c_int) -> Result<c_int, Fault> {
    match phase::phase() {
        Phase::Before => {}
        Phase::Running => {
            let level = required.max(phase::thread_level());
            phase::set_thread_level(level);
            if level == MPI_THREAD_MULTIPLE {
                state::set_concurrent(true);
            }
            return Ok(level);
        }
        Phase::After => return resume(required),
    }
    let mode = Mode::from_environment()?;
    tool::keep_settings();
    helper::register();
    let job = launch::join()?;
    *launcher() = job.launcher;
    attribute::set_job(job.universe_size, job.appnum, job.machine.is_on_one_host());
    let handler = errhandler::handlers().initial;
    let mut process = state::process_in_any_phase();
    process.join(job.id, job.world, job.parent, job.machine);
    helper::prepare(&mut process, job.count == 1);
    wait::prepare(process.engine());
    crate::fault::set_first_process(job.world.first);
    let (world, only) = (Group::consecutive(job.world.first, job.count), Group::single(job.id));
    let rank = job.id.0 - job.world.first.0;
    calls::begin(process.engine().device.shm_mut(), job.count);
    process
        .comms
        .insert_predefined(MPI_COMM_WORLD, Comm::new(CommId::WORLD, world, rank, "MPI_COMM_WORLD", handler));
    process
        .comms
        .insert_predefined(MPI_COMM_SELF, Comm::new(CommId::SELF, only, 0, "MPI_COMM_SELF", handler));
    process.groups.insert_predefined(MPI_GROUP_EMPTY, Group::EMPTY.into());
    drop(process);
    datatype::prepare();
    phase::set_thread_level(required);
    phase::set_main_thread();
    state::set_concurrent(required == MPI_THREAD_MULTIPLE);
    helper::set_mode(mode);
    phase::set_phase(Phase::Running);
    Ok(required)
}

/// A session begins after `MPI_Finalize`: the process goes on from where it rests. Others do so or not, so
/// nothing is asked of them.
fn resume(required: c_int) -> Result<c_int, Fault> {
    let mode = Mode::from_environment()?;
    let Some(rest) = locked(&REST).take() else {
        return Err(fault(
            MPI_ERR_OTHER,
            format_args!(
                "no session begins after MPI_Finalize in a process that was connected to other worlds"
            ),
        ));
    };
    *launcher() = rest.launcher.and_then(|mut launcher| launcher.resume().then_some(launcher));
    IS_RESUMED.store(true, Ordering::Relaxed);
    let level = required.max(phase::thread_level());
    phase::set_thread_level(level);
    state::set_concurrent(level == MPI_THREAD_MULTIPLE);
    helper::set_mode(mode);
    phase::set_phase(Phase::Running);
    state::process()?.engine().device.resume();
    Ok(level)
}

/// How long a process that ends waits for its peers to acknowledge the last it sent. They have it: they all
/// are in the last barrier; only an acknowledgement may be lost with its rail.
const SETTLE_MAX: std::time::Duration = std::time::Duration::from_secs(5);
/// Time after which it looks for packets of others. It doubles each time, because they send less and less,
/// and a thousand processes of one host that look often delay the last of them.
const ANSWER_INTERVAL: std::time::Duration = std::time::Duration::from_micros(500);
/// The longest such time. A process that waits for an answer gives up after [`SETTLE_MAX`].
const ANSWER_INTERVAL_MAX: std::time::Duration = std::time::Duration::from_millis(128);

/// `MPI_Finalize`
pub(crate) fn finish() -> Result<(), Fault> {
    check_world_runs()?;
    // Attributes of MPI_COMM_SELF first, while MPI still works (MPI-5.0 §11.4.1): their delete functions may
    // begin and end sessions.
    Holder::Comm(MPI_COMM_SELF).delete_all()?;
    let _alone = locked(&BOUNDS);
    check_world_runs()?;
    if phase::session_count() > 0 {
        flush()?;
        phase::set_world(Phase::After);
        return Ok(());
    }
    end()?;
    phase::set_world(Phase::After);
    Ok(())
}

fn check_world_runs() -> Result<(), Fault> {
    phase::check_running()?;
    match phase::world() {
        Phase::Running => Ok(()),
        _ => Err(fault(MPI_ERR_OTHER, format_args!("MPI_Finalize is called without MPI_Init, or twice"))),
    }
}

/// Sends all pending packets.
fn flush() -> Result<(), Fault> {
    let left = Waits::Other("its last messages to leave");
    wait_until(left, |process| Ok((!process.engine().core.wants_transmit()).then_some(())))
}

/// MPI ends in this process.
fn end() -> Result<(), Fault> {
    helper::end_offload();
    // Buffered and freed sends leave before the end (MPI-5.0 §11.2.2).
    flush()?;
    // No process leaves while another may need its answers.
    acquaint::meet_connected()?;
    meet()?;
    if check::is_on() {
        left::say()?;
    }
    settle()?;
    let mut former = launcher().take();
    if let Some(mut client) = former.take() {
        let mut failed = None;
        let mut interval = ANSWER_INTERVAL;
        // Others may still wait for acknowledgements of what they sent last.
        let mut answer = || match state::process() {
            Ok(mut process) => {
                process.progress();
                why::answer_if_asked(&mut process, Waits::Other("the others, in MPI_Finalize"), None);
                let now = interval;
                interval = (interval * 2).min(ANSWER_INTERVAL_MAX);
                ControlFlow::Continue(now)
            }
            Err(fault) => {
                failed = Some(fault);
                ControlFlow::Break(())
            }
        };
        let left = client.fence_while(&mut answer).map_err(unreachable);
        if let Some(fault) = left.err().or(failed) {
            // The error may end the job: the launcher must learn why.
            *launcher() = Some(client);
            return Err(fault);
        }
        client.finalize().map_err(unreachable)?;
        former = Some(client);
    }
    helper::stop();
    let can_resume = state::process()?.engine().rest();
    *locked(&REST) = can_resume.then_some(Rest { launcher: former });
    state::set_concurrent(true);
    phase::set_phase(Phase::After);
    Ok(())
}

/// MPI ends after sessions that began after `MPI_Finalize`. Others may have gone, or not have come back, so
/// none is waited for.
fn end_again() -> Result<(), Fault> {
    helper::end_offload();
    flush()?;
    settle()?;
    let taken = launcher().take();
    if let Some(mut client) = taken {
        client.finalize().map_err(unreachable)?;
    }
    helper::stop();
    state::process()?.engine().device.detach();
    state::set_concurrent(true);
    phase::set_phase(Phase::After);
    Ok(())
}

fn unreachable(error: ayatori_launch::launcher::Error) -> Fault {
    fault(MPI_ERR_OTHER, format_args!("cannot leave the job: {error}"))
}

/// Waits until the others have acknowledged what this process sent, but not for long.
fn settle() -> Result<(), Fault> {
    let settled = std::time::Instant::now() + SETTLE_MAX;
    wait_until(Waits::Other("acknowledgements"), |process| {
        let engine = process.engine();
        let is_settled = engine.core.is_quiet() && engine.device.is_flushed();
        Ok((is_settled || std::time::Instant::now() > settled).then_some(()))
    })
}

/// Waits until all are here; of a job that goes on without ranks that fail, until all are that live, whether
/// the world is revoked or not.
///
/// That a rank cannot be reached is an error here, too, if errors of the world end the job: a rank that waits
/// for one which cannot reach it may wait for ever, and then all others wait for it. A program that has
/// errors returned knows, and goes on to its end.
fn meet() -> Result<(), Fault> {
    let posted = match survives() {
        true => {
            let mut process = state::process()?;
            let engine = process.engine();
            engine.core.survivors().iagree(CommId::WORLD, 0, Buffer::leaked(4))?
        }
        false => state::process()?.engine().begin_barrier(CommId::WORLD)?,
    };
    let completion = wait(state::process()?, posted)?;
    if survives() || !matches!(completion.error, Some(Error::Unreachable(_))) {
        return Ok(());
    }
    let handler = state::process()?.comms.get(MPI_COMM_WORLD, "comm")?.errhandler;
    match errhandler::handlers().action(handler) {
        Action::Fatal | Action::Abort => request::check(&completion, MPI_COMM_WORLD),
        Action::Return | Action::Call(_) => Ok(()),
    }
}
