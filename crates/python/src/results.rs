//! Results of simulations.

use ayatori_sim::simulation::Outcome;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::failed;
use crate::json::from_json;

/// What a run leaves.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) notes: Vec<String>,
    pub(crate) wall_s: f64,
}

/// What a simulation took and what limited it.
#[pyclass(frozen, module = "ayatori")]
pub(crate) struct Result {
    pub(crate) outcome: Outcome,
    notes: Vec<String>,
    wall_s: f64,
}

impl Result {
    pub(crate) fn of(Done { outcome, notes, wall_s }: Done) -> Result {
        Result { outcome, notes, wall_s }
    }
}

/// A NumPy array of its own memory.
pub(crate) fn array<'py>(py: Python<'py>, values: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let numpy = py.import("numpy")?;
    // What is made of bytes is read-only.
    numpy.call_method1("frombuffer", (PyBytes::new(py, &bytes), "uint64"))?.call_method0("copy")
}

#[pymethods]
impl Result {
    /// The workload's name, file or function.
    #[getter]
    fn workload(&self) -> &str {
        &self.outcome.workload
    }

    /// Number of processes.
    #[getter]
    fn process_count(&self) -> u32 {
        self.outcome.process_count
    }

    /// Simulated time until the last rank was done, picoseconds.
    #[getter]
    fn elapsed_ps(&self) -> u64 {
        self.outcome.report.elapsed_ps
    }

    /// The same in seconds.
    #[getter]
    fn elapsed_s(&self) -> f64 {
        self.outcome.report.elapsed_ps as f64 / 1e12
    }

    /// When each rank was done, ps, by rank.
    #[getter]
    fn finished_ps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.outcome.report.finished_ps)
    }

    /// How long each rank was in the library or computing, ps.
    #[getter]
    fn busy_ps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.outcome.report.usage.busy_ps)
    }

    /// How long each rank was computing, ps.
    #[getter]
    fn computing_ps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.outcome.report.usage.computing_ps)
    }

    /// How long each host's memory was busy with messages within the host, ps.
    #[getter]
    fn memory_busy_ps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.outcome.report.usage.memory_busy_ps)
    }

    /// Payload that went through the network, bytes.
    #[getter]
    fn network_bytes(&self) -> u64 {
        self.outcome.counters.delivered_bytes
    }

    /// That over the time taken.
    #[getter]
    fn bandwidth_bytes_per_s(&self) -> f64 {
        self.outcome.bandwidth_bytes_per_s()
    }

    /// Packets sent from switch to switch.
    #[getter]
    fn packet_hop_count(&self) -> u64 {
        self.outcome.counters.packet_hop_count
    }

    /// Frames that switches had no room for, where the machine file has pause off.
    #[getter]
    fn lost_frame_count(&self) -> u64 {
        self.outcome.counters.dropped_packet_count
    }

    /// Times that TCP's retransmission timer ran out.
    #[getter]
    fn timeout_count(&self) -> u64 {
        self.outcome.counters.timeout_count
    }

    /// What limited the run, in one line.
    #[getter]
    fn bottleneck(&self) -> String {
        self.outcome.bottleneck()
    }

    /// What was simulated otherwise than the machine file says.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// How long the simulation itself took, seconds of this computer.
    #[getter]
    fn wall_s(&self) -> f64 {
        self.wall_s
    }

    /// What `ayatori sim run --json` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut value = self.outcome.json();
        value["wall_s"] = self.wall_s.into();
        from_json(py, &serde_json::to_string(&value).map_err(failed)?)
    }

    /// A pandas frame with a row for each rank.
    fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let columns = PyDict::new(py);
        columns.set_item("finished_ps", self.finished_ps(py)?)?;
        columns.set_item("busy_ps", self.busy_ps(py)?)?;
        columns.set_item("computing_ps", self.computing_ps(py)?)?;
        let frame = py.import("pandas")?.call_method1("DataFrame", (columns,))?;
        frame.getattr("index")?.setattr("name", "rank")?;
        Ok(frame)
    }

    fn __str__(&self) -> String {
        self.outcome.summary(self.wall_s)
    }

    fn __repr__(&self) -> String {
        let Outcome { workload, process_count, report, .. } = &self.outcome;
        let microseconds = report.elapsed_ps as f64 / 1e6;
        format!("<ayatori.Result of {workload:?} on {process_count} processes: {microseconds:.3} us>")
    }
}
