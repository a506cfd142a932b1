//! MSTP in running configurations of all makes: region, VLAN map, priorities and costs compared with the
//! plan's.

use crate::plan::{Mstp, PortRole, SwitchPlan, VlanSet};

use super::observed::{InterfaceName, ObservedMstp, same_port};

/// Reads MSTP from lines. `None` if they name no region.
pub(super) fn read(text: &str) -> Option<ObservedMstp> {
    let mut found = ObservedMstp::default();
    let mut at = None;
    let mut is_region = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('"')).collect();
        if let ["interface", name @ ..] = words.as_slice() {
            at = Some(interface_name(&name.concat()));
        }
        match words.as_slice() {
            ["spanning-tree", "mst", "configuration"] => is_region = true,
            // VLANs and interfaces have names, too.
            ["exit" | "!" | "end"] | ["vlan" | "interface", ..] => is_region = false,
            ["name", _] if !is_region => continue,
            _ => {}
        }
        // Junos, and ArubaOS-S, whose interfaces stand in the line.
        let own = match words.as_slice() {
            ["set", "protocols", "mstp", rest @ ..] => rest,
            words => words,
        };
        found.line(own, at.as_ref());
    }
    (found.region.is_some() || !found.instances.is_empty()).then_some(found)
}

impl ObservedMstp {
    fn line(&mut self, words: &[&str], at: Option<&InterfaceName>) {
        match words {
            ["no", "spanning-tree", "mst", "configuration"] | ["undo", "stp", "region-configuration"] => {
                self.region = None;
                self.instances.clear();
            }
            ["name" | "region-name" | "configuration-name", name]
            | ["spanning-tree", "config-name", name] => {
                self.region = Some((*name).to_owned());
            }
            ["revision" | "revision-level", number] | ["spanning-tree", "config-revision", number] => {
                self.revision = number.parse().ok();
            }
            ["instance" | "msti", number, "vlan", list @ ..]
            | ["instance", number, "add", "vlan", list @ ..]
            | ["spanning-tree", "instance", number, "vlan", list @ ..] => self.map(number, list),
            ["spanning-tree", "mst", number, "priority", priority]
            | ["stp", "instance", number, "priority", priority]
            | ["msti", number, "bridge-priority", priority] => self.priority(number, priority, 1),
            ["spanning-tree", "instance", number, "priority", step] => self.priority(number, step, 4096),
            ["spanning-tree", "mst" | "msti", number, "cost", cost]
            | ["stp", "instance", number, "cost", cost] => {
                if let Some(name) = at {
                    self.cost(name.clone(), number, cost);
                }
            }
            ["msti", number, "interface", name, "cost", cost]
            | ["spanning-tree", "instance", number, name, "path-cost", cost] => {
                self.cost(interface_name(name), number, cost);
            }
            _ => {}
        }
    }

    fn map(&mut self, number: &str, list: &[&str]) {
        let Ok(number) = number.parse() else { return };
        let own = self.instances.entry(number).or_default();
        let mut first: Option<u16> = None;
        let mut is_range = false;
        for word in list.iter().flat_map(|word| word.split([','])).filter(|word| !word.is_empty()) {
            if word == "to" {
                is_range = true;
                continue;
            }
            let (from, to) = word.split_once('-').unwrap_or((word, word));
            let (Ok(from), Ok(to)) = (from.parse::<u16>(), to.parse::<u16>()) else { continue };
            let from = if is_range { first.unwrap_or(from) } else { from };
            (from..=to).filter_map(crate::plan::VlanId::new).for_each(|vlan| own.insert(vlan));
            (first, is_range) = (Some(to), false);
        }
    }

    fn priority(&mut self, number: &str, priority: &str, unit: u32) {
        let thousands = priority.strip_suffix('k').and_then(|k| k.parse::<u32>().ok()).map(|k| 1024 * k);
        let priority = thousands.or_else(|| priority.parse::<u32>().ok().map(|priority| priority * unit));
        if let (Ok(number), Some(priority)) = (number.parse(), priority) {
            self.priorities.insert(number, priority);
        }
    }

    fn cost(&mut self, name: InterfaceName, number: &str, cost: &str) {
        if let (Ok(number), Ok(cost)) = (number.parse(), cost.parse()) {
            self.costs.insert((name, number), cost);
        }
    }

    fn cost_of(&self, name: &InterfaceName, number: u16) -> Option<u32> {
        let is_same = |known: &InterfaceName| match (known, name) {
            (InterfaceName::Port(a), InterfaceName::Port(b)) => same_port(a, b),
            _ => known == name,
        };
        let own = self.costs.iter().find(|((known, instance), _)| *instance == number && is_same(known));
        own.map(|(_, cost)| *cost)
    }

    /// Differences from the plan: the interface, if it is one's, and the difference.
    pub(super) fn differences(&self, mstp: &Mstp, switch: &SwitchPlan) -> Vec<(Option<String>, String)> {
        let mut all = Vec::new();
        if self.region.as_ref() != Some(&mstp.region) || self.revision.unwrap_or(0) != mstp.revision {
            let region = self.region.as_deref().unwrap_or("without a name");
            let what = format!(
                "is in the MSTP region {region}, revision {}, planned {}, {}: a region of its own",
                self.revision.unwrap_or(0),
                mstp.region,
                mstp.revision
            );
            all.push((None, what));
        }
        let empty = VlanSet::new();
        for instance in &mstp.instances {
            let found = self.instances.get(&instance.number).unwrap_or(&empty);
            if *found != instance.vlans {
                let number = instance.number;
                let found = if found.is_empty() { "none".to_owned() } else { found.to_string() };
                let what = format!("MSTP instance {number} has VLAN {found}, planned {}", instance.vlans);
                all.push((None, what));
            }
            let wanted = u32::from(instance.priority(switch.id));
            let found = self.priorities.get(&instance.number).copied().unwrap_or(32_768);
            if found != wanted {
                let what =
                    format!("has priority {found} in MSTP instance {}, planned {wanted}", instance.number);
                all.push((None, what));
            }
        }
        for number in self
            .instances
            .keys()
            .filter(|&&number| number != 0 && mstp.instances.iter().all(|instance| instance.number != number))
        {
            all.push((
                None,
                format!("has MSTP instance {number}, which is not planned: a region of its own"),
            ));
        }
        let lags = switch.lags.iter().map(|lag| (InterfaceName::Lag(lag.number), lag.role));
        let ports = switch.ports.iter().filter(|port| port.lag.is_none());
        let ports = ports.map(|port| (InterfaceName::Port(port.name.clone()), port.role));
        for (name, role) in lags.chain(ports) {
            let PortRole::Link { link, .. } = role else { continue };
            for instance in &mstp.instances {
                let (number, wanted) = (instance.number, instance.cost(link));
                let found = self.cost_of(&name, number);
                if found != Some(wanted) {
                    let found = found.map_or("the usual".to_owned(), |cost| cost.to_string());
                    let what = format!("costs {found} in MSTP instance {number}, planned {wanted}");
                    all.push((Some(name.to_string()), what));
                }
            }
        }
        all
    }
}

/// LAGs as the makes call them.
fn interface_name(name: &str) -> InterfaceName {
    let lower = name.to_ascii_lowercase();
    let number = ["port-channel", "bridge-aggregation", "eth-trunk", "trk", "ae"]
        .iter()
        .find_map(|lag| lower.strip_prefix(lag).and_then(|number| number.parse().ok()));
    let port = || {
        InterfaceName::Port(
            lower
                .strip_prefix("ethernet")
                .filter(|rest| rest.contains('g'))
                .map_or_else(|| name.to_owned(), str::to_owned),
        )
    };
    number.map_or_else(port, InterfaceName::Lag)
}
