//! Groups that meet: processes that MPI starts, and jobs that connect (MPI-5.0 §11.8 to §11.10).
//!
//! Two groups always connect through a port: `MPI_Comm_spawn` opens one, the launcher passes its name to the
//! processes it starts, and their `MPI_Init` connects to it. The leaders exchange their groups' tables
//! (core's `introduction`), each forwards the other's to its group, and then the groups make an
//! inter-communicator as any two groups do (core's `icomm_inter_of_groups`).
//!
//! Processes of different worlds communicate over TCP, also on one host; inside each world nothing changes. A
//! process opens the sockets for that at its first such connection, so other processes pay nothing.
//!
//! While a leader waits for the other one it makes progress itself and looks at its sockets at intervals.

pub(crate) mod acquaint;
pub(crate) mod meet;
pub(crate) mod names;
pub(crate) mod ports;
pub(crate) mod spawn;

use crate::abi::{MPI_COMM_NULL, MPI_Comm};
use crate::comm::Comm;
use crate::fault::Fault;
use crate::runtime::exit::with_launcher;
use crate::state::process;
use crate::why::{self, Waits};
use ayatori_core::group::Group;
use ayatori_core::ids::CommId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The intercommunicator with the parents of this process; 0: it has none, or it is freed.
static PARENT: AtomicUsize = AtomicUsize::new(0);
/// Others have started this process, and the launcher takes the two worlds for connected.
static IS_CONNECTED: AtomicBool = AtomicBool::new(false);
/// The key in the launcher's key-value space that says that a process is connected to its own world only.
const APART_KEY: &str = ayatori_launch::environment::KEY_OF_APART;

/// The intercommunicator with the parents of this process, or the null handle.
pub(crate) fn parent() -> MPI_Comm {
    match PARENT.load(Ordering::Acquire) {
        0 => MPI_COMM_NULL,
        handle => MPI_Comm(handle),
    }
}

/// Stores the intercommunicator with the parents.
pub(crate) fn set_parent(comm: MPI_Comm) {
    PARENT.store(comm.0, Ordering::Release);
    IS_CONNECTED.store(true, Ordering::Release);
}

/// A communicator is gone. If it was the last one with a process of another world, the launcher is told, and
/// the end of the other world no longer ends this one (MPI-5.0 §11.10.4).
pub(crate) fn forget(comm: MPI_Comm) -> Result<(), Fault> {
    let _ = PARENT.compare_exchange(comm.0, 0, Ordering::AcqRel, Ordering::Relaxed);
    if !IS_CONNECTED.load(Ordering::Relaxed) {
        return Ok(());
    }
    if shared_with_others()?.is_empty() && IS_CONNECTED.swap(false, Ordering::AcqRel) {
        // One that does not know this word goes on taking them for connected.
        let _ = with_launcher(|client| client.put(APART_KEY, "1"));
    }
    Ok(())
}

/// The communicators with processes of other worlds.
fn shared_with_others() -> Result<Vec<CommId>, Fault> {
    let mut process = process()?;
    let world = Group::clone(process.engine().core.comm(CommId::WORLD)?.group());
    let is_stranger = |member| world.rank_of(member).is_none();
    let has_stranger = |comm: &&Comm| {
        let shape = comm.shape();
        shape.group.iter().chain(shape.remote.iter().flat_map(Group::iter)).any(is_stranger)
    };
    Ok(process.comms.iter().filter(has_stranger).map(Comm::id).collect())
}

/// How long a leader sleeps between two looks at its sockets: a sixteenth of what it has waited, within
/// these.
const LOOK_MIN: Duration = Duration::from_micros(50);
const LOOK_MAX: Duration = Duration::from_millis(4);

/// Looks until something comes of it, and makes progress meanwhile.
fn poll_until<R>(
    waits_for: &'static str,
    mut look: impl FnMut() -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let begin = Instant::now();
    let mut asleep = None;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        {
            let mut process = process()?;
            process.progress();
            why::answer_if_asked(&mut process, Waits::Other(waits_for), asleep);
        }
        asleep.get_or_insert_with(Instant::now);
        std::thread::sleep((begin.elapsed() / 16).clamp(LOOK_MIN, LOOK_MAX));
    }
}
