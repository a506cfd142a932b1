//! The message engine, in every progress mode. In modes *inline* and *assisted* calls have the machine
//! themselves. In mode *offload* its thread has it: frequent operations go there as commands, and all others
//! borrow the machine until the process is unlocked. So a call that uses [`Engine::machine`] is right in
//! every mode.

use crate::abi::MPI_Request;
use crate::operation::Operation;
use crate::post::Post;
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::process::CollectiveId;
use ayatori_devices::shm::WaitPolicy;
use ayatori_devices::threads::Parker;
use std::sync::Arc;

use super::machine::Machine;
use super::offload::{self, Remote, Response, UnderWay};

/// See the [module's docs](self).
pub(crate) struct Engine {
    /// There from start to end, unless its thread has it.
    own: Option<Machine>,
    /// Mode *offload* is in force.
    remote: Option<Box<Remote>>,
    /// Short messages that were on their way when that mode ended: their sends may read them until the end.
    left_copies: Vec<Box<[u8]>>,
}

impl Engine {
    /// MPI has not started.
    pub(crate) const fn new() -> Self {
        Self { own: None, remote: None, left_copies: Vec::new() }
    }

    /// MPI starts.
    pub(crate) fn start(&mut self, machine: Machine) {
        self.own = Some(machine);
    }

    /// The machine, if calls have it.
    #[inline(always)]
    pub(crate) fn own(&mut self) -> Option<&mut Machine> {
        self.own.as_mut()
    }

    /// The machine, which calls have or this one has borrowed.
    #[inline(always)]
    pub(crate) fn machine(&mut self) -> &mut Machine {
        self.own.as_mut().expect("MPI runs")
    }

    /// Whether the thread has the machine now, so that operations are started by commands.
    #[inline(always)]
    pub(crate) fn is_remote(&self) -> bool {
        self.own.is_none()
    }

    /// Whether there is work for the thread that makes progress while no call is inside.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        self.own.as_ref().is_some_and(|machine| machine.core.is_busy() || machine.device.may_hold())
    }

    /// Whether there are links, on which acknowledgements may be due, or awaited.
    #[inline(always)]
    pub(crate) fn has_links(&self) -> bool {
        self.own.as_ref().is_some_and(|machine| machine.core.wants_time())
    }

    /// The core's count of what has completed or come, where calls have the machine.
    pub(crate) fn news_count(&self) -> Option<u64> {
        self.own.as_ref().map(|machine| machine.core.news_count())
    }
}

/// Mode *offload*.
impl Engine {
    /// Gives the machine to a thread. `false`: no thread can be started. No other call is inside.
    pub(super) fn enter_offload(&mut self, parker: Arc<Parker>) -> bool {
        let machine = self.own.take().expect("MPI runs");
        match offload::enter(machine, parker) {
            Ok(remote) => self.remote = Some(Box::new(remote)),
            Err(machine) => self.own = machine,
        }
        self.remote.is_some()
    }

    /// Takes the machine back; what is under way goes on as requests of the core. No other call is inside.
    pub(crate) fn leave_offload(&mut self) -> Option<UnderWay> {
        let (machine, mut left) = offload::leave(*self.remote.take()?)?;
        self.own = Some(machine);
        self.left_copies.append(&mut left.copies);
        Some(left)
    }

    /// Whether a call has borrowed the machine.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.is_borrowed())
    }

    /// Borrows the machine. Responses may have come: the caller takes them.
    #[cold]
    pub(crate) fn borrow(&mut self) {
        self.own = Some(self.remote.as_mut().expect("MPI runs").borrow());
    }

    /// Borrows the machine, where its thread has it, as it is: for an inquiry. Whether it did, and is to give
    /// it back.
    pub(crate) fn borrow_to_look(&mut self) -> bool {
        if self.own.is_some() {
            return false;
        }
        self.own = self.remote.as_mut().map(|remote| remote.borrow_to_look());
        self.own.is_some()
    }

    /// Gives a borrowed machine back.
    pub(crate) fn give_back(&mut self) {
        if let Some(remote) = &mut self.remote
            && remote.is_borrowed()
        {
            remote.give_back(self.own.take().expect("borrowed"));
        }
    }

    /// Has the thread start a message. `is_awaited`: the caller waits for the end from now on.
    pub(crate) fn post(&mut self, request: MPI_Request, post: Post, is_awaited: bool) {
        let Self { own, remote, .. } = self;
        remote.as_mut().expect("the mode is in force").post(own, request, post, is_awaited);
    }

    /// Has the thread send a short message. `false`: it is none, or its sender has to wait.
    #[inline]
    pub(crate) fn send_copy(&mut self, post: &Post) -> bool {
        let Self { own, remote, .. } = self;
        remote.as_mut().expect("the mode is in force").send_copy(own, post)
    }

    /// Has the thread start a collective operation; `id` is that of a persistent one.
    pub(crate) fn collect(
        &mut self,
        request: MPI_Request,
        (comm, operation): (CommId, Arc<Operation>),
        id: Option<CollectiveId>,
        is_blocking: bool,
    ) {
        let Self { own, remote, .. } = self;
        let remote = remote.as_mut().expect("the mode is in force");
        remote.collect(own, request, (comm, operation), id, is_blocking);
    }

    /// A response of the thread.
    #[inline]
    pub(crate) fn take_response(&mut self) -> Option<Response> {
        self.remote.as_mut()?.take_response()
    }

    /// `count` responses were taken at once.
    pub(crate) fn responses_taken(&self, count: u64) {
        if let Some(remote) = &self.remote {
            remote.responses_taken(count);
        }
    }

    /// Calls the functions of the user's that operations of the thread wait for. Whether there were any.
    #[inline]
    pub(crate) fn call_user_functions(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.call_user_functions())
    }

    /// Does a round in the thread's place, for a call that waits. `true`: something happened.
    pub(crate) fn stand_in(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.stand_in())
    }

    /// How a call waits.
    pub(crate) fn policy(&mut self) -> WaitPolicy {
        match &self.remote {
            Some(remote) => remote.policy,
            None => self.machine().device.policy(),
        }
    }

    /// Unchanged: to look again is useless.
    pub(crate) fn completions(&mut self) -> u64 {
        let of_core = self.own.as_ref().map_or(0, |machine| machine.core.completion_count());
        let of_thread = self.remote.as_ref().map_or(0, |remote| remote.responses_count);
        of_thread.wrapping_add(of_core)
    }

    /// The inquiry after this process that was made last.
    pub(crate) fn inquiry(&mut self) -> u32 {
        match &self.remote {
            Some(remote) => remote.inquiry(),
            None => self.machine().device.shm().inquiry(),
        }
    }

    /// The core's request of an operation that the thread was given, if it is under way. Only while borrowed.
    pub(crate) fn remote_id(&self, request: MPI_Request) -> Option<RequestId> {
        self.remote.as_ref()?.id_of(request)
    }

    /// The communicator of a collective operation in shared memory that the thread was given. Only while
    /// borrowed.
    pub(crate) fn remote_node(&self, request: MPI_Request) -> Option<CommId> {
        self.remote.as_ref()?.node_of(request)
    }
}
