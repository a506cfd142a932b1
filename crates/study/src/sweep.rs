//! Many simulations on all cores: the same outcomes in the same order at every number of threads.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use ayatori_fabric::description::Machine;
use ayatori_sim::cluster::ClusterError;
use ayatori_sim::simulation::{Options, Outcome, Simulation, SimulationError, Workload};

/// One simulation.
#[derive(Debug, Clone)]
pub struct Point {
    /// The machine's name in errors.
    pub file: String,
    /// The machine.
    pub machine: Arc<Machine>,
    /// A workload's name ([`Workload::named`]).
    pub workload: String,
    /// How it is run.
    pub options: Options,
}

/// What became of a point.
#[derive(Debug)]
pub struct Run {
    /// What the workload took.
    pub outcome: Outcome,
    /// What was simulated otherwise than described.
    pub notes: Vec<String>,
    /// How long it took, seconds of this computer; the only part that differs from run to run.
    pub wall_s: f64,
}

/// How far a sweep is, for another thread to show, and to stop it.
#[derive(Debug, Default)]
pub struct Control {
    /// Points that are done.
    pub done_count: AtomicUsize,
    /// Set: running simulations end, and no others begin.
    pub stop: Arc<AtomicBool>,
}

/// Runs one point.
///
/// # Errors
/// Wrong options, a machine that cannot be simulated, a standstill.
pub fn run_point(point: &Point, stop: &Arc<AtomicBool>) -> Result<Run, SimulationError> {
    let workload = Workload::named(&point.workload)?;
    let mut simulation = Simulation::new(&point.file, &point.machine, workload, point.options.clone())?;
    simulation.stop_on(stop.clone());
    let started = Instant::now();
    let outcome = simulation.run()?;
    let wall_s = started.elapsed().as_secs_f64();
    Ok(Run { outcome, notes: simulation.notes().to_vec(), wall_s })
}

/// Calls `work` with each number below `count`, the first first, on so many threads; with none any more
/// when the sweep is stopped or a call has failed.
///
/// # Errors
/// The first error of a call.
///
/// # Panics
/// If a call does.
pub(crate) fn each<E: Send>(
    count: usize,
    threads_count: usize,
    control: &Control,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let thread = || {
        while !control.stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            work(index).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads_count = threads_count.clamp(1, count.max(1));
        let threads: Vec<_> = (0..threads_count).map(|_| scope.spawn(thread)).collect();
        let join =
            |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|p| resume_unwind(p));
        threads.into_iter().map(join).fold(Ok(()), Result::and)
    })
}

/// Runs all points on so many threads, the first points first. What had not begun when the sweep was
/// stopped is [`ClusterError::Stopped`].
///
/// # Panics
/// If a simulation does.
pub fn run(points: &[Point], threads_count: usize, control: &Control) -> Vec<Result<Run, SimulationError>> {
    let mut results: Vec<Option<Result<Run, SimulationError>>> = Vec::new();
    results.resize_with(points.len(), || None);
    let results = Mutex::new(results);
    let Ok(()) = each::<Infallible>(points.len(), threads_count, control, |index| {
        let result = run_point(&points[index], &control.stop);
        results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
        control.done_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.unwrap_or(Err(ClusterError::Stopped.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let text = include_str!("../../../machines/fx10.toml");
        let machine = Arc::new(Machine::parse("fx10.toml", text).expect("a machine"));
        let point = |seed: u64| Point {
            file: "fx10.toml".into(),
            machine: machine.clone(),
            workload: if seed == 3 { "no-such".into() } else { "random-ring".into() },
            options: Options { bytes: 4096 * seed, seed, nodes: Some(8), ..Options::default() },
        };
        (1..=8).map(point).collect()
    }

    fn times(threads_count: usize) -> Vec<Option<u64>> {
        let runs = run(&points(), threads_count, &Control::default());
        runs.iter().map(|run| run.as_ref().ok().map(|run| run.outcome.report.elapsed_ps)).collect()
    }

    #[test]
    fn outcomes_and_their_order_do_not_depend_on_threads() {
        let alone = times(1);
        assert_eq!(alone.iter().filter(|time| time.is_none()).count(), 1);
        assert_eq!(alone[2], None);
        assert_eq!(times(4), alone);
    }

    #[test]
    fn a_stopped_sweep_begins_nothing() {
        let control = Control::default();
        control.stop.store(true, Ordering::Relaxed);
        let runs = run(&points(), 2, &control);
        let stopped = |run: &Result<Run, SimulationError>| {
            matches!(run, Err(SimulationError::Cluster(ClusterError::Stopped)))
        };
        assert!(runs.len() == 8 && runs.iter().all(stopped));
        assert_eq!(control.done_count.into_inner(), 0);
    }
}
