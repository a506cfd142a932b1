//! What the studies of hosts measure: ping-pong, answered messages, streams, collective operations.

use anyhow::{Context as _, anyhow, ensure};
use ayatori_core::Error;
use ayatori_core::coll::Collective;
use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::{Cluster, ClusterReport, Config, Mpi};
use ayatori_sim::machine::{Simulated, cluster_config, simulate};
use ayatori_sim::workloads;

/// A machine as built in.
pub(crate) fn machine(file: &str, text: &str) -> anyhow::Result<Machine> {
    Ok(Machine::parse(file, text)?)
}

/// The first `process_count` processes of a machine, one a host.
pub(crate) fn cluster(
    machine: &Machine,
    process_count: u32,
    change: impl FnOnce(Config) -> Config,
) -> anyhow::Result<Cluster> {
    let Simulated { network, mut notes } = simulate(machine, None)?;
    let config = cluster_config(machine, network.config(), 1, &mut notes);
    ensure!(notes.is_empty(), "{} is not simulated as it says: {}", machine.name, notes.join("; "));
    let config = change(Config { process_count: Some(process_count), ..config });
    Ok(Cluster::new(network, config)?)
}

fn checked(cluster: &Cluster, report: ClusterReport) -> anyhow::Result<ClusterReport> {
    cluster.leftovers().map_or(Ok(report), |left| Err(anyhow!("left over: {left}")))
}

/// Half a round trip of `bytes`, ps, once the first is over.
pub(crate) fn half_round_trip_ps(cluster: &mut Cluster, bytes: u64, rounds: u32) -> anyhow::Result<f64> {
    cluster.run(|mpi| workloads::ping_pong(mpi, 1, bytes, 1))?;
    let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, bytes, rounds))?;
    Ok(checked(cluster, report)?.elapsed_ps as f64 / f64::from(rounds) / 2.0)
}

/// Messages from rank 0 to rank 1, one after the other, each answered by 4 B: the trunking paper's benchmark.
async fn answered(mpi: Mpi, bytes: u64, count: u32) -> Result<(), Error> {
    for _ in 0..count {
        match mpi.rank() {
            0 => {
                mpi.send(1, 0, bytes).await?;
                mpi.recv(1, 1, 4).await?;
            }
            1 => {
                mpi.recv(0, 0, bytes).await?;
                mpi.send(0, 1, 4).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Time of one answered message, ps, once the first is over.
pub(crate) fn answered_ps(cluster: &mut Cluster, bytes: u64, count: u32) -> anyhow::Result<f64> {
    cluster.run(|mpi| answered(mpi, bytes, 1))?;
    let report = cluster.run(|mpi| answered(mpi, bytes, count))?;
    Ok(checked(cluster, report)?.elapsed_ps as f64 / f64::from(count))
}

/// `count` messages from rank 0 to rank 1, so many at a time.
async fn stream(mpi: Mpi, bytes: u64, count: u32, window: usize) -> Result<(), Error> {
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..count {
        match mpi.rank() {
            0 => under_way.push_back(mpi.isend(1, 0, bytes)?),
            1 => under_way.push_back(mpi.irecv(0, 0, bytes)?),
            _ => return Ok(()),
        }
        if under_way.len() > window
            && let Some(first) = under_way.pop_front()
        {
            mpi.wait(first).await?;
        }
    }
    mpi.wait_all(under_way).await
}

/// A stream of messages from rank 0 to rank 1.
pub(crate) fn streamed(
    cluster: &mut Cluster,
    bytes: u64,
    count: u32,
    window: usize,
) -> anyhow::Result<ClusterReport> {
    let report = cluster.run(|mpi| stream(mpi, bytes, count, window))?;
    checked(cluster, report)
}

/// Messages from rank 0 to rank 1, of which so many may be without acknowledgement; every second one is
/// acknowledged.
async fn windowed(mpi: Mpi, bytes: u64, count: u32, window: u32) -> Result<(), Error> {
    const ACKNOWLEDGEMENT_BYTES: u64 = 8;
    let mut sent = Vec::new();
    let mut unacknowledged = 0;
    for index in 0..count {
        if mpi.rank() == 0 {
            if unacknowledged == window {
                mpi.recv(1, 1, ACKNOWLEDGEMENT_BYTES).await?;
                unacknowledged -= 2;
            }
            sent.push(mpi.isend(1, 0, bytes)?);
            unacknowledged += 1;
        } else {
            mpi.recv(0, 0, bytes).await?;
            if index % 2 == 1 {
                mpi.send(0, 1, ACKNOWLEDGEMENT_BYTES).await?;
            }
        }
    }
    while unacknowledged > 1 {
        mpi.recv(1, 1, ACKNOWLEDGEMENT_BYTES).await?;
        unacknowledged -= 2;
    }
    mpi.wait_all(sent).await
}

/// As [`streamed`] under a window of so many messages, an even number, with an acknowledgement for every
/// second one.
pub(crate) fn windowed_stream(
    cluster: &mut Cluster,
    bytes: u64,
    count: u32,
    window: u32,
) -> anyhow::Result<ClusterReport> {
    ensure!(window > 0 && window.is_multiple_of(2) && count.is_multiple_of(2), "pairs are acknowledged");
    let report = cluster.run(|mpi| async move {
        if mpi.rank() < 2 { windowed(mpi, bytes, count, window).await } else { Ok(()) }
    })?;
    checked(cluster, report)
}

/// A collective operation, ps, mean of several.
pub(crate) fn collective_ps(
    cluster: &mut Cluster,
    operation: Collective,
    bytes: u64,
    algorithm: Option<&'static str>,
) -> anyhow::Result<f64> {
    const COUNT: u32 = 4;
    let report = cluster
        .run(|mpi| async move {
            for _ in 0..COUNT {
                mpi.collective(operation, bytes, algorithm).await?;
            }
            Ok(())
        })
        .with_context(|| format!("{} of {bytes} B", operation.name()))?;
    Ok(checked(cluster, report)?.elapsed_ps as f64 / f64::from(COUNT))
}
