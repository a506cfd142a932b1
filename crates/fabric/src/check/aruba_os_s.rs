//! ArubaOS-Switch: `show running-config`, where ports stand under their VLANs.

use std::collections::BTreeMap;

use crate::plan::{SwitchPlan, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

#[derive(Default)]
struct Vlan {
    tagged: Vec<InterfaceName>,
    untagged: Vec<InterfaceName>,
}

/// What the lines that follow are about.
enum Section {
    Nothing,
    Vlan(VlanId),
    Ports(Vec<InterfaceName>),
}

pub(super) fn read(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    // As shipped: a spanning tree on most models, and every port untagged in VLAN 1.
    observed.without_spanning_tree = Some(VlanSet::new());
    let mut vlans: BTreeMap<VlanId, Vlan> = BTreeMap::new();
    let ports = switch.ports.iter().filter(|port| port.lag.is_none());
    let all = ports.map(|port| InterfaceName::Port(port.name.clone()));
    let lags = switch.lags.iter().map(|lag| InterfaceName::Lag(lag.number));
    if let Some(one) = VlanId::new(1) {
        vlans.insert(one, Vlan { tagged: Vec::new(), untagged: all.chain(lags).collect() });
    }
    let mut section = Section::Nothing;
    let mut is_known = false;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        match words.as_slice() {
            ["vlan", vid] => {
                let vid = vid.parse().ok().and_then(VlanId::new);
                let vid = vid.ok_or_else(|| at(format!("{:?} is no VLAN", words[1])))?;
                vlans.entry(vid).or_default();
                section = Section::Vlan(vid);
                is_known = true;
            }
            ["interface", names] => section = Section::Ports(interfaces(names)),
            ["exit"] => section = Section::Nothing,
            ["trunk", names, lag, ..] => {
                let number = lag_number(lag);
                for name in interfaces(names) {
                    observed.interfaces.entry(name).or_default().lag = number;
                }
            }
            ["no", "spanning-tree"] => observed.without_spanning_tree = Some(every_vlan()),
            ["spanning-tree"] => observed.without_spanning_tree = Some(VlanSet::new()),
            ["mac-age-time", seconds] => observed.aging_time_s = seconds.parse().ok(),
            _ => match &section {
                Section::Vlan(vid) => member(&mut vlans, *vid, &words),
                Section::Ports(names) => {
                    for name in names {
                        port(observed.interfaces.entry(name.clone()).or_default(), &words);
                    }
                }
                Section::Nothing => {}
            },
        }
    }
    if !is_known {
        return Err("has no `vlan` section: is it a running configuration?".into());
    }
    observed.declare(&vlans.keys().copied().collect());
    for (vid, vlan) in vlans {
        for name in vlan.tagged {
            observed.interfaces.entry(name).or_default().membership.tagged.insert(vid);
        }
        for name in vlan.untagged {
            let membership = &mut observed.interfaces.entry(name).or_default().membership;
            membership.untagged.insert(vid);
            membership.pvid = Some(vid);
        }
    }
    observed.interfaces.values_mut().for_each(|found| _ = found.pause.get_or_insert(false));
    Ok(observed)
}

/// A port is untagged in one VLAN: the last one that takes it.
fn member(vlans: &mut BTreeMap<VlanId, Vlan>, vid: VlanId, words: &[&str]) {
    let (verb, names) = match words {
        ["no", verb @ ("tagged" | "untagged"), names] => (("no", *verb), interfaces(names)),
        [verb @ ("tagged" | "untagged"), names] => (("", *verb), interfaces(names)),
        _ => return,
    };
    if verb == ("", "untagged") {
        vlans.values_mut().for_each(|vlan| vlan.untagged.retain(|name| !names.contains(name)));
    }
    let Some(vlan) = vlans.get_mut(&vid) else { return };
    match verb {
        ("no", "tagged") => vlan.tagged.retain(|name| !names.contains(name)),
        ("no", _) => vlan.untagged.retain(|name| !names.contains(name)),
        (_, "tagged") => {
            vlan.untagged.retain(|name| !names.contains(name));
            vlan.tagged.extend(names);
        }
        _ => {
            vlan.tagged.retain(|name| !names.contains(name));
            vlan.untagged.extend(names);
        }
    }
}

fn port(found: &mut ObservedInterface, words: &[&str]) {
    match words {
        ["disable"] => found.is_shut = true,
        ["enable"] => found.is_shut = false,
        ["flow-control"] => found.pause = Some(true),
        ["no", "flow-control"] => found.pause = Some(false),
        _ => {}
    }
}

fn lag_number(name: &str) -> Option<u16> {
    name.to_ascii_lowercase().strip_prefix("trk").and_then(|number| number.parse().ok())
}

/// `1-4,7,Trk1-Trk2`; also `A1-A4` and `1/1-1/4`.
fn interfaces(names: &str) -> Vec<InterfaceName> {
    let named =
        |name: String| lag_number(&name).map_or_else(|| InterfaceName::Port(name), InterfaceName::Lag);
    let mut all = Vec::new();
    for part in names.split(',') {
        let split = |name: &str| -> Option<(String, u16)> {
            let at = name.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
            Some((name[..at].to_owned(), name[at..].parse().ok()?))
        };
        let range = part.split_once('-').and_then(|(first, last)| Some((split(first)?, split(last)?)));
        match range {
            Some(((letters, first), (_, last))) => {
                all.extend((first..=last).map(|number| named(format!("{letters}{number}"))));
            }
            None => all.push(named(part.to_owned())),
        }
    }
    all
}
