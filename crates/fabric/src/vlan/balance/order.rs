//! Which channels wait for which, kept free of cycles while routes come and go.
//!
//! The channels stand in an order in which none waits for an earlier one. A new dependency that goes
//! forwards costs nothing; one that goes backwards is looked into between its two ends only, and if it
//! makes no cycle the channels there are put in order again (D. Pearce and P. Kelly, ACM JEA 11, 2006).
//! On small networks all that a channel waits for stands in a row of bits instead ([`Closure`]).
//! Channels are known by their place among the network's arcs.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::super::network::Network;
use super::closure::{CHANNELS_MAX, Closure};

/// The dependencies of all routes, counted, with their order.
#[derive(Debug, Clone)]
pub(super) struct Order<'a> {
    network: &'a Network,
    /// By arc: where its dependencies begin, one for each arc that leaves the switch it leads to.
    firsts: Vec<u32>,
    counts: Vec<u32>,
    /// By arc: the other direction of its link.
    pub(super) reverse: Vec<u32>,
    /// By arc: its rank.
    ranks: Vec<u32>,
    /// Whether cycles matter.
    is_free: bool,
    seen: Vec<u32>,
    round: u32,
    /// By dependency: the last time that it closed a cycle, as `refusal` then.
    refused: Vec<u32>,
    refusal: u32,
    /// In the place of ranks, where that is wanted, cycles matter and the channels are few.
    closure: Option<Closure>,
    wants_closure: bool,
}

fn closure(channel_count: usize, is_wanted: bool) -> Option<Closure> {
    (is_wanted && channel_count <= CHANNELS_MAX).then(|| Closure::new(channel_count))
}

impl<'a> Order<'a> {
    /// Without any dependency; `allows_cycles` where nothing pauses. `wants_closure` for searches that ask
    /// for cycles far more often than dependencies go.
    pub(super) fn new(network: &'a Network, allows_cycles: bool, wants_closure: bool) -> Order<'a> {
        let arc_count = network.arc_count();
        let mut firsts = Vec::with_capacity(arc_count);
        let mut sum = 0;
        for place in 0..arc_count {
            firsts.push(sum);
            sum += network.arc_range(network.arc(place).to).len() as u32;
        }
        let reverse = |place: usize| {
            let arc = network.arc(place);
            let back = |&other: &usize| network.arc(other).link == arc.link;
            network.arc_range(arc.to).find(back).map_or(0, |other| other as u32)
        };
        Order {
            network,
            firsts,
            counts: vec![0; sum as usize],
            reverse: (0..arc_count).map(reverse).collect(),
            ranks: (0..arc_count as u32).collect(),
            is_free: allows_cycles,
            seen: vec![0; arc_count],
            round: 0,
            refused: vec![0; sum as usize],
            refusal: 1,
            closure: closure(arc_count, wants_closure && !allows_cycles),
            wants_closure,
        }
    }

    /// Where a dependency stands among all that there can be.
    pub(super) fn index(&self, held: u32, wanted: u32) -> usize {
        let to = self.network.arc(held as usize).to;
        self.firsts[held as usize] as usize + wanted as usize - self.network.arc_range(to).start
    }

    /// Dependencies that there can be.
    pub(super) fn dependency_count_max(&self) -> usize {
        self.counts.len()
    }

    /// The place of each arc in an order that the dependencies agree with, unless cycles are allowed.
    pub(super) fn ranks(&self) -> Cow<'_, [u32]> {
        let Some(closure) = &self.closure else { return Cow::Borrowed(&self.ranks) };
        let mut places: Vec<u32> = (0..self.ranks.len() as u32).collect();
        places.sort_by_key(|&arc| (Reverse(closure.count(arc)), self.ranks[arc as usize]));
        let mut ranks = vec![0; places.len()];
        places.iter().enumerate().for_each(|(rank, &arc)| ranks[arc as usize] = rank as u32);
        Cow::Owned(ranks)
    }

    /// Grows along dependencies backwards: how many channels one waits for, or comes before.
    pub(super) fn waiting_count(&self, arc: u32) -> i64 {
        match &self.closure {
            Some(closure) => i64::from(closure.count(arc)),
            None => (self.ranks.len() - 1) as i64 - i64::from(self.ranks[arc as usize]),
        }
    }

    /// Another order. The dependencies must agree with it, unless cycles are allowed.
    pub(super) fn set_ranks(&mut self, ranks: Vec<u32>) {
        self.ranks = ranks;
    }

    /// Without dependencies, in this order.
    pub(super) fn emptied(&self, ranks: Vec<u32>, allows_cycles: bool) -> Order<'a> {
        Order {
            counts: vec![0; self.counts.len()],
            refused: vec![0; self.refused.len()],
            ranks,
            is_free: allows_cycles,
            closure: closure(self.ranks.len(), self.wants_closure && !allows_cycles),
            ..self.clone()
        }
    }

    /// Arcs that `held` waits for.
    fn wanted_by(&self, held: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.firsts[held as usize] as usize;
        let range = self.network.arc_range(self.network.arc(held as usize).to);
        range
            .clone()
            .filter(move |wanted| self.counts[first + wanted - range.start] > 0)
            .map(|arc| arc as u32)
    }

    /// Arcs that wait for `wanted`.
    fn holding(&self, wanted: u32) -> impl Iterator<Item = u32> + '_ {
        let from = self.network.arc(self.reverse[wanted as usize] as usize).to;
        let into = self.network.arc_range(from).map(|leaving| self.reverse[leaving]);
        into.filter(move |&held| self.counts[self.index(held, wanted)] > 0)
    }

    /// Whether one more dependency leaves them free of cycles. A dependency that closes one is remembered
    /// until [`Order::forget`]; another is put in order at once, so the next query costs nothing.
    pub(super) fn takes(&mut self, held: u32, wanted: u32) -> bool {
        let index = self.index(held, wanted);
        if self.is_free || self.counts[index] > 0 {
            return true;
        }
        self.refresh();
        if let Some(closure) = &self.closure {
            return held != wanted && !closure.has(wanted, held);
        }
        if self.ranks[held as usize] < self.ranks[wanted as usize] {
            return true;
        }
        if self.refused[index] == self.refusal {
            return false;
        }
        match self.ahead(held, wanted) {
            Some(ahead) => self.reorder(held, wanted, ahead),
            None => self.refused[index] = self.refusal,
        }
        self.refused[index] != self.refusal
    }

    /// Forgets what closed a cycle: dependencies have been taken away since.
    pub(super) fn forget(&mut self) {
        self.refusal += 1;
    }

    /// Adds a dependency, or answers `false` if it would make a cycle.
    pub(super) fn add(&mut self, held: u32, wanted: u32) -> bool {
        let index = self.index(held, wanted);
        let known = self.is_free || self.counts[index] > 0;
        if !known && self.closure.is_some() {
            if !self.takes(held, wanted) {
                return false;
            }
            self.closure.iter_mut().for_each(|closure| closure.add(held, wanted));
        } else if !known && self.ranks[held as usize] >= self.ranks[wanted as usize] {
            let Some(ahead) = self.ahead(held, wanted) else { return false };
            self.reorder(held, wanted, ahead);
        }
        self.counts[index] += 1;
        true
    }

    /// How often a dependency was added.
    pub(super) fn count(&self, held: u32, wanted: u32) -> u32 {
        self.counts[self.index(held, wanted)]
    }

    /// Whether a dependency is there.
    pub(super) fn has(&self, held: u32, wanted: u32) -> bool {
        self.counts[self.index(held, wanted)] > 0
    }

    /// Takes one away that was added.
    pub(super) fn remove(&mut self, held: u32, wanted: u32) {
        let index = self.index(held, wanted);
        self.counts[index] -= 1;
        if let Some(closure) = &mut self.closure {
            closure.is_stale |= self.counts[index] == 0;
        }
    }

    /// Makes the closure that of the dependencies there are.
    fn refresh(&mut self) {
        if self.closure.as_ref().is_none_or(|closure| !closure.is_stale) {
            return;
        }
        let Some(mut closure) = self.closure.take() else { return };
        closure.clear();
        self.round += 1;
        // Depth first; a channel is joined with another when all is known of that.
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for start in 0..self.network.arc_count() as u32 {
            if std::mem::replace(&mut self.seen[start as usize], self.round) == self.round {
                continue;
            }
            stack.push((start, 0));
            while let Some((at, next)) = stack.last_mut() {
                let held = *at;
                let range = self.network.arc_range(self.network.arc(held as usize).to);
                let first = self.firsts[held as usize] as usize;
                let Some(wanted) = range.clone().nth(*next).map(|arc| arc as u32) else {
                    stack.pop();
                    continue;
                };
                let is_there = self.counts[first + *next] > 0;
                let is_seen = self.seen[wanted as usize] == self.round;
                if is_there && !is_seen {
                    self.seen[wanted as usize] = self.round;
                    stack.push((wanted, 0));
                    continue;
                }
                *next += 1;
                if is_there {
                    closure.join(held, wanted);
                }
            }
        }
        self.closure = Some(closure);
    }

    /// Channels behind `wanted` up to the rank of `held`; `None` if `held` is among them.
    fn ahead(&mut self, held: u32, wanted: u32) -> Option<Vec<u32>> {
        let limit = self.ranks[held as usize];
        if held == wanted {
            return None;
        }
        self.round += 1;
        let mut found = vec![wanted];
        let mut at = 0;
        while at < found.len() {
            let waited: Vec<u32> = self.wanted_by(found[at]).collect();
            for next in waited {
                if next == held {
                    return None;
                }
                if self.ranks[next as usize] < limit && self.seen[next as usize] != self.round {
                    self.seen[next as usize] = self.round;
                    found.push(next);
                }
            }
            at += 1;
        }
        Some(found)
    }

    /// Puts what waits for `held` before what `wanted` waits for, within the ranks that both have now.
    fn reorder(&mut self, held: u32, wanted: u32, mut ahead: Vec<u32>) {
        let limit = self.ranks[wanted as usize];
        self.round += 1;
        let mut behind = vec![held];
        let mut at = 0;
        while at < behind.len() {
            let holders: Vec<u32> = self.holding(behind[at]).collect();
            for before in holders {
                if self.ranks[before as usize] > limit && self.seen[before as usize] != self.round {
                    self.seen[before as usize] = self.round;
                    behind.push(before);
                }
            }
            at += 1;
        }
        behind.sort_unstable_by_key(|&arc| self.ranks[arc as usize]);
        ahead.sort_unstable_by_key(|&arc| self.ranks[arc as usize]);
        behind.extend(ahead);
        let mut free: Vec<u32> = behind.iter().map(|&arc| self.ranks[arc as usize]).collect();
        free.sort_unstable();
        behind.iter().zip(free).for_each(|(&arc, rank)| self.ranks[arc as usize] = rank);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_network;
    use super::*;
    use ayatori_random::Random;

    fn network(topology: &str) -> Network {
        test_network(topology, 1)
    }

    /// Whether every dependency goes forwards in an order of all channels.
    fn assert_agrees(order: &Order<'_>, there: &[(u32, u32)]) {
        let ranks = order.ranks();
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..ranks.len() as u32), "{ranks:?}");
        for &(held, wanted) in there {
            assert!(ranks[held as usize] < ranks[wanted as usize], "{held} before {wanted}: {ranks:?}");
            assert!(order.waiting_count(held) > order.waiting_count(wanted), "{held} before {wanted}");
        }
        let counts = || (0..ranks.len() as u32).map(|arc| order.waiting_count(arc));
        assert_eq!(counts().min(), Some(0));
        assert!(counts().all(|count| count < ranks.len() as i64));
    }

    #[test]
    fn both_kinds_of_order_take_the_same_dependencies() {
        for (seed, topology) in [
            (1, "kind = \"torus\"\nextents = [3, 3]"),
            (2, "kind = \"complete\"\nswitches = 5"),
            (3, "kind = \"ring\"\nswitches = 6"),
        ] {
            let (network, mut random) = (network(topology), Random::new(seed));
            let mut orders = [false, true].map(|wants_closure| Order::new(&network, false, wants_closure));
            let mut there: Vec<(u32, u32)> = Vec::new();
            let mut refused_count = 0;
            for _ in 0..600 {
                if !there.is_empty() && random.one_in(4) {
                    let (held, wanted) = there.swap_remove(random.index(there.len()));
                    for order in &mut orders {
                        order.remove(held, wanted);
                        order.forget();
                    }
                } else {
                    let held = random.index(network.arc_count()) as u32;
                    let range = network.arc_range(network.arc(held as usize).to);
                    let wanted = (range.start + random.index(range.len())) as u32;
                    let [ranked, closed] = orders.each_mut().map(|order| {
                        let takes = order.takes(held, wanted);
                        assert_eq!(order.add(held, wanted), takes);
                        takes
                    });
                    assert_eq!(ranked, closed, "{topology}: {held} {wanted} beside {there:?}");
                    refused_count += u32::from(!ranked);
                    there.extend(ranked.then_some((held, wanted)));
                }
                orders.iter().for_each(|order| assert_agrees(order, &there));
            }
            assert!(refused_count > 20, "{topology}: {refused_count}");
        }
    }
}
