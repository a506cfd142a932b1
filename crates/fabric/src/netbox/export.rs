//! The tables of a plan, in the order in which NetBox takes them.

use std::collections::BTreeSet;

use super::{BRIDGE, HOST_ROLE, LAG, SWITCH_ROLE, VIRTUAL, slug};
use crate::description::Machine;
use crate::dialect::ConfigFile;
use crate::plan::{Attachment, HostPlan, Membership, Plan, PortNumber, PortRole, SwitchPlan};

/// Data that NetBox needs and a machine file does not have.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Site of all devices.
    pub site: &'a str,
    /// Manufacturer of all device types.
    pub manufacturer: &'a str,
}

/// A table: the columns' names and the lines.
struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    lines: Vec<Vec<String>>,
}

impl Table {
    fn new(name: &'static str, columns: &'static [&'static str]) -> Table {
        Table { name, columns, lines: Vec::new() }
    }

    fn add<const N: usize>(&mut self, line: [&str; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.name);
        self.lines.push(line.map(str::to_owned).into());
    }

    fn file(&self, number: usize) -> ConfigFile {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().map(|column| (*column).to_owned()).collect();
        // Writing into memory does not fail.
        for line in std::iter::once(&header).chain(&self.lines) {
            let _ = writer.write_record(line);
        }
        let text = writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let name = format!("{number:02}-{}.csv", self.name);
        ConfigFile { name, text: text.unwrap_or_default(), executable: false }
    }
}

/// The tables of a plan of this machine, numbered in the order to import them.
pub fn export(machine: &Machine, plan: &Plan, names: Names<'_>) -> Vec<ConfigFile> {
    let interfaces = Interfaces { machine, plan, group: &plan.machine };
    let tables = [
        sites(names),
        manufacturers(names),
        roles(),
        platforms(plan),
        device_types(machine, plan, names),
        devices(machine, plan, names),
        vlan_groups(plan),
        vlans(plan),
        prefixes(plan),
        interfaces.table(),
        mac_addresses(machine, plan),
        addresses(plan),
        cables(plan),
    ];
    let filled = tables.iter().filter(|table| !table.lines.is_empty());
    filled.enumerate().map(|(index, table)| table.file(index + 1)).collect()
}

fn sites(names: Names<'_>) -> Table {
    let mut table = Table::new("sites", &["name", "slug", "status"]);
    table.add([names.site, &slug(names.site), "active"]);
    table
}

fn manufacturers(names: Names<'_>) -> Table {
    let mut table = Table::new("manufacturers", &["name", "slug"]);
    table.add([names.manufacturer, &slug(names.manufacturer)]);
    table
}

fn roles() -> Table {
    let mut table = Table::new("device-roles", &["name", "slug", "color", "vm_role"]);
    table.add([SWITCH_ROLE, SWITCH_ROLE, "2196f3", "false"]);
    table.add([HOST_ROLE, HOST_ROLE, "4caf50", "false"]);
    table
}

/// The dialects: a device's platform says in what words it is configured.
fn platforms(plan: &Plan) -> Table {
    let mut table = Table::new("platforms", &["name", "slug"]);
    let dialects: BTreeSet<&str> = real_switches(plan).map(|switch| switch.dialect.as_str()).collect();
    dialects.iter().for_each(|dialect| table.add([dialect, &slug(dialect)]));
    table
}

fn device_types(machine: &Machine, plan: &Plan, names: Names<'_>) -> Table {
    let mut table = Table::new("device-types", &["manufacturer", "model", "slug", "u_height"]);
    let switches = real_switches(plan).map(|switch| switch.model.as_str());
    let hosts = plan.hosts.iter().map(|host| machine.host_model(host.id).name.as_str());
    let models: BTreeSet<&str> = switches.chain(hosts).collect();
    models.iter().for_each(|model| table.add([names.manufacturer, model, &slug(model), "1"]));
    table
}

fn devices(machine: &Machine, plan: &Plan, names: Names<'_>) -> Table {
    let columns = &["name", "role", "manufacturer", "device_type", "platform", "status", "site"];
    let mut table = Table::new("devices", columns);
    for switch in real_switches(plan) {
        let (role, platform) = (SWITCH_ROLE, &switch.dialect);
        table.add([&switch.name, role, names.manufacturer, &switch.model, platform, "active", names.site]);
    }
    for host in &plan.hosts {
        let model = &machine.host_model(host.id).name;
        table.add([&host.name, HOST_ROLE, names.manufacturer, model, "", "active", names.site]);
    }
    table
}

fn vlan_groups(plan: &Plan) -> Table {
    let mut table = Table::new("vlan-groups", &["name", "slug"]);
    table.add([&plan.machine, &slug(&plan.machine)]);
    table
}

fn vlans(plan: &Plan) -> Table {
    let mut table = Table::new("vlans", &["group", "vid", "name", "status"]);
    for vlan in &plan.vlans {
        let vid = vlan.vid.to_string();
        table.add([&plan.machine, &vid, &format!("vlan{vid}"), "active"]);
    }
    table
}

fn prefixes(plan: &Plan) -> Table {
    let mut table = Table::new("prefixes", &["prefix", "status", "vlan_group", "vlan"]);
    for vlan in &plan.vlans {
        let [subnet, vid] = [vlan.subnet.to_string(), vlan.vid.to_string()];
        table.add([&subnet, "active", &plan.machine, &vid]);
    }
    table
}

/// Switches that are devices of their own, not bridges inside of hosts.
fn real_switches(plan: &Plan) -> impl Iterator<Item = &SwitchPlan> {
    plan.switches.iter().filter(|switch| switch.inside_host.is_none())
}

const INTERFACE_COLUMNS: &[&str] = &[
    "device",
    "name",
    "type",
    "parent",
    "bridge",
    "lag",
    "speed",
    "mtu",
    "mode",
    "vlan_group",
    "untagged_vlan",
    "tagged_vlans",
    "description",
];

/// A line of the interfaces' table, in the order of [`INTERFACE_COLUMNS`].
#[derive(Default)]
struct Interface<'a> {
    device: &'a str,
    name: &'a str,
    kind: &'a str,
    parent: &'a str,
    bridge: &'a str,
    lag: &'a str,
    /// bit/s.
    rate: Option<u64>,
    mtu_bytes: Option<u32>,
    membership: Option<&'a Membership>,
    about: String,
}

struct Interfaces<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    group: &'a str,
}

impl Interfaces<'_> {
    fn table(&self) -> Table {
        let mut table = Table::new("interfaces", INTERFACE_COLUMNS);
        real_switches(self.plan).for_each(|switch| self.of_switch(&mut table, switch));
        self.plan.hosts.iter().for_each(|host| self.of_host(&mut table, host));
        table
    }

    fn of_switch(&self, table: &mut Table, switch: &SwitchPlan) {
        let model = self.machine.switch_model(switch.id);
        for lag in &switch.lags {
            let name = lag_name(lag.number);
            let about = self.about(&lag.role, &lag.membership);
            let membership = Some(&lag.membership);
            let line = Interface {
                device: &switch.name,
                name: &name,
                kind: LAG,
                membership,
                about,
                ..Interface::default()
            };
            self.add(table, &line);
        }
        for port in &switch.ports {
            let fast = model.fast_ports.filter(|fast| (fast.first..=fast.last).contains(&port.number));
            let rate = fast.map_or(model.rate_bits_per_s, |fast| fast.rate_bits_per_s);
            let lag = port.lag.map(lag_name).unwrap_or_default();
            let about = self.about(&port.role, &port.membership);
            let line = Interface {
                device: &switch.name,
                name: &port.name,
                kind: kind_of(rate),
                lag: &lag,
                rate: Some(rate),
                // A LAG has the VLANs of its ports.
                membership: port.lag.is_none().then_some(&port.membership),
                about,
                ..Interface::default()
            };
            self.add(table, &line);
        }
    }

    fn of_host(&self, table: &mut Table, host: &HostPlan) {
        let model = self.machine.host_model(host.id);
        let is_bridge = |own: &&Attachment| own.ports.is_empty();
        let bridge = host.attachments.iter().find(is_bridge).map_or("", |own| own.interface.as_str());
        let bond = host.attachments.iter().find(|own| own.nics.len() > 1);
        let bond_name = bond.map_or("", |own| own.interface.as_str());
        let made = [(bridge, BRIDGE), (bond_name, LAG)].into_iter().filter(|(name, _)| !name.is_empty());
        for (name, kind) in made {
            self.add(table, &Interface { device: &host.name, name, kind, ..Interface::default() });
        }
        for nic in &model.nics {
            // A NIC without a cable is in no bond.
            let is_bonded = bond.is_some_and(|own| own.nics.contains(&nic.name));
            let line = Interface {
                device: &host.name,
                name: &nic.name,
                kind: kind_of(nic.rate_bits_per_s),
                bridge,
                lag: if is_bonded { bond_name } else { "" },
                rate: Some(nic.rate_bits_per_s),
                mtu_bytes: Some(nic.mtu_bytes),
                ..Interface::default()
            };
            self.add(table, &line);
        }
        for own in &host.attachments {
            for vlan in self.plan.vlan_interfaces(own) {
                let pvid = Some(vlan.vid);
                let membership = Membership { pvid, ..Membership::default() };
                let line = Interface {
                    device: &host.name,
                    name: &vlan.name,
                    kind: VIRTUAL,
                    parent: &own.interface,
                    mtu_bytes: Some(own.mtu_bytes),
                    membership: Some(&membership),
                    ..Interface::default()
                };
                self.add(table, &line);
            }
        }
    }

    fn add(&self, table: &mut Table, line: &Interface<'_>) {
        let pvid = line.membership.and_then(|own| own.pvid).map(|vid| vid.to_string()).unwrap_or_default();
        let tagged = line.membership.into_iter().flat_map(|own| own.tagged.iter());
        let tagged = tagged.map(|vid| vid.to_string()).collect::<Vec<_>>().join(",");
        let mode = match (pvid.is_empty(), tagged.is_empty()) {
            (_, false) => "tagged",
            (false, true) => "access",
            (true, true) => "",
        };
        let group = if mode.is_empty() { "" } else { self.group };
        let kbit_per_s = line.rate.map(|rate| (rate / 1_000).to_string()).unwrap_or_default();
        let mtu = line.mtu_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        table.add([
            line.device,
            line.name,
            line.kind,
            line.parent,
            line.bridge,
            line.lag,
            &kbit_per_s,
            &mtu,
            mode,
            group,
            &pvid,
            &tagged,
            &line.about,
        ]);
    }

    /// The far end, and data without a NetBox field: VLANs that leave untagged in addition to the port's own.
    fn about(&self, role: &PortRole, membership: &Membership) -> String {
        let to = match role {
            PortRole::Unused => return "unused".into(),
            PortRole::Host { host, .. } => &self.plan.hosts[host.index()].name,
            PortRole::Link { peer, .. } => &self.plan.switch(*peer).name,
        };
        if membership.untagged.len() <= 1 {
            return format!("to {to}");
        }
        // NetBox takes 200 characters.
        let ranges: Vec<String> = membership
            .untagged
            .ranges()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        let vlans = ranges.join(",");
        let vlans =
            if vlans.len() > 100 { format!("all {} of the plan", membership.untagged.len()) } else { vlans };
        format!("to {to}; untagged out: {vlans}")
    }
}

/// A port of this rate. The rate is what is known, not the connector: RJ45 up to 5 Gbit/s, pluggable above.
fn kind_of(rate_bits_per_s: u64) -> &'static str {
    match rate_bits_per_s / 1_000_000 {
        100 => "100base-tx",
        1_000 => "1000base-t",
        2_500 => "2.5gbase-t",
        5_000 => "5gbase-t",
        10_000 => "10gbase-x-sfpp",
        25_000 => "25gbase-x-sfp28",
        40_000 => "40gbase-x-qsfpp",
        50_000 => "50gbase-x-sfp56",
        100_000 => "100gbase-x-qsfp28",
        200_000 => "200gbase-x-qsfp56",
        400_000 => "400gbase-x-qsfpdd",
        800_000 => "800gbase-x-osfp",
        _ => "other",
    }
}

fn lag_name(number: u16) -> String {
    format!("lag{number}")
}

fn mac_addresses(machine: &Machine, plan: &Plan) -> Table {
    let mut table = Table::new("mac-addresses", &["mac_address", "device", "interface", "is_primary"]);
    for host in &plan.hosts {
        let nics = &machine.host_model(host.id).nics;
        for (nic, mac) in nics.iter().zip(&machine.hosts[host.id.index()].macs) {
            if let Some(mac) = mac {
                table.add([&mac.to_string(), &host.name, &nic.name, "true"]);
            }
        }
    }
    table
}

fn attachments(plan: &Plan) -> impl Iterator<Item = (&HostPlan, &Attachment)> {
    plan.hosts.iter().flat_map(|host| host.attachments.iter().map(move |own| (host, own)))
}

fn addresses(plan: &Plan) -> Table {
    let columns = &["address", "status", "device", "interface", "is_primary", "dns_name"];
    let mut table = Table::new("ip-addresses", columns);
    for (host, own) in attachments(plan) {
        let is_primary = if own.rail == 0 { "true" } else { "false" };
        let dns_name = if own.rail == 0 { host.name.as_str() } else { "" };
        let address = format!("{}/{}", own.address, own.prefix_bits);
        table.add([&address, "active", &host.name, &own.interface, is_primary, dns_name]);
        for vlan in plan.vlan_interfaces(own) {
            let Some(address) = vlan.address else { continue };
            let address = format!("{address}/{}", vlan.subnet.prefix_bits);
            table.add([&address, "active", &host.name, &vlan.name, "false", ""]);
        }
    }
    table
}

fn cables(plan: &Plan) -> Table {
    let columns = &[
        "side_a_device",
        "side_a_type",
        "side_a_name",
        "side_b_device",
        "side_b_type",
        "side_b_name",
        "status",
    ];
    let mut table = Table::new("cables", columns);
    let mut add = |a: [&str; 2], b: [&str; 2]| {
        table.add([a[0], "dcim.interface", a[1], b[0], "dcim.interface", b[1], "connected"]);
    };
    for link in &plan.links {
        for (a, b) in link.ends[0].ports.iter().zip(&link.ends[1].ports) {
            let [a, b] = [(&link.ends[0], *a), (&link.ends[1], *b)]
                .map(|(end, port)| port_of(plan, plan.switch(end.switch), port));
            add(a, b);
        }
    }
    for (host, own) in attachments(plan) {
        for (nic, port) in own.nics.iter().zip(&own.ports) {
            add([&host.name, nic], port_of(plan, plan.switch(own.switch), *port));
        }
    }
    table
}

/// Device and interface of a port; those of a bridge inside of a host are the host's.
fn port_of<'a>(plan: &'a Plan, switch: &'a SwitchPlan, number: PortNumber) -> [&'a str; 2] {
    let device = switch.inside_host.map_or(&switch.name, |host| &plan.hosts[host.index()].name);
    let port = switch.ports.iter().find(|port| port.number == number);
    [device, port.map_or("", |port| port.name.as_str())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are NetBox's: a wrong one is refused by it, or shows another speed.
    #[test]
    fn a_ports_kind_names_its_rate() {
        let said = |kind: &'static str| {
            // `1000base-t`, `25gbase-x-sfp28`
            let (number, _) = kind.split_once("base")?;
            match number.strip_suffix('g') {
                Some(gbit) => gbit.parse::<f64>().ok().map(|gbit| gbit * 1e9),
                None => number.parse::<f64>().ok().map(|mbit| mbit * 1e6),
            }
        };
        let rates_mbit_per_s = [
            100_u32, 1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000,
        ];
        for rate in rates_mbit_per_s {
            let kind = kind_of(u64::from(rate) * 1_000_000);
            assert_eq!(said(kind), Some(f64::from(rate) * 1e6), "{kind}");
        }
        assert_eq!(kind_of(42_000_000_000), "other");
    }
}
