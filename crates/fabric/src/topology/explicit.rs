//! Explicit graph: named switches and a list of cables, for everything that has no formula.
//!
//! Ports are numbered in the order of the list: the first cable that names a switch takes its port 0, and so
//! on. Two cables between the same two switches are two links; use `width` to aggregate them into one.

use super::{Cable, Generator, TopologyError, invalid};
use crate::graph::Port;

/// A list of cables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explicit {
    /// Names of the switches; a switch's number is its place here.
    pub switches: Vec<String>,
    /// Pairs of switches and the number of parallel cables between them.
    pub links: Vec<(u32, u32, u32)>,
}

impl Generator for Explicit {
    fn kind(&self) -> &'static str {
        "explicit"
    }

    fn check(&self) -> Result<(), TopologyError> {
        if self.switches.is_empty() {
            return Err(invalid("explicit", "needs at least one switch"));
        }
        let name = |switch: u32| self.switches.get(switch as usize);
        for (place, &(a, b, width)) in self.links.iter().enumerate() {
            let problem = match (name(a), name(b)) {
                (None, _) | (_, None) => format!("link {} names a switch that is not listed", place + 1),
                (Some(a_name), _) if a == b => format!("link {} joins {a_name} to itself", place + 1),
                _ if width == 0 => format!("link {} has no cable", place + 1),
                _ => continue,
            };
            return Err(invalid("explicit", problem));
        }
        Ok(())
    }

    fn switch_count(&self) -> u64 {
        self.switches.len() as u64
    }

    fn coordinates(&self, _switch: u32) -> Vec<u32> {
        Vec::new()
    }

    fn switch_name(&self, switch: u32) -> String {
        self.switches[switch as usize].clone()
    }

    fn switch_port_count(&self, switch: u32) -> u64 {
        self.links.iter().filter(|&&(a, b, _)| a == switch || b == switch).count() as u64
    }

    fn port_name(&self, _switch: u32, port: Port) -> String {
        format!("port{port}")
    }

    fn cables(&self) -> Vec<Cable> {
        let mut used = vec![0; self.switches.len()];
        let mut next_port = |switch: u32| {
            let port = &mut used[switch as usize];
            *port += 1;
            (switch, *port - 1)
        };
        let cable = |&(a, b, width): &(u32, u32, u32)| Cable { a: next_port(a), b: next_port(b), width };
        self.links.iter().map(cable).collect()
    }
}
