//! From what stands in NetBox to a machine file.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Device, Interface, Inventory};
use super::machine_file::{self, Cabled, HostKind, Nic, SwitchKind};
use super::{BRIDGE, HOST_ROLE, LAG, SWITCH_ROLE, VIRTUAL};
use crate::dialect::by_name;

/// Data that NetBox does not have.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// Name of the machine.
    pub name: &'a str,
    /// Roles of the devices that are switches; none given: `switch`.
    pub switch_roles: &'a [String],
    /// Roles of the devices that are hosts; none given: `host`.
    pub host_roles: &'a [String],
}

/// The text of a machine file with the switches and hosts of an inventory and the cables between them, and
/// what was left out, a line each. A port's number is its place among its switch's interfaces.
///
/// # Errors
/// One line: no switch or host, an interface whose rate is not known, a LAG that the machine file cannot
/// say.
pub fn import(inventory: &Inventory, wanted: &Wanted<'_>) -> Result<(String, Vec<String>), String> {
    let devices = Devices::of(inventory, wanted)?;
    let mut left_out = Vec::new();
    let ends = devices.ends(inventory, &mut left_out)?;
    let (mut switch_kinds, mut host_kinds) = (Kinds::default(), Kinds::default());
    let mut switches = Vec::new();
    for device in &devices.switches {
        let kind = devices.switch_kind(device, &ends)?;
        switches.push((device.name.clone(), switch_kinds.place(&device.model, kind)));
    }
    let mut hosts = Vec::new();
    for device in &devices.hosts {
        let (kind, macs) = devices.host_kind(device, &ends)?;
        if kind.nics.is_empty() {
            left_out.push(format!("{}: no cable leads to another of these devices", device.name));
            continue;
        }
        hosts.push((device.name.clone(), host_kinds.place(&device.model, kind), macs));
    }
    let cables = devices.cables(inventory)?;
    let text = machine_file::text(&machine_file::Parts {
        name: wanted.name,
        switch_kinds: &switch_kinds.named(),
        host_kinds: &host_kinds.named(),
        switches: &switches,
        hosts: &hosts,
        cables: &cables,
    });
    Ok((text, left_out))
}

/// Kinds of switches or hosts, each with the model of the first that is so.
struct Kinds<T> {
    all: Vec<(String, T)>,
}

impl<T> Default for Kinds<T> {
    fn default() -> Kinds<T> {
        Kinds { all: Vec::new() }
    }
}

impl<T: PartialEq> Kinds<T> {
    fn place(&mut self, model: &str, kind: T) -> usize {
        let found = self.all.iter().position(|(name, own)| name == model && *own == kind);
        found.unwrap_or_else(|| {
            self.all.push((model.to_owned(), kind));
            self.all.len() - 1
        })
    }

    /// With names of their own: the second of a model is `MODEL-2`.
    fn named(self) -> Vec<(String, T)> {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let name = |(model, kind): (String, T)| {
            let model = machine_file::name_of(&model);
            let mut name = model.clone();
            let mut number = 2;
            while !taken.insert(name.clone()) {
                name = format!("{model}-{number}");
                number += 1;
            }
            (name, kind)
        };
        self.all.into_iter().map(name).collect()
    }
}

/// Device and interface.
type End<'a> = (&'a str, &'a str);

struct Devices<'a> {
    switches: Vec<&'a Device>,
    hosts: Vec<&'a Device>,
    /// Interfaces that are ports or NICs, by device, in NetBox's order.
    ports: BTreeMap<&'a str, Vec<&'a Interface>>,
}

impl<'a> Devices<'a> {
    fn of(inventory: &'a Inventory, wanted: &Wanted<'_>) -> Result<Devices<'a>, String> {
        let with_roles = |roles: &[String], usual: &str| -> Vec<&'a Device> {
            let is_one = |role: &str| match roles {
                [] => role.eq_ignore_ascii_case(usual),
                roles => roles.iter().any(|own| own.eq_ignore_ascii_case(role)),
            };
            inventory.devices.iter().filter(|device| is_one(&device.role)).collect()
        };
        let switches = with_roles(wanted.switch_roles, SWITCH_ROLE);
        let hosts = with_roles(wanted.host_roles, HOST_ROLE);
        if hosts.is_empty() {
            let roles: BTreeSet<&str> = inventory.devices.iter().map(|own| own.role.as_str()).collect();
            let roles: Vec<&str> = roles.into_iter().collect();
            return Err(format!(
                "no device has the role of hosts; roles in use: {}; \
                 name yours with --host-role and --switch-role",
                roles.join(", ")
            ));
        }
        let mut names = BTreeSet::new();
        for device in switches.iter().chain(&hosts) {
            if device.name != machine_file::name_of(&device.name) {
                return Err(format!(
                    "device {:?}: names of a machine file have letters, digits, '.', '_' and '-'; rename it",
                    device.name
                ));
            }
            if !names.insert(device.name.as_str()) {
                return Err(format!("two devices are called {:?}: ask for those of one site", device.name));
            }
        }
        let mut ports: BTreeMap<&str, Vec<&Interface>> = BTreeMap::new();
        let is_port =
            |own: &&Interface| ![LAG, BRIDGE, VIRTUAL].contains(&own.kind.as_str()) && !own.is_management;
        for interface in inventory.interfaces.iter().filter(is_port) {
            ports.entry(interface.device.as_str()).or_default().push(interface);
        }
        Ok(Devices { switches, hosts, ports })
    }

    fn is_wanted(&self, device: &str) -> bool {
        self.switches.iter().chain(&self.hosts).any(|own| own.name == device)
    }

    fn is_switch(&self, device: &str) -> bool {
        self.switches.iter().any(|own| own.name == device)
    }

    /// Interfaces with a cable between two of the devices.
    fn ends(
        &self,
        inventory: &'a Inventory,
        left_out: &mut Vec<String>,
    ) -> Result<BTreeSet<End<'a>>, String> {
        let mut ends = BTreeSet::new();
        for cable in &inventory.cables {
            let both = cable.ends.each_ref().map(|(device, name)| (device.as_str(), name.as_str()));
            if !both.iter().all(|(device, _)| self.is_wanted(device)) {
                let [a, b] = both;
                left_out.push(format!("cable {} {} - {} {}: not between these devices", a.0, a.1, b.0, b.1));
                continue;
            }
            for (device, name) in both {
                let own = self.ports.get(device).and_then(|ports| ports.iter().find(|own| own.name == name));
                if own.is_none() {
                    return Err(format!(
                        "a cable ends at {device} {name}, which is no port among its interfaces"
                    ));
                }
                if !ends.insert((device, name)) {
                    return Err(format!("two cables end at {device} {name}"));
                }
            }
        }
        Ok(ends)
    }

    fn ports_of(&self, device: &str) -> &[&'a Interface] {
        self.ports.get(device).map_or(&[], Vec::as_slice)
    }

    fn switch_kind(&self, device: &Device, ends: &BTreeSet<End<'_>>) -> Result<SwitchKind, String> {
        let ports = self.ports_of(&device.name);
        if ports.is_empty() {
            return Err(format!(
                "switch {} has no interfaces: are they among those of the file?",
                device.name
            ));
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for own in ports {
            let is_cabled = ends.contains(&(device.name.as_str(), own.name.as_str()));
            match rate_of(own) {
                Some(rate) => *counts.entry(rate).or_default() += 1,
                None if is_cabled => return Err(rate_is_not_known(own)),
                None => {}
            }
        }
        let usual = counts.iter().max_by_key(|(_, count)| **count).map(|(&rate, _)| rate);
        let usual = usual.ok_or_else(|| rate_is_not_known(ports[0]))?;
        let rates: Vec<u64> = ports.iter().map(|own| rate_of(own).unwrap_or(usual)).collect();
        let others: Vec<usize> = (0..rates.len()).filter(|&at| rates[at] != usual).collect();
        let fast = match (others.first(), others.last()) {
            (Some(&first), Some(&last)) => {
                if rates[first..=last].iter().any(|&rate| rate != rates[first]) {
                    return Err(format!(
                        "{}: ports of other rates than the most are not one range of one rate, as a machine \
                         file wants them; write that model by hand",
                        device.name
                    ));
                }
                Some((first + 1, last + 1, rates[first]))
            }
            _ => None,
        };
        let names = ports.iter().map(|own| own.name.clone()).collect();
        let dialect = by_name(&device.platform.to_lowercase()).map(|_| device.platform.to_lowercase());
        Ok(SwitchKind { names, rate_bits_per_s: usual, fast, dialect })
    }

    /// Its cabled NICs, and their MAC addresses.
    fn host_kind(
        &self,
        device: &Device,
        ends: &BTreeSet<End<'_>>,
    ) -> Result<(HostKind, Vec<Option<String>>), String> {
        let own = self.ports_of(&device.name).iter();
        let cabled: Vec<&&Interface> =
            own.filter(|own| ends.contains(&(device.name.as_str(), own.name.as_str()))).collect();
        let lags: BTreeSet<&str> = cabled.iter().map(|own| own.lag.as_str()).collect();
        let is_bond = cabled.len() > 1 && lags.iter().all(|lag| !lag.is_empty());
        if lags.len() > 1 {
            return Err(format!(
                "host {}: its NICs are in a LAG with each other or in none, as a machine file wants them",
                device.name
            ));
        }
        let mut nics = Vec::new();
        for own in &cabled {
            let rate_bits_per_s = rate_of(own).ok_or_else(|| rate_is_not_known(own))?;
            nics.push(Nic { name: own.name.clone(), rate_bits_per_s, mtu_bytes: own.mtu_bytes });
        }
        let macs = cabled.iter().map(|own| own.mac.map(|mac| mac.to_string())).collect();
        Ok((HostKind { nics, is_bond }, macs))
    }

    /// All cables; those of a LAG between two switches together.
    fn cables(&self, inventory: &Inventory) -> Result<Vec<Cabled>, String> {
        let mut single = Vec::new();
        let mut together: BTreeMap<[(String, String); 2], Vec<[usize; 2]>> = BTreeMap::new();
        for cable in &inventory.cables {
            let [a, b] = &cable.ends;
            if ![a, b].iter().all(|(device, _)| self.is_wanted(device)) {
                continue;
            }
            let are_switches = [a, b].iter().all(|(device, _)| self.is_switch(device));
            let found = [a, b].map(|(device, name)| {
                let ports = self.ports_of(device);
                let place = ports.iter().position(|own| own.name == *name)?;
                Some((place, ports[place].lag.clone()))
            });
            let [Some((a_place, a_lag)), Some((b_place, b_lag))] = found else { continue };
            if !are_switches || (a_lag.is_empty() && b_lag.is_empty()) {
                let end = |(device, name): &(String, String), place: usize| {
                    if self.is_switch(device) {
                        format!("{device}:{}", place + 1)
                    } else {
                        format!("{device}:{name}")
                    }
                };
                single.push(Cabled { from: end(a, a_place), to: end(b, b_place) });
                continue;
            }
            if a_lag.is_empty() || b_lag.is_empty() {
                return Err(format!("cable {} {} - {} {} is in a LAG at one end only", a.0, a.1, b.0, b.1));
            }
            let mut ends = [((a.0.clone(), a_lag), a_place), ((b.0.clone(), b_lag), b_place)];
            ends.sort();
            let [(a, a_place), (b, b_place)] = ends;
            together.entry([a, b]).or_default().push([a_place + 1, b_place + 1]);
        }
        for ([a, b], mut places) in together {
            places.sort_unstable();
            let is_row =
                places.windows(2).all(|two| two[1][0] == two[0][0] + 1 && two[1][1] == two[0][1] + 1);
            if !is_row {
                return Err(format!(
                    "LAG {} of {}: a machine file takes ports in a row, cabled in the same order at both \
                     ends",
                    a.1, a.0
                ));
            }
            let range = |end: usize| match (places[0][end], places[places.len() - 1][end]) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            let [from, to] = [format!("{}:{}", a.0, range(0)), format!("{}:{}", b.0, range(1))];
            single.push(Cabled { from, to });
        }
        Ok(single)
    }
}

/// An interface's rate: its speed, or else what its type says (`10gbase-t`, `1000base-x-sfp`).
fn rate_of(interface: &Interface) -> Option<u64> {
    interface.speed.or_else(|| {
        let (number, _) = interface.kind.split_once("base-")?;
        let (number, unit) = match (number.strip_suffix('g'), number.strip_suffix('t')) {
            (Some(number), _) => (number, 1e9),
            (_, Some(number)) => (number, 1e12),
            _ => (number, 1e6),
        };
        let number: f64 = number.parse().ok()?;
        Some((number * unit).round() as u64)
    })
}

fn rate_is_not_known(interface: &Interface) -> String {
    let Interface { device, name, kind, .. } = interface;
    format!("{device} {name}: type {kind:?} does not say its rate; give its speed in NetBox")
}
