//! Junos with ELS: `show configuration | display set`, or the lines that were entered.

use std::collections::BTreeMap;

use crate::plan::{VlanId, VlanSet};

use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

#[derive(Default)]
struct Section {
    is_trunk: bool,
    members: Vec<String>,
    native: Option<VlanId>,
    lag: Option<u16>,
    is_shut: bool,
    pause: Option<bool>,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let mut names: BTreeMap<String, VlanId> = BTreeMap::new();
    let mut sections: BTreeMap<InterfaceName, Section> = BTreeMap::new();
    let mut protocols: Vec<String> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        match words.as_slice() {
            ["set", "vlans", name, "vlan-id", vid] => {
                names.insert((*name).to_owned(), vlan_id(vid).map_err(at)?);
            }
            ["set", "protocols", "l2-learning", "global-mac-table-aging-time", seconds] => {
                observed.aging_time_s = seconds.parse().ok();
            }
            ["set", "protocols", name @ ("stp" | "rstp" | "mstp" | "vstp"), ..] => {
                protocols.push((*name).to_owned());
            }
            ["delete", "protocols", name] => protocols.retain(|known| known != name),
            ["delete", "interfaces", name] => _ = sections.insert(interface_name(name), Section::default()),
            ["set", "interfaces", name, rest @ ..] => {
                sections.entry(interface_name(name)).or_default().line(rest).map_err(at)?;
            }
            _ => {}
        }
    }
    if sections.is_empty() {
        return Err("has no `set interfaces` line: collect `show configuration | display set`".into());
    }
    let off = if protocols.is_empty() { every_vlan() } else { VlanSet::new() };
    observed.without_spanning_tree = Some(off);
    observed.declare(&names.values().copied().collect());
    let lag_pauses: BTreeMap<u16, Option<bool>> = sections
        .iter()
        .filter_map(|(name, section)| match name {
            InterfaceName::Lag(number) => Some((*number, section.pause)),
            _ => None,
        })
        .collect();
    for (name, section) in sections {
        let of_lag = section.lag.and_then(|lag| lag_pauses.get(&lag).copied().flatten());
        let mut found = section.finish(&names)?;
        // A LAG's members pause as their LAG does.
        found.pause = of_lag.or(found.pause).or(Some(false));
        observed.interfaces.insert(name, found);
    }
    Ok(observed)
}

impl Section {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["disable"] => self.is_shut = true,
            ["ether-options" | "gigether-options", "802.3ad", lag] => {
                self.lag = lag.strip_prefix("ae").and_then(|number| number.parse().ok());
            }
            [.., "flow-control"] => self.pause = Some(true),
            [.., "no-flow-control"] => self.pause = Some(false),
            ["native-vlan-id", vlan] => self.native = Some(vlan_id(vlan)?),
            ["unit", _, "family", "ethernet-switching", "interface-mode", mode] => {
                self.is_trunk = *mode == "trunk";
            }
            ["unit", _, "family", "ethernet-switching", "vlan", "members", member] => {
                self.members.push((*member).to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self, names: &BTreeMap<String, VlanId>) -> Result<ObservedInterface, String> {
        let mut found = ObservedInterface {
            lag: self.lag,
            is_shut: self.is_shut,
            pause: self.pause,
            ..ObservedInterface::default()
        };
        let mut members = VlanSet::new();
        for member in &self.members {
            match names.get(member) {
                Some(vlan) => members.insert(*vlan),
                None if member == "all" => names.values().for_each(|vlan| members.insert(*vlan)),
                None => vlan_set(member)?.iter().for_each(|vlan| members.insert(vlan)),
            }
        }
        let untagged: VlanSet = if self.is_trunk {
            self.native.filter(|vlan| members.contains(*vlan)).into_iter().collect()
        } else {
            members.clone()
        };
        found.membership.pvid = untagged.iter().next();
        found.membership.tagged = members.difference(&untagged);
        found.membership.untagged = untagged;
        Ok(found)
    }
}

fn interface_name(name: &str) -> InterfaceName {
    let number = name.strip_prefix("ae").and_then(|number| number.parse().ok());
    number.map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag)
}

fn vlan_id(word: &str) -> Result<VlanId, String> {
    word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN (1 to 4094)"))
}
