//! Examples that BookSim2 and CAMINOS publish, in our model (studies/network/published.py):
//!
//!     compare_published CASE LOAD [channel-first] [per-port] [window=CYCLES]
//!
//! prints accepted load, as a part of what the senders could send, and the mean latency from the NIC's link
//! to the last flit, in cycles. Cases are named as BookSim2's files in src/examples; `caminos-…` is the
//! default experiment of caminos-lib. A cycle is a flit of 16 B at 5 GB/s.

use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{Explicit, FatTree, HostLayout, HyperX, Mesh, Topology, Torus};
use ayatori_sim::network::{Arbitration, Config, CrossbarInputs, Network, NicId};
use ayatori_sim::traffic::uniform::{self, Uniform};

/// A flit of 16 B at 5 GB/s, ps.
const CYCLE_PS: u64 = 3_200;
const FLIT_BYTES: u32 = 16;
const DIMENSION_ORDER: Method =
    Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Balanced };

/// Who sends to whom.
#[derive(Clone, Copy)]
enum Pattern {
    /// Anyone else.
    Uniform,
    /// (x, y) to (y, x) on a square of so many nodes a side.
    Transpose(u32),
    /// To the node whose number has every bit inverted.
    BitComplement,
    /// Two hosts a switch of an 8x8 torus: three further on in x.
    CaminosTornado,
    /// The same: (x, y) to (y, x).
    CaminosTranspose,
}

impl Pattern {
    /// To whom each node sends, if always to the same.
    fn partners(self, nodes: u32) -> Option<Vec<NicId>> {
        let to = move |node: u32| match self {
            Pattern::Uniform => node,
            Pattern::Transpose(side) => node % side * side + node / side,
            Pattern::BitComplement => nodes - 1 - node,
            Pattern::CaminosTornado => node / 16 * 16 + (node % 16 + 6) % 16,
            Pattern::CaminosTranspose => node % 2 + node / 16 * 2 + node % 16 / 2 * 16,
        };
        (!matches!(self, Pattern::Uniform)).then(|| (0..nodes).map(to).map(NicId).collect())
    }
}

/// What a published configuration says.
struct Case {
    topology: Topology,
    method: Method,
    hosts_per_switch: u32,
    packet_flits: u32,
    channels: u8,
    /// Of each channel.
    buffer_flits: u32,
    /// RC, VA, SA and ST together, cycles.
    pipeline_cycles: u64,
    /// Of a link between switches, beside the flit's own cycle; a host's link takes half a cycle, so that the
    /// way in and out takes BookSim2's three.
    cable_cycles: u64,
    pattern: Pattern,
}

impl Case {
    fn new(topology: Topology, method: Method) -> Case {
        Case {
            topology,
            method,
            hosts_per_switch: 1,
            packet_flits: 1,
            channels: 8,
            buffer_flits: 8,
            pipeline_cycles: 3,
            cable_cycles: 0,
            pattern: Pattern::Uniform,
        }
    }

    fn named(name: &str) -> Option<Case> {
        let explicit = |names: &[&str], links: &[(u32, u32, u32)]| {
            let switches = names.iter().map(|name| name.to_string()).collect();
            Topology::Explicit(Explicit { switches, links: links.to_vec() })
        };
        let square = |extent| Topology::Mesh(Mesh { extents: vec![extent, extent] });
        let torus = Topology::Torus(Torus::new(&[8, 8]));
        Some(match name {
            // Buffers of 8 flits there: wormhole. Here a packet must fit.
            "mesh88_lat" => Case {
                packet_flits: 20,
                buffer_flits: 20,
                pattern: Pattern::Transpose(8),
                ..Case::new(square(8), DIMENSION_ORDER)
            },
            "torus88" => {
                Case { channels: 2, pipeline_cycles: 4, cable_cycles: 1, ..Case::new(torus, DIMENSION_ORDER) }
            }
            "fattree_config" => Case {
                hosts_per_switch: 4,
                channels: 4,
                buffer_flits: 16,
                ..Case::new(
                    Topology::FatTree(FatTree { down: vec![4, 4], up: vec![4, 4], widths: Vec::new() }),
                    Method::AncestorFirst,
                )
            },
            "flatflyconfig" => Case {
                hosts_per_switch: 4,
                buffer_flits: 4,
                ..Case::new(
                    Topology::HyperX(HyperX { extents: vec![4, 4], widths: Vec::new() }),
                    DIMENSION_ORDER,
                )
            },
            "singleconfig" => Case {
                hosts_per_switch: 10,
                ..Case::new(explicit(&["s"], &[]), Method::UpDown { root: None })
            },
            "cmeshconfig" => Case {
                hosts_per_switch: 4,
                channels: 16,
                pipeline_cycles: 4,
                cable_cycles: 1,
                pattern: Pattern::BitComplement,
                ..Case::new(square(4), DIMENSION_ORDER)
            },
            "anynet_config" => Case {
                hosts_per_switch: 3,
                channels: 1,
                buffer_flits: 3,
                pipeline_cycles: 4,
                ..Case::new(explicit(&["a", "b", "c"], &[(0, 1, 1), (1, 2, 1), (0, 2, 1)]), Method::Minimal)
            },
            _ => return Case::of_caminos(name),
        })
    }

    /// The default experiment of caminos-lib. Its routers have no pipeline, and links of one cycle in which a
    /// flit's own is.
    fn of_caminos(name: &str) -> Option<Case> {
        let pattern = match name {
            "caminos-uniform" => Pattern::Uniform,
            "caminos-tornado" => Pattern::CaminosTornado,
            "caminos-transpose" => Pattern::CaminosTranspose,
            _ => return None,
        };
        Some(Case {
            hosts_per_switch: 2,
            packet_flits: 16,
            channels: 2,
            buffer_flits: 64,
            pipeline_cycles: 0,
            pattern,
            ..Case::new(Topology::Torus(Torus::new(&[8, 8])), DIMENSION_ORDER)
        })
    }

    fn config(&self) -> Config {
        let packet_bytes = self.packet_flits * FLIT_BYTES;
        Config {
            mtu_bytes: packet_bytes,
            header_bytes: FLIT_BYTES / 2,
            packet_min_bytes: FLIT_BYTES,
            flit_bytes: FLIT_BYTES,
            vc_buffer_bytes: self.buffer_flits * FLIT_BYTES,
            vc_count: self.channels,
            route_ps: CYCLE_PS * self.pipeline_cycles.saturating_sub(3),
            vc_allocation_ps: CYCLE_PS * self.pipeline_cycles.min(1),
            switch_allocation_ps: CYCLE_PS * self.pipeline_cycles.min(1),
            switch_traversal_ps: CYCLE_PS * self.pipeline_cycles.min(1),
            ..Config::nsim()
        }
    }

    fn network(&self, config: Config) -> Result<Network, Box<dyn std::error::Error>> {
        let link = |latency_ps| LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps, cable_count: 1 };
        let hosts =
            HostLayout { per_switch_count: self.hosts_per_switch, nic_count: 1, link: link(CYCLE_PS / 2) };
        let graph = self.topology.build_with_hosts(link(self.cable_cycles * CYCLE_PS), hosts)?;
        let routing = Routing::new(self.method, &self.topology, &graph)?;
        Ok(Network::new(graph, routing, config)?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, load, options @ ..] = &arguments[..] else {
        return Err("compare_published CASE LOAD [channel-first] [per-port] [window=CYCLES]".into());
    };
    let case = Case::named(name).ok_or("no such case")?;
    let mut config = case.config();
    // Measured after as long a warm-up.
    let mut window_cycles = 40_000;
    for option in options {
        match option.as_str() {
            "channel-first" => config.arbitration = Arbitration::ChannelFirst,
            "per-port" => config.crossbar_inputs = CrossbarInputs::PerPort,
            word => window_cycles = word.trim_start_matches("window=").parse()?,
        }
    }
    let mut network = case.network(config)?;
    let window_ps = window_cycles * CYCLE_PS;
    let traffic = Uniform {
        load: load.parse()?,
        payload_bytes: network.config().payload_max_bytes(),
        warm_up_ps: window_ps,
        measure_ps: window_ps,
        seed: 1,
    };
    let nodes = network.nic_count() as u32;
    let report = match case.pattern.partners(nodes) {
        None => uniform::run(&mut network, traffic)?,
        Some(partners) => uniform::run_permutation(&mut network, traffic, partners)?,
    };
    println!("{:.4} {:.2}", report.accepted, report.mean_latency_ps / CYCLE_PS as f64);
    Ok(())
}
