//! Linux bridges: `bridge -j vlan show`, `bridge -j fdb show` and `ip -j -d link show`.

use serde::Deserialize;

use crate::plan::{MacAddr, SwitchPlan, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface, TableEntry, every_vlan};

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

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    master: Option<String>,
    #[serde(default)]
    linkinfo: LinkInfo,
}

#[derive(Default, Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
    /// Other keys for every kind.
    #[serde(default)]
    info_data: serde_json::Value,
}

/// The VLANs of every port.
pub(super) fn vlans(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    let devices: Vec<Device> = parse(text, "vlan")?;
    let mut observed = Observed::default();
    for device in devices {
        let interface = observed.interfaces.entry(port_name(&device.ifname, switch)).or_default();
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
                interface: port_name(&entry.ifname, switch),
            })
        })
        .collect();
    table.sort();
    Ok(table)
}

/// The bridge's own settings, which ports are up, and which are in a LAG.
pub(super) fn links(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    let links: Vec<Link> = serde_json::from_str(text)
        .map_err(|error| format!("is not the output of `ip -j -d link show`: {error}"))?;
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let mut masters = Vec::new();
    for link in &links {
        let name = port_name(&link.ifname, switch);
        let is_port = match &name {
            InterfaceName::Port(name) => switch.ports.iter().any(|port| port.name == *name),
            InterfaceName::Lag(_) => true,
            InterfaceName::Own => false,
        };
        if !is_port {
            continue;
        }
        let interface = observed.interfaces.entry(name).or_default();
        interface.is_shut = !link.flags.iter().any(|flag| flag == "UP");
        let master = link.master.as_deref().unwrap_or_default();
        interface.lag = master.strip_prefix("bond").and_then(|number| number.parse().ok());
        masters.push(master);
    }
    for bridge in links.iter().filter(|link| masters.contains(&link.ifname.as_str())) {
        if bridge.linkinfo.info_kind.as_deref() == Some("bridge") {
            settings(&bridge.linkinfo.info_data, &mut observed);
        }
    }
    Ok(observed)
}

fn settings(data: &serde_json::Value, observed: &mut Observed) {
    let number = |key: &str| data.get(key).and_then(serde_json::Value::as_u64);
    if number("vlan_filtering") == Some(0) {
        observed
            .faults
            .push("VLAN filtering is off: every frame goes to every port, round every loop".into());
    }
    if let Some(state) = number("stp_state") {
        observed.without_spanning_tree = Some(if state == 0 { every_vlan() } else { VlanSet::new() });
    }
    match number("ageing_time") {
        None => {}
        Some(0) => observed.faults.push("its aging time is 0: it learns no address and floods".into()),
        Some(hundredths) => {
            let seconds = u32::try_from(hundredths / 100).unwrap_or(u32::MAX);
            observed.aging_time_s = Some(if never_ages(seconds) { 0 } else { seconds });
        }
    }
}

/// Whether this is the longest a Linux bridge can: 497 days, written if addresses are kept for ever.
pub(super) fn never_ages(seconds: u32) -> bool {
    seconds >= u32::MAX / 100
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("is not the output of `bridge -j {what} show`: {error}"))
}

/// The plan's name of an interface. In the lab, ports of switches that are no Linux bridges in the
/// description are called `swp` and their number.
pub(super) fn port_name(interface: &str, switch: &SwitchPlan) -> InterfaceName {
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
