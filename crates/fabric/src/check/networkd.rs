//! A folder of systemd-networkd's files, as it lies under `/etc/systemd/network`: the state of the switch
//! after its next start. `bridge` and `ip` show the current state.

use std::collections::BTreeSet;
use std::path::Path;

use crate::plan::{SwitchPlan, VlanId, VlanSet};

use super::bridge_json::{never_ages, port_name};
use super::file::{ReadError, load};
use super::ios_like::vlan_set;
use super::observed::{InterfaceName, Observed, ObservedInterface, every_vlan};

/// A section's name and its lines.
type Section = (String, Vec<(String, String)>);

pub(super) fn read(folder: &Path, switch: &SwitchPlan) -> Result<Observed, ReadError> {
    let fail = |error: std::io::Error| ReadError {
        file: folder.to_owned(),
        problem: format!("cannot be read: {error}"),
    };
    let entries = std::fs::read_dir(folder).map_err(fail)?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut observed = Observed { knows_lags: true, ..Observed::default() };
    let mut seen = BTreeSet::new();
    for file in files {
        let kind = file.extension().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default();
        if !["network", "netdev", "link"].contains(&kind.as_str()) {
            continue;
        }
        let Some((file, text)) = load(file)? else { continue };
        let sections = sections(&text);
        let key = if kind == "link" { "OriginalName" } else { "Name" };
        if let Some(name) = value(&sections, "Match", key)
            && !seen.insert((kind.clone(), name.to_owned()))
        {
            // Of several files for an interface networkd and udev take the first.
            continue;
        }
        let done = match kind.as_str() {
            "network" => network(&mut observed, &sections, switch),
            "netdev" => netdev(&mut observed, &sections),
            _ => link(&mut observed, &sections, switch),
        };
        done.map_err(|problem| ReadError { file, problem })?;
    }
    Ok(observed)
}

fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((name.to_owned(), Vec::new()));
        } else if let (Some((key, value)), Some((_, lines))) = (line.split_once('='), sections.last_mut())
            && !line.starts_with(['#', ';'])
        {
            lines.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    sections
}

/// The last value of a key, which is the one that counts.
fn value<'a>(sections: &'a [Section], section: &str, key: &str) -> Option<&'a str> {
    let lines = sections.iter().filter(|(name, _)| name == section).flat_map(|(_, lines)| lines);
    lines.filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).next_back()
}

fn is_yes(value: &str) -> bool {
    ["yes", "true", "on", "1"].contains(&value)
}

fn network(observed: &mut Observed, sections: &[Section], switch: &SwitchPlan) -> Result<(), String> {
    let Some(name) = value(sections, "Match", "Name") else { return Ok(()) };
    let mut interface = ObservedInterface {
        is_shut: value(sections, "Link", "ActivationPolicy").is_some_and(|policy| policy.ends_with("down")),
        lag: value(sections, "Network", "Bond").and_then(|bond| bond.strip_prefix("bond")?.parse().ok()),
        ..ObservedInterface::default()
    };
    let membership = &mut interface.membership;
    for (_, lines) in sections.iter().filter(|(name, _)| name == "BridgeVLAN") {
        for (key, value) in lines {
            match key.as_str() {
                "PVID" if value == "no" => membership.pvid = None,
                "PVID" => membership.pvid = Some(vlan_id(value)?),
                "VLAN" => vlan_set(value)?.iter().for_each(|vlan| membership.tagged.insert(vlan)),
                "EgressUntagged" => {
                    vlan_set(value)?.iter().for_each(|vlan| membership.untagged.insert(vlan));
                }
                _ => {}
            }
        }
    }
    membership.tagged = membership.tagged.difference(&membership.untagged);
    let known = observed.interfaces.entry(port_name(name, switch)).or_default();
    // From the port's .link file.
    interface.pause = known.pause;
    *known = interface;
    Ok(())
}

fn netdev(observed: &mut Observed, sections: &[Section]) -> Result<(), String> {
    if value(sections, "NetDev", "Kind") != Some("bridge") {
        return Ok(());
    }
    let is_set = |key: &str| value(sections, "Bridge", key).is_some_and(is_yes);
    observed.without_spanning_tree = Some(if is_set("STP") { VlanSet::new() } else { every_vlan() });
    if !is_set("VLANFiltering") {
        observed.faults.push("VLANFiltering is off: every frame goes to every port, round every loop".into());
    }
    if value(sections, "Bridge", "DefaultPVID") != Some("none") {
        observed.faults.push("DefaultPVID is not none: VLAN 1 is on every port too, a loop".into());
    }
    if let Some(text) = value(sections, "Bridge", "AgeingTimeSec") {
        let seconds = text.trim_end_matches('s').parse::<u32>();
        let seconds = seconds.map_err(|_| format!("AgeingTimeSec={text} is no number of seconds"))?;
        observed.aging_time_s = Some(if never_ages(seconds) { 0 } else { seconds });
    }
    Ok(())
}

fn link(observed: &mut Observed, sections: &[Section], switch: &SwitchPlan) -> Result<(), String> {
    let Some(name) = value(sections, "Match", "OriginalName") else { return Ok(()) };
    let both = ["RxFlowControl", "TxFlowControl"].map(|key| value(sections, "Link", key).map(is_yes));
    if let [Some(receives), Some(sends)] = both {
        let pauses = Some(receives && sends);
        match port_name(name, switch) {
            port @ InterfaceName::Port(_) => observed.interfaces.entry(port).or_default().pause = pauses,
            InterfaceName::Lag(_) | InterfaceName::Own => {}
        }
    }
    Ok(())
}

fn vlan_id(word: &str) -> Result<VlanId, String> {
    word.parse().ok().and_then(VlanId::new).ok_or_else(|| format!("{word:?} is no VLAN (1 to 4094)"))
}
