//! Balanced routes: the busiest link made as little busy as can be found, under the limit of VLANs and free
//! of deadlock.
//!
//! Begins with routes that are free of deadlock, removes one tree after the other and grows it again where
//! the network is least busy (`search`), first with one tree for each source switch, then with one for every
//! few of its hosts. The result is compared with a bound for all routes (`bound`), which also decides when to
//! stop. If the result is far from the bound, the turns themselves are negotiated (`negotiate`), and if it
//! still is, exchanged (`exchange`).

mod bound;
mod closure;
mod exchange;
mod limits;
mod negotiate;
mod order;
mod pairs;
mod search;
#[cfg(test)]
mod tests;
mod turns;

use super::network::Network;
use super::solution::SourceTree;
use search::Search;

pub(super) use bound::{least_flows, least_pressure};
pub(super) use limits::Limits;
pub(super) use pairs::balanced_pairs;

/// Arcs looked at, over all rounds of one search: about a second.
const STEPS_MAX: u64 = 30_000_000;
/// The same for exchanging turns: some fifteen seconds.
const EXCHANGE_STEPS_MAX: u64 = 600_000_000;
const ROUNDS_MAX: usize = 60;
/// Fewer rounds than this are not worth their time.
const ROUNDS_MIN: usize = 3;
/// This near to the bound is near enough.
const ENOUGH: f64 = 1.000_001;

/// Better trees than those of `starts`, each of which is free of deadlock or left out. `None` if there are
/// none, or if the network is too large to search.
pub(super) fn balanced(
    network: &Network,
    starts: &[Vec<SourceTree>],
    limits: Limits,
) -> Option<Vec<SourceTree>> {
    let sources = network.sources().count() as u64;
    // Each destination of each tree looks at the arcs and what follows each of them.
    let arcs = network.arc_count() as u64;
    let degree = arcs / (network.alive().count() as u64).max(1) + 1;
    let round_steps = sources * sources.min(12) * arcs * degree + 1;
    let rounds = ((STEPS_MAX / round_steps) as usize).min(ROUNDS_MAX);
    if rounds < ROUNDS_MIN || limits.least_pressure <= 0.0 {
        return None;
    }
    let mut best: Option<(f64, Search<'_>)> = None;
    let split_further = |search: &mut Search<'_>, mut worst: f64| {
        while worst > ENOUGH && search.tree_count() * 2 <= limits.trees_max.min(4 * sources as usize) {
            if !search.split() {
                break;
            }
            let rounds = (rounds * sources as usize / search.tree_count()).max(1);
            worst = search.improve(rounds, ENOUGH);
        }
        worst
    };
    for start in starts.iter().filter(|start| start.len() <= limits.trees_max) {
        let Some(mut search) =
            Search::new(network, start, limits.least_pressure, limits.allows_cycles, limits.seed)
        else {
            continue;
        };
        let worst = search.improve(rounds, ENOUGH);
        let worst = split_further(&mut search, worst);
        if best.as_ref().is_none_or(|(least, _)| worst < *least) {
            best = Some((worst, search));
        }
        if worst <= ENOUGH {
            break;
        }
    }
    let is_far = |best: &Option<(f64, Search<'_>)>| {
        let is_far = best.as_ref().is_none_or(|(worst, _)| *worst > negotiate::ENOUGH);
        is_far && limits.is_thorough && !limits.allows_cycles
    };
    if is_far(&best)
        && let Some((worst, mut search)) = negotiate::negotiated(network, limits)
    {
        let worst = split_further(&mut search, worst);
        if best.as_ref().is_none_or(|(least, _)| worst < *least) {
            best = Some((worst, search));
        }
    }
    if is_far(&best)
        && let Some((least, start)) = &best
        && let Some(mut search) = exchange::exchanged(start, EXCHANGE_STEPS_MAX)
    {
        let worst = search.improve(ROUNDS_MAX, ENOUGH);
        let worst = split_further(&mut search, worst);
        if worst < *least {
            best = Some((worst, search));
        }
    }
    best.map(|(_, search)| search.into_trees())
}

/// Switches of 64 ports in this topology, each with so many hosts.
#[cfg(test)]
fn test_network(topology: &str, per_switch: u32) -> Network {
    let text = format!(
        "name = \"t\"\n[switch_models.s]\nports = 64\nrate_gbps = 1\n[host_models.h]\n\
         nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nswitch_model = \"s\"\n{topology}\n\
         [hosts]\nmodel = \"h\"\nper_switch = {per_switch}\n"
    );
    let machine = crate::description::Machine::parse("t.toml", &text).expect("a machine");
    Network::of(&machine, &[])
}
