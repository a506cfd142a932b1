//! A difference between the plan and what was observed.

use std::fmt;

/// Something that is not as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port or LAG; `None` for the switch as a whole.
    pub port: Option<String>,
    /// The difference and its consequence.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            Some(port) => write!(f, "{} {port}: {}", self.switch, self.what),
            None => write!(f, "{}: {}", self.switch, self.what),
        }
    }
}
