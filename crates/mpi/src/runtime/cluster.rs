//! Joining a job on several hosts: who is where, and how to reach those elsewhere.
//!
//! ```text
//!   listen ─► put card (and, rank 0 under a foreign launcher, the job's key) ─► fence ─► get cards, key
//!          ─► the first process of each host makes its segment (unless the launcher did) ─► attach, open
//! ```
//!
//! The key comes from `ayatori run` over the agents' own channels. Under a foreign launcher rank 0 draws it
//! and the launcher's key-value store carries it: it is then as secret as that launcher's connections are.

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault};
use crate::host::online_cpus_count;
use ayatori_core::coll::Fabric;
use ayatori_core::ids::ProcessId;
use ayatori_devices::composite::{Composite, FIRST_TCP_RAIL};
use ayatori_devices::shm::{Occupancy, Shm, ShmConfig, Source};
use ayatori_devices::tcp::{Card, Key, Settings, Wireup};
use ayatori_launch::environment::{Host, KEY_OF_JOB};
use ayatori_launch::launcher::Launcher;

use super::cards::{self, Cards};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Where each process is, and what it offers.
struct World {
    first: ProcessId,
    /// The others' cards; ours too.
    cards: Vec<Card>,
    me: usize,
}

impl World {
    /// The processes of our host, in order.
    fn local(&self) -> Vec<ProcessId> {
        let here = self.cards[self.me].node;
        let ids = self.cards.iter().enumerate().filter(|(_, card)| card.node == here).map(|(id, _)| id);
        ids.map(|rank| ProcessId(self.first.0 + rank as u32)).collect()
    }

    /// Messages between hosts set the pace. Made of the cards only, so the same at all.
    fn fabric(&self) -> Fabric {
        let rate = |card: &Card| {
            card.endpoints.iter().map(|endpoint| u64::from(endpoint.speed_mbit_per_s)).sum::<u64>()
        };
        let slowest =
            self.cards.iter().map(rate).filter(|&rate| rate > 0).min().unwrap_or(UNKNOWN_MBIT_PER_S);
        let mut nodes = HashSet::new();
        let firsts = self.cards.iter().filter(|card| nodes.insert(card.node));
        Fabric { processors: Some(firsts.map(|card| card.cpus_count).sum()), ..fabric_of_rate(slowest) }
    }
}

/// Messages over links of this rate.
fn fabric_of_rate(mbit_per_s: u64) -> Fabric {
    Fabric {
        latency_ps: 10_000_000,
        message_ps: 2_000_000,
        bandwidth_bytes_per_s: mbit_per_s * 1_000_000 / 8,
        eager_bytes_max: 64 << 10,
        ..Fabric::default()
    }
}

/// What is between the processes of several worlds: of each other's links and processors they know nothing,
/// so it is the same whatever they are.
pub(super) fn fabric_between_worlds() -> Fabric {
    fabric_of_rate(UNKNOWN_MBIT_PER_S)
}

/// Where no link says how fast it is.
const UNKNOWN_MBIT_PER_S: u64 = 10_000;

/// What joining gives.
pub(super) struct Joined {
    pub(super) device: Composite,
    /// The processes of this host and its CPUs: what its members' collectives in shared memory go by.
    pub(super) occupancy: Occupancy,
    /// What is between the processes, as far as collective operations care.
    pub(super) fabric: Fabric,
}

/// Joins the job, whose processes are on these nodes, where the launcher says it.
pub(super) fn join(
    host: &Host,
    nodes: Option<Vec<u32>>,
    launcher: &mut dyn Launcher,
    first: ProcessId,
) -> Result<Joined, Fault> {
    let rank = launcher.rank();
    let settings = Settings::from_environment()
        .map_err(|error| fault(MPI_ERR_OTHER, format_args!("cannot use the network: {error}")))?;
    let wireup = Wireup::listen(settings).map_err(failed("use the network"))?;
    let node =
        host.node.or(nodes.as_ref().map(|nodes| nodes[rank as usize])).map_or_else(node_by_kernel, u64::from);
    let card = wireup.card(node, host.cpus_count.unwrap_or_else(online_cpus_count));
    cards::publish(launcher, &card)?;
    if host.job.is_none() && rank == 0 {
        let key = Key::random().map_err(failed("draw the job's key"))?;
        launcher.put(KEY_OF_JOB, &key.to_hex()).map_err(failed("publish the job's key"))?;
    }
    launcher.fence().map_err(failed("wait for the other processes"))?;
    let key = launcher.get(0, KEY_OF_JOB).map_err(failed("ask for the job's key"))?;
    let key = key.as_deref().and_then(Key::from_hex).ok_or_else(|| {
        fault(MPI_ERR_OTHER, format_args!("the launcher has no key for connections of this job"))
    })?;
    let Cards { all, shared } = cards::get(launcher, nodes.as_deref())?;
    // The others of this host may read it as long as this process lives.
    std::mem::forget(shared);
    let world = World { first, cards: all, me: rank as usize };
    let shm = attach(host, launcher, &world)?;
    let local = world.local();
    let fabric = world.fabric();
    let cpus_count = world.cards[world.me].cpus_count;
    let occupancy = Occupancy { ranks_count: local.len() as u32, cpus_count };
    let elsewhere =
        world.cards.into_iter().enumerate().map(|(rank, card)| (!is_in(&local, first, rank)).then_some(card));
    let tcp = wireup
        .open((first, ProcessId(first.0 + rank)), key, elsewhere.collect(), FIRST_TCP_RAIL)
        .map_err(failed("reach the other hosts"))?;
    let device = Composite::new(shm, tcp, local.len() as u32, cpus_count)
        .map_err(failed("wait for shared memory and sockets at once"))?;
    Ok(Joined { device, occupancy, fabric })
}

fn is_in(local: &[ProcessId], first: ProcessId, rank: usize) -> bool {
    local.binary_search(&ProcessId(first.0 + rank as u32)).is_ok()
}

/// A number for our host under a launcher that gives none: made of what two processes that can share memory
/// have in common.
fn node_by_kernel() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    for space in ["pid", "user"] {
        std::fs::read_link(format!("/proc/self/ns/{space}")).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

/// Attaches to our host's segment.
fn attach(host: &Host, launcher: &mut dyn Launcher, world: &World) -> Result<Shm, Fault> {
    let local = world.local();
    let me = ProcessId(world.first.0 + world.me as u32);
    let local_rank = local.iter().position(|&id| id == me).unwrap_or(0) as u32;
    let mut config = ShmConfig::new(local_rank, local.clone());
    config.first = world.first;
    config.cpus_count = world.cards[world.me].cpus_count;
    let doing = "attach to this host's shared memory";
    if let Some(fd) = host.shared_segment().map_err(failed("take the launcher's shared segment"))? {
        return Shm::attach(&Source::File(fd), &config).map_err(failed(doing));
    }
    let key = format!("ayatori-shm-{:x}", world.cards[world.me].node);
    let maker = local[0].0 - world.first.0;
    let own = match local_rank {
        0 => Some(Source::create().map_err(failed("make this host's shared segment"))?),
        _ => None,
    };
    if let Some(address) = own.as_ref().and_then(Source::address) {
        launcher.put(&key, &address).map_err(failed("publish the shared segment"))?;
    }
    launcher.fence().map_err(failed("wait for the other processes"))?;
    let source = match own {
        Some(source) => source,
        None => match launcher.get(maker, &key).map_err(failed("ask for the shared segment"))? {
            Some(address) => Source::Address(address),
            None => return Err(fault(MPI_ERR_OTHER, format_args!("no shared segment on this host"))),
        },
    };
    let shm = Shm::attach(&source, &config).map_err(failed(doing))?;
    // Its maker keeps it open until all have it.
    launcher.fence().map_err(failed("wait for the other processes"))?;
    Ok(shm)
}
