//! The only path there is in a tree.

use super::Hop;
use crate::graph::SwitchId;
use crate::topology::Tree;

/// Paths of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePath {
    tree: Tree,
}

impl TreePath {
    /// Routes for a checked tree.
    pub fn new(tree: &Tree) -> TreePath {
        TreePath { tree: tree.clone() }
    }

    /// See [`super::Routing::next_hop`].
    pub fn next_hop(&self, at: SwitchId, to: SwitchId) -> Hop {
        // A parent's number is below its children's, so climbing from `to` passes `at` or goes below it.
        let mut below = to.0;
        while below > at.0 {
            let parent = self.tree.parent(below);
            if parent == at.0 {
                return Hop { port: self.tree.port_at_parent(below), vc: 0 };
            }
            below = parent;
        }
        Hop { port: 0, vc: 0 }
    }
}
