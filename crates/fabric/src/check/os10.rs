//! Dell OS10: `show running-configuration`. The words are IOS', but lists of VLANs are added to those before.

use std::collections::BTreeMap;

use crate::plan::{VlanId, VlanSet};

use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

#[derive(Default)]
struct Section {
    is_trunk: bool,
    lost_access: bool,
    access: Option<VlanId>,
    allowed: VlanSet,
    lag: Option<u16>,
    is_shut: bool,
    receives: bool,
    sends: bool,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    observed.without_spanning_tree = Some(VlanSet::new());
    let mut sections: BTreeMap<InterfaceName, Section> = BTreeMap::new();
    let mut inside: Option<InterfaceName> = None;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        match words.as_slice() {
            ["interface", name @ ..] => {
                let name = name.concat();
                inside = None;
                if let Some(vid) = name.strip_prefix("vlan") {
                    observed.declare(&vlan_set(vid).map_err(at)?);
                } else {
                    let name = interface_name(&name);
                    sections.entry(name.clone()).or_default();
                    inside = Some(name);
                }
            }
            ["exit" | "end" | "!"] => inside = None,
            ["spanning-tree", "disable"] if inside.is_none() => {
                observed.without_spanning_tree = Some(every_vlan());
            }
            ["no", "spanning-tree", "disable"] => observed.without_spanning_tree = Some(VlanSet::new()),
            ["mac", "address-table", "aging-time", seconds] => observed.aging_time_s = seconds.parse().ok(),
            _ => {
                if let Some(section) = inside.as_ref().and_then(|name| sections.get_mut(name)) {
                    section.line(&words).map_err(at)?;
                }
            }
        }
    }
    if sections.is_empty() {
        return Err("has no `interface` section: is it a running configuration?".into());
    }
    for (name, section) in sections {
        observed.interfaces.insert(name, section.finish());
    }
    Ok(observed)
}

impl Section {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["shutdown"] => self.is_shut = true,
            ["no", "shutdown"] => self.is_shut = false,
            ["channel-group", number, ..] => self.lag = number.parse().ok(),
            ["flowcontrol", "receive", state] => self.receives = *state == "on",
            ["flowcontrol", "transmit", state] => self.sends = *state == "on",
            ["switchport", "mode", mode] => self.is_trunk = *mode == "trunk",
            ["switchport", "access", "vlan", vlan] => {
                self.access = vlan_set(vlan)?.iter().next();
                self.lost_access = false;
            }
            ["no", "switchport", "access", "vlan"] => self.lost_access = true,
            ["switchport", "trunk", "allowed", "vlan", list] => {
                vlan_set(list)?.iter().for_each(|vlan| self.allowed.insert(vlan));
            }
            ["no", "switchport", "trunk", "allowed", "vlan", list] => {
                self.allowed = self.allowed.difference(&vlan_set(list)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> ObservedInterface {
        let untagged = self.access.or(VlanId::new(1)).filter(|_| !self.lost_access);
        let mut found = ObservedInterface { lag: self.lag, is_shut: self.is_shut, ..Default::default() };
        found.pause = Some(self.receives && self.sends);
        found.membership.pvid = untagged;
        found.membership.untagged = untagged.into_iter().collect();
        if self.is_trunk {
            found.membership.tagged = self.allowed.difference(&found.membership.untagged);
        }
        found
    }
}

fn interface_name(name: &str) -> InterfaceName {
    let number = name.strip_prefix("port-channel").and_then(|number| number.parse().ok());
    number.map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag)
}
