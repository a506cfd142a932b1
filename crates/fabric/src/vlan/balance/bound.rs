//! The least that the busiest link can carry, whatever the routes: a bound from the dual of a linear program.
//!
//! Spreading flows over all paths so that the busiest link carries least is the maximum concurrent flow
//! problem (F. Shahrokhi and D. Matula, 1990). Its dual gives every channel a length: for *any* lengths,
//! the flows' shortest distances together, divided by the lengths weighted with the channels' rates, are no
//! more than the busiest channel's flows for its rate. So each set of lengths is a proof, and good ones are
//! found by multiplying the length of a channel by a little the more of the shortest paths go over it. No
//! solver is needed, and no bound is too high.

use super::super::network::{NONE, Network};

/// Links looked at, over all rounds: a second at most.
const STEPS_MAX: u64 = 4_000_000;
const ROUNDS_MAX: u64 = 400;
/// Rounds without a better bound before that is enough.
const IDLE_ROUNDS_MAX: u64 = 60;
/// How much a length grows in a round, at most: this over the square root of the round.
const GROWTH: f64 = 0.5;

/// Flows on the busiest channel, for a rate of 1 bit/s. No routes have less. Looks no further once the
/// bound is that of `found_flows` on equally fast links: then these routes are the best.
pub(in super::super) fn least_pressure(network: &Network, found_flows: u64) -> f64 {
    *network.least_pressure.get_or_init(|| search(network, found_flows))
}

fn search(network: &Network, found_flows: u64) -> f64 {
    let Some(unit) = fastest(network) else { return 0.0 };
    let channels = Channels::new(network, unit);
    let rounds = STEPS_MAX / (1 + channels.to.len() as u64 * network.sources().count() as u64);
    let rounds = rounds.clamp(1, ROUNDS_MAX);
    let mut lengths: Vec<f64> = channels.capacities.iter().map(|capacity| 1.0 / capacity).collect();
    let is_even = channels.capacities.iter().all(|&capacity| capacity >= 1.0);
    let mut best: f64 = 0.0;
    let mut best_round = 0;
    for round in 1..=rounds {
        let (value, flows) = channels.shortest(network, &lengths);
        if value > best * 1.000_1 {
            best_round = round;
        }
        best = best.max(value);
        let is_reached = is_even && whole(best) >= found_flows;
        if is_reached || round > best_round + IDLE_ROUNDS_MAX {
            break;
        }
        let pressures: Vec<f64> =
            flows.iter().zip(&channels.capacities).map(|(flows, capacity)| flows / capacity).collect();
        let most = pressures.iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            break;
        }
        let growth = GROWTH / (round as f64).sqrt();
        for (length, pressure) in lengths.iter_mut().zip(&pressures) {
            *length *= 1.0 + growth * pressure / most;
        }
        let sum: f64 = lengths.iter().sum();
        lengths.iter_mut().for_each(|length| *length /= sum);
    }
    // Rounding of sums must not lift the bound above the truth.
    best * (1.0 - 1e-9) / unit as f64
}

/// Flows that a channel of this rate carries at least, if it is the busiest: a whole number where all are
/// as fast.
pub(in super::super) fn least_flows(network: &Network, least_pressure: f64, rate_bits_per_s: u64) -> f64 {
    let flows = least_pressure * rate_bits_per_s as f64;
    let mut links = network.alive().flat_map(|switch| network.arcs(switch)).map(|arc| arc.link);
    let is_even = links.all(|link| network.rate(link) == rate_bits_per_s);
    if is_even { whole(flows) as f64 } else { flows }
}

/// Rounded up: a flow takes one way. A little less than a whole number is taken for rounding.
fn whole(flows: f64) -> u64 {
    (flows - 1e-6).ceil().max(0.0) as u64
}

fn fastest(network: &Network) -> Option<u64> {
    let links = network.alive().flat_map(|switch| network.arcs(switch)).map(|arc| arc.link);
    links.map(|link| network.rate(link)).max().filter(|&rate| rate > 0)
}

/// The channels by their place among the network's arcs.
struct Channels {
    to: Vec<u32>,
    /// Rate over that of the fastest link.
    capacities: Vec<f64>,
}

impl Channels {
    fn new(network: &Network, unit: u64) -> Channels {
        let arcs = (0..network.arc_count()).map(|place| network.arc(place));
        let (to, capacities) = arcs.map(|arc| (arc.to, network.rate(arc.link) as f64 / unit as f64)).unzip();
        Channels { to, capacities }
    }

    /// The value of these lengths as a bound, and the flows if all go by shortest paths.
    fn shortest(&self, network: &Network, lengths: &[f64]) -> (f64, Vec<f64>) {
        let mut flows = vec![0.0; lengths.len()];
        let mut distance_sum = 0.0;
        let mut search = Dijkstra::new(network.switch_count());
        for source in network.sources() {
            search.run(network, lengths, source);
            let needs = network.needs(source, 0, network.weight(source));
            let mut below = vec![0.0; network.switch_count()];
            for &switch in search.order.iter().rev() {
                let here = if switch == source { 0.0 } else { needs[switch as usize] as f64 };
                distance_sum += here * search.distances[switch as usize];
                below[switch as usize] += here;
                let by = search.by[switch as usize];
                if by != NONE {
                    flows[by as usize] += below[switch as usize];
                    let before = search.before[switch as usize];
                    below[before as usize] += below[switch as usize];
                }
            }
        }
        let volume: f64 =
            lengths.iter().zip(&self.capacities).map(|(length, capacity)| length * capacity).sum();
        (if volume > 0.0 { distance_sum / volume } else { 0.0 }, flows)
    }
}

/// Shortest paths from one switch.
struct Dijkstra {
    distances: Vec<f64>,
    /// The arc by which a switch is reached, and the switch before.
    by: Vec<u32>,
    before: Vec<u32>,
    /// Switches by distance.
    order: Vec<u32>,
}

impl Dijkstra {
    fn new(switch_count: usize) -> Dijkstra {
        let none = vec![NONE; switch_count];
        Dijkstra { distances: vec![0.0; switch_count], by: none.clone(), before: none, order: Vec::new() }
    }

    fn run(&mut self, network: &Network, lengths: &[f64], source: u32) {
        self.distances.fill(f64::INFINITY);
        self.by.fill(NONE);
        self.before.fill(NONE);
        self.order.clear();
        self.distances[source as usize] = 0.0;
        let mut heap = std::collections::BinaryHeap::from([Nearest { distance: 0.0, item: source }]);
        while let Some(Nearest { distance, item: at }) = heap.pop() {
            if distance > self.distances[at as usize] {
                continue;
            }
            self.order.push(at);
            for place in network.arc_range(at) {
                let to = network.arc(place).to;
                let further = distance + lengths[place];
                if further < self.distances[to as usize] {
                    self.distances[to as usize] = further;
                    (self.by[to as usize], self.before[to as usize]) = (place as u32, at);
                    heap.push(Nearest { distance: further, item: to });
                }
            }
        }
    }
}

/// For a heap: the nearest is greatest, among equals the lowest number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nearest {
    pub(super) distance: f64,
    pub(super) item: u32,
}

impl Eq for Nearest {}

impl PartialOrd for Nearest {
    fn partial_cmp(&self, other: &Nearest) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Nearest {
    fn cmp(&self, other: &Nearest) -> std::cmp::Ordering {
        other.distance.total_cmp(&self.distance).then(other.item.cmp(&self.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Machine;

    fn network(text: &str) -> Network {
        // Links of generators take the last ports.
        let rate_gbps = if text.contains("kind") { 1 } else { 3 };
        let text = format!(
            "name = \"b\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n\
             fast_ports = {{ first = 9, last = 16, rate_gbps = {rate_gbps} }}\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\nswitch_model = \"s\"\n{text}\n\
             [hosts]\nmodel = \"h\"\nper_switch = 2\n"
        );
        Network::of(&Machine::parse("b.toml", &text).unwrap_or_else(|error| panic!("{error}")), &[])
    }

    /// Networks of which the best routes are known.
    #[test]
    fn the_bound_is_what_the_best_routes_put_on_the_busiest_link() {
        let two = |ports: &[u32]| {
            let cables =
                ports.iter().map(|port| format!("[[cable]]\nfrom = \"l:{port}\"\nto = \"r:{port}\"\n"));
            network(&format!(
                "[[switch]]\nname = \"l\"\n[[switch]]\nname = \"r\"\n{}",
                cables.collect::<String>()
            ))
        };
        let cases = [
            // Four flows in each direction.
            (two(&[5]), 4.0),
            (two(&[5, 6]), 2.0),
            // One of the four over 1 Gbit/s, three over 3: as busy for their rates.
            (two(&[5, 9]), 1.0),
            (network("kind = \"complete\"\nswitches = 5"), 4.0),
            // 2 x 4 hosts on either side of the middle.
            (network("kind = \"mesh\"\nextents = [4]"), 16.0),
            // Both ways round: a switch's four flows to the far side halve.
            (network("kind = \"ring\"\nswitches = 4"), 8.0),
        ];
        for (index, (network, flows)) in cases.into_iter().enumerate() {
            let found = search(&network, u64::MAX) * 1e9;
            assert!(found <= flows && found > 0.99 * flows, "{index}: {found} of {flows}");
            assert!((found - search(&network, u64::MAX) * 1e9).abs() == 0.0, "the same again");
        }
    }

    /// More links and sources than are looked at: one round is made all the same.
    #[test]
    fn a_network_of_any_size_has_a_bound() {
        let complete = crate::topology::Topology::Complete(crate::topology::Complete { switch_count: 161 });
        let link = crate::graph::LinkSpec { rate_bits_per_s: 1000, latency_ps: 0, cable_count: 1 };
        let graph = complete.build(link).unwrap();
        let network = Network::new(&graph, graph.link_count(), vec![1; 161], &[]);
        assert!(network.arc_count() as u64 * 161 > STEPS_MAX);
        assert_eq!(least_flows(&network, search(&network, u64::MAX), 1000), 1.0);
    }

    /// Links of one hundredth of the rate of others beside them take a hundredth.
    #[test]
    fn slow_links_are_looked_at_by_their_rate() {
        let text = |ports: [u32; 3]| {
            let cable = |a: &str, b: &str, port: u32| {
                format!("[[cable]]\nfrom = \"{a}:{port}\"\nto = \"{b}:{port}\"\n")
            };
            let [near, far, over] = ports;
            ["l", "m", "r"].map(|name| format!("[[switch]]\nname = \"{name}\"\n")).concat()
                + &cable("l", "m", near)
                + &cable("m", "r", far)
                + &cable("l", "r", over)
        };
        // Eight flows come to each of three switches with two hosts: to the middle over two slow links, or to
        // an end over a slow and a fast one.
        for (ports, flows) in [([5, 6, 9], 4.0), ([9, 10, 5], 2.0), ([9, 5, 6], 4.0)] {
            let found = search(&network(&text(ports)), u64::MAX) * 1e9;
            println!("{ports:?}: {found} of {flows}");
            assert!(found <= flows && found > 0.999 * flows, "{ports:?}: {found} of {flows}");
        }
    }

    #[test]
    fn bounds_are_whole_numbers_where_links_are_as_fast() {
        assert_eq!([whole(3.2), whole(3.000_000_1), whole(2.999_999_999), whole(0.0)], [4, 3, 3, 0]);
        let even = network("kind = \"ring\"\nswitches = 4");
        assert_eq!(least_flows(&even, 7.2e-9, 1_000_000_000), 8.0);
        let text = "[[switch]]\nname = \"l\"\n[[switch]]\nname = \"r\"\n[[cable]]\nfrom = \"l:5\"\n\
            to = \"r:5\"\n\
            [[cable]]\nfrom = \"l:9\"\nto = \"r:9\"";
        assert!((least_flows(&network(text), 0.9e-9, 3_000_000_000) - 2.7).abs() < 1e-9);
    }
}
