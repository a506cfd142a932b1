//! Epochs: fences, groups that start and post, locks, flushes (MPI-5.0 §12.5).

use super::window::{barrier, exchange_fences, wait_for_flush, wait_on};
use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::runtime::machine::Machine;
use crate::runtime::sleepers;
use crate::runtime::wait::{found_nothing, wait_until};
use crate::state::process;
use crate::why::Waits;
use crate::win::{self, Epochs, FenceWay, Held, Win};
use ayatori_core::ids::Rank;
use ayatori_core::rma::WindowId;
use ayatori_devices::shm::SharedMemory;
use ayatori_devices::threads::full_fence;
use std::ffi::c_int;

/// Looks at a window or changes its epochs.
fn with<R>(win: MPI_Win, work: impl FnOnce(&mut Win) -> Result<R, Fault>) -> Result<R, Fault> {
    work(win::table()?.get_mut(win, "win")?)
}

/// Does work at once that needs neither the engine nor a wait; returns whether it did. Errors are left to the
/// slow path, which reports them.
#[inline(always)]
fn at_once(win: MPI_Win, work: impl FnOnce(&mut Win) -> bool) -> bool {
    let Ok(mut windows) = win::table() else { return false };
    let Some(win) = windows.find_mut(win) else { return false };
    work(win)
}

/// Checks the assertions of a call and changes the epochs.
fn epochs<R>(
    win: MPI_Win,
    (assert, allowed): (c_int, c_int),
    work: impl FnOnce(&mut Epochs, &Win0) -> Result<R, Fault>,
) -> Result<(WindowId, R), Fault> {
    with(win, |win| {
        check_assertions(assert, allowed)?;
        let known = Win0 { id: win.id, size: win.group.size() };
        Ok((known.id, work(&mut win.epochs, &known)?))
    })
}

fn check_assertions(assert: c_int, allowed: c_int) -> Result<(), Fault> {
    if assert & !allowed != 0 {
        return Err(fault(
            MPI_ERR_ASSERT,
            format_args!("argument assert ({assert}) has bits that mean nothing here"),
        ));
    }
    Ok(())
}

/// Facts about a window that epochs need.
struct Win0 {
    id: WindowId,
    size: u32,
}

/// The ranks of a group of the caller's in a window.
fn ranks(group: MPI_Group, win: MPI_Win) -> Result<Vec<Rank>, Fault> {
    // The window first, so that a bad handle is reported first.
    with(win, |_| Ok(()))?;
    let group = process()?.groups.get(group, "group")?.members.clone();
    with(win, |win| win.ranks_of(&group))
}

/// Makes other processes' accesses to shared memory before they synchronized visible after this, and the
/// reverse.
fn order_memory() {
    full_fence();
}

/// What a call does that has nothing to wait for: a program may call it again and again until another process
/// has done something here.
fn make_progress() -> Result<(), Fault> {
    process()?.progress();
    Ok(())
}

#[inline(always)]
fn flush(win: MPI_Win, rank: Option<c_int>, is_local: bool) -> Result<(), Fault> {
    if at_once(win, |win| win.flush_at_once(rank)) {
        return Ok(());
    }
    flush_any(win, rank, is_local)
}

#[inline(never)]
fn flush_any(win: MPI_Win, rank: Option<c_int>, is_local: bool) -> Result<(), Fault> {
    let mut is_done = false;
    let target = with(win, |win| {
        let rank = match rank {
            Some(rank) => match win.rank(rank, "rank")? {
                Some(rank) => Some(rank),
                None => return Ok(None),
            },
            None => None,
        };
        win.epochs.check_locked(rank)?;
        is_done = win.passes_engine_by();
        Ok(Some((win.id, rank)))
    })?;
    let Some((id, rank)) = target else { return Ok(()) };
    order_memory();
    match (is_done, is_local) {
        (true, _) => make_progress(),
        (_, false) => wait_for_flush(id, rank),
        (_, true) => wait_on(|Machine { core, device, .. }| core.windows().flush(device, id, rank, is_local)),
    }
}

/// Takes locks in shared memory. A waiting thread polls at intervals, because no release wakes it. A lost
/// member may hold a lock.
fn take(win: MPI_Win, locks: &SharedMemory, targets: &[Rank], is_exclusive: bool) -> Result<(), Fault> {
    let (comm, me) = with(win, |win| Ok((win.comm, win.rank)))?;
    let alone = is_exclusive.then_some(me);
    if locks.try_epochs(targets, alone) {
        return Ok(());
    }
    let target = if let [target] = targets { Some(*target) } else { None };
    sleepers::begin_outside();
    let taken = wait_until(Waits::Lock { win, target, is_exclusive }, |process| {
        if locks.try_epochs(targets, alone) {
            return Ok(Some(()));
        }
        process.engine().core.lost_in(comm).map_or(Ok(None), |error| Err(error.into()))
    });
    sleepers::end_outside();
    taken
}

fn lock(win: MPI_Win, targets: Vec<Rank>, id: WindowId, is_exclusive: bool) -> Result<(), Fault> {
    let locks = with(win, |win| Ok(win.locks.clone()))?;
    let locked = match locks {
        Some(locks) => take(win, &locks, &targets, is_exclusive),
        None => wait_on(|Machine { core, device, .. }| {
            core.windows().lock(device, id, targets.clone(), is_exclusive)
        }),
    };
    if locked.is_err() {
        // It does not hold: the epoch ends.
        with(win, |win| {
            let _ = match targets[..] {
                [target] => win.epochs.unlock(target).map(drop),
                _ => win.epochs.unlock_all().map(drop),
            };
            Ok(())
        })?;
    }
    order_memory();
    locked
}

fn unlock(win: MPI_Win, targets: Vec<Rank>, id: WindowId, held: Held) -> Result<(), Fault> {
    order_memory();
    let (locks, is_done) = with(win, |win| Ok((win.locks.clone(), win.passes_engine_by())))?;
    let Some(locks) = locks else {
        return wait_on(|Machine { core, device, .. }| {
            core.windows().unlock(device, id, targets, held != Held::Nothing)
        });
    };
    // Earlier operations end first.
    let done = match (is_done, &targets[..]) {
        (true, _) => make_progress(),
        (false, &[target]) => wait_for_flush(id, Some(target)),
        _ => {
            wait_on(|Machine { core, device, .. }| core.windows().unlock(device, id, targets.clone(), false))
        }
    };
    if held != Held::Nothing {
        locks.end_epochs(&targets, held == Held::Exclusive);
    }
    done
}

/// Ends an epoch with a target whose lock is a word in shared memory. `None`: nothing is done; the lock is
/// none, or something is wrong.
#[inline]
fn unlock_word(win: MPI_Win, rank: c_int) -> Option<Result<(), Fault>> {
    let (id, target) = win::table().ok()?.find_mut(win)?.target_of_epoch(rank)?;
    order_memory();
    // Earlier operations end first.
    let done = wait_for_flush(id, Some(target));
    let ended = with(win, |win| {
        win.end_epoch(target);
        Ok(())
    });
    Some(done.and(ended))
}

const FENCE: c_int = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
const POST: c_int = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;

api! {
    /// MPI-5.0 §12.5.1. Also a barrier, whatever is asserted: what others do must not come before this
    /// process is ready.
    fn MPI_Win_fence(assert: c_int, win: MPI_Win) on win {
        let (id, comm, way) = with(win, |win| {
            check_assertions(assert, FENCE)?;
            win.epochs.check_fence()?;
            Ok((win.id, win.comm, win.fence_way()))
        })?;
        let ended = match way {
            // A load after the barrier sees stores before an arrival.
            FenceWay::Barrier => barrier(comm),
            FenceWay::Exchange => {
                order_memory();
                let ended = exchange_fences(id);
                order_memory();
                ended
            }
            FenceWay::FlushAndBarrier => {
                order_memory();
                let flushed =
                    if assert & MPI_MODE_NOPRECEDE == 0 { wait_for_flush(id, None) } else { Ok(()) };
                // The others wait for this process, whatever has become of its operations.
                let met = barrier(comm);
                order_memory();
                flushed.and(met)
            }
        };
        with(win, |win| {
            win.epochs.fenced(assert & MPI_MODE_NOSUCCEED == 0);
            Ok(())
        })?;
        ended
    }

    /// MPI-5.0 §12.5.2. Waits for the others' posts, unless they are asserted to have come.
    fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let targets = ranks(group, win)?;
        let (id, ()) = epochs(win, (assert, MPI_MODE_NOCHECK), |epochs, _| epochs.start(targets.clone()))?;
        if assert & MPI_MODE_NOCHECK == 0 {
            wait_on(|Machine { core, .. }| core.windows().start(id, targets))?;
        }
        order_memory();
        Ok(())
    }

    /// MPI-5.0 §12.5.2
    fn MPI_Win_complete(win: MPI_Win) on win {
        let (id, targets) = epochs(win, (0, 0), |epochs, _| epochs.complete())?;
        order_memory();
        wait_on(|Machine { core, device, .. }| core.windows().complete(device, id, &targets))
    }

    /// MPI-5.0 §12.5.2
    fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let origins = ranks(group, win)?;
        let (id, ()) = epochs(win, (assert, POST), |epochs, _| epochs.post(origins.clone()))?;
        order_memory();
        if assert & MPI_MODE_NOCHECK == 0 {
            let mut process = process()?;
            let Machine { core, device, .. } = process.engine();
            core.windows().post(device, id, &origins)?;
        }
        Ok(())
    }

    /// MPI-5.0 §12.5.2
    fn MPI_Win_wait(win: MPI_Win) on win {
        let (id, origins) = epochs(win, (0, 0), |epochs, _| epochs.posted())?;
        wait_on(|Machine { core, .. }| core.windows().wait(id, origins))?;
        order_memory();
        with(win, |win| {
            win.epochs.waited();
            Ok(())
        })
    }

    /// MPI-5.0 §12.5.2
    fn MPI_Win_test(win: MPI_Win, flag: Out<c_int>) on win {
        let (id, origins) = epochs(win, (0, 0), |epochs, _| epochs.posted())?;
        let is_over = {
            let mut process = process()?;
            process.progress();
            process.engine().core.windows().test(id, origins)?
        };
        order_memory();
        if is_over {
            with(win, |win| {
                win.epochs.waited();
                Ok(())
            })?;
        } else {
            found_nothing();
        }
        flag.set("flag", is_over.into())
    }

    /// MPI-5.0 §12.5.3
    fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) on win {
        let is_exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
        if (is_exclusive || lock_type == MPI_LOCK_SHARED)
            && assert == 0
            && at_once(win, |win| win.lock_at_once(rank, is_exclusive))
        {
            return Ok(());
        }
        if ![MPI_LOCK_SHARED, MPI_LOCK_EXCLUSIVE].contains(&lock_type) {
            with(win, |_| Ok(()))?;
            return Err(fault(MPI_ERR_LOCKTYPE, format_args!("argument lock_type ({lock_type}) is not a lock type")));
        }
        let Some(target) = with(win, |win| win.rank(rank, "rank"))? else { return Ok(()) };
        let asks = assert & MPI_MODE_NOCHECK == 0;
        let held = if asks { Held::by(is_exclusive) } else { Held::Nothing };
        let (id, ()) = epochs(win, (assert, MPI_MODE_NOCHECK), |epochs, _| epochs.lock(target, held))?;
        if !asks {
            return Ok(());
        }
        lock(win, vec![target], id, is_exclusive)
    }

    /// MPI-5.0 §12.5.3
    fn MPI_Win_unlock(rank: c_int, win: MPI_Win) on win {
        if at_once(win, |win| win.unlock_at_once(rank)) {
            return Ok(());
        }
        if let Some(done) = unlock_word(win, rank) {
            return done;
        }
        let Some(target) = with(win, |win| win.rank(rank, "rank"))? else { return Ok(()) };
        let (id, held) = epochs(win, (0, 0), |epochs, _| epochs.unlock(target))?;
        unlock(win, vec![target], id, held)
    }

    /// MPI-5.0 §12.5.3
    fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) on win {
        let asks = assert & MPI_MODE_NOCHECK == 0;
        let (id, size) = epochs(win, (assert, MPI_MODE_NOCHECK), |epochs, win| {
            epochs.lock_all(asks)?;
            Ok(win.size)
        })?;
        if !asks {
            return Ok(());
        }
        lock(win, (0..size).collect(), id, false)
    }

    /// MPI-5.0 §12.5.3
    fn MPI_Win_unlock_all(win: MPI_Win) on win {
        let (id, (is_locked, size)) = epochs(win, (0, 0), |epochs, win| Ok((epochs.unlock_all()?, win.size)))?;
        let held = if is_locked { Held::Shared } else { Held::Nothing };
        unlock(win, (0..size).collect(), id, held)
    }

    /// MPI-5.0 §12.5.4
    fn MPI_Win_flush(rank: c_int, win: MPI_Win) on win {
        flush(win, Some(rank), false)
    }

    /// MPI-5.0 §12.5.4
    fn MPI_Win_flush_all(win: MPI_Win) on win {
        flush(win, None, false)
    }

    /// MPI-5.0 §12.5.4
    fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) on win {
        flush(win, Some(rank), true)
    }

    /// MPI-5.0 §12.5.4
    fn MPI_Win_flush_local_all(win: MPI_Win) on win {
        flush(win, None, true)
    }

    /// MPI-5.0 §12.5.4. Public and private copies are one (`MPI_WIN_UNIFIED`): it orders memory accesses.
    fn MPI_Win_sync(win: MPI_Win) on win {
        with(win, |_| Ok(()))?;
        order_memory();
        make_progress()
    }
}
