//! The function that this process is in, in words that the launcher can read (`devices::shm::CallWords`).
//! `why.rs` collects what it waits for, only on request.

use ayatori_devices::shm::{CallWords, Shm};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The names of the functions and, in `ids`, their numbers; build.rs writes this.
mod names {
    include!(concat!(env!("OUT_DIR"), "/calls.rs"));
}
pub(crate) use names::{ids, name};

static NOWHERE: CallWords = CallWords::nowhere();
static WORDS: AtomicPtr<CallWords> = AtomicPtr::new((&raw const NOWHERE).cast_mut());
/// Where calls are written.
#[inline(always)]
pub(crate) fn words() -> &'static CallWords {
    // SAFETY: it points to a static, or to words in a mapping that is never unmapped.
    unsafe { &*WORDS.load(Ordering::Relaxed) }
}

/// From now on others can see what this process does.
pub(crate) fn begin(shm: &Shm, world_count: u32) {
    shm.announce(world_count, names::NAMES);
    let words = shm.call_words();
    words.enter(ids::MPI_Init);
    WORDS.store(std::ptr::from_ref(words).cast_mut(), Ordering::Relaxed);
}
