//! The Python module `ayatori`: machines, plans, simulations and sweeps.
//!
//! **Owns** the translation between Python's objects and the libraries': arguments in, results out, errors
//! into exceptions, Ctrl-C into a stopped run. **Does not own** any logic: what is planned and simulated,
//! and every message, is
//! `ayatori-fabric`'s, `ayatori-sim`'s and `ayatori-study`'s, as for the command.
//!
//! **Where to begin**: `machine.rs` for descriptions, `plan.rs`, `simulate.rs` for runs and their results,
//! `rank.rs` for generators as ranks, `sweep.rs`. What users see is documented in
//! `python/ayatori/_native.pyi` and docs/python.md.
//!
//! The interpreter is released while a simulation runs, except one whose ranks are Python generators.
#![forbid(unsafe_code)]

mod arguments;
mod json;
mod machine;
mod names;
mod plan;
mod rank;
mod results;
mod simulate;
mod sweep;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    ayatori,
    Error,
    PyException,
    "What went wrong: a machine file, a plan, a simulation. The message says what to do."
);

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::machine::Machine;
    #[pymodule_export]
    use super::names::{algorithms, workloads};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::rank::{Mpi, Operation, Request, Status};
    #[pymodule_export]
    use super::results::Result;
    #[pymodule_export]
    use super::sweep::{Sweep, sweep};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("Error", module.py().get_type::<super::Error>())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
