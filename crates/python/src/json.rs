//! Values between Python, JSON and TOML.

use pyo3::prelude::*;

use crate::arguments::{failed, wrong};

/// A value of Python's as one of TOML's; None is none.
pub(crate) fn value(given: &Bound<'_, PyAny>) -> PyResult<Option<toml::Value>> {
    if given.is_none() {
        return Ok(None);
    }
    let text: String = given.py().import("json")?.call_method1("dumps", (given,))?.extract()?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(failed)?;
    toml::Value::try_from(json).map(Some).map_err(|error| wrong(format!("{given}: {error}")))
}

/// What JSON says, as Python's objects.
pub(crate) fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
