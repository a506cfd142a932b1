//! Halo exchange: ranks on a periodic grid exchange faces with their neighbours in every dimension, then
//! compute.

use ayatori_core::Error;

use crate::cluster::Mpi;

/// A periodic grid of ranks; the first extent varies fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaloGrid {
    /// Ranks along each dimension; their product is the number of ranks.
    pub extents: Vec<u32>,
    /// Length of a face in each dimension, bytes.
    pub face_bytes: Vec<u64>,
}

impl HaloGrid {
    /// The neighbours of a rank below and above in a dimension.
    fn neighbours(&self, rank: u32, dimension: usize) -> (u32, u32) {
        let stride: u32 = self.extents[..dimension].iter().product();
        let extent = self.extents[dimension];
        let own = rank / stride % extent;
        let at = |coordinate: u32| rank - own * stride + coordinate * stride;
        (at((own + extent - 1) % extent), at((own + 1) % extent))
    }
}

/// Exchanges all faces at once and computes for `compute_ps`, `round_count` times.
///
/// # Errors
/// What MPI says.
pub async fn halo_exchange(mpi: Mpi, grid: HaloGrid, compute_ps: u64, round_count: u32) -> Result<(), Error> {
    for _ in 0..round_count {
        let mut requests = Vec::with_capacity(4 * grid.extents.len());
        for (d, &bytes) in grid.face_bytes.iter().enumerate() {
            let (below, above) = grid.neighbours(mpi.rank(), d);
            let (down, up) = (2 * d as i32, 2 * d as i32 + 1);
            requests.push(mpi.irecv(below, up, bytes)?);
            requests.push(mpi.irecv(above, down, bytes)?);
            requests.push(mpi.isend(above, up, bytes)?);
            requests.push(mpi.isend(below, down, bytes)?);
        }
        mpi.wait_all(requests).await?;
        mpi.compute(compute_ps);
    }
    Ok(())
}
