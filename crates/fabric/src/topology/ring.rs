//! Ring: `n` switches in a cycle. Port 0 leads to the next switch, port 1 to the one before.

use super::grid::{Grid, generate_as_grid};
use super::{TopologyError, invalid};
use crate::graph::Port;

/// A cycle of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Number of switches, at least 3.
    pub switch_count: u32,
}

impl Ring {
    /// The one-dimensional torus.
    pub fn grid(&self) -> Grid {
        Grid::torus(&[self.switch_count], false)
    }

    fn check_numbers(&self) -> Result<(), TopologyError> {
        if self.switch_count < 3 {
            return Err(invalid("ring", format!("{} switches make no ring: at least 3", self.switch_count)));
        }
        Ok(())
    }

    fn name_port(&self, port: Port) -> String {
        if port == 0 { "next".into() } else { "previous".into() }
    }
}

generate_as_grid!(Ring, "ring");
