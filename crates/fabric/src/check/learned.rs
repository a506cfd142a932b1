//! Do the switches know the hosts, on every VLAN, behind the right ports? What they do not know they flood.

use std::collections::{BTreeMap, VecDeque};

use crate::graph::{LinkId, SwitchId};
use crate::plan::{MacAddr, Plan, VlanPlan};

use super::difference::Difference;
use super::observed::{InterfaceName, Observed};

/// Compares every collected table with where the plan has the hosts.
pub(super) fn compare(plan: &Plan, observed: &BTreeMap<String, Observed>, differences: &mut Vec<Difference>) {
    let hosts = hosts(plan, observed, differences);
    for switch in &plan.switches {
        let Some(table) = observed.get(&switch.name).and_then(|state| state.table.as_ref()) else { continue };
        let known: BTreeMap<(u16, MacAddr), &InterfaceName> =
            table.iter().map(|entry| ((entry.vlan.get(), entry.mac), &entry.interface)).collect();
        let (mut wanted_count, mut missing) = (0, Vec::new());
        for vlan in &plan.vlans {
            let first_hops = first_hops(plan, vlan, switch.id);
            for host in &hosts {
                let Some(wanted) = expected(plan, switch.id, host, &first_hops) else { continue };
                wanted_count += 1;
                match known.get(&(vlan.vid.get(), host.mac)) {
                    Some(found) if **found == wanted => {}
                    Some(found) => differences.push(Difference {
                        switch: switch.name.clone(),
                        port: None,
                        what: format!(
                            "has learned {} ({}) on VLAN {} at {found}, planned {wanted}: frames take another route",
                            host.name, host.mac, vlan.vid
                        ),
                    }),
                    None => missing.push(format!("{} on VLAN {}", host.name, vlan.vid)),
                }
            }
        }
        if let Some(first) = missing.first() {
            let what = format!(
                "does not know {} of {wanted_count} addresses (the first is {first}) and floods their frames: prime",
                missing.len()
            );
            differences.push(Difference { switch: switch.name.clone(), port: None, what });
        }
    }
}

struct Host {
    name: String,
    mac: MacAddr,
    switch: SwitchId,
    /// Where its own switch has it.
    interface: InterfaceName,
}

/// Hosts with their addresses: as described, or else as its own switch has learned it at the host's port.
fn hosts(plan: &Plan, observed: &BTreeMap<String, Observed>, differences: &mut Vec<Difference>) -> Vec<Host> {
    let mut hosts = Vec::new();
    for host in &plan.hosts {
        for attachment in host.attachments.iter().filter(|attachment| !attachment.ports.is_empty()) {
            let switch = plan.switch(attachment.switch);
            let port = switch.ports.iter().find(|port| Some(&port.number) == attachment.ports.first());
            let Some(port) = port else { continue };
            let interface =
                port.lag.map_or_else(|| InterfaceName::Port(port.name.clone()), InterfaceName::Lag);
            let Some(table) = observed.get(&switch.name).and_then(|state| state.table.as_ref()) else {
                continue;
            };
            let learned = table.iter().find(|entry| entry.interface == interface).map(|entry| entry.mac);
            match attachment.mac.or(learned) {
                Some(mac) => hosts.push(Host { name: host.name.clone(), mac, switch: switch.id, interface }),
                None => differences.push(Difference {
                    switch: switch.name.clone(),
                    port: Some(interface.to_string()),
                    what: format!("has learned no address: {} is down or never primed", host.name),
                }),
            }
        }
    }
    hosts
}

/// Where `switch` is to have learned `host`; `None` if the VLAN does not lead there.
fn expected(
    plan: &Plan,
    switch: SwitchId,
    host: &Host,
    first_hops: &[Option<LinkId>],
) -> Option<InterfaceName> {
    if host.switch == switch {
        return Some(host.interface.clone());
    }
    let link = &plan.links[first_hops[host.switch.index()]?.index()];
    let end = link.ends.iter().find(|end| end.switch == switch)?;
    if let Some(number) = end.lag {
        return Some(InterfaceName::Lag(number));
    }
    let ports = &plan.switch(switch).ports;
    let port = ports.iter().find(|port| Some(&port.number) == end.ports.first())?;
    Some(InterfaceName::Port(port.name.clone()))
}

/// By switch: the link that the way from `from` to it along the tree begins with.
fn first_hops(plan: &Plan, vlan: &VlanPlan, from: SwitchId) -> Vec<Option<LinkId>> {
    let mut next_to = vec![Vec::new(); plan.switches.len()];
    for &link in &vlan.tree {
        let [a, b] = [0, 1].map(|end| plan.links[link.index()].ends[end].switch);
        next_to[a.index()].push((link, b));
        next_to[b.index()].push((link, a));
    }
    let mut hops = vec![None; plan.switches.len()];
    let mut queue = VecDeque::from([(from, None)]);
    while let Some((at, first)) = queue.pop_front() {
        for &(link, to) in &next_to[at.index()] {
            if to != from && hops[to.index()].is_none() {
                let first = first.unwrap_or(link);
                hops[to.index()] = Some(first);
                queue.push_back((to, Some(first)));
            }
        }
    }
    hops
}
