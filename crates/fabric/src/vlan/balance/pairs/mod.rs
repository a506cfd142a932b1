//! Balanced routes where hosts tag: every pair of switches has a VLAN of its own choice, the same in both
//! directions.
//!
//! So a pair's route does not have to fit into a tree of its source, but whatever turn it takes, its way
//! back takes the same turn backwards. Begins with routes that are free of deadlock and reroutes one pair
//! after the other (`routes`); where that stays far from the bound, the turns are negotiated (`negotiate`)
//! as in the search for trees. How many VLANs the routes need is known only when they are packed.

mod keys;
mod negotiate;
mod routes;

use super::super::network::Network;
use super::super::packing::{PairWay, PairWays};
use super::limits::Limits;
use routes::Routes;

/// Arcs looked at, over all rounds of one search: about a second.
const STEPS_MAX: u64 = 30_000_000;
const ROUNDS_MAX: u64 = 60;
/// Fewer rounds than this are not worth their time.
const ROUNDS_MIN: u64 = 3;
/// This near to the bound is near enough.
const ENOUGH: f64 = 1.000_001;

/// Better ways than those of `starts`, each of which is free of deadlock or left out. `None` if there are
/// none, or if the network is too large to search.
pub(in super::super) fn balanced_pairs(
    network: &Network,
    starts: &[Vec<PairWay>],
    limits: Limits,
) -> Option<PairWays> {
    let sources = network.sources().count() as u64;
    let arcs = network.arc_count() as u64;
    let degree = arcs / (network.alive().count() as u64).max(1) + 1;
    let round_steps = sources * sources / 2 * arcs * degree + 1;
    let rounds = (STEPS_MAX / round_steps).min(ROUNDS_MAX);
    if rounds < ROUNDS_MIN || limits.least_pressure <= 0.0 {
        return None;
    }
    let mut best: Option<(f64, Routes<'_>)> = None;
    for start in starts {
        let Some(mut routes) = Routes::new(network, start, limits) else { continue };
        let worst = routes.improve(rounds as usize, ENOUGH);
        if best.as_ref().is_none_or(|(least, _)| worst < *least) {
            best = Some((worst, routes));
        }
        if worst <= ENOUGH {
            break;
        }
    }
    let is_far = best.as_ref().is_none_or(|(worst, _)| *worst > negotiate::ENOUGH);
    if is_far
        && limits.is_thorough
        && !limits.allows_cycles
        && let Some((worst, routes)) = negotiate::negotiated(network, limits)
        && best.as_ref().is_none_or(|(least, _)| worst < *least)
    {
        best = Some((worst, routes));
    }
    best.map(|(_, routes)| routes.into_ways())
}
