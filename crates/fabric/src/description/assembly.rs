//! Puts a machine together from its sections: models, switches, hosts, cables, in this order.

use crate::graph::{HostId, LinkSpec, Port, SwitchId};
use crate::plan::{MacAddr, PortNumber};
use crate::topology::{Cable, Topology};

use super::cables::Wiring;
use super::hosts::{HostModel, host_model};
use super::machine::{Host, Machine, Places, Switch};
use super::models::{SwitchModel, model_named, switch_model};
use super::options::{PlanOptions, options};
use super::reader::{Located, Result, Section, check_name};
use super::shape;

/// 1 m of copper: what a cable in a rack adds, at two thirds of the speed of light.
const CABLE_LATENCY_PS: u64 = 5_000;
/// Most switches that are planned. Paths take 12 bytes for each two switches: 200 MB.
pub const PLANNED_SWITCHES_MAX: usize = 4096;
/// More hosts than this are taken for a mistake.
const HOSTS_MAX: u64 = 1 << 22;

/// The whole file.
pub(super) fn assemble(root: Section<'_>) -> Result<Machine> {
    let name = root.name("name", "\"my-cluster\"")?.value;
    let about = root.text("about")?.map_or(String::new(), |about| about.value);
    let cable_price = root.number("cable_price", 0.0, 1e12)?;
    let (switch_models, host_models) = models(&root)?;
    let mut wiring = Wiring::new(switch_models, host_models);
    let topology = switches(&root, &mut wiring)?;
    hosts(&root, &mut wiring)?;
    wiring.read_cables(&root)?;
    wiring.place_generated_hosts(&root)?;
    wiring.connect_hosts(&root)?;
    wiring.check_connected(&root)?;
    let options = root.section("plan")?.map(options).transpose()?.unwrap_or_default();
    check_options(&root, &options, topology.as_ref(), &wiring)?;
    root.finish()?;
    Ok(Machine {
        name,
        about,
        switch_models: wiring.switch_models,
        host_models: wiring.host_models,
        topology,
        graph: wiring.graph,
        switches: wiring.switches,
        hosts: wiring.hosts,
        link_ports: wiring.link_ports,
        options,
        cable_price,
        places: Places::default(),
    })
}

/// The models of switches and hosts.
pub(super) fn models(root: &Section<'_>) -> Result<(Vec<SwitchModel>, Vec<HostModel>)> {
    let switch_models: Result<Vec<SwitchModel>> =
        root.named_sections("switch_models")?.into_iter().map(|(n, s)| switch_model(&n, s)).collect();
    let host_models: Result<Vec<HostModel>> =
        root.named_sections("host_models")?.into_iter().map(|(n, s)| host_model(&n, s)).collect();
    Ok((switch_models?, host_models?))
}

fn switches(root: &Section<'_>, wiring: &mut Wiring) -> Result<Option<Topology>> {
    let listed = root.sections("switch")?;
    let Some(section) = root.section("topology")? else {
        for switch in listed {
            listed_switch(switch, wiring, None)?;
        }
        return Ok(None);
    };
    let default_model = switch_model_named(&section, "switch_model", wiring)?;
    let latency_ps = section.scaled("cable_latency_ns", 1e3, 0.0, 1e9)?.unwrap_or(CABLE_LATENCY_PS);
    wiring.cable_latency_ps = latency_ps;
    // `kind` may be left out where switches are listed: the section then only holds what they have in common.
    if !listed.is_empty() || !section.has("kind") {
        if section.has("kind") {
            let remedy = "remove `kind` (and its numbers), or the [[switch]] entries";
            return Err(section.error("kind", "switches come from [[switch]] entries already", remedy));
        }
        if let (true, Some(error)) = (listed.is_empty(), section.misspelt("kind")) {
            return Err(error);
        }
        wiring.must_be_tree = section.choice("shape", &["any", "tree"])? == Some(1);
        for switch in listed {
            listed_switch(switch, wiring, default_model)?;
        }
        section.finish()?;
        return Ok(None);
    }
    let topology = shape::topology(&section)?;
    let Some(model) = default_model else {
        let remedy = "add `switch_model = \"NAME\"`, NAME being one of the [switch_models.NAME]";
        return Err(section.error("switch_model", "does not say what switches it is made of", remedy));
    };
    check_plannable(&section, wiring, &topology, model)?;
    let cable_count = section.count("cables", 1..=256)?.unwrap_or(1) as u32;
    generated_switches(&section, wiring, &topology, model, cable_count)?;
    section.finish()?;
    Ok(Some(topology))
}

/// Switches without a router have no routes but the planner's: a machine too large for it is refused before
/// it is built.
fn check_plannable(s: &Section<'_>, wiring: &Wiring, topology: &Topology, model: usize) -> Result<()> {
    let count = topology.generator().switch_count();
    if wiring.switch_models[model].router.is_some() || count <= PLANNED_SWITCHES_MAX as u64 {
        return Ok(());
    }
    let problem = format!("{count} switches, and the planner takes {PLANNED_SWITCHES_MAX}");
    Err(s.error("kind", problem, "describe a smaller part, or switches with a `router` to simulate them"))
}

fn switch_model_named(s: &Section<'_>, key: &'static str, wiring: &Wiring) -> Result<Option<usize>> {
    let names: Vec<&str> = wiring.switch_models.iter().map(|model| model.name.as_str()).collect();
    model_named(s, key, "switch_models", &names)
}

fn listed_switch(s: Section<'_>, wiring: &mut Wiring, default: Option<usize>) -> Result<()> {
    let name = s.name("name", "\"sw0\"")?;
    let model = switch_model_named(&s, "model", wiring)?.or(default);
    let Some(model) = model else {
        let remedy = "add `model = \"NAME\"`, NAME being one of the [switch_models.NAME]";
        return Err(s.error_here(format!("{} has no model", name.value), remedy));
    };
    let host_count = s.count("hosts", 0..=4096)?.map(|count| count as u32);
    let coordinates = s.counts("coordinates", 0..=u64::from(u32::MAX))?.map_or(Vec::new(), |list| list.value);
    if !wiring.claim_name(&name.value) {
        let problem = format!("there already is something called {:?}", name.value);
        return Err(s.error_at("name", &name, problem, "give every switch and host its own name"));
    }
    let id = wiring.graph.add_switch(&name.value, &coordinates);
    wiring.add_switch_of(Switch { model, inside_host: None }, host_count);
    wiring.set_place(id, s.place());
    s.finish()
}

fn generated_switches(
    section: &Section<'_>,
    wiring: &mut Wiring,
    topology: &Topology,
    model: usize,
    cable_count: u32,
) -> Result<()> {
    let generator = topology.generator();
    let switch_count = generator.switch_count() as u32;
    for switch in 0..switch_count {
        let name = generator.switch_name(switch);
        wiring.claim_name(&name);
        wiring.graph.add_switch(&name, &generator.coordinates(switch));
        let carries_hosts = if generator.carries_hosts(switch) { None } else { Some(0) };
        wiring.add_switch_of(Switch { model, inside_host: None }, carries_hosts);
    }
    let cables = generator.cables();
    let mut ports = LinkPorts::reserve(section, wiring, &cables, cable_count)?;
    for Cable { a, b, width } in cables {
        let count = cable_count * width;
        let [near, far] = [a, b].map(|(switch, _)| ports.take(switch, count));
        let ends = [(SwitchId(a.0), a.1, near), (SwitchId(b.0), b.1, far)];
        connect_generated(section, wiring, ends)?;
    }
    Ok(())
}

fn connect_generated(
    section: &Section<'_>,
    wiring: &mut Wiring,
    ends: [(SwitchId, Port, Vec<PortNumber>); 2],
) -> Result<()> {
    let mut rate_bits_per_s = u64::MAX;
    for (switch, _, ports) in &ends {
        let rate = wiring
            .common_rate(*switch, ports)
            .map_err(|(problem, remedy)| section.error("cables", problem, remedy))?;
        rate_bits_per_s = rate_bits_per_s.min(rate);
        wiring
            .claim_lag(*switch, ports.len())
            .map_err(|(problem, remedy)| section.error("cables", problem, remedy))?;
        for &port in ports {
            wiring.claim_port(*switch, port, "a link to another switch");
        }
    }
    let cable_count = ends[0].2.len() as u32;
    let spec = LinkSpec { rate_bits_per_s, latency_ps: wiring.cable_latency_ps, cable_count };
    let [(a, a_port, a_ports), (b, b_port, b_ports)] = ends;
    wiring
        .graph
        .connect((a.into(), a_port), (b.into(), b_port), spec)
        .map_err(|error| section.error("kind", error.to_string(), "this is a bug: please report it"))?;
    wiring.link_ports.push([a_ports, b_ports]);
    Ok(())
}

/// Ports for a generated topology's links: the last ports of each switch, so that hosts keep theirs when a
/// cable is added, and uplinks (which are the last ports on most switches) are used for links.
struct LinkPorts {
    next: Vec<u32>,
}

impl LinkPorts {
    fn reserve(
        section: &Section<'_>,
        wiring: &Wiring,
        cables: &[Cable],
        cable_count: u32,
    ) -> Result<LinkPorts> {
        let mut needed = vec![0_u64; wiring.switches.len()];
        for cable in cables {
            for (switch, _) in [cable.a, cable.b] {
                needed[switch as usize] += u64::from(cable_count) * u64::from(cable.width);
            }
        }
        let mut next = Vec::with_capacity(needed.len());
        for (index, &needed) in needed.iter().enumerate() {
            let id = SwitchId(index as u32);
            let model = &wiring.switch_models[wiring.switches[index].model];
            let port_count = u64::from(model.port_count);
            if needed > port_count {
                let name = wiring.graph.name(id.into());
                let problem = format!(
                    "switch {name} needs {needed} ports for links, and {} has {port_count}",
                    model.name
                );
                let remedy = "use fewer `cables`, a switch with more ports, or a sparser topology";
                return Err(section.error("cables", problem, remedy));
            }
            next.push((port_count - needed) as u32 + 1);
        }
        Ok(LinkPorts { next })
    }

    fn take(&mut self, switch: u32, count: u32) -> Vec<PortNumber> {
        let next = &mut self.next[switch as usize];
        let first = *next;
        *next += count;
        (first..*next).map(|port| port as PortNumber).collect()
    }
}

/// `[hosts]`: their number is noted, to be placed when cables have taken their ports; `[[host]]`: one by one.
fn hosts(root: &Section<'_>, wiring: &mut Wiring) -> Result<()> {
    for section in root.sections("host")? {
        listed_host(section, wiring)?;
    }
    let Some(section) = root.section("hosts")? else { return Ok(()) };
    let Some(model) = host_model_named(&section, wiring)? else {
        let remedy = "add `model = \"NAME\"`, NAME being one of the [host_models.NAME]";
        return Err(section.error("model", "says of no model what the hosts are", remedy));
    };
    let count = section.count("count", 1..=HOSTS_MAX)?;
    let per_switch = section.count("per_switch", 1..=4096)?;
    let pattern = section.text("name")?;
    if let Some(pattern) = &pattern {
        check_pattern(&section, pattern)?;
    }
    let pattern = pattern.map_or_else(|| "h{host}".to_owned(), |pattern| pattern.value);
    let counts = spread(&section, wiring, count, per_switch)?;
    for (switch, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            let number = wiring.hosts.len();
            let name =
                pattern.replace("{host}", &number.to_string()).replace("{host1}", &(number + 1).to_string());
            add_host(&section, wiring, &name, model, Vec::new())?;
            wiring.generated_hosts.push((HostId(number as u32), SwitchId(switch as u32)));
        }
    }
    section.finish()
}

fn check_pattern(s: &Section<'_>, pattern: &Located<String>) -> Result<()> {
    if !pattern.value.contains("{host}") && !pattern.value.contains("{host1}") {
        let problem = format!("{:?} gives every host the same name", pattern.value);
        return Err(s.error_at(
            "name",
            pattern,
            problem,
            "put `{host}` (from 0) or `{host1}` (from 1) in it",
        ));
    }
    let longest = pattern.value.replace("{host}", "4194304").replace("{host1}", "4194304");
    check_name(&longest).map_err(|(problem, remedy)| s.error_at("name", pattern, problem, remedy))
}

/// Of `count` hosts those of the switch at `place` among so many. The remainder goes to the last switches, as
/// in figure 2 of the paper, where the first switches of SuperNova have 28 of the 225 hosts.
pub(crate) fn hosts_at(place: u64, switch_count: u64, count: u64) -> u64 {
    (place + 1) * count / switch_count - place * count / switch_count
}

/// How many of `[hosts]` each switch gets.
fn spread(s: &Section<'_>, wiring: &Wiring, count: Option<u64>, per_switch: Option<u64>) -> Result<Vec<u64>> {
    let fixed: u64 = wiring.host_counts.iter().flatten().map(|&count| u64::from(count)).sum();
    let open: Vec<usize> = (0..wiring.switches.len()).filter(|&i| wiring.host_counts[i].is_none()).collect();
    let mut counts: Vec<u64> = wiring.host_counts.iter().map(|count| u64::from(count.unwrap_or(0))).collect();
    let rest = match (count, per_switch) {
        (Some(_), Some(_)) => {
            let remedy = "give `count` (in all) or `per_switch`, not both";
            return Err(s.error("count", "says how many hosts there are a second time", remedy));
        }
        (Some(count), None) => {
            let Some(rest) = count.checked_sub(fixed) else {
                let problem = format!("{count} hosts, and the [[switch]] entries ask for {fixed}");
                return Err(s.error("count", problem, "let `count` be at least that"));
            };
            if rest > 0 && open.is_empty() {
                let problem = format!("no switch is left for {rest} of the {count} hosts");
                return Err(s.error("count", problem, "add switches, or let `hosts` of some switch open"));
            }
            rest
        }
        (None, Some(_)) if wiring.switches.is_empty() => {
            let remedy = "add [topology] with a `kind`, or [[switch]] entries";
            return Err(s.error("per_switch", "there are no switches", remedy));
        }
        (None, Some(per_switch)) => per_switch * open.len() as u64,
        (None, None) if fixed > 0 => 0,
        (None, None) => {
            let remedy = "add `count = 64` (in all) or `per_switch = 8`";
            return Err(s.error_here("does not say how many hosts there are", remedy));
        }
    };
    let slots = open.len() as u64;
    for (place, &switch) in open.iter().enumerate() {
        counts[switch] = hosts_at(place as u64, slots, rest);
    }
    Ok(counts)
}

fn host_model_named(s: &Section<'_>, wiring: &Wiring) -> Result<Option<usize>> {
    let names: Vec<&str> = wiring.host_models.iter().map(|model| model.name.as_str()).collect();
    model_named(s, "model", "host_models", &names)
}

fn listed_host(s: Section<'_>, wiring: &mut Wiring) -> Result<()> {
    let name = s.name("name", "\"node0\"")?;
    let Some(model) = host_model_named(&s, wiring)? else {
        let remedy = "add `model = \"NAME\"`, NAME being one of the [host_models.NAME]";
        return Err(s.error_here(format!("{} has no model", name.value), remedy));
    };
    let mut macs = Vec::new();
    for text in s.texts("macs")?.unwrap_or_default() {
        let Some(mac) = MacAddr::parse(&text.value).filter(|mac| !mac.is_multicast()) else {
            let problem = format!("{:?} is no address an interface can have", text.value);
            return Err(s.error_at(
                "macs",
                &text,
                problem,
                "write six bytes: \"52:54:00:12:34:56\", the first one even",
            ));
        };
        if !wiring.claim_mac(mac) {
            let problem = format!("{mac} is the address of another NIC");
            return Err(s.error_at("macs", &text, problem, "look the address up again: `ip link show`"));
        }
        macs.push(Some(mac));
    }
    let nic_count = wiring.host_models[model].nics.len();
    if macs.len() > nic_count {
        let problem = format!("{} addresses, more than the host has NICs ({nic_count})", macs.len());
        return Err(s.error("macs", problem, "give at most one a NIC, in the model's order"));
    }
    let id = add_host(&s, wiring, &name.value, model, macs)?;
    wiring.set_place(id, s.place());
    s.finish()
}

fn add_host(
    s: &Section<'_>,
    wiring: &mut Wiring,
    name: &str,
    model: usize,
    mut macs: Vec<Option<MacAddr>>,
) -> Result<HostId> {
    if !wiring.claim_name(name) {
        let problem = format!("there already is something called {name:?}");
        return Err(s.error("name", problem, "give every switch and host its own name"));
    }
    macs.resize(wiring.host_models[model].nics.len(), None);
    wiring.hosts.push(Host { model, macs, attachments: Vec::new() });
    Ok(wiring.graph.add_host(name))
}

fn check_options(
    root: &Section<'_>,
    options: &PlanOptions,
    topology: Option<&Topology>,
    wiring: &Wiring,
) -> Result<()> {
    use super::options::{Routing, TaggingOption};
    let Some(section) = root.section("plan")? else { return Ok(()) };
    let grid = topology.and_then(Topology::grid);
    let needs_grid = matches!(options.routing, Routing::DimensionOrder | Routing::NoWrapTransit);
    if needs_grid && grid.is_none() {
        let problem = "this topology has no dimensions";
        return Err(section.error("routing", problem, "use \"minimal\" or \"up-down\", or a mesh or torus"));
    }
    if let (false, Some(grid)) = (options.dimension_order.is_empty(), &grid)
        && options.dimension_order.len() != grid.dimensions.len()
    {
        let (named, count) = (options.dimension_order.len(), grid.dimensions.len());
        let problem = format!("names {named} dimensions, and the topology has {count}");
        return Err(section.error("dimension_order", problem, "name every dimension once, from 0"));
    }
    if !options.dimension_order.is_empty() && grid.is_none() {
        let problem = "this topology has no dimensions";
        return Err(section.error("dimension_order", problem, "remove it, or use a mesh or torus"));
    }
    if options.tagging == TaggingOption::Switch
        && let Some(one) = wiring.switch_models.iter().find(|model| !model.many_untagged_vlans_per_port)
    {
        let problem = format!("{} takes one untagged VLAN a port", one.name);
        return Err(section.error("tagging", problem, "use \"host\" or \"auto\""));
    }
    check_aging(&section, options, wiring)
}

fn check_aging(section: &Section<'_>, options: &PlanOptions, wiring: &Wiring) -> Result<()> {
    let Some(asked) = options.aging_time_s else { return Ok(()) };
    let short =
        wiring.switch_models.iter().find(|model| model.aging_time_max_s.is_some_and(|max| max < asked));
    match short {
        None => Ok(()),
        Some(model) => {
            let max = model.aging_time_max_s.unwrap_or(0);
            let problem = format!("{} keeps addresses for {max} s at most", model.name);
            Err(section.error("aging_time_s", problem, format!("use at most {max}")))
        }
    }
}
