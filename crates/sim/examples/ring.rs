//! Every rank sends 1 MiB to the next one around a ring, on a torus of 4 × 4.

use ayatori_core::Error;
use ayatori_sim::cluster::{Cluster, Config, Mpi};
use ayatori_sim::machine::nsim_torus;

async fn ring(mpi: Mpi) -> Result<(), Error> {
    let (me, size) = (mpi.rank(), mpi.size());
    mpi.sendrecv((me + 1) % size, (me + size - 1) % size, 0, 1 << 20).await.map(drop)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = Cluster::new(nsim_torus(&[4, 4], None)?, Config::default())?;
    let report = cluster.run(ring)?;
    println!("{:.1} us", report.elapsed_ps as f64 / 1e6);
    Ok(())
}
