//! The process between start and end of MPI: what messages need, behind one lock.
//!
//! The lock (`gate.rs`) is elided below `MPI_THREAD_MULTIPLE`, because the standard then promises that calls
//! do not overlap; the helper thread takes it while no call is inside. Tables that messages do not need have
//! locks of their own, in the module of their chapter: see `lock.rs`, which also says in which order.

use crate::abi::*;
use crate::comm::Comm;
use crate::errhandler::handlers;
use crate::fault::Fault;
use crate::gate::{self, Gate};
use crate::group::{DerivedGroup, SessionNumber};
use crate::handle::Table;
use crate::message::Message;
use crate::operation::Operation;
use crate::post::Post;
use crate::request::{Looked, Requests, Tested, What};
use crate::runtime::engine::Engine;
use crate::runtime::launch::WorldName;
use crate::runtime::machine::Machine;
use crate::starting::Started;
use crate::{lock, phase};
use ayatori_core::ids::{CommId, ProcessId, RequestId};
use ayatori_core::request::{Completion, Posted, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The state while MPI runs. The parts belong to their chapters' modules; this module has the code that needs
/// several of them.
pub(crate) struct Process {
    /// Communicators.
    pub(crate) comms: Table<MPI_Comm, Comm>,
    /// Groups.
    pub(crate) groups: Table<MPI_Group, DerivedGroup>,
    /// Requests.
    pub(crate) requests: Requests,
    /// Messages held by matched probes.
    pub(crate) messages: Table<MPI_Message, Message>,
    /// The message engine.
    pub(crate) engine: Engine,
    /// Error handlers, with a user here, of freed communicators that requests or messages may still name, by
    /// the communicator's handle.
    former_handlers: BTreeMap<usize, MPI_Errhandler>,
    /// How many there may be before those are looked for that nothing names.
    former_max: usize,
    id: ProcessId,
    world: WorldName,
    parent: Option<String>,
}

/// So many freed communicators cost no look at the requests.
const FORMER_MIN: usize = 16;

static PROCESS: Gate<Process> = Gate::new(Process {
    comms: Table::new(),
    groups: Table::new(),
    requests: Requests::new(),
    messages: Table::new(),
    engine: Engine::new(),
    former_handlers: BTreeMap::new(),
    former_max: FORMER_MIN,
    id: ProcessId(0),
    world: WorldName::NONE,
    parent: None,
});

/// The right of a call to the process.
pub(crate) type Guard = gate::Guard<'static, Process>;

/// The state of the running process, locked. Before the start and after the end that is the caller's error.
#[inline(always)]
pub(crate) fn process() -> Result<Guard, Fault> {
    phase::check_running()?;
    Ok(PROCESS.lock())
}

/// The state in whatever phase, for start, end and error handling.
pub(crate) fn process_in_any_phase() -> Guard {
    PROCESS.lock()
}

/// The lock itself, for the helper.
pub(crate) fn gate() -> &'static Gate<Process> {
    &PROCESS
}

/// From now on calls may overlap (`MPI_THREAD_MULTIPLE`, or the phases before and after), or they may not.
pub(crate) fn set_concurrent(concurrent: bool) {
    PROCESS.set_concurrent(concurrent);
    lock::set_concurrent(concurrent);
}

impl Process {
    /// The process has joined its job.
    pub(crate) fn join(&mut self, id: ProcessId, world: WorldName, parent: Option<String>, machine: Machine) {
        (self.id, self.world, self.parent) = (id, world, parent);
        self.engine.start(machine);
        self.requests.prepare();
    }

    /// This world's name among others.
    pub(crate) fn world(&self) -> WorldName {
        self.world
    }

    /// The port of this process' parents, once.
    pub(crate) fn take_parent(&mut self) -> Option<String> {
        self.parent.take()
    }

    /// This process' number.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// A communicator is freed. Its error handler goes when nothing names the communicator any more:
    /// operations under way "will complete normally" (MPI-5.0 §7.4.3), and so do their errors.
    pub(crate) fn retire_handler(&mut self, comm: MPI_Comm, handler: MPI_Errhandler) -> Result<(), Fault> {
        let before = self.former_handlers.insert(comm.0, handler);
        before.map_or(Ok(()), |handler| handlers().release(handler))?;
        if self.former_handlers.len() < self.former_max {
            return Ok(());
        }
        let named = self.requests.comms().chain(self.messages.iter().map(|message| message.comm));
        let named = named.map(|comm| comm.0).filter(|comm| self.former_handlers.contains_key(comm));
        let named: BTreeSet<usize> = named.collect();
        let former = std::mem::take(&mut self.former_handlers).into_iter();
        let (used, unused): (BTreeMap<_, _>, BTreeMap<_, _>) =
            former.partition(|(comm, _)| named.contains(comm));
        self.former_max = FORMER_MIN + 2 * used.len();
        self.former_handlers = used;
        unused.into_values().try_for_each(|handler| handlers().release(handler))
    }

    /// The error handler that a communicator had when it was freed.
    pub(crate) fn former_handler_of(&self, comm: MPI_Comm) -> Option<MPI_Errhandler> {
        self.former_handlers.get(&comm.0).copied()
    }

    /// A communicator comes from a session, whose buffer its buffered messages take.
    pub(crate) fn set_session(&mut self, id: CommId, comm: &mut Comm, session: Option<SessionNumber>) {
        comm.session = session;
        if let Some(session) = session {
            self.engine().core.set_comm_session(id, session);
        }
    }

    /// The machine; there is one from start to end. Where it is with its thread it is borrowed until the
    /// process is unlocked.
    #[inline(always)]
    pub(crate) fn engine(&mut self) -> &mut Machine {
        self.requests.machine(&mut self.engine)
    }

    /// One round of progress; where the machine is with its thread, a look at what came of its rounds, after
    /// the calls of the user's functions that its operations wait for. Inlined, for a call between this and
    /// the machine's round takes a round that finds nothing 18 instructions of 540.
    #[inline(always)]
    pub(crate) fn progress(&mut self) -> bool {
        match self.engine.own() {
            Some(machine) => machine.progress(),
            None => self.look_at_thread(),
        }
    }

    #[inline(never)]
    fn look_at_thread(&mut self) -> bool {
        let worked = self.engine.call_user_functions();
        self.take_responses() || worked
    }

    /// Does a round in the place of the engine's thread, for a call that waits. `true`: something happened.
    pub(crate) fn stand_in(&mut self) -> bool {
        let worked = self.engine.stand_in();
        self.take_responses() || worked
    }

    /// Mode *offload* ends. No other call is inside.
    pub(crate) fn leave_offload(&mut self) {
        if let Some(under_way) = self.engine.leave_offload() {
            self.requests.end_offload(&mut self.engine, under_way);
        }
    }
}

/// Requests: the methods of [`Requests`] of the same names.
impl Process {
    #[inline]
    pub(crate) fn new_request(&mut self, posted: Posted, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.new_request(&mut self.engine, posted, comm)
    }

    #[inline(always)]
    pub(crate) fn core_request(&mut self, id: RequestId, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.core_request(&mut self.engine, id, comm)
    }

    pub(crate) fn table_request(&mut self, what: What, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.add(what, comm)
    }

    #[inline(always)]
    pub(crate) fn core_id(&mut self, handle: MPI_Request, name: &str) -> Result<Option<RequestId>, Fault> {
        self.requests.core_id(&mut self.engine, handle, name)
    }

    #[inline]
    pub(crate) fn test(&mut self, handle: MPI_Request, name: &str) -> Result<(Tested, MPI_Comm), Fault> {
        self.requests.test_on_comm(&mut self.engine, &mut self.comms, handle, name)
    }

    #[inline(always)]
    pub(crate) fn end_plain(&mut self, handle: MPI_Request) -> Option<Status> {
        self.requests.end_plain(&mut self.engine, handle)
    }

    /// Unchanged: no request has failed since.
    #[inline]
    pub(crate) fn failures(&mut self) -> u64 {
        self.requests.failures(&mut self.engine)
    }

    pub(crate) fn comm_of(&mut self, handle: MPI_Request) -> MPI_Comm {
        self.requests.comm_of(&mut self.engine, handle)
    }

    pub(crate) fn look_at(&mut self, handle: MPI_Request) -> Result<Looked, Fault> {
        self.progress();
        self.requests.look_at(&mut self.engine, &mut self.comms, handle)
    }

    pub(crate) fn start(&mut self, handle: MPI_Request) -> Result<(), Fault> {
        self.requests.start(&mut self.engine, handle)
    }

    #[inline]
    pub(crate) fn take_responses(&mut self) -> bool {
        self.requests.take_responses(&mut self.engine)
    }

    pub(crate) fn take_remote(&mut self, handle: MPI_Request) -> Result<Option<Completion>, Fault> {
        self.requests.take_remote(&mut self.engine, handle)
    }

    #[inline]
    pub(crate) fn start_awaited(&mut self, post: Post, comm: MPI_Comm) -> Result<Started, Fault> {
        self.requests.start_awaited(&mut self.engine, post, comm)
    }

    #[inline]
    pub(crate) fn start_message(&mut self, post: Post, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.start_message(&mut self.engine, post, comm)
    }

    pub(crate) fn prepare_message(&mut self, post: Post, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.requests.prepare_message(&mut self.engine, post, comm)
    }

    pub(crate) fn start_both(
        &mut self,
        halves: (Post, Post),
        comm: MPI_Comm,
    ) -> Result<(Started, Started), Fault> {
        self.requests.start_both(&mut self.engine, halves, comm)
    }

    pub(crate) fn start_pair(
        &mut self,
        halves: (Post, Post),
        kept: Option<Box<[u8]>>,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        self.requests.start_pair(&mut self.engine, halves, kept, comm)
    }

    #[inline]
    pub(crate) fn command_collective(
        &mut self,
        comm: (CommId, MPI_Comm),
        operation: Operation,
        is_blocking: bool,
    ) -> Result<Result<Started, Operation>, Fault> {
        self.requests.command_collective(&mut self.engine, comm, operation, is_blocking)
    }

    pub(crate) fn start_collective(
        &mut self,
        comm: (CommId, MPI_Comm),
        operation: Operation,
    ) -> Result<MPI_Request, Fault> {
        self.requests.start_collective(&mut self.engine, comm, operation)
    }

    /// The core's request of an operation that was given to the engine's thread, if it is under way. Borrows.
    pub(crate) fn remote_id(&mut self, request: MPI_Request) -> Option<RequestId> {
        self.engine();
        self.engine.remote_id(request)
    }

    /// The communicator of a collective operation in shared memory that was given to the thread. Borrows.
    pub(crate) fn remote_node(&mut self, request: MPI_Request) -> Option<CommId> {
        self.engine();
        self.engine.remote_node(request)
    }
}
