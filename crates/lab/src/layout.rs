//! A plan as namespaces, cables and scripts.

use crate::wire::{End, HostAddress, Job, LagWait, Primed};
use anyhow::{Context, bail};
use ayatori_fabric::dialect::{Dialect, LinuxBridge, bridge_name, lag_name};
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::host;
use ayatori_fabric::plan::{LagPlan, Membership, Plan, Subnet, VlanId};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// A plan with the lab's port names and what is built from it.
#[derive(Debug)]
pub(crate) struct Layout {
    plan: Plan,
    /// By switch: the namespace it is in.
    switch_nodes: Vec<String>,
}

/// Hosts that prime by the script written for hosts; what it starts takes an emulated machine a second a
/// host.
const SCRIPTED_HOST_COUNT_MAX: usize = 8;

impl Layout {
    /// The layout of a plan for any switches: in the lab all are Linux bridges.
    ///
    /// # Errors
    /// Names that cannot be namespaces, or one name for two nodes.
    pub(crate) fn new(plan: &Plan) -> anyhow::Result<Layout> {
        let mut plan = plan.clone();
        for switch in &mut plan.switches {
            switch.dialect = LinuxBridge.name().into();
            for port in &mut switch.ports {
                if switch.inside_host.is_none() {
                    port.name = format!("swp{}", port.number);
                }
            }
        }
        let mut seen = BTreeSet::new();
        let hosts = plan.hosts.iter().map(|host| &host.name);
        let switches =
            plan.switches.iter().filter(|switch| switch.inside_host.is_none()).map(|switch| &switch.name);
        for name in hosts.chain(switches) {
            let is_good = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
                && !name.starts_with(['-', '.'])
                && (1..=64).contains(&name.len());
            if !is_good {
                bail!("{name:?} cannot be a node of the lab; use at most 64 letters, digits, . _ - in names");
            }
            if !seen.insert(name.clone()) {
                bail!("two nodes are called {name}; give the host or the switch another name");
            }
        }
        let switch_nodes = plan
            .switches
            .iter()
            .map(|switch| switch.inside_host.map_or(&switch.name, |host| &plan.host(host).name).clone())
            .collect();
        Ok(Layout { plan, switch_nodes })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn switch_node(&self, switch: SwitchId) -> &str {
        &self.switch_nodes[switch.index()]
    }

    /// Hosts, then the switches that are not inside one.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let hosts = self.plan.hosts.iter().map(|host| host.name.clone());
        let switches = self.plan.switches.iter().filter(|switch| switch.inside_host.is_none());
        hosts.chain(switches.map(|switch| switch.name.clone())).collect()
    }

    pub(crate) fn cables(&self) -> Vec<(End, End)> {
        let mut cables = Vec::new();
        for link in &self.plan.links {
            let [a, b] = &link.ends;
            for (&port_a, &port_b) in a.ports.iter().zip(&b.ports) {
                cables.push((self.switch_end(a.switch, port_a), self.switch_end(b.switch, port_b)));
            }
        }
        for host in &self.plan.hosts {
            for attachment in &host.attachments {
                for (nic, &port) in attachment.nics.iter().zip(&attachment.ports) {
                    let end = End { node: host.name.clone(), port: nic.clone() };
                    cables.push((end, self.switch_end(attachment.switch, port)));
                }
            }
        }
        cables
    }

    /// A port of a switch as an end of a cable.
    pub(crate) fn switch_end(&self, switch: SwitchId, number: u16) -> End {
        let ports = &self.plan.switch(switch).ports;
        let port = ports.iter().find(|port| port.number == number);
        let name = port.map_or_else(|| format!("swp{number}"), |port| port.name.clone());
        End { node: self.switch_node(switch).to_owned(), port: name }
    }

    /// For `/etc/hosts`: a host's later rails have the rail's number behind the name.
    pub(crate) fn names(&self) -> Vec<(Ipv4Addr, String)> {
        let attachments =
            self.plan.hosts.iter().flat_map(|host| host.attachments.iter().map(move |a| (host, a)));
        attachments
            .map(|(host, own)| {
                let name =
                    if own.rail == 0 { host.name.clone() } else { format!("{}-{}", host.name, own.rail) };
                (own.address, name)
            })
            .collect()
    }

    pub(crate) fn rail_count(&self) -> u8 {
        let rails = self.plan.hosts.iter().flat_map(|host| &host.attachments).map(|own| own.rail + 1);
        rails.max().unwrap_or(0)
    }

    /// The hosts' addresses on one rail, in the plan's order.
    pub(crate) fn addresses(&self, rail: u8) -> Vec<HostAddress> {
        let hosts = self.plan.hosts.iter();
        hosts
            .flat_map(|host| {
                let on_rail = host.attachments.iter().filter(move |own| own.rail == rail);
                on_rail.map(|own| HostAddress { node: host.name.clone(), address: own.address })
            })
            .collect()
    }

    /// The address to broadcast from and to: of the subnet a host's application address lies in, or of a
    /// VLAN.
    pub(crate) fn broadcast(
        &self,
        host: &HostAddress,
        vlan: Option<VlanId>,
    ) -> Option<(HostAddress, Ipv4Addr)> {
        let mut all = self.plan.hosts.iter().flat_map(|host| &host.attachments);
        let own = all.find(|own| own.address == host.address)?;
        let Some(vlan) = vlan else {
            let subnet = Subnet { network: own.address, prefix_bits: own.prefix_bits };
            return Some((host.clone(), subnet.broadcast()));
        };
        let interface = self.plan.vlan_interfaces(own).find(|interface| interface.vid == vlan)?;
        let from = HostAddress { node: host.node.clone(), address: interface.address? };
        Some((from, interface.subnet.broadcast()))
    }

    /// Every switch's script, by the dialect real Linux switches get.
    pub(crate) fn switch_jobs(&self) -> anyhow::Result<Vec<Job>> {
        let switches = self.plan.switches.iter();
        switches
            .map(|switch| {
                let config = LinuxBridge.emit(&self.plan, switch.id)?;
                let script = config.files.into_iter().next().context("the dialect wrote no script")?.text;
                Ok(shell_job(self.switch_node(switch.id), script))
            })
            .collect()
    }

    pub(crate) fn host_jobs(&self) -> Vec<Job> {
        let hosts = self.plan.hosts.iter();
        hosts.map(|host| shell_job(&host.name, host::interfaces(&self.plan, host).text)).collect()
    }

    /// The priming script in some hosts of all switches.
    pub(crate) fn prime_jobs(&self) -> Vec<Job> {
        let script = host::priming(&self.plan).remove(0).text;
        let hosts = &self.plan.hosts;
        let step = hosts.len().div_ceil(SCRIPTED_HOST_COUNT_MAX).max(1);
        hosts.iter().step_by(step).map(|host| shell_job(&host.name, script.clone())).collect()
    }

    /// Every host's addresses on the VLANs.
    pub(crate) fn primed(&self) -> Vec<Primed> {
        let hosts = self.plan.hosts.iter();
        hosts
            .map(|host| {
                let own = host.attachments.iter().flat_map(|own| self.plan.vlan_interfaces(own));
                Primed { node: host.name.clone(), addresses: own.filter_map(|own| own.address).collect() }
            })
            .collect()
    }

    /// The LAGs that carry something and negotiate.
    pub(crate) fn lag_waits(&self) -> Vec<LagWait> {
        let mut waits = Vec::new();
        for switch in &self.plan.switches {
            let in_use = |lag: &&LagPlan| lag.lacp && lag.membership != Membership::default();
            for lag in switch.lags.iter().filter(in_use) {
                waits.push(LagWait {
                    node: self.switch_node(switch.id).to_owned(),
                    name: lag_name(lag.number),
                    cable_count: lag.members.len(),
                });
            }
        }
        waits
    }

    /// The user's command in each of the hosts, with where it is in its environment.
    pub(crate) fn command_jobs(&self, hosts: &[String], command: &[String]) -> Vec<Job> {
        let all = self.plan.hosts.iter().enumerate();
        let names = self.plan.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(" ");
        all.filter(|(_, host)| hosts.is_empty() || hosts.contains(&host.name))
            .map(|(index, host)| {
                let address =
                    host.attachments.first().map_or_else(String::new, |own| own.address.to_string());
                let environment = [
                    ("AYATORI_HOST", host.name.clone()),
                    ("AYATORI_HOST_INDEX", index.to_string()),
                    ("AYATORI_HOST_ADDRESS", address),
                    ("AYATORI_HOSTS", names.clone()),
                ];
                let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
                Job {
                    node: host.name.clone(),
                    program: command.to_vec(),
                    environment,
                    input: String::new(),
                    own_sys: true,
                }
            })
            .collect()
    }

    /// Commands that print a switch's state as `ayatori plan check` reads it from a file of this kind, for
    /// every switch in the plan's order.
    pub(crate) fn collect_jobs(&self, file_kind: &str) -> Vec<Job> {
        let switches = self.plan.switches.iter();
        switches
            .map(|switch| {
                let bridge = bridge_name(&self.plan, switch);
                let program = match file_kind {
                    "vlan.json" => vec!["bridge", "-j", "vlan", "show"],
                    "link.json" => vec!["ip", "-j", "-d", "link", "show"],
                    _ => vec!["bridge", "-j", "fdb", "show", "br", bridge.as_str()],
                };
                Job {
                    node: self.switch_node(switch.id).to_owned(),
                    program: program.into_iter().map(str::to_owned).collect(),
                    environment: Vec::new(),
                    input: String::new(),
                    own_sys: false,
                }
            })
            .collect()
    }
}

/// A shell that reads its script from standard input, as `sh -s` does on a switch.
pub(crate) fn shell_job(node: &str, script: String) -> Job {
    Job {
        node: node.to_owned(),
        program: vec!["sh".into(), "-s".into()],
        environment: Vec::new(),
        input: script,
        own_sys: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_fabric::plan::two_switches_and_four_hosts;

    #[test]
    fn every_cable_of_the_plan_is_laid_once() {
        let layout = Layout::new(&two_switches_and_four_hosts()).unwrap();
        assert_eq!(layout.nodes().len(), 6);
        let cables = layout.cables();
        assert_eq!(cables.len(), 2 + 4);
        let ends: BTreeSet<&End> = cables.iter().flat_map(|(a, b)| [a, b]).collect();
        assert_eq!(ends.len(), 12, "no port has two cables");
        assert!(ends.contains(&End { node: "left".into(), port: "swp7".into() }));
    }

    #[test]
    fn a_name_for_two_nodes_is_refused() {
        let mut plan = two_switches_and_four_hosts();
        plan.hosts[0].name = "left".into();
        assert!(Layout::new(&plan).unwrap_err().to_string().contains("two nodes are called left"));
    }
}
