//! Plans.

use std::path::Path;
use std::sync::Arc;

use ayatori_fabric::analysis::{LinkLoads, read_traffic};
use ayatori_fabric::description::Machine as Description;
use ayatori_fabric::graph::{HostId, LinkId, Node, SwitchId};
use ayatori_fabric::page;
use ayatori_fabric::plan::{Plan as Planned, Status};
use ayatori_fabric::vlan::{Failure, plan_without, written};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arguments::{description_error, failed, path, wrong};
use crate::json::from_json;

/// A plan: VLANs, routes, verdicts.
#[pyclass(frozen, module = "ayatori")]
pub(crate) struct Plan {
    machine: Arc<Description>,
    plan: Planned,
}

impl Plan {
    pub(crate) fn of(
        py: Python<'_>,
        machine: &Arc<Description>,
        without_switches: &[String],
        without_links: &[(String, String)],
    ) -> PyResult<Plan> {
        let mut lost = Vec::new();
        for name in without_switches {
            lost.push(Failure::Switch(switch_named(machine, name)?));
        }
        for (a, b) in without_links {
            let ends = [switch_named(machine, a)?, switch_named(machine, b)?].map(Node::Switch);
            let between = |id: &LinkId| {
                let [a, b] = machine.graph.link(*id).ends.map(|end| end.node);
                [a, b] == ends || [b, a] == ends
            };
            let before = lost.len();
            let links = (0..machine.switch_link_count() as u32).map(LinkId).filter(between);
            lost.extend(links.map(Failure::Link));
            if lost.len() == before {
                return Err(wrong(format!(
                    "--without-link {a},{b}: there is no link between these switches"
                )));
            }
        }
        let plan = py.detach(|| plan_without(machine, &lost)).map_err(description_error)?;
        Ok(Plan { machine: machine.clone(), plan })
    }

    /// The plan that was written: a `plan.json`, or the folder that `ayatori plan --out` wrote.
    pub(crate) fn read(machine: &Arc<Description>, file: &Path) -> PyResult<Plan> {
        let file = if file.is_dir() { file.join("plan.json") } else { file.to_owned() };
        let name = file.display();
        let text = std::fs::read_to_string(&file)
            .map_err(|error| failed(format!("cannot read the plan {name}: {error}")))?;
        let plan = written(machine, &text).map_err(|error| failed(format!("{name}: {error}")))?;
        Ok(Plan { machine: machine.clone(), plan })
    }

    /// The plan's routes for a machine of the same switches, hosts and cables.
    pub(crate) fn on(&self, machine: &Description) -> PyResult<Planned> {
        let text = serde_json::to_string(&self.plan).map_err(failed)?;
        written(machine, &text).map_err(|error| failed(format!("the plan {error}")))
    }

    fn host_named(&self, name: &str) -> PyResult<HostId> {
        let found = self.plan.hosts.iter().find(|host| host.name == name);
        found.map(|host| host.id).ok_or_else(|| {
            let first = self.plan.hosts.first().map_or("", |host| &host.name);
            wrong(format!("{} has no host {name:?}; its first is {first:?}", self.plan.machine))
        })
    }

    fn switch_name(&self, id: SwitchId) -> &str {
        &self.plan.switch(id).name
    }
}

fn switch_named(machine: &Description, name: &str) -> PyResult<SwitchId> {
    let found = machine.graph.switches().find(|&id| machine.graph.name(id.into()) == name);
    found.ok_or_else(|| {
        let first = machine.graph.name(SwitchId(0).into());
        wrong(format!("the machine has no switch {name:?}; its first is {first:?}"))
    })
}

#[pymethods]
impl Plan {
    /// Whether every check holds.
    #[getter]
    fn is_good(&self) -> bool {
        self.plan.verdicts.are_good()
    }

    /// Whether no cycle of waiting links is possible.
    #[getter]
    fn is_deadlock_free(&self) -> bool {
        self.plan.verdicts.deadlock.is_free()
    }

    /// How paths were chosen.
    #[getter]
    fn method(&self) -> &str {
        &self.plan.method
    }

    /// Identifiers of the VLANs.
    #[getter]
    fn vlans(&self) -> Vec<u16> {
        self.plan.vlans.iter().map(|vlan| vlan.vid.get()).collect()
    }

    /// Checks: name, "holds", "warning" or "fails", what was found, what to do (or None).
    #[getter]
    fn checks(&self) -> Vec<(&str, &str, &str, Option<&str>)> {
        let checks = self.plan.verdicts.checks.iter();
        let row = checks.map(|check| {
            let status = match check.status {
                Status::Holds => "holds",
                Status::Warning => "warning",
                Status::Fails => "fails",
            };
            (&*check.name, status, check.detail.as_ref(), check.remedy.as_deref())
        });
        row.collect()
    }

    /// VLAN and switches of frames from the first interface of one host to that of another.
    fn route(&self, source: &str, destination: &str) -> PyResult<(u16, Vec<&str>)> {
        let [from, to] = [self.host_named(source)?, self.host_named(destination)?];
        let [from, to] = [from, to].map(|host| &self.plan.host(host).attachments[0]);
        let route = self.plan.route(from, to);
        let route = route.ok_or_else(|| failed(format!("{source} and {destination} are cut off")))?;
        let hops = route.hops.iter().map(|hop| self.switch_name(hop.to));
        Ok((route.vid.get(), std::iter::once(self.switch_name(from.switch)).chain(hops).collect()))
    }

    /// Loads of the links under a traffic: rows of (from, to, bytes) by hosts' names, or a file as `plan
    /// --traffic` reads.
    fn loads<'py>(&self, py: Python<'py>, traffic: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let flows = if traffic.is_instance_of::<PyString>() || traffic.hasattr("__fspath__")? {
            let file = path(traffic)?;
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file)
                .map_err(|error| failed(format!("cannot read {name}: {error}")))?;
            read_traffic(&self.plan, &name, &text).map_err(failed)?
        } else {
            let mut flows = Vec::new();
            for row in traffic.try_iter()? {
                let (from, to, bytes): (String, String, u64) = row?.extract()?;
                flows.push((self.host_named(&from)?, self.host_named(&to)?, bytes));
            }
            flows
        };
        let loads = LinkLoads::of(&self.plan, flows).map_err(failed)?;
        let row = |load: ayatori_fabric::analysis::ChannelLoad| {
            let row = PyDict::new(py);
            row.set_item("from", self.switch_name(load.from))?;
            row.set_item("to", self.switch_name(load.to))?;
            row.set_item("bytes", load.bytes)?;
            row.set_item("time_s", load.time_s)?;
            Ok(row)
        };
        loads.busiest_first(&self.plan).into_iter().map(row).collect()
    }

    /// The whole plan, as `ayatori plan --json` prints it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &serde_json::to_string(&self.plan).map_err(failed)?)
    }

    /// Figures: VLANs, paths, bisection, busiest link, price.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &serde_json::to_string(&self.plan.figures).map_err(failed)?)
    }

    /// The plan as one page for a browser.
    fn html(&self) -> String {
        page::html(&self.plan, &self.machine, &page::Extras::default())
    }

    fn __repr__(&self) -> String {
        let verdict = if self.plan.verdicts.are_good() { "every check holds" } else { "a check fails" };
        format!("<ayatori.Plan of {:?}: {} VLANs, {verdict}>", self.plan.machine, self.plan.vlans.len())
    }
}
