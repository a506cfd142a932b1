//! This process' current call and what it waits for, for inquiries (`ayatori why`).
//!
//! Every call writes which function it is, by `boundary::enter`, into words that the launcher can see
//! (`devices::shm::CallWords`). The reason of a wait is collected only on an inquiry: a call that is about to
//! sleep, has just woken, or goes on waiting after a round that found something to do, reads one word and
//! then answers with a [`Snapshot`]; so do some calls on entry. A process that computes does not answer: its
//! words show that.
//!
//! With `MPI_THREAD_MULTIPLE` each waiting thread adds its part to the answer.

use crate::abi::{MPI_Comm, MPI_Request, MPI_Win};
use crate::arguments::InOut;
use crate::calls::{self, ids, words};
use crate::host::this_thread;
use crate::overlap;
use crate::phase::{self, Phase};
use crate::request::{Half, What};
use crate::runtime::machine::Machine;
use crate::state::{self, Process};
use crate::win;
use ayatori_core::explain::{
    Blocked, Explanation, HeldLock, LINKS_MAX, LockState, Need, NodeState, Plain, SNAPSHOT_BYTES_MAX,
    Snapshot,
};
use ayatori_core::ids::{CommId, Rank, RequestId, Source, TagSelector};
use ayatori_devices::shm::Holder;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// An inquiry has come, and this process enters a call.
#[cold]
#[inline(never)]
fn on_entry() {
    if phase::phase() == Phase::Running
        && let Ok(mut process) = state::process()
    {
        answer(&mut process, Waits::Nothing, None);
    }
}

/// What a call waits for. Made where it waits: a few words.
#[derive(Clone, Copy)]
pub(crate) enum Waits {
    /// Nothing: it is on its way in.
    Nothing,
    /// The receive that has no request.
    Direct,
    /// The collective operation that the caller runs.
    Run,
    /// One request of the core.
    Request(RequestId),
    /// The rest of two operations.
    Both(Half, Half),
    /// An operation that the engine's thread has.
    Remote(MPI_Request),
    /// All of the requests in an array.
    All(InOut<MPI_Request>, usize),
    /// Any of them.
    Any(InOut<MPI_Request>, usize),
    /// A message that is probed for.
    Probe(MPI_Comm, Source, TagSelector),
    /// An operation in the node's shared memory.
    Node(CommId),
    /// A lock of a window in shared memory: of a target, or of all (`MPI_Win_lock_all`).
    Lock { win: MPI_Win, target: Option<Rank>, is_exclusive: bool },
    /// Something that is not a matter between processes.
    Other(&'static str),
}

/// Since when a call sleeps: none before it first does.
pub(crate) type Asleep = Option<Instant>;

/// Answers an inquiry, if there is one.
#[inline]
pub(crate) fn answer_if_asked(process: &mut Process, waits: Waits, asleep: Asleep) {
    if words().is_asked() {
        answer(process, waits, asleep);
    }
}

/// Answers of threads to one inquiry.
static PARTS: Mutex<(u32, Vec<Blocked>)> = Mutex::new((0, Vec::new()));

/// Tells what this process has, and what this thread waits for.
#[cold]
#[inline(never)]
pub(crate) fn answer(process: &mut Process, waits: Waits, asleep: Asleep) {
    let is_looking = process.engine.borrow_to_look();
    tell(process, waits, asleep);
    if is_looking {
        process.engine.give_back();
    }
}

fn tell(process: &mut Process, waits: Waits, asleep: Asleep) {
    let is_threaded = phase::is_threaded();
    let state = explanation(process);
    let own = (!matches!(waits, Waits::Nothing)).then(|| blocked(process, waits, asleep, is_threaded));
    let shm = process.engine().device.shm();
    let inquiry = shm.inquiry();
    let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
    if parts.0 != inquiry || !is_threaded {
        *parts = (inquiry, Vec::new());
    }
    if let Some(own) = own {
        parts.1.retain(|part| part.thread != own.thread);
        parts.1.push(own);
    }
    let mut told = Snapshot { state, blocked: parts.1.clone(), is_threaded, rail_names: Vec::new() };
    let mut bytes = told.to_bytes();
    if bytes.len() > SNAPSHOT_BYTES_MAX {
        // The reason of the wait matters more than the state.
        told.state.links.clear();
        told.state.held.clear();
        told.state.comms.truncate(1);
        bytes = told.to_bytes();
    }
    shm.answer(inquiry, &bytes);
}

/// What the core has, with names.
fn explanation(process: &mut Process) -> Explanation {
    process.engine();
    let Process { comms, engine, .. } = process;
    let engine = engine.machine();
    let mut told = engine.core.explain();
    for comm in comms.iter() {
        let Some(context) = engine.core.context_of(comm.id()) else { continue };
        if let Some(known) = told.comms.iter_mut().find(|known| known.context == context) {
            known.name = String::from_utf8_lossy(&comm.name).into_owned();
            known.collectives_count.1 = engine.node.opened(comm.id()).map_or(0, |room| room.calls_count());
        }
    }
    told.held = held_locks(&engine.core);
    told
}

fn blocked(process: &mut Process, waits: Waits, asleep: Asleep, is_threaded: bool) -> Blocked {
    let thread = this_thread();
    let waited_ms = asleep.map_or(0, |since| since.elapsed().as_millis() as u64);
    let needs = match waits {
        Waits::Nothing => Vec::new(),
        Waits::Direct => process.engine().core.need_of_direct().into_iter().collect(),
        Waits::Run => process.engine().core.need_of_run().into_iter().collect(),
        Waits::Request(id) => vec![process.engine().core.need(id)],
        Waits::Remote(request) => vec![need_of_request(process, request)],
        Waits::Both(first, second) => vec![need_of_half(process, first), need_of_half(process, second)],
        Waits::All(requests, count) | Waits::Any(requests, count) => needs_of(process, requests, count),
        Waits::Probe(comm, source, tag) => {
            let id = process.comms.get(comm, "comm").map(|comm| comm.id());
            id.map(|id| process.engine().core.need_of_probe(id, source, tag)).into_iter().collect()
        }
        Waits::Node(comm) => need_of_node(process.engine(), comm).into_iter().collect(),
        Waits::Lock { win, target, is_exclusive } => needs_of_lock(process, win, target, is_exclusive),
        Waits::Other(what) => vec![Need::Other(what.to_owned())],
    };
    let call = if is_threaded { kind_of_call(waits, &needs) } else { calls::name(words().call()) };
    let is_any = matches!(waits, Waits::Any(..));
    Blocked { thread, call: call.to_owned(), waited_ms, is_any, needs }
}

/// Maximum number of requests of an array that are reported.
const NEEDS_MAX: usize = 256;

/// Needs of the incomplete requests of an array.
fn needs_of(process: &mut Process, requests: InOut<MPI_Request>, count: usize) -> Vec<Need> {
    let handles = (0..count).filter_map(|at| requests.get_at("array_of_requests", at).ok());
    let needs = handles.map(|handle| need_of_request(process, handle));
    needs.filter(|need| *need != Need::Nothing).take(NEEDS_MAX).collect()
}

fn need_of_half(process: &mut Process, half: Half) -> Need {
    match half {
        Half::Over(_) => Need::Nothing,
        Half::Going(id) => process.engine().core.need(id),
        // It is reported with its request.
        Half::Remote => Need::Nothing,
    }
}

/// Needs of an operation that the engine's thread has.
fn need_remote(process: &mut Process, handle: MPI_Request) -> Need {
    if let Some(id) = process.remote_id(handle) {
        return process.engine().core.need(id);
    }
    let comm = process.remote_node(handle);
    comm.and_then(|comm| need_of_node(process.engine(), comm)).unwrap_or(Need::Nothing)
}

fn need_of_running(process: &mut Process, running: Option<Half>, handle: MPI_Request) -> Need {
    match running {
        None => Need::Nothing,
        Some(Half::Remote) => need_remote(process, handle),
        Some(half) => need_of_half(process, half),
    }
}

fn need_of_request(process: &mut Process, handle: MPI_Request) -> Need {
    if let Ok(Some(id)) = process.core_id(handle, "request") {
        return process.engine().core.need(id);
    }
    let Ok(request) = process.requests.table.get(handle, "request") else { return Need::Nothing };
    match &request.what {
        What::Sent => Need::Nothing,
        What::Both(receive, send, _) => {
            let (receive, send) = (*receive, *send);
            match need_of_half(process, receive) {
                Need::Nothing => need_of_half(process, send),
                need => need,
            }
        }
        What::Collective(persistent) => need_of_running(process, persistent.running(), handle),
        What::Remote(remote) => need_of_running(process, remote.running, handle),
        What::Flush(..) => Need::Other("the attached buffer to drain".into()),
        What::File(operation) => Need::Other(operation.what().into()),
        What::Making(_) => Need::Other("those that live to agree on a communicator".into()),
        What::General(_) => Need::Other("a generalized request, which the program completes".into()),
    }
}

fn need_of_node(engine: &mut Machine, comm: CommId) -> Option<Need> {
    let context = engine.core.context_of(comm)?;
    let room = engine.node.opened(comm)?;
    let (number, label, awaited) = (room.calls_count().saturating_sub(1), room.label(), room.awaited());
    let group = engine.core.comm(comm).ok()?.group();
    let awaited = awaited.and_then(|rank| group.process(rank)).map(|process| engine.core.told(process));
    Some(Need::Node(NodeState { context, number, label, awaited }))
}

/// What a call waits for that takes locks of a window.
fn needs_of_lock(process: &mut Process, win: MPI_Win, target: Option<Rank>, is_exclusive: bool) -> Vec<Need> {
    let core = &process.engine().core;
    let Ok(windows) = win::table() else { return Vec::new() };
    let Some(win) = windows.find(win) else { return Vec::new() };
    let (Some(locks), Some(context)) = (&win.locks, core.context_of(win.comm)) else { return Vec::new() };
    let member = |rank: Rank| win.group.process(rank).map(|process| core.told(process));
    let targets = target.map_or(0..win.group.size(), |target| target..target + 1);
    let need = |target: Rank| {
        let (holder, holders_count) = match locks.epoch_holder(target) {
            Holder::Free => return None,
            Holder::Shared(_) if !is_exclusive => return None,
            Holder::Shared(count) => (None, count),
            Holder::Exclusive(rank) => (member(rank), 1),
        };
        let name = String::from_utf8_lossy(&win.name).into_owned();
        let target = member(target)?;
        Some(Need::Lock(LockState { context, name, target, is_exclusive, holder, holders_count }))
    };
    targets.filter_map(need).take(NEEDS_MAX).collect()
}

/// The locks of windows in shared memory that this process holds.
fn held_locks(core: &ayatori_core::Process) -> Vec<HeldLock> {
    let Ok(windows) = win::table() else { return Vec::new() };
    let mut held = Vec::new();
    for win in windows.iter().filter(|win| win.locks.is_some()) {
        let Some(context) = core.context_of(win.comm) else { continue };
        if win.epochs.holds_all() {
            held.push(HeldLock { context, target: None });
        }
        let targets = win.epochs.held_targets().filter_map(|rank| win.group.process(rank));
        held.extend(targets.map(|process| HeldLock { context, target: Some(core.told(process)) }));
    }
    held.truncate(LINKS_MAX);
    held
}

/// Function `call` begins.
#[inline(always)]
pub(crate) fn enter(call: u32) {
    let words = words();
    // Not in the shortest ways, which it would make a hundredth longer: a thread that has sent waits, too.
    if !is_short(call) {
        let outer = words.call();
        if outer != 0 {
            overlap::look(call, outer);
        }
    }
    words.enter(call);
    // The first is known when this is compiled.
    if answers_on_entry(call) && words.is_asked() {
        on_entry();
    }
}

/// The functions of few instructions.
#[inline(always)]
const fn is_short(call: u32) -> bool {
    matches!(
        call,
        ids::MPI_Send
            | ids::MPI_Recv
            | ids::MPI_Isend
            | ids::MPI_Irecv
            | ids::MPI_Wait
            | ids::MPI_Test
            | ids::MPI_Iprobe
    )
}

/// Functions that answer on their way in: those by which programs look again and again whether something has
/// come, and such as a program that goes on comes to now and then. Not the shortest ways; and none that a
/// reduction function of the user may call, which runs while the process is locked: all of these communicate.
#[inline(always)]
const fn answers_on_entry(call: u32) -> bool {
    let polls = matches!(
        call,
        ids::MPI_Test
            | ids::MPI_Testall
            | ids::MPI_Testany
            | ids::MPI_Testsome
            | ids::MPI_Iprobe
            | ids::MPI_Improbe
            | ids::MPI_Request_get_status
            | ids::MPI_Request_get_status_all
            | ids::MPI_Request_get_status_any
            | ids::MPI_Request_get_status_some
    );
    let waits = matches!(
        call,
        ids::MPI_Wait
            | ids::MPI_Waitall
            | ids::MPI_Waitany
            | ids::MPI_Waitsome
            | ids::MPI_Sendrecv
            | ids::MPI_Barrier
            | ids::MPI_Bcast
            | ids::MPI_Reduce
            | ids::MPI_Allreduce
            | ids::MPI_Allgather
            | ids::MPI_Alltoall
    );
    polls || waits
}

/// The kind of call that waits so, because the words may be another thread's.
fn kind_of_call(waits: Waits, needs: &[Need]) -> &'static str {
    match (waits, needs) {
        (Waits::Direct | Waits::Request(_) | Waits::Remote(_), [Need::Message(_)]) => "MPI_Recv",
        (Waits::Request(_) | Waits::Remote(_), [Need::Match { .. }]) => "MPI_Send",
        (Waits::Request(_) | Waits::Remote(_), [Need::Collective(_) | Need::Node(_)])
        | (Waits::Node(_) | Waits::Run, _) => "a collective operation",
        (Waits::Both(..), _) => "MPI_Sendrecv",
        (Waits::All(_, 1), _) => "MPI_Wait",
        (Waits::All(..), _) => "MPI_Waitall",
        (Waits::Any(..), _) => "MPI_Waitany",
        (Waits::Probe(..), _) => "MPI_Probe",
        _ => "a call",
    }
}
