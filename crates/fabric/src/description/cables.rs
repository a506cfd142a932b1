//! Ports and cables: `[[cable]]`, and the state of a machine being put together.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, HostId, LinkSpec, Node, SwitchId};
use crate::plan::{MacAddr, PortNumber};

use super::error::{DescriptionError, suggest};
use super::hosts::{HostModel, NicsAs};
use super::machine::{Host, HostLink, Switch};
use super::models::{LagHash, PortNames, SwitchModel, Switching};
use super::reader::{Located, Place, Result, Section};

/// Problem and remedy; the caller adds the place.
type Complaint = (String, String);

/// A machine being put together.
pub(super) struct Wiring {
    pub(super) switch_models: Vec<SwitchModel>,
    pub(super) host_models: Vec<HostModel>,
    pub(super) graph: Graph,
    pub(super) switches: Vec<Switch>,
    /// Hosts asked for by a switch; `None`: as many as come.
    pub(super) host_counts: Vec<Option<u32>>,
    pub(super) hosts: Vec<Host>,
    /// Hosts of `[hosts]` and their switches.
    pub(super) generated_hosts: Vec<(HostId, SwitchId)>,
    pub(super) link_ports: Vec<[Vec<PortNumber>; 2]>,
    pub(super) cable_latency_ps: u64,
    pub(super) must_be_tree: bool,
    names: BTreeMap<String, ()>,
    macs: BTreeSet<MacAddr>,
    /// Use of each physical port, by switch.
    ports: Vec<BTreeMap<PortNumber, String>>,
    lag_counts: Vec<u32>,
    by_name: BTreeMap<String, Node>,
    /// NICs of hosts that are cabled to a switch, by host.
    nic_cables: Vec<BTreeMap<usize, NicCable>>,
    /// Where switches and hosts are described one by one.
    places: BTreeMap<Node, Place>,
    /// The bridge inside a host.
    bridges: BTreeMap<HostId, SwitchId>,
    /// By host model: the model of the bridges in such hosts.
    bridge_models: BTreeMap<usize, usize>,
}

/// A cable from a host's NIC to a switch.
#[derive(Debug, Clone)]
struct NicCable {
    switch: SwitchId,
    port: PortNumber,
    /// The `[[cable]]`; `None` for hosts of `[hosts]`.
    place: Option<Place>,
}

/// One end of a `[[cable]]`.
struct CableEnd {
    node: Node,
    /// Port numbers of a switch; NIC indices of a host.
    ports: Vec<PortNumber>,
}

impl Wiring {
    pub(super) fn new(switch_models: Vec<SwitchModel>, host_models: Vec<HostModel>) -> Wiring {
        Wiring {
            switch_models,
            host_models,
            graph: Graph::new(),
            switches: Vec::new(),
            host_counts: Vec::new(),
            hosts: Vec::new(),
            generated_hosts: Vec::new(),
            link_ports: Vec::new(),
            cable_latency_ps: 5_000,
            must_be_tree: false,
            names: BTreeMap::new(),
            macs: BTreeSet::new(),
            ports: Vec::new(),
            lag_counts: Vec::new(),
            by_name: BTreeMap::new(),
            nic_cables: Vec::new(),
            places: BTreeMap::new(),
            bridges: BTreeMap::new(),
            bridge_models: BTreeMap::new(),
        }
    }

    pub(super) fn claim_name(&mut self, name: &str) -> bool {
        self.names.insert(name.to_owned(), ()).is_none()
    }

    pub(super) fn claim_mac(&mut self, mac: MacAddr) -> bool {
        self.macs.insert(mac)
    }

    /// Notes where a switch or host is described.
    pub(super) fn set_place(&mut self, node: impl Into<Node>, place: Place) {
        self.places.insert(node.into(), place);
    }

    pub(super) fn add_switch_of(&mut self, switch: Switch, host_count: Option<u32>) {
        self.switches.push(switch);
        self.host_counts.push(host_count);
        self.ports.push(BTreeMap::new());
        self.lag_counts.push(0);
    }

    fn model(&self, switch: SwitchId) -> &SwitchModel {
        &self.switch_models[self.switches[switch.index()].model]
    }

    fn port_rate(&self, switch: SwitchId, port: PortNumber) -> u64 {
        let model = self.model(switch);
        match model.fast_ports {
            Some(fast) if (fast.first..=fast.last).contains(&port) => fast.rate_bits_per_s,
            _ => model.rate_bits_per_s,
        }
    }

    /// The rate that all these ports have.
    pub(super) fn common_rate(
        &self,
        switch: SwitchId,
        ports: &[PortNumber],
    ) -> std::result::Result<u64, Complaint> {
        let rates: BTreeSet<u64> = ports.iter().map(|&port| self.port_rate(switch, port)).collect();
        match (rates.first(), rates.len()) {
            (Some(&rate), 1) => Ok(rate),
            _ => {
                let name = self.graph.name(switch.into());
                let numbers: Vec<String> = ports.iter().map(PortNumber::to_string).collect();
                let problem = format!("ports {} of {name}, a LAG, have unequal rates", numbers.join(", "));
                Err((problem, "use ports of one rate for a LAG: frames are spread evenly over them".into()))
            }
        }
    }

    /// Counts a LAG against the switch's limits.
    pub(super) fn claim_lag(
        &mut self,
        switch: SwitchId,
        port_count: usize,
    ) -> std::result::Result<(), Complaint> {
        if port_count < 2 {
            return Ok(());
        }
        let name = self.graph.name(switch.into()).to_owned();
        let model = self.model(switch);
        if let Some(max) = model.lag_ports_max
            && port_count > usize::from(max)
        {
            let problem =
                format!("a LAG of {port_count} ports at {name}, and {} takes {max} in one", model.name);
            return Err((problem, format!("use no more cables in a link than {max}")));
        }
        let lags_max = model.lags_max;
        let model_name = model.name.clone();
        let count = &mut self.lag_counts[switch.index()];
        *count += 1;
        match lags_max {
            Some(max) if *count > u32::from(max) => {
                let problem = format!("LAG number {count} of {name}, and {model_name} can have {max}");
                Err((problem, "use single cables here, or a switch that can have more LAGs".into()))
            }
            _ => Ok(()),
        }
    }

    /// Notes what a port is used for; the earlier use if there is one.
    pub(super) fn claim_port(&mut self, switch: SwitchId, port: PortNumber, user: &str) -> Option<String> {
        self.ports[switch.index()].insert(port, user.to_owned())
    }

    /// All `[[cable]]` entries. Links between switches are made at once, hosts' cables are noted.
    pub(super) fn read_cables(&mut self, root: &Section<'_>) -> Result<()> {
        self.nic_cables = vec![BTreeMap::new(); self.hosts.len()];
        self.index_names();
        let sections = root.sections("cable")?;
        let mut cables = Vec::new();
        for section in sections {
            let [from, to] = ["from", "to"].map(|key| self.read_end(&section, key));
            let ends = [from?, to?];
            let latency = section.scaled("latency_ns", 1e3, 0.0, 1e9)?;
            self.check_ends(&section, &ends)?;
            cables.push((section, ends, latency.unwrap_or(self.cable_latency_ps)));
        }
        self.add_bridges(&cables.iter().map(|(section, ends, _)| (section, ends)).collect::<Vec<_>>())?;
        for (section, ends, latency_ps) in cables {
            self.plug(&section, ends, latency_ps)?;
            section.finish()?;
        }
        Ok(())
    }

    fn index_names(&mut self) {
        let switches = self.graph.switches().map(Node::Switch);
        let nodes: Vec<Node> = switches.chain(self.graph.hosts().map(Node::Host)).collect();
        for node in nodes {
            self.by_name.insert(self.graph.name(node).to_owned(), node);
        }
    }

    fn read_end(&self, s: &Section<'_>, key: &'static str) -> Result<CableEnd> {
        let text = s.required_text(key, "\"sw0:1\"")?;
        let (name, ports) = match text.value.rsplit_once(':') {
            Some((name, ports)) => (name, Some(ports)),
            None => (text.value.as_str(), None),
        };
        let Some(&node) = self.by_name.get(name) else {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let problem = format!("there is no switch or host {name:?}");
            return Err(s.error_at(key, &text, problem, suggest(name, &names)));
        };
        let ports = match node {
            Node::Switch(switch) => self.switch_ports(s, key, &text, switch, ports)?,
            Node::Host(host) => self.host_nics(s, key, &text, host, ports)?,
        };
        Ok(CableEnd { node, ports })
    }

    fn switch_ports(
        &self,
        s: &Section<'_>,
        key: &'static str,
        text: &Located<String>,
        switch: SwitchId,
        ports: Option<&str>,
    ) -> Result<Vec<PortNumber>> {
        let wrong = |problem: String| {
            let remedy = "write \"sw0:1\" for a port, \"sw0:1-4\" for a LAG of four";
            Err(s.error_at(key, text, problem, remedy))
        };
        let Some(ports) = ports else { return wrong(format!("{:?} names no port", text.value)) };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let (Ok(first), Ok(last)) = (first.parse::<PortNumber>(), last.parse::<PortNumber>()) else {
            return wrong(format!("{ports:?} is no port number"));
        };
        let model = self.model(switch);
        if first == 0 || last > model.port_count {
            let problem = format!("{} has no port {}", model.name, if first == 0 { 0 } else { last });
            let remedy = format!("use ports 1 to {}", model.port_count);
            return Err(s.error_at(key, text, problem, remedy));
        }
        if first > last {
            let remedy = format!("write \"{name}:{last}-{first}\"", name = self.graph.name(switch.into()));
            return Err(s.error_at(key, text, format!("{first} to {last} are no ports"), remedy));
        }
        Ok((first..=last).collect())
    }

    fn host_nics(
        &self,
        s: &Section<'_>,
        key: &'static str,
        text: &Located<String>,
        host: HostId,
        nic: Option<&str>,
    ) -> Result<Vec<PortNumber>> {
        let model = &self.host_models[self.hosts[host.index()].model];
        let names: Vec<&str> = model.nics.iter().map(|nic| nic.name.as_str()).collect();
        match nic {
            None if names.len() == 1 => Ok(vec![0]),
            None => {
                let problem = format!("{:?} does not say which NIC", text.value);
                let remedy = format!("write \"{}:{}\"", text.value, names[0]);
                Err(s.error_at(key, text, problem, remedy))
            }
            Some(nic) => match names.iter().position(|name| *name == nic) {
                Some(index) => Ok(vec![index as PortNumber]),
                None => {
                    let problem = format!("{} has no NIC {nic:?}", model.name);
                    Err(s.error_at(key, text, problem, suggest(nic, &names)))
                }
            },
        }
    }

    fn check_ends(&self, s: &Section<'_>, ends: &[CableEnd; 2]) -> Result<()> {
        let [a, b] = ends;
        if a.node == b.node {
            let problem = format!("a cable from {} to itself", self.graph.name(a.node));
            return Err(s.error("to", problem, "cable it to another switch or host"));
        }
        if a.ports.len() != b.ports.len() {
            let count = |end: &CableEnd| end.ports.len();
            let ports = if count(a) == 1 { "port" } else { "ports" };
            let problem = format!("{} {ports} at one end, {} at the other", count(a), count(b));
            return Err(s.error("to", problem, "name as many ports at both ends: each cable has two"));
        }
        Ok(())
    }

    /// Hosts that are cabled to hosts forward frames: each gets a bridge inside, whose ports are its NICs.
    fn add_bridges(&mut self, cables: &[(&Section<'_>, &[CableEnd; 2])]) -> Result<()> {
        for (section, ends) in cables {
            let (Node::Host(a), Node::Host(b)) = (ends[0].node, ends[1].node) else { continue };
            for host in [a, b] {
                if !self.bridges.contains_key(&host) {
                    let bridge = self.add_bridge(section, host)?;
                    self.bridges.insert(host, bridge);
                }
            }
        }
        Ok(())
    }

    fn add_bridge(&mut self, s: &Section<'_>, host: HostId) -> Result<SwitchId> {
        let host_model = self.hosts[host.index()].model;
        let model = match self.bridge_models.get(&host_model) {
            Some(&model) => model,
            None => {
                let name = format!("{}-bridge", self.host_models[host_model].name);
                if self.switch_models.iter().any(|model| model.name == name) {
                    let problem = format!("makes a model of bridges, and [switch_models.{name}] is there");
                    return Err(s.error("to", problem, "give that model of switches another name"));
                }
                self.switch_models.push(bridge_model(name, &self.host_models[host_model]));
                self.bridge_models.insert(host_model, self.switch_models.len() - 1);
                self.switch_models.len() - 1
            }
        };
        let bridge = format!("{}-br0", self.graph.name(host.into()));
        if !self.claim_name(&bridge) {
            let problem = format!("makes a bridge {bridge:?}, and there already is something called so");
            return Err(s.error("to", problem, "give that switch or host another name"));
        }
        let bridge = self.graph.add_switch(&bridge, &[]);
        self.add_switch_of(Switch { model, inside_host: Some(host) }, Some(0));
        Ok(bridge)
    }

    fn plug(&mut self, s: &Section<'_>, ends: [CableEnd; 2], latency_ps: u64) -> Result<()> {
        let [a, b] = ends.map(|end| self.through_bridge(end));
        match (a.node, b.node) {
            (Node::Switch(near), Node::Switch(far)) => {
                self.link(s, [(near, a.ports), (far, b.ports)], latency_ps)
            }
            (Node::Host(host), Node::Switch(switch)) => {
                self.note_nic(s, host, a.ports[0], switch, b.ports[0])
            }
            (Node::Switch(switch), Node::Host(host)) => {
                self.note_nic(s, host, b.ports[0], switch, a.ports[0])
            }
            // Both hosts have bridges, so neither end is a host any more.
            (Node::Host(_), Node::Host(_)) => Ok(()),
        }
    }

    fn through_bridge(&self, end: CableEnd) -> CableEnd {
        match end.node {
            Node::Host(host) if self.bridges.contains_key(&host) => CableEnd {
                node: self.bridges[&host].into(),
                ports: end.ports.iter().map(|nic| nic + 1).collect(),
            },
            _ => end,
        }
    }

    fn take_port(&mut self, s: &Section<'_>, switch: SwitchId, port: PortNumber, user: &str) -> Result<()> {
        if let Some(earlier) = self.claim_port(switch, port, user) {
            let name = self.graph.name(switch.into());
            let names_first = s.text("from")?.is_some_and(|text| text.value.starts_with(&format!("{name}:")));
            let key = if names_first { "from" } else { "to" };
            let problem = format!("port {port} of {name} is used twice: it has {earlier} already");
            return Err(s.error(key, problem, "move one of the cables to a free port"));
        }
        Ok(())
    }

    fn link(
        &mut self,
        s: &Section<'_>,
        ends: [(SwitchId, Vec<PortNumber>); 2],
        latency_ps: u64,
    ) -> Result<()> {
        let mut rate_bits_per_s = u64::MAX;
        for (at, (switch, ports)) in ends.iter().enumerate() {
            let key = ["from", "to"][at];
            let placed = |(problem, remedy): Complaint| s.error(key, problem, remedy);
            rate_bits_per_s = rate_bits_per_s.min(self.common_rate(*switch, ports).map_err(placed)?);
            self.claim_lag(*switch, ports.len()).map_err(placed)?;
            let user = format!("the cable to {}", self.graph.name(ends[1 - at].0.into()));
            for &port in ports {
                self.take_port(s, *switch, port, &user)?;
            }
        }
        if self.must_be_tree && self.graph.switch_distances(ends[0].0)[ends[1].0.index()].is_some() {
            let [a, b] = [0, 1].map(|at| self.graph.name(ends[at].0.into()).to_owned());
            let problem = format!("closes a cycle: {a} and {b} are joined already, and `shape` is \"tree\"");
            return Err(s.error("to", problem, "remove this cable, or use shape = \"any\""));
        }
        let spec = LinkSpec { rate_bits_per_s, latency_ps, cable_count: ends[0].1.len() as u32 };
        self.connect(s, [ends[0].0.into(), ends[1].0.into()], spec)?;
        let [(_, a), (_, b)] = ends;
        self.link_ports.push([a, b]);
        Ok(())
    }

    fn connect(&mut self, s: &Section<'_>, nodes: [Node; 2], spec: LinkSpec) -> Result<()> {
        let bug = |error: crate::graph::GraphError| {
            s.error_here(error.to_string(), "use fewer cables on this switch or host")
        };
        let [a, b] = nodes;
        let a_port = self.graph.free_port(a, 0).map_err(bug)?;
        let b_port = self.graph.free_port(b, 0).map_err(bug)?;
        self.graph.connect((a, a_port), (b, b_port), spec).map(|_| ()).map_err(bug)
    }

    fn note_nic(
        &mut self,
        s: &Section<'_>,
        host: HostId,
        nic: PortNumber,
        switch: SwitchId,
        port: PortNumber,
    ) -> Result<()> {
        let name = self.graph.name(host.into()).to_owned();
        let user = format!("the cable to {name}");
        self.take_port(s, switch, port, &user)?;
        let nic = usize::from(nic);
        let cable = NicCable { switch, port, place: Some(s.place()) };
        if self.nic_cables[host.index()].insert(nic, cable).is_some() {
            let nic = &self.host_models[self.hosts[host.index()].model].nics[nic].name;
            let problem = format!("{nic} of {name} is cabled twice");
            return Err(s.error("from", problem, "a NIC takes one cable: use another NIC"));
        }
        Ok(())
    }

    /// Gives the hosts of `[hosts]` the lowest free ports of their switches.
    pub(super) fn place_generated_hosts(&mut self, root: &Section<'_>) -> Result<()> {
        let generated = std::mem::take(&mut self.generated_hosts);
        let free = |(index, used): (usize, &BTreeMap<PortNumber, String>)| {
            usize::from(self.model(SwitchId(index as u32)).port_count) - used.len()
        };
        let free_counts: Vec<usize> = self.ports.iter().enumerate().map(free).collect();
        for &(host, switch) in &generated {
            let nic_count = self.host_models[self.hosts[host.index()].model].nics.len();
            for nic in 0..nic_count {
                let model = self.model(switch);
                let used = &self.ports[switch.index()];
                let free = (1..=model.port_count).find(|port| !used.contains_key(port));
                let Some(port) = free else {
                    let here = generated.iter().filter(|(_, at)| *at == switch).count();
                    let problem = format!(
                        "{} has {} ports left for {here} hosts with {nic_count} NICs each",
                        self.graph.name(switch.into()),
                        free_counts[switch.index()],
                    );
                    let remedy = "use fewer hosts or `cables`, more switches, or switches with more ports";
                    return Err(root.error("hosts", problem, remedy));
                };
                let user = self.graph.name(host.into()).to_owned();
                self.claim_port(switch, port, &user);
                self.nic_cables[host.index()].insert(nic, NicCable { switch, port, place: None });
            }
        }
        Ok(())
    }

    /// Links hosts, after all links between switches.
    pub(super) fn connect_hosts(&mut self, root: &Section<'_>) -> Result<()> {
        if self.hosts.is_empty() {
            let remedy = "add [hosts] with `model` and `count`, or [[host]] entries";
            return Err(root.error("hosts", "there are no hosts", remedy));
        }
        for host in self.graph.hosts() {
            if let Some(&bridge) = self.bridges.get(&host) {
                let nics = &self.host_models[self.hosts[host.index()].model].nics;
                let rate_bits_per_s = nics.iter().map(|nic| nic.rate_bits_per_s).sum();
                let spec = LinkSpec { rate_bits_per_s, latency_ps: 0, cable_count: 1 };
                self.attach(root, host, bridge, [Vec::new(), Vec::new()], spec)?;
                continue;
            }
            let cabled = std::mem::take(&mut self.nic_cables[host.index()]);
            if cabled.is_empty() {
                let problem = format!("host {} has no cable", self.graph.name(host.into()));
                let remedy = "add a [[cable]] from one of its NICs to a switch";
                return Err(self.error_of(root, host, problem, remedy));
            }
            let model = &self.host_models[self.hosts[host.index()].model];
            // One attachment for a bond, one each for rails.
            let groups = match model.nics_as {
                NicsAs::Bond => vec![cabled.keys().copied().collect()],
                NicsAs::Rails => cabled.keys().map(|&nic| vec![nic]).collect(),
            };
            for group in groups {
                self.attach_group(root, host, &group, &cabled)?;
            }
        }
        Ok(())
    }

    /// A bond, or one rail.
    fn attach_group(
        &mut self,
        root: &Section<'_>,
        host: HostId,
        group: &[usize],
        cabled: &BTreeMap<usize, NicCable>,
    ) -> Result<()> {
        let switch = cabled[&group[0]].switch;
        let placed = |cable: &NicCable, (problem, remedy): Complaint| match &cable.place {
            Some(place) => root.error_in(place, problem, remedy),
            None => root.error("hosts", problem, remedy),
        };
        if let Some(other) = group.iter().map(|nic| &cabled[nic]).find(|cable| cable.switch != switch) {
            let [name, a, b] = [host.into(), switch.into(), other.switch.into()].map(|n| self.graph.name(n));
            let problem = format!("{name}'s NICs are one bond, and go to two switches, {a} and {b}");
            let remedy = "cable all NICs of a bond to one switch, or use nics_as = \"rails\"";
            return Err(placed(other, (problem, remedy.into())));
        }
        let ports: Vec<PortNumber> = group.iter().map(|nic| cabled[nic].port).collect();
        let last = &cabled[&group[group.len() - 1]];
        let placed = |complaint: Complaint| placed(last, complaint);
        let port_rate = self.common_rate(switch, &ports).map_err(placed)?;
        self.claim_lag(switch, ports.len()).map_err(placed)?;
        let nic_rate = self.host_models[self.hosts[host.index()].model].nics[group[0]].rate_bits_per_s;
        let spec = LinkSpec {
            rate_bits_per_s: port_rate.min(nic_rate),
            latency_ps: self.cable_latency_ps,
            cable_count: ports.len() as u32,
        };
        let nics = group.iter().map(|&nic| nic as PortNumber).collect();
        self.attach(root, host, switch, [nics, ports], spec)
    }

    fn attach(
        &mut self,
        root: &Section<'_>,
        host: HostId,
        switch: SwitchId,
        ports: [Vec<PortNumber>; 2],
        spec: LinkSpec,
    ) -> Result<()> {
        let link = crate::graph::LinkId(self.graph.link_count() as u32);
        self.connect(root, [host.into(), switch.into()], spec)?;
        self.link_ports.push(ports);
        self.hosts[host.index()].attachments.push(HostLink { link, switch });
        Ok(())
    }

    pub(super) fn check_connected(&self, root: &Section<'_>) -> Result<()> {
        match self.graph.unreachable_switch() {
            None => Ok(()),
            Some(far) => {
                let [name, first] = [far, SwitchId(0)].map(|id| self.graph.name(id.into()));
                let problem = format!("switch {name} cannot be reached from {first}");
                let remedy = "add a [[cable]] that joins the parts";
                Err(self.error_of(root, far, problem, remedy))
            }
        }
    }

    /// An error at the entry of a switch or host.
    fn error_of(
        &self,
        root: &Section<'_>,
        node: impl Into<Node>,
        problem: String,
        remedy: &str,
    ) -> DescriptionError {
        match self.places.get(&node.into()) {
            Some(place) => root.error_in(place, problem, remedy),
            None => root.error("cable", problem, remedy),
        }
    }
}

fn bridge_model(name: String, host: &HostModel) -> SwitchModel {
    let rate_bits_per_s = host.nics.iter().map(|nic| nic.rate_bits_per_s).max().unwrap_or(0);
    SwitchModel {
        name,
        port_count: host.nics.len() as PortNumber,
        rate_bits_per_s,
        fast_ports: None,
        port_names: PortNames::List(host.nics.iter().map(|nic| nic.name.clone()).collect()),
        dialect: "linux-bridge".into(),
        vlans_max: None,
        mac_table_max: None,
        mstp_instances_max: 0,
        lag_ports_max: None,
        lags_max: None,
        many_untagged_vlans_per_port: true,
        aging_time_max_s: None,
        aging_can_be_off: true,
        pause: true,
        switching: Switching::StoreAndForward,
        buffer_bytes: None,
        queue_bytes: None,
        pause_on_bytes: None,
        pause_off_bytes: None,
        lag_hash: LagHash::default(),
        latency_ps: 0,
        price: None,
        router: None,
    }
}
