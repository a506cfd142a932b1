//! Virtual topologies (MPI-5.0 §8): the neighbours of each process. This module is pure; a communicator keeps
//! its topology (`comm.rs`), its duplicates share it.

mod cartesian;
mod dimensions;
mod placement;

pub(crate) use cartesian::Cartesian;
pub(crate) use dimensions::balanced_dimensions;
pub(crate) use placement::cartesian_placement;

use ayatori_core::ids::Rank;
use std::ffi::c_int;

/// The virtual topology of a communicator.
#[derive(Debug)]
pub(crate) enum Topology {
    /// `MPI_CART`
    Cartesian(Cartesian),
    /// `MPI_GRAPH`
    Graph(Graph),
    /// `MPI_DIST_GRAPH`
    DistGraph(DistGraph),
}

/// A graph of which each process knows all (`MPI_Graph_create`).
#[derive(Debug)]
pub(crate) struct Graph {
    /// Where the neighbours of each node end in `edges`.
    pub(crate) ends: Vec<usize>,
    /// The neighbours of all nodes, one node after the other.
    pub(crate) edges: Vec<Rank>,
}

impl Graph {
    /// The neighbours of a node, if there is such a node.
    pub(crate) fn neighbors(&self, node: Rank) -> Option<&[Rank]> {
        let node = node as usize;
        let end = *self.ends.get(node)?;
        let begin = if node == 0 { 0 } else { self.ends[node - 1] };
        self.edges.get(begin..end)
    }
}

/// The edges that touch one process, in the order of its neighbour lists.
#[derive(Debug, Default)]
pub(crate) struct DistGraph {
    /// Edges that end here.
    pub(crate) sources: Edges,
    /// Edges that begin here.
    pub(crate) destinations: Edges,
    /// Whether the edges have weights.
    pub(crate) is_weighted: bool,
}

/// Edges of one process, by their other ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// The other ends.
    pub(crate) ranks: Vec<Rank>,
    /// The weights, one an edge; 1 each where the graph has none.
    pub(crate) weights: Vec<c_int>,
}

/// The neighbours of one process, as collective operations on them see it (MPI-5.0 §8.6). `None` stands for
/// `MPI_PROC_NULL`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Neighborhood {
    /// Where blocks come from, in the order of the receive buffer.
    pub(crate) sources: Vec<Option<Rank>>,
    /// Where blocks go to, in the order of the send buffer.
    pub(crate) destinations: Vec<Option<Rank>>,
    /// The indices of the sources in the order in which several blocks of one process match: a process sends
    /// in the order of its destinations.
    pub(crate) matching: Vec<usize>,
}

impl Topology {
    /// The neighbours of the process `rank`.
    pub(crate) fn neighborhood(&self, rank: Rank) -> Neighborhood {
        let some = |ranks: &[Rank]| ranks.iter().copied().map(Some).collect::<Vec<_>>();
        let (sources, destinations) = match self {
            Self::Cartesian(grid) => {
                let neighbors = grid.neighbors(rank);
                // A block sent down in a dimension is received from above. Only in a periodic dimension of
                // one or two processes are both neighbours the same, so that the order matters.
                let matching = (0..neighbors.len()).map(|index| index ^ 1).collect();
                return Neighborhood { sources: neighbors.clone(), destinations: neighbors, matching };
            }
            Self::Graph(graph) => {
                let neighbors = some(graph.neighbors(rank).unwrap_or_default());
                (neighbors.clone(), neighbors)
            }
            Self::DistGraph(graph) => (some(&graph.sources.ranks), some(&graph.destinations.ranks)),
        };
        let matching = (0..sources.len()).collect();
        Neighborhood { sources, destinations, matching }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_neighbors_are_the_nodes_own_part() {
        let graph = Graph { ends: vec![2, 3, 3, 6], edges: vec![1, 3, 0, 0, 2, 3] };
        assert_eq!(graph.neighbors(0), Some(&[1, 3][..]));
        assert_eq!(graph.neighbors(1), Some(&[0][..]));
        assert_eq!(graph.neighbors(2), Some(&[][..]));
        assert_eq!(graph.neighbors(3), Some(&[0, 2, 3][..]));
        assert_eq!(graph.neighbors(4), None);
    }

    /// Each block that a process sends in one direction is received in the place of the opposite one.
    #[test]
    fn what_goes_up_in_a_grid_comes_from_below() {
        for (dims, periods) in [
            (vec![1], vec![true]),
            (vec![2], vec![true]),
            (vec![2], vec![false]),
            (vec![1, 2], vec![true, true]),
            (vec![2, 3, 1], vec![true, false, true]),
            (vec![4, 2], vec![true, true]),
        ] {
            let grid = Topology::Cartesian(Cartesian { dims: dims.clone(), periods });
            let size: u32 = dims.iter().product();
            let all: Vec<_> = (0..size).map(|rank| grid.neighborhood(rank)).collect();
            for (from, own) in all.iter().enumerate() {
                for (direction, to) in own.destinations.iter().enumerate() {
                    let Some(to) = *to else { continue };
                    let sent_before =
                        own.destinations[..direction].iter().filter(|d| **d == Some(to)).count();
                    let theirs = &all[to as usize];
                    let from_here = |index: &&usize| theirs.sources[**index] == Some(from as Rank);
                    let place = theirs.matching.iter().filter(from_here).nth(sent_before);
                    assert_eq!(place, Some(&(direction ^ 1)), "{dims:?}: {from} sends {to} in {direction}");
                }
            }
        }
    }
}
