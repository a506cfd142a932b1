//! State of ports.

use std::collections::BTreeMap;

use crate::check::observed::same_port;

/// Ports of one switch or host, by its own names for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The ports that were mentioned.
    pub ports: BTreeMap<String, ShownPort>,
}

/// State of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownPort {
    /// Whether it has a link; `None` if unknown.
    pub is_up: Option<bool>,
    /// Neighbours there: none, one, or several behind a switch that forwards LLDP.
    pub neighbours: Vec<Neighbour>,
}

/// A neighbour, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// System name, or the chassis identifier where it sends none.
    pub system: String,
    /// Names of its port: the port identifier and the port description.
    pub ports: Vec<String>,
}

impl Shown {
    /// A port, however its name is abbreviated.
    pub fn port(&self, name: &str) -> Option<&ShownPort> {
        self.ports
            .get(name)
            .or_else(|| self.ports.iter().find_map(|(known, port)| same_port(name, known).then_some(port)))
    }
}
