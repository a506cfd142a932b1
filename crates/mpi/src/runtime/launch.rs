//! How a process finds its job: nobody started it, or a launcher that speaks PMI-1 did.

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault};
use crate::host::online_cpus_count;
use crate::node::Node;
use crate::operation::Selectors;
use ayatori_core::coll::Fabric;
use ayatori_core::ids::ProcessId;
use ayatori_core::process::{Config, GapRule};
use ayatori_devices::shm::{Crowd, Shm, ShmConfig, Source, fabric};
use ayatori_launch::environment::{Launch, Pmi1};
use ayatori_launch::pmi::Client;

use super::cluster;
use super::machine::{Clock, Machine};
use super::net::Net;

/// A process in its job.
pub(crate) struct Job {
    /// What moves messages.
    pub(crate) machine: Machine,
    /// The launcher, until the end.
    pub(crate) launcher: Option<Client>,
    /// This process.
    pub(crate) id: ProcessId,
    /// How many processes.
    pub(crate) count: u32,
    /// `MPI_APPNUM`, where a launcher says it.
    pub(crate) appnum: Option<i32>,
    /// `MPI_UNIVERSE_SIZE`, where known.
    pub(crate) universe_size: Option<i32>,
}

/// Joins the job this process was started in.
pub(crate) fn join() -> Result<Job, Fault> {
    match Launch::detect() {
        Launch::Singleton => alone(),
        Launch::Pmi1(pmi) => by_pmi(&pmi),
        Launch::Unusable { what, why } => {
            Err(fault(MPI_ERR_OTHER, format_args!("cannot join the job: found {what}: {why}")))
        }
    }
}

/// One process, started by nobody.
fn alone() -> Result<Job, Fault> {
    let id = ProcessId(0);
    let device = Shm::alone(id).map_err(failed("set up memory for messages"))?;
    let crowd = Crowd { ranks_count: 1, cpus_count: online_cpus_count() };
    Ok(Job {
        machine: machine(id, 1, Net::Shm(device), crowd, fabric(crowd), gap_rule()?),
        launcher: None,
        id,
        count: 1,
        appnum: None,
        universe_size: Some(1),
    })
}

fn by_pmi(pmi: &Pmi1) -> Result<Job, Fault> {
    let gap = gap_rule()?;
    let mut client = Client::connect(pmi).map_err(failed("reach the launcher"))?;
    let (rank, count) = (client.rank(), client.size());
    let id = ProcessId(rank);
    let (device, crowd, fabric) = if pmi.local_size.is_some_and(|local| local != count) {
        let cluster::Joined { device, crowd, fabric } = cluster::join(pmi, &mut client)?;
        (Net::Composite(Box::new(device)), crowd, fabric)
    } else {
        // The same at all processes, whatever CPUs each is bound to.
        let cpus_count = pmi.cpus_count.unwrap_or_else(online_cpus_count);
        let crowd = Crowd { ranks_count: count, cpus_count };
        (Net::Shm(one_host(pmi, &mut client)?), crowd, fabric(crowd))
    };
    let appnum = client.appnum().ok().filter(|&number| number >= 0);
    let universe_size = client.universe_size().ok().filter(|&size| size > 0);
    let machine = machine(id, count, device, crowd, fabric, gap);
    Ok(Job { machine, launcher: Some(client), id, count, appnum, universe_size })
}

/// All processes are here.
fn one_host(pmi: &Pmi1, client: &mut Client) -> Result<Shm, Fault> {
    let (rank, count) = (client.rank(), client.size());
    let source = segment(pmi, client)?;
    let mut config = ShmConfig::new(rank, (0..count).map(ProcessId).collect());
    config.cpus_count = match pmi.cpus_count {
        Some(cpus) => cpus,
        // Bound to one CPU by a launcher that does not say what the others have: then each has its own.
        None if config.cpus_count == 1 => online_cpus_count(),
        None => config.cpus_count,
    };
    let device = Shm::attach(&source, &config).map_err(failed("attach to the job's shared memory"))?;
    // A launcher without a segment of its own: the first rank keeps it open until all have it.
    if pmi.shm_fd.is_none() {
        client.barrier().map_err(failed("wait for the other processes"))?;
    }
    Ok(device)
}

/// The job's segment: from the launcher, or made by rank 0 and published.
fn segment(pmi: &Pmi1, client: &mut Client) -> Result<Source, Fault> {
    if let Some(fd) = pmi.shared_segment().map_err(failed("take the launcher's shared segment"))? {
        return Ok(Source::File(fd));
    }
    const KEY: &str = "ayatori-shm";
    let own = match client.rank() {
        0 => Some(Source::create().map_err(failed("make the job's shared segment"))?),
        _ => None,
    };
    if let Some(address) = own.as_ref().and_then(Source::address) {
        client.put(KEY, &address).map_err(failed("publish the shared segment"))?;
    }
    client.barrier().map_err(failed("wait for the other processes"))?;
    match own {
        Some(source) => Ok(source),
        None => match client.get(KEY).map_err(failed("ask for the shared segment"))? {
            Some(address) => Ok(Source::Address(address)),
            None => Err(fault(MPI_ERR_OTHER, format_args!("rank 0 published no shared segment"))),
        },
    }
}

/// What the environment says of gaps between packets.
fn gap_rule() -> Result<GapRule, Fault> {
    ayatori_launch::environment::gap_rule().map_err(|error| fault(MPI_ERR_OTHER, format_args!("{error}")))
}

fn machine(id: ProcessId, count: u32, device: Net, crowd: Crowd, fabric: Fabric, gap: GapRule) -> Machine {
    Machine {
        node: Node::new(crowd),
        core: ayatori_core::Process::new(id, count, Config { gap, ..Config::default() }),
        device,
        clock: Clock::start(),
        selectors: Selectors::new(fabric),
    }
}
