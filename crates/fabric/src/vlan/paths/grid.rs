//! Dimension order on meshes, tori, rings and hypercubes.
//!
//! The prefix of a dimension-order path is the dimension-order path to the switch in between, so the paths
//! from one source form a tree. Around a ring the shorter way is taken; where both are equally long, even
//! coordinates go up and odd ones down, which keeps rings of four free of deadlock: no three channels in a
//! row are chained. From five switches on, two-hop paths chain all the way round ([`WrapRule::Shortest`] is
//! then not free of deadlock); [`WrapRule::NoTransit`] lets no path pass *through* coordinate 0, which breaks
//! every ring's chain there and costs little length.

use crate::topology::grid::Grid;

use super::super::network::{Arc, NONE, Network};
use super::super::tree::RootedTree;
use super::Paths;

/// How dimensions that wrap around are crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrapRule {
    /// The shorter way round.
    Shortest,
    /// Never through coordinate 0.
    NoTransit,
    /// Never through one coordinate, which differs from ring to ring: channels that carry more for it lie
    /// elsewhere in each.
    Staggered,
}

/// Dimension order, correcting the dimensions in `order`.
pub(crate) fn dimension_order(
    network: &Network,
    grid: &Grid,
    order: &[usize],
    rule: WrapRule,
) -> Option<Paths> {
    let trees: Option<Vec<RootedTree>> =
        network.sources().map(|source| tree(network, grid, order, rule, source)).collect();
    let (words, name) = match rule {
        WrapRule::Shortest => ("dimension order", "dimension-order"),
        WrapRule::NoTransit => ("dimension order without transit through coordinate 0", "no-wrap-transit"),
        WrapRule::Staggered => ("dimension order without transit through one coordinate", "auto"),
    };
    let mut settings = vec![format!("routing = \"{name}\"")];
    if order != shortest_first(grid) {
        settings.push(format!("dimension_order = {order:?}"));
    }
    Some(Paths { method: format!("{words} {order:?}"), settings, trees: trees? })
}

/// Dimensions from the shortest to the longest: the order that the paper's numbers of VLANs imply (mesh and
/// torus 4×2 with four, figure 2: the hosts of a column share).
pub(crate) fn shortest_first(grid: &Grid) -> Vec<usize> {
    let mut order: Vec<usize> = (0..grid.dimensions.len()).collect();
    order.sort_by_key(|&d| grid.dimensions[d].extent);
    order
}

/// Orders worth trying: all of up to four dimensions, else shortest and longest first.
pub(crate) fn orders(grid: &Grid) -> Vec<Vec<usize>> {
    let shortest = shortest_first(grid);
    if shortest.len() > 4 {
        let longest = shortest.iter().rev().copied().collect();
        return vec![shortest, longest];
    }
    let mut orders = vec![Vec::new()];
    for _ in 0..shortest.len() {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let unused = shortest.iter().filter(|d| !order.contains(d)).copied().collect::<Vec<_>>();
            unused.into_iter().map(move |d| [order.as_slice(), &[d]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

fn tree(network: &Network, grid: &Grid, order: &[usize], rule: WrapRule, source: u32) -> Option<RootedTree> {
    let from = grid.coordinates(source);
    let mut parents = vec![Arc { to: NONE, link: NONE }; network.switch_count()];
    for switch in (0..network.switch_count() as u32).filter(|&switch| switch != source) {
        let mut at = grid.coordinates(switch);
        let last = order.iter().rev().copied().find(|&d| at[d] != from[d])?;
        let dimension = grid.dimensions[last];
        let extent = dimension.extent;
        let broken = if rule == WrapRule::Staggered { broken_at(&at, last, extent) } else { 0 };
        let [here, there] = [from[last], at[last]].map(|c| (c + extent - broken) % extent);
        let up = if dimension.wraps {
            goes_up(here, there, extent, true, rule)
        } else {
            goes_up(from[last], at[last], extent, false, rule)
        };
        at[last] = if up { at[last] + extent - 1 } else { at[last] + 1 } % extent;
        let before = grid.switch_at(&at);
        parents[switch as usize] = *network.arcs(switch).iter().find(|arc| arc.to == before)?;
    }
    Some(RootedTree::from_parents(source, parents).pruned(network))
}

/// The coordinate that no path passes through, in the ring through `at` along a dimension.
fn broken_at(at: &[u32], along: usize, extent: u32) -> u32 {
    // Neighbouring rings are broken far from each other.
    let sum: u32 = (0..at.len()).filter(|&d| d != along).map(|d| at[d]).sum();
    sum * (extent / 2 + 1) % extent
}

/// Whether the way from `from` to `to` goes towards higher coordinates.
fn goes_up(from: u32, to: u32, extent: u32, wraps: bool, rule: WrapRule) -> bool {
    if !wraps || (rule != WrapRule::Shortest && from != 0 && to != 0) {
        return to > from;
    }
    let up = (to + extent - from) % extent;
    let down = extent - up;
    up < down || (up == down && from.is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Machine;

    #[test]
    fn no_transit_never_passes_through_zero() {
        for extent in 3..9 {
            for (from, to) in
                (0..extent).flat_map(|a| (0..extent).map(move |b| (a, b))).filter(|(a, b)| a != b)
            {
                let up = goes_up(from, to, extent, true, WrapRule::NoTransit);
                let step = if up { 1 } else { extent - 1 };
                let mut at = (from + step) % extent;
                while at != to {
                    assert_ne!(at, 0, "from {from} to {to} of {extent}");
                    at = (at + step) % extent;
                }
            }
        }
    }

    #[test]
    fn no_ring_of_a_torus_is_passed_at_zero() {
        let link = crate::graph::LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let torus = crate::topology::Torus::new(&[5, 4]);
        let graph = crate::topology::Topology::Torus(torus.clone()).build(link).unwrap();
        let network = Network::new(&graph, graph.link_count(), vec![1; 20], &[]);
        let grid = torus.grid();
        let paths = dimension_order(&network, &grid, &[0, 1], WrapRule::NoTransit).unwrap();
        for tree in &paths.trees {
            for &switch in &tree.order[1..] {
                let middle = tree.parents[switch as usize].to;
                let before = tree.parents[middle as usize].to;
                if before == NONE {
                    continue;
                }
                let [from, at, to] = [before, middle, switch].map(|switch| grid.coordinates(switch));
                // On along one dimension: not at its first switch.
                let goes_on = (0..2).find(|&d| from[d] != at[d] && at[d] != to[d]);
                assert!(goes_on.is_none_or(|d| at[d] != 0), "{from:?} {at:?} {to:?}");
            }
        }
    }

    #[test]
    fn each_rule_has_the_words_that_ask_for_it() {
        let link = crate::graph::LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
        let ring = crate::topology::Ring { switch_count: 5 };
        let graph = crate::topology::Topology::Ring(ring.clone()).build(link).unwrap();
        let network = Network::new(&graph, graph.link_count(), vec![1; 5], &[]);
        for (rule, name, words) in [
            (WrapRule::Shortest, "dimension-order", "dimension order ["),
            (WrapRule::NoTransit, "no-wrap-transit", "without transit through coordinate 0"),
            (WrapRule::Staggered, "auto", "without transit through one coordinate"),
        ] {
            let paths = dimension_order(&network, &ring.grid(), &[0], rule).unwrap();
            assert_eq!(paths.settings, [format!("routing = \"{name}\"")]);
            assert!(paths.method.contains(words), "{}", paths.method);
        }
    }

    #[test]
    fn all_orders_of_three_dimensions_are_six() {
        let orders = orders(&Grid::mesh(&[4, 2, 8]));
        assert_eq!(orders.len(), 6);
        assert_eq!(shortest_first(&Grid::mesh(&[4, 2, 8])), [1, 0, 2]);
        assert!(orders.contains(&vec![2, 0, 1]));
    }

    #[test]
    fn orders_worth_trying_are_all_of_four_dimensions_or_two() {
        let of = |count: usize| orders(&Grid::mesh(&vec![3; count]));
        assert_eq!([1, 2, 3, 4].map(|count| of(count).len()), [1, 2, 6, 24]);
        assert_eq!(of(5), [vec![0, 1, 2, 3, 4], vec![4, 3, 2, 1, 0]]);
    }

    #[test]
    fn an_order_that_is_not_the_usual_one_is_in_the_settings() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                    nic = [{ name = \"e\", rate_gbps = 1 }]\n[topology]\nkind = \"mesh\"\nextents = [3, 2]\n\
                    switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n";
        let machine = Machine::parse("m.toml", text).unwrap();
        let network = Network::of(&machine, &[]);
        let grid = machine.topology.as_ref().and_then(crate::topology::Topology::grid).unwrap();
        let settings =
            |order: &[usize]| dimension_order(&network, &grid, order, WrapRule::Shortest).unwrap().settings;
        assert_eq!(settings(&[1, 0]), ["routing = \"dimension-order\""]);
        assert_eq!(settings(&[0, 1]), ["routing = \"dimension-order\"", "dimension_order = [0, 1]"]);
    }
}
