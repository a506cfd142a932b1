//! Windows at this side of the boundary: the state of a handle, and the open epochs (MPI-5.0 §12). The core
//! accesses the memory (`ayatori_core::rma`), except if all members share it: then calls access it
//! themselves.

use crate::abi::*;
use crate::attribute::Attributes;
use crate::fault::{Fault, fault};
use crate::handle::Table;
use crate::info::Info;
use crate::lock::{Elided, Guard};
use crate::phase;
use ayatori_core::group::Group;
use ayatori_core::ids::{CommId, ProcessId, Rank};
use ayatori_core::layout::{Layout, Region};
use ayatori_core::rma::{FENCE_MEMBERS_MAX, Place, WindowId};
use ayatori_core::transfer::Sink;
use ayatori_devices::shm::SharedMemory;
use ayatori_devices::threads::full_fence;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

static TABLE: Elided<Table<MPI_Win, Win>> = Elided::new(Table::new());

/// The windows of the running process, locked. If both are locked, after the process: a holder of this does
/// not lock the process.
pub(crate) fn table() -> Result<Guard<'static, Table<MPI_Win, Win>>, Fault> {
    phase::check_running()?;
    Ok(TABLE.lock())
}

/// The error handler of a window.
pub(crate) fn errhandler_of(win: MPI_Win) -> Option<MPI_Errhandler> {
    TABLE.lock().get(win, "win").ok().map(|win| win.errhandler)
}

/// The name of a window.
pub(crate) fn name_of(win: MPI_Win) -> Option<Vec<u8>> {
    TABLE.lock().get(win, "win").ok().map(|win| win.name.clone())
}

/// A window behind a handle.
pub(crate) struct Win {
    /// `MPI_Win_get_name`
    pub(crate) name: Vec<u8>,
    /// Its error handler, of which it is a user.
    pub(crate) errhandler: MPI_Errhandler,
    /// Cached attributes.
    pub(crate) attributes: Attributes,
    /// The hints in use.
    pub(crate) info: Info,
    /// Its private communicator.
    pub(crate) comm: CommId,
    /// The core's name of it.
    pub(crate) id: WindowId,
    /// The members.
    pub(crate) group: Group,
    /// This process' rank.
    pub(crate) rank: Rank,
    /// The members' memory.
    pub(crate) parts: Arc<[Part]>,
    /// Memory that the library has made for it.
    pub(crate) shared: Option<Arc<SharedMemory>>,
    /// Whether all members have mapped that.
    pub(crate) is_mapped_by_all: bool,
    /// The locks of the members' epochs, if all share memory: [`shared`](Self::shared), or made for them.
    pub(crate) locks: Option<Arc<SharedMemory>>,
    /// Calls that have passed the engine by.
    pub(crate) quick_count: u32,
    /// Calls have stored to memory that all members map since the last fence.
    pub(crate) has_stored: bool,
    /// Which epochs are open.
    pub(crate) epochs: Epochs,
    /// Memory attached to a dynamic window: addresses and lengths.
    pub(crate) attached: Vec<(usize, usize)>,
    /// The values of predefined attributes, whose addresses users get.
    pub(crate) values: Box<Values>,
}

/// A member's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// Length in bytes.
    pub(crate) bytes: usize,
    /// Bytes of a unit of displacement.
    pub(crate) unit: usize,
    /// Its address in its process, where a put or get may go there.
    pub(crate) address: Option<u64>,
    /// Where it begins in shared memory.
    pub(crate) shared_at: usize,
}

/// The values of predefined attributes.
pub(crate) struct Values {
    /// The address of this process' memory.
    pub(crate) base: UserPointer,
    /// `MPI_WIN_SIZE`
    pub(crate) size: MPI_Aint,
    /// `MPI_WIN_DISP_UNIT`
    pub(crate) disp_unit: c_int,
    /// `MPI_WIN_CREATE_FLAVOR`
    pub(crate) flavor: c_int,
    /// `MPI_WIN_MODEL`
    pub(crate) model: c_int,
}

/// Which epochs are open (MPI-5.0 §12.5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    /// A fence has opened one; whether something was done in it.
    fence: Option<bool>,
    /// The targets of `MPI_Win_start`.
    started: Option<Vec<Rank>>,
    /// The origins of `MPI_Win_post`.
    posted: Option<Vec<Rank>>,
    /// Locks held at targets, by rank; as long as the highest rank ever locked.
    locked: Vec<Option<Held>>,
    /// Locked targets.
    locked_count: usize,
    /// `MPI_Win_lock_all`, and whether targets were asked.
    locked_all: Option<bool>,
}

/// How the members of a window meet in a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FenceWay {
    /// All operations are loads and stores, and over: the members only meet.
    Barrier,
    /// Operations are messages, and members few: one message each way.
    Exchange,
    /// Operations are messages.
    FlushAndBarrier,
}

/// Which lock of a target an epoch holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// None: the program says that it needs none (`MPI_MODE_NOCHECK`).
    Nothing,
    /// One of many.
    Shared,
    /// The only one.
    Exclusive,
}

impl Held {
    pub(crate) fn by(is_exclusive: bool) -> Self {
        if is_exclusive { Self::Exclusive } else { Self::Shared }
    }
}

#[cold]
fn wrong(what: std::fmt::Arguments<'_>) -> Fault {
    fault(MPI_ERR_RMA_SYNC, what)
}

impl Epochs {
    /// Whether an epoch other than a fence's is open.
    fn is_busy(&self) -> bool {
        self.started.is_some() || self.locked_count > 0 || self.locked_all.is_some()
    }

    /// A fence's epoch in which nothing was done ends without a call.
    fn leave_fence(&mut self) -> Result<(), Fault> {
        match self.fence {
            Some(true) => Err(wrong(format_args!(
                "operations were started after MPI_Win_fence: end them with another fence first"
            ))),
            _ => {
                self.fence = None;
                Ok(())
            }
        }
    }

    fn check_idle(&mut self) -> Result<(), Fault> {
        if self.is_busy() {
            return Err(wrong(format_args!("another access epoch of this window is open")));
        }
        self.leave_fence()
    }

    /// Whether an operation on a target may begin; in a fence's epoch it is one now in which something was
    /// done.
    #[inline(always)]
    fn is_open(&mut self, rank: Rank) -> bool {
        let is_open = self.locked_all.is_some()
            || self.held_at(rank).is_some()
            || self.started.as_ref().is_some_and(|targets| targets.contains(&rank));
        if !is_open && let Some(is_used) = &mut self.fence {
            *is_used = true;
            return true;
        }
        is_open
    }

    /// An operation on a target.
    pub(crate) fn access(&mut self, rank: Rank) -> Result<(), Fault> {
        if self.is_open(rank) {
            return Ok(());
        }
        Err(wrong(format_args!(
            "no access epoch with rank {rank} is open: call MPI_Win_fence, MPI_Win_start or MPI_Win_lock first"
        )))
    }

    /// `MPI_Win_fence` may be called.
    pub(crate) fn check_fence(&self) -> Result<(), Fault> {
        if self.is_busy() || self.posted.is_some() {
            return Err(wrong(format_args!("an epoch of this window that is not a fence's is open")));
        }
        Ok(())
    }

    /// A fence is over; whether another epoch begins.
    pub(crate) fn fenced(&mut self, opens: bool) {
        self.fence = opens.then_some(false);
    }

    pub(crate) fn start(&mut self, targets: Vec<Rank>) -> Result<(), Fault> {
        self.check_idle()?;
        self.started = Some(targets);
        Ok(())
    }

    pub(crate) fn complete(&mut self) -> Result<Vec<Rank>, Fault> {
        self.started.take().ok_or_else(|| wrong(format_args!("MPI_Win_start was not called")))
    }

    pub(crate) fn post(&mut self, origins: Vec<Rank>) -> Result<(), Fault> {
        if self.posted.is_some() {
            return Err(wrong(format_args!("MPI_Win_post was called before, and MPI_Win_wait was not")));
        }
        self.leave_fence()?;
        self.posted = Some(origins);
        Ok(())
    }

    /// The ranks that `MPI_Win_wait` and `MPI_Win_test` wait for.
    pub(crate) fn posted(&self) -> Result<Vec<Rank>, Fault> {
        self.posted.clone().ok_or_else(|| wrong(format_args!("MPI_Win_post was not called")))
    }

    pub(crate) fn waited(&mut self) {
        self.posted = None;
    }

    pub(crate) fn lock(&mut self, rank: Rank, held: Held) -> Result<(), Fault> {
        if !self.may_lock(rank) {
            return Err(wrong(format_args!("rank {rank} is locked, or another access epoch is open")));
        }
        self.leave_fence()?;
        self.hold(rank, held);
        Ok(())
    }

    #[inline(always)]
    fn held_at(&self, rank: Rank) -> Option<Held> {
        *self.locked.get(rank as usize)?
    }

    /// The targets that are locked one by one, or are about to be.
    pub(crate) fn held_targets(&self) -> impl Iterator<Item = Rank> + '_ {
        let is_held = |held: &Option<Held>| held.is_some_and(|held| held != Held::Nothing);
        (0..).zip(&self.locked).filter(move |(_, held)| is_held(held)).map(|(rank, _)| rank)
    }

    /// Whether all are locked by `MPI_Win_lock_all`, or are about to be.
    pub(crate) fn holds_all(&self) -> bool {
        self.locked_all == Some(true)
    }

    #[inline(always)]
    fn may_lock(&self, rank: Rank) -> bool {
        self.started.is_none() && self.locked_all.is_none() && self.held_at(rank).is_none()
    }

    #[inline(always)]
    fn hold(&mut self, rank: Rank, held: Held) {
        let at = rank as usize;
        if at >= self.locked.len() {
            self.locked.resize(at + 1, None);
        }
        self.locked[at] = Some(held);
        self.locked_count += 1;
    }

    #[inline(always)]
    fn release(&mut self, rank: Rank) -> Option<Held> {
        let held = self.locked.get_mut(rank as usize)?.take()?;
        self.locked_count -= 1;
        Some(held)
    }

    pub(crate) fn unlock(&mut self, rank: Rank) -> Result<Held, Fault> {
        self.release(rank).ok_or_else(|| wrong(format_args!("rank {rank} is not locked")))
    }

    pub(crate) fn lock_all(&mut self, asks: bool) -> Result<(), Fault> {
        self.check_idle()?;
        self.locked_all = Some(asks);
        Ok(())
    }

    pub(crate) fn unlock_all(&mut self) -> Result<bool, Fault> {
        self.locked_all.take().ok_or_else(|| wrong(format_args!("MPI_Win_lock_all was not called")))
    }

    /// A passive epoch with a target, or with any.
    pub(crate) fn check_locked(&self, rank: Option<Rank>) -> Result<(), Fault> {
        let is_locked = match rank {
            Some(rank) => self.held_at(rank).is_some(),
            None => self.locked_count > 0,
        };
        if is_locked || self.locked_all.is_some() {
            return Ok(());
        }
        Err(wrong(format_args!("no lock of this window is held")))
    }

    /// The window may be freed.
    pub(crate) fn check_free(&self) -> Result<(), Fault> {
        if self.is_busy() || self.posted.is_some() {
            return Err(wrong(format_args!("an epoch of the window is open")));
        }
        Ok(())
    }
}

/// Where an operation works.
pub(crate) struct Target {
    /// The window.
    pub(crate) id: WindowId,
    /// The target.
    pub(crate) rank: Rank,
    /// Where in its memory.
    pub(crate) place: Place,
    /// That memory itself, if it is shared, and whose lock it has.
    pub(crate) direct: Option<Direct>,
}

/// The memory of an operation in shared memory.
pub(crate) struct Direct {
    /// The shared memory.
    pub(crate) memory: Arc<SharedMemory>,
    /// The elements.
    pub(crate) elements: Sink,
}

impl Win {
    /// The memory that all members map, and the place in it of an operation on a member's bytes, which may
    /// store there (`stores`). `None`: there is no such memory, or an argument is wrong;
    /// [`target`](Self::target), which takes longer, says which.
    #[inline(always)]
    pub(crate) fn shared_part(
        &mut self,
        rank: c_int,
        disp: MPI_Aint,
        bytes: usize,
        stores: bool,
    ) -> Option<(&SharedMemory, usize)> {
        let rank = Rank::try_from(rank).ok()?;
        let part = self.parts.get(rank as usize)?;
        let first = usize::try_from(disp).ok()?.checked_mul(part.unit)?;
        let is_inside = first <= part.bytes && bytes <= part.bytes - first;
        if !is_inside || !self.is_mapped_by_all || !self.epochs.is_open(rank) {
            return None;
        }
        self.has_stored |= stores;
        Some((self.shared.as_deref()?, part.shared_at + first))
    }

    /// Where the core works on contiguous `bytes` of a member. `None`: the memory is shared by all, or an
    /// argument is wrong.
    #[inline(always)]
    pub(crate) fn row(&mut self, rank: c_int, disp: MPI_Aint, bytes: usize) -> Option<(WindowId, Rank, i64)> {
        let rank = Rank::try_from(rank).ok()?;
        let part = self.parts.get(rank as usize)?;
        let first = usize::try_from(disp).ok()?.checked_mul(part.unit)?;
        let is_inside = first <= part.bytes && bytes <= part.bytes - first;
        let is_shared = self.is_mapped_by_all && self.shared.is_some();
        (is_inside && !is_shared && self.epochs.is_open(rank)).then_some((self.id, rank, first as i64))
    }

    /// Whether a call that ends operations may pass the engine by: all of them are loads and stores. Now and
    /// then it may not, for a program that calls nothing else is to make progress.
    #[inline(always)]
    pub(crate) fn passes_engine_by(&mut self) -> bool {
        const QUICK_MAX: u32 = 64;
        self.quick_count = (self.quick_count + 1) % QUICK_MAX;
        self.is_mapped_by_all && self.shared.is_some() && self.quick_count > 0
    }

    /// How its members meet in a fence. All say the same.
    #[inline]
    pub(crate) fn fence_way(&self) -> FenceWay {
        if self.is_mapped_by_all && self.shared.is_some() {
            FenceWay::Barrier
        } else if self.group.size() <= FENCE_MEMBERS_MAX {
            FenceWay::Exchange
        } else {
            FenceWay::FlushAndBarrier
        }
    }

    /// Ends operations on a target, or on all, in a passive epoch in which nothing can have been done but
    /// loads and stores. `false`: nothing is done; there may be more to do, or something is wrong.
    #[inline(always)]
    pub(crate) fn flush_at_once(&mut self, rank: Option<c_int>) -> bool {
        let is_locked = |rank| {
            let rank = Rank::try_from(rank).ok().filter(|rank| (*rank as usize) < self.parts.len());
            rank.is_some_and(|rank| self.epochs.locked_all.is_some() || self.epochs.held_at(rank).is_some())
        };
        let is_open =
            rank.map_or(self.epochs.locked_all.is_some() || self.epochs.locked_count > 0, is_locked);
        if !is_open || !self.passes_engine_by() {
            return false;
        }
        // On x86-64 only stores before loads are reordered, so only stores need the fence.
        let is_fence_due = self.has_stored || !cfg!(target_arch = "x86_64");
        self.has_stored = false;
        if is_fence_due {
            full_fence();
        } else {
            compiler_fence(Ordering::SeqCst);
        }
        true
    }

    /// Begins an epoch with the lock of a target, if the lock is a free word in shared memory. `false`:
    /// nothing is done; the lock is another's, or something is wrong.
    #[inline(always)]
    pub(crate) fn lock_at_once(&mut self, rank: c_int, is_exclusive: bool) -> bool {
        let Some(rank) = Rank::try_from(rank).ok().filter(|rank| (*rank as usize) < self.parts.len()) else {
            return false;
        };
        let is_locked = self.epochs.fence.is_none()
            && self.epochs.may_lock(rank)
            && self
                .locks
                .as_ref()
                .is_some_and(|locks| locks.try_epoch(rank, is_exclusive.then_some(self.rank)));
        if is_locked {
            self.epochs.hold(rank, Held::by(is_exclusive));
        }
        is_locked
    }

    /// Ends an epoch in which nothing can have been done but loads and stores. `false`: nothing is done;
    /// there may be more to do, or something is wrong.
    #[inline(always)]
    pub(crate) fn unlock_at_once(&mut self, rank: c_int) -> bool {
        let Some(rank) = Rank::try_from(rank).ok().filter(|rank| self.epochs.held_at(*rank).is_some()) else {
            return false;
        };
        if self.locks.is_none() || !self.passes_engine_by() {
            return false;
        }
        self.end_epoch(rank);
        true
    }

    /// The target of an epoch that has its lock as a word in shared memory, and the core's name of the
    /// window. `None`: the lock is no word, or something is wrong.
    #[inline(always)]
    pub(crate) fn target_of_epoch(&self, rank: c_int) -> Option<(WindowId, Rank)> {
        let rank = Rank::try_from(rank).ok()?;
        (self.locks.is_some() && self.epochs.held_at(rank).is_some()).then_some((self.id, rank))
    }

    /// Ends an epoch, in which nothing is under way, and gives the lock in shared memory back that it holds.
    #[inline(always)]
    pub(crate) fn end_epoch(&mut self, rank: Rank) {
        if let (Some(held), Some(locks)) = (self.epochs.release(rank), &self.locks)
            && held != Held::Nothing
        {
            locks.end_epoch(rank, held == Held::Exclusive);
        }
    }

    /// The process whose memory an operation on `bytes` accesses, and their address there. `None`: the memory
    /// is not accessible so, the target is this process, or an argument is wrong.
    pub(crate) fn address_part(
        &mut self,
        rank: c_int,
        disp: MPI_Aint,
        bytes: usize,
    ) -> Option<(ProcessId, u64)> {
        let rank = Rank::try_from(rank).ok().filter(|rank| *rank != self.rank)?;
        let part = self.parts.get(rank as usize)?;
        let first = usize::try_from(disp).ok()?.checked_mul(part.unit)?;
        let is_inside = first <= part.bytes && bytes <= part.bytes - first;
        let address = part.address.filter(|_| is_inside && self.epochs.is_open(rank))?;
        Some((self.group.process(rank)?, address + first as u64))
    }

    /// Checks the target of an operation; `None` for `MPI_PROC_NULL`.
    pub(crate) fn target(
        &mut self,
        rank: c_int,
        disp: MPI_Aint,
        (layout, count): (&Layout, usize),
    ) -> Result<Option<Target>, Fault> {
        let Some(rank) = self.rank(rank, "target_rank")? else { return Ok(None) };
        self.epochs.access(rank)?;
        let is_dynamic = self.values.flavor == MPI_WIN_FLAVOR_DYNAMIC;
        let part = self.parts[rank as usize];
        let span = layout.span(count)?;
        let displacement = if is_dynamic { Some(disp as i64) } else { times(disp, part.unit) };
        if !is_dynamic && disp < 0 {
            return Err(fault(MPI_ERR_DISP, format_args!("argument target_disp is negative ({disp})")));
        }
        let outside = || {
            fault(
                MPI_ERR_RMA_RANGE,
                format_args!(
                    "displacement {disp} with so many elements reaches beyond the {} bytes that rank {rank} has in the window",
                    part.bytes
                ),
            )
        };
        let displacement = displacement.ok_or_else(outside)?;
        let first = displacement.wrapping_add(span.lowest as i64);
        let fits = span.len == 0
            || (first >= 0
                && (first as u64).checked_add(span.len as u64).is_some_and(|end| end <= part.bytes as u64));
        if !is_dynamic && !fits {
            return Err(outside());
        }
        let place = Place { displacement, layout: layout.clone(), count };
        let direct = match &self.shared {
            Some(memory) if self.is_mapped_by_all && span.len > 0 => {
                self.has_stored = true;
                let buffer = memory.buffer(part.shared_at + first as usize, span.len);
                let elements = Region::new(layout.clone(), count, buffer)?.into();
                Some(Direct { memory: memory.clone(), elements })
            }
            _ => None,
        };
        Ok(Some(Target { id: self.id, rank, place, direct }))
    }

    /// A rank that a call names; `None` for `MPI_PROC_NULL`.
    pub(crate) fn rank(&self, rank: c_int, name: &str) -> Result<Option<Rank>, Fault> {
        if rank == MPI_PROC_NULL {
            return Ok(None);
        }
        let size = self.group.size();
        let known = Rank::try_from(rank).ok().filter(|rank| *rank < size);
        let unknown = || {
            fault(
                MPI_ERR_RANK,
                format_args!("argument {name} ({rank}) is not a rank: the window has {size} processes"),
            )
        };
        known.map(Some).ok_or_else(unknown)
    }

    /// The ranks of a group's members.
    pub(crate) fn ranks_of(&self, group: &Group) -> Result<Vec<Rank>, Fault> {
        let rank = |process| {
            self.group.rank_of(process).ok_or_else(|| {
                fault(
                    MPI_ERR_GROUP,
                    format_args!("argument group has a process that is not in the window's group"),
                )
            })
        };
        group.iter().map(rank).collect()
    }
}

fn times(disp: MPI_Aint, unit: usize) -> Option<i64> {
    (disp as i64).checked_mul(i64::try_from(unit).ok()?)
}

/// Whether a text is a value that a hint can have.
type IsValue = fn(&str) -> bool;

/// The hints that windows know (MPI-5.0 §12.2), what holds without them, and which values they take.
const HINTS: &[(&str, &str, IsValue)] = &[
    ("no_locks", "false", is_boolean),
    ("accumulate_ordering", "rar,raw,war,waw", is_ordering),
    ("accumulate_ops", "same_op_no_op", |value| matches!(value, "same_op" | "same_op_no_op")),
    ("mpi_accumulate_granularity", "0", |value| value.parse::<u64>().is_ok()),
    ("same_size", "false", is_boolean),
    ("same_disp_unit", "false", is_boolean),
    (NONCONTIG, "false", is_boolean),
];

/// The hint that parts of shared memory need not follow each other. It is for the making of a window.
pub(crate) const NONCONTIG: &str = "alloc_shared_noncontig";

fn is_boolean(value: &str) -> bool {
    matches!(value, "true" | "false")
}

fn is_ordering(value: &str) -> bool {
    value == "none" || value.split(',').all(|pair| matches!(pair, "rar" | "raw" | "war" | "waw"))
}

/// The hints in use: those known, as given or as they hold anyway.
pub(crate) fn hints(given: MPI_Info) -> Result<Info, Fault> {
    let mut info = Info::default();
    HINTS.iter().for_each(|(key, value, _)| info.put(key, value));
    if given != MPI_INFO_NULL {
        crate::info::with(given, |given| {
            take_hints(&mut info, given, |_| true);
            Ok(())
        })?;
    }
    Ok(info)
}

/// Takes over the hints for a window that is there.
pub(crate) fn change_hints(info: &mut Info, given: MPI_Info) -> Result<(), Fault> {
    if given == MPI_INFO_NULL {
        return Ok(());
    }
    crate::info::with(given, |given| {
        take_hints(info, given, |key| key != NONCONTIG);
        Ok(())
    })
}

/// Takes over the hints that are known and wanted, if their values mean something.
fn take_hints(info: &mut Info, given: &Info, is_wanted: impl Fn(&str) -> bool) {
    for (key, _, is_value) in HINTS {
        let value = given.get(key.as_bytes()).and_then(|value| std::str::from_utf8(value).ok());
        if let Some(value) = value.filter(|value| is_wanted(key) && is_value(value)) {
            info.put(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrong<T: std::fmt::Debug>(result: Result<T, Fault>) -> bool {
        result.is_err_and(|fault| fault.code() == MPI_ERR_RMA_SYNC)
    }

    #[test]
    fn an_operation_needs_an_epoch() {
        let mut epochs = Epochs::default();
        assert!(is_wrong(epochs.access(0)));
        epochs.fenced(true);
        epochs.access(0).unwrap();
        assert!(
            is_wrong(epochs.start(vec![1]))
                && is_wrong(epochs.lock(0, Held::Shared))
                && is_wrong(epochs.lock_all(true))
        );
        epochs.check_fence().unwrap();
        epochs.fenced(false);
        assert!(is_wrong(epochs.access(0)));
        epochs.start(vec![1]).unwrap();
        epochs.access(1).unwrap();
        assert!(
            is_wrong(epochs.access(0)) && is_wrong(epochs.check_fence()) && is_wrong(epochs.check_free())
        );
        assert_eq!(epochs.complete().unwrap(), [1]);
        assert!(is_wrong(epochs.complete()));
    }

    #[test]
    fn an_unused_fence_gives_way_to_other_epochs() {
        let mut epochs = Epochs::default();
        epochs.fenced(true);
        epochs.lock(2, Held::Shared).unwrap();
        assert!(is_wrong(epochs.lock(2, Held::Shared)) && is_wrong(epochs.lock_all(true)));
        assert!(is_wrong(epochs.access(1)));
        epochs.check_locked(Some(2)).unwrap();
        assert!(is_wrong(epochs.check_locked(Some(1))) && is_wrong(epochs.unlock(1)));
        assert_eq!(epochs.unlock(2).unwrap(), Held::Shared);
        assert!(is_wrong(epochs.check_locked(None)) && is_wrong(epochs.unlock_all()));
        epochs.post(vec![0]).unwrap();
        assert!(is_wrong(epochs.post(vec![0])) && is_wrong(epochs.check_fence()));
        epochs.waited();
        assert!(is_wrong(epochs.posted()));
    }

    #[test]
    fn a_hint_takes_only_values_that_mean_something() {
        let mut info = Info::default();
        HINTS.iter().for_each(|(key, value, _)| info.put(key, value));
        let mut given = Info::default();
        for (key, value) in [
            ("no_locks", "banana"),
            ("same_size", "true"),
            ("accumulate_ordering", "rar,rar,banana"),
            ("accumulate_ops", "same_op"),
            ("mpi_accumulate_granularity", "-1"),
            (NONCONTIG, "true"),
            ("unheard_of", "true"),
        ] {
            given.put(key, value);
        }
        take_hints(&mut info, &given, |key| key != NONCONTIG);
        let value =
            |key: &str| info.get(key.as_bytes()).map(|value| String::from_utf8(value.to_vec()).unwrap());
        assert_eq!(value("no_locks").as_deref(), Some("false"));
        assert_eq!(value("same_size").as_deref(), Some("true"));
        assert_eq!(value("accumulate_ordering").as_deref(), Some("rar,raw,war,waw"));
        assert_eq!(value("accumulate_ops").as_deref(), Some("same_op"));
        assert_eq!(value("mpi_accumulate_granularity").as_deref(), Some("0"));
        assert_eq!(value(NONCONTIG).as_deref(), Some("false"));
        assert_eq!(value("unheard_of"), None);
    }

    #[test]
    fn the_orders_of_accumulates_are_a_list_or_none() {
        assert!(["none", "rar", "waw,rar", "rar,raw,war,waw"].into_iter().all(is_ordering));
        assert!(!["", "rar,", "none,rar", "RAR", "rar, raw"].into_iter().any(is_ordering));
        assert!(HINTS.iter().all(|(_, value, is_value)| is_value(value)));
    }
}
