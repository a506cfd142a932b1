//! Simulations: options from Python, runs that Ctrl-C stops, and what names there are.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use ayatori_fabric::description::Machine as Description;
use ayatori_fabric::plan::Plan;
use ayatori_sim::simulation::{Options, Outcome, Simulation, SimulationError, Workload};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arguments::{bytes, count, failed, simulation_error, wrong};
use crate::rank;
use crate::results::{Done, Result as RunResult};

/// How often Python is asked whether there was a Ctrl-C.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);
/// As a program's first thread has: the network's recursion is shallow, a workload's need not be.
const STACK_BYTES: usize = 8 << 20;

/// Sets one option by its name in Python. False if there is none of this name.
pub(crate) fn set(options: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    const U32: u64 = u32::MAX as u64;
    match name {
        "nodes" if value.is_none() => options.nodes = None,
        "nodes" => options.nodes = Some(count(name, value, 1, U32)? as u32),
        "bytes" => options.bytes = bytes(value)?,
        "rounds" => options.rounds = count(name, value, 1, U32)? as u32,
        "per_host" => options.per_host = count(name, value, 1, U32)? as u32,
        "gap" => options.gap = value.extract()?,
        "algorithm" => options.algorithm = value.extract()?,
        "start_spread_ns" => options.start_spread_ns = count(name, value, 0, u64::MAX)?,
        "seed" => options.seed = count(name, value, 0, u64::MAX)?,
        "worst" => options.worst = count(name, value, 0, U32)? as usize,
        "strict" => options.strict = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// All options from keyword arguments.
fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if !set(&mut options, &name, &value)? {
            let message = format!("simulate() got an unexpected keyword argument '{name}'");
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        }
    }
    Ok(options)
}

/// Does `work` on another thread with Python released; on Ctrl-C it sets `stop` and waits for the end.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    mut each_period: impl FnMut() -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    std::thread::scope(|scope| {
        let (sender, mut receiver) = mpsc::channel();
        let run = move || drop(sender.send(work()));
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, run)?;
        let mut interruption = None;
        let answer = loop {
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(SIGNAL_PERIOD)) {
                Ok(answer) => break Some(answer),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if interruption.is_none() => {
                    if let Err(error) = py.check_signals().and_then(|()| each_period()) {
                        stop.store(true, Ordering::Relaxed);
                        interruption = Some(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        drop(py.detach(|| thread.join()));
        match (interruption, answer) {
            (Some(error), _) => Err(error),
            (None, Some(answer)) => Ok(answer),
            (None, None) => {
                Err(PyRuntimeError::new_err("the simulation panicked; standard error says where"))
            }
        }
    })
}

/// Why a run left nothing.
enum Failure {
    Simulation(SimulationError),
    Trace(String),
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Simulation(error) => simulation_error(error),
            Failure::Trace(message) => failed(message),
        }
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Failure {
        Failure::Simulation(error)
    }
}

/// The trace's file is made before the run, so that a wrong name is told at once.
fn run(
    mut simulation: Simulation,
    trace: Option<PathBuf>,
    start: impl FnOnce(&mut Simulation) -> Result<Outcome, SimulationError>,
) -> Result<Done, Failure> {
    let unwritable =
        |path: &PathBuf, error| Failure::Trace(format!("cannot write {}: {error}", path.display()));
    let file = match &trace {
        Some(path) => Some(File::create(path).map_err(|error| unwritable(path, error))?),
        None => None,
    };
    let started = Instant::now();
    let outcome = start(&mut simulation)?;
    let wall_s = started.elapsed().as_secs_f64();
    if let (Some(path), Some(file)) = (&trace, file) {
        let mut out = BufWriter::new(file);
        let written = simulation.write_trace(&mut out).and_then(|()| out.flush());
        written.map_err(|error| unwritable(path, error))?;
    }
    Ok(Done { outcome, notes: simulation.notes().to_vec(), wall_s })
}

/// Runs a workload: a name, a GOAL file, or a function that makes each rank's generator.
pub(crate) fn simulate(
    py: Python<'_>,
    (file, machine, plan): (&str, &Description, Option<Plan>),
    workload: &Bound<'_, PyAny>,
    trace: Option<PathBuf>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<RunResult> {
    let mut options = options(given)?;
    options.trace = trace.is_some();
    let simulation = |workload: Workload, options: Options| match &plan {
        Some(plan) => Simulation::planned(file, machine, plan, workload, options),
        None => Simulation::new(file, machine, workload, options),
    };
    if workload.is_callable() {
        let name = workload.getattr("__name__").and_then(|name| name.extract::<String>());
        let (name, rounds) = (name.unwrap_or_default(), options.rounds);
        let simulation = simulation(Workload::own(&name), options);
        let ranks = rank::Ranks::new(workload, rounds);
        let done = run(simulation.map_err(simulation_error)?, trace, |simulation| ranks.run(simulation));
        return ranks.outcome(done.map_err(PyErr::from)).map(RunResult::of);
    }
    let name: String = match workload.cast::<PyString>() {
        Ok(name) => name.to_string(),
        Err(_) if workload.hasattr("__fspath__")? => workload.call_method0("__fspath__")?.extract()?,
        Err(_) => {
            return Err(wrong("a workload is a name, a GOAL file, or a function that gives generators"));
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let work = || -> Result<Done, Failure> {
        let workload = Workload::named(&name)?;
        let mut simulation = simulation(workload, options)?;
        simulation.stop_on(stop.clone());
        run(simulation, trace, Simulation::run)
    };
    let done = interruptible(py, &stop, || Ok(()), work)?;
    Ok(RunResult::of(done?))
}
