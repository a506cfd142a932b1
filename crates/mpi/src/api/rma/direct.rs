//! Operations on plain elements (of predefined types without gaps): without a message, and without a look at
//! layouts. In memory that all members of a window share, short ones are loads and stores. In memory of the
//! program's on this host, long puts and gets are one copy by the kernel, which needs nothing of the target.
//! Short operations elsewhere are messages, but without a look at layouts, too. Other operations and errors
//! are left to the general path, which reports the error.

use super::operands::{At, Elements};
use crate::abi::*;
use crate::datatype;
use crate::handle::Table;
use crate::lock::Guard;
use crate::message;
use crate::op;
use crate::runtime::machine::Machine;
use crate::state::process;
use crate::win::{self, Win};
use ayatori_core::buffer::Buffer;
use ayatori_core::datatype::{Class, Predefined};
use ayatori_core::device::{Device, RemoteKey, RemoteRegion, Submitted, Token};
use ayatori_core::ids::{ProcessId, Rail, Rank};
use ayatori_core::op::Operation;
use ayatori_core::rma::{self, WindowId};
use ayatori_core::transfer::{Sink, Source};
use ayatori_devices::shm::SharedMemory;
use std::ffi::{c_int, c_void};

/// The windows are locked while memory is loaded or stored, so it is not much.
const SHARED_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes that travel in the message itself, which a target inside MPI handles faster than a kernel
/// call.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// The process is locked while the kernel copies; more goes as a message, in pieces.
const KERNEL_BYTES_MAX: usize = 1 << 20;

/// The windows, locked.
type Windows = Guard<'static, Table<MPI_Win, Win>>;

/// The origin's memory, if there is any and it is as long as what is wanted at the target.
#[inline(always)]
fn origin_of(origin: Elements, at: At) -> Option<Buffer> {
    let memory = message::plain(origin.memory, origin.count, origin.datatype)?;
    let bytes = usize::try_from(at.count).ok()?.checked_mul(datatype::plain_bytes(at.datatype))?;
    (memory.len() == bytes && bytes > 0).then_some(memory)
}

/// Which way elements go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToTarget,
    ToOrigin,
}

/// Copies; whether it did.
#[inline(always)]
fn copied(direction: Direction, origin: Elements, at: At, is_requested: bool) -> bool {
    let Some(memory) = origin_of(origin, at) else { return false };
    let bytes = memory.len();
    let Ok(mut windows) = win::table() else { return false };
    if bytes <= SHARED_BYTES_MAX
        && let Some(win) = windows.find_mut(at.win)
        && let Some((shared, place)) =
            win.shared_part(at.rank, at.disp, bytes, direction == Direction::ToTarget)
    {
        let target = shared.buffer(place, bytes);
        match direction {
            Direction::ToTarget => target.copy_from(0, &memory, 0, bytes),
            Direction::ToOrigin => memory.copy_from(0, &target, 0, bytes),
        }
        return true;
    }
    is_copied_elsewhere(direction, (windows, memory), (at.win, at.rank, at.disp), is_requested)
}

/// The same where memory is not shared.
#[inline(never)]
fn is_copied_elsewhere(
    direction: Direction,
    (mut windows, memory): (Windows, Buffer),
    (win, rank, disp): (MPI_Win, c_int, MPI_Aint),
    is_requested: bool,
) -> bool {
    let bytes = memory.len();
    let Some(win) = windows.find_mut(win) else { return false };
    if bytes <= rma::ROW_BYTES_MAX {
        let row = win.row(rank, disp, bytes);
        drop(windows);
        // A request for a read is over when the data is here.
        return match (direction, row) {
            (_, None) => false,
            (Direction::ToTarget, Some(row)) => {
                is_begun(|machine| machine.core.windows().put_row(&mut machine.device, row, memory))
            }
            (Direction::ToOrigin, Some(row)) => {
                !is_requested
                    && is_begun(|machine| machine.core.windows().get_row(&mut machine.device, row, memory))
            }
        };
    }
    if bytes <= MESSAGE_BYTES_MAX || bytes > KERNEL_BYTES_MAX {
        return false;
    }
    let (place, id) = (win.address_part(rank, disp, bytes), win.id);
    drop(windows);
    place.is_some_and(|place| is_copied_by_kernel(direction, memory, place, id))
}

/// Has the core begin a short operation. `false`: it refuses, before it has done anything.
#[inline(always)]
fn is_begun(begin: impl FnOnce(&mut Machine) -> Result<(), ayatori_core::Error>) -> bool {
    process().is_ok_and(|mut process| begin(process.engine()).is_ok())
}

/// Has the kernel copy from or to the memory of another process of this host. `false`: nothing is done, the
/// process is elsewhere, operations before it may not have been executed, or the kernel refuses.
fn is_copied_by_kernel(
    direction: Direction,
    memory: Buffer,
    (peer, address): (ProcessId, u64),
    id: WindowId,
) -> bool {
    let Ok(mut process) = process() else { return false };
    let Machine { core, device, .. } = process.engine();
    let shm = device.shm_mut();
    if shm.rails_to(peer).is_empty() || !core.windows().is_settled(id) {
        return false;
    }
    let key = RemoteKey { words: [address, memory.len() as u64] };
    let (rail, remote, token) = (Rail(0), RemoteRegion { key, offset: 0 }, Token(0));
    let submitted = match direction {
        Direction::ToTarget => shm.put(rail, peer, memory, remote, token),
        Direction::ToOrigin => shm.get(rail, peer, memory, remote, token),
    };
    submitted == Ok(Submitted::Done)
}

/// `MPI_Put`; whether it is done, or begun and the origin's memory is free.
#[inline(always)]
pub(super) fn put(origin: Elements, at: At) -> bool {
    copied(Direction::ToTarget, origin, at, false)
}

/// `MPI_Get`. Returns whether it is done, or begun without a request of its own (`is_requested`).
#[inline(always)]
pub(super) fn get(origin: Elements, at: At, is_requested: bool) -> bool {
    copied(Direction::ToOrigin, origin, at, is_requested)
}

/// `MPI_Accumulate` and the like. Returns whether it is done, or begun without a request for its result.
#[inline(always)]
pub(super) fn accumulate(
    origin: Elements,
    result: Option<Elements>,
    at: At,
    op: MPI_Op,
    is_requested: bool,
) -> bool {
    change_integer(origin, result, at, op).is_some()
        || change_word(origin, result, at, op).is_some()
        || accumulate_plain(origin, result, at, op, is_requested)
}

/// An accumulate of one integer that the processor does by one instruction, as most are. `None`: it is
/// another, or something is wrong.
#[inline(always)]
fn change_integer(origin: Elements, result: Option<Elements>, at: At, op: MPI_Op) -> Option<()> {
    let bytes = datatype::integer_word_bytes(at.datatype);
    if bytes == 0 || at.count != 1 {
        return None;
    }
    let one = |elements: Elements| {
        let is_one = elements.count == 1 && elements.datatype == at.datatype;
        message::word(elements.memory, bytes).filter(|_| is_one)
    };
    let fetched = match result {
        Some(result) => Some(one(result)?),
        None => None,
    };
    let (operation, source) = match op {
        MPI_SUM => (Operation::Sum, Some(one(origin)?)),
        MPI_REPLACE => (Operation::Replace, Some(one(origin)?)),
        // Its origin is not looked at (MPI-5.0 §12.3.4).
        MPI_NO_OP => (Operation::NoOp, None),
        _ => return None,
    };
    let mut windows = win::table().ok()?;
    let (shared, place) = windows.find_mut(at.win)?.shared_part(at.rank, at.disp, bytes, false)?;
    let word = shared.word(place, bytes)?;
    shared.begin_words(at.rank as u32);
    rma::accumulate_integer(&word, source.as_ref(), fetched.as_ref(), operation).then_some(())
}

/// An accumulate of one element that the processor changes as a whole. `None`: it is another, or something is
/// wrong.
#[inline(never)]
fn change_word(origin: Elements, result: Option<Elements>, at: At, op: MPI_Op) -> Option<()> {
    let bytes = datatype::plain_bytes(at.datatype);
    if at.count != 1 || (bytes != 4 && bytes != 8) {
        return None;
    }
    let operation = op::predefined(op)?;
    let one = |elements: Elements| {
        let is_one = elements.count == 1 && elements.datatype == at.datatype;
        message::plain(elements.memory, 1, at.datatype).filter(|_| is_one)
    };
    let source = match operation {
        // Its origin is not looked at (MPI-5.0 §12.3.4).
        Operation::NoOp => None,
        _ => Some(one(origin)?),
    };
    let fetched = match result {
        Some(result) => Some(one(result)?),
        None => None,
    };
    if source.is_none() && fetched.is_none() {
        return None;
    }
    let basic = datatype::basic(at.datatype)?.predefined;
    let mut windows = win::table().ok()?;
    let (shared, place) = windows.find_mut(at.win)?.shared_part(at.rank, at.disp, bytes, false)?;
    let word = shared.word(place, bytes)?;
    shared.begin_words(at.rank as u32);
    // It fails before it does anything.
    rma::accumulate_word(&word, source.as_ref(), fetched.as_ref(), (operation, basic)).ok()
}

/// An accumulate on plain elements.
#[inline(never)]
fn accumulate_plain(
    origin: Elements,
    result: Option<Elements>,
    at: At,
    op: MPI_Op,
    is_requested: bool,
) -> bool {
    let all = || {
        let operation = op::predefined(op).filter(|operation| *operation != Operation::NoOp)?;
        let memory = origin_of(origin, at).filter(|memory| memory.len() <= SHARED_BYTES_MAX)?;
        let old = match result {
            None => None,
            Some(result) => Some(
                message::plain(result.memory, result.count, result.datatype)
                    .filter(|old| old.len() == memory.len())?,
            ),
        };
        Some((operation, datatype::basic(at.datatype)?.predefined, memory, old))
    };
    let Some((operation, basic, memory, old)) = all() else { return false };
    let Ok(mut windows) = win::table() else { return false };
    let Some(win) = windows.find_mut(at.win) else { return false };
    let Some((shared, place)) = win.shared_part(at.rank, at.disp, memory.len(), true) else {
        let is_for_core = memory.len() <= rma::ROW_BYTES_MAX && !(is_requested && old.is_some());
        let Some(row) = win.row(at.rank, at.disp, memory.len()).filter(|_| is_for_core) else { return false };
        drop(windows);
        let what = (operation, basic);
        return is_begun(|machine| {
            machine.core.windows().accumulate_row(&mut machine.device, row, (memory, old), what)
        });
    };
    let target = shared.buffer(place, memory.len()).into();
    let ends = (Some(memory.into()), old.map(Into::into));
    // It fails before it does anything.
    accumulate_under_lock((shared, at.rank as u32), &target, ends, (operation, basic)).is_ok()
}

/// An accumulate under the lock of the target's memory, in which others may change words without it.
pub(super) fn accumulate_under_lock(
    (shared, rank): (&SharedMemory, Rank),
    target: &Sink,
    (source, fetched): (Option<Source>, Option<Sink>),
    what: (Operation, Predefined),
) -> Result<(), ayatori_core::Error> {
    let _locked = shared.lock(rank as usize);
    if shared.has_words(rank) {
        let word = |buffer: &Buffer| shared.word_of(buffer);
        return rma::accumulate_by_words(target, source.as_ref(), fetched.as_ref(), what, word);
    }
    rma::accumulate(target, source.as_ref(), fetched.as_ref(), what)
}

/// `MPI_Compare_and_swap` of a word in shared memory. `None`: it is another element, or something is wrong.
#[inline(always)]
pub(super) fn compare_and_swap(
    (origin, compare, result): (*const c_void, *const c_void, *const c_void),
    at: At,
) -> Option<()> {
    let bytes = datatype::plain_bytes(at.datatype);
    if (bytes != 4 && bytes != 8) || !is_swappable(datatype::basic(at.datatype)?.predefined) {
        return None;
    }
    let one = |memory| message::plain(memory, 1, at.datatype);
    let (origin, compare, result) = (one(origin)?, one(compare)?, one(result)?);
    let mut windows = win::table().ok()?;
    let (shared, place) = windows.find_mut(at.win)?.shared_part(at.rank, at.disp, bytes, false)?;
    let word = shared.word(place, bytes)?;
    shared.begin_words(at.rank as u32);
    rma::compare_and_swap_word(&word, &compare, &origin, &result);
    Some(())
}

/// Whether `MPI_Compare_and_swap` takes a type (MPI-5.0 §12.3.4).
pub(super) fn is_swappable(basic: Predefined) -> bool {
    use Class::{Byte, CInteger, FortranInteger, Logical, MultiLanguage};
    matches!(basic.class(), CInteger | FortranInteger | Logical | MultiLanguage | Byte)
}
