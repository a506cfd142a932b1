//! How a process finds its job: it runs alone, or a launcher that speaks PMI-1 or PMIx started it.

use crate::abi::{MPI_ERR_OTHER, MPI_ERRORS_ARE_FATAL};
use crate::fault::{Fault, failed, fault, set_survives, survives};
use crate::host::online_cpus_count;
use crate::node::Node;
use crate::operation::Selectors;
use crate::{check, errhandler};
use ayatori_core::coll::Fabric;
use ayatori_core::ids::ProcessId;
use ayatori_core::process::{Config, GapRule};
use ayatori_devices::shm::{self, Occupancy, Shm, ShmConfig, Source, fabric};
use ayatori_launch::environment::{self, Host, Launch};
use ayatori_launch::launcher::Launcher;
use ayatori_launch::{pmi, pmix};

use super::cluster;
use super::exit::exit_silently;
use super::machine::{AwaitedLook, Clock, Machine};
use super::net::Net;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A process in its job.
pub(crate) struct Job {
    /// The message engine.
    pub(crate) machine: Machine,
    /// The launcher, until the end.
    pub(crate) launcher: Option<Box<dyn Launcher>>,
    /// This process.
    pub(crate) id: ProcessId,
    /// Its world.
    pub(crate) world: WorldName,
    /// The port where its parents wait (`MPI_Comm_spawn`).
    pub(crate) parent: Option<String>,
    /// How many processes.
    pub(crate) count: u32,
    /// `MPI_APPNUM`, where a launcher says it.
    pub(crate) appnum: Option<i32>,
    /// `MPI_UNIVERSE_SIZE`, where known.
    pub(crate) universe_size: Option<i32>,
}

/// What a world is called among worlds that may meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldName {
    /// Its first process. Numbers are drawn at random, so that worlds which meet have different ones; that
    /// two of 1,000 processes each have not happens once in a million times, and is noticed.
    pub(crate) first: ProcessId,
    /// A random number.
    pub(crate) token: u64,
}

/// Numbers below belong to no world of more than one process, and to none that a launcher has started.
const FIRST_MIN: u32 = 1 << 20;

impl WorldName {
    /// Before there is one.
    pub(crate) const NONE: Self = Self { first: ProcessId(0), token: 0 };

    /// That of all processes with the same text, which no other world has.
    fn of(text: &str, count: u32) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let token = hasher.finish();
        let room = u64::from((1u32 << 31) - FIRST_MIN - count);
        Self { first: ProcessId(FIRST_MIN + (token % room) as u32), token }
    }
}

/// The launcher's key for the port of this world's parents.
pub(crate) const PARENT_KEY: &str = "ayatori-parent";

/// Joins the job this process was started in.
pub(crate) fn join() -> Result<Job, Fault> {
    let wrong = environment::wrong_switches(|name| Some(std::env::var_os(name)?.to_string_lossy().into()));
    if let Some(what) = wrong.first() {
        return Err(fault(MPI_ERR_OTHER, format_args!("{what}")));
    }
    set_survives(environment::survives());
    check::start();
    match Launch::detect() {
        Launch::Singleton => alone(),
        Launch::Pmi1(pmi1) => {
            let client = pmi::Client::connect(&pmi1).map_err(failed("reach the launcher"))?;
            by_launcher(&pmi1.host, Box::new(client))
        }
        Launch::Pmix(environment) => match pmix::connect(&environment) {
            Ok(client) => by_launcher(&Host::default(), Box::new(client)),
            // The same would be said by each process of this host.
            Err(_)
                if errhandler::handlers().initial == MPI_ERRORS_ARE_FATAL
                    && !pmix::is_first_to_complain(&environment) =>
            {
                exit_silently(MPI_ERR_OTHER)
            }
            Err(error) => Err(fault(MPI_ERR_OTHER, format_args!("cannot join the job: {error}"))),
        },
        Launch::Unusable { what, why } => {
            Err(fault(MPI_ERR_OTHER, format_args!("cannot join the job: found {what}: {why}")))
        }
    }
}

/// One process without a launcher.
fn alone() -> Result<Job, Fault> {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let world = WorldName::of(&format!("{boot} {} {moment:?}", std::process::id()), 1);
    let id = world.first;
    let device = Shm::alone(id).map_err(failed("set up memory for messages"))?;
    let occupancy = shm::occupancy(1, online_cpus_count());
    Ok(Job {
        machine: machine((world.first, id), 1, Net::Shm(device), occupancy, fabric(occupancy), gap_rule()?),
        launcher: None,
        id,
        world,
        parent: None,
        count: 1,
        appnum: None,
        universe_size: Some(1),
    })
}

fn by_launcher(host: &Host, mut launcher: Box<dyn Launcher>) -> Result<Job, Fault> {
    let gap = gap_rule()?;
    let (rank, count) = (launcher.rank(), launcher.size());
    let world = WorldName::of(launcher.job_name(), count);
    let id = ProcessId(world.first.0 + rank);
    let nodes = nodes(host, &mut *launcher)?;
    let (device, occupancy, fabric) =
        if nodes.as_ref().is_some_and(|nodes| nodes.iter().all(|node| *node == nodes[0])) {
            // The same at all processes, whatever CPUs each is bound to.
            let cpus_count = host.cpus_count.unwrap_or_else(online_cpus_count);
            let occupancy = shm::occupancy(count, cpus_count);
            (Net::Shm(one_host(host, &mut *launcher, world.first)?), occupancy, fabric(occupancy))
        } else {
            let cluster::Joined { device, occupancy, fabric } =
                cluster::join(host, nodes, &mut *launcher, world.first)?;
            let failed = device.failure_notice();
            launcher.on_failure(Box::new(move |rank| failed(ProcessId(world.first.0 + rank))));
            (Net::Composite(Box::new(device)), occupancy, fabric)
        };
    let (appnum, universe_size) = (launcher.appnum(), launcher.universe_size());
    let parent = launcher.given(PARENT_KEY).map_err(failed("ask for the parents of this process"))?;
    let machine = machine((world.first, id), count, device, occupancy, fabric, gap);
    Ok(Job { machine, launcher: Some(launcher), id, world, parent, count, appnum, universe_size })
}

/// The host of each process, as the launcher reports it. `None`: it does not.
fn nodes(host: &Host, launcher: &mut dyn Launcher) -> Result<Option<Vec<u32>>, Fault> {
    let count = launcher.size();
    if count == 1 || host.local_size == Some(count) {
        return Ok(Some(vec![0; count as usize]));
    }
    launcher.nodes().map_err(failed("ask where the processes are"))
}

/// All processes are here.
fn one_host(host: &Host, launcher: &mut dyn Launcher, first: ProcessId) -> Result<Shm, Fault> {
    let (rank, count) = (launcher.rank(), launcher.size());
    let source = segment(host, launcher)?;
    let mut config = ShmConfig::new(rank, (first.0..first.0 + count).map(ProcessId).collect());
    config.first = first;
    config.cpus_count = match host.cpus_count {
        Some(cpus) => cpus,
        // Bound to one CPU by a launcher that does not say what the others have: then each has its own.
        None if config.cpus_count == 1 => online_cpus_count(),
        None => config.cpus_count,
    };
    let device = Shm::attach(&source, &config).map_err(failed("attach to the job's shared memory"))?;
    // A launcher without a segment of its own: the first rank keeps it open until all have it.
    if host.shm_fd.is_none() {
        launcher.fence().map_err(failed("wait for the other processes"))?;
    }
    Ok(device)
}

/// The job's segment: from the launcher, or made by rank 0 and published.
fn segment(host: &Host, launcher: &mut dyn Launcher) -> Result<Source, Fault> {
    if let Some(fd) = host.shared_segment().map_err(failed("take the launcher's shared segment"))? {
        return Ok(Source::File(fd));
    }
    const KEY: &str = "ayatori-shm";
    let own = match launcher.rank() {
        0 => Some(Source::create().map_err(failed("make the job's shared segment"))?),
        _ => None,
    };
    if let Some(address) = own.as_ref().and_then(Source::address) {
        launcher.put(KEY, &address).map_err(failed("publish the shared segment"))?;
    }
    launcher.fence().map_err(failed("wait for the other processes"))?;
    match own {
        Some(source) => Ok(source),
        None => match launcher.get(0, KEY).map_err(failed("ask for the shared segment"))? {
            Some(address) => Ok(Source::Address(address)),
            None => Err(fault(MPI_ERR_OTHER, format_args!("rank 0 published no shared segment"))),
        },
    }
}

/// What the environment says of gaps between packets.
fn gap_rule() -> Result<GapRule, Fault> {
    ayatori_launch::environment::gap_rule().map_err(|error| fault(MPI_ERR_OTHER, format_args!("{error}")))
}

fn machine(
    (first, id): (ProcessId, ProcessId),
    count: u32,
    device: Net,
    occupancy: Occupancy,
    fabric: Fabric,
    gap: GapRule,
) -> Machine {
    let config = Config { gap, survives: survives(), ..Config::default() };
    Machine {
        node: Node::new(occupancy),
        core: ayatori_core::Process::of_world(first, id, count, config),
        device,
        clock: Clock::start(),
        selectors: Selectors::new(fabric, cluster::fabric_between_worlds()),
        world: first..ProcessId(first.0 + count),
        has_met_others: false,
        awaited: AwaitedLook::default(),
    }
}

/// The machines of two processes in shared memory.
#[cfg(test)]
pub(super) fn two_machines() -> [Machine; 2] {
    let (source, first) = (Source::create().expect("memory"), ProcessId(0));
    let occupancy = shm::occupancy(2, 2);
    [0, 1].map(|rank| {
        let config = ShmConfig::new(rank, vec![first, ProcessId(1)]);
        let device = Net::Shm(Shm::attach(&source, &config).expect("a segment"));
        machine((first, ProcessId(rank)), 2, device, occupancy, fabric(occupancy), GapRule::default())
    })
}
