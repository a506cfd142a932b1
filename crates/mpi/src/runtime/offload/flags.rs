//! Flags that calls and the engine's thread share without a lock.

use std::sync::atomic::{AtomicBool, AtomicU32};

pub(super) struct Flags {
    /// Calls that want to borrow the machine.
    pub(super) wanted_count: AtomicU32,
    /// The thread sleeps at the device, or is about to: a call that gives it work wakes it.
    pub(super) is_asleep: AtomicBool,
    pub(super) is_stopping: AtomicBool,
    /// A send without a waiting call has failed: from now on senders wait, to get its error.
    pub(super) has_failed: AtomicBool,
    /// Copies that wait for credit.
    pub(super) copies_kept: AtomicU32,
    /// Collective operations wait for a function of the user's, which the thread does not call.
    pub(super) has_put_off: AtomicBool,
}

pub(super) static FLAGS: Flags = Flags {
    wanted_count: AtomicU32::new(0),
    is_asleep: AtomicBool::new(false),
    is_stopping: AtomicBool::new(false),
    has_failed: AtomicBool::new(false),
    copies_kept: AtomicU32::new(0),
    has_put_off: AtomicBool::new(false),
};
