//! Running configurations of Comware and of Huawei's VRP (`display current-configuration`), which share most
//! words.

use crate::plan::{Membership, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

#[derive(Debug, Default)]
struct Section {
    link_type: LinkType,
    access: Option<VlanId>,
    pvid: Option<VlanId>,
    untagged: VlanSet,
    tagged: VlanSet,
    lost_default: bool,
    lag: Option<u16>,
    is_shut: bool,
    /// Off unless a line says otherwise.
    pause: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LinkType {
    #[default]
    Access,
    Trunk,
    Hybrid,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let mut sections: Vec<(InterfaceName, Section)> = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["interface", name @ ..] => {
                let name = interface_name(&name.concat());
                let at = sections.iter().position(|(known, _)| *known == name);
                let section = at.map_or_else(|| (name, Section::default()), |at| sections.remove(at));
                sections.push(section);
                is_inside = true;
            }
            ["quit" | "return" | "#"] => is_inside = false,
            ["vlan", "batch", list @ ..] if !is_inside => {
                observed
                    .declare(&vlan_set(list).map_err(|problem| format!("line {}: {problem}", index + 1))?);
            }
            ["mac-address", "aging-time", seconds] => observed.aging_time_s = seconds.parse().ok(),
            ["undo", "stp", "global", "enable"] | ["undo", "stp", "enable"] if !is_inside => {
                observed.without_spanning_tree = Some(every_vlan());
            }
            ["stp", "global", "enable"] | ["stp", "enable"] if !is_inside => {
                observed.without_spanning_tree = Some(VlanSet::new());
            }
            ["vlan", list @ ..] if !is_inside => {
                if let Ok(vlans) = vlan_set(list) {
                    observed.declare(&vlans);
                }
            }
            ["mac-address", "timer", "aging", seconds] => observed.aging_time_s = seconds.parse().ok(),
            ["mac-address", "timer", "no-aging"] => observed.aging_time_s = Some(0),
            _ if is_inside => {
                if let Some((_, section)) = sections.last_mut() {
                    section.line(&words).map_err(|problem| format!("line {}: {problem}", index + 1))?;
                }
            }
            _ => {}
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
            ["undo", "shutdown"] => self.is_shut = false,
            ["flow-control"] => self.pause = true,
            ["undo", "flow-control"] => self.pause = false,
            ["port", "link-aggregation", "group", number, ..] | ["eth-trunk", number] => {
                self.lag = number.parse().ok();
            }
            ["port", "link-type", kind] => {
                self.link_type = match *kind {
                    "trunk" => LinkType::Trunk,
                    "hybrid" => LinkType::Hybrid,
                    _ => LinkType::Access,
                }
            }
            ["port", "access", "vlan", vlan] => self.access = Some(vlan_id(vlan)?),
            ["port", "trunk" | "hybrid", "pvid", "vlan", vlan] => self.pvid = Some(vlan_id(vlan)?),
            ["port", "trunk", "permit" | "allow-pass", "vlan", list @ ..]
            | ["port", "hybrid", "tagged", "vlan", list @ ..] => {
                vlan_set(list)?.iter().for_each(|vlan| self.tagged.insert(vlan));
            }
            ["port", "hybrid", "untagged", "vlan", list @ ..] => {
                vlan_set(list)?.iter().for_each(|vlan| self.untagged.insert(vlan));
            }
            ["undo", "port", "trunk", "permit" | "allow-pass", "vlan", list @ ..]
            | ["undo", "port", "hybrid", "vlan", list @ ..] => {
                self.remove(&vlan_set(list)?);
            }
            ["port", "hybrid", "vlan", list @ .., "untagged"] => {
                vlan_set(list)?.iter().for_each(|vlan| self.untagged.insert(vlan));
            }
            ["port", "hybrid", "vlan", list @ .., "tagged"] => {
                vlan_set(list)?.iter().for_each(|vlan| self.tagged.insert(vlan));
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(&mut self, set: &VlanSet) {
        self.lost_default |= VlanId::new(1).is_some_and(|vlan| set.contains(vlan));
        self.untagged = self.untagged.difference(set);
        self.tagged = self.tagged.difference(set);
    }

    fn finish(mut self) -> ObservedInterface {
        let default = VlanId::new(1);
        let pvid = self.pvid.or(default);
        let membership = match self.link_type {
            LinkType::Access => {
                let vlan = self.access.or(default);
                Membership { pvid: vlan, untagged: vlan.into_iter().collect(), tagged: VlanSet::new() }
            }
            LinkType::Trunk | LinkType::Hybrid => {
                if let Some(vlan) = default.filter(|_| !self.lost_default) {
                    self.untagged.insert(vlan);
                }
                if let Some(vlan) =
                    pvid.filter(|&vlan| self.link_type == LinkType::Trunk && self.tagged.contains(vlan))
                {
                    // A trunk sends its PVID's VLAN untagged.
                    self.untagged.insert(vlan);
                    self.tagged = self.tagged.difference(&[vlan].into_iter().collect());
                }
                let is_member = |vlan: &VlanId| self.untagged.contains(*vlan) || self.tagged.contains(*vlan);
                Membership { pvid: pvid.filter(is_member), untagged: self.untagged, tagged: self.tagged }
            }
        };
        ObservedInterface { membership, lag: self.lag, is_shut: self.is_shut, pause: Some(self.pause) }
    }
}

fn interface_name(name: &str) -> InterfaceName {
    let number = name.strip_prefix("Bridge-Aggregation").or_else(|| name.strip_prefix("Eth-Trunk"));
    let number = number.and_then(|number| number.parse().ok());
    number.map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag)
}

fn vlan_id(word: &str) -> Result<VlanId, String> {
    word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN (1 to 4094)"))
}

/// `101 to 104 110`.
fn vlan_set(words: &[&str]) -> Result<VlanSet, String> {
    let mut set = VlanSet::new();
    let mut rest = words;
    while let [first, tail @ ..] = rest {
        let first = if *first == "all" { VlanId::new(1).ok_or("no VLAN 1")? } else { vlan_id(first)? };
        let (last, tail) = match tail {
            ["to", last, tail @ ..] => (vlan_id(last)?, tail),
            _ if words == ["all"] => (VlanId::new(VlanId::MAX).ok_or("no VLAN 4094")?, tail),
            _ => (first, tail),
        };
        (first.get()..=last.get()).filter_map(VlanId::new).for_each(|vlan| set.insert(vlan));
        rest = tail;
    }
    Ok(set)
}
