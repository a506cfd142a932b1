//! Mesh in any number of dimensions. Ports as in [`super::grid`]; at an edge they stay free.

use super::TopologyError;
use super::grid::{Grid, generate_as_grid};
use crate::graph::Port;

/// An n-dimensional mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mesh {
    /// Switches along each dimension.
    pub extents: Vec<u32>,
}

impl Mesh {
    /// The grid without any wrap-around.
    pub fn grid(&self) -> Grid {
        Grid::mesh(&self.extents)
    }

    fn check_numbers(&self) -> Result<(), TopologyError> {
        Ok(())
    }

    fn name_port(&self, port: Port) -> String {
        self.grid().port_name(port)
    }
}

generate_as_grid!(Mesh, "mesh");
