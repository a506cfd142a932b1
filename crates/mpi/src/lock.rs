//! Locks of the tables that are not on the way of a message.
//!
//! Objects that the standard allows before the start, after the end and from any thread (MPI-5.0 §11.6: info
//! objects, error handlers, error codes, attribute keys) are behind a mutex: [`locked`]. Datatypes,
//! operations and windows exist while MPI runs; their lock is [`Elided`]: below `MPI_THREAD_MULTIPLE` the
//! standard promises that calls do not overlap. The message engine has a lock of its own, `gate.rs`.
//!
//! Order: the process (`state.rs`), datatypes, operations, windows, then the others, of which a call holds
//! one at a time. None is held while a function of the user runs: take what the call needs, unlock, call,
//! lock again. One exception: a reduction function of the user runs inside the engine and so with the process
//! locked. It may not communicate, but its calls come through: the gate lets its thread in (`Gate::reduce`).

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls may overlap.
static IS_CONCURRENT: AtomicBool = AtomicBool::new(true);

/// From now on calls may overlap (`MPI_THREAD_MULTIPLE`, or the phases before and after), or they may not.
pub(crate) fn set_concurrent(is_concurrent: bool) {
    IS_CONCURRENT.store(is_concurrent, Ordering::Release);
}

/// Locks a mutex. A panic while it was held has been reported as `MPI_ERR_INTERN`; the tables stay usable.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that costs one load while no other thread can hold it.
pub(crate) struct Elided<T> {
    lock: Mutex<()>,
    /// Whether a guard is alive, to find a call that overlaps another against its promise or locks twice.
    #[cfg(debug_assertions)]
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only. Guards exclude each other by the mutex while calls may
// overlap, and else because the thread level the user asked for promises that no two calls overlap.
unsafe impl<T> Sync for Elided<T> {}

impl<T> Elided<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            lock: Mutex::new(()),
            #[cfg(debug_assertions)]
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = IS_CONCURRENT.load(Ordering::Acquire).then(|| self.lock_slowly());
        #[cfg(debug_assertions)]
        assert!(!self.held.swap(true, Ordering::AcqRel), "two calls overlap, or one locks twice");
        Guard { of: self, _held: held }
    }

    #[inline(never)]
    fn lock_slowly(&self) -> MutexGuard<'_, ()> {
        locked(&self.lock)
    }
}

/// The right to the value of an [`Elided`] lock.
pub(crate) struct Guard<'a, T> {
    of: &'a Elided<T>,
    _held: Option<MutexGuard<'a, ()>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: guards exclude each other (see `Sync` above), so only this one refers to the value.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes the reference unique within this guard.
        unsafe { &mut *self.of.value.get() }
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.of.held.store(false, Ordering::Release);
    }
}
