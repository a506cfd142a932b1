//! One case of the comparison with other simulators (studies/network/compare.py and pairwise.py), in their
//! units: cycles of a 16 B flit at 5 GB/s, packets of 128 flits, links and pipeline stages of one cycle.
//!
//!     compare_torus uniform 8x8x8 0.95     accepted load, and latency in cycles
//!     compare_torus tornado 8 200          cycles until 200 packets of each node have arrived
//!     compare_torus pairwise 4x2x8 547     cycles until 547 packets of each node to each other are there
//!
//! In `pairwise` a node puts its packets to rank XOR step, and begins the next put when the last byte has
//! left. Followed by any of: at-wrap, per-port, oldest-first, channel-first, a buffer of so many KiB a
//! channel (default 8), flit=BYTES, cable=CYCLES, and for `pairwise` gap=PACKETS, seed=NUMBER, starts=CYCLES
//! (drawn below it) and set-up=CYCLES.

use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{HostLayout, Topology, Torus};
use ayatori_sim::network::{Arbitration, Config, CrossbarInputs, Gap, Network};
use ayatori_sim::traffic::puts::{self, Writes};
use ayatori_sim::traffic::rounds::Setup;
use ayatori_sim::traffic::uniform::{self, Uniform};

/// A byte at 5 GB/s, ps.
const BYTE_PS: u64 = 200;
/// What a packet of 2 KiB carries, bytes.
const PAYLOAD_BYTES: u32 = 1_920;
/// Measured after as long a warm-up, cycles.
const WINDOW_CYCLES: u64 = 60_000;

type Failure = Box<dyn std::error::Error>;

/// What the options say.
struct Options {
    config: Config,
    dateline: Dateline,
    cable_cycles: f64,
    gap_packets: f64,
    seed: u64,
    start_cycles: f64,
    set_up_cycles: f64,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options, Failure> {
        let mut options = Options {
            config: Config::nsim(),
            dateline: Dateline::OnEntry,
            cable_cycles: 1.0,
            gap_packets: 0.0,
            seed: 1,
            start_cycles: 0.0,
            set_up_cycles: 0.0,
        };
        let config = &mut options.config;
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("at-wrap", _) => options.dateline = Dateline::AtWrap,
                ("per-port", _) => config.crossbar_inputs = CrossbarInputs::PerPort,
                ("channel-first", _) => config.arbitration = Arbitration::ChannelFirst,
                ("oldest-first", _) => config.arbitration = Arbitration::OldestFirst,
                ("flit", bytes) => config.flit_bytes = bytes.parse()?,
                ("cable", cycles) => options.cable_cycles = cycles.parse()?,
                ("gap", packets) => options.gap_packets = packets.parse()?,
                ("seed", seed) => options.seed = seed.parse()?,
                ("starts", cycles) => options.start_cycles = cycles.parse()?,
                ("set-up", cycles) => options.set_up_cycles = cycles.parse()?,
                (kib, _) => config.vc_buffer_bytes = kib.parse::<u32>()? << 10,
            }
        }
        let cycle_ps = u64::from(config.flit_bytes) * BYTE_PS;
        config.route_ps = cycle_ps;
        config.vc_allocation_ps = cycle_ps;
        config.switch_allocation_ps = cycle_ps;
        config.switch_traversal_ps = cycle_ps;
        Ok(options)
    }

    fn ps(&self, cycles: f64) -> u64 {
        (cycles * f64::from(self.config.flit_bytes) * BYTE_PS as f64) as u64
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, extents, number, words @ ..] = &arguments[..] else {
        return Err("compare_torus uniform|tornado|pairwise EXTENTS NUMBER [OPTION ...]".into());
    };
    let extents: Vec<u32> = extents.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let options = Options::parse(words)?;
    let cycle_ps = options.ps(1.0);
    let mut network = torus(&extents, &options)?;
    let packets = || -> Result<u64, Failure> { Ok(number.parse()?) };
    match kind.as_str() {
        "uniform" => {
            let window_ps = WINDOW_CYCLES * cycle_ps;
            let traffic = Uniform {
                load: number.parse()?,
                payload_bytes: PAYLOAD_BYTES,
                warm_up_ps: window_ps,
                measure_ps: window_ps,
                seed: 1,
            };
            let report = uniform::run(&mut network, traffic)?;
            println!("{:.4} {:.1}", report.accepted, report.mean_latency_ps / cycle_ps as f64);
        }
        "tornado" => {
            // Packets are messages of their own, as theirs are.
            let packet_count = packets()? as usize;
            let targets: Vec<Vec<u32>> =
                tornado(&extents).into_iter().map(|to| vec![to; packet_count]).collect();
            let (setup, gap) = (Setup::blocks(&network, 1), |_, _| Gap::NONE);
            let writes = Writes::one_sided(PAYLOAD_BYTES.into(), 0);
            println!("{}", puts::run(&mut network, &targets, writes, gap, &setup)? / cycle_ps);
        }
        _ => {
            let node_count: u32 = extents.iter().product();
            let targets: Vec<Vec<u32>> =
                (0..node_count).map(|rank| (1..node_count).map(|step| rank ^ step).collect()).collect();
            let setup = Setup {
                start_spread_ps: options.ps(options.start_cycles),
                seed: options.seed,
                ..Setup::blocks(&network, 1)
            };
            let bytes = packets()? * u64::from(PAYLOAD_BYTES);
            let writes = Writes::one_sided(bytes, options.ps(options.set_up_cycles));
            let gap = |_, _| Gap::packets(options.gap_packets);
            println!("{}", puts::run(&mut network, &targets, writes, gap, &setup)? / cycle_ps);
        }
    }
    Ok(())
}

fn torus(extents: &[u32], options: &Options) -> Result<Network, Failure> {
    let topology = Topology::Torus(Torus::new(extents));
    let latency_ps = options.ps(options.cable_cycles);
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps, cable_count: 1 };
    let graph = topology.build_with_hosts(link, HostLayout { per_switch_count: 1, nic_count: 1, link })?;
    let method = Method::DimensionOrder { dateline: options.dateline, tie: TieRule::Balanced };
    let routing = Routing::new(method, &topology, &graph)?;
    Ok(Network::new(graph, routing, options.config.clone())?)
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
