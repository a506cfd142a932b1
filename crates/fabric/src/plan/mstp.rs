//! Trees held by the Multiple Spanning Tree Protocol (IEEE 802.1Q-2018, clause 13; once 802.1s) in the
//! place of ports that are left out of VLANs.
//!
//! Each distinct tree is an instance (MSTI). Every link carries every VLAN, and each instance blocks the
//! links that its tree does not use. A cut cable then needs no repair: the instance finds other links.

use serde::{Deserialize, Serialize};

use crate::graph::{LinkId, SwitchId};

use super::VlanSet;

/// Instances beside the common one that 802.1Q allows.
pub const MSTP_INSTANCES_MAX: u16 = 64;
/// How far a switch may be from an instance's root, in links: switches take `max-hops` of at most 40, and the
/// root's own counts.
pub const MSTP_DEPTH_MAX: u32 = 39;
/// The value of `max-hops`.
pub const MSTP_MAX_HOPS: u32 = MSTP_DEPTH_MAX + 1;
/// Longest name of a region, bytes.
pub const MSTP_REGION_BYTES_MAX: usize = 32;

/// Cost of a link in an instance whose tree it belongs to.
const TREE_COST: u32 = 1;
/// Cost of any other link: more than every tree is deep, so no way over one of them is as short as the
/// tree's. Within what short (16-bit) and long costs can say.
const OTHER_COST: u32 = 10_000;
/// Priorities go in steps of this; the least wins.
const PRIORITY_STEP: u16 = 4096;
/// Priority of all but two switches: what switches have as shipped.
const USUAL_PRIORITY: u16 = 8 * PRIORITY_STEP;

/// The region that all switches form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mstp {
    /// Name of the region, the same on all switches: the machine's.
    pub region: String,
    /// Revision of the VLAN map.
    pub revision: u16,
    /// The instances, by number from 1. VLANs in none are in the common instance, which has no loop either.
    pub instances: Vec<MstpInstance>,
}

/// One instance: a spanning tree of all switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MstpInstance {
    /// Its number, from 1.
    pub number: u16,
    /// Its VLANs.
    pub vlans: VlanSet,
    /// Its tree as planned, ascending: what it elects as long as nothing is broken.
    pub tree: Vec<LinkId>,
    /// The switch that is its root.
    pub root: SwitchId,
    /// The switch that becomes root if that one is gone.
    pub second_root: Option<SwitchId>,
}

impl MstpInstance {
    /// What a link costs in this instance, at either end.
    ///
    /// With these costs the elected tree is the planned one, whatever the switches' addresses are. MSTP
    /// elects a shortest-path tree from the root, and asks addresses and port numbers only among ways of
    /// equal cost (IEEE 802.1Q-2018, 13.9 to 13.12). Let d be the number of links from the root to a
    /// switch in the planned tree; d < switches <= 4,096 < `OTHER_COST`. The way along the tree costs d.
    /// A way that uses another link costs `OTHER_COST` at least, which is more. A way of tree links
    /// only, without a detour, is the way along the tree, because a tree has one. So each switch has
    /// exactly one cheapest way, and it is the tree's.
    pub fn cost(&self, link: LinkId) -> u32 {
        if self.tree.binary_search(&link).is_ok() { TREE_COST } else { OTHER_COST }
    }

    /// The priority of a switch in this instance: the least becomes root.
    pub fn priority(&self, switch: SwitchId) -> u16 {
        if switch == self.root {
            0
        } else if Some(switch) == self.second_root {
            PRIORITY_STEP
        } else {
            USUAL_PRIORITY
        }
    }
}
