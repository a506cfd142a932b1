//! The plan's cables against what switches hear at their ports.

use std::collections::BTreeMap;

use crate::graph::LinkId;
use crate::plan::{MacAddr, Plan, PortNumber, PortPlan, PortRole, SwitchPlan};

use super::difference::Difference;
use super::observed::same_port;
use super::shown::{Neighbour, Shown};

/// What a switch shows of the far end of a port, held against the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FarEnd {
    /// Nothing is known.
    Unknown,
    /// LLDP shows the planned neighbour, or the port has a link and LLDP shows none.
    AsPlanned,
    /// There is no link.
    NoLink,
    /// LLDP shows another neighbour, with these names.
    Elsewhere(String),
}

/// A neighbour's name of this length may have been cut to the width of its column.
const CUT_NAME_LENGTH_MIN: usize = 12;

/// The far end of a port of `switch`, by `shown`.
pub fn far_end(plan: &Plan, switch: &SwitchPlan, port: &PortPlan, shown: &Shown) -> FarEnd {
    let Some(found) = shown.port(&port.name) else { return FarEnd::Unknown };
    if found.is_up == Some(false) {
        return FarEnd::NoLink;
    }
    let expected = Expected::of(plan, switch, port);
    let others: Vec<&Neighbour> = found.neighbours.iter().filter(|other| !expected.is(other)).collect();
    match others.first() {
        Some(other) if others.len() == found.neighbours.len() => FarEnd::Elsewhere(name_of(other)),
        _ if found.is_up.is_none() && found.neighbours.is_empty() => FarEnd::Unknown,
        _ => FarEnd::AsPlanned,
    }
}

/// Differences between the plan's cables and the neighbours that the switches see, by switch name.
pub fn compare_cables(plan: &Plan, shown: &BTreeMap<String, Shown>) -> Vec<Difference> {
    let mut differences = Vec::new();
    for switch in &plan.switches {
        let Some(shown) = shown.get(&switch.name) else { continue };
        for port in &switch.ports {
            let planned = Expected::of(plan, switch, port).to_string();
            let what = match far_end(plan, switch, port, shown) {
                FarEnd::NoLink if port.role != PortRole::Unused => format!("has no link, planned {planned}"),
                FarEnd::Elsewhere(who) => format!("leads to {who}, planned {planned}"),
                FarEnd::Unknown | FarEnd::AsPlanned
                    if matches!(port.role, PortRole::Link { .. })
                        && shown.port(&port.name).is_none_or(|found| found.neighbours.is_empty()) =>
                {
                    format!("sees no neighbour (LLDP), planned {planned}")
                }
                _ => continue,
            };
            let port = Some(port.name.clone());
            differences.push(Difference { switch: switch.name.clone(), port, what });
        }
    }
    differences
}

fn name_of(neighbour: &Neighbour) -> String {
    match neighbour.ports.first() {
        Some(port) => format!("{} {port}", neighbour.system),
        None => neighbour.system.clone(),
    }
}

/// The neighbour expected at a port.
struct Expected<'a> {
    /// A bridge inside a host may go by either name.
    systems: Vec<&'a str>,
    ports: Vec<&'a str>,
    mac: Option<MacAddr>,
}

impl std::fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.systems.first(), self.ports.first()) {
            (Some(system), Some(port)) => write!(f, "{system} {port}"),
            (Some(system), None) => f.write_str(system),
            (None, _) => f.write_str("unused"),
        }
    }
}

impl<'a> Expected<'a> {
    fn of(plan: &'a Plan, switch: &SwitchPlan, port: &PortPlan) -> Expected<'a> {
        match port.role {
            PortRole::Unused => Expected { systems: Vec::new(), ports: Vec::new(), mac: None },
            PortRole::Host { host, attachment } => {
                let own = plan.host(host).attachments.get(attachment);
                let nic = own.and_then(|own| {
                    let place = own.ports.iter().position(|&number| number == port.number)?;
                    own.nics.get(place).map(String::as_str)
                });
                Expected {
                    systems: vec![&plan.host(host).name],
                    ports: nic.into_iter().collect(),
                    mac: own.and_then(|own| own.mac),
                }
            }
            PortRole::Link { link, peer } => {
                let peer = plan.switch(peer);
                let inside = peer.inside_host.map(|host| plan.host(host).name.as_str());
                let number = other_port(plan, link, switch, port.number);
                let far = peer.ports.iter().find(|port| Some(port.number) == number);
                Expected {
                    systems: std::iter::once(peer.name.as_str()).chain(inside).collect(),
                    ports: far.map(|port| port.name.as_str()).into_iter().collect(),
                    mac: None,
                }
            }
        }
    }

    fn is(&self, neighbour: &Neighbour) -> bool {
        self.systems.iter().any(|name| same_system(name, &neighbour.system)) && self.is_port(&neighbour.ports)
    }

    /// Where a neighbour names its port by an SNMP index or an address alone, which port it is stays open.
    fn is_port(&self, heard: &[String]) -> bool {
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let names_are_numbers = self.ports.iter().any(|port| is_number(port));
        let says_nothing = |name: &str| is_address(name) || (is_number(name) && !names_are_numbers);
        let by_address =
            heard.iter().any(|name| MacAddr::parse(name).is_some_and(|mac| Some(mac) == self.mac));
        let by_name = |port: &&str| heard.iter().any(|name| same_port(port, name));
        by_address
            || heard.iter().all(|name| says_nothing(name))
            || self.ports.is_empty()
            || self.ports.iter().any(by_name)
    }
}

/// The far end's port of the cable that is plugged into `number`.
fn other_port(plan: &Plan, link: LinkId, switch: &SwitchPlan, number: PortNumber) -> Option<PortNumber> {
    let ends = &plan.links[link.index()].ends;
    let own = ends.iter().position(|end| end.switch == switch.id && end.ports.contains(&number))?;
    let cable = ends[own].ports.iter().position(|&port| port == number)?;
    ends[1 - own].ports.get(cable).copied()
}

/// A MAC address, however it is divided.
fn is_address(name: &str) -> bool {
    let digits = name.chars().filter(char::is_ascii_hexdigit).count();
    digits == 12 && name.chars().all(|c| c.is_ascii_hexdigit() || ":-.".contains(c))
}

/// Whether a name means this system: with a domain behind it, in capitals, or cut to its column.
fn same_system(planned: &str, heard: &str) -> bool {
    let [planned, heard] = [planned, heard].map(str::to_ascii_lowercase);
    let is_cut = heard.len() >= CUT_NAME_LENGTH_MIN && planned.starts_with(&heard);
    planned == heard || heard.strip_prefix(&planned).is_some_and(|rest| rest.starts_with('.')) || is_cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    fn told(table: &str) -> Vec<String> {
        let plan = two_switches_and_four_hosts();
        let heads = "Port   Neighbor Device ID   Neighbor Port ID   TTL\n";
        let shown = Shown::parse(&format!("{heads}{table}")).unwrap();
        let shown = BTreeMap::from([("left".to_owned(), shown)]);
        compare_cables(&plan, &shown).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_port_is_known_by_its_name_or_its_address() {
        let mac = MacAddr::parse("02:00:00:00:00:07");
        let numbered = Expected { systems: vec!["left"], ports: vec!["7"], mac };
        let named = Expected { systems: vec!["left"], ports: vec!["ge-0/0/7"], mac };
        let is = |expected: &Expected<'_>, heard: &[&str]| {
            expected.is_port(&heard.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert!(is(&numbered, &["7"]) && !is(&numbered, &["8"]), "a number is its name");
        assert!(is(&named, &["ge-0/0/7"]) && !is(&named, &["ge-0/0/8"]));
        assert!(is(&named, &["512"]), "an SNMP index says nothing");
        assert!(is(&named, &["0200.0000.0007"]) && is(&named, &["ge-0/0/8", "02:00:00:00:00:07"]));
        assert!(!is(&named, &["ge-0/0/8", "02:00:00:00:00:08"]), "another's name and address");
        assert!(is(&named, &["02-00-00-00-00-08"]), "an address alone may be the system's");
        assert!(!is(&named, &["02:00:00:00:00"]), "which is no address");
    }

    #[test]
    fn the_far_port_of_a_cable_is_that_of_its_place_in_the_link() {
        let mut plan = two_switches_and_four_hosts();
        plan.links[0].ends[1].ports = vec![5, 6];
        let far = |switch: usize, port| other_port(&plan, LinkId(0), &plan.switches[switch], port);
        assert_eq!([far(0, 7), far(0, 8), far(1, 5), far(1, 6)], [Some(5), Some(6), Some(7), Some(8)]);
        assert_eq!([far(0, 5), far(1, 7), far(0, 1)], [None; 3]);
    }

    #[test]
    fn a_long_name_may_have_been_cut_and_a_short_one_not() {
        let planned = "switch-in-rack-17";
        for heard in ["switch-in-rack-17", "SWITCH-IN-RACK-17.example.com", "switch-in-ra"] {
            assert!(same_system(planned, heard), "{heard}");
        }
        for heard in ["switch-in-r", "switch", "switch-in-rack-18", "switch-in-rack-171"] {
            assert!(!same_system(planned, heard), "{heard}");
        }
    }

    #[test]
    fn cables_as_planned_are_no_difference() {
        let links = "1/g7   RIGHT.example.com    1/g7               120\n\
            1/g8   right                1/g8               99\n";
        assert_eq!(told(links), Vec::<String>::new());
        // Hosts by a NIC's name or address, or by a number that says nothing.
        let hosts = "1/g1   node0                eth0               120\n\
            1/g2   node1                02:00:00:00:00:01  120\n";
        assert_eq!(told(&format!("{links}{hosts}")), Vec::<String>::new());
    }

    #[test]
    fn crossed_missing_and_stray_cables_are_named() {
        let table = "1/g7   right                1/g8               120\n\
            1/g1   node1                eth0               120\n\
            1/g3   printer              1                  120\n";
        assert_eq!(
            told(table),
            [
                "left 1/g1: leads to node1 eth0, planned node0 eth0",
                "left 1/g3: leads to printer 1, planned unused",
                "left 1/g7: leads to right 1/g8, planned right 1/g7",
                "left 1/g8: sees no neighbour (LLDP), planned right 1/g8",
            ]
        );
    }

    #[test]
    fn ports_without_a_link_are_named_where_that_is_told() {
        let plan = two_switches_and_four_hosts();
        let links = r#"[{"ifname": "1/g1", "flags": ["UP"]}, {"ifname": "1/g5", "flags": ["UP"]}]"#;
        let shown = BTreeMap::from([("left".to_owned(), Shown::parse(links).unwrap())]);
        let told: Vec<String> = compare_cables(&plan, &shown).iter().map(ToString::to_string).collect();
        assert_eq!(told[0], "left 1/g1: has no link, planned node0 eth0");
        assert!(told.iter().all(|line| !line.contains("1/g5")), "{told:?}");
    }
}
