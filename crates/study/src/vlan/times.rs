//! All-to-all and random ring on the paper's clusters, simulated: real processes of the library on the
//! switches and VLANs of each topology's plan, one process a host.
//!
//! The paper ran HPL and the NAS parallel benchmarks. Neither is simulated: these two patterns are what
//! networks are compared by, and FT and IS are mostly all-to-all.

use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use ayatori_core::Error;
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_random::Random;
use ayatori_sim::cluster::{ClusterError, Mpi};
use ayatori_sim::simulation::{Options, Simulation, SimulationError, Workload};
use ayatori_sim::workloads::{RingOrder, pairwise_partners, random_ring};

use crate::report::Table;
use crate::sweep::{Control, each};

/// Random rings, and random placements of ranks, that a mean is taken of.
const RING_COUNT: u64 = 8;
const PLACEMENT_COUNT: u64 = 2;

/// A cluster with one of the topologies.
#[derive(Debug)]
pub(super) struct Variant {
    /// As the paper's figures have it: `torus(6)`, links and NICs in parentheses.
    pub(super) label: String,
    pub(super) file: String,
    pub(super) machine: Machine,
    pub(super) plan: Plan,
}

/// What a variant takes, ms. `None`: a run ended in deadlock.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Times {
    pub(super) label: String,
    cable_count: u64,
    /// Every process sends to every other, in the steps of a pairwise exchange, ranks in the order of hosts;
    /// and how much of that time the busiest cable between switches is busy, from 0 to 1.
    pub(super) all_to_all: Option<f64>,
    busiest: f64,
    /// The same with ranks at random hosts, mean.
    pub(super) placed: Option<f64>,
    /// Random rings, mean.
    pub(super) ring: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Pattern {
    AllToAll,
    /// With ranks placed by a seed.
    Placed(u64),
    Ring(u64),
}

fn patterns() -> Vec<Pattern> {
    let placed = (1..=PLACEMENT_COUNT).map(Pattern::Placed);
    [Pattern::AllToAll].into_iter().chain(placed).chain((1..=RING_COUNT).map(Pattern::Ring)).collect()
}

/// Simulates every variant with messages of so many bytes, on so many threads.
///
/// # Errors
/// A machine that cannot be simulated.
pub(super) fn simulate(
    variants: &[Variant],
    bytes: u64,
    threads_count: usize,
    control: &Control,
) -> anyhow::Result<Vec<Times>> {
    let patterns = patterns();
    let count = variants.len() * patterns.len();
    let results: Mutex<Vec<Option<(f64, f64)>>> = Mutex::new(vec![None; count]);
    each(count, threads_count, control, |index| {
        let variant = &variants[index / patterns.len()];
        let result =
            run(variant, patterns[index % patterns.len()], bytes).with_context(|| variant.label.clone())?;
        results.lock().unwrap_or_else(PoisonError::into_inner)[index] = result;
        control.done_count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        anyhow::Ok(())
    })?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let times = |(variant, results): (&Variant, &[Option<(f64, f64)>])| {
        let mean = |wanted: fn(&Pattern) -> bool| {
            let own = patterns.iter().zip(results).filter(|(pattern, _)| wanted(pattern));
            let own: Option<Vec<f64>> = own.map(|(_, result)| result.map(|(time, _)| time)).collect();
            own.map(|times| times.iter().sum::<f64>() / times.len() as f64)
        };
        Times {
            label: variant.label.clone(),
            cable_count: variant.plan.figures.cable_count,
            all_to_all: mean(|pattern| matches!(pattern, Pattern::AllToAll)),
            busiest: results[0].map_or(0.0, |(_, busiest)| busiest),
            placed: mean(|pattern| matches!(pattern, Pattern::Placed(_))),
            ring: mean(|pattern| matches!(pattern, Pattern::Ring(_))),
        }
    };
    Ok(variants.iter().zip(results.chunks(patterns.len())).map(times).collect())
}

/// How many simulations there are.
pub(super) fn run_count(variants: &[Variant]) -> usize {
    variants.len() * patterns().len()
}

/// The time, ms, and how much of it the busiest cable is busy. `None`: a deadlock.
fn run(variant: &Variant, pattern: Pattern, bytes: u64) -> anyhow::Result<Option<(f64, f64)>> {
    let options = Options { bytes, ..Options::default() };
    let Variant { file, machine, plan, .. } = variant;
    let mut simulation = Simulation::planned(file, machine, plan, Workload::own("study"), options)?;
    let size = simulation.process_count();
    let result = match pattern {
        Pattern::Ring(seed) => {
            let order = RingOrder::new(size, seed);
            simulation.run_with(|mpi| {
                let (left, right) = order.neighbours(mpi.rank());
                random_ring(mpi, left, right, bytes, 1)
            })
        }
        Pattern::AllToAll => {
            let placement = Rc::new(Placement { host_of: (0..size).collect(), rank_at: (0..size).collect() });
            simulation.run_with(|mpi| exchange(mpi, placement.clone(), bytes))
        }
        Pattern::Placed(seed) => {
            let placement = Rc::new(Placement::random(size, seed));
            simulation.run_with(|mpi| exchange(mpi, placement.clone(), bytes))
        }
    };
    match result {
        Ok(outcome) => Ok(Some((outcome.report.elapsed_ps as f64 / 1e9, outcome.links.network.max))),
        Err(SimulationError::Cluster(ClusterError::Deadlock(_))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Which host a rank is at, and the other way round.
struct Placement {
    host_of: Vec<u32>,
    rank_at: Vec<u32>,
}

impl Placement {
    fn random(size: u32, seed: u64) -> Placement {
        let mut host_of: Vec<u32> = (0..size).collect();
        Random::new(seed).shuffle(&mut host_of);
        let mut rank_at = vec![0; size as usize];
        host_of.iter().enumerate().for_each(|(rank, &host)| rank_at[host as usize] = rank as u32);
        Placement { host_of, rank_at }
    }
}

/// The pairwise exchange of the process at a host.
async fn exchange(mpi: Mpi, placement: Rc<Placement>, bytes: u64) -> Result<(), Error> {
    let rank = placement.rank_at[mpi.rank() as usize];
    for step in 1..mpi.size() {
        let (to, from) = pairwise_partners(rank, step, mpi.size());
        let [to, from] = [to, from].map(|rank| placement.host_of[rank as usize]);
        mpi.sendrecv(to, from, 0, bytes).await?;
    }
    Ok(())
}

/// The times as a table.
pub(super) fn table(title: &str, times: &[Times]) -> Table {
    let head =
        ["topology (links)", "cables", "all-to-all", "busiest cable", "ranks at random hosts", "random ring"];
    let mut table = Table::new(title, &head);
    let shown = |time: Option<f64>| time.map_or("deadlock".into(), |ms| format!("{ms:.2} ms"));
    for Times { label, cable_count, all_to_all, busiest, placed, ring } in times {
        let busiest = if all_to_all.is_some() { format!("{:.0} %", busiest * 100.0) } else { "-".into() };
        table.rows.push(vec![
            label.clone(),
            cable_count.to_string(),
            shown(*all_to_all),
            busiest,
            shown(*placed),
            shown(*ring),
        ]);
    }
    table
}
