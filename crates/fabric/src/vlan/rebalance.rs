//! A repaired plan made less busy, by as few changes as that takes.
//!
//! Step by step, the busiest channel is relieved by one change: a VLAN that uses it gets another link in the
//! place of one of its own, or hosts of one switch send on another VLAN. Where VLANs may be added, hosts of
//! one switch get one of their own, which differs from theirs in one link. A step is taken only if it leaves
//! fewer channels as busy as the busiest and no channels that can wait for each other in a cycle, so all
//! else stays where it is.

use super::choose::Judged;
use super::evaluation::{User, evaluate, users};
use super::network::Network;
use super::repair::{exchange, exchanges, links_left};
use super::share::{Ceiling, Loads, Share, are_free, loads, share, waits};
use super::solution::{Choice, Senders, Solution};

/// Switches of trees and dependencies looked at, over all steps: less than a second.
const WORK_MAX: u64 = 20_000_000;

/// What a search may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// VLANs, at most.
    pub(crate) vlans_max: usize,
    /// Whether channels may wait for each other in a cycle: nothing pauses.
    pub(crate) allows_cycles: bool,
}

/// `start`, changed until `is_enough` of the flows on all channels, or no single change helps.
pub(crate) fn rebalanced(
    network: &Network,
    start: Judged,
    room: Room,
    is_enough: impl Fn(&[u64]) -> bool,
) -> Judged {
    let is_usable = start.evaluation.is_free || room.allows_cycles;
    if !is_usable || !matches!(start.solution.choice, Choice::BySource(_)) {
        return start;
    }
    let mut search = Search::new(network, &start.solution, room);
    while !is_enough(&search.flows) && search.step() {}
    let solution = search.solution(start.solution);
    let evaluation = evaluate(network, &solution);
    Judged { solution, evaluation }
}

/// A VLAN, its senders, and its load on the network.
#[derive(Debug, Clone)]
struct Vlan {
    tree: Vec<u32>,
    users: Vec<User>,
    share: Share,
}

/// What a VLAN may become.
struct Candidate {
    tree: Vec<u32>,
    users: Vec<User>,
    loads: Loads,
}

struct Search<'a> {
    network: &'a Network,
    room: Room,
    links: Vec<u32>,
    vlans: Vec<Vlan>,
    flows: Vec<u64>,
    /// Ceiling of `flows` when the step began.
    ceiling: Ceiling,
    work: u64,
}

/// New versions of some VLANs: those with an existing number are replaced, one with the next number is added.
type Change = Vec<(usize, Candidate)>;

impl<'a> Search<'a> {
    fn new(network: &'a Network, solution: &Solution, room: Room) -> Search<'a> {
        let users = users(network, solution);
        let pairs = solution.trees.iter().cloned().zip(users);
        let vlans: Vec<Vlan> =
            pairs.map(|(tree, users)| Vlan { share: share(network, &tree, &users), tree, users }).collect();
        let mut flows = vec![0; 2 * network.link_count()];
        for vlan in &vlans {
            flows.iter_mut().zip(&vlan.share.loads.flows).for_each(|(all, own)| *all += own);
        }
        let ceiling = Ceiling::of(network, &flows);
        Search { network, room, links: links_left(network), vlans, flows, ceiling, work: 0 }
    }

    /// Takes the first change that helps. Whether there was one.
    fn step(&mut self) -> bool {
        self.ceiling = Ceiling::of(self.network, &self.flows);
        let busiest = self.ceiling.first;
        let flows_on_it = |vlan: usize| self.vlans[vlan].share.loads.flows[busiest];
        let on_it: Vec<usize> = (0..self.vlans.len()).filter(|&vlan| flows_on_it(vlan) > 0).collect();
        on_it.iter().any(|&vlan| self.relink(vlan, busiest as u32 / 2))
            || on_it.iter().any(|&vlan| self.move_hosts(vlan))
            || on_it.iter().any(|&vlan| self.split(vlan, busiest as u32 / 2))
    }

    /// Another link in the place of one of the VLAN's: the busiest first, then any.
    fn relink(&mut self, vlan: usize, busiest: u32) -> bool {
        let own = self.vlans[vlan].tree.clone();
        let others = own.iter().copied().filter(|&link| link != busiest);
        let given_up: Vec<u32> = std::iter::once(busiest).chain(others).collect();
        for link in given_up {
            for other in exchanges(self.network, &own, link, &self.links) {
                let Some(tree) = exchange(self.network, &own, link, other) else { continue };
                let users = self.vlans[vlan].users.clone();
                let changed = self.vlan(tree, users);
                if self.take(vec![(vlan, changed)]) {
                    return true;
                }
                if self.work > WORK_MAX {
                    return false;
                }
            }
        }
        false
    }

    /// Hosts of one switch from this VLAN to another one: all of them, or half.
    fn move_hosts(&mut self, vlan: usize) -> bool {
        for (user, hosts) in self.portions(vlan) {
            for other in (0..self.vlans.len()).filter(|&other| other != vlan) {
                let users = plus(&self.vlans[other].users, user, hosts);
                let joined = self.vlan(self.vlans[other].tree.clone(), users);
                let users = minus(&self.vlans[vlan].users, user, hosts);
                let left = self.vlan(self.vlans[vlan].tree.clone(), users);
                if self.take(vec![(vlan, left), (other, joined)]) {
                    return true;
                }
                if self.work > WORK_MAX {
                    return false;
                }
            }
        }
        false
    }

    /// Hosts of one switch get a VLAN of their own, with another link in the place of the busiest.
    fn split(&mut self, vlan: usize, busiest: u32) -> bool {
        if self.vlans.len() >= self.room.vlans_max {
            return false;
        }
        let others = exchanges(self.network, &self.vlans[vlan].tree, busiest, &self.links);
        for (user, hosts) in self.portions(vlan) {
            for &other in &others {
                let tree = exchange(self.network, &self.vlans[vlan].tree, busiest, other);
                let Some(tree) = tree else { continue };
                let added = self.vlan(tree, vec![User { switch: user.switch, hosts }]);
                let users = minus(&self.vlans[vlan].users, user, hosts);
                let left = self.vlan(self.vlans[vlan].tree.clone(), users);
                if self.take(vec![(vlan, left), (self.vlans.len(), added)]) {
                    return true;
                }
                if self.work > WORK_MAX {
                    return false;
                }
            }
        }
        false
    }

    /// The hosts of a VLAN that may leave it together: those of a switch, all or half.
    fn portions(&self, vlan: usize) -> Vec<(User, u32)> {
        let users = self.vlans[vlan].users.iter();
        users
            .flat_map(|&user| {
                let half = (user.hosts > 1).then_some((user, user.hosts / 2));
                [Some((user, user.hosts)), half].into_iter().flatten()
            })
            .collect()
    }

    fn vlan(&mut self, tree: Vec<u32>, users: Vec<User>) -> Candidate {
        self.work += self.network.switch_count() as u64;
        Candidate { loads: loads(self.network, &tree, &users), tree, users }
    }

    /// Makes a change if it helps. Whether it did.
    fn take(&mut self, change: Change) -> bool {
        let mut flows = self.flows.clone();
        for (vlan, changed) in &change {
            if let Some(old) = self.vlans.get(*vlan) {
                flows.iter_mut().zip(&old.share.loads.flows).for_each(|(all, own)| *all -= own);
            }
            flows.iter_mut().zip(&changed.loads.flows).for_each(|(all, own)| *all += own);
        }
        if self.ceiling.reached(&flows).is_none_or(|count| count >= self.ceiling.count) {
            return false;
        }
        let changed = |(vlan, Candidate { tree, users, loads }): (usize, Candidate)| {
            let waits = waits(self.network, &tree, &users);
            (vlan, Vlan { share: Share { loads, waits }, tree, users })
        };
        let change: Vec<(usize, Vlan)> = change.into_iter().map(changed).collect();
        // Whether it can deadlock takes longest.
        if !self.room.allows_cycles {
            let kept = self.vlans.iter().enumerate();
            let kept = kept.filter(|(vlan, _)| change.iter().all(|(changed, _)| changed != vlan));
            let waits = kept.map(|(_, vlan)| vlan).chain(change.iter().map(|(_, vlan)| vlan));
            let waits: Vec<_> = waits.map(|vlan| &vlan.share.waits).collect();
            self.work += waits.iter().map(|waits| waits.len() as u64).sum::<u64>();
            if !are_free(self.network, waits.into_iter()) {
                return false;
            }
        }
        self.flows = flows;
        for (vlan, changed) in change {
            if vlan < self.vlans.len() {
                self.vlans[vlan] = changed;
            } else {
                self.vlans.push(changed);
            }
        }
        true
    }

    fn solution(self, start: Solution) -> Solution {
        let mut senders: Vec<Vec<Senders>> = vec![Vec::new(); self.network.switch_count()];
        for (number, vlan) in self.vlans.iter().enumerate() {
            for user in &vlan.users {
                senders[user.switch as usize].push(Senders { vlan: number as u32, hosts: user.hosts });
            }
        }
        let trees = self.vlans.into_iter().map(|vlan| vlan.tree).collect();
        Solution { trees, choice: Choice::BySource(senders), ..start }
    }
}

fn minus(users: &[User], user: User, hosts: u32) -> Vec<User> {
    let left = users.iter().map(|&own| {
        let gone = if own.switch == user.switch { hosts } else { 0 };
        User { hosts: own.hosts - gone, ..own }
    });
    left.filter(|own| own.hosts > 0).collect()
}

fn plus(users: &[User], user: User, hosts: u32) -> Vec<User> {
    let mut users = users.to_vec();
    match users.iter_mut().find(|own| own.switch == user.switch) {
        Some(own) => own.hosts += hosts,
        None => users.push(User { switch: user.switch, hosts }),
    }
    users
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests::Parts;
    use super::super::planner::chosen;
    use super::*;
    use crate::description::Machine;

    fn start(topology: &str, options: &str) -> (Network, Judged) {
        let text = format!(
            "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 3\n[plan]\n{options}\n"
        );
        let machine = Machine::parse("m.toml", &text).unwrap();
        let network = Network::of(&machine, &[]);
        let best = chosen(&machine, &network, false).best;
        (network, best)
    }

    /// Hosts of each switch on all VLANs together.
    fn hosts(network: &Network, search: &Search<'_>) -> Vec<u32> {
        let users = search.vlans.iter().flat_map(|vlan| &vlan.users);
        let of =
            |switch: u32| users.clone().filter(|user| user.switch == switch).map(|user| user.hosts).sum();
        (0..network.switch_count() as u32).map(of).collect()
    }

    #[test]
    fn every_step_helps_and_loses_no_host() {
        let (mut moved_count, mut split_count, mut relinked_count) = (0, 0, 0);
        for topology in [
            "kind = \"complete\"\nswitches = 5",
            "kind = \"torus\"\nextents = [3, 3]",
            "kind = \"hypercube\"\ndimensions = 3",
            "kind = \"ring\"\nswitches = 6",
        ] {
            // All on one tree: there is much to do.
            let (network, one) = start(topology, "routing = \"spanning-tree\"");
            for (vlans_max, allows_cycles) in [(1, false), (3, false), (8, false), (5, true)] {
                let about = format!("{topology}, {vlans_max}");
                let mut search = Search::new(&network, &one.solution, Room { vlans_max, allows_cycles });
                let all = hosts(&network, &search);
                assert!(all.iter().all(|&hosts| hosts == 3), "{about}");
                loop {
                    let (flows, trees) = (
                        search.flows.clone(),
                        search.vlans.iter().map(|vlan| vlan.tree.clone()).collect::<Vec<_>>(),
                    );
                    let ceiling = Ceiling::of(&network, &flows);
                    let has_moved = search.step();
                    assert_eq!(has_moved, search.flows != flows, "{about}");
                    assert_eq!(hosts(&network, &search), all, "{about}");
                    let shares = search.vlans.iter().map(|vlan| &vlan.share.loads.flows);
                    let sum = |channel: usize| shares.clone().map(|flows| flows[channel]).sum::<u64>();
                    assert!((0..flows.len()).all(|channel| sum(channel) == search.flows[channel]), "{about}");
                    assert!(search.vlans.len() <= vlans_max, "{about}");
                    if !has_moved {
                        // Without more work allowed it is not said that anything has moved either.
                        search.work = WORK_MAX + 1;
                        assert!(!search.step(), "{about}");
                        break;
                    }
                    // One step is one change, after which fewer channels are as busy.
                    let reached = ceiling.reached(&search.flows);
                    assert!(reached.is_some_and(|count| count < ceiling.count), "{about}");
                    let now: Vec<&Vec<u32>> = search.vlans.iter().map(|vlan| &vlan.tree).collect();
                    let changed = trees.iter().zip(&now).filter(|(before, now)| before != *now).count();
                    let added = now.len() - trees.len();
                    assert!(changed + added <= 1, "{about}: {changed} and {added}");
                    // A VLAN that is added does without the link that was busiest.
                    let busiest = ceiling.first as u32 / 2;
                    assert!(added == 0 || now.last().is_some_and(|tree| !tree.contains(&busiest)), "{about}");
                    (relinked_count, split_count) = (relinked_count + changed, split_count + added);
                    moved_count += usize::from(changed + added == 0);
                }
                let solution = search.solution(one.solution.clone());
                let after = evaluate(&network, &solution);
                assert!(after.is_free || allows_cycles, "{about}");
                assert_eq!(after.routed_flows, network.shortest().flow_count, "{about}");
            }
        }
        assert!(
            moved_count > 0 && split_count > 0 && relinked_count > 0,
            "{moved_count} {split_count} {relinked_count}"
        );
    }

    #[test]
    fn hosts_of_a_switch_leave_a_vlan_all_or_half() {
        let (network, one) = start("kind = \"ring\"\nswitches = 3", "routing = \"spanning-tree\"");
        let room = Room { vlans_max: 1, allows_cycles: false };
        let mut search = Search::new(&network, &one.solution, room);
        search.vlans[0].users = [1, 2, 5].into_iter().map(|hosts| User { switch: 0, hosts }).collect();
        let portions: Vec<(u32, u32)> =
            search.portions(0).into_iter().map(|(user, hosts)| (user.hosts, hosts)).collect();
        assert_eq!(portions, [(1, 1), (2, 2), (2, 1), (5, 5), (5, 2)]);
    }

    /// Leaves 0 to 3 and three spines. Three leaves send to the last one by the first spine, and all else is
    /// spread.
    #[test]
    fn a_channel_busy_with_single_flows_of_vlans_is_relieved() {
        let links: Vec<(u32, u32)> = (0..4).flat_map(|leaf| (4..7).map(move |spine| (leaf, spine))).collect();
        let network = Parts::of(&links, &[1, 1, 1, 1, 0, 0, 0]).network(&[]);
        // By leaf: the leaf that is reached by each of the spines.
        let reached: [[u32; 3]; 4] = [[3, 1, 2], [3, 2, 0], [3, 0, 1], [0, 1, 2]];
        let tree = |(leaf, reached): (u32, [u32; 3])| {
            let down = reached.into_iter().enumerate().map(|(spine, far)| 3 * far + spine as u32);
            let mut tree: Vec<u32> = (3 * leaf..3 * leaf + 3).chain(down).collect();
            tree.sort_unstable();
            tree
        };
        let sender = |leaf: u32| if leaf < 4 { vec![Senders { vlan: leaf, hosts: 1 }] } else { vec![] };
        let solution = Solution {
            method: String::new(),
            settings: Vec::new(),
            is_repaired: false,
            trees: (0..).zip(reached).map(tree).collect(),
            choice: Choice::BySource((0..7).map(sender).collect()),
            vlan_count_min: 1,
        };
        let room = Room { vlans_max: 4, allows_cycles: true };
        let mut search = Search::new(&network, &solution, room);
        let to_last = network.channel(9, 4).index();
        assert_eq!((search.flows[to_last], search.flows.iter().max()), (3, Some(&3)));
        assert!(search.step());
        assert_eq!(search.flows.iter().max(), Some(&2));
    }

    #[test]
    fn routes_that_can_deadlock_are_changed_only_without_pause() {
        let (network, unsafe_ones) = start("kind = \"ring\"\nswitches = 6", "routing = \"dimension-order\"");
        assert!(!unsafe_ones.evaluation.is_free);
        let trees = |judged: &Judged| judged.solution.trees.clone();
        for allows_cycles in [false, true] {
            let room = Room { vlans_max: 9, allows_cycles };
            let same = rebalanced(&network, unsafe_ones.clone(), room, |_| true);
            assert_eq!(trees(&same), trees(&unsafe_ones));
            let after = rebalanced(&network, unsafe_ones.clone(), room, |_| false);
            assert!(allows_cycles || trees(&after) == trees(&unsafe_ones));
            assert!(after.evaluation.pressure(&network) <= unsafe_ones.evaluation.pressure(&network));
        }
        // Routes of hosts that tag stay.
        let (network, by_pair) = start("kind = \"ring\"\nswitches = 6", "tagging = \"host\"");
        let room = Room { vlans_max: 9, allows_cycles: true };
        let same = rebalanced(&network, by_pair.clone(), room, |_| false);
        assert!(matches!(same.solution.choice, Choice::ByPair(_)) && trees(&same) == trees(&by_pair));
        let (network, one) = start("kind = \"complete\"\nswitches = 5", "routing = \"spanning-tree\"");
        for allows_cycles in [false, true] {
            let room = Room { vlans_max: 5, allows_cycles };
            let after = rebalanced(&network, one.clone(), room, |_| false);
            assert!(after.evaluation.pressure(&network) < one.evaluation.pressure(&network));
        }
    }
}
