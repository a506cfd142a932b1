//! The object of an `MPI_Request`: a request of the core, named by the handle itself, or an object of ours in
//! a table.

use crate::abi::*;
use crate::comm::{Comm, Shape};
use crate::errhandler::handlers;
use crate::fault::{Fault, Object, fault};
use crate::file::pool;
use crate::general::General;
use crate::handle::{Table, bad, is_made};
use crate::operation::Operation;
use crate::post::{Post, with_room};
use crate::runtime::engine::Engine;
use crate::runtime::machine::Machine;
use crate::runtime::offload::{Response, UnderWay};
use crate::staging::Staging;
use ayatori_core::Error;
use ayatori_core::bsend::BufferOwner;
use ayatori_core::comm::CommHold;
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{Completion, Posted, Status};
use std::sync::Arc;

/// The request of every short send that left at once: the first handle of the table, inserted at the start
/// and never taken out, so that such a send makes and ends no object.
pub(crate) const SENT: MPI_Request = Table::<MPI_Request, Request>::FIRST;

/// The highest bits of a handle that names a request of the core; the others are the core's name for it. The
/// kinds of `handle.rs` stay below.
const CORE: usize = 0b11;

/// A request of the user that is more, or less, than one of the core.
pub(crate) struct Request {
    /// The operation.
    pub(crate) what: What,
    /// The communicator whose error handler gets its errors.
    pub(crate) comm: MPI_Comm,
}

/// The operation of a request.
pub(crate) enum What {
    /// The send of [`SENT`].
    Sent,
    /// A receive and a send (`MPI_Isendrecv`); the status is the receive's.
    Both(Half, Half, Option<Box<[u8]>>),
    /// A collective operation that is persistent (MPI-5.0 §6.13), or works on copies of data with gaps.
    Collective(Box<Persistent>),
    /// A generalized request (MPI-5.0 §13.2).
    General(Box<General>),
    /// Waits until the messages before this number have left an attached buffer (`MPI_Buffer_iflush`).
    Flush(BufferOwner, u64),
    /// An operation that the engine's thread has, or a persistent one that was made for it.
    Remote(Remote),
    /// An access to a file.
    File(Box<pool::Operation>),
    /// A communicator that is being made, whose members are known when it is (`MPIX_Comm_ishrink`).
    Making(Box<Making>),
}

impl What {
    /// The operations behind it, first or second.
    fn half_mut(&mut self, which: usize) -> Option<&mut Half> {
        match (self, which) {
            (Self::Both(receive, ..), 0) => Some(receive),
            (Self::Both(_, send, _), 1) => Some(send),
            (Self::Collective(persistent), 0) => persistent.running_mut(),
            (Self::Remote(remote), 0) => remote.running.as_mut(),
            (Self::Making(making), 0) => Some(&mut making.running),
            _ => None,
        }
    }
}

/// One of two operations behind one request.
#[derive(Clone, Copy)]
pub(crate) enum Half {
    /// Going on.
    Going(RequestId),
    /// Over.
    Over(Completion),
    /// Given to the engine's thread, which has not said yet that it is over.
    Remote,
}

impl From<Posted> for Half {
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Done(completion) => Self::Over(completion),
            Posted::Pending(id) => Self::Going(id),
        }
    }
}

/// A communicator that is being made.
pub(crate) struct Making {
    pub(crate) running: Half,
    /// Its handle, and the core's name of it.
    pub(crate) made: (MPI_Comm, CommId),
}

/// Result of testing a request.
pub(crate) enum Tested {
    /// It goes on.
    Going,
    /// It is over. The handle is null from now on, unless `keeps` (a persistent request).
    Over { completion: Completion, keeps: bool },
    /// It is a complete generalized request: the caller calls its user's functions, without locks.
    GeneralOver(Box<General>),
    /// It is null or an inactive persistent request: nothing to wait for.
    Nothing,
}

/// A request of which the engine's thread has the operation, or has had it.
pub(crate) struct Remote {
    /// The operation; none while a persistent request is inactive.
    pub(crate) running: Option<Half>,
    /// The operation that a persistent request starts.
    post: Option<Post>,
    /// The communicator of that.
    _held: Option<CommHold>,
    /// Given up: vanishes when it is over.
    pub(crate) is_freed: bool,
}

impl Remote {
    /// An operation on its way to the thread.
    const GOING: Self = Self { running: Some(Half::Remote), post: None, _held: None, is_freed: false };
}

/// The fault of starting what goes on.
#[cold]
fn is_active() -> Fault {
    fault(MPI_ERR_REQUEST, format_args!("argument request is active already"))
}

/// What the engine's thread needs to know of a run: where, what, and by which name it matches.
type Given = (CommId, Arc<Operation>, Option<CollectiveId>);

/// A collective operation that has a request of its own: a persistent one, or a non-blocking one on data with
/// gaps.
pub(crate) struct Persistent {
    operation: Arc<Operation>,
    comm: CommId,
    /// Its id stays its own, though it may be freed.
    _held: CommHold,
    /// By which the runs of a persistent operation match those at the other processes.
    id: Option<CollectiveId>,
    /// The buffers that its schedule uses in place of data with gaps.
    staging: Staging,
    /// The run under way; none while inactive.
    running: Option<Half>,
}

impl Persistent {
    /// One of these, inactive.
    pub(crate) fn new(
        operation: Operation,
        (comm, held): (CommId, CommHold),
        id: Option<CollectiveId>,
        staging: Staging,
    ) -> Self {
        Self { operation: Arc::new(operation), comm, _held: held, id, staging, running: None }
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_inactive(&self) -> bool {
        self.running.is_none()
    }

    /// Whether the request stays when a run is over.
    pub(crate) fn is_persistent(&self) -> bool {
        self.id.is_some()
    }

    /// The run under way.
    pub(crate) fn running(&self) -> Option<Half> {
        self.running
    }

    /// Begins a run.
    fn start(&mut self, machine: &mut Machine) -> Result<(), Fault> {
        self.check_inactive()?;
        self.staging.fill();
        self.running = Some(machine.begin_collective(self.comm, &self.operation, self.id)?.into());
        Ok(())
    }

    /// Begins a run in the engine's thread, where it can be run there: what to command.
    fn start_remotely(&mut self, is_remote: bool) -> Result<Option<Given>, Fault> {
        self.check_inactive()?;
        if !is_remote || self.operation.calls_user_function() {
            return Ok(None);
        }
        self.staging.fill();
        self.running = Some(Half::Remote);
        Ok(Some((self.comm, self.operation.clone(), self.id)))
    }

    fn check_inactive(&self) -> Result<(), Fault> {
        if self.running.is_some() { Err(is_active()) } else { Ok(()) }
    }

    /// The run under way, to be replaced by what became of it.
    pub(crate) fn running_mut(&mut self) -> Option<&mut Half> {
        self.running.as_mut()
    }

    /// The run is over.
    pub(crate) fn end(&mut self, completion: Completion) {
        self.running = Some(Half::Over(completion));
    }

    /// The run goes on as a request of the core.
    pub(crate) fn goes_on_as(&mut self, id: RequestId) {
        self.running = Some(Half::Going(id));
    }

    /// The run's completion, if it is known to be over; the request is inactive then.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        match self.running {
            Some(Half::Over(completion)) => {
                self.give(&completion);
                self.running = None;
                Some(completion)
            }
            _ => None,
        }
    }

    /// The run's completion, if it is known to be over, or if there is none.
    pub(crate) fn peek(&self) -> Option<Completion> {
        match self.running {
            None => Some(Completion::EMPTY),
            Some(Half::Over(completion)) => {
                self.give(&completion);
                Some(completion)
            }
            _ => None,
        }
    }

    /// Gives the results of a run to the program.
    fn give(&self, completion: &Completion) {
        if completion.error.is_none() {
            self.staging.drain();
        }
    }
}

/// The requests that exist. The methods that look at operations take the engine.
pub(crate) struct Requests {
    /// Requests that are not simply the core's.
    pub(crate) table: Table<MPI_Request, Request>,
    /// The communicators whose error handlers get the errors of the core's requests, by slot. Of one-sided
    /// operations, the handles of their windows ([`object_of`]).
    core_comms: Vec<MPI_Comm>,
    /// Operations of the engine's thread that have failed.
    failure_count: u64,
    /// A communicator whose making was just seen to be over, for [`Process`](crate::state::Process).
    made: Option<(MPI_Comm, CommId)>,
}

/// Making requests.
impl Requests {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { table: Table::new(), core_comms: Vec::new(), failure_count: 0, made: None }
    }

    /// Puts [`SENT`] in, at the start.
    pub(crate) fn prepare(&mut self) {
        let handle = self.add(What::Sent, MPI_COMM_SELF);
        debug_assert!(matches!(handle, Ok(SENT)), "the table was not empty");
    }

    /// The machine, borrowed if its thread has it.
    #[inline(always)]
    pub(crate) fn machine<'a>(&mut self, engine: &'a mut Engine) -> &'a mut Machine {
        if engine.is_remote() {
            self.borrow(engine);
        }
        engine.machine()
    }

    #[cold]
    #[inline(never)]
    fn borrow(&mut self, engine: &mut Engine) {
        engine.borrow();
        self.take_responses(engine);
    }

    /// A handle for an operation of the core.
    #[inline]
    pub(crate) fn new_request(
        &mut self,
        engine: &mut Engine,
        posted: Posted,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        let id = match posted {
            Posted::Pending(id) => id,
            Posted::Done(completion) => self.machine(engine).core.park(completion),
        };
        self.core_request(engine, id, comm)
    }

    /// A handle for a request of the core. It is given up where there are too many.
    #[inline(always)]
    pub(crate) fn core_request(
        &mut self,
        engine: &mut Engine,
        id: RequestId,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        let Some(name) = id.name() else { return Err(self.too_many(engine, id)) };
        match self.core_comms.get_mut(id.index as usize) {
            Some(place) => *place = comm,
            None => self.grow_core_comms(id, comm),
        }
        Ok(MPI_Request(CORE << RequestId::NAME_BITS | name as usize))
    }

    #[cold]
    fn grow_core_comms(&mut self, id: RequestId, comm: MPI_Comm) {
        self.core_comms.resize(id.index as usize, MPI_COMM_NULL);
        self.core_comms.push(comm);
    }

    /// The communicators of requests; of the core's also those of requests that were in their places before.
    pub(crate) fn comms(&self) -> impl Iterator<Item = MPI_Comm> {
        self.core_comms.iter().copied().chain(self.table.iter().map(|request| request.comm))
    }

    #[cold]
    fn too_many(&mut self, engine: &mut Engine, id: RequestId) -> Fault {
        let freed = self.machine(engine).core.free(id);
        debug_assert!(freed.is_ok(), "just made");
        fault(MPI_ERR_NO_MEM, format_args!("{} requests are alive", id.index))
    }

    /// A handle for an operation that is not one of the core.
    pub(crate) fn add(&mut self, what: What, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.table.insert(Request { what, comm })
    }

    /// The core's request that a handle names. `None`: such a handle is in the table.
    #[inline(always)]
    pub(crate) fn core_id(
        &mut self,
        engine: &mut Engine,
        handle: MPI_Request,
        name: &str,
    ) -> Result<Option<RequestId>, Fault> {
        if handle.0 >> RequestId::NAME_BITS != CORE {
            return Ok(None);
        }
        let core = &self.machine(engine).core;
        let core_name = handle.0 as u32 & ((1 << RequestId::NAME_BITS) - 1);
        core.named(core_name).map(Some).ok_or_else(|| bad(handle, name))
    }

    /// Looks at a request, and ends it if it is over. No progress is made here. Also returns the communicator
    /// whose error handler gets its errors.
    #[inline]
    pub(crate) fn test_on_comm(
        &mut self,
        engine: &mut Engine,
        comms: &mut Table<MPI_Comm, Comm>,
        handle: MPI_Request,
        name: &str,
    ) -> Result<(Tested, MPI_Comm), Fault> {
        if let Some(id) = self.core_id(engine, handle, name)? {
            let comm = self.core_comms[id.index as usize];
            return Ok((self.test_core(engine, id)?, comm));
        }
        let comm = self.comm_of(engine, handle);
        let tested = self.test(engine, handle, name)?;
        self.shape_made(engine, comms);
        Ok((tested, comm))
    }

    /// Gives a communicator its members, if one was just made. The handle of one that failed is bad from now
    /// on.
    fn shape_made(&mut self, engine: &mut Engine, comms: &mut Table<MPI_Comm, Comm>) {
        let Some((handle, id)) = self.made.take() else { return };
        match self.machine(engine).core.comm_or_revoked(id).map(Shape::from) {
            Ok(shape) => {
                if let Some(comm) = comms.find_mut(handle).filter(|comm| comm.id() == id) {
                    comm.reshape(shape);
                }
            }
            Err(_) => {
                if let Ok(comm) = comms.remove(handle, "newcomm") {
                    let _ = handlers().release(comm.errhandler);
                }
            }
        }
    }

    /// As [`test_on_comm`](Self::test_on_comm), of any request. Within it, it would take the short path's
    /// registers.
    #[inline(never)]
    fn test(&mut self, engine: &mut Engine, handle: MPI_Request, name: &str) -> Result<Tested, Fault> {
        match handle {
            MPI_REQUEST_NULL => return Ok(Tested::Nothing),
            SENT => return Ok(Tested::Over { completion: Completion::EMPTY, keeps: false }),
            _ => {}
        }
        if let Some(id) = self.core_id(engine, handle, name)? {
            return self.test_core(engine, id);
        }
        self.take_responses(engine);
        self.take_halves(engine, handle, name)?;
        let is_drained = match self.table.get(handle, name)?.what {
            What::Flush(of, before) => self.machine(engine).core.attached_is_drained_before(of, before),
            _ => false,
        };
        let request = self.table.get_mut(handle, name)?;
        let completion = match &mut request.what {
            What::Sent => Completion::EMPTY,
            What::Both(Half::Over(receive), Half::Over(send), _) => {
                Completion { error: receive.error.or(send.error), ..*receive }
            }
            What::Both(..) => return Ok(Tested::Going),
            What::Collective(persistent) if persistent.is_inactive() => return Ok(Tested::Nothing),
            What::Collective(persistent) => {
                let keeps = persistent.is_persistent();
                let Some(completion) = persistent.take() else { return Ok(Tested::Going) };
                if !keeps {
                    self.table.remove(handle, name)?;
                }
                return Ok(Tested::Over { completion, keeps });
            }
            What::Remote(Remote { running: None, .. }) => return Ok(Tested::Nothing),
            What::Remote(Remote { running: running @ Some(Half::Over(_)), post: Some(_), .. }) => {
                let Some(Half::Over(completion)) = running.take() else { unreachable!("just seen") };
                return Ok(Tested::Over { completion, keeps: true });
            }
            What::Remote(Remote { running: Some(Half::Over(completion)), .. }) => *completion,
            What::Remote(_) => return Ok(Tested::Going),
            What::Flush(..) if is_drained => Completion::EMPTY,
            What::General(general) if general.is_complete => {
                let What::General(general) = self.table.remove(handle, name)?.what else { unreachable!() };
                return Ok(Tested::GeneralOver(general));
            }
            What::File(operation) => match operation.completion() {
                Some(completion) => completion,
                None => return Ok(Tested::Going),
            },
            What::Making(making) => match making.running {
                Half::Over(completion) => {
                    self.made = Some(making.made);
                    completion
                }
                _ => return Ok(Tested::Going),
            },
            What::Flush(..) | What::General(_) => return Ok(Tested::Going),
        };
        self.table.remove(handle, name)?;
        Ok(Tested::Over { completion, keeps: false })
    }

    /// Asks the core for the completions of what it has of a request in the table.
    fn take_halves(&mut self, engine: &mut Engine, handle: MPI_Request, name: &str) -> Result<(), Fault> {
        for which in 0..2 {
            let half = self.table.get_mut(handle, name)?.what.half_mut(which);
            let Some(&mut Half::Going(id)) = half else { continue };
            if let Some(completion) = self.machine(engine).core.take(id)?
                && let Some(half) = self.table.get_mut(handle, name)?.what.half_mut(which)
            {
                *half = Half::Over(completion);
            }
        }
        Ok(())
    }

    /// Ends the request of an operation that was given to the engine's thread, if it is over; its completion.
    pub(crate) fn take_remote(
        &mut self,
        engine: &mut Engine,
        handle: MPI_Request,
    ) -> Result<Option<Completion>, Fault> {
        Ok(match self.test(engine, handle, "request")? {
            Tested::Over { completion, .. } => Some(completion),
            _ => None,
        })
    }

    /// In line, so that its long result does not go through memory.
    #[inline(always)]
    fn test_core(&mut self, engine: &mut Engine, id: RequestId) -> Result<Tested, Fault> {
        let core = &mut self.machine(engine).core;
        if core.is_inactive(id) {
            return Ok(Tested::Nothing);
        }
        let Some(completion) = core.take(id)? else { return Ok(Tested::Going) };
        Ok(Tested::Over { completion, keeps: core.is_request(id) })
    }

    /// Ends a request that has completed without error and whose handle becomes null; its status. The rest is
    /// [`test`](Self::test)'s.
    #[inline(always)]
    pub(crate) fn end_plain(&mut self, engine: &mut Engine, handle: MPI_Request) -> Option<Status> {
        if handle == SENT || handle == MPI_REQUEST_NULL {
            return Some(Status::EMPTY);
        }
        let id = self.core_id(engine, handle, "request").ok()??;
        self.machine(engine).core.take_plain(id)
    }

    /// Unchanged: no request has failed since.
    #[inline]
    pub(crate) fn failures(&self, engine: &mut Engine) -> u64 {
        engine.own().map_or(0, |machine| machine.core.failure_count()).wrapping_add(self.failure_count)
    }

    /// The communicator whose error handler gets a request's errors.
    pub(crate) fn comm_of(&mut self, engine: &mut Engine, handle: MPI_Request) -> MPI_Comm {
        match self.core_id(engine, handle, "request") {
            Ok(Some(id)) => self.core_comms[id.index as usize],
            Ok(None) => self.table.get(handle, "request").map_or(MPI_COMM_SELF, |request| request.comm),
            Err(_) => MPI_COMM_SELF,
        }
    }
}

/// The object of a request: its communicator, or the window whose handle stands in that place.
pub(crate) fn object_of(on: MPI_Comm) -> Object {
    if is_made::<MPI_Win>(on.0) { Object::Win(MPI_Win(on.0)) } else { Object::Comm(on) }
}

/// The fault of an operation that ended with an error, raised on the communicator or window it was started
/// on.
pub(crate) fn check(completion: &Completion, comm: MPI_Comm) -> Result<(), Fault> {
    match completion.error {
        None => Ok(()),
        Some(error) => {
            let fault = Fault::from(error);
            // An error of a file operation is raised on the file.
            Err(if fault.object().is_some() { fault } else { fault.on(object_of(comm)) })
        }
    }
}

/// Result of a look at a request.
pub(crate) enum Looked {
    /// How it ended, if it has.
    Core(Option<Completion>),
    /// A complete generalized request: the caller calls its user's query function, without locks.
    General(General),
}

impl Requests {
    /// Looks at a request without ending it; progress was made.
    pub(crate) fn look_at(
        &mut self,
        engine: &mut Engine,
        comms: &mut Table<MPI_Comm, Comm>,
        handle: MPI_Request,
    ) -> Result<Looked, Fault> {
        let looked = self.look(engine, handle)?;
        self.shape_made(engine, comms);
        Ok(looked)
    }

    fn look(&mut self, engine: &mut Engine, handle: MPI_Request) -> Result<Looked, Fault> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Looked::Core(Some(Completion::EMPTY)));
        }
        if let Some(id) = self.core_id(engine, handle, "request")? {
            return Ok(Looked::Core(self.machine(engine).core.peek(id)?));
        }
        self.take_halves(engine, handle, "request")?;
        let is_drained = match self.table.get(handle, "request")?.what {
            What::Flush(of, before) => self.machine(engine).core.attached_is_drained_before(of, before),
            _ => false,
        };
        let request = self.table.get(handle, "request")?;
        Ok(Looked::Core(match &request.what {
            What::Sent => Some(Completion::EMPTY),
            What::Both(Half::Over(receive), Half::Over(_), _) => Some(*receive),
            What::Both(..) => None,
            What::Collective(persistent) => persistent.peek(),
            What::Remote(Remote { running: None, .. }) => Some(Completion::EMPTY),
            What::Remote(Remote { running: Some(Half::Over(completion)), .. }) => Some(*completion),
            What::Remote(_) => None,
            What::Flush(..) => is_drained.then_some(Completion::EMPTY),
            What::File(operation) => operation.completion(),
            What::Making(making) => match making.running {
                Half::Over(completion) => {
                    self.made = Some(making.made);
                    Some(completion)
                }
                _ => None,
            },
            What::General(general) if general.is_complete => return Ok(Looked::General(**general)),
            What::General(_) => None,
        }))
    }
}

/// The engine's thread (mode *offload*).
impl Requests {
    /// Takes the responses that have come. Whether there were any.
    #[inline]
    pub(crate) fn take_responses(&mut self, engine: &mut Engine) -> bool {
        let mut count = 0;
        while let Some(response) = engine.take_response() {
            count += 1;
            self.end_remote(response);
        }
        engine.responses_taken(count);
        count > 0
    }

    fn end_remote(&mut self, Response { request: handle, completion }: Response) {
        self.failure_count += u64::from(completion.error.is_some());
        let Ok(request) = self.table.get_mut(handle, "request") else {
            debug_assert!(false, "an operation without a request");
            return;
        };
        match &mut request.what {
            What::Remote(Remote { is_freed: true, .. }) => {
                let _ = self.table.remove(handle, "request");
            }
            What::Remote(remote) => remote.running = Some(Half::Over(completion)),
            What::Collective(persistent) => persistent.end(completion),
            _ => debug_assert!(false, "not a request of the thread's"),
        }
    }

    /// The mode has ended: takes the last responses; the owners of what goes on look at the core from now on.
    pub(crate) fn end_offload(&mut self, engine: &mut Engine, under_way: UnderWay) {
        under_way.responses.into_iter().for_each(|response| self.end_remote(response));
        for (handle, id) in under_way.pending {
            let freed = match self.table.get_mut(handle, "request").map(|request| &mut request.what) {
                Ok(What::Remote(Remote { is_freed: true, .. })) => {
                    let _ = self.table.remove(handle, "request");
                    engine.machine().core.free(id)
                }
                Ok(What::Remote(remote)) => {
                    remote.running = Some(Half::Going(id));
                    Ok(())
                }
                Ok(What::Collective(persistent)) => {
                    persistent.goes_on_as(id);
                    Ok(())
                }
                _ => engine.machine().core.free(id),
            };
            debug_assert!(freed.is_ok(), "it is under way");
        }
    }

    /// Gives a message to the thread; the request for it. `is_awaited`: the caller waits for the end from now
    /// on.
    pub(crate) fn post(
        &mut self,
        engine: &mut Engine,
        post: Post,
        comm: MPI_Comm,
        is_awaited: bool,
    ) -> Result<MPI_Request, Fault> {
        if let Some(completion) = post.without_peer() {
            let over = Remote { running: Some(Half::Over(completion)), ..Remote::GOING };
            return self.add(What::Remote(over), comm);
        }
        let request = self.add(What::Remote(Remote::GOING), comm)?;
        engine.post(request, post, is_awaited);
        Ok(request)
    }

    /// A persistent request, inactive.
    pub(crate) fn prepare_post(
        &mut self,
        (post, held): (Post, CommHold),
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        let remote = Remote { running: None, post: Some(post), _held: Some(held), is_freed: false };
        self.add(What::Remote(remote), comm)
    }

    /// Gives a collective operation to the thread; the request for it.
    pub(crate) fn collect(
        &mut self,
        engine: &mut Engine,
        (id, comm): (CommId, MPI_Comm),
        operation: Operation,
        is_blocking: bool,
    ) -> Result<MPI_Request, Fault> {
        let request = self.add(What::Remote(Remote::GOING), comm)?;
        engine.collect(request, (id, Arc::new(operation)), None, is_blocking);
        Ok(request)
    }

    /// `MPI_Start`
    pub(crate) fn start(&mut self, engine: &mut Engine, handle: MPI_Request) -> Result<(), Fault> {
        if let Some(id) = self.core_id(engine, handle, "request")? {
            let comm = self.core_comms[id.index as usize];
            let machine = self.machine(engine);
            let started = match machine.core.start(&mut machine.device, id) {
                Err(Error::BufferExhausted { .. }) => {
                    with_room(machine, |Machine { core, device, .. }| core.start(device, id))
                }
                started => started,
            };
            return started.map_err(|error| Fault::from(error).on(comm));
        }
        let is_remote = engine.is_remote();
        let request = self.table.get_mut(handle, "request")?;
        let comm = request.comm;
        match &mut request.what {
            What::Remote(Remote { running: Some(_), post: Some(_), .. }) => Err(is_active().on(comm)),
            What::Remote(Remote { running, post: Some(post), .. }) => {
                if let Some(completion) = post.without_peer() {
                    *running = Some(Half::Over(completion));
                } else if is_remote {
                    *running = Some(Half::Remote);
                    engine.post(handle, post.clone(), false);
                } else {
                    let posted = post.clone().begin(engine.machine(), false);
                    *running = Some(posted.map_err(|error| Fault::from(error).on(comm))?.into());
                }
                Ok(())
            }
            What::Collective(persistent) => {
                let started = persistent.start_remotely(is_remote).map_err(|fault| fault.on(comm))?;
                if let Some((id_of_comm, operation, id)) = started {
                    engine.collect(handle, (id_of_comm, operation), id, false);
                    return Ok(());
                }
                // Borrows, where a function of the user's is needed.
                self.machine(engine);
                let request = self.table.get_mut(handle, "request")?;
                let What::Collective(persistent) = &mut request.what else { unreachable!("just seen") };
                persistent.start(engine.machine()).map_err(|fault| fault.on(comm))
            }
            _ => Err(fault(MPI_ERR_REQUEST, format_args!("argument request is not a persistent request"))),
        }
    }
}
