//! From graph, routing and configuration to the arrays that the engine runs on.

use ayatori_fabric::graph::{ChannelId, Graph, Node, SwitchId};
use ayatori_fabric::routing::Routing;

use super::{
    Arbitration, BuildError, Config, Counters, CrossbarInputs, Ethernet, FROM_NIC, LaneState, LinkClass,
    MessageQueue, Network, NicState, NoProbe, PortState, Probe, Switching, transfer_ps,
};
use crate::queue::Queue;
use crate::slab::{NONE, Slab};
use crate::wheel::Wheel;

/// Fraction bits of the transfer time of a byte. At 2^-20 ps, a packet of 16 MiB at any rate is right to 16
/// ps.
pub(super) const BYTE_TIME_BITS: u32 = 20;

/// Pairs of switches whose routes are walked before a network is accepted; larger networks are sampled
/// evenly.
const CHECKED_PAIR_COUNT: usize = 1 << 14;

impl Network<NoProbe> {
    /// A network at rest at time 0.
    ///
    /// # Errors
    /// If the configuration, the routing and the graph do not fit together, or a host is not cabled to a
    /// switch.
    pub fn new(graph: Graph, routing: Routing, config: Config) -> Result<Network, BuildError> {
        Network::with_probe(graph, routing, config, NoProbe)
    }
}

impl<P: Probe> Network<P> {
    /// As [`Network::new`], watched by a probe.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub fn with_probe(
        graph: Graph,
        routing: Routing,
        config: Config,
        probe: P,
    ) -> Result<Network<P>, BuildError> {
        config.check().map_err(BuildError::Config)?;
        let (needed, available) = (routing.vc_count(), config.vc_count);
        if available < needed || available % needed != 0 {
            return Err(BuildError::VirtualChannels { needed, available });
        }
        let firsts = port_firsts(&graph)?;
        let (nics, host_nics) = nics(&graph, &firsts)?;
        check_routes(&graph, &routing, &nics)?;
        let (ports, channels, links) = ports(&graph, &firsts, &nics, &config)?;
        let owners = owners(&firsts, nics.len());
        let (longest_ps, horizon_ps) = horizon_ps(&links, &config);
        let first_nic_port = firsts[graph.switch_count()];
        let ethernet = Ethernet::new(&graph, &ports, (&channels, &owners), first_nic_port, &config);
        let more_words = if ethernet.is_used() { 0 } else { more_words(&graph, &config)? };
        let per_port = config.crossbar_inputs == CrossbarInputs::PerPort && !ethernet.is_used();
        let lookahead_ps = if per_port { 1 } else { lookahead_ps(&links, &config) };
        let by_channel = config.arbitration == Arbitration::ChannelFirst;
        let narrow = more_words == 0 && !per_port && is_narrow(&links, &config);
        let lanes = if ethernet.is_used() { Vec::new() } else { lanes(&ports, first_nic_port, &config) };
        Ok(Network {
            lanes,
            pipeline_ps: config.pipeline_ps(),
            vcs_per_class: available / needed,
            now_ps: 0,
            wheel: Wheel::new(lookahead_ps, horizon_ps),
            queue: Queue::new(nics.len(), longest_ps),
            first_nic_port,
            ethernet,
            switch_firsts: firsts,
            port_owners: owners,
            lanes_ahead: [NONE; super::arbitrate::AHEAD_COUNT],
            nics_ahead: [0; super::inject::NICS_AHEAD_COUNT],
            nics_ahead_at: 0,
            injected_ps: Vec::new(),
            more_requests: vec![0; ports.len() * more_words],
            more_words,
            input_free_ps: if per_port { vec![0; ports.len()] } else { Vec::new() },
            channel_turns: vec![0; if by_channel { ports.len() * (usize::from(available) + 1) } else { 0 }],
            channel_free_ps: vec![0; if by_channel { ports.len() * usize::from(available) } else { 0 }],
            channel_restart_ps: if by_channel { config.vc_allocation_ps } else { 0 },
            by_channel,
            narrow,
            routes_every_hop: false,
            same_rates: config.switching == Switching::CutThrough && have_same_rate(&links),
            shortest_bytes: config.packet_bytes(0),
            lane_restart_ps: if by_channel { config.route_ps + config.vc_allocation_ps } else { 0 },
            returns: Slab::default(),
            packets: Slab::default(),
            messages: Slab::default(),
            ports,
            links,
            nics,
            host_nics,
            channels,
            counters: Counters::default(),
            publisher: super::watch::Publisher::default(),
            probe,
            config,
            graph,
            routing,
            vlan_of: None,
        })
    }
}

/// Words of requests that each port needs beside the first.
fn more_words(graph: &Graph, config: &Config) -> Result<usize, BuildError> {
    let widest = graph.switches().map(|s| graph.port_count(s.into())).max().unwrap_or(0);
    let lane_count = widest * usize::from(config.vc_count);
    // A lane's number in its router, and the one behind it, have 16 bits.
    if lane_count > usize::from(u16::MAX) {
        let channels = config.vc_count;
        let words =
            format!("a switch of {widest} ports with {channels} virtual channels each: 65,535 at most");
        return Err(BuildError::Config(words));
    }
    Ok(lane_count.div_ceil(64).max(1) - 1)
}

/// The transfer time of the longest packet, and how far ahead most looks lie: a packet sent now, its credit
/// sent when it is gone, and a packet in the way of it.
fn horizon_ps(links: &[LinkClass], config: &Config) -> (u64, u64) {
    let mtu_ps = |link: &LinkClass| transfer_ps(config.mtu_bytes.into(), link.byte_time);
    let longest_ps = links.iter().map(mtu_ps).max().unwrap_or(1);
    let latency_max_ps = links.iter().map(|link| link.latency_ps).max().unwrap_or(0);
    (longest_ps, 2 * longest_ps + latency_max_ps + config.pipeline_ps())
}

fn have_same_rate(links: &[LinkClass]) -> bool {
    links.iter().all(|link| link.byte_time == links[0].byte_time)
}

/// Whether the rules are those that `narrow` knows. A channel is allotted again when its packet has left: it
/// looks at the last packet of a link only, so another takes at least as long as that.
fn is_narrow(links: &[LinkClass], config: &Config) -> bool {
    let shortest_ps = |link: &LinkClass| transfer_ps(config.packet_bytes(0).into(), link.byte_time);
    let long_enough = |link: &LinkClass| shortest_ps(link) >= config.vc_allocation_ps;
    config.vc_count <= 2
        && match config.arbitration {
            Arbitration::RoundRobin => true,
            Arbitration::OldestFirst => false,
            Arbitration::ChannelFirst => links.iter().all(long_enough),
        }
}

/// The least time after which one port's doing is felt by another: a packet can be passed on, or has arrived,
/// or its credit is back; or, within a router, the lane that it has left has another packet for another port.
fn lookahead_ps(links: &[LinkClass], config: &Config) -> u64 {
    let shortest_bytes = config.packet_bytes(0).into();
    let felt_ps = |link: &LinkClass| {
        let sent_ps = transfer_ps(shortest_bytes, link.byte_time);
        let passed_on_ps = link.flit_ps + config.pipeline_ps();
        sent_ps.min(link.latency_ps + passed_on_ps)
    };
    links.iter().map(felt_ps).min().unwrap_or(1)
}

fn lanes(ports: &[PortState], first_nic_port: u32, config: &Config) -> Vec<LaneState> {
    let lane = |(port, state): (usize, &PortState), vc: u8| {
        let local_port = port as u32 - state.first;
        let feeder = ports.get(state.far as usize);
        LaneState {
            ready_ps: 0,
            return_ps: 0,
            return_bytes: 0,
            earlier_bytes: 0,
            earlier_by_ps: 0,
            returns_tail: NONE,
            head: NONE,
            tail: NONE,
            head_bytes: 0,
            head_target: NONE,
            credit_bytes: config.vc_buffer_bytes,
            first: state.first,
            index: (local_port * u32::from(config.vc_count) + u32::from(vc)) as u16,
            port: local_port as u16,
            link: feeder.map_or(0, |feeder| feeder.link),
            vc,
            flags: if state.far != NONE && state.far >= first_nic_port { FROM_NIC } else { 0 },
        }
    };
    let router_ports = ports.iter().enumerate().take(first_nic_port as usize);
    let lanes = router_ports.flat_map(|port| (0..config.vc_count).map(move |vc| lane(port, vc)));
    // NICs take in whatever arrives: one lane stands for all of theirs (`narrow`).
    let of_nics = ports
        .get(first_nic_port as usize)
        .map(|nic| LaneState { credit_bytes: u32::MAX, ..lane((first_nic_port as usize, nic), 0) });
    lanes.chain(of_nics).collect()
}

/// The number of every switch's first port, and one more entry: the first NIC's.
fn port_firsts(graph: &Graph) -> Result<Vec<u32>, BuildError> {
    let mut firsts = vec![0];
    let mut total = 0;
    for switch in graph.switches() {
        total += graph.port_count(switch.into());
        firsts.push(total as u32);
    }
    let nic_count: usize = graph.hosts().map(|host| graph.port_count(host.into())).sum();
    let all = total + nic_count;
    if have_numbers(all) { Ok(firsts) } else { Err(BuildError::TooLarge(all)) }
}

/// Whether so many ports can be numbered: their lanes are too, at most 16 for each.
fn have_numbers(port_count: usize) -> bool {
    port_count < (u32::MAX / 16) as usize
}

fn nics(graph: &Graph, firsts: &[u32]) -> Result<(Vec<NicState>, Vec<u32>), BuildError> {
    let first_nic_port = firsts[graph.switch_count()];
    let (mut nics, mut host_nics) = (Vec::new(), vec![0]);
    for host in graph.hosts() {
        for nic in 0..graph.port_count(host.into()) as u16 {
            let Some((switch, switch_port)) = graph.switch_of(host, nic) else {
                return Err(BuildError::NotCabled { host: graph.name(host.into()).into(), nic });
            };
            nics.push(NicState {
                port: first_nic_port + nics.len() as u32,
                switch: switch.0,
                switch_port: firsts[switch.index()] + u32::from(switch_port),
                waiting: MessageQueue::EMPTY,
                turn: 0,
            });
        }
        host_nics.push(nics.len() as u32);
    }
    Ok((nics, host_nics))
}

/// The router of every port; of NICs' ports the NIC's number.
fn owners(firsts: &[u32], nic_count: usize) -> Vec<u32> {
    let switches = firsts.windows(2).enumerate();
    let of_switches = switches.flat_map(|(switch, ports)| (ports[0]..ports[1]).map(move |_| switch as u32));
    of_switches.chain(0..nic_count as u32).collect()
}

type Ports = (Vec<PortState>, Vec<ChannelId>, Vec<LinkClass>);

fn ports(graph: &Graph, firsts: &[u32], nics: &[NicState], config: &Config) -> Result<Ports, BuildError> {
    let unused = PortState {
        free_ps: 0,
        wake_ps: u64::MAX,
        requests: [0; 2],
        sent_bytes: 0,
        waited_ps: 0,
        far: NONE,
        first: 0,
        sent_count: 0,
        turn: 0,
        link: 0,
    };
    let first_nic_port = firsts[graph.switch_count()] as usize;
    let mut ports = vec![unused; first_nic_port + nics.len()];
    let mut channels = vec![ChannelId(u32::MAX); ports.len()];
    let mut links = Vec::new();
    for switch in graph.switches() {
        let first = firsts[switch.index()];
        for port in first..firsts[switch.index() + 1] {
            ports[port as usize].first = first;
        }
        for (neighbour, far) in graph.switch_neighbours(switch) {
            let port = (first + u32::from(neighbour.port)) as usize;
            ports[port].far = firsts[far.index()] + u32::from(neighbour.far.port);
            ports[port].link = link_class(&mut links, graph, neighbour.channel, config)?;
            channels[port] = neighbour.channel;
        }
    }
    let mut nic = 0;
    for host in graph.hosts() {
        for neighbour in graph.neighbours(host.into()) {
            let NicState { port, switch_port, .. } = nics[nic];
            let channel = neighbour.channel;
            for (near, far, channel) in [(port, switch_port, channel), (switch_port, port, channel.reverse())]
            {
                ports[near as usize].far = far;
                ports[near as usize].link = link_class(&mut links, graph, channel, config)?;
                channels[near as usize] = channel;
            }
            ports[port as usize].first = port;
            nic += 1;
        }
    }
    Ok((ports, channels, links))
}

/// The class of a channel's link, made if it is the first of its kind.
fn link_class(
    classes: &mut Vec<LinkClass>,
    graph: &Graph,
    channel: ChannelId,
    config: &Config,
) -> Result<u16, BuildError> {
    let spec = graph.link(channel.link()).spec;
    let class = LinkClass::of(spec.total_rate_bits_per_s(), spec.latency_ps, config);
    let place = classes.iter().position(|&known| known == class).unwrap_or_else(|| {
        classes.push(class);
        classes.len() - 1
    });
    u16::try_from(place).map_err(|_| BuildError::Config("more than 65,536 different kinds of links".into()))
}

fn check_routes(graph: &Graph, routing: &Routing, nics: &[NicState]) -> Result<(), BuildError> {
    let mut switches: Vec<u32> = nics.iter().map(|nic| nic.switch).collect();
    switches.dedup();
    let pair_count = switches.len() * switches.len();
    let step = pair_count.div_ceil(CHECKED_PAIR_COUNT).max(1);
    for pair in (0..pair_count).step_by(step) {
        let [from, to] = [pair / switches.len(), pair % switches.len()].map(|i| SwitchId(switches[i]));
        for flow in [0, routing.flow_count() - 1] {
            routing.path(graph, from, to, flow)?;
        }
    }
    debug_assert!(
        graph.links().all(|(_, link)| { link.ends.iter().any(|end| matches!(end.node, Node::Switch(_))) })
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{LagHash, Queueing, SharedBuffer, WhenFull};
    use ayatori_fabric::graph::LinkSpec;
    use ayatori_fabric::routing::Method;
    use ayatori_fabric::topology::{HostLayout, Mesh, Topology};

    const LINK: LinkSpec =
        LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 1_000_000, cable_count: 1 };

    /// Two switches and so many hosts at each.
    fn pair(hosts: u32) -> (Graph, Routing) {
        let topology = Topology::Mesh(Mesh { extents: vec![2] });
        let hosts = HostLayout { per_switch_count: hosts, nic_count: 1, link: LINK };
        let graph = topology.build_with_hosts(LINK, hosts).unwrap();
        let routing = Routing::new(Method::usual_for(&topology), &topology, &graph).unwrap();
        (graph, routing)
    }

    #[test]
    fn ports_are_numbered_by_switch_and_then_by_nic() {
        let (graph, _) = pair(3);
        let firsts = port_firsts(&graph).unwrap();
        let ports = graph.switches().map(|switch| graph.port_count(switch.into()) as u32);
        let sums = ports.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        assert_eq!(firsts, std::iter::once(0).chain(sums).collect::<Vec<_>>());
        assert_eq!(owners(&[0, 2, 5], 3), [0, 0, 1, 1, 1, 0, 1, 2]);
    }

    #[test]
    fn lanes_have_numbers_below_that_of_none() {
        let most = 268_435_454;
        assert!(have_numbers(most) && !have_numbers(most + 1));
        // And one for all lanes of NICs.
        assert!((most as u64 * 16 + 1) < u64::from(NONE));
    }

    #[test]
    fn routes_of_another_graph_are_refused() {
        let (_, routing) = pair(1);
        // Both hosts have their switch, but the switches are not connected.
        let mut graph = Graph::new();
        for name in ["a", "b"] {
            let (switch, host) = (graph.add_switch(name, &[]), graph.add_host(name));
            graph.connect((host.into(), 0), (switch.into(), 2), LINK).unwrap();
        }
        let made = Network::new(graph, routing, Config::nsim());
        assert!(matches!(made.err(), Some(BuildError::Routing(_))));
    }

    #[test]
    fn a_network_of_nothing_is_one() {
        let (_, routing) = pair(1);
        let mut network = Network::new(Graph::new(), routing, Config::nsim()).unwrap();
        assert_eq!(network.advance().unwrap(), None);
    }

    #[test]
    fn lanes_fed_by_nics_are_marked() {
        let (graph, routing) = pair(2);
        let network = Network::new(graph, routing, Config::nsim()).unwrap();
        let of_routers = 2 * network.first_nic_port as usize;
        assert!(network.lanes.len() > of_routers && of_routers >= 12);
        for (index, lane) in network.lanes[..of_routers].iter().enumerate() {
            let far = network.ports[index / 2].far;
            let is_fed_by_nic = (network.first_nic_port..NONE).contains(&far);
            assert_eq!(lane.flags, if is_fed_by_nic { FROM_NIC } else { 0 }, "lane {index}");
        }
    }

    #[test]
    fn narrow_routers_have_two_channels_and_long_packets() {
        let by_channel = |vc_allocation_ps, vc_count| {
            let arbitration = Arbitration::ChannelFirst;
            let config = Config { arbitration, vc_allocation_ps, vc_count, ..Config::nsim() };
            let link = LinkClass::of(LINK.rate_bits_per_s, LINK.latency_ps, &config);
            is_narrow(&[link], &config)
        };
        // 128 B at 200 ps a byte.
        let cases = [by_channel(25_600, 2), by_channel(25_601, 2), by_channel(25_600, 3)];
        assert_eq!(cases, [true, false, false]);
    }

    #[test]
    fn a_bytes_time_is_rounded_to_the_nearest() {
        let byte_time = |rate| LinkClass::of(rate, 0, &Config::nsim()).byte_time;
        // 8,000 / 22 ps times 2^20 are 381,300,363.64; 8 us times 2^20.
        assert_eq!([22_000_000_000, 1_000_000].map(byte_time), [381_300_364, 8_388_608_000_000]);
    }

    #[test]
    fn hosts_without_a_switch_are_refused_and_no_hosts_are_not() {
        let (graph, routing) = pair(1);
        assert!(check_routes(&graph, &routing, &[]).is_ok());
        let mut graph = Graph::new();
        let [left, right] = ["left", "right"].map(|name| graph.add_host(name));
        graph.connect((left.into(), 0), (right.into(), 0), LINK).unwrap();
        let made = Network::new(graph, routing, Config::nsim());
        assert!(matches!(made.err(), Some(BuildError::NotCabled { .. })));
    }

    #[test]
    fn nothing_is_felt_before_the_shortest_packet_has_been_sent() {
        let config = Config::nsim();
        let link = LinkClass::of(LINK.rate_bits_per_s, LINK.latency_ps, &config);
        // 128 B at 200 ps a byte.
        assert_eq!(lookahead_ps(&[link], &config), 25_600);
        assert_eq!(lookahead_ps(&[], &config), 1, "no time is in no slice");
    }

    #[test]
    fn the_memory_of_an_idle_network_is_that_of_all_its_tables() {
        // More lanes at a switch than a word has bits.
        let (graph, routing) = pair(40);
        let network = Network::new(graph, routing, Config::nsim()).unwrap();
        assert!(!network.more_requests.is_empty());
        let tables = [
            size_of_val(&*network.ports),
            size_of_val(&*network.lanes),
            size_of_val(&*network.more_requests),
            size_of_val(&*network.nics),
            size_of_val(&*network.channels),
        ];
        assert_eq!((network.idle_memory_bytes(), network.held_max_bytes()), (tables.iter().sum(), 0));
        let when_full = WhenFull::Pause { on_bytes: 20_000, off_bytes: 10_000 };
        let queueing = Queueing::Output(SharedBuffer { when_full, lag_hash: LagHash::Addresses });
        let (graph, routing) = pair(2);
        let network =
            Network::new(graph, routing, Config { queueing, vc_count: 1, ..Config::nsim() }).unwrap();
        let ethernet = size_of_val(&*network.ethernet.cables) + size_of_val(&*network.ethernet.groups);
        let others =
            [size_of_val(&*network.ports), size_of_val(&*network.nics), size_of_val(&*network.channels)];
        assert_eq!((network.ethernet.memory_bytes(), network.held_max_bytes()), (ethernet, 0));
        assert_eq!(network.idle_memory_bytes(), ethernet + others.iter().sum::<usize>());
    }
}
