//! After a failure that joining broken VLANs does not mend: routes made anew on the VLANs in use.
//!
//! Hosts' scripts know the identifiers of VLANs and no routes. So as long as no more VLANs are needed than
//! there are, whatever routes they have, only switches change.

use crate::description::{Grouping, Machine, Routing};

use super::choose::Judged;
use super::evaluation::evaluate;
use super::network::Network;
use super::planner::chosen_within;
use super::solution::{Choice, Senders, Solution};

/// Alternatives if the routes that `[plan]` asks for need more VLANs: the last one needs one VLAN.
const SMALLER: [(Routing, Grouping); 3] = [
    (Routing::Auto, Grouping::Balanced),
    (Routing::UpDown, Grouping::Fewest),
    (Routing::SpanningTree, Grouping::Balanced),
];

/// Routes on no more VLANs than those of `in_use`, which get the numbers of those that they resemble most:
/// `anew` if it has as few, else the least busy of what does. `None` where none is safe.
pub(super) fn renewed(
    machine: &Machine,
    network: &Network,
    in_use: &Solution,
    anew: &Judged,
) -> Option<Judged> {
    let count = in_use.trees.len();
    let is_usable = |judged: &Judged| {
        let is_safe = judged.evaluation.is_free || !machine.options.pause;
        let fits = judged.solution.trees.len() <= count;
        is_safe && fits && matches!(judged.solution.choice, Choice::BySource(_))
    };
    let smaller = || {
        let all = SMALLER.into_iter().map(|(routing, grouping)| {
            let mut options = machine.options.clone();
            (options.routing, options.grouping) = (routing, grouping);
            chosen_within(machine, &options, network, count).best
        });
        all.filter(is_usable).min_by_key(|judged| judged.evaluation.pressure(network))
    };
    let best = if is_usable(anew) { anew.clone() } else { smaller()? };
    let solution = numbered_as(in_use, best.solution)?;
    let evaluation = evaluate(network, &solution);
    Some(Judged { solution, evaluation })
}

/// The same routes on VLANs numbered as those in use that have most links and hosts in common. A VLAN in use
/// that is left over has no sender, and the tree of another.
fn numbered_as(in_use: &Solution, anew: Solution) -> Option<Solution> {
    let (Choice::BySource(before), Choice::BySource(after)) = (&in_use.choice, &anew.choice) else {
        return None;
    };
    let mut pairs = Vec::new();
    for (old, old_tree) in in_use.trees.iter().enumerate() {
        for (new, new_tree) in anew.trees.iter().enumerate() {
            let links = new_tree.iter().filter(|link| old_tree.binary_search(link).is_ok()).count();
            let hosts = hosts_in_common(before, old, after, new);
            pairs.push((std::cmp::Reverse(links + hosts), old, new));
        }
    }
    pairs.sort_unstable();
    let mut old_of = vec![None; anew.trees.len()];
    let mut trees = vec![anew.trees.first()?.clone(); in_use.trees.len()];
    let mut is_taken = vec![false; in_use.trees.len()];
    for (_, old, new) in pairs {
        if !is_taken[old] && old_of[new].is_none() {
            (is_taken[old], old_of[new]) = (true, Some(old as u32));
            trees[old].clone_from(&anew.trees[new]);
        }
    }
    let renumbered = |own: &Vec<Senders>| -> Option<Vec<Senders>> {
        let own = own.iter().map(|own| Some(Senders { vlan: old_of[own.vlan as usize]?, ..*own }));
        own.collect()
    };
    let choice = Choice::BySource(after.iter().map(renumbered).collect::<Option<_>>()?);
    Some(Solution { trees, choice, ..anew })
}

fn hosts_in_common(before: &[Vec<Senders>], old: usize, after: &[Vec<Senders>], new: usize) -> usize {
    let hosts = |all: &[Senders], vlan: usize| -> usize {
        all.iter().filter(|own| own.vlan as usize == vlan).map(|own| own.hosts as usize).sum()
    };
    before.iter().zip(after).map(|(before, after)| hosts(before, old).min(hosts(after, new))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests::described;
    use super::super::planner::chosen;
    use super::*;

    fn solution(trees: &[&[u32]], senders: &[&[(u32, u32)]]) -> Solution {
        let own = |own: &&[(u32, u32)]| own.iter().map(|&(vlan, hosts)| Senders { vlan, hosts }).collect();
        Solution {
            method: String::new(),
            settings: Vec::new(),
            is_repaired: false,
            trees: trees.iter().map(|tree| tree.to_vec()).collect(),
            choice: Choice::BySource(senders.iter().map(own).collect()),
            vlan_count_min: 1,
        }
    }

    fn numbers(solution: &Solution) -> Vec<Vec<(u32, u32)>> {
        let Choice::BySource(senders) = &solution.choice else { panic!("by pairs") };
        senders.iter().map(|own| own.iter().map(|own| (own.vlan, own.hosts)).collect()).collect()
    }

    #[test]
    fn new_trees_get_the_numbers_of_those_they_resemble() {
        let in_use = solution(&[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8]], &[&[(0, 2)], &[(1, 2)], &[(2, 2)]]);
        // The last of those in use changed by a link, then the first as it was.
        let anew = solution(&[&[6, 7, 9], &[0, 1, 2]], &[&[(1, 2)], &[(0, 2)], &[(0, 1), (1, 1)]]);
        let numbered = numbered_as(&in_use, anew).unwrap();
        assert_eq!(numbered.trees[0], [0, 1, 2]);
        assert_eq!(numbered.trees[2], [6, 7, 9]);
        // The one left over has no sender, and some tree.
        assert!(numbered.trees[1] == numbered.trees[0] || numbered.trees[1] == numbered.trees[2]);
        assert_eq!(numbers(&numbered), [vec![(0, 2)], vec![(2, 2)], vec![(2, 1), (0, 1)]]);
    }

    #[test]
    fn of_trees_alike_the_hosts_decide_the_number() {
        let in_use = solution(&[&[0, 1], &[2, 3]], &[&[(0, 5)], &[(1, 5)]]);
        let anew = solution(&[&[4, 5], &[6, 7]], &[&[(1, 5)], &[(0, 5)]]);
        let numbered = numbered_as(&in_use, anew).unwrap();
        assert_eq!(numbered.trees, [vec![6, 7], vec![4, 5]]);
        assert_eq!(numbers(&numbered), [vec![(0, 5)], vec![(1, 5)]]);
    }

    #[test]
    fn hosts_in_common_are_those_on_both_vlans() {
        let of = |vlans: &[(u32, u32)]| -> Vec<Senders> {
            vlans.iter().map(|&(vlan, hosts)| Senders { vlan, hosts }).collect()
        };
        let (before, after) =
            ([of(&[(0, 2), (1, 1)]), of(&[(0, 3), (2, 1)])], [of(&[(0, 4)]), of(&[(1, 1)])]);
        let in_common = |old, new| hosts_in_common(&before, old, &after, new);
        assert_eq!([in_common(0, 0), in_common(1, 0), in_common(2, 0)], [2, 1, 0]);
        assert_eq!([in_common(0, 1), in_common(1, 1), in_common(2, 1)], [1, 0, 1]);
    }

    fn machine(topology: &str, options: &str) -> Machine {
        described(topology, "", options)
    }

    #[test]
    fn other_routes_are_taken_where_those_asked_for_need_more_vlans() {
        let machine = machine("kind = \"complete\"\nswitches = 4", "routing = \"minimal\"");
        let network = Network::of(&machine, &[]);
        let anew = chosen(&machine, &network, true).best;
        assert_eq!(anew.solution.trees.len(), 4);
        for count in 1..=4 {
            let in_use = solution(&vec![&[0, 1, 2][..]; count], &[&[(0, 2)][..]; 4]);
            let best = renewed(&machine, &network, &in_use, &anew).unwrap();
            assert_eq!(best.solution.trees.len(), count);
            assert!(best.evaluation.is_free && best.evaluation.routed_flows == 4 * 3 * 4, "{count}");
        }
    }

    #[test]
    fn routes_that_can_deadlock_are_taken_only_without_pause() {
        for (options, is_taken) in [("pause = false", true), ("pause = true", false)] {
            let options = format!("routing = \"dimension-order\"\n{options}");
            let machine = machine("kind = \"ring\"\nswitches = 6", &options);
            let network = Network::of(&machine, &[]);
            let anew = chosen(&machine, &network, true).best;
            assert!(!anew.evaluation.is_free);
            let in_use = solution(&[&[0, 1, 2, 3, 4][..]; 6], &[&[(0, 2)][..]; 6]);
            let best = renewed(&machine, &network, &in_use, &anew).unwrap();
            assert_eq!(!best.evaluation.is_free, is_taken, "{options}");
        }
    }
}
