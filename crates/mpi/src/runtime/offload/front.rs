//! The calls' side of the queues: commands, responses, and the loan of the engine.

use super::ring::{Consumer, Producer};
use super::{Back, COPIES_KEPT_MAX, COPY_BYTES_MAX, Command, HALL, QUEUE_CAPACITY, Response};
use crate::abi::{MPI_Comm, MPI_Request};
use crate::boundary::{Fault, fault};
use crate::collective::Operation;
use crate::gate::Guard;
use crate::request::{Half, What};
use crate::runtime::helper;
use crate::runtime::wait_until;
use crate::state::Process;
use crate::why::Waits;
use ayatori_core::Error;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Armed;
use ayatori_core::ids::{CommId, Rank, RequestId, Source, Tag, TagSelector};
use ayatori_core::request::{Completion, PROC_NULL, SendMode, Status};
use ayatori_devices::shm::WaitPolicy;
use ayatori_devices::threads::Nap;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

/// What calls have while the engine is with its thread.
pub(crate) struct Front {
    pub(super) commands: Producer<Command>,
    pub(super) responses: Consumer<Response>,
    pub(super) nap: Arc<Nap>,
    /// While the engine is lent: the right to it.
    pub(super) loan: Option<MutexGuard<'static, Option<Box<Back>>>>,
    /// How calls wait.
    pub(super) policy: WaitPolicy,
    /// Inquiries after this process.
    pub(super) inquiries: &'static AtomicU32,
    /// Responses taken.
    pub(super) settled_count: u64,
}

/// A message to be sent or received.
#[derive(Clone, Copy)]
pub(crate) enum Plan {
    Send { comm: CommId, buffer: Buffer, dest: Rank, tag: Tag, mode: SendMode },
    Receive { comm: CommId, buffer: Buffer, source: Source, tag: TagSelector },
}

// SAFETY: a plan goes to the engine's thread within a command. Its buffer is used there from then on until the response, and
// by calls only where they have borrowed the engine, under the hall's lock: by one thread at a time, as buffers ask for.
unsafe impl Send for Plan {}

/// A request of which the engine's thread has the operation, or has had it.
pub(crate) struct Afar {
    /// The operation; none while a persistent request is inactive.
    pub(crate) running: Option<Half>,
    /// What a persistent request does when started.
    pub(crate) plan: Option<Plan>,
    /// Given up: vanishes when it is over.
    pub(crate) is_freed: bool,
}

impl Afar {
    /// An operation on its way to the thread.
    const GOING: Self = Self { running: Some(Half::Afar), plan: None, is_freed: false };
}

impl Plan {
    /// How it ends where there is nobody to talk to.
    fn without_peer(&self) -> Option<Completion> {
        match self {
            Self::Send { dest: PROC_NULL, .. } => Some(Completion::EMPTY),
            Self::Receive { source: Source::Rank(PROC_NULL), .. } => {
                Some(Completion { status: Status::PROC_NULL, error: None })
            }
            _ => None,
        }
    }
}

/// Loans.
impl Process {
    /// Whether the engine is with its thread now, so that operations are started by commands.
    #[inline(always)]
    pub(crate) fn is_afar(&self) -> bool {
        self.engine.is_none()
    }

    /// Whether it is on loan.
    #[inline]
    pub(crate) fn has_loan(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.loan.is_some())
    }

    /// Borrows the engine until the process is let go of; what was commanded before is executed, and a round of progress
    /// made, in which functions of the user's may run.
    #[cold]
    #[inline(never)]
    pub(crate) fn borrow_engine(&mut self) {
        let front = self.front.as_mut().expect("MPI runs");
        HALL.wanted.fetch_add(1, Ordering::SeqCst);
        let mut back = HALL.lock();
        HALL.wanted.fetch_sub(1, Ordering::SeqCst);
        let Back { engine, desk, .. } = &mut **back.as_mut().expect("the mode is in force");
        let mut engine = engine.take().expect("lent to who holds the lock only");
        engine.core.put_off_user_functions(false);
        desk.round(&mut engine);
        front.loan = Some(back);
        self.engine = Some(engine);
        self.settle();
    }

    /// Ends the loan.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back(&mut self) {
        let Some(front) = &mut self.front else { return };
        let Some(mut guard) = front.loan.take() else { return };
        let back = guard.as_mut().expect("the mode is in force");
        let mut engine = self.engine.take().expect("lent");
        back.desk.serve(&mut engine);
        engine.core.put_off_user_functions(true);
        back.engine = Some(engine);
        leave_to_thread(guard, &front.nap);
    }

    /// The core's request of an operation that was given to the thread, if it is under way. Borrows.
    pub(crate) fn id_afar(&mut self, request: MPI_Request) -> Option<RequestId> {
        self.engine();
        self.lent_back()?.desk.id_of(request)
    }

    /// The communicator of a collective operation in shared memory that was given to the thread. Borrows.
    pub(crate) fn node_afar(&mut self, request: MPI_Request) -> Option<CommId> {
        self.engine();
        self.lent_back()?.desk.nodes.iter().find(|run| run.request == request).map(|run| run.comm)
    }

    fn lent_back(&self) -> Option<&Back> {
        self.front.as_ref()?.loan.as_ref()?.as_deref()
    }
}

/// Commands.
impl Process {
    /// Gives the thread a command. `is_awaited`: its end is waited for from now on, by rounds in the thread's place.
    fn command(&mut self, command: Command, is_awaited: bool) {
        let is_short = command.is_short();
        let front = self.front.as_mut().expect("the mode is in force");
        if let Err(command) = front.commands.push(command) {
            self.command_into_full(command);
        } else if !is_awaited {
            // Either the thread sees the command before it sleeps, or we see that it does.
            fence(Ordering::SeqCst);
            if HALL.is_asleep.load(Ordering::Relaxed) && !(is_short && step_in(&front.nap)) {
                rouse(&front.nap);
            }
        }
    }

    /// Does a round in the thread's place, for a call that waits. `true`: something happened.
    pub(in crate::runtime) fn stand_in(&mut self) -> bool {
        // Who has it makes progress.
        let Some(mut guard) = HALL.try_lock() else { return false };
        let Some(back) = guard.as_mut() else { return false };
        let worked = back.round();
        drop(guard);
        self.settle() || worked
    }

    /// There is no room: executes what is there, and gives the command after it.
    #[cold]
    fn command_into_full(&mut self, command: Command) {
        self.engine();
        let front = self.front.as_mut().expect("the mode is in force");
        let loan = front.loan.as_mut().and_then(|back| back.as_mut()).expect("borrowed");
        loan.desk.execute(self.engine.as_mut().expect("borrowed"));
        let pushed = front.commands.push(command);
        // Executed when the engine is given back.
        assert!(pushed.is_ok(), "an empty queue has room");
    }

    /// Gives a short message away, if it may be.
    #[inline]
    pub(crate) fn send_copy(&mut self, plan: &Plan) -> bool {
        let Plan::Send { comm, buffer, dest, tag, mode: SendMode::Standard } = *plan else { return false };
        if dest == PROC_NULL {
            return true;
        }
        if buffer.len() > COPY_BYTES_MAX {
            return false;
        }
        if HALL.has_failed.load(Ordering::Relaxed)
            || HALL.copies_kept.load(Ordering::Relaxed) >= COPIES_KEPT_MAX
        {
            return false;
        }
        let mut bytes = [0; COPY_BYTES_MAX];
        // SAFETY: the array is alive and nobody else's while it is written, on this thread, and as long.
        let copy = unsafe { Buffer::from_raw_parts(bytes.as_mut_ptr(), buffer.len()) };
        copy.copy_from(0, &buffer, 0, buffer.len());
        self.command(Command::Copy { comm, dest, tag, length: buffer.len() as u8, bytes }, false);
        true
    }

    /// Gives a message to the thread; the request for it.
    pub(crate) fn run_afar(
        &mut self,
        plan: Plan,
        comm: MPI_Comm,
        is_awaited: bool,
    ) -> Result<MPI_Request, Fault> {
        if let Some(completion) = plan.without_peer() {
            let over = Afar { running: Some(Half::Over(completion)), ..Afar::GOING };
            return self.table_request(What::Afar(over), comm);
        }
        let request = self.table_request(What::Afar(Afar::GOING), comm)?;
        self.command(Command::Run(request, plan), is_awaited);
        Ok(request)
    }

    /// A persistent request, inactive.
    pub(crate) fn prepare_afar(&mut self, plan: Plan, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        self.table_request(What::Afar(Afar { running: None, plan: Some(plan), is_freed: false }), comm)
    }

    /// Gives a collective operation to the thread; the request for it.
    pub(crate) fn collect_afar(
        &mut self,
        (id, comm): (CommId, MPI_Comm),
        operation: Operation,
        is_blocking: bool,
    ) -> Result<MPI_Request, Fault> {
        let request = self.table_request(What::Afar(Afar::GOING), comm)?;
        let operation = Arc::new(operation);
        self.command(
            Command::Collective { request, comm: id, operation, id: None, is_blocking },
            is_blocking,
        );
        Ok(request)
    }

    /// `MPI_Start` of a request in the table.
    pub(crate) fn start_again(&mut self, handle: MPI_Request) -> Result<(), Fault> {
        let is_afar = self.is_afar();
        let request = self.requests.get_mut(handle, "request")?;
        let comm = request.comm;
        let command = match &mut request.what {
            What::Afar(Afar { running: Some(_), plan: Some(_), .. }) => return Err(is_active().on(comm)),
            What::Afar(Afar { running, plan: Some(plan), .. }) => {
                *running = match plan.without_peer() {
                    Some(completion) => Some(Half::Over(completion)),
                    None if is_afar => Some(Half::Afar),
                    None => {
                        let engine = self.engine.as_mut().expect("MPI runs");
                        Some(plan.begin(engine).map_err(|error| Fault::from(error).on(comm))?.into())
                    }
                };
                matches!(running, Some(Half::Afar)).then_some(Command::Run(handle, *plan))
            }
            What::Collective(persistent) => {
                match persistent.start_afar(is_afar).map_err(|fault| fault.on(comm))? {
                    Some((comm, operation, id)) => {
                        Some(Command::Collective { request: handle, comm, operation, id, is_blocking: false })
                    }
                    None => {
                        // Borrows, where a function of the user's is needed.
                        self.engine();
                        let engine = self.engine.as_mut().expect("MPI runs");
                        let request = self.requests.get_mut(handle, "request")?;
                        let What::Collective(persistent) = &mut request.what else {
                            unreachable!("just seen")
                        };
                        persistent.start(engine).map_err(|fault| fault.on(comm))?;
                        None
                    }
                }
            }
            _ => {
                let why = format_args!("argument request is not a persistent request");
                return Err(fault(crate::abi::MPI_ERR_REQUEST, why));
            }
        };
        if let Some(command) = command {
            self.command(command, false);
        }
        Ok(())
    }
}

/// The fault of starting what goes on.
#[cold]
pub(crate) fn is_active() -> Fault {
    fault(crate::abi::MPI_ERR_REQUEST, format_args!("argument request is active already"))
}

/// Responses.
impl Process {
    /// Takes the responses that have come. Whether there were any.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        let Some(front) = &mut self.front else { return false };
        let before = front.settled_count;
        while let Some(Response { request: handle, completion }) = front.responses.pop() {
            front.settled_count += 1;
            let Ok(request) = self.requests.get_mut(handle, "request") else {
                debug_assert!(false, "an operation without a request");
                continue;
            };
            match &mut request.what {
                What::Afar(Afar { is_freed: true, .. }) => {
                    let _ = self.requests.remove(handle, "request");
                }
                What::Afar(afar) => afar.running = Some(Half::Over(completion)),
                What::Collective(persistent) => persistent.end(completion),
                _ => debug_assert!(false, "not a request of the thread's"),
            }
        }
        let count = front.settled_count - before;
        if count >= u64::from(QUEUE_CAPACITY) {
            // There may be more, for which there was no room.
            rouse(&front.nap);
        }
        count > 0
    }

    /// How a call waits.
    pub(crate) fn policy(&mut self) -> WaitPolicy {
        match &self.front {
            Some(front) => front.policy,
            None => self.engine().device.policy(),
        }
    }

    /// Unchanged: to look again is useless.
    pub(crate) fn completions(&mut self) -> u64 {
        match (&self.front, &self.engine) {
            (Some(front), None) => front.settled_count,
            (Some(front), Some(engine)) => front.settled_count.wrapping_add(engine.core.completion_count()),
            (None, _) => self.engine().core.completion_count(),
        }
    }

    /// The inquiry that was made last.
    pub(crate) fn inquiry(&mut self) -> u32 {
        match &self.front {
            Some(front) => front.inquiries.load(Ordering::Acquire),
            None => self.engine().device.shm().inquiry(),
        }
    }

    /// Resolves the requests of operations that the thread has not ended: from now on their owner looks at the core.
    pub(super) fn reclaim(&mut self, handle: MPI_Request, id: RequestId) -> Result<(), Error> {
        let engine = self.engine.as_mut().expect("it is back");
        match self.requests.get_mut(handle, "request").map(|request| &mut request.what) {
            Ok(What::Afar(Afar { is_freed: true, .. })) => {
                let _ = self.requests.remove(handle, "request");
                engine.core.free(id)
            }
            Ok(What::Afar(afar)) => {
                afar.running = Some(Half::Going(id));
                Ok(())
            }
            Ok(What::Collective(persistent)) => {
                persistent.goes_on_as(id);
                Ok(())
            }
            _ => engine.core.free(id),
        }
    }
}

/// Waits for an operation that the thread has, and ends its request. The operation's error is in the completion.
pub(crate) fn wait_afar(process: Guard<'static>, request: MPI_Request) -> Result<Completion, Fault> {
    drop(process);
    wait_until(Waits::Afar(request), |process| process.take_afar(request))
}

/// The thread sleeps: wakes it.
fn rouse(nap: &Nap) {
    if HALL.is_asleep.swap(false, Ordering::SeqCst) {
        nap.rouse();
    }
}

/// Executes commands in the place of the thread, which sleeps: to wake it would take longer. `false`: it is awake.
fn step_in(nap: &Nap) -> bool {
    let Some(mut guard) = HALL.try_lock() else { return false };
    let Some(back) = guard.as_mut() else { return false };
    let engine = back.engine.as_mut().expect("nobody borrows while the lock is held");
    back.desk.serve(engine);
    leave_to_thread(guard, nap);
    true
}

/// After rounds in its place: the thread sleeps on, where arrivals wake it, or is woken.
fn leave_to_thread(mut guard: MutexGuard<'_, Option<Box<Back>>>, nap: &Nap) {
    let Some(back) = guard.as_mut() else { return };
    if !HALL.is_asleep.load(Ordering::SeqCst) {
        return;
    }
    let may_sleep_on = back.may_sleep();
    drop(guard);
    if !may_sleep_on {
        rouse(nap);
    }
}

impl Back {
    /// A round of the engine.
    fn round(&mut self) -> bool {
        let engine = self.engine.as_mut().expect("nobody borrows while the lock is held");
        let (worked, answered) = self.desk.round(engine);
        if worked || answered {
            helper::tell(answered);
        }
        worked
    }

    /// Arms the device, which looks have disarmed. Whether the thread, which sleeps, may go on to.
    fn may_sleep(&mut self) -> bool {
        let engine = self.engine.as_mut().expect("nobody borrows while the lock is held");
        let wakes_in_time = match (engine.sleep_max(), self.sleeps_until) {
            (Some(left), Some(until)) => Instant::now() + left >= until,
            (due, _) => due.is_none(),
        };
        wakes_in_time
            && !engine.core.wants_transmit()
            && self.desk.is_idle()
            && (engine.device.is_armed() || engine.device.arm_aside() == Armed::Armed)
            && !self.desk.advance_nodes(engine)
    }
}

/// The last of the calls that stood in for the thread sleeps, or goes its way.
pub(in crate::runtime) fn end_wait() {
    // As after a command: either the thread sees what there is before it sleeps, or we see that it does.
    fence(Ordering::SeqCst);
    if HALL.is_asleep.load(Ordering::Relaxed)
        && let Some(nap) = helper::nap()
        // Whoever else has it leaves it so in his turn: who has borrowed it (this call, perhaps), steps in or waits.
        && let Some(guard) = HALL.try_lock()
    {
        leave_to_thread(guard, &nap);
    }
}

/// A test has found nothing: where threads outnumber CPUs the engine's is let to run, for there is no progress without it.
#[inline]
pub(crate) fn found_nothing() {
    if helper::mode() == helper::Mode::Offload {
        std::thread::yield_now();
    }
}
