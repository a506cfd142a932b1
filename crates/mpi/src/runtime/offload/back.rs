//! The machine while the engine's thread runs, behind the lock by which the thread and calls take turns.

use super::executor::Executor;
use super::flags::FLAGS;
use crate::runtime::machine::Machine;
use crate::runtime::sleepers;
use ayatori_core::device::Armed;
use ayatori_devices::threads::Parker;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// `None`: the mode is not in force.
static BACK: Mutex<Option<Box<Back>>> = Mutex::new(None);

/// So much later than the core wants it the thread may wake: the kernel's timers are no more exact, and the
/// two times compared were read one after the other.
const TIMER_SLACK: Duration = Duration::from_micros(50);

/// The right to it.
pub(super) type Locked = MutexGuard<'static, Option<Box<Back>>>;

/// The thread's state while it runs. The holder of its lock may use the machine.
pub(super) struct Back {
    /// `None`: borrowed by a call, which holds the lock.
    pub(super) machine: Option<Machine>,
    pub(super) executor: Executor,
    /// While the thread sleeps: until when at most.
    pub(super) sleeps_until: Option<Instant>,
}

// SAFETY: it is used with the lock held, by one thread at a time, as the machine's buffers ask for. Nothing
// in it belongs to a thread.
unsafe impl Send for Back {}

pub(super) fn lock() -> Locked {
    // A panic in the thread ends the job, so no call sees the state it left.
    BACK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if the lock is free.
pub(super) fn try_lock() -> Option<Locked> {
    match BACK.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The thread sleeps: wakes it.
pub(super) fn rouse(parker: &Parker) {
    if FLAGS.is_asleep.swap(false, Ordering::SeqCst) {
        parker.rouse();
    }
}

/// Executes commands in the place of the thread, which sleeps: to wake it would take longer. `false`: it is
/// awake.
pub(super) fn step_in(parker: &Parker) -> bool {
    let Some(mut guard) = try_lock() else { return false };
    let Some(back) = guard.as_mut() else { return false };
    let machine = back.machine.as_mut().expect("no call borrows while the lock is held");
    back.executor.serve(machine);
    leave_to_thread(guard, parker);
    true
}

/// After rounds in its place: the thread sleeps on, where arrivals wake it, or is woken.
pub(super) fn leave_to_thread(mut guard: Locked, parker: &Parker) {
    let Some(back) = guard.as_mut() else { return };
    if !FLAGS.is_asleep.load(Ordering::SeqCst) {
        return;
    }
    // If the thread has been roused since, it must not sleep on: the flag is read again after the device is
    // armed.
    let may_sleep_on = back.may_sleep() && FLAGS.is_asleep.load(Ordering::SeqCst);
    drop(guard);
    if !may_sleep_on {
        FLAGS.is_asleep.store(false, Ordering::SeqCst);
        parker.rouse();
    }
}

impl Back {
    /// A round of the machine.
    pub(super) fn round(&mut self) -> bool {
        let machine = self.machine.as_mut().expect("no call borrows while the lock is held");
        let (worked, answered) = self.executor.round(machine);
        if worked || answered {
            sleepers::tell(answered);
        }
        worked
    }

    /// The same, in which functions of the user's may run.
    pub(super) fn round_with_user_functions(&mut self) {
        self.put_off_user_functions(false);
        self.round();
        self.put_off_user_functions(true);
    }

    fn put_off_user_functions(&mut self, are_put_off: bool) {
        let machine = self.machine.as_mut().expect("no call borrows while the lock is held");
        machine.core.put_off_user_functions(are_put_off);
    }

    /// Arms the device, which looks have disarmed. Whether the thread, which sleeps, may go on to.
    fn may_sleep(&mut self) -> bool {
        let machine = self.machine.as_mut().expect("no call borrows while the lock is held");
        wakes_in_time(Instant::now(), machine.sleep_max(), self.sleeps_until)
            && !machine.core.wants_transmit()
            && self.executor.is_idle()
            && (machine.device.is_armed() || machine.device.arm_aside() == Armed::Armed)
            && !self.executor.advance_nodes(machine)
    }
}

/// Whether a thread that sleeps until then is awake when the core wants it, which is after `left`.
fn wakes_in_time(now: Instant, left: Option<Duration>, until: Option<Instant>) -> bool {
    match (left, until) {
        (Some(left), Some(until)) => now + left + TIMER_SLACK >= until,
        (left, _) => left.is_none(),
    }
}

/// The last of the calls that stood in for the thread sleeps, or goes its way.
pub(in crate::runtime) fn end_wait() {
    // As after a command: either the thread sees what there is before it sleeps, or we see that it does.
    fence(Ordering::SeqCst);
    if FLAGS.is_asleep.load(Ordering::Relaxed)
        && let Some(parker) = sleepers::parker()
    {
        match try_lock() {
            Some(guard) => leave_to_thread(guard, &parker),
            // The holder may have looked for commands before ours was there.
            None => rouse(&parker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_until_the_same_moment_is_not_broken_off() {
        let (now, left) = (Instant::now(), Duration::from_millis(2));
        // The core's clock was read a moment before the thread's.
        assert!(wakes_in_time(now, Some(left), Some(now + left + Duration::from_nanos(300))));
        assert!(wakes_in_time(now, Some(left), Some(now + left / 2)));
        assert!(!wakes_in_time(now, Some(left), Some(now + 2 * left)));
        assert!(wakes_in_time(now, None, None) && wakes_in_time(now, None, Some(now)));
        assert!(!wakes_in_time(now, Some(left), None));
    }
}
