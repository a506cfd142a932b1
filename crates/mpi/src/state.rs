//! Where the state of the process lives: three statics and the phase.
//!
//! - [`process`] is what exists between start and end of MPI: communicators, groups, requests, the engine. One lock
//!   (`gate.rs`) that is elided below `MPI_THREAD_MULTIPLE`, because the standard then promises that calls do not overlap,
//!   and that the helper thread takes while none is inside.
//! - [`types`] is datatypes and operations, apart because the user's reduction functions ask for datatypes while the
//!   engine works. Predefined datatypes and operations are found without it.
//! - [`registry`] is what the standard allows before the start, after the end and from any thread at any time
//!   (MPI-5.0 §11.6): info objects, error handlers, error codes, attribute keys. A mutex always; nothing of it is on
//!   the way of a message.
//!
//! Lock order: process, types, registry. None is held while a function of the user runs (take what the call needs, let
//! go, call, lock again), with one exception: a reduction function of the user, which may not communicate, runs inside
//! the engine and so with process locked.

use crate::abi::*;
use crate::api::abi::Fortran;
use crate::api::p2p::Message;
use crate::attribute::Keyvals;
use crate::boundary::{Fault, fault};
use crate::comm::Comm;
use crate::datatype::{self, Datatype};
use crate::errhandler::Errhandlers;
use crate::error::ErrorCodes;
use crate::gate::{self, Gate};
use crate::handle::Table;
use crate::info::Info;
use crate::op::UserOp;
use crate::request::{Request, SENT, What};
use crate::runtime::{Engine, Front};
use ayatori_core::group::Group;
use ayatori_core::ids::ProcessId;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What exists while MPI runs.
pub(crate) struct Process {
    /// Communicators.
    pub(crate) comms: Table<MPI_Comm, Comm>,
    /// Groups.
    pub(crate) groups: Table<MPI_Group, Group>,
    /// Requests that are not simply the core's.
    pub(crate) requests: Table<MPI_Request, Request>,
    /// Whose error handler hears of the errors of the core's requests, by their slots.
    pub(crate) core_comms: Vec<MPI_Comm>,
    /// Messages held by matched probes.
    pub(crate) messages: Table<MPI_Message, Message>,
    /// What moves messages; there from start to end, unless a thread of its own has it (`runtime/offload`).
    pub(crate) engine: Option<Engine>,
    /// What calls have while it does.
    pub(crate) front: Option<Box<Front>>,
    /// Short messages that were on their way when the mode ended: their sends may read them until the end.
    pub(crate) left_copies: Vec<Box<[u8]>>,
    id: ProcessId,
}

/// Datatypes and operations.
pub(crate) struct Types {
    /// The user's datatypes, and names and attributes of the predefined ones.
    pub(crate) datatypes: Table<MPI_Datatype, Datatype>,
    /// The user's operations.
    pub(crate) ops: Table<MPI_Op, UserOp>,
}

impl Process {
    const fn new() -> Self {
        Self {
            comms: Table::new(),
            groups: Table::new(),
            requests: Table::new(),
            core_comms: Vec::new(),
            messages: Table::new(),
            engine: None,
            front: None,
            left_copies: Vec::new(),
            id: ProcessId(0),
        }
    }

    /// The process has joined its job.
    pub(crate) fn join(&mut self, id: ProcessId, engine: Engine) {
        self.id = id;
        self.engine = Some(engine);
        let handle = self.table_request(What::Sent, MPI_COMM_SELF);
        debug_assert!(matches!(handle, Ok(SENT)), "the table was not empty");
    }

    /// Whether there is work for who looks after it while nobody calls.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.core.is_busy() || engine.device.may_hold())
    }

    /// Whether there are links, on which acknowledgements may be due, or awaited.
    #[inline(always)]
    pub(crate) fn has_links(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.core.wants_time())
    }

    /// This process' index in the job.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }
}

/// What exists at any time.
pub(crate) struct Registry {
    /// Info objects.
    pub(crate) infos: Table<MPI_Info, Info>,
    /// Error handlers.
    pub(crate) errhandlers: Errhandlers,
    /// Error classes and codes of the user.
    pub(crate) errors: ErrorCodes,
    /// Attribute keys.
    pub(crate) keyvals: Keyvals,
    /// What a Fortran binding said about its compiler.
    pub(crate) fortran: Fortran,
}

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

static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);
static PROCESS: Gate = Gate::new(Process::new());
static TYPES: Elided<Types> = Elided::new(Types { datatypes: Table::new(), ops: Table::new() });
static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    infos: Table::new(),
    errhandlers: Errhandlers::new(),
    errors: ErrorCodes::new(),
    keyvals: Keyvals::new(),
    fortran: Fortran::new(),
});

/// How far the process is.
#[inline(always)]
pub(crate) fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        0 => Phase::Before,
        1 => Phase::Running,
        _ => Phase::After,
    }
}

/// The process goes on to `phase`.
pub(crate) fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Ordering::Release);
}

/// The state of the running process, locked. Before the start and after the end that is the caller's error.
#[inline(always)]
pub(crate) fn process() -> Result<gate::Guard<'static>, Fault> {
    if phase() != Phase::Running {
        return Err(not_running());
    }
    Ok(PROCESS.lock())
}

/// The datatypes and operations of the running process, locked.
#[inline(always)]
pub(crate) fn types() -> Result<Guard<'static, Types>, Fault> {
    if phase() != Phase::Running {
        return Err(not_running());
    }
    Ok(TYPES.lock())
}

/// Puts the predefined datatypes in, at the start.
pub(crate) fn prepare_types() {
    let mut types = TYPES.lock();
    for (handle, datatype) in datatype::all_predefined() {
        types.datatypes.insert_predefined(handle, datatype);
    }
}

/// The state in whatever phase, for start, end and error handling.
pub(crate) fn process_in_any_phase() -> gate::Guard<'static> {
    PROCESS.lock()
}

/// The lock itself, for the helper.
pub(crate) fn gate() -> &'static Gate {
    &PROCESS
}

/// From now on calls may overlap (`MPI_THREAD_MULTIPLE`, or the phases before and after), or they may not.
pub(crate) fn set_concurrent(concurrent: bool) {
    PROCESS.set_concurrent(concurrent);
    TYPES.concurrent.store(concurrent, Ordering::Release);
}

/// The state that exists at any time, locked.
pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    // A panic while it was held has been reported as MPI_ERR_INTERN; the tables are usable all the same.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn not_running() -> Fault {
    let when = if phase() == Phase::Before { "before MPI_Init" } else { "after MPI_Finalize" };
    fault(MPI_ERR_OTHER, format_args!("the function was called {when}"))
}

/// A lock that costs one load while nobody else can hold it.
struct Elided<T> {
    concurrent: AtomicBool,
    lock: Mutex<()>,
    /// Whether a guard is alive, to find a call that overlaps another against its promise or locks twice.
    #[cfg(debug_assertions)]
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only. Guards exclude each other by the mutex while `concurrent`, and
// else because the thread level the user asked for promises that no two calls overlap.
unsafe impl<T> Sync for Elided<T> {}

impl<T> Elided<T> {
    const fn new(value: T) -> Self {
        Self {
            concurrent: AtomicBool::new(true),
            lock: Mutex::new(()),
            #[cfg(debug_assertions)]
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    fn lock(&self) -> Guard<'_, T> {
        let held = self.concurrent.load(Ordering::Acquire).then(|| self.lock_slowly());
        #[cfg(debug_assertions)]
        assert!(!self.held.swap(true, Ordering::AcqRel), "two calls overlap, or one locks twice");
        Guard { of: self, _held: held }
    }

    #[inline(never)]
    fn lock_slowly(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to the value of an [`Elided`] lock.
pub(crate) struct Guard<'a, T> {
    of: &'a Elided<T>,
    _held: Option<MutexGuard<'a, ()>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: guards exclude each other (see `Sync` above), so only this one refers to the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes the reference unique within this guard.
        unsafe { &mut *self.of.value.get() }
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.of.held.store(false, Ordering::Release);
    }
}
