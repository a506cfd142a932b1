//! HyperX: switches at integer coordinates, each cabled to all others that differ from it in one coordinate.
//!
//! J. H. Ahn et al., "HyperX: topology, routing, and packaging of efficient large-scale networks", SC 2009.
//! The ports of dimension `d` follow those of `d - 1`; within a dimension they lead to the other coordinates
//! in order, as in [`super::complete`]. One dimension is the complete graph, extents of two the hypercube,
//! two dimensions the flattened butterfly.

use super::complete::port_towards;
use super::{Cable, Generator, Grid, TopologyError, invalid};
use crate::graph::Port;

/// Complete graphs in every dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperX {
    /// Switches along each dimension, at least 2 each.
    pub extents: Vec<u32>,
    /// Parallel cables of the links of each dimension; empty means one everywhere.
    pub widths: Vec<u32>,
}

impl HyperX {
    /// The first port of a dimension.
    pub fn first_port(&self, dimension: usize) -> u32 {
        self.extents[..dimension].iter().map(|extent| extent - 1).sum()
    }

    fn width(&self, dimension: usize) -> u32 {
        self.widths.get(dimension).copied().unwrap_or(1)
    }
}

impl Generator for HyperX {
    fn kind(&self) -> &'static str {
        "hyperx"
    }

    fn check(&self) -> Result<(), TopologyError> {
        if self.extents.is_empty() {
            return Err(invalid("hyperx", "needs at least one extent"));
        }
        if let Some(d) = self.extents.iter().position(|&extent| !(2..=4096).contains(&extent)) {
            return Err(invalid("hyperx", format!("extent {} is {}: 2 to 4096", d + 1, self.extents[d])));
        }
        if !self.widths.is_empty() && self.widths.len() != self.extents.len() {
            let (widths, extents) = (self.widths.len(), self.extents.len());
            return Err(invalid("hyperx", format!("{widths} widths for {extents} extents")));
        }
        if self.widths.contains(&0) {
            return Err(invalid("hyperx", "a width of 0 would leave a dimension without cables"));
        }
        Ok(())
    }

    fn switch_count(&self) -> u64 {
        super::product(&self.extents)
    }

    fn coordinates(&self, switch: u32) -> Vec<u32> {
        Grid::mesh(&self.extents).coordinates(switch)
    }

    fn switch_port_count(&self, _switch: u32) -> u64 {
        self.extents.iter().map(|&extent| u64::from(extent) - 1).sum()
    }

    fn port_name(&self, switch: u32, port: Port) -> String {
        let mut rest = u32::from(port);
        for (d, &extent) in self.extents.iter().enumerate() {
            if rest < extent - 1 {
                let own = self.coordinates(switch)[d];
                return format!("d{d}to{}", if rest < own { rest } else { rest + 1 });
            }
            rest -= extent - 1;
        }
        format!("port{port}")
    }

    fn cables(&self) -> Vec<Cable> {
        let mut cables = Vec::new();
        for switch in 0..self.switch_count() as u32 {
            let mut stride = 1;
            for (d, (&extent, own)) in self.extents.iter().zip(self.coordinates(switch)).enumerate() {
                let base = self.first_port(d);
                for other in own + 1..extent {
                    let far = switch + (other - own) * stride;
                    let near_end = (switch, (base + port_towards(own, other)) as Port);
                    let far_end = (far, (base + port_towards(other, own)) as Port);
                    cables.push(Cable { a: near_end, b: far_end, width: self.width(d) });
                }
                stride *= extent;
            }
        }
        cables
    }
}
