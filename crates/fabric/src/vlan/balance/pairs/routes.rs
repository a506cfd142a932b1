//! Rerouting by pairs: one pair's route after the other is taken out and found again over the channels that
//! are least busy then, as long as no channels wait for each other in a cycle.
//!
//! A route's way back takes its channels' other directions in reverse, so the dependencies are always
//! symmetric: with each one its mirror image is there, too.

use std::collections::{BTreeSet, BinaryHeap};

use super::super::super::network::{NONE, Network};
use super::super::super::packing::{PairWay, PairWays};
use super::super::bound::Nearest;
use super::super::limits::Limits;
use super::super::order::Order;
use super::super::search::{HOP_COST, is_better, power, simple_way};
use super::keys::keys;
use ayatori_random::Random;

/// Ways that may turn out to close a cycle before a pair is given up.
const RETRIES_MAX: usize = 40;
/// Rounds without a better result before a search ends.
const IDLE_ROUNDS_MAX: usize = 6;
/// So much worse is taken too: the way to a better set of turns leads over it.
const TOLERANCE: f64 = 1.005;

/// The route of a pair of switches.
#[derive(Debug, Clone)]
pub(super) struct Route {
    low: u32,
    high: u32,
    /// From the lower switch to the higher one, and back.
    flows: [u64; 2],
    /// Arcs from the lower switch to the higher one.
    way: Vec<u32>,
}

/// Routes of pairs, and what they put on the channels together.
#[derive(Debug)]
pub(super) struct Routes<'a> {
    network: &'a Network,
    pub(super) order: Order<'a>,
    pub(super) routes: Vec<Route>,
    /// By arc.
    flows: Vec<u64>,
    /// By arc: flows at which its load is 1.
    full: Vec<f64>,
    /// By dependency: what going against the order costs, while that is allowed; else empty.
    pub(super) tolls: Vec<f64>,
    /// Arcs looked at so far.
    pub(super) steps: u64,
    pub(super) random: Random,
    allows_cycles: bool,
}

#[cfg(test)]
impl Route {
    pub(super) fn arcs(&self) -> &[u32] {
        &self.way
    }
}

impl<'a> Routes<'a> {
    /// Begins with ways that have no cycle, unless cycles are allowed. `None` if they have one.
    pub(super) fn new(network: &'a Network, ways: &[PairWay], limits: Limits) -> Option<Routes<'a>> {
        let mut routes = Routes::empty(network, limits, limits.allows_cycles);
        for PairWay { low, high, links } in ways {
            let mut route = routes.bare(*low, *high);
            let mut at = *low;
            for &link in links {
                let place = network.arc_range(at).find(|&place| network.arc(place).link == link)?;
                route.way.push(place as u32);
                at = network.arc(place).to;
            }
            routes.put(&route).then_some(())?;
            routes.routes.push(route);
        }
        Some(routes)
    }

    /// Without a route.
    pub(super) fn empty(network: &'a Network, limits: Limits, allows_cycles: bool) -> Routes<'a> {
        let rate = |place: usize| network.rate(network.arc(place).link) as f64;
        Routes {
            network,
            order: Order::new(network, allows_cycles, true),
            routes: Vec::new(),
            flows: vec![0; network.arc_count()],
            full: (0..network.arc_count()).map(|at| (limits.least_pressure * rate(at)).max(1.0)).collect(),
            tolls: Vec::new(),
            steps: 0,
            random: Random::new(limits.seed),
            allows_cycles,
        }
    }

    /// The same without routes, with another order.
    pub(super) fn emptied(&self, order: Order<'a>, allows_cycles: bool) -> Routes<'a> {
        Routes {
            network: self.network,
            order,
            routes: Vec::new(),
            flows: vec![0; self.flows.len()],
            full: self.full.clone(),
            tolls: Vec::new(),
            steps: self.steps,
            random: self.random.clone(),
            allows_cycles,
        }
    }

    fn bare(&self, low: u32, high: u32) -> Route {
        let need = |from: u32, to: u32| self.network.needs(from, 0, self.network.weight(from))[to as usize];
        Route { low, high, flows: [need(low, high), need(high, low)], way: Vec::new() }
    }

    /// Adds a route for every pair, each the cheapest then. `false` if one has none.
    pub(super) fn fill(&mut self) -> bool {
        let sources: Vec<u32> = self.network.sources().collect();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (index, &low) in sources.iter().enumerate() {
            pairs.extend(sources[index + 1..].iter().map(|&high| (low, high)));
        }
        self.random.shuffle(&mut pairs);
        pairs.into_iter().all(|(low, high)| {
            let route = self.bare(low, high);
            self.add(route)
        })
    }

    /// Adds a pair by the cheapest way that closes no cycle; `false` if there is none.
    pub(super) fn add(&mut self, route: Route) -> bool {
        let found = self.found(&route);
        let is_found = found.is_some();
        self.routes.extend(found);
        is_found
    }

    /// Adds a route as it is; `false`, and nothing, if that makes a cycle.
    pub(super) fn add_as_is(&mut self, route: &Route) -> bool {
        let is_free = self.put(route);
        if is_free {
            self.routes.push(route.clone());
        }
        is_free
    }

    /// Whether a route goes along the order all the way.
    pub(super) fn is_forward(&self, route: &Route) -> bool {
        let ranks = self.order.ranks();
        route.way.windows(2).all(|two| ranks[two[0] as usize] < ranks[two[1] as usize])
    }

    fn reverse(&self, arc: u32) -> u32 {
        self.order.reverse[arc as usize]
    }

    /// Adds a dependency and its mirror image; `false`, and nothing, if one makes a cycle.
    fn depend(&mut self, held: u32, wanted: u32) -> bool {
        if !self.order.add(held, wanted) {
            return false;
        }
        let is_free = self.order.add(self.reverse(wanted), self.reverse(held));
        if !is_free {
            self.order.remove(held, wanted);
        }
        is_free
    }

    fn forgo(&mut self, held: u32, wanted: u32) {
        self.order.remove(held, wanted);
        self.order.remove(self.reverse(wanted), self.reverse(held));
        if !self.order.has(held, wanted) {
            self.order.forget();
        }
    }

    /// Adds what a route puts on the channels. If that makes a cycle: the dependency that does, and nothing.
    fn try_put(&mut self, route: &Route) -> Result<(), (u32, u32)> {
        for (index, two) in route.way.windows(2).enumerate() {
            if !self.depend(two[0], two[1]) {
                route.way[..=index].windows(2).for_each(|two| self.forgo(two[0], two[1]));
                return Err((two[0], two[1]));
            }
        }
        self.load(route, true);
        Ok(())
    }

    pub(super) fn put(&mut self, route: &Route) -> bool {
        self.try_put(route).is_ok()
    }

    fn take(&mut self, route: &Route) {
        route.way.windows(2).for_each(|two| self.forgo(two[0], two[1]));
        self.load(route, false);
    }

    fn load(&mut self, route: &Route, more: bool) {
        for &arc in &route.way {
            for (arc, flows) in [(arc, route.flows[0]), (self.reverse(arc), route.flows[1])] {
                let sum = &mut self.flows[arc as usize];
                *sum = if more { *sum + flows } else { *sum - flows };
            }
        }
    }

    /// By dependency: the flows that turn so, those of its mirror image with them.
    pub(super) fn turn_flows(&self) -> Vec<f64> {
        let mut turned = vec![0.0; self.order.dependency_count_max()];
        for route in &self.routes {
            let flows = (route.flows[0] + route.flows[1]) as f64;
            for two in route.way.windows(2) {
                turned[self.order.index(two[0], two[1])] += flows;
                turned[self.order.index(self.reverse(two[1]), self.reverse(two[0]))] += flows;
            }
        }
        turned
    }

    /// The busiest channel's flows over the least possible.
    pub(super) fn worst(&self) -> f64 {
        self.flows.iter().zip(&self.full).map(|(&flows, full)| flows as f64 / full).fold(0.0, f64::max)
    }

    /// The objective to minimize: loads to a high power, so that the busiest count most.
    fn potential(&self) -> f64 {
        self.flows.iter().zip(&self.full).map(|(&flows, full)| power(flows as f64 / full)).sum()
    }

    /// Reroutes every pair, round after round, until nothing gets better, `enough` is reached, or `rounds`
    /// are over. Answers the best routes' busiest load, and leaves them in place.
    pub(super) fn improve(&mut self, rounds: usize, enough: f64) -> f64 {
        let mut best = (self.worst(), self.potential(), self.routes.clone());
        let mut idle = 0;
        for _ in 0..rounds {
            if best.0 <= enough || idle >= IDLE_ROUNDS_MAX {
                break;
            }
            self.round(TOLERANCE);
            let now = (self.worst(), self.potential());
            if is_better(now, (best.0, best.1)) {
                best = (now.0, now.1, self.routes.clone());
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.replace(best.2);
        best.0
    }

    /// Puts other routes in the place of all.
    pub(super) fn replace(&mut self, routes: Vec<Route>) {
        for route in std::mem::take(&mut self.routes) {
            self.take(&route);
        }
        for route in &routes {
            let is_free = self.put(route);
            debug_assert!(is_free, "these routes were together before");
        }
        self.routes = routes;
    }

    /// Finds every route anew, unless that makes the whole worse than `tolerance` times what it was.
    pub(super) fn round(&mut self, tolerance: f64) {
        let mut turns: Vec<usize> = (0..self.routes.len()).collect();
        self.random.shuffle(&mut turns);
        for turn in turns {
            let old = self.routes[turn].clone();
            let before = self.potential();
            self.take(&old);
            match self.found(&old) {
                Some(new) if self.potential() > before * tolerance => {
                    self.take(&new);
                    self.put(&old);
                }
                Some(new) => self.routes[turn] = new,
                None => {
                    self.put(&old);
                }
            }
        }
    }

    /// The cheapest way that closes no cycle for the pair of a route that is not in place, put in place.
    fn found(&mut self, old: &Route) -> Option<Route> {
        let mut banned = BTreeSet::new();
        for _ in 0..RETRIES_MAX {
            let route = Route { way: self.cheapest(old, &banned)?, ..old.clone() };
            match self.try_put(&route) {
                Ok(()) => return Some(route),
                Err(closing) => banned.insert(closing),
            };
        }
        None
    }

    /// The arcs over which a pair's flows cost least.
    fn cheapest(&mut self, route: &Route, banned: &BTreeSet<(u32, u32)>) -> Option<Vec<u32>> {
        let network = self.network;
        let arc_count = network.arc_count();
        self.steps += arc_count as u64;
        let own = |arc: usize, more: u64| power((self.flows[arc] + more) as f64 / self.full[arc]);
        let costs: Vec<f64> = (0..arc_count)
            .map(|arc| {
                let back = self.reverse(arc as u32) as usize;
                HOP_COST + (own(arc, route.flows[0]) + own(back, route.flows[1])) / 2.0
            })
            .collect();
        let (mut distances, mut came) = (vec![f64::INFINITY; arc_count], vec![NONE; arc_count]);
        let mut heap = BinaryHeap::new();
        for place in network.arc_range(route.low) {
            heap.push(Nearest { distance: costs[place], item: place as u32 });
        }
        while let Some(Nearest { distance, item: held }) = heap.pop() {
            if distance > distances[held as usize] {
                continue;
            }
            let at = network.arc(held as usize).to;
            if at == route.high
                && let Some(way) = simple_way(held, &came, |arc| network.arc(arc as usize).to)
            {
                return Some(way);
            }
            self.steps += network.arc_range(at).len() as u64;
            for place in network.arc_range(at) {
                let wanted = place as u32;
                if network.arc(place).to == route.low || self.reverse(held) == wanted {
                    continue;
                }
                let toll = self.tolls.get(self.order.index(held, wanted)).copied().unwrap_or(0.0);
                let further = distance + costs[place] + toll;
                if further >= distances[place]
                    || banned.contains(&(held, wanted))
                    || !self.order.takes(held, wanted)
                {
                    continue;
                }
                (distances[place], came[place]) = (further, held);
                heap.push(Nearest { distance: further, item: wanted });
            }
        }
        None
    }

    /// The ways found, and the order of the channels by which they are free of cycles.
    pub(super) fn into_ways(self) -> PairWays {
        let network = self.network;
        let links = |route: &Route| route.way.iter().map(|&arc| network.arc(arc as usize).link).collect();
        let way = |route: &Route| PairWay { low: route.low, high: route.high, links: links(route) };
        let ways = self.routes.iter().map(way).collect();
        let keys = (!self.allows_cycles).then(|| keys(network, &self.order));
        PairWays { ways, keys }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{least_pressure, test_network};
    use super::*;
    use crate::graph::LinkSpec;
    use crate::topology::{Explicit, Topology};

    /// A ring of three switches, a, b and c, joined by p with another ring, q, r and s.
    fn two_rings() -> Network {
        let switches = ["a", "b", "c", "p", "q", "r", "s"].map(String::from).to_vec();
        let links = two_rings_links().into_iter().map(|(a, b)| (a, b, 1)).collect();
        let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
        Network::new(&graph, graph.link_count(), vec![1; 7], &[])
    }

    fn two_rings_links() -> [(u32, u32); 8] {
        [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 5), (5, 6), (6, 4)]
    }

    fn limits() -> Limits {
        Limits { trees_max: 100, allows_cycles: false, seed: 1, is_thorough: true, least_pressure: 1.0 }
    }

    #[test]
    fn a_turn_whose_mirror_image_closes_a_cycle_leaves_nothing() {
        let network = two_rings();
        let arc = |from: u32, to: u32| {
            network.arc_range(from).find(|&place| network.arc(place).to == to).unwrap() as u32
        };
        let mut routes = Routes::empty(&network, limits(), false);
        // Round each ring and back over the link one came by.
        for way in [[3, 0, 1, 2, 0, 3], [3, 4, 5, 6, 4, 3]] {
            let arcs: Vec<u32> = way.windows(2).map(|two| arc(two[0], two[1])).collect();
            assert!(arcs.windows(2).all(|two| routes.depend(two[0], two[1])), "{way:?}");
        }
        let [held, wanted] = [arc(4, 3), arc(3, 0)];
        assert!(!routes.depend(held, wanted));
        assert!(!routes.order.has(held, wanted));
        assert!(routes.order.takes(held, wanted), "alone it closes none");
    }

    #[test]
    fn what_closed_a_cycle_may_be_taken_when_the_cycle_is_gone() {
        // So many channels that they stand in an order, and not in rows of bits.
        let complete = Topology::Complete(crate::topology::Complete { switch_count: 33 });
        let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let graph = complete.build(link).unwrap();
        let network = Network::new(&graph, graph.link_count(), vec![1; 33], &[]);
        assert!(network.arc_count() > super::super::super::closure::CHANNELS_MAX);
        let arc = |from: u32, to: u32| {
            network.arc_range(from).find(|&place| network.arc(place).to == to).unwrap() as u32
        };
        let mut routes = Routes::empty(&network, limits(), false);
        assert!(routes.depend(arc(0, 1), arc(1, 2)) && routes.depend(arc(1, 2), arc(2, 0)));
        assert!(!routes.order.takes(arc(2, 0), arc(0, 1)));
        routes.forgo(arc(0, 1), arc(1, 2));
        assert!(routes.order.takes(arc(2, 0), arc(0, 1)));
    }

    /// The loads of all routes, counted one by one.
    fn loads(routes: &Routes<'_>) -> Vec<f64> {
        let mut flows = vec![0_u64; routes.network.arc_count()];
        for route in &routes.routes {
            for &arc in &route.way {
                flows[arc as usize] += route.flows[0];
                flows[routes.reverse(arc) as usize] += route.flows[1];
            }
        }
        (0..flows.len())
            .map(|place| flows[place] as f64 / routes.network.rate(routes.network.arc(place).link) as f64)
            .collect()
    }

    #[test]
    fn searches_leave_the_best_routes_and_count_their_loads() {
        for seed in 0..12 {
            // Every third link is ten times as fast; as many flows as bits are full.
            let links: Vec<(u32, u32, u32)> = two_rings_links()
                .into_iter()
                .enumerate()
                .map(|(at, (a, b))| (a, b, if at % 3 == 0 { 10 } else { 1 }))
                .collect();
            let switches = (0..7).map(|at| format!("s{at}")).collect();
            let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
            let graph = Topology::Explicit(Explicit { switches, links }).build(link).unwrap();
            let network = Network::new(&graph, graph.link_count(), vec![2; 7], &[]);
            let mut routes = Routes::empty(&network, Limits { seed, ..limits() }, seed % 2 == 0);
            assert!(routes.fill());
            let is_counted = |routes: &Routes<'_>| {
                let loads = loads(routes);
                let worst = loads.iter().copied().fold(0.0, f64::max);
                let potential: f64 = loads.iter().map(|&load| power(load)).sum();
                (routes.worst() - worst).abs() < 1e-9 && (routes.potential() / potential - 1.0).abs() < 1e-9
            };
            assert!(is_counted(&routes), "{seed}");
            // Nothing is taken that is worse than nothing.
            let before: Vec<Vec<u32>> = routes.routes.iter().map(|route| route.way.clone()).collect();
            routes.round(0.0);
            assert!(before.iter().eq(routes.routes.iter().map(|route| &route.way)), "{seed}");
            assert!(is_counted(&routes), "{seed}");
            let worst = routes.improve(60, 1.0);
            assert!((routes.worst() - worst).abs() < 1e-9 && is_counted(&routes), "{seed}");
        }
    }

    #[test]
    fn flows_that_turn_are_both_ways_and_go_with_the_routes() {
        let network = test_network("kind = \"mesh\"\nextents = [3, 3]", 2);
        let mut routes = Routes::empty(&network, limits(), false);
        assert!(routes.fill());
        let mut wanted = vec![0.0; routes.order.dependency_count_max()];
        for route in &routes.routes {
            let back: Vec<u32> = route.way.iter().rev().map(|&arc| routes.reverse(arc)).collect();
            for two in route.way.windows(2).chain(back.windows(2)) {
                wanted[routes.order.index(two[0], two[1])] += 8.0;
            }
        }
        assert_eq!(routes.turn_flows(), wanted);
        assert!(wanted.iter().any(|&flows| flows > 8.0));
        for route in std::mem::take(&mut routes.routes) {
            routes.take(&route);
        }
        assert_eq!((routes.worst(), routes.potential()), (0.0, 0.0));
        for held in 0..network.arc_count() as u32 {
            let mut wanted = network.arc_range(network.arc(held as usize).to);
            assert!(wanted.all(|wanted| !routes.order.has(held, wanted as u32)));
        }
    }

    /// A search that goes on from what is worse, too, goes back to the best in the end.
    #[test]
    fn the_best_routes_of_all_rounds_stay() {
        for (seed, topology) in (0..6)
            .flat_map(|seed| ["mesh\"\nextents = [3, 3]", "torus\"\nextents = [3, 3]"].map(|own| (seed, own)))
        {
            let network = test_network(&format!("kind = \"{topology}"), 2);
            let least_pressure = least_pressure(&network, u64::MAX);
            let limits = Limits { least_pressure, seed, ..limits() };
            let mut routes = Routes::empty(&network, limits, false);
            assert!(routes.fill());
            let worst = routes.improve(40, 0.1);
            assert!((routes.worst() - worst).abs() < 1e-9, "{topology} {seed}");
        }
    }

    #[test]
    fn flows_that_turn_are_those_of_both_directions() {
        let network = two_rings();
        let mut routes = Routes::empty(&network, limits(), true);
        assert!(routes.fill());
        let mut wanted = vec![0.0; routes.order.dependency_count_max()];
        for route in &routes.routes {
            let back: Vec<u32> = route.way.iter().rev().map(|&arc| routes.reverse(arc)).collect();
            for way in [&route.way, &back] {
                // One host at either end: a flow each way.
                way.windows(2).for_each(|two| wanted[routes.order.index(two[0], two[1])] += 2.0);
            }
        }
        assert_eq!(routes.turn_flows(), wanted);
        assert!(routes.routes.iter().any(|route| route.way.len() > 3));
    }
}
