//! What a rank's workload calls: MPI's vocabulary, with lengths in place of memory.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ayatori_core::buffer::Buffer;
use ayatori_core::ids::{CommId, RequestId, Source, TagSelector};
use ayatori_core::request::{Completion, Posted, SendMode, Status};
use ayatori_core::{Error, Process};

use super::fabric::Fabric;
use super::{Nic, World};
use crate::trace::{Bar, Operation};

/// A rank's way into its process. Cheap to clone; all clones are the same rank.
#[derive(Clone)]
pub struct Mpi {
    world: Rc<RefCell<World>>,
    rank: u32,
    size: u32,
}

/// An operation under way; give it to [`Mpi::wait`].
#[derive(Debug)]
#[must_use]
pub struct Request {
    posted: Posted,
    /// Its bar in the trace.
    bar: Option<Bar>,
}

impl Mpi {
    pub(super) fn new(world: Rc<RefCell<World>>, rank: u32, size: u32) -> Mpi {
        Mpi { world, rank, size }
    }

    /// This rank of the world.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This process' time, ps (`MPI_Wtime`).
    pub fn now_ps(&self) -> u64 {
        self.world.borrow().fabric.clock_ps(self.rank)
    }

    /// Computes for so long, without calling the library.
    pub fn compute(&self, time_ps: u64) {
        self.world.borrow_mut().fabric.compute(self.rank, time_ps);
    }

    /// Starts to send `bytes` bytes (`MPI_Isend`).
    ///
    /// # Errors
    /// As the library's: a rank that is none, a peer that is lost.
    pub fn isend(&self, to: u32, tag: i32, bytes: u64) -> Result<Request, Error> {
        let buffer = Buffer::virtual_of(bytes as usize);
        let request =
            self.call(|process, nic| process.isend(nic, CommId::WORLD, buffer, to, tag, SendMode::Standard))?;
        Ok(self.traced(request, Operation::Send { to, bytes }))
    }

    /// Starts to receive up to `bytes` bytes from a rank (`MPI_Irecv`).
    ///
    /// # Errors
    /// As [`Mpi::isend`].
    pub fn irecv(&self, from: u32, tag: i32, bytes: u64) -> Result<Request, Error> {
        self.irecv_any(Source::Rank(from), TagSelector::Tag(tag), bytes)
    }

    /// As [`Mpi::irecv`], also from any source and with any tag.
    ///
    /// # Errors
    /// As [`Mpi::isend`].
    pub fn irecv_any(&self, from: Source, tag: TagSelector, bytes: u64) -> Result<Request, Error> {
        let buffer = Buffer::virtual_of(bytes as usize);
        let request = self.call(|process, nic| process.irecv(nic, CommId::WORLD, buffer, from, tag))?;
        Ok(self.traced(request, Operation::Receive { from, bytes }))
    }

    /// Waits for an operation (`MPI_Wait`).
    ///
    /// # Errors
    /// What the operation ended with.
    pub async fn wait(&self, request: Request) -> Result<Status, Error> {
        let Completion { status, error } = match request.posted {
            Posted::Done(completion) => completion,
            Posted::Pending(id) => poll_fn(|_| self.take(id)).await?,
        };
        self.end_bar(request.bar);
        error.map_or(Ok(status), Err)
    }

    /// Waits for all operations (`MPI_Waitall`).
    ///
    /// # Errors
    /// What the first of them that failed ended with; all are waited for.
    pub async fn wait_all(&self, requests: impl IntoIterator<Item = Request>) -> Result<(), Error> {
        let mut outcome = Ok(());
        for request in requests {
            outcome = outcome.and(self.wait(request).await.map(drop));
        }
        outcome
    }

    /// Sends (`MPI_Send`).
    ///
    /// # Errors
    /// As [`Mpi::isend`] and [`Mpi::wait`].
    pub async fn send(&self, to: u32, tag: i32, bytes: u64) -> Result<(), Error> {
        let request = self.isend(to, tag, bytes)?;
        self.wait(request).await.map(drop)
    }

    /// Receives (`MPI_Recv`).
    ///
    /// # Errors
    /// As [`Mpi::irecv`] and [`Mpi::wait`].
    pub async fn recv(&self, from: u32, tag: i32, bytes: u64) -> Result<Status, Error> {
        let request = self.irecv(from, tag, bytes)?;
        self.wait(request).await
    }

    /// Sends to one rank and receives from another, `bytes` each (`MPI_Sendrecv`).
    ///
    /// # Errors
    /// As [`Mpi::send`] and [`Mpi::recv`].
    pub async fn sendrecv(&self, to: u32, from: u32, tag: i32, bytes: u64) -> Result<Status, Error> {
        let receive = self.irecv(from, tag, bytes)?;
        let send = self.isend(to, tag, bytes)?;
        self.wait(send).await?;
        self.wait(receive).await
    }

    pub(super) fn with_fabric<R>(&self, look: impl FnOnce(&Fabric) -> R) -> R {
        look(&self.world.borrow().fabric)
    }

    pub(super) fn call(
        &self,
        command: impl FnOnce(&mut Process, &mut Nic<'_>) -> Result<Posted, Error>,
    ) -> Result<Request, Error> {
        let World { processes, fabric } = &mut *self.world.borrow_mut();
        let mut nic = Nic { fabric, me: self.rank };
        let posted = command(&mut processes[self.rank as usize], &mut nic)?;
        Ok(Request { posted, bar: None })
    }

    /// Notes in the trace, if there is one, that an operation has begun.
    pub(super) fn traced(&self, request: Request, operation: Operation) -> Request {
        let fabric = &mut self.world.borrow_mut().fabric;
        let (posted, now_ps) = (request.posted, fabric.clock_ps(self.rank));
        let bar = fabric.network.probe_mut().as_mut();
        Request { posted, bar: bar.and_then(|trace| trace.begin_operation(self.rank, operation, now_ps)) }
    }

    fn end_bar(&self, bar: Option<Bar>) {
        let Some(bar) = bar else { return };
        let fabric = &mut self.world.borrow_mut().fabric;
        let now_ps = fabric.clock_ps(self.rank);
        if let Some(trace) = fabric.network.probe_mut() {
            trace.end_operation(bar, now_ps);
        }
    }

    fn take(&self, id: RequestId) -> Poll<Result<Completion, Error>> {
        match self.world.borrow_mut().processes[self.rank as usize].take(id) {
            Ok(None) => Poll::Pending,
            Ok(Some(completion)) => Poll::Ready(Ok(completion)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
