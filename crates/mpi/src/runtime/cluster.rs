//! Joining a job on several hosts: who is where, and how to reach those elsewhere.
//!
//! ```text
//!   listen ─► put card (and, rank 0 under a foreign launcher, the job's key) ─► barrier ─► get cards, key
//!          ─► the first process of each host makes its segment (unless the launcher did) ─► attach, open
//! ```
//!
//! The key comes from `ayatori run` over the agents' own channels. Under a foreign launcher rank 0 draws it and the
//! launcher's key-value store carries it: it is then as secret as that launcher's connections are.

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault};
use crate::host::online_cpus_count;
use ayatori_core::coll::Fabric;
use ayatori_core::ids::ProcessId;
use ayatori_devices::composite::{Composite, FIRST_TCP_RAIL};
use ayatori_devices::shm::{Crowd, Shm, ShmConfig, Source};
use ayatori_devices::tcp::{Card, Key, Settings, Wireup};
use ayatori_launch::environment::{KEY_OF_JOB, Pmi1};
use ayatori_launch::pmi::{Client, mapping};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Where each process is, and what it offers.
struct World {
    /// The others' cards; ours too.
    cards: Vec<Card>,
    me: usize,
}

impl World {
    /// The processes of our host, in order.
    fn local(&self) -> Vec<ProcessId> {
        let here = self.cards[self.me].node;
        let ids = self.cards.iter().enumerate().filter(|(_, card)| card.node == here).map(|(id, _)| id);
        ids.map(|id| ProcessId(id as u32)).collect()
    }

    /// Messages between hosts set the pace. Made of the cards only, so the same at all.
    fn fabric(&self) -> Fabric {
        let rate = |card: &Card| card.doors.iter().map(|door| u64::from(door.speed_mbit_per_s)).sum::<u64>();
        let slowest = self.cards.iter().map(rate).filter(|&rate| rate > 0).min().unwrap_or(10_000);
        let firsts = self
            .cards
            .iter()
            .enumerate()
            .filter(|(place, card)| self.cards[..*place].iter().all(|before| before.node != card.node));
        Fabric {
            latency_ps: 10_000_000,
            message_ps: 2_000_000,
            bandwidth_bytes_per_s: slowest * 1_000_000 / 8,
            eager_bytes_max: 64 << 10,
            processors: Some(firsts.map(|(_, card)| card.cpus_count).sum()),
            ..Fabric::default()
        }
    }
}

/// What joining gives.
pub(super) struct Joined {
    pub(super) device: Composite,
    /// The processes of this host and its CPUs: what its members' collectives in shared memory go by.
    pub(super) crowd: Crowd,
    /// What is between the processes, as far as collective operations care.
    pub(super) fabric: Fabric,
}

/// Joins the job.
pub(super) fn join(pmi: &Pmi1, client: &mut Client) -> Result<Joined, Fault> {
    let (rank, count) = (client.rank(), client.size());
    let settings = Settings::from_environment()
        .map_err(|error| fault(MPI_ERR_OTHER, format_args!("cannot use the network: {error}")))?;
    let wireup = Wireup::listen(settings).map_err(failed("use the network"))?;
    let node = pmi.node.map_or_else(|| node(client, rank, count), |node| Ok(node.into()))?;
    let card = wireup.card(node, pmi.cpus_count.unwrap_or_else(online_cpus_count));
    publish(client, rank, &card)?;
    let is_ours = pmi.job.is_some();
    if !is_ours && rank == 0 {
        let key = Key::random().map_err(failed("draw the job's key"))?;
        client.put(KEY_OF_JOB, &key.to_hex()).map_err(failed("publish the job's key"))?;
    }
    client.barrier().map_err(failed("wait for the other processes"))?;
    let key = client.get(KEY_OF_JOB).map_err(failed("ask for the job's key"))?;
    let key = key.as_deref().and_then(Key::from_hex).ok_or_else(|| {
        fault(MPI_ERR_OTHER, format_args!("the launcher has no key for connections of this job"))
    })?;
    let world = World { cards: cards(client, count)?, me: rank as usize };
    let shm = attach(pmi, client, &world)?;
    let local = world.local();
    let fabric = world.fabric();
    let cpus_count = world.cards[world.me].cpus_count;
    let crowd = Crowd { ranks_count: local.len() as u32, cpus_count };
    let elsewhere =
        world.cards.into_iter().enumerate().map(|(id, card)| (!is_in(&local, id)).then_some(card));
    let tcp = wireup
        .open(ProcessId(rank), key, elsewhere.collect(), FIRST_TCP_RAIL)
        .map_err(failed("reach the other hosts"))?;
    let device = Composite::new(shm, tcp, local.len() as u32, cpus_count)
        .map_err(failed("wait for shared memory and sockets at once"))?;
    Ok(Joined { device, crowd, fabric })
}

fn is_in(local: &[ProcessId], id: usize) -> bool {
    local.binary_search(&ProcessId(id as u32)).is_ok()
}

/// A number for our host under a launcher that is not `ayatori run`: the launcher's, or else one made of what two processes
/// that can share memory have in common.
fn node(client: &mut Client, rank: u32, count: u32) -> Result<u64, Fault> {
    let text = client.get("PMI_process_mapping").map_err(failed("ask where the processes are"))?;
    if let Some(nodes) = text.and_then(|text| mapping::nodes(&text, count)) {
        return Ok(u64::from(nodes[rank as usize]));
    }
    let mut hasher = DefaultHasher::new();
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    for space in ["pid", "user"] {
        std::fs::read_link(format!("/proc/self/ns/{space}")).unwrap_or_default().hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn card_key(rank: u32) -> String {
    format!("ayatori-card-{rank}")
}

fn publish(client: &mut Client, rank: u32, card: &Card) -> Result<(), Fault> {
    let most = client.maxes().value_bytes;
    let text = card.emit(most).ok_or_else(|| {
        fault(
            MPI_ERR_OTHER,
            format_args!(
                "the launcher takes values of at most {most} bytes: name fewer interfaces (--rails)"
            ),
        )
    })?;
    client.put(&card_key(rank), &text).map_err(failed("publish this process's addresses"))
}

fn cards(client: &mut Client, count: u32) -> Result<Vec<Card>, Fault> {
    let keys: Vec<String> = (0..count).map(card_key).collect();
    let texts = client.get_all(&keys).map_err(failed("ask for the others' addresses"))?;
    let card = |(rank, text): (usize, Option<String>)| {
        let text = text.ok_or_else(|| {
            fault(MPI_ERR_OTHER, format_args!("rank {rank} published no address: does it use this library?"))
        })?;
        Card::parse(&text).map_err(|why| {
            fault(MPI_ERR_OTHER, format_args!("rank {rank} published a business card that is {}", why.0))
        })
    };
    texts.into_iter().enumerate().map(card).collect()
}

/// Attaches to our host's segment.
fn attach(pmi: &Pmi1, client: &mut Client, world: &World) -> Result<Shm, Fault> {
    let local = world.local();
    let me = ProcessId(world.me as u32);
    let local_rank = local.iter().position(|&id| id == me).unwrap_or(0) as u32;
    let mut config = ShmConfig::new(local_rank, local.clone());
    config.cpus_count = world.cards[world.me].cpus_count;
    let doing = "attach to this host's shared memory";
    if let Some(fd) = pmi.shared_segment().map_err(failed("take the launcher's shared segment"))? {
        return Shm::attach(&Source::File(fd), &config).map_err(failed(doing));
    }
    let key = format!("ayatori-shm-{:x}", world.cards[world.me].node);
    let own = match local_rank {
        0 => Some(Source::create().map_err(failed("make this host's shared segment"))?),
        _ => None,
    };
    if let Some(address) = own.as_ref().and_then(Source::address) {
        client.put(&key, &address).map_err(failed("publish the shared segment"))?;
    }
    client.barrier().map_err(failed("wait for the other processes"))?;
    let source = match own {
        Some(source) => source,
        None => match client.get(&key).map_err(failed("ask for the shared segment"))? {
            Some(address) => Source::Address(address),
            None => return Err(fault(MPI_ERR_OTHER, format_args!("no shared segment on this host"))),
        },
    };
    let shm = Shm::attach(&source, &config).map_err(failed(doing))?;
    // Its maker keeps it open until all have it.
    client.barrier().map_err(failed("wait for the other processes"))?;
    Ok(shm)
}
