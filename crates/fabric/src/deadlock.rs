//! Deadlock freedom: the channel-dependency graph and its cycles.
//!
//! W. Dally and C. Seitz (1987): deterministic routing is free of deadlock exactly if no cycle of channels
//! exists in which each is held by packets that wait for the next. A *lane* here is what a packet can hold
//! while it waits: a channel with its virtual channel. Ethernet with 802.3x pause has one lane a channel,
//! whatever VLANs say, so VLANs are judged together: add all their paths to one [`Dependencies`].
//!
//! Links to hosts are left out: a host takes what arrives without waiting for the network, so they end every
//! chain.

use std::collections::VecDeque;

use crate::graph::{ChannelId, Graph, SwitchId};

pub use crate::graph::Lane;

use crate::routing::{Routing, RoutingError};

/// Which lanes wait for which.
#[derive(Debug, Clone)]
pub struct Dependencies {
    vc_count: u8,
    /// Indexed by lane: the lanes waited for, in order, each once.
    waits_for: Vec<Vec<u32>>,
}

impl Dependencies {
    /// No dependencies among the lanes of a graph with `channel_count` channels of `vc_count` virtual
    /// channels.
    pub fn new(channel_count: usize, vc_count: u8) -> Dependencies {
        Dependencies { vc_count, waits_for: vec![Vec::new(); channel_count * usize::from(vc_count)] }
    }

    /// A packet may hold `held` while it waits for `wanted`.
    pub fn add(&mut self, held: Lane, wanted: Lane) {
        let (held, wanted) = (self.index(held), self.index(wanted));
        let list = &mut self.waits_for[held as usize];
        if let Err(place) = list.binary_search(&wanted) {
            list.insert(place, wanted);
        }
    }

    /// A packet crosses these lanes in turn.
    pub fn add_path(&mut self, path: &[Lane]) {
        for pair in path.windows(2) {
            self.add(pair[0], pair[1]);
        }
    }

    /// Number of different dependencies.
    pub fn count(&self) -> usize {
        self.waits_for.iter().map(Vec::len).sum()
    }

    /// Whether there is no cycle.
    pub fn is_free(&self) -> bool {
        self.peel().is_empty()
    }

    /// A cycle of lanes, each waiting for the next and the last for the first, or `None` if there is none.
    /// Among the cycles through the lanes tried it is a shortest; all lanes on cycles are tried unless they
    /// are very many.
    pub fn find_cycle(&self) -> Option<Vec<Lane>> {
        // Breadth-first search from each costs the size of the graph: bound the product.
        self.find_cycle_within((20_000_000 / self.count().max(1)).max(16))
    }

    /// [`Dependencies::find_cycle`] that tries so many lanes.
    fn find_cycle_within(&self, tries: usize) -> Option<Vec<Lane>> {
        let mut best: Option<Vec<u32>> = None;
        for (tried, start) in self.peel().into_iter().enumerate() {
            // A lane left by peeling may only lead from one cycle to another: try on until a cycle is met.
            if tried >= tries && best.is_some() {
                break;
            }
            let limit = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(cycle) = self.shortest_cycle_through(start, limit) {
                best = Some(cycle);
            }
        }
        Some(best?.into_iter().map(|lane| self.lane(lane)).collect())
    }

    /// Lanes left when those without predecessors or without successors are taken away again and again.
    fn peel(&self) -> Vec<u32> {
        let lane_count = self.waits_for.len();
        let mut alive = vec![true; lane_count];
        let mut reverse: Vec<Vec<u32>> = vec![Vec::new(); lane_count];
        for (held, list) in self.waits_for.iter().enumerate() {
            list.iter().for_each(|&wanted| reverse[wanted as usize].push(held as u32));
        }
        for (forward, backward) in [(&self.waits_for, &reverse), (&reverse, &self.waits_for)] {
            let living = |list: &[u32], alive: &[bool]| list.iter().filter(|&&l| alive[l as usize]).count();
            let mut degrees: Vec<usize> = backward.iter().map(|list| living(list, &alive)).collect();
            let mut stack: Vec<usize> = (0..lane_count).filter(|&l| alive[l] && degrees[l] == 0).collect();
            while let Some(lane) = stack.pop() {
                alive[lane] = false;
                for &next in &forward[lane] {
                    let next = next as usize;
                    degrees[next] -= usize::from(alive[next]);
                    if alive[next] && degrees[next] == 0 {
                        stack.push(next);
                    }
                }
            }
        }
        (0..lane_count as u32).filter(|&lane| alive[lane as usize]).collect()
    }

    fn shortest_cycle_through(&self, start: u32, limit: usize) -> Option<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let mut came_from = vec![UNSEEN; self.waits_for.len()];
        let mut queue = VecDeque::from([(start, 1)]);
        while let Some((lane, length)) = queue.pop_front() {
            if length >= limit {
                return None;
            }
            for &next in &self.waits_for[lane as usize] {
                if next == start {
                    let trace = std::iter::successors(Some(lane), |&at| {
                        (at != start).then(|| came_from[at as usize])
                    });
                    let mut cycle: Vec<u32> = trace.collect();
                    cycle.reverse();
                    return Some(cycle);
                }
                if came_from[next as usize] == UNSEEN {
                    came_from[next as usize] = lane;
                    queue.push_back((next, length + 1));
                }
            }
        }
        None
    }

    fn index(&self, lane: Lane) -> u32 {
        debug_assert!(lane.vc < self.vc_count, "virtual channel {} of {}", lane.vc, self.vc_count);
        lane.channel.0 * u32::from(self.vc_count) + u32::from(lane.vc)
    }

    fn lane(&self, index: u32) -> Lane {
        let vc_count = u32::from(self.vc_count);
        Lane { channel: ChannelId(index / vc_count), vc: (index % vc_count) as u8 }
    }
}

/// Whether routes can deadlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They cannot: the dependencies, so many of them, have no cycle.
    Free {
        /// Number of dependencies among lanes.
        dependency_count: usize,
    },
    /// They can: these lanes may each be full of packets waiting for the next, the last for the first.
    Cycle(Vec<Lane>),
}

impl Verdict {
    /// Judges dependencies.
    pub fn of(dependencies: &Dependencies) -> Verdict {
        match dependencies.find_cycle() {
            Some(cycle) => Verdict::Cycle(cycle),
            None => Verdict::Free { dependency_count: dependencies.count() },
        }
    }

    /// Whether the routes cannot deadlock.
    pub fn is_free(&self) -> bool {
        matches!(self, Verdict::Free { .. })
    }

    /// The verdict in words, one line for each lane of a cycle.
    pub fn describe(&self, graph: &Graph) -> String {
        match self {
            Verdict::Free { dependency_count } => {
                format!("free of deadlock: {dependency_count} channel dependencies without a cycle")
            }
            Verdict::Cycle(lanes) => {
                let lanes = lanes.iter().map(|lane| format!("\n  {}", describe_lane(graph, *lane)));
                format!(
                    "can deadlock: each of these waits for the next, the last for the first{}",
                    lanes.collect::<String>()
                )
            }
        }
    }
}

/// A lane in words.
pub fn describe_lane(graph: &Graph, lane: Lane) -> String {
    format!("{} (virtual channel {})", graph.describe_channel(lane.channel), lane.vc)
}

/// Judges the routes between all pairs of switches that `is_endpoint` accepts (those with hosts), all flows
/// included.
///
/// # Errors
/// If a route breaks: graph and routing do not belong together.
pub fn check(
    graph: &Graph,
    routing: &Routing,
    is_endpoint: impl Fn(SwitchId) -> bool,
) -> Result<Verdict, RoutingError> {
    let mut dependencies = Dependencies::new(graph.channel_count(), routing.vc_count());
    let endpoints: Vec<SwitchId> = graph.switches().filter(|&switch| is_endpoint(switch)).collect();
    for &to in &endpoints {
        for &from in &endpoints {
            for flow in 0..routing.flow_count() {
                dependencies.add_path(&routing.path(graph, from, to, flow)?);
            }
        }
    }
    Ok(Verdict::of(&dependencies))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    fn lane(channel: u32) -> Lane {
        Lane { channel: ChannelId(channel), vc: 0 }
    }

    /// The plain way: does any lane reach itself? (Floyd and Warshall.)
    fn some_lane_reaches_itself(dependencies: &Dependencies) -> bool {
        let n = dependencies.waits_for.len();
        let mut reaches = vec![vec![false; n]; n];
        for (held, list) in dependencies.waits_for.iter().enumerate() {
            list.iter().for_each(|&wanted| reaches[held][wanted as usize] = true);
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    reaches[i][j] |= reaches[i][k] && reaches[k][j];
                }
            }
        }
        (0..n).any(|i| reaches[i][i])
    }

    #[test]
    fn a_shortest_cycle_is_the_witness() {
        let mut dependencies = Dependencies::new(9, 1);
        // A chain into a cycle of four, a bridge, a cycle of three, a chain out.
        let chain = [8, 0, 1, 2, 3, 0].map(lane);
        dependencies.add_path(&chain);
        dependencies.add_path(&[2, 4, 5, 6, 4, 7].map(lane));
        let cycle = dependencies.find_cycle().unwrap();
        assert_eq!(cycle, [4, 5, 6].map(lane));
    }

    #[test]
    fn lanes_between_cycles_do_not_hide_a_cycle() {
        let mut dependencies = Dependencies::new(9, 1);
        // From a cycle of three by way of the first two lanes to a cycle of two, tried in this order.
        dependencies.add_path(&[2, 3, 4, 2, 0, 1, 5, 6, 5].map(lane));
        for tries in 1..=3 {
            assert_eq!(dependencies.find_cycle_within(tries), Some([2, 3, 4].map(lane).to_vec()), "{tries}");
        }
        assert_eq!(dependencies.find_cycle_within(7), Some([5, 6].map(lane).to_vec()));
    }

    #[test]
    fn lanes_of_a_cycle_have_their_virtual_channels() {
        let lane = |channel, vc| Lane { channel: ChannelId(channel), vc };
        let mut dependencies = Dependencies::new(4, 2);
        dependencies.add_path(&[lane(0, 0), lane(1, 1), lane(3, 0), lane(2, 1), lane(1, 1)]);
        assert_eq!(dependencies.find_cycle(), Some(vec![lane(1, 1), lane(3, 0), lane(2, 1)]));
    }

    #[test]
    fn verdict_equals_brute_force_on_random_dependencies() {
        for seed in 0..2_000_u64 {
            let mut random = Random::new(seed);
            let mut random = |bound: u64| random.below(bound) as u32;
            let lanes = 2 + u64::from(random(14));
            let mut dependencies = Dependencies::new(lanes as usize, 1);
            for _ in 0..random(2 * lanes) {
                dependencies.add(lane(random(lanes)), lane(random(lanes)));
            }
            let cycle = dependencies.find_cycle();
            assert_eq!(cycle.is_some(), some_lane_reaches_itself(&dependencies), "seed {seed}");
            assert_eq!(cycle.is_none(), dependencies.is_free(), "seed {seed}");
            if let Some(cycle) = cycle {
                for (i, &held) in cycle.iter().enumerate() {
                    let wanted = dependencies.index(cycle[(i + 1) % cycle.len()]);
                    let held = dependencies.index(held) as usize;
                    assert!(dependencies.waits_for[held].contains(&wanted), "seed {seed}: {cycle:?}");
                }
            }
        }
    }
}
