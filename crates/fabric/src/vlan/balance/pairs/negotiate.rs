//! The turns of pairs' routes, negotiated as in the search for trees (`balance/negotiate.rs`): turns against
//! an order of the channels cost a toll that grows the longer they are wanted.
//!
//! Here the order is mirrored: a link's two directions stand as far from the beginning and from the end. A
//! symmetric set of turns that is free of cycles always agrees with such an order: subtract the rank of a
//! channel's other direction from its own.

use super::super::super::network::Network;
use super::super::limits::Limits;
use super::super::turns::{escape, mirrored, sifted};
use super::routes::{Route, Routes};

/// This near to the bound nothing is negotiated.
pub(super) const ENOUGH: f64 = 1.1;
/// Arcs looked at, over all attempts: some seconds.
const STEPS_MAX: u64 = 150_000_000;
const ATTEMPTS_MAX: u64 = 6;
const ROUNDS_MAX: u32 = 120;
/// Rounds that the steps must be enough for.
const ROUNDS_MIN: u64 = 40;
/// Rounds without tolls, the first round that is settled, every how many are, and the first after which the
/// negotiation goes on from the best that was settled.
const FREE_ROUNDS: u32 = 3;
const FIRST_SETTLED: u32 = 20;
const SETTLED_EVERY: u32 = 10;
const FIRST_RETURN: u32 = 70;
/// Settled routes are improved for so many rounds.
const POLISH_ROUNDS: usize = 30;
/// What a turn against the order costs at first (the load of a full channel is 1), and by how much that
/// grows.
const FIRST_TOLL: f64 = 1.0;
const TOLL_GROWTH: f64 = 1.02;
/// Share of a turn's history that remains after a round.
const HISTORY_KEPT: f64 = 0.85;

/// The best routes found, and the busiest channel's load. `None` for networks too large.
pub(super) fn negotiated(network: &Network, limits: Limits) -> Option<(f64, Routes<'_>)> {
    let mut best: Option<(f64, Routes<'_>)> = None;
    let mut steps = 0;
    for attempt in 0..ATTEMPTS_MAX {
        if steps >= STEPS_MAX {
            break;
        }
        let limits = Limits { seed: limits.seed + attempt, ..limits };
        let mut talks = Talks::new(network, limits, attempt % 2 == 0)?;
        if talks.loose.steps * ROUNDS_MIN > STEPS_MAX {
            return None;
        }
        talks.hold(STEPS_MAX - steps);
        steps += talks.loose.steps;
        let Some((worst, found)) = talks.best else { continue };
        if best.as_ref().is_none_or(|(least, _)| worst < *least) {
            best = Some((worst, found));
        }
        if worst <= ENOUGH {
            break;
        }
    }
    best
}

struct Talks<'a> {
    network: &'a Network,
    /// Routes that may go against the order.
    loose: Routes<'a>,
    /// By dependency: how long it has been wanted against the order.
    history: Vec<f64>,
    toll: f64,
    /// By dependency: more than 0 for the turns of the escape.
    kept: Vec<f64>,
    best: Option<(f64, Routes<'a>)>,
}

impl<'a> Talks<'a> {
    fn new(network: &'a Network, limits: Limits, keeps_escape: bool) -> Option<Talks<'a>> {
        let mut loose = Routes::empty(network, limits, true);
        let (ranks, kept) = escape(network, &loose.order, keeps_escape, true, &mut loose.random);
        loose.order = loose.order.emptied(ranks, true);
        loose.fill().then_some(())?;
        let history = vec![0.0; loose.order.dependency_count_max()];
        Some(Talks { network, loose, history, toll: 0.0, kept, best: None })
    }

    fn hold(&mut self, steps_max: u64) {
        for round in 0..ROUNDS_MAX {
            self.round(round >= FREE_ROUNDS);
            let is_settled = round >= FIRST_SETTLED && round % SETTLED_EVERY == 0;
            if is_settled && let Some(mut settled) = self.settled() {
                let worst = settled.improve(POLISH_ROUNDS, 1.0);
                self.loose.steps = settled.steps;
                if self.best.as_ref().is_none_or(|(least, _)| worst < *least) {
                    self.best = Some((worst, settled));
                }
                if worst <= ENOUGH {
                    return;
                }
            }
            if is_settled && round >= FIRST_RETURN {
                self.return_to_best();
            }
            if self.loose.steps > steps_max {
                return;
            }
        }
    }

    /// Every route is found anew, the order follows, and tolls are set.
    fn round(&mut self, has_tolls: bool) {
        self.loose.round(f64::INFINITY);
        let flows = self.loose.turn_flows();
        let weights: Vec<f64> =
            (0..flows.len()).map(|at| flows[at] * (1.0 + self.history[at]) + self.kept[at]).collect();
        let ranks = sifted(self.network, &self.loose.order, &weights, true, &mut self.loose.random);
        if has_tolls {
            self.toll = if self.toll == 0.0 { FIRST_TOLL } else { self.toll * TOLL_GROWTH };
        }
        self.loose.tolls.resize(flows.len(), 0.0);
        for held in 0..self.network.arc_count() {
            for wanted in self.network.arc_range(self.network.arc(held).to) {
                let at = self.loose.order.index(held as u32, wanted as u32);
                let is_against = ranks[held] >= ranks[wanted];
                self.history[at] *= HISTORY_KEPT;
                if has_tolls && is_against && flows[at] > 0.0 {
                    self.history[at] += 1.0;
                }
                self.loose.tolls[at] = if is_against { self.toll * (1.0 + self.history[at]) } else { 0.0 };
            }
        }
        self.loose.order.set_ranks(ranks);
    }

    /// The routes that go along the order, and the others found again without a cycle.
    fn settled(&mut self) -> Option<Routes<'a>> {
        let ranks = self.loose.order.ranks().to_vec();
        let mut strict = self.loose.emptied(self.loose.order.emptied(ranks, false), false);
        for held in 0..self.network.arc_count() as u32 {
            for wanted in self.network.arc_range(self.network.arc(held as usize).to) {
                let is_kept = self.kept[self.loose.order.index(held, wanted as u32)] > 0.0;
                if is_kept && !strict.order.add(held, wanted as u32) {
                    return None;
                }
            }
        }
        let is_forward = |route: &&Route| self.loose.is_forward(route);
        let (forward, mut against): (Vec<&Route>, Vec<&Route>) =
            self.loose.routes.iter().partition(is_forward);
        let has_all = forward.into_iter().all(|route| strict.add_as_is(route));
        strict.random.shuffle(&mut against);
        let has_all = has_all && against.into_iter().all(|route| strict.add(route.clone()));
        self.loose.steps = strict.steps;
        has_all.then_some(strict)
    }

    /// Goes on from the best routes, as if nothing had been wanted before.
    fn return_to_best(&mut self) {
        let Some((_, best)) = &self.best else { return };
        let routes = best.routes.clone();
        let keys: Vec<f64> = best.order.ranks().iter().map(|&rank| f64::from(rank)).collect();
        let ranks = mirrored(&best.order, &keys);
        self.loose.replace(routes);
        self.loose.order.set_ranks(ranks);
        self.history.fill(0.0);
        self.toll = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::least_pressure;
    use super::super::super::test_network;
    use super::*;

    fn network(topology: &str) -> Network {
        test_network(topology, 2)
    }

    fn limits(network: &Network) -> Limits {
        let least_pressure = least_pressure(network, u64::MAX);
        Limits { trees_max: 1000, allows_cycles: false, seed: 5, is_thorough: true, least_pressure }
    }

    #[test]
    fn tolls_are_on_what_goes_against_a_mirrored_order() {
        let mut has_changed = false;
        let topologies = ["kind = \"torus\"\nextents = [3, 3]", "kind = \"ring\"\nswitches = 6"];
        for (topology, seed) in
            topologies.iter().flat_map(|topology| (0..5).map(move |seed| (topology, seed)))
        {
            let network = network(topology);
            let mut talks = Talks::new(&network, Limits { seed, ..limits(&network) }, true).unwrap();
            let last = network.arc_count() as u32 - 1;
            let is_mirrored = |talks: &Talks<'_>| {
                let (order, ranks) = (&talks.loose.order, talks.loose.order.ranks());
                (0..ranks.len()).all(|arc| ranks[arc] + ranks[order.reverse[arc] as usize] == last)
            };
            for round in 0..8 {
                let ways = |talks: &Talks<'_>| -> Vec<Vec<u32>> {
                    talks.loose.routes.iter().map(|route| route.arcs().to_vec()).collect()
                };
                let before = ways(&talks);
                talks.round(round >= FREE_ROUNDS);
                has_changed |= ways(&talks) != before;
                let ranks = talks.loose.order.ranks().to_vec();
                for held in 0..network.arc_count() {
                    for wanted in network.arc_range(network.arc(held).to) {
                        let at = talks.loose.order.index(held as u32, wanted as u32);
                        let is_against = round >= FREE_ROUNDS && ranks[held] >= ranks[wanted];
                        assert_eq!(talks.loose.tolls[at] > 0.0, is_against, "{topology}");
                    }
                }
                assert!(is_mirrored(&talks), "{topology}");
            }
            let settled = talks.settled().expect("routes, since there is an escape");
            for held in 0..network.arc_count() as u32 {
                for wanted in network.arc_range(network.arc(held as usize).to).map(|wanted| wanted as u32) {
                    let is_kept = talks.kept[settled.order.index(held, wanted)] > 0.0;
                    assert!(!is_kept || settled.order.has(held, wanted), "{topology}");
                }
            }
            // Cycles matter to what has been settled: it has an order of its channels.
            assert!(talks.settled().is_some_and(|settled| settled.into_ways().keys.is_some()));
            talks.best = Some((settled.worst(), settled));
            let reversed = talks.loose.order.ranks().iter().map(|&rank| last - rank).collect();
            talks.loose.order.set_ranks(reversed);
            talks.return_to_best();
            let (worst, best) = talks.best.as_ref().unwrap();
            assert!((talks.loose.worst() - worst).abs() < 1e-9, "{topology}");
            assert!(is_mirrored(&talks), "{topology}");
            // The best routes go along the order that they are gone on from.
            assert!(best.routes.iter().all(|route| talks.loose.is_forward(route)), "{topology}");
            assert!(talks.toll == 0.0);
        }
        assert!(has_changed, "routes are found anew in each round");
    }

    #[test]
    fn a_network_too_large_to_negotiate_is_left_alone() {
        let network = network("kind = \"complete\"\nswitches = 60");
        let limits = limits(&network);
        let talks = Talks::new(&network, limits, true).unwrap();
        assert!(talks.loose.steps * ROUNDS_MIN > STEPS_MAX, "{}", talks.loose.steps);
        assert!(negotiated(&network, limits).is_none());
    }
}
