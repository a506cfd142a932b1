//! Linux bridges: `bridge -j vlan show` and `bridge -j fdb show`.

use serde::Deserialize;

use crate::plan::{MacAddr, SwitchPlan, VlanId};

use super::observed::{InterfaceName, Observed, ObservedInterface, TableEntry};

#[derive(Deserialize)]
struct Device {
    ifname: String,
    #[serde(default)]
    vlans: Vec<Vlan>,
}

#[derive(Deserialize)]
struct Vlan {
    vlan: u16,
    /// With `-c`: the last of a range.
    #[serde(rename = "vlanEnd")]
    vlan_end: Option<u16>,
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct Entry {
    mac: String,
    ifname: String,
    vlan: Option<u16>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    master: String,
}

/// The VLANs of every port.
pub(super) fn vlans(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    let devices: Vec<Device> = parse(text, "vlan")?;
    let mut observed = Observed::default();
    for device in devices {
        let interface = observed.interfaces.entry(name(&device.ifname, switch)).or_default();
        for vlan in device.vlans {
            for vid in vlan.vlan..=vlan.vlan_end.unwrap_or(vlan.vlan) {
                let vid =
                    VlanId::new(vid).ok_or_else(|| format!("VLAN {vid} of {} cannot be", device.ifname))?;
                add(interface, vid, &vlan.flags);
            }
        }
    }
    Ok(observed)
}

fn add(interface: &mut ObservedInterface, vid: VlanId, flags: &[String]) {
    let has = |flag: &str| flags.iter().any(|known| known == flag);
    if has("PVID") {
        interface.membership.pvid = Some(vid);
    }
    let set = if has("Egress Untagged") {
        &mut interface.membership.untagged
    } else {
        &mut interface.membership.tagged
    };
    set.insert(vid);
}

/// The addresses learned; those of the bridge's own ports are left out.
pub(super) fn table(text: &str, switch: &SwitchPlan) -> Result<Vec<TableEntry>, String> {
    let entries: Vec<Entry> = parse(text, "fdb")?;
    let mut table: Vec<TableEntry> = entries
        .into_iter()
        .filter(|entry| entry.state != "permanent" && !entry.master.is_empty())
        .filter_map(|entry| {
            let vlan = VlanId::new(entry.vlan?)?;
            Some(TableEntry {
                vlan,
                mac: MacAddr::parse(&entry.mac)?,
                interface: name(&entry.ifname, switch),
            })
        })
        .collect();
    table.sort();
    Ok(table)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("is not the output of `bridge -j {what} show`: {error}"))
}

/// The plan's name of an interface. In the lab, ports of switches that are no Linux bridges in the description are
/// called `swp` and their number.
fn name(interface: &str, switch: &SwitchPlan) -> InterfaceName {
    if switch.ports.iter().any(|port| port.name == interface) {
        return InterfaceName::Port(interface.to_owned());
    }
    if let Some(number) = interface.strip_prefix("bond").and_then(|number| number.parse().ok()) {
        return InterfaceName::Lag(number);
    }
    let by_number = interface.strip_prefix("swp").and_then(|number| number.parse::<u16>().ok());
    let port = by_number.and_then(|number| switch.ports.iter().find(|port| port.number == number));
    match port {
        Some(port) => InterfaceName::Port(port.name.clone()),
        // The bridge lists itself, under whatever name.
        None if switch.inside_host.is_some() || interface.starts_with("br") => InterfaceName::Own,
        None => InterfaceName::Port(interface.to_owned()),
    }
}
