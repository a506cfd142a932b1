//! All-to-all by pairwise exchange, as MPICH and Open MPI have it and the packet pacing paper measures it.

use ayatori_core::Error;

use crate::cluster::Mpi;

/// Every rank sends `bytes` to every other: in step `r` it exchanges with `rank XOR r` where the number of ranks is a
/// power of two, else sends to `rank + r` and receives from `rank - r`.
///
/// # Errors
/// What MPI says.
pub async fn pairwise_exchange(mpi: Mpi, bytes: u64) -> Result<(), Error> {
    let (rank, size) = (mpi.rank(), mpi.size());
    for step in 1..size {
        let (to, from) = if size.is_power_of_two() {
            (rank ^ step, rank ^ step)
        } else {
            ((rank + step) % size, (rank + size - step) % size)
        };
        mpi.sendrecv(to, from, 0, bytes).await?;
    }
    Ok(())
}
