//! Tofu-like 6-D mesh/torus: units of 2×3×2 switches (axes A, B, C) at the points of a 3-D torus (X, Y, Z).
//!
//! After Y. Ajima, S. Sumimoto, T. Shimizu, "Tofu: A 6D Mesh/Torus Interconnect for Exascale Computers", IEEE
//! Computer 42(11), 2009: A and C have two switches and one link, B has three and is a ring; X, Y and Z join
//! equal places of neighbouring units, so a switch has ten ports in use. The switch at (x, y, z, a, b, c) is
//! numbered with x varying fastest and c slowest. Ports as in [`super::grid`], in the order X Y Z A B C.

use super::TopologyError;
use super::grid::{Dimension, Grid, generate_as_grid};
use crate::graph::Port;

/// Extents of a unit along A, B and C.
pub const UNIT: [u32; 3] = [2, 3, 2];

/// The 6-D mesh/torus of the K computer and FX10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tofu {
    /// Units along X, Y, Z.
    pub unit_extents: [u32; 3],
    /// Whether X, Y, Z wrap around (a part of a machine may be a mesh along an axis). An axis of two units or
    /// fewer never does.
    pub wraps: [bool; 3],
}

impl Tofu {
    /// A machine whose X, Y and Z axes all wrap around.
    pub fn new(unit_extents: [u32; 3]) -> Tofu {
        Tofu { unit_extents, wraps: [true; 3] }
    }

    /// The six-dimensional grid.
    pub fn grid(&self) -> Grid {
        let outer = self.unit_extents.iter().zip(self.wraps);
        let outer = outer.map(|(&extent, wraps)| Dimension { extent, wraps: wraps && extent > 2 });
        let inner = UNIT.map(|extent| Dimension { extent, wraps: extent > 2 });
        Grid { dimensions: outer.chain(inner).collect() }
    }

    fn check_numbers(&self) -> Result<(), TopologyError> {
        Ok(())
    }

    fn name_port(&self, port: Port) -> String {
        let axis = "xyzabc".chars().nth(usize::from(port / 2)).unwrap_or('?');
        format!("{axis}{}", if port.is_multiple_of(2) { '+' } else { '-' })
    }
}

generate_as_grid!(Tofu, "tofu");
