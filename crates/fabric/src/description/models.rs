//! Makes of switches: `[switch_models.NAME]`. Those of hosts are in `hosts`.

use std::fmt::Write as _;

use crate::dialect::{Capabilities, KNOWN, capabilities_of};
use crate::plan::{MSTP_INSTANCES_MAX, PortNumber};
use crate::routing::{Dateline, TieRule};

use super::error::suggest;
use super::reader::{Located, Result, Section};

pub(super) const GIGA: f64 = 1e9;
pub(super) const PS_PER_NS: f64 = 1e3;
pub(super) const PS_PER_MS: f64 = 1e9;
/// 0.001 to 10,000 Gbit/s: a value outside it has the wrong unit.
pub(super) const RATE_GBPS: (f64, f64) = (0.001, 10_000.0);
/// Up to one second.
pub(super) const TIME_NS: (f64, f64) = (0.0, 1e9);

/// A make of switch, or of the router inside a node.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchModel {
    /// Its name in the description.
    pub name: String,
    /// Ports, numbered from 1.
    pub port_count: PortNumber,
    /// Rate of a port in each direction, bit/s.
    pub rate_bits_per_s: u64,
    /// Ports of another rate.
    pub fast_ports: Option<FastPorts>,
    /// How ports are called.
    pub port_names: PortNames,
    /// Name of the dialect its configuration is written in.
    pub dialect: String,
    /// VLANs it can have at once, if known.
    pub vlans_max: Option<u16>,
    /// MAC addresses it can learn, over all VLANs, if known.
    pub mac_table_max: Option<u64>,
    /// MSTP instances it takes beside the common one; 0 where its dialect has no words for MSTP.
    pub mstp_instances_max: u16,
    /// Ports in one LAG, if limited.
    pub lag_ports_max: Option<u16>,
    /// LAGs on one switch, if limited.
    pub lags_max: Option<u16>,
    /// Whether several untagged VLANs can be on one port.
    pub many_untagged_vlans_per_port: bool,
    /// Longest aging time, s.
    pub aging_time_max_s: Option<u32>,
    /// Whether learned addresses can be kept for ever.
    pub aging_can_be_off: bool,
    /// Whether pause frames are sent and obeyed.
    pub pause: bool,
    /// Whether a frame is received whole before it is sent on.
    pub switching: Switching,
    /// Packet memory shared by all ports, bytes, if known.
    pub buffer_bytes: Option<u64>,
    /// The most that waits for one port where frames are dropped, bytes; the simulator's.
    pub queue_bytes: Option<u64>,
    /// Bytes from one cable above which its far end is asked to pause; the simulator's.
    pub pause_on_bytes: Option<u64>,
    /// Bytes at which it may send again.
    pub pause_off_bytes: Option<u64>,
    /// The hash that chooses a frame's cable in a LAG; for the simulator.
    pub lag_hash: LagHash,
    /// Time through the switch on top of receiving the frame, ps.
    pub latency_ps: u64,
    /// Price of one, in the file's currency.
    pub price: Option<f64>,
    /// Pipeline and virtual channels, for interconnects with credits; the simulator's.
    pub router: Option<RouterModel>,
}

/// When a switch begins to send a frame on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switching {
    /// When all of it has come in.
    StoreAndForward,
    /// When its header has come in, whether the next buffer has room for it or not.
    CutThrough,
    /// When its header has come in and the next buffer has room for all of it.
    VirtualCutThrough,
}

/// What a switch hashes to choose a cable of a LAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LagHash {
    /// Source and destination addresses.
    Addresses,
    /// Addresses, and TCP's or UDP's ports: what plans configure.
    #[default]
    AddressesAndPorts,
}

/// A run of ports with a rate of their own (uplinks).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastPorts {
    /// First of them.
    pub first: PortNumber,
    /// Last of them.
    pub last: PortNumber,
    /// Their rate, bit/s.
    pub rate_bits_per_s: u64,
}

/// Names of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortNames {
    /// `{port}` stands for the number from 1, `{port0}` for the number from 0.
    Pattern(String),
    /// One by one.
    List(Vec<String>),
}

impl PortNames {
    /// A port's name.
    pub fn name(&self, number: PortNumber) -> String {
        match self {
            // Most patterns have the number once: the others take the long way.
            PortNames::Pattern(pattern) => match pattern.split_once("{port}") {
                Some((before, after)) if !after.contains('{') && !before.contains('{') => {
                    let mut name = String::with_capacity(pattern.len());
                    let _ = write!(name, "{before}{number}{after}");
                    name
                }
                _ => pattern
                    .replace("{port}", &number.to_string())
                    .replace("{port0}", &number.saturating_sub(1).to_string()),
            },
            PortNames::List(names) => names
                .get(usize::from(number).saturating_sub(1))
                .cloned()
                .unwrap_or_else(|| number.to_string()),
        }
    }
}

/// Which of the packets that could take a link goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arbitration {
    /// Those of each lane in turn.
    RoundRobin,
    /// The one that left its NIC first.
    OldestFirst,
    /// Those of each virtual channel of the link in turn, and of each lane in turn that wants the channel.
    ChannelFirst,
}

/// A router with credit-based flow control: NSIM's parameters (P4, table 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterModel {
    /// Virtual channels of a link.
    pub virtual_channel_count: u32,
    /// Buffer of one virtual channel, bytes.
    pub virtual_channel_buffer_bytes: u64,
    /// Flit, bytes.
    pub flit_bytes: u64,
    /// Longest packet, header included, bytes.
    pub packet_max_bytes: u64,
    /// Shortest packet, bytes.
    pub packet_min_bytes: u64,
    /// Header of a packet, bytes.
    pub header_bytes: u64,
    /// Which virtual channels packets use around rings, if there are two or more.
    pub dateline: Dateline,
    /// Which way packets go around a ring where both ways are equally long.
    pub tie: TieRule,
    /// Which packet goes next. `None`: what the simulator takes for such a topology.
    pub arbitration: Option<Arbitration>,
    /// Whether an input port passes on one packet at a time, and not one a virtual channel.
    pub one_crossbar_input_per_port: bool,
    /// Route computation (RC), ps.
    pub route_computation_ps: u64,
    /// Virtual-channel allocation (VA), ps.
    pub channel_allocation_ps: u64,
    /// Switch allocation (SA), ps.
    pub switch_allocation_ps: u64,
    /// Switch traversal (ST) of a flit, ps.
    pub switch_traversal_ps: u64,
}

pub(super) fn switch_model(name: &Located<String>, section: Section<'_>) -> Result<SwitchModel> {
    let s = &section;
    let dialect = dialect(s)?;
    let able = capabilities_of(&dialect).expect("dialect() answers known names");
    let port_count = s.required_count("ports", 1..=4096, "48")? as PortNumber;
    let (pause_on_bytes, pause_off_bytes) = pause_thresholds(s)?;
    let model = SwitchModel {
        name: name.value.clone(),
        port_count,
        rate_bits_per_s: s.required_scaled("rate_gbps", GIGA, RATE_GBPS, "1")?,
        fast_ports: fast_ports(s, port_count)?,
        port_names: port_names(s, port_count, &able)?,
        vlans_max: s.count("vlans_max", 1..=4094)?.map(|n| n as u16),
        mac_table_max: s.count("mac_table_max", 1..=1 << 40)?,
        mstp_instances_max: mstp_instances_max(s, &able, &dialect)?,
        lag_ports_max: s.count("lag_ports_max", 1..=256)?.map(|n| n as u16),
        lags_max: s.count("lags_max", 0..=4096)?.map(|n| n as u16),
        many_untagged_vlans_per_port: untagged(s, &able, &dialect)?,
        aging_time_max_s: aging_time_max(s, &able)?,
        aging_can_be_off: able.aging_can_be_off,
        pause: pause(s, &able, &dialect)?,
        switching: switching(s)?,
        buffer_bytes: s.count("buffer_bytes", 64..=1 << 40)?,
        queue_bytes: s.count("queue_bytes", 64..=1 << 40)?,
        pause_on_bytes,
        pause_off_bytes,
        lag_hash: lag_hash(s)?,
        latency_ps: s.scaled("latency_ns", PS_PER_NS, TIME_NS.0, TIME_NS.1)?.unwrap_or(0),
        price: s.number("price", 0.0, 1e12)?,
        router: s.section("router")?.map(router).transpose()?,
        dialect,
    };
    section.finish()?;
    Ok(model)
}

fn dialect(s: &Section<'_>) -> Result<String> {
    let names: Vec<&str> = KNOWN.iter().map(|&(name, _)| name).collect();
    let chosen = s.choice("dialect", &names)?;
    Ok(chosen.map_or("json", |index| names[index]).into())
}

/// The dialect's, unless the model has fewer or more of what 802.1Q allows.
fn mstp_instances_max(s: &Section<'_>, able: &Capabilities, dialect: &str) -> Result<u16> {
    let Some(given) = s.count("mstp_instances_max", 1..=u64::from(MSTP_INSTANCES_MAX))? else {
        return Ok(able.mstp_instances_max);
    };
    if able.mstp_instances_max == 0 {
        let problem = format!("no words for MSTP are known in dialect {dialect}");
        return Err(s.error("mstp_instances_max", problem, "leave it out"));
    }
    Ok(given as u16)
}

fn untagged(s: &Section<'_>, able: &Capabilities, dialect: &str) -> Result<bool> {
    let many = match s.choice("untagged_vlans_per_port", &["many", "one"])? {
        None => able.many_untagged_vlans_per_port,
        Some(index) => index == 0,
    };
    if many && !able.many_untagged_vlans_per_port {
        let problem = format!("dialect {dialect} has no words for several untagged VLANs on a port");
        let remedy = "use \"one\" (hosts then tag), or the dialect of the switch you have";
        return Err(s.error("untagged_vlans_per_port", problem, remedy));
    }
    Ok(many)
}

/// A bridge in software may be on NICs that pause; where the switch cannot, the description cannot either.
fn pause(s: &Section<'_>, able: &Capabilities, dialect: &str) -> Result<bool> {
    let given = s.flag("pause")?;
    if given == Some(true) && !able.sends_pause && !able.many_untagged_vlans_per_port {
        let problem = able.without_pause.to_owned();
        return Err(s.error("pause", problem, format!("leave it out: dialect {dialect} cannot say it")));
    }
    Ok(given.unwrap_or(able.sends_pause))
}

fn aging_time_max(s: &Section<'_>, able: &Capabilities) -> Result<Option<u32>> {
    let given = s.count("aging_time_max_s", 10..=u64::from(u32::MAX))?.map(|n| n as u32);
    if let (Some(given), Some(possible)) = (given, able.aging_time_max_s)
        && given > possible
    {
        let problem = format!("{given} s are more than the {possible} s the dialect can say");
        return Err(s.error("aging_time_max_s", problem, format!("use at most {possible}")));
    }
    Ok(given.or(able.aging_time_max_s))
}

fn switching(s: &Section<'_>) -> Result<Switching> {
    let kinds = ["store-and-forward", "cut-through", "virtual-cut-through"];
    Ok(match s.choice("switching", &kinds)? {
        Some(1) => Switching::CutThrough,
        Some(2) => Switching::VirtualCutThrough,
        _ => Switching::StoreAndForward,
    })
}

fn lag_hash(s: &Section<'_>) -> Result<LagHash> {
    Ok(match s.choice("lag_hash", &["addresses", "addresses-and-ports"])? {
        Some(0) => LagHash::Addresses,
        _ => LagHash::AddressesAndPorts,
    })
}

fn pause_thresholds(s: &Section<'_>) -> Result<(Option<u64>, Option<u64>)> {
    let on = s.count("pause_on_bytes", 64..=1 << 31)?;
    let off = s.count("pause_off_bytes", 0..=1 << 31)?;
    match (on, off) {
        (Some(on), Some(off)) if off > on => {
            let problem = format!("is more than `pause_on_bytes`, {on}");
            Err(s.error("pause_off_bytes", problem, "use less: sending goes on when that little is left"))
        }
        (None, Some(_)) => {
            let problem = "says when a pause ends, but not when it begins";
            Err(s.error("pause_off_bytes", problem, "give `pause_on_bytes` too"))
        }
        _ => Ok((on, off)),
    }
}

fn fast_ports(s: &Section<'_>, port_count: PortNumber) -> Result<Option<FastPorts>> {
    let Some(fast) = s.section("fast_ports")? else { return Ok(None) };
    let range = 1..=u64::from(port_count);
    let ports = FastPorts {
        first: fast.required_count("first", range.clone(), "49")? as PortNumber,
        last: fast.required_count("last", range, "52")? as PortNumber,
        rate_bits_per_s: fast.required_scaled("rate_gbps", GIGA, RATE_GBPS, "10")?,
    };
    if ports.first > ports.last {
        let problem = format!("ports {} to {} are none", ports.first, ports.last);
        return Err(fast.error("first", problem, "let `first` be at most `last`"));
    }
    fast.finish()?;
    Ok(Some(ports))
}

fn port_names(s: &Section<'_>, port_count: PortNumber, able: &Capabilities) -> Result<PortNames> {
    if !s.has("port_names") {
        // Known, though not read: an unknown key would otherwise not be suggested.
        let _ = s.texts("port_names");
        let pattern = s.text("port_name")?;
        if let Some(pattern) = &pattern
            && !pattern.value.contains("{port}")
            && !pattern.value.contains("{port0}")
        {
            let problem = format!("{:?} gives every port the same name", pattern.value);
            return Err(s.error_at(
                "port_name",
                pattern,
                problem,
                "put `{port}` (from 1) or `{port0}` in it",
            ));
        }
        let pattern = pattern.map_or_else(|| able.port_name.to_owned(), |p| p.value);
        return Ok(PortNames::Pattern(pattern));
    }
    let names = s.texts("port_names")?.unwrap_or_default();
    if names.len() != usize::from(port_count) {
        let problem = format!("{} names for {port_count} ports", names.len());
        return Err(s.error("port_names", problem, "give one name a port, or `port_name = \"p{port}\"`"));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|earlier| earlier.value == name.value) {
            let problem = format!("port name {:?} comes twice", name.value);
            return Err(s.error_at("port_names", name, problem, "give every port its own name"));
        }
    }
    Ok(PortNames::List(names.into_iter().map(|name| name.value).collect()))
}

fn router(section: Section<'_>) -> Result<RouterModel> {
    let s = &section;
    let time = |key| s.scaled(key, PS_PER_NS, TIME_NS.0, TIME_NS.1).map(|time| time.unwrap_or(0));
    let bytes = |key, example| s.required_count(key, 1..=1 << 30, example);
    let model = RouterModel {
        virtual_channel_count: s.required_count("virtual_channels", 1..=16, "2")? as u32,
        virtual_channel_buffer_bytes: bytes("virtual_channel_buffer_bytes", "8192")?,
        flit_bytes: bytes("flit_bytes", "16")?,
        packet_max_bytes: s.required_count("packet_max_bytes", 1..=1 << 24, "2048")?,
        packet_min_bytes: bytes("packet_min_bytes", "32")?,
        header_bytes: s.count("header_bytes", 0..=1 << 20)?.unwrap_or(0),
        dateline: match s.choice("dateline", &["on-entry", "at-wrap"])? {
            Some(1) => Dateline::AtWrap,
            _ => Dateline::OnEntry,
        },
        tie: match s.choice("tie", &["balanced", "up"])? {
            Some(1) => TieRule::Up,
            _ => TieRule::Balanced,
        },
        // Two names of the same.
        arbitration: match s
            .choice("arbitration", &["round-robin", "oldest-first", "age", "channel-first"])?
        {
            Some(0) => Some(Arbitration::RoundRobin),
            Some(1 | 2) => Some(Arbitration::OldestFirst),
            Some(_) => Some(Arbitration::ChannelFirst),
            None => None,
        },
        one_crossbar_input_per_port: s.choice("crossbar_inputs", &["per-channel", "per-port"])? == Some(1),
        route_computation_ps: time("route_computation_ns")?,
        channel_allocation_ps: time("channel_allocation_ns")?,
        switch_allocation_ps: time("switch_allocation_ns")?,
        switch_traversal_ps: time("switch_traversal_ns")?,
    };
    if model.virtual_channel_buffer_bytes < model.packet_max_bytes {
        let problem = format!("no packet of {} bytes fits", model.packet_max_bytes);
        let remedy = "virtual cut-through needs a buffer of at least `packet_max_bytes`";
        return Err(s.error("virtual_channel_buffer_bytes", problem, remedy));
    }
    if model.flit_bytes > model.packet_max_bytes {
        let problem = format!("is more than the longest packet, {} bytes", model.packet_max_bytes);
        return Err(s.error("flit_bytes", problem, "use at most `packet_max_bytes`"));
    }
    if model.header_bytes >= model.packet_max_bytes {
        let problem = format!("leaves no payload in a packet of {} bytes", model.packet_max_bytes);
        return Err(s.error("header_bytes", problem, "use less than `packet_max_bytes`"));
    }
    if model.packet_min_bytes > model.packet_max_bytes {
        let problem = format!("is more than the longest packet, {} bytes", model.packet_max_bytes);
        return Err(s.error("packet_min_bytes", problem, "use at most `packet_max_bytes`"));
    }
    section.finish()?;
    Ok(model)
}

/// The model a key names.
pub(super) fn model_named(
    s: &Section<'_>,
    key: &'static str,
    table: &str,
    names: &[&str],
) -> Result<Option<usize>> {
    let Some(word) = s.text(key)? else { return Ok(None) };
    match names.iter().position(|name| *name == word.value) {
        Some(index) => Ok(Some(index)),
        None => {
            let problem = format!("there is no [{table}.{}]", word.value);
            Err(s.error_at(key, &word, problem, suggest(&word.value, names)))
        }
    }
}
