//! Random networks for tests of the planner's parts.

use crate::description::Machine;
use crate::graph::{Graph, LinkSpec};
use crate::topology::{Explicit, Topology};
use ayatori_random::Random;

use super::network::{Failure, Network};

/// A topology of switches with 16 ports and, by `model`, other keys; two hosts at each, and `[plan]`'s
/// `options`.
pub(crate) fn described(topology: &str, model: &str, options: &str) -> Machine {
    let text = format!(
        "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n{model}\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
         [hosts]\nmodel = \"h\"\nper_switch = 2\n[plan]\n{options}\n"
    );
    Machine::parse("m.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// What a network is made of, so that it can be made again with something failed.
pub(crate) struct Parts {
    graph: Graph,
    links: Vec<(u32, u32)>,
    weights: Vec<u32>,
}

impl Parts {
    /// Of links by their ends and the hosts of each switch.
    pub(crate) fn of(links: &[(u32, u32)], weights: &[u32]) -> Parts {
        let switches = (0..weights.len()).map(|switch| format!("s{switch}")).collect();
        let wide = links.iter().map(|&(a, b)| (a, b, 1)).collect();
        let link = LinkSpec { rate_bits_per_s: 1_000_000_000, latency_ps: 0, cable_count: 1 };
        let graph = Topology::Explicit(Explicit { switches, links: wide }).build(link).expect("a graph");
        Parts { graph, links: links.to_vec(), weights: weights.to_vec() }
    }

    /// The same with the switches numbered from the other end: the first ones have fewest links then.
    pub(crate) fn backwards(&self) -> Parts {
        let last = self.weights.len() as u32 - 1;
        let links: Vec<(u32, u32)> = self.links.iter().map(|&(a, b)| (last - b, last - a)).collect();
        let weights: Vec<u32> = self.weights.iter().rev().copied().collect();
        Parts::of(&links, &weights)
    }

    /// A connected graph of 4 to `switches_max` switches, of which one in four has no hosts if `has_bare`,
    /// and some are joined twice.
    pub(crate) fn random(seed: u64, switches_max: usize, has_bare: bool) -> Parts {
        let mut random = Random::new(seed);
        let count = 4 + random.index(switches_max - 3);
        let mut links: Vec<(u32, u32)> =
            (1..count).map(|switch| (random.index(switch) as u32, switch as u32)).collect();
        for _ in 0..1 + random.index(count) {
            let (a, b) = (random.index(count) as u32, random.index(count) as u32);
            if a != b {
                links.push((a.min(b), a.max(b)));
            }
        }
        let mut weights: Vec<u32> = Vec::new();
        for switch in 0..count {
            let is_bare = has_bare && (1..count - 1).contains(&switch) && random.one_in(4);
            weights.push(if is_bare { 0 } else { 1 + random.index(3) as u32 });
        }
        Parts::of(&links, &weights)
    }

    pub(crate) fn network(&self, failures: &[Failure]) -> Network {
        Network::new(&self.graph, self.graph.link_count(), self.weights.clone(), failures)
    }
}
