//! Common part of mesh, torus, ring, hypercube and Tofu: extents, and the dimensions that wrap around.
//!
//! Port `2 d` of a switch leads up in dimension `d` (coordinate + 1), port `2 d + 1` down. Where a dimension
//! wraps around, the last switch's upward port is cabled to the first one's downward port.

use super::{Cable, TopologyError, invalid, product};
use crate::graph::Port;

/// Coordinates are kept in 16 bits.
const EXTENT_MAX: u32 = 65_535;

/// One dimension of a [`Grid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimension {
    /// Switches along it, at least 1.
    pub extent: u32,
    /// Whether the last switch is cabled to the first. Never true where the extent is 1.
    pub wraps: bool,
}

/// Switches at integer coordinates, each cabled to the next one in every dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// The dimensions; coordinates of the first vary fastest in the numbering of switches.
    pub dimensions: Vec<Dimension>,
}

/// The port that leads along `dimension`, up or down.
pub fn port(dimension: usize, up: bool) -> Port {
    (2 * dimension + usize::from(!up)) as Port
}

impl Grid {
    /// A grid that wraps around in no dimension.
    pub fn mesh(extents: &[u32]) -> Grid {
        let dimension = |&extent: &u32| Dimension { extent, wraps: false };
        Grid { dimensions: extents.iter().map(dimension).collect() }
    }

    /// A grid that wraps around in every dimension of three switches or more, and with `twin_links` also
    /// where there are only two (two links then join the same two switches).
    pub fn torus(extents: &[u32], twin_links: bool) -> Grid {
        let extent_min = if twin_links { 2 } else { 3 };
        let dimension = |&extent: &u32| Dimension { extent, wraps: extent >= extent_min };
        Grid { dimensions: extents.iter().map(dimension).collect() }
    }

    /// The extents.
    pub fn extents(&self) -> Vec<u32> {
        self.dimensions.iter().map(|dimension| dimension.extent).collect()
    }

    /// Number of switches.
    pub fn switch_count(&self) -> u64 {
        product(&self.extents())
    }

    /// A switch's coordinates.
    pub fn coordinates(&self, mut switch: u32) -> Vec<u32> {
        self.dimensions
            .iter()
            .map(|&Dimension { extent, .. }| {
                let coordinate = switch % extent;
                switch /= extent;
                coordinate
            })
            .collect()
    }

    /// The switch at `coordinates`.
    pub fn switch_at(&self, coordinates: &[u32]) -> u32 {
        let place =
            |(dimension, &coordinate): (&Dimension, &u32), rest: u32| coordinate + dimension.extent * rest;
        self.dimensions.iter().zip(coordinates).rev().fold(0, |rest, pair| place(pair, rest))
    }

    /// Two ports for every dimension.
    pub fn switch_port_count(&self) -> u64 {
        2 * self.dimensions.len() as u64
    }

    /// `x+`, `x-`, `y+` … up to six dimensions, `d6+` beyond.
    pub fn port_name(&self, port: Port) -> String {
        let sign = if port.is_multiple_of(2) { '+' } else { '-' };
        match "xyzuvw".chars().nth(usize::from(port / 2)) {
            Some(axis) => format!("{axis}{sign}"),
            None => format!("d{}{sign}", port / 2),
        }
    }

    /// The upward links of every switch, switch by switch, dimension by dimension.
    pub fn cables(&self) -> Vec<Cable> {
        let mut cables = Vec::new();
        let mut coordinates = vec![0; self.dimensions.len()];
        for switch in 0..self.switch_count() as u32 {
            let mut stride = 1;
            for (d, &Dimension { extent, wraps }) in self.dimensions.iter().enumerate() {
                let next = match coordinates[d] + 1 {
                    inside if inside < extent => Some(switch + stride),
                    _ if wraps => Some(switch - (extent - 1) * stride),
                    _ => None,
                };
                if let Some(next) = next {
                    cables.push(Cable::single((switch, port(d, true)), (next, port(d, false))));
                }
                stride *= extent;
            }
            self.advance(&mut coordinates);
        }
        cables
    }

    /// Whether there is at least one dimension and none is empty.
    ///
    /// # Errors
    /// Names what is empty.
    pub fn check(&self, topology: &'static str) -> Result<(), TopologyError> {
        if self.dimensions.is_empty() {
            return Err(invalid(topology, "needs at least one extent"));
        }
        for (d, Dimension { extent, .. }) in self.dimensions.iter().enumerate() {
            if *extent == 0 {
                return Err(invalid(topology, format!("extent {} is 0: at least 1 is needed", d + 1)));
            }
            if *extent > EXTENT_MAX {
                let (topology, what) = (topology, "switches along a dimension");
                let (count, max) = (u64::from(*extent), u64::from(EXTENT_MAX));
                return Err(TopologyError::TooLarge { topology, what, count, max });
            }
        }
        Ok(())
    }

    fn advance(&self, coordinates: &mut [u32]) {
        for (coordinate, dimension) in coordinates.iter_mut().zip(&self.dimensions) {
            *coordinate += 1;
            if *coordinate < dimension.extent {
                return;
            }
            *coordinate = 0;
        }
    }
}

/// Implements [`super::Generator`] for a topology that is a grid under another name.
macro_rules! generate_as_grid {
    ($topology:ty, $kind:literal) => {
        impl $crate::topology::Generator for $topology {
            fn kind(&self) -> &'static str {
                $kind
            }
            fn check(&self) -> Result<(), $crate::topology::TopologyError> {
                self.check_numbers()?;
                self.grid().check($kind)
            }
            fn switch_count(&self) -> u64 {
                self.grid().switch_count()
            }
            fn coordinates(&self, switch: u32) -> Vec<u32> {
                self.grid().coordinates(switch)
            }
            fn switch_port_count(&self, _switch: u32) -> u64 {
                self.grid().switch_port_count()
            }
            fn port_name(&self, _switch: u32, port: $crate::graph::Port) -> String {
                self.name_port(port)
            }
            fn cables(&self) -> Vec<$crate::topology::Cable> {
                self.grid().cables()
            }
        }
    };
}
pub(super) use generate_as_grid;
