//! Windows: making them, their memory, and what hangs on them (MPI-5.0 §12.2).
//!
//! Each has a communicator of its own, a duplicate that no handle names. Making one is a duplication, an
//! exchange of lengths, and a barrier after which all know of the window.

use crate::abi::*;
use crate::api::comm::{object_name, with_room};
use crate::api::group::give as give_group;
use crate::arguments::*;
use crate::attribute::Attributes;
use crate::collective::run_in;
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, Object, fault, survives};
use crate::holder::Holder;
use crate::message;
use crate::operation::{Operation, Parts};
use crate::runtime::machine::Machine;
use crate::runtime::wait::wait;
use crate::state::process;
use crate::win::{self, Epochs, Part, Values, Win, change_hints, hints};
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Device;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, Rank};
use ayatori_core::request::Posted;
use ayatori_core::rma::{Memory, WindowId};
use ayatori_devices::shm::{SharedMemory, Source};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Starts something in the engine and waits for its end. Its error is the call's.
pub(super) fn wait_on(
    start: impl FnOnce(&mut Machine) -> Result<Posted, ayatori_core::Error>,
) -> Result<(), Fault> {
    let mut process = process()?;
    let posted = start(process.engine())?;
    if matches!(posted, Posted::Done(_)) {
        // A program may call this again and again until another process has done something here.
        process.progress();
    }
    wait(process, posted)?.error.map_or(Ok(()), |error| Err(error.into()))
}

/// Number of looks of a flush or fence before it becomes a request, some microseconds in all: longer than a
/// target inside MPI takes.
const LOOKS_COUNT: u32 = 100;

/// Looks for a while, making progress before, for what `ended` gives. Also where that is there at once: a
/// program may call this again and again until another process has done something here.
fn look(
    machine: &mut Machine,
    mut ended: impl FnMut(&mut Machine) -> Option<Result<(), ayatori_core::Error>>,
) -> Option<Result<(), Fault>> {
    let looks_count = if machine.device.policy().spins_count > 0 { LOOKS_COUNT } else { 1 };
    for _ in 0..looks_count {
        machine.progress();
        if let Some(result) = ended(machine) {
            return Some(result.map_err(Fault::from));
        }
    }
    None
}

/// Waits until operations at a target, or at all targets, are complete there.
pub(super) fn wait_for_flush(id: WindowId, rank: Option<Rank>) -> Result<(), Fault> {
    let mut process = process()?;
    let machine = process.engine();
    machine.core.windows().begin_flush(&mut machine.device, id, rank)?;
    if let Some(result) = look(machine, |machine| machine.core.windows().flushed(id, rank)) {
        return result;
    }
    drop(process);
    wait_on(|Machine { core, device, .. }| core.windows().flush(device, id, rank, false))
}

/// Comes to a fence that is an exchange of messages, and waits for the others.
pub(super) fn exchange_fences(id: WindowId) -> Result<(), Fault> {
    let mut process = process()?;
    let machine = process.engine();
    let number = machine.core.windows().begin_fence(&mut machine.device, id)?;
    if let Some(result) = look(machine, |machine| machine.core.windows().fenced(id, number)) {
        return result;
    }
    drop(process);
    wait_on(|Machine { core, .. }| core.windows().fence(id, number))
}

/// Waits for all members of a window's communicator.
pub(super) fn barrier(comm: CommId) -> Result<(), Fault> {
    run_in((comm, MPI_COMM_SELF), process()?, Operation::Barrier).map_err(Fault::on_callers)
}

/// Gives each member the words of all, in the order of ranks.
fn exchange<const N: usize>(
    comm: CommId,
    size: u32,
    rank: Rank,
    mine: [u64; N],
) -> Result<Vec<[u64; N]>, Fault> {
    let mut all = vec![[0_u64; N]; size as usize];
    all[rank as usize] = mine;
    let bytes = (N * size_of::<u64>() * size as usize) as MPI_Count;
    let buffer = message::elements(all.as_mut_ptr().cast(), bytes, 1, "all")?;
    let operation = Operation::Allgather { send: None, recv: Parts::Uniform(buffer) };
    let done = run_in((comm, MPI_COMM_SELF), process()?, operation);
    match done {
        Ok(()) => Ok(all),
        Err(fault) => {
            // A message may still be under way to it.
            std::mem::forget(all);
            Err(fault.on_callers())
        }
    }
}

/// The communicator of a new window.
#[derive(Clone)]
struct Members {
    comm: CommId,
    group: Group,
    rank: Rank,
    /// Whether all are on this host.
    is_local: bool,
}

fn duplicate(comm: MPI_Comm) -> Result<Members, Fault> {
    let (new, group, rank, is_local, posted) = {
        let mut process = process()?;
        let parent = process.comms.get(comm, "comm")?;
        parent.check_intra("comm")?;
        let (id, group, rank) = (parent.id(), parent.group().clone(), parent.rank());
        let machine = process.engine();
        let shm = machine.device.shm();
        let is_local = group.iter().all(|member| !shm.rails_to(member).is_empty());
        let (new, posted) = with_room(machine, &group, |machine| {
            machine.core.collectives().icomm_dup(&mut machine.device, id)
        })?;
        (new, group, rank, is_local, posted)
    };
    wait_on(|_| Ok(posted))?;
    Ok(Members { comm: new, group, rank, is_local })
}

/// Parts of a window being made.
struct Made {
    flavor: c_int,
    memory: Memory,
    base: *mut c_void,
    parts: Vec<Part>,
    shared: Option<SharedMemory>,
    /// Where locks of epochs are, if not in `shared`.
    locks: Option<SharedMemory>,
}

/// Checks what all windows with memory need.
fn check_part(size: MPI_Aint, disp_unit: MPI_Aint) -> Result<Part, Fault> {
    let bytes = usize::try_from(size)
        .map_err(|_| fault(MPI_ERR_SIZE, format_args!("argument size is negative ({size})")))?;
    match usize::try_from(disp_unit) {
        Ok(unit @ 1..) => Ok(Part { bytes, unit, ..Part::default() }),
        _ => Err(fault(MPI_ERR_DISP, format_args!("argument disp_unit ({disp_unit}) is not positive"))),
    }
}

/// The error handler that windows begin with.
const FIRST_HANDLER: MPI_Errhandler = MPI_ERRORS_ARE_FATAL;

/// The members' lengths and units, and where memory lies that the program has made. All fail where a member
/// has no memory (`has_memory`).
fn parts(members: &Members, own: Part, has_memory: bool) -> Result<Vec<Part>, Fault> {
    let words = [own.bytes as u64, own.unit as u64, own.address.unwrap_or(0), u64::from(has_memory)];
    let all = exchange(members.comm, members.group.size(), members.rank, words)?;
    if let Some(rank) = all.iter().position(|[.., has_memory]| *has_memory == 0) {
        let bytes = all[rank][0];
        return Err(fault(MPI_ERR_NO_MEM, format_args!("rank {rank} has no {bytes} bytes of memory")));
    }
    let part = |[bytes, unit, address, _]: &[u64; 4]| Part {
        bytes: *bytes as usize,
        unit: *unit as usize,
        address: Some(*address).filter(|address| *address != 0),
        shared_at: 0,
    };
    Ok(all.iter().map(part).collect())
}

/// Memory for locks of epochs, where all members are on this host. Processes that fail would not give them
/// back.
fn locks(members: &Members) -> Option<SharedMemory> {
    if members.is_local && !survives() { share(members, 0).ok() } else { None }
}

/// The last steps: all know the window, then it has a handle.
fn finish(members: &Members, made: Made, info: MPI_Info, out: Out<MPI_Win>) -> Result<(), Fault> {
    let info = hints(info)?;
    let own = made.parts[members.rank as usize];
    let id = {
        let mut process = process()?;
        process.engine().core.windows().add(members.comm, made.memory)?
    };
    barrier(members.comm)?;
    let shared = made.shared.map(Arc::new);
    let of_memory = shared.clone().filter(|_| members.is_local && !survives());
    let values = Values {
        base: UserPointer(made.base),
        size: own.bytes as MPI_Aint,
        disp_unit: c_int::try_from(own.unit).unwrap_or(c_int::MAX),
        flavor: made.flavor,
        model: MPI_WIN_UNIFIED,
    };
    let win = Win {
        name: Vec::new(),
        errhandler: handlers().retain(FIRST_HANDLER, Kind::Win)?,
        attributes: Attributes::default(),
        info,
        comm: members.comm,
        id,
        group: members.group.clone(),
        rank: members.rank,
        parts: made.parts.into(),
        shared,
        is_mapped_by_all: members.is_local,
        locks: made.locks.map(Arc::new).or(of_memory),
        quick_count: 0,
        has_stored: false,
        epochs: Epochs::default(),
        attached: Vec::new(),
        values: Box::new(values),
    };
    let handle = win::table()?.insert(win)?;
    out.set("win", handle)
}

fn create(
    base: *mut c_void,
    (size, disp_unit): (MPI_Aint, MPI_Aint),
    info: MPI_Info,
    comm: MPI_Comm,
    out: Out<MPI_Win>,
) -> Result<(), Fault> {
    let own = check_part(size, disp_unit)?;
    process()?.comms.get(comm, "comm")?;
    hints(info)?;
    let memory = message::elements(base, own.bytes as MPI_Count, 1, "base")?;
    let members = duplicate(comm)?;
    let address = memory.as_ptr().map(|base| base.expose_provenance() as u64).filter(|_| own.bytes > 0);
    let parts = parts(&members, Part { address, ..own }, true)?;
    let locks = locks(&members);
    let flavor = MPI_WIN_FLAVOR_CREATE;
    let made = Made { flavor, memory: Memory::Fixed(memory), base, parts, shared: None, locks };
    finish(&members, made, info, out)
}

/// Alignment of parts in shared memory, if they need not be contiguous.
const APART_BYTES: usize = 4096;

/// Where each part begins, and how long all are.
fn place_parts(parts: &mut [Part], are_apart: bool) -> Option<usize> {
    let mut end = 0_usize;
    for part in parts {
        if are_apart {
            end = end.checked_next_multiple_of(APART_BYTES)?;
        }
        part.shared_at = end;
        end = end.checked_add(part.bytes)?;
    }
    Some(end)
}

/// Maps the memory of all members: the first makes it, the others open it.
fn share(members: &Members, bytes: usize) -> Result<SharedMemory, Fault> {
    let size = members.group.size();
    let no_memory = |error| fault(MPI_ERR_NO_MEM, format_args!("{error}"));
    let is_first = members.rank == 0;
    let mut made = None;
    let mut words = [0; 3];
    if is_first && let Ok((memory, source)) = SharedMemory::create(size as usize, bytes) {
        let address = source.address().unwrap_or_default();
        let mut numbers = address.split('/').filter_map(|part| part.parse::<u64>().ok());
        words = [1, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
        made = Some((memory, source));
    }
    let all = exchange(members.comm, size, members.rank, words)?;
    let [is_made, pid, fd] = all[0];
    let opened = match made {
        Some((memory, source)) => Ok((memory, Some(source))),
        None if is_made == 0 => {
            Err(fault(MPI_ERR_NO_MEM, format_args!("rank 0 has no {bytes} bytes of shared memory")))
        }
        None => SharedMemory::open(&Source::Address(format!("/proc/{pid}/fd/{fd}")), size as usize, bytes)
            .map(|memory| (memory, None))
            .map_err(no_memory),
    };
    // All have opened it, or all give up.
    let all = exchange(members.comm, size, members.rank, [u64::from(opened.is_ok())])?;
    let (memory, _source) = opened?;
    match all.iter().position(|[is_open]| *is_open == 0) {
        None => Ok(memory),
        Some(rank) => Err(fault(MPI_ERR_NO_MEM, format_args!("rank {rank} cannot map the shared memory"))),
    }
}

/// Whether an info object says that parts may lie apart.
fn may_be_apart(info: MPI_Info) -> Result<bool, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(false);
    }
    crate::info::with(info, |info| Ok(info.get(b"alloc_shared_noncontig") == Some(b"true")))
}

/// `MPI_Win_allocate` and `MPI_Win_allocate_shared`: memory that all members map, if they are on one host.
fn allocate(
    flavor: c_int,
    (size, disp_unit): (MPI_Aint, MPI_Aint),
    (info, comm): (MPI_Info, MPI_Comm),
    baseptr: *mut c_void,
    out: Out<MPI_Win>,
) -> Result<(), Fault> {
    let own = check_part(size, disp_unit)?;
    process()?.comms.get(comm, "comm")?;
    hints(info)?;
    let are_apart = flavor == MPI_WIN_FLAVOR_ALLOCATE || may_be_apart(info)?;
    let members = duplicate(comm)?;
    // Where only its owner maps it, each makes its own.
    let own_memory = match members.is_local {
        true => None,
        false => Some(SharedMemory::create(members.group.size() as usize, own.bytes)),
    };
    let mut parts = parts(&members, own, own_memory.as_ref().is_none_or(Result::is_ok))?;
    if flavor == MPI_WIN_FLAVOR_SHARED && !members.is_local {
        return Err(fault(
            MPI_ERR_RMA_SHARED,
            format_args!("the processes of argument comm are on several hosts"),
        ));
    }
    let too_large =
        || fault(MPI_ERR_SIZE, format_args!("the processes ask for more memory than there are addresses"));
    let shared = match own_memory {
        Some(made) => made.map_err(|error| fault(MPI_ERR_NO_MEM, format_args!("{error}")))?.0,
        None => {
            let bytes = place_parts(&mut parts, are_apart).ok_or_else(too_large)?;
            share(&members, bytes)?
        }
    };
    let at = parts[members.rank as usize].shared_at;
    let memory = shared.buffer(at, own.bytes);
    let base = address_of(&memory);
    Out::from_void(baseptr).set("baseptr", base)?;
    // Where processes are to survive others locks are messages.
    let is_mapped = members.is_local && !survives();
    let memory = if is_mapped { Memory::Mapped(memory) } else { Memory::Fixed(memory) };
    let made = Made { flavor, memory, base, parts, shared: Some(shared), locks: None };
    finish(&members, made, info, out)
}

fn address_of(buffer: &Buffer) -> *mut c_void {
    buffer.as_ptr().map_or(null_mut(), <*mut u8>::cast)
}

/// `MPI_Win_shared_query`: the address, length and unit of a member's memory. Without a rank, the first that
/// has any.
fn query(win: MPI_Win, rank: c_int) -> Result<(MPI_Aint, usize, *mut c_void), Fault> {
    let mut table = win::table()?;
    let win = table.get_mut(win, "win")?;
    let rank = match win.rank(rank, "rank")? {
        Some(rank) => rank as usize,
        None => win.parts.iter().position(|part| part.bytes > 0).unwrap_or(0),
    };
    if win.values.flavor == MPI_WIN_FLAVOR_DYNAMIC {
        return Err(fault(
            MPI_ERR_RMA_FLAVOR,
            format_args!("the window is dynamic: it has no memory of its own"),
        ));
    }
    let part = win.parts[rank];
    Ok(match &win.shared {
        Some(shared) if win.is_mapped_by_all => {
            let base = match part.bytes {
                0 => null_mut(),
                bytes => address_of(&shared.buffer(part.shared_at, bytes)),
            };
            (part.bytes as MPI_Aint, part.unit, base)
        }
        _ if rank as Rank == win.rank => (part.bytes as MPI_Aint, part.unit, win.values.base.0),
        // It cannot be reached by loads and stores.
        _ => (0, part.unit, null_mut()),
    })
}

/// Whether two pieces of memory have a byte in common.
fn overlap((base, len): (usize, usize), (other, other_len): (usize, usize)) -> bool {
    len > 0 && other_len > 0 && base < other.saturating_add(other_len) && other < base.saturating_add(len)
}

api! {
    /// MPI-5.0 §12.2.1
    fn MPI_Win_create(
        base: *mut c_void,
        size: MPI_Aint,
        disp_unit: c_int,
        info: MPI_Info,
        comm: MPI_Comm,
        win: Out<MPI_Win>,
    ) on comm {
        create(base, (size, disp_unit as MPI_Aint), info, comm, win)
    }

    /// MPI-5.0 §12.2.1
    fn MPI_Win_create_c(
        base: *mut c_void,
        size: MPI_Aint,
        disp_unit: MPI_Aint,
        info: MPI_Info,
        comm: MPI_Comm,
        win: Out<MPI_Win>,
    ) on comm {
        create(base, (size, disp_unit), info, comm, win)
    }

    /// MPI-5.0 §12.2.2
    fn MPI_Win_allocate(
        size: MPI_Aint,
        disp_unit: c_int,
        info: MPI_Info,
        comm: MPI_Comm,
        baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        allocate(MPI_WIN_FLAVOR_ALLOCATE, (size, disp_unit as MPI_Aint), (info, comm), baseptr, win)
    }

    /// MPI-5.0 §12.2.2
    fn MPI_Win_allocate_c(
        size: MPI_Aint,
        disp_unit: MPI_Aint,
        info: MPI_Info,
        comm: MPI_Comm,
        baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        allocate(MPI_WIN_FLAVOR_ALLOCATE, (size, disp_unit), (info, comm), baseptr, win)
    }

    /// MPI-5.0 §12.2.3
    fn MPI_Win_allocate_shared(
        size: MPI_Aint,
        disp_unit: c_int,
        info: MPI_Info,
        comm: MPI_Comm,
        baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        allocate(MPI_WIN_FLAVOR_SHARED, (size, disp_unit as MPI_Aint), (info, comm), baseptr, win)
    }

    /// MPI-5.0 §12.2.3
    fn MPI_Win_allocate_shared_c(
        size: MPI_Aint,
        disp_unit: MPI_Aint,
        info: MPI_Info,
        comm: MPI_Comm,
        baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        allocate(MPI_WIN_FLAVOR_SHARED, (size, disp_unit), (info, comm), baseptr, win)
    }

    /// MPI-5.0 §12.2.3
    fn MPI_Win_shared_query(
        win: MPI_Win,
        rank: c_int,
        size: Out<MPI_Aint>,
        disp_unit: Out<c_int>,
        baseptr: *mut c_void,
    ) on win {
        let (bytes, unit, base) = query(win, rank)?;
        size.set("size", bytes)?;
        disp_unit.set("disp_unit", c_int::try_from(unit).unwrap_or(c_int::MAX))?;
        Out::from_void(baseptr).set("baseptr", base)
    }

    /// MPI-5.0 §12.2.3
    fn MPI_Win_shared_query_c(
        win: MPI_Win,
        rank: c_int,
        size: Out<MPI_Aint>,
        disp_unit: Out<MPI_Aint>,
        baseptr: *mut c_void,
    ) on win {
        let (bytes, unit, base) = query(win, rank)?;
        size.set("size", bytes)?;
        disp_unit.set("disp_unit", unit as MPI_Aint)?;
        Out::from_void(baseptr).set("baseptr", base)
    }

    /// MPI-5.0 §12.2.4
    fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) on comm {
        process()?.comms.get(comm, "comm")?;
        hints(info)?;
        let members = duplicate(comm)?;
        let parts = vec![Part { unit: 1, ..Part::default() }; members.group.size() as usize];
        let made = Made {
            flavor: MPI_WIN_FLAVOR_DYNAMIC,
            memory: Memory::Dynamic(Vec::new()),
            base: null_mut(),
            parts,
            shared: None,
            locks: None,
        };
        finish(&members, made, info, win)
    }

    /// MPI-5.0 §12.2.4
    fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) on win {
        let part = check_part(size, 1)?;
        win::table()?.get(win, "win")?;
        let memory = message::elements(base, part.bytes as MPI_Count, 1, "base")?;
        let id = {
            let mut table = win::table()?;
            let win = table.get_mut(win, "win")?;
            if win.values.flavor != MPI_WIN_FLAVOR_DYNAMIC {
                return Err(fault(MPI_ERR_RMA_FLAVOR, format_args!("argument win is not a dynamic window")));
            }
            let new = (base.addr(), part.bytes);
            if win.attached.iter().any(|old| overlap(*old, new)) {
                return Err(fault(MPI_ERR_RMA_ATTACH, format_args!("part of the memory is attached already")));
            }
            win.attached.push(new);
            win.id
        };
        Ok(process()?.engine().core.windows().change(id, memory, true)?)
    }

    /// MPI-5.0 §12.2.4
    fn MPI_Win_detach(win: MPI_Win, base: *const c_void) on win {
        let (id, bytes) = {
            let mut table = win::table()?;
            let win = table.get_mut(win, "win")?;
            if win.values.flavor != MPI_WIN_FLAVOR_DYNAMIC {
                return Err(fault(MPI_ERR_RMA_FLAVOR, format_args!("argument win is not a dynamic window")));
            }
            let at = win.attached.iter().position(|(address, _)| *address == base.addr());
            let at = at.ok_or_else(|| {
                fault(MPI_ERR_RMA_ATTACH, format_args!("no memory that begins at argument base is attached"))
            })?;
            (win.id, win.attached.swap_remove(at).1)
        };
        let memory = message::elements(base, bytes as MPI_Count, 1, "base")?;
        Ok(process()?.engine().core.windows().change(id, memory, false)?)
    }

    /// MPI-5.0 §12.2.5. The attributes' delete functions are called; returns when all members have called it.
    fn MPI_Win_free(win: InOut<MPI_Win>) {
        let handle = win.get("win")?;
        let on = |fault: Fault| fault.on(Object::Win(handle));
        let comm = {
            let table = win::table()?;
            let win = table.get(handle, "win")?;
            win.epochs.check_free().map_err(on)?;
            win.comm
        };
        Holder::Win(handle).delete_all().map_err(on)?;
        barrier(comm).map_err(on)?;
        let freed = win::table()?.remove(handle, "win")?;
        handlers().release(freed.errhandler)?;
        {
            let mut process = process()?;
            let Machine { core, device, node, .. } = process.engine();
            core.windows().remove(freed.id)?;
            node.leave(core, device.shm(), freed.comm);
            core.free_comm(freed.comm)?;
        }
        win.set("win", MPI_WIN_NULL)
    }

    /// The group is the caller's to free.
    fn MPI_Win_get_group(win: MPI_Win, group: Out<MPI_Group>) on win {
        let members = win::table()?.get(win, "win")?.group.clone();
        give_group(members, group)
    }

    /// MPI-5.0 §7.8
    fn MPI_Win_set_name(win: MPI_Win, win_name: Text) on win {
        let name = object_name(win_name, "win_name")?;
        win::table()?.get_mut(win, "win")?.name = name;
        Ok(())
    }

    /// MPI-5.0 §7.8
    fn MPI_Win_get_name(win: MPI_Win, win_name: OutText, resultlen: Out<c_int>) on win {
        let name = match win {
            MPI_WIN_NULL => b"MPI_WIN_NULL".to_vec(),
            win => win::table()?.get(win, "win")?.name.clone(),
        };
        let length = win_name.set("win_name", &name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set("resultlen", length)
    }

    /// Hints that the library does not know are ignored, and so are values that mean nothing.
    fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) on win {
        let mut hints = win::table()?.get(win, "win")?.info.clone();
        change_hints(&mut hints, info)?;
        win::table()?.get_mut(win, "win")?.info = hints;
        Ok(())
    }

    /// The hints in use; the caller's to free.
    fn MPI_Win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) on win {
        let info = win::table()?.get(win, "win")?.info.clone();
        crate::info::give_used(info, info_used)
    }
}
