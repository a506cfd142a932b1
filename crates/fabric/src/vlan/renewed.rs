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
        let trees = judged.solution.trees.len();
        is_safe && (1..=count).contains(&trees) && matches!(judged.solution.choice, Choice::BySource(_))
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
