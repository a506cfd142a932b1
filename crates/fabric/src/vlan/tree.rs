//! A tree over the switches, seen from the switch whose hosts send along it.

use std::collections::VecDeque;

use super::network::{Arc, NONE, Network};

/// A tree by its root. Switches outside it have no parent and are not in `order`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootedTree {
    /// The link towards the root and the switch it leads to; the root's own is [`NONE`].
    pub(crate) parents: Vec<Arc>,
    /// Root first, parents before children.
    pub(crate) order: Vec<u32>,
}

const NO_ARC: Arc = Arc { to: NONE, link: NONE };

impl RootedTree {
    /// From a parent for every switch but the root. Panics if the parents go in a cycle: our bug.
    pub(crate) fn from_parents(root: u32, parents: Vec<Arc>) -> RootedTree {
        // Children by parent, in one list: a list each would be a million small ones on large networks.
        let mut firsts = vec![0_u32; parents.len() + 2];
        let with_parents = || parents.iter().enumerate().filter(|(_, parent)| parent.to != NONE);
        with_parents().for_each(|(_, parent)| firsts[parent.to as usize + 2] += 1);
        for at in 2..firsts.len() {
            firsts[at] += firsts[at - 1];
        }
        let mut children = vec![NONE; with_parents().count()];
        for (switch, parent) in with_parents() {
            let place = &mut firsts[parent.to as usize + 1];
            children[*place as usize] = switch as u32;
            *place += 1;
        }
        // So no switch is reached twice: each is the child of one other.
        assert_eq!(parents[root as usize].to, NONE, "the root {root} has no parent");
        let mut order = vec![root];
        let mut at = 0;
        while at < order.len() {
            let [from, to] = [0, 1].map(|next| firsts[order[at] as usize + next] as usize);
            order.extend_from_slice(&children[from..to]);
            at += 1;
        }
        let with_parent = parents.iter().filter(|parent| parent.to != NONE).count();
        assert_eq!(order.len(), with_parent + 1, "parents of {root} must form a tree");
        RootedTree { parents, order }
    }

    /// Every switch reached from `root` over `links` only.
    pub(crate) fn from_links(adjacency: &Adjacency, root: u32) -> RootedTree {
        let switch_count = adjacency.firsts.len() - 1;
        let mut parents = vec![NO_ARC; switch_count];
        let mut order = vec![root];
        let mut at = 0;
        while at < order.len() {
            let switch = order[at];
            at += 1;
            for arc in adjacency.of(switch) {
                if arc.link != parents[switch as usize].link {
                    parents[arc.to as usize] = Arc { to: switch, link: arc.link };
                    order.push(arc.to);
                }
                assert!(order.len() <= switch_count, "links of a VLAN must not form a cycle");
            }
        }
        RootedTree { parents, order }
    }

    pub(crate) fn root(&self) -> u32 {
        self.order[0]
    }

    /// Links from the root, by switch; [`u16::MAX`] outside the tree.
    pub(crate) fn depths(&self) -> Vec<u16> {
        let mut depths = vec![u16::MAX; self.parents.len()];
        depths[self.root() as usize] = 0;
        for &switch in &self.order[1..] {
            depths[switch as usize] = depths[self.parents[switch as usize].to as usize] + 1;
        }
        depths
    }

    /// Without branches that lead to no hosts: no frame goes there, and the links may serve another VLAN.
    pub(crate) fn pruned(mut self, network: &Network) -> RootedTree {
        let mut is_needed = vec![false; self.parents.len()];
        for &switch in self.order.iter().rev() {
            if is_needed[switch as usize] || network.weight(switch) > 0 {
                is_needed[switch as usize] = true;
                let parent = self.parents[switch as usize].to;
                if parent != NONE {
                    is_needed[parent as usize] = true;
                }
            }
        }
        let root = self.root();
        for switch in &self.order {
            if !is_needed[*switch as usize] {
                self.parents[*switch as usize] = NO_ARC;
            }
        }
        self.order.retain(|&switch| switch == root || is_needed[switch as usize]);
        self
    }

    /// Its links, ascending.
    pub(crate) fn links(&self) -> Vec<u32> {
        let mut links: Vec<u32> =
            self.order[1..].iter().map(|&switch| self.parents[switch as usize].link).collect();
        links.sort_unstable();
        links
    }
}

/// For every switch its arcs over some of the links.
#[derive(Debug, Clone)]
pub(crate) struct Adjacency {
    firsts: Vec<u32>,
    arcs: Vec<Arc>,
}

impl Adjacency {
    pub(crate) fn of(&self, switch: u32) -> &[Arc] {
        let [from, to] = [0, 1].map(|next| self.firsts[switch as usize + next] as usize);
        &self.arcs[from..to]
    }
}

/// For every switch its arcs over `links`. In one list: plans of large networks make thousands of these.
pub(crate) fn adjacency(network: &Network, links: &[u32]) -> Adjacency {
    let mut firsts = vec![0_u32; network.switch_count() + 1];
    for switch in links.iter().flat_map(|&link| network.ends(link)) {
        firsts[switch as usize] += 1;
    }
    let mut sum = 0;
    for first in &mut firsts {
        sum += *first;
        *first = sum;
    }
    // Filled from the back, which leaves each switch's first place in `firsts`.
    let mut arcs = vec![NO_ARC; sum as usize];
    for &link in links.iter().rev() {
        let [a, b] = network.ends(link);
        for (from, to) in [(b, a), (a, b)] {
            let place = &mut firsts[from as usize];
            *place -= 1;
            arcs[*place as usize] = Arc { to, link };
        }
    }
    Adjacency { firsts, arcs }
}

/// Switches joined by links so far.
#[derive(Debug)]
pub(crate) struct Parts {
    parents: Vec<u32>,
}

impl Clone for Parts {
    fn clone(&self) -> Parts {
        Parts { parents: self.parents.clone() }
    }

    /// Without allocating: packing tries thousands of copies.
    fn clone_from(&mut self, other: &Parts) {
        self.parents.clone_from(&other.parents);
    }
}

impl Parts {
    pub(crate) fn new(switch_count: usize) -> Parts {
        Parts { parents: (0..switch_count as u32).collect() }
    }

    pub(crate) fn find(&mut self, mut switch: u32) -> u32 {
        while self.parents[switch as usize] != switch {
            let above = self.parents[self.parents[switch as usize] as usize];
            self.parents[switch as usize] = above;
            switch = above;
        }
        switch
    }

    /// Joins two parts; `false` if they were one already: the link closes a cycle.
    pub(crate) fn join(&mut self, [a, b]: [u32; 2]) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.parents[a as usize] = b;
        a != b
    }
}

/// `links` and as many more as it takes to reach every switch that takes part, breadth first from a switch of
/// theirs.
pub(crate) fn completed(network: &Network, links: &[u32]) -> Vec<u32> {
    let mut parts = Parts::new(network.switch_count());
    let mut all = links.to_vec();
    for &link in links {
        parts.join(network.ends(link));
    }
    let start = links.first().map_or_else(|| network.alive().next(), |&link| Some(network.ends(link)[0]));
    let mut seen = vec![false; network.switch_count()];
    let mut queue: VecDeque<u32> = start.into_iter().collect();
    queue.iter().for_each(|&switch| seen[switch as usize] = true);
    while let Some(at) = queue.pop_front() {
        for arc in network.arcs(at) {
            if parts.join([at, arc.to]) {
                all.push(arc.link);
            }
            if !seen[arc.to as usize] {
                seen[arc.to as usize] = true;
                queue.push_back(arc.to);
            }
        }
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests;
    use super::*;

    #[test]
    fn trees_of_links_and_of_parents_are_the_same() {
        for seed in 0..30 {
            let network = networks_for_tests::Parts::random(seed, 9, false).network(&[]);
            let links = completed(&network, &[]);
            assert!(links.windows(2).all(|two| two[0] < two[1]), "{links:?}");
            assert_eq!(links.len() + 1, network.switch_count());
            // Whatever is there stays, in order.
            let more = completed(&network, &links[links.len() / 2..]);
            assert!(more.windows(2).all(|two| two[0] < two[1]), "{more:?}");
            assert!(links[links.len() / 2..].iter().all(|link| more.contains(link)));
            let adjacency = adjacency(&network, &links);
            for root in network.alive() {
                let tree = RootedTree::from_links(&adjacency, root);
                let mut again = RootedTree::from_parents(root, tree.parents.clone());
                again.order.clone_from(&tree.order);
                assert_eq!(again, tree);
                assert_eq!((tree.links(), tree.parents.len()), (links.clone(), network.switch_count()));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the root 0 has no parent")]
    fn parents_in_a_cycle_with_the_root_are_no_tree() {
        let parents = [1, 0].map(|to| Arc { to, link: 0 });
        RootedTree::from_parents(0, parents.to_vec());
    }

    #[test]
    #[should_panic(expected = "must form a tree")]
    fn parents_in_a_cycle_beside_the_root_are_no_tree() {
        let parents = [NONE, 2, 1].map(|to| Arc { to, link: 0 });
        RootedTree::from_parents(0, parents.to_vec());
    }

    #[test]
    fn pruned_trees_have_no_branch_without_hosts() {
        // A row in which the last two have no hosts, and another such at the second.
        let parts =
            networks_for_tests::Parts::of(&[(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)], &[1, 0, 1, 0, 0, 0]);
        let network = parts.network(&[]);
        let tree = RootedTree::from_links(&adjacency(&network, &[0, 1, 2, 3, 4]), 0).pruned(&network);
        assert_eq!((tree.links(), &tree.order[..]), (vec![0, 1], &[0, 1, 2][..]));
        let has_parent: Vec<bool> = tree.parents.iter().map(|arc| arc.to != NONE).collect();
        assert_eq!(has_parent, [false, true, true, false, false, false]);
    }
}
