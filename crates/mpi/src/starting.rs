//! Starting messages and collective operations, alike in every progress mode: by the core where calls have
//! the machine, as a command where the engine's thread has it. Callers do not see which.

use crate::abi::{MPI_Comm, MPI_Request};
use crate::fault::Fault;
use crate::operation::Operation;
use crate::post::Post;
use crate::request::{Half, Requests, SENT, What};
use crate::runtime::engine::Engine;
use ayatori_core::ids::{CommId, RequestId};
use ayatori_core::request::{Completion, Posted};

/// An operation that a call has started and waits for: see `Started::finish` in `runtime/wait.rs`.
#[derive(Clone, Copy)]
pub(crate) enum Started {
    /// It is over.
    Over(Completion),
    /// The core's.
    Core(RequestId),
    /// The engine's thread has it; the request is the call's own.
    Remote(MPI_Request),
}

impl From<Posted> for Started {
    #[inline]
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Done(completion) => Self::Over(completion),
            Posted::Pending(id) => Self::Core(id),
        }
    }
}

impl From<Started> for Half {
    fn from(started: Started) -> Self {
        match started {
            Started::Over(completion) => Self::Over(completion),
            Started::Core(id) => Self::Going(id),
            Started::Remote(_) => Self::Remote,
        }
    }
}

impl Requests {
    /// Starts a message whose end its call waits for.
    #[inline]
    pub(crate) fn start_awaited(
        &mut self,
        engine: &mut Engine,
        post: Post,
        comm: MPI_Comm,
    ) -> Result<Started, Fault> {
        if engine.is_remote() && post.can_be_commanded() {
            return self.command_awaited(engine, post, comm);
        }
        Ok(post.begin(self.machine(engine), true)?.into())
    }

    #[cold]
    fn command_awaited(&mut self, engine: &mut Engine, post: Post, comm: MPI_Comm) -> Result<Started, Fault> {
        if engine.send_copy(&post) {
            return Ok(Started::Over(Completion::EMPTY));
        }
        self.post(engine, post, comm, true).map(Started::Remote)
    }

    /// Starts a message; the request for it.
    #[inline]
    pub(crate) fn start_message(
        &mut self,
        engine: &mut Engine,
        post: Post,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        if engine.is_remote() && post.can_be_commanded() {
            return self.command(engine, post, comm);
        }
        let posted = post.begin(self.machine(engine), false)?;
        self.new_request(engine, posted, comm)
    }

    #[cold]
    fn command(&mut self, engine: &mut Engine, post: Post, comm: MPI_Comm) -> Result<MPI_Request, Fault> {
        if engine.send_copy(&post) {
            return Ok(SENT);
        }
        self.post(engine, post, comm, false)
    }

    /// Makes a persistent request of a message.
    pub(crate) fn prepare_message(
        &mut self,
        engine: &mut Engine,
        post: Post,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        if engine.is_remote() && post.can_be_commanded() {
            let held = self.machine(engine).core.hold_comm(post.comm())?;
            return self.prepare_post((post, held), comm);
        }
        let id = post.init(self.machine(engine))?;
        self.core_request(engine, id, comm)
    }

    /// Starts both halves of a send-receive that its call waits for. First the send, for the receive of a
    /// long message that has been announced copies at once, and the other side could copy ours meanwhile. The
    /// send is given up if the receive cannot start. Gives the receive and the send.
    pub(crate) fn start_both(
        &mut self,
        engine: &mut Engine,
        (send, receive): (Post, Post),
        comm: MPI_Comm,
    ) -> Result<(Started, Started), Fault> {
        // Space for the requests of both: then commands cannot fail.
        self.table.check_room(2)?;
        let sending = self.start_awaited(engine, send, comm)?;
        match self.start_awaited(engine, receive, comm) {
            Ok(receiving) => Ok((receiving, sending)),
            Err(fault) => {
                if let Started::Core(id) = sending {
                    let machine = self.machine(engine);
                    machine.core.cancel(&mut machine.device, id)?;
                    machine.core.free(id)?;
                }
                Err(fault)
            }
        }
    }

    /// Starts both halves of a send-receive behind one request, at the core in every mode. `kept` is memory
    /// that the send reads.
    pub(crate) fn start_pair(
        &mut self,
        engine: &mut Engine,
        halves: (Post, Post),
        kept: Option<Box<[u8]>>,
        comm: MPI_Comm,
    ) -> Result<MPI_Request, Fault> {
        self.machine(engine);
        let (receive, send) = self.start_both(engine, halves, comm)?;
        self.add(What::Both(receive.into(), send.into(), kept), comm)
    }
}

/// Collective operations.
impl Requests {
    /// Gives one to the engine's thread, where that has the machine and runs no function of the user's. `Err`
    /// gives the operation back: its call runs it.
    #[inline]
    pub(crate) fn command_collective(
        &mut self,
        engine: &mut Engine,
        comm: (CommId, MPI_Comm),
        operation: Operation,
        is_blocking: bool,
    ) -> Result<Result<Started, Operation>, Fault> {
        if !engine.is_remote() || operation.calls_user_function() {
            return Ok(Err(operation));
        }
        Ok(Ok(Started::Remote(self.collect(engine, comm, operation, is_blocking)?)))
    }

    /// Starts one; the request for it.
    pub(crate) fn start_collective(
        &mut self,
        engine: &mut Engine,
        (id, comm): (CommId, MPI_Comm),
        operation: Operation,
    ) -> Result<MPI_Request, Fault> {
        if engine.is_remote() && !operation.calls_user_function() {
            return self.collect(engine, (id, comm), operation, false);
        }
        let posted = self.machine(engine).begin_collective(id, &operation, None)?;
        self.new_request(engine, posted, comm)
    }
}
