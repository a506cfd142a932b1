//! A cluster of real [`Process`]es on a simulated network.
//!
//! Every rank is an instance of the shipping protocol engine (`ayatori-core`) and a workload: an async
//! function that calls [`Mpi`]. Time passes in two ways. The network's events move simulated time forward;
//! and every process has a clock of its own, ahead of it while the process is busy with software (calls,
//! copies, computing). A process whose clock is ahead looks at nothing that arrives before its clock: it
//! makes progress only inside its calls, as a plain MPI process does.
//!
//! Messages are lengths; a workload that wants to check its data sends some ([`Mpi::isend_data`]), at the
//! same times.
//!
//! Deliberately absent: threads, and wall-clock time.
//! The same cluster, seed and workload give the same picoseconds.
//!
//! ```
//! use ayatori_sim::cluster::{Cluster, Config, Mpi};
//! use ayatori_sim::machine::nsim_torus;
//!
//! async fn ring(mpi: Mpi) -> Result<(), ayatori_core::Error> {
//!     let (me, size) = (mpi.rank(), mpi.size());
//!     let from_left = mpi.irecv((me + size - 1) % size, 0, 1 << 20)?;
//!     mpi.send((me + 1) % size, 0, 1 << 20).await?;
//!     mpi.wait(from_left).await?;
//!     Ok(())
//! }
//!
//! let network = nsim_torus(&[4, 4], None)?;
//! let report = Cluster::new(network, Config::default())?.run(ring)?;
//! assert!(report.elapsed_ps > 200_000_000); // 1 MiB at 5 GB/s
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collective;
mod cores;
mod cpus;
mod data_order;
mod fabric;
mod mpi;
mod nic;
mod pipeline;
mod rank_state;
mod room;
mod shared;
mod sockets;
mod software;
mod working_set;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use ayatori_core::buffer::Buffer;
use ayatori_core::ids::ProcessId;
use ayatori_core::request::Completion;
use ayatori_core::time::{Duration, Instant};
use ayatori_core::{Error, Process, process};

pub use ayatori_core::link::Policy;
pub use ayatori_fabric::description::NicDevice;

use crate::host::Model;
use crate::network::{Deadlock, Gap, Network, NicId, Watch};
use crate::trace::Trace;
use ayatori_random::Random;

use fabric::Fabric;
pub use mpi::{Mpi, Request};
pub use nic::Nic;
use room::Room;
pub use sockets::Sockets;
pub use software::{GetTimes, KernelCopy, Rates, Software};

/// How a rendezvous moves its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// The receiver's NIC reads the sender's memory.
    Get,
    /// The sender's NIC writes the receiver's memory.
    Put,
    /// Packets through the protocol engine, copied at both ends.
    Packets,
}

/// A device of the library that NICs and memories behave like: its own capabilities, from
/// [`profiles`](ayatori_core::device::profiles).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Which.
    pub device: NicDevice,
    /// Largest payload of a frame, bytes.
    pub mtu_bytes: u32,
}

/// Which of its host's NICs a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicUse {
    /// All of them: each is a rail.
    All,
    /// One, dealt out in turn to the processes of a host: it is their one rail, also to processes that have
    /// another.
    OneEach,
    /// Those whose bits are set, from NIC 0 on: each is a rail.
    Only(u64),
}

/// What hosts, their software and their NICs are like.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Processes on each host, numbered host by host.
    pub processes_per_host: u32,
    /// Processes in all; `None`: as many as the hosts hold.
    pub process_count: Option<u32>,
    /// Cores of a host, which its processes share if they are more; `None`: one for each process.
    pub core_count: Option<u32>,
    /// Cores of a host for the CPUs that its processes' GOAL schedules name; `None`: as many as they name.
    pub schedule_core_count: Option<u32>,
    /// Software time to send a packet or start a transfer, ps.
    pub send_ps: u64,
    /// Software time to take in a packet or a completion, ps.
    pub receive_ps: u64,
    /// Rate at which software copies payload of packets in and out, bytes/s.
    pub copy_bytes_per_s: u64,
    /// From a command written to the NIC until its first packet can leave, ps.
    pub command_ps: u64,
    /// Time for a cache line to reach another process of the host, ps.
    pub memory_latency_ps: u64,
    /// Rate of a host's memory for messages within the host, all its processes together, bytes/s.
    pub memory_bytes_per_s: u64,
    /// What else software costs.
    pub software: Software,
    /// Rates of copies that depend on how much memory a process goes through.
    pub rates: Rates,
    /// Longest message that goes eagerly, bytes.
    pub eager_bytes_max: usize,
    /// Longest packet of the protocols, header included, bytes; `None`: 4 KiB longer than an eager message.
    pub packet_bytes_max: Option<usize>,
    /// How a rendezvous moves its data.
    pub transfer: Transfer,
    /// Data of gets and puts between the same two processes leave one after the other, as an adapter sends
    /// them that works on a connection in order; else a packet of each in turn.
    pub data_in_order: bool,
    /// The device that NICs behave like, in place of `eager_bytes_max` and `transfer`; the memory of a host
    /// behaves like `shm` then.
    pub profile: Option<Profile>,
    /// What the operating system's sockets cost, where NICs are driven by them.
    pub sockets: Option<Rc<Sockets>>,
    /// Silence of a NIC after each packet of a rendezvous' data.
    pub gap: Gap,
    /// As much more for every hop between switches that the message has to go ("MOD pacing", the future work
    /// of the packet pacing paper: a gap for each message from its hop count).
    pub gap_per_hop: Gap,
    /// So many hops add no gap to that: 1 where a message that goes one hop is never in anybody's way.
    pub gap_free_hop_count: u32,
    /// Where it is known who sends to whom: the gap of each message by sender and receiver, instead of all
    /// that. What is not in it has none.
    pub gap_of_pair: Option<Rc<BTreeMap<(u32, u32), Gap>>>,
    /// How data is spread over NICs.
    pub policy: Policy,
    /// Memories, buses and the stages of NICs; `None`: data are at the NIC at once.
    pub hardware: Option<Rc<Model>>,
    /// By rank: the NUMA nodes that its messages' memory lies in, each message in as many equal parts;
    /// nothing: its own.
    pub memory_nodes: Vec<Vec<u16>>,
    /// Which of its host's NICs a process uses.
    pub nic_use: NicUse,
    /// Processes start at times spread evenly over this, ps.
    pub start_spread_ps: u64,
    /// Seed of the start times.
    pub seed: u64,
}

impl Default for Config {
    /// One process a host, software of today: some 100 ns a call, copies at 10 GB/s, rendezvous by get above
    /// 16 KiB.
    fn default() -> Config {
        Config {
            processes_per_host: 1,
            process_count: None,
            core_count: None,
            schedule_core_count: None,
            send_ps: 150_000,
            receive_ps: 150_000,
            copy_bytes_per_s: 10_000_000_000,
            command_ps: 200_000,
            memory_latency_ps: 100_000,
            memory_bytes_per_s: 40_000_000_000,
            software: Software::default(),
            rates: Rates::default(),
            eager_bytes_max: 16 << 10,
            packet_bytes_max: None,
            transfer: Transfer::Get,
            data_in_order: false,
            profile: None,
            sockets: None,
            gap: Gap::NONE,
            gap_per_hop: Gap::NONE,
            gap_free_hop_count: 0,
            gap_of_pair: None,
            policy: Policy::default(),
            hardware: None,
            memory_nodes: Vec::new(),
            nic_use: NicUse::All,
            start_spread_ps: 0,
            seed: 0,
        }
    }
}

/// What a run took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReport {
    /// From the start until the last rank's workload had returned, ps.
    pub elapsed_ps: u64,
    /// When each rank's workload had returned, ps, by rank.
    pub finished_ps: Vec<u64>,
    /// What processes and memories were busy with.
    pub usage: Usage,
}

/// How long processes and memories were busy during a run, ps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// By rank: in the library or computing.
    pub busy_ps: Vec<u64>,
    /// By rank: computing.
    pub computing_ps: Vec<u64>,
    /// By rank: how many cores it was at most busy on at a time.
    pub core_counts: Vec<u32>,
    /// By rank: in the operating system, for the library.
    pub kernel_ps: Vec<u64>,
    /// By host: its memory, with messages within the host.
    pub memory_busy_ps: Vec<u64>,
    /// The units of all NICs, host by host.
    pub units: Vec<UnitUsage>,
}

/// How long the servers of a NIC's unit were busy in sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitUsage {
    /// Its host.
    pub host: u32,
    /// The unit's name in the description.
    pub name: String,
    /// ps.
    pub busy_ps: u64,
}

impl Usage {
    /// What has been added since `before`.
    fn since(mut self, before: &Usage) -> Usage {
        let subtract = |now: &mut [u64], before: &[u64]| {
            now.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        };
        subtract(&mut self.busy_ps, &before.busy_ps);
        subtract(&mut self.computing_ps, &before.computing_ps);
        subtract(&mut self.kernel_ps, &before.kernel_ps);
        subtract(&mut self.memory_busy_ps, &before.memory_busy_ps);
        self.units.iter_mut().zip(&before.units).for_each(|(now, before)| now.busy_ps -= before.busy_ps);
        self
    }
}

/// Why a run ended early, or did not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterError {
    /// The configuration does not fit the network.
    Config(String),
    /// A rank's workload returned an error.
    Workload {
        /// The rank.
        rank: u32,
        /// What it returned.
        error: Error,
    },
    /// The network has deadlocked.
    Deadlock(Deadlock),
    /// A rank has been busy for longer than simulated time can last.
    TooLong {
        /// The rank.
        rank: u32,
    },
    /// It was told to stop ([`Cluster::stop_on`]).
    Stopped,
    /// Ranks wait, and nothing is under way.
    Stuck {
        /// When the last thing happened, ps.
        time_ps: u64,
        /// The ranks that wait, lowest first; at most eight of them.
        ranks: Vec<u32>,
        /// How many wait.
        count: usize,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Config(problem) => write!(f, "cluster: {problem}"),
            ClusterError::Workload { rank, error } => write!(f, "rank {rank}: {error}"),
            ClusterError::Deadlock(deadlock) => deadlock.fmt(f),
            ClusterError::Stopped => f.write_str("stopped"),
            ClusterError::TooLong { rank } => {
                let days = fabric::TIME_MAX_PS / 1_000_000_000_000 / 86_400;
                write!(f, "rank {rank} computes for longer than the {days} days that can be simulated")
            }
            ClusterError::Stuck { time_ps, ranks, count } => {
                let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
                let names = names.join(", ");
                let more = if *count > ranks.len() {
                    format!(" and {} more", count - ranks.len())
                } else {
                    String::new()
                };
                let (noun, verb) = if *count == 1 { ("rank", "waits") } else { ("ranks", "wait") };
                write!(
                    f,
                    "{noun} {names}{more} {verb} for messages that nobody sends or receives, from {time_ps} ps on"
                )
            }
        }
    }
}

impl std::error::Error for ClusterError {}

/// Processes and what connects them; shared by the cluster and the ranks' [`Mpi`] handles.
struct World {
    processes: Vec<Process>,
    /// By rank.
    direct: Vec<DirectReceive>,
    fabric: Fabric,
    memory: Memory,
    room: Room,
}

/// The one receive of a process that [`Mpi::recv`] waits for ([`Process::receive_direct`]), or the round of a
/// collective operation that [`Mpi::collective`] waits for ([`Process::run_collective`]).
#[derive(Clone, Copy, PartialEq)]
enum DirectReceive {
    None,
    Waiting,
    /// Its caller has not been told yet.
    Over(Completion),
    WaitingInRound,
}

/// Memory for messages whose data matter, by size; used again when an operation has ended.
#[derive(Default)]
struct Memory {
    spare: BTreeMap<usize, Vec<Buffer>>,
}

impl Memory {
    fn take(&mut self, bytes: usize) -> Buffer {
        let size = bytes.next_power_of_two().max(64);
        self.spare.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| Buffer::leaked(size))
    }

    fn give_back(&mut self, whole: Buffer) {
        self.spare.entry(whole.len()).or_default().push(whole);
    }
}

type Task = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// See the module's documentation.
pub struct Cluster {
    world: Rc<RefCell<World>>,
    process_count: u32,
    stop: Arc<AtomicBool>,
}

impl Cluster {
    /// Processes on the hosts of a network.
    ///
    /// # Errors
    /// If there is no room for so many processes.
    pub fn new(network: Network<Option<Trace>>, config: Config) -> Result<Cluster, ClusterError> {
        let wrong = |problem: String| Err(ClusterError::Config(problem));
        let host_count = network.graph().host_count() as u64;
        let room = host_count * u64::from(config.processes_per_host);
        let process_count = config.process_count.map_or(room, u64::from);
        if process_count == 0 || process_count > room || process_count >= fabric::PROCESS_COUNT_MAX {
            return wrong(format!(
                "{process_count} processes on {host_count} hosts with {} each",
                config.processes_per_host
            ));
        }
        if config.start_spread_ps >= fabric::TIME_MAX_PS {
            return wrong(format!("starts spread over {} ps", config.start_spread_ps));
        }
        if config.copy_bytes_per_s == 0 || config.memory_bytes_per_s == 0 {
            return wrong("rates of memory and copies must not be 0".into());
        }
        let process_count = process_count as u32;
        let gap = process::GapRule {
            base: config.gap,
            per_hop: config.gap_per_hop,
            free_hop_count: config.gap_free_hop_count,
        };
        let mut settings = process::Config { gap, ..process::Config::default() };
        settings.trunk.policy = config.policy;
        let fabric = Fabric::new(network, config, process_count);
        if fabric.rails.iter().all(|rail| !rail.may_break) {
            // No silence is a fault of such NICs.
            let never = Duration(fabric::TIME_MAX_PS);
            (settings.trunk.silence, settings.trunk.peer_timeout) = (never, never);
        }
        let process = |me| Process::new(ProcessId(me), process_count, settings);
        let processes = (0..process_count).map(process).collect();
        Ok(Cluster {
            world: Rc::new(RefCell::new(World {
                processes,
                direct: vec![DirectReceive::None; process_count as usize],
                fabric,
                memory: Memory::default(),
                room: Room::new(process_count),
            })),
            process_count,
            stop: Arc::default(),
        })
    }

    /// Another thread may set this: a run then ends with [`ClusterError::Stopped`] before the next step of a
    /// rank.
    pub fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// Runs a workload on every rank to its end. A cluster may run several, one after the other; after a
    /// failed run it still has requests of that run under way, and only its network is of use, for reports.
    ///
    /// # Errors
    /// The first error that a rank's workload returns, or a standstill.
    pub fn run<F, W>(&mut self, workload: W) -> Result<ClusterReport, ClusterError>
    where
        W: Fn(Mpi) -> F,
        F: Future<Output = Result<(), Error>> + 'static,
    {
        let start_ps = self.world.borrow().fabric.network.now_ps();
        let before = self.world.borrow().fabric.usage();
        let mut run = Run {
            world: self.world.clone(),
            tasks: (0..self.process_count)
                .map(|rank| -> Option<Task> {
                    Some(Box::pin(workload(Mpi::new(self.world.clone(), rank, self.process_count))))
                })
                .collect(),
            unfinished_count: self.process_count as usize,
            finished_ps: vec![0; self.process_count as usize],
            stop: self.stop.clone(),
        };
        {
            let mut world = self.world.borrow_mut();
            let (spread, seed) = (world.fabric.config.start_spread_ps, world.fabric.config.seed);
            for rank in 0..self.process_count {
                let mut random = Random::for_entity(seed, rank.into());
                let delay_ps = if spread == 0 { 0 } else { random.below(spread) };
                world.fabric.start(rank, start_ps + delay_ps);
            }
        }
        run.finish()?;
        let last_ps = run.finished_ps.iter().copied().max().unwrap_or(start_ps);
        let usage = self.world.borrow().fabric.usage().since(&before);
        Ok(ClusterReport { elapsed_ps: last_ps - start_ps, finished_ps: run.finished_ps, usage })
    }

    /// From now on the network publishes how far it is, for another thread to show.
    pub fn watch(&mut self) -> Arc<Watch> {
        self.world.borrow_mut().fabric.network.watch()
    }

    /// Looks at the network: for reports and traces.
    pub fn with_network<R>(&self, look: impl FnOnce(&Network<Option<Trace>>) -> R) -> R {
        look(&self.world.borrow().fabric.network)
    }

    /// What is not as it should be once all workloads have ended, in words: something left in the network,
    /// registered memory, requests, messages nobody received.
    pub fn leftovers(&self) -> Option<String> {
        let world = self.world.borrow();
        if let Some(left) = world.fabric.leftovers() {
            return Some(left);
        }
        let left = world.processes.iter().find(|process| {
            let counts = process.counts();
            (counts.requests, counts.posted, counts.unexpected) != (0, 0, 0)
        })?;
        Some(format!("{} has {:?}", left.me(), left.counts()))
    }

    /// The NIC that a rank's first rail uses.
    pub fn nic_of(&self, rank: u32) -> NicId {
        self.world.borrow().fabric.nic_of(rank, 0)
    }
}

/// A workload being run.
struct Run {
    world: Rc<RefCell<World>>,
    tasks: Vec<Option<Task>>,
    unfinished_count: usize,
    finished_ps: Vec<u64>,
    stop: Arc<AtomicBool>,
}

impl Run {
    fn finish(&mut self) -> Result<(), ClusterError> {
        while self.unfinished_count > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClusterError::Stopped);
            }
            let next = self.world.borrow_mut().fabric.next_runnable().map_err(ClusterError::Deadlock)?;
            match next {
                Some(rank) => self.step(rank)?,
                None => return Err(self.stuck()),
            }
        }
        // What is still under way (acknowledgements, credits) must not fall into the next run.
        loop {
            let next = self.world.borrow_mut().fabric.next_runnable().map_err(ClusterError::Deadlock)?;
            match next {
                Some(rank) => drop(self.progress(rank)),
                None => return Ok(()),
            }
        }
    }

    /// Lets a process handle what has arrived, and its workload go on.
    fn step(&mut self, rank: u32) -> Result<(), ClusterError> {
        let mut seen = None;
        loop {
            let over_count = self.progress(rank);
            if seen == Some(over_count) {
                return Ok(());
            }
            // Completions during the workload's own calls (a message to itself, say) count too.
            seen = Some(over_count);
            let Some(task) = &mut self.tasks[rank as usize] else { return Ok(()) };
            let outcome = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if self.world.borrow().fabric.clock_ps(rank) >= fabric::TIME_MAX_PS {
                return Err(ClusterError::TooLong { rank });
            }
            if let Poll::Ready(result) = outcome {
                self.tasks[rank as usize] = None;
                self.unfinished_count -= 1;
                self.finished_ps[rank as usize] = self.world.borrow().fabric.clock_ps(rank);
                return result.map_err(|error| ClusterError::Workload { rank, error });
            }
        }
    }

    /// Handles what has arrived. A number that changes when an operation of the process ends.
    fn progress(&mut self, rank: u32) -> u64 {
        let World { processes, direct, fabric, .. } = &mut *self.world.borrow_mut();
        let process = &mut processes[rank as usize];
        let direct = &mut direct[rank as usize];
        loop {
            // Links over several NICs acknowledge and measure: they want the time.
            if process.wants_time() {
                process.handle_timeout(Instant(fabric.library_clock_ps(rank)));
            }
            if !process.progress(&mut Nic { fabric, me: rank }) {
                break;
            }
        }
        if let Some(due) = process.poll_timeout() {
            fabric.wake_at(rank, due.0);
        }
        if fabric.has_cpus(rank) {
            fabric.call_for_inbox(rank);
        }
        if *direct == DirectReceive::Waiting && process.poll_direct() {
            *direct = DirectReceive::Over(*process.direct_completion());
        }
        let is_over = match direct {
            DirectReceive::Over(_) => true,
            DirectReceive::WaitingInRound => process.poll_run(),
            DirectReceive::None | DirectReceive::Waiting => false,
        };
        2 * process.completion_count() + u64::from(is_over)
    }

    fn stuck(&self) -> ClusterError {
        let waiting = self.tasks.iter().enumerate().filter(|(_, task)| task.is_some());
        let ranks: Vec<u32> = waiting.map(|(rank, _)| rank as u32).collect();
        let time_ps = self.world.borrow().fabric.network.now_ps();
        let count = ranks.len();
        ClusterError::Stuck { time_ps, ranks: ranks.into_iter().take(8).collect(), count }
    }
}
