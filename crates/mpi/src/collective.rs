//! Collective operations at this side of the boundary: from what C passes to a schedule of the core, and how
//! the three forms of a call run it (MPI-5.0 §6).

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::operation::{Compared, NO_PART, Operation, Parts, ROOT};
use crate::request::{self, Persistent, What};
use crate::runtime::machine::{Awaited, Machine};
use crate::runtime::wait::{complete, wait_for_node, wait_for_run};
use crate::staging::{Staging, Way};
use crate::state::{Guard, process};
use crate::{check, claim};
use ayatori_core::buffer::Buffer;
use ayatori_core::coll::Context;
use ayatori_core::ids::{CommId, Rank};
use std::ffi::{c_int, c_void};

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
    /// An array of `int`.
    Small(In<c_int>),
    /// An array of `MPI_Count`.
    Large(In<MPI_Count>),
    /// An array of `MPI_Aint`.
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

/// Where this process is in an intracommunicator.
pub(crate) fn shape(comm: MPI_Comm) -> Result<Context, Fault> {
    let process = process()?;
    let comm = process.comms.get(comm, "comm")?;
    comm.check_intra("comm")?;
    Ok(Context { rank: comm.rank(), size: comm.size() })
}

/// Where this process is in a communicator of either kind.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its rank.
    pub(crate) rank: Rank,
    /// The size of its group.
    pub(crate) size: u32,
    /// How many processes give it a block, or get one: the members, or of an intercommunicator the remote
    /// ones.
    pub(crate) block_count: u32,
    /// Whether the communicator is an intercommunicator.
    pub(crate) is_inter: bool,
}

/// Where this process is in a communicator of either kind.
pub(crate) fn place(comm: MPI_Comm) -> Result<Place, Fault> {
    let process = process()?;
    let comm = process.comms.get(comm, "comm")?;
    let (rank, size, is_inter) = (comm.rank(), comm.size(), comm.remote().is_some());
    Ok(Place { rank, size, block_count: comm.peer_count(), is_inter })
}

impl Place {
    /// The root of an operation, as operations name it.
    pub(crate) fn root(&self, root: c_int) -> Result<Rank, Fault> {
        match root {
            MPI_ROOT if self.is_inter => return Ok(ROOT),
            MPI_PROC_NULL if self.is_inter => return Ok(NO_PART),
            _ => {}
        }
        let group = if self.is_inter { "remote group" } else { "communicator" };
        Rank::try_from(root).ok().filter(|rank| *rank < self.block_count).ok_or_else(|| {
            fault(
                MPI_ERR_ROOT,
                format_args!(
                    "argument root ({root}) is not a rank: the {group} has {} processes",
                    self.block_count
                ),
            )
        })
    }

    /// Whether this process is that root.
    pub(crate) fn is_root(&self, root: Rank) -> bool {
        if self.is_inter { root == ROOT } else { root == self.rank }
    }

    /// Whether this process gives a rooted operation its own part: all do but the group of an
    /// intercommunicator's root.
    pub(crate) fn has_part(&self, root: Rank) -> bool {
        !matches!(root, ROOT | NO_PART)
    }

    /// Refuses `MPI_IN_PLACE` of an intercommunicator.
    pub(crate) fn check_in_place(&self, memory: *const c_void, name: &str) -> Result<(), Fault> {
        if self.is_inter { not_in_place(memory, name) } else { Ok(()) }
    }
}

/// Runs a blocking operation in the node's shared memory. `Err` gives the lock back: it cannot be run there.
#[inline]
fn run_in_node(mut process: Guard, comm: CommId, operation: &Operation) -> Result<Result<(), Guard>, Fault> {
    let Machine { core, device, node, .. } = process.engine();
    if !node.start(core, device.shm(), comm, operation)? {
        return Ok(Err(process));
    }
    // Data of lower ranks is the accumulator; the operation commutes.
    let reduce = |inout: &mut [u8], input: &[u8]| {
        if let Some(reducer) = operation.reducer() {
            reducer.apply(input, inout);
        }
    };
    wait_for_node(process, comm, reduce)?;
    Ok(Ok(()))
}

/// Runs an operation and returns when this process' part is done.
fn run_blocking(comm: MPI_Comm, operation: Operation) -> Result<(), Fault> {
    let process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    run_in((id, comm), process, operation)
}

/// The same in a communicator of the core, with errors raised on that of a handle: for windows, whose
/// communicators have none.
pub(crate) fn run_in(
    (id, comm): (CommId, MPI_Comm),
    mut process: Guard,
    operation: Operation,
) -> Result<(), Fault> {
    let operation = match process.command_collective((id, comm), operation, true)? {
        Ok(started) => return request::check(&started.finish(process)?, comm),
        Err(operation) => operation,
    };
    let mut process = match run_in_node(process, id, &operation)? {
        Ok(()) => return Ok(()),
        Err(process) => process,
    };
    let is_alone = !process.is_shared();
    let over = match process.engine().begin_awaited(id, &operation, is_alone)? {
        Awaited::Posted(posted) => return complete(process, posted, comm).map(|_| ()),
        Awaited::Run(Some(over)) => over,
        Awaited::Run(None) => wait_for_run(&mut process)?,
    };
    request::check(&over, comm)
}

/// The operation with what this process says of it, for its members to compare.
#[cold]
fn with_claim(comm: MPI_Comm, operation: Operation, staging: &Staging) -> Result<Operation, Fault> {
    let at = place(comm)?;
    if at.is_inter {
        return Ok(operation);
    }
    let claim = claim::claim(&operation, staging.given(), at.rank, at.size);
    Ok(Operation::Compared(Box::new(Compared { operation, claim })))
}

/// Runs an operation in the form that was called.
pub(crate) fn run(
    comm: MPI_Comm,
    mode: Mode,
    mut operation: Operation,
    staging: Staging,
) -> Result<(), Fault> {
    if check::is_on() {
        operation = with_claim(comm, operation, &staging)?;
    }
    // In check mode the others get the error, too.
    if operation.overlaps() {
        return Err(ayatori_core::Error::BuffersOverlap.into());
    }
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
        process.start_collective((id, comm), operation)?
    } else {
        if let Some(info) = info
            && info != MPI_INFO_NULL
        {
            crate::info::with(info, |_| Ok(()))?;
        }
        let own_id = match info {
            Some(_) => Some(process.engine().core.collectives().reserve(id)?),
            None => None,
        };
        let held = process.engine().core.hold_comm(id)?;
        let persistent = Persistent::new(operation, (id, held), own_id, staging);
        let handle = process.table_request(What::Collective(Box::new(persistent)), comm)?;
        if info.is_none()
            && let Err(fault) = process.start(handle)
        {
            process.requests.table.remove(handle, "request")?;
            return Err(fault);
        }
        handle
    };
    request.set("request", handle)
}
