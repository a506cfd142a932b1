//! After a failure: the plan in use, repaired. VLANs whose tree is whole stay as they are; in each broken one the parts
//! are joined again by other links. Far fewer ports change than with a plan made anew.

use super::choose::Judged;
use super::evaluation::{Evaluation, evaluate};
use super::network::{NONE, Network};
use super::solution::{Choice, Solution};
use super::tree::{Parts, RootedTree, adjacency};

/// Beyond, judging every possible link for every broken tree takes too long; the plan is then made anew.
const SWITCHES_MAX: usize = 64;
/// Rounds of exchanging one joining link for another.
const ROUNDS_MAX: usize = 4;

/// `whole` on what is left of its network, or `None` where it cannot be repaired (hosts that tag, large networks).
pub(crate) fn repaired(network: &Network, whole: &Solution) -> Option<Judged> {
    let Choice::BySource(vlans) = &whole.choice else { return None };
    if network.switch_count() > SWITCHES_MAX {
        return None;
    }
    let links = links_left(network);
    let mut solution = whole.clone();
    // Whoever lost all hosts or the network sends nothing any more.
    let is_source = |switch: usize| network.weight(switch as u32) > 0;
    let left = vlans.iter().enumerate().map(|(switch, &vlan)| if is_source(switch) { vlan } else { NONE });
    solution.choice = Choice::BySource(left.collect());
    solution.method = format!("{}, repaired", whole.method);
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

fn links_left(network: &Network) -> Vec<u32> {
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
        let best = joining.collect::<Vec<_>>().into_iter().min_by_key(|&link| {
            let mut longer = tree.clone();
            longer.push(link);
            unreached_and_length(network, &longer)
        })?;
        tree.push(best);
        tree.sort_unstable();
        added.push(best);
    }
}

/// Pairs of sources that a forest leaves apart, and the length of the paths between the others.
fn unreached_and_length(network: &Network, links: &[u32]) -> (usize, u64) {
    let adjacency = adjacency(network, links);
    let source_count = network.sources().count();
    let (mut apart, mut length) = (0, 0);
    for source in network.sources() {
        let tree = RootedTree::from_links(&adjacency, source);
        let depths = tree.depths();
        let reached: Vec<u64> = network
            .sources()
            .filter(|&to| tree.contains(to))
            .map(|to| u64::from(depths[to as usize]))
            .collect();
        apart += source_count - reached.len();
        length += reached.iter().sum::<u64>();
    }
    (apart, length)
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
fn exchanged(network: &Network, links: &[u32], mut best: Judged, mut joints: Vec<(usize, u32)>) -> Judged {
    let worth = |e: &Evaluation| (!e.is_free(), e.pressure(network), e.hops);
    for _ in 0..ROUNDS_MAX {
        let mut improved = false;
        for (vlan, joint) in &mut joints {
            for &other in links {
                let mut solution = best.solution.clone();
                let tree = &mut solution.trees[*vlan];
                if tree.binary_search(&other).is_ok() || tree.binary_search(joint).is_err() {
                    continue;
                }
                tree.retain(|link| link != joint);
                tree.push(other);
                tree.sort_unstable();
                let mut parts = Parts::new(network.switch_count());
                let has_no_cycle = tree.iter().all(|&link| parts.join(network.ends(link)));
                if !has_no_cycle || unreached_and_length(network, tree).0 > 0 {
                    continue;
                }
                let evaluation = evaluate(network, &solution);
                if worth(&evaluation) < worth(&best.evaluation) {
                    best = Judged { solution, evaluation };
                    *joint = other;
                    improved = true;
                }
            }
        }
        if !improved {
            break;
        }
    }
    best
}
