//! Routes by table, for graphs without a formula: shortest paths, and up*/down*.
//!
//! The table is by destination only, as switches have it: it needs neither the input port nor the source.

use std::collections::VecDeque;

use super::{Hop, RoutingError};
use crate::graph::{Graph, Port, SwitchId};

/// A table of 2 bytes for every pair of switches may reach 512 MiB; beyond that the graph is a mistake.
const SWITCH_COUNT_MAX: usize = 16_384;

/// A port for every switch and destination, on virtual channel 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    switch_count: usize,
    /// Indexed by destination and then by switch; the destination's own entry is never used.
    ports: Vec<Port>,
}

impl Table {
    /// Shortest paths. Among equally short ones, a switch uses its candidates (in port order) in turn over
    /// the destinations.
    ///
    /// # Errors
    /// If the graph is not connected or too large.
    pub fn minimal(graph: &Graph) -> Result<Table, RoutingError> {
        Table::fill(graph, |to| {
            let distances = graph.switch_distances(to);
            let ports = graph.switches().map(|at| {
                let closer = |far: SwitchId| distances[far.index()] < distances[at.index()];
                let near = graph.switch_neighbours(at).filter(|&(_, far)| closer(far));
                let candidates: Vec<Port> = near.map(|(neighbour, _)| neighbour.port).collect();
                candidates.get(to.index() % candidates.len().max(1)).copied().unwrap_or(0)
            });
            ports.collect()
        })
    }

    /// Up*/down*: links are ordered by distance from the root (and by number at equal distance); a path never
    /// goes up after it has gone down. A switch above the destination goes down, so that the table needs no
    /// input port; the price is that some paths are longer than the shortest legal one.
    ///
    /// # Errors
    /// If the graph is not connected or too large, or has no such root.
    pub fn up_down(graph: &Graph, root: Option<SwitchId>) -> Result<Table, RoutingError> {
        let switch_count = graph.switch_count();
        let root = match root {
            Some(root) if root.index() >= switch_count => {
                return Err(RoutingError::NoSuchRoot { root: root.0, switch_count });
            }
            Some(root) => root,
            None => middle(graph),
        };
        if switch_count == 0 {
            return Ok(Table { switch_count, ports: Vec::new() });
        }
        let levels = graph.switch_distances(root);
        let order = |switch: SwitchId| (levels[switch.index()], switch);
        let mut from_root: Vec<SwitchId> = graph.switches().collect();
        from_root.sort_unstable_by_key(|&switch| order(switch));
        Table::fill(graph, |to| {
            let mut distances: Vec<Option<u32>> = vec![None; switch_count];
            let mut ports = vec![0; switch_count];
            distances[to.index()] = Some(0);
            // Searches backwards from the destination for the switches that reach it going down only.
            let mut queue = VecDeque::from([to]);
            while let Some(at) = queue.pop_front() {
                let above = graph.switch_neighbours(at).filter(|&(_, far)| order(far) < order(at));
                for (neighbour, far) in above {
                    if distances[far.index()].is_none() {
                        distances[far.index()] = distances[at.index()].map(|distance| distance + 1);
                        ports[far.index()] = neighbour.far.port;
                        queue.push_back(far);
                    }
                }
            }
            // All others go up; the switches above them in order have their answers already.
            for &at in &from_root {
                if distances[at.index()].is_some() {
                    continue;
                }
                let above = graph.switch_neighbours(at).filter(|&(_, far)| order(far) < order(at));
                let reaching = above.filter_map(|(n, far)| Some((distances[far.index()]?, n.port)));
                if let Some((distance, port)) = reaching.min() {
                    distances[at.index()] = Some(distance + 1);
                    ports[at.index()] = port;
                }
            }
            ports
        })
    }

    /// See [`super::Routing::next_hop`].
    #[inline]
    pub fn next_hop(&self, at: SwitchId, to: SwitchId) -> Hop {
        Hop { port: self.ports[to.index() * self.switch_count + at.index()], vc: 0 }
    }

    fn fill(graph: &Graph, mut ports_to: impl FnMut(SwitchId) -> Vec<Port>) -> Result<Table, RoutingError> {
        let switch_count = graph.switch_count();
        if switch_count > SWITCH_COUNT_MAX {
            return Err(RoutingError::TooManySwitches { switch_count, max: SWITCH_COUNT_MAX });
        }
        if let Some(lost) = graph.unreachable_switch() {
            let name = |switch: SwitchId| graph.name(switch.into()).to_string();
            return Err(RoutingError::Unreachable { from: name(SwitchId(0)), to: name(lost) });
        }
        let mut ports = Vec::with_capacity(switch_count * switch_count);
        for to in graph.switches() {
            ports.extend(ports_to(to));
        }
        Ok(Table { switch_count, ports })
    }
}

/// The switch whose farthest switch is nearest (the lowest number among equals).
fn middle(graph: &Graph) -> SwitchId {
    let eccentricity = |&switch: &SwitchId| graph.switch_distances(switch).into_iter().flatten().max();
    graph.switches().min_by_key(eccentricity).unwrap_or(SwitchId(0))
}
