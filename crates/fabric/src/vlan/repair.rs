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
    // Trees may be the same now.
    (solution.is_repaired, solution.vlan_count_min) = (true, 1);
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
    (0..network.link_count() as u32).filter(|&link| network.is_up(link)).collect()
}

/// Adds the links that join a tree's parts at least length, one after the other, and answers which.
fn join(network: &Network, tree: &mut Vec<u32>, links: &[u32]) -> Option<Vec<u32>> {
    let mut added = Vec::new();
    loop {
        let mut parts = Parts::new(network.switch_count());
        tree.iter().for_each(|&link| {
            parts.join(network.ends(link));
        });
        let homes: Vec<u32> = network.sources().map(|source| parts.find(source)).collect();
        if homes.windows(2).all(|two| two[0] == two[1]) {
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
    use super::super::network::Failure;
    use super::super::networks_for_tests;
    use super::super::paths::minimal::{Spread, balanced};
    use super::super::paths::up_down::up_down;
    use super::super::solution::{Senders, by_source};
    use super::*;
    use crate::description::Machine;
    use crate::graph::{LinkId, SwitchId};

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

    /// Free of deadlock, then not busy, then short.
    fn worth(network: &Network, solution: &Solution) -> (bool, u128, u64) {
        let evaluation = evaluate(network, solution);
        (!evaluation.is_free, evaluation.pressure(network), evaluation.hops)
    }

    /// Whether links join all switches with hosts, and no others from which there is no way to those.
    fn is_one_tree(network: &Network, links: &[u32]) -> bool {
        let root = network.sources().next().unwrap();
        let tree = RootedTree::from_links(&adjacency(network, links), root);
        let is_ascending = links.windows(2).all(|two| two[0] < two[1]);
        is_ascending && tree.links() == links && network.sources().all(|source| tree.order.contains(&source))
    }

    #[test]
    fn no_other_joint_would_make_a_repair_better() {
        let (mut changed_count, mut joint_count, mut lock_count) = (0, 0, 0);
        for seed in 0..60 {
            let parts = networks_for_tests::Parts::random(seed, 8, seed % 3 == 0);
            let whole = parts.network(&[]);
            let paths = if seed % 2 == 0 { up_down(&whole, false) } else { balanced(&whole, Spread::ByLoad) };
            let before = by_source(&whole, paths);
            let mut failures: Vec<Failure> =
                (0..whole.link_count() as u32).map(|link| Failure::Link(LinkId(link))).collect();
            failures.extend(whole.alive().map(|switch| Failure::Switch(SwitchId(switch))));
            for failure in failures {
                let about = format!("seed {seed} without {failure:?}");
                let network = parts.network(&[failure]);
                if network.sources().next().is_none() {
                    continue;
                }
                let after = repaired(&network, &before).expect(&about);
                let Choice::BySource(senders) = &after.solution.choice else { panic!("by pairs") };
                let is_left = |switch: usize| network.weight(switch as u32) > 0;
                assert!((0..senders.len()).all(|at| is_left(at) != senders[at].is_empty()), "{about}");
                let now = worth(&network, &after.solution);
                assert_eq!(now.1, after.evaluation.pressure(&network), "{about}");
                let links = links_left(&network);
                let mut joined = after.solution.clone();
                for (vlan, (old, new)) in before.trees.iter().zip(&after.solution.trees).enumerate() {
                    assert!(is_one_tree(&network, new), "{about}: {new:?}");
                    let is_whole = is_one_tree(&network, old) && old.iter().all(|link| links.contains(link));
                    assert!(!is_whole || old == new, "{about}: {old:?} {new:?}");
                    for joint in new.iter().copied().filter(|link| !old.contains(link)) {
                        joint_count += 1;
                        for other in links.iter().copied().filter(|link| !new.contains(link)) {
                            let mut other_tree: Vec<u32> =
                                new.iter().copied().filter(|&link| link != joint).chain([other]).collect();
                            other_tree.sort_unstable();
                            let mut parts = Parts::new(network.switch_count());
                            let mut all = other_tree.iter();
                            if !all.all(|&link| parts.join(network.ends(link)))
                                || !is_one_tree(&network, &other_tree)
                            {
                                continue;
                            }
                            let mut one = after.solution.clone();
                            one.trees[vlan] = other_tree;
                            assert!(worth(&network, &one) >= now, "{about}: {other} for {joint}");
                        }
                    }
                    let mut tree: Vec<u32> =
                        old.iter().copied().filter(|link| links.contains(link)).collect();
                    join(&network, &mut tree, &links).unwrap();
                    drop_stranded(&network, &mut tree);
                    joined.trees[vlan] = tree;
                }
                let first = worth(&network, &joined);
                assert!(now <= first, "{about}");
                changed_count += u32::from(now < first);
                lock_count += u32::from(first.0 && !now.0);
            }
        }
        println!("{joint_count} joints, {changed_count} repairs are better for exchanges, {lock_count} safe");
        assert!(joint_count > 300 && changed_count > 30 && lock_count > 0);
    }

    /// Hosts have gone from two switches of a ring, and the link that led there has failed.
    #[test]
    fn links_between_switches_that_need_no_more_are_given_up() {
        let parts = networks_for_tests::Parts::of(&[(0, 1), (1, 2), (2, 3), (0, 3)], &[1, 1, 0, 0]);
        let whole = Solution {
            method: String::new(),
            settings: Vec::new(),
            is_repaired: false,
            trees: vec![vec![0, 1, 2]],
            choice: Choice::BySource(vec![
                vec![Senders { vlan: 0, hosts: 1 }],
                vec![Senders { vlan: 0, hosts: 1 }],
                vec![],
                vec![],
            ]),
            vlan_count_min: 1,
        };
        let after = repaired(&parts.network(&[Failure::Link(LinkId(1))]), &whole).unwrap();
        assert_eq!(after.solution.trees, [vec![0]]);
    }

    #[test]
    fn links_that_may_take_the_place_of_one_join_what_it_joins() {
        let mut count = 0;
        for seed in 0..40 {
            let network = networks_for_tests::Parts::random(seed, 8, false).network(&[]);
            let tree = balanced(&network, Spread::ByLoad).trees[0].links();
            let links = links_left(&network);
            for &joint in &tree {
                let may = |&other: &u32| exchange(&network, &tree, joint, other).is_some();
                let wanted: Vec<u32> = links.iter().copied().filter(may).collect();
                count += wanted.len();
                assert_eq!(exchanges(&network, &tree, joint, &links), wanted, "{seed}: {joint}");
            }
        }
        assert!(count > 200, "{count}");
        // Beside it, between the same two.
        let twins = networks_for_tests::Parts::of(&[(0, 1), (0, 1), (1, 2)], &[1; 3]).network(&[]);
        assert_eq!(exchanges(&twins, &[0, 2], 0, &[0, 1, 2]), [1]);
    }

    /// The least length of all ways between the parts of a tree that some link may join.
    #[test]
    fn parts_are_joined_where_ways_between_them_are_shortest() {
        let mut count = 0;
        for seed in 0..80 {
            let network = networks_for_tests::Parts::random(seed, 9, seed % 2 == 0).network(&[]);
            let links = links_left(&network);
            let root = network.sources().next().unwrap();
            let whole = balanced(&network, Spread::ByLoad).trees[0].links();
            for missing in 0..whole.len() {
                let mut tree = whole.clone();
                tree.remove(missing);
                let others = exchanges(&network, &whole, whole[missing], &links);
                let length = |other: u32| -> u64 {
                    let all: Vec<u32> = tree.iter().copied().chain([other]).collect();
                    let adjacency = adjacency(&network, &all);
                    let of = |source: u32| -> u64 {
                        let tree = RootedTree::from_links(&adjacency, source);
                        let depths = tree.depths();
                        network.sources().map(|to| u64::from(depths[to as usize])).sum()
                    };
                    network.sources().map(of).sum()
                };
                let is_tree = |other: &u32| {
                    let joined: Vec<u32> = tree.iter().copied().chain([*other]).collect();
                    let tree = RootedTree::from_links(&adjacency(&network, &joined), root);
                    network.sources().all(|source| tree.order.contains(&source))
                };
                let all: Vec<u32> = others.into_iter().chain([whole[missing]]).filter(is_tree).collect();
                let mut joined = tree.clone();
                let added = join(&network, &mut joined, &links).unwrap();
                if let [added] = added[..] {
                    let least = all.iter().map(|&other| length(other)).min().unwrap();
                    assert_eq!(length(added), least, "seed {seed}: {added} of {all:?}");
                    count += usize::from(all.len() > 1);
                }
            }
        }
        assert!(count > 60, "{count}");
    }

    #[test]
    fn up_to_sixty_four_switches_are_repaired() {
        for (switch_count, is_repaired) in [(64, true), (65, false)] {
            let network = network(&format!("kind = \"ring\"\nswitches = {switch_count}"));
            let trees = vec![(0..switch_count - 1).collect()];
            let own = |_| vec![Senders { vlan: 0, hosts: 1 }];
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
