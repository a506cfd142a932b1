//! A plan read back from the `plan.json` that `ayatori plan --out` wrote.

use crate::graph::{HostId, LinkId, SwitchId};

use super::{Plan, PortRole, SwitchPlan, Tagging, VlanChoice};

/// Why a text is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    /// It is something else.
    #[error("is not a plan.json: {0}")]
    Syntax(String),
    /// Its parts do not fit together.
    #[error("is no plan that was written whole: {0}")]
    Broken(String),
    /// An early version left the VLANs of pairs of switches out.
    #[error("does not tell which VLAN hosts tag with: write it again with `ayatori plan --out`")]
    NoChoice,
}

impl Plan {
    /// Reads a `plan.json`. Everything in it refers to something that it has, and the invariants hold
    /// ([`Plan::check_invariants`]); whether trees are trees and the verdicts true is not looked at.
    ///
    /// # Errors
    /// If it is none, or was changed so that its parts no longer fit together.
    pub fn parse(text: &str) -> Result<Plan, PlanFileError> {
        let mut plan: Plan =
            serde_json::from_str(text).map_err(|error| PlanFileError::Syntax(error.to_string()))?;
        let references = References { plan: &plan };
        if let Some(fault) = references.fault() {
            return Err(PlanFileError::Broken(fault));
        }
        if plan.choice == VlanChoice::default() {
            plan.choice = choice_of_ports(&plan)?;
        }
        if let Some(fault) = choice_fault(&plan) {
            return Err(PlanFileError::Broken(fault));
        }
        match plan.check_invariants().into_iter().next() {
            Some(broken) => Err(PlanFileError::Broken(broken)),
            None => Ok(plan),
        }
    }
}

/// What the PVIDs of host ports say: files of early versions have no `choice`.
fn choice_of_ports(plan: &Plan) -> Result<VlanChoice, PlanFileError> {
    if plan.tagging == Tagging::Host {
        return Err(PlanFileError::NoChoice);
    }
    let vlans = plan.attachments().map(|own| {
        let ports = &plan.switch(own.switch).ports;
        let port = ports.iter().find(|port| own.ports.first() == Some(&port.number))?;
        let pvid = port.membership.pvid?;
        plan.vlans.iter().position(|vlan| vlan.vid == pvid).map(|index| index as u16)
    });
    Ok(VlanChoice::BySource(vlans.collect()))
}

fn choice_fault(plan: &Plan) -> Option<String> {
    let switch_count = plan.switches.len();
    let (vlans, expected) = match &plan.choice {
        VlanChoice::BySource(vlans) => (vlans, plan.attachments().count()),
        VlanChoice::ByPair { switch_count: count, vlans } if *count == switch_count => (vlans, count * count),
        VlanChoice::ByPair { switch_count: count, .. } => {
            return Some(format!("`choice` is for {count} switches of {switch_count}"));
        }
    };
    if vlans.len() != expected {
        return Some(format!("`choice` has {} entries in the place of {expected}", vlans.len()));
    }
    let unknown = vlans.iter().flatten().find(|&&vlan| usize::from(vlan) >= plan.vlans.len())?;
    Some(format!("`choice` names VLAN number {unknown} of {}", plan.vlans.len()))
}

/// Everything that refers to a switch, host or link.
struct References<'a> {
    plan: &'a Plan,
}

impl References<'_> {
    fn fault(&self) -> Option<String> {
        let plan = self.plan;
        let links = plan.links.iter().flat_map(|link| &link.ends).find_map(|end| self.switch(end.switch));
        let vlans = plan.vlans.iter().find_map(|vlan| {
            let sources = vlan.sources.iter().find_map(|&switch| self.switch(switch));
            sources.or_else(|| vlan.tree.iter().find_map(|&link| self.link(link)))
        });
        links
            .or(vlans)
            .or_else(|| plan.switches.iter().find_map(|switch| self.switch_fault(switch)))
            .or_else(|| self.attachments())
            .or_else(|| self.figures())
    }

    fn switch(&self, id: SwitchId) -> Option<String> {
        let count = self.plan.switches.len();
        (id.index() >= count).then(|| format!("it names switch {} of {count}", id.0))
    }

    fn host(&self, id: HostId) -> Option<String> {
        let count = self.plan.hosts.len();
        (id.index() >= count).then(|| format!("it names host {} of {count}", id.0))
    }

    fn link(&self, id: LinkId) -> Option<String> {
        let count = self.plan.links.len();
        (id.index() >= count).then(|| format!("it names link {} of {count}", id.0))
    }

    fn switch_fault(&self, switch: &SwitchPlan) -> Option<String> {
        let inside = switch.inside_host.and_then(|host| self.host(host));
        let roles = switch.ports.iter().map(|port| port.role).chain(switch.lags.iter().map(|lag| lag.role));
        inside.or_else(|| roles.into_iter().find_map(|role| self.role(role)))
    }

    fn role(&self, role: PortRole) -> Option<String> {
        match role {
            PortRole::Unused => None,
            PortRole::Host { host, attachment } => self.host(host).or_else(|| {
                let count = self.plan.host(host).attachments.len();
                (attachment >= count).then(|| format!("it names attachment {attachment} of {count}"))
            }),
            PortRole::Link { link, peer } => self.link(link).or_else(|| self.switch(peer)),
        }
    }

    /// Numbers are their places; ports are the switch's.
    fn attachments(&self) -> Option<String> {
        self.plan.hosts.iter().find(|host| host.attachments.is_empty()).map_or_else(
            || {
                self.plan.attachments().enumerate().find_map(|(index, own)| {
                    let number = own.number as usize;
                    let misplaced =
                        (number != index).then(|| format!("attachment {index} is numbered {number}"));
                    misplaced.or_else(|| self.switch(own.switch))
                })
            },
            |host| Some(format!("host {} has no interface", host.name)),
        )
    }

    fn figures(&self) -> Option<String> {
        let plan = self.plan;
        let busiest = plan.figures.busiest.and_then(|busiest| {
            let ends = [busiest.from, busiest.to].into_iter().find_map(|switch| self.switch(switch));
            self.link(busiest.link).or(ends)
        });
        let cycle = plan.verdicts.deadlock.cycle.iter().find_map(|step| {
            let mut switches = [step.from, step.to, step.source, step.destination].into_iter();
            self.link(step.link).or_else(|| switches.find_map(|switch| self.switch(switch)))
        });
        busiest.or(cycle)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::plan::two_switches_and_four_hosts;

    use super::*;

    fn written() -> Value {
        serde_json::to_value(two_switches_and_four_hosts()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = written().to_string();
        let plan = Plan::parse(&text).unwrap();
        assert_eq!(serde_json::to_value(&plan).unwrap(), written());
        assert_eq!(plan.choice, two_switches_and_four_hosts().choice);
    }

    #[test]
    fn the_choice_of_early_files_is_read_from_the_ports() {
        let mut value = written();
        value.as_object_mut().unwrap().remove("choice");
        let plan = Plan::parse(&value.to_string()).unwrap();
        assert_eq!(plan.choice, two_switches_and_four_hosts().choice);
        // Each host by its own port.
        *value.pointer_mut("/switches/0/ports/1/membership/pvid").unwrap() = 102.into();
        let plan = Plan::parse(&value.to_string()).unwrap();
        assert_eq!(plan.choice, VlanChoice::BySource(vec![Some(0), Some(1), Some(1), Some(1)]));
        value["tagging"] = "host".into();
        assert_eq!(Plan::parse(&value.to_string()).unwrap_err(), PlanFileError::NoChoice);
    }

    #[test]
    fn a_choice_by_pair_has_an_entry_for_every_two_switches() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"ring\"\nswitches = 3\n\
             switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 1\n[plan]\ntagging = \"host\"\n";
        let plan = crate::vlan::plan(&crate::description::Machine::parse("m.toml", text).unwrap()).unwrap();
        assert!(matches!(&plan.choice, VlanChoice::ByPair { switch_count: 3, vlans } if vlans.len() == 9));
        let mut value = serde_json::to_value(&plan).unwrap();
        assert_eq!(Plan::parse(&value.to_string()).unwrap().choice, plan.choice);
        value.pointer_mut("/choice/by-pair/vlans").unwrap().as_array_mut().unwrap().pop();
        assert!(Plan::parse(&value.to_string()).is_err());
    }

    #[test]
    fn every_reference_to_nothing_is_refused() {
        for (place, wrong) in [
            ("/links/0/ends/0/switch", json!(2)),
            ("/links/0/ends/0/ports", json!([1])),
            ("/links/0/id", json!(1)),
            ("/vlans/0/tree/0", json!(1)),
            ("/vlans/0/sources/0", json!(9)),
            ("/vlans/0/vid", json!(4095)),
            ("/vlans/0/vid", json!(200)),
            ("/switches/0/inside_host", json!(4)),
            ("/switches/0/ports/0/role/host/host", json!(4)),
            ("/switches/0/ports/0/role/host/attachment", json!(1)),
            ("/switches/0/ports/6/role/link/link", json!(1)),
            ("/switches/0/ports/6/role/link/peer", json!(2)),
            ("/switches/0/ports/0/membership/untagged/0", json!(0)),
            ("/switches/0/lags/0/role/link/peer", json!(2)),
            ("/hosts/0/attachments", json!([])),
            ("/hosts/0/attachments/0/switch", json!(2)),
            ("/hosts/0/attachments/0/number", json!(1)),
            ("/hosts/0/attachments/0/mac", json!("02:00")),
            ("/choice/by-source", json!([0, 0, 1])),
            ("/choice/by-source/0", json!(2)),
            ("/choice", json!({"by-pair": {"switch_count": 3, "vlans": []}})),
            ("/choice", json!({"by-pair": {"switch_count": 2, "vlans": [0]}})),
            ("/figures/busiest", json!({"link": 0, "from": 0, "to": 2})),
        ] {
            let mut value = written();
            *value.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = wrong.clone();
            let read = Plan::parse(&value.to_string());
            assert!(read.is_err(), "{place} = {wrong}");
        }
    }
}
