//! The lock around what moves messages, which costs the program's own calls no atomic operation.
//!
//! Two kinds of threads want the process: those of the program, which call MPI, and one of ours
//! (`runtime/helper.rs`), which makes progress while none of them does. Below `MPI_THREAD_MULTIPLE` calls do
//! not overlap, so among themselves they need no lock, and against the helper the cost is all on its side:
//!
//! ```text
//! a call                                  the helper
//!   calls += 1          (odd: inside)       lock.lock()
//!   ── compiler fence ──                    flags |= HELD
//!   flags & (HELD | AWAY) ?  wait by lock   ── membarrier: a fence in every thread ──
//!   …                                       calls is odd ?  flags &= !HELD, try again later
//!   calls += 1          (even: outside)     …
//!   ── compiler fence ──                    flags &= !HELD; lock.unlock()
//!   flags & what is left wakes ?  wake
//! ```
//!
//! Either the call sees `HELD` or the helper sees an odd count: the helper's fence falls before the call's
//! store, which then comes before a load that finds the flag, or after it, and then the helper finds the
//! store.
//!
//! | flag | meaning |
//! |---|---|
//! | `CONCURRENT` | calls may overlap: each takes the mutex, and so does the helper; the count says only that something happened |
//! | `HELD` | the helper is at work |
//! | `AWAY` | the helper sleeps at the device: the next call ends that |
//! | `IDLE` | the helper sleeps until a call leaves work behind (or does not exist yet) |
//! | `DEEP` | and it has no clock: a call that leaves nothing but links wakes it, too, to set one |
//! | `REDUCING` | a reduction function of the user's runs inside a call, which keeps the lock meanwhile |
//!
//! `AWAY` follows `HELD` without a moment between in which neither is set, so no further fence is needed.
//! `IDLE` may be set at any time, followed by a fence: a call that is inside will see it when it leaves, and
//! whether one has just left with work the helper finds out by taking the process once more.

use ayatori_devices::threads;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CONCURRENT: u32 = 1;
const HELD: u32 = 2;
const AWAY: u32 = 4;
const IDLE: u32 = 8;
const DEEP: u32 = 16;
const REDUCING: u32 = 32;

/// The value that the lock protects, and its users' notices to the helper.
pub(crate) trait Occupant {
    /// Whether there is work for the helper.
    fn has_work(&self) -> bool;
    /// Whether there are links, on which acknowledgements may be due, or awaited.
    fn has_links(&self) -> bool;
    /// A call ends while others may call.
    fn end_shared_call(&mut self);
    /// A call leaves work behind: the helper, which is idle or does not exist yet, is to look after it.
    fn wake_helper();
    /// Ends the helper's sleep at the device: a call has come. With the gate's mutex.
    fn call_helper_back();
}

/// The lock. See the [module's docs](self).
#[repr(align(64))]
pub(crate) struct Gate<T> {
    /// Odd: a call is inside. Only the call itself changes it.
    calls: AtomicU32,
    flags: AtomicU32,
    /// A call waits for the helper.
    is_wanted: AtomicBool,
    /// The thread whose call runs a reduction function of the user's; 0: none does. Changed with the lock
    /// only.
    reducing: AtomicUsize,
    /// Whether a guard is alive, to find a call that overlaps another against its promise or locks twice.
    #[cfg(debug_assertions)]
    held: AtomicBool,
    lock: Mutex<()>,
    /// The mutex' own guard, while a call has it.
    mutex_guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only. Guards of calls exclude each other by the mutex while
// `CONCURRENT`, and else because the thread level the user asked for promises that no two calls overlap; the
// helper's guard and theirs exclude each other by the protocol above. So one thread at a time uses the
// process, as its buffers ask for. A guard `Inside` is one of two of the same thread: the call that has the
// other does not go on before it is gone.
unsafe impl<T> Sync for Gate<T> {}

impl<T> Gate<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            calls: AtomicU32::new(0),
            flags: AtomicU32::new(CONCURRENT),
            is_wanted: AtomicBool::new(false),
            reducing: AtomicUsize::new(0),
            #[cfg(debug_assertions)]
            held: AtomicBool::new(false),
            lock: Mutex::new(()),
            mutex_guard: UnsafeCell::new(None),
            value: UnsafeCell::new(value),
        }
    }

    /// From now on calls may overlap, or they may not. No call is inside.
    pub(crate) fn set_concurrent(&self, is_concurrent: bool) {
        if is_concurrent {
            self.flags.fetch_or(CONCURRENT, Ordering::SeqCst);
        } else {
            self.calls.store(0, Ordering::Relaxed);
            self.flags.fetch_and(!CONCURRENT, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn assert_alone(&self) {
        #[cfg(debug_assertions)]
        assert!(!self.held.swap(true, Ordering::AcqRel), "two calls overlap, or one locks twice");
    }

    /// Runs a reduction function of the user's for a call that has the lock. The function may make calls that
    /// do not communicate, and `MPI_Abort` (MPI-5.0 §6.9.5): they find the lock taken by their own thread.
    pub(crate) fn reduce(&self, function: impl FnOnce()) {
        // It may be left by an exception, so what was there before is put back by a destructor.
        struct PutBack<'a, T>(&'a Gate<T>, usize);
        impl<T> Drop for PutBack<'_, T> {
            fn drop(&mut self) {
                self.0.reducing.store(self.1, Ordering::Relaxed);
                if self.1 == 0 {
                    self.0.flags.fetch_and(!REDUCING, Ordering::Relaxed);
                }
            }
        }
        let _put_back = PutBack(self, self.reducing.load(Ordering::Relaxed));
        self.reducing.store(this_thread(), Ordering::Relaxed);
        self.flags.fetch_or(REDUCING, Ordering::Relaxed);
        function();
    }

    fn take_mutex(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of the calling thread, unlike that of any other that runs. Never 0.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| (&raw const *place).addr())
}

impl<T: Occupant> Gate<T> {
    /// The process, for a call.
    #[inline(always)]
    pub(crate) fn lock(&'static self) -> Guard<'static, T> {
        if self.flags.load(Ordering::Relaxed) & (CONCURRENT | REDUCING) != 0 {
            return self.lock_concurrently();
        }
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if self.flags.load(Ordering::Acquire) & (HELD | AWAY) != 0 {
            self.wait_for_helper(calls);
        }
        self.assert_alone();
        Guard { of: self, sharing: Sharing::Alone }
    }

    #[inline(never)]
    fn lock_concurrently(&'static self) -> Guard<'static, T> {
        // Another thread's number is never this one's, however old the value that is read.
        if self.reducing.load(Ordering::Relaxed) == this_thread() {
            return Guard { of: self, sharing: Sharing::Inside };
        }
        let mutex_guard = self.take_mutex();
        // SAFETY: the cell is accessed only with the mutex held.
        unsafe { *self.mutex_guard.get() = Some(mutex_guard) };
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(2), Ordering::Relaxed);
        self.end_away();
        self.assert_alone();
        Guard { of: self, sharing: Sharing::Shared }
    }

    #[inline(never)]
    fn unlock(&self) {
        // SAFETY: the cell is accessed only with the mutex held, and this call holds it.
        drop(unsafe { (*self.mutex_guard.get()).take() });
    }

    /// The helper has the process, or watches the device in our place: waits, and sends it away.
    #[cold]
    #[inline(never)]
    fn wait_for_helper(&self, calls: u32) {
        self.calls.store(calls.wrapping_add(1), Ordering::Release);
        self.is_wanted.store(true, Ordering::Relaxed);
        let mutex = self.take_mutex();
        self.is_wanted.store(false, Ordering::Relaxed);
        // Before the mutex is free again: the helper then finds it odd.
        self.calls.store(calls.wrapping_add(2), Ordering::Relaxed);
        self.end_away();
        drop(mutex);
    }

    /// With the mutex: ends the helper's sleep at the device.
    fn end_away(&self) {
        if self.flags.load(Ordering::Relaxed) & AWAY != 0 {
            self.flags.fetch_and(!AWAY, Ordering::AcqRel);
            T::call_helper_back();
        }
    }

    /// A call leaves behind what wakes the helper, which is idle, from these depths.
    #[cold]
    #[inline(never)]
    fn end_idle(&self, depths: u32) {
        // One of several concurrent calls wakes the helper.
        if self.flags.fetch_and(!depths, Ordering::AcqRel) & depths != 0 {
            T::wake_helper();
        }
    }
}

/// The helper's side.
impl<T> Gate<T> {
    /// Changes whenever a call begins or ends; odd while one is inside, but not in concurrent mode.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Acquire)
    }

    /// Whether a call waits for the helper to release the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// The process, unless a call is inside.
    pub(crate) fn try_take(&self) -> Option<HelperGuard<'_, T>> {
        let mutex = self.take_mutex();
        if self.flags.load(Ordering::Acquire) & CONCURRENT == 0 {
            self.flags.fetch_or(HELD, Ordering::SeqCst);
            threads::fence_all_threads();
            if !self.calls.load(Ordering::Acquire).is_multiple_of(2) {
                self.flags.fetch_and(!HELD, Ordering::Release);
                return None;
            }
        }
        self.assert_alone();
        Some(HelperGuard { of: self, _mutex: mutex })
    }

    /// After a sleep at the device: the process, unless a call has come back meanwhile.
    pub(crate) fn take_back(&self) -> Option<HelperGuard<'_, T>> {
        let mutex = self.take_mutex();
        let flags = self.flags.load(Ordering::Acquire);
        if flags & AWAY == 0 {
            return None;
        }
        // From `AWAY` to `HELD` in one step: no call can have come in between.
        let held = if flags & CONCURRENT == 0 { HELD } else { 0 };
        self.flags.fetch_xor(AWAY | held, Ordering::AcqRel);
        self.assert_alone();
        Some(HelperGuard { of: self, _mutex: mutex })
    }

    /// From now on a call that leaves work or links behind wakes the helper. `false`: one may have done so
    /// just before; look.
    pub(crate) fn begin_idle(&self) -> bool {
        self.flags.fetch_or(IDLE | DEEP, Ordering::SeqCst);
        threads::fence_all_threads();
        // A call that is inside will see it when it leaves.
        self.flags.load(Ordering::Acquire) & CONCURRENT == 0
            && !self.calls.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Whether the helper is still idle, and whether without a clock.
    pub(crate) fn idle_depth(&self) -> Idleness {
        match self.flags.load(Ordering::Acquire) & (IDLE | DEEP) {
            0 => Idleness::Awake,
            IDLE => Idleness::Light,
            _ => Idleness::Deep,
        }
    }

    /// Links that are left behind are cared for by the helper's clock.
    pub(crate) fn lighten_idle(&self) {
        self.flags.fetch_and(!DEEP, Ordering::AcqRel);
    }

    /// There is no helper and shall be none.
    pub(crate) fn forget_helper(&self) {
        self.flags.fetch_and(!(IDLE | DEEP | AWAY), Ordering::AcqRel);
    }

    /// The helper is no longer idle.
    pub(crate) fn stop_idle(&self) {
        self.flags.fetch_and(!(IDLE | DEEP), Ordering::AcqRel);
    }
}

/// How the helper sleeps while calls come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idleness {
    /// A call has left work behind.
    Awake,
    /// Calls have left nothing but links behind.
    Light,
    /// No call has left anything behind.
    Deep,
}

/// The right of a call to the process.
///
/// Without a byte of padding, and so without the mutex' guard, which has seven: a copy of them is two stores
/// that overlap, and a load of both, which the processor does only when all stores before have left for the
/// caches. Among those are the writes to rings, whose lines are at the other side: that made each message
/// wait for the one before.
pub(crate) struct Guard<'a, T: Occupant> {
    of: &'a Gate<T>,
    sharing: Sharing,
}

/// Whether other threads may call at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Sharing {
    Alone,
    Shared,
    /// The call comes from a reduction function inside another call, which has the lock and waits.
    Inside,
}

impl<T: Occupant> Guard<'_, T> {
    /// Checked where this is compiled for the process.
    const IS_TWO_WORDS: () = assert!(size_of::<Self>() == 2 * size_of::<usize>());

    /// Whether other threads may call while this one holds no guard.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        () = Self::IS_TWO_WORDS;
        self.sharing != Sharing::Alone
    }
}

impl<T: Occupant> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: guards exclude each other (see `Sync` above), so only this one refers to the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T: Occupant> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes the reference unique within this guard.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T: Occupant> Guard<'_, T> {
    /// From which depths of its sleep the helper is woken for what this call leaves behind.
    #[inline(always)]
    fn depths(&self) -> u32 {
        let (has_work, has_links) = (self.has_work(), self.has_links());
        if has_work { IDLE | DEEP } else { u32::from(has_links) * DEEP }
    }

    #[inline(always)]
    fn wake(&self, depths: u32) {
        if self.of.flags.load(Ordering::Relaxed) & depths != 0 {
            self.of.end_idle(depths);
        }
    }

    /// Apart from the other end: that one then saves no register.
    #[inline(never)]
    fn end_shared(&mut self) {
        if self.sharing == Sharing::Inside {
            return;
        }
        #[cfg(debug_assertions)]
        self.of.held.store(false, Ordering::Release);
        let depths = self.depths();
        self.end_shared_call();
        self.wake(depths);
        self.of.unlock();
    }
}

impl<T: Occupant> Guard<'_, T> {
    /// Ends the call's right, in line: on a short path no function is called for it, as for a value that goes
    /// out of scope at several places.
    #[inline(always)]
    pub(crate) fn release(self) {
        ManuallyDrop::new(self).end();
    }

    #[inline(always)]
    fn end(&mut self) {
        if self.is_shared() {
            return self.end_shared();
        }
        #[cfg(debug_assertions)]
        self.of.held.store(false, Ordering::Release);
        let depths = self.depths();
        let calls = self.of.calls.load(Ordering::Relaxed);
        self.of.calls.store(calls.wrapping_add(1), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        self.wake(depths);
    }
}

impl<T: Occupant> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}

/// The helper's right to the process.
pub(crate) struct HelperGuard<'a, T> {
    of: &'a Gate<T>,
    _mutex: MutexGuard<'a, ()>,
}

impl<T> HelperGuard<'_, T> {
    /// Lets go and has the next call end the sleep at the device that is to follow.
    pub(crate) fn go_away(self) {
        self.of.flags.fetch_or(AWAY, Ordering::AcqRel);
    }

    /// Lets go; a call that leaves work or links behind is to wake the helper.
    pub(crate) fn idle(self) {
        self.of.flags.fetch_or(IDLE | DEEP, Ordering::AcqRel);
    }
}

impl<T> Deref for HelperGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: guards exclude each other (see `Sync` above), so only this one refers to the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for HelperGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes the reference unique within this guard.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for HelperGuard<'_, T> {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        self.of.held.store(false, Ordering::Release);
        self.of.flags.fetch_and(!HELD, Ordering::Release);
    }
}
