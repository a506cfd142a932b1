//! Tree with hosts at every switch: switch 0 is the root, the children of switch `s` are `arity * s + 1` to
//! `arity * s + arity` as far as there are switches. A star is the tree whose arity is one less than its
//! switches.
//!
//! Port 0 leads to the parent (free at the root), port `1 + i` to child `i`. Eight switches of arity 2 are
//! the VLAN routing paper's SuperNova tree (diameter of six switches, bisection of one link); six of arity 5
//! its Misc tree.

use super::{Cable, Generator, TopologyError, invalid};
use crate::graph::Port;

/// A tree filled level by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Children of a switch, at least 1.
    pub arity: u32,
    /// Number of switches, at least 1.
    pub switch_count: u32,
}

impl Tree {
    /// A tree of `level_count` full levels; more than 2^32 switches become 2^32 - 1, which no check lets
    /// pass.
    pub fn full(arity: u32, level_count: u32) -> Tree {
        let mut switch_count = 0_u32;
        for _ in 0..level_count {
            switch_count = switch_count.saturating_mul(arity).saturating_add(1);
            if switch_count == u32::MAX {
                break;
            }
        }
        Tree { arity, switch_count }
    }

    /// One switch in the middle of `leaf_count` others.
    pub fn star(leaf_count: u32) -> Tree {
        Tree { arity: leaf_count, switch_count: leaf_count.saturating_add(1) }
    }

    /// The parent of a switch other than the root.
    pub fn parent(&self, switch: u32) -> u32 {
        (switch - 1) / self.arity
    }

    /// The port of the parent that leads to this switch.
    pub fn port_at_parent(&self, switch: u32) -> Port {
        (1 + (switch - 1) % self.arity) as Port
    }
}

impl Generator for Tree {
    fn kind(&self) -> &'static str {
        "tree"
    }

    fn check(&self) -> Result<(), TopologyError> {
        if self.arity == 0 && self.switch_count != 1 {
            return Err(invalid("tree", "an arity of 0 leaves no place for a second switch"));
        }
        if self.switch_count == 0 {
            return Err(invalid("tree", "needs at least one switch"));
        }
        Ok(())
    }

    fn switch_count(&self) -> u64 {
        self.switch_count.into()
    }

    fn coordinates(&self, switch: u32) -> Vec<u32> {
        vec![switch]
    }

    fn switch_port_count(&self, switch: u32) -> u64 {
        let first_child = u64::from(switch) * u64::from(self.arity) + 1;
        let child_count = u64::from(self.switch_count).saturating_sub(first_child).min(self.arity.into());
        1 + child_count
    }

    fn port_name(&self, _switch: u32, port: Port) -> String {
        if port == 0 { "parent".into() } else { format!("child{}", port - 1) }
    }

    fn cables(&self) -> Vec<Cable> {
        let cable = |child| Cable::single((self.parent(child), self.port_at_parent(child)), (child, 0));
        (1..self.switch_count).map(cable).collect()
    }
}
