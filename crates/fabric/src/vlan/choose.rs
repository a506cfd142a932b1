//! Which solution to take: candidates by the options, judged, and a deadlock-free alternative where the one
//! asked for is not.

use crate::description::{Grouping, PlanOptions, Routing, SearchEffort};
use crate::plan::Tagging;
use crate::topology::grid::Grid;

use super::balance::{Limits, balanced as balanced_trees, balanced_pairs, least_flows, least_pressure};
use super::evaluation::{Evaluation, evaluate};
use super::network::Network;
use super::packing::{PairWay, by_pair, by_way, pair_ways};
use super::paths::Paths;
use super::paths::by_host::by_host;
use super::paths::grid::{WrapRule, dimension_order, orders, shortest_first};
use super::paths::minimal::{Spread, balanced, fewest};
use super::paths::spanning::spanning_tree;
use super::paths::up_down::up_down;
use super::solution::{Solution, SourceTree, all_hosts, by_host_port, by_source, in_order_of_hosts};

/// A solution and what it is worth.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) solution: Solution,
    pub(crate) evaluation: Evaluation,
}

/// The solution taken, and a deadlock-free one if that is not.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) best: Judged,
    pub(crate) alternative: Option<Judged>,
}

/// Paths, and how few VLANs they can do with if that is known.
type Candidate = (Paths, Option<usize>);

/// What a choice may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// VLANs that all switches take.
    pub(crate) vlans_max: usize,
    /// Whether to search for less busy links.
    pub(crate) balances: bool,
}

/// A search has to make the busiest link less busy by this part to be worth its VLANs: one in so many.
const WORTHWHILE: u128 = 20;
/// Solutions that a search begins with.
const STARTS_MAX: usize = 2;

/// Chooses by the options. `grid` is the one the network is, if it is.
pub(crate) fn choose(
    network: &Network,
    grid: Option<&Grid>,
    options: &PlanOptions,
    tagging: Tagging,
    effort: Effort,
) -> Chosen {
    let chosen = as_asked(network, grid, options, tagging);
    let may_change = options.grouping == Grouping::Balanced && options.routing == Routing::Auto;
    match may_change.then(|| less_busy(network, grid, options, tagging, effort, &chosen.best)).flatten() {
        Some(best) => Chosen { best, alternative: None },
        None => chosen,
    }
}

/// Routes with a busiest link that is less busy than that of `best`, if there are such. `best` cannot
/// deadlock where there is pause: of the routes that the planner may choose some never can.
fn less_busy(
    network: &Network,
    grid: Option<&Grid>,
    options: &PlanOptions,
    tagging: Tagging,
    effort: Effort,
    best: &Judged,
) -> Option<Judged> {
    let (channel, flows) = best.evaluation.busiest(network)?;
    // Without a search there is nothing to stop, and any bound is good enough.
    let least_pressure = least_pressure(network, if effort.balances { flows } else { 0 });
    let least = least_flows(network, least_pressure, network.rate(channel.link().0));
    if flows as f64 <= least {
        return None;
    }
    let limits = Limits {
        trees_max: effort.vlans_max,
        allows_cycles: !options.pause,
        seed: options.seed,
        is_thorough: options.search == SearchEffort::Full,
        least_pressure,
    };
    let solution = match tagging {
        Tagging::Switch => by_ports(network, grid, options, effort, limits)?,
        Tagging::Host => by_pairs(network, grid, options, effort, limits)?,
    };
    let evaluation = evaluate(network, &solution);
    let is_sound = evaluation.is_free || !options.pause;
    let is_better = is_worthwhile(best.evaluation.pressure(network), evaluation.pressure(network));
    (is_sound && is_better && solution.trees.len() <= effort.vlans_max)
        .then_some(Judged { solution, evaluation })
}

/// Whether a busiest link is so much less busy than before that a search is worth its VLANs.
fn is_worthwhile(before: u128, after: u128) -> bool {
    after < before - before / WORTHWHILE
}

/// Less busy routes where switches tag.
fn by_ports(
    network: &Network,
    grid: Option<&Grid>,
    options: &PlanOptions,
    effort: Effort,
    limits: Limits,
) -> Option<Solution> {
    let mut starts = starts(network, grid, options);
    let found = if effort.balances { balanced_trees(network, &starts, limits) } else { None };
    let trees = match found {
        Some(trees) => trees,
        None if starts.is_empty() => return None,
        None => starts.swap_remove(0),
    };
    Some(host_ports(network, &trees))
}

/// Less busy routes where hosts tag.
fn by_pairs(
    network: &Network,
    grid: Option<&Grid>,
    options: &PlanOptions,
    effort: Effort,
    limits: Limits,
) -> Option<Solution> {
    if !effort.balances {
        return None;
    }
    let ways = balanced_pairs(network, &pair_starts(network, grid, options), limits)?;
    let settings = ["routing = \"auto\"".to_owned()];
    let method = "balanced routes, one VLAN per pair of switches".to_owned();
    Some(by_way(network, method, &settings, ways, options.seed, effort.vlans_max))
}

/// Ways of pairs that a search may begin with, those with the least busy busiest link first.
fn pair_starts(network: &Network, grid: Option<&Grid>, options: &PlanOptions) -> Vec<Vec<PairWay>> {
    let mut candidates = [asked(network, grid, options), safe(network, grid, options)].concat();
    candidates.extend(in_orders(network, grid, options, WrapRule::Staggered));
    let judged = candidates.into_iter().filter_map(|candidate| {
        let ways = pair_ways(network, &candidate.0);
        let judged = judge(network, options, Tagging::Host, candidate);
        let is_usable = judged.evaluation.is_free || !options.pause;
        is_usable.then(|| (judged.evaluation.pressure(network), ways))
    });
    let mut starts: Vec<(u128, Vec<PairWay>)> = judged.collect();
    starts.sort_by_key(|(pressure, _)| *pressure);
    starts.truncate(STARTS_MAX);
    starts.into_iter().map(|(_, ways)| ways).collect()
}

/// Routes for the traffic of a network, if a search finds some, and what no routes go below: units for a
/// rate of 1 bit/s.
pub(crate) fn for_traffic(
    network: &Network,
    starts: &[Vec<SourceTree>],
    options: &PlanOptions,
    vlans_max: usize,
    is_thorough: bool,
) -> (Option<Chosen>, f64) {
    let least_pressure = least_pressure(network, u64::MAX);
    let limits = Limits {
        trees_max: vlans_max,
        allows_cycles: !options.pause,
        seed: options.seed,
        is_thorough,
        least_pressure,
    };
    let trees = balanced_trees(network, starts, limits);
    let chosen = trees.map(|trees| {
        let settings = vec!["routing = \"auto\"".to_owned()];
        let method = "routes for a given traffic, VLANs by host port".to_owned();
        let solution = in_order_of_hosts(network, method, settings, &trees);
        let evaluation = evaluate(network, &solution);
        Chosen { best: Judged { solution, evaluation }, alternative: None }
    });
    let is_safe = |chosen: &Chosen| chosen.best.evaluation.is_free || !options.pause;
    (chosen.filter(is_safe), least_pressure)
}

/// Trees that a search may begin with, those with the least busy busiest link first.
pub(crate) fn starts(network: &Network, grid: Option<&Grid>, options: &PlanOptions) -> Vec<Vec<SourceTree>> {
    let mut candidates = [asked(network, grid, options), safe(network, grid, options)].concat();
    candidates.extend(in_orders(network, grid, options, WrapRule::Staggered));
    let candidates = candidates.into_iter().map(|(paths, _)| all_hosts(network, paths));
    let judged = candidates.chain(by_host(network)).filter_map(|trees| {
        let evaluation = evaluate(network, &host_ports(network, &trees));
        let is_usable = evaluation.is_free || !options.pause;
        is_usable.then(|| (evaluation.pressure(network), trees))
    });
    let mut starts: Vec<(u128, Vec<SourceTree>)> = judged.collect();
    starts.sort_by_key(|(pressure, _)| *pressure);
    starts.dedup_by(|a, b| {
        a.0 == b.0 && a.1.len() == b.1.len() && a.1.iter().zip(&b.1).all(|(a, b)| a.tree == b.tree)
    });
    starts.truncate(STARTS_MAX);
    starts.into_iter().map(|(_, trees)| trees).collect()
}

fn host_ports(network: &Network, trees: &[SourceTree]) -> Solution {
    let settings = vec!["routing = \"auto\"".to_owned()];
    by_host_port(network, "balanced routes, VLANs by host port".to_owned(), settings, trees)
}

/// Chooses among what is known to be good.
fn as_asked(network: &Network, grid: Option<&Grid>, options: &PlanOptions, tagging: Tagging) -> Chosen {
    let judged = |candidate: Candidate| judge(network, options, tagging, candidate);
    let asked: Vec<Judged> = asked(network, grid, options).into_iter().map(judged).collect();
    let best = asked.into_iter().min_by_key(|judged| rank(network, options, judged));
    // A method that the network does not have (dimension order with a link gone) becomes the automatic one.
    let best = best.unwrap_or_else(|| judged((balanced(network, Spread::ByLoad), None)));
    let is_good = !options.pause || best.evaluation.is_free;
    if is_good {
        return Chosen { best, alternative: None };
    }
    let safe = safe(network, grid, options).into_iter().map(judged).filter(|j| j.evaluation.is_free);
    let alternative = safe.min_by_key(|judged| {
        let evaluation = &judged.evaluation;
        (evaluation.pressure(network), evaluation.hops, judged.solution.trees.len())
    });
    match alternative {
        Some(safe) if options.routing == Routing::Auto => Chosen { best: safe, alternative: None },
        // Dimension order, for example, was asked for, but the network has lost a link: the user did not ask
        // for the replacement.
        Some(safe) if network_lost_its_grid(network, grid, options) => {
            Chosen { best: safe, alternative: None }
        }
        alternative => Chosen { best, alternative },
    }
}

fn network_lost_its_grid(network: &Network, grid: Option<&Grid>, options: &PlanOptions) -> bool {
    let wants_grid = matches!(options.routing, Routing::DimensionOrder | Routing::NoWrapTransit);
    let is_whole = grid.is_some_and(|grid| {
        dimension_order(network, grid, &order_of(grid, options), WrapRule::Shortest).is_some()
    });
    wants_grid && !is_whole
}

fn order_of(grid: &Grid, options: &PlanOptions) -> Vec<usize> {
    if options.dimension_order.len() == grid.dimensions.len() {
        options.dimension_order.clone()
    } else {
        shortest_first(grid)
    }
}

/// Lower is better: free of deadlock if pause is on, then what was asked to be small, then the busiest link.
fn rank(network: &Network, options: &PlanOptions, judged: &Judged) -> (bool, usize, u128, u64, usize) {
    let vlan_count = judged.solution.trees.len();
    let few = if options.grouping == Grouping::Fewest { vlan_count } else { 0 };
    let evaluation = &judged.evaluation;
    let can_lock = options.pause && !evaluation.is_free;
    (can_lock, few, evaluation.pressure(network), evaluation.hops, vlan_count)
}

fn judge(
    network: &Network,
    options: &PlanOptions,
    tagging: Tagging,
    (paths, count_min): Candidate,
) -> Judged {
    let mut solution = match tagging {
        Tagging::Switch => by_source(network, paths),
        Tagging::Host => by_pair(network, &paths, options.seed),
    };
    if let (Tagging::Switch, Some(count_min)) = (tagging, count_min) {
        solution.vlan_count_min = count_min;
    }
    let evaluation = evaluate(network, &solution);
    Judged { solution, evaluation }
}

/// The candidates of the routing asked for.
fn asked(network: &Network, grid: Option<&Grid>, options: &PlanOptions) -> Vec<Candidate> {
    let is_few = options.grouping == Grouping::Fewest;
    match options.routing {
        Routing::DimensionOrder => in_orders(network, grid, options, WrapRule::Shortest),
        Routing::NoWrapTransit => in_orders(network, grid, options, WrapRule::NoTransit),
        Routing::Minimal => minimal(network, options),
        Routing::UpDown => vec![(up_down(network, is_few), None)],
        Routing::SpanningTree => vec![(spanning_tree(network), None)],
        Routing::Auto => {
            let on_grid = in_orders(network, grid, options, WrapRule::Shortest);
            if on_grid.is_empty() || is_few { [on_grid, minimal(network, options)].concat() } else { on_grid }
        }
    }
}

/// Methods that are free of deadlock wherever they apply.
fn safe(network: &Network, grid: Option<&Grid>, options: &PlanOptions) -> Vec<Candidate> {
    let mut candidates = in_orders(network, grid, options, WrapRule::NoTransit);
    candidates.push((up_down(network, options.grouping == Grouping::Fewest), None));
    candidates.push((spanning_tree(network), None));
    candidates
}

fn minimal(network: &Network, options: &PlanOptions) -> Vec<Candidate> {
    match options.grouping {
        Grouping::PerSource | Grouping::Balanced => {
            [Spread::ByRank, Spread::ByLoad].map(|spread| (balanced(network, spread), None)).into()
        }
        Grouping::Fewest => {
            let found = fewest(network, options.seed);
            vec![(found.paths, Some(found.tree_count_min))]
        }
    }
}

fn in_orders(
    network: &Network,
    grid: Option<&Grid>,
    options: &PlanOptions,
    rule: WrapRule,
) -> Vec<Candidate> {
    let Some(grid) = grid else { return Vec::new() };
    let orders = match options.grouping {
        Grouping::Fewest if options.dimension_order.is_empty() => orders(grid),
        _ => vec![order_of(grid, options)],
    };
    orders.iter().filter_map(|order| dimension_order(network, grid, order, rule)).map(|p| (p, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::networks_for_tests::described;
    use super::*;
    use crate::description::Machine;
    use crate::topology::Topology;

    fn machine(topology: &str, options: &str) -> Machine {
        described(topology, "", options)
    }

    /// The flows of pairs' ways on the busiest channel.
    fn busiest(network: &Network, ways: &[PairWay]) -> u64 {
        let mut flows = vec![0; 2 * network.link_count()];
        for way in ways {
            let both = u64::from(network.weight(way.low)) * u64::from(network.weight(way.high));
            for link in &way.links {
                flows[2 * *link as usize] += both;
                flows[2 * *link as usize + 1] += both;
            }
        }
        flows.into_iter().max().unwrap_or(0)
    }

    #[test]
    fn a_search_begins_with_the_least_busy_of_what_is_known() {
        for topology in [
            "kind = \"ring\"\nswitches = 6",
            "kind = \"torus\"\nextents = [5, 5]",
            "kind = \"torus\"\nextents = [6, 4]",
            "kind = \"hyperx\"\nextents = [3, 3]",
            // Without links that wrap around, the rules for those are one.
            "kind = \"mesh\"\nextents = [3, 3]",
            "kind = \"fat-tree\"\ndown = [4]\nup = [3]",
            "kind = \"dragonfly\"\ngroup_size = 3\nglobal_ports = 1\ngroups = 4",
        ] {
            for options in ["", "pause = false"] {
                let machine = machine(topology, options);
                let (network, options) = (Network::of(&machine, &[]), &machine.options);
                let grid = machine.topology.as_ref().and_then(Topology::grid);
                let grid = grid.as_ref();
                let worth = |trees: &[SourceTree]| {
                    let evaluation = evaluate(&network, &host_ports(&network, trees));
                    (evaluation.is_free || !options.pause).then(|| evaluation.pressure(&network))
                };
                let trees = |all: Vec<Candidate>| {
                    all.into_iter().map(|(paths, _)| all_hosts(&network, paths)).collect::<Vec<_>>()
                };
                let staggered = in_orders(&network, grid, options, WrapRule::Staggered);
                let own = [asked(&network, grid, options), safe(&network, grid, options)].concat();
                let others = [trees(own), by_host(&network).into_iter().collect()].concat();
                let least_of = |all: &[Vec<SourceTree>]| all.iter().filter_map(|trees| worth(trees)).min();
                let least = least_of(&others).into_iter().chain(least_of(&trees(staggered))).min();
                let starts = starts(&network, grid, options);
                let found: Vec<u128> = starts.iter().map(|trees| worth(trees).unwrap()).collect();
                assert_eq!(found.first().copied(), least, "{topology}");
                assert!(found.windows(2).all(|two| two[0] <= two[1]) && found.len() <= STARTS_MAX);
                let is_same = |a: &[SourceTree], b: &[SourceTree]| {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.tree == b.tree)
                };
                assert!(starts.windows(2).all(|two| !is_same(&two[0], &two[1])), "{topology}");
                let pairs = pair_starts(&network, grid, options);
                let loads: Vec<u64> = pairs.iter().map(|ways| busiest(&network, ways)).collect();
                assert!(loads.windows(2).all(|two| two[0] <= two[1]), "{topology}: {loads:?}");
            }
        }
    }

    /// Of shortest paths by load and by rank one is free of deadlock and the other is not.
    #[test]
    fn of_routes_asked_for_those_that_cannot_deadlock_are_taken() {
        let mut count = 0;
        for topology in [
            "kind = \"hypercube\"\ndimensions = 3",
            "kind = \"hyperx\"\nextents = [3, 3]",
            "kind = \"mesh\"\nextents = [3, 4]",
            "kind = \"torus\"\nextents = [3, 4]",
        ] {
            let machine = machine(topology, "routing = \"minimal\"\nvlans = \"per-source\"");
            let network = Network::of(&machine, &[]);
            let is_free = [Spread::ByRank, Spread::ByLoad]
                .map(|spread| evaluate(&network, &by_source(&network, balanced(&network, spread))).is_free);
            let plan = crate::vlan::plan(&machine).unwrap();
            assert_eq!(plan.verdicts.deadlock.is_free(), is_free[0] || is_free[1], "{topology}");
            count += u32::from(is_free[0] != is_free[1]);
        }
        assert!(count > 0);
    }

    #[test]
    fn few_vlans_are_looked_for_where_they_are_asked_for() {
        for (topology, routing) in [
            ("kind = \"mesh\"\nextents = [3, 4]", "up-down"),
            ("kind = \"hypercube\"\ndimensions = 3", "up-down"),
            ("kind = \"mesh\"\nextents = [4, 2]", "auto"),
        ] {
            let count = |vlans: &str| {
                let options = format!("routing = \"{routing}\"\nvlans = \"{vlans}\"");
                crate::vlan::plan(&machine(topology, &options)).unwrap().vlans.len()
            };
            assert!(count("fewest") < count("per-source"), "{topology}");
        }
    }

    #[test]
    fn a_search_is_worth_it_from_a_twentieth_on() {
        assert!(is_worthwhile(100, 94) && !is_worthwhile(100, 95) && !is_worthwhile(100, 100));
        assert!(is_worthwhile(19, 18) && !is_worthwhile(0, 0));
    }

    #[test]
    fn less_busy_routes_have_as_many_vlans_as_there_may_be() {
        let machine = machine("kind = \"complete\"\nswitches = 5", "");
        let (network, options) = (Network::of(&machine, &[]), &machine.options);
        let one = judge(&network, options, Tagging::Switch, (spanning_tree(&network), None));
        let found = |vlans_max| {
            let effort = Effort { vlans_max, balances: true };
            less_busy(&network, None, options, Tagging::Switch, effort, &one)
        };
        // One for each switch.
        assert_eq!(found(5).map(|judged| judged.solution.trees.len()), Some(5));
        assert!(found(4).is_none());
    }

    #[test]
    fn few_vlans_or_a_less_busy_link_come_first_as_asked() {
        let machine = machine("kind = \"mesh\"\nextents = [3, 3]", "");
        let network = Network::of(&machine, &[]);
        let judged = |paths| judge(&network, &machine.options, Tagging::Switch, (paths, None));
        let (one, several) = (judged(spanning_tree(&network)), judged(balanced(&network, Spread::ByLoad)));
        let is_one_better = |grouping| {
            let options = PlanOptions { grouping, ..machine.options.clone() };
            rank(&network, &options, &one) < rank(&network, &options, &several)
        };
        assert!(one.evaluation.is_free && several.evaluation.is_free);
        let all = [Grouping::Fewest, Grouping::PerSource, Grouping::Balanced];
        assert_eq!(all.map(is_one_better), [true, false, false]);
    }

    #[test]
    fn the_least_number_of_vlans_is_what_is_known_of_the_paths() {
        let machine = machine("kind = \"complete\"\nswitches = 4", "routing = \"minimal\"");
        let network = Network::of(&machine, &[]);
        let least = |tagging: Tagging, known: Option<usize>| {
            let candidate = (balanced(&network, Spread::ByLoad), known);
            judge(&network, &machine.options, tagging, candidate).solution.vlan_count_min
        };
        assert_eq!([None, Some(3)].map(|known| least(Tagging::Switch, known)), [4, 3]);
        // Pairs are another matter.
        assert_eq!([None, Some(3)].map(|known| least(Tagging::Host, known)), [2, 2]);
    }
}
