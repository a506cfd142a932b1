//! All-to-all by pairwise exchange, as MPICH and Open MPI have it and the packet pacing paper measures it.

use ayatori_core::Error;

use crate::cluster::Mpi;

/// To whom a rank sends and from whom it receives in a step, from 1: it exchanges with `rank XOR step` where
/// the number of ranks is a power of two, else sends to `rank + step` and receives from `rank - step`.
pub fn pairwise_partners(rank: u32, step: u32, size: u32) -> (u32, u32) {
    if size.is_power_of_two() {
        (rank ^ step, rank ^ step)
    } else {
        ((rank + step) % size, (rank + size - step) % size)
    }
}

/// Every rank sends `bytes` to every other, in the steps of [`pairwise_partners`].
///
/// # Errors
/// What MPI says.
pub async fn pairwise_exchange(mpi: Mpi, bytes: u64) -> Result<(), Error> {
    for step in 1..mpi.size() {
        let (to, from) = pairwise_partners(mpi.rank(), step, mpi.size());
        mpi.sendrecv(to, from, 0, bytes).await?;
    }
    Ok(())
}
