//! Collective operations at this side of the boundary: from what C passes to a schedule of the core, and how the
//! three forms of a call run it (MPI-5.0 §6).

use crate::abi::*;
use crate::boundary::{Fault, fault};
use crate::gate::Guard;
use crate::request::{Half, What};
use crate::runtime::{self, Engine};
use crate::staging::{Staging, Way};
use crate::state::process;
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::{self, Blocks, Collective, Context, Counts, Fabric, Pool, Schedule, Selector};
use ayatori_core::explain::Label;
use ayatori_core::ids::{CommId, Rank, RequestId};
use ayatori_core::op::Reducer;
use ayatori_core::process::CollectiveId;
use ayatori_core::request::{Completion, Posted};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The form of a call.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// Returns when this process' part is done.
    Blocking,
    /// Gives a request.
    Nonblocking(Out<MPI_Request>),
    /// Gives a request that can be started again and again.
    Persistent(MPI_Info, Out<MPI_Request>),
}

/// An array of counts or displacements of the caller: `int` in the small forms, 64 bits in the large ones.
#[derive(Clone, Copy)]
pub(crate) enum Array {
    /// Of `int`.
    Small(In<c_int>),
    /// Of `MPI_Count`.
    Large(In<MPI_Count>),
    /// Of `MPI_Aint`.
    Address(In<MPI_Aint>),
}

impl From<In<c_int>> for Array {
    fn from(array: In<c_int>) -> Self {
        Self::Small(array)
    }
}

impl From<In<MPI_Count>> for Array {
    fn from(array: In<MPI_Count>) -> Self {
        Self::Large(array)
    }
}

impl From<In<MPI_Aint>> for Array {
    fn from(array: In<MPI_Aint>) -> Self {
        Self::Address(array)
    }
}

impl Array {
    /// The element for a rank.
    pub(crate) fn get(self, name: &str, rank: usize) -> Result<MPI_Count, Fault> {
        Ok(match self {
            Self::Small(array) => array.get_at(name, rank)?.into(),
            Self::Large(array) => array.get_at(name, rank)?,
            Self::Address(array) => array.get_at(name, rank)? as MPI_Count,
        })
    }
}

/// A block for each process, kept until the schedule is made.
pub(crate) enum Parts {
    /// Equal ones in one buffer.
    Uniform(Buffer),
    /// Any.
    Each(Vec<Buffer>),
}

impl Parts {
    fn blocks(&self) -> Blocks<'_> {
        match self {
            Self::Uniform(buffer) => Blocks::Uniform(*buffer),
            Self::Each(buffers) => Blocks::Each(buffers),
        }
    }

    /// Bytes of a block, on average.
    fn average_bytes(&self, size: u32) -> usize {
        match self {
            Self::Uniform(buffer) => buffer.len() / size as usize,
            Self::Each(buffers) => buffers.iter().map(Buffer::len).sum::<usize>() / size as usize,
        }
    }
}

/// A collective operation with its arguments, checked as far as one process can.
pub(crate) enum Operation {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`
    Bcast { buffer: Buffer, root: Rank },
    /// `MPI_Gather` and `MPI_Gatherv`
    Gather { send: Option<Buffer>, recv: Option<Parts>, root: Rank, is_uniform: bool },
    /// `MPI_Scatter` and `MPI_Scatterv`
    Scatter { send: Option<Parts>, recv: Option<Buffer>, root: Rank, is_uniform: bool },
    /// `MPI_Allgather` and `MPI_Allgatherv`
    Allgather { send: Option<Buffer>, recv: Parts },
    /// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`
    Alltoall { send: Option<Parts>, recv: Parts },
    /// `MPI_Reduce`
    Reduce { send: Option<Buffer>, recv: Option<Buffer>, reducer: Reducer, root: Rank },
    /// `MPI_Allreduce`
    Allreduce { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`
    ReduceScatter { send: Option<Buffer>, recv: Buffer, counts_bytes: Vec<usize>, reducer: Reducer },
    /// `MPI_Scan`
    Scan { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
    /// `MPI_Exscan`
    Exscan { send: Option<Buffer>, recv: Buffer, reducer: Reducer },
}

// SAFETY: an operation is addresses and how to reduce. What is at the addresses is used by the one thread that runs the
// operation: a call's, or the engine's (`runtime/offload`), to which it goes by a queue; calls only read the rest meanwhile.
unsafe impl Send for Operation {}
// SAFETY: as above; shared access reads lengths and kinds.
unsafe impl Sync for Operation {}

impl Operation {
    /// What the choice of an algorithm depends on: the same at all processes.
    pub(crate) fn question(&self, size: u32) -> (Collective, usize) {
        match self {
            Self::Barrier => (Collective::Barrier, 0),
            Self::Bcast { buffer, .. } => (Collective::Bcast, buffer.len()),
            Self::Gather { is_uniform: false, .. } => (Collective::Gatherv, 0),
            Self::Gather { send, recv, .. } => {
                let own = send.map(|buffer| buffer.len());
                let of_root = || recv.as_ref().map_or(0, |recv| recv.average_bytes(size));
                (Collective::Gather, own.unwrap_or_else(of_root))
            }
            Self::Scatter { is_uniform: false, .. } => (Collective::Scatterv, 0),
            Self::Scatter { send, recv, .. } => {
                let own = recv.map(|buffer| buffer.len());
                let of_root = || send.as_ref().map_or(0, |send| send.average_bytes(size));
                (Collective::Scatter, own.unwrap_or_else(of_root))
            }
            Self::Allgather { recv: recv @ Parts::Uniform(_), .. } => {
                (Collective::Allgather, recv.average_bytes(size))
            }
            Self::Allgather { recv, .. } => (Collective::Allgatherv, recv.average_bytes(size)),
            Self::Alltoall { recv: recv @ Parts::Uniform(_), .. } => {
                (Collective::Alltoall, recv.average_bytes(size))
            }
            // Each process knows its own lengths only; the algorithms of these work together.
            Self::Alltoall { .. } => (Collective::Alltoallv, 0),
            Self::Reduce { send, recv, .. } => {
                (Collective::Reduce, send.or(*recv).map_or(0, |buffer| buffer.len()))
            }
            Self::Allreduce { recv, .. } => (Collective::Allreduce, recv.len()),
            Self::ReduceScatter { counts_bytes, .. } => {
                (Collective::ReduceScatter, counts_bytes.iter().sum())
            }
            Self::Scan { recv, .. } => (Collective::Scan, recv.len()),
            Self::Exscan { recv, .. } => (Collective::Exscan, recv.len()),
        }
    }

    pub(crate) fn reducer(&self) -> Option<&Reducer> {
        match self {
            Self::Reduce { reducer, .. }
            | Self::Allreduce { reducer, .. }
            | Self::ReduceScatter { reducer, .. }
            | Self::Scan { reducer, .. }
            | Self::Exscan { reducer, .. } => Some(reducer),
            _ => None,
        }
    }

    /// Whether a function of the user's takes part.
    pub(crate) fn calls_user_function(&self) -> bool {
        self.reducer().is_some_and(Reducer::is_user_function)
    }

    /// The root, of those that have one.
    fn root(&self) -> Option<Rank> {
        match self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Reduce { root, .. } => Some(*root),
            _ => None,
        }
    }

    /// The schedule of one process.
    fn schedule(
        &self,
        pool: &mut Pool,
        at: Context,
        selector: &mut Selector,
    ) -> Result<Schedule, ayatori_core::Error> {
        let (collective, bytes) = self.question(at.size);
        let commutative = self.reducer().is_none_or(Reducer::is_commutative);
        let choice = selector.choose(collective, bytes, commutative);
        match self {
            Self::Barrier => coll::barrier(pool, at, choice),
            Self::Bcast { buffer, root } => coll::bcast(pool, at, *buffer, *root, choice),
            Self::Gather { send, recv, root, .. } => {
                coll::gather(pool, at, *send, recv.as_ref().map(Parts::blocks), *root, choice)
            }
            Self::Scatter { send, recv, root, .. } => {
                coll::scatter(pool, at, send.as_ref().map(Parts::blocks), *recv, *root, choice)
            }
            Self::Allgather { send, recv } => coll::allgather(pool, at, *send, recv.blocks(), choice),
            Self::Alltoall { send, recv } => {
                coll::alltoall(pool, at, send.as_ref().map(Parts::blocks), recv.blocks(), choice)
            }
            Self::Reduce { send, recv, reducer, root } => {
                coll::reduce(pool, at, *send, *recv, reducer, *root, choice)
            }
            Self::Allreduce { send, recv, reducer } => {
                coll::allreduce(pool, at, *send, *recv, reducer, choice)
            }
            Self::ReduceScatter { send, recv, counts_bytes, reducer } => {
                coll::reduce_scatter(pool, at, *send, *recv, Counts::Each(counts_bytes), reducer, choice)
            }
            Self::Scan { send, recv, reducer } => coll::scan(pool, at, *send, *recv, reducer, choice),
            Self::Exscan { send, recv, reducer } => coll::exscan(pool, at, *send, *recv, reducer, choice),
        }
    }
}

/// Whether an argument is `MPI_IN_PLACE`.
#[inline(always)]
pub(crate) fn is_in_place(memory: *const c_void) -> bool {
    memory.addr() == MPI_IN_PLACE
}

/// Refuses `MPI_IN_PLACE` where it means nothing.
pub(crate) fn not_in_place(memory: *const c_void, name: &str) -> Result<(), Fault> {
    if is_in_place(memory) {
        return Err(fault(MPI_ERR_BUFFER, format_args!("argument {name} cannot be MPI_IN_PLACE here")));
    }
    Ok(())
}

/// A send buffer, or none for `MPI_IN_PLACE`.
pub(crate) fn or_in_place(
    staging: &mut Staging,
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Option<Buffer>, Fault> {
    match is_in_place(memory) {
        true => Ok(None),
        false => staging.buffer(Way::In, memory, count, datatype, name).map(Some),
    }
}

/// What a reduction reads, or none for `MPI_IN_PLACE`.
pub(crate) fn operand_or_in_place(
    staging: &mut Staging,
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    name: &str,
) -> Result<Option<Buffer>, Fault> {
    match is_in_place(memory) {
        true => Ok(None),
        false => staging.operand(Way::In, memory, count, datatype, name).map(Some),
    }
}

/// Equal blocks of `count` elements for each of `size` processes.
pub(crate) fn uniform(
    (staging, way): (&mut Staging, Way),
    memory: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    size: u32,
    name: &str,
) -> Result<Parts, Fault> {
    let all = count.checked_mul(size.into());
    let all = all.ok_or_else(|| {
        fault(MPI_ERR_COUNT, format_args!("argument count of {name} ({count}) is too large"))
    })?;
    staging.buffer(way, memory, all, datatype, name).map(Parts::Uniform)
}

/// Blocks of any length anywhere: `displs` counts in elements of `unit_bytes`.
pub(crate) struct Each {
    pub(crate) memory: *const c_void,
    pub(crate) counts: Array,
    pub(crate) displs: Array,
    pub(crate) name: &'static str,
}

impl Each {
    /// The block of a rank.
    fn block(
        &self,
        (staging, way): (&mut Staging, Way),
        rank: usize,
        datatype: MPI_Datatype,
        unit_bytes: isize,
    ) -> Result<Buffer, Fault> {
        let (count, displ) = (self.counts.get("counts", rank)?, self.displs.get("displs", rank)?);
        let offset = (displ as isize).wrapping_mul(unit_bytes);
        staging.buffer(way, self.memory.wrapping_byte_offset(offset), count, datatype, self.name)
    }

    /// Blocks of one type, displacements in its extents.
    pub(crate) fn of(
        &self,
        (staging, way): (&mut Staging, Way),
        datatype: MPI_Datatype,
        size: u32,
    ) -> Result<Parts, Fault> {
        let unit_bytes = crate::datatype::get(datatype, "datatype")?.layout.extent();
        let blocks =
            (0..size as usize).map(|rank| self.block((&mut *staging, way), rank, datatype, unit_bytes));
        Ok(Parts::Each(blocks.collect::<Result<_, _>>()?))
    }

    /// Blocks of a type each, displacements in bytes.
    pub(crate) fn of_types(
        &self,
        (staging, way): (&mut Staging, Way),
        types: In<MPI_Datatype>,
        size: u32,
    ) -> Result<Parts, Fault> {
        let block = |rank| self.block((&mut *staging, way), rank, types.get_at("types", rank)?, 1);
        Ok(Parts::Each((0..size as usize).map(block).collect::<Result<_, _>>()?))
    }
}

/// Where this process is in a communicator.
pub(crate) fn shape(comm: MPI_Comm) -> Result<Context, Fault> {
    let process = process()?;
    let comm = process.comms.get(comm, "comm")?;
    Ok(Context { rank: comm.rank(), size: comm.size() })
}

/// What the engine's thread needs to know of a run: where, what, and by which name it matches.
pub(crate) type Given = (CommId, Arc<Operation>, Option<CollectiveId>);

/// A collective operation that has a request of its own: a persistent one, or a non-blocking one on data with gaps.
pub(crate) struct Persistent {
    operation: Arc<Operation>,
    comm: CommId,
    /// By which the runs of a persistent operation match those at the other processes.
    id: Option<CollectiveId>,
    /// What its schedule works on in place of data with gaps.
    staging: Staging,
    /// The run under way; none while inactive.
    running: Option<Half>,
}

impl Persistent {
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
    pub(crate) fn start(&mut self, engine: &mut Engine) -> Result<(), Fault> {
        self.check_inactive()?;
        self.staging.fill();
        self.running = Some(begin(engine, self.comm, &self.operation, self.id)?.into());
        Ok(())
    }

    /// Begins a run in the engine's thread, where it can be run there: what to command.
    pub(crate) fn start_afar(&mut self, is_afar: bool) -> Result<Option<Given>, Fault> {
        self.check_inactive()?;
        if !is_afar || self.operation.calls_user_function() {
            return Ok(None);
        }
        self.staging.fill();
        self.running = Some(Half::Afar);
        Ok(Some((self.comm, self.operation.clone(), self.id)))
    }

    fn check_inactive(&self) -> Result<(), Fault> {
        if self.running.is_some() { Err(runtime::is_active()) } else { Ok(()) }
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

/// The choices for each size of communicator there was, made once.
pub(crate) struct Selectors {
    fabric: Fabric,
    by_size: Vec<(u32, Selector)>,
}

impl Selectors {
    /// Choices for this fabric, which is the same at all processes.
    pub(crate) fn new(fabric: Fabric) -> Self {
        Self { fabric, by_size: Vec::new() }
    }

    fn of_size(&mut self, size: u32) -> &mut Selector {
        let at = self.by_size.iter().position(|(of, _)| *of == size).unwrap_or_else(|| {
            self.by_size.push((size, new_selector(size, self.fabric)));
            self.by_size.len() - 1
        });
        &mut self.by_size[at].1
    }
}

/// Choices for the fabric, and what the environment forces: `AYATORI_COLL_ALLREDUCE=ring`, the same at all processes.
fn new_selector(size: u32, fabric: Fabric) -> Selector {
    let mut selector = Selector::new(size, fabric);
    for collective in Collective::ALL {
        let variable = format!("AYATORI_COLL_{}", collective.name().to_uppercase());
        if let Ok(name) = std::env::var(&variable)
            && let Err(error) = selector.force(collective, &name)
        {
            eprintln!("ayatori: {variable}={name} is ignored: {error}");
        }
    }
    selector
}

/// Starts an operation on a communicator of the core; `id` is that of a persistent one.
pub(crate) fn begin(
    engine: &mut Engine,
    comm: CommId,
    operation: &Operation,
    id: Option<CollectiveId>,
) -> Result<Posted, ayatori_core::Error> {
    let Engine { core, device, selectors, .. } = engine;
    let communicator = core.comm(comm)?;
    let at = Context { rank: communicator.rank(), size: communicator.size() };
    let mut schedule = operation.schedule(core.schedule_pool(), at, selectors.of_size(at.size))?;
    let (collective, bytes) = operation.question(at.size);
    schedule.set_label(Label { collective, bytes: bytes as u64, root: operation.root() });
    match id {
        None => core.start_collective(device, comm, schedule),
        Some(id) => core.start_reserved_collective(device, comm, schedule, id),
    }
}

/// Runs a blocking operation in the node's shared memory. `Err` gives the lock back: it cannot be run there.
#[inline]
fn run_in_node(
    mut process: Guard<'static>,
    comm: CommId,
    operation: &Operation,
) -> Result<Result<(), Guard<'static>>, Fault> {
    let Engine { core, device, node, .. } = process.engine();
    if !node.start(core, device.shm(), comm, operation)? {
        return Ok(Err(process));
    }
    // What comes from lower ranks is the accumulator; the operation commutes.
    let reduce = |inout: &mut [u8], input: &[u8]| {
        if let Some(reducer) = operation.reducer() {
            reducer.apply(input, inout);
        }
    };
    runtime::wait_for_node(process, comm, reduce)?;
    Ok(Ok(()))
}

/// Runs an operation and returns when this process' part is done.
fn run_blocking(comm: MPI_Comm, operation: Operation) -> Result<(), Fault> {
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    if process.is_afar() && !operation.calls_user_function() {
        let request = process.collect_afar((id, comm), operation, true)?;
        let completion = runtime::wait_afar(process, request)?;
        return crate::request::check(&completion, comm);
    }
    let mut process = match run_in_node(process, id, &operation)? {
        Ok(()) => return Ok(()),
        Err(process) => process,
    };
    let posted = begin(process.engine(), id, &operation, None)?;
    runtime::complete(process, posted, comm).map(|_| ())
}

/// Runs an operation in the form that was called.
pub(crate) fn run(comm: MPI_Comm, mode: Mode, operation: Operation, staging: Staging) -> Result<(), Fault> {
    let (info, request) = match mode {
        Mode::Blocking => {
            staging.fill();
            run_blocking(comm, operation)?;
            staging.drain();
            return Ok(());
        }
        Mode::Nonblocking(request) => (None, request),
        Mode::Persistent(info, request) => (Some(info), request),
    };
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    let handle = if info.is_none() && staging.is_empty() {
        if process.is_afar() && !operation.calls_user_function() {
            process.collect_afar((id, comm), operation, false)?
        } else {
            let posted = begin(process.engine(), id, &operation, None)?;
            process.new_request(posted, comm)?
        }
    } else {
        if let Some(info) = info
            && info != MPI_INFO_NULL
        {
            crate::api::info::with(info, |_| Ok(()))?;
        }
        let own_id = match info {
            Some(_) => Some(process.engine().core.reserve_collective(id)?),
            None => None,
        };
        let operation = Arc::new(operation);
        let persistent = Persistent { operation, comm: id, id: own_id, staging, running: None };
        let handle = process.table_request(What::Collective(Box::new(persistent)), comm)?;
        if info.is_none()
            && let Err(fault) = process.start_again(handle)
        {
            process.requests.remove(handle, "request")?;
            return Err(fault);
        }
        handle
    };
    request.set("request", handle)
}
