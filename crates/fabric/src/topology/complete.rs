//! Complete graph: every switch cabled to every other.
//!
//! Port `p` of switch `s` leads to switch `p` below `s`, and to switch `p + 1` from `s` on: the others in
//! order.

use super::{Cable, Generator, TopologyError, invalid};
use crate::graph::Port;

/// Every switch with every other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete {
    /// Number of switches, at least 2.
    pub switch_count: u32,
}

/// The port of `from` that leads to `to`, in a complete graph.
pub fn port_towards(from: u32, to: u32) -> u32 {
    if to < from { to } else { to - 1 }
}

impl Generator for Complete {
    fn kind(&self) -> &'static str {
        "complete"
    }

    fn check(&self) -> Result<(), TopologyError> {
        match self.switch_count {
            0 | 1 => {
                Err(invalid("complete", format!("{} switches: at least 2 are needed", self.switch_count)))
            }
            2..=4096 => Ok(()),
            n => Err(invalid(
                "complete",
                format!("{n} switches would need {} links", n as u64 * (n as u64 - 1) / 2),
            )),
        }
    }

    fn switch_count(&self) -> u64 {
        self.switch_count.into()
    }

    fn coordinates(&self, switch: u32) -> Vec<u32> {
        vec![switch]
    }

    fn switch_port_count(&self, _switch: u32) -> u64 {
        u64::from(self.switch_count) - 1
    }

    fn port_name(&self, switch: u32, port: Port) -> String {
        let port = u32::from(port);
        format!("to{}", if port < switch { port } else { port + 1 })
    }

    fn cables(&self) -> Vec<Cable> {
        let pairs = (0..self.switch_count).flat_map(|a| (a + 1..self.switch_count).map(move |b| (a, b)));
        let cable = |(a, b)| Cable::single((a, port_towards(a, b) as Port), (b, port_towards(b, a) as Port));
        pairs.map(cable).collect()
    }
}
