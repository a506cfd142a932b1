//! One case of the comparison with other simulators (studies/network/compare.py), in their units: cycles of a
//! 16 B flit at 5 GB/s, packets of 128 flits, links of one cycle.
//!
//!     compare_torus uniform 8x8x8 0.95     accepted load, and latency in cycles
//!     compare_torus tornado 8 200          cycles until 200 packets of each node have arrived
//!
//! followed by any of: at-wrap, per-port, oldest-first, channel-first, and a buffer of so many KiB a channel
//! (default 8).

use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{HostLayout, Topology, Torus};
use ayatori_sim::network::{Arbitration, Config, CrossbarInputs, Gap, Network};
use ayatori_sim::traffic::puts::{self, Writes};
use ayatori_sim::traffic::rounds::Setup;
use ayatori_sim::traffic::uniform::{self, Uniform};

/// A flit of 16 B at 5 GB/s, ps.
const CYCLE_PS: u64 = 3_200;
/// What a packet of 128 flits carries, bytes.
const PAYLOAD_BYTES: u32 = 1_920;
/// Measured after as long a warm-up, cycles.
const WINDOW_CYCLES: u64 = 60_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, extents, number, options @ ..] = &arguments[..] else {
        return Err("compare_torus uniform|tornado EXTENTS NUMBER [OPTION ...]".into());
    };
    let extents: Vec<u32> = extents.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let (mut config, mut dateline) = (Config::nsim(), Dateline::OnEntry);
    for option in options {
        match option.as_str() {
            "at-wrap" => dateline = Dateline::AtWrap,
            "per-port" => config.crossbar_inputs = CrossbarInputs::PerPort,
            "channel-first" => config.arbitration = Arbitration::ChannelFirst,
            "oldest-first" => config.arbitration = Arbitration::OldestFirst,
            kib => config.vc_buffer_bytes = kib.parse::<u32>()? << 10,
        }
    }
    let mut network = torus(&extents, dateline, config)?;
    if kind == "uniform" {
        let window_ps = WINDOW_CYCLES * CYCLE_PS;
        let traffic = Uniform {
            load: number.parse()?,
            payload_bytes: PAYLOAD_BYTES,
            warm_up_ps: window_ps,
            measure_ps: window_ps,
            seed: 1,
        };
        let report = uniform::run(&mut network, traffic)?;
        println!("{:.4} {:.1}", report.accepted, report.mean_latency_ps / CYCLE_PS as f64);
    } else {
        // Packets are messages of their own, as theirs are.
        let packet_count: usize = number.parse()?;
        let targets: Vec<Vec<u32>> = tornado(&extents).into_iter().map(|to| vec![to; packet_count]).collect();
        let (setup, gap) = (Setup::blocks(&network, 1), |_, _| Gap::NONE);
        let elapsed_ps =
            puts::run(&mut network, &targets, Writes::one_sided(PAYLOAD_BYTES.into(), 0), gap, &setup)?;
        println!("{}", elapsed_ps / CYCLE_PS);
    }
    Ok(())
}

fn torus(extents: &[u32], dateline: Dateline, config: Config) -> Result<Network, Box<dyn std::error::Error>> {
    let topology = Topology::Torus(Torus::new(extents));
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: CYCLE_PS, cable_count: 1 };
    let graph = topology.build_with_hosts(link, HostLayout { per_switch_count: 1, nic_count: 1, link })?;
    let routing =
        Routing::new(Method::DimensionOrder { dateline, tie: TieRule::Balanced }, &topology, &graph)?;
    Ok(Network::new(graph, routing, config)?)
}

/// In each dimension of k nodes, k / 2 (rounded up) less one further on.
fn tornado(extents: &[u32]) -> Vec<u32> {
    let shifted = |mut node: u32| {
        let (mut to, mut stride) = (0, 1);
        for &extent in extents {
            to += (node % extent + extent.div_ceil(2) - 1) % extent * stride;
            node /= extent;
            stride *= extent;
        }
        to
    };
    (0..extents.iter().product()).map(shifted).collect()
}
