//! Networks to test on.

use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::routing::{Dateline, Method, Routing, TieRule};
use ayatori_fabric::topology::{HostLayout, Mesh, Topology, Torus};
use ayatori_sim::network::{Config, Gap, Message, Network, NicId};

/// 5 GB/s as in the packet pacing paper: 200 ps a byte.
pub(crate) const PS_PER_BYTE: u64 = 200;
/// Any number that the formulas must show.
pub(crate) const LATENCY_PS: u64 = 7_000;
pub(crate) const LINK: LinkSpec =
    LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: LATENCY_PS, cable_count: 1 };
/// Four stages of 3.2 ns.
pub(crate) const PIPELINE_PS: u64 = 12_800;
/// 16 B at 200 ps.
pub(crate) const FLIT_PS: u64 = 3_200;
/// 2 KiB on the wire.
pub(crate) const FULL_PAYLOAD: u64 = 1_920;
pub(crate) const FULL_PS: u64 = 2_048 * PS_PER_BYTE;

pub(crate) const DATELINE: Method =
    Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Balanced };

pub(crate) fn network(topology: &Topology, method: Method, hosts_per_switch: u32, config: Config) -> Network {
    let hosts = HostLayout { per_switch_count: hosts_per_switch, nic_count: 1, link: LINK };
    let graph = topology.build_with_hosts(LINK, hosts).unwrap();
    let routing = Routing::new(method, topology, &graph).unwrap();
    Network::new(graph, routing, config).unwrap()
}

pub(crate) fn torus(extents: &[u32]) -> Network {
    network(&Topology::Torus(Torus::new(extents)), DATELINE, 1, Config::nsim())
}

/// Switches in a row.
pub(crate) fn line(switch_count: u32, hosts_per_switch: u32) -> Network {
    network(&Topology::Mesh(Mesh { extents: vec![switch_count] }), DATELINE, hosts_per_switch, Config::nsim())
}

pub(crate) fn message(from: u32, to: u32, bytes: u64) -> Message {
    Message {
        from: NicId(from),
        to: NicId(to),
        bytes,
        gap: Gap::NONE,
        flow: 0,
        token: from,
        notify_injected: false,
    }
}

/// Delivery times in order of delivery, with the sender.
pub(crate) fn deliveries(network: &mut Network) -> Vec<(u32, u64)> {
    use ayatori_sim::network::Occurrence;
    let mut times = Vec::new();
    while let Some(occurrence) = network.advance().unwrap() {
        if let Occurrence::Delivered { from, .. } = occurrence {
            times.push((from.0, network.now_ps()));
        }
    }
    assert_eq!(network.leftovers(), None);
    times
}

/// The model's formula: to cross `hop_count` links between routers with nobody in the way. Every router costs
/// the link to it, a flit and its pipeline; the last link carries the whole packet.
pub(crate) fn unloaded_ps(hop_count: u64, wire_bytes: u64) -> u64 {
    (hop_count + 1) * (LATENCY_PS + FLIT_PS + PIPELINE_PS) + wire_bytes * PS_PER_BYTE + LATENCY_PS
}
