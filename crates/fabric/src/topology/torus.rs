//! Torus in any number of dimensions. Ports as in [`super::grid`].
//!
//! A dimension of two switches has one link, as in the VLAN routing paper's torus 4×2 (its 36 cables with
//! three links each are 8 links in rings of four and 4 in pairs); with `twin_links` it has two, which is what
//! "k-ary n-cube" says literally for k = 2.

use super::TopologyError;
use super::grid::{Grid, generate_as_grid};
use crate::graph::Port;

/// An n-dimensional torus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torus {
    /// Switches along each dimension.
    pub extents: Vec<u32>,
    /// Whether two switches alone in a dimension are joined by two links, one for each direction around.
    pub twin_links: bool,
}

impl Torus {
    /// A torus whose dimensions of two switches have one link.
    pub fn new(extents: &[u32]) -> Torus {
        Torus { extents: extents.into(), twin_links: false }
    }

    /// The grid that wraps around.
    pub fn grid(&self) -> Grid {
        Grid::torus(&self.extents, self.twin_links)
    }

    fn check_numbers(&self) -> Result<(), TopologyError> {
        Ok(())
    }

    fn name_port(&self, port: Port) -> String {
        self.grid().port_name(port)
    }
}

generate_as_grid!(Torus, "torus");
