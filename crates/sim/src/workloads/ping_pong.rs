//! Ping-pong between ranks 0 and `partner`; the others do nothing.

use ayatori_core::Error;

use crate::cluster::Mpi;

/// Sends `bytes` there and back `round_count` times, from one buffer and into another.
///
/// # Errors
/// What MPI says.
pub async fn ping_pong(mpi: Mpi, partner: u32, bytes: u64, round_count: u32) -> Result<(), Error> {
    mpi.goes_through(2 * bytes);
    for _ in 0..round_count {
        if mpi.rank() == 0 {
            mpi.send(partner, 0, bytes).await?;
            mpi.recv(partner, 0, bytes).await?;
        } else if mpi.rank() == partner {
            mpi.recv(0, 0, bytes).await?;
            mpi.send(0, 0, bytes).await?;
        }
    }
    Ok(())
}
