//! Beyond the trunking paper: adapters of today that write to a memory which processors use meanwhile, on
//! machines/node-2x200g-pcie5.toml: a table of that study's page ([`run`]).

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context as _, ensure};
use ayatori_core::Error;
use ayatori_fabric::description::{BusKind, Machine};
use ayatori_sim::cluster::{Cluster, Config, Mpi, NicUse};
use ayatori_sim::machine::{cluster_config, simulate};

use crate::bench::machine;
use crate::report::Table;

/// A message, bytes.
const BYTES: u64 = 16 << 20;
/// What a process copies at a time, bytes.
const COPY_BYTES: u64 = 16 << 10;

/// Processes that copy, in node 0, where the adapters write, or in node 1.
#[derive(Clone, Copy)]
struct Copies {
    count: u32,
    node: u32,
}

const COPIES: [Copies; 5] = [
    Copies { count: 0, node: 0 },
    Copies { count: 8, node: 1 },
    Copies { count: 8, node: 0 },
    Copies { count: 24, node: 1 },
    Copies { count: 24, node: 0 },
];
/// Posted writes of an adapter on their way to memory, bytes: the file's, and what its bus has under way in
/// 64 ns.
const WRITES: [u64; 2] = [32_768, 4_096];
/// Adapters: the one near the memory, the far one, both.
const NICS: [u64; 3] = [0b01, 0b10, 0b11];

/// What a host receives.
struct Received {
    /// Part of the adapters' rate.
    part: f64,
    /// What its processes copy meanwhile, GB/s.
    copied: f64,
}

/// Shares of the line rate by copies, by writes under way, by distance.
///
/// # Errors
/// A run that does not end.
pub(crate) fn run(progress: &mut impl FnMut(&str)) -> anyhow::Result<Table> {
    let file = "machines/node-2x200g-pcie5.toml";
    let text = include_str!("../../../machines/node-2x200g-pcie5.toml");
    let mut machine = machine(file, text)?;
    let head = [
        "copies",
        "writes under way",
        "near adapter",
        "far adapter",
        "both",
        "copied beside both, GB/s of those asked for",
    ];
    let title = "Beyond the paper: 200 Gbit/s adapters write to a memory that processes copy in, parts of \
                 the line rate";
    let mut table = Table::new(title, &head);
    for writes_max_bytes in WRITES {
        set_writes(&mut machine, writes_max_bytes);
        for copies in COPIES {
            let Copies { count, node } = copies;
            let place = ["in that memory", "in the other"][node as usize];
            let name = if count == 0 { "none".into() } else { format!("{count} processes, {place}") };
            progress(&format!("200 Gbit/s adapters, copies: {name}"));
            let outcomes: Vec<Received> =
                NICS.iter().map(|&nics| receive(&machine, nics, copies)).collect::<anyhow::Result<_>>()?;
            let asked = f64::from(count) * copy_rate(&machine)?;
            let mut row = vec![name, format!("{} KiB", writes_max_bytes >> 10)];
            row.extend(outcomes.iter().map(|outcome| format!("{:.0} %", 100.0 * outcome.part)));
            row.push(match count {
                0 => "-".into(),
                _ => format!("{:.0} of {asked:.0}", outcomes.last().map_or(0.0, |both| both.copied)),
            });
            table.rows.push(row);
        }
    }
    Ok(table)
}

fn set_writes(machine: &mut Machine, bytes: u64) {
    for bus in machine.host_models.iter_mut().flat_map(|host| &mut host.buses) {
        if let BusKind::PciExpress { writes_max_bytes, .. } = &mut bus.kind {
            *writes_max_bytes = Some(bytes);
        }
    }
}

/// What one process copies by itself, GB/s.
fn copy_rate(machine: &Machine) -> anyhow::Result<f64> {
    let host = machine.host_models.first().context("no host model")?;
    Ok(host.software.copy_bytes_per_s.context("no rate of copies")? as f64 / 1e9)
}

/// The first process of host 1 receives a message by these adapters into node 0, from node 0 of host 0.
fn receive(machine: &Machine, nics: u64, copies: Copies) -> anyhow::Result<Received> {
    let host = machine.host_models.first().context("no host model")?;
    let per_host = host.socket_count * host.cores_per_socket_count;
    let first_copier = per_host + 1 + copies.node * per_host / host.numa_node_count;
    let simulated = simulate(machine, None)?;
    let mut notes = simulated.notes;
    let config = cluster_config(machine, simulated.network.config(), per_host, &mut notes);
    ensure!(notes.is_empty(), "{} is not simulated as it says: {}", machine.name, notes.join("; "));
    // Messages lie in node 0, whatever process has them.
    let memory_nodes = vec![vec![0]; per_host as usize + 1];
    let config = Config { nic_use: NicUse::Only(nics), memory_nodes, ..config };
    let rate = nics.count_ones() as f64 * host.nics[0].rate_bits_per_s as f64 / 8.0;
    let mut cluster = Cluster::new(simulated.network, config)?;
    let (copied_bytes, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let shared = (copied_bytes.clone(), is_over);
    let report = cluster.run(move |mpi| {
        let (copied_bytes, is_over) = shared.clone();
        let copiers = first_copier..first_copier + copies.count;
        async move {
            if copiers.contains(&mpi.rank()) {
                copy_until(&mpi, &is_over, &copied_bytes).await;
                return Ok(());
            }
            send_one(&mpi, per_host).await?;
            is_over.set(is_over.get() || mpi.rank() == per_host);
            Ok(())
        }
    })?;
    let elapsed_s = report.finished_ps[per_host as usize] as f64 * 1e-12;
    Ok(Received {
        part: BYTES as f64 / elapsed_s / rate,
        copied: copied_bytes.get() as f64 / elapsed_s / 1e9,
    })
}

async fn send_one(mpi: &Mpi, to: u32) -> Result<(), Error> {
    if mpi.rank() == 0 {
        mpi.send(to, 0, BYTES).await?;
    } else if mpi.rank() == to {
        mpi.recv(0, 0, BYTES).await?;
    }
    Ok(())
}

async fn copy_until(mpi: &Mpi, is_over: &Cell<bool>, copied_bytes: &Cell<u64>) {
    while !is_over.get() {
        mpi.copy(COPY_BYTES).await;
        copied_bytes.set(copied_bytes.get() + COPY_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_adapters_from_the_memory_they_write_to() {
        let text = include_str!("../../../machines/node-2x200g-pcie5.toml");
        let mut machine = machine("machines/node-2x200g-pcie5.toml", text).unwrap();
        let [none, other, same] = [COPIES[0], COPIES[3], COPIES[4]];
        let part = |machine: &Machine, nics, copies| receive(machine, nics, copies).unwrap().part;
        // What the file has under way covers the wait.
        assert!(part(&machine, 0b10, same) > 0.95);
        set_writes(&mut machine, 4_096);
        let [near, beside, near_busy] = [none, other, same].map(|copies| part(&machine, 0b01, copies));
        assert!(near == beside && near > 0.95, "{near} {beside}");
        // 24 processes ask for 24 x 2 x 12 = 576 GB/s and get G = 307.2 - D: an access takes 100 ns x 576 / G
        // and the adapter carries D = 4096 B in that time. Far it takes 80 ns more.
        let carried = |hops_ns: f64| {
            let step = |d: f64| 4096.0 / (100.0 * 576.0 / (307.2 - d) + hops_ns);
            (0..50).fold(0.0, |d, _| step(d)) / 25.0
        };
        let far_busy = part(&machine, 0b10, same);
        for (ours, expected) in [(near_busy, carried(0.0)), (far_busy, carried(80.0))] {
            assert!((ours / expected - 1.0).abs() < 0.03, "{ours} of {expected}");
        }
    }
}
