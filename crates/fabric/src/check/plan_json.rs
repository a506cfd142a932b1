//! Files of the `json` dialect, perhaps with the state that a user's own tool has filled in.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::plan::{Membership, Mstp, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface, ObservedMstp};

#[derive(Deserialize)]
struct File {
    switch: Switch,
    mstp: Option<Own>,
}

#[derive(Deserialize)]
struct Own {
    region: Mstp,
    priorities: Vec<u32>,
    costs: BTreeMap<String, Vec<u32>>,
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
    observed.mstp = file.mstp.map(mstp);
    Ok(observed)
}

fn mstp(own: Own) -> ObservedMstp {
    let numbers: Vec<u16> = own.region.instances.iter().map(|instance| instance.number).collect();
    let costs = own.costs.into_iter().flat_map(|(name, costs)| {
        let lag = name.strip_prefix("LAG ").and_then(|number| number.parse().ok());
        let name = lag.map_or(InterfaceName::Port(name), InterfaceName::Lag);
        let by_number = numbers.iter().copied().zip(costs);
        by_number.map(move |(number, cost)| ((name.clone(), number), cost))
    });
    ObservedMstp {
        costs: costs.collect(),
        region: Some(own.region.region),
        revision: Some(own.region.revision),
        priorities: numbers.iter().copied().zip(own.priorities).collect(),
        instances: own.region.instances.into_iter().map(|own| (own.number, own.vlans)).collect(),
    }
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
