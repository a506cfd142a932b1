//! OpenWrt: `/etc/config/network`, or what `uci export network` prints.

use std::collections::BTreeMap;

use crate::plan::{SwitchPlan, VlanId, VlanSet};

use super::bridge_json::{never_ages, port_name};
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

/// A section: its type, options and lists.
#[derive(Default)]
struct Section {
    kind: String,
    options: BTreeMap<String, String>,
    lists: BTreeMap<String, Vec<String>>,
}

impl Section {
    fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    fn list(&self, key: &str) -> &[String] {
        self.lists.get(key).map_or(&[], Vec::as_slice)
    }
}

pub(super) fn read(text: &str, switch: &SwitchPlan) -> Result<Observed, String> {
    let sections = sections(text);
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let bridge = sections.iter().find(|section| section.option("type") == Some("bridge"));
    let bridge = bridge.ok_or("has no `device` section of type bridge: is it /etc/config/network?")?;
    if bridge.option("vlan_filtering") != Some("1") {
        observed
            .faults
            .push("vlan_filtering is off: every frame goes to every port, round every loop".into());
    }
    let has_stp = bridge.option("stp") == Some("1");
    observed.without_spanning_tree = Some(if has_stp { VlanSet::new() } else { every_vlan() });
    if let Some(time) = bridge.option("ageing_time") {
        let seconds = time.parse().map_err(|_| format!("ageing_time {time:?} is no number of seconds"))?;
        observed.aging_time_s = Some(if never_ages(seconds) { 0 } else { seconds });
    }
    for section in sections.iter().filter(|section| section.kind == "device") {
        device(&mut observed, section, switch);
    }
    for section in sections.iter().filter(|section| section.kind == "bridge-vlan") {
        let word = section.option("vlan").unwrap_or_default();
        let vlan = word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN"))?;
        for entry in section.list("ports") {
            member(&mut observed, entry, vlan, switch);
        }
    }
    Ok(observed)
}

fn device(observed: &mut Observed, section: &Section, switch: &SwitchPlan) {
    let Some(name) = section.option("name") else { return };
    if section.option("type") == Some("bonding") {
        let InterfaceName::Lag(number) = port_name(name, switch) else { return };
        for port in section.list("ports") {
            observed.interfaces.entry(port_name(port, switch)).or_default().lag = Some(number);
        }
    } else if section.option("enabled") == Some("0") {
        observed.interfaces.entry(port_name(name, switch)).or_default().is_shut = true;
    }
}

/// `lan1`, `lan1:t`, `lan1:u`, `lan1:u*`: without letters untagged.
fn member(observed: &mut Observed, entry: &str, vlan: VlanId, switch: &SwitchPlan) {
    let (name, how) = entry.split_once(':').unwrap_or((entry, "u"));
    let found: &mut ObservedInterface = observed.interfaces.entry(port_name(name, switch)).or_default();
    if how.contains('*') {
        found.membership.pvid = Some(vlan);
    }
    let set = if how.contains('t') { &mut found.membership.tagged } else { &mut found.membership.untagged };
    set.insert(vlan);
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines().map(str::trim) {
        let mut parts = line.splitn(3, char::is_whitespace).map(|part| part.trim_matches(['\'', '"', ' ']));
        let (word, key, value) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        match (word, key, sections.last_mut()) {
            (Some("config"), Some(kind), _) => {
                sections.push(Section { kind: kind.to_owned(), ..Section::default() });
            }
            (Some("option"), Some(key), Some(section)) => {
                section.options.insert(key.to_owned(), value.to_owned());
            }
            (Some("list"), Some(key), Some(section)) => {
                section.lists.entry(key.to_owned()).or_default().push(value.to_owned());
            }
            _ => {}
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_blanks() {
        let found = sections("config device 'x'\n\toption note 'link to right'\n\tlist ports \"a b\"\n");
        assert_eq!(found[0].option("note"), Some("link to right"));
        assert_eq!((found[0].kind.as_str(), found[0].list("ports")), ("device", &["a b".to_owned()][..]));
    }
}
