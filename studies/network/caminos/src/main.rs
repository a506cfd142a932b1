//! One case of the comparison with other simulators (../compare.py), run by CAMINOS:
//!
//!     caminos-ring uniform 8x8 0.95     accepted load, and latency in cycles
//!     caminos-ring tornado 8 100        cycles until 100 packets of each node have arrived
//!     caminos-ring published uniform 0.5  as uniform, by the experiment that caminos-lib brings along
//!
//! `published` (also tornado and transpose) is its src/defaults/main.cfg with the routing xy-DOR; with
//! `classes` at the end, channels are kept apart as below in place of the bubble.
//!
//! The result is the last line; the lines before are CAMINOS'. It has no routing that keeps two classes of
//! virtual channels on a ring, so one is plugged in: its own dimension order, and of the channels that it
//! offers the one whose class the packet has on this ring (1 if it goes over the wrap-around link, else 0).

use std::cell::RefCell;

use caminos_lib::config_parser::{self, ConfigurationValue, Token};
use caminos_lib::routing::{
    Error, Routing, RoutingBuilderArgument, RoutingInfo, RoutingNextCandidates, Time, new_routing,
};
use caminos_lib::topology::{Location, Topology};
use caminos_lib::{Plugs, Simulation};
use rand::rngs::StdRng;

/// Flits of a packet.
const PACKET: u32 = 128;
/// Measured after as long a warm-up, cycles.
const WINDOW: u32 = 60_000;
/// A run that takes longer has come to a standstill, cycles.
const MOST: u32 = 3_000_000;

/// Dimension order with two classes of channels on each ring.
#[derive(Debug)]
struct OnEntry {
    base: Box<dyn Routing>,
}

impl OnEntry {
    fn new(argument: RoutingBuilderArgument) -> Box<dyn Routing> {
        let ConfigurationValue::Object(_, keys) = argument.cv else { panic!("OnEntry is an object") };
        let base = keys.iter().find(|(key, _)| key == "routing").expect("OnEntry has a routing");
        Box::new(OnEntry { base: new_routing(RoutingBuilderArgument { cv: &base.1, ..argument }) })
    }
}

impl Routing for OnEntry {
    fn next(
        &self,
        info: &RoutingInfo,
        topology: &dyn Topology,
        router: usize,
        target_router: usize,
        target_server: Option<usize>,
        channel_count: usize,
        rng: &mut StdRng,
    ) -> Result<RoutingNextCandidates, Error> {
        let all = self.base.next(info, topology, router, target_router, target_server, channel_count, rng)?;
        let (idempotent, classes) =
            (all.idempotent, info.selections.as_ref().expect("classes are set on entry"));
        let candidates =
            all.into_iter().filter(|candidate| match topology.neighbour(router, candidate.port) {
                (Location::RouterPort { .. }, dimension) => {
                    candidate.virtual_channel as i32 == classes[dimension]
                }
                _ => true,
            });
        Ok(RoutingNextCandidates { candidates: candidates.collect(), idempotent })
    }

    fn initialize_routing_info(
        &self,
        info: &RefCell<RoutingInfo>,
        topology: &dyn Topology,
        router: usize,
        target_router: usize,
        target_server: Option<usize>,
        rng: &mut StdRng,
    ) {
        self.base.initialize_routing_info(info, topology, router, target_router, target_server, rng);
        let cartesian = topology.cartesian_data().expect("a torus");
        let from = cartesian.unpack(router);
        let mut info = info.borrow_mut();
        let steps = info.routing_record.as_ref().expect("dimension order has counted the steps");
        let wraps = steps.iter().zip(from).zip(&cartesian.sides).map(|((&step, from), &side)| {
            let end = from as i32 + step;
            i32::from(end < 0 || end >= side as i32)
        });
        info.selections = Some(wraps.collect());
    }

    fn update_routing_info(
        &self,
        info: &RefCell<RoutingInfo>,
        topology: &dyn Topology,
        router: usize,
        port: usize,
        target_router: usize,
        target_server: Option<usize>,
        rng: &mut StdRng,
    ) {
        self.base.update_routing_info(info, topology, router, port, target_router, target_server, rng);
    }

    fn initialize(&mut self, topology: &dyn Topology, rng: &mut StdRng) {
        self.base.initialize(topology, rng);
    }

    fn statistics(&self, cycle: Time) -> Option<ConfigurationValue> {
        self.base.statistics(cycle)
    }
}

/// What of the configuration depends on the case.
struct Case {
    topology: String,
    traffic: String,
    routing: String,
    cycles: (u32, u32),
    packet: u32,
    seed: u32,
    /// Packets of each input and output buffer.
    buffers: (u32, u32),
    bubble: bool,
}

impl Case {
    fn configuration(&self, dimensions: usize) -> String {
        // A class of links for each dimension, and one for the servers.
        let links = vec!["LinkClass { delay: 1 }"; dimensions + 1].join(", ");
        let Case { topology, traffic, routing, cycles: (warm_up, measured), packet, seed, bubble, .. } = self;
        format!(
            "Configuration {{ random_seed: {seed}, warmup: {warm_up}, measured: {measured},
                topology: {topology}, traffic: {traffic}, maximum_packet_size: {packet},
                router: Basic {{ virtual_channels: 2, delay: 0,
                    virtual_channel_policies: [ EnforceFlowControl, Random ], buffer_size: {input},
                    bubble: {bubble}, flit_size: {packet}, intransit_priority: false,
                    allow_request_busy_port: true, output_prioritize_lowest_label: false,
                    output_buffer_size: {output} }},
                routing: {routing}, link_classes: [ {links} ], launch_configurations: [] }}",
            input = self.buffers.0 * packet,
            output = self.buffers.1 * packet,
        )
    }

    /// The experiment that caminos-lib brings along.
    fn published(pattern: &str, load: &str, seed: u32, has_classes: bool) -> Case {
        let pattern = match pattern {
            "uniform" => "Uniform",
            "tornado" => "CartesianTransform { sides: [2,8,8], shift: [0,3,0] }",
            "transpose" => "CartesianTransform { sides: [2,8,8], permute: [0,2,1] }",
            _ => panic!("no such pattern: {pattern}"),
        };
        let traffic = format!(
            "HomogeneousTraffic {{ pattern: {pattern}, servers: 128, load: {load}, message_size: 16 }}"
        );
        Case {
            topology: "Torus { sides: [8,8], servers_per_router: 2 }".into(),
            traffic,
            routing: match has_classes {
                true => "OnEntry { routing: DOR { order: [0,1] } }".into(),
                false => "DOR { order: [0,1] }".into(),
            },
            cycles: (20_000, 10_000),
            packet: 16,
            seed,
            buffers: (4, 2),
            bubble: !has_classes,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, extents, number, options @ ..] = &arguments[..] else {
        panic!("caminos-ring uniform|tornado|published EXTENTS|PATTERN NUMBER [seed=N] [input=N] [output=N]");
    };
    let set = |name: &str, usual| {
        options.iter().find_map(|option| option.strip_prefix(name)?.parse().ok()).unwrap_or(usual)
    };
    let (seed, buffers) = (set("seed=", 1), (set("input=", 4), set("output=", 1)));
    if kind == "published" {
        let has_classes = options.iter().any(|option| option == "classes");
        return run(&Case::published(extents, number, seed, has_classes).configuration(2), true);
    }
    let extents: Vec<usize> = extents.split('x').map(|extent| extent.parse().expect("an extent")).collect();
    let nodes: usize = extents.iter().product();
    let order: Vec<usize> = (0..extents.len()).collect();
    let is_uniform = kind == "uniform";
    let (traffic, cycles) = if is_uniform {
        let traffic = format!(
            "HomogeneousTraffic {{ pattern: Uniform, servers: {nodes}, load: {number}, \
             message_size: {PACKET} }}"
        );
        (traffic, (WINDOW, WINDOW))
    } else {
        // In each dimension of k nodes, k / 2 (rounded up) less one further on.
        let shift: Vec<usize> = extents.iter().map(|extent| extent.div_ceil(2) - 1).collect();
        let traffic = format!(
            "Burst {{ pattern: CartesianTransform {{ sides: {extents:?}, shift: {shift:?} }}, \
             servers: {nodes}, messages_per_server: {number}, message_size: {PACKET} }}"
        );
        (traffic, (0, MOST))
    };
    let case = Case {
        topology: format!("Torus {{ sides: {extents:?}, servers_per_router: 1 }}"),
        traffic,
        routing: format!("OnEntry {{ routing: DOR {{ order: {order:?} }} }}"),
        cycles,
        packet: PACKET,
        seed,
        buffers,
        bubble: false,
    };
    run(&case.configuration(extents.len()), is_uniform);
}

/// Runs a configuration and prints its result: load and latency, or the cycles that it took.
fn run(text: &str, is_load: bool) {
    let Ok(Token::Value(configuration)) = config_parser::parse(text) else {
        panic!("cannot be read: {text}")
    };
    let mut plugs = Plugs::default();
    plugs.add_routing("OnEntry".into(), OnEntry::new);
    let mut simulation = Simulation::new(&configuration, &plugs);
    simulation.run();
    if !is_load {
        println!("{}", simulation.shared.cycle);
        return;
    }
    let ConfigurationValue::Object(_, results) = simulation.get_simulation_results() else { unreachable!() };
    let result = |name| match results.iter().find(|(key, _)| key == name) {
        Some((_, ConfigurationValue::Number(number))) => *number,
        _ => panic!("CAMINOS gives no {name}"),
    };
    println!(
        "{:.4} {:.1} {:.1}",
        result("accepted_load"),
        result("average_message_delay"),
        result("average_packet_network_delay")
    );
}
