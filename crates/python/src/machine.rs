//! Machines.

use std::path::PathBuf;
use std::sync::Arc;

use ayatori_fabric::description::Machine as Description;
use ayatori_fabric::graph::Node;
use ayatori_fabric::plan::Plan as Planned;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{description_error, failed};
use crate::json::{from_json, value};
use crate::plan::Plan;
use crate::results::Result;
use crate::simulate::simulate;

/// A described machine: hosts, switches and cables. It does not change; `changed` gives another.
#[pyclass(frozen, module = "ayatori")]
pub(crate) struct Machine {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) description: Arc<Description>,
}

impl Machine {
    fn read(file: String, text: String) -> PyResult<Machine> {
        let description = Description::parse(&file, &text).map_err(description_error)?;
        Ok(Machine { file, text, description: Arc::new(description) })
    }

    fn switch_names(&self) -> impl Iterator<Item = &str> {
        let graph = &self.description.graph;
        graph.switches().map(|id| graph.name(id.into()))
    }
}

#[pymethods]
impl Machine {
    /// Reads a machine file.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Machine> {
        // It says what is wrong with a file that cannot be read.
        Description::load(&path).map_err(description_error)?;
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| failed(format!("{file}: {error}")))?;
        Machine::read(file, text)
    }

    /// Reads a description from text; `name` stands in errors.
    #[staticmethod]
    #[pyo3(signature = (text, name = "machine"))]
    fn parse(text: &str, name: &str) -> PyResult<Machine> {
        Machine::read(name.into(), text.into())
    }

    /// Makes a machine of a description as a dictionary.
    #[staticmethod]
    #[pyo3(signature = (description, name = "machine"))]
    fn from_dict(description: &Bound<'_, PyDict>, name: &str) -> PyResult<Machine> {
        let mut values = Vec::new();
        for (key, given) in description {
            values.push((key.extract::<String>()?, value(&given)?));
        }
        let text = Description::change(name, "", values).map_err(description_error)?;
        Machine::read(name.into(), text)
    }

    /// The description as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let table: toml::Table = self.text.parse().map_err(failed)?;
        from_json(py, &serde_json::to_string(&table).map_err(failed)?)
    }

    /// This machine with other values. Keys are dotted, a number is an entry of a list, None takes a key out.
    fn changed(&self, changes: &Bound<'_, PyDict>) -> PyResult<Machine> {
        let mut values = Vec::new();
        let mut names = Vec::new();
        for (key, given) in changes {
            let key: String = key.extract()?;
            let new = value(&given)?;
            names.push(format!("{key} = {}", given.repr()?));
            values.push((key, new));
        }
        let text = Description::change(&self.file, &self.text, values).map_err(description_error)?;
        if names.is_empty() {
            return Machine::read(self.file.clone(), text);
        }
        Machine::read(format!("{} with {}", self.file, names.join(", ")), text)
    }

    /// Writes the description.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        std::fs::write(&path, &self.text).map_err(PyErr::from)
    }

    /// The name of the file, or what was given for it.
    #[getter]
    fn file(&self) -> &str {
        &self.file
    }

    /// The description as TOML.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.description.name
    }

    /// What it is, in the owner's words.
    #[getter]
    fn about(&self) -> &str {
        &self.description.about
    }

    /// Names of the switches.
    #[getter]
    fn switches(&self) -> Vec<&str> {
        self.switch_names().collect()
    }

    /// Names of the hosts.
    #[getter]
    fn hosts(&self) -> Vec<&str> {
        let graph = &self.description.graph;
        graph.hosts().map(|id| graph.name(id.into())).collect()
    }

    /// Links: the names of both ends, cables, bits a second of each, latency in seconds.
    #[getter]
    fn links(&self) -> Vec<(&str, &str, u32, u64, f64)> {
        let graph = &self.description.graph;
        let link = |link: &ayatori_fabric::graph::Link| {
            let [a, b] = link.ends.map(|end| end.node);
            (a, b, link.spec.cable_count, link.spec.rate_bits_per_s, link.spec.latency_ps as f64 / 1e12)
        };
        let named = |(a, b, cables, rate, latency): (Node, Node, u32, u64, f64)| {
            (graph.name(a), graph.name(b), cables, rate, latency)
        };
        graph.links().map(|(_, one)| named(link(one))).collect()
    }

    /// Plans VLANs, routes and configuration, with switches and links taken out.
    #[pyo3(signature = (*, without_switches = Vec::new(), without_links = Vec::new()))]
    fn plan(
        &self,
        py: Python<'_>,
        without_switches: Vec<String>,
        without_links: Vec<(String, String)>,
    ) -> PyResult<Plan> {
        Plan::of(py, &self.description, &without_switches, &without_links)
    }

    /// The plan that was written for this machine: its `plan.json`, or the folder of `ayatori plan --out`.
    fn written_plan(&self, path: PathBuf) -> PyResult<Plan> {
        Plan::read(&self.description, &path)
    }

    /// Runs a workload: a name, a GOAL file, or a function that makes each rank's generator. On an Ethernet
    /// machine with the routes of `plan`, or of one made now.
    #[pyo3(signature = (workload, *, plan = None, trace = None, **options))]
    fn simulate(
        &self,
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        plan: Option<&Bound<'_, PyAny>>,
        trace: Option<PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Result> {
        let plan = plan.map(|plan| self.plan_given(plan)).transpose()?;
        simulate(py, (&self.file, &self.description, plan), workload, trace, options)
    }

    fn __repr__(&self) -> String {
        let graph = &self.description.graph;
        let (name, switches, hosts) = (&self.description.name, graph.switch_count(), graph.host_count());
        format!("<ayatori.Machine {name:?}: {switches} switches, {hosts} hosts>")
    }
}

impl Machine {
    /// A plan, or the path of a written one.
    fn plan_given(&self, plan: &Bound<'_, PyAny>) -> PyResult<Planned> {
        if let Ok(plan) = plan.cast::<Plan>() {
            return plan.get().on(&self.description);
        }
        Plan::read(&self.description, &plan.extract::<PathBuf>()?)?.on(&self.description)
    }
}
