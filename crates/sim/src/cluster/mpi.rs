//! What a rank's workload calls: MPI's vocabulary, with lengths in place of memory, or with data.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use ayatori_core::buffer::{Buffer, Piece};
use ayatori_core::ids::{CommId, RequestId, Source, TagSelector};
use ayatori_core::request::{Completion, Origin, Posted, SendMode, Status};
use ayatori_core::{Error, Process};

use super::fabric::Fabric;
use super::working_set::Distances;
use super::{DirectReceive, Nic, World};
use crate::trace::{Bar, Operation};

/// What a rank copies by itself before others get at the memory, bytes.
const COPY_PIECE_BYTES: u64 = 16 << 10;

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
    data: Option<Data>,
}

impl Request {
    /// Its identity, if it goes on.
    pub(crate) fn id(&self) -> Option<RequestId> {
        match self.posted {
            Posted::Pending(id) => Some(id),
            Posted::Done(_) => None,
        }
    }
}

/// The data of a message: its memory, larger than needed, and how much of it is used.
#[derive(Debug)]
struct Data {
    whole: Buffer,
    bytes: usize,
}

impl Data {
    fn buffer(&self) -> Buffer {
        self.whole.part(0, self.bytes)
    }
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

    /// Copies so many bytes within its own memory, without calling the library. Others use the memory
    /// meanwhile: it goes a piece at a time.
    pub async fn copy(&self, bytes: u64) {
        let mut left_bytes = bytes;
        while left_bytes > 0 {
            let piece_bytes = left_bytes.min(COPY_PIECE_BYTES);
            left_bytes -= piece_bytes;
            self.with_world(|world| {
                world.fabric.spend_to_copy(self.rank, piece_bytes as usize, &Distances::default())
            });
            let done_ps = self.now_ps();
            let is_over = || {
                self.with_world(|world| {
                    let is_over = world.fabric.network.now_ps() >= done_ps;
                    if !is_over {
                        world.fabric.wake_at(self.rank, done_ps);
                    }
                    is_over
                })
            };
            poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending }).await;
        }
    }

    /// From now on this rank goes through so many bytes of memory from one use of a buffer to the next: what
    /// decides whether copies find it in the cache. 0, at first: unknown, copies are from and to memory.
    pub fn goes_through(&self, bytes: u64) {
        self.world.borrow_mut().fabric.set_working_set(self.rank, bytes);
    }

    /// Starts to send `bytes` bytes (`MPI_Isend`).
    ///
    /// # Errors
    /// As the library's: a rank that is none, a peer that is lost.
    pub fn isend(&self, to: u32, tag: i32, bytes: u64) -> Result<Request, Error> {
        let buffer = Buffer::virtual_of(bytes as usize);
        let request =
            self.call(|process, nic| process.isend(nic, CommId::WORLD, buffer, to, tag, SendMode::Standard))?;
        Ok(self.traced(request, Operation::Send { to, tag, bytes }))
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

    /// Starts to send a copy of `data`, which its receiver can look at if it receives by [`Mpi::irecv_data`].
    /// It takes the same time as [`Mpi::isend`] of as many bytes.
    ///
    /// # Errors
    /// As [`Mpi::isend`].
    pub fn isend_data(&self, to: u32, tag: i32, data: &[u8]) -> Result<Request, Error> {
        let memory = self.lend(data.len());
        memory.buffer().scatter(0, Piece::Bytes(data));
        let request = self.call_with(memory, |process, nic, buffer| {
            process.isend(nic, CommId::WORLD, buffer, to, tag, SendMode::Standard)
        })?;
        Ok(self.traced(request, Operation::Send { to, tag, bytes: data.len() as u64 }))
    }

    /// Starts to receive up to `bytes` bytes of data from a rank; [`Mpi::wait_data`] gives them.
    ///
    /// # Errors
    /// As [`Mpi::isend`].
    pub fn irecv_data(&self, from: u32, tag: i32, bytes: u64) -> Result<Request, Error> {
        let memory = self.lend(bytes as usize);
        let request = self.call_with(memory, |process, nic, buffer| {
            process.irecv(nic, CommId::WORLD, buffer, Source::Rank(from), TagSelector::Tag(tag))
        })?;
        Ok(self.traced(request, Operation::Receive { from: Source::Rank(from), bytes }))
    }

    /// Waits for an operation (`MPI_Wait`).
    ///
    /// # Errors
    /// What the operation ended with.
    pub async fn wait(&self, request: Request) -> Result<Status, Error> {
        let (status, data) = self.end(request).await?;
        self.give_back(data);
        Ok(status)
    }

    /// Waits for a receive of data; gives what has come. Nothing, for one that was not begun by
    /// [`Mpi::irecv_data`].
    ///
    /// # Errors
    /// What the operation ended with.
    pub async fn wait_data(&self, request: Request) -> Result<Vec<u8>, Error> {
        let (status, data) = self.end(request).await?;
        let bytes = data.as_ref().and_then(|data| data.buffer().part(0, status.bytes as usize).to_vec());
        self.give_back(data);
        Ok(bytes.unwrap_or_default())
    }

    async fn end(&self, request: Request) -> Result<(Status, Option<Data>), Error> {
        let Request { posted, bar, data } = request;
        let ended = match posted {
            Posted::Done(completion) => Ok(completion),
            Posted::Pending(id) => poll_fn(|_| self.take(id)).await,
        };
        self.end_bar(bar, ended.as_ref().ok().map(|completion| completion.status));
        match ended.and_then(|Completion { status, error }| error.map_or(Ok(status), Err)) {
            Ok(status) => Ok((status, data)),
            Err(error) => {
                self.give_back(data);
                Err(error)
            }
        }
    }

    fn lend(&self, bytes: usize) -> Data {
        Data { whole: self.world.borrow_mut().memory.take(bytes), bytes }
    }

    fn give_back(&self, data: Option<Data>) {
        if let Some(data) = data {
            self.world.borrow_mut().memory.give_back(data.whole);
        }
    }

    fn call_with(
        &self,
        data: Data,
        command: impl FnOnce(&mut Process, &mut Nic<'_>, Buffer) -> Result<Posted, Error>,
    ) -> Result<Request, Error> {
        let buffer = data.buffer();
        match self.call(|process, nic| command(process, nic, buffer)) {
            Ok(request) => Ok(Request { data: Some(data), ..request }),
            Err(error) => {
                self.give_back(Some(data));
                Err(error)
            }
        }
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

    /// Sends (`MPI_Send`): at once if the message can leave now, as in the library.
    ///
    /// # Errors
    /// As [`Mpi::isend`] and [`Mpi::wait`].
    pub async fn send(&self, to: u32, tag: i32, bytes: u64) -> Result<(), Error> {
        let buffer = Buffer::virtual_of(bytes as usize);
        let request = self.call(|process, nic| {
            if process.send_at_once(nic, CommId::WORLD, buffer, to, tag) {
                return Ok(Posted::Done(Completion::EMPTY));
            }
            process.send(nic, CommId::WORLD, buffer, to, tag, SendMode::Standard)
        })?;
        let request = self.traced(request, Operation::Send { to, tag, bytes });
        self.wait(request).await.map(drop)
    }

    /// Receives (`MPI_Recv`) by the process' one direct receive. While another task of this rank waits in
    /// that, by a request: as the library does for a second thread.
    ///
    /// # Errors
    /// As [`Mpi::irecv`] and [`Mpi::wait`].
    pub async fn recv(&self, from: u32, tag: i32, bytes: u64) -> Result<Status, Error> {
        if self.world.borrow().direct[self.rank as usize] != DirectReceive::None {
            let request = self.irecv(from, tag, bytes)?;
            return self.wait(request).await;
        }
        let buffer = Buffer::virtual_of(bytes as usize);
        let mut begun = DirectReceive::Waiting;
        let request = self.call(|process, nic| {
            let (source, tag) = (Source::Rank(from), TagSelector::Tag(tag));
            if process.receive_direct(nic, CommId::WORLD, buffer, source, tag)? {
                begun = DirectReceive::Over(*process.direct_completion());
            }
            Ok(Posted::Done(Completion::EMPTY))
        })?;
        self.world.borrow_mut().direct[self.rank as usize] = begun;
        let Request { bar, .. } =
            self.traced(request, Operation::Receive { from: Source::Rank(from), bytes });
        let completion = poll_fn(|_| self.take_direct()).await;
        self.end_bar(bar, Some(completion.status));
        completion.error.map_or(Ok(completion.status), Err)
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

    pub(super) fn with_world<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut self.world.borrow_mut())
    }

    /// A request that is over, of an operation that needs none of the engine.
    pub(super) fn done(&self, operation: Operation) -> Request {
        self.traced(Request { posted: Posted::Done(Completion::EMPTY), bar: None, data: None }, operation)
    }

    pub(super) fn with_fabric<R>(&self, look: impl FnOnce(&Fabric) -> R) -> R {
        look(&self.world.borrow().fabric)
    }

    pub(super) fn call(
        &self,
        command: impl FnOnce(&mut Process, &mut Nic<'_>) -> Result<Posted, Error>,
    ) -> Result<Request, Error> {
        let World { processes, fabric, .. } = &mut *self.world.borrow_mut();
        let mut nic = Nic { fabric, me: self.rank };
        let posted = command(&mut processes[self.rank as usize], &mut nic)?;
        Ok(Request { posted, bar: None, data: None })
    }

    /// Notes in the trace, if there is one, that an operation has begun.
    pub(super) fn traced(&self, request: Request, operation: Operation) -> Request {
        let fabric = &mut self.world.borrow_mut().fabric;
        let (posted, now_ps) = (request.posted, fabric.clock_ps(self.rank));
        let bar = fabric.network.probe_mut().as_mut();
        let bar = bar.and_then(|trace| trace.begin_operation(self.rank, operation, now_ps));
        Request { posted, bar, data: request.data }
    }

    fn end_bar(&self, bar: Option<Bar>, status: Option<Status>) {
        let Some(bar) = bar else { return };
        let fabric = &mut self.world.borrow_mut().fabric;
        let now_ps = fabric.clock_ps(self.rank);
        if let Some(trace) = fabric.network.probe_mut() {
            let took = status.and_then(|status| match (status.source, status.tag) {
                (Origin::Rank(from), Some(tag)) if !status.cancelled => Some((from, tag)),
                _ => None,
            });
            trace.end_operation(bar, now_ps, took);
        }
    }

    fn take_direct(&self) -> Poll<Completion> {
        self.look(|world, rank| {
            let direct = &mut world.direct[rank];
            let DirectReceive::Over(completion) = *direct else { return Poll::Pending };
            *direct = DirectReceive::None;
            Poll::Ready(completion)
        })
    }

    /// Waits for the collective operation that this rank runs, round by round.
    pub(super) async fn wait_for_run(&self, request: Request) -> Result<(), Error> {
        self.world.borrow_mut().direct[self.rank as usize] = DirectReceive::WaitingInRound;
        let completion = poll_fn(|_| self.go_on_with_run()).await;
        self.end_bar(request.bar, None);
        completion.error.map_or(Ok(()), Err)
    }

    fn go_on_with_run(&self) -> Poll<Completion> {
        self.look(|world, rank| {
            let World { processes, fabric, direct, .. } = world;
            let process = &mut processes[rank];
            // The messages of a round may have ended where it began.
            while process.poll_run() {
                if let Some(completion) = process.go_on_with_run(&mut Nic { fabric, me: rank as u32 }) {
                    direct[rank] = DirectReceive::None;
                    return Poll::Ready(completion);
                }
            }
            Poll::Pending
        })
    }

    fn take(&self, id: RequestId) -> Poll<Result<Completion, Error>> {
        self.look(|world, rank| match world.processes[rank].take(id) {
            Ok(None) => Poll::Pending,
            Ok(Some(completion)) => Poll::Ready(Ok(completion)),
            Err(error) => Poll::Ready(Err(error)),
        })
    }

    /// A call looks for what it waits for.
    fn look<R>(&self, look: impl FnOnce(&mut World, usize) -> Poll<R>) -> Poll<R> {
        self.with_world(|world| {
            let rank = self.rank as usize;
            let seen = look(world, rank);
            world.fabric.states[rank].is_waiting = seen.is_pending();
            seen
        })
    }
}
