//! The same ping-pong over NICs that behave like the library's TCP device, and like one that puts and gets.

use ayatori_sim::cluster::{Cluster, Config, NicDevice, Profile};
use ayatori_sim::{machine::nsim_torus, workloads};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>10}  {:>12}  {:>12}", "bytes", "tcp, us", "rdma, us");
    for bytes in [8, 4 << 10, 64 << 10, 1 << 20] {
        let one_way_us = |device| {
            let profile = Some(Profile { device, mtu_bytes: 9_000 });
            let config = Config { profile, ..Config::default() };
            let mut cluster = Cluster::new(nsim_torus(&[4], None)?, config)?;
            let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, bytes, 10))?;
            Ok::<f64, Box<dyn std::error::Error>>(report.elapsed_ps as f64 / 20.0 / 1e6)
        };
        let [tcp, rdma] = [one_way_us(NicDevice::Tcp)?, one_way_us(NicDevice::Rdma)?];
        println!("{bytes:>10}  {tcp:>12.2}  {rdma:>12.2}");
    }
    Ok(())
}
