//! What there is, by name.

use ayatori_core::coll::Collective;
use ayatori_sim::simulation::Workload;
use pyo3::prelude::*;

use crate::arguments::wrong;

/// Names of the workloads that need no file.
#[pyfunction]
pub(crate) fn workloads() -> Vec<&'static str> {
    Workload::names()
}

/// Names of the algorithms of a collective operation.
#[pyfunction]
pub(crate) fn algorithms(operation: &str) -> PyResult<Vec<&'static str>> {
    let found = Collective::by_name(operation).ok_or_else(|| {
        let names: Vec<&str> = Collective::ALL.iter().map(|operation| operation.name()).collect();
        wrong(format!("no collective operation '{operation}': {}", names.join(", ")))
    })?;
    Ok(found.algorithms().iter().map(|algorithm| algorithm.name()).collect())
}
