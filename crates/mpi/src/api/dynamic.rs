//! Chapter "dynamic": processes that MPI starts, and jobs that meet (MPI-5.0 §11.8 to §11.10). How groups
//! meet: `crate::dynamic`.
//!
//! An argument that is significant at the root only is checked there only; an error in it is returned to
//! every member with the same class.

use super::comm::{adopt_alone, finish_making};
use crate::abi::*;
use crate::arguments::*;
use crate::comm::Hints;
use crate::dynamic::meet::{Others, meet, tell};
use crate::dynamic::ports::Side;
use crate::dynamic::{names, parent, ports, set_parent, spawn};
use crate::error::codes;
use crate::fault::{Fault, fault};
use crate::handle::bad;
use crate::runtime::wait::complete;
use crate::state::process;
use ayatori_core::group::Group;
use ayatori_core::ids::Rank;
use ayatori_launch::pmi::spawn::Part;
use std::ffi::{c_char, c_int};

/// The root's rank in an intracommunicator, and whether it is this process.
fn root_of(comm: MPI_Comm, root: c_int) -> Result<(Rank, bool), Fault> {
    let process = process()?;
    let of = process.comms.get(comm, "comm")?;
    of.check_intra("comm")?;
    let rank = Rank::try_from(root).ok().filter(|rank| *rank < of.size()).ok_or_else(|| {
        fault(MPI_ERR_ROOT, format_args!("argument root ({root}) is not a rank of a group of {}", of.size()))
    })?;
    Ok((rank, of.rank() == rank))
}

/// The intercommunicator of two groups that have met; with the error handler of `comm`.
fn make(comm: MPI_Comm, root: Rank, others: &Others) -> Result<MPI_Comm, Fault> {
    let (handler, (id, posted)) = {
        let mut process = process()?;
        let parent = process.comms.get(comm, "comm")?;
        let (handler, group, is_root) =
            (parent.errhandler, Group::clone(parent.group()), parent.rank() == root);
        let remote = is_root.then_some((&others.group, others.leader));
        let engine = process.engine();
        let local = (&group, root);
        (
            handler,
            engine.core.collectives().icomm_inter_of_groups(
                &mut engine.device,
                local,
                remote,
                &others.name,
            )?,
        )
    };
    finish_making(posted, comm)?;
    adopt_alone(id, Hints::default(), handler, None)
}

/// The members of `comm` meet another group and make an intercommunicator with it.
fn join(
    comm: MPI_Comm,
    root: c_int,
    newcomm: Out<MPI_Comm>,
    side: impl FnOnce() -> Result<Side, Fault>,
) -> Result<(), Fault> {
    let (root, is_root) = root_of(comm, root)?;
    let others = meet(comm, root, is_root.then(side))?;
    newcomm.set("newcomm", make(comm, root, &others)?)
}

/// The last step of `MPI_Init` in a spawned process: it connects to its parents.
pub(crate) fn join_parent() -> Result<(), Fault> {
    let Some(name) = process()?.take_parent() else { return Ok(()) };
    let root = 0;
    let is_root = process()?.comms.get(MPI_COMM_WORLD, "comm")?.rank() == root;
    let others = meet(MPI_COMM_WORLD, root, is_root.then(|| ports::to_connect(name.as_bytes())))?;
    let parent = make(MPI_COMM_WORLD, root, &others)?;
    process()?.comms.get_mut(parent, "comm")?.name = b"MPI_COMM_PARENT".to_vec();
    set_parent(parent);
    Ok(())
}

/// Starts processes; the error codes are set in any case.
fn start(
    comm: MPI_Comm,
    root: c_int,
    (intercomm, errcodes): (Out<MPI_Comm>, Out<c_int>),
    parts: impl FnOnce() -> Result<Vec<Part>, Fault>,
) -> Result<(), Fault> {
    let (root, is_root) = root_of(comm, root)?;
    let parts = is_root.then(parts);
    // All members have as many error codes as processes were asked for.
    let asked = parts
        .as_ref()
        .and_then(|parts| parts.as_ref().ok())
        .map_or(0, |parts| parts.iter().map(|part| u64::from(part.count)).sum());
    let asked = tell(comm, root, vec![asked], 1)?[0] as usize;
    let side = parts.map(|parts| spawn::start(&parts?));
    let made = meet(comm, root, side).and_then(|others| make(comm, root, &others));
    let code = made.as_ref().err().map_or(MPI_SUCCESS, Fault::code);
    if let Some(refused) = made.as_ref().err().filter(|fault| fault.code() == MPI_ERR_SPAWN) {
        codes().set_spawn_refusal(refused.detail());
    }
    if !errcodes.is_unwanted() {
        errcodes.set_all("array_of_errcodes", &vec![code; asked])?;
    }
    intercomm.set("intercomm", made?)
}

api! {
    /// The intercommunicator with the parents of this process, or the null handle, also once it is freed or
    /// disconnected.
    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        drop(process()?);
        parent.set("parent", self::parent())
    }

    /// All or nothing: if one process cannot be started, none is. The info keys `wdir`, `path`, `host` and
    /// `file` are the launcher's to honour; `soft` and `arch` are ignored.
    fn MPI_Comm_spawn(
        command: Text,
        argv: InOut<*mut c_char>,
        maxprocs: c_int,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        intercomm: Out<MPI_Comm>,
        array_of_errcodes: Out<c_int>,
    ) on comm {
        start(comm, root, (intercomm, array_of_errcodes), || {
            Ok(vec![spawn::part(command, argv.into(), maxprocs, info)?])
        })
    }

    /// As `MPI_Comm_spawn`; the processes of all commands are one world, and `MPI_APPNUM` says which command
    /// each runs.
    fn MPI_Comm_spawn_multiple(
        count: c_int,
        array_of_commands: InOut<*mut c_char>,
        array_of_argv: InOut<*mut *mut c_char>,
        array_of_maxprocs: In<c_int>,
        array_of_info: In<MPI_Info>,
        root: c_int,
        comm: MPI_Comm,
        intercomm: Out<MPI_Comm>,
        array_of_errcodes: Out<c_int>,
    ) on comm {
        start(comm, root, (intercomm, array_of_errcodes), || {
            let commands = In::from(array_of_commands).to_vec("array_of_commands", count)?;
            let counts = array_of_maxprocs.to_vec("array_of_maxprocs", count)?;
            let infos = array_of_info.to_vec("array_of_info", count)?;
            let argvs = match In::from(array_of_argv).address() {
                MPI_ARGVS_NULL => vec![std::ptr::null_mut(); commands.len()],
                _ => In::from(array_of_argv).to_vec("array_of_argv", count)?,
            };
            if commands.is_empty() {
                return Err(fault(MPI_ERR_COUNT, format_args!("argument count ({count}) is not positive")));
            }
            let parts = (0..commands.len()).map(|at| {
                spawn::part(Text::of(commands[at]), In::of(argvs[at]), counts[at], infos[at])
            });
            parts.collect()
        })
    }

    /// The name is the process' own; a process that knows it may connect. It is as secret as a password.
    fn MPI_Open_port(info: MPI_Info, port_name: OutText) {
        drop(process()?);
        check_info(info)?;
        if port_name.is_null() {
            return Err(Fault::null("port_name"));
        }
        port_name.set("port_name", ports::open()?.as_bytes(), MPI_MAX_PORT_NAME as usize).map(|_| ())
    }

    /// MPI-5.0 §11.9.2
    fn MPI_Close_port(port_name: Text) {
        drop(process()?);
        ports::close(port_name.get("port_name")?)
    }

    /// The port is one that the root has open.
    fn MPI_Comm_accept(
        port_name: Text,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        newcomm: Out<MPI_Comm>,
    ) on comm {
        join(comm, root, newcomm, || {
            check_info(info)?;
            ports::to_accept(port_name.get("port_name")?)
        })
    }

    /// Waits until the port's owner accepts. An error of class MPI_ERR_PORT if the port is closed.
    fn MPI_Comm_connect(
        port_name: Text,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        newcomm: Out<MPI_Comm>,
    ) on comm {
        join(comm, root, newcomm, || {
            check_info(info)?;
            ports::to_connect(port_name.get("port_name")?)
        })
    }

    /// The socket is connected to one of another process that calls this, too. Processes that cannot reach
    /// each other get the null handle.
    fn MPI_Comm_join(fd: c_int, intercomm: Out<MPI_Comm>) {
        drop(process()?);
        let side = ports::over_socket(fd)?;
        let others = meet(MPI_COMM_SELF, 0, Some(Ok(side)));
        let made = match others {
            Ok(others) => make(MPI_COMM_SELF, 0, &others)?,
            Err(_) => MPI_COMM_NULL,
        };
        intercomm.set("intercomm", made)
    }

    /// Known in the job and in those that its processes start.
    fn MPI_Publish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        drop(process()?);
        check_info(info)?;
        names::publish(service_name.get("service_name")?, port_name.get("port_name")?)
    }

    /// MPI-5.0 §11.9.4
    fn MPI_Unpublish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        drop(process()?);
        check_info(info)?;
        port_name.get("port_name")?;
        names::unpublish(service_name.get("service_name")?)
    }

    /// MPI-5.0 §11.9.4
    fn MPI_Lookup_name(service_name: Text, info: MPI_Info, port_name: OutText) {
        drop(process()?);
        check_info(info)?;
        if port_name.is_null() {
            return Err(Fault::null("port_name"));
        }
        let port = names::look_up(service_name.get("service_name")?)?;
        port_name.set("port_name", port.as_bytes(), MPI_MAX_PORT_NAME as usize).map(|_| ())
    }

    /// All members call. All messages sent have been received when it returns, so members that share nothing
    /// else are then independent.
    fn MPI_Comm_disconnect(comm: InOut<MPI_Comm>) {
        let handle = comm.get("comm")?;
        if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
            return Err(bad(handle, "comm"));
        }
        let mut process = process()?;
        let id = process.comms.get(handle, "comm")?.id();
        let posted = process.engine().begin_barrier(id).map_err(|fault| fault.on(handle))?;
        complete(process, posted, handle).map_err(|fault| fault.on(handle))?;
        super::comm::free(handle)?;
        comm.set("comm", MPI_COMM_NULL)
    }
}

/// Any info object is valid, but it must be one.
fn check_info(info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_NULL { Ok(()) } else { crate::info::with(info, |_| Ok(())) }
}
