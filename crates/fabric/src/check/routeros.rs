//! RouterOS: `/export`, or a script of commands that were entered.

use std::collections::BTreeMap;

use crate::plan::{VlanId, VlanSet};

use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, every_vlan};

/// One command: `add`, `set`, `remove`, and its settings.
struct Command {
    menu: String,
    verb: String,
    /// The settings in `[find …]`.
    found: BTreeMap<String, String>,
    settings: BTreeMap<String, String>,
}

/// A port of the bridge.
#[derive(Clone)]
struct Port {
    pvid: VlanId,
    takes_untagged: bool,
}

pub(super) fn read(text: &str) -> Result<Observed, String> {
    let commands = commands(text);
    if commands.is_empty() {
        return Err("has no command of a menu such as /interface: is it what /export prints?".into());
    }
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let mut ports: BTreeMap<String, Port> = BTreeMap::new();
    let mut vlans: Vec<(VlanSet, Vec<String>, Vec<String>)> = Vec::new();
    let mut filters = false;
    for Command { menu, verb, found, settings } in &commands {
        let get = |key: &str| settings.get(key).or_else(|| found.get(key)).map(String::as_str);
        match (menu.as_str(), verb.as_str()) {
            ("/interface bridge", "remove") => {
                ports.clear();
                vlans.clear();
                filters = false;
            }
            ("/interface bridge", "add" | "set") => bridge(&mut observed, settings, &mut filters)?,
            ("/interface bridge port", "remove") => {
                get("interface").map(|name| ports.remove(name));
            }
            ("/interface bridge port", "add") => {
                let name = get("interface").unwrap_or_default().to_owned();
                ports.insert(name, port(settings)?);
            }
            ("/interface bridge vlan", "add") => {
                let list = |key: &str| -> Vec<String> {
                    get(key).unwrap_or_default().split(',').map(str::to_owned).collect()
                };
                vlans.push((vlan_set(get("vlan-ids").unwrap_or("1"))?, list("tagged"), list("untagged")));
            }
            ("/interface bonding", "add") => {
                let lag = lag(get("name").unwrap_or_default());
                for member in get("slaves").unwrap_or_default().split(',').filter(|name| !name.is_empty()) {
                    interface(&mut observed, member).lag = lag;
                }
            }
            ("/interface ethernet", "set") => {
                ethernet(&mut observed, get("name").or(get("default-name")), settings)
            }
            _ => {}
        }
    }
    if !filters {
        observed
            .faults
            .push("vlan-filtering is off: every frame goes to every port, round every loop".into());
    }
    assign(&mut observed, &ports, &vlans);
    Ok(observed)
}

fn bridge(
    observed: &mut Observed,
    settings: &BTreeMap<String, String>,
    filters: &mut bool,
) -> Result<(), String> {
    match settings.get("vlan-filtering").map(String::as_str) {
        Some("yes") => *filters = true,
        Some(_) => *filters = false,
        None => {}
    }
    if let Some(mode) = settings.get("protocol-mode") {
        observed.without_spanning_tree = Some(if mode == "none" { every_vlan() } else { VlanSet::new() });
    }
    if let Some(time) = settings.get("ageing-time") {
        observed.aging_time_s = Some(seconds(time).ok_or_else(|| format!("ageing-time={time} is no time"))?);
    }
    Ok(())
}

/// `100000s`, or as it is printed: `1d3h46m40s`, `00:05:00`, `1d03:46:40`.
fn seconds(time: &str) -> Option<u32> {
    let (days, rest) = time.split_once('d').unwrap_or(("0", time));
    let mut total = 86_400 * days.parse::<u32>().ok()?;
    if rest.contains(':') {
        let mut factor = 1;
        for part in rest.rsplit(':') {
            total += factor * part.parse::<u32>().ok()?;
            factor *= 60;
        }
        return Some(total);
    }
    let mut number = String::new();
    for letter in rest.chars() {
        let factor = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total += factor * number.parse::<u32>().ok()?;
        number.clear();
    }
    number.is_empty().then_some(total)
}

fn port(settings: &BTreeMap<String, String>) -> Result<Port, String> {
    let pvid = settings.get("pvid").map_or("1", String::as_str);
    let pvid = pvid.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("pvid={pvid} is no VLAN"))?;
    let accepts = settings.get("frame-types").map_or("admit-all", String::as_str);
    Ok(Port { pvid, takes_untagged: accepts != "admit-only-vlan-tagged" })
}

fn ethernet(observed: &mut Observed, name: Option<&str>, settings: &BTreeMap<String, String>) {
    let Some(name) = name else { return };
    let is_on = |key: &str| settings.get(key).map(|value| value == "on");
    let found = interface(observed, name);
    if let (Some(receives), Some(sends)) = (is_on("rx-flow-control"), is_on("tx-flow-control")) {
        found.pause = Some(receives && sends);
    }
    if let Some(disabled) = settings.get("disabled") {
        found.is_shut = disabled == "yes";
    }
}

/// A port that takes untagged frames is an untagged member of its PVID's VLAN by itself.
fn assign(
    observed: &mut Observed,
    ports: &BTreeMap<String, Port>,
    vlans: &[(VlanSet, Vec<String>, Vec<String>)],
) {
    for (name, port) in ports.iter().filter(|(_, port)| port.takes_untagged) {
        let membership = &mut interface(observed, name).membership;
        membership.pvid = Some(port.pvid);
        membership.untagged.insert(port.pvid);
    }
    let mut existing = VlanSet::new();
    for (set, tagged, untagged) in vlans {
        set.iter().for_each(|vlan| existing.insert(vlan));
        for name in tagged.iter().filter(|name| ports.contains_key(*name)) {
            let membership = &mut interface(observed, name).membership;
            set.iter().for_each(|vlan| membership.tagged.insert(vlan));
        }
        for name in untagged.iter().filter(|name| ports.contains_key(*name)) {
            let membership = &mut interface(observed, name).membership;
            set.iter().for_each(|vlan| membership.untagged.insert(vlan));
        }
    }
    observed.declare(&existing);
}

fn lag(name: &str) -> Option<u16> {
    name.strip_prefix("bond").and_then(|number| number.parse().ok())
}

fn interface<'a>(observed: &'a mut Observed, name: &str) -> &'a mut super::ObservedInterface {
    let name = lag(name).map_or_else(|| InterfaceName::Port(name.to_owned()), InterfaceName::Lag);
    observed.interfaces.entry(name).or_default()
}

/// The commands, with the menu that stands before them or that they were entered in. Long lines end with `\`.
fn commands(text: &str) -> Vec<Command> {
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut menu = String::new();
    let mut commands = Vec::new();
    for line in joined.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let words = words(line);
        let verb = words.iter().position(|word| ["add", "set", "remove"].contains(&word.as_str()));
        let path = &words[..verb.unwrap_or(words.len())];
        if path.first().is_some_and(|word| word.starts_with('/')) {
            menu = path.join(" ");
        }
        let Some(verb) = verb else { continue };
        let (mut found, mut settings) = (BTreeMap::new(), BTreeMap::new());
        let mut is_inside = false;
        for word in &words[verb + 1..] {
            is_inside |= word.starts_with('[');
            let bare = word.trim_matches(['[', ']']);
            if let Some((key, value)) = bare.split_once('=') {
                let into = if is_inside { &mut found } else { &mut settings };
                into.insert(key.to_owned(), value.to_owned());
            }
            is_inside &= !word.ends_with(']');
        }
        commands.push(Command { menu: menu.clone(), verb: words[verb].clone(), found, settings });
    }
    commands
}

/// Words; quotes keep blanks together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            letter if letter.is_whitespace() && !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_entered_and_as_they_are_printed() {
        for time in ["100000s", "1d3h46m40s", "1d03:46:40"] {
            assert_eq!(seconds(time), Some(100_000), "{time}");
        }
        assert_eq!(seconds("00:05:00"), Some(300));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn a_bridge_filters_only_when_it_is_told_to() {
        let is_off = |lines: &str| {
            let text = format!("/interface bridge\n{lines}");
            let faults = read(&text).unwrap().faults;
            assert!(faults.len() < 2, "{faults:?}");
            !faults.is_empty()
        };
        // What is printed leaves out what is usual, and not to filter is.
        assert!(is_off("add name=one protocol-mode=none\n"));
        assert!(!is_off("add name=one vlan-filtering=yes\n"));
        assert!(is_off("add name=one vlan-filtering=yes\nset one vlan-filtering=no\n"));
        assert!(!is_off("add name=one vlan-filtering=yes\nset one ageing-time=5m\n"));
        assert!(is_off("add name=one vlan-filtering=yes\nremove [find name=one]\nadd name=one\n"));
        assert!(!is_off("add name=\"bridge of the rack\" vlan-filtering=yes\n"));
        assert!(is_off("add name=\"bridge vlan-filtering=yes\"\n"));
    }
}
