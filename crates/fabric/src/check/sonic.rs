//! SONiC's `config_db.json`.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::plan::VlanId;

use super::observed::{InterfaceName, Observed};

#[derive(Deserialize)]
struct Database {
    #[serde(rename = "VLAN", default)]
    vlans: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(rename = "VLAN_MEMBER", default)]
    members: BTreeMap<String, Member>,
    #[serde(rename = "PORT", default)]
    ports: BTreeMap<String, Port>,
    #[serde(rename = "PORTCHANNEL_MEMBER", default)]
    lag_members: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(rename = "SWITCH", default)]
    switch: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Member {
    tagging_mode: String,
}

#[derive(Deserialize)]
struct Port {
    admin_status: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let database: Database =
        serde_json::from_str(text).map_err(|error| format!("is not a config_db.json: {error}"))?;
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    for (name, port) in &database.ports {
        let interface = observed.interfaces.entry(InterfaceName::Port(name.clone())).or_default();
        interface.is_shut = port.admin_status.as_deref() == Some("down");
    }
    for key in database.lag_members.keys() {
        let (lag, port) = key.split_once('|').ok_or_else(|| format!("cannot understand the key {key:?}"))?;
        let InterfaceName::Lag(number) = interface_name(lag) else { continue };
        observed.interfaces.entry(InterfaceName::Port(port.to_owned())).or_default().lag = Some(number);
    }
    for (key, member) in &database.members {
        let parts = key.split_once('|').and_then(|(vlan, name)| Some((vlan.strip_prefix("Vlan")?, name)));
        let vlan = parts.and_then(|(vlan, _)| VlanId::new(vlan.parse().ok()?));
        let (Some((_, name)), Some(vlan)) = (parts, vlan) else {
            return Err(format!("cannot understand the key {key:?}"));
        };
        let membership = &mut observed.interfaces.entry(interface_name(name)).or_default().membership;
        if member.tagging_mode == "untagged" {
            membership.pvid = Some(vlan);
            membership.untagged.insert(vlan);
        } else {
            membership.tagged.insert(vlan);
        }
    }
    let number = |key: &String| VlanId::new(key.strip_prefix("Vlan")?.parse().ok()?);
    observed.declare(&database.vlans.keys().filter_map(number).collect());
    let aging_time = database.switch.get("switch").and_then(|switch| switch.get("fdb_aging_time"));
    observed.aging_time_s = aging_time.and_then(|seconds| seconds.parse().ok());
    Ok(observed)
}

fn interface_name(name: &str) -> InterfaceName {
    let number = name.strip_prefix("PortChannel").and_then(|number| number.parse().ok());
    number.map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag)
}
