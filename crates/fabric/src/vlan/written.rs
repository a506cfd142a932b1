//! A plan as it was written, for the machine that it was written for.

use crate::description::Machine;
use crate::plan::{Plan, PlanFileError};

use super::assign::{hosts, links};

/// Why a file is not the plan of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrittenError {
    /// It is no plan.
    #[error(transparent)]
    File(#[from] PlanFileError),
    /// It is another machine's, or an earlier one's.
    #[error("was not written for this machine: {0}; continue it with `ayatori plan --from`")]
    OtherMachine(String),
}

/// The plan out of a `plan.json`, with the routes, identifiers and addresses that it was written with,
/// however it came
/// about ([`super::plan_from`], [`super::plan_without`]). The machine is looked at only to see that it
/// is the same:
/// switches, hosts and cables.
///
/// # Errors
/// If the file is no plan, or one of another machine.
pub fn written(machine: &Machine, text: &str) -> Result<Plan, WrittenError> {
    let plan = Plan::parse(text)?;
    match difference(machine, &plan) {
        Some(difference) => Err(WrittenError::OtherMachine(difference)),
        None => Ok(plan),
    }
}

/// The first thing in which machine and plan differ.
fn difference(machine: &Machine, plan: &Plan) -> Option<String> {
    let switches: Vec<&str> = machine.graph.switches().map(|id| machine.graph.name(id.into())).collect();
    let planned: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    let now = hosts(machine, None);
    let names: Vec<&str> = now.iter().map(|host| host.name.as_str()).collect();
    let planned_names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    first_name("switch", &switches, &planned)
        .or_else(|| first_name("host", &names, &planned_names))
        .or_else(|| {
            machine.graph.switches().zip(&plan.switches).find_map(|(id, switch)| {
                let model = machine.switch_model(id);
                let is_same = (switch.dialect.as_str(), switch.ports.len())
                    == (&*model.dialect, usize::from(model.port_count));
                (!is_same).then(|| format!("{} is another model there", switch.name))
            })
        })
        .or_else(|| link_difference(machine, plan))
        .or_else(|| {
            now.iter().zip(&plan.hosts).find_map(|(host, planned)| {
                let cabling = |host: &crate::plan::HostPlan| -> Vec<_> {
                    let own = host.attachments.iter();
                    own.map(|own| (own.interface.clone(), own.switch, own.ports.clone())).collect()
                };
                (cabling(host) != cabling(planned))
                    .then(|| format!("{} is cabled otherwise there", host.name))
            })
        })
}

fn first_name(kind: &str, now: &[&str], planned: &[&str]) -> Option<String> {
    let place = (0..now.len().max(planned.len())).find(|&at| now.get(at) != planned.get(at))?;
    Some(match (now.get(place), planned.get(place)) {
        (Some(name), _) if !planned.contains(name) => format!("it has no {kind} {name}"),
        (_, Some(name)) if !now.contains(name) => format!("its {kind} {name} is not described"),
        _ => format!("its {kind}es are in another order").replace("hostes", "hosts"),
    })
}

fn link_difference(machine: &Machine, plan: &Plan) -> Option<String> {
    let ends = |links: &[crate::plan::LinkPlan]| -> Vec<_> {
        links.iter().map(|link| link.ends.clone().map(|end| (end.switch, end.ports))).collect()
    };
    let (now, planned) = (ends(&links(machine)), ends(&plan.links));
    let place = (0..now.len().max(planned.len())).find(|&at| now.get(at) != planned.get(at))?;
    let name = |end: &(crate::graph::SwitchId, Vec<u16>)| {
        let ports: Vec<String> = end.1.iter().map(u16::to_string).collect();
        format!("{}:{}", plan.switch(end.0).name, ports.join(","))
    };
    let cable = |link: &[(crate::graph::SwitchId, Vec<u16>); 2]| link.each_ref().map(name).join(" - ");
    Some(match (now.get(place), planned.get(place)) {
        (Some(link), _) if !planned.contains(link) => format!("it has no link {}", cable(link)),
        (_, Some(link)) if !now.contains(link) => format!("its link {} is not described", cable(link)),
        _ => "its links are in another order".into(),
    })
}

#[cfg(test)]
mod tests {
    use crate::vlan::plan;

    use super::*;

    #[test]
    fn every_machines_plan_is_read_back_as_it_was() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let machine = Machine::load(&entry.unwrap().path()).unwrap();
            let Ok(made) = plan(&machine) else { continue };
            let text = serde_json::to_string(&made).unwrap();
            let read = written(&machine, &text).unwrap_or_else(|error| panic!("{}: {error}", machine.name));
            assert_eq!(read.choice, made.choice, "{}", machine.name);
            assert_eq!(serde_json::to_string(&read).unwrap(), text, "{}", machine.name);
            count += 1;
        }
        assert!(count > 6, "{count} machines");
    }

    #[test]
    fn a_difference_in_the_first_switch_or_link_is_told() {
        let text = |first: &str, port: u32| {
            format!(
                "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 1\n[host_models.h]\n\
                 nic = [{{ name = \"e\", rate_gbps = 1 }}]\n[topology]\nswitch_model = \"s\"\n\
                 [[switch]]\nname = \"{first}\"\n[[switch]]\nname = \"b\"\n[[cable]]\n\
                 from = \"{first}:{port}\"\nto = \"b:7\"\n[[cable]]\nfrom = \"{first}:6\"\nto = \"b:6\"\n\
                 [hosts]\nmodel = \"h\"\nper_switch = 2\n"
            )
        };
        let machine = |first, port| Machine::parse("m.toml", &text(first, port)).unwrap();
        let plan = serde_json::to_string(&plan(&machine("a", 7)).unwrap()).unwrap();
        assert!(written(&machine("a", 7), &plan).is_ok());
        let said = |first, port| written(&machine(first, port), &plan).unwrap_err().to_string();
        assert!(said("c", 7).contains("it has no switch c"), "{}", said("c", 7));
        assert!(said("a", 5).contains("it has no link a:5 - b:7"), "{}", said("a", 5));
    }
}
