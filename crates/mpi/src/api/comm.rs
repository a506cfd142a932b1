//! Chapter "comm": communicators (MPI-5.0 §7.4, §7.8). Intercommunicators are made in `inter`.

mod inter;

pub(crate) use inter::*;

use crate::abi::*;
use crate::arguments::*;
use crate::attribute::{Attributes, copy_all};
use crate::comm::{Comm, Hints, Shape, known_hints};
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, MPIX_ERR_REVOKED, fault};
use crate::group::{DerivedGroup, SessionNumber};
use crate::handle::bad;
use crate::holder::Holder;
use crate::request::{Making, What};
use crate::runtime::machine::Machine;
use crate::runtime::wait::{complete, wait};
use crate::session::Pset;
use crate::state::{Process, process};
use crate::topology::Topology;
use ayatori_core::device::Device;
use ayatori_core::group::{Comparison, Group};
use ayatori_core::ids::{CommId, ProcessId};
use ayatori_core::request::{Completion, Posted};
use std::ffi::c_int;
use std::sync::Arc;

/// The MPI constant of a comparison of groups.
pub(crate) fn comparison(result: Comparison) -> c_int {
    match result {
        Comparison::Ident => MPI_IDENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// A name an object is given, cut to what the standard lets objects have.
pub(crate) fn object_name(name: Text, argument: &str) -> Result<Vec<u8>, Fault> {
    let name = name.get(argument)?;
    Ok(name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec())
}

/// What a new communicator has from an old one.
struct Heritage {
    parent: MPI_Comm,
    attributes: Attributes,
    hints: Hints,
    topology: Option<Arc<Topology>>,
}

impl Heritage {
    /// A duplicate's: the copy functions of the attributes are called, without locks.
    fn of_duplicate(parent: MPI_Comm, hints: Hints) -> Result<Self, Fault> {
        let (list, topology) = {
            let process = process()?;
            let comm = process.comms.get(parent, "comm")?;
            (comm.attributes.list(), comm.topology.clone())
        };
        Ok(Self { parent, attributes: copy_all(parent.0, &list)?, hints, topology })
    }

    /// From a parent with other members: the error handler only.
    fn of_part(parent: MPI_Comm) -> Self {
        Self { parent, attributes: Attributes::default(), hints: Hints::default(), topology: None }
    }

    /// The new communicator's handle.
    fn adopt(self, process: &mut Process, id: CommId, shape: Shape) -> Result<MPI_Comm, Fault> {
        let parent = process.comms.get(self.parent, "comm")?;
        let (handler, session) = (parent.errhandler, parent.session);
        let handler = handlers().retain(handler, Kind::Comm)?;
        let mut comm = Comm::shaped(id, shape, "", handler);
        comm.attributes = self.attributes;
        comm.topology = self.topology;
        process.set_session(id, &mut comm, session);
        if let Some(gap) = self.hints.gap {
            process.engine().core.set_comm_gap_early(id, gap);
        }
        comm.take_hints(self.hints);
        process.comms.insert(comm)
    }
}

/// The handle of a communicator that was made of groups alone.
pub(super) fn adopt_alone(
    id: CommId,
    hints: Hints,
    errhandler: MPI_Errhandler,
    session: Option<SessionNumber>,
) -> Result<MPI_Comm, Fault> {
    let mut process = process()?;
    let shape = Shape::from(process.engine().core.comm_or_revoked(id)?);
    let mut comm = Comm::shaped(id, shape, "", handlers().retain(errhandler, Kind::Comm)?);
    if let Some(gap) = hints.gap {
        process.engine().core.set_comm_gap(id, Some(gap))?;
    }
    comm.take_hints(hints);
    process.set_session(id, &mut comm, session);
    process.comms.insert(comm)
}

/// The hints of the communicator that is duplicated.
fn own_hints(comm: MPI_Comm) -> Result<Hints, Fault> {
    Ok(process()?.comms.get(comm, "comm")?.hints())
}

/// Begins to make a communicator of `group`, with a room of the node's shared memory if there is one.
pub(super) fn with_room<R>(
    engine: &mut Machine,
    group: &Group,
    make: impl FnOnce(&mut Machine) -> Result<R, ayatori_core::Error>,
) -> Result<R, Fault> {
    let context = engine.core.next_context();
    engine.node.claim(&engine.core, engine.device.shm(), group);
    make(engine).map_err(|error| {
        engine.device.shm().unclaim_room(context);
        error.into()
    })
}

/// Begins a duplicate. Members and rank are known at once, the context when the operation has completed.
fn begin_duplicate(comm: MPI_Comm, hints: Hints) -> Result<(MPI_Comm, Posted), Fault> {
    let heritage = Heritage::of_duplicate(comm, hints)?;
    let mut process = process()?;
    let parent = process.comms.get(comm, "comm")?;
    let (id, shape) = (parent.id(), parent.shape());
    let engine = process.engine();
    let (new, posted) = match &shape.remote {
        None => with_room(engine, &shape.group, |engine| {
            engine.core.collectives().icomm_dup(&mut engine.device, id)
        })?,
        Some(_) => engine.core.collectives().icomm_dup(&mut engine.device, id)?,
    };
    Ok((heritage.adopt(&mut process, new, shape)?, posted))
}

/// Waits for the making of a communicator.
pub(super) fn finish_making(posted: Posted, comm: MPI_Comm) -> Result<(), Fault> {
    let completion = wait(process()?, posted)?;
    crate::request::check(&completion, comm)
}

fn duplicate(comm: MPI_Comm, hints: Hints, newcomm: Out<MPI_Comm>) -> Result<(), Fault> {
    let (handle, posted) = begin_duplicate(comm, hints)?;
    finish_making(posted, comm)?;
    newcomm.set("newcomm", handle)
}

fn iduplicate(
    comm: MPI_Comm,
    hints: Hints,
    newcomm: Out<MPI_Comm>,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let (handle, posted) = begin_duplicate(comm, hints)?;
    newcomm.set("newcomm", handle)?;
    let handle = process()?.new_request(posted, comm)?;
    request.set("request", handle)
}

/// Waits for a communicator of other members than its parent. Returns its handle, or the null handle at
/// processes that are not in it.
pub(super) fn finish_part(comm: MPI_Comm, started: Option<(CommId, Posted)>) -> Result<MPI_Comm, Fault> {
    let Some((id, posted)) = started else { return Ok(MPI_COMM_NULL) };
    finish_making(posted, comm)?;
    let mut process = process()?;
    match process.engine().core.comm_or_revoked(id).map(Shape::from) {
        Err(_) => Ok(MPI_COMM_NULL),
        Ok(shape) => Heritage::of_part(comm).adopt(&mut process, id, shape),
    }
}

/// A communicator of part of the members of `comm`, and the request that is over when it is known of which.
pub(super) fn begin_part(
    process: &mut Process,
    comm: MPI_Comm,
    (id, posted): (CommId, Posted),
) -> Result<(MPI_Comm, MPI_Request), Fault> {
    let shape = process.comms.get(comm, "comm")?.shape();
    let made = Heritage::of_part(comm).adopt(process, id, shape)?;
    let making = Making { running: posted.into(), made: (made, id) };
    Ok((made, process.table_request(What::Making(Box::new(making)), comm)?))
}

/// A communicator of `group`, part of the members of `comm`, all of which call. The null handle at processes
/// that are not in it.
pub(crate) fn create(comm: MPI_Comm, group: &Group) -> Result<MPI_Comm, Fault> {
    let started = {
        let mut process = process()?;
        let parent = process.comms.get(comm, "comm")?;
        let (id, is_inter) = (parent.id(), parent.remote().is_some());
        let engine = process.engine();
        match is_inter {
            true => engine.core.collectives().icomm_create(&mut engine.device, id, group)?,
            false => with_room(engine, group, |engine| {
                engine.core.collectives().icomm_create(&mut engine.device, id, group)
            })?,
        }
    };
    finish_part(comm, started)
}

/// Gives a communicator that has just been made a room of the node's shared memory, if it can have one: only
/// now does its rank 0 know that it is that. The others look for the room after they have heard.
fn share_room(id: CommId, comm: MPI_Comm) -> Result<(), Fault> {
    let mut process = process()?;
    let engine = process.engine();
    if engine.core.comm(id).is_ok_and(|made| engine.node.claim_made(engine.device.shm(), made)) {
        match engine.begin_barrier(id).and_then(|told| complete(process, told, comm)) {
            // It was made, and a member has revoked it since.
            Err(fault) if fault.code() == MPIX_ERR_REVOKED => {}
            told => return told.map(drop),
        }
    }
    Ok(())
}

/// Communicators of the processes with the same color. The null handle at processes without a color.
pub(crate) fn split(comm: MPI_Comm, color: Option<u32>, key: c_int) -> Result<MPI_Comm, Fault> {
    let started = {
        let mut process = process()?;
        let id = process.comms.get(comm, "comm")?.id();
        let engine = process.engine();
        engine.core.collectives().icomm_split(&mut engine.device, id, color, key)?
    };
    let (id, posted) = started;
    finish_making(posted, comm)?;
    share_room(id, comm)?;
    finish_part(comm, Some((id, Posted::Done(Completion::EMPTY))))
}

fn color(color: c_int) -> Result<Option<u32>, Fault> {
    match color {
        0.. => Ok(Some(color as u32)),
        MPI_UNDEFINED => Ok(None),
        _ => Err(fault(
            MPI_ERR_ARG,
            format_args!("argument color ({color}) is negative and not MPI_UNDEFINED"),
        )),
    }
}

/// The same at all members of a communicator on one host, and at those only: the first one's number.
pub(crate) fn color_of_host(comm: MPI_Comm) -> Result<u32, Fault> {
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    let Machine { core, device, .. } = process.engine();
    let shm = device.shm();
    Ok(first_number(core.comm(id)?.members(), |member| !shm.rails_to(member).is_empty()))
}

/// The lowest number of the members that `is_here` says are on this host. This process is one.
fn first_number(members: &Group, is_here: impl Fn(ProcessId) -> bool) -> u32 {
    members.iter().position(is_here).unwrap_or_default() as u32
}

/// What guides a split (MPI-5.0 §7.4.2).
#[derive(Debug, PartialEq, Eq)]
enum Guide {
    /// Nothing that is known here.
    Unknown,
    /// The processes of a host.
    Host,
    /// A process set.
    Set(Pset),
}

/// What an info object says to guide a split by hardware, or by any resource (`by_sets`).
fn guide(info: MPI_Info, by_sets: bool) -> Result<Guide, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(Guide::Unknown);
    }
    crate::info::with(info, |info| {
        let set = info.get(b"mpi_pset_name").filter(|_| by_sets);
        match (info.get(b"mpi_hw_resource_type"), set) {
            (Some(_), Some(_)) => Err(fault(
                MPI_ERR_INFO,
                format_args!("argument info has both mpi_hw_resource_type and mpi_pset_name"),
            )),
            (Some(b"mpi_shared_memory"), None) => Ok(Guide::Host),
            (None, Some(name)) => Ok(Pset::named(name).map_or(Guide::Unknown, Guide::Set)),
            _ => Ok(Guide::Unknown),
        }
    })
}

/// The same at all members of a communicator that are in one process set of this name, and at those only.
fn color_of_set(comm: MPI_Comm, set: Pset) -> Result<u32, Fault> {
    let mut process = process()?;
    let id = process.comms.get(comm, "comm")?.id();
    let machine = process.engine();
    let members = machine.core.comm(id)?.members().clone();
    Ok(first_number(&members, |member| set.has(machine, member)))
}

/// The color by which a split of this type parts the members.
fn color_of_type(comm: MPI_Comm, split_type: c_int, info: MPI_Info) -> Result<Option<u32>, Fault> {
    let guide = match split_type {
        MPI_COMM_TYPE_SHARED => Guide::Host,
        MPI_COMM_TYPE_HW_GUIDED => guide(info, false)?,
        MPI_COMM_TYPE_RESOURCE_GUIDED => guide(info, true)?,
        MPI_COMM_TYPE_HW_UNGUIDED | MPI_UNDEFINED => Guide::Unknown,
        _ => {
            return Err(fault(
                MPI_ERR_ARG,
                format_args!("argument split_type ({split_type}) is not a split type"),
            ));
        }
    };
    match guide {
        Guide::Unknown => Ok(None),
        Guide::Host => color_of_host(comm).map(Some),
        Guide::Set(set) => color_of_set(comm, set).map(Some),
    }
}

/// Gives a communicator up, at this process.
pub(super) fn free(handle: MPI_Comm) -> Result<(), Fault> {
    if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
        return Err(bad(handle, "comm"));
    }
    process()?.comms.get(handle, "comm")?;
    Holder::Comm(handle).delete_all().map_err(|fault| fault.on(handle))?;
    // Messages in the buffer must leave: the program owns its memory again when this returns.
    super::buffered::detach(handle)?;
    let mut process = process()?;
    let freed = process.comms.remove(handle, "comm")?;
    process.retire_handler(handle, freed.errhandler)?;
    let Machine { core, device, node, .. } = process.engine();
    node.leave(core, device.shm(), freed.id());
    core.free_comm(freed.id())?;
    drop(process);
    crate::dynamic::forget(handle)
}

api! {
    /// MPI-5.0 §7.4.2
    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        duplicate(comm, own_hints(comm)?, newcomm)
    }

    /// MPI-5.0 §7.4.2
    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        duplicate(comm, known_hints(info)?, newcomm)
    }

    /// MPI-5.0 §7.4.2
    fn MPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        iduplicate(comm, own_hints(comm)?, newcomm, request)
    }

    /// MPI-5.0 §7.4.2
    fn MPI_Comm_idup_with_info(
        comm: MPI_Comm,
        info: MPI_Info,
        newcomm: Out<MPI_Comm>,
        request: Out<MPI_Request>,
    ) on comm {
        iduplicate(comm, known_hints(info)?, newcomm, request)
    }

    /// MPI-5.0 §7.4.2. Processes that are not in the group get `MPI_COMM_NULL`.
    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        let group = process()?.groups.get(group, "group")?.members.clone();
        newcomm.set("newcomm", create(comm, &group)?)
    }

    /// MPI-5.0 §7.4.2. Called by the members of the group only.
    fn MPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) on comm {
        let tag = crate::message::tag(tag)?;
        let started = {
            let mut process = process()?;
            let parent = process.comms.get(comm, "comm")?;
            parent.check_intra("comm")?;
            let id = parent.id();
            let group = process.groups.get(group, "group")?.members.clone();
            let engine = process.engine();
            with_room(engine, &group, |engine| {
                engine.core.collectives().icomm_create_group(&mut engine.device, id, &group, tag)
            })?
        };
        newcomm.set("newcomm", finish_part(comm, started)?)
    }

    /// MPI-5.0 §7.4.2. In an intercommunicator the processes of both groups with the same color get one.
    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        newcomm.set("newcomm", split(comm, self::color(color)?, key)?)
    }

    /// Processes of one host share its memory. No hardware below that is distinguished, so a split guided by
    /// any other gives the null handle, and so does an unguided one, which must give proper subsets (MPI-5.0
    /// §7.4.2). The logical resources are the process sets of sessions.
    fn MPI_Comm_split_type(
        comm: MPI_Comm,
        split_type: c_int,
        key: c_int,
        info: MPI_Info,
        newcomm: Out<MPI_Comm>,
    ) on comm {
        crate::info::check(info)?;
        newcomm.set("newcomm", split(comm, color_of_type(comm, split_type, info)?, key)?)
    }

    /// The attributes' delete functions are called. Operations under way end as usual.
    fn MPI_Comm_free(comm: InOut<MPI_Comm>) {
        free(comm.get("comm")?)?;
        comm.set("comm", MPI_COMM_NULL)
    }

    /// MPI-5.0 §7.4.1
    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        let count = process()?.comms.get(comm, "comm")?.size();
        size.set("size", count as c_int)
    }

    /// MPI-5.0 §7.4.1
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        let own = process()?.comms.get(comm, "comm")?.rank();
        rank.set("rank", own as c_int)
    }

    /// Two handles of one communicator are identical, the same members in the same order congruent. For
    /// intercommunicators both groups are compared.
    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        let process = process()?;
        let (first, second) = (process.comms.get(comm1, "comm1")?, process.comms.get(comm2, "comm2")?);
        let remote = match (first.remote(), second.remote()) {
            (None, None) => MPI_IDENT,
            (Some(first), Some(second)) => comparison(first.compare(second)),
            _ => MPI_UNEQUAL,
        };
        let value = match (comparison(first.group().compare(second.group())), remote) {
            _ if comm1 == comm2 => MPI_IDENT,
            (MPI_UNEQUAL, _) | (_, MPI_UNEQUAL) => MPI_UNEQUAL,
            (MPI_IDENT, MPI_IDENT) => MPI_CONGRUENT,
            _ => MPI_SIMILAR,
        };
        result.set("result", value)
    }

    /// The group is the caller's to free.
    fn MPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        let mut process = process()?;
        let of = process.comms.get(comm, "comm")?;
        let group_of = DerivedGroup { members: of.group().clone(), session: of.session };
        let handle = process.groups.insert(group_of)?;
        group.set("group", handle)
    }

    /// MPI-5.0 §7.8
    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        let name = object_name(comm_name, "comm_name")?;
        process()?.comms.get_mut(comm, "comm")?.name = name;
        Ok(())
    }

    /// MPI-5.0 §7.8
    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: OutText, resultlen: Out<c_int>) on comm {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            comm => process()?.comms.get(comm, "comm")?.name.clone(),
        };
        let length = comm_name.set("comm_name", &name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Hints the library does not know are ignored, so a program can be asked which were taken.
    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let id = process()?.comms.get(comm, "comm")?.id();
        let hints = known_hints(info)?;
        let mut process = process()?;
        if let Some(gap) = hints.gap {
            process.engine().core.set_comm_gap(id, Some(gap))?;
        }
        process.comms.get_mut(comm, "comm")?.take_hints(hints);
        Ok(())
    }

    /// The hints in use; the caller's to free.
    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        let info = process()?.comms.get(comm, "comm")?.info.clone();
        crate::info::give_used(info, info_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All had the color 0, whatever their host.
    #[test]
    fn members_of_one_host_get_its_first_rank_as_color() {
        let host = |process: ProcessId| process.0 / 2;
        let members = [5, 0, 3, 4, 1].map(ProcessId);
        let group = Group::from_members(members.to_vec()).unwrap();
        let color = |me: ProcessId| first_number(&group, |other| host(other) == host(me));
        assert_eq!(members.map(color), [0, 1, 2, 0, 1]);
    }
}
