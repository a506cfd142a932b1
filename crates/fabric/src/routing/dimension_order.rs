//! Dimension order: correct the first coordinate, then the second, and so on; around a ring the shorter way.
//!
//! With the dateline, a packet uses virtual channel 0 until it crosses a dimension's wrap-around link, which it does on
//! channel 1, and stays there to the end of that dimension. In each ring the channels then form two chains and no circle.

use super::Hop;
use crate::graph::SwitchId;
use crate::topology::grid::{Grid, port};

/// The way around where both are equally long (an even ring's opposite switch). It alone moves throughput by several
/// per cent between simulators, so it is stated: the default is [`TieRule::Up`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieRule {
    /// Always towards higher coordinates. All traffic between opposite switches then loads half of the ring's channels.
    #[default]
    Up,
    /// From even coordinates (in that dimension) up, from odd ones down: loads both directions alike.
    Balanced,
}

/// Dimension order on a [`Grid`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimensionOrder {
    /// Dimensions, the one corrected first before; the other fields are in this order.
    order: Vec<u8>,
    extents: Vec<u16>,
    wraps: Vec<bool>,
    /// Coordinates of all switches, switch by switch: small, and cheaper than divisions.
    coordinates: Vec<u16>,
    dateline: bool,
    tie: TieRule,
}

impl DimensionOrder {
    /// Routes for a grid that [`crate::topology::Topology::check`] has passed; the first dimension is corrected first.
    pub fn new(grid: &Grid, dateline: bool, tie: TieRule) -> DimensionOrder {
        let order: Vec<usize> = (0..grid.dimensions.len()).collect();
        DimensionOrder::with_order(grid, &order, dateline, tie)
    }

    /// As [`DimensionOrder::new`], correcting dimensions in `order`.
    ///
    /// # Panics
    /// If `order` does not name every dimension once.
    pub fn with_order(grid: &Grid, order: &[usize], dateline: bool, tie: TieRule) -> DimensionOrder {
        let mut named = order.to_vec();
        named.sort_unstable();
        assert!(named.into_iter().eq(0..grid.dimensions.len()), "{order:?} is no order of the dimensions");
        let pick = |values: Vec<u32>| order.iter().map(|&d| values[d] as u16).collect::<Vec<u16>>();
        let count = grid.switch_count() as u32;
        DimensionOrder {
            order: order.iter().map(|&d| d as u8).collect(),
            extents: pick(grid.extents()),
            wraps: order.iter().map(|&d| grid.dimensions[d].wraps).collect(),
            coordinates: (0..count).flat_map(|switch| pick(grid.coordinates(switch))).collect(),
            dateline,
            tie,
        }
    }

    /// 2 if a dateline is needed and wanted, else 1.
    pub fn vc_count(&self) -> u8 {
        if self.dateline && self.wraps.contains(&true) { 2 } else { 1 }
    }

    /// See [`super::Routing::next_hop`].
    #[inline]
    pub fn next_hop(&self, at: SwitchId, arrived: Option<Hop>, to: SwitchId) -> Hop {
        self.next_run(at, arrived, to).0
    }

    /// See [`super::Routing::next_run`].
    #[inline]
    pub fn next_run(&self, at: SwitchId, arrived: Option<Hop>, to: SwitchId) -> (Hop, u32) {
        let count = self.extents.len();
        let here = &self.coordinates[at.index() * count..][..count];
        let there = &self.coordinates[to.index() * count..][..count];
        let differs = here.iter().zip(there).position(|(a, b)| a != b);
        let i = differs.expect("a route is asked for between two different switches");
        let d = usize::from(self.order[i]);
        let (up, distance) = self.way(i, here[i], there[i]);
        let (mut vc, mut more) = (0, distance - 1);
        if self.dateline && self.wraps[i] {
            // Hops before the one that crosses the wrap-around link.
            let before = if up { self.extents[i] - 1 - here[i] } else { here[i] };
            let crossed = arrived.is_some_and(|hop| usize::from(hop.port / 2) == d && hop.vc == 1);
            if before == 0 || crossed {
                vc = 1;
            } else {
                more = more.min(before - 1);
            }
        }
        (Hop { port: port(d, up), vc }, u32::from(more))
    }

    /// Whether the way goes up, and its length.
    #[inline]
    fn way(&self, i: usize, here: u16, there: u16) -> (bool, u16) {
        if !self.wraps[i] {
            return (there > here, there.abs_diff(here));
        }
        let extent = self.extents[i];
        let distance_up = if there > here { there - here } else { there + extent - here };
        let distance_down = extent - distance_up;
        let up = match distance_up.cmp(&distance_down) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => self.tie == TieRule::Up || here.is_multiple_of(2),
        };
        (up, if up { distance_up } else { distance_down })
    }
}
