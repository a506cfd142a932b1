//! Hypercube: `2^n` switches, cabled where their numbers differ in one bit.
//!
//! As a grid of extents 2: dimension `d` is bit `d`, joined from port `2 d` (bit clear) to port `2 d + 1`
//! (bit set), so of the two ports of a dimension a switch uses one.

use super::grid::{Grid, generate_as_grid};
use super::{TopologyError, invalid};
use crate::graph::Port;

/// A binary n-cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hypercube {
    /// Number of dimensions, 1 to 22.
    pub dimension_count: u32,
}

impl Hypercube {
    /// The mesh of extents 2.
    pub fn grid(&self) -> Grid {
        Grid::mesh(&vec![2; self.dimension_count as usize])
    }

    fn check_numbers(&self) -> Result<(), TopologyError> {
        match self.dimension_count {
            1..=22 => Ok(()),
            n => Err(invalid("hypercube", format!("{n} dimensions: 1 to 22 are possible"))),
        }
    }

    fn name_port(&self, port: Port) -> String {
        format!("bit{}", port / 2)
    }
}

generate_as_grid!(Hypercube, "hypercube");
