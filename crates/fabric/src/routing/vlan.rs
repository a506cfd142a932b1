//! Forwarding of layer-2 switches: the port by VLAN and destination, from the trees of a plan.
//!
//! Where every VLAN is a tree, a switch that has learned all hosts forwards a frame towards its destination
//! along the tree; so the trees are the tables. A VLAN's table is kept as the preorder of its tree, which
//! takes memory for each switch and not for each pair: 1,000 VLANs over 1,000 switches are 16 MB.
//! Deliberately absent: which frame is on which VLAN (`plan` says so by the sender's port or the pair of
//! hosts; the caller passes it as the flow).

use super::{Hop, RoutingError};
use crate::graph::{Graph, LinkId, Node, Port, SwitchId};

/// Not in the tree.
const NONE: u32 = u32::MAX;

/// Forwarding tables of all switches. A packet's flow is the index of its VLAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanForwarding {
    trees: Vec<Tree>,
}

/// One VLAN.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    /// By switch: its place in the preorder; [`NONE`] outside the tree.
    places: Vec<u32>,
    /// By switch: the first place after those of its subtree.
    ends: Vec<u32>,
    /// By switch: the port towards the root.
    up: Vec<Port>,
    /// By switch: its first entry in `down`, and one more.
    firsts: Vec<u32>,
    /// Children: the place and the port there, by ascending place within a switch.
    down: Vec<(u32, Port)>,
}

impl VlanForwarding {
    /// The tables of VLANs that are these trees of links between switches.
    ///
    /// # Errors
    /// [`RoutingError::NoTree`] if one has a loop, or links that do not hang together.
    pub fn new<'a>(
        graph: &Graph,
        trees: impl IntoIterator<Item = &'a [LinkId]>,
    ) -> Result<VlanForwarding, RoutingError> {
        let tree = |(vlan, links)| Tree::new(graph, links).ok_or(RoutingError::NoTree { vlan });
        Ok(VlanForwarding { trees: trees.into_iter().enumerate().map(tree).collect::<Result<_, _>>()? })
    }

    /// See [`super::Routing::next_hop`]; `vlan` is an index into the trees. Port 0 where the VLAN has no way.
    #[inline]
    pub fn next_hop(&self, at: SwitchId, to: SwitchId, vlan: u32) -> Hop {
        let tree = &self.trees[vlan as usize];
        let place = tree.places[to.index()];
        let inside = tree.places[at.index()] < place && place < tree.ends[at.index()];
        let port = if inside {
            let [first, end] = [0, 1].map(|next| tree.firsts[at.index() + next] as usize);
            let children = &tree.down[first..end];
            let child = children.partition_point(|&(first, _)| first <= place);
            children.get(child.wrapping_sub(1)).map_or(0, |&(_, port)| port)
        } else {
            tree.up[at.index()]
        };
        Hop { port, vc: 0 }
    }

    /// Number of VLANs.
    pub fn vlan_count(&self) -> u32 {
        self.trees.len() as u32
    }
}

impl Tree {
    /// `None` if the links are no tree.
    fn new(graph: &Graph, links: &[LinkId]) -> Option<Tree> {
        let switch_count = graph.switch_count();
        let mut near: Vec<Vec<(SwitchId, Port, Port)>> = vec![Vec::new(); switch_count];
        for &link in links {
            let ends = graph.link(link).ends;
            let [Node::Switch(a), Node::Switch(b)] = ends.map(|end| end.node) else { return None };
            near[a.index()].push((b, ends[0].port, ends[1].port));
            near[b.index()].push((a, ends[1].port, ends[0].port));
        }
        let mut tree = Tree {
            places: vec![NONE; switch_count],
            ends: vec![0; switch_count],
            up: vec![0; switch_count],
            firsts: vec![0; switch_count + 1],
            down: Vec::with_capacity(links.len()),
        };
        let mut children: Vec<Vec<(u32, Port)>> = vec![Vec::new(); switch_count];
        let root = (0..switch_count).find(|&switch| !near[switch].is_empty()).unwrap_or(0);
        let mut next_place = 1;
        tree.places[root] = 0;
        // A switch and how many of its neighbours have been looked at.
        let mut stack = vec![(root, None, 0)];
        while let Some((at, before, seen)) = stack.pop() {
            let Some(&(to, port, far_port)) = near[at].get(seen) else {
                tree.ends[at] = next_place;
                continue;
            };
            stack.push((at, before, seen + 1));
            // The link that led here is passed over, once: a second one between the same switches is a loop.
            if before == Some((to, port)) {
                continue;
            }
            if std::mem::replace(&mut tree.places[to.index()], next_place) != NONE {
                return None;
            }
            children[at].push((next_place, port));
            tree.up[to.index()] = far_port;
            next_place += 1;
            stack.push((to.index(), Some((SwitchId(at as u32), far_port)), 0));
        }
        for (switch, children) in children.iter().enumerate() {
            tree.down.extend_from_slice(children);
            tree.firsts[switch + 1] = tree.down.len() as u32;
        }
        (tree.down.len() == links.len()).then_some(tree)
    }
}
