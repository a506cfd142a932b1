//! Ubiquiti EdgeSwitch: `show running-config`.

use std::collections::BTreeMap;

use crate::plan::{VlanId, VlanSet};

use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

#[derive(Default)]
struct Section {
    included: VlanSet,
    lost_default: bool,
    tagged: VlanSet,
    pvid: Option<VlanId>,
    tagged_only: bool,
    lag: Option<u16>,
    is_shut: bool,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    observed.without_spanning_tree = Some(VlanSet::new());
    let mut sections: BTreeMap<InterfaceName, Section> = BTreeMap::new();
    let mut inside: Option<InterfaceName> = None;
    let mut pauses = false;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        match words.as_slice() {
            ["interface", "lag", number] => {
                let number = number.parse().map_err(|_| at(format!("{number:?} is no LAG")))?;
                inside = Some(InterfaceName::Lag(number));
            }
            ["interface", name] => inside = Some(InterfaceName::Port((*name).to_owned())),
            ["exit" | "!"] => inside = None,
            ["vlan", list] if inside.is_none() => {
                if let Ok(vlans) = vlan_set(list) {
                    observed.declare(&vlans);
                }
            }
            ["no", "spanning-tree"] if inside.is_none() => {
                observed.without_spanning_tree = Some(every_vlan());
            }
            ["storm-control", "flowcontrol"] => pauses = true,
            ["no", "storm-control", "flowcontrol"] => pauses = false,
            ["bridge", "aging-time", seconds] => observed.aging_time_s = seconds.parse().ok(),
            _ => {}
        }
        if let Some(name) = &inside {
            sections.entry(name.clone()).or_default().line(&words).map_err(at)?;
        }
    }
    if sections.is_empty() {
        return Err("has no `interface` section: is it a running configuration?".into());
    }
    for (name, section) in sections {
        observed.interfaces.insert(name, section.finish(pauses));
    }
    Ok(observed)
}

impl Section {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["shutdown"] => self.is_shut = true,
            ["no", "shutdown"] => self.is_shut = false,
            ["addport", "lag", number] => self.lag = number.parse().ok(),
            ["vlan", "participation", "include", list] => {
                vlan_set(list)?.iter().for_each(|vlan| self.included.insert(vlan));
            }
            ["vlan", "participation", "exclude", list] => {
                let set = vlan_set(list)?;
                self.lost_default |= VlanId::new(1).is_some_and(|vlan| set.contains(vlan));
                self.included = self.included.difference(&set);
            }
            ["vlan", "tagging", list] => vlan_set(list)?.iter().for_each(|vlan| self.tagged.insert(vlan)),
            ["no", "vlan", "tagging", list] => self.tagged = self.tagged.difference(&vlan_set(list)?),
            ["vlan", "pvid", vlan] => self.pvid = vlan_set(vlan)?.iter().next(),
            ["vlan", "acceptframe", what] => self.tagged_only = *what == "vlanonly",
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, pauses: bool) -> ObservedInterface {
        if let Some(vlan) = VlanId::new(1).filter(|_| !self.lost_default) {
            self.included.insert(vlan);
        }
        let untagged = self.included.difference(&self.tagged);
        let pvid = self.pvid.or(VlanId::new(1)).filter(|_| !self.tagged_only);
        let mut found = ObservedInterface { lag: self.lag, is_shut: self.is_shut, ..Default::default() };
        found.pause = Some(pauses);
        found.membership.pvid = pvid.filter(|&vlan| self.included.contains(vlan));
        found.membership.tagged = self.included.difference(&untagged);
        found.membership.untagged = untagged;
        found
    }
}
