//! D-mod-k on a fat tree: up to the lowest common ancestor, choosing parents by the digits of the flow, and
//! down.
//!
//! E. Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat trees",
//! 2010. With the destination host's number as the flow, hosts of one leaf are reached over different roots.

use super::Hop;
use crate::graph::{Port, SwitchId};
use crate::topology::FatTree;

/// D-mod-k on a [`FatTree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DModK {
    tree: FatTree,
    /// Number of the first switch of every level.
    level_starts: Vec<u32>,
    /// Product of `up` below every level.
    flow_strides: Vec<u32>,
}

impl DModK {
    /// Routes for a checked fat tree.
    pub fn new(tree: &FatTree) -> DModK {
        let flow_strides = (0..=tree.up.len()).map(|level| tree.up[..level].iter().product());
        DModK {
            level_starts: (0..tree.level_count()).map(|level| tree.level_start(level)).collect(),
            flow_strides: flow_strides.collect(),
            tree: tree.clone(),
        }
    }

    /// Flows that between them use every root.
    pub fn flow_count(&self) -> u32 {
        self.flow_strides[self.tree.up.len()]
    }

    /// See [`super::Routing::next_hop`].
    pub fn next_hop(&self, at: SwitchId, to: SwitchId, flow: u32) -> Hop {
        let level = self.level_starts.partition_point(|&start| start <= at.0) - 1;
        let (mut here, mut there) = (at.0 - self.level_starts[level], to.0);
        let mut digit_below = 0;
        let mut is_ancestor = true;
        for (j, (&up, &down)) in self.tree.up.iter().zip(&self.tree.down).enumerate() {
            let (own, wanted) = (here % if j < level { up } else { down }, there % down);
            (here, there) = (here / if j < level { up } else { down }, there / down);
            if j + 1 == level {
                digit_below = wanted;
            }
            is_ancestor &= j < level || own == wanted;
        }
        // Only leaves are destinations, so at level 0 an "ancestor" would be the destination itself.
        if is_ancestor {
            return Hop { port: digit_below as Port, vc: 0 };
        }
        let parent = flow / self.flow_strides[level] % self.tree.up[level];
        Hop { port: (self.tree.child_port_count(level) + parent) as Port, vc: 0 }
    }
}
