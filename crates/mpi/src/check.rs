//! Check mode (`ayatori run --check`, `AYATORI_CHECK=1`): is it on?
//!
//! Before a collective operation runs, the members of its communicator compare their claims (`claim.rs`; the
//! core's `coll::compare` draws the conclusion). At the end each process reports the objects that it leaves
//! behind (`runtime/left.rs`).

use ayatori_devices::switch;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the mode is on: the same at all processes of the job.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// MPI starts.
pub(crate) fn start() {
    IS_ON.store(switch::here("AYATORI_CHECK", false), Ordering::Relaxed);
}

/// Whether calls are checked.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}
