//! After a failure: the plan in use, repaired. VLANs whose tree is whole stay as they are; in each broken one
//! the parts are joined again by other links. Far fewer ports change than with a plan made anew.

use super::choose::Judged;
use super::evaluation::{evaluate, pressure, users};
use super::network::Network;
use super::share::{Share, are_free, loads, share, waits};
use super::solution::{Choice, Solution};
use super::tree::{Adjacency, Parts, RootedTree, adjacency};

/// Beyond, judging every possible link for every broken tree takes too long; the plan is then made anew.
const SWITCHES_MAX: usize = 64;
/// Rounds of exchanging one joining link for another.
const ROUNDS_MAX: usize = 4;

/// `whole` on what is left of its network, or `None` where it cannot be repaired (hosts that tag, large
/// networks).
pub(crate) fn repaired(network: &Network, whole: &Solution) -> Option<Judged> {
    let Choice::BySource(senders) = &whole.choice else { return None };
    if network.switch_count() > SWITCHES_MAX {
        return None;
    }
    let links = links_left(network);
    let mut solution = whole.clone();
    // A switch that lost all hosts or the network sends nothing any more.
    let is_source = |switch: usize| network.weight(switch as u32) > 0;
    let left = senders.iter().enumerate();
    let left = left.map(|(switch, own)| if is_source(switch) { own.clone() } else { Vec::new() });
    solution.choice = Choice::BySource(left.collect());
    solution.is_repaired = true;
    let mut joints: Vec<(usize, u32)> = Vec::new();
    for (vlan, tree) in solution.trees.iter_mut().enumerate() {
        tree.retain(|link| links.binary_search(link).is_ok());
        for link in join(network, tree, &links)? {
            joints.push((vlan, link));
        }
        drop_stranded(network, tree);
    }
    let evaluation = evaluate(network, &solution);
    Some(exchanged(network, &links, Judged { solution, evaluation }, joints))
}

/// All links between what is left, ascending.
pub(super) fn links_left(network: &Network) -> Vec<u32> {
    let mut links: Vec<u32> =
        network.alive().flat_map(|switch| network.arcs(switch)).map(|arc| arc.link).collect();
    links.sort_unstable();
    links.dedup();
    links
}

/// Adds the links that join a tree's parts at least length, one after the other, and answers which.
fn join(network: &Network, tree: &mut Vec<u32>, links: &[u32]) -> Option<Vec<u32>> {
    let mut added = Vec::new();
    loop {
        let mut parts = Parts::new(network.switch_count());
        tree.iter().for_each(|&link| {
            parts.join(network.ends(link));
        });
        let mut homes: Vec<u32> = network.sources().map(|source| parts.find(source)).collect();
        homes.sort_unstable();
        homes.dedup();
        if homes.len() <= 1 {
            return Some(added);
        }
        let joining = links.iter().copied().filter(|&link| {
            let [a, b] = network.ends(link).map(|end| parts.find(end));
            a != b
        });
        let adjacency = adjacency(network, tree);
        let best = joining.collect::<Vec<_>>().into_iter().min_by_key(|&link| {
            let [a, b] = network.ends(link).map(|end| Side::of(network, &adjacency, end));
            // The pairs it joins, ordered both ways, and what paths between them are long.
            let pairs = 2 * a.source_count * b.source_count;
            let length = 2 * (a.source_count * b.length + b.source_count * a.length) + pairs;
            (std::cmp::Reverse(pairs), length)
        })?;
        tree.push(best);
        tree.sort_unstable();
        added.push(best);
    }
}

/// What a link joins at one of its ends.
struct Side {
    source_count: u64,
    /// From the end to all sources there, links.
    length: u64,
}

impl Side {
    fn of(network: &Network, adjacency: &Adjacency, end: u32) -> Side {
        let tree = RootedTree::from_links(adjacency, end);
        let depths = tree.depths();
        let sources = tree.order.iter().filter(|&&switch| network.weight(switch) > 0);
        let (mut source_count, mut length) = (0, 0);
        for &switch in sources {
            source_count += 1;
            length += u64::from(depths[switch as usize]);
        }
        Side { source_count, length }
    }
}

/// Takes away links of parts without hosts: they would be trees of their own.
fn drop_stranded(network: &Network, tree: &mut Vec<u32>) {
    let Some(source) = network.sources().next() else { return };
    let mut parts = Parts::new(network.switch_count());
    tree.iter().for_each(|&link| {
        parts.join(network.ends(link));
    });
    let home = parts.find(source);
    tree.retain(|&link| parts.find(network.ends(link)[0]) == home);
}

/// Tries other joining links in the place of those chosen, as long as that helps.
fn exchanged(network: &Network, links: &[u32], best: Judged, mut joints: Vec<(usize, u32)>) -> Judged {
    let mut solution = best.solution;
    let users = users(network, &solution);
    let vlans = solution.trees.iter().zip(&users);
    let mut shares: Vec<Share> = vlans.map(|(links, users)| share(network, links, users)).collect();
    let mut flows = best.evaluation.flows;
    let mut worth = (!best.evaluation.is_free, pressure(network, &flows), best.evaluation.hops);
    for _ in 0..ROUNDS_MAX {
        let mut improved = false;
        for (vlan, joint) in &mut joints {
            for other in exchanges(network, &solution.trees[*vlan], *joint, links) {
                let Some(tree) = exchange(network, &solution.trees[*vlan], *joint, other) else { continue };
                let new = loads(network, &tree, &users[*vlan]);
                let old = &shares[*vlan].loads;
                let new_flows: Vec<u64> =
                    (0..flows.len()).map(|at| flows[at] - old.flows[at] + new.flows[at]).collect();
                let busy = (pressure(network, &new_flows), worth.2 - old.hops + new.hops);
                // Whether it can deadlock takes longest: only where that decides.
                if !worth.0 && busy >= (worth.1, worth.2) {
                    continue;
                }
                let new_waits = waits(network, &tree, &users[*vlan]);
                let others = (0..shares.len()).filter(|at| at != vlan).map(|at| &shares[at].waits);
                let can_lock = !are_free(network, others.chain([&new_waits]));
                if (can_lock, busy.0, busy.1) < worth {
                    worth = (can_lock, busy.0, busy.1);
                    flows = new_flows;
                    shares[*vlan] = Share { loads: new, waits: new_waits };
                    solution.trees[*vlan] = tree;
                    *joint = other;
                    improved = true;
                }
            }
        }
        if !improved {
            break;
        }
    }
    let evaluation = evaluate(network, &solution);
    Judged { solution, evaluation }
}

/// The links that can take the place of one of a tree's: they join what it joins.
pub(super) fn exchanges(network: &Network, tree: &[u32], joint: u32, links: &[u32]) -> Vec<u32> {
    let mut parts = Parts::new(network.switch_count());
    for &link in tree.iter().filter(|&&link| link != joint) {
        parts.join(network.ends(link));
    }
    let mut joins = |&link: &u32| {
        let [a, b] = network.ends(link).map(|end| parts.find(end));
        a != b && link != joint
    };
    links.iter().copied().filter(|link| joins(link)).collect()
}

/// A tree with one link in the place of another, if that is a tree that joins all sources.
pub(super) fn exchange(network: &Network, tree: &[u32], joint: u32, other: u32) -> Option<Vec<u32>> {
    if tree.binary_search(&other).is_ok() || tree.binary_search(&joint).is_err() {
        return None;
    }
    let mut parts = Parts::new(network.switch_count());
    let mut exchanged: Vec<u32> = tree.iter().copied().filter(|&link| link != joint).collect();
    exchanged.push(other);
    if !exchanged.iter().all(|&link| parts.join(network.ends(link))) {
        return None;
    }
    let home = parts.find(network.sources().next()?);
    if network.sources().any(|source| parts.find(source) != home) {
        return None;
    }
    exchanged.sort_unstable();
    Some(exchanged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Machine;

    fn network(topology: &str) -> Network {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 1\n"
        );
        Network::of(&Machine::parse("m.toml", &text).unwrap(), &[])
    }

    #[test]
    fn a_link_takes_the_place_of_another_only_in_a_tree() {
        // Links 0 to 3 round a ring, and 4 and 5 across.
        let network = network("kind = \"complete\"\nswitches = 4");
        let ends = |link: u32| network.ends(link);
        let link = |a: u32, b: u32| (0..6).find(|&link| ends(link) == [a, b]).unwrap();
        let mut tree = vec![link(0, 1), link(1, 2), link(2, 3)];
        tree.sort_unstable();
        let mut wanted = vec![link(0, 1), link(2, 3), link(0, 2)];
        wanted.sort_unstable();
        assert_eq!(exchange(&network, &tree, link(1, 2), link(0, 2)), Some(wanted));
        // Closes a cycle, and so leaves out a switch.
        assert_eq!(exchange(&network, &tree, link(2, 3), link(0, 2)), None);
        assert_eq!(exchange(&network, &tree, link(0, 1), link(0, 1)), None, "it is there");
        assert_eq!(exchange(&network, &tree, link(0, 3), link(0, 2)), None, "it is not there");
        // Without a cycle, but a switch is left out still.
        let part = vec![link(0, 1)];
        assert_eq!(exchange(&network, &part, link(0, 1), link(2, 3)), None);
    }

    /// Where a switch has no hosts, a tree without it joins all sources still.
    #[test]
    fn a_link_that_closes_a_cycle_takes_no_place() {
        let link = crate::graph::LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let switches = ["a", "b", "c", "d"].map(String::from).to_vec();
        let links = vec![(0, 1, 1), (1, 2, 1), (0, 2, 1), (2, 3, 1)];
        let topology = crate::topology::Topology::Explicit(crate::topology::Explicit { switches, links });
        let graph = topology.build(link).unwrap();
        let network = Network::new(&graph, 4, vec![1, 1, 1, 0], &[]);
        assert_eq!(exchange(&network, &[0, 1, 3], 3, 2), None);
        assert_eq!(exchange(&network, &[0, 1, 3], 1, 2), Some(vec![0, 2, 3]));
    }

    #[test]
    fn up_to_sixty_four_switches_are_repaired() {
        for (switch_count, is_repaired) in [(64, true), (65, false)] {
            let network = network(&format!("kind = \"ring\"\nswitches = {switch_count}"));
            let trees = vec![(0..switch_count - 1).collect()];
            let own = |_| vec![super::super::solution::Senders { vlan: 0, hosts: 1 }];
            let whole = Solution {
                method: String::new(),
                settings: Vec::new(),
                is_repaired: false,
                trees,
                choice: Choice::BySource((0..switch_count).map(own).collect()),
                vlan_count_min: 1,
            };
            assert_eq!(repaired(&network, &whole).is_some(), is_repaired, "{switch_count}");
        }
    }
}
