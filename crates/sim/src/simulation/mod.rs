//! A workload on a described machine, from options to an outcome: what `ayatori sim run` and the Python
//! module do.
//!
//! Owns: the options and their checks, the names of workloads, how many processes there are, and what is told
//! of a run ([`Outcome`]). Deliberately absent: printing, progress bars, threads.
//!
//! Wrong options are refused before anything runs; the message names the command's option
//! ([`SimulationError::Usage`]).
//!
//! ```
//! use ayatori_fabric::description::Machine;
//! use ayatori_sim::simulation::{Options, Simulation, Workload};
//!
//! let text = include_str!("../../../../machines/fx10.toml");
//! let machine = Machine::parse("fx10.toml", text)?;
//! let options = Options { bytes: 4096, ..Options::default() };
//! let mut simulation = Simulation::new("fx10.toml", &machine, Workload::named("barrier")?, options)?;
//! assert_eq!(simulation.run()?.process_count, 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod outcome;
mod workload;

pub use outcome::Outcome;
pub use workload::{Workload, parse_bytes};

use std::fmt;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ayatori_fabric::description::{DescriptionError, Machine};
use ayatori_fabric::plan::Plan;

use crate::cluster::{Cluster, ClusterError, ClusterReport, Config, Mpi};
use crate::goal::GoalError;
use crate::machine::{self, MachineError, Simulated};
use crate::network::{Gap, Watch};
use crate::report::{HostReport, LinkReport};
use crate::trace::Trace;

/// How a workload is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Processes on the first so many hosts only; `None`: on all.
    pub nodes: Option<u32>,
    /// Length of a message (or block, or face of a halo), bytes.
    pub bytes: u64,
    /// Times the workload is repeated, at least 1.
    pub rounds: u32,
    /// Processes on a host, at least 1.
    pub per_host: u32,
    /// Silence of a NIC after each packet of long messages, in packet times: 0 to 1,000,000.
    pub gap: f64,
    /// Algorithm of a collective operation; `None`: the library chooses.
    pub algorithm: Option<String>,
    /// Processes start at times spread over so many nanoseconds.
    pub start_spread_ns: u64,
    /// Seed of random orders and start times.
    pub seed: u64,
    /// Busiest links to name.
    pub worst: usize,
    /// Refuse to run if anything is simulated otherwise than the machine file says.
    pub strict: bool,
    /// Collect a trace ([`Simulation::write_trace`]).
    pub trace: bool,
}

impl Default for Options {
    /// As the command's.
    fn default() -> Options {
        Options {
            nodes: None,
            bytes: 64 << 10,
            rounds: 1,
            per_host: 1,
            gap: 0.0,
            algorithm: None,
            start_spread_ns: 0,
            seed: 1,
            worst: 5,
            strict: false,
            trace: false,
        }
    }
}

/// Why nothing was simulated, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// An option, or a workload's name, is wrong.
    #[error("{0}")]
    Usage(String),
    /// A GOAL file is wrong.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// A machine file is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The machine cannot be simulated.
    #[error("{file} cannot be simulated")]
    Machine {
        /// Its file.
        file: String,
        /// Why.
        #[source]
        error: MachineError,
    },
    /// Something is not simulated as described, and [`Options::strict`] was asked for.
    #[error("{file} is not simulated as it says (--strict):\n  {}", notes.join("\n  "))]
    Strict {
        /// The machine's file.
        file: String,
        /// What.
        notes: Vec<String>,
    },
    /// The run came to no end.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// The largest gap that may be asked for, packet times.
const GAP_MAX: f64 = 1_000_000.0;
/// The longest [`Options::start_spread_ns`]: 1,000 s.
const START_SPREAD_NS_MAX: u64 = 1_000_000_000_000;
/// More would take more memory than computers have (a process takes a few KiB).
const PROCESS_COUNT_MAX: u32 = 1 << 22;
/// Links that a trace counts the load of.
const COUNTED_LINK_COUNT: usize = 32;

/// A workload on a machine, ready to run.
pub struct Simulation {
    cluster: Cluster,
    workload: Workload,
    options: Options,
    process_count: u32,
    notes: Vec<String>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Simulation { workload, options, process_count, .. } = self;
        let mut text = f.debug_struct("Simulation");
        text.field("workload", workload).field("options", options).field("process_count", process_count);
        text.finish_non_exhaustive()
    }
}

impl Simulation {
    /// Checks the options and builds the machine's network and processes; `file` is the machine's name in
    /// errors.
    ///
    /// # Errors
    /// What is wrong with the options, or why the machine cannot be simulated.
    pub fn new(
        file: &str,
        machine: &Machine,
        workload: Workload,
        options: Options,
    ) -> Result<Simulation, SimulationError> {
        Simulation::build(file, machine, None, workload, options)
    }

    /// As [`Simulation::new`], with the routes of a plan of an Ethernet machine as it was written
    /// ([`ayatori_fabric::vlan::written`]), in the place of one made now.
    ///
    /// # Errors
    /// As [`Simulation::new`]; machines of routers have no plan.
    pub fn planned(
        file: &str,
        machine: &Machine,
        plan: &Plan,
        workload: Workload,
        options: Options,
    ) -> Result<Simulation, SimulationError> {
        Simulation::build(file, machine, Some(plan), workload, options)
    }

    fn build(
        file: &str,
        machine: &Machine,
        plan: Option<&Plan>,
        workload: Workload,
        options: Options,
    ) -> Result<Simulation, SimulationError> {
        check(&options)?;
        let process_count = process_count(file, machine, &workload, &options)?;
        workload.check(&options, process_count)?;
        let probe = options.trace.then(Trace::default);
        let Simulated { network, mut notes } = machine::simulate_planned(machine, plan, probe)
            .map_err(|error| SimulationError::Machine { file: file.into(), error })?;
        let config = Config {
            gap: Gap::packets(options.gap),
            start_spread_ps: options.start_spread_ns * 1_000,
            seed: options.seed,
            process_count: Some(process_count),
            ..machine::cluster_config(machine, network.config(), options.per_host, &mut notes)
        };
        let graph = network.graph();
        let nic_counts = graph.hosts().map(|host| graph.port_count(host.into()));
        workload.check_nics(nic_counts.min().unwrap_or(0))?;
        notes.extend(workload.notes(&options));
        notes.extend(workload.gap_note(&options, &config));
        if options.strict && !notes.is_empty() {
            return Err(SimulationError::Strict { file: file.into(), notes });
        }
        let cluster = Cluster::new(network, config)?;
        Ok(Simulation { cluster, workload, options, process_count, notes })
    }

    /// What is simulated otherwise than described, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of processes.
    pub fn process_count(&self) -> u32 {
        self.process_count
    }

    /// For another thread to show how far the run is.
    pub fn watch(&mut self) -> Arc<Watch> {
        self.cluster.watch()
    }

    /// Another thread may set this, and the run ends with [`ClusterError::Stopped`].
    pub fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.cluster.stop_on(stop);
    }

    /// Runs the workload.
    ///
    /// # Errors
    /// A standstill, an error of a rank.
    pub fn run(&mut self) -> Result<Outcome, SimulationError> {
        let report = self.workload.run(&mut self.cluster, &self.options, self.process_count)?;
        Ok(self.outcome(report))
    }

    /// Runs a workload of the caller's in place of its own, [`Options::rounds`] not counted.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn run_with<F, W>(&mut self, workload: W) -> Result<Outcome, SimulationError>
    where
        W: Fn(Mpi) -> F,
        F: Future<Output = Result<(), ayatori_core::Error>> + 'static,
    {
        let report = self.cluster.run(workload)?;
        Ok(self.outcome(report))
    }

    fn outcome(&self, report: ClusterReport) -> Outcome {
        let (links, counters) = self.cluster.with_network(|network| {
            (LinkReport::of(network, report.elapsed_ps, self.options.worst), network.counters())
        });
        Outcome {
            workload: self.workload.name().into(),
            process_count: self.process_count,
            hosts: HostReport::of(&report),
            links,
            counters,
            report,
        }
    }

    /// Writes the trace of what has run, for Perfetto. Nothing, without [`Options::trace`].
    ///
    /// # Errors
    /// As the writer's.
    pub fn write_trace(&self, out: &mut impl Write) -> io::Result<()> {
        self.cluster.with_network(|network| match network.probe() {
            Some(trace) => trace.write(network.graph(), COUNTED_LINK_COUNT, out),
            None => Ok(()),
        })
    }
}

fn usage<T>(message: String) -> Result<T, SimulationError> {
    Err(SimulationError::Usage(message))
}

fn check(options: &Options) -> Result<(), SimulationError> {
    let Options { gap, start_spread_ns, rounds, per_host, nodes, .. } = options;
    if !(0.0..=GAP_MAX).contains(gap) {
        return usage(format!("--gap {gap}: from 0 to 1,000,000 packet times"));
    }
    if *start_spread_ns > START_SPREAD_NS_MAX {
        return usage(format!("--start-spread-ns {start_spread_ns}: at most {START_SPREAD_NS_MAX}"));
    }
    for (option, value) in [("rounds", *rounds), ("per-host", *per_host), ("nodes", nodes.unwrap_or(1))] {
        if value == 0 {
            return usage(format!("--{option} 0: at least 1"));
        }
    }
    Ok(())
}

/// How many processes there are: the ranks of a GOAL file, or as many as the hosts to be used hold.
fn process_count(
    file: &str,
    machine: &Machine,
    workload: &Workload,
    options: &Options,
) -> Result<u32, SimulationError> {
    let host_count = machine.graph.host_count() as u64;
    let node_count = options.nodes.map_or(host_count, u64::from);
    if node_count > host_count {
        return usage(format!(
            "--nodes {node_count}: {file} has {host_count} hosts (--extents makes it larger)"
        ));
    }
    let room = node_count * u64::from(options.per_host);
    let count = workload.rank_count().unwrap_or(room);
    if count > room {
        let (name, each) = (workload.name(), options.per_host);
        let per_host = count.div_ceil(node_count);
        return usage(format!(
            "{name} has {count} ranks; {node_count} hosts of {file} with {each} each hold {room}: \
             --per-host {per_host} would do"
        ));
    }
    match u32::try_from(count).ok().filter(|&count| count <= PROCESS_COUNT_MAX) {
        Some(count) => Ok(count),
        None => usage(format!("{count} processes: at most {PROCESS_COUNT_MAX} can be simulated")),
    }
}
