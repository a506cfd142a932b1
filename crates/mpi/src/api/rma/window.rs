//! Windows: making them, their memory, and what hangs on them (MPI-5.0 §12.2).
//!
//! Each has a communicator of its own, a duplicate that no handle names. Making one is a duplication, an
//! exchange of lengths, and a barrier after which all know of the window.

use crate::abi::*;
use crate::api::comm::{object_name, with_room};
use crate::api::environment::{ALIGNMENT_KEY, alignment_asked_for};
use crate::api::group::give as give_group;
use crate::arguments::*;
use crate::attribute::Attributes;
use crate::collective::run_in;
use crate::errhandler::{Kind, handlers};
use crate::fault::{Fault, Object, fault, survives};
use crate::holder::Holder;
use crate::info::Info;
use crate::message;
use crate::operation::{Operation, Parts};
use crate::runtime::machine::Machine;
use crate::runtime::wait::wait;
use crate::state::process;
use crate::win::{self, Epochs, NONCONTIG, Part, Values, Win, change_hints, hints};
use ayatori_core::buffer::Buffer;
use ayatori_core::device::Device;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, Rank};
use ayatori_core::request::Posted;
use ayatori_core::rma::{Memory, WindowId};
use ayatori_devices::shm::{SharedMemory, Source};
use std::ffi::{c_int, c_void};
use std::ops::Range;
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
    parts_of(&all)
}

fn parts_of(all: &[[u64; 4]]) -> Result<Vec<Part>, Fault> {
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
    if members.is_local && !survives() { share(members, 0, 0..0).ok() } else { None }
}

/// The last steps: all know the window, then it has a handle.
fn finish(members: &Members, made: Made, info: Info, out: Out<MPI_Win>) -> Result<(), Fault> {
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
    let info = hints(info)?;
    let memory = message::elements(base, own.bytes as MPI_Count, 1, "base")?;
    let members = duplicate(comm)?;
    let address = memory.as_ptr().map(|base| base.expose_provenance() as u64).filter(|_| own.bytes > 0);
    let parts = parts(&members, Part { address, ..own }, true)?;
    let locks = locks(&members);
    let flavor = MPI_WIN_FLAVOR_CREATE;
    let made = Made { flavor, memory: Memory::Fixed(memory), base, parts, shared: None, locks };
    finish(&members, made, info, out)
}

/// Alignment of the library's memory, and of parts in it that need not be contiguous.
const APART_BYTES: usize = 4096;

/// How parts are to lie in memory that the library makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// They need not follow each other.
    are_apart: bool,
    /// Those that are apart, or the first one that has a byte, begin at a multiple of this.
    alignment_bytes: usize,
}

impl Layout {
    /// Bytes of room in which a place is found that is aligned: the memory is mapped anywhere.
    fn room_bytes(self) -> usize {
        self.alignment_bytes.saturating_sub(APART_BYTES)
    }

    /// Where each part begins, if its room is not needed, and how long all are with their room.
    fn place(self, parts: &mut [Part]) -> Option<usize> {
        let mut end = 0_usize;
        for part in parts {
            if self.are_apart {
                end = end.checked_next_multiple_of(APART_BYTES)?;
            }
            part.shared_at = end;
            end = end.checked_add(part.bytes)?;
            if self.are_apart && part.bytes > 0 {
                end = end.checked_add(self.room_bytes())?;
            }
        }
        if self.are_apart { Some(end) } else { end.checked_add(self.room_bytes()) }
    }

    /// How far it is from an address to the next that is aligned.
    fn rest(self, address: usize) -> usize {
        address.wrapping_neg() & (self.alignment_bytes - 1)
    }

    /// Moves the parts in their room, each by what its member says that aligns it there.
    fn shift(self, parts: &mut [Part], rests: &[[u64; 1]]) {
        let first = parts.iter().position(|part| part.bytes > 0).unwrap_or_default();
        for (rank, part) in parts.iter_mut().enumerate() {
            let [rest] = rests[if self.are_apart { rank } else { first }];
            part.shared_at += rest as usize;
        }
    }
}

/// Maps the memory of all members: the first makes it, the others open it. `own` is this one's part.
fn share(members: &Members, bytes: usize, own: Range<usize>) -> Result<SharedMemory, Fault> {
    let size = members.group.size();
    let no_memory = |error| fault(MPI_ERR_NO_MEM, format_args!("{error}"));
    let is_first = members.rank == 0;
    let mut made = None;
    let mut words = [0; 3];
    if is_first && let Ok((memory, source)) = SharedMemory::create(size as usize, bytes, own.clone()) {
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
        None => {
            let source = Source::Address(format!("/proc/{pid}/fd/{fd}"));
            let opened = SharedMemory::open(&source, size as usize, bytes, own);
            opened.map(|memory| (memory, None)).map_err(no_memory)
        }
    };
    // All have opened it, or all give up.
    let all = exchange(members.comm, size, members.rank, [u64::from(opened.is_ok())])?;
    let (memory, _source) = opened?;
    match all.iter().position(|[is_open]| *is_open == 0) {
        None => Ok(memory),
        Some(rank) => {
            Err(fault(MPI_ERR_NO_MEM, format_args!("rank {rank} has not its part of the shared memory")))
        }
    }
}

/// What all members ask for at the making of a window: their parts, and the layout that serves all.
fn agree(
    members: &Members,
    own: Part,
    layout: Layout,
    has_memory: bool,
) -> Result<(Vec<Part>, Layout), Fault> {
    let Layout { are_apart, alignment_bytes } = layout;
    let (flags, alignment) = ([u64::from(are_apart), u64::from(has_memory)], alignment_bytes as u64);
    let words = [own.bytes as u64, own.unit as u64, alignment, flags[0], flags[1]];
    let all = exchange(members.comm, members.group.size(), members.rank, words)?;
    let layout = Layout {
        are_apart: all.iter().all(|[.., are_apart, _]| *are_apart != 0),
        alignment_bytes: all.iter().map(|[_, _, bytes, ..]| *bytes as usize).fold(1, usize::max),
    };
    let of_parts: Vec<_> = all.iter().map(|[bytes, unit, .., memory]| [*bytes, *unit, 0, *memory]).collect();
    Ok((parts_of(&of_parts)?, layout))
}

/// Maps memory of all members, with their parts where the layout says.
fn share_parts(members: &Members, parts: &mut [Part], layout: Layout) -> Result<SharedMemory, Fault> {
    let bytes = layout.place(parts).ok_or_else(too_large)?;
    let own = parts[members.rank as usize];
    // With its room, in which it may be moved.
    let own_end = own.shared_at + if own.bytes > 0 { own.bytes + layout.room_bytes() } else { 0 };
    let shared = share(members, bytes, own.shared_at..own_end)?;
    if layout.room_bytes() > 0 {
        let base = address_of(&shared.buffer(own.shared_at, own.bytes)).addr();
        let rest = if own.bytes > 0 { layout.rest(base) } else { 0 };
        let rests = exchange(members.comm, members.group.size(), members.rank, [rest as u64])?;
        layout.shift(parts, &rests);
    }
    Ok(shared)
}

fn too_large() -> Fault {
    fault(MPI_ERR_SIZE, format_args!("the processes ask for more memory than there are addresses"))
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
    let mut used = hints(info)?;
    let alignment = alignment_asked_for(info)?;
    let is_of_all = flavor == MPI_WIN_FLAVOR_SHARED;
    let are_apart = !is_of_all || used.get(NONCONTIG.as_bytes()) == Some(b"true");
    let layout = Layout { are_apart, alignment_bytes: alignment.unwrap_or(1) };
    let members = duplicate(comm)?;
    // Where only its owner maps it, each makes its own.
    let own_memory = match members.is_local {
        true => None,
        false => {
            let bytes = own.bytes.checked_add(layout.room_bytes()).ok_or_else(too_large)?;
            Some(SharedMemory::create(members.group.size() as usize, bytes, 0..bytes))
        }
    };
    let has_memory = own_memory.as_ref().is_none_or(Result::is_ok);
    let (mut parts, of_all) = agree(&members, own, layout, has_memory)?;
    if is_of_all && !members.is_local {
        return Err(fault(
            MPI_ERR_RMA_SHARED,
            format_args!("the processes of argument comm are on several hosts"),
        ));
    }
    let shared = match own_memory {
        Some(made) => made.map_err(|error| fault(MPI_ERR_NO_MEM, format_args!("{error}")))?.0,
        None => share_parts(&members, &mut parts, of_all)?,
    };
    let at = match members.is_local {
        true => parts[members.rank as usize].shared_at,
        false => layout.rest(address_of(&shared.buffer(0, own.bytes)).addr()).min(layout.room_bytes()),
    };
    let memory = shared.buffer(at, own.bytes);
    // As its query says.
    let base = if own.bytes == 0 { null_mut() } else { address_of(&memory) };
    Out::from_void(baseptr).set("baseptr", base)?;
    if let Some(bytes) = alignment {
        used.put(ALIGNMENT_KEY, &bytes.to_string());
    }
    if is_of_all {
        used.put(NONCONTIG, if of_all.are_apart { "true" } else { "false" });
    }
    // Where processes are to survive others locks are messages.
    let is_mapped = members.is_local && !survives();
    let memory = if is_mapped { Memory::Mapped(memory) } else { Memory::Fixed(memory) };
    let made = Made { flavor, memory, base, parts, shared: Some(shared), locks: None };
    finish(&members, made, used, out)
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
        let info = hints(info)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: &[usize]) -> Vec<Part> {
        sizes.iter().map(|bytes| Part { bytes: *bytes, unit: 1, ..Part::default() }).collect()
    }

    fn begins(parts: &[Part]) -> Vec<usize> {
        parts.iter().map(|part| part.shared_at).collect()
    }

    #[test]
    fn parts_that_follow_each_other_have_one_room_together() {
        let layout = Layout { are_apart: false, alignment_bytes: 1 << 16 };
        let mut parts = parts(&[0, 3, 0, 5]);
        assert_eq!(layout.place(&mut parts), Some(8 + (1 << 16) - APART_BYTES));
        assert_eq!(begins(&parts), [0, 0, 3, 3]);
        // The second member is the first that has a byte.
        layout.shift(&mut parts, &[[0], [4096], [0], [8192]]);
        assert_eq!(begins(&parts), [4096, 4096, 4099, 4099]);
    }

    #[test]
    fn parts_that_are_apart_are_aligned_each_for_its_member() {
        let layout = Layout { are_apart: true, alignment_bytes: 16384 };
        let (mut parts, room) = (parts(&[1, 0, 5000]), 16384 - APART_BYTES);
        assert_eq!(layout.place(&mut parts), Some(4096 + room + 5000 + room));
        assert_eq!(begins(&parts), [0, 4096 + room, 4096 + room]);
        layout.shift(&mut parts, &[[4096], [0], [12288]]);
        assert_eq!(begins(&parts), [4096, 4096 + room, 4096 + room + 12288]);
        assert!((0..8).all(|page| layout.rest(page * 4096) <= room));
        assert!((0..8).all(|page| (page * 4096 + layout.rest(page * 4096)).is_multiple_of(16384)));
    }

    #[test]
    fn without_a_wish_parts_take_no_room() {
        let layout = Layout { are_apart: true, alignment_bytes: 1 };
        let mut parts = parts(&[10, 10]);
        assert_eq!((layout.room_bytes(), layout.place(&mut parts)), (0, Some(4106)));
        assert_eq!(layout.place(&mut [Part { bytes: usize::MAX, ..Part::default() }; 2]), None);
    }
}
