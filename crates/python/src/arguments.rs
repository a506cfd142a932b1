//! Arguments from Python, and errors to it.

use std::error::Error as _;
use std::fmt::Display;

use ayatori_fabric::description::DescriptionError;
use ayatori_sim::cluster::ClusterError;
use ayatori_sim::simulation::{SimulationError, parse_bytes};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::Error;

/// A wrong argument.
pub(crate) fn wrong(message: impl Display) -> PyErr {
    PyValueError::new_err(message.to_string())
}

/// Anything else that failed.
pub(crate) fn failed(message: impl Display) -> PyErr {
    Error::new_err(message.to_string())
}

pub(crate) fn description_error(error: DescriptionError) -> PyErr {
    failed(error)
}

/// With the chain of its causes, as the command prints it.
pub(crate) fn simulation_error(error: SimulationError) -> PyErr {
    match &error {
        SimulationError::Usage(message) => wrong(message),
        SimulationError::Cluster(ClusterError::Stopped) => PyKeyboardInterrupt::new_err(()),
        other => {
            let mut text = other.to_string();
            let mut cause = other.source();
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            failed(text)
        }
    }
}

/// A whole number within bounds; `option` is the command's name of it.
pub(crate) fn count(option: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    // True is an int in Python, and no count.
    if !value.is_instance_of::<PyInt>() && value.getattr("__index__").is_err()
        || value.is_instance_of::<PyBool>()
    {
        return Err(PyTypeError::new_err(format!(
            "{option}: a whole number, not {}",
            value.get_type().name()?
        )));
    }
    match value.extract::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => {
            Err(wrong(format!("--{}: {} is not in {least}..={most}", option.replace('_', "-"), value.str()?)))
        }
    }
}

/// A length: a number of bytes, or text such as "64K".
pub(crate) fn bytes(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.cast::<PyString>() {
        Ok(text) => parse_bytes(text.to_str()?).map(|bytes| bytes as u64).map_err(simulation_error),
        Err(_) => count("bytes", value, 0, (1 << 50) - 1),
    }
}

/// A path: text or anything with `__fspath__`.
pub(crate) fn path(value: &Bound<'_, PyAny>) -> PyResult<std::path::PathBuf> {
    value.extract()
}
