//! From a machine description to a simulated network: what the simulator makes of the file's numbers.
//!
//! A switch model with a `router` section is simulated as such. One without is an Ethernet switch: frames
//! of the NIC's MTU with 38 B of preamble, header, checksum and gap, output queues, its buffer shared out
//! evenly over its ports, and 802.3x pause; where the description has pause off, loss, and TCP at the
//! NICs. What of a description the simulator does not model is listed in [`Simulated::notes`], so that no
//! number is silently without effect.

use std::rc::Rc;

use ayatori_fabric::description::{
    Arbitration as DescribedArbitration, HostModel, LagHash as DescribedHash, Machine, NicDevice, NicModel,
    NicTransfer, RouterModel, Routing as Asked, SwitchModel, Switching as Described, Waiting,
};
use ayatori_fabric::graph::LinkSpec;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::routing::{Dateline, DimensionOrder, Method, Routing, RoutingError, Table, TieRule};
use ayatori_fabric::topology::Topology;

use crate::cluster;
use crate::host::Model;
use crate::network::{
    Arbitration, BuildError, Config, CrossbarInputs, LagHash, Network, NicOrder, Probe, Queueing,
    SharedBuffer, Switching, Tcp, WhenFull,
};
pub use crate::planned::PlanError;
use crate::planned::Planned;

/// Preamble 8, header 14, checksum 4, gap 12: what a frame takes on the wire beside its payload, bytes.
const ETHERNET_OVERHEAD_BYTES: u32 = 38;
/// Headers of IP and TCP with timestamps, bytes.
const TCP_HEADERS_BYTES: u32 = 52;
/// The shortest frame (64 B) with preamble and gap, bytes.
const ETHERNET_MIN_BYTES: u32 = 84;
/// Packet memory of a port where the description gives none, bytes: 16 frames of 1,538.
const ETHERNET_PORT_BUFFER_BYTES: u64 = 16 * 1_538;

/// A network made from a description.
#[derive(Debug)]
pub struct Simulated<P: Probe> {
    /// The network, at rest.
    pub network: Network<P>,
    /// What is simulated otherwise than described, a sentence each.
    pub notes: Vec<String>,
}

/// Why a machine cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The numbers do not make a network.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No such routes.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Different kinds of switches with credits.
    #[error("switches {0} and {1} differ in their router: the simulator needs all routers alike")]
    MixedRouters(String, String),
    /// The machine's plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A number too large.
    #[error("{0} is too large for the simulator: {1}")]
    TooLarge(&'static str, u64),
}

/// Makes the network of a machine.
///
/// # Errors
/// Says what does not fit.
pub fn simulate<P: Probe>(machine: &Machine, probe: P) -> Result<Simulated<P>, MachineError> {
    simulate_planned(machine, None, probe)
}

/// As [`simulate`], with the routes of a plan of an Ethernet machine in the place of one made now. The
/// plan has to be
/// the machine's ([`ayatori_fabric::vlan::written`] checks that).
///
/// # Errors
/// As [`simulate`]; machines of routers have no plan.
pub fn simulate_planned<P: Probe>(
    machine: &Machine,
    plan: Option<&Plan>,
    probe: P,
) -> Result<Simulated<P>, MachineError> {
    let mut notes = Vec::new();
    let models: Vec<&SwitchModel> =
        machine.graph.switches().map(|switch| machine.switch_model(switch)).collect();
    let first = models[0];
    if let Some(other) = models.iter().find(|model| model.router != first.router) {
        return Err(MachineError::MixedRouters(first.name.clone(), other.name.clone()));
    }
    let config = match &first.router {
        Some(router) => router_config(machine, router, first)?,
        None => ethernet_config(machine, first, &mut notes)?,
    };
    let (routing, vlan_of) = match &first.router {
        Some(_) if plan.is_some() => {
            return Err(PlanError::Unfit("its switches are routers, which have no VLAN plan").into());
        }
        Some(_) => (routing(machine, &mut notes)?, None),
        None => {
            let Planned { routing, vlan_of } = Planned::of(machine, plan, &mut notes)?;
            (routing, Some(vlan_of))
        }
    };
    let as_simulated = |model: &SwitchModel| {
        (
            switching(model),
            model.latency_ps,
            model.lag_hash,
            model.pause_on_bytes,
            model.pause_off_bytes,
            model.queue_bytes,
            model.pause,
        )
    };
    let buffer = |model: &SwitchModel| model.buffer_bytes.map(|all| all / u64::from(model.port_count));
    if models.iter().any(|model| as_simulated(model) != as_simulated(first) || buffer(model) != buffer(first))
    {
        notes.push(format!("all switches are simulated as '{}' switches", first.name));
    }
    match first.router {
        Some(_) => note_router(machine, first, &mut notes),
        None => note_ethernet(machine, first, &mut notes),
    }
    let config = Config { vc_count: config.vc_count.max(routing.vc_count()), ..config };
    let network = Network::with_probe(machine.graph.clone(), routing, config, probe)?;
    let network = match vlan_of {
        Some(vlan_of) => network.with_vlans(vlan_of),
        None => network,
    };
    Ok(Simulated { network, notes })
}

/// What is given for a router and not modelled.
fn note_router(machine: &Machine, model: &SwitchModel, notes: &mut Vec<String>) {
    let mut ethernet = vec![
        "buffer_bytes",
        "queue_bytes",
        "pause_on_bytes",
        "lag_hash",
        "vlans_max",
        "mac_table_max",
        "aging_time_max_s",
    ];
    if model.pause {
        ethernet.push("pause");
    }
    note_unused(
        machine,
        model,
        &ethernet,
        "routers have virtual_channel_buffer_bytes and credits, and no VLANs",
        notes,
    );
    if model.switching == Described::CutThrough {
        notes.push(format!("{}: cut-through is simulated as virtual cut-through", model.name));
    }
    if machine.graph.links().any(|(_, link)| link.spec.cable_count > 1) {
        notes.push("links of several cables are simulated as one that is as fast as all of them".into());
    }
}

/// Keys of a switch model that are given and have no effect.
fn note_unused(machine: &Machine, model: &SwitchModel, keys: &[&str], why: &str, notes: &mut Vec<String>) {
    let given = |key: &&str| machine.gives(&format!("switch_models.{}.{key}", model.name));
    let given: Vec<&str> = keys.iter().copied().filter(|key| given(key)).collect();
    if !given.is_empty() {
        let verb = if given.len() == 1 { "has" } else { "have" };
        notes.push(format!("{}: {} {verb} no effect: {why}", model.name, given.join(", ")));
    }
}

/// What is given for Ethernet switches and not modelled.
fn note_ethernet(machine: &Machine, model: &SwitchModel, notes: &mut Vec<String>) {
    if let Some(count) = model.mac_table_max {
        notes.push(format!(
            "address tables ({count} in '{}') are not simulated: switches know all hosts and never flood",
            model.name
        ));
    }
    if model.pause && machine.options.pause {
        note_unused(machine, model, &["queue_bytes"], "frames are not dropped where there is pause", notes);
    } else {
        note_unused(machine, model, &["pause_on_bytes", "pause_off_bytes"], "pause is off", notes);
    }
    if machine.graph.links().all(|(_, link)| link.spec.cable_count == 1) {
        note_unused(machine, model, &["lag_hash"], "no link has several cables", notes);
    }
    let mut mtus: Vec<u32> =
        machine.host_models.iter().flat_map(|host| &host.nics).map(|nic| nic.mtu_bytes).collect();
    mtus.sort_unstable();
    mtus.dedup();
    if let [least, _, ..] = mtus[..] {
        notes.push(format!("all frames carry at most {least} B, the smallest mtu_bytes"));
    }
}

fn narrow(what: &'static str, value: u64) -> Result<u32, MachineError> {
    u32::try_from(value).map_err(|_| MachineError::TooLarge(what, value))
}

/// Which packet goes next where the description does not say. Around rings routers allot channels first: so
/// do BookSim2 and CAMINOS, and tornado traffic on rings of 8 to 16 then takes as long as in these
/// (docs/compared.md). Elsewhere nothing has been compared, and lanes go in turn.
fn default_arbitration(machine: &Machine) -> DescribedArbitration {
    match machine.topology {
        Some(Topology::Ring(_) | Topology::Torus(_) | Topology::Tofu(_)) => {
            DescribedArbitration::ChannelFirst
        }
        _ => DescribedArbitration::RoundRobin,
    }
}

fn router_config(
    machine: &Machine,
    router: &RouterModel,
    model: &SwitchModel,
) -> Result<Config, MachineError> {
    Ok(Config {
        mtu_bytes: narrow("packet_max_bytes", router.packet_max_bytes)?,
        header_bytes: narrow("header_bytes", router.header_bytes)?,
        packet_min_bytes: narrow("packet_min_bytes", router.packet_min_bytes)?,
        flit_bytes: narrow("flit_bytes", router.flit_bytes)?,
        queueing: Queueing::Input,
        vc_buffer_bytes: narrow("virtual_channel_buffer_bytes", router.virtual_channel_buffer_bytes)?,
        vc_count: u8::try_from(router.virtual_channel_count)
            .map_err(|_| MachineError::TooLarge("virtual_channels", router.virtual_channel_count.into()))?,
        arbitration: match router.arbitration.unwrap_or_else(|| default_arbitration(machine)) {
            DescribedArbitration::RoundRobin => Arbitration::RoundRobin,
            DescribedArbitration::OldestFirst => Arbitration::OldestFirst,
            DescribedArbitration::ChannelFirst => Arbitration::ChannelFirst,
        },
        crossbar_inputs: if router.one_crossbar_input_per_port {
            CrossbarInputs::PerPort
        } else {
            CrossbarInputs::PerChannel
        },
        route_ps: router.route_computation_ps + model.latency_ps,
        vc_allocation_ps: router.channel_allocation_ps,
        switch_allocation_ps: router.switch_allocation_ps,
        switch_traversal_ps: router.switch_traversal_ps,
        switching: switching(model),
        nic_order: NicOrder::RoundRobin,
    })
}

fn switching(model: &SwitchModel) -> Switching {
    match model.switching {
        Described::StoreAndForward => Switching::StoreAndForward,
        Described::CutThrough | Described::VirtualCutThrough => Switching::CutThrough,
    }
}

fn ethernet_config(
    machine: &Machine,
    model: &SwitchModel,
    notes: &mut Vec<String>,
) -> Result<Config, MachineError> {
    let payloads = machine.host_models.iter().flat_map(|host| &host.nics).map(|nic| nic.mtu_bytes);
    let mtu_bytes = payloads.min().unwrap_or(1_500) + ETHERNET_OVERHEAD_BYTES;
    let pauses = model.pause && machine.options.pause;
    let when_full = match pauses {
        true => pause(machine, model, mtu_bytes, notes)?,
        false => drop_tail(machine, model, notes),
    };
    let lag_hash = match model.lag_hash {
        DescribedHash::Addresses => LagHash::Addresses,
        DescribedHash::AddressesAndPorts => LagHash::AddressesAndPorts,
    };
    let buffer = SharedBuffer { when_full, lag_hash };
    Ok(Config {
        mtu_bytes,
        header_bytes: ETHERNET_OVERHEAD_BYTES + if pauses { 0 } else { TCP_HEADERS_BYTES },
        packet_min_bytes: ETHERNET_MIN_BYTES.min(mtu_bytes),
        // A switch looks at a frame once it has the addresses; bytes are not padded.
        flit_bytes: 1,
        queueing: Queueing::Output(buffer),
        vc_buffer_bytes: mtu_bytes,
        vc_count: 1,
        arbitration: Arbitration::RoundRobin,
        crossbar_inputs: CrossbarInputs::PerChannel,
        route_ps: model.latency_ps,
        vc_allocation_ps: 0,
        switch_allocation_ps: 0,
        switch_traversal_ps: 0,
        switching: switching(model),
        nic_order: NicOrder::RoundRobin,
    })
}

/// Thresholds of pause that lose no frame. Above the threshold there can be the frame that crosses it, what
/// comes in during a frame that delays the pause frame, the frame that its receiver is sending, and what is
/// on the cable meanwhile.
fn pause(
    machine: &Machine,
    model: &SwitchModel,
    mtu_bytes: u32,
    notes: &mut Vec<String>,
) -> Result<WhenFull, MachineError> {
    let ports = u64::from(model.port_count);
    let share_bytes = model.buffer_bytes.map_or(ETHERNET_PORT_BUFFER_BYTES, |all| all / ports);
    let in_flight_bytes = |spec: &LinkSpec| {
        let bits_ps = u128::from(spec.rate_bits_per_s) * 2 * u128::from(spec.latency_ps);
        (bits_ps / 8 / 1_000_000_000_000) as u64
    };
    let on_cables = machine.graph.links().map(|(_, link)| in_flight_bytes(&link.spec)).max().unwrap_or(0);
    let headroom_bytes = 3 * u64::from(mtu_bytes) + u64::from(ETHERNET_MIN_BYTES) + on_cables;
    let frame_bytes = u64::from(mtu_bytes);
    let usual_bytes = share_bytes.saturating_sub(headroom_bytes).max(frame_bytes);
    let on_bytes = model.pause_on_bytes.unwrap_or(usual_bytes);
    // Two frames lower, so that one frame does not change it back.
    let off_bytes = model.pause_off_bytes.unwrap_or(on_bytes.saturating_sub(2 * frame_bytes)).min(on_bytes);
    if on_bytes + headroom_bytes > share_bytes {
        notes.push(format!(
            "{}: pause above {on_bytes} B with {headroom_bytes} B on their way is more than the {share_bytes} B of a \
             port's share of the buffer; frames are simulated as never lost",
            model.name
        ));
    }
    Ok(WhenFull::Pause {
        on_bytes: narrow("pause_on_bytes", on_bytes)?,
        off_bytes: narrow("pause_off_bytes", off_bytes)?,
    })
}

/// What a switch without pause has room for, and how the hosts' TCP deals with what is lost.
fn drop_tail(machine: &Machine, model: &SwitchModel, notes: &mut Vec<String>) -> WhenFull {
    let ports = u64::from(model.port_count);
    let memory_bytes = model.buffer_bytes.unwrap_or(ports * ETHERNET_PORT_BUFFER_BYTES);
    if model.buffer_bytes.is_none() {
        notes.push(format!(
            "{}: no pause, so frames can be lost; buffer_bytes is not given, \
             {ETHERNET_PORT_BUFFER_BYTES} B a port are assumed",
            model.name
        ));
    }
    let given = machine.host_models.first().map(|host| host.tcp).unwrap_or_default();
    if machine.host_models.iter().any(|host| host.tcp != given) {
        notes.push("the TCP of all hosts is simulated as the first host model's".into());
    }
    let usual = Tcp::default();
    let tcp = Tcp {
        initial_window_count: given.initial_window_count.unwrap_or(usual.initial_window_count),
        window_max_bytes: given.window_max_bytes.unwrap_or(usual.window_max_bytes),
        timeout_min_ps: given.timeout_min_ps.unwrap_or(usual.timeout_min_ps),
        ack_delay_ps: given.ack_delay_ps.unwrap_or(usual.ack_delay_ps),
        jitter_ps: given.jitter_ps.unwrap_or(usual.jitter_ps),
    };
    WhenFull::Drop { memory_bytes, queue_bytes: model.queue_bytes.unwrap_or(memory_bytes / ports), tcp }
}

/// The routes of routers with credits. Ethernet switches have those of the machine's plan ([`Planned`]).
fn routing(machine: &Machine, notes: &mut Vec<String>) -> Result<Routing, MachineError> {
    let asked = machine.options.routing;
    let graph = &machine.graph;
    let Some(topology) = &machine.topology else {
        notes.push("switches listed one by one are routed up*/down*".into());
        return Ok(Routing::Table(Table::up_down(graph, None)?));
    };
    // With credits a dateline costs nothing.
    let routers =
        || machine.graph.switches().filter_map(|switch| machine.switch_model(switch).router.as_ref());
    let several = routers().all(|router| router.virtual_channel_count > 1);
    let asked_for = routers().map(|router| router.dateline).next().unwrap_or_default();
    let dateline = if several { asked_for } else { Dateline::Off };
    let tie = routers().map(|router| router.tie).next().unwrap_or(TieRule::Balanced);
    if let (Some(grid), Asked::Auto | Asked::DimensionOrder | Asked::NoWrapTransit) = (topology.grid(), asked)
    {
        let given = &machine.options.dimension_order;
        let complete = given.len() == grid.dimensions.len();
        let order = if complete { given.clone() } else { (0..grid.dimensions.len()).collect() };
        if asked == Asked::NoWrapTransit {
            notes.push("no-wrap-transit is simulated as plain dimension order on routers".into());
        }
        let routing = DimensionOrder::with_order(&grid, &order, dateline, tie);
        // With ties at half the ring shared out, one of four has no cycle yet.
        let free_extent = if tie == TieRule::Balanced { 4 } else { 3 };
        let rings = grid.dimensions.iter().any(|dimension| dimension.wraps && dimension.extent > free_extent);
        if !several && rings {
            notes.push("with one virtual channel there is no dateline: rings can deadlock".into());
        }
        return Ok(Routing::DimensionOrder(routing));
    }
    let method = match asked {
        Asked::Minimal => Method::Minimal,
        Asked::UpDown => Method::UpDown { root: None },
        Asked::SpanningTree => {
            notes.push("spanning-tree routes are simulated as up*/down* on routers".into());
            Method::UpDown { root: None }
        }
        Asked::Auto | Asked::DimensionOrder | Asked::NoWrapTransit => Method::usual_for(topology),
    };
    Ok(Routing::new(method, topology, graph)?)
}

/// A machine of the packet pacing paper's kind in code: a torus of these extents with NSIM's routers and one
/// NIC a node. A cable's latency is not in the paper; 10 ns is what two metres and a transceiver take.
///
/// # Errors
/// If the extents make no torus.
pub fn nsim_torus<P: Probe>(extents: &[u32], probe: P) -> Result<Network<P>, MachineError> {
    tofu_torus(extents, 1, probe)
}

/// As [`nsim_torus`] with several NICs a node, each with a link of its own to the router: FX10 has four.
///
/// # Errors
/// As [`nsim_torus`].
pub fn tofu_torus<P: Probe>(extents: &[u32], nic_count: u16, probe: P) -> Result<Network<P>, MachineError> {
    use ayatori_fabric::topology::{HostLayout, Torus};
    let topology = Topology::Torus(Torus::new(extents));
    let link = LinkSpec { rate_bits_per_s: 40_000_000_000, latency_ps: 10_000, cable_count: 1 };
    let hosts = HostLayout { per_switch_count: 1, nic_count, link };
    let graph =
        topology.build_with_hosts(link, hosts).map_err(|error| BuildError::Config(error.to_string()))?;
    let method = Method::DimensionOrder { dateline: Dateline::OnEntry, tie: TieRule::Balanced };
    let routing = Routing::new(method, &topology, &graph)?;
    let config = Config { vc_count: 2, ..Config::nsim() };
    Ok(Network::with_probe(graph, routing, config, probe)?)
}

/// Hosts, software and NICs of a machine's first host model; what the file does not give stays as
/// [`cluster::Config`]'s default. Adds to `notes` what is given and not modelled.
pub fn cluster_config(
    machine: &Machine,
    network: &Config,
    processes_per_host: u32,
    notes: &mut Vec<String>,
) -> cluster::Config {
    let mut config = cluster::Config { processes_per_host, ..cluster::Config::default() };
    let Some(host) = machine.host_models.first() else { return config };
    let set = |value: &mut u64, given: Option<u64>| *value = given.unwrap_or(*value);
    set(&mut config.send_ps, host.software.send_ps);
    set(&mut config.receive_ps, host.software.receive_ps);
    set(&mut config.copy_bytes_per_s, host.software.copy_bytes_per_s);
    set(&mut config.memory_bytes_per_s, host.memory_bytes_per_s);
    set(&mut config.memory_latency_ps, host.core_to_core_ps);
    config.software = cluster::Software::of(&host.software, host.cache_bytes.unwrap_or(0));
    config.rates = cluster::Rates::of(&host.software);
    config.hardware = Model::of(host, network.payload_max_bytes()).map(Rc::new);
    if let Some(nic) = host.nics.first() {
        let setup_ps = if config.hardware.is_some() { 0 } else { nic.dma_setup_ps.unwrap_or(0) };
        let given = nic.command_ps.unwrap_or(0) + setup_ps;
        // Where stages or sockets are described, nothing is added that is not.
        let is_described = !nic.send_stages.is_empty() || nic.sockets.is_some();
        set(&mut config.command_ps, (given > 0 || is_described).then_some(given));
        let mtu_bytes = nic.mtu_bytes;
        config.profile = nic.device.map(|device| cluster::Profile { device, mtu_bytes });
        config.sockets = nic.sockets.as_ref().map(|costs| Rc::new(cluster::Sockets::of(costs)));
        config.eager_bytes_max = nic.eager_bytes_max.map_or(config.eager_bytes_max, |bytes| bytes as usize);
        config.packet_bytes_max = nic.packet_bytes_max.map(|bytes| bytes as usize);
        config.transfer = match nic.transfer {
            Some(NicTransfer::Put) => cluster::Transfer::Put,
            Some(NicTransfer::Packets) => cluster::Transfer::Packets,
            Some(NicTransfer::Get) | None => config.transfer,
        };
        config.data_in_order = nic.data_in_order;
        let driven = |nic: &NicModel| {
            let lengths = (nic.eager_bytes_max, nic.packet_bytes_max);
            let moves = (nic.transfer, nic.data_in_order);
            (nic.device, lengths, moves, nic.command_ps, nic.sockets.clone())
        };
        if host.nics.iter().any(|other| driven(other) != driven(nic)) {
            notes.push(format!("all NICs are simulated as driven like {}", nic.name));
        }
        note_host(machine, host, &config, notes);
    }
    let core_count = host.socket_count * host.cores_per_socket_count;
    config.schedule_core_count = Some(core_count);
    if host.software.yield_ps.is_some() {
        config.core_count = Some(core_count);
    } else if processes_per_host > core_count {
        notes.push(format!(
            "{processes_per_host} processes on hosts of {core_count} cores: without yield_ns each is \
             simulated with a core of its own"
        ));
    }
    let drops = matches!(&network.queueing, Queueing::Output(buffer) if matches!(buffer.when_full, WhenFull::Drop { .. }));
    if machine.gives(&format!("host_models.{}.tcp", host.name)) && !drops {
        notes.push("tcp has no effect: switches drop no frames".into());
    }
    if machine.host_models.len() > 1 {
        notes.push(format!("all hosts are simulated as '{}' hosts", host.name));
    }
    config
}

/// What is given for a host and has no effect.
fn note_host(machine: &Machine, host: &HostModel, config: &cluster::Config, notes: &mut Vec<String>) {
    let given = |key: &str| machine.gives(&format!("host_models.{}.{key}", host.name));
    let given_of_nic = |key: &str| (0..host.nics.len()).any(|nic| given(&format!("nic[{nic}].{key}")));
    if config.hardware.is_none() {
        let of_nodes =
            ["memory_ns", "memory_row_ns", "numa_hop_ns", "numa_link_gbytes_per_s", "numa_nodes", "bus"];
        if of_nodes.iter().any(|key| given(key)) || host.nics.iter().any(|nic| nic.numa_node > 0) {
            notes.push("NUMA distances are not simulated without buses or stages of NICs".into());
        }
        if host.nics.iter().any(|nic| nic.buffer_bytes.is_some()) {
            notes.push("buffers of NICs are not simulated without buses or stages".into());
        }
    }
    let unused = unused_of_software(host, config).into_iter().map(|(key, is_unused, why)| {
        let is_given = given(&format!("software.{key}")) || given(key);
        (key, is_given && is_unused, why)
    });
    let unused_of_nic = unused_of_nics(machine, host).into_iter();
    let unused_of_nic = unused_of_nic.map(|(key, is_unused, why)| (key, given_of_nic(key) && is_unused, why));
    let unused = unused.chain(unused_of_nic).filter(|(_, is_unused, _)| *is_unused);
    notes.extend(unused.map(|(key, _, why)| format!("{key} has no effect: {why}")));
}

/// A key, whether it has no effect if it is given, and why.
type Unused = (&'static str, bool, &'static str);

fn unused_of_software(host: &HostModel, config: &cluster::Config) -> Vec<Unused> {
    let software = &host.software;
    let calls = software.send_system_calls + software.receive_system_calls;
    let has_calls = software.system_call_ps.is_some();
    let polls = software.waiting == Waiting::Poll;
    let no_kernel_copy = software.kernel_copy_bytes_per_s.is_none();
    let has_one_node = config.hardware.is_some() && host.numa_node_count == 1;
    vec![
        ("send_system_calls", software.send_system_calls > 0 && !has_calls, NO_CALLS),
        ("receive_system_calls", software.receive_system_calls > 0 && !has_calls, NO_CALLS),
        (
            "waiting",
            !polls && software.interrupt_ps.is_none() && software.context_switch_ps.is_none(),
            "neither interrupt_ns nor context_switch_ns is given",
        ),
        ("nics_as", host.nics.len() == 1, "hosts have one NIC"),
        ("numa_hop_ns", has_one_node, ONE_NODE),
        ("numa_link_gbytes_per_s", has_one_node, ONE_NODE),
        ("memory_gib", true, "how much memory programs use is not simulated"),
        (
            "system_call_ns",
            software.system_call_ps.is_some() && calls == 0,
            "system calls are counted nowhere",
        ),
        ("interrupt_ns", software.interrupt_ps.is_some() && polls, POLLS),
        ("context_switch_ns", software.context_switch_ps.is_some() && polls, POLLS),
        (
            "thread_switch_ns",
            software.thread_switch_ps.is_some() && software.waiting != Waiting::Thread,
            NO_THREAD,
        ),
        ("yield_ns", software.yield_ps.is_some() && !polls, "processes do not poll"),
        (
            "cache_mib",
            software.hot_copy_bytes_per_s.is_none() && software.hot_kernel_copy_bytes_per_s.is_none(),
            "hot_copy_gbytes_per_s is not given",
        ),
        ("kernel_copy_ns", no_kernel_copy, NO_KERNEL_COPY),
        ("kernel_copy_at_once_ns", no_kernel_copy, NO_KERNEL_COPY),
        ("hot_kernel_copy_gbytes_per_s", no_kernel_copy, NO_KERNEL_COPY),
        ("kernel_copy_rate", no_kernel_copy, NO_KERNEL_COPY),
        ("fresh_kernel_copy_rate", no_kernel_copy, NO_KERNEL_COPY),
        ("fresh_kernel_copy_rate", !no_kernel_copy && config.profile.is_none(), NO_DEVICE),
        ("exchange_ns", config.profile.is_none(), NO_DEVICE),
        ("get_ns", no_kernel_copy, NO_KERNEL_COPY),
        ("get_at_once_ns", no_kernel_copy, NO_KERNEL_COPY),
        ("announce_ns", config.profile.is_none(), NO_DEVICE),
        ("relay_rate", config.profile.is_none(), NO_DEVICE),
        ("relay_ends_ns", config.profile.is_none(), NO_DEVICE),
        ("relay_ends_ns", software.relay_rates.is_empty(), "relay_rate is not given"),
        ("longer_software", config.profile.is_none(), NO_DEVICE),
        ("longer_packet", config.profile.is_none(), NO_DEVICE),
        ("longer_packet_in_row", config.profile.is_none(), NO_DEVICE),
        ("pieces", config.profile.is_none(), NO_DEVICE),
        ("block_packet", config.profile.is_none(), NO_DEVICE),
        ("block_pieces", software.block_packets.is_empty(), NO_BLOCKS),
        ("block_relay_rate", software.block_packets.is_empty(), NO_BLOCKS),
        ("block_relay_ends_ns", software.block_relay_rates.is_empty(), "block_relay_rate is not given"),
        ("cores_are_near", config.profile.is_none(), NO_DEVICE),
        ("shared_write", config.profile.is_none(), NO_DEVICE),
        ("shared_write_within", software.shared_writes.is_empty(), "shared_write is not given"),
        ("shared_read", config.profile.is_none(), NO_DEVICE),
        ("lines_back_gbytes_per_s", config.profile.is_none(), NO_DEVICE),
    ]
}

fn unused_of_nics(machine: &Machine, host: &HostModel) -> Vec<Unused> {
    let has_stages = host.nics.iter().any(|nic| !nic.send_stages.is_empty());
    let has_device = host.nics.iter().any(|nic| nic.device.is_some());
    let has_routers = machine.switch_models.iter().any(|model| model.router.is_some());
    vec![
        ("dma_setup_ns", has_stages, "the stages say what a NIC takes"),
        ("packet_ns", has_stages, "the stages say what a NIC takes"),
        (
            "packet_bytes_max",
            host.nics.len() == 1 && host.nics[0].transfer != Some(NicTransfer::Packets),
            "long messages do not go in packets (`transfer`)",
        ),
        ("mtu_bytes", has_routers && !has_device, "routers have packet_max_bytes"),
        ("data_order", host.nics.first().is_some_and(moves_packets), "long messages go in packets, in order"),
    ]
}

/// Whether no data are got or put by a NIC.
fn moves_packets(nic: &NicModel) -> bool {
    nic.transfer == Some(NicTransfer::Packets) || nic.device == Some(NicDevice::Tcp)
}

const NO_CALLS: &str = "system_call_ns is not given";
const ONE_NODE: &str = "hosts have one NUMA node";
const NO_KERNEL_COPY: &str = "kernel_copy_gbytes_per_s is not given";
const NO_DEVICE: &str = "NICs have no `device`";
const NO_BLOCKS: &str = "block_packet is not given";
const POLLS: &str = "processes poll";
const NO_THREAD: &str = "no thread waits for processes";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NoProbe;
    use crate::traffic::patterns::PairwiseExchange;
    use crate::traffic::rounds::{self, Setup};

    fn load(name: &str) -> Machine {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(name);
        Machine::load(&path).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn nsim_and_fx10_are_simulated_with_the_papers_table_3() {
        // The table has a stage that allots channels; FX10's routers are not published, and are a torus' by
        // default.
        for name in ["nsim.toml", "fx10.toml"] {
            let Simulated { network, notes } = simulate(&load(name), NoProbe).unwrap();
            assert_eq!(notes, Vec::<String>::new());
            let arbitration = Arbitration::ChannelFirst;
            assert_eq!(network.config(), &Config { arbitration, ..Config::nsim() });
            assert_eq!(network.nic_count(), 64);
        }
    }

    #[test]
    fn what_the_model_leaves_out_is_noted() {
        let notes = |text: &str, from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let machine = Machine::parse("test.toml", &text.replace(from, to)).unwrap();
            let Simulated { mut notes, network } = simulate(&machine, NoProbe).unwrap();
            let _ = cluster_config(&machine, network.config(), 2, &mut notes);
            notes.join("; ")
        };
        let supernova = include_str!("../../../machines/supernova.toml");
        let fx10 = include_str!("../../../machines/fx10.toml");
        assert_eq!(notes(fx10, "FX10", "FX10"), "");
        for (text, from, to, expected) in [
            (supernova, "SuperNova", "SuperNova", "address tables (8000 in 'powerconnect-6248')"),
            (supernova, "price = 2000", "pause = false", "no pause, so frames can be lost"),
            (
                supernova,
                "mac_table_max = 8000",
                "mac_table_max = 80",
                "the plan fails its check \"mac table\"",
            ),
            (supernova, "price = 2000", "pause_on_bytes = 100000", "pause above 100000 B"),
            (supernova, "sockets = 2", "sockets = 1", "2 processes on hosts of 1 cores"),
            (supernova, "sockets = 2", "sockets = 2\nnuma_hop_ns = 50", "NUMA distances are not simulated"),
            (
                supernova,
                "sockets = 2",
                "sockets = 2\nsoftware = { interrupt_ns = 50 }",
                "interrupt_ns has no",
            ),
            (
                fx10,
                "pause = false  ",
                "buffer_bytes = 100000\npause = false  ",
                "routers have virtual_channel",
            ),
            (fx10, "virtual-cut-through", "cut-through", "simulated as virtual cut-through"),
            (fx10, "extents = [4, 2, 8]", "extents = [4, 2, 8]\ncables = 2\n", "as fast as all of them"),
            (fx10, "virtual_channels = 2", "virtual_channels = 1", "no dateline"),
        ] {
            let text = text.replace("ports = 8 ", "ports = 16 ");
            let found = notes(&text, from, to);
            assert!(found.contains(expected), "{to}: {found}");
        }
    }

    #[test]
    fn ties_around_rings_go_as_the_file_says() {
        let balanced =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/nsim.toml"));
        let balanced = balanced.unwrap();
        let up = balanced.replace("flit_bytes = 16", "flit_bytes = 16\ntie = \"up\"");
        // How many messages of the step to the opposite node of the axis of 8 the busiest link carries.
        use ayatori_fabric::graph::SwitchId;
        let most = |text: &str| {
            let machine = Machine::parse("nsim.toml", text).unwrap();
            let network = simulate(&machine, NoProbe).unwrap().network;
            let mut loads = std::collections::BTreeMap::new();
            for from in 0..64 {
                let to = SwitchId(from ^ 32);
                for lane in network.routing().path(network.graph(), SwitchId(from), to, to.0).unwrap() {
                    *loads.entry(lane.channel).or_insert(0) += 1;
                }
            }
            loads.into_values().max()
        };
        assert_eq!((most(&balanced), most(&up)), (Some(2), Some(4)));
    }

    #[test]
    fn ethernet_machines_carry_traffic_and_name_what_is_unmodelled() {
        for name in ["supernova.toml", "misc.toml"] {
            let Simulated { mut network, notes } = simulate(&load(name), NoProbe).unwrap();
            let setup = Setup::blocks(&network, 1);
            let processes = network.nic_count() as u32;
            let report = rounds::run(&mut network, &PairwiseExchange::new(processes, 2_000), &setup);
            assert!(report.is_ok(), "{name} {notes:?}: {report:?}");
            assert_eq!(network.leftovers(), None);
        }
    }
}
