//! Up*/down* (M. Schroeder et al., Autonet, 1991): number the switches by their distance from a root; a path
//! goes towards lower numbers first, then towards higher ones, and never up again. No channel can then wait
//! in a cycle, on any graph, whichever end opened the connection: a path read backwards is up*/down* again.
//!
//! From one source, every switch that can be reached going up only is reached so; from those the others hang
//! downwards. That is a tree: each switch has one way in, and the switch before it has one way in of the
//! right kind.

use super::super::network::{Arc, NONE, Network};
use super::super::tree::RootedTree;
use super::{Load, Paths};

/// Which switch stands above which.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchy {
    root: u32,
    /// Place of each switch; links lead up towards lower places.
    places: Vec<u32>,
    /// Switches by place.
    order: Vec<u32>,
}

impl Hierarchy {
    pub(crate) fn new(network: &Network, root: u32) -> Hierarchy {
        let distances = network.distances(root);
        let mut order: Vec<u32> = network.alive().collect();
        order.sort_by_key(|&switch| (distances[switch as usize], switch));
        let mut places = vec![NONE; network.switch_count()];
        for (place, &switch) in order.iter().enumerate() {
            places[switch as usize] = place as u32;
        }
        Hierarchy { root, places, order }
    }

    fn is_above(&self, a: u32, b: u32) -> bool {
        self.places[a as usize] < self.places[b as usize]
    }

    /// Whether no path from the tree's root turns up after it has gone down.
    pub(crate) fn allows(&self, tree: &RootedTree) -> bool {
        let mut went_down = vec![false; tree.parents.len()];
        tree.order[1..].iter().all(|&switch| {
            let parent = tree.parents[switch as usize].to;
            let down = self.is_above(parent, switch);
            went_down[switch as usize] = down || went_down[parent as usize];
            down || !went_down[parent as usize]
        })
    }

    /// Links crossed by a flow from every source to every host.
    fn length(&self, network: &Network) -> u64 {
        let mut lengths = Vec::new();
        let mut total = 0;
        for source in network.sources() {
            lengths.clear();
            lengths.resize(network.switch_count(), u32::MAX);
            lengths[source as usize] = 0;
            let start = self.places[source as usize] as usize;
            for &switch in self.order[..start].iter().rev() {
                self.measure(network, switch, &mut lengths, Direction::Up);
            }
            for &switch in &self.order {
                if lengths[switch as usize] == u32::MAX {
                    self.measure(network, switch, &mut lengths, Direction::Down);
                }
            }
            let to_all: u64 = network
                .sources()
                .map(|to| u64::from(lengths[to as usize]) * u64::from(network.weight(to)))
                .sum();
            total += to_all * u64::from(network.weight(source));
        }
        total
    }

    /// The length [`Hierarchy::choose`] gives a switch.
    fn measure(&self, network: &Network, switch: u32, lengths: &mut [u32], direction: Direction) {
        let ways = network.arcs(switch).iter().filter(|arc| {
            lengths[arc.to as usize] != u32::MAX
                && (direction == Direction::Down) == self.is_above(arc.to, switch)
        });
        if let Some(least) = ways.map(|arc| lengths[arc.to as usize]).min() {
            lengths[switch as usize] = least + 1;
        }
    }

    fn tree(&self, network: &Network, source: u32, load: &Load) -> RootedTree {
        let mut parents = vec![Arc { to: NONE, link: NONE }; network.switch_count()];
        let mut lengths = vec![u32::MAX; network.switch_count()];
        lengths[source as usize] = 0;
        let start = self.places[source as usize] as usize;
        let upwards = self.order[..start].iter().rev();
        for &switch in upwards {
            self.choose(network, load, switch, &mut parents, &mut lengths, Direction::Up);
        }
        for &switch in &self.order {
            // A switch that can be reached going up only is reached so: its way in must allow both further up
            // and down.
            if lengths[switch as usize] == u32::MAX {
                self.choose(network, load, switch, &mut parents, &mut lengths, Direction::Down);
            }
        }
        RootedTree::from_parents(source, parents).pruned(network)
    }

    /// The shortest way into `switch`, over the less busy link where there are several.
    fn choose(
        &self,
        network: &Network,
        load: &Load,
        switch: u32,
        parents: &mut [Arc],
        lengths: &mut [u32],
        direction: Direction,
    ) {
        let comes_right = |arc: &&Arc| {
            lengths[arc.to as usize] != u32::MAX
                && (direction == Direction::Down) == self.is_above(arc.to, switch)
        };
        let best = network
            .arcs(switch)
            .iter()
            .filter(comes_right)
            .min_by_key(|arc| (lengths[arc.to as usize], load.of(network, arc.link, arc.to)));
        if let Some(&arc) = best {
            parents[switch as usize] = arc;
            lengths[switch as usize] = lengths[arc.to as usize] + 1;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Roots tried on large networks.
const ROOTS_MAX: usize = 8;
/// Up to this many switches every root is tried.
const SMALL: usize = 32;
/// Steps spent on looking for trees to share: tries for each source times the switches of a tree.
const SHARING_STEPS_MAX: usize = 1 << 23;

/// Up*/down* from the root that gives the shortest paths. With `share`, a source takes over an earlier one's
/// tree where its own would be no shorter.
pub(crate) fn up_down(network: &Network, share: bool) -> Paths {
    let alive: Vec<u32> = network.alive().collect();
    let mut roots = alive.clone();
    if roots.len() > SMALL {
        // A root in the middle makes few paths go round: those with most links.
        roots.sort_by_key(|&switch| (std::cmp::Reverse(network.arcs(switch).len()), switch));
        roots.truncate(ROOTS_MAX);
    }
    // How long paths are does not depend on which of equally short ones is taken.
    let hierarchies = roots.into_iter().map(|root| Hierarchy::new(network, root));
    let best = hierarchies.min_by_key(|hierarchy| hierarchy.length(network));
    let (root, trees) = match best {
        Some(hierarchy) => (hierarchy.root, trees(network, &hierarchy, share)),
        None => (0, Vec::new()),
    };
    Paths {
        method: format!("up*/down* with switch number {root} at the top"),
        settings: vec!["routing = \"up-down\"".into()],
        trees,
    }
}

fn trees(network: &Network, hierarchy: &Hierarchy, share: bool) -> Vec<RootedTree> {
    let mut load = Load::new(network);
    let mut trees: Vec<RootedTree> = Vec::new();
    for source in network.sources() {
        let mut tree = hierarchy.tree(network, source, &load);
        if share && let Some(shared) = shared_tree(network, hierarchy, &trees, &tree) {
            tree = shared;
        }
        load.add(network, &tree);
        trees.push(tree);
    }
    trees
}

fn shared_tree(
    network: &Network,
    hierarchy: &Hierarchy,
    earlier: &[RootedTree],
    own: &RootedTree,
) -> Option<RootedTree> {
    let length = total_length(network, std::slice::from_ref(own));
    let size = network.switch_count();
    let tries = (SHARING_STEPS_MAX / (size * size)).max(1);
    let first = earlier.len().saturating_sub(tries);
    earlier[first..].iter().rev().find_map(|other| {
        let adjacency = super::super::tree::adjacency(network, &other.links());
        let tree = RootedTree::from_links(&adjacency, own.root());
        let is_as_short = total_length(network, std::slice::from_ref(&tree)) <= length;
        (is_as_short && hierarchy.allows(&tree)).then_some(tree)
    })
}

/// Links crossed by a flow from every source to every host.
fn total_length(network: &Network, trees: &[RootedTree]) -> u64 {
    let length = |tree: &RootedTree| -> u64 {
        let depths = tree.depths();
        let hosts = |s: u32| u64::from(network.weight(s));
        tree.order.iter().map(|&s| u64::from(depths[s as usize]) * hosts(s)).sum::<u64>() * hosts(tree.root())
    };
    trees.iter().map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluation::evaluate;
    use super::super::super::networks_for_tests::Parts;
    use super::super::super::solution::by_source;
    use super::super::super::tree::{adjacency, completed};
    use super::*;

    fn networks() -> impl Iterator<Item = Network> {
        (0..40).map(|seed| Parts::random(seed, 9, seed % 2 == 0).network(&[]))
    }

    #[test]
    fn the_length_of_a_hierarchy_is_that_of_its_trees() {
        for network in networks() {
            let mut lengths = Vec::new();
            for root in network.alive() {
                let hierarchy = Hierarchy::new(&network, root);
                let trees = trees(&network, &hierarchy, false);
                assert!(trees.iter().all(|tree| hierarchy.allows(tree)));
                lengths.push(total_length(&network, &trees));
                assert_eq!(Some(&hierarchy.length(&network)), lengths.last(), "{root}");
            }
            // Flows are those of all hosts.
            let best = by_source(&network, up_down(&network, false));
            assert_eq!(Some(&evaluate(&network, &best).hops), lengths.iter().min());
        }
    }

    #[test]
    fn a_tree_is_allowed_where_no_path_turns_up_again() {
        let (mut allowed, mut refused) = (0, 0);
        for network in networks() {
            let links = completed(&network, &[]);
            for (top, root) in network.alive().flat_map(|top| network.alive().map(move |root| (top, root))) {
                let hierarchy = Hierarchy::new(&network, top);
                let tree = RootedTree::from_links(&adjacency(&network, &links), root);
                let turns_up = |&switch: &u32| {
                    let mut way = vec![switch];
                    while *way.last().unwrap() != root {
                        way.push(tree.parents[*way.last().unwrap() as usize].to);
                    }
                    way.reverse();
                    // Down over one link, and up over the next.
                    let is_up: Vec<bool> =
                        way.windows(2).map(|two| hierarchy.is_above(two[1], two[0])).collect();
                    is_up.windows(2).any(|two| !two[0] && two[1])
                };
                let is_allowed = !tree.order.iter().any(turns_up);
                assert_eq!(hierarchy.allows(&tree), is_allowed);
                if is_allowed { allowed += 1 } else { refused += 1 }
            }
        }
        assert!(allowed > 100 && refused > 100, "{allowed} {refused}");
    }

    #[test]
    fn trees_are_shared_where_that_makes_no_path_longer() {
        let mut shared_count = 0;
        for network in networks() {
            let [own, shared] = [false, true].map(|share| up_down(&network, share));
            assert_eq!(own.method, shared.method);
            let length = |paths: &Paths| total_length(&network, &paths.trees);
            assert_eq!(length(&own), length(&shared));
            let [own, shared] = [own, shared].map(|paths| by_source(&network, paths));
            assert!(evaluate(&network, &shared).is_free);
            assert!(shared.trees.len() <= own.trees.len());
            shared_count += own.trees.len() - shared.trees.len();
        }
        assert!(shared_count > 20, "{shared_count}");
    }

    #[test]
    fn on_the_largest_networks_the_last_tree_is_tried() {
        let row: Vec<(u32, u32)> = (0..3000).map(|at| (at, at + 1)).collect();
        let network = Parts::of(&row, &[1; 3001]).network(&[]);
        let links: Vec<u32> = (0..3000).collect();
        let [first, second] = [0, 1].map(|root| RootedTree::from_links(&adjacency(&network, &links), root));
        let hierarchy = Hierarchy::new(&network, 0);
        assert!(shared_tree(&network, &hierarchy, &[first], &second).is_some());
    }

    #[test]
    fn of_links_side_by_side_each_has_its_part() {
        let network = Parts::of(&[(0, 1), (0, 1), (1, 2)], &[1; 3]).network(&[]);
        let flows = evaluate(&network, &by_source(&network, up_down(&network, false))).flows;
        let to_first = [0, 1].map(|link| flows[network.channel(link, 1).index()]);
        assert_eq!(to_first, [1, 1]);
    }

    /// Few roots are better than the one that is taken: one in twenty-five at most, on average.
    #[test]
    fn of_many_switches_one_with_many_links_is_the_root() {
        let (mut better_count, mut root_count) = (0, 0);
        for seed in 0..40 {
            let parts = Parts::random(seed, 60, false);
            let parts = if seed % 2 == 0 { parts } else { parts.backwards() };
            let network = parts.network(&[]);
            if network.switch_count() <= SMALL {
                continue;
            }
            let found = total_length(&network, &up_down(&network, false).trees);
            let length = |root: u32| Hierarchy::new(&network, root).length(&network);
            better_count += network.alive().filter(|&root| length(root) < found).count();
            root_count += network.switch_count();
        }
        println!("{better_count} of {root_count} roots are better");
        assert!(root_count > 500 && better_count * 25 < root_count, "{better_count} of {root_count}");
    }
}
