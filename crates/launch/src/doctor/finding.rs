//! Findings of checks.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Jobs fail or run other programs than meant.
    Error,
    /// Jobs are slower than this machine allows.
    Warning,
    /// Some jobs would gain by a change.
    Advice,
}

/// One thing that could be better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check, as [`super::CHECKS`] names it.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The problem.
    pub problem: String,
    /// The change to make, as a command if possible.
    pub remedy: String,
    /// The gain of that.
    pub gain: String,
}

/// Where checks put what they find.
pub(super) struct Findings {
    pub(super) check: &'static str,
    pub(super) found: Vec<Finding>,
}

impl Findings {
    /// One more finding of the current check.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        problem: impl Into<String>,
        remedy: impl Into<String>,
        gain: impl Into<String>,
    ) {
        let (problem, remedy, gain) = (problem.into(), remedy.into(), gain.into());
        self.found.push(Finding { check: self.check, severity, problem, remedy, gain });
    }
}
