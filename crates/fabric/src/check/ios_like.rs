//! Running configurations of the `switchport` family: Dell PowerConnect and OS6, Arista EOS, Cisco NX-OS and
//! IOS.
//!
//! Read leniently, because each prints its own way what was entered: unknown lines are skipped, interface
//! names may be abbreviated, and a port that says nothing about VLANs has the factory's setting, which is
//! VLAN 1.

use crate::plan::{Membership, VlanId, VlanSet};

use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

/// What a `switchport` section says, before it is known which of it counts.
#[derive(Debug, Default)]
struct Section {
    mode: Option<Mode>,
    access: Option<VlanId>,
    native: Option<VlanId>,
    native_tagged: Option<bool>,
    trunk: Option<VlanSet>,
    general_pvid: Option<VlanId>,
    general_untagged: VlanSet,
    general_tagged: VlanSet,
    general_lost_default: bool,
    tagged_only: bool,
    lag: Option<u16>,
    is_shut: bool,
    pause: Pause,
}

/// `flowcontrol send on`, `flowcontrol receive on`.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    sends: Option<bool>,
    receives: Option<bool>,
}

impl Pause {
    /// Both where the switch has both; what is not said is `default`.
    fn is_on(self, default: Option<bool>) -> Option<bool> {
        match (self.sends, self.receives) {
            (None, None) => default,
            (Some(sends), None) => Some(sends && default != Some(false)),
            (None, Some(receives)) => Some(receives && default != Some(false)),
            (Some(sends), Some(receives)) => Some(sends && receives),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Access,
    Trunk,
    General,
}

/// `pause_default`: whether ports pause of which the configuration does not say it, where that is known.
pub(super) fn read(text: &str, pause_default: Option<bool>) -> Result<Observed, String> {
    // All these switches run a spanning tree by default, and the configuration then has no line about it.
    let mut observed =
        Observed { knows_lags: true, without_spanning_tree: Some(VlanSet::new()), ..Observed::default() };
    let mut pause_default = pause_default;
    let mut sections: Vec<(InterfaceName, Section)> = Vec::new();
    let mut is_inside = false;
    let mut tag_native = false;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        match words.as_slice() {
            ["interface", name @ ..] => {
                let name = interface_name(&name.concat());
                is_inside = !matches!(&name, InterfaceName::Port(port) if port.to_ascii_lowercase().starts_with("vlan"));
                if is_inside && !sections.iter().any(|(known, _)| *known == name) {
                    sections.push((name.clone(), Section::default()));
                }
                // A section may come twice; the later one adds to the former.
                if let Some(at) = sections.iter().position(|(known, _)| *known == name) {
                    let section = sections.remove(at);
                    sections.push(section);
                }
            }
            ["exit" | "!" | "end"] | [] => is_inside = is_inside && words == ["!"] && line.starts_with(' '),
            _ if is_inside && belongs_to_interface(&words) => {
                if let Some((_, section)) = sections.last_mut() {
                    section.line(&words).map_err(at)?;
                }
            }
            ["vlan", "dot1q", "tag", "native"] => tag_native = true,
            // Not `vlan database`, nor what else begins so. Where VTP keeps the VLANs elsewhere there is no
            // such line.
            ["vlan", list] => {
                if let Ok(vlans) = vlan_set(list) {
                    observed.declare(&vlans);
                }
            }
            ["no", "spanning-tree"] | ["spanning-tree", "mode", "none"] => {
                observed.without_spanning_tree = Some(every_vlan());
            }
            ["no", "spanning-tree", "vlan" | "vlan-id", list] => {
                let off = observed.without_spanning_tree.get_or_insert_default();
                vlan_set(list).map_err(at)?.iter().for_each(|vlan| off.insert(vlan));
            }
            ["spanning-tree"] | ["spanning-tree", "mode", _] => {
                observed.without_spanning_tree = Some(VlanSet::new());
            }
            ["spanning-tree", "vlan", list] => {
                let on = vlan_set(list).map_err(at)?;
                let off = observed.without_spanning_tree.get_or_insert_default();
                *off = off.difference(&on);
            }
            // A setting of the whole switch.
            ["flowcontrol"] => pause_default = Some(true),
            ["no", "flowcontrol"] => pause_default = Some(false),
            ["bridge" | "mac", ..] => aging(&mut observed, &words),
            _ => {}
        }
    }
    if sections.is_empty() {
        return Err("has no `interface` section: is it a running configuration?".into());
    }
    for (name, section) in sections {
        observed.interfaces.insert(name, section.finish(tag_native, pause_default));
    }
    Ok(observed)
}

/// The aging time. That of one VLAN counts where addresses are forgotten earlier there.
fn aging(observed: &mut Observed, words: &[&str]) {
    match words {
        ["bridge", "aging-time", seconds] | ["mac", "address-table", "aging-time", seconds] => {
            observed.aging_time_s = seconds.parse().ok();
        }
        ["mac", "address-table", "aging-time", seconds, "vlan", _] => {
            let all = [observed.aging_time_s, seconds.parse().ok()].into_iter().flatten();
            observed.aging_time_s = all.filter(|&seconds| seconds != 0).min().or(observed.aging_time_s);
        }
        _ => {}
    }
}

/// Commands of an interface also start with these words; anything else ends up ignored either way.
fn belongs_to_interface(words: &[&str]) -> bool {
    matches!(
        words,
        ["switchport" | "channel-group" | "shutdown", ..]
            | ["no", "shutdown" | "switchport", ..]
            | ["flowcontrol" | "no", "flowcontrol" | "receive" | "send", ..]
    )
}

impl Section {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["shutdown"] => self.is_shut = true,
            ["no", "shutdown"] => self.is_shut = false,
            ["flowcontrol", "send", state] => self.pause.sends = Some(*state == "on"),
            ["flowcontrol", "receive", state] => self.pause.receives = Some(*state == "on"),
            ["no", "flowcontrol", "send", ..] => self.pause.sends = Some(false),
            ["no", "flowcontrol", "receive", ..] => self.pause.receives = Some(false),
            ["channel-group", number, ..] => self.lag = number.parse().ok(),
            ["switchport", "mode", mode] => {
                self.mode = match *mode {
                    "trunk" => Some(Mode::Trunk),
                    "general" => Some(Mode::General),
                    _ => Some(Mode::Access),
                }
            }
            ["switchport", "access", "vlan", vlan] => self.access = Some(vlan_id(vlan)?),
            ["switchport", "trunk", "native", "vlan", "tag"] => self.native_tagged = Some(true),
            ["no", "switchport", "trunk", "native", "vlan", "tag"] => self.native_tagged = Some(false),
            ["no", "switchport", "trunk", "native", "vlan"] => self.native = None,
            ["switchport", "trunk", "native", "vlan", vlan] => self.native = Some(vlan_id(vlan)?),
            ["switchport", "trunk", "allowed", "vlan", rest @ ..] => self.trunk_list(rest)?,
            ["switchport", "general", "pvid", vlan] => self.general_pvid = Some(vlan_id(vlan)?),
            ["switchport", "general", "acceptable-frame-type", "tagged-only"] => self.tagged_only = true,
            ["switchport", "general", "allowed", "vlan", rest @ ..] => self.general_list(rest)?,
            _ => {}
        }
        Ok(())
    }

    fn trunk_list(&mut self, words: &[&str]) -> Result<(), String> {
        let current = self.trunk.clone().unwrap_or_default();
        self.trunk = Some(match words {
            ["none"] => VlanSet::new(),
            ["all"] => every_vlan(),
            ["add", list] => current.iter().chain(vlan_set(list)?.iter()).collect(),
            ["remove", list] => current.difference(&vlan_set(list)?),
            ["except", list] => every_vlan().difference(&vlan_set(list)?),
            [list] => vlan_set(list)?,
            _ => return Err(format!("cannot understand the VLAN list {:?}", words.join(" "))),
        });
        Ok(())
    }

    fn general_list(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["add", list, how @ ..] => {
                let set = vlan_set(list)?;
                let is_tagged = how.first() == Some(&"tagged");
                let (into, out_of) = if is_tagged {
                    (&mut self.general_tagged, &mut self.general_untagged)
                } else {
                    (&mut self.general_untagged, &mut self.general_tagged)
                };
                set.iter().for_each(|vlan| into.insert(vlan));
                *out_of = out_of.difference(&set);
            }
            ["remove", list] => {
                let set = vlan_set(list)?;
                self.general_lost_default |= VlanId::new(1).is_some_and(|vlan| set.contains(vlan));
                self.general_untagged = self.general_untagged.difference(&set);
                self.general_tagged = self.general_tagged.difference(&set);
            }
            _ => return Err(format!("cannot understand the VLAN list {:?}", words.join(" "))),
        }
        Ok(())
    }

    fn finish(self, tag_native: bool, pause_default: Option<bool>) -> ObservedInterface {
        let pause = self.pause.is_on(pause_default);
        let default = VlanId::new(1);
        let membership = match self.mode {
            Some(Mode::Trunk) => {
                let allowed = self.trunk.unwrap_or_else(every_vlan);
                let is_tagged = self.native_tagged.unwrap_or(tag_native);
                let native = if is_tagged { None } else { self.native.or(default) };
                let native = native.filter(|&vlan| allowed.contains(vlan));
                let untagged: VlanSet = native.into_iter().collect();
                Membership { pvid: native, tagged: allowed.difference(&untagged), untagged }
            }
            Some(Mode::General) => {
                let mut untagged = self.general_untagged;
                if let Some(vlan) = default.filter(|_| !self.general_lost_default) {
                    untagged.insert(vlan);
                }
                let pvid = self.general_pvid.or(default).filter(|_| !self.tagged_only);
                let pvid = pvid.filter(|&vlan| untagged.contains(vlan) || self.general_tagged.contains(vlan));
                Membership { pvid, untagged, tagged: self.general_tagged }
            }
            Some(Mode::Access) | None => {
                let vlan = self.access.or(default);
                Membership { pvid: vlan, untagged: vlan.into_iter().collect(), tagged: VlanSet::new() }
            }
        };
        ObservedInterface { membership, lag: self.lag, is_shut: self.is_shut, pause }
    }
}

/// `ethernet 1/g1` is `1/g1`; `port-channel 1`, `Port-Channel1` and `Port-channel1` are LAG 1.
fn interface_name(name: &str) -> InterfaceName {
    let lower = name.to_ascii_lowercase();
    if let Some(number) = lower.strip_prefix("port-channel").and_then(|number| number.parse().ok()) {
        return InterfaceName::Lag(number);
    }
    let stripped = lower.strip_prefix("ethernet").filter(|rest| rest.contains('g'));
    InterfaceName::Port(stripped.map_or_else(|| name.to_owned(), str::to_owned))
}

fn vlan_id(word: &str) -> Result<VlanId, String> {
    word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN (1 to 4094)"))
}

/// `101-104,110`.
pub(super) fn vlan_set(list: &str) -> Result<VlanSet, String> {
    let mut set = VlanSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (vlan_id(first)?, vlan_id(last)?);
        (first.get()..=last.get()).filter_map(VlanId::new).for_each(|vlan| set.insert(vlan));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_control_is_on_where_both_directions_are() {
        let on = |sends, receives, default| Pause { sends, receives }.is_on(default);
        for default in [None, Some(false), Some(true)] {
            assert_eq!(on(None, None, default), default);
            for (sends, receives) in [(true, true), (true, false), (false, true), (false, false)] {
                assert_eq!(on(Some(sends), Some(receives), default), Some(sends && receives));
            }
            // One direction alone is no pause where the other is off by default.
            let alone = default != Some(false);
            assert_eq!([on(Some(true), None, default), on(None, Some(true), default)], [Some(alone); 2]);
            assert_eq!([on(Some(false), None, default), on(None, Some(false), default)], [Some(false); 2]);
        }
    }
}
