//! Dimension order: correct the first coordinate, then the second, and so on; around a ring the shorter way.
//!
//! With a dateline ([`Dateline`]) packets that cross a dimension's wrap-around link and packets that do not
//! use different virtual channels, so that in each ring the channels form two chains and no cycle.

use super::Hop;
use crate::graph::SwitchId;
use crate::topology::grid::{Grid, port};

/// The way around where both are equally long (an even ring's opposite switch). It alone moves throughput by
/// several per cent between simulators, so it is stated: the default is [`TieRule::Up`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieRule {
    /// Always towards higher coordinates. All traffic between opposite switches then loads half of the ring's
    /// channels.
    #[default]
    Up,
    /// From even coordinates (in that dimension) up, from odd ones down: loads both directions alike.
    Balanced,
}

/// Which virtual channel a packet uses in a ring (W. Dally, C. Seitz, "Deadlock-free message routing in
/// multiprocessor interconnection networks", 1987). No effect in dimensions that do not wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dateline {
    /// Always channel 0: a ring of four switches or more can deadlock.
    Off,
    /// Channel 0 up to the wrap-around link, channel 1 on it and beyond. Most packets never see channel 1.
    AtWrap,
    /// All the way along the dimension: channel 1 if the packet will cross its wrap-around link, else 0. Both
    /// chains end because no packet goes more than half the ring: with channel 1, a packet that has wrapped
    /// does not come as far as the first link before the wrap that others use. BookSim and Cray's T3D do
    /// this; the load is much more even.
    #[default]
    OnEntry,
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
    dateline: Dateline,
    tie: TieRule,
}

impl DimensionOrder {
    /// Routes for a grid that [`crate::topology::Topology::check`] has passed; the first dimension is
    /// corrected first.
    pub fn new(grid: &Grid, dateline: Dateline, tie: TieRule) -> DimensionOrder {
        let order: Vec<usize> = (0..grid.dimensions.len()).collect();
        DimensionOrder::with_order(grid, &order, dateline, tie)
    }

    /// As [`DimensionOrder::new`], correcting dimensions in `order`.
    ///
    /// # Panics
    /// If `order` does not name every dimension once.
    pub fn with_order(grid: &Grid, order: &[usize], dateline: Dateline, tie: TieRule) -> DimensionOrder {
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
        if self.dateline != Dateline::Off && self.wraps.contains(&true) { 2 } else { 1 }
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
        if self.dateline != Dateline::Off && self.wraps[i] {
            // Hops before the one that crosses the wrap-around link.
            let before = if up { self.extents[i] - 1 - here[i] } else { here[i] };
            let here_by = arrived.filter(|hop| usize::from(hop.port / 2) == d).map(|hop| hop.vc);
            vc = match (self.dateline, here_by) {
                (Dateline::OnEntry, Some(vc)) => vc,
                (Dateline::OnEntry, None) => u8::from(before < distance),
                (_, crossed) => u8::from(before == 0 || crossed == Some(1)),
            };
            if self.dateline == Dateline::AtWrap && vc == 0 {
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
        // One comparison, no branch: which way is as good as random.
        let tie_goes_up = (self.tie == TieRule::Up) | here.is_multiple_of(2);
        let up = distance_up < distance_down + u16::from(tie_goes_up);
        (up, if up { distance_up } else { distance_down })
    }
}
