//! What the `json` dialect wrote, perhaps filled in by somebody's own tool with what it found.

use serde::Deserialize;

use crate::plan::{Membership, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface};

#[derive(Deserialize)]
struct File {
    switch: Switch,
}

#[derive(Deserialize)]
struct Switch {
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    lags: Vec<Lag>,
    aging_time_s: Option<u32>,
}

#[derive(Deserialize)]
struct Port {
    name: String,
    lag: Option<u16>,
    membership: Members,
}

#[derive(Deserialize)]
struct Lag {
    number: u16,
    membership: Members,
}

#[derive(Deserialize)]
struct Members {
    pvid: Option<u16>,
    #[serde(default)]
    untagged: Vec<u16>,
    #[serde(default)]
    tagged: Vec<u16>,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let file: File =
        serde_json::from_str(text).map_err(|error| format!("is not a file of the json dialect: {error}"))?;
    let mut observed =
        Observed { knows_lags: true, aging_time_s: file.switch.aging_time_s, ..Observed::default() };
    for port in file.switch.ports {
        let membership = membership(&port.membership)?;
        let interface = ObservedInterface { membership, lag: port.lag, ..Default::default() };
        observed.interfaces.insert(InterfaceName::Port(port.name), interface);
    }
    for lag in file.switch.lags {
        let interface = ObservedInterface { membership: membership(&lag.membership)?, ..Default::default() };
        observed.interfaces.insert(InterfaceName::Lag(lag.number), interface);
    }
    Ok(observed)
}

fn membership(members: &Members) -> Result<Membership, String> {
    let vlan = |vid: u16| VlanId::new(vid).ok_or_else(|| format!("{vid} is no VLAN (1 to 4094)"));
    let set = |vids: &[u16]| vids.iter().map(|&vid| vlan(vid)).collect::<Result<VlanSet, String>>();
    Ok(Membership {
        pvid: members.pvid.map(vlan).transpose()?,
        untagged: set(&members.untagged)?,
        tagged: set(&members.tagged)?,
    })
}
