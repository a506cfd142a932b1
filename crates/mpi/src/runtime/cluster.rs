//! Joining a job on several hosts: the location of each process, and the way to remote ones.
//!
//! ```text
//!   listen ─► put card (and, rank 0 under a foreign launcher, the job's key) ─► fence ─► get cards, key
//!          ─► the first process of each host makes its segment (unless the launcher did) ─► attach, open
//! ```
//!
//! The key comes from `ayatori run` over the agents' own channels. Under a foreign launcher rank 0 draws it
//! and the launcher's key-value store carries it: it is then as secret as that launcher's connections are.

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault, set_obstacles};
use crate::host::online_cpus_count;
use ayatori_core::coll::Fabric;
use ayatori_core::device::profiles;
use ayatori_core::ids::ProcessId;
use ayatori_devices::composite::{Composite, FIRST_TCP_RAIL};
use ayatori_devices::shm::{self, Occupancy, Shm, ShmConfig, Source};
use ayatori_devices::tcp::{Card, Key, Settings, Wireup};
use ayatori_launch::environment::{Host, KEY_OF_JOB};
use ayatori_launch::launcher::Launcher;

use super::cards::{self, Cards, Facts, Own};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The network between the hosts. Computed from all cards, so it is the same at all processes.
fn fabric_of(facts: &Facts) -> Fabric {
    let rate = facts.slowest_mbit_per_s.unwrap_or(UNKNOWN_MBIT_PER_S);
    Fabric { processors: Some(facts.processors), ..fabric_of_rate(rate) }
}

/// Messages over links of this rate.
fn fabric_of_rate(mbit_per_s: u64) -> Fabric {
    Fabric {
        latency_ps: 10_000_000,
        message_ps: 2_000_000,
        bandwidth_bytes_per_s: mbit_per_s * 1_000_000 / 8,
        eager_bytes_max: profiles::TCP_EAGER_BYTES_MAX,
        ..Fabric::default()
    }
}

/// The network between the processes of several worlds. They know nothing of each other's links and
/// processors, so it is a constant.
pub(super) fn fabric_between_worlds() -> Fabric {
    fabric_of_rate(UNKNOWN_MBIT_PER_S)
}

/// Where no link says how fast it is.
const UNKNOWN_MBIT_PER_S: u64 = 10_000;

/// Result of joining.
pub(super) struct Joined {
    pub(super) device: Composite,
    /// The processes of this host and its CPUs: what its members' collectives in shared memory go by.
    pub(super) occupancy: Occupancy,
    /// The network between the processes, for collective operations.
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
    let reach = |rank: usize, card: &Card| {
        let process = ProcessId(first.0 + rank as u32);
        wireup.rails_count_to(process, card, FIRST_TCP_RAIL).map_err(failed("reach the other hosts"))
    };
    let own = Own { node: card.node, profile: wireup.profile(), reach: &reach };
    let Cards { book, here, facts } = cards::get(launcher, nodes.as_deref(), &own)?;
    let place = Place { first, here: &here, node: card.node, cpus_count: card.cpus_count };
    let shm = attach(host, launcher, &place)?;
    let fabric = fabric_of(&facts);
    let occupancy = shm::occupancy(here.len() as u32, card.cpus_count);
    let ids = (first, ProcessId(first.0 + rank));
    let tcp = wireup
        .open(ids, key, book, (FIRST_TCP_RAIL, facts.rails_most))
        .map_err(failed("reach the other hosts"))?;
    set_obstacles(tcp.obstacles());
    let device = Composite::new(shm, tcp, occupancy.ranks_count, card.cpus_count)
        .map_err(failed("wait for shared memory and sockets at once"))?;
    Ok(Joined { device, occupancy, fabric })
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

/// A process among those of its host.
struct Place<'h> {
    /// The first process of the world.
    first: ProcessId,
    /// The ranks of this host, in order.
    here: &'h [u32],
    node: u64,
    cpus_count: u32,
}

/// Attaches to our host's segment.
fn attach(host: &Host, launcher: &mut dyn Launcher, place: &Place<'_>) -> Result<Shm, Fault> {
    let Place { first, here, node, cpus_count } = *place;
    let rank = launcher.rank();
    let local_rank = here.iter().position(|&one| one == rank).unwrap_or(0) as u32;
    let mut config = ShmConfig::new(local_rank, here.iter().map(|rank| ProcessId(first.0 + rank)).collect());
    config.first = first;
    config.cpus_count = cpus_count;
    let doing = "attach to this host's shared memory";
    if let Some(fd) = host.shared_segment().map_err(failed("take the launcher's shared segment"))? {
        return Shm::attach(&Source::File(fd), &config).map_err(failed(doing));
    }
    let key = format!("ayatori-shm-{node:x}");
    let maker = here[0];
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
