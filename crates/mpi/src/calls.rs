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

/// Functions that wait, for messages that the caller has sent among others. Not those that wait for one of
/// several requests: what comes of the others is not to take the caller's time when it has gone on.
const WAITING: &[u32] = &[
    ids::MPI_Wait,
    ids::MPI_Waitall,
    ids::MPI_Send,
    ids::MPI_Ssend,
    ids::MPI_Recv,
    ids::MPI_Sendrecv,
    ids::MPI_Sendrecv_replace,
    ids::MPI_Barrier,
    ids::MPI_Bcast,
    ids::MPI_Reduce,
    ids::MPI_Allreduce,
    ids::MPI_Reduce_scatter,
    ids::MPI_Reduce_scatter_block,
    ids::MPI_Scan,
    ids::MPI_Exscan,
    ids::MPI_Gather,
    ids::MPI_Gatherv,
    ids::MPI_Scatter,
    ids::MPI_Scatterv,
    ids::MPI_Allgather,
    ids::MPI_Allgatherv,
    ids::MPI_Alltoall,
    ids::MPI_Alltoallv,
    ids::MPI_Alltoallw,
    ids::MPI_Neighbor_allgather,
    ids::MPI_Neighbor_allgatherv,
    ids::MPI_Neighbor_alltoall,
    ids::MPI_Neighbor_alltoallv,
    ids::MPI_Neighbor_alltoallw,
];

/// From now on others can see what this process does.
pub(crate) fn begin(shm: &mut Shm, world_count: u32) {
    shm.announce(world_count, names::NAMES);
    shm.set_waiting_calls(WAITING);
    let words = shm.call_words();
    words.enter(ids::MPI_Init);
    WORDS.store(std::ptr::from_ref(words).cast_mut(), Ordering::Relaxed);
}
