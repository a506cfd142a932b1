//! Cumulus Linux: NVUE commands, as `nv config show -o commands` prints them or as they were entered.

use std::collections::BTreeMap;

use crate::plan::{VlanId, VlanSet};

use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

/// The untagged VLANs of ports, as far as lines say: a port of the bridge has the bridge's, VLAN 1 as
/// shipped, unless a line gives it its own.
#[derive(Default)]
struct Untagged {
    /// The bridge's: outer `None` where no line says it, inner `None` for none.
    of_bridge: Option<Option<VlanId>>,
    /// By port of the bridge: whether a line gives its own.
    is_own: BTreeMap<InterfaceName, bool>,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    observed.without_spanning_tree = Some(VlanSet::new());
    let mut untagged = Untagged::default();
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        count += usize::from(words.first() == Some(&"nv"));
        match words.as_slice() {
            ["nv", "set", "bridge", "domain", _, "untagged", vlan] => {
                untagged.of_bridge =
                    Some(if *vlan == "none" { None } else { Some(vlan_id(vlan).map_err(at)?) });
            }
            ["nv", "set", "bridge", "domain", _, rest @ ..] => domain(&mut observed, rest).map_err(at)?,
            ["nv", "unset", "bridge", "domain", _, "vlan"] => observed.vlans = Some(VlanSet::new()),
            ["nv", "unset", "interface", names, "bridge", ..] => {
                for name in expanded(names) {
                    interface(&mut observed, &name).membership = Default::default();
                    untagged.is_own.remove(&interface_name(&name));
                }
            }
            ["nv", "unset", "interface", names, "qos", "link-pause", ..] => {
                expanded(names).iter().for_each(|name| interface(&mut observed, name).pause = Some(false));
            }
            ["nv", "set", "interface", names, rest @ ..] => {
                for name in expanded(names) {
                    if let ["bridge", "domain", _, more @ ..] = rest {
                        let is_own = untagged.is_own.entry(interface_name(&name)).or_default();
                        *is_own |= matches!(more, ["untagged" | "access", _]);
                    }
                    setting(&mut observed, &name, rest).map_err(at)?;
                }
            }
            _ => {}
        }
    }
    if count == 0 {
        return Err("has no `nv` command: collect `nv config show -o commands`".into());
    }
    let of_bridge = untagged.of_bridge.unwrap_or(VlanId::new(1));
    for (name, _) in untagged.is_own.into_iter().filter(|(_, is_own)| !is_own) {
        let membership = &mut observed.interfaces.entry(name).or_default().membership;
        membership.pvid = of_bridge;
        membership.untagged = of_bridge.into_iter().collect();
    }
    for found in observed.interfaces.values_mut() {
        // The untagged VLAN is in the list of VLANs, too.
        found.membership.tagged = found.membership.tagged.difference(&found.membership.untagged);
        found.pause.get_or_insert(false);
    }
    Ok(observed)
}

fn vlan_id(word: &str) -> Result<VlanId, String> {
    word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN"))
}

fn domain(observed: &mut Observed, words: &[&str]) -> Result<(), String> {
    match words {
        ["vlan", list] => observed.declare(&vlan_set(list)?),
        ["ageing", seconds] => observed.aging_time_s = seconds.parse().ok(),
        ["stp", "state", state] => {
            let off = if *state == "down" { every_vlan() } else { VlanSet::new() };
            observed.without_spanning_tree = Some(off);
        }
        _ => {}
    }
    Ok(())
}

fn setting(observed: &mut Observed, name: &str, words: &[&str]) -> Result<(), String> {
    match words {
        ["bond", "member", members] => {
            let InterfaceName::Lag(number) = interface_name(name) else { return Ok(()) };
            for member in expanded(members) {
                interface(observed, &member).lag = Some(number);
            }
        }
        ["link", "state", state] => interface(observed, name).is_shut = *state == "down",
        ["qos", "link-pause", "profile", ..] => interface(observed, name).pause = Some(true),
        ["bridge", "domain", _, "untagged", "none"] => {
            let membership = &mut interface(observed, name).membership;
            membership.pvid = None;
            membership.untagged = VlanSet::new();
        }
        ["bridge", "domain", _, "untagged" | "access", vlan] => {
            let vlan = vlan_id(vlan)?;
            let membership = &mut interface(observed, name).membership;
            membership.pvid = Some(vlan);
            membership.untagged = [vlan].into_iter().collect();
        }
        ["bridge", "domain", _, "vlan", list] => {
            let set = vlan_set(list)?;
            let membership = &mut interface(observed, name).membership;
            set.iter().for_each(|vlan| membership.tagged.insert(vlan));
        }
        _ => {}
    }
    Ok(())
}

fn interface_name(name: &str) -> InterfaceName {
    let number = name.strip_prefix("bond").and_then(|number| number.parse().ok());
    number.map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag)
}

fn interface<'a>(observed: &'a mut Observed, name: &str) -> &'a mut ObservedInterface {
    observed.interfaces.entry(interface_name(name)).or_default()
}

/// `swp1-3,swp7s0-1` is swp1, swp2, swp3, swp7s0 and swp7s1.
fn expanded(names: &str) -> Vec<String> {
    let mut all = Vec::new();
    for part in names.split(',') {
        let range = part.split_once('-').and_then(|(first, last)| {
            let at = first.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
            Some((&first[..at], first[at..].parse::<u16>().ok()?, last.parse::<u16>().ok()?))
        });
        match range {
            Some((letters, first, last)) => {
                all.extend((first..=last).map(|number| format!("{letters}{number}")));
            }
            None => all.push(part.to_owned()),
        }
    }
    all
}
