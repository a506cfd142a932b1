//! Sleeping threads and their wake-ups: threads that rest in calls until something completes, and the threads
//! of ours that sleep at the device.

use crate::lock::locked;
use ayatori_devices::threads::{Parker, Signal};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Threads that rest.
pub(super) static RESTING: AtomicU32 = AtomicU32::new(0);
/// Those of them that look into the engine themselves, so that all that happens there may concern them.
pub(super) static WATCHING: AtomicU32 = AtomicU32::new(0);
/// Something has completed.
pub(super) static COMPLETED: Signal = Signal::new();
/// Calls that wait for the engine's thread and do not sleep.
pub(super) static AWAITING: AtomicU32 = AtomicU32::new(0);
/// Where it sleeps while it watches.
static PARKER: Mutex<Option<Arc<Parker>>> = Mutex::new(None);
/// Where the helper, or the engine's thread, sleeps from now on.
pub(super) fn set_parker(parker: Option<Parker>) {
    *locked(&PARKER) = parker.map(Arc::new);
}

/// Ends the helper's sleep at the device: a call has come. With the gate's mutex.
#[cold]
pub(super) fn call_back() {
    if let Some(parker) = &*locked(&PARKER) {
        parker.end();
    }
}

/// Whether there is such a call.
pub(super) fn is_awaited() -> bool {
    AWAITING.load(Ordering::Relaxed) > 0
}

/// Where it, or the engine's thread, sleeps at the device.
pub(super) fn parker() -> Option<Arc<Parker>> {
    locked(&PARKER).clone()
}

/// The engine's thread has done work: wakes the threads that it concerns. `has_answered`: it has given
/// responses, or all threads must look for another reason.
pub(super) fn tell(has_answered: bool) {
    // A thread announces that it rests, then looks once more; its event was stored before this fence.
    fence(Ordering::SeqCst);
    let concerned = if has_answered { &RESTING } else { &WATCHING };
    if concerned.load(Ordering::Relaxed) > 0 {
        COMPLETED.raise();
    }
}

/// To be read before the look after which a thread rests.
pub(crate) fn completions_seen() -> u32 {
    COMPLETED.seen()
}

/// Operations of requests that end in other threads, of which the device knows nothing.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);
/// Longest sleep of a call at the device while there are any: their end does not wake it there.
const PARKED_OUTSIDE: Duration = Duration::from_micros(250);

/// One begins.
pub(crate) fn begin_outside() {
    OUTSIDE.fetch_add(1, Ordering::Relaxed);
}

/// One has ended.
pub(crate) fn end_outside() {
    OUTSIDE.fetch_sub(1, Ordering::Release);
    // A thread announces that it rests, then looks once more; its event was stored before this fence.
    fence(Ordering::SeqCst);
    tell_resting();
}

/// The sleep at the device, if it may last up to `most`.
pub(super) fn park_at_device(most: Option<Duration>) -> Option<Duration> {
    match OUTSIDE.load(Ordering::Acquire) {
        0 => most,
        _ => Some(most.map_or(PARKED_OUTSIDE, |most| most.min(PARKED_OUTSIDE))),
    }
}

/// Something has happened that threads which rest may wait for.
pub(crate) fn tell_resting() {
    if RESTING.load(Ordering::Relaxed) > 0 {
        COMPLETED.raise();
    }
}
