//! Sweeps: every combination of machines, workloads, options and seeds, on all cores.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ayatori_sim::simulation::{Options, SimulationError};
use ayatori_study::sweep::{Control, Point, run};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::arguments::{count, simulation_error, wrong};
use crate::machine::Machine;
use crate::results::{Done, Result as RunResult};
use crate::simulate::{interruptible, set};

/// Results of a sweep, in the order of its parameters: the last varies first.
#[pyclass(frozen, sequence, module = "ayatori")]
pub(crate) struct Sweep {
    points: Vec<Swept>,
}

/// A point: its parameters, and its result or what went wrong.
type Swept = (Py<PyDict>, Option<Py<RunResult>>, Option<String>);

/// One, or each of several.
fn several<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_one = value.is_none() || value.is_instance_of::<PyString>() || value.try_iter().is_err();
    if is_one { Ok(vec![value.clone()]) } else { value.try_iter()?.collect() }
}

/// Every combination, in order: for each list the values, the last list varying first.
fn product<'py>(lists: &[(String, Vec<Bound<'py, PyAny>>)]) -> Vec<Vec<Bound<'py, PyAny>>> {
    lists.iter().fold(vec![Vec::new()], |rows, (_, values)| {
        let with = |row: &Vec<Bound<'py, PyAny>>| -> Vec<Vec<Bound<'py, PyAny>>> {
            values.iter().map(|value| [&row[..], std::slice::from_ref(value)].concat()).collect()
        };
        rows.iter().flat_map(with).collect()
    })
}

/// Simulates every combination of machines, workloads and options, each one value or several.
#[pyfunction]
#[pyo3(signature = (machines, workloads, *, threads = None, progress = None, errors = "raise", **options))]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    machines: &Bound<'py, PyAny>,
    workloads: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    errors: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Sweep> {
    if !["raise", "keep"].contains(&errors) {
        return Err(wrong(format!("errors={errors:?}: \"raise\" or \"keep\"")));
    }
    let threads_count = match threads {
        Some(given) => count("threads", given, 1, 4096)? as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut lists =
        vec![("machine".to_owned(), several(machines)?), ("workload".to_owned(), several(workloads)?)];
    for (name, values) in options.into_iter().flatten() {
        lists.push((name.extract()?, several(&values)?));
    }
    let rows = product(&lists);
    let (points, parameters): (Vec<Point>, Vec<Bound<'py, PyDict>>) =
        rows.iter().map(|row| point(py, &lists, row)).collect::<PyResult<Vec<_>>>()?.into_iter().unzip();
    let control = Control::default();
    let stop = control.stop.clone();
    let tell = |done: usize| match progress {
        Some(progress) => progress.call1((done, points.len())).map(drop),
        None => Ok(()),
    };
    let each_period = || tell(control.done_count.load(Ordering::Relaxed));
    let runs = interruptible(py, &stop, each_period, || run(&points, threads_count, &control))?;
    tell(points.len())?;
    let mut swept = Vec::with_capacity(runs.len());
    for (parameters, run) in parameters.into_iter().zip(runs) {
        let (result, error) = match run {
            Ok(run) => {
                let done = Done { outcome: run.outcome, notes: run.notes, wall_s: run.wall_s };
                (Some(Py::new(py, RunResult::of(done))?), None)
            }
            Err(error) if errors == "keep" => (None, Some(told(py, error))),
            Err(error) => return Err(simulation_error(error)),
        };
        swept.push((parameters.unbind(), result, error));
    }
    Ok(Sweep { points: swept })
}

fn told(py: Python<'_>, error: SimulationError) -> String {
    simulation_error(error).value(py).to_string()
}

/// A combination as a point, and as what the user sees of it.
fn point<'py>(
    py: Python<'py>,
    lists: &[(String, Vec<Bound<'py, PyAny>>)],
    row: &[Bound<'py, PyAny>],
) -> PyResult<(Point, Bound<'py, PyDict>)> {
    let machine =
        row[0].cast::<Machine>().map_err(|_| wrong("machines: an ayatori.Machine, or several"))?.get();
    let workload = row[1].extract::<String>();
    let workload = workload.map_err(|_| wrong("workloads: names or GOAL files, one or several"))?;
    let parameters = PyDict::new(py);
    parameters.set_item("machine", &machine.description.name)?;
    parameters.set_item("workload", &workload)?;
    let mut options = Options::default();
    for ((name, _), value) in lists.iter().zip(row).skip(2) {
        if !set(&mut options, name, value)? {
            return Err(PyTypeError::new_err(format!("sweep() got an unexpected keyword argument '{name}'")));
        }
        parameters.set_item(name, value)?;
    }
    let machine = Arc::clone(&machine.description);
    let file = row[0].cast::<Machine>().map(|machine| machine.get().file.clone()).unwrap_or_default();
    Ok((Point { file, machine, workload, options }, parameters))
}

#[pymethods]
impl Sweep {
    fn __len__(&self) -> usize {
        self.points.len()
    }

    /// Parameters and result of a point; the result is None where there was an error.
    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyTuple>> {
        let count = self.points.len() as isize;
        let at = if index < 0 { index + count } else { index };
        let point = usize::try_from(at).ok().and_then(|at| self.points.get(at));
        let (parameters, result, _) = point.ok_or_else(|| PyIndexError::new_err(index))?;
        (parameters.bind(py), result.as_ref()).into_pyobject(py)
    }

    /// Parameters of all points.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.points.iter().map(|(parameters, _, _)| parameters))
    }

    /// Results of all points, None where there was an error.
    #[getter]
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.points.iter().map(|(_, result, _)| result.as_ref()))
    }

    /// What went wrong at each point, None where nothing did.
    #[getter]
    fn errors(&self) -> Vec<Option<&str>> {
        self.points.iter().map(|(_, _, error)| error.as_deref()).collect()
    }

    /// One attribute of all results as a NumPy array; not a number where there was an error.
    fn array<'py>(&self, py: Python<'py>, attribute: &str) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("array", (self.column(py, attribute)?,))
    }

    /// A pandas frame: a row for each point, its parameters, times, bandwidth, bottleneck and error.
    fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pandas = py.import("pandas")?;
        let frame = pandas.call_method1("DataFrame", (self.parameters(py)?,))?;
        for attribute in ["process_count", "elapsed_s", "bandwidth_bytes_per_s", "bottleneck"] {
            frame.set_item(attribute, self.column(py, attribute)?)?;
        }
        if self.points.iter().any(|(_, _, error)| error.is_some()) {
            frame.set_item("error", self.errors())?;
        }
        Ok(frame)
    }

    fn __repr__(&self) -> String {
        format!("<ayatori.Sweep of {} simulations>", self.points.len())
    }
}

impl Sweep {
    fn column<'py>(&self, py: Python<'py>, attribute: &str) -> PyResult<Bound<'py, PyList>> {
        let values = self.points.iter().map(|(_, result, _)| match result {
            Some(result) => result.bind(py).getattr(attribute),
            None => Ok(f64::NAN.into_pyobject(py)?.into_any()),
        });
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }
}
